//! The compact form of a sorted set: a listpack of members, each followed by its score.
//!
//! [`check_listpack`] says what it promises.

use super::tree::compare;
use crate::limits::EncodingLimits;
use crate::listpack::{self, Element, Listpack, Offset};
use crate::value::Digits;
use std::collections::BTreeSet;

/// Calls `with` with the element that a score is kept as: an integer if it is one exactly, else the shortest digits
/// that give it back, with an exponent where they would be many. As in Redis, `-0` becomes 0.
fn with_score_element<R>(score: f64, with: impl FnOnce(Element<'_>) -> R) -> R {
    let integer = score as i64;
    // Two to the power of 63, where the conversion saturates, is not below itself.
    let is_integer = integer as f64 == score && score < i64::MAX as f64;
    if is_integer {
        return with(Element::Integer(integer));
    }
    let has_exponent = score.is_finite() && score != 0.0 && !(1e-5..1e17).contains(&score.abs());
    let text = if has_exponent {
        format!("{score:e}")
    } else {
        format!("{score}")
    };
    with(Element::Bytes(text.as_bytes()))
}

/// The score that an element is; `None` if it is none.
fn read_score(element: Element<'_>) -> Option<f64> {
    match element {
        Element::Integer(number) => Some(number as f64),
        Element::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// Whether `bytes` are the compact form of a sorted set: members and scores by turns, every score in the form in which
/// it is written, none NaN, in ascending order of score and member, and no member twice.
pub(crate) fn check_listpack(bytes: &[u8]) -> bool {
    if !Listpack::check(bytes) || !Listpack::new(bytes).len().is_multiple_of(2) {
        return false;
    }
    let mut elements = Listpack::new(bytes).iter();
    let mut members = BTreeSet::new();
    let mut last: Option<(f64, Vec<u8>)> = None;
    while let (Some(member), Some(element)) = (elements.next(), elements.next()) {
        let Some(score) = read_score(element).filter(|score| !score.is_nan()) else {
            return false;
        };
        let member = member.to_vec();
        let is_canonical = with_score_element(score, |canonical| canonical == element);
        let ascends = last
            .as_ref()
            .is_none_or(|(before, other)| compare((*before, other), (score, &member)).is_lt());
        if !is_canonical || !ascends || !members.insert(member.clone()) {
            return false;
        }
        last = Some((score, member));
    }
    true
}

/// The member at `at` with its score, and the offset of the next.
#[inline]
pub(super) fn pair_at(listpack: Listpack<'_>, at: Offset) -> (Element<'_>, f64, Offset) {
    let (member, at) = listpack.at(at);
    let (element, next) = listpack.at(at);
    let score = read_score(element).expect("every second element of a sorted set in a listpack is a score");
    (member, score, next)
}

/// Where a new member belongs.
pub(super) fn place(listpack: Listpack<'_>, score: f64, member: &[u8]) -> Offset {
    let mut digits = Digits::default();
    let mut at = listpack.start();
    while at < listpack.end() {
        let (other, other_score, next) = pair_at(listpack, at);
        if compare((other_score, other.text(&mut digits)), (score, member)).is_gt() {
            break;
        }
        at = next;
    }
    at
}

pub(super) fn insert_listpack(buffer: &mut impl listpack::Buffer, at: Offset, member: &[u8], score: f64) {
    let at = listpack::insert(buffer, at, member);
    with_score_element(score, |element| listpack::insert_element(buffer, at, element));
}

/// Whether a sorted set of so many members may be kept small.
pub(super) fn fits_listpack(limits: &EncodingLimits, members: usize) -> bool {
    members <= (limits.sorted_set_entries as usize).min(listpack::ENTRIES_MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;

    #[test]
    fn every_score_comes_back_from_the_compact_form_bit_by_bit() {
        let mut scores = vec![
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.1,
            0.1 + 0.2,
            1e-5,
            9.9e-6,
            1e16,
            1e17,
            1.5e17,
            1e21,
            1e-7,
            -1e300,
            f64::MAX,
            f64::MIN_POSITIVE,
            f64::from_bits(1),
            f64::INFINITY,
            f64::NEG_INFINITY,
            9_007_199_254_740_993.0,
            9_223_372_036_854_775_807.0,
            9_223_372_036_854_774_784.0,
            -9_223_372_036_854_775_808.0,
        ];
        let mut prng = Prng::new(9);
        scores.extend(
            (0..20_000)
                .map(|_| f64::from_bits(prng.next_u64()))
                .filter(|score| !score.is_nan()),
        );
        scores.extend((0..20_000).map(|_| (prng.next_u64() as i64 >> prng.below(64)) as f64 / 8.0));
        for score in scores {
            with_score_element(score, |element| {
                assert_eq!(
                    read_score(element).map(f64::to_bits),
                    Some((score + 0.0).to_bits()),
                    "{score}"
                );
                assert_eq!(Element::of(&element.to_vec()), element, "{score}");
                assert!(element.entry_len() <= 26, "{score}");
            });
        }
    }

    fn listpack(elements: &[&str]) -> Vec<u8> {
        let mut bytes = listpack::EMPTY.to_vec();
        elements
            .iter()
            .for_each(|element| listpack::push_back(&mut bytes, element.as_bytes()));
        bytes
    }

    #[test]
    fn only_a_sorted_set_is_the_compact_form_of_one() {
        for good in [
            &[][..],
            &["a", "1"],
            &["a", "1", "b", "1"],
            &["b", "0", "c", "0", "a", "1.5"],
            &["10", "-inf", "9", "1e300", "8", "inf"],
        ] {
            assert!(check_listpack(&listpack(good)), "{good:?}");
        }
        for bad in [
            &["a"][..],
            &["a", "x"],
            &["a", "NaN"],
            &["a", "1.50"],
            &["a", "+1"],
            &["a", "-0"],
            &["a", "infinity"],
            &["a", "100e1"],
            &["a", "2", "b", "1"],
            &["b", "1", "a", "1"],
            &["a", "1", "a", "2"],
            &["a", "1", "a", "1"],
        ] {
            assert!(!check_listpack(&listpack(bad)), "{bad:?}");
        }
        assert!(!check_listpack(b""));
    }
}

//! Elements that stand packed into one string, and what collections are made of them.

use crate::ValueError;
use crate::error::expected;
use crate::input::Budget;
use crate::length::EMPTY;
use std::borrow::Cow;

/// An element of a listpack, a ziplist, a zipmap or an intset. Numbers stand for their decimals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element<'a> {
    Bytes(&'a [u8]),
    Number(i64),
}

impl<'a> Element<'a> {
    pub(crate) fn bytes(self) -> Cow<'a, [u8]> {
        match self {
            Element::Bytes(bytes) => Cow::Borrowed(bytes),
            Element::Number(number) => Cow::Owned(number.to_string().into_bytes()),
        }
    }

    fn score(self) -> Result<f64, ValueError> {
        match self {
            Element::Bytes(bytes) => parse_score(bytes),
            Element::Number(number) => Ok(number as f64),
        }
    }
}

/// Elements one after the other, until what they stand in is over or wrong.
pub(crate) trait Elements<'a>: Iterator<Item = Result<Element<'a>, ValueError>> {}

impl<'a, T: Iterator<Item = Result<Element<'a>, ValueError>>> Elements<'a> for T {}

/// Names, and what each has.
type Pairs<T> = Vec<(Vec<u8>, T)>;

/// A score in decimals.
pub(crate) fn parse_score(text: &[u8]) -> Result<f64, ValueError> {
    let score = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    checked_score(score.ok_or(expected("a score"))?)
}

/// A score, which is a number.
pub(crate) fn checked_score(score: f64) -> Result<f64, ValueError> {
    if score.is_nan() {
        Err(expected("a score that is a number"))
    } else {
        Ok(score)
    }
}

/// Puts the elements behind those that are there.
pub(crate) fn extend_list<'a>(
    list: &mut Vec<Vec<u8>>,
    elements: impl Elements<'a>,
    budget: &mut Budget,
) -> Result<(), ValueError> {
    for element in elements {
        list.push(budget.element(element?.bytes())?);
    }
    Ok(())
}

/// The elements, of which there are some.
pub(crate) fn list<'a>(elements: impl Elements<'a>, budget: &mut Budget) -> Result<Vec<Vec<u8>>, ValueError> {
    let mut list = Vec::new();
    extend_list(&mut list, elements, budget)?;
    if list.is_empty() { Err(EMPTY) } else { Ok(list) }
}

/// Fields and values.
pub(crate) fn hash<'a>(
    elements: impl Elements<'a>,
    budget: &mut Budget,
) -> Result<Pairs<Vec<u8>>, ValueError> {
    pairs(elements, |field, value| {
        Ok((budget.element(field.bytes())?, budget.element(value.bytes())?))
    })
}

/// Members and scores.
pub(crate) fn sorted_set<'a>(
    elements: impl Elements<'a>,
    budget: &mut Budget,
) -> Result<Pairs<f64>, ValueError> {
    pairs(elements, |member, score| {
        Ok((budget.element(member.bytes())?, score.score()?))
    })
}

fn pairs<'a, T>(
    mut elements: impl Elements<'a>,
    mut pair: impl FnMut(Element<'a>, Element<'a>) -> Result<T, ValueError>,
) -> Result<Vec<T>, ValueError> {
    let mut pairs = Vec::new();
    while let Some(first) = elements.next() {
        let first = first?;
        let second = elements.next().ok_or(expected("an even number of elements"))?;
        pairs.push(pair(first, second?)?);
    }
    if pairs.is_empty() { Err(EMPTY) } else { Ok(pairs) }
}

/// That none of these stands there twice. They are sorted for that: a table of them would need a random seed, so that nobody
/// chooses names that all fall into one place of it.
pub(crate) fn check_unique<'a>(names: impl Iterator<Item = &'a [u8]>) -> Result<(), ValueError> {
    let mut names: Vec<&[u8]> = names.collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(expected("no name twice"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_numbers_in_decimals() {
        assert_eq!(parse_score(b"-1.5e3"), Ok(-1500.0));
        assert_eq!(parse_score(b"inf"), Ok(f64::INFINITY));
        assert_eq!(parse_score(b"-inf"), Ok(f64::NEG_INFINITY));
        for other in [&b""[..], b"nan", b"-nan", b"1x", b" 1", b"\xFF"] {
            assert!(parse_score(other).is_err(), "{other:?}");
        }
        assert_eq!(Element::Number(-7).score(), Ok(-7.0));
    }

    #[test]
    fn pairs_are_of_two() {
        let elements = |count| (0..count).map(|number| Ok(Element::Number(number)));
        let budget = &mut Budget::new(1000);
        assert_eq!(
            hash(elements(2), budget).unwrap(),
            [(b"0".to_vec(), b"1".to_vec())]
        );
        assert_eq!(sorted_set(elements(2), budget).unwrap(), [(b"0".to_vec(), 1.0)]);
        assert!(hash(elements(3), budget).is_err());
        assert_eq!(hash(elements(0), budget), Err(EMPTY));
        assert_eq!(list(elements(0), budget), Err(EMPTY));
        assert_eq!(list(elements(1000), budget), Err(ValueError::TooLarge));
    }

    #[test]
    fn a_name_that_stands_there_twice_is_found() {
        let check = |names: &[&[u8]]| check_unique(names.iter().copied());
        assert_eq!(check(&[b"b", b"a", b""]), Ok(()));
        assert!(check(&[b"b", b"a", b"b"]).is_err());
    }
}

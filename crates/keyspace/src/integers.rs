//! Small sets of integers: sorted, all of one width.
//!
//! ```text
//!  1 byte   width of a member: 2, 4 or 8
//!  member*  ascending, little-endian, signed
//! ```
//!
//! The width is that of the widest member there ever was: a set does not get narrower when members go.

use crate::listpack::Buffer;

/// An empty set.
pub(crate) const EMPTY: [u8; 1] = [2];

/// Members that one set may have, whatever the limits say: an insertion moves all that are greater.
pub(crate) const MEMBERS_MAX: usize = 1 << 24;

/// How many members there are.
pub(crate) fn len(bytes: &[u8]) -> usize {
    (bytes.len() - 1) / usize::from(bytes[0])
}

/// Whether `bytes` are such a set.
pub(crate) fn check(bytes: &[u8]) -> bool {
    let Some((&width @ (2 | 4 | 8), members)) = bytes.split_first() else {
        return false;
    };
    members.len().is_multiple_of(usize::from(width))
        && (1..len(bytes)).all(|index| at(bytes, index - 1) < at(bytes, index))
}

/// The member of this index.
pub(crate) fn at(bytes: &[u8], index: usize) -> i64 {
    read(bytes, index, usize::from(bytes[0]))
}

/// The members, ascending.
pub(crate) fn iter(bytes: &[u8]) -> impl Iterator<Item = i64> {
    (0..len(bytes)).map(|index| at(bytes, index))
}

/// The index of `member`, or the one that it would have.
pub(crate) fn find(bytes: &[u8], member: i64) -> Result<usize, usize> {
    let (mut low, mut high) = (0, len(bytes));
    while low < high {
        let middle = low + (high - low) / 2;
        match at(bytes, middle).cmp(&member) {
            std::cmp::Ordering::Equal => return Ok(middle),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

/// Adds `member`; `false` if it is there.
pub(crate) fn insert(buffer: &mut impl Buffer, member: i64) -> bool {
    let Err(index) = find(buffer.bytes(), member) else {
        return false;
    };
    let width = width_of(member);
    if width > usize::from(buffer.bytes()[0]) {
        widen(buffer, width);
    }
    let width = usize::from(buffer.bytes()[0]);
    let offset = 1 + index * width;
    let bytes = buffer.splice(offset..offset, width);
    write(bytes, index, width, member);
    true
}

/// Removes `member`; `false` if it is not there.
pub(crate) fn remove(buffer: &mut impl Buffer, member: i64) -> bool {
    let Ok(index) = find(buffer.bytes(), member) else {
        return false;
    };
    let width = usize::from(buffer.bytes()[0]);
    let offset = 1 + index * width;
    buffer.splice(offset..offset + width, 0);
    true
}

/// Gives every member `width` bytes, more than it has.
fn widen(buffer: &mut impl Buffer, width: usize) {
    let (end, before) = (buffer.bytes().len(), usize::from(buffer.bytes()[0]));
    let count = len(buffer.bytes());
    let bytes = buffer.splice(end..end, count * (width - before));
    // From behind: a member's new place begins where its old one does, or later.
    for index in (0..count).rev() {
        let member = read(bytes, index, before);
        write(bytes, index, width, member);
    }
    bytes[0] = width as u8;
}

fn width_of(member: i64) -> usize {
    if i16::try_from(member).is_ok() {
        2
    } else if i32::try_from(member).is_ok() {
        4
    } else {
        8
    }
}

fn read(bytes: &[u8], index: usize, width: usize) -> i64 {
    let mut number = [0; 8];
    number[8 - width..].copy_from_slice(&bytes[1 + index * width..][..width]);
    i64::from_le_bytes(number) >> (64 - 8 * width)
}

fn write(bytes: &mut [u8], index: usize, width: usize, member: i64) {
    bytes[1 + index * width..][..width].copy_from_slice(&member.to_le_bytes()[..width]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn random_edits_do_what_they_do_to_a_plain_set() {
        for seed in 0..300 {
            let mut prng = Prng::new(seed);
            let (mut bytes, mut model) = (EMPTY.to_vec(), BTreeSet::new());
            // The later a wide member comes, the more of a narrow set is widened.
            let wide_from = prng.below(120);
            for round in 0..200 {
                let bits = if round < wide_from { 60 } else { prng.below(64) };
                let member = prng.next_u64() as i64 >> bits;
                if prng.below(3) > 0 {
                    assert_eq!(insert(&mut bytes, member), model.insert(member), "seed {seed}");
                } else {
                    assert_eq!(remove(&mut bytes, member), model.remove(&member), "seed {seed}");
                }
                assert!(check(&bytes), "seed {seed}: {bytes:?}");
                assert!(iter(&bytes).eq(model.iter().copied()), "seed {seed}");
                assert_eq!(len(&bytes), model.len());
                let probe = prng.next_u64() as i64 >> prng.below(64);
                assert_eq!(find(&bytes, probe).is_ok(), model.contains(&probe));
            }
        }
    }

    #[test]
    fn members_are_as_wide_as_the_widest() {
        let mut bytes = EMPTY.to_vec();
        for (member, width) in [
            (0, 2),
            (i64::from(i16::MAX), 2),
            (i64::from(i16::MIN) - 1, 4),
            (i64::from(i32::MAX), 4),
            (i64::from(i32::MAX) + 1, 8),
            (i64::MIN, 8),
            (i64::MAX, 8),
        ] {
            assert!(insert(&mut bytes, member));
            assert_eq!(bytes[0], width, "{member}");
        }
        assert_eq!(
            iter(&bytes).collect::<Vec<_>>(),
            [
                i64::MIN,
                -32_769,
                0,
                32_767,
                2_147_483_647,
                2_147_483_648,
                i64::MAX
            ]
        );
    }

    #[test]
    fn bytes_that_are_no_set_are_told() {
        assert!(check(&EMPTY));
        for bytes in [&[][..], &[3], &[2, 1], &[2, 1, 0, 1, 0], &[2, 2, 0, 1, 0], &[0]] {
            assert!(!check(bytes), "{bytes:?}");
        }
    }
}

//! Small sets of integers: sorted, all of one width.
//!
//! ```text
//!  1 byte   width of a member: 2, 4 or 8
//!  member*  ascending, little-endian, signed
//! ```

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
    let width = usize::from(bytes[0]);
    let mut number = [0; 8];
    number[8 - width..].copy_from_slice(&bytes[1 + index * width..][..width]);
    i64::from_le_bytes(number) >> (64 - 8 * width)
}

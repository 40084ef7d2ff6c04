//! Bytes that are read from their beginning, and what may be made of them.

use crate::ValueError;
use crate::error::expected;
use std::borrow::Cow;

/// What an element costs beside its bytes: where it stands, and what the allocator adds.
const ELEMENT_COST: usize = 32;

/// The memory that a value may still come to.
pub(crate) struct Budget {
    left: usize,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Budget {
        Budget { left: bytes }
    }

    /// What is left, in bytes.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// These bytes as an element of the value.
    pub(crate) fn element(&mut self, bytes: Cow<'_, [u8]>) -> Result<Vec<u8>, ValueError> {
        self.charge(bytes.len() + ELEMENT_COST)?;
        Ok(bytes.into_owned())
    }

    /// That so many bytes are taken.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), ValueError> {
        self.left = self.left.checked_sub(bytes).ok_or(ValueError::TooLarge)?;
        Ok(())
    }
}

/// Bytes that are read from their beginning.
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    /// What was not read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// How many were not read.
    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn first(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], ValueError> {
        let split = self.rest.split_at_checked(length);
        let (taken, rest) = split.ok_or(expected("as many bytes as were announced"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        let split = self.rest.split_first_chunk();
        let (taken, rest) = split.ok_or(expected("more bytes"))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, ValueError> {
        self.array().map(|[byte]| byte)
    }

    /// A number of so many bytes, the low byte first; the highest bit is its sign.
    pub(crate) fn signed(&mut self, bytes: usize) -> Result<i64, ValueError> {
        let number = self
            .take(bytes)?
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | u64::from(*byte));
        let unused = 64 - 8 * bytes as u32;
        Ok((number << unused) as i64 >> unused)
    }

    /// A number of four bytes, the low byte first.
    pub(crate) fn u32(&mut self) -> Result<u32, ValueError> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of two bytes, the low byte first.
    pub(crate) fn u16(&mut self) -> Result<u16, ValueError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Nothing may be left.
    pub(crate) fn end(&self) -> Result<(), ValueError> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(expected("the end of the value"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_sign_of_its_highest_bit() {
        let read = |bytes: &[u8]| Input::new(bytes).signed(bytes.len());
        assert_eq!(read(b"\xFF"), Ok(-1));
        assert_eq!(read(b"\x7F"), Ok(127));
        assert_eq!(read(b"\x00\x80"), Ok(-32_768));
        assert_eq!(read(b"\x01\x00\x80"), Ok(-8_388_607));
        assert_eq!(read(&[0xFF; 8]), Ok(-1));
        assert_eq!(read(&i64::MIN.to_le_bytes()), Ok(i64::MIN));
    }

    #[test]
    fn elements_stay_within_their_budget() {
        let mut budget = Budget::new(2 * ELEMENT_COST + 3);
        assert_eq!(budget.element(b"abc"[..].into()), Ok(b"abc".to_vec()));
        assert_eq!(budget.element(b"d"[..].into()), Err(ValueError::TooLarge));
        assert_eq!(budget.element(b""[..].into()), Ok(Vec::new()));
        assert_eq!(budget.left(), 0);
    }
}

//! Numbers in an intset, which is what small sets of numbers stand in.
//!
//! ```text
//!   bytes of each u32: 2, 4 or 8 | numbers u32 | number*                   ascending, the low byte first
//! ```

use crate::ValueError;
use crate::error::expected;
use crate::input::Input;
use crate::packed::Element;

/// The numbers of an intset, ascending.
pub(crate) struct Intset<'a> {
    input: Input<'a>,
    /// Bytes of each.
    width: usize,
    /// The one that was read last.
    before: Option<i64>,
}

impl<'a> Intset<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Intset<'a>, ValueError> {
        let mut input = Input::new(bytes);
        let width = match input.u32()? {
            2 => 2,
            4 => 4,
            8 => 8,
            _ => return Err(expected("the width of an intset")),
        };
        let bytes = u64::from(input.u32()?) * width as u64;
        if bytes != input.len() as u64 {
            return Err(expected("an intset of as many numbers as it says"));
        }
        Ok(Intset {
            input,
            width,
            before: None,
        })
    }
}

impl<'a> Iterator for Intset<'a> {
    type Item = Result<Element<'a>, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.input.is_empty() {
            return None;
        }
        let number = self.input.signed(self.width);
        Some(number.and_then(|number| {
            if self.before.is_some_and(|before| before >= number) {
                return Err(expected("an intset in ascending order"));
            }
            self.before = Some(number);
            Ok(Element::Number(number))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<Element<'_>>, ValueError> {
        Intset::open(bytes)?.collect()
    }

    #[test]
    fn numbers_ascend() {
        let numbers = |numbers: [i64; 2]| Ok(numbers.map(Element::Number).to_vec());
        assert_eq!(read(b"\x02\0\0\0\x02\0\0\0\xFF\xFF\x01\0"), numbers([-1, 1]));
        assert_eq!(
            read(b"\x04\0\0\0\x02\0\0\0\0\0\0\x80\x01\0\0\0"),
            numbers([i64::from(i32::MIN), 1])
        );
        for other in [
            &b"\x02\0\0\0\x02\0\0\0\x01\0\x01\0"[..],
            b"\x02\0\0\0\x02\0\0\0\x01\0\xFF\xFF",
            b"\x02\0\0\0\x03\0\0\0\x01\0\x02\0",
            b"\x02\0\0\0\x01\0\0\0\x01\0\x02\0",
            b"\x02\0\0\0\x01\0\0\0\x01",
            b"\x03\0\0\0\0\0\0\0",
            b"\x02\0\0",
        ] {
            assert!(read(other).is_err(), "{other:?}");
        }
    }
}

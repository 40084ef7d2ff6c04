//! Elements in a ziplist, which is what small collections stood in before Redis 7.0.
//!
//! ```text
//!   bytes of all u32 | where the last element begins u32 | elements u16, 65535 if more | element* | 0xFF      the low byte first
//!
//!   element    bytes of the one before: u8, or 0xFE and u32
//!              00nnnnnn                    so many bytes follow
//!              01nnnnnn n                  so many bytes follow, the high byte first
//!              10...... nnnn               so many bytes follow, the high byte first
//!              0xC0 i16  0xD0 i32  0xE0 i64  0xF0 i24  0xFE i8
//!              1111nnnn                    a number: n - 1, of 0 to 12
//! ```

use crate::ValueError;
use crate::error::expected;
use crate::input::Input;
use crate::packed::Element;

/// The number of elements that says that they must be counted.
const COUNT_UNKNOWN: u16 = u16::MAX;

const END: u8 = 0xFF;

/// What says that the length of the element before takes four bytes.
const LONG: u8 = 0xFE;

/// The elements of a ziplist. After an error it is over.
pub(crate) struct Ziplist<'a> {
    /// Without the end.
    input: Input<'a>,
    /// Bytes of all, without the end.
    end: usize,
    /// Where the last element begins, as announced.
    last: u32,
    /// How many elements were announced.
    announced: u16,
    /// How many were read.
    read: usize,
    /// Bytes of the last one that was read.
    before: usize,
    is_over: bool,
}

impl<'a> Ziplist<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Ziplist<'a>, ValueError> {
        let [inner @ .., END] = bytes else {
            return Err(expected("the end of a ziplist"));
        };
        let mut input = Input::new(inner);
        if usize::try_from(input.u32()?) != Ok(bytes.len()) {
            return Err(expected("a ziplist of as many bytes as it says"));
        }
        Ok(Ziplist {
            last: input.u32()?,
            announced: input.u16()?,
            input,
            end: inner.len(),
            read: 0,
            before: 0,
            is_over: false,
        })
    }

    fn element(&mut self) -> Result<Element<'a>, ValueError> {
        let input = &mut self.input;
        let from = input.len();
        let before = match input.byte()? {
            LONG => usize::try_from(input.u32()?).map_err(|_| ValueError::TooLarge)?,
            before => usize::from(before),
        };
        if before != self.before {
            return Err(expected("the length of the element before"));
        }
        let first = input.byte()?;
        let low = first & 0x3F;
        let element = match first {
            0..0x40 => Element::Bytes(input.take(usize::from(low))?),
            0x40..0x80 => {
                let length = u16::from_be_bytes([low, input.byte()?]);
                Element::Bytes(input.take(usize::from(length))?)
            }
            0x80..0xC0 => {
                let length = u32::from_be_bytes(input.array()?);
                let length = usize::try_from(length).map_err(|_| ValueError::TooLarge)?;
                Element::Bytes(input.take(length)?)
            }
            0xC0 => Element::Number(input.signed(2)?),
            0xD0 => Element::Number(input.signed(4)?),
            0xE0 => Element::Number(input.signed(8)?),
            0xF0 => Element::Number(input.signed(3)?),
            0xFE => Element::Number(input.signed(1)?),
            0xF1..0xFE => Element::Number(i64::from(first & 0x0F) - 1),
            _ => return Err(expected("an element of a ziplist")),
        };
        self.before = from - input.len();
        Ok(element)
    }

    /// That what was read is what was announced.
    fn check(&self) -> Result<(), ValueError> {
        // If there is none, it is where it would begin.
        let last = self.end - self.before;
        if usize::try_from(self.last) != Ok(last) {
            return Err(expected("a ziplist whose last element is where it says"));
        }
        if self.announced != COUNT_UNKNOWN && usize::from(self.announced) != self.read {
            return Err(expected("a ziplist of as many elements as it says"));
        }
        Ok(())
    }
}

impl<'a> Iterator for Ziplist<'a> {
    type Item = Result<Element<'a>, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        if !self.input.is_empty() {
            self.read += 1;
            let element = self.element();
            self.is_over = element.is_err();
            return Some(element);
        }
        self.is_over = true;
        self.check().err().map(Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes in front of the elements.
    const HEADER: usize = 10;

    fn elements(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ValueError> {
        Ziplist::open(bytes)?
            .map(|element| element.map(|element| element.bytes().into_owned()))
            .collect()
    }

    /// A ziplist of elements that stand there without the length of the one before.
    fn ziplist(bodies: &[&[u8]], is_long: bool) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        let (mut before, mut last) = (0, HEADER);
        for body in bodies {
            last = bytes.len();
            if before < 254 && !is_long {
                bytes.push(before as u8);
            } else {
                bytes.push(LONG);
                bytes.extend_from_slice(&(before as u32).to_le_bytes());
            }
            bytes.extend_from_slice(body);
            before = bytes.len() - last;
        }
        bytes.push(END);
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&(bodies.len() as u16).to_le_bytes());
        bytes
    }

    #[test]
    fn every_form_of_an_element_is_read() {
        let middle = [&b"\x41\x2C"[..], &[b'm'; 300]].concat();
        let long = [&b"\x80\0\0\x40\x01"[..], &[b'l'; 16_385]].concat();
        let bodies: [&[u8]; 12] = [
            b"\x03abc",
            &middle,
            &long,
            b"\xC0\x00\x80",
            b"\xD0\x00\x00\x00\x80",
            b"\xE0\x00\x00\x00\x00\x00\x00\x00\x80",
            b"\xF0\x00\x00\x80",
            b"\xFE\x80",
            b"\xF1",
            b"\xFD",
            b"\x00",
            b"\xF2",
        ];
        let expected: [&[u8]; 12] = [
            b"abc",
            &middle[2..],
            &long[5..],
            b"-32768",
            b"-2147483648",
            b"-9223372036854775808",
            b"-8388608",
            b"-128",
            b"0",
            b"12",
            b"",
            b"1",
        ];
        for is_long in [false, true] {
            assert!(elements(&ziplist(&bodies, is_long)).unwrap() == expected);
        }
        assert_eq!(elements(&ziplist(&[], false)).unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn every_part_of_the_structure_is_checked() {
        let good = ziplist(&[b"\x03abc", b"\xF8"], false);
        assert_eq!(elements(&good).unwrap(), [&b"abc"[..], b"7"]);
        for (at, byte, part) in [
            (0, 17, "bytes of all"),
            (4, 10, "last element"),
            (8, 1, "elements"),
            (10, 1, "nothing before"),
            (11, 4, "length"),
            (15, 4, "element before"),
            (16, 0xFF, "encoding"),
            (16, 0xC1, "encoding"),
            (17, 0xFE, "end"),
        ] {
            let mut other = good.clone();
            other[at] = byte;
            assert!(elements(&other).is_err(), "{part}");
        }
        let mut unknown = good.clone();
        unknown[8..10].fill(0xFF);
        assert_eq!(elements(&unknown).unwrap().len(), 2);
        for end in 0..good.len() {
            assert!(elements(&good[..end]).is_err(), "{end}");
        }
    }
}

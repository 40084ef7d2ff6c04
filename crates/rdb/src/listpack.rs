//! Elements in a listpack, which is what small collections and parts of streams stand in since Redis 7.0.
//!
//! ```text
//!   bytes of all u32 | elements u16, 65535 if more | element* | 0xFF            numbers: the low byte first
//!
//!   element    0nnnnnnn                    a number
//!              10nnnnnn                    so many bytes follow
//!              110nnnnn n                  a number with a sign, the high bits first
//!              1110nnnn n                  so many bytes follow, the high bits first
//!              0xF0 u32                    so many bytes follow
//!              0xF1 i16  0xF2 i24  0xF3 i32  0xF4 i64
//!   and behind each one how many bytes it took until here, for those who come from the end: seven bits a byte, the high ones
//!   first, bit 7 set in all but the first
//! ```

use crate::ValueError;
use crate::error::expected;
use crate::input::Input;
use crate::length::integer;
use crate::packed::Element;

/// Bytes in front of the elements.
const HEADER: usize = 6;

/// The number of elements that says that they must be counted.
const COUNT_UNKNOWN: u16 = u16::MAX;

const END: u8 = 0xFF;

/// The elements of a listpack. After an error it is over.
pub(crate) struct Listpack<'a> {
    /// Without the end.
    input: Input<'a>,
    /// How many elements were announced.
    announced: u16,
    /// How many were read.
    read: usize,
    is_over: bool,
}

impl<'a> Listpack<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Listpack<'a>, ValueError> {
        let [inner @ .., END] = bytes else {
            return Err(expected("the end of a listpack"));
        };
        let mut input = Input::new(inner);
        if usize::try_from(input.u32()?) != Ok(bytes.len()) {
            return Err(expected("a listpack of as many bytes as it says"));
        }
        Ok(Listpack {
            announced: input.u16()?,
            input,
            read: 0,
            is_over: false,
        })
    }

    fn element(&mut self) -> Result<Element<'a>, ValueError> {
        let input = &mut self.input;
        let before = input.len();
        let first = input.byte()?;
        let element = match first {
            0..0x80 => Element::Number(i64::from(first)),
            0x80..0xC0 => Element::Bytes(input.take(usize::from(first & 0x3F))?),
            0xC0..0xE0 => {
                let number = i16::from_be_bytes([first & 0x1F, input.byte()?]);
                Element::Number(i64::from(number << 3 >> 3))
            }
            0xE0..0xF0 => {
                let length = u16::from_be_bytes([first & 0x0F, input.byte()?]);
                Element::Bytes(input.take(usize::from(length))?)
            }
            0xF0 => {
                let length = usize::try_from(input.u32()?).map_err(|_| ValueError::TooLarge)?;
                Element::Bytes(input.take(length)?)
            }
            0xF1 => Element::Number(input.signed(2)?),
            0xF2 => Element::Number(input.signed(3)?),
            0xF3 => Element::Number(input.signed(4)?),
            0xF4 => Element::Number(input.signed(8)?),
            0xF5.. => return Err(expected("an element of a listpack")),
        };
        let (back, count) = back_length(before - input.len());
        if input.take(count)? != &back[..count] {
            return Err(expected("the length of an element behind it"));
        }
        Ok(element)
    }
}

impl<'a> Iterator for Listpack<'a> {
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
        let is_announced = self.announced == COUNT_UNKNOWN || usize::from(self.announced) == self.read;
        (!is_announced).then_some(Err(expected("a listpack of as many elements as it says")))
    }
}

/// The length of an element as it stands behind it, and how many bytes that takes. The first bounds are one less than seven
/// bits a byte would allow, since Redis's are.
fn back_length(length: usize) -> ([u8; 5], usize) {
    let count = match length {
        0..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        268_435_455.. => 5,
    };
    let mut bytes = [0; 5];
    for (at, byte) in bytes[..count].iter_mut().enumerate() {
        let more = if at == 0 { 0 } else { 0x80 };
        *byte = (length >> (7 * (count - 1 - at)) & 0x7F) as u8 | more;
    }
    (bytes, count)
}

/// A listpack that is being written.
pub(crate) struct ListpackWriter {
    bytes: Vec<u8>,
    count: usize,
}

impl ListpackWriter {
    pub(crate) fn new() -> ListpackWriter {
        ListpackWriter {
            bytes: vec![0; HEADER],
            count: 0,
        }
    }

    /// Bytes so far, with the end.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + 1
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn number(&mut self, number: i64) {
        let from = self.bytes.len();
        match number {
            0..128 => self.bytes.push(number as u8),
            -4096..4096 => {
                let bits = number as u16 & 0x1FFF | 0xC000;
                self.bytes.extend_from_slice(&bits.to_be_bytes());
            }
            -32_768..32_768 => self.low_bytes(0xF1, number, 2),
            -8_388_608..8_388_608 => self.low_bytes(0xF2, number, 3),
            -2_147_483_648..2_147_483_648 => self.low_bytes(0xF3, number, 4),
            _ => self.low_bytes(0xF4, number, 8),
        }
        self.close_element(from);
    }

    fn low_bytes(&mut self, first: u8, number: i64, count: usize) {
        self.bytes.push(first);
        self.bytes.extend_from_slice(&number.to_le_bytes()[..count]);
    }

    /// Bytes, as a number where they are the decimals of one.
    pub(crate) fn element(&mut self, bytes: &[u8]) {
        if let Some(number) = integer(bytes) {
            return self.number(number);
        }
        let from = self.bytes.len();
        match bytes.len() {
            length @ 0..64 => self.bytes.push(0x80 | length as u8),
            length @ 64..4096 => {
                let head = 0xE000 | length as u16;
                self.bytes.extend_from_slice(&head.to_be_bytes());
            }
            length => {
                self.bytes.push(0xF0);
                self.bytes.extend_from_slice(&u32_length(length).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(bytes);
        self.close_element(from);
    }

    fn close_element(&mut self, from: usize) {
        let (back, count) = back_length(self.bytes.len() - from);
        self.bytes.extend_from_slice(&back[..count]);
        self.count += 1;
    }

    /// Writes another number in the place of the first element: both below 128, so that they take as much.
    pub(crate) fn set_first_number(&mut self, number: u8) {
        debug_assert!(number < 128, "it takes one byte");
        if let Some(first) = self.bytes.get_mut(HEADER) {
            *first = number;
        }
    }

    /// The whole of it; what is written next is another one.
    pub(crate) fn finish(&mut self) -> &[u8] {
        self.bytes.push(END);
        let length = u32_length(self.bytes.len());
        let count = u16::try_from(self.count).unwrap_or(COUNT_UNKNOWN);
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..HEADER].copy_from_slice(&count.to_le_bytes());
        &self.bytes
    }

    /// Takes everything out again.
    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(HEADER);
        self.count = 0;
    }
}

fn u32_length(length: usize) -> u32 {
    u32::try_from(length).expect("an entry of a stream comes to less than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ValueError> {
        Listpack::open(bytes)?
            .map(|element| element.map(|element| element.bytes().into_owned()))
            .collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let mut all: Vec<Vec<u8>> = Vec::new();
        for power in 0..64 {
            for offset in [-1, 0, 1] {
                let number = (1u64 << power) as i64;
                all.push(number.wrapping_add(offset).to_string().into_bytes());
                all.push(
                    (number.wrapping_neg())
                        .wrapping_add(offset)
                        .to_string()
                        .into_bytes(),
                );
            }
        }
        let lengths = [
            0, 1, 63, 64, 125, 126, 127, 4095, 4096, 16_377, 16_378, 16_379, 2_097_150,
        ];
        all.extend(lengths.map(|length| vec![b'x'; length]));
        let mut writer = ListpackWriter::new();
        assert!(writer.is_empty());
        for element in &all {
            writer.element(element);
        }
        let length = writer.len();
        assert_eq!(writer.finish().len(), length);
        assert!(elements(writer.finish()).is_err(), "it has two ends");
        writer.bytes.pop();
        writer.bytes.pop();
        assert!(elements(writer.finish()).unwrap() == all);
        writer.clear();
        assert_eq!(elements(writer.finish()).unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn the_count_is_unknown_if_it_is_large() {
        let mut writer = ListpackWriter::new();
        for _ in 0..70_000 {
            writer.number(1);
        }
        let bytes = writer.finish();
        assert_eq!(bytes[4..6], [0xFF, 0xFF]);
        assert_eq!(elements(bytes).unwrap().len(), 70_000);
    }

    #[test]
    fn numbers_in_longer_forms_are_read() {
        let bytes = b"\x13\0\0\0\x02\0\xF4\x07\0\0\0\0\0\0\0\x09\x07\x01\xFF";
        assert_eq!(elements(bytes).unwrap(), [b"7", b"7"]);
    }

    #[test]
    fn every_part_of_the_structure_is_checked() {
        let good = b"\x0E\0\0\0\x02\0\x83abc\x04\x07\x01\xFF";
        assert_eq!(elements(good).unwrap(), [&b"abc"[..], b"7"]);
        for (at, byte, part) in [
            (0, 13, "bytes of all"),
            (4, 1, "elements"),
            (6, 0x84, "length"),
            (10, 5, "back length"),
            (11, 0xF5, "encoding"),
            (13, 0xFE, "end"),
        ] {
            let mut other = *good;
            other[at] = byte;
            assert!(elements(&other).is_err(), "{part}");
        }
        let mut unknown = *good;
        unknown[4..6].fill(0xFF);
        assert_eq!(elements(&unknown).unwrap().len(), 2);
        for end in 0..good.len() {
            assert!(elements(&good[..end]).is_err(), "{end}");
        }
    }
}

//! Lengths, and strings that stand behind theirs.
//!
//! ```text
//!   length   00nnnnnn  |  01nnnnnn n  |  0x80 and four bytes  |  0x81 and eight                 the high byte first
//!   string   length | bytes
//!            0xC0 i8  |  0xC1 i16  |  0xC2 i32                 the number in decimals;           the low byte first
//!            0xC3 length length bytes                          as many bytes as the first length says, which LZF makes as
//!                                                              many of as the second one says
//! ```
//!
//! Any form of a length is taken for any number, as Redis does.

use crate::ValueError;
use crate::error::expected;
use crate::input::{Budget, Input};
use crate::lzf;
use std::borrow::Cow;

/// The longest string that Redis tries to write as a number.
const NUMBER_BYTES_MAX: usize = 11;

const INT8: u8 = 0xC0;
const INT16: u8 = 0xC1;
const INT32: u8 = 0xC2;
const COMPRESSED: u8 = 0xC3;
const LENGTH_32: u8 = 0x80;
const LENGTH_64: u8 = 0x81;

/// A length. Numbers of streams, which are no lengths, are written as such too.
pub(crate) fn read_length(input: &mut Input<'_>) -> Result<u64, ValueError> {
    let first = input.byte()?;
    match (first >> 6, first) {
        (0, _) => Ok(u64::from(first)),
        (1, _) => Ok(u64::from(first & 0x3F) << 8 | u64::from(input.byte()?)),
        (_, LENGTH_32) => input.array().map(u32::from_be_bytes).map(u64::from),
        (_, LENGTH_64) => input.array().map(u64::from_be_bytes),
        (_, _) => Err(expected("a length")),
    }
}

/// How many things follow, each of which takes so many bytes at least: no more than there can be.
pub(crate) fn read_count(input: &mut Input<'_>, bytes_each: usize) -> Result<usize, ValueError> {
    let count = read_length(input)?;
    let most = input.len() / bytes_each;
    usize::try_from(count)
        .ok()
        .filter(|count| *count <= most)
        .ok_or(expected("a count of things that fit into what is there"))
}

/// How many elements of a collection follow, which has some.
pub(crate) fn read_element_count(input: &mut Input<'_>, bytes_each: usize) -> Result<usize, ValueError> {
    let count = read_count(input, bytes_each)?;
    if count == 0 { Err(EMPTY) } else { Ok(count) }
}

/// Redis has no empty collections.
pub(crate) const EMPTY: ValueError = expected("a collection that is not empty");

/// What stands in front of a string.
enum Head {
    /// A number of so many bytes.
    Number(usize),
    /// So many bytes, which LZF makes `length` of.
    Compressed { packed: usize, length: usize },
    /// So many bytes, as they are.
    Plain(usize),
}

fn read_head(input: &mut Input<'_>) -> Result<Head, ValueError> {
    let number = match input.first() {
        Some(INT8) => 1,
        Some(INT16) => 2,
        Some(INT32) => 4,
        Some(COMPRESSED) => {
            input.byte()?;
            let (packed, length) = (read_size(input)?, read_size(input)?);
            return Ok(Head::Compressed { packed, length });
        }
        Some(_) | None => return read_size(input).map(Head::Plain),
    };
    input.byte()?;
    Ok(Head::Number(number))
}

fn read_size(input: &mut Input<'_>) -> Result<usize, ValueError> {
    usize::try_from(read_length(input)?).map_err(|_| ValueError::TooLarge)
}

/// A string. What is made by LZF is held to the budget, but takes nothing of it: that is for what stays.
pub(crate) fn read_string<'a>(input: &mut Input<'a>, budget: &Budget) -> Result<Cow<'a, [u8]>, ValueError> {
    match read_head(input)? {
        Head::Number(bytes) => {
            let number = input.signed(bytes)?;
            Ok(Cow::Owned(number.to_string().into_bytes()))
        }
        Head::Compressed { packed, length } => {
            let packed = input.take(packed)?;
            if length > budget.left() {
                return Err(ValueError::TooLarge);
            }
            lzf::unpack(packed, length).map(Cow::Owned)
        }
        Head::Plain(length) => input.take(length).map(Cow::Borrowed),
    }
}

/// Passes a string over: how many bytes it comes to.
pub(crate) fn string_bytes(input: &mut Input<'_>) -> Result<usize, ValueError> {
    match read_head(input)? {
        Head::Compressed { packed, length } => {
            // What it comes to is known, whether or not the bytes are there.
            let _ = input.take(packed);
            Ok(length)
        }
        Head::Number(length) | Head::Plain(length) => input.take(length).map(<[u8]>::len),
    }
}

/// Takes the string that `rest` begins with, in any form that strings have in payloads. One that LZF made comes to no more than `bytes_max` bytes.
///
/// # Errors
/// If there is none, or it is too long.
pub fn take_string(rest: &mut &[u8], bytes_max: usize) -> Result<Vec<u8>, ValueError> {
    let mut input = Input::new(rest);
    let string = read_string(&mut input, &Budget::new(bytes_max))?.into_owned();
    *rest = input.rest();
    Ok(string)
}

/// Writes a length in its shortest form.
pub(crate) fn write_length(to: &mut Vec<u8>, length: u64) {
    if length < 1 << 6 {
        to.push(length as u8);
    } else if length < 1 << 14 {
        to.extend_from_slice(&(length as u16 | 0x4000).to_be_bytes());
    } else if let Ok(length) = u32::try_from(length) {
        to.push(LENGTH_32);
        to.extend_from_slice(&length.to_be_bytes());
    } else {
        write_long_length(to, length);
    }
}

/// Writes a length in nine bytes, whatever it is.
pub(crate) fn write_long_length(to: &mut Vec<u8>, length: u64) {
    to.push(LENGTH_64);
    to.extend_from_slice(&length.to_be_bytes());
}

/// Writes a string as Redis does without compression.
pub(crate) fn write_string(to: &mut Vec<u8>, bytes: &[u8]) {
    let number = (bytes.len() <= NUMBER_BYTES_MAX)
        .then(|| integer(bytes))
        .flatten();
    match number.map(i32::try_from) {
        Some(Ok(number)) => {
            if let Ok(number) = i8::try_from(number) {
                to.extend_from_slice(&[INT8, number as u8]);
            } else if let Ok(number) = i16::try_from(number) {
                to.push(INT16);
                to.extend_from_slice(&number.to_le_bytes());
            } else {
                to.push(INT32);
                to.extend_from_slice(&number.to_le_bytes());
            }
        }
        Some(Err(_)) | None => {
            write_length(to, bytes.len() as u64);
            to.extend_from_slice(bytes);
        }
    }
}

/// The number that these bytes are the decimals of, if it has no other ones: only then do they come back from the number.
pub(crate) fn integer(bytes: &[u8]) -> Option<i64> {
    const DECIMALS_MAX: usize = 20;
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let is_plain = match digits {
        [b'0'] => digits.len() == bytes.len(),
        [b'1'..=b'9', ..] => bytes.len() <= DECIMALS_MAX,
        _ => false,
    };
    // It takes no sign but the one that was looked at.
    is_plain
        .then(|| str::from_utf8(bytes).ok()?.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_they_are_written() {
        for length in [0, 63, 64, 16_383, 16_384, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            for write in [write_length, write_long_length] {
                let mut bytes = Vec::new();
                write(&mut bytes, length);
                let mut input = Input::new(&bytes);
                assert_eq!(read_length(&mut input), Ok(length));
                assert!(input.is_empty());
                let mut short = Input::new(&bytes[..bytes.len() - 1]);
                assert!(read_length(&mut short).is_err());
            }
        }
        for other in [0x82, 0xBF, INT8, COMPRESSED, 0xFF] {
            assert!(read_length(&mut Input::new(&[other; 16])).is_err());
        }
    }

    #[test]
    fn a_count_is_not_believed_before_the_bytes_are_there() {
        let count = |bytes: &[u8], each| read_count(&mut Input::new(bytes), each);
        assert_eq!(count(b"\x02abcd", 2), Ok(2));
        assert!(count(b"\x02abc", 2).is_err());
        assert!(count(&[0x81, 255, 255, 255, 255, 255, 255, 255, 255, 0], 1).is_err());
        assert_eq!(read_element_count(&mut Input::new(b"\0"), 1), Err(EMPTY));
    }

    #[test]
    fn strings_are_read_as_they_are_written() {
        for (string, bytes) in [
            (&b""[..], &b"\0"[..]),
            (b"abc", b"\x03abc"),
            (b"0", b"\xC0\0"),
            (b"-128", b"\xC0\x80"),
            (b"128", b"\xC1\x80\0"),
            (b"-32769", b"\xC2\xFF\x7F\xFF\xFF"),
            (b"2147483647", b"\xC2\xFF\xFF\xFF\x7F"),
            (b"2147483648", b"\x0A2147483648"),
            (b"-0", b"\x02-0"),
            (b"007", b"\x03007"),
            (b"+7", b"\x02+7"),
        ] {
            let mut written = Vec::new();
            write_string(&mut written, string);
            assert_eq!(written, bytes);
            let mut input = Input::new(&written);
            assert_eq!(read_string(&mut input, &Budget::new(0)).unwrap(), string);
            assert!(input.is_empty());
        }
    }

    #[test]
    fn only_one_spelling_is_a_number() {
        for (bytes, number) in [
            (&b"9223372036854775807"[..], Some(i64::MAX)),
            (b"-9223372036854775808", Some(i64::MIN)),
            (b"9223372036854775808", None),
            (b"10", Some(10)),
            (b"", None),
            (b"-", None),
            (b"-01", None),
            (b"1 ", None),
            (b"1-", None),
            (b"111111111111111111111111111111", None),
        ] {
            assert_eq!(integer(bytes), number);
        }
    }

    #[test]
    fn what_is_unpacked_stays_within_the_budget() {
        let read = |budget| {
            read_string(
                &mut Input::new(b"\xC3\x05\x0A\x01ab\xC0\x01"),
                &Budget::new(budget),
            )
        };
        assert_eq!(read(10).unwrap(), &b"ababababab"[..]);
        assert_eq!(read(9), Err(ValueError::TooLarge));
    }
}

//! Numbers as clients write them.

mod double;
mod long_double;

pub use double::{parse_double, parse_double_prefix};
pub use long_double::LongDouble;

use crate::ReplyError;
use ids::Db;

/// Reads a decimal integer written in its only canonical form: no `+`, no leading zeros, no space, no `-0`.
///
/// The same rule decides which values are stored as integers, so that reading one back gives the same bytes.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', rest @ ..] if rest.len() < 19 => {}
        _ => return None,
    }
    // Nineteen digits stay below 10^19, which 64 unsigned bits hold.
    let mut magnitude = 0u64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// [`parse_i64`] with the error that most commands answer.
#[inline]
pub(crate) fn integer(text: &[u8]) -> Result<i64, ReplyError> {
    parse_i64(text).ok_or(ReplyError::NotAnInteger)
}

/// A number that is not negative, or the error that the command has for all other words.
pub(crate) fn natural(word: &[u8], error: ReplyError) -> Result<u64, ReplyError> {
    let number = parse_i64(word).and_then(|number| u64::try_from(number).ok());
    number.ok_or(error)
}

/// A number of at least one, or the error that the command has for all other words.
pub(crate) fn positive(word: &[u8], error: ReplyError) -> Result<u64, ReplyError> {
    let number = parse_i64(word).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(error)
}

/// Reads the number of a database, with the errors of `SELECT`, `MOVE` and `COPY`.
pub fn parse_db(text: &[u8]) -> Result<Db, ReplyError> {
    let number = i32::try_from(integer(text)?).map_err(|_| ReplyError::NotAnIntInRange)?;
    u8::try_from(number)
        .ok()
        .and_then(Db::new)
        .ok_or(ReplyError::DbOutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_integers_are_read() {
        for (text, value) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("-7", Some(-7)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("9999999999999999999", None),
            ("10000000000000000000", None),
            ("18446744073709551617", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("1a", None),
            ("1.0", None),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn databases_are_refused_in_three_ways() {
        assert_eq!(parse_db(b"15"), Ok(Db::new(15).expect("below 16")));
        assert_eq!(parse_db(b"16"), Err(ReplyError::DbOutOfRange));
        assert_eq!(parse_db(b"-1"), Err(ReplyError::DbOutOfRange));
        assert_eq!(parse_db(b"300"), Err(ReplyError::DbOutOfRange));
        assert_eq!(parse_db(b"4294967296"), Err(ReplyError::NotAnIntInRange));
        assert_eq!(parse_db(b"x"), Err(ReplyError::NotAnInteger));
    }
}

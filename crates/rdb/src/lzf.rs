//! What LZF made smaller.
//!
//! ```text
//!   000nnnnn      n + 1 bytes that follow
//!   nnnooooo o    n + 2 of those that were o + 1 ago; if n is 7, a byte between the two is added to it
//! ```

use crate::ValueError;
use crate::error::expected;
use crate::input::Input;

/// The most that is made of one string: as much as one may have in Redis.
pub(crate) const UNPACKED_MAX: usize = 512 << 20;

/// The bytes again, if they come to `length` of them.
pub(crate) fn unpack(packed: &[u8], length: usize) -> Result<Vec<u8>, ValueError> {
    const WRONG: ValueError = expected("bytes that LZF makes as many of as was announced");
    if length > UNPACKED_MAX {
        return Err(ValueError::TooLarge);
    }
    // It grows as bytes come: what was announced is only believed where they do.
    let mut bytes = Vec::new();
    let mut input = Input::new(packed);
    while let Some(first) = input.first() {
        input.byte()?;
        if first < 0x20 {
            bytes.extend_from_slice(input.take(usize::from(first) + 1)?);
        } else {
            let mut count = usize::from(first >> 5) + 2;
            if count == 9 {
                count += usize::from(input.byte()?);
            }
            let ago = (usize::from(first & 0x1F) << 8 | usize::from(input.byte()?)) + 1;
            let from = bytes.len().checked_sub(ago).ok_or(WRONG)?;
            if count <= ago {
                bytes.extend_from_within(from..from + count);
            } else {
                // What is copied is in part what was just written.
                for at in from..from + count {
                    bytes.push(bytes[at]);
                }
            }
        }
        if bytes.len() > length {
            return Err(WRONG);
        }
    }
    if bytes.len() == length {
        Ok(bytes)
    } else {
        Err(WRONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_may_overlap_themselves() {
        assert_eq!(unpack(b"\x01ab\xC0\x01", 10).unwrap(), b"ababababab");
        assert_eq!(unpack(b"\x02abc\x20\x02", 6).unwrap(), b"abcabc");
        assert_eq!(unpack(b"\0a\xE0\xFF\0", 265).unwrap(), [b'a'; 265]);
        assert_eq!(unpack(b"", 0).unwrap(), b"");
    }

    #[test]
    fn nothing_but_the_announced_length_is_taken() {
        for (packed, length) in [
            (&b"\x01ab\xC0\x01"[..], 9),
            (b"\x01ab\xC0\x01", 11),
            (b"\x01ab\xC0\x02", 10),
            (b"\x01a", 2),
            (b"\x01ab\xC0", 10),
            (b"\x01ab\xE0\x01", 10),
            (b"\x20\0", 3),
        ] {
            assert!(unpack(packed, length).is_err(), "{packed:?} {length}");
        }
        assert_eq!(unpack(b"\0a", UNPACKED_MAX + 1), Err(ValueError::TooLarge));
    }
}

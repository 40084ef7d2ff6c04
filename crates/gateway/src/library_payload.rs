//! Libraries of functions as bytes: what `FUNCTION DUMP` answers, which is how they are kept too.
//!
//! ```text
//!   payload  (245 u8 | source)* | version u16 | CRC-64 of all before u64       numbers: the low byte first
//!   source   length | bytes                                        as Redis writes strings into its own files:
//!   length   00nnnnnn  |  01nnnnnn n  |  0x80 and four bytes  |  0x81 and eight, the high byte first
//!            0xC3 and two lengths: so many bytes, which LZF makes so many of
//! ```
//!
//! Payloads of Redis 7.0 and 7.2 are read, and ours are read by them. Nothing is compressed here. It is total on any bytes.

use crate::library_set::SOURCE_BYTES_MAX;

/// A library follows.
const LIBRARY: u8 = 245;

/// The same in the last candidates before Redis 7.0.
const LIBRARY_BEFORE: u8 = 246;

/// The version of Redis's files that is written: that of 7.0, which both read.
const VERSION: u16 = 10;

/// The newest one that is read: that of 7.2.
const VERSION_MAX: u16 = 11;

/// Bytes behind the libraries.
const FOOTER: usize = 10;

/// What of a length says that LZF made the bytes.
const COMPRESSED: u8 = 0xC3;

/// The sources of libraries as one payload.
pub(crate) fn encode<'a>(sources: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for source in sources {
        payload.push(LIBRARY);
        payload.push(0x80);
        payload.extend_from_slice(&(source.len() as u32).to_be_bytes());
        payload.extend_from_slice(source);
    }
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let sum = crc64(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    payload
}

/// The sources of a payload.
///
/// # Errors
/// What is wrong with it, in Redis's words.
pub(crate) fn decode(payload: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    const NOT_ONE: &str = "ERR DUMP payload version or checksum are wrong";
    let at = payload.len().checked_sub(FOOTER).ok_or(NOT_ONE)?;
    let (mut rest, footer) = payload.split_at(at);
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let sum = footer[2..]
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    if version > VERSION_MAX || sum != crc64(&payload[..at + 2]) {
        return Err(NOT_ONE);
    }
    let mut sources = Vec::new();
    let mut bytes = 0;
    while let Some((kind, behind)) = rest.split_first() {
        match *kind {
            LIBRARY => {}
            LIBRARY_BEFORE => return Err("ERR Pre-GA function format not supported"),
            _ => return Err("ERR given type is not a function"),
        }
        rest = behind;
        let source = read_string(&mut rest).ok_or("ERR Failed loading library data")?;
        bytes += source.len();
        if bytes > SOURCE_BYTES_MAX {
            return Err(crate::library_set::TOO_LARGE);
        }
        sources.push(source);
    }
    Ok(sources)
}

fn read_string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    if rest.first() != Some(&COMPRESSED) {
        let length = read_length(rest)?;
        return take(rest, length).map(<[u8]>::to_vec);
    }
    *rest = &rest[1..];
    let (packed, length) = (read_length(rest)?, read_length(rest)?);
    if length > SOURCE_BYTES_MAX {
        return None;
    }
    unpack(take(rest, packed)?, length)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(taken)
}

fn read_length(rest: &mut &[u8]) -> Option<usize> {
    let first = take(rest, 1)?[0];
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let length = match (first >> 6, first) {
        (0, _) => u64::from(first),
        (1, _) => u64::from(first & 0x3F) << 8 | number(take(rest, 1)?),
        (_, 0x80) => number(take(rest, 4)?),
        (_, 0x81) => number(take(rest, 8)?),
        // A number, which is no source.
        (_, _) => return None,
    };
    usize::try_from(length).ok()
}

/// What LZF made smaller, if it comes to so many bytes.
///
/// ```text
///   000nnnnn  n + 1 bytes                     nnnooooo o  n + 2 of those that were o + 1 ago; if n is 7, a byte is added to it
/// ```
fn unpack(packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let rest = &mut { packed };
    while !rest.is_empty() {
        let first = take(rest, 1)?[0];
        if first < 0x20 {
            bytes.extend_from_slice(take(rest, usize::from(first) + 1)?);
        } else {
            let mut count = usize::from(first >> 5);
            if count == 7 {
                count += usize::from(take(rest, 1)?[0]);
            }
            let ago = usize::from(first & 0x1F) << 8 | usize::from(take(rest, 1)?[0]);
            let from = bytes.len().checked_sub(ago + 1)?;
            // What is copied may be what was just written.
            for at in from..from + count + 2 {
                bytes.push(bytes[at]);
            }
        }
        if bytes.len() > length {
            return None;
        }
    }
    (bytes.len() == length).then_some(bytes)
}

/// Redis's CRC-64: of Jones, reflected, from 0.
fn crc64(bytes: &[u8]) -> u64 {
    const REFLECTED: u64 = 0x95AC_9329_AC4B_C9B5;
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let mut sum = byte as u64;
            let mut bit = 0;
            while bit < 8 {
                sum = if sum & 1 == 1 {
                    sum >> 1 ^ REFLECTED
                } else {
                    sum >> 1
                };
                bit += 1;
            }
            table[byte] = sum;
            byte += 1;
        }
        table
    };
    bytes
        .iter()
        .fold(0, |sum, byte| sum >> 8 ^ TABLE[usize::from(sum as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes in front of a footer.
    fn with_footer(libraries: &[u8], version: u16) -> Vec<u8> {
        let mut payload = [libraries, &version.to_le_bytes()].concat();
        payload.extend_from_slice(&crc64(&payload).to_le_bytes());
        payload
    }

    #[test]
    fn the_sum_is_redis_s() {
        assert_eq!(crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
    }

    #[test]
    fn what_is_written_is_read_again_and_nothing_else() {
        let sources = [&b"#!lua name=a\n"[..], &[b'x'; 70_000]];
        let payload = encode(sources.into_iter());
        assert_eq!(decode(&payload).unwrap(), sources);
        assert_eq!(decode(&encode([].into_iter())).unwrap(), Vec::<Vec<u8>>::new());
        for at in 0..payload.len().min(60) {
            let mut other = payload.clone();
            other[at] ^= 0x10;
            assert!(decode(&other).is_err(), "{at}");
        }
        assert!(decode(b"bad_payload").is_err());
        assert!(decode(b"").is_err());
    }

    #[test]
    fn lengths_and_what_is_compressed_are_read_as_redis_writes_them() {
        let read = |libraries: &[u8]| decode(&with_footer(libraries, VERSION_MAX));
        assert_eq!(read(b"\xF5\x03abc").unwrap(), [b"abc"]);
        assert_eq!(read(b"\xF5\x40\x03abc").unwrap(), [b"abc"]);
        assert_eq!(read(b"\xF5\x81\0\0\0\0\0\0\0\x03abc").unwrap(), [b"abc"]);
        // `ab`, then eight of those that were two ago.
        assert_eq!(read(b"\xF5\xC3\x05\x0A\x01ab\xC0\x01").unwrap(), [b"ababababab"]);
        for (libraries, error) in [
            (&b"\xF5\x04abc"[..], "ERR Failed loading library data"),
            (b"\xF5\xC0\x07", "ERR Failed loading library data"),
            (
                b"\xF5\xC3\x05\x09\x01ab\xC0\x01",
                "ERR Failed loading library data",
            ),
            (
                b"\xF5\xC3\x05\x0A\x01ab\xC0\x02",
                "ERR Failed loading library data",
            ),
            (b"\xF6\x03abc", "ERR Pre-GA function format not supported"),
            (b"\0\x03abc", "ERR given type is not a function"),
        ] {
            assert_eq!(read(libraries).unwrap_err(), error, "{libraries:?}");
        }
        let newer = with_footer(b"", VERSION_MAX + 1);
        assert!(decode(&newer).is_err());
    }
}

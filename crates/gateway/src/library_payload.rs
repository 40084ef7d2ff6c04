//! Libraries of functions as bytes: what `FUNCTION DUMP` answers, which is how they are kept too.
//!
//! ```text
//!   payload  (245 u8 | source)* | version u16 | CRC-64 of all before u64       numbers: the low byte first
//!   source   a string as Redis writes them into its own files (`rdb/length.rs`), and no number
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

/// The sources of libraries as one payload.
pub(crate) fn encode<'a>(sources: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for source in sources {
        payload.push(LIBRARY);
        payload.push(0x80);
        payload.extend_from_slice(&(source.len() as u32).to_be_bytes());
        payload.extend_from_slice(source);
    }
    rdb::close(&mut payload, VERSION);
    payload
}

/// The sources of a payload.
///
/// # Errors
/// What is wrong with it, in Redis's words.
pub(crate) fn decode(payload: &[u8]) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut rest = rdb::open(payload).map_err(|_| "ERR DUMP payload version or checksum are wrong")?;
    let mut sources = Vec::new();
    let mut bytes = 0;
    while let Some((kind, behind)) = rest.split_first() {
        match *kind {
            LIBRARY => {}
            LIBRARY_BEFORE => return Err("ERR Pre-GA function format not supported"),
            _ => return Err("ERR given type is not a function"),
        }
        rest = behind;
        let is_number = matches!(rest.first(), Some(0xC0..=0xC2));
        let source = rdb::take_string(&mut rest, SOURCE_BYTES_MAX)
            .ok()
            .filter(|_| !is_number)
            .ok_or("ERR Failed loading library data")?;
        bytes += source.len();
        if bytes > SOURCE_BYTES_MAX {
            return Err(crate::library_set::TOO_LARGE);
        }
        sources.push(source);
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The newest version that is read: that of Redis 7.2.
    const VERSION_MAX: u16 = 11;

    /// Bytes in front of a footer.
    fn with_footer(libraries: &[u8], version: u16) -> Vec<u8> {
        let mut payload = libraries.to_vec();
        rdb::close(&mut payload, version);
        payload
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

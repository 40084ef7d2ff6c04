//! A segment: one file of a worker's log.
//!
//! ```text
//!   0  title     8 bytes; the format's version is among them
//!   8  cluster   u128
//!  24  node      u64
//!  32  start     u64, counts the starts of the node
//!  40  number    u64, counts the segments of the worker
//!  48  seal      u64, of this use of the file: remnants of an earlier one do not pass
//!  56  worker    u16
//!  58  checksum  u32, CRC32C of the above
//!  62  bytes     u64, of the whole file: one that is shorter was cut
//!  70  checksum  u32, CRC32C of all of the above; zero, as `bytes` is, where an earlier build has written it
//!  74  zeros, to the end of the block; frames follow
//! ```

use super::LogIdentity;
use crate::error::StorageError;
use codec::Damage;
use codec::{Reader, Writer};
use ids::{ClusterId, NodeId, Prng};

/// Bytes that are written together; the head has one for itself.
pub(crate) const BLOCK_BYTES: u64 = 4096;
const TITLE: [u8; 8] = *b"ChorLG02";
/// Of a version that is read too: it had no short records, and was the same otherwise.
const TITLE_BEFORE: [u8; 8] = *b"ChorLG01";
/// What titles of all versions begin with.
const ANY_TITLE: [u8; 6] = *b"ChorLG";
const HEAD_BYTES: usize = 62;
/// With the size of the file, and its checksum.
const SIZED_HEAD_BYTES: usize = 74;

/// What a segment says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHead {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) start: u64,
    pub(crate) number: u64,
    pub(crate) seal: u64,
    pub(crate) worker: u16,
    /// Of the file, from when it was made. 0: nobody has said.
    pub(crate) bytes: u64,
}

/// A name of a file, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SegmentName {
    pub(crate) worker: u16,
    pub(crate) number: u64,
    /// Whether it is a segment, and not one that is being made or waits to be used again.
    pub(crate) is_segment: bool,
}

/// The name of a segment.
pub(crate) fn name(worker: u16, number: u64) -> String {
    format!("log-{worker:05}-{number:012}")
}

/// The name of a file that was a segment and can become another one.
pub(crate) fn spare_name(worker: u16, number: u64) -> String {
    format!("{}.spare", name(worker, number))
}

/// What a name says; `None` if it is none of a log.
pub(crate) fn parse_name(text: &str) -> Option<SegmentName> {
    let whole = text;
    let (text, is_segment) = match text.strip_suffix(".spare").or(text.strip_suffix(".new")) {
        Some(text) => (text, false),
        None => (text, true),
    };
    let (worker, number) = text.strip_prefix("log-")?.split_once('-')?;
    let (worker, number) = (worker.parse().ok()?, number.parse().ok()?);
    whole.starts_with(&name(worker, number)).then_some(SegmentName {
        worker,
        number,
        is_segment,
    })
}

/// The next place at which a block begins.
pub(crate) fn next_block(offset: u64) -> u64 {
    offset.next_multiple_of(BLOCK_BYTES)
}

impl SegmentHead {
    /// Of the segment with this number.
    pub(crate) fn new(identity: &LogIdentity, number: u64) -> SegmentHead {
        // Mixed step by step: two that differ in one of these differ in the seal, but for one case in 2^64.
        let token = identity.token.0;
        let parts = [token as u64, (token >> 64) as u64, identity.worker.into(), number];
        let seal = parts
            .iter()
            .fold(0, |seal, part| Prng::new(seal ^ part).next_u64());
        SegmentHead {
            cluster: identity.cluster,
            node: identity.node,
            start: identity.start,
            number,
            seal,
            worker: identity.worker,
            bytes: 0,
        }
    }

    pub(crate) fn name(&self) -> String {
        name(self.worker, self.number)
    }

    /// The first block of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK_BYTES as usize);
        block.raw(&TITLE);
        block.u128(self.cluster.0);
        block.u64s(&[self.node.0, self.start, self.number, self.seal]);
        block.u16(self.worker);
        let check = crc32c::crc32c(&block);
        block.u32(check);
        if self.bytes > 0 {
            block.u64(self.bytes);
            let check = crc32c::crc32c(&block);
            block.u32(check);
        }
        block.resize(BLOCK_BYTES as usize, 0);
        block
    }

    /// Reads what [`SegmentHead::encode`] wrote.
    ///
    /// # Errors
    /// [`StorageError::Newer`] if a later version wrote it, [`StorageError::Damaged`] if nobody did.
    pub(crate) fn decode(file: &str, bytes: &[u8]) -> Result<SegmentHead, StorageError> {
        let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
            let found = format!("the end of the file after {}", bytes.len());
            return Err(Damage::new(file, 0, format!("a head of {HEAD_BYTES} bytes"), found).into());
        };
        let mut reader = Reader::new(head);
        let mut fields = || -> Result<_, codec::DecodeError> {
            let title: [u8; 8] = reader.array()?;
            let head = SegmentHead {
                cluster: ClusterId(reader.u128()?),
                node: NodeId(reader.u64()?),
                start: reader.u64()?,
                number: reader.u64()?,
                seal: reader.u64()?,
                worker: reader.u16()?,
                bytes: sized(bytes),
            };
            Ok((title, head, reader.u32()?))
        };
        let (title, this, found) = fields().expect("all fields lie in the head");
        let checksum = |title: &[u8]| crc32c::crc32c_append(crc32c::crc32c(title), &head[8..HEAD_BYTES - 4]);
        let is_known = title == TITLE || title == TITLE_BEFORE;
        let expected = checksum(if title == TITLE_BEFORE {
            &TITLE_BEFORE
        } else {
            &TITLE
        });
        let is_intact = found == expected;
        if !is_known {
            // A damaged title stands before fields that are those of this version.
            let version = std::str::from_utf8(&title[6..])
                .ok()
                .and_then(|text| text.parse().ok());
            let is_intact = is_intact || found == checksum(&TITLE_BEFORE);
            if let (Some(version), false, true) = (version, is_intact, title.starts_with(&ANY_TITLE)) {
                let file = file.to_owned();
                return Err(StorageError::Newer { file, version });
            }
            let show = |bytes: &[u8]| format!("{:?}", bytes.escape_ascii().to_string());
            return Err(Damage::new(file, 0, show(&TITLE), show(&title)).into());
        }
        if !is_intact {
            let expected = format!("a head with checksum {expected:08x}");
            return Err(Damage::new(file, HEAD_BYTES as u64 - 4, expected, format!("{found:08x}")).into());
        }
        let named = this.name();
        if named != file {
            return Err(Damage::new(file, 0, "the head of this file", format!("that of {named}")).into());
        }
        Ok(this)
    }
}

/// What a head says of the size of its file; 0 if it says nothing that can be trusted.
fn sized(bytes: &[u8]) -> u64 {
    let Some(head) = bytes.first_chunk::<SIZED_HEAD_BYTES>() else {
        return 0;
    };
    let (whole, mut tail) = (&head[..SIZED_HEAD_BYTES - 4], Reader::new(&head[HEAD_BYTES..]));
    match (tail.u64(), tail.u32()) {
        (Ok(bytes), Ok(check)) if check == crc32c::crc32c(whole) => bytes,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Token;

    fn head(number: u64) -> SegmentHead {
        let identity = LogIdentity {
            cluster: ClusterId(7),
            node: NodeId(8),
            worker: 3,
            token: Token(1 << 90),
            start: 4,
        };
        SegmentHead::new(&identity, number)
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_no_other_is() {
        let block = head(5).encode();
        let name = "log-00003-000000000005";
        assert_eq!(SegmentHead::decode(name, &block).unwrap(), head(5));
        assert!(SegmentHead::decode("log-00003-000000000006", &block).is_err());
        for at in 0..HEAD_BYTES {
            for bit in 0..8 {
                let mut block = block.clone();
                block[at] ^= 1 << bit;
                let error = SegmentHead::decode(name, &block).unwrap_err();
                assert!(matches!(error, StorageError::Damaged(_)), "{error}");
            }
        }
        assert_ne!(head(5).seal, head(6).seal);
    }

    #[test]
    fn the_size_of_the_file_is_said_and_a_damaged_one_is_not() {
        let head = SegmentHead {
            bytes: 1 << 26,
            ..head(5)
        };
        let (block, name) = (head.encode(), "log-00003-000000000005");
        assert_eq!(SegmentHead::decode(name, &block).expect("it is whole"), head);
        for at in HEAD_BYTES..SIZED_HEAD_BYTES {
            let mut block = block.clone();
            block[at] ^= 1;
            let found = SegmentHead::decode(name, &block).expect("what stands before is whole");
            assert_eq!(found.bytes, 0);
        }
    }

    #[test]
    fn the_version_before_is_read_and_a_title_of_the_other_one_is_damage() {
        let mut block = head(5).encode();
        let name = "log-00003-000000000005";
        block[..8].copy_from_slice(&TITLE_BEFORE);
        assert!(matches!(
            SegmentHead::decode(name, &block),
            Err(StorageError::Damaged(_))
        ));
        let check = crc32c::crc32c(&block[..HEAD_BYTES - 4]);
        block[HEAD_BYTES - 4..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
        assert_eq!(SegmentHead::decode(name, &block).unwrap(), head(5));
        block[..8].copy_from_slice(&TITLE);
        assert!(matches!(
            SegmentHead::decode(name, &block),
            Err(StorageError::Damaged(_))
        ));
        block[7] = b'7';
        assert!(matches!(
            SegmentHead::decode(name, &block),
            Err(StorageError::Damaged(_))
        ));
    }

    #[test]
    fn a_later_version_is_named() {
        let mut block = head(5).encode();
        block[..8].copy_from_slice(b"ChorLG12");
        block[58] ^= 1;
        let error = SegmentHead::decode("log-00003-000000000005", &block).unwrap_err();
        assert!(
            matches!(error, StorageError::Newer { version: 12, .. }),
            "{error}"
        );
    }

    #[test]
    fn names_are_taken_apart_and_others_are_none() {
        for (text, number, is_segment) in [
            (name(3, 5), 5, true),
            (spare_name(3, 5), 5, false),
            (format!("{}.new", name(3, 6)), 6, false),
        ] {
            let expected = SegmentName {
                worker: 3,
                number,
                is_segment,
            };
            assert_eq!(parse_name(&text), Some(expected), "{text}");
        }
        for other in [
            "log",
            "log-1-1",
            "log-00003-1",
            "meta-log",
            "log-00003-000000000005x",
        ] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}

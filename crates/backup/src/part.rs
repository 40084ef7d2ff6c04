//! A part file: the objects of one partition at one instant, in one form.
//!
//! ```text
//!  title | block  block  ...  block | footer
//!  title   ChorPT01
//!  block   stored length u32 | raw length u32 | flags u8 | CRC32C u32 | stored bytes
//!  flags   0 the bytes as they are | 1 an LZ4 block | 2 the footer
//!  footer  partition u16 | partitions u16 | keys u64 | raw bytes u64 | CRC32C of the raw stream u32
//!
//!  raw stream, cut into blocks wherever they are full    record | record | ...
//!  record  db u8 | head length u32 | head | value length u64 | value
//!  head    key (length u32 | bytes) | flags u8 | deadline i64 | form u8        keyspace/object_codec.rs
//! ```
//!
//! The CRC32C of a block is that of its number in the file (u64, from 0), both lengths, the flags and the stored bytes: a block that is
//! missing, twice there, or in another place does not pass.
//!
//! 1. **Equal objects make equal bytes**, whichever replica wrote them: records stand in the order of (db, hash of the key, key),
//!    all blocks but the last are full, a block is compressed exactly where that makes it shorter, nothing says who wrote the file
//!    or when. So an unchanged partition has the name of the part that a target has already.
//! 2. Nothing is in memory but a block or two, however long a value is.
//! 3. The footer is the last thing in the file.
//!
//! Absent: the seed of the hash (a reader needs no order), versions of objects (a cluster that takes them gives its own), and what is
//! no object: sessions, locks, channels.

use std::fmt;
use std::str::FromStr;

/// Bytes 0..8 of the file; the version of the format is among them.
pub(crate) const TITLE: [u8; 8] = *b"ChorPT01";

/// Bytes of the raw stream in one block: what a reader holds, and what one damaged bit costs to find.
pub(crate) const BLOCK_BYTES_MAX: usize = 256 * 1024;

/// Both lengths, flags, checksum.
pub(crate) const BLOCK_HEAD_BYTES: usize = 13;
pub(crate) const FOOTER_BYTES: usize = 24;

/// Flags of a block.
pub(crate) const PLAIN: u8 = 0;
pub(crate) const COMPRESSED: u8 = 1;
pub(crate) const FOOTER: u8 = 2;

/// What stands in front of a block's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHead {
    pub(crate) stored: u32,
    pub(crate) raw: u32,
    pub(crate) flags: u8,
    pub(crate) checksum: u32,
}

impl BlockHead {
    /// Of the block with this number that is stored as `bytes`.
    pub(crate) fn of(number: u64, bytes: &[u8], raw: usize, flags: u8) -> BlockHead {
        let mut head = BlockHead {
            stored: bytes.len() as u32,
            raw: raw as u32,
            flags,
            checksum: 0,
        };
        head.checksum = head.checksum_over(number, bytes);
        head
    }

    /// The checksum that it is to have.
    pub(crate) fn checksum_over(&self, number: u64, bytes: &[u8]) -> u32 {
        let sum = crc32c::crc32c(&number.to_le_bytes());
        let sum = crc32c::crc32c_append(sum, &self.encode()[..BLOCK_HEAD_BYTES - size_of::<u32>()]);
        crc32c::crc32c_append(sum, bytes)
    }

    pub(crate) fn decode(bytes: &[u8; BLOCK_HEAD_BYTES]) -> BlockHead {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        BlockHead {
            stored: number(0),
            raw: number(4),
            flags: bytes[8],
            checksum: number(9),
        }
    }

    pub(crate) fn encode(&self) -> [u8; BLOCK_HEAD_BYTES] {
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        bytes[..4].copy_from_slice(&self.stored.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.raw.to_le_bytes());
        bytes[8] = self.flags;
        bytes[9..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }
}

/// What a part came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartSummary {
    /// The partition whose objects it has.
    pub partition: u16,
    /// SHA-256 of the file.
    pub sha256: [u8; 32],
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of all records.
    pub raw_bytes: u64,
    /// How many objects there are, in all databases.
    pub keys: u64,
}

impl PartSummary {
    /// What a target calls it.
    pub fn name(&self) -> PartName {
        PartName {
            partition: self.partition,
            sha256: self.sha256,
        }
    }
}

/// The name of a part: which partition's, and what is in it. `PPPPP-` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PartName {
    /// The partition.
    pub partition: u16,
    /// SHA-256 of the file.
    pub sha256: [u8; 32],
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:05}-{}", self.partition, hex(&self.sha256))
    }
}

impl FromStr for PartName {
    type Err = ();

    /// Only what [`PartName`] writes itself.
    fn from_str(text: &str) -> Result<PartName, ()> {
        let (partition, digest) = text.split_once('-').ok_or(())?;
        let name = PartName {
            partition: partition.parse().map_err(|_| ())?,
            sha256: read_hex(digest).ok_or(())?,
        };
        if name.to_string() == text {
            Ok(name)
        } else {
            Err(())
        }
    }
}

/// As two digits a byte, in lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}

/// What [`hex`] wrote of 32 bytes.
pub(crate) fn read_hex(text: &str) -> Option<[u8; 32]> {
    let (mut bytes, digits) = ([0; 32], text.as_bytes());
    if digits.len() != 64 || digits.iter().any(u8::is_ascii_uppercase) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_in_no_other_form() {
        let mut sha256 = [0xa5; 32];
        sha256[0] = 0x0f;
        let name = PartName {
            partition: 42,
            sha256,
        };
        let text = name.to_string();
        assert_eq!(text, format!("00042-0f{}", "a5".repeat(31)));
        assert_eq!(text.parse(), Ok(name));
        for wrong in [
            text.to_uppercase(),
            text[1..].to_owned(),
            format!("0{text}"),
            format!("{text}0"),
            text.replace("00042", "+0042"),
            text.replace("00042", "70000"),
            text.replace('-', "_"),
            text.replace("a5", "ä"),
            String::new(),
        ] {
            assert_eq!(wrong.parse::<PartName>(), Err(()), "{wrong}");
        }
    }
}

//! Frames: the pieces that files are written in.
//!
//! ```text
//!   0  mark      4 bytes, the same in every frame
//!   4  length    u32, of the payload
//!   8  number    u64, counted in the file from 0; in a worker's log over all its files, from 1
//!  16  checksum  u32, CRC32C of the payload
//!  20  checksum  u32, CRC32C of the above, of where in the file it stands and of the file's seal
//!  24  payload
//! ```
//!
//! The second checksum ties a frame to its place and file: one that slipped, or that an older file left there, does not
//! pass for another.

use crate::disk::DiskFile;
use crate::error::StorageError;
use codec::Damage;
use codec::Reader;
use mutations::Mutation;

/// Bytes before the payload.
pub(crate) const HEAD_BYTES: usize = 24;
const MARK: [u8; 4] = [0xc4, b'F', b'r', 0x9e];
/// Bytes that are looked through at once for a later frame.
const WINDOW_BYTES: usize = 256 * 1024;

/// A file that is read frame by frame.
pub(crate) struct Frames<'a, F> {
    pub(crate) file: &'a F,
    /// As errors call it.
    pub(crate) name: &'a str,
    pub(crate) size: u64,
    /// Of this file alone: another file's frames do not pass.
    pub(crate) seal: u64,
    /// Bytes of the longest payload.
    pub(crate) limit: u32,
}

/// The head of a frame around `payload`.
pub(crate) fn head(payload: &[u8], number: u64, offset: u64, seal: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let length = u32::try_from(payload.len()).expect("its writer keeps to the limit of its file");
    head[..4].copy_from_slice(&MARK);
    head[4..8].copy_from_slice(&length.to_le_bytes());
    head[8..16].copy_from_slice(&number.to_le_bytes());
    head[16..20].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    let check = head_checksum(&head, offset, seal);
    head[20..].copy_from_slice(&check.to_le_bytes());
    head
}

fn head_checksum(head: &[u8; HEAD_BYTES], offset: u64, seal: u64) -> u32 {
    let check = crc32c::crc32c(&head[..20]);
    let check = crc32c::crc32c_append(check, &offset.to_le_bytes());
    crc32c::crc32c_append(check, &seal.to_le_bytes())
}

fn u32_at(head: &[u8; HEAD_BYTES], at: usize) -> u32 {
    Reader::new(&head[at..])
        .u32()
        .expect("all fields lie in the head")
}

fn number_of(head: &[u8; HEAD_BYTES]) -> u64 {
    Reader::new(&head[8..]).u64().expect("all fields lie in the head")
}

impl<F: DiskFile> Frames<'_, F> {
    fn damage(
        &self,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Result<u64, StorageError> {
        Err(Damage::new(self.name, offset, expected, found).into())
    }

    fn fill(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StorageError> {
        self.file
            .read_at(offset, buffer)
            .map_err(StorageError::io("read", self.name))
    }

    /// Reads the payload of frame `number` at `offset` into `payload`, and says where the next frame begins.
    pub(crate) fn read(&self, offset: u64, number: u64, payload: &mut Vec<u8>) -> Result<u64, StorageError> {
        let left = self.size.saturating_sub(offset);
        if left < HEAD_BYTES as u64 {
            let expected = format!("the {HEAD_BYTES} bytes of the head of frame {number}");
            return self.damage(offset, expected, format!("the end of the file after {left}"));
        }
        let mut head = [0; HEAD_BYTES];
        self.fill(offset, &mut head)?;
        if head[..4] != MARK {
            return self.damage(offset, format!("{MARK:02x?}"), format!("{:02x?}", &head[..4]));
        }
        let (found, expected) = (u32_at(&head, 20), head_checksum(&head, offset, self.seal));
        // Whatever use of the file, and whatever place in it, it was written for.
        let is_any_read = mutations::is(Mutation::RemnantRead);
        if found != expected && !is_any_read {
            return self.damage(
                offset + 20,
                format!("a head with checksum {expected:08x}"),
                format!("{found:08x}"),
            );
        }
        if number_of(&head) != number && !is_any_read {
            let found = number_of(&head).to_string();
            return self.damage(offset + 8, format!("frame {number}"), format!("frame {found}"));
        }
        let length = u32_at(&head, 4);
        if length > self.limit {
            let expected = format!("a length of at most {}", self.limit);
            return self.damage(offset + 4, expected, length.to_string());
        }
        let left = left - HEAD_BYTES as u64;
        if left < u64::from(length) {
            return self.damage(
                offset,
                format!("a frame with {length} bytes of payload"),
                format!("the end of the file after {left} of them"),
            );
        }
        payload.clear();
        payload.resize(length as usize, 0);
        self.fill(offset + HEAD_BYTES as u64, payload)?;
        let (expected, found) = (u32_at(&head, 16), crc32c::crc32c(payload));
        if found != expected {
            return self.damage(
                offset + HEAD_BYTES as u64,
                format!("{length} bytes with checksum {expected:08x}"),
                format!("checksum {found:08x}"),
            );
        }
        Ok(offset + HEAD_BYTES as u64 + u64::from(length))
    }

    /// Where from `offset` on the head of a frame with a higher number than `number` stands, if anywhere, and its number.
    pub(crate) fn find_later(&self, offset: u64, number: u64) -> Result<Option<(u64, u64)>, StorageError> {
        let mut window = vec![0; WINDOW_BYTES];
        let mut at = offset;
        // Windows overlap, so that none hides a head.
        while at + HEAD_BYTES as u64 <= self.size {
            let count = usize::try_from(self.size - at).map_or(WINDOW_BYTES, |left| left.min(WINDOW_BYTES));
            let window = &mut window[..count];
            self.fill(at, window)?;
            // Of a segment that was made ahead, most is zero.
            for found in memchr::memmem::find_iter(window, &MARK) {
                let Some(head) = window.get(found..found + HEAD_BYTES) else {
                    break;
                };
                let place = at + found as u64;
                let head: &[u8; HEAD_BYTES] = head.try_into().expect("a slice of that length");
                let is_intact = u32_at(head, 20) == head_checksum(head, place, self.seal);
                if is_intact && number_of(head) > number {
                    return Ok(Some((place, number_of(head))));
                }
            }
            at += (count - (HEAD_BYTES - 1)) as u64;
        }
        Ok(None)
    }
}

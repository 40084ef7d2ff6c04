//! A part on its way from a node to the target.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use crate::BackupError;
use crate::attempt::AttemptEnd;
use crate::connection::{Answer, AskError, Connection};
use crate::part::PartSummary;
use crate::progress::RunProgress;
use crate::target::{BackupTarget, part_path};

/// Bytes that are asked for at a time: what a node answers at most.
const CHUNK_BYTES: u64 = 1 << 20;

/// How much was copied, by all threads together.
pub(crate) struct Copied<'a> {
    pub(crate) progress: &'a dyn RunProgress,
    pub(crate) done: AtomicU64,
    pub(crate) all: u64,
    pub(crate) stop: &'a AtomicBool,
}

impl Copied<'_> {
    pub(crate) fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.progress.at("fetching", done, self.all);
    }
}

/// Copies a part from the node at the other end of `connection`.
pub(crate) fn copy_part(
    id: u64,
    part: &PartSummary,
    connection: &mut Connection,
    target: &dyn BackupTarget,
    copied: &Copied<'_>,
) -> Result<(), AttemptEnd> {
    let mut reader = NodeReader {
        id: id.to_string(),
        name: part.name().to_string(),
        part,
        connection,
        copied,
        asked: 0,
        received: 0,
        chunk: Vec::new(),
        used: 0,
        digest: Sha256::new(),
        failure: None,
    };
    let written = target.write(&part_path(&part.name()), part.bytes, &mut reader);
    match (written, reader.failure) {
        // Whatever the target makes of it, this was the reason.
        (Err(_), Some(failure)) => Err(failure),
        (written, _) => Ok(written?),
    }
}

/// Reads a part from a node. The last bytes are given only if all have the right SHA-256, so that nobody takes another file for
/// whole; and the next chunk is asked for before this one is used, so that neither side waits for the other.
struct NodeReader<'a> {
    id: String,
    name: String,
    part: &'a PartSummary,
    connection: &'a mut Connection,
    copied: &'a Copied<'a>,
    /// Where the next question begins.
    asked: u64,
    received: u64,
    chunk: Vec<u8>,
    used: usize,
    digest: Sha256,
    failure: Option<AttemptEnd>,
}

impl NodeReader<'_> {
    fn ask(&mut self) -> Result<(), AskError> {
        if self.asked >= self.part.bytes {
            return Ok(());
        }
        let count = CHUNK_BYTES.min(self.part.bytes - self.asked);
        let (offset, length) = (self.asked.to_string(), count.to_string());
        self.asked += count;
        let words = ["BACKUP", "READ", &self.id, &self.name, &offset, &length];
        self.connection.send(&words.map(str::as_bytes));
        self.connection.flush()
    }

    fn next_chunk(&mut self) -> Result<(), AttemptEnd> {
        let again = |error: AskError| AttemptEnd::Again(error.to_string());
        if self.copied.stop.load(Ordering::Relaxed) {
            return Err(BackupError::Interrupted.into());
        }
        if self.asked == 0 {
            self.ask().map_err(again)?;
        }
        let expected = self.asked - self.received;
        let answer = self.connection.receive().map_err(again)?;
        let chunk = match answer {
            Answer::Bytes(chunk) if chunk.len() as u64 == expected => chunk,
            Answer::Bytes(chunk) => {
                let address = self.connection.address();
                return Err(AttemptEnd::Again(format!(
                    "{address} has {} bytes of {} where {expected} were to be",
                    chunk.len(),
                    self.name
                )));
            }
            _ => return Err(AttemptEnd::Again("a node has answered with no bytes".to_owned())),
        };
        self.received += expected;
        self.ask().map_err(again)?;
        self.digest.update(&chunk);
        self.copied.add(expected);
        if self.received == self.part.bytes {
            let sha256: [u8; 32] = self.digest.clone().finalize().into();
            if sha256 != self.part.sha256 {
                return Err(AttemptEnd::Again(format!(
                    "what came from {} is not {}: its SHA-256 is {}",
                    self.connection.address(),
                    self.name,
                    crate::part::hex(&sha256)
                )));
            }
        }
        (self.chunk, self.used) = (chunk, 0);
        Ok(())
    }
}

impl Read for NodeReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.used == self.chunk.len() && self.received < self.part.bytes {
            if self.failure.is_none() {
                self.failure = self.next_chunk().err();
            }
            if self.failure.is_some() {
                return Err(io::Error::other("the node gave no more of it"));
            }
        }
        let count = to.len().min(self.chunk.len() - self.used);
        to[..count].copy_from_slice(&self.chunk[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}

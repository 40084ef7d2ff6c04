//! Writes a part file, record by record (`part.rs` says what stands in it).

use std::io::{self, ErrorKind, Write};

use codec::Writer;
use lz4_flex::block;
use sha2::{Digest, Sha256};

use crate::part::{BLOCK_BYTES_MAX, BlockHead, COMPRESSED, FOOTER, FOOTER_BYTES, PLAIN, PartSummary, TITLE};

/// Writes a part, with no more memory than two blocks take.
///
/// A file whose writer was dropped before [`PartWriter::finish`] has no footer: no reader takes it for a part.
#[derive(Debug)]
pub struct PartWriter<W> {
    to: W,
    partition: u16,
    partitions: u16,
    /// The block that is being filled.
    block: Vec<u8>,
    /// Room for it in its compressed form.
    compressed: Vec<u8>,
    /// Of the next block.
    number: u64,
    /// Bytes that the value of the last record lacks.
    value_left: u64,
    keys: u64,
    raw_bytes: u64,
    /// CRC32C of the raw stream so far.
    checksum: u32,
    bytes: u64,
    digest: Sha256,
}

impl<W: Write> PartWriter<W> {
    /// Begins the part of this partition, of so many of the cluster.
    ///
    /// # Errors
    /// What `to` answers; as of all that follows. The part can only be given up then.
    pub fn new(to: W, partition: u16, partitions: u16) -> io::Result<PartWriter<W>> {
        let mut writer = PartWriter {
            to,
            partition,
            partitions,
            block: Vec::with_capacity(BLOCK_BYTES_MAX),
            compressed: vec![0; block::get_maximum_output_size(BLOCK_BYTES_MAX)],
            number: 0,
            value_left: 0,
            keys: 0,
            raw_bytes: 0,
            checksum: 0,
            bytes: 0,
            digest: Sha256::new(),
        };
        writer.write(&TITLE)?;
        Ok(writer)
    }

    /// Begins the next object: its database, what stands before its value, and how many bytes its value has. All of these are to be
    /// given to [`PartWriter::value`] next. Objects come in the order of (db, hash of the key, key).
    ///
    /// # Errors
    /// The value before lacks bytes.
    pub fn record(&mut self, db: u8, head: &[u8], value_length: u64) -> io::Result<()> {
        self.is_value_whole()?;
        let mut start = Vec::with_capacity(head.len() + 13);
        start.u8(db);
        start.bytes(head);
        start.u64(value_length);
        self.raw(&start)?;
        self.keys += 1;
        self.value_left = value_length;
        Ok(())
    }

    /// The next bytes of the value.
    ///
    /// # Errors
    /// There are more of them than were announced.
    pub fn value(&mut self, piece: &[u8]) -> io::Result<()> {
        let left = self.value_left.checked_sub(piece.len() as u64);
        self.value_left = left.ok_or_else(|| misused("a value is longer than was announced"))?;
        self.raw(piece)
    }

    /// Ends the part, and gives back what it was written to, flushed, and not synced.
    ///
    /// # Errors
    /// The last value lacks bytes.
    pub fn finish(mut self) -> io::Result<(PartSummary, W)> {
        self.is_value_whole()?;
        if !self.block.is_empty() {
            self.end_block()?;
        }
        let mut footer = Vec::with_capacity(FOOTER_BYTES);
        footer.u16(self.partition);
        footer.u16(self.partitions);
        footer.u64(self.keys);
        footer.u64(self.raw_bytes);
        footer.u32(self.checksum);
        let head = BlockHead::of(self.number, &footer, footer.len(), FOOTER);
        self.write(&head.encode())?;
        self.write(&footer)?;
        self.to.flush()?;
        let summary = PartSummary {
            partition: self.partition,
            sha256: self.digest.finalize().into(),
            bytes: self.bytes,
            raw_bytes: self.raw_bytes,
            keys: self.keys,
        };
        Ok((summary, self.to))
    }

    fn is_value_whole(&self) -> io::Result<()> {
        match self.value_left {
            0 => Ok(()),
            _ => Err(misused("a value is shorter than was announced")),
        }
    }

    /// Adds to the raw stream.
    fn raw(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.raw_bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let (piece, behind) = bytes.split_at(bytes.len().min(BLOCK_BYTES_MAX - self.block.len()));
            self.block.extend_from_slice(piece);
            bytes = behind;
            if self.block.len() == BLOCK_BYTES_MAX {
                self.end_block()?;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        let (raw, mut compressed) = (
            std::mem::take(&mut self.block),
            std::mem::take(&mut self.compressed),
        );
        self.checksum = crc32c::crc32c_append(self.checksum, &raw);
        let length =
            block::compress_into(&raw, &mut compressed).expect("there is room for what cannot be compressed");
        let (stored, flags) = if length < raw.len() {
            (&compressed[..length], COMPRESSED)
        } else {
            (&raw[..], PLAIN)
        };
        let head = BlockHead::of(self.number, stored, raw.len(), flags);
        self.write(&head.encode())?;
        self.write(stored)?;
        self.number += 1;
        (self.block, self.compressed) = (raw, compressed);
        self.block.clear();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
        self.to.write_all(bytes)
    }
}

fn misused(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, what)
}

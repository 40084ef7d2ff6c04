//! Reads a part file, record by record, and checks everything (`part.rs` says what stands in it).
//!
//! 1. Reading is total: any bytes give records and an end, or an error that says where the file differs.
//! 2. A length reserves no memory before the bytes are there; a head is in memory, a value only as far as it is asked for.
//! 3. The end is told only if number, bytes and checksum are those of the footer, and nothing stands behind it.
//! 4. After an error there are nothing but errors.

use std::io::{ErrorKind, Read};

use codec::{DecodeError, Reader};
use lz4_flex::block;
use sha2::{Digest, Sha256};

use crate::BackupError;
use crate::part::{
    BLOCK_BYTES_MAX, BLOCK_HEAD_BYTES, BlockHead, COMPRESSED, FOOTER, FOOTER_BYTES, PLAIN, PartSummary, TITLE,
};

/// Databases of a node.
pub(crate) const DATABASES: u8 = 16;

/// Behind them, that of libraries of functions.
pub(crate) const LIBRARIES: u8 = DATABASES;

/// Bytes of what stands before a value, beside the key.
const HEAD_BYTES_MIN: usize = 14;
/// Bytes of the longest head: that of a key of 512 MiB.
const HEAD_BYTES_MAX: usize = (512 << 20) + HEAD_BYTES_MIN;

/// The flags that a head can have: those of `keyspace/object_codec.rs`.
const HEAD_FLAGS: u8 = 7;
/// The head's object has a deadline.
const HAS_DEADLINE: u8 = 1;
/// The last form of a value.
const FORM_MAX: u8 = 10;

/// What stands before a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartRecord {
    /// The database.
    pub db: u8,
    /// The key.
    pub key: Vec<u8>,
    /// As in `keyspace/object_codec.rs`.
    pub flags: u8,
    /// Unix milliseconds, if there is one.
    pub deadline: Option<i64>,
    /// In which form the value is, as in `keyspace/object_codec.rs`.
    pub form: u8,
    /// All of the above but the database, as it stands in the file.
    pub head: Vec<u8>,
    /// Bytes of the value.
    pub value_length: u64,
}

/// The block that is being read.
#[derive(Default, Debug)]
struct CurrentBlock {
    /// Where it begins in the file.
    at: u64,
    bytes: Vec<u8>,
    /// How much of them was read.
    used: usize,
    /// Whether it is the last one: it is not full.
    is_last: bool,
}

/// What was read so far: the footer's counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Total {
    keys: u64,
    raw_bytes: u64,
    checksum: u32,
}

/// Reads a part.
#[derive(Debug)]
pub struct PartReader<R> {
    from: R,
    file: String,
    /// Where the next block begins.
    offset: u64,
    number: u64,
    stored: Vec<u8>,
    block: CurrentBlock,
    value_left: u64,
    last_db: u8,
    total: Total,
    digest: Sha256,
    end: Option<(PartSummary, u16)>,
    failure: Option<BackupError>,
}

impl<R: Read> PartReader<R> {
    /// Begins to read; errors call it `file`.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] if it does not begin like a part, and what `from` answers.
    pub fn open(from: R, file: impl Into<String>) -> Result<PartReader<R>, BackupError> {
        let mut reader = PartReader {
            from,
            file: file.into(),
            offset: 0,
            number: 0,
            stored: Vec::new(),
            block: CurrentBlock::default(),
            value_left: 0,
            last_db: 0,
            total: Total::default(),
            digest: Sha256::new(),
            end: None,
            failure: None,
        };
        let mut title = [0; TITLE.len()];
        reader.fill(&mut title, "a title")?;
        if title == TITLE {
            return Ok(reader);
        }
        if title[..6] == TITLE[..6] {
            return Err(BackupError::Failed(format!(
                "{} has version {} of its format, which this version of Chorale cannot read: use the one that wrote it, or a newer",
                reader.file,
                title[6..].escape_ascii()
            )));
        }
        let show = |bytes: &[u8]| format!("{:?}", bytes.escape_ascii().to_string());
        Err(BackupError::damaged(&reader.file, 0, show(&TITLE), show(&title)))
    }

    /// The next object, behind what is left of the value of the one before; `None` if those were all, and are what was written.
    ///
    /// # Errors
    /// [`BackupError::Damaged`], with the place in the file, and what the reader under it answers; as of [`PartReader::value`]. The
    /// part cannot be used then: every later call fails too.
    pub fn next_record(&mut self) -> Result<Option<PartRecord>, BackupError> {
        let read = self.checked(PartReader::read_record);
        self.kept(read)
    }

    /// Adds up to so many next bytes of the value of the last record to `to`, and says how many; none are left if it says 0.
    ///
    /// # Errors
    /// As of [`PartReader::next_record`].
    pub fn value(&mut self, to: &mut Vec<u8>, bytes_max: usize) -> Result<usize, BackupError> {
        let read = self.checked(|reader| reader.read_value(bytes_max, |piece| to.extend_from_slice(piece)));
        self.kept(read)
    }

    /// What the part came to.
    ///
    /// # Panics
    /// Before [`PartReader::next_record`] said that there are no more.
    pub fn summary(&self) -> PartSummary {
        self.end.expect("all records were read").0
    }

    /// Of how many partitions this is one.
    ///
    /// # Panics
    /// As of [`PartReader::summary`].
    pub fn partitions(&self) -> u16 {
        self.end.expect("all records were read").1
    }

    /// What errors call the file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where the block begins that was read last: what errors about a record say.
    pub fn block_offset(&self) -> u64 {
        self.block.at
    }

    /// Reads what is left, record by record without looking at values, and says what the part came to.
    ///
    /// # Errors
    /// As of [`PartReader::next_record`].
    pub fn finish(mut self) -> Result<PartSummary, BackupError> {
        while self.next_record()?.is_some() {}
        Ok(self.summary())
    }

    fn checked<T>(
        &mut self,
        read: impl FnOnce(&mut PartReader<R>) -> Result<T, BackupError>,
    ) -> Result<T, BackupError> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None => read(self),
        }
    }

    fn kept<T>(&mut self, read: Result<T, BackupError>) -> Result<T, BackupError> {
        if let Err(error) = &read {
            self.failure = Some(error.clone());
        }
        read
    }

    fn read_record(&mut self) -> Result<Option<PartRecord>, BackupError> {
        while self.value_left > 0 {
            self.read_value(BLOCK_BYTES_MAX, |_| {})?;
        }
        if self.end.is_some() {
            return Ok(None);
        }
        if self.block.used == self.block.bytes.len() && !self.read_block()? {
            return Ok(None);
        }
        let mut start = [0; 5];
        self.stream(&mut start)?;
        let db = start[0];
        if db > LIBRARIES || db < self.last_db {
            let expected = format!("database {} to {LIBRARIES}", self.last_db);
            return self.differs(self.block.at, expected, format!("database {db}"));
        }
        self.last_db = db;
        let length = u32::from_le_bytes([start[1], start[2], start[3], start[4]]) as usize;
        if !(HEAD_BYTES_MIN..=HEAD_BYTES_MAX).contains(&length) {
            let expected = format!("a head of {HEAD_BYTES_MIN} to {HEAD_BYTES_MAX} bytes");
            return self.differs(self.block.at, expected, format!("{length} bytes"));
        }
        let begun_at = self.block.at;
        let mut head = Vec::new();
        while head.len() < length {
            let piece = self.piece(length - head.len())?;
            head.extend_from_slice(&self.block.bytes[piece]);
        }
        let mut value_length = [0; 8];
        self.stream(&mut value_length)?;
        self.value_left = u64::from_le_bytes(value_length);
        self.total.keys += 1;
        let record = read_head(&head).map_err(|error| {
            let found = "other bytes in a head";
            BackupError::damaged(&self.file, begun_at, error.expected, found)
        })?;
        Ok(Some(PartRecord {
            db,
            value_length: self.value_left,
            head,
            ..record
        }))
    }

    fn read_value(&mut self, bytes_max: usize, take: impl FnOnce(&[u8])) -> Result<usize, BackupError> {
        let wanted = usize::try_from(self.value_left)
            .unwrap_or(usize::MAX)
            .min(bytes_max);
        if wanted == 0 {
            return Ok(0);
        }
        let piece = self.piece(wanted)?;
        let length = piece.len();
        take(&self.block.bytes[piece]);
        self.value_left -= length as u64;
        Ok(length)
    }

    /// Where in the block the next bytes of the raw stream are: at least one, at most so many.
    fn piece(&mut self, wanted: usize) -> Result<std::ops::Range<usize>, BackupError> {
        if self.block.used == self.block.bytes.len() && !self.read_block()? {
            return self.differs(self.block.at, "the rest of a record", "the footer");
        }
        let from = self.block.used;
        self.block.used = self.block.bytes.len().min(from + wanted);
        Ok(from..self.block.used)
    }

    fn stream(&mut self, to: &mut [u8]) -> Result<(), BackupError> {
        let mut filled = 0;
        while filled < to.len() {
            let piece = self.piece(to.len() - filled)?;
            let length = piece.len();
            to[filled..filled + length].copy_from_slice(&self.block.bytes[piece]);
            filled += length;
        }
        Ok(())
    }

    /// Reads the next block; `false` if it is the footer.
    fn read_block(&mut self) -> Result<bool, BackupError> {
        self.block.at = self.offset;
        let mut bytes = [0; BLOCK_HEAD_BYTES];
        self.fill(&mut bytes, "a block or the footer")?;
        let head = BlockHead::decode(&bytes);
        let (stored, raw) = (head.stored as usize, head.raw as usize);
        let is_possible = match head.flags {
            PLAIN => stored == raw && (1..=BLOCK_BYTES_MAX).contains(&raw),
            COMPRESSED => (1..raw).contains(&stored) && raw <= BLOCK_BYTES_MAX,
            FOOTER => stored == FOOTER_BYTES && raw == FOOTER_BYTES,
            _ => false,
        };
        if !is_possible {
            let found = format!("lengths {stored} and {raw}, flags {}", head.flags);
            return self.differs(self.block.at, "the head of a block", found);
        }
        let mut buffer = std::mem::take(&mut self.stored);
        buffer.resize(stored, 0);
        let filled = self.fill(&mut buffer, "the bytes of a block");
        self.stored = buffer;
        filled?;
        let sum = head.checksum_over(self.number, &self.stored);
        if sum != head.checksum {
            return self.differs(
                self.block.at,
                format!("a block with the checksum {:08x}", head.checksum),
                format!("{sum:08x}"),
            );
        }
        self.number += 1;
        if head.flags == FOOTER {
            return self.read_footer().map(|()| false);
        }
        if self.block.is_last {
            return self.differs(
                self.block.at,
                "the footer behind a block that is not full",
                "another block",
            );
        }
        self.block.is_last = raw < BLOCK_BYTES_MAX;
        self.block.bytes.resize(raw, 0);
        self.block.used = 0;
        if head.flags == PLAIN {
            self.block.bytes.copy_from_slice(&self.stored);
        } else if block::decompress_into(&self.stored, &mut self.block.bytes).ok() != Some(raw) {
            self.block.bytes.clear();
            let expected = "as many compressed bytes as the block has";
            return self.differs(self.block.at, expected, "others");
        }
        self.total.checksum = crc32c::crc32c_append(self.total.checksum, &self.block.bytes);
        self.total.raw_bytes += raw as u64;
        Ok(true)
    }

    fn read_footer(&mut self) -> Result<(), BackupError> {
        let read = |footer: &mut Reader<'_>| {
            let partition = (footer.u16()?, footer.u16()?);
            let total = Total {
                keys: footer.u64()?,
                raw_bytes: footer.u64()?,
                checksum: footer.u32()?,
            };
            footer.end()?;
            Ok((partition, total))
        };
        let ((partition, partitions), total) =
            read(&mut Reader::new(&self.stored)).map_err(|error: DecodeError| {
                BackupError::damaged(&self.file, self.block.at, error.expected, "other bytes")
            })?;
        if total != self.total {
            let show = |total: &Total| {
                let Total {
                    keys,
                    raw_bytes,
                    checksum,
                } = total;
                format!("{keys} keys in {raw_bytes} bytes with the checksum {checksum:08x}")
            };
            return self.differs(self.block.at, show(&self.total), show(&total));
        }
        if partition >= partitions {
            let found = format!("partition {partition}");
            return self.differs(self.block.at, format!("one of {partitions} partitions"), found);
        }
        let end = self.offset;
        let mut behind = [0];
        if self.read_some(&mut behind)? > 0 {
            return self.differs(end, "the end of the file", "more bytes");
        }
        let summary = PartSummary {
            partition,
            sha256: self.digest.clone().finalize().into(),
            bytes: end,
            raw_bytes: self.total.raw_bytes,
            keys: self.total.keys,
        };
        self.end = Some((summary, partitions));
        Ok(())
    }

    fn fill(&mut self, to: &mut [u8], expected: &str) -> Result<(), BackupError> {
        let (at, mut filled) = (self.offset, 0);
        while filled < to.len() {
            match self.read_some(&mut to[filled..])? {
                0 => {
                    let expected = format!("{expected} of {} bytes", to.len());
                    return self.differs(at, expected, format!("the end of the file after {filled}"));
                }
                count => filled += count,
            }
        }
        Ok(())
    }

    fn read_some(&mut self, to: &mut [u8]) -> Result<usize, BackupError> {
        loop {
            match self.from.read(to) {
                Ok(count) => {
                    self.digest.update(&to[..count]);
                    self.offset += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(BackupError::io("read", &self.file)(error)),
            }
        }
    }

    fn differs<T>(
        &self,
        at: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Result<T, BackupError> {
        Err(BackupError::damaged(&self.file, at, expected, found))
    }
}

fn read_head(head: &[u8]) -> Result<PartRecord, DecodeError> {
    let mut rest = Reader::new(head);
    let key = rest.bytes()?.to_vec();
    let flags = rest.u8()?;
    if flags & !HEAD_FLAGS != 0 {
        return Err(rest.unknown("flags of an object"));
    }
    let deadline = rest.i64()?;
    let form = rest.u8()?;
    if form > FORM_MAX {
        return Err(rest.unknown("the form of a value"));
    }
    rest.end()?;
    Ok(PartRecord {
        db: 0,
        key,
        flags,
        deadline: (flags & HAS_DEADLINE != 0).then_some(deadline),
        form,
        head: Vec::new(),
        value_length: 0,
    })
}

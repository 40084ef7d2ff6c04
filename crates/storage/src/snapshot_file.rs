//! A snapshot file: the state of one replica of a group at one place of its log.
//!
//! ```text
//!  create ...new --> head --> blocks of chunks, a sync every 8 MiB --> footer --> sync --> rename --> sync the names
//!                                                                                                     it counts
//!   title | head | block  block  block* | block* | block  block* | ... | footer
//!                  \---- chunk ------/   \chunk/   \-- chunk --/        place, counts, CRC32C of all chunks
//! ```
//!
//! What is in the chunks is their writer's affair; here they are bytes (`keyspace/transfer.rs` says what they are). They are cut
//! into blocks, so that nobody needs more memory than a chunk, and a block is compressed where that makes it shorter.
//!
//! 1. A file that has its name is whole and durable: it is renamed after its sync, and after an error it never is.
//! 2. Frames come in one order: a head, blocks, a footer, and nothing behind it.
//! 3. A chunk has one form: all of its blocks but the last (`*`) are full, and only the one block of an empty chunk is empty.
//! 4. A reader gives each chunk as it was written, or an error that says where the file differs; and it says that those were all
//!    only if their number, bytes and checksum are those of the footer.
//! 5. After an error a reader and a writer answer nothing but errors.
//!
//! Absent: going on with a file that was begun by an earlier process (the state is taken anew), and reading from the middle.

use crate::disk::{Disk, DiskFile, FileStamp};
use crate::error::StorageError;
use crate::frame::{self, Frames, HEAD_BYTES};
use crate::snapshot_name::{self, SnapshotName};
use codec::Damage;
use codec::{DecodeError, Reader, Writer};
use consensus::SnapshotPoint;
use ids::{ClusterId, GroupId, Incarnation, NodeId};
use lz4_flex::block;
use mutations::Mutation;

/// Bytes 0..8 of the file; the version of its frames is among them.
const TITLE: [u8; 8] = *b"ChorSN01";
/// Title and seal.
const TITLE_BYTES: u64 = 16;
/// Of what the head, the blocks and the footer hold.
const FORMAT: u16 = 1;

/// Bytes of a chunk in one block: what a reader holds beside the chunk, and what one damaged bit costs to find.
const BLOCK_BYTES_MAX: usize = 256 * 1024;
/// Bytes of one chunk; a longer one is an error, since whoever reads it holds all of it in memory.
const CHUNK_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Kind and flags of a block.
const BLOCK_HEAD_BYTES: usize = 2;
/// Bytes of the longest payload: a block that is not compressed.
const FRAME_BYTES_MAX: u32 = (BLOCK_HEAD_BYTES + BLOCK_BYTES_MAX) as u32;
/// Written bytes after which there is a sync: the last one, which somebody waits for, has at most so much to do.
const UNSYNCED_BYTES_MAX: u64 = 8 * 1024 * 1024;

const HEAD: u8 = 1;
const BLOCK: u8 = 2;
const FOOTER: u8 = 3;

/// Flag of a block: it is compressed, and its length before that stands in front.
const COMPRESSED: u8 = 1;
/// Flag of a block: its chunk ends here.
const LAST: u8 = 2;

/// Whose state it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotHead {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node that wrote it.
    pub node: NodeId,
    /// The group.
    pub group: GroupId,
    /// The replica.
    pub incarnation: Incarnation,
}

/// What is known at the end of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotFooter {
    /// The entry that the state reflects, and the members there.
    pub point: SnapshotPoint,
    /// The generation of the group.
    pub generation: u64,
    /// How many chunks there are.
    pub chunks: u64,
    /// Their bytes, not compressed.
    pub raw_bytes: u64,
    /// CRC32C of all chunks, one behind the other.
    pub checksum: u32,
}

/// Counts of what was written or read so far: the footer's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Total {
    chunks: u64,
    raw_bytes: u64,
    checksum: u32,
}

impl Total {
    fn add(&mut self, chunk: &[u8]) {
        self.chunks += 1;
        self.raw_bytes += chunk.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, chunk);
    }
}

/// Writes a snapshot, chunk by chunk. It may be moved to a thread of its own: all that it does is wait for the disk and compress.
#[derive(Debug)]
pub struct SnapshotWriter<D: Disk> {
    disk: D,
    file: D::File,
    /// The name of the file until it is whole.
    name: String,
    head: SnapshotHead,
    seal: u64,
    size: u64,
    /// How much of `size` had been written at the last sync.
    synced: u64,
    /// Of the next frame.
    number: u64,
    total: Total,
    scratch: Vec<u8>,
    /// Room for a compressed block.
    compressed: Vec<u8>,
    is_failed: bool,
}

impl<D: Disk> SnapshotWriter<D> {
    /// Begins the file, in place of what was left of an earlier one of that replica that was not finished. Of one replica one
    /// snapshot is written at a time.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn begin(disk: D, head: SnapshotHead) -> Result<SnapshotWriter<D>, StorageError> {
        let name = snapshot_name::unfinished(head.group, head.incarnation);
        let file = disk.create(&name).map_err(StorageError::io("create", &name))?;
        let stamp = disk.stamp(&name).map_err(StorageError::io("look at", &name))?;
        let mut writer = SnapshotWriter {
            disk,
            file,
            name,
            head,
            seal: seal(&head, stamp.unwrap_or_default()),
            size: 0,
            synced: 0,
            number: 0,
            total: Total::default(),
            scratch: Vec::new(),
            compressed: vec![0; block::get_maximum_output_size(BLOCK_BYTES_MAX)],
            is_failed: false,
        };
        writer.append(&TITLE)?;
        writer.append(&writer.seal.to_le_bytes())?;
        writer.frame(|_, payload| encode_head(payload, &head))?;
        Ok(writer)
    }

    /// Bytes of the chunks so far, not compressed.
    pub fn raw_bytes(&self) -> u64 {
        self.total.raw_bytes
    }

    /// Writes the next chunk of the state.
    ///
    /// # Errors
    /// What the disk answers, and [`StorageError::TooLarge`]. The file can only be given up then: every later call fails.
    pub fn chunk(&mut self, chunk: &[u8]) -> Result<(), StorageError> {
        self.check()?;
        let written = self.blocks(chunk);
        self.is_failed = written.is_err();
        written
    }

    fn check(&self) -> Result<(), StorageError> {
        match self.is_failed {
            true => Err(StorageError::Failed {
                file: self.name.clone(),
            }),
            false => Ok(()),
        }
    }

    fn blocks(&mut self, chunk: &[u8]) -> Result<(), StorageError> {
        if chunk.len() > CHUNK_BYTES_MAX {
            return Err(StorageError::TooLarge {
                file: self.name.clone(),
                bytes: chunk.len() as u64,
                limit: CHUNK_BYTES_MAX as u64,
            });
        }
        let mut rest = chunk;
        loop {
            let (block, behind) = rest.split_at(rest.len().min(BLOCK_BYTES_MAX));
            let last = if behind.is_empty() { LAST } else { 0 };
            self.frame(|compressed, payload| encode_block(payload, block, last, compressed))?;
            if self.size - self.synced >= UNSYNCED_BYTES_MAX {
                self.sync()?;
            }
            if behind.is_empty() {
                break;
            }
            rest = behind;
        }
        self.total.add(chunk);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.file
            .append(bytes)
            .map_err(StorageError::io("write", &self.name))?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Writes a frame, filled by `fill`, which is lent the room for a compressed block.
    fn frame(&mut self, fill: impl FnOnce(&mut [u8], &mut Vec<u8>)) -> Result<(), StorageError> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.resize(HEAD_BYTES, 0);
        fill(&mut self.compressed, &mut bytes);
        let head = frame::head(&bytes[HEAD_BYTES..], self.number, self.size, self.seal);
        bytes[..HEAD_BYTES].copy_from_slice(&head);
        self.append(&bytes)?;
        self.number += 1;
        self.scratch = bytes;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.file.sync().map_err(StorageError::io("sync", &self.name))?;
        self.synced = self.size;
        Ok(())
    }

    /// Ends the file and gives it its name: it counts.
    ///
    /// # Errors
    /// What the disk answers. Where the file has got its name all the same, it is whole.
    pub fn finish(mut self, point: &SnapshotPoint, generation: u64) -> Result<SnapshotName, StorageError> {
        self.check()?;
        let footer = SnapshotFooter {
            point: point.clone(),
            generation,
            chunks: self.total.chunks,
            raw_bytes: self.total.raw_bytes,
            checksum: self.total.checksum,
        };
        self.frame(|_, payload| encode_footer(payload, &footer))?;
        self.sync()?;
        let name = SnapshotName {
            group: self.head.group,
            incarnation: self.head.incarnation,
            index: point.index,
        };
        self.disk
            .rename(&self.name, &name.to_string())
            .map_err(StorageError::io("rename", &self.name))?;
        self.disk
            .sync_names()
            .map_err(StorageError::io("sync the names beside", &self.name))?;
        Ok(name)
    }

    /// Gives the snapshot up and removes what was written of it.
    ///
    /// # Errors
    /// What the disk answers. What is left is no snapshot, and the next start removes it.
    pub fn abandon(self) -> Result<(), StorageError> {
        self.disk
            .remove(&self.name)
            .map_err(StorageError::io("remove", &self.name))
    }
}

/// Reads a snapshot, chunk by chunk, and checks everything.
#[derive(Debug)]
pub struct SnapshotReader<F> {
    file: F,
    name: SnapshotName,
    /// The same, as errors call it.
    shown: String,
    size: u64,
    seal: u64,
    offset: u64,
    /// Of the next frame.
    number: u64,
    payload: Vec<u8>,
    total: Total,
    /// Why nothing more can be read.
    damage: Option<Damage>,
    footer: Option<SnapshotFooter>,
}

impl<F: DiskFile> SnapshotReader<F> {
    /// Opens the snapshot of that name, which is to be one of `node` in `cluster`.
    ///
    /// # Errors
    /// What the disk answers; [`StorageError::Damaged`] if it is another's, of another format, or not what was written.
    pub fn open<D: Disk<File = F>>(
        disk: &D,
        name: &SnapshotName,
        cluster: ClusterId,
        node: NodeId,
    ) -> Result<SnapshotReader<F>, StorageError> {
        let shown = name.to_string();
        let opened = disk.open(&shown).map_err(StorageError::io("open", &shown))?;
        let missing = || StorageError::io("open", &shown)(std::io::ErrorKind::NotFound.into());
        let file = opened.ok_or_else(missing)?;
        let size = file.size().map_err(StorageError::io("read", &shown))?;
        if size < TITLE_BYTES {
            let expected = format!("a title of {TITLE_BYTES} bytes");
            return Err(Damage::new(&shown, 0, expected, format!("{size} bytes")).into());
        }
        let (mut title, mut seal) = ([0; 8], [0; 8]);
        file.read_at(0, &mut title)
            .and_then(|()| file.read_at(8, &mut seal))
            .map_err(StorageError::io("read", &shown))?;
        if title != TITLE {
            let show = |bytes: &[u8]| format!("{:?}", bytes.escape_ascii().to_string());
            return Err(Damage::new(&shown, 0, show(&TITLE), show(&title)).into());
        }
        let mut reader = SnapshotReader {
            file,
            name: *name,
            shown,
            size,
            seal: u64::from_le_bytes(seal),
            offset: TITLE_BYTES,
            number: 0,
            payload: Vec::new(),
            total: Total::default(),
            damage: None,
            footer: None,
        };
        reader.read_head(SnapshotHead {
            cluster,
            node,
            group: name.group,
            incarnation: name.incarnation,
        })?;
        Ok(reader)
    }

    fn read_head(&mut self, expected: SnapshotHead) -> Result<(), StorageError> {
        let at = self.read_frame()?;
        let read = |payload: &mut Reader<'_>| {
            let format = read_format(payload)?;
            // Nothing behind it can be read before it is known what it means.
            if format != FORMAT && !mutations::is(Mutation::LaterFormatRead) {
                return Ok((format, expected));
            }
            let head = read_head(payload)?;
            payload.end()?;
            Ok((format, head))
        };
        let (format, head) =
            read(&mut Reader::new(&self.payload)).map_err(|error| self.misread(at, error))?;
        if format != FORMAT && !mutations::is(Mutation::LaterFormatRead) {
            return self.differs(at, format!("format {FORMAT}"), format!("format {format}"));
        }
        if head != expected {
            return self.differs(at, format!("{expected:?}"), format!("{head:?}"));
        }
        Ok(())
    }

    /// Reads the next frame's payload, and says where it stands.
    fn read_frame(&mut self) -> Result<u64, StorageError> {
        let mut payload = std::mem::take(&mut self.payload);
        let frames = Frames {
            file: &self.file,
            name: &self.shown,
            size: self.size,
            seal: self.seal,
            limit: FRAME_BYTES_MAX,
        };
        let read = frames.read(self.offset, self.number, &mut payload);
        let at = self.offset + HEAD_BYTES as u64;
        self.payload = payload;
        self.offset = read?;
        self.number += 1;
        Ok(at)
    }

    fn misread(&self, at: u64, error: DecodeError) -> StorageError {
        let offset = at + error.offset as u64;
        Damage::new(&self.shown, offset, error.expected, "other bytes").into()
    }

    fn differs<T>(
        &self,
        at: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Result<T, StorageError> {
        Err(Damage::new(&self.shown, at, expected, found).into())
    }

    /// The next chunk; `None` when all were read, and are what was written.
    ///
    /// # Errors
    /// [`StorageError::Damaged`], with the place in the file, and what the disk answers. The snapshot cannot be used then: every
    /// later call fails too.
    pub fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, StorageError> {
        if let Some(damage) = &self.damage {
            return Err(damage.clone().into());
        }
        if self.footer.is_some() {
            return Ok(None);
        }
        let offset = self.offset;
        let read = self.read_chunk();
        if let Err(error) = &read {
            self.damage = Some(match error {
                StorageError::Damaged(damage) => damage.clone(),
                other => Damage::new(&self.shown, offset, "bytes", other.to_string()),
            });
        }
        read
    }

    fn read_chunk(&mut self) -> Result<Option<Vec<u8>>, StorageError> {
        let mut chunk = Vec::new();
        loop {
            let is_first = chunk.is_empty();
            let at = self.read_frame()?;
            match self.payload.first() {
                Some(&BLOCK) => {}
                Some(&FOOTER) if is_first => return self.read_footer(at).map(|()| None),
                other => {
                    let expected = if is_first {
                        "a block or the footer"
                    } else {
                        "a block"
                    };
                    return self.differs(at, expected, format!("a frame of kind {other:02x?}"));
                }
            }
            let before = chunk.len();
            let is_last = read_block(&mut Reader::new(&self.payload), &mut chunk)
                .map_err(|error| self.misread(at, error))?;
            let length = chunk.len() - before;
            if !is_last && length < BLOCK_BYTES_MAX {
                let expected = format!("{BLOCK_BYTES_MAX} bytes in a block before the last of its chunk");
                return self.differs(at, expected, length.to_string());
            }
            if length == 0 && !is_first {
                return self.differs(at, "the rest of a chunk", "no bytes");
            }
            if chunk.len() > CHUNK_BYTES_MAX {
                return self.differs(at, format!("a chunk of at most {CHUNK_BYTES_MAX} bytes"), "more");
            }
            if is_last {
                self.total.add(&chunk);
                return Ok(Some(chunk));
            }
        }
    }

    fn read_footer(&mut self, at: u64) -> Result<(), StorageError> {
        let footer = read_footer(&mut Reader::new(&self.payload)).map_err(|error| self.misread(at, error))?;
        if self.offset != self.size {
            let found = format!("{} more bytes", self.size - self.offset);
            return self.differs(self.offset, "the end of the file", found);
        }
        let total = Total {
            chunks: footer.chunks,
            raw_bytes: footer.raw_bytes,
            checksum: footer.checksum,
        };
        if total != self.total {
            return self.differs(at, format!("{:?}", self.total), format!("{total:?}"));
        }
        if footer.point.index != self.name.index {
            let expected = format!("a state at {}", self.name.index.0);
            return self.differs(at, expected, format!("one at {}", footer.point.index.0));
        }
        self.footer = Some(footer);
        Ok(())
    }

    /// What stands behind the chunks.
    ///
    /// # Panics
    /// Before [`SnapshotReader::next_chunk`] said that there are no more.
    pub fn footer(&self) -> &SnapshotFooter {
        self.footer.as_ref().expect("all chunks were read")
    }
}

/// What ties frames to their file: whose state it is, and which file it is written to. Frames of an earlier snapshot of that
/// replica, on the same part of the disk, do not pass.
fn seal(head: &SnapshotHead, stamp: FileStamp) -> u64 {
    let mut whose = Vec::new();
    encode_head(&mut whose, head);
    let mut file = Vec::new();
    [stamp.device, stamp.inode, stamp.born]
        .iter()
        .for_each(|&part| file.u64(part));
    u64::from(crc32c::crc32c(&whose)) << 32 | u64::from(crc32c::crc32c(&file))
}

fn encode_head(payload: &mut Vec<u8>, head: &SnapshotHead) {
    payload.u8(HEAD);
    payload.u16(FORMAT);
    payload.u128(head.cluster.0);
    payload.u64(head.node.0);
    payload.u16(head.group.number());
    payload.u64(head.incarnation.0);
}

fn read_format(payload: &mut Reader<'_>) -> Result<u16, DecodeError> {
    match payload.u8()? {
        HEAD => payload.u16(),
        _ => Err(payload.unknown("the head of a snapshot")),
    }
}

fn read_head(payload: &mut Reader<'_>) -> Result<SnapshotHead, DecodeError> {
    Ok(SnapshotHead {
        cluster: ClusterId(payload.u128()?),
        node: NodeId(payload.u64()?),
        group: GroupId::new(payload.u16()?),
        incarnation: Incarnation(payload.u64()?),
    })
}

/// `compressed` is room for the block in its compressed form.
fn encode_block(payload: &mut Vec<u8>, block: &[u8], last: u8, compressed: &mut [u8]) {
    payload.u8(BLOCK);
    let length =
        block::compress_into(block, compressed).expect("there is room for what cannot be compressed");
    if codec::COUNT_BYTES + length < block.len() {
        payload.u8(last | COMPRESSED);
        payload.u32(block.len() as u32);
        payload.raw(&compressed[..length]);
    } else {
        payload.u8(last);
        payload.raw(block);
    }
}

/// Reads a block to the end of `chunk`, and says whether it is the chunk's last.
fn read_block(payload: &mut Reader<'_>, chunk: &mut Vec<u8>) -> Result<bool, DecodeError> {
    payload.u8()?;
    let flags = payload.u8()?;
    if flags & !(COMPRESSED | LAST) != 0 {
        return Err(payload.unknown("flags of a block"));
    }
    if flags & COMPRESSED == 0 {
        chunk.extend_from_slice(payload.rest());
    } else {
        let raw = payload.u32()? as usize;
        if raw > BLOCK_BYTES_MAX {
            return Err(payload.error("a block of at most 256 KiB"));
        }
        let start = chunk.len();
        chunk.resize(start + raw, 0);
        let length = block::decompress_into(payload.rest(), &mut chunk[start..]);
        if length.ok() != Some(raw) {
            return Err(payload.error("as many compressed bytes as the block has"));
        }
    }
    Ok(flags & LAST != 0)
}

fn encode_footer(payload: &mut Vec<u8>, footer: &SnapshotFooter) {
    payload.u8(FOOTER);
    footer.point.encode(payload);
    payload.u64(footer.generation);
    payload.u64(footer.chunks);
    payload.u64(footer.raw_bytes);
    payload.u32(footer.checksum);
}

fn read_footer(payload: &mut Reader<'_>) -> Result<SnapshotFooter, DecodeError> {
    payload.u8()?;
    let footer = SnapshotFooter {
        point: SnapshotPoint::decode(payload)?,
        generation: payload.u64()?,
        chunks: payload.u64()?,
        raw_bytes: payload.u64()?,
        checksum: payload.u32()?,
    };
    payload.end()?;
    Ok(footer)
}

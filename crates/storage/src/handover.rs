//! The hand-over file: what a node that keeps its data in memory leaves to its next start.
//!
//! ```text
//!  stop:   write the file --> sync --> give it its name --> sync the names --> end
//!  start:  open it --> remove its name --> sync the names --> read it
//! ```
//!
//! A replica that comes back from it may vote, and may be counted on for what it acknowledged. That is true once: as soon
//! as it has acknowledged anything more, the file is out of date. So nothing of it can be read before its name is
//! durably gone ([`Handover`] does not exist earlier), and the file itself goes when it is closed. A file that cannot be
//! removed ends the start. It names the start that left it, so that the cluster can tell a copy that was put back later.
//!
//! It is a sequence of frames: a table of all groups with their places, then for each group the end of its log and its
//! state in blocks, then an end. A file whose end or table is not right is as good as none. Damage further inside costs
//! its group and those behind it, since each group is checked to its end before it counts.
//!
//! Whoever writes it must have stopped for good before: a group may not vote or acknowledge after its state was taken.

use crate::disk::{Disk, DiskFile};
use crate::entry;
use crate::error::StorageError;
use crate::frame::{self, Frames, HEAD_BYTES};
use crate::replace;
use codec::Damage;
use codec::{DecodeError, Reader, Writer};
use consensus::{HardState, Index, LogEntry, SnapshotPoint, Term};
use ids::{GroupCount, GroupId, Incarnation, NodeId, Token};
use mutations::Mutation;

const NAME: &str = "handover";
/// Bytes 0..8 of the file; the format's version is among them.
const TITLE: [u8; 8] = *b"ChorHO02";
/// Title, and what seals its frames: of the last start that it names.
const TITLE_BYTES: u64 = 16;
/// Bytes of one payload. A writer that gives more has a mistake; a file that says so is damaged.
const FRAME_BYTES_MAX: u32 = 64 * 1024 * 1024;
/// Bytes of the payload of the last frame: its kind, how many groups, how many frames.
const END_BYTES: usize = 1 + 8 + 8;

/// Starts that a file names. Of more the first and the last ones are written; what it hands over counts no more if the cluster has
/// counted one of the others last, though none of them was ready.
const STARTS_MAX: usize = 64;

const TABLE: u8 = 1;
const GROUP: u8 = 2;
const LOG: u8 = 3;
const BLOCK: u8 = 4;
const WHOLE: u8 = 5;
const END: u8 = 6;

/// Where one replica stood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaPosition {
    /// Its group.
    pub group: GroupId,
    /// Its name in the group, which it keeps.
    pub incarnation: Incarnation,
    /// Term, vote, commit.
    pub hard: HardState,
    /// The entry that its state reflects, and the members there.
    pub applied: SnapshotPoint,
}

/// Writes a hand-over file, group by group.
#[derive(Debug)]
pub struct HandoverWriter<D: Disk> {
    disk: D,
    file: D::File,
    seal: u64,
    size: u64,
    number: u64,
    /// Which are still to come, the next one last.
    left: Vec<GroupId>,
    groups: u64,
    /// The group that is being written.
    open: Option<GroupId>,
    scratch: Vec<u8>,
}

impl<D: Disk> HandoverWriter<D> {
    /// Longest block that [`HandoverWriter::block`] takes.
    pub const BLOCK_BYTES_MAX: usize = FRAME_BYTES_MAX as usize - 1;

    /// Begins the file. All groups that will be in it are named here, in their order. `left_by` is the start of `node` whose memory
    /// it is; behind it are those that took it up and ended before they said anything in its name, the present one last.
    ///
    /// # Errors
    /// What the disk answers; the next start then finds nothing.
    pub fn begin(
        disk: D,
        node: NodeId,
        left_by: &[Token],
        positions: &[ReplicaPosition],
    ) -> Result<HandoverWriter<D>, StorageError> {
        assert!(
            positions.len() <= usize::from(GroupCount::MAX),
            "one replica for each group"
        );
        let seal = seal(left_by.last().expect("somebody has left it"));
        let file = disk
            .create(&replace::new_name(NAME))
            .map_err(StorageError::io("create", NAME))?;
        let mut writer = HandoverWriter {
            disk,
            file,
            seal,
            size: 0,
            number: 0,
            left: positions.iter().rev().map(|position| position.group).collect(),
            groups: positions.len() as u64,
            open: None,
            scratch: Vec::new(),
        };
        writer.append(&TITLE)?;
        writer.append(&seal.to_le_bytes())?;
        writer.frame(TABLE, |payload| {
            payload.u64(node.0);
            let dropped = left_by.len().saturating_sub(STARTS_MAX);
            payload.u16((left_by.len() - dropped) as u16);
            for token in left_by[..1].iter().chain(&left_by[1 + dropped..]) {
                payload.u128(token.0);
            }
            payload.u16(positions.len() as u16);
            positions
                .iter()
                .for_each(|position| write_position(payload, position));
        })?;
        Ok(writer)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.file.append(bytes).map_err(StorageError::io("write", NAME))?;
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn frame(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), StorageError> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.resize(HEAD_BYTES, 0);
        bytes.push(kind);
        fill(&mut bytes);
        let payload = &bytes[HEAD_BYTES..];
        if payload.len() > FRAME_BYTES_MAX as usize {
            return Err(StorageError::TooLarge {
                file: NAME.to_owned(),
                bytes: payload.len() as u64,
                limit: u64::from(FRAME_BYTES_MAX),
            });
        }
        let head = frame::head(payload, self.number, self.size, self.seal);
        bytes[..HEAD_BYTES].copy_from_slice(&head);
        self.append(&bytes)?;
        self.number += 1;
        self.scratch = bytes;
        Ok(())
    }

    /// Begins the next group, with the end of its log: all entries behind what its state reflects.
    ///
    /// # Panics
    /// If another one is next, or the one before is not whole.
    pub fn group(&mut self, group: GroupId, log: &[LogEntry]) -> Result<(), StorageError> {
        assert_eq!(self.open, None, "groups are written one after the other");
        assert_eq!(
            self.left.pop(),
            Some(group),
            "groups come in the order of the table"
        );
        self.open = Some(group);
        self.frame(GROUP, |payload| payload.u16(group.number()))?;
        log.iter()
            .try_for_each(|entry| self.frame(LOG, |payload| entry::write(payload, entry)))
    }

    /// Writes a piece of the open group's state.
    ///
    /// # Panics
    /// If it is longer than [`HandoverWriter::BLOCK_BYTES_MAX`], or no group is open.
    pub fn block(&mut self, block: &[u8]) -> Result<(), StorageError> {
        assert!(self.open.is_some(), "state belongs to a group");
        assert!(block.len() <= Self::BLOCK_BYTES_MAX, "a block is short");
        self.frame(BLOCK, |payload| payload.raw(block))
    }

    /// Says that the open group is whole.
    ///
    /// # Panics
    /// If none is open.
    pub fn end_group(&mut self) -> Result<(), StorageError> {
        let group = self.open.take().expect("a group ends after it began");
        self.frame(WHOLE, |payload| payload.u16(group.number()))
    }

    /// Ends the file and gives it its name: now the next start will find it.
    ///
    /// # Errors
    /// What the disk answers; the next start may find it or not.
    ///
    /// # Panics
    /// If a group is missing.
    pub fn finish(mut self) -> Result<(), StorageError> {
        assert!(
            self.left.is_empty() && self.open.is_none(),
            "every group of the table was written"
        );
        let (groups, frames) = (self.groups, self.number);
        self.frame(END, |payload| {
            payload.u64(groups);
            payload.u64(frames);
        })?;
        replace::finish(&self.disk, NAME, &mut self.file)
    }
}

fn write_position(payload: &mut Vec<u8>, position: &ReplicaPosition) {
    payload.u16(position.group.number());
    payload.u64(position.incarnation.0);
    payload.u64(position.hard.term.0);
    // No incarnation is zero.
    payload.u64(position.hard.vote.map_or(0, |vote| vote.0));
    payload.u64(position.hard.commit.0);
    position.applied.encode(payload);
}

fn read_position(payload: &mut Reader<'_>) -> Result<ReplicaPosition, DecodeError> {
    Ok(ReplicaPosition {
        group: GroupId::new(payload.u16()?),
        incarnation: Incarnation(payload.u64()?),
        hard: HardState {
            term: Term(payload.u64()?),
            vote: Some(Incarnation(payload.u64()?)).filter(|vote| vote.0 != 0),
            commit: Index(payload.u64()?),
        },
        applied: SnapshotPoint::decode(payload)?,
    })
}

/// What a start found.
#[derive(Debug)]
pub enum Taken<F> {
    /// No file: the node was not stopped gracefully, or is new.
    Nothing,
    /// A file that cannot be used; it is gone, and with it what the node held.
    Unusable(Damage),
    /// A file. Its name is durably gone: this is the only time that it is read.
    Found(Handover<F>),
}

/// A hand-over file that nobody will find again. Read group by group.
#[derive(Debug)]
pub struct Handover<F> {
    file: F,
    size: u64,
    node: NodeId,
    left_by: Vec<Token>,
    seal: u64,
    positions: Vec<ReplicaPosition>,
    offset: u64,
    number: u64,
    payload: Vec<u8>,
    /// Groups that were read to their end.
    whole: usize,
    /// The next place of the open group's log; `None` between groups.
    open: Option<OpenGroup>,
    /// Why nothing more can be read.
    damage: Option<Damage>,
    is_ended: bool,
}

#[derive(Debug)]
struct OpenGroup {
    last: Index,
    /// Its log comes before its state.
    has_blocks: bool,
}

/// The next thing in a hand-over file.
#[derive(PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// A group begins.
    Group(&'a ReplicaPosition),
    /// The next entry of its log.
    Entry(LogEntry),
    /// The next piece of its state.
    Block(&'a [u8]),
    /// It is whole. Before this nothing of it may be used.
    Whole(&'a ReplicaPosition),
    /// That was all.
    End,
}

impl<F: DiskFile> Handover<F> {
    /// Takes the file that the last stop of `node` left, if there is one, and removes it durably.
    ///
    /// # Errors
    /// If it cannot be read or removed. Then the node must not start: a later start would find a file that is out of
    /// date by then.
    pub fn take<D: Disk<File = F>>(disk: &D, node: NodeId) -> Result<Taken<F>, StorageError> {
        let new = replace::new_name(NAME);
        disk.remove(&new).map_err(StorageError::io("remove", &new))?;
        let Some(file) = disk.open(NAME).map_err(StorageError::io("open", NAME))? else {
            return Ok(Taken::Nothing);
        };
        let begun = Handover::begin(file, node);
        if let Err(error @ StorageError::Io { .. }) = begun {
            return Err(error);
        }
        if !mutations::is(Mutation::HandoverUsedTwice) {
            disk.remove(NAME).map_err(StorageError::io("remove", NAME))?;
            disk.sync_names()
                .map_err(StorageError::io("sync the directory of", NAME))?;
        }
        match begun {
            Ok(handover) => Ok(Taken::Found(handover)),
            Err(StorageError::Damaged(damage)) => {
                tracing::error!(
                    %damage,
                    "the hand-over file cannot be used: everything that this node held in memory is lost here, and \
                     its replicas begin again as new ones"
                );
                Ok(Taken::Unusable(damage))
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the file that the last stop of `node` left to its end, and leaves it there: of how many groups it is. Nothing that is in
    /// it comes out here.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if it is not what was written.
    pub fn look<D: Disk<File = F>>(disk: &D, node: NodeId) -> Result<Option<usize>, StorageError> {
        let Some(file) = disk.open(NAME).map_err(StorageError::io("open", NAME))? else {
            return Ok(None);
        };
        let mut handover = Handover::begin(file, node)?;
        while handover.next_item()? != Item::End {}
        Ok(Some(handover.positions.len()))
    }

    /// Reads the table, and looks at the end.
    fn begin(file: F, node: NodeId) -> Result<Handover<F>, StorageError> {
        let size = file.size().map_err(StorageError::io("read", NAME))?;
        let end_bytes = (HEAD_BYTES + END_BYTES) as u64;
        if size < TITLE_BYTES + end_bytes {
            let expected = format!("a title of {TITLE_BYTES} bytes, a table and an end");
            return Err(Damage::new(NAME, 0, expected, format!("{size} bytes")).into());
        }
        let (mut title, mut seal) = ([0; 8], [0; 8]);
        let read = |offset, buffer: &mut [u8]| {
            file.read_at(offset, buffer)
                .map_err(StorageError::io("read", NAME))
        };
        read(0, &mut title)?;
        read(8, &mut seal)?;
        if title != TITLE {
            let show = |bytes: &[u8]| format!("{:?}", bytes.escape_ascii().to_string());
            return Err(Damage::new(NAME, 0, show(&TITLE), show(&title)).into());
        }
        let mut handover = Handover {
            file,
            size,
            node,
            left_by: Vec::new(),
            seal: u64::from_le_bytes(seal),
            positions: Vec::new(),
            offset: TITLE_BYTES,
            number: 0,
            payload: Vec::new(),
            whole: 0,
            open: None,
            damage: None,
            is_ended: false,
        };
        handover.read_frame()?;
        let at = TITLE_BYTES + HEAD_BYTES as u64;
        let wrong = |expected: String, found: String| Damage::new(NAME, at, expected, found);
        let (written_by, left_by, positions) = read_table(&handover.payload)
            .map_err(|_| wrong("a table of groups".to_owned(), "none".to_owned()))?;
        if written_by != node {
            let expected = format!("the table of node {}", node.0);
            return Err(wrong(expected, format!("that of node {}", written_by.0)).into());
        }
        (handover.left_by, handover.positions) = (left_by, positions);
        handover.check_end()?;
        Ok(handover)
    }

    fn frames(&self) -> Frames<'_, F> {
        Frames {
            file: &self.file,
            name: NAME,
            size: self.size,
            seal: self.seal,
            limit: FRAME_BYTES_MAX,
        }
    }

    fn read_frame(&mut self) -> Result<(), StorageError> {
        let mut payload = std::mem::take(&mut self.payload);
        let read = self.frames().read(self.offset, self.number, &mut payload);
        self.payload = payload;
        self.offset = read?;
        self.number += 1;
        Ok(())
    }

    /// Checks that the file was written to its end.
    fn check_end(&self) -> Result<(), StorageError> {
        let offset = self.size - (HEAD_BYTES + END_BYTES) as u64;
        let mut end = vec![0; END_BYTES];
        self.file
            .read_at(offset + HEAD_BYTES as u64, &mut end)
            .map_err(StorageError::io("read", NAME))?;
        let expected = || Damage::new(NAME, offset, "the end of a whole file", "something else");
        let (groups, frames) = read_end(&end).map_err(|_| expected())?;
        if groups != self.positions.len() as u64 {
            let found = format!("one of {groups}");
            let expected = format!("the end of a file of {} groups", self.positions.len());
            return Err(Damage::new(NAME, offset, expected, found).into());
        }
        self.frames().read(offset, frames, &mut end)?;
        Ok(())
    }

    /// The start whose memory it is, and those that took it up and said nothing in its name.
    pub fn left_by(&self) -> &[Token] {
        &self.left_by
    }

    /// Where its replicas stood. To know what is lost if they cannot be read; nothing to act upon.
    pub fn positions(&self) -> &[ReplicaPosition] {
        &self.positions
    }

    /// Those whose state was not read to its end: lost, once an error was met.
    pub fn missing(&self) -> &[ReplicaPosition] {
        &self.positions[self.whole..]
    }

    /// The next thing in it.
    ///
    /// # Errors
    /// [`StorageError::Damaged`]: the open group and those behind it are lost, and every later call says so again.
    pub fn next_item(&mut self) -> Result<Item<'_>, StorageError> {
        if let Some(damage) = &self.damage {
            return Err(damage.clone().into());
        }
        if self.is_ended {
            return Ok(Item::End);
        }
        let offset = self.offset;
        let kind = match self.read_item(offset) {
            Ok(kind) => kind,
            Err(error) => {
                self.note(&error, offset);
                return Err(error);
            }
        };
        Ok(match kind {
            Kind::Group => Item::Group(&self.positions[self.whole]),
            Kind::Entry(entry) => Item::Entry(entry),
            Kind::Block => Item::Block(&self.payload[1..]),
            Kind::Whole => Item::Whole(&self.positions[self.whole - 1]),
            Kind::End => Item::End,
        })
    }

    /// Remembers why the rest is lost, and says so.
    fn note(&mut self, error: &StorageError, offset: u64) {
        let damage = match error {
            StorageError::Damaged(damage) => damage.clone(),
            other => Damage::new(NAME, offset, "bytes", other.to_string()),
        };
        let lost: Vec<u16> = self.missing().iter().map(|lost| lost.group.number()).collect();
        tracing::error!(
            %damage,
            node = self.node.0,
            groups = ?lost,
            "the hand-over file cannot be read further: what this node held of these groups is lost here, and their \
             replicas begin again as new ones"
        );
        self.damage = Some(damage);
    }

    fn read_item(&mut self, offset: u64) -> Result<Kind, StorageError> {
        self.read_frame()?;
        let mut payload = Reader::new(&self.payload);
        let next = self.positions.get(self.whole);
        let kind = match (payload.u8(), &mut self.open, next) {
            (Ok(GROUP), open @ None, Some(next)) if payload.u16() == Ok(next.group.number()) => {
                *open = Some(OpenGroup {
                    last: next.applied.index,
                    has_blocks: false,
                });
                payload.is_empty().then_some(Kind::Group)
            }
            (Ok(LOG), Some(open), _) if !open.has_blocks => entry::read(&mut payload)
                .ok()
                .filter(|entry| payload.is_empty() && entry.index.0.checked_sub(1) == Some(open.last.0))
                .map(|entry| {
                    open.last = entry.index;
                    Kind::Entry(entry)
                }),
            (Ok(BLOCK), Some(open), _) => {
                open.has_blocks = true;
                Some(Kind::Block)
            }
            (Ok(WHOLE), open @ Some(_), Some(next)) if payload.u16() == Ok(next.group.number()) => {
                *open = None;
                self.whole += 1;
                payload.is_empty().then_some(Kind::Whole)
            }
            (Ok(END), None, None) if self.offset == self.size => {
                self.is_ended = true;
                Some(Kind::End)
            }
            _ => None,
        };
        kind.ok_or_else(|| {
            let found = format!(
                "a frame that does not belong here ({:02x?})",
                self.payload.first()
            );
            let offset = offset + HEAD_BYTES as u64;
            Damage::new(NAME, offset, "what comes next in the order of the table", found).into()
        })
    }
}

/// An [`Item`] that borrows nothing.
enum Kind {
    Group,
    Entry(LogEntry),
    Block,
    Whole,
    End,
}

fn seal(token: &Token) -> u64 {
    token.0 as u64
}

fn read_table(payload: &[u8]) -> Result<(NodeId, Vec<Token>, Vec<ReplicaPosition>), DecodeError> {
    let mut reader = Reader::new(payload);
    if reader.u8()? != TABLE {
        return Err(reader.error("a table"));
    }
    let node = NodeId(reader.u64()?);
    let starts = usize::from(reader.u16()?);
    if starts > STARTS_MAX {
        return Err(reader.error("no more starts than a file names"));
    }
    let left_by = (0..starts).map(|_| reader.u128().map(Token));
    let left_by = left_by.collect::<Result<_, _>>()?;
    let count = reader.u16()?;
    if count > GroupCount::MAX {
        return Err(reader.error("no more groups than there can be"));
    }
    let positions = (0..count).map(|_| read_position(&mut reader));
    let positions = positions.collect::<Result<_, _>>()?;
    reader.end()?;
    Ok((node, left_by, positions))
}

/// Groups, and frames before this one.
fn read_end(payload: &[u8]) -> Result<(u64, u64), DecodeError> {
    let mut reader = Reader::new(payload);
    if reader.u8()? != END {
        return Err(reader.error("an end"));
    }
    let counts = (reader.u64()?, reader.u64()?);
    reader.end()?;
    Ok(counts)
}

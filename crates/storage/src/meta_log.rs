//! The meta group's log, of one node.
//!
//! One file: a line of title, then frames. The first frame holds everything as of when the file was made: title, hard
//! state, snapshot, entries. Each later one holds the changes of one call of [`MetaLog::write`], appended with one write
//! and synced before the call returns. Entries replace those that have their places or later ones, so a suffix is cut by
//! writing over it.
//!
//! A new file is made, and takes the old one's name, when a snapshot makes entries needless, and each time the log is
//! opened. The latter because what is read after a failed sync may be in the system's memory only: it must not count as
//! kept before it was written again.
//!
//! **Torn or damaged?** No frame is begun before the one before it was synced. So a frame that cannot be read is a torn
//! tail, which was never reported as written, if no later one was begun; it is cut. Otherwise it is damage, and an error.
//! Damage to the very last frame cannot be told from a torn one.
//!
//! **A full disk.** Behind the last frame the file has zeros: room for what the group decides while there is none on the disk. A
//! snapshot that only makes the log shorter waits for room then.
//!
//! Invariants, checked for each change, written or read:
//! 1. Entries have consecutive places, the first right behind the snapshot; their terms never go back.
//! 2. What is committed is neither cut nor written over, and is in the log.
//! 3. Term and commit never go back; in one term there is one vote.

use crate::disk::{Disk, DiskFile};
use crate::entry;
use crate::error::StorageError;
use crate::frame::{self, Frames, HEAD_BYTES};
use crate::replace::Replacement;
use codec::Damage;
use codec::{DecodeError, Reader, Writer};
use consensus::{HardState, Index, LogEntry, SnapshotPoint, Term};
use ids::Incarnation;
use mutations::Mutation;
use std::io::ErrorKind;

const NAME: &str = "meta-log";
/// Bytes 0..8 of the file; the format's version is among them.
const TITLE: [u8; 8] = *b"ChorML01";
/// Title, and the file's own number, which seals its frames.
const TITLE_BYTES: u64 = 16;
/// Bytes of the payload of one frame, and so of a snapshot: the state of the meta group is a few hundred bytes for each
/// group and member. What is larger is refused, and the log ends.
const FRAME_BYTES_MAX: u32 = 256 * 1024 * 1024;
/// Bytes of the file above which [`MetaLog::is_long`] asks for a snapshot.
const LONG_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of the file. What would make it larger is refused, and the log ends: nobody made the snapshots it asked for.
const LOG_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes of zeros that are put behind the frames at once, and bytes left of them below which that is done.
const ROOM_BYTES: usize = 256 * 1024;
const ROOM_MIN: u64 = 128 * 1024;

/// The whole state of the meta group at a place of its log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The place.
    pub point: SnapshotPoint,
    /// The state, as its owner encodes it.
    pub state: Vec<u8>,
}

/// Everything that a log holds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MetaState {
    /// Term, vote, commit.
    pub hard: HardState,
    /// What the entries come after; `None` if they begin at 1.
    pub snapshot: Option<Snapshot>,
    /// In order.
    pub entries: Vec<LogEntry>,
}

/// The log, open to write. See the file's header.
#[derive(Debug)]
pub struct MetaLog<D: Disk> {
    disk: D,
    file: D::File,
    /// Counts the files that this log was written in.
    seal: u64,
    /// Of the next frame.
    number: u64,
    /// Bytes of the frames.
    size: u64,
    /// Of the file, zeros included.
    room: u64,
    held: MetaState,
    has_failed: bool,
}

const HARD: u8 = 1;
const ENTRY: u8 = 2;
const SNAPSHOT: u8 = 3;

impl MetaState {
    /// The place and term before the first entry.
    fn base(&self) -> (Index, Term) {
        self.snapshot.as_ref().map_or_else(Default::default, |snapshot| {
            (snapshot.point.index, snapshot.point.term)
        })
    }

    /// The place and term of the last entry.
    fn last(&self) -> (Index, Term) {
        self.entries
            .last()
            .map_or_else(|| self.base(), |entry| (entry.index, entry.term))
    }

    /// The term at a place: of an entry, or of the snapshot.
    fn term_at(&self, index: Index) -> Option<Term> {
        let (base, term) = self.base();
        let above = index.0.checked_sub(base.0)?;
        match above.checked_sub(1) {
            None => Some(term),
            Some(place) => Some(self.entries.get(usize::try_from(place).ok()?)?.term),
        }
    }

    /// Takes an entry in, in place of any at its index and behind. The error says which invariant forbids it.
    fn put_entry(&mut self, entry: LogEntry) -> Result<(), &'static str> {
        let (base, last) = (self.base().0, self.last().0);
        if entry.index <= base || entry.index.0 > last.0.saturating_add(1) {
            return Err("1: entries have consecutive places behind the snapshot");
        }
        if entry.index <= self.hard.commit {
            return Err("2: what is committed is not written over");
        }
        if self.term_at(Index(entry.index.0 - 1)) > Some(entry.term) {
            return Err("1: terms of entries never go back");
        }
        // Above the base and at most one behind the last, so it is an index of the list or its length.
        self.entries.truncate((entry.index.0 - base.0 - 1) as usize);
        self.entries.push(entry);
        Ok(())
    }

    fn put_hard(&mut self, hard: HardState) -> Result<(), &'static str> {
        let held = self.hard;
        if hard.term < held.term {
            return Err("3: the term never goes back");
        }
        if hard.term == held.term && held.vote.is_some() && hard.vote != held.vote {
            return Err("3: in one term there is one vote");
        }
        if hard.commit < held.commit {
            return Err("3: commit never goes back");
        }
        if hard.commit > self.last().0 {
            return Err("2: what is committed is in the log");
        }
        self.hard = hard;
        Ok(())
    }

    /// Takes a snapshot in. Entries behind it stay if the log agrees with it at its place, as Raft has it.
    fn put_snapshot(&mut self, snapshot: Snapshot) -> Result<(), &'static str> {
        let point = &snapshot.point;
        // One at place 0 names the first members.
        if self.snapshot.is_some() && point.index <= self.base().0 {
            return Err("1: a snapshot is of a later place than the one before it");
        }
        if self.term_at(point.index) == Some(point.term) {
            self.entries.retain(|entry| entry.index > point.index);
        } else if point.index < self.hard.commit {
            return Err("2: what is committed is not cut");
        } else {
            self.entries.clear();
        }
        self.hard.commit = self.hard.commit.max(point.index);
        self.snapshot = Some(snapshot);
        Ok(())
    }

    /// All of it, as the payload of a file's first frame.
    fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        if let Some(snapshot) = &self.snapshot {
            payload.u8(SNAPSHOT);
            snapshot.point.encode(&mut payload);
            payload.long_bytes(&snapshot.state);
        }
        encode_changes(&mut payload, &self.entries, Some(self.hard));
        payload
    }

    /// Takes in what a frame says. The error says where in the payload, and what is wrong.
    fn take_payload(&mut self, payload: &[u8]) -> Result<(), (u64, &'static str)> {
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            let at = reader.offset() as u64;
            let taken = self.take_record(&mut reader);
            taken
                .unwrap_or(Err("a record that is none"))
                .map_err(|wrong| (at, wrong))?;
        }
        Ok(())
    }

    /// Takes in the next record. The inner error says which invariant forbids it.
    fn take_record(&mut self, reader: &mut Reader<'_>) -> Result<Result<(), &'static str>, DecodeError> {
        Ok(match reader.u8()? {
            HARD => self.put_hard(read_hard(reader)?),
            ENTRY => self.put_entry(entry::read(reader)?),
            SNAPSHOT => self.put_snapshot(read_snapshot(reader)?),
            _ => return Err(reader.unknown("a kind of record")),
        })
    }
}

fn read_hard(reader: &mut Reader<'_>) -> Result<HardState, DecodeError> {
    Ok(HardState {
        term: Term(reader.u64()?),
        vote: reader.option(|reader| reader.u64().map(Incarnation))?,
        commit: Index(reader.u64()?),
    })
}

fn read_snapshot(reader: &mut Reader<'_>) -> Result<Snapshot, DecodeError> {
    Ok(Snapshot {
        point: SnapshotPoint::decode(reader)?,
        state: reader.long_bytes()?.to_vec(),
    })
}

/// Entries first: what is committed must be there before it is said to be.
fn encode_changes(payload: &mut Vec<u8>, entries: &[LogEntry], hard: Option<HardState>) {
    for entry in entries {
        payload.u8(ENTRY);
        entry::write(payload, entry);
    }
    if let Some(hard) = hard {
        payload.u8(HARD);
        payload.u64(hard.term.0);
        payload.option(&hard.vote, |payload, vote| payload.u64(vote.0));
        payload.u64(hard.commit.0);
    }
}

impl<D: Disk> MetaLog<D> {
    /// Makes a log that holds a snapshot, durably, and with it: nothing can go on from a log that says not whose it is.
    ///
    /// # Errors
    /// What the disk answers.
    ///
    /// # Panics
    /// If there is one: a member that forgets its votes may vote twice.
    pub fn create(disk: D, first: Snapshot) -> Result<MetaLog<D>, StorageError> {
        let found = disk.open(NAME).map_err(StorageError::io("open", NAME))?;
        assert!(found.is_none(), "a log is made once");
        let mut state = MetaState::default();
        state
            .put_snapshot(first)
            .expect("there is nothing that it contradicts");
        MetaLog::begin(disk, 0, state)
    }

    /// Removes the log, if there is one: its member is none any more. When it returns it is gone for good.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn remove(disk: &D) -> Result<(), StorageError> {
        let found = disk.open(NAME).map_err(StorageError::io("open", NAME))?;
        if found.is_some() {
            disk.remove(NAME).map_err(StorageError::io("remove", NAME))?;
            disk.sync_names()
                .map_err(StorageError::io("sync the names beside", NAME))?;
        }
        Ok(())
    }

    /// Whether there is a log.
    ///
    /// # Errors
    /// What the disk answers.
    pub fn is_there(disk: &D) -> Result<bool, StorageError> {
        let found = disk.open(NAME).map_err(StorageError::io("open", NAME))?;
        Ok(found.is_some())
    }

    /// Opens the log and says what it holds; `None` if there is none. Whether there must be one, the caller knows.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if what was once synced is not there.
    pub fn open(disk: D) -> Result<Option<(MetaLog<D>, MetaState)>, StorageError> {
        let Some(file) = disk.open(NAME).map_err(StorageError::io("open", NAME))? else {
            return Ok(None);
        };
        let (state, seal) = replay(&file)?;
        drop(file);
        let log = MetaLog::begin(disk, seal + 1, state.clone())?;
        Ok(Some((log, state)))
    }

    /// What the log holds, which stays as it is; `None` if there is none.
    ///
    /// # Errors
    /// As of [`MetaLog::open`].
    pub fn look(disk: &D) -> Result<Option<MetaState>, StorageError> {
        let file = disk.open(NAME).map_err(StorageError::io("open", NAME))?;
        file.map(|file| replay(&file).map(|(state, _)| state)).transpose()
    }

    /// Makes a new file that holds `state`, in place of the old one.
    fn begin(disk: D, seal: u64, mut state: MetaState) -> Result<MetaLog<D>, StorageError> {
        let (file, size) = write_file(&disk, seal, &state)?;
        forget_snapshot_bytes(&mut state);
        Ok(MetaLog {
            disk,
            file,
            seal,
            number: 1,
            size,
            room: size,
            held: state,
            has_failed: false,
        })
    }

    /// Writes entries, in place of those at the same or later places, and the hard state. When it returns they are kept.
    ///
    /// # Errors
    /// They are final: nobody knows what is kept, and every later call fails.
    ///
    /// # Panics
    /// If one of the file's invariants would be broken.
    pub fn write(&mut self, entries: &[LogEntry], hard: Option<HardState>) -> Result<(), StorageError> {
        if entries.is_empty() && hard.is_none() {
            return Ok(());
        }
        self.check_usable()?;
        for entry in entries {
            if let Err(wrong) = self.held.put_entry(entry.clone()) {
                panic!("an entry of the meta group at {:?}: {wrong}", entry.index);
            }
        }
        if let Some(Err(wrong)) = hard.map(|hard| self.held.put_hard(hard)) {
            panic!("hard state of the meta group {hard:?}: {wrong}");
        }
        self.has_failed = true;
        let mut bytes = vec![0; HEAD_BYTES];
        encode_changes(&mut bytes, entries, hard);
        check_limits(bytes.len() - HEAD_BYTES, self.size + bytes.len() as u64)?;
        let head = frame::head(&bytes[HEAD_BYTES..], self.number, self.size, self.seal);
        bytes[..HEAD_BYTES].copy_from_slice(&head);
        self.file
            .write_at(self.size, &bytes)
            .map_err(StorageError::io("write", NAME))?;
        self.extend(self.size + bytes.len() as u64)?;
        if !mutations::is(Mutation::MetaLogNotSynced) {
            self.file.sync().map_err(StorageError::io("sync", NAME))?;
        }
        self.has_failed = false;
        self.number += 1;
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Puts zeros behind the frames, which end here, if too few are left. If there is no room, those are used that there are.
    fn extend(&mut self, end: u64) -> Result<(), StorageError> {
        self.room = self.room.max(end);
        if self.room - end >= ROOM_MIN {
            return Ok(());
        }
        match self.file.write_at(self.room, &vec![0; ROOM_BYTES]) {
            Ok(()) => self.room += ROOM_BYTES as u64,
            Err(error) if error.kind() == ErrorKind::StorageFull => {}
            Err(error) => return Err(StorageError::io("write", NAME)(error)),
        }
        Ok(())
    }

    /// Writes a snapshot: of its own state, to make the log shorter, or one that the leader sent. Entries up to its
    /// place go, and all others too if the log differs there. What it holds is committed.
    ///
    /// # Errors
    /// [`StorageError::Full`] if it would only have made the log shorter: that goes on at its length. Others as of
    /// [`MetaLog::write`].
    ///
    /// # Panics
    /// If one of the file's invariants would be broken.
    pub fn write_snapshot(&mut self, snapshot: Snapshot) -> Result<(), StorageError> {
        self.check_usable()?;
        let place = snapshot.point.index;
        let is_own = place <= self.held.hard.commit;
        if let Err(wrong) = self.held.put_snapshot(snapshot) {
            panic!("a snapshot of the meta group at {place:?}: {wrong}");
        }
        self.has_failed = true;
        let written = write_file(&self.disk, self.seal + 1, &self.held);
        forget_snapshot_bytes(&mut self.held);
        match written {
            Ok((file, size)) => {
                self.file = file;
                (self.size, self.room) = (size, size);
                self.seal += 1;
                self.number = 1;
            }
            // The file that there is says the same, at greater length.
            Err(StorageError::Io {
                what: "create" | "write",
                file,
                error,
            }) if is_own && error.kind() == ErrorKind::StorageFull => {
                self.has_failed = false;
                return Err(StorageError::Full { file, error });
            }
            Err(error) => return Err(error),
        }
        self.has_failed = false;
        Ok(())
    }

    /// Whether it is time for a snapshot.
    pub fn is_long(&self) -> bool {
        self.size > LONG_BYTES
    }

    fn check_usable(&self) -> Result<(), StorageError> {
        if self.has_failed {
            let file = NAME.to_owned();
            return Err(StorageError::Failed { file });
        }
        Ok(())
    }
}

/// A log that is open keeps what invariants need: the state itself is with its owner.
fn forget_snapshot_bytes(state: &mut MetaState) {
    if let Some(snapshot) = &mut state.snapshot {
        snapshot.state = Vec::new();
    }
}

fn check_limits(payload: usize, size: u64) -> Result<(), StorageError> {
    let too_large = |bytes, limit| {
        let file = NAME.to_owned();
        Err(StorageError::TooLarge { file, bytes, limit })
    };
    if payload > FRAME_BYTES_MAX as usize {
        return too_large(payload as u64, u64::from(FRAME_BYTES_MAX));
    }
    if size > LOG_BYTES_MAX {
        return too_large(size, LOG_BYTES_MAX);
    }
    Ok(())
}

fn write_file<D: Disk>(disk: &D, seal: u64, state: &MetaState) -> Result<(D::File, u64), StorageError> {
    let payload = state.encode();
    let size = TITLE_BYTES + (HEAD_BYTES + payload.len()) as u64;
    check_limits(payload.len(), size)?;
    let mut replacement = Replacement::begin(disk, NAME)?;
    replacement.append(&TITLE)?;
    replacement.append(&seal.to_le_bytes())?;
    replacement.append(&frame::head(&payload, 0, TITLE_BYTES, seal))?;
    replacement.append(&payload)?;
    Ok((replacement.finish()?, size))
}

/// Whether nothing was written from here on.
fn is_zero<F: DiskFile>(file: &F, offset: u64, size: u64) -> Result<bool, StorageError> {
    let mut rest = vec![0; usize::try_from(size - offset).unwrap_or(usize::MAX)];
    file.read_at(offset, &mut rest)
        .map_err(StorageError::io("read", NAME))?;
    Ok(rest.iter().all(|byte| *byte == 0))
}

/// Reads a whole file: what it holds, and its seal.
fn replay<F: DiskFile>(file: &F) -> Result<(MetaState, u64), StorageError> {
    let size = file.size().map_err(StorageError::io("read", NAME))?;
    if size < TITLE_BYTES {
        let expected = format!("a title of {TITLE_BYTES} bytes");
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
    let frames = Frames {
        file,
        name: NAME,
        size,
        seal: u64::from_le_bytes(seal),
        limit: FRAME_BYTES_MAX,
    };
    let mut state = MetaState::default();
    let (mut offset, mut number, mut payload) = (TITLE_BYTES, 0, Vec::new());
    while offset < size {
        let next = match frames.read(offset, number, &mut payload) {
            Ok(next) => next,
            // The first frame was synced before the file got its name.
            Err(StorageError::Damaged(damage)) if number > 0 => {
                if let Some((later, _)) = frames.find_later(offset, number)? {
                    tracing::error!(later, "the meta log is damaged in front of a later frame");
                    return Err(damage.into());
                }
                if !is_zero(file, offset, size)? {
                    tracing::warn!(
                        offset,
                        bytes = size - offset,
                        %damage,
                        "the meta log ends in a write that was never finished: it is cut"
                    );
                }
                break;
            }
            Err(error) => return Err(error),
        };
        state.take_payload(&payload).map_err(|(at, wrong)| {
            let at = offset + HEAD_BYTES as u64 + at;
            Damage::new(NAME, at, "a record that keeps to the invariants", wrong)
        })?;
        (offset, number) = (next, number + 1);
    }
    if number == 0 {
        return Err(Damage::new(NAME, offset, "a frame", "the end of the file").into());
    }
    // A snapshot may be there without the word of the term that its member reached to get it: that is a later write.
    let reached = state.base().1;
    if state.hard.term < reached {
        (state.hard.term, state.hard.vote) = (reached, None);
    }
    Ok((state, frames.seal))
}

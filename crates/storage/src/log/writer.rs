//! The log of a worker, open to write. See the header of `log.rs`.

use super::Place;
use super::found::ReplicaLog;
use super::held::Held;
use super::prepare::{PrepareJob, Prepared};
use super::record;
use super::segment::{self, BLOCK_BYTES};
use super::shelf::Shelf;
use super::sync::{SyncJob, Synced};
use super::table::{self, Row};
use super::{GOES_ON, LogIdentity, LogSettings, PREFIX_BYTES, ROOM_MIN, WENT_ON};
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::frame::{self, HEAD_BYTES};
use codec::{Pieces, Writer};
use consensus::{HardState, LogEntry, SnapshotPoint};
use ids::{GroupId, Incarnation};
use mutations::Mutation;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Bytes of a buffer that is kept for the next batch.
const KEPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of a batch that are written at once, and the part of a segment that they are at most: whoever writes sees to others meanwhile.
const PART_BYTES_MAX: usize = 4 * 1024 * 1024;
const PART_OF_SEGMENT: usize = 4;
/// Bytes of a batch above which a log that begins goes on with the next group in another one.
const BEGIN_BYTES: usize = 16 * 1024 * 1024;
/// Of a segment, and bytes of it at most, that are kept for what lets go of others while there is no room for another one: a part of
/// this many.
const RESERVE_PART: u64 = 4;
const RESERVE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of the smallest segment: it holds its head, and something.
const SEGMENT_BYTES_MIN: u64 = 4 * BLOCK_BYTES;

/// Bytes before the records of the open batch: where what goes before them fits, they are written from where they were gathered.
const FRONT_BYTES: usize = 1024;

/// A batch that was closed, on its way into the log.
#[derive(Debug)]
struct Leaving {
    /// Behind [`FRONT_BYTES`] for what goes before them.
    records: Pieces,
    /// The groups in it, in their order, the table of these and of those of the batch before it, and what that is made of.
    groups: Vec<GroupId>,
    table: Vec<u8>,
    rows: Vec<Row>,
    /// A frame that does not hold a whole batch, or one with a long table.
    frame: Vec<u8>,
    /// The parts that are not written yet, and where the first of them begins in the batch.
    parts: VecDeque<Part>,
    from: usize,
    /// The number of its last frame.
    last_frame: u64,
}

/// Room for the records of a batch.
fn no_records() -> Pieces {
    let mut records = Pieces::default();
    records.raw(&[0; FRONT_BYTES]);
    records
}

impl Leaving {
    fn new() -> Leaving {
        Leaving {
            records: no_records(),
            groups: Vec::new(),
            table: Vec::new(),
            rows: Vec::new(),
            frame: Vec::new(),
            parts: VecDeque::new(),
            from: 0,
            last_frame: 0,
        }
    }

    /// Bytes of the batch.
    fn len(&self) -> usize {
        self.table.len() + self.records.len() - FRONT_BYTES
    }

    /// Bytes that are not written yet.
    fn rest(&self) -> u64 {
        match self.parts.is_empty() {
            true => 0,
            false => (self.len() - self.from) as u64,
        }
    }

    /// The part of the batch in the payload of a frame that begins with `prefix`, behind room for the head. If it is the first that is written
    /// to its last block, zeros follow to the end of that: a block of which only a part is written may have to be read first.
    fn frame(&mut self, part: Range<usize>, prefix: &[u8; PREFIX_BYTES], offset: u64) -> (&mut [u8], usize) {
        let (before, split) = (HEAD_BYTES + PREFIX_BYTES, self.table.len());
        let is_whole = part == (0..self.len()) && before + split <= FRONT_BYTES;
        if !is_whole || self.records.plain().is_none() {
            let in_records = |place: usize| FRONT_BYTES + place.max(split) - split;
            self.frame.clear();
            self.frame.resize(before, 0);
            self.frame
                .extend_from_slice(&self.table[part.start.min(split)..part.end.min(split)]);
            self.records
                .copy(in_records(part.start)..in_records(part.end), &mut self.frame);
        }
        let (buffer, begin) = match self.records.plain().filter(|_| is_whole) {
            Some(records) => {
                let begin = FRONT_BYTES - split - before;
                records[FRONT_BYTES - split..FRONT_BYTES].copy_from_slice(&self.table);
                (records, begin)
            }
            None => (&mut self.frame, 0),
        };
        buffer[begin + HEAD_BYTES..begin + before].copy_from_slice(prefix);
        let length = buffer.len() - begin;
        let end = offset + length as u64;
        if segment::next_block(end) != segment::next_block(offset) {
            buffer.resize(buffer.len() + (segment::next_block(end) - end) as usize, 0);
        }
        (&mut buffer[begin..], length)
    }

    fn clear(&mut self) {
        self.records.cut(FRONT_BYTES, KEPT_BYTES_MAX);
        self.frame.clear();
        self.frame.shrink_to(KEPT_BYTES_MAX);
    }
}

/// The log, open to write.
pub struct WorkerLog<D: Disk> {
    shelf: Shelf<D>,
    /// Where the next frame begins in the current segment.
    offset: u64,
    /// The number of the last frame.
    written: u64,
    /// The last frame that is kept.
    synced: u64,
    /// Batches that were written since the log began.
    batches: u64,
    /// Bytes of frames that were written, and that are kept, since the log began.
    written_bytes: u64,
    synced_bytes: u64,
    is_syncing: bool,
    groups: BTreeMap<GroupId, Held>,
    /// Groups with records in the open batch, in their order.
    touched: Vec<GroupId>,
    /// Of the open batch, behind [`FRONT_BYTES`] for what goes before them.
    records: Pieces,
    leaving: Leaving,
    /// Whether a group may need less than when that was last looked at.
    may_trim: bool,
    /// Segments below the first number go when the frame with the second one is kept.
    trim: Option<(u64, u64)>,
}

impl<D: Disk + Clone> WorkerLog<D> {
    /// Begins the log of this start, durably, with the whole logs of the groups that go on. When it returns, what earlier starts left
    /// may go: [`FoundLogs::drop_former`](crate::FoundLogs::drop_former).
    ///
    /// # Errors
    /// What the disk answers.
    ///
    /// # Panics
    /// If segments would be smaller than 16 KiB, or no multiple of 4 KiB.
    pub fn begin(
        disk: D,
        settings: LogSettings,
        identity: LogIdentity,
        live: &[ReplicaLog],
    ) -> Result<WorkerLog<D>, StorageError> {
        let bytes = settings.segment_bytes;
        assert!(
            bytes >= SEGMENT_BYTES_MIN && bytes.is_multiple_of(BLOCK_BYTES),
            "a segment has at least four blocks, and all of each"
        );
        let mut shelf = Shelf::new(disk, identity, bytes)?;
        shelf.begin()?;
        let mut log = WorkerLog {
            shelf,
            offset: BLOCK_BYTES,
            written: 0,
            synced: 0,
            batches: 0,
            written_bytes: 0,
            synced_bytes: 0,
            is_syncing: false,
            groups: BTreeMap::new(),
            touched: Vec::new(),
            records: no_records(),
            leaving: Leaving::new(),
            may_trim: false,
            trim: None,
        };
        for one in live {
            log.live(one);
            if log.records.len() > BEGIN_BYTES {
                log.write()?;
            }
        }
        // A log without groups has a frame too: that of an earlier start is not the last one any more.
        if log.has_batch() || log.written == 0 {
            log.write()?;
        }
        let job = log.sync_job().expect("something was just written");
        log.on_synced(job.run()?);
        Ok(log)
    }

    /// Gathers a group's whole log, in place of everything earlier of it.
    ///
    /// # Panics
    /// If the entries do not follow the start and each other, as all that take entries.
    pub fn live(&mut self, log: &ReplicaLog) {
        let held = Held::new((log.incarnation, log.generation), &log.start, log.floor);
        self.begin_group(log.group, held, (&log.start, log.hard), &log.entries);
    }

    /// Gathers entries, in place of those at the same or later places, and the hard state.
    ///
    /// # Panics
    /// If the group has no log here: it begins with [`WorkerLog::live`].
    pub fn append(&mut self, group: GroupId, entries: &[LogEntry], hard: HardState) {
        let before = self.records.len();
        record::write_append(&mut self.records, group, &hard, entries);
        let bytes = (self.records.len() - before) as u64;
        let held = self.held(group);
        held.append(entries, hard);
        held.bytes += bytes;
    }

    /// Gathers that the group's log begins again behind a state that was installed, whose snapshot is durable.
    ///
    /// # Panics
    /// As [`WorkerLog::append`].
    pub fn restart(&mut self, group: GroupId, point: &SnapshotPoint, entries: &[LogEntry], hard: HardState) {
        let old = self.held(group);
        let held = Held::new(old.ids(), point, old.floor());
        self.begin_group(group, held, (point, hard), entries);
    }

    /// Gathers a whole log.
    fn begin_group(
        &mut self,
        group: GroupId,
        mut held: Held,
        (start, hard): (&SnapshotPoint, HardState),
        entries: &[LogEntry],
    ) {
        held.append(entries, hard);
        let before = self.records.len();
        record::write_live(&mut self.records, group, held.ids(), (start, &hard), entries);
        held.bytes = (self.records.len() - before) as u64;
        self.groups.insert(group, held);
        self.touch(group);
        self.may_trim = true;
    }

    /// Gathers that the replica here has ended: its log is void.
    pub fn end(&mut self, group: GroupId) {
        record::write_end(&mut self.records, group);
        self.groups.remove(&group);
        self.touch(group);
        self.may_trim = true;
    }

    /// Gathers that a snapshot of the group is durable: its log begins behind that from now on. Entries up to there are needed no more
    /// once this is kept. A group without a log here has nothing to say.
    pub fn on_snapshot(&mut self, group: GroupId, point: &SnapshotPoint) {
        let Some(held) = self.groups.get_mut(&group) else {
            return;
        };
        held.begin_behind(point);
        record::write_snapshot(&mut self.records, group, held.ids(), (point, held.hard()));
        self.touch(group);
        self.may_trim = true;
    }

    /// Gathers that the group's log, which stands under nobody's name, is that of this replica, behind a snapshot that is durable.
    ///
    /// # Panics
    /// As [`WorkerLog::append`].
    pub(crate) fn count(&mut self, group: GroupId, incarnation: Incarnation, point: &SnapshotPoint) {
        self.held(group).set_incarnation(incarnation);
        self.on_snapshot(group, point);
    }

    /// Whether something of the group stands here.
    pub(crate) fn has_log(&self, group: GroupId) -> bool {
        self.groups.contains_key(&group)
    }

    /// The open batch has records of the group.
    fn touch(&mut self, group: GroupId) {
        if let Err(place) = self.touched.binary_search(&group) {
            self.touched.insert(place, group);
        }
    }

    fn held(&mut self, group: GroupId) -> &mut Held {
        self.touch(group);
        let held = self.groups.get_mut(&group);
        held.expect("a group's log begins with its whole log, or an empty one")
    }

    /// Whether something was gathered that is not written.
    pub fn has_batch(&self) -> bool {
        !self.touched.is_empty() || self.is_writing()
    }

    /// Whether a batch is written in part.
    #[inline]
    pub fn is_writing(&self) -> bool {
        !self.leaving.parts.is_empty()
    }

    /// Whether more of it can be written at once.
    pub fn goes_on(&self) -> bool {
        let next = self.leaving.parts.front();
        next.is_some_and(|part| !part.is_in_next || self.has_ready())
    }

    /// The number of the last frame of the last batch that was closed.
    pub fn closed(&self) -> u64 {
        self.leaving.last_frame
    }

    /// Writes all that was gathered, and an empty batch if that is nothing: it says how far all is synced. The answer is the number of the last
    /// frame.
    ///
    /// # Errors
    /// As [`WorkerLog::close`] and [`WorkerLog::write_part`].
    pub fn write(&mut self) -> Result<u64, StorageError> {
        let was_writing = self.is_writing();
        self.write_rest()?;
        if !was_writing || self.has_batch() {
            self.close()?;
            self.write_rest()?;
        }
        Ok(self.written)
    }

    /// Writes what is left of the batch that was closed.
    ///
    /// # Errors
    /// As [`WorkerLog::write_part`].
    pub fn write_rest(&mut self) -> Result<(), StorageError> {
        while self.is_writing() {
            self.write_part()?;
        }
        Ok(())
    }

    /// Closes the open batch, which may be empty: what comes from now on gathers in the next one. The answer is the number of the last frame
    /// that it will have.
    ///
    /// # Errors
    /// [`StorageError::Full`] if it begins in a segment that cannot be made, or is being made by a [`PrepareJob`]: the batch stays open. All
    /// others are final.
    ///
    /// # Panics
    /// If the one before is not written.
    pub fn close(&mut self) -> Result<u64, StorageError> {
        assert!(!self.is_writing(), "one batch is written at a time");
        self.check_usable()?;
        self.write_table();
        let length = self.leaving.table.len() + self.records.len() - FRONT_BYTES;
        let (parts, is_in_next) = self.parts(length);
        let (oldest, current) = self.shelf.numbers();
        let begins_in = match is_in_next {
            true => self.shelf.reserve()?,
            false => current,
        };
        let last_frame = self.written + parts.len() as u64;
        for group in &self.touched {
            if let Some(held) = self.groups.get_mut(group) {
                held.written(begins_in, last_frame);
            }
        }
        std::mem::swap(&mut self.leaving.groups, &mut self.touched);
        self.touched.clear();
        std::mem::swap(&mut self.records, &mut self.leaving.records);
        (self.leaving.parts, self.leaving.from) = (parts, 0);
        self.leaving.last_frame = last_frame;
        if self.may_trim && self.trim.is_none() && oldest < begins_in {
            self.may_trim = false;
            let needed = self.groups.values().map(Held::pin).min();
            let needed = needed.filter(|_| !mutations::is(Mutation::PinnedSegmentDropped));
            let needed = needed.map_or(begins_in, |needed| needed.min(begins_in));
            if needed > oldest {
                self.trim = Some((needed, last_frame));
            }
        }
        Ok(last_frame)
    }

    /// Writes the next frame of the batch that was closed: a quarter of a segment, and `PART_BYTES_MAX`, at most.
    ///
    /// # Errors
    /// [`StorageError::Full`] if a segment is needed and cannot be made, or is being made by a [`PrepareJob`]: it may be called again. All
    /// others are final.
    ///
    /// # Panics
    /// If all of it is written.
    pub fn write_part(&mut self) -> Result<(), StorageError> {
        self.check_usable()?;
        let part = self.leaving.parts.front().expect("something is left of it");
        let (bytes, is_in_next) = (part.bytes, part.is_in_next);
        if is_in_next {
            self.shelf.reserve()?;
            self.shelf.advance();
            self.offset = BLOCK_BYTES;
        }
        self.leaving.parts.pop_front();
        let from = self.leaving.from;
        self.leaving.from = from + bytes;
        let goes_on = if self.is_writing() { GOES_ON } else { 0 };
        let went_on = if from > 0 { WENT_ON } else { 0 };
        self.write_frame(from..from + bytes, goes_on | went_on)?;
        if !self.is_writing() {
            self.batches += 1;
            self.leaving.clear();
        }
        Ok(())
    }

    /// The rows of the groups that are in either batch, in their order.
    fn write_table(&mut self) {
        let mut rows = std::mem::take(&mut self.leaving.rows);
        rows.clear();
        let (mut this, mut before) = (&*self.touched, &*self.leaving.groups);
        while let Some(&group) = this.first().into_iter().chain(before.first()).min() {
            let is_in_this = take_first(&mut this, group);
            let is_in_before = take_first(&mut before, group);
            rows.push(Row {
                group,
                is_in_this,
                is_in_before,
                reached: self.groups.get(&group).map(Held::reached),
            });
        }
        self.leaving.table.clear();
        table::write(&mut self.leaving.table, &rows);
        self.leaving.rows = rows;
    }

    /// How a batch of so many bytes lies in frames and segments, and whether it begins in the next one.
    fn parts(&mut self, length: usize) -> (VecDeque<Part>, bool) {
        let (mut offset, mut left) = (self.offset, length);
        let mut parts = std::mem::take(&mut self.leaving.parts);
        let mut segment_bytes = self.shelf.current_bytes();
        let most = PART_BYTES_MAX.min(self.shelf.segment_bytes as usize / PART_OF_SEGMENT);
        loop {
            let is_in_next = segment_bytes - offset < ROOM_MIN;
            if is_in_next {
                (offset, segment_bytes) = (BLOCK_BYTES, self.shelf.segment_bytes);
            }
            let around = HEAD_BYTES + PREFIX_BYTES;
            let room = usize::try_from(segment_bytes - offset).unwrap_or(usize::MAX) - around;
            let bytes = left.min(room).min(most);
            parts.push_back(Part { bytes, is_in_next });
            offset += (around + bytes) as u64;
            left -= bytes;
            if left == 0 {
                let is_in_next = parts.front().is_some_and(|part| part.is_in_next);
                return (parts, is_in_next);
            }
        }
    }

    /// Writes a part of the batch as the next frame.
    fn write_frame(&mut self, part: Range<usize>, flags: u8) -> Result<(), StorageError> {
        let mut prefix = [flags; PREFIX_BYTES];
        prefix[..8].copy_from_slice(&self.synced.to_le_bytes());
        let (frame, length) = self.leaving.frame(part, &prefix, self.offset);
        let segment = self.shelf.current();
        let number = self.written + 1;
        let head = frame::head(&frame[HEAD_BYTES..length], number, self.offset, segment.seal);
        frame[..HEAD_BYTES].copy_from_slice(&head);
        segment.is_dirty = true;
        let result = segment.file.write_at(self.offset, frame);
        let result = result.map_err(StorageError::io("write", &segment.name));
        if result.is_err() {
            self.shelf.has_failed.store(true, Ordering::Release);
        }
        self.offset += length as u64;
        self.written_bytes += length as u64;
        self.written = number;
        result
    }

    /// The sync of everything that was written; `None` if that is kept, a sync is under way, or more of a batch is to be written into the
    /// same segment. What is written behind it begins on a fresh block.
    pub fn sync_job(&mut self) -> Option<SyncJob<D::File>> {
        let is_kept = self.synced == self.written;
        let is_within = self.leaving.parts.front().is_some_and(|part| !part.is_in_next);
        if self.is_syncing || is_kept || is_within || self.check_usable().is_err() {
            return None;
        }
        self.is_syncing = true;
        self.offset = segment::next_block(self.offset);
        let files = self
            .shelf
            .in_use()
            .filter(|segment| segment.is_dirty)
            .map(|segment| {
                segment.is_dirty = false;
                let file = segment.sync_file.take().expect("one sync is under way at a time");
                (segment.number, segment.name.clone(), file)
            });
        Some(SyncJob {
            files: files.collect(),
            upto: self.written,
            bytes: self.written_bytes,
            has_failed: self.shelf.has_failed.clone(),
        })
    }

    /// A sync was done.
    pub fn on_synced(&mut self, synced: Synced<D::File>) {
        self.is_syncing = false;
        self.synced = synced.upto;
        self.synced_bytes = synced.bytes;
        for (number, _, file) in synced.files {
            if let Some(segment) = self.shelf.in_use().find(|segment| segment.number == number) {
                segment.sync_file = Some(file);
            }
        }
        self.groups.values_mut().for_each(|held| held.synced(synced.upto));
        if let Some((below, _)) = self.trim.take_if(|(_, frame)| *frame <= synced.upto) {
            self.shelf.drop_below(below);
        }
    }

    /// Work that can be done ahead: the next segment, and the removal of those that nobody needs; `None` if there is none, or some is
    /// under way. Until it is done, what goes keeps its place on the disk.
    pub fn prepare_job(&mut self) -> Option<PrepareJob<D>> {
        self.check_usable().ok()?;
        self.shelf.prepare_job()
    }

    /// Work ahead was done.
    ///
    /// # Errors
    /// [`StorageError::Full`] if the next segment could not be made: the log is used on, and asks again. All others are final.
    pub fn on_prepared(&mut self, prepared: Prepared<D::File>) -> Result<(), StorageError> {
        self.shelf.on_prepared(prepared)
    }

    /// Whether the last segment that was to be made found no room. What was written is there, and what fits into the segments that
    /// there are can be written.
    pub fn is_short(&self) -> bool {
        self.shelf.is_short()
    }

    /// Whether the segment behind the one that is written to is ready.
    #[inline]
    pub fn has_ready(&self) -> bool {
        self.shelf.has_ready()
    }

    /// Whether a segment can be made without room on the disk, or room can be made.
    pub fn has_leftovers(&self) -> bool {
        self.shelf.has_leftovers()
    }

    /// Whether records of so many bytes fit behind the open batch into the segment that is written to, and leave some of it for what
    /// lets go of others: that snapshots are there, and that replicas have ended.
    pub fn has_room(&self, bytes: u64) -> bool {
        // The first segment is smaller than the others.
        let segment_bytes = self.shelf.current_bytes();
        let left = segment_bytes.saturating_sub(self.offset);
        let reserve = (segment_bytes / RESERVE_PART).min(RESERVE_BYTES_MAX);
        self.batch_bytes() + bytes + reserve <= left
    }

    /// The number of the last frame that is kept.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// The number of the last frame that was written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Batches that were written since the log began.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Bytes that were written since the log began.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Bytes that were written and are not known to be kept.
    pub fn unsynced_bytes(&self) -> u64 {
        self.written_bytes - self.synced_bytes
    }

    /// Bytes that were gathered and are not written.
    pub fn batch_bytes(&self) -> u64 {
        (self.records.len() - FRONT_BYTES) as u64 + self.leaving.rest()
    }

    /// Bytes of all segments in use, and of those that are about to go.
    pub fn bytes(&self) -> u64 {
        self.shelf.size().1
    }

    /// How many segments these are.
    pub fn segments(&self) -> u64 {
        self.shelf.size().0
    }

    /// Bytes of one segment.
    pub fn segment_bytes(&self) -> u64 {
        self.shelf.segment_bytes
    }

    /// Bytes of the segments that are full and that some group needs.
    pub fn full_bytes(&self) -> u64 {
        let (oldest, current) = self.shelf.numbers();
        (current - oldest) * self.shelf.segment_bytes
    }

    /// Bytes of the group's records since its log began, here or behind its last snapshot; of a snapshot between two records, about as
    /// many as lie behind it.
    pub fn bytes_of(&self, group: GroupId) -> u64 {
        self.groups.get(&group).map_or(0, |held| held.bytes)
    }

    /// What the group's log must reach, until what reaches it is kept.
    pub fn floor(&self, group: GroupId) -> Option<Place> {
        self.groups.get(&group).and_then(Held::floor)
    }

    /// The group whose records keep the oldest segment, if there are so many that are full: a snapshot of it lets go of that, or its
    /// whole log, gathered again. Of several it is the one with the least.
    pub fn pinning(&self, full_segments: u64) -> Option<GroupId> {
        let (oldest, current) = self.shelf.numbers();
        if current - oldest < full_segments {
            return None;
        }
        let pinning = self.groups.iter().filter(|(_, held)| held.pin() == oldest);
        pinning
            .min_by_key(|(_, held)| held.bytes)
            .map(|(group, _)| *group)
    }

    fn check_usable(&self) -> Result<(), StorageError> {
        if self.shelf.has_failed.load(Ordering::Acquire) {
            let file = "the log".to_owned();
            return Err(StorageError::Failed { file });
        }
        Ok(())
    }
}

/// Takes the first group off a list in order, if it is this one. Whether it was.
fn take_first(groups: &mut &[GroupId], group: GroupId) -> bool {
    let rest = groups.split_first().filter(|(first, _)| **first == group);
    *groups = rest.map_or(*groups, |(_, rest)| rest);
    rest.is_some()
}

/// What of a batch one frame holds.
#[derive(Debug)]
struct Part {
    bytes: usize,
    /// Whether it lies in the segment behind.
    is_in_next: bool,
}

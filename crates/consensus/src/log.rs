//! The log as the library reads it: in memory, bounded, and with a point before it at which the state is known.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use raft::eraftpb::{Entry, EntryType, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use crate::message::{Index, SnapshotPoint, Term};
use ids::Incarnation;

/// Bytes of entries above which the log is offered for compaction: what a replica that was away for a moment is served
/// from instead of a transfer.
pub const LOG_BYTES_KEPT: usize = 4 << 20;

/// Entries above which it is, because an entry has a cost beside its bytes.
pub const LOG_ENTRIES_KEPT: usize = 4_096;

/// Bytes of entries above which nobody is waited for any more: followers that still need them get a transfer, and
/// transfers start again.
pub const LOG_BYTES_MAX: usize = 64 << 20;

/// What an entry costs beside its bytes, about.
const ENTRY_OVERHEAD: usize = 128;

/// One replica's log.
pub(crate) struct Log {
    start: SnapshotPoint,
    entries: VecDeque<Entry>,
    bytes: usize,
    hard_state: HardState,
    /// Transfers that are complete: the point that a member is to be told.
    offers: BTreeMap<u64, SnapshotPoint>,
    /// Who was to be sent a snapshot when there was none. Behind a cell because the library asks with a shared reference.
    wanted: RefCell<BTreeSet<u64>>,
}

impl Log {
    /// A log behind `start`, with `entries` that follow it.
    pub(crate) fn new(start: SnapshotPoint, entries: Vec<Entry>, hard_state: HardState) -> Log {
        let bytes = entries.iter().map(cost).sum();
        Log {
            start,
            entries: entries.into(),
            bytes,
            hard_state,
            offers: BTreeMap::new(),
            wanted: RefCell::default(),
        }
    }

    /// Begins anew behind `start`.
    pub(crate) fn restart(&mut self, start: SnapshotPoint) {
        *self = Log::new(start, Vec::new(), HardState::default());
    }

    /// Appends; what was there from the first entry's place on is cut.
    ///
    /// # Panics
    /// If the entries do not follow what is there.
    pub(crate) fn append(&mut self, entries: Vec<Entry>) {
        let Some(first) = entries.first() else {
            return;
        };
        assert!(
            first.index > self.start.index.0 && first.index <= self.last() + 1,
            "the library appends behind the start and without a gap"
        );
        while self.last() >= first.index {
            let cut = self
                .entries
                .pop_back()
                .expect("the last index is behind the start");
            self.bytes -= cost(&cut);
        }
        for entry in entries {
            self.bytes += cost(&entry);
            self.entries.push_back(entry);
        }
    }

    /// Drops everything up to `to`, which is in the log and applied.
    pub(crate) fn compact(&mut self, to: u64) {
        while self.start.index.0 < to {
            let dropped = self
                .entries
                .pop_front()
                .expect("the caller checked that it is in the log");
            self.bytes -= cost(&dropped);
            self.start.index = Index(dropped.index);
            self.start.term = Term(dropped.term);
        }
        self.offers.retain(|_, point| point.index.0 >= to);
    }

    /// The place before the first entry.
    pub(crate) fn start(&self) -> u64 {
        self.start.index.0
    }

    /// The last place.
    pub(crate) fn last(&self) -> u64 {
        self.start.index.0 + self.entries.len() as u64
    }

    /// What the entries take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Up to where to compact so that what is kept fits the bounds. `held` is the first place that somebody still needs.
    pub(crate) fn compactable(&self, applied: u64, held: u64) -> Option<u64> {
        if self.bytes <= LOG_BYTES_KEPT && self.entries.len() <= LOG_ENTRIES_KEPT {
            return None;
        }
        let (mut bytes, mut count, mut to) = (self.bytes, self.entries.len(), self.start());
        for entry in &self.entries {
            // Down to half, so that it is not asked for again with the next entry.
            if bytes <= LOG_BYTES_KEPT / 2 && count <= LOG_ENTRIES_KEPT / 2 {
                break;
            }
            let is_over = bytes > LOG_BYTES_MAX;
            if entry.index > applied || (entry.index > held && !is_over) {
                break;
            }
            bytes -= cost(entry);
            count -= 1;
            to = entry.index;
        }
        (to > self.start()).then_some(to)
    }

    pub(crate) fn entries_from(&self, first: u64) -> impl Iterator<Item = &Entry> {
        let skip = first.saturating_sub(self.start() + 1);
        self.entries
            .iter()
            .skip(usize::try_from(skip).unwrap_or(usize::MAX))
    }

    pub(crate) fn offer(&mut self, to: Incarnation, point: SnapshotPoint) {
        self.wanted.borrow_mut().remove(&to.0);
        self.offers.insert(to.0, point);
    }

    pub(crate) fn offered(&self, to: Incarnation) -> Option<&SnapshotPoint> {
        self.offers.get(&to.0)
    }

    pub(crate) fn withdraw(&mut self, to: Incarnation) {
        self.offers.remove(&to.0);
    }

    pub(crate) fn withdraw_others(&mut self, members: &[Incarnation]) {
        self.offers.retain(|to, _| members.contains(&Incarnation(*to)));
        self.wanted
            .get_mut()
            .retain(|to| members.contains(&Incarnation(*to)));
    }

    pub(crate) fn withdraw_all(&mut self) {
        self.offers.clear();
        self.wanted.borrow_mut().clear();
    }

    pub(crate) fn has_wanted(&self) -> bool {
        !self.wanted.borrow().is_empty()
    }

    pub(crate) fn take_wanted(&mut self) -> Vec<Incarnation> {
        std::mem::take(self.wanted.get_mut())
            .into_iter()
            .map(Incarnation)
            .collect()
    }

    fn at(&self, index: u64) -> Option<&Entry> {
        let place = index.checked_sub(self.start() + 1)?;
        self.entries.get(usize::try_from(place).ok()?)
    }
}

fn cost(entry: &Entry) -> usize {
    entry.data.len() + entry.context.len() + ENTRY_OVERHEAD
}

impl Storage for Log {
    fn initial_state(&self) -> raft::Result<RaftState> {
        Ok(RaftState::new(
            self.hard_state.clone(),
            self.start.members.to_library(),
        ))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        if low <= self.start() {
            return Err(StorageError::Compacted.into());
        }
        let max_size = max_size.into().unwrap_or(u64::MAX);
        let mut size = 0u64;
        let mut entries = Vec::new();
        for index in low..high {
            let Some(entry) = self.at(index) else {
                return Err(StorageError::Unavailable.into());
            };
            size = size.saturating_add(cost(entry) as u64);
            // One is always given: an entry larger than the limit must travel too.
            if size > max_size && !entries.is_empty() {
                break;
            }
            entries.push(entry.clone());
        }
        Ok(entries)
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        if index == self.start() {
            return Ok(self.start.term.0);
        }
        match self.at(index) {
            Some(entry) => Ok(entry.term),
            None if index < self.start() => Err(StorageError::Compacted.into()),
            None => Err(StorageError::Unavailable.into()),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.start() + 1)
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.last())
    }

    fn snapshot(&self, request_index: u64, to: u64) -> raft::Result<Snapshot> {
        match self.offers.get(&to) {
            Some(point) if point.index.0 >= request_index && point.index.0 >= self.start() => {
                Ok(snapshot_of(point))
            }
            _ => {
                self.wanted.borrow_mut().insert(to);
                Err(StorageError::SnapshotTemporarilyUnavailable.into())
            }
        }
    }
}

/// The library's form of a point.
pub(crate) fn snapshot_of(point: &SnapshotPoint) -> Snapshot {
    let mut snapshot = Snapshot::default();
    let metadata = snapshot.mut_metadata();
    metadata.index = point.index.0;
    metadata.term = point.term.0;
    metadata.set_conf_state(point.members.to_library());
    snapshot
}

/// Whether an entry changes the members.
pub(crate) fn is_change(entry: &Entry) -> bool {
    entry.get_entry_type() != EntryType::EntryNormal
}

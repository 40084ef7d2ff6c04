//! The log as the library reads it: in memory, bounded, and with a point before it at which the state is known.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use raft::eraftpb::{Entry, EntryType, HardState, Snapshot};
use raft::{GetEntriesContext, RaftState, Storage, StorageError};

use crate::message::{Index, SnapshotPoint, Term};
use ids::Incarnation;

/// Bytes of entries, the fewest and the most, above which the log is offered for compaction: what a replica that was away for
/// a moment is served from instead of a transfer. Between them it is a [share](LOG_SHARE_OF_STATE) of the state: a log that
/// takes as long to send as the state itself saves nobody anything, and takes memory and cache from what is asked for.
pub const LOG_BYTES_KEPT: RangeInclusive<usize> = 64 << 10..=4 << 20;

/// As many bytes of state stand for one of log.
pub const LOG_SHARE_OF_STATE: usize = 4;

/// Entries above which it is, because an entry has a cost beside its bytes.
pub const LOG_ENTRIES_KEPT: usize = 4_096;

/// Bytes of entries, the fewest and the most, above which nobody is waited for any more: followers that still need them get a
/// transfer, and transfers start again. Between them it is what the state takes, beyond them a [share](LOG_SHARE_AWAITED) of it.
pub const LOG_BYTES_MAX: RangeInclusive<usize> = 16 << 20..=64 << 20;

/// As many bytes of a large state stand for one of log that somebody is waited for. The state takes so much longer to send.
pub const LOG_SHARE_AWAITED: usize = 8;

/// Bytes of entries above which not even a follower is waited for that is there and takes what it is sent: as many as one
/// operation can have that goes in pieces.
pub const LOG_BYTES_TAKEN_IN_MAX: usize = 1 << 30;

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

    /// Whether it is so short that nothing is ever dropped.
    pub(crate) fn is_short(&self) -> bool {
        self.bytes <= *LOG_BYTES_KEPT.start() && self.entries.len() <= LOG_ENTRIES_KEPT
    }

    /// Up to where to compact so that what is kept fits the bounds, which a state of `state_bytes` gives. `held` is the first
    /// place that somebody still needs, `taken_in` the first one that is on its way to somebody.
    pub(crate) fn compactable(
        &self,
        applied: u64,
        held: u64,
        taken_in: u64,
        state_bytes: usize,
    ) -> Option<u64> {
        let bytes_kept =
            (state_bytes / LOG_SHARE_OF_STATE).clamp(*LOG_BYTES_KEPT.start(), *LOG_BYTES_KEPT.end());
        let bytes_max = state_bytes
            .clamp(*LOG_BYTES_MAX.start(), *LOG_BYTES_MAX.end())
            .max(state_bytes / LOG_SHARE_AWAITED);
        if self.bytes <= bytes_kept && self.entries.len() <= LOG_ENTRIES_KEPT {
            return None;
        }
        let (mut bytes, mut count, mut to) = (self.bytes, self.entries.len(), self.start());
        for entry in &self.entries {
            // Down to half, so that it is not asked for again with the next entry.
            if bytes <= bytes_kept / 2 && count <= LOG_ENTRIES_KEPT / 2 {
                break;
            }
            let is_over = bytes > bytes_max;
            let is_awaited =
                entry.index > held && !is_over || entry.index > taken_in && bytes <= LOG_BYTES_TAKEN_IN_MAX;
            if entry.index > applied || is_awaited {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::message::Members;

    /// A log of entries of 1,024 bytes each, what they cost beside that included.
    fn log_of(count: u64) -> Log {
        let start = Config::first(Members::of_voters([Incarnation(1)]));
        let first = start.index.0 + 1;
        let entry = |index| Entry {
            index,
            term: 1,
            data: vec![0; 1_024 - ENTRY_OVERHEAD].into(),
            ..Entry::default()
        };
        let entries = (first..first + count).map(entry).collect();
        Log::new(start, entries, HardState::default())
    }

    /// How many of `count` entries of a KiB are kept beside a state of so many KiB, if the first `held` are needed by nobody.
    fn kept(count: u64, state_kib: usize, held: u64) -> u64 {
        let log = log_of(count);
        let held = log.start() + held;
        let to = log.compactable(log.last(), held, u64::MAX, state_kib << 10);
        log.last() - to.unwrap_or(log.start())
    }

    #[test]
    fn a_log_is_kept_up_to_a_share_of_the_state() {
        assert!(log_of(64).is_short() && !log_of(65).is_short());
        assert_eq!(kept(65, 0, 65), 32, "down to half of the least");
        assert_eq!(kept(1_000, 4_000, 1_000), 1_000, "a quarter of the state");
        assert_eq!(kept(1_001, 4_000, 1_001), 500, "down to half of a quarter");
        assert_eq!(kept(4_096, 1 << 20, 4_096), 4_096, "the most that is kept");
        assert_eq!(kept(4_097, 1 << 20, 4_097), 2_048, "down to half of the most");
    }

    #[test]
    fn a_log_waits_for_who_needs_it_until_it_is_as_long_as_the_state() {
        assert_eq!(
            kept(1_000, 0, 10),
            990,
            "whoever needs the eleventh is waited for"
        );
        assert_eq!(
            kept(16 << 10, 0, 10),
            (16 << 10) - 10,
            "as long as it is no longer than the least"
        );
        assert_eq!(kept(20 << 10, 0, 10), 16 << 10, "and not for what is more");
        assert_eq!(
            kept(20 << 10, 20 << 10, 10),
            (20 << 10) - 10,
            "as long as the state"
        );
        let (kib, state_kib) = (65 << 10, (64 * 8) << 10);
        assert_eq!(kept(kib, state_kib, 10), 64 << 10, "the most beside most states");
        assert_eq!(kept(kib, 2 * state_kib, 10), kib - 10, "an eighth of a large one");
    }

    #[test]
    fn whoever_takes_what_it_is_sent_is_waited_for_beyond_that() {
        let log = log_of(20 << 10);
        let (start, last) = (log.start(), log.last());
        assert_eq!(
            log.compactable(last, start + 10, start + 10, 0),
            Some(start + 10),
            "a large value is on its way"
        );
        assert!(log.compactable(last, start + 10, u64::MAX, 0) > Some(start + 10));
    }
}

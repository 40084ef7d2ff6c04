//! What an open log knows of one group: how far its log goes, and which segments it needs.
//!
//! ```text
//!  segment      4            5            6            7
//!          | live 1..9 | 10..14     | 15..20     | 18..25     |     base 4; runs (1,4) (10,5) (15,6) (18,7)
//!                                     snapshot of 16, in 7:         base 7; runs (15,6) (18,7): 6 is the oldest needed
//! ```
//!
//! Invariants:
//! 1. Runs rise, in places and in segments; together they hold all entries behind the start.
//! 2. The segment needed is that in which the batch begins, whichever segments it goes on in.

use super::Place;
use super::table::Reached;
use consensus::{HardState, Index, LogEntry, SnapshotPoint};
use ids::Incarnation;

/// The number of the segment of records that are not written yet.
const OPEN: u64 = u64::MAX;

/// Entries from a place on, whose batches begin in one segment.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: Index,
    segment: u64,
}

/// One group's log, as it was gathered and written.
#[derive(Debug)]
pub(crate) struct Held {
    ids: (Incarnation, u64),
    start: Index,
    last: Place,
    hard: HardState,
    floor: Option<Place>,
    /// The frame with which the floor was reached.
    floor_reached: Option<u64>,
    /// The segment of the record that says what the log is and where it begins.
    base: u64,
    runs: Vec<Run>,
    /// Of the records since it began.
    pub(crate) bytes: u64,
}

impl Held {
    pub(crate) fn new(ids: (Incarnation, u64), start: &SnapshotPoint, floor: Option<Place>) -> Held {
        Held {
            ids,
            start: start.index,
            last: (start.term, start.index),
            hard: HardState::default(),
            floor,
            floor_reached: None,
            base: OPEN,
            runs: Vec::new(),
            bytes: 0,
        }
    }

    pub(crate) fn ids(&self) -> (Incarnation, u64) {
        self.ids
    }

    /// It is that of this replica from here on.
    pub(crate) fn set_incarnation(&mut self, incarnation: Incarnation) {
        self.ids.0 = incarnation;
    }

    pub(crate) fn hard(&self) -> &HardState {
        &self.hard
    }

    pub(crate) fn floor(&self) -> Option<Place> {
        self.floor
    }

    pub(crate) fn reached(&self) -> Reached {
        Reached::new(self.ids, self.last, &self.hard, self.floor)
    }

    /// Takes entries in, in place of those at the same or later places, and the hard state.
    pub(crate) fn append(&mut self, entries: &[LogEntry], hard: HardState) {
        self.hard = hard;
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return;
        };
        let is_next = first.index > self.start && first.index.0 <= self.last.1.0 + 1;
        assert!(
            is_next,
            "entries at {:?} do not follow a log up to {:?}",
            first.index, self.last
        );
        self.last = (last.term, last.index);
        self.runs.retain(|run| run.first < first.index);
        if self.runs.last().is_none_or(|run| run.segment != OPEN) {
            let (first, segment) = (first.index, OPEN);
            self.runs.push(Run { first, segment });
        }
    }

    /// A snapshot is durable: the log begins behind it, and what stands further ahead is needed no more.
    pub(crate) fn begin_behind(&mut self, point: &SnapshotPoint) {
        let entries = self.last.1.0.saturating_sub(self.start.0);
        let left = self.last.1.0.saturating_sub(point.index.0);
        // Their sizes are not remembered one by one.
        self.bytes = match entries {
            0 => 0,
            _ => (u128::from(self.bytes) * u128::from(left) / u128::from(entries)) as u64,
        };
        self.start = point.index;
        if left == 0 {
            self.last = self.last.max((point.term, point.index));
            self.runs.clear();
        }
        // The run that holds the first entry behind the start, and those behind it.
        let holding = self.runs.partition_point(|run| run.first.0 <= point.index.0 + 1);
        self.runs.drain(..holding.saturating_sub(1));
        self.base = OPEN;
    }

    /// What was gathered stands in a batch that begins in this segment and ends with this frame.
    pub(crate) fn written(&mut self, segment: u64, frame: u64) {
        if self.base == OPEN {
            self.base = segment;
        }
        if let Some(run) = self.runs.last_mut().filter(|run| run.segment == OPEN) {
            run.segment = segment;
        }
        let count = self.runs.len();
        if count > 1 && self.runs[count - 2].segment == segment {
            self.runs.pop();
        }
        if self.floor.is_some_and(|floor| floor <= self.last) {
            self.floor_reached.get_or_insert(frame);
        }
    }

    /// Everything up to this frame is kept, and with it a floor that was reached.
    pub(crate) fn synced(&mut self, frame: u64) {
        if self.floor_reached.is_some_and(|reached| reached <= frame) {
            (self.floor, self.floor_reached) = (None, None);
        }
    }

    /// The oldest segment that the group needs.
    pub(crate) fn pin(&self) -> u64 {
        let first = self.runs.first().map_or(OPEN, |run| run.segment);
        self.base.min(first)
    }
}

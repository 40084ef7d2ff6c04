//! Which group of a worker makes the next piece of its state, for the disk or for a learner, and when.

use crate::copy_pace::CopyPace;
use ids::Monotonic;
use std::collections::VecDeque;
use std::time::Duration;

/// Of a worker's time, one part in so many is for pieces of states: logs wait for them, and groups for new members.
const PART: u32 = 4;

/// See the file's header.
pub(super) struct StateCopies {
    pace: CopyPace,
    /// Groups that wait until the worker has rested, by their indices, in the order of their turns.
    waiting: VecDeque<usize>,
}

impl Default for StateCopies {
    fn default() -> StateCopies {
        StateCopies {
            pace: CopyPace::new(PART),
            waiting: VecDeque::new(),
        }
    }
}

impl StateCopies {
    /// Whether a piece may be made.
    pub(super) fn may_copy(&self, now: Monotonic) -> bool {
        self.pace.may_copy(now)
    }

    /// Pieces were made: see [`CopyPace::copied`]. Whether one more may be made.
    pub(super) fn copied(&mut self, now: Monotonic, nanos: u64, rest_min: Duration) -> bool {
        self.pace.copied(now, nanos, rest_min);
        self.pace.may_copy(now)
    }

    /// A piece of this group's state is to be made when the worker has rested.
    pub(super) fn wait(&mut self, index: usize) {
        if !self.waiting.contains(&index) {
            self.waiting.push_back(index);
        }
    }

    /// The group whose turn it is now.
    pub(super) fn next(&mut self, now: Monotonic) -> Option<usize> {
        self.pace
            .may_copy(now)
            .then(|| self.waiting.pop_front())
            .flatten()
    }

    /// When it is the turn of the next group.
    pub(super) fn next_at(&self) -> Option<Monotonic> {
        (!self.waiting.is_empty()).then(|| self.pace.rests_until())
    }
}

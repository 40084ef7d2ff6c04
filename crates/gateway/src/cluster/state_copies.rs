//! Which group of a worker makes the next piece of its state, for the disk or for a learner, and when.

use crate::copy_pace::CopyPace;
use crate::move_budget::MoveBudget;
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
    /// Groups that wait until more may be sent.
    waiting_to_send: VecDeque<usize>,
}

impl Default for StateCopies {
    fn default() -> StateCopies {
        StateCopies {
            pace: CopyPace::new(PART),
            waiting: VecDeque::new(),
            waiting_to_send: VecDeque::new(),
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

    /// A piece of this group's state is to be made when more may be sent.
    pub(super) fn wait_to_send(&mut self, index: usize) {
        if !self.waiting_to_send.contains(&index) {
            self.waiting_to_send.push_back(index);
        }
    }

    /// The groups whose turn it is now: one that waited for the worker, and one that waited for others to have sent.
    pub(super) fn next(&mut self, now: Monotonic, budget: &MoveBudget) -> [Option<usize>; 2] {
        if !self.pace.may_copy(now) {
            return [None; 2];
        }
        let may_send = budget.free_at() <= now;
        let sends = may_send.then(|| self.waiting_to_send.pop_front()).flatten();
        [self.waiting.pop_front(), sends]
    }

    /// When it is the turn of the next group.
    pub(super) fn next_at(&self, budget: &MoveBudget) -> Option<Monotonic> {
        let rested = self.pace.rests_until();
        let copies = (!self.waiting.is_empty()).then_some(rested);
        let sends = (!self.waiting_to_send.is_empty()).then(|| rested.max(budget.free_at()));
        [copies, sends].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_does_not_wait_for_what_may_be_sent() {
        let (mut copies, budget) = (StateCopies::default(), MoveBudget::default());
        let now = Monotonic(5);
        budget.charge(now, 500, 1_000);
        let later = now.after(Duration::from_millis(500));
        copies.wait_to_send(1);
        assert_eq!(copies.next_at(&budget), Some(later));
        copies.wait(2);
        assert_eq!(
            copies.next_at(&budget),
            Some(Monotonic(0)),
            "the worker is rested"
        );
        assert_eq!(copies.next(now, &budget), [Some(2), None]);
        assert_eq!(copies.next(later, &budget), [None, Some(1)]);
        assert_eq!(copies.next_at(&budget), None);
    }
}

//! Which group of a worker makes the next piece of its state, for the disk or for a learner, and when.

use crate::copy_pace::CopyPace;
use ids::Monotonic;
use replica::CopyCost;
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

    /// Pieces were made: see [`CopyPace::copied`]; the next comes when those that went to other nodes have taken their part of the
    /// bandwidth, bytes a second, of which 0 is no bound. Whether one more may be made.
    pub(super) fn copied(
        &mut self,
        now: Monotonic,
        copied: CopyCost,
        bandwidth: u64,
        rest_min: Duration,
    ) -> bool {
        self.pace.copied(now, copied.nanos, rest_min);
        if let Some(nanos) = (copied.sent_bytes as u64)
            .saturating_mul(1_000_000_000)
            .checked_div(bandwidth)
        {
            self.pace.rest(now.after(Duration::from_nanos(nanos)));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_takes_its_part_of_the_bandwidth_and_what_is_stored_does_not() {
        let mut copies = StateCopies::default();
        let begin = Monotonic(5);
        let piece = |sent_bytes| CopyCost { nanos: 0, sent_bytes };
        assert!(copies.copied(begin, piece(0), 1_000, Duration::ZERO));
        assert!(
            copies.copied(begin, piece(500), 0, Duration::ZERO),
            "0 is no bound"
        );
        let (mut now, mut sent) = (begin, 0);
        let end = begin.after(Duration::from_secs(2));
        while now < end {
            assert!(copies.may_copy(now));
            sent += 250;
            copies.copied(now, piece(250), 1_000, Duration::ZERO);
            now = copies.pace.rests_until();
        }
        assert_eq!(sent, 2_000);
    }
}

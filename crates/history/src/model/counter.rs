//! One number.

use crate::model::{Model, Next, Step};
use crate::operation::{Answer, Call};

/// A counter that is 0 at first.
pub(crate) struct Counter<'a> {
    steps: &'a [Step<'a>],
    /// Whether nothing is ever taken away: then a sum that was passed does not come back.
    only_grows: bool,
    /// The largest sum that anybody saw: beyond it, what is open can be left out.
    seen_max: i64,
}

impl<'a> Counter<'a> {
    pub(crate) fn new(steps: &'a [Step<'a>]) -> Counter<'a> {
        let only_grows = steps
            .iter()
            .all(|step| !matches!(step.call, Call::Add(by) if by <= 0));
        let seen_max = steps.iter().filter_map(|step| match step.answer {
            Answer::Value(seen) => *seen,
            _ => None,
        });
        Counter {
            steps,
            only_grows,
            seen_max: seen_max.max().unwrap_or(0),
        }
    }

    fn not_yet(&self, has: i64, wants: i64) -> Next<i64> {
        if self.only_grows && has > wants {
            Next::Never
        } else {
            Next::NotYet
        }
    }
}

impl Model for Counter<'_> {
    type State = i64;

    fn start(&self) -> i64 {
        0
    }

    fn next(&self, &sum: &i64, index: usize) -> Next<i64> {
        let step = &self.steps[index];
        match (step.call, step.answer) {
            (Call::Count, Answer::Value(seen)) => match seen.unwrap_or(0) {
                seen if seen == sum => Next::Surely(sum),
                seen => self.not_yet(sum, seen),
            },
            (Call::Count, _) => Next::NotYet,
            (Call::Add(by), Answer::Value(Some(seen))) => match seen.wrapping_sub(by) {
                // If sums only grow, this is the only moment for it, once the sum was counted by all who saw it.
                before if before == sum && self.only_grows => Next::Only(*seen),
                before if before == sum => Next::Perhaps(*seen),
                before => self.not_yet(sum, before),
            },
            (Call::Add(by), Answer::Done | Answer::Unknown) => {
                let next = sum.wrapping_add(by);
                if step.is_open() && self.only_grows && next > self.seen_max {
                    Next::NotYet
                } else {
                    Next::Perhaps(next)
                }
            }
            _ => Next::Never,
        }
    }

    fn class(&self, index: usize) -> u64 {
        match self.steps[index].call {
            Call::Add(by) => by as u64,
            _ => u64::MAX,
        }
    }

    fn rank(&self, index: usize) -> u64 {
        self.steps[index].returned
    }
}

//! A list that only grows, at its end.
//!
//! The longest list that anybody saw says what stood at each of its places for ever after. So a list is known by its
//! length: as far as the witness goes its elements are the witness's, and nobody saw any behind it.

use crate::model::{Model, Next, Step};
use crate::operation::{Answer, Call};
use std::collections::BTreeSet;

/// A list that is empty at first.
pub(crate) struct Growing<'a> {
    steps: &'a [Step<'a>],
    /// The longest that was seen.
    witness: &'a [i64],
    /// The same elements, to be found.
    witnessed: BTreeSet<i64>,
    /// The largest length that anybody was told or saw.
    seen_max: usize,
}

impl<'a> Growing<'a> {
    pub(crate) fn new(steps: &'a [Step<'a>]) -> Growing<'a> {
        let mut witness: &[i64] = &[];
        let mut seen_max = 0;
        for step in steps {
            match step.answer {
                Answer::Elements(elements) => {
                    if elements.len() > witness.len() {
                        witness = elements;
                    }
                    seen_max = seen_max.max(elements.len());
                }
                Answer::Value(Some(length)) => {
                    seen_max = seen_max.max(usize::try_from(*length).unwrap_or(0));
                }
                _ => {}
            }
        }
        Growing {
            steps,
            witness,
            witnessed: witness.iter().copied().collect(),
            seen_max,
        }
    }

    fn fits(&self, length: usize, element: i64) -> bool {
        self.witness.get(length).is_none_or(|&seen| seen == element)
    }
}

impl Model for Growing<'_> {
    type State = usize;

    fn start(&self) -> usize {
        0
    }

    fn next(&self, &length: &usize, index: usize) -> Next<usize> {
        let step = &self.steps[index];
        match (step.call, step.answer) {
            (Call::List, Answer::Elements(elements)) => {
                if !self.witness.starts_with(elements) || elements.len() < length {
                    Next::Never
                } else if elements.len() == length {
                    Next::Surely(length)
                } else {
                    Next::NotYet
                }
            }
            (Call::List, _) => Next::NotYet,
            (Call::Append(element), Answer::Value(Some(told))) => match usize::try_from(*told) {
                // Lengths do not come back: this is the only moment for it, once all who saw this length did.
                Ok(told) if told == length + 1 && self.fits(length, element) => Next::Only(told),
                Ok(told) if told > length + 1 => Next::NotYet,
                _ => Next::Never,
            },
            (Call::Append(element), Answer::Done | Answer::Unknown) => {
                if !self.fits(length, element) || (step.is_open() && length >= self.seen_max) {
                    Next::NotYet
                } else {
                    Next::Perhaps(length + 1)
                }
            }
            _ => Next::Never,
        }
    }

    fn class(&self, index: usize) -> u64 {
        match self.steps[index].call {
            // Those behind the witness are as good as each other.
            Call::Append(element) if self.witnessed.contains(&element) => element as u64,
            _ => u64::MAX,
        }
    }

    fn rank(&self, index: usize) -> u64 {
        self.steps[index].returned
    }
}

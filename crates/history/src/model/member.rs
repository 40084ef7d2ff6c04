//! One member of a set: there or not.

use crate::model::{Model, Next, Step};
use crate::operation::{Answer, Call};

/// A member that is not there at first.
pub(crate) struct Member<'a> {
    steps: &'a [Step<'a>],
}

impl<'a> Member<'a> {
    pub(crate) fn new(steps: &'a [Step<'a>]) -> Member<'a> {
        Member { steps }
    }
}

impl Model for Member<'_> {
    type State = bool;

    fn start(&self) -> bool {
        false
    }

    fn next(&self, &is_there: &bool, index: usize) -> Next<bool> {
        let step = &self.steps[index];
        let (becomes, told) = match step.call {
            Call::Insert(_) => (true, !is_there),
            Call::Remove(_) => (false, is_there),
            Call::Has(_) => (is_there, is_there),
            _ => return Next::Never,
        };
        match step.answer {
            Answer::Unknown | Answer::Done if becomes == is_there => {
                if step.is_open() {
                    Next::NotYet
                } else {
                    Next::Surely(is_there)
                }
            }
            Answer::Unknown | Answer::Done => Next::Perhaps(becomes),
            Answer::Value(Some(number @ (0 | 1))) if (*number == 1) != told => Next::NotYet,
            Answer::Value(Some(0 | 1)) if becomes == is_there => Next::Surely(is_there),
            Answer::Value(Some(0 | 1)) => Next::Perhaps(becomes),
            _ => Next::Never,
        }
    }

    fn class(&self, index: usize) -> u64 {
        match self.steps[index].call {
            Call::Insert(_) => 1,
            Call::Remove(_) => 2,
            _ => 3,
        }
    }

    fn rank(&self, index: usize) -> u64 {
        self.steps[index].returned
    }
}

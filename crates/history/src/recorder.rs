//! Histories as they happen.

use crate::history::History;
use crate::operation::{Answer, Call, Operation, Process};

/// An operation that was called: to be answered once, or never.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(usize);

/// Writes down calls and answers. No two have the same time, so that what was seen one after the other stays so.
#[derive(Default)]
pub struct Recorder {
    operations: Vec<Operation>,
    last: u64,
}

impl Recorder {
    /// Notes a call at `now`, or just after the last event if that was not before.
    pub fn called(&mut self, process: Process, key: &str, call: Call, now: u64) -> Ticket {
        let invoked = self.moment(now);
        self.operations.push(Operation {
            process,
            key: key.to_owned(),
            invoked,
            returned: None,
            call,
            answer: Answer::Unknown,
        });
        Ticket(self.operations.len() - 1)
    }

    /// Notes the answer to a call.
    pub fn answered(&mut self, ticket: Ticket, answer: Answer, now: u64) {
        let moment = self.moment(now);
        let operation = &mut self.operations[ticket.0];
        operation.returned = (answer != Answer::Unknown).then_some(moment);
        operation.answer = answer;
    }

    /// How many calls were noted.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// What was noted.
    pub fn finish(self) -> History {
        History::new(self.operations)
    }

    fn moment(&mut self, now: u64) -> u64 {
        self.last = now.max(self.last + 1);
        self.last
    }
}

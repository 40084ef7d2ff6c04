//! What has one value at a time, as a register: its reads and writes are transactions that are linearizable.

use super::{Checked, End, Sent};
use history::{Answer, Call, History, Outcome, Process, Recorder, Ticket, Verdict};

/// See the file's header.
#[derive(Default)]
pub(crate) struct Registers {
    recorder: Recorder,
}

impl Registers {
    /// A transaction does this to a register, beside what else it does.
    pub(super) fn on_sent(&mut self, sent: &mut Sent, key: &str, call: Call) {
        let ticket = self.call(sent.process, key, call, sent.at);
        sent.tickets.push(ticket);
    }

    pub(super) fn call(&mut self, process: Process, key: &str, call: Call, now: u64) -> Ticket {
        self.recorder.called(process, key, call, now)
    }

    pub(super) fn answer(&mut self, ticket: Ticket, answer: Answer, now: u64) {
        self.recorder.answered(ticket, answer, now);
    }

    /// A transaction is over, and told `answers` of its registers if it is committed.
    pub(super) fn on_end(&mut self, end: &End<'_>, answers: &[Answer]) {
        for (index, ticket) in end.sent.tickets.iter().enumerate() {
            match end.outcome {
                Outcome::Unknown => {}
                Outcome::Aborted => self.answer(*ticket, Answer::Refused, end.now),
                Outcome::Committed => self.answer(*ticket, answers[index].clone(), end.now),
            }
        }
    }

    pub(super) fn check(self) -> Checked {
        check(&self.recorder.finish())
    }
}

/// Judges what was seen of single keys.
pub(super) fn check(history: &History) -> Checked {
    let result = match history::check(history) {
        Verdict::Linearizable => Ok(()),
        Verdict::Violated(violation) => Err(violation.to_string()),
        Verdict::Undecided(undecided) => Err(undecided.to_string()),
    };
    (history.operations().len(), result, history.to_string())
}

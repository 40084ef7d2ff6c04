//! The last events before a failure, and before them those that matter.

use crate::clock::MICROS;
use std::collections::VecDeque;

/// Lines of each kind that a trace keeps; older ones are counted.
const LINES_MAX: usize = 400;

/// Lines, if they are wanted: a seed is run again for its trace, so that all others cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    is_wanted: bool,
    /// What happened: faults, starts, and what nodes note.
    events: Lines,
    /// What was said.
    words: Lines,
    count: u64,
}

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<(u64, String)>,
    dropped: u64,
}

impl Lines {
    fn push(&mut self, number: u64, line: String) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back((number, line));
    }
}

impl Trace {
    pub(crate) fn new(is_wanted: bool) -> Trace {
        Trace {
            is_wanted,
            ..Trace::default()
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Something happened.
    pub(crate) fn add(&mut self, now: u64, line: impl FnOnce() -> String) {
        if self.is_wanted {
            self.count += 1;
            self.events.push(self.count, stamped(now, &line()));
        }
    }

    /// Something was said.
    pub(crate) fn hear(&mut self, now: u64, line: impl FnOnce() -> String) {
        if self.is_wanted {
            self.count += 1;
            self.words.push(self.count, stamped(now, &line()));
        }
    }

    pub(crate) fn finish(self) -> Vec<String> {
        let dropped = self.events.dropped + self.words.dropped;
        let before = (dropped > 0).then(|| format!("... {dropped} events left out"));
        let mut lines: Vec<(u64, String)> = self.events.lines.into_iter().chain(self.words.lines).collect();
        lines.sort_unstable_by_key(|(number, _)| *number);
        before
            .into_iter()
            .chain(lines.into_iter().map(|(_, line)| line))
            .collect()
    }
}

fn stamped(now: u64, line: &str) -> String {
    let micros = now / MICROS;
    format!("{:>6}.{:06} {line}", micros / 1_000_000, micros % 1_000_000)
}

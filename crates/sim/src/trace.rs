//! The last events before a failure.

use crate::clock::MICROS;
use std::collections::VecDeque;

/// Lines that a trace keeps; older ones are counted.
const LINES_MAX: usize = 400;

/// Lines, if they are wanted: a seed is run again for its trace, so that all others cost nothing.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    is_wanted: bool,
    lines: VecDeque<String>,
    dropped: u64,
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

    pub(crate) fn add(&mut self, now: u64, line: impl FnOnce() -> String) {
        if !self.is_wanted {
            return;
        }
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
            self.dropped += 1;
        }
        let micros = now / MICROS;
        self.lines.push_back(format!(
            "{:>6}.{:06} {}",
            micros / 1_000_000,
            micros % 1_000_000,
            line()
        ));
    }

    pub(crate) fn finish(self) -> Vec<String> {
        let before = (self.dropped > 0).then(|| format!("... {} events before", self.dropped));
        before.into_iter().chain(self.lines).collect()
    }
}

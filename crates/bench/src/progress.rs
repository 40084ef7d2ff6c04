//! A line on standard error that says how it goes, where somebody sits before it.

use std::io::{self, IsTerminal, Write};

use crate::report::Row;

/// The line, or nothing.
#[derive(Debug)]
pub(crate) struct Progress {
    is_shown: bool,
}

impl Progress {
    /// It is shown only where it is wanted and standard error is a terminal.
    pub(crate) fn new(is_wanted: bool) -> Progress {
        Progress {
            is_shown: is_wanted && io::stderr().is_terminal(),
        }
    }

    pub(crate) fn show(&self, line: &str) {
        if self.is_shown {
            let mut out = io::stderr().lock();
            // To the beginning of the line, the new one, and nothing of the old one behind it. Whether it can be seen does
            // not matter.
            let _ = write!(out, "\r{line}\x1b[K").and_then(|()| out.flush());
        }
    }

    pub(crate) fn second(&self, row: &Row) {
        self.show(&row.line());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.show("");
    }
}

//! What is shown while a local cluster runs.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::log_line::{Level, LogLine};

/// After this long without a line like the last one it is said how many there were.
const QUIET: Duration = Duration::from_millis(300);

/// Colours of nodes, by number.
const COLOURS: [&str; 6] = ["36", "33", "35", "32", "34", "96"];

/// Standard output.
pub(super) struct Screen {
    is_coloured: bool,
    /// The node and the message of the last line, when it came, and how many like it were passed over since.
    last: Option<(u16, String, Instant)>,
    passed_over: u64,
}

impl Screen {
    pub(super) fn new() -> Screen {
        // https://no-color.org
        let is_wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Screen {
            is_coloured: is_wanted && io::stdout().is_terminal(),
            last: None,
            passed_over: 0,
        }
    }

    /// A text of our own.
    pub(super) fn say(&mut self, text: &str) {
        self.flush_passed_over();
        self.last = None;
        put(text);
    }

    /// A line of a node's log. Of many in a row that say the same of different things only the first is shown.
    pub(super) fn log(&mut self, node: u16, line: &LogLine) {
        let now = Instant::now();
        if let Some((last_node, message, at)) = &mut self.last
            && *last_node == node
            && *message == line.message
        {
            *at = now;
            self.passed_over += 1;
            return;
        }
        self.flush_passed_over();
        let text = match line.level {
            Level::Info => line.message.clone(),
            Level::Warning => format!("{} {}", self.paint("33", "warning:"), line.message),
            Level::Error => format!("{} {}", self.paint("31", "error:"), line.message),
        };
        let details = match line.details.as_str() {
            "" => String::new(),
            details => format!("  {}", self.paint("2", details)),
        };
        put(&format!("{} {text}{details}", self.name(node)));
        self.last = Some((node, line.message.clone(), now));
    }

    /// To be called when nothing happens.
    pub(super) fn settle(&mut self) {
        if self.last.as_ref().is_some_and(|(.., at)| at.elapsed() >= QUIET) {
            self.flush_passed_over();
            self.last = None;
        }
    }

    fn flush_passed_over(&mut self) {
        if let (Some((node, ..)), 1..) = (&self.last, self.passed_over) {
            let text = self.paint("2", &format!("and {} more like it", self.passed_over));
            put(&format!("{} {text}", self.name(*node)));
        }
        self.passed_over = 0;
    }

    fn name(&self, node: u16) -> String {
        self.paint(
            COLOURS[usize::from(node - 1) % COLOURS.len()],
            &format!("node {node} |"),
        )
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        match self.is_coloured {
            true => format!("\x1b[{colour}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// Writes a line. That nobody reads any more is no reason to leave the nodes alone.
fn put(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}");
    let _ = out.flush();
}

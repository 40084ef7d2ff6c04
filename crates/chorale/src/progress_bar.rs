//! How far a long command is: a bar on a terminal, a line every few seconds elsewhere. Both go to standard error.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use backup::{RunProgress, bytes_in_words};

use crate::rate::{Rate, time_in_words};

const BAR_WIDTH: u64 = 30;
/// Between two drawings of the bar, and between two lines.
const DRAWN_EVERY: Duration = Duration::from_millis(100);
const SAID_EVERY: Duration = Duration::from_secs(5);

/// Where it is drawn.
pub(crate) struct ProgressBar {
    is_terminal: bool,
    state: Mutex<State>,
}

struct State {
    what: String,
    rate: Rate,
    shown: Option<Instant>,
    /// Whether a bar stands on the line.
    is_drawn: bool,
}

impl ProgressBar {
    pub(crate) fn new() -> ProgressBar {
        ProgressBar {
            is_terminal: io::stderr().is_terminal(),
            state: Mutex::new(State {
                what: String::new(),
                rate: Rate::default(),
                shown: None,
                is_drawn: false,
            }),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock().expect("nobody panics while he holds it");
        state.clear();
    }
}

impl State {
    fn clear(&mut self) {
        if self.is_drawn {
            // A terminal that went away is no reason to stop; so below.
            let _ = write!(io::stderr(), "\r\x1b[2K");
            self.is_drawn = false;
        }
    }
}

impl RunProgress for ProgressBar {
    fn say(&self, sentence: &str) {
        let mut state = self.state.lock().expect("nobody panics while he holds it");
        state.clear();
        let _ = writeln!(io::stderr(), "chorale: {sentence}");
    }

    fn at(&self, what: &str, done: u64, all: u64) {
        let mut state = self.state.lock().expect("nobody panics while he holds it");
        let is_new = state.what != what;
        if is_new {
            what.clone_into(&mut state.what);
            state.rate = Rate::default();
        }
        state.rate.see(done, Instant::now());
        let every = if self.is_terminal { DRAWN_EVERY } else { SAID_EVERY };
        if !is_new && state.shown.is_some_and(|shown| shown.elapsed() < every) {
            return;
        }
        state.shown = Some(Instant::now());
        let line = line(what, done, all, state.rate.a_second());
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K{} {line}", bar(done, all));
            let _ = io::stderr().flush();
            state.is_drawn = true;
        } else {
            let _ = writeln!(io::stderr(), "chorale: {line}");
        }
    }
}

fn bar(done: u64, all: u64) -> String {
    let filled = (u128::from(done.min(all)) * u128::from(BAR_WIDTH) / u128::from(all.max(1))) as usize;
    format!(
        "[{}{}]",
        "#".repeat(filled),
        "-".repeat(BAR_WIDTH as usize - filled)
    )
}

/// What is done, and when it will be over if it goes on as it did lately.
fn line(what: &str, done: u64, all: u64, rate: Option<f64>) -> String {
    let percent = u128::from(done.min(all)) * 100 / u128::from(all.max(1));
    let mut line = format!("{what} {percent} % of {}", bytes_in_words(all));
    if let Some(rate) = rate
        && done < all
    {
        line.push_str(&format!(
            ", {} a second, {} to go",
            bytes_in_words(rate as u64),
            time_in_words((all - done) as f64 / rate)
        ));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_full_as_it_is_far() {
        assert_eq!(bar(0, 0), format!("[{}]", "-".repeat(30)));
        assert_eq!(bar(1, 2), format!("[{}{}]", "#".repeat(15), "-".repeat(15)));
        assert_eq!(bar(u64::MAX, u64::MAX), format!("[{}]", "#".repeat(30)));
        assert_eq!(bar(3, 2), format!("[{}]", "#".repeat(30)));
    }

    #[test]
    fn a_line_says_how_long_it_will_take() {
        let said = line("restoring", 25_000_000, 100_000_000, Some(5_000_000.0));
        assert_eq!(said, "restoring 25 % of 100.0 MB, 5.0 MB a second, 15 s to go");
        assert_eq!(line("reading", 0, 0, None), "reading 0 % of 0 bytes");
        assert_eq!(line("reading", 5, 4, Some(1.0)), "reading 100 % of 4 bytes");
    }
}

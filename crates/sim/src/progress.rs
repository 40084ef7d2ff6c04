//! How far it is: a bar where somebody looks, nothing where nobody does.

use sim::{Coded, Summary};
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const WIDTH: u64 = 30;
const EVERY: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Counts {
    seeds: u64,
    events: u64,
    calls: u64,
    coded: Coded,
    shown: Option<Instant>,
}

/// Counts what is done, and shows it on the terminal.
pub(crate) struct Progress {
    total: u64,
    is_shown: bool,
    started: Instant,
    counts: Mutex<Counts>,
}

impl Progress {
    pub(crate) fn new(total: u64) -> Progress {
        Progress {
            total,
            is_shown: total > 1 && std::io::stderr().is_terminal(),
            started: Instant::now(),
            counts: Mutex::default(),
        }
    }

    /// A seed is done.
    pub(crate) fn done(&self, summary: &Summary) {
        let mut counts = self.counts.lock().expect("nobody panics while he holds it");
        counts.seeds += 1;
        counts.events += summary.events;
        counts.calls += summary.calls as u64;
        counts.coded.add(summary.coded);
        if self.is_shown && counts.shown.is_none_or(|shown| shown.elapsed() >= EVERY) {
            counts.shown = Some(Instant::now());
            let filled = (counts.seeds * WIDTH / self.total) as usize;
            let bar = "#".repeat(filled) + &"-".repeat(WIDTH as usize - filled);
            let seconds = self.started.elapsed().as_secs_f64().max(0.001);
            let rate = counts.seeds as f64 / seconds;
            // A terminal that went away is no reason to stop.
            let _ = write!(
                std::io::stderr(),
                "\r[{bar}] {} of {} seeds, {rate:.1} a second ",
                counts.seeds,
                self.total
            );
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if self.is_shown {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }

    /// What was done, in one line.
    pub(crate) fn summary(&self, time: Duration) -> String {
        let counts = self.counts.lock().expect("nobody panics while he holds it");
        format!(
            "{} seeds, {} events, {} requests, {} in {:.1} s: nothing found",
            counts.seeds,
            counts.events,
            counts.calls,
            counts.coded,
            time.as_secs_f64()
        )
    }
}

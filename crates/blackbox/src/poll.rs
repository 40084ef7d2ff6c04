//! Waiting for what must become true.

use std::thread;
use std::time::{Duration, Instant};

/// How long the tests wait for what should happen at once. Generous, because a machine that builds and tests
/// at the same time is slow; no passing test ever waits this long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Asks `holds` again and again until it answers true.
///
/// # Panics
/// With `what` in the message, if that has not happened within [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

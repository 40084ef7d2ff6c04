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
pub fn eventually(what: &str, holds: impl FnMut() -> bool) {
    assert!(within(PATIENCE, holds), "not within {PATIENCE:?}: {what}");
}

/// Asks `holds` again and again until it answers true, or until `limit` has passed: then the answer is no.
pub(crate) fn within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !holds() {
        if start.elapsed() >= limit {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    true
}

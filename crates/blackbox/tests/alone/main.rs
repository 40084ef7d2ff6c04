//! What can be promised only by processes that have the machine to themselves: `cargo test` runs one binary after the other, and
//! the tests of this one take turns, as those of others do not.

mod large_values;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits for the tests that came first. The machine is the caller's until what it is handed is dropped.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    // One that failed has ended its processes.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

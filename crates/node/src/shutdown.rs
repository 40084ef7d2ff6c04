//! How the workers of a node stop together, so that what they leave is whole.
//!
//! ```text
//!   told to stop --> resigning --> resting --> rested: all of them are --> ended
//!                       |             |
//!                       |             +-- clients are not read any more; what is under way between groups ends
//!                       +-- leadership goes to other nodes; clients are served as ever
//! ```
//!
//! A transaction that one worker has decided, and another has not heard of, would be half done in what is left. So nobody
//! ends before nobody answers for anything; what was said before is then in the queues between them, and is taken out of
//! these. Who has something to do again, because a group of this node lost its leader elsewhere, is waited for again: it may
//! need the links of all workers. What waits for a group that can have no leader, because the other nodes go too, is not waited for. Neither part of
//! the way takes longer than its limit. Groups in which something is under way even then are not handed over.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

/// How long leadership may take to go elsewhere. At the limit the other nodes find out by themselves that this one is gone.
pub(crate) const RESIGN_MAX: Duration = Duration::from_secs(2);
/// How long what is under way may take to end. At the limit its groups are lost.
pub(crate) const REST_MAX: Duration = Duration::from_secs(10);
/// How long a worker waits for events on its way out.
pub(crate) const STEP: Duration = Duration::from_millis(2);

/// See the file's header.
pub(crate) struct Shutdown {
    workers: u16,
    /// How many are at rest, or have ended.
    rested: AtomicU16,
    is_abandoned: AtomicBool,
}

impl Shutdown {
    pub(crate) fn new(workers: u16) -> Shutdown {
        Shutdown {
            workers,
            rested: AtomicU16::new(0),
            is_abandoned: AtomicBool::new(false),
        }
    }

    /// One worker answers for nothing any more, and hears of nothing new.
    pub(crate) fn rest(&self) {
        self.rested.fetch_add(1, Ordering::AcqRel);
    }

    /// One that was at rest has something to do again.
    pub(crate) fn wake(&self) {
        self.rested.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether all of them are at rest.
    pub(crate) fn is_complete(&self) -> bool {
        self.rested.load(Ordering::Acquire) >= self.workers
    }

    /// A worker has failed: what it had is not known, and nothing is left to the next start.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_has_something_to_do_again_is_waited_for() {
        let shutdown = Shutdown::new(2);
        shutdown.rest();
        shutdown.wake();
        shutdown.rest();
        assert!(
            !shutdown.is_complete(),
            "one has rested twice, and the other never"
        );
        shutdown.rest();
        assert!(shutdown.is_complete());
    }
}

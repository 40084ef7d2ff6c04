//! Looks after the syncs that a worker's loop does itself (`sync_place.rs`): one that does not end keeps the loop, and with it whoever else
//! would notice.
//!
//! ```text
//!   loop        begins --> fdatasync ............................ --> ended
//!   log thread             overdue? no   overdue? yes   overdue? yes, the same: the process ends
//! ```

use ids::Monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::HOPELESS;

/// See the file's header.
#[derive(Default)]
pub(crate) struct SyncWatch {
    /// When the one under way began; 0: there is none.
    began: AtomicU64,
    /// When the one began that was overdue at the last look; 0: none was.
    seen: AtomicU64,
}

impl SyncWatch {
    /// The loop is about to sync.
    pub(crate) fn begins(&self, now: Monotonic) {
        self.began.store(now.0.max(1), Ordering::Relaxed);
    }

    /// It has.
    pub(crate) fn ended(&self) {
        self.began.store(0, Ordering::Relaxed);
    }

    /// Whether the sync under way has lasted for so long that nobody waits any more, and had when this was last asked. One look is not
    /// enough: the process may have stood still until now, and the sync have ended.
    pub(crate) fn hangs(&self, now: Monotonic) -> bool {
        let began = self.began.load(Ordering::Relaxed);
        let is_overdue = began > 0 && now.since(Monotonic(began)) >= HOPELESS;
        let seen = self
            .seen
            .swap(if is_overdue { began } else { 0 }, Ordering::Relaxed);
        is_overdue && seen == began
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_sync_hangs_that_has_not_ended_for_long() {
        let watch = SyncWatch::default();
        let began = Monotonic(5_000_000_000);
        let late = began.after(HOPELESS);
        assert!(!watch.hangs(late), "there is none");
        watch.begins(began);
        assert!(!watch.hangs(began.after(HOPELESS - Duration::from_millis(1))));
        assert!(!watch.hangs(late), "the process may have stood still");
        assert!(watch.hangs(late));
        watch.ended();
        assert!(!watch.hangs(late));
        watch.begins(late);
        assert!(!watch.hangs(late), "it is another one");
    }
}

//! Saves that clients of a node have asked for: one at a time, as in Redis. Touched when one begins and ends, and when somebody looks.

use ids::UnixMillis;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// See the file's header.
#[derive(Default)]
pub struct Saves {
    /// Since when one is under way, Unix milliseconds; 0 if none is.
    since: AtomicI64,
    /// How many have ended well.
    count: AtomicU64,
    /// What the last one took.
    millis: AtomicU64,
    has_ended: AtomicBool,
    has_failed: AtomicBool,
}

impl Saves {
    /// One begins. `false` if one is under way.
    pub(crate) fn begin(&self, now: UnixMillis) -> bool {
        let before = self
            .since
            .compare_exchange(0, now.0.max(1), Ordering::Relaxed, Ordering::Relaxed);
        before.is_ok()
    }

    /// The one that is under way has ended.
    pub(crate) fn end(&self, now: UnixMillis, is_good: bool) {
        let since = self.since.swap(0, Ordering::Relaxed);
        let millis = now.0.saturating_sub(since).max(0) as u64;
        self.millis.store(millis, Ordering::Relaxed);
        self.has_ended.store(true, Ordering::Relaxed);
        self.has_failed.store(!is_good, Ordering::Relaxed);
        self.count.fetch_add(is_good.into(), Ordering::Relaxed);
    }

    /// Since when one is under way.
    pub fn since(&self) -> Option<UnixMillis> {
        let since = self.since.load(Ordering::Relaxed);
        (since > 0).then_some(UnixMillis(since))
    }

    /// How many milliseconds the last one took.
    pub fn took_millis(&self) -> Option<u64> {
        let has_ended = self.has_ended.load(Ordering::Relaxed);
        has_ended.then(|| self.millis.load(Ordering::Relaxed))
    }

    /// Whether the last one failed.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// How many have ended well since the start.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_at_a_time() {
        let saves = Saves::default();
        assert!(saves.begin(UnixMillis(1_000)));
        assert!(!saves.begin(UnixMillis(1_500)));
        assert_eq!(
            (saves.since(), saves.took_millis()),
            (Some(UnixMillis(1_000)), None)
        );
        saves.end(UnixMillis(3_500), false);
        assert_eq!((saves.since(), saves.took_millis()), (None, Some(2_500)));
        assert!(saves.has_failed() && saves.count() == 0);
        assert!(saves.begin(UnixMillis(4_000)));
        saves.end(UnixMillis(4_000), true);
        assert!(!saves.has_failed() && saves.count() == 1);
    }
}

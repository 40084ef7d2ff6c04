//! Log lines that strangers can cause as often as they like: one a minute, and how many were left out.

use ids::Monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// At most one line in this time.
const PAUSE: Duration = Duration::from_secs(60);

/// One kind of line, of all workers.
#[derive(Debug, Default)]
pub struct Notices {
    /// Nanoseconds of the raw monotonic clock; 0: there was no line yet.
    quiet_until: AtomicU64,
    left_out: AtomicU64,
}

impl Notices {
    /// How many lines were left out since the last one, if one may be written now.
    pub fn may(&self, now: Monotonic) -> Option<u64> {
        let until = self.quiet_until.load(Ordering::Relaxed);
        let is_free = until == 0 || now.0 >= until;
        let next = now.after(PAUSE).0;
        let taken = is_free
            && self
                .quiet_until
                .compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if taken {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_minute_with_a_count() {
        let notices = Notices::default();
        let lines: Vec<_> = (0..150u64)
            .filter_map(|secs| notices.may(Monotonic(secs * 1_000_000_000)))
            .collect();
        assert_eq!(lines, [0, 59, 59]);
    }
}

//! How fast snapshots are written, by all workers together: `snapshot-rate`.
//!
//! ```text
//!   piece --take--> may be written, and the next one when that many bytes have had their time
//!             '---> how long until then
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long one piece keeps others waiting at most, however long it is: whoever waits for a snapshot gives it up after
/// half a minute without news of it.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// See the file's header.
pub(crate) struct SnapshotPace {
    /// Bytes a second; 0: as fast as the disk takes them.
    rate: AtomicU64,
    /// When the next piece may be written.
    next: Mutex<Instant>,
}

impl SnapshotPace {
    /// One without a limit.
    pub(crate) fn new(now: Instant) -> SnapshotPace {
        SnapshotPace {
            rate: AtomicU64::new(0),
            next: Mutex::new(now),
        }
    }

    /// Bytes a second from here on; 0: no limit.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// A piece of so many bytes is written now, if it may be; else how long until then.
    pub(crate) fn take(&self, bytes: usize, now: Instant) -> Result<(), Duration> {
        let rate = self.rate.load(Ordering::Relaxed);
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = next.saturating_duration_since(now);
        if rate == 0 {
            *next = now;
            return Ok(());
        }
        if !wait.is_zero() {
            return Err(wait);
        }
        let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
        *next = now + takes.min(WAIT_MAX);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 100_000;

    /// How many pieces are written in a second.
    fn written(pace: &SnapshotPace, began: Instant) -> u32 {
        let mut now = began;
        let mut count = 0;
        while now < began + Duration::from_secs(1) {
            match pace.take(PIECE, now) {
                Ok(()) => count += 1,
                Err(wait) => now += wait,
            }
            now += Duration::from_nanos(1);
        }
        count
    }

    #[test]
    fn as_much_is_written_in_a_second_as_may_be() {
        let began = Instant::now();
        let pace = SnapshotPace::new(began);
        pace.set_rate(1_000_000);
        assert_eq!(written(&pace, began), 10);
        pace.set_rate(4_000_000);
        assert_eq!(written(&pace, began + Duration::from_secs(1)), 40);
        pace.set_rate(0);
        let now = began + Duration::from_secs(2);
        assert!((0..1_000).all(|_| pace.take(PIECE, now).is_ok()));
    }

    #[test]
    fn time_in_which_nothing_was_written_is_not_made_up_for() {
        let began = Instant::now();
        let pace = SnapshotPace::new(began);
        pace.set_rate(1_000_000);
        assert_eq!(written(&pace, began + Duration::from_secs(60)), 10);
    }

    #[test]
    fn a_long_piece_does_not_keep_others_waiting_for_long() {
        let began = Instant::now();
        let pace = SnapshotPace::new(began);
        pace.set_rate(1_000);
        assert_eq!(pace.take(1 << 30, began), Ok(()));
        assert_eq!(pace.take(1, began), Err(WAIT_MAX));
        assert_eq!(pace.take(1, began + WAIT_MAX), Ok(()));
    }
}

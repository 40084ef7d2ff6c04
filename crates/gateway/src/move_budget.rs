//! How much of groups' states a node sends to others: `move-bandwidth`, of which each worker takes what nobody else has taken.
//!
//! ```text
//!   a piece of any worker, so many bytes --- nobody sends for bytes / bandwidth, CHARGE_MAX at most --- a piece of any worker ---
//! ```
//!
//! A transfer that is at its end is not charged: what is written meanwhile would outrun it, and all of that comes with its last piece.

use ids::Monotonic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest that one piece keeps others from being sent, so that another `move-bandwidth` is followed soon. So a bandwidth has a lower end: a piece
/// a second.
const CHARGE_MAX: Duration = Duration::from_secs(1);

/// See the file's header. Shared by the workers of a node; touched by none that sends no state.
#[derive(Debug, Default)]
pub(crate) struct MoveBudget {
    /// From when on a piece may be sent, as [`Monotonic`].
    free_at: AtomicU64,
}

impl MoveBudget {
    /// From when on a piece may be sent.
    pub(crate) fn free_at(&self) -> Monotonic {
        // Nothing else is read by it.
        Monotonic(self.free_at.load(Ordering::Relaxed))
    }

    /// Pieces of so many bytes were made to be sent, at a bandwidth of bytes a second, of which 0 is none.
    pub(crate) fn charge(&self, now: Monotonic, bytes: usize, bandwidth: u64) {
        let nanos = (bytes as u64)
            .saturating_mul(1_000_000_000)
            .checked_div(bandwidth);
        let taken = nanos.map_or(Duration::ZERO, Duration::from_nanos).min(CHARGE_MAX);
        let later = |free_at: u64| Some(Monotonic(free_at.max(now.0)).after(taken).0);
        // Two workers may have found it free at once: both are charged.
        let _ = self
            .free_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_workers_together_send_as_much_as_one_may_alone() {
        for workers in [1, 4] {
            let (budget, begin) = (MoveBudget::default(), Monotonic(5));
            let (mut now, mut sent) = (begin, 0);
            while now < begin.after(Duration::from_secs(10)) {
                for _ in 0..workers {
                    if budget.free_at() <= now {
                        budget.charge(now, 250, 1_000);
                        sent += 250;
                    }
                }
                now = now.max(budget.free_at());
            }
            assert_eq!(sent, 10_000, "{workers} workers");
        }
    }

    #[test]
    fn no_piece_keeps_others_waiting_for_long_and_without_a_bandwidth_none_does() {
        let (budget, now) = (MoveBudget::default(), Monotonic(5));
        budget.charge(now, usize::MAX, 0);
        assert_eq!(budget.free_at(), now);
        budget.charge(now, usize::MAX, 1);
        assert_eq!(budget.free_at(), now.after(CHARGE_MAX));
    }
}

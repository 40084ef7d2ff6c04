//! How much of a worker the copying of states takes, while clients wait for it.
//!
//! ```text
//!   piece, which takes t --- rest: t * (part - 1), REST_MAX at most --- piece --- rest ---
//! ```
//!
//! What writes outrun gets no rest: what lags in the end comes all at once.
//!
//! Requests go over several workers, and each that is at a piece holds them up. Where there are fewer cores than workers, one that
//! copies without a rest takes the core from those that others wait for.

use ids::Monotonic;
use std::time::Duration;

/// The system may have stopped the worker while it was at a piece.
const REST_MAX: Duration = Duration::from_millis(20);

/// See the file's header.
#[derive(Clone, Debug)]
pub(crate) struct CopyPace {
    /// Of the worker's time, one part in so many.
    part: u32,
    rests_until: Monotonic,
}

impl CopyPace {
    pub(crate) fn new(part: u32) -> CopyPace {
        CopyPace {
            part,
            rests_until: Monotonic(0),
        }
    }

    /// Whether a piece may be made.
    pub(crate) fn may_copy(&self, now: Monotonic) -> bool {
        now >= self.rests_until
    }

    /// From when on one may be made.
    pub(crate) fn rests_until(&self) -> Monotonic {
        self.rests_until
    }

    /// Pieces were made since `now`, and took so many nanoseconds. It rests for `rest_min` at least
    /// ([`Hooks::copy_rest_min`](crate::shared::Hooks::copy_rest_min)).
    pub(crate) fn copied(&mut self, now: Monotonic, nanos: u64, rest_min: Duration) {
        let took = Duration::from_nanos(nanos);
        let rest = took.saturating_mul(self.part - 1).min(REST_MAX);
        self.rests_until = now.after(took).after(rest.max(rest_min));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLIS: u64 = 1_000_000;

    #[test]
    fn a_tenth_of_a_worker_copies() {
        let mut pace = CopyPace::new(10);
        let (mut now, mut copied) = (Monotonic(7), 0);
        let end = now.after(Duration::from_secs(1));
        while now < end {
            match pace.may_copy(now) {
                true => {
                    pace.copied(now, MILLIS, Duration::ZERO);
                    copied += 1;
                }
                false => now = pace.rests_until(),
            }
        }
        assert_eq!(copied, 100);
    }

    #[test]
    fn a_piece_during_which_the_system_stopped_the_worker_costs_no_long_rest() {
        let mut pace = CopyPace::new(10);
        pace.copied(Monotonic(0), 1_000 * MILLIS, Duration::ZERO);
        assert_eq!(pace.rests_until(), Monotonic(1_020 * MILLIS));
    }

    #[test]
    fn what_takes_no_time_needs_no_rest_but_the_least() {
        let mut pace = CopyPace::new(10);
        pace.copied(Monotonic(5), 0, Duration::ZERO);
        assert!(pace.may_copy(Monotonic(5)));
        let mut pace = CopyPace::new(10);
        pace.copied(Monotonic(5), 0, Duration::from_nanos(3));
        assert!(!pace.may_copy(Monotonic(7)) && pace.may_copy(Monotonic(8)));
    }
}

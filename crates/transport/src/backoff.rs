//! When to dial again.

use ids::Prng;
use std::time::Duration;

/// After the first failure.
const DELAY_MIN: Duration = Duration::from_millis(50);
/// After many: a node that comes back is found within this.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(2);

/// How long to wait after `failures` of them in a row: twice as long after each, and between half and all of that, so that
/// nodes that lost the same peer do not come back to it at the same moment.
pub(crate) fn delay(failures: u32, prng: &mut Prng) -> Duration {
    let full = DELAY_MIN.saturating_mul(1 << failures.min(16)).min(DELAY_MAX);
    let half = full / 2;
    half + Duration::from_nanos(prng.below(half.as_nanos() as u64 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_stay_bounded_and_differ() {
        let mut prng = Prng::new(1);
        for failures in 0..100 {
            let full = Duration::from_millis(50 << failures.min(10)).min(DELAY_MAX);
            let delays: Vec<_> = (0..50).map(|_| delay(failures, &mut prng)).collect();
            assert!(delays.iter().all(|delay| (full / 2..=full).contains(delay)));
            assert!(delays.iter().any(|delay| *delay != delays[0]));
        }
    }
}

//! Times after which the responder answers: a distribution that is known, so that what a tool tells of it can be right or wrong.
//!
//! They are exponential, as the waits in many queues are, and have a tail: the median is 0.69 of the mean, one of ten is longer
//! than 2.3 of it, one of a hundred than 4.6. They are not drawn at random, where ten thousand would still leave the 99th
//! percentile uncertain by two percent: they go through the shares from 0 to 1 in steps of the golden ratio, which leaves no
//! stretch of them out (Weyl, 1916). So any thousand that follow each other have the same percentiles, but for two or three of
//! them.

use std::time::Duration;

/// The fractional part of the golden ratio, by 2^64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The longest mean. The longest delay is 37 times as long.
const MEAN_MAX: Duration = Duration::from_secs(60);

/// Delays with a mean.
#[derive(Clone, Debug)]
pub struct Delays {
    mean_nanos: f64,
    share: u64,
}

impl Delays {
    /// With this mean.
    ///
    /// # Errors
    /// In words, if it is more than a minute.
    pub fn new(mean: Duration) -> Result<Delays, String> {
        if mean > MEAN_MAX {
            return Err(format!("take at most {} seconds", MEAN_MAX.as_secs()));
        }
        Ok(Delays {
            mean_nanos: mean.as_nanos() as f64,
            share: 0,
        })
    }

    /// The next one, in nanoseconds.
    pub(crate) fn draw(&mut self) -> u64 {
        self.share = self.share.wrapping_add(GOLDEN);
        // From 0 to 1, and neither of them.
        let longer = ((self.share >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-longer.ln() * self.mean_nanos) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_any_thousand_as_many_are_longer_as_the_distribution_says() {
        let mut delays = Delays::new(Duration::from_millis(1)).expect("it is short");
        for _ in 0..50 {
            let drawn: Vec<u64> = (0..1_000).map(|_| delays.draw()).collect();
            for share in [0.1_f64, 0.5, 0.9, 0.99] {
                let percentile = -(1.0 - share).ln() * 1e6;
                let shorter = drawn.iter().filter(|nanos| (**nanos as f64) < percentile);
                let (told, exact) = (shorter.count() as f64, share * 1_000.0);
                assert!((told - exact).abs() <= 3.0, "{share}: {told} for {exact}");
            }
        }
    }

    #[test]
    fn a_mean_beyond_a_minute_is_refused() {
        assert!(Delays::new(MEAN_MAX).is_ok());
        let problem = Delays::new(MEAN_MAX + Duration::from_nanos(1)).expect_err("it is too long");
        assert!(problem.contains("60 seconds"), "{problem}");
    }
}

//! Latencies, counted by an HdrHistogram: what it tells of a value is off by less than 0.5 %.

/// The longest latency that is told apart, 73 minutes. A longer one counts as this.
const NANOS_MAX: u64 = (1 << 42) - 1;
/// Significant decimal digits that values are told apart by.
const DIGITS: u8 = 2;

/// How often each latency occurred.
#[derive(Clone, Default)]
pub struct Histogram {
    /// Allocated by the first latency: most of the many that there are have none.
    counts: Option<Box<hdrhistogram::Histogram<u64>>>,
    /// Exactly, for the average. 2^128 nanoseconds are never reached.
    sum: u128,
    max: u64,
}

impl Histogram {
    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.counts().saturating_record(nanos);
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    /// Counts all that another one has counted.
    pub fn add(&mut self, other: &Histogram) {
        if let Some(more) = &other.counts {
            self.counts().add(&**more).expect("all have the same bounds");
        }
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    fn counts(&mut self) -> &mut hdrhistogram::Histogram<u64> {
        self.counts.get_or_insert_with(|| {
            let counts = hdrhistogram::Histogram::new_with_bounds(1, NANOS_MAX, DIGITS);
            Box::new(counts.expect("the bounds are apart"))
        })
    }

    /// As if nothing had been counted.
    pub fn clear(&mut self) {
        if let Some(counts) = &mut self.counts {
            counts.reset();
        }
        (self.sum, self.max) = (0, 0);
    }

    /// How many latencies were counted.
    pub fn count(&self) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.len())
    }

    /// The longest one, exactly; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The average, exactly; 0 if there is none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count().max(1) as f64
    }

    /// The latency that this share of all (0 to 1) does not exceed; 0 if there is none.
    pub fn percentile(&self, share: f64) -> u64 {
        // The middle of the last bucket may lie above all that is in it.
        self.counts.as_ref().map_or(0, |counts| {
            let nanos = counts.value_at_quantile(share);
            counts.median_equivalent(nanos).min(self.max)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;

    #[test]
    fn percentiles_are_those_of_the_sorted_values_to_half_a_percent() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let mut histogram = Histogram::default();
            let mut values: Vec<u64> = (0..5_000)
                .map(|_| {
                    // From nanoseconds to minutes: each power of two as often as the next.
                    let bits = prng.below(38);
                    (1 << bits) + prng.below(1 << bits)
                })
                .collect();
            for &value in &values {
                histogram.record(value);
            }
            values.sort_unstable();
            for share in [0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
                let exact = values[((share * 5_000.0_f64).ceil() as usize).max(1) - 1];
                let told = histogram.percentile(share);
                let error = (told as f64 - exact as f64).abs() / exact as f64;
                assert!(error <= 0.005, "seed {seed}, {share}: {told} for {exact}");
            }
            assert_eq!(histogram.max(), values[4_999]);
            assert_eq!(histogram.count(), 5_000);
            let mean = values.iter().sum::<u64>() as f64 / 5_000.0;
            assert!((histogram.mean() - mean).abs() / mean < 1e-9);
        }
    }

    #[test]
    fn what_is_too_long_counts_as_the_longest_and_its_maximum_is_exact() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        assert_eq!(histogram.max(), u64::MAX);
        let told = histogram.percentile(0.5) as f64 / NANOS_MAX as f64;
        assert!((told - 1.0).abs() < 0.01, "{told}");
    }

    #[test]
    fn adding_counts_what_both_have_counted_and_clearing_nothing() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        one.add(&other);
        assert_eq!((one.count(), one.max(), one.percentile(0.5)), (0, 0, 0));
        one.record(10);
        other.record(30);
        other.record(50);
        one.add(&other);
        assert_eq!((one.count(), one.max(), one.percentile(0.5)), (3, 50, 30));
        one.clear();
        assert_eq!((one.count(), one.max(), one.percentile(0.5)), (0, 0, 0));
    }
}

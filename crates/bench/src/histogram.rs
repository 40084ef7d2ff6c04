//! Latencies, counted in buckets whose width grows with what they hold.
//!
//! Below [`LINEAR`] nanoseconds each value has a bucket of its own; above, each power of two is divided into [`LINEAR`] equal
//! ones. A bucket is thus never wider than 1/128 of its values, and its middle is told for all of them: an error below 0.4 %.
//! The idea is that of HdrHistogram (Gil Tene). It is a table of numbers, which the first value allocates, and no other one.

/// Buckets of one power of two.
const LINEAR: u64 = 1 << LINEAR_BITS;
const LINEAR_BITS: u32 = 7;

/// The longest latency that is told apart, 73 minutes. A longer one counts as this.
const NANOS_MAX: u64 = (1 << NANOS_BITS) - 1;
const NANOS_BITS: u32 = 42;

const BUCKETS: usize = ((NANOS_BITS - LINEAR_BITS + 1) as u64 * LINEAR) as usize;

/// How often each latency occurred.
#[derive(Clone, Default)]
pub struct Histogram {
    /// Empty, or [`BUCKETS`].
    counts: Box<[u64]>,
    count: u64,
    /// Exactly, for the average. 2^128 nanoseconds are never reached.
    sum: u128,
    max: u64,
}

impl Histogram {
    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        let place = bucket(nanos.min(NANOS_MAX));
        match self.counts.get_mut(place) {
            Some(count) => *count += 1,
            None => self.allocated()[place] += 1,
        }
        self.count += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    /// Counts all that another one has counted.
    pub fn add(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        for (count, more) in self.allocated().iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    #[cold]
    fn allocated(&mut self) -> &mut [u64] {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS].into_boxed_slice();
        }
        &mut self.counts
    }

    /// As if nothing had been counted.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.count = 0;
        self.sum = 0;
        self.max = 0;
    }

    /// How many latencies were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest one, exactly; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The average, exactly; 0 if there is none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.sum as f64 / self.count as f64
    }

    /// The latency that this share of all (0 to 1) does not exceed, to 0.4 %; 0 if there is none.
    pub fn percentile(&self, share: f64) -> u64 {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                // The middle of the last bucket may lie above all that is in it.
                return middle(index).min(self.max);
            }
        }
        self.max
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < LINEAR {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - LINEAR_BITS;
    // The leading one of what is left is counted by the first summand.
    (u64::from(shift) * LINEAR + (nanos >> shift)) as usize
}

fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < LINEAR {
        return bucket;
    }
    let shift = bucket / LINEAR - 1;
    let first = (LINEAR + bucket % LINEAR) << shift;
    first + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;

    #[test]
    fn percentiles_are_those_of_the_sorted_values_to_one_percent() {
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
                assert!(error <= 0.01, "seed {seed}, {share}: {told} for {exact}");
            }
            assert_eq!(histogram.max(), values[4_999]);
            assert_eq!(histogram.count(), 5_000);
            let mean = values.iter().sum::<u64>() as f64 / 5_000.0;
            assert!((histogram.mean() - mean).abs() / mean < 1e-9);
        }
    }

    #[test]
    fn every_bucket_holds_its_middle_and_borders_on_the_next() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(middle(index)), index);
        }
        let mut last = 0;
        for value in (0..4096).chain((12..=NANOS_BITS).map(|bits| (1 << bits) - 1)) {
            let index = bucket(value);
            assert!(index >= last, "{value}");
            last = index;
        }
        assert_eq!(last, BUCKETS - 1);
    }

    #[test]
    fn what_is_longer_than_all_buckets_is_in_the_last_and_its_maximum_is_exact() {
        let mut histogram = Histogram::default();
        histogram.record(u64::MAX);
        assert_eq!(histogram.max(), u64::MAX);
        assert_eq!(histogram.percentile(0.5) >> (NANOS_BITS - 1), 1);
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

//! Random picks: which of many elements are picked if none is picked twice, and how many may be if one can be.

use crate::object::{Object, Value};
use ids::Prng;
use std::collections::BTreeSet;

/// `count` different numbers below `len`, ascending; every choice of them is as likely as any other (Floyd's algorithm:
/// Bentley, "Programming pearls: a sample of brilliance", 1987).
pub(crate) fn sample(prng: &mut Prng, len: usize, count: usize) -> Vec<usize> {
    let few = count.min(len - count);
    let mut chosen = BTreeSet::new();
    for bound in len - few..len {
        let number = prng.below(bound as u64 + 1) as usize;
        if !chosen.insert(number) {
            chosen.insert(bound);
        }
    }
    if few == count {
        chosen.into_iter().collect()
    } else {
        // Those that were chosen stay behind.
        (0..len).filter(|number| !chosen.contains(number)).collect()
    }
}

/// What picks with repetition may be expected to answer, in bytes: more is out of range. Redis answers until its memory
/// is gone.
pub(crate) const PICKED_BYTES_MAX: u64 = 1 << 30;

/// Whether so many picks with repetition from a hash or sorted set would answer too much.
pub(crate) fn are_too_many_picks(object: &Object, count: u64) -> bool {
    let bytes = match object.value() {
        Value::Listpack(_, listpack) => listpack.bytes().len(),
        _ => object.memory(),
    };
    let bytes_each = (bytes / object.value().len().max(1)) as u64;
    bytes_each.saturating_mul(count) > PICKED_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_right_size_and_every_number_is_as_likely() {
        let mut prng = Prng::new(3);
        for count in [3, 7] {
            let mut counts = [0; 10];
            for _ in 0..10_000 {
                let chosen = sample(&mut prng, 10, count);
                assert_eq!(chosen.len(), count);
                assert!(chosen.is_sorted_by(|left, right| left < right));
                chosen.iter().for_each(|number| counts[*number] += 1);
            }
            let expected = count * 1_000;
            assert!(
                counts
                    .iter()
                    .all(|times| (expected - 300..expected + 300).contains(times)),
                "{counts:?}"
            );
        }
        assert_eq!(sample(&mut prng, 10, 10).len(), 10);
        assert!(sample(&mut prng, 10, 0).is_empty());
    }
}

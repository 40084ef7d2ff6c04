//! Where the keys of a group lie: in which of its partitions, and at which place in that.
//!
//! ```text
//!   partitions of the cluster   | 0 | 1 | 2 | 3 | 4 | 5 | ...
//!   the range of the group          |     range     |            index 0, 1, 2, 3; which of these it hosts: `hosting.rs`
//!   seed of each                      s   s   t   s              t came with a partition of another group
//! ```
//!
//! A partition keeps the seed of its hash order wherever it goes: so what is left of a `SCAN` over it means the same there, and nothing is
//! hashed anew when it moves.

use crate::directories::Location;
use ids::{HashSeed, PartitionId, PartitionRange, Slot};
use std::sync::Arc;

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placing {
    range: PartitionRange,
    seed: HashSeed,
    /// Those of the partitions of the range, if not all have that of the group.
    seeds: Option<Arc<[HashSeed]>>,
}

impl Placing {
    /// These partitions, all with one seed.
    pub(crate) fn new(seed: HashSeed, range: PartitionRange) -> Placing {
        Placing {
            range,
            seed,
            seeds: None,
        }
    }

    /// Those that it is about: all that the group hosts, and others between them.
    #[inline]
    pub(crate) fn range(&self) -> PartitionRange {
        self.range
    }

    /// That of the group.
    #[inline]
    pub(crate) fn seed(&self) -> HashSeed {
        self.seed
    }

    /// That of the partition at this place of the range.
    #[inline]
    pub(crate) fn seed_at(&self, index: u16) -> HashSeed {
        match &self.seeds {
            None => self.seed,
            Some(seeds) => seeds.get(usize::from(index)).copied().unwrap_or(self.seed),
        }
    }

    /// Where `key` belongs. Of a key that is none of theirs it is some place: who hosts it is not decided here.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> Location {
        self.locate_in_slot(Slot::of_key(key), key)
    }

    /// The same, if the slot is known.
    #[inline]
    pub(crate) fn locate_in_slot(&self, slot: Slot, key: &[u8]) -> Location {
        let partition = self.range.index_of(slot);
        Location {
            partition,
            hash: self.seed_at(partition).hash(key),
        }
    }

    /// The same range made as wide as it takes to have this partition too, which has this seed; or that one alone.
    pub(crate) fn with(&self, partition: PartitionId, seed: HashSeed, is_alone: bool) -> Placing {
        let (count, range) = (self.range.cluster_count(), self.range);
        let last = range.at(range.len() as u16 - 1);
        let (first, last) = match is_alone {
            true => (partition, partition),
            false => (range.first().min(partition), last.max(partition)),
        };
        let length = last.number() - first.number() + 1;
        let wider =
            PartitionRange::new(count, first, length).expect("both ends are partitions of the cluster");
        let seed_of = |index| match wider.at(index) {
            found if found == partition => seed,
            found => range.index(found).map_or(self.seed, |index| self.seed_at(index)),
        };
        let seeds: Vec<HashSeed> = (0..length).map(seed_of).collect();
        let is_one = seeds.iter().all(|found| *found == self.seed);
        Placing {
            range: wider,
            seed: self.seed,
            seeds: (!is_one).then(|| seeds.into()),
        }
    }

    /// The same of a group that has this seed: nothing of it was ever hosted.
    pub(crate) fn of_seed(&self, seed: HashSeed) -> Placing {
        Placing::new(seed, self.range)
    }

    /// The seeds of the partitions that have another one than the group, with their places in the range.
    pub(crate) fn others(&self) -> impl Iterator<Item = (u16, HashSeed)> {
        let seeds = self.seeds.iter().flat_map(|seeds| seeds.iter());
        (0..).zip(seeds.copied()).filter(|(_, seed)| *seed != self.seed)
    }

    /// The same, with these seeds in place of the group's.
    pub(crate) fn with_others(&self, others: &[(u16, HashSeed)]) -> Placing {
        if others.is_empty() {
            return self.clone();
        }
        let mut seeds = vec![self.seed; self.range.len()];
        for (index, seed) in others {
            if let Some(place) = seeds.get_mut(usize::from(*index)) {
                *place = *seed;
            }
        }
        Placing {
            seeds: Some(seeds.into()),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::PartitionCount;

    #[test]
    fn a_partition_keeps_its_seed_and_the_others_theirs() {
        let (ours, theirs, third) = (HashSeed([1, 2]), HashSeed([3, 4]), HashSeed([5, 6]));
        let count = PartitionCount::new(8).expect("a valid count");
        let range =
            |first, length| PartitionRange::new(count, PartitionId::new(first), length).expect("inside");
        let seeds = |placing: &Placing| -> Vec<HashSeed> {
            (0..placing.range().len() as u16)
                .map(|index| placing.seed_at(index))
                .collect()
        };
        let placing = Placing::new(ours, range(3, 2));
        assert_eq!(placing.with(PartitionId::new(4), ours, false), placing);
        let wider = placing.with(PartitionId::new(6), theirs, false);
        assert_eq!(
            (wider.range(), seeds(&wider)),
            (range(3, 4), vec![ours, ours, ours, theirs])
        );
        let wider = wider.with(PartitionId::new(1), third, false);
        assert_eq!(seeds(&wider), [third, ours, ours, ours, ours, theirs]);
        let others: Vec<(u16, HashSeed)> = wider.others().collect();
        assert_eq!(others, [(0, third), (5, theirs)]);
        assert_eq!(Placing::new(ours, wider.range()).with_others(&others), wider);
        let alone = placing.with(PartitionId::new(7), theirs, true);
        assert_eq!((alone.range(), seeds(&alone)), (range(7, 1), vec![theirs]));
        let key = b"key";
        let index = wider.locate(key).partition;
        assert_eq!(wider.locate(key).hash, wider.seed_at(index).hash(key));
    }
}

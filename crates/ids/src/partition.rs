//! Partitions: contiguous ranges of slots, each a keyspace of its own.
//!
//! ```text
//!   slots       0 ......................................... 16383
//!   partitions  | 0 | 1 | 2 | 3 | 4 | ...              | 255 |     contiguous, lengths differ by at most one
//! ```

use crate::{SLOT_COUNT, Slot};

/// One partition, `0..partitions`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PartitionId(pub(crate) u16);

impl PartitionId {
    /// A partition by number.
    #[inline]
    pub fn new(number: u16) -> PartitionId {
        PartitionId(number)
    }

    /// The number, from 0.
    #[inline]
    pub fn number(self) -> u16 {
        self.0
    }
}

/// How many partitions a cluster has: fixed when it is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionCount(pub(crate) u16);

impl PartitionCount {
    /// Most partitions a cluster can have: their numbers have twelve bits in `SCAN` cursors.
    pub const MAX: u16 = 4_096;

    /// What a cluster gets if nobody says.
    pub const DEFAULT: PartitionCount = PartitionCount(256);

    /// `None` unless `1..=4096`.
    pub const fn new(count: u16) -> Option<PartitionCount> {
        if count == 0 || count > PartitionCount::MAX {
            return None;
        }
        Some(PartitionCount(count))
    }

    /// The count.
    #[inline]
    pub fn get(self) -> u16 {
        self.0
    }

    /// The partition of `slot`.
    #[inline]
    pub fn partition_of(self, slot: Slot) -> PartitionId {
        // slot < 2^14 and count <= 2^12, so the product stays below 2^26.
        PartitionId(((u32::from(slot.number()) * u32::from(self.0)) / u32::from(SLOT_COUNT)) as u16)
    }

    /// The first slot of the partition of this number; the number of all slots for one behind the last.
    pub(crate) fn start_of(self, number: u16) -> u16 {
        // The least slot whose product reaches that of the partition.
        let start = (u32::from(number) * u32::from(SLOT_COUNT)).div_ceil(u32::from(self.0));
        start.min(u32::from(SLOT_COUNT)) as u16
    }
}

/// The partitions that a keyspace is made with: a contiguous range of those of its cluster, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionRange {
    count: PartitionCount,
    first: u16,
    past: u16,
}

impl PartitionRange {
    /// Those from `first` on, as many as `length`, of `count`; `None` if that goes beyond the last. None at all stands behind the last.
    pub fn new(count: PartitionCount, first: PartitionId, length: u16) -> Option<PartitionRange> {
        let past = first.0.checked_add(length).filter(|&past| past <= count.0)?;
        (length > 0 || first.0 == count.0).then_some(PartitionRange {
            count,
            first: first.0,
            past,
        })
    }

    /// No partition of a cluster that has so many. It stands behind the last, where a walk through all keys goes on when it has seen all.
    pub const fn none(count: PartitionCount) -> PartitionRange {
        PartitionRange {
            count,
            first: count.0,
            past: count.0,
        }
    }

    /// Those from the first number up to the second.
    pub(crate) fn between(count: PartitionCount, first: u16, past: u16) -> PartitionRange {
        PartitionRange { count, first, past }
    }

    /// One that has all slots.
    pub const ONE: PartitionRange = PartitionRange {
        count: PartitionCount(1),
        first: 0,
        past: 1,
    };

    /// All partitions of a cluster that has so many.
    pub const fn all(count: PartitionCount) -> PartitionRange {
        PartitionRange {
            count,
            first: 0,
            past: count.0,
        }
    }

    /// How many partitions the cluster has.
    #[inline]
    pub fn cluster_count(self) -> PartitionCount {
        self.count
    }

    /// The first of them.
    #[inline]
    pub fn first(self) -> PartitionId {
        PartitionId(self.first)
    }

    /// How many they are.
    #[inline]
    pub fn len(self) -> usize {
        usize::from(self.past - self.first)
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.past == self.first
    }

    /// The one behind the last; `None` at the end of the cluster's.
    pub fn next(self) -> Option<PartitionId> {
        (self.past < self.count.0).then_some(PartitionId(self.past))
    }

    /// Where the partition of `slot` stands among them. Of a slot that is not theirs it is the nearest: who hosts a
    /// partition is not decided here. Where there are none it is 0.
    #[inline]
    pub fn index_of(self, slot: Slot) -> u16 {
        let partition = self.count.partition_of(slot).0;
        // Not `clamp`, which panics where there are none.
        partition.min(self.past.saturating_sub(1)).max(self.first) - self.first
    }

    /// Where a partition stands among them; `None` if it is none of theirs.
    pub fn index(self, partition: PartitionId) -> Option<u16> {
        (self.first..self.past)
            .contains(&partition.0)
            .then(|| partition.0 - self.first)
    }

    /// The one that stands at `index` among them.
    pub fn at(self, index: u16) -> PartitionId {
        PartitionId(self.first + index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_part_of_the_clusters_partitions_and_knows_what_lies_beside_it() {
        let count = PartitionCount::new(8).expect("a valid count");
        let range = |first, length| PartitionRange::new(count, PartitionId(first), length);
        assert!(range(3, 0).is_none() && range(7, 2).is_none() && range(u16::MAX, 2).is_none());
        let middle = range(2, 3).expect("inside");
        assert_eq!((middle.len(), middle.next()), (3, Some(PartitionId(5))));
        assert_eq!(range(5, 3).expect("inside").next(), None);
        assert_eq!(
            (middle.index(PartitionId(1)), middle.index(PartitionId(5))),
            (None, None)
        );
        let index_of = |slot| middle.index_of(Slot::new(slot).expect("in range"));
        assert_eq!((index_of(0), index_of(SLOT_COUNT - 1)), (0, 2), "the nearest");
        assert_eq!(range(0, 8), Some(PartitionRange::all(count)));
    }

    #[test]
    fn no_partitions_stand_behind_the_last_and_no_slot_is_out_of_their_range() {
        for count in [1, 8, PartitionCount::MAX] {
            let count = PartitionCount::new(count).expect("a valid count");
            let none = PartitionRange::none(count);
            assert_eq!(PartitionRange::new(count, none.first(), 0), Some(none));
            assert!(none.is_empty() && none.next().is_none());
            for slot in [0, 1, SLOT_COUNT - 1] {
                assert_eq!(none.index_of(Slot::new(slot).expect("in range")), 0);
            }
            assert!((0..count.get()).all(|number| none.index(PartitionId(number)).is_none()));
        }
    }
}

//! Groups: contiguous ranges of slots, each replicated on its own.

use crate::{SLOT_COUNT, Slot};

/// One group, `0..groups`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(u16);

impl GroupId {
    /// A group by number.
    #[inline]
    pub fn new(number: u16) -> GroupId {
        GroupId(number)
    }

    /// The number, from 0.
    #[inline]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The number as an index into a table of groups.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// How many groups a cluster has: fixed when it is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupCount(u16);

impl GroupCount {
    /// Most groups a cluster can have: group numbers have ten bits in `SCAN` cursors.
    pub const MAX: u16 = 1_024;

    /// Groups that a new cluster gets for each worker of the node that makes it: with three nodes two for each worker, so
    /// that when a node dies the two that a worker of it led can go to different survivors. Each is a log that costs its
    /// price for every entry, whatever it holds: more of them are dearer, fewer leave workers idle.
    const PER_WORKER: u16 = 6;

    /// How many groups a cluster gets if nobody says: for so many workers of its first node.
    pub fn for_workers(workers: u16) -> GroupCount {
        let count = workers.max(1).saturating_mul(GroupCount::PER_WORKER);
        GroupCount(count.min(GroupCount::MAX))
    }

    /// `None` unless `1..=1024`.
    pub fn new(count: u16) -> Option<GroupCount> {
        (1..=GroupCount::MAX)
            .contains(&count)
            .then_some(GroupCount(count))
    }

    /// The count.
    #[inline]
    pub fn get(self) -> u16 {
        self.0
    }

    /// The group that owns `slot`. Groups own contiguous ranges whose lengths differ by at most one.
    #[inline]
    pub fn group_of(self, slot: Slot) -> GroupId {
        // slot < 2^14 and count <= 2^10, so the product stays below 2^24.
        GroupId(((u32::from(slot.number()) * u32::from(self.0)) / u32::from(SLOT_COUNT)) as u16)
    }

    /// The first and the last slot that `group` owns.
    pub fn slots_of(self, group: GroupId) -> (Slot, Slot) {
        let slots = u32::from(SLOT_COUNT);
        // The least slot whose product reaches that of the group.
        let start = |group: u32| (group * slots).div_ceil(u32::from(self.0)).min(slots);
        let slot = |number: u32| {
            let slot = u16::try_from(number).ok().and_then(Slot::new);
            slot.expect("a group owns at least one slot, and none beyond the last")
        };
        let group = u32::from(group.number());
        (slot(start(group)), slot(start(group + 1) - 1))
    }

    /// All groups in order.
    pub fn iter(self) -> impl Iterator<Item = GroupId> {
        (0..self.0).map(GroupId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_gets_six_groups_for_each_worker_of_its_first_node() {
        for (workers, groups) in [(0, 6), (1, 6), (2, 12), (16, 96), (170, 1_020), (1_024, 1_024)] {
            assert_eq!(
                GroupCount::for_workers(workers).get(),
                groups,
                "{workers} workers"
            );
        }
    }

    #[test]
    fn every_count_covers_all_slots_in_contiguous_even_ranges() {
        for count in [1, 2, 3, 5, 16, 64, 1_000, 1_024] {
            let groups = GroupCount::new(count).expect("a valid count");
            let mut sizes = vec![0u32; usize::from(count)];
            let mut last = 0;
            for number in 0..SLOT_COUNT {
                let group = groups.group_of(Slot::new(number).expect("in range")).index();
                assert!(group == last || group == last + 1);
                last = group;
                sizes[group] += 1;
            }
            assert_eq!(last, usize::from(count) - 1);
            let (min, max) = (
                sizes.iter().min().expect("some"),
                sizes.iter().max().expect("some"),
            );
            assert!(max - min <= 1, "{count} groups: {min}..{max}");
            for (group, size) in groups.iter().zip(sizes) {
                let (first, last) = groups.slots_of(group);
                assert_eq!(u32::from(last.number() - first.number()) + 1, size);
                assert_eq!((groups.group_of(first), groups.group_of(last)), (group, group));
            }
        }
    }
}

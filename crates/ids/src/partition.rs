//! Partitions: contiguous ranges of slots, each a keyspace of its own; and the groups that host them.
//!
//! ```text
//!   slots       0 ......................................... 16383
//!   partitions  | 0 | 1 | 2 | 3 | 4 | ...              | 255 |     contiguous, lengths differ by at most one
//!   groups      |     0     |      1      |   ...   |   11   |     contiguous ranges of partitions
//! ```

use crate::{GroupCount, GroupId, SLOT_COUNT, Slot};

/// One partition, `0..partitions`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PartitionId(u16);

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
pub struct PartitionCount(u16);

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
    fn start_of(self, number: u16) -> u16 {
        // The least slot whose product reaches that of the partition.
        let start = (u32::from(number) * u32::from(SLOT_COUNT)).div_ceil(u32::from(self.0));
        start.min(u32::from(SLOT_COUNT)) as u16
    }
}

/// The partitions that one group hosts: a contiguous range of those of its cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartitionRange {
    count: PartitionCount,
    first: u16,
    past: u16,
}

impl PartitionRange {
    /// Those from `first` on, as many as `length`, of `count`; `None` if that is none at all, or goes beyond the last.
    pub fn new(count: PartitionCount, first: PartitionId, length: u16) -> Option<PartitionRange> {
        let past = first.0.checked_add(length).filter(|&past| past <= count.0)?;
        (length > 0).then_some(PartitionRange {
            count,
            first: first.0,
            past,
        })
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

    /// How many they are: one at least.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(self) -> usize {
        usize::from(self.past - self.first)
    }

    /// The one behind the last; `None` at the end of the cluster's.
    pub fn next(self) -> Option<PartitionId> {
        (self.past < self.count.0).then_some(PartitionId(self.past))
    }

    /// Where the partition of `slot` stands among them. Of a slot that is not theirs it is the nearest: who hosts a
    /// partition is not decided here.
    #[inline]
    pub fn index_of(self, slot: Slot) -> u16 {
        let partition = self.count.partition_of(slot).0;
        partition.clamp(self.first, self.past - 1) - self.first
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

/// The groups of a cluster, and which partitions each hosts.
///
/// Today that follows from the two numbers. Nothing that asks may rely on it: a group can be split, and a partition need
/// not stay in its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Groups {
    count: GroupCount,
    partitions: PartitionCount,
}

impl Groups {
    /// So many groups that host so many partitions; `None` if there is not one for each.
    pub fn new(count: GroupCount, partitions: PartitionCount) -> Option<Groups> {
        (count.get() <= partitions.0).then_some(Groups { count, partitions })
    }

    /// So many groups with partitions as a cluster gets them if nobody says, or one each.
    pub fn with_default_partitions(count: GroupCount) -> Groups {
        let partitions = PartitionCount(PartitionCount::DEFAULT.0.max(count.get()));
        Groups { count, partitions }
    }

    /// How many groups there are.
    #[inline]
    pub fn count(self) -> GroupCount {
        self.count
    }

    /// How many groups there are, as a number.
    #[inline]
    pub fn get(self) -> u16 {
        self.count.get()
    }

    /// How many partitions there are.
    #[inline]
    pub fn partitions(self) -> PartitionCount {
        self.partitions
    }

    /// The group that hosts the partition of `slot`.
    #[inline]
    pub fn group_of(self, slot: Slot) -> GroupId {
        self.host_of(self.partitions.partition_of(slot))
    }

    /// The group that hosts `partition`.
    #[inline]
    pub fn host_of(self, partition: PartitionId) -> GroupId {
        // partition < 2^12 and count <= 2^10.
        let group = u32::from(partition.0) * u32::from(self.count.get()) / u32::from(self.partitions.0);
        GroupId::new(group as u16)
    }

    /// The worker that has `group`, of a node with so many: each has a share of groups that follow one another, so that `SCAN` goes
    /// through them without a hop between workers.
    #[inline]
    pub fn worker_of(self, group: GroupId, workers: u16) -> u16 {
        // `group` < `count` <= 2^10.
        (group.index() * usize::from(workers) / usize::from(self.get())) as u16
    }

    /// Whether two workers of two nodes, each a number and how many its node has, have a link. They have one if some group is with both.
    /// A worker without groups, of a node that has more than groups, has one all the same: what concerns nodes goes by it.
    fn are_linked(self, (one, ones): (u16, u16), (other, others): (u16, u16)) -> bool {
        // The groups of a worker are from here on, up to those of the next one.
        let first = |worker: u16, workers: u16| {
            (usize::from(worker) * usize::from(self.get())).div_ceil(usize::from(workers))
        };
        let groups = |worker, workers| first(worker, workers)..first(worker + 1, workers);
        let (its, theirs) = (groups(one, ones), groups(other, others));
        let scaled =
            |worker: u16, from: u16, to: u16| usize::from(worker) * usize::from(to) / usize::from(from);
        its.start.max(theirs.start) < its.end.min(theirs.end)
            || its.is_empty() && scaled(one, ones, others) == usize::from(other)
            || theirs.is_empty() && scaled(other, others, ones) == usize::from(one)
    }

    /// The workers of another node, which has `others`, with which worker `worker` of a node that has `workers` has links; at least one, and
    /// if both have as many only the one of the same number.
    pub fn counterparts(self, worker: u16, workers: u16, others: u16) -> impl Iterator<Item = u16> {
        let range = match workers == others {
            true => worker..worker + 1,
            false => 0..others,
        };
        range.filter(move |other| workers == others || self.are_linked((worker, workers), (*other, others)))
    }

    /// The first partition of the group of this number.
    fn start_of(self, group: u16) -> u16 {
        (u32::from(group) * u32::from(self.partitions.0)).div_ceil(u32::from(self.count.get())) as u16
    }

    /// The partitions that `group` hosts.
    pub fn partitions_of(self, group: GroupId) -> PartitionRange {
        PartitionRange {
            count: self.partitions,
            first: self.start_of(group.number()),
            past: self.start_of(group.number() + 1),
        }
    }

    /// The first and the last slot of the partitions that `group` hosts.
    pub fn slots_of(self, group: GroupId) -> (Slot, Slot) {
        let range = self.partitions_of(group);
        let slot =
            |number| Slot::new(number).expect("a partition has at least one slot, and none beyond the last");
        (
            slot(self.partitions.start_of(range.first)),
            slot(self.partitions.start_of(range.past) - 1),
        )
    }

    /// All groups in order.
    pub fn iter(self) -> impl Iterator<Item = GroupId> {
        self.count.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(count: u16, partitions: u16) -> Option<Groups> {
        Groups::new(
            GroupCount::new(count).expect("a valid count"),
            PartitionCount::new(partitions).expect("a valid count"),
        )
    }

    fn assert_even(sizes: &[u32]) {
        let (min, max) = (
            sizes.iter().min().expect("some"),
            sizes.iter().max().expect("some"),
        );
        assert!(max - min <= 1, "{} parts: {min}..{max}", sizes.len());
    }

    #[test]
    fn slots_lie_in_even_partitions_and_these_in_even_groups_all_in_order() {
        for (count, partitions) in [
            (1, 1),
            (1, 256),
            (3, 4),
            (6, 256),
            (12, 256),
            (256, 256),
            (7, 1_000),
            (1_024, 4_096),
        ] {
            let groups = groups(count, partitions).expect("no more groups than partitions");
            let mut slots_in = vec![0u32; usize::from(partitions)];
            let mut hosted = vec![0u32; usize::from(count)];
            let mut last = (GroupId::new(0), PartitionId(0));
            for number in 0..SLOT_COUNT {
                let slot = Slot::new(number).expect("in range");
                let partition = groups.partitions().partition_of(slot);
                let here = (groups.group_of(slot), partition);
                assert!(here >= last && partition.0 <= last.1.0 + 1);
                if slots_in[usize::from(partition.0)] == 0 {
                    hosted[here.0.index()] += 1;
                }
                slots_in[usize::from(partition.0)] += 1;
                let range = groups.partitions_of(here.0);
                assert_eq!(range.index(partition), Some(range.index_of(slot)));
                assert_eq!(range.at(range.index_of(slot)), partition);
                last = here;
            }
            assert_even(&slots_in);
            assert_even(&hosted);
            let mut next = 0;
            for group in groups.iter() {
                let (first, last) = groups.slots_of(group);
                assert_eq!(first.number(), next);
                assert_eq!((groups.group_of(first), groups.group_of(last)), (group, group));
                assert_eq!(groups.partitions_of(group).len() as u32, hosted[group.index()]);
                next = last.number() + 1;
            }
            assert_eq!(next, SLOT_COUNT);
        }
    }

    #[test]
    fn every_group_hosts_a_partition_at_least() {
        assert!(groups(5, 4).is_none());
        assert!(PartitionCount::new(0).is_none() && PartitionCount::new(4_097).is_none());
        let many = Groups::with_default_partitions(GroupCount::new(1_000).expect("a valid count"));
        assert_eq!(many.partitions().get(), 1_000);
    }

    #[test]
    fn a_range_is_part_of_the_clusters_partitions_and_knows_what_lies_beside_it() {
        let count = PartitionCount::new(8).expect("a valid count");
        let range = |first, length| PartitionRange::new(count, PartitionId(first), length);
        assert!(range(0, 0).is_none() && range(7, 2).is_none() && range(u16::MAX, 2).is_none());
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
    fn workers_that_share_a_group_have_a_link_and_every_worker_has_one() {
        for count in [1, 2, 3, 12, 13, 96] {
            let groups = Groups::with_default_partitions(GroupCount::new(count).unwrap());
            for ones in 1..=16_u16 {
                for others in 1..=16_u16 {
                    let links = |from, froms, to| groups.counterparts(from, froms, to).collect::<Vec<_>>();
                    let mut all = 0;
                    for one in 0..ones {
                        let counterparts = links(one, ones, others);
                        assert!(
                            !counterparts.is_empty(),
                            "{count} groups: {one} of {ones}, {others}"
                        );
                        all += counterparts.len();
                        for other in counterparts {
                            assert!(links(other, others, ones).contains(&one), "known to both ends");
                        }
                    }
                    for group in groups.iter() {
                        let (one, other) = (groups.worker_of(group, ones), groups.worker_of(group, others));
                        assert!(links(one, ones, others).contains(&other), "{group:?} of {count}");
                    }
                    let few = usize::from(ones + others - 1);
                    assert!(
                        all <= few,
                        "{count} groups: {all} links of {ones} and {others} workers"
                    );
                    if ones == others {
                        assert_eq!(all, usize::from(ones));
                    }
                }
            }
        }
    }
}

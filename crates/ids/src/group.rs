//! A group: a replicated log of its own, hosting partitions.

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

/// How many groups a cluster has. It never has fewer than it had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupCount(u16);

impl GroupCount {
    /// Most groups a cluster can have: one for each partition that there can be.
    pub const MAX: u16 = 4_096;

    /// That many.
    pub const LARGEST: GroupCount = GroupCount(GroupCount::MAX);

    /// Most groups that a cluster is made with: its first nodes are few, and each of them has a log of every group.
    pub const CREATED_MAX: u16 = 1_024;

    /// Groups that a new cluster gets for each worker of the node that makes it: with three nodes two for each worker, so
    /// that when a node dies the two that a worker of it led can go to different nodes that are left. Each is a log that costs its
    /// price for every entry, whatever it holds: more of them are dearer, fewer leave workers idle. What a worker of any node is placed
    /// as goes by it, too.
    pub const PER_WORKER: u16 = 6;

    /// How many groups a cluster gets if nobody says: for so many workers of its first node.
    pub fn for_workers(workers: u16) -> GroupCount {
        let count = workers.max(1).saturating_mul(GroupCount::PER_WORKER);
        GroupCount(count.min(GroupCount::CREATED_MAX))
    }

    /// `None` unless `1..=4096`.
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
}

//! The groups of a cluster, and which partitions each hosts.
//!
//! ```text
//!   partitions    0   1   2   3   4   5   6   7   8   9
//!   as founded  |     0     |     1     |     2         |       contiguous ranges, lengths differ by at most one
//!   with more     0   0   3   1   1   4   2   2   2   3         groups 3 and 4 were added, and 2, 9 and 5 moved there
//! ```
//!
//! A cluster is founded with a number of groups that share its partitions. More are added as it grows: they host nothing at first, and
//! partitions move to them one by one. How often each has moved says which of two that name its host knows better.

use crate::{GroupCount, GroupId, PartitionCount, PartitionId, PartitionRange, Slot};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Who hosts a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Host {
    /// The group.
    pub group: GroupId,
    /// How often the partition has moved: 0 where it was founded. Whoever knows a higher number knows better.
    pub moves: u32,
}

/// Who hosts what.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Table {
    /// Of each partition.
    hosts: &'static [Host],
    /// The groups that host any or have hosted some, in order.
    hosting: &'static [GroupId],
}

/// Tables, each kept once and as long as the process lives: they are read by every command, without a count of who has them. What is known
/// changes with each partition that moves, so that there are about as many as moves that the process has seen, of 8 bytes for each
/// partition and 2 for each group: 2 KiB where there are 256 partitions.
struct Tables {
    hosts: BTreeSet<&'static [Host]>,
    hosting: BTreeSet<&'static [GroupId]>,
}

static TABLES: Mutex<Tables> = Mutex::new(Tables {
    hosts: BTreeSet::new(),
    hosting: BTreeSet::new(),
});

/// The slice that is kept of these.
fn kept_of<T: Ord>(kept: &mut BTreeSet<&'static [T]>, all: Vec<T>) -> &'static [T] {
    if let Some(found) = kept.get(all.as_slice()) {
        return found;
    }
    let found: &'static [T] = all.leak();
    kept.insert(found);
    found
}

/// The table that is kept of these hosts, where these groups have hosted something before.
fn kept(hosts: Vec<Host>, before: &[GroupId]) -> Table {
    let now = hosts.iter().map(|host| host.group);
    let hosting: BTreeSet<GroupId> = now.chain(before.iter().copied()).collect();
    // A thread that panicked here has changed nothing, or put in a table that is whole.
    let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
    Table {
        hosts: kept_of(&mut tables.hosts, hosts),
        hosting: kept_of(&mut tables.hosting, hosting.into_iter().collect()),
    }
}

impl Table {
    /// Tables are kept once, so that where they lie says whether they are the same.
    fn is(self, other: Table) -> bool {
        std::ptr::eq(self.hosts, other.hosts) && std::ptr::eq(self.hosting, other.hosting)
    }
}

/// See the file's header. A value: what one thread learns, others do not.
#[derive(Clone, Copy)]
pub struct Groups {
    count: GroupCount,
    founded: GroupCount,
    table: Table,
}

impl PartialEq for Groups {
    fn eq(&self, other: &Groups) -> bool {
        (self.count, self.founded) == (other.count, other.founded) && self.table.is(other.table)
    }
}

impl Eq for Groups {}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Groups");
        out.field("count", &self.get())
            .field("founded", &self.founded.get());
        out.field("partitions", &self.table.hosts.len());
        out.field("moved", &self.moved().collect::<Vec<_>>()).finish()
    }
}

impl Groups {
    /// So many groups that share so many partitions, as a cluster is founded; `None` if there is not one for each.
    pub fn new(count: GroupCount, partitions: PartitionCount) -> Option<Groups> {
        (count.get() <= partitions.get()).then(|| Groups::founded_with(count, partitions))
    }

    /// So many groups with partitions as a cluster gets them if nobody says, or one each.
    pub fn with_default_partitions(count: GroupCount) -> Groups {
        Groups::founded_with(count, PartitionCount(PartitionCount::DEFAULT.0.max(count.get())))
    }

    fn founded_with(count: GroupCount, partitions: PartitionCount) -> Groups {
        let host = |partition| Host {
            group: founding_host(count, partitions, partition),
            moves: 0,
        };
        Groups {
            count,
            founded: count,
            table: kept((0..partitions.0).map(host).collect(), &[]),
        }
    }

    /// With so many groups, of which those that are more host nothing as yet. Groups never become fewer, nor more than partitions.
    pub fn with_more(self, count: GroupCount) -> Groups {
        let most = GroupCount::new(count.get().min(self.partitions().get()));
        let most = most.expect("there is a partition, and no more of them than there can be groups");
        Groups {
            count: if most.get() > self.get() { most } else { self.count },
            ..self
        }
    }

    /// With a partition in this group after so many moves, unless more are known. What names a group that is not known, or no partition,
    /// changes nothing: it is heard again from whoever tells of the group.
    #[must_use]
    pub fn with_host(self, partition: PartitionId, group: GroupId, moves: u32) -> Groups {
        self.with_hosts([(partition, Host { group, moves })])
    }

    /// The same of several.
    #[must_use]
    pub fn with_hosts(self, newer: impl IntoIterator<Item = (PartitionId, Host)>) -> Groups {
        let mut changed: Option<Vec<Host>> = None;
        let mut hosting: Vec<GroupId> = Vec::new();
        for (partition, host) in newer {
            let hosts = changed.as_deref().unwrap_or(self.table.hosts);
            let known = hosts.get(usize::from(partition.0)).copied();
            let Some(known) = known.filter(|_| host.group.index() < usize::from(self.get())) else {
                continue;
            };
            if host.moves > known.moves {
                changed.get_or_insert_with(|| self.table.hosts.to_vec())[usize::from(partition.0)] = host;
            }
            if self.table.hosting.binary_search(&host.group).is_err() {
                hosting.push(host.group);
            }
        }
        if changed.is_none() && hosting.is_empty() {
            return self;
        }
        hosting.extend(self.table.hosting);
        let hosts = changed.unwrap_or_else(|| self.table.hosts.to_vec());
        Groups {
            table: kept(hosts, &hosting),
            ..self
        }
    }

    /// What is known here and there, of one cluster.
    ///
    /// # Panics
    /// If they were founded otherwise: that is another cluster.
    #[must_use]
    pub fn merged(self, other: Groups) -> Groups {
        assert_eq!(
            (self.founded, self.partitions()),
            (other.founded, other.partitions()),
            "a cluster was founded once"
        );
        if self.table.is(other.table) {
            return self.with_more(other.count);
        }
        let merged = self.with_more(other.count).with_hosts(other.moved());
        let is_known = |group: &GroupId| merged.table.hosting.binary_search(group).is_ok();
        if other.table.hosting.iter().all(is_known) {
            return merged;
        }
        let hosting = [merged.table.hosting, other.table.hosting].concat();
        Groups {
            table: kept(merged.table.hosts.to_vec(), &hosting),
            ..merged
        }
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

    /// How many there were at first.
    #[inline]
    pub fn founded(self) -> GroupCount {
        self.founded
    }

    /// How many there can ever be: one for each partition.
    pub fn most(self) -> GroupCount {
        self.with_more(GroupCount::LARGEST).count
    }

    /// How many partitions there are.
    #[inline]
    pub fn partitions(self) -> PartitionCount {
        PartitionCount(self.table.hosts.len() as u16)
    }

    /// The group that hosts the partition of `slot`.
    #[inline]
    pub fn group_of(self, slot: Slot) -> GroupId {
        self.host_of(self.partitions().partition_of(slot))
    }

    /// The group that hosts `partition`.
    ///
    /// # Panics
    /// If there is no such partition.
    #[inline]
    pub fn host_of(self, partition: PartitionId) -> GroupId {
        self.table.hosts[usize::from(partition.0)].group
    }

    /// How often `partition` has moved, as far as is known here.
    ///
    /// # Panics
    /// If there is no such partition.
    #[inline]
    pub fn moves_of(self, partition: PartitionId) -> u32 {
        self.table.hosts[usize::from(partition.0)].moves
    }

    /// Whether a partition has ever moved, as far as is known.
    pub fn has_moved(self) -> bool {
        self.moved().next().is_some()
    }

    /// The partitions that have ever moved, and where they are now. One of them may be back where it was founded.
    pub fn moved(self) -> impl Iterator<Item = (PartitionId, Host)> {
        let hosts = (0..).map(PartitionId).zip(self.table.hosts.iter().copied());
        hosts.filter(|(_, host)| host.moves > 0)
    }

    /// The partitions that `group` hosts, in order; there may be none. It looks at all.
    pub fn partitions_of(self, group: GroupId) -> impl Iterator<Item = PartitionId> {
        let hosts = (0..).map(PartitionId).zip(self.table.hosts);
        hosts.filter_map(move |(partition, host)| (host.group == group).then_some(partition))
    }

    /// The partitions with which `group` was founded: what its keyspace is made with. None if the group was added.
    pub fn founded_range(self, group: GroupId) -> PartitionRange {
        let count = self.partitions();
        if group.index() >= usize::from(self.founded.get()) {
            return PartitionRange::none(count);
        }
        PartitionRange::between(
            count,
            self.start_of(group.number()),
            self.start_of(group.number() + 1),
        )
    }

    /// The first partition with which the group of this number was founded.
    fn start_of(self, group: u16) -> u16 {
        (u32::from(group) * u32::from(self.partitions().0)).div_ceil(u32::from(self.founded.get())) as u16
    }

    /// All slots in order, as runs of those that lie in one group: the group, and its first and last slot there.
    pub fn runs(self) -> impl Iterator<Item = (GroupId, Slot, Slot)> {
        let slot =
            |number| Slot::new(number).expect("a partition has at least one slot, and none beyond the last");
        let count = self.partitions();
        let mut next = 0;
        std::iter::from_fn(move || {
            let (first, group) = (next, self.table.hosts.get(usize::from(next))?.group);
            let its = self.table.hosts[usize::from(first)..].iter();
            next += its.take_while(|host| host.group == group).count() as u16;
            Some((group, slot(count.start_of(first)), slot(count.start_of(next) - 1)))
        })
    }

    /// The slots of `group`, as the first and the last of each run; there may be none.
    pub fn slots_of(self, group: GroupId) -> impl Iterator<Item = (Slot, Slot)> {
        let runs = self.runs();
        runs.filter_map(move |(host, first, last)| (host == group).then_some((first, last)))
    }

    /// The worker that has `group`, of a node with so many, for as long as the node runs, whatever is added.
    ///
    /// Founded groups that follow one another are together, so that `SCAN` goes through them without a hop between workers. Those that were
    /// added are spread by a van der Corput sequence: however many there are, each worker has about its share of them. Both are a place
    /// between 0 and 1, of which each worker has its part.
    #[inline]
    pub fn worker_of(self, group: GroupId, workers: u16) -> u16 {
        let founded = usize::from(self.founded.get());
        // `group` < 2^12.
        match group.index().checked_sub(founded) {
            None => (group.index() * usize::from(workers) / founded) as u16,
            Some(added) => {
                let place = u32::from((added as u16).reverse_bits());
                ((place * u32::from(workers)) >> u16::BITS) as u16
            }
        }
    }

    /// The workers of another node, which has `others`, with which worker `worker` of a node that has `workers` has links: those whose parts
    /// of all groups overlap with its own, so that none is missing whatever is added. If both have as many it is the one of the same
    /// number; at least one it is always, and of two nodes with `a` and `b` workers there are at most `a + b - 1`.
    pub fn counterparts(self, worker: u16, workers: u16, others: u16) -> impl Iterator<Item = u16> {
        let (worker, ones, others) = (u32::from(worker), u32::from(workers), u32::from(others));
        let first = worker * others / ones;
        let past = ((worker + 1) * others).div_ceil(ones);
        (first..past).map(|other| other as u16)
    }

    /// As [`counterparts`](Groups::counterparts), for a node of a build that knows of no groups but those that were founded: the workers that
    /// have one of them together have a link, and a worker without groups has one all the same, for what concerns nodes.
    pub fn founded_counterparts(self, worker: u16, workers: u16, others: u16) -> impl Iterator<Item = u16> {
        let range = match workers == others {
            true => worker..worker + 1,
            false => 0..others,
        };
        range
            .filter(move |other| workers == others || self.share_founded((worker, workers), (*other, others)))
    }

    /// Those of one of them: `knows_more` says whether the other node's build knows of groups that are added.
    pub fn linked_workers(
        self,
        (worker, workers): (u16, u16),
        others: u16,
        knows_more: bool,
    ) -> impl Iterator<Item = u16> {
        let all = knows_more.then(|| self.counterparts(worker, workers, others));
        let founded = (!knows_more).then(|| self.founded_counterparts(worker, workers, others));
        all.into_iter().flatten().chain(founded.into_iter().flatten())
    }

    /// Whether two workers of two nodes, each a number and how many its node has, have one of the founded groups together, or are to have a
    /// link though one of them has none.
    fn share_founded(self, (one, ones): (u16, u16), (other, others): (u16, u16)) -> bool {
        // The groups of a worker are from here on, up to those of the next one.
        let first = |worker: u16, workers: u16| {
            (usize::from(worker) * usize::from(self.founded.get())).div_ceil(usize::from(workers))
        };
        let groups = |worker, workers| first(worker, workers)..first(worker + 1, workers);
        let (its, theirs) = (groups(one, ones), groups(other, others));
        let scaled =
            |worker: u16, from: u16, to: u16| usize::from(worker) * usize::from(to) / usize::from(from);
        its.start.max(theirs.start) < its.end.min(theirs.end)
            || its.is_empty() && scaled(one, ones, others) == usize::from(other)
            || theirs.is_empty() && scaled(other, others, ones) == usize::from(one)
    }

    /// All groups in order, also those that host nothing.
    pub fn iter(self) -> impl Iterator<Item = GroupId> {
        self.count.iter()
    }

    /// The groups that host partitions or have done so, as far as is known, in order: those that commands on the whole keyspace concern.
    /// If another one hosts some by now, one of these says so: what is given away is remembered (point 8 of
    /// `docs/decisions/0074-partitions-move.md`).
    #[inline]
    pub fn hosting(self) -> &'static [GroupId] {
        self.table.hosting
    }
}

/// The group in which a partition is founded.
fn founding_host(count: GroupCount, partitions: PartitionCount, partition: u16) -> GroupId {
    // partition < 2^12 and count <= 2^12.
    let group = u32::from(partition) * u32::from(count.get()) / u32::from(partitions.get());
    GroupId::new(group as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SLOT_COUNT;

    fn groups(count: u16, partitions: u16) -> Option<Groups> {
        Groups::new(
            GroupCount::new(count).expect("a valid count"),
            PartitionCount::new(partitions).expect("a valid count"),
        )
    }

    fn more(groups: Groups, count: u16) -> Groups {
        groups.with_more(GroupCount::new(count).expect("a valid count"))
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
                let range = groups.founded_range(here.0);
                assert_eq!(range.index(partition), Some(range.index_of(slot)));
                assert_eq!(range.at(range.index_of(slot)), partition);
                last = here;
            }
            assert_even(&slots_in);
            assert_even(&hosted);
            let mut next = 0;
            for (group, (named, first, last)) in groups.iter().zip(groups.runs()) {
                assert_eq!(group, named);
                assert!(groups.slots_of(group).eq([(first, last)]));
                assert_eq!(first.number(), next);
                assert_eq!((groups.group_of(first), groups.group_of(last)), (group, group));
                let range = groups.founded_range(group);
                assert_eq!(range.len() as u32, hosted[group.index()]);
                assert!(
                    groups
                        .partitions_of(group)
                        .eq((0..range.len() as u16).map(|at| range.at(at)))
                );
                next = last.number() + 1;
            }
            assert_eq!(next, SLOT_COUNT);
            assert_eq!(groups.runs().count(), usize::from(count));
        }
    }

    #[test]
    fn every_founded_group_hosts_a_partition_at_least() {
        assert!(groups(5, 4).is_none());
        assert!(PartitionCount::new(0).is_none() && PartitionCount::new(4_097).is_none());
        let many = Groups::with_default_partitions(GroupCount::new(1_000).expect("a valid count"));
        assert_eq!(many.partitions().get(), 1_000);
    }

    #[test]
    fn groups_that_are_added_host_nothing_until_partitions_move_there() {
        let founded = groups(3, 10).expect("no more groups than partitions");
        let five = more(founded, 5);
        assert_eq!(
            (five.get(), five.founded(), five.most().get()),
            (5, founded.count(), 10)
        );
        assert_eq!(more(five, 4), five, "never fewer");
        assert_eq!(more(five, 4_096).get(), 10, "no more than partitions");
        for added in [3, 4].map(GroupId::new) {
            assert_eq!(five.partitions_of(added).count(), 0);
            assert_eq!(five.slots_of(added).count(), 0);
            assert!(five.founded_range(added).is_empty());
        }
        let moved = [(2, 3), (5, 4), (9, 3)]
            .into_iter()
            .fold(five, |groups, (partition, group)| {
                groups.with_host(PartitionId(partition), GroupId::new(group), 1)
            });
        let hosts: Vec<u16> = (0..10)
            .map(|at| moved.host_of(PartitionId(at)).number())
            .collect();
        assert_eq!(hosts, [0, 0, 3, 0, 1, 4, 1, 2, 2, 3]);
        assert!(moved.partitions_of(GroupId::new(3)).eq([2, 9].map(PartitionId)));
        assert_eq!(moved.hosting(), [0, 1, 2, 3, 4].map(GroupId::new));
        assert_eq!(
            five.hosting(),
            [0, 1, 2].map(GroupId::new),
            "the added host nothing yet"
        );
        assert_eq!(
            moved.founded_range(GroupId::new(0)),
            founded.founded_range(GroupId::new(0))
        );
        // Runs are all slots, in order, each as long as it can be.
        let (mut next, mut last) = (0, None);
        for (group, first, to) in moved.runs() {
            assert_eq!(first.number(), next);
            assert_ne!(last, Some(group), "one run");
            assert!((first.number()..=to.number()).all(|at| moved.group_of(Slot::new(at).unwrap()) == group));
            (next, last) = (to.number() + 1, Some(group));
        }
        assert_eq!((next, moved.runs().count()), (SLOT_COUNT, 8));
        assert_eq!(moved.slots_of(GroupId::new(0)).count(), 2);
        let named: Vec<u16> = moved.moved().map(|(partition, _)| partition.0).collect();
        assert_eq!(named, [2, 5, 9]);
    }

    #[test]
    fn whoever_knows_of_more_moves_knows_better_and_two_that_know_something_know_it_together() {
        let groups = more(groups(2, 8).expect("no more groups than partitions"), 4);
        let host = |groups: Groups, at| {
            (
                groups.host_of(PartitionId(at)).number(),
                groups.moves_of(PartitionId(at)),
            )
        };
        let once = groups.with_host(PartitionId(0), GroupId::new(2), 1);
        assert_eq!((host(groups, 0), host(once, 0)), ((0, 0), (2, 1)));
        let twice = once.with_host(PartitionId(0), GroupId::new(0), 2);
        assert_eq!(
            host(twice, 0),
            (0, 2),
            "it is back, and that is known to be newer"
        );
        assert_eq!(twice.with_host(PartitionId(0), GroupId::new(2), 1), twice);
        let older = twice.with_host(PartitionId(0), GroupId::new(3), 2);
        assert_eq!(host(older, 0), (0, 2), "no newer");
        assert!(twice.hosting() == [0, 1, 2].map(GroupId::new) && older.hosting().contains(&GroupId::new(3)));
        assert_eq!(
            once.with_host(PartitionId(8), GroupId::new(1), 1),
            once,
            "no partition"
        );
        assert_eq!(
            once.with_host(PartitionId(1), GroupId::new(4), 1),
            once,
            "no group"
        );
        let other = groups.with_host(PartitionId(7), GroupId::new(3), 1);
        for (one, two) in [(twice, other), (other, twice)] {
            let both = one.merged(two);
            assert_eq!((host(both, 0), host(both, 7)), ((0, 2), (3, 1)));
            assert_eq!(both, twice.with_host(PartitionId(7), GroupId::new(3), 1));
        }
        assert_eq!(more(once, 6).merged(groups).get(), 6);
        assert_eq!(groups.merged(more(once, 6)), more(once, 6));
    }

    #[test]
    fn a_table_is_kept_once() {
        let groups = more(groups(2, 8).expect("no more groups than partitions"), 3);
        let hosts = [(PartitionId(1), 1), (PartitionId(6), 1)].map(|(partition, moves)| {
            let group = GroupId::new(2);
            (partition, Host { group, moves })
        });
        let one = groups.with_hosts(hosts);
        let other = groups.with_hosts(hosts.into_iter().rev());
        assert!(one.table.is(other.table) && one == other);
        assert_ne!(one, groups);
    }

    /// What is asked of links, of groups of which some were added.
    fn assert_linked(groups: Groups, links: impl Fn(u16, u16, u16) -> Vec<u16>) {
        for ones in 1..=16_u16 {
            for others in 1..=16_u16 {
                let mut all = 0;
                for one in 0..ones {
                    let counterparts = links(one, ones, others);
                    assert!(!counterparts.is_empty(), "{groups:?}: {one} of {ones}, {others}");
                    all += counterparts.len();
                    for other in counterparts {
                        assert!(links(other, others, ones).contains(&one), "known to both ends");
                    }
                }
                for group in groups.iter() {
                    let (one, other) = (groups.worker_of(group, ones), groups.worker_of(group, others));
                    assert!(
                        links(one, ones, others).contains(&other),
                        "{group:?} of {groups:?}"
                    );
                }
                let few = usize::from(ones + others - 1);
                assert!(
                    all <= few,
                    "{groups:?}: {all} links of {ones} and {others} workers"
                );
                if ones == others {
                    assert_eq!(all, usize::from(ones));
                }
            }
        }
    }

    #[test]
    fn workers_that_share_a_group_have_a_link_and_every_worker_has_one() {
        for count in [1, 2, 3, 12, 13, 96] {
            let founded = Groups::with_default_partitions(GroupCount::new(count).unwrap());
            let links = |from, froms, to| founded.founded_counterparts(from, froms, to).collect::<Vec<_>>();
            assert_linked(founded, links);
            for added in [0, 1, 2, 7, 160] {
                let groups = more(founded, count + added);
                let links = |from, froms, to| groups.counterparts(from, froms, to).collect::<Vec<_>>();
                assert_linked(groups, links);
            }
        }
    }

    #[test]
    fn links_are_those_of_a_build_that_knows_only_founded_groups_and_more() {
        for count in [1, 2, 3, 12, 13, 96] {
            let groups = Groups::with_default_partitions(GroupCount::new(count).unwrap());
            for (ones, others) in (1..=16).flat_map(|ones| (1..=16).map(move |others| (ones, others))) {
                for one in 0..ones {
                    let all: Vec<u16> = groups.counterparts(one, ones, others).collect();
                    let mut founded = groups.founded_counterparts(one, ones, others);
                    assert!(
                        founded.all(|other| all.contains(&other)),
                        "{one} of {ones}, {others}"
                    );
                }
            }
        }
    }

    #[test]
    fn groups_stay_with_their_workers_and_those_that_are_added_are_spread_evenly() {
        for workers in [1, 2, 3, 4, 5, 7, 16, 64] {
            let founded = Groups::with_default_partitions(GroupCount::new(6).unwrap());
            let mut before: Vec<u16> = founded
                .iter()
                .map(|group| founded.worker_of(group, workers))
                .collect();
            let mut added = vec![0_u32; usize::from(workers)];
            for count in 7..=founded.most().get() {
                let groups = more(founded, count);
                let now: Vec<u16> = groups
                    .iter()
                    .map(|group| groups.worker_of(group, workers))
                    .collect();
                assert_eq!(now[..before.len()], before, "whatever is added");
                let newest = *now.last().expect("there are some");
                assert!(newest < workers);
                added[usize::from(newest)] += 1;
                let (least, most) = (added.iter().min().unwrap(), added.iter().max().unwrap());
                // The discrepancy of the sequence grows as the logarithm of its length.
                let bound = (count - 6).ilog2() + 1;
                assert!(
                    most - least <= bound,
                    "{count} groups of {workers} workers: {added:?}"
                );
                before = now;
            }
        }
    }
}

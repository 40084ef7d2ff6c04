//! How far replicas are on disk, for `WAITAOF`.
//!
//! Every worker of every node notes what its replicas have applied, has its log synced, and tells what it noted. What a replica has applied
//! stands in its log, as every entry before it does, and nothing of that can be another one: it is committed. So whoever has applied as much
//! as a leader under a lease, who knows of all that was acknowledged, has all of it on disk.
//!
//! In the answer of a node each replica is `group, generation, applied, leads`, all of them integers.

use crate::context::Context;
use ids::{GroupId, Groups, NodeId};

/// A replica whose log is synced up to what it had applied when the sync was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SyncedReplica {
    /// Its group.
    pub(crate) group: GroupId,
    /// How many times that has begun anew.
    generation: u64,
    /// The last entry that it had applied.
    applied: u64,
    /// Whether it led its group under a lease then.
    leads: bool,
}

impl SyncedReplica {
    /// What the replicas of this worker have applied. None of it is known to be synced yet.
    pub(crate) fn all_applied(cx: &Context) -> Vec<SyncedReplica> {
        // The turn may have begun before what is asked about was acknowledged elsewhere: the process may have stood still since.
        let now = cx.now.max((cx.shared.hooks.monotonic)());
        let replicas = cx.local.replicas.iter();
        let members = replicas.filter_map(|replica| Some((replica.member()?, replica.state().generation())));
        let all = members.map(|(member, generation)| SyncedReplica {
            group: member.group(),
            generation,
            applied: member.applied().0,
            leads: member.may_read(now),
        });
        all.collect()
    }

    pub(crate) fn numbers(&self) -> [i64; 4] {
        let group = self.group.number().into();
        [
            group,
            self.generation as i64,
            self.applied as i64,
            self.leads.into(),
        ]
    }

    /// From the numbers of an answer; of what is none, nothing. Total.
    pub(crate) fn from_numbers(numbers: &[i64]) -> Vec<SyncedReplica> {
        let all = numbers.chunks_exact(4).filter_map(|numbers| {
            Some(SyncedReplica {
                group: GroupId::new(numbers[0].try_into().ok()?),
                generation: numbers[1].try_into().ok()?,
                applied: numbers[2].try_into().ok()?,
                leads: numbers[3] == 1,
            })
        });
        all.collect()
    }

    /// How many replicas have on disk whatever was acknowledged before the sync was asked for: here (0 or 1), and on other nodes. Of the group
    /// of which it is fewest.
    pub(crate) fn count(groups: Groups, all: &[(Option<NodeId>, SyncedReplica)]) -> SyncedCounts {
        let of_group = |group: GroupId| {
            let its = || all.iter().filter(move |(_, replica)| replica.group == group);
            // A leader of a generation that has ended has no lease.
            let leaders = its()
                .filter(|(_, replica)| replica.leads)
                .map(|(_, leader)| leader);
            let Some(leader) = leaders.max_by_key(|leader| (leader.generation, leader.applied)) else {
                return SyncedCounts::default();
            };
            let has_all = |replica: &SyncedReplica| {
                replica.generation == leader.generation && replica.applied >= leader.applied
            };
            let complete = || its().filter(|(_, replica)| has_all(replica));
            SyncedCounts {
                here: complete().filter(|(node, _)| node.is_none()).count() as i64,
                elsewhere: complete().filter(|(node, _)| node.is_some()).count() as i64,
            }
        };
        let counts = (0..groups.get()).map(|group| of_group(GroupId::new(group)));
        let fewest = counts.reduce(|one, other| SyncedCounts {
            here: one.here.min(other.here),
            elsewhere: one.elsewhere.min(other.elsewhere),
        });
        fewest.unwrap_or_default()
    }
}

/// How many replicas of every group have on disk what was acknowledged, at least.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct SyncedCounts {
    /// On this node: 0 or 1.
    pub(crate) here: i64,
    /// On others.
    pub(crate) elsewhere: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::GroupCount;

    fn replica(group: u16, generation: u64, applied: u64, leads: bool) -> SyncedReplica {
        SyncedReplica {
            group: GroupId::new(group),
            generation,
            applied,
            leads,
        }
    }

    fn count(all: &[(Option<u64>, SyncedReplica)]) -> (i64, i64) {
        let groups = Groups::with_default_partitions(GroupCount::new(2).expect("in range"));
        let all: Vec<_> = all
            .iter()
            .map(|(node, replica)| (node.map(NodeId), *replica))
            .collect();
        let counts = SyncedReplica::count(groups, &all);
        (counts.here, counts.elsewhere)
    }

    #[test]
    fn who_has_applied_as_much_as_the_leader_counts_and_the_worst_group_decides() {
        let mut all = vec![
            (None, replica(0, 0, 7, true)),
            (Some(2), replica(0, 0, 7, false)),
            (Some(3), replica(0, 0, 9, false)),
            (None, replica(1, 2, 5, false)),
            (Some(2), replica(1, 2, 5, true)),
            (Some(3), replica(1, 2, 6, false)),
        ];
        assert_eq!(count(&all), (1, 2));
        all[3].1.applied = 4;
        assert_eq!(count(&all), (0, 2), "it lags here");
        all[5].1.generation = 1;
        assert_eq!(count(&all), (0, 1), "it belongs to the group no more");
        all[4].1.leads = false;
        assert_eq!(count(&all), (0, 0), "nobody knows what was acknowledged");
        assert_eq!(count(&[]), (0, 0));
    }

    #[test]
    fn replicas_are_numbers_and_back() {
        let all = [replica(3, 1, 9, true), replica(4, 0, 0, false)];
        let numbers: Vec<i64> = all.iter().flat_map(SyncedReplica::numbers).collect();
        assert_eq!(SyncedReplica::from_numbers(&numbers), all);
        assert_eq!(SyncedReplica::from_numbers(&[-1, 0, 0, 0, 1]), []);
    }
}

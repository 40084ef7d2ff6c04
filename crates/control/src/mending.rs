//! Which partitions are hosted by no group, by several, or by one that not all can find; and what mends that.
//!
//! ```text
//!   each group's leader: what is here, what has gone from here --> is each partition hosted by one group, after as many moves as anybody knows of?
//!     nobody hosts it              the group that it was given to last has it from now on, empty, after one move more
//!     the count is too low,        the group that hosts it after most moves
//!     or two have the same         counts one move more than anybody knows of
//!     others host it too           each of them lets it go, to that group
//! ```
//!
//! That comes to be when a group begins anew without what it had acknowledged: it has lost that a partition came or went. What is lost thereby is lost,
//! but nobody could write to the partition any more, or two could, or some asked a group for ever that a lost move had led them to.
//!
//! Moves go on meanwhile, and leaders report at different times, so that what is seen here may never have been. Two things make it safe:
//!
//! 1. **Who has lost nothing changes nothing.** An order says exactly what the group knows of the partition, and is judged by that in the group's log
//!    (`keyspace/hosting/mending.rs`). That a group has given a partition away, or hosts it after so many moves, follows from votes of both
//!    groups of each move, which stand in their logs before the order does. A stale report, or a slow leader, makes an order that is refused.
//! 2. **What was lost is seen whole.** All groups are led, in the generations that the state knows, and say the same for longer than a report lasts
//!    ([`UNCHANGED_FOR`]): each has said it again since. So a third group that had got the partition from one that has begun anew was heard.

use crate::group::GroupRef;
use crate::observations::Observations;
use crate::state::State;
use crate::wire::wire_struct;
use ids::{GroupId, Groups, Host, PartitionId, SemanticsVersion, Whereabouts};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// For how long all must say the same: longer than a report is believed (`meta/leader_state.rs`).
pub(crate) const UNCHANGED_FOR: Duration = Duration::from_secs(4);

/// What the leader of a group is asked for: that the group knows something else of a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mend {
    /// Which group.
    pub group: GroupId,
    /// Which partition.
    pub partition: PartitionId,
    /// What the group knows of it. If it knows anything else, nothing is done.
    pub found: Whereabouts,
    /// What it is to know.
    pub becomes: Whereabouts,
}

wire_struct!(Mend {
    group,
    partition,
    found,
    becomes
});

/// What would mend the partitions that are to be mended, as it looks just now. Nothing as long as some group is not heard.
pub(crate) fn mends(state: &State, observations: &Observations) -> Vec<Mend> {
    if state.semantics() < SemanticsVersion::PARTITIONS_MENDED {
        return Vec::new();
    }
    let Some(groups) = state.key_groups() else {
        return Vec::new();
    };
    // Of a partition that never moved, as far as anybody knows, its group has nothing to say.
    let mut known: BTreeMap<PartitionId, BTreeMap<GroupId, Whereabouts>> = BTreeMap::new();
    for group in groups.iter() {
        let Some(all) = known_by(state, observations, group) else {
            return Vec::new();
        };
        for (partition, whereabouts) in all {
            known.entry(partition).or_default().insert(group, whereabouts);
        }
    }
    let in_table = groups.moved().map(|(partition, _)| partition);
    for partition in in_table.chain(observations.ahead.keys().copied()) {
        known.entry(partition).or_default();
    }
    known.retain(|partition, _| partition.number() < groups.partitions().get());
    for (&partition, known) in &mut known {
        let is_founder = |group: &GroupId| groups.founded_range(*group).index(partition).is_some();
        if let Some(founder) = groups.iter().find(is_founder) {
            known.entry(founder).or_insert(Whereabouts::Here(0));
        }
    }
    let ahead = |partition| observations.ahead.get(partition).copied().unwrap_or_default();
    known
        .iter()
        .flat_map(|(partition, known)| mends_of(groups, *partition, known, ahead(partition)))
        .collect()
}

/// What a group knows of partitions beside what it was founded with; `None` if its present generation is not heard.
fn known_by(
    state: &State,
    observations: &Observations,
    group: GroupId,
) -> Option<Vec<(PartitionId, Whereabouts)>> {
    let name = GroupRef::Data(group);
    let (found, seen) = (state.groups().get(&name)?, observations.groups.get(&name)?);
    if found.is_over() || found.is_unheard || seen.report.generation != found.generation {
        return None;
    }
    let given = observations.given.get(&name)?.iter();
    let gone = given.map(|(partition, host)| (*partition, Whereabouts::Gone(*host)));
    let here = seen.hosted.iter();
    let here = here.map(|(partition, moves)| (*partition, Whereabouts::Here(*moves)));
    Some(gone.chain(here).collect())
}

/// What would mend one partition, of which these groups know something, and others that it has moved so often at least.
fn mends_of(
    groups: Groups,
    partition: PartitionId,
    known: &BTreeMap<GroupId, Whereabouts>,
    ahead: u32,
) -> Vec<Mend> {
    let in_table = Host {
        group: groups.host_of(partition),
        moves: groups.moves_of(partition),
    };
    let claims = || known.iter().filter_map(|(group, known)| known.host(*group));
    let most = claims().map(|host| host.moves).max();
    let most = most.unwrap_or_default().max(in_table.moves).max(ahead);
    // There is no room for one more. It could never come to that.
    let Some(more) = most.checked_add(1) else {
        return Vec::new();
    };
    let of_group = |group: GroupId| known.get(&group).copied().unwrap_or(Whereabouts::Unknown);
    let mend = |group: GroupId, becomes| Mend {
        group,
        partition,
        found: of_group(group),
        becomes,
    };
    let here = || known.iter().filter(|(_, known)| known.is_here());
    let rank = |host: Host| (host.moves, host.group == in_table.group, Reverse(host.group));
    let best = here()
        .filter_map(|(group, known)| known.host(*group))
        .max_by_key(|host| rank(*host));
    let Some(best) = best else {
        // Whoever it was given to had voted for that, and has lost it; or it was reported there once.
        let claims = claims().chain([in_table]);
        let last = claims.max_by_key(|host| rank(*host)).unwrap_or(in_table);
        return vec![mend(last.group, Whereabouts::Here(more))];
    };
    let is_alone = here()
        .filter(|(_, known)| known.moves() == Some(best.moves))
        .count()
        == 1;
    let is_known = best.moves > in_table.moves || best == in_table;
    if best.moves < most || !is_alone || !is_known {
        return vec![mend(best.group, Whereabouts::Here(more))];
    }
    if best != in_table {
        // It is about to be known.
        return Vec::new();
    }
    let others = here()
        .map(|(group, _)| *group)
        .filter(|group| *group != best.group);
    others.map(|group| mend(group, Whereabouts::Gone(best))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Whereabouts::{Gone, Here, Unknown};
    use ids::{GroupCount, PartitionCount};

    fn partition() -> PartitionId {
        PartitionId::new(0)
    }

    fn host(group: u16, moves: u32) -> Host {
        let group = GroupId::new(group);
        Host { group, moves }
    }

    /// Three groups, and one that was added; the partition is the first group's, unless `table` knows better.
    fn groups(table: Host) -> Groups {
        let count = |count| GroupCount::new(count).expect("a valid count");
        let partitions = PartitionCount::new(12).expect("a valid count");
        let groups = Groups::new(count(3), partitions).expect("no more groups than partitions");
        groups
            .with_more(count(4))
            .with_host(partition(), table.group, table.moves)
    }

    fn by_group(known: [Whereabouts; 4]) -> BTreeMap<GroupId, Whereabouts> {
        (0..).map(GroupId::new).zip(known).collect()
    }

    /// What is mended where the groups know this: which group comes to know what.
    fn mended(table: Host, known: [Whereabouts; 4], ahead: u32) -> Vec<(u16, Whereabouts)> {
        let known = by_group(known);
        let mends = mends_of(groups(table), partition(), &known, ahead);
        mends
            .into_iter()
            .map(|mend| {
                assert_eq!(mend.found, known[&mend.group]);
                (mend.group.number(), mend.becomes)
            })
            .collect()
    }

    #[test]
    fn nothing_is_mended_where_one_group_hosts_a_partition_after_most_moves() {
        let gone = Gone(host(1, 1));
        assert_eq!(mended(host(0, 0), [Here(0), Unknown, Unknown, Unknown], 0), []);
        assert_eq!(mended(host(1, 1), [gone, Here(1), Unknown, Unknown], 0), []);
        assert_eq!(
            mended(host(0, 0), [gone, Here(1), Unknown, Unknown], 1),
            [],
            "soon it is known"
        );
    }

    #[test]
    fn whoever_it_was_given_to_last_begins_it_anew_if_nobody_hosts_it() {
        let gone = Gone(host(1, 1));
        let mends = mended(host(0, 0), [gone, Unknown, Unknown, Unknown], 0);
        assert_eq!(mends, [(1, Here(2))]);
        // It was reported elsewhere after as many, or more.
        assert_eq!(
            mended(host(3, 1), [gone, Unknown, Unknown, Unknown], 0),
            [(3, Here(2))]
        );
        assert_eq!(
            mended(host(3, 2), [gone, Unknown, Unknown, Unknown], 0),
            [(3, Here(3))]
        );
        let back = Gone(host(2, 2));
        assert_eq!(
            mended(host(1, 1), [gone, back, Unknown, Unknown], 7),
            [(2, Here(8))]
        );
        assert_eq!(
            mended(host(1, 1), [gone, back, Gone(host(1, 3)), Unknown], 0),
            [(1, Here(4))]
        );
    }

    #[test]
    fn a_host_that_others_would_not_find_counts_one_move_more() {
        // Both groups have lost the move; or it was reported; or a gateway has heard of it.
        let as_before = [Here(0), Unknown, Unknown, Unknown];
        assert_eq!(mended(host(1, 1), as_before, 0), [(0, Here(2))]);
        assert_eq!(mended(host(0, 0), as_before, 3), [(0, Here(4))]);
        // Another one has given it to a third, which lost it.
        let known = [Here(0), Unknown, Gone(host(3, 5)), Unknown];
        assert_eq!(mended(host(0, 0), known, 0), [(0, Here(6))]);
    }

    #[test]
    fn of_several_that_host_it_those_let_it_go_that_have_it_after_fewer_moves() {
        let here = [Here(0), Here(1), Here(0), Unknown];
        assert_eq!(mended(host(0, 0), here, 0), [], "it is not reported yet");
        let gone = Gone(host(1, 1));
        assert_eq!(mended(host(1, 1), here, 0), [(0, gone), (2, gone)]);
        // It moved twice from one place.
        let twice = [Gone(host(1, 1)), Here(1), Here(1), Unknown];
        assert_eq!(mended(host(2, 1), twice, 0), [(2, Here(2))]);
        assert_eq!(mended(host(3, 1), twice, 0), [(1, Here(2))]);
        // First the one that has it after most must be found.
        assert_eq!(mended(host(3, 1), here, 0), [(1, Here(2))]);
    }

    #[test]
    fn in_the_end_one_group_hosts_it_whatever_each_has_lost() {
        let mut prng = ids::Prng::new(7);
        for round in 0..20_000 {
            let mut any = |below: u64| prng.below(below);
            let known = [(); 4].map(|()| match any(3) {
                0 => Unknown,
                1 => Here(any(4) as u32),
                _ => Gone(host(any(4) as u16, 1 + any(4) as u32)),
            });
            let (mut table, mut known) = (groups(host(any(4) as u16, any(4) as u32)), by_group(known));
            let ahead = any(6) as u32;
            // What a group has given to itself there never is.
            for (group, known) in &mut known {
                if matches!(known, Gone(host) if host.group == *group) {
                    *known = Unknown;
                }
            }
            let most = known
                .values()
                .filter_map(|known| known.moves())
                .max()
                .unwrap_or_default();
            for step in 0.. {
                assert!(step < 8, "{round}: it ends: {known:?}");
                let mut mends = mends_of(table, partition(), &known, ahead);
                mends.retain(|mend| {
                    assert!(mend.becomes.moves() > mend.found.moves(), "{mend:?}");
                    known[&mend.group] == mend.found
                });
                let reported = known.iter().filter(|(_, known)| known.is_here());
                let reported = reported.filter_map(|(group, known)| known.host(*group));
                let after = table.with_hosts(reported.map(|host| (partition(), host)));
                if mends.is_empty() && after == table {
                    break;
                }
                for mend in mends {
                    known.insert(mend.group, mend.becomes);
                }
                table = after;
            }
            let here: Vec<Host> = known
                .iter()
                .filter(|(_, known)| known.is_here())
                .filter_map(|(group, known)| known.host(*group))
                .collect();
            let found = host(table.host_of(partition()).number(), table.moves_of(partition()));
            assert_eq!(here, [found], "{round}: {known:?}");
            assert!(found.moves >= most.max(ahead), "{round}: {known:?}");
        }
    }
}

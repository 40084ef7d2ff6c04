//! How many groups a cluster is to have, and which partitions are to move so that each group hosts about as many as any other.
//!
//! ```text
//!   nodes that stay, by weight --> so many groups --more than there are--> AddGroups --placed and filled--> WantPartitions, a few at a time
//!                                                  leaders: it is here now --> PartitionsMoved --> the next few
//! ```
//!
//! Groups are added so that there are as many for each node as there are with three nodes: by default, two for each worker. They never become fewer. A
//! partition goes only from and to groups that have all their replicas, and of each group one at a time: states that are on their way to
//! somebody begin anew when one comes or goes.

use crate::command::MetaCommand;
use crate::group::GroupRef;
use crate::node::WEIGHT_PERCENT;
use crate::observations::Observations;
use crate::reconciler::Pace;
use crate::state::State;
use ids::{GroupCount, GroupId, Groups, Host, NodeId, PartitionId, SemanticsVersion};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A cluster is founded with as many groups as so many nodes are to have: with three it can bear a loss. By default, each of their workers leads
/// two then: when a node dies, these can go to different nodes.
const FOUNDED_FOR: u64 = 3;

/// What leaders say that they host, and that is newer than what is known.
pub(crate) fn moved(state: &State, observations: &Observations) -> Option<MetaCommand> {
    if state.semantics() < SemanticsVersion::PARTITIONS_MOVE {
        return None;
    }
    let groups = state.key_groups()?;
    let mut hosts: Vec<(PartitionId, Host)> = Vec::new();
    for (name, seen) in &observations.groups {
        let GroupRef::Data(group) = *name else { continue };
        let known = state.groups().get(name);
        if known.is_none_or(|known| seen.report.generation < known.generation) {
            continue;
        }
        let is_newer = |&(partition, moves): &(PartitionId, u32)| {
            partition.number() < groups.partitions().get() && moves > groups.moves_of(partition)
        };
        let newer = seen.hosted.iter().copied().filter(is_newer);
        hosts.extend(newer.map(|(partition, moves)| (partition, Host { group, moves })));
    }
    (!hosts.is_empty()).then_some(MetaCommand::PartitionsMoved { hosts })
}

/// The next step of the growth, while everything else is where it is to be.
pub(crate) fn growth(state: &State, observations: &Observations, pace: &Pace) -> Option<MetaCommand> {
    if state.semantics() < SemanticsVersion::PARTITIONS_MOVE || state.pause().is_some() {
        return None;
    }
    let groups = state.key_groups()?;
    let count = wanted(state, groups);
    if count.get() > groups.get() {
        // What is still to be filled comes first. And each begins on some node, which is to be there.
        let may_add =
            state.moves_left() == 0 && state.staying().all(|node| is_heard(node, observations, pace));
        return may_add.then_some(MetaCommand::AddGroups { count });
    }
    // One that was never reported may not have begun.
    let is_whole = |group: GroupId| {
        let group = state.groups().get(&GroupRef::Data(group));
        group.is_some_and(|group| {
            group.index > 0 && group.moves_left() == 0 && !group.is_over() && !group.is_unheard
        })
    };
    let wishes = next_moves(groups, state.wishes(), is_whole);
    (!wishes.is_empty()).then_some(MetaCommand::WantPartitions { wishes })
}

/// An added group that has one voter, which has lost its memory, and nothing to host begins anew by itself: there is nothing that it could have
/// lost, and all that concerns whole groups waits for it.
pub(crate) fn found_anew(state: &State, observations: &Observations, pace: &Pace) -> Option<MetaCommand> {
    let groups = state.key_groups()?;
    let is_heard = |node: NodeId| is_heard(node, observations, pace);
    let is_without = |group: &GroupId| {
        let found = &state.groups()[&GroupRef::Data(*group)];
        state.is_unfilled(groups, *group) && !found.has_majority()
    };
    let mut added = (groups.founded().get()..groups.get()).map(GroupId::new);
    let group = added.find(is_without)?;
    let leads = |node: &NodeId| {
        let targets = state.groups().values().filter_map(|group| group.leader_target);
        (targets.filter(|leader| leader == node).count(), *node)
    };
    let node = state.staying().filter(|node| is_heard(*node)).min_by_key(leads)?;
    Some(MetaCommand::FoundAnew { group, node })
}

fn is_heard(node: NodeId, observations: &Observations, pace: &Pace) -> bool {
    let silence = observations.silence.get(&node);
    silence.is_some_and(|&silence| silence < pace.away_after)
}

/// How many groups there are to be for the nodes that stay.
fn wanted(state: &State, groups: Groups) -> GroupCount {
    let weight = |node| u64::from(state.nodes()[&node].placed.weight_percent);
    // Where somebody wanted fewer groups than by default, even the lightest node weighs more than the usual one.
    let lightest = state.staying().map(weight).min().unwrap_or_default();
    let usual = lightest.max(WEIGHT_PERCENT.into());
    let founded = u64::from(groups.founded().get());
    let wanted = state.staying().map(weight).sum::<u64>() * founded / (FOUNDED_FOR * usual);
    let wanted = wanted.min(GroupCount::MAX.into()) as u16;
    let wanted = GroupCount::new(wanted).map(|wanted| groups.with_more(wanted));
    wanted.map_or(groups.count(), Groups::count)
}

/// How many partitions are to move before each group hosts its share.
pub(crate) fn partitions_left(groups: Groups) -> usize {
    let mut sizes = vec![0_usize; usize::from(groups.get())];
    for partition in (0..groups.partitions().get()).map(PartitionId::new) {
        sizes[groups.host_of(partition).index()] += 1;
    }
    let share = shares(&sizes);
    let surplus = sizes
        .iter()
        .zip(share)
        .map(|(size, share)| size.saturating_sub(share));
    surplus.sum()
}

/// How many partitions each group is to host, of which they host so many: all of them as many, or one more. Whoever has most keeps that.
fn shares(sizes: &[usize]) -> Vec<usize> {
    let partitions: usize = sizes.iter().sum();
    let (base, extra) = (partitions / sizes.len(), partitions % sizes.len());
    let mut share = vec![base; sizes.len()];
    by_size(sizes)[..extra]
        .iter()
        .for_each(|group| share[*group] += 1);
    share
}

/// The groups, who has most first.
fn by_size(sizes: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|group| (Reverse(sizes[*group]), *group));
    order
}

/// Which partitions are to go where next, beside those that are to already: of each group that has more than its share, unless one of it is
/// on its way, to one that has less, both of which may take part. As few move, all together, as can be.
fn next_moves(
    groups: Groups,
    wishes: &BTreeMap<PartitionId, GroupId>,
    may_move: impl Fn(GroupId) -> bool,
) -> Vec<(PartitionId, GroupId)> {
    let mut sizes = vec![0_usize; usize::from(groups.get())];
    let mut gives = vec![false; sizes.len()];
    // The last one of each group that is to stay: runs of slots remain whole.
    let mut last: Vec<Option<PartitionId>> = vec![None; sizes.len()];
    for partition in (0..groups.partitions().get()).map(PartitionId::new) {
        let host = groups.host_of(partition).index();
        match wishes.get(&partition) {
            Some(to) => {
                sizes[to.index()] += 1;
                gives[host] = true;
            }
            None => {
                sizes[host] += 1;
                last[host] = Some(partition);
            }
        }
    }
    let share = shares(&sizes);
    let mut moves = Vec::new();
    for from in by_size(&sizes) {
        let may_give = sizes[from] > share[from] && !gives[from] && may_move(GroupId::new(from as u16));
        let Some(partition) = last[from].filter(|_| may_give) else {
            continue;
        };
        let lacking = (0..sizes.len()).filter(|to| sizes[*to] < share[*to]);
        let takers = lacking.filter(|to| may_move(GroupId::new(*to as u16)));
        let Some(to) = takers.max_by_key(|to| (share[*to] - sizes[*to], Reverse(*to))) else {
            break;
        };
        sizes[from] -= 1;
        sizes[to] += 1;
        moves.push((partition, GroupId::new(to as u16)));
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::PartitionCount;

    fn count(count: u16) -> GroupCount {
        GroupCount::new(count).expect("a valid count")
    }

    fn founded(groups: u16, partitions: u16) -> Groups {
        let partitions = PartitionCount::new(partitions).expect("a valid count");
        Groups::new(count(groups), partitions).expect("no more groups than partitions")
    }

    fn sizes(groups: Groups) -> Vec<usize> {
        groups
            .iter()
            .map(|group| groups.partitions_of(group).count())
            .collect()
    }

    /// Moves what is wanted, the oldest wish first in every second round, until nothing is. How many have moved.
    fn settle(mut groups: Groups, may_take: impl Fn(GroupId) -> bool) -> (Groups, usize) {
        let mut wishes: BTreeMap<PartitionId, GroupId> = BTreeMap::new();
        let mut moved = 0;
        for round in 0.. {
            assert!(round < 10_000, "it ends");
            for (partition, to) in next_moves(groups, &wishes, &may_take) {
                assert_eq!(wishes.insert(partition, to), None, "it is not on its way");
                assert!(may_take(to) && groups.host_of(partition) != to);
            }
            let mut from: Vec<GroupId> = wishes
                .keys()
                .map(|partition| groups.host_of(*partition))
                .collect();
            from.sort_unstable();
            assert!(from.is_sorted_by(|one, next| one < next), "one of each group");
            let Some((partition, to)) = wishes.pop_first() else {
                break;
            };
            groups = groups.with_host(partition, to, groups.moves_of(partition) + 1);
            moved += 1;
        }
        (groups, moved)
    }

    #[test]
    fn partitions_go_to_groups_that_were_added_until_all_have_as_many_and_no_more_move_than_must() {
        for (first, more, partitions) in [
            (6, 7, 256),
            (6, 24, 256),
            (1, 2, 3),
            (12, 13, 12),
            (5, 100, 256),
            (6, 256, 256),
        ] {
            let groups = founded(first, partitions).with_more(count(more));
            let (after, moved) = settle(groups, |_| true);
            let sizes = sizes(after);
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= 1, "{first} and {more}: {sizes:?}");
            let added: usize = sizes[usize::from(first)..].iter().sum();
            assert_eq!(moved, added, "{first} and {more}");
        }
    }

    #[test]
    fn a_group_that_lacks_replicas_is_given_nothing() {
        let groups = founded(6, 256).with_more(count(8));
        let (after, _) = settle(groups, |group| group != GroupId::new(7));
        assert_eq!(after.partitions_of(GroupId::new(7)).count(), 0);
        assert_eq!(after.partitions_of(GroupId::new(6)).count(), 32);
        assert!(next_moves(groups, &BTreeMap::new(), |_| false).is_empty());
    }

    #[test]
    fn nothing_moves_where_all_have_as_many() {
        for (first, partitions) in [(6, 256), (7, 256), (12, 12)] {
            assert!(next_moves(founded(first, partitions), &BTreeMap::new(), |_| true).is_empty());
        }
    }
}

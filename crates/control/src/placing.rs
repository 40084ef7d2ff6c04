//! From nodes to targets: when, and for whom, the ring is asked.

use crate::command::{Factor, MetaCommand, MetaRefusal, Target};
use crate::goal::{NodeGoal, Rebalance};
use crate::group::GroupRef;
use crate::node::Placed;
use crate::observations::Observations;
use crate::outage::is_outage;
use crate::reconciler::Pace;
use crate::state::State;
use ids::{GroupCount, NodeId};
use mutations::Mutation;
use ring::{Placement, RingNode};
use std::collections::{BTreeMap, BTreeSet};

/// From so many nodes on the meta group has three voters.
pub(crate) const META_THREE: usize = 3;

/// And five.
const META_FIVE: usize = 5;

/// What would come of it if everything was placed anew, or for another number of replicas.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RebalancePlan {
    /// The replicas that are to be filled, those included that are already: of which group, and where.
    pub moves: Vec<(GroupRef, NodeId)>,
    /// By node, of how many groups of keys it has a replica, and of how many it is to have one.
    pub loads: BTreeMap<NodeId, (usize, usize)>,
}

impl RebalancePlan {
    /// As this state has it, in which nodes that are away for long are known to be dead. None before there is a cluster.
    pub fn of(state: &State) -> Option<RebalancePlan> {
        let nodes = fit(state, &Observations::default(), &Pace::default());
        RebalancePlan::of_members(state, &as_announced(state, &nodes))
    }

    /// The same if another number of replicas was wanted.
    ///
    /// # Errors
    /// Why it would be refused.
    pub fn of_factor(state: &State, factor: Factor) -> Result<Option<RebalancePlan>, MetaRefusal> {
        let mut wanted = state.clone();
        wanted.apply(&MetaCommand::SetFactor { factor })?;
        let nodes = fit(&wanted, &Observations::default(), &Pace::default());
        Ok(RebalancePlan::of_members(&wanted, &as_placed(&wanted, &nodes)))
    }

    fn of_members(state: &State, members: &[(NodeId, Placed)]) -> Option<RebalancePlan> {
        let mut plan = RebalancePlan::default();
        for target in targets(state, members, state.replicas_wanted())? {
            let group = &state.groups[&target.group];
            let missing = target
                .nodes
                .iter()
                .filter(|node| group.member_on(**node).is_none());
            plan.moves.extend(missing.map(|&node| (target.group, node)));
            if target.group == GroupRef::Meta {
                continue;
            }
            let members = group.members.iter();
            for member in members.filter(|member| !group.is_lost(member.incarnation)) {
                plan.loads.entry(member.node).or_default().0 += 1;
            }
            for node in target.nodes {
                plan.loads.entry(node).or_default().1 += 1;
            }
        }
        Some(plan)
    }
}

/// The command that places the groups anew, if the nodes are others than those for which they were placed, or if it was wanted.
pub(crate) fn placing(state: &State, observations: &Observations, pace: &Pace) -> Option<MetaCommand> {
    let (nodes, factor) = match state.pause {
        None => (fit(state, observations, pace), state.replicas_wanted()),
        Some(_) => fit_while_paused(state, observations, pace),
    };
    let is_wanted = |rebalance: &Rebalance| !rebalance.is_placed && state.pause.is_none();
    let rebalance = state.rebalance.filter(is_wanted);
    if rebalance.is_none() && nodes == state.placed_for && factor == state.placed_factor {
        return None;
    }
    let members = match rebalance {
        Some(_) => as_announced(state, &nodes),
        None => as_placed(state, &nodes),
    };
    let mut targets = targets(state, &members, factor)?;
    targets.retain(|target| {
        let group = &state.groups[&target.group];
        group.targets != target.nodes || group.leader_target != target.leader
    });
    Some(match rebalance {
        Some(Rebalance { since, .. }) => MetaCommand::PlaceAnew {
            since,
            members,
            factor,
            targets,
        },
        None => MetaCommand::Place {
            members: nodes.into_iter().collect(),
            factor,
            targets,
        },
    })
}

/// These nodes, by what they said when they were placed last.
fn as_placed(state: &State, nodes: &BTreeSet<NodeId>) -> Vec<(NodeId, Placed)> {
    let placed = |&id: &NodeId| (id, state.nodes[&id].placed.clone());
    nodes.iter().map(placed).collect()
}

/// These nodes, by what they say of themselves now.
fn as_announced(state: &State, nodes: &BTreeSet<NodeId>) -> Vec<(NodeId, Placed)> {
    let placed = |&id: &NodeId| (id, state.nodes[&id].announcement.placed());
    nodes.iter().map(placed).collect()
}

/// Whether so many replicas of a group can be placed on the nodes that stay so that any zone may be lost.
pub(crate) fn bears_loss_of_zone(state: &State, replicas: u16) -> bool {
    let staying: BTreeSet<NodeId> = state.staying().collect();
    let members = as_placed(state, &staying);
    ring::bears_loss_of_zone(&ring_nodes(&members), usize::from(replicas))
}

fn ring_nodes(members: &[(NodeId, Placed)]) -> Vec<RingNode<'_>> {
    let is_zone = !mutations::is(Mutation::ZoneIgnored);
    let members = members.iter().map(|(node, placed)| RingNode {
        node: *node,
        zone: if is_zone { &placed.zone } else { "" },
        weight: placed.weight_percent,
    });
    members.collect()
}

/// Where every group ought to be; none before there is a cluster.
fn targets(state: &State, members: &[(NodeId, Placed)], factor: u16) -> Option<Vec<Target>> {
    let members = ring_nodes(members);
    let mut targets = targets_of_data(state, &members, state.group_count()?, usize::from(factor));
    targets.push(target_of_meta(state, &members));
    Some(targets)
}

/// The nodes that may have replicas: not those that are leaving, and not those that have been silent for long, unless many are silent at
/// once (`outage.rs`), or they may be (`permit.rs`). But if too
/// few would be left, they stay. A group, the meta group too, is not made smaller because a node is away, since it may come
/// back. Nor is a group of keys because nodes leave: of the two voters that three would become none can be spared. Who
/// leaves keeps replicas until another node has come, or fewer are wanted; but for one that is away nobody waits.
fn fit(state: &State, observations: &Observations, pace: &Pace) -> BTreeSet<NodeId> {
    let wanted = usize::from(state.replicas_wanted());
    let is_leaving = |id: &NodeId| state.nodes[id].goal.is_draining();
    let is_outage = is_outage(state, observations, pace);
    let (gone, there): (Vec<NodeId>, Vec<NodeId>) = state.nodes.keys().partition(|&id| {
        let is_silent = |&silent: &std::time::Duration| silent >= pace.replace_after;
        let is_waited_for = is_outage && state.placed_for.contains(id) || state.has_permit(*id);
        let is_silent = observations.silence.get(id).is_some_and(is_silent);
        state.nodes[id].is_fenced || is_silent && !is_waited_for
    });
    let (mut leaving, staying): (Vec<NodeId>, Vec<NodeId>) = there.into_iter().partition(is_leaving);
    leaving.retain(|id| state.nodes[id].goal != NodeGoal::Left);
    let mut fit = BTreeSet::from_iter(staying);
    let mut fill = |candidates: Vec<NodeId>, wanted: usize| {
        // First those that have replicas already.
        let (had, new): (Vec<NodeId>, Vec<NodeId>) = candidates
            .into_iter()
            .partition(|id| state.placed_for.contains(id));
        let missing = wanted.saturating_sub(fit.len());
        fit.extend(had.into_iter().chain(new).take(missing));
    };
    // One that was given up for a node that joined at its address will not come back.
    let replaced: BTreeSet<NodeId> = state.replaced().filter(|id| state.nodes[id].is_fenced).collect();
    let away = gone
        .into_iter()
        .filter(|id| !is_leaving(id) && !replaced.contains(id));
    fill(away.collect(), wanted.max(META_THREE));
    fill(leaving, wanted);
    fit
}

/// The same while all is paused, and the number of replicas: those for which it was placed last, but for those that have been silent for
/// long, in whose place others come as far as they are needed. Nobody moves because of who joins, gives replicas up, or returns.
fn fit_while_paused(state: &State, observations: &Observations, pace: &Pace) -> (BTreeSet<NodeId>, u16) {
    let fit = fit(state, observations, pace);
    let wanted = match state.placed_factor {
        // All is to be placed again, and for how many it was placed is not known: for as many as some group is to have.
        0 if state.resize.is_some() => {
            let data = state.groups.iter().filter(|(name, _)| **name != GroupRef::Meta);
            let most = data.map(|(_, group)| group.targets.len()).max().unwrap_or(1);
            u16::try_from(most).expect("there are few replicas of a group")
        }
        0 => state.replicas_wanted(),
        factor => factor,
    };
    let is_gone = |id: &NodeId| {
        let silence = observations.silence.get(id);
        let is_silent = silence.is_some_and(|&silent| silent >= pace.replace_after);
        let is_silent = is_silent && !state.has_permit(*id);
        state.nodes.get(id).is_none_or(|node| node.is_fenced) || is_silent
    };
    let placed = state.placed_for.iter().copied();
    let mut nodes: BTreeSet<NodeId> = placed.filter(|id| !is_gone(id) || fit.contains(id)).collect();
    nodes.retain(|id| state.nodes[id].goal != NodeGoal::Left);
    let missing = usize::from(wanted).saturating_sub(nodes.len());
    let others: Vec<NodeId> = fit.difference(&nodes).copied().take(missing).collect();
    nodes.extend(others);
    (nodes, wanted)
}

fn targets_of_data(state: &State, members: &[RingNode<'_>], count: GroupCount, rf: usize) -> Vec<Target> {
    let data = || count.iter().map(|group| &state.groups[&GroupRef::Data(group)]);
    let previous = Placement(data().map(|group| group.targets.clone()).collect());
    let leading: Vec<Option<NodeId>> = data().map(|group| group.leader_target).collect();
    let placement = ring::place(members, count, rf, &previous);
    let leaders = ring::leaders(members, &placement, &leading);
    let placed = placement.0.into_iter().zip(leaders);
    let targets = count.iter().zip(placed).map(|(group, (nodes, leader))| Target {
        group: GroupRef::Data(group),
        nodes,
        leader,
    });
    targets.collect()
}

fn target_of_meta(state: &State, members: &[RingNode<'_>]) -> Target {
    let most = match members.len() {
        0..META_THREE => 1,
        META_THREE..META_FIVE => 3,
        META_FIVE.. => 5,
    };
    // Three in three zones bear the loss of one, and five of which three are in one of them do not.
    let mut safe = [5, 3].into_iter().filter(|voters| *voters <= most);
    let safe = safe.find(|voters| ring::bears_loss_of_zone(members, *voters));
    let voters = safe.unwrap_or(most);
    // It is small, and no node is spared it for its weight.
    let members: Vec<RingNode<'_>> = members
        .iter()
        .map(|member| RingNode { weight: 1, ..*member })
        .collect();
    let one = GroupCount::new(1).expect("one group is allowed");
    let previous = Placement(vec![state.groups[&GroupRef::Meta].targets.clone()]);
    let nodes = ring::place(&members, one, voters, &previous).0.remove(0);
    Target {
        group: GroupRef::Meta,
        // It leads wherever it does: nothing is to be evened out.
        leader: None,
        nodes,
    }
}

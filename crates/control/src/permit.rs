//! Permission to stop, lent to one node at a time among those that share a group: so that whoever restarts nodes one after the other, for
//! a new build or a new kernel, takes no majority from anybody.
//!
//! ```text
//!              PermitStop: no node that shares a group has one, and nothing is at risk
//!   (nothing) -------------------------------------------------------------------------> lent
//!       ^                                                                                  |
//!       '----------------------------------------------------------------------------------'
//!          EndPermit: its time is over, or the node has started again and has caught up
//! ```
//!
//! While it is lent, others lead what the node led, nothing moves in its groups but what repairs, and its silence has nobody take its
//! place. The state has no clock: how long it is lent has been counted by whoever leads the meta group, from when it came to know of
//! it. So it may last longer than was said, and never shorter.

use crate::command::MetaCommand;
use crate::group::{Group, MemberRole};
use crate::observations::{GroupReport, Observations};
use crate::reconciler::{Pace, is_known};
use crate::state::State;
use crate::step::ReconcileStep;
use crate::wire::wire_struct;
use ids::{Boot, Epoch, NodeId};
use std::time::Duration;

/// Most seconds for which it is lent: a node that is away for longer is not only started again.
pub const PERMIT_SECONDS_MAX: u64 = 3_600;

/// A node may stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StopPermit {
    /// The start that may end.
    pub boot: Boot,
    /// The version of the map from which on: no two have the same.
    pub since: Epoch,
    /// For how many seconds.
    pub seconds: u64,
}

wire_struct!(StopPermit { boot, since, seconds });

/// Whether some group has, or is to have, a replica on each of two nodes.
pub(crate) fn share_group(state: &State, one: NodeId, other: NodeId) -> bool {
    let mut groups = state.groups.values();
    groups.any(|group| has_part(group, one) && has_part(group, other))
}

/// Whether the node may get a replica of the group: not if it is lent permission to stop, and another one that is has a replica.
pub(crate) fn may_add(state: &State, group: &Group, node: NodeId) -> bool {
    let mut lent = state.permits.keys();
    !state.has_permit(node) || !lent.any(|&other| other != node && has_part(group, other))
}

/// Whether two nodes that share a group may stop.
pub(crate) fn is_lent_twice(state: &State) -> bool {
    let is_lent = |group: &Group| {
        let lent = state.permits.keys();
        lent.filter(|node| has_part(group, **node)).count() > 1
    };
    state.permits.len() > 1 && state.groups.values().any(is_lent)
}

/// Whether a group would have no majority, or is about to change, if the node stopped, as far as the state knows.
pub(crate) fn is_stop_risky(state: &State, node: NodeId) -> bool {
    state.groups.values().any(|group| {
        let voters = group.voters().count();
        let is_whole = group.lost.is_empty() && group.expected.is_empty() && voters == group.members.len();
        let has_majority = voters > 2;
        group.is_unheard || has_part(group, node) && !(is_whole && has_majority)
    })
}

/// Whether a node has, or is to have, a replica of a group, and not only a name there of one that is lost.
pub(crate) fn has_part(group: &Group, node: NodeId) -> bool {
    group.member_on(node).is_some() || group.expected_on(node).is_some()
}

/// Whether a majority would be at risk if the node stopped, or whether too little is known to say that none is: every voter of its groups
/// is to be there for a while, and to have caught up, and nothing about its members is to change.
pub fn is_at_risk(state: &State, observations: &Observations, pace: &Pace, node: NodeId) -> bool {
    if !is_steady(observations, pace, node) || is_stop_risky(state, node) {
        return true;
    }
    let mut its = state.groups.iter().filter(|(_, group)| has_part(group, node));
    its.any(|(name, group)| {
        let seen = observations.groups.get(name);
        let seen = seen.filter(|seen| is_at_rest(group, seen));
        seen.is_none_or(|seen| {
            let mut voters = group.voters();
            voters.any(|voter| {
                let is_whole = seen.caught_up.contains(&voter.incarnation);
                !is_whole || !is_steady(observations, pace, voter.node)
            })
        })
    })
}

/// Permissions that are over.
pub(crate) fn ended(state: &State, observations: &Observations, pace: &Pace) -> Vec<ReconcileStep> {
    let over = state.permits.iter().filter(|(node, permit)| {
        let lent_for = observations.permitted_for.get(node);
        let is_late = lent_for.is_some_and(|lent| *lent >= Duration::from_secs(permit.seconds));
        is_late || !state.may_stop(**node) && is_back(state, observations, pace, **node)
    });
    let end = |(&node, permit): (&NodeId, &StopPermit)| {
        ReconcileStep::Propose(MetaCommand::EndPermit {
            node,
            since: Some(permit.since),
        })
    };
    over.map(end).collect()
}

/// Whether a node that has started again has all that it is to have.
fn is_back(state: &State, observations: &Observations, pace: &Pace, node: NodeId) -> bool {
    let mut its = state.groups.iter().filter(|(_, group)| group.involves(node));
    is_steady(observations, pace, node)
        && its.all(|(name, group)| {
            let seen = observations.groups.get(name);
            let member = group.member_on(node);
            let votes = |seen: &GroupReport| {
                member.is_some_and(|member| {
                    member.role == MemberRole::Voter && seen.caught_up.contains(&member.incarnation)
                })
            };
            seen.is_some_and(|seen| is_at_rest(group, seen) && votes(seen))
        })
}

/// Whether its leader says of it what the state knows, and nothing is about to change.
fn is_at_rest(group: &Group, seen: &GroupReport) -> bool {
    seen.report.generation == group.generation && is_known(group, &seen.report) && !seen.is_settling()
}

/// Whether a node is there, and has been for so long that what leaders say of it is of this start.
pub(crate) fn is_steady(observations: &Observations, pace: &Pace, node: NodeId) -> bool {
    let silence = observations.silence.get(&node);
    let up = observations.up_for.get(&node);
    silence.is_some_and(|silence| *silence < pace.away_after) && up.is_some_and(|up| *up >= pace.away_after)
}

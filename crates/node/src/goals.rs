//! What an operator wants of nodes, as the meta group is told.

use crate::meta::{Input, Results};
use crate::status;
use crate::view::View;
use admin::{
    ClusterView, DrainPlan, ForgetPlan, GoalError, GoalRequest, GoalsSet, MovePlan, NodeLoad, known, list,
    replaceable, replaceable_zone, stoppable,
};
use control::{Factor, Failure, GroupRef, MetaCommand, MetaOutcome, MetaRefusal, NodeGoal, RebalancePlan};
use gateway::Shared;
use ids::{Boot, GroupCount, GroupId, NodeId, SemanticsVersion};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How long an operator waits for the meta group. What is not done by then may still be done.
const GOAL_TIME_MAX: Duration = Duration::from_secs(60);

/// How long it takes the thread of the meta group to look, at most.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

/// Why as many replicas cannot be.
const TOO_FEW_TO_RESIZE: &str = "there are fewer nodes that stay, and are not given up, than each group would have replicas, and each replica \
     needs a node of its own. Have other nodes join first (chorale server --join ...)";

/// Why what was looked at is not what there is.
const BEGUN_ANEW: &str = "the group has begun anew since it was looked at, or is not there: look at chorale admin status, and try again";

/// What is said of a node that ends before it has an answer.
const STOPS: &str = "the node stops";

/// Has the meta group set it.
///
/// # Errors
/// Why nothing was done, for an operator, or that it is not known whether it was.
pub(crate) fn set(
    shared: &Shared,
    view: &View,
    me: NodeId,
    inputs: &mpsc::Sender<Input>,
    request: &GoalRequest,
) -> Result<GoalsSet, GoalError> {
    if view.remains().is_leaderless {
        let reason = "nobody leads the meta group, which must decide this";
        return Err(GoalError::Refused(reason.to_owned()));
    }
    let seen = status::cluster_view(shared, view, me);
    let numbers = |nodes: &[u64]| -> Vec<NodeId> { nodes.iter().copied().map(NodeId).collect() };
    let command = match request {
        GoalRequest::Drain { nodes, leave } => {
            DrainPlan::of(&seen, nodes, *leave)?;
            let goal = match leave {
                false => NodeGoal::Drains,
                true => NodeGoal::Leaves,
            };
            let nodes = numbers(nodes);
            MetaCommand::SetGoal { nodes, goal }
        }
        GoalRequest::Stay { nodes } => {
            known(&seen, nodes)?;
            MetaCommand::SetGoal {
                nodes: numbers(nodes),
                goal: NodeGoal::Stays,
            }
        }
        GoalRequest::Pause { seconds } => MetaCommand::Pause { seconds: *seconds },
        GoalRequest::Resume {} => MetaCommand::Resume { of: None },
        GoalRequest::Rebalance {} => MetaCommand::Rebalance,
        GoalRequest::Resize { factor } => MetaCommand::SetFactor {
            factor: factor_of(factor)?,
        },
        GoalRequest::Raise { to } => MetaCommand::RaiseSemantics {
            to: SemanticsVersion(*to),
        },
        GoalRequest::Groups { count } => {
            let groups = shared.key_groups();
            let count = GroupCount::new(*count).filter(|count| *count == groups.with_more(*count).count());
            let reason = "there can be no fewer groups than there are, and no more than partitions";
            let count = count.ok_or_else(|| GoalError::Refused(reason.to_owned()))?;
            MetaCommand::AddGroups { count }
        }
        GoalRequest::MayStop { node, seconds } => {
            stoppable(&seen, *node)?;
            MetaCommand::PermitStop {
                boot: boot_of(&seen, *node),
                seconds: *seconds,
            }
        }
        GoalRequest::EndPermit { node } => MetaCommand::EndPermit {
            node: NodeId(*node),
            since: None,
        },
        GoalRequest::Replace { node, with } => {
            replaceable(&seen, *node, *with)?;
            MetaCommand::Replace {
                boot: boot_of(&seen, *node),
                with: with.map(NodeId),
            }
        }
        GoalRequest::ReplaceZone { zone } => {
            let nodes = replaceable_zone(&seen, zone)?;
            MetaCommand::ReplaceTogether {
                boots: nodes.into_iter().map(|node| boot_of(&seen, node)).collect(),
            }
        }
        GoalRequest::Forget {
            node,
            group,
            generation,
        } => {
            if ForgetPlan::of(&seen, *node, *group)?.generation != *generation {
                return Err(GoalError::Refused(BEGUN_ANEW.to_owned()));
            }
            MetaCommand::Forget {
                group: GroupRef::Data(GroupId::new(*group)),
                node: NodeId(*node),
                generation: *generation,
            }
        }
    };
    tracing::warn!(?request, "an operator wants this of nodes");
    let (reply, results) = mpsc::channel();
    inputs
        .send(Input::Orders(vec![command], reply))
        .map_err(|_| GoalError::Refused(STOPS.to_owned()))?;
    let results: Results = results.recv_timeout(GOAL_TIME_MAX).map_err(|error| match error {
        RecvTimeoutError::Timeout => not_known("no word from the meta group in time"),
        RecvTimeoutError::Disconnected => not_known(STOPS),
    })?;
    match results.into_iter().next() {
        Some(Ok(MetaOutcome::Set { version })) => Ok(GoalsSet { epoch: Some(version) }),
        Some(Ok(_)) => Ok(GoalsSet::default()),
        Some(Err(Failure::Refused(refusal))) => Err(GoalError::Refused(
            words_for(request, refusal).map_or_else(|| words(refusal), str::to_owned),
        )),
        Some(Err(failure)) => Err(error_of(failure)),
        None => Err(not_known(STOPS)),
    }
}

/// What would move if everything was placed anew, or for another number of replicas, if this node has a replica of the meta group.
///
/// # Errors
/// Whom to ask instead, for an operator.
pub(crate) fn move_plan(
    view: &View,
    inputs: &mpsc::Sender<Input>,
    factor: Option<&str>,
) -> Result<MovePlan, String> {
    let factor = factor.map(factor_of).transpose()?;
    let (reply, state) = mpsc::channel();
    inputs.send(Input::Look(reply)).map_err(|_| STOPS)?;
    let state = state.recv_timeout(LOOK_TIME_MAX).map_err(|error| match error {
        RecvTimeoutError::Timeout => "the thread of the meta group does not answer: look at the log",
        RecvTimeoutError::Disconnected => STOPS,
    })?;
    // Here, and not on the thread that elections wait for.
    let plan = match (&state, factor) {
        (None, _) => None,
        (Some(state), None) => RebalancePlan::of(state),
        (Some(state), Some(factor)) => match RebalancePlan::of_factor(state, factor) {
            Ok(plan) => plan,
            Err(MetaRefusal::TooFew) => return Ok(refused(TOO_FEW_TO_RESIZE.to_owned())),
            Err(refusal) => return Ok(refused(words(refusal))),
        },
    };
    let plan = plan.ok_or_else(|| {
        let seen = view.seen();
        let voters = seen.iter().flat_map(|seen| &seen.map.meta.replicas);
        format!(
            "this node has no replica of the meta group, and does not know what would move: ask node {}",
            list(voters.map(|stop| stop.node.0))
        )
    })?;
    let mut shown = MovePlan::default();
    for (group, node) in plan.moves {
        match group {
            GroupRef::Meta => shown.meta.push(node.0),
            GroupRef::Data(group) => shown.moves.push((group.number(), node.0)),
        }
    }
    let loads = plan.loads.into_iter();
    shown.loads = loads
        .map(|(node, (now, then))| NodeLoad {
            node: node.0,
            now: now as u64,
            then: then as u64,
        })
        .collect();
    Ok(shown)
}

/// The last start of a node, as it is seen; nobody's where it is not.
fn boot_of(seen: &ClusterView, node: u64) -> Boot {
    let of = seen.nodes.iter().find(|known| known.id == node);
    Boot(of.map_or(0, |known| known.boot))
}

fn refused(reason: String) -> MovePlan {
    MovePlan {
        refused: Some(reason),
        ..MovePlan::default()
    }
}

fn factor_of(name: &str) -> Result<Factor, String> {
    Factor::of_name(name).ok_or_else(|| {
        let all = list(Factor::ALL.iter().map(|factor| factor.name()));
        format!("a group cannot have {name} replicas: {all} can be wanted")
    })
}

fn not_known(why: &str) -> GoalError {
    GoalError::NotKnown(why.to_owned())
}

/// Why not, and what to do about it.
fn error_of(failure: Failure) -> GoalError {
    match failure {
        Failure::Refused(refusal) => GoalError::Refused(words(refusal)),
        Failure::NotDone => GoalError::Refused(
            "this node has more to ask of the meta group already than it can wait for, or there was nobody to ask: try again"
                .to_owned(),
        ),
        Failure::Unknown => not_known("the meta group does not answer"),
    }
}

/// The same, where it means something of its own to what was asked for.
fn words_for(request: &GoalRequest, refusal: MetaRefusal) -> Option<&'static str> {
    Some(match (request, refusal) {
        (GoalRequest::Resize { .. }, MetaRefusal::TooFew) => TOO_FEW_TO_RESIZE,
        (GoalRequest::Forget { .. } | GoalRequest::ReplaceZone { .. }, MetaRefusal::Semantics) => {
            "entries follow a semantics version that does not know this yet, as chorale admin status says: it comes by itself, or by chorale \
             admin raise-semantics"
        }
        (GoalRequest::Forget { .. }, MetaRefusal::AtRisk) => {
            "nobody leads the group, as far as the one that leads the meta group has heard, and what the node keeps may be all that is left: \
             bring back its nodes, or see what chorale admin recover can do for it"
        }
        (GoalRequest::Forget { .. }, MetaRefusal::InUse) => {
            "the node votes in the group, which needs what it has: chorale admin drain has another one vote in its place"
        }
        (GoalRequest::Forget { .. }, MetaRefusal::NotNeeded) => {
            "the node keeps nothing of the group any more: there is nothing to forget"
        }
        (GoalRequest::Forget { .. }, MetaRefusal::Unknown) => BEGUN_ANEW,
        (GoalRequest::ReplaceZone { .. }, MetaRefusal::InUse) => {
            "one of the zone's nodes is heard by the one that leads the meta group: a zone is replaced if all of it is down"
        }
        _ => return None,
    })
}

fn words(refusal: MetaRefusal) -> String {
    match refusal {
        MetaRefusal::TooFew => {
            "too few nodes would be left for as many replicas of each group as are wanted, or for the voters of the meta group. Have \
             another node join first (chorale server --join ...), or name fewer nodes"
                .to_owned()
        }
        MetaRefusal::NoRoom => {
            "what would move has no room within the maxmemory of the nodes that are left. Raise maxmemory, have another node join first \
             (chorale server --join ...), or name fewer nodes"
                .to_owned()
        }
        MetaRefusal::AtRisk => {
            "a majority of some group would be at risk, or the one that leads the meta group does not know yet that none would: every voter of the \
             node's groups is to be there for some seconds, and to have caught up, and no replica of them is to be filled or moved"
                .to_owned()
        }
        MetaRefusal::Lent => {
            "another node that shares groups with it may stop, or has: it has to be back and to have caught up first (chorale admin jobs)".to_owned()
        }
        MetaRefusal::Zones => {
            "with as many replicas of each group as that, the loss of a zone would take a majority of some: nodes are in too few zones, or \
             too many of them in one. Have nodes of other zones join first, or choose another number"
                .to_owned()
        }
        MetaRefusal::Semantics => {
            "some node's build does not know that semantics version, or entries follow a newer one: look at chorale admin status".to_owned()
        }
        MetaRefusal::HasLeft => {
            "the node has left already: start it with an empty directory to have it join anew".to_owned()
        }
        MetaRefusal::InUse => {
            "the node is heard by the one that leads the meta group: only a node that is down is replaced".to_owned()
        }
        MetaRefusal::Unknown => {
            "a node is not as it was, or not at all: look at chorale admin status".to_owned()
        }
        refusal => format!("the meta group refuses: {refusal:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_have_been_done_is_said_not_to_be_known() {
        for (failure, is_known) in [
            (Failure::Unknown, false),
            (Failure::NotDone, true),
            (Failure::Refused(MetaRefusal::TooFew), true),
        ] {
            let error = error_of(failure);
            assert_eq!(matches!(error, GoalError::Refused(_)), is_known, "{error}");
        }
    }
}

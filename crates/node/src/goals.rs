//! What an operator wants of nodes, as the meta group is told.

use crate::meta::{Input, Results};
use crate::status;
use crate::view::View;
use admin::{DrainPlan, GoalRequest, NOT_KNOWN, known, replaceable};
use control::{Failure, MetaCommand, MetaRefusal, NodeGoal};
use gateway::Shared;
use ids::{Boot, NodeId};
use std::sync::mpsc;
use std::time::Duration;

/// How long an operator waits for the meta group. What is not done by then may still be done.
const GOAL_TIME_MAX: Duration = Duration::from_secs(60);

/// Has the meta group set it.
///
/// # Errors
/// Why nothing was done, for an operator; or a sentence that begins with [`NOT_KNOWN`].
pub(crate) fn set(
    shared: &Shared,
    view: &View,
    me: NodeId,
    inputs: &mpsc::Sender<Input>,
    request: &GoalRequest,
) -> Result<(), String> {
    if view.remains().is_leaderless {
        return Err("nobody leads the meta group, which must decide this".to_owned());
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
        GoalRequest::Replace { node, with } => {
            replaceable(&seen, *node, *with)?;
            let of = seen.nodes.iter().find(|known| known.id == *node);
            MetaCommand::Replace {
                boot: Boot(of.map_or(0, |known| known.boot)),
                with: with.map(NodeId),
            }
        }
    };
    tracing::warn!(?request, "an operator wants this of nodes");
    let (reply, results) = mpsc::channel();
    inputs
        .send(Input::Orders(vec![command], reply))
        .map_err(|_| "the node stops")?;
    let results: Results = results
        .recv_timeout(GOAL_TIME_MAX)
        .map_err(|_| not_known("no word from the meta group in time"))?;
    match results.into_iter().next() {
        Some(Ok(_)) => Ok(()),
        Some(Err(failure)) => Err(words(failure)),
        None => Err(not_known("the node stops")),
    }
}

fn not_known(why: &str) -> String {
    format!("{NOT_KNOWN} ({why}): look at chorale admin jobs before you try again")
}

/// Why not, and what to do about it.
fn words(failure: Failure) -> String {
    match failure {
        Failure::Refused(MetaRefusal::TooFew) => {
            "too few nodes would be left for as many replicas of each group as are wanted. Have another node join first (chorale server \
             --join ...), or name fewer nodes"
                .to_owned()
        }
        Failure::Refused(MetaRefusal::NoRoom) => {
            "what would move has no room within the maxmemory of the nodes that are left. Raise maxmemory, have another node join first \
             (chorale server --join ...), or name fewer nodes"
                .to_owned()
        }
        Failure::Refused(MetaRefusal::HasLeft) => {
            "the node has left already: start it with an empty directory to have it join anew".to_owned()
        }
        Failure::Refused(MetaRefusal::InUse) => {
            "the node is heard by the one that leads the meta group: only a node that is down is replaced".to_owned()
        }
        Failure::Refused(MetaRefusal::Unknown) => {
            "a node is not as it was, or not at all: look at chorale admin status".to_owned()
        }
        Failure::Refused(refusal) => format!("the meta group refuses: {refusal:?}"),
        Failure::NotDone => "it was not dealt with: try again".to_owned(),
        Failure::Unknown => not_known("the meta group does not answer"),
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
            let said = words(failure);
            assert_eq!(said.starts_with(NOT_KNOWN), !is_known, "{said}");
        }
    }
}

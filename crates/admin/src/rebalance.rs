//! That everything is placed anew, by what nodes say of themselves now, or for another number of replicas: the pages `/rebalance` and
//! `/set-rf/N` say what would move, `/cluster` how much is left.

use crate::cluster::{ClusterView, ReplicaRole};
use crate::goals::{LEADERLESS, PAUSED, is_down, some};
use crate::recovery::list;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What would move. Nodes with a replica of the meta group know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovePlan {
    /// Replicas of groups of keys that are to be filled: of which group, and on which node.
    pub moves: Vec<(u16, u64)>,
    /// Nodes that are to have a replica of the meta group, and have none.
    pub meta: Vec<u64>,
    /// The nodes that have replicas, or are to have some.
    pub loads: Vec<NodeLoad>,
    /// Why nothing of it will be done, in a sentence for an operator.
    #[serde(default)]
    pub refused: Option<String>,
}

/// Of how many groups of keys a node has a replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLoad {
    /// Which.
    pub node: u64,
    /// Now.
    pub now: u64,
    /// When all is where it is to be.
    pub then: u64,
}

impl MovePlan {
    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers have a form in JSON")
    }

    /// From JSON.
    ///
    /// # Errors
    /// If it is no such page.
    pub fn from_json(page: &str) -> Result<MovePlan, String> {
        serde_json::from_str(page).map_err(|error| error.to_string())
    }

    /// Bytes that move, as far as the node knows that shows the cluster so; of the other groups as many as one has that it knows. Whether
    /// some of them are a guess.
    pub fn bytes(&self, view: &ClusterView) -> (u64, bool) {
        let average = view.average_bytes();
        let of = |group: u16| {
            let group = view.groups.get(usize::from(group));
            group.and_then(|group| group.bytes)
        };
        let bytes = self.moves.iter().map(|(group, _)| of(*group).unwrap_or(average));
        (
            bytes.sum(),
            self.moves.iter().any(|(group, _)| of(*group).is_none()),
        )
    }
}

/// Why nothing moves now of what is to be placed anew, or for another number of replicas, or not all of it, a sentence each.
pub fn rebalance_blocked(view: &ClusterView) -> Vec<String> {
    let mut reasons = Vec::new();
    if view.is_meta_leaderless {
        reasons.push(LEADERLESS.to_owned());
    }
    if view.pause.is_some() {
        reasons.push(PAUSED.to_owned());
    }
    let replicas = view.groups.iter().flat_map(|group| &group.replicas);
    let voters = replicas.filter(|replica| replica.role == ReplicaRole::Voter);
    let down: BTreeSet<u64> = voters
        .map(|voter| voter.node)
        .filter(|node| is_down(view, *node))
        .collect();
    if !down.is_empty() {
        reasons.push(format!(
            "node {} is down, and groups with a replica there wait: bring it back, or chorale admin replace",
            list(down.iter())
        ));
    }
    let unled = view.groups.iter().filter(|group| group.leader.is_none());
    let unled: Vec<u16> = unled.map(|group| group.number).collect();
    if !unled.is_empty() {
        reasons.push(format!(
            "groups {} have no leader: see chorale admin status",
            some(&unled)
        ));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{GroupView, NodeView, PauseView, ReplicaStatus};

    fn view() -> ClusterView {
        let node = |id| NodeView {
            id,
            is_up: true,
            ..NodeView::default()
        };
        let group = |number: u16, bytes| GroupView {
            number,
            leader: Some(1),
            bytes,
            replicas: vec![ReplicaStatus {
                node: 2,
                incarnation: 1,
                role: ReplicaRole::Voter,
                lag: None,
            }],
            ..GroupView::default()
        };
        ClusterView {
            nodes: vec![node(1), node(2), node(3)],
            groups: vec![group(0, Some(1_000)), group(1, None), group(2, Some(3_000))],
            ..ClusterView::default()
        }
    }

    #[test]
    fn a_plan_is_read_as_it_was_written_and_says_how_much_moves() {
        let mut plan = MovePlan {
            moves: vec![(0, 3), (2, 1)],
            meta: vec![3],
            loads: vec![NodeLoad {
                node: 3,
                now: 0,
                then: 2,
            }],
            refused: Some("no".to_owned()),
        };
        assert_eq!(MovePlan::from_json(&plan.to_json()).as_ref(), Ok(&plan));
        assert_eq!(plan.bytes(&view()), (4_000, false));
        plan.moves.push((1, 3));
        assert_eq!(plan.bytes(&view()), (6_000, true));
        assert!(MovePlan::from_json("{}").is_err());
    }

    #[test]
    fn what_holds_up_a_rebalance_is_said_with_what_to_do_about_it() {
        let mut view = view();
        assert!(rebalance_blocked(&view).is_empty());
        view.nodes[2].is_up = false;
        assert!(rebalance_blocked(&view).is_empty(), "it has nothing");
        view.nodes[1].is_up = false;
        view.groups[1].leader = None;
        view.pause = Some(PauseView::default());
        view.is_meta_leaderless = true;
        let said = rebalance_blocked(&view).join(" ");
        for part in [
            "nobody leads the meta group",
            "resume",
            "node 2 is down",
            "groups 1 have",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

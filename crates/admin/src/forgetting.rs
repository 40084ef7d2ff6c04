//! What a node keeps of a group, and is to forget: a plan, made from the page `/cluster`.
//!
//! A group that began anew has the nodes of its other members keep what they held, until as many vote as are to: the one that it began anew
//! with may be lost before. Where so many cannot be, what is kept stays, and its node cannot leave; an operator may decide that it goes.

use crate::cluster::{ClusterView, GroupView, RecoverySourceView, ReplicaRole};
use crate::goals::{LEADERLESS, is_down, known};
use crate::recovery::list;

/// What would come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetPlan {
    /// Which node.
    pub node: u64,
    /// Which group.
    pub group: u16,
    /// The group's generation, which goes on without what the node keeps.
    pub generation: u64,
    /// What the node says that it keeps; none if it has not said anything.
    pub kept: Option<RecoverySourceView>,
    /// The nodes that vote in the group, and those of them that are down.
    pub voters: Vec<u64>,
    /// See there.
    pub down: Vec<u64>,
}

impl ForgetPlan {
    /// From what a node sees.
    ///
    /// # Errors
    /// Why it cannot be, for an operator, and what to do about it.
    pub fn of(view: &ClusterView, node: u64, number: u16) -> Result<ForgetPlan, String> {
        known(view, &[node])?;
        let group = view.groups.iter().find(|group| group.number == number);
        let group = group.ok_or_else(|| {
            let count = view.groups.len();
            format!("there is no group {number}; there are {count}, from 0 on")
        })?;
        if view.is_meta_leaderless {
            return Err(LEADERLESS.to_owned());
        }
        let roles = || {
            let its = group.replicas.iter().filter(|replica| replica.node == node);
            its.map(|replica| replica.role)
        };
        if roles().any(|role| role == ReplicaRole::Voter) {
            return Err(format!(
                "node {node} votes in group {number}, which needs what it has: chorale admin drain {node} has another one vote in its place"
            ));
        }
        if !group.former.contains(&node) {
            return Err(nothing(group, node, roles().next()));
        }
        if group.is_unheard || group.leader.is_none() || group.has_lost_majority {
            return Err(format!(
                "group {number} has no leader, and what node {node} keeps may be all that is left of it: bring back its nodes, or see what \
                 chorale admin recover can do for it"
            ));
        }
        let voters = group.replicas.iter();
        let voters = voters.filter(|replica| replica.role == ReplicaRole::Voter);
        let voters: Vec<u64> = voters.map(|voter| voter.node).collect();
        let mut sources = group.recovery_sources.iter();
        Ok(ForgetPlan {
            node,
            group: number,
            generation: group.generation,
            kept: sources.find(|source| source.node == node).cloned(),
            down: voters
                .iter()
                .copied()
                .filter(|voter| is_down(view, *voter))
                .collect(),
            voters,
        })
    }
}

/// Why there is nothing to forget.
fn nothing(group: &GroupView, node: u64, role: Option<ReplicaRole>) -> String {
    let number = group.number;
    let why = match role {
        Some(ReplicaRole::Learner | ReplicaRole::Expected) => format!(
            "the replica there is being filled, and goes by itself if it is not wanted (chorale admin drain {node})"
        ),
        Some(ReplicaRole::Lost) => "the group removes it by itself once somebody leads it".to_owned(),
        Some(ReplicaRole::Voter) | None => match group.former.is_empty() {
            true => "nobody keeps anything of it".to_owned(),
            false => format!("it is node {} that does", list(group.former.iter())),
        },
    };
    format!(
        "node {node} keeps nothing of group {number} from before it began anew: {why}. There is nothing to forget"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{NodeView, ReplicaStatus};

    /// Three nodes, and a group that has begun anew on the first; the third keeps something.
    fn view() -> ClusterView {
        let node = |id| NodeView {
            id,
            is_up: true,
            ..NodeView::default()
        };
        let replica = |node, role| ReplicaStatus {
            node,
            incarnation: node,
            role,
            lag: None,
        };
        ClusterView {
            cluster: "c".to_owned(),
            nodes: (1..=3).map(node).collect(),
            groups: vec![GroupView {
                leader: Some(1),
                generation: 4,
                replicas: vec![replica(1, ReplicaRole::Voter), replica(2, ReplicaRole::Learner)],
                recovery_sources: vec![RecoverySourceView {
                    node: 3,
                    last: 70,
                    ..RecoverySourceView::default()
                }],
                former: vec![3],
                ..GroupView::default()
            }],
            ..ClusterView::default()
        }
    }

    #[test]
    fn a_plan_says_what_is_kept_and_who_has_the_group_then() {
        let mut view = view();
        view.nodes[0].is_up = false;
        let plan = ForgetPlan::of(&view, 3, 0).expect("it is kept");
        assert_eq!((plan.generation, plan.kept.map(|kept| kept.last)), (4, Some(70)));
        assert_eq!((plan.voters, plan.down), (vec![1], vec![1]));
        // Nor does a node that is down say anything.
        view.groups[0].recovery_sources.clear();
        assert_eq!(ForgetPlan::of(&view, 3, 0).expect("it is kept").kept, None);
    }

    #[test]
    fn what_a_group_may_need_is_not_forgotten_nor_what_is_not_kept_and_that_is_said() {
        let refused = |change: fn(&mut ClusterView), node, group, part: &str| {
            let mut view = view();
            change(&mut view);
            let said = ForgetPlan::of(&view, node, group).expect_err("it is refused");
            assert!(said.contains(part), "{part}: {said}");
        };
        let as_it_is = |_: &mut ClusterView| {};
        refused(as_it_is, 1, 0, "drain 1");
        refused(as_it_is, 2, 0, "is being filled");
        refused(as_it_is, 9, 0, "there is no node 9");
        refused(as_it_is, 3, 1, "there is no group 1");
        refused(|view| view.is_meta_leaderless = true, 3, 0, "meta group");
        refused(|view| view.groups[0].leader = None, 3, 0, "recover");
        refused(|view| view.groups[0].has_lost_majority = true, 3, 0, "recover");
        refused(|view| view.groups[0].is_unheard = true, 3, 0, "recover");
        refused(
            |view| view.groups[0].former.clear(),
            3,
            0,
            "nobody keeps anything",
        );
        refused(|view| view.groups[0].former = vec![2], 3, 0, "node 2 that does");
        let lost = |view: &mut ClusterView| {
            view.groups[0].former.clear();
            view.groups[0].replicas[1].role = ReplicaRole::Lost;
        };
        refused(lost, 2, 0, "removes it by itself");
    }
}

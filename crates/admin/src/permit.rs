//! Whether a node may stop, as the page `/cluster` has it: what a command says before it asks, and why a node refuses.

use crate::cluster::{ClusterView, GroupView, ReplicaRole};
use crate::goals::{LEADERLESS, is_down, known, some};
use crate::recovery::list;
use std::collections::BTreeSet;

/// Whether a majority of each group is there without the node, as this node sees it.
///
/// # Errors
/// Why none is, or why that is not known, for an operator.
pub fn stoppable(view: &ClusterView, node: u64) -> Result<(), String> {
    known(view, &[node])?;
    if view.is_meta_leaderless {
        return Err(LEADERLESS.to_owned());
    }
    if is_down(view, node) {
        return Err(format!(
            "node {node} is down, as node {} sees it: start it first",
            view.answered_by
        ));
    }
    let lent = view.permits.iter().map(|permit| permit.node);
    let lent: Vec<u64> = lent
        .filter(|other| *other != node && shares_group(view, node, *other))
        .collect();
    if !lent.is_empty() {
        return Err(format!(
            "node {} may stop, or has, and shares groups with node {node}: it has to be back and to have caught up first (chorale admin jobs), \
             or chorale admin cancel may-stop-{}",
            list(lent.iter()),
            lent[0]
        ));
    }
    let its: Vec<&GroupView> = view.groups.iter().filter(|group| is_on(group, node)).collect();
    let numbers = |is: &dyn Fn(&GroupView) -> bool| -> Vec<u16> {
        let found = its.iter().filter(|group| is(group));
        found.map(|group| group.number).collect()
    };
    let few = numbers(&|group| group.voters < 3);
    if !few.is_empty() || view.meta_nodes.len() < 3 && view.meta_nodes.contains(&node) {
        return Err(format!(
            "fewer than three replicas vote in groups {}, or in the meta group, and none can be spared: they stand still while node {node} is \
             away, with permission or without",
            some(&few)
        ));
    }
    let down: BTreeSet<u64> = its
        .iter()
        .flat_map(|group| &group.replicas)
        .map(|replica| replica.node)
        .filter(|other| is_down(view, *other))
        .collect();
    let meta_down = view.meta_nodes.iter().filter(|other| is_down(view, **other));
    let is_meta = view.meta_nodes.contains(&node);
    let down: BTreeSet<u64> = down
        .into_iter()
        .chain(meta_down.filter(|_| is_meta).copied())
        .collect();
    if !down.is_empty() {
        return Err(format!(
            "node {} is down, and has replicas of the same groups: bring it back first, or chorale admin replace",
            list(down.iter())
        ));
    }
    let is_moving = |group: &GroupView| {
        let votes = group
            .replicas
            .iter()
            .all(|replica| replica.role == ReplicaRole::Voter);
        group.leader.is_none() || group.is_unheard || !votes
    };
    let moving = numbers(&is_moving);
    match moving.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "groups {} have no leader, or a replica of them is being filled or taken away: chorale admin status says how they are",
            some(&moving)
        )),
    }
}

/// Whether a group, or the meta group, has a replica on each of two nodes.
fn shares_group(view: &ClusterView, one: u64, other: u64) -> bool {
    let is_meta = [one, other].iter().all(|node| view.meta_nodes.contains(node));
    is_meta
        || view
            .groups
            .iter()
            .any(|group| is_on(group, one) && is_on(group, other))
}

fn is_on(group: &GroupView, node: u64) -> bool {
    let mut replicas = group.replicas.iter();
    replicas.any(|replica| replica.node == node && replica.role != ReplicaRole::Lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{NodeView, PermitView, ReplicaStatus};

    /// Five nodes; a group on the first three, and one on the last three.
    fn view() -> ClusterView {
        let node = |id| NodeView {
            id,
            is_up: true,
            ..NodeView::default()
        };
        let group = |number: u16, nodes: [u64; 3]| GroupView {
            number,
            leader: Some(nodes[0]),
            voters: 3,
            replicas: nodes
                .iter()
                .map(|&node| ReplicaStatus {
                    node,
                    incarnation: node,
                    role: ReplicaRole::Voter,
                    lag: None,
                })
                .collect(),
            ..GroupView::default()
        };
        ClusterView {
            cluster: "c".to_owned(),
            answered_by: 1,
            meta_nodes: vec![1, 2, 3],
            nodes: (1..=5).map(node).collect(),
            groups: vec![group(0, [1, 2, 3]), group(1, [3, 4, 5])],
            ..ClusterView::default()
        }
    }

    #[test]
    fn a_node_may_stop_where_all_others_of_its_groups_are_there() {
        let why = |change: &dyn Fn(&mut ClusterView), node| {
            let mut view = view();
            change(&mut view);
            stoppable(&view, node).err().unwrap_or_default()
        };
        assert_eq!(why(&|_| (), 1), "");
        assert!(why(&|_| (), 9).contains("there is no node 9"));
        assert!(why(&|view| view.nodes[0].is_up = false, 1).contains("node 1 is down, as node 1"));
        assert!(why(&|view| view.nodes[2].is_up = false, 1).contains("node 3 is down, and has"));
        assert_eq!(
            why(&|view| view.nodes[4].is_up = false, 1),
            "",
            "it shares nothing"
        );
        assert!(
            why(&|view| view.groups[0].replicas[1].role = ReplicaRole::Learner, 1)
                .contains("groups 0 have no")
        );
        assert!(why(&|view| view.groups[1].leader = None, 5).contains("groups 1 have no leader"));
        assert!(why(&|view| view.groups[1].voters = 2, 5).contains("groups 1, or"));
        assert!(why(&|view| view.meta_nodes = vec![1], 1).contains("fewer than three"));
        assert!(why(&|view| view.is_meta_leaderless = true, 1).contains("nobody leads the meta group"));
    }

    #[test]
    fn of_nodes_that_share_a_group_one_may_stop() {
        let mut view = view();
        view.permits = vec![PermitView {
            node: 2,
            ..PermitView::default()
        }];
        assert!(stoppable(&view, 1).is_err_and(|why| why.contains("node 2 may stop, or has")));
        assert!(stoppable(&view, 3).is_err());
        assert_eq!(stoppable(&view, 4), Ok(()), "it shares none");
        assert_eq!(stoppable(&view, 2), Ok(()), "it is the one");
        view.groups.clear();
        assert!(stoppable(&view, 1).is_err(), "they share the meta group");
    }
}

//! The cluster as the admin port shows it: this node's map, and whom it hears of.

use crate::view::View;
use admin::{ClusterView, GroupView, NodeView, ReplicaRole, ReplicaView};
use control::{RoutingMap, Standing};
use ids::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// Where the page finds what it shows; empty until the node is a member.
#[derive(Clone, Default)]
pub(crate) struct Page(Arc<OnceLock<(NodeId, Arc<View>)>>);

impl Page {
    /// From now on this node's view is shown.
    pub(crate) fn show(&self, me: NodeId, view: Arc<View>) {
        // A node becomes a member once.
        drop(self.0.set((me, view)));
    }

    /// What is to be shown now.
    pub(crate) fn now(&self) -> ClusterView {
        let shown = self
            .0
            .get()
            .and_then(|(me, view)| Some((*me, view.seen()?, view.reached())));
        shown.map_or_else(ClusterView::alone, |(me, seen, reached)| {
            page(&seen.map, me, &reached)
        })
    }
}

fn page(map: &RoutingMap, me: NodeId, reached: &BTreeSet<NodeId>) -> ClusterView {
    let nodes = map.nodes.iter().map(|(&node, site)| NodeView {
        id: node.0,
        client: site.client.clone(),
        cluster: site.cluster.clone(),
        peer: site.peer.clone(),
        boot: site.boot.0,
        is_up: node == me || reached.contains(&node),
        ..NodeView::default()
    });
    let groups = (0..).zip(&map.groups).map(|(number, route)| GroupView {
        number,
        leader: route.leader.map(|node| node.0),
        replicas: route
            .replicas
            .iter()
            .map(|stop| ReplicaView {
                node: stop.node.0,
                incarnation: stop.incarnation.0,
                role: match stop.standing {
                    Standing::Voter => ReplicaRole::Voter,
                    Standing::Learner => ReplicaRole::Learner,
                    Standing::Expected => ReplicaRole::Expected,
                },
                lag: None,
            })
            .collect(),
        ..GroupView::default()
    });
    ClusterView {
        cluster: map
            .cluster
            .map_or_else(String::new, |cluster| format!("{:032x}", cluster.0)),
        epoch: map.epoch.0,
        answered_by: me.0,
        replication_factor: factor(map),
        meta_leader: map.meta.leader.map(|node| node.0),
        meta_nodes: map.meta.replicas.iter().map(|stop| stop.node.0).collect(),
        nodes: nodes.collect(),
        groups: groups.collect(),
    }
}

/// The map does not say how many replicas a group is to have: what most groups have or expect, of those counts the
/// largest.
fn factor(map: &RoutingMap) -> u8 {
    let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
    for route in &map.groups {
        let replicas = u8::try_from(route.replicas.len()).unwrap_or(u8::MAX);
        *counts.entry(replicas).or_default() += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|&(replicas, groups)| (groups, replicas));
    most.map_or(1, |(replicas, _)| replicas)
}

//! The cluster as a worker sees it: its nodes, who is in reach, which groups they have replicas of.

use crate::cluster::Layout;
use crate::context::Followed;
use crate::topology::Topology;
use ids::{Boot, GroupId, NodeId};
use std::collections::BTreeSet;
use std::sync::Arc;
use txn::Participant;

/// See the file's header.
pub(crate) struct ClusterView {
    /// As clients are told of it.
    pub(crate) topology: Followed<Topology>,
    /// As the meta group has it; `None` before it is known.
    pub(crate) layout: Option<Arc<Layout>>,
    /// Whether keys may be on other nodes.
    pub(crate) is_spread: bool,
    /// The nodes that there is a link to. One that has just joined may be there before the layout that names it.
    pub(crate) links: BTreeSet<NodeId>,
}

impl ClusterView {
    pub(crate) fn new(topology: Arc<Topology>) -> ClusterView {
        ClusterView {
            topology: Followed::new(topology),
            layout: None,
            is_spread: false,
            links: BTreeSet::new(),
        }
    }

    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.as_deref()
    }

    pub(crate) fn me(&self) -> NodeId {
        self.layout().expect("a node knows itself before it has peers").me
    }

    /// A group as it takes part in transactions that begin now.
    pub(crate) fn participant(&self, group: GroupId) -> Participant {
        let generation = self.layout().map_or(0, |layout| layout.group(group).generation);
        Participant { group, generation }
    }

    /// How many replicas beside the leader's hold whatever was acknowledged, in every group.
    pub(crate) fn replicas_beside(&self) -> u16 {
        let groups = self.layout().into_iter().flat_map(|layout| &layout.groups);
        groups.map(|group| group.voters / 2).min().unwrap_or(0)
    }

    fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.layout()
            .into_iter()
            .flat_map(|layout| &layout.peers)
            .copied()
    }

    /// The other nodes that this worker has a link to.
    pub(crate) fn nodes_up(&self) -> impl Iterator<Item = NodeId> {
        self.peers().filter(|node| self.links.contains(node))
    }

    /// The other nodes that it has none to.
    pub(crate) fn nodes_down(&self) -> impl Iterator<Item = NodeId> {
        self.peers().filter(|node| !self.links.contains(node))
    }

    /// Whether a boot is over, as the cluster knows.
    pub(crate) fn is_dead(&self, boot: Boot) -> bool {
        self.layout()
            .is_some_and(|layout| boot <= layout.boots.0 && !layout.boots.1.contains(&boot))
    }

    /// Whether the node of this boot is known, and there is no link to it.
    pub(crate) fn is_boot_down(&self, boot: Boot) -> bool {
        let node = self.layout().and_then(|layout| layout.node_of(boot));
        node.is_some_and(|node| self.nodes_down().any(|down| down == node))
    }
}

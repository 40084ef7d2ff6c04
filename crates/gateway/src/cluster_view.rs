//! The cluster as a worker sees it: its nodes, who is in reach and who is silent, which groups they have replicas of.

use crate::cluster::{GroupLayout, Layout};
use crate::context::Followed;
use crate::topology::Topology;
use consensus::Times;
use ids::{Boot, DurabilityMode, GroupId, Monotonic, NodeId};
use peer_wire::DiskHealth;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use txn::Participant;

/// A node of which nothing was heard for so long, although it is in reach, is not waited for by the groups that it leads.
const SILENT_AFTER: Duration = Times::DEFAULT.election_min;

/// See the file's header.
pub(crate) struct ClusterView {
    /// As clients are told of it.
    pub(crate) topology: Followed<Topology>,
    /// As the meta group has it; `None` before it is known.
    pub(crate) layout: Option<Arc<Layout>>,
    /// Whether groups are asked through their logs: keys may be on other nodes, or outlive this process.
    pub(crate) is_spread: bool,
    /// Whether there are groups that nobody can serve, because what was kept of them is still being read.
    pub(crate) is_loading: bool,
    /// Whether groups here have had logs on disk.
    has_logs: bool,
    /// The nodes that there is a link to. One that has just joined may be there before the layout that names it.
    links: BTreeMap<NodeId, Link>,
    /// How the disk here is.
    own_disk: DiskHealth,
    /// Whether any that was in reach was full when this was last asked.
    had_short_disk: bool,
}

/// The link to a node, while it is up.
struct Link {
    /// When something was last heard of the node; later if this worker could not hear.
    heard: Monotonic,
    /// Whether the groups were told that it is silent.
    is_silent: bool,
    /// Whether a long message is on its way from or to this worker of it.
    is_moving: bool,
    /// How it says that its disk is.
    disk: DiskHealth,
}

impl ClusterView {
    pub(crate) fn new(topology: Arc<Topology>) -> ClusterView {
        ClusterView {
            topology: Followed::new(topology),
            layout: None,
            is_spread: false,
            is_loading: false,
            has_logs: false,
            links: BTreeMap::new(),
            own_disk: DiskHealth::default(),
            had_short_disk: false,
        }
    }

    /// The cluster is another one. Of groups that the meta group has not heard of, what was known before stays.
    pub(crate) fn set_layout(&mut self, mut layout: Arc<Layout>) {
        // What has a log keeps it when nothing outlives its process any more.
        let had_logs = self.layout().is_some_and(Layout::is_durable) || self.has_logs;
        self.has_logs = had_logs;
        self.is_spread = !layout.peers.is_empty() || layout.is_durable() || had_logs;
        if let Some(known) = &self.layout
            && layout.groups.iter().any(|group| group.is_unheard)
        {
            Arc::make_mut(&mut layout).keep_unheard(known);
        }
        self.layout = Some(layout);
    }

    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.as_deref()
    }

    pub(crate) fn me(&self) -> NodeId {
        self.layout().expect("a node knows itself before it has peers").me
    }

    /// Whether groups of this node may carry out scripts at once, on whichever worker: it is alone, and where they have logs, those are
    /// written before anything is answered. `only_reads`: whether that is all the script does.
    pub(crate) fn may_run_at_once(&self, only_reads: bool) -> bool {
        let Some(layout) = self.layout() else { return true };
        layout.peers.is_empty()
            && match layout.durability {
                DurabilityMode::Memory => !self.is_spread,
                DurabilityMode::Relaxed => true,
                DurabilityMode::Strict => only_reads,
            }
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

    fn is_peer(&self, node: NodeId) -> bool {
        self.layout().is_some_and(|layout| layout.peers.contains(&node))
    }

    /// Whether this is another node that this worker has a link to.
    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.links.contains_key(&node) && self.is_peer(node)
    }

    /// Whether this is another node that it has none to.
    pub(crate) fn is_down(&self, node: NodeId) -> bool {
        !self.links.contains_key(&node) && self.is_peer(node)
    }

    /// The other nodes that this worker has a link to.
    pub(crate) fn nodes_up(&self) -> impl Iterator<Item = NodeId> {
        self.peers().filter(|node| self.links.contains_key(node))
    }

    /// The other nodes that it has none to.
    pub(crate) fn nodes_down(&self) -> impl Iterator<Item = NodeId> {
        self.peers().filter(|node| !self.links.contains_key(node))
    }

    /// Whether a node can be counted on: this one, or one that is in reach and not silent.
    pub(crate) fn is_there(&self, node: NodeId) -> bool {
        let is_heard = || self.links.get(&node).is_some_and(|link| !link.is_silent);
        node == self.me() || self.is_peer(node) && is_heard()
    }

    /// Whether a long message is on its way on the link to a node.
    pub(crate) fn is_moving(&self, node: NodeId) -> bool {
        self.links.get(&node).is_some_and(|link| link.is_moving)
    }

    /// How the disk here is.
    pub(crate) fn own_disk(&self) -> DiskHealth {
        self.own_disk
    }

    pub(crate) fn set_own_disk(&mut self, disk: DiskHealth) {
        self.own_disk = disk;
    }

    /// Another node says how its disk is.
    pub(crate) fn on_disk_health(&mut self, node: NodeId, disk: DiskHealth) {
        if let Some(link) = self.links.get_mut(&node) {
            link.disk = disk;
        }
    }

    /// How the disks are of the other nodes that are in reach.
    pub(crate) fn other_disks(&self) -> impl Iterator<Item = DiskHealth> {
        self.nodes_up().map(|node| self.links[&node].disk)
    }

    /// Whether any disk in reach is full, or was when this was last asked.
    pub(crate) fn has_short_disk(&mut self) -> bool {
        let is_any = self.own_disk.is_short || self.other_disks().any(|disk| disk.is_short);
        std::mem::replace(&mut self.had_short_disk, is_any) || is_any
    }

    /// How the disk of a node is, if it is in reach.
    fn disk_of(&self, node: NodeId) -> Option<DiskHealth> {
        if node == self.me() {
            return Some(self.own_disk);
        }
        // Two that follow in all their groups have nothing to say to each other: that it is silent says nothing.
        let link = self.links.get(&node).filter(|_| self.is_peer(node));
        link.map(|link| link.disk)
    }

    /// Whether another node is there, and its disk is fit to lead with.
    pub(crate) fn may_lead(&self, node: NodeId) -> bool {
        self.is_up(node) && self.disk_of(node).is_some_and(DiskHealth::may_lead)
    }

    /// Whether a node says that its disk is not fit to lead with.
    pub(crate) fn is_unfit(&self, node: NodeId) -> bool {
        self.disk_of(node).is_some_and(|disk| !disk.may_lead())
    }

    /// Whether a group has voters whose disks are full, and no majority of it is there without them: what is asked of it now could
    /// use up what room is left, and would wait then for as long as there is none. If too few are in reach, whoever asks is told so.
    pub(crate) fn is_full(&self, group: &GroupLayout) -> bool {
        let is_short = |node| self.disk_of(node).is_some_and(|disk| disk.is_short);
        let has_room = |node| self.disk_of(node).is_some_and(|disk| !disk.is_short);
        let voters = || group.voting.iter().filter_map(|voter| group.seats.get(voter));
        voters().any(|node| is_short(*node))
            && !group.has_majority(has_room)
            && group.has_majority(|node| self.disk_of(node).is_some())
    }

    /// The link to a node came up, or broke.
    pub(crate) fn on_link(&mut self, node: NodeId, is_up: bool, now: Monotonic) {
        if is_up {
            let link = Link {
                heard: now,
                is_silent: false,
                is_moving: false,
                disk: DiskHealth::default(),
            };
            self.links.insert(node, link);
        } else {
            self.links.remove(&node);
        }
    }

    /// A long message begins or ends on the link to a node.
    pub(crate) fn on_moving(&mut self, node: NodeId, is_moving: bool) {
        if let Some(link) = self.links.get_mut(&node) {
            link.is_moving = is_moving;
        }
    }

    /// Something was heard of a node.
    pub(crate) fn heard(&mut self, node: NodeId, now: Monotonic) {
        if let Some(link) = self.links.get_mut(&node) {
            (link.heard, link.is_silent) = (now, false);
        }
    }

    /// This process stood still: it cannot tell who was silent meanwhile.
    pub(crate) fn stood_still(&mut self, now: Monotonic) {
        self.links.values_mut().for_each(|link| link.heard = now);
    }

    /// The nodes that have come to be silent for long. A process that stands still keeps its links.
    pub(crate) fn newly_silent(&mut self, now: Monotonic) -> Vec<NodeId> {
        let peers = self.layout.iter().flat_map(|layout| &layout.peers);
        let is_new = |node: &&NodeId| {
            let link = self.links.get_mut(node);
            let link = link.filter(|link| !link.is_silent && now >= link.heard.after(SILENT_AFTER));
            link.map(|link| link.is_silent = true).is_some()
        };
        peers.filter(is_new).copied().collect()
    }

    /// Whether a boot is over, as the cluster knows.
    pub(crate) fn is_dead(&self, boot: Boot) -> bool {
        self.layout()
            .is_some_and(|layout| boot <= layout.boots.0 && !layout.boots.1.contains(&boot))
    }

    /// Whether the node of this boot is known, and there is no link to it.
    pub(crate) fn is_boot_down(&self, boot: Boot) -> bool {
        let node = self.layout().and_then(|layout| layout.node_of(boot));
        node.is_some_and(|node| self.is_down(node))
    }
}

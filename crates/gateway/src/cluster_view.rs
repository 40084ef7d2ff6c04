//! The cluster as a worker sees it: its nodes, who is in reach and who is silent, which groups they have replicas of.

use crate::cluster::{GroupLayout, Layout};
use crate::context::Followed;
use crate::fanout::QUESTION_BITS;
use crate::topology::Topology;
use consensus::Times;
use ids::{Boot, DurabilityMode, GroupId, Groups, Monotonic, NodeId, PeerWorker};
use mutations::Mutation;
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
    /// This worker, how many this node has, and what they share.
    own: (u16, u16),
    /// As they were founded: which worker has a group, and who has links, is the same whatever is added.
    groups: Groups,
    /// The nodes that have another number of workers than this one, and which.
    unlike: BTreeMap<NodeId, Unlike>,
    /// The nodes that there are all links to. One that has just joined may be there before the layout that names it.
    links: BTreeMap<NodeId, Vec<Link>>,
    /// How the disk here is.
    own_disk: DiskHealth,
    /// Whether any that was in reach was full when this was last asked.
    had_short_disk: bool,
}

/// A node that has another number of workers than this one.
#[derive(Clone, Copy)]
struct Unlike {
    workers: u16,
    /// Whether its build knows of links that only groups need that are added.
    knows_more: bool,
}

/// The link to a worker of a node, while it is up.
struct Link {
    /// The worker.
    worker: u16,
    /// When something was last heard of it; later if this worker could not hear.
    heard: Monotonic,
    /// Whether the groups were told that it is silent.
    is_silent: bool,
    /// Whether a long message is on its way from it or to it.
    is_moving: bool,
    /// How it says that its disk is.
    disk: DiskHealth,
}

/// How the disk of a node is, by what its workers say of it.
fn worst_disk(links: &[Link]) -> DiskHealth {
    let disks = links.iter().map(|link| link.disk);
    let both = |one: DiskHealth, other: DiskHealth| DiskHealth {
        is_short: one.is_short || other.is_short,
        is_slow: one.is_slow || other.is_slow,
        sync_p99: one.sync_p99.max(other.sync_p99),
    };
    disks.reduce(both).unwrap_or_default()
}

impl ClusterView {
    /// As `worker` of so many sees it.
    pub(crate) fn new(topology: Arc<Topology>, worker: u16, workers: u16, groups: Groups) -> ClusterView {
        ClusterView {
            own: (worker, workers),
            groups,
            unlike: BTreeMap::new(),
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
            && (layout.groups.iter().any(|group| group.is_unheard)
                || layout.groups.len() < known.groups.len())
        {
            Arc::make_mut(&mut layout).keep_unheard(known);
        }
        let links = &self.links;
        self.unlike
            .retain(|node, _| layout.peers.contains(node) || links.contains_key(node));
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

    /// Whether this is another node that this worker has all its links to.
    pub(crate) fn is_up(&self, node: NodeId) -> bool {
        self.links.contains_key(&node) && self.is_peer(node)
    }

    /// Whether what is sent to a node arrives there, as far as is known: this one's own, too.
    pub(crate) fn is_in_reach(&self, node: NodeId) -> bool {
        node == self.me() || self.is_up(node)
    }

    /// Whether this is another node that it lacks one to.
    pub(crate) fn is_down(&self, node: NodeId) -> bool {
        !self.links.contains_key(&node) && self.is_peer(node)
    }

    /// The other nodes that this worker has all its links to.
    pub(crate) fn nodes_up(&self) -> impl Iterator<Item = NodeId> {
        self.peers().filter(|node| self.links.contains_key(node))
    }

    /// The other nodes that it lacks one to.
    pub(crate) fn nodes_down(&self) -> impl Iterator<Item = NodeId> {
        self.peers().filter(|node| !self.links.contains_key(node))
    }

    /// Learns how many workers another node has, before anything is said to it, and whether its build knows of more groups than were founded.
    pub(crate) fn set_workers_of(&mut self, node: NodeId, workers: u16, knows_more: bool) {
        if self.unlike.contains_key(&node) && mutations::is(Mutation::FormerWorkersKept) {
            return;
        }
        if workers == self.own.1 {
            self.unlike.remove(&node);
        } else {
            self.unlike.insert(node, Unlike { workers, knows_more });
        }
    }

    fn workers_of(&self, node: NodeId) -> u16 {
        self.unlike.get(&node).map_or(self.own.1, |unlike| unlike.workers)
    }

    /// The workers of another node that this one has links with.
    pub(crate) fn counterparts(&self, node: NodeId) -> impl Iterator<Item = PeerWorker> + use<> {
        let (worker, workers) = self.own;
        let others = self.workers_of(node);
        let knows_more = self.unlike.get(&node).is_none_or(|unlike| unlike.knows_more);
        let linked = self.groups.linked_workers((worker, workers), others, knows_more);
        linked.map(move |worker| PeerWorker { node, worker })
    }

    /// A worker of another node that this one has a link with, for what is of no group.
    pub(crate) fn any_counterpart(&self, node: NodeId) -> PeerWorker {
        let mut counterparts = self.counterparts(node);
        counterparts.next().expect("every worker has a counterpart")
    }

    /// The worker of another node that has a group.
    pub(crate) fn counterpart(&self, node: NodeId, group: GroupId) -> PeerWorker {
        let worker = match self.unlike.get(&node) {
            None => self.own.0,
            Some(unlike) => self.groups.worker_of(group, unlike.workers),
        };
        PeerWorker { node, worker }
    }

    /// The worker of another node that asked a question of this number, as `Fanout` gives them.
    pub(crate) fn asker(&self, node: NodeId, id: u64) -> PeerWorker {
        // A build that knows only of nodes with as many workers does not say in a number who asks.
        let worker = match self.unlike.contains_key(&node) {
            false => self.own.0,
            true => (id >> QUESTION_BITS) as u16,
        };
        PeerWorker { node, worker }
    }

    fn link(&self, peer: PeerWorker) -> Option<&Link> {
        let mut links = self.links.get(&peer.node)?.iter();
        links.find(|link| link.worker == peer.worker)
    }

    fn link_mut(&mut self, peer: PeerWorker) -> Option<&mut Link> {
        let mut links = self.links.get_mut(&peer.node)?.iter_mut();
        links.find(|link| link.worker == peer.worker)
    }

    /// Whether a node can be counted on in a group: this one, or one that is in reach and whose worker that has the group is not silent.
    pub(crate) fn is_there(&self, node: NodeId, group: GroupId) -> bool {
        let is_heard = || {
            self.link(self.counterpart(node, group))
                .is_some_and(|link| !link.is_silent)
        };
        node == self.me() || self.is_peer(node) && is_heard()
    }

    /// Whether a long message is on its way on a link to a node.
    pub(crate) fn is_moving(&self, node: NodeId) -> bool {
        self.links
            .get(&node)
            .is_some_and(|links| links.iter().any(|link| link.is_moving))
    }

    /// How the disk here is.
    pub(crate) fn own_disk(&self) -> DiskHealth {
        self.own_disk
    }

    pub(crate) fn set_own_disk(&mut self, disk: DiskHealth) {
        self.own_disk = disk;
    }

    /// A worker of another node says how its disk is.
    pub(crate) fn on_disk_health(&mut self, from: PeerWorker, disk: DiskHealth) {
        if let Some(link) = self.link_mut(from) {
            link.disk = disk;
        }
    }

    /// How the disks are of the other nodes that are in reach.
    pub(crate) fn other_disks(&self) -> impl Iterator<Item = DiskHealth> {
        self.nodes_up().map(|node| worst_disk(&self.links[&node]))
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
        let links = self.links.get(&node).filter(|_| self.is_peer(node));
        links.map(|links| worst_disk(links))
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

    /// All links to a node are up, or one of them broke.
    pub(crate) fn on_link(&mut self, node: NodeId, is_up: bool, now: Monotonic) {
        if is_up {
            let links = self.counterparts(node).map(|peer| Link {
                worker: peer.worker,
                heard: now,
                is_silent: false,
                is_moving: false,
                disk: DiskHealth::default(),
            });
            self.links.insert(node, links.collect());
        } else {
            self.links.remove(&node);
        }
    }

    /// A long message begins or ends on the link to a worker of a node.
    pub(crate) fn on_moving(&mut self, peer: PeerWorker, is_moving: bool) {
        if let Some(link) = self.link_mut(peer) {
            link.is_moving = is_moving;
        }
    }

    /// Something was heard of a worker of a node.
    pub(crate) fn heard(&mut self, from: PeerWorker, now: Monotonic) {
        if let Some(link) = self.link_mut(from) {
            (link.heard, link.is_silent) = (now, false);
        }
    }

    /// This process stood still: it cannot tell who was silent meanwhile.
    pub(crate) fn stood_still(&mut self, now: Monotonic) {
        let links = self.links.values_mut().flatten();
        links.for_each(|link| link.heard = now);
    }

    /// The workers of nodes that have come to be silent for long. A process that stands still keeps its links.
    pub(crate) fn newly_silent(&mut self, now: Monotonic) -> Vec<PeerWorker> {
        let mut silent = Vec::new();
        for &node in self.layout.iter().flat_map(|layout| &layout.peers) {
            for link in self.links.get_mut(&node).into_iter().flatten() {
                if !link.is_silent && now >= link.heard.after(SILENT_AFTER) {
                    link.is_silent = true;
                    let worker = link.worker;
                    silent.push(PeerWorker { node, worker });
                }
            }
        }
        silent
    }

    /// Whether a boot is over, as the cluster knows.
    pub(crate) fn is_dead(&self, boot: Boot) -> bool {
        self.layout().is_some_and(|layout| layout.boots.is_dead(boot))
    }

    /// Whether the node of this boot is known, and there is no link to it.
    pub(crate) fn is_boot_down(&self, boot: Boot) -> bool {
        let node = self.layout().and_then(|layout| layout.node_of(boot));
        node.is_some_and(|node| self.is_down(node))
    }
}

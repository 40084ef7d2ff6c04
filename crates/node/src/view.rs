//! The cluster as the workers of this node are to see it: written by the thread of the meta group, read by each worker when
//! its number has changed.

use crate::meta::{Granted, Remains};
use crate::status::Ledger;
use control::{Mend, Order, RoutingMap};
use gateway::{GroupPlacement, Layout, NodeHealth, NodeIndex, NodeName, Topology, TopologyNode};
use ids::{GroupId, NodeId, UnixMillis};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use storage::PeerBook;

/// One version of it.
pub(crate) struct Seen {
    pub(crate) layout: Arc<Layout>,
    pub(crate) map: Arc<RoutingMap>,
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct View {
    version: AtomicU64,
    seen: Mutex<Option<Arc<Seen>>>,
    ledger: Mutex<Option<Arc<Ledger>>>,
    remains: Mutex<Remains>,
    ended: Mutex<Option<String>>,
    has_left: AtomicBool,
    /// For each worker, what leaders of its groups are asked for. Bounded by the steps of one look of the reconciler, and
    /// emptied by the worker's next turn.
    orders: Mutex<Vec<(GroupId, u64, Order)>>,
    /// Likewise, what they are to know of partitions: bounded by these.
    mends: Mutex<Vec<Mend>>,
    orders_version: AtomicU64,
    /// For each worker, what became of what it wished of the meta group. Bounded by the wishes under way, and emptied by the
    /// worker's next turn.
    outcomes: Mutex<Vec<Granted>>,
    outcomes_version: AtomicU64,
}

impl View {
    /// Changes with each version.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The newest version.
    pub(crate) fn seen(&self) -> Option<Arc<Seen>> {
        lock(&self.seen).clone()
    }

    pub(crate) fn set(&self, seen: Seen) {
        *lock(&self.seen) = Some(Arc::new(seen));
        self.version.fetch_add(1, Ordering::Release);
    }

    /// What the meta group's replica here knows beside the map, if there is one.
    pub(crate) fn ledger(&self) -> Option<Arc<Ledger>> {
        lock(&self.ledger).clone()
    }

    pub(crate) fn set_ledger(&self, ledger: Option<Ledger>) {
        *lock(&self.ledger) = ledger.map(Arc::new);
    }

    /// What is left of groups that nobody leads.
    pub(crate) fn remains(&self) -> Remains {
        lock(&self.remains).clone()
    }

    pub(crate) fn set_remains(&self, remains: Remains) {
        *lock(&self.remains) = remains;
    }

    /// Why the node ends, if nobody told it to.
    pub(crate) fn why_ended(&self) -> Option<String> {
        lock(&self.ended).clone()
    }

    pub(crate) fn end(&self, why: String) {
        lock(&self.ended).get_or_insert(why);
    }

    /// Whether the node has left the cluster, as an operator wanted.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    pub(crate) fn leave(&self) {
        self.has_left.store(true, Ordering::Release);
    }

    /// Changes with new orders.
    #[inline]
    pub(crate) fn orders_version(&self) -> u64 {
        self.orders_version.load(Ordering::Acquire)
    }

    pub(crate) fn order(&self, group: GroupId, index: u64, order: Order) {
        lock(&self.orders).push((group, index, order));
        self.orders_version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn mend(&self, mend: Mend) {
        lock(&self.mends).push(mend);
        self.orders_version.fetch_add(1, Ordering::Release);
    }

    /// Takes those of groups that `is_ours` names.
    pub(crate) fn take_mends(&self, is_ours: impl Fn(GroupId) -> bool) -> Vec<Mend> {
        lock(&self.mends)
            .extract_if(.., |mend| is_ours(mend.group))
            .collect()
    }

    /// Changes with new outcomes.
    #[inline]
    pub(crate) fn outcomes_version(&self) -> u64 {
        self.outcomes_version.load(Ordering::Acquire)
    }

    /// What a worker wished is done, or it is not known whether it will be.
    pub(crate) fn outcome(&self, granted: Granted) {
        lock(&self.outcomes).push(granted);
        self.outcomes_version.fetch_add(1, Ordering::Release);
    }

    /// Takes the outcomes of what a worker wished.
    pub(crate) fn take_outcomes(&self, worker: u16) -> Vec<Granted> {
        lock(&self.outcomes)
            .extract_if(.., |(whose, ..)| *whose == worker)
            .collect()
    }

    /// Takes the orders for groups that `is_ours` names.
    pub(crate) fn take_orders(&self, is_ours: impl Fn(GroupId) -> bool) -> Vec<(GroupId, u64, Order)> {
        lock(&self.orders)
            .extract_if(.., |(group, ..)| is_ours(*group))
            .collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a map says of where the others are, to be written down.
pub(crate) fn book(map: &RoutingMap, me: NodeId) -> PeerBook {
    let others = map.nodes.iter().filter(|(node, _)| **node != me);
    PeerBook {
        peers: others.map(|(&node, site)| (node, site.peer.clone())).collect(),
    }
}

/// The cluster as clients of the cluster endpoint are told of it.
pub(crate) fn topology(map: &RoutingMap, me: NodeId) -> Option<Topology> {
    let groups = map.key_groups()?;
    let numbers: Vec<NodeId> = map.nodes.keys().copied().collect();
    let index = |node: NodeId| numbers.binary_search(&node).ok().map(|at| NodeIndex(at as u16));
    let nodes = map.nodes.iter().map(|(&node, site)| {
        let (host, port) = split(&site.cluster);
        TopologyNode {
            name: name(map, node),
            host,
            port,
            zone: site.zone.clone(),
            peer_port: split(&site.peer).1,
            health: if site.is_fenced {
                NodeHealth::Failed
            } else {
                NodeHealth::Online
            },
            heard_at: UnixMillis(0),
            link: None,
            epoch: map.epoch,
        }
    });
    let placements = map.groups.iter().map(|route| {
        let leader = route.leader.and_then(index);
        let others = route.replicas.iter().filter_map(|stop| index(stop.node));
        let mut followers: Vec<NodeIndex> = others.filter(|node| Some(*node) != leader).collect();
        followers.sort_unstable();
        followers.dedup();
        GroupPlacement { leader, followers }
    });
    Some(Topology::new(
        index(me)?,
        nodes.collect(),
        groups,
        placements.collect(),
        map.epoch,
    ))
}

/// What clients call a node: it stays as long as the node is a member.
pub(crate) fn name(map: &RoutingMap, node: NodeId) -> NodeName {
    let cluster = map.cluster.map_or(0, |cluster| cluster.0).to_be_bytes();
    let mut name = NodeName::default();
    name.0[..12].copy_from_slice(&cluster[..12]);
    name.0[12..].copy_from_slice(&node.0.to_be_bytes());
    name
}

/// Host and port of an address; the host without the brackets of IPv6.
fn split(address: &str) -> (String, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (host.to_owned(), port.parse().unwrap_or(0))
}

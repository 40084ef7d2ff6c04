//! One worker's links to workers of other nodes: between the gateway's messages and sockets.
//!
//! ```text
//!   groups         0  1  2  3  4  5  6  7  8  9 10 11
//!   4 workers     |   0    |   1    |   2    |   3    |
//!                     |        |        |        |           a link wherever both have a group
//!   2 workers     |        0        |        1        |
//! ```
//!
//! Two nodes with as many workers have a link from each worker to the one of the same number. How many another node has is known from its
//! introductions, and the first link goes to the worker of the same number: if that turns out to be none that this one has a group with, it is
//! closed, and the right ones are dialled. The gateway knows of a node once all links with it are up.

use crate::clock;
use crate::meta::{self, Input};
use crate::resolver::Resolver;
use crate::view::{self, View};
use control::RoutingMap;
use gateway::{Gateway, LinkStatus, PeerLink};
use ids::{Boot, ClusterId, GroupCount, Groups, Monotonic, NodeId, PeerWorker, SemanticsVersion, UnixMillis};
use mio::Registry;
use mio::event::Event as Readiness;
use peer_wire::hello::{HelloRefusal, Nonce, Peer, Secret, Who};
use peer_wire::{Join, PeerMessage, Question};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use transport::{Arrival, Greeter, Lane, LinkId, Remote, Transport, TransportEvent, TransportSettings};

/// Tokens from here on are the links' to other nodes.
pub(crate) const PEERS: usize = 1 << 40;

/// Links that one worker accepted for another.
pub(crate) type Handed = Arc<Vec<Mutex<Vec<Arrival<Peer>>>>>;

/// How long a member waits for one whose part it is to dial.
const DIALLED_AFTER: std::time::Duration = std::time::Duration::from_secs(3);

/// What happened to a link.
pub(crate) enum Happening {
    Up(LinkId, Peer),
    Down(LinkId),
    Message(LinkId, PeerMessage),
    /// What came over it is nothing that a node says.
    Nonsense(LinkId, String),
    Arrival(u16, Box<Arrival<Peer>>),
}

/// See the file's header.
pub(crate) struct Peers {
    transport: Transport<Greeter>,
    worker: u16,
    workers: u16,
    me: NodeId,
    view: Arc<View>,
    view_version: u64,
    orders_version: u64,
    outcomes_version: u64,
    handed: Handed,
    meta: Sender<Input>,
    outbox: Arc<meta::Outbox>,
    dialling: Dialling,
    group_reports_at: Monotonic,
    groups: Groups,
    linked: BTreeMap<NodeId, Linked>,
    linked_at: Monotonic,
    /// Whether the last look found replicas that know no leader.
    has_recovery_sources: bool,
    /// Whether it found any that were given up.
    has_given_up: bool,
    /// Whether it found anything to say of partitions.
    has_partition_notes: bool,
}

/// A node that has spoken to this worker by a link.
struct Linked {
    /// Its workers that there is a link to, of those that there is to be one to.
    up: BTreeSet<u16>,
    /// Whether the gateway knows of it.
    is_known: bool,
    connected_at: UnixMillis,
    heard_at: UnixMillis,
}

/// Whom a worker dials, and where.
struct Dialling {
    links: BTreeSet<LinkId>,
    /// How many workers nodes have that have another number than this one.
    unlike: BTreeMap<NodeId, Unlike>,
    /// Since when nodes are missed whose part it is to dial this one.
    missed: BTreeMap<NodeId, Monotonic>,
    /// Whether no map has been seen yet. By the first one this worker dials everybody, whosever part it is: others dial a node that starts
    /// once they know of it, and have failed with its former start, or before it listened; its first clients would wait for their next attempt.
    is_starting: bool,
    resolver: Resolver,
    /// As of which all were dialled where their names lead.
    resolver_version: u64,
}

/// A node that has another number of workers than this one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Unlike {
    workers: u16,
    /// Whether its build knows of links that only groups need that are added.
    knows_more: bool,
}

/// Who this node is to others.
#[derive(Clone)]
pub(crate) struct Own {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) boot: Boot,
    pub(crate) secret: Secret,
    pub(crate) workers: u16,
    pub(crate) groups: Groups,
}

/// Introduces worker `worker` of so many of this node, whose cluster was founded with so many groups.
pub(crate) fn greeter(
    who: Who,
    secret: Secret,
    (worker, workers): (u16, u16),
    groups: Option<GroupCount>,
    view: Option<Arc<View>>,
) -> Greeter {
    Greeter {
        who,
        secret,
        worker,
        workers,
        groups,
        judge: Arc::new(move |peer: &Peer| judge(peer, view.as_deref())),
        nonces: Box::new(|| Nonce(crate::random::bytes().expect("it was read at the start"))),
        refusals: None,
        answered: 0,
    }
}

/// Who may come in. Whoever is not known yet may have joined a moment ago: the map comes with it.
fn judge(peer: &Peer, view: Option<&View>) -> Option<HelloRefusal> {
    let seen = view?.seen()?;
    let node = peer.who.node()?;
    let site = seen.map.nodes.get(&node)?;
    let boot = match peer.who {
        Who::Member { boot, .. } => boot,
        Who::Starting { .. } | Who::Joining | Who::Founding { .. } => return None,
    };
    (boot < site.boot).then_some(HelloRefusal::OldBoot)
}

impl Peers {
    #[expect(clippy::too_many_arguments, reason = "they are what a worker has")]
    pub(crate) fn new(
        own: &Own,
        worker: u16,
        registry: Registry,
        view: Arc<View>,
        resolver: Resolver,
        handed: Handed,
        meta: Sender<Input>,
        outbox: Arc<meta::Outbox>,
        seed: u64,
    ) -> Peers {
        let settings = TransportSettings {
            own: Some(own.node),
            worker,
            first_token: PEERS,
            seed,
        };
        let who = Who::Member {
            cluster: own.cluster,
            node: own.node,
            boot: own.boot,
        };
        let greeter = greeter(
            who,
            own.secret.clone(),
            (worker, own.workers),
            Some(own.groups.founded()),
            Some(view.clone()),
        );
        Peers {
            transport: Transport::new(settings, greeter, registry),
            worker,
            workers: own.workers,
            me: own.node,
            view,
            view_version: 0,
            orders_version: 0,
            outcomes_version: 0,
            handed,
            meta,
            outbox,
            dialling: Dialling {
                links: BTreeSet::new(),
                unlike: BTreeMap::new(),
                missed: BTreeMap::new(),
                is_starting: true,
                resolver,
                resolver_version: 0,
            },
            group_reports_at: Monotonic(0),
            groups: own.groups,
            linked: BTreeMap::new(),
            linked_at: Monotonic(0),
            has_recovery_sources: false,
            has_given_up: false,
            has_partition_notes: false,
        }
    }

    pub(crate) fn listen(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        self.transport.listen(address)
    }

    pub(crate) fn owns(&self, token: mio::Token) -> bool {
        self.transport.owns(token)
    }

    /// What the system reports for a link.
    pub(crate) fn on_ready(&mut self, readiness: &Readiness, gateway: &mut Gateway) {
        let mut happened = Vec::new();
        self.transport
            .on_ready(readiness, clock::raw(), &mut |event| happened.extend(note(event)));
        self.handle(happened, gateway);
    }

    /// At a turn's beginning: what was handed over by others, and what is due.
    pub(crate) fn begin(&mut self, gateway: &mut Gateway, is_ours: impl Fn(ids::GroupId) -> bool) {
        let now = clock::raw();
        let mut happened = Vec::new();
        let arrivals = {
            let mut handed = self.handed[usize::from(self.worker)]
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *handed)
        };
        for arrival in arrivals {
            self.transport
                .adopt(arrival, now, &mut |event| happened.extend(note(event)));
        }
        self.transport
            .tick(now, &mut |event| happened.extend(note(event)));
        let (view, resolver) = (self.view.version(), self.dialling.resolver.version());
        if (self.view_version, self.dialling.resolver_version) != (view, resolver)
            && let Some(seen) = self.view.seen()
        {
            self.dialling.resolver_version = resolver;
            self.dial(&seen.map, now, &mut happened);
            if self.view_version != view {
                self.view_version = view;
                gateway.set_layout(seen.layout.clone());
            }
        }
        self.handle(happened, gateway);
        if self.outcomes_version != self.view.outcomes_version() {
            self.outcomes_version = self.view.outcomes_version();
            for (_, wish, versions) in self.view.take_outcomes(self.worker) {
                gateway.on_wish(wish, versions);
            }
        }
        if self.orders_version != self.view.orders_version() {
            self.orders_version = self.view.orders_version();
            for (group, index, order) in self.view.take_orders(&is_ours) {
                gateway.on_order(group, index, &order);
            }
            for mend in self.view.take_mends(is_ours) {
                gateway.on_mend(&mend);
            }
        }
    }

    /// Dials the nodes that are this one's to dial, all of them when it starts, and lets go of those that are members no longer.
    fn dial(&mut self, map: &RoutingMap, now: Monotonic, happened: &mut Vec<Happening>) {
        let me = self.me;
        let is_starting = std::mem::take(&mut self.dialling.is_starting);
        for (&node, site) in map.nodes.iter().filter(|(node, _)| **node != me) {
            for link in self.links_to(node) {
                if is_starting || link.is_dialled_by(self.me) || self.dialling.links.contains(&link) {
                    self.dial_at(link, &site.peer, now);
                    self.dialling.links.insert(link);
                }
            }
        }
        let is_gone = |link: &LinkId| match link.remote {
            Remote::Node(node) => !map.nodes.contains_key(&node) || !self.links_to(node).contains(link),
            Remote::Joiner(_) | Remote::Contact(_) => true,
        };
        let gone: Vec<LinkId> = self.dialling.links.iter().copied().filter(is_gone).collect();
        let linked = &self.linked;
        self.dialling
            .unlike
            .retain(|node, _| map.nodes.contains_key(node) || linked.contains_key(node));
        for link in gone {
            self.dialling.links.remove(&link);
            self.transport
                .forget(link, now, &mut |event| happened.extend(note(event)));
        }
    }

    fn dial_at(&mut self, link: LinkId, peer: &str, now: Monotonic) {
        self.transport
            .dial_any(link, &self.dialling.resolver.addresses(peer), now);
    }

    /// Has the names of nodes looked up that there is no link with: they may lead elsewhere by now.
    fn look_for_missed(&self) {
        let Some(seen) = self.view.seen() else { return };
        let missed = seen.map.nodes.iter();
        let missed = missed.filter(|(node, _)| **node != self.me && !self.is_known(**node));
        missed.for_each(|(_, site)| self.dialling.resolver.want(&site.peer));
    }

    /// Dials members whose part it is to dial, and who have not for long. They may not know of this one: a node that was away
    /// when this one joined goes by an older map, and learns of it from nobody if this one leads the meta group by now.
    fn dial_missed(&mut self, now: Monotonic) {
        let Some(seen) = self.view.seen() else { return };
        for (&node, site) in &seen.map.nodes {
            let links = self.links_to(node);
            let is_dialled = links.first().is_some_and(|link| link.is_dialled_by(self.me));
            if node == self.me || is_dialled || self.is_known(node) {
                continue;
            }
            let since = *self.dialling.missed.entry(node).or_insert(now);
            if now.since(since) >= DIALLED_AFTER {
                for link in links {
                    if self.is_up(link) {
                        continue;
                    }
                    self.dial_at(link, &site.peer, now);
                    self.dialling.links.insert(link);
                }
            }
        }
        self.dialling
            .missed
            .retain(|node, _| seen.map.nodes.contains_key(node));
    }

    /// The links that this worker has with workers of a node, as far as is known how many that has.
    fn links_to(&self, node: NodeId) -> Vec<LinkId> {
        let unlike = self.dialling.unlike.get(&node);
        let (workers, knows_more) =
            unlike.map_or((self.workers, true), |unlike| (unlike.workers, unlike.knows_more));
        let own = (self.worker, self.workers);
        let counterparts = self.groups.linked_workers(own, workers, knows_more);
        let link = |number| LinkId {
            remote: Remote::Node(node),
            number,
        };
        counterparts.map(link).collect()
    }

    fn is_up(&self, link: LinkId) -> bool {
        let Remote::Node(node) = link.remote else {
            return false;
        };
        let linked = self.linked.get(&node);
        linked.is_some_and(|linked| linked.up.contains(&link.number))
    }

    /// Whether all links to a node are up.
    fn is_known(&self, node: NodeId) -> bool {
        self.linked.get(&node).is_some_and(|linked| linked.is_known)
    }

    /// A worker of a node is there. Whether the link to it is one that this worker is to have.
    fn on_up(&mut self, node: NodeId, link: LinkId, peer: Peer, gateway: &mut Gateway) -> bool {
        if peer.groups.is_none() && peer.workers != self.workers {
            // It answers as a worker of its own choice: the two have no group to talk about.
            tracing::error!(
                peer = %link,
                its_workers = peer.workers,
                workers = self.workers,
                "a node of an older build needs as many workers as all others: upgrade it, or set --workers; the groups of this link stay apart"
            );
            return true;
        }
        let knows_more = peer.semantics >= SemanticsVersion::PARTITIONS_MOVE;
        let unlike = (peer.workers != self.workers).then_some(Unlike {
            workers: peer.workers,
            knows_more,
        });
        let former = match unlike {
            None => self.dialling.unlike.remove(&node),
            Some(unlike) => self.dialling.unlike.insert(node, unlike),
        };
        if former != unlike {
            // Other links are to be dialled, and those let go that are not wanted any more.
            self.view_version = 0;
            self.let_go(node, link, gateway);
        }
        let links = self.links_to(node);
        let linked = self.linked.entry(node).or_insert_with(|| Linked {
            up: BTreeSet::new(),
            is_known: false,
            connected_at: clock::now(),
            heard_at: clock::now(),
        });
        gateway.set_workers_of(node, peer.workers, knows_more);
        // Whoever dials one that the other node does not have is answered by another.
        if peer.worker != link.number || !links.contains(&link) {
            return false;
        }
        linked.up.insert(link.number);
        linked.heard_at = clock::now();
        if !linked.is_known && links.iter().all(|link| linked.up.contains(&link.number)) {
            (linked.is_known, linked.connected_at) = (true, clock::now());
            self.dialling.missed.remove(&node);
            gateway.on_link(node, true);
        }
        self.linked_at = Monotonic(0);
        true
    }

    /// A link to a node is down.
    fn on_down(&mut self, node: NodeId, link: LinkId, gateway: &mut Gateway) {
        let Some(linked) = self.linked.get_mut(&node) else {
            return;
        };
        if linked.up.remove(&link.number) && linked.is_known {
            self.let_go(node, link, gateway);
        } else if linked.up.is_empty() {
            self.linked.remove(&node);
        }
        self.linked_at = Monotonic(0);
    }

    /// Breaks all links to a node but this one, which is down or has just come: what this end forgets of the node the other one has to
    /// forget of this one, and it hears only of links. They are dialled again with the next look at the map.
    fn let_go(&mut self, node: NodeId, but: LinkId, gateway: &mut Gateway) {
        let Some(linked) = self.linked.remove(&node) else {
            return;
        };
        if linked.is_known {
            gateway.on_link(node, false);
        }
        for number in linked.up.into_iter().filter(|number| *number != but.number) {
            let link = LinkId { number, ..but };
            let mut ignored = |_: TransportEvent<'_, Peer>| {};
            self.transport.forget(link, clock::raw(), &mut ignored);
            self.tell_meta_of(link, false);
            self.view_version = 0;
        }
    }

    /// What is told of links to the meta group's thread: a node by one of them.
    fn tell_meta_of(&self, link: LinkId, is_up: bool) {
        if !matches!(link.remote, Remote::Node(_)) || link.number == 0 {
            self.tell_meta(Input::Link(link.remote, is_up));
        }
    }

    fn handle(&mut self, happened: Vec<Happening>, gateway: &mut Gateway) {
        if !happened.is_empty() {
            gateway.received(clock::raw());
        }
        for one in happened {
            match one {
                Happening::Up(link, peer) => {
                    if let Remote::Node(node) = link.remote {
                        if !self.on_up(node, link, peer, gateway) {
                            // Others are, and are dialled with the next look at the map. Who was dialled leaves it to the other end, which has
                            // to hear first how many workers there are here.
                            if self.dialling.links.remove(&link) {
                                let mut ignored = |_: TransportEvent<'_, Peer>| {};
                                self.transport.forget(link, clock::raw(), &mut ignored);
                                self.view_version = 0;
                            }
                            continue;
                        }
                        if !link.is_dialled_by(self.me) {
                            self.transport.leave_dialling(link);
                            self.dialling.links.remove(&link);
                        }
                    }
                    tracing::info!(worker = self.worker, peer = %link, "a peer is there");
                    self.tell_meta_of(link, true);
                }
                Happening::Down(link) => {
                    tracing::info!(worker = self.worker, peer = %link, "a peer is out of reach");
                    gateway.stats().peer_breaks.add(1);
                    if let Remote::Node(node) = link.remote {
                        self.on_down(node, link, gateway);
                    }
                    self.tell_meta_of(link, false);
                }
                Happening::Message(link, message) => self.on_message(link, message, gateway),
                Happening::Nonsense(link, error) => {
                    tracing::warn!(peer = %link, error, "closing a link: its peer says what no node says");
                    let mut ignored = |_: TransportEvent<'_, Peer>| {};
                    self.transport.forget(link, clock::raw(), &mut ignored);
                    if let Remote::Node(node) = link.remote {
                        self.on_down(node, link, gateway);
                        self.view_version = 0;
                    }
                }
                Happening::Arrival(worker, arrival) => {
                    self.handed[usize::from(worker)]
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(*arrival);
                    gateway.send(worker, gateway::Message::Wake);
                }
            }
        }
    }

    /// Writes down what clients are told of links.
    fn show_links(&self, gateway: &Gateway) {
        let Some(seen) = self.view.seen() else { return };
        let known = self.linked.iter().filter(|(_, linked)| linked.is_known);
        let shown = known.map(|(&node, linked)| {
            let (links, heard_at) = (self.links_to(node), linked.heard_at);
            let waiting = |link: &LinkId| {
                let lanes = [Lane::Small, Lane::Bulk].into_iter();
                lanes
                    .map(|lane| self.transport.waiting(*link, lane) as u64)
                    .sum::<u64>()
            };
            let allocated = |link: &LinkId| self.transport.allocated(*link) as u64;
            let link = PeerLink {
                connected_at: linked.connected_at,
                buffer_bytes: links.iter().map(allocated).sum(),
                waiting_bytes: links.iter().map(waiting).sum(),
            };
            (view::name(&seen.map, node), LinkStatus { heard_at, link })
        });
        *gateway.stats().links() = shown.collect();
    }

    fn on_message(&mut self, link: LinkId, message: PeerMessage, gateway: &mut Gateway) {
        if let Remote::Node(node) = link.remote
            && let Some(linked) = self.linked.get_mut(&node)
        {
            linked.heard_at = clock::now();
        }
        match message {
            PeerMessage::MetaRequest(Question { bytes, .. }) | PeerMessage::Join(Join { bytes }) => {
                self.tell_meta(Input::Message(link.remote, bytes));
            }
            message => {
                if let Some(peer) = peer_of(link) {
                    gateway.on_peer(peer, message);
                }
            }
        }
    }

    /// The meta group's thread hears of links and messages from one worker alone.
    fn tell_meta(&self, input: Input) {
        if self.worker == 0 {
            // It ends only with the node.
            drop(self.meta.send(input));
        }
    }

    /// At the turn's end: hands over what the gateway, and on the first worker the meta group, have for others.
    pub(crate) fn finish(&mut self, gateway: &mut Gateway) {
        /// Between two times that clients are told anew of links that neither came nor went.
        const LINKS_SHOWN: std::time::Duration = std::time::Duration::from_millis(500);
        let now = clock::raw();
        for (PeerWorker { node, worker }, message) in gateway.take_peer_messages() {
            let link = LinkId {
                remote: Remote::Node(node),
                number: worker,
            };
            self.transport.send(link, message);
        }
        if self.worker == 0 {
            for (remote, bytes) in self.outbox.take() {
                let link = LinkId { remote, number: 0 };
                let message = PeerMessage::MetaRequest(Question { id: 0, bytes });
                self.transport.send(self.link_of(link), message);
            }
        }
        if now >= self.linked_at {
            self.linked_at = now.after(LINKS_SHOWN);
            self.show_links(gateway);
            self.look_for_missed();
            self.dial_missed(now);
        }
        let news = gateway.take_news();
        if news || now >= self.group_reports_at {
            let (group_reports, not_led) = gateway.group_reports();
            self.group_reports_at = now.after(gateway.group_reports_pause());
            if !group_reports.is_empty() || news {
                drop(self.meta.send(Input::GroupReports(group_reports, not_led)));
            }
            let notes = gateway.partition_notes();
            if self.has_partition_notes || !notes.is_empty() {
                self.has_partition_notes = !notes.is_empty();
                drop(self.meta.send(Input::PartitionNotes(self.worker, notes)));
            }
            let recovery_sources = gateway.recovery_sources();
            if self.has_recovery_sources || !recovery_sources.is_empty() {
                self.has_recovery_sources = !recovery_sources.is_empty();
                drop(
                    self.meta
                        .send(Input::RecoverySources(self.worker, recovery_sources)),
                );
            }
            let given_up = gateway.given_up();
            if self.has_given_up || !given_up.is_empty() {
                self.has_given_up = !given_up.is_empty();
                drop(self.meta.send(Input::GivenUp(self.worker, given_up)));
            }
        }
        for wish in gateway.take_wishes() {
            drop(self.meta.send(Input::Wish(self.worker, wish)));
        }
        for notice in gateway.take_notices() {
            tracing::error!("{notice}");
        }
        if let Some(notice) = gateway.take_clock_notice() {
            tracing::error!("{notice}");
        }
        let mut happened = Vec::new();
        self.transport
            .flush(now, &mut |event| happened.extend(note(event)));
        for link in self.transport.links() {
            if let Some(peer) = peer_of(link) {
                gateway.on_moving(peer, self.transport.is_busy(link));
            }
        }
        let traffic = self.transport.traffic();
        gateway.stats().peer_input_bytes.set(traffic.received);
        gateway.stats().peer_output_bytes.set(traffic.sent);
        self.handle(happened, gateway);
    }

    /// The link by which somebody is reached: one who joins has a number of its own.
    fn link_of(&self, wanted: LinkId) -> LinkId {
        let found = self.transport.links().find(|link| link.remote == wanted.remote);
        found.unwrap_or(wanted)
    }

    /// How long the worker may sleep on account of links.
    pub(crate) fn timeout(&self) -> std::time::Duration {
        self.transport.next_due().since(clock::raw())
    }
}

/// The worker at the other end, if it is a node's.
fn peer_of(link: LinkId) -> Option<PeerWorker> {
    match link.remote {
        Remote::Node(node) => Some(PeerWorker {
            node,
            worker: link.number,
        }),
        Remote::Joiner(_) | Remote::Contact(_) => None,
    }
}

/// What an event says, owned.
fn note(event: TransportEvent<'_, Peer>) -> Option<Happening> {
    Some(match event {
        TransportEvent::Up(link, peer) => Happening::Up(link, peer),
        TransportEvent::Down(link) => Happening::Down(link),
        TransportEvent::Arrival(worker, arrival) => Happening::Arrival(worker, arrival),
        TransportEvent::Message(link, packet) => match PeerMessage::decode(&packet) {
            Ok(message) => Happening::Message(link, message),
            Err(error) => Happening::Nonsense(link, error.to_string()),
        },
    })
}

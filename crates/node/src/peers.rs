//! One worker's links to the workers of the same number on other nodes: between the gateway's messages and sockets.

use crate::clock;
use crate::meta::{self, Input};
use crate::resolver::Resolver;
use crate::view::{self, View};
use control::RoutingMap;
use gateway::{Gateway, LinkStatus, PeerLink};
use ids::{Boot, ClusterId, Monotonic, NodeId, UnixMillis};
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
    /// Since when each node is reached by this worker's link, and when it was last heard of.
    linked: BTreeMap<NodeId, (UnixMillis, UnixMillis)>,
    linked_at: Monotonic,
    /// Whether the last look found replicas that know no leader.
    has_recovery_sources: bool,
    /// Whether it found any that were given up.
    has_given_up: bool,
}

/// Whom a worker dials, and where.
struct Dialling {
    nodes: BTreeSet<NodeId>,
    /// Since when nodes are missed whose part it is to dial this one.
    missed: BTreeMap<NodeId, Monotonic>,
    resolver: Resolver,
    /// As of which all were dialled where their names lead.
    resolver_version: u64,
}

/// Who this node is to others.
#[derive(Clone)]
pub(crate) struct Own {
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) boot: Boot,
    pub(crate) secret: Secret,
    pub(crate) workers: u16,
}

/// Introduces a worker of this node.
pub(crate) fn greeter(
    who: Who,
    secret: Secret,
    worker: u16,
    workers: u16,
    view: Option<Arc<View>>,
) -> Greeter {
    Greeter {
        who,
        secret,
        worker,
        workers,
        judge: Arc::new(move |peer: &Peer| judge(peer, view.as_deref())),
        nonces: Box::new(|| {
            let secret = crate::random::secret::<4>().expect("it was read at the start");
            let mut nonce = [0; 32];
            for (bytes, word) in nonce.chunks_mut(8).zip(secret) {
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            Nonce(nonce)
        }),
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
        Who::Starting { .. } | Who::Joining => return None,
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
        let greeter = greeter(who, own.secret.clone(), worker, own.workers, Some(view.clone()));
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
                nodes: BTreeSet::new(),
                missed: BTreeMap::new(),
                resolver,
                resolver_version: 0,
            },
            group_reports_at: Monotonic(0),
            linked: BTreeMap::new(),
            linked_at: Monotonic(0),
            has_recovery_sources: false,
            has_given_up: false,
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
            for (group, index, order) in self.view.take_orders(is_ours) {
                gateway.on_order(group, index, &order);
            }
        }
    }

    /// Dials the nodes that are this one's to dial, and lets go of those that are members no longer.
    fn dial(&mut self, map: &RoutingMap, now: Monotonic, happened: &mut Vec<Happening>) {
        for (&node, site) in &map.nodes {
            let link = self.link(node);
            let is_dialled = link.is_dialled_by(self.me) || self.dialling.nodes.contains(&node);
            if node != self.me && is_dialled {
                self.dial_at(link, &site.peer, now);
                self.dialling.nodes.insert(node);
            }
        }
        let gone: Vec<NodeId> = self
            .dialling
            .nodes
            .iter()
            .copied()
            .filter(|node| !map.nodes.contains_key(node))
            .collect();
        for node in gone {
            self.dialling.nodes.remove(&node);
            self.transport
                .forget(self.link(node), now, &mut |event| happened.extend(note(event)));
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
        let missed = missed.filter(|(node, _)| **node != self.me && !self.linked.contains_key(node));
        missed.for_each(|(_, site)| self.dialling.resolver.want(&site.peer));
    }

    /// Dials members whose part it is to dial, and who have not for long. They may not know of this one: a node that was away
    /// when this one joined goes by an older map, and learns of it from nobody if this one leads the meta group by now.
    fn dial_missed(&mut self, now: Monotonic) {
        let Some(seen) = self.view.seen() else { return };
        for (&node, site) in &seen.map.nodes {
            let link = self.link(node);
            if node == self.me || link.is_dialled_by(self.me) || self.linked.contains_key(&node) {
                continue;
            }
            let since = *self.dialling.missed.entry(node).or_insert(now);
            if now.since(since) >= DIALLED_AFTER {
                self.dial_at(link, &site.peer, now);
                self.dialling.nodes.insert(node);
            }
        }
        self.dialling
            .missed
            .retain(|node, _| seen.map.nodes.contains_key(node));
    }

    fn link(&self, node: NodeId) -> LinkId {
        LinkId {
            remote: Remote::Node(node),
            number: self.worker,
        }
    }

    fn handle(&mut self, happened: Vec<Happening>, gateway: &mut Gateway) {
        if !happened.is_empty() {
            gateway.received(clock::raw());
        }
        for one in happened {
            match one {
                Happening::Up(link, peer) => {
                    tracing::info!(worker = self.worker, peer = %link, "a peer is there");
                    if peer.workers != self.workers && link.remote != Remote::Contact(0) {
                        tracing::error!(
                            peer = %link,
                            its_workers = peer.workers,
                            workers = self.workers,
                            "nodes of one cluster need the same number of workers: set --workers; the groups of this link stay apart"
                        );
                    } else if let Remote::Node(node) = link.remote {
                        gateway.on_link(node, true);
                    }
                    if let Remote::Node(node) = link.remote {
                        self.dialling.missed.remove(&node);
                        if !link.is_dialled_by(self.me) {
                            self.transport.leave_dialling(link);
                            self.dialling.nodes.remove(&node);
                        }
                        self.linked.insert(node, (clock::now(), clock::now()));
                        self.linked_at = Monotonic(0);
                    }
                    self.tell_meta(Input::Link(link.remote, true));
                }
                Happening::Down(link) => {
                    tracing::info!(worker = self.worker, peer = %link, "a peer is out of reach");
                    gateway.stats().peer_breaks.add(1);
                    if let Remote::Node(node) = link.remote {
                        self.unlink(node);
                        gateway.on_link(node, false);
                    }
                    self.tell_meta(Input::Link(link.remote, false));
                }
                Happening::Message(link, message) => self.on_message(link, message, gateway),
                Happening::Nonsense(link, error) => {
                    tracing::warn!(peer = %link, error, "closing a link: its peer says what no node says");
                    let mut ignored = |_: TransportEvent<'_, Peer>| {};
                    self.transport.forget(link, clock::raw(), &mut ignored);
                    if let Remote::Node(node) = link.remote {
                        self.unlink(node);
                        gateway.on_link(node, false);
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

    fn unlink(&mut self, node: NodeId) {
        self.linked.remove(&node);
        self.linked_at = Monotonic(0);
    }

    /// Writes down what clients are told of links.
    fn show_links(&self, gateway: &Gateway) {
        let Some(seen) = self.view.seen() else { return };
        let shown = self.linked.iter().map(|(&node, &(connected_at, heard_at))| {
            let link = self.link(node);
            let waiting = [Lane::Small, Lane::Bulk].map(|lane| self.transport.waiting(link, lane) as u64);
            let link = PeerLink {
                connected_at,
                buffer_bytes: self.transport.allocated(link) as u64,
                waiting_bytes: waiting.iter().sum(),
            };
            (view::name(&seen.map, node), LinkStatus { heard_at, link })
        });
        *gateway.stats().links() = shown.collect();
    }

    fn on_message(&mut self, link: LinkId, message: PeerMessage, gateway: &mut Gateway) {
        if let Remote::Node(node) = link.remote
            && let Some((_, heard_at)) = self.linked.get_mut(&node)
        {
            *heard_at = clock::now();
        }
        match message {
            PeerMessage::MetaRequest(Question { bytes, .. }) | PeerMessage::Join(Join { bytes }) => {
                self.tell_meta(Input::Message(link.remote, bytes));
            }
            message => {
                if let Remote::Node(node) = link.remote {
                    gateway.on_peer(node, message);
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
        for (node, message) in gateway.take_peer_messages() {
            self.transport.send(self.link(node), message);
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
            if let Remote::Node(node) = link.remote {
                gateway.on_moving(node, self.transport.is_busy(link));
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

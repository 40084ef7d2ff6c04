//! A node as production has it: gateway, replicas and the meta group's part, with everything between a client's bytes and
//! the state. What is simulated is what `node` does: loops, links, files, clocks.
//!
//! ```text
//!   starting:  Meta --Create, Join, Boot--> started, and on the map          clients are not let in
//!   serving:   client bytes --> Gateway <--PeerMessage--> gateways of other nodes
//!                                 ^  |
//!                   layouts, orders  sights
//!                                 |  v
//!                               Meta <--MetaMessage--> meta groups' parts of other nodes
//!                                 |
//!                                 +--> log, identity, hand-over: files of production on a simulated disk
//! ```
//!
//! Links are streams: in order, without loss as long as they live, each with an introduction. Who dials whom is as in
//! production: who joins dials everybody, of two members the one with the smaller id dials, once it knows the other.
//!
//! What is absent: several workers in a node, lanes (large messages keep their place), the bytes of peers' frames, secrets,
//! disks that fail.

mod checks;
mod frame;
mod serving;
mod store;

use crate::clock::{Clock, MILLIS, SECONDS, lent};
use crate::node::{Birth, Input, Node, Output, Shape, Whim};
use crate::swarm::Swarm;
use checks::Checks;
use consensus::{Members, Times};
use control::{
    Announcement, Beginning, ClusterId, Command, Contact, GroupRef, Meta, MetaConfig, MetaMessage, Notice,
    Pace, RoutingMap, Started, Token,
};
use frame::{Body, Frame, Who};
use ids::{GroupCount, GroupId, Incarnation, Monotonic, NodeId, Prng, SemanticsVersion, UnixMillis};
use peer_wire::hello::Secret;
use server::{Glimpse, Kept, Layout};
use serving::Serving;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use storage::{Identity, PeerBook, SimDisk};
use store::Store;

/// The times of the meta group, as in production.
const META_TIMES: Times = Times {
    tick: Duration::from_millis(20),
    heartbeat: Duration::from_millis(200),
    election_min: Duration::from_millis(1_000),
    election_max: Duration::from_millis(2_000),
    drift_margin: Duration::from_millis(100),
};
/// Between two reports of the groups that are led here.
const SIGHTS: Duration = Duration::from_millis(500);
/// Between two rounds of background work.
const TEND: Duration = Duration::from_millis(100);
/// Versions of the cluster that are remembered, to come again; at the limit the oldest is forgotten.
const VIEWS_MAX: usize = 8;

/// See the file's header.
pub struct Whole {
    machine: usize,
    /// Which node it was when it ended the last time.
    was: Option<NodeId>,
    groups: GroupCount,
    prng: Prng,
    store: Store,
    meta: Meta,
    stage: Stage,
    map: Option<Arc<RoutingMap>>,
    started: Option<Started>,
    /// By machine.
    peers: Vec<Peer>,
    /// Which node is on a machine, as far as the gateway knows. Of a machine that joined twice the newer one.
    known: BTreeMap<usize, NodeId>,
    /// Versions of the cluster on their way to the gateway, each with the time at which it comes.
    views: VecDeque<(Monotonic, Arc<RoutingMap>)>,
    old_views: VecDeque<Arc<RoutingMap>>,
    orders: Vec<control::Instruction>,
    sights_at: Monotonic,
    tend_at: Monotonic,
    wake_at: Option<Monotonic>,
    /// The next turn has begun: what comes is handled at the time that it was then.
    is_begun: bool,
    /// What was last noted of it.
    described: String,
    /// Why the process cannot go on.
    refused: Option<String>,
}

enum Stage {
    Starting(Vec<Kept>),
    Serving(Box<Serving>),
}

/// Another machine.
struct Peer {
    /// Who speaks there, and in which stream.
    heard: Option<(Who, u64)>,
    /// The stream to there.
    stream: u64,
}

/// What an operator tells a node.
#[derive(Clone)]
pub enum Order {
    /// Leadership of a group is to go to this replica, if its members are still those of this place.
    Transfer(GroupId, u64, Incarnation),
    /// A node is to give up its replicas, or may keep them.
    Leave(NodeId, bool),
}

/// What a process leaves: its disk, and what the checks know of that.
pub struct Left {
    disk: SimDisk,
    holdings: Vec<Holding>,
}

/// A replica whose memory is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Holding {
    pub(crate) group: GroupRef,
    pub(crate) incarnation: Incarnation,
    /// The members as it knows them; none if nobody else has a part in the group.
    pub(crate) members: Option<Members>,
}

impl Whole {
    fn who(&self) -> Who {
        match (&self.stage, self.was) {
            (Stage::Serving(serving), _) => Who::Member(serving.node, serving.boot),
            (Stage::Starting(_), Some(node)) => Who::Starting(node),
            (Stage::Starting(_), None) => Who::Joining,
        }
    }

    fn dials(&self, machine: usize) -> bool {
        match self.who() {
            Who::Joining => true,
            Who::Starting(me) | Who::Member(me, _) => self.known.get(&machine).is_some_and(|node| me < *node),
        }
    }

    /// Learns where nodes are.
    fn learn(&mut self, book: &PeerBook) {
        let machines = book
            .peers
            .iter()
            .filter_map(|(node, peer)| Some((machine_of(peer)?, *node)));
        self.known = machines.collect();
    }

    // ---- links

    fn say(&mut self, machine: usize, body: Body, out: &mut Output<Frame>) {
        let stream = self.peers[machine].stream;
        out.frames.push((NodeId(machine as u64), Frame { stream, body }));
    }

    /// Begins a stream.
    fn greet(&mut self, machine: usize, dials: bool, out: &mut Output<Frame>) {
        self.peers[machine].stream += 1;
        let who = self.who();
        self.say(machine, Body::Hello { who, dials }, out);
    }

    fn contact(&self, machine: usize) -> Option<Contact> {
        let (who, _) = self.peers[machine].heard?;
        Some(match (self.who(), who.node()) {
            (_, None) => Contact::Newcomer(machine as u64),
            (Who::Joining, Some(_)) => Contact::Introducer,
            (_, Some(node)) => Contact::Node(node),
        })
    }

    /// A stream ends.
    fn hang_up(&mut self, machine: usize) {
        let Some(contact) = self.contact(machine) else {
            return;
        };
        self.meta.on_link(contact, false, lent());
        if let (Contact::Node(node), Stage::Serving(serving)) = (contact, &mut self.stage) {
            serving.gateway.on_link(node, false);
        }
        self.peers[machine].heard = None;
    }

    fn on_frame(&mut self, from: usize, frame: Frame, out: &mut Output<Frame>) {
        if let (
            Who::Joining,
            Body::Hello {
                who: Who::Joining, ..
            },
        ) = (self.who(), &frame.body)
        {
            // Who joins lets nobody in.
            return;
        }
        let is_of_stream = self.peers[from].heard.map(|(_, stream)| stream) == Some(frame.stream);
        match frame.body {
            Body::Hello { who, dials } => {
                self.hang_up(from);
                self.peers[from].heard = Some((who, frame.stream));
                if dials {
                    self.greet(from, false, out);
                }
                if let Some(contact) = self.contact(from) {
                    self.meta.on_link(contact, true, lent());
                    if let (Contact::Node(node), Stage::Serving(serving)) = (contact, &mut self.stage) {
                        serving.gateway.on_link(node, true);
                    }
                }
            }
            Body::Bye => {
                self.hang_up(from);
                if self.dials(from) {
                    self.greet(from, true, out);
                }
            }
            Body::Meta(bytes) if is_of_stream => {
                let message = MetaMessage::decode(&bytes).expect("a node wrote it");
                if let Some(contact) = self.contact(from) {
                    self.meta.on_message(contact, message, lent());
                }
            }
            Body::Peer(message) if is_of_stream => {
                let node = self.peers[from].heard.and_then(|(who, _)| who.node());
                if let (Some(node), Stage::Serving(serving)) = (node, &mut self.stage) {
                    serving.gateway.received(lent());
                    serving.gateway.on_peer(node, message);
                }
            }
            Body::Meta(_) | Body::Peer(_) => {}
        }
    }

    /// The machine on which a node runs.
    fn machine_of(&self, node: NodeId) -> Option<usize> {
        let is_its = |peer: &Peer| peer.heard.is_some_and(|(who, _)| who.node() == Some(node));
        self.peers.iter().position(is_its)
    }

    fn machine_at(&self, contact: Contact) -> Option<usize> {
        match contact {
            Contact::Node(node) => self.machine_of(node),
            Contact::Newcomer(machine) => Some(machine as usize),
            Contact::Introducer => {
                let is_one = |peer: &Peer| peer.heard.is_some_and(|(who, _)| who.node().is_some());
                self.peers.iter().position(is_one)
            }
        }
    }

    // ---- turns

    fn begin_turn(&mut self, wall: UnixMillis, out: &mut Output<Frame>) {
        let now = lent();
        if let Stage::Serving(serving) = &mut self.stage {
            serving.gateway.begin_turn(wall);
            serving.gateway.begin_cluster(now);
        }
        while let Some((_, map)) = self.views.pop_front_if(|(at, _)| *at <= now) {
            self.see(&map, out);
        }
        if let Stage::Serving(serving) = &mut self.stage {
            for instruction in std::mem::take(&mut self.orders) {
                if let GroupRef::Data(group) = instruction.group {
                    serving
                        .gateway
                        .on_order(group, instruction.index, &instruction.order);
                }
            }
        }
    }

    /// The gateway is told of a version of the cluster, and dials whom it has not known.
    fn see(&mut self, map: &RoutingMap, out: &mut Output<Frame>) {
        let Stage::Serving(serving) = &mut self.stage else {
            return;
        };
        let layout = Layout::of(map, serving.node, serving.boot);
        serving.gateway.set_layout(Arc::new(layout));
        if let Some(topology) = checks::topology(map, serving.node, self.groups) {
            serving.shared().set_topology(topology);
        }
        if self.map.as_ref().is_some_and(|newest| newest.epoch > map.epoch) {
            // An old one, shown once more. Where the others are was learnt from the newest.
            return;
        }
        let book = book(map, serving.node);
        self.learn(&book);
        for machine in 0..self.peers.len() {
            // Who joined may have been heard last before it was a member, and nobody dials again what is not dialed once.
            let heard = self.peers[machine].heard.and_then(|(who, _)| who.node());
            if machine != self.machine && heard.is_none() && self.dials(machine) {
                self.greet(machine, true, out);
            }
        }
    }

    fn on_input(&mut self, input: Input<Frame, Order>, out: &mut Output<Frame>) {
        match input {
            Input::Timer => {}
            Input::Frame(from, frame) => self.on_frame(from.0 as usize, frame, out),
            Input::LinkUp(peer) => {
                if self.dials(peer.0 as usize) {
                    self.hang_up(peer.0 as usize);
                    self.greet(peer.0 as usize, true, out);
                }
            }
            Input::LinkDown(peer) => self.hang_up(peer.0 as usize),
            Input::Bytes(connection, bytes) => match &mut self.stage {
                Stage::Serving(serving) => serving.receive(connection, &bytes, out),
                Stage::Starting(_) => out.closed.push(connection),
            },
            Input::Gone(connection) => {
                if let Stage::Serving(serving) = &mut self.stage {
                    serving.close(connection);
                }
            }
            Input::Order(Order::Transfer(group, index, to)) => {
                if let Stage::Serving(serving) = &mut self.stage {
                    let order = control::Order::Transfer { to };
                    serving.gateway.on_order(group, index, &order);
                }
            }
            Input::Order(Order::Leave(node, is_leaving)) => {
                self.meta.propose(Command::SetLeaving { node, is_leaving });
            }
        }
    }

    fn finish_turn(&mut self, out: &mut Output<Frame>) {
        if let Stage::Serving(serving) = &mut self.stage {
            serving.finish(out);
            let now = lent();
            if now >= self.tend_at {
                self.tend_at = now.after(TEND);
                serving.tend(out);
            }
            let news = serving.gateway.take_news();
            if news || now >= self.sights_at {
                self.sights_at = now.after(SIGHTS);
                let (sights, not_led) = serving.gateway.sights();
                self.meta.on_lead_lost(&not_led);
                self.meta.on_sight(sights, now);
                self.meta.on_survivors(serving.gateway.survivors());
            }
            for notice in serving.gateway.take_notices() {
                self.refused.get_or_insert(notice);
            }
        }
        self.send_peers(out);
        self.run_meta(out);
        self.begin_serving(out);
        self.wake_at = self.next_wake(lent());
        if out.notes.is_some() {
            let line = self.describe();
            if line != self.described {
                out.note(|| line.clone());
                self.described = line;
            }
        }
    }

    fn send_peers(&mut self, out: &mut Output<Frame>) {
        let Stage::Serving(serving) = &mut self.stage else {
            return;
        };
        for (node, message) in std::mem::take(&mut serving.outbox) {
            if let Some(machine) = self.machine_of(node) {
                self.say(machine, Body::Peer(message), out);
            }
        }
    }

    /// What production does on the meta group's thread.
    fn run_meta(&mut self, out: &mut Output<Frame>) {
        let now = lent();
        self.meta.tick(now);
        loop {
            let effects = self.meta.take_effects(now);
            let is_over = effects == control::MetaEffects::default();
            let mut written = None;
            for persist in effects.persist {
                self.store.write(persist.record);
                written = Some(persist.number);
            }
            if let Some(number) = written {
                self.meta.on_persisted(number, now);
            }
            for (contact, message) in effects.messages {
                if let Some(machine) = self.machine_at(contact) {
                    self.say(machine, Body::Meta(message.encode()), out);
                }
            }
            if let Some(map) = effects.map {
                self.show(map, now);
            }
            self.started = effects.started.or(self.started.take());
            self.orders.extend(effects.orders);
            for notice in effects.notices {
                out.note(|| format!("{notice:?}"));
                if let Notice::StartRefused { .. } | Notice::LogRefused = notice {
                    self.refused.get_or_insert(format!("{notice:?}"));
                }
            }
            if is_over {
                return;
            }
        }
    }

    /// Shows a map to the gateway, a little later, and now and then an old one once more: it must not be taken for news.
    fn show(&mut self, map: Arc<RoutingMap>, now: Monotonic) {
        self.map = Some(map.clone());
        let Stage::Serving(serving) = &mut self.stage else {
            return;
        };
        self.store.write_book(book(&map, serving.node));
        let last = self.views.back().map_or(now, |(at, _)| (*at).max(now));
        let late = match self.prng.below(8) {
            0 => last.after(Duration::from_millis(self.prng.below(50))),
            _ => last,
        };
        self.views.push_back((late, map.clone()));
        if self.prng.below(8) == 0 && !self.old_views.is_empty() {
            let which = self.prng.below(self.old_views.len() as u64) as usize;
            let at = late.after(Duration::from_millis(self.prng.below(100)));
            self.views.push_back((at, self.old_views[which].clone()));
        }
        if self.old_views.len() == VIEWS_MAX {
            self.old_views.pop_front();
        }
        self.old_views.push_back(map);
    }

    /// Lets clients in, once the cluster has counted this start.
    fn begin_serving(&mut self, out: &mut Output<Frame>) {
        let (Stage::Starting(kept), Some(started), Some(map)) = (&mut self.stage, &self.started, &self.map)
        else {
            return;
        };
        let site = map.nodes.get(&started.node);
        if site.is_none_or(|site| site.boot != started.boot) {
            // A map from before says what this node had then, not what it has now.
            return;
        }
        let mut kept = std::mem::take(kept);
        kept.retain(|kept| is_confirmed(started, kept));
        let identity = Identity {
            cluster: ids::ClusterId(map.cluster.expect("a cluster has a name").0),
            node: started.node,
            groups: self.groups,
            secret: Secret(None),
        };
        self.store.write_identity(&identity);
        let mut serving = Serving::new(started.node, started.boot, self.groups, &mut self.prng);
        serving.gateway.keep(&mut kept);
        out.note(|| format!("serves as node {}, boot {}", started.node.0, started.boot.0));
        let map = map.clone();
        self.stage = Stage::Serving(Box::new(serving));
        // Links of a start are not those of a member.
        for machine in 0..self.peers.len() {
            if machine != self.machine {
                self.hang_up(machine);
                self.say(machine, Body::Bye, out);
            }
        }
        self.see(&map, out);
        self.store
            .write_book(book(&map, self.meta.node().expect("it has begun")));
        self.old_views.push_back(map);
    }

    fn next_wake(&self, now: Monotonic) -> Option<Monotonic> {
        let mut all = vec![self.meta.next_timer()];
        if let Stage::Serving(serving) = &self.stage {
            let wait = serving.gateway.next_wait_ends();
            all.extend([
                serving.gateway.next_cluster_timer(),
                wait.map(|nanos| now.after(Duration::from_nanos(nanos))),
                self.views.front().map(|(at, _)| *at),
                (!self.orders.is_empty() || serving.has_unread()).then_some(now),
                Some(self.sights_at),
                Some(self.tend_at),
            ]);
        }
        all.into_iter().flatten().min()
    }

    // ---- what the checks look at

    fn serving(&self) -> Option<&Serving> {
        match &self.stage {
            Stage::Serving(serving) => Some(serving),
            Stage::Starting(_) => None,
        }
    }

    /// The replicas whose memory this process has.
    fn holdings(&self) -> Vec<Holding> {
        let mut all: Vec<Holding> = match &self.stage {
            Stage::Starting(kept) => kept.iter().map(holding).collect(),
            Stage::Serving(serving) => {
                let glimpses = serving.gateway.glimpses();
                let holdings = glimpses.map(|glimpse| Holding {
                    group: GroupRef::Data(glimpse.group),
                    incarnation: glimpse.incarnation,
                    members: glimpse.members().cloned(),
                });
                holdings.collect()
            }
        };
        all.extend(self.meta_holding());
        all
    }

    fn meta_holding(&self) -> Option<Holding> {
        let group = self.meta.state()?.groups().get(&GroupRef::Meta)?;
        let me = group.member_on(self.meta.node()?)?;
        let of = |role| {
            let members = group.members.iter().filter(move |member| member.role == role);
            members.map(|member| member.incarnation).collect()
        };
        let members = Members {
            voters: of(control::Role::Voter),
            learners: of(control::Role::Learner),
            ..Members::default()
        };
        Some(Holding {
            group: GroupRef::Meta,
            incarnation: me.incarnation,
            members: Some(members),
        })
    }
}

fn holding(kept: &Kept) -> Holding {
    Holding {
        group: GroupRef::Data(kept.group),
        incarnation: kept.incarnation,
        members: kept.rest.as_ref().map(|(point, _)| point.members.clone()),
    }
}

/// Whether the cluster counts on what was kept.
fn is_confirmed(started: &Started, kept: &Kept) -> bool {
    started.replicas.iter().any(|replica| {
        let is_same = match replica.beginning {
            Beginning::Kept => replica.incarnation == kept.incarnation,
            Beginning::Heir { of } => of == kept.incarnation,
            Beginning::Learner | Beginning::Founder => false,
        };
        is_same && replica.group == GroupRef::Data(kept.group)
    })
}

fn announcement(machine: usize) -> Announcement {
    let at = |port: u16| format!("10.0.0.{}:{port}", machine + 1);
    Announcement {
        client: at(6379),
        cluster: at(7379),
        peer: at(8379),
        zone: String::new(),
        semantics_min: SemanticsVersion::OLDEST,
        semantics_max: SemanticsVersion::CURRENT,
    }
}

/// A replica, for the trace of a failure.
fn describe(glimpse: &Glimpse<'_>) -> String {
    let (group, me) = (glimpse.group.number(), glimpse.incarnation.0);
    let Some(member) = glimpse.member else {
        return format!("{me} is all of group {group}");
    };
    let list = |all: &[Incarnation]| {
        let all: Vec<String> = all.iter().map(|one| one.0.to_string()).collect();
        all.join(",")
    };
    let members = member.members();
    let learners = match members.learners.as_slice() {
        [] => String::new(),
        learners => format!("+{}", list(learners)),
    };
    let outgoing = match members.outgoing.as_slice() {
        [] => String::new(),
        outgoing => format!(" from {}", list(outgoing)),
    };
    let part = if member.leads() { "leads" } else { "in" };
    format!(
        "{me} {part} group {group} of {}{learners}{outgoing}",
        list(&members.voters)
    )
}

/// The machine of an address.
fn machine_of(peer: &str) -> Option<usize> {
    let (host, _) = peer.rsplit_once(':')?;
    let number: usize = host.rsplit_once('.')?.1.parse().ok()?;
    number.checked_sub(1)
}

/// What a map says of where the others are.
fn book(map: &RoutingMap, me: NodeId) -> PeerBook {
    let others = map.nodes.iter().filter(|(node, _)| **node != me);
    PeerBook {
        peers: others.map(|(&node, site)| (node, site.peer.clone())).collect(),
    }
}

impl Node for Whole {
    type Frame = Frame;
    type Order = Order;
    type Left = Left;
    type Shared = Checks;

    fn fit(swarm: &mut Swarm) {
        // Production has no mode without leases, and links that are streams.
        swarm.shape.has_leases = true;
        swarm.drift_ppm = swarm.drift_ppm.min(49_000);
        swarm.is_stream = true;
        (swarm.loss, swarm.duplicates, swarm.replays) = (0, 0, 0);
        swarm.has_waits = true;
        // Some clusters grow while clients and faults are there already.
        let draw = swarm.storm / SECONDS + swarm.clients as u64 + swarm.patience / MILLIS;
        if draw.is_multiple_of(4) {
            swarm.late = 1 + draw as usize / 4 % (swarm.shape.nodes - 1).max(1);
            swarm.late = swarm.late.min(swarm.shape.nodes - 1);
        }
    }

    fn share(shape: &Shape, _: u64) -> Checks {
        Checks::new(shape)
    }

    fn start(
        birth: Birth<'_, Left>,
        _: &mut Checks,
        clock: &mut Clock<'_>,
        out: &mut Output<Frame>,
    ) -> Whole {
        let machine = birth.me.0 as usize;
        let mut prng = Prng::new(birth.seed);
        let disk = birth
            .left
            .map_or_else(|| SimDisk::new(prng.next_u64()), |left| left.disk);
        let (store, found) = Store::open(disk);
        let groups = GroupCount::new(birth.shape.groups).expect("a cluster has groups");
        let now = clock.read();
        let config = MetaConfig {
            node: found.identity.as_ref().map(|identity| identity.node),
            announcement: announcement(machine),
            token: Token(u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64())),
            times: META_TIMES,
            pace: Pace::default(),
            seed: prng.next_u64(),
        };
        let memories = found
            .kept
            .iter()
            .map(|kept| (GroupRef::Data(kept.group), kept.incarnation));
        let meta = match &found.identity {
            Some(_) => Meta::restore(config, found.restored, found.peers, memories.collect(), now),
            None if machine == 0 => Meta::create(
                config,
                ClusterId(u128::from(prng.next_u64())),
                groups,
                checks::factor(birth.shape),
                SemanticsVersion::CURRENT,
                now,
            ),
            None => Meta::join(config, now),
        };
        let book = store.book().clone();
        let peers = (0..birth.shape.nodes).map(|_| Peer {
            heard: None,
            stream: prng.next_u64() >> 8,
        });
        let mut node = Whole {
            machine,
            was: found.identity.map(|identity| identity.node),
            groups,
            peers: peers.collect(),
            prng,
            store,
            meta,
            stage: Stage::Starting(found.kept),
            map: None,
            started: None,
            known: BTreeMap::new(),
            views: VecDeque::new(),
            old_views: VecDeque::new(),
            orders: Vec::new(),
            sights_at: Monotonic(0),
            tend_at: Monotonic(0),
            wake_at: None,
            is_begun: false,
            described: String::new(),
            refused: None,
        };
        node.learn(&book);
        clock.lend(|| {
            for machine in 0..node.peers.len() {
                if machine != node.machine && node.dials(machine) {
                    node.greet(machine, true, out);
                }
            }
            node.finish_turn(out);
        });
        node
    }

    fn handle(
        &mut self,
        inputs: Vec<Input<Frame, Order>>,
        _: &mut Checks,
        clock: &mut Clock<'_>,
        out: &mut Output<Frame>,
    ) {
        let wall = clock.wall();
        clock.lend(|| {
            if !std::mem::take(&mut self.is_begun) {
                self.begin_turn(wall, out);
            }
            for input in inputs {
                self.on_input(input, out);
            }
            self.finish_turn(out);
            // A process may be stopped when it has looked at the clock and not yet at its sockets.
            if self.prng.below(2) == 0 {
                self.begin_turn(wall, out);
                self.is_begun = true;
                self.wake_at = self.next_wake(lent());
            }
        });
    }

    fn is_serving(&self) -> bool {
        self.serving().is_some()
    }

    fn is_formed(running: &[Option<&Whole>], checks: &Checks) -> bool {
        checks.is_formed(running)
    }

    fn next_timer(&self) -> Option<Monotonic> {
        self.wake_at
    }

    fn hand_over(self) -> Left {
        let meta = self.meta_holding();
        let mut holdings = Vec::new();
        if let Stage::Serving(serving) = self.stage {
            // Whoever is to start next does not look at the time before it does.
            let (kept, _) = serving.gateway.into_kept(Monotonic(0));
            holdings.extend(kept.iter().map(holding));
            self.store.leave(serving.node, serving.boot, kept);
        }
        holdings.extend(meta);
        let disk = self.store.into_disk();
        Left { disk, holdings }
    }

    fn killed(mut self) -> Option<Left> {
        let holdings = self.meta_holding().into_iter().collect();
        let has_power = self.prng.below(2) == 0;
        let disk = self.store.into_disk();
        if !has_power {
            disk.restart();
        }
        Some(Left { disk, holdings })
    }

    fn survives(
        running: &[Option<&Whole>],
        left: &[Option<&Left>],
        is_for_ever: bool,
        checks: &Checks,
    ) -> bool {
        let running = running.iter().flatten().flat_map(|node| node.holdings());
        let left = left.iter().flatten().flat_map(|left| left.holdings.clone());
        checks.survives(&running.chain(left).collect::<Vec<_>>(), is_for_ever)
    }

    fn orders(
        running: &[Option<&Whole>],
        _: &mut Checks,
        whim: Option<(Whim, &mut Prng)>,
    ) -> Vec<(NodeId, Order)> {
        let all: Vec<&Whole> = running.iter().flatten().copied().collect();
        match whim {
            None => Vec::new(),
            Some((Whim::Transfer, prng)) => checks::transfer(&all, prng).into_iter().collect(),
            Some((Whim::Move, prng)) => checks::leave(&all, prng).into_iter().collect(),
        }
    }

    fn check(
        running: &[Option<&Whole>],
        stepped: NodeId,
        clocks: &dyn Fn(NodeId) -> Monotonic,
        checks: &mut Checks,
    ) -> Result<(), String> {
        checks.check(running, stepped, clocks)
    }

    fn check_at_rest(running: &[Option<&Whole>], _: &mut Checks) -> Result<(), String> {
        checks::check_at_rest(running)
    }

    fn describe(&self) -> String {
        match &self.stage {
            Stage::Starting(kept) => format!("starting, with {} replicas", kept.len()),
            Stage::Serving(serving) => {
                let glimpses = serving.gateway.glimpses();
                let groups: Vec<String> = glimpses.map(|glimpse| describe(&glimpse)).collect();
                let (node, boot) = (serving.node.0, serving.boot.0);
                format!("node {node}, boot {boot}: {}", groups.join("; "))
            }
        }
    }

    fn describe_frame(frame: &Frame) -> String {
        frame::describe(frame)
    }
}

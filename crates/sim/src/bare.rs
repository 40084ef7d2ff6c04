//! A node with nothing but the cores: consensus, keyspace, and as little as possible between them.
//!
//! ```text
//!   client bytes --> sessions --> outlets: one for each group, numbers batches, sends them again --.
//!                                                                                                  v
//!   peers <--> links: heartbeats of node pairs           replicas: entries, leases, reads, transfers, members
//!                                                                        |
//!                                                              keyspace, by entries
//! ```
//!
//! It stands for the production node where what is tested is the cores themselves and how they hold together. What the meta
//! group does in production (boots, incarnations, who is to be a member) is done by the [`Cluster`], which is never wrong and
//! never down; what it decides reaches nodes late.
//!
//! What is absent: several groups in one command, blocking commands, expiry, disks.

mod cluster;
mod frame;
mod outlet;
mod replica;
mod session;

use crate::clock::Clock;
use crate::node::{Birth, Connection, Input, Node, Output, Shape, Whim};
use crate::programs::Mix;
use crate::swarm::Swarm;
use cluster::{Cluster, Directory};
use consensus::{Beats, Claim, Listener, Times};
use frame::{Body, Frame};
use ids::{Boot, GatewayId, GroupId, Groups, Incarnation, Monotonic, NodeId, Prng};
use outlet::Outlet;
use replica::{Kept, Replica};
use session::{Asked, Session};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// See the file's header.
pub struct Bare {
    me: NodeId,
    gateway: GatewayId,
    groups: Groups,
    directory: Rc<Directory>,
    replicas: BTreeMap<GroupId, Replica>,
    sessions: BTreeMap<Connection, Session>,
    outlets: Vec<Outlet>,
    links: Vec<Link>,
    /// What this node says to itself.
    inbox: VecDeque<Body>,
    prng: Prng,
    /// When it looks again at what could not be done at once.
    again_at: Monotonic,
}

/// The heartbeats of one pair of nodes.
struct Link {
    beats: Beats,
    listener: Listener,
}

/// What nodes are told by whoever stands for the meta group and the operator.
#[derive(Clone)]
pub enum Order {
    /// Who is to hold what.
    Directory(Rc<Directory>),
    /// Leadership of a group is to go to this replica.
    Transfer(GroupId, Incarnation),
}

/// What a bare node hands over.
pub struct Left(Vec<(GroupId, Kept)>);

impl Bare {
    /// The nodes where a group's leader may be.
    fn seats(&self, group: GroupId) -> Vec<NodeId> {
        let place = &self.directory.places[group.index()];
        let seats = place.wanted.iter().chain(&place.leaving);
        seats
            .filter_map(|incarnation| self.directory.nodes.get(incarnation).copied())
            .collect()
    }

    /// Replicas that are to be here and are not come to be, others go.
    fn mend_replicas(&mut self, cluster: &Cluster, is_new: bool, now: Monotonic) {
        let directory = self.directory.clone();
        for (number, place) in directory.places.iter().enumerate() {
            let group = GroupId::new(number as u16);
            let is_here = |incarnation: &&Incarnation| directory.nodes.get(*incarnation) == Some(&self.me);
            let staying = place.wanted.iter().chain(&place.leaving).find(is_here).copied();
            if let Some(held) = self.replicas.get(&group) {
                let held = held.group.me();
                if staying == Some(held) || place.leaving.contains(&held) {
                    continue;
                }
                self.replicas.remove(&group);
            }
            if let Some(me) = staying.filter(|me| place.wanted.contains(me)) {
                let seed = self.prng.next_u64();
                let first = is_new.then_some(place);
                let replica = Replica::empty(group, me, first, cluster, seed, now);
                self.replicas.insert(group, replica);
            }
        }
    }

    fn on_input(
        &mut self,
        input: Input<Frame, Order>,
        cluster: &mut Cluster,
        clock: &mut Clock<'_>,
        said: &mut Saying,
    ) {
        let now = clock.read();
        match input {
            Input::Timer => {
                for replica in self.replicas.values_mut() {
                    replica.group.tick(now);
                }
            }
            Input::Frame(from, frame) => {
                if frame.to_boot.is_none_or(|boot| boot == self.gateway.boot) {
                    self.on_frame(from, frame.body, cluster, clock, said);
                }
            }
            Input::LinkUp(peer) => self.links[peer.0 as usize].beats.reconnected(now),
            Input::LinkDown(peer) => {
                for replica in self.replicas.values_mut() {
                    let leader = replica.group.status().leader;
                    if leader.and_then(|leader| self.directory.nodes.get(&leader)) == Some(&peer) {
                        replica.group.leader_link_lost(now);
                    }
                }
            }
            Input::Bytes(connection, bytes) => self.sessions.entry(connection).or_default().receive(&bytes),
            Input::Gone(connection) => {
                self.sessions.remove(&connection);
            }
            Input::Order(Order::Directory(directory)) => {
                if directory.version > self.directory.version {
                    self.directory = directory;
                    self.mend_replicas(cluster, false, now);
                }
            }
            Input::Order(Order::Transfer(group, to)) => {
                if let Some(replica) = self.replicas.get_mut(&group) {
                    // Refused where it does not lead any more.
                    let _ = replica.group.transfer(to, now);
                }
            }
        }
    }

    fn on_frame(
        &mut self,
        from: NodeId,
        body: Body,
        cluster: &mut Cluster,
        clock: &mut Clock<'_>,
        said: &mut Saying,
    ) {
        match &body {
            Body::Raft(group, message) => {
                if let Some(replica) = self.replicas.get_mut(group) {
                    replica.on_message(message.clone(), clock.read());
                }
            }
            Body::Beat(beat) => {
                let (replicas, now) = (&mut self.replicas, clock.read());
                let link = &mut self.links[from.0 as usize];
                let answer = link.listener.on_beat(beat.clone(), |claim| {
                    replicas
                        .get_mut(&claim.group)
                        .is_some_and(|replica| replica.group.confirm(claim, now))
                });
                said.tell_node(from, Some(beat.boot), Body::BeatAnswer(answer));
            }
            Body::BeatAnswer(answer) => {
                let (replicas, now) = (&mut self.replicas, clock.read());
                self.links[from.0 as usize]
                    .beats
                    .on_answer(answer, now, |claim, sent| {
                        if let Some(replica) = replicas.get_mut(&claim.group) {
                            match sent {
                                Some(sent) => replica.group.acknowledged(claim, sent, now),
                                None => replica.group.refused(claim, now),
                            }
                        }
                    });
            }
            Body::Batch(batch) => match self.replicas.get_mut(&batch.group) {
                Some(replica) => replica.on_batch(batch.clone(), &mut said.replicas),
                None => said.replicas.push((
                    replica::To::Gateway(batch.gateway),
                    Body::Answers {
                        group: batch.group,
                        number: batch.number,
                        outcome: frame::Outcome::Elsewhere(frame::Elsewhere(None)),
                    },
                )),
            },
            Body::Read(read) => match self.replicas.get_mut(&read.group) {
                Some(replica) => replica.on_read(read.clone(), cluster, clock, &mut said.replicas),
                None => said.replicas.push((
                    replica::To::Gateway(read.gateway),
                    Body::ReadAnswer {
                        group: read.group,
                        number: read.number,
                        answer: Err(frame::Elsewhere(None)),
                    },
                )),
            },
            Body::Answers { .. } | Body::ReadAnswer { .. } => self.on_answer(body, clock.read(), said),
            Body::State(state) => {
                if let Some(replica) = self.replicas.get_mut(&state.group) {
                    replica.on_state(state, &mut said.replicas);
                }
            }
            Body::Held {
                group,
                from,
                to,
                transfer,
                number,
            } => {
                if let Some(replica) = self.replicas.get_mut(group) {
                    replica.on_held((*from, *to), *transfer, *number, clock.read(), &mut said.replicas);
                }
            }
        }
    }

    fn on_answer(&mut self, body: Body, now: Monotonic, said: &mut Saying) {
        let directory = self.directory.clone();
        let node_of = |elsewhere: frame::Elsewhere| {
            elsewhere
                .0
                .and_then(|leader| directory.nodes.get(&leader).copied())
        };
        match body {
            Body::Answers {
                group,
                number,
                outcome,
            } => {
                let seats = self.seats(group);
                let told = self.outlets[group.index()].on_outcome(number, outcome, &seats, node_of, now);
                told.into_iter()
                    .for_each(|(to, reply)| self.tell(to, reply, said));
            }
            Body::ReadAnswer {
                group,
                number,
                answer,
            } => {
                let seats = self.seats(group);
                if let Some((to, reply)) =
                    self.outlets[group.index()].on_answer(number, answer, &seats, node_of, now)
                {
                    self.tell(to, reply, said);
                }
            }
            _ => unreachable!("these are the answers"),
        }
    }

    fn tell(&mut self, to: Connection, reply: Vec<u8>, said: &mut Saying) {
        if let Some(session) = self.sessions.get_mut(&to) {
            session.is_waiting = false;
            said.clients.push((to, reply));
        }
    }

    fn run_sessions(&mut self, now: Monotonic, said: &mut Saying) {
        for (connection, session) in &mut self.sessions {
            while let Some(asked) = session.next(self.groups) {
                match asked {
                    Asked::Write(group, request) => self.outlets[group.index()].write(&request, *connection),
                    Asked::Read(group, request) => self.outlets[group.index()].ask(request, *connection, now),
                    Asked::Answer(reply) => {
                        session.is_waiting = false;
                        said.clients.push((*connection, reply));
                    }
                }
            }
        }
    }

    /// Everything that follows from an input, until nothing does.
    fn finish_turn(
        &mut self,
        cluster: &mut Cluster,
        clock: &mut Clock<'_>,
        mut said: Saying,
        out: &mut Output<Frame>,
    ) {
        loop {
            self.run_sessions(clock.read(), &mut said);
            for index in 0..self.outlets.len() {
                let seats = self.seats(GroupId::new(index as u16));
                let letters = self.outlets[index].letters(&seats, clock.read());
                for letter in letters {
                    match letter {
                        outlet::Letter::Batch(to, batch) => said.tell_node(to, None, Body::Batch(batch)),
                        outlet::Letter::Read(to, read) => said.tell_node(to, None, Body::Read(read)),
                    }
                }
            }
            let directory = self.directory.clone();
            for (group, replica) in &mut self.replicas {
                let place = &directory.places[group.index()];
                replica.finish_turn(clock, place, cluster, &mut said.replicas);
            }
            self.post(&mut said, out);
            let Some(body) = self.inbox.pop_front() else {
                break;
            };
            self.on_frame(self.me, body, cluster, clock, &mut said);
        }
        self.beat(clock.read(), &mut said);
        self.post(&mut said, out);
        let is_restless = self.replicas.values().any(Replica::is_restless);
        let tick = Times::DEFAULT.tick;
        self.again_at = if is_restless {
            clock.read().after(tick)
        } else {
            Monotonic(u64::MAX)
        };
    }

    fn beat(&mut self, now: Monotonic, said: &mut Saying) {
        let claims: Vec<Claim> = self
            .replicas
            .values()
            .flat_map(|replica| replica.group.claims())
            .collect();
        let mut by_node: BTreeMap<NodeId, Vec<Claim>> = BTreeMap::new();
        for claim in claims {
            if let Some(node) = self.directory.nodes.get(&claim.to) {
                by_node.entry(*node).or_default().push(claim);
            }
        }
        for (number, link) in self.links.iter_mut().enumerate() {
            let peer = NodeId(number as u64);
            if peer != self.me {
                link.beats.claim(by_node.remove(&peer).unwrap_or_default(), now);
                if let Some(beat) = link.beats.beat(now) {
                    said.nodes.push((peer, None, Body::Beat(beat)));
                }
            }
        }
    }

    /// Sends what was said to those it is for.
    fn post(&mut self, said: &mut Saying, out: &mut Output<Frame>) {
        for (to, body) in said.replicas.drain(..) {
            let (node, to_boot) = match to {
                replica::To::Replica(incarnation) => (self.directory.nodes.get(&incarnation).copied(), None),
                replica::To::Gateway(gateway) => {
                    let node = self.directory.boots.iter().position(|boot| *boot == gateway.boot);
                    (node.map(|node| NodeId(node as u64)), Some(gateway.boot))
                }
            };
            if let Some(node) = node {
                said.nodes.push((node, to_boot, body));
            }
        }
        for (node, to_boot, body) in said.nodes.drain(..) {
            if node == self.me {
                self.inbox.push_back(body);
            } else {
                out.frames.push((node, Frame { to_boot, body }));
            }
        }
        out.bytes.append(&mut said.clients);
    }
}

/// What is said in a turn.
#[derive(Default)]
struct Saying {
    replicas: replica::Said,
    clients: Vec<(Connection, Vec<u8>)>,
    nodes: Vec<(NodeId, Option<Boot>, Body)>,
}

impl Saying {
    fn tell_node(&mut self, node: NodeId, boot: Option<Boot>, body: Body) {
        self.nodes.push((node, boot, body));
    }
}

impl Node for Bare {
    const KIND: &'static str = "--bare ";

    type Frame = Frame;
    type Order = Order;
    type Left = Left;
    type Shared = Cluster;

    fn fit(swarm: &mut Swarm) {
        swarm.mix = Mix::NONE;
    }

    fn share(shape: &Shape, seed: u64) -> Cluster {
        Cluster::new(shape, seed)
    }

    fn start(
        birth: Birth<'_, Left>,
        cluster: &mut Cluster,
        clock: &mut Clock<'_>,
        out: &mut Output<Frame>,
    ) -> Bare {
        let (boot, is_new) = cluster.boot(birth.me, birth.left.is_some());
        let gateway = GatewayId { boot, worker: 0 };
        let groups = Groups::with_default_partitions(
            ids::GroupCount::new(birth.shape.groups).expect("a cluster has groups"),
        );
        let has_leases = birth.shape.has_leases;
        let mut prng = Prng::new(birth.seed);
        let now = clock.read();
        let replicas = birth
            .left
            .map_or_else(Vec::new, |left| left.0)
            .into_iter()
            .map(|(group, kept)| {
                (
                    group,
                    Replica::resumed(group, kept, has_leases, prng.next_u64(), now),
                )
            })
            .collect();
        let mut node = Bare {
            me: birth.me,
            gateway,
            groups,
            directory: cluster.directory.clone(),
            replicas,
            sessions: BTreeMap::new(),
            outlets: groups.iter().map(|group| Outlet::new(group, gateway)).collect(),
            links: (0..birth.shape.nodes)
                .map(|_| Link {
                    beats: Beats::new(boot, Times::DEFAULT.heartbeat),
                    listener: Listener::new(),
                })
                .collect(),
            inbox: VecDeque::new(),
            prng,
            again_at: Monotonic(u64::MAX),
        };
        let is_first = is_new || planted::is(planted::Bug::AmnesiacVote);
        node.mend_replicas(cluster, is_first, now);
        node.finish_turn(cluster, clock, Saying::default(), out);
        node
    }

    fn handle(
        &mut self,
        inputs: Vec<Input<Frame, Order>>,
        cluster: &mut Cluster,
        clock: &mut Clock<'_>,
        out: &mut Output<Frame>,
    ) {
        let mut said = Saying::default();
        for input in inputs {
            self.on_input(input, cluster, clock, &mut said);
        }
        self.finish_turn(cluster, clock, said, out);
    }

    fn next_timer(&self) -> Option<Monotonic> {
        let replicas = self.replicas.values().filter_map(Replica::next_timer);
        let outlets = self.outlets.iter().filter_map(Outlet::next_timer);
        let links = self.links.iter().filter_map(|link| link.beats.due());
        replicas.chain(outlets).chain(links).chain([self.again_at]).min()
    }

    fn hand_over(self, _: &mut Clock<'_>) -> Left {
        Left(
            self.replicas
                .into_iter()
                .map(|(group, replica)| (group, replica.keep()))
                .collect(),
        )
    }

    fn killed(self) -> Option<Left> {
        None
    }

    fn survives(running: &[Option<&Bare>], left: &[Option<&Left>], _: bool, cluster: &Cluster) -> bool {
        let live = running.iter().flatten().flat_map(|node| {
            node.replicas
                .values()
                .map(|replica| (replica.group.me(), replica.group.members()))
        });
        let kept = left.iter().flatten().flat_map(|left| {
            left.0
                .iter()
                .map(|(_, kept)| (kept.incarnation(), kept.members()))
        });
        cluster.survives(live.chain(kept))
    }

    fn orders(
        running: &[Option<&Bare>],
        cluster: &mut Cluster,
        whim: Option<(Whim, &mut Prng)>,
    ) -> Vec<(NodeId, Order)> {
        let mut orders = Vec::new();
        match whim {
            None => {}
            Some((Whim::Cut, _)) => {}
            Some((Whim::Move, prng)) => cluster.move_replica(prng),
            Some((Whim::Transfer, prng)) => {
                let leaders: Vec<(&Bare, &Replica)> = running
                    .iter()
                    .flatten()
                    .flat_map(|node| node.replicas.values().map(move |replica| (*node, replica)))
                    .filter(|(_, replica)| replica.group.is_leader())
                    .collect();
                if !leaders.is_empty() {
                    let (node, replica) = leaders[prng.below(leaders.len() as u64) as usize];
                    let voters = &replica.group.members().voters;
                    let to = voters[prng.below(voters.len() as u64) as usize];
                    orders.push((node.me, Order::Transfer(replica.group.group(), to)));
                }
            }
        }
        if let Some(directory) = cluster.news() {
            let nodes = running.iter().flatten().map(|node| node.me);
            orders.extend(nodes.map(|node| (node, Order::Directory(directory.clone()))));
        }
        orders
    }

    fn check(
        running: &[Option<&Bare>],
        stepped: NodeId,
        clocks: &dyn Fn(NodeId) -> Monotonic,
        cluster: &mut Cluster,
    ) -> Result<(), String> {
        cluster.check(running, stepped, clocks)
    }

    fn check_at_rest(running: &[Option<&Bare>], cluster: &mut Cluster) -> Result<(), String> {
        cluster.check_at_rest(running)
    }

    fn describe(&self) -> String {
        let replicas = self.replicas.values().map(|replica| {
            let (group, status) = (&replica.group, replica.group.status());
            format!(
                "group {} as {}: {:?} in term {}, applied {} of {}",
                group.group().number(),
                group.me().0,
                status.role,
                status.term.0,
                group.point().index.0,
                group.last_index().0
            )
        });
        replicas.collect::<Vec<_>>().join("; ")
    }

    fn describe_frame(frame: &Frame) -> String {
        frame.to_string()
    }
}

//! Several nodes of one worker each, and a network that loses what it is told to lose.

use gateway::{
    ClientInfo, Connection, Delivery, Gateway, HandoverImage, Layout, PieceSizes, Session, Shared,
};
use ids::{
    Boot, Epoch, GroupCount, GroupId, Groups, HashSeed, Monotonic, NodeId, PeerWorker, Prng,
    SemanticsVersion, UnixMillis,
};
use keyspace::Keyspace;
use mutations::Mutation;
use options::{DurabilityChoice, Sources};
use peer_wire::PeerMessage;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// One turn, in nanoseconds.
const TURN: u64 = 1_000_000;

thread_local! {
    /// What the clock says within a turn.
    static CLOCK: Cell<u64> = const { Cell::new(0) };
    /// What is long for nodes that are made from here on.
    pub(crate) static SIZES: Cell<PieceSizes> = Cell::new(PieceSizes::default());
    /// How long workers of nodes that are made from here on rest at least behind a piece of state.
    pub(crate) static COPY_REST: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// What nodes are said to keep that are made from here on. Their replicas keep nothing.
    pub(crate) static DURABILITY: Cell<DurabilityChoice> = const { Cell::new(DurabilityChoice::Memory) };
}

pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    wire: VecDeque<(usize, usize, PeerMessage)>,
    pub(crate) now: u64,
    /// Nanoseconds between two turns.
    pub(crate) pace: u64,
    pub(crate) layout: Layout,
    /// Nodes that neither run nor hear.
    pub(crate) dead: Vec<bool>,
    /// On this node alone a mistake is made.
    pub(crate) mistake: Option<(usize, Mutation)>,
    /// If the links are not equally fast: in each turn, what is on half of them waits for the next.
    pub(crate) delays: Option<Prng>,
    /// When pieces of states were sent.
    pub(crate) chunks_sent: Vec<u64>,
}

pub(crate) struct Node {
    boot: Boot,
    pub(crate) gateway: Gateway,
    /// By how many milliseconds its wall clock is ahead.
    pub(crate) wall_ahead: i64,
    clients: BTreeMap<u64, Connection>,
    /// What was told to clients that listen, as RESP2 has it.
    pub(crate) messages: Vec<String>,
    /// Clients that come by the cluster endpoint.
    by_cluster: Vec<u64>,
    shared: Arc<Shared>,
    /// The newest rules that its build follows.
    knows: SemanticsVersion,
}

/// The only worker of a node.
pub(crate) fn first_of(node: u64) -> PeerWorker {
    PeerWorker {
        node: NodeId(node),
        worker: 0,
    }
}

impl World {
    /// Nodes that are all alone: the first has all groups.
    pub(crate) fn new(nodes: u64, groups: u16) -> World {
        World {
            nodes: (0..nodes)
                .map(|number| Node::new(Boot(number + 1), groups, SemanticsVersion::CURRENT))
                .collect(),
            wire: VecDeque::new(),
            now: TURN,
            pace: TURN,
            layout: Layout::alone(NodeId(0), Boot(1), groups),
            dead: vec![false; nodes as usize],
            mistake: None,
            delays: None,
            chunks_sent: Vec::new(),
        }
    }

    /// Tells every node of the layout's next version.
    pub(crate) fn lay_out(&mut self, change: impl FnOnce(&mut Layout)) {
        change(&mut self.layout);
        self.layout.epoch = Epoch(self.layout.epoch.0 + 1);
        (0..self.nodes.len()).for_each(|number| self.tell(number));
    }

    /// The layout's next version.
    pub(crate) fn next_epoch(&self) -> u64 {
        self.layout.epoch.0 + 1
    }

    /// Tells one node alone of the layout's next version.
    pub(crate) fn lay_out_for(&mut self, number: usize, change: impl FnOnce(&mut Layout)) {
        change(&mut self.layout);
        self.layout.epoch = Epoch(self.layout.epoch.0 + 1);
        self.tell(number);
    }

    /// Whether a node would answer a read of the first group from its own state.
    pub(crate) fn has_lease(&self, number: usize) -> bool {
        self.has_lease_of(number, GroupId::new(0))
    }

    /// Whether a node would answer a read of a group from its own state.
    pub(crate) fn has_lease_of(&self, number: usize, group: GroupId) -> bool {
        let mut replica_views = self.nodes[number].gateway.replica_views();
        let found = replica_views.find(|replica_view| replica_view.group == group);
        found.is_some_and(|replica_view| replica_view.has_lease(Monotonic(self.now)))
    }

    /// Tells a node of the layout as it is.
    fn tell(&mut self, number: usize) {
        let count = self.nodes.len() as u64;
        let me = NodeId(number as u64);
        let others = || (0..count).map(NodeId).filter(|peer| *peer != me);
        let layout = Layout {
            me,
            boot: self.nodes[number].boot,
            peers: others().collect(),
            ..self.layout.clone()
        };
        let gateway = &mut self.nodes[number].gateway;
        gateway.set_layout(Arc::new(layout));
        others().for_each(|peer| gateway.on_link(peer, true));
    }

    /// The process of a node stops, and another one goes on with what it leaves. Whatever is on the wire is lost.
    pub(crate) fn restart(&mut self, number: usize) {
        drop(self.restart_and_take(number, |_| None));
    }

    /// The same, but that the states of its groups are still being read: they are handed out.
    pub(crate) fn restart_unread(&mut self, number: usize) -> Vec<(GroupId, Keyspace)> {
        self.restart_and_take(number, |kept| kept.keyspace.take())
    }

    fn restart_and_take(
        &mut self,
        number: usize,
        take: impl Fn(&mut HandoverImage) -> Option<Keyspace>,
    ) -> Vec<(GroupId, Keyspace)> {
        let groups = self.layout.groups.len() as u16;
        let boot = Boot(self.nodes[number].boot.0 + 100);
        let new = Node::new(boot, groups, self.nodes[number].knows);
        let old = std::mem::replace(&mut self.nodes[number], new);
        let (mut kept, lost) = old.gateway.into_handover_images(Monotonic(self.now));
        assert_eq!(lost, Vec::new());
        let taken = kept.iter_mut().filter_map(|kept| Some((kept.group, take(kept)?)));
        let taken = taken.collect();
        self.wire.retain(|(from, to, _)| *from != number && *to != number);
        self.nodes[number].gateway.keep(&mut kept);
        assert!(kept.is_empty());
        self.nodes[number].gateway.begin_cluster(Monotonic(self.now));
        self.tell(number);
        for peer in (0..self.nodes.len()).filter(|peer| *peer != number) {
            self.nodes[peer].gateway.on_link(NodeId(number as u64), false);
            self.nodes[peer].gateway.on_link(NodeId(number as u64), true);
        }
        taken
    }

    /// The next start of a node is that of a build that follows these rules and older ones.
    pub(crate) fn install(&mut self, number: usize, knows: SemanticsVersion) {
        self.nodes[number].knows = knows;
    }

    /// The process stands still for so many turns in the middle of one.
    pub(crate) fn stand_still(&mut self, turns: u64) {
        CLOCK.set(self.now + turns * TURN);
    }

    /// One turn of every node that lives.
    pub(crate) fn turn(&mut self) {
        self.now += self.pace;
        let links = self.nodes.len() * self.nodes.len();
        let is_slow: Vec<bool> = match &mut self.delays {
            Some(prng) => (0..links).map(|_| prng.below(2) == 0).collect(),
            None => vec![false; links],
        };
        for _ in 0..self.wire.len() {
            let Some((from, to, message)) = self.wire.pop_front() else {
                break;
            };
            if is_slow[from * self.nodes.len() + to] {
                self.wire.push_back((from, to, message));
                continue;
            }
            if !self.dead[from] && !self.dead[to] {
                self.nodes[to].gateway.on_peer(first_of(from as u64), message);
            }
        }
        for number in 0..self.nodes.len() {
            if self.dead[number] {
                continue;
            }
            let node = &mut self.nodes[number];
            let mistake = self.mistake.filter(|(node, _)| *node == number);
            if let Some((_, mutation)) = mistake {
                mutations::plant(Some(mutation));
            }
            let wall = (self.now / 1_000_000) as i64 + node.wall_ahead;
            node.gateway.begin_turn(UnixMillis(wall));
            node.gateway.begin_cluster(Monotonic(self.now));
            node.gateway.pump();
            node.gateway.end_waits();
            node.deliver();
            node.gateway.finish_cluster(Monotonic(self.now));
            node.deliver();
            for (to, message) in node.gateway.take_peer_messages() {
                let is_chunk = matches!(message, PeerMessage::TransferChunk(_));
                self.chunks_sent.extend(is_chunk.then_some(self.now));
                self.wire.push_back((number, to.node.0 as usize, message));
            }
            if mistake.is_some() {
                mutations::plant(None);
            }
            assert_eq!(node.gateway.check(), Ok(()), "node {number}");
            assert_eq!(node.gateway.check_replicas(), Ok(()), "node {number}");
        }
    }

    /// What one node has sent to another is lost.
    pub(crate) fn lose_between(&mut self, from: usize, to: usize) {
        self.wire.retain(|sent| (sent.0, sent.1) != (from, to));
    }

    pub(crate) fn turns(&mut self, count: usize) {
        (0..count).for_each(|_| self.turn());
    }

    /// What is on its way: from, to, and what.
    pub(crate) fn on_the_wire(&self) -> impl Iterator<Item = (usize, usize, &PeerMessage)> {
        self.wire.iter().map(|(from, to, message)| (*from, *to, message))
    }

    /// Whatever is on its way is lost.
    pub(crate) fn lose(&mut self) {
        self.wire.clear();
    }

    /// Background work.
    pub(crate) fn cron(&mut self) {
        for (node, _) in self.nodes.iter_mut().zip(&self.dead).filter(|(_, dead)| !**dead) {
            node.gateway.cron();
        }
    }

    /// Entries that the leaders on a node have proposed.
    pub(crate) fn proposed(&self, node: usize) -> u64 {
        let members = self.nodes[node].gateway.replica_views();
        let members = members.filter_map(|replica_view| replica_view.member());
        members.map(|member| member.counts().entries_proposed).sum()
    }

    /// How many transactions hold locks in the groups that a node has replicas of.
    pub(crate) fn transactions_held(&self, node: usize) -> usize {
        let replica_views = self.nodes[node].gateway.replica_views();
        replica_views
            .map(|replica_view| replica_view.transaction_counts().prepared)
            .sum()
    }

    /// How much of transactions is in the replicas of a node: held, waited for, ended and not forgotten, not acknowledged.
    pub(crate) fn transactions_left(&self, node: usize) -> usize {
        let replica_views = self.nodes[node].gateway.replica_views();
        let counts = replica_views.map(|replica_view| replica_view.transaction_counts());
        counts
            .map(|counts| counts.prepared + counts.waiting + counts.ended + counts.deferred)
            .sum()
    }

    /// Locks that are held or waited for in the replicas of a node.
    pub(crate) fn locks_left(&self, node: usize) -> usize {
        let replica_views = self.nodes[node].gateway.replica_views();
        let counts = replica_views.map(|replica_view| replica_view.transaction_counts());
        counts.map(|counts| counts.prepared + counts.waiting).sum()
    }

    /// What a client of a node is answered in up to so many turns.
    pub(crate) fn reply(&mut self, node: usize, client: u64) -> String {
        for _ in 0..8_000 {
            let reply = self.nodes[node].take_reply(client);
            if !reply.is_empty() {
                return reply;
            }
            self.turn();
        }
        panic!("no reply");
    }

    /// A client of a node sends lines as one transaction, and what the whole of it is answered.
    pub(crate) fn exec(&mut self, node: usize, client: u64, lines: &[&str]) -> String {
        assert_eq!(self.run(node, client, "MULTI"), "+OK");
        for line in lines {
            assert_eq!(self.run(node, client, line), "+QUEUED", "{line}");
        }
        self.run(node, client, "EXEC")
    }

    /// Sends words to a node as a client of it, and what it answers in up to so many turns.
    pub(crate) fn run(&mut self, node: usize, client: u64, words: &str) -> String {
        self.send(node, client, words);
        self.reply(node, client)
    }

    /// A client will come by the cluster endpoint of a node.
    pub(crate) fn by_cluster(&mut self, node: usize, client: u64) {
        self.nodes[node].by_cluster.push(client);
    }

    pub(crate) fn send(&mut self, node: usize, client: u64, words: &str) {
        self.nodes[node].send(client, words);
    }
}

impl Node {
    fn new(boot: Boot, groups: u16, knows: SemanticsVersion) -> Node {
        let count = Groups::with_default_partitions(GroupCount::new(groups).expect("a valid count"));
        let flags = vec![("enable-debug-command".into(), "yes".into())];
        let settings = options::load(&Sources {
            flags,
            ..Sources::default()
        });
        let mut settings = settings.expect("one right flag");
        settings.take_durability(DURABILITY.get());
        let mut shared = Shared::new(boot, "run".into(), 0, 6379, count, 1, settings);
        shared.clients.set_node(NodeId(boot.0));
        shared.semantics = knows;
        shared.hooks.monotonic = || Monotonic(CLOCK.get());
        shared.hooks.piece_sizes = SIZES.get();
        shared.hooks.copy_rest_min = COPY_REST.get();
        let shared = Arc::new(shared);
        let gateway = Gateway::new(0, shared.clone(), HashSeed([boot.0, 7]), boot.0);
        Node {
            boot,
            gateway,
            wall_ahead: 0,
            clients: BTreeMap::new(),
            messages: Vec::new(),
            by_cluster: Vec::new(),
            shared,
            knows,
        }
    }

    fn send(&mut self, client: u64, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        self.send_bytes(client, &bytes);
    }

    /// The same as bytes, which need be no whole command.
    pub(crate) fn send_bytes(&mut self, client: u64, bytes: &[u8]) {
        let address = "127.0.0.1:1".parse().expect("an address");
        let shared = &self.shared;
        let connection = self.clients.entry(client).or_insert_with(|| {
            let info = ClientInfo::new(shared.clients.next_id(), address, address, 0, 0, 0);
            let info = Arc::new(info);
            shared.clients.add(info.clone());
            let endpoint = if self.by_cluster.contains(&client) {
                gateway::Endpoint::Cluster
            } else {
                gateway::Endpoint::AnyNode
            };
            Connection::new(Session::new(info, client, endpoint, true))
        });
        // As much at a time as a worker reads from a socket.
        for piece in bytes.chunks(64 * 1024) {
            self.gateway.feed(connection, piece);
        }
        self.deliver();
    }

    /// The connection of a client ends, whatever it has asked for.
    pub(crate) fn hang_up(&mut self, client: u64) {
        let mut gone = self.clients.remove(&client).expect("it has sent something");
        self.gateway.forget_connection(client);
        self.gateway.go_on(&mut gone.session);
        self.gateway.stop_listening(&mut gone.session);
        self.shared.clients.remove(gone.session.info.id);
    }

    fn deliver(&mut self) {
        while let Some(delivery) = self.gateway.next_delivery() {
            if let Delivery::Message { message, .. } = &delivery {
                self.messages
                    .push(String::from_utf8_lossy(message).replace("\r\n", " "));
            }
            let Some(token) = delivery.connection() else {
                continue;
            };
            if let Some(connection) = self.clients.get_mut(&token) {
                self.gateway.deliver(connection, delivery);
                self.gateway.resume(connection);
            }
        }
    }

    /// Whether nothing of what a client was answered may leave.
    pub(crate) fn is_void(&self, client: u64) -> bool {
        self.clients[&client].session.is_void
    }

    /// The node's part of the meta group says what is set for the whole cluster.
    pub(crate) fn hears_of_setting(&mut self, name: &str, value: &str, version: u64) {
        self.shared.set_for_cluster([(name, value, version)]);
    }

    /// Whatever it has acknowledged is kept as this mode demands.
    pub(crate) fn has_followed(&mut self, durability: DurabilityChoice) {
        self.shared.take_durability(durability);
    }

    pub(crate) fn take_reply(&mut self, client: u64) -> String {
        let Some(connection) = self.clients.get_mut(&client) else {
            return String::new();
        };
        if !connection.pipeline.is_settled() {
            return String::new();
        }
        let reply = self.take_ready(client);
        String::from_utf8_lossy(&reply)
            .replace("\r\n", " ")
            .trim()
            .to_owned()
    }

    /// Whether a client waits for an answer.
    pub(crate) fn is_unsettled(&self, client: u64) -> bool {
        self.clients
            .get(&client)
            .is_some_and(|connection| !connection.pipeline.is_settled())
    }

    /// What may leave for a client by now, though more may follow.
    pub(crate) fn take_ready(&mut self, client: u64) -> Vec<u8> {
        let Some(connection) = self.clients.get_mut(&client) else {
            return Vec::new();
        };
        let mut reply = Vec::new();
        while connection.pipeline.ready_bytes() > 0 {
            let ready = connection.pipeline.ready().to_vec();
            connection.pipeline.sent(ready.len());
            reply.extend(ready);
        }
        reply
    }
}

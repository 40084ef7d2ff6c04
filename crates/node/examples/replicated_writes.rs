//! Three replicas of a group and two gateways in one thread, with the peers' codec between them, for counting instructions:
//!
//! ```text
//! cargo build --release -p node --example replicated_writes
//! valgrind --tool=callgrind target/release/examples/replicated_writes 16 400
//! ```
//!
//! 16 writes in an entry, 400 entries: `SET` with 100 bytes, of clients of the two nodes that follow. A node turns when there is
//! something for it, as a worker does. The difference of two counts of entries leaves the start out; over 1, 4, 16 and 64
//! writes an entry, the slope against 1/w is what an entry costs, and the intercept what a write does. What is left out is the
//! system: sockets, polling, sleeping.
//!
//! With a third number there are so many groups, all led by the first node, and an entry is one of each group at most; with
//! `mset` behind it each write is an `MSET` of two keys, mostly of two groups.

use control::Order;
use gateway::{ClientInfo, Connection, Delivery, Endpoint, Gateway, Layout, Session, Shared};
use ids::{
    Boot, Epoch, GroupCount, GroupId, Groups, HashSeed, Incarnation, Monotonic, NodeId, PeerWorker,
    UnixMillis,
};
use options::Sources;
use peer_wire::frame::{BODY_BYTES_MAX, FrameDecoder};
use peer_wire::{Assembler, PeerMessage};
use std::sync::Arc;

/// Between two turns, in nanoseconds.
const TURN: u64 = 50_000;

const NODES: usize = 3;

/// What the gateways' work was, besides instructions.
#[derive(Default)]
struct Counts {
    turns: u64,
    finished: u64,
    messages: u64,
    bytes: u64,
}

struct World {
    nodes: Vec<Node>,
    /// Bytes on their way, by receiver: from whom.
    wire: Vec<Vec<(usize, Vec<u8>)>>,
    now: u64,
    layout: Layout,
    counts: Counts,
}

struct Node {
    boot: Boot,
    gateway: Gateway,
    client: Connection,
    has_input: bool,
}

impl World {
    fn new(groups: u16) -> World {
        let nodes = (1..=NODES as u64).map(|number| Node::new(Boot(number), groups));
        World {
            nodes: nodes.collect(),
            wire: vec![Vec::new(); NODES],
            now: TURN,
            layout: Layout::alone(NodeId(0), Boot(1), groups),
            counts: Counts::default(),
        }
    }

    /// Tells every node of the layout's next version.
    fn lay_out(&mut self, change: impl FnOnce(&mut Layout)) {
        change(&mut self.layout);
        self.layout.epoch = Epoch(self.layout.epoch.0 + 1);
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let me = NodeId(number as u64);
            let others = || (0..NODES as u64).map(NodeId).filter(|peer| *peer != me);
            let layout = Layout {
                me,
                boot: node.boot,
                peers: others().collect(),
                ..self.layout.clone()
            };
            node.gateway.set_layout(Arc::new(layout));
            others().for_each(|peer| node.gateway.on_link(peer, true));
            node.has_input = true;
        }
    }

    /// The first node's replica is joined by one on each other node.
    fn grow(&mut self) {
        let others = |group: u16| [1_000, 1_001].map(|first| Incarnation(first + 2 * u64::from(group)));
        self.lay_out(|layout| {
            for (number, group) in (0..).zip(&mut layout.groups) {
                let [second, third] = others(number);
                group.seats.extend([(second, NodeId(1)), (third, NodeId(2))]);
            }
        });
        self.turns(10_000);
        let add = |incarnation, node| Order::AddLearner { node, incarnation };
        for number in 0..self.layout.groups.len() as u16 {
            let [second, third] = others(number);
            let promote = Order::Change {
                promote: vec![second, third],
                remove: Vec::new(),
            };
            let group = GroupId::new(number);
            for order in [add(second, NodeId(1)), add(third, NodeId(2)), promote] {
                let (group_reports, _) = self.nodes[0].gateway.group_reports();
                let is_its = |group_report: &&control::GroupReport| {
                    group_report.report.group == control::GroupRef::Data(group)
                };
                let group_report = group_reports
                    .iter()
                    .find(is_its)
                    .expect("the first node leads all");
                let index = group_report.report.index;
                self.nodes[0].gateway.on_order(group, index, &order);
                self.turns(2_000);
            }
        }
        self.lay_out(|layout| layout.groups.iter_mut().for_each(|group| group.voters = 3));
        self.turns(20_000);
    }

    /// So many turns for which there need not be anything to do.
    fn turns(&mut self, count: usize) {
        for _ in 0..count {
            self.nodes.iter_mut().for_each(|node| node.has_input = true);
            self.turn();
        }
    }

    /// One turn of every node that has something to do.
    fn turn(&mut self) {
        self.now += TURN;
        let now = Monotonic(self.now);
        for number in 0..NODES {
            let arrived = std::mem::take(&mut self.wire[number]);
            let node = &mut self.nodes[number];
            let is_due = node
                .gateway
                .next_cluster_timer()
                .is_some_and(|timer| timer <= now);
            if arrived.is_empty() && !std::mem::take(&mut node.has_input) && !is_due {
                continue;
            }
            self.counts.turns += 1;
            node.gateway.begin_turn(UnixMillis((self.now / 1_000_000) as i64));
            node.gateway.begin_cluster(now);
            for (from, bytes) in arrived {
                node.receive(from, &bytes);
            }
            node.deliver();
            // As a worker does: before connections go on, and behind them.
            for _ in 0..2 {
                if node.gateway.has_cluster_work() {
                    self.counts.finished += 1;
                    node.gateway.finish_cluster(now);
                }
                let mut out: [Vec<u8>; NODES] = Default::default();
                for (to, message) in node.gateway.take_peer_messages() {
                    self.counts.messages += 1;
                    message.encode(&mut out[to.node.0 as usize]).expect("it is short");
                }
                for (to, bytes) in out.into_iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
                    self.counts.bytes += bytes.len() as u64;
                    self.wire[to].push((number, bytes));
                }
                node.deliver();
            }
        }
    }
}

impl Node {
    fn new(boot: Boot, groups: u16) -> Node {
        let count = Groups::with_default_partitions(GroupCount::new(groups).expect("a valid count"));
        let settings = options::load(&Sources::default()).expect("the defaults are valid");
        let shared = Arc::new(Shared::new(boot, "run".into(), 0, 6379, count, 1, settings));
        shared.clients.set_node(NodeId(boot.0));
        let address = "127.0.0.1:1".parse().expect("an address");
        let info = Arc::new(ClientInfo::new(
            shared.clients.next_id(),
            address,
            address,
            0,
            0,
            0,
        ));
        shared.clients.add(info.clone());
        Node {
            boot,
            gateway: Gateway::new(0, shared, HashSeed([boot.0, 7]), boot.0),
            client: Connection::new(Session::new(info, 1, Endpoint::AnyNode, true)),
            has_input: true,
        }
    }

    fn receive(&mut self, from: usize, mut bytes: &[u8]) {
        let (mut decoder, mut assembler) = (FrameDecoder::new(BODY_BYTES_MAX), Assembler::new());
        while let Some(frame) = decoder.next(&mut bytes).expect("as it was sent") {
            if let Some(packet) = assembler.push(frame).expect("as it was sent") {
                let message = PeerMessage::decode(&packet).expect("as it was sent");
                let from = PeerWorker {
                    node: NodeId(from as u64),
                    worker: 0,
                };
                self.gateway.on_peer(from, message);
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(delivery) = self.gateway.next_delivery() {
            if delivery.connection().is_some() && !matches!(delivery, Delivery::Message { .. }) {
                self.gateway.deliver(&mut self.client, delivery);
                self.gateway.resume(&mut self.client);
            }
        }
    }

    /// What was answered.
    fn take_replies(&mut self) -> usize {
        let mut bytes = 0;
        while self.client.pipeline.ready_bytes() > 0 {
            let ready = self.client.pipeline.ready();
            assert!(ready.starts_with(b"+OK\r\n"), "every write is carried out");
            let count = ready.len();
            self.client.pipeline.sent(count);
            bytes += count;
        }
        bytes
    }
}

fn main() {
    let mut numbers = std::env::args().skip(1).map(|word| word.parse::<usize>());
    let writes = numbers.next().and_then(Result::ok).unwrap_or(16);
    let entries = numbers.next().and_then(Result::ok).unwrap_or(400);
    let groups = numbers.next().and_then(Result::ok).unwrap_or(1);
    let is_mset = std::env::args().nth(4).is_some_and(|word| word == "mset");
    let mut world = World::new(u16::try_from(groups).expect("so many groups there may be"));
    world.lay_out(|_| {});
    world.turns(10_000);
    world.grow();
    let value = "x".repeat(100);
    let mut key = 0_u64;
    let mut input = Vec::new();
    world.counts = Counts::default();
    let before = proposed(&world);
    for entry in 0..entries {
        let mut waiting = [0; NODES];
        for write in 0..writes {
            // Half of them from each of the two that follow; single ones by turns.
            let number = 1 + (write + entry) % 2;
            let mut pair = || {
                key += 1;
                let name = format!("key:{:012}", key * 7919 % 10_000);
                format!("$16\r\n{name}\r\n$100\r\n{value}\r\n")
            };
            input.clear();
            if is_mset {
                input.extend_from_slice(format!("*5\r\n$4\r\nMSET\r\n{}{}", pair(), pair()).as_bytes());
            } else {
                input.extend_from_slice(format!("*3\r\n$3\r\nSET\r\n{}", pair()).as_bytes());
            }
            let node = &mut world.nodes[number];
            node.gateway.feed(&mut node.client, &input);
            node.has_input = true;
            waiting[number] += "+OK\r\n".len();
        }
        while waiting.iter().any(|bytes| *bytes > 0) {
            world.turn();
            for (node, waiting) in world.nodes.iter_mut().zip(&mut waiting) {
                *waiting -= node.take_replies();
            }
        }
    }
    let Counts {
        turns,
        finished,
        messages,
        bytes,
    } = world.counts;
    let (proposed, all) = (proposed(&world) - before, (entries * writes) as f64);
    println!("{all} writes in {proposed} entries");
    println!(
        "per write: {:.3} turns, {:.3} finished, {:.3} messages, {:.0} bytes",
        turns as f64 / all,
        finished as f64 / all,
        messages as f64 / all,
        bytes as f64 / all
    );
}

/// Entries that the leader has proposed.
fn proposed(world: &World) -> u64 {
    let replicas = world.nodes[0].gateway.replica_views();
    let members = replicas.filter_map(|replica| replica.member());
    members.map(|member| member.counts().entries_proposed).sum()
}

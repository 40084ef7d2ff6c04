//! Commands over groups of two workers of one node, in one thread: how many instructions each takes. Mailbox batches are
//! handed over at once, and there is no socket.
//!
//! ```text
//! cargo build --release -p gateway --example two_workers
//! for n in 1000 3000; do valgrind --tool=callgrind two_workers rename $n; done    # the difference by 2000 is one command's
//! ```
//!
//! The first argument is a row of [`commands`], the second how often it is sent.

use gateway::{ClientInfo, Connection, Delivery, Endpoint, Gateway, MailboxBatch, Session, Shared};
use ids::{Boot, GroupCount, Groups, HashSeed, Slot, UnixMillis};
use options::Sources;
use std::collections::VecDeque;
use std::sync::Arc;

/// Half of them of each worker.
const GROUPS: u16 = 4;

fn groups() -> Groups {
    Groups::with_default_partitions(GroupCount::new(GROUPS).expect("a valid count"))
}

/// The first key of some that is in this group.
fn key(group: u16, prefix: &str) -> String {
    let is_there = |key: &String| groups().group_of(Slot::of_key(key.as_bytes())).number() == group;
    let mut names = (0..).map(|number| format!("{prefix}{number}"));
    names.find(is_there).expect("there are many")
}

/// What is sent in turn, by the name of it. The client is the first worker's: it has the groups 0 and 1.
fn commands(name: &str) -> Vec<String> {
    let [a, b, far, farther] = [0, 1, 2, 3].map(|group| key(group, "k"));
    match name {
        "get" => vec![format!("GET {a}")],
        "set" => vec![format!("SET {a} v")],
        "mset-here" => vec![format!("MSET {a} v {b} v")],
        "rename-here" => vec![format!("SET {a} v"), format!("RENAME {a} {b}")],
        "mset-far" => vec![format!("MSET {a} v {far} v")],
        "rename" => vec![format!("SET {a} v"), format!("RENAME {a} {far}")],
        "msetnx" => vec![
            format!("DEL {a}"),
            format!("MSETNX {a} v {far} v"),
            format!("DEL {far}"),
        ],
        "exec" => vec![
            "MULTI".into(),
            format!("SET {a} v"),
            format!("INCR {far}"),
            format!("GET {farther}"),
            "EXEC".into(),
        ],
        "mget-three" => vec![format!("MGET {a} {b} {far} {farther}")],
        "sinter" => vec![format!("SINTER {a} {far}")],
        "lmove" => vec![
            format!("RPUSH l{{{a}}} v"),
            format!("LMOVE l{{{a}}} l{{{far}}} LEFT RIGHT"),
            format!("LPOP l{{{far}}}"),
        ],
        other => panic!("{other:?} is no row"),
    }
}

struct Node {
    gateways: Vec<Gateway>,
    mail: Vec<VecDeque<MailboxBatch>>,
    client: Connection,
    answered: usize,
}

impl Node {
    fn new() -> Node {
        let settings = options::load(&Sources::default()).expect("no option is given");
        let shared = Arc::new(Shared::new(Boot(1), "run".into(), 0, 6379, groups(), 2, settings));
        let gateway = |worker| Gateway::new(worker, shared.clone(), HashSeed([1, 7]), 1);
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
            gateways: [0, 1].map(gateway).into(),
            mail: [(), ()].map(|()| VecDeque::new()).into(),
            client: Connection::new(Session::new(info, 0, Endpoint::AnyNode, true)),
            answered: 0,
        }
    }

    fn send(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.gateways[0].begin_turn(UnixMillis(1));
        self.gateways[0].feed(&mut self.client, bytes.as_bytes());
        self.end_turn(0);
        while self.receive(0) || self.receive(1) {}
        assert!(self.client.pipeline.is_settled(), "{line:?} was not answered");
        while self.client.pipeline.ready_bytes() > 0 {
            let ready = self.client.pipeline.ready().len();
            assert!(
                self.client.pipeline.ready().first() != Some(&b'-'),
                "{line:?} failed"
            );
            self.client.pipeline.sent(ready);
            self.answered += 1;
        }
    }

    fn receive(&mut self, worker: usize) -> bool {
        let Some(mut mailbox_batch) = self.mail[worker].pop_front() else {
            return false;
        };
        let gateway = &mut self.gateways[worker];
        gateway.begin_turn(UnixMillis(1));
        let client = &mut self.client;
        gateway.receive(1 - worker as u16, &mut mailbox_batch, &mut |incoming| {
            if let gateway::Incoming::Answer { sequence, reply, .. } = incoming {
                client.pipeline.complete(sequence, reply);
            }
        });
        gateway.recycle(mailbox_batch);
        self.end_turn(worker);
        true
    }

    fn end_turn(&mut self, worker: usize) {
        let gateway = &mut self.gateways[worker];
        while let Some(delivery) = gateway.next_delivery() {
            if !matches!(delivery, Delivery::Message { .. } | Delivery::Reap) {
                gateway.deliver(&mut self.client, delivery);
            }
        }
        self.mail[1 - worker].extend(gateway.post(1 - worker as u16).drain(..));
    }
}

fn main() {
    let mut words = std::env::args().skip(1);
    let name = words.next().expect("a row");
    let times: usize = words
        .next()
        .and_then(|times| times.parse().ok())
        .expect("a count");
    let lines = commands(&name);
    let mut node = Node::new();
    for _ in 0..times {
        for line in &lines {
            node.send(line);
        }
    }
    println!("{} replies", node.answered);
}

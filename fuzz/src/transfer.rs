//! State on its way to another replica.

use crate::node::{Node, header};
use crate::program;
use crate::source::Source;
use ids::{Boot, Db, GatewayId, UnixMillis};
use keyspace::{Entry, EntryBuf, EntryOperation, Keyspace, SnapshotReceiver, Transfer, TransferStep};
use resp::{ArgsBuf, Protocol};

/// Any bytes are chunks or an error, and what has come of them can be used, and sent on. A state that is sent while it
/// changes arrives as it is in the end, and goes on alike.
pub fn transfer(data: &[u8]) {
    match data.split_first() {
        Some((0, rest)) => hostile(rest),
        Some((_, rest)) => changing(&mut Source(&rest[..rest.len().min(3_000)])),
        None => {}
    }
}

/// The bytes as chunks, each behind its length.
fn hostile(mut data: &[u8]) {
    let mut receiver = SnapshotReceiver::new();
    while let Some((length, rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (chunk, rest) = rest.split_at(length);
        if receiver.take(chunk).is_err() {
            return;
        }
        data = rest;
    }
    let Some(keyspace) = receiver.finish() else { return };
    let mut node = Node::new(1);
    node.keyspace = keyspace;
    let sent_on = send(&mut node, &mut Source(&[]), |_| {});
    assert_eq!(sent_on.state_hash(), node.keyspace.state_hash());
    let mut entry = EntryBuf::new(&header(7, 7));
    entry.begin_own_batch();
    for line in [
        "KEYS *",
        "RANDOMKEY",
        "SPOP s",
        "LPOP l",
        "ZPOPMIN z",
        "HRANDFIELD h",
        "FLUSHALL",
    ] {
        let words = ArgsBuf::from_slices(line.split(' '));
        entry.push(&EntryOperation::Command {
            db: Db::default(),
            protocol: Protocol::Resp3,
            args: words.as_args(),
        });
    }
    let bytes = entry.finish();
    let entry = Entry::decode(&bytes).expect("what was encoded can be decoded");
    node.apply(&entry, &mut Vec::new());
}

/// Sends the state of `node` in chunks of sizes from `source`, and lets it change after each.
fn send(node: &mut Node, source: &mut Source<'_>, mut change: impl FnMut(&mut Node)) -> Keyspace {
    let mut transfer = Transfer::begin(&mut node.keyspace).expect("there is no other");
    let mut receiver = SnapshotReceiver::new();
    loop {
        let bytes_max = 40 + 4 * usize::from(source.byte());
        let (chunk, is_last) = match transfer.next_chunk(&mut node.keyspace, bytes_max) {
            TransferStep::More(chunk) => (chunk, false),
            TransferStep::Last(chunk) => (chunk, true),
            TransferStep::Lost => panic!("little changed"),
        };
        let progress = receiver.take(&chunk).expect("it was just made");
        assert_eq!(progress.is_complete, is_last);
        if is_last {
            return receiver.finish().expect("it is complete");
        }
        change(node);
    }
}

/// Entries of one gateway.
struct Log {
    now: i64,
    number: u64,
}

impl Log {
    fn entry(&mut self, source: &mut Source<'_>) -> Vec<u8> {
        self.now += i64::from(source.byte()) - 50;
        self.number += 1;
        let mut entry = EntryBuf::new(&header(self.now, u64::from(source.byte())));
        let gateway = GatewayId {
            boot: Boot(7),
            worker: 1,
        };
        entry.begin_batch(gateway, self.number, self.number.saturating_sub(3));
        for _ in 0..1 + source.below(6) {
            program::push(&mut entry, source);
        }
        entry.finish()
    }
}

fn apply(node: &mut Node, bytes: &[u8]) -> Vec<u8> {
    let entry = Entry::decode(bytes).expect("what was encoded can be decoded");
    let mut replies = Vec::new();
    assert!(node.apply(&entry, &mut replies));
    replies
}

fn changing(source: &mut Source<'_>) {
    let mut node = Node::new(1);
    let mut log = Log {
        now: 1_000,
        number: 0,
    };
    for _ in 0..source.below(30) {
        let bytes = log.entry(source);
        apply(&mut node, &bytes);
    }
    let mut sizes = Source(source.bytes(100));
    let arrived = send(&mut node, &mut sizes, |node| {
        let bytes = log.entry(source);
        apply(node, &bytes);
    });
    assert_eq!(arrived.state_hash(), node.keyspace.state_hash());
    let mut other = Node::new(1);
    other.keyspace = arrived;
    other.local.now = UnixMillis(log.now);
    while !source.is_empty() {
        let bytes = log.entry(source);
        apply(&mut node, &bytes);
        apply(&mut other, &bytes);
        assert_eq!(other.keyspace.state_hash(), node.keyspace.state_hash());
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = program::seeds()
        .into_iter()
        .map(|program| [&[1], program.as_slice()].concat())
        .collect();
    for bytes_max in [50, 300, 5_000] {
        let mut node = Node::new(1);
        let long = "x".repeat(900);
        let mut entry = EntryBuf::new(&header(5, 6));
        let gateway = GatewayId {
            boot: Boot(1),
            worker: 2,
        };
        entry.begin_batch(gateway, 1, 0);
        let mut lines: Vec<String> = [
            "SET k v PX 100",
            "APPEND k w",
            "SET n 12",
            "SADD s a b c",
            "SADD i 1 2 3",
        ]
        .map(str::to_owned)
        .to_vec();
        lines.extend(["RPUSH l a", "HSET h f v", "ZADD z 1 a 2 b"].map(str::to_owned));
        // Beyond the limits of the compact forms.
        lines.push(format!("SADD s {long}"));
        lines.push(format!("HSET h {long} v"));
        lines.push(format!("ZADD z 3 {long}"));
        for line in &lines {
            let words = ArgsBuf::from_slices(line.split(' '));
            entry.push(&EntryOperation::Command {
                db: Db::default(),
                protocol: Protocol::Resp3,
                args: words.as_args(),
            });
        }
        apply(&mut node, &entry.finish());
        let mut transfer = Transfer::begin(&mut node.keyspace).expect("there is no other");
        let mut seed = vec![0];
        loop {
            let (chunk, is_last) = match transfer.next_chunk(&mut node.keyspace, bytes_max) {
                TransferStep::More(chunk) => (chunk, false),
                TransferStep::Last(chunk) => (chunk, true),
                TransferStep::Lost => unreachable!("nothing changes"),
            };
            seed.extend_from_slice(&(chunk.len() as u16).to_le_bytes());
            seed.extend_from_slice(&chunk);
            if is_last {
                break;
            }
        }
        seeds.push(seed);
    }
    seeds
}

//! The state is a function of the entries.

use crate::node::{Node, db, header};
use crate::words;
use ids::{Boot, Prng, UnixMillis, Version};
use keyspace::{Batched, Effect, Entry, EntryBuf, Limits, Object, Operation};
use resp::{ArgsBuf, Protocol};
use std::collections::BTreeMap;

fn random_db(prng: &mut Prng) -> ids::Db {
    db([0, 0, 0, 1, 2, 15][prng.below(6) as usize])
}

fn push_random(entry: &mut EntryBuf, prng: &mut Prng) {
    let db = random_db(prng);
    let key = words::key(prng);
    match prng.below(20) {
        0 => entry.push(&Operation::Expire { db, key: &key }),
        1 => entry.push(&Operation::Evict { db, key: &key }),
        2 => {
            let effects = (0..prng.below(4)).map(|_| random_effect(prng)).collect();
            entry.push(&Operation::Install { effects });
        }
        3 => entry.push(&Operation::Limits {
            limits: random_limits(prng),
        }),
        _ => {
            let args = match prng.below(60) {
                0 => ArgsBuf::default(),
                _ => words::random(prng),
            };
            let protocol = if prng.below(2) == 0 {
                Protocol::Resp2
            } else {
                Protocol::Resp3
            };
            entry.push(&Operation::Command {
                db,
                protocol,
                args: args.as_args(),
            });
        }
    }
}

/// Small ones, so that collections grow beyond them, and some that no configuration allows.
fn random_limits(prng: &mut Prng) -> Limits {
    let mut number = || [0, 1, 3, 10, 64, 512, u32::MAX][prng.below(7) as usize];
    Limits {
        hash_entries: number(),
        hash_value_bytes: number(),
        set_integers: number(),
        set_entries: number(),
        set_value_bytes: number(),
        sorted_set_entries: number(),
        sorted_set_value_bytes: number(),
        list_node_size: (number() as i32).saturating_sub(6),
    }
}

fn random_effect(prng: &mut Prng) -> Effect {
    let (db, key) = (random_db(prng), words::key(prng));
    if prng.below(3) == 0 {
        return Effect::Delete { db, key: key.into() };
    }
    let deadline = (prng.below(3) == 0).then(|| UnixMillis([-1, 0, 5_000, i64::MAX][prng.below(4) as usize]));
    let mut object = Object::string(&key, &words::value(prng), deadline, Version(9));
    match prng.below(4) {
        0 => {
            object.bytes_mut(prng.below(30) as usize);
        }
        1 => object.set_text(b"12"),
        _ => {}
    }
    Effect::Put { db, object }
}

/// Applies the operations one by one: the path of a group that commits at once. `replies` gets the answers.
fn apply_one_by_one(
    node: &mut Node,
    entry: &Entry<'_>,
    lasts: &BTreeMap<Boot, u64>,
    replies: &mut Vec<Vec<u8>>,
) {
    let mut lasts = lasts.clone();
    // Empty batches of the same numbers, since those are part of the state.
    let mut numbers = EntryBuf::new(&entry.header());
    for batch in entry.batches() {
        numbers.begin_batch(batch.boot, batch.number);
    }
    let numbers = numbers.finish();
    node.keyspace.apply(
        &Entry::decode(&numbers).expect("just encoded"),
        &mut node.local,
        |_, _| {},
    );
    node.keyspace.open(&entry.header());
    for batch in entry.batches() {
        let last = lasts.entry(batch.boot).or_insert(0);
        if batch.number != *last + 1 {
            continue;
        }
        *last += 1;
        for operation in batch.operations() {
            let mut reply = Vec::new();
            match operation {
                Operation::Command { db, protocol, args } => reply = node.apply(db, protocol, args),
                Operation::Expire { db, key } => node.keyspace.expire(db, key, &mut node.local),
                Operation::Evict { db, key } => node.keyspace.evict(db, key, &mut node.local),
                Operation::Install { effects } => node.keyspace.install(effects, &mut node.local),
                Operation::Limits { limits } => node.keyspace.set_limits(limits),
            }
            replies.push(reply);
        }
    }
}

#[test]
fn replicas_of_the_same_entries_are_equal_and_so_is_one_that_commits_at_once() {
    for seed in 0..12 {
        let mut prng = Prng::new(seed);
        let (mut one, mut two, mut three) = (Node::new(1), Node::new(2), Node::new(1));
        let mut lasts: BTreeMap<Boot, u64> = BTreeMap::new();
        let mut now = 0;
        for round in 0..120 {
            now += prng.below(300) as i64 - 60;
            let hostile = [i64::MIN, -1, 0][prng.below(3) as usize];
            let mut entry = EntryBuf::new(&header(if prng.below(10) == 0 { hostile } else { now }, round));
            let before = lasts.clone();
            let mut expected = Vec::new();
            for _ in 0..prng.below(4) {
                let boot = Boot(prng.below(3));
                let last = lasts.get(&boot).copied().unwrap_or(0);
                let (number, outcome) = match prng.below(8) {
                    0 => (prng.below(last + 1), Batched::Repeated),
                    1 => (last + 2 + prng.below(5), Batched::Gap),
                    2 => (u64::MAX, Batched::Gap),
                    _ => (last + 1, Batched::Applied),
                };
                entry.begin_batch(boot, number);
                let operations = prng.below(8);
                (0..operations).for_each(|_| push_random(&mut entry, &mut prng));
                if outcome == Batched::Applied {
                    lasts.insert(boot, number);
                    expected.extend((0..operations).map(|_| Batched::Applied));
                } else {
                    expected.push(outcome);
                }
            }
            let bytes = entry.finish();
            let entry = Entry::decode(&bytes).expect("an entry that was encoded can be decoded");
            for node in [&mut one, &mut two, &mut three] {
                node.local.now = UnixMillis(now);
            }
            let (mut outcomes, mut applied) = (Vec::new(), Vec::new());
            one.keyspace.apply(&entry, &mut one.local, |outcome, reply| {
                outcomes.push(outcome);
                if outcome == Batched::Applied {
                    applied.push(reply.to_vec());
                }
            });
            assert_eq!(outcomes, expected, "seed {seed} round {round}");
            two.keyspace.apply(&entry, &mut two.local, |_, _| {});
            let mut at_once = Vec::new();
            apply_one_by_one(&mut three, &entry, &before, &mut at_once);
            assert_eq!(applied.len(), at_once.len());
            for (reply, other) in applied.iter().zip(&at_once) {
                // Addresses differ, nothing else.
                assert!(
                    reply == other || reply.starts_with(b"+Value at:"),
                    "seed {seed} round {round}"
                );
            }
            let hash = one.keyspace.state_hash();
            assert_eq!(hash, two.keyspace.state_hash(), "seed {seed} round {round}");
            assert_eq!(hash, three.keyspace.state_hash(), "seed {seed} round {round}");
        }
    }
}

#[test]
fn the_state_hash_tells_states_apart() {
    let hash = |lines: &[&str]| {
        let mut node = Node::new(1);
        node.open(1);
        lines.iter().for_each(|line| drop(node.run(line)));
        node.keyspace.state_hash()
    };
    let hashes = [
        hash(&["SET a 1", "GET a"]),
        hash(&["SET a 2", "GET a"]),
        hash(&["SET b 1", "GET a"]),
        hash(&["SET a 1", "PEXPIREAT a 99"]),
        hash(&["SET a 1", "SWAPDB 0 1"]),
        hash(&["GET a", "SET a 1"]),
        hash(&["SET a 1", "SETBIT a 0 0"]),
    ];
    for (at, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..at].contains(hash), "{at}");
    }
}

#[test]
fn an_entry_cut_anywhere_is_refused_or_shorter_and_never_panics() {
    let mut prng = Prng::new(5);
    let mut entry = EntryBuf::new(&header(1, 2));
    for number in 1..4 {
        entry.begin_batch(Boot(1), number);
        (0..30).for_each(|_| push_random(&mut entry, &mut prng));
    }
    let bytes = entry.finish();
    for end in 0..bytes.len() {
        if let Ok(entry) = Entry::decode(&bytes[..end]) {
            assert!(entry.batches().len() < 3);
        }
    }
    for _ in 0..2_000 {
        let mut bytes = bytes.clone();
        for _ in 0..=prng.below(4) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] = prng.next_u64() as u8;
        }
        if let Ok(entry) = Entry::decode(&bytes) {
            let mut node = Node::new(0);
            node.keyspace.apply(&entry, &mut node.local, |_, _| {});
        }
    }
}

//! Counts of keys, deadlines and bytes.

use crate::node::{Node, db};
use crate::words;
use ids::Prng;
use keyspace::Position;
use resp::Protocol;

/// Keys, deadlines and bytes of all objects, counted one by one. Expired keys are left out by a scan, so the
/// clock of this test stands still.
fn counted(node: &mut Node, number: u8) -> (usize, usize, usize) {
    let (mut keys, mut deadlines, mut bytes) = (0, 0, 0);
    let end = node
        .keyspace
        .scan(db(number), Position::START, u64::MAX, &mut node.local, |object| {
            keys += 1;
            deadlines += usize::from(object.deadline().is_some());
            bytes += object.memory();
        });
    assert_eq!(end, None);
    (keys, deadlines, bytes)
}

fn check(node: &mut Node) {
    let (mut all_keys, mut all_bytes) = (0, 0);
    for number in 0..16 {
        let (keys, deadlines, bytes) = counted(node, number);
        assert_eq!(node.keyspace.counts(db(number)), (keys, deadlines));
        all_keys += keys;
        all_bytes += bytes;
    }
    let tables = node
        .keyspace
        .memory()
        .checked_sub(all_bytes)
        .expect("objects are part of the memory");
    // A segment of the least span has twelve places; larger ones are at least a quarter full, or shrink.
    assert!(
        tables <= 16 * 12 * 8 + all_keys * 8 * 5,
        "{tables} bytes of tables for {all_keys} keys"
    );
}

#[test]
fn counts_and_bytes_are_those_of_the_objects_whatever_was_done() {
    for seed in 0..6 {
        let mut prng = Prng::new(seed);
        let mut node = Node::new(seed);
        node.open(i64::MIN);
        for step in 0..3_000 {
            let words = words::random(&mut prng);
            node.apply(db(prng.below(3) as u8), Protocol::Resp2, words.as_args());
            // Deadlines before the epoch and now would be due at once; delete them as a leader does.
            let mut due = Vec::new();
            node.keyspace.due(node.keyspace.time(), usize::MAX, &mut due);
            due.iter()
                .for_each(|(db, key)| node.keyspace.expire(*db, key, &mut node.local));
            if step % 100 == 0 {
                node.local.now = node.keyspace.time();
                check(&mut node);
            }
        }
    }
}

#[test]
fn a_flushed_database_takes_no_memory_and_is_dropped_in_pieces() {
    let mut node = Node::new(0);
    for n in 0..5_000 {
        node.run(&format!("SET key{n} some-value-of-a-key"));
        node.run_in(1, &format!("SET key{n} v"));
    }
    node.run("FLUSHDB");
    assert_eq!(node.keyspace.counts(db(0)), (0, 0));
    assert_eq!(node.keyspace.counts(db(1)), (5_000, 0));
    node.run("FLUSHALL");
    assert_eq!(node.keyspace.memory(), 0);
    let mut pieces = 1;
    while !node.keyspace.collect_garbage(&mut 100) {
        pieces += 1;
    }
    assert!((100..200).contains(&pieces), "{pieces}");
    assert!(node.keyspace.collect_garbage(&mut 0));
}

#[test]
fn a_database_whose_keys_all_went_is_emptied_by_a_flush() {
    let mut node = Node::new(0);
    for n in 0..5_000 {
        node.run(&format!("SET key{n} v"));
    }
    for n in 0..5_000 {
        node.run(&format!("DEL key{n}"));
    }
    assert!(
        node.keyspace.memory() < 5_000,
        "{} bytes of empty segments",
        node.keyspace.memory()
    );
    node.run("FLUSHALL");
    assert_eq!(node.keyspace.memory(), 0);
}

//! Counts of keys, deadlines and bytes.

use crate::node::{Node, PARTITION_COUNT, db};
use crate::words;
use ids::Prng;
use keyspace::{Cursor, Effect};
use resp::Protocol;

/// Keys and bytes of all objects, and their deadlines, counted one by one. Expired keys are left out by a scan, so the
/// clock of this test stands still.
fn counted(node: &mut Node, number: u8) -> (usize, Vec<i64>, usize) {
    let (mut keys, mut deadlines, mut bytes) = (0, Vec::new(), 0);
    let end = node.keyspace.scan(
        db(number),
        Cursor::default(),
        u64::MAX,
        &mut node.local,
        |object| {
            keys += 1;
            deadlines.extend(object.deadline().map(|deadline| deadline.0));
            bytes += object.memory();
        },
    );
    assert_eq!(end, None);
    (keys, deadlines, bytes)
}

fn check(node: &mut Node) {
    let (mut all_keys, mut all_bytes) = (0, 0);
    for number in 0..16 {
        let (keys, deadlines, bytes) = counted(node, number);
        assert_eq!(node.keyspace.counts(db(number)), (keys, deadlines.len()));
        let sum: i128 = deadlines.iter().copied().map(i128::from).sum();
        let mean = sum.checked_div(deadlines.len() as i128);
        let told = node.keyspace.mean_deadline(db(number));
        assert_eq!(told.map(|mean| i128::from(mean.0)), mean);
        all_keys += keys;
        all_bytes += bytes;
    }
    let tables = node
        .keyspace
        .memory()
        .checked_sub(all_bytes)
        .expect("objects are part of the memory");
    // A segment of the least span has twelve places, and each partition one; larger ones are at least a quarter full, or
    // shrink.
    assert!(
        tables <= 16 * usize::from(PARTITION_COUNT) * 12 * 8 + all_keys * 8 * 5,
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
    while !node.keyspace.collect_lazyfree(&mut 100) {
        pieces += 1;
    }
    assert!((100..200).contains(&pieces), "{pieces}");
    assert!(node.keyspace.collect_lazyfree(&mut 0));
}

/// Adds elements to the collection under `key`, many with one command.
fn fill(node: &mut Node, command: &str, key: &str, count: usize) {
    for first in (0..count).step_by(500) {
        let mut line = format!("{command} {key}");
        for n in first..first + 500 {
            line += &match command {
                "ZADD" => format!(" {n} member:{n}"),
                "HSET" => format!(" field:{n} value"),
                _ => format!(" member:{n}"),
            };
        }
        node.run(&line);
    }
}

#[test]
fn a_large_collection_is_dropped_in_pieces_however_it_goes() {
    const COUNT: usize = 20_000;
    const PIECE: usize = 100;
    for command in ["RPUSH", "SADD", "HSET", "ZADD"] {
        for end in [
            "DEL big",
            "UNLINK big",
            "SET big small",
            "RENAME other big",
            "COPY other big REPLACE",
            "SORT numbers STORE big",
            "SUNIONSTORE big members",
            "ZUNIONSTORE big 1 members",
            "ZRANGESTORE big scores 0 -1",
            "SINTERSTORE big nothing",
            "PFMERGE big2 big2",
            "LTRIM big 1 0",
            "LPOP big 20000",
            "FLUSHDB",
            "FLUSHALL",
            "expiry",
            "eviction",
            "installation",
        ] {
            let mut node = Node::new(0);
            node.open(1_000);
            fill(&mut node, command, "big", COUNT);
            node.run("SET other x");
            node.run("RPUSH numbers 1 2 3");
            node.run("SADD members a b c");
            node.run("ZADD scores 1 a");
            let before = node.keyspace.memory();
            match end {
                "expiry" => {
                    node.run("PEXPIRE big 10");
                    node.open(2_000);
                    node.keyspace.expire(db(0), b"big", &mut node.local);
                }
                "eviction" => {
                    node.keyspace.evict(db(0), b"big", &mut node.local);
                    node.keyspace.evict(db(0), b"gone", &mut node.local);
                    assert_eq!(node.local.evicted, 1, "what was there is counted");
                }
                "installation" => {
                    let effects = vec![Effect::Delete {
                        db: db(0),
                        key: (*b"big").into(),
                    }];
                    node.keyspace.install(effects, &mut node.local);
                }
                _ => {
                    node.run(end);
                }
            }
            if node.keyspace.memory() > before / 2 {
                // Not this kind of value.
                assert!(
                    ["PFMERGE", "LTRIM", "LPOP"]
                        .iter()
                        .any(|name| end.starts_with(name))
                );
                continue;
            }
            let mut pieces = 0;
            loop {
                let mut left = PIECE;
                let is_done = node.keyspace.collect_lazyfree(&mut left);
                if is_done {
                    break;
                }
                pieces += 1;
                assert!(pieces <= COUNT / PIECE + 10, "{command} {end}");
            }
            // A node of a list goes at once with all its elements, as does a leaf of a sorted set.
            let least = if command == "RPUSH" {
                COUNT / 2_000
            } else {
                COUNT / PIECE / 2
            };
            assert!(pieces >= least, "{command}, {end}: dropped in {pieces} pieces");
        }
    }
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

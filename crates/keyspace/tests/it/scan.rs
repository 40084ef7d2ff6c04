//! Walks over a keyspace that changes meanwhile.

use crate::node::{Node, db};
use ids::{PartitionCount, PartitionId, PartitionRange, Prng, Slot};
use keyspace::{Cursor, Keyspace};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn keys_that_stay_are_seen_exactly_once_while_others_come_and_go() {
    for (seed, others) in [(1, 60), (2, 400)] {
        let mut prng = Prng::new(seed);
        let mut node = Node::new(0);
        for n in 0..2_000 {
            node.run(&format!("SET stay{n} v"));
        }
        let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
        let mut from = Some(Cursor::default());
        while let Some(cursor) = from {
            let budget = 1 + prng.below(60);
            from = node
                .keyspace
                .scan(db(0), cursor, budget, &mut node.local, |object| {
                    *seen.entry(object.key().into()).or_default() += 1;
                });
            assert!(from.is_none_or(|next| next > cursor), "a scan goes forward");
            assert!(from.is_none_or(|next| next.number() < 1 << 53));
            for _ in 0..prng.below(others) {
                let verb = if prng.below(3) == 0 { "DEL" } else { "APPEND" };
                let value = if verb == "DEL" { "" } else { "v" };
                node.run(&format!("{verb} other{} {value}", prng.below(20_000)));
            }
        }
        for n in 0..2_000 {
            assert_eq!(seen.get(format!("stay{n}").as_bytes()), Some(&1), "stay{n}");
        }
    }
}

#[test]
fn shrinking_does_not_make_a_scan_miss_what_stays() {
    let mut node = Node::new(0);
    for n in 0..10_000 {
        node.run(&format!("SET key{n} v"));
    }
    let mut seen = BTreeSet::new();
    let mut from = Some(Cursor::default());
    let mut next_gone = 0;
    while let Some(cursor) = from {
        from = node.keyspace.scan(db(0), cursor, 50, &mut node.local, |object| {
            assert!(seen.insert(object.key().to_vec()), "no key is seen twice");
        });
        for _ in 0..100 {
            if next_gone % 10 != 0 {
                node.run(&format!("DEL key{next_gone}"));
            }
            next_gone += 1;
        }
    }
    for n in (0..10_000).step_by(10) {
        assert!(seen.contains(format!("key{n}").as_bytes()), "key{n}");
    }
}

#[test]
fn any_cursor_at_all_may_be_asked_for() {
    let mut prng = Prng::new(3);
    let mut node = Node::new(0);
    for n in 0..3_000 {
        node.run(&format!("SET key{n} v"));
        let cursor = Cursor::of_number(prng.next_u64() >> 11).expect("53 bits");
        node.keyspace
            .scan(db(0), cursor, 1 + prng.below(3), &mut node.local, |_| {});
    }
    assert!(Cursor::of_number(1 << 53).is_none());
    let last = Cursor::of_number((1 << 53) - 1).expect("53 bits");
    assert_eq!(
        node.keyspace.scan(db(0), last, 10, &mut node.local, |_| {}),
        None,
        "it is not in this group, and nothing that follows is"
    );
    assert!(node.run(&format!("SCAN {}", u64::MAX)).starts_with('-'));
}

#[test]
fn random_keys_are_among_those_there_and_reach_nearly_all() {
    let mut node = Node::new(0);
    let random = |node: &mut Node| {
        let reply = node.run("RANDOMKEY");
        reply.split("\r\n").nth(3).map(str::to_owned)
    };
    assert_eq!(random(&mut node), Some(String::new()), "nil in an empty database");
    for n in 0..3_000 {
        node.run(&format!("SET key{n} v"));
    }
    let picked: BTreeSet<String> = (0..30_000).filter_map(|_| random(&mut node)).collect();
    assert!(picked.len() > 2_900, "{}", picked.len());
    // One key in segments that were full once.
    for n in 1..3_000 {
        node.run(&format!("DEL key{n}"));
    }
    for _ in 0..100 {
        assert_eq!(random(&mut node).as_deref(), Some("key0"));
    }
    node.run("DEL key0");
    assert_eq!(random(&mut node), Some(String::new()));
}

#[test]
fn a_scan_of_few_keys_in_many_partitions_takes_one_call_and_its_cursor_names_partitions_not_groups() {
    let count = PartitionCount::new(4_096).expect("not too many");
    let mut node = Node::new(0);
    for (first, length, end) in [
        (0, 4_096, None),
        (0, 2_048, Some(2_048)),
        (2_048, 2_000, Some(4_048)),
        (4_048, 48, None),
    ] {
        let range = PartitionRange::new(count, PartitionId::new(first), length).expect("inside");
        node.keyspace = Keyspace::new(crate::node::SEED, range);
        let mut expected = BTreeSet::new();
        for n in 0.. {
            let key = format!("key{n}");
            let partition = count.partition_of(Slot::of_key(key.as_bytes()));
            if range.index(partition).is_some() {
                node.run(&format!("SET {key} v"));
                expected.insert(key.into_bytes());
            }
            if expected.len() == 5 {
                break;
            }
        }
        for from in [0, first] {
            let mut seen = BTreeSet::new();
            let from = Cursor::before(PartitionId::new(from));
            let next = node.keyspace.scan(db(0), from, 10, &mut node.local, |object| {
                seen.insert(object.key().to_vec());
            });
            assert_eq!(seen, expected);
            assert_eq!(
                next.map(Cursor::number),
                end.map(|partition: u64| partition << 41)
            );
        }
        // The same keys again, however many are wanted at a time.
        for budget in 1..6 {
            let (mut seen, mut calls) = (BTreeSet::new(), 0);
            let mut from = Cursor::before(range.first());
            while range.index(from.partition).is_some() {
                calls += 1;
                let next = node
                    .keyspace
                    .scan(db(0), from, budget, &mut node.local, |object| {
                        assert!(seen.insert(object.key().to_vec()));
                    });
                let Some(next) = next else { break };
                from = next;
            }
            assert_eq!((seen.len(), calls), (5, 5_u64.div_ceil(budget)));
        }
    }
}

#[test]
fn keys_of_one_slot_are_counted_in_their_partition_and_nowhere_else() {
    let mut node = Node::new(0);
    for n in 0..300 {
        node.run(&format!("SET {{a}}{n} v"));
        node.run(&format!("SET key{n} v"));
    }
    let slot = Slot::of_key(b"a").number();
    let reply = node.run(&format!("CLUSTER COUNTKEYSINSLOT {slot}"));
    let others = (0..300)
        .filter(|n| Slot::of_key(format!("key{n}").as_bytes()).number() == slot)
        .count();
    assert_eq!(reply, format!(":{}\r\n", 300 + others));
}

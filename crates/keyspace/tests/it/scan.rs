//! Walks over a keyspace that changes meanwhile.

use crate::node::{Node, db};
use ids::Prng;
use keyspace::Position;
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
        let mut from = Some(Position::START);
        while let Some(position) = from {
            let budget = 1 + prng.below(60);
            from = node
                .keyspace
                .scan(db(0), position, budget, &mut node.local, |object| {
                    *seen.entry(object.key().into()).or_default() += 1;
                });
            assert!(from.is_none_or(|next| next > position), "a scan goes forward");
            assert!(from.is_none_or(|next| next.bits() < 1 << Position::BITS));
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
    let mut from = Some(Position::START);
    let mut next_gone = 0;
    while let Some(position) = from {
        from = node
            .keyspace
            .scan(db(0), position, 50, &mut node.local, |object| {
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
        let position = Position::new(prng.next_u64() >> 21).expect("43 bits");
        node.keyspace
            .scan(db(0), position, 1 + prng.below(3), &mut node.local, |_| {});
    }
    assert!(Position::new(1 << Position::BITS).is_none());
    let last = Position::new((1 << Position::BITS) - 1).expect("43 bits");
    assert_eq!(node.keyspace.scan(db(0), last, 10, &mut node.local, |_| {}), None);
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

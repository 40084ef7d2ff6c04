//! Hashes against a plain map, small and large.

use crate::node::{Node, db};
use ids::Prng;
use keyspace::EncodingLimits;
use resp::{ArgsBuf, Protocol};
use std::collections::BTreeMap;

fn run(node: &mut Node, words: &[String]) -> String {
    let args = ArgsBuf::from_slices(words);
    let reply = node.apply(db(0), Protocol::Resp2, args.as_args());
    String::from_utf8_lossy(&reply).into_owned()
}

/// The bulk strings of a reply, in any depth.
fn bulks(reply: &str) -> Vec<String> {
    let mut lines = reply.split("\r\n");
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with('$') && line != "$-1" {
            found.extend(lines.next().map(str::to_owned));
        }
    }
    found
}

fn pairs(reply: &str) -> BTreeMap<String, String> {
    let words = bulks(reply);
    words
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

#[test]
fn a_hash_agrees_with_a_map_through_growth_and_removal() {
    for (fields, value_length) in [(30, 5), (400, 5), (30, 90)] {
        let mut prng = Prng::new(fields);
        let mut node = Node::new(0);
        node.open(1);
        let mut model = BTreeMap::<String, String>::new();
        for turn in 0..4_000u64 {
            let field = match prng.below(2) {
                0 => format!("{}", prng.below(fields)),
                _ => format!("f{}", prng.below(fields)),
            };
            let value = "v".repeat(prng.below(value_length) as usize);
            let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
            let removes = turn % 1_000 > 700;
            let (line, expected) = match prng.below(6) {
                0 | 1 if !removes => {
                    let added = model.insert(field.clone(), value.clone()).is_none();
                    (
                        words(&["HSET", "h", &field, &value]),
                        format!(":{}\r\n", i64::from(added)),
                    )
                }
                2 if !removes => {
                    let is_free = !model.contains_key(&field);
                    model.entry(field.clone()).or_insert(value.clone());
                    (
                        words(&["HSETNX", "h", &field, &value]),
                        format!(":{}\r\n", i64::from(is_free)),
                    )
                }
                3 if !removes => {
                    let before = model
                        .get(&field)
                        .map_or(Some(0), |value| value.parse::<i64>().ok());
                    let expected = match before {
                        Some(number) => {
                            model.insert(field.clone(), (number + 7).to_string());
                            format!(":{}\r\n", number + 7)
                        }
                        None => "-ERR hash value is not an integer\r\n".into(),
                    };
                    (words(&["HINCRBY", "h", &field, "7"]), expected)
                }
                4 => {
                    let value = model.get(&field);
                    let expected = value.map_or("$-1\r\n".into(), |value| {
                        format!("${}\r\n{value}\r\n", value.len())
                    });
                    (words(&["HGET", "h", &field]), expected)
                }
                _ => {
                    let was_there = model.remove(&field).is_some();
                    (
                        words(&["HDEL", "h", &field]),
                        format!(":{}\r\n", i64::from(was_there)),
                    )
                }
            };
            assert_eq!(run(&mut node, &line), expected, "{line:?}");
            if turn % 100 == 0 {
                assert_eq!(pairs(&node.run("HGETALL h")), model);
                assert_eq!(node.run("HLEN h"), format!(":{}\r\n", model.len()));
                assert_eq!(
                    node.run("EXISTS h"),
                    format!(":{}\r\n", usize::from(!model.is_empty()))
                );
                let fields: Vec<String> = model.keys().cloned().collect();
                let mut found = bulks(&node.run("HKEYS h"));
                found.sort();
                assert_eq!(found, fields);
            }
        }
    }
}

#[test]
fn a_hash_grows_large_beyond_its_limits_and_stays_so() {
    let mut node = Node::new(0);
    node.open(1);
    for n in 0..128 {
        node.run(&format!("HSET many f{n} v"));
    }
    assert_eq!(node.run("OBJECT ENCODING many"), "$8\r\nlistpack\r\n");
    node.run("HSET many one-more v");
    assert_eq!(node.run("OBJECT ENCODING many"), "$9\r\nhashtable\r\n");
    node.run(&format!("HSET long f {}", "v".repeat(64)));
    assert_eq!(node.run("OBJECT ENCODING long"), "$8\r\nlistpack\r\n");
    node.run(&format!("HSET long f {}", "v".repeat(65)));
    assert_eq!(node.run("OBJECT ENCODING long"), "$9\r\nhashtable\r\n");
    node.run("HSET long f short");
    assert_eq!(node.run("OBJECT ENCODING long"), "$9\r\nhashtable\r\n");
    assert_eq!(node.run("HDEL long f"), ":1\r\n");
    assert_eq!(node.run("EXISTS long"), ":0\r\n");
}

#[test]
fn a_scan_finds_every_field_once() {
    let mut node = Node::new(0);
    node.open(1);
    for n in 0..3_000 {
        node.run(&format!("HSET h f{n} v{n}"));
    }
    let (mut cursor, mut found) = ("0".to_owned(), BTreeMap::new());
    loop {
        let reply = node.run(&format!("HSCAN h {cursor} COUNT 50"));
        let words = bulks(&reply);
        for pair in words[1..].chunks(2) {
            assert!(found.insert(pair[0].clone(), pair[1].clone()).is_none());
        }
        cursor.clone_from(&words[0]);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, pairs(&node.run("HGETALL h")));
    assert_eq!(node.run("HSCAN h 8796093022208"), "-ERR invalid cursor\r\n");
}

#[test]
fn random_fields_are_as_likely_as_each_other() {
    for fields in [10, 300] {
        let mut node = Node::new(0);
        node.open(1);
        for n in 0..fields {
            node.run(&format!("HSET h f{n} v{n}"));
        }
        for (count, times) in [(fields / 10, 4_000), (fields / 2, 1_000), (-fields * 40, 10)] {
            let mut seen = BTreeMap::<String, i64>::new();
            for _ in 0..times {
                let drawn = pairs_in_order(&node.run(&format!("HRANDFIELD h {count} WITHVALUES")));
                assert_eq!(drawn.len() as i64, i64::from(count).abs());
                let mut fields = BTreeMap::new();
                for (field, value) in &drawn {
                    assert_eq!(field[1..], value[1..]);
                    *seen.entry(field.clone()).or_default() += 1;
                    fields.insert(field, value);
                }
                assert!(count < 0 || fields.len() == drawn.len(), "a field twice");
            }
            assert_eq!(seen.len() as i32, fields);
            let expected = i64::from(count).abs() * times / i64::from(fields);
            for (field, times) in seen {
                // Six standard deviations of what is nearly a Poisson distribution.
                let error_max = 6.0 * (expected as f64).sqrt();
                assert!((times - expected).abs() as f64 <= error_max, "{field}: {times}");
            }
        }
        let all = pairs(&node.run(&format!("HRANDFIELD h {} WITHVALUES", fields * 2)));
        assert_eq!(all, pairs(&node.run("HGETALL h")));
    }
}

fn pairs_in_order(reply: &str) -> Vec<(String, String)> {
    let words = bulks(reply);
    words
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect()
}

#[test]
fn counts_that_no_reply_could_hold_are_refused_at_once() {
    let mut node = Node::new(0);
    node.open(1);
    node.run(&format!("HSET h f {}", "v".repeat(10_000)));
    node.run(&format!("ZADD z 1 {}", "m".repeat(10_000)));
    for count in ["-9223372036854775807", "-16777217", "-16777216", "-1000000"] {
        for command in ["HRANDFIELD h", "ZRANDMEMBER z"] {
            let reply = node.run(&format!("{command} {count}"));
            assert_eq!(reply, "-ERR value is out of range\r\n", "{command} {count}");
        }
    }
    assert_eq!(node.run("HRANDFIELD h 9223372036854775807"), "*1\r\n$1\r\nf\r\n");
}

#[test]
fn hyperloglogs_of_the_same_elements_count_the_same_in_every_way() {
    let mut node = Node::new(0);
    node.open(1);
    for n in 0..3_000 {
        node.run(&format!("PFADD one {n}"));
    }
    for start in (0..3_000).step_by(100) {
        let elements: Vec<String> = (start..start + 100).map(|n| n.to_string()).collect();
        node.run(&format!("PFADD many {}", elements.join(" ")));
    }
    node.run("PFMERGE merged one");
    let count = node.run("PFCOUNT one");
    for line in ["PFCOUNT many", "PFCOUNT merged", "PFCOUNT one many absent"] {
        assert_eq!(node.run(line), count, "{line}");
    }
    let number: i64 = count[1..].trim_end().parse().expect("an integer");
    assert!((number - 3_000).abs() < 150, "{number}");
    assert_eq!(node.run("PFADD one 1 2 3"), ":0\r\n");
    assert_eq!(node.run("PFADD empty"), ":1\r\n");
    assert_eq!(node.run("PFCOUNT empty"), ":0\r\n");
    assert_eq!(node.run("PFDEBUG DECODE empty"), "$7\r\nZ:16384\r\n");
}

#[test]
fn what_is_no_hyperloglog_is_refused() {
    let mut node = Node::new(0);
    node.open(1);
    node.run("SET text v");
    node.run("SET number 7");
    node.run("HSET hash f v");
    for key in ["text", "number"] {
        for line in [
            format!("PFADD {key} a"),
            format!("PFCOUNT {key}"),
            format!("PFMERGE to {key}"),
            format!("PFDEBUG DECODE {key}"),
        ] {
            assert_eq!(
                node.run(&line),
                "-WRONGTYPE Key is not a valid HyperLogLog string value.\r\n",
                "{line}"
            );
        }
    }
    assert!(node.run("PFADD hash a").starts_with("-WRONGTYPE Operation"));
    node.run("PFADD damaged a b c");
    node.run("APPEND damaged x");
    assert_eq!(
        node.run("PFCOUNT damaged"),
        "-INVALIDOBJ Corrupted HLL object detected\r\n"
    );
    assert_eq!(node.run("EXISTS to"), ":0\r\n");
}

#[test]
fn a_hyperloglog_is_sparse_up_to_the_limit_that_is_set() {
    let mut node = Node::new(9);
    node.open(1);
    let encoding = |node: &mut Node| node.run("PFDEBUG ENCODING k");
    // Sixteen bytes of head, two for a run of zeros, and up to five for each element.
    for (sparse_bytes, elements, wanted) in [
        (0, 1, "+dense\r\n"),
        (100, 10, "+sparse\r\n"),
        (100, 40, "+dense\r\n"),
        (3_000, 40, "+sparse\r\n"),
    ] {
        node.keyspace.set_limits(EncodingLimits {
            sparse_bytes,
            ..EncodingLimits::default()
        });
        node.run("DEL k copy");
        for element in 0..elements {
            node.run(&format!("PFADD k {element}"));
        }
        assert_eq!(
            encoding(&mut node),
            wanted,
            "{elements} elements, {sparse_bytes} bytes"
        );
        // All at once, and by way of a merge.
        let all: Vec<String> = (0..elements).map(|element| element.to_string()).collect();
        node.run("DEL k");
        node.run(&format!("PFADD k {}", all.join(" ")));
        assert_eq!(
            encoding(&mut node),
            wanted,
            "{elements} at once, {sparse_bytes} bytes"
        );
        node.run("RENAME k copy");
        node.run("PFMERGE k copy");
        assert_eq!(
            encoding(&mut node),
            wanted,
            "{elements} merged, {sparse_bytes} bytes"
        );
    }
}

#[test]
fn what_is_dropped_piece_by_piece_is_counted_by_keys() {
    let counts = |node: &Node| {
        let counts = node.keyspace.lazyfree_counts();
        (counts.pending, counts.dropped)
    };
    let mut node = Node::new(9);
    node.open(1);
    let many: Vec<String> = (0..2_000).map(|number| format!("{number} {number}")).collect();
    let many = many.join(" ");
    node.run(&format!("SADD set {many}"));
    node.run(&format!("RPUSH list {many}"));
    node.run(&format!("ZADD zset {many}"));
    node.run("SET small x");
    node.run("DEL set list zset small");
    assert_eq!(counts(&node), (3, 0), "what is small is dropped at once");
    let mut rounds = 0;
    while !node.keyspace.collect_lazyfree(&mut 100) {
        rounds += 1;
        let (pending, dropped) = counts(&node);
        assert_eq!(pending + dropped, 3);
    }
    assert!(rounds > 20 && counts(&node) == (0, 3), "{rounds} rounds");
    node.keyspace.reset_lazyfree_counts();
    node.run(&format!("SADD set {many}"));
    for key in 0..10 {
        node.run(&format!("SET {key} x"));
    }
    node.run("FLUSHALL");
    assert_eq!(counts(&node), (11, 0));
    while !node.keyspace.collect_lazyfree(&mut 100) {}
    assert_eq!(counts(&node), (0, 11));
}

//! `DUMP` and `RESTORE`. What goes to Redis and comes from there: `crates/blackbox/tests/it/dumps.rs`.

use crate::node::{Node, db};
use resp::{ArgsBuf, Protocol};

fn command(node: &mut Node, words: &[&[u8]]) -> Vec<u8> {
    node.apply(db(0), Protocol::Resp2, ArgsBuf::from_slices(words).as_args())
}

/// The payload in a reply.
fn payload(node: &mut Node, key: &str) -> Vec<u8> {
    let reply = command(node, &[b"DUMP", key.as_bytes()]);
    let head = reply
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("it has a length")
        + 1;
    reply[head..reply.len() - 2].to_vec()
}

fn restore(node: &mut Node, key: &str, ttl: &str, payload: &[u8], more: &[&str]) -> String {
    let mut words: Vec<&[u8]> = vec![b"RESTORE", key.as_bytes(), ttl.as_bytes(), payload];
    words.extend(more.iter().map(|word| word.as_bytes()));
    String::from_utf8_lossy(&command(node, &words)).into_owned()
}

const FILLED: &[&str] = &[
    "SET string value",
    "SET number 17",
    "RPUSH list a 2 c",
    "SADD set a b 7",
    "SADD numbers 3 1 2",
    "HSET hash f 1 g v",
    "ZADD sorted 2 a 1.5 b -inf c",
    "XADD stream 5-1 f v g 7",
    "XADD stream 6-1 f w g 8",
    "XADD stream 7-1 other x",
    "XDEL stream 6-1",
    "XGROUP CREATE stream group 0",
    "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
    "XGROUP CREATECONSUMER stream group idle",
];

const READ: &[(&str, &str)] = &[
    ("string", "GET KEY"),
    ("number", "GET KEY"),
    ("list", "LRANGE KEY 0 -1"),
    ("set", "SORT_RO KEY ALPHA"),
    ("numbers", "SORT_RO KEY"),
    ("hash", "HGETALL KEY"),
    ("sorted", "ZRANGE KEY 0 -1 WITHSCORES"),
    ("stream", "XRANGE KEY - +"),
    ("stream", "XPENDING KEY group - + 10"),
    ("stream", "XINFO STREAM KEY"),
    ("stream", "XINFO GROUPS KEY"),
];

#[test]
fn what_is_dumped_is_restored_as_it_was_on_every_replica() {
    let mut nodes = [Node::new(1), Node::new(2)];
    for node in &mut nodes {
        node.open(1_000);
        for line in FILLED {
            let reply = node.run(line);
            assert!(!reply.starts_with('-'), "{line}: {reply}");
        }
        for (key, read) in READ {
            let payload = payload(node, key);
            let copy = format!("copy:{key}");
            assert_eq!(restore(node, &copy, "0", &payload, &["REPLACE"]), "+OK\r\n");
            let [before, after] = [*key, &copy].map(|key| node.run(&read.replace("KEY", key)));
            assert_eq!(after, before, "{read}");
            let [before, after] = [*key, &copy].map(|key| node.run(&format!("OBJECT ENCODING {key}")));
            assert_eq!(after, before, "{key}");
        }
    }
    let [one, other] = nodes.map(|node| node.keyspace.state_hash());
    assert_eq!(one, other);
}

#[test]
fn what_cannot_be_restored_changes_nothing() {
    let mut node = Node::new(1);
    node.open(1_000);
    node.run("SET key value");
    node.run("RPUSH list a b");
    let good = payload(&mut node, "key");
    let refused = |node: &mut Node, ttl: &str, payload: &[u8], more: &[&str], error: &str| {
        let reply = restore(node, "list", ttl, payload, more);
        assert!(reply.starts_with(error), "{error}: {reply} of {payload:?}");
    };
    refused(&mut node, "0", &good, &[], "-BUSYKEY ");
    refused(&mut node, "-1", &good, &["REPLACE"], "-ERR Invalid TTL value");
    refused(
        &mut node,
        "0",
        &good,
        &["REPLACE", "FREQ", "256"],
        "-ERR Invalid FREQ value",
    );
    // The first byte is 0, which no sum sees.
    refused(&mut node, "0", &good[2..], &["REPLACE"], "-ERR DUMP payload");
    refused(&mut node, "0", b"", &["REPLACE"], "-ERR DUMP payload");
    // A sum that is right, and a value that is none: a list that says that it has no elements.
    let mut empty = rdb::PayloadWriter::list(0).finish();
    refused(&mut node, "0", &empty, &["REPLACE"], "-ERR Bad data format");
    empty.pop();
    refused(&mut node, "0", &empty, &["REPLACE"], "-ERR DUMP payload");
    assert_eq!(node.run("LRANGE list 0 -1"), "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}

#[test]
fn deadlines_are_from_now_or_from_the_beginning_of_time() {
    let mut node = Node::new(1);
    node.open(1_000);
    node.run("SET key value");
    let payload = payload(&mut node, "key");
    assert_eq!(restore(&mut node, "a", "500", &payload, &[]), "+OK\r\n");
    assert_eq!(node.run("PEXPIRETIME a"), ":1500\r\n");
    assert_eq!(restore(&mut node, "b", "7000", &payload, &["ABSTTL"]), "+OK\r\n");
    assert_eq!(node.run("PEXPIRETIME b"), ":7000\r\n");
    // One that has passed deletes what was there.
    assert_eq!(
        restore(&mut node, "b", "999", &payload, &["ABSTTL", "REPLACE"]),
        "+OK\r\n"
    );
    assert_eq!(node.run("EXISTS b"), ":0\r\n");
}

//! Deadlines: by whose clock keys are gone, and how they are found.

use crate::node::{Node, db};
use ids::UnixMillis;
use keyspace::Read;

#[test]
fn group_time_never_goes_back() {
    let mut node = Node::new(0);
    node.open(1_000);
    node.run("SET k v PX 100");
    node.open(1_200);
    assert_eq!(node.run("GET k"), "$-1\r\n");
    node.open(500);
    assert_eq!(node.keyspace.time(), UnixMillis(1_200));
    assert_eq!(node.run("GET k"), "$-1\r\n");
    node.run("SET fresh v PX 100");
    assert_eq!(node.run("PEXPIRETIME fresh"), ":1300\r\n");
}

#[test]
fn a_read_that_runs_ahead_of_group_time_says_so_and_remembers_the_key() {
    let mut node = Node::new(0);
    node.open(1_000);
    node.run("SET k v PX 100");
    node.local.now = UnixMillis(1_099);
    assert_eq!(node.read("GET k"), ("$1\r\nv\r\n".into(), Read::Answered));
    node.local.now = UnixMillis(1_100);
    assert_eq!(node.read("GET k"), ("$-1\r\n".into(), Read::AwaitsTime));
    let met = std::mem::take(&mut node.local.met_expired);
    assert_eq!(met, [(db(0), Box::from(&b"k"[..]))]);
    node.open(1_100);
    assert_eq!(node.read("GET k"), ("$-1\r\n".into(), Read::Answered));
    node.keyspace.expire(db(0), b"k", &mut node.local);
    assert_eq!(node.keyspace.counts(db(0)), (0, 0));
}

#[test]
fn expire_leaves_the_living_alone() {
    let mut node = Node::new(0);
    node.open(1_000);
    node.run("SET k v PX 100");
    node.run("SET forever v");
    for key in [&b"k"[..], b"forever", b"absent"] {
        node.keyspace.expire(db(0), key, &mut node.local);
    }
    assert_eq!(node.keyspace.counts(db(0)), (2, 1));
}

#[test]
fn due_keys_are_found_in_all_databases_and_only_they() {
    let mut node = Node::new(0);
    node.open(0);
    for n in 0..6_000 {
        let deadline = if n % 3 == 0 {
            ""
        } else {
            &format!("PXAT {}", n + 1)
        };
        node.run_in((n % 5) as u8, &format!("SET key{n} v {deadline}"));
    }
    node.open(3_000);
    let mut deleted = 0;
    for _ in 0..1_000 {
        let mut found = Vec::new();
        let complete = node.keyspace.due(UnixMillis(3_000), 50, &mut found);
        found.sort();
        found.dedup();
        for (db, key) in found {
            let before = node.keyspace.counts(db).0;
            node.keyspace.expire(db, &key, &mut node.local);
            assert_eq!(node.keyspace.counts(db).0, before - 1, "{key:?} was due");
            deleted += 1;
        }
        if complete {
            break;
        }
    }
    assert_eq!(deleted, (0..3_000).filter(|n| n % 3 != 0).count());
    let left: usize = (0..16).map(|number| node.keyspace.counts(db(number)).1).sum();
    assert_eq!(left, (3_000..6_000).filter(|n| n % 3 != 0).count());
}

#[test]
fn deadlines_at_the_ends_of_time_are_refused_or_kept_but_never_wrap() {
    let mut node = Node::new(0);
    node.open(i64::MAX);
    node.run("SET k v");
    assert!(node.run("PEXPIRE k 1").starts_with('-'));
    assert!(node.run("SET k v PX 1").starts_with('-'));
    assert_eq!(node.run("GET k"), "$1\r\nv\r\n");
    let mut node = Node::new(0);
    node.run("SET k v");
    assert!(
        node.run("PEXPIRE k -1").starts_with('-'),
        "time before the first entry is the least there is"
    );
    node.open(5);
    assert_eq!(node.run("PEXPIREAT k 9223372036854775807"), ":1\r\n");
    assert_eq!(node.run("PTTL k"), format!(":{}\r\n", i64::MAX - 5));
    assert_eq!(node.run("TTL k"), format!(":{}\r\n", i64::MAX / 1_000));
}

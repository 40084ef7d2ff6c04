//! What `WATCH` notices.

use crate::node::{Node, db};
use ids::{UnixMillis, Version};
use keyspace::{Effect, KeyVersion, Object};

fn version(node: &Node, number: u8) -> KeyVersion {
    node.keyspace.version(db(number), b"k")
}

/// Whether a watch of `k` in database 0 notices what `lines` do to a state that `before` made.
fn notices(before: &[&str], lines: &[&str]) -> bool {
    let mut node = Node::new(0);
    node.open(1_000);
    before.iter().for_each(|line| drop(node.run(line)));
    let watched = version(&node, 0);
    node.open(2_000);
    lines
        .iter()
        .for_each(|line| assert!(!node.run(line).starts_with('-'), "{line}"));
    version(&node, 0) != watched
}

#[test]
fn every_change_of_the_watched_key_is_noticed_and_nothing_else() {
    for (before, after, expected) in [
        (&["SET k v"][..], &["SET k v"][..], true),
        (&["SET k v"], &["APPEND k v"], true),
        (&["SET k v"], &["DEL k"], true),
        (&["SET k v"], &["DEL k", "SET k v"], true),
        (&["SET k v"], &["EXPIRE k 100"], true),
        (&["SET k v"], &["RENAME k other", "RENAME other k"], true),
        (&["SET k v"], &["FLUSHALL", "SET k v"], true),
        (&["SET k v"], &["SWAPDB 0 1"], true),
        (&["SET k v"], &["SWAPDB 0 1", "SWAPDB 0 1"], true),
        (&["SET k v"], &["MOVE k 1"], true),
        (
            &["SET k v"],
            &[
                "GET k",
                "PERSIST k",
                "SET other v",
                "TOUCH k",
                "COPY k other REPLACE",
            ],
            false,
        ),
        (
            &["SET k v"],
            &["SETBIT k 0 0", "SET k w NX", "EXPIRE k 100 XX", "SWAPDB 1 2"],
            false,
        ),
        (&["SET k v"], &["BITFIELD k GET u8 0"], false),
        (&["HSET k f v"], &["HSET k f v"], true),
        (&["HSET k f v"], &["HDEL k f", "HSET k f v"], true),
        (
            &["HSET k f v"],
            &["HSETNX k f w", "HDEL k g", "HGETALL k", "HRANDFIELD k 5"],
            false,
        ),
        (&["XADD k 1 f v"], &["XADD k 2 f v"], true),
        (&["XADD k 1 f v"], &["XDEL k 1"], true),
        (
            &["XADD k 1 f v", "XGROUP CREATE k g 0"],
            &["XREADGROUP GROUP g c STREAMS k >"],
            true,
        ),
        (
            &[
                "XADD k 1 f v",
                "XGROUP CREATE k g 0",
                "XGROUP CREATECONSUMER k g c",
            ],
            &[
                "XDEL k 2",
                "XTRIM k MAXLEN 1",
                "XACK k g 1",
                "XGROUP CREATECONSUMER k g c",
                "XREAD STREAMS k 0",
            ],
            false,
        ),
        (&["PFADD k a"], &["PFADD k b"], true),
        (
            &["PFADD k a"],
            &["PFADD k a", "PFCOUNT k", "PFMERGE other k"],
            false,
        ),
        (&[], &["SET k v"], true),
        (&[], &["SET k v", "DEL k"], true),
        (&[], &["SET k v", "FLUSHDB"], true),
        (&[], &["SET other v", "RENAME other k", "GETDEL k"], true),
        (&[], &["SETBIT k 0 1", "DEL k"], true),
        (&[], &["APPEND k v", "UNLINK k"], true),
        (&[], &["INCR k", "RENAME k other"], true),
        (&[], &["SET k v", "MOVE k 1"], true),
        (&["SET k v", "MOVE k 1"], &["SWAPDB 0 1"], true),
        (&["SET k v", "MOVE k 1"], &["SWAPDB 0 1", "SWAPDB 0 1"], true),
        (&["SET k v", "MOVE k 1"], &["SWAPDB 0 1", "DEL k"], true),
        (
            &["SET k v", "SWAPDB 0 1", "SWAPDB 1 2"],
            &["SWAPDB 2 0", "DEL k"],
            true,
        ),
        (
            &[],
            &["FLUSHALL", "DEL k", "SET k v XX", "GET k", "SWAPDB 0 1"],
            false,
        ),
        // The key is expired, and comes and goes without ever having been deleted in between.
        (&["SET k v PX 1", "SET other v"], &[], true),
        (&["SET k v PXAT 1"], &["SET k w", "DEL k"], true),
        (&["SET k v PXAT 1"], &["SETNX k w", "GETDEL k"], true),
        (&["SET k v PXAT 1"], &["GET k", "SET k v XX", "DEL k"], false),
    ] {
        assert_eq!(notices(before, after), expected, "{before:?} {after:?}");
    }
}

#[test]
fn a_failed_move_does_not_take_back_what_an_absent_keys_watch_would_notice() {
    let mut node = Node::new(0);
    node.open(1);
    // Enough keys that every bucket of creation stamps has some, each as old as it gets and each in the way of
    // its own move.
    for n in 0..8_000 {
        node.run(&format!("SET old{n} v"));
        node.run_in(1, &format!("SET old{n} v"));
    }
    let watched = version(&node, 0);
    node.run("SET k v");
    node.run("DEL k");
    for n in 0..8_000 {
        assert_eq!(node.run(&format!("MOVE old{n} 1")), ":0\r\n");
    }
    assert_ne!(version(&node, 0), watched);
}

#[test]
fn objects_installed_together_in_two_databases_are_told_apart_by_a_swap() {
    let mut node = Node::new(0);
    node.open_with(1, 0);
    let put = |number, value: &[u8]| Effect::Put {
        db: db(number),
        object: Object::string(b"k", value, None, Version(0)),
    };
    node.keyspace
        .install(vec![put(0, b"zero"), put(1, b"one")], &mut node.local);
    let watched = version(&node, 0);
    assert_eq!(watched, version(&node, 1), "one operation, one version");
    node.run("SWAPDB 0 1");
    assert_ne!(version(&node, 0), watched);
}

#[test]
fn what_is_installed_counts_as_a_change_and_as_an_access() {
    let mut node = Node::new(0);
    node.open_with(1, 0);
    node.local.access.set(UnixMillis(5_000_000), None);
    let watched = version(&node, 0);
    let object = Object::string(b"k", b"v", None, Version(0));
    node.keyspace
        .install(vec![Effect::Put { db: db(0), object }], &mut node.local);
    assert_eq!(node.run("OBJECT IDLETIME k"), ":0\r\n");
    node.keyspace.install(
        vec![Effect::Delete {
            db: db(0),
            key: Box::from(&b"k"[..]),
        }],
        &mut node.local,
    );
    assert_ne!(version(&node, 0), watched);
}

#[test]
fn the_absence_of_a_key_is_not_older_than_its_removal() {
    let mut node = Node::new(1);
    node.open(1_000);
    node.run("SET other 1");
    let change = |node: &Node, key: &str| {
        let keys = [(db(0), key.as_bytes())];
        node.keyspace.last_change(keys, &node.local)
    };
    for (make, end) in [
        ("SET k 1", "DEL k"),
        ("RPUSH k 1", "LPOP k"),
        ("SADD k 1", "SMOVE k elsewhere 1"),
        ("SET k 1", "RENAME k other"),
        ("SET k 1", "PEXPIRE k -1"),
        ("SET k 1", "FLUSHDB"),
        ("SET k 1", "SWAPDB 0 1"),
    ] {
        node.run(make);
        node.run("SET other 2");
        let before = node.keyspace.applied();
        node.run(end);
        let change = change(&node, "k").expect("nothing has expired");
        assert!(change > before, "{end}: {change:?} and {before:?}");
        assert!(change <= node.keyspace.applied());
    }
    // What has expired has changed at a moment that nobody has written down.
    node.run("SET k 1 PX 5");
    node.open(2_000);
    assert_eq!(change(&node, "k"), None);
    node.keyspace.expire(db(0), b"k", &mut node.local);
    assert_eq!(change(&node, "k"), Some(node.keyspace.applied()));
}

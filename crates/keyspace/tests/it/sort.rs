//! `SORT` and `SORT_RO` on what sets and strings can show.

use crate::node::{Node, db};

/// The reply with its line ends as spaces and without the lengths of strings.
fn short(reply: &str) -> String {
    let lines = reply.split("\r\n");
    let kept: Vec<&str> = lines
        .filter(|line| !line.starts_with('$') || *line == "$-1")
        .collect();
    kept.join(" ").trim_end().to_owned()
}

fn node() -> Node {
    let mut node = Node::new(1);
    node.open(1);
    for line in [
        "SADD numbers 10 9 1 100 -3",
        "SADD words b a C aa",
        "MSET w_10 1 w_9 2 w_1 3 w_100 4",
        "MSET o_10 ten o_9 nine o_1 one",
        "SADD mixed 1 x",
    ] {
        node.run(line);
    }
    node
}

#[test]
fn elements_are_sorted_limited_and_replaced() {
    let mut node = node();
    for (line, expected) in [
        ("SORT none", "*0"),
        ("SORT numbers", "*5 -3 1 9 10 100"),
        ("SORT numbers DESC", "*5 100 10 9 1 -3"),
        ("SORT numbers ALPHA", "*5 -3 1 10 100 9"),
        ("SORT words ALPHA", "*4 C a aa b"),
        ("SORT numbers LIMIT 1 2", "*2 1 9"),
        ("SORT numbers LIMIT -1 2", "*2 -3 1"),
        ("SORT numbers LIMIT 3 -1", "*2 10 100"),
        ("SORT numbers LIMIT 9 9", "*0"),
        ("SORT numbers BY w_*", "*5 -3 10 9 1 100"),
        ("SORT numbers BY w_* DESC", "*5 100 1 9 10 -3"),
        ("SORT numbers BY o_* ALPHA", "*5 -3 100 9 1 10"),
        (
            "SORT numbers BY o_*",
            "-ERR One or more scores can't be converted into double",
        ),
        (
            "SORT mixed",
            "-ERR One or more scores can't be converted into double",
        ),
        ("SORT numbers GET # GET o_* LIMIT 1 3", "*6 1 one 9 nine 10 ten"),
        ("SORT numbers GET o_* LIMIT 0 2", "*2 $-1 one"),
        ("SORT numbers GET o LIMIT 0 1", "*1 $-1"),
        ("SORT_RO numbers BY w_* GET w_*", "*5 $-1 1 2 3 4"),
        (
            "SORT w_1",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
    ] {
        assert_eq!(short(&node.run(line)), expected, "{line}");
        if !line.contains("STORE") {
            assert_eq!(short(&node.read(line).0), expected, "{line}");
        }
    }
}

#[test]
fn a_stored_result_is_a_list() {
    let mut node = node();
    assert_eq!(node.run("SORT numbers STORE d"), ":5\r\n");
    assert_eq!(node.run("TYPE d"), "+list\r\n");
    assert_eq!(short(&node.run("SORT d BY nosort")), "*5 -3 1 9 10 100");
    assert_eq!(node.run("SORT numbers GET o_* LIMIT 0 2 STORE d"), ":2\r\n");
    assert_eq!(short(&node.run("SORT d BY nosort")), "*2  one");
    // A set is sorted all the same: what is stored must not tell its order.
    assert_eq!(node.run("SORT words BY nosort DESC STORE d"), ":4\r\n");
    assert_eq!(short(&node.run("SORT d BY nosort")), "*4 b aa a C");
    assert_eq!(node.run("SORT none STORE d"), ":0\r\n");
    assert_eq!(node.run("EXISTS d"), ":0\r\n");
}

#[test]
fn a_long_result_is_stored_whole() {
    let mut node = Node::new(1);
    node.open(1);
    let numbers: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    node.run(&format!("SADD k {}", numbers.join(" ")));
    assert_eq!(node.run("SORT k STORE d"), ":20000\r\n");
    assert_eq!(
        short(&node.run("SORT d BY nosort LIMIT 19998 9")),
        "*2 19998 19999"
    );
}

#[test]
fn keys_that_patterns_name_are_noted_if_asked_for() {
    let mut node = node();
    node.run("SORT numbers BY w_* GET o_*");
    assert!(node.local.wanted.is_empty());
    node.local.collects_wanted = true;
    node.run("SORT numbers BY w_*:x GET o_*->f GET o_*->g LIMIT 0 2");
    let names: Vec<String> = node
        .local
        .wanted
        .drain(..)
        .map(|(in_db, key)| {
            assert_eq!(in_db, db(0));
            String::from_utf8(key.into()).expect("text")
        })
        .collect();
    assert_eq!(
        names,
        ["o_-3", "o_1", "w_-3:x", "w_100:x", "w_10:x", "w_1:x", "w_9:x"]
    );
}

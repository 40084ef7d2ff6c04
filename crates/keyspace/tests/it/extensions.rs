//! The commands that Redis has not.

use crate::node::Node;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
const ABSENT: &str = "-ERR no such key\r\n";
const NOT_AN_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
const OVERFLOW: &str = "-ERR increment or decrement would overflow\r\n";
const INSUFFICIENT: &str = "-ERR insufficient balance\r\n";

fn node() -> Node {
    let mut node = Node::new(1);
    node.open(1_000);
    node
}

#[track_caller]
fn expect(node: &mut Node, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(node.run(line), *expected, "{line}");
    }
}

#[test]
fn cas_sets_what_is_as_expected_and_keeps_the_deadline() {
    expect(
        &mut node(),
        &[
            ("CAS k a b", "$-1\r\n"),
            ("EXISTS k", ":0\r\n"),
            ("SET k a PX 500", "+OK\r\n"),
            ("CAS k b c", ":0\r\n"),
            ("GET k", "$1\r\na\r\n"),
            ("CAS k a 007", ":1\r\n"),
            ("GET k", "$3\r\n007\r\n"),
            ("PTTL k", ":500\r\n"),
            ("CAS k 7 8", ":0\r\n"),
            ("CAS k 007 7", ":1\r\n"),
            ("CAS k 7 8", ":1\r\n"),
            ("OBJECT ENCODING k", "$3\r\nint\r\n"),
            ("RPUSH l a", ":1\r\n"),
            ("CAS l a b", WRONG_TYPE),
        ],
    );
}

#[test]
fn what_has_expired_is_absent() {
    let mut node = node();
    node.run("SET k 5 PX 10");
    node.run("SET other 5");
    node.open(1_010);
    expect(
        &mut node,
        &[
            ("XFER other k 1", ABSENT),
            ("XFER k other 1", ABSENT),
            ("ADD k 1", ABSENT),
            ("CAS k 5 6", "$-1\r\n"),
            ("EXISTS k", ":0\r\n"),
            ("GET other", "$1\r\n5\r\n"),
        ],
    );
}

#[test]
fn sums_are_of_integers_that_are_there_and_keep_their_deadline() {
    expect(
        &mut node(),
        &[
            ("ADD k 1", ABSENT),
            ("SUB k 1", ABSENT),
            ("EXISTS k", ":0\r\n"),
            ("SET k 5 PX 500", "+OK\r\n"),
            ("ADD k 37", ":42\r\n"),
            ("SUB k 50", ":-8\r\n"),
            ("ADD k -9223372036854775801", OVERFLOW),
            ("SUB k 9223372036854775807", OVERFLOW),
            ("SUB k -9223372036854775808", "-ERR decrement would overflow\r\n"),
            ("ADD k x", NOT_AN_INTEGER),
            ("GET k", "$2\r\n-8\r\n"),
            ("PTTL k", ":500\r\n"),
            ("SET text 1.5", "+OK\r\n"),
            ("ADD text 1", NOT_AN_INTEGER),
            ("SADD s a", ":1\r\n"),
            ("SUB s 1", WRONG_TYPE),
        ],
    );
}

#[test]
fn a_transfer_is_done_as_a_whole_or_not_at_all() {
    let mut node = node();
    expect(
        &mut node,
        &[
            ("MSET a 10 b 5 text x max 9223372036854775807 debt -3", "+OK\r\n"),
            ("RPUSH l 1", ":1\r\n"),
            ("PEXPIRE a 500", ":1\r\n"),
            ("XFER a b 4", "*2\r\n:6\r\n:9\r\n"),
            ("PTTL a", ":500\r\n"),
            ("PTTL b", ":-1\r\n"),
            ("XFER a b 0", "*2\r\n:6\r\n:9\r\n"),
            ("XFER debt b 0", INSUFFICIENT),
            ("XFER b debt 2", "*2\r\n:7\r\n:-1\r\n"),
        ],
    );
    let before = node.run("MGET a b max debt");
    for (line, expected) in [
        ("XFER a b 7", INSUFFICIENT),
        ("XFER a b -1", "-ERR value is out of range, must be positive\r\n"),
        ("XFER a b x", NOT_AN_INTEGER),
        ("XFER a b 9223372036854775808", NOT_AN_INTEGER),
        ("XFER a max 1", OVERFLOW),
        ("XFER a none 1", ABSENT),
        ("XFER none a 1", ABSENT),
        ("XFER a text 1", NOT_AN_INTEGER),
        ("XFER text a 1", NOT_AN_INTEGER),
        ("XFER a l 1", WRONG_TYPE),
        ("XFER l a 1", WRONG_TYPE),
    ] {
        assert_eq!(node.run(line), expected, "{line}");
        assert_eq!(node.run("MGET a b max debt"), before, "{line}");
    }
}

#[test]
fn a_transfer_to_itself_is_checked_and_changes_nothing() {
    let mut node = node();
    node.run("MSET a 10 text x max 9223372036854775807");
    let before = node.run("MGET a text max");
    for (line, expected) in [
        ("XFER a a 10", "*2\r\n:10\r\n:10\r\n"),
        ("XFER a a 11", INSUFFICIENT),
        (
            "XFER max max 1",
            "*2\r\n:9223372036854775807\r\n:9223372036854775807\r\n",
        ),
        ("XFER text text 0", NOT_AN_INTEGER),
        ("XFER none none 0", ABSENT),
    ] {
        assert_eq!(node.run(line), expected, "{line}");
        assert_eq!(node.run("MGET a text max"), before, "{line}");
    }
}

#[test]
fn the_parts_of_a_transfer_answer_the_balance_of_their_key() {
    expect(
        &mut node(),
        &[
            ("SET k 10", "+OK\r\n"),
            ("XFER.FROM k 4", ":6\r\n"),
            ("XFER.FROM k 7", INSUFFICIENT),
            ("XFER.TO k 3", ":9\r\n"),
            ("XFER.TO k 9223372036854775807", OVERFLOW),
            ("XFER.TO none 1", ABSENT),
            ("XFER.FROM none 1", ABSENT),
            ("GET k", "$1\r\n9\r\n"),
        ],
    );
}

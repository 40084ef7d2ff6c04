//! Nothing is applied twice: batches of gateways, their numbers and their recorded replies.

use crate::node::{Node, db, gateway, header};
use ids::{Boot, GatewayId, Prng};
use keyspace::{
    Batched, BlockCommand, ConditionView, EntryBuf, EntryOperation, Fence, UNACKNOWLEDGED_BYTES_MAX,
    UNACKNOWLEDGED_MAX,
};
use resp::{ArgsBuf, Protocol};
use std::collections::{BTreeMap, VecDeque};

/// One batch of commands in database 0.
struct Sent<'a> {
    gateway: GatewayId,
    number: u64,
    acknowledged: u64,
    lines: &'a [&'a str],
}

fn entry(sent: &[Sent<'_>]) -> Vec<u8> {
    let mut entry = EntryBuf::new(&header(1_000, 3));
    for batch in sent {
        entry.begin_batch(batch.gateway, batch.number, batch.acknowledged);
        for line in batch.lines {
            let words = ArgsBuf::from_slices(line.split(' '));
            entry.push(&EntryOperation::Command {
                db: db(0),
                protocol: Protocol::Resp2,
                args: words.as_args(),
            });
        }
    }
    entry.finish()
}

fn fence(newest: u64, alive: &[u64]) -> Vec<u8> {
    let mut entry = EntryBuf::new(&header(1_000, 3));
    entry.begin_own_batch();
    let fence = Fence::new(Boot(newest), alive.iter().copied().map(Boot));
    entry.push(&EntryOperation::Fence { fence });
    entry.finish()
}

fn one(node: &mut Node, gateway: GatewayId, number: u64, acknowledged: u64, lines: &[&str]) -> Batched {
    let sent = Sent {
        gateway,
        number,
        acknowledged,
        lines,
    };
    node.apply_entry(&entry(&[sent])).0[0]
}

#[test]
fn a_repeat_is_answered_from_the_record_a_gap_is_refused_and_neither_is_applied() {
    let mut node = Node::new(1);
    let (ours, theirs) = (gateway(4, 0), gateway(4, 1));
    let send = |number, acknowledged, lines| {
        entry(&[Sent {
            gateway: ours,
            number,
            acknowledged,
            lines,
        }])
    };
    let first = send(1, 0, &["INCR k", "APPEND k x"][..]);
    let answered = node.apply_entry(&first);
    assert_eq!(answered.0, [Batched::Applied]);
    assert_eq!(answered.1, [&b":1\r\n"[..], b":2\r\n"]);
    assert_eq!(node.run("GET k"), "$2\r\n1x\r\n");
    let again = node.apply_entry(&first);
    assert_eq!(again, (vec![Batched::Repeated], answered.1));
    assert_eq!(
        node.apply_entry(&send(3, 0, &["DEL k"])),
        (vec![Batched::Gap], vec![])
    );
    // Another worker of the same boot counts for itself.
    assert_eq!(one(&mut node, theirs, 2, 0, &["DEL k"]), Batched::Gap);
    assert_eq!(one(&mut node, theirs, 1, 0, &["STRLEN k"]), Batched::Applied);
    assert_eq!(one(&mut node, ours, 2, 1, &["STRLEN k"]), Batched::Applied);
    assert_eq!(
        node.apply_entry(&first),
        (vec![Batched::Forgotten], vec![]),
        "the gateway has the answer"
    );
    assert_eq!(node.run("GET k"), "$2\r\n1x\r\n");
    assert_eq!(
        (
            node.keyspace.last_batch(ours),
            node.keyspace.last_batch(gateway(9, 9))
        ),
        (2, 0)
    );
}

#[test]
fn a_batch_that_comes_twice_in_one_entry_is_applied_once() {
    let mut node = Node::new(1);
    let sent = || Sent {
        gateway: gateway(1, 0),
        number: 1,
        acknowledged: 0,
        lines: &["INCR k"],
    };
    let (outcomes, replies) = node.apply_entry(&entry(&[sent(), sent()]));
    assert_eq!(outcomes, [Batched::Applied, Batched::Repeated]);
    assert_eq!(replies, [&b":1\r\n"[..], b":1\r\n"]);
    assert_eq!(node.run("GET k"), "$1\r\n1\r\n");
}

#[test]
fn what_the_leader_asks_for_is_applied_whenever_it_comes_and_leaves_no_session() {
    let mut node = Node::new(1);
    node.run("SET k v");
    let mut own = EntryBuf::new(&header(1_000, 3));
    own.begin_own_batch();
    own.push(&EntryOperation::Evict { db: db(0), key: b"k" });
    let own = own.finish();
    assert_eq!(node.apply_entry(&own).0, [Batched::Applied]);
    assert_eq!(node.run("EXISTS k"), ":0\r\n");
    node.run("SET k v");
    assert_eq!(node.apply_entry(&own).0, [Batched::Applied]);
    assert_eq!(node.run("EXISTS k"), ":0\r\n");
    assert_eq!(node.keyspace.session_count(), 0);
}

#[test]
fn a_session_takes_no_more_batches_than_it_keeps_records_of() {
    let mut node = Node::new(1);
    let ours = gateway(1, 0);
    let most = UNACKNOWLEDGED_MAX as u64;
    for number in 1..=most {
        assert_eq!(one(&mut node, ours, number, 0, &["INCR k"]), Batched::Applied);
    }
    assert_eq!(one(&mut node, ours, most + 1, 0, &["INCR k"]), Batched::Refused);
    assert_eq!(one(&mut node, ours, most + 2, 0, &["INCR k"]), Batched::Gap);
    assert_eq!(
        one(&mut node, ours, 1, 0, &["INCR k"]),
        Batched::Repeated,
        "nothing was forgotten"
    );
    assert_eq!(one(&mut node, ours, most + 1, 1, &["INCR k"]), Batched::Applied);
    assert_eq!(node.run("GET k"), format!("$2\r\n{}\r\n", most + 1));
}

#[test]
fn a_session_whose_records_are_too_long_takes_no_more_until_they_are_acknowledged() {
    let mut node = Node::new(1);
    let ours = gateway(1, 0);
    let value = "x".repeat(UNACKNOWLEDGED_BYTES_MAX / 2);
    node.run(&format!("SET k {value}"));
    assert_eq!(one(&mut node, ours, 1, 0, &["GET k"]), Batched::Applied);
    assert_eq!(one(&mut node, ours, 2, 0, &["GET k"]), Batched::Applied);
    assert_eq!(one(&mut node, ours, 3, 0, &["INCR n"]), Batched::Refused);
    assert_eq!(one(&mut node, ours, 3, 1, &["INCR n"]), Batched::Applied);
    assert_eq!(node.run("GET n"), "$1\r\n1\r\n");
}

#[test]
fn of_a_dead_boot_nothing_is_kept_and_nothing_is_applied_any_more() {
    let mut node = Node::new(1);
    for boot in 1..=5 {
        for worker in 0..2 {
            assert_eq!(
                one(&mut node, gateway(boot, worker), 1, 0, &["INCR k"]),
                Batched::Applied
            );
        }
    }
    node.apply_entry(&fence(4, &[2, 3]));
    assert_eq!(node.keyspace.session_count(), 6, "2 and 3 live, 5 is newer");
    for (boot, number, expected) in [
        (1, 1, Batched::Fenced),
        (4, 1, Batched::Fenced),
        (4, 2, Batched::Fenced),
        (0, 1, Batched::Fenced),
        // Without a number: of a gateway, and of the leader itself.
        (1, 0, Batched::Fenced),
        (2, 0, Batched::Applied),
        (0, 0, Batched::Applied),
        (2, 1, Batched::Repeated),
        (2, 2, Batched::Applied),
        (5, 2, Batched::Applied),
        (6, 1, Batched::Applied),
    ] {
        let batched = one(&mut node, gateway(boot, 0), number, 0, &["INCR k"]);
        assert_eq!(batched, expected, "boot {boot}, number {number}");
    }
    // An older fence that comes late brings nobody back.
    node.apply_entry(&fence(3, &[1, 2]));
    for (boot, expected) in [
        (1, Batched::Fenced),
        (2, Batched::Repeated),
        (3, Batched::Fenced),
        (4, Batched::Fenced),
    ] {
        assert_eq!(one(&mut node, gateway(boot, 1), 1, 0, &["INCR k"]), expected);
    }
    assert_eq!(node.run("GET k"), "$2\r\n15\r\n");
}

#[test]
fn a_gateway_that_its_own_batch_fences_has_no_session_afterwards() {
    let mut node = Node::new(1);
    let mut entry = EntryBuf::new(&header(1_000, 3));
    entry.begin_batch(gateway(2, 0), 1, 0);
    let fence = Fence::new(Boot(2), []);
    entry.push(&EntryOperation::Fence { fence });
    assert_eq!(node.apply_entry(&entry.finish()).0, [Batched::Applied]);
    assert_eq!(node.keyspace.session_count(), 0);
    assert_eq!(one(&mut node, gateway(2, 0), 1, 0, &["INCR k"]), Batched::Fenced);
}

#[test]
fn a_block_is_carried_out_as_a_whole_or_not_at_all_and_repeats_answer_the_same() {
    let mut node = Node::new(1);
    node.open(1_000);
    node.run("SET watched 1");
    node.run("SET gone v PX 500");
    let watched = node.keyspace.version(db(0), b"watched");
    let gone = node.keyspace.version(db(0), b"gone");
    let absent = node.keyspace.version(db(0), b"nothing");
    let words = ["INCR n", "LPUSH n x", "GET n"].map(|line| ArgsBuf::from_slices(line.split(' ')));
    let block = |number, conditions: &[ConditionView<'_>]| {
        let mut entry = EntryBuf::new(&header(1_200, 3));
        entry.begin_batch(gateway(1, 0), number, 0);
        entry.push(&EntryOperation::Block {
            conditions: conditions.to_vec(),
            commands: words
                .iter()
                .map(|words| BlockCommand {
                    db: db(0),
                    protocol: Protocol::Resp2,
                    args: words.as_args(),
                })
                .collect(),
        });
        entry.finish()
    };
    let unchanged = |key, version| ConditionView::Unchanged {
        db: db(0),
        key,
        version,
    };
    let held = [
        unchanged(&b"watched"[..], watched),
        unchanged(b"nothing", absent),
        unchanged(b"gone", gone),
        ConditionView::Absent { db: db(0), key: b"n" },
    ];
    let first = block(1, &held);
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    let expected = format!(":1\r\n{wrong}$1\r\n1\r\n").into_bytes();
    assert_eq!(
        node.apply_entry(&first),
        (vec![Batched::Applied], vec![expected.clone()])
    );
    // The key `n` is there by now.
    let second = block(2, &held);
    let not = b"not carried out".to_vec();
    assert_eq!(
        node.apply_entry(&second),
        (vec![Batched::Applied], vec![not.clone()])
    );
    assert_eq!(node.run("GET n"), "$1\r\n1\r\n");
    node.run("DEL n");
    assert_eq!(
        node.apply_entry(&second),
        (vec![Batched::Repeated], vec![not.clone()])
    );
    assert_eq!(
        node.apply_entry(&first),
        (vec![Batched::Repeated], vec![expected])
    );
    assert_eq!(node.run("EXISTS n"), ":0\r\n");
    // Group time has reached the deadline of a watched key, which nobody has deleted.
    node.open(1_500);
    assert_eq!(node.apply_entry(&block(3, &held)).1, std::slice::from_ref(&not));
    node.run("SET watched 1");
    assert_eq!(
        node.apply_entry(&block(4, &[unchanged(b"watched", watched)])).1,
        [not]
    );
}

#[test]
fn what_tells_of_one_replica_makes_no_difference_between_two() {
    let (mut one, mut two) = (Node::new(1), Node::new(2));
    // Their tables have grown in different ways, and their clocks differ.
    for n in 0..3_000 {
        two.run(&format!("SET extra:{n} v"));
    }
    for n in 0..3_000 {
        two.run(&format!("DEL extra:{n}"));
    }
    for n in 0..6_000 {
        one.run(&format!("GET nothing:{n}"));
    }
    for node in [&mut one, &mut two] {
        for n in 0..300 {
            node.run(&format!("SET key:{n} v"));
            node.run(&format!("SADD set member:{n}"));
            node.run(&format!("HSET hash field:{n} v"));
            node.run(&format!("ZADD scores {n} member:{n}"));
        }
    }
    assert_eq!(one.keyspace.applied(), two.keyspace.applied());
    let lines: [&[&str]; 2] = [
        &["OBJECT IDLETIME key:1", "DEBUG OBJECT key:1", "MEMORY USAGE set"],
        &[
            "RANDOMKEY",
            "SRANDMEMBER set 5",
            "SPOP set 2",
            "HRANDFIELD hash -3",
            "ZRANDMEMBER scores 4",
            "SCAN 0 COUNT 7",
            "SSCAN set 0 COUNT 7",
            "HSCAN hash 0",
            "ZSCAN scores 0",
            "OBJECT ENCODING set",
        ],
    ];
    for (number, lines) in (1..).zip(lines) {
        let bytes = entry(&[Sent {
            gateway: gateway(1, 0),
            number,
            acknowledged: 0,
            lines,
        }]);
        let (replies, others) = (one.apply_entry(&bytes).1, two.apply_entry(&bytes).1);
        if number == 2 {
            assert_eq!(replies, others);
        }
    }
    // Creation stamps remember that keys came and went: compare the sessions alone.
    let bytes = |node: &Node| node.keyspace.last_batch(gateway(1, 0));
    assert_eq!(bytes(&one), bytes(&two));
}

/// What a right group knows of one gateway.
#[derive(Default)]
struct Model {
    last: u64,
    records: VecDeque<Vec<Vec<u8>>>,
}

#[test]
fn any_order_of_batches_does_what_a_plain_model_says() {
    for seed in 0..20 {
        let mut prng = Prng::new(seed);
        let (mut node, mut other) = (Node::new(seed), Node::new(seed + 1));
        let mut models: BTreeMap<GatewayId, Model> = BTreeMap::new();
        let mut counter = 0;
        for _ in 0..400 {
            let from = gateway(1 + prng.below(2), prng.below(2) as u16);
            let model = models.entry(from).or_default();
            let acknowledged = prng.below(model.last + 2).min(prng.below(model.last + 2));
            let number = match prng.below(6) {
                0 => 1 + prng.below(model.last + 4),
                _ => model.last + 1,
            };
            let lines: Vec<&str> = (0..prng.below(3)).map(|_| "INCR k").collect();
            let bytes = entry(&[Sent {
                gateway: from,
                number,
                acknowledged,
                lines: &lines,
            }]);
            let kept = |model: &Model| model.last - model.records.len() as u64;
            if model.last > 0 {
                while kept(model) < acknowledged && model.records.pop_front().is_some() {}
            }
            let expected = if number > model.last + 1 {
                Batched::Gap
            } else if number == model.last + 1 && model.records.len() == UNACKNOWLEDGED_MAX {
                Batched::Refused
            } else if number == model.last + 1 {
                let replies = lines.iter().map(|_| {
                    counter += 1;
                    format!(":{counter}\r\n").into_bytes()
                });
                model.records.push_back(replies.collect());
                model.last += 1;
                Batched::Applied
            } else if number > kept(model) {
                Batched::Repeated
            } else {
                Batched::Forgotten
            };
            let replies = match expected {
                Batched::Applied | Batched::Repeated => {
                    model.records[(number - kept(model) - 1) as usize].clone()
                }
                _ => Vec::new(),
            };
            assert_eq!(node.apply_entry(&bytes), (vec![expected], replies), "seed {seed}");
            other.apply_entry(&bytes);
            assert_eq!(node.keyspace.state_hash(), other.keyspace.state_hash());
        }
    }
}

//! One replica: turns, expired keys, eviction, waiting.

use crate::cluster::operation;
use ids::{Boot, Db, GroupId, HashSeed, PartitionRange, UnixMillis};
use keyspace::EventClasses;
use replica::{Assignment, Copying, Output, Part, Reload, Replica, ReplyTo, Request, Turn};
use txn::{Locks, Mode, Participant, Refusal, TxnId, Vote, VoteRecord};

fn replica() -> Replica {
    Replica::new(GroupId::new(0), HashSeed([1, 2]), PartitionRange::ONE)
}

/// A turn in which nothing is limited.
pub(crate) fn turn(number: u64, now: i64) -> Turn {
    Turn {
        number,
        now: UnixMillis(now),
        seed: number,
        lfu: None,
        notify: EventClasses::default(),
        steps_max: usize::MAX,
        answers_bytes_max: usize::MAX,
        copying: Copying::at_once(256 * 1024),
        semantics: ids::SemanticsVersion::CURRENT,
        coding: None,
    }
}

fn run(replica: &mut Replica, turn: Turn, line: &str) -> String {
    let out = crate::execute(replica, &turn, &operation(0, line));
    String::from_utf8_lossy(&out).into_owned()
}

/// A part of a transaction over this group.
fn part(seq: u64, assignment: Assignment) -> Request {
    Request::Prepare(Box::new(Part {
        txn: txn(seq),
        began: UnixMillis(0),
        participants: [Participant::first(GroupId::new(0))].into(),
        conditions: Vec::new(),
        expects: Vec::new(),
        assignment,
        is_bounded: true,
    }))
}

fn decide(seq: u64, is_committed: bool) -> Request {
    Request::Decide {
        txn: txn(seq),
        is_committed,
        is_awaited: false,
        worker: 0,
        is_final: true,
    }
}

fn prepare(replica: &mut Replica, turn: Turn, seq: u64, keys: &[&str]) -> Vec<Output> {
    let keys = keys.iter().map(|key| (key.as_bytes().into(), Mode::Exclusive));
    let request = part(
        seq,
        Assignment::CheckOut {
            locks: Locks::of_keys(keys.collect()),
            keeps_place: false,
        },
    );
    let mut out = Vec::new();
    replica.handle(&turn, request, &mut out);
    out
}

fn txn(seq: u64) -> TxnId {
    TxnId {
        boot: Boot(1),
        worker: 0,
        seq,
        attempt: 1,
    }
}

#[test]
fn the_first_turn_counts_whatever_its_number() {
    for number in [0, 1, u64::MAX] {
        let mut replica = replica();
        assert_eq!(run(&mut replica, turn(number, 1_000), "SET k v PX 5"), "+OK\r\n");
        assert_eq!(
            run(&mut replica, turn(number, 1_000), "PEXPIRETIME k"),
            ":1005\r\n"
        );
    }
}

#[test]
fn an_expired_key_that_a_read_met_is_deleted_unless_it_is_locked() {
    let mut replica = replica();
    run(&mut replica, turn(1, 1_000), "MSET a 1 b 2");
    run(&mut replica, turn(1, 1_000), "PEXPIRE a 10");
    run(&mut replica, turn(1, 1_000), "PEXPIRE b 10");
    prepare(&mut replica, turn(2, 1_001), 1, &["b"]);
    assert_eq!(run(&mut replica, turn(3, 1_010), "EXISTS a b"), ":0\r\n");
    assert_eq!(replica.keyspace().counts(Db::default()), (1, 1), "b is locked");
    assert!(!replica.evict(&turn(3, 1_010), Db::default(), b"b"));
    replica.expire_due(&turn(3, 1_010), 100);
    assert_eq!(replica.keyspace().counts(Db::default()), (1, 1));
    replica.handle(&turn(4, 1_011), decide(1, false), &mut Vec::new());
    assert!(replica.expire_due(&turn(4, 1_011), 100));
    assert_eq!(replica.keyspace().counts(Db::default()), (0, 0));
}

#[test]
fn what_a_part_of_a_transaction_reads_is_bounded_and_what_its_writes_answer_is_not() {
    let turn = Turn {
        answers_bytes_max: 50,
        ..turn(1, 1)
    };
    let mut replica = replica();
    let value = "v".repeat(30);
    run(&mut replica, turn, &format!("SET k {value}"));
    let lines = ["GET k", "GET k", "SET k new GET", "GET k"];
    let request = part(
        1,
        Assignment::Evaluate {
            operations: lines.map(|line| operation(0, line)).into(),
            is_strict: false,
        },
    );
    let mut out = Vec::new();
    replica.handle(&turn, request, &mut out);
    let Some(Output::Voted { replies, .. }) = out.pop() else {
        panic!("{out:?}")
    };
    let told: Vec<_> = replies.iter().map(String::from_utf8_lossy).collect();
    let value = format!("$30\r\n{value}\r\n");
    assert_eq!((&*told[0], &*told[2]), (&*value, &*value));
    for reply in [&told[1], &told[3]] {
        assert!(
            reply.starts_with("-ERR the replies to what was read at once"),
            "{reply}"
        );
    }
}

#[test]
fn a_command_waits_for_a_prepared_transaction_and_sees_what_it_did() {
    let mut replica = replica();
    run(&mut replica, turn(1, 1), "SET k old");
    let mut out = Vec::new();
    let request = part(
        1,
        Assignment::Evaluate {
            operations: vec![operation(0, "SET k new GET"), operation(0, "APPEND k er")],
            is_strict: false,
        },
    );
    replica.handle(&turn(2, 2), request, &mut out);
    let Some(Output::Voted {
        vote: Vote::Prepared,
        replies,
        ..
    }) = out.pop()
    else {
        panic!("{out:?}")
    };
    assert_eq!(replies.bytes(), b"$3\r\nold\r\n:5\r\n");
    assert_eq!(
        run(&mut replica, turn(2, 2), "GET k"),
        "$3\r\nold\r\n",
        "nobody else may ask yet"
    );

    let reply_to = ReplyTo {
        worker: 0,
        connection: 7,
        sequence: 8,
    };
    replica.handle(
        &turn(2, 2),
        Request::Execute {
            reply_to,
            operation: operation(0, "GET k"),
        },
        &mut out,
    );
    assert!(out.is_empty());
    assert_eq!(replica.state().lock_counts(), (1, 1));
    replica.handle(&turn(3, 3), decide(1, true), &mut out);
    let Some(Output::Answered {
        reply_to: answered,
        replies: Some(replies),
    }) = out.pop()
    else {
        panic!("{out:?}")
    };
    assert_eq!((answered, replies.bytes()), (reply_to, &b"$5\r\nnewer\r\n"[..]));
    assert_eq!(replica.state().lock_counts(), (0, 0));
}

/// What a group votes on these commands, on the key `k` alone, and what they answer.
fn evaluate(replica: &mut Replica, turn: Turn, seq: u64, line: &str, is_strict: bool) -> (Vote, String) {
    let request = part(
        seq,
        Assignment::Evaluate {
            operations: vec![operation(0, line)],
            is_strict,
        },
    );
    let mut out = Vec::new();
    replica.handle(&turn, request, &mut out);
    let Some(Output::Voted { vote, replies, .. }) = out.pop() else {
        panic!("{out:?}")
    };
    (vote, String::from_utf8_lossy(replies.bytes()).into_owned())
}

#[test]
fn an_error_is_a_refusal_for_who_is_strict_and_a_result_for_who_is_not() {
    const INSUFFICIENT: &str = "-ERR insufficient balance\r\n";
    let mut replica = replica();
    run(&mut replica, turn(1, 1), "SET k 5");
    let (vote, reply) = evaluate(&mut replica, turn(2, 2), 1, "XFER.FROM k 6", true);
    assert_eq!(
        (vote, reply.as_str()),
        (Vote::Refused(Refusal::Failed), INSUFFICIENT)
    );
    assert_eq!(replica.state().lock_counts(), (0, 0), "who refuses holds nothing");
    replica.handle(&turn(2, 2), decide(1, false), &mut Vec::new());

    let (vote, reply) = evaluate(&mut replica, turn(3, 3), 2, "XFER.FROM k 6", false);
    assert_eq!((vote, reply.as_str()), (Vote::Prepared, INSUFFICIENT));
    replica.handle(&turn(3, 3), decide(2, true), &mut Vec::new());
    assert_eq!(run(&mut replica, turn(3, 3), "GET k"), "$1\r\n5\r\n");

    let (vote, reply) = evaluate(&mut replica, turn(4, 4), 3, "XFER.FROM k 5", true);
    assert_eq!((vote, reply.as_str()), (Vote::Prepared, ":0\r\n"));
    replica.handle(&turn(4, 4), decide(3, true), &mut Vec::new());
    assert_eq!(run(&mut replica, turn(4, 4), "GET k"), "$1\r\n0\r\n");
}

#[test]
fn the_end_of_a_transaction_is_kept_until_it_is_forgotten_unless_nobody_can_ask_for_it() {
    let query_txn = |replica: &mut Replica, seq: u64| {
        let request = Request::QueryTxn {
            txn: txn(seq),
            participants: [Participant::first(GroupId::new(0))].into(),
            worker: 0,
        };
        let mut out = Vec::new();
        replica.handle(&turn(9, 9), request, &mut out);
        match out.pop() {
            Some(Output::QueriedTxn { vote_record, .. }) => vote_record,
            other => panic!("{other:?}"),
        }
    };
    let mut replica = replica();
    for (seq, is_final) in [(1, true), (2, false)] {
        evaluate(&mut replica, turn(seq, 1), seq, "SET k v", false);
        let mut out = Vec::new();
        let decide = Request::Decide {
            txn: txn(seq),
            is_committed: true,
            is_awaited: false,
            worker: 0,
            is_final,
        };
        replica.handle(&turn(seq, 1), decide, &mut out);
        assert_eq!(out.is_empty(), is_final, "{out:?}");
        assert_eq!(replica.state().transaction_counts().ended, usize::from(!is_final));
    }
    assert_eq!(query_txn(&mut replica, 2), VoteRecord::Committed);
    let forget = Request::Forget { txn: txn(2), low: 3 };
    replica.handle(&turn(9, 9), forget, &mut Vec::new());
    assert_eq!(replica.state().transaction_counts().ended, 0);
    assert_eq!(query_txn(&mut replica, 2), VoteRecord::Over);
}

#[test]
fn what_a_transaction_tells_is_heard_when_it_is_committed_and_only_by_who_listens() {
    let mut replica = replica();
    let event = |key: &str| keyspace::Event {
        class: EventClasses::LIST,
        name: "rpush".into(),
        db: Db::default(),
        key: key.as_bytes().into(),
    };
    let install = |seq, key| {
        part(
            seq,
            Assignment::Install {
                effects: vec![keyspace::Effect::Tell(event(key))],
                after_lock: false,
                result: None,
            },
        )
    };
    let listening = |number| Turn {
        notify: EventClasses::LIST,
        ..turn(number, 1)
    };
    replica.handle(&listening(1), install(1, "a"), &mut Vec::new());
    replica.handle(&listening(1), install(2, "b"), &mut Vec::new());
    assert_eq!(
        replica.state().lock_counts(),
        (2, 0),
        "what is only told of is not locked"
    );
    assert_eq!(replica.state_mut().take_events(), []);
    replica.handle(&listening(1), decide(1, true), &mut Vec::new());
    replica.handle(&listening(1), decide(2, false), &mut Vec::new());
    assert_eq!(replica.state_mut().take_events(), [event("a")]);
    replica.handle(&turn(2, 1), install(3, "c"), &mut Vec::new());
    replica.handle(&turn(2, 1), decide(3, true), &mut Vec::new());
    assert_eq!(replica.state_mut().take_events(), []);
}

#[test]
fn a_withdrawal_is_answered_by_who_waits_and_ignored_by_who_prepared() {
    let mut replica = replica();
    assert!(matches!(
        prepare(&mut replica, turn(1, 1), 1, &["k"])[..],
        [Output::Voted {
            vote: Vote::Prepared,
            ..
        }]
    ));
    assert!(prepare(&mut replica, turn(1, 1), 2, &["k"]).is_empty());
    let mut out = Vec::new();
    replica.handle(&turn(1, 1), Request::Wound { txn: txn(1) }, &mut out);
    assert!(out.is_empty());
    replica.handle(&turn(1, 1), Request::Wound { txn: txn(2) }, &mut out);
    assert!(matches!(
        out[..],
        [Output::Voted {
            vote: Vote::Refused(_),
            ..
        }]
    ));
    assert_eq!(replica.state().lock_counts(), (1, 0));
}

#[test]
fn a_group_that_is_to_get_a_log_lets_no_transaction_in_and_ends_those_that_it_has() {
    let mut replica = replica();
    assert_eq!(prepare(&mut replica, turn(1, 1), 1, &["k"]).len(), 1);
    assert_eq!(replica.await_log(true).len(), 0);
    let mut out = Vec::new();
    for seq in [2, 3, 4] {
        let evaluate = Assignment::Evaluate {
            operations: vec![operation(0, "SET free v")],
            is_strict: false,
        };
        replica.handle(&turn(1, 1), part(seq, evaluate), &mut out);
    }
    assert!(out.is_empty());
    replica.handle(&turn(1, 1), Request::Wound { txn: txn(2) }, &mut out);
    assert!(matches!(
        out[..],
        [Output::Voted {
            vote: Vote::Refused(Refusal::Wounded),
            ..
        }]
    ));
    out.clear();
    replica.handle(&turn(1, 1), decide(3, false), &mut out);
    assert!(!replica.is_quiet(), "the first is under way");
    replica.handle(&turn(1, 1), decide(1, true), &mut out);
    assert!(replica.is_quiet());
    assert_eq!(run(&mut replica, turn(1, 1), "SET k v"), "+OK\r\n");
    let kept_out = replica.await_log(false);
    let is_fourth = |request: &Request| matches!(request, Request::Prepare(part) if part.txn == txn(4));
    assert!(kept_out.len() == 1 && is_fourth(&kept_out[0]));
    replica.give_log();
}

#[test]
fn expired_keys_stay_while_they_are_to_be_kept() {
    let mut replica = replica();
    run(&mut replica, turn(1, 1_000), "SET k v PX 10");
    replica.state_mut().keep_expired(true);
    assert_eq!(run(&mut replica, turn(2, 1_010), "GET k"), "$-1\r\n");
    assert!(replica.expire_due(&turn(2, 1_010), 100));
    assert_eq!(replica.keyspace().counts(Db::default()), (1, 1));
    replica.state_mut().keep_expired(false);
    assert_eq!(run(&mut replica, turn(3, 1_011), "GET k"), "$-1\r\n");
    assert_eq!(replica.keyspace().counts(Db::default()), (0, 0));
}

#[test]
fn limits_are_an_operation_only_if_they_differ() {
    let mut replica = replica();
    let limits = keyspace::EncodingLimits {
        hash_entries: 7,
        ..keyspace::EncodingLimits::default()
    };
    replica
        .state_mut()
        .set_limits(&turn(1, 1_000), keyspace::EncodingLimits::default());
    let before = replica.keyspace().applied();
    replica.state_mut().set_limits(&turn(1, 1_000), limits);
    replica.state_mut().set_limits(&turn(2, 1_001), limits);
    assert_eq!(replica.keyspace().limits(), limits);
    assert_eq!(replica.keyspace().applied().0, before.0 + 1);
}

#[test]
fn what_is_lent_stays_as_it_is_until_it_is_back() {
    let mut replica = replica();
    let elements: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
    run(
        &mut replica,
        turn(1, 1_000),
        &format!("RPUSH list {}", elements.join(" ")),
    );
    run(&mut replica, turn(1, 1_000), "PEXPIRE list 10");
    let before = replica.memory();
    let key: Box<[u8]> = (*b"list").into();
    let request = part(
        1,
        Assignment::CheckOut {
            locks: Locks::Keys(vec![(key.clone(), Mode::Exclusive)]),
            keeps_place: true,
        },
    );
    let mut out = Vec::new();
    replica.handle(&turn(2, 1_001), request, &mut out);
    assert!(matches!(
        out.pop(),
        Some(Output::Voted {
            vote: Vote::Prepared,
            ..
        })
    ));
    let keys = vec![(Db::default(), key)];
    replica.handle(&turn(2, 1_001), Request::CheckOut { txn: txn(1), keys }, &mut out);
    let Some(Output::Locked { objects, .. }) = out.pop() else {
        unreachable!("it is locked");
    };
    let object = objects.into_iter().next().flatten().expect("the list");
    let object = object.into_object().expect("it was not encoded");
    // It counts, though it is elsewhere; and nobody takes the place of it away, not even when its time has come.
    assert!(replica.memory() >= before);
    assert_eq!(replica.keyspace().counts(Db::default()), (1, 1));
    assert!(!replica.evict(&turn(3, 2_000), Db::default(), b"list"));
    assert!(replica.expire_due(&turn(3, 2_000), 1_000));
    assert_eq!(replica.keyspace().counts(Db::default()), (1, 1));
    let request = Request::Execute {
        reply_to: ReplyTo {
            worker: 0,
            connection: 1,
            sequence: 1,
        },
        operation: operation(0, "LLEN list"),
    };
    replica.handle(&turn(3, 1_005), request, &mut out);
    assert!(out.is_empty(), "it waits");
    let request = Request::CheckIn {
        txn: txn(1),
        returned: vec![replica::Returned::Unchanged(Db::default(), object)],
        events: Vec::new(),
        lazyfree: keyspace::Lazyfree::default(),
        counts: replica::LocalCounts { hits: 2, misses: 1 },
    };
    let hits = replica.local().hits;
    replica.handle(&turn(4, 1_006), request, &mut out);
    assert!(replica.local().hits >= hits + 2);
    let Some(Output::Answered {
        replies: Some(replies),
        ..
    }) = out.pop()
    else {
        unreachable!("its keys are free");
    };
    // Group time went on while it was lent: then it has expired.
    assert_eq!(replies.bytes(), b":0\r\n");
    assert!(replica.expire_due(&turn(5, 2_001), 1_000));
    assert_eq!(replica.keyspace().counts(Db::default()), (0, 0));
    let mut pieces = 1;
    while !replica.state_mut().collect_lazyfree(&mut 1_000) {
        pieces += 1;
    }
    assert!(pieces > 1, "{pieces}");
}

#[test]
fn a_state_that_is_encoded_and_decoded_is_the_same() {
    let mut replica = replica();
    for line in [
        "SET k v PX 100",
        "RPUSH l a b",
        "SADD s x",
        "HSET h f 1",
        "ZADD z 1 m",
    ] {
        run(&mut replica, turn(1, 1_000), line);
    }
    let (hash, version) = (
        replica.keyspace().state_hash(),
        replica.state_mut().version(&turn(1, 1_000), Db::default(), b"k"),
    );
    assert_eq!(replica.reload(), Reload::Done);
    assert_eq!(replica.keyspace().state_hash(), hash);
    let found = replica.state_mut().version(&turn(1, 1_000), Db::default(), b"k");
    assert_eq!(found, version);
    assert_eq!(run(&mut replica, turn(1, 1_000), "RPUSH l c"), ":3\r\n");
    assert_eq!(run(&mut replica, turn(2, 1_100), "GET k"), "$-1\r\n");
    assert_eq!(replica.check(), Ok(()));
}

#[test]
fn a_state_that_a_transaction_holds_is_left_alone() {
    let mut replica = replica();
    let request = part(
        1,
        Assignment::Evaluate {
            operations: vec![operation(0, "SET k new")],
            is_strict: false,
        },
    );
    replica.handle(&turn(1, 1), request, &mut Vec::new());
    assert_eq!(replica.reload(), Reload::Busy);
    replica.handle(&turn(2, 2), decide(1, true), &mut Vec::new());
    assert_eq!(replica.reload(), Reload::Done);
    assert_eq!(run(&mut replica, turn(3, 3), "GET k"), "$3\r\nnew\r\n");
}

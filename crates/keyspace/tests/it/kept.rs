//! Long strings, which stay in what brought them.

use crate::node::{Node, db, gateway, header};
use bytes::Bytes;
use ids::{Boot, GroupId, UnixMillis};
use keyspace::{
    Effect, EntryBuf, EntryOperation, KEPT_BYTES_MIN, Operations, OperationsMark, Piece, Prepare, Resolve,
    SeenObject, Value, Work,
};
use resp::{Args, ArgsBuf, FrozenRope, Protocol, ReplyWriter, Rope, Span};
use txn::{Participant, TxnId};

/// `SET key value` as a client sends it, and where its words are.
fn frame(value: &[u8]) -> (Bytes, Vec<Span>) {
    let (mut bytes, mut spans) = (b"*3\r\n".to_vec(), Vec::new());
    for word in [b"SET".as_slice(), b"key", value] {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        spans.push(Span {
            start: bytes.len() as u32,
            len: word.len() as u32,
        });
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    (bytes.into(), spans)
}

fn long() -> Vec<u8> {
    (0..KEPT_BYTES_MIN + 5).map(|at| (at % 251) as u8).collect()
}

/// The command in its frame, behind a short one that is not taken out.
fn framed(frame: &Bytes, spans: &[Span]) -> FrozenRope {
    let mut operations = Operations::new();
    let short = ArgsBuf::from_slices(["SET", "other", "1"]);
    operations.push(&EntryOperation::Command {
        db: db(0),
        protocol: Protocol::Resp2,
        args: short.as_args(),
    });
    let mark = operations.mark();
    assert!(operations.push_framed(db(0), Protocol::Resp2, Args::new(frame, spans), frame));
    let long = operations.split_off(mark);
    assert_eq!(Operations::check(operations.bytes()), Ok(1));
    assert_eq!(
        long.runs()[0].1.as_ptr(),
        frame.as_ptr(),
        "the frame is not copied"
    );
    long
}

/// A batch of two operations, of which the second one is carried out.
fn apply(node: &mut Node, batch: u64, first: &EntryOperation<'_>, second: &EntryOperation<'_>) {
    let mut entry = EntryBuf::new(&header(1_000, 0));
    entry.begin_batch(gateway(1, 0), batch, 0);
    entry.push(first);
    entry.push(second);
    node.apply_entry(&entry.finish());
}

/// An operation comes in pieces, as many as there are of its bytes.
fn apply_staged(node: &mut Node, batch: u64, operation: &FrozenRope) {
    let whole = operation.to_bytes();
    let stage = Piece {
        number: 7,
        whole_bytes: whole.len() as u64,
        offset: 0,
        bytes: &whole,
    };
    let staged = EntryOperation::Staged { number: 7 };
    apply(node, batch, &EntryOperation::Stage(stage), &staged);
}

/// It comes at once.
fn apply_plain(node: &mut Node, batch: u64, operation: &EntryOperation<'_>) {
    let none = Piece {
        number: 7,
        whole_bytes: 0,
        offset: 0,
        bytes: b"",
    };
    apply(node, batch, &EntryOperation::Stage(none), operation);
}

fn node_with(frame: &Bytes, spans: &[Span]) -> Node {
    let mut node = Node::new(1);
    apply_staged(&mut node, 1, &framed(frame, spans));
    node
}

/// What a read of the node answers, piece by piece.
fn read(node: &mut Node, line: &str) -> Vec<Bytes> {
    let args = ArgsBuf::from_slices(line.split(' '));
    let spec = command::resolve(args.as_args()).expect("it is a command");
    let command = command::parse(spec, args.as_args()).expect("it has keys");
    let command = command.expect("it is well formed");
    let mut reply = Rope::default();
    let mut out = ReplyWriter::sharing(&mut reply, Protocol::Resp2);
    node.keyspace.read(db(0), &command, &mut node.local, &mut out);
    // Whoever copies it tells the same.
    let mut copied = Vec::new();
    let mut out = ReplyWriter::new(&mut copied, Protocol::Resp2);
    node.keyspace.read(db(0), &command, &mut node.local, &mut out);
    let pieces: Vec<Bytes> = reply.freeze().pieces().collect();
    assert!(pieces.concat() == copied, "{line}");
    pieces
}

#[test]
fn a_string_that_stays_in_what_brought_it_is_like_any_other() {
    let (frame, spans) = frame(&long());
    let mut node = node_with(&frame, &spans);
    let mut plain = Node::new(1);
    let (db, protocol, args) = (db(0), Protocol::Resp2, Args::new(&frame, &spans));
    apply_plain(&mut plain, 1, &EntryOperation::Command { db, protocol, args });
    assert_eq!(read(&mut plain, "GET key").len(), 1, "this one is copied");
    for line in [
        "STRLEN key",
        "GETRANGE key 1048570 -1",
        "BITCOUNT key",
        "INCR key",
        "LPUSH key 1",
        "EXPIRE key 100",
        "PERSIST key",
        "COPY key copy",
        "RENAME key renamed",
        "STRLEN renamed",
        "APPEND copy x",
        "SETRANGE copy 3 xyz",
        "GETRANGE copy 0 9",
        "SETBIT renamed 12 1",
        "GETSET renamed short",
        "GET renamed",
        "SET copy 12",
        "INCR copy",
        "DBSIZE",
        "DEL copy renamed",
    ] {
        let expected = plain.run(line);
        assert_eq!(node.run(line), expected, "{line}");
        assert_eq!(node.keyspace.state_hash(), plain.keyspace.state_hash(), "{line}");
    }
}

#[test]
fn a_read_shares_it_and_keeps_it_until_it_was_sent() {
    let (frame, spans) = frame(&long());
    let mut node = node_with(&frame, &spans);
    let value = read(&mut node, "GET key").swap_remove(1);
    assert_eq!(value, Args::new(&frame, &spans).arg(2));
    for (line, shared) in [
        ("GET key", &value[..]),
        ("GETRANGE key 3 -2", &value[3..value.len() - 1]),
        ("MGET none key", &value[..]),
    ] {
        let pieces = read(&mut node, line);
        assert_eq!(pieces.len(), 3, "{line}");
        assert_eq!(pieces[1].as_ptr(), shared.as_ptr(), "{line}");
        assert_eq!(pieces[1].len(), shared.len(), "{line}");
    }
    let mut reply = Rope::default();
    let mut out = ReplyWriter::sharing(&mut reply, Protocol::Resp2);
    let key = command::Command::Get { key: b"key" };
    node.keyspace.read(db(0), &key, &mut node.local, &mut out);
    drop(node);
    assert!(!value.is_unique(), "the reply has it");
    reply.advance(reply.len());
    assert!(value.is_unique(), "it was sent");
}

const TXN: TxnId = TxnId {
    boot: Boot(1),
    worker: 0,
    seq: 1,
    attempt: 0,
};

/// A transaction's part that has these effects.
fn part(effects: Vec<Effect>) -> EntryOperation<'static> {
    EntryOperation::Prepare(Box::new(Prepare {
        txn: TXN,
        began: UnixMillis(1_000),
        participants: [Participant::first(GroupId::new(0))].into(),
        conditions: Vec::new(),
        expects: Vec::new(),
        work: Work::Install {
            effects,
            after_lock: false,
            result: None,
        },
    }))
}

/// The decision that it is committed.
fn commit(node: &mut Node) {
    let mut resolved = EntryBuf::new(&header(1_000, 0));
    resolved.begin_batch(gateway(1, 0), 2, 0);
    resolved.push(&EntryOperation::Resolve(Resolve {
        decisions: vec![(TXN, true)],
    }));
    node.apply_entry(&resolved.finish());
}

#[test]
fn a_transaction_takes_it_to_another_place_without_a_copy() {
    let (frame, spans) = frame(&long());
    let mut from = node_with(&frame, &spans);
    let value = read(&mut from, "GET key").swap_remove(1);
    let fetch = || {
        let seen = from.keyspace.share_seen(db(0), b"key", &from.local);
        let pieces: Vec<Bytes> = seen.pieces().collect();
        assert_eq!(pieces[1].as_ptr(), value.as_ptr(), "it is shared");
        // Of what comes from another node it is one piece.
        let received = keyspace::read_seen(&seen.to_bytes().into()).expect("it was just written");
        let (object, _) = keyspace::read_seen(&seen).expect("it was just written");
        let object = object
            .and_then(SeenObject::into_object)
            .expect("the key is there");
        let received = received
            .0
            .and_then(SeenObject::into_object)
            .expect("the key is there");
        assert!(
            matches!((received.value(), object.value()), (Value::Bytes(one), Value::Bytes(other)) if one == other)
        );
        object
    };
    let (db, key) = (db(0), b"other".as_slice());
    let effects = || {
        let (object, key) = (fetch(), key.into());
        vec![Effect::Put { db, object }, Effect::Delete { db, key }]
    };
    let mut operations = Operations::new();
    operations.push(&part(effects()));
    let long = operations.split_off(OperationsMark::default());
    assert_eq!(long.runs()[0].1.as_ptr(), value.as_ptr(), "it is shared");
    let whole = long.to_bytes();
    assert_eq!(Operations::check(&whole), Ok(1));
    for length in [1, KEPT_BYTES_MIN / 2, whole.len() - 1] {
        assert!(Operations::check(&whole[..length]).is_err(), "{length}");
    }
    let [mut node, mut plain] = [Node::new(1), Node::new(1)];
    apply_staged(&mut node, 1, &long);
    apply_plain(&mut plain, 1, &part(effects()));
    for node in [&mut node, &mut plain] {
        commit(node);
        assert_eq!(node.run("STRLEN key"), format!(":{}\r\n", KEPT_BYTES_MIN + 5));
    }
    assert_eq!(node.keyspace.state_hash(), plain.keyspace.state_hash());
    assert_eq!(read(&mut node, "GET key").len(), 3, "it stays where it came");
}

#[test]
fn every_long_value_of_a_part_is_shared() {
    let (frame, spans) = frame(&long());
    let from = node_with(&frame, &spans);
    let object = || from.keyspace.copy_object(db(0), b"key");
    let put = |number| Effect::Put {
        db: db(number),
        object: object().expect("the key is there"),
    };
    let mut operations = Operations::new();
    operations.push(&part(vec![put(0), put(1)]));
    let bytes = operations.byte_len();
    let long = operations.split_off(OperationsMark::default());
    assert_eq!((long.len(), long.runs().len()), (bytes, 2));
    assert!(operations.is_empty());
    // Whoever wants them in one run has them copied.
    operations.push(&part(vec![put(0), put(1)]));
    assert!(operations.into_bytes() == long.to_bytes());
    let mut node = Node::new(1);
    apply_staged(&mut node, 1, &long);
    commit(&mut node);
    let length = node.run("STRLEN key");
    assert_eq!(length, format!(":{}\r\n", KEPT_BYTES_MIN + 5));
}

#[test]
fn it_is_not_copied_and_goes_when_nobody_holds_it() {
    let (frame, spans) = frame(&long());
    let mut node = node_with(&frame, &spans);
    let value = read(&mut node, "GET key").swap_remove(1);
    assert!(node.keyspace.memory() > KEPT_BYTES_MIN);
    for (line, key) in [("COPY key copy", "copy"), ("RENAME key renamed", "renamed")] {
        node.run(line);
        let there = read(&mut node, &format!("GET {key}")).swap_remove(1);
        assert_eq!(there.as_ptr(), value.as_ptr(), "{line}");
    }
    node.run("DEL copy");
    node.run("GETSET renamed 1");
    while !node.keyspace.collect_lazyfree(&mut 1) {}
    assert!(value.is_unique(), "nobody keeps it");
    assert!(node.keyspace.memory() < KEPT_BYTES_MIN);
}

#[test]
fn a_short_string_is_not_kept() {
    let (frame, spans) = frame(b"short");
    let mut node = node_with(&frame, &spans);
    assert_eq!(read(&mut node, "GET key").len(), 1);
}

#[test]
fn words_outside_of_the_frame_are_refused() {
    let (frame, spans) = frame(b"value");
    let mut operations = Operations::new();
    let (args, elsewhere) = (Args::new(&frame, &spans), Bytes::from_static(b"elsewhere"));
    assert!(!operations.push_framed(db(0), Protocol::Resp2, args, &elsewhere));
    assert!(operations.is_empty());
    let framed = framed(&frame, &spans);
    let words = Operations::argv_of_long(&framed, |words| words.to_buf());
    assert_eq!(words, Some(args.to_buf()));
    let mut whole = framed.to_bytes().to_vec();
    for length in 1..whole.len() {
        assert!(Operations::check(&whole[..length]).is_err(), "{length}");
    }
    let last_span = whole.len() - frame.len() - 4 - 8;
    whole[last_span] = 0xff;
    let error = Operations::check(&whole).expect_err("a word ends outside");
    assert_eq!(error.expected, "a frame in which all words lie");
}

#[test]
fn a_long_string_that_was_changed_in_place_is_shared_once_somebody_asks_for_it() {
    let mut node = Node::new(1);
    node.run("SETRANGE key 1500000 x");
    node.run("PEXPIREAT key 99999999999999");
    let before = (node.keyspace.state_hash(), node.keyspace.memory());
    node.keyspace.prepare_to_share(db(0), b"key");
    assert_eq!(node.keyspace.state_hash(), before.0, "it is as it was");
    let grown = node.keyspace.memory().abs_diff(before.1);
    assert!(grown < 64 * 1024, "{grown}");
    let share = |node: &Node| node.keyspace.share_seen(db(0), b"key", &node.local);
    let places = [share(&node), share(&node)].map(|seen| seen.pieces().nth(1).map(|run| run.as_ptr()));
    assert!(places[0].is_some() && places[0] == places[1], "nobody copies it");
    let seen = share(&node);
    let (object, _) = keyspace::read_seen(&seen).expect("it was just written");
    let object = object
        .and_then(SeenObject::into_object)
        .expect("the key is there");
    assert!(object.is_grown(), "and whoever gets it has the same");
    // It can be changed in place again, and what was shared stays.
    node.run("SETRANGE key 0 y");
    assert!(matches!(object.value(), Value::Bytes(bytes) if bytes[0] == 0 && bytes.len() == 1_500_001));
    node.run("DEL key");
    assert!(node.keyspace.memory() < 256 * 1024, "all of it was counted");
}

#[test]
fn a_long_string_is_dropped_a_piece_at_a_time() {
    let mut node = Node::new(1);
    for end in ["DEL key", "RENAME small key", "FLUSHALL"] {
        node.run("SET small x");
        node.run("SETRANGE key 50000000 x");
        node.run(end);
        assert!(
            node.keyspace.memory() < 1024 * 1024,
            "{end}: it is not there any more"
        );
        let mut turns = 1;
        while !node.keyspace.collect_lazyfree(&mut 100) {
            turns += 1;
        }
        assert!(turns >= 3, "{end}: {turns}");
    }
    assert_eq!(node.keyspace.lazyfree_counts().pending, 0);
}

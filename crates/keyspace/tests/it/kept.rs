//! Long strings, which stay in the entries that brought them.

use crate::node::{Node, db, gateway, header};
use bytes::Bytes;
use ids::{Boot, GroupId, UnixMillis};
use keyspace::{
    Effect, Entry, EntryBuf, EntryError, KEPT_BYTES_MIN, Operation, Operations, Prepare, Resolve, Runs,
    Value, Work,
};
use resp::{Args, Protocol, Rope, Span, Writer};
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

/// An entry with a short command and one whose frame is long.
fn entry(frame: &Bytes, spans: &[Span]) -> (Vec<u8>, Bytes) {
    let mut operations = Operations::new();
    let short = resp::ArgsBuf::from_slices(["SET", "other", "1"]);
    operations.push(&Operation::Command {
        db: db(0),
        protocol: Protocol::Resp2,
        args: short.as_args(),
    });
    assert!(operations.push_framed(db(0), Protocol::Resp2, Args::new(frame, spans), frame));
    assert_eq!(Operations::check(Runs::new(operations.bytes(), frame)), Ok(2));
    let mut entry = EntryBuf::new(&header(1_000, 0));
    entry.begin_batch(gateway(1, 0), 1, 0);
    entry.append_long(operations.bytes(), frame.clone());
    entry.finish_runs()
}

/// A node that applied the entry as its proposer has it, and one that applied it as it comes out of the log of others.
fn both(frame: &Bytes, spans: &[Span]) -> [Node; 2] {
    let (head, tail) = entry(frame, spans);
    let whole = Bytes::from([&head[..], &tail].concat());
    [(head, tail), (Vec::new(), whole)].map(|(first, second)| {
        let mut node = Node::new(1);
        let entry = Entry::decode_kept(&first, &second).expect("it was just encoded");
        let applied = node.keyspace.apply(&entry, &mut node.local, |_| {});
        applied.expect("the rules are known");
        node
    })
}

#[test]
fn a_string_that_stays_in_its_entry_is_like_any_other() {
    let (frame, spans) = frame(&long());
    let mut nodes = both(&frame, &spans);
    let mut plain = Node::new(1);
    let (head, tail) = entry(&frame, &spans);
    plain.apply_entry(&[&head[..], &tail].concat());
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
        for node in &mut nodes {
            assert_eq!(node.run(line), expected, "{line}");
            assert_eq!(node.keyspace.state_hash(), plain.keyspace.state_hash(), "{line}");
        }
    }
}

#[test]
fn a_read_shares_it_and_keeps_it_until_it_was_sent() {
    let (frame, spans) = frame(&long());
    let [mut proposer, _] = both(&frame, &spans);
    let value = frame.slice_ref(Args::new(&frame, &spans).arg(2));
    for (line, shared) in [
        ("GET key", &value[..]),
        ("GETRANGE key 3 -2", &value[3..value.len() - 1]),
        ("MGET none key", &value[..]),
    ] {
        let args = resp::ArgsBuf::from_slices(line.split(' '));
        let spec = command::resolve(args.as_args()).expect("it is a command");
        let command = command::parse(spec, args.as_args()).expect("it has keys");
        let mut reply = Rope::default();
        let mut out = Writer::sharing(&mut reply, Protocol::Resp2);
        let command = command.expect("it is well formed");
        proposer
            .keyspace
            .read(db(0), &command, &mut proposer.local, &mut out);
        let pieces: Vec<Bytes> = reply.freeze().pieces().collect();
        assert_eq!(pieces.len(), 3, "{line}");
        assert_eq!(pieces[1].as_ptr(), shared.as_ptr(), "{line}");
        assert_eq!(pieces[1].len(), shared.len(), "{line}");
        // Whoever copies it tells the same.
        let mut copied = Vec::new();
        let mut out = Writer::new(&mut copied, Protocol::Resp2);
        proposer
            .keyspace
            .read(db(0), &command, &mut proposer.local, &mut out);
        assert!(pieces.concat() == copied, "{line}");
    }
    drop(value);
    let mut reply = Rope::default();
    let mut out = Writer::sharing(&mut reply, Protocol::Resp2);
    let key = command::Command::Get { key: b"key" };
    proposer.keyspace.read(db(0), &key, &mut proposer.local, &mut out);
    drop((proposer, both(&frame, &spans)));
    assert!(!frame.is_unique(), "the reply has it");
    reply.advance(reply.len());
    assert!(frame.is_unique(), "it was sent");
}

const TXN: TxnId = TxnId {
    boot: Boot(1),
    worker: 0,
    seq: 1,
    attempt: 0,
};

/// A transaction's part that puts an object and deletes a key.
fn part(object: keyspace::Object) -> Operation<'static> {
    let (db, key) = (db(0), b"other".as_slice().into());
    Operation::Prepare(Box::new(Prepare {
        txn: TXN,
        began: UnixMillis(1_000),
        participants: [Participant::first(GroupId::new(0))].into(),
        conditions: Vec::new(),
        expects: Vec::new(),
        work: Work::Install {
            effects: vec![Effect::Put { db, object }, Effect::Delete { db, key }],
            after_lock: false,
            result: None,
        },
    }))
}

/// The entry of these operations, and of the decision that they are committed.
fn install(operations: &Operations, long: Bytes) -> [(Vec<u8>, Bytes); 2] {
    let mut prepared = EntryBuf::new(&header(1_000, 0));
    prepared.begin_batch(gateway(1, 0), 1, 0);
    prepared.append_long(operations.bytes(), long);
    let mut resolved = EntryBuf::new(&header(1_000, 0));
    resolved.begin_batch(gateway(1, 0), 2, 0);
    let mut decision = Operations::new();
    decision.push(&Operation::Resolve(Resolve {
        decisions: vec![(TXN, true)],
    }));
    resolved.append(decision.bytes());
    [prepared, resolved].map(EntryBuf::finish_runs)
}

fn apply(node: &mut Node, first: &[u8], second: &Bytes) {
    let entry = Entry::decode_kept(first, second).expect("it was just encoded");
    let applied = node.keyspace.apply(&entry, &mut node.local, |_| {});
    applied.expect("the rules are known");
}

#[test]
fn a_transaction_takes_it_to_another_place_without_a_copy() {
    let (frame, spans) = frame(&long());
    let [from, _] = both(&frame, &spans);
    let value = frame.slice_ref(Args::new(&frame, &spans).arg(2));
    let fetch = || {
        let seen = from.keyspace.share_seen(db(0), b"key", &from.local);
        let pieces: Vec<Bytes> = seen.pieces().collect();
        assert_eq!(pieces[1].as_ptr(), value.as_ptr(), "it is shared");
        // Of what comes from another node it is one piece.
        let received = keyspace::read_seen(&seen.to_bytes().into()).expect("it was just written");
        let (object, _) = keyspace::read_seen(&seen).expect("it was just written");
        let object = object.expect("the key is there");
        let received = received.0.expect("the key is there");
        assert!(
            matches!((received.value(), object.value()), (Value::Bytes(one), Value::Bytes(other)) if one == other)
        );
        object
    };
    let mut operations = Operations::new();
    let behind = operations.push_long(&part(fetch())).expect("it is long");
    assert_eq!(behind.as_ptr(), value.as_ptr(), "it is shared");
    assert_eq!(Operations::check(Runs::new(operations.bytes(), &behind)), Ok(1));
    let whole = [operations.bytes(), &behind].concat();
    assert_eq!(Operations::check(&whole[..]), Ok(1), "also in one run");
    for cut in [0, 1, behind.len() - 1] {
        let runs = Runs::new(operations.bytes(), &behind[..cut]);
        assert_eq!(Operations::check(runs), Err(EntryError::Short), "{cut}");
    }
    let mut copied = Operations::new();
    copied.push(&part(fetch()));
    let mut plain = Node::new(1);
    for (first, second) in install(&copied, Bytes::new()) {
        plain.apply_entry(&[&first[..], &second].concat());
    }
    let [mut leader, mut follower] = [Node::new(1), Node::new(1)];
    for (first, second) in install(&operations, behind) {
        apply(&mut leader, &first, &second);
        apply(&mut follower, &[], &[&first[..], &second].concat().into());
    }
    let length = plain.run("STRLEN key");
    for node in [&mut leader, &mut follower] {
        assert_eq!(node.run("STRLEN key"), length);
        assert_eq!(node.keyspace.state_hash(), plain.keyspace.state_hash());
    }
    drop((from, frame));
    let seen = leader.keyspace.share_seen(db(0), b"key", &leader.local);
    let pieces: Vec<Bytes> = seen.pieces().collect();
    assert_eq!(pieces[1].as_ptr(), value.as_ptr(), "the leader shares it");
}

#[test]
fn a_part_has_one_long_value_at_most_behind_it() {
    let (frame, spans) = frame(&long());
    let [from, _] = both(&frame, &spans);
    let object = || from.keyspace.copy_object(db(0), b"key");
    let mut operations = Operations::new();
    let behind = operations.push_long(&part(object().expect("the key is there")));
    let behind = behind.expect("it is long");
    // As if the second effect were another one.
    let at = operations.bytes().windows(5).position(|bytes| bytes == b"other");
    let mut bytes = operations.bytes().to_vec();
    bytes[at.expect("it names the key") - 5] = 3;
    let checked = Operations::check(Runs::new(&bytes, &behind));
    assert!(checked.is_err());
    // A plain installation has none.
    let mut short = Operations::new();
    assert_eq!(
        short.push_long(&Operation::Evict {
            db: db(0),
            key: b"key"
        }),
        None
    );
    assert_eq!(Operations::check(short.bytes()), Ok(1));
}

#[test]
fn it_is_not_copied_and_goes_when_nobody_holds_it() {
    let (frame, spans) = frame(&long());
    let [mut proposer, mut other] = both(&frame, &spans);
    assert!(!frame.is_unique(), "the proposer keeps it");
    assert!(proposer.keyspace.memory() > KEPT_BYTES_MIN);
    assert_eq!(proposer.keyspace.memory(), other.keyspace.memory());
    for line in ["COPY key copy", "RENAME key renamed", "DEL copy"] {
        proposer.run(line);
        assert!(!frame.is_unique(), "{line}");
    }
    assert_eq!(
        proposer.run("GETSET renamed 1").len(),
        other.run("GETSET key 1").len()
    );
    assert!(frame.is_unique(), "nobody keeps it");
    assert!(other.keyspace.memory() < KEPT_BYTES_MIN);
}

#[test]
fn a_short_string_is_not_kept() {
    let (frame, spans) = frame(b"short");
    let nodes = both(&frame, &spans);
    assert!(frame.is_unique());
    drop(nodes);
}

#[test]
fn words_outside_of_the_frame_are_refused() {
    let (frame, spans) = frame(b"value");
    let mut operations = Operations::new();
    let elsewhere = Bytes::from_static(b"elsewhere");
    assert!(!operations.push_framed(db(0), Protocol::Resp2, Args::new(&frame, &spans), &elsewhere));
    assert!(operations.is_empty());
    assert!(operations.push_framed(db(0), Protocol::Resp2, Args::new(&frame, &spans), &frame));
    for length in 0..frame.len() {
        let cut = Runs::new(operations.bytes(), &frame[..length]);
        assert_eq!(Operations::check(cut), Err(EntryError::Short), "{length}");
    }
    let mut bytes = operations.into_bytes();
    let last_span = bytes.len() - 4 - 8;
    bytes[last_span] = 0xff;
    assert_eq!(
        Operations::check(Runs::new(&bytes, &frame)),
        Err(EntryError::Short)
    );
}

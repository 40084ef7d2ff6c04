//! What entries say of values that are kept as fragments, and what their leader looks at before it proposes one.

use crate::coded::{
    Group, demote, found, full_key, group_code, is_settled, version, with_a_coded_value, words,
};
use crate::node::{Node, db, gateway, header};
use coding::CodeEpoch;
use ids::{Boot, Db, GroupId, Incarnation, PartitionId, Prng, Slot, UnixMillis, Version};
use keyspace::{
    BlockCommand, CodingStep, Entry, EntryBuf, EntryOperation, Given, GroupCode, Hot, KeyVersion, Lock,
    Needed, Operations, OwnRows, Piece, Prepare, Refilled, SnapshotReceiver, Transfer, TransferStep, Work,
};
use resp::{ArgsBuf, Protocol};
use txn::{Participant, Participants, TxnId};

/// A database, a key, its version, and its value.
type Refill = (Db, Box<[u8]>, Version, Vec<u8>);

fn steps() -> Vec<CodingStep<'static>> {
    let mut away = group_code(5, 7);
    away.holders[1] = None;
    away.is_on = false;
    vec![
        CodingStep::Code(group_code(3, 1)),
        CodingStep::Code(away),
        CodingStep::Settle(Version(9)),
        CodingStep::Settle(Version(u64::MAX)),
        CodingStep::Refill {
            db: db(3),
            key: b"k",
            version: Version(5),
            whole: &[7; 300],
        },
        CodingStep::Refill {
            db: db(0),
            key: b"",
            version: Version(0),
            whole: b"",
        },
        CodingStep::Release(Vec::new()),
        CodingStep::Release(vec![(db(0), b"a"), (db(15), b"")]),
    ]
}

/// An entry of a leader's own operations.
fn own(operations: &[EntryOperation<'_>]) -> Vec<u8> {
    let mut entry = EntryBuf::new(&header(1_000, 1));
    entry.begin_own_batch();
    operations.iter().for_each(|operation| entry.push(operation));
    entry.finish()
}

fn own_step(step: CodingStep<'_>) -> Vec<u8> {
    own(&[EntryOperation::Coding(step)])
}

fn steps_of(entry: &Entry<'_>) -> Vec<Vec<u8>> {
    let operations = entry.batches().iter().flat_map(|batch| batch.operations());
    let steps = operations.map(|operation| {
        let mut one = Operations::new();
        one.push(&operation);
        one.into_bytes()
    });
    steps.collect()
}

#[test]
fn steps_are_read_as_they_were_written() {
    for step in steps() {
        let bytes = own_step(step.clone());
        let entry = Entry::decode(&bytes).expect("it was just written");
        let [batch] = entry.batches() else {
            panic!("it has one")
        };
        let read: Vec<_> = batch.operations().collect();
        let [EntryOperation::Coding(read)] = &read[..] else {
            panic!("it has another one")
        };
        assert_eq!(*read, step);
    }
    let all: Vec<_> = steps().into_iter().map(EntryOperation::Coding).collect();
    let bytes = own(&all);
    let entry = Entry::decode(&bytes).expect("it was just written");
    assert_eq!(steps_of(&entry).len(), all.len());
}

#[test]
fn bytes_that_are_like_steps_are_steps_or_an_error_and_can_be_applied() {
    let of_steps = |steps: Vec<CodingStep<'static>>| {
        let all: Vec<_> = steps.into_iter().map(EntryOperation::Coding).collect();
        own(&all)
    };
    let bytes = of_steps(steps());
    for end in 0..bytes.len() {
        if let Ok(entry) = Entry::decode(&bytes[..end]) {
            assert!(steps_of(&entry).is_empty(), "a batch is read as a whole");
        }
    }
    let mut prng = Prng::new(3);
    let mut read = 0;
    for _ in 0..20_000 {
        let mut bytes = match prng.below(2) {
            0 => bytes.clone(),
            _ => of_steps(vec![steps().swap_remove(prng.below(8) as usize)]),
        };
        for _ in 0..=prng.below(3) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] = match prng.below(3) {
                0 => prng.next_u64() as u8,
                1 => prng.below(8) as u8,
                _ => 0xff,
            };
        }
        let Ok(entry) = Entry::decode(&bytes) else {
            continue;
        };
        // What was read has one form.
        for step in steps_of(&entry) {
            let mut again = Vec::new();
            let is_read = Operations::read(&step, |operation| {
                let mut one = Operations::new();
                one.push(&operation);
                again = one.into_bytes();
            });
            assert!(is_read.is_some() && again == step);
        }
        read += 1;
        if read % 4 == 0 {
            let (mut group, _) = with_a_coded_value();
            let node = &mut group.nodes[0];
            // It may follow rules that are not known.
            let _ = node.keyspace.apply(&entry, &mut node.local, |_| {});
            node.keyspace.state_hash();
            demote(node, 10);
        }
    }
    assert!(read > 1_000, "{read}");
}

#[test]
fn an_entry_does_what_its_steps_say() {
    let mut node = Node::new(1);
    let value = vec![b'v'; 500];
    node.apply_entry(&own_step(CodingStep::Code(group_code(3, 1))));
    assert_eq!(node.keyspace.code(), Some(&group_code(3, 1)));
    node.keyspace.hold_as(Incarnation(1));
    node.apply(db(0), Protocol::Resp2, words([b"SET", b"k", &value]).as_args());
    let applied = node.keyspace.applied();
    node.apply_entry(&own_step(CodingStep::Settle(applied)));
    assert_eq!(node.keyspace.settled_up_to(), Some(applied));
    assert_eq!(demote(&mut node, 10).values, 1);
    let refill = |whole| CodingStep::Refill {
        db: db(0),
        key: b"k",
        version: applied,
        whole,
    };
    let other = vec![b'w'; 500];
    node.apply_entry(&own_step(refill(&other)));
    assert!(
        std::mem::take(&mut node.local.met_other_value),
        "this replica has another value"
    );
    assert!(node.keyspace.is_coded(db(0), b"k"));
    let gets = words([b"GETRANGE", b"k", b"0", b"1"]);
    let entry = own(&[
        EntryOperation::Coding(refill(&value)),
        EntryOperation::Command {
            db: db(0),
            protocol: Protocol::Resp2,
            args: gets.as_args(),
        },
    ]);
    let (_, replies) = node.apply_entry(&entry);
    assert!(!node.local.met_other_value);
    assert_eq!(replies.last().map(Vec::as_slice), Some(&b"$2\r\nvv\r\n"[..]));
}

#[test]
fn a_client_cannot_bring_steps_in_pieces() {
    let mut node = Node::new(1);
    let mut long = Operations::new();
    long.push(&EntryOperation::Coding(CodingStep::Code(group_code(3, 1))));
    let bytes = long.into_bytes();
    let mut entry = EntryBuf::new(&header(1_000, 1));
    entry.begin_batch(gateway(1, 0), 1, 0);
    entry.push(&EntryOperation::Stage(Piece {
        number: 1,
        whole_bytes: bytes.len() as u64,
        offset: 0,
        bytes: &bytes,
    }));
    entry.push(&EntryOperation::Staged { number: 1 });
    node.apply_entry(&entry.finish());
    assert_eq!(node.keyspace.code(), None);
}

/// All replicas set the same code.
fn set_code(group: &mut Group, change: impl FnOnce(&mut GroupCode)) {
    let mut code = group.nodes[0].keyspace.code().expect("there is one").clone();
    code.epoch = CodeEpoch(code.epoch.0 + 1);
    change(&mut code);
    for node in &mut group.nodes {
        assert!(node.keyspace.set_code(code.clone()));
    }
}

fn refill(group: &mut Group, key: &[u8], value: &[u8]) {
    for node in &mut group.nodes {
        let version = version(&node.keyspace, db(0), key);
        assert_eq!(
            node.keyspace.refill(db(0), key, version, value),
            Ok(Refilled::Held)
        );
    }
}

#[test]
fn a_group_that_ends_keeping_fragments_settles_nothing_and_what_is_refilled_stays_whole() {
    let (mut group, value) = with_a_coded_value();
    let later = vec![b'l'; 400];
    group.run(db(0), &words([b"SET", b"settled", &later]));
    group.settle_all();
    group.run(db(0), &words([b"SET", b"later", &later]));
    set_code(&mut group, |code| code.is_on = false);
    let before = group.nodes[0].keyspace.settled_up_to();
    let applied = group.nodes[0].keyspace.applied();
    assert!(!group.settle(applied));
    assert_eq!(group.nodes[0].keyspace.settled_up_to(), before);
    for node in &mut group.nodes {
        assert_eq!(demote(node, 100).values, 0, "nothing more is demoted");
        assert!(!node.keyspace.demote_key(db(0), b"settled"));
    }
    refill(&mut group, b"k", &value);
    assert!(!group.settle(Version(u64::MAX)));
    for node in &mut group.nodes {
        assert!(!node.keyspace.is_coded(db(0), b"k"));
        let [settled, held] = found(&node.keyspace);
        assert_eq!(settled, [full_key(db(0), b"settled")]);
        assert_eq!(held, [full_key(db(0), b"k")], "nobody is to let go of it");
    }
    refill(&mut group, b"settled", &later);
    assert!(found(&group.nodes[0].keyspace)[0].is_empty(), "all is whole");
    group.check();
    // It is whole even where the group goes on, until it is let go of.
    set_code(&mut group, |code| code.is_on = true);
    group.settle_all();
    for node in &mut group.nodes {
        assert_eq!(demote(node, 100).values, 1, "the one that was not refilled");
        assert!(!is_settled(&node.keyspace, db(0), b"k"));
        node.keyspace.release(&[(db(0), b"k"), (db(0), b"settled")]);
        assert_eq!(demote(node, 100).values, 0, "not before the next settling");
    }
    group.settle_all();
    for node in &mut group.nodes {
        assert_eq!(demote(node, 100).values, 2);
    }
    group.check();
}

#[test]
fn nothing_is_released_that_is_not_held() {
    let (mut group, _) = with_a_coded_value();
    let value = vec![b'v'; 300];
    group.run(db(0), &words([b"SET", b"new", &value]));
    let before: Vec<u64> = hashes(&group);
    for node in &mut group.nodes {
        let applied = node.keyspace.applied();
        node.keyspace
            .release(&[(db(0), b"k"), (db(0), b"new"), (db(0), b"none"), (db(3), b"k")]);
        assert_eq!(node.keyspace.applied().0, applied.0 + 1, "it is an operation");
    }
    assert_ne!(hashes(&group), before, "which is counted");
    for node in &group.nodes {
        assert!(is_settled(&node.keyspace, db(0), b"k"));
        assert!(!is_settled(&node.keyspace, db(0), b"new"));
        assert!(found(&node.keyspace)[1].is_empty());
    }
    // A group without a code holds nothing.
    let mut node = Node::new(1);
    node.run("SET k v");
    node.keyspace.release(&[(db(0), b"k")]);
    assert_eq!(found(&node.keyspace), [Vec::new(), Vec::new()]);
    group.check();
}

fn hashes(group: &Group) -> Vec<u64> {
    group
        .nodes
        .iter()
        .map(|node| node.keyspace.state_hash())
        .collect()
}

#[test]
pub(crate) fn a_fragment_is_given_of_the_version_that_was_asked_for_and_of_no_other() {
    let (mut group, _) = with_a_coded_value();
    let old = version(&group.nodes[0].keyspace, db(0), b"k");
    let lagging = group.nodes[2].keyspace.applied();
    for node in &mut group.nodes[..2] {
        let value = vec![b'n'; 700];
        node.apply(db(0), Protocol::Resp2, words([b"SET", b"k", &value]).as_args());
    }
    let [first, second, third] = &group.nodes[..] else {
        panic!("there are three")
    };
    let new = version(&first.keyspace, db(0), b"k");
    for node in [first, second] {
        assert_eq!(node.keyspace.fragment(db(0), b"k", old), Given::Newer);
        assert_eq!(node.keyspace.fragment(db(0), b"gone", old), Given::Newer);
        assert!(matches!(
            node.keyspace.fragment(db(0), b"k", new),
            Given::Fragment(_)
        ));
    }
    assert!(third.keyspace.applied() == lagging && lagging < new);
    assert_eq!(third.keyspace.fragment(db(0), b"k", new), Given::Older);
    assert!(matches!(
        third.keyspace.fragment(db(0), b"k", old),
        Given::Fragment(_)
    ));
}

#[test]
fn who_has_no_row_gives_what_it_has_and_makes_none() {
    let (mut group, value) = with_a_coded_value();
    let one = version(&group.nodes[0].keyspace, db(0), b"k");
    for node in &mut group.nodes[..2] {
        node.keyspace.hold_as(Incarnation(77));
    }
    let keyspace = &mut group.nodes[0].keyspace;
    assert!(
        matches!(keyspace.fragment(db(0), b"k", one), Given::Fragment(_)),
        "it has one"
    );
    assert!(!keyspace.recode(db(0), b"k", one, &value));
    assert!(keyspace.make_whole(db(0), b"k", one, &value));
    assert!(!keyspace.make_whole(db(0), b"k", one, &value), "it is whole");
    assert_eq!(keyspace.fragment(db(0), b"k", one), Given::Nothing);
    let demoted = demote(&mut group.nodes[0], 100);
    assert_eq!((demoted.values, demoted.is_done), (0, true));
    group.check_hashes();
}

#[test]
fn a_value_that_was_made_whole_is_settled_and_is_demoted_again() {
    let (mut group, value) = with_a_coded_value();
    let before = hashes(&group);
    let node = &mut group.nodes[0];
    let one = version(&node.keyspace, db(0), b"k");
    assert!(!node.keyspace.make_whole(db(0), b"k", Version(one.0 - 1), &value));
    assert!(node.keyspace.make_whole(db(0), b"k", one, &value));
    assert!(is_settled(&node.keyspace, db(0), b"k"));
    assert_eq!(node.read("GET k").1, keyspace::Read::Answered);
    assert_eq!(
        node.keyspace.whole_part(db(0), b"k"),
        Some((one, value.clone().into()))
    );
    assert_eq!(hashes(&group), before);
    assert_eq!(demote(&mut group.nodes[0], 100).values, 1);
    group.check();
}

#[test]
fn what_is_copied_for_others_is_no_fragment() {
    let (mut group, _) = with_a_coded_value();
    let (coded, whole) = (&group.nodes[0].keyspace, &group.nodes[1].keyspace);
    assert!(coded.copy_small(db(0), b"k", 100_000).is_none());
    let (object, of) = whole
        .copy_small(db(0), b"k", 100_000)
        .expect("it is here, and short enough");
    assert!(object.is_some());
    assert_eq!(of, coded.version(db(0), b"k"));
    assert!(matches!(of, KeyVersion::Present(_)));
    let (absent, _) = coded.copy_small(db(0), b"none", 100_000).expect("there is none");
    assert!(absent.is_none());
    let mut seen = Vec::new();
    assert!(coded.find_coded(None, None, 10, &mut seen).is_none());
    assert_eq!(seen, [full_key(db(0), b"k")]);
    group.check();
}

#[test]
fn fragments_are_found_in_every_database_and_of_one_partition_alone() {
    let mut group = Group::new(3, 4);
    let value = vec![b'v'; 200];
    let keys: Vec<Vec<u8>> = (0..60)
        .map(|number| format!("key:{number}").into_bytes())
        .collect();
    for (number, key) in keys.iter().enumerate() {
        let db = db(if number % 3 == 0 { 5 } else { 0 });
        group.run(db, &words([b"SET", key, &value]));
        group.run(db, &words([b"SET", format!("short:{number}").as_bytes(), b"v"]));
    }
    group.settle_all();
    group.demote_all();
    let keyspace = &group.nodes[0].keyspace;
    let all = |only: Option<PartitionId>, budget| {
        let (mut seen, mut at, mut steps) = (Vec::new(), None, 0);
        loop {
            at = keyspace.find_coded(only, at, budget, &mut seen);
            steps += 1;
            if at.is_none() {
                seen.sort();
                return (seen, steps);
            }
        }
    };
    let (seen, steps) = all(None, 7);
    assert!(steps > 10, "at most a few at each call");
    assert_eq!(seen.len(), keys.len());
    let mut parts = Vec::new();
    for partition in 0..crate::node::PARTITION_COUNT {
        let partition = PartitionId::new(partition);
        for budget in [1, 4, 1_000] {
            let (found, _) = all(Some(partition), budget);
            let is_its = |key: &[u8]| {
                let slot = Slot::of_key(key);
                crate::node::PARTITIONS.cluster_count().partition_of(slot) == partition
            };
            assert!(found.iter().all(|(_, key)| is_its(key)));
            assert_eq!(
                found.len(),
                keys.iter().filter(|key| is_its(key)).count(),
                "budget {budget}"
            );
            if budget == 4 {
                parts.extend(found);
            }
        }
    }
    parts.sort();
    assert_eq!(parts, seen, "each is of one partition");
}

/// The state of a replica, as another one gets it.
fn sent(node: &mut Node, bytes: usize) -> keyspace::Keyspace {
    sent_by(node, bytes, |chunk| chunk)
}

fn sent_by(
    node: &mut Node,
    bytes: usize,
    mut on_the_way: impl FnMut(Vec<u8>) -> Vec<u8>,
) -> keyspace::Keyspace {
    let mut transfer = Transfer::begin(&mut node.keyspace).expect("it is the first");
    let mut receiver = SnapshotReceiver::new();
    loop {
        match transfer.next_chunk(&mut node.keyspace, bytes) {
            TransferStep::More(chunk) => _ = receiver.take(&on_the_way(chunk)).expect("it is the next"),
            TransferStep::Last(chunk) => {
                receiver.take(&on_the_way(chunk)).expect("it is the last");
                return receiver.finish().expect("it is complete");
            }
            TransferStep::Lost => panic!("nothing changes"),
        }
    }
}

/// Of values that it had a row of: as they are, under another name, with another deadline, in another database, in pieces, and as a whole.
#[test]
pub(crate) fn a_replica_that_is_sent_the_state_of_another_one_keeps_its_own_rows() {
    for bytes in [100, 30_000, 1_000_000] {
        let (mut group, value) = with_a_coded_value();
        let long = vec![b'l'; 300_000];
        let keys = [&b"renamed"[..], b"mortal", b"moved", b"whole", b"long"];
        for (at, key) in keys.into_iter().enumerate() {
            let mut value = if key == b"long" {
                long.clone()
            } else {
                value.clone()
            };
            value[0] = at as u8;
            group.run(db(0), &words([b"SET", key, &value]));
        }
        group.settle_all();
        for at in [0, 2] {
            while !demote(&mut group.nodes[at], 100).is_done {}
        }
        let row = |node: &Node, db, key: &[u8]| node.keyspace.coded_part(db, key).map(|part| part.head.row);
        let own = row(&group.nodes[2], db(0), b"long").expect("it is demoted");
        let mut former = group.nodes.remove(2);
        let mut used = value.clone();
        used[0] = 3;
        let at = version(&former.keyspace, db(0), b"whole");
        assert!(former.keyspace.make_whole(db(0), b"whole", at, &used));
        // It is away when these are carried out.
        for line in [
            "RENAME renamed name",
            "EXPIRE mortal 1000",
            "MOVE moved 1",
            "SET fresh 1",
        ] {
            group.line(line);
        }
        let mut own_rows = OwnRows::default();
        let received = sent_by(&mut group.nodes[0], bytes, |chunk| {
            own_rows.put_in(&former.keyspace, &chunk).unwrap_or(chunk)
        });
        assert_eq!(received.state_hash(), group.nodes[0].keyspace.state_hash());
        former.keyspace = received;
        former.keyspace.hold_as(Incarnation(3));
        group.nodes.push(former);
        for (db, key) in [
            (db(0), &b"k"[..]),
            (db(0), b"name"),
            (db(0), b"mortal"),
            (db(1), b"moved"),
            (db(0), b"whole"),
            (db(0), b"long"),
        ] {
            let name = String::from_utf8_lossy(key);
            assert_eq!(
                row(&group.nodes[2], db, key),
                Some(own),
                "{name} in pieces of {bytes}"
            );
        }
        let demoted = demote(&mut group.nodes[2], 100);
        assert_eq!((demoted.values, demoted.others.len()), (0, 0), "it has its rows");
        group.check();
    }
}

#[test]
fn a_replica_that_is_sent_fragments_and_held_values_goes_on_alike() {
    for bytes in [100, 1_000_000] {
        let (mut group, value) = with_a_coded_value();
        let long = vec![b'l'; 200_000];
        for key in [&b"held"[..], b"kept", b"settled", b"long"] {
            let value = if key == b"long" { &long } else { &value };
            group.run(db(0), &words([b"SET", key, value]));
        }
        group.settle_all();
        group.line("EXPIRE settled 100");
        set_code(&mut group, |code| code.is_on = false);
        refill(&mut group, b"kept", &value);
        set_code(&mut group, |code| code.is_on = true);
        refill(&mut group, b"held", &value);
        group.run(db(0), &words([b"SET", b"new", &value]));
        let node = &mut group.nodes[0];
        while !demote(node, 100).is_done {}
        assert!(node.keyspace.is_coded(db(0), b"long"));
        let received = sent(node, bytes);
        assert_eq!(received.state_hash(), node.keyspace.state_hash());
        let [settled, held] = found(&received);
        assert_eq!([settled, held], found(&node.keyspace));
        assert_eq!(found(&received)[1], [full_key(db(0), b"kept")]);
        // In the place of the third: it has the rows of the first, and makes its own.
        group.nodes[2].keyspace = received;
        group.nodes[2].keyspace.hold_as(Incarnation(3));
        let demoted = demote(&mut group.nodes[2], 100);
        assert_eq!((demoted.values, demoted.others.len()), (0, 3));
        for (db, key) in demoted.others {
            let value = if *key == *b"long" { &long } else { &value };
            let keyspace = &mut group.nodes[2].keyspace;
            let version = keyspace.version_of(db, &key).expect("it is there");
            assert!(keyspace.recode(db, &key, version, value));
        }
        group.check();
        group.settle_all();
        group.demote_all();
        for node in &group.nodes {
            assert_eq!(
                found(&node.keyspace)[0].len(),
                5,
                "held ones are let go everywhere"
            );
            assert_eq!(found(&node.keyspace)[1].len(), 1);
        }
        let released = [(db(0), &b"kept"[..])];
        group
            .nodes
            .iter_mut()
            .for_each(|node| node.keyspace.release(&released));
        group.settle_all();
        assert!(is_settled(&group.nodes[2].keyspace, db(0), b"kept"));
        group.check_hashes();
    }
}

/// What the leader finds of operations of a batch. Everything that was applied is settled with what is on its way.
struct Look {
    needed: Needed,
    refill: Vec<String>,
}

fn look_at(node: &mut Node, operations: &Operations, up_to: Version) -> Look {
    let mut needed = Needed::default();
    node.local.to_gather.clear();
    let (keyspace, local) = (&node.keyspace, &mut node.local);
    keyspace.look_at_operations(operations.bytes(), gateway(1, 0), up_to, local, &mut needed);
    keyspace.complete_needed(up_to, &mut needed);
    let mut refill: Vec<String> = needed
        .refill
        .iter()
        .map(|(db, key)| format!("{}:{}", db.number(), String::from_utf8_lossy(key)))
        .collect();
    refill.sort();
    refill.dedup();
    Look { needed, refill }
}

fn commands(lines: &[&str]) -> Operations {
    let mut operations = Operations::new();
    for line in lines {
        let args = ArgsBuf::from_slices(line.split_ascii_whitespace());
        operations.push(&EntryOperation::Command {
            db: db(0),
            protocol: Protocol::Resp2,
            args: args.as_args(),
        });
    }
    operations
}

/// Carries out what was looked at, behind what it is said to need.
fn run_behind_refills(group: &mut Group, look: &Look, operations: &Operations) -> Vec<Vec<u8>> {
    let refills: Vec<Refill> = look
        .needed
        .refill
        .iter()
        .map(|(db, key)| {
            let version = version(&group.nodes[0].keyspace, *db, key);
            (*db, key.clone(), version, group.gather(*db, key))
        })
        .collect();
    let mut entry = EntryBuf::new(&header(1_000, 1));
    entry.begin_own_batch();
    for (db, key, version, whole) in &refills {
        entry.push(&EntryOperation::Coding(CodingStep::Refill {
            db: *db,
            key,
            version: *version,
            whole,
        }));
    }
    entry.begin_own_batch();
    entry.append(operations.bytes());
    let bytes = entry.finish();
    let mut all = Vec::new();
    for node in &mut group.nodes {
        let (_, replies) = node.apply_entry(&bytes);
        assert!(!node.local.met_other_value);
        all.push(replies[refills.len()..].to_vec());
    }
    assert!(all.iter().all(|replies| *replies == all[0]));
    group.check_hashes();
    all.remove(0)
}

/// Values under `k` and `other` that are settled, and of which two replicas have fragments; a short one under `short`.
fn settled_group() -> Group {
    let mut group = Group::new(3, 11);
    for key in [&b"k"[..], b"other"] {
        group.run(db(0), &words([b"SET", key, &vec![b'v'; 1_000]]));
    }
    group.line("SET short v");
    group.settle_all();
    for node in &mut group.nodes[..2] {
        assert_eq!(demote(node, 100).values, 2);
    }
    group
}

#[test]
fn what_a_batch_needs_is_found_before_it_is_proposed_and_then_it_is_carried_out() {
    let cases: [(&[&str], &[&str], &[&str]); 22] = [
        (&["APPEND k more"], &["0:k"], &[":1004\r\n"]),
        (
            &["SETRANGE k 5 x", "GETSET other new"],
            &["0:k", "0:other"],
            &[":1000\r\n", ""],
        ),
        (&["SETRANGE k 5"], &[], &[""]),
        (&["APPEND short v", "APPEND none v"], &[], &[":2\r\n", ":1\r\n"]),
        (&["SET k new"], &[], &["+OK\r\n"]),
        (&["SET k new XX", "DEL other"], &[], &["+OK\r\n", ":1\r\n"]),
        (&["GETDEL k"], &["0:k"], &[""]),
        (&["RENAME k name"], &[], &["+OK\r\n"]),
        // The one by which it is asked for is not there yet.
        (
            &["RENAME k name", "APPEND name more"],
            &["0:k"],
            &["+OK\r\n", ":1004\r\n"],
        ),
        (
            &["COPY k name", "APPEND name more"],
            &["0:k"],
            &[":1\r\n", ":1004\r\n"],
        ),
        (
            &["COPY k name", "APPEND k more"],
            &["0:k"],
            &[":1\r\n", ":1004\r\n"],
        ),
        (
            &["RENAME k a", "RENAME a b", "SETBIT b 0 1"],
            &["0:k"],
            &["+OK\r\n", "+OK\r\n", ":0\r\n"],
        ),
        (
            &["EXPIRE k 100", "APPEND k more"],
            &["0:k"],
            &[":1\r\n", ":1004\r\n"],
        ),
        (
            &["EXPIRE k 100", "PERSIST k", "STRLEN k"],
            &[],
            &[":1\r\n", ":1\r\n", ":1000\r\n"],
        ),
        (
            &["APPEND k more", "APPEND k more"],
            &["0:k"],
            &[":1004\r\n", ":1008\r\n"],
        ),
        (&["SET k v", "APPEND k more"], &["0:k"], &["+OK\r\n", ":5\r\n"]),
        (&["MSET k 1 other 2"], &[], &["+OK\r\n"]),
        (&["BITOP OR to k other"], &["0:k", "0:other"], &[":1000\r\n"]),
        (&["PFADD k a"], &["0:k"], &[""]),
        (&["INCR k"], &["0:k"], &[""]),
        (&["MOVE k 1"], &[], &[":1\r\n"]),
        (&["SORT none GET k STORE to"], &[], &[":0\r\n"]),
    ];
    for (lines, refill, replies) in cases {
        let mut group = settled_group();
        let operations = commands(lines);
        let mut looks: Vec<Look> = group
            .nodes
            .iter_mut()
            .map(|node| look_at(node, &operations, Version(0)))
            .collect();
        assert!(
            looks.iter().all(|look| look.refill == refill),
            "{lines:?}: {:?}",
            looks[0].refill
        );
        let found = run_behind_refills(&mut group, &looks.remove(0), &operations);
        for (found, expected) in found.iter().zip(replies) {
            let found = String::from_utf8_lossy(found).into_owned();
            assert!(!found.contains("TRYAGAIN"), "{lines:?}: {found}");
            assert!(expected.is_empty() || found == *expected, "{lines:?}: {found}");
        }
    }
}

#[test]
fn what_is_on_its_way_to_be_settled_counts_as_settled() {
    let mut group = settled_group();
    let value = vec![b'v'; 300];
    group.run(db(0), &words([b"SET", b"new", &value]));
    let applied = group.nodes[0].keyspace.applied();
    let operations = commands(&["APPEND new more"]);
    for node in &mut group.nodes {
        assert!(look_at(node, &operations, Version(0)).refill.is_empty());
        assert_eq!(look_at(node, &operations, applied).refill, ["0:new"]);
        assert!(
            look_at(node, &operations, Version(applied.0 - 1))
                .refill
                .is_empty()
        );
    }
    // What is held is let go of by that, too.
    group.line("GETRANGE k 0 1");
    let operations = commands(&["APPEND k more"]);
    for node in &mut group.nodes {
        assert!(look_at(node, &operations, Version(0)).refill.is_empty());
        assert_eq!(look_at(node, &operations, applied).refill, ["0:k"]);
    }
}

fn participants() -> Participants {
    [
        Participant::first(GroupId::new(0)),
        Participant::first(GroupId::new(1)),
    ]
    .into()
}

const TXN: TxnId = TxnId {
    boot: Boot(3),
    worker: 0,
    seq: 1,
    attempt: 1,
};

#[test]
fn blocks_transactions_and_what_comes_in_pieces_are_looked_into() {
    let mut group = settled_group();
    let lines = ["APPEND k more", "GET other", "SET short w"].map(|line| {
        let args = ArgsBuf::from_slices(line.split(' '));
        (args, line)
    });
    let commands = || -> Vec<BlockCommand<'_>> {
        let commands = lines.iter().map(|(args, _)| BlockCommand {
            db: db(0),
            protocol: Protocol::Resp2,
            args: args.as_args(),
        });
        commands.collect()
    };
    let prepare = |work| {
        EntryOperation::Prepare(Box::new(Prepare {
            txn: TXN,
            began: UnixMillis(1),
            participants: participants(),
            conditions: Vec::new(),
            expects: Vec::new(),
            work,
        }))
    };
    let in_place = commands().into_iter().map(keyspace::InPlaceStep::Run).collect();
    let operations = [
        EntryOperation::Block {
            conditions: Vec::new(),
            commands: commands(),
        },
        prepare(Work::Evaluate {
            commands: commands(),
            is_strict: false,
        }),
        prepare(Work::InPlace {
            steps: in_place,
            after_lock: false,
        }),
        EntryOperation::Lock(Box::new(Lock {
            txn: TXN,
            began: UnixMillis(1),
            participants: participants(),
            keys: vec![
                (db(0), b"k".as_slice(), true),
                (db(0), b"other".as_slice(), false),
                (db(0), b"short".as_slice(), false),
            ],
            is_whole: false,
        })),
    ];
    for (at, operation) in operations.iter().enumerate() {
        let mut one = Operations::new();
        one.push(operation);
        let node = &mut group.nodes[0];
        assert_eq!(look_at(node, &one, Version(0)).refill, ["0:k", "0:other"], "{at}");
        // The same, as what has come in pieces.
        let bytes = one.into_bytes();
        let mut entry = EntryBuf::new(&header(1_000, 1));
        entry.begin_batch(gateway(1, 0), 1, 0);
        entry.push(&EntryOperation::Stage(Piece {
            number: 1,
            whole_bytes: bytes.len() as u64,
            offset: 0,
            bytes: &bytes,
        }));
        let mut node = Node::new(1);
        node.keyspace = sent(&mut group.nodes[0], 1_000_000);
        node.apply_entry(&entry.finish());
        let mut staged = Operations::new();
        staged.push(&EntryOperation::Staged { number: 1 });
        assert_eq!(look_at(&mut node, &staged, Version(0)).refill, ["0:k", "0:other"]);
        let mut other = Operations::new();
        other.push(&EntryOperation::Staged { number: 2 });
        assert!(look_at(&mut node, &other, Version(0)).refill.is_empty());
    }
}

#[test]
fn a_sort_is_looked_at_by_what_its_patterns_find() {
    let mut group = settled_group();
    group.line("RPUSH names k short nothing");
    let operations = commands(&["SORT names BY nosort GET * STORE to"]);
    let node = &mut group.nodes[0];
    let look = look_at(node, &operations, Version(0));
    assert_eq!(look.refill, ["0:k"]);
    let replies = run_behind_refills(&mut group, &look, &operations);
    assert_eq!(replies, [b":3\r\n".to_vec()]);
    // As a read: of who has it as a whole nothing is missing.
    let args = ArgsBuf::from_slices(["SORT", "names", "BY", "nosort", "GET", "*"]);
    let mut group = settled_group();
    group.line("RPUSH names k short nothing");
    for (at, expected) in [(0, vec![full_key(db(0), b"k")]), (2, Vec::new())] {
        let node = &mut group.nodes[at];
        let mut needed = Needed::default();
        node.local.to_gather.clear();
        node.keyspace
            .look_at_read(db(0), args.as_args(), Version(0), &mut node.local, &mut needed);
        assert_eq!(needed.whole, expected);
        assert!(needed.refill.is_empty() && needed.has_need);
    }
}

#[test]
fn a_read_beside_writes_needs_what_is_a_fragment_and_keeps_what_is_whole() {
    let mut group = settled_group();
    let look = |node: &mut Node, line: &str| {
        let args = ArgsBuf::from_slices(line.split(' '));
        let mut needed = Needed::default();
        node.local.to_gather.clear();
        node.keyspace
            .look_at_read(db(0), args.as_args(), Version(0), &mut node.local, &mut needed);
        needed
    };
    let k = [full_key(db(0), b"k")];
    let coded = look(&mut group.nodes[0], "GET k");
    assert_eq!((&coded.whole[..], coded.kept()), (&k[..], &[][..]));
    let whole = look(&mut group.nodes[2], "MGET k short");
    assert_eq!((&whole.whole[..], whole.kept()), (&[][..], &k[..]));
    for line in ["STRLEN k", "EXISTS k", "TTL k", "GET", "nonsense"] {
        let needed = look(&mut group.nodes[0], line);
        assert_eq!(needed, Needed::default(), "{line}");
    }
    // A group without a code is not looked at.
    let mut node = Node::new(1);
    assert_eq!(look(&mut node, "GET k"), Needed::default());
    assert_eq!(
        look_at(&mut node, &commands(&["APPEND k v"]), Version(9)).needed,
        Needed::default()
    );
}

/// Values of 1,000 bytes, of which `used` were read since.
fn a_leader_that_was_read_from(keys: u64, used: u64) -> Group {
    let mut group = Group::new(3, 11);
    for number in 0..keys {
        let key = format!("key:{number}");
        group.run(db(0), &words([b"SET", key.as_bytes(), &vec![b'v'; 1_000]]));
    }
    group.settle_all();
    let node = &mut group.nodes[0];
    let later = UnixMillis(20_000_000);
    node.local.access.set(later, None);
    node.local.now = later;
    for number in 0..used {
        node.read(&format!("GET key:{number}"));
    }
    group
}

#[test]
fn who_leads_keeps_what_is_in_use_as_far_as_there_is_room_and_names_what_may_go() {
    let mut group = a_leader_that_was_read_from(40, 10);
    let node = &mut group.nodes[0];
    let mut hot = Hot::new(100_000);
    let demoted = node
        .keyspace
        .demote(10_000, Version(u64::MAX), &node.local, Some(&mut hot));
    assert_eq!(demoted.values, 0, "it says which may go");
    assert_eq!(demoted.ready.len(), 30);
    for (db, key) in &demoted.ready {
        assert!(!node.keyspace.is_coded(*db, key));
        assert!(node.keyspace.demote_key(*db, key));
        assert!(!node.keyspace.demote_key(*db, key), "it is gone");
    }
    assert!(!node.keyspace.demote_key(db(0), b"none"));
    for number in 0..40 {
        let is_coded = node.keyspace.is_coded(db(0), format!("key:{number}").as_bytes());
        assert_eq!(is_coded, number >= 10, "{number}");
    }
    group.line("SET one v");
    group.settle_all();
    let node = &mut group.nodes[0];
    node.keyspace
        .demote(10_000, Version(u64::MAX), &node.local, Some(&mut hot));
    assert_eq!(hot.kept_by_last_walk(), 10_000, "of the walk before");
    group.check_hashes();
}

#[test]
fn what_is_in_use_does_not_outgrow_its_room() {
    let mut group = a_leader_that_was_read_from(40, 40);
    let node = &mut group.nodes[0];
    let mut hot = Hot::new(15_500);
    let demoted = node
        .keyspace
        .demote(10_000, Version(u64::MAX), &node.local, Some(&mut hot));
    assert_eq!(demoted.ready.len(), 25);
    let mut none = Hot::new(0);
    node.keyspace.hold_as(Incarnation(1));
    let demoted = node
        .keyspace
        .demote(10_000, Version(u64::MAX), &node.local, Some(&mut none));
    assert_eq!(demoted.ready.len(), 40);
}

//! The state is a function of the entries.

use crate::entries::push_random;
use crate::node::{Node, gateway, header};
use ids::{Boot, Prng, SemanticsVersion, UnixMillis};
use keyspace::{Batched, BlockCommand, Entry, EntryBuf, EntryOperation, Fence, KeptResult, RequestStanding};
use resp::Protocol;

/// Applies the operations of batches with this outcome one by one: the path of a group that commits at once.
fn apply_one_by_one(node: &mut Node, bytes: &[u8], outcomes: &[Batched]) -> Vec<Vec<u8>> {
    let entry = Entry::decode(bytes).expect("an entry that was encoded can be decoded");
    node.keyspace.open(&entry.header()).expect("the rules are known");
    let mut replies = Vec::new();
    for (batch, outcome) in entry.batches().iter().zip(outcomes) {
        if *outcome != Batched::Applied {
            continue;
        }
        for operation in batch.operations() {
            let mut reply = Vec::new();
            match operation {
                EntryOperation::Command { db, protocol, args } => reply = node.apply(db, protocol, args),
                EntryOperation::Expire { db, key } => node.keyspace.expire(db, key, &mut node.local),
                EntryOperation::Evict { db, key } => node.keyspace.evict(db, key, &mut node.local),
                EntryOperation::Install { effects } => node.keyspace.install(effects, &mut node.local),
                EntryOperation::Limits { limits } => node.keyspace.set_limits(limits),
                EntryOperation::Fence { fence } => node.keyspace.fence(&fence),
                EntryOperation::Once { request, commands } => {
                    let standing = node.keyspace.standing(&request);
                    reply = vec![standing.unwrap_or(RequestStanding::CarriedOut).code()];
                    if standing.is_none() {
                        let commands = commands.iter();
                        let run = |command: &BlockCommand<'_>| {
                            node.apply(command.db, command.protocol, command.args)
                        };
                        let replies: Vec<Box<[u8]>> = commands.map(run).map(Vec::into_boxed_slice).collect();
                        reply.extend(replies.iter().flatten());
                        node.keyspace.keep(KeptResult { request, replies });
                    } else if standing == Some(RequestStanding::CarriedOut) {
                        reply.extend(node.keyspace.kept_replies(request.id).flatten());
                    }
                }
                EntryOperation::OnePhase { expects, effects } => {
                    if expects.iter().all(|condition| node.keyspace.holds(condition)) {
                        node.keyspace.install(effects, &mut node.local);
                    } else {
                        reply = b"not carried out".to_vec();
                    }
                }
                EntryOperation::Prepare(_)
                | EntryOperation::Lock(_)
                | EntryOperation::Resolve(_)
                | EntryOperation::QueryTxn(_)
                | EntryOperation::Withdraw { .. }
                | EntryOperation::Forget(_)
                | EntryOperation::Received { .. }
                | EntryOperation::Resume(_)
                | EntryOperation::Wait { .. }
                | EntryOperation::EndWait { .. }
                | EntryOperation::EndWaits { .. }
                | EntryOperation::Stage(_)
                | EntryOperation::Staged { .. }
                | EntryOperation::Arrive(_)
                | EntryOperation::Coding(_) => {
                    unreachable!("there is one group without a code, and nothing is long")
                }
                EntryOperation::Block { conditions, commands } => {
                    if conditions.iter().all(|condition| node.keyspace.holds(condition)) {
                        for command in commands {
                            reply.extend(node.apply(command.db, command.protocol, command.args));
                        }
                    } else {
                        reply = b"not carried out".to_vec();
                    }
                }
            }
            replies.push(reply);
        }
    }
    replies
}

fn is_same_reply(one: &[u8], other: &[u8]) -> bool {
    // Addresses differ, nothing else.
    one == other || one.windows(9).any(|part| part == b"Value at:")
}

#[test]
fn replicas_of_the_same_entries_are_equal_and_so_is_one_that_commits_at_once() {
    for seed in 0..12 {
        let mut prng = Prng::new(seed);
        let (mut one, mut two, mut three) = (Node::new(1), Node::new(2), Node::new(1));
        let mut now = 0;
        let mut numbers = [0u64; 3];
        let mut generation = 0;
        for round in 0..120 {
            now += prng.below(300) as i64 - 60;
            let hostile = [i64::MIN, -1, 0][prng.below(3) as usize];
            let mut entry = EntryBuf::new(&header(if prng.below(10) == 0 { hostile } else { now }, round));
            let mut expected = Vec::new();
            for _ in 0..prng.below(4) {
                let worker = prng.below(4) as usize;
                let operations = prng.below(8);
                expected.push(operations);
                match numbers.get_mut(worker) {
                    Some(number) => {
                        *number += 1;
                        // Boots begin at 1, so that each generation has its own.
                        entry.begin_batch(gateway(generation + 1, worker as u16), *number, *number - 1);
                    }
                    None => entry.begin_own_batch(),
                }
                (0..operations).for_each(|_| push_random(&mut entry, &one.keyspace, &mut prng));
            }
            if round % 20 == 19 {
                // Only what came in batches has sessions: they must go before all three can be compared.
                generation += 1;
                numbers = [0; 3];
                entry.begin_own_batch();
                let fence = Fence::new(Boot(generation), []);
                entry.push(&EntryOperation::Fence { fence });
                expected.push(1);
            }
            let bytes = entry.finish();
            for node in [&mut one, &mut two, &mut three] {
                node.local.now = UnixMillis(now);
            }
            let (outcomes, replies) = one.apply_entry(&bytes);
            assert!(outcomes.iter().all(|outcome| *outcome == Batched::Applied));
            assert_eq!(outcomes.len(), expected.len());
            assert_eq!(replies.len() as u64, expected.iter().sum::<u64>());
            two.apply_entry(&bytes);
            let at_once = apply_one_by_one(&mut three, &bytes, &outcomes);
            assert_eq!(replies.len(), at_once.len());
            for (reply, other) in replies.iter().zip(&at_once) {
                assert!(is_same_reply(reply, other), "seed {seed} round {round}");
            }
            assert_eq!(
                one.keyspace.state_hash(),
                two.keyspace.state_hash(),
                "seed {seed} round {round}"
            );
            if round % 20 == 19 {
                assert_eq!(
                    one.keyspace.state_hash(),
                    three.keyspace.state_hash(),
                    "seed {seed} round {round}"
                );
            }
        }
    }
}

#[test]
fn the_state_hash_tells_states_apart() {
    let hash = |lines: &[&str]| {
        let mut node = Node::new(1);
        node.open(1);
        lines.iter().for_each(|line| drop(node.run(line)));
        node.keyspace.state_hash()
    };
    let hashes = [
        hash(&["SET a 1", "GET a"]),
        hash(&["SET a 2", "GET a"]),
        hash(&["SET b 1", "GET a"]),
        hash(&["SET a 1", "PEXPIREAT a 99"]),
        hash(&["SET a 1", "SWAPDB 0 1"]),
        hash(&["GET a", "SET a 1"]),
        hash(&["SET a 1", "SETBIT a 0 0"]),
    ];
    for (at, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..at].contains(hash), "{at}");
    }
}

#[test]
fn an_entry_cut_anywhere_is_refused_or_shorter_and_never_panics() {
    let mut prng = Prng::new(5);
    let node = Node::new(0);
    let mut entry = EntryBuf::new(&header(1, 2));
    for number in 1..4 {
        entry.begin_batch(gateway(1, 2), number, number - 1);
        (0..30).for_each(|_| push_random(&mut entry, &node.keyspace, &mut prng));
    }
    let bytes = entry.finish();
    for end in 0..bytes.len() {
        if let Ok(entry) = Entry::decode(&bytes[..end]) {
            assert!(entry.batches().len() < 3);
        }
    }
    for _ in 0..2_000 {
        let mut bytes = bytes.clone();
        for _ in 0..=prng.below(4) {
            let at = prng.below(bytes.len() as u64) as usize;
            bytes[at] = prng.next_u64() as u8;
        }
        if let Ok(entry) = Entry::decode(&bytes) {
            let mut node = Node::new(0);
            // It may follow rules that are not known.
            let _ = node.keyspace.apply(&entry, &mut node.local, |_| {});
        }
    }
}

#[test]
fn an_entry_of_rules_that_a_build_does_not_know_is_refused_as_a_whole() {
    let newer = SemanticsVersion(SemanticsVersion::CURRENT.0 + 1);
    let mut old = Node::new(1);
    let mut new = Node::new(1);
    new.keyspace = keyspace::Keyspace::new(crate::node::SEED, crate::node::PARTITIONS).knows(newer);
    let entry = |semantics, number| {
        let header = keyspace::Header {
            semantics,
            ..header(5_000, 7)
        };
        let mut entry = EntryBuf::new(&header);
        entry.begin_batch(gateway(1, 1), number, 0);
        let words = resp::ArgsBuf::from_slices(["INCR", "k"]);
        entry.push(&EntryOperation::Command {
            db: crate::node::db(0),
            protocol: Protocol::Resp2,
            args: words.as_args(),
        });
        entry.finish()
    };
    let known = entry(SemanticsVersion::CURRENT, 1);
    assert_eq!(old.apply_entry(&known), new.apply_entry(&known));
    assert_eq!(old.keyspace.state_hash(), new.keyspace.state_hash());
    for semantics in [newer, SemanticsVersion(0)] {
        let bytes = entry(semantics, 2);
        let unknown = Entry::decode(&bytes).expect("well formed");
        let before = old.keyspace.state_hash();
        let refused = old
            .keyspace
            .apply(&unknown, &mut old.local, |_| panic!("nothing is answered"))
            .expect_err("no rules for it");
        assert_eq!(refused.needed, semantics);
        assert_eq!(old.keyspace.state_hash(), before);
    }
    let (outcomes, replies) = new.apply_entry(&entry(newer, 2));
    assert_eq!(
        (outcomes, replies),
        (vec![Batched::Applied], vec![b":2\r\n".to_vec()])
    );
}

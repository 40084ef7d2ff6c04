//! Partitions that move between groups, as the states of these have them.

use crate::coded::{found, group_code};
use crate::node::{PARTITION_COUNT, PARTITIONS, db, header};
use crate::transactions::breaks;
use ids::{
    Boot, GatewayId, GroupId, HashSeed, Incarnation, PartitionCount, PartitionId, PartitionRange, Prng,
    RequestUuid, Slot, UnixMillis, Version,
};
use keyspace::{
    ApplyOutput, ArrivingPiece, BlockCommand, ClientRequest, CodingStep, ConditionView, CopyStep, Cursor,
    Entry, EntryBuf, EntryOperation, KeyVersion, Keyspace, LeaderLocal, Lock, Moved, Origin,
    PartitionCopyStep, PartitionStep, Prepare, Resolve, SnapshotReceiver, Transfer, TransferStep, WaitId,
    Work,
};
use mutations::Mutation;
use resp::{ArgsBuf, Protocol, ReplyWriter};
use std::collections::BTreeMap;
use txn::{Participant, Participants, Refusal, TxnId};

const OURS: GatewayId = GatewayId {
    boot: Boot(3),
    worker: 0,
};

fn txn(seq: u64) -> TxnId {
    TxnId {
        boot: OURS.boot,
        worker: OURS.worker,
        seq,
        attempt: 0,
    }
}

/// The partition of a key.
fn partition_of(key: &str) -> PartitionId {
    PARTITIONS
        .cluster_count()
        .partition_of(Slot::of_key(key.as_bytes()))
}

/// A key of this partition; others have other numbers.
fn key_in(partition: u16, number: u32) -> String {
    (0..)
        .map(|tried| format!("key:{number}:{tried}"))
        .find(|key| partition_of(key) == PartitionId::new(partition))
        .expect("one in four is")
}

/// What an operation answered.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Answered {
    Replies(String),
    Refused,
    Later,
    Moved(Vec<Moved>),
}

fn replied(reply: &str) -> Answered {
    Answered::Replies(reply.to_owned())
}

/// The replicas of a group, which apply the same entries.
struct Group {
    number: u16,
    replicas: Vec<(Keyspace, LeaderLocal)>,
    batches: u64,
    now: i64,
}

impl Group {
    fn new(number: u16, made: PartitionRange) -> Group {
        let replica = |index: u64| {
            // What replicas of a group that hosts something have in common came with its state.
            let seed = match made.is_empty() {
                false => HashSeed([7, u64::from(number)]),
                true => HashSeed([index, 99]),
            };
            (Keyspace::new(seed, made), LeaderLocal::new(index))
        };
        Group {
            number,
            replicas: vec![replica(1), replica(2)],
            batches: 0,
            now: 1_000,
        }
    }

    fn state(&self) -> &Keyspace {
        &self.replicas[0].0
    }

    fn hash(&self) -> u64 {
        self.state().state_hash()
    }

    fn apply(&mut self, operation: &EntryOperation<'_>) -> Answered {
        let mut entry = EntryBuf::new(&header(self.now, 7));
        self.batches += 1;
        entry.begin_batch(OURS, self.batches, self.batches - 1);
        entry.push(operation);
        let bytes = entry.finish();
        let entry = Entry::decode(&bytes).expect("it was just encoded");
        let mut answers = Vec::new();
        let now = UnixMillis(self.now);
        for (keyspace, local) in &mut self.replicas {
            local.now = now;
            let mut answer = None;
            let applied = keyspace.apply(&entry, local, |output| {
                if let ApplyOutput::Operation(found) = output {
                    answer = Some(answered(found));
                }
            });
            applied.expect("the rules are known");
            keyspace.collect_lazyfree(&mut usize::MAX.clone());
            answers.push((answer.expect("there is one operation"), keyspace.state_hash()));
        }
        // Replicas of a group that never hosted anything have seeds of their own.
        let has_hosted = !self.state().hosted().is_empty() || self.state().arrival().is_some();
        let same = |(answer, hash): &(Answered, u64)| {
            *answer == answers[0].0 && (!has_hosted || *hash == answers[0].1)
        };
        assert!(
            answers.iter().all(same),
            "replicas that apply the same are the same"
        );
        answers.remove(0).0
    }

    fn command(&mut self, number: u8, line: &str) -> Answered {
        let words = ArgsBuf::from_slices(line.split(' '));
        self.apply(&EntryOperation::Command {
            db: db(number),
            protocol: Protocol::Resp2,
            args: words.as_args(),
        })
    }

    fn run(&mut self, line: &str) -> Answered {
        self.command(0, line)
    }

    fn wait(&mut self, line: &str) -> Origin {
        let words = ArgsBuf::from_slices(line.split(' '));
        let command = BlockCommand {
            db: db(0),
            protocol: Protocol::Resp2,
            args: words.as_args(),
        };
        let id = WaitId {
            worker: 0,
            connection: self.batches,
            sequence: 1,
        };
        assert_eq!(self.apply(&EntryOperation::Wait { id, command }), Answered::Later);
        self.last()
    }

    fn last(&self) -> Origin {
        Origin {
            gateway: OURS,
            number: self.batches,
            index: 0,
        }
    }

    /// What an operation was answered that was answered later.
    fn late(&self, origin: Origin) -> Option<Answered> {
        self.state()
            .deferred_answer(origin)
            .expect("it is known")
            .map(answered)
    }

    fn block(&mut self, condition: ConditionView<'_>, line: &str) -> Answered {
        let words = ArgsBuf::from_slices(line.split(' '));
        let command = BlockCommand {
            db: db(0),
            protocol: Protocol::Resp2,
            args: words.as_args(),
        };
        self.apply(&EntryOperation::Block {
            conditions: vec![condition],
            commands: vec![command],
        })
    }

    fn version(&self, key: &str) -> KeyVersion {
        self.state().version(db(0), key.as_bytes())
    }

    fn vote(&mut self, txn: TxnId, participants: &Participants, work: Work<'_>) -> Answered {
        self.apply(&EntryOperation::Prepare(Box::new(Prepare {
            txn,
            began: UnixMillis(txn.seq as i64),
            participants: participants.clone(),
            conditions: Vec::new(),
            expects: Vec::new(),
            work,
        })))
    }

    fn resolve(&mut self, txn: TxnId, is_committed: bool) {
        self.apply(&EntryOperation::Resolve(Resolve {
            decisions: vec![(txn, is_committed)],
        }));
    }

    /// A new replica takes the place of the second one: it is given the state, as of now.
    fn replace_replica(&mut self) {
        let (sender, _) = &mut self.replicas[0];
        let mut transfer = Transfer::begin(sender).expect("few are under way");
        let mut receiver = SnapshotReceiver::new();
        loop {
            let (chunk, is_last) = match transfer.next_chunk(sender, 500) {
                TransferStep::More(chunk) => (chunk, false),
                TransferStep::Last(chunk) => (chunk, true),
                TransferStep::Lost => panic!("nothing has changed"),
            };
            receiver.take(&chunk).expect("a chunk of a transfer");
            if is_last {
                break;
            }
        }
        let received = receiver.finish().expect("it is complete");
        assert_eq!(
            received.state_hash(),
            self.hash(),
            "what is received is what was sent"
        );
        self.replicas[1].0 = received;
    }

    /// All keys of database 0, by `SCAN`, from a cursor on that is in this group.
    fn scan(&mut self, from: Cursor) -> (Vec<String>, Option<Cursor>) {
        let (keyspace, local) = &mut self.replicas[0];
        let line = format!("SCAN {} COUNT 3", from.number());
        let words = ArgsBuf::from_slices(line.split(' '));
        let spec = command::resolve(words.as_args()).expect("a command");
        let command = command::parse(spec, words.as_args())
            .expect("on keys")
            .expect("well formed");
        let mut out = Vec::new();
        keyspace.read(
            db(0),
            &command,
            local,
            &mut ReplyWriter::new(&mut out, Protocol::Resp2),
        );
        let text = String::from_utf8(out).expect("plain keys");
        let lines: Vec<&str> = text.lines().collect();
        let next: u64 = lines[2].parse().expect("a cursor");
        let keys = lines[4..].iter().skip(1).step_by(2).map(|key| (*key).to_owned());
        (keys.collect(), Cursor::of_number(next).filter(|_| next != 0))
    }
}

fn answered(answer: keyspace::Answer<'_>) -> Answered {
    if let Some(moved) = answer.moved() {
        return Answered::Moved(moved);
    }
    match (answer.is_deferred(), answer.is_carried_out()) {
        (true, _) => Answered::Later,
        (_, false) => Answered::Refused,
        _ => Answered::Replies(String::from_utf8_lossy(answer.bytes()).into_owned()),
    }
}

/// Two groups, and moves between them.
struct Groups {
    groups: [Group; 2],
    moves: u64,
}

impl Groups {
    /// All partitions are in the first group.
    fn new() -> Groups {
        let count = PartitionCount::new(PARTITION_COUNT).expect("a valid count");
        Groups {
            groups: [
                Group::new(0, PARTITIONS),
                Group::new(1, PartitionRange::none(count)),
            ],
            moves: 0,
        }
    }

    fn participants(&self) -> Participants {
        [0, 1].map(|group| Participant::first(GroupId::new(group))).into()
    }

    /// Moves a partition, and calls `between` after each step: 0 when some of it was copied, 1 when all was, 2 when the first group has voted,
    /// 3 when both have, 4 when the second one hosts it.
    fn move_with(
        &mut self,
        partition: u16,
        from: usize,
        mut between: impl FnMut(&mut Groups, u32),
    ) -> Result<(), Answered> {
        self.moves += 1;
        let (txn, participants, to) = (txn(self.moves), self.participants(), 1 - from);
        let partition = PartitionId::new(partition);
        let source = &mut self.groups[from].replicas[0].0;
        let mut copy = source
            .begin_partition_copy(partition)
            .expect("it is hosted there");
        let seed = source.seed_of(partition).expect("it is hosted there");
        let (mut pieces, mut stage) = (0, 0);
        loop {
            let records = match copy.next(&mut self.groups[from].replicas[0].0, 400) {
                PartitionCopyStep::More(records) => records,
                PartitionCopyStep::Ready if pieces > 0 => break,
                PartitionCopyStep::Ready => Vec::new(),
                PartitionCopyStep::NotYet => unreachable!("nothing is kept as fragments"),
                PartitionCopyStep::Lost => return Err(replied("lost")),
            };
            pieces += 1;
            let taken = self.groups[to].apply(&EntryOperation::Arrive(ArrivingPiece {
                txn,
                partition,
                number: pieces,
                seed,
                records: &records,
            }));
            if taken != replied("\u{1}") {
                return Err(taken);
            }
            if stage == 0 {
                stage = 1;
                between(self, 0);
            }
        }
        between(self, 1);
        let leave = PartitionStep::Leave {
            partition,
            to: GroupId::new(self.groups[to].number),
            moves: self.groups[from].state().moves_of(partition) + 1,
        };
        let vote = self.groups[from].vote(txn, &participants, Work::Move(leave));
        if vote != replied("\0") {
            return Err(vote);
        }
        between(self, 2);
        let enter = copy.last(&mut self.groups[from].replicas[0].0, pieces);
        let enter = PartitionStep::Enter(Box::new(enter.expect("few keys have changed")));
        let vote = self.groups[to].vote(txn, &participants, Work::Move(enter));
        let is_committed = vote == replied("\0");
        if is_committed {
            between(self, 3);
        }
        self.groups[to].resolve(txn, is_committed);
        between(self, 4);
        self.groups[from].resolve(txn, is_committed);
        if is_committed { Ok(()) } else { Err(vote) }
    }

    fn move_it(&mut self, partition: u16, from: usize) {
        self.move_with(partition, from, |_, _| {})
            .expect("nothing is in the way");
    }
}

fn gone(partition: u16, to: u16, moves: u32) -> Answered {
    Answered::Moved(vec![Moved {
        partition: PartitionId::new(partition),
        to: Some((GroupId::new(to), moves)),
    }])
}

#[test]
fn a_partition_takes_what_is_in_it_along_and_what_changes_on_the_way() {
    let mut all = Groups::new();
    let keys: Vec<String> = (0..40).map(|number| key_in(2, number)).collect();
    let elsewhere = key_in(1, 0);
    for key in &keys {
        all.groups[0].run(&format!("SET {key} before"));
        all.groups[0].command(3, &format!("RPUSH {key} a b"));
    }
    all.groups[0].run(&format!("SET {elsewhere} stays"));
    let (set, deleted, new) = (&keys[3], &keys[4], key_in(2, 99));
    all.move_with(2, 0, |all, step| match step {
        0 | 1 => {
            all.groups[0].run(&format!("SET {set} {step}"));
            all.groups[0].run(&format!("DEL {deleted}"));
            all.groups[0].run(&format!("SET {new} {step}"));
        }
        2 => {
            assert_eq!(
                all.groups[1].run(&format!("GET {set}")),
                Answered::Moved(vec![Moved {
                    partition: PartitionId::new(2),
                    to: None,
                }])
            );
        }
        // What comes for it waits, until it is there.
        3 => assert_eq!(all.groups[1].run(&format!("GET {set}")), Answered::Later),
        _ => assert_eq!(all.groups[1].run(&format!("GET {set}")), replied("$1\r\n1\r\n")),
    })
    .expect("nothing is in the way");
    let [source, target] = &mut all.groups;
    assert_eq!(source.run(&format!("GET {set}")), gone(2, 1, 1));
    assert_eq!(source.run(&format!("SET {set} x")), gone(2, 1, 1));
    assert_eq!(source.run(&format!("MGET {elsewhere} {set}")), gone(2, 1, 1));
    assert_eq!(
        source.run(&format!("GET {elsewhere}")),
        replied("$5\r\nstays\r\n")
    );
    assert_eq!(target.run(&format!("GET {set}")), replied("$1\r\n1\r\n"));
    assert_eq!(target.run(&format!("GET {new}")), replied("$1\r\n1\r\n"));
    assert_eq!(target.run(&format!("EXISTS {deleted}")), replied(":0\r\n"));
    assert_eq!(
        target.command(3, &format!("LRANGE {deleted} 0 -1")),
        replied("*2\r\n$1\r\na\r\n$1\r\nb\r\n")
    );
    assert_eq!(target.state().counts(db(0)).0, 40);
    assert_eq!(source.state().counts(db(0)).0, 1);
    assert_eq!(source.state().key_count() + target.state().key_count(), 81);
    assert_eq!(
        target.state().moved_here().collect::<Vec<_>>(),
        [(PartitionId::new(2), 1)]
    );
}

#[test]
fn what_waits_for_the_lock_of_a_move_is_sent_on_or_carried_out() {
    for is_moved in [true, false] {
        let mut all = Groups::new();
        let (key, stays) = (key_in(1, 0), key_in(0, 0));
        let mut waiting = Vec::new();
        let moved = all.move_with(1, 0, |all, step| {
            if step == 2 {
                let [source, target] = &mut all.groups;
                for key in [&key, &stays] {
                    assert_eq!(source.run(&format!("SET {key} v")), Answered::Later);
                    waiting.push(source.last());
                }
                if !is_moved {
                    // Somebody has ended it in its place.
                    let query = keyspace::QueryTxn {
                        txn: txn(1),
                        participants: [0, 1].map(|group| Participant::first(GroupId::new(group))).into(),
                    };
                    target.apply(&EntryOperation::QueryTxn(query));
                }
            }
        });
        assert_eq!(moved.is_ok(), is_moved);
        let late = waiting
            .iter()
            .map(|origin| all.groups[0].late(*origin).expect("the lock is free"));
        let expected = if is_moved {
            gone(1, 1, 1)
        } else {
            replied("+OK\r\n")
        };
        assert_eq!(late.collect::<Vec<_>>(), [expected, replied("+OK\r\n")]);
        assert_eq!(all.groups[1].state().hosts(PartitionId::new(1)), is_moved);
        assert_eq!(all.groups[1].state().arrival(), None);
    }
}

/// Whether a transaction goes on that watched an absent key, which came and went while its partition moved.
fn goes_on_for_an_absent_key() -> bool {
    let mut all = Groups::new();
    let key = key_in(3, 0);
    all.groups[0].run(&format!("SET {} 1", key_in(3, 1)));
    let seen = all.groups[0].version(&key);
    all.groups[0].run(&format!("SET {key} 1"));
    all.groups[0].run(&format!("DEL {key}"));
    all.move_it(3, 0);
    let condition = ConditionView::Unchanged {
        db: db(0),
        key: key.as_bytes(),
        version: seen,
    };
    all.groups[1].block(condition, &format!("GET {key}")) != Answered::Refused
}

#[test]
fn an_absent_key_that_is_watched_over_a_move_may_have_been_there() {
    mutations::plant(Some(Mutation::WatchLostAtMove));
    let goes_on = goes_on_for_an_absent_key();
    mutations::plant(None);
    assert!(goes_on, "the mistake is noticed");
    assert!(!goes_on_for_an_absent_key());
}

#[test]
fn watched_keys_are_watched_on_over_a_move() {
    let mut all = Groups::new();
    let (kept, changed, absent) = (key_in(3, 0), key_in(3, 1), key_in(3, 2));
    all.groups[0].run(&format!("SET {kept} 1"));
    all.groups[0].run(&format!("SET {changed} 1"));
    let seen = [&kept, &changed, &absent].map(|key| all.groups[0].version(key));
    let condition = |key, version| ConditionView::Unchanged {
        db: db(0),
        key,
        version,
    };
    assert_eq!(
        all.groups[0].block(condition(absent.as_bytes(), seen[2]), &format!("GET {kept}")),
        replied("$1\r\n1\r\n")
    );
    all.move_it(3, 0);
    let target = &mut all.groups[1];
    target.run(&format!("SET {changed} 1"));
    assert_ne!(
        target.block(condition(kept.as_bytes(), seen[0]), &format!("GET {kept}")),
        Answered::Refused
    );
    assert_eq!(
        target.block(condition(changed.as_bytes(), seen[1]), &format!("GET {kept}")),
        Answered::Refused
    );
    // Of an absent key nobody knows whether it was there meanwhile.
    assert_eq!(
        target.block(condition(absent.as_bytes(), seen[2]), &format!("GET {kept}")),
        Answered::Refused
    );
    let again = target.version(&absent);
    all.move_it(3, 1);
    all.move_it(3, 0);
    assert_eq!(
        all.groups[1].block(condition(absent.as_bytes(), again), &format!("GET {kept}")),
        Answered::Refused
    );
    assert_ne!(
        all.groups[1].block(condition(kept.as_bytes(), seen[0]), &format!("GET {kept}")),
        Answered::Refused
    );
    let source = &mut all.groups[0];
    assert_eq!(
        source.block(condition(kept.as_bytes(), seen[0]), &format!("GET {kept}")),
        gone(3, 1, 3)
    );
}

#[test]
fn what_has_expired_is_not_there_again_and_what_is_named_is_not_carried_out_again() {
    let mut all = Groups::new();
    let (mortal, key) = (key_in(0, 0), key_in(0, 1));
    all.groups[0].run(&format!("SET {mortal} v PXAT 5000"));
    all.groups[0].now = 6_000;
    let mut id = [0; 16];
    id[..6].copy_from_slice(&6_000_u64.to_be_bytes()[2..]);
    let request = ClientRequest {
        id: RequestUuid::of_bytes(id),
        digest: 1,
        protocol: Protocol::Resp2,
    };
    let words = ArgsBuf::from_slices(["INCR", &key]);
    let command = BlockCommand {
        db: db(0),
        protocol: Protocol::Resp2,
        args: words.as_args(),
    };
    let once = EntryOperation::Once {
        request,
        commands: vec![command],
    };
    assert_eq!(all.groups[0].apply(&once), replied("\0:1\r\n"));
    all.move_it(0, 0);
    // The clock of its leader is behind.
    assert_eq!(all.groups[1].now, 1_000);
    assert_eq!(all.groups[1].run(&format!("EXISTS {mortal}")), replied(":0\r\n"));
    assert_eq!(all.groups[1].apply(&once), replied("\0:1\r\n"));
    assert_eq!(all.groups[1].run(&format!("GET {key}")), replied("$1\r\n1\r\n"));
    assert_eq!(all.groups[0].apply(&once), gone(0, 1, 1));
}

#[test]
fn who_waits_to_move_an_element_waits_where_both_keys_are() {
    who_waits_to_move_an_element_is_sent_on();
    breaks(
        Mutation::DestinationLeftBehind,
        who_waits_to_move_an_element_is_sent_on,
    );
}

/// What it waits for stays, and where the element is to go does not.
fn who_waits_to_move_an_element_is_sent_on() {
    let mut all = Groups::new();
    let (from, to) = (key_in(2, 0), key_in(1, 0));
    let goes = all.groups[0].wait(&format!("BLMOVE {from} {to} LEFT RIGHT 0"));
    let stays = all.groups[0].wait(&format!("BLMOVE {from} {from} LEFT RIGHT 0"));
    all.move_it(1, 0);
    assert_eq!(all.groups[0].late(goes), Some(gone(1, 1, 1)));
    assert_eq!(all.groups[0].run(&format!("RPUSH {from} v")), replied(":1\r\n"));
    assert_eq!(all.groups[0].late(stays), Some(replied("$1\r\nv\r\n")));
    assert_eq!(all.groups[0].state().check_hosting(), Ok(()));
}

#[test]
fn who_waits_for_a_key_waits_where_it_is() {
    who_waits_for_a_key_is_sent_to_where_it_is();
    breaks(
        Mutation::WaitersLeftBehind,
        who_waits_for_a_key_is_sent_to_where_it_is,
    );
}

fn who_waits_for_a_key_is_sent_to_where_it_is() {
    let mut all = Groups::new();
    let (list, other) = (key_in(1, 0), key_in(2, 0));
    let goes = all.groups[0].wait(&format!("BLPOP {list} 0"));
    let stays = all.groups[0].wait(&format!("BLPOP {other} 0"));
    let both = all.groups[0].wait(&format!("BLPOP {other} {list} 0"));
    all.move_it(1, 0);
    assert_eq!(all.groups[0].late(goes), Some(gone(1, 1, 1)));
    assert_eq!(all.groups[0].late(both), Some(gone(1, 1, 1)));
    assert_eq!(all.groups[0].late(stays), None);
    let there = all.groups[1].wait(&format!("BLPOP {list} 0"));
    all.groups[1].run(&format!("RPUSH {list} x"));
    assert!(matches!(all.groups[1].late(there), Some(Answered::Replies(_))));
}

#[test]
fn a_scan_over_a_move_shows_all_that_was_there() {
    let mut all = Groups::new();
    let mut expected: Vec<String> = (0..4)
        .flat_map(|partition| (0..30).map(move |number| key_in(partition, number)))
        .collect();
    for key in &expected {
        all.groups[0].run(&format!("SET {key} v"));
    }
    let (mut seen, mut cursor, mut steps) = (Vec::new(), Some(Cursor::default()), 0);
    while let Some(from) = cursor {
        let host = usize::from(!all.groups[0].state().hosts(from.partition));
        let (keys, next) = all.groups[host].scan(from);
        seen.extend(keys);
        cursor = next;
        steps += 1;
        if steps % 7 == 0 {
            let partition = from.partition.number();
            let from = usize::from(!all.groups[0].state().hosts(from.partition));
            all.move_it(partition, from);
        }
    }
    expected.sort();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, expected);
}

#[test]
fn a_copy_is_used_by_its_own_transaction_and_only_whole() {
    let mut all = Groups::new();
    let key = key_in(1, 0);
    all.groups[0].run(&format!("SET {key} v"));
    let participants = all.participants();
    let seed = HashSeed([5, 6]);
    let partition = PartitionId::new(1);
    let piece = |seq, number| ArrivingPiece {
        txn: txn(seq),
        partition,
        number,
        seed,
        records: &[],
    };
    let enter = |pieces| {
        PartitionStep::Enter(Box::new(keyspace::Enter {
            partition,
            moves: 1,
            pieces,
            time: UnixMillis(1),
            applied: ids::Version(1),
            swapped: Vec::new(),
            records: Vec::new(),
            requests: Vec::new(),
        }))
    };
    let (taken, refused) = (replied("\u{1}"), replied("\0"));
    let condition = replied(std::str::from_utf8(&[Refusal::Condition.code()]).expect("a small number"));
    let [_, target] = &mut all.groups;
    let mut send = |seq, number| target.apply(&EntryOperation::Arrive(piece(seq, number)));
    assert_eq!(send(900, 2), refused, "the first is missing");
    assert_eq!(send(900, 1), taken);
    assert_eq!(send(900, 1), taken, "begun again");
    assert_eq!(send(901, 2), refused, "of another one");
    assert_eq!(send(900, 2), taken);
    assert_eq!(
        target.vote(txn(901), &participants, Work::Move(enter(2))),
        condition
    );
    assert_eq!(
        target.vote(txn(902), &participants, Work::Move(enter(1))),
        condition
    );
    assert_eq!(
        target.vote(txn(900), &participants, Work::Move(enter(2))),
        replied("\0")
    );
    let mut send = |seq, number| target.apply(&EntryOperation::Arrive(piece(seq, number)));
    assert_eq!(send(903, 1), refused, "a vote relies on it");
    assert_eq!(send(900, 3), refused);
    assert_eq!(send(900, 0), taken);
    assert_eq!(target.state().arrival(), Some((txn(900), partition)));
    target.resolve(txn(900), false);
    assert_eq!(target.state().arrival(), None);
    let malformed = ArrivingPiece {
        records: &[1, 2, 3],
        ..piece(904, 1)
    };
    assert_eq!(target.apply(&EntryOperation::Arrive(malformed)), refused);
    assert_eq!(target.state().arrival(), None);
    // What is hosted does not come.
    all.move_it(1, 0);
    assert_eq!(
        all.groups[1].apply(&EntryOperation::Arrive(piece(905, 1))),
        refused
    );
}

#[test]
fn what_concerns_all_groups_is_refused_where_one_is_not_known() {
    let mut all = Groups::new();
    all.move_it(2, 0);
    let lock = |group: u16| Lock {
        txn: txn(800 + u64::from(group)),
        began: UnixMillis(1),
        participants: (0..=group)
            .map(|group| Participant::first(GroupId::new(group)))
            .collect(),
        is_whole: true,
        keys: Vec::new(),
    };
    let source = &mut all.groups[0];
    let moved = source.apply(&EntryOperation::Lock(Box::new(lock(0))));
    let Answered::Replies(bytes) = moved else {
        panic!("{moved:?}")
    };
    assert_eq!(bytes.as_bytes()[0], Refusal::Moved.code());
    assert_eq!(
        Moved::read(&bytes.as_bytes()[1..])[0].to,
        Some((GroupId::new(1), 1))
    );
    let locked = source.apply(&EntryOperation::Lock(Box::new(lock(1))));
    assert!(matches!(locked, Answered::Replies(bytes) if bytes.as_bytes()[0] == 0));
}

#[test]
fn a_replica_that_comes_at_any_time_is_as_the_others() {
    let mut all = Groups::new();
    for number in 0..60 {
        all.groups[0].run(&format!("SET {} v", key_in(number as u16 % 4, number)));
    }
    let mut steps = Vec::new();
    for (partition, from) in [(3, 0), (1, 0), (3, 1)] {
        all.move_with(partition, from, |all, step| {
            steps.push(step);
            all.groups[0].replace_replica();
            // An empty group that nothing has come into tells nothing.
            all.groups[1].replace_replica();
        })
        .unwrap_or_else(|answer| assert_eq!(answer, replied("lost")));
    }
    assert!(steps.contains(&4), "{steps:?}");
}

#[test]
fn a_backup_that_a_partition_leaves_or_enters_is_to_be_begun_again() {
    let mut all = Groups::new();
    all.groups[0].run(&format!("SET {} v", key_in(1, 0)));
    for group in &mut all.groups {
        assert!(group.replicas[0].0.begin_copy(1));
    }
    all.move_it(1, 0);
    for group in &mut all.groups {
        let keyspace = &mut group.replicas[0].0;
        assert!(matches!(keyspace.next_of_copy(1, 1_000), CopyStep::Lost));
    }
}

#[test]
fn groups_that_give_partitions_to_each_other_are_as_one() {
    for seed in 0..40 {
        let mut prng = Prng::new(seed);
        let mut all = Groups::new();
        let mut model: BTreeMap<(u8, String), String> = BTreeMap::new();
        let keys: Vec<String> = (0..60).map(|number| key_in(number as u16 % 4, number)).collect();
        let mut value = 0;
        let mut write = |all: &mut Groups, model: &mut BTreeMap<(u8, String), String>, prng: &mut Prng| {
            let key = &keys[prng.below(60) as usize];
            let number = prng.below(2) as u8;
            let host = usize::from(!all.groups[0].state().hosts(partition_of(key)));
            value += 1;
            let line = match prng.below(3) {
                0 => format!("DEL {key}"),
                _ => format!("SET {key} {value}"),
            };
            match all.groups[host].command(number, &line) {
                Answered::Replies(_) if line.starts_with('D') => drop(model.remove(&(number, key.clone()))),
                Answered::Replies(_) => drop(model.insert((number, key.clone()), value.to_string())),
                Answered::Later | Answered::Moved(_) => {}
                Answered::Refused => panic!("no block"),
            }
        };
        for _ in 0..25 {
            for _ in 0..prng.below(30) {
                write(&mut all, &mut model, &mut prng);
            }
            let partition = prng.below(4) as u16;
            let from = usize::from(!all.groups[0].state().hosts(PartitionId::new(partition)));
            let mut during = prng.clone();
            let moved = all.move_with(partition, from, |all, step| {
                // What comes while the lock is held waits, and is not waited for here.
                if step < 2 {
                    for _ in 0..during.below(20) {
                        write(all, &mut model, &mut during);
                    }
                }
            });
            moved.expect("nothing is in the way");
            prng = during;
        }
        let (mut found, mut all_keys) = (BTreeMap::new(), 0);
        for number in 0..2 {
            for key in &keys {
                let host = usize::from(!all.groups[0].state().hosts(partition_of(key)));
                let Answered::Replies(reply) = all.groups[host].command(number, &format!("GET {key}")) else {
                    panic!("{key}");
                };
                if let Some(value) = reply.lines().nth(1) {
                    found.insert((number, key.clone()), value.to_owned());
                }
            }
            all_keys += all
                .groups
                .iter()
                .map(|group| group.state().counts(db(number)).0)
                .sum::<usize>();
        }
        assert_eq!(found, model, "seed {seed}");
        assert_eq!(all_keys, model.len());
    }
}

/// A group with a code gets a partition in which there is a value that is long enough to be a fragment, and goes on with it.
fn values_that_arrive_are_held() {
    let mut all = Groups::new();
    let (key, own) = (key_in(2, 0), key_in(2, 1));
    let value = "v".repeat(300);
    all.groups[0].run(&format!("SET {key} {value}"));
    let target = &mut all.groups[1];
    target.apply(&EntryOperation::Coding(CodingStep::Code(group_code(3, 1))));
    for (replica, holder) in target.replicas.iter_mut().zip(1..) {
        replica.0.hold_as(Incarnation(holder));
    }
    // The versions here are beyond those there.
    for _ in 0..50 {
        target.apply(&EntryOperation::Coding(CodingStep::Settle(Version(0))));
    }
    let applied = target.state().applied();
    target.apply(&EntryOperation::Coding(CodingStep::Settle(applied)));
    all.move_it(2, 0);
    let target = &mut all.groups[1];
    let settle = |target: &mut Group| {
        let applied = target.state().applied();
        target.apply(&EntryOperation::Coding(CodingStep::Settle(applied)));
    };
    let demoted = |target: &mut Group| -> usize {
        let demote = |(keyspace, local): &mut (Keyspace, LeaderLocal)| {
            keyspace.demote(1_000, Version(u64::MAX), local, None).values
        };
        let counts: Vec<usize> = target.replicas.iter_mut().map(demote).collect();
        assert_eq!(counts[0], counts[1]);
        counts[0]
    };
    assert_eq!(
        demoted(target),
        0,
        "nobody has said that all replicas here have it"
    );
    settle(target);
    assert_eq!(demoted(target), 0, "nor is that said of it");
    let held = found(target.state());
    let all_held = [Vec::new(), vec![(db(0), Box::from(key.as_bytes()))]];
    assert_eq!(held, all_held);
    // It can be read and changed as anything else.
    assert_eq!(
        target.run(&format!("GETRANGE {key} 0 1")),
        replied("$2\r\nvv\r\n")
    );
    target.replace_replica();
    target.replicas[1].0.hold_as(Incarnation(2));
    assert_eq!(found(&target.replicas[1].0), all_held, "it is held there, too");
    target.apply(&EntryOperation::Coding(CodingStep::Release(vec![(
        db(0),
        key.as_bytes(),
    )])));
    assert_eq!(demoted(target), 0, "before the next settling");
    settle(target);
    assert_eq!(demoted(target), 1);
    assert_eq!(
        found(target.state()),
        [vec![(db(0), Box::from(key.as_bytes()))], Vec::new()]
    );
    // What is set here is settled as anything else.
    target.run(&format!("SET {own} {value}"));
    settle(target);
    assert_eq!(demoted(target), 1);
}

#[test]
fn values_that_arrive_in_a_group_with_a_code_are_held_until_they_are_released() {
    values_that_arrive_are_held();
    breaks(Mutation::ArrivalsNotHeld, values_that_arrive_are_held);
}

#[test]
fn a_group_to_which_a_partition_comes_gets_no_code_meanwhile() {
    let mut all = Groups::new();
    let key = key_in(2, 0);
    all.groups[0].run(&format!("SET {key} {}", "v".repeat(300)));
    let code = || EntryOperation::Coding(CodingStep::Code(group_code(3, 1)));
    all.move_with(2, 0, |all, _| {
        all.groups[1].apply(&code());
    })
    .expect("nothing is in the way");
    let target = &mut all.groups[1];
    assert_eq!(target.run(&format!("STRLEN {key}")), replied(":300\r\n"));
    target.apply(&code());
    assert!(target.state().code().is_some(), "from now on it can");
}

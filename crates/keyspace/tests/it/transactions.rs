//! Transactions over several groups, as one group's state has them.

use crate::node::{Node, db, gateway, header};
use ids::{Boot, GatewayId, GroupId, Prng, RequestUuid, UnixMillis, Version};
use keyspace::{
    ApplyOutput, Batched, BlockCommand, ClientRequest, ConditionView, Effect, Entry, EntryBuf,
    EntryOperation, Fence, Forget, InPlaceStep, KeptResult, KeyVersion, Lock, Object, Operations, Origin,
    Pairs, Prepare, QueryTxn, Resolve, Resume, SnapshotReceiver, Transfer, TransferStep, UnknownOrigin,
    WaitId, Work,
};
use mutations::Mutation;
use resp::{ArgsBuf, Protocol};
use txn::{Participant, Participants, Refusal, TxnId, VoteRecord};

const OURS: GatewayId = GatewayId {
    boot: Boot(3),
    worker: 0,
};

fn wait_id(connection: u64) -> WaitId {
    WaitId {
        worker: 0,
        connection,
        sequence: 1,
    }
}

fn txn(seq: u64, attempt: u32) -> TxnId {
    TxnId {
        boot: OURS.boot,
        worker: OURS.worker,
        seq,
        attempt,
    }
}

fn participants() -> Participants {
    [0, 1].map(|group| Participant::first(GroupId::new(group))).into()
}

/// Replicas that apply the same entries, of which each is as good as another.
struct Group {
    nodes: Vec<Node>,
    number: u64,
    now: i64,
    /// Whether they answer alike: not if a command tells of one of them.
    answers_alike: bool,
}

impl Group {
    fn new() -> Group {
        Group {
            nodes: vec![Node::new(1), Node::new(2)],
            number: 0,
            now: 1_000,
            answers_alike: true,
        }
    }

    fn fill(&mut self, encoded: Operations, own: bool) -> Vec<Vec<u8>> {
        let mut entry = EntryBuf::new(&header(self.now, 7));
        if own {
            entry.begin_own_batch();
        } else {
            self.number += 1;
            entry.begin_batch(OURS, self.number, 0);
        }
        entry.append(&encoded.into_bytes());
        let bytes = entry.finish();
        let now = self.now;
        let mut all = self.nodes.iter_mut().map(|node| {
            node.local.now = UnixMillis(now);
            let answers = apply(node, &bytes);
            (answers, node.keyspace.state_hash())
        });
        let first = all.next().expect("a group has replicas");
        for other in all {
            assert_eq!(first.1, other.1, "replicas that apply the same are the same");
            assert!(first.0 == other.0 || !self.answers_alike, "{first:?} {other:?}");
        }
        first.0
    }

    fn apply(&mut self, operation: &EntryOperation<'_>) -> Vec<Vec<u8>> {
        let mut encoded = Operations::new();
        encoded.push(operation);
        self.fill(encoded, false)
    }

    /// A command; its answer, or none if it waits.
    fn run(&mut self, line: &str) -> String {
        let words = ArgsBuf::from_slices(line.split(' '));
        let answers = self.apply(&EntryOperation::Command {
            db: db(0),
            protocol: Protocol::Resp2,
            args: words.as_args(),
        });
        String::from_utf8_lossy(&answers[0]).into_owned()
    }

    /// A command of this client that may wait; which batch it is.
    fn wait(&mut self, connection: u64, line: &str) -> u64 {
        let words = ArgsBuf::from_slices(line.split(' '));
        let command = BlockCommand {
            db: db(0),
            protocol: Protocol::Resp2,
            args: words.as_args(),
        };
        let id = wait_id(connection);
        let answers = self.apply(&EntryOperation::Wait { id, command });
        assert_eq!(answers[0], LATER);
        self.number
    }

    /// What whoever waited for a key was answered.
    fn served(&self, number: u64) -> Option<String> {
        let answer = self.late(number).expect("it is known");
        answer.map(|answer| String::from_utf8_lossy(&answer).into_owned())
    }

    fn prepare_with(
        &mut self,
        txn: TxnId,
        lines: &[&str],
        is_strict: bool,
        conditions: Vec<ConditionView<'_>>,
        expects: Vec<ConditionView<'_>>,
    ) -> Vec<u8> {
        let words: Vec<ArgsBuf> = lines
            .iter()
            .map(|line| ArgsBuf::from_slices(line.split(' ')))
            .collect();
        let commands = words.iter().map(|words| BlockCommand {
            db: db(0),
            protocol: Protocol::Resp2,
            args: words.as_args(),
        });
        let prepare = Prepare {
            txn,
            began: UnixMillis(txn.seq as i64),
            participants: participants(),
            conditions,
            expects,
            work: Work::Evaluate {
                commands: commands.collect(),
                is_strict,
            },
        };
        self.apply(&EntryOperation::Prepare(Box::new(prepare))).remove(0)
    }

    fn prepare(&mut self, txn: TxnId, line: &str) -> Vec<u8> {
        self.prepare_with(txn, &[line], false, Vec::new(), Vec::new())
    }

    /// A part of an `MSET`.
    fn prepare_put(&mut self, txn: TxnId, in_database: u8, pairs: &str) -> Vec<u8> {
        let words = ArgsBuf::from_slices(pairs.split(' '));
        let prepare = Prepare {
            txn,
            began: UnixMillis(txn.seq as i64),
            participants: participants(),
            conditions: Vec::new(),
            expects: Vec::new(),
            work: Work::Put {
                db: db(in_database),
                pairs: Pairs::of(words.as_args()),
            },
        };
        self.apply(&EntryOperation::Prepare(Box::new(prepare))).remove(0)
    }

    fn lock(&mut self, txn: TxnId, key: &str) -> Vec<u8> {
        let lock = Lock {
            txn,
            began: UnixMillis(txn.seq as i64),
            participants: participants(),
            is_whole: false,
            keys: vec![(db(0), key.as_bytes(), true)],
        };
        self.apply(&EntryOperation::Lock(Box::new(lock))).remove(0)
    }

    fn install_after_lock(&mut self, txn: TxnId) -> Vec<u8> {
        let prepare = Prepare {
            txn,
            began: UnixMillis(txn.seq as i64),
            participants: participants(),
            conditions: Vec::new(),
            expects: Vec::new(),
            work: Work::Install {
                effects: Vec::new(),
                after_lock: true,
                result: None,
            },
        };
        self.apply(&EntryOperation::Prepare(Box::new(prepare))).remove(0)
    }

    /// A part that deletes `key`, of a request that its client has named.
    fn prepare_named(&mut self, txn: TxnId, request: ClientRequest, key: &str) -> Vec<u8> {
        let prepare = Prepare {
            txn,
            began: UnixMillis(txn.seq as i64),
            participants: participants(),
            conditions: Vec::new(),
            expects: Vec::new(),
            work: Work::Install {
                effects: vec![Effect::Delete {
                    db: db(0),
                    key: key.as_bytes().into(),
                }],
                after_lock: false,
                result: Some(KeptResult {
                    request,
                    replies: vec![Box::from(&b":1\r\n"[..])],
                }),
            },
        };
        self.apply(&EntryOperation::Prepare(Box::new(prepare))).remove(0)
    }

    /// Commands, and between them the deletion of keys.
    fn prepare_in_place(&mut self, txn: TxnId, lines: &[&str]) -> Vec<u8> {
        let words: Vec<ArgsBuf> = lines
            .iter()
            .map(|line| ArgsBuf::from_slices(line.split(' ')))
            .collect();
        let prepare = Prepare {
            txn,
            began: UnixMillis(txn.seq as i64),
            participants: participants(),
            conditions: Vec::new(),
            expects: Vec::new(),
            work: Work::InPlace {
                steps: words.iter().map(step).collect(),
                after_lock: false,
            },
        };
        self.apply(&EntryOperation::Prepare(Box::new(prepare))).remove(0)
    }

    /// What whoever commits a transaction is answered.
    fn commit(&mut self, txn: TxnId) -> String {
        let answers = self.apply(&EntryOperation::Resolve(Resolve {
            decisions: vec![(txn, true)],
        }));
        String::from_utf8_lossy(&answers[0]).into_owned()
    }

    fn resolve(&mut self, txn: TxnId, is_committed: bool) {
        self.apply(&EntryOperation::Resolve(Resolve {
            decisions: vec![(txn, is_committed)],
        }));
    }

    fn query_txn(&mut self, txn: TxnId) -> VoteRecord {
        let query_txn = QueryTxn {
            txn,
            participants: participants(),
        };
        let answers = self.apply(&EntryOperation::QueryTxn(query_txn));
        VoteRecord::of_code(answers[0][0]).expect("a vote record")
    }

    fn forget(&mut self, low: u64, over: &[TxnId]) {
        self.apply(&EntryOperation::Forget(Forget {
            coordinator: OURS,
            low,
            over: over.iter().map(|txn| (txn.seq, txn.attempt)).collect(),
        }));
    }

    fn fence(&mut self, newest: u64, alive: &[u64]) {
        let mut encoded = Operations::new();
        encoded.push(&EntryOperation::Fence {
            fence: Fence::new(Boot(newest), alive.iter().copied().map(Boot)),
        });
        self.fill(encoded, true);
    }

    /// What the operation of this batch was answered after it had waited.
    fn late(&self, number: u64) -> Result<Option<Vec<u8>>, UnknownOrigin> {
        let origin = Origin {
            gateway: OURS,
            number,
            index: 0,
        };
        let answer = self.nodes[0].keyspace.deferred_answer(origin)?;
        Ok(answer.map(|answer| answer.bytes().to_vec()))
    }

    fn counts(&self) -> (usize, usize, usize, usize) {
        let counts = self.nodes[0].keyspace.transaction_counts();
        (counts.prepared, counts.waiting, counts.ended, counts.deferred)
    }
}

/// A command, or the deletion of a key.
fn step(words: &ArgsBuf) -> InPlaceStep<'_> {
    let args = words.as_args();
    match args.arg(0) {
        b"DELETED" => InPlaceStep::Install(vec![Effect::Delete {
            db: db(0),
            key: args.arg(1).into(),
        }]),
        _ => InPlaceStep::Run(BlockCommand {
            db: db(0),
            protocol: Protocol::Resp2,
            args,
        }),
    }
}

/// The answers of an entry's operations; nothing for what waits.
fn apply(node: &mut Node, bytes: &[u8]) -> Vec<Vec<u8>> {
    let entry = Entry::decode(bytes).expect("an entry that was encoded can be decoded");
    let mut answers = Vec::new();
    let applied = node
        .keyspace
        .apply(&entry, &mut node.local, |answered| match answered {
            ApplyOutput::Operation(answer) if answer.is_deferred() => answers.push(b"later".to_vec()),
            ApplyOutput::Operation(answer) => answers.push(answer.bytes().to_vec()),
            ApplyOutput::Batch(batched) => assert_eq!(batched, Batched::Applied, "numbers follow each other"),
            ApplyOutput::Read(..) | ApplyOutput::ReadLater(..) | ApplyOutput::ReadMoved(..) => {
                unreachable!("no read is attached")
            }
            ApplyOutput::Freed(..) => {}
        });
    applied.expect("the rules are known");
    answers
}

/// A replica that was sent the state of another.
fn moved(from: &mut Node) -> Node {
    moved_in_chunks(from, 1_000, |_| {}).0
}

/// The same in chunks of about so many bytes, between which something happens; and how long the longest chunk was.
fn moved_in_chunks(from: &mut Node, bytes_max: usize, mut between: impl FnMut(&mut Node)) -> (Node, usize) {
    let mut node = Node::new(9);
    let mut transfer = Transfer::begin(&mut from.keyspace).expect("it is the first");
    let mut snapshot_receiver = SnapshotReceiver::new();
    let mut longest = 0;
    loop {
        let (chunk, is_last) = match transfer.next_chunk(&mut from.keyspace, bytes_max) {
            TransferStep::More(chunk) => (chunk, false),
            TransferStep::Last(chunk) => (chunk, true),
            TransferStep::Lost => panic!("little changes meanwhile"),
        };
        longest = longest.max(chunk.len());
        snapshot_receiver.take(&chunk).expect("what was sent is a chunk");
        if is_last {
            node.keyspace = snapshot_receiver.finish().expect("all of it has come");
            return (node, longest);
        }
        between(from);
    }
}

const LATER: &[u8] = b"later";
const PREPARED: u8 = 0;

fn refused(refusal: Refusal) -> Vec<u8> {
    vec![refusal.code()]
}

/// Runs a scene with a mistake, which must break it.
pub(crate) fn breaks(mutation: Mutation, scene: fn()) {
    mutations::plant(Some(mutation));
    let result = std::panic::catch_unwind(scene);
    mutations::plant(None);
    assert!(result.is_err(), "the scene does not notice {mutation:?}");
}

fn commands_wait_and_go_on() {
    let mut group = Group::new();
    group.run("SET k old");
    assert_eq!(group.prepare(txn(1, 0), "SET k new")[0], PREPARED);
    assert_eq!(group.run("APPEND k !"), "later");
    let number = group.number;
    assert_eq!(group.run("SET other v"), "+OK\r\n", "other keys are free");
    assert_eq!(group.late(number), Ok(None), "it waits");
    assert_eq!(group.counts(), (1, 1, 0, 0));
    group.resolve(txn(1, 0), true);
    assert_eq!(
        group.late(number),
        Ok(Some(b":4\r\n".to_vec())),
        "behind the effects"
    );
    assert_eq!(group.run("GETRANGE k 0 -1"), "$4\r\nnew!\r\n");
    let answers = vec![(number, 0)];
    group.apply(&EntryOperation::Received { answers });
    assert_eq!(group.late(number), Err(UnknownOrigin));
    group.forget(2, &[txn(1, 0)]);
    assert_eq!(group.counts(), (0, 0, 0, 0));
}

#[test]
fn commands_on_locked_keys_wait_and_are_carried_out_by_the_decision() {
    commands_wait_and_go_on();
}

#[test]
fn an_abort_leaves_everything_as_it_was() {
    let mut group = Group::new();
    group.run("SET k old");
    group.prepare(txn(1, 0), "SET k new");
    group.resolve(txn(1, 0), false);
    assert_eq!(group.run("GETRANGE k 0 -1"), "$3\r\nold\r\n");
    assert_eq!(group.query_txn(txn(1, 0)), VoteRecord::Aborted);
}

fn a_vote_record_is_written_once() {
    let mut group = Group::new();
    assert_eq!(group.query_txn(txn(1, 0)), VoteRecord::Refused);
    assert_eq!(group.prepare(txn(1, 0), "SET k v"), refused(Refusal::Queried));
    assert_eq!(group.prepare(txn(2, 0), "SET k v")[0], PREPARED);
    assert_eq!(group.query_txn(txn(2, 0)), VoteRecord::Prepared);
    assert_eq!(group.prepare(txn(2, 0), "SET k w"), [PREPARED], "it has voted");
    group.apply(&EntryOperation::Withdraw { txn: txn(2, 0) });
    assert_eq!(
        group.query_txn(txn(2, 0)),
        VoteRecord::Prepared,
        "a vote is final"
    );
    group.resolve(txn(2, 0), true);
    assert_eq!(group.query_txn(txn(2, 0)), VoteRecord::Committed);
    assert_eq!(group.run("GETRANGE k 0 -1"), "$1\r\nv\r\n");
}

#[test]
fn vote_records_are_written_once() {
    a_vote_record_is_written_once();
    breaks(Mutation::RefusalNotRecorded, a_vote_record_is_written_once);
    breaks(Mutation::PreparedRevoked, a_vote_record_is_written_once);
}

fn what_is_over_stays_over() {
    let mut group = Group::new();
    for seq in [4, 5] {
        group.prepare(txn(seq, 0), &format!("SET k{seq} v"));
        group.resolve(txn(seq, 0), true);
    }
    // An earlier one is still under way: only by its number is this one known to be over.
    group.forget(4, &[txn(5, 0)]);
    assert_eq!(
        group.query_txn(txn(5, 0)),
        VoteRecord::Over,
        "not as if it had never been"
    );
    assert_eq!(group.prepare(txn(5, 0), "SET k v"), refused(Refusal::Queried));
    assert_eq!(group.query_txn(txn(4, 0)), VoteRecord::Committed);
    group.forget(6, &[txn(4, 0)]);
    assert_eq!(group.counts(), (0, 0, 0, 0));
    for seq in [4, 5] {
        assert_eq!(group.query_txn(txn(seq, 0)), VoteRecord::Over);
        assert_eq!(group.prepare(txn(seq, 1), "SET k v"), refused(Refusal::Queried));
    }
    assert_eq!(group.counts(), (0, 0, 0, 0));
}

#[test]
fn what_is_forgotten_is_over_and_nothing_else() {
    what_is_over_stays_over();
    breaks(Mutation::MarkNotConsulted, what_is_over_stays_over);
}

fn one_phase_is_carried_out_if_what_it_has_seen_is_as_it_was() {
    let mut group = Group::new();
    group.run("SET seen 1");
    let put = |value: &[u8]| {
        vec![Effect::Put {
            db: db(0),
            object: Object::string(b"k", value, None, Version(0)),
        }]
    };
    let seen = |group: &Group| group.nodes[0].keyspace.version(db(0), b"seen");
    let one_phase = |group: &mut Group, version, value: &[u8]| {
        let unchanged = ConditionView::Unchanged {
            db: db(0),
            key: b"seen",
            version,
        };
        let answers = group.apply(&EntryOperation::OnePhase {
            expects: vec![unchanged],
            effects: put(value),
        });
        answers[0].clone()
    };
    let before = seen(&group);
    one_phase(&mut group, before, b"one");
    assert_eq!(group.run("GET k"), "$3\r\none\r\n");
    group.run("SET seen 2");
    one_phase(&mut group, before, b"two");
    assert_eq!(group.run("GET k"), "$3\r\none\r\n");
    // What a transaction holds is waited for, and looked at then.
    let now = seen(&group);
    group.prepare(txn(1, 0), "SET seen 3");
    assert_eq!(one_phase(&mut group, now, b"three"), LATER);
    let waited = group.number;
    group.resolve(txn(1, 0), true);
    assert!(
        group.late(waited).is_ok_and(|answer| answer.is_some()),
        "it has come"
    );
    assert_eq!(group.run("GET k"), "$3\r\none\r\n");
}

#[test]
fn one_phase_relies_on_what_has_not_changed() {
    one_phase_is_carried_out_if_what_it_has_seen_is_as_it_was();
    breaks(
        Mutation::OnePhaseNotJudged,
        one_phase_is_carried_out_if_what_it_has_seen_is_as_it_was,
    );
}

fn the_dead_do_not_prepare() {
    let mut group = Group::new();
    group.prepare(txn(1, 0), "SET k v");
    group.fence(9, &[9]);
    let dead = txn(2, 0);
    let mut encoded = Operations::new();
    let words = ArgsBuf::from_slices(["SET", "other", "v"]);
    encoded.push(&EntryOperation::Prepare(Box::new(Prepare {
        txn: dead,
        began: UnixMillis(0),
        participants: participants(),
        conditions: Vec::new(),
        expects: Vec::new(),
        work: Work::Evaluate {
            commands: vec![BlockCommand {
                db: db(0),
                protocol: Protocol::Resp2,
                args: words.as_args(),
            }],
            is_strict: false,
        },
    })));
    group.fill(encoded, true);
    let open: Vec<TxnId> = group.nodes[0]
        .keyspace
        .open_transactions()
        .map(|(txn, _)| txn)
        .collect();
    assert_eq!(
        open,
        [txn(1, 0)],
        "what had prepared is still decided by somebody"
    );
}

#[test]
fn who_is_fenced_cannot_prepare() {
    the_dead_do_not_prepare();
    breaks(Mutation::FenceIgnored, the_dead_do_not_prepare);
}

#[test]
fn of_the_dead_nothing_is_written_and_what_never_was_is_empty() {
    let mut group = Group::new();
    group.prepare(txn(1, 0), "SET k v");
    group.resolve(txn(1, 0), true);
    group.forget(0, &[txn(1, 0)]);
    let theirs = gateway(9, 0);
    let mut fence = Operations::new();
    fence.push(&EntryOperation::Fence {
        fence: Fence::new(Boot(9), [Boot(9)]),
    });
    group.fill(fence, true);
    for node in &mut group.nodes {
        let mut entry = EntryBuf::new(&header(1_000, 7));
        entry.begin_batch(theirs, 1, 0);
        for seq in [1, 2] {
            entry.push(&EntryOperation::QueryTxn(QueryTxn {
                txn: txn(seq, 0),
                participants: participants(),
            }));
        }
        let empty = vec![VoteRecord::Empty.code()];
        assert_eq!(apply(node, &entry.finish()), [empty.clone(), empty]);
        assert_eq!(
            node.keyspace.transaction_counts(),
            keyspace::TransactionCounts::default()
        );
    }
}

fn conditions_are_judged_under_the_locks() {
    let mut group = Group::new();
    group.run("SET k v");
    let there = group.nodes[0].keyspace.version(db(0), b"k");
    let unchanged = |version| ConditionView::Unchanged {
        db: db(0),
        key: b"k",
        version,
    };
    let wrong = KeyVersion::Absent(ids::Version(0));
    let vote = group.prepare_with(txn(1, 0), &["SET k a"], false, vec![unchanged(wrong)], vec![]);
    assert_eq!(vote, refused(Refusal::Condition));
    let vote = group.prepare_with(txn(2, 0), &["SET k b"], false, vec![], vec![unchanged(wrong)]);
    assert_eq!(vote, refused(Refusal::Changed));
    let vote = group.prepare_with(
        txn(3, 0),
        &["SET k c"],
        false,
        vec![unchanged(there)],
        vec![unchanged(there)],
    );
    assert_eq!(vote[0], PREPARED);
    // One that waits is judged when its turn comes.
    let vote = group.prepare_with(txn(4, 0), &["SET k d"], false, vec![unchanged(there)], vec![]);
    assert_eq!(vote, LATER);
    let number = group.number;
    group.resolve(txn(3, 0), true);
    assert_eq!(group.late(number), Ok(Some(refused(Refusal::Condition))));
}

#[test]
fn conditions_hold_when_a_transaction_prepares_or_it_is_refused() {
    conditions_are_judged_under_the_locks();
    breaks(
        Mutation::ConditionsNotJudged,
        conditions_are_judged_under_the_locks,
    );
    breaks(
        Mutation::VersionsNotChecked,
        conditions_are_judged_under_the_locks,
    );
}

#[test]
fn a_strict_transaction_of_which_a_command_fails_is_refused_with_the_error() {
    let mut group = Group::new();
    group.run("RPUSH list a");
    let lines = ["INCR list"];
    let vote = group.prepare_with(txn(1, 0), &lines, true, vec![], vec![]);
    assert_eq!(vote[0], Refusal::Failed.code());
    assert!(vote[1..].starts_with(b"-WRONGTYPE"), "the client is told it");
    assert_eq!(group.query_txn(txn(1, 0)), VoteRecord::Refused);
    let vote = group.prepare_with(txn(2, 0), &lines, false, vec![], vec![]);
    assert_eq!(vote[0], PREPARED, "in a block an error is a result");
}

#[test]
fn who_only_waits_is_refused_by_a_wound_or_a_query() {
    let mut group = Group::new();
    group.prepare(txn(1, 0), "SET k a");
    assert_eq!(group.prepare(txn(2, 0), "SET k b"), LATER);
    let second = group.number;
    assert_eq!(group.prepare(txn(3, 0), "SET k c"), LATER);
    let third = group.number;
    group.apply(&EntryOperation::Withdraw { txn: txn(2, 0) });
    assert_eq!(group.late(second), Ok(Some(refused(Refusal::Wounded))));
    assert_eq!(group.query_txn(txn(3, 0)), VoteRecord::Refused);
    assert_eq!(group.late(third), Ok(Some(refused(Refusal::Queried))));
    assert_eq!(group.counts(), (1, 0, 2, 2));
}

fn locks_without_a_vote_can_be_taken_away() {
    let mut group = Group::new();
    group.run("SET k v");
    assert_eq!(group.lock(txn(5, 0), "k")[0], PREPARED);
    assert_eq!(group.prepare(txn(2, 0), "SET k a")[0], PREPARED, "it is older");
    assert_eq!(group.install_after_lock(txn(5, 0)), refused(Refusal::Wounded));
    group.resolve(txn(2, 0), true);
    assert_eq!(group.lock(txn(6, 0), "k")[0], PREPARED);
    assert_eq!(group.prepare(txn(7, 0), "SET k b"), LATER, "it is younger");
    assert_eq!(group.install_after_lock(txn(6, 0))[0], PREPARED);
    group.resolve(txn(6, 0), true);
    assert_eq!(group.counts().1, 0, "the younger one has its turn");
}

#[test]
fn an_older_transaction_takes_the_locks_of_one_that_has_no_vote() {
    locks_without_a_vote_can_be_taken_away();
    breaks(
        Mutation::TakenLockPrepares,
        locks_without_a_vote_can_be_taken_away,
    );
}

#[test]
fn locks_that_come_when_their_transaction_is_over_are_let_go_by_a_query() {
    let mut group = Group::new();
    group.prepare(txn(3, 0), "SET k a");
    assert_eq!(group.lock(txn(4, 0), "k"), LATER);
    // Its coordinator gives it up while it waits.
    group.forget(5, &[txn(4, 0)]);
    group.resolve(txn(3, 0), true);
    assert_eq!(group.counts().0, 1, "it has the key all the same");
    assert_eq!(group.prepare(txn(9, 0), "SET k b"), LATER, "it is younger");
    let younger = group.number;
    assert_eq!(group.query_txn(txn(4, 0)), VoteRecord::Over);
    let answer = group.late(younger).expect("it waited").expect("the key is free");
    assert_eq!(answer[0], PREPARED);
}

fn mortal_keys_are_locked_alone() {
    let mut group = Group::new();
    group.run("SET mortal v PX 500");
    group.run("SET immortal v");
    assert_eq!(group.prepare(txn(1, 0), "GET immortal")[0], PREPARED);
    assert_eq!(group.prepare(txn(2, 0), "GET immortal")[0], PREPARED, "both read");
    assert_eq!(group.prepare(txn(3, 0), "GET mortal")[0], PREPARED);
    assert_eq!(
        group.prepare(txn(4, 0), "GET mortal"),
        LATER,
        "it could see the deadline pass"
    );
}

#[test]
fn a_key_with_a_deadline_is_locked_by_one_transaction_at_a_time() {
    mortal_keys_are_locked_alone();
    breaks(Mutation::MortalLockedShared, mortal_keys_are_locked_alone);
}

fn locks_last_until_the_decision() {
    let mut group = Group::new();
    group.prepare(txn(1, 0), "SET k a");
    assert_eq!(group.prepare(txn(2, 0), "SET k b"), LATER);
}

#[test]
fn a_vote_keeps_its_locks() {
    locks_last_until_the_decision();
    breaks(Mutation::LocksReleasedEarly, locks_last_until_the_decision);
    breaks(Mutation::LockIgnoredByCommand, commands_wait_and_go_on);
}

#[test]
fn what_is_put_is_answered_with_the_vote_and_there_when_it_is_committed() {
    let mut group = Group::new();
    group.run("MSET a 1 b 1");
    group.run("EXPIRE a 100");
    let voted = [&[PREPARED][..], b"+OK\r\n"].concat();
    assert_eq!(group.prepare_put(txn(1, 0), 0, "a 2 c 2 a 3"), voted);
    assert_eq!(group.prepare_put(txn(2, 0), 1, "b 4"), voted);
    assert_eq!(group.prepare_put(txn(3, 0), 0, "b 5"), LATER, "its key is locked");
    assert_eq!(group.run("GET d"), "$-1\r\n");
    let node = moved(&mut group.nodes[0]);
    group.nodes.push(node);
    assert_eq!(group.commit(txn(1, 0)), "", "that was answered");
    assert_eq!(group.run("MGET a c"), "*2\r\n$1\r\n3\r\n$1\r\n2\r\n");
    assert_eq!(group.run("TTL a"), ":-1\r\n");
    group.resolve(txn(2, 0), false);
    group.resolve(txn(3, 0), true);
    assert_eq!(group.run("GET b"), "$1\r\n5\r\n", "what was aborted did nothing");
}

#[test]
fn pairs_are_read_as_they_were_written_and_not_if_they_are_cut() {
    let mut whole = Operations::new();
    let words = ArgsBuf::from_slices(["key", "value", "other", ""]);
    whole.push(&EntryOperation::Prepare(Box::new(Prepare {
        txn: txn(1, 0),
        began: UnixMillis(1),
        participants: participants(),
        conditions: Vec::new(),
        expects: Vec::new(),
        work: Work::Put {
            db: db(3),
            pairs: Pairs::of(words.as_args()),
        },
    })));
    let whole = whole.into_bytes();
    let read = Operations::read_one(&whole, |operation| {
        let EntryOperation::Prepare(prepare) = operation else {
            panic!("it is one")
        };
        let Work::Put { db, pairs } = prepare.work else {
            panic!("it puts")
        };
        let pairs = pairs.iter().map(|(key, value)| [key.to_vec(), value.to_vec()]);
        (db, pairs.flatten().collect::<Vec<_>>())
    });
    let all = [&b"key"[..], b"value", b"other", b""].map(<[u8]>::to_vec);
    assert_eq!(read, Some((db(3), all.to_vec())));
    for end in 0..whole.len() {
        assert!(end == 0 || Operations::check(&whole[..end]).is_err(), "{end}");
    }
}

fn in_place_is_answered_to_everybody() {
    let mut group = Group::new();
    group.run("MSET a 1 b 2 c 3");
    let steps = ["DBSIZE", "DELETED a", "DBSIZE", "KEYS b", "DELETED b", "DBSIZE"];
    assert_eq!(group.prepare_in_place(txn(1, 0), &steps), [PREPARED]);
    let all = ":3\r\n:2\r\n*1\r\n$1\r\nb\r\n:1\r\n";
    assert_eq!(group.commit(txn(1, 0)), all);
    let node = moved(&mut group.nodes[0]);
    group.nodes.push(node);
    assert_eq!(group.commit(txn(1, 0)), all, "whoever comes later is told too");
    group.forget(2, &[txn(1, 0)]);
    assert_eq!(group.commit(txn(1, 0)), "", "until it is forgotten");
}

#[test]
fn what_is_carried_out_in_place_is_answered_to_whoever_asks_until_it_is_forgotten() {
    in_place_is_answered_to_everybody();
    breaks(Mutation::HoldRepliesNotKept, in_place_is_answered_to_everybody);
}

#[test]
fn replicas_with_answers_of_their_own_are_the_same() {
    let mut group = Group::new();
    group.run("MSET a 1 b 2");
    group.answers_alike = false;
    // Of the two replicas one counts how often keys are used, the other when.
    group.prepare_in_place(txn(1, 0), &["OBJECT IDLETIME a"]);
    let told = group.commit(txn(1, 0));
    assert!(told.starts_with('-') || told == ":0\r\n", "{told}");
    group.prepare(txn(2, 0), "INCR b");
    let words = ["INCR b", "OBJECT IDLETIME a"].map(|line| ArgsBuf::from_slices(line.split(' ')));
    let commands = words.iter().map(|words| BlockCommand {
        db: db(0),
        protocol: Protocol::Resp2,
        args: words.as_args(),
    });
    let block = EntryOperation::Block {
        conditions: Vec::new(),
        commands: commands.collect(),
    };
    assert_eq!(group.apply(&block)[0], LATER);
    group.resolve(txn(2, 0), true);
    assert_eq!(group.counts().3, 1, "what was answered later is kept");
}

fn a_whole_group_is_held() {
    let mut group = Group::new();
    group.prepare_in_place(txn(1, 0), &["FLUSHALL", "DBSIZE"]);
    assert_eq!(group.run("SET a 1").as_bytes(), LATER);
    assert_eq!(group.commit(txn(1, 0)), "+OK\r\n:0\r\n");
    assert_eq!(group.run("GETRANGE a 0 -1"), "$1\r\n1\r\n");
}

#[test]
fn who_writes_to_the_whole_keyspace_holds_all_of_the_group() {
    a_whole_group_is_held();
    breaks(Mutation::WholeNotLocked, a_whole_group_is_held);
}

/// A group with everything in it that a group can have of transactions.
fn full() -> Group {
    let mut group = Group::new();
    for key in ["a", "b", "c", "l"] {
        group.run(&format!("SET {key} 1"));
    }
    group.prepare_in_place(txn(6, 0), &["DBSIZE"]);
    group.resolve(txn(6, 0), true);
    group.prepare(txn(1, 0), "INCR a");
    group.prepare(txn(2, 0), "INCR a");
    group.run("INCR a");
    group.lock(txn(3, 0), "l");
    group.prepare(txn(4, 0), "INCR b");
    group.run("INCR b");
    group.resolve(txn(4, 0), true);
    group.query_txn(txn(5, 0));
    group.prepare(txn(7, 0), "INCR c");
    group.resolve(txn(7, 0), false);
    group.forget(1, &[txn(7, 0)]);
    // Keys with a deadline are locked alone, also by those who only read.
    group.run("SET m 1 PX 100000");
    group.prepare(txn(8, 0), "INCR m");
    group.prepare(txn(9, 0), "GETRANGE m 0 -1");
    assert_eq!(group.counts(), (3, 3, 4, 1));
    group
}

#[test]
fn a_state_that_was_transferred_has_the_same_transactions() {
    let mut group = full();
    let node = moved(&mut group.nodes[0]);
    assert_eq!(node.keyspace.state_hash(), group.nodes[0].keyspace.state_hash());
    group.nodes.push(node);
    // From here on all of them are compared after every entry.
    group.resolve(txn(1, 0), true);
    group.run("INCR a");
    assert_eq!(group.query_txn(txn(2, 0)), VoteRecord::Prepared);
    group.resolve(txn(2, 0), true);
    assert_eq!(group.run("GETRANGE a 0 -1"), "$1\r\n5\r\n");
    assert_eq!(group.commit(txn(6, 0)), ":4\r\n");
    group.resolve(txn(8, 0), true);
    assert_eq!(group.prepare(txn(10, 0), "GETRANGE m 0 -1"), LATER);
    group.resolve(txn(9, 0), true);
    group.resolve(txn(10, 0), true);
    assert_eq!(group.install_after_lock(txn(3, 0))[0], PREPARED);
    group.resolve(txn(3, 0), true);
    assert_eq!(group.query_txn(txn(5, 0)), VoteRecord::Refused);
    assert_eq!(group.query_txn(txn(7, 0)), VoteRecord::Over);
    group.forget(11, &[]);
    assert_eq!(
        group.query_txn(txn(5, 0)),
        VoteRecord::Refused,
        "it may not be over everywhere"
    );
    assert_eq!(group.query_txn(txn(7, 0)), VoteRecord::Over);
    let all: Vec<TxnId> = (1..11).map(|seq| txn(seq, 0)).collect();
    group.forget(11, &all);
    assert_eq!(group.counts().2, 0);
}

/// Something long of each kind that is part of the state and no object.
fn with_long_parts() -> Group {
    let mut group = Group::new();
    let long = |letter: &str| letter.repeat(70_000);
    group.run(&format!("SET read {}", long("d")));
    group.run(&format!("SET later {}", long("l")));
    group.prepare_in_place(txn(5, 0), &["GETDEL read"]);
    group.resolve(txn(5, 0), true);
    group.prepare(txn(6, 0), "STRLEN later");
    assert_eq!(group.run("GETDEL later"), "later");
    group.resolve(txn(6, 0), true);
    assert_eq!(
        group.prepare_put(txn(1, 0), 0, &format!("put {}", long("p")))[0],
        PREPARED
    );
    let effect = format!("SET effect {}", long("e"));
    assert_eq!(group.prepare(txn(3, 0), &effect)[0], PREPARED);
    let members: String = (0..3_000).map(|n| format!(" member:{n}")).collect();
    assert_eq!(
        group.prepare(txn(4, 0), &format!("SADD set{members}"))[0],
        PREPARED
    );
    assert_eq!(group.run(&format!("APPEND effect {}", long("w"))), "later");
    group
}

#[test]
fn what_is_long_and_no_object_makes_no_chunk_longer() {
    let mut group = with_long_parts();
    let (node, longest) = moved_in_chunks(&mut group.nodes[0], 4_000, |_| {});
    assert!(longest < 8_000, "a chunk of {longest} bytes");
    assert_eq!(node.keyspace.state_hash(), group.nodes[0].keyspace.state_hash());
    group.nodes.push(node);
    // From here on all of them are compared after every entry.
    for seq in [1, 3, 4] {
        group.resolve(txn(seq, 0), true);
    }
    assert_eq!(group.run("STRLEN put"), ":70000\r\n");
    assert_eq!(group.run("STRLEN effect"), ":140000\r\n");
    assert_eq!(group.run("SCARD set"), ":3000\r\n");
    assert_eq!(group.commit(txn(5, 0)).len(), 70_010);
    // What is carried out when it is committed holds everything.
    let run = format!("SET run {}", "r".repeat(70_000));
    assert_eq!(group.prepare_in_place(txn(7, 0), &[&run])[0], PREPARED);
    let (node, longest) = moved_in_chunks(&mut group.nodes[0], 4_000, |_| {});
    assert!(longest < 8_000, "a chunk of {longest} bytes");
    group.nodes.push(node);
    group.resolve(txn(7, 0), true);
    assert_eq!(group.run("STRLEN run"), ":70000\r\n");
}

fn what_is_long_goes_and_comes_while_it_is_sent() {
    for moment in 0..120 {
        let mut group = with_long_parts();
        let others = group.nodes.split_off(1);
        let mut sender = group.nodes.pop().expect("there were two");
        let mut steps = 0;
        let (node, longest) = moved_in_chunks(&mut sender, 4_000, |node| {
            steps += 1;
            if steps == moment {
                let mut group = Group {
                    nodes: vec![std::mem::replace(node, Node::new(5))],
                    number: group.number,
                    now: group.now,
                    answers_alike: true,
                };
                group.resolve(txn(3, 0), moment % 2 == 0);
                group.resolve(txn(4, 0), moment % 2 == 1);
                let other = format!("SET effect {}", "o".repeat(70_000));
                group.prepare(txn(7, 0), &other);
                *node = group.nodes.remove(0);
            }
        });
        assert!(longest < 8_000, "a chunk of {longest} bytes");
        assert_eq!(node.keyspace.state_hash(), sender.keyspace.state_hash());
        drop(others);
    }
}

#[test]
fn what_is_long_is_never_taken_for_what_went_before() {
    what_is_long_goes_and_comes_while_it_is_sent();
    breaks(
        Mutation::PartTakenForAnother,
        what_is_long_goes_and_comes_while_it_is_sent,
    );
}

#[test]
fn a_transfer_ends_although_something_long_goes_and_comes_all_the_time() {
    let mut group = Group::new();
    let long = |seq: u64| format!("SET key {}:{}", seq, "v".repeat(20_000));
    let mut seq = 1;
    group.prepare(txn(seq, 0), &long(seq));
    let mut sender = group.nodes.remove(0);
    let mut steps = 0;
    let (node, _) = moved_in_chunks(&mut sender, 4_000, |node| {
        steps += 1;
        assert!(steps < 1_000, "it goes on and on");
        if steps % 3 == 0 {
            // No part of five chunks is ever sent to its end.
            group.nodes.insert(0, std::mem::replace(node, Node::new(5)));
            group.resolve(txn(seq, 0), false);
            seq += 1;
            group.prepare(txn(seq, 0), &long(seq));
            *node = group.nodes.remove(0);
        }
    });
    assert_eq!(node.keyspace.state_hash(), sender.keyspace.state_hash());
}

#[test]
fn damaged_state_is_refused_or_taken_and_never_a_panic() {
    damage(&mut full().nodes[0], 1_000_000, 5_000, 1_000);
    damage(&mut with_long_parts().nodes[0], 4_000, 1_000, 200);
}

/// So many transfers that are damaged on their way, in chunks of about so many bytes, of which so many are noticed at least.
fn damage(from: &mut Node, bytes_max: usize, transfers: u32, refusals_min: u32) {
    let mut transfer = Transfer::begin(&mut from.keyspace).expect("it is the first");
    let mut chunks = Vec::new();
    loop {
        match transfer.next_chunk(&mut from.keyspace, bytes_max) {
            TransferStep::More(chunk) => chunks.push(chunk),
            TransferStep::Last(chunk) => {
                chunks.push(chunk);
                break;
            }
            TransferStep::Lost => panic!("nothing changes meanwhile"),
        }
    }
    let mut prng = Prng::new(11);
    let mut refusals = 0;
    for _ in 0..transfers {
        let mut snapshot_receiver = SnapshotReceiver::new();
        let mut is_taken = true;
        let damaged = prng.below(chunks.len() as u64) as usize;
        for (number, chunk) in chunks.iter().enumerate() {
            let mut bytes = chunk.clone();
            if number == damaged && prng.below(8) == 0 {
                bytes.truncate(prng.below(bytes.len() as u64) as usize);
            }
            for _ in 0..prng.below(3) {
                if bytes.is_empty() || number != damaged {
                    break;
                }
                // What is not the middle of something long, mostly.
                let far = [40, bytes.len() as u64][prng.below(2) as usize];
                let at = prng.below(far.min(bytes.len() as u64)) as usize;
                bytes[at] = [0, 1, 0xff, prng.next_u64() as u8][prng.below(4) as usize];
            }
            is_taken = is_taken && snapshot_receiver.take(&bytes).is_ok();
        }
        if !is_taken || snapshot_receiver.finish().is_none() {
            refusals += 1;
        }
    }
    assert!(refusals > refusals_min, "much of it is noticed: {refusals}");
}

fn request(number: u128) -> ClientRequest {
    let id = 1_000 << 80 | 7 << 76 | 0b10 << 62 | number;
    ClientRequest {
        id: RequestUuid::of_bytes(id.to_be_bytes()),
        digest: 5,
        protocol: Protocol::Resp2,
    }
}

fn a_named_request_is_carried_out_once() {
    let mut group = Group::new();
    assert_eq!(group.prepare_named(txn(1, 1), request(1), "a"), [0]);
    group.resolve(txn(1, 1), true);
    let known = [&[Refusal::Known.code(), 0][..], b":1\r\n"].concat();
    assert_eq!(group.prepare_named(txn(2, 1), request(1), "a"), known);
    // Nothing is held by it.
    assert_eq!(group.run("SET a 1"), "+OK\r\n");
    let misused = ClientRequest {
        digest: 6,
        ..request(1)
    };
    assert_eq!(
        group.prepare_named(txn(3, 1), misused, "a"),
        [Refusal::Known.code(), 4]
    );
    assert_eq!(group.prepare_named(txn(4, 1), request(2), "a"), [0]);
}

#[test]
fn what_was_not_committed_is_not_kept() {
    let mut group = Group::new();
    assert_eq!(group.prepare_named(txn(1, 1), request(1), "a"), [0]);
    group.resolve(txn(1, 1), false);
    assert_eq!(group.prepare_named(txn(2, 1), request(1), "a"), [0]);
}

#[test]
fn the_same_request_waits_for_the_end_of_the_first_though_they_have_no_key_in_common() {
    let mut group = Group::new();
    assert_eq!(group.prepare_named(txn(1, 1), request(1), "a"), [0]);
    assert_eq!(group.prepare_named(txn(2, 1), request(1), "b"), b"later");
    let number = group.number;
    group.resolve(txn(1, 1), true);
    let known = [&[Refusal::Known.code(), 0][..], b":1\r\n"].concat();
    assert_eq!(group.late(number), Ok(Some(known)));
}

#[test]
fn a_named_request_is_refused_with_its_result_once_it_is_committed() {
    a_named_request_is_carried_out_once();
    breaks(Mutation::ResultNotKept, a_named_request_is_carried_out_once);
}

/// What a group answers whose state is gone, or is from before, to those who knew it in its first generation.
#[test]
fn a_group_that_began_anew_says_that_what_it_does_not_know_is_lost_and_writes_nothing_down() {
    let mut group = Group::new();
    group.prepare(txn(1, 0), "SET k v");
    group.prepare(txn(2, 0), "SET k w");
    group.lock(txn(3, 0), "other");
    let place = Participant {
        group: GroupId::new(0),
        generation: 1,
    };
    for node in &mut group.nodes {
        node.keyspace.set_place(place);
    }
    assert_eq!(group.query_txn(txn(1, 0)), VoteRecord::Prepared, "that it knows");
    for seq in [2, 3, 4, 4] {
        assert_eq!(
            group.query_txn(txn(seq, 0)),
            VoteRecord::Lost,
            "transaction {seq}"
        );
    }
    assert_eq!(group.prepare(txn(5, 0), "SET k v"), refused(Refusal::Renewed));
    assert_eq!(group.counts(), (1, 0, 0, 1), "only what waited has an answer");
    group.resolve(txn(1, 0), true);
    assert_eq!(group.run("GETRANGE k 0 -1"), "$1\r\nv\r\n");
}

#[test]
fn a_decision_that_comes_too_late_changes_nothing_and_stops_no_group() {
    let mut group = Group::new();
    group.prepare(txn(1, 0), "SET k v");
    group.resolve(txn(1, 0), false);
    group.query_txn(txn(2, 0));
    for seq in [1, 2] {
        // Another group has lost that it voted, and so its coordinator goes by what nobody else knows.
        group.resolve(txn(seq, 0), true);
        for node in &mut group.nodes {
            assert_eq!(std::mem::take(&mut node.local.torn), [txn(seq, 0)], "it is told");
        }
    }
    assert_eq!(group.query_txn(txn(1, 0)), VoteRecord::Aborted);
    assert_eq!(group.query_txn(txn(2, 0)), VoteRecord::Refused);
    assert_eq!(
        group.run("GETRANGE k 0 -1"),
        "$0\r\n\r\n",
        "and the group goes on"
    );
}

#[test]
fn who_waits_for_a_key_is_served_in_the_entry_that_fills_it_before_what_follows() {
    let mut group = Group::new();
    let (first, second) = (group.wait(1, "BLPOP a k 0"), group.wait(2, "BRPOPLPUSH k to 0"));
    let third = group.wait(3, "BLPOP to 0");
    let scored = group.wait(4, "BZPOPMIN k 0");
    let replies = group.fill(operations(&["RPUSH k 1 2", "LPOP k", "EXISTS k to"]), false);
    assert_eq!(replies, [&b":2\r\n"[..], b"$-1\r\n", b":0\r\n"]);
    assert_eq!(
        group.served(first).as_deref(),
        Some("*2\r\n$1\r\nk\r\n$1\r\n1\r\n")
    );
    assert_eq!(group.served(second).as_deref(), Some("$1\r\n2\r\n"));
    assert_eq!(
        group.served(third).as_deref(),
        Some("*2\r\n$2\r\nto\r\n$1\r\n2\r\n")
    );
    assert_eq!(group.served(scored), None, "there was no sorted set");
    // Of a replica that was sent the state, too.
    let moved = moved(&mut group.nodes[0]);
    group.nodes[1] = moved;
    group.run("ZADD k 7 m");
    assert!(
        group
            .served(scored)
            .is_some_and(|reply| reply.ends_with("$1\r\n7\r\n"))
    );
    assert_eq!(group.run("EXISTS k"), ":0\r\n");
}

#[test]
fn what_a_gateway_awaits_no_more_of_a_group_that_began_anew_is_forgotten() {
    let mut group = Group::new();
    let waits: Vec<u64> = (1..=4).map(|client| group.wait(client, "BLPOP k 0")).collect();
    let answered = group.wait(5, "BLPOP other 0");
    group.run("RPUSH other v");
    assert!(group.served(answered).is_some());
    group.apply(&EntryOperation::Resume(Resume {
        up_to: answered,
        batches: vec![waits[1]],
        answers: vec![(waits[2], 0)],
    }));
    for gone in [waits[0], waits[3], answered] {
        assert_eq!(group.late(gone), Err(UnknownOrigin));
    }
    let later = group.wait(6, "BLPOP k 0");
    group.run("RPUSH k 1 2 3 4");
    for served in [waits[1], waits[2], later] {
        assert!(group.served(served).is_some(), "it is awaited");
    }
    assert_eq!(group.run("LPOP k"), "$1\r\n4\r\n", "nobody else waits");
}

#[test]
fn who_does_not_wait_any_more_is_answered_nil_and_nothing_is_popped() {
    let mut group = Group::new();
    let over = group.wait(1, "BLPOP k 0");
    let elsewhere = group.wait(2, "BLMOVE k k LEFT LEFT 0");
    group.apply(&EntryOperation::EndWait { id: wait_id(1) });
    assert_eq!(group.served(over).as_deref(), Some("*-1\r\n"));
    group.apply(&EntryOperation::EndWaits { boot: OURS.boot });
    assert_eq!(group.served(elsewhere).as_deref(), Some("*-1\r\n"));
    group.run("RPUSH k 1");
    assert_eq!(group.run("LPOP k"), "$1\r\n1\r\n");
    // Whoever was served before stays served.
    let served = group.wait(3, "BLPOP k 0");
    group.run("RPUSH k 2");
    group.apply(&EntryOperation::EndWait { id: wait_id(3) });
    assert!(group.served(served).is_some_and(|reply| reply.ends_with("2\r\n")));
    let fenced = group.wait(4, "BLPOP k 0");
    group.fence(5, &[4]);
    assert_eq!(group.late(fenced), Err(UnknownOrigin));
    assert!(!group.nodes[0].keyspace.has_waiters());
}

#[test]
fn who_waits_for_a_key_goes_before_those_who_wait_for_the_transaction_that_fills_it() {
    let mut group = Group::new();
    let waiter = group.wait(1, "BLPOP k 0");
    assert_eq!(group.prepare(txn(1, 0), "RPUSH k 1")[0], PREPARED);
    assert_eq!(group.run("LPOP k"), "later");
    let popped = group.number;
    // It waits for the transaction first, and then for the key.
    let other = group.wait(2, "BLPOP k 0");
    group.resolve(txn(1, 0), true);
    assert!(group.served(waiter).is_some_and(|reply| reply.ends_with("1\r\n")));
    assert_eq!(group.late(popped), Ok(Some(b"$-1\r\n".to_vec())));
    assert_eq!(group.served(other), None);
    group.run("RPUSH k 2");
    assert!(group.served(other).is_some_and(|reply| reply.ends_with("2\r\n")));
}

#[test]
fn a_wait_that_needs_a_key_which_a_transaction_holds_waits_for_that_and_stays_first() {
    let mut group = Group::new();
    let (first, second) = (
        group.wait(1, "BLMOVE k held LEFT LEFT 0"),
        group.wait(2, "BLPOP k 0"),
    );
    assert_eq!(group.prepare(txn(1, 0), "RPUSH held x")[0], PREPARED);
    group.run("RPUSH k 1 2");
    assert_eq!((group.served(first), group.served(second)), (None, None));
    group.resolve(txn(1, 0), true);
    assert_eq!(group.served(first).as_deref(), Some("$1\r\n1\r\n"));
    assert!(group.served(second).is_some_and(|reply| reply.ends_with("2\r\n")));
    assert_eq!(group.run("LRANGE held 0 -1"), "*2\r\n$1\r\n1\r\n$1\r\nx\r\n");
    // Whose time is over while he waits for a transaction is tried once more.
    let over = group.wait(3, "BLMOVE k held LEFT LEFT 0");
    assert_eq!(group.prepare(txn(2, 0), "RPUSH held y")[0], PREPARED);
    group.run("RPUSH k 3");
    group.run("LPOP k");
    group.apply(&EntryOperation::EndWait { id: wait_id(3) });
    group.resolve(txn(2, 0), true);
    assert_eq!(group.served(over).as_deref(), Some("$1\r\n3\r\n"));
}

/// Commands, in the format of entries.
fn operations(lines: &[&str]) -> Operations {
    let mut encoded = Operations::new();
    for line in lines {
        let words = ArgsBuf::from_slices(line.split(' '));
        encoded.push(&EntryOperation::Command {
            db: db(0),
            protocol: Protocol::Resp2,
            args: words.as_args(),
        });
    }
    encoded
}

//! Three groups and two gateways in one thread. Every message travels through a queue of its pair of ends; a
//! seeded choice says which queue delivers next, so that everything that could overtake does, sooner or later.

use command::Spec;
use ids::{Boot, Db, GroupCount, GroupId, Groups, HashSeed, Prng, Slot, UnixMillis};
use keyspace::{Effect, EventClasses, KeyVersion, Object, SeenObject};
use replica::{
    Assignment, Condition, Copying, LocalCounts, Operation, Output, Part, Replica, Replies, ReplyTo, Request,
    Returned, SnapshotAsker, Step, Turn, locks_of,
};
use resp::{ArgsBuf, Protocol};
use std::collections::{BTreeMap, VecDeque};
use txn::{Decision, Participant, Refusal, TxnId, Vote, VoteTally};

pub(crate) const GROUPS: u16 = 3;
const GATEWAYS: u16 = 2;

fn groups() -> Groups {
    Groups::with_default_partitions(GroupCount::new(GROUPS).expect("a valid count"))
}

pub(crate) fn group_of(key: &[u8]) -> GroupId {
    groups().group_of(Slot::of_key(key))
}

pub(crate) fn operation(db: u8, line: &str) -> Operation {
    let args = ArgsBuf::from_slices(line.split(' '));
    let spec = command::resolve_in_group(args.as_args()).expect("a known command");
    Operation {
        spec,
        db: Db::new(db).expect("below sixteen"),
        protocol: Protocol::Resp2,
        args,
    }
}

/// How a transaction is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Each group evaluates its part when it prepares.
    Evaluate,
    /// The same, and a part that answers an error refuses for all.
    Strict,
    /// Values are read under locks, and the effects computed by the gateway.
    Flow,
    /// The commands run in place when it is decided.
    Hold,
    /// Values are checked out under locks, and checked in again.
    Lend,
}

/// Faults that a test plants to see that it would be noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    None,
    /// Nobody is told of an older transaction that waits.
    WoundsGetLost,
    /// One participant is told the wrong decision.
    OneParticipantAborts,
    /// The reader of everything takes no locks of what it reads.
    ReadersTakeNoLocks,
    /// Values are lent to several readers at a time.
    LendsWithSharedLocks,
    /// What is lent and not changed is not given back.
    KeepsWhatIsLent,
    /// A part that answers an error is taken for one that was done.
    ErrorsAreResults,
}

/// What a client asked for, and what it was told.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The replies, group by group.
    Done(BTreeMap<GroupId, Vec<u8>>),
    /// A condition did not hold, or a strict part answered an error.
    Refused,
}

struct Transaction {
    id: TxnId,
    began: UnixMillis,
    way: Way,
    operations: Vec<Operation>,
    conditions: Vec<Condition>,
    groups: Vec<GroupId>,
    tally: VoteTally,
    objects: Vec<(Db, Box<[u8]>, Option<Object>)>,
    locked: usize,
    replies: BTreeMap<GroupId, Vec<u8>>,
    is_committed: bool,
}

impl Transaction {
    /// A group's part, but for its conditions.
    fn part(&self, txn: TxnId, assignment: Assignment) -> Part {
        Part {
            txn,
            began: self.began,
            participants: self.groups.iter().copied().map(Participant::first).collect(),
            conditions: Vec::new(),
            expects: Vec::new(),
            assignment,
            is_bounded: true,
        }
    }
}

enum Message {
    ToGroup(GroupId, Box<Request>),
    ToGateway(Box<Output>),
}

pub(crate) struct Cluster {
    pub(crate) prng: Prng,
    fault: Fault,
    replicas: Vec<Replica>,
    turns: Vec<Turn>,
    queues: BTreeMap<(u16, u16), VecDeque<Message>>,
    open: BTreeMap<u64, Transaction>,
    plain: BTreeMap<u64, GroupId>,
    asked: u64,
    answers: Vec<(u64, Answer)>,
    pub(crate) wounds: u64,
}

impl Cluster {
    pub(crate) fn new(seed: u64, fault: Fault) -> Cluster {
        let group = |number: u16| {
            let (group, seed) = (GroupId::new(number), HashSeed([seed, u64::from(number)]));
            Replica::new(group, seed, groups().founded_range(group))
        };
        let turn = |number| Turn {
            number,
            now: UnixMillis(1_000_000),
            seed,
            lfu: None,
            notify: EventClasses::default(),
            steps_max: usize::MAX,
            answers_bytes_max: usize::MAX,
            copying: Copying::at_once(256 * 1024),
            semantics: ids::SemanticsVersion::CURRENT,
            coding: None,
        };
        Cluster {
            prng: Prng::new(seed),
            fault,
            replicas: (0..GROUPS).map(group).collect(),
            turns: (0..u64::from(GROUPS)).map(turn).collect(),
            queues: BTreeMap::new(),
            open: BTreeMap::new(),
            plain: BTreeMap::new(),
            asked: 0,
            answers: Vec::new(),
            wounds: 0,
        }
    }

    /// What was asked since the beginning.
    pub(crate) fn asked(&self) -> u64 {
        self.asked
    }

    pub(crate) fn take_answers(&mut self) -> Vec<(u64, Answer)> {
        std::mem::take(&mut self.answers)
    }

    pub(crate) fn lock_counts(&self) -> Vec<(usize, usize)> {
        self.replicas
            .iter()
            .map(|replica| replica.state().lock_counts())
            .collect()
    }

    /// A new turn of the group's worker; its clock is not always monotonic, and not that of the others.
    fn turn(&mut self, group: GroupId) -> Turn {
        let turn = &mut self.turns[group.index()];
        if self.prng.below(3) == 0 {
            turn.number += u64::from(GROUPS);
            turn.now.0 += self.prng.below(7) as i64 - 2;
            turn.seed = self.prng.next_u64();
        }
        *turn
    }

    /// Carries out a command at once if its keys are free, as a worker that owns the group does.
    pub(crate) fn execute(&mut self, operation: Operation) -> Option<Vec<u8>> {
        let group = self.first_group(&operation);
        let turn = self.turn(group);
        let replica = &mut self.replicas[group.index()];
        if !replica.is_free(|| locks_of([operation.argv()], |_| true)) {
            return None;
        }
        Some(crate::execute(replica, &turn, &operation))
    }

    /// Reads the state past all locks.
    pub(crate) fn peek(&mut self, operation: &Operation) -> Vec<u8> {
        let group = self.first_group(operation);
        let turn = self.turn(group);
        crate::execute(&mut self.replicas[group.index()], &turn, operation)
    }

    fn first_group(&self, operation: &Operation) -> GroupId {
        let mut group = None;
        operation.keys(|key, _| group = group.or(Some(group_of(key))));
        group.expect("the command has a key")
    }

    pub(crate) fn version(&mut self, key: &[u8]) -> KeyVersion {
        let group = group_of(key);
        let turn = self.turn(group);
        self.replicas[group.index()]
            .state_mut()
            .version(&turn, Db::default(), key)
    }

    /// Does what leaders do between turns.
    pub(crate) fn idle(&mut self) {
        let group = GroupId::new(self.prng.below(u64::from(GROUPS)) as u16);
        let turn = self.turn(group);
        self.replicas[group.index()].expire_due(&turn, 100);
        self.replicas[group.index()].state_mut().collect_lazyfree(&mut 10);
    }

    /// Sends commands whose keys are all of one group.
    pub(crate) fn block(&mut self, conditions: Vec<Condition>, mut operations: Vec<Operation>) -> u64 {
        self.asked += 1;
        let number = self.asked;
        let group = self.first_group(&operations[0]);
        let gateway = self.gateway(number);
        let reply_to = ReplyTo {
            worker: gateway,
            connection: number,
            sequence: 0,
        };
        self.plain.insert(number, group);
        let request = match (operations.len(), conditions.is_empty()) {
            (1, true) => Request::Execute {
                reply_to,
                operation: operations.remove(0),
            },
            _ => Request::Block {
                reply_to,
                conditions,
                operations,
            },
        };
        self.ask(gateway, group, request);
        number
    }

    /// Sends a transaction over any groups.
    pub(crate) fn transaction(
        &mut self,
        way: Way,
        conditions: Vec<Condition>,
        operations: Vec<Operation>,
    ) -> u64 {
        self.asked += 1;
        let number = self.asked;
        let gateway = self.gateway(number);
        let mut groups = Vec::new();
        if way == Way::Hold {
            groups.extend((0..GROUPS).map(GroupId::new));
        }
        let mut add = |key: &[u8]| {
            if !groups.contains(&group_of(key)) {
                groups.push(group_of(key));
            }
        };
        operations
            .iter()
            .for_each(|operation| operation.keys(|key, _| add(key)));
        conditions
            .iter()
            .for_each(|condition| add(condition_key(condition)));
        let boot = Boot(1 + u64::from(gateway));
        let now = self.turns[self.prng.below(u64::from(GROUPS)) as usize].now;
        let transaction = Transaction {
            id: TxnId {
                boot,
                worker: gateway,
                seq: number,
                attempt: 0,
            },
            began: now,
            way,
            operations,
            conditions,
            tally: VoteTally::new([]),
            groups,
            objects: Vec::new(),
            locked: 0,
            replies: BTreeMap::new(),
            is_committed: false,
        };
        self.open.insert(number, transaction);
        self.attempt(number);
        number
    }

    fn gateway(&self, number: u64) -> u16 {
        (number % u64::from(GATEWAYS)) as u16
    }

    fn ask(&mut self, gateway: u16, group: GroupId, request: Request) {
        let queue = self
            .queues
            .entry((gateway, GATEWAYS + group.number()))
            .or_default();
        queue.push_back(Message::ToGroup(group, Box::new(request)));
    }

    fn attempt(&mut self, number: u64) {
        let transaction = self.open.get_mut(&number).expect("open");
        transaction.id.attempt += 1;
        transaction.tally = VoteTally::new(transaction.groups.iter().copied());
        transaction.objects.clear();
        transaction.locked = 0;
        transaction.replies.clear();
        let txn = transaction.id;
        let mut requests = Vec::new();
        for &group in &transaction.groups {
            let conditions: Vec<Condition> = conditions_in(&transaction.conditions, group);
            let ours = |key: &[u8]| group_of(key) == group;
            let reads_only = transaction
                .operations
                .iter()
                .all(|operation| is_read(operation.spec));
            if self.fault == Fault::ReadersTakeNoLocks && reads_only {
                let operations = operations_of(&transaction.operations, group);
                let see = Request::SnapshotRead {
                    txn,
                    conditions,
                    operations,
                    asker: SnapshotAsker::OfKeys,
                };
                requests.push((group, see));
                continue;
            }
            let assignment = match transaction.way {
                Way::Evaluate | Way::Strict => Assignment::Evaluate {
                    operations: operations_of(&transaction.operations, group),
                    is_strict: transaction.way == Way::Strict && self.fault != Fault::ErrorsAreResults,
                },
                Way::Hold => Assignment::InPlace {
                    steps: transaction.operations.iter().cloned().map(Step::Run).collect(),
                    after_lock: false,
                },
                Way::Lend => {
                    let locks = locks_of(transaction.operations.iter().map(Operation::argv), ours);
                    let locks = replica::with_conditions(locks, &conditions);
                    Assignment::CheckOut {
                        locks: match self.fault {
                            Fault::LendsWithSharedLocks => locks,
                            _ => locks.exclusive(),
                        },
                        keeps_place: false,
                    }
                }
                Way::Flow => {
                    let objects = objects_of(&transaction.operations, group);
                    transaction
                        .objects
                        .extend(objects.iter().map(|(db, key)| (*db, key.clone(), None)));
                    let alone = |key: &[u8]| {
                        let mut changes = false;
                        for operation in &transaction.operations {
                            operation.keys(|other, key_use| {
                                changes |= key == other && key_use != command::KeyUse::Read;
                            });
                        }
                        changes
                    };
                    Assignment::Lock {
                        keys: objects
                            .into_iter()
                            .map(|(db, key)| {
                                let alone = alone(&key);
                                ((db, key), alone)
                            })
                            .collect(),
                        is_whole: false,
                    }
                }
            };
            let part = Box::new(Part {
                conditions,
                ..transaction.part(txn, assignment)
            });
            requests.push((
                group,
                match transaction.way {
                    Way::Flow => Request::Lock(part),
                    _ => Request::Prepare(part),
                },
            ));
        }
        for (group, request) in requests {
            self.ask(txn.worker, group, request);
        }
    }

    /// Delivers one message; `false` if none is under way.
    pub(crate) fn step(&mut self) -> bool {
        let waiting: Vec<(u16, u16)> = self
            .queues
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(at, _)| *at)
            .collect();
        if waiting.is_empty() {
            return false;
        }
        let at = waiting[self.prng.below(waiting.len() as u64) as usize];
        match self
            .queues
            .get_mut(&at)
            .and_then(VecDeque::pop_front)
            .expect("not empty")
        {
            Message::ToGroup(group, request) => {
                let turn = self.turn(group);
                let mut outputs = Vec::new();
                self.replicas[group.index()].handle(&turn, *request, &mut outputs);
                for output in outputs {
                    let gateway = match &output {
                        Output::Replied { reply_to, .. }
                        | Output::Answered { reply_to, .. }
                        | Output::Waits { reply_to }
                        | Output::TooLarge { reply_to }
                        | Output::Failed { reply_to, .. }
                        | Output::FailedWatch { reply_to, .. }
                        | Output::Versions { reply_to, .. } => reply_to.worker,
                        Output::Locked { txn, .. }
                        | Output::SnapshotRead { txn, .. }
                        | Output::Decided { txn, .. }
                        | Output::Voted { txn, .. }
                        | Output::Resolved { txn, .. }
                        | Output::FailedPart { txn, .. }
                        | Output::Wound { txn } => txn.worker,
                        Output::OptimisticRead { .. }
                        | Output::QueriedTxn { .. }
                        | Output::Moved { .. }
                        | Output::Arrived { .. }
                        | Output::Undecided { .. } => {
                            unreachable!("nobody asks for these")
                        }
                    };
                    let queue = self
                        .queues
                        .entry((GATEWAYS + group.number(), gateway))
                        .or_default();
                    queue.push_back(Message::ToGateway(Box::new(output)));
                }
            }
            Message::ToGateway(output) => self.on_output(*output),
        }
        true
    }

    fn on_output(&mut self, output: Output) {
        match output {
            Output::Versions { .. } => unreachable!("nothing here watches"),
            Output::Replied { .. }
            | Output::Failed { .. }
            | Output::Waits { .. }
            | Output::FailedWatch { .. }
            | Output::FailedPart { .. }
            | Output::OptimisticRead { .. }
            | Output::QueriedTxn { .. }
            | Output::Resolved { .. }
            | Output::Moved { .. }
            | Output::Arrived { .. }
            | Output::Undecided { .. } => {
                unreachable!("every group has one replica")
            }
            Output::SnapshotRead { txn, group, seen } => self.on_snapshot_read(txn, group, seen.replies),
            Output::TooLarge { .. } => unreachable!("values here are small"),
            Output::Answered { reply_to, replies } => {
                let group = self
                    .plain
                    .remove(&reply_to.connection)
                    .expect("an answer to an open request, once");
                self.answers.push((
                    reply_to.connection,
                    match replies {
                        Some(replies) => Answer::Done(BTreeMap::from([(group, replies.into_bytes())])),
                        None => Answer::Refused,
                    },
                ));
            }
            Output::Locked {
                txn,
                group,
                is_logged: false,
                objects,
                ..
            } => {
                let objects = objects.into_iter();
                let objects = objects
                    .map(|object| object.and_then(SeenObject::into_object))
                    .collect();
                match self.open.get(&txn.seq) {
                    Some(open) if open.id == txn && open.is_committed => {
                        self.on_checked_out(txn, group, objects);
                    }
                    _ => self.on_locked(txn, group, objects),
                }
            }
            Output::Locked { .. } => unreachable!("nobody has a log"),
            Output::Voted {
                txn,
                group,
                vote,
                replies,
                ..
            } => self.on_voted(txn, group, vote, replies),
            Output::Decided {
                txn, group, replies, ..
            } => {
                let transaction = self.open.get_mut(&txn.seq).expect("it waits for this");
                assert!(transaction.is_committed && transaction.way == Way::Hold);
                transaction.replies.insert(group, replies.into_bytes());
                if transaction.replies.len() == transaction.groups.len() {
                    self.finish(txn.seq);
                }
            }
            Output::Wound { txn } => {
                if self.fault == Fault::WoundsGetLost {
                    return;
                }
                let Some(transaction) = self.current(txn) else {
                    return;
                };
                for group in transaction.tally.on_wound() {
                    self.ask(txn.worker, group, Request::Wound { txn });
                }
                self.wounds += 1;
            }
        }
    }

    fn current(&mut self, txn: TxnId) -> Option<&mut Transaction> {
        self.open
            .get_mut(&txn.seq)
            .filter(|transaction| transaction.id == txn && !transaction.is_committed)
    }

    fn on_locked(&mut self, txn: TxnId, group: GroupId, objects: Vec<Option<Object>>) {
        let (now, seed) = (self.turns[0].now, self.prng.next_u64());
        let Some(transaction) = self.current(txn) else {
            return;
        };
        let places = transaction
            .objects
            .iter_mut()
            .filter(|(_, key, _)| group_of(key) == group);
        let mut count = 0;
        for ((_, _, place), object) in places.zip(objects) {
            *place = object;
            count += 1;
        }
        assert_eq!(
            count,
            transaction
                .objects
                .iter()
                .filter(|(_, key, _)| group_of(key) == group)
                .count()
        );
        transaction.locked += 1;
        if transaction.locked < transaction.groups.len() {
            return;
        }
        let turn = Turn {
            number: 1,
            now,
            seed,
            lfu: None,
            notify: EventClasses::default(),
            steps_max: usize::MAX,
            answers_bytes_max: usize::MAX,
            copying: Copying::at_once(256 * 1024),
            semantics: ids::SemanticsVersion::CURRENT,
            coding: None,
        };
        let mut scratch = turn.scratch(now);
        for (db, key, object) in transaction.objects.drain(..) {
            scratch.place(db, &key, object);
        }
        for operation in &transaction.operations {
            let mut replies = Replies::default();
            operation.run_on(&mut scratch, &mut replies);
            let mut group = None;
            operation.keys(|key, _| group = group.or(Some(group_of(key))));
            let part = transaction
                .replies
                .entry(group.expect("it has a key"))
                .or_default();
            part.extend_from_slice(replies.bytes());
        }
        let mut effects: BTreeMap<GroupId, Vec<Effect>> = BTreeMap::new();
        for effect in scratch.take_effects() {
            effects.entry(group_of(effect.key())).or_default().push(effect);
        }
        let mut requests = Vec::new();
        for &group in &transaction.groups {
            let assignment = Assignment::Install {
                effects: effects.remove(&group).unwrap_or_default(),
                after_lock: true,
                result: None,
            };
            let part = Part {
                conditions: conditions_in(&transaction.conditions, group),
                ..transaction.part(txn, assignment)
            };
            requests.push((group, part));
        }
        for (group, part) in requests {
            self.ask(txn.worker, group, Request::Prepare(Box::new(part)));
        }
    }

    /// The replies of a reader who takes no locks.
    fn on_snapshot_read(&mut self, txn: TxnId, group: GroupId, replies: Option<Replies>) {
        let transaction = self.open.get_mut(&txn.seq).expect("open");
        let replies = replies.expect("readers of everything have no conditions");
        transaction.replies.insert(group, replies.into_bytes());
        if transaction.replies.len() == transaction.groups.len() {
            self.finish(txn.seq);
        }
    }

    fn on_checked_out(&mut self, txn: TxnId, group: GroupId, objects: Vec<Option<Object>>) {
        let (now, seed, fault) = (self.turns[0].now, self.prng.next_u64(), self.fault);
        let transaction = self.open.get_mut(&txn.seq).expect("it waits for this");
        assert!(transaction.is_committed && transaction.way == Way::Lend);
        let keys = objects_of(&transaction.operations, group);
        let lent = keys.into_iter().zip(objects);
        transaction
            .objects
            .extend(lent.map(|((db, key), object)| (db, key, object)));
        transaction.locked += 1;
        if transaction.locked < transaction.groups.len() {
            return;
        }
        let turn = Turn {
            number: 1,
            now,
            seed,
            lfu: None,
            notify: EventClasses::default(),
            steps_max: usize::MAX,
            answers_bytes_max: usize::MAX,
            copying: Copying::at_once(256 * 1024),
            semantics: ids::SemanticsVersion::CURRENT,
            coding: None,
        };
        let mut scratch = turn.scratch(now);
        for (db, key, object) in transaction.objects.drain(..) {
            scratch.place(db, &key, object);
        }
        for operation in &transaction.operations {
            let mut replies = Replies::default();
            operation.run_on(&mut scratch, &mut replies);
            let mut group = None;
            operation.keys(|key, _| group = group.or(Some(group_of(key))));
            let part = transaction.replies.entry(group.expect("it has a key"));
            part.or_default().extend_from_slice(replies.bytes());
        }
        let mut all: BTreeMap<GroupId, Vec<Returned>> = BTreeMap::new();
        scratch.check_in(|one| {
            if fault != Fault::KeepsWhatIsLent || matches!(one, Returned::Changed(_)) {
                all.entry(group_of(one.key())).or_default().push(one);
            }
        });
        let mut lazyfree = scratch.take_lazyfree();
        for group in transaction.groups.clone() {
            let request = Request::CheckIn {
                txn,
                returned: all.remove(&group).unwrap_or_default(),
                events: Vec::new(),
                lazyfree: std::mem::take(&mut lazyfree),
                counts: LocalCounts::default(),
            };
            self.ask(txn.worker, group, request);
        }
        self.finish(txn.seq);
    }

    fn on_voted(&mut self, txn: TxnId, group: GroupId, vote: Vote, replies: Replies) {
        let fault = self.fault;
        let Some(transaction) = self.current(txn) else {
            return;
        };
        if matches!(transaction.way, Way::Evaluate | Way::Strict) {
            transaction.replies.insert(group, replies.into_bytes());
        }
        let Some(decision) = transaction.tally.on_vote(group, vote) else {
            return;
        };
        let (groups, way) = (transaction.groups.clone(), transaction.way);
        let operations = transaction.operations.clone();
        if decision == Decision::Commit && way == Way::Lend {
            transaction.is_committed = true;
            for group in groups {
                let keys = objects_of(&operations, group);
                self.ask(txn.worker, group, Request::CheckOut { txn, keys });
            }
            return;
        }
        for (index, &group) in groups.iter().enumerate() {
            let lies = fault == Fault::OneParticipantAborts && index == 1;
            let decide = Request::Decide {
                txn,
                is_committed: decision == Decision::Commit && !lies,
                is_awaited: decision == Decision::Commit && way == Way::Hold,
                worker: txn.worker,
                is_final: true,
            };
            self.ask(txn.worker, group, decide);
        }
        match decision {
            Decision::Commit if way == Way::Hold => {
                let transaction = self.open.get_mut(&txn.seq).expect("open");
                transaction.is_committed = true;
                transaction.replies.clear();
            }
            Decision::Commit => self.finish(txn.seq),
            Decision::Abort(Refusal::Condition | Refusal::Failed) => {
                self.open.remove(&txn.seq);
                self.answers.push((txn.seq, Answer::Refused));
            }
            Decision::Abort(Refusal::Wounded) => self.attempt(txn.seq),
            Decision::Abort(Refusal::TooLarge) => {
                // Something is checked out: how large it is cannot be seen.
                let transaction = self.open.get_mut(&txn.seq).expect("open");
                transaction.way = Way::Lend;
                self.attempt(txn.seq);
            }
            Decision::Abort(refusal) => unreachable!("every group has one replica: {refusal:?}"),
        }
    }

    fn finish(&mut self, number: u64) {
        let transaction = self.open.remove(&number).expect("open");
        self.answers.push((number, Answer::Done(transaction.replies)));
    }
}

fn conditions_in(conditions: &[Condition], group: GroupId) -> Vec<Condition> {
    let is_there = |condition: &&Condition| group_of(condition_key(condition)) == group;
    conditions.iter().filter(is_there).cloned().collect()
}

/// The objects of a group that operations name, each once.
fn objects_of(operations: &[Operation], group: GroupId) -> Vec<(Db, Box<[u8]>)> {
    let mut objects: Vec<(Db, Box<[u8]>)> = Vec::new();
    for operation in operations {
        operation.keys(|key, _| {
            let is_known = |(db, other): &(Db, Box<[u8]>)| *db == operation.db && **other == *key;
            if group_of(key) == group && !objects.iter().any(is_known) {
                objects.push((operation.db, key.into()));
            }
        });
    }
    objects
}

fn is_read(spec: &Spec) -> bool {
    spec.flags.contains(command::Flags::READONLY)
}

pub(crate) fn condition_key(condition: &Condition) -> &[u8] {
    match condition {
        Condition::Unchanged { key, .. } | Condition::Absent { key, .. } => key,
    }
}

/// The operations whose first key is of `group`: here all keys of one operation are of one group, unless values
/// flow.
fn operations_of(operations: &[Operation], group: GroupId) -> Vec<Operation> {
    let ours = |operation: &&Operation| {
        let mut first = None;
        operation.keys(|key, _| first = first.or(Some(group_of(key))));
        first == Some(group)
    };
    operations.iter().filter(ours).cloned().collect()
}

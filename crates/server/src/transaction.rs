//! Requests over several groups that do not all live here, or that others hold, but for those that another worker decides
//! (`entrusted.rs`).
//!
//! The gateway is the coordinator. What each state waits for, and what ends it:
//!
//! | state | waits for | then |
//! | --- | --- | --- |
//! | reading | `Locked` from every group | evaluate on a scratch, `Prepare` with effects: preparing |
//! | preparing | a vote from every group | all Prepared: answer and `Resolve(Commit)`; one Refused: `Resolve(Abort)` |
//! | holding | `Resolved` with replies from every group | answer |
//! | stepping | as reading, preparing, and then holding | answer |
//! | lending | `Lent` from every group, then the errand | `TakeBack`, answer |
//! | each | `Resolved` with replies from every group, each at a time of its own | answer |
//!
//! A refusal for a condition is answered (nil, or 0), and one for an error by that error; a refusal by a wound begins a new
//! attempt of the same age. A group that has a log by now, because another node has joined, refuses as *Busy*: the program begins
//! again over groups whose logs decide.
//! A program that only reads and writes keys inside their groups goes straight to *preparing*. One that concerns
//! whole groups and writes locks all of them, and its commands are carried out in place at `Resolve`: *holding*. One that
//! also moves values between groups reads first, and then tells each group what to do step by step: *stepping*
//! (`plan.rs`). One
//! that walks over very large values locks their keys alone, as if to hold them, and borrows the values: *lending*. See
//! `aside.rs`. A group may refuse a program of the other ways as too large: it begins again as one of these.
//!
//! What a connection sends behind a command over several groups may pass it, unless it names one of its keys:
//! then it waits, and sees what the command did. Behind an `EXEC` or a command on the whole keyspace everything
//! waits. Nor does a transaction begin before what its connection sent to one of its keys earlier: that may wait for locks,
//! and count as younger.

use crate::aside::Errand;
use crate::delivery::{Answered, Answers, Delivery};
use crate::gateway::{Gateway, touches};
use crate::message::Message;
use crate::named::error_of;
use crate::pipeline::Pipeline;
use crate::plan::Plan;
use crate::program::{Extent, Item, Program, by_group, group_of_key};
use crate::session::Session;
use crate::timing::Caller;
use crate::transaction_figures::TransactionSight;
use bytes::Bytes;
use ids::GroupId;
use keyspace::{Effect, Event, Object};
use replica::{
    FullKey, Journey, Operation, Outcome, Output, Replies, Request, Scratch, Task, Ticket, Verdict, locks_of,
    with_conditions,
};
use resp::{Protocol, Writer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use txn::{Coordinator, Decision, Priority, Refusal, TxnId, Vote};

/// What a worker's gateway coordinates at the moment. Bounded by its connections: each has at most one of these
/// under way.
pub(crate) struct Transactions {
    worker: u16,
    begun: u64,
    open: BTreeMap<u64, Transaction>,
    /// `EXEC` within one group, sent there whole.
    blocks: BTreeMap<(u64, u64), Program>,
    pub(crate) outputs: VecDeque<Output>,
}

struct Transaction {
    id: TxnId,
    priority: Priority,
    /// It concerns one group, and must not pass plain commands that wait there.
    keeps_place: bool,
    ticket: Ticket,
    program: Program,
    extent: Extent,
    kind: Kind,
    coordinator: Coordinator,
    /// What the groups answered: for each the index of the item and its reply.
    parts: BTreeMap<GroupId, (Vec<usize>, Replies)>,
    /// Keys that it reads and that only the data name, as far as an attempt has found them.
    wanted: BTreeMap<GroupId, BTreeSet<FullKey>>,
    /// Groups whose `Locked` or `Resolved` is still to come.
    outstanding: usize,
    scratch: Option<Scratch>,
    /// The replies of a program that was evaluated here, one for each operation.
    evaluated: Replies,
    /// What the groups are to do in steps.
    plan: Plan,
    /// Nanoseconds that a command took here at once, to be noted when it is over.
    spent: Option<u64>,
    /// A command that was sent aside by itself: its connection does not know of a transaction.
    is_single: bool,
    /// Whether its lookups of what is lent count as use of keys.
    touches: bool,
}

/// Which way a transaction takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Each group evaluates its own part when it prepares.
    Evaluate,
    /// Values cross groups: read, evaluate here, prepare effects.
    Flow,
    /// Whole groups are locked; the commands run in place at `Resolve`.
    Hold,
    /// Both: read under locks on whole groups, evaluate here, and at `Resolve` effects and commands in steps.
    Step,
    /// Large values are locked, and lent to an errand.
    Lend,
    /// Each group does its part by itself, at a time of its own: a command on the whole keyspace of several nodes.
    Each,
}

impl Kind {
    /// What one of this kind does while it is open, for operators.
    fn state(self) -> &'static str {
        match self {
            Kind::Evaluate | Kind::Flow | Kind::Step => "voting",
            Kind::Hold | Kind::Lend => "locking",
            Kind::Each => "reading",
        }
    }
}

impl Transactions {
    pub(crate) fn new(worker: u16) -> Transactions {
        Transactions {
            worker,
            begun: 0,
            open: BTreeMap::new(),
            blocks: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Whether none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.outputs.is_empty()
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// The oldest of those that are open, at most `max`.
    pub(crate) fn sights(&self, max: usize) -> Vec<TransactionSight> {
        // Sequences grow with time.
        let oldest = self.open.values().take(max);
        let sight = |open: &Transaction| {
            let (began, groups) = (open.priority.began, &open.extent.groups);
            TransactionSight::coordinated(open.id, began, open.kind.state(), groups, Some(&open.program))
        };
        oldest.map(sight).collect()
    }
}

impl Gateway {
    /// Begins a program: in one step if all its groups live here and are free.
    pub(crate) fn begin(&mut self, session: &mut Session, pipeline: &mut Pipeline, program: Program) {
        let extent = program.extent(self.groups);
        let can_run_here = program.request.is_none() && self.can_run_here(&program, &extent);
        let is_heavy = can_run_here && is_lendable(&program, &extent) && self.is_heavy_program(&program);
        if can_run_here && !is_heavy {
            return self.run_program_here(session, pipeline.target(), &program);
        }
        let ticket = self.reserve(session, pipeline);
        if program.is_exec || extent.is_whole {
            session.is_waiting = true;
        } else {
            session.busy.begin(program.slots());
        }
        let is_exec = program.is_exec;
        let touches = touches(session, command::CommandId::Exec.spec());
        let opened = if is_heavy {
            Some(self.start_lent(ticket, program, extent, touches))
        } else {
            self.start(ticket, program, extent)
        };
        if !is_exec && let Some(seq) = opened {
            // It is noted when it is over: it may still have to be carried out elsewhere, and is measured there then.
            self.timing.is_ours = false;
            let spent = self.timing.spent();
            let transaction = self.transactions.open.get_mut(&seq).expect("opened a moment ago");
            transaction.spent = Some(spent);
        }
    }

    /// Sends a command within one group on its way on values that are lent to it, perhaps for another worker's connection.
    pub(crate) fn start_single(&mut self, ticket: Ticket, operation: Operation, touches: bool) {
        let program = Program::single(operation);
        let extent = program.extent(self.groups);
        let seq = self.start_lent(ticket, program, extent, touches);
        // Its keys are locked now or waited for, and nothing was lent yet.
        let transaction = self.transactions.open.get_mut(&seq);
        transaction.expect("opened a moment ago").is_single = true;
    }

    /// Sends a program on its way on values that are lent to it; returns the transaction's number.
    pub(crate) fn start_lent(
        &mut self,
        ticket: Ticket,
        program: Program,
        extent: Extent,
        touches: bool,
    ) -> u64 {
        let seq = self.open(ticket, program, extent, Kind::Lend);
        let transaction = self.transactions.open.get_mut(&seq);
        transaction.expect("opened a moment ago").touches = touches;
        seq
    }

    /// Sends a program on its way whose groups do not all live here, or are not free; returns the transaction's number,
    /// if it is one.
    pub(crate) fn start(&mut self, ticket: Ticket, program: Program, extent: Extent) -> Option<u64> {
        if program.request.is_some() {
            return self.start_named(ticket, program, extent);
        }
        // A scan looks at a group as a whole, though at one only.
        let scans = program
            .operations()
            .any(|operation| operation.spec.route == command::Route::Scan);
        let sees_whole = extent.is_whole || scans;
        // Where there is one group only, and it decides in the order of its entries, it sees all of the keyspace by itself.
        let is_all = self.is_spread && self.groups.get() == 1;
        let reads_only = self.is_spread && !extent.writes;
        if let ([group], true) = (
            extent.groups.as_slice(),
            (is_all || !sees_whole && !extent.wants) && !reads_only,
        ) {
            let operations = program.operations().cloned().collect();
            let conditions = program.conditions.clone();
            self.transactions
                .blocks
                .insert((ticket.connection, ticket.sequence), program);
            self.request(
                *group,
                Request::Block {
                    ticket,
                    conditions,
                    operations,
                },
            );
            return None;
        }
        if self.is_spread && scans && !program.is_exec {
            return Some(self.open(ticket, program, extent, Kind::Each));
        }
        if self.is_spread {
            self.start_distributed(ticket, program, extent, sees_whole);
            return None;
        }
        let kind = match (extent.flows, sees_whole) {
            (true, true) => Kind::Step,
            (true, false) => Kind::Flow,
            (false, true) if extent.writes => Kind::Hold,
            (false, _) => Kind::Evaluate,
        };
        Some(self.open(ticket, program, extent, kind))
    }

    /// The same, of what its client has named.
    fn start_named(&mut self, ticket: Ticket, program: Program, extent: Extent) -> Option<u64> {
        let request = program.request.expect("the caller looked");
        if let ([group], false) = (extent.groups.as_slice(), extent.wants) {
            let operations = program.operations().cloned().collect();
            let place = (ticket.connection, ticket.sequence);
            self.transactions.blocks.insert(place, program);
            self.request(
                *group,
                Request::Once {
                    ticket,
                    request,
                    operations,
                },
            );
            return None;
        }
        if self.is_spread {
            self.start_distributed(ticket, program, extent, false);
            return None;
        }
        Some(self.open(ticket, program, extent, Kind::Flow))
    }

    fn open(&mut self, ticket: Ticket, program: Program, extent: Extent, kind: Kind) -> u64 {
        let keeps_place = kind == Kind::Lend && extent.groups.len() == 1;
        let (id, priority) = self.new_transaction();
        let seq = id.seq;
        let transaction = Transaction {
            id,
            priority,
            ticket,
            program,
            kind,
            coordinator: Coordinator::new(extent.groups.iter().copied()),
            extent,
            parts: BTreeMap::new(),
            wanted: BTreeMap::new(),
            outstanding: 0,
            scratch: None,
            evaluated: Replies::default(),
            plan: Plan::default(),
            spent: None,
            is_single: false,
            touches: true,
            keeps_place,
        };
        self.stats.transactions.add(1);
        self.transactions.open.insert(seq, transaction);
        self.attempt(seq);
        seq
    }

    /// The name and age of a new transaction.
    pub(crate) fn new_transaction(&mut self) -> (TxnId, Priority) {
        // Unique over the node's workers: two transactions of one age would each wait for the other.
        self.transactions.begun += 1;
        let workers = self.shared.workers.len() as u64;
        let (boot, seq) = (
            self.boot(),
            self.transactions.begun * workers + u64::from(self.worker),
        );
        let id = TxnId {
            boot,
            worker: self.transactions.worker,
            seq,
            attempt: 1,
        };
        let priority = Priority {
            began: self.turn.now,
            boot,
            seq,
        };
        (id, priority)
    }

    /// Sends the first messages of an attempt.
    fn attempt(&mut self, seq: u64) {
        let transaction = self
            .transactions
            .open
            .get_mut(&seq)
            .expect("the caller opened it");
        let (txn, priority) = (transaction.id, transaction.priority);
        let age = (!transaction.keeps_place).then_some(priority);
        transaction.outstanding = match transaction.kind {
            Kind::Flow | Kind::Step => transaction.extent.groups.len(),
            Kind::Evaluate | Kind::Hold | Kind::Lend | Kind::Each => 0,
        };
        transaction.parts.clear();
        transaction.scratch = None;
        let groups = self.groups;
        let program = &transaction.program;
        let mut partition = match transaction.kind {
            Kind::Evaluate => program.partition(groups),
            Kind::Flow | Kind::Hold | Kind::Step | Kind::Lend | Kind::Each => BTreeMap::new(),
        };
        if transaction.kind == Kind::Each {
            return self.ask_each(seq);
        }
        // What is lent comes back without a result.
        let is_bounded = program.request.is_none() && is_lendable(program, &transaction.extent);
        let mut requests = Vec::with_capacity(transaction.extent.groups.len());
        for &group in &transaction.extent.groups {
            let conditions = program.conditions_in(groups, group);
            let is_ours = |key: &[u8]| group_of_key(groups, key) == group;
            let all = || locks_of(program.operations().map(Operation::words), is_ours);
            let (locks, task) = match transaction.kind {
                Kind::Each => unreachable!("it asks for no locks"),
                Kind::Evaluate => {
                    let parts = partition.remove(&group).unwrap_or_default();
                    let locks = locks_of(parts.iter().map(|(_, part)| part.words()), |_| true);
                    let (items, operations) = parts.into_iter().unzip();
                    transaction.parts.insert(group, (items, Replies::default()));
                    // Who looks at groups as a whole cannot be lent what he looks at.
                    let task = Task::Evaluate {
                        operations,
                        is_bounded,
                        is_strict: program.is_strict(),
                    };
                    (with_conditions(locks, &conditions), task)
                }
                Kind::Hold => (with_conditions(all(), &conditions), Task::Hold),
                Kind::Lend => {
                    let objects = objects_in(program, transaction.wanted.get(&group), is_ours);
                    let locks = with_conditions(all(), &conditions);
                    // Alone, even to read: a value that is lent is with nobody else.
                    let locks = locks.and_shared(objects.iter().map(|(_, key)| key)).exclusive();
                    (locks, Task::Hold)
                }
                Kind::Flow | Kind::Step => {
                    let objects = objects_in(program, transaction.wanted.get(&group), is_ours);
                    let locks = with_conditions(all(), &conditions);
                    let locks = locks.and_shared(objects.iter().map(|(_, key)| key));
                    let name = program.name_lock(groups, group).map(|(_, name)| name);
                    let locks = locks.and_alone(name);
                    let request = Request::LockRead {
                        txn,
                        priority,
                        locks,
                        conditions,
                        objects,
                        is_bounded,
                    };
                    requests.push((group, request));
                    continue;
                }
            };
            let request = Request::Prepare {
                txn,
                priority: age,
                locks,
                conditions,
                task,
            };
            requests.push((group, request));
        }
        for (group, request) in requests {
            self.request(group, request);
        }
    }

    /// Asks each group for its part.
    fn ask_each(&mut self, seq: u64) {
        let groups = self.groups;
        let transaction = self.transactions.open.get_mut(&seq);
        let transaction = transaction.expect("the caller opened it");
        let txn = transaction.id;
        let mut requests = Vec::new();
        for (group, parts) in transaction.program.partition(groups) {
            let (items, operations): (Vec<usize>, Vec<Operation>) = parts.into_iter().unzip();
            transaction.parts.insert(group, (items, Replies::default()));
            let operation = operations
                .into_iter()
                .next()
                .expect("one command has one part in a group");
            requests.push((group, Request::Part { txn, operation }));
        }
        transaction.outstanding = requests.len();
        if requests.is_empty() {
            return self.answer(txn);
        }
        for (group, request) in requests {
            self.request(group, request);
        }
    }

    /// Asks a group something, wherever it lives.
    pub(crate) fn request(&mut self, group: GroupId, request: Request) {
        let Some(index) = self.local(group) else {
            let worker = self.owner(group);
            return self.send(
                worker,
                Message::Request {
                    group,
                    request: Box::new(request),
                },
            );
        };
        let mut outputs = Vec::new();
        if self.replicas[index].is_replicated() {
            self.ask_leader(index, request, &mut outputs);
            return self.transactions.outputs.extend(outputs);
        }
        if request.is_for_log() {
            return self.keep_early(index, request);
        }
        self.replicas[index].handle(&self.turn, request, &mut outputs);
        self.tell(index);
        self.transactions.outputs.extend(outputs);
    }

    /// Carries on whatever the groups of this worker have answered.
    pub fn pump(&mut self) {
        while let Some(output) = self.transactions.outputs.pop_front() {
            let worker = match &output {
                Output::Replied { ticket, .. }
                | Output::Answered { ticket, .. }
                | Output::Waits { ticket }
                | Output::TooLarge { ticket, .. }
                | Output::Failed { ticket, .. }
                | Output::FailedWatch { ticket, .. }
                | Output::Versions { ticket, .. } => ticket.worker,
                Output::Locked { txn, .. }
                | Output::Lent { txn, .. }
                | Output::Voted { txn, .. }
                | Output::Resolved { txn, .. }
                | Output::FailedPart { txn, .. }
                | Output::Seen { txn, .. }
                | Output::Fetched { txn, .. }
                | Output::Wound { txn } => txn.worker,
                Output::Inquired { worker, .. }
                | Output::Decided { worker, .. }
                | Output::Undecided { worker, .. } => *worker,
            };
            if worker == self.worker {
                self.on_output(output);
            } else {
                self.send(worker, Message::Output(Box::new(output)));
            }
            self.serve_waiters();
        }
    }

    /// The one dispatch of what groups answer.
    pub(crate) fn on_output(&mut self, output: Output) {
        match output {
            Output::Replied {
                ticket,
                reply,
                journey,
            } => self.on_replied(ticket, reply, journey),
            Output::Answered { ticket, replies } => self.on_answered(ticket, replies),
            Output::Versions { ticket, versions } => self.on_versions(ticket, versions),
            Output::Waits { ticket } => self.on_waits(ticket),
            Output::TooLarge { ticket } => self.on_too_large(ticket),
            Output::Locked { txn, group, objects } if self.distributed.has(txn) => {
                self.on_locked_distributed(txn, group, objects);
            }
            Output::Locked { txn, group, objects } => self.on_locked(txn, group, objects),
            Output::Lent { txn, group, objects } => self.on_lent(txn, group, objects),
            Output::Voted {
                txn,
                group,
                vote,
                replies,
            } if self.distributed.has(txn) => self.on_vote_distributed(txn, group, vote, replies),
            Output::Voted {
                txn,
                group,
                vote,
                replies,
            } => self.on_vote(txn, group, vote, replies),
            Output::Seen { txn, group, seen } => self.on_seen(txn, group, seen),
            Output::Fetched {
                txn,
                group,
                objects,
                age,
            } => self.on_fetched(txn, group, objects, age),
            Output::Inquired {
                txn, group, register, ..
            } => self.on_inquired(txn, group, register),
            Output::Decided {
                txn, group, replies, ..
            } => self.on_decided(txn, group, replies),
            Output::Undecided { txn, group, .. } => self.on_undecided(txn, group),
            Output::Resolved { txn, group, replies } => self.on_resolved(txn, group, replies),
            Output::Failed {
                ticket,
                error,
                journey,
            } => self.on_failed(ticket, error, journey),
            Output::FailedWatch { ticket, error } => self.on_failed_watch(ticket, error),
            Output::FailedPart { txn, error, .. } => self.on_failed_part(txn, error),
            Output::Wound { txn } => self.on_wound(txn),
        }
    }

    /// A group could not be asked, or what came of it is not known.
    fn on_failed(&mut self, ticket: Ticket, error: &'static str, journey: Option<Journey>) {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes, Protocol::Resp2).error(error);
        if self.on_tried(ticket, &bytes) {
            return;
        }
        let place = (ticket.connection, ticket.sequence);
        let Some(program) = self.transactions.blocks.remove(&place) else {
            let reply = bytes.into();
            return self.deliveries.push_back(Delivery::Replied {
                ticket,
                reply,
                journey,
            });
        };
        self.finish(ticket, program, Answers::Failed(error));
    }

    /// A group could not be asked for the versions of keys. The client is told of the first one.
    fn on_failed_watch(&mut self, ticket: Ticket, error: &'static str) {
        if self.watches.forget(ticket) {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes, Protocol::Resp2).error(error);
            self.deliveries.push_back(Delivery::Failed { ticket, bytes });
        }
    }

    /// The leader of a command's group has answered it.
    fn on_replied(&mut self, ticket: Ticket, reply: Bytes, journey: Option<Journey>) {
        if !self.on_tried(ticket, &reply) {
            self.deliveries.push_back(Delivery::Replied {
                ticket,
                reply,
                journey,
            });
        }
    }

    /// The same, for one group of several that each do their part.
    fn on_failed_part(&mut self, txn: TxnId, error: &'static str) {
        if !self.on_failed_distributed(txn, error) && self.current(txn).is_some() {
            self.close(txn, Answers::Failed(error));
        }
    }

    fn on_answered(&mut self, ticket: Ticket, replies: Option<Replies>) {
        let Some(program) = self
            .transactions
            .blocks
            .remove(&(ticket.connection, ticket.sequence))
        else {
            let replies = replies.expect("a single command has no conditions");
            let bytes = replies.into_bytes();
            if self.on_tried(ticket, &bytes) {
                return;
            }
            return self.deliveries.push_back(Delivery::Reply { ticket, bytes });
        };
        let sees_whole = |operation: &Operation| operation.spec.route != command::Route::Keys;
        let replies = match replies {
            None => Answers::Refused,
            Some(replies) if program.request.is_some() => match replies.into_once() {
                Ok(replies) => Answers::Whole(replies),
                Err(standing) => Answers::Failed(error_of(standing)),
            },
            // What a group answers to these is a part, though there is one only.
            Some(replies) if program.operations().any(sees_whole) => {
                let is_operation = |item: &Item| matches!(item, Item::Operation(_));
                let items = (0..program.items.len()).filter(|&at| is_operation(&program.items[at]));
                Answers::Parts(BTreeMap::from([(GroupId::new(0), (items.collect(), replies))]))
            }
            Some(replies) => Answers::Whole(replies),
        };
        let answered = Answered {
            ticket,
            program,
            replies,
        };
        self.deliveries.push_back(Delivery::Answered(Box::new(answered)));
    }

    /// Commands within one group would hold its worker up there.
    fn on_too_large(&mut self, ticket: Ticket) {
        let place = (ticket.connection, ticket.sequence);
        let blocks = &mut self.transactions.blocks;
        let program = blocks.remove(&place).expect("it waits for its group");
        let extent = program.extent(self.groups);
        self.start_lent(ticket, program, extent, true);
    }

    /// The transaction of an answer; `None` if the answer is to an attempt that is over.
    fn current(&mut self, txn: TxnId) -> Option<&mut Transaction> {
        self.transactions
            .open
            .get_mut(&txn.seq)
            .filter(|transaction| transaction.id == txn)
    }

    /// A group has sent the values of its keys: they are placed on the transaction's scratch, which is returned with the
    /// last of them.
    fn place(&mut self, txn: TxnId, group: GroupId, objects: Vec<Option<Object>>) -> Option<Scratch> {
        let (groups, turn, limits) = (self.groups, self.turn, self.compactness);
        let transaction = self.current(txn)?;
        let is_there = |key: &[u8]| group_of_key(groups, key) == group;
        let keys = objects_in(&transaction.program, transaction.wanted.get(&group), is_there);
        let scratch = transaction.scratch.get_or_insert_with(|| turn.scratch(turn.now));
        scratch.set_limits(limits);
        for ((db, key), object) in keys.into_iter().zip(objects) {
            scratch.place(db, &key, object);
        }
        transaction.outstanding -= 1;
        if transaction.outstanding > 0 {
            return None;
        }
        transaction.scratch.take()
    }

    /// A group has locked and copied its values: with the last, the commands can be evaluated.
    fn on_locked(&mut self, txn: TxnId, group: GroupId, objects: Vec<Option<Object>>) {
        let groups = self.groups;
        let Some(mut scratch) = self.place(txn, group, objects) else {
            return;
        };
        let transaction = self.current(txn).expect("it is open");
        if transaction.kind == Kind::Step {
            let planned = Plan::make(&transaction.program, groups, &mut scratch);
            return match planned {
                Ok(plan) => {
                    transaction.plan = plan;
                    self.prepare_held(txn, BTreeMap::new(), BTreeMap::new());
                }
                Err(lacks) => self.widen(txn, lacks),
            };
        }
        let mut evaluated = Replies::default();
        let mut lacks = Vec::new();
        for operation in transaction.program.operations() {
            lacks = scratch.wanted(&operation.as_state());
            if !lacks.is_empty() {
                break;
            }
            operation.run_on(&mut scratch, &mut evaluated);
        }
        if !lacks.is_empty() {
            return self.widen(txn, lacks);
        }
        transaction.evaluated = evaluated;
        // Each group tells of its own keys: so what is told of one key keeps its order.
        let events = by_group(groups, scratch.take_events(), |event| &event.key);
        let effects = by_group(groups, scratch.take_effects(), |effect| effect.key());
        self.prepare_held(txn, effects, events);
    }

    /// All groups are locked, and it is known what each is to do.
    fn prepare_held(
        &mut self,
        txn: TxnId,
        mut effects: BTreeMap<GroupId, Vec<Effect>>,
        mut events: BTreeMap<GroupId, Vec<Event>>,
    ) {
        let groups = self.groups;
        let transaction = self.current(txn).expect("it is open");
        // Groups that were only read prepare too: an older transaction may have taken their locks away.
        let priority = transaction.priority;
        let mut requests = Vec::new();
        for &group in &transaction.extent.groups {
            let outcome = Outcome {
                effects: effects.remove(&group).unwrap_or_default(),
                events: events.remove(&group).unwrap_or_default(),
                result: transaction
                    .program
                    .result_in(groups, group, &transaction.evaluated),
            };
            let request = Request::Prepare {
                txn,
                priority: Some(priority),
                locks: txn::Locks::Keys(Vec::new()),
                conditions: Vec::new(),
                task: Task::Install(outcome),
            };
            requests.push((group, request));
        }
        for (group, request) in requests {
            self.request(group, request);
        }
    }

    /// A group has lent its values: with the last, the commands can be carried out.
    fn on_lent(&mut self, txn: TxnId, group: GroupId, objects: Vec<Option<Object>>) {
        let is_open = self.current(txn).is_some();
        assert!(is_open, "nothing ends it before its values are back");
        let Some(mut scratch) = self.place(txn, group, objects) else {
            return;
        };
        let clock = self.timing.clock();
        let transaction = self.current(txn).expect("it is open");
        scratch.touch(transaction.touches);
        let operations: Vec<Operation> = transaction.program.operations().cloned().collect();
        self.set_out(Errand::new(txn, operations, scratch, clock));
    }

    /// Who asked for an open transaction.
    pub(crate) fn caller_of(&mut self, txn: TxnId) -> Caller<'static> {
        Caller::of(self.current(txn).expect("it is open").ticket)
    }

    /// The groups of an open transaction.
    pub(crate) fn groups_of(&mut self, txn: TxnId) -> Vec<GroupId> {
        let transaction = self.current(txn).expect("it is open");
        transaction.extent.groups.clone()
    }

    /// Everything that was lent is back.
    pub(crate) fn end_lent(&mut self, txn: TxnId, replies: Replies) {
        self.close(txn, Answers::Whole(replies));
    }

    /// Begins a new attempt of the same age that locks the keys that this one found it needs, too.
    fn widen(&mut self, txn: TxnId, lacks: Vec<FullKey>) {
        self.resolve_abort(txn);
        self.add_wanted(txn, lacks);
        self.begin_again(txn);
    }

    /// Adds keys that were found to be needed, and their groups.
    fn add_wanted(&mut self, txn: TxnId, keys: Vec<FullKey>) {
        let groups = self.groups;
        let transaction = self.current(txn).expect("the caller has it");
        for (db, key) in keys {
            let wanted = transaction.wanted.entry(group_of_key(groups, &key)).or_default();
            wanted.insert((db, key));
        }
        let extent = &mut transaction.extent.groups;
        extent.extend(transaction.wanted.keys());
        extent.sort_unstable();
        extent.dedup();
    }

    /// The next attempt.
    fn begin_again(&mut self, txn: TxnId) {
        let transaction = self.current(txn).expect("it is open");
        transaction.id.attempt += 1;
        transaction.coordinator = Coordinator::new(transaction.extent.groups.iter().copied());
        self.attempt(txn.seq);
    }

    fn on_vote(&mut self, txn: TxnId, group: GroupId, vote: Vote, replies: Replies) {
        let Some(transaction) = self.current(txn) else {
            return;
        };
        if vote == Vote::Refused(Refusal::Known) {
            transaction.evaluated = replies;
        } else if let Some((_, held)) = transaction.parts.get_mut(&group) {
            *held = replies;
        }
        match transaction.coordinator.on_vote(group, vote) {
            None => {}
            Some(Decision::Commit) => self.commit(txn),
            Some(Decision::Abort(refusal)) => self.abort(txn, refusal),
        }
    }

    /// Every group has prepared.
    fn commit(&mut self, txn: TxnId) {
        let transaction = self.current(txn).expect("the caller has it");
        match transaction.kind {
            Kind::Evaluate => {
                let parts = std::mem::take(&mut transaction.parts);
                self.install(txn, Answers::Parts(parts));
            }
            Kind::Flow => {
                let replies = std::mem::take(&mut transaction.evaluated);
                self.install(txn, Answers::Whole(replies));
            }
            Kind::Hold | Kind::Step => self.carry_out(txn),
            Kind::Lend => self.ask_to_lend(txn),
            Kind::Each => unreachable!("nobody votes"),
        }
    }

    /// The groups have the effects already: they install them, and the answer is known.
    fn install(&mut self, txn: TxnId, replies: Answers) {
        for group in self.groups_of(txn) {
            let verdict = Verdict::Commit(Vec::new());
            self.request(group, Request::Resolve { txn, verdict });
        }
        self.close(txn, replies);
    }

    /// The groups hold the locks: they carry out their parts.
    fn carry_out(&mut self, txn: TxnId) {
        let groups = self.groups;
        let transaction = self.current(txn).expect("it is open");
        let mut requests = Vec::new();
        if transaction.kind == Kind::Hold {
            transaction.plan = Plan::of_parts(transaction.program.partition(groups));
        }
        let plan = &mut transaction.plan;
        for group in transaction.extent.groups.iter().copied() {
            let steps = plan.steps.remove(&group).unwrap_or_default();
            let items = plan.items.remove(&group).unwrap_or_default();
            // Only who has something to do answers.
            transaction.outstanding += usize::from(!steps.is_empty());
            transaction.parts.insert(group, (items, Replies::default()));
            let verdict = Verdict::Commit(steps);
            requests.push((group, Request::Resolve { txn, verdict }));
        }
        let is_answered = transaction.outstanding == 0;
        for (group, request) in requests {
            self.request(group, request);
        }
        if is_answered {
            self.answer(txn);
        }
    }

    /// The groups hold the locks: they are asked for their values.
    fn ask_to_lend(&mut self, txn: TxnId) {
        let groups = self.groups;
        let transaction = self.current(txn).expect("it is open");
        transaction.outstanding = transaction.extent.groups.len();
        let borrow = |group: GroupId| {
            let is_there = |key: &[u8]| group_of_key(groups, key) == group;
            let keys = objects_in(&transaction.program, transaction.wanted.get(&group), is_there);
            (group, Request::Lend { txn, keys })
        };
        let requests: Vec<_> = transaction.extent.groups.iter().copied().map(borrow).collect();
        for (group, request) in requests {
            self.request(group, request);
        }
    }

    fn on_resolved(&mut self, txn: TxnId, group: GroupId, replies: Replies) {
        let Some(transaction) = self.current(txn) else {
            return;
        };
        if let Some((_, held)) = transaction.parts.get_mut(&group) {
            *held = replies;
        }
        transaction.outstanding -= 1;
        if transaction.outstanding == 0 {
            self.answer(txn);
        }
    }

    /// Every group that held the locks has carried out its part.
    fn answer(&mut self, txn: TxnId) {
        let transaction = self.current(txn).expect("it is open");
        let parts = std::mem::take(&mut transaction.parts);
        let answers = std::mem::take(&mut transaction.plan).answers(parts);
        self.close(txn, answers);
    }

    /// A transaction is over.
    fn close(&mut self, txn: TxnId, replies: Answers) {
        let transaction = self.transactions.open.remove(&txn.seq).expect("it was open");
        let Transaction { ticket, program, .. } = transaction;
        if let Some(nanos) = transaction.spent.filter(|_| transaction.kind != Kind::Lend)
            && let Some(operation) = program.operations().next()
        {
            let (spec, args) = operation.words();
            self.note_time(spec, nanos, args, Caller::of(ticket));
        }
        match replies {
            Answers::Whole(replies) if transaction.is_single => self.answer_single(ticket, &program, replies),
            replies => self.finish(ticket, program, replies),
        }
    }

    /// Answers a single command, perhaps of another worker's connection: as its group would have.
    fn answer_single(&mut self, ticket: Ticket, program: &Program, replies: Replies) {
        if replies.bytes().first() == Some(&b'-')
            && let Some(operation) = program.operations().next()
        {
            self.stats.by_command[operation.spec.id].failed.add(1);
        }
        let replies = Some(replies);
        self.transactions
            .outputs
            .push_back(Output::Answered { ticket, replies });
    }

    /// The groups forget an attempt.
    fn resolve_abort(&mut self, txn: TxnId) {
        for group in self.groups_of(txn) {
            let verdict = Verdict::Abort;
            self.request(group, Request::Resolve { txn, verdict });
        }
    }

    /// A group has refused.
    fn abort(&mut self, txn: TxnId, refusal: Refusal) {
        self.resolve_abort(txn);
        if refusal == Refusal::Condition {
            self.stats.transactions_refused.add(1);
            return self.close(txn, Answers::Refused);
        }
        if refusal == Refusal::Failed {
            let transaction = self.current(txn).expect("it is open");
            let answered = transaction.parts.values().map(|(_, replies)| replies);
            let error = answered.filter_map(Replies::first_error).take(1);
            let error = Replies::of(error);
            return self.close(txn, Answers::Whole(error));
        }
        if refusal == Refusal::Known {
            let transaction = self.current(txn).expect("it is open");
            let known = std::mem::take(&mut transaction.evaluated).into_once();
            let answers = known.map_or_else(|standing| Answers::Failed(error_of(standing)), Answers::Whole);
            return self.close(txn, answers);
        }
        if refusal == Refusal::Busy && self.is_spread {
            return self.move_to_logs(txn);
        }
        if refusal == Refusal::TooLarge {
            let transaction = self.current(txn).expect("it is open");
            transaction.kind = Kind::Lend;
        }
        self.stats.transaction_retries.add(1);
        self.begin_again(txn);
    }

    /// One of its groups has a log by now: it begins again as a transaction over groups whose logs decide.
    fn move_to_logs(&mut self, txn: TxnId) {
        self.stats.transaction_retries.add(1);
        let transaction = self.transactions.open.remove(&txn.seq).expect("it is open");
        let Transaction { ticket, program, .. } = transaction;
        if let (true, Some(operation)) = (transaction.is_single, program.operations().next()) {
            let operation = operation.clone();
            let [group] = transaction.extent.groups[..] else {
                unreachable!("a single command was within one group");
            };
            return self.request(group, Request::Execute { ticket, operation });
        }
        let extent = program.extent(self.groups);
        self.start(ticket, program, extent);
    }

    fn on_wound(&mut self, txn: TxnId) {
        let Some(transaction) = self.current(txn) else {
            return;
        };
        for group in transaction.coordinator.on_wound() {
            self.request(group, Request::Withdraw { txn });
        }
    }

    fn finish(&mut self, ticket: Ticket, program: Program, replies: Answers) {
        if self.ends_try(ticket, &replies) {
            return;
        }
        self.deliveries.push_back(Delivery::Answered(Box::new(Answered {
            ticket,
            program,
            replies,
        })));
    }
}

/// Whether a program can be carried out on values that are lent: it concerns keys that are known.
fn is_lendable(program: &Program, extent: &Extent) -> bool {
    let scans = |operation: &Operation| operation.spec.route == command::Route::Scan;
    !extent.is_whole && !extent.wants && !program.operations().any(scans)
}

/// The objects that a program needs of a group, in a fixed order: of the keys that it names and that `is_there` says are in
/// it, and of those that it wants there.
pub(crate) fn objects_in(
    program: &Program,
    wanted: Option<&BTreeSet<FullKey>>,
    mut is_there: impl FnMut(&[u8]) -> bool,
) -> Vec<FullKey> {
    let databases = replica::databases(program.operations());
    let mut objects: BTreeSet<FullKey> = BTreeSet::new();
    for operation in program.operations() {
        operation.keys(|key, _| {
            if is_there(key) {
                objects.extend(databases.iter().map(|db| (*db, Box::from(key))));
            }
        });
    }
    objects.extend(wanted.into_iter().flatten().cloned());
    objects.into_iter().collect()
}

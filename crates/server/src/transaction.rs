//! Requests over several groups that do not all live here, or that others hold.
//!
//! The gateway is the coordinator. What each state waits for, and what ends it:
//!
//! | state | waits for | then |
//! | --- | --- | --- |
//! | reading | `Locked` from every group | evaluate on a scratch, `Prepare` with effects: preparing |
//! | preparing | a vote from every group | all Prepared: answer and `Resolve(Commit)`; one Refused: `Resolve(Abort)` |
//! | holding | `Resolved` with replies from every group | answer |
//! | lending | `Lent` from every group, then the errand | `TakeBack`, answer |
//!
//! A refusal for a condition is answered (nil, or 0); a refusal by a wound begins a new attempt of the same age.
//! A program that only reads and writes keys inside their groups goes straight to *preparing*. One that concerns
//! whole groups and writes locks all of them, and its commands are carried out in place at `Resolve`: *holding*. One
//! that walks over very large values locks their keys alone, as if to hold them, and borrows the values: *lending*. See
//! `aside.rs`. A group may refuse a program of the other ways as too large: it begins again as one of these.
//!
//! What a connection sends behind a command over several groups may pass it, unless it names one of its keys:
//! then it waits, and sees what the command did. Behind an `EXEC` or a command on the whole keyspace everything
//! waits.

use crate::aside::Errand;
use crate::block::note_watched;
use crate::connection::Connection;
use crate::gateway::{Gateway, touches};
use crate::message::Message;
use crate::pipeline::Pipeline;
use crate::program::{Extent, Item, Program, group_of_key, merge};
use crate::pubsub::{Kind as Names, Listeners};
use crate::session::{Session, Watched};
use crate::timing::Caller;
use command::{Command, ReplyError};
use ids::{Boot, GroupId};
use keyspace::{KeyVersion, Object};
use replica::{
    FullKey, Operation, Outcome, Output, Replies, Request, Scratch, Task, Ticket, Verdict, locks_of,
    with_conditions,
};
use resp::{Args, ArgsBuf, Protocol, Writer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use txn::{Coordinator, Decision, Priority, Refusal, TxnId, Vote};

/// What a worker's gateway coordinates at the moment. Bounded by its connections: each has at most one of these
/// under way.
pub(crate) struct Transactions {
    worker: u16,
    boot: Boot,
    begun: u64,
    open: BTreeMap<u64, Transaction>,
    /// `EXEC` within one group, sent there whole.
    blocks: BTreeMap<(u64, u64), Program>,
    watches: BTreeMap<(u64, u64), (Vec<Watched>, usize)>,
    infos: BTreeMap<(u64, u64), (ArgsBuf, usize)>,
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
    /// Large values are locked, and lent to an errand.
    Lend,
}

/// An answer for a connection of this worker.
pub enum Delivery {
    /// A finished reply.
    Reply {
        /// Where it goes.
        ticket: Ticket,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A program whose groups have answered; the gateway's own commands in it are still to run.
    Answered(Box<Answered>),
    /// The answer of a client that waited for a key to be filled.
    Unblocked {
        /// Where it goes.
        ticket: Ticket,
        /// What it waited for.
        operation: Operation,
        /// Nanoseconds of work for it.
        nanos: u64,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The versions of `WATCH`.
    Watched {
        /// Where the reply goes.
        ticket: Ticket,
        /// To be remembered.
        watched: Vec<Watched>,
    },
    /// Every worker has published its figures: `INFO` can be written.
    Info {
        /// Where the reply goes.
        ticket: Ticket,
        /// The command.
        args: ArgsBuf,
    },
    /// A message for connections that listen.
    Message {
        /// Their tokens.
        listeners: Listeners,
        /// Its bytes, as RESP2 has them.
        message: Arc<[u8]>,
    },
    /// There was nothing for a client that hung up while its command was tried.
    HungUp {
        /// To be looked at again.
        connection: u64,
    },
    /// Look for connections that `CLIENT KILL` marked.
    Reap,
}

/// See [`Delivery::Answered`].
pub struct Answered {
    ticket: Ticket,
    program: Program,
    replies: Answers,
}

/// What groups answered to the operations of a program.
enum Answers {
    /// A condition did not hold.
    Refused,
    /// It cannot be done, and was not.
    Failed(&'static str),
    /// Parts by group, to be merged.
    Parts(BTreeMap<GroupId, (Vec<usize>, Replies)>),
    /// One whole reply for each operation.
    Whole(Replies),
}

impl Delivery {
    /// The connection it is for; `None` for all.
    pub fn connection(&self) -> Option<u64> {
        match self {
            Delivery::Reply { ticket, .. }
            | Delivery::Unblocked { ticket, .. }
            | Delivery::Watched { ticket, .. }
            | Delivery::Info { ticket, .. } => Some(ticket.connection),
            Delivery::Answered(answered) => Some(answered.ticket.connection),
            Delivery::HungUp { connection } => Some(*connection),
            Delivery::Message { .. } | Delivery::Reap => None,
        }
    }
}

impl Transactions {
    pub(crate) fn new(worker: u16, boot: Boot) -> Transactions {
        Transactions {
            worker,
            boot,
            begun: 0,
            open: BTreeMap::new(),
            blocks: BTreeMap::new(),
            watches: BTreeMap::new(),
            infos: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Remembers a `WATCH` that waits for `asked` groups.
    pub(crate) fn watch(&mut self, ticket: Ticket, watched: Vec<Watched>, asked: usize) {
        self.watches
            .insert((ticket.connection, ticket.sequence), (watched, asked));
    }

    /// One group's versions came; returns the whole answer with the last.
    pub(crate) fn versions(
        &mut self,
        ticket: Ticket,
        versions: Vec<(usize, KeyVersion)>,
    ) -> Option<Vec<Watched>> {
        let key = (ticket.connection, ticket.sequence);
        let (watched, asked) = self.watches.get_mut(&key)?;
        for (at, version) in versions {
            watched[at].version = version;
        }
        *asked -= 1;
        if *asked > 0 {
            return None;
        }
        self.watches.remove(&key).map(|(watched, _)| watched)
    }

    /// One worker published its figures; returns the `INFO` with the last.
    pub(crate) fn published(&mut self, ticket: Ticket) -> Option<ArgsBuf> {
        let key = (ticket.connection, ticket.sequence);
        let (_, asked) = self.infos.get_mut(&key)?;
        *asked -= 1;
        if *asked > 0 {
            return None;
        }
        self.infos.remove(&key).map(|(args, _)| args)
    }
}

impl Gateway {
    /// A command of the gateway's own.
    pub(crate) fn on_connection(
        &mut self,
        session: &mut Session,
        pipeline: &mut Pipeline,
        spec: &'static command::Spec,
        args: Args<'_>,
    ) {
        match spec.id {
            command::CommandId::Exec => self.on_exec(session, pipeline),
            command::CommandId::Watch if session.block.is_some() => {
                ReplyError::WatchInsideMulti.write(&mut pipeline.writer(session.protocol));
            }
            command::CommandId::Watch => self.on_watch(session, pipeline, args.from(1)),
            command::CommandId::Info if self.shared.workers.len() > 1 => {
                self.on_info(session, pipeline, args)
            }
            command::CommandId::Publish => self.on_publish(session, pipeline, Names::Channel, args),
            command::CommandId::SPublish => self.on_publish(session, pipeline, Names::ShardChannel, args),
            command::CommandId::SSubscribe => {
                let mut out = pipeline.writer(session.protocol);
                self.subscribe(session, Names::ShardChannel, args.from(1), &mut out);
            }
            command::CommandId::Monitor => {
                self.start_monitoring(session);
                pipeline.writer(session.protocol).ok();
            }
            _ => self.run_own(session, spec, args, pipeline.target()),
        }
    }

    /// `INFO` where other workers have to publish their figures first.
    fn on_info(&mut self, session: &mut Session, pipeline: &mut Pipeline, args: Args<'_>) {
        let ticket = self.reserve(session, pipeline);
        session.is_waiting = true;
        let workers = self.shared.workers.len();
        let key = (ticket.connection, ticket.sequence);
        self.transactions.infos.insert(key, (args.to_buf(), workers - 1));
        for worker in 0..workers as u16 {
            if worker != self.worker {
                self.send(worker, Message::Publish { ticket });
            }
        }
    }

    /// Begins a program: in one step if all its groups live here and are free.
    pub(crate) fn begin(&mut self, session: &mut Session, pipeline: &mut Pipeline, program: Program) {
        let extent = program.extent(self.groups);
        let can_run_here = self.can_run_here(&program, &extent);
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
        // A scan looks at a group as a whole, though at one only.
        let scans = program
            .operations()
            .any(|operation| operation.spec.route == command::Route::Scan);
        let sees_whole = extent.is_whole || scans;
        if let ([group], false, false) = (extent.groups.as_slice(), sees_whole, extent.wants) {
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
        if extent.flows && sees_whole {
            let error = "ERR EXEC cannot hold both a command on the whole keyspace and one that moves values \
                         between groups of several workers; nothing was done";
            let answered = Answered {
                ticket,
                program,
                replies: Answers::Failed(error),
            };
            self.deliveries.push_back(Delivery::Answered(Box::new(answered)));
            return None;
        }
        let kind = match (extent.flows, sees_whole && extent.writes) {
            (true, _) => Kind::Flow,
            (false, true) => Kind::Hold,
            (false, false) => Kind::Evaluate,
        };
        Some(self.open(ticket, program, extent, kind))
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
            self.transactions.boot,
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

    fn can_run_here(&self, program: &Program, extent: &Extent) -> bool {
        let groups = self.groups;
        if extent.wants && !self.is_idle_and_whole() {
            return false;
        }
        extent.groups.iter().all(|group| {
            self.local(*group).is_some_and(|index| {
                self.replicas[index].is_free(|| {
                    let commands = program.operations().map(Operation::words);
                    locks_of(commands, |key| group_of_key(groups, key) == *group)
                })
            })
        })
    }

    /// All groups live here and are free: nothing can come between the commands.
    fn run_program_here(&mut self, session: &mut Session, out: &mut Vec<u8>, program: &Program) {
        for condition in &program.conditions {
            let group = group_of_key(self.groups, condition.key());
            let index = self.local(group).expect("the caller looked");
            if !self.replicas[index].check(&self.turn, std::slice::from_ref(condition)) {
                return refused(program, session.protocol, out);
            }
        }
        if program.is_exec {
            Writer::new(out, session.protocol).array(program.items.len());
        }
        let mut began = self.timing.now();
        for item in &program.items {
            let start = out.len();
            let (spec, args) = match item {
                Item::Connection(queued) => {
                    self.count(queued.spec);
                    self.run_own(session, queued.spec, queued.args.as_args(), out);
                    self.show(session, session.db, queued.spec, queued.args.as_args());
                    (queued.spec, queued.args.as_args())
                }
                Item::Operation(operation) => {
                    self.count(operation.spec);
                    // `SELECT` and `HELLO` before it in the block have been carried out.
                    let mut writer = Writer::new(out, session.protocol);
                    let (spec, args) = operation.words();
                    match operation.parse() {
                        Ok(Command::Scan { .. }) => self.scan_here(session.db, spec, args, &mut writer),
                        Ok(command) => self.run_here(session.db, spec, args, &command, &mut writer),
                        Err(error) => error.write(&mut writer),
                    }
                    if program.is_exec {
                        self.show(session, session.db, spec, args);
                    }
                    (spec, args)
                }
            };
            self.look_at_reply(Some(spec), &out[start..]);
            let ended = self.timing.now();
            self.note_time(
                spec,
                ended.saturating_sub(began),
                args,
                Caller::Here(&session.card),
            );
            began = ended;
        }
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
        transaction.outstanding = if transaction.kind == Kind::Flow {
            transaction.extent.groups.len()
        } else {
            0
        };
        transaction.parts.clear();
        transaction.scratch = None;
        let groups = self.groups;
        let program = &transaction.program;
        let mut partition = match transaction.kind {
            Kind::Evaluate => program.partition(groups),
            Kind::Flow | Kind::Hold | Kind::Lend => BTreeMap::new(),
        };
        let mut requests = Vec::with_capacity(transaction.extent.groups.len());
        for &group in &transaction.extent.groups {
            let conditions = program.conditions_in(groups, group);
            let is_ours = |key: &[u8]| group_of_key(groups, key) == group;
            let parts = partition.remove(&group).unwrap_or_default();
            let locks = match transaction.kind {
                Kind::Evaluate => locks_of(parts.iter().map(|(_, part)| part.words()), |_| true),
                Kind::Flow | Kind::Hold | Kind::Lend => {
                    locks_of(program.operations().map(Operation::words), is_ours)
                }
            };
            let locks = with_conditions(locks, &conditions);
            let request = match transaction.kind {
                Kind::Flow => {
                    let objects = objects_in(program, transaction.wanted.get(&group), is_ours);
                    let locks = locks.and_shared(objects.iter().map(|(_, key)| key));
                    Request::LockRead {
                        txn,
                        priority,
                        locks,
                        conditions,
                        objects,
                        is_bounded: is_lendable(program, &transaction.extent),
                    }
                }
                Kind::Lend => {
                    let objects = objects_in(program, transaction.wanted.get(&group), is_ours);
                    // Alone, even to read: a value that is lent is with nobody else.
                    let locks = locks.and_shared(objects.iter().map(|(_, key)| key)).exclusive();
                    Request::Prepare {
                        txn,
                        priority: age,
                        locks,
                        conditions,
                        task: Task::Hold,
                    }
                }
                Kind::Hold => Request::Prepare {
                    txn,
                    priority: age,
                    locks,
                    conditions,
                    task: Task::Hold,
                },
                Kind::Evaluate => {
                    let (items, operations) = parts.into_iter().unzip();
                    transaction.parts.insert(group, (items, Replies::default()));
                    // Who looks at groups as a whole cannot be lent what he looks at.
                    let task = Task::Evaluate {
                        operations,
                        is_bounded: is_lendable(program, &transaction.extent),
                    };
                    Request::Prepare {
                        txn,
                        priority: age,
                        locks,
                        conditions,
                        task,
                    }
                }
            };
            requests.push((group, request));
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
        self.replicas[index].handle(&self.turn, request, &mut outputs);
        self.tell(index);
        self.transactions.outputs.extend(outputs);
    }

    /// Carries on whatever the groups of this worker have answered.
    pub fn pump(&mut self) {
        while let Some(output) = self.transactions.outputs.pop_front() {
            let worker = match &output {
                Output::Answered { ticket, .. }
                | Output::TooLarge { ticket, .. }
                | Output::Versions { ticket, .. } => ticket.worker,
                Output::Locked { txn, .. }
                | Output::Lent { txn, .. }
                | Output::Voted { txn, .. }
                | Output::Resolved { txn, .. }
                | Output::Wound { txn } => txn.worker,
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
            Output::Answered { ticket, replies } => self.on_answered(ticket, replies),
            Output::Versions { ticket, versions } => {
                let watched = self.transactions.versions(ticket, versions);
                self.deliveries
                    .extend(watched.map(|watched| Delivery::Watched { ticket, watched }));
            }
            Output::TooLarge { ticket } => self.on_too_large(ticket),
            Output::Locked { txn, group, objects } => self.on_locked(txn, group, objects),
            Output::Lent { txn, group, objects } => self.on_lent(txn, group, objects),
            Output::Voted {
                txn,
                group,
                vote,
                replies,
            } => self.on_vote(txn, group, vote, replies),
            Output::Resolved { txn, group, replies } => self.on_resolved(txn, group, replies),
            Output::Wound { txn } => self.on_wound(txn),
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
        let replies = replies.map_or(Answers::Refused, Answers::Whole);
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

    fn on_locked(&mut self, txn: TxnId, group: GroupId, objects: Vec<Option<Object>>) {
        let (groups, turn, limits) = (self.groups, self.turn, self.compactness);
        let Some(transaction) = self.current(txn) else {
            return;
        };
        let is_there = |key: &[u8]| group_of_key(groups, key) == group;
        let wanted = objects_in(&transaction.program, transaction.wanted.get(&group), is_there);
        let scratch = transaction
            .scratch
            .get_or_insert_with(|| Scratch::new(turn.now, &turn));
        scratch.set_limits(limits);
        for ((db, key), object) in wanted.into_iter().zip(objects) {
            scratch.place(db, &key, object);
        }
        transaction.outstanding -= 1;
        if transaction.outstanding > 0 {
            return;
        }
        let mut scratch = transaction.scratch.take().expect("placed a moment ago");
        let mut evaluated = Replies::default();
        let mut lacks = Vec::new();
        for operation in transaction.program.operations() {
            lacks = scratch.wanted(operation);
            if !lacks.is_empty() {
                break;
            }
            scratch.run(operation, &mut evaluated);
        }
        if !lacks.is_empty() {
            return self.widen(txn, lacks);
        }
        transaction.evaluated = evaluated;
        // Each group tells of its own keys: so what is told of one key keeps its order.
        let mut outcomes: BTreeMap<GroupId, Outcome> = BTreeMap::new();
        for event in scratch.take_events() {
            let group = group_of_key(groups, &event.key);
            outcomes.entry(group).or_default().events.push(event);
        }
        for effect in scratch.take_effects() {
            let group = group_of_key(groups, effect.key());
            outcomes.entry(group).or_default().effects.push(effect);
        }
        // Groups that were only read prepare too: an older transaction may have taken their locks away.
        let priority = transaction.priority;
        for group in transaction.extent.groups.clone() {
            let task = Task::Install(outcomes.remove(&group).unwrap_or_default());
            let locks = txn::Locks::Keys(Vec::new());
            let request = Request::Prepare {
                txn,
                priority: Some(priority),
                locks,
                conditions: Vec::new(),
                task,
            };
            self.request(group, request);
        }
    }

    /// A group has lent its values: with the last, the commands can be carried out.
    fn on_lent(&mut self, txn: TxnId, group: GroupId, objects: Vec<Option<Object>>) {
        let clock = self.timing.clock();
        let (groups, turn, limits) = (self.groups, self.turn, self.compactness);
        let transaction = self
            .current(txn)
            .expect("nothing ends it before its values are back");
        let is_there = |key: &[u8]| group_of_key(groups, key) == group;
        let keys = objects_in(&transaction.program, transaction.wanted.get(&group), is_there);
        let scratch = transaction
            .scratch
            .get_or_insert_with(|| Scratch::new(turn.now, &turn));
        scratch.set_limits(limits);
        for ((db, key), object) in keys.into_iter().zip(objects) {
            scratch.place(db, &key, object);
        }
        transaction.outstanding -= 1;
        if transaction.outstanding > 0 {
            return;
        }
        let mut scratch = transaction.scratch.take().expect("placed a moment ago");
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
        for group in self.groups_of(txn) {
            let verdict = Verdict::Abort;
            self.request(group, Request::Resolve { txn, verdict });
        }
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
        if let Some((_, held)) = transaction.parts.get_mut(&group) {
            *held = replies;
        }
        match transaction.coordinator.on_vote(group, vote) {
            None => {}
            Some(Decision::Commit) => self.commit(txn),
            Some(Decision::Abort(refusal)) => self.abort(txn, refusal),
        }
    }

    fn commit(&mut self, txn: TxnId) {
        let groups = self.groups;
        let transaction = self.current(txn).expect("the caller has it");
        let participants = transaction.extent.groups.clone();
        if transaction.kind == Kind::Lend {
            transaction.outstanding = participants.len();
            let borrow = |group: GroupId| {
                let is_there = |key: &[u8]| group_of_key(groups, key) == group;
                let keys = objects_in(&transaction.program, transaction.wanted.get(&group), is_there);
                (group, Request::Lend { txn, keys })
            };
            let requests: Vec<_> = participants.into_iter().map(borrow).collect();
            for (group, request) in requests {
                self.request(group, request);
            }
            return;
        }
        if transaction.kind == Kind::Hold {
            let mut requests = Vec::new();
            let mut partition = transaction.program.partition(groups);
            for &group in &participants {
                let parts = partition.remove(&group).unwrap_or_default();
                let (items, operations): (_, Vec<_>) = parts.into_iter().unzip();
                // Only who has something to do answers.
                transaction.outstanding += usize::from(!operations.is_empty());
                transaction.parts.insert(group, (items, Replies::default()));
                requests.push((
                    group,
                    Request::Resolve {
                        txn,
                        verdict: Verdict::Commit(operations),
                    },
                ));
            }
            let is_answered = transaction.outstanding == 0;
            for (group, request) in requests {
                self.request(group, request);
            }
            if is_answered {
                self.answer(txn);
            }
            return;
        }
        for group in participants {
            self.request(
                group,
                Request::Resolve {
                    txn,
                    verdict: Verdict::Commit(Vec::new()),
                },
            );
        }
        let transaction = self.current(txn).expect("it is open");
        let replies = match transaction.kind {
            Kind::Flow => Answers::Whole(std::mem::take(&mut transaction.evaluated)),
            Kind::Lend => unreachable!("handled above"),
            Kind::Evaluate | Kind::Hold => Answers::Parts(std::mem::take(&mut transaction.parts)),
        };
        self.close(txn, replies);
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
        self.close(txn, Answers::Parts(parts));
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

    fn abort(&mut self, txn: TxnId, refusal: Refusal) {
        let transaction = self.current(txn).expect("the caller has it");
        for group in transaction.extent.groups.clone() {
            self.request(
                group,
                Request::Resolve {
                    txn,
                    verdict: Verdict::Abort,
                },
            );
        }
        if refusal == Refusal::Condition {
            return self.close(txn, Answers::Refused);
        }
        if refusal == Refusal::TooLarge {
            let transaction = self.current(txn).expect("it is open");
            transaction.kind = Kind::Lend;
        }
        self.stats.transaction_retries.add(1);
        self.begin_again(txn);
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
        if let Answers::Whole(replies) = &replies
            && self.on_tried(ticket, replies.bytes())
        {
            return;
        }
        self.deliveries.push_back(Delivery::Answered(Box::new(Answered {
            ticket,
            program,
            replies,
        })));
    }

    /// Tells the driver to look for connections that `CLIENT KILL` marked.
    pub(crate) fn reap_soon(&mut self) {
        self.deliveries.push_back(Delivery::Reap);
    }

    /// Gives a connection an answer that it waited for. The driver then lets it go on ([`Gateway::resume`]).
    pub fn deliver(&mut self, connection: &mut Connection, delivery: Delivery) {
        let session = &mut connection.session;
        let mut bytes = Vec::new();
        let ticket = match delivery {
            Delivery::Reply { ticket, bytes } => {
                self.look_at_reply(None, &bytes);
                return connection.pipeline.complete_with(ticket.sequence, bytes);
            }
            Delivery::Unblocked {
                ticket,
                operation,
                nanos,
                bytes: mut reply,
            } => {
                session.card.set_blocked(false);
                let (spec, args) = operation.words();
                self.look_at_reply(Some(spec), &reply);
                self.note_time(spec, nanos, args, Caller::Here(&session.card));
                bytes.append(&mut reply);
                ticket
            }
            Delivery::Answered(answered) => {
                let Answered {
                    ticket,
                    program,
                    replies,
                } = *answered;
                self.write_answer(session, &program, &replies, &mut bytes);
                if program.is_exec {
                    let exec = resp::ArgsBuf::from_slices(["exec"]);
                    self.show(
                        session,
                        session.db,
                        command::CommandId::Exec.spec(),
                        exec.as_args(),
                    );
                }
                if !session.busy.is_empty() {
                    // One of several: what waits for its keys may go on.
                    session.busy.end(program.slots());
                }
                ticket
            }
            Delivery::Watched { ticket, mut watched } => {
                session.watched.append(&mut watched);
                note_watched(session);
                Writer::new(&mut bytes, session.protocol).ok();
                ticket
            }
            Delivery::Info { ticket, args } => {
                self.run_own(
                    session,
                    command::CommandId::Info.spec(),
                    args.as_args(),
                    &mut bytes,
                );
                ticket
            }
            // The driver asks again whether to close it.
            Delivery::HungUp { .. } => return,
            Delivery::Message { .. } | Delivery::Reap => unreachable!("the driver hands it out itself"),
        };
        session.is_waiting = false;
        connection.pipeline.complete_with(ticket.sequence, bytes);
    }

    fn write_answer(
        &mut self,
        session: &mut Session,
        program: &Program,
        replies: &Answers,
        out: &mut Vec<u8>,
    ) {
        match replies {
            Answers::Refused => return refused(program, session.protocol, out),
            Answers::Failed(error) => return Writer::new(out, session.protocol).error(error),
            Answers::Parts(_) | Answers::Whole(_) => {}
        }
        if program.is_exec {
            Writer::new(out, session.protocol).array(program.items.len());
        }
        let mut whole = match replies {
            Answers::Whole(replies) => replies.iter().collect(),
            Answers::Parts(_) | Answers::Refused | Answers::Failed(_) => VecDeque::new(),
        };
        for (index, item) in program.items.iter().enumerate() {
            let start = out.len();
            let operation = match item {
                Item::Connection(queued) => {
                    self.count(queued.spec);
                    self.run_own(session, queued.spec, queued.args.as_args(), out);
                    self.show(session, session.db, queued.spec, queued.args.as_args());
                    self.look_at_reply(Some(queued.spec), &out[start..]);
                    continue;
                }
                Item::Operation(operation) => operation,
            };
            if program.is_exec {
                self.count(operation.spec);
                self.show(session, operation.db, operation.spec, operation.args.as_args());
            }
            if let Some(reply) = whole.pop_front() {
                out.extend_from_slice(reply);
                self.look_at_reply(Some(operation.spec), &out[start..]);
                continue;
            }
            let Answers::Parts(parts) = replies else { continue };
            let mut found = Vec::new();
            for (group, (items, replies)) in parts {
                if let Some(at) = items.iter().position(|item| *item == index) {
                    found.extend(replies.iter().nth(at).map(|reply| (*group, reply)));
                }
            }
            let mut writer = Writer::new(out, operation.protocol);
            match operation.parse() {
                Err(error) => error.write(&mut writer),
                // Its parts were MSETs, and that none of the keys existed was a condition.
                Ok(Command::MSetNx { .. }) if !program.is_exec => writer.integer(1),
                Ok(_) => merge(operation, self.groups, &found, &mut self.prng, &mut writer),
            }
            self.look_at_reply(Some(operation.spec), &out[start..]);
        }
    }
}

/// The answer when a condition did not hold: nil to `EXEC`, 0 to `MSETNX`.
fn refused(program: &Program, protocol: Protocol, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out, protocol);
    if program.is_exec {
        writer.null_array()
    } else {
        writer.integer(0)
    }
}

/// Whether a program can be carried out on values that are lent: it concerns keys that are known.
fn is_lendable(program: &Program, extent: &Extent) -> bool {
    let scans = |operation: &Operation| operation.spec.route == command::Route::Scan;
    !extent.is_whole && !extent.wants && !program.operations().any(scans)
}

/// The objects that a program needs of a group, in a fixed order: of the keys that it names and that `is_there` says are in
/// it, and of those that it wants there.
fn objects_in(
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

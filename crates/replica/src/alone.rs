//! The role of a replica whose group is alone on its node: whatever is asked is applied at once, in the turn's open entry.
//!
//! ```text
//!  handle(Execute, Block, Once, Watch,
//!         SnapshotRead, OptimisticRead) ------------ keys free --> Answered, Versions, SnapshotRead, OptimisticRead
//!      |                                             else: waits in the queue of the state, by age
//!  handle(Prepare, Lock) --------------------------- keys free --> Voted, Locked
//!      |                                             else: waits; Wound to the coordinators of younger prepared ones in the way
//!  handle(Wound) ----------------------------------- if it waits: Voted(Refused(Wounded))
//!  handle(Decide) ---------------------------------- effects installed, locks released, waiters go on
//!                                                    long values are written step by step first: read_on --> Locked, OptimisticRead
//!  handle(CheckOut) -------------------------------- values of keys that it holds: Locked
//!  handle(CheckIn) --------------------------------- what was checked out is back, or installed; as Decide
//! ```
//!
//! Who waits, holds and has voted is in the keyspace, as it is where a log decides. Here is who is to be answered.
//!
//! A group that is going to get a log lets no transaction in any more: else there might always be one under way, for ever where
//! those of other nodes, which cannot ask this group yet, are in the way elsewhere. The parts that are kept out are asked of the log
//! when it is there. What values are lent to waits for nobody elsewhere, and goes on: commands of its client stand behind it.
//! Nothing further is lent.
//!
//! Invariants:
//! 1. Whoever waits in the queue of the state is among `askers`, and the other way round.
//! 2. No operation touches a key that a prepared transaction holds exclusively, except its own when it is decided.

use crate::at_once::{AtOnce, Call, CarriedOut};
use crate::group_client::CROWDED_OUT;
use crate::operation::{Condition, Operation, Replies, as_conditions};
use crate::request::{Assignment, FullKey, IndexedKey, Output, Part, ReplyTo, Request, Seen, SnapshotAsker};
use crate::short_locks::ShortLocks;
use crate::state::GroupState;
use crate::steps::steps_of;
use crate::turn::Turn;
use command::{Command, Cost};
use ids::{Db, Slot};
use keyspace::{BlockCommand, Effect, QueryTxn, Returned, Terms, Told};
use keyspace::{LongStep, LongValues, Read, SeenObject, WAITING_MAX};
use resp::ReplyWriter;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use txn::{Locks, Mode, Priority, Refusal, TxnId, Vote, VoteRecord};

/// Who is answered.
enum Asker {
    Execute(ReplyTo),
    Block(ReplyTo),
    Watch(ReplyTo, Vec<IndexedKey>),
    Part(TxnId, Operation),
    Vote(TxnId),
    Lock(TxnId, Vec<FullKey>),
    SnapshotRead(TxnId, Vec<Condition>, Vec<Operation>),
    OptimisticRead(TxnId, Vec<FullKey>),
}

/// Somebody who is shown long values when they are written.
struct LongRead {
    asker: Asker,
    /// The transaction whose locks keep them as they are, if they are locked for it.
    holder: Option<TxnId>,
    told: Told,
    values: LongValues,
}

/// What only waits: who asked looks for himself when it has its turn.
const LOOK: keyspace::EntryOperation<'_> = keyspace::EntryOperation::Block {
    conditions: Vec::new(),
    commands: Vec::new(),
};

/// What a group keeps that is alone on its node, beside its state. See the file's header.
#[derive(Default)]
pub(crate) struct Alone {
    short: ShortLocks,
    /// Who waits, by the numbers under which they asked.
    askers: BTreeMap<u64, Asker>,
    requests: u64,
    /// Whether the state came with transactions of a log: nobody here has asked for them, and a log will end them.
    inherits: bool,
    /// Bytes of the values that are lent, by whom they are lent to.
    checked_out: BTreeMap<TxnId, usize>,
    /// Those who are shown long values, in their order: the first one's are being written. Bounded as what is kept out is.
    long_reads: VecDeque<LongRead>,
    /// Whether the group is going to get a log, and the parts of transactions that wait for that. Bounded by the transactions that the
    /// node's workers have under way.
    awaits_log: bool,
    kept_out: Vec<Request>,
}

impl Alone {
    /// The one dispatch of requests.
    pub(crate) fn handle(
        &mut self,
        state: &mut GroupState,
        turn: &Turn,
        request: Request,
        out: &mut Vec<Output>,
    ) {
        state.begin(turn);
        state.open();
        match request {
            // Who waits for a key to be filled is its gateway's to know.
            Request::Execute { reply_to, operation } | Request::Wait { reply_to, operation } => {
                let BlockCommand { db, protocol, args } = operation.as_state();
                let command = keyspace::EntryOperation::Command { db, protocol, args };
                self.ask(state, Asker::Execute(reply_to), command, Terms::default(), out);
            }
            Request::EndWait { .. } => {}
            Request::Part { txn, operation } => {
                let locks = crate::locks_of([operation.argv()], |_| true);
                self.look(state, Asker::Part(txn, operation), locks, out);
            }
            Request::Block {
                reply_to,
                conditions,
                operations,
            } => self.on_block(state, reply_to, &conditions, &operations, out),
            Request::Once {
                reply_to,
                request,
                operations,
            } => {
                // Whatever it takes: values that are lent to somebody else could come back without the result.
                let commands = operations.iter().map(Operation::as_state).collect();
                let once = keyspace::EntryOperation::Once { request, commands };
                self.ask(state, Asker::Block(reply_to), once, Terms::default(), out);
            }
            Request::OnePhase {
                reply_to,
                expects,
                effects,
            } => {
                let expects = as_conditions(&expects);
                let one_phase = keyspace::EntryOperation::OnePhase { expects, effects };
                self.ask(state, Asker::Block(reply_to), one_phase, Terms::default(), out);
            }
            Request::Watch { reply_to, keys } => {
                let locks = keyspace::shared(keys.iter().map(|(_, _, key)| &**key));
                self.look(state, Asker::Watch(reply_to, keys), locks, out);
            }
            Request::SnapshotRead {
                txn,
                conditions,
                operations,
                asker: SnapshotAsker::Holder | SnapshotAsker::Walker(_),
            } => {
                let asker = Asker::SnapshotRead(txn, conditions, operations);
                self.tell_holder(state, txn, asker, out);
            }
            Request::OptimisticRead {
                txn,
                keys,
                is_holder: true,
                ..
            } => self.tell_holder(state, txn, Asker::OptimisticRead(txn, keys), out),
            Request::SnapshotRead {
                txn,
                conditions,
                operations,
                asker: SnapshotAsker::OfKeys | SnapshotAsker::OfAll(_),
            } => {
                let locks = crate::locks_of(operations.iter().map(Operation::argv), |_| true);
                let locks = crate::with_conditions(locks, &conditions);
                self.look(
                    state,
                    Asker::SnapshotRead(txn, conditions, operations),
                    locks,
                    out,
                );
            }
            Request::OptimisticRead { txn, keys, .. } => {
                let locks = keyspace::shared(keys.iter().map(|(_, key)| &**key));
                self.look(state, Asker::OptimisticRead(txn, keys), locks, out);
            }
            Request::Prepare(part) if matches!(part.assignment, crate::Assignment::Move(_)) => {
                out.push(refusal(state, part.txn, Refusal::Busy));
            }
            Request::Prepare(ref part) | Request::Lock(ref part)
                if self.awaits_log && part.can_be_put_off() =>
            {
                self.kept_out.push(request);
            }
            Request::Prepare(part) => self.on_prepare(state, *part, out),
            Request::Lock(part) => self.on_lock(state, *part, out),
            Request::Wound { txn } if self.drop_kept_out(txn) => {
                out.push(refusal(state, txn, Refusal::Wounded));
            }
            Request::Decide {
                txn,
                is_committed,
                is_awaited,
                worker,
                is_final,
            } => {
                self.drop_kept_out(txn);
                let replies = self.on_decide(state, txn, is_committed, is_final);
                if is_awaited || !is_final {
                    out.push(Output::Decided {
                        txn,
                        group: state.group,
                        replies,
                        worker,
                    });
                }
            }
            Request::QueryTxn {
                txn,
                participants,
                worker,
            } => {
                let query_txn = keyspace::EntryOperation::QueryTxn(QueryTxn { txn, participants });
                let told = state
                    .keyspace
                    .ask(0, query_txn, Terms::default(), &mut state.local);
                let code = told.and_then(|told| told.vote);
                out.push(Output::QueriedTxn {
                    txn,
                    group: state.group,
                    vote_record: code.and_then(VoteRecord::of_code).unwrap_or(VoteRecord::Over),
                    worker,
                });
            }
            Request::Wound { txn } => apply_quietly(state, keyspace::EntryOperation::Withdraw { txn }),
            Request::Forget { txn, low } => {
                let forget = keyspace::Forget {
                    coordinator: txn.coordinator(),
                    low,
                    over: vec![(txn.seq, txn.attempt)],
                };
                apply_quietly(state, keyspace::EntryOperation::Forget(forget));
            }
            // Partitions move between groups with logs.
            Request::Arrive { txn, .. } => out.push(Output::Arrived {
                txn,
                group: state.group,
                is_taken: false,
            }),
            Request::CheckOut { txn, keys } => self.on_check_out(state, txn, &keys, out),
            Request::CheckIn {
                txn,
                returned,
                events,
                lazyfree,
                counts,
            } => {
                state.local.hits += counts.hits;
                state.local.misses += counts.misses;
                state.keyspace.adopt_lazyfree(lazyfree);
                state.local.events.extend(events);
                self.on_check_in(state, txn, returned);
            }
        }
        self.answer_waiters(state, out);
    }

    /// Asks the state, and answers whoever asked if that need not wait.
    fn ask(
        &mut self,
        state: &mut GroupState,
        asker: Asker,
        operation: keyspace::EntryOperation<'_>,
        terms: Terms,
        out: &mut Vec<Output>,
    ) {
        let told = self.put(state, operation, terms);
        self.answer(state, asker, told, out);
    }

    /// Asks the state: what it says, if that need not wait.
    fn put(
        &mut self,
        state: &mut GroupState,
        operation: keyspace::EntryOperation<'_>,
        terms: Terms,
    ) -> Option<Told> {
        if !self.short.is_empty() {
            self.make_ordinary(state);
        }
        self.requests += 1;
        state
            .keyspace
            .ask(self.requests, operation, terms, &mut state.local)
    }

    /// Answers whoever asked last, now or when he has his turn.
    fn answer(&mut self, state: &mut GroupState, asker: Asker, told: Option<Told>, out: &mut Vec<Output>) {
        match told {
            Some(told) => self.tell(state, asker, told, out),
            None => drop(self.askers.insert(self.requests, asker)),
        }
    }

    /// Lets somebody look when these are free.
    fn look(&mut self, state: &mut GroupState, asker: Asker, locks: Locks, out: &mut Vec<Output>) {
        let terms = Terms {
            locks: Some(locks),
            keeps_place: false,
        };
        self.ask(state, asker, LOOK, terms, out);
    }

    /// Lets a transaction look at what it has locked, if it has the locks still.
    fn tell_holder(&mut self, state: &mut GroupState, txn: TxnId, asker: Asker, out: &mut Vec<Output>) {
        match state.keyspace.locks_of(txn) {
            Some(_) => self.show(state, asker, Told::default(), Some(txn), out),
            None => out.push(refusal(state, txn, Refusal::Wounded)),
        }
    }

    /// Tells somebody what he has asked for, at once or when what is long of it is written.
    fn show(
        &mut self,
        state: &mut GroupState,
        asker: Asker,
        told: Told,
        holder: Option<TxnId>,
        out: &mut Vec<Output>,
    ) {
        let keys = match &asker {
            Asker::OptimisticRead(_, keys) | Asker::Lock(_, keys) => &keys[..],
            _ => &[],
        };
        let keys = keys.iter().map(|(db, key)| (*db, &**key));
        match LongValues::begin(&state.keyspace, keys) {
            Some(values) => self.long_reads.push_back(LongRead {
                asker,
                holder,
                told,
                values,
            }),
            None => self.tell_now(state, asker, told, out),
        }
    }

    /// Whether values are being written for somebody: [`Alone::read_on`].
    pub(crate) fn reads_on(&self) -> bool {
        !self.long_reads.is_empty()
    }

    /// Writes a step of them.
    pub(crate) fn read_on(&mut self, state: &mut GroupState, turn: &Turn, out: &mut Vec<Output>) {
        let Some(long) = self.long_reads.front_mut() else {
            return;
        };
        let step = long.values.go_on(&state.keyspace);
        if step == LongStep::More {
            return;
        }
        let Some(LongRead {
            asker,
            holder,
            told,
            values,
        }) = self.long_reads.pop_front()
        else {
            return;
        };
        let (txn, locks) = match &asker {
            Asker::OptimisticRead(txn, keys) | Asker::Lock(txn, keys) => {
                (*txn, keyspace::shared(keys.iter().map(|(_, key)| &**key)))
            }
            _ => unreachable!("nobody else is shown long values"),
        };
        state.begin(turn);
        state.open();
        match holder {
            // Nobody changes what it has locked.
            Some(_) if step == LongStep::Changed || state.keyspace.locks_of(txn).is_none() => {
                out.push(refusal(state, txn, Refusal::Wounded));
            }
            None if step == LongStep::Changed => out.push(refusal(state, txn, Refusal::Changed)),
            None if !self.is_free(state, || locks.clone()) => self.look(state, asker, locks, out),
            Some(_) | None => {
                state.local.written = Some(values);
                self.tell_now(state, asker, told, out);
                state.local.written = None;
            }
        }
        self.answer_waiters(state, out);
    }

    /// Answers those who waited and have had their turn, and tells of younger transactions that older ones wait for.
    fn answer_waiters(&mut self, state: &mut GroupState, out: &mut Vec<Output>) {
        for (number, told) in state.keyspace.take_told(&mut state.local) {
            let asker = self.askers.remove(&number).expect("invariant 1");
            self.tell(state, asker, told, out);
        }
        let wounds = state.local.wounds.drain(..);
        out.extend(wounds.map(|(txn, _)| Output::Wound { txn }));
    }

    fn tell(&mut self, state: &mut GroupState, asker: Asker, told: Told, out: &mut Vec<Output>) {
        if told.is_crowded_out {
            return out.push(asker.crowded_out(state.group));
        }
        match asker {
            Asker::Lock(txn, _) if state.keyspace.locks_of(txn).is_some() => {
                self.show(state, asker, told, Some(txn), out);
            }
            Asker::OptimisticRead(..) => self.show(state, asker, told, None, out),
            _ => self.tell_now(state, asker, told, out),
        }
    }

    fn tell_now(&mut self, state: &mut GroupState, asker: Asker, told: Told, out: &mut Vec<Output>) {
        let group = state.group;
        out.push(match asker {
            Asker::Execute(reply_to) => Output::Answered {
                reply_to,
                replies: Some(Replies::of_told(told)),
            },
            Asker::Block(reply_to) => Output::Answered {
                reply_to,
                replies: told.is_carried_out.then(|| Replies::of_told(told)),
            },
            Asker::Watch(reply_to, keys) => {
                let versions = keys
                    .iter()
                    .map(|(at, db, key)| (*at, state.keyspace.version(*db, key)));
                Output::Versions {
                    reply_to,
                    versions: versions.collect(),
                }
            }
            Asker::Part(txn, operation) => Output::Resolved {
                txn,
                group,
                replies: self.run_in_place(state, std::slice::from_ref(&operation)),
            },
            Asker::Vote(txn) => {
                let (vote, replies) = Replies::of_vote(told);
                Output::Voted {
                    txn,
                    group,
                    vote,
                    is_logged: false,
                    replies,
                }
            }
            Asker::Lock(txn, keys) => match Replies::of_vote(told) {
                (Vote::Prepared, _) => {
                    let objects = keys.iter().map(|key| seen(state, key)).collect();
                    Output::Locked {
                        txn,
                        group,
                        is_logged: false,
                        time: state.keyspace.time(),
                        objects,
                    }
                }
                (vote, replies) => Output::Voted {
                    txn,
                    group,
                    vote,
                    is_logged: false,
                    replies,
                },
            },
            Asker::SnapshotRead(txn, conditions, operations) => {
                let holds = as_conditions(&conditions)
                    .iter()
                    .all(|one| state.keyspace.holds(one));
                let replies = holds.then(|| self.run_in_place(state, &operations));
                // Nobody counts here for how long it has been so.
                let age = Duration::ZERO;
                Output::SnapshotRead {
                    txn,
                    group,
                    seen: Seen { replies, age },
                }
            }
            Asker::OptimisticRead(txn, keys) => {
                let versioned = |key: &FullKey| (seen(state, key), state.keyspace.version(key.0, &key.1));
                Output::OptimisticRead {
                    txn,
                    group,
                    objects: keys.iter().map(versioned).collect(),
                    age: Duration::ZERO,
                    time: state.keyspace.time(),
                }
            }
        });
    }

    /// Carries out commands on the state itself.
    pub(crate) fn run_in_place(&mut self, state: &mut GroupState, operations: &[Operation]) -> Replies {
        let turn = state.turn;
        let mut replies = Replies::default();
        for operation in operations {
            replies.push(operation.protocol, |writer| match operation.parse() {
                Ok(command) => self.execute(state, &turn, operation.db, &command, writer),
                Err(error) => error.write(writer),
            });
        }
        replies
    }

    /// Whether commands are to be carried out elsewhere, on values that are checked out: they are too many steps; or they have to
    /// wait, and how far they will walk cannot be told yet.
    fn is_too_large(&self, state: &GroupState, operations: &[Operation], steps: usize) -> bool {
        let walks = |operation: &Operation| operation.spec.cost != Cost::Little;
        if self.awaits_log || steps <= state.turn.steps_max && !operations.iter().any(walks) {
            return false;
        }
        let locks = crate::locks_of(operations.iter().map(Operation::argv), |_| true);
        // What looks at groups as a whole cannot be lent what it looks at.
        matches!(locks, Locks::Keys(_)) && (steps > state.turn.steps_max || !self.is_free(state, || locks))
    }

    fn on_block(
        &mut self,
        state: &mut GroupState,
        reply_to: ReplyTo,
        conditions: &[Condition],
        operations: &[Operation],
        out: &mut Vec<Output>,
    ) {
        if self.is_too_large(state, operations, steps(state, operations)) {
            return out.push(Output::TooLarge { reply_to });
        }
        let block = keyspace::EntryOperation::Block {
            conditions: as_conditions(conditions),
            commands: operations.iter().map(Operation::as_state).collect(),
        };
        self.ask(state, Asker::Block(reply_to), block, Terms::default(), out);
    }

    fn on_prepare(&mut self, state: &mut GroupState, mut part: Part, out: &mut Vec<Output>) {
        if let (Assignment::Evaluate { operations, .. }, true) = (&part.assignment, part.is_bounded)
            && self.is_too_large(state, operations, steps_beside(state, operations))
        {
            return out.push(refusal(state, part.txn, Refusal::TooLarge));
        }
        let mut terms = Terms::default();
        if let Assignment::CheckOut { locks, keeps_place } = &mut part.assignment {
            terms.locks = Some(std::mem::replace(locks, Locks::Keys(Vec::new())));
            terms.keeps_place = *keeps_place;
        }
        let told = self.put(state, part.as_state(), terms);
        self.answer(state, Asker::Vote(part.txn), told, out);
    }

    fn on_lock(&mut self, state: &mut GroupState, mut part: Part, out: &mut Vec<Output>) {
        if let (
            Assignment::Lock {
                keys,
                is_whole: false,
            },
            true,
        ) = (&part.assignment, part.is_bounded)
        {
            let size = |((db, key), _): &(FullKey, bool)| state.keyspace.size(*db, key);
            let sizes = keys.iter().map(size).fold(0, usize::saturating_add);
            // Of what is checked out, nobody here knows the size.
            if sizes > state.turn.steps_max || !self.checked_out.is_empty() {
                return out.push(refusal(state, part.txn, Refusal::TooLarge));
            }
        }
        let told = self.put(state, part.as_state(), Terms::default());
        let keys = match part.assignment {
            Assignment::Lock { keys, .. } => keys.into_iter().map(|(key, _)| key).collect(),
            _ => Vec::new(),
        };
        self.answer(state, Asker::Lock(part.txn, keys), told, out);
    }

    fn on_decide(
        &mut self,
        state: &mut GroupState,
        txn: TxnId,
        is_committed: bool,
        is_final: bool,
    ) -> Replies {
        if is_final {
            return Replies::of_told(state.keyspace.end_for_good(txn, is_committed, &mut state.local));
        }
        let resolve = keyspace::Resolve {
            decisions: vec![(txn, is_committed)],
        };
        let resolve = keyspace::EntryOperation::Resolve(resolve);
        let told = state.keyspace.ask(0, resolve, Terms::default(), &mut state.local);
        Replies::of_told(told.expect("a decision waits for nothing"))
    }

    fn on_check_out(&mut self, state: &mut GroupState, txn: TxnId, keys: &[FullKey], out: &mut Vec<Output>) {
        let objects: Vec<_> = keys
            .iter()
            .map(|(db, key)| state.keyspace.check_out_value(*db, key))
            .collect();
        let bytes = objects.iter().flatten().map(keyspace::Object::memory).sum();
        self.checked_out.insert(txn, bytes);
        out.push(Output::Locked {
            txn,
            group: state.group,
            is_logged: false,
            time: state.keyspace.time(),
            objects: objects
                .into_iter()
                .map(|object| object.map(SeenObject::Whole))
                .collect(),
        });
    }

    fn on_check_in(&mut self, state: &mut GroupState, txn: TxnId, returned: Vec<Returned>) {
        let mut effects: Vec<Effect> = Vec::new();
        for one in returned {
            match one {
                Returned::Unchanged(db, object) => state.keyspace.check_in_value(db, object),
                Returned::Changed(effect) => effects.push(effect),
            }
        }
        if !effects.is_empty() {
            state.keyspace.install(effects, &mut state.local);
        }
        self.checked_out.remove(&txn);
        state.keyspace.end_for_good(txn, true, &mut state.local);
    }

    /// Whether a command on these keys need not wait. One branch where no transaction is under way.
    #[inline]
    pub(crate) fn is_free(&self, state: &GroupState, locks: impl FnOnce() -> Locks) -> bool {
        self.is_idle(state) || {
            let locks = locks();
            state.keyspace.is_free(&locks) && self.short.admits(&locks)
        }
    }

    /// The same for one key, of this slot; `file` as for [`Alone::hold`], if the key is to be held.
    #[inline]
    pub(crate) fn is_key_free(
        &self,
        state: &GroupState,
        slot: Slot,
        key: &[u8],
        mode: Mode,
        file: Option<u16>,
    ) -> bool {
        let keyspace = &state.keyspace;
        let is_full = file.is_some() && (self.short.is_full() || keyspace.has_lock_waiters());
        let mode = file.map_or(mode, |_| keyspace.mode_of(key, mode));
        !is_full
            && self.short.admits_key(slot, key, mode, file)
            && (keyspace.is_unlocked() || keyspace.is_free(&Locks::Keys(vec![(key.into(), mode)])))
    }

    /// Holds a key that is free.
    #[inline]
    pub(crate) fn hold(
        &mut self,
        slot: Slot,
        key: &[u8],
        mode: Mode,
        file: u16,
        txn: TxnId,
        priority: Priority,
    ) {
        self.short.hold(slot, key, mode, file, txn, priority);
    }

    /// Lets go of all that [`Alone::hold`] held; who waits for it goes on.
    #[inline]
    pub(crate) fn let_go(&mut self, state: &mut GroupState, turn: &Turn, txn: TxnId, out: &mut Vec<Output>) {
        // Who waited for these would have made them ordinary ones.
        if !self.short.let_go(txn) {
            state.begin(turn);
            state.open();
            state.keyspace.let_go(txn, &mut state.local);
            self.answer_waiters(state, out);
        }
    }

    /// Somebody may have to wait for short locks.
    fn make_ordinary(&mut self, state: &mut GroupState) {
        for (txn, priority, locks) in self.short.take() {
            state.keyspace.hold(txn, priority, locks);
        }
    }

    /// Carries out a command whose keys are free.
    #[inline]
    pub(crate) fn execute(
        &self,
        state: &mut GroupState,
        turn: &Turn,
        db: Db,
        command: &Command<'_>,
        out: &mut ReplyWriter<'_>,
    ) {
        state.begin(turn);
        if command.writes() {
            state.open();
            state.keyspace.apply_command(db, command, &mut state.local, out);
            return;
        }
        if state.keyspace.read(db, command, &mut state.local, out) == Read::AwaitsTime {
            // The answer says that a key has expired: from here on it has, by group time too.
            state.open();
        }
        self.expire_met(state);
    }

    /// Carries out one of several commands that are to be done together.
    pub(crate) fn call(
        &self,
        state: &mut GroupState,
        run: &mut AtOnce,
        call: &Call<'_>,
        out: &mut ReplyWriter<'_>,
    ) -> CarriedOut {
        if !self.is_free(state, || call.locks()) {
            return CarriedOut::Held;
        }
        if call.command.writes() {
            state.open();
            return call.apply(state, run, |_| {}, out);
        }
        if state.keyspace.read(call.db, call.command, &mut state.local, out) == Read::AwaitsTime {
            state.open();
        }
        CarriedOut::Done
    }

    /// Deletes the expired keys that reads met.
    #[inline]
    pub(crate) fn expire_met(&self, state: &mut GroupState) {
        if state.local.met_expired.is_empty() {
            return;
        }
        if state.keeps_expired {
            return state.local.met_expired.clear();
        }
        state.open();
        let met = std::mem::take(&mut state.local.met_expired);
        self.expire(state, met);
    }

    fn expire(&self, state: &mut GroupState, keys: Vec<(Db, Box<[u8]>)>) {
        for (db, key) in keys {
            if self.is_free(state, || exclusive(&key)) {
                state.keyspace.expire(db, &key, &mut state.local);
            }
        }
    }

    /// Searches for expired keys and deletes them, looking at no more than about `objects_max` objects. `true`
    /// if the whole group was searched. Locked keys are left alone until they are free.
    pub(crate) fn expire_due(&self, state: &mut GroupState, turn: &Turn, objects_max: usize) -> bool {
        let mut found = Vec::new();
        let is_complete = state.find_expired(turn, objects_max, &mut found);
        if !found.is_empty() {
            state.open();
        }
        self.expire(state, found);
        is_complete
    }

    /// Deletes `key` to make room, unless it is locked.
    pub(crate) fn evict(&self, state: &mut GroupState, turn: &Turn, db: Db, key: &[u8]) -> bool {
        state.begin(turn);
        let is_free = self.is_free(state, || exclusive(key));
        if is_free {
            state.open();
            state.keyspace.evict(db, key, &mut state.local);
        }
        is_free
    }

    /// Bytes of what is lent, which the keyspace does not count.
    pub(crate) fn checked_out_bytes(&self) -> usize {
        self.checked_out.values().sum()
    }

    /// Whether no transaction is under way here.
    #[inline]
    pub(crate) fn is_idle(&self, state: &GroupState) -> bool {
        state.keyspace.is_unlocked() && self.short.is_empty()
    }

    /// Whether another request may wait here.
    pub(crate) fn has_room_to_wait(&self) -> bool {
        self.askers.len() < WAITING_MAX
    }

    /// Whether nothing is locked, lent or waited for, so that the group can get a log.
    pub(crate) fn is_quiet(&self, state: &GroupState) -> bool {
        let is_unlocked = self.inherits || state.keyspace.is_unlocked();
        let is_asked = !self.askers.is_empty() || !self.long_reads.is_empty();
        is_unlocked && self.short.is_empty() && !is_asked && self.checked_out.is_empty()
    }

    /// The group is going to get a log, or is not after all: then what was kept out is handed back.
    pub(crate) fn await_log(&mut self, awaits_log: bool) -> Vec<Request> {
        self.awaits_log = awaits_log;
        if awaits_log {
            return Vec::new();
        }
        std::mem::take(&mut self.kept_out)
    }

    pub(crate) fn awaits_log(&self) -> bool {
        self.awaits_log
    }

    /// A transaction's part is not wanted any more, if it was kept out.
    fn drop_kept_out(&mut self, txn: TxnId) -> bool {
        let before = self.kept_out.len();
        self.kept_out.retain(|request| match request {
            Request::Prepare(part) | Request::Lock(part) => part.txn != txn,
            _ => true,
        });
        self.kept_out.len() < before
    }

    /// Whether a transaction has, or may have, left something to be done here: what is held then is not all there is.
    pub(crate) fn has_transactions(&self, state: &GroupState) -> bool {
        !self.is_idle(state) || !self.checked_out.is_empty()
    }

    /// The state that it begins with came from an earlier life.
    pub(crate) fn restore(&mut self, state: &GroupState) {
        self.inherits = !state.keyspace.is_unlocked();
    }

    /// Says which of the invariants that can be seen between two calls does not hold.
    pub(crate) fn check(&self, state: &GroupState) -> Result<(), String> {
        let (waiting, askers) = (state.keyspace.transaction_counts().waiting, self.askers.len());
        if !self.inherits && waiting != askers {
            let group = state.group;
            return Err(format!(
                "invariant 1 of {group:?}: {waiting} wait, {askers} are to be answered"
            ));
        }
        match self.short.is_empty() || !state.keyspace.has_lock_waiters() {
            true => Ok(()),
            false => Err(format!("invariant 2 of short locks of {:?}", state.group)),
        }
    }
}

fn apply_quietly(state: &mut GroupState, operation: keyspace::EntryOperation<'_>) {
    state
        .keyspace
        .ask(0, operation, Terms::default(), &mut state.local);
}

/// What is under a key: a copy, or what was written of it.
fn seen(state: &mut GroupState, (db, key): &FullKey) -> Option<SeenObject> {
    let written = state.local.written.as_ref();
    let written = written.and_then(|written| written.of(&state.keyspace, *db, key));
    match written {
        Some(encoded) => Some(SeenObject::Encoded(encoded.clone())),
        None => state.keyspace.share_object(*db, key).map(SeenObject::Whole),
    }
}

fn refusal(state: &GroupState, txn: TxnId, refusal: Refusal) -> Output {
    Output::Voted {
        txn,
        group: state.group,
        vote: Vote::Refused(refusal),
        is_logged: false,
        replies: Replies::default(),
    }
}

/// How many steps commands would take, each for itself: see [`keyspace::cost`].
fn steps(state: &GroupState, operations: &[Operation]) -> usize {
    steps_of(operations, &|_| Some(&state.keyspace))
}

/// How many steps evaluating them beside the state would take, copies included.
fn steps_beside(state: &GroupState, operations: &[Operation]) -> usize {
    let needs_copies = |operation: &Operation| match operation.parse() {
        Ok(Command::Del { .. } | Command::MSet { .. }) => operations.len() > 1,
        Ok(command) => command.writes(),
        Err(_) => false,
    };
    let mut steps = steps(state, operations);
    if operations.iter().any(needs_copies) {
        for operation in operations {
            operation.keys(|key, _| {
                steps = steps.saturating_add(state.keyspace.size(operation.db, key));
            });
        }
    }
    steps
}

fn exclusive(key: &[u8]) -> Locks {
    Locks::Keys(vec![(key.into(), Mode::Exclusive)])
}

impl Asker {
    /// There was no room to wait.
    fn crowded_out(self, group: ids::GroupId) -> Output {
        let error = CROWDED_OUT;
        match self {
            Asker::Execute(reply_to) | Asker::Block(reply_to) => Output::Failed {
                reply_to,
                error,
                journey: None,
            },
            Asker::Watch(reply_to, _) => Output::FailedWatch { reply_to, error },
            Asker::Part(txn, _)
            | Asker::Vote(txn)
            | Asker::Lock(txn, _)
            | Asker::SnapshotRead(txn, ..)
            | Asker::OptimisticRead(txn, _) => Output::FailedPart { txn, group, error },
        }
    }
}

//! One replica of one group.
//!
//! ```text
//!  execute ----------------------- keys free --> apply or read, at once
//!  handle(Execute, Block, Watch) - keys free --> apply or read, Answered
//!      |                           else: waits in the lock table, by age
//!  handle(LockRead, Prepare) ----- keys free --> Locked, Voted
//!      |                           else: waits; Wound to younger prepared ones in the way
//!  handle(Withdraw) -------------- if it waits: Voted(Refused(Wounded))
//!  handle(Resolve) --------------- effects installed, locks released, waiters go on
//!  handle(Lend) ------------------ prepared, to hold its keys: Lent
//!  handle(TakeBack) -------------- what was lent is back, or installed; locks released, waiters go on
//!  hold --------- keys free -----> held until `let_go`; whoever meets them waits as for prepared ones
//! ```
//!
//! Invariants:
//! 1. Every waiter of the lock table has its request in `waiting`, and the other way round.
//! 2. `prepared` holds exactly the transactions that the lock table says are prepared, those with brief locks aside.
//! 3. No operation touches a key that a prepared transaction holds exclusively, except its own at `Resolve`.

mod brief;
mod evaluate;
mod replicated;

pub(crate) use replicated::read_words;

use crate::operation::{Condition, Operation, Outcome, Replies, Step, with_conditions};
use crate::parked::{Marks, Parked};
use crate::request::{FullKey, Output, Request, Task, Ticket, Verdict};
use crate::turn::Turn;
use brief::BriefLocks;
use command::Command;
use ids::{Boot, Db, GroupId, HashSeed, PartitionRange, Prng, SemanticsVersion, Slot, UnixMillis};
use keyspace::Cursor;
use keyspace::{
    ClientRequest, Effect, Event, EventClasses, EvictionPolicy, Garbage, Header, KeptResult, KeyVersion,
    Keyspace, LeaderLocal, Limits, Object, OpenTransaction, Read, Returned, Standing, TransactionCounts,
    Victims, locks_among as locks_of,
};
use resp::Writer;
use std::collections::BTreeMap;
use txn::{Grant, LockTable, Locks, Mode, Participant, Priority, Refusal, RequestId, Requester, TxnId, Vote};

/// Requests that may wait in one group. At the limit the gateway refuses plain commands; transactions are as few as the
/// connections let them be.
const WAITING_MAX: usize = 65_536;

/// One replica of one group. See the file's header.
pub struct Replica {
    group: GroupId,
    /// How many times the group had begun anew when the log began that is applied here.
    generation: u64,
    keyspace: Keyspace,
    local: LeaderLocal,
    turn: Turn,
    /// Whether `turn` is one that was told.
    has_begun: bool,
    entry_is_open: bool,
    locks: LockTable,
    brief: BriefLocks,
    waiting: BTreeMap<RequestId, Request>,
    prepared: BTreeMap<TxnId, Outcome>,
    requests: RequestId,
    /// How many keys clients wait for, each counted as often as it is waited for.
    awaited: usize,
    counters: Counters,
    /// Bytes of the values that are lent, by whom they are lent to.
    lent: BTreeMap<TxnId, usize>,
    /// Reads that wait for transactions of the replicated group, and when what was applied.
    pub(crate) parked: Parked,
    marks: Marks,
    /// Whether expired keys stay where they are for now: see [`Replica::keep_expired`].
    keeps_expired: bool,
    /// Whether others hold the same: nothing is carried out here but entries, and no key is free.
    is_replicated: bool,
    /// The newest rules that its keyspaces know.
    known: ids::SemanticsVersion,
}

/// Lookups that were made elsewhere.
#[derive(Clone, Copy, Default, Debug)]
pub struct LocalCounts {
    /// Of keys that were there.
    pub hits: u64,
    /// Of keys that were not.
    pub misses: u64,
}

/// What a replica counted since it began.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counters {
    /// Transactions over several groups that were prepared here.
    pub prepared: u64,
    /// Requests that had to wait for locks.
    pub waited: u64,
    /// Transactions that were withdrawn for an older one.
    pub wounded: u64,
}

impl Replica {
    /// An empty replica of `group`, which hosts these partitions.
    pub fn new(group: GroupId, seed: HashSeed, partitions: PartitionRange) -> Replica {
        // Not the hash seed itself: what follows from this one shows in random picks.
        let local_seed = seed.hash(b"leader-local").0;
        let mut keyspace = Keyspace::new(seed, partitions);
        keyspace.set_place(Participant::first(group));
        Replica {
            group,
            generation: 0,
            keyspace,
            local: LeaderLocal::new(local_seed),
            turn: Turn {
                number: 0,
                now: UnixMillis(0),
                seed: 0,
                lfu: None,
                notify: EventClasses::default(),
                steps_max: usize::MAX,
                semantics: ids::SemanticsVersion::CURRENT,
            },
            has_begun: false,
            entry_is_open: false,
            locks: LockTable::default(),
            brief: BriefLocks::default(),
            waiting: BTreeMap::new(),
            prepared: BTreeMap::new(),
            requests: 0,
            awaited: 0,
            counters: Counters::default(),
            lent: BTreeMap::new(),
            parked: Parked::default(),
            marks: Marks::default(),
            keeps_expired: false,
            is_replicated: false,
            known: ids::SemanticsVersion::CURRENT,
        }
    }

    /// This replica as a build would have it that knows no rules newer than `newest`.
    pub fn knows(mut self, newest: ids::SemanticsVersion) -> Replica {
        self.known = newest;
        self.keyspace = self.keyspace.knows(newest);
        self
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The state, to look at.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// What the leader keeps beside it.
    pub fn local(&self) -> &LeaderLocal {
        &self.local
    }

    /// What happened since it was last asked, in order: empty if nobody listens.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.local.events)
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Transactions that hold locks and requests that wait.
    pub fn lock_counts(&self) -> (usize, usize) {
        (self.locks.holder_count(), self.locks.waiter_count())
    }

    /// How much of transactions is here, and who waits for them.
    pub fn transaction_counts(&self) -> TransactionCounts {
        let mut counts = self.keyspace.transaction_counts();
        let (holders, waiters) = self.lock_counts();
        counts.prepared += holders;
        counts.waiting += waiters;
        counts
    }

    /// How many transactions were refused here because an older one waited for them.
    pub fn wounded(&self) -> u64 {
        self.counters.wounded + self.local.wounded
    }

    /// Keys with the most waiters, and how many these are; at most `max`.
    pub fn hottest_keys(&self, max: usize) -> Vec<(&[u8], usize)> {
        if self.is_replicated {
            return self.keyspace.hottest_keys(max);
        }
        self.locks.hottest(max)
    }

    /// The oldest of the transactions that hold locks here, at most `max`.
    pub fn oldest_transactions(&self, max: usize) -> Vec<OpenTransaction> {
        if self.is_replicated {
            return self.keyspace.oldest_transactions(max);
        }
        OpenTransaction::oldest(&self.locks, max)
    }

    /// Forgets hits, misses and other counts.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
        (self.local.hits, self.local.misses) = (0, 0);
        (self.local.expired, self.local.evicted) = (0, 0);
        self.local.wounded = 0;
        self.keyspace.reset_garbage_counts();
    }

    /// Learns the time, once a turn.
    #[inline]
    fn begin(&mut self, turn: &Turn) {
        if self.turn.number != turn.number || !self.has_begun {
            self.has_begun = true;
            self.turn = *turn;
            self.entry_is_open = false;
            self.local.now = turn.now;
            self.local.access.set(turn.now, turn.lfu);
            self.local.notify = turn.notify;
        }
    }

    /// Opens the turn's entry.
    #[inline]
    fn open(&mut self) {
        if !self.entry_is_open {
            self.entry_is_open = true;
            let seed = Prng::new(self.turn.seed ^ u64::from(self.group.number())).next_u64();
            let header = Header {
                semantics: SemanticsVersion::CURRENT,
                now: self.turn.now,
                seed,
            };
            self.keyspace
                .open(&header)
                .expect("a build knows the rules that it writes");
        }
    }

    /// Whether a command on these keys need not wait. One branch where no transaction is under way.
    #[inline]
    pub fn is_free(&self, locks: impl FnOnce() -> Locks) -> bool {
        !self.is_replicated && (self.is_idle() || self.admits_here(&locks()))
    }

    fn admits_here(&self, locks: &Locks) -> bool {
        self.locks.admits(locks) && self.brief.admits(locks)
    }

    /// [`Replica::is_free`] for one key, of this slot; `file` as for [`Replica::hold`], if the key is to be held.
    #[inline]
    pub fn is_key_free(&self, slot: Slot, key: &[u8], mode: Mode, file: Option<u16>) -> bool {
        let is_full = file.is_some() && self.brief.is_full();
        !self.is_replicated
            && !is_full
            && self.brief.admits_key(slot, key, mode, file)
            && (self.locks.is_idle() || self.locks.admits(&Locks::Keys(vec![(key.into(), mode)])))
    }

    /// Holds a key for a transaction, though nothing is prepared: the key is free ([`Replica::is_key_free`]), and the locks
    /// will be let go of soon and whatever happens ([`Replica::let_go`]). It may be held already, by the same transaction or
    /// one of the same `file`: these are carried out and let go of in their order.
    #[inline]
    pub fn hold(&mut self, slot: Slot, key: &[u8], mode: Mode, file: u16, txn: TxnId, priority: Priority) {
        self.brief.hold(slot, key, mode, file, txn, priority);
    }

    /// Lets go of all that [`Replica::hold`] held; who waits for it goes on.
    #[inline]
    pub fn let_go(&mut self, turn: &Turn, txn: TxnId, out: &mut Vec<Output>) {
        // Who waited for these would have made them ordinary ones.
        if !self.brief.let_go(txn) {
            self.begin(turn);
            self.locks.release(txn);
            self.go_on(out);
        }
    }

    /// Somebody may have to wait for brief locks.
    fn make_ordinary(&mut self) {
        for (txn, priority, locks) in self.brief.take() {
            self.requests += 1;
            let grant = self
                .locks
                .request(self.requests, Requester::Preparing(txn), priority, locks);
            assert!(grant == Grant::Granted, "a brief lock conflicts with nobody");
        }
    }

    /// Whether the group has other replicas, so that whatever changes it is an entry.
    #[inline]
    pub fn is_replicated(&self) -> bool {
        self.is_replicated
    }

    /// The group is going to have other replicas. Only while no transaction is under way here.
    pub fn set_replicated(&mut self) {
        assert!(self.is_quiet(), "locks are not replicated");
        self.is_replicated = true;
    }

    /// Carries out a command whose keys are free ([`Replica::is_free`]).
    #[inline]
    pub fn execute(&mut self, turn: &Turn, db: Db, command: &Command<'_>, out: &mut Writer<'_>) {
        self.begin(turn);
        if command.writes() {
            self.open();
            self.keyspace.apply_command(db, command, &mut self.local, out);
            return;
        }
        if self.keyspace.read(db, command, &mut self.local, out) == Read::AwaitsTime {
            // The answer says that a key has expired: from here on it has, by group time too.
            self.open();
        }
        self.expire_met();
    }

    /// Deletes the expired keys that reads met.
    #[inline]
    fn expire_met(&mut self) {
        if self.local.met_expired.is_empty() {
            return;
        }
        if self.keeps_expired {
            return self.local.met_expired.clear();
        }
        self.open();
        for (db, key) in std::mem::take(&mut self.local.met_expired) {
            if self.is_free(|| exclusive(&key)) {
                self.keyspace.expire(db, &key, &mut self.local);
            }
        }
    }

    /// Searches for expired keys and deletes them, looking at no more than about `objects_max` objects. `true`
    /// if the whole group was searched. Locked keys are left alone until they are free.
    pub fn expire_due(&mut self, turn: &Turn, objects_max: usize) -> bool {
        if self.keeps_expired {
            return true;
        }
        self.begin(turn);
        let mut found = Vec::new();
        let complete = self.keyspace.due(turn.now, objects_max, &mut found);
        if !found.is_empty() {
            self.open();
        }
        for (db, key) in found {
            if self.is_free(|| exclusive(&key)) {
                self.keyspace.expire(db, &key, &mut self.local);
            }
        }
        complete
    }

    /// Whether keys that have expired stay until further notice. For clients they are gone all the same; but while
    /// `CLIENT PAUSE` holds writes back, the data do not change.
    pub fn keep_expired(&mut self, keeps: bool) {
        self.keeps_expired = keeps;
    }

    /// Whether the lookups that follow count as use of keys: `CLIENT NO-TOUCH`.
    pub fn touch(&mut self, touches: bool) {
        self.local.touches = touches;
    }

    /// Sets how large collections may be and still be kept small, if that differs from what is so.
    pub fn set_limits(&mut self, turn: &Turn, limits: Limits) {
        if self.keyspace.limits() != limits {
            self.begin(turn);
            self.open();
            self.keyspace.set_limits(limits);
        }
    }

    /// Offers keys to be given up; see [`Keyspace::sample_victims`].
    pub fn sample_victims(
        &mut self,
        turn: &Turn,
        index: usize,
        policy: EvictionPolicy,
        samples: u32,
        victims: &mut Victims,
    ) {
        self.begin(turn);
        self.keyspace
            .sample_victims(index, policy, samples, &mut self.local, victims);
    }

    /// Deletes `key` to make room, unless it is locked.
    pub fn evict(&mut self, turn: &Turn, db: Db, key: &[u8]) -> bool {
        self.begin(turn);
        let free = self.is_free(|| exclusive(key));
        if free {
            self.open();
            self.keyspace.evict(db, key, &mut self.local);
        }
        free
    }

    /// One more client, or one less, waits for a key of this group to be filled.
    pub fn await_keys(&mut self, is_more: bool) {
        if is_more {
            self.awaited += 1;
        } else {
            self.awaited -= 1;
        }
        self.local.is_awaited = self.awaited > 0;
    }

    /// Keys that lists and sorted sets came to be under since the last call, and whether databases were exchanged, so
    /// that any key may have been filled. Nothing unless somebody waits.
    #[inline]
    pub fn take_filled(&mut self) -> (Vec<FullKey>, bool) {
        let is_swapped = std::mem::take(&mut self.local.is_swapped);
        (std::mem::take(&mut self.local.filled), is_swapped)
    }

    /// What kind of value `key` holds.
    pub fn kind(&mut self, turn: &Turn, db: Db, key: &[u8]) -> Option<keyspace::Kind> {
        self.begin(turn);
        self.open();
        self.keyspace.kind(db, key)
    }

    /// Drops up to about `budget` objects of what was deleted, and counts them down; `true` if none is left.
    pub fn collect_garbage(&mut self, budget: &mut usize) -> bool {
        self.keyspace.collect_garbage(budget)
    }

    /// What `WATCH` remembers of `key`.
    pub fn version(&mut self, turn: &Turn, db: Db, key: &[u8]) -> KeyVersion {
        self.begin(turn);
        self.open();
        self.keyspace.version(db, key)
    }

    /// One share of `SCAN`; see [`Keyspace::scan`].
    pub fn scan(
        &mut self,
        turn: &Turn,
        db: Db,
        from: Cursor,
        budget: u64,
        found: impl FnMut(&Object),
    ) -> Option<Cursor> {
        self.begin(turn);
        self.open();
        let next = self.keyspace.scan(db, from, budget, &mut self.local, found);
        self.expire_met();
        next
    }

    /// Whether conditions hold, here and now.
    pub fn check(&mut self, turn: &Turn, conditions: &[Condition]) -> bool {
        self.begin(turn);
        self.open();
        conditions.iter().all(|condition| match condition {
            Condition::Unchanged { db, key, version } => self.keyspace.version(*db, key) == *version,
            Condition::Absent { db, key } => {
                matches!(self.keyspace.version(*db, key), KeyVersion::Absent(_))
            }
        })
    }

    /// A copy of an object, for a transaction that runs in one step.
    pub fn copy_object(&mut self, turn: &Turn, db: Db, key: &[u8]) -> Option<Object> {
        self.begin(turn);
        self.open();
        self.keyspace.copy_object(db, key)
    }

    /// Takes an object out, for a command that runs in one step elsewhere: nothing of it is copied.
    pub fn lend_object(&mut self, turn: &Turn, db: Db, key: &[u8]) -> Option<Object> {
        self.begin(turn);
        self.open();
        self.keyspace.lend_object(db, key)
    }

    /// Puts back what was lent and not changed.
    pub fn take_back_object(&mut self, db: Db, object: Object) {
        self.keyspace.take_back_object(db, object);
    }

    /// Bytes of the data, wherever they are at the moment.
    pub fn memory(&self) -> usize {
        // An empty collection stands where one is lent, and a copy is lent of all else: counted twice, but small.
        self.keyspace.memory() + self.lent.values().sum::<usize>()
    }

    /// Drops large values piece by piece that were deleted elsewhere.
    pub fn adopt_garbage(&mut self, garbage: Garbage) {
        self.keyspace.adopt_garbage(garbage);
    }

    /// Installs effects of a transaction that ran in one step. Its events are the caller's to tell.
    pub fn install(&mut self, turn: &Turn, effects: Vec<Effect>) {
        self.begin(turn);
        self.open();
        self.keyspace.install(effects, &mut self.local);
    }

    /// The one dispatch of requests.
    pub fn handle(&mut self, turn: &Turn, request: Request, out: &mut Vec<Output>) {
        self.begin(turn);
        match request {
            Request::Execute { .. }
            | Request::Wait { .. }
            | Request::Part { .. }
            | Request::Block { .. }
            | Request::Once { .. }
            | Request::Watch { .. }
            | Request::LockRead { .. }
            | Request::Prepare {
                task: Task::Evaluate { .. } | Task::Hold,
                ..
            } => self.on_request(request, out),
            Request::Prepare {
                txn,
                task: Task::Install(outcome),
                ..
            } => {
                self.on_prepare_held(txn, outcome, out);
            }
            Request::Lend { txn, keys } => self.on_lend(txn, &keys, out),
            Request::TakeBack {
                txn,
                returned,
                events,
                garbage,
                counts,
            } => {
                self.local.hits += counts.hits;
                self.local.misses += counts.misses;
                self.keyspace.adopt_garbage(garbage);
                self.on_take_back(txn, returned, events);
            }
            Request::Withdraw { txn } => self.on_withdraw(txn, out),
            Request::Resolve { txn, verdict } => self.on_resolve(txn, verdict, out),
            // Its gateway knows.
            Request::EndWait { .. } => {}
            Request::Prepared(_)
            | Request::Lock(_)
            | Request::Decide { .. }
            | Request::Inquire { .. }
            | Request::Wound { .. }
            | Request::Forget { .. }
            | Request::See { .. }
            | Request::Fetch { .. } => unreachable!("these go to groups that have replicas on several nodes"),
        }
        self.go_on(out);
    }

    /// Runs a request whose locks are free, or lets it wait for them.
    fn on_request(&mut self, request: Request, out: &mut Vec<Output>) {
        if !self.brief.is_empty() {
            self.make_ordinary();
        }
        self.requests += 1;
        let id = self.requests;
        let (requester, priority, locks) = self.locks_for(&request);
        match self.locks.request(id, requester, priority, locks) {
            Grant::Granted => self.run(request, out),
            Grant::Waits { wound } => {
                self.counters.waited += 1;
                self.waiting.insert(id, request);
                out.extend(wound.into_iter().map(|txn| Output::Wound { txn }));
            }
        }
    }

    fn locks_for(&mut self, request: &Request) -> (Requester, Priority, Locks) {
        // Plain requests are as old as their arrival. Group time keeps them in order if the clock goes back.
        let arrival = Priority {
            began: self.turn.now.max(self.keyspace.time()),
            boot: Boot(u64::MAX),
            seq: self.requests,
        };
        match request {
            Request::Execute { operation, .. }
            | Request::Wait { operation, .. }
            | Request::Part { operation, .. } => {
                (Requester::Plain, arrival, locks_of([operation.words()], |_| true))
            }
            Request::Block {
                operations,
                conditions,
                ..
            } => {
                let locks = locks_of(operations.iter().map(Operation::words), |_| true);
                let locks = with_conditions(locks, conditions);
                (Requester::Plain, arrival, locks)
            }
            Request::Once { operations, .. } => {
                let locks = locks_of(operations.iter().map(Operation::words), |_| true);
                (Requester::Plain, arrival, locks)
            }
            Request::Watch { keys, .. } => {
                let keys = keys.iter().map(|(_, _, key)| (key.clone(), txn::Mode::Shared));
                (Requester::Plain, arrival, Locks::of_keys(keys.collect()))
            }
            Request::LockRead {
                txn, priority, locks, ..
            } => (Requester::Reading(*txn), *priority, locks.clone()),
            Request::Prepare {
                txn, priority, locks, ..
            } => (
                Requester::Preparing(*txn),
                priority.unwrap_or(arrival),
                locks.clone(),
            ),
            _ => unreachable!("it waits for nothing"),
        }
    }

    /// Runs a request that holds its locks.
    fn run(&mut self, request: Request, out: &mut Vec<Output>) {
        match request {
            Request::Execute { ticket, operation } | Request::Wait { ticket, operation } => {
                let replies = Some(self.run_in_place(std::slice::from_ref(&operation)));
                out.push(Output::Answered { ticket, replies });
            }
            Request::Part { txn, operation } => {
                let replies = self.run_in_place(std::slice::from_ref(&operation));
                out.push(Output::Resolved {
                    txn,
                    group: self.group,
                    replies,
                });
            }
            Request::Block {
                ticket,
                conditions,
                operations,
            } => {
                self.run_block(ticket, &conditions, &operations, out);
            }
            Request::Once {
                ticket,
                request,
                operations,
            } => {
                let replies = Some(self.run_once(request, &operations));
                out.push(Output::Answered { ticket, replies });
            }
            Request::Watch { ticket, keys } => {
                let turn = self.turn;
                let versions = keys
                    .iter()
                    .map(|(at, db, key)| (*at, self.version(&turn, *db, key)));
                out.push(Output::Versions {
                    ticket,
                    versions: versions.collect(),
                });
            }
            Request::LockRead {
                txn,
                conditions,
                objects,
                is_bounded,
                ..
            } => {
                self.on_locked(txn, &conditions, &objects, is_bounded, out);
            }
            Request::Prepare {
                txn,
                conditions,
                task,
                ..
            } => {
                self.on_prepare(txn, &conditions, task, out);
            }
            _ => unreachable!("it waits for nothing"),
        }
    }

    fn run_block(
        &mut self,
        ticket: Ticket,
        conditions: &[Condition],
        operations: &[Operation],
        out: &mut Vec<Output>,
    ) {
        let turn = self.turn;
        if !conditions.is_empty() && !self.check(&turn, conditions) {
            return out.push(Output::Answered {
                ticket,
                replies: None,
            });
        }
        if self.steps(operations) > self.turn.steps_max {
            return out.push(Output::TooLarge { ticket });
        }
        let replies = self.run_in_place(operations);
        out.push(Output::Answered {
            ticket,
            replies: Some(replies),
        });
    }

    /// Carries out what its client has named, unless it was carried out before. Whatever it takes: values that are lent to
    /// somebody else could come back without the result.
    fn run_once(&mut self, request: ClientRequest, operations: &[Operation]) -> Replies {
        // By the time of now.
        self.open();
        if let Some(standing) = self.keyspace.standing(&request) {
            return self.known(standing, &request);
        }
        let replies = self.run_in_place(operations);
        self.keyspace.keep(KeptResult {
            request,
            replies: replies.to_kept(),
        });
        Replies::standing(Standing::CarriedOut, replies.iter())
    }

    /// What is known of a request.
    fn known(&self, standing: Standing, request: &ClientRequest) -> Replies {
        let is_known = standing == Standing::CarriedOut;
        let kept = self.keyspace.kept_replies(request.id);
        Replies::standing(standing, kept.filter(|_| is_known))
    }

    /// Carries out commands on the state itself.
    pub fn run_in_place(&mut self, operations: &[Operation]) -> Replies {
        let mut replies = Replies::default();
        for operation in operations {
            self.run_one(operation, &mut replies);
        }
        replies
    }

    fn run_one(&mut self, operation: &Operation, replies: &mut Replies) {
        let turn = self.turn;
        replies.push(operation.protocol, |writer| match operation.parse() {
            Ok(command) => self.execute(&turn, operation.db, &command, writer),
            Err(error) => error.write(writer),
        });
    }

    /// Carries out what is to be done in place; the replies of the commands.
    fn take_steps(&mut self, steps: Vec<Step>) -> Replies {
        let mut replies = Replies::default();
        for step in steps {
            match step {
                Step::Run(operation) => self.run_one(&operation, &mut replies),
                Step::Install(outcome) => self.install_outcome(outcome),
            }
        }
        replies
    }

    fn install_outcome(&mut self, outcome: Outcome) {
        if !outcome.effects.is_empty() {
            self.open();
            self.keyspace.install(outcome.effects, &mut self.local);
        }
        self.local.events.extend(outcome.events);
        if let Some(result) = outcome.result {
            self.keyspace.keep(result);
        }
    }

    fn on_locked(
        &mut self,
        txn: TxnId,
        conditions: &[Condition],
        objects: &[FullKey],
        is_bounded: bool,
        out: &mut Vec<Output>,
    ) {
        let turn = self.turn;
        if !self.check(&turn, conditions) {
            self.locks.release(txn);
            return out.push(self.refusal(txn, Refusal::Condition));
        }
        let sizes = objects.iter().map(|(db, key)| self.keyspace.size(*db, key));
        if is_bounded && sizes.fold(0, usize::saturating_add) > self.turn.steps_max {
            self.locks.release(txn);
            return out.push(self.refusal(txn, Refusal::TooLarge));
        }
        let objects = objects
            .iter()
            .map(|(db, key)| self.keyspace.copy_object(*db, key))
            .collect();
        out.push(Output::Locked {
            txn,
            group: self.group,
            objects,
        });
    }

    fn on_prepare(&mut self, txn: TxnId, conditions: &[Condition], task: Task, out: &mut Vec<Output>) {
        let turn = self.turn;
        if !self.check(&turn, conditions) {
            self.locks.release(txn);
            return out.push(self.refusal(txn, Refusal::Condition));
        }
        if let Task::Evaluate {
            operations,
            is_bounded,
            ..
        } = &task
            && *is_bounded
            && self.steps_beside(operations) > self.turn.steps_max
        {
            self.locks.release(txn);
            return out.push(self.refusal(txn, Refusal::TooLarge));
        }
        if let Task::Install(Outcome {
            result: Some(result), ..
        }) = &task
        {
            self.open();
            let request = result.request;
            if let Some(standing) = self.keyspace.standing(&request) {
                self.locks.release(txn);
                let replies = self.known(standing, &request);
                return out.push(Output::Voted {
                    txn,
                    group: self.group,
                    vote: Vote::Refused(Refusal::Known),
                    replies,
                });
            }
        }
        let (replies, outcome) = match task {
            Task::Evaluate {
                operations,
                is_strict,
                ..
            } => {
                let (replies, outcome) = self.evaluate(&operations);
                if is_strict && replies.first_error().is_some() {
                    self.locks.release(txn);
                    return out.push(Output::Voted {
                        txn,
                        group: self.group,
                        vote: Vote::Refused(Refusal::Failed),
                        replies,
                    });
                }
                (replies, outcome)
            }
            Task::Install(outcome) => (Replies::default(), outcome),
            Task::Hold => (Replies::default(), Outcome::default()),
        };
        self.prepared.insert(txn, outcome);
        self.counters.prepared += 1;
        out.push(Output::Voted {
            txn,
            group: self.group,
            vote: Vote::Prepared,
            replies,
        });
    }

    fn on_lend(&mut self, txn: TxnId, keys: &[FullKey], out: &mut Vec<Output>) {
        debug_assert!(self.prepared.contains_key(&txn), "only what is locked is lent");
        self.open();
        let lend = |(db, key): &FullKey| self.keyspace.lend_value(*db, key);
        let objects: Vec<Option<Object>> = keys.iter().map(lend).collect();
        let bytes = objects.iter().flatten().map(Object::memory).sum();
        self.lent.insert(txn, bytes);
        out.push(Output::Lent {
            txn,
            group: self.group,
            objects,
        });
    }

    fn on_take_back(&mut self, txn: TxnId, returned: Vec<Returned>, events: Vec<Event>) {
        self.open();
        let mut effects = Vec::new();
        for one in returned {
            match one {
                Returned::Unchanged(db, object) => self.keyspace.take_back_value(db, object),
                Returned::Changed(effect) => effects.push(effect),
            }
        }
        if !effects.is_empty() {
            self.keyspace.install(effects, &mut self.local);
        }
        self.local.events.extend(events);
        self.prepared.remove(&txn);
        self.lent.remove(&txn);
        self.locks.release(txn);
    }

    fn on_prepare_held(&mut self, txn: TxnId, outcome: Outcome, out: &mut Vec<Output>) {
        if !self.locks.prepare_held(txn) {
            return out.push(self.refusal(txn, Refusal::Wounded));
        }
        self.on_prepare(txn, &[], Task::Install(outcome), out);
    }

    fn on_withdraw(&mut self, txn: TxnId, out: &mut Vec<Output>) {
        if let Some(id) = self.locks.withdraw(txn) {
            self.waiting.remove(&id);
            self.counters.wounded += 1;
            out.push(self.refusal(txn, Refusal::Wounded));
        }
    }

    fn refusal(&self, txn: TxnId, refusal: Refusal) -> Output {
        let (group, vote) = (self.group, Vote::Refused(refusal));
        Output::Voted {
            txn,
            group,
            vote,
            replies: Replies::default(),
        }
    }

    fn on_resolve(&mut self, txn: TxnId, verdict: Verdict, out: &mut Vec<Output>) {
        if let Some(id) = self.locks.withdraw(txn) {
            self.waiting.remove(&id);
        }
        let outcome = self.prepared.remove(&txn);
        // Its own commands may pass its own locks: let go of them first; nobody else runs before `go_on`.
        self.locks.release(txn);
        match verdict {
            Verdict::Abort => {}
            Verdict::Commit(steps) => {
                let outcome = outcome.expect("commit implies that every participant prepared");
                self.open();
                self.install_outcome(outcome);
                if !steps.is_empty() {
                    let replies = self.take_steps(steps);
                    out.push(Output::Resolved {
                        txn,
                        group: self.group,
                        replies,
                    });
                }
            }
        }
    }

    /// Lets waiters go on whose locks became free.
    fn go_on(&mut self, out: &mut Vec<Output>) {
        while let Some(id) = self.locks.next_granted() {
            let request = self.waiting.remove(&id).expect("invariant 1");
            self.run(request, out);
        }
    }

    /// Whether no transaction is under way here.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.locks.is_idle() && self.brief.is_empty()
    }

    /// Whether another request may wait here.
    pub fn has_room_to_wait(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }
}

fn exclusive(key: &[u8]) -> Locks {
    Locks::Keys(vec![(key.into(), txn::Mode::Exclusive)])
}

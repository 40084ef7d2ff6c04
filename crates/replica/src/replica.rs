//! One replica of one group.
//!
//! ```text
//!  execute ------ keys free -----> apply or read, at once
//!  handle ------- of a group that is alone on its node: `replica/alone.rs`
//!  apply, answer  of any other: `replica/replicated.rs`
//!  hold --------- keys free -----> held until `let_go`; whoever meets them waits as for prepared ones
//! ```
//!
//! Invariants:
//! 1. While the group is alone, whoever waits in its queue is among `askers`, and the other way round.
//! 2. No operation touches a key that a prepared transaction holds exclusively, except its own when it is decided.
//! 3. Of a group with others nothing is asked, locked or checked out here: its log decides.

mod alone;
mod brief;
mod replicated;
mod work;

pub(crate) use replicated::read_words;

use crate::operation::{Condition, as_conditions};
use crate::parked::{Marks, Parked};
use crate::request::{FullKey, Output};
use crate::turn::Turn;
use alone::Asker;
use brief::BriefLocks;
use command::Command;
use ids::{Db, GroupId, HashSeed, PartitionRange, Prng, SemanticsVersion, Slot, UnixMillis};
use keyspace::Cursor;
use keyspace::{
    Effect, Event, EventClasses, EvictionPolicy, Garbage, Header, KeyVersion, Keyspace, LeaderLocal, Limits,
    Object, OpenTransaction, Read, TransactionCounts, Victims, WAITING_MAX,
};
use resp::Writer;
use std::collections::BTreeMap;
use txn::{Locks, Mode, Participant, Priority, TxnId};

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
    brief: BriefLocks,
    /// Who waits, by the numbers under which they asked.
    askers: BTreeMap<u64, Asker>,
    requests: u64,
    /// How many keys clients wait for, each counted as often as it is waited for.
    awaited: usize,
    /// Whether the state came with transactions of a log: nobody here has asked for them, and a log will end them.
    inherits: bool,
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

impl Replica {
    /// An empty replica of `group`, which hosts these partitions.
    pub fn new(group: GroupId, seed: HashSeed, partitions: PartitionRange) -> Replica {
        // Not the hash seed itself: what follows from this one shows in random picks.
        let local_seed = seed.hash(b"leader-local").0;
        let mut keyspace = Keyspace::new(seed, partitions);
        keyspace.set_place(Participant::first(group));
        let mut local = LeaderLocal::new(local_seed);
        local.is_alone = true;
        Replica {
            group,
            generation: 0,
            keyspace,
            local,
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
            brief: BriefLocks::default(),
            askers: BTreeMap::new(),
            inherits: false,
            requests: 0,
            awaited: 0,
            lent: BTreeMap::new(),
            parked: Parked::default(),
            marks: Marks::default(),
            keeps_expired: false,
            is_replicated: false,
            known: ids::SemanticsVersion::CURRENT,
        }
    }

    /// Says which of the invariants that can be seen between two calls does not hold.
    pub fn check(&self) -> Result<(), String> {
        let fails =
            |invariant: u8, what: &str| Err(format!("invariant {invariant} of {:?}: {what}", self.group));
        let (waiting, askers) = (self.keyspace.transaction_counts().waiting, self.askers.len());
        if !self.is_replicated && !self.inherits && waiting != askers {
            return fails(1, &format!("{waiting} wait, {askers} are to be answered"));
        }
        let is_void = self.askers.is_empty() && self.brief.is_empty() && self.lent.is_empty();
        if self.is_replicated && !is_void {
            return fails(
                3,
                &format!("{askers} are to be answered, {} have values", self.lent.len()),
            );
        }
        Ok(())
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

    /// Transactions that hold locks and requests that wait.
    pub fn lock_counts(&self) -> (usize, usize) {
        let counts = self.keyspace.transaction_counts();
        (counts.prepared, counts.waiting)
    }

    /// How much of transactions is here, and who waits for them.
    pub fn transaction_counts(&self) -> TransactionCounts {
        self.keyspace.transaction_counts()
    }

    /// How many transactions were refused here because an older one waited for them.
    pub fn wounded(&self) -> u64 {
        self.local.wounded
    }

    /// Keys with the most waiters, and how many these are; at most `max`.
    pub fn hottest_keys(&self, max: usize) -> Vec<(&[u8], usize)> {
        self.keyspace.hottest_keys(max)
    }

    /// The oldest of the transactions that hold locks here, at most `max`.
    pub fn oldest_transactions(&self, max: usize) -> Vec<OpenTransaction> {
        self.keyspace.oldest_transactions(max)
    }

    /// Forgets hits, misses and other counts.
    pub fn reset_counters(&mut self) {
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
        self.keyspace.is_free(locks) && self.brief.admits(locks)
    }

    /// [`Replica::is_free`] for one key, of this slot; `file` as for [`Replica::hold`], if the key is to be held.
    #[inline]
    pub fn is_key_free(&self, slot: Slot, key: &[u8], mode: Mode, file: Option<u16>) -> bool {
        let is_full = file.is_some() && self.brief.is_full();
        !self.is_replicated
            && !is_full
            && self.brief.admits_key(slot, key, mode, file)
            && (self.keyspace.is_unlocked() || self.keyspace.is_free(&Locks::Keys(vec![(key.into(), mode)])))
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
            self.let_go_of_ordinary(txn, out);
        }
    }

    /// Somebody may have to wait for brief locks.
    fn make_ordinary(&mut self) {
        for (txn, priority, locks) in self.brief.take() {
            self.keyspace.hold(txn, priority, locks);
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
        self.local.is_alone = false;
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
    pub fn holds(&mut self, turn: &Turn, conditions: &[Condition]) -> bool {
        self.begin(turn);
        self.open();
        let conditions = as_conditions(conditions);
        conditions.iter().all(|condition| self.keyspace.holds(condition))
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

    /// Whether no transaction is under way here.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.keyspace.is_unlocked() && self.brief.is_empty()
    }

    /// Whether another request may wait here.
    pub fn has_room_to_wait(&self) -> bool {
        self.askers.len() < WAITING_MAX
    }
}

fn exclusive(key: &[u8]) -> Locks {
    Locks::Keys(vec![(key.into(), txn::Mode::Exclusive)])
}

//! Who holds and who waits for the keys of one group.
//!
//! The table holds only keys that are locked or waited for: a group without transactions over several groups has
//! an empty one, and a command then pays one branch ([`LockTable::is_idle`]). It is indexed by key: what a request,
//! a release or a withdrawal costs grows with the keys it names and with whom it concerns, not with the others that
//! hold and wait. Locks on the whole group may concern everybody.
//!
//! Requests wait in order of age. A request is granted when it conflicts with no holder and with no older
//! waiter, all its keys at once or none. Plain commands wait like transactions and, once granted, hold nothing:
//! they run at once.
//!
//! Everything is a function of the sequence of calls. A table is copied by its holders
//! ([`LockTable::restore_holder`]), its waiters with their numbers of arrival ([`LockTable::restore_waiter`]) and
//! their count ([`LockTable::restore_arrivals`]), in any order; the copy then answers every call as the original
//! does.
//!
//! What is absent: a bound. Whoever asks bounds what waits, and each holder is a transaction that somebody counts.
//!
//! Invariants:
//! 1. A key has one exclusive holder, or any number of shared ones, never both.
//! 2. A waiter conflicts with a holder or with an older waiter, or is among the candidates that `next_granted`
//!    looks at; after its `None` there are none.
//! 3. A prepared holder leaves only by `release`.
//! 4. The index, the names and the candidates are those of the holders and waiters, and no number of arrival is
//!    above the count.

#[cfg(test)]
mod costs;
mod few;
mod index;

use crate::{Priority, TxnId};
use ids::{Boot, UnixMillis};
use index::{Held, Index};
use std::collections::{BTreeMap, BTreeSet};

/// The most requests that a table counts; a copy is given no higher number. Nobody lives to see it: it keeps a
/// number that comes from outside from overflowing the count.
const ARRIVALS_MAX: u64 = u64::MAX / 2;

/// A request's name, chosen by the caller; answers come back under it.
pub type RequestId = u64;

/// How a key is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// With other readers.
    Shared,
    /// Alone.
    Exclusive,
}

/// What a request locks. Database numbers are left out: keys of the same name conflict across databases, which
/// is rare and safe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Locks {
    /// These keys, in ascending order, each once: [`Locks::of_keys`] sees to it.
    Keys(Vec<(Box<[u8]>, Mode)>),
    /// Every key the group has or could have.
    WholeGroup(Mode),
}

impl Locks {
    /// Locks on keys in any order; one given twice has the stronger mode.
    pub fn of_keys(mut keys: Vec<(Box<[u8]>, Mode)>) -> Locks {
        keys.sort_unstable_by(|(a, mode_a), (b, mode_b)| {
            a.cmp(b)
                .then_with(|| (*mode_a == Mode::Shared).cmp(&(*mode_b == Mode::Shared)))
        });
        keys.dedup_by(|(later, _), (kept, _)| later == kept);
        Locks::Keys(keys)
    }

    /// The same, each held alone.
    #[must_use]
    pub fn exclusive(self) -> Locks {
        match self {
            Locks::Keys(keys) => {
                Locks::Keys(keys.into_iter().map(|(key, _)| (key, Mode::Exclusive)).collect())
            }
            Locks::WholeGroup(_) => Locks::WholeGroup(Mode::Exclusive),
        }
    }

    /// These, and of `keys` at least shared ones.
    #[must_use]
    pub fn and_shared<'a>(self, keys: impl Iterator<Item = &'a Box<[u8]>>) -> Locks {
        match self {
            Locks::Keys(mut held) => {
                held.extend(keys.map(|key| (key.clone(), Mode::Shared)));
                Locks::of_keys(held)
            }
            Locks::WholeGroup(mode) => Locks::WholeGroup(mode),
        }
    }

    /// The plain form of what the index finds.
    pub fn conflicts(&self, other: &Locks) -> bool {
        index::visit();
        match (self, other) {
            (Locks::WholeGroup(mode), Locks::WholeGroup(other)) => clash(*mode, *other),
            (Locks::WholeGroup(mode), Locks::Keys(keys)) | (Locks::Keys(keys), Locks::WholeGroup(mode)) => {
                keys.iter().any(|(_, other)| clash(*mode, *other))
            }
            (Locks::Keys(keys), Locks::Keys(others)) => {
                // The shorter in the longer, by halves: either may be a command on a hundred thousand keys.
                let (few, many) = if keys.len() <= others.len() {
                    (keys, others)
                } else {
                    (others, keys)
                };
                few.iter().any(|(key, mode)| {
                    let found = many.binary_search_by(|(other, _)| other.cmp(key));
                    found.is_ok_and(|at| clash(*mode, many[at].1))
                })
            }
        }
    }
}

fn clash(a: Mode, b: Mode) -> bool {
    a == Mode::Exclusive || b == Mode::Exclusive
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requester {
    /// A command or block within the group: holds nothing once granted.
    Plain,
    /// A transaction that reads first (`Lock`): an older request takes its locks away.
    Reading(TxnId),
    /// A transaction whose vote follows the grant: keeps its locks until `release`.
    Preparing(TxnId),
}

/// The answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Grant {
    /// Go on at once.
    Granted,
    /// It waits under its id. The younger prepared transactions it waits for are to be wounded.
    Waits {
        /// To be sent to their coordinators.
        wound: Vec<TxnId>,
    },
}

/// A waiter's place in the order of waiting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Age {
    priority: Priority,
    arrival: u64,
}

impl Age {
    const FIRST: Age = Age {
        priority: Priority {
            began: UnixMillis(i64::MIN),
            boot: Boot(0),
            seq: 0,
        },
        arrival: 0,
    };
}

#[derive(Debug)]
struct Holder {
    priority: Priority,
    locks: Locks,
    is_prepared: bool,
    /// If it is: how many had been prepared before it, and it too.
    prepared_at: u64,
}

impl Holder {
    fn held(&self, txn: TxnId) -> Held {
        Held {
            is_prepared: self.is_prepared,
            priority: self.priority,
            txn,
        }
    }
}

#[derive(Debug)]
struct Waiter {
    id: RequestId,
    requester: Requester,
    locks: Locks,
}

impl Waiter {
    fn txn(&self) -> Option<TxnId> {
        match self.requester {
            Requester::Plain => None,
            Requester::Reading(txn) | Requester::Preparing(txn) => Some(txn),
        }
    }
}

/// The locks of one group. See the file's header.
#[derive(Debug, Default)]
pub struct LockTable {
    holders: BTreeMap<TxnId, Holder>,
    /// By priority, then by order of arrival.
    waiters: BTreeMap<Age, Waiter>,
    index: Index,
    by_id: BTreeMap<RequestId, Age>,
    by_txn: BTreeSet<(TxnId, Age)>,
    /// Waiters that something left which they may have waited for: all that can go on are among them.
    candidates: BTreeSet<Age>,
    arrivals: u64,
    /// How many holders were prepared so far, and which of these are still there.
    prepared: u64,
    prepared_now: BTreeSet<u64>,
    /// What holders and waiters have left since it was last taken, if somebody takes it.
    left: Option<Vec<Locks>>,
}

impl LockTable {
    /// Whether nobody holds or waits for anything.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    /// The same table, of which somebody takes what was left ([`LockTable::take_left`]).
    #[must_use]
    pub fn noting_what_is_left(mut self) -> LockTable {
        self.left.get_or_insert_default();
        self
    }

    /// The locks that holders and waiters have left since the last call.
    pub fn take_left(&mut self) -> Vec<Locks> {
        self.left.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How many holders have been prepared so far.
    pub fn prepared_count(&self) -> u64 {
        self.prepared
    }

    /// Whether none is prepared any more of those that were when [`LockTable::prepared_count`] was `up_to`.
    pub fn have_left(&self, up_to: u64) -> bool {
        self.prepared_now.first().is_none_or(|first| *first > up_to)
    }

    /// Transactions that hold locks here.
    pub fn holder_count(&self) -> usize {
        self.holders.len()
    }

    /// Requests that wait.
    pub fn waiter_count(&self) -> usize {
        self.waiters.len()
    }

    /// How many requests have had to wait so far: the number of the last one's arrival.
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// The transactions that hold locks, in order of their names: name, priority, locks, and whether they cannot
    /// lose them.
    pub fn holders(&self) -> impl Iterator<Item = (TxnId, Priority, &Locks, bool)> {
        let holders = self.holders.iter();
        holders.map(|(txn, holder)| (*txn, holder.priority, &holder.locks, holder.is_prepared))
    }

    /// What is held, and what is waited for.
    pub fn all(&self) -> impl Iterator<Item = &Locks> {
        let held = self.holders.values().map(|holder| &holder.locks);
        held.chain(self.waiters.values().map(|waiter| &waiter.locks))
    }

    /// The requests that wait, in the order in which they do: priority, number of arrival, id, and who asks.
    pub fn waiting_ids(&self) -> impl Iterator<Item = (Priority, u64, RequestId, Requester)> {
        let waiters = self.waiters.iter();
        waiters.map(|(age, waiter)| (age.priority, age.arrival, waiter.id, waiter.requester))
    }

    /// Whether a request of `txn` waits.
    pub fn is_waiting(&self, txn: TxnId) -> bool {
        self.oldest_of(txn).is_some()
    }

    /// The `n` keys that most requests wait for, and how many do; those with more first, then in order of their
    /// names. It walks the whole table: for operators. Requests on the whole group are not counted.
    pub fn hottest(&self, n: usize) -> Vec<(&[u8], usize)> {
        self.index.hottest(n)
    }

    /// Gives a transaction its locks if nobody holds or waits for any of them; if not, they come back, and nothing is done.
    ///
    /// # Errors
    /// The locks.
    ///
    /// # Panics
    ///
    /// If the transaction holds locks.
    pub fn try_hold(&mut self, requester: Requester, priority: Priority, locks: Locks) -> Result<(), Locks> {
        if !self.index.is_free(&locks) {
            return Err(locks);
        }
        self.hold(requester, priority, locks);
        Ok(())
    }

    /// Asks for locks.
    ///
    /// # Panics
    ///
    /// If it has to wait and another request waits under this id, or if it is granted to a transaction that holds
    /// locks.
    pub fn request(
        &mut self,
        id: RequestId,
        requester: Requester,
        priority: Priority,
        locks: Locks,
    ) -> Grant {
        for txn in self.index.younger(&locks, priority, false) {
            self.release(txn);
        }
        let is_behind = |oldest: Age| oldest.priority <= priority;
        if !self.index.is_held(&locks) && !self.index.oldest(&locks).is_some_and(is_behind) {
            self.hold(requester, priority, locks);
            return Grant::Granted;
        }
        let wound = self.index.younger(&locks, priority, true);
        assert!(!self.by_id.contains_key(&id), "request {id} waits already");
        self.arrivals += 1;
        let arrival = self.arrivals;
        let waiter = Waiter { id, requester, locks };
        self.enqueue(Age { priority, arrival }, waiter);
        Grant::Waits {
            wound: wound.into_iter().collect(),
        }
    }

    /// Whether a request could go on at once without holding anything: for commands that would run in place.
    pub fn admits(&self, locks: &Locks) -> bool {
        self.index.is_free(locks)
    }

    /// Whether a reader may be evaluated now that came when [`LockTable::arrivals`] was `up_to_arrival`: no holder
    /// conflicts with it, and none of the plain requests that waited before it. Those that came later do not keep it
    /// waiting, whatever their age. Nor does a transaction that waits: it is not decided yet, and a plain request that came
    /// behind the reader may be older and go first. The reader must not see what that one writes.
    pub fn admits_behind(&self, locks: &Locks, up_to_arrival: u64) -> bool {
        let is_before = |arrival: u64| arrival <= up_to_arrival;
        !self.index.is_held(locks) && !self.index.first_plain_arrival(locks).is_some_and(is_before)
    }

    /// A transaction that read goes on to prepare: `false` if its locks were taken away meanwhile.
    pub fn prepare_held(&mut self, txn: TxnId) -> bool {
        let Some(holder) = self.holders.get_mut(&txn) else {
            return false;
        };
        let before = holder.held(txn);
        if !before.is_prepared {
            self.prepared += 1;
            self.prepared_now.insert(self.prepared);
            (holder.is_prepared, holder.prepared_at) = (true, self.prepared);
            self.index.hold(holder.held(txn), &holder.locks);
            self.index.let_go(before, &holder.locks);
        }
        true
    }

    /// What `txn` holds, if it holds anything.
    pub fn locks_of(&self, txn: TxnId) -> Option<&Locks> {
        self.holders.get(&txn).map(|holder| &holder.locks)
    }

    /// Whether anybody waits for what `txn` holds.
    pub fn is_awaited(&self, txn: TxnId) -> bool {
        let holder = self.holders.get(&txn);
        holder.is_some_and(|holder| self.index.has_waiter(&holder.locks))
    }

    /// Whether `txn` holds locks it cannot lose.
    pub fn is_prepared(&self, txn: TxnId) -> bool {
        self.holders.get(&txn).is_some_and(|holder| holder.is_prepared)
    }

    /// The younger prepared transactions that a waiting request waits for, in order of their names: those that its
    /// arrival answered to be wounded and that are still there.
    pub fn blockers(&self, id: RequestId) -> Vec<TxnId> {
        let Some(age) = self.by_id.get(&id) else {
            return Vec::new();
        };
        let younger = self.index.younger(&self.waiters[age].locks, age.priority, true);
        younger.into_iter().collect()
    }

    /// Takes `txn` out of the waiters; its request's id if it waited. Of several requests it takes the oldest.
    pub fn withdraw(&mut self, txn: TxnId) -> Option<RequestId> {
        let age = self.oldest_of(txn)?;
        Some(self.take_out(age))
    }

    /// Takes the request of this id out of the waiters; whether it waited.
    pub fn withdraw_request(&mut self, id: RequestId) -> bool {
        let age = self.by_id.get(&id).copied();
        age.map(|age| self.take_out(age)).is_some()
    }

    /// Lets go of whatever `txn` holds.
    pub fn release(&mut self, txn: TxnId) {
        if let Some(holder) = self.holders.remove(&txn) {
            self.index.let_go(holder.held(txn), &holder.locks);
            if !self.waiters.is_empty() {
                self.index.freed(&holder.locks, None, &mut self.candidates);
            }
            self.prepared_now.remove(&holder.prepared_at);
            self.note_left(holder.locks);
        }
    }

    fn note_left(&mut self, locks: Locks) {
        if let Some(left) = &mut self.left {
            left.push(locks);
        }
    }

    /// The next waiter that can go on, oldest first. Call until `None` after each request (it may have taken
    /// a reader's locks away), release and withdrawal; run what it names before the next call.
    ///
    /// # Panics
    ///
    /// If the waiter's transaction holds locks.
    pub fn next_granted(&mut self) -> Option<RequestId> {
        while let Some(age) = self.candidates.pop_first() {
            if self.is_blocked(age) {
                continue;
            }
            let waiter = self.dequeue(age);
            let id = waiter.id;
            match waiter.requester {
                Requester::Plain => {
                    self.index.freed(&waiter.locks, Some(age), &mut self.candidates);
                    self.note_left(waiter.locks);
                }
                // It keeps waiting as a holder whom it kept waiting before.
                Requester::Reading(_) | Requester::Preparing(_) => {
                    self.hold(waiter.requester, age.priority, waiter.locks);
                }
            }
            return Some(id);
        }
        None
    }

    /// Part of copying a table: a transaction that holds locks. `false`, and nothing is done, if it holds locks
    /// already or these conflict with another holder's: no table has such holders.
    #[must_use]
    pub fn restore_holder(
        &mut self,
        txn: TxnId,
        priority: Priority,
        locks: Locks,
        is_prepared: bool,
    ) -> bool {
        if self.holders.contains_key(&txn) || self.index.is_held(&locks) {
            return false;
        }
        let requester = if is_prepared {
            Requester::Preparing(txn)
        } else {
            Requester::Reading(txn)
        };
        self.hold(requester, priority, locks);
        true
    }

    /// Part of copying a table: a request that waits, under the number of its arrival. `false`, and nothing is
    /// done, if one waits under this id or number already, or if no table counts so far. One that waits for nothing
    /// is named by [`LockTable::next_granted`], as the original would.
    #[must_use]
    pub fn restore_waiter(
        &mut self,
        arrival: u64,
        id: RequestId,
        requester: Requester,
        priority: Priority,
        locks: Locks,
    ) -> bool {
        let age = Age { priority, arrival };
        let is_number = (1..=ARRIVALS_MAX).contains(&arrival);
        if !is_number || self.by_id.contains_key(&id) || self.waiters.contains_key(&age) {
            return false;
        }
        self.arrivals = self.arrivals.max(arrival);
        self.enqueue(age, Waiter { id, requester, locks });
        self.candidates.insert(age);
        true
    }

    /// Part of copying a table: how many requests have waited in it. `false`, and nothing is done, if a request
    /// has come under a higher number, or if no table counts so far.
    #[must_use]
    pub fn restore_arrivals(&mut self, arrivals: u64) -> bool {
        if arrivals < self.arrivals || arrivals > ARRIVALS_MAX {
            return false;
        }
        self.arrivals = arrivals;
        true
    }

    fn is_blocked(&self, age: Age) -> bool {
        let locks = &self.waiters[&age].locks;
        self.index.is_held(locks) || self.index.oldest(locks).is_some_and(|oldest| oldest < age)
    }

    fn oldest_of(&self, txn: TxnId) -> Option<Age> {
        let (other, age) = self.by_txn.range((txn, Age::FIRST)..).next()?;
        (*other == txn).then_some(*age)
    }

    fn hold(&mut self, requester: Requester, priority: Priority, locks: Locks) {
        let (txn, is_prepared) = match requester {
            Requester::Plain => return,
            Requester::Reading(txn) => (txn, false),
            Requester::Preparing(txn) => (txn, true),
        };
        if is_prepared {
            self.prepared += 1;
            self.prepared_now.insert(self.prepared);
        }
        let holder = Holder {
            prepared_at: if is_prepared { self.prepared } else { 0 },
            priority,
            locks,
            is_prepared,
        };
        self.index.hold(holder.held(txn), &holder.locks);
        let before = self.holders.insert(txn, holder);
        assert!(before.is_none(), "{txn:?} asks twice");
    }

    fn enqueue(&mut self, age: Age, waiter: Waiter) {
        self.index.wait(age, &waiter.locks, waiter.txn().is_none());
        self.by_id.insert(waiter.id, age);
        self.by_txn.extend(waiter.txn().map(|txn| (txn, age)));
        self.waiters.insert(age, waiter);
    }

    fn dequeue(&mut self, age: Age) -> Waiter {
        let waiter = self.waiters.remove(&age).expect("invariant 4: named by an index");
        self.index.leave(age, &waiter.locks);
        self.by_id.remove(&waiter.id);
        if let Some(txn) = waiter.txn() {
            self.by_txn.remove(&(txn, age));
        }
        self.candidates.remove(&age);
        waiter
    }

    fn take_out(&mut self, age: Age) -> RequestId {
        let waiter = self.dequeue(age);
        self.index.freed(&waiter.locks, Some(age), &mut self.candidates);
        self.note_left(waiter.locks);
        waiter.id
    }

    /// Asserts the numbered invariants of this file. It compares everybody with everybody.
    pub fn check(&self) {
        for (txn, holder) in &self.holders {
            for (other_txn, other) in self.holders.range(txn..).skip(1) {
                assert!(
                    !holder.locks.conflicts(&other.locks),
                    "invariant 1: {txn:?} and {other_txn:?} hold the same key"
                );
            }
        }
        for (age, waiter) in &self.waiters {
            let is_kept = |other: &Locks| other.conflicts(&waiter.locks);
            assert!(
                self.candidates.contains(age)
                    || self.holders.values().any(|holder| is_kept(&holder.locks))
                    || self.waiters.range(..age).any(|(_, older)| is_kept(&older.locks)),
                "invariant 2: request {} waits for nothing",
                waiter.id
            );
        }
        self.check_index();
    }

    fn check_index(&self) {
        let mut index = Index::default();
        for (txn, holder) in &self.holders {
            index.hold(holder.held(*txn), &holder.locks);
        }
        let (mut by_id, mut by_txn) = (BTreeMap::new(), BTreeSet::new());
        for (age, waiter) in &self.waiters {
            index.wait(*age, &waiter.locks, waiter.txn().is_none());
            by_id.insert(waiter.id, *age);
            by_txn.extend(waiter.txn().map(|txn| (txn, *age)));
            assert!(
                age.arrival <= self.arrivals,
                "invariant 4: more came than were counted"
            );
        }
        let is_waiter = |age: &Age| self.waiters.contains_key(age);
        assert!(
            self.candidates.iter().all(is_waiter),
            "invariant 4: a candidate has left"
        );
        assert!(self.index == index, "invariant 4: the index is another table's");
        assert!(
            self.by_id == by_id && self.by_txn == by_txn,
            "invariant 4: names without waiters"
        );
    }
}

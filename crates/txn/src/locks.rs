//! Who holds and who waits for the keys of one group.
//!
//! The table lives in the leader's memory and holds only keys that are locked or waited for: a group without
//! transactions over several groups has an empty one, and a command then pays one branch
//! ([`LockTable::is_idle`]).
//!
//! Requests wait in order of age. A request is granted when it conflicts with no holder and with no older
//! waiter, all its keys at once or none. Plain commands wait like transactions and, once granted, hold nothing:
//! they run at once.
//!
//! Invariants:
//! 1. A key has one exclusive holder, or any number of shared ones, never both.
//! 2. A waiter conflicts with a holder or with an older waiter.
//! 3. A prepared holder leaves only by `release`.

use crate::{Priority, TxnId};
use std::collections::BTreeMap;

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

    fn conflicts(&self, other: &Locks) -> bool {
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
    /// A transaction that reads first (`LockRead`): an older request takes its locks away.
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

#[derive(Debug)]
struct Holder {
    priority: Priority,
    locks: Locks,
    is_prepared: bool,
}

#[derive(Debug)]
struct Waiter {
    id: RequestId,
    requester: Requester,
    locks: Locks,
}

/// The locks of one group. See the file's header.
#[derive(Debug, Default)]
pub struct LockTable {
    holders: BTreeMap<TxnId, Holder>,
    /// By age, then by order of arrival.
    waiters: BTreeMap<(Priority, u64), Waiter>,
    arrivals: u64,
}

impl LockTable {
    /// Whether nobody holds or waits for anything.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    /// Transactions that hold locks here.
    pub fn holder_count(&self) -> usize {
        self.holders.len()
    }

    /// Requests that wait.
    pub fn waiter_count(&self) -> usize {
        self.waiters.len()
    }

    /// Asks for locks.
    pub fn request(
        &mut self,
        id: RequestId,
        requester: Requester,
        priority: Priority,
        locks: Locks,
    ) -> Grant {
        self.take_from_younger_readers(priority, &locks);
        if self.is_free(priority, &locks) {
            self.hold(requester, priority, locks);
            return Grant::Granted;
        }
        let wound = self
            .holders
            .iter()
            .filter(|(_, holder)| holder.priority > priority && holder.locks.conflicts(&locks))
            .map(|(txn, _)| *txn)
            .collect();
        self.arrivals += 1;
        self.waiters
            .insert((priority, self.arrivals), Waiter { id, requester, locks });
        Grant::Waits { wound }
    }

    /// Whether a request could go on at once without holding anything: for commands that would run in place.
    pub fn admits(&self, locks: &Locks) -> bool {
        !self.holders.values().any(|holder| holder.locks.conflicts(locks))
            && !self.waiters.values().any(|waiter| waiter.locks.conflicts(locks))
    }

    fn take_from_younger_readers(&mut self, priority: Priority, locks: &Locks) {
        self.holders.retain(|_, holder| {
            holder.is_prepared || holder.priority <= priority || !holder.locks.conflicts(locks)
        });
    }

    fn is_free(&self, priority: Priority, locks: &Locks) -> bool {
        !self.holders.values().any(|holder| holder.locks.conflicts(locks))
            && !self
                .waiters
                .range(..=(priority, u64::MAX))
                .any(|(_, waiter)| waiter.locks.conflicts(locks))
    }

    fn hold(&mut self, requester: Requester, priority: Priority, locks: Locks) {
        let (txn, is_prepared) = match requester {
            Requester::Plain => return,
            Requester::Reading(txn) => (txn, false),
            Requester::Preparing(txn) => (txn, true),
        };
        let before = self.holders.insert(
            txn,
            Holder {
                priority,
                locks,
                is_prepared,
            },
        );
        assert!(before.is_none(), "{txn:?} asks twice");
    }

    /// A transaction that read goes on to prepare: `false` if its locks were taken away meanwhile.
    pub fn prepare_held(&mut self, txn: TxnId) -> bool {
        match self.holders.get_mut(&txn) {
            Some(holder) => {
                holder.is_prepared = true;
                true
            }
            None => false,
        }
    }

    /// Whether `txn` holds locks it cannot lose.
    pub fn is_prepared(&self, txn: TxnId) -> bool {
        self.holders.get(&txn).is_some_and(|holder| holder.is_prepared)
    }

    /// Takes `txn` out of the waiters; its request's id if it waited.
    pub fn withdraw(&mut self, txn: TxnId) -> Option<RequestId> {
        let (&at, _) = self.waiters.iter().find(|(_, waiter)| match waiter.requester {
            Requester::Plain => false,
            Requester::Reading(other) | Requester::Preparing(other) => other == txn,
        })?;
        self.waiters.remove(&at).map(|waiter| waiter.id)
    }

    /// Lets go of whatever `txn` holds.
    pub fn release(&mut self, txn: TxnId) {
        self.holders.remove(&txn);
    }

    /// The next waiter that can go on, oldest first. Call until `None` after each request (it may have taken
    /// a reader's locks away), release and withdrawal; run what it names before the next call.
    pub fn next_granted(&mut self) -> Option<RequestId> {
        let at = self.waiters.iter().find_map(|(at, waiter)| {
            let blocked = self
                .holders
                .values()
                .any(|holder| holder.locks.conflicts(&waiter.locks))
                || self
                    .waiters
                    .range(..at)
                    .any(|(_, older)| older.locks.conflicts(&waiter.locks));
            (!blocked).then_some(*at)
        })?;
        let waiter = self.waiters.remove(&at).expect("found a moment ago");
        self.hold(waiter.requester, at.0, waiter.locks);
        Some(waiter.id)
    }

    /// What `txn` holds.
    pub fn locks_of(&self, txn: TxnId) -> Option<&Locks> {
        self.holders.get(&txn).map(|holder| &holder.locks)
    }
    /// Temporary.
    pub fn arrivals(&self) -> u64 { self.arrivals }
    /// Temporary.
    pub fn admits_behind(&self, locks: &Locks, up_to: u64) -> bool {
        !self.holders.values().any(|holder| holder.locks.conflicts(locks))
            && !self.waiters.iter().any(|((_, at), waiter)| *at <= up_to && waiter.locks.conflicts(locks))
    }
    /// Temporary.
    pub fn is_waiting(&self, txn: TxnId) -> bool {
        self.waiters.values().any(|w| match w.requester { Requester::Plain => false, Requester::Reading(t) | Requester::Preparing(t) => t == txn })
    }
    /// Temporary.
    pub fn waiters(&self) -> impl Iterator<Item = (Priority, u64, RequestId, Requester)> {
        self.waiters.iter().map(|((p, a), w)| (*p, *a, w.id, w.requester))
    }
    /// Temporary.
    pub fn holders(&self) -> impl Iterator<Item = (TxnId, Priority, &Locks, bool)> {
        self.holders.iter().map(|(t, h)| (*t, h.priority, &h.locks, h.is_prepared))
    }
    /// Temporary.
    pub fn hottest(&self, _n: usize) -> Vec<(&[u8], usize)> { Vec::new() }
    /// Temporary.
    pub fn blockers(&self, id: RequestId) -> Vec<TxnId> {
        let Some(((priority, _), w)) = self.waiters.iter().find(|(_, w)| w.id == id) else { return Vec::new() };
        self.holders.iter().filter(|(_, h)| h.is_prepared && h.priority > *priority && h.locks.conflicts(&w.locks)).map(|(t, _)| *t).collect()
    }
    /// Temporary.
    pub fn restore_holder(&mut self, txn: TxnId, priority: Priority, locks: Locks, is_prepared: bool) {
        self.holders.insert(txn, Holder { priority, locks, is_prepared });
    }
    /// Temporary.
    pub fn restore_waiter(&mut self, arrival: u64, id: RequestId, requester: Requester, priority: Priority, locks: Locks) {
        self.waiters.insert((priority, arrival), Waiter { id, requester, locks });
    }
    /// Temporary.
    pub fn restore_arrivals(&mut self, n: u64) { self.arrivals = n; }

    /// Asserts the numbered invariants of this file.
    pub fn check(&self) {
        for (txn, holder) in &self.holders {
            for (other_txn, other) in self.holders.range(txn..).skip(1) {
                assert!(
                    !holder.locks.conflicts(&other.locks),
                    "invariant 1: {txn:?} and {other_txn:?} hold the same key"
                );
            }
        }
        for (at, waiter) in &self.waiters {
            assert!(
                self.holders
                    .values()
                    .any(|holder| holder.locks.conflicts(&waiter.locks))
                    || self
                        .waiters
                        .range(..at)
                        .any(|(_, older)| older.locks.conflicts(&waiter.locks)),
                "invariant 2: request {} waits for nothing",
                waiter.id
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{Boot, UnixMillis};

    fn txn(seq: u64) -> TxnId {
        TxnId {
            boot: Boot(1),
            worker: 0,
            seq,
            attempt: 1,
        }
    }

    fn age(seq: u64) -> Priority {
        Priority {
            began: UnixMillis(0),
            boot: Boot(1),
            seq,
        }
    }

    fn keys(keys: &[(&str, Mode)]) -> Locks {
        Locks::of_keys(
            keys.iter()
                .map(|(key, mode)| (key.as_bytes().into(), *mode))
                .collect(),
        )
    }

    fn exclusive(key: &str) -> Locks {
        keys(&[(key, Mode::Exclusive)])
    }

    #[test]
    fn readers_share_and_a_writer_waits_for_all_of_them() {
        let mut table = LockTable::default();
        let shared = keys(&[("k", Mode::Shared)]);
        assert_eq!(
            table.request(1, Requester::Preparing(txn(1)), age(1), shared.clone()),
            Grant::Granted
        );
        assert_eq!(
            table.request(2, Requester::Preparing(txn(2)), age(2), shared),
            Grant::Granted
        );
        let waits = Grant::Waits { wound: vec![] };
        assert_eq!(
            table.request(3, Requester::Preparing(txn(3)), age(3), exclusive("k")),
            waits
        );
        table.check();
        table.release(txn(1));
        assert_eq!(table.next_granted(), None);
        table.release(txn(2));
        assert_eq!(table.next_granted(), Some(3));
        table.check();
    }

    #[test]
    fn an_older_request_wounds_a_younger_prepared_one_and_waits() {
        let mut table = LockTable::default();
        table.request(1, Requester::Preparing(txn(9)), age(9), exclusive("k"));
        let grant = table.request(2, Requester::Preparing(txn(1)), age(1), exclusive("k"));
        assert_eq!(grant, Grant::Waits { wound: vec![txn(9)] });
        assert!(table.is_prepared(txn(9)));
    }

    #[test]
    fn an_older_request_takes_the_locks_of_a_younger_reader() {
        let mut table = LockTable::default();
        table.request(1, Requester::Reading(txn(9)), age(9), exclusive("k"));
        let grant = table.request(2, Requester::Preparing(txn(1)), age(1), exclusive("k"));
        assert_eq!(grant, Grant::Granted);
        assert!(!table.prepare_held(txn(9)));
        table.check();
    }

    #[test]
    fn plain_commands_queue_behind_older_waiters_and_hold_nothing() {
        let mut table = LockTable::default();
        table.request(1, Requester::Preparing(txn(1)), age(1), exclusive("k"));
        table.request(2, Requester::Preparing(txn(2)), age(2), exclusive("k"));
        table.request(3, Requester::Plain, age(3), exclusive("k"));
        table.request(4, Requester::Plain, age(4), exclusive("k"));
        assert_eq!(
            table.request(5, Requester::Plain, age(5), exclusive("other")),
            Grant::Granted
        );
        table.release(txn(1));
        assert_eq!(table.next_granted(), Some(2));
        assert_eq!(table.next_granted(), None);
        table.release(txn(2));
        assert_eq!(table.next_granted(), Some(3));
        assert_eq!(table.next_granted(), Some(4));
        assert!(table.is_idle());
    }

    #[test]
    fn a_whole_group_conflicts_with_every_key() {
        let mut table = LockTable::default();
        let all = Locks::WholeGroup(Mode::Exclusive);
        table.request(1, Requester::Preparing(txn(1)), age(1), exclusive("k"));
        assert_ne!(
            table.request(2, Requester::Preparing(txn(2)), age(2), all),
            Grant::Granted
        );
        assert!(!table.admits(&exclusive("other")));
        assert_eq!(table.withdraw(txn(2)), Some(2));
        assert!(table.admits(&exclusive("other")));
    }

    #[test]
    fn random_requests_never_break_an_invariant_and_all_end() {
        let mut prng = ids::Prng::new(11);
        for _ in 0..200 {
            let mut table = LockTable::default();
            let mut open = Vec::new();
            for seq in 0..40 {
                let key = |prng: &mut ids::Prng| format!("k{}", prng.below(4));
                let mode = if prng.below(2) == 0 {
                    Mode::Shared
                } else {
                    Mode::Exclusive
                };
                let locks = match prng.below(6) {
                    0 => Locks::WholeGroup(mode),
                    _ => keys(&[(&key(&mut prng), mode), (&key(&mut prng), Mode::Shared)]),
                };
                let requester = match prng.below(3) {
                    0 => Requester::Plain,
                    1 => Requester::Reading(txn(seq)),
                    _ => Requester::Preparing(txn(seq)),
                };
                if requester != Requester::Plain {
                    open.push(txn(seq));
                }
                table.request(seq, requester, age(prng.below(100)), locks);
                while table.next_granted().is_some() {}
                table.check();
                if prng.below(3) == 0 && !open.is_empty() {
                    let txn = open.swap_remove(prng.below(open.len() as u64) as usize);
                    table.withdraw(txn);
                    table.release(txn);
                    while table.next_granted().is_some() {}
                    table.check();
                }
            }
            for txn in open {
                table.withdraw(txn);
                table.release(txn);
                while table.next_granted().is_some() {}
            }
            assert!(table.is_idle());
        }
    }
}

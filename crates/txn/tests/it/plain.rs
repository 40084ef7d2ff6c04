//! The lock table as plainly as it can be said, with everybody compared to everybody: what the indexed one is
//! compared with.

use std::collections::BTreeMap;
use txn::{Grant, Locks, Priority, RequestId, Requester, TxnId};

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

#[derive(Debug, Default)]
pub(crate) struct Model {
    holders: BTreeMap<TxnId, Holder>,
    waiters: BTreeMap<(Priority, u64), Waiter>,
    arrivals: u64,
}

impl Model {
    pub(crate) fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }

    pub(crate) fn holder_count(&self) -> usize {
        self.holders.len()
    }

    pub(crate) fn waiter_count(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn request(
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

    pub(crate) fn admits(&self, locks: &Locks) -> bool {
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

    pub(crate) fn prepare_held(&mut self, txn: TxnId) -> bool {
        match self.holders.get_mut(&txn) {
            Some(holder) => {
                holder.is_prepared = true;
                true
            }
            None => false,
        }
    }

    pub(crate) fn is_prepared(&self, txn: TxnId) -> bool {
        self.holders.get(&txn).is_some_and(|holder| holder.is_prepared)
    }

    pub(crate) fn withdraw(&mut self, txn: TxnId) -> Option<RequestId> {
        let (&at, _) = self.waiters.iter().find(|(_, waiter)| match waiter.requester {
            Requester::Plain => false,
            Requester::Reading(other) | Requester::Preparing(other) => other == txn,
        })?;
        self.waiters.remove(&at).map(|waiter| waiter.id)
    }

    pub(crate) fn release(&mut self, txn: TxnId) {
        self.holders.remove(&txn);
    }

    pub(crate) fn next_granted(&mut self) -> Option<RequestId> {
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

    pub(crate) fn admits_behind(&self, locks: &Locks, up_to_arrival: u64) -> bool {
        !self.holders.values().any(|holder| holder.locks.conflicts(locks))
            && !self
                .waiters
                .iter()
                .filter(|(_, waiter)| waiter.requester == Requester::Plain)
                .any(|((_, arrival), waiter)| *arrival <= up_to_arrival && waiter.locks.conflicts(locks))
    }

    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    pub(crate) fn withdraw_request(&mut self, id: RequestId) -> bool {
        let before = self.waiters.len();
        self.waiters.retain(|_, waiter| waiter.id != id);
        self.waiters.len() < before
    }

    pub(crate) fn blockers(&self, id: RequestId) -> Vec<TxnId> {
        let Some(((priority, _), waiter)) = self.waiters.iter().find(|(_, waiter)| waiter.id == id) else {
            return Vec::new();
        };
        let keeps = |holder: &Holder| {
            holder.is_prepared && holder.priority > *priority && holder.locks.conflicts(&waiter.locks)
        };
        let holders = self.holders.iter().filter(|(_, holder)| keeps(holder));
        holders.map(|(txn, _)| *txn).collect()
    }

    pub(crate) fn is_waiting(&self, txn: TxnId) -> bool {
        let mut waiters = self.waiters.values();
        waiters.any(|waiter| match waiter.requester {
            Requester::Plain => false,
            Requester::Reading(other) | Requester::Preparing(other) => other == txn,
        })
    }

    pub(crate) fn holders(&self) -> Vec<(TxnId, Priority, &Locks, bool)> {
        let holders = self.holders.iter();
        holders
            .map(|(txn, holder)| (*txn, holder.priority, &holder.locks, holder.is_prepared))
            .collect()
    }

    pub(crate) fn waiters(&self) -> Vec<(Priority, u64, RequestId, Requester, &Locks)> {
        let waiters = self.waiters.iter();
        waiters
            .map(|((priority, arrival), waiter)| {
                (*priority, *arrival, waiter.id, waiter.requester, &waiter.locks)
            })
            .collect()
    }

    pub(crate) fn hottest(&self, n: usize) -> Vec<(&[u8], usize)> {
        let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
        for waiter in self.waiters.values() {
            if let Locks::Keys(keys) = &waiter.locks {
                for (key, _) in keys {
                    *counts.entry(key).or_default() += 1;
                }
            }
        }
        let mut hottest: Vec<_> = counts.into_iter().collect();
        hottest.sort_by(|(_, a), (_, b)| b.cmp(a));
        hottest.truncate(n);
        hottest
    }
}

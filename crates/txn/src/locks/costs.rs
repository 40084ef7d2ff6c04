//! What requests cost, in places and requests that are looked at.

use super::*;
use ids::{Boot, UnixMillis};
use std::cell::Cell;

thread_local! {
    /// Places and requests that were looked at.
    pub(super) static VISITS: Cell<u64> = const { Cell::new(0) };
}

fn visits(of: impl FnOnce()) -> u64 {
    let before = VISITS.get();
    of();
    VISITS.get() - before
}

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

fn shared(key: &str) -> Locks {
    keys(&[(key, Mode::Shared)])
}

impl LockTable {
    /// Request and transaction of this number, and as old.
    fn prepare(&mut self, seq: u64, locks: Locks) -> Grant {
        self.request(seq, Requester::Preparing(txn(seq)), age(seq), locks)
    }

    fn plain(&mut self, seq: u64, locks: Locks) -> Grant {
        self.request(seq, Requester::Plain, age(seq), locks)
    }
}

fn waits() -> Grant {
    Grant::Waits { wound: vec![] }
}

fn crowd(count: u64) -> LockTable {
    let mut table = LockTable::default();
    for seq in 0..count {
        let key = format!("unrelated {seq}");
        table.prepare(seq, exclusive(&key));
        table.plain(10_000 + seq, exclusive(&key));
    }
    table
}

#[test]
fn what_a_request_costs_does_not_depend_on_unrelated_ones() {
    let work = |table: &mut LockTable| {
        let ab = keys(&[("a", Mode::Exclusive), ("b", Mode::Exclusive)]);
        let (first, second, third) = (txn(50_001), txn(50_002), txn(50_003));
        let mut costs = Vec::new();
        let mut step = |table: &mut LockTable, step: &dyn Fn(&mut LockTable)| {
            costs.push(visits(|| step(table)));
        };
        step(table, &|table| assert!(table.admits(&ab)));
        step(table, &|table| {
            let grant = table.request(50_001, Requester::Reading(first), age(50_001), ab.clone());
            assert_eq!(grant, Grant::Granted);
        });
        step(table, &|table| assert!(table.prepare_held(first)));
        step(table, &|table| {
            let grant = table.request(50_002, Requester::Preparing(second), age(50_002), ab.clone());
            assert_eq!(grant, waits());
        });
        step(table, &|table| {
            let grant = table.request(50_003, Requester::Preparing(third), age(50_003), ab.clone());
            assert_eq!(grant, waits());
        });
        step(table, &|table| assert!(!table.admits(&ab)));
        step(table, &|table| assert_eq!(table.withdraw(second), Some(50_002)));
        step(table, &|table| assert_eq!(table.next_granted(), None));
        step(table, &|table| table.release(first));
        step(table, &|table| assert_eq!(table.next_granted(), Some(50_003)));
        step(table, &|table| assert_eq!(table.next_granted(), None));
        step(table, &|table| table.release(third));
        costs
    };
    let mut crowded = crowd(10_000);
    assert_eq!((crowded.holder_count(), crowded.waiter_count()), (10_000, 10_000));
    let costs = work(&mut crowded);
    assert_eq!(costs, work(&mut crowd(1)));
    // Where nobody waits at all, nobody is looked for.
    let alone = work(&mut LockTable::default());
    assert!(
        alone.iter().zip(&costs).all(|(alone, cost)| alone <= cost),
        "{alone:?}"
    );
    assert!(costs.iter().all(|cost| *cost < 30), "{costs:?}");
}

#[test]
fn handing_on_a_key_does_not_depend_on_how_many_wait_for_it() {
    let hand_on = |waiters: u64, mode| {
        let mut table = LockTable::default();
        table.prepare(0, exclusive("k"));
        table.prepare(1, keys(&[("k", mode)]));
        for seq in 2..waiters {
            table.prepare(seq, exclusive("k"));
        }
        visits(|| {
            table.release(txn(0));
            assert_eq!(table.next_granted(), Some(1));
            assert_eq!(table.next_granted(), None);
            assert!(table.withdraw_request(2));
            assert_eq!(table.next_granted(), None);
        })
    };
    for mode in [Mode::Shared, Mode::Exclusive] {
        assert_eq!(hand_on(5, mode), hand_on(5_000, mode));
    }
}

#[test]
fn nobody_is_looked_at_whom_somebody_else_keeps_waiting() {
    let mut table = LockTable::default();
    for seq in [1, 2] {
        table.prepare(seq, shared("a"));
    }
    table.plain(3, exclusive("a"));
    table.release(txn(1));
    assert_eq!(
        visits(|| assert_eq!(table.next_granted(), None)),
        0,
        "txn 2 holds a"
    );

    table.prepare(4, exclusive("b"));
    let both = keys(&[("b", Mode::Shared), ("c", Mode::Shared)]);
    table.plain(5, both);
    table.plain(6, exclusive("c"));
    assert!(table.withdraw_request(6));
    assert_eq!(
        visits(|| assert_eq!(table.next_granted(), None)),
        0,
        "5 came before 6"
    );
    table.check();
}

#[test]
fn comparing_with_everybody_shows_in_the_count() {
    let others: Vec<Locks> = (0..300)
        .map(|seq| exclusive(&format!("unrelated {seq}")))
        .collect();
    let mine = exclusive("a");
    let compare = || assert!(others.iter().all(|other| !other.conflicts(&mine)));
    assert!(visits(compare) >= 300);
}

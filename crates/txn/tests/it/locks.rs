//! Who holds and who waits for keys, and the table beside its plain model.

use crate::plain::Model;
use ids::{Boot, Prng, UnixMillis};
use txn::{Grant, LockTable, Locks, Mode, Priority, RequestId, Requester, TxnId};

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

fn any_mode(prng: &mut Prng) -> Mode {
    [Mode::Shared, Mode::Exclusive][prng.below(2) as usize]
}

fn exclusive(key: &str) -> Locks {
    keys(&[(key, Mode::Exclusive)])
}

fn shared(key: &str) -> Locks {
    keys(&[(key, Mode::Shared)])
}

/// Requests as tests make them.
trait Ask {
    fn prepare(&mut self, seq: u64, locks: Locks) -> Grant;
    fn plain(&mut self, seq: u64, locks: Locks) -> Grant;
}

impl Ask for LockTable {
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

#[test]
fn readers_share_and_a_writer_waits_for_all_of_them() {
    let mut table = LockTable::default();
    assert_eq!(table.prepare(1, shared("k")), Grant::Granted);
    assert_eq!(table.prepare(2, shared("k")), Grant::Granted);
    assert_eq!(table.prepare(3, exclusive("k")), waits());
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
    table.prepare(1, exclusive("k"));
    table.prepare(2, exclusive("k"));
    table.plain(3, exclusive("k"));
    table.plain(4, exclusive("k"));
    assert_eq!(table.plain(5, exclusive("other")), Grant::Granted);
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
    table.prepare(1, exclusive("k"));
    assert_ne!(table.prepare(2, all), Grant::Granted);
    assert!(!table.admits(&exclusive("other")));
    assert_eq!(table.withdraw(txn(2)), Some(2));
    assert!(table.admits(&exclusive("other")));
}

#[test]
fn random_requests_never_break_an_invariant_and_all_end() {
    let mut prng = Prng::new(11);
    for _ in 0..200 {
        let mut table = LockTable::default();
        let mut open = Vec::new();
        for seq in 0..40 {
            let key = |prng: &mut Prng| format!("k{}", prng.below(4));
            let mode = any_mode(&mut prng);
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

#[test]
fn a_reader_waits_for_holders_and_for_those_who_waited_before_it() {
    let mut table = LockTable::default();
    let holder = Requester::Preparing(txn(5));
    assert_eq!(table.request(1, holder, age(5), shared("k")), Grant::Granted);
    let before = table.arrivals();
    assert_eq!(
        table.request(2, Requester::Plain, age(6), exclusive("k")),
        waits()
    );
    assert_eq!(
        table.request(3, Requester::Plain, age(1), exclusive("k")),
        Grant::Waits { wound: vec![txn(5)] }
    );
    assert_eq!((before, table.arrivals()), (0, 2));
    assert!(
        table.admits_behind(&shared("k"), before),
        "whoever waits came later"
    );
    assert!(
        !table.admits_behind(&shared("k"), before + 1),
        "request 2 came first"
    );
    assert!(table.withdraw_request(2));
    assert!(
        table.admits_behind(&shared("k"), before + 1),
        "request 3 came later, if older"
    );
    assert!(!table.admits(&shared("k")));
    assert!(!table.admits_behind(&exclusive("k"), before), "it is held");
    table.check();
}

#[test]
fn a_reader_does_not_wait_for_a_transaction_that_waits_itself() {
    let mut table = LockTable::default();
    let holder = Requester::Preparing(txn(5));
    assert_eq!(table.request(1, holder, age(5), exclusive("k")), Grant::Granted);
    let younger = Requester::Preparing(txn(9));
    assert_eq!(table.request(2, younger, age(9), exclusive("k")), waits());
    let came = table.arrivals();
    assert!(!table.admits_behind(&shared("k"), came), "it is held");
    // What the reader's connection writes behind the read is older than the transaction, and goes first.
    assert_eq!(
        table.request(3, Requester::Plain, age(6), exclusive("k")),
        waits()
    );
    table.release(txn(5));
    assert!(
        table.admits_behind(&shared("k"), came),
        "before that write is carried out"
    );
    assert_eq!(table.next_granted(), Some(3));
    table.check();
}

#[test]
fn a_request_is_taken_out_by_its_id_and_lets_others_go_on() {
    let mut table = LockTable::default();
    table.prepare(1, shared("k"));
    table.plain(2, exclusive("k"));
    table.request(3, Requester::Reading(txn(3)), age(3), shared("k"));
    assert!(table.is_waiting(txn(3)) && !table.is_waiting(txn(1)));
    assert_eq!(table.next_granted(), None);
    assert!(table.withdraw_request(2));
    assert!(!table.withdraw_request(2), "it is out");
    table.check();
    assert_eq!(table.next_granted(), Some(3));
    assert!(!table.is_waiting(txn(3)));
    let holders: Vec<_> = table
        .holders()
        .map(|(txn, _, _, is_prepared)| (txn, is_prepared))
        .collect();
    assert_eq!(holders, [(txn(1), true), (txn(3), false)]);
}

#[test]
fn those_who_wait_are_listed_in_order_of_age_then_of_arrival() {
    let mut table = LockTable::default();
    table.prepare(1, exclusive("k"));
    table.request(2, Requester::Plain, age(7), exclusive("k"));
    table.request(3, Requester::Plain, age(7), exclusive("k"));
    table.request(4, Requester::Reading(txn(4)), age(4), exclusive("k"));
    let waiting: Vec<_> = table.waiting_ids().collect();
    assert_eq!(
        waiting,
        [
            (age(4), 3, 4, Requester::Reading(txn(4))),
            (age(7), 1, 2, Requester::Plain),
            (age(7), 2, 3, Requester::Plain),
        ]
    );
}

#[test]
fn of_two_requests_of_a_transaction_the_older_is_withdrawn_first() {
    let mut table = LockTable::default();
    table.prepare(1, exclusive("k"));
    table.request(2, Requester::Reading(txn(2)), age(9), exclusive("k"));
    table.request(3, Requester::Preparing(txn(2)), age(5), exclusive("k"));
    assert_eq!(table.withdraw(txn(2)), Some(3));
    assert_eq!(table.withdraw(txn(2)), Some(2));
    assert_eq!(table.withdraw(txn(2)), None);
    table.check();
}

#[test]
fn blockers_are_the_younger_prepared_holders_that_are_still_there() {
    let mut table = LockTable::default();
    for (seq, key) in [(1, "a"), (8, "b"), (9, "c"), (10, "d")] {
        table.prepare(seq, exclusive(key));
    }
    let abc = ["a", "b", "c"].map(|key| (key, Mode::Shared));
    let grant = table.request(20, Requester::Plain, age(5), keys(&abc));
    assert_eq!(
        grant,
        Grant::Waits {
            wound: vec![txn(8), txn(9)]
        }
    );
    assert_eq!(table.blockers(20), [txn(8), txn(9)]);
    table.release(txn(8));
    assert_eq!(table.blockers(20), [txn(9)]);
    assert_eq!(table.blockers(1), [], "it does not wait");
}

#[test]
fn the_hottest_keys_are_those_that_most_wait_for() {
    let mut table = LockTable::default();
    let all = ["a", "b", "c", "d"].map(|key| (key, Mode::Exclusive));
    table.prepare(1, keys(&all));
    for (id, key) in [(2, "c"), (3, "b"), (4, "c"), (5, "a")] {
        table.plain(id, exclusive(key));
    }
    assert_eq!(table.hottest(2), [(&b"c"[..], 2), (&b"a"[..], 1)]);
    assert_eq!(table.hottest(9).len(), 3, "nobody waits for d");
}

#[test]
fn a_copy_refuses_what_no_table_holds() {
    let mut table = LockTable::default();
    assert!(table.restore_holder(txn(1), age(1), exclusive("a"), true));
    assert!(
        !table.restore_holder(txn(1), age(1), exclusive("b"), true),
        "it is there"
    );
    assert!(
        !table.restore_holder(txn(2), age(2), shared("a"), true),
        "a is held alone"
    );
    let mut wait = |arrival, id| table.restore_waiter(arrival, id, Requester::Plain, age(3), shared("a"));
    assert!(wait(4, 7));
    assert!(!wait(5, 7), "the id is taken");
    assert!(!wait(4, 8), "the number is taken");
    assert!(!wait(0, 8), "they count from one");
    assert!(!wait(u64::MAX, 8), "no table counts so far");
    assert!(!table.restore_arrivals(3), "the fourth is there");
    assert!(!table.restore_arrivals(u64::MAX), "no table counts so far");
    assert!(table.restore_arrivals(6));
    assert_eq!(table.plain(9, shared("a")), waits());
    assert_eq!(table.arrivals(), 7);
    table.check();
}

#[test]
#[should_panic(expected = "waits already")]
fn an_id_waits_once() {
    let mut table = LockTable::default();
    table.prepare(1, exclusive("k"));
    table.plain(2, exclusive("k"));
    table.request(2, Requester::Plain, age(3), exclusive("k"));
}

#[test]
fn free_locks_are_held_at_once_and_others_come_back() {
    let mut table = LockTable::default();
    let ab = keys(&[("a", Mode::Exclusive), ("b", Mode::Shared)]);
    assert_eq!(
        table.try_hold(Requester::Preparing(txn(1)), age(1), ab.clone()),
        Ok(())
    );
    assert_eq!(table.locks_of(txn(1)), Some(&ab));
    for taken in [exclusive("b"), shared("a"), Locks::WholeGroup(Mode::Shared)] {
        let back = table.try_hold(Requester::Preparing(txn(2)), age(2), taken.clone());
        assert_eq!(back, Err(taken));
        assert_eq!(table.holder_count(), 1);
    }
    // Free, but somebody waits for it: he is not overtaken.
    table.plain(3, exclusive("b"));
    let back = table.try_hold(Requester::Preparing(txn(4)), age(4), shared("b"));
    assert_eq!(back, Err(shared("b")));
    table.check();
}

/// Transactions that each hold a key and as many commands that wait, each for one of them.
/// A table and its model, to which everything is done alike.
struct Pair {
    table: LockTable,
    model: Model,
    prng: Prng,
    seed: u64,
    requests: u64,
    txns: Vec<TxnId>,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        Pair {
            table: LockTable::default(),
            model: Model::default(),
            prng: Prng::new(seed),
            seed,
            requests: 0,
            txns: Vec::new(),
        }
    }

    fn locks(&mut self) -> Locks {
        if self.prng.below(8) == 0 {
            return Locks::WholeGroup(any_mode(&mut self.prng));
        }
        // None at all, now and then.
        let count = self.prng.below(4);
        let keys = (0..count).map(|_| {
            let key = format!("k{}", self.prng.below(5));
            (key.into_bytes().into(), any_mode(&mut self.prng))
        });
        Locks::of_keys(keys.collect())
    }

    /// One of the transactions so far, open or not.
    fn any_txn(&mut self) -> TxnId {
        match self.txns.len() as u64 {
            0 => txn(0),
            len => self.txns[self.prng.below(len) as usize],
        }
    }

    fn request(&mut self) {
        self.requests += 1;
        let id = self.requests;
        let priority = age(self.prng.below(50));
        let locks = self.locks();
        // Sometimes one that was withdrawn, released or robbed comes again.
        let again = self.any_txn();
        let is_open = self.table.is_waiting(again) || self.table.holders().any(|(txn, ..)| txn == again);
        let txn = if is_open || self.prng.below(3) > 0 {
            txn(id)
        } else {
            again
        };
        let requester = match self.prng.below(3) {
            0 => Requester::Plain,
            1 => Requester::Reading(txn),
            _ => Requester::Preparing(txn),
        };
        if requester != Requester::Plain {
            self.txns.push(txn);
        }
        let grant = self.table.request(id, requester, priority, locks.clone());
        assert_eq!(grant, self.model.request(id, requester, priority, locks));
    }

    fn step(&mut self) {
        match self.prng.below(12) {
            0..4 => self.request(),
            4..6 => {
                let txn = self.any_txn();
                self.table.release(txn);
                self.model.release(txn);
            }
            6 => {
                let txn = self.any_txn();
                assert_eq!(self.table.withdraw(txn), self.model.withdraw(txn));
            }
            7 => {
                let id = self.prng.below(self.requests + 2);
                assert_eq!(self.table.withdraw_request(id), self.model.withdraw_request(id));
            }
            8 => {
                let txn = self.any_txn();
                assert_eq!(self.table.prepare_held(txn), self.model.prepare_held(txn));
            }
            9 => assert_eq!(self.table.next_granted(), self.model.next_granted()),
            _ => self.drain(),
        }
    }

    fn drain(&mut self) {
        loop {
            let granted = self.table.next_granted();
            assert_eq!(granted, self.model.next_granted());
            if granted.is_none() {
                break;
            }
        }
    }

    /// Everything that can be asked has one answer.
    fn compare(&mut self) {
        self.table.check();
        let (table, model) = (&self.table, &self.model);
        assert_eq!(table.is_idle(), model.is_idle());
        assert_eq!(table.holder_count(), model.holder_count());
        assert_eq!(table.waiter_count(), model.waiter_count());
        assert_eq!(table.arrivals(), model.arrivals());
        assert!(table.holders().eq(model.holders()), "seed {}", self.seed);
        let waiters = model.waiters();
        let waiting = waiters.iter().map(|(priority, arrival, id, requester, _)| {
            assert_eq!(table.blockers(*id), model.blockers(*id));
            (*priority, *arrival, *id, *requester)
        });
        assert!(table.waiting_ids().eq(waiting), "seed {}", self.seed);
        assert_eq!(table.hottest(3), model.hottest(3));
        let (txn, locks) = (self.any_txn(), self.locks());
        let arrival = self.prng.below(self.model.arrivals() + 2);
        let (table, model) = (&self.table, &self.model);
        assert_eq!(table.is_prepared(txn), model.is_prepared(txn));
        assert_eq!(table.is_waiting(txn), model.is_waiting(txn));
        assert_eq!(table.admits(&locks), model.admits(&locks));
        assert_eq!(
            table.admits_behind(&locks, arrival),
            model.admits_behind(&locks, arrival)
        );
    }

    /// Puts a copy in the table's place, made in some order.
    fn copy(&mut self) {
        enum Part<'a> {
            Holder((TxnId, Priority, &'a Locks, bool)),
            Waiter((Priority, u64, RequestId, Requester, &'a Locks)),
            Arrivals(u64),
        }
        let mut parts = vec![Part::Arrivals(self.model.arrivals())];
        parts.extend(self.model.holders().into_iter().map(Part::Holder));
        parts.extend(self.model.waiters().into_iter().map(Part::Waiter));
        self.table = LockTable::default();
        while !parts.is_empty() {
            let at = self.prng.below(parts.len() as u64) as usize;
            let is_taken = match parts.swap_remove(at) {
                Part::Holder((txn, priority, locks, is_prepared)) => {
                    self.table
                        .restore_holder(txn, priority, locks.clone(), is_prepared)
                }
                Part::Waiter((priority, arrival, id, requester, locks)) => {
                    self.table
                        .restore_waiter(arrival, id, requester, priority, locks.clone())
                }
                Part::Arrivals(arrivals) => self.table.restore_arrivals(arrivals),
            };
            assert!(is_taken, "seed {}: it is a part of a table", self.seed);
        }
    }
}

#[test]
fn the_table_and_the_plain_model_give_the_same_answers() {
    for seed in 0..200 {
        println!("seed {seed}");
        let mut pair = Pair::new(seed);
        for _ in 0..120 {
            pair.step();
            pair.compare();
        }
    }
}

#[test]
fn a_copy_behaves_as_the_table_it_was_taken_from() {
    for seed in 1000..1100 {
        println!("seed {seed}");
        let mut pair = Pair::new(seed);
        for _ in 0..120 {
            pair.step();
            if pair.prng.below(5) == 0 {
                pair.copy();
            }
            pair.compare();
        }
    }
}

//! A history of transactions that was kept can be replayed, and threads can write one down together.

use crate::executed::{self, Shape};
use crate::made::Draw;
use history::{
    ActionText, Judgement, Ledger, Outcome, Process, Transactions, bank, exposed, list_append, queues, ring,
};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

#[track_caller]
fn survives<A: ActionText + PartialEq + Debug>(text: &str) {
    let history: Transactions<A> = text.parse().expect("the test's own text");
    assert_eq!(history.to_string(), text);
    assert_eq!(history.to_string().parse(), Ok(history));
}

#[test]
fn histories_of_every_form_survive_being_written_down() {
    let shape = Shape {
        transactions: 300,
        clients: 7,
        keys: 3,
        appends_max: 20,
        spread: 50,
        unknown: 10,
        aborted: 10,
        blind: 50,
    };
    let (seen, told) = executed::both(5, &shape);
    assert_eq!(seen.to_string().parse(), Ok(seen));
    assert_eq!(told.to_string().parse(), Ok(told));
    survives::<exposed::Action>(
        "1 2 3 committed read x 4; write x 5; update y 6 7\n1 4 - unknown write x ?\n",
    );
    survives::<list_append::Action>(
        "1 2 3 aborted append x -4; read y [1,2]; read z []\n1 4 - unknown read x ?\n",
    );
    survives::<bank::Action>("1 2 3 committed transfer a b 4; balances a 1 b -2\n1 4 - unknown balances ?\n");
    survives::<bank::Action>("1 2 3 committed balances ? 1\n1 4 5 committed balances\n");
    survives::<ring::Action>(
        "1 2 3 committed swap a; whole a b b a\n1 4 - unknown whole ?\n1 5 6 committed whole ? a\n",
    );
    survives::<queues::Action>(
        "1 2 3 committed push p 1; move p q 1; move p q nil; pop q 1; pop q nil; rest p [1]\n1 4 - unknown rest p ?\n",
    );
    survives::<queues::Action>("1 2 3 committed\n");
}

#[test]
fn keys_of_any_bytes_survive_in_transactions() {
    let ledger = Ledger::default();
    for key in [
        "",
        "a b",
        "%",
        "a;b",
        ";",
        "?",
        "-",
        "nil",
        "\n\t",
        "Zürich",
        "plain:{tag}",
    ] {
        let key = key.to_owned();
        let told = vec![
            list_append::Action::Append {
                key: key.clone(),
                element: 1,
            },
            list_append::Action::Read {
                key,
                elements: Some(vec![1]),
            },
        ];
        let entry = ledger.called(Process(1), told.clone(), 0);
        ledger.committed(entry, told, 0);
    }
    let history = ledger.finish();
    assert_eq!(history.to_string().parse(), Ok(history.clone()));
    assert_eq!(list_append::check(&history), Judgement::Clean);
}

#[test]
fn a_line_that_is_no_transaction_is_named() {
    let error = "# kept on purpose\n\n0 1 2 committed read x [1]\n0 x 2 committed"
        .parse::<Transactions<list_append::Action>>()
        .expect_err("`x` is no time");
    assert_eq!(error.to_string(), "line 4: expected the time of the call");
    for text in [
        "0",
        "0 1 2",
        "0 1 2 done",
        "0 2 1 committed",
        "0 1 2 committed jump x",
        "0 1 2 committed append x",
        "0 1 2 committed append x y",
        "0 1 2 committed append x 1 2",
        "0 1 2 committed append x 1;",
        "0 1 2 committed ; append x 1",
        "0 1 2 committed read x [1",
        "0 1 2 committed read x [1,]",
        "0 1 2 committed read %z []",
        "99999999999 1 2 committed",
    ] {
        assert!(
            text.parse::<Transactions<list_append::Action>>().is_err(),
            "{text}"
        );
    }
}

#[test]
fn no_text_makes_a_check_panic() {
    let shape = Shape {
        transactions: 8,
        clients: 4,
        keys: 2,
        appends_max: 9,
        spread: 30,
        unknown: 20,
        aborted: 20,
        blind: 50,
    };
    let bank = "0 1 9 committed transfer a b 4; balances a 6 b 14\n1 2 - unknown transfer b a 1\n";
    let ring = "0 1 9 committed swap a; whole a b b a\n1 2 - unknown whole ?\n";
    let queues =
        "0 1 9 committed push p 1; move p q 1; pop q 1; rest p []; rest q []\n1 2 - unknown pop q 1\n";
    let opening = [("a".to_owned(), 10), ("b".to_owned(), 10)].into();
    let mut read = 0;
    for seed in 0..2_000 {
        let mut draw = Draw::new(seed);
        let (seen, told) = executed::both(seed, &shape);
        let mut garble = |text: String| {
            let mut bytes = text.into_bytes();
            for _ in 0..1 + draw.below(4) {
                let at = draw.below(bytes.len() as u64) as usize;
                let alphabet: &[u8] = if bytes[at].is_ascii_digit() {
                    b"0123456789"
                } else {
                    b"0123456789-?;[], abpqxk"
                };
                if bytes[at].is_ascii_digit() || draw.percent(20) {
                    bytes[at] = alphabet[draw.below(alphabet.len() as u64) as usize];
                }
            }
            String::from_utf8(bytes).expect("it is ASCII")
        };
        if let Ok(history) = garble(seen.to_string()).parse() {
            let _ = exposed::check(&history).to_string();
            read += 1;
        }
        if let Ok(history) = garble(told.to_string()).parse() {
            let _ = list_append::check(&history).to_string();
            read += 1;
        }
        if let Ok(history) = garble(bank.to_owned()).parse() {
            let _ = bank::check(&history, &opening).to_string();
            read += 1;
        }
        if let Ok(history) = garble(ring.to_owned()).parse() {
            let _ = ring::check(&history, 2).to_string();
            read += 1;
        }
        if let Ok(history) = garble(queues.to_owned()).parse() {
            let _ = queues::check(&history).to_string();
            read += 1;
        }
    }
    assert!(read > 2_000, "{read} could be read");
}

#[test]
fn what_threads_wrote_down_together_is_checked() {
    let ledger = Ledger::default();
    let store: Mutex<Vec<i64>> = Mutex::default();
    let clock = AtomicU64::new(1);
    let now = || clock.fetch_add(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        for thread in 0..4_i64 {
            let (ledger, store) = (&ledger, &store);
            scope.spawn(move || {
                for turn in 0..100 {
                    let element = thread * 1_000 + turn;
                    let append = list_append::Action::Append {
                        key: "x".to_owned(),
                        element,
                    };
                    let read = |elements| list_append::Action::Read {
                        key: "x".to_owned(),
                        elements,
                    };
                    let process = Process(thread as u32);
                    let entry = ledger.called(process, vec![append.clone(), read(None)], now());
                    if turn % 10 == 9 {
                        ledger.aborted(entry, now());
                        continue;
                    }
                    let mut held = store.lock().unwrap_or_else(PoisonError::into_inner);
                    held.push(element);
                    let seen = held.clone();
                    drop(held);
                    if turn % 10 != 5 {
                        ledger.committed(entry, vec![append, read(Some(seen))], now());
                    }
                }
            });
        }
    });
    assert_eq!(ledger.len(), 400);
    let history = ledger.finish();
    let count = |outcome| {
        let has_outcome = |one: &&history::Transaction<_>| one.outcome == outcome;
        history.as_slice().iter().filter(has_outcome).count()
    };
    assert_eq!((count(Outcome::Aborted), count(Outcome::Unknown)), (40, 40));
    assert_eq!(list_append::check(&history), Judgement::Clean);
}

#[test]
fn events_of_one_moment_keep_their_order_in_a_ledger() {
    let ledger = Ledger::default();
    let first = ledger.called(Process(1), vec![ring::Action::Swap("a".to_owned())], 5);
    ledger.committed(first, vec![ring::Action::Swap("a".to_owned())], 5);
    ledger.called(Process(2), vec![ring::Action::Whole(None)], 5);
    assert!(!ledger.is_empty());
    assert_eq!(
        ledger.finish().to_string(),
        "1 5 6 committed swap a\n2 7 - unknown whole ?\n"
    );
}

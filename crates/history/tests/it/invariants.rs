//! Accounts, a ring and queues: what must hold of each read, and reads of which it does not.

use crate::made::Draw;
use history::{ActionText, Judgement, Outcome, Process, Transaction, Transactions, bank, queues, ring};
use std::collections::{BTreeMap, VecDeque};

fn read<A: ActionText>(text: &str) -> Transactions<A> {
    text.parse().expect("the test's own text")
}

fn name(judgement: Judgement) -> String {
    match judgement {
        Judgement::Clean => "clean".to_owned(),
        Judgement::Violated(anomaly) => anomaly.name(),
    }
}

fn of_bank(text: &str) -> String {
    let opening = ["a", "b", "c"].map(|account| (account.to_owned(), 10));
    name(bank::check(&read(text), &opening.into()))
}

#[test]
fn the_total_of_all_accounts_never_changes() {
    assert_eq!(
        of_bank(
            "0 1 4 committed transfer a b 4
             1 2 3 committed balances a 6 b 14 c 10
             1 4 5 committed balances a 6 b 14 c 10
             0 6 7 aborted transfer a b 4
             0 8 9 committed balances a 6 b 14 c 10"
        ),
        "clean"
    );
    for torn in [
        "balances a 6 b 10 c 10",
        "balances a 6 b 14",
        "balances a 6 b 14 b 10",
        "balances a 6 b 14 d 10",
        "balances",
    ] {
        let text = format!(
            "0 1 4 committed transfer a b 4
             1 2 3 committed {torn}"
        );
        assert_eq!(of_bank(&text), "wrong total", "{torn}");
    }
    assert_eq!(of_bank("0 1 2 committed transfer a x 1"), "unjudgeable");
}

#[test]
fn a_transfer_that_was_lost_or_done_twice_keeps_the_total_and_is_found() {
    let text = "0 1 2 committed transfer a b 4
             1 3 - unknown transfer b c 1
             2 4 5 committed balances";
    for possible in ["a 6 b 14 c 10", "a 6 b 13 c 11"] {
        assert_eq!(of_bank(&format!("{text} {possible}")), "clean", "{possible}");
    }
    for wrong in [
        "a 10 b 10 c 10",
        "a 2 b 18 c 10",
        "a 6 b 12 c 12",
        "a 7 b 13 c 10",
        "a 5 b 14 c 11",
    ] {
        assert_eq!(of_bank(&format!("{text} {wrong}")), "wrong total", "{wrong}");
    }
    // What is called only after the read was answered has not happened.
    assert_eq!(
        of_bank(
            "0 1 2 committed balances a 6 b 14 c 10
             1 3 4 committed transfer a b 4"
        ),
        "wrong total"
    );
}

/// Transfers on one machine, with any overlaps.
#[test]
fn an_execution_of_transfers_passes_and_one_balance_out_of_two_does_not() {
    let accounts = ["a", "b", "c", "d"].map(str::to_owned);
    let opening: BTreeMap<String, i64> = accounts.iter().map(|name| (name.clone(), 100)).collect();
    for seed in 0..100 {
        let mut draw = Draw::new(seed);
        let mut held = opening.clone();
        let mut all = Vec::new();
        for turn in 1..200 {
            let moment = turn * 10 + 50;
            let (invoked, returned) = (moment - draw.below(50), moment + 1 + draw.below(50));
            let is_unknown = draw.percent(3);
            let mut happens = !is_unknown || draw.percent(50);
            let mut outcome = if is_unknown {
                Outcome::Unknown
            } else {
                Outcome::Committed
            };
            let action = if draw.percent(40) {
                let balances = held.clone().into_iter().collect();
                bank::Action::Balances((!is_unknown).then_some(balances))
            } else {
                let from = accounts[draw.below(4) as usize].clone();
                let to = accounts[draw.below(4) as usize].clone();
                let amount = draw.below(60) as i64;
                if held[&from] < amount {
                    happens = false;
                    outcome = Outcome::Aborted;
                }
                if happens {
                    *held.get_mut(&from).expect("it is an account") -= amount;
                    *held.get_mut(&to).expect("it is an account") += amount;
                }
                bank::Action::Transfer { from, to, amount }
            };
            all.push(Transaction {
                process: Process(0),
                invoked,
                returned: (outcome != Outcome::Unknown).then_some(returned),
                outcome,
                actions: vec![action],
            });
        }
        let history = Transactions::new(all.clone());
        assert_eq!(
            bank::check(&history, &opening),
            Judgement::Clean,
            "seed {seed}\n{history}"
        );
        let torn = all
            .iter_mut()
            .rev()
            .find_map(|transaction| match &mut transaction.actions[0] {
                bank::Action::Balances(Some(balances)) => balances.first_mut(),
                _ => None,
            });
        torn.expect("somebody reads").1 += 1;
        assert_eq!(
            name(bank::check(&Transactions::new(all), &opening)),
            "wrong total"
        );
    }
}

#[test]
fn all_keys_are_one_ring() {
    let of = |text: &str| name(ring::check(&read(text), 4));
    assert_eq!(
        of("0 1 2 committed whole a b b c c d d a
            1 3 4 committed swap a
            0 5 6 committed whole a c c b b d d a
            0 7 - unknown whole ?"),
        "clean"
    );
    for broken in [
        "whole a b b a c d d c",
        "whole a b b c c b d a",
        "whole a b b c c a",
        "whole a b b c c x d a",
        "whole a a b b c c d d",
        "whole a b b c c d d a a b",
        "whole",
    ] {
        assert_eq!(
            of(&format!("0 1 2 committed {broken}")),
            "broken ring",
            "{broken}"
        );
    }
}

#[test]
fn every_element_of_the_queues_is_taken_once() {
    let of = |text: &str| name(queues::check(&read(text)));
    let text = "0 1 2 committed push p 1; push p 2
         1 3 4 committed move p q 1
         2 5 6 committed pop q 1
         2 7 8 committed pop q nil
         0 9 10 committed rest p [2]; rest q []";
    assert_eq!(of(text), "clean");
    assert_eq!(of(&text.replace("rest p [2]", "rest p [1,2]")), "taken twice");
    assert_eq!(of(&text.replace("rest q []", "rest q [2]")), "taken twice");
    assert_eq!(of(&text.replace("pop q nil", "pop q 1")), "taken twice");
    assert_eq!(of(&text.replace("rest p [2]", "rest p []")), "lost element");
    assert_eq!(of(&text.replace("rest q []", "rest q [3]")), "unwritten read");
    assert_eq!(of(&text.replace("move p q 1", "move p q 3")), "unwritten read");
    assert_eq!(of(&text.replace("0 1 2 committed", "0 1 2 aborted")), "G1a");
    assert_eq!(of(&text.replace("0 1 2", "0 11 12")), "unwritten read");
    assert_eq!(of(&text.replace("push p 2", "push p 1")), "unjudgeable");
    // Without the rest of every queue nothing is said of what is missing.
    assert_eq!(of(&text.replace("rest p [2]; ", "")), "clean");
}

#[test]
fn a_pop_whose_answer_is_lost_may_have_taken_one_element() {
    let of = |text: &str| name(queues::check(&read(text)));
    let text = "0 1 2 committed push p 1; push p 2
         1 3 - unknown pop p nil
         0 9 10 committed rest p [2]";
    assert_eq!(of(text), "clean");
    assert_eq!(of(&text.replace("[2]", "[]")), "lost element");
    assert_eq!(
        of(&text.replace("unknown pop p nil", "unknown move p p nil")),
        "lost element"
    );
    // What was perhaps never pushed is not missing.
    assert_eq!(of("0 1 - unknown push p 1\n0 2 3 committed rest p []"), "clean");
}

#[test]
fn an_execution_that_moves_elements_passes_and_one_that_forgets_or_repeats_one_does_not() {
    for seed in 0..100 {
        let mut draw = Draw::new(seed);
        let mut held: [VecDeque<i64>; 3] = Default::default();
        let queue = |index: usize| format!("q{index}");
        let mut all = Vec::new();
        let mut push = |at: u64, outcome, action| {
            all.push(Transaction {
                process: Process(0),
                invoked: at * 10,
                returned: Some(at * 10 + 25),
                outcome,
                actions: vec![action],
            });
        };
        for turn in 1..300 {
            let (from, to) = (draw.below(3) as usize, draw.below(3) as usize);
            match draw.below(3) {
                0 => {
                    held[to].push_back(turn as i64);
                    let (queue, element) = (queue(to), turn as i64);
                    push(turn, Outcome::Committed, queues::Action::Push { queue, element });
                }
                1 => {
                    let element = held[from].pop_front();
                    held[to].extend(element);
                    let (from, to) = (queue(from), queue(to));
                    push(
                        turn,
                        Outcome::Committed,
                        queues::Action::Move { from, to, element },
                    );
                }
                _ => {
                    let taken = held[from].pop_front();
                    let is_unknown = draw.percent(5);
                    let outcome = if is_unknown {
                        Outcome::Unknown
                    } else {
                        Outcome::Committed
                    };
                    let element = taken.filter(|_| !is_unknown);
                    let queue = queue(from);
                    push(turn, outcome, queues::Action::Pop { queue, element });
                }
            }
        }
        held[0].push_back(-1);
        let (last, element) = (queue(0), -1);
        push(
            300,
            Outcome::Committed,
            queues::Action::Push { queue: last, element },
        );
        for (index, elements) in held.into_iter().enumerate() {
            let elements = Some(elements.into_iter().collect());
            let queue = queue(index);
            push(400, Outcome::Committed, queues::Action::Rest { queue, elements });
        }
        let history = Transactions::new(all.clone());
        assert_eq!(
            queues::check(&history),
            Judgement::Clean,
            "seed {seed}\n{history}"
        );
        let rest = all.len() - 3;
        let queues::Action::Rest {
            elements: Some(elements),
            ..
        } = &mut all[rest].actions[0]
        else {
            panic!("the rests are the last");
        };
        elements.push(-1);
        assert_eq!(name(queues::check(&Transactions::new(all))), "taken twice");
    }
}

//! Anomalies by name, small enough to be read, and in the midst of a long history.

use crate::made::{self, FAMILIES, Shape};
use history::{Answer, Call, Family, History, Verdict, Violation, check};

fn violation(text: &str) -> Violation {
    match check(&text.parse().expect("the test's own text")) {
        Verdict::Violated(violation) => *violation,
        verdict => panic!("{verdict:?}"),
    }
}

#[test]
fn a_stale_read_is_refused() {
    let found = violation(
        "0 k 1 2 set 1 = done
         0 k 3 4 set 2 = done
         1 k 5 6 get = 1",
    );
    assert_eq!(found.broken.answer, Answer::Value(Some(1)));
}

#[test]
fn a_read_may_see_a_write_that_is_under_way_but_nobody_sees_the_older_value_after_that() {
    let text = "0 k 1 2 set 1 = done
         0 k 3 20 set 2 = done
         1 k 4 5 get = 2
         2 k 6 7 get = 1";
    assert_eq!(violation(text).broken.invoked, 6);
    assert_eq!(
        check(&text.replace("6 7", "4 7").parse().unwrap()),
        Verdict::Linearizable
    );
}

#[test]
fn a_lost_write_is_refused() {
    violation(
        "0 l 1 2 append 1 = 1
         1 l 3 4 append 2 = 2
         0 l 5 6 list = [1]",
    );
    violation(
        "0 c 1 2 add 1 = 1
         1 c 3 4 add 1 = 1",
    );
    violation(
        "0 q 1 2 push 1 = done
         1 q 3 4 push 2 = done
         0 q 5 6 pop = 2",
    );
    violation(
        "0 q 1 2 push 1 = done
         1 q 3 4 pop = nil",
    );
}

#[test]
fn what_was_applied_twice_is_refused() {
    violation(
        "0 l 1 2 append 1 = 1
         0 l 3 4 list = [1,1]",
    );
    violation(
        "0 c 1 2 add 1 = 1
         0 c 3 4 add 1 = 3",
    );
    violation(
        "0 q 1 2 push 1 = done
         0 q 3 4 pop = 1
         0 q 5 6 pop = 1",
    );
    violation(
        "0 l 1 - append 1 = unknown
         1 l 3 4 list = [1,1]",
    );
}

#[test]
fn a_value_that_was_never_written_is_refused() {
    violation("0 k 1 2 get = 5");
    violation("0 q 1 2 pop = 5");
    violation(
        "0 l 1 2 append 1 = 1
         0 l 3 4 list = [2]",
    );
}

#[test]
fn what_was_certainly_not_done_is_not_seen() {
    violation(
        "0 k 1 2 set 5 = refused
         1 k 3 4 get = 5",
    );
    let unknown = "0 k 1 2 set 5 = unknown
         1 k 3 4 get = 5";
    assert_eq!(check(&unknown.parse().unwrap()), Verdict::Linearizable);
}

#[test]
fn two_swaps_do_not_find_the_same_value() {
    violation(
        "0 k 1 9 swap 1 = nil
         1 k 1 9 swap 2 = nil",
    );
    violation(
        "0 k 1 2 set 1 = done
         1 k 3 9 cas 1 2 = yes
         2 k 3 9 cas 1 3 = yes",
    );
}

#[test]
fn what_one_process_asks_without_waiting_is_done_in_its_order() {
    let pipelined = "0 k 1 9 set 1 = done
         0 k 2 9 get = nil
         0 k 3 9 set 2 = done";
    violation(pipelined);
    assert_eq!(
        check(&pipelined.replace("get = nil", "get = 1").parse().unwrap()),
        Verdict::Linearizable
    );
}

#[test]
fn objects_are_checked_one_at_a_time() {
    let found = violation(
        "0 a 1 2 set 1 = done
         0 b 3 4 append 9 = 1
         1 a 5 6 get = 1
         1 b 7 8 list = []",
    );
    assert_eq!((found.key.as_str(), found.family), ("b", Family::List));
}

#[test]
fn the_explanation_names_the_first_answer_that_cannot_be() {
    let found = violation(
        "0 k 1 2 set 1 = done
         0 k 3 4 set 2 = done
         1 k 5 6 get = 1
         0 k 7 8 set 3 = done
         1 k 9 10 get = 1",
    );
    assert_eq!(
        found.to_string(),
        "no order of the operations on \"k\" explains this answer:
    1 k 5 6 get = 1
(3 operations were called until then; without this answer there is an order.)
operations of the same values, or under way at the same time:
    0 k 1 2 set 1 = done
the longest order that explains some answers ends with:
    0 k 1 2 set 1 = done
"
    );
}

/// Changes one answer in the last quarter of a long history to something impossible.
fn spoil(made: &History) -> Option<History> {
    let mut operations = made.operations().to_vec();
    let from = operations.len() * 3 / 4;
    let earlier = operations.clone();
    let spoiled = operations[from..].iter_mut().find_map(|operation| {
        let answer = match (operation.call, &operation.answer) {
            // A value that was overwritten long ago.
            (Call::Get, Answer::Value(Some(seen))) => {
                let old = earlier.iter().find_map(|other| match other.call {
                    Call::Set(value) if value < seen - 500 && !other.is_open() => Some(value),
                    _ => None,
                });
                Answer::Value(Some(old?))
            }
            (Call::Add(_), Answer::Value(Some(sum))) => Answer::Value(Some(sum + 1_000)),
            (Call::List, Answer::Elements(elements)) if elements.len() > 600 => {
                Answer::Elements(elements[..elements.len() - 500].to_vec())
            }
            (Call::Pop, Answer::Value(Some(element))) if *element > 500 => Answer::Value(Some(element - 400)),
            _ => return None,
        };
        operation.answer = answer;
        Some(())
    });
    spoiled.map(|()| History::new(operations))
}

#[test]
fn one_wrong_answer_among_thousands_is_found() {
    for family in FAMILIES {
        let shape = Shape {
            family,
            clients: 20,
            operations: 3_000,
            spread: 150,
            unknown: 1,
            pipelined: 0,
            values: 0,
        };
        let Some(spoiled) = spoil(&made::history(11, &shape)) else {
            assert_eq!(family, Family::Member(7), "this family can be spoiled");
            continue;
        };
        assert!(matches!(check(&spoiled), Verdict::Violated(_)), "{family:?}");
    }
}

//! What one machine could have shown is accepted, and nothing else.

use crate::made::{self, Draw, FAMILIES, Shape};
use crate::naive;
use history::{Answer, History, Verdict, check};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_real_execution_with_any_overlaps_is_accepted(
        seed in any::<u64>(),
        family in 0..FAMILIES.len(),
        clients in 1..12u32,
        spread in 0..120u64,
        unknown in 0..20u64,
        pipelined in prop_oneof![Just(0), 0..60u64],
        values in prop_oneof![Just(0), 2..20u64],
    ) {
        let shape = Shape { family: FAMILIES[family], clients, operations: 120, spread, unknown, pipelined, values };
        let made = made::history(seed, &shape);
        let verdict = check(&made);
        prop_assert!(verdict == Verdict::Linearizable, "{verdict:?}\n{made}");
    }

    #[test]
    fn the_verdict_is_that_of_trying_every_order(
        seed in any::<u64>(),
        family in 0..FAMILIES.len(),
        clients in 1..5u32,
        spread in 0..60u64,
        unknown in 0..40u64,
        pipelined in prop_oneof![Just(0), 0..60u64],
        values in prop_oneof![Just(0), 1..4u64],
        lies in 0..3u64,
    ) {
        let shape = Shape { family: FAMILIES[family], clients, operations: 7, spread, unknown, pipelined, values };
        let told = lie(&made::history(seed, &shape), &mut Draw::new(seed ^ 1), lies);
        let verdict = check(&told);
        let expected = naive::is_linearizable(&told);
        prop_assert!((verdict == Verdict::Linearizable) == expected, "expected {expected}: {verdict:?}\n{told}");
    }
}

/// Exchanges answers of operations of one kind, or shifts them a little.
fn lie(made: &History, draw: &mut Draw, lies: u64) -> History {
    let mut operations = made.operations().to_vec();
    for _ in 0..lies {
        if operations.is_empty() {
            break;
        }
        let index = draw.below(operations.len() as u64) as usize;
        let other = draw.below(operations.len() as u64) as usize;
        if draw.percent(50) && operations[index].returned.is_some() && operations[other].returned.is_some() {
            let kind = |at: usize| std::mem::discriminant(&operations[at].call);
            if kind(index) == kind(other) {
                let answer = operations[index].answer.clone();
                operations[index].answer = std::mem::replace(&mut operations[other].answer, answer);
            }
            continue;
        }
        let told = &mut operations[index].answer;
        *told = match told.clone() {
            Answer::Value(Some(value)) if draw.percent(80) => Answer::Value(Some((value - 1).max(0))),
            Answer::Value(Some(_)) => Answer::Value(None),
            Answer::Value(None) => Answer::Value(Some(draw.below(4) as i64)),
            Answer::Held(held) => Answer::Held(!held),
            Answer::Elements(mut elements) => {
                elements.pop();
                Answer::Elements(elements)
            }
            same => same,
        };
    }
    History::new(operations)
}

#[test]
fn thousands_of_operations_of_tens_of_clients_are_decided() {
    for family in FAMILIES {
        for seed in 0..3 {
            let shape = Shape {
                family,
                clients: 40,
                operations: 3_000,
                spread: 300,
                unknown: 2,
                pipelined: 0,
                values: 0,
            };
            let made = made::history(seed, &shape);
            assert_eq!(check(&made), Verdict::Linearizable, "{family:?}, seed {seed}");
        }
    }
}

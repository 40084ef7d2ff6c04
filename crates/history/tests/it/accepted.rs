//! What one machine could have shown is accepted, and nothing else.

use crate::made::{self, Draw, FAMILIES, Shape};
use crate::naive;
use history::{Answer, Call, Family, History, Operation, Process, Verdict, check};
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

#[test]
fn the_verdict_on_queues_whose_clients_do_not_wait_is_that_of_trying_every_order() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..60_000 {
        let draw = &mut Draw::new(seed);
        let shape = Shape {
            family: Family::Queue,
            clients: 1 + draw.below(4) as u32,
            operations: 6 + draw.below(5),
            spread: 20 + draw.below(80),
            unknown: draw.below(4) * 20,
            pipelined: draw.below(3) * 40,
            values: 0,
        };
        let lies = draw.below(5);
        let told = lie(&made::history(seed, &shape), draw, lies);
        let verdict = check(&told);
        let expected = naive::is_linearizable(&told);
        assert_eq!(
            verdict == Verdict::Linearizable,
            expected,
            "seed {seed}: {verdict:?}\n{told}"
        );
        *(if expected { &mut accepted } else { &mut refused }) += 1;
    }
    assert!(
        accepted > 20_000 && refused > 10_000,
        "{accepted} accepted, {refused} refused"
    );
}

#[test]
fn a_long_queue_whose_clients_do_not_wait_is_decided() {
    for seed in 0..10 {
        let shape = Shape {
            family: Family::Queue,
            clients: 9,
            operations: 600,
            spread: 400,
            unknown: seed % 5,
            pipelined: 60,
            values: 0,
        };
        let made = made::history(seed, &shape);
        assert_eq!(check(&made), Verdict::Linearizable, "seed {seed}");
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

/// A queue into which elements were pushed by who never heard so, and that were taken long after others which nobody took.
#[test]
fn pushes_that_nobody_answered_come_before_those_that_nobody_took() {
    let operation = |process: u32, span: (u64, Option<u64>), call: Call, answer: Answer| Operation {
        process: Process(process),
        key: "q".into(),
        invoked: span.0,
        returned: span.1,
        call,
        answer,
    };
    // Who asks twice at once.
    let mut all = vec![
        operation(0, (1, Some(4)), Call::Push(1), Answer::Done),
        operation(0, (2, Some(5)), Call::Push(2), Answer::Done),
    ];
    for open in 0..12 {
        let at = 10 + u64::from(open);
        all.push(operation(
            100 + open,
            (at, None),
            Call::Push(100 + i64::from(open)),
            Answer::Unknown,
        ));
        all.push(operation(200 + open, (at, None), Call::Pop, Answer::Unknown));
    }
    for left in 0..24 {
        let at = 100 + 10 * left;
        all.push(operation(
            1,
            (at, Some(at + 5)),
            Call::Push(1_000 + left as i64),
            Answer::Done,
        ));
    }
    for taken in 0..12 {
        let at = 1_000 + 10 * taken;
        let answer = Answer::Value(Some(100 + taken as i64));
        all.push(operation(2, (at, Some(at + 5)), Call::Pop, answer));
    }
    assert_eq!(check(&History::new(all)), Verdict::Linearizable);
}

/// A register while nobody answers: what was written meanwhile was never seen, but here and there somebody was told what the
/// value was not.
#[test]
fn writes_that_nobody_answered_or_saw_are_not_tried_in_every_order() {
    let operation = |process: u32, span: (u64, Option<u64>), call: Call, answer: Answer| Operation {
        process: Process(process),
        key: "r".into(),
        invoked: span.0,
        returned: span.1,
        call,
        answer,
    };
    let mut all = vec![operation(0, (1, Some(2)), Call::Set(1), Answer::Done)];
    for open in 0..30 {
        let (at, value) = (10 + u64::from(open), 100 + i64::from(open) * 10);
        all.push(operation(
            100 + open,
            (at, None),
            Call::Set(value),
            Answer::Unknown,
        ));
        // What nobody needs is not needed by who makes something of it that nobody needs either.
        let cas = Call::Cas(value, value + 1);
        all.push(operation(200 + open, (at, None), cas, Answer::Unknown));
    }
    for (told, at) in (0..30).zip((100..).step_by(10)) {
        let denied = Call::Cas(101 + 10 * told, 1_000 + told);
        all.push(operation(1, (at, Some(at + 5)), denied, Answer::Held(false)));
        let denied = Call::Cas(1, 2_000 + told);
        all.push(operation(2, (at, Some(at + 5)), denied, Answer::Held(false)));
    }
    all.push(operation(
        3,
        (1_000, Some(1_005)),
        Call::Get,
        Answer::Value(Some(391)),
    ));
    assert_eq!(check(&History::new(all.clone())), Verdict::Linearizable);
    // It had gone for ever.
    all.push(operation(
        3,
        (1_010, Some(1_015)),
        Call::Get,
        Answer::Value(Some(1)),
    ));
    assert!(matches!(check(&History::new(all)), Verdict::Violated(_)));
}

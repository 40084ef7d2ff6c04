//! Values that cross groups: read without locks, and prepared under the condition that their versions stay.

use crate::explore::{holds, is_large, violates};
use crate::order::Disorder;
use crate::protocol::Wrong;
use crate::scenario::{Mutant, Scenario, Way, operation};

/// Each reads what the other writes.
fn skew() -> Scenario {
    let crossing = |from, to| operation(Way::Validated, &[to]).reading(&[from]);
    Scenario::new(&[0, 1], vec![crossing(0, 1), crossing(1, 0)])
}

/// Both move values between the same keys.
fn pair() -> Scenario {
    let moving = || operation(Way::Validated, &[0, 1]);
    Scenario::new(&[0, 1], vec![moving(), moving()])
}

#[test]
fn what_was_read_is_what_is_there_when_it_is_prepared() {
    holds(&skew());
    holds(&pair());
    holds(&Scenario {
        crashes: true,
        gives_up: true,
        ..skew()
    });
}

#[test]
fn who_is_refused_locks_first_and_gets_through() {
    let mut scenario = Scenario {
        attempts: 2,
        ..pair()
    };
    for operation in &mut scenario.operations {
        operation.ways[1] = Way::Locked;
    }
    holds(&scenario);
    holds(&Scenario {
        crashes: true,
        ..scenario.clone()
    });
    if is_large() {
        holds(&Scenario {
            crashes: true,
            loses: true,
            ..scenario
        });
    }
}

#[test]
fn plain_writes_between_reading_and_preparing_are_noticed() {
    let plain = operation(Way::Plain, &[0]);
    holds(&Scenario::new(
        &[0, 1],
        vec![plain, operation(Way::Validated, &[1]).reading(&[0])],
    ));
}

#[test]
fn what_is_only_read_is_validated_too() {
    let scenario = skew().with(Mutant::ValidatesOnlyWrites);
    violates(&scenario, Wrong::Order(Disorder::RealTime));
}

#[test]
fn versions_are_compared_under_the_locks() {
    let scenario = pair().with(Mutant::JudgesOnArrival);
    violates(&scenario, Wrong::Order(Disorder::NotSerializable));
}

#[test]
fn what_has_nothing_to_write_is_validated_too() {
    let only_reads = operation(Way::Validated, &[]).reading(&[0, 1]);
    let scenario = Scenario::new(&[0, 1], vec![operation(Way::OneShot, &[0, 1]), only_reads]);
    holds(&scenario);
    let scenario = scenario.with(Mutant::NothingToWriteAnswers);
    violates(&scenario, Wrong::Order(Disorder::RealTime));
}

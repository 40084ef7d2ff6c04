//! Votes, written once: who may decide what.

use crate::explore::{holds, is_large, is_stuck, violates};
use crate::order::Disorder;
use crate::protocol::Wrong;
use crate::scenario::{Mutant, Scenario, Way, operation};

/// Two transactions over the same two groups.
fn pair() -> Scenario {
    let transfer = || operation(Way::OneShot, &[0, 1]);
    Scenario::new(&[0, 1], vec![transfer(), transfer()])
}

/// And whoever reads one of the keys by a plain command.
fn pair_and_reader() -> Scenario {
    let mut scenario = pair();
    scenario.operations.push(operation(Way::Plain, &[]).reading(&[0]));
    scenario.operations[2].boot = 2;
    scenario
}

/// Coordinators die and everybody is impatient.
fn faulty(scenario: Scenario) -> Scenario {
    Scenario {
        crashes: true,
        gives_up: true,
        ..scenario
    }
}

#[test]
fn wounds_alone_bring_two_transactions_through() {
    holds(&pair());
}

#[test]
fn two_transactions_stand_crashes_and_impatience() {
    holds(&faulty(pair()));
}

#[test]
fn what_the_dead_had_under_way_may_be_lost() {
    holds(&Scenario {
        loses: true,
        crashes: true,
        ..pair()
    });
}

#[test]
fn without_wounds_two_transactions_wait_for_each_other() {
    is_stuck(&pair().with(Mutant::NoWound));
}

#[test]
fn a_wound_that_is_told_once_can_come_before_its_transaction() {
    is_stuck(&pair().with(Mutant::WoundToldOnce));
}

#[test]
fn a_refusal_that_is_not_written_is_no_refusal() {
    violates(&faulty(pair()).with(Mutant::VolatileNo), Wrong::Disagreement);
}

#[test]
fn what_waits_is_taken_out_of_the_queue_when_it_is_refused() {
    violates(
        &faulty(pair()).with(Mutant::QueryTxnLeavesWaiting),
        Wrong::Disagreement,
    );
}

#[test]
fn what_is_prepared_is_not_taken_back_by_a_wound() {
    violates(&faulty(pair()).with(Mutant::Revoke), Wrong::LostAnswered);
}

#[test]
fn a_prepare_that_comes_twice_gets_the_vote_that_was_given() {
    violates(&faulty(pair()).with(Mutant::TwiceIsRefused), Wrong::Disagreement);
}

#[test]
fn silence_is_not_an_abort() {
    violates(&faulty(pair()).with(Mutant::TimeoutAborts), Wrong::FalseRefusal);
}

#[test]
fn a_leader_that_forgets_locks_loses_an_update() {
    let scenario = pair().with(Mutant::LeaderForgetsLocks);
    violates(&scenario, Wrong::Order(Disorder::NotSerializable));
}

#[test]
fn a_plain_read_waits_for_what_is_prepared() {
    holds(&pair_and_reader());
    let scenario = pair_and_reader().with(Mutant::ReadThrough);
    violates(&scenario, Wrong::Order(Disorder::RealTime));
}

#[test]
fn faults_and_a_reader_break_nothing() {
    holds(&faulty(pair_and_reader()));
}

#[test]
fn a_chain_over_three_groups_breaks_nothing() {
    let transfer = |keys| operation(Way::OneShot, keys);
    holds(&faulty(Scenario::new(
        &[0, 1, 2],
        vec![transfer(&[0, 1]), transfer(&[1, 2])],
    )));
    let ring = vec![transfer(&[0, 1]), transfer(&[1, 2]), transfer(&[2, 0])];
    holds(&Scenario::new(&[0, 1, 2], ring));
}

#[test]
fn three_transactions_and_three_groups_break_nothing() {
    let transfer = |keys| operation(Way::OneShot, keys);
    let three = vec![transfer(&[0, 1]), transfer(&[0, 1]), transfer(&[0, 1])];
    let three = Scenario::new(&[0, 1], three);
    holds(&three);
    let wide = Scenario::new(&[0, 1, 2], vec![transfer(&[0, 1, 2]), transfer(&[0, 1, 2])]);
    holds(&faulty(wide.clone()));
    if is_large() {
        holds(&Scenario {
            loses: true,
            ..faulty(wide)
        });
        holds(&Scenario {
            crashes: true,
            ..three
        });
    }
}

#[test]
fn transactions_that_share_keys_break_nothing() {
    let crossing = |from, to| operation(Way::OneShot, &[to]).reading(&[from]);
    let reads = || operation(Way::OneShot, &[]).reading(&[0, 1]);
    holds(&faulty(Scenario::new(
        &[0, 1],
        vec![crossing(0, 1), crossing(1, 0)],
    )));
    holds(&Scenario::new(
        &[0, 1],
        vec![reads(), operation(Way::OneShot, &[0, 1]), reads()],
    ));
}

//! `Lock`: values under locks that no vote stands behind, and that an older one takes away.

use crate::explore::{holds, is_large, is_stuck, violates};
use crate::order::Disorder;
use crate::protocol::Wrong;
use crate::scenario::{Mutant, Scenario, Way, operation};

/// The younger one locks first; the older one does not.
fn pair() -> Scenario {
    let operations = vec![operation(Way::OneShot, &[0, 1]), operation(Way::Locked, &[0, 1])];
    Scenario::new(&[0, 1], operations)
}

/// Both lock first.
fn both() -> Scenario {
    let operations = vec![operation(Way::Locked, &[0, 1]), operation(Way::Locked, &[0, 1])];
    Scenario::new(&[0, 1], operations)
}

#[test]
fn locks_that_are_taken_away_break_nothing() {
    holds(&pair());
    holds(&both());
    holds(&Scenario {
        attempts: 2,
        ..both()
    });
    let sharing = |shared, own| operation(Way::Locked, &[own]).reading(&[shared]);
    holds(&Scenario::new(&[0, 1], vec![sharing(0, 1), sharing(1, 0)]));
}

#[test]
fn locks_of_the_dead_are_taken_back() {
    holds(&Scenario {
        crashes: true,
        gives_up: true,
        ..pair()
    });
    holds(&Scenario {
        crashes: true,
        loses: true,
        ..both()
    });
    if is_large() {
        holds(&Scenario {
            crashes: true,
            gives_up: true,
            loses: true,
            ..both()
        });
    }
}

#[test]
fn who_holds_no_lock_any_more_does_not_prepare() {
    let scenario = pair().with(Mutant::PrepareWithoutLock);
    violates(&scenario, Wrong::Order(Disorder::NotSerializable));
}

/// Here the protocol stands on messages that come once and in order.
#[test]
fn a_lock_that_arrives_twice_holds_what_has_changed() {
    let scenario = pair().with(Mutant::LockTwice);
    violates(&scenario, Wrong::Order(Disorder::NotSerializable));
}

#[test]
fn locks_of_the_dead_that_nobody_asks_after_stay() {
    let scenario = Scenario {
        crashes: true,
        ..both()
    };
    is_stuck(&scenario.with(Mutant::LocksOfDeadStay));
}

#[test]
fn groups_that_were_only_read_vote_too() {
    let reads_and_writes = operation(Way::Locked, &[1]).reading(&[0]);
    let scenario = Scenario::new(&[0, 1], vec![operation(Way::OneShot, &[0, 1]), reads_and_writes]);
    holds(&scenario);
    let scenario = scenario.with(Mutant::OnlyWritersVote);
    violates(&scenario, Wrong::Order(Disorder::NotSerializable));
}

#[test]
fn an_older_one_that_locks_gets_past_younger_ones_that_do_not() {
    let operations = vec![operation(Way::Locked, &[0, 1]), operation(Way::OneShot, &[0, 1])];
    holds(&Scenario::new(&[0, 1], operations));
}

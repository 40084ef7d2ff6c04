//! Vote records that are not needed any more, and the mark below which everything is over.

use crate::explore::{holds, is_large, is_stuck, violates};
use crate::protocol::Wrong;
use crate::scenario::{Mutant, Scenario, Way, operation};

fn alone() -> Scenario {
    let scenario = Scenario::new(&[0, 1], vec![operation(Way::OneShot, &[0, 1])]);
    Scenario {
        forgets: true,
        crashes: true,
        gives_up: true,
        ..scenario
    }
}

/// Two transactions of one gateway.
fn pair() -> Scenario {
    let transfer = || operation(Way::OneShot, &[0, 1]);
    let scenario = Scenario::new(&[0, 1], vec![transfer(), transfer()]);
    Scenario {
        forgets: true,
        gives_up: true,
        ..scenario.one_gateway()
    }
}

#[test]
fn what_is_over_everywhere_is_forgotten() {
    holds(&alone());
    holds(&Scenario {
        loses: true,
        ..alone()
    });
    holds(&pair());
    let wide = Scenario::new(&[0, 1, 2], vec![operation(Way::OneShot, &[0, 1, 2])]);
    holds(&Scenario {
        forgets: true,
        crashes: true,
        loses: true,
        gives_up: true,
        ..wide
    });
    if is_large() {
        holds(&Scenario {
            crashes: true,
            loses: true,
            ..pair()
        });
        holds(&Scenario {
            attempts: 2,
            ..pair()
        });
    }
}

#[test]
fn a_query_below_the_mark_writes_nothing() {
    violates(&alone().with(Mutant::MarkIgnored), Wrong::LostAnswered);
}

#[test]
fn a_vote_record_above_the_mark_is_not_forgotten() {
    violates(&pair().with(Mutant::ForgetsAboveMark), Wrong::LostAnswered);
}

#[test]
fn what_one_has_forgotten_another_cannot_ask_for() {
    let scenario = Scenario {
        loses: true,
        gives_up: false,
        ..alone()
    };
    is_stuck(&scenario.with(Mutant::ForgetsEarly));
}

#[test]
fn what_was_acknowledged_is_not_forgotten_by_a_new_leader() {
    let scenario = Scenario {
        loses: true,
        gives_up: false,
        ..alone()
    };
    is_stuck(&scenario.with(Mutant::ResolveForgotten));
}

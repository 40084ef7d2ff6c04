//! Who was wounded tries again under the same age and another name.

use crate::explore::{holds, is_large, violates};
use crate::protocol::Wrong;
use crate::scenario::{Mutant, Scenario, Way, operation};

/// Two transactions over the same two groups, which may both try twice.
fn pair() -> Scenario {
    let transfer = || operation(Way::OneShot, &[0, 1]);
    let scenario = Scenario::new(&[0, 1], vec![transfer(), transfer()]);
    Scenario {
        attempts: 2,
        ..scenario
    }
}

#[test]
fn a_wounded_transaction_gets_through_at_its_second_attempt() {
    holds(&pair());
}

#[test]
fn late_messages_of_the_first_attempt_do_not_touch_the_second() {
    let transfer = operation(Way::OneShot, &[0, 1]);
    let alone = Scenario {
        attempts: 2,
        ..Scenario::new(&[0, 1], vec![transfer])
    };
    holds(&Scenario {
        crashes: true,
        gives_up: true,
        ..alone
    });
    holds(&Scenario {
        crashes: true,
        loses: true,
        ..pair()
    });
    if is_large() {
        holds(&Scenario {
            crashes: true,
            gives_up: true,
            ..pair()
        });
    }
}

#[test]
fn attempts_of_one_name_undo_each_other() {
    violates(&pair().with(Mutant::AttemptNotNamed), Wrong::LostAnswered);
}

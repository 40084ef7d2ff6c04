//! Boots that are gone: they are fenced, then recovered, then forgotten.

use crate::explore::{holds, is_large, violates};
use crate::protocol::Wrong;
use crate::scenario::{Mutant, Scenario, Way, operation};

fn alone(way: Way) -> Scenario {
    let scenario = Scenario::new(&[0, 1], vec![operation(way, &[0, 1])]);
    Scenario {
        crashes: true,
        fences: true,
        ..scenario
    }
}

#[test]
fn what_the_dead_sent_late_locks_nothing() {
    holds(&alone(Way::OneShot));
    holds(&alone(Way::Locked));
    holds(&Scenario {
        loses: true,
        gives_up: true,
        ..alone(Way::OneShot)
    });
    let transfer = || operation(Way::OneShot, &[0, 1]);
    let pair = Scenario::new(&[0, 1], vec![transfer(), transfer()]);
    let pair = Scenario {
        crashes: true,
        fences: true,
        ..pair
    };
    holds(&pair);
    if is_large() {
        let wide = Scenario::new(&[0, 1, 2], vec![operation(Way::OneShot, &[0, 1, 2])]);
        let wide = Scenario {
            crashes: true,
            fences: true,
            ..wide
        };
        holds(&Scenario {
            loses: true,
            gives_up: true,
            ..wide
        });
        holds(&Scenario {
            loses: true,
            gives_up: true,
            ..alone(Way::Locked)
        });
    }
}

/// Its group has forgotten what became of it, and so the same attempt is decided a second time.
#[test]
fn what_prepares_behind_the_fence_is_committed_after_it_was_aborted() {
    violates(
        &alone(Way::OneShot).with(Mutant::FenceIgnored),
        Wrong::Disagreement,
    );
}

/// A node that was only out of reach: what it had prepared is decided without it, and it hears refusals.
#[test]
fn a_boot_that_is_fenced_while_it_lives_learns_what_became_of_its_transactions() {
    holds(&Scenario {
        fences_living: true,
        ..alone(Way::OneShot)
    });
    holds(&Scenario {
        fences_living: true,
        gives_up: true,
        ..alone(Way::OneShot)
    });
    holds(&Scenario {
        fences_living: true,
        gives_up: true,
        ..alone(Way::Locked)
    });
}

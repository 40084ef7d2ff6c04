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
        holds(&Scenario {
            loses: true,
            gives_up: true,
            ..pair
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

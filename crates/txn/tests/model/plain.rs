//! Commands of one group, which queue with the transactions they meet.

use crate::explore::{holds, is_large, is_stuck, violates};
use crate::order::Disorder;
use crate::protocol::Wrong;
use crate::scenario::{Mutant, Scenario, Way, operation};

/// A plain command on two keys of group 0, and two transactions that do not meet there but behind it.
fn behind() -> Scenario {
    let plain = operation(Way::Plain, &[0, 1]);
    let older = operation(Way::OneShot, &[1, 2]);
    let younger = operation(Way::OneShot, &[0, 2]);
    Scenario::new(&[0, 0, 1], vec![plain, older, younger])
}

/// Writes before and after a transfer, of any clients.
fn among() -> Scenario {
    let transfer = operation(Way::OneShot, &[0, 1]);
    let operations = vec![operation(Way::Plain, &[0]), transfer, operation(Way::Plain, &[1])];
    Scenario::new(&[0, 1], operations)
}

#[test]
fn plain_commands_are_carried_out_once_and_in_the_order_of_their_clients() {
    holds(&among());
    holds(&Scenario {
        crashes: true,
        gives_up: true,
        ..among()
    });
    holds(&behind());
    let mut readers = among();
    readers.operations.push(operation(Way::Plain, &[]).reading(&[0]));
    readers.operations[3].boot = 3;
    holds(&readers);
    if is_large() {
        holds(&Scenario {
            crashes: true,
            gives_up: true,
            loses: true,
            ..readers
        });
        holds(&Scenario {
            crashes: true,
            gives_up: true,
            ..behind()
        });
    }
}

#[test]
fn a_plain_command_that_waits_wounds_like_a_transaction() {
    is_stuck(&behind().with(Mutant::PlainDoesNotWound));
}

#[test]
fn a_plain_command_that_arrives_twice_is_carried_out_once() {
    violates(&among().with(Mutant::PlainTwice), Wrong::DoneTwice);
}

/// Two writes of one client to one key, beside a transaction over it.
fn pipelined(pipeline: (usize, usize)) -> Scenario {
    let plain = || operation(Way::Plain, &[0]);
    let operations = vec![plain(), plain(), operation(Way::OneShot, &[0, 1])];
    Scenario {
        pipeline: Some(pipeline),
        ..Scenario::new(&[0, 1], operations)
    }
}

/// Ages of one gateway never go back: who is sent later is younger.
#[test]
fn what_a_client_sends_later_does_not_pass_what_it_sent_before() {
    holds(&pipelined((0, 1)));
    violates(&pipelined((1, 0)), Wrong::Order(Disorder::RealTime));
}

//! Reads by age: what is torn, stale or seen in two orders.

use crate::explore::{holds, is_large, violates};
use crate::order::Disorder::{NotSerializable, RealTime};
use crate::snapshot::{Clock, Mistake, Reading, Snapshot};

const BOTH: u8 = 0b11;
const FIRST: u8 = 0b01;
const SECOND: u8 = 0b10;

const ONCE: Reading = Reading {
    tries: 1,
    locks: false,
};
const TWICE: Reading = Reading {
    tries: 2,
    locks: false,
};
const LOCKS: Reading = Reading {
    tries: 0,
    locks: true,
};

/// Two transactions over both groups, and a reader.
fn transactions() -> Snapshot {
    Snapshot::new(&[BOTH, BOTH], &[ONCE])
}

/// Two plain writes, and two readers who must agree on which came first.
fn prefixes() -> Snapshot {
    Snapshot::new(&[FIRST, SECOND], &[ONCE, ONCE])
}

/// Clocks that show every second moment, each leader's another one than the reader's.
fn coarse() -> Snapshot {
    let coarse = |phase| Clock {
        phase,
        resolution: 2,
        ..Clock::EXACT
    };
    Snapshot {
        reader_clock: coarse(0),
        leader_clocks: [coarse(1), coarse(1)],
        slack: 2,
        patience: 3,
        ..prefixes()
    }
}

/// Leaders whose clocks go twice as fast as the reader's.
fn fast() -> Snapshot {
    let fast = Clock {
        rate: 2,
        ..Clock::EXACT
    };
    Snapshot {
        leader_clocks: [fast, fast],
        margin: 2,
        ..prefixes()
    }
}

#[test]
fn values_that_were_old_enough_were_there_together() {
    holds(&transactions());
    holds(&prefixes());
    holds(&Snapshot::new(&[BOTH, FIRST], &[ONCE]));
    holds(&Snapshot::new(&[BOTH], &[ONCE, ONCE]));
    if is_large() {
        holds(&Snapshot {
            patience: 3,
            ..prefixes()
        });
        holds(&Snapshot::new(&[BOTH, SECOND], &[ONCE, ONCE]));
    }
}

#[test]
fn who_reads_again_or_locks_in_the_end_sees_one_moment() {
    holds(&Snapshot::new(&[BOTH, BOTH], &[TWICE]));
    holds(&Snapshot::new(&[BOTH], &[LOCKS, ONCE]));
    holds(&Snapshot::new(&[FIRST, SECOND], &[LOCKS]));
    if is_large() {
        let all = Reading {
            tries: 2,
            locks: true,
        };
        holds(&Snapshot::new(&[BOTH, BOTH], &[all]));
        holds(&Snapshot::new(&[FIRST, SECOND], &[LOCKS, ONCE]));
    }
}

#[test]
fn a_new_leader_begins_its_ages_anew() {
    holds(&Snapshot {
        fails_over: true,
        ..prefixes()
    });
    let scenario = Snapshot {
        fails_over: true,
        ..prefixes().with(Mistake::AgeFromFollower)
    };
    violates(&scenario, NotSerializable);
}

#[test]
fn without_ages_a_read_is_torn() {
    violates(&transactions().with(Mistake::AgeUnchecked), NotSerializable);
}

#[test]
fn a_read_under_the_lock_of_what_was_answered_is_stale() {
    violates(&transactions().with(Mistake::LocksUnseen), RealTime);
}

#[test]
fn ages_begin_when_the_change_is_applied() {
    violates(&prefixes().with(Mistake::AgeFromCommit), NotSerializable);
}

#[test]
fn an_answer_is_not_received_before_it_is_given() {
    violates(&prefixes().with(Mistake::ReceivedAtTurnStart), RealTime);
}

#[test]
fn what_is_read_again_is_all_read_again() {
    let twice = Snapshot::new(&[BOTH, BOTH], &[TWICE]);
    violates(&twice.with(Mistake::RereadsOne), NotSerializable);
}

#[test]
fn all_groups_are_asked_at_one_moment() {
    violates(&transactions().with(Mistake::OwnSendTimes), NotSerializable);
}

/// Two readings of one clock that are equal do not tell which came first.
#[test]
fn an_age_is_longer_than_the_wait_not_equal() {
    violates(
        &Snapshot {
            slack: 0,
            ..prefixes()
        },
        RealTime,
    );
}

#[test]
fn the_slack_covers_what_two_clocks_do_not_show() {
    holds(&coarse());
    violates(&Snapshot { slack: 1, ..coarse() }, RealTime);
}

#[test]
fn the_margin_covers_clocks_of_different_rates() {
    holds(&fast());
    violates(&Snapshot { margin: 1, ..fast() }, RealTime);
}

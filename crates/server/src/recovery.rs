//! Seeing to it that transactions end, whoever began them.
//!
//! ```text
//!   a group led here holds Prepared --> the coordinator's link is down, its boot is dead, or it is quiet for long
//!        --> Inquire to all participants --> the registers decide --> Resolve to all
//!   an older transaction waits here for a younger one --> Wound to the younger one's other participants
//! ```
//!
//! Anybody may do it, any number of times: whoever is asked refuses if he has not voted, and what was written once does
//! not change. What is decided for a coordinator that is dead is also forgotten in the end, once all have recorded it.

use crate::gateway::Gateway;
use ids::{Boot, GroupId, Monotonic};
use planted::Bug;
use replica::Request;
use std::collections::BTreeMap;
use std::time::Duration;
use txn::{Decision, Recovery, Register, TxnId};

/// How long a coordinator that can be reached is left to end its transaction.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the answers to an inquiry are waited for before everybody is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// After how long an inquiry that nobody has repeated is dropped: answers got lost, and it is wanted no more. Longer than
/// a group is waited for.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// Inquiries of one worker at a time; others wait for these to end.
const RECOVERIES_MAX: usize = 1_024;

/// The transactions that one worker inquires after.
#[derive(Default)]
pub(crate) struct Recoveries {
    open: BTreeMap<TxnId, Inquiry>,
    /// Since when a transaction holds locks in a group led here.
    since: BTreeMap<(GroupId, TxnId), Monotonic>,
    /// How many were decided here.
    pub(crate) decided: u64,
}

struct Inquiry {
    recovery: Recovery,
    participants: Vec<GroupId>,
    asked_at: Monotonic,
}

impl Recoveries {
    /// How many are under way.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// What is under way, for traces.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let open = self.open.iter();
        open.map(|(txn, inquiry)| format!("inquires after {txn:?} of {:?}", inquiry.participants))
            .collect()
    }
}

impl Gateway {
    /// Asks all participants what has become of a transaction.
    pub(crate) fn recover(&mut self, txn: TxnId, participants: Vec<GroupId>) {
        let now = self.cluster_now();
        if self.is_any_cut_off(&participants) {
            // It cannot be found out before that group is back, and must not take the place of what can.
            return;
        }
        if let Some(inquiry) = self.recoveries.open.get_mut(&txn) {
            if now.since(inquiry.asked_at) < AGAIN {
                return;
            }
            inquiry.asked_at = now;
            if planted::is(Bug::AbortOnTimeout) {
                self.recoveries.open.remove(&txn);
                self.settle(txn, participants, false, false);
                return;
            }
        } else if self.recoveries.open.len() >= RECOVERIES_MAX {
            return;
        } else {
            let inquiry = Inquiry {
                recovery: Recovery::new(participants.iter().copied()),
                participants: participants.clone(),
                asked_at: now,
            };
            self.recoveries.open.insert(txn, inquiry);
        }
        let worker = self.worker;
        for &group in &participants {
            let participants = participants.clone();
            self.request(
                group,
                Request::Inquire {
                    txn,
                    participants,
                    worker,
                },
            );
        }
    }

    /// Drops inquiries whose answers were lost, or cannot come. Whoever still wants to know asks again.
    pub(crate) fn drop_lost_inquiries(&mut self) {
        let now = self.cluster_now();
        let shared = &self.shared;
        self.recoveries.open.retain(|_, inquiry| {
            let mut groups = inquiry.participants.iter();
            now.since(inquiry.asked_at) < LOST_AFTER && !groups.any(|group| shared.is_cut_off(*group))
        });
    }

    /// A participant has answered.
    pub(crate) fn on_inquired(&mut self, txn: TxnId, group: GroupId, register: Register) {
        let Some(inquiry) = self.recoveries.open.get_mut(&txn) else {
            return;
        };
        let Some(decision) = inquiry.recovery.on_register(group, register) else {
            return;
        };
        let inquiry = self.recoveries.open.remove(&txn).expect("looked at a moment ago");
        self.recoveries.decided += 1;
        if self.on_recovered(txn, decision) {
            return;
        }
        if let Some(decision) = decision {
            let is_committed = decision == Decision::Commit;
            let forgets = self.is_dead(txn.boot);
            self.settle(txn, inquiry.participants, is_committed, forgets);
        }
    }

    /// Whether the leader of one of these groups is out of reach.
    pub(crate) fn is_any_cut_off(&self, groups: &[GroupId]) -> bool {
        groups.iter().any(|group| self.shared.is_cut_off(*group))
    }

    /// Whether a boot is over, as the cluster knows.
    fn is_dead(&self, boot: Boot) -> bool {
        let layout = self.cluster.layout();
        layout.is_some_and(|layout| boot <= layout.boots.0 && !layout.boots.1.contains(&boot))
    }

    /// Whether whoever coordinates a transaction cannot be reached from here.
    pub(crate) fn is_lost(&self, boot: Boot) -> bool {
        boot != self.boot() && (self.is_dead(boot) || self.cluster.is_boot_down(boot))
    }

    /// Looks after the transactions that hold locks in a group led here.
    pub(crate) fn look_after(&mut self, index: usize) {
        let now = self.cluster_now();
        let group = self.replicas[index].group();
        let keyspace = self.replicas[index].keyspace();
        let open: Vec<(TxnId, Vec<GroupId>)> = keyspace
            .open_transactions()
            .map(|(txn, participants)| (txn, participants.to_vec()))
            .collect();
        let range = (group, LOWEST)..;
        let known: Vec<TxnId> = self
            .recoveries
            .since
            .range(range)
            .take_while(|((of, _), _)| *of == group)
            .map(|((_, txn), _)| *txn)
            .collect();
        for txn in known {
            if !open.iter().any(|(other, _)| *other == txn) {
                self.recoveries.since.remove(&(group, txn));
            }
        }
        for (txn, participants) in open {
            let since = *self.recoveries.since.entry((group, txn)).or_insert(now);
            let is_seen_to =
                txn.boot == self.boot() && txn.worker == self.worker && self.distributed.has(txn);
            if !is_seen_to && (self.is_lost(txn.boot) || now.since(since) >= PATIENCE) {
                self.recover(txn, participants);
            }
        }
        let dead: Vec<(TxnId, Vec<GroupId>)> = self.replicas[index]
            .keyspace()
            .ended_of_dead()
            .map(|(txn, participants)| (txn, participants.to_vec()))
            .collect();
        for (txn, participants) in dead {
            if !self.distributed.has(txn) {
                self.recover(txn, participants);
            }
        }
        for (txn, participants) in self.replicas[index].keyspace().to_be_wounded() {
            self.wound(group, txn, participants);
        }
    }

    /// Tells the other participants of a younger transaction that an older one waits for it here.
    pub(crate) fn wound(&mut self, here: GroupId, txn: TxnId, participants: Vec<GroupId>) {
        for group in participants.into_iter().filter(|group| *group != here) {
            self.request(group, Request::Wound { txn });
        }
    }
}

/// Before all others.
const LOWEST: TxnId = TxnId {
    boot: Boot(0),
    worker: 0,
    seq: 0,
    attempt: 0,
};

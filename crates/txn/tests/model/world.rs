//! The world of the protocol: what clients, gateways and groups know, and what is under way.
//!
//! Messages are facts. What was once said may arrive at any later time, any number of times, in any order, or never:
//! so a message is a bit that says that it was sent, and every step that its arrival allows stays possible. Where the
//! protocol stands on messages that arrive once and in order, a second bit says that it came: `Lock` (`locked`), plain
//! commands, and with [`Scenario::fences`] `Prepare` (`arrived`).

use crate::order::Writers;
use crate::scenario::{ATTEMPTS, GROUPS, KEYS, OPERATIONS, Scenario};

/// A participant's write-once vote record, and whether the transaction waits or holds locks without a vote.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum VoteRecord {
    #[default]
    Empty,
    /// A `Lock` in the queue.
    QueuedLock,
    /// A `Prepare` or a plain command in the queue.
    Queued,
    /// Holds locks, no vote.
    Locked,
    Prepared,
    /// Prepared, and its locks are lost: by mistake only.
    Unguarded,
    Refused,
    Committed,
    Aborted,
    /// A plain command that was carried out.
    Done,
}

impl VoteRecord {
    pub(crate) fn is_final(self) -> bool {
        matches!(
            self,
            VoteRecord::Refused | VoteRecord::Committed | VoteRecord::Aborted
        )
    }

    pub(crate) fn is_queued(self) -> bool {
        matches!(self, VoteRecord::Queued | VoteRecord::QueuedLock)
    }

    pub(crate) fn is_holder(self) -> bool {
        matches!(self, VoteRecord::Locked | VoteRecord::Prepared)
    }

    pub(crate) fn is_prepared(self) -> bool {
        matches!(self, VoteRecord::Prepared | VoteRecord::Unguarded)
    }
}

/// What a client knows of its operation, and the gateway with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Phase {
    #[default]
    New,
    Running,
    Committed,
    Refused,
    /// The gateway died: the client knows nothing.
    Crashed,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    pub(crate) attempt: u8,
    /// The operations that were answered before this one began.
    pub(crate) after: u8,
}

/// What was said about an attempt, one bit for each group where groups say it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Attempt {
    /// `Lock` was sent, or the plain command.
    pub(crate) begun: bool,
    /// `Prepare` was sent.
    pub(crate) asked: bool,
    /// Where `Lock`, or a plain command, has arrived.
    pub(crate) locked: u8,
    /// Where `Prepare` has arrived, if it does so only once.
    pub(crate) arrived: u8,
    /// Who has answered with values.
    pub(crate) values: u8,
    pub(crate) yes: u8,
    pub(crate) no: u8,
    /// `QueryTxn` was sent to all.
    pub(crate) queried_txn: bool,
    /// An older one waits for it.
    pub(crate) wounded: bool,
    /// Where a wound that is told once is still to arrive.
    pub(crate) wound_at: u8,
    /// `Resolve` is under way.
    pub(crate) commits: bool,
    pub(crate) aborts: bool,
    /// Somebody has decided so. Nobody in the model knows this, only its judge.
    pub(crate) has_committed: bool,
    pub(crate) has_aborted: bool,
    /// Where `Resolve` was acknowledged and then forgotten, by mistake only.
    pub(crate) pretended: u8,
    /// Where effects were installed. For the judge too.
    pub(crate) installed: u8,
    /// The versions of its keys as it saw them.
    pub(crate) saw: [u8; KEYS],
}

/// One group's replicated state; the data are in [`World::keys`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Group {
    pub(crate) vote_records: [[VoteRecord; ATTEMPTS]; OPERATIONS],
    /// By boot: numbers below are over.
    pub(crate) mark: [u8; OPERATIONS],
    /// Boots that prepare nothing any more, as bits.
    pub(crate) fenced: u8,
    /// Of those, the ones whose vote records are gone.
    pub(crate) buried: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct World {
    pub(crate) clients: [Client; OPERATIONS],
    pub(crate) attempts: [[Attempt; ATTEMPTS]; OPERATIONS],
    pub(crate) groups: [Group; GROUPS],
    pub(crate) keys: [Writers; KEYS],
    /// Gateways' boots that have died, as bits.
    pub(crate) dead: u8,
}

impl World {
    pub(crate) fn vote_record(&self, group: usize, op: usize, attempt: usize) -> VoteRecord {
        self.groups[group].vote_records[op][attempt]
    }

    /// Whether any vote record of a boot is in use in a group.
    pub(crate) fn is_open(&self, scenario: &Scenario, boot: usize, group: usize) -> bool {
        let of_boot = (0..scenario.operations.len()).filter(|&op| scenario.operations[op].boot == boot);
        of_boot
            .flat_map(|op| self.groups[group].vote_records[op])
            .any(|vote_record| {
                vote_record.is_prepared() || vote_record.is_holder() || vote_record.is_queued()
            })
    }

    /// Whether nothing of an operation can come any more: it was answered, and each participant has a final vote record
    /// of each of its attempts, or had one.
    pub(crate) fn is_settled(
        &self,
        scenario: &Scenario,
        op: usize,
        is_enough: impl Fn(u8, u8) -> bool,
    ) -> bool {
        let client = self.clients[op];
        let operation = &scenario.operations[op];
        let participants = scenario.participants(op);
        matches!(client.phase, Phase::Committed | Phase::Refused)
            && (0..=usize::from(client.attempt)).all(|attempt| {
                let is_final = |group: &usize| {
                    self.vote_record(*group, op, attempt).is_final()
                        || operation.seq < self.groups[*group].mark[operation.boot]
                        || self.attempts[op][attempt].pretended & 1 << group != 0
                };
                let settled = (0..GROUPS)
                    .filter(is_final)
                    .fold(0, |groups, group| groups | 1 << group);
                is_enough(settled & participants, participants)
            })
    }
}

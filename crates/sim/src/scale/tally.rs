//! What a step cost: messages and bytes by what they are for, and what the leader of the meta group did.

use control::MetaMessage;
use std::time::Duration;

/// What messages are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// Maps, and what changed in them.
    Maps,
    /// Nodes say that they live and what their groups are like, and are answered.
    Heartbeats,
    /// The meta group's log, among its members.
    Log,
    /// Requests, answers, settings, orders.
    Requests,
}

impl Purpose {
    pub(super) const ALL: [Purpose; 4] = [
        Purpose::Maps,
        Purpose::Heartbeats,
        Purpose::Log,
        Purpose::Requests,
    ];

    pub(super) fn of(message: &MetaMessage) -> Purpose {
        match message {
            MetaMessage::Map(_) | MetaMessage::Difference(_) => Purpose::Maps,
            MetaMessage::NodeHeartbeat(_)
            | MetaMessage::NodeHeartbeatReply { .. }
            | MetaMessage::Outage(_)
            | MetaMessage::Lack(_) => Purpose::Heartbeats,
            MetaMessage::Raft(_)
            | MetaMessage::Beat(_)
            | MetaMessage::BeatAnswer(_)
            | MetaMessage::State { .. }
            | MetaMessage::StateHeld { .. } => Purpose::Log,
            MetaMessage::Request { .. }
            | MetaMessage::Answer { .. }
            | MetaMessage::Settings { .. }
            | MetaMessage::Order(_) => Purpose::Requests,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Purpose::Maps => "maps",
            Purpose::Heartbeats => "heartbeats",
            Purpose::Log => "log",
            Purpose::Requests => "requests",
        }
    }
}

/// Messages, and their bytes with the heads of their frames; or entries of logs, and theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// How many.
    pub messages: u64,
    /// How long they are together.
    pub bytes: u64,
}

/// What whoever led the meta group did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Led {
    /// Messages that came to it, and that it sent.
    pub(super) messages: u64,
    /// Entries that it put into its log.
    pub(super) entries: u64,
    /// Looks of its reconciler.
    pub(super) looks: u64,
    /// Time of the CPU, as it was here.
    pub(super) cpu: Duration,
    /// The longest turn with a look in it, with all that came of it.
    pub(super) longest_look: Duration,
}

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    sent: [Sent; Purpose::ALL.len()],
    pub(super) led: Led,
    /// Versions of the map.
    pub(super) epochs: u64,
    /// How long it took until all that ran knew a version, at most.
    pub(super) known_after: Duration,
    /// Replicas that were filled.
    pub(super) filled: u64,
    /// Groups that were added.
    pub(super) added: u64,
    /// Partitions that went to another group.
    pub(super) partitions: u64,
    /// Entries in logs of groups that say who lives, on all their replicas.
    pub(super) fences: Sent,
    /// Layouts that one node has made.
    pub(super) layouts: u64,
    /// How long that took it.
    pub(super) layouts_cpu: Duration,
}

impl Tally {
    pub(super) fn count(&mut self, purpose: Purpose, bytes: usize) {
        let sent = &mut self.sent[purpose as usize];
        sent.messages += 1;
        sent.bytes += bytes as u64;
    }

    pub(super) fn of(&self, purpose: Purpose) -> Sent {
        self.sent[purpose as usize]
    }

    pub(super) fn all(&self) -> Sent {
        Sent {
            messages: self.sent.iter().map(|sent| sent.messages).sum(),
            bytes: self.sent.iter().map(|sent| sent.bytes).sum(),
        }
    }
}

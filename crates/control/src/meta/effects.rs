//! What a node's part in the meta group wants done.

use super::contact::Contact;
use super::message::{Instruction, MetaMessage};
use crate::command::{AssignedReplica, MetaOutcome, MetaRefusal};
use crate::map::RoutingMap;
use crate::mending::Mend;
use crate::settings::Setting;
use consensus::{HardState, LogEntry, SnapshotPoint};
use ids::{Boot, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything since the last time. What is written, is written in this order, and before anything is said to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MetaEffects {
    /// To be sent; may be lost.
    pub messages: Vec<(Contact, MetaMessage)>,
    /// To be written and synced, in order.
    pub persist: Vec<MetaWrite>,
    /// A newer table.
    pub map: Option<Arc<RoutingMap>>,
    /// What is set for the whole cluster, all of it, if that has changed.
    pub settings: Option<Arc<BTreeMap<String, Setting>>>,
    /// Once: this start has its number.
    pub started: Option<Started>,
    /// For groups that are led on this node.
    pub orders: Vec<Instruction>,
    /// Likewise: what they are to know of partitions.
    pub mends: Vec<Mend>,
    /// What became of what was proposed here, by the number that `propose` answered.
    pub outcomes: Vec<(u64, Result<MetaOutcome, Failure>)>,
    /// What the operator is to read.
    pub notices: Vec<Notice>,
}

impl MetaEffects {
    pub(crate) fn send(&mut self, to: Contact, message: MetaMessage) {
        self.messages.push((to, message));
    }
}

/// The node may begin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Started {
    /// Its id.
    pub node: NodeId,
    /// The number of this start.
    pub boot: Boot,
    /// Its replicas. That of the meta group is not the owner's business.
    pub replicas: Vec<AssignedReplica>,
}

/// One write to the log of the meta group. All of it is on disk before `on_persisted` is told its number, or a later one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetaWrite {
    /// Counts up.
    pub number: u64,
    /// What is to be written.
    pub record: Record,
}

/// What is to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// A log with nothing but this, in place of the one that may be there: it belongs to another identity.
    Begin {
        /// The place.
        point: SnapshotPoint,
        /// The state there.
        state: Vec<u8>,
    },
    /// Entries, in place of those with the same or later places, and the hard state.
    Append {
        /// In order; may be none.
        entries: Vec<LogEntry>,
        /// The whole of it.
        hard_state: HardState,
    },
    /// The state at a place: entries up to it are needless. If the log is another there, all are.
    Snapshot {
        /// The place.
        point: SnapshotPoint,
        /// The state there.
        state: Vec<u8>,
    },
    /// The log is to be removed: this node has no part in the group any more.
    End,
}

/// Why nothing is known to have come of a proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It was refused, and changed nothing.
    Refused(MetaRefusal),
    /// It certainly was not carried out: too much is waiting already, or there was nobody to ask.
    NotDone,
    /// Nobody answered in time. It may have been carried out, or may be yet.
    Unknown,
}

/// What the operator is to read. Each is said when it begins to be true.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// This node leads the meta group, in this term.
    Leads {
        /// The term.
        term: u64,
    },
    /// Another one does.
    Follows {
        /// Which.
        leader: NodeId,
    },
    /// Nobody is known to lead the meta group, for some seconds now: its majority is gone, or out of reach. Members,
    /// placement and settings stay as they are until it is back; clients are served all the same.
    Leaderless,
    /// The log of the meta group that was on this node's disk is none that this build can go on from: the node is a new
    /// member of the group, if it is to be one. If it was the only one, the cluster's state is in that log and nowhere else.
    LogRefused,
    /// This start was declared dead.
    Fenced,
    /// Another start of this node is known.
    Superseded {
        /// Its number.
        by: Boot,
    },
    /// The node has nothing any more, as an operator wanted, and may go: its process is to end, and never to start again.
    Left,
    /// The node is a member of the cluster no longer.
    Removed,
    /// The node may not start.
    StartRefused {
        /// Why.
        refusal: MetaRefusal,
    },
}

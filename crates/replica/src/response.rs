//! What a group says to a gateway of one of its batches.
//!
//! *Done* counts whoever says it, as long as it speaks of the same generation of the group's state: what was applied there
//! stays applied. Whatever else is said is of the moment, and counts only from whom the gateway takes for the leader.

use consensus::Term;
use ids::{GatewayId, GroupId, NodeId};
use resp::FrozenRope;

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchResponse {
    /// The group.
    pub group: GroupId,
    /// How many times the group had begun anew, as who was asked knows.
    pub generation: u64,
    /// The term of the replica that was asked.
    pub term: Term,
    /// Whose batch it was.
    pub gateway: GatewayId,
    /// Which of the gateway's batches for the group.
    pub sequence: u64,
    /// What became of it.
    pub outcome: BatchOutcome,
}

/// What became of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchOutcome {
    /// It was carried out, now or when it came first: what each of its items answers, as the group wrote it. Long
    /// values in it are shared with the state.
    Done(FrozenRope),
    /// It was not looked at: who was asked does not lead, or knows another generation. An earlier sending of it may still
    /// be carried out.
    NotLeader {
        /// Where the leader is, if that is known.
        leader: Option<NodeId>,
    },
    /// It was not carried out, because numbers before it are missing.
    Gap {
        /// The number of the last one that the group has applied.
        applied: u64,
    },
    /// It was carried out when it came first, but what it answered is no longer known.
    Evicted,
    /// What one of its operations or reads was answered, which had waited. The batch is named by its number among those with
    /// writes, or by its sequence if this is a read.
    Deferred {
        /// Whether it is a read.
        is_read: bool,
        /// Which of its operations, or of its reads.
        index: u32,
        /// The answer.
        bytes: FrozenRope,
    },
}

//! What is left of groups that nobody leads: one replica, as its own node knows it.
//!
//! Nothing of it is replicated. Nodes say it with their node heartbeats, and whoever leads the meta group tells all of them,
//! so that an operator can be shown, at any node, with what a group could begin anew; and so that it begins anew by itself
//! where nothing can be lost by that (`reconciler.rs`). Of a group that is led only that is spoken of which nodes keep from
//! before it began anew.

use crate::group::Member;
use crate::wire::wire_struct;
use consensus::{Index, Term};
use ids::{GroupId, Incarnation, NodeId};

/// Most of one message, which is the longest list there is (`wire.rs`). What is above is left out.
pub(crate) const RECOVERY_SOURCES_MAX: usize = 4_096;

/// Who a group's members are from a place of its log on, as a replica has applied it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// The place, as in [`Report::index`](crate::Report).
    pub index: u64,
    /// The members. During a joint change those are voters who will vote, and all others learners.
    pub members: Vec<Member>,
}

wire_struct!(Configuration { index, members });

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoverySource {
    /// The group.
    pub group: GroupId,
    /// The generation that it belongs to: an earlier one than the group's if it is kept from before the group began anew.
    pub generation: u64,
    /// Where it is.
    pub node: NodeId,
    /// Whose memory.
    pub incarnation: Incarnation,
    /// The term of the last entry of its log. Of two logs the one with the later term, and then the longer one, has
    /// everything that was acknowledged and that the other has.
    pub term: Term,
    /// The place of that entry.
    pub last: Index,
    /// Up to where it is known to be committed, and applied.
    pub applied: Index,
    /// The voter that has no memory any more, as its node knows, if it is one: whatever that voter told anybody is in this log, or will never be.
    pub lost_voter: Option<Incarnation>,
    /// The configuration that it has applied, if others vote in it than its node's map says.
    pub unreported: Option<Configuration>,
}

wire_struct!(RecoverySource {
    group,
    generation,
    node,
    incarnation,
    term,
    last,
    applied,
    lost_voter,
    unreported
});

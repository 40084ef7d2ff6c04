//! A replica that was given up although its node goes on: its state was found to differ from that of most others.
//!
//! Nodes say it with their node heartbeats, as long as the map names the replica. Whoever leads the meta group proposes that
//! it has no memory any more, and its node is given another one.

use crate::wire::wire_struct;
use ids::{GroupId, Incarnation, NodeId};

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GivenUp {
    /// The group.
    pub group: GroupId,
    /// The generation that it belonged to.
    pub generation: u64,
    /// Where it is.
    pub node: NodeId,
    /// Which.
    pub incarnation: Incarnation,
}

wire_struct!(GivenUp {
    group,
    generation,
    node,
    incarnation
});

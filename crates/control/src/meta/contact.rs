//! Whom a node speaks with about the cluster's own state.

use ids::NodeId;

/// The other end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Contact {
    /// A member of the cluster.
    Node(NodeId),
    /// Whoever stands behind the address that a node which joins was told: a member, which one is not known.
    Introducer,
    /// A node that has no id yet, by the number that the edge gave its link. Numbers are not given twice in one start.
    Newcomer(u64),
}

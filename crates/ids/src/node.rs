//! Clusters, nodes and their starts.

/// The name of a cluster: drawn at random when it is made, so that nodes of two clusters never take each other for
/// their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClusterId(pub u128);

/// One member of the cluster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u64);

/// One start of a node's process: a number never used before by that node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Boot(pub u64);

/// The name by which a node's process asks to be counted when it starts, drawn at random by itself: the same start that asks again is
/// known by it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u128);

/// The name of a node that is none yet and is to be one of the first of a cluster: drawn at random by each process for itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FoundingId(pub u128);

/// The identity of a replica's memory: counted by the meta group over the whole cluster, so that it is never reused. A
/// replica whose acknowledged state may be gone gets another one. It is also the replica's name in its Raft group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Incarnation(pub u64);

/// One worker of another node: the other end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerWorker {
    /// The node.
    pub node: NodeId,
    /// The worker, one of as many as that node has.
    pub worker: u16,
}

/// One worker of one boot, in its role of carrying out clients' commands: the session under which it forwards them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GatewayId {
    /// The boot of its node: known to the meta group, and never used before by any node.
    pub boot: Boot,
    /// The worker.
    pub worker: u16,
}

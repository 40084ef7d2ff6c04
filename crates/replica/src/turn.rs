//! What a replica is told of the world, once a turn of its worker's loop.

use ids::{SemanticsVersion, UnixMillis};
use keyspace::{EventClasses, LfuParameters};

/// One turn of a worker's loop. All that a group is asked to do in one turn goes into one entry.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Counted by the worker.
    pub number: u64,
    /// The wall clock at the turn's beginning.
    pub now: UnixMillis,
    /// Fresh randomness; each group derives its own from it.
    pub seed: u64,
    /// Set if eviction counts frequency.
    pub lfu: Option<LfuParameters>,
    /// The classes of keyspace events that somebody may want to hear of.
    pub notify: EventClasses,
    /// Steps that commands may take at once, or copying their values for a transaction: see [`keyspace::walks`]. What
    /// takes more is carried out elsewhere, on values that are lent.
    pub steps_max: usize,
    /// The rules that entries made now are to follow: the newest that every node of the cluster knows.
    pub semantics: SemanticsVersion,
}

//! What an operator wants of nodes, as the state keeps it: whoever reconciles compares it with what is.
//!
//! ```text
//!                SetGoal                      SetGoal                       Dismiss: it holds nothing     Remove: it is silent
//!   stays <--------------------> drains <--------------------> leaves --------------------------> left ------------------> (no node)
//!     '------------------------------------------------------------'
//! ```
//!
//! Nothing else is remembered of a drain: no list of steps, and no count of those that were done. So a goal that is set again, a new
//! leader of the meta group, or a node that dies on the way changes nothing about the end.

use crate::wire::{wire_enum, wire_struct};
use ids::Epoch;
use std::time::Duration;

/// What is to become of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum NodeGoal {
    /// It has replicas, as others have.
    #[default]
    Stays,
    /// It gives its replicas up, and stays a member that has none.
    Drains,
    /// The same, and then it is no member any more.
    Leaves,
    /// It has nothing any more, and goes: its process is to end, and when it is silent it is no member. That is not taken back.
    Left,
}

// As flags were written, when a node could stay or give its replicas up and nothing else.
wire_enum!(NodeGoal { 0 Stays {}, 1 Drains {}, 2 Leaves {}, 3 Left {} });

impl NodeGoal {
    /// Whether it is to have no replicas.
    pub fn is_draining(self) -> bool {
        self != NodeGoal::Stays
    }
}

/// Nothing moves but what repairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MovePause {
    /// The version of the map from which on: no two pauses have the same, and none has 0.
    pub since: Epoch,
    /// For how many seconds; until somebody ends it where that is not set. Whoever leads the meta group counts them, a new one from
    /// its beginning: there is no clock in the state.
    pub seconds: Option<u64>,
}

wire_struct!(MovePause { since, seconds });

/// Everything is to be placed anew, by what nodes say of themselves now and not by what they said when they came; until all is there.
///
/// ```text
///              Rebalance                 PlaceAnew                       Settle: every replica is where it is to be
///   (nothing) -----------> it is wanted -----------> it is placed, and moves --------------------------> (nothing)
///                               ^  held up by a pause       |
///                               '---------------------------'
///                                         Rebalance
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rebalance {
    /// The version of the map from which on: no two have the same.
    pub since: Epoch,
    /// Whether it is placed, and only moves are left.
    pub is_placed: bool,
}

wire_struct!(Rebalance { since, is_placed });

/// Groups of keys are to have another number of replicas than before; until all have it. How many is not said here: it is what the
/// state has as its factor, so that whoever sets another one on the way changes what is wanted, and not what was done.
///
/// ```text
///              SetFactor: another number           Settle: placed for as many, and every replica is where it is to be
///   (nothing) ---------------------------> wanted -----------------------------------------------------------------> (nothing)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resize {
    /// The version of the map from which on: no two have the same.
    pub since: Epoch,
}

wire_struct!(Resize { since });

impl MovePause {
    /// Whether it is over, for one who has seen it for this long.
    pub(crate) fn is_over(&self, seen: Duration) -> bool {
        self.seconds
            .is_some_and(|seconds| seen >= Duration::from_secs(seconds))
    }
}

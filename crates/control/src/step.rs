//! What is to be done next.

use crate::command::MetaCommand;
use crate::group::GroupRef;
use ids::{Incarnation, NodeId};

/// One step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReconcileStep {
    /// Propose this to the meta group.
    Propose(MetaCommand),
    /// Ask a group's leader for this. If it is lost, or asked twice, nothing is: the next look says what is still to be done.
    Order {
        /// Which group.
        group: GroupRef,
        /// In which generation.
        generation: u64,
        /// With which configuration, as in `Report`. A leader with another one passes the order over.
        index: u64,
        /// What.
        order: Order,
    },
}

/// What a group's leader is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Take a replica in as a learner.
    AddLearner {
        /// Where it is.
        node: NodeId,
        /// Its identity.
        incarnation: Incarnation,
    },
    /// Change the members at once, by joint consensus. What is in neither list stays as it is.
    Change {
        /// Learners that become voters.
        promote: Vec<Incarnation>,
        /// Members that are members no longer. The leader is not among them.
        remove: Vec<Incarnation>,
    },
    /// Hand leadership over.
    Transfer {
        /// A voter.
        to: Incarnation,
    },
}

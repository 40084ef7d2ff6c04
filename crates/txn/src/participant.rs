//! A group that has a part in a transaction.

use ids::GroupId;

/// A group, as it was when the transaction began: one that has begun anew since may have lost what it had written down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Participant {
    /// Which group.
    pub group: GroupId,
    /// How many times it had begun anew.
    pub generation: u64,
}

impl Participant {
    /// A group that has never begun anew.
    pub fn first(group: GroupId) -> Participant {
        Participant { group, generation: 0 }
    }
}

/// All groups that take part in a transaction: written down at several places, and never changed.
pub type Participants = std::sync::Arc<[Participant]>;

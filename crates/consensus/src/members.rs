//! Who belongs to a group: checks, majorities, and the library's form of it.

use raft::eraftpb::ConfState;

use crate::message::Members;
use ids::Incarnation;

/// Most replicas in one list of a group's members. A larger target is refused, and so is a message that carries one.
pub const MEMBERS_MAX: usize = 15;

/// Why members cannot be those of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MembersInvalid {
    /// There is no voter.
    NoVoter,
    /// A list is longer than [`MEMBERS_MAX`].
    TooMany,
    /// The incarnation 0, which no replica has.
    Zero,
    /// A replica stands twice where it can stand once.
    Twice,
    /// What only a joint change has, without one.
    NotJoint,
}

impl Members {
    /// These voters, and nobody else.
    pub fn of_voters(voters: impl IntoIterator<Item = Incarnation>) -> Members {
        Members {
            voters: voters.into_iter().collect(),
            ..Members::default()
        }
    }

    /// Whether a joint change is under way.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether `replica` votes, before or after the change under way.
    pub fn is_voter(&self, replica: Incarnation) -> bool {
        self.voters.contains(&replica) || self.outgoing.contains(&replica)
    }

    /// Everybody, each once, in order.
    pub fn all(&self) -> Vec<Incarnation> {
        let mut all: Vec<Incarnation> = self
            .voters
            .iter()
            .chain(&self.learners)
            .chain(&self.outgoing)
            .chain(&self.learners_next)
            .copied()
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether `replica` is the only member, so that there is nobody to replicate to.
    pub fn is_alone(&self, replica: Incarnation) -> bool {
        self.voters == [replica] && self.learners.is_empty() && self.outgoing.is_empty()
    }

    /// Checks everything that the library takes for granted.
    ///
    /// # Errors
    /// If these cannot be the members of a group.
    pub fn validate(&self) -> Result<(), MembersInvalid> {
        let lists = [&self.voters, &self.learners, &self.outgoing, &self.learners_next];
        if self.voters.is_empty() {
            return Err(MembersInvalid::NoVoter);
        }
        for list in lists {
            if list.len() > MEMBERS_MAX {
                return Err(MembersInvalid::TooMany);
            }
            if list.contains(&Incarnation(0)) {
                return Err(MembersInvalid::Zero);
            }
            let mut sorted = list.clone();
            sorted.sort_unstable();
            if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(MembersInvalid::Twice);
            }
        }
        if self.learners.iter().any(|learner| self.is_voter(*learner)) {
            return Err(MembersInvalid::Twice);
        }
        if !self.is_joint() && (self.ends_itself || !self.learners_next.is_empty()) {
            return Err(MembersInvalid::NotJoint);
        }
        if self
            .learners_next
            .iter()
            .any(|learner| !self.outgoing.contains(learner) || self.voters.contains(learner))
        {
            return Err(MembersInvalid::NotJoint);
        }
        Ok(())
    }

    /// The largest value that a majority reached, of the voters before and after the change under way; `None` if some
    /// majority has members without a value.
    pub(crate) fn majority<T: Ord + Copy>(&self, value: impl Fn(Incarnation) -> Option<T>) -> Option<T> {
        let reached = majority_of(&self.voters, &value)?;
        if self.is_joint() {
            Some(reached.min(majority_of(&self.outgoing, &value)?))
        } else {
            Some(reached)
        }
    }

    pub(crate) fn from_library(state: &ConfState) -> Members {
        let list = |ids: &[u64]| {
            let mut list: Vec<Incarnation> = ids.iter().copied().map(Incarnation).collect();
            // The library keeps them in sets; ours have one order.
            list.sort_unstable();
            list
        };
        Members {
            voters: list(state.get_voters()),
            learners: list(state.get_learners()),
            outgoing: list(state.get_voters_outgoing()),
            learners_next: list(state.get_learners_next()),
            ends_itself: state.auto_leave,
        }
    }

    pub(crate) fn to_library(&self) -> ConfState {
        let list = |members: &[Incarnation]| members.iter().map(|member| member.0).collect::<Vec<u64>>();
        let mut state = ConfState::default();
        state.set_voters(list(&self.voters));
        state.set_learners(list(&self.learners));
        state.set_voters_outgoing(list(&self.outgoing));
        state.set_learners_next(list(&self.learners_next));
        state.auto_leave = self.ends_itself;
        state
    }
}

fn majority_of<T: Ord + Copy>(
    voters: &[Incarnation],
    value: &impl Fn(Incarnation) -> Option<T>,
) -> Option<T> {
    let mut reached = [None; MEMBERS_MAX];
    let reached = reached.get_mut(..voters.len())?;
    for (place, voter) in reached.iter_mut().zip(voters) {
        *place = value(*voter);
    }
    // `None` sorts first: the larger half begins where a majority has as much or more.
    reached.sort_unstable();
    *reached.get((voters.len().checked_sub(1)?) / 2)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_reached_what_half_of_the_voters_and_one_more_have() {
        let members = |ids: &[u64]| Members::of_voters(ids.iter().copied().map(Incarnation));
        let value = |replica: Incarnation| (replica.0 < 4).then_some(replica.0 * 10);
        assert_eq!(members(&[1]).majority(value), Some(10));
        assert_eq!(members(&[1, 2]).majority(value), Some(10));
        assert_eq!(members(&[1, 2, 3]).majority(value), Some(20));
        assert_eq!(members(&[2, 3, 4]).majority(value), Some(20));
        assert_eq!(members(&[3, 4, 5]).majority(value), None);
        assert_eq!(members(&[1, 2, 3, 4]).majority(value), Some(10));
        assert_eq!(members(&[1, 2, 3, 4, 5]).majority(value), Some(10));
        let mut joint = members(&[1, 2, 3]);
        joint.outgoing = members(&[1, 4, 5]).voters;
        assert_eq!(joint.majority(value), None);
        joint.outgoing = members(&[1]).voters;
        assert_eq!(joint.majority(value), Some(10));
    }
}

//! The tally of one transaction's votes.
//!
//! ```text
//!            on_vote: Prepared, others open
//!              +---------+
//!              v         |
//!  new --> [ asking ] ---+--- on_vote: last Prepared --> Commit
//!              |
//!              +--- on_vote: any Refused --------------> Abort(refusal)
//! ```
//!
//! Invariants:
//! 1. Commit is decided only if every participant voted Prepared; abort only if one voted Refused.
//! 2. A decision is made once: votes after it change nothing.

use ids::GroupId;

/// A participant's vote.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vote {
    /// Locks are held, conditions hold, effects are computed.
    Prepared,
    /// The participant will never prepare this attempt.
    Refused(Refusal),
}

impl Vote {
    /// What a participant says first: 0, or the number of its refusal.
    pub fn of_code(code: u8) -> Vote {
        Refusal::of_code(code).map_or(Vote::Prepared, Vote::Refused)
    }
}

/// Why a participant refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A condition does not hold: a watched key changed, a key of `MSETNX` exists. The client is told.
    Condition,
    /// An older transaction needs the keys: try again as a new attempt.
    Wounded,
    /// The values are too large to be walked over or copied there: try again in another way.
    TooLarge,
    /// What the coordinator had seen has changed: look again.
    Changed,
    /// A command of a transaction that is to be done as a whole or not at all answered an error. The client is told it.
    Failed,
    /// Too much waits there. The client is told to try again.
    Busy,
    /// Somebody asked what has become of it, when it had not voted: try again.
    Queried,
    /// It was decided before, or whoever coordinates it is taken for dead.
    Over,
    /// The client has named the request, and it was carried out before or is out of time: the client is told what is known.
    Known,
    /// The group has begun anew, or knows less than the coordinator: try again with the group as it is now.
    Renewed,
    /// Some keys belong to another group: try again there.
    Moved,
}

impl Refusal {
    const ALL: [Refusal; 11] = [
        Refusal::Condition,
        Refusal::Wounded,
        Refusal::TooLarge,
        Refusal::Changed,
        Refusal::Failed,
        Refusal::Busy,
        Refusal::Queried,
        Refusal::Over,
        Refusal::Known,
        Refusal::Renewed,
        Refusal::Moved,
    ];

    /// A number for messages and logs, from 1 on.
    pub fn code(self) -> u8 {
        let at = Refusal::ALL.iter().position(|other| *other == self);
        at.map_or(0, |at| at as u8 + 1)
    }

    /// The refusal of this number.
    pub fn of_code(code: u8) -> Option<Refusal> {
        Refusal::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// What came of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Every participant prepared.
    Commit,
    /// Some participant refused.
    Abort(Refusal),
}

/// The votes of one attempt, as its coordinator counts them.
#[derive(Debug)]
pub struct VoteTally {
    participants: Vec<(GroupId, Option<Vote>)>,
    decision: Option<Decision>,
}

impl VoteTally {
    /// A tally of the votes of these groups, each once.
    pub fn new(groups: impl IntoIterator<Item = GroupId>) -> VoteTally {
        let participants = groups.into_iter().map(|group| (group, None)).collect();
        VoteTally {
            participants,
            decision: None,
        }
    }

    /// The participants in the order given.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.participants.iter().map(|(group, _)| *group)
    }

    /// Records a vote. Returns the decision the moment it is made, and then never again.
    ///
    /// # Panics
    /// If the group does not take part, or votes differently a second time: a vote is write-once.
    pub fn on_vote(&mut self, group: GroupId, vote: Vote) -> Option<Decision> {
        let participant = self.participants.iter_mut().find(|(other, _)| *other == group);
        let (_, recorded) = participant.expect("only participants vote");
        assert!(
            recorded.is_none_or(|recorded| recorded == vote),
            "invariant: a vote is write-once"
        );
        *recorded = Some(vote);
        if self.decision.is_some() {
            return None;
        }
        self.decision = match vote {
            Vote::Refused(refusal) => Some(Decision::Abort(refusal)),
            Vote::Prepared => self
                .participants
                .iter()
                .all(|(_, vote)| *vote == Some(Vote::Prepared))
                .then_some(Decision::Commit),
        };
        self.decision
    }

    /// An older transaction waits for this one: the participants that have not voted, where it is to be
    /// withdrawn if it only waits. A Prepared participant is left alone: its vote record never changes.
    pub fn on_wound(&self) -> Vec<GroupId> {
        if self.decision.is_some() {
            return Vec::new();
        }
        self.participants
            .iter()
            .filter(|(_, vote)| vote.is_none())
            .map(|(group, _)| *group)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(number: u16) -> GroupId {
        GroupId::new(number)
    }

    #[test]
    fn commit_takes_every_vote() {
        let mut tally = VoteTally::new([group(1), group(2)]);
        assert_eq!(tally.on_vote(group(1), Vote::Prepared), None);
        assert_eq!(tally.on_wound(), [group(2)]);
        assert_eq!(tally.on_vote(group(2), Vote::Prepared), Some(Decision::Commit));
        assert!(tally.on_wound().is_empty());
    }

    #[test]
    fn one_refusal_aborts_and_later_votes_change_nothing() {
        let mut tally = VoteTally::new([group(1), group(2), group(3)]);
        let refused = Vote::Refused(Refusal::Condition);
        assert_eq!(
            tally.on_vote(group(2), refused),
            Some(Decision::Abort(Refusal::Condition))
        );
        assert_eq!(tally.on_vote(group(1), Vote::Prepared), None);
        assert_eq!(tally.on_vote(group(3), Vote::Refused(Refusal::Wounded)), None);
    }

    #[test]
    #[should_panic(expected = "write-once")]
    fn a_vote_cannot_be_taken_back() {
        let mut tally = VoteTally::new([group(1), group(2)]);
        tally.on_vote(group(1), Vote::Prepared);
        tally.on_vote(group(1), Vote::Refused(Refusal::Wounded));
    }
}

//! Finding out what has become of a transaction, by asking its participants: anybody may, any number of times.
//!
//! ```text
//!  [ asking ] -- all Prepared, or any Committed ------------------> Commit
//!             -- any Refused or Aborted, once all have answered --> Abort
//!             -- Over, and nobody Prepared ------------------------> nothing is left to do
//!             -- Over, and others Prepared --> these are asked again: Prepared still ----> torn
//!             -- only Prepared and Lost --------------------------> its coordinator's word, or abort
//! ```
//!
//! Of a dead coordinator's transaction a participant may have nothing and need write nothing: it has forgotten it, which it
//! does only when all have its end, or it was never asked, and never will be. So Empty stands against it, unless another
//! one has committed.
//!
//! Whoever is asked refuses if he has not voted, so that the answers are final: the decision is a function of vote records that
//! are written once, and all who ask come to the same. A group that has begun anew without its vote record (*Lost*) is the one
//! exception. It may have voted for a transaction that others committed, so that *Committed* goes before *Refused*; and where
//! nobody knows, the decision is written down by the lowest that is left before any other is told, and whoever asks later
//! finds it there.
//!
//! Invariants:
//! 1. As long as no group has lost anything, commit is found only if no participant has refused or aborted; abort only if one
//!    has, or never will prepare.

use crate::{Decision, Refusal, VoteRecord};
use ids::GroupId;
use std::collections::BTreeMap;

/// What was found out so far about one transaction.
#[derive(Clone, Debug)]
pub struct Recovery {
    vote_records: BTreeMap<GroupId, Option<VoteRecord>>,
    /// Whether those that are prepared were asked again after another one had said that it is over.
    is_confirmed: bool,
}

/// What the vote records say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// How it ended, or has to end.
    Decided(Decision),
    /// All have recorded its end, and forgotten it: nothing is left to do.
    Over,
    /// One says that it is over, others that they are prepared, perhaps from before: these are to be asked again.
    AskAgain(Vec<GroupId>),
    /// It is over, and these are prepared still: they have gone back to a state from before its end, which nobody knows any
    /// more.
    Torn(Vec<GroupId>),
    /// All that is left of it is prepared, and others have lost what they knew: its coordinator's word counts, if it lives,
    /// and otherwise it is aborted. This one, the lowest, is to record it before any other is told.
    Orphaned(GroupId),
}

impl Recovery {
    /// A recovery that asks these participants.
    pub fn new(participants: impl IntoIterator<Item = GroupId>) -> Recovery {
        let empty = |group| (group, None);
        Recovery {
            vote_records: participants.into_iter().map(empty).collect(),
            is_confirmed: false,
        }
    }

    /// The participants.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.vote_records.keys().copied()
    }

    /// Takes what a participant answered. What was found, once all have answered.
    pub fn on_vote_record(&mut self, group: GroupId, vote_record: VoteRecord) -> Option<Finding> {
        if let Some(known) = self.vote_records.get_mut(&group) {
            *known = Some(vote_record);
        }
        let answers: Option<Vec<VoteRecord>> = self.vote_records.values().copied().collect();
        let answers = answers?;
        let any = |wanted: VoteRecord| answers.contains(&wanted);
        let prepared = self.vote_records.iter();
        let prepared = prepared.filter(|(_, vote_record)| **vote_record == Some(VoteRecord::Prepared));
        let prepared: Vec<GroupId> = prepared.map(|(group, _)| *group).collect();
        let abort = Some(Finding::Decided(Decision::Abort(Refusal::Queried)));
        if any(VoteRecord::Over) && prepared.is_empty() {
            // Every participant has recorded the end: what one that was asked too late has written means nothing.
            return Some(Finding::Over);
        }
        if any(VoteRecord::Committed) {
            return Some(Finding::Decided(Decision::Commit));
        }
        if any(VoteRecord::Over) {
            if self.is_confirmed {
                return Some(Finding::Torn(prepared));
            }
            self.is_confirmed = true;
            for group in &prepared {
                self.vote_records.insert(*group, None);
            }
            return Some(Finding::AskAgain(prepared));
        }
        if any(VoteRecord::Refused) || any(VoteRecord::Aborted) || any(VoteRecord::Empty) {
            return abort;
        }
        if any(VoteRecord::Lost) {
            return prepared
                .first()
                .map_or(abort, |lowest| Some(Finding::Orphaned(*lowest)));
        }
        Some(Finding::Decided(Decision::Commit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use VoteRecord::{Aborted, Committed, Empty, Lost, Over, Prepared, Refused};

    fn asking(count: u16) -> Recovery {
        Recovery::new((0..count).map(GroupId::new))
    }

    fn found(vote_records: &[VoteRecord]) -> Finding {
        let mut recovery = asking(vote_records.len() as u16);
        let mut found = None;
        for (group, vote_record) in (0..).zip(vote_records) {
            assert_eq!(found, None, "nothing is found before all have answered");
            found = recovery.on_vote_record(GroupId::new(group), *vote_record);
        }
        found.expect("all have answered")
    }

    #[test]
    fn vote_records_that_were_written_once_decide() {
        let abort = Finding::Decided(Decision::Abort(Refusal::Queried));
        assert_eq!(found(&[Prepared, Prepared]), Finding::Decided(Decision::Commit));
        assert_eq!(found(&[Prepared, Committed]), Finding::Decided(Decision::Commit));
        for against in [Refused, Aborted, Empty] {
            assert_eq!(found(&[Prepared, against]), abort);
        }
        assert_eq!(found(&[Refused, Over]), Finding::Over);
    }

    #[test]
    fn what_one_group_committed_is_committed_whatever_another_one_that_began_anew_has_written() {
        for other in [Lost, Refused, Aborted, Empty, Prepared] {
            for vote_records in [[Committed, other], [other, Committed]] {
                assert_eq!(
                    found(&vote_records),
                    Finding::Decided(Decision::Commit),
                    "{other:?}"
                );
            }
        }
        assert_eq!(
            found(&[Committed, Over, Prepared]),
            Finding::Decided(Decision::Commit)
        );
    }

    #[test]
    fn where_nobody_knows_the_lowest_that_is_left_is_to_write_it_down_first() {
        assert_eq!(
            found(&[Lost, Prepared, Prepared]),
            Finding::Orphaned(GroupId::new(1))
        );
        let abort = Finding::Decided(Decision::Abort(Refusal::Queried));
        assert_eq!(found(&[Lost, Prepared, Aborted]), abort);
        assert_eq!(found(&[Lost, Lost]), abort, "nobody holds anything");
    }

    #[test]
    fn who_is_prepared_where_others_have_forgotten_is_asked_twice() {
        let mut recovery = asking(2);
        recovery.on_vote_record(GroupId::new(0), Prepared);
        let first = recovery.on_vote_record(GroupId::new(1), Over);
        assert_eq!(first, Some(Finding::AskAgain(vec![GroupId::new(0)])));
        let mut other = recovery.clone();
        assert_eq!(
            recovery.on_vote_record(GroupId::new(0), Over),
            Some(Finding::Over),
            "the first answer was from before"
        );
        let torn = Finding::Torn(vec![GroupId::new(0)]);
        assert_eq!(other.on_vote_record(GroupId::new(0), Prepared), Some(torn));
    }
}

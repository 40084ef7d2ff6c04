//! Finding out what has become of a transaction, by asking its participants: anybody may, any number of times.
//!
//! ```text
//!  [ asking ] -- all Prepared, or any Committed ------------------> Commit
//!             -- any Refused or Aborted, once all have answered --> Abort
//!             -- any Over -----------------------------------------> nothing is left to do
//! ```
//!
//! Of a dead coordinator's transaction a participant may have nothing and need write nothing: it has forgotten it, which it
//! does only when all have its end, or it was never asked, and never will be. So Empty stands against it, unless another
//! one has committed.
//!
//! Whoever is asked refuses if he has not voted, so that the answers are final: the decision is a function of registers that
//! are written once, and all who ask come to the same.
//!
//! Invariants:
//! 1. Commit is decided only if no participant has refused or aborted; abort only if one has.

use crate::{Decision, Refusal, Register};
use ids::GroupId;
use std::collections::BTreeMap;

/// What was found out so far about one transaction.
#[derive(Clone, Debug)]
pub struct Recovery {
    registers: BTreeMap<GroupId, Option<Register>>,
}

impl Recovery {
    /// A recovery that asks these participants.
    pub fn new(participants: impl IntoIterator<Item = GroupId>) -> Recovery {
        let empty = |group| (group, None);
        Recovery {
            registers: participants.into_iter().map(empty).collect(),
        }
    }

    /// The participants.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> {
        self.registers.keys().copied()
    }

    /// Takes what a participant answered. The decision, once all have answered; `Some(None)` if it is over everywhere.
    ///
    /// # Panics
    /// If one has committed what another refused or aborted.
    pub fn on_register(&mut self, group: GroupId, register: Register) -> Option<Option<Decision>> {
        if let Some(known) = self.registers.get_mut(&group) {
            *known = Some(register);
        }
        let answers: Option<Vec<Register>> = self.registers.values().copied().collect();
        let answers = answers?;
        let all = || answers.iter().copied();
        let is_absent = all().any(|register| register == Register::Empty);
        let is_against = all().any(|register| matches!(register, Register::Refused | Register::Aborted));
        let is_committed = all().any(|register| register == Register::Committed);
        if all().any(|register| register == Register::Over) {
            // Every participant has recorded the end: what one that was asked too late has written means nothing.
            return Some(None);
        }
        assert!(
            !(is_against && is_committed),
            "invariant: one participant has committed what another refused"
        );
        Some(Some(if is_against || is_absent && !is_committed {
            Decision::Abort(Refusal::Inquired)
        } else {
            Decision::Commit
        }))
    }
}

//! What a voter owes the leader that it last acknowledged.
//!
//! ```text
//!   start ----> owed to whoever may have led before --.
//!                                                      |  the shortest election time-out passes
//!   acknowledges a leader ----> owed to that leader ---+----> free
//!        ^                          |                           |
//!        '---- the next one --------'<--------------------------'
//! ```
//!
//! While it is owed, the voter neither campaigns nor grants anybody a vote, or the prospect of one. A leader counts on it:
//! its lease ends before the promises of a majority do. The one exception is the leader's own wish: it gives its lease up,
//! for the rest of its term, before it hands over, so a vote that carries the mark of a hand-over, for the very next term,
//! takes nothing from it.

use crate::message::Term;
use ids::{Incarnation, Monotonic};

/// A voter's promise.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    until: Monotonic,
    /// The leader, and the term in which it was acknowledged; none if it is not known to whom it is owed.
    leader: Option<(Term, Incarnation)>,
}

impl Promise {
    /// Owed to nobody known until `until`.
    pub(crate) fn unknown(until: Monotonic) -> Promise {
        Promise { until, leader: None }
    }

    /// `leader` is about to be acknowledged in `term`.
    pub(crate) fn make(&mut self, term: Term, leader: Incarnation, until: Monotonic) {
        // A clock that stood still must not make a promise shorter.
        self.until = self.until.max(until);
        self.leader = Some((term, leader));
    }

    /// Whether it is still owed.
    pub(crate) fn stands(&self, now: Monotonic) -> bool {
        now < self.until
    }

    /// Until when it is owed.
    pub(crate) fn until(&self) -> Monotonic {
        self.until
    }

    /// Whether it leaves room for a vote in `term`.
    pub(crate) fn allows_vote(&self, term: Term, is_transfer: bool, now: Monotonic) -> bool {
        !self.stands(now)
            || (is_transfer && self.leader.is_some_and(|(promised, _)| term.0 == promised.0 + 1))
    }

    /// Whether it leaves room for a campaign at the wish of `leader`, which leads in `term`.
    pub(crate) fn allows_transfer(&self, term: Term, leader: Incarnation, now: Monotonic) -> bool {
        !self.stands(now) || self.leader == Some((term, leader))
    }
}

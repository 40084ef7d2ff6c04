//! A leader's lease: until when no other leader can have been elected.
//!
//! For each member the leader keeps the latest moment *at which it sent* something that the member acknowledged in this
//! term. The moment that a majority reached, plus the shortest election time-out, minus what clocks may differ, is the
//! end of the lease: each of that majority acknowledged later than the moment, and keeps its [promise](crate::promise)
//! for the shortest election time-out from then on. The arrival of the acknowledgement proves nothing.
//!
//! ```text
//!   elected --> no lease --- a majority acknowledged ---> lease --- time passes ---> no lease
//!                  |                                        |
//!                  '---------- a transfer starts ------------'----> none for the rest of the term
//! ```

use std::cmp::Ordering;
use std::collections::BTreeMap;

use mutations::Mutation;

use crate::message::{Index, Members, Term};
use ids::{Boot, Incarnation, Monotonic};

/// How a read may be answered now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPermit {
    /// From the applied state, if the lease [still holds](crate::RaftNode::holds) after the value was read.
    Lease(Lease),
    /// After a round of [`read_index`](crate::RaftNode::read_index).
    ReadIndex,
    /// Not here.
    NotLeader,
}

/// A leader's right to answer reads alone, as of when it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    pub(crate) term: Term,
}

/// What a leader knows of its own term.
#[derive(Clone, Debug)]
pub(crate) struct Leadership {
    /// Its term.
    pub(crate) term: Term,
    /// When it was elected.
    pub(crate) since: Monotonic,
    /// The first entry of its term. Who has it acknowledged something that was sent after `since`.
    pub(crate) own_entry: Index,
    /// Whether a transfer has started in this term.
    pub(crate) is_given_up: bool,
    acknowledged: BTreeMap<Incarnation, Monotonic>,
    reached: Option<Monotonic>,
    /// The latest start of each member's node that was heard of in this term.
    starts: BTreeMap<Incarnation, Boot>,
}

/// What an answer is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeardStart {
    /// The start that was heard of before, or the first one.
    Known,
    /// A later one than was heard of.
    Later,
    /// A former one.
    Former,
}

impl Leadership {
    pub(crate) fn new(term: Term, since: Monotonic, own_entry: Index) -> Leadership {
        Leadership {
            term,
            since,
            own_entry,
            is_given_up: false,
            acknowledged: BTreeMap::new(),
            reached: None,
            starts: BTreeMap::new(),
        }
    }

    /// A member has answered in this start of its node.
    pub(crate) fn hear(&mut self, member: Incarnation, start: Boot) -> HeardStart {
        let known = self.starts.entry(member).or_insert(start);
        match start.cmp(known) {
            Ordering::Less => HeardStart::Former,
            Ordering::Equal => HeardStart::Known,
            Ordering::Greater => {
                *known = start;
                HeardStart::Later
            }
        }
    }

    /// `member` acknowledged what was sent at `sent`.
    pub(crate) fn acknowledge(
        &mut self,
        member: Incarnation,
        sent: Monotonic,
        now: Monotonic,
        members: &Members,
        me: Incarnation,
    ) {
        let basis = if mutations::is(Mutation::LeaseFromArrival) {
            now
        } else {
            sent
        };
        let latest = self.acknowledged.get(&member);
        if latest.is_some_and(|latest| *latest >= basis) {
            // Entries are acknowledged by the thousand, and say nothing that the first one did not.
            return;
        }
        self.acknowledged.insert(member, basis);
        self.count(members, me);
    }

    /// When the latest thing was sent that `member` has acknowledged.
    pub(crate) fn acknowledged(&self, member: Incarnation) -> Option<Monotonic> {
        self.acknowledged.get(&member).copied()
    }

    /// Counts again, because somebody acknowledged or the members changed.
    pub(crate) fn count(&mut self, members: &Members, me: Incarnation) {
        let is_member = |member: &Incarnation| members.is_voter(*member) || members.learners.contains(member);
        self.acknowledged.retain(|member, _| is_member(member));
        self.starts.retain(|member, _| is_member(member));
        // This replica itself is always there: who is its own majority is a leader until it steps down.
        self.reached = members.majority(|voter| {
            if voter == me {
                Some(Monotonic(u64::MAX))
            } else {
                self.acknowledged.get(&voter).copied()
            }
        });
    }

    /// The latest moment such that a majority acknowledged something sent then or later.
    pub(crate) fn reached(&self) -> Option<Monotonic> {
        self.reached
    }
}

//! What an object does, one operation at a time.
//!
//! A model is asked by the search whether an operation can be the next. It knows all operations of the object beforehand,
//! and may use this to cut ways that lead nowhere: a register whose value is still to be read is not overwritten. Such
//! cuts make the difference between thousands of situations and more than there is memory for; that they lose nothing is
//! argued where each is made.

pub(crate) mod counter;
pub(crate) mod list;
pub(crate) mod member;
pub(crate) mod register;

use crate::operation::{Answer, Call};
use std::hash::Hash;

/// One operation on the object.
pub(crate) struct Step<'a> {
    pub(crate) process: u32,
    pub(crate) invoked: u64,
    /// `u64::MAX` for one that is open.
    pub(crate) returned: u64,
    pub(crate) call: Call,
    pub(crate) answer: &'a Answer,
}

impl Step<'_> {
    pub(crate) fn is_open(&self) -> bool {
        self.returned == u64::MAX
    }
}

/// What comes of an operation, were it the next.
pub(crate) enum Next<S> {
    /// It can be the next, and if anything can follow at all then also after this: nothing else need be tried.
    Surely(S),
    /// It can be the next, and no other that changes the object can: what is sure comes before it.
    Only(S),
    /// It can be the next.
    Perhaps(S),
    /// It cannot, or nothing would be gained.
    NotYet,
    /// It can never happen from here on: for one that was answered, this way is at its end.
    Never,
}

/// An object's behaviour.
pub(crate) trait Model {
    /// The object between two operations. Cheap to copy: the search keeps one for each operation of its way.
    type State: Clone + Hash;

    /// Before the first operation.
    fn start(&self) -> Self::State;

    /// What comes of the operation `index` in this state.
    fn next(&self, state: &Self::State, index: usize) -> Next<Self::State>;

    /// Open operations of one class are as good as each other: only the first called is tried.
    fn class(&self, index: usize) -> u64;

    /// Which of two possible operations is tried first: the one with the smaller rank.
    fn rank(&self, index: usize) -> u64;
}

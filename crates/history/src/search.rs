//! Is there an order?
//!
//! Wing and Gong's search ("Testing and verifying concurrent objects", 1993) with Lowe's memory of situations already met
//! ("Testing for linearizability", 2017): take one operation after the other that can be the next, go back where none can.
//! An operation can be the next if nothing that is still left was answered before it was called. The model decides whether
//! the object allows it.
//!
//! ```text
//!            take one            none can be the next
//!   frame ------------> frame ------------------------> back to the frame before, its next candidate
//!     |                   |
//!     | all answered      | met before: the same operations left and the same state
//!     v                   v
//!    way                 skip
//! ```

use crate::fingerprint::{self, Fingerprints};
use crate::model::{Model, Next, Step};
use std::collections::BTreeMap;

/// What the search found. Ways are indices of steps.
pub(crate) enum Found {
    /// An order that explains all answers.
    Way,
    /// There is none; this is the longest that explains some.
    NoWay(Vec<usize>),
    /// Neither, after so many situations.
    Limit,
}

/// Looks for an order of `steps`, which are in the order of their calls, among at most `states_max` situations.
pub(crate) fn search<M: Model>(model: &M, steps: &[Step<'_>], states_max: usize) -> Found {
    let mut search = Search::new(model, steps);
    if search.answered_left == 0 {
        return Found::Way;
    }
    let start = model.start();
    let candidates = search.candidates(&start);
    let mut frames = vec![Frame { set: 0, candidates }];
    let mut met = Fingerprints::default();
    let mut deepest = Vec::new();
    while let Some(frame) = frames.last_mut() {
        let Some((index, state)) = frame.candidates.pop() else {
            if search.way.len() > deepest.len() {
                deepest.clone_from(&search.way);
            }
            frames.pop();
            search.put_back();
            continue;
        };
        let set = frame.set ^ fingerprint::of_member(index);
        if !met.insert(set ^ fingerprint::of_state(&state)) {
            continue;
        }
        if met.len() > states_max {
            return Found::Limit;
        }
        search.take(index);
        if search.answered_left == 0 {
            return Found::Way;
        }
        let candidates = search.candidates(&state);
        frames.push(Frame { set, candidates });
    }
    Found::NoWay(deepest)
}

/// One situation on the way.
struct Frame<S> {
    /// The fingerprint of what was taken.
    set: u128,
    /// What can be the next and is not tried yet, the best one last, with the state after it.
    candidates: Vec<(usize, S)>,
}

struct Search<'a, M> {
    model: &'a M,
    steps: &'a [Step<'a>],
    /// What is left, as a ring of indices shifted by one; 0 is the head.
    next: Vec<usize>,
    before: Vec<usize>,
    /// The answered operation of the same process that was called before.
    after: Vec<Option<usize>>,
    is_taken: Vec<bool>,
    way: Vec<usize>,
    answered_left: usize,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a M, steps: &'a [Step<'a>]) -> Search<'a, M> {
        let count = steps.len();
        let mut last_of = BTreeMap::new();
        let mut after = Vec::with_capacity(count);
        for (index, step) in steps.iter().enumerate() {
            after.push(last_of.get(&step.process).copied());
            if !step.is_open() {
                last_of.insert(step.process, index);
            }
        }
        Search {
            model,
            steps,
            next: (0..=count).map(|at| (at + 1) % (count + 1)).collect(),
            before: (0..=count).map(|at| (at + count) % (count + 1)).collect(),
            after,
            is_taken: vec![false; count],
            way: Vec::new(),
            answered_left: steps.iter().filter(|step| !step.is_open()).count(),
        }
    }

    fn take(&mut self, index: usize) {
        let at = index + 1;
        let (before, next) = (self.before[at], self.next[at]);
        self.next[before] = next;
        self.before[next] = before;
        self.is_taken[index] = true;
        self.answered_left -= usize::from(!self.steps[index].is_open());
        self.way.push(index);
    }

    fn put_back(&mut self) {
        let Some(index) = self.way.pop() else { return };
        let at = index + 1;
        let (before, next) = (self.before[at], self.next[at]);
        self.next[before] = at;
        self.before[next] = at;
        self.is_taken[index] = false;
        self.answered_left += usize::from(!self.steps[index].is_open());
    }

    /// What can be the next in this state, the best one last.
    fn candidates(&self, state: &M::State) -> Vec<(usize, M::State)> {
        let mut possible = Vec::new();
        let mut open_classes = Vec::new();
        let mut only = None;
        let mut first_answer = u64::MAX;
        let mut at = self.next[0];
        while at != 0 {
            let index = at - 1;
            at = self.next[at];
            let step = &self.steps[index];
            if step.invoked > first_answer {
                break;
            }
            first_answer = first_answer.min(step.returned);
            if self.after[index].is_some_and(|earlier| !self.is_taken[earlier]) {
                continue;
            }
            match self.model.next(state, index) {
                Next::Surely(next) => return vec![(index, next)],
                Next::Only(next) => only = Some((index, next)),
                Next::Perhaps(next) if step.is_open() => {
                    let class = self.model.class(index);
                    if !open_classes.contains(&class) {
                        open_classes.push(class);
                        possible.push((index, next));
                    }
                }
                Next::Perhaps(next) => possible.push((index, next)),
                Next::NotYet => {}
                Next::Never if step.is_open() => {}
                Next::Never => return Vec::new(),
            }
        }
        if let Some(only) = only {
            return vec![only];
        }
        // What need not happen at all is tried last.
        possible.sort_by_key(|&(index, _)| {
            std::cmp::Reverse((self.steps[index].is_open(), self.model.rank(index), index))
        });
        possible
    }
}

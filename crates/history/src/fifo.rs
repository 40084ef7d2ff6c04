//! Is there an order of a queue's operations, without searching for it?
//!
//! Each element is pushed once and taken at most once, so it is known which push belongs to which pop. Then an order exists
//! exactly if none of these is so (Henzinger, Sezgin and Vafeiadis, "Aspect-oriented linearizability proofs", 2013):
//!
//! 1. an element is taken before it was pushed, or twice;
//! 2. an element was pushed before another, and is taken after it or never, although the other is taken;
//! 3. somebody found the queue empty while there was an element in it at every moment.
//!
//! "Before" means that one was answered before the other was called. Open pops are the one thing that needs a choice:
//! each may have taken an element that nobody says he took.

use crate::model::Step;
use crate::operation::{Answer, Call};
use std::collections::BTreeMap;

/// Whether there is an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fifo {
    /// There is.
    Ordered,
    /// There is none.
    Disordered,
    /// Only [`crate::queue_order`] can tell.
    Unclear,
}

/// The life of an element.
#[derive(Clone, Copy)]
struct Element {
    push: (u64, u64),
    /// From call to answer; `NEVER` if nobody takes it.
    pop: (u64, u64),
}

const NEVER: (u64, u64) = (u64::MAX, u64::MAX);

impl Element {
    fn is_taken(&self) -> bool {
        self.pop.0 != u64::MAX
    }
}

/// Looks at `steps`, which are in the order of their calls.
pub(crate) fn judge(steps: &[Step<'_>]) -> Fifo {
    let mut busy_until = BTreeMap::new();
    let mut is_in_order_of_time = true;
    let mut elements: BTreeMap<i64, Element> = BTreeMap::new();
    let mut takes = Vec::new();
    let mut open_pops = Vec::new();
    let mut empties = Vec::new();
    for step in steps {
        let span = (step.invoked, step.returned);
        let before = busy_until.insert(step.process, step.returned);
        if before.is_some_and(|until| until != u64::MAX && until >= step.invoked) {
            // Who asks without waiting has promises of order that are not about time: without them there is more that can be.
            is_in_order_of_time = false;
        }
        match (step.call, step.answer) {
            (Call::Push(element), _) => {
                let fresh = Element {
                    push: span,
                    pop: NEVER,
                };
                if elements.insert(element, fresh).is_some() {
                    return Fifo::Unclear;
                }
            }
            (Call::Pop, Answer::Value(Some(element))) => takes.push((*element, span)),
            (Call::Pop, Answer::Value(None)) => empties.push(span),
            (Call::Pop, Answer::Unknown) => open_pops.push(span.0),
            _ => return Fifo::Disordered,
        }
    }
    for (element, span) in takes {
        match elements.get_mut(&element) {
            Some(element) if !element.is_taken() && element.push.0 <= span.1 => {
                // A push is over when what it pushed is taken.
                element.push.1 = element.push.1.min(span.1);
                element.pop = span;
            }
            _ => return Fifo::Disordered,
        }
    }
    let (taken, left): (Vec<Element>, Vec<Element>) =
        elements.values().partition(|element| element.is_taken());
    // What was perhaps pushed and never taken need not have been.
    let left: Vec<Element> = left
        .into_iter()
        .filter(|element| element.push.1 != u64::MAX)
        .collect();
    if !is_ordered(&taken, &empties) {
        return Fifo::Disordered;
    }
    let has_choice = !left.is_empty() && !open_pops.is_empty();
    let Some(left) = give_away(left, &taken, &empties, open_pops) else {
        return Fifo::Disordered;
    };
    let all: Vec<Element> = taken.into_iter().chain(left).collect();
    match is_ordered(&all, &empties) {
        true if is_in_order_of_time => Fifo::Ordered,
        false if !has_choice => Fifo::Disordered,
        _ => Fifo::Unclear,
    }
}

/// Gives the elements that must be gone at some time to open pops, the earliest to the most urgent; `None` if there are
/// not enough.
fn give_away(
    mut left: Vec<Element>,
    taken: &[Element],
    empties: &[(u64, u64)],
    mut open_pops: Vec<u64>,
) -> Option<Vec<Element>> {
    // From when on, and until when at the latest, an element that was there must be gone.
    let mut limits: Vec<(u64, u64)> = taken
        .iter()
        .map(|element| (element.push.0, element.pop.1))
        .chain(empties.iter().copied())
        .collect();
    limits.sort_unstable();
    for at in (1..limits.len()).rev() {
        limits[at - 1].1 = limits[at - 1].1.min(limits[at].1);
    }
    let deadline = |element: &Element| {
        let first = limits.partition_point(|limit| limit.0 <= element.push.1);
        limits.get(first).map_or(u64::MAX, |limit| limit.1)
    };
    left.sort_by_key(deadline);
    open_pops.sort_unstable();
    let mut open_pops = open_pops.into_iter();
    for element in &mut left {
        let deadline = deadline(element);
        if deadline == u64::MAX {
            break;
        }
        let invoked = open_pops.next().filter(|&invoked| invoked <= deadline)?;
        element.pop = (invoked, u64::MAX);
    }
    Some(left)
}

/// The second and the third condition.
fn is_ordered(elements: &[Element], empties: &[(u64, u64)]) -> bool {
    // When the push was over, and when at the earliest it is taken: between the two it is there. The latest of the second
    // so far, for each of the first.
    let mut there: Vec<(u64, u64)> = elements
        .iter()
        .map(|element| (element.push.1, element.pop.0))
        .collect();
    there.sort_unstable();
    for at in 1..there.len() {
        there[at].1 = there[at].1.max(there[at - 1].1);
    }
    let until = |moment: u64| {
        let count = there.partition_point(|span| span.0 < moment);
        count.checked_sub(1).map_or(0, |last| there[last].1)
    };
    let is_in_order = elements
        .iter()
        .filter(|element| element.is_taken())
        .all(|element| until(element.push.0) <= element.pop.1);
    let is_ever_empty = |&(mut moment, end): &(u64, u64)| {
        while until(moment) > moment {
            moment = until(moment);
        }
        moment <= end
    };
    is_in_order && empties.iter().all(is_ever_empty)
}

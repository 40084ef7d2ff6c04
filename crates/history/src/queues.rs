//! Queues between which elements are moved: each element that was pushed is taken exactly once.
//!
//! An element is pushed once in the whole history, to one queue; moved from queue to queue, as `LMOVE` does; and taken.
//! Whatever the order was, it is taken by one pop, or still in one queue when everything is read at the end; and nothing
//! else is. Not looked at: in which order elements of one queue are taken, and when. A pop of unknown outcome may have taken
//! one element of those that are missing.

use crate::anomaly::{Judgement, Phenomenon};
use crate::transaction::{Outcome, Transactions};
use crate::transaction_text::{self, ActionText, Key};
use std::collections::BTreeMap;
use std::fmt;

/// What a transaction did to the queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// It put an element into a queue that is pushed nowhere else.
    Push {
        /// Into which.
        queue: String,
        /// The element.
        element: i64,
    },
    /// It moved the next element of one queue to another.
    Move {
        /// Out of which.
        from: String,
        /// Into which.
        to: String,
        /// Which one it was; `None` if there was none, or no answer came.
        element: Option<i64>,
    },
    /// It took the next element away.
    Pop {
        /// Out of which queue.
        queue: String,
        /// Which one it was; `None` if there was none, or no answer came.
        element: Option<i64>,
    },
    /// Everything that is left in a queue, read when all others were answered or given up, and nothing is under way.
    Rest {
        /// In which.
        queue: String,
        /// What is in it; `None` if no answer came.
        elements: Option<Vec<i64>>,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write_maybe = |f: &mut fmt::Formatter<'_>, element: &Option<i64>| match element {
            Some(element) => write!(f, " {element}"),
            None => f.write_str(" nil"),
        };
        match self {
            Action::Push { queue, element } => write!(f, "push {} {element}", Key(queue)),
            Action::Move { from, to, element } => {
                write!(f, "move {} {}", Key(from), Key(to))?;
                write_maybe(f, element)
            }
            Action::Pop { queue, element } => {
                write!(f, "pop {}", Key(queue))?;
                write_maybe(f, element)
            }
            Action::Rest { queue, elements } => {
                write!(f, "rest {} ", Key(queue))?;
                transaction_text::write_elements(f, elements.as_deref())
            }
        }
    }
}

impl ActionText for Action {
    fn from_words(words: &mut std::str::SplitAsciiWhitespace<'_>) -> Result<Action, &'static str> {
        let expected = "an element, or `nil`";
        match words.next() {
            Some("push") => Ok(Action::Push {
                queue: transaction_text::key(words)?,
                element: crate::text::number(words, "an element")?,
            }),
            Some("move") => Ok(Action::Move {
                from: transaction_text::key(words)?,
                to: transaction_text::key(words)?,
                element: transaction_text::maybe(words, "nil", expected)?,
            }),
            Some("pop") => Ok(Action::Pop {
                queue: transaction_text::key(words)?,
                element: transaction_text::maybe(words, "nil", expected)?,
            }),
            Some("rest") => Ok(Action::Rest {
                queue: transaction_text::key(words)?,
                elements: transaction_text::elements(words)?,
            }),
            _ => Err("`push`, `move`, `pop` or `rest`"),
        }
    }
}

/// Checks that each element was taken exactly once. Elements may be missing without a rest having been read of a queue: for
/// those nothing is said, and no more than that.
pub fn check(history: &Transactions<Action>) -> Judgement {
    let all = history.as_slice();
    let mut pushed: BTreeMap<i64, usize> = BTreeMap::new();
    let mut queues: BTreeMap<&str, bool> = BTreeMap::new();
    let mut unknown_pops = 0;
    for (index, transaction) in all.iter().enumerate() {
        for action in &transaction.actions {
            match action {
                Action::Push { queue, element } => {
                    queues.entry(queue).or_default();
                    if let Some(other) = pushed.insert(*element, index) {
                        let reason =
                            format!("{element} was pushed twice, so that nobody can tell which was taken");
                        return Judgement::violated(
                            Phenomenon::Unjudgeable,
                            history,
                            vec![other, index],
                            reason,
                        );
                    }
                }
                Action::Move { from, to, .. } => {
                    queues.entry(from).or_default();
                    queues.entry(to).or_default();
                }
                Action::Pop { queue, .. } => {
                    queues.entry(queue).or_default();
                    unknown_pops += usize::from(transaction.outcome == Outcome::Unknown);
                }
                Action::Rest { queue, elements } => {
                    *queues.entry(queue).or_default() |= elements.is_some() && transaction.is_committed();
                }
            }
        }
    }
    let mut taken: BTreeMap<i64, usize> = BTreeMap::new();
    for (index, transaction) in all.iter().enumerate() {
        if !transaction.is_committed() {
            continue;
        }
        for action in &transaction.actions {
            let (seen, is_taken): (&[i64], bool) = match action {
                Action::Push { .. } => continue,
                Action::Move { element, .. } => (element.as_slice(), false),
                Action::Pop { element, .. } => (element.as_slice(), true),
                Action::Rest { elements, .. } => (elements.as_deref().unwrap_or_default(), true),
            };
            for element in seen {
                let Some(&pusher) = pushed.get(element) else {
                    let reason = format!("T{index} found {element}, which nobody pushed");
                    return Judgement::violated(Phenomenon::Unwritten, history, vec![index], reason);
                };
                if all[pusher].outcome == Outcome::Aborted {
                    let reason = format!(
                        "T{index} found {element}, which T{pusher} pushed, and T{pusher} was aborted"
                    );
                    return Judgement::violated(
                        Phenomenon::AbortedRead,
                        history,
                        vec![pusher, index],
                        reason,
                    );
                }
                if all[pusher].invoked > transaction.ended() {
                    let reason =
                        format!("T{index} found {element} before T{pusher}, which pushed it, was called");
                    return Judgement::violated(Phenomenon::Unwritten, history, vec![index, pusher], reason);
                }
                if let Some(other) = is_taken.then(|| taken.insert(*element, index)).flatten() {
                    let reason = format!("{element} was taken by both, or taken and still there");
                    return Judgement::violated(Phenomenon::TakenTwice, history, vec![other, index], reason);
                }
            }
        }
    }
    if queues.values().any(|is_read| !is_read) {
        return Judgement::Clean;
    }
    let missing: Vec<(i64, usize)> = pushed
        .into_iter()
        .filter(|(element, pusher)| all[*pusher].is_committed() && !taken.contains_key(element))
        .collect();
    if missing.len() <= unknown_pops {
        return Judgement::Clean;
    }
    let reason = format!(
        "{} elements are nowhere, {} pops may have taken one each; the first missing one is {}",
        missing.len(),
        unknown_pops,
        missing[0].0
    );
    let pushers = missing.iter().map(|&(_, pusher)| pusher).collect();
    Judgement::violated(Phenomenon::LostElement, history, pushers, reason)
}

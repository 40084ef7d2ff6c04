//! FoundationDB's cycle test: keys that point at each other form one ring, every transaction changes the order of a few
//! of them, and whoever reads all of them sees one ring of all keys.
//!
//! Half a change, or two changes on top of each other, make two rings of it or leave keys out. A change that is lost leaves
//! a ring: this is a test of atomicity and isolation alone.

use crate::anomaly::{Judgement, Phenomenon};
use crate::transaction::Transactions;
use crate::transaction_text::{self, ActionText, Key};
use std::collections::BTreeMap;
use std::fmt;

/// What a transaction did to the ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// It read where some keys point, beginning at this one, and let them point elsewhere.
    Swap(String),
    /// It read where each key points; `None` if no answer came.
    Whole(Option<Vec<(String, String)>>),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Swap(key) => write!(f, "swap {}", Key(key)),
            Action::Whole(None) => f.write_str("whole ?"),
            Action::Whole(Some(pointers)) => {
                f.write_str("whole")?;
                pointers
                    .iter()
                    .try_for_each(|(from, to)| write!(f, " {} {}", Key(from), Key(to)))
            }
        }
    }
}

impl ActionText for Action {
    fn from_words(words: &mut std::str::SplitAsciiWhitespace<'_>) -> Result<Action, &'static str> {
        match words.next() {
            Some("swap") => Ok(Action::Swap(transaction_text::key(words)?)),
            Some("whole") => {
                let mut rest = words.clone();
                if rest.next() == Some("?") && rest.next().is_none() {
                    words.next();
                    return Ok(Action::Whole(None));
                }
                let mut pointers = Vec::new();
                while words.clone().next().is_some() {
                    pointers.push((transaction_text::key(words)?, transaction_text::key(words)?));
                }
                Ok(Action::Whole(Some(pointers)))
            }
            _ => Err("`swap` or `whole`"),
        }
    }
}

/// Checks that every read of the whole shows one ring of `count` keys.
pub fn check(history: &Transactions<Action>, count: usize) -> Judgement {
    for (index, transaction) in history.as_slice().iter().enumerate() {
        if !transaction.is_committed() {
            continue;
        }
        for action in &transaction.actions {
            if let Action::Whole(Some(pointers)) = action
                && let Some(reason) = wrong(index, pointers, count)
            {
                return Judgement::violated(Phenomenon::BrokenRing, history, vec![index], reason);
            }
        }
    }
    Judgement::Clean
}

/// What is wrong with one read of the whole.
fn wrong(index: usize, pointers: &[(String, String)], count: usize) -> Option<String> {
    let ring: BTreeMap<&str, &str> = pointers
        .iter()
        .map(|(from, to)| (from.as_str(), to.as_str()))
        .collect();
    if ring.len() != count || pointers.len() != count {
        return Some(format!(
            "T{index} shows {} keys in {} pointers, and the ring has {count}",
            ring.len(),
            pointers.len()
        ));
    }
    let (&first, _) = ring.first_key_value()?;
    let mut at = first;
    for step in 1..=count {
        let Some(&next) = ring.get(at) else {
            return Some(format!("in T{index}, {at:?} is pointed at, and is no key"));
        };
        at = next;
        if at == first && step < count {
            return Some(format!(
                "T{index} shows a ring of {step} keys through {first:?}, and there are {count}"
            ));
        }
    }
    (at != first).then(|| format!("in T{index}, whoever starts at {first:?} never comes back to it"))
}

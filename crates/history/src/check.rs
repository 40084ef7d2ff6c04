//! The verdict on a history.

use crate::fifo::{self, Fifo};
use crate::history::History;
use crate::model::Step;
use crate::model::counter::Counter;
use crate::model::list::Growing;
use crate::model::member::Member;
use crate::model::register::Register;
use crate::operation::{Answer, Call, Family, Operation};
use crate::queue_order;
use crate::search::{Found, search};
use std::fmt;

/// Most situations that are looked at for one object: some hundred megabytes. Beyond it the verdict is
/// [`Verdict::Undecided`].
pub const STATES_MAX: usize = 4_000_000;

/// Most operations that an explanation shows of each kind; the others are counted.
const SHOWN_MAX: usize = 16;

/// What is to be said of a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every object's operations have an order that explains all answers.
    Linearizable,
    /// Some object's do not.
    Violated(Box<Violation>),
    /// No violation was found, and the search was given up: a failure to be looked at, not a success.
    Undecided(Undecided),
}

/// A search that was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undecided {
    /// The object's key.
    pub key: String,
    /// How many operations it has.
    pub operations: usize,
    /// How many situations were looked at.
    pub states: usize,
}

/// What no single machine could have shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The object's key.
    pub key: String,
    /// As what it was used.
    pub family: Family,
    /// The answer that cannot be: without it, and all that was called or answered later, there is an order.
    pub broken: Operation,
    /// How many operations were called until then.
    pub prefix: usize,
    /// Those that speak of the same values, or that were under way at the same time, in the order of their calls.
    pub involved: Vec<Operation>,
    /// The longest order that explains some of the answers, its end.
    pub way: Vec<Operation>,
}

/// Checks a history object by object. Where several are violated, the one that was violated first is reported.
pub fn check(history: &History) -> Verdict {
    check_bounded(history, STATES_MAX)
}

/// The same with a limit of its own on the situations that are looked at for each object.
pub fn check_bounded(history: &History, states_max: usize) -> Verdict {
    let mut violation: Option<Violation> = None;
    let mut undecided = None;
    for ((key, family), operations) in history.objects() {
        match search_until(family, &operations, u64::MAX, states_max) {
            Found::Way => {}
            Found::Limit => {
                undecided.get_or_insert(Undecided {
                    key: key.to_owned(),
                    operations: operations.len(),
                    states: states_max,
                });
            }
            Found::NoWay(way) => {
                let found = explain(key, family, &operations, way, states_max);
                if violation
                    .as_ref()
                    .is_none_or(|first| found.broken.returned < first.broken.returned)
                {
                    violation = Some(found);
                }
            }
        }
    }
    match (violation, undecided) {
        (Some(violation), _) => Verdict::Violated(Box::new(violation)),
        (None, Some(undecided)) => Verdict::Undecided(undecided),
        (None, None) => Verdict::Linearizable,
    }
}

/// Searches what was known at the moment `until`: what was answered later is open, what was called later is not there.
fn search_until(family: Family, operations: &[&Operation], until: u64, states_max: usize) -> Found {
    let steps: Vec<Step<'_>> = operations
        .iter()
        .take_while(|operation| operation.invoked <= until)
        .map(|operation| {
            let returned = operation.returned.filter(|&returned| returned <= until);
            let (returned, answer) = match returned {
                Some(returned) if !operation.is_open() => (returned, &operation.answer),
                _ => (u64::MAX, &Answer::Unknown),
            };
            Step {
                process: operation.process.0,
                invoked: operation.invoked,
                returned,
                call: operation.call,
                answer,
            }
        })
        .collect();
    match family {
        Family::Register => search(&Register::new(&steps), &steps, states_max),
        Family::Counter => search(&Counter::new(&steps), &steps, states_max),
        Family::List => search(&Growing::new(&steps), &steps, states_max),
        Family::Queue => match fifo::judge(&steps) {
            Fifo::Ordered => Found::Way,
            Fifo::Disordered => Found::NoWay(Vec::new()),
            Fifo::Unclear => queue_order::search(&steps, states_max),
        },
        Family::Member(_) => search(&Member::new(&steps), &steps, states_max),
    }
}

/// Finds the first answer that cannot be. What holds for a history holds for its prefixes, so halving finds it.
fn explain(
    key: &str,
    family: Family,
    operations: &[&Operation],
    mut way: Vec<usize>,
    states_max: usize,
) -> Violation {
    let mut answered: Vec<(u64, usize)> = operations
        .iter()
        .enumerate()
        .filter(|(_, operation)| !operation.is_open())
        .filter_map(|(index, operation)| operation.returned.map(|returned| (returned, index)))
        .collect();
    answered.sort_unstable();
    let (mut low, mut high) = (0, answered.len() - 1);
    while low < high {
        let middle = usize::midpoint(low, high);
        match search_until(family, operations, answered[middle].0, states_max) {
            Found::NoWay(shorter) => {
                way = shorter;
                high = middle;
            }
            Found::Way | Found::Limit => low = middle + 1,
        }
    }
    let (until, broken) = answered[high];
    let broken = operations[broken];
    let named = values(broken);
    let prefix: Vec<&Operation> = operations
        .iter()
        .copied()
        .take_while(|operation| operation.invoked <= until)
        .collect();
    let involved = prefix.iter().copied().filter(|&operation| {
        let is_under_way = operation
            .returned
            .is_none_or(|returned| returned >= broken.invoked);
        operation != broken
            && ((is_under_way && !operation.is_open())
                || values(operation).iter().any(|value| named.contains(value)))
    });
    let mut involved: Vec<Operation> = involved.cloned().collect();
    involved.drain(..involved.len().saturating_sub(SHOWN_MAX));
    let tail = way.len().saturating_sub(SHOWN_MAX);
    Violation {
        key: key.to_owned(),
        family,
        broken: broken.clone(),
        prefix: prefix.len(),
        involved,
        way: way[tail..]
            .iter()
            .map(|&index| operations[index].clone())
            .collect(),
    }
}

/// The values that an operation speaks of; of a list the last one, which is what is new in it.
fn values(operation: &Operation) -> Vec<i64> {
    let mut values = match operation.call {
        Call::Set(value) | Call::Swap(value) | Call::Append(value) | Call::Push(value) => vec![value],
        Call::Cas(from, to) => vec![from, to],
        _ => Vec::new(),
    };
    match &operation.answer {
        Answer::Value(Some(value)) => values.push(*value),
        Answer::Elements(elements) => values.extend(elements.last()),
        _ => {}
    }
    values
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "no order of the operations on {:?} explains this answer:",
            self.key
        )?;
        writeln!(f, "    {}", self.broken)?;
        writeln!(
            f,
            "({} operations were called until then; without this answer there is an order.)",
            self.prefix
        )?;
        if !self.involved.is_empty() {
            writeln!(f, "operations of the same values, or under way at the same time:")?;
            for operation in &self.involved {
                writeln!(f, "    {operation}")?;
            }
        }
        if !self.way.is_empty() {
            writeln!(f, "the longest order that explains some answers ends with:")?;
        }
        for operation in &self.way {
            writeln!(f, "    {operation}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "undecided: {} operations on {:?}, given up after {} situations",
            self.operations, self.key, self.states
        )
    }
}

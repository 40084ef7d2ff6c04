//! One value.

use crate::model::{Model, Next, Step};
use crate::operation::{Answer, Call};
use std::collections::{BTreeMap, BTreeSet};

/// A register that has no value at first.
pub(crate) struct Register<'a> {
    steps: &'a [Step<'a>],
    facts: BTreeMap<Option<i64>, Facts>,
    /// What some answer says the value was not: it matters what was written over these, also if it was never seen.
    denied: BTreeSet<i64>,
}

#[derive(Default)]
struct Facts {
    /// How many operations write it. The beginning writes `None`.
    writers: u32,
    /// How many operations certainly saw it.
    observers: u32,
    /// How many open operations may need it, to write what is needed in turn.
    hopefuls: u32,
}

/// The value, and how many of those who certainly saw it are still to come; 0 if it is written more than once, as then
/// they may come later.
#[derive(Clone, Hash)]
pub(crate) struct Held {
    value: Option<i64>,
    owed: u32,
}

impl<'a> Register<'a> {
    pub(crate) fn new(steps: &'a [Step<'a>]) -> Register<'a> {
        let mut facts: BTreeMap<Option<i64>, Facts> = BTreeMap::new();
        let mut denied = BTreeSet::new();
        // What open operations may have made of what.
        let mut open_cas: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        facts.entry(None).or_default().writers = 1;
        for step in steps {
            if let Call::Set(value) | Call::Swap(value) | Call::Cas(_, value) = step.call
                && *step.answer != Answer::Held(false)
            {
                facts.entry(Some(value)).or_default().writers += 1;
            }
            match (step.call, step.answer) {
                (Call::Get | Call::Swap(_), Answer::Value(seen)) => {
                    facts.entry(*seen).or_default().observers += 1;
                }
                (Call::Cas(from, _), Answer::Held(true)) => {
                    facts.entry(Some(from)).or_default().observers += 1;
                }
                (Call::Cas(from, _), Answer::Held(false)) => {
                    denied.insert(from);
                }
                (Call::Cas(from, to), Answer::Unknown) => open_cas.entry(to).or_default().push(from),
                _ => {}
            }
        }
        // A chain of open operations is of use only if somebody saw what it leads to. Each link is followed once.
        let seen = facts.iter().filter(|(_, facts)| facts.observers > 0);
        let mut useful: Vec<i64> = seen.filter_map(|(value, _)| *value).collect();
        while let Some(value) = useful.pop() {
            for from in open_cas.remove(&value).unwrap_or_default() {
                facts.entry(Some(from)).or_default().hopefuls += 1;
                useful.push(from);
            }
        }
        Register { steps, facts, denied }
    }

    fn facts(&self, value: Option<i64>) -> (u32, u32, u32) {
        self.facts.get(&value).map_or((0, 0, 0), |facts| {
            (facts.writers, facts.observers, facts.hopefuls)
        })
    }

    fn hold(&self, value: Option<i64>) -> Held {
        let (writers, observers, _) = self.facts(value);
        let owed = if writers == 1 { observers } else { 0 };
        Held { value, owed }
    }

    /// After one of those who certainly saw the value, which stays.
    fn seen(held: &Held) -> Held {
        Held {
            value: held.value,
            owed: held.owed.saturating_sub(1),
        }
    }

    /// Writes `value` over the one that is held, `paid` of whose observers is the writer itself.
    fn write(&self, held: &Held, value: i64, paid: u32, is_open: bool) -> Next<Held> {
        // Written once and still to be seen: it never comes back, so the others must come first.
        if held.owed > paid {
            return Next::NotYet;
        }
        let (writers, ..) = self.facts(Some(value));
        let is_noticed = self.is_noticed(value);
        if is_open && !is_noticed && !self.is_denied(held.value) {
            // Without it the held value would stay for longer, which nobody can tell: leaving it out is always possible.
            return Next::NotYet;
        }
        let next = self.hold(Some(value));
        let (held_writers, _, held_hopefuls) = self.facts(held.value);
        // Nobody will see the held value again.
        let is_final = held_writers == 1 && held_hopefuls == 0 && !is_open;
        // And nobody ever sees this one: written now, it is between two others that do not look.
        let is_lost = writers == 1 && !is_noticed && self.denied.is_empty();
        // The writer saw the held value itself, as the last one that does: nothing else can come before it. Who says that
        // the value was another than this one may come before.
        let is_next = paid == 1 && !self.is_denied(Some(value));
        if is_final && (is_lost || is_next) {
            Next::Surely(next)
        } else {
            Next::Perhaps(next)
        }
    }

    /// Whether it may matter that `value` was written, as somebody saw it or what was made of it.
    fn is_noticed(&self, value: i64) -> bool {
        let (_, observers, hopefuls) = self.facts(Some(value));
        observers > 0 || hopefuls > 0
    }

    fn is_denied(&self, value: Option<i64>) -> bool {
        value.is_some_and(|value| self.denied.contains(&value))
    }

    fn is_ever(&self, value: Option<i64>) -> bool {
        self.facts(value).0 > 0
    }
}

impl Model for Register<'_> {
    type State = Held;

    fn start(&self) -> Held {
        self.hold(None)
    }

    fn next(&self, held: &Held, index: usize) -> Next<Held> {
        let step = &self.steps[index];
        let is_unique = self.facts(held.value).0 == 1;
        match (step.call, step.answer) {
            (Call::Get, Answer::Value(seen)) if *seen == held.value => Next::Surely(Self::seen(held)),
            (Call::Get | Call::Swap(_), Answer::Value(seen)) if !self.is_ever(*seen) => Next::Never,
            (Call::Get, Answer::Value(_)) => Next::NotYet,
            // It changes nothing and nobody knows what it saw.
            (Call::Get, _) => Next::NotYet,
            (Call::Set(value), _) => self.write(held, value, 0, step.is_open()),
            (Call::Swap(value), Answer::Value(seen)) if *seen == held.value => {
                self.write(held, value, u32::from(is_unique), false)
            }
            (Call::Swap(_), Answer::Value(_)) => Next::NotYet,
            (Call::Swap(value), _) => self.write(held, value, 0, step.is_open()),
            (Call::Cas(from, _), Answer::Held(true)) if !self.is_ever(Some(from)) => Next::Never,
            (Call::Cas(from, to), Answer::Held(true)) if held.value == Some(from) => {
                self.write(held, to, u32::from(is_unique), false)
            }
            (Call::Cas(from, _), Answer::Held(false)) if held.value != Some(from) => {
                // It changes nothing, so it can come first.
                Next::Surely(held.clone())
            }
            (Call::Cas(..), Answer::Held(_)) => Next::NotYet,
            (Call::Cas(from, to), _) if held.value == Some(from) => self.write(held, to, 0, step.is_open()),
            (Call::Cas(..), _) => Next::NotYet,
            _ => Next::Never,
        }
    }

    fn class(&self, index: usize) -> u64 {
        match self.steps[index].call {
            // Nobody can tell one of these values from the other.
            Call::Set(value) | Call::Swap(value)
                if !self.is_noticed(value) && !self.is_denied(Some(value)) =>
            {
                u64::MAX
            }
            // Values are written by one operation each, as a rule.
            _ => index as u64,
        }
    }

    fn rank(&self, index: usize) -> u64 {
        self.steps[index].returned
    }
}

//! One value.

use crate::model::{Model, Next, Step};
use crate::operation::{Answer, Call};
use std::collections::BTreeMap;

/// A register that has no value at first.
pub(crate) struct Register<'a> {
    steps: &'a [Step<'a>],
    facts: BTreeMap<Option<i64>, Facts>,
    /// Whether some answer says what the value was not: then it matters also what was never seen.
    has_failures: bool,
}

#[derive(Default)]
struct Facts {
    /// How many operations write it. The beginning writes `None`.
    writers: u32,
    /// How many operations certainly saw it.
    observers: u32,
    /// How many open operations may need it.
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
        let mut has_failures = false;
        facts.entry(None).or_default().writers = 1;
        for step in steps {
            if let Call::Set(value) | Call::Swap(value) | Call::Cas(_, value) = step.call {
                if *step.answer == Answer::Held(false) {
                    has_failures = true;
                } else {
                    facts.entry(Some(value)).or_default().writers += 1;
                }
            }
            match (step.call, step.answer) {
                (Call::Get | Call::Swap(_), Answer::Value(seen)) => {
                    facts.entry(*seen).or_default().observers += 1;
                }
                (Call::Cas(from, _), Answer::Held(true)) => {
                    facts.entry(Some(from)).or_default().observers += 1;
                }
                (Call::Cas(from, _), Answer::Unknown) => {
                    facts.entry(Some(from)).or_default().hopefuls += 1;
                }
                _ => {}
            }
        }
        Register {
            steps,
            facts,
            has_failures,
        }
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
        let (writers, observers, hopefuls) = self.facts(Some(value));
        let is_noticed = observers > 0 || hopefuls > 0;
        if is_open && !is_noticed && !self.has_failures {
            // Nobody can tell whether it happened: leaving it out is always possible.
            return Next::NotYet;
        }
        let next = self.hold(Some(value));
        let (held_writers, _, held_hopefuls) = self.facts(held.value);
        let is_final = held_writers == 1 && held_hopefuls == 0 && !self.has_failures;
        // Nobody will see the held value again, and nobody ever sees this one: written now, it is between two others
        // that do not look.
        let is_lost = writers == 1 && !is_noticed;
        // The writer saw the held value itself, as the last one that does: nothing else can come before it.
        if is_final && !is_open && (is_lost || paid == 1) {
            Next::Surely(next)
        } else {
            Next::Perhaps(next)
        }
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
        // Values are written by one operation each, as a rule.
        index as u64
    }

    fn rank(&self, index: usize) -> u64 {
        self.steps[index].returned
    }
}

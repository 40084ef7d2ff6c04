//! Pointers that form a ring, in which two neighbours change places: it is always one ring, and whole.

use super::{Checked, Draw, End, Reading, Step, Workload, clean, command};
use history::ring::{self, Action};
use history::{Transaction, Transactions};

/// See the file's header.
#[derive(Default)]
pub(crate) struct Ring {
    history: Vec<Transaction<Action>>,
    /// When the ring was there at the latest.
    made: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// The ring is made, if there is none.
    Open,
    /// The two keys behind this one change places.
    Swap(i64),
    Whole(Reading),
}

impl Workload for Ring {
    type Task = Task;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Task {
        match draw.is_read {
            true => Task::Whole(draw.how),
            false => Task::Swap(draw.below(draw.keys) as i64),
        }
    }

    fn read_all(&self, _: u64) -> Option<Task> {
        Some(Task::Whole(Reading::InBlock))
    }

    fn setup(&self, task: &Task) -> Option<Task> {
        let is_needed = self.made.is_none() && !matches!(task, Task::Open);
        is_needed.then_some(Task::Open)
    }

    fn again(&mut self, task: &Task) -> Option<Task> {
        // What needs it asks for it.
        let is_asked = !matches!(task, Task::Open);
        is_asked.then(|| task.clone())
    }

    fn step(&mut self, task: &Task, seen: &[i64], keys: u64, _: u64) -> Option<Step> {
        let first = match *task {
            Task::Open => {
                let next = |key| ((key + 1) % keys) as i64;
                return Some(Step::set("MSETNX", "tr", keys, next));
            }
            Task::Whole(how) => return Some(Step::read("tr", keys, how)),
            Task::Swap(first) => first,
        };
        let key = |number: i64| format!("tr{number}");
        match *seen {
            [] => Some(Step::watch(&[key(first)])),
            [next] | [_, next] => Some(Step::watch(&[key(next)])),
            [second, third, fourth] if second != third && first != third => Some(Step::block([
                command!["SET", key(first), third],
                command!["SET", key(third), second],
                command!["SET", key(second), fourth],
            ])),
            _ => None,
        }
    }

    fn on_end(&mut self, task: &Task, end: &End<'_>, _: u64) -> Result<(), String> {
        let action = match task {
            Task::Open => {
                self.made = end.makes(self.made);
                return Ok(());
            }
            Task::Swap(key) => Action::Swap(format!("tr{key}")),
            Task::Whole(_) => {
                let Some(seen) = end.made(self.made, "pointers")? else {
                    return Ok(());
                };
                let pointer = |(from, to): (usize, i64)| (format!("tr{from}"), format!("tr{to}"));
                Action::Whole(seen.map(|all| all.into_iter().enumerate().map(pointer).collect()))
            }
        };
        self.history.push(end.transaction(vec![action]));
        Ok(())
    }

    fn check(self, keys: u64) -> Checked {
        let history = Transactions::new(self.history);
        (
            history.len(),
            clean(ring::check(&history, keys as usize)),
            history.to_string(),
        )
    }
}

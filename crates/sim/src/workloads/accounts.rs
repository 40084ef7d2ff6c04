//! Accounts between which money moves: their total stays the same.

use super::{Checked, Draw, End, Reading, Step, Workload, clean, command};
use history::bank::{self, Action};
use history::{Transaction, Transactions};

/// What each account begins with.
const OPENING: i64 = 100;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Accounts {
    history: Vec<Transaction<Action>>,
    /// When the accounts were there at the latest.
    made: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// The accounts are made, if there are none.
    Open,
    Transfer {
        from: u64,
        to: u64,
        amount: i64,
        is_watched: bool,
    },
    Balances(Reading),
}

impl Workload for Accounts {
    type Task = Task;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Task {
        if draw.is_read {
            return Task::Balances(draw.how);
        }
        let [from, to] = draw.two_keys();
        Task::Transfer {
            from,
            to,
            amount: 1 + draw.below(60) as i64,
            is_watched: draw.below(3) == 0,
        }
    }

    fn read_all(&self, _: u64) -> Option<Task> {
        Some(Task::Balances(Reading::AtOnce))
    }

    fn setup(&self, task: &Task) -> Option<Task> {
        let is_needed = self.made.is_none() && !matches!(task, Task::Open);
        is_needed.then_some(Task::Open)
    }

    fn again(&mut self, task: &Task) -> Option<Task> {
        match task {
            // What needs them asks for them.
            Task::Open => None,
            // Nothing forbids that a transfer is refused for ever.
            Task::Transfer { .. } => None,
            Task::Balances(_) => Some(task.clone()),
        }
    }

    fn step(&mut self, task: &Task, seen: &[i64], keys: u64, _: u64) -> Option<Step> {
        let (from, to, amount, is_watched) = match *task {
            Task::Open => return Some(Step::set("MSETNX", "ta", keys, |_| OPENING)),
            Task::Balances(how) => return Some(Step::read("ta", keys, how)),
            Task::Transfer {
                from,
                to,
                amount,
                is_watched,
            } => (format!("ta{from}"), format!("ta{to}"), amount, is_watched),
        };
        match seen {
            _ if !is_watched => Some(Step::one(command!["XFER", from, to, amount])),
            [] => Some(Step::watch(&[from, to])),
            [here, there] if *here >= amount => Some(Step::block([
                command!["SET", from, here - amount],
                command!["SET", to, there + amount],
            ])),
            _ => None,
        }
    }

    fn on_end(&mut self, task: &Task, end: &End<'_>, _: u64) -> Result<(), String> {
        let action = match *task {
            Task::Open => {
                self.made = end.makes(self.made);
                return Ok(());
            }
            Task::Transfer { from, to, amount, .. } => Action::Transfer {
                from: format!("ta{from}"),
                to: format!("ta{to}"),
                amount,
            },
            Task::Balances(_) => {
                let Some(seen) = end.made(self.made, "accounts")? else {
                    return Ok(());
                };
                let named = |all: Vec<i64>| (0..).map(|key| format!("ta{key}")).zip(all).collect();
                Action::Balances(seen.map(named))
            }
        };
        self.history.push(end.transaction(vec![action]));
        Ok(())
    }

    fn check(self, keys: u64) -> Checked {
        let history = Transactions::new(self.history);
        let opening = (0..keys).map(|key| (format!("ta{key}"), OPENING)).collect();
        (
            history.len(),
            clean(bank::check(&history, &opening)),
            history.to_string(),
        )
    }
}

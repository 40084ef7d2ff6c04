//! Lists that only grow: whoever reads one sees who appended before him, and in which order.

use super::{Checked, Draw, End, Step, Workload, clean, command};
use crate::reply::Reply;
use history::list_append::{self, Action};
use history::{Transaction, Transactions};

/// What was done to lists that only grow, by whatever commands.
#[derive(Default)]
pub(crate) struct ListHistory {
    transactions: Vec<Transaction<Action>>,
    last_element: i64,
}

impl ListHistory {
    /// An element that was appended nowhere.
    pub(crate) fn next_element(&mut self) -> i64 {
        self.last_element += 1;
        self.last_element
    }

    /// What a reply to an append, or to a read if there is no element, says was done; no reply if none came.
    ///
    /// # Errors
    /// If no server may answer so.
    pub(crate) fn action(
        key: String,
        element: Option<i64>,
        reply: Option<&Reply>,
        end: &End<'_>,
    ) -> Result<Action, String> {
        match (element, reply) {
            (_, Some(Reply::Error(_))) => Err(end.unexpected()),
            (Some(element), _) => Ok(Action::Append { key, element }),
            (None, reply) => {
                let elements = reply.map(|reply| reply.numbers().ok_or_else(|| end.unexpected()));
                let elements = elements.transpose()?;
                Ok(Action::Read { key, elements })
            }
        }
    }

    /// A transaction is over.
    pub(crate) fn push(&mut self, end: &End<'_>, actions: Vec<Action>) {
        self.transactions.push(end.transaction(actions));
    }

    /// Judges what was seen.
    pub(crate) fn check(self) -> Checked {
        let history = Transactions::new(self.transactions);
        (
            history.len(),
            clean(list_append::check(&history)),
            history.to_string(),
        )
    }
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct Lists {
    history: ListHistory,
}

impl Workload for Lists {
    /// `MULTI`: appends of these elements to lists, and reads of lists.
    type Task = Vec<(u64, Option<i64>)>;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Self::Task {
        let count = 1 + draw.below(4);
        let operations = (0..count).map(|_| {
            let key = draw.below(draw.keys);
            let appends = !draw.is_read && draw.below(3) > 0;
            (key, appends.then(|| self.history.next_element()))
        });
        operations.collect()
    }

    fn read_all(&self, keys: u64) -> Option<Self::Task> {
        Some((0..keys).map(|key| (key, None)).collect())
    }

    fn again(&mut self, task: &Self::Task) -> Option<Self::Task> {
        let operations = task.iter();
        let again = operations.map(|(key, element)| (*key, element.map(|_| self.history.next_element())));
        Some(again.collect())
    }

    fn step(&mut self, task: &Self::Task, _: &[i64], _: u64, _: u64) -> Option<Step> {
        Some(Step::block(task.iter().map(|(key, element)| match element {
            Some(element) => command!["RPUSH", format!("tl{key}"), element],
            None => command!["LRANGE", format!("tl{key}"), "0", "-1"],
        })))
    }

    fn on_end(&mut self, task: &Self::Task, end: &End<'_>, _: u64) -> Result<(), String> {
        let action = |(index, (key, element)): (usize, &(u64, Option<i64>))| {
            let reply = end.told.map(|told| &told[index]);
            ListHistory::action(format!("tl{key}"), *element, reply, end)
        };
        let actions: Result<Vec<Action>, String> = task.iter().enumerate().map(action).collect();
        self.history.push(end, actions?);
        Ok(())
    }

    fn check(self, _: u64) -> Checked {
        self.history.check()
    }
}

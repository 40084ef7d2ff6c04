//! Lists that only grow: whoever reads one sees who appended before him, and in which order.

use super::{Checked, Draw, End, Step, Workload, clean, command};
use crate::reply::Reply;
use history::list_append::{self, Action};
use history::{Transaction, Transactions};

/// See the file's header.
#[derive(Default)]
pub(crate) struct Lists {
    history: Vec<Transaction<Action>>,
    last_element: i64,
}

impl Workload for Lists {
    /// `MULTI`: appends of these elements to lists, and reads of lists.
    type Task = Vec<(u64, Option<i64>)>;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Self::Task {
        let count = 1 + draw.below(4);
        let operations = (0..count).map(|_| {
            let key = draw.below(draw.keys);
            let appends = !draw.is_read && draw.below(3) > 0;
            (key, appends.then(|| self.next_element()))
        });
        operations.collect()
    }

    fn read_all(&self, keys: u64) -> Option<Self::Task> {
        Some((0..keys).map(|key| (key, None)).collect())
    }

    fn again(&mut self, task: &Self::Task) -> Option<Self::Task> {
        let operations = task.iter();
        let again = operations.map(|(key, element)| (*key, element.map(|_| self.next_element())));
        Some(again.collect())
    }

    fn step(&mut self, task: &Self::Task, _: &[i64], _: u64, _: u64) -> Option<Step> {
        Some(Step::block(task.iter().map(|(key, element)| match element {
            Some(element) => command!["RPUSH", format!("tl{key}"), element],
            None => command!["LRANGE", format!("tl{key}"), "0", "-1"],
        })))
    }

    fn on_end(&mut self, task: &Self::Task, end: &End<'_>, _: u64) -> Result<(), String> {
        let mut replies = end.told.into_iter().flatten();
        if replies.any(|reply| matches!(reply, Reply::Error(_))) {
            return Err(end.unexpected());
        }
        let action = |(index, (key, element)): (usize, &(u64, Option<i64>))| {
            let key = format!("tl{key}");
            if let Some(element) = *element {
                return Ok(Action::Append { key, element });
            }
            let elements = end
                .told
                .map(|told| told[index].numbers().ok_or_else(|| end.unexpected()));
            let elements = elements.transpose()?;
            Ok(Action::Read { key, elements })
        };
        let actions: Result<Vec<Action>, String> = task.iter().enumerate().map(action).collect();
        self.history.push(end.transaction(actions?));
        Ok(())
    }

    fn check(self, _: u64) -> Checked {
        let history = Transactions::new(self.history);
        (
            history.len(),
            clean(list_append::check(&history)),
            history.to_string(),
        )
    }
}

impl Lists {
    fn next_element(&mut self) -> i64 {
        self.last_element += 1;
        self.last_element
    }
}

//! Counters whose requests have names and are sent again and again: each is carried out once.

use super::{Checked, Draw, End, Step, Workload, command};
use crate::clock::{MILLIS, WALL_START_MILLIS};
use crate::reply::Reply;
use std::collections::BTreeMap;

/// Requests that may be sent once more.
const AGAIN_MAX: u64 = 4;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Named {
    /// Of each request by its number, when it was first sent, in milliseconds.
    sent: Vec<Option<u64>>,
    /// What each was answered.
    drawn: BTreeMap<u64, Vec<i64>>,
}

impl Workload for Named {
    /// Counters are incremented by the request of this number, one or two of them: the same every time.
    type Task = u64;

    /// A new request, or one of the last once more.
    fn draw(&mut self, draw: &mut Draw<'_>) -> u64 {
        let count = self.sent.len() as u64;
        if count == 0 || draw.below(2) == 0 {
            self.sent.push(None);
            return count;
        }
        count - 1 - draw.below(count.min(AGAIN_MAX))
    }

    fn read_all(&self, _: u64) -> Option<u64> {
        None
    }

    fn step(&mut self, task: &u64, _: &[i64], _: u64, now: u64) -> Option<Step> {
        let made = *self.sent[*task as usize].get_or_insert(now / MILLIS);
        let millis = WALL_START_MILLIS as u64 + made;
        let (high, low) = (millis >> 16, millis & 0xffff);
        let id = format!("{high:08x}-{low:04x}-7000-8000-{task:012x}");
        let mut step = match task.is_multiple_of(3) {
            true => Step::one(command!["INCR", "tn0"]),
            false => Step::block(["tn0", "tn1"].map(|key| command!["INCR", key])),
        };
        step.commands.insert(0, command!["CLIENT", "REQUEST", id]);
        Some(step)
    }

    fn on_end(&mut self, task: &u64, end: &End<'_>, _: u64) -> Result<(), String> {
        let Some(told) = end.told else { return Ok(()) };
        let drawn = |reply: &Reply| match reply {
            Reply::Number(number) => Some(*number),
            _ => None,
        };
        let drawn: Option<Vec<i64>> = told.iter().map(drawn).collect();
        let drawn = drawn.ok_or_else(|| end.unexpected())?;
        if drawn.iter().any(|drawn| *drawn > self.sent.len() as i64) {
            return Err(format!(
                "requests are carried out more often than there are: {drawn:?}"
            ));
        }
        for (other, others) in &self.drawn {
            let has_common = others.iter().zip(&drawn).any(|(one, other)| one == other);
            let is_right = if other == task {
                *others == drawn
            } else {
                !has_common
            };
            if !is_right {
                return Err(format!(
                    "request {task} drew {drawn:?}, request {other} {others:?}"
                ));
            }
        }
        self.drawn.insert(*task, drawn);
        Ok(())
    }

    /// What is wrong is seen at once.
    fn check(self, _: u64) -> Checked {
        (self.drawn.len(), Ok(()), format!("drawn: {:?}", self.drawn))
    }
}

//! A database that is emptied and filled with the keys of a generation as a whole: nobody sees keys of two.

use super::registers::Registers;
use super::{Checked, Command, Draw, End, Sent, Step, Workload, command};
use crate::reply::Reply;
use history::{Answer, Call};
use std::collections::BTreeSet;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Database {
    registers: Registers,
    last_generation: i64,
}

#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// A database is emptied and filled with the keys of a generation.
    Refill { generation: i64, how: Refilling },
    /// What is in that database.
    Census(Counting),
}

/// How a database comes to hold a generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refilling {
    /// It is emptied, and filled.
    Flush,
    /// And a key is moved to another group and back.
    Move,
    /// Another one is emptied, filled, and takes its place.
    Swap,
}

/// How the keys of a database are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counting {
    /// Nothing else is asked.
    Read,
    /// Together with something that may write.
    Beside,
    /// Together with something that may move values between groups.
    Across,
}

impl Workload for Database {
    type Task = Task;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Task {
        if draw.is_read {
            return Task::Census(draw.one_of(&[Counting::Read, Counting::Beside, Counting::Across]));
        }
        let how = draw.one_of(&[Refilling::Flush, Refilling::Move, Refilling::Swap]);
        self.refill(how)
    }

    fn read_all(&self, _: u64) -> Option<Task> {
        Some(Task::Census(Counting::Read))
    }

    fn again(&mut self, task: &Task) -> Option<Task> {
        Some(match task {
            Task::Refill { how, .. } => self.refill(*how),
            Task::Census(_) => task.clone(),
        })
    }

    fn step(&mut self, task: &Task, _: &[i64], keys: u64, _: u64) -> Option<Step> {
        Some(match *task {
            Task::Refill { generation, how } => refill(generation, how, keys),
            Task::Census(how) => {
                let beside = match how {
                    Counting::Read => None,
                    Counting::Beside => Some(command!["DEL", "nobody"]),
                    Counting::Across => Some(command![
                        "SINTERSTORE",
                        "nobody",
                        "no",
                        "none",
                        "never",
                        "nothing"
                    ]),
                };
                let counts = [select(1), command!["KEYS", "*"], command!["DBSIZE"]];
                Step::block(counts.into_iter().chain(beside).chain([select(0)]))
            }
        })
    }

    fn on_sent(&mut self, task: &Task, sent: &mut Sent, _: u64) {
        let call = match *task {
            Task::Refill { generation, .. } => Call::Set(generation),
            Task::Census(_) => Call::Get,
        };
        self.registers.on_sent(sent, "database", call);
    }

    fn on_end(&mut self, task: &Task, end: &End<'_>, keys: u64) -> Result<(), String> {
        let answer = match (task, end.told) {
            (Task::Refill { generation, how }, Some(told)) => {
                is_refilled(told, *generation, *how, keys).then_some(Answer::Done)
            }
            (Task::Census(_), Some(told)) => generation_of(told, keys).map(Answer::Value),
            (_, None) => Some(Answer::Unknown),
        };
        let answer = answer.ok_or_else(|| end.unexpected())?;
        self.registers.on_end(end, &[answer]);
        Ok(())
    }

    fn check(self, _: u64) -> Checked {
        self.registers.check()
    }
}

impl Database {
    fn refill(&mut self, how: Refilling) -> Task {
        self.last_generation += 1;
        Task::Refill {
            generation: self.last_generation,
            how,
        }
    }
}

fn select(db: u64) -> Command {
    command!["SELECT", db]
}

/// The keys of a generation.
fn keys_of(generation: i64, keys: u64) -> impl Iterator<Item = String> {
    (0..keys).map(move |key| format!("tk{generation}:{key}"))
}

/// The key of a generation that is elsewhere for a moment.
fn elsewhere(generation: i64) -> String {
    format!("tk{generation}:elsewhere")
}

fn refill(generation: i64, how: Refilling, keys: u64) -> Step {
    let mut fill = command!["MSET"];
    fill.extend(keys_of(generation, keys).flat_map(|key| [key, "here".to_owned()]));
    let first = keys_of(generation, keys).next().expect("a generation has keys");
    let elsewhere = elsewhere(generation);
    let first_db = if how == Refilling::Swap { 2 } else { 1 };
    let mut commands = vec![select(first_db), command!["FLUSHDB"], fill];
    commands.extend(match how {
        Refilling::Flush => Vec::new(),
        Refilling::Move => vec![
            command!["RENAME", first, elsewhere],
            command!["KEYS", "*"],
            command!["RENAME", elsewhere, first],
        ],
        Refilling::Swap => vec![command!["SWAPDB", "1", "2"], select(1)],
    });
    commands.extend([command!["DBSIZE"], select(0)]);
    Step::block(commands)
}

/// Whether a transaction saw what it did to a database, step by step.
fn is_refilled(told: &[Reply], generation: i64, how: Refilling, keys: u64) -> bool {
    let [.., counted, _] = told else { return false };
    let is_counted = *counted == Reply::Number(keys as i64);
    let has_moved = || {
        let stay = keys_of(generation, keys).skip(1);
        let expected: BTreeSet<String> = stay.chain([elsewhere(generation)]).collect();
        told.get(4).and_then(Reply::texts) == Some(expected)
    };
    is_counted && (how != Refilling::Move || has_moved())
}

/// Which generation a database holds; `None` if that cannot be.
#[expect(
    clippy::option_option,
    reason = "an empty database and an impossible one are different answers"
)]
fn generation_of(told: &[Reply], keys: u64) -> Option<Option<i64>> {
    let [_, found, Reply::Number(counted), ..] = told else {
        return None;
    };
    let found = found.texts()?;
    if found.len() as i64 != *counted {
        return None;
    }
    let Some(first) = found.first() else {
        return Some(None);
    };
    let generation = first.strip_prefix("tk")?.split_once(':')?.0.parse().ok()?;
    let expected: BTreeSet<String> = keys_of(generation, keys).collect();
    (found == expected).then_some(Some(generation))
}

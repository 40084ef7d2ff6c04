//! A database that is emptied and filled with the keys of a generation as a whole: nobody sees keys of two.

use super::registers::Registers;
use super::{Checked, Command, Draw, End, Sent, Step, Workload, command};
use crate::reply::Reply;
use history::{Answer, Call};
use std::collections::BTreeSet;

/// Empties the database as its first word says, fills it with the other words, and moves the first key back and forth: what it finds in
/// between and how many keys it counts at the end.
const REFILL: &str = "if ARGV[1] == 'flush' then
    redis.call('FLUSHDB')
else
    for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('DEL', key) end
end
for at = 3, #ARGV do redis.call('SET', ARGV[at], 'here') end
redis.call('RENAME', ARGV[3], ARGV[2])
local found = redis.call('KEYS', '*')
redis.call('RENAME', ARGV[2], ARGV[3])
return {found, redis.call('DBSIZE')}";

/// What is in the database, found page by page, and how much that is.
const CENSUS: &str = "local counted, found, cursor = redis.call('DBSIZE'), {}, '0'
repeat
    local page = redis.call('SCAN', cursor, 'COUNT', 3)
    cursor = page[1]
    for _, key in ipairs(page[2]) do found[#found + 1] = key end
until cursor == '0'
return {found, counted}";

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
    /// A script empties it, and fills it.
    Script,
    /// A script deletes each key that it finds, and fills it.
    ScriptByKey,
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
    /// By a script.
    Script,
}

impl Workload for Database {
    type Task = Task;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Task {
        if draw.is_read {
            return Task::Census(draw.one_of(&[
                Counting::Read,
                Counting::Beside,
                Counting::Across,
                Counting::Script,
            ]));
        }
        let how = draw.one_of(&[
            Refilling::Flush,
            Refilling::Move,
            Refilling::Swap,
            Refilling::Script,
            Refilling::ScriptByKey,
        ]);
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
            Task::Census(Counting::Script) => there(command!["EVAL_RO", CENSUS, "0"]),
            Task::Census(how) => {
                let beside = match how {
                    Counting::Read | Counting::Script => None,
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
            (Task::Census(Counting::Script), Some([_, Reply::Array(told), _])) => {
                generation_of(told, keys).map(Answer::Value)
            }
            (Task::Census(_), Some(told)) => {
                let told = told.get(1..).unwrap_or_default();
                generation_of(told, keys).map(Answer::Value)
            }
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

/// A script on the database. Clients of the cluster endpoint, to whom the whole keyspace is that of their node, cannot select it.
fn there(script: Command) -> Step {
    Step::block([select(1), script, select(0)])
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
    if let Refilling::Script | Refilling::ScriptByKey = how {
        let way = if how == Refilling::Script {
            "flush"
        } else {
            "by key"
        };
        let mut script = command!["EVAL", REFILL, "0", way, elsewhere];
        script.extend(keys_of(generation, keys));
        return there(script);
    }
    let first_db = if how == Refilling::Swap { 2 } else { 1 };
    let mut commands = vec![select(first_db), command!["FLUSHDB"], fill];
    commands.extend(match how {
        Refilling::Flush | Refilling::Script | Refilling::ScriptByKey => Vec::new(),
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
    let (counted, found) = match (how, told) {
        (Refilling::Script | Refilling::ScriptByKey, [_, Reply::Array(told), _]) => {
            (told.get(1), told.first())
        }
        (Refilling::Move, [.., counted, _]) => (Some(counted), told.get(4)),
        (_, [.., counted, _]) => (Some(counted), None),
        _ => return false,
    };
    let is_counted = counted == Some(&Reply::Number(keys as i64));
    let has_moved = || {
        let stay = keys_of(generation, keys).skip(1);
        let expected: BTreeSet<String> = stay.chain([elsewhere(generation)]).collect();
        found.and_then(Reply::texts) == Some(expected)
    };
    let is_shown = !matches!(how, Refilling::Flush | Refilling::Swap);
    is_counted && (!is_shown || has_moved())
}

/// Which generation a database holds; `None` if that cannot be.
#[expect(
    clippy::option_option,
    reason = "an empty database and an impossible one are different answers"
)]
fn generation_of(told: &[Reply], keys: u64) -> Option<Option<i64>> {
    let [found, Reply::Number(counted), ..] = told else {
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

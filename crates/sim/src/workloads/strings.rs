//! Long strings that are all the same, and are changed by commands that need the bytes of what was there: nobody sees that one of them
//! lags, or was made up of what it is not.
//!
//! A value is a number with dots behind it. Some commands add dots, which tell nothing, but are the same behind each.

use super::registers::Registers;
use super::{Checked, Draw, End, Sent, Step, Workload, command};
use crate::padding::padded;
use crate::reply::Reply;
use history::{Answer, Call};

/// Keys, at most.
const KEYS_MAX: u64 = 4;
/// A deadline that nobody lives to see.
const LATE_SECS: &str = "1000000";
/// Gives each key a value, and tells those of before.
const SCRIPT: &str = "local before = {}
for at = 1, #KEYS do
    before[at] = redis.call('GET', KEYS[at])
    redis.call('SET', KEYS[at], ARGV[1])
end
return before";

/// See the file's header.
#[derive(Default)]
pub(crate) struct Strings {
    registers: Registers,
    last_value: i64,
}

#[derive(Clone, Debug)]
pub(crate) enum Task {
    Set(Setting, i64),
    /// They are given another value, and their values of before are told.
    Swap(Swapping, i64),
    Read(Look),
    /// They are changed, but for the number.
    Stir(Stirring),
}

/// How all are given one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Setting {
    AtOnce,
    /// One comes from elsewhere, and others are copies of it.
    Copied,
    /// Their first bytes are overwritten.
    Overwritten,
}

/// How they are exchanged for another value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Swapping {
    Each,
    Deleted,
    Script,
}

/// How they are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    AtOnce,
    Each,
    /// And their lengths.
    Parts,
    /// Two of them change places.
    Turned,
}

/// What tells nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stirring {
    Longer,
    Mortal,
    Immortal,
}

impl Workload for Strings {
    type Task = Task;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Task {
        if draw.is_read {
            return Task::Read(draw.one_of(&[Look::AtOnce, Look::Each, Look::Parts, Look::Turned]));
        }
        match draw.below(8) {
            0..3 => Task::Set(
                draw.one_of(&[Setting::AtOnce, Setting::Copied, Setting::Overwritten]),
                self.next_value(),
            ),
            3..6 => Task::Swap(
                draw.one_of(&[Swapping::Each, Swapping::Deleted, Swapping::Script]),
                self.next_value(),
            ),
            _ => Task::Stir(draw.one_of(&[Stirring::Longer, Stirring::Mortal, Stirring::Immortal])),
        }
    }

    fn read_all(&self, _: u64) -> Option<Task> {
        Some(Task::Read(Look::Parts))
    }

    fn again(&mut self, task: &Task) -> Option<Task> {
        Some(match *task {
            Task::Set(how, _) => Task::Set(how, self.next_value()),
            Task::Swap(how, _) => Task::Swap(how, self.next_value()),
            Task::Read(_) | Task::Stir(_) => task.clone(),
        })
    }

    fn step(&mut self, task: &Task, _: &[i64], keys: u64, _: u64) -> Option<Step> {
        let keys: Vec<String> = (0..keys.min(KEYS_MAX)).map(|key| format!("td{key}")).collect();
        Some(match *task {
            Task::Set(how, value) => set(how, &padded(value), &keys),
            Task::Swap(how, value) => swap(how, &padded(value), &keys),
            Task::Read(how) => look(how, &keys),
            Task::Stir(how) => Step::block(keys.iter().map(|key| match how {
                Stirring::Longer => command!["APPEND", key, "."],
                Stirring::Mortal => command!["EXPIRE", key, LATE_SECS],
                Stirring::Immortal => command!["PERSIST", key],
            })),
        })
    }

    fn on_sent(&mut self, task: &Task, sent: &mut Sent, _: u64) {
        let call = match *task {
            Task::Set(_, value) => Call::Set(value),
            Task::Swap(_, value) => Call::Swap(value),
            Task::Read(_) => Call::Get,
            Task::Stir(_) => return,
        };
        self.registers.on_sent(sent, "strings", call);
    }

    fn on_end(&mut self, task: &Task, end: &End<'_>, keys: u64) -> Result<(), String> {
        let keys = keys.min(KEYS_MAX) as usize;
        let answer = match (task, end.told) {
            (_, None) => Answer::Unknown,
            (Task::Set(..), Some(told)) => {
                let is_refused = |reply: &Reply| matches!(reply, Reply::Error(_) | Reply::Nil);
                match told.iter().any(is_refused) {
                    true => return Err(end.unexpected()),
                    false => Answer::Done,
                }
            }
            (Task::Swap(..), Some(told)) => Answer::Value(same(values_of(told, keys, end)?, end)?),
            (Task::Read(Look::Parts), Some(told)) => {
                let (lengths, texts) = told.split_at(keys.min(told.len()));
                let texts = values_of(texts, keys, end)?;
                let is_right = |(length, text): (&Reply, &&Reply)| match text {
                    Reply::Text(text) => *length == Reply::Number(text.len() as i64),
                    _ => false,
                };
                if !lengths.iter().zip(&texts).all(is_right) {
                    return Err(end.unexpected());
                }
                Answer::Value(same(texts, end)?)
            }
            // There is nothing yet that could change places.
            (
                Task::Read(Look::Turned),
                Some([Reply::Error(_), Reply::Error(_), Reply::Error(_), texts @ ..]),
            ) => match same(values_of(texts, keys, end)?, end)? {
                None => Answer::Value(None),
                Some(_) => return Err(end.unexpected()),
            },
            (
                Task::Read(Look::Turned),
                Some([Reply::Text(_), Reply::Text(_), Reply::Text(_), texts @ ..]),
            ) => Answer::Value(same(values_of(texts, keys, end)?, end)?),
            (Task::Read(_), Some(told)) => Answer::Value(same(values_of(told, keys, end)?, end)?),
            (Task::Stir(_), Some(told)) => match told.windows(2).all(|pair| pair[0] == pair[1]) {
                true => Answer::Done,
                false => return Err(end.unexpected()),
            },
        };
        self.registers.on_end(end, &[answer]);
        Ok(())
    }

    fn check(self, _: u64) -> Checked {
        self.registers.check()
    }
}

impl Strings {
    fn next_value(&mut self) -> i64 {
        self.last_value += 1;
        self.last_value
    }
}

fn set(how: Setting, value: &str, keys: &[String]) -> Step {
    match how {
        Setting::AtOnce => {
            let mut words = command!["MSET"];
            words.extend(keys.iter().flat_map(|key| [key.clone(), value.to_owned()]));
            Step::one(words)
        }
        Setting::Copied => {
            let first = [
                command!["SET", "td-elsewhere", value],
                command!["RENAME", "td-elsewhere", keys[0]],
            ];
            let copies = keys.iter().skip(1);
            Step::block(
                first
                    .into_iter()
                    .chain(copies.map(|key| command!["COPY", keys[0], key, "REPLACE"])),
            )
        }
        Setting::Overwritten => Step::block(keys.iter().map(|key| command!["SETRANGE", key, "0", value])),
    }
}

fn swap(how: Swapping, value: &str, keys: &[String]) -> Step {
    match how {
        Swapping::Each => Step::block(keys.iter().map(|key| command!["GETSET", key, value])),
        Swapping::Deleted => {
            let deleted = keys.iter().map(|key| command!["GETDEL", key]);
            let set = keys.iter().map(|key| command!["SET", key, value]);
            Step::block(deleted.chain(set))
        }
        Swapping::Script => {
            let mut words = command!["EVAL", SCRIPT, keys.len()];
            words.extend(keys.iter().cloned());
            words.push(value.to_owned());
            Step::one(words)
        }
    }
}

fn look(how: Look, keys: &[String]) -> Step {
    let gets = || keys.iter().map(|key| command!["GET", key]);
    match how {
        Look::AtOnce => Step::one(command!["MGET"].into_iter().chain(keys.iter().cloned()).collect()),
        Look::Each => Step::block(gets()),
        Look::Parts => {
            let lengths = keys.iter().map(|key| command!["STRLEN", key]);
            let parts = keys.iter().map(|key| command!["GETRANGE", key, "0", "-1"]);
            Step::block(lengths.chain(parts))
        }
        Look::Turned => {
            let turn = [
                command!["RENAME", keys[0], "td-elsewhere"],
                command!["RENAME", keys[1], keys[0]],
                command!["RENAME", "td-elsewhere", keys[1]],
            ];
            Step::block(turn.into_iter().chain(gets()))
        }
    }
}

/// What was told of each key; behind that may be more.
fn values_of<'a>(told: &'a [Reply], keys: usize, end: &End<'_>) -> Result<Vec<&'a Reply>, String> {
    let told = match told {
        [Reply::Array(all)] => all,
        told => told,
    };
    match told.len() >= keys {
        true => Ok(told.iter().take(keys).collect()),
        false => Err(end.unexpected()),
    }
}

/// What all of them are; nothing if there is none, or nothing but dots.
fn same(all: Vec<&Reply>, end: &End<'_>) -> Result<Option<i64>, String> {
    let text = |reply: &&'_ Reply| match reply {
        Reply::Nil => Some(String::new()),
        // What a script tells of what is not there ends its table, or is false.
        Reply::Text(text) => Some(text.clone()),
        _ => None,
    };
    let texts: Option<Vec<String>> = all.iter().map(text).collect();
    let texts = texts.ok_or_else(|| end.unexpected())?;
    if texts.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(format!("strings differ that are all set at once: {texts:?}"));
    }
    let Some(digits) = texts.first().map(|text| text.trim_end_matches('.')) else {
        return Ok(None);
    };
    match digits {
        "" => Ok(None),
        digits => digits.parse().map(Some).map_err(|_| end.unexpected()),
    }
}

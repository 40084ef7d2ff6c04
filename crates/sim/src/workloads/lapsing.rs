//! Values that lapse: once they have, nobody sees them any more.

use super::registers::Registers;
use super::{Checked, Draw, End, Reading, Sent, Step, Workload, command};
use history::{Answer, Call, Process};

/// What stands for a value that has lapsed, or was never set; values begin behind it.
const LAPSED: i64 = 0;
/// Deadlines of values that lapse.
const LAPSE_MILLIS: [u64; 3] = [30, 300, 3_000];

/// See the file's header.
#[derive(Default)]
pub(crate) struct Lapsing {
    registers: Registers,
    is_set_up: bool,
    last_value: i64,
}

#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// Keys are set to a value that lapses.
    Set {
        keys: [u64; 2],
        value: i64,
        millis: u64,
    },
    /// Such keys are given another deadline, or none.
    Keep {
        keys: [u64; 2],
        millis: Option<u64>,
    },
    Read(Reading),
}

impl Workload for Lapsing {
    type Task = Task;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Task {
        if draw.is_read {
            return Task::Read(draw.how);
        }
        let keys = draw.two_keys();
        let millis = draw.one_of(&LAPSE_MILLIS);
        match draw.below(4) {
            0 => Task::Keep { keys, millis: None },
            1 => Task::Keep {
                keys,
                millis: Some(millis),
            },
            _ => self.set(keys, millis),
        }
    }

    fn read_all(&self, _: u64) -> Option<Task> {
        Some(Task::Read(Reading::InBlock))
    }

    fn again(&mut self, task: &Task) -> Option<Task> {
        Some(match *task {
            Task::Set { keys, millis, .. } => self.set(keys, millis),
            Task::Keep { .. } | Task::Read(_) => task.clone(),
        })
    }

    fn step(&mut self, task: &Task, _: &[i64], keys: u64, _: u64) -> Option<Step> {
        let key = |key: &u64| key_of(*key);
        Some(match task {
            Task::Set {
                keys, value, millis, ..
            } => Step::block(
                keys.iter()
                    .map(|one| command!["SET", key(one), value, "PX", millis]),
            ),
            Task::Keep { keys, millis } => Step::block(keys.iter().map(|one| match millis {
                Some(millis) => command!["PEXPIRE", key(one), millis],
                None => command!["PERSIST", key(one)],
            })),
            Task::Read(how) => Step::read("tm", keys, *how),
        })
    }

    fn on_sent(&mut self, task: &Task, sent: &mut Sent, keys: u64) {
        if matches!(task, Task::Keep { .. }) {
            return;
        }
        if !std::mem::replace(&mut self.is_set_up, true) {
            for key in (0..keys).map(key_of) {
                let nobody = Process(u32::MAX);
                let ticket = self.registers.call(nobody, &key, Call::Set(LAPSED), sent.at);
                self.registers.answer(ticket, Answer::Done, sent.at);
            }
        }
        match *task {
            Task::Set { keys, value, .. } => {
                for key in keys.map(key_of) {
                    self.registers.on_sent(sent, &key, Call::Set(value));
                    // From now on, at any time or never: nobody is told.
                    let nobody = Process(u32::MAX - value as u32);
                    self.registers
                        .call(nobody, &key, Call::Cas(value, LAPSED), sent.at);
                }
            }
            Task::Read(_) | Task::Keep { .. } => {
                for key in (0..keys).map(key_of) {
                    self.registers.on_sent(sent, &key, Call::Get);
                }
            }
        }
    }

    fn on_end(&mut self, task: &Task, end: &End<'_>, _: u64) -> Result<(), String> {
        let answers = match task {
            Task::Set { keys, .. } => vec![Answer::Done; keys.len()],
            // Whom it kept from lapsing need not be known.
            Task::Keep { .. } => Vec::new(),
            Task::Read(_) => {
                let all = end.numbers()?.unwrap_or_default().into_iter();
                all.map(|seen| Answer::Value(seen.or(Some(LAPSED)))).collect()
            }
        };
        self.registers.on_end(end, &answers);
        Ok(())
    }

    fn check(self, _: u64) -> Checked {
        self.registers.check()
    }
}

impl Lapsing {
    fn set(&mut self, keys: [u64; 2], millis: u64) -> Task {
        self.last_value += 1;
        Task::Set {
            keys,
            value: self.last_value,
            millis,
        }
    }
}

fn key_of(key: u64) -> String {
    format!("tm{key}")
}

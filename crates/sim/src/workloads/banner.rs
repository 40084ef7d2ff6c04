//! A banner of several parts, which are all set to the same at once: nobody sees half of it.

use super::registers::Registers;
use super::{Checked, Draw, End, Reading, Sent, Step, Workload};
use history::{Answer, Call};

/// See the file's header.
#[derive(Default)]
pub(crate) struct Banner {
    registers: Registers,
    last_value: i64,
}

#[derive(Clone, Debug)]
pub(crate) enum Task {
    Set(i64),
    Read(Reading),
}

impl Workload for Banner {
    type Task = Task;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Task {
        match draw.is_read {
            true => Task::Read(draw.how),
            false => self.set(),
        }
    }

    fn read_all(&self, _: u64) -> Option<Task> {
        Some(Task::Read(Reading::AtOnce))
    }

    fn again(&mut self, task: &Task) -> Option<Task> {
        Some(match task {
            Task::Set(_) => self.set(),
            Task::Read(_) => task.clone(),
        })
    }

    fn step(&mut self, task: &Task, _: &[i64], keys: u64, _: u64) -> Option<Step> {
        Some(match *task {
            Task::Set(value) => Step::set("MSET", "tb", keys, |_| value),
            Task::Read(how) => Step::read("tb", keys, how),
        })
    }

    fn on_sent(&mut self, task: &Task, sent: &mut Sent, _: u64) {
        let call = match *task {
            Task::Set(value) => Call::Set(value),
            Task::Read(_) => Call::Get,
        };
        self.registers.on_sent(sent, "banner", call);
    }

    fn on_end(&mut self, task: &Task, end: &End<'_>, _: u64) -> Result<(), String> {
        let answer = match task {
            Task::Set(_) => Answer::Done,
            Task::Read(_) => match end.numbers()? {
                Some(all) if all.windows(2).any(|pair| pair[0] != pair[1]) => {
                    return Err(format!("half a banner was seen: {all:?}"));
                }
                Some(all) => Answer::Value(all[0]),
                None => Answer::Unknown,
            },
        };
        self.registers.on_end(end, &[answer]);
        Ok(())
    }

    fn check(self, _: u64) -> Checked {
        self.registers.check()
    }
}

impl Banner {
    fn set(&mut self) -> Task {
        self.last_value += 1;
        Task::Set(self.last_value)
    }
}

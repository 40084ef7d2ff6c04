//! What clients ask, workload by workload, and how what they saw is judged.
//!
//! Commands on [single keys](SingleKeys) are asked several at once. All other workloads are transactions over several groups:
//!
//! ```text
//!   Task --begins--> Running --a step's commands--> replies --next step--> ... --last step--> committed, aborted, unknown
//!                       |                                                                         |
//!                       '---- the connection breaks: unknown if the last step was sent -----------+--> TxnHistory --> judged
//! ```
//!
//! Each makes broken transactions visible in its own way, and is a file with what its clients ask, what they may be told, and
//! what follows from all that they were told. Of several steps only the last one changes anything, so that it alone is the
//! transaction.

mod accounts;
mod banner;
mod database;
mod elements;
mod jobs;
mod lapsing;
mod lists;
mod mix;
mod named;
mod registers;
mod ring;
mod scripts;
mod single_keys;
mod strings;

pub(crate) use mix::Mix;
pub(crate) use single_keys::{SingleKeys, answer, tells_loss};

use crate::padding::{number_of, pad};
use crate::reply::{Reply, encode, parse};
use accounts::Accounts;
use banner::Banner;
use database::Database;
use elements::Elements;
use history::{Judgement, Outcome, Process, Ticket, Transaction};
use ids::Prng;
use jobs::Jobs;
use lapsing::Lapsing;
use lists::Lists;
use named::Named;
use ring::Ring;
use scripts::Scripts;
use std::fmt::{Debug, Display};
use strings::Strings;

/// A command's words.
macro_rules! command {
    ($($word:expr),+ $(,)?) => {
        vec![$($word.to_string()),+]
    };
}
use command;

type Command = Vec<String>;

/// What was seen: how much, what of it cannot be, if anything, and all of it as text.
pub(crate) type Checked = (usize, Result<(), String>, String);

/// Of two workloads.
pub(crate) fn both((count, result, text): Checked, (more, other, others): Checked) -> Checked {
    (count + more, result.and(other), text + "\n" + &others)
}

/// One kind of transactions.
pub(crate) trait Workload: Default {
    /// What a client wants.
    type Task: Clone + Debug;

    /// The next transaction of some client.
    fn draw(&mut self, draw: &mut Draw<'_>) -> Self::Task;

    /// A read of everything, if there is one.
    fn read_all(&self, keys: u64) -> Option<Self::Task>;

    /// What must be done before this, if anything.
    fn setup(&self, _task: &Self::Task) -> Option<Self::Task> {
        None
    }

    /// What is to be done in place of what was not done, or perhaps was: with values of its own, so that nothing is put anywhere
    /// twice.
    fn again(&mut self, task: &Self::Task) -> Option<Self::Task> {
        Some(task.clone())
    }

    /// What comes after steps that have `seen` so much; nothing if it is given up.
    fn step(&mut self, task: &Self::Task, seen: &[i64], keys: u64, now: u64) -> Option<Step>;

    /// The step that decides was sent.
    fn on_sent(&mut self, _task: &Self::Task, _sent: &mut Sent, _keys: u64) {}

    /// It is over.
    ///
    /// # Errors
    /// If no server may answer so.
    fn on_end(&mut self, task: &Self::Task, end: &End<'_>, keys: u64) -> Result<(), String>;

    /// Judges what was seen.
    fn check(self, keys: u64) -> Checked;
}

/// Of what a transaction is drawn.
pub(crate) struct Draw<'a> {
    keys: u64,
    is_read: bool,
    how: Reading,
    prng: &'a mut Prng,
}

/// How all keys of a workload are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// With one command.
    AtOnce,
    /// Each with its own, in one block.
    InBlock,
}

impl Draw<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.prng.below(bound)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Two different keys.
    fn two_keys(&mut self) -> [u64; 2] {
        let first = self.below(self.keys);
        [first, (first + 1 + self.below(self.keys - 1)) % self.keys]
    }
}

/// Commands that are sent at once.
pub(crate) struct Step {
    commands: Vec<Command>,
    part: Part,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It watches keys and reads them.
    Looks,
    /// It is the transaction; the last command's reply tells.
    Decides,
    /// The same, and that reply is the one to `EXEC`.
    DecidesAsBlock,
}

impl Step {
    fn watch<K: Display>(keys: &[K]) -> Step {
        let mut watch = command!["WATCH"];
        watch.extend(keys.iter().map(K::to_string));
        let reads = keys.iter().map(|key| command!["GET", key]);
        Step {
            commands: std::iter::once(watch).chain(reads).collect(),
            part: Part::Looks,
        }
    }

    fn one(command: Command) -> Step {
        Step {
            commands: vec![command],
            part: Part::Decides,
        }
    }

    fn block(commands: impl IntoIterator<Item = Command>) -> Step {
        let mut all = vec![command!["MULTI"]];
        all.extend(commands);
        all.push(command!["EXEC"]);
        Step {
            commands: all,
            part: Part::DecidesAsBlock,
        }
    }

    fn read(letter: &str, keys: u64, how: Reading) -> Step {
        let keys = (0..keys).map(|key| format!("{letter}{key}"));
        match how {
            Reading::AtOnce => Step::one(command!["MGET"].into_iter().chain(keys).collect()),
            Reading::InBlock => Step::block(keys.map(|key| command!["GET", key])),
        }
    }

    /// Sets all keys with one command.
    fn set(command: &str, letter: &str, keys: u64, value: impl Fn(u64) -> i64) -> Step {
        let mut words = command![command];
        for key in 0..keys {
            words.extend([format!("{letter}{key}"), value(key).to_string()]);
        }
        Step::one(words)
    }
}

/// A step that decides, on its way.
pub(crate) struct Sent {
    process: Process,
    at: u64,
    is_block: bool,
    /// Of the registers that it reads or writes, in order.
    tickets: Vec<Ticket>,
}

/// How a transaction ended.
pub(crate) struct End<'a> {
    task: &'a Task,
    sent: &'a Sent,
    outcome: Outcome,
    /// What its commands were answered, if it is committed.
    told: Option<&'a [Reply]>,
    now: u64,
}

impl End<'_> {
    fn unexpected(&self) -> String {
        unexpected(self.task, self.told.unwrap_or_default())
    }

    /// What is written down of it.
    fn transaction<A>(&self, actions: Vec<A>) -> Transaction<A> {
        Transaction {
            process: self.sent.process,
            invoked: self.sent.at,
            returned: (self.outcome != Outcome::Unknown).then_some(self.now),
            outcome: self.outcome,
            actions,
        }
    }

    /// What a read of all keys was told of each.
    fn numbers(&self) -> Result<Option<Vec<Option<i64>>>, String> {
        let all = match self.told {
            None => return Ok(None),
            Some([Reply::Array(all)]) if !self.sent.is_block => all,
            Some(all) if self.sent.is_block => all,
            Some(_) => return Err(self.unexpected()),
        };
        let number = |reply: &Reply| match reply {
            Reply::Nil => Some(None),
            reply => reply.number().map(Some),
        };
        let numbers: Option<Vec<Option<i64>>> = all.iter().map(number).collect();
        numbers.map(Some).ok_or_else(|| self.unexpected())
    }

    /// The same of keys that are `made` all at once, and then always there; nothing at all if they were not made by then.
    #[expect(
        clippy::option_option,
        reason = "a read that nobody answered and one of what is not there are different"
    )]
    fn made(&self, made: Option<u64>, what: &str) -> Result<Option<Option<Vec<i64>>>, String> {
        let Some(all) = self.numbers()? else {
            return Ok(Some(None));
        };
        if all.iter().any(Option::is_some) {
            let all: Option<Vec<i64>> = all.into_iter().collect();
            return Ok(Some(Some(all.ok_or_else(|| self.unexpected())?)));
        }
        match made {
            Some(at) if at < self.sent.at => Err(format!("the {what} were made, and nobody sees them")),
            _ => Ok(None),
        }
    }

    /// When what it makes is there at the latest, if it was `made` then before.
    fn makes(&self, made: Option<u64>) -> Option<u64> {
        match self.outcome {
            Outcome::Committed => Some(made.map_or(self.now, |at| at.min(self.now))),
            Outcome::Aborted | Outcome::Unknown => made,
        }
    }
}

fn unexpected(task: &Task, replies: &[Reply]) -> String {
    format!("{task:?} was answered {replies:?}")
}

fn clean(judgement: Judgement) -> Result<(), String> {
    match judgement {
        Judgement::Clean => Ok(()),
        Judgement::Violated(anomaly) => Err(anomaly.to_string()),
    }
}

/// A transaction under way.
pub(crate) struct Running {
    task: Task,
    process: Process,
    /// What earlier steps read.
    seen: Vec<i64>,
    /// The step that decides, if it was sent.
    sent: Option<Sent>,
    wanted: usize,
    replies: Vec<Reply>,
}

/// What comes next.
pub(crate) enum Next {
    /// More replies.
    Wait,
    /// The next step.
    Step(Vec<u8>),
    /// It is over, and whether it was refused for a reason that passes.
    Over(Outcome, bool),
}

impl Running {
    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    /// Keeps what a step that looks was told; whether it may go on.
    fn look(&mut self, replies: &[Reply]) -> Result<bool, String> {
        for (at, reply) in replies.iter().enumerate() {
            match (at, reply) {
                (0, Reply::Text(text)) if text == "OK" => {}
                (1.., Reply::Text(text)) => {
                    let number = number_of(text);
                    self.seen
                        .push(number.ok_or_else(|| unexpected(&self.task, replies))?);
                }
                (1.., Reply::Nil) => return Ok(false),
                (_, Reply::Error(error)) if outcome_of(error).is_some() => return Ok(false),
                _ => return Err(unexpected(&self.task, replies)),
            }
        }
        Ok(true)
    }
}

/// What an error says of a transaction: only some say that nothing was done.
fn outcome_of(error: &str) -> Option<Outcome> {
    match error.split(' ').next()? {
        "UNKNOWN" => Some(Outcome::Unknown),
        "TRYAGAIN" | "LOST" | "CLUSTERDOWN" | "MOVED" | "LOADING" | "EXECABORT" | "MISCONF" => {
            Some(Outcome::Aborted)
        }
        // A node's clock may be far off.
        "ERR" if error.starts_with("ERR the time in this request id") => Some(Outcome::Aborted),
        "ERR" if ["ERR insufficient balance", "ERR no such key"].contains(&error) => Some(Outcome::Aborted),
        _ => None,
    }
}

/// Whether one of the replies is an error that tells nothing of the data.
fn is_passing(replies: &[Reply]) -> bool {
    // A group whose clock was far ahead takes names of now for old ones, and always will.
    let is_old = |error: &str| error.starts_with("UNKNOWN this request id");
    let is_passing =
        |reply: &Reply| matches!(reply, Reply::Error(error) if !error.starts_with("ERR ") && !is_old(error));
    replies.iter().any(is_passing)
}

/// What all workloads share but for their types: for each a variant of [`Task`], and a field of [`TxnHistory`] with its state.
macro_rules! workloads {
    ($($field:ident: $Workload:ident),+ $(,)?) => {
        /// What the workloads of transactions are called, in the order of their weights.
        pub(crate) const NAMES: [&str; mix::WORKLOADS] = [$(stringify!($field)),+];

        /// A transaction that a client wants.
        #[derive(Clone, Debug)]
        pub(crate) enum Task {
            $($Workload(<$Workload as Workload>::Task)),+
        }

        /// What clients saw of their transactions.
        pub(crate) struct TxnHistory {
            mix: Mix,
            /// Whether numbers are made long where strings hold them.
            pads: bool,
            $($field: $Workload),+
        }

        impl TxnHistory {
            pub(crate) fn new(mix: Mix, pads: bool) -> TxnHistory {
                TxnHistory { mix, pads, $($field: $Workload::default()),+ }
            }

            fn draw(&mut self, workload: usize, draw: &mut Draw<'_>) -> Task {
                const DRAWS: [fn(&mut TxnHistory, &mut Draw<'_>) -> Task; mix::WORKLOADS] =
                    [$(|all, draw| Task::$Workload(all.$field.draw(draw))),+];
                DRAWS[workload](self, draw)
            }

            /// Reads of everything.
            pub(crate) fn reads(&self) -> impl Iterator<Item = Task> {
                let all = [$(self.$field.read_all(self.mix.keys).map(Task::$Workload)),+];
                all.into_iter().flatten()
            }

            /// What must be done before this, if anything.
            pub(crate) fn setup(&self, task: &Task) -> Option<Task> {
                match task {
                    $(Task::$Workload(task) => self.$field.setup(task).map(Task::$Workload)),+
                }
            }

            /// What is to be done once more when the storm is over.
            pub(crate) fn again(&mut self, task: &Task) -> Option<Task> {
                match task {
                    $(Task::$Workload(task) => self.$field.again(task).map(Task::$Workload)),+
                }
            }

            fn step(&mut self, task: &Task, seen: &[i64], now: u64) -> Option<Step> {
                match task {
                    $(Task::$Workload(task) => self.$field.step(task, seen, self.mix.keys, now)),+
                }
            }

            fn on_sent(&mut self, task: &Task, sent: &mut Sent) {
                match task {
                    $(Task::$Workload(task) => self.$field.on_sent(task, sent, self.mix.keys)),+
                }
            }

            fn on_end(&mut self, end: &End<'_>) -> Result<(), String> {
                match end.task {
                    $(Task::$Workload(task) => self.$field.on_end(task, end, self.mix.keys)),+
                }
            }

            /// Judges what was seen.
            pub(crate) fn check(&mut self) -> Checked {
                let all = [$(std::mem::take(&mut self.$field).check(self.mix.keys)),+];
                all.into_iter().fold((0, Ok(()), String::new()), both)
            }
        }
    };
}

workloads! {
    lists: Lists,
    accounts: Accounts,
    ring: Ring,
    elements: Elements,
    banner: Banner,
    database: Database,
    lapsing: Lapsing,
    named: Named,
    jobs: Jobs,
    scripts: Scripts,
    strings: Strings,
}

impl TxnHistory {
    /// Of a hundred turns of a client, how many are transactions.
    pub(crate) fn share(&self) -> u64 {
        self.mix.share
    }

    /// The next transaction of some client.
    pub(crate) fn next(&mut self, prng: &mut Prng) -> Task {
        let workload = self.mix.draw_workload(prng);
        let mut draw = Draw {
            keys: self.mix.keys,
            is_read: prng.below(100) < self.mix.reads,
            how: [Reading::InBlock, Reading::AtOnce][prng.below(2) as usize],
            prng,
        };
        self.draw(workload, &mut draw)
    }

    /// A client begins; the first step's bytes.
    pub(crate) fn begin(&mut self, task: Task, process: Process, now: u64) -> (Running, Vec<u8>) {
        let first = self.step(&task, &[], now);
        let mut running = Running {
            task,
            process,
            seen: Vec::new(),
            sent: None,
            wanted: 0,
            replies: Vec::new(),
        };
        let bytes = self.send(&mut running, first.expect("it begins with a step"), now);
        (running, bytes)
    }

    fn send(&mut self, running: &mut Running, mut step: Step, now: u64) -> Vec<u8> {
        if self.pads {
            step.commands.iter_mut().for_each(|words| pad(words));
        }
        running.wanted = step.commands.len();
        if step.part != Part::Looks {
            let mut sent = Sent {
                process: running.process,
                at: now,
                is_block: step.part == Part::DecidesAsBlock,
                tickets: Vec::new(),
            };
            self.on_sent(&running.task, &mut sent);
            running.sent = Some(sent);
        }
        step.commands.iter().flat_map(|words| encode(words)).collect()
    }

    /// Bytes have come.
    ///
    /// # Errors
    /// If no server may answer so.
    pub(crate) fn receive(
        &mut self,
        running: &mut Running,
        received: &mut Vec<u8>,
        now: u64,
    ) -> Result<Next, String> {
        while running.replies.len() < running.wanted {
            let Some((reply, length)) = parse(received)? else {
                return Ok(Next::Wait);
            };
            received.drain(..length);
            running.replies.push(reply);
        }
        let replies = std::mem::take(&mut running.replies);
        let Some(sent) = &running.sent else {
            let goes_on = running.look(&replies)?;
            let step = goes_on.then(|| self.step(&running.task, &running.seen, now));
            return Ok(match step.flatten() {
                Some(step) => Next::Step(self.send(running, step, now)),
                None => Next::Over(Outcome::Aborted, is_passing(&replies)),
            });
        };
        let unexpected = || unexpected(&running.task, &replies);
        let (outcome, told) = match replies.last().expect("something was asked") {
            Reply::Error(error) => (outcome_of(error).ok_or_else(unexpected)?, None),
            // What was watched has changed.
            Reply::Nil if sent.is_block => (Outcome::Aborted, None),
            Reply::Array(all) if sent.is_block => (Outcome::Committed, Some(&all[..])),
            _ if sent.is_block => return Err(unexpected()),
            reply => (Outcome::Committed, Some(std::slice::from_ref(reply))),
        };
        self.on_end(&End {
            task: &running.task,
            sent,
            outcome,
            told,
            now,
        })?;
        let is_refused = matches!(replies.last(), Some(Reply::Error(_)));
        Ok(Next::Over(outcome, is_refused && is_passing(&replies)))
    }

    /// The connection is over.
    pub(crate) fn lose(&mut self, running: &Running) {
        if let Some(sent) = &running.sent {
            let lost = End {
                task: &running.task,
                sent,
                outcome: Outcome::Unknown,
                told: None,
                now: 0,
            };
            self.on_end(&lost).expect("nothing was told");
        }
    }
}

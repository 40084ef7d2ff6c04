//! Transactions of clients over several groups: what they ask, step by step, and how what they saw is judged.
//!
//! ```text
//!   Task --begins--> Running --a step's commands--> replies --next step--> ... --last step--> committed, aborted, unknown
//!                       |                                                                         |
//!                       '---- the connection breaks: unknown if the last step was sent -----------+--> Books --> judged
//! ```
//!
//! Eight families, each of which makes broken transactions visible: lists that only grow, accounts with a constant total,
//! pointers that form a ring, elements that are moved and never taken, banners of which all parts say the same, a database
//! that is emptied and filled as a whole, values that lapse and never come back, and counters whose requests have names and are sent
//! again and again.
//! Of programs of several steps only the last one changes anything, so that it alone is the transaction.

use crate::clock::{MILLIS, WALL_START_MILLIS};
use crate::reply::{Reply, encode, parse};
use crate::world;
use history::{
    Answer, Call, Judgement, Outcome, Process, Transaction, Transactions, bank, list_append, ring,
};
use history::{Recorder, Ticket};
use ids::Prng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

/// Keys of each family at most: those of a ring.
const KEYS_MAX: u64 = 6;
/// What each account begins with.
const OPENING: i64 = 100;
/// Elements that may be put somewhere: reads of everything show all of them.
const ELEMENTS_MAX: i64 = 40;
/// Members that each family of sets and lists moves between.
const PLACES: u64 = 3;

/// What stands for a value that has lapsed, or was never set; values begin behind it.
const LAPSED: i64 = 0;
/// Deadlines of values that lapse.
const LAPSE_MILLIS: [u64; 3] = [30, 300, 3_000];
/// Named requests that may be sent once more.
const AGAIN_MAX: u64 = 4;
/// How long an element is waited for that is to be moved.
const WAIT_SECS: &str = "0.1";

/// How often clients ask for what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mix {
    /// Of a hundred turns of a client, how many are transactions.
    pub(crate) share: u64,
    /// Keys of a family.
    pub(crate) keys: u64,
    /// How many of a hundred transactions only read.
    pub(crate) reads: u64,
    /// The chances of the families: lists, accounts, ring, elements, banners, database, lapsing values, named requests.
    pub(crate) weights: [u64; 8],
}

impl Mix {
    /// Of all families, on few keys.
    pub(crate) fn busy(reads: u64) -> Mix {
        Mix {
            share: 90,
            keys: 3,
            reads,
            weights: [2, 1, 1, 3, 1, 0, 0, 0],
        }
    }

    /// Of the whole keyspace alone.
    pub(crate) fn whole(reads: u64) -> Mix {
        Mix {
            weights: [0, 0, 0, 0, 0, 1, 0, 0],
            ..Mix::busy(reads)
        }
    }

    /// Of elements alone: no key of them stays for long.
    pub(crate) fn elements(reads: u64) -> Mix {
        Mix {
            weights: [0, 0, 0, 1, 0, 0, 0, 0],
            ..Mix::busy(reads)
        }
    }

    /// Of named requests alone.
    pub(crate) fn named() -> Mix {
        Mix {
            weights: [0, 0, 0, 0, 0, 0, 0, 1],
            ..Mix::busy(0)
        }
    }

    pub(crate) fn draw(prng: &mut Prng) -> Mix {
        let mut weights = [0; 8];
        for weight in &mut weights {
            *weight = [0, 1, 1, 4][prng.below(4) as usize];
        }
        // While one of these is under way, all others wait.
        weights[5] = weights[5].min(1);
        if weights == [0; 8] {
            weights = [1; 8];
        }
        Mix {
            share: [0, 10, 50, 90][prng.below(4) as usize],
            keys: 3 + prng.below(KEYS_MAX - 2),
            reads: [10, 30, 60][prng.below(3) as usize],
            weights,
        }
    }
}

/// A transaction that a client wants.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// `MULTI`: appends of these elements to lists, and reads of lists.
    Lists(Vec<(u64, Option<i64>)>),
    /// The accounts are made, if there are none.
    OpenBank,
    Transfer {
        from: u64,
        to: u64,
        amount: i64,
        is_watched: bool,
    },
    Balances {
        is_block: bool,
    },
    /// The ring is made, if there is none.
    OpenRing,
    /// The two keys behind this one change places.
    Swap(u64),
    Whole {
        is_block: bool,
    },
    /// An element is put into a list or a set.
    Put {
        is_set: bool,
        place: u64,
        element: i64,
    },
    /// Elements are moved.
    Move(Vec<Vec<String>>),
    /// All lists and sets are read.
    All,
    /// All parts of the banner are set to the same.
    Banner(i64),
    ReadBanner {
        is_block: bool,
    },
    /// A database is emptied and filled with the keys of a generation.
    Refill {
        generation: i64,
        how: Refilling,
    },
    /// What is in that database.
    Census(Counting),
    /// Keys are set to a value that lapses.
    SetLapsing {
        keys: [u64; 2],
        value: i64,
        millis: u64,
    },
    /// Such keys are given another deadline, or none.
    Keep {
        keys: [u64; 2],
        millis: Option<u64>,
    },
    ReadLapsing {
        is_block: bool,
    },
    /// Counters are incremented by the request of this number, one or two of them: the same every time.
    Draw(u64),
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

/// A transaction under way.
pub(crate) struct Running {
    task: Task,
    process: Process,
    step: usize,
    /// When the step that decides was sent; `None` if it was not.
    invoked: Option<u64>,
    /// Of the registers that it reads or writes, in order.
    tickets: Vec<Ticket>,
    wanted: usize,
    replies: Vec<Reply>,
    /// What earlier steps read.
    seen: Vec<i64>,
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

/// What was asked of elements that are moved.
#[derive(Clone, Debug)]
enum Moved {
    Put(i64),
    All(Vec<i64>),
}

/// What clients saw of their transactions.
#[derive(Default)]
pub(crate) struct Books {
    lists: Vec<Transaction<list_append::Action>>,
    bank: Vec<Transaction<bank::Action>>,
    ring: Vec<Transaction<ring::Action>>,
    elements: Vec<Transaction<Moved>>,
    /// The banner, the database, and what lapses: each has one value at a time.
    registers: Recorder,
    has_lapsing: bool,
    /// Whether the accounts were seen, and the ring.
    has_bank: Option<u64>,
    has_ring: Option<u64>,
    last_element: i64,
    last_append: i64,
    last_banner: i64,
    last_generation: i64,
    last_lapsing: i64,
    /// Of each named request by its number, when it was first sent, in milliseconds.
    named: Vec<Option<u64>>,
    /// What each was answered.
    drawn: BTreeMap<u64, Vec<i64>>,
}

impl Books {
    /// The next transaction of some client.
    pub(crate) fn next(&mut self, mix: &Mix, prng: &mut Prng) -> Task {
        let total: u64 = mix.weights.iter().sum();
        let mut draw = prng.below(total.max(1));
        let mut family = 0;
        for (index, weight) in mix.weights.iter().enumerate() {
            if draw < *weight {
                family = index;
                break;
            }
            draw -= weight;
        }
        let is_read = prng.below(100) < mix.reads;
        let is_block = prng.below(2) == 0;
        match family {
            0 => self.lists(mix, is_read, prng),
            1 if is_read => Task::Balances { is_block },
            1 => {
                let from = prng.below(mix.keys);
                Task::Transfer {
                    from,
                    to: (from + 1 + prng.below(mix.keys - 1)) % mix.keys,
                    amount: 1 + prng.below(60) as i64,
                    is_watched: prng.below(3) == 0,
                }
            }
            2 if is_read => Task::Whole { is_block },
            2 => Task::Swap(prng.below(mix.keys)),
            3 if is_read => Task::All,
            3 if self.last_element < ELEMENTS_MAX && prng.below(4) == 0 => {
                let (is_set, place) = (prng.below(3) == 0, prng.below(PLACES));
                self.again(Task::Put {
                    is_set,
                    place,
                    element: 0,
                })
            }
            3 => Task::Move(self.moves(prng)),
            4 if is_read => Task::ReadBanner { is_block },
            4 => self.again(Task::Banner(0)),
            5 if is_read => Task::Census(draw_from(
                &[Counting::Read, Counting::Beside, Counting::Across],
                prng,
            )),
            5 => {
                let how = draw_from(&[Refilling::Flush, Refilling::Move, Refilling::Swap], prng);
                self.again(Task::Refill { generation: 0, how })
            }
            6 if is_read => Task::ReadLapsing { is_block },
            6 => self.lapsing(mix, prng),
            _ => self.draw(prng),
        }
    }

    fn lists(&mut self, mix: &Mix, is_read: bool, prng: &mut Prng) -> Task {
        let count = 1 + prng.below(4);
        let operations = (0..count).map(|_| {
            let key = prng.below(mix.keys);
            let appends = !is_read && prng.below(3) > 0;
            (key, appends.then_some(0))
        });
        let lists = Task::Lists(operations.collect());
        self.again(lists)
    }

    fn lapsing(&mut self, mix: &Mix, prng: &mut Prng) -> Task {
        let first = prng.below(mix.keys);
        let keys = [first, (first + 1 + prng.below(mix.keys - 1)) % mix.keys];
        let millis = draw_from(&LAPSE_MILLIS, prng);
        match prng.below(4) {
            0 => Task::Keep { keys, millis: None },
            1 => Task::Keep {
                keys,
                millis: Some(millis),
            },
            _ => self.again(Task::SetLapsing {
                keys,
                value: 0,
                millis,
            }),
        }
    }

    /// A new request, or one of the last once more.
    fn draw(&mut self, prng: &mut Prng) -> Task {
        let count = self.named.len() as u64;
        if count == 0 || prng.below(2) == 0 {
            self.named.push(None);
            return Task::Draw(count);
        }
        Task::Draw(count - 1 - prng.below(count.min(AGAIN_MAX)))
    }

    fn moves(&self, prng: &mut Prng) -> Vec<Vec<String>> {
        let count = 1 + prng.below(2);
        let one = |prng: &mut Prng| {
            let from = prng.below(PLACES);
            let to = prng.below(PLACES);
            let [source, target] = [from, to].map(|place| format!("tq{place}"));
            let end = |prng: &mut Prng| ["LEFT", "RIGHT"][prng.below(2) as usize];
            match prng.below(7) {
                6 => words(&["BLMOVE", &source, &target, end(prng), end(prng), WAIT_SECS]),
                0..3 => words(&["LMOVE", &source, &target, end(prng), end(prng)]),
                3 => words(&["RPOPLPUSH", &source, &target]),
                4 => words(&["RENAMENX", &source, &target]),
                _ => {
                    let element = prng.below(self.last_element as u64 + 1).to_string();
                    words(&["SMOVE", &format!("ts{from}"), &format!("ts{to}"), &element])
                }
            }
        };
        (0..count).map(|_| one(prng)).collect()
    }

    /// The same with values of its own. What was not done, or perhaps was, is asked again so: nothing is put anywhere twice.
    pub(crate) fn again(&mut self, task: Task) -> Task {
        match task {
            Task::Lists(mut operations) => {
                for (_, element) in &mut operations {
                    if let Some(element) = element {
                        self.last_append += 1;
                        *element = self.last_append;
                    }
                }
                Task::Lists(operations)
            }
            Task::Put { is_set, place, .. } => {
                self.last_element += 1;
                Task::Put {
                    is_set,
                    place,
                    element: self.last_element,
                }
            }
            Task::Banner(_) => {
                self.last_banner += 1;
                Task::Banner(self.last_banner)
            }
            Task::Refill { how, .. } => {
                self.last_generation += 1;
                Task::Refill {
                    generation: self.last_generation,
                    how,
                }
            }
            Task::SetLapsing { keys, millis, .. } => {
                self.last_lapsing += 1;
                Task::SetLapsing {
                    keys,
                    value: self.last_lapsing,
                    millis,
                }
            }
            task => task,
        }
    }

    /// What is to be done once more when the storm is over: what opens a family is asked for by what needs it.
    pub(crate) fn tried(&mut self, task: &Task) -> Option<Task> {
        match task {
            Task::OpenBank | Task::OpenRing => None,
            // Nothing forbids that a transfer is refused for ever.
            Task::Transfer { .. } => None,
            task => Some(self.again(task.clone())),
        }
    }

    /// What must be done before this, if anything.
    pub(crate) fn before(&self, task: &Task) -> Option<Task> {
        match task {
            Task::Transfer { .. } | Task::Balances { .. } if self.has_bank.is_none() => Some(Task::OpenBank),
            Task::Swap(_) | Task::Whole { .. } if self.has_ring.is_none() => Some(Task::OpenRing),
            _ => None,
        }
    }

    /// Reads of everything.
    pub(crate) fn reads(&self, mix: &Mix) -> Vec<Task> {
        if mix.share == 0 {
            return Vec::new();
        }
        vec![
            Task::Lists((0..mix.keys).map(|key| (key, None)).collect()),
            Task::Balances { is_block: false },
            Task::Whole { is_block: true },
            Task::All,
            Task::ReadBanner { is_block: false },
            Task::Census(Counting::Read),
            Task::ReadLapsing { is_block: true },
        ]
    }

    /// A client begins; the first step's bytes.
    pub(crate) fn begin(&mut self, task: Task, process: Process, mix: &Mix, now: u64) -> (Running, Vec<u8>) {
        let mut running = Running {
            task,
            process,
            step: 0,
            invoked: None,
            tickets: Vec::new(),
            wanted: 0,
            replies: Vec::new(),
            seen: Vec::new(),
        };
        let mut commands = first_step(&running.task, mix);
        if let Task::Draw(number) = running.task {
            let made = self.named[number as usize].get_or_insert(now / MILLIS);
            let millis = WALL_START_MILLIS as u64 + *made;
            let id = format!(
                "{:08x}-{:04x}-7000-8000-{number:012x}",
                millis >> 16,
                millis & 0xffff
            );
            commands.insert(0, words(&["CLIENT", "REQUEST", &id]));
        }
        let bytes = self.send(&mut running, commands, mix, now);
        (running, bytes)
    }

    fn send(&mut self, running: &mut Running, commands: Vec<Vec<String>>, mix: &Mix, now: u64) -> Vec<u8> {
        running.wanted = commands.len();
        running.replies.clear();
        if decides(&running.task, running.step) {
            running.invoked = Some(now);
            self.call(running, mix, now);
        }
        running.step += 1;
        commands.iter().flat_map(|words| encode(words)).collect()
    }

    /// Notes what a transaction asks of registers.
    fn call(&mut self, running: &mut Running, mix: &Mix, now: u64) {
        let process = running.process;
        let calls: Vec<(String, Call)> = match &running.task {
            Task::Banner(value) => vec![("banner".into(), Call::Set(*value))],
            Task::ReadBanner { .. } => vec![("banner".into(), Call::Get)],
            Task::Refill { generation, .. } => vec![("database".into(), Call::Set(*generation))],
            Task::Census(_) => vec![("database".into(), Call::Get)],
            Task::SetLapsing { keys, value, .. } => {
                keys.map(|key| (format!("tm{key}"), Call::Set(*value))).into()
            }
            Task::ReadLapsing { .. } => (0..mix.keys).map(|key| (format!("tm{key}"), Call::Get)).collect(),
            _ => return,
        };
        if matches!(running.task, Task::SetLapsing { .. } | Task::ReadLapsing { .. }) && !self.has_lapsing {
            self.has_lapsing = true;
            for key in 0..mix.keys {
                let key = format!("tm{key}");
                let ticket = self
                    .registers
                    .called(Process(u32::MAX), &key, Call::Set(LAPSED), now);
                self.registers.answered(ticket, Answer::Done, now);
            }
        }
        for (key, call) in calls {
            running
                .tickets
                .push(self.registers.called(process, &key, call, now));
            if let (Task::SetLapsing { .. }, Call::Set(value)) = (&running.task, call) {
                // From now on, at any time or never: nobody is told.
                let nobody = Process(u32::MAX - value as u32);
                self.registers.called(nobody, &key, Call::Cas(value, LAPSED), now);
            }
        }
    }

    /// Notes what a transaction was told of the registers that it asked for.
    fn answer(&mut self, running: &Running, outcome: Outcome, answers: &[Answer], now: u64) {
        for (index, ticket) in running.tickets.iter().enumerate() {
            match outcome {
                Outcome::Unknown => {}
                Outcome::Aborted => self.registers.answered(*ticket, Answer::Refused, now),
                Outcome::Committed => self.registers.answered(*ticket, answers[index].clone(), now),
            }
        }
    }

    /// Bytes have come.
    ///
    /// # Errors
    /// If no server may answer so.
    pub(crate) fn receive(
        &mut self,
        running: &mut Running,
        received: &mut Vec<u8>,
        mix: &Mix,
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
        if running.invoked.is_none() {
            return match next_step(running, &replies)? {
                Some(commands) => Ok(Next::Step(self.send(running, commands, mix, now))),
                None => Ok(Next::Over(Outcome::Aborted, is_passing(&replies))),
            };
        }
        let is_block = is_block(&running.task);
        let last = replies.last().expect("something was asked");
        let told = match last {
            Reply::Error(error) => {
                let outcome = outcome_of(error).ok_or_else(|| running.unexpected(&replies))?;
                self.over(running, outcome, None, mix, now)?;
                return Ok(Next::Over(outcome, is_passing(&replies)));
            }
            // What was watched has changed.
            Reply::Nil if is_block => None,
            Reply::Array(all) if is_block => Some(all.clone()),
            _ if is_block => return Err(running.unexpected(&replies)),
            reply => Some(vec![reply.clone()]),
        };
        let outcome = if told.is_some() {
            Outcome::Committed
        } else {
            Outcome::Aborted
        };
        self.over(running, outcome, told.as_deref(), mix, now)?;
        Ok(Next::Over(outcome, false))
    }

    /// The connection is over.
    pub(crate) fn lose(&mut self, running: &Running, mix: &Mix) {
        if running.invoked.is_some() {
            self.over(running, Outcome::Unknown, None, mix, 0)
                .expect("nothing was told");
        }
    }

    fn over(
        &mut self,
        running: &Running,
        outcome: Outcome,
        told: Option<&[Reply]>,
        mix: &Mix,
        now: u64,
    ) -> Result<(), String> {
        let unexpected = || running.unexpected(told.unwrap_or_default());
        match &running.task {
            Task::Lists(operations) => {
                if told
                    .into_iter()
                    .flatten()
                    .any(|reply| matches!(reply, Reply::Error(_)))
                {
                    return Err(unexpected());
                }
                let mut actions = Vec::new();
                for (index, (key, element)) in operations.iter().enumerate() {
                    let key = format!("tl{key}");
                    actions.push(match element {
                        Some(element) => list_append::Action::Append {
                            key,
                            element: *element,
                        },
                        None => {
                            let elements = match told.map(|told| &told[index]) {
                                None => None,
                                Some(reply) => Some(reply.numbers().ok_or_else(unexpected)?),
                            };
                            list_append::Action::Read { key, elements }
                        }
                    });
                }
                self.lists.push(running.transaction(outcome, now, actions));
            }
            Task::OpenBank | Task::OpenRing if outcome != Outcome::Committed => {}
            Task::OpenBank => self.has_bank = Some(self.has_bank.map_or(now, |at| at.min(now))),
            Task::OpenRing => self.has_ring = Some(self.has_ring.map_or(now, |at| at.min(now))),
            Task::Transfer { from, to, amount, .. } => {
                let actions = vec![bank::Action::Transfer {
                    from: format!("ta{from}"),
                    to: format!("ta{to}"),
                    amount: *amount,
                }];
                self.bank.push(running.transaction(outcome, now, actions));
            }
            Task::Balances { is_block } => {
                let Some(seen) = running.made(told, *is_block, self.has_bank, "accounts")? else {
                    return Ok(());
                };
                let named = |all: Vec<i64>| (0..).map(|key| format!("ta{key}")).zip(all).collect();
                let actions = vec![bank::Action::Balances(seen.map(named))];
                self.bank.push(running.transaction(outcome, now, actions));
            }
            Task::Swap(key) => {
                let actions = vec![ring::Action::Swap(format!("tr{key}"))];
                self.ring.push(running.transaction(outcome, now, actions));
            }
            Task::Whole { is_block } => {
                let Some(seen) = running.made(told, *is_block, self.has_ring, "pointers")? else {
                    return Ok(());
                };
                let pointer = |(from, to): (usize, i64)| (format!("tr{from}"), format!("tr{to}"));
                let pointers = seen.map(|all| all.into_iter().enumerate().map(pointer).collect());
                let actions = vec![ring::Action::Whole(pointers)];
                self.ring.push(running.transaction(outcome, now, actions));
            }
            Task::Put { element, .. } => {
                let actions = vec![Moved::Put(*element)];
                self.elements.push(running.transaction(outcome, now, actions));
            }
            // Whatever it did, everything is still there.
            Task::Move(_) => {}
            Task::All => {
                let Some(told) = told else { return Ok(()) };
                let mut all = Vec::new();
                for reply in told {
                    all.extend(reply.numbers().ok_or_else(unexpected)?);
                }
                let actions = vec![Moved::All(all)];
                self.elements.push(running.transaction(outcome, now, actions));
            }
            Task::Draw(number) => {
                let Some(told) = told else { return Ok(()) };
                let drawn = |reply: &Reply| match reply {
                    Reply::Number(number) => Some(*number),
                    _ => None,
                };
                let drawn: Option<Vec<i64>> = told.iter().map(drawn).collect();
                self.drawn_by(*number, drawn.ok_or_else(unexpected)?)?;
            }
            // Whom it kept from lapsing need not be known.
            Task::Keep { .. } => {}
            Task::Banner(_) | Task::SetLapsing { .. } => {
                let done = vec![Answer::Done; running.tickets.len()];
                self.answer(running, outcome, &done, now);
            }
            Task::ReadBanner { is_block } => {
                let mut answers = Vec::new();
                if let Some(told) = told {
                    let all = whole(told, *is_block).ok_or_else(unexpected)?;
                    if all.windows(2).any(|pair| pair[0] != pair[1]) {
                        return Err(format!("half a banner was seen: {all:?}"));
                    }
                    answers.push(Answer::Value(all[0]));
                }
                self.answer(running, outcome, &answers, now);
            }
            Task::ReadLapsing { is_block } => {
                let all = told.map_or(Some(Vec::new()), |told| whole(told, *is_block));
                let all = all.ok_or_else(unexpected)?.into_iter();
                let answers: Vec<Answer> = all.map(|seen| Answer::Value(seen.or(Some(LAPSED)))).collect();
                self.answer(running, outcome, &answers, now);
            }
            Task::Refill { generation, how } => {
                if let Some(told) = told {
                    let is_right = is_refilled(told, *generation, *how, mix);
                    is_right.then_some(()).ok_or_else(unexpected)?;
                }
                self.answer(running, outcome, &[Answer::Done], now);
            }
            Task::Census(_) => {
                let mut answers = Vec::new();
                if let Some(told) = told {
                    answers.push(Answer::Value(generation_of(told, mix).ok_or_else(unexpected)?));
                }
                self.answer(running, outcome, &answers, now);
            }
        }
        Ok(())
    }

    /// A named request was answered: it is carried out once, and so is every other.
    fn drawn_by(&mut self, number: u64, drawn: Vec<i64>) -> Result<(), String> {
        if drawn.iter().any(|drawn| *drawn > self.named.len() as i64) {
            return Err(format!(
                "requests are carried out more often than there are: {drawn:?}"
            ));
        }
        for (other, others) in &self.drawn {
            let has_common = others.iter().zip(&drawn).any(|(one, other)| one == other);
            let is_right = if *other == number {
                *others == drawn
            } else {
                !has_common
            };
            if !is_right {
                return Err(format!(
                    "request {number} drew {drawn:?}, request {other} {others:?}"
                ));
            }
        }
        self.drawn.insert(number, drawn);
        Ok(())
    }

    /// How many transactions were told of.
    pub(crate) fn len(&self) -> usize {
        self.lists.len()
            + self.bank.len()
            + self.ring.len()
            + self.elements.len()
            + self.registers.len()
            + self.drawn.len()
    }

    /// Judges what was seen.
    ///
    /// # Errors
    /// What cannot be.
    pub(crate) fn judge(self, mix: &Mix) -> (Result<(), String>, String) {
        let mut text = String::new();
        let lists = Transactions::new(self.lists);
        let bank = Transactions::new(self.bank);
        let ring = Transactions::new(self.ring);
        let registers = self.registers.finish();
        let _ = writeln!(
            text,
            "{lists}\n{bank}\n{ring}\n{registers}\ndrawn: {:?}",
            self.drawn
        );
        for transaction in &self.elements {
            let _ = writeln!(text, "{transaction:?}");
        }
        let opening: BTreeMap<String, i64> = (0..mix.keys).map(|key| (format!("ta{key}"), OPENING)).collect();
        let judgements = [
            list_append::check(&lists),
            bank::check(&bank, &opening),
            ring::check(&ring, mix.keys as usize),
        ];
        let result = judgements.into_iter().try_for_each(|judgement| match judgement {
            Judgement::Clean => Ok(()),
            Judgement::Violated(anomaly) => Err(anomaly.to_string()),
        });
        let result = result
            .and_then(|()| world::judge(&registers).map_err(|error| format!("registers: {error}")))
            .and_then(|()| judge_elements(&self.elements));
        (result, text)
    }
}

fn draw_from<T: Copy>(all: &[T], prng: &mut Prng) -> T {
    all[prng.below(all.len() as u64) as usize]
}

/// The keys of a generation.
fn generation(number: i64, mix: &Mix) -> impl Iterator<Item = String> {
    (0..mix.keys).map(move |key| format!("tk{number}:{key}"))
}

/// The key of a generation that is elsewhere for a moment.
fn elsewhere(number: i64) -> String {
    format!("tk{number}:elsewhere")
}

/// Whether a transaction saw what it did to a database, step by step.
fn is_refilled(told: &[Reply], number: i64, how: Refilling, mix: &Mix) -> bool {
    let [.., counted, _] = told else { return false };
    let is_counted = *counted == Reply::Number(mix.keys as i64);
    let has_moved = || {
        let expected: BTreeSet<String> = generation(number, mix)
            .skip(1)
            .chain([elsewhere(number)])
            .collect();
        told.get(4).and_then(Reply::texts) == Some(expected)
    };
    is_counted && (how != Refilling::Move || has_moved())
}

/// Which generation a database holds; `None` if that cannot be.
#[expect(
    clippy::option_option,
    reason = "an empty database and an impossible one are different answers"
)]
fn generation_of(told: &[Reply], mix: &Mix) -> Option<Option<i64>> {
    let [_, keys, Reply::Number(counted), ..] = told else {
        return None;
    };
    let keys = keys.texts()?;
    if keys.len() as i64 != *counted {
        return None;
    }
    let Some(first) = keys.first() else {
        return Some(None);
    };
    let number = first.strip_prefix("tk")?.split_once(':')?.0.parse().ok()?;
    let expected: BTreeSet<String> = generation(number, mix).collect();
    (keys == expected).then_some(Some(number))
}

/// Each element that was put somewhere is somewhere, once.
fn judge_elements(history: &[Transaction<Moved>]) -> Result<(), String> {
    let put = |transaction: &&Transaction<Moved>| matches!(transaction.actions[0], Moved::Put(_));
    for read in history {
        let Moved::All(all) = &read.actions[0] else {
            continue;
        };
        let seen: BTreeSet<i64> = all.iter().copied().collect();
        if seen.len() < all.len() {
            return Err(format!("one element in two places: {read:?}"));
        }
        let mut unexplained = seen.clone();
        for transaction in history.iter().filter(put) {
            let Moved::Put(element) = transaction.actions[0] else {
                continue;
            };
            let was_there = transaction.is_committed() && transaction.ended() < read.invoked;
            if was_there && !seen.contains(&element) {
                return Err(format!("element {element} is nowhere: {transaction:?}, {read:?}"));
            }
            if transaction.outcome != Outcome::Aborted {
                unexplained.remove(&element);
            }
        }
        if !unexplained.is_empty() {
            return Err(format!(
                "elements {unexplained:?} were not put anywhere: {read:?}"
            ));
        }
    }
    Ok(())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn of_all(command: &str, letter: &str, mix: &Mix) -> Vec<String> {
    let keys = (0..mix.keys).map(|key| format!("{letter}{key}"));
    std::iter::once(command.to_owned()).chain(keys).collect()
}

/// `MGET`, or `GET` of each in one block.
fn read_all(letter: &str, is_block: bool, mix: &Mix) -> Vec<Vec<String>> {
    if !is_block {
        return vec![of_all("MGET", letter, mix)];
    }
    block((0..mix.keys).map(|key| words(&["GET", &format!("{letter}{key}")])))
}

fn block(commands: impl IntoIterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let mut all = vec![words(&["MULTI"])];
    all.extend(commands);
    all.push(words(&["EXEC"]));
    all
}

fn pairs(command: &str, letter: &str, mix: &Mix, value: impl Fn(u64) -> i64) -> Vec<String> {
    let mut all = vec![command.to_owned()];
    for key in 0..mix.keys {
        all.extend([format!("{letter}{key}"), value(key).to_string()]);
    }
    all
}

/// Whether the answer is that of `EXEC`.
fn is_block(task: &Task) -> bool {
    match task {
        Task::Lists(_)
        | Task::All
        | Task::Swap(_)
        | Task::Refill { .. }
        | Task::Census(_)
        | Task::SetLapsing { .. }
        | Task::Keep { .. } => true,
        Task::Transfer { is_watched, .. } => *is_watched,
        Task::Balances { is_block }
        | Task::Whole { is_block }
        | Task::ReadBanner { is_block }
        | Task::ReadLapsing { is_block } => *is_block,
        Task::Move(moves) => moves.len() > 1,
        Task::Draw(number) => is_wide(*number),
        Task::OpenBank | Task::OpenRing | Task::Put { .. } | Task::Banner(_) => false,
    }
}

/// Whether a step is the last one, which alone changes anything.
fn decides(task: &Task, step: usize) -> bool {
    match task {
        Task::Transfer { is_watched: true, .. } => step == 1,
        Task::Swap(_) => step == 3,
        _ => true,
    }
}

fn first_step(task: &Task, mix: &Mix) -> Vec<Vec<String>> {
    match task {
        Task::Lists(operations) => block(operations.iter().map(|(key, element)| {
            let key = format!("tl{key}");
            match element {
                Some(element) => words(&["RPUSH", &key, &element.to_string()]),
                None => words(&["LRANGE", &key, "0", "-1"]),
            }
        })),
        Task::OpenBank => vec![pairs("MSETNX", "ta", mix, |_| OPENING)],
        Task::Transfer {
            from,
            to,
            amount,
            is_watched,
        } => {
            let (from, to) = (format!("ta{from}"), format!("ta{to}"));
            if *is_watched {
                return vec![
                    words(&["WATCH", &from, &to]),
                    words(&["GET", &from]),
                    words(&["GET", &to]),
                ];
            }
            vec![words(&["XFER", &from, &to, &amount.to_string()])]
        }
        Task::Balances { is_block } => read_all("ta", *is_block, mix),
        Task::OpenRing => vec![pairs("MSETNX", "tr", mix, |key| ((key + 1) % mix.keys) as i64)],
        Task::Swap(key) => watched(*key as i64),
        Task::Whole { is_block } => read_all("tr", *is_block, mix),
        Task::Put {
            is_set,
            place,
            element,
        } => {
            let (command, letter) = if *is_set { ("SADD", "ts") } else { ("RPUSH", "tq") };
            vec![words(&[
                command,
                &format!("{letter}{place}"),
                &element.to_string(),
            ])]
        }
        Task::Move(moves) if moves.len() > 1 => block(moves.iter().cloned()),
        Task::Move(moves) => moves.clone(),
        Task::All => {
            let lists = (0..PLACES).map(|place| words(&["LRANGE", &format!("tq{place}"), "0", "-1"]));
            let sets = (0..PLACES).map(|place| words(&["SMEMBERS", &format!("ts{place}")]));
            block(lists.chain(sets))
        }
        Task::Banner(value) => vec![pairs("MSET", "tb", mix, |_| *value)],
        Task::ReadBanner { is_block } => read_all("tb", *is_block, mix),
        Task::Refill { generation, how } => refill(*generation, *how, mix),
        Task::Census(how) => {
            let beside = match how {
                Counting::Read => None,
                Counting::Beside => Some(words(&["DEL", "nobody"])),
                Counting::Across => Some(words(&[
                    "SINTERSTORE",
                    "nobody",
                    "no",
                    "none",
                    "never",
                    "nothing",
                ])),
            };
            let counts = [words(&["SELECT", "1"]), words(&["KEYS", "*"]), words(&["DBSIZE"])];
            block(counts.into_iter().chain(beside).chain([words(&["SELECT", "0"])]))
        }
        Task::SetLapsing { keys, value, millis } => block(keys.iter().map(|key| {
            let (key, value) = (format!("tm{key}"), value.to_string());
            words(&["SET", &key, &value, "PX", &millis.to_string()])
        })),
        Task::Keep { keys, millis } => block(keys.iter().map(|key| {
            let key = format!("tm{key}");
            match millis {
                Some(millis) => words(&["PEXPIRE", &key, &millis.to_string()]),
                None => words(&["PERSIST", &key]),
            }
        })),
        Task::ReadLapsing { is_block } => read_all("tm", *is_block, mix),
        Task::Draw(number) if is_wide(*number) => block(["tn0", "tn1"].map(|key| words(&["INCR", key]))),
        Task::Draw(_) => vec![words(&["INCR", "tn0"])],
    }
}

/// Whether the named request of this number is one over several groups.
fn is_wide(number: u64) -> bool {
    !number.is_multiple_of(3)
}

fn refill(number: i64, how: Refilling, mix: &Mix) -> Vec<Vec<String>> {
    let select = |db: &str| words(&["SELECT", db]);
    let mut fill = vec!["MSET".to_owned()];
    fill.extend(generation(number, mix).flat_map(|key| [key, "here".to_owned()]));
    let first = generation(number, mix).next().expect("a generation has keys");
    let elsewhere = elsewhere(number);
    let first_db = if how == Refilling::Swap { "2" } else { "1" };
    let mut commands = vec![select(first_db), words(&["FLUSHDB"]), fill];
    commands.extend(match how {
        Refilling::Flush => Vec::new(),
        Refilling::Move => vec![
            words(&["RENAME", &first, &elsewhere]),
            words(&["KEYS", "*"]),
            words(&["RENAME", &elsewhere, &first]),
        ],
        Refilling::Swap => vec![words(&["SWAPDB", "1", "2"]), select("1")],
    });
    commands.extend([words(&["DBSIZE"]), select("0")]);
    block(commands)
}

fn watched(key: i64) -> Vec<Vec<String>> {
    let key = format!("tr{key}");
    vec![words(&["WATCH", &key]), words(&["GET", &key])]
}

/// What follows from what an earlier step was told; nothing if it is given up.
fn next_step(running: &mut Running, replies: &[Reply]) -> Result<Option<Vec<Vec<String>>>, String> {
    for reply in &replies[1..] {
        match reply {
            Reply::Text(text) => match text.parse() {
                Ok(number) => running.seen.push(number),
                Err(_) => return Err(running.unexpected(replies)),
            },
            Reply::Nil => return Ok(None),
            Reply::Error(error) if outcome_of(error).is_some() => return Ok(None),
            _ => return Err(running.unexpected(replies)),
        }
    }
    match &replies[0] {
        Reply::Text(text) if text == "OK" => {}
        Reply::Error(error) if outcome_of(error).is_some() => return Ok(None),
        _ => return Err(running.unexpected(replies)),
    }
    let set = |letter: &str, key: &dyn std::fmt::Display, value: i64| {
        words(&["SET", &format!("{letter}{key}"), &value.to_string()])
    };
    let seen = &running.seen;
    Ok(match (&running.task, seen.as_slice()) {
        (Task::Transfer { from, to, amount, .. }, [here, there]) if here >= amount => Some(block([
            set("ta", from, here - amount),
            set("ta", to, there + amount),
        ])),
        (Task::Swap(_), [next] | [_, next]) => Some(watched(*next)),
        (Task::Swap(first), &[second, third, fourth]) if second != third && *first as i64 != third => {
            Some(block([
                set("tr", first, third),
                set("tr", &third, second),
                set("tr", &second, fourth),
            ]))
        }
        _ => None,
    })
}

/// What an error says of a transaction: only some say that nothing was done.
fn outcome_of(error: &str) -> Option<Outcome> {
    match error.split(' ').next()? {
        "UNKNOWN" => Some(Outcome::Unknown),
        "TRYAGAIN" | "CLUSTERDOWN" | "MOVED" | "LOADING" | "EXECABORT" => Some(Outcome::Aborted),
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

impl Running {
    fn unexpected(&self, replies: &[Reply]) -> String {
        format!("{:?} was answered {replies:?}", self.task)
    }

    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    /// What a read of all keys of a family saw, if it was told anything; nothing at all if the family was not made by then.
    #[expect(
        clippy::option_option,
        reason = "a read that nobody answered and one of what is not there are different"
    )]
    fn made(
        &self,
        told: Option<&[Reply]>,
        is_block: bool,
        made: Option<u64>,
        what: &str,
    ) -> Result<Option<Option<Vec<i64>>>, String> {
        let Some(told) = told else { return Ok(Some(None)) };
        let unexpected = || self.unexpected(told);
        let all = whole(told, is_block).ok_or_else(unexpected)?;
        if all.iter().any(Option::is_some) {
            let all: Option<Vec<i64>> = all.into_iter().collect();
            return Ok(Some(Some(all.ok_or_else(unexpected)?)));
        }
        match made {
            Some(at) if Some(at) < self.invoked => Err(format!("the {what} were made, and nobody sees them")),
            _ => Ok(None),
        }
    }

    /// What is written down of it when it is over.
    fn transaction<A>(&self, outcome: Outcome, now: u64, actions: Vec<A>) -> Transaction<A> {
        Transaction {
            process: self.process,
            invoked: self.invoked.expect("only what was sent is over"),
            returned: (outcome != Outcome::Unknown).then_some(now),
            outcome,
            actions,
        }
    }
}

/// Numbers of all keys of a family.
fn whole(told: &[Reply], is_block: bool) -> Option<Vec<Option<i64>>> {
    let all = match told {
        [Reply::Array(all)] if !is_block => all,
        _ if is_block => told,
        _ => return None,
    };
    let number = |reply: &Reply| match reply {
        Reply::Nil => Some(None),
        reply => reply.number().map(Some),
    };
    all.iter().map(number).collect()
}

/// What a client still has to do when the storm is over.
pub(crate) type Tasks = VecDeque<Task>;

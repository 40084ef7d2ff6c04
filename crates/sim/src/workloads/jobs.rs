//! Jobs: entries of streams that a group gives to readers, each to one, and that are pending until they are acknowledged.
//!
//! ```text
//!   added --XREADGROUP--> pending for a reader --XACK, alone or with the next job of another stream--> acknowledged
//!                            |        ^
//!                            '--------' XAUTOCLAIM: for another reader
//! ```
//!
//! Each read and each claim has a reader of its own, and nothing is ever removed: of all that is pending it is known who was told of
//! it, and what was given to somebody is pending or was acknowledged.

use super::{Checked, Command, Draw, End, Step, Workload, command};
use crate::reply::Reply;
use history::{Outcome, Transaction};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs that may be added: reads of everything show all of them.
const JOBS_MAX: i64 = 80;
/// Streams, each with one group.
const STREAMS: u64 = 3;
/// How long a job is waited for, in milliseconds.
const WAIT_MILLIS: &str = "100";
/// Jobs that a reader takes of a stream at most.
const TAKEN_MAX: &str = "2";

/// An entry's stream and id.
type Place = (u64, Id);

type Id = (u64, u64);

/// See the file's header.
#[derive(Default)]
pub(crate) struct Jobs {
    history: Vec<Transaction<Action>>,
    last_number: i64,
    jobs: i64,
    /// When the groups were there at the latest.
    made: Option<u64>,
    /// What somebody was told of, and nobody acknowledged.
    open: Vec<Place>,
}

#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// The streams and their groups are made, if there are none.
    Open,
    Add(u64, i64),
    Read {
        streams: Vec<u64>,
        reader: i64,
        waits: bool,
    },
    Claim {
        stream: u64,
        reader: i64,
    },
    /// A job is done, and perhaps another one is added to a stream with that.
    Acknowledge(Place, Option<(u64, i64)>),
    /// Everything is read.
    All,
}

#[derive(Debug)]
enum Action {
    /// A job is added; the id, if that was told.
    Add(u64, i64, Option<Id>),
    /// A reader is given entries, if that was told.
    Read(Given),
    Claim(Given),
    Acknowledge(Place),
    All(Vec<Stream>),
}

#[derive(Debug)]
struct Given {
    reader: i64,
    streams: Vec<u64>,
    told: Option<BTreeMap<Place, i64>>,
}

/// How a stream stands.
#[derive(Debug)]
struct Stream {
    /// The jobs by their ids.
    entries: BTreeMap<Id, i64>,
    /// Which reader has what.
    pending: BTreeMap<Id, i64>,
    /// Up to which id its group was given entries.
    given: Id,
    lag: i64,
}

impl Workload for Jobs {
    type Task = Task;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Task {
        if draw.is_read {
            return Task::All;
        }
        let stream = draw.below(STREAMS);
        match draw.below(20) {
            0..5 if self.jobs < JOBS_MAX => Task::Add(stream, self.next_job()),
            5..9 if !self.open.is_empty() => {
                let place = draw.below(self.open.len() as u64) as usize;
                let is_followed = self.jobs < JOBS_MAX && draw.below(2) == 0;
                let next = is_followed.then(|| (stream, self.next_job()));
                Task::Acknowledge(self.open[place], next)
            }
            9 => Task::Claim {
                stream,
                reader: self.next_number(),
            },
            _ => {
                let other = (stream + 1 + draw.below(STREAMS - 1)) % STREAMS;
                Task::Read {
                    streams: [stream, other][..1 + draw.below(2) as usize].to_vec(),
                    reader: self.next_number(),
                    waits: draw.below(2) == 0,
                }
            }
        }
    }

    fn read_all(&self, _: u64) -> Option<Task> {
        Some(Task::All)
    }

    fn setup(&self, task: &Task) -> Option<Task> {
        let is_needed = self.made.is_none() && !matches!(task, Task::Open);
        is_needed.then_some(Task::Open)
    }

    fn again(&mut self, task: &Task) -> Option<Task> {
        Some(match task {
            // What needs it asks for it.
            Task::Open => return None,
            Task::Add(stream, _) => Task::Add(*stream, self.next_job()),
            Task::Read { streams, waits, .. } => Task::Read {
                streams: streams.clone(),
                reader: self.next_number(),
                waits: *waits,
            },
            Task::Claim { stream, .. } => Task::Claim {
                stream: *stream,
                reader: self.next_number(),
            },
            Task::Acknowledge(place, next) => {
                Task::Acknowledge(*place, next.map(|(stream, _)| (stream, self.next_job())))
            }
            Task::All => Task::All,
        })
    }

    fn step(&mut self, task: &Task, _: &[i64], _: u64, _: u64) -> Option<Step> {
        Some(match task {
            Task::Open => {
                let create = |stream| command!["XGROUP", "CREATE", key(stream), "g", "0", "MKSTREAM"];
                Step::block((0..STREAMS).map(create))
            }
            Task::Add(stream, job) => Step::one(add(*stream, *job)),
            Task::Read {
                streams,
                reader,
                waits,
            } => {
                let mut words = command!["XREADGROUP", "GROUP", "g", reader, "COUNT", TAKEN_MAX];
                if *waits {
                    words.extend(command!["BLOCK", WAIT_MILLIS]);
                }
                words.extend(command!["STREAMS"]);
                words.extend(streams.iter().map(|stream| key(*stream)));
                words.extend(streams.iter().map(|_| ">".to_owned()));
                Step::one(words)
            }
            Task::Claim { stream, reader } => Step::one(command![
                "XAUTOCLAIM",
                key(*stream),
                "g",
                reader,
                "0",
                "0",
                "COUNT",
                TAKEN_MAX
            ]),
            Task::Acknowledge((stream, (ms, seq)), next) => {
                let acknowledge = command!["XACK", key(*stream), "g", format!("{ms}-{seq}")];
                match next {
                    None => Step::one(acknowledge),
                    Some((stream, job)) => Step::block([acknowledge, add(*stream, *job)]),
                }
            }
            Task::All => Step::block((0..STREAMS).flat_map(|stream| {
                [
                    command!["XRANGE", key(stream), "-", "+"],
                    command!["XPENDING", key(stream), "g", "-", "+", "1000"],
                    command!["XINFO", "GROUPS", key(stream)],
                ]
            })),
        })
    }

    fn on_end(&mut self, task: &Task, end: &End<'_>, _: u64) -> Result<(), String> {
        let actions = match end.told {
            None => unanswered(task),
            Some(told) => answered(task, told).ok_or_else(|| end.unexpected())?,
        };
        if let Task::Open = task {
            self.made = end.makes(self.made);
        }
        if let (Task::Acknowledge(place, _), Some(_)) = (task, end.told) {
            self.open.retain(|open| open != place);
        }
        for action in &actions {
            if let Action::Read(given) | Action::Claim(given) = action {
                let told = given.told.iter().flat_map(BTreeMap::keys);
                let new = told.filter(|place| !self.open.contains(place));
                let new: Vec<Place> = new.copied().collect();
                self.open.extend(new);
            }
        }
        if !actions.is_empty() {
            self.history.push(end.transaction(actions));
        }
        Ok(())
    }

    fn check(self, _: u64) -> Checked {
        let lines = self
            .history
            .iter()
            .map(|transaction| format!("{transaction:?}\n"));
        let seen = Seen::of(&self.history);
        (self.history.len(), seen.check(), lines.collect())
    }
}

impl Jobs {
    fn next_number(&mut self) -> i64 {
        self.last_number += 1;
        self.last_number
    }

    fn next_job(&mut self) -> i64 {
        self.jobs += 1;
        self.next_number()
    }
}

fn key(stream: u64) -> String {
    format!("tj{stream}")
}

fn add(stream: u64, job: i64) -> Command {
    command!["XADD", key(stream), "*", "job", job]
}

/// What a task asked of which nobody knows whether it was done.
fn unanswered(task: &Task) -> Vec<Action> {
    let given = |reader, streams| Given {
        reader,
        streams,
        told: None,
    };
    match task {
        Task::Open | Task::All => Vec::new(),
        Task::Add(stream, job) => vec![Action::Add(*stream, *job, None)],
        Task::Read { streams, reader, .. } => vec![Action::Read(given(*reader, streams.clone()))],
        Task::Claim { stream, reader } => vec![Action::Claim(given(*reader, vec![*stream]))],
        Task::Acknowledge(place, next) => {
            let next = next.map(|(stream, job)| Action::Add(stream, job, None));
            std::iter::once(Action::Acknowledge(*place)).chain(next).collect()
        }
    }
}

/// What a task came to; `None` if nobody may answer so.
fn answered(task: &Task, told: &[Reply]) -> Option<Vec<Action>> {
    Some(match (task, told) {
        (Task::Open, told) => {
            // One block made all of them.
            let is_made = |reply: &Reply| *reply == Reply::Text("OK".to_owned());
            let is_there =
                |reply: &Reply| matches!(reply, Reply::Error(error) if error.starts_with("BUSYGROUP"));
            (told.iter().all(is_made) || told.iter().all(is_there)).then(Vec::new)?
        }
        (Task::Add(stream, job), [reply]) => vec![Action::Add(*stream, *job, Some(id(reply)?))],
        (Task::Read { streams, reader, .. }, [reply]) => vec![Action::Read(Given {
            reader: *reader,
            streams: streams.clone(),
            told: Some(read(reply, streams)?),
        })],
        (Task::Claim { stream, reader }, [Reply::Array(told)]) => {
            let [_, claimed, Reply::Array(deleted)] = &told[..] else {
                return None;
            };
            let told = entries(claimed)?
                .into_iter()
                .map(|(id, job)| ((*stream, id), job));
            deleted.is_empty().then(|| {
                vec![Action::Claim(Given {
                    reader: *reader,
                    streams: vec![*stream],
                    told: Some(told.collect()),
                })]
            })?
        }
        (Task::Acknowledge(place, None), [Reply::Number(0 | 1)]) => vec![Action::Acknowledge(*place)],
        (Task::Acknowledge(place, Some((stream, job))), [Reply::Number(0 | 1), reply]) => vec![
            Action::Acknowledge(*place),
            Action::Add(*stream, *job, Some(id(reply)?)),
        ],
        (Task::All, told) => {
            let all: Option<Vec<Stream>> = told.chunks(3).map(stream).collect();
            vec![Action::All(all?)]
        }
        _ => return None,
    })
}

fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Text(text) => Some(text),
        _ => None,
    }
}

fn id(reply: &Reply) -> Option<Id> {
    let (ms, seq) = text(reply)?.split_once('-')?;
    Some((ms.parse().ok()?, seq.parse().ok()?))
}

/// Entries, each with its job.
fn entries(reply: &Reply) -> Option<BTreeMap<Id, i64>> {
    let Reply::Array(all) = reply else { return None };
    let entry = |reply: &Reply| match reply {
        Reply::Array(entry) => match &entry[..] {
            [found, Reply::Array(fields)] => Some((id(found)?, fields.get(1)?.number()?)),
            _ => None,
        },
        _ => None,
    };
    let found: BTreeMap<Id, i64> = all.iter().map(entry).collect::<Option<_>>()?;
    let ids = all.iter().filter_map(entry).map(|(id, _)| id);
    ids.is_sorted_by(|one, next| one < next).then_some(found)
}

/// What a read told of these streams.
fn read(reply: &Reply, streams: &[u64]) -> Option<BTreeMap<Place, i64>> {
    let told = match reply {
        Reply::Nil => return Some(BTreeMap::new()),
        Reply::Array(told) => told,
        _ => return None,
    };
    let mut all = BTreeMap::new();
    for one in told {
        let Reply::Array(one) = one else { return None };
        let [name, found] = &one[..] else { return None };
        let stream = streams.iter().find(|stream| text(name) == Some(&key(**stream)))?;
        let found = entries(found)?;
        all.extend(found.into_iter().map(|(id, job)| ((*stream, id), job)));
    }
    Some(all)
}

/// What was told of a stream: its entries, what is pending, and its groups.
fn stream(told: &[Reply]) -> Option<Stream> {
    let [found, Reply::Array(pending), Reply::Array(groups)] = told else {
        return None;
    };
    let waits = |reply: &Reply| match reply {
        Reply::Array(one) => Some((id(one.first()?)?, one.get(1)?.number()?)),
        _ => None,
    };
    let [Reply::Array(group)] = &groups[..] else {
        return None;
    };
    let field = |name: &str| {
        let at = group.iter().position(|field| text(field) == Some(name))?;
        group.get(at + 1)
    };
    Some(Stream {
        entries: entries(found)?,
        pending: pending.iter().map(waits).collect::<Option<_>>()?,
        given: id(field("last-delivered-id")?)?,
        lag: field("lag")?.number()?,
    })
}

/// All that clients saw, by what it is about.
#[derive(Default)]
struct Seen<'a> {
    /// What was added, or may have been, by its job.
    added: BTreeMap<i64, (&'a Transaction<Action>, u64, Option<Id>)>,
    /// What was given, or may have been, by its reader.
    given: BTreeMap<i64, &'a Given>,
    /// Reads alone: claims give once more.
    reads: Vec<(&'a Transaction<Action>, &'a Given)>,
    /// Who has acknowledged an entry, or may have.
    acknowledged: BTreeMap<Place, Vec<&'a Transaction<Action>>>,
    all: Vec<(&'a Transaction<Action>, &'a [Stream])>,
}

impl<'a> Seen<'a> {
    fn of(history: &'a [Transaction<Action>]) -> Seen<'a> {
        let mut seen = Seen::default();
        let not_refused = history
            .iter()
            .filter(|transaction| transaction.outcome != Outcome::Aborted);
        for transaction in not_refused {
            for action in &transaction.actions {
                match action {
                    Action::Add(stream, job, id) => {
                        seen.added.insert(*job, (transaction, *stream, *id));
                    }
                    Action::Read(given) => {
                        seen.given.insert(given.reader, given);
                        seen.reads.push((transaction, given));
                    }
                    Action::Claim(given) => {
                        seen.given.insert(given.reader, given);
                    }
                    Action::Acknowledge(place) => {
                        seen.acknowledged.entry(*place).or_default().push(transaction);
                    }
                    Action::All(streams) => seen.all.push((transaction, streams.as_slice())),
                }
            }
        }
        seen
    }

    fn check(&self) -> Result<(), String> {
        self.check_reads()?;
        self.all.iter().try_for_each(|(read, streams)| {
            let judged = self
                .check_jobs(read, streams)
                .and_then(|()| self.check_groups(read, streams));
            judged.map_err(|what| format!("{what}: {read:?}"))
        })
    }

    /// No entry is given to two, and none that is there is withheld.
    fn check_reads(&self) -> Result<(), String> {
        let mut givers: BTreeMap<Place, &Transaction<Action>> = BTreeMap::new();
        for (read, given) in &self.reads {
            for place in given.told.iter().flat_map(BTreeMap::keys) {
                if let Some(other) = givers.insert(*place, read) {
                    return Err(format!("{place:?} is given to two: {other:?}, {read:?}"));
                }
            }
        }
        let told = self.reads.iter().filter(|(read, _)| read.is_committed());
        for (read, given) in told {
            let is_empty = |stream: u64| {
                let told = given.told.iter().flatten();
                told.filter(|((of, _), _)| *of == stream).count() == 0
            };
            for stream in given.streams.iter().copied().filter(|stream| is_empty(*stream)) {
                // Whoever was not answered may have been given anything.
                let is_open = self.reads.iter().any(|(other, given)| {
                    !other.is_committed() && other.invoked < read.ended() && given.streams.contains(&stream)
                });
                let withheld = self.added.values().filter(|_| !is_open).find(|(add, of, id)| {
                    let was_there = *of == stream && add.is_committed() && add.ended() < read.invoked;
                    let giver = id.and_then(|id| givers.get(&(stream, id)));
                    was_there && giver.is_none_or(|giver| giver.invoked > read.ended())
                });
                if let Some((add, ..)) = withheld {
                    return Err(format!("a job is there and is not given: {add:?}, {read:?}"));
                }
            }
        }
        Ok(())
    }

    /// Each job that was added is in its stream, once.
    fn check_jobs(&self, read: &Transaction<Action>, streams: &[Stream]) -> Result<(), String> {
        let mut jobs = BTreeMap::new();
        for (of, stream) in (0..).zip(streams) {
            for (id, job) in &stream.entries {
                let Some((_, to, told)) = self.added.get(job) else {
                    return Err(format!("job {job} was not added"));
                };
                if *to != of || told.is_some_and(|told| told != *id) {
                    return Err(format!(
                        "job {job} is at {of} {id:?}, and was added as {told:?} to {to}"
                    ));
                }
                if jobs.insert(*job, (of, *id)).is_some() {
                    return Err(format!("job {job} is there twice"));
                }
            }
        }
        for (job, (add, ..)) in &self.added {
            let was_there = add.is_committed() && add.ended() < read.invoked;
            if was_there && !jobs.contains_key(job) {
                return Err(format!("job {job} is nowhere, {add:?}"));
            }
            // What it followed was acknowledged with it.
            let followed = add.actions.iter().find_map(|action| match action {
                Action::Acknowledge((of, id)) => Some((*of, *id)),
                _ => None,
            });
            if let Some((of, id)) = followed.filter(|_| jobs.contains_key(job))
                && streams[of as usize].pending.contains_key(&id)
            {
                return Err(format!(
                    "job {job} is there, and {id:?} of {of} is pending, {add:?}"
                ));
            }
        }
        Ok(())
    }

    /// What a group was given is pending for who was told so, or acknowledged, and nothing else is.
    fn check_groups(&self, read: &Transaction<Action>, streams: &[Stream]) -> Result<(), String> {
        for (of, stream) in (0..).zip(streams) {
            let behind = stream.entries.keys().filter(|id| **id > stream.given);
            let behind: BTreeSet<Id> = behind.copied().collect();
            if stream.lag != behind.len() as i64 {
                return Err(format!("the group of {of} lags by {}", behind.len()));
            }
            for id in stream.entries.keys().filter(|id| !behind.contains(id)) {
                let acknowledged = self.acknowledged.get(&(of, *id)).into_iter().flatten();
                let (mut may_be, mut must_be) = (false, false);
                for by in acknowledged {
                    may_be |= by.invoked < read.ended();
                    must_be |= by.is_committed() && by.ended() < read.invoked;
                }
                match stream.pending.contains_key(id) {
                    true if must_be => return Err(format!("{id:?} of {of} is pending, and acknowledged")),
                    false if !may_be => {
                        return Err(format!(
                            "{id:?} of {of} was given, and is neither pending nor acknowledged"
                        ));
                    }
                    _ => {}
                }
            }
            for (id, reader) in &stream.pending {
                let told = self.given.get(reader).map(|given| given.told.as_ref());
                let is_told = told.is_some_and(|told| told.is_none_or(|told| told.contains_key(&(of, *id))));
                if !is_told || behind.contains(id) {
                    return Err(format!(
                        "{id:?} of {of} is pending for {reader}, who was not given it"
                    ));
                }
            }
            for (other, given) in self
                .reads
                .iter()
                .filter(|(other, _)| other.ended() < read.invoked)
            {
                let told = given.told.iter().flat_map(BTreeMap::keys);
                let mut again = told.filter(|(stream, id)| *stream == of && behind.contains(id));
                if let Some(again) = again.next() {
                    return Err(format!(
                        "{again:?} was given, and is to be given again, {other:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}

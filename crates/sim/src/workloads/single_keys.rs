//! Commands on single keys: every value is written once, so that whoever sees it says which write he saw.

use super::registers::check;
use super::{Checked, Command, command};
use crate::reply::{Reply, encode, parse};
use history::{Answer, Call, History, Process, Recorder, Ticket};
use ids::{PartitionCount, PartitionId, Prng, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// See the file's header.
pub(crate) struct SingleKeys {
    prng: Prng,
    recorder: Recorder,
    keys: u64,
    /// How many of a hundred requests only read.
    reads: u64,
    last_value: i64,
    /// The latest value that was written to each register, for conditions that often hold.
    latest: Vec<i64>,
    /// How often all keys were given up for others.
    era: u64,
    /// The partitions of which a part was dropped, or that were begun anew, and when.
    lost: Vec<(PartitionCount, PartitionId, u64)>,
}

/// The families, by the letter that their keys begin with: registers, counters, lists, sets, queues, and queues whose
/// consumers wait a little for an element.
const LETTERS: [char; 6] = ['r', 'c', 'l', 's', 'q', 'w'];

/// Stands before the number of the era in keys of a later one than the first.
const ERA: char = ':';

/// How long a consumer waits for an element.
const WAIT_SECS: &str = "0.1";

/// Members of a set.
const MEMBERS: u64 = 3;

impl SingleKeys {
    pub(crate) fn new(keys: usize, reads: u64, prng: Prng) -> SingleKeys {
        SingleKeys {
            prng,
            recorder: Recorder::default(),
            keys: keys as u64,
            reads,
            last_value: 0,
            latest: vec![0; keys],
            era: 0,
            lost: Vec::new(),
        }
    }

    /// From now on other keys are used than before, which nobody has written to. How often that was.
    pub(crate) fn begin_anew(&mut self) -> u64 {
        self.latest.fill(0);
        self.era += 1;
        self.era
    }

    /// A partition was mended: what was written to it since groups began anew may be lost, or two groups have answered for it. From now on
    /// other keys are used.
    pub(crate) fn lose_partition(&mut self, count: PartitionCount, partition: PartitionId, now: u64) {
        self.lost.push((count, partition, now));
        self.begin_anew();
    }

    /// Of keys that were in use by then, and had come into use since something was lost, nothing is judged.
    fn excused(&self, history: &History) -> BTreeSet<String> {
        let mut since: BTreeMap<&str, u64> = BTreeMap::new();
        for operation in history.operations() {
            since.entry(&operation.key).or_insert(operation.invoked);
        }
        let is_lost = |(key, since): &(&str, u64)| {
            let slot = Slot::of_key(key.as_bytes());
            let mut lost = self.lost.iter();
            key.contains(ERA)
                && lost.any(|(count, partition, at)| count.partition_of(slot) == *partition && since <= at)
        };
        let lost = since.into_iter().filter(is_lost);
        lost.map(|(key, _)| key.to_owned()).collect()
    }

    fn key(&self, letter: char, number: u64) -> String {
        match self.era {
            0 => format!("{letter}{number}"),
            era => format!("{letter}{number}{ERA}{era}"),
        }
    }

    /// The next request of some client.
    pub(crate) fn next(&mut self) -> (String, Call) {
        // Queues have no reads: where little is written they are seldom used.
        let kinds = if self.reads > 90 && self.prng.below(8) > 0 {
            3
        } else {
            6
        };
        let letter = LETTERS[self.prng.below(kinds) as usize];
        let number = self.prng.below(self.keys);
        let key = self.key(letter, number);
        self.last_value += 1;
        let value = self.last_value;
        let latest = &mut self.latest[number as usize];
        let is_read = self.prng.below(100) < self.reads;
        let draw = self.prng.below(10);
        let member = self.prng.below(MEMBERS) as i64;
        let call = match (letter, draw) {
            ('r', _) if is_read => Call::Get,
            ('r', 0..6) => {
                *latest = value;
                Call::Set(value)
            }
            ('r', 6..8) => {
                *latest = value;
                Call::Swap(value)
            }
            ('r', _) => Call::Cas(std::mem::replace(latest, value), value),
            ('c', _) if is_read => Call::Count,
            ('c', _) => Call::Add(self.prng.below(3) as i64 + 1),
            ('l', _) if is_read => Call::List,
            ('l', _) => Call::Append(value),
            ('q' | 'w', 0..5) => Call::Pop,
            ('q' | 'w', _) => Call::Push(value),
            _ if is_read => Call::Has(member),
            (_, 0..5) => Call::Insert(member),
            _ => Call::Remove(member),
        };
        (key, call)
    }

    /// What to ask in place of a request that was not carried out, or perhaps was. No value is written twice.
    pub(crate) fn again(&mut self, call: Call) -> Call {
        self.last_value += 1;
        let value = self.last_value;
        match call {
            Call::Set(_) => Call::Set(value),
            Call::Swap(_) => Call::Swap(value),
            Call::Cas(from, _) => Call::Cas(from, value),
            Call::Append(_) => Call::Append(value),
            Call::Push(_) => Call::Push(value),
            Call::Get
            | Call::Count
            | Call::Add(_)
            | Call::List
            | Call::Pop
            | Call::Insert(_)
            | Call::Remove(_)
            | Call::Has(_) => call,
        }
    }

    /// A client asks; the request's bytes are added to `bytes`.
    pub(crate) fn call(
        &mut self,
        process: Process,
        (key, call): (&str, Call),
        now: u64,
        bytes: &mut Vec<u8>,
    ) -> Ticket {
        bytes.extend(encode(&request(key, call)));
        self.recorder.called(process, key, call, now)
    }

    /// And is answered.
    pub(crate) fn answered(&mut self, ticket: Ticket, answer: Answer, now: u64) {
        self.recorder.answered(ticket, answer, now);
    }

    /// Judges what was seen.
    pub(crate) fn check(&mut self) -> Checked {
        let history = std::mem::take(&mut self.recorder).finish();
        let excused = self.excused(&history);
        if excused.is_empty() {
            return check(&history);
        }
        let operations = history.operations().iter();
        let judged = operations.filter(|operation| !excused.contains(&operation.key));
        check(&History::new(judged.cloned().collect()))
    }

    /// A write to each partition, and a read of what was written.
    pub(crate) fn probes(&mut self, count: PartitionCount) -> Vec<(String, Call)> {
        let mut keys: BTreeMap<PartitionId, String> = BTreeMap::new();
        for number in 0.. {
            if keys.len() == usize::from(count.get()) {
                break;
            }
            let key = self.key('p', number);
            let partition = count.partition_of(Slot::of_key(key.as_bytes()));
            keys.entry(partition).or_insert(key);
        }
        let both = |key: String| [(key.clone(), self.again(Call::Set(0))), (key, Call::Get)];
        keys.into_values().flat_map(both).collect()
    }

    /// A write to everything there is.
    pub(crate) fn writes(&mut self) -> Vec<(String, Call)> {
        let mut writes = Vec::new();
        for number in 0..self.keys {
            let fresh = [Call::Set(0), Call::Append(0), Call::Push(0)].map(|call| self.again(call));
            let calls = [('r', fresh[0]), ('l', fresh[1]), ('q', fresh[2])];
            let others = [('c', Call::Add(1)), ('s', Call::Insert(0))];
            let all = calls.into_iter().chain(others);
            writes.extend(all.map(|(letter, call)| (self.key(letter, number), call)));
        }
        writes
    }

    /// Reads of everything there is.
    pub(crate) fn reads(&self) -> Vec<(String, Call)> {
        let mut reads = Vec::new();
        for number in 0..self.keys {
            reads.push((self.key('r', number), Call::Get));
            reads.push((self.key('c', number), Call::Count));
            reads.push((self.key('l', number), Call::List));
            reads.push((self.key('q', number), Call::Pop));
            reads.push((self.key('w', number), Call::Pop));
            reads.extend((0..MEMBERS).map(|member| (self.key('s', number), Call::Has(member as i64))));
        }
        reads
    }
}

/// A request's words.
fn request(key: &str, call: Call) -> Command {
    match call {
        Call::Get | Call::Count => command!["GET", key],
        Call::Set(value) => command!["SET", key, value],
        Call::Swap(value) => command!["SET", key, value, "GET"],
        Call::Cas(from, to) => command!["SET", key, to, "IFEQ", from],
        Call::Add(by) => command!["INCRBY", key, by],
        Call::Append(value) | Call::Push(value) => command!["RPUSH", key, value],
        Call::List => command!["LRANGE", key, "0", "-1"],
        Call::Pop if key.starts_with('w') => command!["BLPOP", key, WAIT_SECS],
        Call::Pop => command!["LPOP", key],
        Call::Insert(member) => command!["SADD", key, member],
        Call::Remove(member) => command!["SREM", key, member],
        Call::Has(member) => command!["SISMEMBER", key, member],
    }
}

/// The first answer in `bytes`, and how long it is; `None` if it is not whole.
///
/// # Errors
/// If no server may answer this.
pub(crate) fn answer(call: Call, bytes: &[u8]) -> Result<Option<(Answer, usize)>, String> {
    let Some((reply, length)) = parse(bytes)? else {
        return Ok(None);
    };
    let unexpected = || format!("{call} was answered {reply:?}");
    let number = |reply: &Reply| reply.number().ok_or_else(unexpected);
    let answer = match (call, &reply) {
        // Unknown is not failed: only these say that nothing was done.
        (_, Reply::Error(error)) => match error.split(' ').next() {
            Some("UNKNOWN") => Answer::Unknown,
            Some("TRYAGAIN" | "CLUSTERDOWN" | "MOVED" | "LOADING" | "MISCONF") => Answer::Refused,
            _ => return Err(unexpected()),
        },
        (Call::Set(_), Reply::Text(text)) if text == "OK" => Answer::Done,
        (Call::Cas(..), Reply::Text(text)) if text == "OK" => Answer::Held(true),
        (Call::Cas(..), Reply::Nil) => Answer::Held(false),
        (Call::Set(_) | Call::Cas(..), _) => return Err(unexpected()),
        (Call::Get | Call::Count | Call::Swap(_) | Call::Pop, Reply::Nil) => Answer::Value(None),
        // That of a blocking pop: the key, and the element.
        (Call::Pop, Reply::Array(all)) => match all.as_slice() {
            [_, element] => Answer::Value(Some(number(element)?)),
            _ => return Err(unexpected()),
        },
        (Call::Push(_), reply) => number(reply).map(|_| Answer::Done)?,
        (Call::List, reply) => Answer::Elements(reply.numbers().ok_or_else(unexpected)?),
        (_, reply) => Answer::Value(Some(number(reply)?)),
    };
    Ok(Some((answer, length)))
}

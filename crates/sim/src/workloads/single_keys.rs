//! Commands on single keys: every value is written once, so that whoever sees it says which write he saw.

use super::registers::check;
use super::{Checked, Command, command};
use crate::padding::{equally_padded, link, links_in, numbers_of_chain, pad};
use crate::reply::{Reply, encode, parse};
use history::{Answer, Call, Process, Recorder, Ticket};
use ids::Prng;
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
    /// Whether strings are long, and what is asked of them needs all of their bytes.
    pads: bool,
    /// What was written to strings that were given up for others since.
    relics: BTreeMap<String, BTreeSet<i64>>,
    /// Requests so far.
    asked: u64,
}

/// How a request of this number asks, where there are several ways.
#[derive(Clone, Copy)]
struct Way(u64);

/// The families, by the letter that their keys begin with: registers, counters, lists, sets, queues, and queues whose
/// consumers wait a little for an element.
const LETTERS: [char; 6] = ['r', 'c', 'l', 's', 'q', 'w'];
/// The same with chains, which are lists in one string, and registers that are overwritten byte for byte.
const LONG_LETTERS: [char; 10] = ['r', 'a', 'b', 'r', 'a', 'c', 'l', 's', 'q', 'w'];

/// Reads of strings that were given up, at most: one may take as long as a value is looked for.
const RELICS_READ_MAX: usize = 6;

/// A deadline that nobody lives to see.
const LATE_SECS: &str = "1000000";

/// How long a consumer waits for an element.
const WAIT_SECS: &str = "0.1";

/// Members of a set.
const MEMBERS: u64 = 3;

impl SingleKeys {
    pub(crate) fn new(keys: usize, reads: u64, pads: bool, prng: Prng) -> SingleKeys {
        SingleKeys {
            prng,
            recorder: Recorder::default(),
            keys: keys as u64,
            reads,
            last_value: 0,
            latest: vec![0; keys],
            era: 0,
            pads,
            relics: BTreeMap::new(),
            asked: 0,
        }
    }

    /// From now on other keys are used than before, which nobody has written to. How often that was.
    pub(crate) fn begin_anew(&mut self) -> u64 {
        self.latest.fill(0);
        self.era += 1;
        self.era
    }

    fn key(&self, letter: char, number: u64) -> String {
        match self.era {
            0 => format!("{letter}{number}"),
            era => format!("{letter}{number}:{era}"),
        }
    }

    /// The next request of some client.
    pub(crate) fn next(&mut self) -> (String, Call) {
        // Queues have no reads: where little is written they are seldom used.
        let has_queues = self.reads <= 90 || self.prng.below(8) == 0;
        let letters = match (self.pads, has_queues) {
            (false, false) => &LETTERS[..3],
            (false, true) => &LETTERS[..],
            (true, false) => &LONG_LETTERS[..7],
            (true, true) => &LONG_LETTERS[..],
        };
        let letter = letters[self.prng.below(letters.len() as u64) as usize];
        let number = self.prng.below(self.keys);
        let key = self.key(letter, number);
        self.last_value += 1;
        let value = self.last_value;
        let latest = &mut self.latest[number as usize];
        let is_read = self.prng.below(100) < self.reads;
        let draw = self.prng.below(10);
        let member = self.prng.below(MEMBERS) as i64;
        let call = match (letter, draw) {
            ('r' | 'b', _) if is_read => Call::Get,
            ('b', _) => Call::Set(value),
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
            ('l' | 'a', _) if is_read => Call::List,
            ('l' | 'a', _) => Call::Append(value),
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
        let mut words = match self.pads {
            true => long_request(key, call, Way(self.asked)),
            false => request(key, call),
        };
        self.asked += 1;
        if self.pads {
            pad(&mut words);
            if let Call::Set(value) | Call::Swap(value) | Call::Cas(_, value) | Call::Append(value) = call
                && key.starts_with(['r', 'a', 'b'])
            {
                self.relics.entry(key.to_owned()).or_default().insert(value);
            }
        }
        bytes.extend(encode(&words));
        self.recorder.called(process, key, call, now)
    }

    /// And is answered.
    pub(crate) fn answered(&mut self, ticket: Ticket, answer: Answer, now: u64) {
        self.recorder.answered(ticket, answer, now);
    }

    /// Reads of strings that were given up, because what they held may be lost.
    pub(crate) fn reads_of_relics(&self) -> Vec<(String, Call)> {
        let is_given_up = |key: &&String| *key != &self.key_like(key);
        let keys = self.relics.keys().filter(is_given_up).take(RELICS_READ_MAX);
        let call = |key: &String| {
            if key.starts_with('a') {
                Call::List
            } else {
                Call::Get
            }
        };
        keys.map(|key| (key.clone(), call(key))).collect()
    }

    /// The key of the same name that is used at present.
    fn key_like(&self, key: &str) -> String {
        let name = key.split_once(':').map_or(key, |(name, _)| name);
        match self.era {
            0 => name.to_owned(),
            era => format!("{name}:{era}"),
        }
    }

    /// A string that was given up was read. It may be there, as anybody has written it, or not; it cannot be what nobody wrote.
    ///
    /// # Errors
    /// It was.
    pub(crate) fn relic_answered(&self, key: &str, answer: &Answer) -> Result<bool, String> {
        if key == self.key_like(key) {
            return Ok(false);
        }
        let written = self.relics.get(key);
        let is_written = |value: &i64| written.is_some_and(|written| written.contains(value));
        let is_right = match answer {
            Answer::Value(Some(value)) => is_written(value),
            Answer::Elements(all) => all.iter().all(is_written),
            _ => true,
        };
        match is_right {
            true => Ok(true),
            false => Err(format!("nobody wrote to {key} what is there: {answer:?}")),
        }
    }

    /// Judges what was seen.
    pub(crate) fn check(&mut self) -> Checked {
        check(&std::mem::take(&mut self.recorder).finish())
    }

    /// A write to everything there is.
    pub(crate) fn writes(&mut self) -> Vec<(String, Call)> {
        let mut writes = Vec::new();
        for number in 0..self.keys {
            let fresh = [Call::Set(0), Call::Append(0), Call::Push(0)].map(|call| self.again(call));
            let calls = [('r', fresh[0]), ('l', fresh[1]), ('q', fresh[2])];
            let others = [('c', Call::Add(1)), ('s', Call::Insert(0))];
            let long = match self.pads {
                true => vec![
                    ('a', self.again(Call::Append(0))),
                    ('b', self.again(Call::Set(0))),
                ],
                false => Vec::new(),
            };
            let all = calls.into_iter().chain(others).chain(long);
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
            if self.pads {
                reads.push((self.key('a', number), Call::List));
                reads.push((self.key('b', number), Call::Get));
            }
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

/// The same where strings are long. What is asked needs the bytes of the string, as a rule, and there are several ways.
fn long_request(key: &str, call: Call, Way(number): Way) -> Command {
    let is_chain = key.starts_with('a');
    match (call, number % 8) {
        (Call::Get, 0) | (Call::List, 0 | 1) if !key.starts_with('l') => command!["GETRANGE", key, "0", "-1"],
        (Call::Get, 1) => command!["MGET", key],
        (Call::Get, 2) => command!["GETEX", key, "EX", LATE_SECS],
        (Call::Get, 3) => command!["GETEX", key, "PERSIST"],
        (Call::List, 2) if is_chain => command!["GETEX", key, "EX", LATE_SECS],
        (Call::List, _) if is_chain => command!["GET", key],
        (Call::Append(value), _) if is_chain => command!["APPEND", key, link(value)],
        (Call::Set(value), 0) if key.starts_with('b') => command!["SET", key, equally_padded(value)],
        (Call::Set(value), _) if key.starts_with('b') => {
            command!["SETRANGE", key, "0", equally_padded(value)]
        }
        (Call::Swap(value), 0..4) => command!["GETSET", key, value],
        _ => request(key, call),
    }
}

/// Whether an error says that a value is in fragments, too few of which can be reached.
pub(crate) fn tells_loss(bytes: &[u8]) -> bool {
    bytes.starts_with(b"-TRYAGAIN a value of this command is in fragments") || bytes.starts_with(b"-LOST ")
}

/// The first answer in `bytes`, and how long it is; `None` if it is not whole.
///
/// # Errors
/// If no server may answer this.
pub(crate) fn answer(key: &str, call: Call, bytes: &[u8]) -> Result<Option<(Answer, usize)>, String> {
    let Some((reply, length)) = parse(bytes)? else {
        return Ok(None);
    };
    let unexpected = || format!("{call} was answered {reply:?}");
    let number = |reply: &Reply| reply.number().ok_or_else(unexpected);
    let answer = match (call, &reply) {
        // Unknown is not failed: only these say that nothing was done.
        (_, Reply::Error(error)) => match error.split(' ').next() {
            Some("UNKNOWN") => Answer::Unknown,
            Some("TRYAGAIN" | "LOST" | "CLUSTERDOWN" | "MOVED" | "LOADING" | "MISCONF") => Answer::Refused,
            _ => return Err(unexpected()),
        },
        (Call::Set(_), Reply::Text(text)) if text == "OK" => Answer::Done,
        (Call::Cas(..), Reply::Text(text)) if text == "OK" => Answer::Held(true),
        (Call::Cas(..), Reply::Nil) => Answer::Held(false),
        // Of a register that was overwritten: its length.
        (Call::Set(_), Reply::Number(_)) if key.starts_with('b') => Answer::Done,
        (Call::Set(_) | Call::Cas(..), _) => return Err(unexpected()),
        // What is not there has no bytes.
        (Call::Get, Reply::Text(text)) if text.is_empty() => Answer::Value(None),
        (Call::Get, Reply::Array(all)) => match all.as_slice() {
            [Reply::Nil] => Answer::Value(None),
            [value] => Answer::Value(Some(number(value)?)),
            _ => return Err(unexpected()),
        },
        (Call::List, Reply::Nil) if key.starts_with('a') => Answer::Elements(Vec::new()),
        (Call::List, Reply::Text(text)) if key.starts_with('a') => {
            Answer::Elements(numbers_of_chain(text).ok_or_else(unexpected)?)
        }
        (Call::Append(_), Reply::Number(bytes)) if key.starts_with('a') => {
            Answer::Value(Some(links_in(*bytes).ok_or_else(unexpected)?))
        }
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

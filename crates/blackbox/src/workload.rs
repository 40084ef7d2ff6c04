//! Clients that read and write while something happens to the cluster, and write down what they saw.
//!
//! Each has one connection and one command under way. A client that does not know what became of a command notes so and
//! goes on as another process, on another connection; which node it turns to is the matter of `workload/route.rs`. Keys are registers, counters and growing lists,
//! by a letter; new ones are taken all the time, so that each has a history that can be checked, and at the end all of
//! them are read once more: what was acknowledged and is not there then is found.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use history::{Answer, Call, History, Process, Recorder};

use crate::{Prng, Value};

pub(crate) mod route;

use route::{Nodes, Route};

/// Calls after which other keys are taken.
const GENERATION: usize = 2_000;

/// Different complaints of servers that are kept; those after them are counted only.
pub(crate) const COMPLAINTS_MAX: usize = 20;

/// What the clients do.
#[derive(Clone, Debug)]
pub struct Mixture {
    /// How many there are.
    pub clients: usize,
    /// The longest rest between two commands of one client.
    pub rest: Duration,
    /// Keys of each kind that are used at the same time.
    pub keys: usize,
    /// How long a client waits for an answer until it takes it for lost.
    pub patience: Duration,
    /// Bytes by which strings are longer than the numbers in them.
    pub padding: usize,
    /// What decides their choices.
    pub seed: u64,
    /// Whether it is kept when each command was answered, and how long that took.
    pub keeps_times: bool,
}

impl Default for Mixture {
    fn default() -> Self {
        Mixture {
            clients: 6,
            rest: Duration::from_millis(8),
            keys: 8,
            patience: Duration::from_secs(12),
            padding: 0,
            seed: 1,
            keeps_times: false,
        }
    }
}

/// When a command was answered, and how long that took.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Milliseconds since the clients began.
    pub at_ms: u32,
    /// Microseconds.
    pub took_us: u32,
}

/// What the clients saw, in numbers.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Commands that were carried out.
    pub answered: u64,
    /// Commands that were refused: they did not happen.
    pub refused: u64,
    /// Commands of which the server did not know whether they happened.
    pub unknown: u64,
    /// Commands whose answer did not come because the connection ended, or nothing came in time.
    pub lost: u64,
    /// Keys that could not be read at the end.
    pub unread: u64,
    /// Connections that could not be made.
    pub unreachable: u64,
    /// The longest time from a command to its answer.
    pub longest: Duration,
    /// What servers said that was no answer, each once.
    pub complaints: BTreeSet<String>,
}

impl Seen {
    /// Commands that were not carried out, as far as their clients know.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.refused + self.unknown + self.lost
    }
}

struct Shared {
    nodes: Arc<Nodes>,
    recorder: Mutex<Recorder>,
    keys: Mutex<BTreeSet<String>>,
    seen: Mutex<Seen>,
    times: Mutex<Vec<Timed>>,
    is_over: AtomicBool,
    processes: AtomicU32,
    values: AtomicI64,
    mixture: Mixture,
}

/// See the file's header.
pub struct Workload {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Workload {
    /// Begins, at these nodes.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn start(addresses: Vec<SocketAddr>, mixture: Mixture) -> Self {
        assert!(!addresses.is_empty(), "clients need a node");
        let shared = Arc::new(Shared {
            nodes: Arc::new(Nodes::new(addresses)),
            recorder: Mutex::default(),
            keys: Mutex::default(),
            seen: Mutex::default(),
            times: Mutex::default(),
            is_over: AtomicBool::new(false),
            processes: AtomicU32::new(0),
            values: AtomicI64::new(0),
            mixture,
        });
        let threads = (0..shared.mixture.clients)
            .map(|number| {
                let shared = shared.clone();
                thread::spawn(move || Hand::new(&shared, number, None, number).work())
            })
            .collect();
        Workload { shared, threads }
    }

    /// Clients that connect from now on use this node too, and another client belongs to it: while it does not serve, that client goes
    /// elsewhere.
    pub fn extend(&mut self, address: SocketAddr) {
        let place = self.shared.nodes.add(address);
        // Those of one node make choices of their own.
        let number = self.threads.len();
        let shared = self.shared.clone();
        self.threads.push(thread::spawn(move || {
            Hand::new(&shared, number, Some(address), place).work();
        }));
    }

    /// Clients go to this node no more, and those that are there leave it before their next command: it is about to go.
    pub fn leave(&mut self, address: SocketAddr) {
        self.shared.nodes.remove(address);
    }

    /// The nodes, for clients of another load.
    pub(crate) fn nodes(&self) -> Arc<Nodes> {
        self.shared.nodes.clone()
    }

    /// How long the clients have been at work.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.shared.nodes.elapsed()
    }

    /// What was kept of each command since this was last asked, in the order of the answers.
    #[must_use]
    pub fn take_times(&self) -> Vec<Timed> {
        std::mem::take(&mut *lock(&self.shared.times))
    }

    /// What was seen until now.
    #[must_use]
    pub fn seen(&self) -> Seen {
        lock(&self.shared.seen).clone()
    }

    /// Waits until this many more commands were carried out.
    ///
    /// # Panics
    /// If nothing is carried out for a long time.
    pub fn wait_for(&self, more: u64) {
        let goal = self.seen().answered + more;
        crate::eventually("commands are carried out", || self.seen().answered >= goal);
    }

    /// Ends the clients, reads every key once more, and hands out what was seen. Whoever asks has mended everything before.
    ///
    /// # Panics
    /// If a client panicked.
    #[must_use]
    pub fn finish(self) -> (History, Seen) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a client does not panic");
        }
        let keys = std::mem::take(&mut *lock(&self.shared.keys));
        let mut hand = Hand::new(&self.shared, 0, None, 0);
        for key in keys {
            let read = match key.as_bytes().first() {
                Some(b'r') => Call::Get,
                Some(b'c') => Call::Count,
                _ => Call::List,
            };
            let is_read = (0..10).any(|_| hand.carry_out(&key, read));
            lock(&self.shared.seen).unread += u64::from(!is_read);
        }
        let recorder = std::mem::take(&mut *lock(&self.shared.recorder));
        let seen = lock(&self.shared.seen).clone();
        (recorder.finish(), seen)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One client.
struct Hand<'a> {
    shared: &'a Shared,
    prng: Prng,
    process: Process,
    route: Route,
}

impl Hand<'_> {
    /// `place` is that of the node that it turns to first, if it has none of its own.
    fn new(shared: &Shared, number: usize, home: Option<SocketAddr>, place: usize) -> Hand<'_> {
        let seed = shared.mixture.seed.wrapping_mul(1_000_003);
        Hand {
            shared,
            prng: Prng::new(seed.wrapping_add(number as u64)),
            process: Process(shared.processes.fetch_add(1, Ordering::Relaxed)),
            route: Route::new(home, place, shared.mixture.patience),
        }
    }

    fn now(&self) -> u64 {
        self.shared.nodes.elapsed().as_nanos() as u64
    }

    fn work(&mut self) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let generation = lock(&self.shared.recorder).len() / GENERATION;
            let key = self.prng.below(self.shared.mixture.keys);
            let value = self.shared.values.fetch_add(1, Ordering::Relaxed);
            let (letter, call) = match self.prng.below(10) {
                0..2 => ("r", Call::Get),
                2..4 => ("r", Call::Set(value)),
                4 => ("r", Call::Swap(value)),
                5 => ("c", Call::Count),
                6..8 => ("c", Call::Add(1)),
                8 => ("l", Call::List),
                _ => ("l", Call::Append(value)),
            };
            let key = format!("{letter}:{generation}:{key}");
            lock(&self.shared.keys).insert(key.clone());
            self.carry_out(&key, call);
            let micros = self.shared.mixture.rest.as_micros() as usize;
            thread::sleep(Duration::from_micros(self.prng.below(micros + 1) as u64));
        }
    }

    /// One command; true if it was carried out.
    fn carry_out(&mut self, key: &str, call: Call) -> bool {
        let nodes = &self.shared.nodes;
        let Some((address, mut connection)) = self.route.take(nodes) else {
            lock(&self.shared.seen).unreachable += 1;
            thread::sleep(Duration::from_millis(20));
            return false;
        };
        let invoked = self.now();
        let ticket = lock(&self.shared.recorder).called(self.process, key, call, invoked);
        let words = words(key, call, self.shared.mixture.padding);
        let reply = connection.try_command(&words);
        let answer = match &reply {
            Err(error) => {
                lock(&self.shared.seen).lost += 1;
                nodes.failed(
                    address,
                    Duration::from_nanos(invoked),
                    format!("no answer: {error}"),
                );
                Answer::Unknown
            }
            Ok(reply) => {
                self.route.keep(address, connection);
                self.judge(call, reply, address, invoked)
            }
        };
        if answer == Answer::Unknown {
            // What was asked may still happen: another process does not claim that it asks afterwards.
            self.process = Process(self.shared.processes.fetch_add(1, Ordering::Relaxed));
            self.route.hang_up();
            return false;
        }
        let now = self.now();
        let is_done = answer != Answer::Refused;
        lock(&self.shared.recorder).answered(ticket, answer, now);
        if self.shared.mixture.keeps_times && is_done {
            let to_u32 = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            lock(&self.shared.times).push(Timed {
                at_ms: to_u32(now / 1_000_000),
                took_us: to_u32((now - invoked) / 1_000),
            });
        }
        let mut seen = lock(&self.shared.seen);
        seen.longest = seen.longest.max(Duration::from_nanos(now - invoked));
        seen.answered += u64::from(is_done);
        is_done
    }

    fn judge(&mut self, call: Call, reply: &Value, address: SocketAddr, invoked: u64) -> Answer {
        let answer = match (call, reply) {
            (_, Value::Error(_)) => None,
            (Call::Set(_), reply) => (*reply == Value::ok()).then_some(Answer::Done),
            (Call::Get | Call::Swap(_) | Call::Count, reply) if reply.is_null() => Some(Answer::Value(None)),
            (Call::List, reply) => reply.elements().and_then(|elements| {
                let elements: Option<Vec<i64>> = elements.iter().map(Value::integer).collect();
                elements.map(Answer::Elements)
            }),
            (_, reply) => {
                let value = reply.integer().or_else(|| unpadded(&reply.text()?));
                value.map(|value| Answer::Value(Some(value)))
            }
        };
        if let Some(answer) = answer {
            return answer;
        }
        let text = reply.error().unwrap_or_else(|| format!("{reply:?} to {call:?}"));
        let began = Duration::from_nanos(invoked);
        self.shared.nodes.failed(address, began, text.clone());
        if text.starts_with("LOADING") {
            self.route.is_unserved();
        }
        let mut seen = lock(&self.shared.seen);
        let is_refused = ["CLUSTERDOWN", "TRYAGAIN", "LOADING", "MOVED"]
            .iter()
            .any(|word| text.starts_with(word));
        if seen.complaints.len() < COMPLAINTS_MAX {
            seen.complaints.insert(text);
        }
        if is_refused {
            seen.refused += 1;
            return Answer::Refused;
        }
        seen.unknown += 1;
        Answer::Unknown
    }
}

/// What stands behind a number in a string that is to be long.
const PADDING: char = '.';

/// A number in a string that is longer by so many bytes.
pub(crate) fn padded(number: impl std::fmt::Display, padding: usize) -> String {
    let padding = std::iter::repeat_n(PADDING, padding);
    number.to_string().chars().chain(padding).collect()
}

/// The number in such a string.
pub(crate) fn unpadded<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.trim_end_matches(PADDING).parse().ok()
}

fn words(key: &str, call: Call, padding: usize) -> Vec<String> {
    let padding = match call {
        Call::Set(_) | Call::Swap(_) => padding,
        _ => 0,
    };
    let (name, rest) = match call {
        Call::Get | Call::Count => ("GET", Vec::new()),
        Call::Set(value) => ("SET", vec![value]),
        Call::Swap(value) => ("GETSET", vec![value]),
        Call::Add(by) => ("INCRBY", vec![by]),
        Call::Append(value) => ("RPUSH", vec![value]),
        Call::List => ("LRANGE", vec![0, -1]),
        other => unreachable!("{other:?} is not among the mixture"),
    };
    let rest = rest.iter().map(|number: &i64| padded(number, padding));
    [name.to_owned(), key.to_owned()]
        .into_iter()
        .chain(rest)
        .collect()
}

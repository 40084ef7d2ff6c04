//! One client of a load of transactions: its connections, and what it says of what became of what it asked.
//!
//! It has a connection to every node that it asked, and asks another one now and then, or when one fails it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use history::Process;

use crate::workload::COMPLAINTS_MAX;
use crate::{Client, Mixture, Prng, Seen};

/// Percent of transactions after which a client turns to another node. Were it all, every client would soon stand at the node
/// that does not answer, and nothing would be asked of the others meanwhile.
const TURNS_PERCENT: usize = 2;

/// How long a write may take after everything has healed. A key that takes longer is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// Tries of the last command to a key, for refusals.
const LAST_TRIES: usize = 20;

/// What a server says of a command that it certainly did not carry out.
const REFUSALS: &[&str] = &[
    "CLUSTERDOWN",
    "TRYAGAIN",
    "LOADING",
    "MOVED",
    "MASTERDOWN",
    "READONLY",
    "EXECABORT",
];

/// Whether a server says that it certainly did not carry out what it was asked.
pub(crate) fn is_refusal(error: &str) -> bool {
    REFUSALS.iter().any(|word| error.starts_with(word))
}

/// What the clients of one load share.
pub(crate) struct Common {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) mixture: Mixture,
    pub(crate) is_over: AtomicBool,
    seen: Mutex<Seen>,
    start: Instant,
    processes: AtomicU32,
}

impl Common {
    /// # Panics
    /// If there is no node.
    pub(crate) fn new(addresses: Vec<SocketAddr>, mixture: Mixture) -> Common {
        assert!(!addresses.is_empty(), "clients need a node");
        Common {
            addresses,
            mixture,
            is_over: AtomicBool::new(false),
            seen: Mutex::default(),
            start: Instant::now(),
            processes: AtomicU32::new(0),
        }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    fn next_process(&self) -> Process {
        Process(self.processes.fetch_add(1, Ordering::Relaxed))
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One client.
pub(crate) struct Hand<'a> {
    common: &'a Common,
    pub(crate) prng: Prng,
    /// Who asks, for the history.
    pub(crate) process: Process,
    /// The node that it asks now.
    pub(crate) address: SocketAddr,
    patience: Duration,
    connections: BTreeMap<SocketAddr, Client>,
}

impl<'a> Hand<'a> {
    pub(crate) fn new(common: &'a Common, number: usize) -> Hand<'a> {
        let seed = common.mixture.seed.wrapping_mul(1_000_003);
        Hand {
            common,
            prng: Prng::new(seed.wrapping_add(number as u64)),
            process: common.next_process(),
            address: common.addresses[number % common.addresses.len()],
            patience: common.mixture.patience,
            connections: BTreeMap::new(),
        }
    }

    /// One that asks when everything has healed: it waits only as long as a key that is not stuck takes.
    pub(crate) fn last(common: &'a Common) -> Hand<'a> {
        Hand {
            patience: STUCK_AFTER,
            ..Hand::new(common, common.mixture.clients)
        }
    }

    /// Nanoseconds since the load began.
    pub(crate) fn now(&self) -> u64 {
        self.common.start.elapsed().as_nanos() as u64
    }

    /// Between two transactions.
    pub(crate) fn rest(&mut self) {
        if self.prng.chance(TURNS_PERCENT) {
            self.turn();
        }
        let micros = self.common.mixture.rest.as_micros() as usize;
        thread::sleep(Duration::from_micros(self.prng.below(micros + 1) as u64));
    }

    /// To any node.
    pub(crate) fn turn(&mut self) {
        self.address = *self.prng.pick(&self.common.addresses);
    }

    /// A connection to a node, to be given back with [`Hand::keep`] while it is of use. `None` if there is none: then it has
    /// turned to another node, after a moment.
    pub(crate) fn take(&mut self, address: SocketAddr) -> Option<Client> {
        if let Some(connection) = self.connections.remove(&address) {
            return Some(connection);
        }
        if let Ok(mut connection) = Client::connect(address) {
            connection.set_patience(self.patience);
            return Some(connection);
        }
        self.common.seen().unreachable += 1;
        self.turn();
        thread::sleep(Duration::from_millis(20));
        None
    }

    pub(crate) fn keep(&mut self, address: SocketAddr, connection: Client) {
        self.connections.insert(address, connection);
    }

    /// It was carried out.
    pub(crate) fn is_answered(&self, invoked: u64, now: u64) {
        let mut seen = self.common.seen();
        seen.answered += 1;
        seen.longest = seen.longest.max(Duration::from_nanos(now - invoked));
    }

    /// It certainly was not carried out. That another server has the keys is no complaint.
    pub(crate) fn is_refused(&self, text: String) {
        self.common.seen().refused += 1;
        if !text.starts_with("MOVED ") {
            self.complain(text);
        }
    }

    /// The server does not know what became of it.
    pub(crate) fn is_unknown(&mut self, text: String) {
        self.common.seen().unknown += 1;
        self.complain(text);
        self.become_another();
    }

    /// No answer came.
    pub(crate) fn is_lost(&mut self) {
        self.common.seen().lost += 1;
        self.turn();
        self.become_another();
    }

    /// What a server said that was no answer.
    pub(crate) fn complain(&self, text: String) {
        let mut seen = self.common.seen();
        if seen.complaints.len() < COMPLAINTS_MAX {
            seen.complaints.insert(text);
        }
    }

    /// What was asked may still happen: another process does not claim that it asks afterwards.
    pub(crate) fn become_another(&mut self) {
        self.process = self.common.next_process();
    }
}

/// Tries something of a key until it is carried out, soon. `false` if the key is stuck.
pub(crate) fn persist(common: &Common, attempt: &mut dyn FnMut() -> bool) -> bool {
    let is_done = (0..LAST_TRIES).any(|_| {
        let start = Instant::now();
        let is_done = attempt();
        if !is_done && start.elapsed() < STUCK_AFTER {
            thread::sleep(Duration::from_millis(50));
        }
        is_done && start.elapsed() < STUCK_AFTER
    });
    if !is_done {
        common.seen().unread += 1;
    }
    is_done
}

//! Clients of a cluster that grows, which append to lists and read them, up to four operations in one `MULTI`, over keys of any groups.
//!
//! They differ from those of `list_append.rs` in where they ask: each belongs to a node, there are more of them with each node that
//! joins, and what fails is noted with whom it was asked of and when.
//!
//! At the end every key is written and read once more. So the judgement finds an acknowledged append that is not there, and a key that
//! does not answer is held by a transaction that nobody ends.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use history::list_append::{self, Action};
use history::{Ledger, Process, Transactions};

use crate::hand::lock;
use crate::list_append::{Reply, ask_together, read};
use crate::workload::route::{Nodes, Route};
use crate::{Findings, Mixture, Prng};

/// Transactions after which other keys are taken, so that lists stay short.
const GENERATION: usize = 200;

/// Most operations of one transaction.
const ACTIONS_MAX: usize = 4;

/// How long a key may refuse its last write until it is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(10);

struct Shared {
    nodes: Arc<Nodes>,
    mixture: Mixture,
    ledger: Ledger<Action>,
    used: Mutex<BTreeSet<String>>,
    torn: Mutex<BTreeSet<String>>,
    elements: AtomicI64,
    processes: AtomicU32,
    is_over: AtomicBool,
}

/// See the file's header.
pub(super) struct TransactionLoad {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl TransactionLoad {
    /// Without clients.
    pub(super) fn start(nodes: Arc<Nodes>, mixture: Mixture) -> TransactionLoad {
        let shared = Shared {
            nodes,
            mixture,
            ledger: Ledger::default(),
            used: Mutex::default(),
            torn: Mutex::default(),
            elements: AtomicI64::new(0),
            processes: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
        };
        TransactionLoad {
            shared: Arc::new(shared),
            threads: Vec::new(),
        }
    }

    /// Another client, of this node.
    pub(super) fn extend(&mut self, address: SocketAddr) {
        let (place, number) = (self.shared.nodes.add(address), self.threads.len());
        let shared = self.shared.clone();
        self.threads.push(thread::spawn(move || {
            let route = Route::new(Some(address), place, shared.mixture.patience);
            Appender::new(&shared, number, route).work();
        }));
    }

    /// Ends the clients, writes and reads every key once more, and judges. Whoever asks has mended everything before.
    pub(super) fn finish(self) -> Findings {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let count = self.threads.len();
        for thread in self.threads {
            thread.join().expect("a client does not panic");
        }
        let mut last = Appender::new(&self.shared, count, Route::new(None, 0, STUCK_AFTER));
        let used = lock(&self.shared.used).clone();
        let stuck = used.into_iter().filter(|key| !last.writes_last(key)).collect();
        let shared = Arc::into_inner(self.shared).expect("the clients have ended");
        let torn = shared.torn.into_inner().unwrap_or_else(PoisonError::into_inner);
        judge(shared.ledger.finish(), torn, stuck)
    }
}

fn judge(history: Transactions<Action>, torn: BTreeSet<String>, stuck: BTreeSet<String>) -> Findings {
    let mut findings = Findings {
        judgement: list_append::check(&history),
        transactions: 0,
        wide: 0,
        appends: 0,
        // Each key was read after everything: an acknowledged append that is missing is in the judgement.
        lost: 0,
        torn,
        stuck,
        history: Transactions::default(),
    };
    let all = history.as_slice().iter();
    for transaction in all.filter(|transaction| transaction.is_committed()) {
        let keys: BTreeSet<&String> = transaction
            .actions
            .iter()
            .map(|action| match action {
                Action::Append { key, .. } | Action::Read { key, .. } => key,
            })
            .collect();
        let appends = transaction
            .actions
            .iter()
            .filter(|action| matches!(action, Action::Append { .. }));
        findings.appends += appends.count() as u64;
        findings.transactions += 1;
        findings.wide += u64::from(keys.len() > 1);
    }
    findings.history = history;
    findings
}

/// One client.
struct Appender<'a> {
    shared: &'a Shared,
    prng: Prng,
    process: Process,
    route: Route,
}

impl Appender<'_> {
    fn new(shared: &Shared, number: usize, route: Route) -> Appender<'_> {
        let seed = shared.mixture.seed.wrapping_mul(1_000_003);
        Appender {
            shared,
            prng: Prng::new(seed.wrapping_add(number as u64)),
            process: next_process(shared),
            route,
        }
    }

    fn work(&mut self) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let generation = self.shared.ledger.len() / GENERATION;
            let mut planned = Vec::new();
            for _ in 0..=self.prng.below(ACTIONS_MAX) {
                let key = format!("t:{generation}:{}", self.prng.below(self.shared.mixture.keys));
                lock(&self.shared.used).insert(key.clone());
                planned.push(match self.prng.chance(50) {
                    true => self.append(key),
                    false => read(&key),
                });
            }
            self.carry_out(&planned);
            let micros = self.shared.mixture.rest.as_micros() as usize;
            thread::sleep(Duration::from_micros(self.prng.below(micros + 1) as u64));
        }
    }

    fn append(&self, key: String) -> Action {
        let element = self.shared.elements.fetch_add(1, Ordering::Relaxed);
        Action::Append { key, element }
    }

    /// Writes to a key and reads it when nobody else does. `false` if it is stuck.
    fn writes_last(&mut self, key: &str) -> bool {
        let began = Instant::now();
        loop {
            let append = self.append(key.to_owned());
            let is_done = self.carry_out(&[append, read(key)]);
            if is_done || began.elapsed() > STUCK_AFTER {
                return is_done && began.elapsed() <= STUCK_AFTER;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// One transaction; true if it was carried out.
    fn carry_out(&mut self, planned: &[Action]) -> bool {
        let nodes = &self.shared.nodes;
        let Some((address, mut connection)) = self.route.take(nodes) else {
            thread::sleep(Duration::from_millis(20));
            return false;
        };
        let began = nodes.elapsed();
        let ledger = &self.shared.ledger;
        let entry = ledger.called(self.process, planned.to_vec(), began.as_nanos() as u64);
        let reply = ask_together(&mut connection, planned);
        let now = nodes.elapsed().as_nanos() as u64;
        let what = match reply {
            Ok(Reply::Told(told)) => {
                ledger.committed(entry, told, now);
                self.route.keep(address, connection);
                return true;
            }
            Ok(Reply::Refused(text)) => {
                ledger.aborted(entry, now);
                match text.contains("LOADING") {
                    true => self.route.is_unserved(),
                    false => self.route.keep(address, connection),
                }
                text
            }
            Ok(Reply::Unknown(text)) => {
                self.process = next_process(self.shared);
                text
            }
            Ok(Reply::Torn(text)) => {
                lock(&self.shared.torn).insert(text.clone());
                self.process = next_process(self.shared);
                text
            }
            Err(error) => {
                self.process = next_process(self.shared);
                format!("no answer: {error}")
            }
        };
        nodes.failed(address, began, what);
        false
    }
}

/// Of who does not know what became of what it asked: it may still happen, so that another process goes on.
fn next_process(shared: &Shared) -> Process {
    Process(shared.processes.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use history::{Judgement, Outcome, Transaction};

    use super::*;

    #[test]
    fn an_acknowledged_append_that_the_last_read_lacks_is_found() {
        let transaction = |invoked, actions: &[Action]| Transaction {
            process: Process(0),
            invoked,
            returned: Some(invoked + 1),
            outcome: Outcome::Committed,
            actions: actions.to_vec(),
        };
        let append = |key: &str, element| Action::Append {
            key: key.to_owned(),
            element,
        };
        let read = |elements: &[i64]| Action::Read {
            key: "x".to_owned(),
            elements: Some(elements.to_vec()),
        };
        let judged = |last: &[i64]| {
            let history = Transactions::new(vec![
                transaction(1, &[append("x", 1), append("y", 2)]),
                transaction(3, &[append("x", 3)]),
                transaction(5, &[append("x", 4), read(last)]),
            ]);
            judge(history, BTreeSet::new(), BTreeSet::new())
        };
        let whole = judged(&[1, 3, 4]);
        assert_eq!(whole.judgement, Judgement::Clean);
        assert_eq!((whole.transactions, whole.wide, whole.appends), (3, 1, 4));
        assert!(!judged(&[1, 4]).is_good());
    }
}

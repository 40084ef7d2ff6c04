//! Clients that read and write several registers at once, with `WATCH`, `MULTI` and `EXEC`, with `MSETNX` and `MGET`, over keys of
//! any nodes, and write down which version of which they saw.
//!
//! A register holds its version: the number of writes before it, and who wrote it. A writer reads what it watches, and writes
//! greater versions; so the order of all versions is known, and nothing has to be guessed by who checks them
//! ([`history::exposed`]). At the end every register is written once more: what was acknowledged and is not there then was
//! lost, and what is not answered in time is held by a transaction that nobody ends.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use history::exposed::{self, Action};
use history::{Judgement, Ledger, Transactions};

use crate::hand::{Common, Hand, is_refusal, lock, persist};
use crate::workload::{padded, unpadded};
use crate::{Client, Mixture, Seen, Value, frame};

/// Transactions after which other registers are taken.
const GENERATION: usize = 1_000;

/// Most registers of one transaction.
const KEYS_MAX: usize = 4;

/// Bits of a version that say who wrote it: two writers that follow the same version never leave the same one.
const WRITER_BITS: u32 = 32;

/// What is to be said of what the clients saw.
#[derive(Clone, Debug)]
pub struct RegisterFindings {
    /// Whether there is an order that explains everything.
    pub judgement: Judgement,
    /// Transactions that were carried out.
    pub transactions: usize,
    /// Those among them that wrote several registers.
    pub wide: usize,
    /// Those that were not, because what they watched had changed.
    pub changed: u64,
    /// Registers that could not be written at the end.
    pub stuck: BTreeSet<String>,
    /// What was noted.
    pub history: Transactions<Action>,
}

impl RegisterFindings {
    /// True if nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.judgement == Judgement::Clean && self.stuck.is_empty()
    }
}

struct Shared {
    common: Common,
    ledger: Ledger<Action>,
    used: Mutex<BTreeSet<String>>,
    writers: AtomicU64,
    changed: AtomicU64,
}

/// See the file's header.
pub struct Registers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Registers {
    /// Begins, at these nodes.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn start(addresses: Vec<SocketAddr>, mixture: Mixture) -> Self {
        let shared = Arc::new(Shared {
            common: Common::new(addresses, mixture),
            ledger: Ledger::default(),
            used: Mutex::default(),
            writers: AtomicU64::new(1),
            changed: AtomicU64::new(0),
        });
        let threads = (0..shared.common.mixture.clients)
            .map(|number| {
                let shared = shared.clone();
                thread::spawn(move || Writer::new(&shared, Hand::new(&shared.common, number)).work())
            })
            .collect();
        Registers { shared, threads }
    }

    /// What was seen until now.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.common.seen().clone()
    }

    /// Ends the clients, writes every register once more, and judges. Whoever asks has mended everything before.
    ///
    /// # Panics
    /// If a client panicked.
    #[must_use]
    pub fn finish(self) -> (RegisterFindings, Seen) {
        self.shared.common.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a client does not panic");
        }
        let keys = lock(&self.shared.used).clone();
        let mut last = Writer::new(&self.shared, Hand::last(&self.shared.common));
        let mut is_stuck = |key: &String| {
            let keys = [key.clone()];
            !persist(&self.shared.common, &mut || last.update(&keys, 1))
        };
        let stuck = keys.into_iter().filter(|key| is_stuck(key)).collect();
        drop(last);
        let shared = Arc::into_inner(self.shared).expect("the clients have ended");
        let seen = shared.common.seen().clone();
        let changed = shared.changed.into_inner();
        let history = shared.ledger.finish();
        let findings = RegisterFindings {
            stuck,
            changed,
            ..judge(history)
        };
        (findings, seen)
    }
}

fn judge(history: Transactions<Action>) -> RegisterFindings {
    let writes = |action: &&Action| !matches!(action, Action::Read { .. });
    let committed = || history.as_slice().iter().filter(|one| one.is_committed());
    RegisterFindings {
        judgement: exposed::check(&history),
        transactions: committed().count(),
        wide: committed()
            .filter(|one| one.actions.iter().filter(writes).count() > 1)
            .count(),
        changed: 0,
        stuck: BTreeSet::new(),
        history,
    }
}

/// What came of a transaction.
enum Reply {
    /// It was carried out, and read these versions.
    Told(Vec<Action>),
    /// What it depended on had changed.
    Changed,
    Failed(String),
}

/// One client.
struct Writer<'a> {
    shared: &'a Shared,
    hand: Hand<'a>,
}

impl<'a> Writer<'a> {
    fn new(shared: &'a Shared, hand: Hand<'a>) -> Writer<'a> {
        Writer { shared, hand }
    }

    fn work(&mut self) {
        while !self.shared.common.is_over.load(Ordering::Relaxed) {
            let generation = self.shared.ledger.len() / GENERATION;
            let mut keys = BTreeSet::new();
            for _ in 0..=self.hand.prng.below(KEYS_MAX) {
                let number = self.hand.prng.below(self.shared.common.mixture.keys);
                keys.insert(format!("r:{generation}:{number}"));
            }
            lock(&self.shared.used).extend(keys.iter().cloned());
            let keys: Vec<String> = keys.into_iter().collect();
            match self.hand.prng.below(10) {
                0..4 => self.read(&keys),
                4 => self.create(&keys),
                _ => {
                    let written = 1 + self.hand.prng.below(keys.len());
                    self.update(&keys, written)
                }
            };
            self.hand.rest();
        }
    }

    /// A version that nobody else leaves, behind this one.
    fn next(&self, version: u64) -> u64 {
        let writer = self.shared.writers.fetch_add(1, Ordering::Relaxed);
        (((version >> WRITER_BITS) + 1) << WRITER_BITS) | writer
    }

    /// `MGET`.
    fn read(&mut self, keys: &[String]) -> bool {
        self.carry_out(Vec::new(), |connection| {
            let reply = connection.try_command(&words("MGET", keys))?;
            Ok(match versions(&reply, keys.len()) {
                Some(versions) => Reply::Told(read(keys, &versions)),
                None => Reply::Failed(text_of(&reply)),
            })
        })
    }

    /// `MSETNX`: all of them, if there is none.
    fn create(&mut self, keys: &[String]) -> bool {
        let left: Vec<u64> = keys.iter().map(|_| self.next(0)).collect();
        let actions: Vec<Action> = keys
            .iter()
            .zip(&left)
            .map(|(key, left)| update(key, 0, *left))
            .collect();
        let padding = self.shared.common.mixture.padding;
        self.carry_out(actions.clone(), |connection| {
            let reply = connection.try_command(&assignments("MSETNX", keys, &left, padding))?;
            Ok(match reply {
                Value::Integer(1) => Reply::Told(actions),
                Value::Integer(0) => Reply::Changed,
                _ => Reply::Failed(text_of(&reply)),
            })
        })
    }

    /// Watches and reads all of them; then writes the first ones, and reads the last once more, if none has changed.
    fn update(&mut self, keys: &[String], written: usize) -> bool {
        let address = self.hand.address;
        let Some(mut connection) = self.hand.take(address) else {
            return false;
        };
        let versions = match watch(&mut connection, keys) {
            Ok(Ok(versions)) => versions,
            Ok(Err(text)) => {
                // Nothing was to be written yet. Another connection watches nothing.
                self.hand.is_refused(text);
                return false;
            }
            Err(_) => {
                self.hand.is_lost();
                return false;
            }
        };
        self.hand.keep(address, connection);
        let left = versions[..written].iter().map(|found| self.next(*found));
        let left: Vec<u64> = left.collect();
        let planned = keys.iter().enumerate().map(|(at, key)| match left.get(at) {
            Some(left) => update(key, versions[at], *left),
            None => Action::Read {
                key: key.clone(),
                version: versions[at],
            },
        });
        let planned: Vec<Action> = planned.collect();
        let padding = self.shared.common.mixture.padding;
        self.carry_out(planned.clone(), |connection| {
            exec(connection, keys, &versions, (&left, padding), planned)
        })
    }

    /// One transaction at the node that it stands at; true if it was carried out.
    fn carry_out(
        &mut self,
        planned: Vec<Action>,
        ask: impl FnOnce(&mut Client) -> io::Result<Reply>,
    ) -> bool {
        let address = self.hand.address;
        let Some(mut connection) = self.hand.take(address) else {
            return false;
        };
        let invoked = self.hand.now();
        let entry = self.shared.ledger.called(self.hand.process, planned, invoked);
        let Ok(reply) = ask(&mut connection) else {
            self.hand.is_lost();
            return false;
        };
        let now = self.hand.now();
        self.hand.keep(address, connection);
        match reply {
            Reply::Told(told) => {
                self.shared.ledger.committed(entry, told, now);
                self.hand.is_answered(invoked, now);
                return true;
            }
            Reply::Changed => {
                self.shared.ledger.aborted(entry, now);
                self.shared.changed.fetch_add(1, Ordering::Relaxed);
            }
            Reply::Failed(text) if is_refusal(&text) => {
                self.shared.ledger.aborted(entry, now);
                self.hand.is_refused(text);
            }
            Reply::Failed(text) => self.hand.is_unknown(text),
        }
        false
    }
}

/// `WATCH` and `MGET`: the versions, or what the server said instead.
fn watch(connection: &mut Client, keys: &[String]) -> io::Result<Result<Vec<u64>, String>> {
    let mut bytes = frame(&words("WATCH", keys));
    bytes.extend(frame(&words("MGET", keys)));
    connection.send_raw(&bytes)?;
    let (watched, found) = (connection.receive()?, connection.receive()?);
    Ok(match versions(&found, keys.len()) {
        Some(versions) if watched == Value::ok() => Ok(versions),
        _ => Err(watched.error().unwrap_or_else(|| text_of(&found))),
    })
}

/// `MULTI` to `EXEC`, in one packet: what is left of the first keys, in strings longer by so many bytes, and the others read again.
fn exec(
    connection: &mut Client,
    keys: &[String],
    found: &[u64],
    (left, padding): (&[u64], usize),
    planned: Vec<Action>,
) -> io::Result<Reply> {
    let (written, others) = keys.split_at(left.len());
    let mut bytes = frame(&["MULTI"]);
    bytes.extend(frame(&assignments("MSET", written, left, padding)));
    if !others.is_empty() {
        bytes.extend(frame(&words("MGET", others)));
    }
    bytes.extend(frame(&["EXEC"]));
    connection.send_raw(&bytes)?;
    let commands = 1 + usize::from(!others.is_empty());
    let mut first_error = None;
    for _ in 0..=commands {
        first_error = first_error.or(connection.receive()?.error());
    }
    let reply = connection.receive()?;
    if reply.is_null() {
        return Ok(Reply::Changed);
    }
    let replies = reply.elements().unwrap_or_default();
    let is_whole = replies.len() == commands && replies[0] == Value::ok();
    let seen_again = replies.get(1).and_then(|reply| versions(reply, others.len()));
    Ok(match seen_again {
        _ if !is_whole || first_error.is_some() => {
            Reply::Failed(first_error.unwrap_or_else(|| text_of(&reply)))
        }
        // Read twice in one transaction: the checker finds it if they differ.
        Some(again) if again != found[left.len()..] => {
            Reply::Told(planned.into_iter().chain(read(others, &again)).collect())
        }
        _ => Reply::Told(planned),
    })
}

fn words(name: &str, keys: &[String]) -> Vec<String> {
    [name.to_owned()]
        .into_iter()
        .chain(keys.iter().cloned())
        .collect()
}

fn assignments(name: &str, keys: &[String], versions: &[u64], padding: usize) -> Vec<String> {
    let pairs = keys.iter().zip(versions);
    let pairs = pairs.flat_map(|(key, version)| [key.clone(), padded(version, padding)]);
    [name.to_owned()].into_iter().chain(pairs).collect()
}

/// The versions of registers, 0 of one that is not there; `None` if this is no answer to `MGET`.
fn versions(reply: &Value, count: usize) -> Option<Vec<u64>> {
    let values = reply.elements().filter(|values| values.len() == count)?;
    let version = |value: &Value| match value.is_null() {
        true => Some(0),
        false => unpadded(&value.text()?),
    };
    values.iter().map(version).collect()
}

fn read(keys: &[String], versions: &[u64]) -> Vec<Action> {
    let reads = keys.iter().zip(versions).map(|(key, version)| Action::Read {
        key: key.clone(),
        version: *version,
    });
    reads.collect()
}

fn update(key: &str, read: u64, left: u64) -> Action {
    Action::Update {
        key: key.to_owned(),
        read,
        left,
    }
}

fn text_of(reply: &Value) -> String {
    reply.error().unwrap_or_else(|| format!("{reply:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::{Outcome, Process, Transaction};

    fn committed(invoked: u64, actions: Vec<Action>) -> Transaction<Action> {
        Transaction {
            process: Process(0),
            invoked,
            returned: Some(invoked + 1),
            outcome: Outcome::Committed,
            actions,
        }
    }

    #[test]
    fn a_write_that_a_later_one_did_not_see_is_a_violation() {
        let good = vec![
            committed(1, vec![update("x", 0, 10), update("y", 0, 11)]),
            committed(3, vec![update("x", 10, 20)]),
        ];
        let mut findings = judge(Transactions::new(good.clone()));
        assert!(findings.is_good(), "{findings:?}");
        assert_eq!((findings.transactions, findings.wide), (2, 1));
        findings.stuck.insert("x".to_owned());
        assert!(!findings.is_good());
        let lost = [good, vec![committed(5, vec![update("x", 10, 21)])]].concat();
        assert!(!judge(Transactions::new(lost)).is_good());
    }

    #[test]
    fn registers_that_are_not_there_have_version_0_and_what_is_no_register_is_no_answer() {
        let reply = Value::Array(vec![Value::Null, Value::bulk("4294967297")]);
        assert_eq!(versions(&reply, 2), Some(vec![0, 4_294_967_297]));
        assert_eq!(versions(&reply, 3), None);
        assert_eq!(versions(&Value::Array(vec![Value::bulk("x")]), 1), None);
    }
}

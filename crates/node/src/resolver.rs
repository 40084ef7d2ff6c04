//! Where names lead, looked up on threads beside: a name server that does not answer holds up nobody who has addresses, and a few
//! names that it does not answer hold up no others.
//!
//! ```text
//!   who dials --want--> one of the threads --system--> addresses, by name --version--> who dials
//! ```
//!
//! Whoever has no link with a node asks again, at each attempt: names are given other addresses, when machines are replaced above all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Questions that wait. At the limit one more is dropped: whoever needs the answer asks again.
const QUESTIONS_MAX: usize = 64;

/// Names that are remembered. Beyond it all are forgotten, and asked for again.
const NAMES_MAX: usize = 4_096;

/// Addresses of a name that are tried. The rest is left out.
pub(crate) const ADDRESSES_MAX: usize = 64;

/// Names that are looked up at the same time. The system's resolver takes up to 20 s over one of which nobody answers.
const THREADS: usize = 4;

/// A name is not looked up again before that.
const PAUSE: Duration = Duration::from_secs(1);

/// What is known, for everybody.
#[derive(Default)]
struct Known {
    /// Changes with each name that leads elsewhere.
    version: AtomicU64,
    found: Mutex<BTreeMap<String, Vec<SocketAddr>>>,
}

/// What the threads share.
struct Work {
    known: Arc<Known>,
    asked: Mutex<Receiver<String>>,
    /// When each name was looked up; `None` while it is.
    looked_up: Mutex<BTreeMap<String, Option<Instant>>>,
}

/// See the file's header. The threads end with the last of its clones.
#[derive(Clone)]
pub(crate) struct Resolver {
    known: Arc<Known>,
    questions: SyncSender<String>,
}

impl Resolver {
    /// # Errors
    /// If there is no thread to be had.
    pub(crate) fn start() -> std::io::Result<Resolver> {
        // Said once, until it leads somewhere.
        let told = Mutex::new(BTreeSet::new());
        Resolver::with(move |name| {
            let answer = look_up(name);
            let mut told = locked(&told);
            match answer {
                Ok(addresses) => {
                    told.remove(name);
                    addresses
                }
                Err(reason) => {
                    if told.len() < NAMES_MAX && told.insert(name.to_owned()) {
                        tracing::warn!(name, reason, "the name of a node leads nowhere");
                    }
                    Vec::new()
                }
            }
        })
    }

    fn with(look_up: impl Fn(&str) -> Vec<SocketAddr> + Send + Sync + 'static) -> std::io::Result<Resolver> {
        let known = Arc::<Known>::default();
        let (questions, asked) = sync_channel(QUESTIONS_MAX);
        let work = Arc::new(Work {
            known: known.clone(),
            asked: Mutex::new(asked),
            looked_up: Mutex::default(),
        });
        let look_up = Arc::new(look_up);
        for _ in 0..THREADS {
            let (work, look_up) = (work.clone(), look_up.clone());
            let thread = std::thread::Builder::new().name("resolver".to_owned());
            thread.spawn(move || work.answer(look_up.as_ref()))?;
        }
        Ok(Resolver { known, questions })
    }

    /// Changes whenever a name leads elsewhere than before.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.known.version.load(Ordering::Acquire)
    }

    /// Where `HOST:PORT` is, as was last heard; nowhere if nothing was heard yet.
    pub(crate) fn addresses(&self, peer: &str) -> Vec<SocketAddr> {
        if let Ok(address) = peer.parse() {
            return vec![address];
        }
        let found = locked(&self.known.found);
        found.get(peer).cloned().unwrap_or_default()
    }

    /// Has `HOST:PORT` looked up, unless it is an address.
    pub(crate) fn want(&self, peer: &str) {
        if peer.parse::<SocketAddr>().is_err() {
            // It may be full, and ends with the node.
            drop(self.questions.try_send(peer.to_owned()));
        }
    }
}

/// The addresses of a name, each once, in the order in which the system names them.
///
/// # Errors
/// What the system says of it.
pub(crate) fn look_up(name: &str) -> Result<Vec<SocketAddr>, String> {
    let all = name.to_socket_addrs().map_err(|error| error.to_string())?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in all {
        if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

impl Work {
    /// One of the threads.
    fn answer(&self, look_up: &impl Fn(&str) -> Vec<SocketAddr>) {
        loop {
            // Whoever waits for a question keeps the others waiting, and for nothing else.
            let asked = locked(&self.asked).recv();
            let Ok(name) = asked else { return };
            if self.begins(&name) {
                let addresses = look_up(&name);
                locked(&self.looked_up).insert(name.clone(), Some(Instant::now()));
                self.known.learn(name, addresses);
            }
        }
    }

    /// Whether a name is looked up now: it is not under way, and was not a moment ago.
    fn begins(&self, name: &str) -> bool {
        let mut looked_up = locked(&self.looked_up);
        let is_new = match looked_up.get(name) {
            Some(None) => false,
            Some(Some(at)) => at.elapsed() >= PAUSE,
            None => true,
        };
        if is_new {
            if looked_up.len() >= NAMES_MAX {
                looked_up.clear();
                locked(&self.known.found).clear();
            }
            looked_up.insert(name.to_owned(), None);
        }
        is_new
    }
}

impl Known {
    fn learn(&self, name: String, addresses: Vec<SocketAddr>) {
        let mut found = locked(&self.found);
        // One that leads nowhere for a moment is dialled where it was; and servers deal out the same addresses in turn.
        let is_same = |held: &Vec<SocketAddr>| sorted(held) == sorted(&addresses);
        if !addresses.is_empty() && !found.get(&name).is_some_and(is_same) {
            found.insert(name, addresses);
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sorted(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(is_true: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_true() {
            assert!(began.elapsed() < Duration::from_secs(10), "waited in vain");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn an_address_needs_no_looking_up_and_a_name_leads_elsewhere_when_it_is_asked_for_again() {
        let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let moved = Arc::new(AtomicU64::new(1));
        let moves = moved.clone();
        let resolver = Resolver::with(move |name| match name {
            "node:1" => vec![at(1), at(moves.load(Ordering::Relaxed) as u16)],
            _ => Vec::new(),
        });
        let resolver = resolver.unwrap();
        assert_eq!(resolver.addresses("10.0.0.1:1"), [at(1)]);
        assert_eq!(resolver.addresses("node:1"), []);
        resolver.want("nowhere:1");
        resolver.want("node:1");
        until(|| resolver.version() == 1);
        assert_eq!(resolver.addresses("node:1"), [at(1), at(1)]);
        moved.store(2, Ordering::Relaxed);
        until(|| {
            resolver.want("node:1");
            resolver.version() == 2
        });
        assert_eq!(resolver.addresses("node:1"), [at(1), at(2)]);
        assert_eq!(resolver.addresses("nowhere:1"), []);
    }

    #[test]
    fn a_name_that_nobody_answers_holds_up_no_other() {
        let (answers, answered) = sync_channel::<()>(1);
        let answered = Mutex::new(answered);
        let at = SocketAddr::from(([10, 0, 0, 1], 1));
        let resolver = Resolver::with(move |name| {
            if name == "silent:1" {
                locked(&answered).recv().expect("it is answered in the end");
            }
            vec![at]
        });
        let resolver = resolver.unwrap();
        for _ in 0..THREADS {
            resolver.want("silent:1");
        }
        resolver.want("node:1");
        until(|| resolver.addresses("node:1") == [at]);
        assert_eq!(resolver.addresses("silent:1"), []);
        answers.send(()).unwrap();
        until(|| resolver.addresses("silent:1") == [at]);
    }

    #[test]
    fn each_address_of_a_name_is_named_once() {
        let found = look_up("localhost:7389").unwrap();
        assert!(!found.is_empty());
        assert!(found.iter().all(|address| address.ip().is_loopback()));
        let mut once = found.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), found.len());
        assert!(look_up("no-such-name.invalid:1").is_err());
    }
}

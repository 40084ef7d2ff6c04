//! Where names lead, looked up on a thread of its own: a name server that does not answer holds up nobody who has addresses.
//!
//! ```text
//!   who dials --want--> this thread --system--> addresses, by name --version--> who dials
//! ```
//!
//! Whoever has no link with a node asks again, at each attempt: names are given other addresses, when machines are replaced above all.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Questions that wait. At the limit one more is dropped: whoever needs the answer asks again.
const QUESTIONS_MAX: usize = 64;

/// Names that are remembered. Beyond it all are forgotten, and asked for again.
const NAMES_MAX: usize = 4_096;

/// Addresses of a name that are tried. The rest is left out.
pub(crate) const ADDRESSES_MAX: usize = 64;

/// A name is not looked up again before that.
const PAUSE: Duration = Duration::from_secs(1);

/// What is known, for everybody.
#[derive(Default)]
struct Known {
    /// Changes with each name that leads elsewhere.
    version: AtomicU64,
    found: Mutex<BTreeMap<String, Vec<SocketAddr>>>,
}

/// See the file's header. The thread ends with the last of its clones.
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
        let mut told = BTreeSet::new();
        Resolver::with(move |name| match look_up(name) {
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
        })
    }

    fn with(look_up: impl FnMut(&str) -> Vec<SocketAddr> + Send + 'static) -> std::io::Result<Resolver> {
        let known = Arc::<Known>::default();
        let (questions, asked) = sync_channel(QUESTIONS_MAX);
        let resolver = Resolver {
            known: known.clone(),
            questions,
        };
        let thread = std::thread::Builder::new().name("resolver".to_owned());
        thread.spawn(move || answer(&known, &asked, look_up))?;
        Ok(resolver)
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
        let found = self.known.found.lock().unwrap_or_else(PoisonError::into_inner);
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

/// The thread.
fn answer(known: &Known, asked: &Receiver<String>, mut look_up: impl FnMut(&str) -> Vec<SocketAddr>) {
    let mut looked_up: BTreeMap<String, Instant> = BTreeMap::new();
    while let Ok(name) = asked.recv() {
        if looked_up.get(&name).is_some_and(|at| at.elapsed() < PAUSE) {
            continue;
        }
        if looked_up.len() >= NAMES_MAX {
            looked_up.clear();
            known.found.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        let addresses = look_up(&name);
        looked_up.insert(name.clone(), Instant::now());
        let mut found = known.found.lock().unwrap_or_else(PoisonError::into_inner);
        // One that leads nowhere for a moment is dialled where it was; and servers deal out the same addresses in turn.
        let is_same = |held: &Vec<SocketAddr>| sorted(held) == sorted(&addresses);
        if !addresses.is_empty() && !found.get(&name).is_some_and(is_same) {
            found.insert(name, addresses);
            known.version.fetch_add(1, Ordering::Release);
        }
    }
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

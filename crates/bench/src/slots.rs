//! Which node of a cluster has which slot: the map that all threads share, and the thread that asks for it.
//!
//! Each driver has a copy and corrects it by what `MOVED` says at once. One thread asks for the whole when the run begins, and
//! again whenever a driver was told that something has moved or has lost a connection.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ids::SLOT_COUNT;

use crate::asker::{Asker, Value};

/// Nodes of one cluster. A node more is not used, and its slots stay with whom they were.
const NODES_MAX: usize = 256;

/// How long after one question the next one is asked at the earliest.
const PAUSE: Duration = Duration::from_millis(100);

/// Nobody is known to have the slot: any node is asked, and says who has it.
pub(crate) const NOBODY: u16 = u16::MAX;

/// What all threads know of the cluster.
#[derive(Debug)]
pub(crate) struct Topology {
    known: Mutex<Known>,
    /// Grows with each change of what is known.
    version: AtomicU64,
    is_wanted: AtomicBool,
    password: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Nodes keep their places.
    pub(crate) nodes: Vec<SocketAddr>,
    /// Place of the node that has a slot, or [`NOBODY`].
    pub(crate) owners: Vec<u16>,
    /// Which of the nodes only follow others.
    pub(crate) replicas: Vec<SocketAddr>,
}

impl Topology {
    /// These nodes are known, and no slots.
    pub(crate) fn new(nodes: Vec<SocketAddr>, password: Option<String>) -> Topology {
        Topology {
            known: Mutex::new(Known {
                nodes,
                owners: vec![NOBODY; usize::from(SLOT_COUNT)],
                replicas: Vec::new(),
            }),
            version: AtomicU64::new(1),
            is_wanted: AtomicBool::new(false),
            password,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known
            .lock()
            .expect("nothing panics while it holds this lock")
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn known(&self) -> Known {
        self.lock().clone()
    }

    /// The place of a node; `None` if there are too many.
    pub(crate) fn place(&self, node: SocketAddr) -> Option<usize> {
        let mut known = self.lock();
        if let Some(place) = known.nodes.iter().position(|other| *other == node) {
            return Some(place);
        }
        if known.nodes.len() == NODES_MAX {
            return None;
        }
        known.nodes.push(node);
        self.version.fetch_add(1, Ordering::Release);
        Some(known.nodes.len() - 1)
    }

    /// Has the map asked for soon.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Asks the nodes one after the other until one answers.
    ///
    /// # Errors
    /// In words, if none does.
    pub(crate) fn refresh(&self) -> Result<(), String> {
        let mut problem = "there are no nodes".to_owned();
        for node in self.known().nodes {
            match self.ask(node) {
                Ok(()) => return Ok(()),
                Err(error) => problem = format!("{node}: {error}"),
            }
        }
        Err(problem)
    }

    fn ask(&self, node: SocketAddr) -> Result<(), String> {
        let mut asker = Asker::connect(node, self.password.as_deref()).map_err(|error| error.to_string())?;
        let reply = asker
            .ask(&["CLUSTER", "SLOTS"])
            .map_err(|error| error.to_string())?;
        if let Value::Error(error) = reply {
            return Err(error);
        }
        let ranges = parse(&reply, node.ip()).ok_or("CLUSTER SLOTS answers what no client could read")?;
        if ranges.is_empty() {
            return Err("no slot has a node".to_owned());
        }
        let mut owners = vec![NOBODY; usize::from(SLOT_COUNT)];
        let mut replicas = Vec::new();
        for range in ranges {
            if let Some(place) = self.place(range.owner) {
                owners[usize::from(range.first)..=usize::from(range.last)].fill(place as u16);
            }
            replicas.extend(range.replicas);
        }
        replicas.sort_unstable();
        replicas.dedup();
        let mut known = self.lock();
        known.owners = owners;
        known.replicas = replicas;
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }
}

/// The thread that asks. Dropping it ends it.
pub(crate) struct Refresher {
    end: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Refresher {
    pub(crate) fn start(topology: Arc<Topology>) -> Refresher {
        let (end, ended) = sync_channel::<()>(0);
        let thread = thread::spawn(move || {
            while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                if topology.is_wanted.swap(false, Ordering::Relaxed) && topology.refresh().is_err() {
                    // Nobody knows: the nodes that are still there will say it with MOVED, and it is asked again.
                    topology.want();
                }
            }
        });
        Refresher {
            end: Some(end),
            thread: Some(thread),
        }
    }
}

impl Drop for Refresher {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// Slots from `first` to `last`.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: u16,
    last: u16,
    owner: SocketAddr,
    replicas: Vec<SocketAddr>,
}

/// The answer to `CLUSTER SLOTS`. A node that does not know its own address has an empty one: it is the one that was asked.
fn parse(reply: &Value, asked: IpAddr) -> Option<Vec<Range>> {
    let address = |node: &Value| {
        let node = node.array()?;
        let port = u16::try_from(node.get(1)?.integer()?).ok()?;
        resolve(node.first()?.text().unwrap_or(""), port, asked)
    };
    let range = |range: &Value| {
        let range = range.array()?;
        let slot = |value: &Value| {
            let slot = u16::try_from(value.integer()?).ok()?;
            (slot < SLOT_COUNT).then_some(slot)
        };
        let (first, last) = (slot(range.first()?)?, slot(range.get(1)?)?);
        (first <= last).then_some(())?;
        Some(Range {
            first,
            last,
            owner: address(range.get(2)?)?,
            replicas: range[3..].iter().filter_map(address).collect(),
        })
    };
    reply.array()?.iter().map(range).collect()
}

fn resolve(host: &str, port: u16, asked: IpAddr) -> Option<SocketAddr> {
    if host.is_empty() || host == "?" {
        return Some(SocketAddr::new(asked, port));
    }
    (host, port).to_socket_addrs().ok()?.next()
}

/// Whereto an error sends: `MOVED 3999 127.0.0.1:6381`, `ASK 3999 127.0.0.1:6381`.
pub(crate) fn redirection(error: &[u8], asked: IpAddr) -> Option<(u16, SocketAddr)> {
    let text = std::str::from_utf8(error).ok()?;
    let mut words = text.split(' ').skip(1);
    let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOT_COUNT)?;
    let (host, port) = words.next()?.rsplit_once(':')?;
    Some((
        slot,
        resolve(host.trim_matches(['[', ']']), port.parse().ok()?, asked)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn node(host: &str, port: i64) -> Value {
        Value::Array(vec![
            Value::Text(host.to_owned()),
            Value::Integer(port),
            Value::Text("its name".to_owned()),
        ])
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_answer_of_a_cluster_is_read_with_replicas_and_empty_hosts() {
        let reply = Value::Array(vec![
            Value::Array(vec![
                Value::Integer(0),
                Value::Integer(8_191),
                node("10.0.0.1", 6379),
                node("10.0.0.3", 6379),
            ]),
            Value::Array(vec![
                Value::Integer(8_192),
                Value::Integer(16_383),
                node("", 7_000),
            ]),
        ]);
        let ranges = parse(&reply, ASKED).expect("it is right");
        assert_eq!(ranges[0].owner, address("10.0.0.1:6379"));
        assert_eq!(ranges[0].replicas, [address("10.0.0.3:6379")]);
        assert_eq!(ranges[1].owner, address("127.0.0.1:7000"));
        assert_eq!((ranges[1].first, ranges[1].last), (8_192, 16_383));
    }

    #[test]
    fn slots_that_cannot_be_are_an_error() {
        for (first, last) in [(0, 16_384), (5, 4), (-1, 3)] {
            let range = vec![Value::Integer(first), Value::Integer(last), node("10.0.0.1", 1)];
            let reply = Value::Array(vec![Value::Array(range)]);
            assert_eq!(parse(&reply, ASKED), None, "{first}..{last}");
        }
        assert_eq!(parse(&Value::Nil, ASKED), None);
    }

    #[test]
    fn a_redirection_names_a_slot_and_a_node() {
        let read = |text: &str| redirection(text.as_bytes(), ASKED);
        assert_eq!(
            read("MOVED 3999 10.0.0.1:6381"),
            Some((3_999, address("10.0.0.1:6381")))
        );
        assert_eq!(read("ASK 1 :6381"), Some((1, address("127.0.0.1:6381"))));
        assert_eq!(read("MOVED 1 ::1:6381"), Some((1, address("[::1]:6381"))));
        for wrong in [
            "MOVED",
            "MOVED 1",
            "MOVED x 10.0.0.1:1",
            "MOVED 16384 10.0.0.1:1",
            "MOVED 1 10.0.0.1",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nodes_keep_their_places_and_one_too_many_has_none() {
        let topology = Topology::new(vec![address("10.0.0.1:1")], None);
        let before = topology.version();
        assert_eq!(topology.place(address("10.0.0.1:1")), Some(0));
        assert_eq!(topology.version(), before);
        for number in 1..NODES_MAX {
            let port = 1 + number as u16;
            assert_eq!(topology.place(SocketAddr::new(ASKED, port)), Some(number));
        }
        assert_eq!(topology.place(address("10.9.9.9:1")), None);
        assert!(topology.version() > before);
    }
}

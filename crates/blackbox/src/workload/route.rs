//! Where a client sends its next command: to the node that it belongs to, or to another one while that does not serve.
//!
//! ```text
//!   at home --no connection, or still loading--> elsewhere, the next node in turn --after a while--> at home
//!      | the node is about to go
//!      v
//!   elsewhere for good
//! ```
//!
//! A client without a home goes from node to node: to the next one when one takes no connection.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::lock;
use crate::Client;

/// How long a client stays elsewhere before it tries its own node again.
const AWAY: Duration = Duration::from_millis(500);

/// A command that was not carried out, as far as its client knows, or a connection that could not be made.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    /// Whom it was asked of.
    pub(crate) node: SocketAddr,
    /// Since the clients began.
    pub(crate) began: Duration,
    /// The same of the moment in which the client knew.
    pub(crate) ended: Duration,
    /// What was said.
    pub(crate) what: String,
}

/// The nodes that clients may turn to, and what failed at which of them.
pub(crate) struct Nodes {
    start: Instant,
    addresses: Mutex<Vec<SocketAddr>>,
    failed: Mutex<Vec<Failed>>,
}

impl Nodes {
    pub(crate) fn new(addresses: Vec<SocketAddr>) -> Nodes {
        Nodes {
            start: Instant::now(),
            addresses: Mutex::new(addresses),
            failed: Mutex::default(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Another one, or one that is known. Its place among them.
    pub(crate) fn add(&self, address: SocketAddr) -> usize {
        let mut addresses = lock(&self.addresses);
        if let Some(place) = addresses.iter().position(|known| *known == address) {
            return place;
        }
        addresses.push(address);
        addresses.len() - 1
    }

    /// No client turns to it any more.
    pub(crate) fn remove(&self, address: SocketAddr) {
        lock(&self.addresses).retain(|known| *known != address);
    }

    /// Notes what failed, at this moment.
    pub(crate) fn failed(&self, node: SocketAddr, began: Duration, what: String) {
        let ended = self.elapsed();
        lock(&self.failed).push(Failed {
            node,
            began,
            ended,
            what,
        });
    }

    /// What failed until now.
    pub(crate) fn failures(&self) -> Vec<Failed> {
        lock(&self.failed).clone()
    }

    fn has(&self, address: SocketAddr) -> bool {
        lock(&self.addresses).contains(&address)
    }

    /// The one whose turn it is, counted without end.
    fn at(&self, place: usize) -> SocketAddr {
        let addresses = lock(&self.addresses);
        addresses[place % addresses.len()]
    }
}

/// See the file's header.
pub(crate) struct Route {
    home: Option<SocketAddr>,
    /// The node that it turns to when it is not at home, counted without end.
    place: usize,
    /// Since when it has been elsewhere, as its own node did not serve it.
    away_since: Option<Instant>,
    patience: Duration,
    connection: Option<(SocketAddr, Client)>,
}

impl Route {
    pub(crate) fn new(home: Option<SocketAddr>, place: usize, patience: Duration) -> Route {
        Route {
            home,
            place,
            away_since: None,
            patience,
            connection: None,
        }
    }

    /// A connection to the node whose turn it is, to be given back with [`Route::keep`] while it is of use. `None` if there is none,
    /// which is noted: the next one is to another node.
    pub(crate) fn take(&mut self, nodes: &Nodes) -> Option<(SocketAddr, Client)> {
        let mut kept = self.connection.take();
        if self.home.is_some_and(|home| !nodes.has(home)) {
            self.home = None;
        }
        if self.away_since.is_some_and(|since| since.elapsed() >= AWAY) {
            self.away_since = None;
            kept = kept.filter(|(address, _)| self.home.is_none_or(|home| home == *address));
        }
        kept.filter(|(address, _)| nodes.has(*address))
            .or_else(|| self.connect(nodes))
    }

    fn connect(&mut self, nodes: &Nodes) -> Option<(SocketAddr, Client)> {
        let address = match (self.home, self.away_since) {
            (Some(home), None) => home,
            _ => nodes.at(self.place),
        };
        let began = nodes.elapsed();
        match Client::connect(address) {
            Ok(mut client) => {
                client.set_patience(self.patience);
                Some((address, client))
            }
            Err(error) => {
                nodes.failed(address, began, format!("no connection: {error}"));
                self.is_unserved();
                None
            }
        }
    }

    pub(crate) fn keep(&mut self, address: SocketAddr, connection: Client) {
        self.connection = Some((address, connection));
    }

    /// Ends the connection that was given back.
    pub(crate) fn hang_up(&mut self) {
        self.connection = None;
    }

    /// The next command goes to another node.
    pub(crate) fn is_unserved(&mut self) {
        self.connection = None;
        self.place += 1;
        self.away_since = self.home.map(|_| Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn asked(route: &mut Route, nodes: &Nodes) -> Option<SocketAddr> {
        let (address, client) = route.take(nodes)?;
        route.keep(address, client);
        Some(address)
    }

    #[test]
    fn a_client_goes_elsewhere_while_its_node_takes_no_connection_and_comes_back() {
        let (first, home) = listener();
        let (_second, other) = listener();
        let nodes = Nodes::new(vec![home, other]);
        let mut route = Route::new(Some(home), 0, Duration::from_secs(1));
        assert_eq!(asked(&mut route, &nodes), Some(home));
        drop(first);
        route.hang_up();
        assert_eq!(asked(&mut route, &nodes), None);
        let failures = nodes.failures();
        assert_eq!((failures.len(), failures[0].node), (1, home));
        assert_eq!(asked(&mut route, &nodes), Some(other));
        let _back = TcpListener::bind(home).unwrap();
        crate::eventually("it is at home", || asked(&mut route, &nodes) == Some(home));
        assert_eq!(nodes.failures().len(), 1);
    }

    #[test]
    fn a_client_of_a_node_that_goes_turns_to_another_one_for_good() {
        let (_first, home) = listener();
        let (_second, other) = listener();
        let nodes = Nodes::new(vec![home]);
        assert_eq!((nodes.add(other), nodes.add(home)), (1, 0));
        let mut route = Route::new(Some(home), 0, Duration::from_secs(1));
        assert_eq!(asked(&mut route, &nodes), Some(home));
        nodes.remove(home);
        assert_eq!(asked(&mut route, &nodes), Some(other));
        route.hang_up();
        assert_eq!(asked(&mut route, &nodes), Some(other));
        assert!(nodes.failures().is_empty());
    }
}

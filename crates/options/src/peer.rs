//! The addresses at which a node that joins finds others.

use std::fmt;

use crate::advertise::Advertised;

/// Addresses that one `join` may name. One that answers is enough.
const PEERS_MAX: usize = 64;

/// `HOST:PORT` of a node's peer port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// A name or an address, an IPv6 address without its brackets.
    pub host: String,
    /// Its `peer-port`.
    pub port: u16,
}

impl PeerAddress {
    /// Reads `HOST:PORT`. Without a port it is refused: there are too many on a node to guess which one was meant.
    pub fn parse(text: &str) -> Option<PeerAddress> {
        let Advertised { host, port } = Advertised::parse(text)?;
        port.map(|port| PeerAddress { host, port })
    }

    /// Reads a list separated by white space; it may be empty.
    pub fn parse_list(text: &str) -> Option<Vec<PeerAddress>> {
        let list: Vec<_> = text
            .split_whitespace()
            .map(PeerAddress::parse)
            .collect::<Option<_>>()?;
        (list.len() <= PEERS_MAX).then_some(list)
    }
}

/// As it was written, and as the standard library looks it up.
impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_as_it_was_written() {
        for text in ["node-1:7389", "10.0.0.1:1", "[::1]:65535"] {
            let address = PeerAddress::parse(text).map(|address| address.to_string());
            assert_eq!(address.as_deref(), Some(text));
        }
    }

    #[test]
    fn an_address_without_a_port_and_a_list_without_end_are_refused() {
        for text in ["node-1", "::1", "[::1]", "node-1:", ":7389", "a:1,b:2"] {
            assert_eq!(PeerAddress::parse(text), None, "{text}");
        }
        assert_eq!(PeerAddress::parse_list("a:1 b").as_deref(), None);
        assert_eq!(PeerAddress::parse_list(" \n").as_deref(), Some(&[][..]));
        let list = |count: usize| PeerAddress::parse_list(&"a:1 ".repeat(count)).map(|list| list.len());
        assert_eq!((list(PEERS_MAX), list(PEERS_MAX + 1)), (Some(PEERS_MAX), None));
    }
}

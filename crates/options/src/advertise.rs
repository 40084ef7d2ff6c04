//! The address that a node tells others to reach it at.

use std::net::{IpAddr, Ipv6Addr};

/// The longest name that the domain name system has.
const HOST_BYTES_MAX: usize = 253;

/// `HOST[:PORT]`, as `advertise` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// A name or an address, an IPv6 address without its brackets.
    pub host: String,
    /// `None`: the port that the node listens on.
    pub port: Option<u16>,
}

impl Advertised {
    /// Reads `HOST` or `HOST:PORT`. An IPv6 address stands in brackets if a port follows. Names are passed on as they are:
    /// who is told looks them up.
    pub fn parse(text: &str) -> Option<Advertised> {
        if text.parse::<Ipv6Addr>().is_ok() {
            return Some(Advertised {
                host: text.to_owned(),
                port: None,
            });
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']')?;
                host.parse::<Ipv6Addr>().ok()?;
                (host, rest.strip_prefix(':').or(rest.is_empty().then_some(""))?)
            }
            None => text.split_once(':').unwrap_or((text, "")),
        };
        let is_port_missing = text.ends_with(':');
        let port = match port {
            "" if !is_port_missing => None,
            digits => Some(digits.parse().ok().filter(|port| *port > 0)?),
        };
        is_host(host).then(|| Advertised {
            host: host.to_owned(),
            port,
        })
    }
}

/// Whether clients can be told this: what they get stands between separators.
fn is_host(text: &str) -> bool {
    let is_name = |text: &str| {
        let mut bytes = text.bytes();
        (1..=HOST_BYTES_MAX).contains(&text.len())
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
    };
    text.parse::<IpAddr>().is_ok() || is_name(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_be_a_name_or_an_address_with_or_without_a_port() {
        for (text, host, port) in [
            ("node-1.example.org", "node-1.example.org", None),
            ("node_1:7379", "node_1", Some(7379)),
            ("10.0.0.1", "10.0.0.1", None),
            ("10.0.0.1:1", "10.0.0.1", Some(1)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[fe80::1]:65535", "fe80::1", Some(65535)),
        ] {
            let expected = Advertised {
                host: host.to_owned(),
                port,
            };
            assert_eq!(Advertised::parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_clients_could_not_read_is_refused() {
        let long = "a".repeat(254);
        for text in [
            "",
            ":",
            ":7379",
            "host:",
            "host:0",
            "host:65536",
            "host:x",
            "a b",
            "a,b",
            "a@b",
            "[::1",
            "[::1]:",
            "[::1]7",
            "[host]:1",
            "a:1:2",
            "h\u{e9}",
            &long,
        ] {
            assert_eq!(Advertised::parse(text), None, "{text:?}");
        }
    }
}

//! Addresses to listen on, in the notation of `redis.conf`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One address of `bind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAddress {
    /// The address; `*` is 0.0.0.0 and `::*` is `::`.
    pub ip: IpAddr,
    /// Written with a leading `-`: the server starts even where the machine lacks this address.
    pub optional: bool,
}

impl BindAddress {
    /// Reads `ADDRESS`, `-ADDRESS`, `*`, `::*`. Host names are refused: what they mean may change between two
    /// starts, and looking one up is I/O.
    pub fn parse(text: &str) -> Option<BindAddress> {
        let (optional, address) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let ip = match address {
            "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            "::*" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => address.parse().ok()?,
        };
        Some(BindAddress { ip, optional })
    }

    /// Reads a list separated by white space.
    pub fn parse_list(text: &str) -> Option<Vec<BindAddress>> {
        let list: Vec<_> = text
            .split_whitespace()
            .map(BindAddress::parse)
            .collect::<Option<_>>()?;
        // Not listening anywhere is never what was meant.
        (!list.is_empty()).then_some(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_notation_is_understood_and_host_names_are_not() {
        let any4 = BindAddress {
            ip: "0.0.0.0".parse().unwrap(),
            optional: false,
        };
        let any6 = BindAddress {
            ip: "::".parse().unwrap(),
            optional: true,
        };
        assert_eq!(BindAddress::parse_list("* -::*"), Some(vec![any4, any6]));
        assert_eq!(
            BindAddress::parse_list("127.0.0.1 -::1").map(|list| list[1].optional),
            Some(true)
        );
        for wrong in ["", "  ", "localhost", "127.0.0.1:80", "-"] {
            assert_eq!(BindAddress::parse_list(wrong), None, "{wrong:?}");
        }
    }
}

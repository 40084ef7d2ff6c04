//! Where a server is, as it is written on the command line.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Endpoints of one run. More are refused: each gets clients of its own.
pub const ENDPOINTS_MAX: usize = 64;

/// `HOST:PORT`, and the address that it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    text: String,
    address: SocketAddr,
}

impl Endpoint {
    /// The first address of its name.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Several, with commas between.
    ///
    /// # Errors
    /// In words, if one of them is wrong, or if there are none or too many.
    pub fn parse_list(text: &str) -> Result<Vec<Endpoint>, String> {
        let endpoints: Result<Vec<Endpoint>, String> = text.split(',').map(str::parse).collect();
        let endpoints = endpoints?;
        if endpoints.len() > ENDPOINTS_MAX {
            return Err(format!("{ENDPOINTS_MAX} endpoints are the most"));
        }
        Ok(endpoints)
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Endpoint, String> {
        let whole = if text.parse::<u16>().is_ok() {
            format!("127.0.0.1:{text}")
        } else {
            text.to_owned()
        };
        let port = whole.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(1..))) {
            return Err(format!(
                "`{text}` is no endpoint: take HOST:PORT, such as 127.0.0.1:6379, or a port of this machine"
            ));
        }
        let mut addresses = whole.to_socket_addrs().map_err(|error| {
            format!("the name of `{text}` is not found ({error}): check it, or take an address")
        })?;
        let address = addresses
            .next()
            .ok_or_else(|| format!("the name of `{text}` has no address"))?;
        Ok(Endpoint { text: whole, address })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_addresses_or_ports_of_this_machine() {
        let read = Endpoint::parse_list("127.0.0.1:6379,7000,[::1]:7").expect("they are right");
        let texts: Vec<String> = read.iter().map(Endpoint::to_string).collect();
        assert_eq!(texts, ["127.0.0.1:6379", "127.0.0.1:7000", "[::1]:7"]);
        assert_eq!(read[1].address(), "127.0.0.1:7000".parse().expect("an address"));
    }

    #[test]
    fn a_wrong_endpoint_says_what_to_take() {
        for wrong in [
            "",
            "localhost",
            "127.0.0.1:",
            "127.0.0.1:0",
            "127.0.0.1:x",
            "1.1.1.1:1,,",
        ] {
            let problem = Endpoint::parse_list(wrong).expect_err("it is wrong");
            assert!(problem.contains("HOST:PORT"), "{wrong}: {problem}");
        }
        let many = vec!["7000"; ENDPOINTS_MAX + 1].join(",");
        assert!(Endpoint::parse_list(&many).is_err());
    }
}

//! Reads pages of a node's admin port. As little of HTTP as that takes: version 1.0, whose answers end with the connection.
//!
//! A node on another machine wants the password of its clients. It is taken from where the server takes it, if it is there:
//! the environment. Or it is shown that the cluster's secret is known (`cluster_secret.rs`), if it is.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use admin::{CHALLENGE, CHALLENGE_PAGE, PROOF};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::cluster_secret;

/// From the first byte sent to the last one read, each step alone. The port answers at once, or not at all.
const STEP_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes of an answer. The page of a thousand nodes is a fraction of it; a longer one is an error.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// An answer.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// How long the answer to what changes something may take.
const CHANGE_TIME_MAX: Duration = Duration::from_secs(90);

/// Where the server finds the password too.
pub(crate) const PASSWORD_VARIABLE: &str = "CHORALE_REQUIREPASS";

/// The headers that show who asks: the password, if there is one, and that the secret is known, if it is.
fn credentials(address: &str, method: &str, path: &str, body: &str) -> String {
    let password = match std::env::var(PASSWORD_VARIABLE) {
        Ok(password) if !password.is_empty() => {
            let shown = STANDARD.encode(format!("default:{password}"));
            format!("Authorization: Basic {shown}\r\n")
        }
        _ => String::new(),
    };
    password + &proof(address, method, path, body).unwrap_or_default()
}

/// None where the secret is not known, and where the node has none or does not answer: it says by itself then what it wants.
fn proof(address: &str, method: &str, path: &str, body: &str) -> Option<String> {
    let key = cluster_secret::key().filter(|_| !is_loopback(address))?;
    let request = format!("GET {CHALLENGE_PAGE} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let page = ask(address, &request, STEP_TIME_MAX).ok()?;
    let challenge = page.body.trim_end();
    let is_one = page.status == 200 && challenge.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| {
        let proof = key.proof(challenge, method, path, body.as_bytes());
        format!("{CHALLENGE}: {challenge}\r\n{PROOF}: {proof}\r\n")
    })
}

/// This machine is believed by itself.
fn is_loopback(address: &str) -> bool {
    let ip = address.parse().map(|address: SocketAddr| address.ip());
    ip.is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Asks for `path` at `address`, `HOST:PORT`.
pub(crate) fn get(address: &str, path: &str) -> io::Result<Page> {
    let shown = credentials(address, "GET", path, "");
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{shown}\r\n");
    ask(address, &request, STEP_TIME_MAX)
}

/// Posts a body to `path`, with one header of its own.
pub(crate) fn post(address: &str, path: &str, (name, value): (&str, &str), body: &str) -> io::Result<Page> {
    let length = body.len();
    let shown = credentials(address, "POST", path, body);
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\n{shown}{name}: {value}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    ask(address, &request, CHANGE_TIME_MAX)
}

fn ask(address: &str, request: &str, patience: Duration) -> io::Result<Page> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for socket in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&socket, STEP_TIME_MAX) {
            Ok(stream) => return exchange(stream, request, patience),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn exchange(mut stream: TcpStream, request: &str, patience: Duration) -> io::Result<Page> {
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(STEP_TIME_MAX))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    // One byte more than is allowed tells a longer answer from one of just that length.
    stream.take(ANSWER_BYTES_MAX + 1).read_to_string(&mut answer)?;
    if answer.len() as u64 > ANSWER_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the answer has no end",
        ));
    }
    parse(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "this is not HTTP"))
}

fn parse(answer: &str) -> Option<Page> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let (version, rest) = head.split_once(' ')?;
    let status = rest.get(..3)?.parse().ok()?;
    version.starts_with("HTTP/1.").then(|| Page {
        status,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_status_and_a_body() {
        let page = parse("HTTP/1.0 503 Service Unavailable\r\na: b\r\n\r\nwhy\r\n\r\nso").unwrap();
        assert_eq!((page.status, page.body.as_str()), (503, "why\r\n\r\nso"));
        for wrong in [
            "",
            "-ERR\r\n\r\n",
            "HTTP/1.0\r\n\r\n",
            "SSH-2.0 200\r\n\r\n",
            "HTTP/1.1 2\r\n\r\n",
        ] {
            assert!(parse(wrong).is_none(), "{wrong:?}");
        }
    }
}

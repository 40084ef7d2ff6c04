//! Reads pages of a node's admin port. As little of HTTP as that takes: version 1.0, whose answers end with the connection.
//!
//! A node on another machine wants the password of its clients. It is taken from where the server takes it, if it is there:
//! the environment. Or it is shown that the cluster's secret is known (`cluster_secret.rs`), if it is.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use admin::{CHALLENGE, CHALLENGE_PAGE, DIGEST, PROOF, digest};
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

/// The headers that show who asks: the password, if there is one, and that the secret is known, if that is to be shown.
fn credentials(
    address: &str,
    at: SocketAddr,
    (method, path, body): (&str, &str, &str),
) -> io::Result<String> {
    let password = match std::env::var(PASSWORD_VARIABLE) {
        Ok(password) if !password.is_empty() => {
            let shown = STANDARD.encode(format!("default:{password}"));
            format!("Authorization: Basic {shown}\r\n")
        }
        _ => String::new(),
    };
    // This machine is believed by itself, unless somebody says that it is to be shown: a tunnel may begin here.
    let key = match cluster_secret::key() {
        Some((key, is_named)) if is_named || !at.ip().is_loopback() => key,
        _ => return Ok(password),
    };
    let request = format!("GET {CHALLENGE_PAGE} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let page = exchange(
        TcpStream::connect_timeout(&at, STEP_TIME_MAX)?,
        &request,
        STEP_TIME_MAX,
    )?;
    if page.status != 200 {
        // It has no secret, or is of an older version, and says by itself what it takes.
        return Ok(password);
    }
    let (challenge, digest) = (page.body.trim_end(), digest(body.as_bytes()));
    if !challenge.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no challenge"));
    }
    let proof = key.proof(challenge, method, path, &digest);
    Ok(format!(
        "{password}{CHALLENGE}: {challenge}\r\n{DIGEST}: {digest}\r\n{PROOF}: {proof}\r\n"
    ))
}

/// Asks for `path` at `address`, `HOST:PORT`.
pub(crate) fn get(address: &str, path: &str) -> io::Result<Page> {
    let (stream, at) = connect(address)?;
    let shown = credentials(address, at, ("GET", path, ""))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{shown}\r\n");
    exchange(stream, &request, STEP_TIME_MAX)
}

/// Posts a body to `path`, with one header of its own.
pub(crate) fn post(address: &str, path: &str, (name, value): (&str, &str), body: &str) -> io::Result<Page> {
    let (stream, at) = connect(address)?;
    let length = body.len();
    let shown = credentials(address, at, ("POST", path, body))?;
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\n{shown}{name}: {value}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    exchange(stream, &request, CHANGE_TIME_MAX)
}

/// A name may lead to several nodes, and a challenge is answered at the one that gave it: which one it is, is found once.
fn connect(address: &str) -> io::Result<(TcpStream, SocketAddr)> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for at in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, STEP_TIME_MAX) {
            Ok(stream) => return Ok((stream, at)),
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

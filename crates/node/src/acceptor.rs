//! The sockets that new connections come in by, on the worker that accepts for all of them, and whose turn it is to have one.

use crate::clock;
use crate::listener::Listener;
use gateway::{Endpoint, Shared};
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;

/// See the file's header. On the other workers it has no sockets.
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    /// More may have come than was accepted.
    is_behind: bool,
    next_worker: u16,
}

impl Acceptor {
    /// Watches the sockets under tokens from `first_token` on.
    pub(crate) fn new(
        mut listeners: Vec<Listener>,
        registry: &Registry,
        first_token: usize,
    ) -> io::Result<Acceptor> {
        for (token, listener) in (first_token..).zip(&mut listeners) {
            registry.register(&mut listener.socket, Token(token), Interest::READABLE)?;
        }
        Ok(Acceptor {
            is_behind: listeners.iter().any(|listener| !listener.waiting.is_empty()),
            listeners,
            next_worker: 0,
        })
    }

    /// The next connection that has come in by a socket.
    pub(crate) fn accept(
        &mut self,
        index: usize,
        shared: &Shared,
    ) -> Option<(TcpStream, SocketAddr, Endpoint)> {
        let listener = &mut self.listeners[index];
        loop {
            let accepted = match listener.waiting.pop() {
                Some(stream) => stream.peer_addr().map(|address| (stream, address)),
                None => listener
                    .socket
                    .accept()
                    .map(|(stream, address)| (stream.into(), address)),
            };
            let error = match accepted {
                Ok((stream, address)) => return Some((stream, address, listener.endpoint)),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::WouldBlock => return None,
                // A signal came between, or the client has gone before it came in.
                ErrorKind::Interrupted | ErrorKind::ConnectionAborted | ErrorKind::NotConnected => {}
                _ => {
                    // Out of file descriptors, most likely: readiness is told once, so look again later.
                    if let Some(left_out) = shared.accept_notices.may(clock::raw()) {
                        tracing::warn!(%error, left_out, "cannot accept a connection");
                    }
                    self.is_behind = true;
                    return None;
                }
            }
        }
    }

    /// The sockets that are to be looked at once more.
    pub(crate) fn again(&mut self) -> Range<usize> {
        match std::mem::take(&mut self.is_behind) {
            true => 0..self.listeners.len(),
            false => 0..0,
        }
    }

    /// Whose turn it is: each worker gets the same share.
    pub(crate) fn next_worker(&mut self, workers: u16) -> u16 {
        let worker = self.next_worker;
        self.next_worker = (worker + 1) % workers;
        worker
    }
}

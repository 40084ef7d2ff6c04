//! One client's socket and its connection.

use gateway::{Connection, WorkerStats};
use mio::net::TcpStream;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Instant;

/// Bytes written with one call.
const WRITE_BYTES: usize = 256 * 1024;
/// Bytes written to one socket at a time: a client that reads as fast as they come must not keep its worker to itself.
const FLUSH_BYTES_MAX: usize = 256 * 1024;

/// A socket with everything that belongs to it.
pub(crate) struct Link {
    pub(crate) socket: TcpStream,
    pub(crate) connection: Connection,
    /// The socket may hold bytes: readiness is told once, at its edge.
    pub(crate) is_readable: bool,
    /// The client has said that it sends no more: a short read is not the end, what follows is.
    pub(crate) is_read_closed: bool,
    /// Everything the client sent was read; it may still read replies.
    pub(crate) is_ended: bool,
    /// The socket takes no more for now.
    pub(crate) is_full: bool,
    /// It stands in the list of links to look at when the turn ends.
    pub(crate) is_listed: bool,
    /// Its last byte was sent and it was shut down for writing; it ends when the client does, or soon.
    pub(crate) lingers_until: Option<Instant>,
    /// Since when it has held more than the soft output limit.
    pub(crate) soft_since: Option<Instant>,
    /// How much of the connection's unfilled room the worker's figures hold.
    unfilled: usize,
}

/// What came of reading or writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Io {
    /// There may be more to do right away.
    More,
    /// Nothing more until the system says so.
    Drained,
    /// The client sends no more.
    Ended,
    /// The connection is gone.
    Closed,
}

impl Link {
    pub(crate) fn new(socket: TcpStream, connection: Connection) -> Link {
        Link {
            socket,
            connection,
            is_readable: true,
            is_read_closed: false,
            is_ended: false,
            is_full: false,
            is_listed: false,
            lingers_until: None,
            soft_since: None,
            unfilled: 0,
        }
    }

    /// Brings the worker's figures up to date with the room that the connection has made and not filled.
    pub(crate) fn count_unfilled(&mut self, stats: &WorkerStats) {
        self.unfilled_is(self.connection.unfilled(), stats);
    }

    /// The connection is over.
    pub(crate) fn forget_unfilled(&mut self, stats: &WorkerStats) {
        self.unfilled_is(0, stats);
    }

    fn unfilled_is(&mut self, bytes: usize, stats: &WorkerStats) {
        let counted = std::mem::replace(&mut self.unfilled, bytes);
        if counted != bytes {
            stats
                .input_unfilled
                .add((bytes as u64).wrapping_sub(counted as u64));
        }
    }

    /// Reads once into `buffer`; `count` says how much came.
    pub(crate) fn read(&mut self, buffer: &mut [u8], count: &mut usize) -> Io {
        *count = 0;
        loop {
            return match self.socket.read(buffer) {
                Ok(0) => Io::Ended,
                Ok(read) => {
                    *count = read;
                    // Less than asked for: the socket is empty, and the next byte makes a new edge. An end that
                    // was told with these bytes makes none.
                    if read < buffer.len() && !self.is_read_closed {
                        Io::Drained
                    } else {
                        Io::More
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Io::Drained,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => Io::Closed,
            };
        }
    }

    /// Sends what is ready, within bounds: [`Io::More`] if there is more that the socket would take. `sent` says how
    /// much.
    pub(crate) fn flush(&mut self, sent: &mut usize) -> Io {
        *sent = 0;
        let pipeline = &mut self.connection.pipeline;
        while !pipeline.ready().is_empty() {
            if *sent >= FLUSH_BYTES_MAX {
                return Io::More;
            }
            let part = pipeline.ready();
            match self.socket.write(&part[..part.len().min(WRITE_BYTES)]) {
                Ok(0) => return Io::Closed,
                Ok(count) => {
                    *sent += count;
                    pipeline.sent(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_full = true;
                    return Io::Drained;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Io::Closed,
            }
        }
        Io::Drained
    }

    /// Says goodbye: no more is sent. Closing at once would reset the connection while the client's last bytes
    /// are unread, and take the reply that explains why with it.
    pub(crate) fn linger(&mut self, until: Instant) -> Io {
        if self.lingers_until.is_none() {
            self.lingers_until = Some(until);
            if self.socket.shutdown(Shutdown::Write).is_err() {
                return Io::Closed;
            }
        }
        Io::Drained
    }
}

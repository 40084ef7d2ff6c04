//! One socket of a client: what is to be written, what was sent and is not answered, and what waits until it is open.
//!
//! ```text
//!  Closed --open--> Connecting --connected--> Open
//!    ^                  | refused, too long     | lost
//!    +--- the pause <---+--------- Pausing <----+
//!         is over
//! ```

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::scanner::{Malformed, Scanner};

/// Whose reply comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// One of the places for requests.
    InFlightSlot(u32),
    /// Its write. What comes next is the reply to the `WAIT` behind it, which is the [`Sent::InFlightSlot`].
    Write(u32),
    /// What is sent on every new connection.
    Greeting,
    /// `ASKING`, or the `WAIT` behind a write that failed: the reply says nothing. Since when it is waited for.
    Ignored(u64),
}

/// What a connection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody needs it.
    Closed,
    /// Since when, in nanoseconds.
    Connecting(u64),
    /// Since when.
    Open(u64),
    /// Until when nothing is tried.
    Pausing(u64),
}

/// Why reading ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// There is nothing more for now.
    Dry,
    /// Perhaps there is more.
    Full,
    /// The other side is gone.
    Lost,
}

/// One socket.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Which of the addresses.
    pub(crate) node: usize,
    pub(crate) state: State,
    /// Attempts that failed since it was last of use.
    pub(crate) failures: u32,
    socket: Option<TcpStream>,
    pub(crate) out: Vec<u8>,
    out_from: usize,
    pub(crate) in_flight: VecDeque<Sent>,
    /// Places whose next round trip is sent when this is open.
    pub(crate) waiting: VecDeque<u32>,
    pub(crate) scanner: Scanner,
    /// It is among those that will be flushed.
    pub(crate) is_dirty: bool,
}

impl Connection {
    pub(crate) fn new(node: usize, pipeline: usize) -> Connection {
        Connection {
            node,
            state: State::Closed,
            failures: 0,
            socket: None,
            out: Vec::new(),
            out_from: 0,
            // One for the greeting, and for each one `ASKING` and one `WAIT`.
            in_flight: VecDeque::with_capacity(3 * pipeline + 1),
            waiting: VecDeque::with_capacity(pipeline),
            scanner: Scanner::default(),
            is_dirty: false,
        }
    }

    /// Begins to connect.
    pub(crate) fn open(
        &mut self,
        registry: &Registry,
        token: Token,
        address: SocketAddr,
        now: u64,
    ) -> io::Result<()> {
        let mut socket = TcpStream::connect(address)?;
        // Edge-triggered: both are told once, and again when there is something new.
        registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
        self.socket = Some(socket);
        self.state = State::Connecting(now);
        Ok(())
    }

    /// Whether the attempt to connect has come to an end, and how.
    pub(crate) fn connected(&mut self, now: u64) -> Option<io::Result<()>> {
        let socket = self.socket.as_ref()?;
        if let Ok(Some(error)) | Err(error) = socket.take_error() {
            return Some(Err(error));
        }
        match socket.peer_addr() {
            Ok(_) => {
                self.state = State::Open(now);
                Some(socket.set_nodelay(true))
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Closes the socket, and forgets all bytes that were read or are to be written. What was in flight and what waits stays.
    pub(crate) fn close(&mut self, registry: &Registry) {
        if let Some(mut socket) = self.socket.take() {
            // A socket that cannot be deregistered is closed all the same.
            let _ = registry.deregister(&mut socket);
        }
        self.out.clear();
        self.out_from = 0;
        self.scanner = Scanner::default();
        self.state = State::Closed;
    }

    /// Writes as much as the system takes. The rest is written when it tells that there is room.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let Some(socket) = &mut self.socket else {
            return Ok(());
        };
        while self.out_from < self.out.len() {
            match socket.write(&self.out[self.out_from..]) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
                Ok(written) => self.out_from += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.out_from = 0;
        Ok(())
    }

    /// Reads once.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> (usize, Ended) {
        let Some(socket) = &mut self.socket else {
            return (0, Ended::Dry);
        };
        loop {
            return match socket.read(buffer) {
                Ok(0) => (0, Ended::Lost),
                // With less than there is room for, the system has nothing more; what comes later is told anew.
                Ok(read) if read < buffer.len() => (read, Ended::Dry),
                Ok(read) => (read, Ended::Full),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (0, Ended::Dry),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => (0, Ended::Lost),
            };
        }
    }
}

/// What a reply means for the one who waits for it, in a form that outlives the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) error: Option<&'a [u8]>,
    pub(crate) is_nil: bool,
    pub(crate) nils: u32,
    pub(crate) integer: Option<i64>,
}

/// The next reply, if it is whole. The text of an error is copied to `text`, so that the connection can be used meanwhile.
pub(crate) fn next_answer<'a>(
    connection: &mut Connection,
    bytes: &mut &[u8],
    text: &'a mut Vec<u8>,
) -> Result<Option<Answer<'a>>, Malformed> {
    let Some(reply) = connection.scanner.next(bytes)? else {
        return Ok(None);
    };
    let (is_nil, nils, integer) = (reply.is_nil, reply.nils, reply.integer);
    let error = reply.error.map(|error| {
        text.clear();
        text.extend_from_slice(error);
        &text[..]
    });
    Ok(Some(Answer {
        error,
        is_nil,
        nils,
        integer,
    }))
}

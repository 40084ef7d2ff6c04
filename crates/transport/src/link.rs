//! One socket, and what was read from it and waits to be written to it.

use crate::introduction::{Handshake, LinkId};
use crate::outgoing::Outgoing;
use ids::Monotonic;
use mio::net::TcpStream;
use peer_wire::frame::FrameDecoder;
use peer_wire::{Assembler, hello};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

/// Bytes written to one socket in one turn.
const FLUSH_BYTES_MAX: usize = 256 * 1024;

/// A socket with everything that belongs to it.
pub(crate) struct Link<P> {
    pub(crate) socket: TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) phase: Phase<P>,
    pub(crate) decoder: FrameDecoder,
    pub(crate) assembler: Assembler,
    /// The beginning of a frame.
    pub(crate) input: Vec<u8>,
    pub(crate) output: Outgoing,
    /// When the present phase began.
    pub(crate) since: Monotonic,
    /// When the socket last took something, or would have.
    pub(crate) moved_at: Monotonic,
    /// The socket takes no more for now.
    pub(crate) is_full: bool,
    /// The peer has said that it sends no more: what follows a short read is the end.
    pub(crate) is_read_closed: bool,
    /// It stands in the list of links to write to when the turn ends.
    pub(crate) is_listed: bool,
    /// It stands in the list of links that have more to read.
    pub(crate) is_unread: bool,
}

pub(crate) enum Phase<P> {
    /// Not connected yet.
    Dialling(LinkId),
    /// Finding out who is there. With the link that was dialled, if this end did.
    Introducing(Option<LinkId>, Box<dyn Handshake<P> + Send>),
    /// Messages go both ways.
    Up(LinkId),
}

/// Why a link is closed.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The peer closed it.
    Ended,
    /// The system reports an error.
    System(io::Error),
    /// What arrived is no frame, or not in its place.
    Garbled(String),
    /// The peer is refused, or refuses.
    Refused(String),
    /// Both ends have dialled, and it is the other link that stays.
    Crossed,
    /// Nothing moved for too long.
    Stalled,
    /// More small messages wait than may.
    Overrun,
    /// The peer came back on a new connection.
    Replaced,
    /// The owner wants no link with this peer any more.
    Forgotten,
    /// Too many strangers wait to introduce themselves.
    Crowded,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Ended => f.write_str("the peer closed it"),
            Broken::System(error) => error.fmt(f),
            Broken::Garbled(what) | Broken::Refused(what) => f.write_str(what),
            Broken::Crossed => f.write_str("both ends have dialled, and the other link stays"),
            Broken::Stalled => f.write_str("nothing moved for too long"),
            Broken::Overrun => f.write_str("the peer does not read what it is sent"),
            Broken::Replaced => f.write_str("the peer came back on a new connection"),
            Broken::Forgotten => f.write_str("the node is a peer no longer"),
            Broken::Crowded => f.write_str("too many connections wait to introduce themselves"),
        }
    }
}

/// What came of reading or writing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Io {
    /// There may be more to do right away.
    More,
    /// Nothing more until the system says so.
    Drained,
}

impl<P> Link<P> {
    pub(crate) fn new(socket: TcpStream, address: SocketAddr, phase: Phase<P>, now: Monotonic) -> Link<P> {
        Link {
            socket,
            address,
            phase,
            decoder: FrameDecoder::new(hello::BODY_BYTES_MAX),
            assembler: Assembler::new(),
            input: Vec::new(),
            output: Outgoing::default(),
            since: now,
            moved_at: now,
            is_full: false,
            is_read_closed: false,
            is_listed: false,
            is_unread: false,
        }
    }

    /// The link that it is, or is to become, if that is known.
    pub(crate) fn id(&self) -> Option<LinkId> {
        match self.phase {
            Phase::Dialling(link) | Phase::Up(link) => Some(link),
            Phase::Introducing(link, _) => link,
        }
    }

    /// Reads once into `buffer`; `count` says how much came.
    pub(crate) fn read(&mut self, buffer: &mut [u8], count: &mut usize) -> Result<Io, Broken> {
        *count = 0;
        loop {
            return match self.socket.read(buffer) {
                Ok(0) => Err(Broken::Ended),
                Ok(read) => {
                    *count = read;
                    // Less than asked for: the socket is empty, and the next byte makes a new edge. An end that was told
                    // with these bytes makes none.
                    let is_drained = read < buffer.len() && !self.is_read_closed;
                    Ok(if is_drained { Io::Drained } else { Io::More })
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Io::Drained),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => Err(Broken::System(error)),
            };
        }
    }

    /// Sends what waits, within bounds: [`Io::More`] if there is more that the socket would take. Adds to `total` how
    /// much.
    pub(crate) fn flush(&mut self, now: Monotonic, total: &mut u64) -> Result<Io, Broken> {
        if !self.is_full {
            self.moved_at = now;
        }
        let mut sent = 0;
        while !self.is_full && !self.output.is_empty() {
            if sent >= FLUSH_BYTES_MAX {
                return Ok(Io::More);
            }
            let part = self.output.next_part();
            match self.socket.write(part) {
                Ok(0) => return Err(Broken::Ended),
                Ok(count) => {
                    sent += count;
                    *total += count as u64;
                    self.output.sent(count);
                    self.moved_at = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_full = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Broken::System(error)),
            }
        }
        Ok(Io::Drained)
    }
}

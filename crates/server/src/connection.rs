//! One connection without its socket: bytes in, commands to the gateway, replies in order.

use crate::pipeline::Pipeline;
use crate::session::Session;
use keyspace::KEPT_BYTES_MIN;
use resp::Decoder;

/// How many times what has come of a long request there may be room for.
const ROOM_FACTOR: usize = 8;

/// Everything of a connection but the socket.
pub struct Connection {
    /// The client's state.
    pub session: Session,
    /// Its replies.
    pub pipeline: Pipeline,
    pub(crate) decoder: Decoder,
    input: Vec<u8>,
    /// Bytes of `input` that were carried out.
    consumed: usize,
    /// Why the rest was not: not because it is incomplete.
    pub(crate) is_cut_short: bool,
}

impl Connection {
    /// A new connection.
    pub fn new(session: Session) -> Connection {
        Connection {
            session,
            pipeline: Pipeline::default(),
            decoder: Decoder::new(),
            input: Vec::new(),
            consumed: 0,
            is_cut_short: false,
        }
    }

    /// Whether bytes are left over from earlier reads: new ones must go behind them.
    #[inline]
    pub fn has_input(&self) -> bool {
        self.consumed < self.input.len()
    }

    /// Whether left-over bytes may hold a whole command: the connection had to wait, or let others have their turn.
    #[inline]
    pub fn has_commands(&self) -> bool {
        self.is_cut_short
    }

    /// Bytes that wait to become commands.
    pub fn input_len(&self) -> usize {
        self.input.len() - self.consumed
    }

    /// Takes the left-over bytes out, to run over them while the rest of the connection is borrowed.
    pub(crate) fn take_input(&mut self) -> (Vec<u8>, usize) {
        (
            std::mem::take(&mut self.input),
            std::mem::take(&mut self.consumed),
        )
    }

    /// Puts them back with what was carried out of them.
    pub(crate) fn put_input(&mut self, input: Vec<u8>, consumed: usize) {
        self.input = input;
        self.consumed = consumed;
        if self.consumed == self.input.len() {
            self.input.clear();
            self.consumed = 0;
            // A large request must not be paid for as long as the connection lives.
            if self.input.capacity() > 64 * 1024 {
                self.input = Vec::new();
            }
        }
    }

    /// Keeps bytes that were not carried out. What was carried out before them makes room first, once it is the
    /// larger part: each byte is moved a bounded number of times.
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        if self.consumed > 0 && self.consumed >= self.input.len() / 2 {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
        // Once it is certain to be long, room is made for more than has come, so that little of it is moved again; but not for
        // all that a client merely announces.
        let length = self.input.len() + rest.len();
        let wanted = (self.consumed + self.decoder.wanted()).min(length * ROOM_FACTOR);
        if length - self.consumed >= KEPT_BYTES_MIN && wanted > length {
            self.input.reserve_exact(wanted - self.input.len());
        }
        self.input.extend_from_slice(rest);
    }
}

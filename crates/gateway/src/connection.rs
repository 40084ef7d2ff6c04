//! One connection without its socket: bytes in, commands to the gateway, replies in order.

use crate::pipeline::Pipeline;
use crate::session::Session;
use keyspace::KEPT_BYTES_MIN;
use resp::{Decoder, ReplyWriter};

/// How many times what has come of a long request there may be room for. What is there when room is made for the rest is moved
/// once more, in one turn: of the longest value four mebibytes.
const ROOM_FACTOR: usize = 128;
/// Room that a connection without a long request may keep.
const ROOM_KEPT: usize = 64 * 1024;
/// More than that stays behind a command only if what is left takes at least this share of it: so little is moved then.
const ROOM_SHARE: usize = 8;

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
    /// Whether bytes have come behind the command that is carried out.
    pub(crate) has_more: bool,
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
            has_more: false,
        }
    }

    /// A writer for the next reply.
    #[inline]
    pub(crate) fn writer(&mut self) -> ReplyWriter<'_> {
        self.pipeline.writer(self.session.protocol)
    }

    /// One that came in this way.
    #[cfg(test)]
    pub(crate) fn by(endpoint: crate::endpoint::Endpoint) -> Connection {
        let address = "127.0.0.1:1".parse().expect("an address");
        let info = crate::client::ClientInfo::new(1, address, address, 0, 0, 0);
        Connection::new(Session::new(info.into(), 1, endpoint, true))
    }

    /// Whether bytes are left over from earlier reads: new ones must go behind them.
    #[inline]
    pub fn has_input(&self) -> bool {
        self.consumed < self.input.len()
    }

    /// Whether left-over bytes may hold a whole command: the connection had to wait, or let others have their turn. Or scripts that
    /// have run ahead are to be sent.
    #[inline]
    pub fn has_commands(&self) -> bool {
        self.is_cut_short || self.session.in_flight.ahead.may_go_on(&self.pipeline)
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

    /// Puts them back, of which `consumed` were carried out before and `more` now.
    pub(crate) fn put_input(&mut self, input: Vec<u8>, consumed: usize, more: usize) {
        self.input = input;
        self.consumed = consumed + more;
        let is_large = self.input.capacity() > ROOM_KEPT;
        // The room of a large request must not stay for the little that came behind it.
        if is_large && more > 0 && self.input_len() < self.input.capacity() / ROOM_SHARE {
            self.input = self.input[self.consumed..].to_vec();
            self.consumed = 0;
        } else if self.consumed == self.input.len() {
            self.input.clear();
            self.consumed = 0;
        }
    }

    /// Bytes of room for a long request that have not come. They are allocated, but nobody has written on them.
    pub fn unfilled(&self) -> usize {
        match self.input.capacity() {
            ..=ROOM_KEPT => 0,
            capacity => capacity - self.input.len(),
        }
    }

    /// Keeps bytes that were not carried out. What was carried out before them makes room first, once it is the
    /// larger part: each byte is moved a bounded number of times.
    pub(crate) fn keep(&mut self, rest: &[u8]) {
        if self.consumed > 0 && self.consumed >= self.input.len() / 2 {
            self.input.drain(..self.consumed);
            self.consumed = 0;
        }
        let length = self.input.len() + rest.len();
        if length - self.consumed >= KEPT_BYTES_MIN {
            self.make_room(length);
        }
        self.input.extend_from_slice(rest);
    }

    /// Makes room for a request that is certain to be long, of which `length` bytes will be there. At once for all that the client
    /// announces if enough of it has come, so that hardly anything is moved again; before that for a multiple of what
    /// has. Room that is there is used up first: to make it is to move what lies in it.
    fn make_room(&mut self, length: usize) {
        let (there, announced) = (self.input.capacity(), self.consumed + self.decoder.wanted());
        let trusted = length.saturating_mul(ROOM_FACTOR);
        let room = announced.min(trusted);
        if room > there && (announced <= trusted || length > there) {
            // Not by making it longer where it lies: an allocator copies all that there was room for, filled or not.
            let mut longer = Vec::with_capacity(room);
            longer.extend_from_slice(&self.input);
            self.input = longer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use resp::Decoded;

    const MIB: usize = 1 << 20;

    /// A connection on which a value of `announced` bytes was begun and `sent` of it came, in pieces as a worker reads them,
    /// and the bytes that lay in its buffer whenever that was made longer.
    fn receive(announced: usize, sent: usize) -> (Connection, usize) {
        let mut connection = Connection::by(Endpoint::AnyNode);
        let header = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${announced}\r\n");
        let piece = vec![b'v'; 64 * 1024];
        let mut moved = 0;
        for number in 0..=sent / piece.len() {
            let bytes = if number == 0 { header.as_bytes() } else { &piece };
            let (room, length) = (connection.input.capacity(), connection.input.len());
            connection.keep(bytes);
            if connection.input.capacity() != room {
                moved += length;
            }
            let limits = resp::Limits {
                bulk_bytes_max: announced,
                ..resp::Limits::default()
            };
            let decoded = connection.decoder.decode(&connection.input, &limits);
            assert_eq!(decoded, Ok(Decoded::Incomplete));
        }
        (connection, moved)
    }

    #[test]
    fn little_of_a_long_request_is_moved_again() {
        for announced in [3 * MIB, 128 * MIB, 512 * MIB] {
            let (connection, moved) = receive(announced, announced);
            assert!(moved <= 2 * MIB + announced / 64, "{moved} of {announced}");
            assert!(connection.unfilled() < 2 * MIB);
        }
    }

    #[test]
    fn little_behind_a_long_request_does_not_keep_its_room() {
        let mut connection = Connection::by(Endpoint::AnyNode);
        let mut input = Vec::with_capacity(8 * MIB);
        input.extend_from_slice(&vec![b'v'; MIB]);
        input.extend_from_slice(b"*1\r\n");
        connection.put_input(input, 0, MIB);
        assert_eq!((connection.input_len(), connection.unfilled()), (4, 0));
        // Of the next long one little has come, and there is room for it: it is not moved with every read.
        let room = Vec::with_capacity(8 * MIB);
        connection.put_input(room, 0, 0);
        connection.keep(b"*1\r\n");
        let (input, consumed) = connection.take_input();
        connection.put_input(input, consumed, 0);
        assert_eq!(connection.input.capacity(), 8 * MIB);
    }

    #[test]
    fn there_is_room_for_a_multiple_of_what_came_and_no_more() {
        let room = |sent| receive(512 * MIB, sent).0.unfilled();
        assert!(room(MIB / 2) <= MIB, "half a mebibyte is no long request yet");
        assert!(room(2 * MIB) <= 128 * 2 * MIB);
        assert!(room(8 * MIB) <= 512 * MIB);
        assert_eq!(receive(MIB, 0).0.unfilled(), 0);
    }
}

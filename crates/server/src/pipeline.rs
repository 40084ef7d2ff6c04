//! One connection's replies, in the order of its requests.
//!
//! ```text
//!   out                       | place 0   | after 0 | place 1   | after 1 |
//!   bytes ready to be sent    | (waiting) | ....... | (waiting) | ....... |
//!                                           \________ held ________/
//! ```
//!
//! A command that is answered at once writes into `out`, or behind the last place if an earlier one still waits.
//! A command answered elsewhere takes a place; when it is filled, everything up to the next open place moves to
//! `out`. The common cases allocate nothing: no places, or places filled in their order.

use resp::{Protocol, Writer};
use std::collections::VecDeque;

/// Replies of one connection. See the file's header.
#[derive(Default)]
pub struct Pipeline {
    out: Vec<u8>,
    /// Bytes of `out` that were sent already.
    sent: usize,
    places: VecDeque<Place>,
    /// The sequence number of the first place.
    first: u64,
    /// Replies that stand behind a place that waits, one after another.
    held: Vec<u8>,
    /// Bytes of replies that filled a place behind one that waits.
    filled_bytes: usize,
}

struct Place {
    reply: Option<Vec<u8>>,
    /// `CLIENT REPLY OFF`: the answer is dropped.
    is_silent: bool,
    /// Where in `held` begins what stands behind this place; it ends where the next place's begins.
    after: usize,
}

impl Pipeline {
    /// Requests of one connection that may be answered elsewhere at a time. At the limit no more of its
    /// commands are read until answers arrive.
    pub const PLACES_MAX: usize = 4_096;

    /// Where the next reply is to be written.
    #[inline]
    pub fn target(&mut self) -> &mut Vec<u8> {
        if self.places.is_empty() {
            &mut self.out
        } else {
            &mut self.held
        }
    }

    /// Where a message is to be written that is no reply: behind all that was answered so far. While one reply is
    /// waited for and nothing stands behind it, the message goes before it, so that a command that blocks does not
    /// keep messages back.
    pub fn message_target(&mut self) -> &mut Vec<u8> {
        if self.places.len() == 1 && self.held.is_empty() {
            &mut self.out
        } else {
            self.target()
        }
    }

    /// A writer for the next reply.
    #[inline]
    pub fn writer(&mut self, protocol: Protocol) -> Writer<'_> {
        Writer::new(self.target(), protocol)
    }

    /// Takes a place for a reply that comes later; [`Pipeline::complete`] fills it.
    pub fn reserve(&mut self, is_silent: bool) -> u64 {
        self.places.push_back(Place {
            reply: None,
            is_silent,
            after: self.held.len(),
        });
        self.reserved() - 1
    }

    /// Places reserved so far: tells whether a command took one.
    #[inline]
    pub fn reserved(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// Whether no more commands are to be read for now.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.places.len() >= Pipeline::PLACES_MAX
    }

    /// Whether every command so far has been answered.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.places.is_empty()
    }

    /// Fills a reserved place.
    ///
    /// # Panics
    /// If the place was never reserved or is filled already: an answer would be given twice.
    pub fn complete(&mut self, sequence: u64, reply: &[u8]) {
        let index = sequence
            .checked_sub(self.first)
            .expect("invariant: a reply is given once") as usize;
        let place = self
            .places
            .get_mut(index)
            .expect("invariant: only reserved places are filled");
        assert!(place.reply.is_none(), "invariant: a reply is given once");
        let reply = if place.is_silent { &[] } else { reply };
        if index > 0 {
            self.filled_bytes += reply.len();
            place.reply = Some(reply.to_vec());
            return;
        }
        self.out.extend_from_slice(reply);
        self.release_first();
        while let Some(reply) = self.places.front_mut().and_then(|place| place.reply.take()) {
            self.filled_bytes -= reply.len();
            self.out.extend_from_slice(&reply);
            self.release_first();
        }
        if self.places.is_empty() {
            self.held.clear();
            self.held.shrink_to(Pipeline::KEPT_BYTES);
        }
    }

    /// The first place is filled: what stands behind it is ready too.
    fn release_first(&mut self) {
        let place = self.places.pop_front().expect("the caller filled it");
        self.first += 1;
        let end = self.places.front().map_or(self.held.len(), |next| next.after);
        self.out.extend_from_slice(&self.held[place.after..end]);
    }

    /// Bytes ready to be sent.
    #[inline]
    pub fn ready(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// The first `count` ready bytes were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
            // One large reply must not be paid for as long as the connection lives.
            if self.out.capacity() > Pipeline::KEPT_BYTES {
                self.out.shrink_to(Pipeline::KEPT_BYTES);
            }
        } else if self.sent >= self.out.len() / 2 {
            // What was sent is given up once it is the larger part: each byte is moved a bounded number of times.
            self.out.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Capacity that an idle connection keeps, in bytes.
    const KEPT_BYTES: usize = 16 * 1024;

    /// Bytes held for a client that has not read them.
    pub fn held_bytes(&self) -> usize {
        self.ready().len() + self.held.len() + self.filled_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_in_the_order_of_requests_whatever_is_finished_first() {
        let mut pipeline = Pipeline::default();
        pipeline.target().extend_from_slice(b"a");
        let first = pipeline.reserve(false);
        pipeline.target().extend_from_slice(b"c");
        let second = pipeline.reserve(false);
        let third = pipeline.reserve(false);
        pipeline.target().extend_from_slice(b"f");
        pipeline.complete(third, b"e");
        pipeline.complete(second, b"d");
        assert_eq!(pipeline.ready(), b"a");
        pipeline.complete(first, b"b");
        assert_eq!(pipeline.ready(), b"abcdef");
        assert!(pipeline.is_settled());
        pipeline.sent(2);
        assert_eq!(pipeline.ready(), b"cdef");
        assert_eq!(pipeline.held_bytes(), 4);
    }

    #[test]
    fn a_message_passes_only_a_reply_that_nothing_follows() {
        let mut pipeline = Pipeline::default();
        let first = pipeline.reserve(false);
        pipeline.message_target().extend_from_slice(b"m");
        assert_eq!(pipeline.ready(), b"m");
        pipeline.target().extend_from_slice(b"b");
        pipeline.message_target().extend_from_slice(b"n");
        assert_eq!(pipeline.ready(), b"m");
        pipeline.complete(first, b"a");
        assert_eq!(pipeline.ready(), b"mabn");
    }

    #[test]
    fn a_silent_place_keeps_the_order_and_says_nothing() {
        let mut pipeline = Pipeline::default();
        let silent = pipeline.reserve(true);
        pipeline.target().extend_from_slice(b"x");
        pipeline.complete(silent, b"dropped");
        assert_eq!(pipeline.ready(), b"x");
    }

    #[test]
    #[should_panic(expected = "given once")]
    fn a_place_is_filled_once() {
        let mut pipeline = Pipeline::default();
        let sequence = pipeline.reserve(false);
        pipeline.complete(sequence, b"x");
        pipeline.complete(sequence, b"x");
    }
}

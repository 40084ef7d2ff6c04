//! One connection's replies, in the order of its requests.
//!
//! ```text
//!   out                       | slot 0    | after 0 | slot 1    | after 1 |
//!   bytes ready to be sent    | (waiting) | ....... | (waiting) | ....... |
//!                                           \________ held ________/
//! ```
//!
//! A command that is answered at once writes into `out`, or behind the last slot if an earlier one still waits.
//! A command answered elsewhere takes a slot; when it is filled, everything up to the next open slot moves to
//! `out`. How large a reply will be that comes from elsewhere is not known before it comes: so few are asked for at first, and
//! more as small ones come. The common cases allocate nothing: no slots, or slots filled in their order. A large reply that comes as a
//! whole is not copied, and a long value that a reply holds is not either: they are runs of `out` and `held` ([`resp::Rope`]).

use resp::{FrozenRope, Protocol, ReplyWriter, Rope};
use std::collections::VecDeque;

/// Replies of one connection. See the file's header.
#[derive(Default)]
pub struct Pipeline {
    out: Rope,
    slots: VecDeque<ReplySlot>,
    /// The sequence number of the first slot.
    first: u64,
    /// Replies that stand behind a slot that waits, one after another.
    held: Rope,
    /// Bytes of replies that filled a slot behind one that waits.
    filled_bytes: usize,
    /// How many slots may be open: it grows with every small reply, and a large one sets it back.
    window: Window,
    /// Until so many slots were filled, no more commands are read.
    held_until: u64,
    /// About as many bytes as a reply that comes from elsewhere has: what the largest of the last ones had.
    expected_bytes: usize,
}

/// Slots that may be open at a time.
struct Window(usize);

impl Default for Window {
    fn default() -> Window {
        Window(Pipeline::REPLY_SLOTS_MIN)
    }
}

struct ReplySlot {
    reply: Option<FrozenRope>,
    /// `CLIENT REPLY OFF`: the answer is dropped.
    is_silent: bool,
    /// At which mark of `held` begins what stands behind this slot; it ends where the next slot's begins.
    after: usize,
}

impl Pipeline {
    /// Requests of one connection that may be answered elsewhere at a time. At the limit no more of its
    /// commands are read until answers arrive.
    pub const REPLY_SLOTS_MAX: usize = 4_096;

    /// The same, of a connection of which nothing is known, or whose last replies were large.
    pub const REPLY_SLOTS_MIN: usize = 8;

    /// Bytes of replies that have come and were not sent, and of those that are under way by estimate. At the limit no more
    /// commands are read, until the client has taken some. One reply may be larger.
    pub const UNSENT_BYTES_MAX: usize = 16 * 1024 * 1024;

    fn rope(&mut self) -> &mut Rope {
        if self.slots.is_empty() {
            &mut self.out
        } else {
            &mut self.held
        }
    }

    /// Where the next reply is to be written.
    #[inline]
    pub fn target(&mut self) -> &mut Vec<u8> {
        self.rope().bytes_mut()
    }

    /// Takes back what was written to [`Pipeline::target`], or by [`Pipeline::writer`], since that had this length.
    pub fn take_back(&mut self, length: usize) {
        self.rope().truncate(length);
    }

    /// Where a message is to be written that is no reply: behind all that was answered so far. While one reply is
    /// waited for and nothing stands behind it, the message goes before it, so that a command that blocks does not
    /// keep messages back.
    pub fn message_target(&mut self) -> &mut Vec<u8> {
        if self.slots.len() == 1 && self.held.is_empty() {
            self.out.bytes_mut()
        } else {
            self.target()
        }
    }

    /// A writer for the next reply.
    #[inline]
    pub fn writer(&mut self, protocol: Protocol) -> ReplyWriter<'_> {
        ReplyWriter::sharing(self.rope(), protocol)
    }

    /// Takes a slot for a reply that comes later; [`Pipeline::complete`] fills it.
    pub fn reserve(&mut self, is_silent: bool) -> u64 {
        self.slots.push_back(ReplySlot {
            reply: None,
            is_silent,
            after: self.held.mark(),
        });
        self.reserved() - 1
    }

    /// Slots reserved so far: tells whether a command took one.
    #[inline]
    pub fn reserved(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// Whether no more commands are to be read for now.
    #[inline]
    pub fn is_full(&self) -> bool {
        let under_way = self.slots.len();
        under_way >= self.window.0
            || self.first < self.held_until
            || under_way > 0
                && self.held_bytes() + under_way * self.expected_bytes >= Pipeline::UNSENT_BYTES_MAX
    }

    /// No more commands are to be read until this slot, which was reserved, is filled, and those before it.
    pub(crate) fn hold_behind(&mut self, sequence: u64) {
        self.held_until = sequence + 1;
    }

    /// What stands behind this slot need not wait for it any more.
    pub(crate) fn let_go(&mut self, sequence: u64) {
        if self.held_until == sequence + 1 {
            self.held_until = 0;
        }
    }

    /// A reply has come from elsewhere.
    fn learn(&mut self, bytes: usize) {
        self.expected_bytes = bytes.max(self.expected_bytes - self.expected_bytes / 16);
        self.window.0 = if bytes >= Pipeline::LARGE_BYTES {
            Pipeline::REPLY_SLOTS_MIN
        } else {
            (self.window.0 + 1).min(Pipeline::REPLY_SLOTS_MAX)
        };
    }

    /// Requests that wait for answers.
    #[inline]
    pub(crate) fn reply_slots(&self) -> usize {
        self.slots.len()
    }

    /// Whether the reply of this slot has come, which was reserved.
    pub(crate) fn is_answered(&self, sequence: u64) -> bool {
        let index = sequence.checked_sub(self.first);
        index.is_none_or(|index| self.slots[index as usize].reply.is_some())
    }

    /// Whether every command so far has been answered.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.slots.is_empty()
    }

    /// Fills a reserved slot.
    ///
    /// # Panics
    /// If the slot was never reserved or is filled already: an answer would be given twice.
    pub fn complete(&mut self, sequence: u64, reply: &[u8]) {
        self.fill(sequence, Reply::Borrowed(reply));
    }

    /// [`Pipeline::complete`] with a reply that nobody else needs.
    pub fn complete_with(&mut self, sequence: u64, mut reply: Vec<u8>) {
        if reply.len() < Pipeline::LARGE_BYTES {
            self.complete(sequence, &reply);
        } else {
            // Replies that came together lay in one buffer: the last of them would keep all of it until the client has read.
            if reply.capacity() / 2 > reply.len() {
                reply.shrink_to_fit();
            }
            self.fill(sequence, Reply::Shared(reply.into()));
        }
    }

    /// [`Pipeline::complete`] with a reply that may be shared.
    pub fn complete_shared(&mut self, sequence: u64, reply: FrozenRope) {
        if reply.len() < Pipeline::LARGE_BYTES && reply.runs().is_empty() {
            self.complete(sequence, reply.bytes());
        } else {
            self.fill(sequence, Reply::Shared(reply));
        }
    }

    fn fill(&mut self, sequence: u64, reply: Reply<'_>) {
        let index = sequence
            .checked_sub(self.first)
            .expect("invariant: a reply is given once") as usize;
        let slot = self
            .slots
            .get_mut(index)
            .expect("invariant: only reserved slots are filled");
        assert!(slot.reply.is_none(), "invariant: a reply is given once");
        let bytes = reply.len();
        let reply = if slot.is_silent {
            Reply::Borrowed(&[])
        } else {
            reply
        };
        self.learn(bytes);
        let slot = &mut self.slots[index];
        if index > 0 {
            self.filled_bytes += reply.len();
            slot.reply = Some(reply.into_shared());
            return;
        }
        self.append(reply);
        self.release_first();
        while let Some(reply) = self.slots.front_mut().and_then(|slot| slot.reply.take()) {
            self.filled_bytes -= reply.len();
            self.append(Reply::Shared(reply));
            self.release_first();
        }
        if self.slots.is_empty() {
            self.held.clear();
            self.held.bytes_mut().shrink_to(Pipeline::KEPT_BYTES);
        }
    }

    /// A reply is ready.
    fn append(&mut self, reply: Reply<'_>) {
        match reply {
            Reply::Borrowed(reply) => self.out.bytes_mut().extend_from_slice(reply),
            Reply::Shared(reply) => self.out.append(&reply, Pipeline::LARGE_BYTES),
        }
    }

    /// The first slot is filled: what stands behind it is ready too.
    fn release_first(&mut self) {
        let slot = self.slots.pop_front().expect("the caller filled it");
        self.first += 1;
        let end = self.slots.front().map_or(self.held.mark(), |next| next.after);
        self.out.append_part(&mut self.held, slot.after..end);
    }

    /// What is ready to be sent, or the first part of it; empty only if nothing is.
    #[inline]
    pub fn ready(&self) -> &[u8] {
        self.out.first()
    }

    /// How many bytes are ready to be sent.
    #[inline]
    pub fn ready_bytes(&self) -> usize {
        self.out.len()
    }

    /// The first `count` ready bytes were sent.
    pub fn sent(&mut self, count: usize) {
        self.out.advance(count);
        // One large reply must not be paid for as long as the connection lives.
        if self.out.is_empty() {
            self.out.bytes_mut().shrink_to(Pipeline::KEPT_BYTES);
        }
    }

    /// A reply of so many bytes or more is not copied.
    pub const LARGE_BYTES: usize = 64 * 1024;

    /// Capacity that an idle connection keeps, in bytes.
    const KEPT_BYTES: usize = 16 * 1024;

    /// Bytes of replies that cannot be sent, because one before them has not come.
    pub fn stuck_bytes(&self) -> usize {
        self.held.len() + self.filled_bytes
    }

    /// Bytes held for a client that has not read them.
    pub fn held_bytes(&self) -> usize {
        self.ready_bytes() + self.held.len() + self.filled_bytes
    }
}

/// What fills a slot.
enum Reply<'a> {
    Borrowed(&'a [u8]),
    Shared(FrozenRope),
}

impl Reply<'_> {
    fn len(&self) -> usize {
        match self {
            Reply::Borrowed(bytes) => bytes.len(),
            Reply::Shared(rope) => rope.len(),
        }
    }

    fn into_shared(self) -> FrozenRope {
        match self {
            Reply::Borrowed(bytes) => bytes.to_vec().into(),
            Reply::Shared(rope) => rope,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_does_not_keep_the_buffer_that_it_came_in() {
        let frame = bytes::Bytes::from(vec![b'x'; 8 * Pipeline::LARGE_BYTES]);
        let mut parts: Vec<_> = (0..8)
            .map(|part| frame.slice(part * Pipeline::LARGE_BYTES..(part + 1) * Pipeline::LARGE_BYTES))
            .collect();
        drop(frame);
        let mut pipeline = Pipeline::default();
        for part in parts.drain(..) {
            let sequence = pipeline.reserve(false);
            pipeline.complete_with(sequence, part.into());
        }
        let pieces: Vec<bytes::Bytes> = std::mem::take(&mut pipeline.out).freeze().pieces().collect();
        assert_eq!(pieces.len(), 8);
        let kept = pieces.into_iter().map(|piece| {
            let own = piece.try_into_mut().expect("nobody shares it");
            own.capacity()
        });
        let kept: usize = kept.sum();
        assert!(kept < 9 * Pipeline::LARGE_BYTES, "{kept}");
    }
}

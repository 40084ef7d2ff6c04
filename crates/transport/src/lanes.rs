//! The lanes of one link.
//!
//! ```text
//!  small lane   [frame][frame][frame]      sent before anything but the rest of another frame that was begun
//!  bulk lane    ...frame][  frame  ][  frame  ]      one frame at a time
//!  large lane   [ message, in pieces ][ message ]    one frame at a time, made when its turn comes; in turn with bulk frames
//! ```

use bytes::Bytes;
use peer_wire::{LENGTH_BYTES, PeerMessage, frame};
use std::collections::VecDeque;

/// Bytes of an empty lane's buffer that are kept for the next messages.
const SPARE_BYTES_MAX: usize = 256 * 1024;

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Before all others. For short ones.
    Small,
    /// When nothing small waits.
    Bulk,
    /// The same, in turn with the bulk lane: for those that are so long that bulk messages must not wait for them.
    Large,
}

/// Where in a lane a message ends: [`Lanes::has_sent`] says whether it has left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Mark(u64);

/// All lanes of one link.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    small: Queue,
    bulk: Queue,
    /// Bytes of a bulk frame that are left after its first ones were sent.
    begun: usize,
    large: Large,
    /// Whose turn it is when both wait.
    is_large_next: bool,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    sent: usize,
    /// Since the link's beginning.
    sent_total: u64,
}

impl Queue {
    fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn advance(&mut self, count: usize) {
        self.sent += count;
        self.sent_total += count as u64;
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
            if self.bytes.capacity() > SPARE_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
    }

    /// The buffer, to append to. What was sent goes once it is most of it, so that a queue that never runs empty does not
    /// grow.
    fn buffer(&mut self) -> &mut Vec<u8> {
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        &mut self.bytes
    }
}

/// The large lane: its messages are held as they are, and only the frame that is being sent exists as one.
#[derive(Debug, Default)]
struct Large {
    messages: VecDeque<LargeMessage>,
    /// Bytes of all messages that are in no frame yet.
    waiting: usize,
    frame: Queue,
    /// The frame is the last one of its message.
    is_last: bool,
    /// Messages that were taken in, and that were sent, since the link's beginning.
    taken: u64,
    sent: u64,
}

#[derive(Debug)]
struct LargeMessage {
    kind: u8,
    /// What is not in a frame yet.
    pieces: VecDeque<Bytes>,
}

impl Large {
    fn push(&mut self, kind: u8, pieces: Vec<Bytes>) {
        let bytes: usize = pieces.iter().map(Bytes::len).sum();
        let length = Bytes::copy_from_slice(&(bytes as u64).to_le_bytes());
        let mut all = VecDeque::from(pieces);
        all.push_front(length);
        self.waiting += bytes + LENGTH_BYTES;
        self.taken += 1;
        self.messages.push_back(LargeMessage { kind, pieces: all });
    }

    fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.frame.waiting().is_empty()
    }

    /// Makes the next frame, if something waits and no frame is being sent.
    fn make_frame(&mut self) {
        if !self.frame.waiting().is_empty() {
            return;
        }
        let Some(message) = self.messages.front_mut() else {
            return;
        };
        let (mut room, mut body) = (frame::BODY_BYTES_MAX, Vec::new());
        while room > 0
            && let Some(piece) = message.pieces.front_mut()
        {
            let taken = piece.split_to(piece.len().min(room));
            room -= taken.len();
            body.push(taken);
            if piece.is_empty() {
                message.pieces.pop_front();
            }
        }
        self.waiting -= frame::BODY_BYTES_MAX - room;
        self.is_last = message.pieces.is_empty();
        let (kind, has_more) = (message.kind, !self.is_last);
        frame::append_large(
            self.frame.buffer(),
            kind,
            has_more,
            body.iter().map(Bytes::as_ref),
        );
        if self.is_last {
            self.messages.pop_front();
        }
    }

    fn advance(&mut self, count: usize) {
        self.frame.advance(count);
        if self.frame.waiting().is_empty() && self.is_last {
            self.is_last = false;
            self.sent += 1;
        }
    }
}

impl Lanes {
    /// A link whose first bytes were begun elsewhere.
    pub(crate) fn of_small(bytes: Vec<u8>) -> Lanes {
        let mut lanes = Lanes::default();
        lanes.small.bytes = bytes;
        lanes
    }

    /// Bytes that the lanes' buffers have room for before more is allocated. The large lane's messages are not copied there.
    pub(crate) fn allocated(&self) -> usize {
        let queues = [&self.small, &self.bulk, &self.large.frame];
        queues.map(|queue| queue.bytes.capacity()).iter().sum()
    }

    /// Bytes that wait in a lane.
    pub(crate) fn waiting(&self, lane: Lane) -> usize {
        match lane {
            Lane::Small => self.small.waiting().len(),
            Lane::Bulk => self.bulk.waiting().len(),
            Lane::Large => self.large.waiting + self.large.frame.waiting().len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.small.waiting().is_empty() && self.bulk.waiting().is_empty() && self.large.is_empty()
    }

    /// Where whole frames of the small or the bulk lane are appended.
    pub(crate) fn buffer(&mut self, lane: Lane) -> &mut Vec<u8> {
        match lane {
            Lane::Small => self.small.buffer(),
            Lane::Bulk | Lane::Large => self.bulk.buffer(),
        }
    }

    /// Takes a message into a lane.
    pub(crate) fn push(&mut self, lane: Lane, message: PeerMessage) {
        if lane != Lane::Large {
            let encoded = message.encode(self.buffer(lane));
            return encoded.expect("what is long goes by the large lane");
        }
        match message.pieces() {
            Ok(pieces) => self.large.push(message.kind() as u8, pieces),
            Err(error) => {
                tracing::error!(%error, "a message was not sent");
                // Whoever waits for it is told that it is not known, and does not ask for ever.
                if let Some(message) = message.without_answers() {
                    self.push(Lane::Small, message);
                }
            }
        }
    }

    /// Where what a lane holds by now ends.
    pub(crate) fn mark(&self, lane: Lane) -> Mark {
        let of = |queue: &Queue| queue.sent_total + queue.waiting().len() as u64;
        Mark(match lane {
            Lane::Small => of(&self.small),
            Lane::Bulk => of(&self.bulk),
            Lane::Large => self.large.taken,
        })
    }

    /// Whether everything before a mark was sent.
    pub(crate) fn has_sent(&self, lane: Lane, mark: Mark) -> bool {
        let sent = match lane {
            Lane::Small => self.small.sent_total,
            Lane::Bulk => self.bulk.sent_total,
            Lane::Large => self.large.sent,
        };
        mark.0 <= sent
    }

    /// What is to be sent next.
    pub(crate) fn next_part(&mut self) -> (Lane, &[u8]) {
        let lane = self.next_lane();
        if lane == Lane::Large {
            self.large.make_frame();
        }
        let part = match lane {
            Lane::Small => self.small.waiting(),
            Lane::Large => self.large.frame.waiting(),
            Lane::Bulk => {
                let bulk = self.bulk.waiting();
                let length = match self.begun {
                    0 => frame::first_length(bulk).unwrap_or(0),
                    begun => begun,
                };
                &bulk[..length]
            }
        };
        (lane, part)
    }

    fn next_lane(&self) -> Lane {
        if self.begun > 0 {
            Lane::Bulk
        } else if !self.large.frame.waiting().is_empty() && self.large.frame.sent > 0 {
            Lane::Large
        } else if !self.small.waiting().is_empty() {
            Lane::Small
        } else if self.large.is_empty() || !self.is_large_next && !self.bulk.waiting().is_empty() {
            Lane::Bulk
        } else {
            Lane::Large
        }
    }

    /// The first `count` bytes of the last [`Lanes::next_part`] were sent.
    pub(crate) fn sent(&mut self, count: usize) {
        let (lane, part) = self.next_part();
        let left = part.len() - count;
        match lane {
            Lane::Small => self.small.advance(count),
            Lane::Bulk => {
                self.begun = left;
                self.bulk.advance(count);
                self.is_large_next = true;
            }
            Lane::Large => {
                self.large.advance(count);
                self.is_large_next = false;
            }
        }
    }

    /// All that waits in the small lane, taken out.
    pub(crate) fn take_small(&mut self) -> Vec<u8> {
        let taken = self.small.waiting().to_vec();
        self.small = Queue::default();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;

    fn push(lanes: &mut Lanes, lane: Lane, kind: u8, bytes: usize) {
        if lane == Lane::Large {
            let halves = [bytes / 2, bytes - bytes / 2];
            let pieces = halves.map(|bytes| Bytes::from(vec![kind; bytes]));
            return lanes.large.push(kind, pieces.into());
        }
        frame::append(lanes.buffer(lane), kind, lane == Lane::Bulk, |out| {
            out.extend(std::iter::repeat_n(kind, bytes));
        });
    }

    fn send(lanes: &mut Lanes, wire: &mut Vec<u8>, most: usize) {
        let (_, part) = lanes.next_part();
        let count = part.len().min(most);
        wire.extend_from_slice(&part[..count]);
        lanes.sent(count);
    }

    fn kinds(mut wire: &[u8]) -> Vec<u8> {
        let mut decoder = frame::FrameDecoder::new(frame::BODY_BYTES_MAX);
        let (mut kinds, mut is_open) = (Vec::new(), false);
        while let Some(frame) = decoder.next(&mut wire).unwrap() {
            let before = if frame.is_large && !is_open {
                LENGTH_BYTES
            } else {
                0
            };
            assert!(frame.body[before..].iter().all(|byte| *byte == frame.kind));
            if frame.is_large {
                is_open = frame.has_more;
            }
            kinds.push(frame.kind);
        }
        assert!(wire.is_empty());
        kinds
    }

    #[test]
    fn small_frames_pass_at_the_end_of_a_bulk_frame() {
        let (mut lanes, mut wire) = (Lanes::default(), Vec::new());
        push(&mut lanes, Lane::Bulk, 1, 3 * frame::BODY_BYTES_MAX);
        push(&mut lanes, Lane::Bulk, 2, 10);
        send(&mut lanes, &mut wire, 100);
        push(&mut lanes, Lane::Small, 7, 20);
        push(&mut lanes, Lane::Small, 8, 20);
        while !lanes.is_empty() {
            send(&mut lanes, &mut wire, usize::MAX);
        }
        assert_eq!(kinds(&wire), [1, 7, 8, 1, 1, 2]);
    }

    #[test]
    fn the_frame_of_a_large_message_counts_as_allocated() {
        let mut lanes = Lanes::default();
        push(&mut lanes, Lane::Large, 9, 3 * frame::BODY_BYTES_MAX);
        assert_eq!(lanes.allocated(), 0, "the message is held as it came");
        lanes.next_part();
        assert!(lanes.allocated() >= frame::BODY_BYTES_MAX);
    }

    #[test]
    fn frames_of_a_large_message_let_bulk_and_small_ones_pass() {
        let (mut lanes, mut wire) = (Lanes::default(), Vec::new());
        push(&mut lanes, Lane::Large, 9, 3 * frame::BODY_BYTES_MAX);
        let mark = lanes.mark(Lane::Large);
        send(&mut lanes, &mut wire, 100);
        push(&mut lanes, Lane::Bulk, 1, 2 * frame::BODY_BYTES_MAX);
        push(&mut lanes, Lane::Small, 7, 20);
        let bulk = lanes.mark(Lane::Bulk);
        while !lanes.has_sent(Lane::Bulk, bulk) {
            send(&mut lanes, &mut wire, usize::MAX);
        }
        assert!(!lanes.has_sent(Lane::Large, mark));
        while !lanes.is_empty() {
            send(&mut lanes, &mut wire, usize::MAX);
        }
        assert!(lanes.has_sent(Lane::Large, mark));
        assert_eq!(lanes.waiting(Lane::Large), 0);
        assert_eq!(kinds(&wire), [9, 7, 1, 9, 1, 9, 9]);
    }

    #[test]
    fn lanes_keep_their_order_however_much_is_sent_at_a_time() {
        for seed in 0..100 {
            let mut prng = Prng::new(seed);
            let (mut lanes, mut wire) = (Lanes::default(), Vec::new());
            let (mut small, mut bulk, mut large) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..200 {
                match prng.below(5) {
                    0 => {
                        small.push(prng.below(100) as u8);
                        push(
                            &mut lanes,
                            Lane::Small,
                            small[small.len() - 1],
                            prng.below(50) as usize,
                        );
                    }
                    1 => {
                        bulk.push(100 + prng.below(100) as u8);
                        push(
                            &mut lanes,
                            Lane::Bulk,
                            bulk[bulk.len() - 1],
                            prng.below(500) as usize,
                        );
                    }
                    2 => {
                        large.push(200 + prng.below(50) as u8);
                        let bytes = 1 + prng.below(500) as usize;
                        push(&mut lanes, Lane::Large, large[large.len() - 1], bytes);
                    }
                    _ => {
                        let most = prng.below(300) as usize;
                        send(&mut lanes, &mut wire, most);
                    }
                }
            }
            while !lanes.is_empty() {
                send(&mut lanes, &mut wire, usize::MAX);
            }
            let found = kinds(&wire);
            let of = |kinds: std::ops::Range<u8>| -> Vec<u8> {
                found
                    .iter()
                    .copied()
                    .filter(|kind| kinds.contains(kind))
                    .collect()
            };
            assert_eq!((of(0..100), of(100..200)), (small, bulk), "seed {seed}");
            assert_eq!(of(200..250), large, "seed {seed}");
        }
    }
}

//! What waits to be sent on one link.
//!
//! ```text
//!  small lane   [frame][frame][frame]      sent before anything but the rest of a bulk frame that was begun
//!  bulk lane    ...frame][  frame  ][  frame  ]      one frame at a time
//! ```

use peer_wire::frame;

/// Bytes of an empty lane's buffer that are kept for the next messages.
const SPARE_BYTES_MAX: usize = 256 * 1024;

/// Which way a message goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Before all bulk messages. For short ones.
    Small,
    /// When nothing small waits.
    Bulk,
}

/// Both lanes of one link.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    small: Queue,
    bulk: Queue,
    /// Bytes of a bulk frame that are left after its first ones were sent.
    begun: usize,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    sent: usize,
}

impl Queue {
    fn waiting(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn advance(&mut self, count: usize) {
        self.sent += count;
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

impl Outgoing {
    /// A link whose first bytes were begun elsewhere.
    pub(crate) fn of_small(bytes: Vec<u8>) -> Outgoing {
        let mut outgoing = Outgoing::default();
        outgoing.small.bytes = bytes;
        outgoing
    }

    /// Bytes that both lanes have room for before more is allocated.
    pub(crate) fn allocated(&self) -> usize {
        self.small.bytes.capacity() + self.bulk.bytes.capacity()
    }

    /// Bytes that wait in a lane.
    pub(crate) fn waiting(&self, lane: Lane) -> usize {
        match lane {
            Lane::Small => self.small.waiting().len(),
            Lane::Bulk => self.bulk.waiting().len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.small.waiting().is_empty() && self.bulk.waiting().is_empty()
    }

    /// Where whole frames are appended.
    pub(crate) fn buffer(&mut self, lane: Lane) -> &mut Vec<u8> {
        match lane {
            Lane::Small => self.small.buffer(),
            Lane::Bulk => self.bulk.buffer(),
        }
    }

    /// What is to be sent next.
    pub(crate) fn next_part(&self) -> (Lane, &[u8]) {
        if self.begun > 0 {
            return (Lane::Bulk, &self.bulk.waiting()[..self.begun]);
        }
        let small = self.small.waiting();
        if !small.is_empty() {
            return (Lane::Small, small);
        }
        let bulk = self.bulk.waiting();
        (Lane::Bulk, &bulk[..frame::first_length(bulk).unwrap_or(0)])
    }

    /// The first `count` bytes of the last [`Outgoing::next_part`] were sent.
    pub(crate) fn sent(&mut self, count: usize) {
        let (lane, part) = self.next_part();
        let left = part.len() - count;
        match lane {
            Lane::Small => self.small.advance(count),
            Lane::Bulk => {
                self.begun = left;
                self.bulk.advance(count);
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

    fn push(outgoing: &mut Outgoing, lane: Lane, kind: u8, bytes: usize) {
        frame::append(outgoing.buffer(lane), kind, lane == Lane::Bulk, |out| {
            out.extend(std::iter::repeat_n(kind, bytes));
        });
    }

    fn send(outgoing: &mut Outgoing, wire: &mut Vec<u8>, most: usize) {
        let (_, part) = outgoing.next_part();
        let count = part.len().min(most);
        wire.extend_from_slice(&part[..count]);
        outgoing.sent(count);
    }

    fn kinds(mut wire: &[u8]) -> Vec<u8> {
        let mut decoder = frame::Decoder::new(frame::BODY_BYTES_MAX);
        let mut kinds = Vec::new();
        while let Some(frame) = decoder.next(&mut wire).unwrap() {
            assert!(frame.body.iter().all(|byte| *byte == frame.kind));
            kinds.push(frame.kind);
        }
        assert!(wire.is_empty());
        kinds
    }

    #[test]
    fn small_frames_pass_at_the_end_of_a_bulk_frame() {
        let (mut outgoing, mut wire) = (Outgoing::default(), Vec::new());
        push(&mut outgoing, Lane::Bulk, 1, 3 * frame::BODY_BYTES_MAX);
        push(&mut outgoing, Lane::Bulk, 2, 10);
        send(&mut outgoing, &mut wire, 100);
        push(&mut outgoing, Lane::Small, 7, 20);
        push(&mut outgoing, Lane::Small, 8, 20);
        while !outgoing.is_empty() {
            send(&mut outgoing, &mut wire, usize::MAX);
        }
        assert_eq!(kinds(&wire), [1, 7, 8, 1, 1, 2]);
    }

    #[test]
    fn lanes_keep_their_order_however_much_is_sent_at_a_time() {
        for seed in 0..100 {
            let mut prng = Prng::new(seed);
            let (mut outgoing, mut wire) = (Outgoing::default(), Vec::new());
            let (mut small, mut bulk) = (Vec::new(), Vec::new());
            for _ in 0..200 {
                match prng.below(4) {
                    0 => {
                        small.push(prng.below(100) as u8);
                        push(
                            &mut outgoing,
                            Lane::Small,
                            small[small.len() - 1],
                            prng.below(50) as usize,
                        );
                    }
                    1 => {
                        bulk.push(100 + prng.below(100) as u8);
                        push(
                            &mut outgoing,
                            Lane::Bulk,
                            bulk[bulk.len() - 1],
                            prng.below(500) as usize,
                        );
                    }
                    _ => {
                        let most = prng.below(300) as usize;
                        send(&mut outgoing, &mut wire, most);
                    }
                }
            }
            while !outgoing.is_empty() {
                send(&mut outgoing, &mut wire, usize::MAX);
            }
            let (found_small, found_bulk): (Vec<u8>, Vec<u8>) =
                kinds(&wire).into_iter().partition(|kind| *kind < 100);
            assert_eq!((found_small, found_bulk), (small, bulk), "seed {seed}");
        }
    }
}

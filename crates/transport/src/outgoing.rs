//! What waits to be sent on one link: messages in, bytes for a socket out.
//!
//! ```text
//!   message --> backlog: queues that take turns --> lanes --> bytes
//! ```
//!
//! It knows no socket: simulations send by it too.

use crate::backlog::Backlog;
use crate::lanes::{Lane, Lanes};
use peer_wire::{BULK_BYTES_MAX, PeerMessage, SMALL_BYTES_MAX};

/// Bytes of bulk messages that wait in the lane. From there on no more are taken into it; one message may pass the limit.
const BULK_WAITING_MAX: usize = 1024 * 1024;
/// Bytes of small messages that wait. A link that holds more is closed: its peer does not read, and what is kept for it is
/// out of date.
const SMALL_WAITING_MAX: usize = 16 * 1024 * 1024;
/// Messages in one queue. Consensus bounds what it sends to a follower, and a gateway what it sends to a group, far below that;
/// of others the oldest is dropped.
const QUEUE_MAX: usize = 1_024;

/// How much goes which way. Simulations have less of it, so that little is much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneLimits {
    /// Bytes of a message that goes by the small lane.
    pub small_message: usize,
    /// Bytes of a message that goes by the bulk lane; longer ones go by the large one.
    pub bulk_message: usize,
    /// Bytes that wait in the small lane.
    pub small_waiting: usize,
    /// Bytes that wait in the bulk lane.
    pub bulk_waiting: usize,
    /// Messages of one flow that wait for room in a lane.
    pub queue: usize,
}

impl Default for LaneLimits {
    fn default() -> LaneLimits {
        LaneLimits {
            small_message: SMALL_BYTES_MAX,
            bulk_message: BULK_BYTES_MAX,
            small_waiting: SMALL_WAITING_MAX,
            bulk_waiting: BULK_WAITING_MAX,
            queue: QUEUE_MAX,
        }
    }
}

/// See the file's header.
#[derive(Debug, Default)]
pub struct Outgoing {
    lanes: Lanes,
    backlog: Backlog,
    limits: LaneLimits,
}

impl Outgoing {
    /// Nothing waits.
    pub fn new(limits: LaneLimits) -> Outgoing {
        Outgoing {
            limits,
            ..Outgoing::default()
        }
    }

    /// A link whose first bytes were begun elsewhere.
    pub(crate) fn of_small(bytes: Vec<u8>) -> Outgoing {
        Outgoing {
            lanes: Lanes::of_small(bytes),
            ..Outgoing::default()
        }
    }

    /// Takes a message. It overtakes none of its flow.
    pub fn send(&mut self, message: PeerMessage) {
        let lane = self.limits.lane_of(&message);
        if self.backlog.is_idle() && lane == Lane::Small {
            // Nearly every message.
            self.lanes.push(Lane::Small, message);
        } else {
            self.backlog.send(message, &mut self.lanes, &self.limits);
        }
    }

    /// Where whole frames of the small lane are appended: those of an introduction.
    pub(crate) fn small_buffer(&mut self) -> &mut Vec<u8> {
        self.lanes.buffer(Lane::Small)
    }

    /// All that waits in the small lane, taken out.
    pub(crate) fn take_small(&mut self) -> Vec<u8> {
        self.lanes.take_small()
    }

    /// What is to be sent next: nothing only if [`Outgoing::is_empty`].
    pub fn next_part(&mut self) -> &[u8] {
        self.lanes.next_part().1
    }

    /// The first `count` bytes of the last [`Outgoing::next_part`] were sent.
    pub fn sent(&mut self, count: usize) {
        self.lanes.sent(count);
        if !self.backlog.is_idle() {
            self.backlog.go_on(&mut self.lanes, &self.limits);
        }
    }

    /// Whether nothing waits. What waits outside the lanes waits for something in them.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Whether more small messages wait than may.
    pub fn is_overrun(&self) -> bool {
        self.lanes.waiting(Lane::Small) > self.limits.small_waiting
    }

    /// Whether a long message is on its way.
    pub fn is_busy(&self) -> bool {
        self.lanes.waiting(Lane::Large) > 0
    }

    /// Bytes that wait in a lane.
    pub fn waiting(&self, lane: Lane) -> usize {
        self.lanes.waiting(lane)
    }

    /// Bytes that the lanes have room for before more is allocated.
    pub(crate) fn allocated(&self) -> usize {
        self.lanes.allocated()
    }
}

impl LaneLimits {
    pub(crate) fn lane_of(&self, message: &PeerMessage) -> Lane {
        if message.is_longer_than(self.bulk_message) {
            Lane::Large
        } else if message.is_bulk() || message.is_longer_than(self.small_message) {
            Lane::Bulk
        } else {
            Lane::Small
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{Boot, GatewayId, GroupId};
    use peer_wire::frame::{self, FrameDecoder};
    use peer_wire::{Assembler, BatchRequest};

    const SMALL: usize = 10;
    const BULK: usize = 100_000;
    const LARGE: usize = BULK_BYTES_MAX + 1;

    fn batch(group: u16, sequence: u64, bytes: usize) -> PeerMessage {
        let mut message = BatchRequest {
            group: GroupId::new(group),
            gateway: GatewayId {
                boot: Boot(1),
                worker: 0,
            },
            batch: Default::default(),
        };
        (message.batch.sequence, message.batch.number) = (sequence, sequence);
        message.batch.writes = vec![0; bytes].into();
        PeerMessage::Batch(message)
    }

    /// A link, and what the other end has heard.
    struct Link {
        outgoing: Outgoing,
        decoder: FrameDecoder,
        assembler: Assembler,
        heard: Vec<(u16, u64)>,
    }

    impl Link {
        fn new(limits: LaneLimits) -> Link {
            Link {
                outgoing: Outgoing::new(limits),
                decoder: FrameDecoder::new(frame::BODY_BYTES_MAX),
                assembler: Assembler::new(),
                heard: Vec::new(),
            }
        }

        /// One frame leaves.
        fn pass_one(&mut self) {
            let part = self.outgoing.next_part().to_vec();
            self.outgoing.sent(part.len());
            let mut rest = &part[..];
            while let Some(frame) = self.decoder.next(&mut rest).unwrap() {
                if let Some(packet) = self.assembler.push(frame).unwrap() {
                    let PeerMessage::Batch(batch) = PeerMessage::decode(&packet).unwrap() else {
                        panic!("only batches are sent here");
                    };
                    self.heard.push((batch.group.number(), batch.batch.sequence));
                }
            }
            assert!(rest.is_empty());
        }

        fn pass_all(&mut self) {
            while !self.outgoing.is_empty() {
                self.pass_one();
            }
            assert!(self.outgoing.backlog.is_idle());
        }
    }

    /// A bulk lane that is full with one message.
    fn narrow() -> LaneLimits {
        LaneLimits {
            bulk_waiting: 1,
            ..LaneLimits::default()
        }
    }

    #[test]
    fn a_short_message_stays_behind_a_long_one_of_its_flow_and_passes_those_of_others() {
        for limits in [narrow(), LaneLimits::default()] {
            let mut link = Link::new(limits);
            link.outgoing.send(batch(1, 1, BULK));
            link.outgoing.send(batch(1, 2, SMALL));
            link.outgoing.send(batch(2, 1, SMALL));
            link.pass_all();
            assert_eq!(link.heard, [(2, 1), (1, 1), (1, 2)]);
        }
    }

    #[test]
    fn a_large_message_waits_until_what_is_before_it_has_left() {
        let mut link = Link::new(LaneLimits::default());
        link.outgoing.send(batch(1, 1, BULK));
        link.outgoing.send(batch(1, 2, LARGE));
        link.outgoing.send(batch(1, 3, SMALL));
        assert!(!link.outgoing.is_busy(), "its lane may overtake the bulk one");
        link.pass_one();
        link.pass_one();
        assert!(link.outgoing.is_busy());
        link.outgoing.send(batch(1, 4, SMALL));
        link.outgoing.send(batch(2, 1, BULK));
        link.pass_all();
        assert_eq!(link.heard, [(1, 1), (2, 1), (1, 2), (1, 3), (1, 4)]);
    }

    #[test]
    fn a_link_that_keeps_no_order_is_noticed() {
        let mut link = Link::new(LaneLimits::default());
        mutations::plant(Some(mutations::Mutation::OrderNotKept));
        link.outgoing.send(batch(1, 1, BULK));
        link.outgoing.send(batch(1, 2, SMALL));
        link.pass_all();
        mutations::plant(None);
        assert_eq!(link.heard, [(1, 2), (1, 1)]);
    }

    #[test]
    fn queues_take_turns() {
        let mut link = Link::new(narrow());
        for sequence in 1..=3 {
            link.outgoing.send(batch(1, sequence, BULK));
        }
        link.outgoing.send(batch(2, 1, BULK));
        link.pass_all();
        assert_eq!(link.heard, [(1, 1), (1, 2), (2, 1), (1, 3)]);
    }

    #[test]
    fn a_full_queue_drops_its_oldest() {
        let mut link = Link::new(LaneLimits { queue: 2, ..narrow() });
        for sequence in 1..=5 {
            link.outgoing.send(batch(1, sequence, BULK));
        }
        link.pass_all();
        assert_eq!(link.heard, [(1, 1), (1, 4), (1, 5)]);
    }
}

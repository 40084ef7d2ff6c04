//! Messages that one link has no room for, and those that must stay in order there.
//!
//! ```text
//!   message --> nothing of its flow waits, and the lane has room --> the lane
//!          \--> the queue of its flow --- a turn of each queue --------^
//! ```
//!
//! Each flow waits in a queue of its own, and the queues take turns: what one group has much of does not hold up the others.

use peer_wire::{Flow, Kind, PeerMessage};
use std::collections::{BTreeMap, VecDeque};
use transport::{Lane, Mark};

/// Messages in one queue. Consensus bounds what it sends to a follower, and a gateway what it sends to a group, far below that; of
/// others the oldest is dropped.
const QUEUE_MAX: usize = 1_024;

/// Which queue a message waits in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Queue {
    Flow(Flow),
    /// Messages that need no order.
    Free(Kind),
}

/// What became of a message that was offered to a link.
pub(crate) enum Offered {
    /// A lane has taken it; all of it ends there.
    Taken(Option<Mark>),
    /// The lane has no room.
    Full(PeerMessage),
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct Backlog {
    queues: BTreeMap<Queue, VecDeque<PeerMessage>>,
    /// Whose turn was the last one.
    turn: Option<Queue>,
    /// In which lane the newest message of a flow lies, and where it ends there.
    ends: BTreeMap<Flow, (Lane, Mark)>,
}

impl Backlog {
    /// Whether nothing waits here, and nothing in the lanes that another message must not overtake.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues.is_empty() && self.ends.is_empty()
    }

    /// Takes a message, and offers it to its lane if none of its flow is before it. `has_sent` says whether a lane is past a mark.
    pub(crate) fn send(
        &mut self,
        message: PeerMessage,
        has_sent: impl Fn(Lane, Mark) -> bool,
        offer: impl FnMut(Lane, PeerMessage) -> Offered,
    ) {
        let queue = queue_of(&message);
        let waiting = self.queues.entry(queue).or_default();
        if waiting.len() >= QUEUE_MAX {
            waiting.pop_front();
        }
        waiting.push_back(message);
        if waiting.len() == 1 {
            self.serve(queue, &has_sent, offer);
        }
    }

    /// There may be room: each queue in turn gives one message, until all are empty or full.
    pub(crate) fn go_on(
        &mut self,
        has_sent: impl Fn(Lane, Mark) -> bool,
        mut offer: impl FnMut(Lane, PeerMessage) -> Offered,
    ) {
        self.ends.retain(|_, (lane, mark)| !has_sent(*lane, *mark));
        let mut stuck = 0;
        while stuck < self.queues.len() {
            let next = match self.turn {
                Some(turn) => self
                    .queues
                    .range((std::ops::Bound::Excluded(turn), std::ops::Bound::Unbounded)),
                None => self.queues.range(..),
            };
            let next = next.map(|(queue, _)| *queue).next();
            self.turn = next;
            let Some(queue) = next else { continue };
            let is_served = self.serve(queue, &has_sent, &mut offer);
            stuck = if is_served { 0 } else { stuck + 1 };
        }
    }

    /// Offers the first message of a queue. `false` if it has to wait.
    fn serve(
        &mut self,
        queue: Queue,
        has_sent: &impl Fn(Lane, Mark) -> bool,
        mut offer: impl FnMut(Lane, PeerMessage) -> Offered,
    ) -> bool {
        let Some(waiting) = self.queues.get_mut(&queue) else {
            return false;
        };
        let Some(message) = waiting.pop_front() else {
            self.queues.remove(&queue);
            return false;
        };
        let flow = message.flow();
        let before = flow.and_then(|flow| self.ends.get(&flow)).copied();
        let before = before.filter(|(lane, mark)| !has_sent(*lane, *mark));
        let lane = match (lane_of(&message), before) {
            (Lane::Large, Some((Lane::Small | Lane::Bulk, _))) => {
                // It would not overtake in its own lane, but its lane may overtake the other.
                waiting.push_front(message);
                return false;
            }
            (_, Some((Lane::Large, _))) => Lane::Large,
            (Lane::Small, Some((Lane::Bulk, _))) => Lane::Bulk,
            (lane, _) => lane,
        };
        match offer(lane, message) {
            Offered::Taken(mark) => {
                if let (Some(flow), Some(mark)) = (flow, mark)
                    && lane != Lane::Small
                {
                    self.ends.insert(flow, (lane, mark));
                }
                if waiting.is_empty() {
                    self.queues.remove(&queue);
                }
                true
            }
            Offered::Full(message) => {
                waiting.push_front(message);
                false
            }
        }
    }
}

fn queue_of(message: &PeerMessage) -> Queue {
    message.flow().map_or(Queue::Free(message.kind()), Queue::Flow)
}

fn lane_of(message: &PeerMessage) -> Lane {
    if message.is_large() {
        Lane::Large
    } else if message.is_bulk() {
        Lane::Bulk
    } else {
        Lane::Small
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{Boot, GatewayId, GroupId};
    use peer_wire::{BULK_BYTES_MAX, Batch};

    const SMALL: usize = 10;
    const BULK: usize = 100_000;
    const LARGE: usize = BULK_BYTES_MAX + 1;

    fn batch(group: u16, sequence: u64, bytes: usize) -> PeerMessage {
        PeerMessage::Batch(Batch {
            group: GroupId::new(group),
            gateway: GatewayId {
                boot: Boot(1),
                worker: 0,
            },
            batch: replica::Batch {
                sequence,
                number: sequence,
                writes: vec![0; bytes].into(),
                ..replica::Batch::default()
            },
        })
    }

    fn name(message: &PeerMessage) -> (u16, u64) {
        match message {
            PeerMessage::Batch(batch) => (batch.group.number(), batch.batch.sequence),
            _ => panic!("only batches are sent here"),
        }
    }

    /// A link that takes `room` bulk messages, and sends nothing until it is told to.
    #[derive(Default)]
    struct Link {
        backlog: Backlog,
        room: usize,
        taken: Vec<(Lane, (u16, u64))>,
        is_sent: bool,
    }

    impl Link {
        fn pass(&mut self, message: Option<PeerMessage>) {
            let Link {
                backlog,
                room,
                taken,
                is_sent,
            } = self;
            let is_sent = *is_sent;
            let offer = |lane, message: PeerMessage| {
                if lane == Lane::Bulk {
                    if *room == 0 {
                        return Offered::Full(message);
                    }
                    *room -= 1;
                }
                taken.push((lane, name(&message)));
                Offered::Taken(Some(Mark::START))
            };
            match message {
                Some(message) => backlog.send(message, |_, _| is_sent, offer),
                None => backlog.go_on(|_, _| is_sent, offer),
            }
        }
    }

    #[test]
    fn a_short_message_stays_behind_a_long_one_of_its_flow_and_passes_those_of_others() {
        let mut link = Link {
            room: 1,
            ..Link::default()
        };
        link.pass(Some(batch(1, 1, BULK)));
        link.pass(Some(batch(1, 2, SMALL)));
        link.pass(Some(batch(2, 1, SMALL)));
        assert_eq!(
            link.taken,
            [(Lane::Bulk, (1, 1)), (Lane::Small, (2, 1))],
            "the second waits for room in the lane of the first"
        );
        (link.room, link.is_sent) = (0, true);
        link.pass(None);
        assert_eq!(link.taken[2], (Lane::Small, (1, 2)), "the first has left");
        assert!(link.backlog.is_idle());
    }

    #[test]
    fn a_large_message_waits_until_what_is_before_it_has_left() {
        let mut link = Link {
            room: 9,
            ..Link::default()
        };
        link.pass(Some(batch(1, 1, BULK)));
        link.pass(Some(batch(1, 2, LARGE)));
        link.pass(Some(batch(1, 3, SMALL)));
        assert_eq!(link.taken, [(Lane::Bulk, (1, 1))]);
        link.is_sent = true;
        link.pass(None);
        assert_eq!(link.taken[1], (Lane::Large, (1, 2)));
        link.is_sent = false;
        link.pass(Some(batch(1, 4, SMALL)));
        assert_eq!(link.taken.last(), Some(&(Lane::Large, (1, 4))));
    }

    #[test]
    fn queues_take_turns() {
        let mut link = Link::default();
        for sequence in 1..=3 {
            link.pass(Some(batch(1, sequence, BULK)));
        }
        link.pass(Some(batch(2, 1, BULK)));
        assert!(link.taken.is_empty());
        link.room = 3;
        link.pass(None);
        let order: Vec<(u16, u64)> = link.taken.iter().map(|(_, name)| *name).collect();
        assert_eq!(order, [(1, 1), (2, 1), (1, 2)]);
        (link.room, link.is_sent) = (9, true);
        link.pass(None);
        link.pass(None);
        assert!(link.backlog.is_idle());
    }
}

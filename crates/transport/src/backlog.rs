//! Messages that one link has no room for, and those that must stay in order there.
//!
//! ```text
//!   message --> nothing of its flow waits, and the lane has room --> the lane
//!          \--> the queue of its flow --- a turn of each queue --------^
//! ```
//!
//! Each flow waits in a queue of its own, and the queues take turns: what one group has much of does not hold up the others.

use crate::lanes::{Lane, Lanes, Mark};
use crate::outgoing::LaneLimits;
use mutations::Mutation;
use peer_wire::{Flow, FrameKind, PeerMessage};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// Which queue a message waits in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Queue {
    Flow(Flow),
    /// Messages that need no order.
    Free(FrameKind),
}

/// See the file's header.
#[derive(Debug, Default)]
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

    /// Takes a message, and gives it to its lane if none of its flow is before it and there is room.
    pub(crate) fn send(&mut self, message: PeerMessage, lanes: &mut Lanes, limits: &LaneLimits) {
        let queue = queue_of(&message);
        let waiting = self.queues.entry(queue).or_default();
        if waiting.len() >= limits.queue {
            waiting.pop_front();
        }
        waiting.push_back(message);
        if waiting.len() == 1 {
            self.serve(queue, lanes, limits);
        }
    }

    /// There may be room: each queue in turn gives one message, until all are empty or stuck.
    pub(crate) fn go_on(&mut self, lanes: &mut Lanes, limits: &LaneLimits) {
        self.ends.retain(|_, (lane, mark)| !lanes.has_sent(*lane, *mark));
        let mut stuck = 0;
        while stuck < self.queues.len() {
            let behind = self.turn.map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.queues.range((behind, Bound::Unbounded)).next();
            self.turn = next.map(|(queue, _)| *queue);
            let Some(queue) = self.turn else { continue };
            let is_served = self.serve(queue, lanes, limits);
            stuck = if is_served { 0 } else { stuck + 1 };
        }
    }

    /// Gives the first message of a queue to its lane. `false` if it has to wait.
    fn serve(&mut self, queue: Queue, lanes: &mut Lanes, limits: &LaneLimits) -> bool {
        let Some(waiting) = self.queues.get_mut(&queue) else {
            return false;
        };
        let message = waiting.front().expect("an empty queue is taken out");
        let flow = flow_of(message);
        let before = flow.and_then(|flow| self.ends.get(&flow)).copied();
        let before = before.filter(|(lane, mark)| !lanes.has_sent(*lane, *mark));
        let lane = match (limits.lane_of(message), before) {
            // It would not overtake in its own lane, but its lane may overtake the other.
            (Lane::Large, Some((Lane::Small | Lane::Bulk, _))) => return false,
            (_, Some((Lane::Large, _))) => Lane::Large,
            (Lane::Small, Some((Lane::Bulk, _))) => Lane::Bulk,
            (lane, _) => lane,
        };
        if lane == Lane::Bulk && lanes.waiting(Lane::Bulk) >= limits.bulk_waiting {
            return false;
        }
        let message = waiting.pop_front().expect("it was looked at");
        lanes.push(lane, message);
        if let Some(flow) = flow.filter(|_| lane != Lane::Small) {
            self.ends.insert(flow, (lane, lanes.mark(lane)));
        }
        if waiting.is_empty() {
            self.queues.remove(&queue);
        }
        true
    }
}

fn flow_of(message: &PeerMessage) -> Option<Flow> {
    message.flow().filter(|_| !mutations::is(Mutation::OrderNotKept))
}

fn queue_of(message: &PeerMessage) -> Queue {
    flow_of(message).map_or(Queue::Free(message.kind()), Queue::Flow)
}

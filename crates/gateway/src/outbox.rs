//! What a turn has for others: workers, connections, nodes, the thread for offload jobs, and the gateway itself.
//!
//! Whatever a part of the gateway has to say goes here, in the order in which it is said. The driver takes it: mailbox batches and
//! messages to nodes at the turn's end, the rest before it reads on.

use crate::chores::SaveTask;
use crate::cluster::SeatOutput;
use crate::delivery::{Answered, Delivery};
use crate::message::{MailboxBatch, Message};
use crate::offload::OffloadJob;
use crate::program::Program;
use crate::synced::SyncedCounts;
use ids::{GroupId, NodeId, PeerWorker};
use peer_wire::PeerMessage;
use replica::{DiskRequest, Output, ReplyTo, Request};
use std::collections::VecDeque;

/// See the file's header.
pub(crate) struct Outbox {
    /// One for each worker: what leaves at the end of the turn. A new mailbox batch is begun when one is full.
    pub(crate) posts: Vec<VecDeque<MailboxBatch>>,
    /// Emptied mailbox batches, to be used again.
    pub(crate) spare: Vec<MailboxBatch>,
    /// Answers for this worker's own connections, and messages.
    pub(crate) deliveries: VecDeque<Delivery>,
    /// What groups have answered, here or elsewhere: handed out by [`Gateway::pump`](crate::Gateway::pump).
    pub(crate) outputs: VecDeque<Output>,
    /// Commands to be carried out on another thread.
    pub(crate) offload_jobs: Vec<OffloadJob>,
    /// For other nodes.
    pub(crate) peer_messages: Vec<(Addressee, PeerMessage)>,
    /// For the disk, in order.
    pub(crate) disk: Vec<DiskTask>,
    /// Snapshots that are to be stored.
    pub(crate) saves: Vec<SaveTask>,
    /// Logs are to be synced, under these numbers.
    pub(crate) syncs: Vec<u64>,
    /// What one machine tells others.
    pub(crate) told: VecDeque<Told>,
    /// For groups, wherever they live. With what follows and `told`, the gateway sees to it before anything else is carried
    /// out.
    pub(crate) requests: VecDeque<(GroupId, Request)>,
    /// To be begun, as transactions or within one group.
    pub(crate) programs: VecDeque<(ReplyTo, Program)>,
    /// Programs that have come to their end.
    pub(crate) finished: VecDeque<Finished>,
    /// What an operator is to be told.
    pub(crate) notices: Vec<String>,
}

/// For whom a message to another node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Addressee {
    /// Its worker that has the group which the message is of; any, if it is of none.
    Node(NodeId),
    /// This one.
    Worker(PeerWorker),
}

/// What a replica wants on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskTask {
    /// Its group.
    pub group: GroupId,
    /// Which life of the replica here wants it ([`replica::Replica::life`]): only that one is answered.
    pub life: u64,
    /// What.
    pub request: DiskRequest,
}

/// What one machine tells others.
pub(crate) enum Told {
    /// The seat of a replica, by the index of its group.
    Seat(usize, SeatOutput),
    /// The worker of a blocked client's keys has popped for it, and took so many nanoseconds. What happened to the keys is told
    /// before.
    Served {
        reply_to: ReplyTo,
        bytes: Vec<u8>,
        nanos: u64,
    },
    /// So many connections of another node were reached by a message.
    Received(ReplyTo, u64),
    /// Another node has done its part of a chore, and says this; or has not answered.
    NodeDone(ReplyTo, NodeId, Option<Vec<i64>>),
    /// So many replicas have on disk what was acknowledged.
    Synced(SyncedCounts),
    /// What is set for the whole cluster has changed.
    Settings,
}

/// A program that has come to its end.
pub(crate) struct Finished {
    pub(crate) answered: Answered,
    /// When it came, by the clock that commands are timed by, if it is noted how long its client waited.
    pub(crate) came_at: Option<u64>,
}

impl Outbox {
    /// One with nothing in it, on a node with so many workers.
    pub(crate) fn new(workers: usize) -> Outbox {
        Outbox {
            posts: (0..workers).map(|_| VecDeque::new()).collect(),
            spare: Vec::new(),
            deliveries: VecDeque::new(),
            outputs: VecDeque::new(),
            offload_jobs: Vec::new(),
            peer_messages: Vec::new(),
            disk: Vec::new(),
            saves: Vec::new(),
            syncs: Vec::new(),
            told: VecDeque::new(),
            requests: VecDeque::new(),
            programs: VecDeque::new(),
            finished: VecDeque::new(),
            notices: Vec::new(),
        }
    }

    /// Says whether something was left that the gateway sees to before anything else is carried out.
    pub(crate) fn check(&self) -> Result<(), String> {
        let left = [
            self.requests.len(),
            self.programs.len(),
            self.finished.len(),
            self.told.len(),
        ];
        match left == [0; 4] {
            true => Ok(()),
            false => Err(format!(
                "{left:?} requests, programs, ends and messages between machines are left"
            )),
        }
    }

    /// The mailbox batch for `worker` that is being filled.
    pub(crate) fn mailbox_batch(&mut self, worker: u16) -> &mut MailboxBatch {
        let post = &mut self.posts[usize::from(worker)];
        if post.back().is_none_or(|mailbox_batch| mailbox_batch.is_full()) {
            post.push_back(self.spare.pop().unwrap_or_default());
        }
        post.back_mut().expect("one was pushed")
    }

    /// The mailbox batch that [`Outbox::mailbox_batch`] gave last.
    pub(crate) fn mailbox_batch_being_filled(&mut self, worker: u16) -> &mut MailboxBatch {
        self.posts[usize::from(worker)]
            .back_mut()
            .expect("the caller was given one")
    }

    /// Sends all workers but this one a message.
    pub(crate) fn send_to_others(&mut self, worker: u16, message: impl Fn() -> Message) {
        for other in (0..self.posts.len() as u16).filter(|other| *other != worker) {
            self.mailbox_batch(other).push(message());
        }
    }

    /// Takes an emptied mailbox batch back, to be used again.
    pub(crate) fn recycle(&mut self, mut mailbox_batch: MailboxBatch) {
        // One on its way to each worker, and one being filled. Each keeps some hundred kilobytes.
        if self.spare.len() < 2 * self.posts.len() {
            mailbox_batch.clear();
            self.spare.push(mailbox_batch);
        }
    }

    /// Tells the driver to look for connections that `CLIENT KILL` marked.
    pub(crate) fn reap_soon(&mut self) {
        self.deliveries.push_back(Delivery::Reap);
    }
}

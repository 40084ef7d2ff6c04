//! Queues between workers.
//!
//! One bounded queue for each ordered pair of workers, holding whole mailbox batches: one for each turn in which one had
//! something for the other. At the limit the sender keeps its mailbox batches and reads no more from clients until the
//! receiver catches up; receivers always drain, so two full queues cannot block each other for ever.
//!
//! A worker that is about to sleep says so, looks at its queues once more, and sleeps; a sender pushes, then looks
//! whether the receiver sleeps. Either the receiver sees the mailbox batch or the sender sees the sleeper: the two
//! sequentially consistent operations on its state exclude that both miss.

use crossbeam_queue::{ArrayQueue, SegQueue};
use gateway::{Endpoint, MailboxBatch};
use ids::GroupId;
use keyspace::Keyspace;
use mio::Waker;
use std::collections::VecDeque;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering, fence};

/// Mailbox batches that may wait between two workers.
const MAILBOX_BATCHES_MAX: usize = 256;

/// All queues, shared by the workers.
pub(crate) struct Mailboxes {
    /// `queues[to][from]`.
    queues: Vec<Vec<ArrayQueue<MailboxBatch>>>,
    /// New connections for each worker, and which way they came in. Bounded by `maxclients`, which counts them.
    arrivals: Vec<SegQueue<(TcpStream, Endpoint)>>,
    /// States of groups of each worker that were read from disk. Bounded by its groups.
    states: Vec<SegQueue<ReadState>>,
    sleepers: Vec<Sleeper>,
}

/// A state that was read for a worker.
pub(crate) struct ReadState {
    pub(crate) group: GroupId,
    pub(crate) keyspace: Box<Keyspace>,
    /// To be called by the worker when its replica goes on with it.
    pub(crate) when_taken: Box<dyn FnOnce() + Send>,
}

struct Sleeper {
    state: AtomicU8,
    waker: Waker,
}

/// Not waiting for anything.
const AWAKE: u8 = 0;
/// Asleep, and nothing is lost if a mailbox batch that is not urgent lies until something else wakes it.
const ASLEEP: u8 = 1;
/// Asleep, with requests that wait for locks: any mailbox batch may let them go on.
const ASLEEP_WITH_WAITERS: u8 = 2;

impl Mailboxes {
    /// Queues between as many workers as there are wakers.
    pub(crate) fn new(wakers: Vec<Waker>) -> Arc<Mailboxes> {
        let count = wakers.len();
        let queues = (0..count)
            .map(|_| (0..count).map(|_| ArrayQueue::new(MAILBOX_BATCHES_MAX)).collect())
            .collect();
        let sleepers = wakers
            .into_iter()
            .map(|waker| Sleeper {
                state: AtomicU8::new(AWAKE),
                waker,
            })
            .collect();
        Arc::new(Mailboxes {
            queues,
            arrivals: (0..count).map(|_| SegQueue::new()).collect(),
            states: (0..count).map(|_| SegQueue::new()).collect(),
            sleepers,
        })
    }

    pub(crate) fn workers(&self) -> u16 {
        self.sleepers.len() as u16
    }

    /// Hands over what the queue has room for, and wakes the receiver if it sleeps and there is something urgent.
    pub(crate) fn post(&self, from: u16, to: u16, mailbox_batches: &mut VecDeque<MailboxBatch>) {
        let (mut pushed, mut is_urgent) = (false, false);
        while let Some(mailbox_batch) = mailbox_batches.pop_front() {
            let wakes = mailbox_batch.is_urgent();
            match self.queues[usize::from(to)][usize::from(from)].push(mailbox_batch) {
                Ok(()) => {
                    pushed = true;
                    is_urgent |= wakes;
                }
                Err(mailbox_batch) => {
                    mailbox_batches.push_front(mailbox_batch);
                    break;
                }
            }
        }
        if !pushed {
            return;
        }
        fence(Ordering::SeqCst);
        let state = &self.sleepers[usize::from(to)].state;
        let is_to_wake = match state.load(Ordering::Relaxed) {
            ASLEEP => is_urgent,
            ASLEEP_WITH_WAITERS => true,
            _ => false,
        };
        if is_to_wake && state.swap(AWAKE, Ordering::SeqCst) != AWAKE {
            self.wake(to);
        }
    }

    /// Wakes a worker whatever it does.
    pub(crate) fn wake(&self, worker: u16) {
        if let Err(error) = self.sleepers[usize::from(worker)].waker.wake() {
            tracing::error!(worker, %error, "cannot wake a worker");
        }
    }

    /// Hands a new connection to a worker, which [`gateway::Message::Adopt`] tells of it.
    pub(crate) fn hand_over(&self, to: u16, stream: TcpStream, endpoint: Endpoint) {
        self.arrivals[usize::from(to)].push((stream, endpoint));
    }

    /// A connection that was handed to a worker.
    pub(crate) fn handed_over(&self, to: u16) -> Option<(TcpStream, Endpoint)> {
        self.arrivals[usize::from(to)].pop()
    }

    /// Hands a worker the state of one of its groups.
    pub(crate) fn hand_state(&self, to: u16, state: ReadState) {
        self.states[usize::from(to)].push(state);
        self.wake(to);
    }

    /// A state that was handed to a worker.
    pub(crate) fn handed_state(&self, to: u16) -> Option<ReadState> {
        self.states[usize::from(to)].pop()
    }

    /// The next mailbox batch from `from`.
    pub(crate) fn take(&self, to: u16, from: u16) -> Option<MailboxBatch> {
        self.queues[usize::from(to)][usize::from(from)].pop()
    }

    /// Says that `worker` is about to sleep, and whether requests wait for locks there. `false` if something came
    /// meanwhile: it must not sleep.
    pub(crate) fn may_sleep(&self, worker: u16, has_waiters: bool) -> bool {
        let worker = usize::from(worker);
        let state = &self.sleepers[worker].state;
        state.store(
            if has_waiters { ASLEEP_WITH_WAITERS } else { ASLEEP },
            Ordering::SeqCst,
        );
        fence(Ordering::SeqCst);
        let is_idle = self.queues[worker].iter().all(ArrayQueue::is_empty);
        if !is_idle {
            state.store(AWAKE, Ordering::SeqCst);
        }
        is_idle
    }

    /// Says that `worker` is awake.
    pub(crate) fn is_awake(&self, worker: u16) {
        self.sleepers[usize::from(worker)]
            .state
            .store(AWAKE, Ordering::SeqCst);
    }
}

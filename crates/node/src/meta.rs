//! This node's part in the meta group, on a thread of its own: what it writes is synced before it goes on, and nobody else
//! waits for that.

use bytes::Bytes;
use control::GroupSight;
use std::sync::{Mutex, PoisonError};
use transport::Remote;

/// What the thread is told.
pub(crate) enum Input {
    /// A message about the cluster's own state.
    Message(Remote, Bytes),
    /// A link of the first worker came up, or broke.
    Link(Remote, bool),
    /// What leaders here know of their groups.
    Sights(Vec<GroupSight>),
    /// The node stops.
    Stop,
}

/// Messages on their way to the first worker, whose links carry them.
#[derive(Default)]
pub(crate) struct Outbox {
    messages: Mutex<Vec<(Remote, Bytes)>>,
}

impl Outbox {
    /// Messages that wait for the first worker's next turn. At the limit the newest are dropped: all of them may be lost.
    const MESSAGES_MAX: usize = 4_096;

    pub(crate) fn put(&self, messages: impl IntoIterator<Item = (Remote, Bytes)>) {
        let mut held = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let room = Outbox::MESSAGES_MAX.saturating_sub(held.len());
        held.extend(messages.into_iter().take(room));
    }

    pub(crate) fn take(&self) -> Vec<(Remote, Bytes)> {
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

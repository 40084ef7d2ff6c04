//! What belongs to other groups, on its way back to whoever asked: it is sent there as something new.
//!
//! Commands of one connection are sent on in the order in which they came. So one waits here until all that its connection has sent before
//! it was answered: what comes later, and was answered by a leader that was asked again, must not pass it.

use super::GroupClient;
use super::deferred::Deferred;
use crate::request::{Output, ReplyTo};
use keyspace::Moved;

/// See the file's header.
pub(super) struct MovedItem {
    reply_to: ReplyTo,
    /// The worker and connection of the client.
    connection: Option<(u16, u64)>,
    order: u64,
    elsewhere: Vec<Moved>,
    command: Option<Box<crate::Operation>>,
}

impl MovedItem {
    /// `None` if nobody waits for it any more.
    pub(super) fn of_deferred(deferred: &Deferred, elsewhere: Vec<Moved>) -> Option<MovedItem> {
        let item = &deferred.item;
        let command = deferred.words.as_ref().and_then(|words| words.to_operation());
        Some(MovedItem {
            reply_to: item.origin.as_ref()?.reply_to()?,
            connection: item.connection,
            order: item.order,
            elsewhere,
            command: command.map(Box::new),
        })
    }
}

impl GroupClient {
    pub(super) fn note_moved(&mut self, moved: Option<MovedItem>) {
        if let Some(moved) = moved {
            self.moved.insert(moved.order, moved);
        }
    }

    /// Sends back what nothing of its connection is before any more.
    pub(super) fn tell_moved(&mut self, out: &mut Vec<Output>) {
        if self.moved.is_empty() {
            return;
        }
        let sent = self.unanswered.iter().flat_map(|sent| &sent.items);
        let deferred = self.deferred.values().map(|deferred| &deferred.item);
        let waiting = sent.chain(deferred).filter(|item| item.origin.is_some());
        let waiting: Vec<_> = waiting
            .filter_map(|item| Some((item.connection?, item.order)))
            .collect();
        let is_behind = |moved: &MovedItem| {
            let mut before = waiting.iter();
            before.any(|(connection, order)| Some(*connection) == moved.connection && *order < moved.order)
        };
        let ready: Vec<u64> = self
            .moved
            .iter()
            .filter(|(_, moved)| !is_behind(moved))
            .map(|(order, _)| *order)
            .collect();
        for order in ready {
            let moved = self.moved.remove(&order).expect("it was found there");
            out.push(Output::Moved {
                reply_to: moved.reply_to,
                from: self.group,
                elsewhere: moved.elsewhere,
                command: moved.command,
            });
        }
    }
}

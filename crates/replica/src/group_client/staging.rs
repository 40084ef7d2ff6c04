//! Long operations on their way to a group, in pieces and one after the other, and those that nobody needs any more.

use super::item::Item;
use bytes::Bytes;
use resp::FrozenRope;
use std::collections::VecDeque;

/// See the file's header.
#[derive(Default)]
pub(super) struct Staging {
    /// In order. Of the first one pieces may be sent.
    queue: VecDeque<Long>,
    /// The number of the newest one.
    newest: u64,
    /// Those that are answered or given up, and hold very much: to give the memory of fifty megabytes back takes milliseconds.
    spent: Vec<FrozenRope>,
}

/// Bytes of an operation from which on somebody else is to drop it.
const SPENT_BYTES_MIN: usize = 1024 * 1024;

struct Long {
    /// What is long in it is shared with its connection, or with the value that it puts.
    operation: FrozenRope,
    item: Item,
    /// Which of this group client's long operations.
    number: u64,
    /// Bytes that were sent.
    sent: usize,
}

/// What is to be sent next.
pub(super) enum Next {
    Piece {
        number: u64,
        whole_bytes: usize,
        offset: usize,
        bytes: Bytes,
    },
    /// All pieces are sent: the group is to carry out what they are.
    Whole {
        number: u64,
        operation: FrozenRope,
        item: Item,
    },
}

impl Staging {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of all of them.
    pub(super) fn byte_len(&self) -> usize {
        self.queue.iter().map(|long| long.operation.len()).sum()
    }

    /// Takes one more.
    pub(super) fn push(&mut self, operation: FrozenRope, item: Item) {
        self.newest += 1;
        self.queue.push_back(Long {
            operation,
            item,
            number: self.newest,
            sent: 0,
        });
    }

    /// What was sent of the first one may be lost: it is sent from its beginning, under another number.
    pub(super) fn restart(&mut self) {
        if let Some(long) = self.queue.front_mut().filter(|long| long.sent > 0) {
            self.newest += 1;
            (long.number, long.sent) = (self.newest, 0);
        }
    }

    /// Hands out what is next, in pieces of so many bytes.
    pub(super) fn next(&mut self, piece_bytes: usize) -> Option<Next> {
        let long = self.queue.front_mut()?;
        let (number, offset, whole_bytes) = (long.number, long.sent, long.operation.len());
        if offset == whole_bytes {
            let Long { operation, item, .. } = self.queue.pop_front()?;
            return Some(Next::Whole {
                number,
                operation,
                item,
            });
        }
        let bytes = long.operation.piece_at(offset, piece_bytes);
        long.sent += bytes.len();
        Some(Next::Piece {
            number,
            whole_bytes,
            offset,
            bytes,
        })
    }

    /// Drops the first one for which nobody waits any more, with its number if the group has pieces of it.
    pub(super) fn remove(&mut self, is_given_up: impl Fn(&Item) -> bool) -> Option<(Item, Option<u64>)> {
        let at = self.queue.iter().position(|long| is_given_up(&long.item))?;
        let long = self.queue.remove(at)?;
        self.spend(long.operation);
        Some((long.item, (long.sent > 0).then_some(long.number)))
    }

    /// One is not needed any more.
    pub(super) fn spend(&mut self, operation: FrozenRope) {
        if operation.len() >= SPENT_BYTES_MIN {
            self.spent.push(operation);
        }
    }

    /// Those that somebody else is to drop.
    pub(super) fn take_spent(&mut self) -> Vec<FrozenRope> {
        std::mem::take(&mut self.spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_would_take_long_to_be_dropped_is_kept_for_somebody_else() {
        let mut staging = Staging::default();
        staging.spend(vec![b'x'; SPENT_BYTES_MIN - 1].into());
        assert!(staging.take_spent().is_empty());
        staging.spend(vec![b'x'; SPENT_BYTES_MIN].into());
        assert_eq!(staging.take_spent().len(), 1);
        assert!(staging.take_spent().is_empty(), "it was handed over");
        assert!(staging.is_empty(), "nothing waits for it");
    }
}

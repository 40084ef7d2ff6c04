//! Keys that transactions of this worker hold while one other worker decides them: see `gateway/last_agent.rs`.
//!
//! Such a lock lasts for one message and its answer, and hardly ever does anybody meet it. It is a line in a list, which costs a
//! tenth of an entry in the lock table. Whoever would have to wait for it makes the group's locks of this kind ordinary ones first
//! ([`ShortLocks::take`]), and waits in the table.
//!
//! One worker decides in the order in which it was asked. So those that one worker decides, its *file*, may hold the same key: they
//! are carried out here in that order too. In the table the last of them holds the keys of all.
//!
//! Invariants:
//! 1. No lock here conflicts with one of another file here, or with a holder of the lock table.
//! 2. While there are any, nobody waits in the lock table: it takes them in before it lets anybody wait. Who waits may need more when
//!    his turn comes than he asked for: a key that was given a deadline meanwhile is his alone, even to read.

use ids::Slot;
use std::collections::BTreeMap;
use txn::{Locks, Mode, Priority, TxnId};

/// Locks from which on no more are held: who looks for a key looks through all of them.
const HELD_MAX: usize = 256;

/// See the file's header.
#[derive(Default)]
pub(crate) struct ShortLocks {
    /// At most [`HELD_MAX`], and the keys of one command more.
    held: Vec<ShortLock>,
}

struct ShortLock {
    slot: Slot,
    mode: Mode,
    /// The worker that decides.
    file: u16,
    key: Box<[u8]>,
    txn: TxnId,
    priority: Priority,
}

/// What the lock table is told of one file.
struct File {
    last: (TxnId, Priority),
    keys: Vec<(Box<[u8]>, Mode)>,
}

impl ShortLocks {
    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether there are so many that a transaction's own locks serve better.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.held.len() >= HELD_MAX
    }

    /// Whether a key of `slot` is free for this use of it, by a transaction of this file if it is one.
    #[inline]
    pub(crate) fn admits_key(&self, slot: Slot, key: &[u8], mode: Mode, file: Option<u16>) -> bool {
        let mut others = self.held.iter().filter(|held| held.slot == slot);
        !others.any(|held| {
            let clashes = held.mode == Mode::Exclusive || mode == Mode::Exclusive;
            clashes && Some(held.file) != file && *held.key == *key
        })
    }

    /// Whether all of these are free.
    pub(crate) fn admits(&self, locks: &Locks) -> bool {
        match locks {
            Locks::Keys(keys) => {
                let is_free =
                    |(key, mode): &(Box<[u8]>, Mode)| self.admits_key(Slot::of_key(key), key, *mode, None);
                self.is_empty() || keys.iter().all(is_free)
            }
            Locks::WholeGroup(Mode::Exclusive) => self.is_empty(),
            Locks::WholeGroup(Mode::Shared) => self.held.iter().all(|held| held.mode == Mode::Shared),
        }
    }

    /// Holds a key that is free.
    pub(crate) fn hold(
        &mut self,
        slot: Slot,
        key: &[u8],
        mode: Mode,
        file: u16,
        txn: TxnId,
        priority: Priority,
    ) {
        self.held.push(ShortLock {
            slot,
            mode,
            file,
            key: key.into(),
            txn,
            priority,
        });
    }

    /// Lets go of whatever `txn` holds here; whether there was anything.
    pub(crate) fn let_go(&mut self, txn: TxnId) -> bool {
        let before = self.held.len();
        let mut at = 0;
        while let Some(held) = self.held.get(at) {
            if held.txn == txn {
                self.held.swap_remove(at);
            } else {
                at += 1;
            }
        }
        self.held.len() < before
    }

    /// All of them, for the lock table: none is left.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (TxnId, Priority, Locks)> + use<> {
        let mut files: BTreeMap<u16, File> = BTreeMap::new();
        for held in self.held.drain(..) {
            let own = (held.txn, held.priority);
            let file = files.entry(held.file).or_insert(File {
                last: own,
                keys: Vec::new(),
            });
            // Sequences grow with time.
            file.last = file.last.max(own);
            file.keys.push((held.key, held.mode));
        }
        let as_locks = |file: File| (file.last.0, file.last.1, Locks::of_keys(file.keys));
        files.into_values().map(as_locks)
    }
}

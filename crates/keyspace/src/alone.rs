//! A group that is alone on its node: parts of transactions, and commands that have to wait for them, are applied as they are asked
//! for, by the machine that applies entries (`transactions.rs`). Nothing is encoded but what has to wait.
//!
//! ```text
//!   ask(number, operation) --> Some(what is answered)
//!                              None: it waits --> take_told: (number, what is answered)
//! ```
//!
//! Whoever coordinates a transaction here is in the same process, and what it asks comes in order. So the end of a transaction all of
//! whose groups are alone is kept by nobody ([`Keyspace::end_for_good`]): no question for it can come.

use crate::Keyspace;
use crate::entry::{EntryOperation, Resolve};
use crate::keyspace::ApplyOutput;
use crate::local::LeaderLocal;
use crate::replies::Replies;
use crate::transactions::{Needs, Origin, needs_of};
use ids::{Boot, GatewayId};
use txn::{Locks, Mode, Priority, TxnId};

/// Who asks here. No gateway has this name, and no boot is so late.
const ALONE: GatewayId = GatewayId {
    boot: Boot(u64::MAX),
    worker: 0,
};

/// How an operation waits, as far as that does not follow from itself.
#[derive(Default, Debug)]
pub struct Terms {
    /// What it locks, or waits for.
    pub locks: Option<Locks>,
    /// Whether it is as old as its arrival, though it is a transaction's: it does not pass commands that wait.
    pub keeps_place: bool,
}

/// What an operation was answered.
#[derive(Default, Debug)]
pub struct Told {
    /// `false` only of a block of which a condition did not hold: it did nothing and has no replies.
    pub is_carried_out: bool,
    /// Whether it would have had to wait, and found no room: nothing of it was done.
    pub is_crowded_out: bool,
    /// Whether its keys belong to other groups: nothing of it was done, and the one reply says where they are ([`Moved::read`](crate::Moved::read)).
    pub has_moved: bool,
    /// Of a part of a transaction: its vote, 0 or why not, if nothing goes with it.
    pub vote: Option<u8>,
    /// The replies one after another: of a part of a transaction, the first one is its vote.
    pub bytes: Vec<u8>,
    /// Where each of them ends.
    pub ends: Vec<u64>,
}

impl Keyspace {
    /// Whether no transaction holds or waits for anything.
    #[inline]
    pub fn is_unlocked(&self) -> bool {
        self.transactions.is_idle()
    }

    /// Whether what needs these locks can be carried out now.
    pub fn is_free(&self, locks: &Locks) -> bool {
        self.transactions.is_idle() || self.transactions.locks.admits(locks)
    }

    /// Carries out an operation in the open entry. `None` if it has to wait: it is answered under its number then, later than what
    /// is under way.
    pub fn ask(
        &mut self,
        number: u64,
        operation: EntryOperation<'_>,
        terms: Terms,
        local: &mut LeaderLocal,
    ) -> Option<Told> {
        let origin = Origin {
            gateway: ALONE,
            number,
            index: 0,
        };
        let mut replies = std::mem::take(&mut self.transactions.spare);
        replies.begin();
        let needs = needs_of(&operation).map(|needs| Needs {
            locks: terms.locks.unwrap_or(needs.locks),
            txn: needs.txn,
        });
        let age = terms.keeps_place.then(|| self.priority_of_arrival());
        match (operation, needs) {
            (operation @ (EntryOperation::Prepare(_) | EntryOperation::Lock(_)), Some(needs)) => {
                self.applied.0 += 1;
                self.ask_for_part(operation, needs, age, origin, local, &mut replies, &mut ignore);
            }
            (operation, Some(needs)) => self.ask_plain(operation, needs, origin, local, &mut replies),
            (operation, None) => {
                self.apply_transaction(operation, origin, local, &mut replies, &mut ignore);
            }
        }
        self.told(replies)
    }

    /// A command, or several that are one.
    fn ask_plain(
        &mut self,
        operation: EntryOperation<'_>,
        needs: Needs,
        origin: Origin,
        local: &mut LeaderLocal,
        replies: &mut Replies,
    ) {
        if !self.is_free(&needs.locks) {
            if self.transactions.is_full() {
                return replies.crowd_out();
            }
            let age = self.priority_of_arrival();
            if !self.queue(&operation, needs, origin, age, local) {
                return replies.deferred();
            }
        }
        self.apply_free(operation, origin, local, replies);
        self.go_on(local, &mut ignore);
    }

    /// What was answered to operations that waited, since the last call: each by its number.
    pub fn take_told(&mut self, local: &mut LeaderLocal) -> Vec<(u64, Told)> {
        if local.deferred.is_empty() {
            return Vec::new();
        }
        let deferred = std::mem::take(&mut local.deferred).into_iter();
        // What a gateway asked of a log that was here before, it asks for itself.
        let ours = deferred.filter(|origin| origin.gateway == ALONE);
        let told = ours.filter_map(|origin| {
            let replies = self.transactions.deferred.remove(&origin)?;
            Some((origin.number, replies.into_told()?))
        });
        told.collect()
    }

    /// Ends a transaction of which nobody will ask any more: all its groups are alone.
    pub fn end_for_good(&mut self, txn: TxnId, is_committed: bool, local: &mut LeaderLocal) -> Told {
        let mut replies = std::mem::take(&mut self.transactions.spare);
        replies.begin();
        if self.resolve_for_good(txn, is_committed, local, &mut replies) {
            self.go_on(local, &mut ignore);
        } else {
            let resolve = Resolve {
                decisions: vec![(txn, is_committed)],
            };
            let origin = Origin {
                gateway: ALONE,
                number: 0,
                index: 0,
            };
            let operation = EntryOperation::Resolve(resolve);
            self.apply_transaction(operation, origin, local, &mut replies, &mut ignore);
            self.transactions.ended.remove(&txn);
        }
        self.told(replies).unwrap_or_default()
    }

    /// What is answered; what it was written in is kept for the next time if nothing goes with it.
    fn told(&mut self, mut replies: Replies) -> Option<Told> {
        let short = replies.short();
        if short.is_none() {
            return replies.into_told();
        }
        replies.clear();
        self.transactions.spare = replies;
        short
    }

    /// Holds keys that are free for a command that another worker decides. It has no vote.
    pub fn hold(&mut self, txn: TxnId, priority: Priority, locks: Locks) {
        self.transactions.hold(txn, priority, locks);
    }

    /// Lets go of what [`Keyspace::hold`] held; whoever waits for it goes on.
    pub fn let_go(&mut self, txn: TxnId, local: &mut LeaderLocal) {
        self.transactions.locks.release(txn);
        self.go_on(local, &mut ignore);
    }
}

/// No reads wait at a group that is alone.
fn ignore(_: ApplyOutput<'_>) {}

/// The locks of somebody who only looks at keys.
pub fn shared<'a>(keys: impl IntoIterator<Item = &'a [u8]>) -> Locks {
    Locks::of_keys(keys.into_iter().map(|key| (key.into(), Mode::Shared)).collect())
}

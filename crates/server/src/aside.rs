//! Commands that would hold the worker up, carried out on another thread.
//!
//! A command that walks over very large collections (`SMEMBERS` of a million, `SINTERSTORE` of two) takes longer than other
//! clients should wait. So its keys are locked, their values are *lent*: moved, not copied, to a scratch keyspace; the
//! command runs there, on a thread that the driver keeps for such *errands*; and when it comes back, the values are
//! returned, what changed is installed, and the locks are released. Whoever wants the same keys waits meanwhile, as he
//! would have anyway; everybody else goes on.
//!
//! Only where all keys live on this worker. A transaction over several workers copies values, and an `EXEC` runs where it
//! is: both can still hold a worker up.

use crate::gateway::Gateway;
use crate::program::group_of_key;
use crate::transaction::Delivery;
use command::{Route, Spec, Walks, number};
use ids::{Db, GroupId};
use replica::{FullKey, Operation, Replies, Returned, Scratch, Ticket, locks_of};
use resp::Args;
use std::collections::BTreeMap;
use txn::TxnId;

/// Elements that a command may walk over on the worker itself: one or two milliseconds.
const ELEMENTS_MAX: usize = 20_000;

/// A command on its way, with all that it needs.
pub struct Errand {
    txn: TxnId,
    ticket: Ticket,
    operation: Operation,
    groups: Vec<GroupId>,
    scratch: Scratch,
    replies: Replies,
}

impl Errand {
    /// Carries the command out.
    pub fn run(&mut self) {
        self.scratch.run(&self.operation, &mut self.replies);
    }
}

impl Gateway {
    /// Whether a command whose keys all live here walks over more than the worker should.
    #[inline]
    pub(crate) fn is_heavy(&self, db: Db, spec: &'static Spec, args: Args<'_>) -> bool {
        spec.walks != Walks::Little && spec.route == Route::Keys && self.weight(db, spec, args) > ELEMENTS_MAX
    }

    /// How many elements the command walks over, at most.
    fn weight(&self, db: Db, spec: &'static Spec, args: Args<'_>) -> usize {
        let mut weight = 0;
        command::keys(spec, args, &mut |position, _| {
            let key = args.arg(position);
            if let Some(index) = self.local(group_of_key(self.groups, key)) {
                weight += self.replicas[index].keyspace().element_count(db, key);
            }
        });
        match spec.walks {
            Walks::Little => 0,
            Walks::Whole => weight,
            Walks::Ranks { at } => {
                let rank = |at: u8| {
                    let rank = args.get(usize::from(at)).and_then(number::parse_i64).unwrap_or(0);
                    let length = weight as i64;
                    if rank < 0 {
                        rank.saturating_add(length)
                    } else {
                        rank
                    }
                    .clamp(0, length) as usize
                };
                (rank(at + 1) + 1).saturating_sub(rank(at)).min(weight)
            }
        }
    }

    /// Sends a command aside whose keys all live here and are free.
    pub(crate) fn run_aside(&mut self, ticket: Ticket, operation: Operation) {
        let (txn, priority) = self.new_transaction();
        let databases = replica::databases([&operation]);
        let mut keys: BTreeMap<GroupId, Vec<FullKey>> = BTreeMap::new();
        operation.keys(|key, _| {
            let keys = keys.entry(group_of_key(self.groups, key)).or_default();
            for &db in &databases {
                if !keys.iter().any(|(other, name)| *other == db && **name == *key) {
                    keys.push((db, key.into()));
                }
            }
        });
        let mut scratch = Scratch::new(self.turn.now, &self.turn);
        let groups_count = self.groups;
        for (group, keys) in &keys {
            // Alone, even to read: a value that is lent is with nobody else.
            let is_ours = |key: &[u8]| group_of_key(groups_count, key) == *group;
            let locks = locks_of([operation.words()], is_ours).exclusive();
            let index = self.local(*group).expect("the caller looked");
            let replica = &mut self.replicas[index];
            scratch.set_limits(replica.keyspace().limits());
            let objects = replica.lend(&self.turn, txn, priority, locks, keys);
            for ((db, key), object) in keys.iter().zip(objects) {
                scratch.place(*db, key, object);
            }
        }
        self.errands.push(Errand {
            txn,
            ticket,
            operation,
            groups: keys.into_keys().collect(),
            scratch,
            replies: Replies::default(),
        });
    }

    /// The errands that are to be run, for the driver.
    #[inline]
    pub fn take_errands(&mut self) -> Vec<Errand> {
        std::mem::take(&mut self.errands)
    }

    /// An errand was run.
    pub fn on_errand(&mut self, errand: Errand) {
        let Errand {
            txn,
            ticket,
            groups,
            mut scratch,
            replies,
            ..
        } = errand;
        let events = scratch.take_events();
        let mut returned: BTreeMap<GroupId, Vec<Returned>> = BTreeMap::new();
        scratch.take_back(|one| {
            let group = group_of_key(self.groups, one.key());
            returned.entry(group).or_default().push(one);
        });
        let mut outputs = Vec::new();
        for group in groups {
            let index = self.local(group).expect("groups do not move");
            let returned = returned.remove(&group).unwrap_or_default();
            self.replicas[index].take_back(&self.turn, txn, returned, &mut outputs);
            self.tell(index);
        }
        self.tell_events(events);
        self.replicas[0].adopt_garbage(scratch.take_garbage());
        self.transactions.outputs.extend(outputs);
        let bytes = replies.into_bytes();
        if ticket.worker == self.worker {
            self.deliveries.push_back(Delivery::Reply { ticket, bytes });
        } else {
            let mut answer = self.parcel(ticket.worker).take_bytes();
            let start = answer.len();
            answer.extend_from_slice(&bytes);
            self.parcel_being_filled(ticket.worker)
                .push_answer(ticket, answer, start);
        }
        self.pump();
    }
}

//! Commands that would hold the worker up, carried out on another thread.
//!
//! A command that walks over very large collections (`SMEMBERS` of a million, `SINTERSTORE` of two) takes longer than other
//! clients should wait. So its keys are locked, their values are *lent*: moved, not copied, to a scratch keyspace; the
//! command runs there, on a thread that the driver keeps for such *errands*; and when it comes back, the values are
//! returned, what changed is installed, and the locks are released. Whoever wants the same keys waits meanwhile, as he
//! would have anyway; everybody else goes on.
//!
//! ```text
//!  on_keys -- steps > max --> Request::Lend --> keys locked --> Lent --> Errand --> run --> on_errand --> Answered
//!                                  |                                                            |
//!                                  +-- waits for its keys; then perhaps little: run in place    +-- keys free: go on
//! ```
//!
//! How many steps a command would be is asked of the keyspace ([`keyspace::walks`]), and again when it waited for its
//! keys: behind an errand there may be another one. A command of very many words is carried out aside too, whatever it
//! finds.
//!
//! What still runs on the worker, however long it takes: an `EXEC`; a transaction over several workers, or over several
//! groups of which some are not free, which copies its values; `SORT` with patterns, which reads keys that nobody could
//! lock beforehand; commands on very many keys (`DEL`, `MGET`, `MSET`), `KEYS`; the pops of clients that waited; and
//! whatever works on the bytes of one long string.

use crate::gateway::Gateway;
use crate::pipeline::Pipeline;
use crate::program::{group_of_key, names_more};
use crate::session::Session;
use crate::timing::Caller;
use command::{Command, Route, Spec, Spread, Walks};
use ids::{Db, GroupId};
use replica::{Lent, Operation, Output, Replies, Request, Returned, Scratch, Ticket, locks_of};
use resp::Args;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use txn::TxnId;

/// Steps that a command may take on the worker itself: one or two milliseconds.
pub(crate) const STEPS_MAX: usize = 20_000;

/// With fewer words than these, a command on one key that does not walk is never worth a thought.
const WORDS_MIN: usize = 1_024;

/// A command on its way, with all that it needs.
pub struct Errand {
    txn: TxnId,
    ticket: Ticket,
    operation: Operation,
    groups: Vec<GroupId>,
    scratch: Scratch,
    replies: Replies,
    clock: fn() -> u64,
    /// What it took.
    nanos: u64,
}

impl Errand {
    /// Carries the command out.
    pub fn run(&mut self) {
        let began = (self.clock)();
        self.scratch.run(&self.operation, &mut self.replies);
        self.nanos = (self.clock)().saturating_sub(began);
    }
}

impl Gateway {
    /// Whether a command whose keys all live here takes more steps than the worker should make.
    #[inline]
    pub(crate) fn is_heavy(
        &self,
        db: Db,
        spec: &'static Spec,
        args: Args<'_>,
        command: &Command<'_>,
    ) -> bool {
        let may_be = spec.walks != Walks::Little || args.len() > WORDS_MIN && spec.spread == Spread::Single;
        may_be && spec.route == Route::Keys && self.takes_long(db, spec, args, command)
    }

    fn takes_long(&self, db: Db, spec: &'static Spec, args: Args<'_>, command: &Command<'_>) -> bool {
        let keyspace_of = |key: &[u8]| {
            let index = self.local(group_of_key(self.groups, key))?;
            Some(self.replicas[index].keyspace())
        };
        replica::steps(db, spec, args, Some(command), &keyspace_of) > self.steps_max()
            && !names_more(spec, args)
    }

    fn steps_max(&self) -> usize {
        self.shared.steps_max.load(Ordering::Relaxed)
    }

    /// Lets a command within one group run on another thread, or wait for its keys first.
    pub(crate) fn send_aside(
        &mut self,
        session: &mut Session,
        pipeline: &mut Pipeline,
        spec: &'static Spec,
        args: Args<'_>,
        group: GroupId,
    ) {
        let ticket = self.reserve(session, pipeline);
        let operation = Operation {
            spec,
            db: session.db,
            protocol: session.protocol,
            args: args.to_buf(),
        };
        self.lend(group, ticket, operation);
    }

    /// Asks a group of this worker to lend a command what it needs, once that is free.
    pub(crate) fn lend(&mut self, group: GroupId, ticket: Ticket, operation: Operation) {
        // It is measured where it is carried out.
        self.timing.is_ours = false;
        let (txn, _) = self.new_transaction();
        let request = Request::Lend {
            txn,
            steps_max: self.steps_max(),
            ticket,
            operation,
        };
        self.request(group, request);
    }

    /// A group has lent what a command needs.
    pub(crate) fn on_lent(&mut self, lent: Lent) {
        let Lent {
            txn,
            ticket,
            operation,
            touches,
            keys,
            objects,
        } = lent;
        let mut scratch = Scratch::new(self.turn.now, &self.turn);
        scratch.set_limits(self.compactness);
        scratch.touch(touches);
        let mut groups = Vec::new();
        for ((db, key), object) in keys.iter().zip(objects) {
            groups = vec![group_of_key(self.groups, key)];
            scratch.place(*db, key, object);
        }
        self.set_out(txn, ticket, operation, groups, scratch);
    }

    fn set_out(
        &mut self,
        txn: TxnId,
        ticket: Ticket,
        operation: Operation,
        groups: Vec<GroupId>,
        scratch: Scratch,
    ) {
        self.errands.push(Errand {
            txn,
            ticket,
            operation,
            groups,
            scratch,
            replies: Replies::default(),
            clock: self.shared.hooks.clock,
            nanos: 0,
        });
    }

    /// Whether a command over several groups, whose keys all live here, has them for itself.
    pub(crate) fn has_alone(&self, spec: &'static Spec, args: Args<'_>) -> bool {
        let mut is_alone = true;
        command::keys(spec, args, &mut |position, _| {
            let key = args.arg(position);
            let index = self.local(group_of_key(self.groups, key));
            let locks = || txn::Locks::Keys(vec![(key.into(), txn::Mode::Exclusive)]);
            is_alone = is_alone && index.is_some_and(|index| self.replicas[index].is_free(locks));
        });
        is_alone
    }

    /// Sends a command over several groups aside that has its keys for itself.
    pub(crate) fn send_several_aside(
        &mut self,
        session: &mut Session,
        pipeline: &mut Pipeline,
        spec: &'static Spec,
        args: Args<'_>,
    ) {
        let ticket = self.reserve(session, pipeline);
        self.timing.is_ours = false;
        let operation = Operation {
            spec,
            db: session.db,
            protocol: session.protocol,
            args: args.to_buf(),
        };
        let (txn, priority) = self.new_transaction();
        let databases = replica::databases([&operation]);
        let mut keys: BTreeMap<GroupId, Vec<(Db, Box<[u8]>)>> = BTreeMap::new();
        operation.keys(|key, _| {
            let keys = keys.entry(group_of_key(self.groups, key)).or_default();
            for &db in &databases {
                if !keys.iter().any(|(other, name)| *other == db && **name == *key) {
                    keys.push((db, key.into()));
                }
            }
        });
        let mut scratch = Scratch::new(self.turn.now, &self.turn);
        scratch.set_limits(self.compactness);
        let groups_count = self.groups;
        for (group, keys) in &keys {
            let is_ours = |key: &[u8]| group_of_key(groups_count, key) == *group;
            let locks = locks_of([operation.words()], is_ours).exclusive();
            let index = self.local(*group).expect("the caller looked");
            let replica = &mut self.replicas[index];
            scratch.touch(replica.local().touches);
            let objects = replica.lend(&self.turn, txn, priority, locks, keys);
            for ((db, key), object) in keys.iter().zip(objects) {
                scratch.place(*db, key, object);
            }
        }
        self.set_out(txn, ticket, operation, keys.into_keys().collect(), scratch);
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
            operation,
            groups,
            mut scratch,
            replies,
            nanos,
            ..
        } = errand;
        let (spec, args) = operation.words();
        let caller = Caller::There {
            worker: ticket.worker,
            connection: ticket.connection,
        };
        self.note_time(spec, nanos, args, caller);
        if replies.bytes().first() == Some(&b'-') {
            self.stats.by_command[spec.id].failed.add(1);
        }
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
        self.replicas[0].add_counts(scratch.take_counts());
        self.replicas[0].adopt_garbage(scratch.take_garbage());
        let replies = Some(replies);
        self.transactions
            .outputs
            .push_back(Output::Answered { ticket, replies });
        self.transactions.outputs.extend(outputs);
        self.pump();
    }
}

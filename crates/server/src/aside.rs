//! Commands that would hold the worker up, carried out on another thread.
//!
//! A command that walks over very large collections (`SMEMBERS` of a million, `SINTERSTORE` of two) takes longer than other
//! clients should wait. So its keys are locked, their values are *lent*: moved, not copied, to a scratch keyspace; the
//! command runs there, on a thread that the driver keeps for such *errands*; and when it comes back, the values are
//! returned, what changed is installed, and the locks are released. Whoever wants the same keys waits meanwhile, as he
//! would have anyway; everybody else goes on.
//!
//! That is a transaction of its own kind, over however many groups and workers: all locks first, then the values, then the
//! errand. A group that is asked to carry out or to copy too much refuses, and its transaction begins again as one of
//! this kind.
//!
//! What is too much is asked of the keyspaces, in *steps* ([`replica::steps`], [`keyspace::walks`]): before a command is
//! carried out, and again when it waited for its keys, since it may find others there. A command of very many words is
//! too much whatever it finds.
//!
//! Some things still hold a worker up: `SORT` with patterns; an `EXEC` with a command on the whole keyspace; commands on
//! very many keys (`DEL`, `MGET`, `MSET`), and `KEYS`; the pops of clients that waited; and work on the bytes of one very
//! long string.

use crate::gateway::Gateway;
use crate::program::{Item, Program, group_of_key, names_more};
use command::{Command, Route, Spec};
use ids::{Db, GroupId};
use keyspace::{Event, Keyspace};
use replica::{FullKey, Operation, Replies, Request, Returned, Scratch, Ticket, is_brief};
use resp::Args;
use std::collections::BTreeMap;
use txn::TxnId;

/// Commands on their way, with all that they need.
pub struct Errand {
    txn: TxnId,
    operations: Vec<Operation>,
    scratch: Scratch,
    replies: Replies,
    /// Keys that a command would read and that were not lent: nothing was carried out.
    lacks: Vec<FullKey>,
    /// Nanoseconds since any fixed moment.
    clock: fn() -> u64,
    /// What each command took, in nanoseconds.
    times: Vec<u64>,
}

impl Errand {
    pub(crate) fn new(
        txn: TxnId,
        operations: Vec<Operation>,
        scratch: Scratch,
        clock: fn() -> u64,
    ) -> Errand {
        Errand {
            txn,
            operations,
            scratch,
            replies: Replies::default(),
            lacks: Vec::new(),
            clock,
            times: Vec::new(),
        }
    }

    /// Whether it is more than `steps_max` steps.
    pub(crate) fn is_heavy(&self, steps_max: usize) -> bool {
        self.scratch.steps(&self.operations) > steps_max
    }

    /// Carries the commands out.
    pub fn run(&mut self) {
        if let [operation] = self.operations.as_slice() {
            self.lacks = self.scratch.wanted(operation);
            if !self.lacks.is_empty() {
                return;
            }
        }
        let mut began = (self.clock)();
        for operation in &self.operations {
            self.scratch.run(operation, &mut self.replies);
            let ended = (self.clock)();
            self.times.push(ended.saturating_sub(began));
            began = ended;
        }
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
        !is_brief(spec, args) && spec.route == Route::Keys && self.takes_long(db, spec, args, command)
    }

    fn takes_long(&self, db: Db, spec: &'static Spec, args: Args<'_>, command: &Command<'_>) -> bool {
        // What `SORT` finds by patterns would have to be fetched key by key: that would take longer still.
        replica::steps(db, spec, args, command, &|key| self.keyspace_of(key)) > self.steps_max
            && !names_more(spec, args)
    }

    /// The keyspace in which a key lies, if it is of this worker.
    fn keyspace_of(&self, key: &[u8]) -> Option<&Keyspace> {
        let index = self.local(group_of_key(self.groups, key))?;
        Some(self.replicas[index].keyspace())
    }

    /// Whether a program whose groups all live here and are free walks over more than the worker should.
    pub(crate) fn is_heavy_program(&self, program: &Program) -> bool {
        let steps = |operation: &Operation| operation.steps(&|key| self.keyspace_of(key));
        let all = program.operations().map(steps);
        all.fold(0, usize::saturating_add) > self.steps_max
    }

    /// Sends a single command aside.
    pub(crate) fn run_aside(&mut self, ticket: Ticket, operation: Operation) {
        // It is measured where it is carried out.
        self.timing.is_ours = false;
        let program = Program {
            items: vec![Item::Operation(operation)],
            conditions: Vec::new(),
            is_exec: false,
        };
        let extent = program.extent(self.groups);
        self.start_single(ticket, program, extent);
    }

    /// Every group has lent its values.
    pub(crate) fn send_errand(&mut self, errand: Errand) {
        self.errands.push(errand);
    }

    /// The errands that are to be run, for the driver.
    #[inline]
    pub fn take_errands(&mut self) -> Vec<Errand> {
        std::mem::take(&mut self.errands)
    }

    /// An errand was run.
    pub fn on_errand(&mut self, errand: Errand) {
        self.give_back(errand);
        self.pump();
    }

    /// Everything goes back to the groups.
    pub(crate) fn give_back(&mut self, errand: Errand) {
        let Errand {
            txn,
            mut scratch,
            replies,
            lacks,
            operations,
            times,
            ..
        } = errand;
        let counts = scratch.take_counts();
        let caller = self.caller_of(txn);
        for (operation, nanos) in operations.iter().zip(times) {
            self.note_time(operation.spec, nanos, operation.args.as_args(), caller);
        }
        let groups = self.groups;
        // Each group tells of its own keys: so what is told of one key keeps its order.
        let mut events: BTreeMap<GroupId, Vec<Event>> = BTreeMap::new();
        for event in scratch.take_events() {
            let group = group_of_key(groups, &event.key);
            events.entry(group).or_default().push(event);
        }
        let mut returned: BTreeMap<GroupId, Vec<Returned>> = BTreeMap::new();
        scratch.take_back(|one| {
            let group = group_of_key(groups, one.key());
            returned.entry(group).or_default().push(one);
        });
        let mut garbage = scratch.take_garbage();
        let mut counts = Some(counts);
        for group in self.groups_of(txn) {
            let request = Request::TakeBack {
                txn,
                returned: returned.remove(&group).unwrap_or_default(),
                events: events.remove(&group).unwrap_or_default(),
                garbage: std::mem::take(&mut garbage),
                counts: counts.take().unwrap_or_default(),
            };
            self.request(group, request);
        }
        self.end_lent(txn, replies, lacks);
    }
}

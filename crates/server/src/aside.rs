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
//! this kind. Two things still hold a worker up: an `EXEC` that has a `SORT` with patterns among its commands, and one
//! that has a command on the whole keyspace.

use crate::gateway::Gateway;
use crate::program::{Item, Program, group_of_key};
use command::{Route, Spec, Walks, number};
use ids::{Db, GroupId};
use keyspace::Event;
use replica::{ELEMENTS_MAX, FullKey, Operation, Replies, Request, Returned, Scratch, Ticket};
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

    /// Whether a program whose groups all live here and are free walks over more than the worker should.
    pub(crate) fn is_heavy_program(&self, program: &Program) -> bool {
        let is_walk = |operation: &&Operation| operation.spec.walks != Walks::Little;
        let weight = |operation: &Operation| {
            let (spec, args) = operation.words();
            self.weight(operation.db, spec, args)
        };
        let weights = program.operations().filter(is_walk).map(weight);
        weights.fold(0, usize::saturating_add) > ELEMENTS_MAX
    }

    /// Sends a single command aside.
    pub(crate) fn run_aside(&mut self, ticket: Ticket, operation: Operation) {
        self.timing.is_ours = false;
        let program = Program {
            items: vec![Item::Operation(operation)],
            conditions: Vec::new(),
            is_exec: false,
        };
        let extent = program.extent(self.groups);
        self.start_lent(ticket, program, extent);
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
        for group in self.groups_of(txn) {
            let request = Request::TakeBack {
                txn,
                returned: returned.remove(&group).unwrap_or_default(),
                events: events.remove(&group).unwrap_or_default(),
                garbage: std::mem::take(&mut garbage),
            };
            self.request(group, request);
        }
        self.end_lent(txn, replies, lacks);
    }
}

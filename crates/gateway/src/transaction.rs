//! What groups are asked and answer: of commands within one group that wait, or are one, and of transactions.
//!
//! A program over groups that all live here and are free is one step (`local_fast_path.rs`); one on keys of this worker and one other
//! is decided there (`last_agent.rs`); one within one group is sent there whole. Of any other the gateway is the coordinator:
//! `coordinator.rs`.
//!
//! What a connection sends behind a command over several groups may pass it, unless it names one of its keys:
//! then it waits, and sees what the command did. Behind an `EXEC` or a command on the whole keyspace everything
//! waits. Nor does a transaction begin before what its connection sent to one of its keys earlier: that may wait for locks,
//! and count as younger.

use crate::connection::Connection;
use crate::delivery::{Answered, Answers, Delivery};
use crate::gateway::{Gateway, touches};
use crate::idempotency::error_of;
use crate::message::Message;
use crate::program::{Extent, Item, Program};
use ids::GroupId;
use replica::{Journey, Operation, Output, Replies, ReplyTo, Request};
use resp::FrozenRope;
use resp::{Protocol, Writer};
use std::collections::BTreeMap;
use txn::{Priority, TxnId};

/// What one worker's gateway has asked groups, beside transactions. Bounded by its connections: each has a bounded number of these
/// under way.
#[derive(Default)]
pub(crate) struct Transactions {
    begun: u64,
    /// `EXEC` within one group, sent there whole.
    blocks: BTreeMap<(u64, u64), Program>,
}

impl Gateway {
    /// Begins a program: in one step if all its groups live here and are free.
    pub(crate) fn begin(&mut self, connection: &mut Connection, program: Program) {
        let extent = program.extent(self.context.groups);
        let can_run_here = program.request.is_none() && self.local.can_run_here(&program, &extent);
        let may_be_lent = |group: &GroupId| {
            self.local
                .index(*group)
                .is_some_and(|index| !self.local.replicas[index].awaits_log())
        };
        let is_heavy = can_run_here
            && program.can_be_offloaded()
            && extent.groups.iter().all(may_be_lent)
            && self.is_heavy_program(&program);
        if can_run_here && !is_heavy {
            return self.run_program_here(connection, &program);
        }
        let reply_to = self.reserve(connection);
        if program.is_exec || extent.is_whole {
            connection.session.is_waiting = true;
        } else {
            connection.session.busy.begin(program.slots());
        }
        if !is_heavy && self.may_combine(&program, &extent) {
            return self.combine(reply_to, program, extent);
        }
        let is_exec = program.is_exec;
        let touches = touches(&connection.session, command::CommandId::Exec.spec());
        let opened = if is_heavy {
            self.start_offload(reply_to, program, extent, false, touches)
        } else {
            self.start(reply_to, program, extent)
        };
        if !is_exec && let Some(seq) = opened {
            // It is noted when it is over: it may still have to be carried out elsewhere, and is measured there then.
            self.context.timing.is_ours = false;
            let spent = self.context.timing.spent();
            self.note_spent(seq, spent);
        }
    }

    /// Sends a program on its way whose groups do not all live here, or are not free; returns the transaction's number,
    /// if it is one.
    pub(crate) fn start(&mut self, reply_to: ReplyTo, program: Program, extent: Extent) -> Option<u64> {
        if program.request.is_some() {
            return self.start_named(reply_to, program, extent);
        }
        // Where there is one group only, and it decides in the order of its entries, it sees all of the keyspace by itself.
        let is_all = self.context.view.is_spread && self.context.groups.get() == 1;
        let is_on_keys = !extent.sees_whole() && !extent.wants;
        let reads_only = self.context.view.is_spread && !extent.writes;
        if let ([group], true) = (&extent.groups[..], (is_all || is_on_keys) && !reads_only) {
            let operations = program.operations().cloned().collect();
            let conditions = program.conditions.clone();
            self.transactions.blocks.insert(reply_to.place(), program);
            let block = Request::Block {
                reply_to,
                conditions,
                operations,
            };
            self.request(*group, block);
            return None;
        }
        self.start_transaction(reply_to, program, extent)
    }

    /// The same, of what its client has named.
    fn start_named(&mut self, reply_to: ReplyTo, program: Program, extent: Extent) -> Option<u64> {
        let request = program.request.expect("the caller looked");
        if let ([group], false) = (&extent.groups[..], extent.wants) {
            let operations = program.operations().cloned().collect();
            self.transactions.blocks.insert(reply_to.place(), program);
            let once = Request::Once {
                reply_to,
                request,
                operations,
            };
            self.request(*group, once);
            return None;
        }
        self.start_transaction(reply_to, program, extent)
    }

    /// The name and age of a new transaction.
    pub(crate) fn new_transaction(&mut self) -> (TxnId, Priority) {
        // Unique over the node's workers: two transactions of one age would each wait for the other.
        self.transactions.begun += 1;
        let workers = self.context.shared.workers.len() as u64;
        let (boot, seq) = (
            self.context.boot(),
            self.transactions.begun * workers + u64::from(self.context.worker),
        );
        let id = TxnId {
            boot,
            worker: self.context.worker,
            seq,
            attempt: 1,
        };
        let priority = Priority {
            began: self.context.turn.now,
            boot,
            seq,
        };
        (id, priority)
    }

    /// Asks a group something, wherever it lives.
    pub(crate) fn request(&mut self, group: GroupId, request: Request) {
        let Some(index) = self.local.index(group) else {
            let worker = self.local.owner(group);
            return self.outbox.send(
                worker,
                Message::Request {
                    group,
                    request: Box::new(request),
                },
            );
        };
        let mut outputs = Vec::new();
        if self.local.replicas[index].has_log() {
            self.ask_leader(index, request, &mut outputs);
            return self.outbox.outputs.extend(outputs);
        }
        self.local.replicas[index].handle(&self.context.turn, request, &mut outputs);
        self.tell(index);
        self.outbox.outputs.extend(outputs);
    }

    /// Carries on whatever the groups of this worker have answered.
    pub fn pump(&mut self) {
        while let Some(output) = self.outbox.outputs.pop_front() {
            let worker = match &output {
                Output::Replied { reply_to, .. }
                | Output::Answered { reply_to, .. }
                | Output::Waits { reply_to }
                | Output::TooLarge { reply_to, .. }
                | Output::Failed { reply_to, .. }
                | Output::FailedWatch { reply_to, .. }
                | Output::Versions { reply_to, .. } => reply_to.worker,
                Output::Locked { txn, .. }
                | Output::Voted { txn, .. }
                | Output::Resolved { txn, .. }
                | Output::FailedPart { txn, .. }
                | Output::Seen { txn, .. }
                | Output::Fetched { txn, .. }
                | Output::Wound { txn } => txn.worker,
                Output::QueriedTxn { worker, .. }
                | Output::Decided { worker, .. }
                | Output::Undecided { worker, .. } => *worker,
            };
            if worker == self.context.worker {
                self.on_output(output);
            } else {
                self.outbox.send(worker, Message::Output(Box::new(output)));
            }
            self.serve_waiters();
        }
    }

    /// The one dispatch of what groups answer.
    pub(crate) fn on_output(&mut self, output: Output) {
        match output {
            Output::Replied {
                reply_to,
                reply,
                journey,
            } => self.on_replied(reply_to, reply, journey),
            Output::Answered { reply_to, replies } => self.on_answered(reply_to, replies),
            Output::Versions { reply_to, versions } => self.on_versions(reply_to, versions),
            Output::Waits { reply_to } => self.on_waits(reply_to),
            Output::TooLarge { reply_to } => self.on_too_large(reply_to),
            Output::Locked {
                txn,
                group,
                is_logged,
                time,
                objects,
            } => self.on_locked(txn, group, is_logged, time, objects),
            Output::Voted {
                txn,
                group,
                vote,
                is_logged,
                replies,
            } => self.on_vote(txn, group, vote, is_logged, replies),
            Output::Seen { txn, group, seen } => self.on_seen(txn, group, seen),
            Output::Fetched {
                txn,
                group,
                objects,
                age,
                time,
            } => self.on_fetched(txn, group, objects, age, time),
            Output::QueriedTxn {
                txn,
                group,
                vote_record,
                ..
            } => self.on_queried_txn(txn, group, vote_record),
            Output::Decided {
                txn, group, replies, ..
            } => self.on_decided(txn, group, replies),
            Output::Undecided { txn, group, .. } => self.on_undecided(txn, group),
            Output::Resolved { txn, group, replies } => self.on_part_done(txn, group, replies),
            Output::Failed {
                reply_to,
                error,
                journey,
            } => self.on_failed(reply_to, error, journey),
            Output::FailedWatch { reply_to, error } => self.on_failed_watch(reply_to, error),
            Output::FailedPart { txn, error, .. } => self.on_failed_transaction(txn, error),
            Output::Wound { txn } => self.on_wound(txn),
        }
    }

    /// A group could not be asked, or what came of it is not known.
    fn on_failed(&mut self, reply_to: ReplyTo, error: &'static str, journey: Option<Journey>) {
        let mut bytes = Vec::new();
        Writer::new(&mut bytes, Protocol::Resp2).error(error);
        if self.on_tried(reply_to, &bytes) {
            return;
        }
        let Some(program) = self.transactions.blocks.remove(&reply_to.place()) else {
            let reply = bytes.into();
            return self.outbox.deliver(Delivery::Replied {
                reply_to,
                reply,
                journey,
            });
        };
        self.finish(reply_to, program, Answers::Failed(error));
    }

    /// A group could not be asked for the versions of keys. The client is told of the first one.
    fn on_failed_watch(&mut self, reply_to: ReplyTo, error: &'static str) {
        if self.watches.forget(reply_to) {
            let mut bytes = Vec::new();
            Writer::new(&mut bytes, Protocol::Resp2).error(error);
            self.outbox.deliver(Delivery::Awaited { reply_to, bytes });
        }
    }

    /// The leader of a command's group has answered it.
    fn on_replied(&mut self, reply_to: ReplyTo, reply: FrozenRope, journey: Option<Journey>) {
        // Nothing is shared with the reply of a command that was only tried: those pop.
        if !self.on_tried(reply_to, reply.bytes()) {
            self.outbox.deliver(Delivery::Replied {
                reply_to,
                reply,
                journey,
            });
        }
    }

    fn on_answered(&mut self, reply_to: ReplyTo, replies: Option<Replies>) {
        let Some(program) = self.transactions.blocks.remove(&reply_to.place()) else {
            let replies = replies.expect("a single command has no conditions");
            let bytes = replies.into_bytes();
            if self.on_tried(reply_to, &bytes) {
                return;
            }
            return self.outbox.deliver(Delivery::Reply { reply_to, bytes });
        };
        let sees_whole = |operation: &Operation| operation.spec.route != command::Route::Keys;
        let replies = match replies {
            None => Answers::Refused,
            Some(replies) if program.request.is_some() => match replies.into_once() {
                Ok(replies) => Answers::Whole(replies),
                Err(standing) => Answers::Failed(error_of(standing)),
            },
            // What a group answers to these is a part, though there is one only.
            Some(replies) if program.operations().any(sees_whole) => {
                let is_operation = |item: &Item| matches!(item, Item::Operation(_));
                let items = (0..program.items.len()).filter(|&at| is_operation(&program.items[at]));
                Answers::Parts(BTreeMap::from([(GroupId::new(0), (items.collect(), replies))]))
            }
            Some(replies) => Answers::Whole(replies),
        };
        let answered = Answered {
            reply_to,
            program,
            replies,
        };
        self.outbox.deliver(Delivery::Answered(Box::new(answered)));
    }

    /// Commands within one group would hold its worker up there.
    fn on_too_large(&mut self, reply_to: ReplyTo) {
        let program = self.transactions.blocks.remove(&reply_to.place());
        let program = program.expect("it waits for its group");
        let extent = program.extent(self.context.groups);
        self.start_offload(reply_to, program, extent, false, true);
    }

    fn finish(&mut self, reply_to: ReplyTo, program: Program, replies: Answers) {
        if self.ends_try(reply_to, &replies) {
            return;
        }
        self.outbox.deliver(Delivery::Answered(Box::new(Answered {
            reply_to,
            program,
            replies,
        })));
    }
}

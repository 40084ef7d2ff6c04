//! Commands on keys of this worker and one other, which can be split by keys: the other one decides.
//!
//! ```text
//!  own keys free? hold them --LastAgent: its part--> keys free? carry it out, at once
//!                           <--Decided: the reply---       else: nothing is done
//!  carry out one's own part, let go, answer          or: let go, begin as a transaction
//! ```
//!
//! A transaction over two groups costs each of them a scratch, a vote and a decision ([decision
//! 0008](../../../docs/decisions/0008-transactions-between-workers.md)). Where all of a command's groups are with two workers, and
//! its parts cannot fail, less will do: this worker holds its own keys, and asks the other one to carry its part out. That is the
//! decision. The locks of all keys are held at that moment, there for no longer than it takes, and none was let go before:
//! it is two-phase locking. Nobody waits while he holds, so nobody waits for ever. If a key is not free, here or there, the
//! command begins as any other transaction does (`router.rs`).
//!
//! What is read here is read when the answer has come, by a later clock than there. A key with a deadline may have expired by then, so
//! it is held alone, even to read: nobody has seen it after what was read there may have changed.
//!
//! The mailbox batches between two workers keep their order, and each part is answered at once: answers come in the order of
//! the parts, and what was decided is carried out here in the order in which it was decided there. So two commands that the
//! same worker decides may hold the same key.

use crate::connection::Connection;
use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::delivery::Delivery;
use crate::notify;
use crate::pipeline::Pipeline;
use crate::program::{Program, key_step};
use crate::pubsub::PubSub;
use command::{Command, CommandRoute, Flags, Spec, Spread};
use ids::Slot;
use mutations::Mutation;
use replica::{Asked, Operation, ReplyTo};
use resp::{Args, ReplyWriter};
use std::collections::VecDeque;
use txn::{Mode, Priority, TxnId};

/// What other workers are to decide as last agents, and have not. Bounded by the connections: each has a bounded number of
/// commands over several groups under way.
pub(crate) struct LastAgent {
    /// By worker, in the order in which they were sent.
    sent: Vec<VecDeque<Sent>>,
    /// Reused for replies.
    reply: Vec<u8>,
}

struct Sent {
    txn: TxnId,
    reply_to: ReplyTo,
    operation: Operation,
    /// Of its keys, in the order of its words.
    slots: Vec<Slot>,
    touches: bool,
    /// How often it may still be sent.
    tries: u8,
}

impl Sent {
    fn asked(&self) -> Asked<'_> {
        Asked {
            touches: self.touches,
            ..Asked::of(&self.operation)
        }
    }
}

impl LastAgent {
    /// How often a command is sent, before it begins as a transaction: a key is mostly held by one that is over sooner than
    /// a transaction would begin.
    const TRIES_MAX: u8 = 3;

    /// With fewer under way, a connection may have many of them.
    const FEW: usize = 64;

    /// Keys of a command. One with more begins as a transaction, whose locks are found by key and not by looking through a
    /// list.
    const KEYS_MAX: usize = 256;

    pub(crate) fn new(workers: usize) -> LastAgent {
        LastAgent {
            sent: (0..workers).map(|_| VecDeque::new()).collect(),
            reply: Vec::new(),
        }
    }

    /// Says whether parts were not sent in the order of their numbers, in which they are answered.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_ordered = |sent: &VecDeque<Sent>| {
            let numbers = sent.iter().map(|sent| sent.txn.seq);
            numbers.is_sorted_by(|a, b| a < b)
        };
        match self.sent.iter().position(|sent| !is_ordered(sent)) {
            None => Ok(()),
            Some(worker) => Err(format!(
                "worker {worker} has parts in another order than that of their numbers"
            )),
        }
    }

    /// Whether there are so many that more of them would mostly meet each other.
    pub(crate) fn is_busy(&self) -> bool {
        self.len() >= LastAgent::FEW
    }

    /// How many are under way.
    pub(crate) fn len(&self) -> usize {
        self.sent.iter().map(VecDeque::len).sum()
    }

    /// Whether none is.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.iter().all(VecDeque::is_empty)
    }
}

/// Whether a command is split by keys, and its parts cannot fail.
fn suits_last_agent(spec: &Spec, command: &Command<'_>) -> bool {
    let is_split = matches!(
        command,
        Command::MGet { .. }
            | Command::MSet { .. }
            | Command::Del { .. }
            | Command::Exists { .. }
            | Command::Touch { .. }
    );
    is_split && spec.route == CommandRoute::Keys && matches!(spec.spread, Spread::Split(_))
}

/// How a command uses its keys.
fn mode_of(spec: &Spec) -> Mode {
    if spec.flags.contains(Flags::WRITE) {
        Mode::Exclusive
    } else {
        Mode::Shared
    }
}

impl LastAgent {
    /// Sends a command on its way if the keys that do not live here are all another worker's, and those that do are free.
    /// `false`: nothing was done.
    pub(crate) fn send(
        &mut self,
        cx: &mut Context,
        coordinator: &mut Coordinator,
        connection: &mut Connection,
        spec: &'static Spec,
        args: Args<'_>,
        command: &Command<'_>,
    ) -> bool {
        if cx.outbox.posts.len() == 1 || cx.view.is_spread || !suits_last_agent(spec, command) {
            return false;
        }
        let step = key_step(spec);
        let words = (args.len() - 1) / step;
        if words > LastAgent::KEYS_MAX {
            return false;
        }
        let mut slots = Vec::with_capacity(words);
        slots.extend((1..args.len()).step_by(step).map(|at| Slot::of_key(args.arg(at))));
        let Some(worker) = decider(cx, spec, args, &slots) else {
            return false;
        };
        connection.session.in_flight.busy.begin(slots.iter().copied());
        let (txn, priority) = coordinator.new_transaction(cx);
        let sent = Sent {
            txn,
            reply_to: cx.reserve(connection),
            operation: connection.session.operation(spec, args),
            slots,
            touches: connection.session.touches(spec),
            tries: LastAgent::TRIES_MAX,
        };
        self.send_part(cx, worker, sent, priority);
        true
    }

    fn send_part(&mut self, cx: &mut Context, worker: u16, mut sent: Sent, priority: Priority) {
        let (spec, args) = sent.operation.argv();
        let (step, mode) = (key_step(spec), mode_of(spec));
        let keys = || (1..args.len()).step_by(step).zip(&sent.slots);
        for (at, &slot) in keys() {
            let index = cx.local.index(cx.groups.group_of(slot));
            if let Some(index) = index.filter(|_| !mutations::is(Mutation::LastAgentNotHeld)) {
                cx.local.replicas[index].hold(slot, args.arg(at), mode, worker, sent.txn, priority);
            }
        }
        let (groups, owners) = (cx.groups, &cx.local.owners);
        let is_theirs = |slot: Slot| owners[groups.group_of(slot).index()] == worker;
        let theirs = keys()
            .filter(|(_, slot)| is_theirs(**slot))
            .flat_map(|(at, _)| at..at + step);
        let words = std::iter::once(0).chain(theirs).map(|at| args.arg(at));
        cx.outbox
            .mailbox_batch(worker)
            .push_last_agent(sent.txn.seq, &sent.asked(), words);
        sent.tries -= 1;
        self.sent[usize::from(worker)].push_back(sent);
    }

    /// A part of another worker's command, whose keys all live here.
    pub(crate) fn on_part(
        &mut self,
        cx: &mut Context,
        pubsub: &mut PubSub,
        from: u16,
        seq: u64,
        asked: &Asked<'_>,
    ) {
        let (spec, args) = (asked.spec, asked.args);
        let (step, mode) = (key_step(spec), mode_of(spec));
        let is_free = (1..args.len()).step_by(step).all(|at| {
            let slot = Slot::of_key(args.arg(at));
            let index = cx.local.index(cx.groups.group_of(slot));
            index.is_some_and(|index| cx.local.replicas[index].is_key_free(slot, args.arg(at), mode, None))
        });
        if !is_free && !mutations::is(Mutation::LastAgentNotFree) {
            return cx.mailbox_batch(from).push_decided(seq, None);
        }
        let mut reply = std::mem::take(&mut self.reply);
        reply.clear();
        run_part(cx, asked, &[], &mut ReplyWriter::new(&mut reply, asked.protocol));
        // What has happened is told before it is answered.
        notify::tell_noted(cx, pubsub);
        cx.mailbox_batch(from).push_decided(seq, Some(&reply));
        reply.shrink_to(Pipeline::LARGE_BYTES);
        self.reply = reply;
    }

    /// The other worker has carried out its part, and answers it, or has not.
    pub(crate) fn on_decided(
        &mut self,
        cx: &mut Context,
        (coordinator, pubsub): (&mut Coordinator, &mut PubSub),
        from: u16,
        seq: u64,
        reply: Option<&[u8]>,
    ) {
        let sent = self.sent[usize::from(from)].pop_front();
        let sent = sent.filter(|sent| sent.txn.seq == seq);
        let mut sent = sent.expect("parts are answered once, in their order");
        let mut bytes = Vec::new();
        if let Some(reply) = reply {
            let mut out = ReplyWriter::new(&mut bytes, sent.operation.protocol);
            run_part(cx, &sent.asked(), reply, &mut out);
        }
        let mut outputs = Vec::new();
        let here = sent.slots.iter().map(|slot| cx.groups.group_of(*slot));
        let mut here: Vec<usize> = here.filter_map(|group| cx.local.index(group)).collect();
        here.sort_unstable();
        here.dedup();
        for index in here {
            cx.local.replicas[index].let_go(&cx.turn, sent.txn, &mut outputs);
            cx.local.note_events(index);
        }
        notify::tell_noted(cx, pubsub);
        cx.outbox.outputs.extend(outputs);
        let (reply_to, slots) = (sent.reply_to, std::mem::take(&mut sent.slots));
        if reply.is_some() {
            cx.stats.transactions.add(1);
            let answer = Delivery::LastAgent {
                reply_to,
                slots,
                bytes,
            };
            return cx.deliver(answer);
        }
        cx.stats.transaction_retries.add(1);
        let (spec, args) = sent.operation.argv();
        if sent.tries > 0
            && !cx.view.is_spread
            && let Some(worker) = decider(cx, spec, args, &slots)
        {
            let (txn, priority) = coordinator.new_transaction(cx);
            (sent.txn, sent.slots) = (txn, slots);
            return self.send_part(cx, worker, sent, priority);
        }
        let program = Program::single(sent.operation);
        cx.outbox.programs.push_back((reply_to, program));
    }
}

/// The other worker, if the keys that do not live here are all one's, and those that do are free.
fn decider(cx: &Context, spec: &Spec, args: Args<'_>, slots: &[Slot]) -> Option<u16> {
    let owners = slots.iter().map(|slot| cx.local.owner(cx.groups.group_of(*slot)));
    let mut others = owners.filter(|owner| *owner != cx.worker);
    let other = others.next()?;
    if !others.all(|owner| owner == other) {
        return None;
    }
    let mode = mode_of(spec);
    let is_free = |(at, slot): (usize, &Slot)| {
        let index = cx.local.index(cx.groups.group_of(*slot));
        index.is_none_or(|index| cx.local.replicas[index].is_key_free(*slot, args.arg(at), mode, Some(other)))
    };
    let keys = (1..args.len()).step_by(key_step(spec)).zip(slots);
    keys.into_iter().all(is_free).then_some(other)
}

/// Carries out what of a command is here; `elsewhere` is what the other worker has answered.
fn run_part(cx: &mut Context, asked: &Asked<'_>, elsewhere: &[u8], out: &mut ReplyWriter<'_>) {
    let (spec, args) = (asked.spec, asked.args);
    let parse = spec.parse.expect("a command on keys has a parser");
    let command = parse(args).expect("it was parsed as a whole, and any keys of it will do");
    let Spread::Split(merge) = spec.spread else {
        unreachable!("only what can be split has a last agent");
    };
    if !asked.touches {
        cx.local.touch(false);
    }
    crate::local_fast_path::run_split(cx, asked.db, spec, args, merge, &command, elsewhere, out);
    if !asked.touches {
        cx.local.touch(true);
    }
}

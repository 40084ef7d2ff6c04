//! What waits for this worker's own connections: answers to what they asked, and messages.
//!
//! The gateway puts deliveries into a line, and the driver hands them to connections one by one, since only it can find
//! them.

use crate::commands::{self, info};
use crate::connection::Connection;
use crate::gateway::Gateway;
use crate::key_counts::KeyCounts;
use crate::multi::note_watched;
use crate::program::{Item, Program, merge};
use crate::pubsub::Listeners;
use crate::script_ahead::{self, Ran};
use crate::session::{Session, Watched};
use crate::timing::Caller;
use command::{Command, CommandId, ReplyError};
use ids::{GroupId, Groups, Slot};
use replica::{Journey, Operation, Replies, ReplyTo};
use resp::{ArgsBuf, FrozenRope, Protocol, ReplyWriter};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An answer for a connection of this worker.
pub enum Delivery {
    /// The reply to a command that went to its group's leader.
    Replied {
        /// Where it goes.
        reply_to: ReplyTo,
        /// Its bytes.
        reply: FrozenRope,
        /// What it took, if that was not noted elsewhere.
        journey: Option<Journey>,
    },
    /// A finished reply.
    Reply {
        /// Where it goes.
        reply_to: ReplyTo,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A program whose groups have answered; the gateway's own commands in it are still to run.
    Answered(Box<Answered>),
    /// The answer of a client that waited for a key to be filled.
    Unblocked {
        /// Where it goes.
        reply_to: ReplyTo,
        /// What it waited for.
        operation: Operation,
        /// Nanoseconds of work for it.
        nanos: u64,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A finished reply that the connection waits for before it goes on.
    Awaited {
        /// Where it goes.
        reply_to: ReplyTo,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// The reply to a command that another worker has decided: the connection is not waiting for it.
    LastAgent {
        /// Where it goes.
        reply_to: ReplyTo,
        /// The slots of its keys.
        slots: Vec<Slot>,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// All that a script has named is known, and its effects are on their way: what its connection has sent behind it may go on, on other keys.
    Passable {
        /// Where its reply will go.
        reply_to: ReplyTo,
        /// The slots of these keys.
        slots: Vec<Slot>,
    },
    /// Another worker has run a script of this connection ahead.
    RanAhead {
        /// Where its reply will go.
        reply_to: ReplyTo,
        /// What came of it.
        ran: Box<Ran>,
    },
    /// The versions of `WATCH`.
    Watched {
        /// Where the reply goes.
        reply_to: ReplyTo,
        /// To be remembered.
        watched: Vec<Watched>,
    },
    /// Every worker has refreshed its figures: `INFO` can be written.
    Info {
        /// Where the reply goes.
        reply_to: ReplyTo,
        /// The command.
        args: ArgsBuf,
        /// How many keys there are.
        counts: KeyCounts,
    },
    /// A message for connections that listen.
    Message {
        /// Their tokens.
        listeners: Listeners,
        /// Its bytes, as RESP2 has them.
        message: Arc<[u8]>,
    },
    /// There was nothing for a client that hung up while its command was tried.
    HungUp {
        /// To be looked at again.
        connection: u64,
    },
    /// Look for connections that `CLIENT KILL` marked.
    Reap,
}

/// See [`Delivery::Answered`].
pub struct Answered {
    pub(crate) reply_to: ReplyTo,
    pub(crate) program: Program,
    pub(crate) replies: Answers,
    /// Who hosted what for those who answered. More may be known by now.
    pub(crate) hosts: Groups,
}

/// What groups answered to the operations of a program.
pub(crate) enum Answers {
    /// A condition did not hold.
    Refused,
    /// It cannot be done, and was not.
    Failed(&'static str),
    /// Parts by group, to be merged.
    Parts(BTreeMap<GroupId, (Vec<usize>, Replies)>),
    /// One whole reply for each operation.
    Whole(Replies),
    /// Of a program that was carried out in steps.
    Mixed {
        /// Items with their whole replies.
        evaluated: (Vec<usize>, Replies),
        /// Parts by group of the others, to be merged.
        parts: BTreeMap<GroupId, (Vec<usize>, Replies)>,
    },
}

impl Delivery {
    /// The connection it is for; `None` for all.
    pub fn connection(&self) -> Option<u64> {
        match self {
            Delivery::Replied { reply_to, .. }
            | Delivery::Reply { reply_to, .. }
            | Delivery::Unblocked { reply_to, .. }
            | Delivery::Awaited { reply_to, .. }
            | Delivery::LastAgent { reply_to, .. }
            | Delivery::Passable { reply_to, .. }
            | Delivery::RanAhead { reply_to, .. }
            | Delivery::Watched { reply_to, .. }
            | Delivery::Info { reply_to, .. } => Some(reply_to.connection),
            Delivery::Answered(answered) => Some(answered.reply_to.connection),
            Delivery::HungUp { connection } => Some(*connection),
            Delivery::Message { .. } | Delivery::Reap => None,
        }
    }
}

/// Gives a connection an answer that it waited for.
pub(crate) fn deliver(gateway: &mut Gateway, connection: &mut Connection, delivery: Delivery) {
    give(gateway, connection, delivery);
    script_ahead::look_again(gateway, connection);
}

fn give(gateway: &mut Gateway, connection: &mut Connection, delivery: Delivery) {
    let session = &mut connection.session;
    let mut bytes = Vec::new();
    let reply_to = match delivery {
        Delivery::Replied {
            reply_to,
            reply,
            journey,
        } => {
            // A reply begins with bytes of its own.
            gateway.cx.look_at_reply(None, reply.bytes());
            if let Some(journey) = journey {
                gateway.cx.note_journey(&journey, reply.bytes(), &session.info);
            }
            return connection.pipeline.complete_shared(reply_to.sequence, reply);
        }
        Delivery::Reply { reply_to, bytes } => {
            gateway.cx.look_at_reply(None, &bytes);
            return connection.pipeline.complete_with(reply_to.sequence, bytes);
        }
        Delivery::LastAgent {
            reply_to,
            slots,
            bytes,
        } => {
            gateway.cx.look_at_reply(None, &bytes);
            // What waits for its keys may go on.
            session.in_flight.busy.end(slots.into_iter());
            return connection.pipeline.complete_with(reply_to.sequence, bytes);
        }
        Delivery::Passable { reply_to, slots } => {
            session.in_flight.pass(reply_to.sequence, slots);
            connection.pipeline.let_go(reply_to.sequence);
            return script_ahead::on_passable(gateway, connection, reply_to.sequence);
        }
        Delivery::RanAhead { reply_to, ran } => {
            return script_ahead::on_ran(gateway, connection, reply_to, *ran);
        }
        Delivery::Unblocked {
            reply_to,
            operation,
            nanos,
            bytes: mut reply,
        } => {
            session.info.set_blocked(false);
            let (spec, args) = operation.argv();
            gateway.cx.look_at_reply(Some(spec), &reply);
            gateway
                .cx
                .note_time(spec, nanos, args, Caller::Here(&session.info));
            bytes.append(&mut reply);
            reply_to
        }
        Delivery::Answered(answered) => {
            let Answered {
                reply_to,
                program,
                replies,
                hosts,
            } = *answered;
            gateway.maxmemory.note_flush(&gateway.cx.shared, &program);
            match replies {
                // As it is: it may be very long.
                Answers::Whole(replies) if !program.is_exec => {
                    bytes = replies.into_bytes();
                    let spec = program.operations().next().map(|operation| operation.spec);
                    gateway.cx.look_at_reply(spec, &bytes);
                }
                replies => write_answer(gateway, session, &program, (&replies, hosts), &mut bytes),
            }
            if program.is_exec {
                let exec = ArgsBuf::from_slices(["exec"]);
                gateway.show(session, session.db, CommandId::Exec.spec(), exec.as_args());
            }
            if session.in_flight.end_passed(reply_to.sequence) {
                // A script that came behind it may be waited for.
                return connection.pipeline.complete_with(reply_to.sequence, bytes);
            }
            let is_waited_for = program.is_exec || program.scripted.is_some();
            if !is_waited_for && !session.in_flight.busy.is_empty() {
                // One of several: what waits for its keys may go on.
                session.in_flight.busy.end(program.slots());
            }
            reply_to
        }
        Delivery::Awaited {
            reply_to,
            bytes: mut reply,
        } => {
            gateway.cx.look_at_reply(None, &reply);
            bytes.append(&mut reply);
            reply_to
        }
        Delivery::Watched {
            reply_to,
            mut watched,
        } => {
            session.watched.append(&mut watched);
            note_watched(session);
            ReplyWriter::new(&mut bytes, session.protocol).ok();
            reply_to
        }
        Delivery::Info {
            reply_to,
            args,
            counts,
        } => {
            let mut w = ReplyWriter::new(&mut bytes, session.protocol);
            gateway.refresh_stats();
            info::info(
                &gateway.cx,
                session.endpoint,
                args.as_args(),
                Some(&counts),
                &mut w,
            );
            reply_to
        }
        // The driver asks again whether to close it.
        Delivery::HungUp { .. } => return,
        Delivery::Message { .. } | Delivery::Reap => unreachable!("the driver hands it out itself"),
    };
    session.in_flight.is_waiting = false;
    debug_assert_eq!(session.in_flight.check(), Ok(()));
    connection.pipeline.complete_with(reply_to.sequence, bytes);
}

fn write_answer(
    gateway: &mut Gateway,
    session: &mut Session,
    program: &Program,
    (replies, hosts): (&Answers, Groups),
    out: &mut Vec<u8>,
) {
    match replies {
        Answers::Refused => return refused(program, session.protocol, out),
        Answers::Failed(error) => return ReplyWriter::new(out, session.protocol).error(error),
        Answers::Parts(_) | Answers::Whole(_) | Answers::Mixed { .. } => {}
    }
    if program.is_exec {
        ReplyWriter::new(out, session.protocol).array(program.items.len());
    }
    let (whole, parts) = match replies {
        Answers::Whole(replies) => (whole_replies(program.operation_items(), replies), None),
        Answers::Parts(parts) => (BTreeMap::new(), Some(parts)),
        Answers::Mixed { evaluated, parts } => {
            let (items, replies) = evaluated;
            (whole_replies(items.iter().copied(), replies), Some(parts))
        }
        Answers::Refused | Answers::Failed(_) => unreachable!("they were answered"),
    };
    for (index, item) in program.items.iter().enumerate() {
        let start = out.len();
        let operation = match item {
            Item::Connection(queued) => {
                gateway.cx.count(queued.spec);
                commands::run_own(gateway, session, queued.spec, queued.args.as_args(), out);
                gateway.show(session, session.db, queued.spec, queued.args.as_args());
                gateway.cx.look_at_reply(Some(queued.spec), &out[start..]);
                continue;
            }
            Item::Operation(operation) => operation,
        };
        if program.is_exec {
            gateway.cx.count(operation.spec);
            gateway.show(session, operation.db, operation.spec, operation.args.as_args());
        }
        if let Some(reply) = whole.get(&index) {
            out.extend_from_slice(reply);
            gateway.cx.look_at_reply(Some(operation.spec), &out[start..]);
            continue;
        }
        let mut found = Vec::new();
        for (group, (items, replies)) in parts.into_iter().flatten() {
            if let Some(at) = items.iter().position(|item| *item == index) {
                found.extend(replies.iter().nth(at).map(|reply| (*group, reply)));
            }
        }
        let mut writer = ReplyWriter::new(out, operation.protocol);
        match operation.parse() {
            Err(error) => error.write(&mut writer),
            // Its parts were MSETs, and that none of the keys existed was a condition.
            Ok(Command::MSetNx { .. }) if !program.is_exec => writer.integer(1),
            Ok(command) => {
                let bytes_max = match command.writes() {
                    true => usize::MAX,
                    false => gateway.cx.turn.answers_bytes_max,
                };
                let bound = writer.bound(bytes_max);
                merge(operation, hosts, &found, &mut gateway.cx.prng, &mut writer);
                if !writer.end_bound(bound) {
                    ReplyError::RepliesTooLong.write(&mut writer);
                }
            }
        }
        gateway.cx.look_at_reply(Some(operation.spec), &out[start..]);
    }
}

/// Replies by their items.
fn whole_replies(items: impl Iterator<Item = usize>, replies: &Replies) -> BTreeMap<usize, &[u8]> {
    items.zip(replies.iter()).collect()
}

/// The answer when a condition did not hold: nil to `EXEC`, 0 to `MSETNX`.
pub(crate) fn refused(program: &Program, protocol: Protocol, out: &mut Vec<u8>) {
    let mut writer = ReplyWriter::new(out, protocol);
    if program.is_exec {
        writer.null_array()
    } else {
        writer.integer(0)
    }
}

//! Scripts of one connection that run before it is known what those before them name.
//!
//! ```text
//!   first   sent to the worker of its keys -----> sent to its group, or a program --> passable, or answered
//!   second  runs here, on copies --------------------------------------------------------> sent to its group --> ..
//!   third   runs at the worker of its keys, on copies --> back, and waits for its turn ------------------------> ..
//! ```
//!
//! A script may come to name any key, so nothing that its connection has sent behind it may have done anything before it is known what it
//! names. While another worker runs it, that is a message and its answer later, for each script of a pipeline. But to run on copies
//! (`script_on_copies.rs`) is to do nothing: the scripts behind it run meanwhile, wherever their keys are, and what came of each is sent to
//! its group in the order of the connection, when that of the one before it is known. The versions that it was shown are judged
//! there, as always.
//!
//! Invariants:
//! 1. What came of a script is sent to its group only when those before it are passable or answered.
//! 2. No two of them declare keys of one slot; nor does a script that others may pass, as `in_flight.rs` looks at that.

use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::gateway::Gateway;
use crate::message::Message;
use crate::pipeline::Pipeline;
use crate::script_at_once::{on_unsuited, worker_for};
use crate::script_on_copies::{Copied, Sending, run_on_copies, send, slots_of};
use crate::script_program::keeps_libraries;
use crate::session::Session;
use crate::short_script::Called;
use command::{CommandId, CommandRoute, Spec};
use ids::Slot;
use mutations::Mutation;
use replica::{Asked, Operation, ReplyTo};
use resp::Args;
use std::collections::VecDeque;

/// Scripts of one connection that may run ahead at a time. What stands behind them waits.
const BEHIND_MAX: usize = 64;

/// The scripts of a connection that have run ahead, and the one that they stand behind.
#[derive(Default)]
pub(crate) struct ScriptsAhead {
    /// The place of the one of which is not known what it names, and the slots of the keys that it declares.
    first: Option<(u64, Vec<Slot>)>,
    /// In the order of the connection.
    behind: VecDeque<Behind>,
}

/// A script behind another one.
struct Behind {
    reply_to: ReplyTo,
    slots: Vec<Slot>,
    /// `None` until its worker has answered.
    ran: Option<Ran>,
}

/// A script that was run ahead, on copies.
pub struct Ran {
    operation: Box<Operation>,
    outcome: Outcome,
}

enum Outcome {
    /// What its group is to judge.
    Copied(Box<Copied>),
    /// It begins as a program.
    Unsuited {
        /// Whether it will do so the next time.
        is_by_nature: bool,
        /// Whether what the replica here has applied will not do.
        asks_leaders: bool,
    },
}

impl ScriptsAhead {
    /// Whether what the connection sends now stands behind a script of which is not known what it names.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.first.is_some()
    }

    /// How many scripts these are.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.behind.len()
    }

    /// A script is sent to the worker of its keys.
    pub(crate) fn begin(&mut self, reply_to: ReplyTo, slots: Vec<Slot>) {
        self.first = Some((reply_to.sequence, slots));
    }

    fn has_slot(&self, slot: Slot) -> bool {
        let first = self.first.iter().map(|(_, slots)| slots);
        let mut all = first.chain(self.behind.iter().map(|behind| &behind.slots));
        all.any(|slots| slots.contains(&slot))
    }

    /// Whether the one that the others stand behind is answered, and they were not told.
    #[inline]
    pub(crate) fn may_go_on(&self, pipeline: &Pipeline) -> bool {
        let first = self.first.as_ref();
        first.is_some_and(|(sequence, _)| pipeline.is_answered(*sequence))
    }
}

/// Whether scripts behind one that is sent to another worker may run before it is known what that one names.
pub(crate) fn may_begin(gateway: &Gateway, session: &Session) -> bool {
    // Of a node alone they are carried out at once, also where that is kept, and there is more than copies. And with `CLIENT NO-TOUCH`
    // nothing passes them.
    !gateway.cx.view.may_run_at_once(false)
        && session.endpoint == Endpoint::AnyNode
        && session.touches(CommandId::Exec.spec())
}

/// Whether a command may stand behind such a script and run.
pub(crate) fn may_join(session: &Session, spec: &Spec, args: Args<'_>) -> bool {
    let ahead = &session.in_flight.ahead;
    let mut is_apart = true;
    if spec.route != CommandRoute::Script
        || keeps_libraries(spec.id)
        || ahead.behind.len() >= BEHIND_MAX
        || session.block.is_some()
    {
        return false;
    }
    command::keys(spec, args, &mut |position, _| {
        is_apart = is_apart && !ahead.has_slot(Slot::of_key(args.arg(position)));
    });
    is_apart
}

/// A script that stands behind others runs on copies, here or at the worker of its keys.
pub(crate) fn run_ahead(gateway: &mut Gateway, connection: &mut Connection, called: &mut Called<'_>) {
    let (spec, args) = (called.spec, called.args);
    let worker = worker_for(gateway, called);
    let ran = match worker {
        Some(_) => None,
        None => {
            called.is_out_of_memory = !gateway.make_room();
            let operation = connection.session.operation(spec, args);
            Some(run(gateway, called, operation))
        }
    };
    let cx = &mut gateway.cx;
    cx.timing.is_ours = false;
    let reply_to = cx.reserve(connection);
    if let Some(worker) = worker {
        let asked = connection.session.asked(spec, args, false, cx.frame.as_ref());
        cx.outbox.mailbox_batch(worker).push_ahead(reply_to, &asked);
    }
    let slots = slots_of(spec, args);
    match ran {
        Some(ran) if mutations::is(Mutation::AheadOfTurn) => {
            send_next(gateway, connection, reply_to, slots, ran);
        }
        ran => {
            let behind = Behind { reply_to, slots, ran };
            connection.session.in_flight.ahead.behind.push_back(behind);
        }
    }
}

fn run(gateway: &mut Gateway, called: &Called<'_>, operation: Operation) -> Ran {
    let ran = run_on_copies(gateway, called, operation.protocol);
    let operation = Box::new(operation);
    let outcome = match ran {
        Ok(copied) => Outcome::Copied(Box::new(copied)),
        Err(sending) => Outcome::Unsuited {
            is_by_nature: sending == Sending::TooLong,
            asks_leaders: sending == Sending::InVain,
        },
    };
    Ran { operation, outcome }
}

/// A script of another worker's connection, all of whose keys are here, runs ahead.
pub(crate) fn on_ahead(gateway: &mut Gateway, from: u16, reply_to: ReplyTo, asked: &Asked<'_>) {
    let called = Called {
        spec: asked.spec,
        args: asked.args,
        db: asked.db,
        is_out_of_memory: !gateway.make_room(),
        is_in_cluster: false,
    };
    let ran = Box::new(run(gateway, &called, asked.to_operation()));
    // It is measured where its connection is.
    gateway.cx.timing.is_ours = false;
    gateway.cx.send(from, Message::RanAhead { reply_to, ran });
}

/// Another worker has run a script ahead.
pub(crate) fn on_ran(gateway: &mut Gateway, connection: &mut Connection, reply_to: ReplyTo, ran: Ran) {
    let ahead = &mut connection.session.in_flight.ahead;
    let is_first = ahead
        .first
        .as_ref()
        .is_some_and(|(first, _)| *first == reply_to.sequence);
    if is_first {
        let (_, slots) = ahead.first.take().expect("it was just looked at");
        if !send_next(gateway, connection, reply_to, slots, ran) {
            return;
        }
        return go_on(gateway, connection);
    }
    let mut behind = ahead.behind.iter_mut();
    let its = behind.find(|behind| behind.reply_to.sequence == reply_to.sequence);
    its.expect("it stands there until it was sent").ran = Some(ran);
}

/// The script that others stand behind may be passable, or answered: whatever has run behind it is sent.
pub(crate) fn look_again(gateway: &mut Gateway, connection: &mut Connection) {
    if connection.session.in_flight.ahead.may_go_on(&connection.pipeline) {
        end_first(gateway, connection);
    }
}

/// The script of this place is passable.
pub(crate) fn on_passable(gateway: &mut Gateway, connection: &mut Connection, sequence: u64) {
    let first = &connection.session.in_flight.ahead.first;
    if first.as_ref().is_some_and(|(first, _)| *first == sequence) {
        end_first(gateway, connection);
    }
}

fn end_first(gateway: &mut Gateway, connection: &mut Connection) {
    connection.session.in_flight.ahead.first = None;
    go_on(gateway, connection);
}

/// Sends what has run, as far as it is known what all before it name.
fn go_on(gateway: &mut Gateway, connection: &mut Connection) {
    while let Some(next) = connection.session.in_flight.ahead.behind.pop_front() {
        let Behind { reply_to, slots, ran } = next;
        let Some(ran) = ran else {
            connection.session.in_flight.ahead.first = Some((reply_to.sequence, slots));
            return;
        };
        if !send_next(gateway, connection, reply_to, slots, ran) {
            return;
        }
    }
}

/// Sends what came of a script. `false`: it is waited for.
fn send_next(
    gateway: &mut Gateway,
    connection: &mut Connection,
    reply_to: ReplyTo,
    slots: Vec<Slot>,
    ran: Ran,
) -> bool {
    let Ran { operation, outcome } = ran;
    let in_flight = &mut connection.session.in_flight;
    match outcome {
        Outcome::Copied(copied) => {
            // What it publishes is told in the order of the connection.
            let is_passed = !copied.publishes();
            match is_passed {
                true => in_flight.pass(reply_to.sequence, slots),
                false => in_flight.ahead.first = Some((reply_to.sequence, slots)),
            }
            send(gateway, reply_to, *operation, *copied, is_passed);
            is_passed
        }
        Outcome::Unsuited {
            is_by_nature,
            asks_leaders,
        } => {
            in_flight.ahead.first = Some((reply_to.sequence, slots));
            on_unsuited(gateway, reply_to, *operation, is_by_nature, asks_leaders);
            false
        }
    }
}

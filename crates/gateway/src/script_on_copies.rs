//! A script whose keys are in one group with a log: it runs within the turn in which it came, on copies of what the replica here has
//! applied, and one entry carries out what came of it.
//!
//! ```text
//!   send_on_copies --its keys are here, and small--> call by call, on a scratch --over--> OnePhase to its group
//!        |                                             |                                    |          |
//!        v                                             v                              nothing changed  something has
//!   it begins as a program (`script_run.rs`) <--another way is to be found                  v          v
//!        ^                                                                              answered   as a program
//!        +-----------------------------------------------------------------------------------------------+
//! ```
//!
//! What the replica here has applied may be behind, so the entry names the versions that the script was shown. It is judged by them, and
//! by nothing else; what came of a script is told to nobody before that. A script that wrote nothing has no entry: it begins as a program,
//! which asks the leader.
//!
//! Invariant: each key on the scratch is among those that the entry expects to be unchanged.

use crate::connection::Connection;
use crate::context::Context;
use crate::coordinator::{Coordinator, CopiedScript, is_short, may_be_one_phase_here};
use crate::delivery::Delivery;
use crate::evaluation::changes_of;
use crate::gateway::Gateway;
use crate::library_keys::{self, Stamp};
use crate::library_set::LibrarySet;
use crate::program::{Program, group_of_key};
use crate::script_program::{Resolved, Scripted, resolve};
use crate::script_run::log_lines;
use crate::session::Queued;
use crate::short_script::{
    self, BYTES_PER_INSTRUCTION, Begun, Called, Ground, ShortScript, Unsuited, charge_steps,
};
use command::{Command, CommandId, Spec};
use ids::{Db, GroupId, Slot, UnixMillis};
use keyspace::{Effect, Object};
use mutations::Mutation;
use replica::{Call, Condition, Operation, Replica, Replies, ReplyTo, Scratch};
use resp::{Args, Protocol, ReplyWriter};
use std::sync::Arc;

/// Keys that a script may declare here: they are looked through for each command.
const DECLARED_MAX: usize = 128;

/// Declared and seen keys that are compared for one instruction.
const KEYS_PER_INSTRUCTION: usize = 8;

/// Copies of what a replica has applied, as far as commands have named it.
struct Copies<'a> {
    replica: &'a Replica,
    scratch: &'a mut Scratch,
    /// By which it is judged whether a value ends soon.
    time: UnixMillis,
    declared: &'a [&'a [u8]],
    /// What was copied is to be unchanged.
    expects: Vec<Condition>,
}

/// What became of a script that may have been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sending {
    /// Its group is to judge what came of it.
    Sent,
    /// It did not run.
    Untried,
    /// What the replica here has applied will not do: the leader is to be asked.
    InVain,
    /// It is not short, and will not be the next time.
    TooLong,
}

/// What came of a script that its group is to judge.
pub struct Copied {
    group: GroupId,
    expects: Vec<Condition>,
    effects: Vec<Effect>,
    published: Vec<Queued>,
    /// What it answers.
    replies: Replies,
    /// The script, in case it has to run again.
    resolved: Resolved,
    /// When it began, by the clock that commands are timed by.
    came_at: u64,
}

impl Copied {
    /// Whether it has told channels something.
    pub(crate) fn publishes(&self) -> bool {
        !self.published.is_empty()
    }
}

/// Runs a script here and sends its group what came of it, if that can be done. If not, nothing has happened.
pub(crate) fn send_on_copies(
    gateway: &mut Gateway,
    connection: &mut Connection,
    called: &Called<'_>,
) -> Sending {
    let protocol = connection.session.protocol;
    let copied = match run_if(gateway, called, protocol, Coordinator::may_read_old) {
        Ok(copied) => copied,
        Err(sending) => return sending,
    };
    let cx = &mut gateway.cx;
    cx.timing.is_ours = false;
    let reply_to = cx.reserve(connection);
    let session = &mut connection.session;
    // With `CLIENT NO-TOUCH` nothing passes it.
    let touches = session.touches(CommandId::Exec.spec());
    let is_passed = connection.has_more && touches && copied.published.is_empty();
    if is_passed {
        session
            .in_flight
            .pass(reply_to.sequence, slots_of(called.spec, called.args));
    } else {
        session.in_flight.is_waiting = true;
    }
    let mut program = Program::single(session.operation(called.spec, called.args));
    program.scope = cx.scope(session);
    send_program(gateway, reply_to, program, copied, is_passed);
    Sending::Sent
}

/// Whether a script may run on copies at the worker of its keys, as far as this one knows.
pub(crate) fn may_run_on_copies(gateway: &mut Gateway, spec: &'static Spec, args: Args<'_>) -> bool {
    let Gateway { cx, coordinator, .. } = gateway;
    may_be_one_phase_here(cx)
        && match resolve(cx, spec.id, args, false) {
            Resolved::Script(script, rules) => !rules.is_read_only && !cx.scripts.roams(&script),
            Resolved::Function { is_read_only } => !is_read_only && !cx.scripts.function_roams(args.arg(1)),
            Resolved::Libraries | Resolved::Unknown(_) | Resolved::Long | Resolved::Refused(_) => false,
        }
        && coordinator.may_read_old()
}

/// Runs a script of another worker's connection on copies. Nothing is sent: that is for its own worker to do, which has asked whether it may
/// be tried ([`may_run_on_copies`]), and hears how it went.
///
/// # Errors
/// Nothing has happened, and another way is to be found.
pub(crate) fn run_for_other(
    gateway: &mut Gateway,
    called: &Called<'_>,
    protocol: Protocol,
) -> Result<Box<Copied>, Sending> {
    run_if(gateway, called, protocol, |_| true).map(Box::new)
}

/// The worker of all keys of a script has run it.
pub(crate) fn on_copied(
    gateway: &mut Gateway,
    reply_to: ReplyTo,
    operation: Operation,
    touches: bool,
    copied: Copied,
) {
    let is_passed = touches && copied.published.is_empty();
    if is_passed {
        let slots = slots_of(operation.spec, operation.args.as_args());
        gateway.cx.deliver(Delivery::Passable { reply_to, slots });
    }
    send(gateway, reply_to, operation, copied, is_passed);
}

/// Sends a group what came of a script. `is_passed`: what stands behind it does not wait for it.
pub(crate) fn send(
    gateway: &mut Gateway,
    reply_to: ReplyTo,
    operation: Operation,
    copied: Copied,
    is_passed: bool,
) {
    send_program(gateway, reply_to, Program::single(operation), copied, is_passed);
}

fn send_program(
    gateway: &mut Gateway,
    reply_to: ReplyTo,
    mut program: Program,
    copied: Copied,
    is_passed: bool,
) {
    let Copied {
        group,
        expects,
        effects,
        published,
        replies,
        resolved,
        came_at,
    } = copied;
    program.scripted = Some(Box::new(Scripted::of_one(resolved, published)));
    let Gateway { cx, coordinator, .. } = &mut *gateway;
    let script = CopiedScript::new(reply_to, program, replies, came_at, cx.now);
    coordinator.send_copied(cx, group, script, expects, effects, is_passed);
    gateway.route();
}

/// The slots of the keys that a script declares.
pub(crate) fn slots_of(spec: &Spec, args: Args<'_>) -> Vec<Slot> {
    let mut slots = Vec::new();
    command::keys(spec, args, &mut |position, _| {
        slots.push(Slot::of_key(args.arg(position)))
    });
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// Runs a script whose keys are here on copies. Nothing is sent.
///
/// # Errors
/// Nothing has happened, and another way is to be found.
pub(crate) fn run_on_copies(
    gateway: &mut Gateway,
    called: &Called<'_>,
    protocol: Protocol,
) -> Result<Copied, Sending> {
    run_if(gateway, called, protocol, Coordinator::may_read_old)
}

fn run_if(
    gateway: &mut Gateway,
    called: &Called<'_>,
    protocol: Protocol,
    may_be_old: impl FnOnce(&mut Coordinator) -> bool,
) -> Result<Copied, Sending> {
    let Gateway { cx, coordinator, .. } = &mut *gateway;
    if !may_be_one_phase_here(cx) || called.is_out_of_memory {
        return Err(Sending::Untried);
    }
    let mut declared = Vec::new();
    command::keys(called.spec, called.args, &mut |position, _| {
        declared.push(called.args.arg(position));
    });
    let (group, index) = place_of(cx, &declared).ok_or(Sending::Untried)?;
    let came_at = cx.timing.now();
    let libraries = |cx: &mut Context| libraries_here(cx, called, index);
    let begun = short_script::begin(cx, called, libraries).map_err(|_| Sending::Untried)?;
    let refused = match () {
        // What stands behind it would not know what it names.
        () if begun.body.roams(&cx.scripts) => Some(Sending::Untried),
        // Nothing comes of it that a group could judge.
        () if begun.rules.is_read_only => Some(Sending::InVain),
        () if !may_be_old(coordinator) => Some(Sending::InVain),
        () => None,
    };
    if let Some(refused) = refused {
        cx.scripts.runner.let_go(begun.run);
        return Err(refused);
    }
    let resolved = begun.resolved(called.spec);
    let mut copied = Copied {
        group,
        expects: Vec::new(),
        effects: Vec::new(),
        published: Vec::new(),
        replies: Replies::default(),
        resolved,
        came_at,
    };
    match run(gateway, called, begun, (index, &declared), protocol, &mut copied) {
        Ok(()) => Ok(copied),
        Err(Unsuited::ForNow | Unsuited::PutOff) => Err(Sending::InVain),
        Err(Unsuited::ByNature) => Err(Sending::TooLong),
    }
}

/// The one group of keys, if it has a replica here that may be asked, and where.
fn place_of(cx: &Context, declared: &[&[u8]]) -> Option<(GroupId, usize)> {
    let mut groups = declared.iter().map(|key| group_of_key(cx.groups, key));
    let group = groups.next()?;
    if declared.len() > DECLARED_MAX || groups.any(|other| other != group) {
        return None;
    }
    let index = cx.local.index(group)?;
    let replica = &cx.local.replicas[index];
    let may_be_asked = replica.has_log() && !cx.shared.is_cut_off(group) && !cx.shared.is_full(group);
    may_be_asked.then_some((group, index))
}

/// The libraries of functions, if they are known here as the replica of this index has them.
fn libraries_here(cx: &mut Context, called: &Called<'_>, index: usize) -> Option<Arc<LibrarySet>> {
    let stamp = library_keys::stamp_of_words(called.spec, called.args);
    if cx.local.index_of_key(stamp) != Some(index) {
        return None;
    }
    let kept = cx.local.replicas[index].keyspace().text(Db::LIBRARIES, stamp)?;
    let stamp = Stamp::decode(&kept)?;
    let shared = cx.shared.clone();
    cx.scripts.runner.libraries(&shared.scripts, &stamp.sha1)
}

/// Runs a script to its end.
///
/// # Errors
/// Another way is to be found.
fn run(
    gateway: &mut Gateway,
    called: &Called<'_>,
    begun: Begun,
    (index, declared): (usize, &[&[u8]]),
    protocol: Protocol,
    copied: &mut Copied,
) -> Result<(), Unsuited> {
    let Begun {
        mut run, rules, body, ..
    } = begun;
    let Gateway { cx, coordinator, .. } = &mut *gateway;
    let replica = &cx.local.replicas[index];
    let time = replica.time_here(&cx.turn);
    let mut scratch = coordinator.scratch(cx, time);
    let mut room = std::mem::take(&mut cx.scripts.room);
    let mut copies = Copies {
        replica,
        scratch: &mut scratch,
        time,
        declared,
        expects: Vec::new(),
    };
    let is_shown = match body.is_function() {
        true => {
            let stamp = library_keys::stamp_of_words(called.spec, called.args);
            copies.show(Db::LIBRARIES, stamp).is_some()
        }
        false => true,
    };
    let mut script = ShortScript::new(copies, &cx.shared, cx.turn.now, rules, called.db);
    let mut end = Err(Unsuited::ForNow);
    if is_shown {
        copied.replies.push(protocol, |out| {
            end = script.run(&mut run, &mut room, out);
        });
    }
    let ShortScript {
        ground: Copies { mut expects, .. },
        publishing,
        ..
    } = script;
    let effects = changes_of(&mut scratch);
    if effects.is_empty() {
        expects.clear();
    }
    coordinator.keep_scratch(scratch);
    if room.is_small() {
        cx.scripts.room = room;
    }
    let bytes: usize = effects.iter().map(Effect::byte_len).sum();
    let seen: usize = expects.iter().map(|seen| seen.key().len()).sum();
    let is_short = is_short(cx, bytes + seen);
    // Where nothing has changed, nobody would judge what it was shown.
    let is_judged = !effects.is_empty() || mutations::is(Mutation::OldReadTold);
    if end == Ok(()) && !(is_judged && is_short) {
        end = Err(Unsuited::ForNow);
    }
    match end {
        Ok(()) => log_lines(&mut run),
        Err(Unsuited::ByNature) => cx.scripts.put_off(&body.name().to_ascii_lowercase()),
        Err(Unsuited::ForNow | Unsuited::PutOff) => {}
    }
    cx.scripts.runner.let_go(run);
    (copied.expects, copied.effects, copied.published) = (expects, effects, publishing.messages);
    end
}

impl Copies<'_> {
    /// Copies what is under a key to the scratch, if it is not there. Returns how many instructions that counts as; `None`: it cannot be had
    /// here.
    fn show(&mut self, db: Db, key: &[u8]) -> Option<u64> {
        let is_it = |seen: &Condition| match seen {
            Condition::Unchanged {
                db: its, key: seen, ..
            } => *its == db && **seen == *key,
            Condition::Absent { .. } => false,
        };
        let is_unseen = mutations::is(Mutation::ShownNotExpected);
        let passed = ((self.declared.len() + self.expects.len()) / KEYS_PER_INSTRUCTION) as u64;
        if self.expects.iter().any(is_it) || is_unseen && self.scratch.holds(db, key) {
            return Some(passed);
        }
        let (object, version) = self.replica.copy_here(self.time, db, key)?;
        let bytes = object.as_ref().map_or(0, Object::memory);
        self.scratch.place(db, key, object);
        if !is_unseen {
            let key = Box::from(key);
            self.expects.push(Condition::Unchanged { db, key, version });
        }
        Some(passed + (bytes / BYTES_PER_INSTRUCTION) as u64)
    }
}

impl Ground for Copies<'_> {
    fn carry_out(
        &mut self,
        call: &Call<'_>,
        spent: &mut u64,
        out: &mut ReplyWriter<'_>,
    ) -> Result<(), Unsuited> {
        let other = match *call.command {
            Command::Copy { db, .. } => db,
            Command::Move { db, .. } => Some(db),
            _ => None,
        };
        let mut shown = Ok(());
        command::keys(call.spec, call.args, &mut |position, _| {
            let key = call.args.arg(position);
            // What it has not declared may be of another group, or have to wait for what its connection has sent before it.
            if shown.is_err() || !self.declared.contains(&key) {
                shown = Err(Unsuited::ForNow);
                return;
            }
            for db in [Some(call.db), other].into_iter().flatten() {
                match self.show(db, key) {
                    Some(instructions) => *spent += instructions,
                    None => shown = Err(Unsuited::ForNow),
                }
            }
        });
        shown?;
        charge_steps(spent, call, self.scratch.keyspace())?;
        self.scratch.run_parsed(call.db, call.command, out);
        Ok(())
    }
}

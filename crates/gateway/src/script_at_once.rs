//! A script that is carried out at once: all keys that it comes to name are in groups of this worker that are alone, and free.
//!
//! ```text
//!   run_at_once --its first keys are here--> call by call, on the state itself (`replica/at_once.rs`)
//!        |                                     |        \--> over, or an error that nobody caught: answered, what was done stays
//!        |                                     v
//!        +----------------------> another way is to be found, and all is taken back: on copies (`script_on_copies.rs`), if its
//!                                 group has a log, or as a program (`script_run.rs`)
//! ```
//!
//! Nothing comes between, so nothing is copied, locked, voted on or awaited. Another way is found for a script that names what is
//! elsewhere or held by a transaction, calls what takes long, writes what is large or more than its group's log has room for, or goes on
//! for longer than others are to wait. Groups that have logs take no part in a script together: two logs are not written as one.
//!
//! Invariant: nothing of a run is told, noted or published before it is over.

use crate::cluster::Seats;
use crate::context::Context;
use crate::delivery::Delivery;
use crate::gateway::Gateway;
use crate::library_keys::{self, Stamp};
use crate::library_set::LibrarySet;
use crate::local_groups::LocalGroups;
use crate::message::Message;
use crate::program::{Program, group_of_key};
use crate::script_on_copies::{Sending, may_run_on_copies, run_for_other};
use crate::script_program::{Rules, keeps_libraries};
use crate::script_run::log_lines;
use crate::shared::Shared;
use crate::short_script::{self, Begun, Called, Ground, ShortScript, Unsuited, charge_steps, name_of};
use command::{CommandId, CommandRoute, Spec};
use ids::{Db, Groups};
use mutations::Mutation;
use replica::{Asked, AtOnce, Call, CarriedOut, Operation, Replica, ReplyTo, Turn};
use resp::{Args, ReplyWriter};
use std::sync::Arc;

/// The groups in which a script runs.
struct State<'a> {
    groups: Groups,
    local: &'a mut LocalGroups,
    seats: &'a mut Seats,
    turn: &'a Turn,
    shared: &'a Shared,
    /// Those that it has named keys of, by their indices.
    begun: Vec<(usize, AtOnce)>,
    /// Whether anything may be written to groups that have logs.
    may_write: bool,
    rules: Rules,
}

/// The other worker to which a script is sent: where all keys are that it declares, if nobody else has any.
pub(crate) fn worker_for(gateway: &mut Gateway, called: &Called<'_>) -> Option<u16> {
    let Gateway { cx, maxmemory, .. } = &mut *gateway;
    let (spec, args) = (called.spec, called.args);
    if cx.shared.workers.len() == 1 {
        return None;
    }
    let (mut found, mut is_one) = (None, true);
    command::keys(spec, args, &mut |position, _| {
        let group = group_of_key(cx.groups, args.arg(position));
        is_one = is_one && found.is_none_or(|found| found == group);
        found = Some(group);
    });
    let group = found.filter(|group| is_one && cx.local.index(*group).is_none())?;
    if cx.scripts.puts_off() && cx.scripts.is_put_off(&name_of(spec, args)) {
        return None;
    }
    let only_reads = only_reads(spec);
    let may_log = only_reads || !maxmemory.evicts();
    let may_run = cx.view.may_run_at_once(only_reads) && (may_log || !cx.view.is_spread);
    // Whether a function may be called by the cluster endpoint is not asked there.
    let may_be_copied = !only_reads && !called.is_in_cluster;
    let is_sent = may_run || may_be_copied && may_run_on_copies(gateway, spec, args);
    is_sent.then(|| gateway.cx.local.owner(group))
}

/// A script from another worker, all of whose keys are here.
pub(crate) fn on_forwarded(gateway: &mut Gateway, from: u16, reply_to: ReplyTo, asked: &Asked<'_>) {
    let is_out_of_memory = !gateway.make_room();
    let called = Called {
        spec: asked.spec,
        args: asked.args,
        db: asked.db,
        is_out_of_memory,
        is_in_cluster: false,
    };
    let mut reply = std::mem::take(&mut gateway.cx.local.spare);
    reply.clear();
    if !asked.touches {
        gateway.cx.local.touch(false);
    }
    let out = &mut ReplyWriter::new(&mut reply, asked.protocol);
    let outcome = run_at_once(gateway, &called, out);
    let cx = &mut gateway.cx;
    if !asked.touches {
        cx.local.touch(true);
    }
    match outcome {
        Ok(()) => {
            cx.look_at_reply(Some(asked.spec), &reply);
            let mut bytes = cx.mailbox_batch(from).take_bytes();
            let start = bytes.len();
            bytes.extend_from_slice(&reply);
            cx.outbox
                .mailbox_batch_being_filled(from)
                .push_answer(reply_to, bytes, start);
        }
        Err(unsuited) => {
            // It is measured where it begins anew.
            cx.timing.is_ours = false;
            let operation = Box::new(asked.to_operation());
            let ran = match unsuited {
                Unsuited::ForNow => run_for_other(gateway, &called, asked.protocol),
                Unsuited::ByNature => Err(Sending::TooLong),
                Unsuited::PutOff => Err(Sending::Untried),
            };
            let message = match ran {
                Ok(copied) => Message::Copied {
                    reply_to,
                    operation,
                    touches: asked.touches,
                    copied,
                },
                Err(sending) => Message::Unsuited {
                    reply_to,
                    operation,
                    is_by_nature: sending == Sending::TooLong,
                    asks_leaders: sending == Sending::InVain,
                },
            };
            gateway.cx.send(from, message);
        }
    }
    gateway.cx.local.spare = reply;
}

/// A script that was sent to the worker of its keys is back: it begins as a program.
pub(crate) fn on_unsuited(
    gateway: &mut Gateway,
    reply_to: ReplyTo,
    operation: Operation,
    is_by_nature: bool,
    asks_leaders: bool,
) {
    if is_by_nature {
        let name = name_of(operation.spec, operation.args.as_args());
        gateway.cx.scripts.put_off(&name);
    }
    let is_out_of_memory = !gateway.make_room();
    let mut program = Program::single(operation);
    program.look_at_scripts(&mut gateway.cx, is_out_of_memory);
    if let Some(scripted) = &mut program.scripted {
        scripted.asks_leaders = asks_leaders;
        // Its client may have sent more: nothing behind it was read.
        scripted.has_more_behind = true;
    }
    gateway.cx.stats.scripts.as_transactions.add(1);
    if program.seeks_scripts(&gateway.cx) {
        gateway.fanout.seek(&mut gateway.cx, reply_to, program);
        return gateway.route();
    }
    if let Some(refusal) = program.script_refusal() {
        let bytes = refusal.into_bytes();
        return gateway.cx.deliver(Delivery::Reply { reply_to, bytes });
    }
    gateway.cx.outbox.programs.push_back((reply_to, program));
    gateway.route();
}

/// Carries out a script at once, and writes what it answers.
///
/// # Errors
/// Nothing has happened, and another way is to be found.
pub(crate) fn run_at_once(
    gateway: &mut Gateway,
    called: &Called<'_>,
    out: &mut ReplyWriter<'_>,
) -> Result<(), Unsuited> {
    if !is_near(gateway, called) {
        return Err(Unsuited::ForNow);
    }
    let shared = gateway.cx.shared.clone();
    let libraries = |cx: &mut Context| libraries_here(cx, called, &shared);
    match short_script::begin(&mut gateway.cx, called, libraries) {
        Ok(begun) => run_to_its_end(gateway, called.db, &shared, begun, out),
        Err(Ok(error)) => {
            out.error_bytes(&error);
            Ok(())
        }
        Err(Err(unsuited)) => Err(unsuited),
    }
}

/// Whether a script is called as one that only reads.
fn only_reads(spec: &Spec) -> bool {
    matches!(
        spec.id,
        CommandId::EvalRo | CommandId::EvalShaRo | CommandId::FCallRo
    )
}

/// Whether a script is better carried out in the next turn. At this one's end, when what was applied first is being kept, connections go
/// on that were answered: at once nothing can be done for them any more, and one transaction would lead to the next.
#[inline]
pub(crate) fn may_soon(cx: &Context, seats: &Seats, spec: &'static Spec, args: Args<'_>) -> bool {
    if spec.route != CommandRoute::Script || !seats.applies_first_soon() {
        return false;
    }
    let mut is_here = true;
    command::keys(spec, args, &mut |position, _| {
        let index = cx.local.index_of_key(args.arg(position));
        is_here = is_here && index.is_some_and(|index| cx.local.replicas[index].may_apply_first_soon());
    });
    is_here && !only_reads(spec) && !keeps_libraries(spec.id)
}

/// Whether the keys that a script declares are all in groups where it may run, and may write if it is not one that only reads.
fn is_near(gateway: &Gateway, called: &Called<'_>) -> bool {
    let Gateway {
        cx, seats, maxmemory, ..
    } = gateway;
    let only_reads = only_reads(called.spec);
    // Keys that are given up for room go in an entry that is made for them, with what needs it.
    let may_log = only_reads || seats.applies_first() && !maxmemory.evicts();
    let may_run = |replica: &Replica| replica.may_run_at_once() && (may_log || !replica.has_log());
    let replicas = &cx.local.replicas;
    let (mut first, mut is_near) = (None, true);
    command::keys(called.spec, called.args, &mut |position, _| {
        let Some(index) = cx.local.index_of_key(called.args.arg(position)) else {
            is_near = false;
            return;
        };
        if first != Some(index) {
            let replica = &replicas[index];
            is_near = is_near && may_run(replica) && (first.is_none() || !replica.has_log());
            first = first.or(Some(index));
        }
    });
    // One that declares none will most likely be here.
    is_near && (first.is_some() || replicas.first().is_some_and(may_run))
}

/// The libraries of functions, if this worker has met those that are kept.
fn libraries_here(cx: &mut Context, called: &Called<'_>, shared: &Shared) -> Option<Arc<LibrarySet>> {
    let stamp = library_keys::stamp_of_words(called.spec, called.args);
    let index = cx.local.index_of_key(stamp)?;
    let replica = &cx.local.replicas[index];
    if !replica.may_run_at_once() || !replica.are_unheld(|| keyspace::shared([stamp])) {
        return None;
    }
    let Some(kept) = replica.keyspace().text(Db::LIBRARIES, stamp) else {
        return Some(Arc::default());
    };
    let stamp = Stamp::decode(&kept)?;
    cx.scripts.runner.libraries(&shared.scripts, &stamp.sha1)
}

fn run_to_its_end(
    gateway: &mut Gateway,
    db: Db,
    shared: &Arc<Shared>,
    begun: Begun,
    out: &mut ReplyWriter<'_>,
) -> Result<(), Unsuited> {
    let Begun {
        mut run, rules, body, ..
    } = begun;
    let may_write = !gateway.maxmemory.evicts();
    let Gateway { cx, seats, .. } = &mut *gateway;
    let mut room = std::mem::take(&mut cx.scripts.room);
    let state = State {
        groups: cx.groups,
        local: &mut cx.local,
        seats: &mut *seats,
        turn: &cx.turn,
        shared,
        begun: Vec::new(),
        may_write,
        rules,
    };
    let mut script = ShortScript::new(state, shared, cx.turn.now, rules, db);
    let end = script.run(&mut run, &mut room, out);
    let ShortScript {
        ground: State { begun, .. },
        publishing,
        ..
    } = script;
    if room.is_small() {
        cx.scripts.room = room;
    }
    let is_kept = end.is_ok() || mutations::is(Mutation::ScriptHalfTakenBack);
    for (index, part) in begun {
        let replica = &mut cx.local.replicas[index];
        if is_kept {
            replica.end_at_once(part);
        } else {
            replica.take_back_at_once(part);
        }
        cx.local.note_events(index);
        seats.expire_met(cx, index);
    }
    if end.is_ok() {
        log_lines(&mut run);
        cx.stats.scripts.at_once.add(1);
    } else if end == Err(Unsuited::ByNature) {
        cx.scripts.put_off(&body.name().to_ascii_lowercase());
    }
    cx.scripts.runner.let_go(run);
    if end.is_ok() {
        gateway.tell_noted();
        gateway.publish(publishing.messages);
    }
    end
}

impl Ground for State<'_> {
    fn carry_out(
        &mut self,
        call: &Call<'_>,
        spent: &mut u64,
        out: &mut ReplyWriter<'_>,
    ) -> Result<(), Unsuited> {
        let index = self.index_of(call.spec, call.args).ok_or(Unsuited::ByNature)?;
        charge_steps(spent, call, self.local.replicas[index].keyspace())?;
        self.carry_out_in(index, call, out)
    }
}

impl State<'_> {
    /// The one group that a command names, if it is here.
    fn index_of(&self, spec: &'static Spec, args: Args<'_>) -> Option<usize> {
        if let Some(key) = command::only_key(spec).and_then(|position| args.get(position)) {
            return self.local.index(group_of_key(self.groups, key));
        }
        let (mut found, mut is_one) = (None, true);
        command::keys(spec, args, &mut |position, _| {
            let group = group_of_key(self.groups, args.arg(position));
            is_one = is_one && found.is_none_or(|found| found == group);
            found = Some(group);
        });
        found.filter(|_| is_one).and_then(|group| self.local.index(group))
    }

    /// Carries out a command in the group of all its keys.
    fn carry_out_in(
        &mut self,
        index: usize,
        call: &Call<'_>,
        out: &mut ReplyWriter<'_>,
    ) -> Result<(), Unsuited> {
        let at = self.begin_in(index)?;
        let (seats, mut is_opened) = (&mut *self.seats, false);
        let has_room = |bytes: usize, is_first: bool| {
            let has_room = seats.take_room(bytes, is_first);
            is_opened = has_room && is_first;
            has_room
        };
        let replica = &mut self.local.replicas[index];
        let carried_out = replica.carry_out(&mut self.begun[at].1, call, has_room, out);
        if is_opened {
            self.seats.note_opened(self.local, index, self.turn.number);
        }
        match carried_out {
            CarriedOut::Done => Ok(()),
            CarriedOut::TooLarge => Err(Unsuited::ByNature),
            CarriedOut::Held | CarriedOut::NoRoom => Err(Unsuited::ForNow),
        }
    }

    /// Where this group stands among those of the script, which it is from now on.
    fn begin_in(&mut self, index: usize) -> Result<usize, Unsuited> {
        if let Some(at) = self.begun.iter().position(|(begun, _)| *begun == index) {
            return Ok(at);
        }
        let has_log = |index: usize| self.local.replicas[index].has_log();
        if let Some((first, _)) = self.begun.first()
            && (has_log(index) || has_log(*first))
        {
            return Err(Unsuited::ByNature);
        }
        let replica = &mut self.local.replicas[index];
        let may_run = replica.may_run_at_once();
        let may_write = || self.may_write && !self.shared.is_full(replica.group());
        let may_log = || self.rules.is_read_only || may_write();
        if !may_run || replica.has_log() && !may_log() {
            return Err(Unsuited::ForNow);
        }
        self.begun.push((index, replica.begin_at_once(self.turn)));
        Ok(self.begun.len() - 1)
    }
}

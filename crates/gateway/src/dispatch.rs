//! One command of a client on its way: what it must pass, and where it goes.
//!
//! ```text
//!   admit --+-- the gateway's own commands (`commands.rs`), or every node's (`fanout.rs`)
//!           +-- on keys of one group --+-- here and free: applied at once, the reply is written in place
//!           |                          +-- here, and held by a transaction: into the line
//!           |                          +-- alone here, with a log: applied at once, if that is quiet; kept before its reply leaves
//!           |                          +-- led elsewhere, perhaps: to its group client
//!           |                          +-- another worker's: into the mailbox batch for it
//!           +-- of several groups: last agent, local fast path, coordinator (`router.rs`)
//!           +-- in an open `MULTI` block: queued (`multi.rs`)
//! ```
//!
//! Where a command on keys goes is decided by looking alone ([`way_of`]); what was decided is done by a method for each.

use crate::blocking::Waiting;
use crate::chores::{self, ALREADY_SAVING, nothing_to_save_to};
use crate::cluster::may_read_here;
use crate::commands;
use crate::connection::Connection;
use crate::context::Context;
use crate::endpoint::{Endpoint, Scope};
use crate::fanout;
use crate::gateway::Gateway;
use crate::idempotency::request_of;
use crate::in_flight::{has_nothing_under_way, is_free, note_sent};
use crate::maxmemory::Changed;
use crate::offload;
use crate::program::{Program, group_of_key, groups_of, names_more};
use crate::pubsub::SubscriptionKind;
use crate::scan::Next;
use crate::script_ahead::{self, run_ahead};
use crate::script_at_once::{run_at_once, worker_for};
use crate::script_cache::is_long_source;
use crate::script_on_copies::{Sending, send_on_copies, slots_of};
use crate::script_program::keeps_libraries;
use crate::short_script::{Called, Unsuited};
use command::{Command, CommandId, CommandRoute, Flags, KeyUse, ReplyError, Spec};
use ids::{Db, GroupId, RequestUuid, SemanticsVersion};
use keyspace::BlockCommand;
use replica::{Condition, locks_of};
use resp::{Args, ArgsBuf, ReplyWriter};

/// See the file's header.
pub(crate) struct Dispatch<'a> {
    pub(crate) gateway: &'a mut Gateway,
    pub(crate) connection: &'a mut Connection,
    pub(crate) spec: &'static Spec,
    pub(crate) args: Args<'a>,
}

/// Where a command on keys goes. Groups of this worker are named by their indices.
enum Way {
    /// To a group here that carries it out at once.
    Here(usize),
    /// To a group here, into the line for its keys.
    Line(usize),
    /// To whoever leads a group of this worker.
    Leader(usize),
    /// To another worker's group.
    Worker(GroupId),
    /// To several groups.
    Several,
}

#[inline]
fn way_of(cx: &Context, spec: &'static Spec, args: Args<'_>) -> Way {
    let mut group = None;
    let groups = cx.groups;
    if let Some(key) = command::only_key(spec).and_then(|position| args.get(position)) {
        group = Some(group_of_key(groups, key));
    } else {
        let mut several = false;
        command::keys(spec, args, &mut |position, _: KeyUse| {
            let found = group_of_key(groups, args.arg(position));
            several |= group.is_some_and(|group| group != found);
            group = Some(found);
        });
        if several || names_more(spec, args) {
            return Way::Several;
        }
    }
    // A command that names no key (an option made it so) is as good in any group.
    let group = group.unwrap_or(GroupId::new(0));
    let Some(index) = cx.local.index(group) else {
        return Way::Worker(group);
    };
    let replica = &cx.local.replicas[index];
    if replica.is_free(|| locks_of([(spec, args)], |_| true)) {
        Way::Here(index)
    } else if replica.has_log() {
        Way::Leader(index)
    } else {
        Way::Line(index)
    }
}

/// Whether a command needs a group that nobody can serve, because what was kept of it is still being read. One that names no key needs all
/// of them, as in Redis, but for those that serve meanwhile.
#[cold]
fn is_absent(cx: &Context, spec: &'static Spec, args: Args<'_>) -> bool {
    if spec.flags.contains(Flags::LOADING) {
        return false;
    }
    let loading = &cx.shared.loading;
    let (mut has_key, mut is_absent) = (false, false);
    command::keys(spec, args, &mut |position, _: KeyUse| {
        has_key = true;
        is_absent |= loading.is_absent(group_of_key(cx.groups, args.arg(position)));
    });
    is_absent || !has_key && loading.has_absent()
}

impl<'a> Dispatch<'a> {
    fn writer(&mut self) -> ReplyWriter<'_> {
        self.connection.writer()
    }

    /// See [`refuse`].
    pub(crate) fn refuse(&mut self, error: &ReplyError) {
        refuse(&mut self.gateway.cx, self.connection, error);
    }

    /// The same, and it is counted.
    pub(crate) fn reject(&mut self, error: &ReplyError) {
        self.gateway.cx.stats.by_command[self.spec.id].rejected.add(1);
        self.refuse(error);
    }

    /// Checks what every command must pass, then carries it out or queues it.
    #[inline]
    pub(crate) fn admit(mut self) {
        let (spec, args) = (self.spec, self.args);
        let (cx, session) = (&mut self.gateway.cx, &mut self.connection.session);
        if !session.is_authenticated && !spec.flags.contains(Flags::NO_AUTH) {
            return self.reject(&ReplyError::NoAuth);
        }
        if session.is_listening()
            && let Some(error) = session.refuses_while_listening(spec)
        {
            return self.reject(&error);
        }
        if let Some(error) = cx.endpoint_refuses(session, spec, args) {
            return self.reject(&error);
        }
        if cx.view.is_loading && is_absent(cx, spec, args) {
            return self.reject(&ReplyError::Loading);
        }
        if matches!(spec.id, CommandId::Restore | CommandId::RestoreAsking)
            && cx.turn.semantics < SemanticsVersion::RESTORE
        {
            return self.reject(&ReplyError::RestoreTooEarly);
        }
        if session.block.is_some() && self.queue() {
            return;
        }
        let (cx, session) = (&mut self.gateway.cx, &mut self.connection.session);
        if matches!(
            spec.id,
            CommandId::DebugObject | CommandId::DebugCoding | CommandId::DebugSdsLen
        ) && let Err(error) = commands::debug::check(cx, session)
        {
            return self.refuse(&error);
        }
        cx.count(spec);
        cx.timing.is_ours = true;
        if spec.id != CommandId::Multi
            && let Some(id) = session.modes.naming.take()
            && self.on_named(id)
        {
            return self.show();
        }
        match spec.route {
            CommandRoute::Keys if command::waits(spec, args) => self.on_blocking(),
            CommandRoute::Keys => self.on_keys(),
            CommandRoute::Connection => self.on_connection(),
            CommandRoute::Everywhere => self.on_several(),
            CommandRoute::Scan => self.on_scan(),
            CommandRoute::Script => self.on_script(),
        }
        // An EXEC that waits for groups is shown when it is over, behind its commands.
        if !(spec.id == CommandId::Exec && self.connection.session.in_flight.is_waiting) {
            self.show();
        }
    }

    /// Shows the command to those who watch.
    #[inline]
    fn show(&mut self) {
        let session = &self.connection.session;
        self.gateway.show(session, session.db, self.spec, self.args);
    }

    /// A command on keys.
    #[inline]
    fn on_keys(&mut self) {
        match way_of(&self.gateway.cx, self.spec, self.args) {
            Way::Here(index) if self.has_room(index) => self.run(index),
            Way::Line(index) if self.has_room(index) => self.park(index),
            Way::Leader(index) if self.has_room(index) => self.ask_leader(index),
            Way::Here(_) | Way::Line(_) | Way::Leader(_) => {}
            Way::Worker(group) => self.forward(self.args, group),
            Way::Several => self.on_several(),
        }
    }

    /// Room in a group of this worker for a command that needs memory. `false`: it is refused.
    #[inline]
    fn has_room(&mut self, index: usize) -> bool {
        if self.spec.flags.contains(Flags::DENYOOM) {
            if !self.gateway.make_room() {
                ReplyError::OutOfMemory.write(&mut self.writer());
                return false;
            }
            self.gateway.maxmemory.note_changed(Changed::One(index));
        }
        true
    }

    /// Carries out a command on free keys of one group of this worker.
    #[inline]
    fn run(&mut self, index: usize) {
        let Some(command) = self.parse() else {
            return;
        };
        let (spec, args) = (self.spec, self.args);
        let Dispatch {
            gateway, connection, ..
        } = self;
        let db = connection.session.db;
        if offload::is_heavy(&gateway.cx, db, spec, args, &command) {
            note_sent(connection, gateway.cx.hosts_version, spec, args);
            let reply_to = gateway.cx.reserve(connection);
            let operation = connection.session.operation(spec, args);
            return gateway.run_offloaded(reply_to, operation, connection.session.touches(spec));
        }
        let cx = &mut gateway.cx;
        cx.local.replicas[index].execute(&cx.turn, db, &command, &mut connection.writer());
        gateway.tell(index);
    }

    /// Sends a command to the worker of its group.
    fn forward(&mut self, args: Args<'_>, group: GroupId) {
        let (spec, connection, cx) = (self.spec, &mut *self.connection, &mut self.gateway.cx);
        let is_free = is_free(connection, spec, args);
        note_sent(connection, cx.hosts_version, spec, args);
        let reply_to = cx.reserve_behind(connection, spec, args);
        // It is measured where it is carried out.
        cx.timing.is_ours = false;
        let owner = cx.local.owner(group);
        let asked = connection.session.asked(spec, args, is_free, cx.frame.as_ref());
        let group = (spec.route != CommandRoute::Scan).then_some(group);
        cx.outbox
            .mailbox_batch(owner)
            .push_command(reply_to, group, &asked);
    }

    /// Lets a command wait for locks in its group, here.
    fn park(&mut self, index: usize) {
        let (spec, args) = (self.spec, self.args);
        let Dispatch {
            gateway, connection, ..
        } = self;
        let replica = &gateway.cx.local.replicas[index];
        if !replica.has_room_to_wait() {
            return busy(&mut connection.writer());
        }
        let group = replica.group();
        note_sent(connection, gateway.cx.hosts_version, spec, args);
        let reply_to = gateway.cx.reserve(connection);
        let operation = connection.session.operation(spec, args);
        gateway.wait_for_keys(group, reply_to, operation, connection.session.touches(spec));
    }

    /// A command on keys of a group whose leader may be elsewhere.
    fn ask_leader(&mut self, index: usize) {
        let Some(command) = self.parse() else {
            return;
        };
        let (spec, args) = (self.spec, self.args);
        let Dispatch {
            gateway, connection, ..
        } = self;
        let Gateway {
            cx,
            seats,
            group_clients,
            maxmemory,
            ..
        } = &mut **gateway;
        // What has gone to another group is looked for by whoever leads this one.
        let is_hosted = cx.local.replicas[index].keyspace().hosts_args(args);
        if is_hosted
            && may_read_here(cx, connection, spec, args, index)
            && !cx.local.replicas[index].lacks(connection.session.db, &command)
            && seats.read_leased(cx, connection, &command, index)
        {
            return;
        }
        if is_hosted
            && seats.may_read_stale(cx, &connection.session, spec, index)
            && !cx.local.replicas[index].lacks(connection.session.db, &command)
        {
            let db = connection.session.db;
            let state = cx.local.replicas[index].state_mut();
            return state.read_leased(&cx.turn, db, &command, &mut connection.writer());
        }
        if group_clients.is_cut_off(index) {
            return connection.writer().error(replica::UNREACHABLE);
        }
        if spec.flags.contains(Flags::WRITE) && cx.is_full(index) {
            return connection.writer().error(replica::FULL);
        }
        // Keys that are given up for room go in an entry that is made for them, with what needs it.
        if spec.flags.contains(Flags::WRITE)
            && !maxmemory.evicts()
            && seats.may_apply_first(cx, args, cx.frame.is_some(), index, || {
                has_nothing_under_way(connection, spec, args)
            })
        {
            let (db, protocol) = (connection.session.db, connection.session.protocol);
            let operation = BlockCommand { db, protocol, args };
            let replica = &mut cx.local.replicas[index];
            replica.apply_first(&cx.turn, &operation, &command, &mut connection.writer());
            return gateway.tell(index);
        }
        let is_free = is_free(connection, spec, args);
        note_sent(connection, cx.hosts_version, spec, args);
        let reply_to = cx.reserve_behind(connection, spec, args);
        // It is measured when it is answered.
        cx.timing.is_ours = false;
        let frame = cx.frame.clone();
        let asked = connection.session.asked(spec, args, is_free, frame.as_ref());
        group_clients.command(cx, index, reply_to, asked);
    }

    /// Makes room for a command on keys, if it needs any, and parses it. `None`: the error is written.
    fn accept(&mut self) -> Option<Command<'a>> {
        if self.spec.flags.contains(Flags::DENYOOM) && !self.gateway.make_room() {
            ReplyError::OutOfMemory.write(&mut self.writer());
            return None;
        }
        self.parse()
    }

    /// A command on keys, parsed. `None`: the error is written.
    #[inline]
    fn parse(&mut self) -> Option<Command<'a>> {
        let parse = self.spec.parse.expect("a command on keys has a parser");
        parse(self.args)
            .map_err(|error| error.write(&mut self.writer()))
            .ok()
    }

    /// A command that may wait, outside of `MULTI`.
    fn on_blocking(&mut self) {
        let Some(command) = self.accept() else {
            return;
        };
        let (spec, args) = (self.spec, self.args);
        let Dispatch {
            gateway, connection, ..
        } = self;
        let cx = &mut gateway.cx;
        // What is not there yet could not be taken either.
        let groups = groups_of(spec, args, cx.groups);
        if spec.flags.contains(Flags::WRITE) && groups.iter().any(|group| cx.shared.is_full(*group)) {
            return connection.writer().error(replica::FULL);
        }
        let is_tried = cx.local.is_one_step(spec, args, &Scope::Cluster);
        let db = connection.session.db;
        if is_tried && offload::is_heavy(cx, db, spec, args, &command) && cx.local.has_alone(spec, args) {
            // There is something to pop, and much of it: it will not wait.
            let operation = connection.session.operation(spec, args);
            return gateway.begin(connection, Program::single(operation));
        }
        if is_tried {
            let target = connection.pipeline.target();
            let start = target.len();
            let mut out = ReplyWriter::new(target, connection.session.protocol);
            let scope = &Scope::Cluster;
            crate::local_fast_path::run_here(cx, db, spec, args, &command, scope, &mut out);
            gateway.tell_noted();
            if !keyspace::is_nil(&target[start..]) {
                return;
            }
            target.truncate(start);
        }
        let timeout = match command {
            Command::Blocking(blocking) => blocking.timeout_millis,
            _ => None,
        };
        let operation = connection.session.operation(spec, args);
        let operation = match is_tried {
            true => crate::blocking::resolved_here(&mut gateway.cx, operation),
            false => operation,
        };
        let reply_to = gateway.cx.reserve(connection);
        connection.session.in_flight.is_waiting = true;
        connection.session.info.set_blocked(true);
        let spent = gateway.cx.postpone_time();
        let waiting = Waiting {
            reply_to,
            client: connection.session.info.id,
            operation,
            timeout_millis: timeout,
            spent,
        };
        gateway.blocking.block(&mut gateway.cx, waiting, is_tried);
        gateway.route();
    }

    /// A command over several groups.
    fn on_several(&mut self) {
        let Some(command) = self.accept() else {
            return;
        };
        let (spec, args) = (self.spec, self.args);
        let Dispatch {
            gateway, connection, ..
        } = self;
        let Gateway {
            cx,
            last_agent,
            coordinator,
            ..
        } = &mut **gateway;
        if last_agent.send(cx, coordinator, connection, spec, args, &command) {
            return;
        }
        let scope = cx.scope(&connection.session);
        let db = connection.session.db;
        if cx.local.is_one_step(spec, args, &scope) && !offload::is_heavy(cx, db, spec, args, &command) {
            let out = &mut connection.writer();
            crate::local_fast_path::run_here(cx, db, spec, args, &command, &scope, out);
            return gateway.tell_noted();
        }
        let mut program = Program::single(connection.session.operation(spec, args));
        if let Command::MSetNx { pairs } = command {
            program.conditions = absent(db, pairs);
        }
        program.scope = scope;
        gateway.begin(connection, program);
    }

    /// A command that its client has named; `false` if it is one that needs no name, as it writes no keys.
    fn on_named(&mut self, id: RequestUuid) -> bool {
        let spec = self.spec;
        let may_write = spec.flags.contains(Flags::WRITE) || spec.route == CommandRoute::Script;
        if spec.route == CommandRoute::Connection || !may_write {
            return false;
        }
        if let Some(error) = crate::idempotency::refusal_of(spec) {
            self.writer().error(error);
            return true;
        }
        if self.accept().is_none() {
            return true;
        }
        let session = &self.connection.session;
        let mut program = Program::single(session.operation(spec, self.args));
        program.scope = self.gateway.cx.scope(session);
        program.request = Some(request_of(&program, id, session.protocol));
        self.gateway.begin(self.connection, program);
        true
    }

    /// `EVAL` and its kin, and what changes libraries or tells of them.
    fn on_script(&mut self) {
        let runs = !keeps_libraries(self.spec.id);
        let mut called = Called {
            spec: self.spec,
            args: self.args,
            db: self.connection.session.db,
            is_out_of_memory: false,
            is_in_cluster: matches!(self.gateway.cx.scope(&self.connection.session), Scope::Node(_)),
        };
        if self.connection.session.in_flight.ahead.is_on() {
            return run_ahead(self.gateway, self.connection, &mut called);
        }
        if runs && let Some(worker) = worker_for(self.gateway, &called) {
            return self.forward_script(worker);
        }
        called.is_out_of_memory = !self.gateway.make_room();
        let is_out_of_memory = called.is_out_of_memory;
        let (gateway, connection) = (&mut *self.gateway, &mut *self.connection);
        let at_once = match runs {
            true => run_at_once(gateway, &called, &mut connection.writer()),
            false => Err(Unsuited::PutOff),
        };
        let sending = match at_once {
            Ok(()) => return,
            Err(Unsuited::ForNow) => send_on_copies(gateway, connection, &called),
            Err(Unsuited::ByNature | Unsuited::PutOff) => Sending::Untried,
        };
        if sending == Sending::Sent {
            return;
        }
        gateway.cx.stats.scripts.as_transactions.add(u64::from(runs));
        let mut program = Program::single(connection.session.operation(self.spec, self.args));
        program.scope = gateway.cx.scope(&connection.session);
        program.look_at_scripts(&mut gateway.cx, is_out_of_memory);
        if let Some(scripted) = &mut program.scripted {
            scripted.asks_leaders = sending == Sending::InVain;
        }
        gateway.begin(connection, program);
    }

    /// Sends a script to the worker of all its keys, which carries it out at once, or sends back what came of it on copies, or the script.
    /// Until then nothing passes it: it may come to name any key. But scripts behind it may run (`script_ahead.rs`).
    fn forward_script(&mut self, worker: u16) {
        let may_go_ahead = script_ahead::may_begin(self.gateway, &self.connection.session);
        let (spec, args, connection, cx) =
            (self.spec, self.args, &mut *self.connection, &mut self.gateway.cx);
        let reply_to = cx.reserve(connection);
        match may_go_ahead {
            true => {
                let slots = slots_of(spec, args);
                connection.session.in_flight.ahead.begin(reply_to, slots);
            }
            false => connection.pipeline.hold_behind(reply_to.sequence),
        }
        // It is measured where it is carried out.
        cx.timing.is_ours = false;
        let asked = connection.session.asked(spec, args, false, cx.frame.as_ref());
        cx.outbox
            .mailbox_batch(worker)
            .push_command(reply_to, None, &asked);
    }

    /// `SCAN`.
    fn on_scan(&mut self) {
        let (gateway, connection) = (&mut *self.gateway, &mut *self.connection);
        let next = gateway
            .scans
            .on_scan(&mut gateway.cx, connection, self.spec, self.args);
        gateway.tell_noted();
        let Some((scanning, next)) = next else {
            return;
        };
        let sequence = connection.pipeline.reserved();
        match next {
            Next::Leader(part) => gateway.begin(connection, Program::single(part)),
            Next::Worker(part, group) => self.forward(part.args.as_args(), group),
        }
        if self.connection.pipeline.reserved() > sequence {
            let token = self.connection.session.token;
            self.gateway.scans.begin((token, sequence), scanning);
        }
    }

    /// A command that concerns no group, or needs their help only to be answered.
    fn on_connection(&mut self) {
        let (spec, args) = (self.spec, self.args);
        let is_alone = self.gateway.cx.shared.workers.len() == 1 && !self.gateway.cx.view.is_spread;
        match spec.id {
            CommandId::Exec => return self.on_exec(),
            CommandId::Watch if self.connection.session.block.is_some() => {
                return ReplyError::WatchInsideMulti.write(&mut self.writer());
            }
            _ => {}
        }
        let Dispatch {
            gateway, connection, ..
        } = self;
        let Gateway {
            cx,
            pubsub,
            fanout,
            blocking,
            watching,
            backups,
            ..
        } = &mut **gateway;
        match spec.id {
            CommandId::Watch => {
                watching.on_watch(cx, connection, args.from(1));
                gateway.route();
            }
            CommandId::Info if !is_alone => {
                let reply_to = cx.reserve(connection);
                connection.session.in_flight.is_waiting = true;
                // Clients of the cluster endpoint ask every node themselves.
                let is_for_all =
                    commands::info::counts_keys(args) && connection.session.endpoint == Endpoint::AnyNode;
                fanout.count_keys(cx, reply_to, args, is_for_all);
            }
            CommandId::BackupBegin
            | CommandId::BackupStatus
            | CommandId::BackupParts
            | CommandId::BackupRead
            | CommandId::BackupEnd => {
                let reply_to = cx.reserve(connection);
                connection.session.in_flight.is_waiting = true;
                backups.ask(reply_to, ArgsBuf::from_slices(args.iter()));
            }
            CommandId::Wait => blocking.on_wait(cx, connection, spec, args),
            CommandId::WaitAof => {
                blocking.on_wait_aof(cx, connection, spec, args);
                if blocking.wants_sync(cx.now) {
                    chores::sync_everywhere(fanout, cx);
                    gateway.route();
                }
            }
            CommandId::Save => {
                if !commands::server::writes(cx) {
                    return nothing_to_save_to(cx).write(&mut connection.writer());
                }
                if !cx.shared.saves.begin(cx.turn.now) {
                    return ALREADY_SAVING.write(&mut connection.writer());
                }
                let reply_to = cx.reserve(connection);
                connection.session.in_flight.is_waiting = true;
                chores::save(fanout, cx, reply_to, connection.session.protocol);
            }
            CommandId::Debug if commands::debug::is_reload(args) != Ok(false) => {
                let may = commands::debug::check(cx, &connection.session);
                if let Err(error) = may.and(commands::debug::is_reload(args)) {
                    return error.write(&mut connection.writer());
                }
                let reply_to = cx.reserve(connection);
                connection.session.in_flight.is_waiting = true;
                fanout.chores.reload(cx, reply_to, connection.session.protocol);
            }
            CommandId::ScriptLoad if is_long_source(args.arg(2)) && cx.settings.scripting => {
                fanout.seeking.load(cx, connection, args.arg(2));
            }
            CommandId::Publish => {
                pubsub.on_publish(cx, fanout, connection, (SubscriptionKind::Channel, args))
            }
            CommandId::SPublish => {
                pubsub.on_publish(cx, fanout, connection, (SubscriptionKind::ShardChannel, args))
            }
            CommandId::SSubscribe => {
                let Connection {
                    session, pipeline, ..
                } = &mut **connection;
                let mut out = pipeline.writer(session.protocol);
                pubsub.subscribe(
                    cx,
                    session,
                    SubscriptionKind::ShardChannel,
                    args.from(1),
                    &mut out,
                );
            }
            CommandId::Monitor => {
                pubsub.start_monitoring(cx, &mut connection.session);
                connection.writer().ok();
            }
            _ if fanout::on_every_node(gateway, connection, spec, args) => {}
            _ => {
                let Connection {
                    session, pipeline, ..
                } = &mut **connection;
                commands::run_own(gateway, session, spec, args, pipeline.target());
            }
        }
    }
}

/// Refuses a command before it is carried out: an open `MULTI` block is broken by it.
pub(crate) fn refuse(cx: &mut Context, connection: &mut Connection, error: &ReplyError) {
    cx.timing.is_refused = true;
    if let Some(block) = &mut connection.session.block {
        block.is_broken = true;
    }
    error.write(&mut connection.writer());
}

fn absent(db: Db, pairs: Args<'_>) -> Vec<Condition> {
    pairs
        .iter()
        .step_by(2)
        .map(|key| Condition::Absent { db, key: key.into() })
        .collect()
}

/// Too many requests wait for locks of one group. The command was certainly not carried out.
pub(crate) fn busy(out: &mut ReplyWriter<'_>) {
    out.error("TRYAGAIN too many commands wait for a transaction on these keys");
}

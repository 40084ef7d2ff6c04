//! A worker's gateway: from a client's command to groups, here or at other workers, and back.
//!
//! ```text
//!  feed --> decode --> dispatch --+-- the gateway's own commands (`commands/`)
//!                                 +-- one group, here: applied at once, reply written in place
//!                                 +-- one group, elsewhere: into the worker's mailbox batch, a place in the pipeline
//!                                 +-- several groups: `router.rs`, `coordinator.rs`
//! ```
//!
//! Everything a turn has for another worker goes into one mailbox batch, handed over by the driver at the turn's end.
//! The gateway does no I/O and reads no clock: the driver tells it the [`Turn`](replica::Turn).

use crate::blocking::{Blocking, Waiting};
use crate::cluster::{GroupClients, HandoverImage, Layout, Peers, ReplicaView, Seats};
use crate::combining::{self, Combining};
use crate::connection::Connection;
use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::cross_protocol::is_http;
use crate::endpoint::{Endpoint, Scope};
use crate::fanout::Fanout;
use crate::gather::Gather;
use crate::idempotency::Naming;
use crate::key_counts::KeyCountQuery;
use crate::last_agent::LastAgent;
use crate::maxmemory::{Changed, Maxmemory};
use crate::monitor;
use crate::notify::{self, Notify};
use crate::pause::{self, Pausing};
use crate::program::{Program, group_of_key, names_more};
use crate::pubsub::{PUBLISHED_MAX, PubSub, changes_subscriptions, is_publish};
use crate::scan::Scanning;
use crate::session::{SentKind, Session, Watched};
use crate::shared::Shared;
use crate::stats::WorkerStats;
use crate::timing::Caller;
use bytes::Bytes;
use command::{Command, CommandId, Cost, Flags, KeyUse, ReplyError, Route, Spec, Spread};
use control::{GivenUp, GroupRef, GroupReport, RecoverySource};
use ids::{Db, Epoch, GroupId, HashSeed, Monotonic, NodeId, UnixMillis};
use keyspace::{KEPT_BYTES_MIN, KEYS_AHEAD, LfuParameters, Limits as Compactness};
use mutations::Mutation;
use options::Settings;
use peer_wire::PeerMessage;
use replica::{Condition, Operation, Replica, ReplyTo, Request, locks_of};
use resp::{Args, Decoded, Limits, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One worker's gateway, with the groups that live on the worker.
pub struct Gateway {
    pub(crate) cx: Context,
    pub(crate) maxmemory: Maxmemory,
    /// Commands that another worker decides.
    pub(crate) last_agent: LastAgent,
    /// Transactions over several groups.
    pub(crate) coordinator: Coordinator,
    /// Commands over several groups that this turn has brought, and that share one transaction.
    pub(crate) combining: Combining,
    /// `WATCH` of keys whose groups were asked for versions.
    pub(crate) watches: Gather<Vec<Watched>>,
    /// `INFO` for which the other workers were asked to refresh their figures.
    pub(crate) infos: Gather<KeyCountQuery>,
    pub(crate) blocking: Blocking,
    pub(crate) pubsub: PubSub,
    /// `SCAN`s that wait for another worker or node, by connection and place.
    pub(crate) scans: BTreeMap<(u64, u64), Scanning>,
    /// `CLIENT PAUSE`.
    pub(crate) pausing: Pausing,
    /// The way to groups whose leaders may be elsewhere, the replicas here, and the other nodes.
    pub(crate) group_clients: GroupClients,
    pub(crate) seats: Seats,
    pub(crate) peers: Peers,
    /// Commands that other nodes were asked for.
    pub(crate) fanout: Fanout,
}

impl Gateway {
    /// Bytes of replies that one connection may gather before they are sent, beyond those of one command: the
    /// rest of its pipeline waits for the next turn.
    pub const TURN_OUTPUT_BYTES: usize = 1024 * 1024;

    /// The gateway of worker number `worker`, with empty groups. `secret` decides the hash order of their keys, and
    /// must not follow from anything a client can see; `seed` decides everything else that is random.
    pub fn new(worker: u16, shared: Arc<Shared>, secret: HashSeed, seed: u64) -> Gateway {
        let workers = shared.workers.len();
        let mut gateway = Gateway {
            cx: Context::new(worker, shared, secret, seed),
            maxmemory: Maxmemory::default(),
            last_agent: LastAgent::new(workers),
            coordinator: Coordinator::default(),
            combining: Combining::default(),
            watches: Gather::default(),
            infos: Gather::default(),
            blocking: Blocking::default(),
            pubsub: PubSub::default(),
            scans: BTreeMap::new(),
            pausing: Pausing::default(),
            group_clients: GroupClients::default(),
            seats: Seats::default(),
            peers: Peers::default(),
            fanout: Fanout::default(),
        };
        gateway.load_settings();
        gateway
    }

    /// Messages to other connections that may wait while one goes on; at the limit the rest of its commands wait for
    /// the next turn.
    const DELIVERIES_MAX: usize = 1_024;

    /// Patterns that channels of one connection's `PUBLISH` are compared with in a turn, beyond those of one command; at the
    /// limit the rest of its commands wait for the next turn.
    const COMPARED_MAX: u64 = 10_000;

    /// Begins a turn of the worker's loop.
    #[inline]
    pub fn begin_turn(&mut self, now: ids::UnixMillis) {
        self.maxmemory.changed = Changed::Any;
        self.cx.stats.turns.add(1);
        self.cx.turn.number += 1;
        self.cx.turn.now = now;
        self.cx.turn.seed = self.cx.prng.next_u64();
        self.cx.turn.steps_max = self
            .cx
            .shared
            .steps_max
            .load(std::sync::atomic::Ordering::Relaxed);
        self.follow_settings();
        let topology_version = self.cx.shared.topology_version();
        if self.cx.view.topology.is_behind(topology_version) {
            let topology = self.cx.shared.topology();
            self.cx.view.topology.follow(topology, topology_version);
        }
        self.pausing.look(&mut self.cx);
    }

    /// The counters of this worker.
    #[inline]
    pub fn stats(&self) -> &WorkerStats {
        &self.cx.stats
    }

    pub(crate) fn load_settings(&mut self) {
        let Context {
            settings,
            limits,
            shared,
            turn,
            timing,
            local,
            ..
        } = &mut self.cx;
        // The version first: what is set meanwhile is another one.
        let version = shared.settings_version();
        settings.follow(shared.settings(), version);
        self.maxmemory.follow(settings);
        self.pubsub.notify = Notify::new(settings);
        turn.notify = self.pubsub.notify.classes;
        // Groups are told of the world once a turn, and it is another one from here on.
        turn.number += 1;
        turn.lfu = self.maxmemory.policy.is_lfu().then(|| LfuParameters {
            log_factor: settings.lfu_log_factor,
            decay_minutes: settings.lfu_decay_time_minutes,
        });
        timing.set_slow_log(settings.slowlog_log_slower_than_micros);
        timing.tracks = settings.latency_tracking;
        let limits_before = std::mem::replace(limits, compactness(settings));
        local.set_limits(turn, *limits);
        if limits_before != *limits {
            self.seats.ask_limits_of_led(&mut self.cx);
        }
    }

    /// Follows what another worker, or another node, has set since this turn began: whoever was told that it is set may ask
    /// for something in the same turn.
    #[inline]
    pub(crate) fn follow_settings(&mut self) {
        let version = self.cx.shared.settings_version();
        if self.cx.settings.is_behind(version) {
            self.load_settings();
        }
    }

    /// See [`Gateway::TURN_OUTPUT_BYTES`], of which this is the value in force.
    pub fn turn_output_bytes(&self) -> usize {
        self.cx.shared.hooks.turn_output_bytes
    }

    /// The settings in force this turn.
    pub fn settings(&self) -> &Settings {
        &self.cx.settings
    }

    /// Carries out the commands in `fresh`, which follow what the connection has left over.
    #[inline]
    pub fn feed(&mut self, connection: &mut Connection, fresh: &[u8]) {
        if connection.has_input() {
            connection.keep(fresh);
            return self.resume(connection);
        }
        let consumed = self.run(connection, fresh, None);
        connection.keep(&fresh[consumed..]);
        self.pump();
    }

    /// Carries out what the connection has left over: after a wait, or when the driver read into its buffer.
    pub fn resume(&mut self, connection: &mut Connection) {
        let (input, consumed) = connection.take_input();
        let is_long = input.len() - consumed >= KEPT_BYTES_MIN;
        if is_long && connection.decoder.wanted() <= input.len() - consumed {
            let input = Bytes::from(input);
            let more = self.run(connection, &input[consumed..], Some(&input));
            // Nothing is copied but what stands behind a frame that somebody has kept, which is most of it.
            match more {
                0 => connection.put_input(input.into(), consumed, 0),
                _ => connection.put_input(input[consumed + more..].to_vec(), 0, 0),
            }
        } else {
            let more = self.run(connection, &input[consumed..], None);
            connection.put_input(input, consumed, more);
        }
        self.pump();
    }

    /// Decodes and dispatches until the bytes end or the connection has to wait. Returns the bytes consumed.
    /// Of what lies in `source`, the frame of a long command need not be copied.
    fn run(&mut self, connection: &mut Connection, bytes: &[u8], source: Option<&Bytes>) -> usize {
        // The words of a command lie in it while the rest of the connection is worked on.
        let mut decoder = std::mem::take(&mut connection.decoder);
        let (mut at, mut is_incomplete) = (0, false);
        connection.is_cut_short = false;
        self.follow_settings();
        let output_max = connection.session.output_limit(&self.cx.settings);
        let turn_output_bytes = self.turn_output_bytes();
        let compared = self.pubsub.compared;
        let mut looked_at = 0;
        self.cx.open_span();
        while at < bytes.len() {
            let Connection {
                session, pipeline, ..
            } = &mut *connection;
            if session.is_waiting || session.is_closing || pipeline.is_full() {
                break;
            }
            let ready = pipeline.ready_bytes();
            if ready >= turn_output_bytes {
                // The driver sends it and lets others have their turn; at the limit it ends the connection.
                session.is_overrun = output_max.passes_hard(ready as u64);
                break;
            }
            if self.cx.outbox.deliveries.len() >= Gateway::DELIVERIES_MAX
                || self.pubsub.compared - compared >= Gateway::COMPARED_MAX
            {
                break;
            }
            let limits = Limits {
                bulk_bytes_max: usize::try_from(self.cx.settings.proto_max_bulk_len).unwrap_or(usize::MAX),
                authenticated: session.is_authenticated,
                ..Limits::default()
            };
            match decoder.decode(&bytes[at..], &limits) {
                Ok(Decoded::Frame { consumed }) => {
                    if looked_at == 0 && at + consumed < bytes.len() {
                        looked_at = KEYS_AHEAD;
                        self.cx.local.look_ahead(session.db, &bytes[at..]);
                    }
                    looked_at = looked_at.saturating_sub(1);
                    let args = decoder.args(&bytes[at..]);
                    if !args.is_empty() {
                        let resolved = command::resolve(args);
                        let spec = resolved.as_ref().ok().copied();
                        let may_pass = |spec| self.may_pass(session, spec, args);
                        if !session.busy.is_empty() && !spec.is_some_and(may_pass) {
                            break;
                        }
                        let is_spread = self.cx.view.is_spread;
                        let may_overtake = |spec| {
                            may_overtake(session, spec, args)
                                || is_spread && (session.sent.is_mixed() || may_hide(session, spec, args))
                        };
                        if !pipeline.is_settled() && spec.is_some_and(may_overtake) {
                            break;
                        }
                        if spec.is_some_and(is_publish) && pipeline.places() >= PUBLISHED_MAX {
                            break;
                        }
                        let is_postponed = |spec| self.pausing.is_postponed(session, spec);
                        if self.pausing.pause.is_some() && spec.is_some_and(is_postponed) {
                            pause::hold_back(&self.cx, session);
                            break;
                        }
                        if let Some(source) = source {
                            self.cx.frame = frame(source, &bytes[at..at + consumed]);
                        }
                        self.dispatch(connection, args, resolved);
                        if source.is_some() {
                            self.cx.frame = None;
                        }
                    }
                    at += consumed;
                }
                Ok(Decoded::Incomplete) => {
                    is_incomplete = true;
                    break;
                }
                Err(error) => {
                    let text = [b"ERR ", error.message().as_slice()].concat();
                    pipeline.writer(session.protocol).error_bytes(&text);
                    self.cx.count_error(&text);
                    session.is_closing = true;
                    at = bytes.len();
                }
            }
        }
        if !self.seats.may_tell(&self.cx) {
            // Somebody else may lead by now, and have written what was just read. Nothing of it is told.
            connection.session.is_void = true;
            let info = &connection.session.info;
            info.is_killed.store(true, std::sync::atomic::Ordering::Relaxed);
            self.cx.outbox.reap_soon();
        }
        if !is_incomplete {
            connection.is_cut_short = at < bytes.len() && !connection.session.is_closing;
            decoder.relax();
        }
        connection.decoder = decoder;
        self.cx.close_span();
        at
    }

    /// One command of one client, and what its name and number of words were found to be.
    #[inline]
    fn dispatch(
        &mut self,
        connection: &mut Connection,
        args: Args<'_>,
        resolved: Result<&'static Spec, ReplyError>,
    ) {
        let start = connection.pipeline.target().len();
        let slots = connection.pipeline.reserved();
        let mut is_push = false;
        match resolved {
            Ok(spec) => {
                is_push = changes_subscriptions(spec.id);
                let info = &connection.session.info;
                info.note_command(spec.id.index() as u16, self.cx.turn.now.0);
                self.cx.before_command(spec);
                if connection.session.no_touch {
                    self.cx.local.touch(touches(&connection.session, spec));
                }
                self.admit(connection, spec, args);
                // Whatever the command made of the flag: the next client's count again.
                if connection.session.no_touch || spec.id == CommandId::ClientNoTouch {
                    self.cx.local.touch(true);
                }
                if self.cx.timing.is_ours {
                    self.cx
                        .after_command(spec, args, Caller::Here(&connection.session.info));
                }
                if connection.pipeline.reserved() == slots {
                    let is_failure = !self.cx.timing.is_refused;
                    self.cx
                        .look_at_reply(is_failure.then_some(spec), &connection.pipeline.target()[start..]);
                }
            }
            Err(_) if is_http(args) => return self.cx.end_cross_protocol(&mut connection.session),
            Err(error) => {
                if let Some(spec) = command::lookup(args.arg(0)) {
                    self.cx.stats.by_command[spec.id].rejected.add(1);
                }
                let is_exec = command::lookup(args.arg(0)).is_some_and(|spec| spec.id == CommandId::Exec);
                if is_exec {
                    self.abort_exec(connection, &error);
                } else {
                    self.refuse(connection, &error);
                }
                self.cx
                    .look_at_reply(None, &connection.pipeline.target()[start..]);
            }
        }
        if connection.session.is_silent() && !is_push {
            // What was written at once is taken back; what comes later was reserved as silent.
            if connection.pipeline.reserved() == slots {
                connection.pipeline.take_back(start);
            }
        }
        connection.session.end_command();
        self.serve_waiters();
    }

    /// Refuses a command before it is carried out: an open `MULTI` block is broken by it.
    pub(crate) fn refuse(&mut self, connection: &mut Connection, error: &ReplyError) {
        self.cx.timing.is_refused = true;
        if let Some(block) = &mut connection.session.block {
            block.is_broken = true;
        }
        error.write(&mut connection.writer());
    }

    /// Checks what every command must pass, then carries it out or queues it.
    #[inline]
    fn admit(&mut self, connection: &mut Connection, spec: &'static Spec, args: Args<'_>) {
        if !connection.session.is_authenticated && !spec.flags.contains(Flags::NO_AUTH) {
            self.cx.stats.by_command[spec.id].rejected.add(1);
            return self.refuse(connection, &ReplyError::NoAuth);
        }
        if connection.session.is_listening()
            && let Some(error) = connection.session.refuses_while_listening(spec)
        {
            self.cx.stats.by_command[spec.id].rejected.add(1);
            return self.refuse(connection, &error);
        }
        if let Some(error) = self.cx.endpoint_refuses(&connection.session, spec, args) {
            self.cx.stats.by_command[spec.id].rejected.add(1);
            return self.refuse(connection, &error);
        }
        if connection.session.block.is_some() && self.queue(connection, spec, args) {
            return;
        }
        if matches!(spec.id, CommandId::DebugObject | CommandId::DebugSdsLen)
            && let Err(error) = crate::commands::debug::check(&self.cx, &connection.session)
        {
            return self.refuse(connection, &error);
        }
        self.cx.stats.commands.add(1);
        self.cx.stats.by_command[spec.id].calls.add(1);
        self.cx.timing.is_ours = true;
        if spec.id != CommandId::Multi
            && let Some(id) = connection.session.naming.take()
            && self.on_named(connection, spec, args, id)
        {
            return self.show(&connection.session, connection.session.db, spec, args);
        }
        match spec.route {
            Route::Keys if spec.flags.contains(Flags::BLOCKING) => {
                self.on_blocking(connection, spec, args);
            }
            Route::Keys => self.on_keys(connection, spec, args),
            Route::Connection => self.on_connection(connection, spec, args),
            Route::Everywhere => self.on_several(connection, spec, args),
            Route::Scan => self.on_scan(connection, spec, args),
        }
        // An EXEC that waits for groups is shown when it is over, behind its commands.
        if !(spec.id == CommandId::Exec && connection.session.is_waiting) {
            self.show(&connection.session, connection.session.db, spec, args);
        }
    }

    /// Room for a command that needs memory. `false`: refuse.
    #[inline]
    pub(crate) fn make_room(&mut self) -> bool {
        let is_paused = self.pausing.pause.is_some();
        let has_room = self.maxmemory.make_room(&mut self.cx, is_paused);
        self.tell_noted();
        has_room
    }

    /// A command on keys.
    #[inline]
    fn on_keys(&mut self, connection: &mut Connection, spec: &'static Spec, args: Args<'_>) {
        let mut group = None;
        let groups = self.cx.groups;
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
                return self.on_several(connection, spec, args);
            }
        }
        // A command that names no key (an option made it so) is as good in any group.
        let group = group.unwrap_or(GroupId::new(0));
        let Some(index) = self.cx.local.index(group) else {
            return self.forward(connection, spec, args, group);
        };
        if spec.flags.contains(Flags::DENYOOM) {
            if !self.make_room() {
                return ReplyError::OutOfMemory.write(&mut connection.writer());
            }
            self.maxmemory.changed = Changed::One(index);
        }
        let replica = &self.cx.local.replicas[index];
        if !replica.is_free(|| locks_of([(spec, args)], |_| true)) {
            if replica.has_log() {
                return self.on_replicated(connection, spec, args, index);
            }
            return self.park(connection, spec, args, group);
        }
        let parse = spec.parse.expect("a command on keys has a parser");
        let command = match parse(args) {
            Ok(command) => command,
            Err(error) => return error.write(&mut connection.writer()),
        };
        if crate::offload::is_heavy(&self.cx, connection.session.db, spec, args, &command) {
            note_sent(connection, spec, args);
            let reply_to = self.cx.reserve(connection);
            let operation = connection.session.operation(spec, args);
            return self.run_aside(reply_to, operation, touches(&connection.session, spec));
        }
        let db = connection.session.db;
        self.cx.local.replicas[index].execute(&self.cx.turn, db, &command, &mut connection.writer());
        self.tell(index);
    }

    /// Sends a command to the worker of its group.
    pub(crate) fn forward(
        &mut self,
        connection: &mut Connection,
        spec: &'static Spec,
        args: Args<'_>,
        group: GroupId,
    ) {
        let is_free = is_free(connection, spec, args);
        note_sent(connection, spec, args);
        let reply_to = self.cx.reserve_behind(connection, spec, args);
        // It is measured where it is carried out.
        self.cx.timing.is_ours = false;
        let owner = self.cx.local.owner(group);
        let frame = self.cx.frame.as_ref();
        let asked = connection.session.asked(spec, args, is_free, frame);
        self.cx.outbox.mailbox_batch(owner).push_command(reply_to, &asked);
    }

    /// Lets a command wait for locks in its group, here.
    pub(crate) fn park(
        &mut self,
        connection: &mut Connection,
        spec: &'static Spec,
        args: Args<'_>,
        group: GroupId,
    ) {
        let index = self.cx.local.index(group).expect("the caller looked");
        if !self.cx.local.replicas[index].has_room_to_wait() {
            return busy(&mut connection.writer());
        }
        note_sent(connection, spec, args);
        let reply_to = self.cx.reserve(connection);
        let operation = connection.session.operation(spec, args);
        self.wait_for_keys(group, reply_to, operation, touches(&connection.session, spec));
    }

    /// Lets a command wait for the locks of its keys, which are all in this group of this worker.
    pub(crate) fn wait_for_keys(
        &mut self,
        group: GroupId,
        reply_to: ReplyTo,
        operation: Operation,
        touches: bool,
    ) {
        let index = self.cx.local.index(group).expect("its keys live here");
        // Nothing more is lent of a group that is to get a log.
        if operation.spec.cost == Cost::Little || self.cx.local.replicas[index].awaits_log() {
            return self.request(group, Request::Execute { reply_to, operation });
        }
        // How far it will walk cannot be told yet: what it wants may be lent.
        self.run_aside(reply_to, operation, touches);
    }

    /// Makes room for a command on keys, if it needs any, and parses it. `None`: the error is written.
    pub(crate) fn accept<'a>(
        &mut self,
        connection: &mut Connection,
        spec: &Spec,
        args: Args<'a>,
    ) -> Option<Command<'a>> {
        let mut out = connection.writer();
        if spec.flags.contains(Flags::DENYOOM) && !self.make_room() {
            ReplyError::OutOfMemory.write(&mut out);
            return None;
        }
        let parse = spec.parse.expect("a command on keys has a parser");
        parse(args).map_err(|error| error.write(&mut out)).ok()
    }

    /// A command that may wait, outside of `MULTI`.
    pub(crate) fn on_blocking(&mut self, connection: &mut Connection, spec: &'static Spec, args: Args<'_>) {
        let Some(command) = self.accept(connection, spec, args) else {
            return;
        };
        let is_tried = self.cx.local.is_one_step(spec, args, &Scope::Cluster);
        let db = connection.session.db;
        if is_tried
            && crate::offload::is_heavy(&self.cx, db, spec, args, &command)
            && self.cx.local.has_alone(spec, args)
        {
            // There is something to pop, and much of it: it will not wait.
            let operation = connection.session.operation(spec, args);
            return self.begin(connection, Program::single(operation));
        }
        if is_tried {
            let target = connection.pipeline.target();
            let start = target.len();
            let mut out = Writer::new(target, connection.session.protocol);
            crate::local_fast_path::run_here(
                &mut self.cx,
                db,
                spec,
                args,
                &command,
                &Scope::Cluster,
                &mut out,
            );
            self.tell_noted();
            if !keyspace::is_nil(&target[start..]) {
                return;
            }
            target.truncate(start);
        }
        let timeout = match command {
            Command::Blocking(blocking) => blocking.timeout_millis,
            _ => None,
        };
        let reply_to = self.cx.reserve(connection);
        connection.session.is_waiting = true;
        connection.session.info.set_blocked(true);
        let spent = self.cx.postpone_time();
        let waiting = Waiting {
            reply_to,
            client: connection.session.info.id,
            operation: connection.session.operation(spec, args),
            timeout_millis: timeout,
            spent,
        };
        self.blocking.block(&mut self.cx, waiting, is_tried);
        self.route();
    }

    /// A command over several groups.
    fn on_several(&mut self, connection: &mut Connection, spec: &'static Spec, args: Args<'_>) {
        let Some(command) = self.accept(connection, spec, args) else {
            return;
        };
        if self.last_agent.send(
            &mut self.cx,
            &mut self.coordinator,
            connection,
            spec,
            args,
            &command,
        ) {
            return;
        }
        let scope = self.cx.scope(&connection.session);
        let db = connection.session.db;
        if self.cx.local.is_one_step(spec, args, &scope)
            && !crate::offload::is_heavy(&self.cx, db, spec, args, &command)
        {
            let out = &mut connection.writer();
            crate::local_fast_path::run_here(&mut self.cx, db, spec, args, &command, &scope, out);
            return self.tell_noted();
        }
        let mut program = Program::single(connection.session.operation(spec, args));
        if let Command::MSetNx { pairs } = command {
            program.conditions = absent(db, pairs);
        }
        program.scope = scope;
        self.begin(connection, program);
    }

    /// Whether a command may be carried out before the connection's transactions under way are answered: if it is on
    /// other keys than theirs, and on keys alone.
    fn may_pass(&self, session: &Session, spec: &Spec, args: Args<'_>) -> bool {
        let is_busy = self.cx.view.is_spread || self.last_agent.is_busy() || self.coordinator.counts().0 > 0;
        // What shares a transaction locks for as long as one does.
        let is_busy = is_busy && !(self.cx.view.is_spread && combining::is_combined(spec));
        let begins_none = spec.spread == Spread::Single || !session.busy.is_full(is_busy);
        // One that waits for keys holds its connection up: the answer to a transaction must not let go of it.
        let may_wait = spec.flags.contains(command::Flags::BLOCKING);
        session.block.is_none()
            && spec.route == Route::Keys
            && begins_none
            && !may_wait
            && !any_slot(spec, args, |slot| session.busy.holds(slot))
    }

    /// Looks at the lines of keys that were filled since the last time. Called right behind each command.
    #[inline]
    pub(crate) fn serve_waiters(&mut self) {
        if self.blocking.is_awaited() {
            self.blocking.serve(&mut self.cx);
            self.route();
        }
    }

    /// The connection ends: nobody waits any more.
    pub fn forget_connection(&mut self, connection: u64) {
        self.blocking.replica_waits.forget(connection);
        self.blocking.forget(&mut self.cx, connection);
        self.route();
    }

    /// The client of this connection sends no more. Whether it waits for a key, and must not be given an element: then
    /// the connection is to be closed. If it waits only for its command to be tried, a
    /// [`Delivery::HungUp`](crate::Delivery::HungUp) says later when there was nothing.
    pub fn hangs_up(&mut self, connection: u64) -> bool {
        self.blocking.replica_waits.forget(connection) || self.blocking.hangs_up(connection)
    }

    /// Ends the waits whose time has come. Called every turn.
    #[inline]
    pub fn end_waits(&mut self) {
        if self.next_wait_ends() == Some(0) {
            self.blocking.replica_waits.end_late(&mut self.cx);
            self.blocking.end_late(&mut self.cx);
            self.route();
        }
    }

    /// In how many nanoseconds the first wait ends.
    pub fn next_wait_ends(&self) -> Option<u64> {
        let first = self.blocking.first_deadline().into_iter();
        let first = first.chain(self.blocking.replica_waits.first_deadline()).min()?;
        Some(first.saturating_sub(self.cx.timing.now()))
    }

    /// The connection listens to nothing any more: it is closed, or begins anew.
    pub fn stop_listening(&mut self, session: &mut Session) {
        self.pubsub.stop_listening(&mut self.cx, session);
    }

    /// Shows a command that was carried out to those who watch.
    #[inline]
    pub(crate) fn show(&mut self, session: &Session, db: Db, spec: &'static Spec, args: Args<'_>) {
        monitor::show(&mut self.cx, &self.pubsub, session, db, spec, args);
    }

    /// Sends what happened in a group of this worker during the call that was just made.
    #[inline]
    pub(crate) fn tell(&mut self, index: usize) {
        self.cx.local.note_events(index);
        self.tell_noted();
    }

    /// Sends what was noted to be told.
    #[inline]
    pub(crate) fn tell_noted(&mut self) {
        notify::tell_noted(&mut self.cx, &mut self.pubsub);
    }

    /// Whether a pause ended since this was last asked: connections with [`Session::is_paused`] are to go on.
    pub fn lets_go(&mut self) -> bool {
        self.pausing.lets_go()
    }

    /// A connection waits no more for the end of a pause, if it did.
    pub fn go_on(&mut self, session: &mut Session) {
        pause::go_on(&self.cx, session);
    }

    /// When the pause under way ends.
    pub fn paused_until(&self) -> Option<UnixMillis> {
        self.pausing.pause.map(|pause| pause.until)
    }

    /// Whether requests wait for locks in this worker's groups.
    pub fn has_lock_waiters(&self) -> bool {
        self.cx
            .local
            .replicas
            .iter()
            .any(|replica| replica.state().lock_counts().1 > 0)
    }

    /// Learns the raw monotonic time, once a turn, before anything else.
    pub fn begin_cluster(&mut self, now: Monotonic) {
        self.cx.now = now;
        let own = self.cx.turn.now;
        if !mutations::is(Mutation::WallClockTrusted) {
            self.cx.turn.now = self.peers.judge_wall_clock(own, now);
        }
        self.cx.local.touch_keeping(now);
        let Some(stood_still) = self.cx.local.visits.look(now) else {
            return;
        };
        self.coordinator.tick_transaction(&mut self.cx);
        self.route();
        if self.cx.view.layout.is_none() {
            return;
        }
        if let Some(span) = stood_still {
            self.cx.view.stood_still(now);
            self.seats.on_standstill(&mut self.cx, span);
        }
        self.peers.tell_wall_clock(&mut self.cx, own);
        self.end_overdue_questions(now);
        for node in self.cx.view.newly_silent(now) {
            self.seats.on_silence(&mut self.cx, node);
        }
        self.route();
        self.tick_groups(now);
    }

    /// What an operator is to be told of the wall clock here.
    pub fn take_clock_notice(&mut self) -> Option<String> {
        self.peers.take_clock_notice()
    }

    /// Whether the wall clock here is so far from the others' that theirs is used.
    pub fn is_wall_clock_off(&self) -> bool {
        self.peers.is_wall_clock_off()
    }

    /// When this worker is to be called again, at the latest, if nothing happens.
    pub fn next_cluster_timer(&self) -> Option<Monotonic> {
        let visits = &self.cx.local.visits;
        if visits.has_touched() {
            return Some(self.cx.now);
        }
        let is_waiting =
            self.has_questions() || !self.coordinator.is_empty() || self.coordinator.recoveries.len() > 0;
        let first = visits.first_kept().into_iter();
        let first = first.chain(self.peers.next_beat(&self.cx));
        let next = first.fold(visits.next_tick(is_waiting), Monotonic::min);
        // Transactions have deadlines within a node too.
        (self.cx.view.is_spread || self.coordinator.counts().0 > 0).then_some(next)
    }

    /// Takes from what the last life of the process left all that is of this worker's groups. Before the first layout: its
    /// seats begin with it, as far as they are the same replicas.
    pub fn keep(&mut self, all: &mut Vec<HandoverImage>) {
        self.seats.keep(&self.cx, all);
    }

    /// The node is going to stop: offers the leadership of its groups to others that are in reach. How many offers are
    /// open: they are taken up within a few rounds, or not at all.
    pub fn resign(&mut self) -> usize {
        self.seats.resign(&mut self.cx)
    }

    /// Whether nothing is under way that several groups have a part in, and that this worker answers for. What waits for a group
    /// that can have no leader is left to whoever leads it again, as if this node had died: no client was told of it, or all
    /// that was decided is in logs.
    pub fn is_at_rest(&self) -> bool {
        let is_leaderless = |group| {
            let view = &self.cx.view;
            let is_there = |node| !view.is_down(node);
            let layout = view.layout();
            layout.is_some_and(|layout| !layout.group(group).has_majority(is_there))
        };
        let mut replicas = self.cx.local.replicas.iter();
        self.cx.outbox.outputs.is_empty()
            && self.last_agent.is_empty()
            && self.coordinator.waits_only_for(is_leaderless)
            && self.cx.outbox.offload_jobs.is_empty()
            && self.backlog() == 0
            && !replicas.any(Replica::has_transactions)
    }

    /// Ends here for good: what the next life of the process needs to go on with this worker's replicas, and the groups
    /// of which not everything is here that they rely on. Replicas that have no state yet are in neither.
    pub fn into_handover_images(self, now: Monotonic) -> (Vec<HandoverImage>, Vec<GroupId>) {
        self.seats.into_handover_images(self.cx, now)
    }

    /// Takes over a version of the cluster. An older one than it has is let go.
    pub fn set_layout(&mut self, layout: Arc<Layout>) {
        let known = self.cx.view.layout.as_ref().map(|layout| layout.epoch);
        if known.is_some_and(|known| layout.epoch <= known) && !mutations::is(Mutation::StaleMapAccepted) {
            return;
        }
        // Groups are told of the world once a turn, and it is another one from here on.
        self.cx.turn.number += 1;
        self.cx.turn.semantics = layout.semantics;
        let new = self.peers.on_layout(&layout);
        self.cx.view.set_layout(layout);
        for index in 0..self.cx.local.replicas.len() {
            let has_new_log = self.seats.on_layout(&mut self.cx, index);
            self.blocking.on_layout(&self.cx, index, has_new_log);
            self.group_clients.on_layout(&mut self.cx, index);
            self.route();
        }
        self.blocking.replica_waits.on_layout(&mut self.cx);
        // They may have linked before this node heard of them.
        for node in new
            .into_iter()
            .filter(|node| self.cx.view.is_up(*node))
            .collect::<Vec<_>>()
        {
            self.on_link(node, true);
        }
    }

    /// The meta group wants something of the leader of a group of this worker.
    pub fn on_order(&mut self, group: GroupId, index_then: u64, order: &control::Order) {
        self.seats.on_order(&mut self.cx, group, index_then, order);
        self.route();
    }

    /// What the meta group is to be told of the groups that this worker leads, and which it does not lead.
    pub fn group_reports(&self) -> (Vec<GroupReport>, Vec<GroupRef>) {
        self.seats.group_reports(&self.cx)
    }

    /// How long after [`Gateway::group_reports`] they are asked for again, if there is no news.
    pub fn group_reports_pause(&self) -> Duration {
        self.seats.group_reports_pause(&self.cx)
    }

    /// The replicas of this worker that know no leader of their group, and what is kept from before groups began anew.
    pub fn recovery_sources(&self) -> Vec<RecoverySource> {
        self.seats.recovery_sources(&self.cx)
    }

    /// The replicas that were given up because their state differed from that of most others: the meta group is to give their nodes
    /// other ones.
    pub fn given_up(&self) -> Vec<GivenUp> {
        self.seats.given_up(&self.cx)
    }

    /// Whether leaders or members have changed since this was last asked.
    pub fn take_news(&mut self) -> bool {
        self.seats.take_news()
    }

    /// What an operator is to be told.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.cx.outbox.notices)
    }

    /// The link to a node came up, or broke.
    pub fn on_link(&mut self, node: NodeId, is_up: bool) {
        self.cx.view.on_link(node, is_up, self.cx.now);
        if is_up {
            self.peers.on_link_up(node, self.cx.now);
            self.ask_unsent(node);
        } else {
            self.end_questions_to(node);
        }
        if self.cx.view.layout.is_some() {
            (0..self.cx.local.replicas.len()).for_each(|index| self.on_group_link(index, node, is_up));
        }
    }

    /// Whether a long message is on its way on the link to a node, in either direction. What is waited for may be behind it.
    pub fn on_moving(&mut self, node: NodeId, is_moving: bool) {
        self.cx.view.on_moving(node, is_moving);
    }

    /// Learns the raw monotonic time, as it is after messages were received and before they are handed over. Promises are
    /// counted from it: the process may have stood still since the turn began, and a message that came meanwhile is no older
    /// than its arrival.
    pub fn received(&mut self, now: Monotonic) {
        self.cx.now = self.cx.now.max(now);
    }

    /// A message of another node. What was read from the links before is told by [`Gateway::received`].
    pub fn on_peer(&mut self, from: NodeId, message: PeerMessage) {
        self.cx.view.heard(from, self.cx.now);
        self.on_peer_message(from, message);
        self.route();
    }

    /// The raw monotonic time, as of this turn.
    pub fn cluster_now(&self) -> Monotonic {
        self.cx.now
    }

    /// What is to be sent to other nodes, in order.
    pub fn take_peer_messages(&mut self) -> Vec<(NodeId, PeerMessage)> {
        std::mem::take(&mut self.cx.outbox.peer_messages)
    }

    /// Whether the turn has anything for [`Gateway::finish_cluster`] to do.
    pub fn has_cluster_work(&self) -> bool {
        self.cx.local.visits.has_touched()
            || !self.combining.is_empty()
            || !self.cx.outbox.peer_messages.is_empty()
            || self.peers.has_due(&self.cx)
    }

    /// At the turn's end: what was gathered goes on its way. `now` is read after everything that was answered. Returns
    /// whether anything was answered by it, so that connections may go on.
    pub fn finish_cluster(&mut self, now: Monotonic) {
        if self.cx.view.layout.is_none() {
            return;
        }
        self.cx.now = now;
        self.combining.begin(&mut self.cx, &mut self.coordinator);
        self.route();
        // A batch that is answered at once may let a connection go on, whose commands wait for the next turn.
        for index in self.cx.local.visits.take_touched() {
            self.cx.local.visits.begin(index, now);
            self.finish_group(index);
        }
        if self.seats.take_claims_changed() {
            self.peers.claim(&self.cx);
        }
        self.peers.beat(&mut self.cx);
        self.serve_waiters();
        self.pump();
    }

    /// This worker's replicas. Of a node that is to have none of a group, nothing is seen.
    pub fn replica_views(&self) -> impl Iterator<Item = ReplicaView<'_>> {
        self.seats.replica_views(&self.cx)
    }

    /// The transactions that this worker sees to, as a coordinator or in its coordinator's place, in words. Nothing at rest.
    pub fn seen_to(&self) -> Vec<String> {
        let mut all = self.coordinator.in_words();
        all.extend(self.coordinator.recoveries.in_words());
        all
    }

    /// Says what does not hold of this worker's machines, for checks after every step.
    pub fn check(&self) -> Result<(), String> {
        self.coordinator.check()?;
        self.blocking.check()?;
        self.cx.local.visits.check(self.cx.now)?;
        self.group_clients.check(&self.cx)?;
        self.peers.check(&self.cx)?;
        self.seats.check(&self.cx)
    }

    /// Says what does not hold of the replicas here, for checks after every step.
    pub fn check_replicas(&self) -> Result<(), String> {
        self.cx.local.replicas.iter().try_for_each(Replica::check)
    }

    /// The numbers of this worker's transactions whose clients are to be told by a deadline, for checks of it.
    pub fn transactions_with_deadlines(&self) -> impl Iterator<Item = u64> {
        self.coordinator.with_deadlines()
    }

    /// How long these may have been under way when it last looked at the clock on behalf of what has a deadline.
    pub const TRANSACTION_DEADLINE: Duration = crate::coordinator::DEADLINE;

    /// When that was.
    pub fn ticked(&self) -> Monotonic {
        self.cx.local.visits.looked()
    }

    /// The version of the cluster that this worker goes by.
    pub fn epoch(&self) -> Option<Epoch> {
        self.cx.view.layout.as_ref().map(|layout| layout.epoch)
    }
}

/// What a mailbox batch holds for the driver.
pub enum Incoming<'a> {
    /// An answer for a connection of this worker.
    Answer {
        /// Which connection.
        connection: u64,
        /// Its place in the pipeline.
        sequence: u64,
        /// The reply.
        reply: &'a [u8],
    },
    /// Look for new connections.
    Adopt,
    /// Look for killed connections.
    Reap,
}

/// A frame that is long, where it lies. Only if there is little else: all of it stays as long as the frame does.
fn frame(source: &Bytes, frame: &[u8]) -> Option<Bytes> {
    let is_most = frame.len() >= KEPT_BYTES_MIN && source.len() - frame.len() <= frame.len() / 8;
    is_most.then(|| source.slice_ref(frame))
}

/// Notes that a command whose keys are all in one group is about to be sent there, or to wait there.
#[inline]
pub(crate) fn note_sent(connection: &mut Connection, spec: &Spec, args: Args<'_>) {
    let is_settled = connection.pipeline.is_settled();
    let kind = if spec.flags.contains(Flags::WRITE) {
        SentKind::Write
    } else if is_free(connection, spec, args) {
        SentKind::FreeRead
    } else {
        SentKind::OrderedRead
    };
    if let Some(position) = command::only_key(spec) {
        let slot = ids::Slot::of_key(args.arg(position));
        return connection.session.sent.add(slot, kind, is_settled);
    }
    let mut is_first = true;
    command::keys(spec, args, &mut |position, _| {
        let slot = ids::Slot::of_key(args.arg(position));
        connection.session.sent.add(slot, kind, is_settled && is_first);
        is_first = false;
    });
}

/// Whether a command only reads, and need not be behind anything that its connection has under way on the same slots: neither a
/// write nor a read that is behind one.
pub(crate) fn is_free(connection: &Connection, spec: &Spec, args: Args<'_>) -> bool {
    let sent = &connection.session.sent;
    !spec.flags.contains(Flags::WRITE)
        && (connection.pipeline.is_settled()
            || mutations::is(mutations::Mutation::OwnWriteNotAwaited)
            || !any_slot(spec, args, |slot| sent.may_order(slot)))
}

/// Whether this is so of the slot of any key of a command.
#[inline]
fn any_slot(spec: &Spec, args: Args<'_>, mut is_so: impl FnMut(ids::Slot) -> bool) -> bool {
    let mut any = false;
    command::keys(spec, args, &mut |position, _| {
        any = any || is_so(ids::Slot::of_key(args.arg(position)));
    });
    any
}

/// Whether a command only reads, and its connection has nothing under way on the same slots: answered at once, it comes behind
/// whatever was asked before it.
pub(crate) fn is_untouched(connection: &Connection, spec: &Spec, args: Args<'_>) -> bool {
    let sent = &connection.session.sent;
    !spec.flags.contains(Flags::WRITE)
        && (connection.pipeline.is_settled() || !any_slot(spec, args, |slot| sent.may_hold(slot)))
}

/// Whether a plain write would come behind a read of the same connection that was not answered, of the same slot. Where groups
/// are led elsewhere a read may have to be asked again, when the write is done: the write waits for it. A client of the
/// cluster endpoint is told to try again.
fn may_hide(session: &Session, spec: &Spec, args: Args<'_>) -> bool {
    session.sent.has_reads()
        && spec.flags.contains(Flags::WRITE)
        && spec.route == Route::Keys
        && session.block.is_none()
        && session.endpoint == Endpoint::AnyNode
        && any_slot(spec, args, |slot| session.sent.may_read(slot))
}

/// Whether a command might be carried out before one that the same connection sent earlier and that was not answered yet:
/// if it is one for several groups, and they have a key in common.
#[inline]
fn may_overtake(session: &Session, spec: &Spec, args: Args<'_>) -> bool {
    if spec.id == CommandId::Wait {
        // It tells of the writes before it, whatever their keys.
        return true;
    }
    let is_plain = spec.route == Route::Keys
        && spec.spread == Spread::Single
        && session.naming == Naming::Nothing
        && !names_more(spec, args);
    !is_plain && !session.sent.is_empty() && is_among_sent(session, spec, args)
}

fn is_among_sent(session: &Session, spec: &Spec, args: Args<'_>) -> bool {
    let is_among = |spec: &Spec, args: Args<'_>| {
        spec.route == Route::Everywhere
            || names_more(spec, args)
            || spec.route == Route::Keys && any_slot(spec, args, |slot| session.sent.may_hold(slot))
    };
    match &session.block {
        None => is_among(spec, args),
        Some(_) if spec.id != CommandId::Exec => false,
        Some(block) => {
            let mut commands = block.commands.iter();
            commands.any(|queued| is_among(queued.spec, queued.args.as_args()))
        }
    }
}

/// Whether a command counts as use of its keys.
pub(crate) fn touches(session: &Session, spec: &Spec) -> bool {
    !session.no_touch || spec.id == CommandId::Touch
}

/// What the settings say of collections that are kept small. Larger numbers than can be counted mean "always".
fn compactness(settings: &Settings) -> Compactness {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Compactness {
        hash_entries: number(settings.hash_max_listpack_entries),
        hash_value_bytes: number(settings.hash_max_listpack_value),
        set_integers: number(settings.set_max_intset_entries),
        set_entries: number(settings.set_max_listpack_entries),
        set_value_bytes: number(settings.set_max_listpack_value),
        sorted_set_entries: number(settings.zset_max_listpack_entries),
        sorted_set_value_bytes: number(settings.zset_max_listpack_value),
        list_node_size: settings.list_max_listpack_size,
        sparse_bytes: number(settings.hll_sparse_max_bytes),
    }
}

fn absent(db: Db, pairs: Args<'_>) -> Vec<Condition> {
    pairs
        .iter()
        .step_by(2)
        .map(|key| Condition::Absent { db, key: key.into() })
        .collect()
}

/// Too many requests wait for locks of one group. The command was certainly not carried out.
pub(crate) fn busy(out: &mut Writer<'_>) {
    out.error("TRYAGAIN too many commands wait for a transaction on these keys");
}

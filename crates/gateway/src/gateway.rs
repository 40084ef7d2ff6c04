//! A worker's gateway, as its driver calls it: bytes, mailbox batches, messages of other nodes, time.
//!
//! ```text
//!  feed --> decode --> `dispatch.rs`
//!  receive, on_peer, begin_cluster, finish_cluster --> `router.rs`
//! ```
//!
//! Everything a turn has for another worker goes into one mailbox batch, handed over by the driver at the turn's end.
//! The gateway does no I/O and reads no clock: the driver tells it the [`Turn`](replica::Turn).

use crate::backups::{self, BackupPiece, BackupQuestion, BackupReplyTo, Backups};
use crate::blocking::Blocking;
use crate::chores::{self, SaveTask};
use crate::cluster::{ClusterStats, GroupClients, HandoverImage, Layout, Peers, ReplicaView, Seats};
use crate::coding_rule::coding_rule;
use crate::combining::Combining;
use crate::connection::Connection;
use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::cron;
use crate::cross_protocol::is_http;
use crate::delivery::{self, Delivery};
use crate::dispatch::{Dispatch, refuse};
use crate::fanout::{Fanout, Wish};
use crate::in_flight::{may_change_groups, may_hide, may_overtake, may_pass};
use crate::last_agent::LastAgent;
use crate::maxmemory::{Changed, Maxmemory};
use crate::message::{MailboxBatch, Message};
use crate::moved::Unplaced;
use crate::multi::{self, Watching};
use crate::notify;
use crate::offload::{OffloadJob, Work};
use crate::outbox::{Addressee, DiskTask};
use crate::pause::{self, Pausing};
use crate::pubsub::{PUBLISHED_MAX, PubSub, changes_subscriptions, is_publish};
use crate::scan::Scans;
use crate::script_ahead;
use crate::script_at_once;
use crate::session::Session;
use crate::shared::Shared;
use crate::stats::WorkerStats;
use crate::timing::Caller;
use crate::transaction_stats::TransactionStats;
use bytes::Bytes;
use command::{CommandId, ReplyError, Spec};
use control::{GivenUp, GroupRef, GroupReport, RecoverySource};
use ids::{DurabilityMode, Epoch, GroupId, HashSeed, Monotonic, NodeId, PartitionId, PeerWorker, UnixMillis};
use keyspace::{EncodingLimits as Compactness, KEPT_BYTES_MIN, KEYS_AHEAD, Keyspace, LfuParameters};
use mutations::Mutation;
use options::Settings;
use peer_wire::{DiskHealth, PeerMessage};
use replica::{DiskAnswer, Replica};
use resp::{Args, Decoded, Limits};
use std::collections::VecDeque;
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
    pub(crate) watching: Watching,
    /// Commands whose group nobody knows.
    pub(crate) unplaced: Unplaced,
    /// What was known of who hosts what when clients that wait were last looked at.
    hosts_seen: u32,
    pub(crate) blocking: Blocking,
    pub(crate) pubsub: PubSub,
    /// `SCAN`s that wait for another worker or node.
    pub(crate) scans: Scans,
    /// `CLIENT PAUSE`.
    pub(crate) pausing: Pausing,
    /// The way to groups whose leaders may be elsewhere, the replicas here, and the other nodes.
    pub(crate) group_clients: GroupClients,
    pub(crate) seats: Seats,
    pub(crate) peers: Peers,
    /// Commands that other nodes were asked for.
    pub(crate) fanout: Fanout,
    /// What its replicas have for a backup.
    pub(crate) backups: Backups,
}

impl Gateway {
    /// The Redis version whose commands and replies clients may expect.
    pub const REDIS_VERSION: &str = "7.2.4";

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
            watching: Watching::default(),
            unplaced: Unplaced::default(),
            hosts_seen: 0,
            blocking: Blocking::default(),
            pubsub: PubSub::default(),
            scans: Scans::default(),
            pausing: Pausing::default(),
            group_clients: GroupClients::default(),
            seats: Seats::default(),
            peers: Peers::default(),
            fanout: Fanout::default(),
            backups: Backups::default(),
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
        self.maxmemory.note_changed(Changed::Any);
        self.cx.stats.turns.add(1);
        self.cx.turn.number += 1;
        self.cx.turn.now = now;
        self.cx.turn.seed = self.cx.prng.next_u64();
        self.cx.turn.steps_max = self
            .cx
            .shared
            .steps_max
            .load(std::sync::atomic::Ordering::Relaxed);
        self.cx.view.is_loading = self.cx.shared.loading.has_absent();
        self.follow_settings();
        if self.cx.shared.common_groups() != self.cx.groups.get() {
            self.cx.follow_groups();
        }
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
        turn.notify = self.pubsub.follow(settings);
        // Groups are told of the world once a turn, and it is another one from here on.
        turn.number += 1;
        turn.lfu = self.maxmemory.is_lfu().then(|| LfuParameters {
            log_factor: settings.lfu_log_factor,
            decay_minutes: settings.lfu_decay_time_minutes,
        });
        timing.set_slow_log(settings.slowlog_log_slower_than_micros);
        timing.tracks = settings.latency_tracking;
        let limits_before = std::mem::replace(limits, compactness(settings));
        local.set_limits(turn, *limits);
        self.cx.turn.coding = coding_rule(&self.cx);
        if limits_before != self.cx.limits {
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
        script_ahead::look_again(self, connection);
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
        let compared = self.pubsub.compared();
        let mut looked_at = 0;
        self.cx.open_span();
        while at < bytes.len() {
            let Connection {
                session, pipeline, ..
            } = &mut *connection;
            if session.in_flight.is_waiting || session.is_closing || pipeline.is_full() {
                break;
            }
            let ready = pipeline.ready_bytes();
            if ready >= turn_output_bytes {
                // The driver sends it and lets others have their turn; at the limit it ends the connection.
                session.is_overrun = output_max.passes_hard(ready as u64);
                break;
            }
            if self.cx.outbox.deliveries.len() >= Gateway::DELIVERIES_MAX
                || self.pubsub.compared() - compared >= Gateway::COMPARED_MAX
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
                        let applies_first = self.seats.applies_first();
                        self.cx.local.look_ahead(session.db, &bytes[at..], applies_first);
                    }
                    looked_at = looked_at.saturating_sub(1);
                    let args = decoder.args(&bytes[at..]);
                    if !args.is_empty() {
                        let resolved = command::resolve(args);
                        let spec = resolved.as_ref().ok().copied();
                        let (groups, hosts_version) = (self.cx.groups, self.cx.hosts_version);
                        let is_spread = self.cx.view.is_spread;
                        let is_busy = || self.last_agent.is_busy() || self.coordinator.counts().0 > 0;
                        let may_pass = |spec| may_pass(session, groups, spec, args, is_spread, is_busy());
                        if !session.in_flight.busy.is_empty() && !spec.is_some_and(may_pass) {
                            break;
                        }
                        let may_join = |spec| script_ahead::may_join(session, spec, args);
                        if session.in_flight.ahead.is_on() && !spec.is_some_and(may_join) {
                            break;
                        }
                        let may_overtake = |spec| {
                            may_overtake(session, groups, spec, args)
                                || may_change_groups(session, hosts_version, spec, args)
                                || is_spread
                                    && (session.in_flight.sent.is_mixed() || may_hide(session, spec, args))
                        };
                        if !pipeline.is_settled() && spec.is_some_and(may_overtake) {
                            break;
                        }
                        let may_soon = |spec| script_at_once::may_soon(&self.cx, &self.seats, spec, args);
                        if session.block.is_none() && spec.is_some_and(may_soon) {
                            break;
                        }
                        if spec.is_some_and(is_publish) && pipeline.reply_slots() >= PUBLISHED_MAX {
                            break;
                        }
                        let is_postponed = |spec| self.pausing.is_postponed(&self.cx, session, spec, args);
                        if self.pausing.is_on() && spec.is_some_and(is_postponed) {
                            pause::hold_back(&self.cx, session);
                            break;
                        }
                        if let Some(source) = source {
                            self.cx.frame = frame(source, &bytes[at..at + consumed]);
                        }
                        connection.has_more = at + consumed < bytes.len();
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
                if connection.session.modes.no_touch {
                    self.cx.local.touch(connection.session.touches(spec));
                }
                let dispatch = Dispatch {
                    gateway: &mut *self,
                    connection: &mut *connection,
                    spec,
                    args,
                };
                dispatch.admit();
                // Whatever the command made of the flag: the next client's count again.
                if connection.session.modes.no_touch || spec.id == CommandId::ClientNoTouch {
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
                    multi::abort_exec(&mut self.cx, connection, &error);
                } else {
                    refuse(&mut self.cx, connection, &error);
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

    /// The connection ends: nobody waits any more.
    pub fn forget_connection(&mut self, connection: u64) {
        self.blocking.forget(&mut self.cx, connection);
        self.route();
    }

    /// The client of this connection sends no more. Whether it waits for a key, and must not be given an element: then
    /// the connection is to be closed. If it waits only for its command to be tried, a
    /// [`Delivery::HungUp`] says later when there was nothing.
    pub fn hangs_up(&mut self, connection: u64) -> bool {
        self.blocking.hangs_up(connection)
    }

    /// Ends the waits whose time has come, and lets scripts go on that have given way to others. Called every turn.
    #[inline]
    pub fn end_waits(&mut self) {
        if self.cx.local.has_long_reads() {
            self.read_on();
        }
        if self.coordinator.has_wide() {
            self.coordinator.send_wide(&mut self.cx);
            self.route();
            self.pump();
        }
        if self.coordinator.has_runnable() {
            self.coordinator.run_scripts(&mut self.cx);
            self.route();
            self.pump();
        }
        if self.next_block_ends() == Some(0) {
            self.blocking.end_late(&mut self.cx);
            self.route();
        }
    }

    /// In how many nanoseconds [`Gateway::end_waits`] has something to do.
    pub fn next_wait_ends(&self) -> Option<u64> {
        let has_more = self.coordinator.has_runnable() || self.coordinator.has_wide();
        match has_more || self.cx.local.has_long_reads() {
            true => Some(0),
            false => self.next_block_ends(),
        }
    }

    fn next_block_ends(&self) -> Option<u64> {
        let first = self.blocking.first_deadline()?;
        Some(first.saturating_sub(self.cx.timing.now()))
    }

    /// The connection listens to nothing any more: it is closed, or begins anew.
    pub fn stop_listening(&mut self, session: &mut Session) {
        self.pubsub.stop_listening(&mut self.cx, session);
    }

    /// Does a piece of the background work. `true` if there is more to do right away.
    pub fn cron(&mut self) -> bool {
        let Gateway {
            cx, seats, maxmemory, ..
        } = self;
        cx.turn.coding = coding_rule(cx);
        let mut more = cron::expire_and_free(cx, seats);
        notify::tell_noted(cx, &mut self.pubsub);
        if maxmemory.evicts() && !self.pausing.is_on() {
            more |= cron::evict(cx, seats, maxmemory);
            self.tell_noted();
        }
        // Who waits with a group is told that its stream has expired.
        self.serve_waiters();
        more
    }

    /// Writes down what the worker's groups hold and count, if anything has happened in them since it was last called, or if
    /// `is_overdue`: groups that nobody uses cost next to nothing.
    pub fn keep_stats(&mut self, is_overdue: bool) {
        if self.cx.is_active() || is_overdue {
            self.refresh_stats();
        }
    }

    /// Writes down what the worker's groups hold and count, for those who read [`WorkerStats`].
    pub fn refresh_stats(&mut self) {
        let Gateway {
            cx,
            maxmemory,
            seats,
            group_clients,
            peers,
            ..
        } = self;
        maxmemory.note_changed(Changed::Any);
        maxmemory.refresh(&cx.local.replicas, &cx.stats);
        ClusterStats::refresh(cx, seats, group_clients, peers);
        TransactionStats::refresh(cx, &self.coordinator, &self.last_agent);
        cx.refresh_stats(self.blocking.count());
    }

    /// Whether there are answers or messages for this worker's connections.
    #[inline]
    pub fn has_deliveries(&self) -> bool {
        !self.cx.outbox.deliveries.is_empty()
    }

    /// The next answer for one of this worker's connections; see [`Gateway::deliver`].
    pub fn next_delivery(&mut self) -> Option<Delivery> {
        loop {
            let delivery = self.cx.outbox.deliveries.pop_front()?;
            if self.scans.is_empty() {
                return Some(delivery);
            }
            let delivery = self.scans.on_scanned(&mut self.cx, delivery);
            // It may ask somebody else.
            self.route();
            if delivery.is_some() {
                return delivery;
            }
        }
    }

    /// Gives a connection an answer that it waited for. The driver then lets it go on ([`Gateway::resume`]).
    pub fn deliver(&mut self, connection: &mut Connection, delivery: Delivery) {
        delivery::deliver(self, connection, delivery);
    }

    /// The offload jobs that are to be run, for the driver.
    #[inline]
    pub fn take_offload_jobs(&mut self) -> Vec<OffloadJob> {
        for (run, bytes) in self.cx.scripts.runner.take_large() {
            let dropped = self.cx.scripts.drop_elsewhere(Box::new(run), bytes);
            self.cx.outbox.offload_jobs.extend(dropped);
        }
        std::mem::take(&mut self.cx.outbox.offload_jobs)
    }

    /// An offload job was run.
    pub fn on_offload_job(&mut self, offload_job: OffloadJob) {
        match offload_job.0 {
            Work::CheckedOut(lent) => self.coordinator.give_back(&mut self.cx, *lent),
            Work::Fetched(evaluation) => self.coordinator.on_evaluated(&mut self.cx, *evaluation),
            Work::Heavy(heavy) => self.coordinator.on_heavy_run(&mut self.cx, *heavy),
            Work::Compiled(reply_to, compilation) => {
                self.fanout
                    .seeking
                    .on_compiled(&mut self.cx, reply_to, *compilation);
            }
            Work::Dropped(_, bytes) => self.cx.scripts.on_dropped(bytes),
        }
        self.route();
        self.pump();
        // Nothing may be left to carry on, and yet a key was filled.
        self.serve_waiters();
    }

    /// Whether nothing concerns a backup: the driver need not ask for what follows.
    #[inline]
    pub fn is_without_backup(&self) -> bool {
        self.backups.is_idle()
    }

    /// What clients have asked with `BACKUP`, for whoever keeps the pieces.
    pub fn take_backup_questions(&mut self) -> Vec<BackupQuestion> {
        self.backups.take_questions()
    }

    /// He has answered, in RESP.
    pub fn on_backup_answer(&mut self, reply_to: BackupReplyTo, reply: Vec<u8>) {
        backups::answer(&mut self.cx, reply_to, reply);
    }

    /// These groups of this worker are copied from now on, for this backup.
    pub fn begin_backup(&mut self, backup: u64, groups: &[GroupId]) {
        self.backups.begin(&mut self.cx, backup, groups);
    }

    /// Nothing is copied any more.
    pub fn end_backup(&mut self) {
        self.backups.end(&mut self.cx);
    }

    /// A chunk was taken.
    pub fn on_backup_taken(&mut self, backup: u64, group: GroupId) {
        self.backups.on_taken(backup, group);
    }

    /// What this worker's replicas have for a backup: a few pieces each turn.
    pub fn take_backup_pieces(&mut self) -> Vec<BackupPiece> {
        self.backups.tend(&mut self.cx);
        self.backups.take_pieces()
    }

    /// What the meta group is to set.
    pub fn take_wishes(&mut self) -> Vec<Wish> {
        self.fanout.take_wishes()
    }

    /// The meta group has done what was wished, or it is not known whether it will.
    /// With the versions that it has given to the settings, in their order.
    pub fn on_wish(&mut self, id: u64, versions: Option<Vec<u64>>) {
        self.fanout.on_wish(&mut self.cx, id, versions);
        self.route();
    }

    /// Puts a message into the mailbox batch for `worker`.
    pub fn send(&mut self, worker: u16, message: Message) {
        self.cx.send(worker, message);
    }

    /// The mailbox batches for `worker`, oldest first; the driver takes what the queue has room for.
    pub fn post(&mut self, worker: u16) -> &mut VecDeque<MailboxBatch> {
        &mut self.cx.outbox.posts[usize::from(worker)]
    }

    /// Mailbox batches that did not fit into queues yet. While there are many, the driver reads no more from clients.
    pub fn backlog(&self) -> usize {
        self.cx.outbox.posts.iter().map(VecDeque::len).max().unwrap_or(0)
    }

    /// Takes an emptied mailbox batch back, to be used again.
    pub fn recycle(&mut self, mailbox_batch: MailboxBatch) {
        self.cx.outbox.recycle(mailbox_batch);
    }

    /// Handles a mailbox batch's messages; answers to connections and connections to adopt are handed to `driver`.
    pub fn receive(
        &mut self,
        from: u16,
        mailbox_batch: &mut MailboxBatch,
        driver: &mut dyn FnMut(Incoming<'_>),
    ) {
        self.follow_settings();
        let messages = std::mem::take(&mut mailbox_batch.messages);
        self.cx.stats.hops.add(messages.len() as u64);
        self.cx.open_span();
        for message in messages {
            self.on_message(from, message, mailbox_batch, driver);
            self.route();
            self.serve_waiters();
        }
        self.cx.close_span();
        self.pump();
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
        self.pausing.until()
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
        if self.blocking.wants_sync(now) {
            chores::sync_everywhere(&mut self.fanout, &mut self.cx);
        }
        if self.fanout.chores.has_reloads() {
            self.fanout.chores.reload_those_at_rest(&mut self.cx);
            self.maxmemory.note_changed(Changed::Any);
        }
        if self.fanout.chores.has_lagging() {
            self.fanout.chores.save_those_that_are_not_behind(&mut self.cx);
        }
        if self.fanout.chores.has_followers() {
            self.fanout.chores.look_at_followers(&mut self.cx);
        }
        self.cx.local.touch_keeping(now);
        self.seats.begin_copying(&mut self.cx);
        let Some(stood_still) = self.cx.local.visits.look(now) else {
            return;
        };
        self.coordinator.tick_transaction(&mut self.cx);
        if !self.unplaced.is_empty() {
            self.place_unplaced();
        }
        self.begin_wanted_move();
        if self.cx.view.is_spread && self.hosts_seen != self.cx.hosts_version {
            self.hosts_seen = self.cx.hosts_version;
            self.blocking.on_new_hosts(&mut self.cx);
        }
        self.route();
        if self.cx.view.layout.is_none() {
            return;
        }
        if let Some(span) = stood_still {
            self.cx.view.stood_still(now);
            self.seats.on_standstill(&mut self.cx, span);
        }
        self.peers.tell_wall_clock(&mut self.cx, own);
        self.look_at_disks();
        self.fanout.end_overdue_questions(&mut self.cx);
        for peer in self.cx.view.newly_silent(now) {
            self.seats.on_silence(&mut self.cx, peer);
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
        let is_waiting = self.fanout.has_questions() || self.coordinator.has_timers();
        let first = visits.first_kept().into_iter();
        let first = first.chain(self.peers.next_beat(&self.cx));
        let next = first.fold(visits.next_tick(is_waiting), Monotonic::min);
        // Transactions have deadlines within a node too.
        let next = (self.cx.view.is_spread || self.coordinator.counts().0 > 0).then_some(next);
        let copies = [
            self.seats.next_copy(&self.cx),
            self.backups.next_piece(self.cx.now),
        ];
        next.into_iter().chain(copies.into_iter().flatten()).min()
    }

    /// Takes from what the last life of the process left all that is of this worker's groups. Before the first layout: its
    /// seats begin with it, as far as they are the same replicas.
    pub fn keep(&mut self, all: &mut Vec<HandoverImage>) {
        self.seats.keep(&self.cx, all);
    }

    /// Begins to move a partition from a group that is led by this worker to another one. Nothing happens if it is not hosted there, or another
    /// one is under way.
    pub fn begin_move(&mut self, partition: PartitionId, to: GroupId) {
        let host = self.cx.groups.host_of(partition);
        if let Some(index) = self.cx.local.index(host)
            && self.cx.local.replicas[index].leader().is_some()
        {
            self.coordinator.begin_move(&mut self.cx, index, partition, to);
            self.route();
        }
    }

    /// The node is going to stop: offers the leadership of its groups to others that are in reach. How many offers are
    /// open: they are taken up within a few rounds, or not at all.
    pub fn resign(&mut self) -> usize {
        self.seats.resign(&mut self.cx)
    }

    /// Whether there is no other node.
    pub fn is_alone(&self) -> bool {
        let layout = self.cx.view.layout();
        layout.is_none_or(|layout| layout.peers.is_empty())
    }

    /// Learns how the disk here is. Other nodes hear of it.
    pub fn set_disk_health(&mut self, health: DiskHealth) {
        let before = self.cx.view.own_disk();
        self.cx.view.set_own_disk(health);
        if (before.is_short, before.is_slow) != (health.is_short, health.is_slow) {
            self.look_at_disks();
        }
    }

    /// What 99 of 100 syncs take at the other nodes in reach, as far as they say.
    pub fn other_sync_p99s(&self) -> Vec<Duration> {
        let others = self.cx.view.other_disks();
        others.filter_map(|disk| disk.sync_p99).collect()
    }

    /// Where disks are full, nothing is written; where the one here is not fit, others are to lead.
    fn look_at_disks(&mut self) {
        if self.cx.view.layout().is_none() {
            return;
        }
        self.peers.tell_disk_health(&mut self.cx);
        if self.cx.view.has_short_disk() {
            self.note_full();
        }
        if !self.cx.view.own_disk().may_lead() {
            self.seats.hand_over(&mut self.cx);
        }
    }

    /// Whether nothing is under way that several groups have a part in, and that this worker answers for. What waits for a group
    /// that can have no leader is left to whoever leads it again, as if this node had died: no client was told of it, or all
    /// that was decided is in logs.
    pub fn is_at_rest(&self) -> bool {
        let is_leaderless = |group| {
            let view = &self.cx.view;
            let is_there = |node| !view.is_down(node);
            let layout = view.layout();
            let found = layout.and_then(|layout| layout.find(group));
            found.is_some_and(|found| !found.has_majority(is_there))
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
        // What this node does of its version may be another thing later.
        let known = self.cx.view.layout.as_ref();
        let known = known.map(|known| (known.epoch, known.change == layout.change));
        let is_old =
            known.is_some_and(|(epoch, is_same)| layout.epoch < epoch || layout.epoch == epoch && is_same);
        if is_old && !mutations::is(Mutation::StaleMapAccepted) {
            return;
        }
        // Groups are told of the world once a turn, and it is another one from here on.
        self.cx.turn.number += 1;
        self.cx.turn.semantics = layout.semantics;
        self.cx.turn.coding = coding_rule(&self.cx);
        let new = self.peers.on_layout(&self.cx.view, &layout);
        let was_durable = self.cx.view.layout().map(Layout::is_durable);
        let is_durable = layout.is_durable();
        self.cx.view.set_layout(layout);
        self.cx.make_groups();
        if was_durable.is_some_and(|was_durable| was_durable != is_durable) {
            self.seats.on_durability(&mut self.cx, is_durable);
        }
        for index in 0..self.cx.local.replicas.len() {
            self.seat(index);
        }
        self.blocking.on_new_layout(&mut self.cx);
        // They may have linked before this node heard of them.
        for node in new
            .into_iter()
            .filter(|node| self.cx.view.is_up(*node))
            .collect::<Vec<_>>()
        {
            self.on_link(node, true);
        }
    }

    /// Makes the seat of a group what the layout says of it.
    fn seat(&mut self, index: usize) {
        let has_new_log = self.seats.on_layout(&mut self.cx, index);
        self.blocking.on_layout(&self.cx, index, has_new_log);
        let is_awaited = self.seats.is_awaited(index);
        self.group_clients.on_layout(&mut self.cx, index, is_awaited);
        self.cx.view.is_loading = self.cx.shared.loading.has_absent();
        self.route();
    }

    /// The state of a group that was kept ([`HandoverImage::keyspace`]) is read: its replica goes on.
    pub fn on_kept_state(&mut self, group: GroupId, keyspace: Keyspace) {
        if let Some(index) = self.seats.on_kept_state(&mut self.cx, group, keyspace) {
            self.seat(index);
        }
    }

    /// Whether states that were kept are still being read.
    pub fn awaits_kept_states(&self) -> bool {
        self.seats.awaits_any()
    }

    /// When a write counts as done, as the layout has it, and which change that is: the driver follows. None before there is a layout.
    pub fn durability(&self) -> Option<(DurabilityMode, u64)> {
        let layout = self.cx.view.layout()?;
        Some((layout.durability, layout.change))
    }

    /// Whether some replicas here have no log on disk yet that are to have one.
    pub fn is_changing_durability(&self) -> bool {
        self.seats.is_changing()
    }

    /// The driver keeps the log of each replica that has one: the next gets its.
    pub fn keep_next(&mut self) {
        self.seats.keep_next(&mut self.cx);
    }

    /// Nothing came of the log that a replica was to get: it begins anew with what the replica has now.
    pub fn keep_anew(&mut self, group: GroupId) {
        self.seats.keep_anew(&mut self.cx, group);
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

    /// Learns how many workers another node has: as many as this one, as long as nothing is told. Told before anything that its workers say.
    /// `knows_more`: whether its build knows of groups that are added, as [`ids::SemanticsVersion::PARTITIONS_MOVE`] says.
    pub fn set_workers_of(&mut self, node: NodeId, workers: u16, knows_more: bool) {
        self.cx.view.set_workers_of(node, workers, knows_more);
    }

    /// The links to a node came up, all that this worker has with workers of it ([`ids::Groups::counterparts`]), or one of them broke.
    pub fn on_link(&mut self, node: NodeId, is_up: bool) {
        self.cx.view.on_link(node, is_up, self.cx.now);
        if is_up {
            self.peers.on_link_up(&self.cx, node);
            self.fanout.ask_unsent(&mut self.cx, node);
        } else {
            self.fanout.end_questions_to(&mut self.cx, node);
            self.route();
        }
        if self.cx.view.layout.is_some() {
            (0..self.cx.local.replicas.len()).for_each(|index| self.on_group_link(index, node, is_up));
        }
    }

    /// Whether a long message is on its way on the link to a worker of a node, in either direction. What is waited for may be behind it.
    pub fn on_moving(&mut self, peer: PeerWorker, is_moving: bool) {
        self.cx.view.on_moving(peer, is_moving);
    }

    /// Learns the raw monotonic time, as it is after messages were received and before they are handed over. Promises are
    /// counted from it: the process may have stood still since the turn began, and a message that came meanwhile is no older
    /// than its arrival.
    pub fn received(&mut self, now: Monotonic) {
        self.cx.now = self.cx.now.max(now);
    }

    /// A message of a worker of another node. What was read from the links before is told by [`Gateway::received`].
    pub fn on_peer(&mut self, from: PeerWorker, message: PeerMessage) {
        self.cx.view.heard(from, self.cx.now);
        self.on_peer_message(from, message);
        self.route();
    }

    /// The raw monotonic time, as of this turn.
    pub fn cluster_now(&self) -> Monotonic {
        self.cx.now
    }

    /// What is to be sent to workers of other nodes, in order.
    pub fn take_peer_messages(&mut self) -> Vec<(PeerWorker, PeerMessage)> {
        let view = &self.cx.view;
        let messages = std::mem::take(&mut self.cx.outbox.peer_messages).into_iter();
        let to = |to, message: &PeerMessage| match (to, message.group()) {
            (Addressee::Worker(peer), _) => peer,
            (Addressee::Node(node), Some(group)) => view.counterpart(node, group),
            (Addressee::Node(node), None) => view.any_counterpart(node),
        };
        messages
            .map(|(addressee, message)| (to(addressee, &message), message))
            .collect()
    }

    /// What is to be kept on disk, in order. Nothing that stands behind it is said before [`Gateway::on_disk`] has heard of it.
    pub fn take_disk_tasks(&mut self) -> impl Iterator<Item = DiskTask> {
        self.cx.outbox.disk.drain(..)
    }

    /// Whether there is anything of that.
    #[inline]
    pub fn has_disk_tasks(&self) -> bool {
        !self.cx.outbox.disk.is_empty()
    }

    /// The disk has done something of what a replica wanted, in this life of it.
    pub fn on_disk(&mut self, group: GroupId, life: u64, answer: DiskAnswer) {
        self.seats.on_disk(&mut self.cx, group, life, answer);
        self.route();
    }

    /// The disk has room for so many bytes, and will have written them, and said so, when it next takes tasks. Commands of groups that are
    /// alone here are applied first, up to that, until [`Gateway::close_entries`].
    pub fn promise(&mut self, bytes: usize) {
        self.seats.promise(bytes);
    }

    /// What was applied first is to be kept now, and nobody is told of it before. Whether there is anything: the driver has the disk write
    /// it, alone, and then looks ([`Gateway::is_ahead`]).
    pub fn close_entries(&mut self, now: Monotonic) -> bool {
        self.cx.now = now;
        self.seats.close_entries(&mut self.cx)
    }

    /// Whether a state here is ahead of what is kept.
    pub fn is_ahead(&self) -> bool {
        self.seats.is_ahead(&self.cx)
    }

    /// Snapshots that are to be stored: [`Gateway::on_saved`] is told when they are.
    pub fn take_saves(&mut self) -> Vec<SaveTask> {
        std::mem::take(&mut self.cx.outbox.saves)
    }

    /// Whether there are any.
    #[inline]
    pub fn has_saves(&self) -> bool {
        !self.cx.outbox.saves.is_empty()
    }

    /// Numbers under which what is written is to be synced: [`Gateway::on_synced`] is told when it is.
    pub fn take_syncs(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.cx.outbox.syncs)
    }

    /// Whether there are any.
    #[inline]
    pub fn has_syncs(&self) -> bool {
        !self.cx.outbox.syncs.is_empty()
    }

    /// What was written is synced; these are the groups whose logs stand there.
    pub fn on_synced(&mut self, number: u64, groups: &[GroupId]) {
        self.seats.on_synced(number);
        self.fanout.chores.on_synced(&mut self.cx, number, groups);
        self.route();
    }

    /// All of a [`SaveTask`] are stored, or something went wrong.
    pub fn on_saved(&mut self, number: u64, is_kept: bool) {
        self.fanout.chores.on_saved(&mut self.cx, number, is_kept);
    }

    /// A snapshot of a group of this worker is to be stored, if it has a log here.
    pub fn store(&mut self, group: GroupId) {
        self.seats.store(&mut self.cx, group);
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
        ReplicaView::all(&self.seats, &self.cx)
    }

    /// The transactions that this worker sees to, as a coordinator or in its coordinator's place, in words. Nothing at rest.
    pub fn seen_to(&self) -> Vec<String> {
        self.coordinator.in_words()
    }

    /// Says what does not hold of this worker's machines, for checks after every step.
    pub fn check(&self) -> Result<(), String> {
        let cx = &self.cx;
        let checks = [
            ("outbox", cx.outbox.check()),
            ("visits", cx.local.visits.check(cx.now)),
            ("maxmemory", self.maxmemory.check()),
            ("coordinator", self.coordinator.check()),
            ("combining", self.combining.check()),
            ("hosting", cx.local.check_hosting()),
            ("last agent", self.last_agent.check()),
            ("blocking", self.blocking.check()),
            ("pubsub", self.pubsub.check()),
            ("fanout", self.fanout.check()),
            ("watching", self.watching.check()),
            ("group clients", self.group_clients.check(cx)),
            ("seats", self.seats.check(cx)),
            ("peers", self.peers.check(cx)),
            ("backups", self.backups.check()),
        ];
        checks
            .into_iter()
            .try_for_each(|(machine, checked)| checked.map_err(|what| format!("{machine}: {what}")))
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
        /// Its reply slot in the pipeline.
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
        stream_node_bytes: number(settings.stream_node_max_bytes),
        stream_node_entries: number(settings.stream_node_max_entries),
    }
}

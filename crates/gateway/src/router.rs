//! Between the machines of a gateway, other workers and other nodes: what each has to say, to whom it concerns.
//!
//! A program over groups that all live here and are free is one step (`local_fast_path.rs`); one on keys of this worker and one other
//! is decided there (`last_agent.rs`); one within one group is sent there whole. Of any other the gateway is the coordinator:
//! `coordinator.rs`.
//!
//! What a connection sends behind a command over several groups may pass it, unless it names one of its keys:
//! then it waits, and sees what the command did. Behind an `EXEC` or a command on the whole keyspace everything
//! waits. Nor does a transaction begin before what its connection sent to one of its keys earlier: that may wait for locks,
//! and count as younger.

use crate::client::ClientInfo;
use crate::cluster::{SeatOutput, Seats};
use crate::combining::Combining;
use crate::connection::Connection;
use crate::delivery::{Answered, Answers, Delivery};
use crate::dispatch::busy;
use crate::durability_order;
use crate::endpoint::Endpoint;
use crate::fanout::{self, Join};
use crate::gateway::{Gateway, Incoming};
use crate::idempotency::error_of;
use crate::local_fast_path::run_program_here;
use crate::maxmemory::Changed;
use crate::message::{MailboxBatch, Message};
use crate::monitor;
use crate::notify;
use crate::outbox::{Finished, Told};
use crate::program::{Item, Program};
use crate::pubsub::{Published, SubscriptionKind};
use crate::script_ahead;
use crate::script_at_once;
use crate::script_cache;
use crate::script_on_copies;
use crate::session::{Queued, Session};
use crate::timing::Caller;
use command::{CommandId, CommandRoute, Cost, Flags, ReplyError, Spec};
use ids::{Db, GroupId, Monotonic, NodeId, PeerWorker};
use keyspace::BlockCommand;
use peer_wire::{PeerAnswer, PeerMessage, Question, Raft};
use replica::{Asked, Journey, Member, Operation, Output, Replies, ReplyTo, Request, locks_of};
use resp::{Args, FrozenRope, Protocol, ReplyWriter, Rope};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Gateway {
    /// Begins a program: in one step if all its groups live here and are free.
    pub(crate) fn begin(&mut self, connection: &mut Connection, mut program: Program) {
        if program.scripted.is_some() {
            match self.begin_scripted(connection, program) {
                Some(ready) => program = ready,
                None => return,
            }
        }
        let extent = program.extent(self.cx.groups);
        let can_run_here = program.request.is_none() && self.cx.local.can_run_here(&program, &extent);
        let may_be_lent = |group: &GroupId| {
            self.cx
                .local
                .index(*group)
                .is_some_and(|index| !self.cx.local.replicas[index].awaits_log())
        };
        let is_heavy = can_run_here
            && program.can_be_offloaded()
            && extent.groups.iter().all(may_be_lent)
            && crate::offload::is_heavy_program(&self.cx, &program);
        if can_run_here && !is_heavy {
            return run_program_here(self, connection, &program);
        }
        let reply_to = self.cx.reserve(connection);
        if let Some(scripted) = &mut program.scripted {
            scripted.has_more_behind = connection.has_more;
        }
        if program.is_exec || extent.is_whole || extent.is_scripted {
            connection.session.in_flight.is_waiting = true;
        } else {
            connection.session.in_flight.busy.begin(program.slots());
        }
        if !is_heavy && Combining::may_take(&self.cx, &self.coordinator, &program, &extent) {
            return self.combining.take(&mut self.cx, reply_to, program, extent);
        }
        let (is_exec, is_scripted) = (program.is_exec, extent.is_scripted);
        let touches = connection.session.touches(command::CommandId::Exec.spec());
        let opened = if is_heavy {
            self.coordinator
                .start_offload(&mut self.cx, reply_to, program, extent, false, touches)
        } else {
            self.coordinator.start(&mut self.cx, reply_to, program, extent)
        };
        self.route();
        if !is_exec && let Some(seq) = opened {
            // It is noted when it is over: it may still have to be carried out elsewhere, and is measured there then.
            self.cx.timing.is_ours = false;
            let spent = self.cx.timing.spent();
            self.coordinator.note_spent(seq, spent);
        }
        // Of others something may be looked up meanwhile, which counts as use of their keys.
        if is_scripted && !is_exec && connection.has_more && touches {
            self.let_pass(connection, reply_to);
        }
    }

    /// A script that has come to its end on what is here is not waited for by what its connection has sent behind it.
    fn let_pass(&mut self, connection: &mut Connection, reply_to: ReplyTo) {
        self.pump();
        let is_its = |delivery: &mut Delivery| matches!(delivery, Delivery::Passable { reply_to: its, .. } if *its == reply_to);
        if let Some(passable) = self.cx.outbox.deliveries.pop_back_if(is_its) {
            self.deliver(connection, passable);
        }
    }

    /// Sees to what comes before a program with scripts: `None` if others are asked for one, or it was answered.
    fn begin_scripted(&mut self, connection: &mut Connection, program: Program) -> Option<Program> {
        if program.seeks_scripts(&self.cx) {
            let reply_to = self.cx.reserve(connection);
            connection.session.in_flight.is_waiting = true;
            self.cx.timing.is_ours = false;
            self.fanout.seek(&mut self.cx, reply_to, program);
            self.route();
            return None;
        }
        let Some(refusal) = program.script_refusal() else {
            return Some(program);
        };
        connection.writer().raw(refusal.bytes());
        None
    }

    /// Asks a group something, wherever it lives.
    pub(crate) fn request(&mut self, group: GroupId, request: Request) {
        let Some(index) = self.cx.local.index(group) else {
            let worker = self.cx.local.owner(group);
            return self.cx.send(
                worker,
                Message::Request {
                    group,
                    request: Box::new(request),
                },
            );
        };
        if self.cx.local.replicas[index].has_log() {
            return self.group_clients.ask(&mut self.cx, index, request);
        }
        let mut outputs = Vec::new();
        self.cx.local.replicas[index].handle(&self.cx.turn, request, &mut outputs);
        self.tell(index);
        self.cx.local.note_long_reads(index);
        self.cx.outbox.outputs.extend(outputs);
    }

    /// One of the groups that write long values for somebody does a step of that: half a millisecond.
    pub(crate) fn read_on(&mut self) {
        let Some(index) = self.cx.local.next_long_read() else {
            return;
        };
        if self.cx.local.replicas[index].has_log() {
            self.seats.read_on(&mut self.cx, index);
        } else {
            let mut outputs = Vec::new();
            self.cx.local.replicas[index].read_on(&self.cx.turn, &mut outputs);
            self.tell(index);
            self.cx.outbox.outputs.extend(outputs);
        }
        self.cx.local.note_long_reads(index);
        self.route();
        self.pump();
    }

    /// Carries on whatever the groups of this worker have answered.
    pub fn pump(&mut self) {
        while let Some(output) = self.cx.outbox.outputs.pop_front() {
            let worker = match &output {
                Output::Replied { reply_to, .. }
                | Output::Answered { reply_to, .. }
                | Output::Waits { reply_to }
                | Output::TooLarge { reply_to, .. }
                | Output::Moved { reply_to, .. }
                | Output::Failed { reply_to, .. }
                | Output::FailedWatch { reply_to, .. }
                | Output::Versions { reply_to, .. } => reply_to.worker,
                Output::Locked { txn, .. }
                | Output::Voted { txn, .. }
                | Output::Resolved { txn, .. }
                | Output::FailedPart { txn, .. }
                | Output::SnapshotRead { txn, .. }
                | Output::OptimisticRead { txn, .. }
                | Output::Arrived { txn, .. }
                | Output::Wound { txn } => txn.worker,
                Output::QueriedTxn { worker, .. }
                | Output::Decided { worker, .. }
                | Output::Undecided { worker, .. } => *worker,
            };
            if worker == self.cx.worker {
                self.on_output(output);
            } else {
                self.cx.send(worker, Message::Output(Box::new(output)));
            }
            self.serve_waiters();
        }
    }

    /// Sees to what the machines want done.
    pub(crate) fn route(&mut self) {
        loop {
            if let Some((group, request)) = self.cx.outbox.requests.pop_front() {
                self.request(group, request);
            } else if let Some((reply_to, program)) = self.cx.outbox.programs.pop_front() {
                let extent = program.extent(self.cx.groups);
                self.coordinator.start(&mut self.cx, reply_to, program, extent);
            } else if let Some(finished) = self.cx.outbox.finished.pop_front() {
                self.finish(finished);
            } else if let Some(told) = self.cx.outbox.told.pop_front() {
                self.on_told(told);
            } else {
                return self.tell_noted();
            }
        }
    }

    fn finish(
        &mut self,
        Finished {
            mut answered,
            came_at,
        }: Finished,
    ) {
        if answered.program.scripted.is_some() {
            self.publish_what_scripts_told(&mut answered);
        }
        if self.blocking.ends_try(&mut self.cx, &answered) {
            return;
        }
        if let Some(came_at) = came_at {
            let took = self.cx.timing.now().saturating_sub(came_at);
            self.cx.note_program(&answered.program, took, answered.reply_to);
        }
        self.cx.deliver(Delivery::Answered(Box::new(answered)));
    }

    /// What scripts have published leaves now that it is committed, and not at all if it is not.
    fn publish_what_scripts_told(&mut self, answered: &mut Answered) {
        let is_committed = matches!(answered.replies, Answers::Whole(_) | Answers::Mixed { .. });
        let Some(scripted) = answered.program.scripted.as_mut().filter(|_| is_committed) else {
            return;
        };
        let published = std::mem::take(&mut scripted.published);
        self.publish(published);
    }

    /// Publishes what scripts have told. How many it reaches was told to them already.
    pub(crate) fn publish(&mut self, published: Vec<Queued>) {
        for Queued { spec, args } in published {
            let kind = match spec.id {
                CommandId::SPublish => SubscriptionKind::ShardChannel,
                _ => SubscriptionKind::Channel,
            };
            let mut count = Vec::new();
            let mut out = ReplyWriter::new(&mut count, Protocol::Resp2);
            self.pubsub
                .publish_now(&mut self.cx, kind, args.as_args(), &mut out);
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
            Output::Versions { reply_to, versions } => {
                self.watching.on_versions(&mut self.cx, reply_to, versions)
            }
            Output::Waits { reply_to } => self.blocking.on_waits(&mut self.cx, reply_to),
            Output::TooLarge { reply_to } => self.on_too_large(reply_to),
            Output::Moved {
                reply_to,
                from,
                elsewhere,
                command,
            } => self.on_moved(reply_to, from, &elsewhere, command),
            Output::Arrived { txn, group, is_taken } => {
                self.coordinator.on_arrived(&mut self.cx, txn, group, is_taken)
            }
            Output::Locked {
                txn,
                group,
                is_logged,
                time,
                objects,
            } => self
                .coordinator
                .on_locked(&mut self.cx, txn, group, is_logged, time, objects),
            Output::Voted {
                txn,
                group,
                vote,
                is_logged,
                replies,
            } => self
                .coordinator
                .on_vote(&mut self.cx, txn, group, vote, is_logged, replies),
            Output::SnapshotRead { txn, group, seen } => {
                self.coordinator.on_snapshot_read(&mut self.cx, txn, group, seen)
            }
            Output::OptimisticRead {
                txn,
                group,
                objects,
                age,
                time,
            } => self
                .coordinator
                .on_optimistic_read(&mut self.cx, txn, group, objects, age, time),
            Output::QueriedTxn {
                txn,
                group,
                vote_record,
                ..
            } => self
                .coordinator
                .on_queried_txn(&mut self.cx, txn, group, vote_record),
            Output::Decided {
                txn, group, replies, ..
            } => self.coordinator.on_decided(&mut self.cx, txn, group, replies),
            Output::Undecided { txn, group, .. } => self.coordinator.on_undecided(&mut self.cx, txn, group),
            Output::Resolved { txn, group, replies } => {
                self.coordinator.on_part_done(&mut self.cx, txn, group, replies)
            }
            Output::Failed {
                reply_to,
                error,
                journey,
            } => self.on_failed(reply_to, error, journey),
            Output::FailedWatch { reply_to, error } => self.watching.on_failed(&mut self.cx, reply_to, error),
            Output::FailedPart { txn, error, .. } => {
                self.coordinator.on_failed_transaction(&mut self.cx, txn, error)
            }
            Output::Wound { txn } => self.coordinator.on_wound(&mut self.cx, txn),
        }
        self.route();
    }

    /// A group could not be asked, or what came of it is not known.
    fn on_failed(&mut self, reply_to: ReplyTo, error: &'static str, journey: Option<Journey>) {
        let mut bytes = Vec::new();
        ReplyWriter::new(&mut bytes, Protocol::Resp2).error(error);
        if self.blocking.on_tried(&mut self.cx, reply_to, &bytes) {
            return;
        }
        if self
            .coordinator
            .on_failed_one_phase(&mut self.cx, reply_to, error)
        {
            return;
        }
        let Some(program) = self.coordinator.take_block(reply_to) else {
            let reply = bytes.into();
            return self.cx.deliver(Delivery::Replied {
                reply_to,
                reply,
                journey,
            });
        };
        let answered = Answered {
            reply_to,
            program,
            replies: Answers::Failed(error),
            hosts: self.cx.groups,
        };
        self.finish(Finished {
            answered,
            came_at: None,
        });
    }

    /// The leader of a command's group has answered it.
    fn on_replied(&mut self, reply_to: ReplyTo, reply: FrozenRope, journey: Option<Journey>) {
        // Nothing is shared with the reply of a command that was only tried: those pop.
        if !self.blocking.on_tried(&mut self.cx, reply_to, reply.bytes()) {
            self.cx.deliver(Delivery::Replied {
                reply_to,
                reply,
                journey,
            });
        }
    }

    fn on_answered(&mut self, reply_to: ReplyTo, replies: Option<Replies>) {
        if self
            .coordinator
            .on_one_phase(&mut self.cx, reply_to, replies.is_some())
        {
            return;
        }
        let Some(program) = self.coordinator.take_block(reply_to) else {
            let replies = replies.expect("a single command has no conditions");
            let bytes = replies.into_bytes();
            if self.blocking.on_tried(&mut self.cx, reply_to, &bytes) {
                return;
            }
            return self.cx.deliver(Delivery::Reply { reply_to, bytes });
        };
        let sees_whole = |operation: &Operation| operation.spec.route != command::CommandRoute::Keys;
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
            hosts: self.cx.groups,
        };
        // What `$` stands for was asked of one group.
        if self.blocking.ends_try(&mut self.cx, &answered) {
            return;
        }
        self.cx.deliver(Delivery::Answered(Box::new(answered)));
    }

    /// Commands within one group would hold its worker up there.
    fn on_too_large(&mut self, reply_to: ReplyTo) {
        let program = self.coordinator.take_block(reply_to);
        let program = program.expect("it waits for its group");
        let extent = program.extent(self.cx.groups);
        self.coordinator
            .start_offload(&mut self.cx, reply_to, program, extent, false, true);
    }

    fn on_told(&mut self, told: Told) {
        match told {
            Told::Served {
                reply_to,
                bytes,
                nanos,
            } => {
                self.tell_noted();
                self.blocking.on_popped(&mut self.cx, reply_to, bytes, nanos);
            }
            Told::Seat(index, output) => self.on_seat_output(index, output),
            Told::Received(reply_to, receivers) => {
                self.pubsub.on_received(&mut self.cx, reply_to, receivers);
            }
            Told::NodeDone(reply_to, node, numbers) => {
                self.fanout
                    .chores
                    .on_node_done(&mut self.cx, reply_to, node, numbers.as_deref());
            }
            Told::Synced(counts) => self.blocking.on_synced(&mut self.cx, counts),
            Told::Settings => self.load_settings(),
        }
    }

    /// What the seat of a replica has for others.
    fn on_seat_output(&mut self, index: usize, output: SeatOutput) {
        match output {
            SeatOutput::Installed => {
                self.maxmemory.note_changed(Changed::Any);
                self.blocking.all_filled(&mut self.cx, index);
            }
            SeatOutput::Vacated => {
                self.maxmemory.note_changed(Changed::Any);
                self.group_clients.on_vacated(index);
            }
            SeatOutput::Response(response) => {
                let me = self.cx.view.me();
                self.group_clients.on_response(&mut self.cx, index, me, &response);
            }
            SeatOutput::Follows => self.group_clients.follow(&mut self.cx, index),
        }
    }

    /// The one dispatch of what other nodes say.
    pub(crate) fn on_peer_message(&mut self, peer: PeerWorker, message: PeerMessage) {
        let cx = &mut self.cx;
        let from = peer.node;
        match message {
            PeerMessage::Raft(Raft { group, message }) => self.seats.on_raft(cx, group, message),
            PeerMessage::Heartbeat(beat) => {
                for (index, words) in self.peers.on_beat(cx, peer, beat) {
                    self.seats.break_replica(cx, index, &words);
                }
            }
            PeerMessage::HeartbeatAnswer(answer) => {
                for (index, words) in self.peers.on_beat_answer(cx, peer, &answer) {
                    self.seats.break_replica(cx, index, &words);
                }
            }
            PeerMessage::Batch(batch) => {
                self.follow_settings();
                self.seats.on_peer_batch(&mut self.cx, from, batch);
            }
            PeerMessage::Answers(response) => self.group_clients.on_answers(cx, from, &response),
            PeerMessage::TransferChunk(chunk) => self.seats.on_peer_chunk(cx, from, chunk),
            PeerMessage::TransferAnswer(answer) => self.seats.on_chunk_answer(cx, &answer),
            PeerMessage::Scrub(scrub) => self.seats.on_scrub(cx, from, &scrub),
            PeerMessage::Coding(coding) => self.seats.on_coding(cx, from, coding),
            PeerMessage::Fanout(question) => self.on_question(from, &question),
            PeerMessage::FanoutAnswer(answer) => self.fanout.on_part_answer(cx, from, &answer),
            PeerMessage::Await(waits) => self.blocking.on_peer_await(cx, from, waits),
            PeerMessage::Filled(filled) => self.blocking.on_peer_filled(cx, from, filled),
            PeerMessage::WallClock(wall) => self.peers.on_wall_clock(from, wall, cx.now),
            PeerMessage::DiskHealth(health) => {
                cx.view.on_disk_health(peer, health);
                self.note_full();
            }
            PeerMessage::Publish(publish) => self.pubsub.on_peer_publish(cx, &publish),
            // What concerns the node as a whole is not a worker's.
            _ => {}
        }
    }

    /// Tells all workers which groups of this one nothing is written to, because disks are full.
    pub(crate) fn note_full(&mut self) {
        let cx = &self.cx;
        let Some(layout) = cx.view.layout() else { return };
        for replica in &cx.local.replicas {
            let group = replica.group();
            let is_full = cx.view.is_full(layout.group(group));
            cx.shared.set_full(group, is_full);
        }
    }

    /// Time passes for the groups that have anything to do.
    pub(crate) fn tick_groups(&mut self, now: Monotonic) {
        if self.cx.local.visits.are_quiet(now) {
            return;
        }
        for index in 0..self.cx.local.replicas.len() {
            if self.cx.local.visits.is_due(index, now) {
                self.tick_group(index);
            }
        }
        self.cx.local.visits.ticked_all(now);
    }

    fn tick_group(&mut self, index: usize) {
        let was_unsettled = self.seats.tick(&mut self.cx, index);
        if was_unsettled {
            self.blocking.look_at_lines(&self.cx, index);
        }
        self.route();
        let target = self.group_clients.tick(&mut self.cx, index);
        self.look_after_if_led(index);
        self.seats.end_waits_of_lost(&mut self.cx, index);
        self.blocking.tick_watches(&mut self.cx, index, target);
        self.route();
        let is_quiet = !was_unsettled && self.group_clients.is_quiet(index) && self.blocking.is_quiet(index);
        let quiet_until = match is_quiet {
            true => Seats::quiet_until(&self.cx, index),
            false => self.cx.now,
        };
        self.cx.local.visits.ticked(index, quiet_until);
    }

    /// The link to a node came up, or broke, on which a group may have a replica.
    pub(crate) fn on_group_link(&mut self, index: usize, node: NodeId, is_up: bool) {
        if !is_up {
            self.group_clients.on_link_lost(index, node);
            self.seats.on_link_lost(&mut self.cx, index, node);
            self.route();
            self.blocking.forget_watcher(&mut self.cx, index, node);
            // What its gateways coordinate is not waited for.
            self.look_after_if_led(index);
            self.seats.end_waits_of_lost(&mut self.cx, index);
        }
        self.cx.local.visits.touch(index);
    }

    /// The turn ends for a group that something happened to.
    pub(crate) fn finish_group(&mut self, index: usize) {
        for batch in self.group_clients.finish(&mut self.cx, index) {
            let sender = self.group_clients.sender(&self.cx, index);
            self.seats.on_batch(&mut self.cx, index, sender, batch);
            self.route();
        }
        if !self.pausing.is_on()
            && let Some(writes) = self.cx.local.replicas[index].leader().map(Member::next_bytes)
        {
            for (db, key) in self.maxmemory.victims_for_entry(&mut self.cx, index, writes) {
                let evict = keyspace::EntryOperation::Evict { db, key: &key };
                self.seats.ask_own(&mut self.cx, index, &evict);
            }
        }
        let was_anything = self.seats.finish(&mut self.cx, index);
        // A replica that has a long log to apply does so in pieces, one a turn.
        let member = self.cx.local.replicas[index].member();
        if member.is_some_and(|member| member.raft().is_behind()) {
            self.cx.local.visits.touch(index);
        }
        self.route();
        self.tell(index);
        if was_anything && self.cx.local.replicas[index].leader().is_some() {
            self.coordinator.on_applied(&mut self.cx, index);
            self.route();
        }
    }

    /// Looks after transactions of a group, if it is led here.
    fn look_after_if_led(&mut self, index: usize) {
        if self.cx.local.replicas[index].leader().is_some() {
            self.coordinator.look_after(&mut self.cx, index);
            self.route();
        }
    }

    /// Whether a command of another worker's connection is applied before it is in the log. Which of that worker's commands are one
    /// connection's is not known here: so nothing of any is under way.
    fn may_apply_first_for_other(&mut self, asked: &Asked<'_>, index: usize) -> bool {
        let (group_clients, args) = (&self.group_clients, asked.args);
        asked.spec.flags.contains(Flags::WRITE)
            && !self.maxmemory.evicts()
            && !self.cx.is_full(index)
            && self
                .seats
                .may_apply_first(&mut self.cx, args, asked.frame.is_some(), index, || {
                    group_clients.is_idle(index)
                })
    }

    /// A command of another worker's connection, on a replicated group.
    pub(crate) fn ask_for_other(&mut self, reply_to: ReplyTo, asked: Asked<'_>, index: usize) {
        let parse = asked.spec.parse.expect("only commands on keys are forwarded");
        if let Err(error) = parse(asked.args) {
            let mut replies = Replies::default();
            replies.push(asked.protocol, |out| error.write(out));
            let replies = Some(replies);
            self.cx
                .outbox
                .outputs
                .push_back(Output::Answered { reply_to, replies });
        } else if self.group_clients.is_cut_off(index) {
            self.group_clients.refuse(&mut self.cx, index, reply_to);
        } else if asked.spec.flags.contains(Flags::WRITE) && self.cx.is_full(index) {
            let mut replies = Replies::default();
            replies.push(asked.protocol, |out| out.error(replica::FULL));
            let replies = Some(replies);
            self.cx
                .outbox
                .outputs
                .push_back(Output::Answered { reply_to, replies });
        } else {
            self.group_clients.command(&mut self.cx, index, reply_to, asked);
        }
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
        self.run_offloaded(reply_to, operation, touches);
    }

    /// Offloads a single command, which is all within one group of this worker, perhaps for another worker's connection.
    /// `touches` as for [`Scratch::touch`](replica::Scratch::touch).
    pub(crate) fn run_offloaded(&mut self, reply_to: ReplyTo, operation: Operation, touches: bool) {
        self.cx.timing.is_ours = false;
        let program = Program::single(operation);
        let extent = program.extent(self.cx.groups);
        // Its keys are locked now or waited for, and nothing was checked out yet.
        self.coordinator
            .start_offload(&mut self.cx, reply_to, program, extent, true, touches);
        self.route();
    }

    /// The one dispatch of what other workers say.
    pub(crate) fn on_message(
        &mut self,
        from: u16,
        message: Message,
        mailbox_batch: &MailboxBatch,
        driver: &mut dyn FnMut(Incoming<'_>),
    ) {
        match message {
            Message::Execute {
                reply_to,
                group,
                command,
            } => {
                let asked = mailbox_batch.asked(&command);
                self.cx.before_command(asked.spec);
                self.cx.timing.is_ours = true;
                self.on_forwarded(from, reply_to, group, asked);
                let caller = Caller::There {
                    worker: from,
                    connection: reply_to.connection,
                };
                if self.cx.timing.is_ours {
                    self.cx.after_command(asked.spec, asked.args, caller);
                }
            }
            Message::Answer {
                connection,
                sequence,
                reply,
            } if self.scans.awaits(connection, sequence) => {
                let reply_to = ReplyTo {
                    worker: self.cx.worker,
                    connection,
                    sequence,
                };
                let bytes = mailbox_batch.reply(reply).to_vec();
                self.cx.deliver(Delivery::Reply { reply_to, bytes });
            }
            Message::Answer {
                connection,
                sequence,
                reply,
            } => driver(Incoming::Answer {
                connection,
                sequence,
                reply: mailbox_batch.reply(reply),
            }),
            Message::Unsuited {
                reply_to,
                operation,
                is_by_nature,
                asks_leaders,
            } => script_at_once::on_unsuited(self, reply_to, *operation, is_by_nature, asks_leaders),
            Message::Copied {
                reply_to,
                operation,
                touches,
                copied,
            } => script_on_copies::on_copied(self, reply_to, *operation, touches, *copied),
            Message::Ahead { reply_to, command } => {
                let asked = mailbox_batch.asked(&command);
                self.cx.before_command(asked.spec);
                script_ahead::on_ahead(self, from, reply_to, &asked);
            }
            Message::RanAhead { reply_to, ran } => self.cx.deliver(Delivery::RanAhead { reply_to, ran }),
            Message::LastAgent { seq, command } => {
                let began = self.cx.timing.now();
                self.last_agent.on_part(
                    &mut self.cx,
                    &mut self.pubsub,
                    from,
                    seq,
                    &mailbox_batch.asked(&command),
                );
                self.maxmemory.note_changed(Changed::Any);
                self.cx
                    .timing
                    .leave_out(self.cx.timing.now().saturating_sub(began));
            }
            Message::Decided { seq, reply } => {
                let began = self.cx.timing.now();
                let reply = reply.map(|reply| mailbox_batch.reply(reply));
                let machines = (&mut self.coordinator, &mut self.pubsub);
                self.last_agent
                    .on_decided(&mut self.cx, machines, from, seq, reply);
                self.maxmemory.note_changed(Changed::Any);
                self.route();
                self.cx
                    .timing
                    .leave_out(self.cx.timing.now().saturating_sub(began));
            }
            Message::Request { group, request } => self.request(group, *request),
            Message::Output(output) => self.on_output(*output),
            Message::Broadcast {
                reply_to,
                kind,
                words,
            } => {
                let words = mailbox_batch.args(&words);
                let published = Published {
                    kind,
                    channel: words.arg(0),
                    payload: words.arg(1),
                };
                self.pubsub.on_broadcast(&mut self.cx, from, reply_to, published);
            }
            Message::Received { reply_to, receivers } => {
                self.pubsub.on_received(&mut self.cx, reply_to, receivers)
            }
            Message::Shown(line) => crate::monitor::on_shown(&mut self.cx, &self.pubsub, line),
            Message::Refresh { reply_to } => {
                self.refresh_stats();
                let counts = Box::new(crate::key_counts::key_counts(&self.cx));
                self.cx.send(from, Message::Refreshed { reply_to, counts });
            }
            Message::Refreshed { reply_to, counts } => {
                self.fanout
                    .infos
                    .on_counted(&mut self.cx, reply_to, Some(*counts))
            }
            Message::Chore { reply_to, chore } => self.fanout.chores.on_chore(&mut self.cx, reply_to, chore),
            Message::ChoreDone { reply_to, outcome } => {
                self.fanout.chores.on_done(&mut self.cx, reply_to, outcome)
            }
            Message::Wait(message) => self.blocking.on_wait_message(&mut self.cx, message),
            Message::Unblock { client, is_error } => self.blocking.on_unblock(&mut self.cx, client, is_error),
            Message::ResetCounters => {
                self.cx
                    .local
                    .replicas
                    .iter_mut()
                    .for_each(|replica| replica.state_mut().reset_counters());
                self.cx.stats.clear();
            }
            Message::Wake => {}
            Message::Adopt => driver(Incoming::Adopt),
            Message::Reap => driver(Incoming::Reap),
        }
    }

    /// A command from another worker, for a group that lives here.
    pub(crate) fn on_forwarded(
        &mut self,
        from: u16,
        reply_to: ReplyTo,
        group: Option<GroupId>,
        asked: Asked<'_>,
    ) {
        if asked.spec.route == CommandRoute::Script {
            return script_at_once::on_forwarded(self, from, reply_to, &asked);
        }
        let (spec, db, args) = (asked.spec, asked.db, asked.args);
        let denied = spec.flags.contains(Flags::DENYOOM) && !self.make_room();
        // Whatever is known here by now: what its connection has sent before went there.
        let index = group.and_then(|group| self.cx.local.index(group));
        let logged = index.filter(|&index| !denied && self.cx.local.replicas[index].has_log());
        let is_first = logged.is_some_and(|index| self.may_apply_first_for_other(&asked, index));
        if let Some(index) = logged.filter(|_| !is_first) {
            self.cx.timing.is_ours = false;
            return self.ask_for_other(reply_to, asked, index);
        }
        let waits = index.is_some_and(|index| {
            !denied
                && !is_first
                && !self.cx.local.replicas[index].is_free(|| locks_of([(spec, args)], |_| true))
        });
        if waits && index.is_some_and(|index| self.cx.local.replicas[index].has_room_to_wait()) {
            let group = group.expect("it has an index");
            return self.wait_for_keys(group, reply_to, asked.to_operation(), asked.touches);
        }
        let may_run = index.is_some() && !denied && !waits;
        let parsed = spec.parse.filter(|_| may_run).map(|parse| parse(args));
        if let Some(Ok(command)) = &parsed
            && !is_first
            && crate::offload::is_heavy(&self.cx, db, spec, args, command)
        {
            return self.run_offloaded(reply_to, asked.to_operation(), asked.touches);
        }
        let mut answer = Rope::over(self.cx.mailbox_batch(from).take_bytes());
        let start = answer.mark();
        let mut out = ReplyWriter::sharing(&mut answer, asked.protocol);
        match (index, parsed) {
            _ if denied => ReplyError::OutOfMemory.write(&mut out),
            _ if waits => busy(&mut out),
            (None, _) => crate::scan::scan_here(&mut self.cx, db, spec, args, &mut out),
            (Some(_), None) => unreachable!("only commands on keys are forwarded"),
            (Some(index), Some(Ok(command))) => {
                let replica = &mut self.cx.local.replicas[index];
                replica.state_mut().touch(asked.touches);
                match is_first {
                    true => {
                        let protocol = asked.protocol;
                        let operation = BlockCommand { db, protocol, args };
                        replica.apply_first(&self.cx.turn, &operation, &command, &mut out);
                    }
                    false => replica.execute(&self.cx.turn, db, &command, &mut out),
                }
                replica.state_mut().touch(true);
            }
            (Some(_), Some(Err(error))) => error.write(&mut out),
        }
        self.cx.look_at_reply(Some(spec), &answer.bytes_mut()[start..]);
        let (bytes, long) = answer.into_bytes_and_long(start);
        match long {
            None => self
                .cx
                .outbox
                .mailbox_batch_being_filled(from)
                .push_answer(reply_to, bytes, start),
            Some(reply) => {
                let output = Output::Replied {
                    reply_to,
                    reply,
                    journey: None,
                };
                self.cx
                    .outbox
                    .mailbox_batch_being_filled(from)
                    .push_long_answer(bytes, output);
            }
        }
        if let Some(index) = index {
            self.cx.local.note_events(index);
        }
        self.tell_noted();
    }

    /// Another node asks for this one's part of a command.
    pub(crate) fn on_question(&mut self, from: NodeId, question: &Question) {
        let Some(words) = fanout::words_of(&question.bytes) else {
            return;
        };
        let args = words.as_args();
        let Ok(spec) = command::resolve(args) else {
            return;
        };
        let mut reply = Vec::new();
        let kind = match spec.id {
            CommandId::Publish => Some(SubscriptionKind::Channel),
            CommandId::SPublish => Some(SubscriptionKind::ShardChannel),
            _ => None,
        };
        if let Some(kind) = kind {
            let published = Published::by(kind, args);
            let receivers = self.cx.shared.subscriptions.receivers(kind, published.channel);
            self.pubsub.on_node_message(&mut self.cx, published);
            ReplyWriter::new(&mut reply, Protocol::Resp2).integer(receivers as i64);
        } else if spec.id == CommandId::EvalSha {
            let source =
                script_cache::sha1_of(args.arg(1)).and_then(|sha1| self.cx.shared.scripts.source(&sha1));
            let mut w = ReplyWriter::new(&mut reply, Protocol::Resp2);
            w.array(usize::from(source.is_some()));
            source.iter().for_each(|source| w.bulk(source));
        } else if spec.id == CommandId::Info {
            return self.fanout.infos.count_for(&mut self.cx, from, question.id);
        } else if spec.id == CommandId::Save {
            return self.fanout.chores.save_for(&mut self.cx, from, question.id);
        } else if spec.id == CommandId::WaitAof {
            return self.fanout.chores.sync_for(&mut self.cx, from, question.id);
        } else if spec.id == CommandId::ConfigSet
            && let Some(order) = durability_order::asked_by_node(args)
        {
            return self
                .fanout
                .chores
                .follow_for(&mut self.cx, from, question.id, order);
        } else if spec.id == CommandId::ConfigSet {
            if !fanout::set_for_cluster(&mut self.cx, args) {
                return;
            }
            ReplyWriter::new(&mut reply, Protocol::Resp2).ok();
        } else if Join::of(spec, args).is_some() {
            // Whoever asks has a connection there, and none here: no client has this number. Whether `DEBUG` is for it, if
            // it is for clients of this machine, was asked there.
            let nowhere = ([127, 0, 0, 1], 0).into();
            let info = Arc::new(ClientInfo::new(
                0,
                nowhere,
                nowhere,
                self.cx.worker,
                0,
                self.cx.turn.now.0,
            ));
            let mut session = Session::new(info, u64::MAX, Endpoint::AnyNode, true);
            fanout::carry_out_part(self, &mut session, spec, args, &mut reply);
        } else {
            return;
        }
        let answer = PeerAnswer {
            id: question.id,
            bytes: reply.into(),
        };
        self.cx.answer_node(from, answer);
    }

    /// Room for a command that needs memory. `false`: refuse.
    #[inline]
    pub(crate) fn make_room(&mut self) -> bool {
        let is_paused = self.pausing.is_on();
        let has_room = self.maxmemory.make_room(&mut self.cx, is_paused);
        self.tell_noted();
        has_room
    }

    /// Looks at the lines of keys that were filled since the last time. Called right behind each command.
    #[inline]
    pub(crate) fn serve_waiters(&mut self) {
        if self.blocking.is_awaited() {
            self.blocking.serve(&mut self.cx);
            self.route();
        }
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
}

//! This worker's groups as replicas of the cluster's: a seat for each, in which a replica may sit.
//!
//! ```text
//!   peers:   Raft, batches, chunks, hashes ----+
//!   here:    batches of the own group client --+--> replica --effects--> to peers; responses; SeatOutput
//!   layouts, orders, the clock ----------------+
//! ```
//!
//! Every worker has the same groups on every node, so that what a peer says comes to the right one without a hop. A group
//! with one replica, which is here, is carried out as ever, and nothing of this is looked at.
//!
//! A replica of which a step has panicked, and one whose state differs from the others', ends here: `broken.rs`.
//!
//! Invariants, as [`Seats::check`] looks at them:
//! 1. Once there is a cluster, there is one seat for each of the worker's replicas, in their order.
//! 2. A replica that has a part in its group's log is one that the cluster has named.
//! 3. Between commands, nothing that was read under a lease is left to be told.

use super::boots::Boots;
use super::broken::{DIFFERS, guard};
use super::group_clients::known_leader;
use super::open_entries::OpenEntries;
use super::seat::{LeaderTerm, Seat};
use super::state_copies::StateCopies;
use super::{HandoverImage, Layout};
use crate::connection::Connection;
use crate::context::Context;
use crate::in_flight::is_untouched;
use crate::local_groups::LocalGroups;
use crate::outbox::{DiskTask, Told};
use crate::session::Session;
use bytes::Bytes;
use command::{Command, Spec};
use consensus::{Durability, RaftMessage};
use ids::{GroupId, Incarnation, Monotonic, NodeId, PeerWorker};
use keyspace::{Keyspace, Operations, SCRUB_FORMAT};
use mutations::Mutation;
use peer_wire::{Coding, PeerMessage, Raft, ScrubHash, TransferAnswer, TransferChunk, TransferOutcome};
use replica::{
    Batch, BatchOutcome, BatchResponse, Chunk, DiskAnswer, DiskRequest, Effects, Input, Member, Output,
    Replica, Sender, locks_of,
};
use resp::Args;
use std::sync::Arc;
use std::time::Duration;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Seats {
    pub(super) seats: Vec<Seat>,
    /// What the last life of the process left, for seats that are not made yet.
    kept: Vec<HandoverImage>,
    /// Whether heartbeats are to gather their claims again.
    claims_changed: bool,
    /// Whether leaders or members have changed since the driver last asked.
    is_news: bool,
    /// The groups of which something was read under the lease by the commands being carried out.
    leased: Vec<usize>,
    /// Whether replicas that had no log on disk are to get one, one after the other.
    is_changing: bool,
    open_entries: OpenEntries,
    copies: StateCopies,
    /// Commands that were answered from the state here, under the lease.
    pub(super) reads_here: u64,
    /// When the figures were last written down.
    pub(super) stats_at: Monotonic,
    /// Syncs that were asked for because something was set aside.
    syncs_aside: u64,
}

/// From here on numbers of syncs are those of what is set aside; below are those that clients wait for.
const SYNCS_ASIDE: u64 = 1 << 63;

/// What a seat has for the rest of the gateway.
pub(crate) enum SeatOutput {
    /// The whole state of its replica was replaced.
    Installed,
    /// Its replica has ended.
    Vacated,
    /// What became of a batch of the group client here.
    Response(BatchResponse),
    /// Its replica has come to know another leader.
    Follows,
}

impl Seats {
    /// The meta group wants something of the leader of a group of this worker.
    pub(crate) fn on_order(
        &mut self,
        cx: &mut Context,
        group: GroupId,
        index_then: u64,
        order: &control::Order,
    ) {
        if let Some(index) = self.seated(cx, group) {
            // It was made for other members than those that there are now: the next look says what is still to be done.
            let member = cx.local.replicas[index].member();
            if member.is_none_or(|member| member.members_at().0 != index_then) {
                return;
            }
            // Nodes that have died meanwhile would be counted on: a learner that becomes a voter, and those who stay when others go.
            // The group could neither make the change nor go back.
            if let (control::Order::Change { promote, remove }, Some(member)) = (order, member) {
                let seats = &cx.layout_of(index).seats;
                let is_there = |voter: &&Incarnation| {
                    let node = seats.get(voter);
                    node.is_some_and(|node| cx.view.is_there(*node, group))
                };
                let stay = member.members().voters.iter();
                let stay = stay.filter(|voter| !remove.contains(voter));
                let behind: Vec<&Incarnation> = stay.chain(promote).collect();
                let there = behind.iter().copied().filter(|voter| is_there(voter)).count();
                if !promote.iter().all(|learner| is_there(&learner))
                    || there < control::majority(behind.len())
                {
                    return;
                }
            }
            if let Some(input) = self.seats[index].input_of(order, &cx.local.replicas[index]) {
                self.step(cx, index, input);
                cx.local.visits.touch(index);
            }
        }
    }

    /// A gateway of another node has something for a group that it thinks is led here.
    pub(crate) fn on_peer_batch(&mut self, cx: &mut Context, from: NodeId, message: peer_wire::BatchRequest) {
        let peer_wire::BatchRequest {
            group,
            gateway,
            batch,
        } = message;
        let Some(index) = self.seated(cx, group) else {
            return;
        };
        let sender = Sender { node: from, gateway };
        if Operations::check(&batch.writes).is_err() {
            // No gateway of an agreed version sends this: it would be refused for ever.
            return self.send_back(cx, index, sender, batch.sequence, BatchOutcome::Evicted);
        }
        self.on_batch(cx, index, sender, batch);
    }

    /// A gateway hands a batch to the replica here.
    pub(crate) fn on_batch(&mut self, cx: &mut Context, index: usize, sender: Sender, batch: Batch) {
        let sequence = batch.sequence;
        let effects = self.step(cx, index, Input::Batch { sender, batch });
        cx.local.visits.touch(index);
        match effects {
            Some(effects) => self.carry_out_effects(cx, index, effects),
            None => self.send_back(
                cx,
                index,
                sender,
                sequence,
                BatchOutcome::NotLeader { leader: None },
            ),
        }
    }

    /// A batch was not looked at, because there is no replica here that could.
    fn send_back(
        &mut self,
        cx: &mut Context,
        index: usize,
        sender: Sender,
        sequence: u64,
        outcome: BatchOutcome,
    ) {
        let replica = &cx.local.replicas[index];
        let response = BatchResponse {
            group: replica.group(),
            generation: cx.layout_of(index).generation,
            term: self.seats[index].term(replica),
            gateway: sender.gateway,
            sequence,
            outcome,
        };
        respond(cx, index, sender.node, response);
    }

    pub(crate) fn on_raft(&mut self, cx: &mut Context, group: GroupId, mut message: RaftMessage) {
        let Some(index) = self.seated(cx, group) else {
            return;
        };
        let incarnation = self.seats[index].incarnation;
        if mutations::is(Mutation::IncarnationNotChecked) {
            message.to = incarnation.unwrap_or(message.to);
        }
        if incarnation == Some(message.to) && self.step(cx, index, Input::Message(message)).is_some() {
            cx.local.visits.touch(index);
        }
    }

    /// A piece of state for the replica here.
    pub(crate) fn on_peer_chunk(&mut self, cx: &mut Context, from: NodeId, wire: TransferChunk) {
        let Some(index) = self.seated_as(cx, wire.group, wire.to) else {
            return;
        };
        let chunk = Chunk {
            transfer: wire.transfer,
            number: wire.number,
            point: wire.point,
            bytes: wire.bytes.into(),
        };
        let (transfer, number) = (chunk.transfer, chunk.number);
        if cx.local.replicas[index].member().is_none() {
            return;
        }
        let effects = self.step(
            cx,
            index,
            Input::Chunk {
                from: wire.from,
                chunk,
            },
        );
        cx.local.visits.touch(index);
        let outcome = match effects {
            // Its sender is answered when it is on disk.
            Some(effects) if effects.is_taken_later => return self.carry_out_effects(cx, index, effects),
            Some(effects) if effects.is_taken => TransferOutcome::Held { number },
            Some(_) | None => TransferOutcome::Broken,
        };
        let answer = TransferAnswer {
            group: wire.group,
            from: wire.to,
            to: wire.from,
            transfer,
            outcome,
        };
        cx.send_to_node(from, PeerMessage::TransferAnswer(answer));
    }

    /// The disk has done something for the replica here, in this life of it.
    pub(crate) fn on_disk(&mut self, cx: &mut Context, group: GroupId, life: u64, answer: DiskAnswer) {
        let Some(index) = self.seated(cx, group) else {
            return;
        };
        if cx.local.replicas[index].life() != life {
            return;
        }
        if let Some(effects) = self.step(cx, index, Input::Disk(answer)) {
            cx.local.visits.touch(index);
            self.carry_out_effects(cx, index, effects);
        }
    }

    /// A snapshot of a group is to be stored.
    pub(crate) fn store(&mut self, cx: &mut Context, group: GroupId) {
        if let Some(index) = self.seated(cx, group)
            && self.step(cx, index, Input::Snapshot).is_some()
        {
            cx.local.visits.touch(index);
        }
    }

    pub(crate) fn on_chunk_answer(&mut self, cx: &mut Context, answer: &TransferAnswer) {
        let Some(index) = self.seated_as(cx, answer.group, answer.to) else {
            return;
        };
        let (number, is_taken) = match answer.outcome {
            TransferOutcome::Held { number } => (number, true),
            TransferOutcome::Broken => (0, false),
        };
        let input = Input::ChunkAnswer {
            from: answer.from,
            transfer: answer.transfer,
            number,
            is_taken,
        };
        self.step(cx, index, input);
        cx.local.visits.touch(index);
    }

    /// Another replica of a group says what its state is like.
    pub(crate) fn on_scrub(&mut self, cx: &mut Context, from: NodeId, scrub: &ScrubHash) {
        let Some(index) = self.seated_for(cx, from, scrub.group, scrub.generation, (scrub.from, scrub.to))
        else {
            return;
        };
        if scrub.format != SCRUB_FORMAT {
            return;
        }
        let input = Input::Scrubbed {
            from: scrub.from,
            scrubbed: scrub.scrubbed,
        };
        if let Some(effects) = self.step(cx, index, input) {
            self.carry_out_effects(cx, index, effects);
        }
    }

    /// Another replica of a group says something of fragments.
    pub(crate) fn on_coding(&mut self, cx: &mut Context, from: NodeId, coding: Coding) {
        let ends = (coding.from, coding.to);
        let Some(index) = self.seated_for(cx, from, coding.group, coding.generation, ends) else {
            return;
        };
        let input = Input::Coding {
            from: coding.from,
            message: coding.message,
        };
        if let Some(effects) = self.step(cx, index, input) {
            cx.local.visits.touch(index);
            self.carry_out_effects(cx, index, effects);
        }
    }

    /// The index of a group's seat, if it is one of this worker's.
    fn seated(&self, cx: &Context, group: GroupId) -> Option<usize> {
        let index = cx.local.index(group)?;
        (index < self.seats.len()).then_some(index)
    }

    /// The same, if this replica of the group is here.
    fn seated_as(&self, cx: &Context, group: GroupId, incarnation: Incarnation) -> Option<usize> {
        let index = self.seated(cx, group)?;
        (self.seats[index].incarnation == Some(incarnation)).then_some(index)
    }

    /// The same, if it is in this generation of its group that the other replica, which is on that node, has said something to it. Each node
    /// speaks for its own replicas.
    fn seated_for(
        &self,
        cx: &Context,
        node: NodeId,
        group: GroupId,
        generation: u64,
        (from, to): (Incarnation, Incarnation),
    ) -> Option<usize> {
        let index = self.seated_as(cx, group, to)?;
        let is_there = incarnations_on(cx, index, node).contains(&from);
        (is_there && cx.layout_of(index).generation == generation).then_some(index)
    }

    /// Makes a seat what the layout says of it, of all groups in their order. Whether the group got its log by it.
    pub(crate) fn on_layout(&mut self, cx: &mut Context, index: usize) -> bool {
        let layout = cx.view.layout.clone().expect("the caller has set it");
        let group = cx.local.replicas[index].group();
        if index == self.seats.len() {
            self.seats.push(Seat::default());
            cx.local.visits.add();
        }
        self.claims_changed = true;
        let (seed, now) = (cx.prng.next_u64(), cx.now);
        let (seat, replica) = (&mut self.seats[index], &mut cx.local.replicas[index]);
        if let Some(at) = self.kept.iter().position(|kept| kept.group == group) {
            if self.kept[at].keyspace.is_some() {
                let kept = self.kept.swap_remove(at);
                seat.go_on(kept, None, &layout, replica, &cx.turn, seed, now);
                if !replica.has_log() {
                    replica.state_mut().set_limits(&cx.turn, cx.limits);
                }
            } else if !seat.awaits(&mut self.kept[at], &layout, replica) {
                self.kept.swap_remove(at);
            }
        }
        let had_log = replica.has_log();
        if !had_log {
            // As transactions name it that begin now.
            replica
                .state_mut()
                .begin_generation(layout.group(group).generation);
        }
        self.settle(cx, &layout, index, seed);
        cx.local.visits.touch(index);
        !had_log && cx.local.replicas[index].has_log()
    }

    /// The state of a group that an earlier process has left is read. Whether a seat has waited for it, and which.
    pub(crate) fn on_kept_state(
        &mut self,
        cx: &mut Context,
        group: GroupId,
        keyspace: Keyspace,
    ) -> Option<usize> {
        let index = cx.local.index(group)?;
        let Some(kept) = self.kept.iter_mut().find(|kept| kept.group == group) else {
            // The map has let go of it meanwhile.
            cx.local.replicas[index].free(keyspace);
            return None;
        };
        kept.keyspace = Some(keyspace);
        // Before the first layout there is no seat, and it is there when there is one.
        (index < self.seats.len()).then_some(index)
    }

    /// Whether a replica here goes on with a state that is still being read.
    pub(crate) fn is_awaited(&self, index: usize) -> bool {
        self.seats.get(index).is_some_and(Seat::is_awaited)
    }

    /// Whether anything that an earlier process has left is still being read.
    pub(crate) fn awaits_any(&self) -> bool {
        self.kept.iter().any(|kept| kept.keyspace.is_none())
    }

    /// What was written is synced.
    pub(crate) fn on_synced(&mut self, number: u64) {
        if number >= SYNCS_ASIDE {
            self.seats.iter_mut().for_each(|seat| seat.on_synced(number));
        }
    }

    /// Groups are to outlive their processes from here on, or not to any more.
    pub(crate) fn on_durability(&mut self, cx: &mut Context, is_durable: bool) {
        self.is_changing = is_durable;
        if is_durable {
            return;
        }
        cx.outbox.disk.clear();
        let now = cx.now;
        for (index, replica) in cx.local.replicas.iter_mut().enumerate() {
            if keeps_log(replica) {
                replica.set_durable(false, now);
                cx.local.visits.touch(index);
            }
        }
    }

    /// Whether some replicas here have no log yet that are to have one.
    pub(crate) fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// The log of a replica begins anew.
    pub(crate) fn keep_anew(&mut self, cx: &mut Context, group: GroupId) {
        if let Some(index) = self.seated(cx, group) {
            cx.local.replicas[index].set_durable(true, cx.now);
            cx.local.visits.touch(index);
        }
    }

    /// The next replica that is to have a log gets one, if there is one: the one before has its.
    pub(crate) fn keep_next(&mut self, cx: &mut Context) {
        let has_none = |replica: &Replica| replica.member().is_some_and(|member| !member.raft().is_durable());
        if let Some(index) = cx.local.replicas.iter().position(has_none) {
            cx.local.replicas[index].set_durable(true, cx.now);
            return cx.local.visits.touch(index);
        }
        let layout = cx.view.layout().expect("it says that they are to have one");
        let mut seats = self.seats.iter().zip(&cx.local.replicas);
        self.is_changing = seats.any(|(seat, replica)| seat.is_unsettled(layout, replica));
    }

    /// Becomes what the layout says, or as much of it as is possible now. What was to be asked of the group meanwhile, and waits no
    /// longer, is asked of it.
    fn settle(&mut self, cx: &mut Context, layout: &Layout, index: usize, seed: u64) {
        let (seat, replica) = (&mut self.seats[index], &mut cx.local.replicas[index]);
        let kept_out = Seat::give_log(layout, replica);
        // Another one may begin here in one go with its end.
        let (had_log_here, life) = (keeps_log(replica), replica.life());
        // One that has acknowledged without a disk until now goes on so until it is its turn.
        let durability = match self.is_changing {
            true => Durability::Memory,
            false => layout.persistence(),
        };
        seat.settle(layout, replica, durability, &cx.turn, seed, cx.now);
        let group = replica.group();
        if seat.asks_for_sync(SYNCS_ASIDE + self.syncs_aside) {
            cx.outbox.syncs.push(SYNCS_ASIDE + self.syncs_aside);
            self.syncs_aside += 1;
        }
        // What was set aside may be asked for still.
        let is_over = had_log_here && !keeps_log(replica) && !seat.has_former();
        let ends = is_over.then(|| end_of(group, life));
        cx.outbox.disk.extend(ends);
        let requests = kept_out.into_iter().map(|request| (group, request));
        cx.outbox.requests.extend(requests);
    }

    /// Time passes for a group. Whether the layout was not followed yet: then it is tried again.
    pub(crate) fn tick(&mut self, cx: &mut Context, index: usize) -> bool {
        self.step(cx, index, Input::Tick);
        // What it has to say to others leaves when the turn ends.
        if cx.local.replicas[index].has_messages() {
            cx.local.visits.touch(index);
        }
        // Reads may have what they have waited for.
        cx.local.note_long_reads(index);
        let layout = cx.view.layout.clone().expect("the caller looked");
        let was_unsettled = self.seats[index].is_unsettled(&layout, &cx.local.replicas[index]);
        if was_unsettled {
            let seed = cx.prng.next_u64();
            self.settle(cx, &layout, index, seed);
            wound_again(cx, index);
        }
        let (seat, replica) = (&mut self.seats[index], &cx.local.replicas[index]);
        let without_strangers = seat.without_strangers(layout.group(replica.group()), replica, cx.now);
        if replica.leader().is_some() {
            let term = replica.member().map(Member::term);
            let leads_as = seat.incarnation.zip(term);
            let told = seat.fenced.replace((leads_as, Arc::clone(&layout.boots)));
            let is_told = |(by, told): &(LeaderTerm, Arc<Boots>)| {
                let has_died = !Arc::ptr_eq(told, &layout.boots) && layout.boots.has_died_since(told);
                *by == leads_as && (!has_died || mutations::is(Mutation::LaterDeathNotTold))
            };
            if !told.as_ref().is_some_and(is_told) {
                let fence = layout.boots.fence();
                self.step(cx, index, Input::Own(&keyspace::EntryOperation::Fence { fence }));
            }
            let replica = &cx.local.replicas[index];
            let has_own = replica.member().is_some_and(Member::has_own);
            if replica.keyspace().limits() != cx.limits && !has_own {
                self.ask_limits(cx, index);
            }
        } else {
            seat.fenced = None;
        }
        if let Some(input) = without_strangers {
            self.step(cx, index, input);
        }
        let member = cx.local.replicas[index].member();
        if member.is_some_and(|member| member.has_own() || member.raft().has_ready()) {
            cx.local.visits.touch(index);
        }
        was_unsettled
    }

    /// Until when ticks have nothing to do for a seat, if nothing happens.
    pub(crate) fn quiet_until(cx: &Context, index: usize) -> Monotonic {
        let replica = &cx.local.replicas[index];
        match replica.keyspace().has_transactions() {
            true => cx.now,
            false => Seat::quiet_until(replica, cx.now),
        }
    }

    /// This process stood still for so long.
    pub(crate) fn on_standstill(&mut self, cx: &mut Context, span: Duration) {
        for index in 0..self.seats.len() {
            self.step(cx, index, Input::StoodStill(span));
        }
    }

    /// A node has been silent for long.
    pub(crate) fn on_silence(&mut self, cx: &mut Context, peer: PeerWorker) {
        for index in 0..self.seats.len() {
            if cx.view.counterpart(peer.node, cx.local.replicas[index].group()) != peer {
                continue;
            }
            for incarnation in incarnations_on(cx, index, peer.node) {
                self.step(cx, index, Input::Silence(incarnation));
            }
            cx.local.visits.wake(index, cx.now);
        }
    }

    /// The link to a node broke.
    pub(crate) fn on_link_lost(&mut self, cx: &mut Context, index: usize, node: NodeId) {
        for incarnation in incarnations_on(cx, index, node) {
            self.step(cx, index, Input::LinkLost(incarnation));
        }
    }

    /// Has the limits of the settings set in a group that is led here, in front of whatever is carried out next. Which limits
    /// it has is no reason not to: others may be on their way.
    fn ask_limits(&mut self, cx: &mut Context, index: usize) {
        let limits = cx.limits;
        self.ask_own(cx, index, &keyspace::EntryOperation::Limits { limits });
    }

    /// The same in all groups that are led here: the settings are others.
    pub(crate) fn ask_limits_of_led(&mut self, cx: &mut Context) {
        for index in 0..self.seats.len() {
            if cx.local.replicas[index].leader().is_some() {
                self.ask_limits(cx, index);
            }
        }
    }

    /// Nothing is popped for clients whose node is out of reach of the leader, here: an element would be gone with them.
    pub(crate) fn end_waits_of_lost(&mut self, cx: &mut Context, index: usize) {
        if !cx.local.replicas[index].keyspace().has_waiters() || cx.local.replicas[index].leader().is_none() {
            return;
        }
        let boots = cx.local.replicas[index].keyspace().waiting_boots().collect();
        self.end_waits_of_those_lost(cx, index, boots);
    }

    fn end_waits_of_those_lost(&mut self, cx: &mut Context, index: usize, boots: Vec<ids::Boot>) {
        for boot in boots {
            if cx.is_lost(boot) {
                self.ask_own(cx, index, &keyspace::EntryOperation::EndWaits { boot });
            }
        }
    }

    /// The same, of a leader at the beginning of its term: before anything else is carried out, and whether or not all that
    /// came before is applied here.
    fn end_waits_before_term(&mut self, cx: &mut Context, index: usize) {
        if cx.local.replicas[index].leader().is_none() {
            return;
        }
        let layout = cx.view.layout();
        let boots = layout.into_iter().flat_map(|layout| layout.nodes.keys());
        let boots = boots.copied().collect();
        self.end_waits_of_those_lost(cx, index, boots);
    }

    /// A turn begins: if the worker has rested, the next piece of a state may be made.
    pub(crate) fn begin_copying(&mut self, cx: &mut Context) {
        let budget = &cx.shared.move_budget;
        cx.turn.copying.may_copy = self.copies.may_copy(cx.now);
        cx.turn.copying.may_send = budget.free_at() <= cx.now;
        let next = self.copies.next(cx.now, budget).into_iter().flatten();
        next.for_each(|index| cx.local.visits.touch(index));
    }

    /// When the worker has rested, if any piece waits for that.
    pub(crate) fn next_copy(&self, cx: &Context) -> Option<Monotonic> {
        self.copies.next_at(&cx.shared.move_budget)
    }

    /// The turn ends: what was gathered is proposed, and what is committed is applied. Whether that was anything.
    pub(crate) fn finish(&mut self, cx: &mut Context, index: usize) -> bool {
        let has_work = cx.local.replicas[index].has_work(cx.now);
        let effects = has_work.then(|| self.step(cx, index, Input::Finish)).flatten();
        cx.local.note_long_reads(index);
        let member = cx.local.replicas[index].member();
        if let Some(until) = member.and_then(Member::kept_until) {
            cx.local.visits.keep_until(index, until);
        }
        if !cx.turn.copying.may_copy && member.is_some_and(Member::wants_to_copy) {
            self.copies.wait(index);
        } else if !cx.turn.copying.may_send && member.is_some_and(Member::wants_to_send) {
            self.copies.wait_to_send(index);
        }
        let Some(effects) = effects else { return false };
        self.carry_out_effects(cx, index, effects);
        true
    }

    /// A leader writes a step of the long values that somebody is to be shown.
    pub(crate) fn read_on(&mut self, cx: &mut Context, index: usize) {
        if let Some(effects) = self.step(cx, index, Input::ReadOn) {
            self.carry_out_effects(cx, index, effects);
        }
        cx.local.visits.touch(index);
    }

    /// Carries out what a member wants done.
    fn carry_out_effects(&mut self, cx: &mut Context, index: usize, effects: Effects) {
        let group = cx.local.replicas[index].group();
        let Effects {
            messages,
            responses,
            chunks,
            status,
            members_changed,
            claims_changed,
            was_installed,
            stopped,
            scrubbed,
            coding,
            differing,
            is_undecided,
            is_unread,
            is_taken: _,
            is_taken_later: _,
            chunks_taken,
            disk,
            differs: _,
        } = effects;
        if !disk.is_empty() {
            let life = cx.local.replicas[index].life();
            let tasks = disk.into_iter().map(|request| DiskTask { group, life, request });
            cx.outbox.disk.extend(tasks);
        }
        self.claims_changed |= claims_changed;
        if let Some(reason) = stopped {
            self.seats[index].stopped = Some(reason.clone());
            cx.outbox.notices.push(format!(
                "a replica has stopped: group {}: {reason}",
                group.number()
            ));
        }
        if is_unread {
            cx.outbox.notices.push(format!(
                "group {}: an entry of the log cannot be read, and was left out: whoever wrote it is told nothing. This is a mistake \
                 of the program: please report it",
                group.number()
            ));
        }
        if was_installed {
            tell(cx, index, SeatOutput::Installed);
        }
        self.is_news |= status.is_some() || members_changed;
        self.note_scrub(cx, index, &differing, is_undecided);
        let layout = cx.view.layout.as_ref().expect("members have one").clone();
        let seats = &layout.group(group).seats;
        for message in messages {
            if let Some(&node) = seats.get(&message.to) {
                cx.send_to_node(node, PeerMessage::Raft(Raft { group, message }));
            }
        }
        let from = self.seats[index].incarnation;
        for (to, chunk) in chunks {
            if let (Some(&node), Some(from)) = (seats.get(&to), from) {
                let chunk = TransferChunk {
                    group,
                    from,
                    to,
                    transfer: chunk.transfer,
                    number: chunk.number,
                    point: chunk.point,
                    bytes: Bytes::from(chunk.bytes),
                };
                cx.send_to_node(node, PeerMessage::TransferChunk(chunk));
            }
        }
        for (to, transfer, number) in chunks_taken {
            if let (Some(&node), Some(from)) = (seats.get(&to), from) {
                let answer = TransferAnswer {
                    group,
                    from,
                    to,
                    transfer,
                    outcome: TransferOutcome::Held { number },
                };
                cx.send_to_node(node, PeerMessage::TransferAnswer(answer));
            }
        }
        let generation = layout.group(group).generation;
        for (to, scrubbed) in scrubbed {
            if let (Some(&node), Some(from)) = (seats.get(&to), from) {
                let scrub = ScrubHash {
                    group,
                    generation,
                    from,
                    to,
                    format: SCRUB_FORMAT,
                    scrubbed,
                };
                cx.send_to_node(node, PeerMessage::Scrub(scrub));
            }
        }
        for (to, message) in coding {
            if let (Some(&node), Some(from)) = (seats.get(&to), from) {
                let coding = Coding {
                    group,
                    generation,
                    from,
                    to,
                    message,
                };
                cx.send_to_node(node, PeerMessage::Coding(coding));
            }
        }
        for (to, response) in responses {
            respond(cx, index, to, response);
        }
        if status.is_some() {
            tell(cx, index, SeatOutput::Follows);
            cx.local.visits.touch(index);
            self.end_waits_before_term(cx, index);
            if cx.local.replicas[index].leader().is_some() {
                // Who led before may have been told of other settings, or of none.
                self.ask_limits(cx, index);
            }
        }
    }

    /// An operator is told of replicas that differ, by whoever leads the group.
    fn note_scrub(&mut self, cx: &mut Context, index: usize, differing: &[Incarnation], is_undecided: bool) {
        if differing.is_empty() && !is_undecided || cx.local.replicas[index].leader().is_none() {
            return;
        }
        let group = cx.local.replicas[index].group().number();
        for incarnation in differing {
            let node = cx.layout_of(index).seats.get(incarnation);
            let place = node.map_or_else(String::new, |node| format!(" on node {}", node.0));
            cx.outbox.notices.push(format!(
                "group {group}: the state of the replica{place} differs from that of most others, and it is not used any more"
            ));
        }
        if is_undecided {
            cx.outbox.notices.push(format!(
                "group {group}: the states of its replicas differ, and no majority of them agrees: nobody can tell which are right"
            ));
        }
        self.is_news = true;
    }

    /// Lets the replica of a seat take a step: what it wants done; `None` if it has no part in its group's log, or panicked.
    fn step(&mut self, cx: &mut Context, index: usize, input: Input<'_>) -> Option<Effects> {
        let (replica, turn, now) = (&mut cx.local.replicas[index], &cx.turn, cx.now);
        let mut effects = Effects::default();
        let guarded = guard(|| replica.step(turn, now, input, &mut effects));
        if let Some(copied) = replica.take_copied() {
            let (shared, bandwidth) = (&cx.shared, cx.settings.move_bandwidth);
            cx.turn.copying.may_copy = self.copies.copied(now, copied.nanos, shared.hooks.copy_rest_min);
            if copied.sent_bytes > 0 {
                shared.move_budget.charge(now, copied.sent_bytes, bandwidth);
                cx.turn.copying.may_send = shared.move_budget.free_at() <= now;
            }
        }
        match guarded {
            Ok(_) if effects.differs => {
                self.give_up_replica(cx, index, effects);
                None
            }
            Ok(is_member) => is_member.then_some(effects),
            Err(words) => {
                self.break_replica(cx, index, &words);
                None
            }
        }
    }

    /// Ends a replica whose state differs from that of most others of its group. What it has told already cannot be taken back; what
    /// it knows is not told any more, and it votes for nobody. The seat is filled anew when the meta group has given the node another
    /// incarnation, for which it is asked ([`Seats::given_up`]).
    fn give_up_replica(&mut self, cx: &mut Context, index: usize, effects: Effects) {
        let replica = &mut cx.local.replicas[index];
        let group = replica.group().number();
        let ends = keeps_log(replica).then(|| end_of(replica.group(), replica.life()));
        self.seats[index].give_up(replica, DIFFERS);
        cx.outbox.disk.extend(ends);
        self.note_vacated(cx, index);
        for (to, response) in effects.responses {
            respond(cx, index, to, response);
        }
        cx.outbox.notices.push(format!("group {group}: {DIFFERS}"));
    }

    /// Ends a replica of which a step has panicked.
    pub(crate) fn break_replica(&mut self, cx: &mut Context, index: usize, words: &str) {
        let replica = &mut cx.local.replicas[index];
        let group = replica.group().number();
        let ends = keeps_log(replica).then(|| end_of(replica.group(), replica.life()));
        self.seats[index].break_off(replica, words);
        cx.outbox.disk.extend(ends);
        self.note_vacated(cx, index);
        let reason = format!(
            "a replica has stopped: group {group}: it has panicked, and is not used any more: {words}"
        );
        cx.outbox.notices.push(reason);
    }

    /// The replica of a seat has ended. Who leads is not asked any more before that is looked at anew.
    fn note_vacated(&mut self, cx: &mut Context, index: usize) {
        tell(cx, index, SeatOutput::Vacated);
        self.is_news = true;
        self.claims_changed = true;
        cx.local.visits.touch(index);
    }

    /// Asks for expired keys of a replicated group to be deleted, if it is led here. Whether there are more.
    pub(crate) fn expire_replicated(&mut self, cx: &mut Context, index: usize, objects_max: usize) -> bool {
        if cx.local.replicas[index].leader().is_none_or(Member::has_own) {
            return false;
        }
        let mut found = Vec::new();
        let is_complete =
            cx.local.replicas[index]
                .state_mut()
                .find_expired(&cx.turn, objects_max, &mut found);
        for (db, key) in &found {
            self.ask_own(cx, index, &keyspace::EntryOperation::Expire { db: *db, key });
        }
        !is_complete
    }

    /// The replicated groups that are led here and have nothing of the leader's own under way.
    pub(crate) fn led_and_free(&self, cx: &Context) -> Vec<usize> {
        let is_free = |replica: &Replica| replica.leader().is_some_and(|leader| !leader.has_own());
        let replicas = cx.local.replicas.iter().enumerate();
        replicas
            .filter(|(_, replica)| is_free(replica))
            .map(|(index, _)| index)
            .collect()
    }

    /// Asks for an operation of the leader's own.
    pub(crate) fn ask_own(
        &mut self,
        cx: &mut Context,
        index: usize,
        operation: &keyspace::EntryOperation<'_>,
    ) {
        if self.step(cx, index, Input::Own(operation)).is_some() {
            cx.local.visits.touch(index);
        }
    }

    /// Whether a command may be answered from what a replica here holds, although another node leads and may have gone on:
    /// the client has asked for that with `READONLY`. A replica that is being filled is asked nothing.
    pub(crate) fn may_read_stale(
        &self,
        cx: &Context,
        session: &Session,
        spec: &'static Spec,
        index: usize,
    ) -> bool {
        let seat = &self.seats[index];
        let votes = |member: &Member| seat.incarnation.is_some_and(|me| member.members().is_voter(me));
        session.modes.reads_at_replicas
            && session.endpoint == crate::endpoint::Endpoint::Cluster
            && spec.flags.contains(command::Flags::READONLY)
            && cx.local.replicas[index]
                .member()
                .is_some_and(|member| !member.leads() && votes(member))
    }

    /// Answers a command under the lease; `false` if the answer would be that a key has expired by the clock here alone. It is asked
    /// for as by any other node then, and comes behind an entry that says how late it is.
    pub(crate) fn read_leased(
        &mut self,
        cx: &mut Context,
        connection: &mut Connection,
        command: &Command<'_>,
        index: usize,
    ) -> bool {
        let db = connection.session.db;
        let state = cx.local.replicas[index].state_mut();
        let (before, counts) = (
            connection.pipeline.target().len(),
            state.mark_reads(&cx.turn, false),
        );
        state.read_leased(&cx.turn, db, command, &mut connection.writer());
        let is_ahead = state.is_ahead(counts);
        self.expire_met(cx, index);
        if is_ahead {
            connection.pipeline.take_back(before);
            return false;
        }
        self.reads_here += 1;
        if !self.leased.contains(&index) {
            self.leased.push(index);
        }
        true
    }

    /// The disk has room for so many bytes, which it will acknowledge at once when they are written next.
    pub(crate) fn promise(&mut self, bytes: usize) {
        // Not all of them have a log on it yet.
        let bytes = if self.is_changing { 0 } else { bytes };
        self.open_entries.promise(bytes);
    }

    /// Whether any command may be applied before it is in a log.
    #[inline]
    pub(crate) fn applies_first(&self) -> bool {
        self.open_entries.may_grow()
    }

    /// Whether any may be in the next turn, and in this one no longer.
    #[inline]
    pub(crate) fn applies_first_soon(&self) -> bool {
        self.open_entries.may_soon()
    }

    /// Whether a command that writes is to be applied before it is in the log ([`Replica::apply_first`]): the group is alone here and at rest, and there
    /// is room for it. `is_in_turn`: whether nothing that its connection sent before is under way on the same keys.
    #[inline]
    pub(crate) fn may_apply_first(
        &mut self,
        cx: &mut Context,
        args: Args<'_>,
        is_long: bool,
        index: usize,
        is_in_turn: impl FnOnce() -> bool,
    ) -> bool {
        // What is long is not copied into an entry.
        if !self.open_entries.may_grow() || is_long || !cx.local.replicas[index].may_apply_first() {
            return false;
        }
        let replica = &cx.local.replicas[index];
        let is_first = !replica.is_ahead();
        let may_be = replica.state().are_unlocked(|| keyspace::locks_of([args]))
            && is_in_turn()
            && self.take_room(Operations::room_of(args), is_first);
        if may_be && is_first {
            self.note_opened(&mut cx.local, index, cx.turn.number);
        }
        may_be
    }

    /// Room for so many bytes of what is applied before it is in a log, if there is; and for an entry that is opened for it, if it is.
    #[inline]
    pub(crate) fn take_room(&mut self, bytes: usize, is_first: bool) -> bool {
        self.open_entries.take(bytes, is_first)
    }

    /// An entry of this group is open.
    pub(crate) fn note_opened(&mut self, local: &mut LocalGroups, index: usize, turn: u64) {
        self.open_entries.opened(index, turn);
        local.visits.touch(index);
    }

    /// What was read to be expired in a group that has a log is to be deleted.
    pub(crate) fn expire_met(&mut self, cx: &mut Context, index: usize) {
        if !cx.local.replicas[index].has_log() {
            return;
        }
        for (db, key) in cx.local.replicas[index].state_mut().take_met_expired() {
            self.ask_own(cx, index, &keyspace::EntryOperation::Expire { db, key: &key });
        }
    }

    /// What was applied first is to be kept, before anybody is told of it. Whether there is anything.
    pub(crate) fn close_entries(&mut self, cx: &mut Context) -> bool {
        if mutations::is(Mutation::ToldBeforeWritten) && self.open_entries.since() == cx.turn.number {
            return false;
        }
        self.open_entries.close();
        let mut count = 0;
        while let Some(index) = self.open_entries.closed(count) {
            count += 1;
            if let Some(effects) = self.step(cx, index, Input::Close) {
                self.carry_out_effects(cx, index, effects);
            }
        }
        count > 0
    }

    /// Whether a state here is ahead of what is kept.
    pub(crate) fn is_ahead(&self, cx: &Context) -> bool {
        let mut all = self.open_entries.all();
        all.any(|index| cx.local.replicas[index].is_ahead())
    }

    /// Whether what was just read under leases may be told: the process may have stood still since.
    #[inline]
    pub(crate) fn may_tell(&mut self, cx: &Context) -> bool {
        if self.leased.is_empty() {
            return true;
        }
        let now = (cx.shared.hooks.monotonic)();
        let replicas = &cx.local.replicas;
        let mut leased = std::mem::take(&mut self.leased);
        let may = leased.drain(..).all(|index| {
            replicas[index]
                .member()
                .is_some_and(|member| member.still_leads(now))
        });
        self.leased = leased;
        may
    }

    /// The node is going to stop: offers the leadership of its groups to others that are in reach. How many offers are
    /// open: they are taken up within a few rounds, or not at all.
    pub(crate) fn resign(&mut self, cx: &mut Context) -> usize {
        let Context {
            view,
            turn,
            now,
            local,
            ..
        } = cx;
        let Some(layout) = view.layout() else { return 0 };
        let mut open = 0;
        for (index, (seat, replica)) in self.seats.iter_mut().zip(&mut local.replicas).enumerate() {
            let group = layout.group(replica.group());
            if seat.resign(group, replica, |node| view.is_up(node), turn, *now) {
                open += 1;
                local.visits.touch(index);
            }
        }
        open
    }

    /// The disk here is not fit to lead with: leadership goes to replicas whose disks are, as far as these have the log. Nothing is
    /// acknowledged while it is handed over, so that is tried now and then only.
    pub(crate) fn hand_over(&mut self, cx: &mut Context) {
        let Context {
            view,
            turn,
            now,
            local,
            ..
        } = cx;
        let Some(layout) = view.layout() else { return };
        for (index, (seat, replica)) in self.seats.iter_mut().zip(&mut local.replicas).enumerate() {
            let group = layout.group(replica.group());
            if seat.hand_over(group, replica, |node| view.may_lead(node), turn, *now) {
                local.visits.touch(index);
            }
        }
    }

    /// Takes from what the last life of the process left all that is of this worker's groups. Before the first layout: its
    /// seats begin with it, as far as they are the same replicas.
    pub(crate) fn keep(&mut self, cx: &Context, all: &mut Vec<HandoverImage>) {
        assert!(cx.view.layout.is_none(), "replicas begin once");
        let ours = all.extract_if(.., |kept| cx.local.index(kept.group).is_some());
        let ours: Vec<HandoverImage> = ours.collect();
        self.kept.extend(ours);
    }

    /// Ends here for good: what the next life of the process needs to go on with this worker's replicas, and the groups
    /// of which not everything is here that they rely on. Replicas that have no state yet are in neither.
    pub(crate) fn into_handover_images(
        self,
        cx: Context,
        now: Monotonic,
    ) -> (Vec<HandoverImage>, Vec<GroupId>) {
        let Some(layout) = cx.view.layout else {
            return (Vec::new(), Vec::new());
        };
        let (mut all, mut lost) = (Vec::new(), Vec::new());
        for (seat, replica) in self.seats.into_iter().zip(cx.local.replicas) {
            let number = replica.group();
            let group = layout.group(number);
            let alone = group
                .seat_on(layout.me)
                .filter(|me| group.bootstrap_replica == Some(*me));
            if replica.has_transactions() {
                lost.push(number);
            }
            all.extend(HandoverImage::of(seat, replica, alone, &cx.turn, now));
        }
        (all, lost)
    }

    /// What is claimed to be led here has changed since this was last asked.
    pub(crate) fn take_claims_changed(&mut self) -> bool {
        std::mem::take(&mut self.claims_changed)
    }

    /// Whether leaders or members have changed since this was last asked.
    pub(crate) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    /// Says which invariant does not hold.
    pub(crate) fn check(&self, cx: &Context) -> Result<(), String> {
        let count = cx.view.layout().map_or(0, |_| cx.local.replicas.len());
        if self.seats.len() != count {
            return Err(format!(
                "invariant 1: {} seats for {count} replicas",
                self.seats.len()
            ));
        }
        let mut seats = self.seats.iter().zip(&cx.local.replicas);
        if seats.any(|(seat, replica)| replica.member().is_some() && seat.incarnation.is_none()) {
            return Err("invariant 2: a replica has a part in consensus, and is none".to_owned());
        }
        match self.leased.is_empty() {
            true => Ok(()),
            false => Err(format!("invariant 3: {:?}", self.leased)),
        }
    }
}

/// Whether a replica has a log on disk.
fn keeps_log(replica: &Replica) -> bool {
    replica.member().is_some_and(|member| member.raft().is_durable())
}

/// What the disk is told when the life of a replica is over.
fn end_of(group: GroupId, life: u64) -> DiskTask {
    DiskTask {
        group,
        life,
        request: DiskRequest::End,
    }
}

/// Tells a gateway what became of its batch.
fn respond(cx: &mut Context, index: usize, to: NodeId, mut response: BatchResponse) {
    if to == cx.view.me() {
        return tell(cx, index, SeatOutput::Response(response));
    }
    if let BatchOutcome::NotLeader { leader } = &mut response.outcome {
        *leader = known_leader(&cx.local.replicas[index], cx.layout_of(index));
    }
    cx.send_to_node(to, PeerMessage::Answers(response));
}

/// The replicas of a group that are on a node.
fn incarnations_on(cx: &Context, index: usize, node: NodeId) -> Vec<Incarnation> {
    let seats = cx.layout_of(index).seats.iter();
    seats
        .filter(|(_, seat)| **seat == node)
        .map(|(incarnation, _)| *incarnation)
        .collect()
}

/// Before a group that is alone gets its log, all transactions that have not voted everywhere are withdrawn: one may wait for
/// one of another node, which waits for this group. The hints may be lost, and are repeated.
fn wound_again(cx: &mut Context, index: usize) {
    let replica = &cx.local.replicas[index];
    if replica.awaits_log() && !mutations::is(Mutation::AloneWoundsOnce) {
        let open = replica.keyspace().open_transactions();
        let wounds = open.map(|(txn, _)| Output::Wound { txn });
        cx.outbox.outputs.extend(wounds);
    }
}

/// Whether a command can be answered from the state here: this node leads under a lease, and the connection has nothing
/// under way on the same keys.
pub(crate) fn may_read_here(
    cx: &Context,
    connection: &Connection,
    spec: &'static Spec,
    args: Args<'_>,
    index: usize,
) -> bool {
    let now = cx.now;
    let is_led = || {
        let member = cx.local.replicas[index].member();
        member.is_some_and(|member| member.may_read(now))
    };
    let is_settled = || is_untouched(connection, spec, args);
    // What a transaction holds is waited for at the member.
    let is_free = || {
        cx.local.replicas[index]
            .state()
            .admits(|| locks_of([(spec, args)], |_| true))
    };
    is_settled() && is_led() && is_free()
}

fn tell(cx: &mut Context, index: usize, output: SeatOutput) {
    cx.outbox.told.push_back(Told::Seat(index, output));
}

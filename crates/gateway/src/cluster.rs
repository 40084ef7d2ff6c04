//! This worker's part in the cluster: its groups, of which some have replicas on other nodes, and the peers there.
//!
//! ```text
//!   a command on a group with a log --> group client --turn's end--> replica here, if it leads --> response --> group client
//!                                            |                                                                     ^
//!                                            +------- Batch ------> leader elsewhere -------- Answers -------------+
//!
//!   peers:  Raft, heartbeats, batches, chunks  -->  replica, or group client
//! ```
//!
//! Every worker has the same groups on every node, so that what a peer says comes to the right one without a hop. A group
//! with one replica, which is here, is carried out as ever, and nothing of this is looked at.
//!
//! What leaves is gathered over a turn, and handed to the driver when it ends ([`Gateway::finish_cluster`]).
//!
//! Invariants:
//! 1. `seats` has one place for each of the worker's replicas, in their order.
//! 2. A layout is never replaced by an older one.

mod broken;
mod handover_image;
mod layout;
mod replica_view;
mod seat;
mod stats;
mod wall_clock;

pub use handover_image::HandoverImage;
pub use layout::{GroupLayout, Layout};
pub use replica_view::ReplicaView;
pub use stats::{ClusterStats, GroupStats, ReplicaStats};

use crate::connection::Connection;
use crate::context::Context;
use crate::gateway::Gateway;
use crate::maxmemory::Changed;
use crate::pubsub::{Kind, Published};
use crate::session::Session;
use crate::watches::Watches;
use bytes::Bytes;
use command::{Command, Spec};
use consensus::{Beat, BeatAnswer, Beats, Claim, LOOK, Listener, Looks, Message, Times};
use ids::{GroupId, Incarnation, Monotonic, NodeId, UnixMillis};
use keyspace::{Operations, SCRUB_FORMAT};
use mutations::Mutation;
use peer_wire::{ChannelKind, PeerMessage, Raft, Scrub, TransferAnswer, TransferChunk, TransferOutcome};
use replica::locks_of;
use replica::{
    Asked, Batch, BatchOutcome, BatchResponse, Chunk, Effects, GroupClient, Input, Member, NoCheckOut,
    Output, Replica, ReplyTo, Request, Sender,
};
use resp::Args;
use seat::Seat;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use txn::{Refusal, TxnId, Vote};
use wall_clock::WallClock;

/// Between two looks at the clock on behalf of groups that nothing happened to.
const TICK: std::time::Duration = Times::DEFAULT.tick;

/// A node of which nothing was heard for so long, although it is in reach, is not waited for by the groups that it leads.
const SILENT_AFTER: std::time::Duration = Times::DEFAULT.election_min;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Cluster {
    looks: Looks,
    /// Until then no tick has anything to do, unless something happens first.
    quiet_until: Monotonic,
    seats: Vec<Seat>,
    /// Indices of seats that something happened to since the last turn's end.
    touched: Vec<usize>,
    peers: BTreeMap<NodeId, Peer>,
    /// Whether heartbeats are to gather their claims again.
    claims_changed: bool,
    /// The groups of which something was read under the lease by the commands being carried out.
    leased: Vec<usize>,
    /// Whether leaders or members have changed since the driver last asked.
    is_news: bool,
    /// When the figures were last written down.
    stats_at: Monotonic,
    /// Batches that went to other nodes.
    forwarded: u64,
    /// Commands that were answered from the state here, under the lease.
    reads_here: u64,
    /// What the last life of the process left, for seats that are not made yet.
    kept: Vec<HandoverImage>,
    /// What the others' wall clocks show, and when they were last told what this one does.
    wall_clock: WallClock,
    told_wall_at: Monotonic,
    /// What an operator is to be told of it.
    clock_notice: Option<String>,
    /// Leaders that keep decisions nobody waits for, by the indices of their seats, and when they are to be visited for them at
    /// the latest. At most one for each seat.
    keeping: Vec<(usize, Monotonic)>,
}

/// Another node.
struct Peer {
    is_up: bool,
    /// When something was last heard of it; later if this worker could not hear.
    heard: Monotonic,
    /// Whether its groups were told that it is silent.
    is_silent: bool,
    /// Whether a long message is on its way from or to this worker of it.
    is_moving: bool,
    beats: Beats,
    listener: Listener,
}

impl Cluster {
    /// Marks a seat as one to be looked at when the turn ends.
    fn touch(&mut self, index: usize) {
        if !std::mem::replace(&mut self.seats[index].is_touched, true) {
            self.touched.push(index);
        }
    }

    /// The leader of this seat keeps decisions until then at the latest.
    fn keep_until(&mut self, index: usize, until: Monotonic) {
        match self.keeping.iter_mut().find(|(at, _)| *at == index) {
            Some((_, known)) => *known = until,
            None => self.keeping.push((index, until)),
        }
    }

    /// Marks the seats whose leaders have kept decisions for long enough. One that has proposed them meanwhile is visited for
    /// nothing.
    fn touch_keeping(&mut self, replicas: &[Replica], now: Monotonic) {
        let due: Vec<usize> = self
            .keeping
            .extract_if(.., |(_, until)| *until <= now)
            .map(|(index, _)| index)
            .collect();
        for index in due {
            if replicas[index].member().and_then(Member::kept_until).is_some() {
                self.touch(index);
            }
        }
    }
}

impl Gateway {
    /// Learns the raw monotonic time, once a turn, before anything else.
    pub fn begin_cluster(&mut self, now: Monotonic) {
        self.cx.now = now;
        let own = self.cx.turn.now;
        if !mutations::is(Mutation::WallClockTrusted) {
            let (time, notice) = self.cluster.wall_clock.judge(own, now);
            self.cx.turn.now = time;
            self.cluster.clock_notice = notice.or(self.cluster.clock_notice.take());
        }
        self.cluster.touch_keeping(&self.cx.local.replicas, now);
        if now < self.cluster.looks.after(TICK) {
            return;
        }
        let stood_still = self.cluster.looks.look(now);
        self.coordinator.tick_transaction(&mut self.cx);
        self.route();
        if self.cx.view.layout.is_none() {
            return;
        }
        if let Some(span) = stood_still {
            self.stood_still(span, now);
        }
        self.tell_wall_clock(own, now);
        self.end_overdue_questions(now);
        self.notice_silence(now);
        if now < self.cluster.quiet_until && self.cluster.touched.is_empty() {
            // Of hundreds of groups that nobody uses, not one is looked at.
            return;
        }
        let mut quiet_until = now.after(seat::QUIET_MAX);
        for index in 0..self.cluster.seats.len() {
            let seat = &self.cluster.seats[index];
            if now >= seat.quiet_until || seat.is_touched {
                self.tick_seat(index);
            }
            quiet_until = quiet_until.min(self.cluster.seats[index].quiet_until);
        }
        self.cluster.quiet_until = quiet_until;
    }

    /// Tells the other nodes now and then what the wall clock here shows.
    fn tell_wall_clock(&mut self, own: UnixMillis, now: Monotonic) {
        let Cluster {
            peers, told_wall_at, ..
        } = &mut self.cluster;
        if now < told_wall_at.after(wall_clock::TELL_EVERY) {
            return;
        }
        *told_wall_at = now;
        let up = peers.iter().filter(|(_, peer)| peer.is_up);
        let messages = up.map(|(node, _)| (*node, PeerMessage::WallClock(own)));
        self.cx.outbox.peer_messages.extend(messages);
    }

    /// What an operator is to be told of the wall clock here.
    pub fn take_clock_notice(&mut self) -> Option<String> {
        self.cluster.clock_notice.take()
    }

    /// Whether the wall clock here is so far from the others' that theirs is used.
    pub fn is_wall_clock_off(&self) -> bool {
        self.cluster.wall_clock.is_off()
    }

    /// When this worker is to be called again, at the latest, if nothing happens.
    pub fn next_cluster_timer(&self) -> Option<Monotonic> {
        let Cluster {
            touched,
            looks,
            quiet_until,
            peers,
            keeping,
            ..
        } = &self.cluster;
        if !touched.is_empty() {
            return Some(self.cx.now);
        }
        let tick = looks.after(TICK);
        let is_waiting =
            self.has_questions() || !self.coordinator.is_empty() || self.coordinator.recoveries.len() > 0;
        let quiet_until = if is_waiting {
            tick
        } else {
            (*quiet_until).min(looks.after(LOOK))
        };
        let beats = peers.values().filter(|peer| peer.is_up);
        let beat = beats.filter_map(|peer| peer.beats.due()).min();
        let next = tick.max(quiet_until).min(beat.unwrap_or(Monotonic(u64::MAX)));
        let next = keeping.iter().fold(next, |next, (_, until)| next.min(*until));
        // Transactions have deadlines within a node too.
        (self.cx.view.is_spread || self.coordinator.counts().0 > 0).then_some(next)
    }

    /// Takes from what the last life of the process left all that is of this worker's groups. Before the first layout: its
    /// seats begin with it, as far as they are the same replicas.
    pub fn keep(&mut self, all: &mut Vec<HandoverImage>) {
        assert!(self.cx.view.layout.is_none(), "replicas begin once");
        let ours = all.extract_if(.., |kept| self.cx.local.index(kept.group).is_some());
        let ours: Vec<HandoverImage> = ours.collect();
        self.cluster.kept.extend(ours);
    }

    /// The node is going to stop: offers the leadership of its groups to others that are in reach. How many offers are
    /// open: they are taken up within a few rounds, or not at all.
    pub fn resign(&mut self) -> usize {
        let Cluster {
            seats,
            peers,
            touched,
            ..
        } = &mut self.cluster;
        let Context {
            view,
            turn,
            now,
            local,
            ..
        } = &mut self.cx;
        let Some(layout) = view.layout() else { return 0 };
        let is_up = |node: NodeId| peers.get(&node).is_some_and(|peer| peer.is_up);
        let mut open = 0;
        for (index, (seat, replica)) in seats.iter_mut().zip(&mut local.replicas).enumerate() {
            if seat.resign(layout.group(replica.group()), replica, is_up, turn, *now) {
                open += 1;
                if !std::mem::replace(&mut seat.is_touched, true) {
                    touched.push(index);
                }
            }
        }
        open
    }

    /// Whether nothing is under way that several groups have a part in, and that this worker answers for. What waits for a group
    /// that can have no leader is left to whoever leads it again, as if this node had died: no client was told of it, or all
    /// that was decided is in logs.
    pub fn is_at_rest(&self) -> bool {
        let is_leaderless = |group| {
            let peers = &self.cluster.peers;
            let is_up = |node: NodeId| peers.get(&node).is_none_or(|peer| peer.is_up);
            let layout = self.cx.view.layout();
            layout.is_some_and(|layout| !layout.group(group).has_majority(is_up))
        };
        self.cx.outbox.outputs.is_empty()
            && self.last_agent.is_empty()
            && self.coordinator.waits_only_for(is_leaderless)
            && self.cx.outbox.offload_jobs.is_empty()
            && self.backlog() == 0
            && !self
                .cx
                .local
                .replicas
                .iter()
                .any(replica::Replica::has_transactions)
    }

    /// Ends here for good: what the next life of the process needs to go on with this worker's replicas, and the groups
    /// of which not everything is here that they rely on. Replicas that have no state yet are in neither.
    pub fn into_handover_images(self, now: Monotonic) -> (Vec<HandoverImage>, Vec<GroupId>) {
        let Some(layout) = self.cx.view.layout else {
            return (Vec::new(), Vec::new());
        };
        let (mut all, mut lost) = (Vec::new(), Vec::new());
        for (seat, replica) in self.cluster.seats.into_iter().zip(self.cx.local.replicas) {
            let number = replica.group();
            let group = layout.group(number);
            let alone = group
                .seat_on(layout.me)
                .filter(|me| group.bootstrap_replica == Some(*me));
            if replica.has_transactions() {
                lost.push(number);
            }
            all.extend(HandoverImage::of(seat, replica, alone, &self.cx.turn, now));
        }
        (all, lost)
    }

    /// Takes over a version of the cluster. An older one than it has is let go.
    pub fn set_layout(&mut self, layout: Arc<Layout>) {
        let known = self.cx.view.layout.as_ref().map(|layout| layout.epoch);
        if known.is_some_and(|known| layout.epoch <= known) && !mutations::is(Mutation::StaleMapAccepted) {
            return;
        }
        self.cx.view.is_spread = !layout.peers.is_empty();
        self.cx.turn.semantics = layout.semantics;
        // Groups are told of the world once a turn, and it is another one from here on.
        self.cx.turn.number += 1;
        let times = Times::DEFAULT;
        let mut linked = Vec::new();
        for &node in &layout.peers {
            if let Entry::Vacant(place) = self.cluster.peers.entry(node) {
                place.insert(Peer {
                    is_up: false,
                    heard: self.cx.now,
                    is_silent: false,
                    is_moving: false,
                    beats: Beats::new(layout.boot, times.heartbeat),
                    listener: Listener::new(),
                });
                linked.extend(self.cx.view.links.get(&node));
            }
        }
        self.cluster.peers.retain(|node, _| layout.peers.contains(node));
        self.cluster
            .wall_clock
            .retain(|node| layout.peers.contains(&node));
        let mut layout = layout;
        if let Some(known) = &self.cx.view.layout
            && layout.groups.iter().any(|group| group.is_unheard)
        {
            Arc::make_mut(&mut layout).keep_unheard(known);
        }
        self.cx.view.layout = Some(layout);
        self.cluster.claims_changed = true;
        for index in 0..self.cx.local.replicas.len() {
            self.seat(index);
        }
        self.blocking.replica_waits.on_layout(&mut self.cx);
        // They had linked before this node heard of them.
        for node in linked {
            self.on_link(node, true);
        }
    }

    /// The meta group wants something of the leader of a group of this worker.
    pub fn on_order(&mut self, group: GroupId, index_then: u64, order: &control::Order) {
        if let Some(index) = self.seated(group) {
            // It was made for other members than those that there are now: the next look says what is still to be done.
            let member = self.cx.local.replicas[index].member();
            if member.is_none_or(|member| member.members_at().0 != index_then) {
                return;
            }
            // Nodes that have died meanwhile would be counted on: a learner that becomes a voter, and those who stay when others go.
            // The group could neither make the change nor go back.
            if let (control::Order::Change { promote, remove }, Some(member)) = (order, member) {
                let seats = &self.cx.layout_of(index).seats;
                let is_there = |voter: &&Incarnation| {
                    let node = seats.get(voter);
                    let peer = node.and_then(|node| self.cluster.peers.get(node));
                    node == Some(&self.cx.view.me()) || peer.is_some_and(|peer| peer.is_up && !peer.is_silent)
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
            if let Some(input) = self.cluster.seats[index].input_of(order, &self.cx.local.replicas[index]) {
                self.step(index, input);
                self.cluster.touch(index);
            }
        }
    }

    /// What the meta group is to be told of the groups that this worker leads, and which it does not lead.
    pub fn group_reports(&self) -> (Vec<control::GroupReport>, Vec<control::GroupRef>) {
        let (mut led, mut not_led) = (Vec::new(), Vec::new());
        for (seat, replica, layout) in self.seats() {
            match seat.group_report(self.cx.view.me(), replica, layout) {
                Some(group_report) => led.push(group_report),
                None => not_led.push(control::GroupRef::Data(replica.group())),
            }
        }
        (led, not_led)
    }

    /// How long after [`Gateway::group_reports`] they are asked for again, if there is no news. Soon where a leader has nothing
    /// to say yet, at the beginning of its term, or something else to say before long.
    pub fn group_reports_pause(&self) -> std::time::Duration {
        const GROUP_REPORTS: std::time::Duration = std::time::Duration::from_secs(1);
        const GROUP_REPORTS_SOON: std::time::Duration = std::time::Duration::from_millis(50);
        let is_settling = self.seats().any(|(seat, replica, layout)| {
            let group_report = seat.group_report(self.cx.view.me(), replica, layout);
            replica.leader().is_some() && group_report.is_none_or(|group_report| group_report.is_settling())
        });
        if is_settling {
            GROUP_REPORTS_SOON
        } else {
            GROUP_REPORTS
        }
    }

    /// The seats with their replicas, and what the layout says of their groups.
    fn seats(&self) -> impl Iterator<Item = (&Seat, &Replica, &GroupLayout)> {
        let seats = self.cluster.seats.iter().zip(&self.cx.local.replicas).enumerate();
        seats.map(|(index, (seat, replica))| (seat, replica, self.cx.layout_of(index)))
    }

    /// The replicas of this worker that know no leader of their group, and what is kept from before groups began anew.
    pub fn recovery_sources(&self) -> Vec<control::RecoverySource> {
        let (me, now) = (self.cx.view.me(), self.cx.now);
        let recovery_sources = self.seats().flat_map(|(seat, replica, layout)| {
            let former = seat.former_recovery_source(me, replica.group(), layout);
            seat.recovery_source(me, replica, layout, now)
                .into_iter()
                .chain(former)
        });
        recovery_sources.collect()
    }

    /// Whether leaders or members have changed since this was last asked.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.cluster.is_news)
    }

    /// What an operator is to be told.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.cx.outbox.notices)
    }

    /// The link to a node came up, or broke.
    pub fn on_link(&mut self, node: NodeId, is_up: bool) {
        let now = self.cx.now;
        if is_up {
            self.cx.view.links.insert(node);
        } else {
            self.cx.view.links.remove(&node);
        }
        if let Some(peer) = self.cluster.peers.get_mut(&node) {
            peer.is_up = is_up;
            peer.is_moving = false;
            (peer.heard, peer.is_silent) = (now, false);
            if is_up {
                peer.beats.reconnected(now);
                // It may lead before it is told the next time.
                self.cluster.told_wall_at = Monotonic(0);
            }
        }
        if is_up {
            self.ask_unsent(node);
        } else {
            self.end_questions_to(node);
        }
        for index in 0..self.cluster.seats.len() {
            self.on_seat_link(index, node, is_up);
        }
    }

    /// Whether a long message is on its way on the link to a node, in either direction. What is waited for may be behind it.
    pub fn on_moving(&mut self, node: NodeId, is_moving: bool) {
        if let Some(peer) = self.cluster.peers.get_mut(&node) {
            peer.is_moving = is_moving;
        }
    }

    /// This process stood still for so long: it cannot tell who was silent meanwhile.
    fn stood_still(&mut self, span: std::time::Duration, now: Monotonic) {
        for peer in self.cluster.peers.values_mut() {
            peer.heard = now;
        }
        for index in 0..self.cluster.seats.len() {
            self.step(index, Input::StoodStill(span));
        }
    }

    /// Tells groups of nodes that have been silent for long. A process that stands still keeps its links.
    fn notice_silence(&mut self, now: Monotonic) {
        let peers = self.cluster.peers.iter_mut();
        let silent =
            peers.filter(|(_, peer)| peer.is_up && !peer.is_silent && now >= peer.heard.after(SILENT_AFTER));
        let silent = silent.map(|(&node, peer)| {
            peer.is_silent = true;
            node
        });
        for node in silent.collect::<Vec<_>>() {
            for index in 0..self.cluster.seats.len() {
                for incarnation in self.incarnations_on(index, node) {
                    self.step(index, Input::Silence(incarnation));
                }
                self.cluster.seats[index].quiet_until = now;
            }
            self.cluster.quiet_until = now;
        }
    }

    /// Learns the raw monotonic time, as it is after messages were received and before they are handed over. Promises are
    /// counted from it: the process may have stood still since the turn began, and a message that came meanwhile is no older
    /// than its arrival.
    pub fn received(&mut self, now: Monotonic) {
        self.cx.now = self.cx.now.max(now);
    }

    /// A message of another node. What was read from the links before is told by [`Gateway::received`].
    pub fn on_peer(&mut self, from: NodeId, message: PeerMessage) {
        if let Some(peer) = self.cluster.peers.get_mut(&from) {
            (peer.heard, peer.is_silent) = (self.cx.now, false);
        }
        match message {
            PeerMessage::Raft(Raft { group, message }) => self.on_raft(group, message),
            PeerMessage::Heartbeat(beat) => self.on_beat(from, beat),
            PeerMessage::HeartbeatAnswer(answer) => self.on_beat_answer(from, &answer),
            PeerMessage::Batch(batch) => self.on_peer_batch(from, batch),
            PeerMessage::Answers(response) => self.on_answers(from, &response),
            PeerMessage::TransferChunk(chunk) => self.on_peer_chunk(from, chunk),
            PeerMessage::TransferAnswer(answer) => self.on_chunk_answer(&answer),
            PeerMessage::Scrub(scrub) => self.on_scrub(from, &scrub),
            PeerMessage::Fanout(question) => self.on_question(from, &question),
            PeerMessage::FanoutAnswer(answer) => self.on_part_answer(from, &answer),
            PeerMessage::Await(waits) => self.blocking.on_peer_await(&mut self.cx, from, waits),
            PeerMessage::Filled(filled) => self.blocking.on_peer_filled(&mut self.cx, from, filled),
            PeerMessage::WallClock(wall) if self.cluster.peers.contains_key(&from) => {
                self.cluster.wall_clock.heard(from, wall, self.cx.now);
            }
            PeerMessage::Publish(publish) => {
                let kind = match publish.kind {
                    ChannelKind::Channel => Kind::Channel,
                    ChannelKind::ShardChannel => Kind::ShardChannel,
                };
                let published = Published {
                    kind,
                    channel: &publish.channel,
                    payload: &publish.payload,
                };
                self.pubsub.on_node_message(&mut self.cx, published);
            }
            // What concerns the node as a whole is not a worker's.
            _ => {}
        }
        self.route();
    }

    /// The raw monotonic time, as of this turn.
    pub fn cluster_now(&self) -> Monotonic {
        self.cx.now
    }

    fn on_raft(&mut self, group: GroupId, mut message: Message) {
        let Some(index) = self.seated(group) else {
            return;
        };
        let incarnation = self.cluster.seats[index].incarnation;
        if mutations::is(Mutation::IncarnationNotChecked) {
            message.to = incarnation.unwrap_or(message.to);
        }
        if incarnation == Some(message.to) && self.step(index, Input::Message(message)).is_some() {
            self.cluster.touch(index);
        }
    }

    fn on_beat(&mut self, from: NodeId, beat: Beat) {
        let now = self.cx.now;
        let first = self.cx.local.first;
        let Some(peer) = self.cluster.peers.get_mut(&from) else {
            return;
        };
        let replicas = &mut self.cx.local.replicas;
        let mut broken = Vec::new();
        let answer = peer.listener.on_beat(beat, |claim| {
            let index = claim.group.index().wrapping_sub(first);
            let raft = replicas.get_mut(index).and_then(Replica::raft_mut);
            let Some(raft) = raft else { return false };
            let confirmed = broken::guard(|| raft.confirm(claim, now));
            confirmed.unwrap_or_else(|words| {
                broken.push((index, words));
                false
            })
        });
        self.cx.send_to_node(from, PeerMessage::HeartbeatAnswer(answer));
        for (index, words) in broken {
            self.break_replica(index, &words);
        }
    }

    fn on_beat_answer(&mut self, from: NodeId, answer: &BeatAnswer) {
        let now = self.cx.now;
        let first = self.cx.local.first;
        let Cluster {
            peers,
            seats,
            touched,
            ..
        } = &mut self.cluster;
        let Some(peer) = peers.get_mut(&from) else {
            return;
        };
        let replicas = &mut self.cx.local.replicas;
        let mut broken = Vec::new();
        peer.beats.on_answer(answer, now, |claim, sent| {
            let index = claim.group.index().wrapping_sub(first);
            let Some(seat) = seats.get_mut(index) else {
                return;
            };
            let Some(raft) = replicas[index].raft_mut() else {
                return;
            };
            let told = broken::guard(|| match sent {
                Some(sent) => raft.acknowledged(claim, sent, now),
                None => raft.refused(claim, now),
            });
            if let Err(words) = told {
                return broken.push((index, words));
            }
            if raft.has_ready() && !std::mem::replace(&mut seat.is_touched, true) {
                touched.push(index);
            }
        });
        for (index, words) in broken {
            self.break_replica(index, &words);
        }
    }

    /// A gateway of another node has something for a group that it thinks is led here.
    fn on_peer_batch(&mut self, from: NodeId, message: peer_wire::Batch) {
        let peer_wire::Batch {
            group,
            gateway,
            batch,
        } = message;
        self.follow_settings();
        let Some(index) = self.seated(group) else {
            return;
        };
        let sender = Sender { node: from, gateway };
        if Operations::check(&batch.writes).is_err() {
            // No gateway of an agreed version sends this: it would be refused for ever.
            return self.send_back(index, sender, batch.sequence, BatchOutcome::Evicted);
        }
        self.hand_over(index, sender, batch);
    }

    /// Hands a batch to the member here.
    fn hand_over(&mut self, index: usize, sender: Sender, batch: Batch) {
        let sequence = batch.sequence;
        let effects = self.step(index, Input::Batch { sender, batch });
        self.cluster.touch(index);
        match effects {
            Some(effects) => self.carry_out_effects(index, effects),
            None => self.send_back(index, sender, sequence, BatchOutcome::NotLeader { leader: None }),
        }
    }

    /// A batch was not looked at, because there is no replica here that could.
    fn send_back(&mut self, index: usize, sender: Sender, sequence: u64, outcome: BatchOutcome) {
        let replica = &self.cx.local.replicas[index];
        let response = BatchResponse {
            group: replica.group(),
            generation: self.cx.layout_of(index).generation,
            term: self.cluster.seats[index].term(replica),
            gateway: sender.gateway,
            sequence,
            outcome,
        };
        self.respond(index, sender.node, response);
    }

    /// Tells a gateway what became of its batch.
    fn respond(&mut self, index: usize, to: NodeId, mut response: BatchResponse) {
        if to == self.cx.view.me() {
            return self.on_response(index, to, &response);
        }
        if let BatchOutcome::NotLeader { leader } = &mut response.outcome {
            let (seat, replica) = (&self.cluster.seats[index], &self.cx.local.replicas[index]);
            *leader = seat.known_leader(replica, self.cx.layout_of(index));
        }
        self.cx.send_to_node(to, PeerMessage::Answers(response));
    }

    /// A group elsewhere says what became of a batch of this worker.
    fn on_answers(&mut self, from: NodeId, response: &BatchResponse) {
        let Some(index) = self.seated(response.group) else {
            return;
        };
        // If not, it was for the boot before this one.
        if response.gateway == self.cluster.seats[index].group_client.gateway() {
            self.on_response(index, from, response);
        }
    }

    /// The group client to a group, which learns what time it is, and the threshold: it may have been set a moment ago.
    fn group_client(&mut self, index: usize) -> &mut GroupClient {
        let (now, slow) = (self.cx.now, self.cx.settings.slow_from());
        let group_client = &mut self.cluster.seats[index].group_client;
        group_client.begin(now, slow);
        group_client
    }

    /// Tells all workers whether the leader of a group can be reached.
    fn note_reach(&self, index: usize) {
        let is_cut_off = self.cluster.seats[index].group_client.is_cut_off();
        self.cx
            .shared
            .set_cut_off(self.cx.local.replicas[index].group(), is_cut_off);
    }

    fn on_response(&mut self, index: usize, from: NodeId, response: &BatchResponse) {
        let mut outputs = Vec::new();
        self.group_client(index);
        self.cluster.seats[index].on_response(from, response, &mut outputs);
        self.note_reach(index);
        // What it brought is handed out when the turn ends.
        self.cluster.touch(index);
        self.cx.outbox.outputs.extend(outputs);
    }

    /// A piece of state for the replica here.
    fn on_peer_chunk(&mut self, from: NodeId, wire: TransferChunk) {
        let Some(index) = self.seated_as(wire.group, wire.to) else {
            return;
        };
        let chunk = Chunk {
            transfer: wire.transfer,
            number: wire.number,
            point: wire.point,
            bytes: wire.bytes.into(),
        };
        let (transfer, number) = (chunk.transfer, chunk.number);
        if self.cx.local.replicas[index].member().is_none() {
            return;
        }
        let effects = self.step(
            index,
            Input::Chunk {
                from: wire.from,
                chunk,
            },
        );
        let outcome = if effects.is_some_and(|effects| effects.is_taken) {
            TransferOutcome::Held { number }
        } else {
            TransferOutcome::Broken
        };
        self.cluster.touch(index);
        let answer = TransferAnswer {
            group: wire.group,
            from: wire.to,
            to: wire.from,
            transfer,
            outcome,
        };
        self.cx.send_to_node(from, PeerMessage::TransferAnswer(answer));
    }

    fn on_chunk_answer(&mut self, answer: &TransferAnswer) {
        let Some(index) = self.seated_as(answer.group, answer.to) else {
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
        self.step(index, input);
        self.cluster.touch(index);
    }

    /// Another replica of a group says what its state is like.
    fn on_scrub(&mut self, from: NodeId, scrub: &Scrub) {
        let Some(index) = self.seated_as(scrub.group, scrub.to) else {
            return;
        };
        // Each node speaks for its own replicas.
        if !self.incarnations_on(index, from).contains(&scrub.from) {
            return;
        }
        if self.cx.layout_of(index).generation != scrub.generation || scrub.format != SCRUB_FORMAT {
            return;
        }
        let input = Input::Scrubbed {
            from: scrub.from,
            scrubbed: scrub.scrubbed,
        };
        if let Some(effects) = self.step(index, input) {
            self.carry_out_effects(index, effects);
        }
    }

    /// The index of a group's seat, if it is one of this worker's.
    fn seated(&self, group: GroupId) -> Option<usize> {
        let index = self.cx.local.index(group)?;
        (index < self.cluster.seats.len()).then_some(index)
    }

    /// The same, if this replica of the group is here.
    fn seated_as(&self, group: GroupId, incarnation: Incarnation) -> Option<usize> {
        let index = self.seated(group)?;
        (self.cluster.seats[index].incarnation == Some(incarnation)).then_some(index)
    }

    /// The replicas of a group that are on a node.
    fn incarnations_on(&self, index: usize, node: NodeId) -> Vec<Incarnation> {
        let seats = self.cx.layout_of(index).seats.iter();
        seats
            .filter(|(_, seat)| **seat == node)
            .map(|(incarnation, _)| *incarnation)
            .collect()
    }

    /// Makes a seat what the layout says of it.
    fn seat(&mut self, index: usize) {
        let layout = self.cx.view.layout.clone().expect("the caller has set it");
        let group = self.cx.local.replicas[index].group();
        if index == self.cluster.seats.len() {
            self.blocking.watches.push(Watches::default());
            self.cluster.seats.push(Seat::new(
                group,
                layout.group(group).generation,
                layout.boot,
                self.cx.worker,
                self.cx.shared.hooks.piece_sizes,
            ));
            // What clients ask for before the first tick is asked for now, not at the beginning of time.
            self.group_client(index);
        }
        let now = self.cx.now;
        let seed = self.cx.prng.next_u64();
        let Cluster { seats, kept, .. } = &mut self.cluster;
        let (seat, replica) = (&mut seats[index], &mut self.cx.local.replicas[index]);
        if let Some(at) = kept.iter().position(|kept| kept.group == group) {
            seat.go_on(
                kept.swap_remove(at),
                None,
                &layout,
                replica,
                &self.cx.turn,
                seed,
                now,
            );
            if !replica.has_log() {
                replica.state_mut().set_limits(&self.cx.turn, self.cx.limits);
            }
        }
        let had_log = replica.has_log();
        if !had_log {
            // As transactions name it that begin now.
            replica
                .state_mut()
                .begin_generation(layout.group(group).generation);
        }
        let kept_out = Seat::give_log(&layout, replica);
        seat.settle(&layout, replica, &self.cx.turn, seed, now);
        if !had_log {
            self.blocking.look_at_lines(&self.cx, index);
        }
        let mut outputs = Vec::new();
        let generation = layout.group(group).generation;
        self.group_client(index);
        self.cluster.seats[index].begin_generation(generation, &mut outputs);
        self.cx.outbox.outputs.extend(outputs);
        for request in kept_out {
            self.request(group, request);
        }
        self.cluster.touch(index);
    }

    fn on_seat_link(&mut self, index: usize, node: NodeId, is_up: bool) {
        if !is_up {
            self.cluster.seats[index].on_link_lost(node);
            for incarnation in self.incarnations_on(index, node) {
                self.step(index, Input::LinkLost(incarnation));
            }
            self.blocking.forget_watcher(&mut self.cx, index, node);
            // What its gateways coordinate is not waited for.
            self.look_after_if_led(index);
            self.end_waits_of_lost(index);
        }
        self.cluster.touch(index);
    }

    /// Time passes for a group.
    fn tick_seat(&mut self, index: usize) {
        self.step(index, Input::Tick);
        let layout = self.cx.view.layout.clone().expect("the caller looked");
        let now = self.cx.now;
        let (seat, replica) = (&mut self.cluster.seats[index], &mut self.cx.local.replicas[index]);
        let was_unsettled = seat.is_unsettled(&layout, replica);
        if was_unsettled {
            let seed = self.cx.prng.next_u64();
            let (group, kept_out) = (replica.group(), Seat::give_log(&layout, replica));
            seat.settle(&layout, replica, &self.cx.turn, seed, now);
            self.blocking.look_at_lines(&self.cx, index);
            self.wound_again(index);
            for request in kept_out {
                self.request(group, request);
            }
        }
        let Cluster { seats, peers, .. } = &mut self.cluster;
        let is_up = |node: NodeId| node == layout.me || peers.get(&node).is_some_and(|peer| peer.is_up);
        let mut outputs = Vec::new();
        let replica = &self.cx.local.replicas[index];
        let group = layout.group(replica.group());
        let seat = &mut seats[index];
        let is_moving = |node: NodeId| peers.get(&node).is_some_and(|peer| peer.is_moving);
        seat.group_client.begin(now, self.cx.settings.slow_from());
        let changed = seat.tick(group, replica, is_up, is_moving, &mut outputs);
        let without_strangers = seat.without_strangers(group, replica, now);
        let is_cut_off = seat.group_client.is_cut_off();
        self.cx.shared.set_cut_off(replica.group(), is_cut_off);
        if replica.leader().is_some() {
            if seat.fenced < Some(layout.epoch) {
                seat.fenced = Some(layout.epoch);
                let (newest, alive) = &layout.boots;
                let fence = keyspace::Fence::new(*newest, alive.iter().copied());
                self.step(index, Input::Own(&keyspace::Operation::Fence { fence }));
            }
            let limits = self.cx.limits;
            let replica = &self.cx.local.replicas[index];
            let has_own = replica.member().is_some_and(Member::has_own);
            if replica.keyspace().limits() != limits && !has_own {
                self.ask_limits(index);
            }
        } else {
            seat.fenced = None;
        }
        if let Some(input) = without_strangers {
            self.step(index, input);
        }
        let member = self.cx.local.replicas[index].member();
        if changed || member.is_some_and(|member| member.has_own() || member.raft().has_ready()) {
            self.cluster.touch(index);
        }
        self.cx.outbox.outputs.extend(outputs);
        self.look_after_if_led(index);
        self.end_waits_of_lost(index);
        let target = self.cluster.seats[index].target;
        self.blocking.tick_watches(&mut self.cx, index, target);
        self.route();
        let (seat, now) = (&mut self.cluster.seats[index], self.cx.now);
        let replica = &self.cx.local.replicas[index];
        let is_busy = was_unsettled || replica.keyspace().has_transactions();
        seat.quiet_until = if is_busy {
            now
        } else {
            seat.quiet_until(replica, !self.blocking.watches[index].is_idle(), now)
        };
    }

    /// Before a group that is alone gets its log, all transactions that have not voted everywhere are withdrawn: one may wait for
    /// one of another node, which waits for this group. The hints may be lost, and are repeated.
    fn wound_again(&mut self, index: usize) {
        let replica = &self.cx.local.replicas[index];
        if replica.awaits_log() && !mutations::is(Mutation::AloneWoundsOnce) {
            let open = replica.keyspace().open_transactions();
            let wounds = open.map(|(txn, _)| Output::Wound { txn });
            self.cx.outbox.outputs.extend(wounds);
        }
    }

    /// Has the limits of the settings set in a group that is led here, in front of whatever is carried out next. Which limits
    /// it has is no reason not to: others may be on their way.
    fn ask_limits(&mut self, index: usize) {
        let limits = self.cx.limits;
        self.ask_own(index, &keyspace::Operation::Limits { limits });
    }

    /// The same in all groups that are led here: the settings are others.
    pub(crate) fn ask_limits_of_led(&mut self) {
        for index in 0..self.cluster.seats.len() {
            if self.cx.local.replicas[index].leader().is_some() {
                self.ask_limits(index);
            }
        }
    }

    /// Nothing is popped for clients whose node is out of reach of the leader, here: an element would be gone with them.
    fn end_waits_of_lost(&mut self, index: usize) {
        if !self.cx.local.replicas[index].keyspace().has_waiters()
            || self.cx.local.replicas[index].leader().is_none()
        {
            return;
        }
        let boots = self.cx.local.replicas[index].keyspace().waiting_boots().collect();
        self.end_waits_of_those_lost(index, boots);
    }

    fn end_waits_of_those_lost(&mut self, index: usize, boots: Vec<ids::Boot>) {
        for boot in boots {
            if self.cx.is_lost(boot) {
                self.ask_own(index, &keyspace::Operation::EndWaits { boot });
            }
        }
    }

    /// The same, of a leader at the beginning of its term: before anything else is carried out, and whether or not all that
    /// came before is applied here.
    fn end_waits_before_term(&mut self, index: usize) {
        if self.cx.local.replicas[index].leader().is_none() {
            return;
        }
        let layout = self.cx.view.layout();
        let boots = layout.into_iter().flat_map(|layout| layout.nodes.keys());
        let boots = boots.copied().collect();
        self.end_waits_of_those_lost(index, boots);
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
        for index in std::mem::take(&mut self.cluster.touched) {
            self.cluster.seats[index].is_touched = false;
            self.cluster.seats[index].quiet_until = now;
            self.cluster.quiet_until = now;
            self.finish_seat(index, now);
        }
        if std::mem::take(&mut self.cluster.claims_changed) {
            self.gather_claims(now);
        }
        for (&node, peer) in self.cluster.peers.iter_mut().filter(|(_, peer)| peer.is_up) {
            let beat = peer.beats.beat(now);
            let beat = beat.map(|beat| (node, PeerMessage::Heartbeat(beat)));
            self.cx.outbox.peer_messages.extend(beat);
        }
        self.serve_waiters();
        self.pump();
    }

    fn finish_seat(&mut self, index: usize, now: Monotonic) {
        let me = self.cx.view.me();
        let group = self.cx.local.replicas[index].group();
        let sender = Sender {
            node: me,
            gateway: self.cluster.seats[index].group_client.gateway(),
        };
        self.group_client(index);
        let Cluster { seats, forwarded, .. } = &mut self.cluster;
        let seat = &mut seats[index];
        let mut here = Vec::new();
        if let Some(target) = seat.target.filter(|_| seat.group_client.has_due()) {
            seat.group_client.dispatch(|batch| {
                if target == me {
                    here.push(batch.clone());
                } else {
                    let batch = peer_wire::Batch {
                        group,
                        gateway: sender.gateway,
                        batch: batch.clone(),
                    };
                    *forwarded += 1;
                    self.cx.send_to_node(target, PeerMessage::Batch(batch));
                }
            });
        }
        here.into_iter()
            .for_each(|batch| self.hand_over(index, sender, batch));
        if self.pausing.pause.is_none()
            && let Some(writes) = self.cx.local.replicas[index].leader().map(Member::next_bytes)
        {
            let victims = self.maxmemory.victims_for_entry(&mut self.cx, index, writes);
            for (db, key) in victims {
                self.ask_own(index, &keyspace::Operation::Evict { db, key: &key });
            }
        }
        let has_work = self.cx.local.replicas[index].has_work(now);
        let effects = has_work.then(|| self.step(index, Input::Finish)).flatten();
        if let Some(until) = self.cx.local.replicas[index]
            .member()
            .and_then(Member::kept_until)
        {
            self.cluster.keep_until(index, until);
        }
        let Some(effects) = effects else {
            return self.tell(index);
        };
        self.carry_out_effects(index, effects);
        self.tell(index);
        let clock = self.cx.shared.hooks.monotonic;
        let replica = &mut self.cx.local.replicas[index];
        if replica.leader().is_some() {
            let marked_at = if mutations::is(Mutation::AgeFromBefore) {
                Monotonic(0)
            } else {
                clock()
            };
            let group = replica.group();
            let state = replica.state_mut();
            state.mark(marked_at);
            let torn = state.take_torn();
            let wounds = state.take_wounds();
            for (txn, participants) in wounds {
                self.coordinator.wound(&mut self.cx, group, txn, &participants);
            }
            for txn in torn {
                self.coordinator.note_torn(&mut self.cx, txn, &[group]);
            }
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

    /// Carries out what a member wants done.
    fn carry_out_effects(&mut self, index: usize, effects: Effects) {
        let group = self.cx.local.replicas[index].group();
        let Effects {
            messages,
            responses,
            chunks,
            status,
            members,
            claims_changed,
            was_installed,
            stopped,
            scrubbed,
            differing,
            is_undecided,
            is_unread,
            is_taken: _,
            differs: _,
        } = effects;
        self.cluster.claims_changed |= claims_changed;
        if let Some(reason) = stopped {
            self.cluster.seats[index].stopped = Some(reason.clone());
            self.cx.outbox.notices.push(format!(
                "a replica has stopped: group {}: {reason}",
                group.number()
            ));
        }
        if is_unread {
            self.cx.outbox.notices.push(format!(
                "group {}: an entry of the log cannot be read, and was left out: whoever wrote it is told nothing. This is a mistake \
                 of the program: please report it",
                group.number()
            ));
        }
        if was_installed {
            self.maxmemory.changed = Changed::Any;
            self.blocking.all_filled(&mut self.cx, index);
            self.route();
        }
        self.cluster.is_news |= status.is_some() || members.is_some();
        self.note_scrub(index, &differing, is_undecided);
        let layout = self.cx.view.layout.as_ref().expect("members have one").clone();
        let seats = &layout.group(group).seats;
        for message in messages {
            if let Some(&node) = seats.get(&message.to) {
                self.cx
                    .send_to_node(node, PeerMessage::Raft(Raft { group, message }));
            }
        }
        let from = self.cluster.seats[index].incarnation;
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
                self.cx.send_to_node(node, PeerMessage::TransferChunk(chunk));
            }
        }
        let generation = layout.group(group).generation;
        for (to, scrubbed) in scrubbed {
            if let (Some(&node), Some(from)) = (seats.get(&to), from) {
                let scrub = Scrub {
                    group,
                    generation,
                    from,
                    to,
                    format: SCRUB_FORMAT,
                    scrubbed,
                };
                self.cx.send_to_node(node, PeerMessage::Scrub(scrub));
            }
        }
        for (to, response) in responses {
            self.respond(index, to, response);
        }
        if status.is_some() {
            let mut outputs = Vec::new();
            self.cluster.seats[index].follow(
                &self.cx.local.replicas[index],
                layout.group(group),
                &mut outputs,
            );
            self.cx.outbox.outputs.extend(outputs);
            self.cluster.touch(index);
            self.end_waits_before_term(index);
            if self.cx.local.replicas[index].leader().is_some() {
                // Who led before may have been told of other settings, or of none.
                self.ask_limits(index);
            }
        }
    }

    /// An operator is told of replicas that differ, by whoever leads the group.
    fn note_scrub(&mut self, index: usize, differing: &[Incarnation], is_undecided: bool) {
        if differing.is_empty() && !is_undecided || self.cx.local.replicas[index].leader().is_none() {
            return;
        }
        let group = self.cx.local.replicas[index].group().number();
        for incarnation in differing {
            let node = self.cx.layout_of(index).seats.get(incarnation);
            let place = node.map_or_else(String::new, |node| format!(" on node {}", node.0));
            self.cx.outbox.notices.push(format!(
                "group {group}: the state of the replica{place} differs from that of most others, and it is not used any more"
            ));
        }
        if is_undecided {
            self.cx.outbox.notices.push(format!(
                "group {group}: the states of its replicas differ, and no majority of them agrees: nobody can tell which are right"
            ));
        }
        self.cluster.is_news = true;
    }

    /// The replicas that were given up because their state differed from that of most others, with their nodes: the meta group is
    /// to give these other ones.
    pub fn given_up(&self) -> Vec<control::GivenUp> {
        let given_up = self.seats().flat_map(|(seat, replica, layout)| {
            let all = seat.given_up(replica, layout);
            all.into_iter().map(|(node, incarnation)| control::GivenUp {
                group: replica.group(),
                generation: layout.generation,
                node,
                incarnation,
            })
        });
        given_up.collect()
    }

    /// What this node leads, to each node that has a part in it.
    fn gather_claims(&mut self, now: Monotonic) {
        let layout = self.cx.view.layout.clone().expect("the caller looked");
        let mut claims: BTreeMap<NodeId, Vec<Claim>> = BTreeMap::new();
        for replica in &self.cx.local.replicas {
            let seats = &layout.group(replica.group()).seats;
            let member = replica.member().into_iter();
            for claim in member.flat_map(|member| member.raft().claims()) {
                if let Some(&node) = seats.get(&claim.to) {
                    claims.entry(node).or_default().push(claim);
                }
            }
        }
        for (node, peer) in &mut self.cluster.peers {
            peer.beats.claim(claims.remove(node).unwrap_or_default(), now);
        }
    }

    /// What is to be sent to other nodes, in order.
    pub fn take_peer_messages(&mut self) -> Vec<(NodeId, PeerMessage)> {
        std::mem::take(&mut self.cx.outbox.peer_messages)
    }

    /// Whether the turn has anything for [`Gateway::finish_cluster`] to do.
    pub fn has_cluster_work(&self) -> bool {
        let is_due = |peer: &Peer| peer.is_up && peer.beats.due().is_some_and(|due| due <= self.cx.now);
        !self.cluster.touched.is_empty()
            || !self.combining.is_empty()
            || !self.cx.outbox.peer_messages.is_empty()
            || self.cluster.peers.values().any(is_due)
    }

    /// A command on keys of a replicated group.
    pub(crate) fn on_replicated(
        &mut self,
        connection: &mut Connection,
        spec: &'static Spec,
        args: Args<'_>,
        index: usize,
    ) {
        let parse = spec.parse.expect("a command on keys has a parser");
        let command = match parse(args) {
            Ok(command) => command,
            Err(error) => return error.write(&mut connection.writer()),
        };
        if self.may_read_here(connection, spec, args, index) && self.read_leased(connection, &command, index)
        {
            return;
        }
        if self.may_read_stale(&connection.session, spec, index) {
            let db = connection.session.db;
            let state = self.cx.local.replicas[index].state_mut();
            return state.read_leased(&self.cx.turn, db, &command, &mut connection.writer());
        }
        if self.cluster.seats[index].group_client.is_cut_off() {
            return connection.writer().error(replica::UNREACHABLE);
        }
        let is_free = crate::gateway::is_free(connection, spec, args);
        crate::gateway::note_sent(connection, spec, args);
        let reply_to = self.cx.reserve_behind(connection, spec, args);
        // It is measured when it is answered.
        self.cx.timing.is_ours = false;
        let frame = self.cx.frame.clone();
        let asked = connection.session.asked(spec, args, is_free, frame.as_ref());
        let began = Some(self.cx.now);
        let asked = Asked { began, ..asked };
        self.group_client(index).command(reply_to, asked);
        self.cluster.touch(index);
    }

    /// Whether a command may be answered from what a replica here holds, although another node leads and may have gone on:
    /// the client has asked for that with `READONLY`. A replica that is being filled is asked nothing.
    fn may_read_stale(&self, session: &Session, spec: &'static Spec, index: usize) -> bool {
        let seat = &self.cluster.seats[index];
        let votes = |member: &Member| seat.incarnation.is_some_and(|me| member.members().is_voter(me));
        session.reads_at_replicas
            && session.endpoint == crate::endpoint::Endpoint::Cluster
            && spec.flags.contains(command::Flags::READONLY)
            && self.cx.local.replicas[index]
                .member()
                .is_some_and(|member| !member.leads() && votes(member))
    }

    /// Whether a command can be answered from the state here: this node leads under a lease, and the connection has nothing
    /// under way on the same keys.
    fn may_read_here(
        &self,
        connection: &Connection,
        spec: &'static Spec,
        args: Args<'_>,
        index: usize,
    ) -> bool {
        let now = self.cx.now;
        let is_led = || {
            let member = self.cx.local.replicas[index].member();
            member.is_some_and(|member| member.may_read(now))
        };
        let is_settled = || crate::gateway::is_untouched(connection, spec, args);
        // What a transaction holds is waited for at the member.
        let is_free = || {
            self.cx.local.replicas[index]
                .state()
                .admits(|| locks_of([(spec, args)], |_| true))
        };
        is_settled() && is_led() && is_free()
    }

    /// Answers a command under the lease; `false` if the answer would be that a key has expired by the clock here alone. It is asked
    /// for as by any other node then, and comes behind an entry that says how late it is.
    fn read_leased(&mut self, connection: &mut Connection, command: &Command<'_>, index: usize) -> bool {
        let db = connection.session.db;
        let state = self.cx.local.replicas[index].state_mut();
        let (before, counts) = (
            connection.pipeline.target().len(),
            state.mark_reads(&self.cx.turn, false),
        );
        state.read_leased(&self.cx.turn, db, command, &mut connection.writer());
        let is_ahead = state.is_ahead(counts);
        // What was read to be expired is to be deleted.
        for (db, key) in self.cx.local.replicas[index].state_mut().take_met_expired() {
            self.ask_own(index, &keyspace::Operation::Expire { db, key: &key });
        }
        if is_ahead {
            connection.pipeline.take_back(before);
            return false;
        }
        self.cluster.reads_here += 1;
        if !self.cluster.leased.contains(&index) {
            self.cluster.leased.push(index);
        }
        true
    }

    /// Whether what was just read under leases may be told: the process may have stood still since.
    #[inline]
    pub(crate) fn may_tell(&mut self) -> bool {
        if self.cluster.leased.is_empty() {
            return true;
        }
        let now = (self.cx.shared.hooks.monotonic)();
        let replicas = &self.cx.local.replicas;
        let mut leased = std::mem::take(&mut self.cluster.leased);
        let may = leased.drain(..).all(|index| {
            replicas[index]
                .member()
                .is_some_and(|member| member.still_leads(now))
        });
        self.cluster.leased = leased;
        may
    }

    /// A command of another worker's connection, on a replicated group.
    pub(crate) fn ask_for_other(&mut self, reply_to: ReplyTo, asked: Asked<'_>, index: usize) {
        let parse = asked.spec.parse.expect("only commands on keys are forwarded");
        let mut outputs = Vec::new();
        if let Err(error) = parse(asked.args) {
            let mut replies = replica::Replies::default();
            replies.push(asked.protocol, |out| error.write(out));
            outputs.push(Output::Answered {
                reply_to,
                replies: Some(replies),
            });
        } else if self.cluster.seats[index].group_client.is_cut_off() {
            self.cluster.seats[index]
                .group_client
                .refuse(reply_to, &mut outputs);
        } else {
            let began = Some(self.cx.now);
            self.group_client(index)
                .command(reply_to, Asked { began, ..asked });
            self.cluster.touch(index);
        }
        self.cx.outbox.outputs.extend(outputs);
    }

    /// A request for a replicated group.
    pub(crate) fn ask_leader(&mut self, index: usize, request: Request, outputs: &mut Vec<Output>) {
        let group = self.cx.local.replicas[index].group();
        let group_client = self.group_client(index);
        match request {
            Request::Execute { reply_to, .. }
            | Request::Wait { reply_to, .. }
            | Request::Block { reply_to, .. }
            | Request::Once { reply_to, .. }
                if group_client.is_cut_off() =>
            {
                group_client.refuse(reply_to, outputs);
            }
            Request::Watch { reply_to, .. } if group_client.is_cut_off() => {
                let error = replica::UNREACHABLE;
                outputs.push(Output::FailedWatch { reply_to, error });
            }
            Request::Execute { reply_to, operation } => {
                group_client.command(reply_to, Asked::of(&operation));
            }
            Request::Wait { reply_to, operation } => group_client.wait(reply_to, &operation),
            Request::EndWait { reply_to } => group_client.end_wait(reply_to),
            Request::Part { txn, .. } if group_client.is_cut_off() => {
                let error = replica::UNREACHABLE;
                outputs.push(Output::FailedPart { txn, group, error });
            }
            Request::Part { txn, operation } => group_client.part(txn, Asked::of(&operation)),
            Request::Block {
                reply_to,
                conditions,
                operations,
            } => group_client.block(reply_to, &conditions, &operations),
            Request::Once {
                reply_to,
                request,
                operations,
            } => group_client.once(reply_to, request, &operations),
            Request::Watch { reply_to, keys } => group_client.versions(reply_to, &keys),
            Request::Prepare(part) | Request::Lock(part) => {
                let txn = part.txn;
                if let Err(NoCheckOut) = group_client.vote(*part) {
                    outputs.push(without_check_out(txn, group));
                }
            }
            Request::Decide {
                txn,
                is_committed: true,
                is_awaited: false,
                worker,
                is_final: _,
            } => group_client.commit_lazily(txn, worker),
            Request::Decide {
                txn,
                is_committed,
                is_awaited: _,
                worker,
                is_final: _,
            } => group_client.decide(txn, is_committed, worker),
            Request::QueryTxn {
                txn,
                participants,
                worker,
            } => group_client.query_txn(txn, participants, worker),
            Request::Wound { txn } => group_client.wound(txn),
            Request::Forget { txn, low } => group_client.forget(txn, low),
            Request::SnapshotRead {
                txn,
                conditions,
                operations,
            } => group_client.snapshot_read(txn, &conditions, &operations),
            Request::OptimisticRead { txn, keys } => group_client.optimistic_read(txn, &keys),
            // The group held its keys for it. If it has let go of them since, there is nothing to check out any more.
            Request::CheckOut { txn, .. } => outputs.push(without_check_out(txn, group)),
            // A group gets no log while anything of it is checked out: `Replica::give_log` insists on it.
            Request::CheckIn { txn, .. } => {
                let number = group.number();
                self.cx.outbox.notices.push(format!(
                    "group {number} has a log, and does not take back what transaction {txn} brings it"
                ));
            }
        }
        self.cluster.touch(index);
    }

    /// Asks for expired keys of a replicated group to be deleted, if it is led here. Whether there are more.
    pub(crate) fn expire_replicated(&mut self, index: usize, objects_max: usize) -> bool {
        if self.cx.local.replicas[index].leader().is_none_or(Member::has_own) {
            return false;
        }
        let mut found = Vec::new();
        let is_complete =
            self.cx.local.replicas[index]
                .state_mut()
                .find_expired(&self.cx.turn, objects_max, &mut found);
        for (db, key) in &found {
            self.ask_own(index, &keyspace::Operation::Expire { db: *db, key });
        }
        !is_complete
    }

    /// The replicated groups that are led here and have nothing of the leader's own under way.
    pub(crate) fn led_and_free(&self) -> Vec<usize> {
        let is_free = |replica: &Replica| replica.leader().is_some_and(|leader| !leader.has_own());
        let replicas = self.cx.local.replicas.iter().enumerate();
        replicas
            .filter(|(_, replica)| is_free(replica))
            .map(|(index, _)| index)
            .collect()
    }

    /// Asks for an operation of the leader's own.
    pub(crate) fn ask_own(&mut self, index: usize, operation: &keyspace::Operation<'_>) {
        if self.step(index, Input::Own(operation)).is_some() {
            self.cluster.touch(index);
        }
    }
}

/// What a group with a log answers to whoever wants to check its values out: it is to be carried out in another way.
fn without_check_out(txn: TxnId, group: GroupId) -> Output {
    Output::Voted {
        txn,
        group,
        vote: Vote::Refused(Refusal::Busy),
        is_logged: true,
        replies: replica::Replies::default(),
    }
}

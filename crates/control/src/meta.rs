//! One node's part in the meta group: every node has one, whether it is a member of the group or not.
//!
//! ```text
//!                 a start: Create, Join, Boot                            Order, for a group that is led here
//!   owner --> proposals, group reports --> pending requests --Request--> who leads: log, State, reconciler --> Map, Settings
//!               |                                                         |
//!               '-- the map says: this node is to be a member --------------> vacant seat --> filled --> votes, may lead
//! ```
//!
//! What a node learns from the map, besides where everything is: that it is to take a seat in the group, that it has none
//! any more, and that it is dead or removed.
//!
//! Nothing that clients wait for passes here. If the group has no majority, everything stays as it is, and is said to.
//!
//! Absent: disks (`persist` says what is to be written), links, and the groups of keys, whose leaders carry out orders.

mod book;
mod contact;
mod effects;
mod leader_state;
mod message;
mod pending_requests;
mod proposal;
mod refounding;
mod seat;

pub use contact::Contact;
pub use effects::{Failure, MetaEffects, Notice, Persist, Record, Started};
pub use message::{Answer, Instruction, MetaMessage, NodeHeartbeat};
pub use refounding::Refounded;
pub use seat::Restored;

use crate::command::{ClusterId, Command, Factor, Outcome, Refusal, Report};
use crate::given_up::GivenUp;
use crate::group::{GroupRef, Member, Role};
use crate::map::{RoutingMap, Standing};
use crate::node::{Announcement, NODES_MAX, Node};
use crate::observations::GroupReport;
use crate::reconciler::{Pace, steps};
use crate::settings::Setting;
use crate::state::{FOUNDER, State};
use crate::step::{Order, Step};
use crate::survivor::Survivor;
use consensus::{
    Beats, HardState, LOOK, Listener, Looks, Members, Message, ReadPermit, SnapshotPoint, Term, Times,
};
use ids::{Boot, Epoch, Groups, Incarnation, Monotonic, NodeId, Prng, SemanticsVersion, Token};
use leader_state::{LeaderState, Recipient};
use pending_requests::{Client, PendingRequest, PendingRequests};
use proposal::Proposal;
use seat::{Seat, SeatEffects};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How often a node says that it lives.
const NODE_HEARTBEAT: Duration = Duration::from_secs(1);

/// How soon it does again, if its groups have changed or nobody answered.
const NODE_HEARTBEAT_SOON: Duration = Duration::from_millis(100);

/// After so long without a word of a leader it is said that there is none.
const LEADERLESS_AFTER: Duration = Duration::from_secs(5);

/// Replicas of which it is remembered where they spoke from; above, all are forgotten, and heard again.
const SITES_MAX: usize = 64;

/// Nodes whose heartbeats' lists are remembered; above, all are forgotten, and told again.
const LISTENERS_MAX: usize = 32;

/// A member that lacks no more entries than this is caught up.
const LAG_MAX: u64 = 64;

/// What a node is told when it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetaConfig {
    /// Which node it is; none before it has joined.
    pub node: Option<NodeId>,
    /// What it says of itself.
    pub announcement: Announcement,
    /// The name of this start, drawn at random.
    pub token: Token,
    /// Of the meta group; the same on all nodes.
    pub times: Times,
    /// How much may be under way at a time.
    pub pace: Pace,
    /// Of the random part of election time-outs.
    pub seed: u64,
}

/// See the file's header.
pub struct Meta {
    config: MetaConfig,
    node: Option<NodeId>,
    boot: Option<Boot>,
    prng: Prng,

    seat: Option<Seat>,
    /// The epoch as of which it was taken.
    seated: Epoch,
    /// Counts writes.
    write: u64,
    leader_state: Option<LeaderState>,
    beats: BTreeMap<NodeId, Beats>,
    listeners: BTreeMap<NodeId, Listener>,
    /// Where replicas spoke from that neither the state nor the map names.
    sites: BTreeMap<Incarnation, NodeId>,

    pending_requests: PendingRequests,
    proposals: u64,
    /// Who leads, as far as is known.
    leader: Option<NodeId>,
    has_introducer: bool,
    /// Nobody may join by way of this node.
    is_closed: bool,
    /// Nodes that there is a link to, or was when last heard. There are no more than nodes.
    linked: BTreeSet<NodeId>,
    peers: Vec<NodeId>,
    turn: usize,

    looks: Looks,
    group_reports: BTreeMap<GroupRef, GroupReport>,
    /// Replicas here of groups that nobody leads, and all that whoever leads the meta group last told of.
    own_survivors: Vec<Survivor>,
    told_survivors: Vec<Survivor>,
    /// Replicas that were given up, here or as leaders here say.
    given_up: Vec<GivenUp>,
    node_heartbeat_sent: Option<Monotonic>,
    /// Node heartbeats that nobody answered.
    unheard: u32,
    is_node_heartbeat_due: bool,

    map: Option<Arc<RoutingMap>>,
    settings: Arc<BTreeMap<String, Setting>>,
    settings_version: u64,
    /// When a leader was heard, or none was begun to be missed.
    heard: Monotonic,
    is_leaderless: bool,
    /// The last that was said of leaders, and of this node itself.
    told_leader: Option<Notice>,
    told_self: Option<Notice>,
    /// The epoch of the first map that named this start. A later one that does not is of a meta group that has begun anew
    /// without knowing of it: then the start is dead.
    listed: Option<Epoch>,

    effects: MetaEffects,
}

impl Meta {
    fn new(config: MetaConfig, now: Monotonic) -> Meta {
        Meta {
            node: config.node,
            boot: None,
            prng: Prng::new(config.seed),
            seat: None,
            seated: Epoch(0),
            write: 0,
            leader_state: None,
            beats: BTreeMap::new(),
            listeners: BTreeMap::new(),
            sites: BTreeMap::new(),
            pending_requests: PendingRequests::new(config.token),
            proposals: 0,
            leader: None,
            has_introducer: false,
            is_closed: false,
            linked: BTreeSet::new(),
            peers: Vec::new(),
            turn: 0,
            looks: Looks::default(),
            group_reports: BTreeMap::new(),
            own_survivors: Vec::new(),
            told_survivors: Vec::new(),
            given_up: Vec::new(),
            node_heartbeat_sent: None,
            unheard: 0,
            is_node_heartbeat_due: false,
            map: None,
            settings: Arc::new(BTreeMap::new()),
            settings_version: 0,
            heard: now,
            is_leaderless: false,
            told_leader: None,
            told_self: None,
            listed: None,
            effects: MetaEffects::default(),
            config,
        }
    }

    /// The first node of a new cluster. A log that is on its disk is dropped.
    pub fn create(
        config: MetaConfig,
        cluster: ClusterId,
        groups: Groups,
        factor: Factor,
        semantics: SemanticsVersion,
        now: Monotonic,
    ) -> Meta {
        let mut meta = Meta::new(config, now);
        let seed = meta.prng.next_u64();
        meta.seat = Some(Seat::found(
            FOUNDER,
            meta.config.times,
            seed,
            now,
            &mut meta.write,
        ));
        meta.pending_requests.start(Command::Create {
            cluster,
            token: meta.config.token,
            groups,
            factor,
            semantics,
            announcement: meta.config.announcement.clone(),
        });
        meta.work(now);
        meta
    }

    /// A node that knows who it is, and whom it knew. `restored` is what its log of the meta group holds, if there is one;
    /// `kept` are the replicas of keys whose memory it still has, and `left_by` says whose that is: see [`Command::Boot`].
    ///
    /// # Panics
    /// If it does not know who it is.
    pub fn restore(
        config: MetaConfig,
        restored: Option<Restored>,
        peers: Vec<NodeId>,
        left_by: Vec<Token>,
        mut kept: Vec<(GroupRef, Incarnation)>,
        now: Monotonic,
    ) -> Meta {
        let node = config.node.expect("who goes on was given an id before");
        let mut meta = Meta::new(config, now);
        meta.peers = peers;
        meta.peers.truncate(NODES_MAX);
        let seed = meta.prng.next_u64();
        if let Some(restored) = restored {
            match Seat::restore(restored, meta.config.times, seed, now) {
                Some((me, seat)) => {
                    meta.seated = seat.book().map_or(Epoch(0), |book| book.state.epoch());
                    meta.seat = Some(seat);
                    kept.push((GroupRef::Meta, me));
                }
                None => meta.effects.notices.push(Notice::LogRefused),
            }
        }
        meta.pending_requests.start(Command::Boot {
            node,
            token: meta.config.token,
            announcement: meta.config.announcement.clone(),
            left_by,
            kept,
        });
        // Where everybody was: an older map than this start, good for finding the others.
        if let Some(map) = meta.read_book() {
            meta.adopt_map(map, now);
        }
        meta.work(now);
        meta
    }

    /// A node that joins, by way of [`Contact::Introducer`].
    pub fn join(config: MetaConfig, now: Monotonic) -> Meta {
        let mut meta = Meta::new(config, now);
        meta.has_introducer = true;
        meta.pending_requests.start(Command::Join {
            token: meta.config.token,
            announcement: meta.config.announcement.clone(),
        });
        meta.work(now);
        meta
    }

    // ---- what is known

    /// The state, on members of the meta group; it may lag.
    pub fn state(&self) -> Option<&State> {
        Some(&self.seat.as_ref()?.book()?.state)
    }

    /// Whether this node leads the meta group, as far as it knows.
    pub fn leads(&self) -> bool {
        self.leader_state.is_some()
    }

    /// Whether it is a member of the meta group, or is to be.
    pub fn has_seat(&self) -> bool {
        self.seat.is_some()
    }

    /// The replica of the meta group here, once it has the state, and the members in force as it knows them, for checkers.
    pub fn replica(&self) -> Option<(Incarnation, &Members)> {
        let seat = self.seat.as_ref()?;
        seat.book()?;
        Some((seat.raft.me(), seat.raft.members()))
    }

    /// Whether the replica of the meta group here may hear that its members change, for checkers.
    pub fn has_change_ahead(&self) -> bool {
        self.seat
            .as_ref()
            .is_some_and(|seat| seat.raft.has_change_ahead())
    }

    /// What the replica of the meta group here may not forget once a turn is over, for checkers.
    pub fn promises(&self) -> Option<(Incarnation, HardState)> {
        let seat = self.seat.as_ref().filter(|seat| seat.is_on_disk())?;
        Some((seat.raft.me(), seat.raft.hard_state()))
    }

    /// Its id, once it has one.
    pub fn node(&self) -> Option<NodeId> {
        self.node
    }

    /// The newest table that it has.
    pub fn map(&self) -> Option<&Arc<RoutingMap>> {
        self.map.as_ref()
    }

    /// What the leader sees of the cluster, for whoever looks; none if this node does not lead.
    pub fn observations(&mut self, now: Monotonic) -> Option<crate::observations::Observations> {
        let node = self.node?;
        let own = self.own_group_report(node);
        let state = &self.seat.as_ref()?.book()?.state;
        let leader_state = self.leader_state.as_mut()?;
        let mut observations = leader_state.observations(node, &self.linked, state, &self.config.pace, now);
        observations.groups.extend(own.map(|own| (GroupRef::Meta, own)));
        observations.survivors.extend(self.own_survivors.iter().cloned());
        observations.given_up.extend(&self.given_up);
        Some(observations)
    }

    fn me(&self) -> Option<Incarnation> {
        self.seat.as_ref().map(|seat| seat.raft.me())
    }

    fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.epoch)
    }

    /// Where a member of the group is.
    fn node_of(&self, member: Incarnation) -> Option<NodeId> {
        if Some(member) == self.me() {
            return self.node;
        }
        let group = self.state().and_then(|state| state.groups().get(&GroupRef::Meta));
        if let Some(group) = group {
            let members = group.members.iter().map(|known| (known.incarnation, known.node));
            let expected = group.expected.iter().map(|known| (known.incarnation, known.node));
            if let Some((_, node)) = members.chain(expected).find(|(known, _)| *known == member) {
                return Some(node);
            }
        }
        let stops = self.map.iter().flat_map(|map| &map.meta.replicas);
        let stop = stops
            .map(|stop| (stop.incarnation, stop.node))
            .find(|(known, _)| *known == member);
        stop.map(|(_, node)| node)
            .or_else(|| self.sites.get(&member).copied())
    }

    // ---- inputs

    /// Time has passed.
    pub fn tick(&mut self, now: Monotonic) {
        let stood_still = self.looks.look(now);
        if let Some(seat) = &mut self.seat {
            if let Some(span) = stood_still {
                seat.raft.stood_still(span, now);
            }
            seat.raft.tick(now);
        }
        self.work(now);
    }

    /// When `tick` has something to do.
    pub fn next_timer(&self) -> Option<Monotonic> {
        let seat = self.seat.as_ref();
        let beats = self.beats.values().filter_map(Beats::due).min();
        // Before it knows who it is, it looks at nothing.
        let look = self
            .leader_state
            .as_ref()
            .zip(seat)
            .filter(|_| self.node.is_some());
        let look = look.and_then(|(leader_state, seat)| leader_state.next_timer(seat.applied()));
        let leaderless = (!self.is_leaderless).then(|| self.heard.after(LEADERLESS_AFTER));
        let timers = [
            seat.and_then(|seat| seat.raft.next_timer()),
            // A standstill is noticed by looking.
            seat.map(|_| self.looks.after(LOOK)),
            beats,
            look,
            leaderless,
            Some(self.node_heartbeat_at()),
            self.pending_requests.next_timer(self.boot.is_some()),
        ];
        timers.into_iter().flatten().min()
    }

    /// Everything up to this write is on disk.
    pub fn on_persisted(&mut self, number: u64, now: Monotonic) {
        if let Some(seat) = &mut self.seat {
            seat.on_persisted(number, now);
        }
        self.work(now);
    }

    /// A link is there, or is not any more.
    pub fn on_link(&mut self, to: Contact, is_up: bool, now: Monotonic) {
        if let Contact::Node(node) = to {
            if is_up {
                self.linked.insert(node);
                if let Some(beats) = self.beats.get_mut(&node) {
                    beats.reconnected(now);
                }
                if let Some(leader_state) = &mut self.leader_state {
                    leader_state.forget_told(node);
                }
            } else {
                self.linked.remove(&node);
                let leader = self.seat.as_ref().and_then(|seat| seat.raft.status().leader);
                if leader.and_then(|leader| self.node_of(leader)) == Some(node)
                    && let Some(seat) = &mut self.seat
                {
                    seat.raft.leader_link_lost(now);
                }
            }
        }
        if !is_up {
            self.pending_requests.newcomer_left(to);
        }
        if is_up && !matches!(to, Contact::Newcomer(_)) {
            self.pending_requests.hurry(now);
            self.is_node_heartbeat_due = true;
        }
        self.work(now);
    }

    /// Something is to be changed: `CONFIG SET`, an operator's wish. Its outcome comes under the number that is answered here.
    pub fn propose(&mut self, command: Command) -> u64 {
        self.proposals += 1;
        let id = self.proposals;
        if !self.pending_requests.own(id, command) {
            self.effects.outcomes.push((id, Err(Failure::NotDone)));
        }
        id
    }

    /// Whether nodes may join by way of this one: not where clients need a password and nodes need nothing.
    pub fn close_to_newcomers(&mut self, is_closed: bool) {
        self.is_closed = is_closed;
    }

    /// What leaders here say of their groups, in place of what they said before.
    pub fn on_group_reports(&mut self, group_reports: Vec<GroupReport>, now: Monotonic) {
        let Some(count) = self.map.as_ref().map(|map| map.groups.len()) else {
            return;
        };
        for group_report in group_reports {
            let name = group_report.report.group;
            let is_group = matches!(name, GroupRef::Data(group) if group.index() < count);
            if is_group && self.group_reports.get(&name) != Some(&group_report) {
                self.group_reports.insert(name, group_report);
                self.is_node_heartbeat_due = true;
            }
        }
        self.work(now);
    }

    /// These groups are not led here any more.
    pub fn on_lead_lost(&mut self, groups: &[GroupRef]) {
        for group in groups {
            self.group_reports.remove(group);
        }
    }

    /// The replicas here of groups that nobody leads, in place of those of before.
    pub fn on_survivors(&mut self, survivors: Vec<Survivor>) {
        self.own_survivors = survivors;
    }

    /// The replicas that were given up here, or that leaders here say are to be, in place of those of before.
    pub fn on_given_up(&mut self, given_up: Vec<GivenUp>) {
        if self.given_up != given_up {
            self.given_up = given_up;
            self.is_node_heartbeat_due = true;
            if let Some(leader_state) = &mut self.leader_state {
                leader_state.on_news();
            }
        }
    }

    /// What is left of groups that nobody leads, as whoever leads the meta group last told; what is here, if there is nobody.
    pub fn survivors(&self, now: Monotonic) -> Vec<Survivor> {
        let mut survivors = match &self.leader_state {
            Some(leader_state) => leader_state.survivors(now),
            None if self.is_leaderless => Vec::new(),
            None => self.told_survivors.clone(),
        };
        let is_told = |own: &&Survivor| !survivors.iter().any(|told| told.incarnation == own.incarnation);
        let untold: Vec<Survivor> = self.own_survivors.iter().filter(is_told).cloned().collect();
        survivors.extend(untold);
        survivors
    }

    /// Whether nothing was heard of a leader of the meta group for some time.
    pub fn is_leaderless(&self) -> bool {
        self.is_leaderless
    }

    /// Everything that is to be done.
    pub fn take_effects(&mut self, now: Monotonic) -> MetaEffects {
        self.work(now);
        std::mem::take(&mut self.effects)
    }

    /// A message has come. Total.
    pub fn on_message(&mut self, from: Contact, message: MetaMessage, now: Monotonic) {
        match message {
            MetaMessage::Raft(message) => self.on_raft(from, message, now),
            MetaMessage::Beat(beat) => self.on_beat(from, beat, now),
            MetaMessage::BeatAnswer(answer) => self.on_beat_answer(from, &answer, now),
            MetaMessage::Request { id, proposal } => self.on_request(from, id, proposal, now),
            MetaMessage::Answer { id, answer } => self.on_answer(from, id, answer, now),
            MetaMessage::NodeHeartbeat(node_heartbeat) => self.on_node_heartbeat(from, &node_heartbeat, now),
            MetaMessage::NodeHeartbeatReply {
                leader,
                leads,
                survivors,
            } => self.on_node_heartbeat_reply(from, leader, leads, survivors, now),
            MetaMessage::Map(map) => {
                self.adopt_map(map, now);
            }
            MetaMessage::Settings { version, settings } => self.adopt_settings(version, settings),
            MetaMessage::Order(instruction) => self.on_order(instruction),
            MetaMessage::State {
                from: sender,
                to,
                point,
                state,
            } => self.on_state(from, (sender, to), &point, &state),
            MetaMessage::StateHeld {
                from: sender,
                to,
                index,
                term,
            } => self.on_state_held(sender, to, (index, term), now),
        }
        self.work(now);
    }

    // ---- messages

    fn on_raft(&mut self, from: Contact, message: Message, now: Monotonic) {
        let Contact::Node(node) = from else { return };
        self.heard_from(message.from, node);
        if let Some(seat) = &mut self.seat {
            seat.raft.step(message, now);
        }
    }

    fn heard_from(&mut self, member: Incarnation, node: NodeId) {
        if self.sites.len() >= SITES_MAX && !self.sites.contains_key(&member) {
            self.sites.clear();
        }
        self.sites.insert(member, node);
    }

    fn on_beat(&mut self, from: Contact, beat: consensus::Beat, now: Monotonic) {
        let Contact::Node(node) = from else { return };
        if self.listeners.len() >= LISTENERS_MAX && !self.listeners.contains_key(&node) {
            self.listeners.clear();
        }
        let seat = &mut self.seat;
        let listener = self.listeners.entry(node).or_default();
        let answer = listener.on_beat(beat, |claim| {
            seat.as_mut().is_some_and(|seat| seat.raft.confirm(claim, now))
        });
        self.send(from, MetaMessage::BeatAnswer(answer));
    }

    fn on_beat_answer(&mut self, from: Contact, answer: &consensus::BeatAnswer, now: Monotonic) {
        let Contact::Node(node) = from else { return };
        let (Some(beats), Some(seat)) = (self.beats.get_mut(&node), &mut self.seat) else {
            return;
        };
        beats.on_answer(answer, now, |claim, sent| match sent {
            Some(sent) => seat.raft.acknowledged(claim, sent, now),
            None => seat.raft.refused(claim, now),
        });
    }

    fn on_request(&mut self, from: Contact, id: u64, bytes: Vec<u8>, now: Monotonic) {
        let Ok(proposal) = Proposal::decode(&bytes) else {
            let refusal = Refusal::Malformed;
            return self.send(
                from,
                MetaMessage::Answer {
                    id,
                    answer: Answer::Refused { refusal },
                },
            );
        };
        if let Contact::Node(_) = from {
            if self.leads() {
                self.submit(Recipient::There(from), id, bytes, now);
            } else {
                let leader = self.leader;
                let answer = Answer::Elsewhere { leader };
                self.send(from, MetaMessage::Answer { id, answer });
            }
            return;
        }
        // Who is no member may become one, and nothing else.
        if proposal.author.is_some() || !matches!(proposal.command, Command::Join { .. }) {
            let refusal = Refusal::Malformed;
            let answer = Answer::Refused { refusal };
            return self.send(from, MetaMessage::Answer { id, answer });
        }
        if self.is_closed {
            let refusal = Refusal::NoSecret;
            let answer = Answer::Refused { refusal };
            return self.send(from, MetaMessage::Answer { id, answer });
        }
        if self.leads() {
            self.submit(Recipient::There(from), id, bytes, now);
        } else {
            self.pending_requests.newcomer(from, id, proposal.command, bytes);
            self.work(now);
        }
    }

    /// Why a command is refused before it is tried: what a node that joins announces would have it, or others, not be reached; or a
    /// group is to begin anew that has a majority in a configuration nobody has reported.
    fn unwelcome(&self, command: &Command, now: Monotonic) -> Option<Refusal> {
        if self.has_unreported_majority(command, now) {
            return Some(Refusal::NotNeeded);
        }
        let Command::Join { token, announcement } = command else {
            return None;
        };
        let others = self.state()?.nodes().iter();
        let mut others = others.filter(|(_, node)| node.join != *token && !node.is_fenced);
        let within = self.config.pace.away_after;
        let is_there = |node: NodeId| {
            let is_heard = |leader_state: &LeaderState| leader_state.is_heard(node, within, now);
            let is_linked = self.linked.contains(&node) && self.leader_state.as_ref().is_some_and(is_heard);
            self.node == Some(node) || is_linked
        };
        others.find_map(|(&id, node)| {
            let other = &node.announcement;
            if other.peer == announcement.peer {
                return is_there(id).then_some(Refusal::Taken);
            }
            (other.is_loopback() != announcement.is_loopback()).then_some(Refusal::Loopback)
        })
    }

    /// Whether too little is known to have a group begin anew, as an operator wants: somebody may lead it in a configuration that
    /// was not reported yet, and would be passed over with all that it has acknowledged. Every node is to have been heard, or
    /// missed, since this one leads, and none is to lead the group.
    fn is_premature(&self, command: &Command, now: Monotonic) -> bool {
        let (Command::Recover { group: name, .. }, Some(state)) = (command, self.state()) else {
            return false;
        };
        let (Some(group), Some(leader_state)) = (state.groups().get(name), self.leader_state.as_ref()) else {
            return false;
        };
        if group.has_majority() {
            // It is refused.
            return false;
        }
        let is_unclear = |(id, node): (&NodeId, &Node)| {
            let is_there =
                self.linked.contains(id) && leader_state.is_heard(*id, self.config.pace.away_after, now);
            let is_missed = leader_state.is_missed(*id, self.config.pace.away_after, now);
            Some(*id) != self.node && !node.is_fenced && !is_there && !is_missed
        };
        let own = self.group_reports.get(name);
        state.nodes().iter().any(is_unclear)
            || own.is_some_and(|own| own.report.generation >= group.generation)
            || leader_state.is_led(*name, group.generation, now)
    }

    /// Whether a group that is to begin anew has a majority in a configuration that one of its replicas has applied, and nobody
    /// reported.
    fn has_unreported_majority(&self, command: &Command, now: Monotonic) -> bool {
        let (Command::Recover { group: name, .. }, Some(state)) = (command, self.state()) else {
            return false;
        };
        let (Some(group), Some(leader_state)) = (state.groups().get(name), self.leader_state.as_ref()) else {
            return false;
        };
        let told = leader_state.survivors(now);
        let mut survivors = told.iter().chain(&self.own_survivors);
        survivors.any(|one| {
            let is_its = GroupRef::Data(one.group) == *name && one.generation == group.generation;
            let latest = one
                .unreported
                .as_ref()
                .filter(|latest| latest.index > group.index);
            is_its && latest.is_some_and(|latest| group.has_majority_in(latest))
        })
    }

    /// Appends a request to the log. What is not appended will be asked again.
    fn submit(&mut self, recipient: Recipient, id: u64, proposal: Vec<u8>, now: Monotonic) {
        let Ok(command) = Proposal::decode(&proposal).map(|proposal| proposal.command) else {
            return;
        };
        if self.is_premature(&command, now) {
            // It is asked for again.
            return;
        }
        if let Some(refusal) = self.unwelcome(&command, now) {
            let answer = Answer::Refused { refusal };
            return match recipient {
                Recipient::Here => self.on_own_answer(id, answer, now),
                Recipient::There(to) => self.send(to, MetaMessage::Answer { id, answer }),
            };
        }
        let (Some(leader_state), Some(seat)) = (&mut self.leader_state, &mut self.seat) else {
            return;
        };
        if leader_state.is_waiting(&proposal, recipient, id) || !leader_state.has_room() {
            return;
        }
        if let Some((index, term)) = seat.propose(&proposal) {
            leader_state.wait(index, term, recipient, id, proposal);
        }
    }

    fn on_answer(&mut self, from: Contact, id: u64, answer: Answer, now: Monotonic) {
        if let Answer::Elsewhere { leader } = answer {
            self.on_hint(from, leader, now);
        }
        if let Some(pending_request) = self.pending_requests.on_answer(id, &answer, now) {
            self.finish(pending_request, answer, now);
        }
    }

    /// Somebody does not lead, and says who may.
    fn on_hint(&mut self, from: Contact, leader: Option<NodeId>, now: Monotonic) {
        if leader.is_some() && leader != self.node {
            if Contact::Node(leader.unwrap_or(NodeId(0))) != from {
                self.set_leader(leader, now);
            }
        } else if self.leader.map(Contact::Node) == Some(from) {
            self.leader = None;
        }
    }

    fn set_leader(&mut self, leader: Option<NodeId>, now: Monotonic) {
        if self.leader != leader {
            self.leader = leader;
            self.is_node_heartbeat_due = true;
            self.pending_requests.hurry(now);
        }
    }

    fn finish(&mut self, pending_request: PendingRequest, answer: Answer, now: Monotonic) {
        match pending_request.client {
            Client::Start => self.on_start_answered(&pending_request.command, answer, now),
            Client::Owner { id } => {
                let outcome = match answer {
                    Answer::Done { outcome } => Ok(outcome),
                    Answer::Refused { refusal } => Err(Failure::Refused(refusal)),
                    Answer::Elsewhere { .. } => Err(Failure::Unknown),
                };
                self.effects.outcomes.push((id, outcome));
            }
            Client::Newcomer { contact, id } => self.send(contact, MetaMessage::Answer { id, answer }),
        }
    }

    fn on_start_answered(&mut self, command: &Command, answer: Answer, now: Monotonic) {
        match answer {
            Answer::Done {
                outcome:
                    Outcome::Started {
                        node,
                        boot,
                        mut replicas,
                    },
            } => {
                replicas.retain(|replica| replica.group != GroupRef::Meta);
                (self.node, self.boot) = (Some(node), Some(boot));
                // A map that came before may have named this node, which did not know that it is meant.
                self.leader = self.leader.filter(|&leader| leader != node);
                self.effects.started = Some(Started { node, boot, replicas });
                self.is_node_heartbeat_due = true;
                self.pending_requests.hurry(now);
                // It may have come before the answer.
                if let Some(map) = self.map.clone() {
                    self.read_map(&map, now);
                }
            }
            Answer::Refused { refusal } => {
                let is_unknown = refusal == Refusal::Unknown && matches!(command, Command::Boot { .. });
                let notice = match is_unknown {
                    true => Notice::Removed,
                    false => Notice::StartRefused { refusal },
                };
                self.say_of_self(Some(notice));
            }
            Answer::Done { .. } | Answer::Elsewhere { .. } => {}
        }
    }

    fn on_node_heartbeat(&mut self, from: Contact, node_heartbeat: &NodeHeartbeat, now: Monotonic) {
        let leads = self.leads();
        let leader = if leads { self.node } else { self.leader };
        let survivors = if leads { self.survivors(now) } else { Vec::new() };
        let heard = MetaMessage::NodeHeartbeatReply {
            leader,
            leads,
            survivors,
        };
        self.send(from, heard);
        let state = self
            .seat
            .as_ref()
            .and_then(|seat| seat.book())
            .map(|book| &book.state);
        if let (Contact::Node(node), Some(leader_state), Some(state)) = (from, &mut self.leader_state, state)
            && state.nodes().contains_key(&node)
        {
            // What it does not know it is told when the turn ends.
            return leader_state.on_node_heartbeat(node, node_heartbeat, state, now);
        }
        self.tell(from, (node_heartbeat.epoch, node_heartbeat.settings_version));
    }

    /// Sends what is newer than what the other one has.
    fn tell(&mut self, to: Contact, known: (Epoch, u64)) {
        if let Some(map) = self.map.clone().filter(|map| map.epoch > known.0) {
            self.send(to, MetaMessage::Map(map));
        }
        if self.settings_version > known.1 {
            let (version, settings) = (self.settings_version, Arc::clone(&self.settings));
            self.send(to, MetaMessage::Settings { version, settings });
        }
    }

    fn on_node_heartbeat_reply(
        &mut self,
        from: Contact,
        leader: Option<NodeId>,
        leads: bool,
        survivors: Vec<Survivor>,
        now: Monotonic,
    ) {
        match leader {
            Some(_) if leads => {
                self.told_survivors = survivors;
                self.unheard = 0;
                self.heard = now;
                if leader != self.node {
                    self.set_leader(leader, now);
                }
            }
            _ => self.on_hint(from, leader, now),
        }
    }

    fn on_order(&mut self, instruction: Instruction) {
        if instruction.group != GroupRef::Meta {
            self.effects.orders.push(instruction);
        }
    }

    fn on_state(
        &mut self,
        from: Contact,
        (sender, to): (Incarnation, Incarnation),
        point: &SnapshotPoint,
        state: &[u8],
    ) {
        let Some(seat) = self.seat.as_mut().filter(|seat| seat.raft.me() == to) else {
            return;
        };
        if seat.hold(point, state) {
            self.send(
                from,
                MetaMessage::StateHeld {
                    from: to,
                    to: sender,
                    index: point.index,
                    term: point.term,
                },
            );
        }
    }

    fn on_state_held(
        &mut self,
        member: Incarnation,
        to: Incarnation,
        (index, term): (consensus::Index, Term),
        now: Monotonic,
    ) {
        let (Some(leader_state), Some(seat)) = (&mut self.leader_state, &mut self.seat) else {
            return;
        };
        if seat.raft.me() != to {
            return;
        }
        if let Some(point) = leader_state.on_filled(member, index, term)
            && !seat.raft.offer_transfer(member, point, now)
        {
            seat.raft.transfer_failed(member);
        }
    }

    fn send(&mut self, to: Contact, message: MetaMessage) {
        self.effects.messages.push((to, message));
    }

    // ---- what is newer

    /// The state of the own seat may be newer than the map.
    fn read_book(&mut self) -> Option<Arc<RoutingMap>> {
        let state = &self.seat.as_ref()?.book()?.state;
        if state.settings_version() > self.settings_version {
            self.settings_version = state.settings_version();
            self.settings = Arc::new(state.settings().clone());
            self.effects.settings = Some(Arc::clone(&self.settings));
        }
        let is_newer = state.cluster().is_some() && state.epoch() > self.epoch();
        is_newer.then(|| Arc::new(RoutingMap::of(state)))
    }

    fn adopt_settings(&mut self, version: u64, settings: Arc<BTreeMap<String, Setting>>) {
        if version > self.settings_version {
            (self.settings_version, self.settings) = (version, settings);
            self.effects.settings = Some(Arc::clone(&self.settings));
        }
    }

    fn adopt_map(&mut self, map: Arc<RoutingMap>, now: Monotonic) {
        let cluster = self.map.as_ref().map(|map| map.cluster);
        let is_ours = map.cluster.is_some() && cluster.is_none_or(|cluster| cluster == map.cluster);
        if !is_ours || map.epoch <= self.epoch() {
            return;
        }
        if self.leader.is_none() && map.meta.leader != self.node {
            self.leader = map.meta.leader;
        }
        self.map = Some(Arc::clone(&map));
        self.effects.map = Some(Arc::clone(&map));
        self.read_map(&map, now);
    }

    /// What the map says of this node itself.
    fn read_map(&mut self, map: &RoutingMap, now: Monotonic) {
        let (Some(node), Some(boot)) = (self.node, self.boot) else {
            return;
        };
        let site = map.nodes.get(&node);
        let notice = match site {
            Some(site) if site.boot > boot => Some(Notice::Superseded { by: site.boot }),
            Some(site) if site.boot == boot => {
                self.listed = self.listed.or(Some(map.epoch));
                site.is_fenced.then_some(Notice::Fenced)
            }
            Some(_) if self.is_forgotten(map) => Some(Notice::Fenced),
            // An older map than this start.
            Some(_) => None,
            // Boots are counted over the whole cluster: one that knows a later one knows of this one, too.
            None if self.listed.is_some() || map.nodes.values().any(|site| site.boot > boot) => {
                Some(Notice::Removed)
            }
            None => None,
        };
        self.say_of_self(notice);
        self.take_seat(map, (node, boot), now);
    }

    /// Whether the meta group has begun anew without knowing of this start.
    fn is_forgotten(&self, map: &RoutingMap) -> bool {
        let site = self.node.and_then(|node| map.nodes.get(&node));
        let is_earlier = site.is_some_and(|site| Some(site.boot) < self.boot);
        is_earlier && self.listed.is_some_and(|listed| map.epoch > listed)
    }

    fn say_of_self(&mut self, notice: Option<Notice>) {
        if self.told_self != notice {
            self.told_self = notice;
            self.effects.notices.extend(notice);
        }
    }

    /// Takes the seat that the map has for this node, and leaves one that it does not have any more.
    fn take_seat(&mut self, map: &RoutingMap, (node, boot): (NodeId, Boot), now: Monotonic) {
        // A map from before this start names identities whose memory may be gone.
        let is_of_now = map.nodes.get(&node).is_none_or(|site| site.boot >= boot) || self.is_forgotten(map);
        if !is_of_now {
            return;
        }
        let own = || map.meta.replicas.iter().filter(|stop| stop.node == node);
        if let Some(me) = self.me()
            && map.epoch > self.seated
            && !own().any(|stop| stop.incarnation == me)
        {
            self.leave_seat();
        }
        let is_current = map.nodes.get(&node).is_some_and(|site| site.boot == boot);
        if self.seat.is_some() || !is_current {
            return;
        }
        if let Some(stop) = own().find(|stop| stop.standing != Standing::Voter) {
            let seed = self.prng.next_u64();
            self.seat = Seat::vacant(stop.incarnation, self.config.times, seed, now);
            self.seated = map.epoch;
        }
    }

    fn leave_seat(&mut self) {
        let Some(mut seat) = self.seat.take() else { return };
        self.effects.persist.append(&mut seat.take_writes());
        if seat.is_on_disk() {
            self.write += 1;
            self.effects.persist.push(Persist {
                number: self.write,
                record: Record::End,
            });
        }
        self.leader_state = None;
        self.beats.clear();
    }

    // ---- work

    /// Does whatever there is to do.
    fn work(&mut self, now: Monotonic) {
        loop {
            self.work_seat(now);
            self.work_pending_requests(now);
            self.work_node_heartbeat(now);
            self.work_leader_state(now);
            if !self.seat.as_ref().is_some_and(|seat| seat.raft.has_ready()) {
                break;
            }
        }
        self.work_beats(now);
        self.look_for_leader(now);
    }

    fn work_seat(&mut self, now: Monotonic) {
        let Some(seat) = &mut self.seat else { return };
        let mut effects = SeatEffects::default();
        seat.turn(&mut self.write, now, &mut effects);
        self.effects.persist.append(&mut seat.take_writes());
        if effects.is_new_status {
            self.on_status(now);
        }
        if !effects.applied.is_empty() || effects.was_installed {
            if let Some(leader_state) = &mut self.leader_state {
                leader_state.on_news();
            }
            if let Some(map) = self.read_book() {
                self.adopt_map(map, now);
            }
        }
        for applied in effects.applied {
            let Some(leader_state) = &mut self.leader_state else {
                break;
            };
            let Some(waiting) = leader_state.on_applied(applied.index, applied.term) else {
                continue;
            };
            let answer = match applied.result {
                Some(Ok(outcome)) => Answer::Done { outcome },
                Some(Err(refusal)) => Answer::Refused { refusal },
                None => continue,
            };
            match waiting.recipient {
                Recipient::Here => self.on_own_answer(waiting.id, answer, now),
                Recipient::There(to) => {
                    let id = waiting.id;
                    self.send(to, MetaMessage::Answer { id, answer });
                }
            }
        }
        if effects.claims_changed {
            self.claim(now);
        }
        for message in effects.messages {
            if let Some(node) = self.node_of(message.to) {
                self.send(Contact::Node(node), MetaMessage::Raft(message));
            }
        }
        for member in effects.wanted {
            self.fill(member, now);
        }
    }

    fn on_own_answer(&mut self, id: u64, answer: Answer, now: Monotonic) {
        if let Some(pending_request) = self.pending_requests.on_answer(id, &answer, now) {
            self.finish(pending_request, answer, now);
        }
    }

    /// Leadership of the meta group is another.
    fn on_status(&mut self, now: Monotonic) {
        let Some(seat) = &self.seat else { return };
        let status = seat.raft.status();
        if seat.raft.is_leader() {
            if self.leader_state.as_ref().map(|leader_state| leader_state.term) != Some(status.term) {
                self.leader_state = Some(LeaderState::new(status.term, now));
                self.pending_requests.hurry(now);
            }
            self.leader = None;
        } else {
            self.leader_state = None;
            let leader = status.leader.and_then(|leader| self.node_of(leader));
            if leader.is_some() {
                self.set_leader(leader, now);
            }
        }
    }

    /// To whom the heartbeats of this node go.
    fn claim(&mut self, now: Monotonic) {
        let Some(seat) = &self.seat else { return };
        let mut claims: BTreeMap<NodeId, Vec<consensus::Claim>> = BTreeMap::new();
        for claim in seat.raft.claims() {
            if let Some(node) = self.node_of(claim.to) {
                claims.entry(node).or_default().push(claim);
            }
        }
        self.beats.retain(|node, _| claims.contains_key(node));
        for (node, claims) in claims {
            // The start's own number may not be known yet; its token is as good a name for these.
            let nonce = Boot(self.config.token.0 as u64);
            let interval = self.config.times.heartbeat;
            let beats = self
                .beats
                .entry(node)
                .or_insert_with(|| Beats::new(nonce, interval));
            beats.claim(claims, now);
        }
    }

    fn work_beats(&mut self, now: Monotonic) {
        for (&node, beats) in &mut self.beats {
            if let Some(beat) = beats.beat(now) {
                let message = MetaMessage::Beat(beat);
                self.effects.messages.push((Contact::Node(node), message));
            }
        }
    }

    /// A member needs the state.
    fn fill(&mut self, member: Incarnation, now: Monotonic) {
        let Some(node) = self.node_of(member) else { return };
        let (Some(leader_state), Some(seat)) = (&mut self.leader_state, &self.seat) else {
            return;
        };
        let members = seat.raft.members().all();
        leader_state.retain_fills(|member| members.contains(&member));
        if !leader_state.is_fill_due(member, now) {
            return;
        }
        let Some((point, state)) = seat.give() else { return };
        leader_state.on_fill(member, point.clone(), now);
        let (from, to) = (seat.raft.me(), member);
        self.send(
            Contact::Node(node),
            MetaMessage::State {
                from,
                to,
                point,
                state,
            },
        );
    }

    fn work_pending_requests(&mut self, now: Monotonic) {
        for late in self.pending_requests.take_late(now) {
            if let Client::Owner { id } = late.client {
                let failure = match late.proposal {
                    Some(_) => Failure::Unknown,
                    None => Failure::NotDone,
                };
                self.effects.outcomes.push((id, Err(failure)));
            }
        }
        let author = self.node.filter(|_| self.boot.is_some());
        let author = author.map(|node| (node, self.config.token));
        for due in self.pending_requests.take_due(author, now) {
            if self.leads() {
                self.submit(Recipient::Here, due.id, due.proposal, now);
            } else if let Some(to) = self.whom_to_ask(due.tries) {
                let (id, proposal) = (due.id, due.proposal);
                self.send(to, MetaMessage::Request { id, proposal });
            }
        }
    }

    /// Who leads, or may know who does. The guess and somebody else by turns.
    fn whom_to_ask(&mut self, tries: u32) -> Option<Contact> {
        if let Some(leader) = self.leader
            && tries.is_multiple_of(2)
        {
            return Some(Contact::Node(leader));
        }
        // A node that is not started yet may have no link but that to the one that introduces it.
        let introducer = self.has_introducer.then_some(Contact::Introducer);
        if self.boot.is_none() && introducer.is_some() {
            return introducer;
        }
        let members = self
            .map
            .iter()
            .flat_map(|map| &map.meta.replicas)
            .map(|stop| stop.node);
        let mut others: BTreeSet<NodeId> = members.collect();
        if others.is_empty() || tries % 4 == 3 {
            others.extend(self.map.iter().flat_map(|map| map.nodes.keys()));
            others.extend(&self.peers);
        }
        let others = others.into_iter().filter(|&node| Some(node) != self.node);
        let mut others: Vec<Contact> = others.map(Contact::Node).collect();
        others.extend(introducer);
        if others.is_empty() {
            return None;
        }
        self.turn = self.turn.wrapping_add(1);
        others.get(self.turn % others.len()).copied()
    }

    fn node_heartbeat_at(&self) -> Monotonic {
        let Some(node_heartbeat_sent) = self.node_heartbeat_sent else {
            return Monotonic(0);
        };
        let is_soon = self.is_node_heartbeat_due || (1..4).contains(&self.unheard);
        node_heartbeat_sent.after(if is_soon {
            NODE_HEARTBEAT_SOON
        } else {
            NODE_HEARTBEAT
        })
    }

    /// Says that this node lives, and what its groups are like.
    fn work_node_heartbeat(&mut self, now: Monotonic) {
        if now < self.node_heartbeat_at() {
            return;
        }
        (self.node_heartbeat_sent, self.is_node_heartbeat_due) = (Some(now), false);
        if self.boot.is_none() && self.map.is_none() && self.seat.is_none() {
            // It has nothing to say before it has started.
            return;
        }
        let state = self
            .seat
            .as_ref()
            .and_then(|seat| seat.book())
            .map(|book| &book.state);
        if let (Some(leader_state), Some(state), Some(node)) = (&mut self.leader_state, state, self.node) {
            for group_report in self.group_reports.values() {
                leader_state.see(node, group_report, state, now);
            }
            return;
        }
        let tries = self.unheard;
        self.unheard = self.unheard.saturating_add(1);
        if let Some(to) = self.whom_to_ask(tries) {
            let node_heartbeat = NodeHeartbeat {
                boot: self.boot,
                epoch: self.epoch(),
                settings_version: self.settings_version,
                group_reports: self.group_reports.values().cloned().collect(),
                survivors: self.own_survivors.clone(),
                given_up: self.given_up.clone(),
            };
            self.send(to, MetaMessage::NodeHeartbeat(node_heartbeat));
        }
    }

    fn look_for_leader(&mut self, now: Monotonic) {
        if self.leads() {
            self.heard = now;
        }
        self.is_leaderless = now.since(self.heard) >= LEADERLESS_AFTER;
        let notice = match (&self.leader_state, self.leader) {
            (Some(leader_state), _) => Some(Notice::Leads {
                term: leader_state.term.0,
            }),
            // Who is no member yet knows of no group that others lead or do not.
            (None, _) if self.is_leaderless && self.node.is_some() => Some(Notice::Leaderless),
            // Only one that has answered.
            (None, Some(leader)) if self.unheard == 0 => Some(Notice::Follows { leader }),
            (None, _) => return,
        };
        if self.told_leader != notice {
            self.told_leader = notice;
            self.effects.notices.extend(notice);
        }
    }

    // ---- what the leader does

    fn work_leader_state(&mut self, now: Monotonic) {
        let (Some(leader_state), Some(seat), Some(node)) = (&mut self.leader_state, &self.seat, self.node)
        else {
            return;
        };
        let Some(book) = seat.book() else { return };
        // Under a lease: who has been deposed, and has not heard of it, may hear of the new leader's map first.
        let surely_leads = matches!(seat.raft.read_permit(now), ReadPermit::Lease(_));
        if leader_state.is_established
            && surely_leads
            && self
                .map
                .as_ref()
                .is_some_and(|map| map.epoch > book.state.epoch())
        {
            // Nobody knows more than who leads: the map is of a meta group that has begun anew without this node.
            self.leave_seat();
            return self.say_of_self(Some(Notice::Fenced));
        }
        let version = (book.state.epoch(), book.state.settings_version());
        let untold = leader_state.untold(node, &book.state, version);
        let is_due = leader_state.is_look_due(seat.applied(), now);
        for (node, known) in untold {
            self.tell(Contact::Node(node), known);
        }
        if is_due {
            self.look(node, now);
        }
    }

    /// One look of the reconciler, and what comes of it.
    fn look(&mut self, node: NodeId, now: Monotonic) {
        let Some(observations) = self.observations(now) else {
            return;
        };
        let (Some(leader_state), Some(seat)) = (&mut self.leader_state, &mut self.seat) else {
            return;
        };
        let Some(book) = seat.book() else { return };
        leader_state.on_look(now);
        let mut orders = Vec::new();
        for step in steps(&book.state, &observations, &self.config.pace) {
            match step {
                Step::Propose(command) => {
                    let proposal = Proposal {
                        author: None,
                        command,
                    };
                    orders.push((None, Err(proposal.encode())));
                }
                Step::Order {
                    group,
                    generation,
                    index,
                    order,
                } => {
                    let leader = observations.groups.get(&group).map(|seen| seen.report.leader);
                    let instruction = Instruction {
                        group,
                        generation,
                        index,
                        order,
                    };
                    orders.push((leader, Ok(instruction)));
                }
            }
        }
        for (leader, step) in orders {
            match (step, leader) {
                (Err(proposal), _) => {
                    let (Some(leader_state), Some(seat)) = (&mut self.leader_state, &mut self.seat) else {
                        return;
                    };
                    if let Some((index, _)) = seat.propose(&proposal) {
                        leader_state.await_entry(index);
                    }
                }
                (Ok(instruction), _) if instruction.group == GroupRef::Meta => self.obey(&instruction, now),
                (Ok(instruction), Some(leader)) if leader == node => self.effects.orders.push(instruction),
                (Ok(instruction), Some(leader)) => {
                    self.send(Contact::Node(leader), MetaMessage::Order(instruction));
                }
                (Ok(_), None) => {}
            }
        }
    }

    /// What the leader of the meta group says of it. None while its members change.
    fn own_group_report(&self, node: NodeId) -> Option<GroupReport> {
        let seat = self.seat.as_ref()?;
        let book = seat.book()?;
        let members = seat.raft.members();
        let group = book.state.groups().get(&GroupRef::Meta)?;
        if members.is_joint() || !seat.raft.is_established() {
            return None;
        }
        let with_role = |members: &[Incarnation], role| -> Option<Vec<Member>> {
            let members = members.iter().map(|&incarnation| {
                let node = self.node_of(incarnation)?;
                Some(Member {
                    incarnation,
                    node,
                    role,
                })
            });
            members.collect()
        };
        let mut named = with_role(&members.voters, Role::Voter)?;
        named.extend(with_role(&members.learners, Role::Learner)?);
        let last = seat.raft.last_index().0;
        let is_caught_up = |member: &Incarnation| {
            let matched = seat.raft.matched(*member);
            matched.is_some_and(|matched| matched.0 > 0 && matched.0 + LAG_MAX >= last)
        };
        Some(GroupReport {
            report: Report {
                group: GroupRef::Meta,
                generation: group.generation,
                term: seat.raft.status().term.0,
                index: book.configured.0,
                members: named,
                leader: node,
            },
            caught_up: members.all().into_iter().filter(is_caught_up).collect(),
            // Until a majority of the new voters knows of its end too, as with groups of keys.
            is_changing: !seat.raft.is_known_committed(book.configured),
            is_light: true,
        })
    }

    /// Carries an order for the meta group out. What cannot be done now is ordered again.
    fn obey(&mut self, instruction: &Instruction, now: Monotonic) {
        let Some(seat) = &mut self.seat else { return };
        let configured = seat.book().map(|book| book.configured.0);
        if configured != Some(instruction.index) {
            return;
        }
        let now_in = seat.raft.members();
        let mut target = Members {
            voters: now_in.voters.clone(),
            learners: now_in.learners.clone(),
            ..Members::default()
        };
        match &instruction.order {
            Order::AddLearner { incarnation, .. } => {
                if now_in.all().contains(incarnation) {
                    return;
                }
                target.learners.push(*incarnation);
            }
            Order::Change { promote, remove } => {
                let promoted = target.learners.extract_if(.., |member| promote.contains(member));
                target.voters.extend(promoted);
                target.voters.retain(|member| !remove.contains(member));
                target.learners.retain(|member| !remove.contains(member));
            }
            Order::Transfer { to } => {
                // Refused while another is under way.
                let _ = seat.raft.transfer(*to, now);
                return;
            }
        }
        // Refused while another is under way.
        let _ = seat.raft.change_members(&target);
    }
}

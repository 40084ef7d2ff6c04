//! One node's part in the meta group: every node has one, whether it is a member of the group or not.
//!
//! ```text
//!                 a start: Create, Join, Boot                            Order, for a group that is led here
//!   owner --> proposals, group reports --> agent --Request--> voter, which leads: log, State, reconciler --> Map, Settings
//!                                            |                  ^
//!                                            '-- the map says: this node is to be a member
//! ```
//!
//! It is two machines, between which this file routes. The [agent](Agent) is what every node does: it says that it lives, asks,
//! and learns from the map where everything is, and that it is dead or removed. The [voter](Voter) has a seat in the group, if the
//! map has one for this node, and may lead.
//!
//! Nothing that clients wait for passes here. If the group has no majority, everything stays as it is, and is said to.
//!
//! Absent: disks (`persist` says what is to be written), links, and the groups of keys, whose leaders carry out orders.

mod agent;
mod book;
mod cluster_view;
mod contact;
mod effects;
mod held_alone;
mod leader_search;
mod leader_state;
mod leading;
mod message;
mod own_reports;
mod pending_requests;
mod proposal;
mod recovered;
mod seat;
mod telling;
mod voter;

pub use contact::Contact;
pub use effects::{Failure, MetaEffects, MetaWrite, Notice, Record, Started};
pub use held_alone::HeldAlone;
pub use message::{Instruction, LeaderOrder, MetaMessage, NodeHeartbeat, RequestAnswer};
pub use recovered::RecoveredMeta;
pub use seat::Restored;

use crate::command::{Factor, MetaCommand};
use crate::given_up::GivenUp;
use crate::group::GroupRef;
use crate::lack::Lack;
use crate::map::RoutingMap;
use crate::node::Announcement;
use crate::node_memory::NodeMemory;
use crate::observations::{GroupReport, Observations};
use crate::outage::Outage;
use crate::partition_notes::PartitionNotes;
use crate::reconciler::Pace;
use crate::recovery_source::RecoverySource;
use crate::state::State;
use agent::Agent;
use consensus::{HardState, Members, Times};
use ids::{Boot, ClusterId, DurabilityMode, Groups, Incarnation, Monotonic, NodeId, SemanticsVersion, Token};
use leader_search::LeaderSearch;
use leader_state::{LeaderState, Recipient};
use leading::Duty;
use seat::Seat;
use std::sync::Arc;
use voter::{Leadership, Voter};

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
    agent: Agent,
    voter: Voter,
    effects: MetaEffects,
}

impl Meta {
    /// The first node of a new cluster. A log that is on its disk is dropped.
    pub fn create(
        config: MetaConfig,
        cluster: ClusterId,
        groups: Groups,
        factor: Factor,
        durability: DurabilityMode,
        semantics: SemanticsVersion,
        now: Monotonic,
    ) -> Meta {
        let mut voter = config.voter();
        voter.found(now);
        let start = MetaCommand::Create {
            cluster,
            token: config.token,
            groups,
            factor,
            durability,
            semantics,
            announcement: config.announcement,
        };
        let search = LeaderSearch::new(Vec::new(), false, now);
        Meta {
            agent: Agent::new(config.node, config.token, start, search),
            voter,
            effects: MetaEffects::default(),
        }
        .begin(now)
    }

    /// A node that knows who it is, and whom it knew. `restored` is what its log of the meta group holds, if there is one;
    /// `kept` are the replicas of keys whose memory it still has, `unclean` those that may lack what they acknowledged last, and
    /// `left_by` says whose all that is: see [`MetaCommand::Boot`].
    ///
    /// # Panics
    /// If it does not know who it is.
    pub fn restore(
        config: MetaConfig,
        restored: Option<Restored>,
        peers: Vec<NodeId>,
        left_by: Vec<Token>,
        mut kept: Vec<(GroupRef, Incarnation)>,
        unclean: Vec<(GroupRef, Incarnation)>,
        now: Monotonic,
    ) -> Meta {
        let node = config.node.expect("who goes on was given an id before");
        let (mut voter, mut effects) = (config.voter(), MetaEffects::default());
        let me = voter.restore(restored, now, &mut effects);
        kept.extend(me.map(|me| (GroupRef::Meta, me)));
        let start = MetaCommand::Boot {
            node,
            token: config.token,
            announcement: config.announcement,
            left_by,
            kept,
            unclean,
        };
        let search = LeaderSearch::new(peers, false, now);
        let mut meta = Meta {
            agent: Agent::new(config.node, config.token, start, search),
            voter,
            effects,
        };
        // Where everybody was: an older map than this start, good for finding the others.
        meta.read_state(now);
        meta.begin(now)
    }

    /// A node that joins, by way of [`Contact::Introducer`].
    pub fn join(config: MetaConfig, now: Monotonic) -> Meta {
        let voter = config.voter();
        let start = MetaCommand::Join {
            token: config.token,
            announcement: config.announcement,
        };
        let search = LeaderSearch::new(Vec::new(), true, now);
        Meta {
            agent: Agent::new(config.node, config.token, start, search),
            voter,
            effects: MetaEffects::default(),
        }
        .begin(now)
    }

    fn begin(mut self, now: Monotonic) -> Meta {
        self.work(now);
        self
    }

    // ---- what is known

    /// The state, on members of the meta group; it may lag.
    pub fn state(&self) -> Option<&State> {
        self.voter.state()
    }

    /// Whether this node leads the meta group, as far as it knows.
    pub fn leads(&self) -> bool {
        self.voter.leads()
    }

    /// How often the reconciler has looked since this node leads; none if it does not. For whoever measures.
    pub fn looks(&self) -> Option<u64> {
        self.voter.leader_state().map(LeaderState::looks)
    }

    /// Whether it is a member of the meta group, or is to be.
    pub fn has_seat(&self) -> bool {
        self.voter.seat().is_some()
    }

    /// The replica of the meta group here, once it has the state, and the members in force as it knows them, for checkers.
    pub fn replica(&self) -> Option<(Incarnation, &Members)> {
        self.voter.replica()
    }

    /// Whether the replica of the meta group here may hear that its members change, for checkers.
    pub fn has_change_ahead(&self) -> bool {
        let has_change_ahead = |seat: &Seat| seat.raft.has_change_ahead();
        self.voter.seat().is_some_and(has_change_ahead)
    }

    /// What the replica of the meta group here may not forget once a turn is over, for checkers.
    pub fn promises(&self) -> Option<(Incarnation, HardState)> {
        self.voter.promises()
    }

    /// Checks the invariants of both machines.
    ///
    /// # Errors
    /// Which one is broken.
    pub fn check(&self) -> Result<(), String> {
        self.agent.check()?;
        self.voter.check()
    }

    /// Its id, once it has one.
    pub fn node(&self) -> Option<NodeId> {
        self.agent.node()
    }

    /// The newest table that it has.
    pub fn map(&self) -> Option<&Arc<RoutingMap>> {
        self.agent.view.map()
    }

    /// What the leader sees of the cluster, for whoever looks; none if this node does not lead.
    pub fn observations(&mut self, now: Monotonic) -> Option<Observations> {
        self.voter.observations(&self.agent, now)
    }

    /// What is left of groups that nobody leads, as whoever leads the meta group last told; what is here, if there is nobody.
    pub fn recovery_sources(&self, now: Monotonic) -> Vec<RecoverySource> {
        let mut recovery_sources = match self.voter.leader_state() {
            Some(leader_state) => leader_state.recovery_sources(now),
            None => self.agent.told_recovery_sources(),
        };
        self.agent.own.add_recovery_sources(&mut recovery_sources);
        recovery_sources
    }

    /// Why silent nodes are not replaced, as whoever leads the meta group sees it.
    pub fn outage(&self, now: Monotonic) -> Option<Outage> {
        match self.leads() {
            true => self.voter.outage().cloned(),
            false => self.agent.told_outage(now),
        }
    }

    /// What this node lacks of what it is to have, as whoever leads the meta group sees it; none if that is not known.
    pub fn lack(&self, now: Monotonic) -> Option<Lack> {
        let own = self.agent.counted().and_then(|(node, _)| self.voter.lack(node));
        own.cloned().or_else(|| self.agent.told_lack(now))
    }

    /// Whether nothing was heard of a leader of the meta group for some time.
    pub fn is_leaderless(&self) -> bool {
        self.agent.search.is_leaderless()
    }

    /// When `tick` has something to do.
    pub fn next_timer(&self) -> Option<Monotonic> {
        let voters = self.voter.next_timer(self.agent.node().is_some());
        self.agent.next_timer().into_iter().chain(voters).min()
    }

    // ---- inputs

    /// Time has passed.
    pub fn tick(&mut self, now: Monotonic) {
        self.voter.tick(now);
        self.work(now);
    }

    /// Everything up to this write is on disk.
    pub fn on_persisted(&mut self, number: u64, now: Monotonic) {
        self.voter.on_persisted(number, now);
        self.work(now);
    }

    /// A node that joins has learned how much it is to have ([`Announcement::weight_percent`]): that depends on the cluster. Told before
    /// each link, as long as it joins.
    pub fn set_weight(&mut self, percent: u16) {
        self.agent.set_weight(percent);
    }

    /// A link is there, or is not any more.
    pub fn on_link(&mut self, to: Contact, is_up: bool, now: Monotonic) {
        if let Contact::Node(node) = to {
            self.voter.on_link(node, is_up, &self.agent, now);
        }
        self.agent.on_link(to, is_up, now);
        self.work(now);
    }

    /// Something is to be changed: `CONFIG SET`, an operator's wish. Its outcome comes under the number that is answered here.
    pub fn propose(&mut self, command: MetaCommand) -> u64 {
        self.agent.propose(command, &mut self.effects)
    }

    /// Whether nodes may join by way of this one: not where clients need a password and nodes need nothing.
    pub fn close_to_newcomers(&mut self, is_closed: bool) {
        self.agent.close_to_newcomers(is_closed);
    }

    /// What leaders here say of their groups, in place of what they said before.
    pub fn on_group_reports(&mut self, group_reports: Vec<GroupReport>, now: Monotonic) {
        let Some(count) = self.map().map(|map| map.groups.len()) else {
            return;
        };
        if self.agent.own.on_groups(group_reports, count) {
            self.agent.on_news();
        }
        self.work(now);
    }

    /// These groups are not led here any more.
    pub fn on_lead_lost(&mut self, groups: &[GroupRef]) {
        for group in groups {
            self.agent.own.groups.remove(group);
        }
    }

    /// The replicas here of groups that nobody leads, in place of those of before.
    pub fn on_recovery_sources(&mut self, recovery_sources: Vec<RecoverySource>) {
        self.agent.own.recovery_sources = recovery_sources;
    }

    /// How much this node holds, in place of what it held before. It is said with the next heartbeat.
    pub fn on_memory(&mut self, memory: NodeMemory) {
        self.agent.own.memory = Some(memory);
    }

    /// What is known here of partitions beside what groups host, in place of what was known before.
    pub fn on_partition_notes(&mut self, notes: PartitionNotes) {
        if self.agent.own.partition_notes != notes {
            self.agent.own.partition_notes = notes;
            self.agent.on_news();
        }
    }

    /// The replicas that were given up here, or that leaders here say are to be, in place of those of before.
    pub fn on_given_up(&mut self, given_up: Vec<GivenUp>) {
        if self.agent.own.given_up != given_up {
            self.agent.own.given_up = given_up;
            self.agent.on_news();
            self.voter.on_news();
        }
    }

    /// Everything that is to be done.
    pub fn take_effects(&mut self, now: Monotonic) -> MetaEffects {
        self.work(now);
        std::mem::take(&mut self.effects)
    }

    /// A message has come. Total.
    pub fn on_message(&mut self, from: Contact, message: MetaMessage, now: Monotonic) {
        let out = &mut self.effects;
        match message {
            MetaMessage::Raft(message) => self.voter.on_raft(from, message, now),
            MetaMessage::Beat(beat) => self.voter.on_beat(from, beat, now, out),
            MetaMessage::BeatAnswer(answer) => self.voter.on_beat_answer(from, &answer, now),
            MetaMessage::Request { id, proposal } => self.on_request(from, id, proposal, now),
            MetaMessage::Answer { id, answer } => {
                if let RequestAnswer::Elsewhere { leader } = answer {
                    self.agent.on_hint(from, leader, now);
                }
                self.on_answer(id, answer, now);
            }
            MetaMessage::NodeHeartbeat(node_heartbeat) => self.on_node_heartbeat(from, &node_heartbeat, now),
            MetaMessage::NodeHeartbeatReply {
                leader,
                leads,
                recovery_sources,
            } => {
                if leads && self.voter.leads() {
                    // One of both is deposed, and finds that out.
                    return self.agent.answer_other_leader(from, now, out);
                }
                self.agent
                    .on_node_heartbeat_reply(from, (leader, leads), recovery_sources, now);
            }
            MetaMessage::Outage(outage) => self.agent.on_outage(from, outage, now),
            MetaMessage::Lack(lack) => self.agent.on_lack(from, lack, now),
            MetaMessage::Map(map) => self.on_map(&map, now),
            MetaMessage::Difference(difference) => {
                if let Some(map) = self.agent.on_difference(&difference, out) {
                    self.read_map(&map, now);
                }
            }
            MetaMessage::Settings { version, settings } => {
                self.agent.view.adopt_settings(version, settings, out);
            }
            MetaMessage::Order(LeaderOrder::Instruction(instruction)) => {
                if instruction.group != GroupRef::Meta {
                    out.orders.push(instruction);
                }
            }
            MetaMessage::Order(LeaderOrder::Mend(mend)) => out.mends.push(mend),
            MetaMessage::State {
                from: sender,
                to,
                point,
                state,
            } => self.voter.on_state(from, (sender, to), &point, &state, out),
            MetaMessage::StateHeld {
                from: sender,
                to,
                index,
                term,
            } => self.voter.on_state_held(sender, to, (index, term), now),
        }
        self.work(now);
    }

    // ---- what concerns both

    fn on_request(&mut self, from: Contact, id: u64, bytes: Vec<u8>, now: Monotonic) {
        let answer = match self.agent.admit(from, &bytes) {
            Err(refusal) => RequestAnswer::Refused { refusal },
            Ok(_) if self.leads() => return self.submit(Recipient::There(from), id, bytes, now),
            Ok(command) => match from {
                Contact::Node(_) => RequestAnswer::Elsewhere {
                    leader: self.agent.search.leader(),
                },
                Contact::Introducer | Contact::Newcomer(_) => {
                    self.agent.ask_for(from, id, command, bytes);
                    return self.work(now);
                }
            },
        };
        self.effects.send(from, MetaMessage::Answer { id, answer });
    }

    fn submit(&mut self, recipient: Recipient, id: u64, proposal: Vec<u8>, now: Monotonic) {
        let refusal = self.voter.submit(&self.agent, recipient, id, proposal, now);
        if let Some(refusal) = refusal {
            self.answer(recipient, id, RequestAnswer::Refused { refusal }, now);
        }
    }

    fn answer(&mut self, recipient: Recipient, id: u64, answer: RequestAnswer, now: Monotonic) {
        match recipient {
            Recipient::Here => self.on_answer(id, answer, now),
            Recipient::There(to) => self.effects.send(to, MetaMessage::Answer { id, answer }),
        }
    }

    fn on_answer(&mut self, id: u64, answer: RequestAnswer, now: Monotonic) {
        let is_counted = self.agent.on_answer(id, answer, now, &mut self.effects);
        // A map that names this start may have come before the answer.
        if is_counted && let Some(map) = self.map().cloned() {
            self.read_map(&map, now);
        }
    }

    fn on_node_heartbeat(&mut self, from: Contact, node_heartbeat: &NodeHeartbeat, now: Monotonic) {
        let leads = self.leads();
        let (leader, recovery_sources) = match leads {
            true => (self.agent.node(), self.recovery_sources(now)),
            false => (self.agent.search.leader(), Vec::new()),
        };
        let reply = MetaMessage::NodeHeartbeatReply {
            leader,
            leads,
            recovery_sources,
        };
        let outage = self.voter.outage().cloned();
        if let Some(outage) = outage {
            self.effects.send(from, MetaMessage::Outage(outage));
        }
        if let Contact::Node(node) = from {
            let lack = self.voter.lack(node).cloned();
            let lack = lack.map(MetaMessage::Lack);
            lack.into_iter().for_each(|lack| self.effects.send(from, lack));
        }
        self.effects.send(from, reply);
        if !self.voter.on_node_heartbeat(from, node_heartbeat, now) {
            let known = (node_heartbeat.epoch, node_heartbeat.settings_version);
            // What builds it and others follow is known to whoever leads.
            self.agent.view.tell(from, known, false, &mut self.effects);
        }
    }

    /// The state of the own seat may be newer than the map.
    fn read_state(&mut self, now: Monotonic) {
        let Some(state) = self.voter.state() else { return };
        if let Some(map) = self.agent.view.read(state, &mut self.effects) {
            self.on_map(&map, now);
        }
    }

    fn on_map(&mut self, map: &Arc<RoutingMap>, now: Monotonic) {
        if self.agent.on_map(map, &mut self.effects) {
            self.read_map(map, now);
        }
    }

    /// What the map says of this node itself, and of its seat.
    fn read_map(&mut self, map: &RoutingMap, now: Monotonic) {
        self.agent.read_map(map, &mut self.effects);
        self.voter.on_map(map, &self.agent, now, &mut self.effects);
    }

    // ---- work

    /// Does whatever there is to do.
    fn work(&mut self, now: Monotonic) {
        loop {
            self.work_seat(now);
            self.work_requests(now);
            self.work_heartbeat(now);
            self.work_leadership(now);
            if !self.voter.has_ready() {
                break;
            }
        }
        self.voter.send_beats(now, &mut self.effects);
        let led = self.voter.led_term();
        self.agent.look_for_leader(led, now, &mut self.effects);
    }

    fn work_seat(&mut self, now: Monotonic) {
        let Some(effects) = self.voter.turn(now, &mut self.effects) else {
            return;
        };
        if effects.is_new_status {
            match self.voter.on_status(&self.agent, now) {
                Some(Leadership::Own { is_new }) => self.agent.on_led(is_new, now),
                Some(Leadership::Other(leader @ Some(_))) => self.agent.on_leader(leader, now),
                Some(Leadership::Other(None)) | None => {}
            }
        }
        if !effects.applied.is_empty() || effects.was_installed {
            self.voter.on_news();
            self.read_state(now);
        }
        for applied in effects.applied {
            if let Some((recipient, id, answer)) = self.voter.on_applied(applied) {
                self.answer(recipient, id, answer, now);
            }
        }
        if effects.claims_changed {
            self.voter.claim(&self.agent, now);
        }
        let (voter, agent, out) = (&mut self.voter, &self.agent, &mut self.effects);
        voter.send_raft(effects.messages, agent, out);
        for member in effects.wanted {
            voter.fill(member, agent, now, out);
        }
    }

    fn work_requests(&mut self, now: Monotonic) {
        for due in self.agent.take_due_requests(now, &mut self.effects) {
            if self.leads() {
                self.submit(Recipient::Here, due.id, due.proposal, now);
            } else {
                self.agent.send_request(due, &mut self.effects);
            }
        }
    }

    /// Says that this node lives, unless it has nothing to say before it has started.
    fn work_heartbeat(&mut self, now: Monotonic) {
        if !self.agent.begin_heartbeat(now) {
            return;
        }
        let is_anybody = self.agent.counted().is_some() || self.map().is_some() || self.has_seat();
        if is_anybody && !self.voter.see_own(&self.agent, now) {
            self.agent.send_heartbeat(&mut self.effects);
        }
    }

    fn work_leadership(&mut self, now: Monotonic) {
        let (voter, agent, out) = (&mut self.voter, &mut self.agent, &mut self.effects);
        match voter.duty(agent, now) {
            Some(Duty::Leave) => {
                voter.leave_seat(out);
                agent.say_of_self(Some(Notice::Fenced), out);
            }
            Some(Duty::Serve {
                greeted,
                untold,
                looks,
            }) => {
                for node in greeted {
                    voter.greet(node, agent, now, out);
                }
                for (node, known) in untold {
                    let takes_differences = voter.takes_differences(node);
                    agent
                        .view
                        .tell(Contact::Node(node), known, takes_differences, out);
                }
                if looks {
                    voter.look(agent, now, out);
                }
            }
            None => {}
        }
    }
}

impl MetaConfig {
    fn voter(&self) -> Voter {
        Voter::new(self.times, self.pace, Boot(self.token.0 as u64), self.seed)
    }
}

//! What every node does for the cluster's own state, whether it has a seat in the meta group or not: it says that it lives and
//! what its groups are like, learns maps and settings, and asks whoever leads.
//!
//! ```text
//!   new --Create or Join, answered--> counted --a map names this start--> listed --a later one does not--> dead
//!   uncounted --Boot, answered----------^
//! ```
//!
//! Invariants:
//! 1. A start is listed in no later map than the newest that is known.
//! 2. A start that is counted asks for that no more.

use super::cluster_view::{Adopted, ClusterView};
use super::contact::Contact;
use super::effects::{Failure, MetaEffects, Notice, Started};
use super::leader_search::LeaderSearch;
use super::message::{MetaMessage, NodeHeartbeat, RequestAnswer};
use super::own_reports::OwnReports;
use super::pending_requests::{Client, Due, PendingRequest, PendingRequests};
use super::proposal::Proposal;
use crate::command::{MetaCommand, MetaOutcome, MetaRefusal};
use crate::goal::NodeGoal;
use crate::group::GroupRef;
use crate::lack::Lack;
use crate::map::RoutingMap;
use crate::map_difference::MapDifference;
use crate::outage::Outage;
use crate::recovery_source::RecoverySource;
use consensus::Term;
use ids::{Boot, Epoch, Monotonic, NodeId, Token};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How often a node says that it lives.
const NODE_HEARTBEAT: Duration = Duration::from_secs(1);

/// How soon it does again, if its groups have changed or nobody answered.
const NODE_HEARTBEAT_SOON: Duration = Duration::from_millis(100);

/// What whoever leads has said of an outage is said again with each answer to a heartbeat; if it is not, it is over.
const OUTAGE_LASTS: Duration = Duration::from_secs(3);

/// What whoever leads has said that this node lacks is believed for so long: it is said again with each answer to a heartbeat, but another
/// one that leads has to hear of all first. One that says nothing for so long is of a build that does not know it.
const LACK_LASTS: Duration = Duration::from_secs(10);

/// What whoever leads says that this node lacks.
#[derive(Default)]
struct ToldLack {
    last: Option<(Monotonic, Lack)>,
    /// Since when it answers, and does not say it.
    unsaid: Option<Monotonic>,
}

/// See the file's header.
pub(crate) struct Agent {
    token: Token,
    start: Start,
    pub(crate) view: ClusterView,
    pub(crate) own: OwnReports,
    pub(crate) search: LeaderSearch,
    heartbeats: Heartbeats,
    requests: PendingRequests,
    proposals: u64,
    /// Nobody may join by way of this node.
    is_closed: bool,
    /// Nodes that there is a link to, or was when last heard. There are no more than nodes.
    linked: BTreeSet<NodeId>,
    /// Replicas of groups that nobody leads, as whoever leads the meta group last told.
    told_recovery_sources: Vec<RecoverySource>,
    /// When whoever leads last said that nodes which are silent are waited for, and what.
    told_outage: Option<(Monotonic, Outage)>,
    told_lack: ToldLack,
    /// The last that was said of this node itself.
    told_self: Option<Notice>,
}

/// How far a start is.
enum Start {
    /// It makes a cluster or joins one, and has no id yet.
    New,
    /// A member, which the cluster is to count.
    Uncounted(NodeId),
    Counted {
        node: NodeId,
        boot: Boot,
        /// The epoch of the first map that named this start. A later one that does not is of a meta group that has begun anew
        /// without knowing of it: then the start is dead.
        listed: Option<Epoch>,
    },
}

/// When the node last said that it lives.
#[derive(Default)]
struct Heartbeats {
    sent: Option<Monotonic>,
    /// Those that nobody answered.
    unanswered: u32,
    is_due: bool,
    /// When another one that leads was last answered by this one, which leads too.
    answered_leader: Option<Monotonic>,
    /// The map that is known is not what others take it for: none is said to be.
    wants_whole: bool,
}

impl Heartbeats {
    fn at(&self) -> Monotonic {
        let Some(sent) = self.sent else {
            return Monotonic(0);
        };
        let is_soon = self.is_due || (1..4).contains(&self.unanswered);
        sent.after(if is_soon {
            NODE_HEARTBEAT_SOON
        } else {
            NODE_HEARTBEAT
        })
    }
}

impl Agent {
    /// One that asks with its first command to be counted.
    pub(crate) fn new(node: Option<NodeId>, token: Token, start: MetaCommand, search: LeaderSearch) -> Agent {
        let mut requests = PendingRequests::new(token);
        requests.start(start);
        Agent {
            token,
            start: node.map_or(Start::New, Start::Uncounted),
            view: ClusterView::default(),
            own: OwnReports::default(),
            search,
            heartbeats: Heartbeats::default(),
            requests,
            proposals: 0,
            is_closed: false,
            linked: BTreeSet::new(),
            told_recovery_sources: Vec::new(),
            told_outage: None,
            told_lack: ToldLack::default(),
            told_self: None,
        }
    }

    /// See [`Meta::set_weight`](super::Meta::set_weight).
    pub(crate) fn set_weight(&mut self, percent: u16) {
        self.requests.set_weight(percent);
    }

    // ---- what is known

    /// Its id, once it has one.
    pub(crate) fn node(&self) -> Option<NodeId> {
        match self.start {
            Start::New => None,
            Start::Uncounted(node) | Start::Counted { node, .. } => Some(node),
        }
    }

    /// Its id and the number of this start, once it is counted.
    pub(crate) fn counted(&self) -> Option<(NodeId, Boot)> {
        match self.start {
            Start::New | Start::Uncounted(_) => None,
            Start::Counted { node, boot, .. } => Some((node, boot)),
        }
    }

    pub(crate) fn linked(&self) -> &BTreeSet<NodeId> {
        &self.linked
    }

    /// What is left of groups that nobody leads, as the leader last told.
    pub(crate) fn told_recovery_sources(&self) -> Vec<RecoverySource> {
        match self.search.is_leaderless() {
            true => Vec::new(),
            false => self.told_recovery_sources.clone(),
        }
    }

    /// Whether the meta group has begun anew without knowing of this start.
    pub(crate) fn is_forgotten(&self, map: &RoutingMap) -> bool {
        let Start::Counted { node, boot, listed } = self.start else {
            return false;
        };
        let is_earlier = map.nodes.get(&node).is_some_and(|site| site.boot < boot);
        is_earlier && listed.is_some_and(|listed| map.epoch > listed)
    }

    /// Why silent nodes are not replaced, as whoever leads last told.
    pub(crate) fn told_outage(&self, now: Monotonic) -> Option<Outage> {
        let told = self.told_outage.as_ref();
        let told = told.filter(|(told, _)| now.since(*told) < OUTAGE_LASTS);
        told.map(|(_, outage)| outage.clone())
    }

    /// What this node lacks, as whoever leads last told, or else as the map has it; none if that is not known.
    pub(crate) fn told_lack(&self, now: Monotonic) -> Option<Lack> {
        let (node, boot) = self.counted()?;
        let told = self.told_lack.last.as_ref();
        let told = told.filter(|(told, lack)| now.since(*told) < LACK_LASTS && lack.boot == boot);
        let is_unsaid = self
            .told_lack
            .unsaid
            .is_some_and(|since| now.since(since) >= LACK_LASTS);
        told.map(|(_, lack)| lack.clone()).or_else(|| {
            let map = self.view.map().filter(|_| is_unsaid)?;
            Some(Lack::of_map(map, node, boot))
        })
    }

    pub(crate) fn next_timer(&self) -> Option<Monotonic> {
        let timers = [
            self.search.next_timer(),
            Some(self.heartbeats.at()),
            self.requests.next_timer(self.counted().is_some()),
        ];
        timers.into_iter().flatten().min()
    }

    /// Checks the invariants of the file's header.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Start::Counted { listed, .. } = self.start else {
            return Ok(());
        };
        if listed.is_some_and(|listed| listed > self.view.epoch()) {
            return Err(format!("the start is listed in {listed:?}, which is not known"));
        }
        if self.requests.has_start() {
            return Err("the start is counted, and asks for that".to_owned());
        }
        Ok(())
    }

    // ---- inputs

    pub(crate) fn on_link(&mut self, to: Contact, is_up: bool, now: Monotonic) {
        match (to, is_up) {
            (Contact::Node(node), true) => _ = self.linked.insert(node),
            (Contact::Node(node), false) => _ = self.linked.remove(&node),
            (Contact::Introducer | Contact::Newcomer(_), _) => {}
        }
        if !is_up {
            self.requests.newcomer_left(to);
        } else if !matches!(to, Contact::Newcomer(_)) {
            self.hurry(now);
        }
    }

    pub(crate) fn propose(&mut self, command: MetaCommand, out: &mut MetaEffects) -> u64 {
        self.proposals += 1;
        let id = self.proposals;
        if !self.requests.own(id, command) {
            out.outcomes.push((id, Err(Failure::NotDone)));
        }
        id
    }

    pub(crate) fn close_to_newcomers(&mut self, is_closed: bool) {
        self.is_closed = is_closed;
    }

    /// What is said of groups here has changed.
    pub(crate) fn on_news(&mut self) {
        self.heartbeats.is_due = true;
    }

    /// What somebody asks for, if he may.
    pub(crate) fn admit(&self, from: Contact, bytes: &[u8]) -> Result<MetaCommand, MetaRefusal> {
        let proposal = Proposal::decode(bytes).map_err(|_| MetaRefusal::Malformed)?;
        if let Contact::Node(_) = from {
            return Ok(proposal.command);
        }
        // Who is no member may become one, and nothing else.
        if proposal.author.is_some() || !matches!(proposal.command, MetaCommand::Join { .. }) {
            return Err(MetaRefusal::Malformed);
        }
        if self.is_closed {
            return Err(MetaRefusal::NoSecret);
        }
        Ok(proposal.command)
    }

    /// Asks in place of a newcomer, which does not know who leads.
    pub(crate) fn ask_for(&mut self, newcomer: Contact, id: u64, command: MetaCommand, bytes: Vec<u8>) {
        self.requests.newcomer(newcomer, id, command, bytes);
    }

    /// Somebody does not lead, and says who may.
    pub(crate) fn on_hint(&mut self, from: Contact, leader: Option<NodeId>, now: Monotonic) {
        if leader.is_some() && leader != self.node() {
            if leader.map(Contact::Node) != Some(from) {
                self.on_leader(leader, now);
            }
        } else if self.search.leader().map(Contact::Node) == Some(from) {
            self.search.set(None);
        }
    }

    /// Another node leads.
    pub(crate) fn on_leader(&mut self, leader: Option<NodeId>, now: Monotonic) {
        if self.search.set(leader) {
            self.hurry(now);
        }
    }

    /// This node leads.
    pub(crate) fn on_led(&mut self, is_new: bool, now: Monotonic) {
        if is_new {
            self.requests.hurry(now);
        }
        self.search.set(None);
    }

    fn hurry(&mut self, now: Monotonic) {
        self.heartbeats.is_due = true;
        self.requests.hurry(now);
    }

    /// A request was answered. Whether this start has been counted by that: what the map says of it is to be read again.
    pub(crate) fn on_answer(
        &mut self,
        id: u64,
        answer: RequestAnswer,
        now: Monotonic,
        out: &mut MetaEffects,
    ) -> bool {
        let Some(PendingRequest { client, command, .. }) = self.requests.on_answer(id, &answer, now) else {
            return false;
        };
        match client {
            Client::Start => return self.on_start_answered(&command, answer, now, out),
            Client::Owner { id } => {
                let outcome = match answer {
                    RequestAnswer::Done { outcome } => Ok(outcome),
                    RequestAnswer::Refused { refusal } => Err(Failure::Refused(refusal)),
                    RequestAnswer::Elsewhere { .. } => Err(Failure::Unknown),
                };
                out.outcomes.push((id, outcome));
            }
            Client::Newcomer { contact, id } => out.send(contact, MetaMessage::Answer { id, answer }),
        }
        false
    }

    fn on_start_answered(
        &mut self,
        command: &MetaCommand,
        answer: RequestAnswer,
        now: Monotonic,
        out: &mut MetaEffects,
    ) -> bool {
        match answer {
            RequestAnswer::Done {
                outcome:
                    MetaOutcome::Started {
                        node,
                        boot,
                        mut replicas,
                    },
            } => {
                replicas.retain(|replica| replica.group != GroupRef::Meta);
                let listed = None;
                self.start = Start::Counted { node, boot, listed };
                // A map that came before may have named this node, which did not know that it is meant.
                self.search.forget(node);
                out.started = Some(Started { node, boot, replicas });
                self.hurry(now);
                return true;
            }
            RequestAnswer::Refused { refusal } => {
                let is_unknown =
                    refusal == MetaRefusal::Unknown && matches!(command, MetaCommand::Boot { .. });
                let notice = match is_unknown {
                    true => Notice::Removed,
                    false => Notice::StartRefused { refusal },
                };
                self.say_of_self(Some(notice), out);
            }
            RequestAnswer::Done { .. } | RequestAnswer::Elsewhere { .. } => {}
        }
        false
    }

    pub(crate) fn on_node_heartbeat_reply(
        &mut self,
        from: Contact,
        (leader, leads): (Option<NodeId>, bool),
        recovery_sources: Vec<RecoverySource>,
        now: Monotonic,
    ) {
        if leader.is_none() || !leads {
            return self.on_hint(from, leader, now);
        }
        self.told_recovery_sources = recovery_sources;
        self.told_lack.unsaid.get_or_insert(now);
        self.heartbeats.unanswered = 0;
        self.search.hear(now);
        if leader != self.node() {
            self.on_leader(leader, now);
        }
    }

    pub(crate) fn on_outage(&mut self, from: Contact, outage: Outage, now: Monotonic) {
        if let Contact::Node(_) = from {
            self.told_outage = Some((now, outage));
        }
    }

    pub(crate) fn on_lack(&mut self, from: Contact, lack: Lack, now: Monotonic) {
        if let Contact::Node(_) = from {
            let last = Some((now, lack));
            self.told_lack = ToldLack { last, unsaid: None };
        }
    }

    /// A map has come. Whether it is news.
    pub(crate) fn on_map(&mut self, map: &Arc<RoutingMap>, out: &mut MetaEffects) -> bool {
        // Who has another map of this version is told the whole to take its place. One that is older is all that there is to be had for now.
        let wants_whole = std::mem::take(&mut self.heartbeats.wants_whole);
        if !self.view.adopt_map(map, wants_whole, out) {
            return false;
        }
        self.on_news_of_map(map);
        true
    }

    /// What has changed in the map has come: the map, if that is news. Who lacks what it leads on from says at once what it has. Who has
    /// another map of the version that it leads on from says that it has none, and is told the whole.
    pub(crate) fn on_difference(
        &mut self,
        difference: &MapDifference,
        out: &mut MetaEffects,
    ) -> Option<Arc<RoutingMap>> {
        match self.view.adopt_difference(difference, out) {
            Adopted::News(map) => {
                self.on_news_of_map(&map);
                Some(map)
            }
            Adopted::Old => None,
            unfit @ (Adopted::Ahead | Adopted::Unfit) => {
                self.heartbeats.wants_whole |= unfit == Adopted::Unfit;
                self.heartbeats.is_due = true;
                None
            }
        }
    }

    fn on_news_of_map(&mut self, map: &RoutingMap) {
        self.heartbeats.wants_whole = false;
        if self.search.leader().is_none() && map.meta.leader != self.node() {
            self.search.set(map.meta.leader);
        }
    }

    /// What the map says of this node itself.
    pub(crate) fn read_map(&mut self, map: &RoutingMap, out: &mut MetaEffects) {
        let is_forgotten = self.is_forgotten(map);
        let Start::Counted { node, boot, listed } = &mut self.start else {
            return;
        };
        let notice = match map.nodes.get(node) {
            Some(site) if site.boot > *boot => Some(Notice::Superseded { by: site.boot }),
            Some(site) if site.boot == *boot => {
                listed.get_or_insert(map.epoch);
                match site.goal {
                    _ if site.is_fenced => Some(Notice::Fenced),
                    NodeGoal::Left => Some(Notice::Left),
                    NodeGoal::Stays | NodeGoal::Drains | NodeGoal::Leaves => None,
                }
            }
            Some(_) if is_forgotten => Some(Notice::Fenced),
            // An older map than this start.
            Some(_) => None,
            // Boots are counted over the whole cluster: one that knows a later one knows of this one, too.
            None if listed.is_some() || map.nodes.values().any(|site| site.boot > *boot) => {
                Some(Notice::Removed)
            }
            None => None,
        };
        self.say_of_self(notice, out);
    }

    pub(crate) fn say_of_self(&mut self, notice: Option<Notice>, out: &mut MetaEffects) {
        if self.told_self != notice {
            self.told_self = notice;
            out.notices.extend(notice);
        }
    }

    // ---- work

    /// The requests that are to be sent now; those that nobody waits for any more are given up.
    pub(crate) fn take_due_requests(&mut self, now: Monotonic, out: &mut MetaEffects) -> Vec<Due> {
        for late in self.requests.take_late(now) {
            if let Client::Owner { id } = late.client {
                let failure = match late.proposal {
                    Some(_) => Failure::Unknown,
                    None => Failure::NotDone,
                };
                out.outcomes.push((id, Err(failure)));
            }
        }
        let author = self.counted().map(|(node, _)| (node, self.token));
        self.requests.take_due(author, now)
    }

    pub(crate) fn send_request(&mut self, due: Due, out: &mut MetaEffects) {
        if let Some(to) = self.whom_to_ask(due.tries) {
            let (id, proposal) = (due.id, due.proposal);
            out.send(to, MetaMessage::Request { id, proposal });
        }
    }

    fn whom_to_ask(&mut self, tries: u32) -> Option<Contact> {
        let map = self.view.map().map(|map| &**map);
        let (me, is_counted) = (self.node(), self.counted().is_some());
        self.search.whom_to_ask(tries, me, is_counted, map)
    }

    /// Whether it is time to say that this node lives; the time for the next is counted from here.
    pub(crate) fn begin_heartbeat(&mut self, now: Monotonic) -> bool {
        let is_time = now >= self.heartbeats.at();
        if is_time {
            (self.heartbeats.sent, self.heartbeats.is_due) = (Some(now), false);
        }
        is_time
    }

    /// Says that this node lives, and what its groups are like.
    pub(crate) fn send_heartbeat(&mut self, out: &mut MetaEffects) {
        let tries = self.heartbeats.unanswered;
        self.heartbeats.unanswered = tries.saturating_add(1);
        if let Some(to) = self.whom_to_ask(tries) {
            self.send_heartbeat_to(to, out);
        }
    }

    /// Another one says that it leads, to one that leads too: who knows more finds out by what it is answered.
    pub(crate) fn answer_other_leader(&mut self, other: Contact, now: Monotonic, out: &mut MetaEffects) {
        let answered = &mut self.heartbeats.answered_leader;
        if answered.is_none_or(|answered| now >= answered.after(NODE_HEARTBEAT)) {
            *answered = Some(now);
            self.send_heartbeat_to(other, out);
        }
    }

    fn send_heartbeat_to(&self, to: Contact, out: &mut MetaEffects) {
        let node_heartbeat = NodeHeartbeat {
            boot: self.counted().map(|(_, boot)| boot),
            epoch: if self.heartbeats.wants_whole {
                Epoch(0)
            } else {
                self.view.epoch()
            },
            settings_version: self.view.settings_version(),
            group_reports: self.own.groups.values().cloned().collect(),
            recovery_sources: self.own.recovery_sources.clone(),
            given_up: self.own.given_up.clone(),
            memory: self.own.memory,
            partition_notes: self.own.partition_notes.clone(),
        };
        out.send(to, MetaMessage::NodeHeartbeat(node_heartbeat));
    }

    /// Says who leads, if that is news; `led` is the term in which this node does.
    pub(crate) fn look_for_leader(&mut self, led: Option<Term>, now: Monotonic, out: &mut MetaEffects) {
        let (is_member, is_answered) = (self.node().is_some(), self.heartbeats.unanswered == 0);
        out.notices
            .extend(self.search.look(led, is_member, is_answered, now));
    }
}

//! What whoever leads the meta group knows besides the state: who was heard, what leaders of groups say, who was told
//! what, and who waits for an answer. Nothing of it outlives the leadership.

use super::contact::Contact;
use super::message::NodeHeartbeat;
use super::telling::Telling;
use crate::given_up::GivenUp;
use crate::group::GroupRef;
use crate::lack::Lack;
use crate::mending::{Mend, UNCHANGED_FOR, mends};
use crate::node_memory::NodeMemory;
use crate::observations::{GroupReport, Observations};
use crate::outage::Outage;
use crate::partition_notes::PartitionNotes;
use crate::reconciler::Pace;
use crate::recovery_source::{RECOVERY_SOURCES_MAX, RecoverySource};
use crate::state::State;
use consensus::{Index, SnapshotPoint, Term};
use ids::{Boot, Epoch, Host, Incarnation, Monotonic, NodeId, PartitionId, SemanticsVersion};
use mutations::Mutation;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Requests whose entries are not committed. One more is passed over: it will be sent again.
const WAITING_MAX: usize = 256;

/// What was seen of a group is not believed for longer: its leader may be gone.
const GROUP_REPORT_LASTS: Duration = Duration::from_secs(3);

/// Between two looks, if something has changed.
const LOOK_SOON: Duration = Duration::from_millis(50);

/// Between two looks, if nothing has: an order may have been lost.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The state is not sent again to the same member any sooner.
const FILL_AGAIN: Duration = Duration::from_secs(1);

/// Who is to be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Recipient {
    /// This node's own pending request.
    Here,
    /// Another node.
    There(Contact),
}

pub(crate) struct Waiting {
    pub(crate) term: Term,
    pub(crate) recipient: Recipient,
    pub(crate) id: u64,
    proposal: Vec<u8>,
}

/// What a node has of groups that nobody leads.
struct Told {
    at: Monotonic,
    /// The start of the node that has said it, and that keeps what it promised thereby.
    boot: Boot,
    recovery_sources: Vec<RecoverySource>,
}

/// Who leads groups.
#[derive(Default)]
struct Led {
    /// What leaders said last, and when.
    reports: BTreeMap<GroupRef, (Monotonic, Arc<GroupReport>)>,
    /// What they said with that of partitions that their groups have given away.
    given: BTreeMap<GroupRef, Vec<(PartitionId, Host)>>,
    /// The partitions that each node knows to have moved more often than its map says, and when it said so.
    ahead: BTreeMap<NodeId, (Monotonic, BTreeMap<PartitionId, u32>)>,
    /// The groups of which nobody says that it leads them, and since when.
    unled: BTreeMap<GroupRef, Monotonic>,
}

/// When the reconciler looks.
struct Looks {
    last: Option<Monotonic>,
    /// Whether anything has changed since.
    has_news: bool,
    /// The last entry that came of the last look.
    awaited: Index,
    count: u64,
}

/// Since when this one knows of what the state has without a time.
#[derive(Default)]
struct Noticed {
    /// The pause that there is.
    paused: Option<(Epoch, Monotonic)>,
    /// The nodes that may stop, and since which version of the map.
    permitted: BTreeMap<NodeId, (Epoch, Monotonic)>,
    /// The newest rules that all nodes can follow, if these are newer than those in force.
    raisable: Option<(SemanticsVersion, Monotonic)>,
    /// What would mend partitions.
    mends: BTreeMap<Mend, Monotonic>,
}

impl Noticed {
    /// This would mend partitions now. What would for so long that everybody has said it again.
    fn mends(&mut self, mends: Vec<Mend>, now: Monotonic) -> Vec<Mend> {
        let before = std::mem::take(&mut self.mends);
        let since = |mend: &Mend| before.get(mend).copied().unwrap_or(now);
        self.mends = mends.into_iter().map(|mend| (mend, since(&mend))).collect();
        let is_due = |since| now.since(since) >= UNCHANGED_FOR || mutations::is(Mutation::MendedOnHearsay);
        let due = self.mends.iter().filter(|(_, since)| is_due(**since));
        due.map(|(mend, _)| *mend).collect()
    }

    /// This is what the state has now.
    fn look(&mut self, state: &State, now: Monotonic) {
        let known = self.paused;
        let pause = state.pause().map(|pause| pause.since);
        self.paused = pause.map(|since| known.filter(|(known, _)| *known == since).unwrap_or((since, now)));
        let before = std::mem::take(&mut self.permitted);
        let permits = state.permits().iter();
        self.permitted = permits
            .map(|(&node, permit)| {
                let known = before.get(&node).filter(|(since, _)| *since == permit.since);
                (node, known.copied().unwrap_or((permit.since, now)))
            })
            .collect();
        let possible = state.semantics_possible();
        let known = self.raisable.filter(|(known, _)| *known == possible);
        self.raisable = (possible > state.semantics()).then(|| known.unwrap_or((possible, now)));
    }
}

/// What others are told of the last look.
#[derive(Default)]
pub(crate) struct Found {
    /// Whether silent nodes were waited for.
    pub(crate) outage: Option<Outage>,
    /// What each node lacked; of none before all could be heard.
    pub(crate) lacks: BTreeMap<NodeId, Lack>,
}

/// See the file's header.
pub(crate) struct LeaderState {
    since: Monotonic,
    pub(crate) term: Term,
    /// Whether an entry of its own term is applied: the state is not an old one.
    pub(crate) is_established: bool,
    /// Which start of each node was heard last, and when. A start that was just counted counts as heard: the silence before it
    /// was another's.
    heard: BTreeMap<NodeId, (Boot, Monotonic)>,
    /// Since when this one knows of the last start of each node: one that was never heard was silent since then.
    known: BTreeMap<NodeId, (Boot, Monotonic)>,
    led: Led,
    /// What each node has of groups that nobody leads.
    recovery_sources: BTreeMap<NodeId, Told>,
    /// The replicas of which each node says that they were given up.
    given_up: BTreeMap<NodeId, (Monotonic, Vec<GivenUp>)>,
    /// How much each node said last that it holds.
    memory: BTreeMap<NodeId, NodeMemory>,
    pub(crate) found: Found,
    pub(crate) telling: Telling,
    waiting: BTreeMap<Index, Waiting>,
    looks: Looks,
    fills: BTreeMap<Incarnation, (Monotonic, SnapshotPoint)>,
    noticed: Noticed,
}

impl LeaderState {
    pub(crate) fn new(term: Term, now: Monotonic) -> LeaderState {
        LeaderState {
            since: now,
            term,
            is_established: false,
            heard: BTreeMap::new(),
            known: BTreeMap::new(),
            led: Led::default(),
            recovery_sources: BTreeMap::new(),
            given_up: BTreeMap::new(),
            memory: BTreeMap::new(),
            found: Found::default(),
            telling: Telling::default(),
            waiting: BTreeMap::new(),
            looks: Looks {
                last: None,
                has_news: true,
                awaited: Index(0),
                count: 0,
            },
            fills: BTreeMap::new(),
            noticed: Noticed::default(),
        }
    }

    // ---- what is seen

    /// A node lives.
    pub(crate) fn on_node_heartbeat(
        &mut self,
        node: NodeId,
        node_heartbeat: &NodeHeartbeat,
        state: &State,
        now: Monotonic,
    ) {
        let (epoch, settings_version) = (node_heartbeat.epoch, node_heartbeat.settings_version);
        let known = state.nodes().get(&node);
        let is_present = known.is_some_and(|known| node_heartbeat.boot == Some(known.boot));
        // Of a start that is not counted it is not known of which build it is: it is told whole maps.
        let epoch = if is_present { epoch } else { Epoch(0) };
        self.telling.hear(node, (epoch, settings_version));
        let Some(known) = known.filter(|_| is_present) else {
            return;
        };
        if self.heard.insert(node, (known.boot, now)).is_none() {
            self.looks.has_news = true;
        }
        let notes = &node_heartbeat.partition_notes;
        for group_report in &node_heartbeat.group_reports {
            self.see(node, group_report, notes, state, now);
        }
        self.note_ahead(node, notes, now);
        if let Some(memory) = node_heartbeat.memory {
            self.memory.insert(node, memory);
        }
        self.recovery_sources.remove(&node);
        let mut own = node_heartbeat.recovery_sources.clone();
        own.retain(|recovery_source| recovery_source.node == node);
        if !own.is_empty() {
            let told = Told {
                at: now,
                boot: known.boot,
                recovery_sources: own,
            };
            self.recovery_sources.insert(node, told);
        }
        let known = self.given_up.remove(&node).map(|(_, known)| known);
        if !node_heartbeat.given_up.is_empty() {
            self.looks.has_news |= known.as_ref() != Some(&node_heartbeat.given_up);
            self.given_up.insert(node, (now, node_heartbeat.given_up.clone()));
        }
    }

    /// What nodes have said of groups that nobody leads, in the order of the nodes.
    pub(crate) fn recovery_sources(&self, now: Monotonic) -> Vec<RecoverySource> {
        let said = self.recovery_sources.values();
        let lasting = said.filter(|told| now.since(told.at) < GROUP_REPORT_LASTS);
        let all = lasting.flat_map(|told| &told.recovery_sources).cloned();
        all.take(RECOVERY_SOURCES_MAX).collect()
    }

    /// How much each node holds, as far as it was said.
    pub(crate) fn memory(&self) -> &BTreeMap<NodeId, NodeMemory> {
        &self.memory
    }

    /// The replicas of which nodes have said that they were given up.
    fn given_up(&self, now: Monotonic) -> Vec<GivenUp> {
        let said = self.given_up.values();
        let lasting = said.filter(|(said, _)| now.since(*said) < GROUP_REPORT_LASTS);
        lasting.flat_map(|(_, given_up)| given_up).copied().collect()
    }

    /// A group's leader has said this.
    pub(crate) fn see(
        &mut self,
        node: NodeId,
        group_report: &GroupReport,
        notes: &PartitionNotes,
        state: &State,
        now: Monotonic,
    ) {
        let name = group_report.report.group;
        if group_report.report.leader != node || !state.groups().contains_key(&name) {
            return;
        }
        let age = |group_report: &GroupReport| {
            let report = &group_report.report;
            (report.generation, report.term, report.index)
        };
        let before = self.led.reports.get(&name).map(|(_, before)| before);
        // Two may believe that they lead: the later one does.
        if before.is_some_and(|before| age(before) > age(group_report)) {
            return;
        }
        let same = before.filter(|before| ***before == *group_report).cloned();
        self.looks.has_news |= same.is_none();
        let said = same.unwrap_or_else(|| Arc::new(group_report.clone()));
        self.led.reports.insert(name, (now, said));
        let given = notes.given.get(&name).cloned();
        self.led.given.insert(name, given.unwrap_or_default());
    }

    /// A node knows of moves that its map does not.
    pub(crate) fn note_ahead(&mut self, node: NodeId, notes: &PartitionNotes, now: Monotonic) {
        match notes.ahead.is_empty() {
            true => drop(self.led.ahead.remove(&node)),
            false => drop(self.led.ahead.insert(node, (now, notes.ahead.clone()))),
        }
    }

    /// What is to mend partitions that no group hosts, or several.
    pub(crate) fn mends(&mut self, state: &State, observations: &Observations, now: Monotonic) -> Vec<Mend> {
        if mutations::is(Mutation::LostMovesKept) {
            return Vec::new();
        }
        self.noticed.mends(mends(state, observations), now)
    }

    /// Whether a node was heard within this time.
    pub(crate) fn is_heard(&self, node: NodeId, within: Duration, now: Monotonic) -> bool {
        let heard = self.heard.get(&node);
        heard.is_some_and(|&(_, heard)| now.since(heard) < within)
    }

    /// Whether a node was not heard for this time, nor since this one leads.
    pub(crate) fn is_missed(&self, node: NodeId, within: Duration, now: Monotonic) -> bool {
        let heard = self.heard.get(&node).map_or(self.since, |&(_, heard)| heard);
        now.since(heard) >= within
    }

    /// Whether this one leads for so long that whoever is there was heard.
    pub(crate) fn has_heard_all(&self, state: &State, pace: &Pace, now: Monotonic) -> bool {
        state.nodes().len() == 1 || now.since(self.since) >= pace.away_after
    }

    /// Whether somebody says that it leads a group, in this generation or a later one.
    pub(crate) fn is_led(&self, group: GroupRef, generation: u64, now: Monotonic) -> bool {
        let seen = self.led.reports.get(&group);
        seen.is_some_and(|(seen, group_report)| {
            group_report.report.generation >= generation && now.since(*seen) < GROUP_REPORT_LASTS
        })
    }

    /// What the reconciler is shown. A node that was just heard and has no link any more is neither there nor gone: it may have died.
    pub(crate) fn observations(
        &mut self,
        me: NodeId,
        linked: &BTreeSet<NodeId>,
        state: &State,
        pace: &Pace,
        now: Monotonic,
    ) -> Observations {
        let nodes = state.nodes();
        self.heard.retain(|node, _| nodes.contains_key(node));
        self.memory.retain(|node, _| nodes.contains_key(node));
        for (node, heard) in &mut self.heard {
            let boot = nodes[node].boot;
            if heard.0 != boot {
                *heard = (boot, now);
            }
        }
        // What an earlier start has said is void.
        self.recovery_sources.retain(|node, told| {
            let boot = nodes.get(node).map(|node| node.boot);
            boot == Some(told.boot) || mutations::is(Mutation::FormerReportCounts)
        });
        self.led
            .reports
            .retain(|_, (seen, _)| now.since(*seen) < GROUP_REPORT_LASTS);
        let reports = &self.led.reports;
        self.led.given.retain(|name, _| reports.contains_key(name));
        self.led
            .ahead
            .retain(|_, (said, _)| now.since(*said) < GROUP_REPORT_LASTS);
        let mut ahead = PartitionNotes::default();
        for (_, said) in self.led.ahead.values() {
            ahead.merge(&PartitionNotes {
                ahead: said.clone(),
                ..PartitionNotes::default()
            });
        }
        let before = std::mem::take(&mut self.led.unled);
        let unled = state
            .groups()
            .keys()
            .filter(|name| !self.led.reports.contains_key(name));
        self.led.unled = unled
            .map(|name| (*name, before.get(name).copied().unwrap_or(now)))
            .collect();
        // One that has just joined was not silent before.
        let since = if self.known.is_empty() { self.since } else { now };
        self.known.retain(|node, _| nodes.contains_key(node));
        for (&id, node) in nodes {
            let known = self.known.entry(id).or_insert((node.boot, since));
            if known.0 != node.boot {
                *known = (node.boot, now);
            }
        }
        let silence = nodes.keys().filter_map(|&node| {
            if node == me {
                return Some((node, Duration::ZERO));
            }
            match self.heard.get(&node) {
                Some(&(_, heard)) if linked.contains(&node) => Some((node, now.since(heard))),
                // It was silent for this long at least. Whether it is there will soon be known.
                heard => Some((
                    node,
                    now.since(heard.map_or(self.known[&node].1, |&(_, heard)| heard)),
                ))
                .filter(|(_, silent)| *silent >= pace.away_after),
            }
        });
        let silence = silence.collect();
        self.noticed.look(state, now);
        let noticed = &self.noticed;
        let permitted = noticed.permitted.iter();
        let known = self.known.iter();
        let groups = self.led.reports.iter();
        Observations {
            silence,
            groups: groups
                .map(|(&name, (_, group_report))| (name, Arc::clone(group_report)))
                .collect(),
            given: self.led.given.clone(),
            ahead: ahead.ahead,
            recovery_sources: self.recovery_sources(now),
            given_up: self.given_up(now),
            paused_for: noticed.paused.map(|(_, seen)| now.since(seen)),
            raisable_for: noticed.raisable.map(|(_, seen)| now.since(seen)),
            permitted_for: permitted
                .map(|(&node, (_, seen))| (node, now.since(*seen)))
                .collect(),
            up_for: known.map(|(&node, (_, seen))| (node, now.since(*seen))).collect(),
            unled_for: self
                .led
                .unled
                .iter()
                .map(|(&name, &since)| (name, now.since(since)))
                .collect(),
        }
    }

    // ---- when to look

    /// The state has changed.
    pub(crate) fn on_news(&mut self) {
        self.looks.has_news = true;
    }

    /// Whether the last look's entries are applied, and it is time for the next.
    pub(crate) fn is_look_due(&self, applied: Index, now: Monotonic) -> bool {
        self.is_established && applied >= self.looks.awaited && now >= self.look_at()
    }

    fn look_at(&self) -> Monotonic {
        let pause = if self.looks.has_news {
            LOOK_SOON
        } else {
            LOOK_AGAIN
        };
        self.looks.last.map_or(self.since, |looked| looked.after(pause))
    }

    pub(crate) fn on_look(&mut self, now: Monotonic) {
        (self.looks.last, self.looks.has_news) = (Some(now), false);
        self.looks.count += 1;
    }

    /// How often there was a look since this one leads.
    pub(crate) fn looks(&self) -> u64 {
        self.looks.count
    }

    pub(crate) fn await_entry(&mut self, index: Index) {
        self.looks.awaited = self.looks.awaited.max(index);
    }

    pub(crate) fn next_timer(&self, applied: Index) -> Option<Monotonic> {
        let look = (self.is_established && applied >= self.looks.awaited).then(|| self.look_at());
        look.into_iter().chain(self.telling.next_timer()).min()
    }

    // ---- who waits

    /// Whether the same request is in the log already. Then whoever asked last is answered.
    pub(crate) fn is_waiting(&mut self, proposal: &[u8], recipient: Recipient, id: u64) -> bool {
        let mut waiting = self.waiting.values_mut();
        let known = waiting.find(|waiting| waiting.proposal == proposal);
        known
            .map(|known| (known.recipient, known.id) = (recipient, id))
            .is_some()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    pub(crate) fn wait(
        &mut self,
        index: Index,
        term: Term,
        recipient: Recipient,
        id: u64,
        proposal: Vec<u8>,
    ) {
        let waiting = Waiting {
            term,
            recipient,
            id,
            proposal,
        };
        self.waiting.insert(index, waiting);
    }

    /// The entry at this place was carried out: who asked for it.
    pub(crate) fn on_applied(&mut self, index: Index, term: Term) -> Option<Waiting> {
        self.is_established |= term == self.term;
        self.waiting.remove(&index).filter(|waiting| waiting.term == term)
    }

    // ---- members that need the state

    /// Whether it is time to send the state to a member.
    pub(crate) fn is_fill_due(&self, member: Incarnation, now: Monotonic) -> bool {
        let sent = self.fills.get(&member);
        sent.is_none_or(|(sent, _)| now.since(*sent) >= FILL_AGAIN)
    }

    pub(crate) fn on_fill(&mut self, member: Incarnation, point: SnapshotPoint, now: Monotonic) {
        self.fills.insert(member, (now, point));
    }

    /// The member holds the state of this place, if it was sent that.
    pub(crate) fn on_filled(
        &mut self,
        member: Incarnation,
        index: Index,
        term: Term,
    ) -> Option<SnapshotPoint> {
        let (_, point) = self.fills.get(&member)?;
        if (point.index, point.term) != (index, term) {
            return None;
        }
        self.fills.remove(&member).map(|(_, point)| point)
    }

    /// Those that are no members are not filled.
    pub(crate) fn retain_fills(&mut self, is_member: impl Fn(Incarnation) -> bool) {
        self.fills.retain(|&member, _| is_member(member));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Factor, MetaCommand, MetaOutcome};
    use crate::group::GroupRef;
    use crate::node::Announcement;
    use consensus::HardState;
    use ids::{ClusterId, DurabilityMode, GroupCount, GroupId, Groups, Token};

    fn announcement() -> Announcement {
        Announcement {
            client: "a:6379".into(),
            cluster: "a:7379".into(),
            peer: "a:8379".into(),
            zone: String::new(),
            name: String::new(),
            weight_percent: crate::node::WEIGHT_PERCENT,
            semantics_min: SemanticsVersion(1),
            semantics_max: SemanticsVersion(3),
        }
    }

    /// How much is known of what a node has said once it has started again.
    fn known_of_former_start() -> usize {
        let mut state = State::default();
        let create = MetaCommand::Create {
            cluster: ClusterId(9),
            token: Token(1),
            groups: Groups::with_default_partitions(GroupCount::new(1).expect("one")),
            factor: Factor::Auto,
            durability: DurabilityMode::Relaxed,
            semantics: SemanticsVersion(1),
            announcement: announcement(),
        };
        state.apply(&create).expect("there is no cluster yet");
        let join = MetaCommand::Join {
            token: Token(2),
            announcement: announcement(),
        };
        state.apply(&join).expect("there is room");
        let node = NodeId(2);
        let said = RecoverySource {
            group: GroupId::new(0),
            generation: 0,
            node,
            incarnation: Incarnation(2),
            term: HardState::default().term,
            last: Index(7),
            applied: Index(7),
            lost_voter: None,
            unreported: None,
            outgoing: Vec::new(),
            is_whole: true,
            is_aside: true,
            voters: Vec::new(),
            changed_at: Index(0),
        };
        let heartbeat = NodeHeartbeat {
            boot: Some(state.nodes()[&node].boot),
            epoch: state.epoch(),
            settings_version: 0,
            group_reports: Vec::new(),
            recovery_sources: vec![said],
            given_up: Vec::new(),
            memory: None,
            partition_notes: PartitionNotes::default(),
        };
        let now = Monotonic(1);
        let mut leader_state = LeaderState::new(Term(1), now);
        let linked = BTreeSet::from([node]);
        leader_state.on_node_heartbeat(node, &heartbeat, &state, now);
        let mut observed = |state: &State| {
            let seen = leader_state.observations(NodeId(1), &linked, state, &Pace::default(), now);
            seen.recovery_sources.len()
        };
        assert_eq!(observed(&state), 1);
        let boot = MetaCommand::Boot {
            node,
            token: Token(3),
            announcement: announcement(),
            left_by: vec![Token(2)],
            kept: vec![(GroupRef::Data(GroupId::new(0)), Incarnation(2))],
            unclean: Vec::new(),
        };
        state.apply(&boot).expect("it is a node");
        observed(&state)
    }

    #[test]
    fn what_an_earlier_start_of_a_node_has_said_is_void() {
        assert_eq!(known_of_former_start(), 0);
        mutations::plant(Some(Mutation::FormerReportCounts));
        let known = known_of_former_start();
        mutations::plant(None);
        assert_eq!(known, 1, "the mistake is noticed");
    }

    #[test]
    fn a_start_that_was_just_counted_was_not_silent_although_the_node_was_never_heard() {
        let announcement = |peer: &str| Announcement {
            client: String::new(),
            cluster: String::new(),
            peer: peer.to_owned(),
            zone: String::new(),
            name: String::new(),
            weight_percent: crate::node::WEIGHT_PERCENT,
            semantics_min: SemanticsVersion(1),
            semantics_max: SemanticsVersion(1),
        };
        let mut state = State::default();
        let apply = |state: &mut State, command: &MetaCommand| match state.apply(command) {
            Ok(MetaOutcome::Started { node, .. }) => node,
            other => panic!("{other:?}"),
        };
        let create = MetaCommand::Create {
            cluster: ClusterId(1),
            token: Token(1),
            groups: Groups::with_default_partitions(GroupCount::new(1).unwrap()),
            factor: Factor::One,
            durability: DurabilityMode::Memory,
            semantics: SemanticsVersion(1),
            announcement: announcement("a:1"),
        };
        let me = apply(&mut state, &create);
        let join = MetaCommand::Join {
            token: Token(2),
            announcement: announcement("b:1"),
        };
        let other = apply(&mut state, &join);
        // This one leads since then, and has not heard of the other since.
        let pace = Pace::default();
        let began = Monotonic(1);
        let mut leads = LeaderState::new(Term(1), began);
        let mut silence = |state: &State, now| {
            let seen = leads.observations(me, &BTreeSet::new(), state, &pace, now);
            seen.silence.get(&other).copied()
        };
        assert_eq!(silence(&state, began), None);
        let late = began.after(pace.replace_after);
        assert_eq!(silence(&state, late), Some(pace.replace_after));
        let boot = MetaCommand::Boot {
            node: other,
            token: Token(3),
            announcement: announcement("b:1"),
            left_by: Vec::new(),
            kept: Vec::new(),
            unclean: Vec::new(),
        };
        apply(&mut state, &boot);
        assert_eq!(silence(&state, late), None);
        // But from then on it may be.
        let later = late.after(pace.away_after);
        assert_eq!(silence(&state, later), Some(pace.away_after));
    }
}

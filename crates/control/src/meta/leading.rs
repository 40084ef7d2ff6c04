//! What whoever leads the meta group does besides consensus: it puts requests into the log, looks at the cluster and orders the
//! next step, tells nodes what is newer, and fills members with the state.

use super::agent::Agent;
use super::contact::Contact;
use super::effects::MetaEffects;
use super::leader_state::{LeaderState, Recipient};
use super::message::{Instruction, LeaderOrder, MetaMessage, NodeHeartbeat, RequestAnswer};
use super::proposal::Proposal;
use super::seat::Applied;
use super::telling::Versions;
use super::voter::{Seated, Voter};
use crate::command::{MetaCommand, MetaRefusal, Report};
use crate::group::{Group, GroupMember, GroupRef, MemberRole};
use crate::lack::{Lack, lacks};
use crate::node::Node;
use crate::node_memory::{self, NodeMemory};
use crate::observations::{GroupReport, Observations};
use crate::outage::{Outage, outage};
use crate::permit::is_at_risk;
use crate::reconciler::steps;
use crate::recovery_source::RecoverySource;
use crate::step::{Order, ReconcileStep};
use consensus::{Members, ReadPermit, Term};
use ids::{Boot, Incarnation, Monotonic, NodeId, SemanticsVersion};
use mutations::Mutation;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A member that lacks no more entries than this is caught up.
const LAG_MAX: u64 = 64;

/// What whoever leads has to do now.
pub(super) enum Duty {
    /// To leave its seat: the map that it knows is of a meta group that has begun anew without this node.
    Leave,
    /// To say to some nodes who leads, to others what is newer than this, and to look at the cluster if it is time.
    Serve {
        greeted: Vec<NodeId>,
        untold: Vec<(NodeId, Versions)>,
        looks: bool,
    },
}

impl Voter {
    pub(crate) fn leads(&self) -> bool {
        self.leader_state().is_some()
    }

    /// The term in which this node leads.
    pub(crate) fn led_term(&self) -> Option<Term> {
        self.leader_state().map(|leader_state| leader_state.term)
    }

    /// What the leader sees of the cluster; none if this node does not lead.
    pub(crate) fn observations(&mut self, agent: &Agent, now: Monotonic) -> Option<Observations> {
        let node = agent.node()?;
        let own = self.own_group_report(node, agent);
        let Seated {
            seat, leader_state, ..
        } = self.seated.as_mut()?;
        let state = &seat.book()?.state;
        let leader_state = leader_state.as_mut()?;
        let mut observations = leader_state.observations(node, agent.linked(), state, &self.pace, now);
        observations
            .groups
            .extend(own.map(|own| (GroupRef::Meta, Arc::new(own))));
        observations
            .recovery_sources
            .extend(agent.own.recovery_sources.iter().cloned());
        observations.given_up.extend(&agent.own.given_up);
        Some(observations)
    }

    /// What the leader of the meta group says of it. None while its members change.
    fn own_group_report(&self, node: NodeId, agent: &Agent) -> Option<GroupReport> {
        let seat = self.seat()?;
        let book = seat.book()?;
        let members = seat.raft.members();
        let group = book.state.groups().get(&GroupRef::Meta)?;
        if members.is_joint() || !seat.raft.is_established() {
            return None;
        }
        let with_role = |members: &[Incarnation], role| -> Option<Vec<GroupMember>> {
            let members = members.iter().map(|&incarnation| {
                let node = self.node_of(incarnation, agent)?;
                Some(GroupMember {
                    incarnation,
                    node,
                    role,
                })
            });
            members.collect()
        };
        let mut named = with_role(&members.voters, MemberRole::Voter)?;
        named.extend(with_role(&members.learners, MemberRole::Learner)?);
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
            unfit: std::collections::BTreeSet::new(),
            // Until a majority of the new voters knows of its end too, as with groups of keys.
            is_changing: !seat.raft.is_known_committed(book.configured),
            is_light: true,
            hosted: Vec::new(),
        })
    }

    /// Why silent nodes are not replaced, as the leader saw it when it last looked; none if this node does not lead.
    pub(crate) fn outage(&self) -> Option<&Outage> {
        self.leader_state()?.found.outage.as_ref()
    }

    /// What a node lacks, as the leader saw it when it last looked; none if this node does not lead, or has not heard of all yet.
    pub(crate) fn lack(&self, node: NodeId) -> Option<&Lack> {
        self.leader_state()?.found.lacks.get(&node)
    }

    // ---- requests

    /// Appends a request to the log; or refuses it. What is neither will be asked again.
    pub(crate) fn submit(
        &mut self,
        agent: &Agent,
        recipient: Recipient,
        id: u64,
        proposal: Vec<u8>,
        now: Monotonic,
    ) -> Option<MetaRefusal> {
        let command = Proposal::decode(&proposal).ok()?.command;
        if self.is_premature(&command, agent, now) {
            return None;
        }
        if let Some(refusal) = self.unwelcome(&command, agent, now) {
            return Some(refusal);
        }
        if let MetaCommand::PermitStop { boot, .. } = command
            && self.is_stop_risky(boot, agent, now)
        {
            return Some(MetaRefusal::AtRisk);
        }
        let (seat, leader_state) = self.led()?;
        if !leader_state.is_waiting(&proposal, recipient, id)
            && leader_state.has_room()
            && let Some((index, term)) = seat.propose(&proposal)
        {
            leader_state.wait(index, term, recipient, id, proposal);
        }
        None
    }

    /// Why a command is refused before it is tried: what a node that joins announces would have it, or others, not be reached; a
    /// group is to begin anew that has a majority in a configuration nobody has reported; or there is no room for what nodes hold that
    /// are to be emptied, or for more replicas.
    fn unwelcome(&self, command: &MetaCommand, agent: &Agent, now: Monotonic) -> Option<MetaRefusal> {
        if self.has_unreported_majority(command, agent, now) {
            return Some(MetaRefusal::NotNeeded);
        }
        if let MetaCommand::SetGoal { nodes, goal } = command
            && goal.is_draining()
            && self.lacks_room(nodes, agent)
        {
            return Some(MetaRefusal::NoRoom);
        }
        if let MetaCommand::SetFactor { factor } = command
            && let Some(state) = self.state()
            && node_memory::is_lacking_for(state, &self.known_memory(agent), state.replicas_by(*factor))
        {
            return Some(MetaRefusal::NoRoom);
        }
        let others = self.state()?.nodes().iter();
        let others = others.filter(|(_, node)| !node.is_fenced);
        let within = self.pace.away_after;
        let is_there = |node: NodeId| {
            let is_heard = |leader_state: &LeaderState| leader_state.is_heard(node, within, now);
            let is_linked = agent.linked().contains(&node) && self.leader_state().is_some_and(is_heard);
            agent.node() == Some(node) || is_linked
        };
        if let MetaCommand::Boot {
            node: itself,
            announcement,
            ..
        } = command
        {
            // Addresses may be dealt anew among nodes that start again; names are not.
            let mut namesakes = others.filter(|(_, node)| node.announcement.has_name_of(announcement));
            let is_taken = namesakes.any(|(id, _)| id != itself && is_there(*id));
            return is_taken.then_some(MetaRefusal::Taken);
        }
        if let MetaCommand::Replace { boot, .. } = command {
            // Whoever asked may lack a link that the others have.
            let mut named = others.filter(|(_, node)| node.boot == *boot);
            return named.any(|(id, _)| is_there(*id)).then_some(MetaRefusal::InUse);
        }
        if let MetaCommand::ReplaceTogether { boots } = command {
            let mut named = others.filter(|(_, node)| boots.contains(&node.boot));
            return named.any(|(id, _)| is_there(*id)).then_some(MetaRefusal::InUse);
        }
        if let MetaCommand::Forget {
            group, generation, ..
        } = command
        {
            // A group that nobody leads may begin anew with what is to be forgotten, whatever was reported of it last.
            let is_own = agent.own.groups.get(group);
            let leads = is_own.is_some_and(|own| own.report.generation >= *generation);
            let is_led = |leader_state: &LeaderState| leader_state.is_led(*group, *generation, now);
            let is_led = leads || self.leader_state().is_some_and(is_led);
            return (!is_led).then_some(MetaRefusal::AtRisk);
        }
        let MetaCommand::Join { token, announcement } = command else {
            return None;
        };
        let mut others = others.filter(|(_, node)| node.join != *token);
        others.find_map(|(&id, node)| {
            let other = &node.announcement;
            if other.is_same_place(announcement) {
                return is_there(id).then_some(MetaRefusal::Taken);
            }
            (other.is_loopback() != announcement.is_loopback()).then_some(MetaRefusal::Loopback)
        })
    }

    /// Whether a majority would be at risk if the process of this start ended, as the leader sees it. What it does not know of is refused
    /// when it is applied.
    fn is_stop_risky(&mut self, boot: Boot, agent: &Agent, now: Monotonic) -> bool {
        let pace = self.pace;
        let Some(observations) = self.observations(agent, now) else {
            return false;
        };
        let Some(state) = self.state() else { return false };
        let mut nodes = state.nodes().iter();
        let named = nodes.find(|(_, node)| node.boot == boot);
        named.is_some_and(|(&id, _)| is_at_risk(state, &observations, &pace, id))
    }

    /// Whether what these nodes hold has no room on those that would stay.
    fn lacks_room(&self, nodes: &[NodeId], agent: &Agent) -> bool {
        let known = self.known_memory(agent);
        self.state()
            .is_some_and(|state| node_memory::is_lacking(state, &known, nodes))
    }

    /// How much each node holds and may hold, as far as the leader has heard.
    fn known_memory(&self, agent: &Agent) -> BTreeMap<NodeId, NodeMemory> {
        let heard = self.leader_state().map(LeaderState::memory);
        let mut known = heard.cloned().unwrap_or_default();
        known.extend(agent.node().zip(agent.own.memory));
        known
    }

    /// Whether too little is known to have a group begin anew, as an operator wants: somebody may lead it in a configuration that
    /// was not reported yet, and would be passed over with all that it has acknowledged. Every node is to have been heard, or
    /// missed, since this one leads, and none is to lead the group. Nor is anybody to be passed over who votes in a change of members
    /// that has not ended.
    fn is_premature(&self, command: &MetaCommand, agent: &Agent, now: Monotonic) -> bool {
        let (MetaCommand::Recover { group: name, .. }, Some(state)) = (command, self.state()) else {
            return false;
        };
        let (Some(group), Some(leader_state)) = (state.groups().get(name), self.leader_state()) else {
            return false;
        };
        if group.has_majority() {
            // It is refused.
            return false;
        }
        let within = self.pace.away_after;
        let is_unclear = |(id, node): (&NodeId, &Node)| {
            let is_there = agent.linked().contains(id) && leader_state.is_heard(*id, within, now);
            let is_missed = leader_state.is_missed(*id, within, now);
            Some(*id) != agent.node() && !node.is_fenced && !is_there && !is_missed
        };
        let own = agent.own.groups.get(name);
        state.nodes().iter().any(is_unclear)
            || own.is_some_and(|own| own.report.generation >= group.generation)
            || leader_state.is_led(*name, group.generation, now)
            || self.is_voter_untold(*name, group, agent, now)
            || self.is_former_untold(*name, group, agent, now)
    }

    /// Whether one that votes in either half of a joint change has its memory, is there, and has not said what it holds. Whoever
    /// makes a plan waits for the voters that the map names, which are those of one half; and what was acknowledged by a majority of
    /// both may be left with one of the other half alone.
    fn is_voter_untold(&self, name: GroupRef, group: &Group, agent: &Agent, now: Monotonic) -> bool {
        let told = self.left_of(name, group, agent, now);
        let is_there = |node: NodeId| {
            let is_heard = |state: &LeaderState| state.is_heard(node, self.pace.away_after, now);
            let is_linked = agent.linked().contains(&node) && self.leader_state().is_some_and(is_heard);
            agent.node() == Some(node) || is_linked
        };
        let is_untold = |member: &GroupMember| {
            let has_told = told.iter().any(|one| one.incarnation == member.incarnation);
            !has_told && !group.is_lost(member.incarnation) && is_there(member.node)
        };
        told.iter().flat_map(|one| one.joint_voters(group)).any(is_untold)
    }

    /// Whether a node that is there has not said what it has of a generation that is over.
    fn is_former_untold(&self, name: GroupRef, group: &Group, agent: &Agent, now: Monotonic) -> bool {
        let others = self.leader_state().map(|state| state.recovery_sources(now));
        let others = others.unwrap_or_default();
        let said: Vec<&RecoverySource> = others.iter().chain(&agent.own.recovery_sources).collect();
        let has_said = |node: NodeId| {
            let is_its = |said: &&RecoverySource| {
                GroupRef::Data(said.group) == name && said.is_aside && said.node == node
            };
            said.iter().copied().any(|said| is_its(&said))
        };
        let is_missed = |node: NodeId| {
            let within = self.pace.away_after;
            agent.node() != Some(node)
                && self
                    .leader_state()
                    .is_some_and(|state| state.is_missed(node, within, now))
        };
        let mut former = group.former.iter();
        group.is_over() && former.any(|&node| !has_said(node) && !is_missed(node))
    }

    /// What nodes, this one too, have said of the replicas that are left of a group.
    fn left_of(&self, name: GroupRef, group: &Group, agent: &Agent, now: Monotonic) -> Vec<RecoverySource> {
        let others = self.leader_state().map(|state| state.recovery_sources(now));
        let own = agent.own.recovery_sources.iter().cloned();
        let mut left: Vec<RecoverySource> = others.into_iter().flatten().chain(own).collect();
        left.retain(|one| GroupRef::Data(one.group) == name && one.generation == group.generation);
        left
    }

    /// Whether a group that is to begin anew has a majority in a configuration that one of its replicas has applied, and nobody
    /// reported.
    fn has_unreported_majority(&self, command: &MetaCommand, agent: &Agent, now: Monotonic) -> bool {
        let (MetaCommand::Recover { group: name, .. }, Some(state)) = (command, self.state()) else {
            return false;
        };
        let Some(group) = state.groups().get(name) else {
            return false;
        };
        let left = self.left_of(*name, group, agent, now);
        left.iter()
            .any(|one| one.later_than(group).is_some() && one.standstill(group).is_none())
    }

    /// An entry was carried out: who is to be answered, and what.
    pub(crate) fn on_applied(&mut self, applied: Applied) -> Option<(Recipient, u64, RequestAnswer)> {
        let (_, leader_state) = self.led()?;
        let waiting = leader_state.on_applied(applied.index, applied.term)?;
        let answer = match applied.result? {
            Ok(outcome) => RequestAnswer::Done { outcome },
            Err(refusal) => RequestAnswer::Refused { refusal },
        };
        Some((waiting.recipient, waiting.id, answer))
    }

    // ---- what is seen

    /// A member of the cluster lives. Whether it is kept, and the node told what it does not know when the turn ends.
    pub(crate) fn on_node_heartbeat(
        &mut self,
        from: Contact,
        node_heartbeat: &NodeHeartbeat,
        now: Monotonic,
    ) -> bool {
        let Some((seat, leader_state)) = self.led() else {
            return false;
        };
        let (Contact::Node(node), Some(book)) = (from, seat.book()) else {
            return false;
        };
        let is_member = book.state.nodes().contains_key(&node);
        if is_member {
            leader_state.on_node_heartbeat(node, node_heartbeat, &book.state, now);
        }
        is_member
    }

    /// What leaders here say of their groups is heard without a message, if this node leads. Whether it does.
    pub(crate) fn see_own(&mut self, agent: &Agent, now: Monotonic) -> bool {
        let (Some((seat, leader_state)), Some(node)) = (self.led(), agent.node()) else {
            return false;
        };
        let Some(book) = seat.book() else { return false };
        for group_report in agent.own.groups.values() {
            leader_state.see(node, group_report, &agent.own.partition_notes, &book.state, now);
        }
        leader_state.note_ahead(node, &agent.own.partition_notes, now);
        true
    }

    // ---- what is done

    /// What this node has to do if it leads.
    pub(super) fn duty(&mut self, agent: &Agent, now: Monotonic) -> Option<Duty> {
        let node = agent.node()?;
        let (seat, leader_state) = self.led()?;
        let state = &seat.book()?.state;
        // Under a lease: who has been deposed, and has not heard of it, may hear of the new leader's map first.
        let surely_leads = matches!(seat.raft.read_permit(now), ReadPermit::Lease(_));
        // Nobody knows more than who leads.
        if leader_state.is_established && surely_leads && agent.view.epoch() > state.epoch() {
            return Some(Duty::Leave);
        }
        let versions = (state.epoch(), state.settings_version());
        let due = leader_state.telling.due(node, state, versions, now);
        Some(Duty::Serve {
            greeted: due.greeted,
            untold: due.untold,
            looks: leader_state.is_look_due(seat.applied(), now),
        })
    }

    /// Says to a node who leads, which answers with what it knows.
    pub(super) fn greet(&self, node: NodeId, agent: &Agent, now: Monotonic, out: &mut MetaEffects) {
        let Some(leader_state) = self.leader_state() else {
            return;
        };
        let reply = MetaMessage::NodeHeartbeatReply {
            leader: agent.node(),
            leads: true,
            recovery_sources: leader_state.recovery_sources(now),
        };
        out.send(Contact::Node(node), reply);
    }

    /// Whether the build of a node takes what has changed in place of a whole map.
    pub(super) fn takes_differences(&self, node: NodeId) -> bool {
        let known = self.state().and_then(|state| state.nodes().get(&node));
        known.is_some_and(|known| known.announcement.semantics_max >= SemanticsVersion::MAP_DIFFERENCES)
    }

    /// One look of the reconciler, and what comes of it.
    pub(crate) fn look(&mut self, agent: &Agent, now: Monotonic, out: &mut MetaEffects) {
        self.let_go_of_unknown_learners(agent);
        let Some(observations) = self.observations(agent, now) else {
            return;
        };
        let pace = self.pace;
        let Some((seat, leader_state)) = self.led() else {
            return;
        };
        let Some(book) = seat.book() else { return };
        leader_state.on_look(now);
        leader_state.found.outage = outage(&book.state, &observations, &pace);
        leader_state.found.lacks = match leader_state.has_heard_all(&book.state, &pace, now) {
            true => lacks(&book.state, &observations, &pace),
            false => BTreeMap::new(),
        };
        let mends = leader_state.mends(&book.state, &observations, now);
        for step in steps(&book.state, &observations, &pace) {
            match step {
                ReconcileStep::Propose(command) => self.propose(command),
                ReconcileStep::Order {
                    group,
                    generation,
                    index,
                    order,
                } => {
                    let instruction = Instruction {
                        group,
                        generation,
                        index,
                        order,
                    };
                    let leader = observations.groups.get(&group).map(|seen| seen.report.leader);
                    match leader {
                        _ if group == GroupRef::Meta => self.obey(&instruction, now),
                        Some(leader) if Some(leader) == agent.node() => out.orders.push(instruction),
                        Some(leader) => {
                            let order = LeaderOrder::Instruction(instruction);
                            out.send(Contact::Node(leader), MetaMessage::Order(order));
                        }
                        None => {}
                    }
                }
            }
        }
        for mend in mends {
            let seen = observations.groups.get(&GroupRef::Data(mend.group));
            match seen.map(|seen| seen.report.leader) {
                Some(leader) if Some(leader) == agent.node() => out.mends.push(mend),
                Some(leader) => {
                    let order = MetaMessage::Order(LeaderOrder::Mend(mend));
                    out.send(Contact::Node(leader), order);
                }
                None => {}
            }
        }
    }

    /// A learner whose node started again before it was reported is one that the map knows no more: nobody can report it, nor order
    /// its removal, and a report without it would not be true. Whoever leads lets go of it.
    fn let_go_of_unknown_learners(&mut self, agent: &Agent) {
        let Some(seat) = self.seat() else { return };
        let members = seat.raft.members();
        if members.is_joint() || !seat.raft.is_established() || mutations::is(Mutation::UnknownLearnerKept) {
            return;
        }
        let known = members.learners.iter().copied();
        let known: Vec<Incarnation> = known.filter(|&one| self.node_of(one, agent).is_some()).collect();
        if known.len() == members.learners.len() {
            return;
        }
        let target = Members {
            voters: members.voters.clone(),
            learners: known,
            ..Members::default()
        };
        if let Some((seat, _)) = self.led() {
            // Refused while another is under way.
            let _ = seat.raft.change_members(&target);
        }
    }

    /// Appends what the reconciler wants, and has the next look wait for it.
    fn propose(&mut self, command: MetaCommand) {
        let author = None;
        let proposal = Proposal { author, command }.encode();
        if let Some((seat, leader_state)) = self.led()
            && let Some((index, _)) = seat.propose(&proposal)
        {
            leader_state.await_entry(index);
        }
    }

    /// Carries an order for the meta group out. What cannot be done now is ordered again.
    fn obey(&mut self, instruction: &Instruction, now: Monotonic) {
        let Some((seat, _)) = self.led() else { return };
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

    /// A member needs the state.
    pub(crate) fn fill(&mut self, member: Incarnation, agent: &Agent, now: Monotonic, out: &mut MetaEffects) {
        let Some(node) = self.node_of(member, agent) else {
            return;
        };
        let Some((seat, leader_state)) = self.led() else {
            return;
        };
        let members = seat.raft.members().all();
        leader_state.retain_fills(|member| members.contains(&member));
        if !leader_state.is_fill_due(member, now) {
            return;
        }
        let Some((point, state)) = seat.give() else { return };
        leader_state.on_fill(member, point.clone(), now);
        out.send(
            Contact::Node(node),
            MetaMessage::State {
                from: seat.raft.me(),
                to: member,
                point,
                state,
            },
        );
    }
}

//! From what is to what ought to be, one step at a time.
//!
//! ```text
//!  for each group, the first of these that applies:
//!
//!   too few of its voters can elect a leader ......... end its generation
//!   its generation is over ........................... begin the next with the best of what is left
//!   its majority is gone, and nothing else is ........ the same
//!   nobody leads it, or a change is under way ........ nothing
//!   the state does not know its members .............. report
//!   its leader may stop, and it is whole ............. hand over to a voter that has all
//!   all is paused, or a member may stop, and it is whole  nothing
//!   a member has no memory any more .................. remove it
//!   a learner is not where a target is ............... remove it
//!   its leader is not where a target is .............. hand over to a voter that is, if one has all
//!   a target has nothing ............................. AddReplica, then add it as a learner, as far as the pace allows
//!   a learner on a target is caught up ............... promote it; where a voter is superfluous, in its place
//!   a voter is not where a target is ................. remove it
//!   all is well, but another ought to lead ........... hand over, if its disk is fit, as far as the pace allows
//! ```
//!
//! Rules, which tests hold it to whatever fails meanwhile:
//! 1. No change is asked for unless a majority of the voters before it, and of those behind it, are there and have their
//!    memory.
//! 2. A voter that has its memory leaves only for one that took its place, or when all targets vote.
//! 3. At most one voter leaves at a time.
//! 4. A group grows by two voters at once where it can, so that it seldom has an even number: three voters bear a loss, two and four
//!    bear none, or no more.
//! 5. A group of one or two voters that lost one begins anew only when every other member has said that it knows no leader and
//!    of the loss, and with the one of them whose log is the best: a member more may vote than was reported, never one of
//!    whom nothing was. Then nothing is lost that three voters have acknowledged. One whose disk may lack the end is asked too.
//! 6. A generation is ended by a command, and only if a majority of the voters came back as others, or are below their floors for long
//!    (decision 0046), and nobody who is there leads it or knows who does. The next begins with the best of what is set aside then, if in each configuration that may be in force those of
//!    whom nothing whole was found are no majority; once all have said what they have, or those that have not are missed for long,
//!    and a majority came back as others in each of these configurations (decision 0045).
//! 7. A voter that is there goes only if all voters are there: what nobody needs at once does not make a group weaker than it is.
//! 8. A group with a member that may stop is left alone as it is while all is paused; only its leader may be another one.
//! 9. While all is paused, only groups are changed that have fewer voters than they are to have, or one without memory; and only what is
//!    on nodes that are replaced is placed anew.
//!
//! Draining is this with a node that is to have nothing; replacing is this with one that was silent for long. It is the pace alone
//! that keeps all this from the way of clients. A node that is to leave is told that it may when it holds nothing, and is no member any
//! more when it is silent then.

use crate::command::{MetaCommand, Report};
use crate::given_up::GivenUp;
use crate::goal::NodeGoal;
use crate::group::{Group, GroupMember, GroupRef, MemberRole, majority};
use crate::growth::{found_anew, growth, moved};
use crate::observations::{GroupReport, Observations};
use crate::outage::is_outage;
use crate::permit::{ended, may_add};
use crate::placing::placing;
use crate::recovery_source::RecoverySource;
use crate::state::State;
use crate::step::{Order, ReconcileStep};
use ids::{Epoch, GroupId, Incarnation, NodeId, SemanticsVersion};
use mutations::Mutation;
use std::collections::BTreeMap;
use std::time::Duration;

/// How much may be under way at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Learners on one node that are being filled. The next waits.
    pub learners_of_node_max: usize,
    /// Learners of light groups on one node that are being filled: these count apart, and only here. The next waits.
    pub light_learners_of_node_max: usize,
    /// Leaderships that are handed over for evenness in one look. The next waits.
    pub transfers_max: usize,
    /// A node that is silent for so long is waited for.
    pub away_after: Duration,
    /// A group whose generation is over does not wait for a node that is silent for so long.
    pub miss_after: Duration,
    /// A node that is silent for so long is replaced.
    pub replace_after: Duration,
    /// Newer rules are followed so long after the last node has come to know them: until then nodes can go back to the build that they had.
    pub raise_after: Duration,
    /// Whether groups are added for nodes that come, and partitions are to move to them.
    pub splits: bool,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            learners_of_node_max: 2,
            light_learners_of_node_max: 32,
            transfers_max: 16,
            away_after: Duration::from_secs(2),
            miss_after: Duration::from_secs(30),
            replace_after: Duration::from_secs(600),
            raise_after: Duration::from_secs(600),
            splits: true,
        }
    }
}

/// The next steps. They may all be taken at once, in any order, or not at all.
pub fn steps(state: &State, observations: &Observations, pace: &Pace) -> Vec<ReconcileStep> {
    let mut steps = Vec::new();
    // Targets that are about to change are not worth a move.
    let placing = placing(state, observations, pace);
    let is_settled = placing.is_none();
    if is_settled {
        steps.extend(settle(state));
    }
    steps.extend(placing.map(ReconcileStep::Propose));
    steps.extend(fences(state, observations, pace));
    steps.extend(given_up(state, observations));
    steps.extend(replaced(state, observations, pace));
    steps.extend(resume(state, observations));
    steps.extend(ended(state, observations, pace));
    let leaving = leaving(state, observations, pace).into_iter();
    let leaving: Vec<ReconcileStep> = leaving.filter(|step| !steps.contains(step)).collect();
    steps.extend(leaving);
    steps.extend(raise(state, observations, pace));
    steps.extend(moved(state, observations).map(ReconcileStep::Propose));
    steps.extend(found_anew(state, observations, pace).map(ReconcileStep::Propose));
    if is_settled && pace.splits {
        steps.extend(growth(state, observations, pace).map(ReconcileStep::Propose));
    }
    let mut look = Look {
        state,
        observations,
        pace,
        learners: BTreeMap::new(),
        light_learners: BTreeMap::new(),
        transfers_left: pace.transfers_max,
        led: BTreeMap::new(),
    };
    look.count_learners();
    look.count_led();
    let mut reports = Vec::new();
    let mut order: Vec<(&GroupRef, &Group)> = state.groups.iter().collect();
    // Those that can bear least come first.
    order.sort_by_cached_key(|(name, group)| (look.spare(group), **name));
    for (&name, group) in order {
        if group.is_over() {
            steps.extend(look.next_generation(name, group).map(ReconcileStep::Propose));
            continue;
        }
        // What was seen of a leader that has lost its memory since says no more than what it reports.
        let seen = observations.groups.get(&name).filter(|seen| {
            let report = &seen.report;
            group.is_unheard || report.age() > group.age() || group.member_on(report.leader).is_some()
        });
        let Some(seen) = seen else {
            let next = look.unreported(name, group);
            let next = next.or_else(|| look.beginning_anew(name, group));
            steps.extend(next.map(ReconcileStep::Propose));
            continue;
        };
        let report = &seen.report;
        let is_changing = seen.is_changing && !mutations::is(Mutation::ChangeReportedEarly);
        if group.is_unheard && !mutations::is(Mutation::PlacedWhileLearning) {
            // From here on its members are known, whatever stood there.
            if report.generation >= group.generation && !is_changing {
                reports.push(report.clone());
            }
            continue;
        }
        let is_old = report.age() < group.age();
        // While members change, those who go are still needed: were the change reported, they would be let go of too soon.
        if report.generation != group.generation || is_old || is_changing {
            continue;
        }
        if !is_known(group, report) {
            reports.push(report.clone());
        } else {
            steps.extend(look.step(name, group, seen, is_settled).into_iter().flatten());
        }
    }
    if !reports.is_empty() {
        steps.push(ReconcileStep::Propose(MetaCommand::Report { reports }));
    }
    steps
}

/// Starts of nodes that are replaced are dead: until then groups keep what their gateways have not acknowledged. A node that
/// was only out of reach has to start again.
fn fences(state: &State, observations: &Observations, pace: &Pace) -> Vec<ReconcileStep> {
    let is_outage = is_outage(state, observations, pace);
    let away = state.nodes.iter().filter(|(id, node)| {
        let silence = observations.silence.get(id);
        let is_waited_for = is_outage && state.placed_for.contains(id) || state.has_permit(**id);
        !node.is_fenced && !is_waited_for && silence.is_some_and(|&silent| silent >= pace.replace_after)
    });
    away.map(|(_, node)| ReconcileStep::Propose(MetaCommand::Fence { boot: node.boot }))
        .collect()
}

/// A silent node at whose address another one has joined is gone for good: two cannot listen there. So is one under whose name another
/// one has joined, wherever that is. What it had is given up at once,
/// and when no group has anything of it any more it is no node. So a machine that comes back again and again without its
/// directory leaves no voters behind that never answer. Nor was anybody ever there who has joined at the address of a node that is
/// heard: a request was held up, and its process had ended.
fn replaced(state: &State, observations: &Observations, pace: &Pace) -> Vec<ReconcileStep> {
    let is_away = |id: &NodeId| {
        let silence = observations.silence.get(id);
        silence.is_some_and(|&silent| silent >= pace.away_after)
    };
    let is_heard = |id: &NodeId| {
        let silence = observations.silence.get(id);
        silence.is_some_and(|&silent| silent < pace.away_after)
    };
    let is_gone = |id: &NodeId| {
        let node = &state.nodes[id];
        let mut there = state.nodes.iter().filter(|(other, there)| {
            *other != id && there.announcement.is_same_place(&node.announcement) && !is_away(other)
        });
        there.any(|(&other, there)| {
            let is_namesake = there.announcement.has_name_of(&node.announcement);
            let is_there = there.announcement.peer == node.announcement.peer;
            let has_come_later = is_there && there.joined > Some(node.boot) || is_namesake && other > *id;
            let was_there = there.boot < node.boot && node.joined == Some(node.boot) && is_heard(&other);
            has_come_later || was_there
        })
    };
    let silent = state.nodes.keys().copied().filter(is_away);
    let steps = silent.filter(is_gone).filter_map(|id| {
        let holds = |group: &Group| {
            let member = group.member_on(id);
            member.is_some_and(|member| !group.is_lost(member.incarnation)) || group.expected_on(id).is_some()
        };
        let boot = state.nodes[&id].boot;
        let is_needed = state.groups.values().any(|group| group.involves(id));
        if !state.nodes[&id].is_fenced || state.groups.values().any(holds) {
            state.can_spare(id).then_some(MetaCommand::Gone { boot })
        } else {
            (!is_needed).then_some(MetaCommand::Remove { node: id })
        }
    });
    steps.map(ReconcileStep::Propose).collect()
}

/// A pause that was for some time is over. Who has begun to lead since counts from there.
fn resume(state: &State, observations: &Observations) -> Option<ReconcileStep> {
    let pause = state.pause?;
    let is_over = pause.is_over(observations.paused_for?);
    is_over.then_some(ReconcileStep::Propose(MetaCommand::Resume {
        of: Some(pause.since),
    }))
}

/// Every node can follow newer rules, those that are away too, since they come back with the build they had; and could for so long that nobody
/// is about to go back. Who has begun to lead since counts from there. An operator need not wait.
fn raise(state: &State, observations: &Observations, pace: &Pace) -> Option<ReconcileStep> {
    let to = state.semantics_possible();
    let is_due = observations
        .raisable_for
        .is_some_and(|known| known >= pace.raise_after);
    (to > state.semantics && is_due).then_some(ReconcileStep::Propose(MetaCommand::RaiseSemantics { to }))
}

/// What was placed anew, or for another number of replicas, is where it is to be.
fn settle(state: &State) -> Vec<ReconcileStep> {
    let rebalance = state.rebalance.filter(|rebalance| rebalance.is_placed);
    let resize = state.resize.filter(|_| state.is_placed_for_wanted());
    let wanted = [
        rebalance.map(|rebalance| rebalance.since),
        resize.map(|resize| resize.since),
    ];
    let wanted: Vec<Epoch> = wanted.into_iter().flatten().collect();
    if wanted.is_empty() || state.moves_left() > 0 {
        return Vec::new();
    }
    let settle = |since| ReconcileStep::Propose(MetaCommand::Settle { since });
    wanted.into_iter().map(settle).collect()
}

/// Nodes that are to leave and hold nothing may go; those that have gone are no members. Until its process has ended a node serves
/// clients, and its transactions must not count as those of a dead one.
fn leaving(state: &State, observations: &Observations, pace: &Pace) -> Vec<ReconcileStep> {
    let steps = state.nodes.iter().filter_map(|(&node, known)| match known.goal {
        NodeGoal::Stays | NodeGoal::Drains => None,
        NodeGoal::Leaves => {
            let may_go = !state.holds_anything(node) && state.pause.is_none();
            may_go.then_some(MetaCommand::Dismiss { node })
        }
        NodeGoal::Left => {
            let silence = observations.silence.get(&node);
            let is_away = silence.is_some_and(|&silent| silent >= pace.away_after);
            let may_be = !state.holds_anything(node) && state.nodes.len() > 1;
            (is_away && may_be).then_some(MetaCommand::Remove { node })
        }
    });
    steps.map(ReconcileStep::Propose).collect()
}

/// Replicas that were given up have no memory any more. Several nodes may say it of the same one.
fn given_up(state: &State, observations: &Observations) -> Vec<ReconcileStep> {
    let mut named = observations.given_up.clone();
    named.sort_unstable();
    named.dedup();
    let is_its = |given_up: &GivenUp| {
        let group = state.groups.get(&GroupRef::Data(given_up.group));
        let group = group.filter(|group| group.generation == given_up.generation);
        let member = group.and_then(|group| group.member_on(given_up.node));
        let is_there = member.is_some_and(|member| member.incarnation == given_up.incarnation);
        is_there && group.is_some_and(|group| group.has_majority_without(given_up.incarnation))
    };
    let propose = |given_up: GivenUp| {
        ReconcileStep::Propose(MetaCommand::GiveUp {
            group: GroupRef::Data(given_up.group),
            node: given_up.node,
            incarnation: given_up.incarnation,
        })
    };
    named.into_iter().filter(is_its).map(propose).collect()
}

/// Whether the state has it as the leader says. What a group began with is to be reported once, too, and so is a later place
/// of the same members, as the end of a joint change has: the leader takes no order that was made for an earlier one.
pub(crate) fn is_known(group: &Group, report: &Report) -> bool {
    let is_same = group.members == report.members || {
        let mut members = report.members.clone();
        members.sort_unstable();
        group.members == members
    };
    is_same && group.leader == Some(report.leader) && group.index > 0 && group.index == report.index
}

struct Look<'a> {
    state: &'a State,
    observations: &'a Observations,
    pace: &'a Pace,
    /// By node, the learners of heavy groups that are being filled, and of light ones.
    learners: BTreeMap<NodeId, usize>,
    light_learners: BTreeMap<NodeId, usize>,
    transfers_left: usize,
    /// By node, how many groups it leads, those included that are handed over to it.
    led: BTreeMap<NodeId, usize>,
}

impl Look<'_> {
    /// One that is waited for holds nobody up, and neither does one that is filled and waits for another one: two groups
    /// could wait for each other's. Nor does one of a group that stands still: it may do so until an operator decides.
    fn count_learners(&mut self) {
        for (name, group) in &self.state.groups {
            if self.is_stuck(group, &[], &[]) {
                continue;
            }
            let seen = self.observations.groups.get(name);
            let (caught_up, is_light) = (
                seen.map(|seen| &seen.caught_up),
                seen.is_some_and(|seen| seen.is_light),
            );
            let learners = group.members.iter().filter(|member| {
                member.role == MemberRole::Learner
                    && !caught_up.is_some_and(|caught_up| caught_up.contains(&member.incarnation))
            });
            let expected = group.expected.iter().map(|expected| expected.node);
            for node in learners.map(|member| member.node).chain(expected) {
                if self.is_there(node) {
                    self.add_learner(node, is_light);
                }
            }
        }
    }

    fn add_learner(&mut self, node: NodeId, is_light: bool) {
        if is_light {
            *self.light_learners.entry(node).or_default() += 1;
        } else {
            *self.learners.entry(node).or_default() += 1;
        }
    }

    fn has_room(&self, node: NodeId, is_light: bool) -> bool {
        let on_node = |learners: &BTreeMap<NodeId, usize>| learners.get(&node).copied().unwrap_or(0);
        if is_light {
            return on_node(&self.light_learners) < self.pace.light_learners_of_node_max;
        }
        on_node(&self.learners) < self.pace.learners_of_node_max
    }

    fn is_there(&self, node: NodeId) -> bool {
        let silence = self.observations.silence.get(&node);
        silence.is_some_and(|&silence| silence < self.pace.away_after)
    }

    fn is_missed(&self, node: NodeId) -> bool {
        let silence = self.observations.silence.get(&node);
        silence.is_some_and(|&silence| silence >= self.pace.miss_after)
    }

    fn is_live(&self, group: &Group, member: &GroupMember) -> bool {
        self.is_there(member.node) && !group.is_lost(member.incarnation)
    }

    /// How many more voters the group can lose.
    fn spare(&self, group: &Group) -> usize {
        let live = group.voters().filter(|voter| self.is_live(group, voter)).count();
        live.saturating_sub(majority(group.voters().count()))
    }

    fn step(
        &mut self,
        name: GroupRef,
        group: &Group,
        seen: &GroupReport,
        is_settled: bool,
    ) -> Option<Vec<ReconcileStep>> {
        let step = |order| {
            Some(vec![ReconcileStep::Order {
                group: name,
                generation: group.generation,
                index: group.index,
                order,
            }])
        };
        if self.is_stuck(group, &[], &[]) {
            return None;
        }
        let mut members = group.members.iter();
        if members.any(|member| self.state.has_permit(member.node)) && self.is_whole(group) {
            let to = self.before_stop(group, seen)?;
            self.count_leader(group, to);
            return step(Order::Transfer { to });
        }
        if self.state.pause.is_some() && (self.is_whole(group) || mutations::is(Mutation::PauseStopsRepair)) {
            return None;
        }
        let is_target = |node: NodeId| group.targets.contains(&node);
        let remove = |member: &GroupMember| Order::Change {
            promote: Vec::new(),
            remove: vec![member.incarnation],
        };
        let lost = group
            .members
            .iter()
            .find(|member| group.is_lost(member.incarnation));
        if let Some(lost) = lost {
            return step(remove(lost));
        }
        if !is_settled {
            return None;
        }
        let mut learners = group
            .members
            .iter()
            .filter(|member| member.role == MemberRole::Learner);
        if let Some(stray) = learners.find(|member| !is_target(member.node)) {
            return step(remove(stray));
        }
        if !is_target(seen.report.leader)
            && let Some(to) = self.next_leader(group, seen)
        {
            if self.transfers_left == 0 {
                return None;
            }
            self.transfers_left -= 1;
            self.count_leader(group, to);
            return step(Order::Transfer { to });
        }
        let filling = self.fill(name, group, seen);
        if !filling.is_empty() {
            return Some(filling);
        }
        if let Some(change) = self.promotion(group, seen) {
            return step(change);
        }
        let votes = |node: NodeId| group.voters().any(|voter| voter.node == node);
        if !group.targets.iter().all(|&node| votes(node)) && !mutations::is(Mutation::LastVoterDrained) {
            return None;
        }
        let mut superfluous: Vec<&GroupMember> =
            group.voters().filter(|voter| !is_target(voter.node)).collect();
        // Those that are away first: who is there may be needed.
        superfluous.sort_by_key(|voter| self.is_live(group, voter));
        let leads = |voter: &&&GroupMember| voter.node == seen.report.leader;
        if let Some(voter) = superfluous.iter().find(|voter| !leads(voter)) {
            let is_safe = !self.is_stuck(group, &[], &[voter.incarnation])
                && (self.can_do_without(group, voter) && self.may_let_go(group, voter)
                    || mutations::is(Mutation::LastVoterDrained));
            return is_safe.then(|| step(remove(voter))).flatten();
        }
        if !superfluous.is_empty() {
            // It leads, and nobody could take over yet.
            return None;
        }
        let wanted = group.leader_target.filter(|&node| node != seen.report.leader)?;
        let is_healthy = group
            .voters()
            .all(|voter| self.is_live(group, voter) && seen.caught_up.contains(&voter.incarnation));
        if !is_healthy || self.transfers_left == 0 {
            return None;
        }
        let to = self.successor(group, seen, &[wanted])?;
        self.transfers_left -= 1;
        self.count_leader(group, to);
        step(Order::Transfer { to })
    }

    /// Who is to lead in place of one that may stop at any moment.
    fn before_stop(&mut self, group: &Group, seen: &GroupReport) -> Option<Incarnation> {
        if !self.state.may_stop(seen.report.leader) || self.transfers_left == 0 {
            return None;
        }
        let voters: Vec<NodeId> = group.voters().map(|voter| voter.node).collect();
        let to = self.successor(group, seen, &voters);
        let to = to.or_else(|| self.any_successor(group, seen, &voters))?;
        self.transfers_left -= 1;
        Some(to)
    }

    /// Who is to lead in place of one that is not where a target is: who ought to, or whoever leads least. One whose disk is not fit gives
    /// it away again at once, and is asked only when nobody else is to come.
    fn next_leader(&self, group: &Group, seen: &GroupReport) -> Option<Incarnation> {
        let votes = |node: &NodeId| group.voters().any(|voter| voter.node == *node);
        let has_all = group.targets.iter().all(votes);
        let wanted = group.leader_target.filter(|&node| node != seen.report.leader);
        let wanted = wanted.and_then(|node| self.successor(group, seen, &[node]));
        wanted
            .or_else(|| self.successor(group, seen, &group.targets))
            .or_else(|| {
                self.any_successor(group, seen, &group.targets)
                    .filter(|_| has_all)
            })
    }

    fn count_led(&mut self) {
        for seen in self.observations.groups.values() {
            *self.led.entry(seen.report.leader).or_default() += 1;
        }
    }

    fn count_leader(&mut self, group: &Group, to: Incarnation) {
        let mut members = group.members.iter();
        if let Some(member) = members.find(|member| member.incarnation == to) {
            *self.led.entry(member.node).or_default() += 1;
        }
    }

    /// Whether it has as many voters as it is to have whose memory is there, or may come back.
    fn is_whole(&self, group: &Group) -> bool {
        let stays = |voter: &&GroupMember| {
            let node = self.state.nodes.get(&voter.node);
            !group.is_lost(voter.incarnation) && node.is_some_and(|node| !node.is_fenced)
        };
        group.lost.is_empty() && group.voters().filter(stays).count() >= group.targets.len()
    }

    /// Whether a voter may go that is not needed: one that is there does only if all are.
    fn may_let_go(&self, group: &Group, voter: &GroupMember) -> bool {
        let mut voters = group.voters();
        !self.is_live(group, voter) || voters.all(|voter| self.is_live(group, voter))
    }

    /// Whether the group can bear a loss without this voter, if it can with it and is to in the end: a node may have died without
    /// having been missed yet.
    fn can_do_without(&self, group: &Group, voter: &GroupMember) -> bool {
        let mut without = group.clone();
        without
            .members
            .retain(|member| member.incarnation != voter.incarnation);
        let in_the_end = group.targets.len() - majority(group.targets.len());
        self.spare(&without) >= self.spare(group).min(in_the_end).min(1)
    }

    /// Whether there is no majority that could make this change, or none behind it.
    fn is_stuck(&self, group: &Group, promote: &[Incarnation], remove: &[Incarnation]) -> bool {
        // Of those who vote before it, and behind it: how many they are, and how many are live.
        let (mut before, mut behind) = ((0, 0), (0, 0));
        for member in &group.members {
            let live = usize::from(self.is_live(group, member));
            let votes = member.role == MemberRole::Voter;
            if votes {
                before = (before.0 + 1, before.1 + live);
            }
            let stays = votes && !remove.contains(&member.incarnation);
            if stays || promote.contains(&member.incarnation) {
                behind = (behind.0 + 1, behind.1 + live);
            }
        }
        [before, behind]
            .iter()
            .any(|&(count, live)| live < majority(count))
    }

    /// What those who are left of a group have applied as its configuration, if it is a later one than was reported and too few
    /// of its voters have their memory. What was applied was committed, so the latest place tells what is true; and if one is
    /// later than the report, one of a majority of the voters that were reported has applied it, or applies it and leads no more.
    fn unreported(&self, name: GroupRef, group: &Group) -> Option<MetaCommand> {
        let GroupRef::Data(number) = name else {
            return None;
        };
        let recovery_sources = self.observations.recovery_sources.iter();
        let of_group = recovery_sources.filter(|recovery_source| {
            recovery_source.group == number
                && recovery_source.generation == group.generation
                && self.is_there(recovery_source.node)
        });
        let latest = of_group.max_by_key(|recovery_source| {
            let applied = recovery_source.unreported.as_ref();
            applied.map(|configuration| configuration.index)
        });
        let configuration = latest?.standstill(group)?;
        (!mutations::is(Mutation::UnreportedPassedOver)).then_some(MetaCommand::Unreported {
            group: name,
            generation: group.generation,
            configuration,
        })
    }

    /// How a group that has lost one of its one or two voters goes on, if nothing can be lost by that.
    ///
    /// It may have more voters than it has reported, all of them learners in the report: whatever a majority of three has
    /// acknowledged, one of the others has, and the best log of all of them has it. What a voter alone has acknowledged and
    /// told nobody is lost with its memory, whatever is done. Where that does not tell enough, and where more voters are lost, its
    /// generation ends first.
    fn beginning_anew(&self, name: GroupRef, group: &Group) -> Option<MetaCommand> {
        let GroupRef::Data(number) = name else {
            return None;
        };
        if group.is_unheard {
            return None;
        }
        let is_nobody_left = group.lost.len() == group.members.len();
        let is_lost = |member: &&GroupMember| group.is_lost(member.incarnation);
        let is_stranded = group.is_stranded() || self.is_stranded_below_floors(number, group);
        let ending = || is_stranded.then(|| self.ending(number, group)).flatten();
        // With one voter lost of one or two it may be enough to ask those who are left.
        let count = group.voters().count();
        let is_asked_first = count <= 2 && group.voters().filter(is_lost).count() == 1 && !is_nobody_left;
        if count > 2 || !is_asked_first && is_stranded {
            return ending();
        }
        let mut lost_voters = group.voters().filter(is_lost);
        let (Some(lost), None) = (lost_voters.next(), lost_voters.next()) else {
            return None;
        };
        let knows = |recovery_source: &&RecoverySource| {
            recovery_source.group == number
                && recovery_source.lost_voter == Some(lost.incarnation)
                && self.is_there(recovery_source.node)
        };
        let recovery_sources = || self.observations.recovery_sources.iter().filter(knows);
        let left = group.members.iter().filter(|member| !is_lost(member));
        let said = left.map(|member| {
            recovery_sources().find(|recovery_source| {
                recovery_source.generation == group.generation
                    && (recovery_source.node, recovery_source.incarnation)
                        == (member.node, member.incarnation)
            })
        });
        // Where nobody is left, those are asked who have kept what they held before the group began anew.
        let former = group.former.iter().map(|&node| {
            recovery_sources().find(|recovery_source| {
                let is_former = recovery_source.is_aside && recovery_source.generation < group.generation;
                recovery_source.node == node && is_former
            })
        });
        // One that has lost its memory may have most of it on its disk, and is asked as those are that are left. Where its node keeps
        // something from before the group began anew, that is all it has: a node keeps one log of a group.
        let unclean = group
            .former
            .iter()
            .filter(|node| lost.node == **node)
            .filter_map(|&node| {
                let mut its = recovery_sources().filter(|recovery_source| recovery_source.node == node);
                let its_own = its.clone().find(|its| its.incarnation == lost.incarnation);
                let keeps_another = its.any(|its| its.is_aside && its.incarnation != lost.incarnation);
                (its_own.is_some() || !keeps_another).then_some(its_own)
            });
        let unclean: Vec<Option<&RecoverySource>> = unclean.collect();
        // Those who are left may vote by what nobody has reported, and one of them may come to lead after all were asked. What it acknowledges
        // then is not in the log of one that came back: that is looked at when the generation has ended.
        if !is_nobody_left && unclean.iter().any(Option::is_some) && !mutations::is(Mutation::AskedForGood) {
            return ending();
        }
        let asked: Vec<Option<&RecoverySource>> = match is_nobody_left {
            true => former.collect(),
            false => said.chain(unclean).collect(),
        };
        if asked.iter().any(Option::is_none) && !mutations::is(Mutation::NotAllAsked) {
            return None;
        }
        // Who lacks what he had once is asked in vain: his log may be the best and lack what was acknowledged.
        if asked.iter().flatten().any(|said| !said.is_whole) {
            return ending();
        }
        let said = asked.into_iter().flatten();
        let best = said.max_by_key(|said| (said.generation, said.term, said.last))?;
        let has_nothing = best.last == consensus::Index(0);
        // A learner that has lost its memory may have voted. What is set aside tells whether one has.
        if group.lost.len() > 1 && !has_nothing {
            return ending();
        }
        Some(MetaCommand::Recover {
            group: name,
            node: best.node,
            recovery_source: (!has_nothing).then_some(best.incarnation),
        })
    }

    /// Whether voters that came back as others, and voters below their floors, leave no majority that could elect anybody, although
    /// enough whole logs are left to go on with. A log that reaches a floor ends that within a few elections, so this is said of a
    /// group whose members have all been up, and without a leader, for as long as a missing one is waited for.
    fn is_stranded_below_floors(&self, number: GroupId, group: &Group) -> bool {
        if self.state.semantics() < SemanticsVersion::ENDED_BELOW_FLOORS {
            return false;
        }
        let lasts = |time: Option<&Duration>| time.is_some_and(|&time| time >= self.pace.miss_after);
        let is_up = |member: &GroupMember| lasts(self.observations.up_for.get(&member.node));
        let unled_for = self.observations.unled_for.get(&GroupRef::Data(number));
        if !lasts(unled_for) || !group.members.iter().all(is_up) {
            return false;
        }
        let is_below = |voter: &&GroupMember| {
            let said = self.said_by(number, group, voter);
            !group.is_lost(voter.incarnation) && said.is_some_and(|said| !said.is_whole)
        };
        let count = group.voters().count();
        let lost = group
            .voters()
            .filter(|voter| group.is_lost(voter.incarnation))
            .count();
        let below = group.voters().filter(is_below).count();
        let can_elect = count - lost - below;
        below > 0 && can_elect < majority(count) && group.emptied().count() + below < majority(count)
    }

    /// What a member that knows no leader says of itself.
    fn said_by(&self, number: GroupId, group: &Group, member: &GroupMember) -> Option<&RecoverySource> {
        let mut said = self.observations.recovery_sources.iter();
        said.find(|said| {
            let is_its = (said.group, said.generation) == (number, group.generation);
            is_its && (said.node, said.incarnation) == (member.node, member.incarnation)
        })
    }

    /// The end of a generation that stands still, if everybody who is left knows no leader, or is missed while a majority came back as
    /// others. One that leads in a configuration which nobody has reported may be among those that are missed, and lose nothing by
    /// this but time: what it has acknowledged, others have, who are asked.
    fn ending(&self, number: GroupId, group: &Group) -> Option<MetaCommand> {
        if mutations::is(Mutation::NotEndedFirst) {
            return self.next_generation(GroupRef::Data(number), group);
        }
        let lost = group.voters().filter(|voter| group.is_lost(voter.incarnation));
        let is_majority_lost = lost.count() >= majority(group.voters().count());
        let mut left = group
            .members
            .iter()
            .filter(|member| !group.is_lost(member.incarnation));
        left.all(|member| match self.is_there(member.node) {
            true => self.said_by(number, group, member).is_some(),
            false => is_majority_lost && self.is_missed(member.node),
        })
        .then_some(MetaCommand::End {
            group: GroupRef::Data(number),
            generation: group.generation,
        })
    }

    /// How a group goes on whose generation is over, once enough is known of what is left of it.
    fn next_generation(&self, name: GroupRef, group: &Group) -> Option<MetaCommand> {
        let GroupRef::Data(number) = name else {
            return None;
        };
        if group.is_unheard {
            return None;
        }
        // What was said before the end binds nobody.
        let is_bound = |said: &RecoverySource| {
            said.is_aside && said.generation < group.generation
                || mutations::is(Mutation::ReportBindsNobody)
                || mutations::is(Mutation::NotEndedFirst)
        };
        let said = self.observations.recovery_sources.iter();
        let said: Vec<&RecoverySource> = said
            .filter(|said| said.group == number && is_bound(said) && self.is_there(said.node))
            .collect();
        let has_said = |node: &NodeId| said.iter().any(|said| said.node == *node);
        let is_missing = |node: &&NodeId| !has_said(node);
        let mut missing = group.former.iter().filter(is_missing).peekable();
        let have_all = missing.peek().is_none();
        if !missing.all(|&node| self.is_missed(node)) {
            return None;
        }
        // Who came back with nothing, or lacks what it had once, counts as nobody: what it had synced may be left with one of the others
        // alone.
        let is_whole = |voter: &Incarnation| {
            let has_log = |said: &&RecoverySource| {
                said.incarnation == *voter && said.last > consensus::Index(0) && said.is_whole
                    || mutations::is(Mutation::EmptyCounts)
            };
            said.iter().any(has_log)
        };
        let reported: Vec<Incarnation> = group.voters().map(|voter| voter.incarnation).collect();
        let later = said.iter().flat_map(|said| said.in_question(group));
        let later = later.filter(|_| !mutations::is(Mutation::LaterMembersPassedOver));
        let mut in_question = std::iter::once(reported.as_slice()).chain(later);
        let is_enough = in_question.all(|voters| {
            let whole = voters.iter().filter(|voter| is_whole(voter)).count();
            let lost = voters.iter().filter(|voter| group.is_lost(**voter)).count();
            voters.len() - whole < majority(voters.len()) && (have_all || lost >= majority(voters.len()))
        });
        let best = said
            .iter()
            .max_by_key(|said| (said.generation, said.term, said.last))?;
        (is_enough && best.last > consensus::Index(0)).then_some(MetaCommand::Recover {
            group: name,
            node: best.node,
            recovery_source: Some(best.incarnation),
        })
    }

    /// A learner for a target that has nothing. A group takes one in at a time; the replicas of several are made at once.
    fn fill(&mut self, name: GroupRef, group: &Group, seen: &GroupReport) -> Vec<ReconcileStep> {
        let mut made = Vec::new();
        for &node in &group.targets {
            let is_safe = !self.state.may_stop(node) && may_add(self.state, group, node);
            if group.member_on(node).is_some() || !self.is_there(node) || !is_safe {
                continue;
            }
            if let Some(expected) = group.expected_on(node) {
                let order = Order::AddLearner {
                    node,
                    incarnation: expected.incarnation,
                };
                return vec![ReconcileStep::Order {
                    group: name,
                    generation: group.generation,
                    index: group.index,
                    order,
                }];
            }
            if self.has_room(node, seen.is_light) {
                self.add_learner(node, seen.is_light);
                made.push(ReconcileStep::Propose(MetaCommand::AddReplica {
                    group: name,
                    node,
                }));
            }
        }
        made
    }

    /// Learners that become voters, each in the place of a superfluous one as long as there are such.
    fn promotion(&self, group: &Group, seen: &GroupReport) -> Option<Order> {
        let ready: Vec<&GroupMember> = group
            .members
            .iter()
            .filter(|member| {
                member.role == MemberRole::Learner
                    && self.is_live(group, member)
                    && seen.caught_up.contains(&member.incarnation)
            })
            .collect();
        let first = ready.first()?.incarnation;
        let voters: Vec<&GroupMember> = group.voters().collect();
        // The one that is away goes first: it may be why there is somebody new.
        let superfluous = voters
            .iter()
            .filter(|voter| !group.targets.contains(&voter.node) && voter.node != seen.report.leader)
            .min_by_key(|voter| self.is_live(group, voter));
        let is_let_go = superfluous.is_none_or(|voter| self.may_let_go(group, voter));
        let missing = group
            .targets
            .iter()
            .filter(|&&node| !voters.iter().any(|voter| voter.node == node) && self.is_there(node))
            .count();
        let (promote, remove) = match superfluous.filter(|_| voters.len() > 2) {
            // While targets are fewer than voters somebody is to go anyway. Of two nobody goes before a third votes: if the new
            // one died meanwhile, no majority would be left.
            Some(_) if !is_let_go => return None,
            Some(voter) => (vec![first], vec![voter.incarnation]),
            None if voters.len() % 2 == 1 && missing >= 2 => match ready.as_slice() {
                [one, two, ..] => (vec![one.incarnation, two.incarnation], Vec::new()),
                _ => return None,
            },
            None => (vec![first], Vec::new()),
        };
        let is_safe = !self.is_stuck(group, &promote, &remove);
        is_safe.then_some(Order::Change { promote, remove })
    }

    /// A voter on one of these nodes that could lead at once, with a disk that is fit for it: else it would give leadership away.
    fn successor(&self, group: &Group, seen: &GroupReport, nodes: &[NodeId]) -> Option<Incarnation> {
        let is_fit = |node: &NodeId| {
            let member = group.member_on(*node);
            member.is_some_and(|member| !seen.unfit.contains(&member.incarnation))
        };
        let fit: Vec<NodeId> = nodes.iter().copied().filter(is_fit).collect();
        self.any_successor(group, seen, &fit)
    }

    /// A voter on one of these nodes that could lead at once.
    fn any_successor(&self, group: &Group, seen: &GroupReport, nodes: &[NodeId]) -> Option<Incarnation> {
        let fit = group.voters().filter(|voter| {
            nodes.contains(&voter.node)
                && voter.node != seen.report.leader
                && self.is_live(group, voter)
                && !self.state.may_stop(voter.node)
                && seen.caught_up.contains(&voter.incarnation)
        });
        let least = fit.min_by_key(|voter| self.led.get(&voter.node).copied().unwrap_or_default());
        least.map(|voter| voter.incarnation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Any.
    const NAME: GroupRef = GroupRef::Meta;

    fn member(node: u64) -> GroupMember {
        GroupMember {
            incarnation: Incarnation(node),
            node: NodeId(node),
            role: MemberRole::Voter,
        }
    }

    /// Two nodes have it, and the first one is to.
    fn group() -> Group {
        Group {
            term: 1,
            index: 1,
            members: vec![member(1), member(2)],
            leader: Some(NodeId(1)),
            targets: vec![NodeId(1)],
            ..Group::default()
        }
    }

    /// What its leader says.
    fn seen(group: &Group) -> GroupReport {
        GroupReport {
            report: Report {
                group: NAME,
                generation: group.generation,
                term: group.term,
                index: group.index,
                members: group.members.clone(),
                leader: NodeId(1),
            },
            caught_up: [1, 2].map(Incarnation).into(),
            unfit: BTreeSet::new(),
            is_changing: false,
            is_light: true,
            hosted: Vec::new(),
        }
    }

    /// Whether the look only writes the report down, if anything; none if there is nothing to do.
    fn is_reported(group: Group, seen: GroupReport) -> Option<bool> {
        let mut state = State::default();
        state.groups.insert(NAME, group);
        let mut observations = Observations::default();
        observations.groups.insert(NAME, seen.into());
        let silence = [1, 2].map(|node| (NodeId(node), Duration::ZERO));
        observations.silence.extend(silence);
        let steps = steps(&state, &observations, &Pace::default());
        let is_report =
            |step: &ReconcileStep| matches!(step, ReconcileStep::Propose(MetaCommand::Report { .. }));
        (!steps.is_empty()).then(|| steps.iter().all(is_report))
    }

    #[test]
    fn of_a_group_that_was_not_heard_since_the_meta_group_began_anew_nothing_changes() {
        let unheard = || {
            let group = Group {
                is_unheard: true,
                ..group()
            };
            let seen = seen(&group);
            is_reported(group, seen)
        };
        assert_eq!(unheard(), Some(true));
        mutations::plant(Some(Mutation::PlacedWhileLearning));
        let placed = unheard();
        mutations::plant(None);
        assert_eq!(placed, Some(false), "the mistake is noticed");
    }

    #[test]
    fn a_change_of_members_counts_when_it_is_committed() {
        let changed = |is_changing| {
            let group = group();
            let mut seen = seen(&group);
            seen.report.index += 1;
            seen.report.members.retain(|member| member.node == NodeId(1));
            seen.is_changing = is_changing;
            is_reported(group, seen)
        };
        assert_eq!((changed(true), changed(false)), (None, Some(true)));
        mutations::plant(Some(Mutation::ChangeReportedEarly));
        let early = changed(true);
        mutations::plant(None);
        assert_eq!(
            early,
            Some(true),
            "the mistake is noticed: its second node would let go of what may still be needed"
        );
    }
}

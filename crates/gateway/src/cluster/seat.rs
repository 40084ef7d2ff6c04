//! The place of one group's replica on this node: which replica sits there, which did before, and what is to become of it.

use super::boots::Boots;
use super::visits::QUIET_MAX;
use super::{GroupLayout, HandoverImage, Layout};
use consensus::{Config, Durability, Index, Members, RaftNode, Saved, SnapshotPoint, Term, Times};
use control::{Configuration, GroupRef, GroupReport, MemberRole, Order, RecoverySource, Report};
use ids::{GroupId, Incarnation, Monotonic, NodeId};
use mutations::Mutation;
use replica::{Effects, Input, LogBase, Member, MemberCounts, Replica, Request, Turn};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A learner that the map does not name for so long is not wanted any more: a map that does is under way for no longer than a
/// node's heartbeats take to ask for it.
const STRANGER_PATIENCE: Duration = Duration::from_secs(3);

/// How long after leadership was handed over that is tried again, if it is here still, or again.
const HAND_OVER_AGAIN: Duration = Duration::from_secs(2);

/// Entries by which a member may lag and still count as caught up. One that has nothing never does, however short the log is: as a
/// voter it would be counted on, and its node may be gone already.
const LAG_MAX: u64 = 64;

/// As whom, and in which term, a replica leads; none if it does not.
pub(super) type LeaderTerm = Option<(Incarnation, Term)>;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Seat {
    /// The replica here, if there is one.
    pub(super) incarnation: Option<Incarnation>,
    /// The last replica that was here of which a step has panicked: the seat is empty until the cluster names another one.
    broken: Option<Incarnation>,
    /// The last replica that was here and that was given up because its state differed from that of most others. The meta group is
    /// to give the node another one.
    given_up: Option<Incarnation>,
    /// Why the replica here has stopped, for operators.
    pub(super) stopped: Option<String>,
    /// The term of the replica that was here.
    left_in: Term,
    /// In which term, and as whom, this replica last asked that the group be told who is dead, and by which boots. What was asked for in
    /// another term may have come to nothing.
    pub(super) fenced: Option<(LeaderTerm, Arc<Boots>)>,
    /// What the members before this one did.
    past: MemberCounts,
    /// The term in which leadership was offered to another, because the node stops, and to whom.
    resigned: Option<(Term, Incarnation)>,
    /// When leadership may be handed over for the sake of the disk.
    hand_over_at: Monotonic,
    /// Where the learners are that this leader was told to add. The map may have let go of one since, if its node is no
    /// target any more: it is to be reported all the same, so that it is removed. As many as it has members at most.
    added: BTreeMap<Incarnation, NodeId>,
    /// Since when this leader has had learners of which nobody has said where they are.
    strangers_since: Option<Monotonic>,
    /// The replica is to begin its group anew with the state that is here, and its former self has promised a leader until then
    /// that nobody else leads.
    pub(super) recovered: Option<(Incarnation, Monotonic)>,
    /// What was held here before the group began anew without it, or what an earlier process kept and may lack the end of: the last
    /// such, as long as the map asks for it.
    former: Option<Former>,
    /// The replica here goes on with a state that is being read from disk: until that is there the seat is empty.
    is_awaited: bool,
}

/// A replica that has no part in its group any more, whose data may be needed still ([`Replica::set_aside`]).
struct Former {
    incarnation: Incarnation,
    /// The group's, as it was then.
    generation: u64,
    /// None of one that has nothing, and says so.
    rest: Option<(SnapshotPoint, Saved)>,
    /// The last entry of its log, and up to where that is applied.
    term: Term,
    last: Index,
    applied: Index,
    /// Whether the log lacks nothing that was in it once.
    is_whole: bool,
    /// Whether it is to be synced, and was not asked to be yet.
    is_to_sync: bool,
    /// Under which number it is to be synced: nothing is said of it before.
    awaits_sync: Option<u64>,
}

impl Former {
    fn of(incarnation: Incarnation, generation: u64, rest: (SnapshotPoint, Saved)) -> Former {
        let (point, saved) = &rest;
        let last = saved.entries.last();
        Former {
            incarnation,
            generation,
            term: last.map_or(point.term, |last| last.term),
            last: last.map_or(point.index, |last| last.index),
            applied: saved.hard_state.commit.max(point.index),
            is_whole: saved.floor.is_none(),
            rest: Some(rest),
            is_to_sync: false,
            awaits_sync: None,
        }
    }
}

impl Seat {
    /// What the last life of the process left of this group is there but for the state, which is being read. Whether that is of use
    /// when it comes.
    ///
    /// Whoever goes on with it takes part in nothing before: under its name it has voted, and acknowledged. What is set aside is told of
    /// at once, since others begin the group anew without those who say nothing.
    pub(super) fn awaits(
        &mut self,
        kept: &mut HandoverImage,
        layout: &Layout,
        replica: &mut Replica,
    ) -> bool {
        let group = layout.group(replica.group());
        let incarnation = group.seat_on(layout.me);
        let founds = incarnation.is_some() && group.bootstrap_replica == incarnation;
        let is_recovered = founds && group.recovered_from == Some(kept.incarnation);
        let Some(rest) = kept.rest.take() else {
            // It is told of.
            let former = self.former.as_ref();
            let is_told = former.is_some_and(|former| former.incarnation == kept.incarnation);
            self.set_awaited(is_told && is_recovered, replica);
            return is_told && (is_recovered || group.former.contains(&layout.me));
        };
        self.set_awaited(incarnation == Some(kept.incarnation) || is_recovered, replica);
        if self.is_awaited {
            kept.rest = Some(rest);
            return true;
        }
        self.tell_of_former(kept.incarnation, kept.generation, rest, group, layout.me)
    }

    fn set_awaited(&mut self, is_awaited: bool, replica: &mut Replica) {
        self.is_awaited = is_awaited;
        if is_awaited && !replica.has_log() {
            // Nothing is carried out on the empty state that is here.
            replica.give_log();
        }
    }

    /// Whether its replica goes on with a state that is not there yet.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Begins with what the last life of the process left of this group, or with what was set aside in this generation, if it is
    /// the same replica still.
    #[expect(clippy::too_many_arguments, reason = "what a replica begins with")]
    pub(super) fn go_on(
        &mut self,
        mut kept: HandoverImage,
        generation: Option<u64>,
        layout: &Layout,
        replica: &mut Replica,
        turn: &Turn,
        seed: u64,
        now: Monotonic,
    ) {
        self.is_awaited = false;
        let Some(keyspace) = kept.keyspace.take() else {
            return;
        };
        if kept.rest.is_none() && kept.generation.is_some() {
            // It was told of before it was read.
            let former = self.former.as_ref();
            match former.is_some_and(|former| former.incarnation == kept.incarnation) {
                true => replica.put_aside(keyspace),
                false => replica.free(keyspace),
            }
            return;
        }
        let group = layout.group(replica.group());
        let incarnation = group.seat_on(layout.me);
        let is_recovered =
            group.bootstrap_replica == incarnation && group.recovered_from == Some(kept.incarnation);
        if incarnation != Some(kept.incarnation) && !is_recovered {
            let told = kept
                .rest
                .map(|rest| self.tell_of_former(kept.incarnation, kept.generation, rest, group, layout.me));
            match told == Some(true) {
                true => replica.put_aside(keyspace),
                false => replica.free(keyspace),
            }
            return;
        }
        // What was handed over is on no disk that this process writes to, whatever the mode is now.
        let base = match kept.generation {
            Some(_) => LogBase::Stored,
            None => LogBase::New,
        };
        let config = kept.config(layout.persistence(), layout.boot, seed);
        replica.restore(keyspace);
        let Some(config) = config else {
            // It is the only voter, and begins its log where its data are. As one that was recovered it may not have waited for long enough.
            let until = now.after(Times::DEFAULT.election_min);
            self.recovered = incarnation
                .filter(|_| group.recovered_from.is_some())
                .map(|me| (me, until));
            self.incarnation = self.recovered.map(|(me, _)| me);
            return;
        };
        // What is left of the former log of one that was recovered belongs to the generation before.
        let before = group.generation - u64::from(is_recovered && group.generation > 0);
        replica.state_mut().begin_generation(generation.unwrap_or(before));
        let applied = config.start.index;
        let raft = RaftNode::new(config, now).expect("it was looked at before anybody was told of it");
        self.incarnation = incarnation;
        if is_recovered {
            // As the only voter of another generation it begins a log of its own.
            self.recovered = incarnation.map(|me| (me, raft.promised_until()));
            replica.inherit(raft, group.generation, applied, turn, now);
            return;
        }
        if !replica.has_log() {
            replica.give_log();
        }
        replica.join(raft, group.generation, applied, base);
    }

    /// What an earlier process kept may lack the end, so that its replica has another name now; or its group is over, or has begun anew
    /// without it. It is set aside, as long as the map asks for it: whether that is so.
    fn tell_of_former(
        &mut self,
        incarnation: Incarnation,
        generation: Option<u64>,
        rest: (SnapshotPoint, Saved),
        group: &GroupLayout,
        me: NodeId,
    ) -> bool {
        let is_asked_for = |generation: &u64| group.former.contains(&me) && *generation <= group.generation;
        let Some(generation) = generation.filter(is_asked_for) else {
            return false;
        };
        // Logs of earlier starts are synced before this one goes on.
        self.former = Some(Former::of(incarnation, generation, rest));
        true
    }

    /// Offers leadership to another, and to the next one if that one's node goes. Whether that may still come to something.
    pub(super) fn resign(
        &mut self,
        group: &GroupLayout,
        replica: &mut Replica,
        is_up: impl Fn(NodeId) -> bool,
        turn: &Turn,
        now: Monotonic,
    ) -> bool {
        let Some(member) = replica.leader() else {
            return false;
        };
        let term = member.term();
        let is_there = |voter: &Incarnation| group.seats.get(voter).is_some_and(|node| is_up(*node));
        if let Some((offered_in, to)) = self.resigned
            && (offered_in != term || is_there(&to))
        {
            return offered_in == term;
        }
        let me = self.incarnation;
        let others = member.members().voters.clone();
        let others = others
            .into_iter()
            .filter(|voter| Some(*voter) != me && is_there(voter));
        let Some(to) = others.max_by_key(|voter| member.raft().matched(*voter)) else {
            return false;
        };
        if member.raft().is_transferring() {
            return true;
        }
        self.resigned = Some((term, to));
        replica.step(turn, now, Input::Transfer(to), &mut Effects::default())
    }

    /// Hands leadership over to a replica on such a node that has nearly the whole log. Whether that has begun.
    pub(super) fn hand_over(
        &mut self,
        group: &GroupLayout,
        replica: &mut Replica,
        is_fit: impl Fn(NodeId) -> bool,
        turn: &Turn,
        now: Monotonic,
    ) -> bool {
        let Some(member) = replica.leader() else {
            return false;
        };
        if member.raft().is_transferring() || now < self.hand_over_at {
            return false;
        }
        let last = member.raft().last_index();
        let is_fit = |voter: &&Incarnation| {
            let is_there = group.seats.get(voter).is_some_and(|node| is_fit(*node));
            is_there && Some(**voter) != self.incarnation && Seat::has_nearly(member.raft(), **voter, last)
        };
        let voters = member.members().voters.iter();
        let fit = voters.filter(is_fit);
        let Some(&to) = fit.max_by_key(|voter| member.raft().matched(**voter)) else {
            return false;
        };
        self.hand_over_at = now.after(HAND_OVER_AGAIN);
        replica.step(turn, now, Input::Transfer(to), &mut Effects::default())
    }

    /// Gives a group that was alone a log, if other nodes are to hold something of it and nothing is under way here. Answers
    /// what was to be asked of the group meanwhile, if it waits no longer.
    pub(super) fn give_log(layout: &Layout, replica: &mut Replica) -> Vec<Request> {
        if replica.has_log() {
            return Vec::new();
        }
        // Where nobody else holds anything, and nothing is to outlive the process, commands are carried out at once.
        let is_wanted = !layout.peers.is_empty() || layout.is_durable();
        let is_given = is_wanted && replica.is_quiet();
        let kept_out = replica.await_log(is_wanted && !is_given);
        if is_given {
            replica.give_log();
        }
        kept_out
    }

    /// Becomes what the layout says, or as much of it as is possible now: the next tick tries again.
    pub(super) fn settle(
        &mut self,
        layout: &Layout,
        replica: &mut Replica,
        durability: Durability,
        turn: &Turn,
        seed: u64,
        now: Monotonic,
    ) {
        if !replica.has_log() || self.is_awaited && !mutations::is(Mutation::AbsentTakenForEmpty) {
            return;
        }
        let group = layout.group(replica.group());
        let incarnation = group.seat_on(layout.me);
        self.look_after_former(layout, replica, turn, seed, now);
        if replica.member().is_some() && incarnation == self.incarnation || self.is_broken(incarnation) {
            return;
        }
        self.stopped = None;
        let founds = incarnation.is_some() && group.bootstrap_replica == incarnation;
        let survives = founds && group.recovered_from.is_some() && group.recovered_from == self.incarnation;
        let was_recovered = self.recovered.is_some();
        let former = replica.member();
        let had_member = former.is_some();
        // Others may have promised as much as it has, and those who returned from lost power do not know what they have.
        let promised_until = former.map(|former| {
            former
                .raft()
                .promised_until()
                .max(now.after(Times::DEFAULT.election_min))
        });
        self.remember(replica);
        let waits_until = self
            .recovered
            .take()
            .filter(|(recovered, _)| survives || Some(*recovered) == incarnation);
        let waits_until = waits_until.filter(|_| founds).map(|(_, until)| until);
        let waits_until = if survives && had_member {
            replica.survive(turn, now);
            promised_until
        } else {
            if had_member {
                self.part(group, layout.me, replica, turn, now);
            } else if !founds || (was_recovered && waits_until.is_none()) {
                // What was held here belongs to the group no more, or never did.
                replica.forget();
            }
            waits_until
        };
        if group.is_over() && group.former.contains(&layout.me) && self.former.is_none() {
            // Who would say nothing would be waited for.
            self.former = Some(Former {
                incarnation: self.incarnation.unwrap_or(Incarnation(0)),
                generation: group.generation.saturating_sub(1),
                rest: None,
                term: Term(0),
                last: Index(0),
                applied: Index(0),
                is_whole: false,
                is_to_sync: false,
                awaits_sync: None,
            });
        }
        self.incarnation = incarnation;
        let Some(me) = incarnation else {
            return;
        };
        if let Some(until) =
            waits_until.filter(|until| now < *until && !mutations::is(Mutation::RecoveredDoesNotWait))
        {
            // Whoever leads those of before may still answer reads, for as long as he was promised.
            self.recovered = Some((me, until));
            return;
        }
        let start = if founds {
            Config::first(Members::of_voters([me]))
        } else {
            Config::NOWHERE
        };
        let applied = start.index;
        let config = Config {
            group: replica.group(),
            me,
            start,
            saved: Saved::default(),
            durability,
            node_start: layout.boot,
            times: Times::DEFAULT,
            seed,
        };
        let raft = RaftNode::new(config, now).expect("its parts agree");
        if founds && group.generation > 0 {
            replica.state_mut().begin_anew(group.generation);
        } else {
            replica.state_mut().begin_generation(group.generation);
        }
        replica.join(raft, group.generation, applied, LogBase::New);
    }

    /// The replica here has no part in the group any more. What it holds is set aside if the group has begun anew without it and the
    /// map asks for that: whom it has begun anew with may be lost before others have anything. Else the group has removed it,
    /// as a leader has reported whom a majority has confirmed, and it is forgotten.
    fn part(&mut self, group: &GroupLayout, me: NodeId, replica: &mut Replica, turn: &Turn, now: Monotonic) {
        let generation = replica.state().generation();
        let is_wanted = group.generation > generation && group.former.contains(&me);
        let raft = replica.member().map(Member::raft);
        let stats = raft.map(|raft| match raft.is_durable() {
            true => (raft.persisted_index(), true),
            false => (Index(u64::MAX), false),
        });
        let is_whole = raft.is_some_and(|raft| !raft.is_below_floor());
        if is_wanted
            && !mutations::is(Mutation::MapForgets)
            && let (Some(incarnation), Some((persisted, is_durable))) = (self.incarnation, stats)
            && let Some((point, mut saved)) = replica.set_aside(turn, now)
        {
            // What is not kept was acknowledged to nobody, and is not what the next start of the node would have.
            saved.entries.retain(|entry| entry.index <= persisted);
            let last = saved.entries.last().map_or(point.index, |last| last.index);
            saved.hard_state.commit = saved.hard_state.commit.min(last);
            let former = Former::of(incarnation, generation, (point, saved));
            let is_to_sync = is_durable;
            self.former = Some(Former {
                is_whole,
                is_to_sync,
                ..former
            });
            return;
        }
        replica.leave();
        replica.forget();
    }

    /// What was set aside is what the group begins anew with, or stays, or is not needed any more.
    fn look_after_former(
        &mut self,
        layout: &Layout,
        replica: &mut Replica,
        turn: &Turn,
        seed: u64,
        now: Monotonic,
    ) {
        let Some(former) = self.former.take() else { return };
        let group = layout.group(replica.group());
        let founds = group.bootstrap_replica.is_some() && group.bootstrap_replica == group.seat_on(layout.me);
        if founds && group.recovered_from == Some(former.incarnation) {
            let keyspace = replica.take_aside();
            self.remember(replica);
            self.part(group, layout.me, replica, turn, now);
            let kept = HandoverImage {
                group: replica.group(),
                incarnation: former.incarnation,
                rest: former.rest,
                generation: None,
                keyspace: Some(keyspace),
            };
            self.go_on(kept, Some(former.generation), layout, replica, turn, seed, now);
        } else if group.former.contains(&layout.me) {
            self.former = Some(former);
        } else {
            replica.drop_aside();
        }
    }

    /// Whether something is set aside.
    pub(super) fn has_former(&self) -> bool {
        self.former.as_ref().is_some_and(|former| former.rest.is_some())
    }

    /// Whether what was set aside just now is to be synced: under this number, then.
    pub(super) fn asks_for_sync(&mut self, number: u64) -> bool {
        let Some(former) = &mut self.former else {
            return false;
        };
        let asks = std::mem::take(&mut former.is_to_sync) && !mutations::is(Mutation::ReportNotSynced);
        former.awaits_sync = asks.then_some(number).or(former.awaits_sync);
        asks
    }

    /// All that was written before this number was given is synced.
    pub(super) fn on_synced(&mut self, number: u64) {
        if let Some(former) = &mut self.former {
            former.awaits_sync.take_if(|awaited| *awaited <= number);
        }
    }

    /// Before the replica here leaves its group's log: what it did is counted, and its term is known.
    fn remember(&mut self, replica: &Replica) {
        if let Some(member) = replica.member() {
            self.past += member.counts();
            self.left_in = member.term();
        }
    }

    /// A step of the replica here has panicked.
    pub(super) fn break_off(&mut self, replica: &mut Replica, words: &str) {
        self.remember(replica);
        replica.abandon();
        self.broken = self.vacate(words);
    }

    /// The state of the replica here differs from that of most others.
    pub(super) fn give_up(&mut self, replica: &mut Replica, words: &str) {
        self.remember(replica);
        replica.give_up();
        self.given_up = self.vacate(words);
    }

    /// The replica here goes, for this reason. Which it was.
    fn vacate(&mut self, words: &str) -> Option<Incarnation> {
        self.stopped = Some(words.to_owned());
        self.recovered = None;
        self.fenced = None;
        self.incarnation.take()
    }

    /// Whether this replica is not to begin again: it has panicked, or was given up.
    fn is_broken(&self, incarnation: Option<Incarnation>) -> bool {
        incarnation.is_some() && (incarnation == self.broken || incarnation == self.given_up)
    }

    /// The replicas that the meta group is to give others for: the one here, and others of which the leader here has found that they
    /// differ, as long as the map names them.
    pub(super) fn given_up(&self, replica: &Replica, layout: &GroupLayout) -> Vec<(NodeId, Incarnation)> {
        let found = replica.leader().into_iter().flat_map(Member::differing);
        let all = self.given_up.into_iter().chain(found);
        all.filter_map(|incarnation| Some((*layout.seats.get(&incarnation)?, incarnation)))
            .collect()
    }

    /// What the members here have done so far.
    pub(super) fn counts(&self, replica: &Replica) -> MemberCounts {
        let mut counts = self.past;
        if let Some(member) = replica.member() {
            counts += member.counts();
        }
        counts
    }

    /// Whether the layout has not been followed yet.
    pub(super) fn is_unsettled(&self, layout: &Layout, replica: &Replica) -> bool {
        let has_logs = !layout.peers.is_empty() || layout.is_durable();
        has_logs
            && (!replica.has_log() || self.recovered.is_some() || {
                let named = layout.group(replica.group()).seat_on(layout.me);
                named != self.incarnation && !self.is_broken(named)
            })
    }

    /// Until when ticks have nothing to do for it, if nothing happens: groups that nobody uses cost next to nothing.
    pub(super) fn quiet_until(replica: &Replica, now: Monotonic) -> Monotonic {
        let Some(member) = replica.member() else {
            return now.after(QUIET_MAX);
        };
        if member.has_own() || member.raft().has_ready() || replica.needs_ticks() {
            return now;
        }
        let timer = member.raft().next_timer().unwrap_or(Monotonic(u64::MAX));
        timer.min(now.after(QUIET_MAX))
    }

    /// What is to happen to the leader here, because the meta group wants it.
    pub(super) fn input_of(&mut self, order: &Order, replica: &Replica) -> Option<Input<'static>> {
        let mut target = replica.leader()?.members().clone();
        match order {
            Order::AddLearner { incarnation, node } => {
                if target.is_voter(*incarnation) || target.learners.contains(incarnation) {
                    return None;
                }
                let members = target.all();
                self.added.retain(|added, _| members.contains(added));
                self.added.insert(*incarnation, *node);
                target.learners.push(*incarnation);
            }
            Order::Change { promote, remove } => {
                target.voters.extend(promote);
                target
                    .learners
                    .retain(|learner| !promote.contains(learner) && !remove.contains(learner));
                target.voters.retain(|voter| !remove.contains(voter));
                target.voters.sort_unstable();
                target.voters.dedup();
            }
            Order::Transfer { to } => return Some(Input::Transfer(*to)),
        }
        Some(Input::ChangeMembers(target))
    }

    /// Where a member is, as far as is known here.
    fn place_of(&self, layout: &GroupLayout, incarnation: Incarnation) -> Option<NodeId> {
        let seat = layout.seats.get(&incarnation);
        let place = seat.or_else(|| layout.lost.get(&incarnation));
        place.or_else(|| self.added.get(&incarnation)).copied()
    }

    /// What is to happen to the leader here because of learners that a leader of before has taken in, that the map has let go of
    /// since, and of which nobody else knows where they are. As long as one is there the group cannot be reported. If it should
    /// be wanted after all, it is asked for again.
    pub(super) fn without_strangers(
        &mut self,
        layout: &GroupLayout,
        replica: &Replica,
        now: Monotonic,
    ) -> Option<Input<'static>> {
        let leading = replica.leader();
        let mut target = leading.map(|member| member.members().clone()).unwrap_or_default();
        let count = target.learners.len();
        target
            .learners
            .retain(|learner| self.place_of(layout, *learner).is_some());
        if target.learners.len() == count || target.is_joint() {
            self.strangers_since = None;
            return None;
        }
        let since = *self.strangers_since.get_or_insert(now);
        // Refused while another change is under way, and tried again.
        (now.since(since) >= STRANGER_PATIENCE).then_some(Input::ChangeMembers(target))
    }

    /// What the meta group is told of the group, if it is led here.
    pub(super) fn group_report(
        &self,
        me: NodeId,
        replica: &Replica,
        layout: &GroupLayout,
        is_unfit: impl Fn(NodeId) -> bool,
    ) -> Option<GroupReport> {
        /// Bytes of data up to which a group is light: its state is sent in four chunks.
        const LIGHT_BYTES_MAX: usize = 1 << 20;
        let member = replica.leader()?;
        // Before that it may know older members than a leader before it has reported.
        if !member.raft().is_established() {
            return None;
        }
        let members = member.members();
        let known = |incarnation: &Incarnation, role| {
            let node = self.place_of(layout, *incarnation);
            node.map(|node| control::GroupMember {
                incarnation: *incarnation,
                node,
                role,
            })
        };
        let voters = members.voters.iter().map(|voter| known(voter, MemberRole::Voter));
        let learners = members
            .learners
            .iter()
            .map(|learner| known(learner, MemberRole::Learner));
        let raft = member.raft();
        let last = raft.last_index();
        let is_caught_up = |incarnation: &Incarnation| {
            Some(*incarnation) == self.incarnation || Seat::has_nearly(raft, *incarnation, last)
        };
        Some(GroupReport {
            report: Report {
                group: GroupRef::Data(replica.group()),
                generation: layout.generation,
                term: member.term().0,
                index: member.members_at().0,
                // One that the map does not know is told of when it does.
                members: voters.chain(learners).collect::<Option<Vec<_>>>()?,
                leader: me,
            },
            caught_up: members.all().into_iter().filter(is_caught_up).collect(),
            unfit: members
                .all()
                .into_iter()
                .filter(|member| layout.seats.get(member).is_some_and(|node| is_unfit(*node)))
                .collect(),
            // A voter that does not know that it is one does not campaign: were the change reported while the leader alone
            // knows of its end, the group would be counted on to bear the leader's death, and could not.
            is_changing: members.is_joint() || !raft.is_known_committed(member.members_at()),
            is_light: replica.memory() <= LIGHT_BYTES_MAX,
            hosted: replica.keyspace().moved_here().collect(),
        })
    }

    /// Whether a member has all, or nearly all, of the log.
    fn has_nearly(raft: &RaftNode, member: Incarnation, last: Index) -> bool {
        let matched = raft.matched(member);
        matched.is_some_and(|index| index.0 > 0 && index.0 + LAG_MAX >= last.0)
    }

    /// What is left of the group here, if the replica here knows no leader. A learner never looks for another one: a leader that
    /// it has not heard for as long as it owes him anything is none.
    pub(super) fn recovery_source(
        &self,
        me: NodeId,
        replica: &Replica,
        layout: &GroupLayout,
        now: Monotonic,
    ) -> Option<RecoverySource> {
        let is_led = |member: &&Member| {
            let leader = member.leader();
            let votes = self.incarnation.is_some_and(|me| member.members().is_voter(me));
            leader.is_some_and(|leader| !layout.lost.contains_key(&leader))
                && (votes || member.raft().is_promised(now))
        };
        let member = replica.member().filter(|member| !is_led(member))?;
        let raft = member.raft();
        Some(RecoverySource {
            group: replica.group(),
            generation: layout.generation,
            node: me,
            incarnation: self.incarnation?,
            term: raft.last_term(),
            last: raft.last_index(),
            applied: member.applied(),
            lost_voter: layout.lost_voter,
            unreported: self.unreported(member, layout),
            outgoing: member.members().outgoing.clone(),
            is_aside: false,
            voters: Vec::new(),
            changed_at: Index(0),
            is_whole: !raft.is_below_floor(),
        })
    }

    /// The configuration that the replica here has applied, if others vote in it than the map says, and the map knows where all of
    /// them are.
    fn unreported(&self, member: &Member, layout: &GroupLayout) -> Option<Configuration> {
        let members = member.members();
        if !members.is_joint() && members.voters == layout.voting {
            return None;
        }
        let known = |incarnation: Incarnation| {
            let node = self.place_of(layout, incarnation)?;
            // Who voted until now is still needed: were it no member, its node would let go of it.
            let role = match members.voters.contains(&incarnation) {
                true => MemberRole::Voter,
                false => MemberRole::Learner,
            };
            Some(control::GroupMember {
                incarnation,
                node,
                role,
            })
        };
        Some(Configuration {
            index: member.members_at().0,
            members: members.all().into_iter().map(known).collect::<Option<Vec<_>>>()?,
        })
    }

    /// What is kept here from before the group began anew.
    pub(super) fn former_recovery_source(
        &self,
        me: NodeId,
        group: GroupId,
        layout: &GroupLayout,
    ) -> Option<RecoverySource> {
        let former = self.former.as_ref()?;
        if former.awaits_sync.is_some() {
            return None;
        }
        let members = former.rest.as_ref();
        let members = members.map(|(point, saved)| consensus::last_members(point, &saved.entries));
        let (changed_at, members) = members.unwrap_or_default();
        Some(RecoverySource {
            group,
            generation: former.generation,
            node: me,
            incarnation: former.incarnation,
            term: former.term,
            last: former.last,
            applied: former.applied,
            lost_voter: layout.lost_voter,
            unreported: None,
            outgoing: members.outgoing,
            is_aside: true,
            voters: members.voters,
            changed_at,
            is_whole: former.is_whole,
        })
    }

    /// The term of the replica here, or of the last one that was.
    pub(super) fn term(&self, replica: &Replica) -> Term {
        replica.member().map_or(self.left_in, Member::term)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::{HardState, LogEntry, Payload};

    /// What is said of a log that was set aside just now, before and after the sync that was asked for.
    fn said() -> [Option<RecoverySource>; 3] {
        let rest = (
            Config::first(Members::of_voters([1, 2, 3].map(Incarnation))),
            Saved {
                floor: None,
                hard_state: HardState::default(),
                entries: vec![LogEntry {
                    index: Index(2),
                    term: Term(4),
                    payload: Payload::Data(vec![0u8].into()),
                }],
            },
        );
        let mut seat = Seat {
            former: Some(Former {
                is_to_sync: true,
                ..Former::of(Incarnation(2), 7, rest)
            }),
            ..Seat::default()
        };
        assert_eq!(seat.asks_for_sync(5), !mutations::is(Mutation::ReportNotSynced));
        assert!(!seat.asks_for_sync(6), "once");
        [0, 4, 5].map(|synced| {
            seat.on_synced(synced);
            seat.former_recovery_source(NodeId(1), GroupId::new(0), &GroupLayout::default())
        })
    }

    #[test]
    fn what_is_set_aside_is_told_when_it_is_synced() {
        let [None, None, Some(source)] = said() else {
            panic!("it was told too early, or never")
        };
        assert_eq!(
            (source.term, source.last, source.generation),
            (Term(4), Index(2), 7)
        );
        assert!(source.is_aside);
        assert_eq!(source.voters, [1, 2, 3].map(Incarnation));
        mutations::plant(Some(Mutation::ReportNotSynced));
        let early = said();
        mutations::plant(None);
        assert!(early[0].is_some(), "the mistake is noticed");
    }
}

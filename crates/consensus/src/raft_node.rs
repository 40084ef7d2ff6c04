//! One replica's part of one Raft group.
//!
//! ```text
//!   tick, step, propose, read_index, transfer, change_members,      take_ready
//!   applied, persisted, offer_transfer, confirm, acknowledged  -->  ----------> messages, entries to persist and to
//!                      |                                            apply, state to install, rounds of reads, status
//!                      v
//!        checks -> library (votes, log, commitment) -> taken apart
//!                      ^
//!        clocks: promise, lease, election time-out, stand-down
//! ```
//!
//! The library never ticks: it is told to campaign, to stand down and to send again, by the clocks here. So a group in
//! which nothing happens does nothing, all times are measured by the monotonic clock and not by ticks that come in
//! bursts, and nothing depends on the library's own randomness.
//!
//! Invariants. The simulation in `tests/it` checks the first three after every step, the scenes beside it the others:
//!
//! 1. At most one leader in a term, and a leader has what was committed before.
//! 2. What is applied at a place is the same everywhere.
//! 3. Two leases that hold never overlap, and who holds one has applied all that was acknowledged.
//! 4. While a promise stands, its voter does not vote or campaign except at its leader's wish.
//! 5. A replica whose log does not reach its floor does not campaign, and votes for nobody whose log does not reach it.
//! 6. What a leader counts for a member was acknowledged in the latest start of the member's node that it has heard of.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use mutations::Mutation;
use raft::eraftpb::{self, MessageType};
use raft::{ProgressState, RawNode, ReadOnlyOption, SnapshotStatus, StateRole, Storage};

use crate::change::{self, ChangeRefused};
use crate::config::{Config, ConfigInvalid, Durability, Saved, validate};
use crate::convert;
use crate::heartbeat::Claim;
use crate::lease::{HeardStart, Leadership, Lease, ReadPermit};
use crate::log::{self, Log};
use crate::message::{Index, LogEntry, Members, MessageBody, Payload, RaftMessage, SnapshotPoint, Term};
use crate::promise::Promise;
use crate::ready::{Committed, EntryEffect, HardState, Persist, ReadId, Ready, Role, Status};
use crate::times::Times;
use ids::{Boot, GroupId, Incarnation, Monotonic, Prng};

/// Rounds of reads that wait for confirmation. Further reads are refused; they wait for one that is under way to end.
pub const READ_ROUNDS_MAX: usize = 64;

/// Messages with entries under way to one follower. The next waits for an answer.
const MESSAGES_IN_FLIGHT_MAX: usize = 64;

/// Bytes of entries in one message; one entry is always sent.
const MESSAGE_BYTES: u64 = 1 << 20;

/// Bytes of one entry. One that is longer is refused when it is proposed: whoever proposes makes them far shorter, but for what
/// names keys that are as long.
pub const ENTRY_BYTES_MAX: usize = 1 << 30;

/// Bytes of committed entries that the library hands out at once, with what an entry costs besides.
pub const COMMITTED_BYTES: usize = 512 << 10;

/// How often a member is told the point of the state it was given, before the transfer counts as failed.
const SNAPSHOT_SENDS_MAX: u32 = 20;

/// The same of one that keeps the state on disk before it says that it has it.
const SNAPSHOT_SENDS_DURABLE_MAX: u32 = 200;

/// Why an entry was not proposed. It certainly never will be committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProposeRefused {
    /// Somebody else leads, or nobody.
    NotLeader(Option<Incarnation>),
    /// Leadership is being handed over.
    Transferring,
    /// It is longer than [`ENTRY_BYTES_MAX`].
    TooLong,
}

/// Why no round of reads was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadRefused {
    /// Somebody else leads, or nobody.
    NotLeader(Option<Incarnation>),
    /// The leader does not know yet what is committed: no entry of its own term is.
    NotYet,
    /// [`READ_ROUNDS_MAX`] are under way.
    Busy,
}

/// Why leadership is not handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferRefused {
    /// This replica does not lead.
    NotLeader,
    /// A hand-over is under way.
    Busy,
    /// To whom does not vote, or leads already.
    NotVoter,
}

/// One replica's part of one group.
pub struct RaftNode {
    group: GroupId,
    me: Incarnation,
    durability: Durability,
    node_start: Boot,
    /// What was in the log once. It stays when the log has reached it: who reaches it once does so for ever.
    floor: Option<(Term, Index)>,
    times: Times,
    raw: RawNode<Log>,
    prng: Prng,
    /// The members in force.
    members: Members,
    /// The members as of the last applied entry, and the changes after it.
    members_applied: Members,
    members_ahead: VecDeque<(u64, Members)>,

    status: Status,
    status_told: Status,
    claims_changed: bool,

    promise: Promise,
    /// When the leader was last heard, or the last campaign or vote was.
    heard: Monotonic,
    /// When the owner went on after it had stood still for the last time.
    went_on: Monotonic,
    /// How much longer than the shortest time-out, or the pause between two campaigns, is waited from then on.
    patience: Duration,
    /// Whether it was a campaign of its own.
    has_campaigned: bool,

    leadership: Option<Leadership>,
    transfer_until: Option<Monotonic>,
    rounds: VecDeque<(u64, Monotonic)>,
    rounds_counted: u64,
    rounds_sent: Monotonic,
    reads_lost: Vec<ReadId>,
    /// How often members were told the point of what they were given.
    snapshot_sends: Vec<(Incarnation, u32)>,

    /// The state that this replica was given and has not installed.
    held: Option<(Index, Term)>,
    outbox: Vec<RaftMessage>,
    /// Messages that wait for a request to be persisted.
    unpersisted: VecDeque<(u64, Vec<RaftMessage>)>,
    applied_wanted: u64,
    /// Up to where the commit index was looked at for changes of the members.
    commit_seen: u64,
    /// The latest time that it was told.
    seen: Monotonic,
    turned_away: u64,
}

impl RaftNode {
    /// A replica, born now.
    ///
    /// # Errors
    /// If `config` contradicts itself.
    pub fn new(config: Config, now: Monotonic) -> Result<RaftNode, ConfigInvalid> {
        let (start, saved) = validate(&config)?;
        let me = config.me;
        let election_tick = 10;
        let library = raft::Config {
            id: me.0,
            // The library is never ticked: these only have to be valid, and to leave its generator no choice.
            election_tick,
            heartbeat_tick: 1,
            min_election_tick: election_tick,
            max_election_tick: election_tick + 1,
            applied: start.index.0,
            max_size_per_msg: MESSAGE_BYTES,
            max_inflight_msgs: MESSAGES_IN_FLIGHT_MAX,
            max_committed_size_per_ready: COMMITTED_BYTES as u64,
            check_quorum: true,
            pre_vote: true,
            read_only_option: ReadOnlyOption::Safe,
            skip_bcast_commit: true,
            // Glues entries to messages that do not precede them.
            batch_append: mutations::is(Mutation::LibraryBatching),
            ..raft::Config::default()
        };
        let members = start.members.clone();
        let log = Log::new(start, saved.0, saved.1);
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let raw = RawNode::new(&library, log, &logger)
            .expect("what the library demands of its configuration was checked");
        // Who is its own majority owes nobody anything.
        let owes = !members.is_alone(me);
        let status = Status {
            role: Role::Follower,
            term: Term(raw.raft.term),
            leader: None,
        };
        let mut group = RaftNode {
            group: config.group,
            me,
            durability: config.durability,
            node_start: config.node_start,
            floor: config
                .saved
                .floor
                .filter(|_| !mutations::is(Mutation::FloorForgotten)),
            times: config.times,
            raw,
            prng: Prng::new(config.seed ^ me.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            members_applied: members.clone(),
            members_ahead: VecDeque::new(),
            members,
            status,
            status_told: status,
            claims_changed: false,
            promise: Promise::unknown(if owes {
                now.after(config.times.election_min)
            } else {
                now
            }),
            heard: now,
            went_on: now,
            patience: Duration::ZERO,
            has_campaigned: false,
            leadership: None,
            transfer_until: None,
            rounds: VecDeque::new(),
            rounds_counted: 0,
            rounds_sent: now,
            reads_lost: Vec::new(),
            snapshot_sends: Vec::new(),
            held: None,
            outbox: Vec::new(),
            unpersisted: VecDeque::new(),
            applied_wanted: 0,
            commit_seen: 0,
            seen: now,
            turned_away: 0,
        };
        group.applied_wanted = group.raw.raft.raft_log.applied;
        group.commit_seen = group.raw.raft.raft_log.committed;
        group.draw_patience();
        group.tick(now);
        Ok(group)
    }

    // ---- what it is

    /// The group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// This replica.
    pub fn me(&self) -> Incarnation {
        self.me
    }

    /// Its view of who leads.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether it leads.
    pub fn is_leader(&self) -> bool {
        self.status.role == Role::Leader
    }

    /// Whether it is the only member, so that nothing needs to be replicated, and leads.
    pub fn is_alone(&self) -> bool {
        self.is_leader() && self.members.is_alone(self.me)
    }

    /// The same, and nothing of its log is on its way: what it appends is committed as soon as it is kept, and applied next.
    pub fn is_alone_at_rest(&self) -> bool {
        self.is_alone()
            && self.is_established()
            && self.unpersisted.is_empty()
            && self.last_index().0 == self.applied_wanted
    }

    /// Whether what it must not forget is to be written ([`Ready::persist`]).
    pub fn is_durable(&self) -> bool {
        self.durability == Durability::Durable
    }

    /// The members in force.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The point of the state that the owner has: the last applied entry, its term, and the members there.
    pub fn point(&self) -> SnapshotPoint {
        let applied = self.applied_wanted;
        // From what was taken: the library may know of a state to install that the owner has not heard of yet.
        let term = self.raw.store().term(applied);
        SnapshotPoint {
            index: Index(applied),
            term: Term(term.expect("the log is compacted up to what is applied, and no further")),
            members: self.members_applied.clone(),
        }
    }

    /// As far as the log goes.
    pub fn last_index(&self) -> Index {
        Index(self.raw.raft.raft_log.last_index())
    }

    /// The term of the last entry.
    pub fn last_term(&self) -> Term {
        Term(self.raw.raft.raft_log.last_term())
    }

    /// As far as it is known to be committed.
    pub fn commit_index(&self) -> Index {
        Index(self.raw.raft.raft_log.committed)
    }

    /// What was in its log once, as far as it is known that a part of that was lost.
    pub fn floor(&self) -> Option<(Term, Index)> {
        self.floor
    }

    /// Whether its log lacks something that was in it once.
    pub fn is_below_floor(&self) -> bool {
        !self.reaches_floor(self.last_term(), self.last_index())
    }

    fn reaches_floor(&self, term: Term, index: Index) -> bool {
        self.floor
            .is_none_or(|floor| match mutations::is(Mutation::FloorByPlace) {
                true => index >= floor.1,
                false => (term, index) >= floor,
            })
    }

    /// Entries that are in the log and not known to be committed.
    pub fn in_flight(&self) -> u64 {
        self.last_index().0 - self.commit_index().0
    }

    /// As far as the log is known to be kept: what is behind was acknowledged to nobody.
    pub fn persisted_index(&self) -> Index {
        Index(self.raw.raft.raft_log.persisted)
    }

    /// The bytes that the log takes.
    pub fn log_bytes(&self) -> usize {
        self.raw.store().bytes()
    }

    /// Whether the log holds a change of members that is not known to be committed, for checkers.
    pub fn has_change_ahead(&self) -> bool {
        let ahead = self.entries_after(self.commit_index());
        ahead
            .iter()
            .any(|entry| matches!(entry.payload, Payload::Members(_)))
    }

    /// The log behind place `after`, for checkers.
    pub fn entries_after(&self, after: Index) -> Vec<LogEntry> {
        self.raw
            .store()
            .entries_from(after.0 + 1)
            .cloned()
            .map(convert::entry_from_library)
            .collect()
    }

    /// What the next life of this incarnation needs besides the state as of [`point`](RaftNode::point): for a hand-over,
    /// when everything was taken and done and nothing comes in any more.
    ///
    /// # Panics
    /// If something is left to be [taken](RaftNode::take_ready): it would be lost, though it may be promised already.
    pub fn saved(&self) -> Saved {
        assert!(
            !self.raw.has_ready(),
            "a replica is handed over when it is at rest"
        );
        Saved {
            hard_state: self.hard_state(),
            entries: self.entries_after(Index(self.applied_wanted)),
            floor: self.floor.filter(|_| self.is_below_floor()),
        }
    }

    /// How many messages were turned away because no replica of the right incarnation sends them. Not a fault by itself:
    /// a link may deliver what is very old. Growing steadily, it is one.
    pub fn turned_away(&self) -> u64 {
        self.turned_away
    }

    /// Whether this replica's promise stands, for checkers.
    pub fn is_promised(&self, now: Monotonic) -> bool {
        self.promise.stands(now)
    }

    /// Until when this replica owes it to a leader that nobody else leads. Who ends it, and begins the group anew, waits for that.
    pub fn promised_until(&self) -> Monotonic {
        self.promise.until()
    }

    /// How far `member` is known to hold the log, if this replica leads and it is one.
    pub fn matched(&self, member: Incarnation) -> Option<Index> {
        if !self.is_leader() {
            return None;
        }
        Some(Index(self.raw.raft.prs().get(member.0)?.matched))
    }

    /// Whether a majority of the voters has said that it knows that everything up to `index` is committed, if this replica
    /// leads. Until then the leader may be the only one who knows. Whoever confirms it hears of it again until it has said so.
    pub fn is_known_committed(&self, index: Index) -> bool {
        let knows = |voter: &&Incarnation| {
            let progress = self.raw.raft.prs().get(voter.0);
            **voter == self.me || progress.is_some_and(|progress| progress.committed_index >= index.0)
        };
        let voters = &self.members.voters;
        self.is_leader()
            && self.commit_index() >= index
            && 2 * voters.iter().filter(knows).count() > voters.len()
    }

    // ---- time

    /// Time has passed. To be called at least every [`Times::tick`] or when [`next_timer`](RaftNode::next_timer) says.
    pub fn tick(&mut self, now: Monotonic) {
        if self.is_leader() {
            self.tick_leader(now);
        } else if now >= self.campaign_at() {
            self.campaign(now);
        }
    }

    /// The owner stood still for so long, and goes on: what came meanwhile is not read yet, so nobody was silent. Promises and
    /// the lease are not touched, they hold by the clock.
    pub fn stood_still(&mut self, span: Duration, now: Monotonic) {
        self.heard = self.heard.after(span).min(now);
        self.went_on = now;
    }

    /// Before then, `tick` does nothing.
    pub fn next_timer(&self) -> Option<Monotonic> {
        let Some(leadership) = &self.leadership else {
            let may_campaign = self.raw.raft.promotable() && !self.is_below_floor();
            return may_campaign.then(|| self.campaign_at());
        };
        let stands_down = leadership.reached().map_or(Some(leadership.since), |reached| {
            (reached != Monotonic(u64::MAX)).then_some(reached.max(leadership.since))
        });
        let stands_down = stands_down.map(|at| at.max(self.went_on).after(self.times.election_max));
        let resends = (!self.rounds.is_empty()).then(|| self.rounds_sent.after(self.times.heartbeat));
        [stands_down, resends, self.transfer_until]
            .into_iter()
            .flatten()
            .min()
    }

    fn tick_leader(&mut self, now: Monotonic) {
        let Some(leadership) = &self.leadership else {
            return;
        };
        let reached = leadership
            .reached()
            .unwrap_or(leadership.since)
            .max(leadership.since);
        if now.since(reached.max(self.went_on)) >= self.times.election_max {
            // No majority was reached for so long: another may lead by now, and clients are better served by it.
            let term = self.raw.raft.term;
            self.raw.raft.become_follower(term, raft::INVALID_ID);
            self.observe(now);
            return;
        }
        if self.transfer_until.is_some_and(|until| now >= until) {
            self.transfer_until = None;
            self.raw.raft.abort_leader_transfer();
        }
        if !self.rounds.is_empty() && now.since(self.rounds_sent) >= self.times.heartbeat {
            // The latest round confirms all before it.
            self.rounds_sent = now;
            self.raw.raft.ping();
        }
    }

    /// The link to the leader's node is broken, or has been silent for long: nothing will be heard from it. The wait until
    /// a campaign loses its random part; the promise stands.
    pub fn leader_link_lost(&mut self, now: Monotonic) {
        if self.is_leader() || self.status.leader.is_none() {
            return;
        }
        // In turn and not all at once, or the first votes would be split: by more than what the owners' ticks differ.
        let gone = self.status.leader;
        let rank = self
            .members
            .voters
            .iter()
            .filter(|voter| **voter < self.me && Some(**voter) != gone)
            .count();
        let rank = u32::try_from(rank).expect("there are few voters");
        let overdue = now.since(self.heard.after(self.times.election_min));
        self.patience = self.patience.min(overdue + self.times.tick * 2 * rank);
        self.tick(now);
    }

    fn campaign_at(&self) -> Monotonic {
        if self.members.is_alone(self.me) {
            return self.heard;
        }
        let shortest = if mutations::is(Mutation::CampaignInsidePromise) {
            self.times.election_min / 8
        } else if self.has_campaigned {
            // The vote was split, or another's promise stood a little longer: nobody leads, and nobody is owed anything new.
            self.times.election_min / 4
        } else {
            self.times.election_min
        };
        self.heard.after(shortest + self.patience)
    }

    fn campaign(&mut self, now: Monotonic) {
        self.heard = now;
        self.has_campaigned = true;
        self.draw_patience();
        if self.promise.stands(now) && !mutations::is(Mutation::CampaignInsidePromise) {
            return;
        }
        if self.raw.raft.promotable() && self.can_campaign() {
            // It refuses by itself while a change of the members is committed and not applied.
            let _ = self.raw.campaign();
            self.observe(now);
        }
    }

    /// Whether it lacks nothing that it had, and the library can bear a campaign: that takes for granted that its log is on disk, and
    /// that what was applied is where the log begins or later.
    fn can_campaign(&self) -> bool {
        let log = &self.raw.raft.raft_log;
        !self.is_below_floor()
            && log.persisted == log.last_index()
            && log.applied + 1 >= log.first_index()
            && self.unpersisted.is_empty()
    }

    fn draw_patience(&mut self) {
        let span = self.times.election_max - self.times.election_min;
        // Whoever is told that the leader is gone goes first, in turn: those that only wait would come between them.
        let may_be_short = self.has_campaigned || mutations::is(Mutation::CampaignInsidePromise);
        let least = if may_be_short { Duration::ZERO } else { span / 2 };
        let nanos = u64::try_from((span - least).as_nanos()).unwrap_or(u64::MAX);
        self.patience = least + Duration::from_nanos(self.prng.below(nanos.max(1)));
    }

    // ---- messages

    /// A message for this replica. `now` is read after the message was received: promises are counted from it.
    pub fn step(&mut self, message: RaftMessage, now: Monotonic) {
        let (from, term) = (message.from, message.term);
        let leadership = self.leadership.as_ref().map(|leadership| leadership.term);
        if message.to != self.me || !convert::check(&message, self.last_index().0, leadership) {
            self.turned_away += 1;
            return;
        }
        match &message.body {
            MessageBody::Vote {
                is_pre,
                is_transfer,
                index,
                log_term,
                ..
            } => {
                // The library compares with the log that is here. Once that reaches the floor, whoever it votes for does.
                if self.reaches_floor(*log_term, *index) || !self.is_below_floor() {
                    self.on_vote(*is_transfer && !is_pre, message, now);
                }
            }
            MessageBody::VoteAnswer { is_pre, .. } => {
                // A candidate whose promise was renewed meanwhile does not go on to the real election.
                if !is_pre || !self.promise.stands(now) || mutations::is(Mutation::CampaignInsidePromise) {
                    self.deliver(message, now);
                }
            }
            MessageBody::TimeoutNow => {
                let is_wished = term == self.status.term && self.promise.allows_transfer(term, from, now);
                if is_wished && self.can_campaign() {
                    self.deliver(message, now);
                }
            }
            MessageBody::Append { .. } | MessageBody::Heartbeat { .. } => {
                self.on_leader_message(message, now)
            }
            MessageBody::Snapshot(point) => {
                let point = point.clone();
                self.on_snapshot(point, message, now);
            }
            MessageBody::AppendAnswer {
                index, reject, start, ..
            } => {
                let (index, is_reject, start) = (*index, reject.is_some(), *start);
                if self.hear_start(from, start, now) {
                    self.on_append_answer(index, is_reject, message, now);
                }
            }
            MessageBody::HeartbeatAnswer { read, start, .. } => {
                let (read, start) = (*read, *start);
                if !self.hear_start(from, start, now) {
                    return;
                }
                if term == self.status.term
                    && let Some((_, sent)) = self.rounds.iter().find(|(number, _)| *number == read).copied()
                {
                    self.renew(from, sent, now);
                }
                self.deliver(message, now);
            }
        }
    }

    /// The library's own refusal counts ticks, and forgets the leader when it campaigns: it does not decide.
    fn on_vote(&mut self, is_transfer: bool, message: RaftMessage, now: Monotonic) {
        let (from, term) = (message.from, message.term);
        if term >= self.status.term && !self.may_vote(term, is_transfer, now) {
            return;
        }
        self.raw.raft.election_elapsed = usize::MAX / 2;
        self.deliver(message, now);
        if self.raw.raft.term == term.0 && self.raw.raft.vote == from.0 && !self.is_leader() {
            self.heard = now;
            self.has_campaigned = false;
        }
    }

    fn may_vote(&self, term: Term, is_transfer: bool, now: Monotonic) -> bool {
        if mutations::is(Mutation::VoteInsidePromise) {
            return true;
        }
        match &self.leadership {
            // A leader that is heard by a majority is not unseated by who does not hear it.
            Some(leadership) => {
                let is_reached = leadership
                    .reached()
                    .is_some_and(|reached| now < reached.after(self.times.election_min));
                !is_reached || (is_transfer && leadership.is_given_up && term.0 == leadership.term.0 + 1)
            }
            None => self.promise.allows_vote(term, is_transfer, now),
        }
    }

    fn on_leader_message(&mut self, message: RaftMessage, now: Monotonic) {
        let (from, term) = (message.from, message.term);
        let is_other = self.status.leader.is_some_and(|leader| leader != from);
        if term == self.status.term && is_other {
            // Nobody else leads in this term.
            self.turned_away += 1;
            return;
        }
        self.deliver(message, now);
        if self.status.term == term && self.status.leader == Some(from) {
            self.heard_leader(term, from, now);
        }
    }

    fn heard_leader(&mut self, term: Term, leader: Incarnation, now: Monotonic) {
        self.heard = now;
        self.has_campaigned = false;
        self.promise
            .make(term, leader, now.after(self.times.election_min));
    }

    fn on_snapshot(&mut self, point: SnapshotPoint, mut message: RaftMessage, now: Monotonic) {
        let is_known = point.index <= self.commit_index() || self.term_of(point.index.0) == Some(point.term);
        // One of an earlier term has to hear of this one, or it would go on like that for ever: the library says so in answer to
        // heartbeats and entries alone.
        let is_late = message.term < self.status.term;
        if !is_late && (is_known || self.held == Some((point.index, point.term))) {
            self.on_leader_message(message, now);
            return;
        }
        // The leader is one all the same, but what it speaks of is not here: it has to be given again.
        let (from, term) = (message.from, message.term);
        message.body = MessageBody::Heartbeat {
            commit: Index(0),
            read: 0,
        };
        self.on_leader_message(message, now);
        if self.status.term == term && self.status.leader == Some(from) {
            let last = self.last_index();
            self.outbox.push(RaftMessage {
                from: self.me,
                to: from,
                term,
                body: MessageBody::AppendAnswer {
                    index: point.index,
                    commit: self.commit_index(),
                    reject: Some((last, self.term_of(last.0).unwrap_or_default())),
                    start: self.node_start,
                },
            });
        }
    }

    fn on_append_answer(&mut self, index: Index, is_reject: bool, message: RaftMessage, now: Monotonic) {
        let (from, term) = (message.from, message.term);
        if term == self.status.term && self.is_leader() {
            let is_awaited = self
                .raw
                .raft
                .prs()
                .get(from.0)
                .is_some_and(|progress| progress.state == ProgressState::Snapshot);
            if is_reject && is_awaited {
                if self
                    .raw
                    .store()
                    .offered(from)
                    .is_some_and(|point| point.index == index)
                {
                    self.transfer_failed(from);
                }
                return;
            }
            // Who holds an entry of this term was reached by something sent since the election.
            if let Some(leadership) = &self.leadership
                && !is_reject
                && index >= leadership.own_entry
            {
                let since = leadership.since;
                self.renew(from, since, now);
            }
        }
        self.deliver(message, now);
    }

    /// Hears of which start of a member's node an answer is: whether it counts. What a later start holds is asked anew: it may be less
    /// than was acknowledged, and the library takes refusals of what it counts for old ones. An answer of a former start that comes late
    /// would undo that.
    fn hear_start(&mut self, member: Incarnation, start: Boot, now: Monotonic) -> bool {
        let is_member = self.raw.raft.prs().get(member.0).is_some();
        let Some(leadership) = self.leadership.as_mut().filter(|_| is_member) else {
            return true;
        };
        match leadership.hear(member, start) {
            HeardStart::Known => true,
            HeardStart::Later => {
                if !mutations::is(Mutation::ProgressKept) {
                    self.begin_progress_anew(member);
                    self.observe(now);
                }
                true
            }
            HeardStart::Former => mutations::is(Mutation::FormerAnswersCount),
        }
    }

    fn begin_progress_anew(&mut self, member: Incarnation) {
        self.raw.mut_store().withdraw(member);
        self.snapshot_sends.retain(|(known, _)| *known != member);
        let next = self.last_index().0 + 1;
        let Some(progress) = self.raw.raft.mut_prs().get_mut(member.0) else {
            return;
        };
        progress.matched = 0;
        progress.committed_index = 0;
        progress.snapshot_failure();
        progress.become_probe();
        progress.next_idx = next;
        self.raw.raft.send_append(member.0);
    }

    fn deliver(&mut self, message: RaftMessage, now: Monotonic) {
        // It refuses answers of replicas that are no members, which is right.
        let _ = self.raw.step(convert::to_library(message));
        self.observe(now);
    }

    // ---- heartbeats between nodes

    /// What this replica claims, to each of the other members, if it leads.
    pub fn claims(&self) -> Vec<Claim> {
        if !self.is_leader() {
            return Vec::new();
        }
        let (group, term, leader) = (self.group, self.status.term, self.me);
        let others = self.members.all().into_iter().filter(|member| *member != leader);
        others
            .map(|to| Claim {
                group,
                term,
                leader,
                to,
            })
            .collect()
    }

    /// Whether this replica agrees with a claim of another node's heartbeat. If so, that is an acknowledgement, and the
    /// promise is renewed. `now` is read after the heartbeat was received.
    pub fn confirm(&mut self, claim: &Claim, now: Monotonic) -> bool {
        let agrees = claim.to == self.me
            && claim.group == self.group
            && claim.term == self.status.term
            && self.status.leader == Some(claim.leader)
            && self.status.role == Role::Follower;
        if agrees {
            self.heard_leader(claim.term, claim.leader, now);
        }
        agrees
    }

    /// A member confirmed, in this start of its node and in answer to a heartbeat sent at `sent`, that this replica leads in `term`.
    pub fn acknowledged(&mut self, claim: &Claim, start: Boot, sent: Monotonic, now: Monotonic) {
        if !self.is_leader() || claim.term != self.status.term || claim.leader != self.me {
            return;
        }
        if !self.hear_start(claim.to, start, now) {
            return;
        }
        self.renew(claim.to, sent, now);
        self.reach(claim.to, now);
    }

    /// A member does not agree: it may not know of the election, or know of a later one.
    pub fn refused(&mut self, claim: &Claim, start: Boot, now: Monotonic) {
        if !self.is_leader() || claim.term != self.status.term || claim.leader != self.me {
            return;
        }
        if !self.hear_start(claim.to, start, now) {
            return;
        }
        self.reach(claim.to, now);
        if let Some(progress) = self.raw.raft.prs().get(claim.to.0)
            && progress.state != ProgressState::Snapshot
        {
            self.raw.raft.send_append(claim.to.0);
        }
    }

    /// Sends again what a member that is there lacks: entries, the commit index, the point of its state.
    fn reach(&mut self, member: Incarnation, now: Monotonic) {
        let Some(progress) = self.raw.raft.prs().get(member.0) else {
            return;
        };
        let log = &self.raw.raft.raft_log;
        match progress.state {
            ProgressState::Snapshot => self.tell_point(member),
            _ if progress.matched < log.last_index() => {
                // What the library does when a member answers its own heartbeat.
                let mut answer = eraftpb::Message::default();
                answer.set_msg_type(MessageType::MsgHeartbeatResponse);
                answer.from = member.0;
                answer.to = self.me.0;
                answer.term = self.raw.raft.term;
                let _ = self.raw.step(answer);
                self.observe(now);
            }
            // Commit indexes travel with entries; after the last entry nothing else would carry them.
            _ if progress.committed_index < log.committed => self.raw.raft.send_append(member.0),
            _ => {}
        }
    }

    fn renew(&mut self, member: Incarnation, sent: Monotonic, now: Monotonic) {
        if let Some(leadership) = &mut self.leadership {
            leadership.acknowledge(member, sent, now, &self.members, self.me);
        }
    }

    // ---- writes

    /// Appends an entry, if this replica leads. It is committed when it comes out of [`take_ready`](RaftNode::take_ready)
    /// with this index *and term*; with another term there, it never will be.
    ///
    /// # Errors
    /// If it certainly was not appended.
    pub fn propose(&mut self, data: Bytes) -> Result<(Index, Term), ProposeRefused> {
        if !self.is_leader() {
            return Err(ProposeRefused::NotLeader(self.status.leader));
        }
        if data.len() > ENTRY_BYTES_MAX {
            return Err(ProposeRefused::TooLong);
        }
        let entry = eraftpb::Entry {
            data,
            ..eraftpb::Entry::default()
        };
        let mut message = eraftpb::Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.me.0;
        message.set_entries(vec![entry].into());
        match self.raw.raft.step(message) {
            Ok(()) => Ok((self.last_index(), self.status.term)),
            Err(_) => Err(ProposeRefused::Transferring),
        }
    }

    /// The owner has applied everything up to `index`, which came out of [`take_ready`](RaftNode::take_ready).
    pub fn applied(&mut self, index: Index) {
        if index.0 <= self.applied_wanted {
            return;
        }
        assert!(
            index <= self.commit_index(),
            "what is applied was committed and handed out before"
        );
        self.applied_wanted = index.0;
        while let Some((at, _)) = self.members_ahead.front() {
            if *at > index.0 {
                break;
            }
            let (_, members) = self.members_ahead.pop_front().expect("it has a front");
            self.members_applied = members;
        }
        self.tell_applied();
    }

    fn tell_applied(&mut self) {
        let log = &self.raw.raft.raft_log;
        let to = self.applied_wanted.min(log.committed).min(log.persisted);
        if to <= log.applied {
            return;
        }
        let last = log.last_index();
        self.raw.advance_apply_to(to);
        if self.raw.raft.raft_log.last_index() > last {
            // It appended the end of a joint change, and leaves the sending to somebody else.
            self.raw.raft.bcast_append();
        }
    }

    /// Whether this replica leads and has applied an entry of its own term: so it has applied whatever was committed before.
    pub fn is_established(&self) -> bool {
        let leadership = self.leadership.as_ref();
        leadership.is_some_and(|leadership| self.applied_wanted >= leadership.own_entry.0)
    }

    // ---- reads

    /// How a read may be answered now. `now` is read after everything else that the read depends on.
    pub fn read_permit(&self, now: Monotonic) -> ReadPermit {
        let Some(leadership) = &self.leadership else {
            return ReadPermit::NotLeader;
        };
        let applied = self.applied_wanted;
        if applied < leadership.own_entry.0 && !mutations::is(Mutation::ReadBeforeOwnEntry) {
            return ReadPermit::ReadIndex;
        }
        if leadership.is_given_up && !mutations::is(Mutation::LeaseKeptAcrossTransfer) {
            return ReadPermit::ReadIndex;
        }
        let is_held = leadership
            .reached()
            .is_some_and(|reached| now < reached.after(self.times.lease()));
        if is_held {
            ReadPermit::Lease(Lease {
                term: leadership.term,
            })
        } else {
            ReadPermit::ReadIndex
        }
    }

    /// Whether `lease` still holds: to be asked after the value was read, with a clock that was read after it too. If not,
    /// the value must not be shown.
    pub fn holds(&self, lease: Lease, now: Monotonic) -> bool {
        mutations::is(Mutation::LeaseNotChecked) || self.read_permit(now) == ReadPermit::Lease(lease)
    }

    /// Begins a round that confirms leadership. Reads that arrived before may be answered when it comes out of
    /// [`take_ready`](RaftNode::take_ready) and its index is applied; one round a turn serves all of them.
    ///
    /// # Errors
    /// If none was begun.
    pub fn read_index(&mut self, now: Monotonic) -> Result<ReadId, ReadRefused> {
        if !self.is_leader() {
            return Err(ReadRefused::NotLeader(self.status.leader));
        }
        if !self.raw.raft.commit_to_current_term() {
            return Err(ReadRefused::NotYet);
        }
        if self.rounds.len() >= READ_ROUNDS_MAX {
            return Err(ReadRefused::Busy);
        }
        if !mutations::is(Mutation::ReusedReadId) || self.rounds_counted == 0 {
            // Never set back, also not by a new term.
            self.rounds_counted += 1;
        }
        let number = self.rounds_counted;
        self.raw.read_index(convert::read_to_library(number));
        if self.rounds.iter().all(|(known, _)| *known != number) {
            self.rounds.push_back((number, now));
        }
        self.rounds_sent = now;
        Ok(self.read_id(number))
    }

    fn read_id(&self, number: u64) -> ReadId {
        ReadId {
            replica: self.me,
            term: self.status.term,
            number,
        }
    }

    // ---- leadership

    /// Hands leadership over to `to`: from now on there is no lease in this term, whatever becomes of it.
    ///
    /// # Errors
    /// If it was not begun.
    pub fn transfer(&mut self, to: Incarnation, now: Monotonic) -> Result<(), TransferRefused> {
        let Some(leadership) = &mut self.leadership else {
            return Err(TransferRefused::NotLeader);
        };
        if self.transfer_until.is_some() {
            return Err(TransferRefused::Busy);
        }
        if to == self.me || !self.members.voters.contains(&to) {
            return Err(TransferRefused::NotVoter);
        }
        leadership.is_given_up = true;
        self.transfer_until = Some(now.after(self.times.election_max));
        self.raw.transfer_leader(to.0);
        self.observe(now);
        Ok(())
    }

    /// Whether leadership is on its way to another, who has some time to take it.
    pub fn is_transferring(&self) -> bool {
        self.transfer_until.is_some()
    }

    // ---- members

    /// Proposes that `target`'s voters and learners be the members. It is in force when it comes out of
    /// [`take_ready`](RaftNode::take_ready) as members that are not joint.
    ///
    /// # Errors
    /// If it was not proposed.
    pub fn change_members(&mut self, target: &Members) -> Result<(), ChangeRefused> {
        if !self.is_established() {
            return Err(ChangeRefused::NotLeader);
        }
        if self.transfer_until.is_some() {
            return Err(ChangeRefused::Transferring);
        }
        if self.members.is_joint() || self.raw.raft.has_pending_conf() {
            return Err(ChangeRefused::Busy);
        }
        if !change::keeps_voter(target, self.me) {
            return Err(ChangeRefused::LeaderLeaves);
        }
        let steps = change::steps(&self.members, target)?;
        let context = steps.get_context().to_vec();
        self.raw
            .propose_conf_change(context, steps)
            .map_err(|_| ChangeRefused::Transferring)
    }

    // ---- transfers of state

    /// `to` was given the whole state as of `point`: it is told so, and the log goes on from there. Answers whether the
    /// log still does; if not, the transfer is to start again.
    pub fn offer_transfer(&mut self, to: Incarnation, point: SnapshotPoint, now: Monotonic) -> bool {
        let fits = self.is_leader()
            && point.index.0 <= self.raw.raft.raft_log.applied
            && self.term_of(point.index.0) == Some(point.term)
            && self.raw.raft.prs().get(to.0).is_some();
        if fits {
            self.raw.mut_store().offer(to, point);
            self.reach(to, now);
        }
        fits
    }

    /// The transfer to `to` is lost. It is wanted again if it still lags.
    pub fn transfer_failed(&mut self, to: Incarnation) {
        self.raw.mut_store().withdraw(to);
        self.snapshot_sends.retain(|(member, _)| *member != to);
        self.raw.report_snapshot(to.0, SnapshotStatus::Failure);
    }

    /// This replica was given the whole state as of this place and has not installed it; `None`: it has nothing such any
    /// more. Only what is held can be installed. Answers whether that may be so: once the leader's word was accepted,
    /// what is held stays as it is until [`take_ready`](RaftNode::take_ready) has said to install it.
    #[must_use]
    pub fn hold_transfer(&mut self, held: Option<(Index, Term)>) -> bool {
        let may_change = self.raw.raft.raft_log.unstable_snapshot().is_none();
        if may_change {
            self.held = held;
        }
        may_change
    }

    /// Says the point again, because the message may be lost; not for ever.
    fn tell_point(&mut self, member: Incarnation) {
        let Some(point) = self.raw.store().offered(member).cloned() else {
            self.transfer_failed(member);
            return;
        };
        let place = match self.snapshot_sends.iter().position(|(known, _)| *known == member) {
            Some(place) => place,
            None => {
                self.snapshot_sends.push((member, 0));
                self.snapshot_sends.len() - 1
            }
        };
        let sends = &mut self.snapshot_sends[place].1;
        *sends += 1;
        let most = match self.durability {
            Durability::Memory => SNAPSHOT_SENDS_MAX,
            Durability::Durable => SNAPSHOT_SENDS_DURABLE_MAX,
        };
        if *sends > most {
            self.transfer_failed(member);
            return;
        }
        self.outbox.push(RaftMessage {
            from: self.me,
            to: member,
            term: self.status.term,
            body: MessageBody::Snapshot(point),
        });
    }

    // ---- the log's size

    /// Up to where the log should be compacted, if it is long beside a state of `state_bytes`. `held` are places behind which
    /// the log is still needed by transfers under way; above [`LOG_BYTES_MAX`](crate::LOG_BYTES_MAX) they are not heeded, nor are
    /// followers, but those that are there and take what they are sent: a large value is on its way to them for a while.
    pub fn compactable(
        &self,
        held: impl IntoIterator<Item = Index>,
        state_bytes: impl FnOnce() -> usize,
    ) -> Option<Index> {
        if self.raw.store().is_short() {
            return None;
        }
        let mut needed = held.into_iter().map(|index| index.0).min().unwrap_or(u64::MAX);
        let mut taken_in = u64::MAX;
        if self.is_leader() {
            // Who is before the start cannot be served from the log anyhow; who is there can.
            let start = self.raw.store().start();
            for (member, progress) in self.raw.raft.prs().iter() {
                if progress.matched < start {
                    // A voter that this leader has not heard yet may have nearly everything: it starts again, with its log.
                    if progress.matched == 0 && self.members.is_voter(Incarnation(*member)) {
                        needed = needed.min(start);
                    }
                    continue;
                }
                needed = needed.min(progress.matched);
                if progress.state == ProgressState::Replicate && self.is_there(Incarnation(*member)) {
                    taken_in = taken_in.min(progress.matched);
                }
            }
        }
        let applied = self.raw.raft.raft_log.applied;
        let store = self.raw.store();
        store
            .compactable(applied, needed, taken_in, state_bytes())
            .map(Index)
    }

    /// Whether another member has acknowledged something lately.
    fn is_there(&self, member: Incarnation) -> bool {
        let leadership = self.leadership.as_ref();
        let acknowledged = leadership.and_then(|leadership| leadership.acknowledged(member));
        member == self.me || acknowledged.is_some_and(|at| self.seen.since(at) < self.times.election_max * 4)
    }

    /// Drops the log up to `to`, but not what is not applied.
    pub fn compact(&mut self, to: Index) {
        let to = to.0.min(self.raw.raft.raft_log.applied);
        if self.raw.raft.raft_log.unstable_snapshot().is_none() {
            self.raw.mut_store().compact(to);
        }
    }

    // ---- output

    /// Whether [`take_ready`](RaftNode::take_ready) has anything.
    pub fn has_ready(&self) -> bool {
        self.raw.has_ready()
            || !self.outbox.is_empty()
            || !self.reads_lost.is_empty()
            || self.status != self.status_told
            || self.claims_changed
            || self.raw.store().has_wanted()
    }

    /// Whether more is committed than [`take_ready`](RaftNode::take_ready) has handed out, once that is applied: the rest is for later turns.
    pub fn is_behind(&self) -> bool {
        self.last_to_apply() > self.applied_wanted && self.raw.has_ready()
    }

    /// The last place that may be handed out.
    fn last_to_apply(&self) -> u64 {
        let log = &self.raw.raft.raft_log;
        log.committed.min(log.persisted)
    }

    /// Everything that has to be done because of the inputs since the last time: once a turn. Of what is committed it is [`COMMITTED_BYTES`] or
    /// one entry at most, twice that where nothing is written, and the rest comes with the next calls: a replica that begins with a long log applies all of it, and is to be
    /// heard meanwhile.
    pub fn take_ready(&mut self, now: Monotonic) -> Ready {
        self.seen = now;
        let mut ready = Ready::default();
        if mutations::is(Mutation::MinorityCommit) && self.is_leader() {
            let last = self.raw.raft.raft_log.last_index();
            self.raw.raft.raft_log.commit_to(last);
        }
        while self.raw.has_ready() {
            self.take_library_ready(&mut ready, now);
            let handed_out = ready.committed.last().map(|committed| committed.index.0);
            if handed_out.is_some_and(|last| last < self.last_to_apply()) {
                break;
            }
        }
        self.observe(now);
        ready.messages.append(&mut self.outbox);
        ready.reads_lost.append(&mut self.reads_lost);
        ready.transfers_wanted = self.raw.mut_store().take_wanted();
        ready.claims_changed = std::mem::take(&mut self.claims_changed);
        if self.status != self.status_told {
            self.status_told = self.status;
            ready.status = Some(self.status);
        }
        ready
    }

    fn take_library_ready(&mut self, ready: &mut Ready, now: Monotonic) {
        let mut step = self.raw.ready();
        for state in step.take_read_states() {
            self.confirm_rounds(&state, ready);
        }
        let has_start = step.snapshot().get_metadata().index != 0;
        let start = has_start.then(|| Box::new(convert::point_of(step.snapshot())));
        if let Some(point) = &start {
            self.raw.mut_store().restart((**point).clone());
            self.held = None;
            self.members = point.members.clone();
            self.members_applied = point.members.clone();
            self.members_ahead.clear();
            self.applied_wanted = point.index.0;
            ready.install = Some(point.clone());
            self.claims_changed = true;
        }
        let entries = step.take_entries();
        let written: Vec<LogEntry> = match self.durability {
            Durability::Memory => Vec::new(),
            Durability::Durable => entries.iter().cloned().map(convert::entry_from_library).collect(),
        };
        self.raw.mut_store().append(entries);
        let mut committed = step.take_committed_entries();
        self.post(step.take_messages(), None);
        let persisted_messages = step.take_persisted_messages();
        match self.durability {
            Durability::Memory => {
                self.post(persisted_messages, None);
                let mut light = self.raw.advance_append(step);
                committed.append(&mut light.take_committed_entries());
                self.post(light.take_messages(), None);
            }
            Durability::Durable => {
                let number = step.number();
                let must_write = step.must_sync() || start.is_some() || self.commits_change();
                self.raw.advance_append_async(step);
                if must_write {
                    self.unpersisted.push_back((number, Vec::new()));
                    self.post(persisted_messages, Some(number));
                    self.ask_to_persist(ready, number, start, written);
                } else if let Some((last, _)) = self.unpersisted.back() {
                    // It may speak of what is still being written.
                    let last = *last;
                    self.post(persisted_messages, Some(last));
                } else {
                    self.post(persisted_messages, None);
                    self.raw.on_persist_ready(number);
                }
            }
        }
        self.tell_applied();
        for entry in committed {
            self.commit(entry, ready, now);
        }
    }

    /// Whether a change of the members has come to be known as committed since the last call. That is written before anybody is told:
    /// who hears that a majority knows of it relies on that ([`RaftNode::is_known_committed`]), whoever starts again.
    fn commits_change(&mut self) -> bool {
        let commit = self.raw.raft.raft_log.committed;
        let seen = std::mem::replace(&mut self.commit_seen, commit);
        let new = self.raw.store().entries_from(seen + 1);
        let mut new = new.take_while(|entry| entry.index <= commit);
        new.any(log::is_change) && !mutations::is(Mutation::ChangeNotKept)
    }

    fn ask_to_persist(
        &self,
        ready: &mut Ready,
        number: u64,
        start: Option<Box<SnapshotPoint>>,
        mut entries: Vec<LogEntry>,
    ) {
        let hard_state = self.hard_state();
        match &mut ready.persist {
            Some(persist) if start.is_none() => {
                if let Some(first) = entries.first() {
                    persist.entries.retain(|entry| entry.index < first.index);
                }
                persist.entries.append(&mut entries);
                persist.number = number;
                persist.hard_state = hard_state;
            }
            persist => {
                *persist = Some(Persist {
                    number,
                    start,
                    entries,
                    hard_state,
                });
            }
        }
    }

    /// What it promises waits for the disk from here on, or does not any more: what is being written then counts as kept.
    pub fn set_durability(&mut self, durability: Durability, now: Monotonic) {
        self.durability = durability;
        if let (Durability::Memory, Some((last, _))) = (durability, self.unpersisted.back()) {
            self.persisted(*last, now);
        }
    }

    /// Everything of this request, and of those before it, is on disk. Of a durable group only.
    pub fn persisted(&mut self, number: u64, now: Monotonic) {
        self.raw.on_persist_ready(number);
        while let Some((waiting, _)) = self.unpersisted.front() {
            if *waiting > number {
                break;
            }
            let (_, mut messages) = self.unpersisted.pop_front().expect("it has a front");
            self.outbox.append(&mut messages);
        }
        self.tell_applied();
        self.observe(now);
    }

    /// Messages leave now, or when the request `behind` is persisted.
    fn post(&mut self, messages: Vec<eraftpb::Message>, behind: Option<u64>) {
        let start = self.node_start;
        let messages = messages
            .into_iter()
            .filter_map(|message| convert::from_library(message, start));
        match behind {
            None => self.outbox.extend(messages),
            Some(number) => {
                let (waiting, queue) = self.unpersisted.back_mut().expect("a request was made");
                assert!(*waiting == number, "messages wait for the latest request");
                queue.extend(messages);
            }
        }
    }

    fn commit(&mut self, entry: eraftpb::Entry, ready: &mut Ready, now: Monotonic) {
        let (index, term) = (Index(entry.index), Term(entry.term));
        let effect = if log::is_change(&entry) {
            match self.change(&entry) {
                Some(members) => {
                    self.members_ahead.push_back((index.0, members.clone()));
                    self.members_changed(members.clone(), now);
                    EntryEffect::Members(members)
                }
                None => EntryEffect::Nothing,
            }
        } else if entry.data.is_empty() {
            EntryEffect::Nothing
        } else {
            EntryEffect::Apply(entry.data)
        };
        ready.committed.push(Committed { index, term, effect });
    }

    /// Puts a committed change in force; `None` if it changes nothing, which is then so on every replica.
    fn change(&mut self, entry: &eraftpb::Entry) -> Option<Members> {
        let change = change::decode(&entry.context)?;
        let state = self.raw.apply_conf_change(&change).ok()?;
        Some(Members::from_library(&state))
    }

    fn members_changed(&mut self, members: Members, now: Monotonic) {
        self.members = members;
        self.claims_changed = true;
        let all = self.members.all();
        self.snapshot_sends.retain(|(member, _)| all.contains(member));
        self.raw.mut_store().withdraw_others(&all);
        if self.is_leader() && !self.members.is_voter(self.me) {
            // The library would go on leading, and trip over its own absence from the progress table.
            let term = self.raw.raft.term;
            self.raw.raft.become_follower(term, raft::INVALID_ID);
            self.observe(now);
        }
        if let Some(leadership) = &mut self.leadership {
            leadership.count(&self.members, self.me);
        }
    }

    fn confirm_rounds(&mut self, state: &raft::ReadState, ready: &mut Ready) {
        let Some(number) = convert::read_from_library(&state.request_ctx) else {
            return;
        };
        let Some(place) = self.rounds.iter().position(|(known, _)| *known == number) else {
            return;
        };
        self.rounds.remove(place);
        ready.reads.push((self.read_id(number), Index(state.index)));
    }

    // ---- what the library became

    /// Looks at what an input made of the library's role, term and leader.
    fn observe(&mut self, now: Monotonic) {
        let raft = &self.raw.raft;
        let role = match raft.state {
            StateRole::Follower => Role::Follower,
            StateRole::PreCandidate | StateRole::Candidate => Role::Candidate,
            StateRole::Leader => Role::Leader,
        };
        let status = Status {
            role,
            term: Term(raft.term),
            leader: (raft.leader_id != raft::INVALID_ID).then_some(Incarnation(raft.leader_id)),
        };
        if status == self.status {
            return;
        }
        let before = std::mem::replace(&mut self.status, status);
        let was_leader = before.role == Role::Leader;
        let goes_on = was_leader && role == Role::Leader && before.term == status.term;
        if was_leader && !goes_on {
            let (replica, term) = (self.me, before.term);
            self.reads_lost
                .extend(self.rounds.drain(..).map(|(number, _)| ReadId {
                    replica,
                    term,
                    number,
                }));
            self.leadership = None;
            self.transfer_until = None;
            self.snapshot_sends.clear();
            self.raw.mut_store().withdraw_all();
            self.claims_changed = true;
            self.heard = now;
            self.has_campaigned = false;
        }
        if role == Role::Leader && !goes_on {
            // The library appended the first entry of the term when it was elected, and nothing since.
            let own_entry = self.last_index();
            let mut leadership = Leadership::new(status.term, now, own_entry);
            leadership.count(&self.members, self.me);
            self.leadership = Some(leadership);
            self.claims_changed = true;
        }
        if before.term != status.term || status.role == Role::Follower {
            self.draw_patience();
        }
    }

    /// What it must not forget besides its log, if it is durable.
    pub fn hard_state(&self) -> HardState {
        let state = self.raw.raft.hard_state();
        HardState {
            term: Term(state.term),
            vote: (state.vote != 0).then_some(Incarnation(state.vote)),
            commit: Index(state.commit),
        }
    }

    /// The term of the entry at a place, if it is in the log.
    fn term_of(&self, index: u64) -> Option<Term> {
        let log = &self.raw.raft.raft_log;
        if index + 1 < log.first_index() || index > log.last_index() {
            return None;
        }
        log.term(index).ok().map(Term)
    }
}

//! The role of a replica whose group has a log: between what gateways ask and what is applied stands consensus.
//!
//! ```text
//!  leader    batch --> gathered --turn's end--> entry in flight --committed--> applied --> response to the gateway
//!  alone     command --> applied in the open entry, which is proposed at the turn's end (`open_entry.rs`): the node tells nobody before
//!            that is kept
//!       free reads --> evaluated at once, under the lease, which is looked at again when the turn ends
//!      other reads --> behind unapplied writes of the group: attached to their entry, and ahead of later writes of their gateway
//!                  \-> else evaluated at once, under the lease, which is looked at again when the turn ends;
//!                      if a key has expired by the clock alone: behind an entry, by group time;
//!                      without a lease: when a round has confirmed that nobody else leads
//!  anybody   committed entry --> applied
//!  durable   what must not be forgotten --> disk --kept--> acknowledged, and committed (`disk.rs`)
//!  learner   chunks --> snapshot receiver --the leader's snapshot message--> installed; the log goes on from there
//!  anybody   entry that begins a round --> hash of a slice --> all members: whoever differs from most is given up (`consensus/scrub.rs`)
//! ```
//!
//! At most [`FLIGHTS_MAX`] entries are in flight; what comes meanwhile gathers (`member/gathering.rs`), so that entries grow by
//! themselves.
//!
//! Invariants:
//! 1. Entries are applied in the order of their indices, each once.
//! 2. A gateway is answered for a write when its entry was applied, not before.
//! 3. A read is answered from a state that holds every write that was acknowledged before the read came, and what its gateway
//!    sent before it.
//! 4. What a follower applies answers nobody. Clients of its own node may hear of it, or wait for a key that it fills.
//!
//! And of what is kept between two turns, as [`Member::check`] looks at it:
//! 5. Only a leader keeps what gateways have sent, and reads that wait.
//! 6. At most [`FLIGHTS_MAX`] entries are in flight, in the order of their indices, behind what is applied, and of this term.
//! 7. Those of what is gathered hold.
//! 8. What was read under the lease has been told, or is to be confirmed.
//! 9. The members are those of an entry that is applied.
//! 10. An entry that is applied before it is committed is the next one, of a leader alone, and nothing is in flight before it.

mod fragments;
mod gathering;
mod open_entry;
mod snapshots;
mod unconfirmed;

pub use self::snapshots::{Chunk, CopyCost};

pub use self::fragments::CodingCounts;
use self::fragments::{Around, Fragments, Readiness};
use self::gathering::{Gathered, Gathering, Next};
use self::open_entry::OpenEntry;
use self::snapshots::Snapshots;
use self::unconfirmed::Unconfirmed;
use crate::at_once::{AtOnce, Call, CarriedOut};
use crate::batch::{AnswersBuf, Batch, Question, reads};
use crate::coding_message::CodingMessage;
use crate::counts::MemberCounts;
use crate::disk::{DiskAnswer, DiskRequest, LogBase, LogBegin};
use crate::replica::Input;
use crate::response::{BatchOutcome, BatchResponse};
use crate::state::GroupState;
use crate::turn::Turn;
use crate::waiting_reads::ReadPlace;
use bytes::Bytes;
use command::Command;
use consensus::{
    Committed, Durability, EntryEffect, Index, Members, RaftMessage, RaftNode, ReadPermit, Ready, Role,
    Saved, Scrub, Scrubbed, SnapshotPoint, Status, Term, Verdict,
};
use ids::{GatewayId, GroupId, Incarnation, Monotonic, NodeId, PartitionId, Prng};
use keyspace::{BlockCommand, Entry, EntryOperation, Header, Needed, Operations, OperationsMark, Read};
use mutations::Mutation;
use resp::{FrozenRope, ReplyWriter};
use std::collections::{BTreeMap, VecDeque};

/// Entries in flight: one is on its way while the next is made.
pub const FLIGHTS_MAX: usize = 2;

/// An answer that is always told, because nothing shorter could be said instead of it.
const SHORT_ANSWER_BYTES: usize = 1024;

/// Batches that wait for an entry or a confirmation. At the limit a batch is sent back to be sent again: its gateway keeps
/// it anyway.
const GATHERED_MAX: usize = 4_096;

/// Short reads that are gone on with at a time.
const READS_ON: usize = 64;

/// Who sent a batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Sender {
    /// Its node.
    pub node: NodeId,
    /// Its session.
    pub gateway: GatewayId,
}

/// What a member wants done, gathered over a turn.
#[derive(Default)]
pub struct Effects {
    /// To be sent to the nodes of these replicas.
    pub messages: Vec<RaftMessage>,
    /// What became of batches, and which nodes are to be told.
    pub responses: Vec<(NodeId, BatchResponse)>,
    /// Pieces of state for learners.
    pub chunks: Vec<(Incarnation, Chunk)>,
    /// Who leads, or what this replica is, has changed.
    pub status: Option<Status>,
    /// The members are others.
    pub members_changed: bool,
    /// Whether the piece of state that came was the next one, and is held.
    pub is_taken: bool,
    /// The same, but its sender is answered when it is written.
    pub is_taken_later: bool,
    /// Pieces of state of which their senders are to be told that they are held: sender, transfer, number.
    pub chunks_taken: Vec<(Incarnation, u64, u64)>,
    /// What is to be kept on disk, in order.
    pub disk: Vec<DiskRequest>,
    /// The node's heartbeats are to gather this group's claim again.
    pub claims_changed: bool,
    /// The state was replaced by what a leader sent.
    pub was_installed: bool,
    /// An entry cannot be applied by this build: the replica has stopped.
    pub stopped: Option<String>,
    /// What is told other members of the state here.
    pub scrubbed: Vec<(Incarnation, Scrubbed)>,
    /// What is told other members of a group whose values are kept as fragments.
    pub coding: Vec<(Incarnation, CodingMessage)>,
    /// Members whose state was found to differ from that of most, this one among the most.
    pub differing: Vec<Incarnation>,
    /// Whether replicas differ, and nobody can tell which of them are right.
    pub is_undecided: bool,
    /// Whether an entry could not be read, and was left out: a mistake of this program.
    pub is_unread: bool,
    /// The state here differs from that of most voters. Nothing of it may be used again: the replica is to be given up. Of what
    /// it was about to say nothing is left but that others are to be asked.
    pub differs: bool,
}

/// An entry on its way.
struct Flight {
    index: Index,
    term: Term,
    /// Its batches, in order.
    gathered: Vec<Gathered>,
    /// Batches of reads alone that came behind it.
    attached: Vec<Gathered>,
    /// How many batches this leader had proposed before.
    batches_before: u64,
}

/// A batch of reads that was answered under the lease, before the lease was looked at again.
struct Evaluated {
    gathered: Gathered,
    answers: FrozenRope,
    /// How many entries were applied before.
    entries: u64,
}

/// See the file's header.
pub struct Member {
    group: GroupId,
    /// How many times the group had begun anew when this replica began.
    generation: u64,
    raft: RaftNode,
    role: Role,
    term: Term,
    leader: Option<Incarnation>,
    members: Members,
    /// The place of the entry that made them members, or a later one at which they were.
    members_at: Index,
    applied: Index,
    gathering: Gathering,
    /// What is applied already, beyond `applied`.
    open_entry: OpenEntry,
    flights: VecDeque<Flight>,
    unconfirmed: Unconfirmed,
    evaluated: Vec<Evaluated>,
    snapshots: Snapshots,
    is_stopped: bool,
    scrub: Scrub,
    fragments: Fragments,
    /// The last entry by which a value may get another name.
    renamed_at: Index,
    /// Where the log ended when it began to lead.
    leads_from: Index,
    counts: MemberCounts,
    now: Monotonic,
    /// Where the gateways are that have sent batches with writes to this leader.
    nodes: BTreeMap<GatewayId, NodeId>,
    /// What the log on disk is to begin with, until that was requested.
    begins: Option<Box<LogBegin>>,
}

/// In whose name gateways are answered.
#[derive(Clone, Copy)]
struct Voice {
    group: GroupId,
    generation: u64,
    term: Term,
}

impl Voice {
    fn say(self, effects: &mut Effects, to: Sender, sequence: u64, outcome: BatchOutcome) {
        let Voice {
            group,
            generation,
            term,
        } = self;
        let response = BatchResponse {
            group,
            generation,
            term,
            gateway: to.gateway,
            sequence,
            outcome,
        };
        effects.responses.push((to.node, response));
    }

    /// It was not looked at, or will not be.
    fn send_back(self, effects: &mut Effects, to: Sender, sequence: u64) {
        self.say(effects, to, sequence, BatchOutcome::NotLeader { leader: None });
    }
}

impl Member {
    /// The part of a replica whose log begins where its keyspace is; `base` says what of that is on disk.
    pub(crate) fn new(
        group: GroupId,
        generation: u64,
        raft: RaftNode,
        applied: Index,
        base: LogBase,
    ) -> Member {
        let members = raft.members().clone();
        let begins = raft
            .is_durable()
            .then(|| Member::begin_of(&raft, generation, applied, base));
        let needs_snapshot = begins.is_some() && base != LogBase::Stored && applied > Index(0);
        Member {
            group,
            generation,
            role: Role::Follower,
            term: Term(0),
            leader: None,
            members,
            members_at: applied,
            applied,
            scrub: Scrub::new(raft.me(), applied),
            raft,
            gathering: Gathering::default(),
            open_entry: OpenEntry::default(),
            flights: VecDeque::new(),
            unconfirmed: Unconfirmed::default(),
            evaluated: Vec::new(),
            snapshots: Snapshots::new(needs_snapshot),
            is_stopped: false,
            fragments: Fragments::default(),
            renamed_at: Index(0),
            leads_from: Index(0),
            counts: MemberCounts::default(),
            now: Monotonic(0),
            nodes: BTreeMap::new(),
            begins,
        }
    }

    /// Says which of the invariants that can be seen between two turns does not hold.
    pub(crate) fn check(&self, state: &GroupState) -> Result<(), String> {
        let fails =
            |invariant: u8, what: &str| Err(format!("invariant {invariant} of {:?}: {what}", self.group));
        let held = self.flights.len() + self.waiting() + state.waiting_reads.len();
        if self.role != Role::Leader && (held > 0 || self.has_own()) {
            return fails(5, &format!("{held} of gateways at a {:?}", self.role));
        }
        let places = self.flights.iter().map(|flight| flight.index);
        let is_ahead = self
            .flights
            .front()
            .is_none_or(|flight| flight.index > self.applied);
        let is_present = self.flights.iter().all(|flight| flight.term == self.term);
        if self.flights.len() > FLIGHTS_MAX || !places.is_sorted_by(|a, b| a < b) || !is_ahead || !is_present
        {
            let places: Vec<_> = self
                .flights
                .iter()
                .map(|flight| (flight.index, flight.term))
                .collect();
            return fails(6, &format!("{places:?} in flight, {:?} applied", self.applied));
        }
        if let Err(what) = self.gathering.check() {
            return fails(7, &what);
        }
        if !self.evaluated.is_empty() {
            return fails(8, &format!("{} not told", self.evaluated.len()));
        }
        if self.members_at > self.applied {
            return fails(
                9,
                &format!("members of {:?}, {:?} applied", self.members_at, self.applied),
            );
        }
        if !self.open_entry.is_none() {
            let last = self.raft.last_index().0;
            let is_next = match self.open_entry.closed() {
                Some((index, _)) => index.0 == self.applied.0 + 1 && last >= index.0,
                None => last == self.applied.0 && self.flights.is_empty(),
            };
            if !is_next || !self.raft.is_leader() {
                return fails(10, &format!("{:?} applied, the log ends at {last}", self.applied));
            }
        }
        self.scrub.check()
    }

    /// What it has done since it began.
    pub fn counts(&self) -> MemberCounts {
        self.counts
    }

    /// How many keys commands had changed here when the snapshot was made that was stored last.
    pub(crate) fn changes_stored(&self) -> u64 {
        self.snapshots.changes_stored()
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.group
    }

    /// The consensus below.
    pub fn raft(&self) -> &RaftNode {
        &self.raft
    }

    /// The consensus below, for heartbeats, transfers of leadership and changes of members.
    pub(crate) fn raft_mut(&mut self) -> &mut RaftNode {
        &mut self.raft
    }

    /// Whether this replica leads, as far as it knows.
    pub fn leads(&self) -> bool {
        self.role == Role::Leader
    }

    /// Whom it takes for the leader.
    pub fn leader(&self) -> Option<Incarnation> {
        self.leader
    }

    /// Its term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// The members as of the last entry that changed them.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The place in the log of the entry that made them so, or a later one at which they were.
    pub fn members_at(&self) -> Index {
        self.members_at
    }

    /// The last entry that the state reflects.
    pub fn applied(&self) -> Index {
        self.applied
    }

    /// Whether a command that only reads may be answered from the state at once, beside entries in flight, which others
    /// sent. The lease is to be looked at again ([`Member::still_leads`]) before the answer leaves.
    #[inline]
    pub fn may_read(&self, now: Monotonic) -> bool {
        let has_lease = matches!(self.raft.read_permit(now), ReadPermit::Lease(_));
        self.role == Role::Leader && (has_lease || mutations::is(Mutation::LeaseIgnored))
    }

    /// Whether what was read under the lease this turn may be told.
    #[inline]
    pub fn still_leads(&self, now: Monotonic) -> bool {
        self.may_read(now) || mutations::is(Mutation::LeaseNotChecked)
    }

    /// In whose name gateways are answered.
    fn voice(&self) -> Voice {
        Voice {
            group: self.group,
            generation: self.generation,
            term: self.term,
        }
    }

    /// Takes one step.
    pub(crate) fn step(
        &mut self,
        state: &mut GroupState,
        turn: &Turn,
        now: Monotonic,
        input: Input<'_>,
        effects: &mut Effects,
    ) {
        match input {
            Input::Batch { sender, batch } => self.on_batch(state, turn, now, sender, batch, effects),
            Input::Own(operation) if self.role == Role::Leader => self.gathering.ask(operation),
            Input::Own(_) => {}
            Input::Message(message) => self.raft.step(message, now),
            // What cannot be read is not taken, and its sender begins again.
            Input::Chunk { from, mut chunk } => {
                let taken = self
                    .snapshots
                    .on_chunk(from, &mut chunk, state.keyspace(), &mut self.raft);
                effects.is_taken = taken.unwrap_or(false);
                if effects.is_taken && self.raft.is_durable() {
                    (effects.is_taken, effects.is_taken_later) = (false, true);
                    effects.disk.push(DiskRequest::Received {
                        from,
                        transfer: chunk.transfer,
                        number: chunk.number,
                        bytes: chunk.bytes,
                    });
                }
            }
            Input::Disk(answer) => self.on_disk(answer, now, effects),
            Input::Snapshot => self.snapshots.store_soon(),
            Input::ChunkAnswer {
                from,
                transfer,
                number,
                is_taken,
            } => {
                let chunk = (transfer, number);
                self.snapshots
                    .on_chunk_answer(from, chunk, is_taken, now, &mut self.raft);
            }
            Input::LinkLost(to) => {
                // Whatever was being sent there begins again: the link is another one.
                self.snapshots.fail(to, &mut self.raft);
                self.fragments.on_silence(to);
                self.on_silence(to, now);
            }
            Input::Silence(to) => {
                self.fragments.on_silence(to);
                self.on_silence(to, now);
            }
            Input::StoodStill(span) => self.raft.stood_still(span, now),
            Input::Tick => {
                self.snapshots.fail_stalled(now, &mut self.raft);
                self.raft.tick(now);
                self.now = now;
                self.tick_fragments(state, turn, now);
                if let Some(at) = self.scrub.missed(self.applied) {
                    self.judge(at, effects);
                }
            }
            // What is refused now is asked for again. Behind the open entry stands nothing before it is in the log.
            Input::ChangeMembers(_) if self.open_entry.is_open() => {}
            Input::ChangeMembers(members) => {
                let (fragments, around) = around(self, now);
                if fragments.may_change(state, around, &members) {
                    _ = self.raft.change_members(&members);
                }
            }
            Input::Coding { from, message } if self.members.all().contains(&from) => {
                let (fragments, around) = around(self, now);
                fragments.hear(state, around, from, message);
            }
            Input::Coding { .. } => {}
            Input::Transfer(to) => _ = self.raft.transfer(to, now),
            // Of others nothing is remembered.
            Input::Scrubbed { from, .. } if !self.members.all().contains(&from) => {}
            Input::Scrubbed { from, scrubbed } => {
                self.scrub.heard(from, scrubbed);
                self.judge(scrubbed.at, effects);
            }
            Input::ReadOn => self.read_on(state, turn),
            Input::Close => self.close(state, turn, now, effects),
            Input::Finish => self.finish(state, turn, now, effects),
        }
        if effects.differs {
            self.withdraw(effects);
        }
    }

    /// Whether a command may be applied before it is in the log, if its keys are free: the group is alone, nothing is on its way, and no
    /// client waits for anything in the state.
    #[inline]
    pub(crate) fn may_apply_first(&self, state: &GroupState) -> bool {
        self.open_entry.is_open() || self.may_open(state)
    }

    /// Whether one will be, once what is on its way has arrived.
    pub(crate) fn may_apply_first_soon(&self) -> bool {
        self.role == Role::Leader && !self.is_stopped && self.raft.is_durable() && self.raft.is_alone()
    }

    fn may_open(&self, state: &GroupState) -> bool {
        let is_at_rest = self.flights.is_empty() && self.raft.is_alone_at_rest();
        self.role == Role::Leader
            && !self.is_stopped
            // Only a disk promises anything.
            && self.raft.is_durable()
            && self.open_entry.is_none()
            && (is_at_rest || mutations::is(Mutation::OpenBehindFlights) && self.raft.is_alone())
            && !state.keyspace().has_waiters()
    }

    /// Applies a command in the open entry ([`Member::may_apply_first`]).
    #[inline]
    pub(crate) fn apply_first(
        &mut self,
        state: &mut GroupState,
        turn: &Turn,
        operation: &BlockCommand<'_>,
        command: &Command<'_>,
        out: &mut ReplyWriter<'_>,
    ) {
        state.begin(turn);
        self.open(state, turn);
        self.open_entry.push(operation);
        state
            .keyspace
            .apply_command(operation.db, command, &mut state.local, out);
    }

    fn open(&mut self, state: &mut GroupState, turn: &Turn) {
        if !self.open_entry.is_open() {
            let header = self.header(turn);
            self.open_entry.open(&header);
            state.open_entry(&header);
        }
    }

    /// Carries out one of several commands that are to be done together. `has_room` is asked for so many bytes of the open entry, and
    /// whether one is opened for them.
    pub(crate) fn call(
        &mut self,
        state: &mut GroupState,
        run: &mut AtOnce,
        call: &Call<'_>,
        has_room: impl FnOnce(usize, bool) -> bool,
        out: &mut ReplyWriter<'_>,
    ) -> CarriedOut {
        let turn = state.turn;
        if !state.are_unlocked(|| call.locks()) {
            return CarriedOut::Held;
        }
        let is_first = !self.open_entry.is_open();
        if !call.command.writes() {
            let applied = std::mem::replace(&mut state.local.answers_bytes_max, turn.answers_bytes_max);
            let read = state.keyspace.read(call.db, call.command, &mut state.local, out);
            state.local.answers_bytes_max = applied;
            if read == Read::Answered || !is_first || state.keeps_expired {
                return CarriedOut::Done;
            }
            // The answer says that a key has expired: from here on it has, by group time too.
            if !has_room(0, true) {
                return CarriedOut::NoRoom;
            }
            self.open(state, &turn);
            return CarriedOut::Done;
        }
        if !has_room(Operations::room_of(call.args), is_first) {
            return CarriedOut::NoRoom;
        }
        self.open(state, &turn);
        let entry = &mut self.open_entry;
        if run.mark.is_none() {
            run.mark = entry.mark();
        }
        call.apply(state, run, |operation| entry.push(operation), out)
    }

    /// Takes out of the open entry what commands that are not to be done have put there.
    pub(crate) fn take_back(&mut self, mark: OperationsMark) {
        self.open_entry.cut(mark);
    }

    /// Whether the state is ahead of `applied`.
    pub(crate) fn has_open_entry(&self) -> bool {
        !self.open_entry.is_none()
    }

    /// Whether anything was applied that is not kept.
    pub(crate) fn is_ahead(&self) -> bool {
        let is_kept = |(index, _)| index <= self.raft.commit_index();
        self.open_entry.is_open() || !self.open_entry.closed().is_none_or(is_kept)
    }

    /// Proposes the open entry, if there is one, and has it kept.
    fn close(&mut self, state: &mut GroupState, turn: &Turn, now: Monotonic, effects: &mut Effects) {
        let Some(bytes) = self.open_entry.take() else {
            return;
        };
        let length = bytes.len();
        let proposed = self.raft.propose(bytes.into());
        let (index, term) =
            proposed.expect("who leads alone goes on leading, and what is long goes another way");
        assert_eq!(index.0, self.applied.0 + 1, "invariant 10");
        self.counts.entries_proposed += 1;
        self.counts.bytes_proposed += length as u64;
        self.open_entry.close(index, term);
        let ready = self.raft.take_ready(now);
        self.carry_out(state, turn, ready, effects);
    }

    /// Takes a batch.
    fn on_batch(
        &mut self,
        state: &mut GroupState,
        turn: &Turn,
        now: Monotonic,
        sender: Sender,
        batch: Batch,
        effects: &mut Effects,
    ) {
        let is_ours = batch.generation == self.generation && self.role == Role::Leader;
        if !is_ours || self.is_stopped || self.waiting() >= GATHERED_MAX {
            return self.voice().send_back(effects, sender, batch.sequence);
        }
        self.now = now;
        let gathered = Gathered {
            sender,
            batch,
            by_group_time: false,
        };
        self.nodes.insert(sender.gateway, sender.node);
        if gathered.batch.number > 0 {
            self.gathering.gather(gathered);
        } else if !gathered.batch.writes.is_empty() {
            self.keep(now, gathered, effects);
        } else if !gathered.batch.is_free && self.must_look_at(state, &gathered) {
            // It goes with the writes before it, as if it had come with one.
            self.gathering.gather(gathered);
        } else if gathered.batch.is_free {
            self.read(state, turn, now, gathered, effects);
        } else if self.gathering.has_writes() || self.has_own() && !mutations::is(Mutation::OwnNotAwaited) {
            // Behind what reads have found to be expired, too: `DBSIZE` counts a key until it is deleted.
            self.gathering.attach(gathered);
        } else if let Some(flight) = self.flights.back_mut() {
            flight.attached.push(gathered);
        } else {
            self.read(state, turn, now, gathered, effects);
        }
    }

    /// Hears what has become of a request to the disk.
    fn on_disk(&mut self, answer: DiskAnswer, now: Monotonic, effects: &mut Effects) {
        match answer {
            DiskAnswer::Persisted(number) => self.raft.persisted(number, now),
            DiskAnswer::Taken { snapshot, number } => self.snapshots.on_stored(snapshot, number),
            DiskAnswer::Failed { snapshot } => self.snapshots.on_not_stored(snapshot),
            DiskAnswer::Received {
                from,
                transfer,
                number,
            } => effects.chunks_taken.push((from, transfer, number)),
        }
    }

    /// Takes decisions that nobody waits for. Its gateway sends them again to whoever leads next, until it is answered: that is
    /// when they are recorded.
    fn keep(&mut self, now: Monotonic, gathered: Gathered, effects: &mut Effects) {
        let (mut txns, mut is_idempotent) = (Vec::new(), true);
        let is_read = Operations::read(&gathered.batch.writes, |operation| match operation {
            EntryOperation::Resolve(resolve) => txns.extend(resolve.decisions.iter().map(|(txn, _)| *txn)),
            _ => is_idempotent = false,
        });
        if is_read.is_none() || !is_idempotent {
            // No gateway sends this: applied each time that it comes, it would count more than once.
            let (sender, sequence) = (gathered.sender, gathered.batch.sequence);
            return self.voice().say(effects, sender, sequence, BatchOutcome::Evicted);
        }
        if mutations::is(Mutation::KeptIsRecorded) {
            let mut answers = AnswersBuf::default();
            answers.block(std::iter::empty());
            let outcome = BatchOutcome::Done(answers.finish());
            self.voice()
                .say(effects, gathered.sender, gathered.batch.sequence, outcome);
        }
        self.gathering.keep(now, gathered, txns);
    }

    /// Until when decisions are kept, if there are any.
    pub fn kept_until(&self) -> Option<Monotonic> {
        self.gathering.kept_until()
    }

    /// Whether a piece of the state could be made, if the worker did not rest ([`crate::Copying`]).
    pub fn wants_to_copy(&self) -> bool {
        !self.is_stopped && self.snapshots.wants_to_copy()
    }

    /// Whether a piece could be made for a learner.
    pub fn wants_to_send(&self) -> bool {
        !self.is_stopped && self.snapshots.wants_to_send()
    }

    /// What making pieces of the state took since this was last asked, if any were made.
    pub fn take_copied(&mut self) -> Option<CopyCost> {
        self.snapshots.take_copied()
    }

    /// How many batches wait for an entry or a confirmation.
    fn waiting(&self) -> usize {
        self.gathering.len() + self.unconfirmed.len()
    }

    /// Answers a batch of reads alone that waits for no write.
    fn read(
        &mut self,
        state: &mut GroupState,
        turn: &Turn,
        now: Monotonic,
        gathered: Gathered,
        effects: &mut Effects,
    ) {
        // Reads of one gateway are answered in their order: what one has seen, a later one sees too.
        let waits = self.unconfirmed.has_read_of(gathered.sender);
        if waits || !matches!(self.raft.read_permit(now), ReadPermit::Lease(_)) {
            return self.unconfirmed.push(gathered);
        }
        self.read_at_once(state, turn, gathered, effects);
    }

    /// Answers a batch of reads, to be told when the lease was looked at again.
    fn read_at_once(
        &mut self,
        state: &mut GroupState,
        turn: &Turn,
        gathered: Gathered,
        effects: &mut Effects,
    ) {
        if let Some((gathered, answers)) = self.evaluate(state, turn, gathered, effects) {
            self.evaluated.push(Evaluated {
                gathered,
                answers,
                entries: self.counts.entries_applied,
            });
        }
    }

    /// What the reads of a batch answer, from the state as it is; `None` if that is to be found out behind an entry, or if
    /// the bytes are no reads.
    ///
    /// An answer may say that a key has expired by the clock here. Whoever leads next may have another one, and would show the key
    /// again: so the batch is answered when an entry has said how late it is.
    fn evaluate(
        &mut self,
        state: &mut GroupState,
        turn: &Turn,
        mut gathered: Gathered,
        effects: &mut Effects,
    ) -> Option<(Gathered, FrozenRope)> {
        let (sender, sequence) = (gathered.sender, gathered.batch.sequence);
        let applied = state.keyspace().last_batch(sender.gateway);
        if applied < gathered.batch.behind && !mutations::is(Mutation::WriteBeforeNotMissed) {
            // It was lost on its way: sent again, they come in order.
            self.voice()
                .say(effects, sender, sequence, BatchOutcome::Gap { applied });
            return None;
        }
        let Ok(questions) = reads(&gathered.batch.reads) else {
            self.voice().say(effects, sender, sequence, BatchOutcome::Evicted);
            return None;
        };
        let waiting_reads = state.waiting_reads.len();
        loop {
            let (mut answers, mark) = (
                AnswersBuf::default(),
                state.mark_reads(turn, gathered.by_group_time),
            );
            for (index, read) in (0..).zip(&questions) {
                if let Question::Wound(txn) = read.question
                    && state.keyspace().is_waiting(txn)
                {
                    self.gathering.ask(&EntryOperation::Withdraw { txn });
                }
                let place = ReadPlace {
                    sender,
                    sequence,
                    index,
                };
                let (now, all) = (self.now, &gathered.batch.reads);
                let (before, start) = (answers.byte_len(), answers.mark());
                if mutations::is(Mutation::KeptIgnoredByRead) && self.gathering.has_kept() {
                    state.answer_past_locks(turn, &read.question, &mut answers);
                } else if gathered.by_group_time && state.waiting_reads.holds(place) {
                    answers.deferred();
                } else {
                    state.answer(turn, now, read, place, all, &mut answers);
                }
                if answers.byte_len() > turn.answers_bytes_max
                    && answers.byte_len() - before > SHORT_ANSWER_BYTES
                {
                    answers.refuse_from(start, matches!(read.question, Question::Command { .. }));
                }
            }
            let is_ahead = state.is_ahead(mark);
            for (db, key) in state.take_met_expired() {
                // From here on it has expired, whoever leads.
                self.gathering.ask(&EntryOperation::Expire { db, key: &key });
            }
            if !is_ahead {
                return Some((gathered, answers.finish()));
            }
            gathered.by_group_time = true;
            if state.waiting_reads.len() == waiting_reads {
                self.gathering.attach(gathered);
                return None;
            }
            // Some of them wait by themselves, and are answered later. The others cannot wait with them.
        }
    }

    /// Bytes of what the next entry may hold, beside what the leader asked for itself; 0 while there is no room in flight.
    pub fn next_bytes(&self) -> usize {
        if self.flights.len() < FLIGHTS_MAX {
            self.gathering.next_bytes()
        } else {
            0
        }
    }

    /// Whether what the leader asked for itself is not on its way yet.
    pub fn has_own(&self) -> bool {
        self.gathering.has_own()
    }

    /// Whether a member applies what is applied here now itself, so that its node hears of it from there. A learner that is
    /// still given the state finds it done.
    pub fn applies_itself(&self, member: Incarnation) -> bool {
        self.raft.members().is_voter(member) || self.snapshots.is_applied_by(member, &self.raft)
    }

    /// Nothing was heard for long from the node of another member.
    fn on_silence(&mut self, to: Incarnation, now: Monotonic) {
        if self.leader == Some(to) {
            self.raft.leader_link_lost(now);
        }
    }

    /// Whether [`Member::finish`] has anything to do: a replica that only its node's gateway was busy with costs nothing.
    pub(crate) fn has_work(&self, state: &GroupState, now: Monotonic) -> bool {
        self.raft.has_ready()
            || self.gathering.is_kept_awaited(state, now)
            || self.can_propose()
            || self.unconfirmed.awaits_round()
            || !self.evaluated.is_empty()
            || self.snapshots.has_senders()
            || self.snapshots.may_store()
            || self.begins.is_some()
            || self.can_look()
            || state.has_deferred()
            || state.has_lacking()
            || self.fragments.has_messages()
            || state.waiting_reads.has_shown()
    }

    /// Goes on with the long values that a read asks for. What is read is told when the lease was looked at again.
    fn read_on(&mut self, state: &mut GroupState, turn: &Turn) {
        for _ in 0..READS_ON {
            if !state.read_on(turn) {
                break;
            }
        }
        for (db, key) in state.take_met_expired() {
            self.gathering.ask(&EntryOperation::Expire { db, key: &key });
        }
    }

    /// At the turn's end: proposes what was gathered, carries out what consensus says, and looks at the lease again.
    /// `now` is read after all that was answered this turn.
    fn finish(&mut self, state: &mut GroupState, turn: &Turn, now: Monotonic, effects: &mut Effects) {
        self.now = now;
        if self.open_entry.is_open() {
            // What follows is to stand behind it in the log.
            return self.look_again(now, effects);
        }
        effects.disk.extend(self.begins.take().map(DiskRequest::Begin));
        loop {
            self.gathering.look_at_kept(state, now);
            self.prepare(state, now);
            self.propose(turn);
            self.unconfirmed.begin_round(&mut self.raft, now);
            let ready = self.raft.take_ready(now);
            let is_over = is_empty(&ready);
            self.carry_out(state, turn, ready, effects);
            if mutations::is(Mutation::ReplyBeforeCommit) {
                self.answer_early(state, turn, effects);
            }
            self.gathering.look_at_kept(state, now);
            let waits = self.can_propose()
                || self.can_look()
                || self.unconfirmed.awaits_round()
                || self.raft.has_ready();
            // What is left of what is committed is for the next turn.
            if is_over || !waits || self.raft.is_behind() {
                break;
            }
        }
        self.look_again(now, effects);
        self.answer_deferred(state, effects);
        if state.has_lacking() {
            let (fragments, around) = around(self, now);
            fragments.want_for_reads(state, around);
        }
        if self.fragments.has_messages() {
            effects.coding.extend(self.fragments.take_messages(now));
        }
        // Of a piece of the state it is said up to where it reflects the log.
        if self.open_entry.is_none() {
            self.snapshots
                .send_next(state, turn.copying, &mut self.raft, effects);
            if !self.is_stopped {
                self.snapshots
                    .store_next(state, turn.copying, &self.raft, effects);
            }
        }
        let state_bytes = || state.keyspace().memory() + state.keyspace().pending_bytes();
        if let Some(to) = self.raft.compactable(self.snapshots.held(), state_bytes) {
            self.raft.compact(to);
        }
    }

    /// Tells gateways what became of operations that waited for transactions.
    fn answer_deferred(&mut self, state: &mut GroupState, effects: &mut Effects) {
        state.waiting_reads.look_at_shown(self.still_leads(self.now));
        for (place, bytes) in state.waiting_reads.take_answered() {
            let outcome = BatchOutcome::Deferred {
                is_read: true,
                index: place.index,
                bytes,
            };
            self.voice().say(effects, place.sender, place.sequence, outcome);
        }
        if self.role != Role::Leader {
            return state.step_down();
        }
        for (origin, bytes) in state.take_deferred() {
            // A gateway that this leader has not heard of asks for itself.
            let Some(&node) = self.nodes.get(&origin.gateway) else {
                continue;
            };
            let sender = Sender {
                node,
                gateway: origin.gateway,
            };
            let outcome = BatchOutcome::Deferred {
                is_read: false,
                index: origin.index,
                bytes,
            };
            self.voice().say(effects, sender, origin.number, outcome);
        }
    }

    /// Ends here for good: what the next life of this replica needs beside the keyspace, which reflects the point. `None` if
    /// there is no state yet, or none that may go on. Whatever was to be sent is not: it was not said, so nobody counts on it.
    pub(crate) fn into_rest(
        mut self,
        state: &mut GroupState,
        turn: &Turn,
        now: Monotonic,
    ) -> Option<(SnapshotPoint, Saved)> {
        while self.raft.has_ready() {
            let ready = self.raft.take_ready(now);
            self.carry_out(state, turn, ready, &mut Effects::default());
        }
        self.snapshots.end_all(state.keyspace_mut());
        let point = self.raft.point();
        assert!(
            self.is_stopped || point.index == self.applied,
            "what is saved is what was applied"
        );
        // A state that is ahead of its log cannot be told from one that is not. It was told to nobody.
        let has_state = !self.is_stopped && point.index > Index(0) && self.open_entry.is_none();
        has_state.then(|| (point, self.raft.saved()))
    }

    /// Ends here, because the group begins anew with what this replica holds: see [`crate::Replica::survive`].
    pub(crate) fn into_recovery_source(mut self, state: &mut GroupState, turn: &Turn, now: Monotonic) {
        let mut effects = Effects::default();
        while self.raft.has_ready() {
            let ready = self.raft.take_ready(now);
            self.carry_out(state, turn, ready, &mut effects);
        }
        self.snapshots.end_all(state.keyspace_mut());
        if let Some((index, _)) = self.open_entry.closed() {
            self.applied = index;
        }
        for entry in self.raft.entries_after(self.applied) {
            if self.is_stopped {
                break;
            }
            if let Some(data) = entry.data() {
                self.apply(state, turn, data, None, &mut effects);
            }
        }
    }

    /// Whether anything was gathered, and has room in flight.
    fn can_propose(&self) -> bool {
        let is_leading = self.role == Role::Leader && !self.is_stopped;
        let has_room = self.flights.len() < FLIGHTS_MAX;
        is_leading && has_room && self.gathering.has_next(&self.unconfirmed)
    }

    /// Whether reads that came behind writes of their gateway may need a value of which there is a fragment here. They are not to be answered behind what
    /// comes next.
    fn must_look_at(&mut self, state: &mut GroupState, gathered: &Gathered) -> bool {
        let is_at_rest = !self.gathering.has_writes() && self.flights.is_empty();
        if state.keyspace().code().is_none() || is_at_rest {
            return false;
        }
        let up_to = self.fragments.settled();
        let mut needed = Needed::default();
        let (keyspace, local, _) = state.parts();
        local.to_gather.clear();
        for read in reads(&gathered.batch.reads).unwrap_or_default() {
            if let Question::Command { db, .. } = read.question {
                keyspace.look_at_read(db, read.question.args(), up_to, local, &mut needed);
            }
        }
        let may_be_named_anew = self.renamed_at > self.applied || self.gathering.has_writes();
        !needed.whole.is_empty() || needed.has_need && may_be_named_anew
    }

    /// Whether there are batches that were not looked at, and may be.
    fn can_look(&self) -> bool {
        let is_leading = self.role == Role::Leader && !self.is_stopped;
        is_leading && self.flights.len() < FLIGHTS_MAX && self.gathering.next_to_look_at().is_some()
    }

    /// With what an entry of this turn begins.
    fn header(&self, turn: &Turn) -> Header {
        let seed = Prng::new(turn.seed ^ u64::from(self.group.number()) ^ self.applied.0 << 16).next_u64();
        Header {
            semantics: turn.semantics,
            now: turn.now,
            seed,
        }
    }

    /// Makes an entry of what was gathered, if there is room in flight.
    fn propose(&mut self, turn: &Turn) {
        while self.can_propose() {
            let header = self.header(turn);
            let Next { entry, batches } = self.gathering.next(&header, &self.unconfirmed);
            let entry_bytes = entry.len();
            let Ok((index, term)) = self.raft.propose(entry) else {
                // Leadership is gone or being handed over; what it says next says so.
                return;
            };
            self.counts.entries_proposed += 1;
            self.counts.batches_proposed += batches.0 as u64;
            self.counts.bytes_proposed += entry_bytes as u64;
            let batches_before = self.gathering.proposed();
            let (gathered, attached, renames) = self.gathering.take(batches);
            if renames {
                self.renamed_at = index;
            }
            self.flights.push_back(Flight {
                index,
                term,
                gathered,
                attached,
                batches_before,
            });
        }
    }

    /// Of a group whose values are kept as fragments: looks at the batches that are not proposed yet, as many as can be. What they need is to be here, and
    /// what an entry needs is to be in it.
    ///
    /// One that needs a value is the first of its entry, and nothing is on its way before it: what is on its way may give the value another name or version.
    fn prepare(&mut self, state: &mut GroupState, now: Monotonic) {
        let is_coded = state.keyspace().code().is_some();
        self.gathering.begin_looking(is_coded);
        // What leaders before have settled is in the log, and not all of it is applied yet.
        if !is_coded || self.role != Role::Leader || self.applied < self.leads_from {
            return;
        }
        while let Some(batch) = self.gathering.next_to_look_at() {
            let (gateway, up_to) = (batch.sender.gateway, self.fragments.settled());
            let mut needed = Needed::default();
            let (keyspace, local, waiting_reads) = state.parts();
            local.to_gather.clear();
            keyspace.look_at_operations(&batch.batch.writes, gateway, up_to, local, &mut needed);
            if waiting_reads.has_cold() {
                let awaited = |db, key: &[u8]| waiting_reads.is_awaited(db, key);
                needed.awaits_read = keyspace::changes_any(&batch.batch.writes, awaited);
            }
            for read in reads(&batch.batch.reads).unwrap_or_default() {
                if let Question::Command { db, .. } = read.question {
                    keyspace.look_at_read(db, read.question.args(), up_to, local, &mut needed);
                }
            }
            keyspace.complete_needed(up_to, &mut needed);
            let is_named_anew = needed.has_need && self.renamed_at > self.applied;
            let is_first = self.flights.is_empty() && !self.gathering.has_looked_at();
            let awaits_pieces =
                needed.awaits_pieces && !is_first && !mutations::is(Mutation::PiecesNotAwaited);
            if needed.awaits_read || awaits_pieces {
                // A read that came before waits for a value that this batch may change, or pieces of an operation are on their way.
                return;
            }
            if needed.refill.is_empty() && needed.whole.is_empty() && !is_named_anew {
                // Another one of the same entry may rename what this one needs.
                let is_behind_rename = needed.has_need && self.gathering.renames();
                if is_behind_rename {
                    return;
                }
                for key in needed.kept() {
                    self.fragments.rescue(key);
                }
                self.gathering.looked_at(needed.renames);
                continue;
            }
            if !is_first || self.gathering.is_behind_read(&self.unconfirmed) {
                return;
            }
            let own = &mut self.gathering.own;
            let (fragments, around) = (
                &mut self.fragments,
                Around {
                    me: self.raft.me(),
                    members: &self.members,
                    leader: self.leader,
                    now,
                },
            );
            match fragments.prepare(state, around, &needed.refill, &needed.whole, |operation| {
                own.push(operation)
            }) {
                Readiness::Waits => return,
                // What follows is looked at when this is applied.
                Readiness::Ready => {
                    self.gathering.looked_at(needed.renames);
                    self.gathering.end_here();
                    return;
                }
            }
        }
    }

    /// Time passes for what is kept as fragments.
    fn tick_fragments(&mut self, state: &mut GroupState, turn: &Turn, now: Monotonic) {
        let is_wanted = turn.coding.is_some() && self.role == Role::Leader;
        if self.is_stopped || !is_wanted && state.keyspace().code().is_none() {
            return;
        }
        let taken = self.gathering.taken();
        let applied = match self.flights.front() {
            Some(flight) => flight.batches_before,
            None => self.gathering.proposed(),
        };
        let leader = match self.role {
            Role::Leader => Some(self.raft.me()),
            _ => self.leader.filter(|leader| *leader != self.raft.me()),
        };
        let around = Around {
            me: self.raft.me(),
            members: &self.members,
            leader,
            now,
        };
        self.snapshots.note_rows(self.fragments.rows_made());
        // In memory alone what is here is there.
        let rows_kept = match self.raft.is_durable() {
            true => self.snapshots.rows_stored(),
            false => self.fragments.rows_made(),
        };
        let own = &mut self.gathering.own;
        let may_ask = self.open_entry.is_none();
        let mut has_asked = false;
        self.fragments
            .tick(state, around, turn, (applied, taken, rows_kept), |operation| {
                if may_ask {
                    has_asked = true;
                    own.push(operation);
                }
            });
        if has_asked {
            self.gathering.look_again();
        }
        if self.fragments.take_is_to_be_stored() {
            self.snapshots.store_soon();
        }
    }

    /// Whether ticks have anything to do for what is kept as fragments.
    pub(crate) fn needs_ticks(&self, state: &GroupState) -> bool {
        self.fragments.needs_ticks(state, self.role == Role::Leader)
    }

    /// Whether messages of fragments wait for the turn's end.
    pub(crate) fn has_messages(&self) -> bool {
        self.fragments.has_messages()
    }

    /// A copy of values is begun that must be whole.
    pub(crate) fn begin_copy(&mut self) {
        self.fragments.begin_copy();
    }

    /// Gathers what is to be copied. Whether all of it is here.
    pub(crate) fn make_whole(&mut self, state: &mut GroupState, only: Option<PartitionId>) -> bool {
        if state.keyspace().code().is_none() {
            return true;
        }
        let now = self.now;
        let (fragments, around) = around(self, now);
        fragments.make_whole(state, around, only)
    }

    /// What was gathered, demoted and found to be damaged.
    pub(crate) fn coding_counts(&self, state: &GroupState) -> CodingCounts {
        let around = Around {
            me: self.raft.me(),
            members: &self.members,
            leader: self.leader,
            now: self.now,
        };
        self.fragments.counts(state, around)
    }

    /// What the disk is told of a log that begins with what is here.
    fn begin_of(raft: &RaftNode, generation: u64, applied: Index, base: LogBase) -> Box<LogBegin> {
        Box::new(LogBegin {
            incarnation: raft.me(),
            generation,
            start: raft.point(),
            saved: Saved {
                hard_state: raft.hard_state(),
                entries: raft.entries_after(applied),
                floor: raft.floor(),
            },
            base,
        })
    }

    /// See [`crate::Replica::set_durable`].
    pub(crate) fn set_durable(&mut self, state: &mut GroupState, is_durable: bool, now: Monotonic) {
        // What an earlier life was asked for is told to nobody, and counts as kept.
        self.raft.set_durability(Durability::Memory, now);
        if self.snapshots.give_up_storing() {
            self.snapshots.end(state.keyspace_mut());
        }
        if is_durable {
            self.raft.set_durability(Durability::Durable, now);
            let begin = Member::begin_of(&self.raft, self.generation, self.applied, LogBase::InUse);
            self.begins = Some(begin);
            if self.applied > Index(0) {
                self.snapshots.store_soon();
            }
        } else {
            self.begins = None;
        }
    }

    /// The mistake of answering what is proposed and not committed.
    fn answer_early(&mut self, state: &mut GroupState, turn: &Turn, effects: &mut Effects) {
        for flight in std::mem::take(&mut self.flights) {
            let entries = self.raft.entries_after(Index(flight.index.0 - 1));
            if let Some(data) = entries.first().and_then(consensus::LogEntry::data) {
                self.apply(state, turn, data, Some(flight), effects);
            }
        }
    }

    fn carry_out(&mut self, state: &mut GroupState, turn: &Turn, ready: Ready, effects: &mut Effects) {
        if let Some(status) = ready.status {
            let becomes = |role| status.role == role && self.role != role;
            self.counts.terms += u64::from(status.term != self.term);
            self.counts.campaigns += u64::from(becomes(Role::Candidate));
            self.counts.elections_won += u64::from(becomes(Role::Leader));
            if becomes(Role::Leader) {
                self.leads_from = self.raft.last_index();
            }
            (self.role, self.term, self.leader) = (status.role, status.term, status.leader);
            if self.role != Role::Leader {
                self.step_down(effects);
                state.step_down();
                self.fragments.step_down();
            }
            effects.status = Some(status);
        }
        effects.claims_changed |= ready.claims_changed;
        effects.disk.extend(ready.persist.map(DiskRequest::Persist));
        if let Some(point) = ready.install {
            self.install(state, &point, effects);
        }
        for committed in ready.committed {
            self.on_committed(state, turn, committed, effects);
        }
        self.raft.applied(self.applied);
        effects.messages.extend(ready.messages);
        for (round, index) in ready.reads {
            self.unconfirmed.on_confirmed(round, index);
        }
        for round in ready.reads_lost {
            let voice = self.voice();
            for Gathered { sender, batch, .. } in self.unconfirmed.on_round_lost(round) {
                voice.send_back(effects, sender, batch.sequence);
            }
        }
        self.answer_confirmed(state, turn, effects);
        for incarnation in ready.transfers_wanted {
            if !self.is_stopped && self.snapshots.begin(incarnation, state.keyspace_mut()) {
                self.counts.transfers += 1;
            }
        }
    }

    /// Somebody else leads, or nobody: what waits here is sent again by who sent it.
    fn step_down(&mut self, effects: &mut Effects) {
        let voice = self.voice();
        let flights = std::mem::take(&mut self.flights).into_iter();
        let waiting = flights
            .flat_map(|flight| flight.gathered.into_iter().chain(flight.attached))
            .chain(self.gathering.clear())
            .chain(self.unconfirmed.clear())
            .chain(self.evaluated.drain(..).map(|evaluated| evaluated.gathered));
        for Gathered { sender, batch, .. } in waiting {
            voice.send_back(effects, sender, batch.sequence);
        }
        self.nodes.clear();
        self.snapshots.step_down();
    }

    /// The state that came in pieces becomes this replica's.
    fn install(&mut self, state: &mut GroupState, point: &SnapshotPoint, effects: &mut Effects) {
        if self.snapshots.give_up_storing() {
            self.snapshots.end(state.keyspace_mut());
            effects.disk.push(DiskRequest::GiveUp);
        }
        state.replace_keyspace(self.snapshots.take_installed(point));
        if self.raft.is_durable() {
            // What came is stored before anything that stands on it.
            self.snapshots.note_installed(state.local().changes);
        }
        self.applied = point.index;
        self.members = point.members.clone();
        self.members_at = point.index;
        self.scrub.restart(point.index);
        self.fragments.restart();
        effects.members_changed = true;
        effects.was_installed = true;
        self.counts.installs += 1;
    }

    fn on_committed(
        &mut self,
        state: &mut GroupState,
        turn: &Turn,
        committed: Committed,
        effects: &mut Effects,
    ) {
        if self.is_stopped {
            return;
        }
        assert_eq!(committed.index.0, self.applied.0 + 1, "invariant 1");
        let flight = match self.flights.front() {
            Some(flight) if flight.index == committed.index => {
                let flight = self.flights.pop_front().expect("looked at a moment ago");
                assert_eq!(flight.term, committed.term, "who leads knows what it proposed");
                Some(flight)
            }
            Some(_) | None => None,
        };
        if self.open_entry.is_committed(committed.index, committed.term) {
            self.counts.entries_applied += 1;
            self.applied = committed.index;
            return;
        }
        match committed.effect {
            EntryEffect::Nothing => {}
            EntryEffect::Members(members) => {
                self.members = members.clone();
                self.members_at = committed.index;
                effects.members_changed = true;
            }
            EntryEffect::Apply(data) => {
                let round = state.keyspace().scrub_round();
                if !self.apply(state, turn, &data, flight, effects) {
                    return;
                }
                self.applied = committed.index;
                if state.keyspace().scrub_round() != round {
                    self.compare(state, effects);
                }
            }
        }
        self.applied = committed.index;
    }

    /// The entry that was applied last begins a round: what the state is like behind it is told everybody else.
    fn compare(&mut self, state: &GroupState, effects: &mut Effects) {
        let (keyspace, me) = (state.keyspace(), self.raft.me());
        let mut hash = keyspace.scrub(keyspace.scrub_round());
        if mutations::is(Mutation::ScrubLies) && me == Incarnation(2) && self.members.voters.len() > 2 {
            hash ^= 1;
        }
        let at = self.applied;
        let scrubbed = Scrubbed { at, hash };
        self.scrub.took(scrubbed);
        let others = self.members.all().into_iter().filter(|member| *member != me);
        effects.scrubbed.extend(others.map(|other| (other, scrubbed)));
        self.judge(scrubbed.at, effects);
    }

    /// Looks at what is known of the round that an entry began.
    fn judge(&mut self, at: Index, effects: &mut Effects) {
        match self.scrub.judge(at, &self.members, self.applied) {
            Verdict::Open => {}
            Verdict::Agreed => self.counts.scrubs += 1,
            Verdict::Undecided => {
                self.counts.undecided += 1;
                effects.is_undecided = true;
            }
            Verdict::Differs => {
                self.counts.differing += 1;
                effects.differs = true;
            }
        }
        let named = self.scrub.take_named();
        self.counts.differing += named.len() as u64;
        effects.differing.extend(named);
    }

    /// The state here differs from that of most: whoever waits for an answer of it is to ask somebody else.
    fn withdraw(&mut self, effects: &mut Effects) {
        self.is_stopped = true;
        let said = std::mem::take(effects);
        let done = said
            .responses
            .into_iter()
            .filter(|(_, response)| matches!(response.outcome, BatchOutcome::Done(_)));
        let unsaid = done.map(|(node, response)| {
            let outcome = BatchOutcome::NotLeader { leader: None };
            (node, BatchResponse { outcome, ..response })
        });
        effects.responses.extend(unsaid);
        self.step_down(effects);
        effects.differs = true;
    }

    /// Whether it has met an entry that this build cannot read: it applies nothing more, and its state is not stored.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// The members that were found to differ from most voters.
    pub fn differing(&self) -> impl Iterator<Item = Incarnation> {
        self.scrub.differing()
    }

    /// Applies one entry, and answers who asked for it. `false` if this build cannot.
    fn apply(
        &mut self,
        state: &mut GroupState,
        turn: &Turn,
        data: &Bytes,
        flight: Option<Flight>,
        effects: &mut Effects,
    ) -> bool {
        // Whatever the bytes are, every replica sees the same ones and does the same.
        let Ok(entry) = Entry::decode(data) else {
            effects.is_unread = true;
            return true;
        };
        self.counts.entries_applied += 1;
        assert!(!mutations::is(Mutation::ApplyPanics), "a mutation");
        self.counts.batches_applied += entry.batches().len() as u64;
        let leads = self.role == Role::Leader;
        let (gathered, attached) =
            flight.map_or_else(Default::default, |flight| (flight.gathered, flight.attached));
        // The leader's own batch, if there is one, comes first, and nobody waits for it.
        let own = entry.batches().len() - gathered.len().min(entry.batches().len());
        let batches: Vec<&Batch> = gathered.iter().map(|gathered| &gathered.batch).collect();
        let senders: Vec<Sender> = gathered.iter().map(|gathered| gathered.sender).collect();
        let outcomes = match state.apply(turn, &entry, own, &batches, &senders, leads) {
            Ok(outcomes) => outcomes,
            Err(error) => {
                self.is_stopped = true;
                effects.stopped = Some(error.to_string());
                return false;
            }
        };
        if std::mem::take(&mut state.local.met_other_value) {
            effects.differs = true;
        }
        for (Gathered { sender, batch, .. }, outcome) in gathered.into_iter().zip(outcomes) {
            self.voice().say(effects, sender, batch.sequence, outcome);
        }
        for gathered in attached {
            self.read_at_once(state, turn, gathered, effects);
        }
        true
    }

    /// Answers reads that were confirmed and whose state is there.
    fn answer_confirmed(&mut self, state: &mut GroupState, turn: &Turn, effects: &mut Effects) {
        for gathered in self.unconfirmed.take_confirmed(self.applied) {
            if let Some((gathered, answers)) = self.evaluate(state, turn, gathered, effects) {
                self.counts.reads_confirmed += 1;
                let outcome = BatchOutcome::Done(answers);
                self.voice()
                    .say(effects, gathered.sender, gathered.batch.sequence, outcome);
            }
        }
    }

    /// What was read under the lease may be told only if the lease still holds: the process may have stood still between.
    fn look_again(&mut self, now: Monotonic, effects: &mut Effects) {
        if self.evaluated.is_empty() {
            return;
        }
        let (holds, voice) = (self.still_leads(now), self.voice());
        let mut lost = Vec::new();
        for Evaluated {
            gathered,
            answers,
            entries,
        } in self.evaluated.drain(..)
        {
            if holds {
                self.counts.reads_leased += 1;
                let outcome = BatchOutcome::Done(answers);
                voice.say(effects, gathered.sender, gathered.batch.sequence, outcome);
            } else {
                lost.push((gathered, entries));
            }
        }
        let mut sent_back: Vec<Sender> = Vec::new();
        for (gathered, entries) in lost {
            let (sender, sequence) = (gathered.sender, gathered.batch.sequence);
            let flights = self.flights.iter().flat_map(|flight| &flight.gathered);
            let mut behind = self.gathering.batches.iter().chain(flights);
            let is_overtaken = entries < self.counts.entries_applied;
            if is_overtaken || sent_back.contains(&sender) || behind.any(|batch| batch.sender == sender) {
                // What its gateway sent behind it was applied in the same turn, or may be before leadership is confirmed: to be asked
                // once more, and what came behind it, too.
                sent_back.push(sender);
                voice.send_back(effects, sender, sequence);
                continue;
            }
            self.unconfirmed.push_evaluated(gathered);
        }
        for sender in sent_back {
            for later in self.unconfirmed.remove_of(sender) {
                voice.send_back(effects, sender, later.batch.sequence);
            }
        }
        self.unconfirmed.begin_round(&mut self.raft, now);
    }
}

/// A member's part that keeps fragments, and what is around it.
fn around(member: &mut Member, now: Monotonic) -> (&mut Fragments, Around<'_>) {
    let around = Around {
        me: member.raft.me(),
        members: &member.members,
        leader: member.leader,
        now,
    };
    (&mut member.fragments, around)
}

/// Whether nothing has become of anything.
fn is_empty(ready: &Ready) -> bool {
    *ready == Ready::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::Replica;
    use crate::turn::Copying;
    use crate::waiting_reads::Awaited;
    use consensus::{Config, Durability, Saved, Times};
    use ids::{Boot, HashSeed, PartitionRange, SemanticsVersion, UnixMillis};
    use keyspace::{EventClasses, Keyspace, Transfer};

    fn raft() -> RaftNode {
        let config = Config {
            group: GroupId::new(0),
            me: Incarnation(9),
            start: Config::NOWHERE,
            saved: Saved::default(),
            durability: Durability::Memory,
            node_start: Boot(1),
            times: Times::DEFAULT,
            seed: 1,
        };
        RaftNode::new(config, Monotonic(0)).expect("its parts agree")
    }

    fn turn() -> Turn {
        Turn {
            number: 1,
            now: UnixMillis(1),
            seed: 1,
            lfu: None,
            notify: EventClasses::default(),
            steps_max: usize::MAX,
            answers_bytes_max: usize::MAX,
            copying: Copying::at_once(256 * 1024),
            semantics: SemanticsVersion::CURRENT,
            coding: None,
        }
    }

    fn member() -> Member {
        Member::new(GroupId::new(0), 0, raft(), Index(0), LogBase::New)
    }

    /// The invariant that does not hold of a member that was tampered with.
    fn broken(tamper: impl FnOnce(&mut Member)) -> Option<String> {
        let state = GroupState::new(GroupId::new(0), HashSeed([1, 2]), PartitionRange::ONE);
        let mut member = member();
        tamper(&mut member);
        let what = member.check(&state).err()?;
        Some(
            what.split(" of ")
                .next()
                .expect("there is a first part")
                .to_owned(),
        )
    }

    #[test]
    fn no_read_waits_on_where_a_leader_was_removed_or_its_group_began_anew() {
        let turn = turn();
        let ends: [fn(&mut Replica, &Turn); 2] = [
            |replica, _| replica.leave(),
            |replica, turn| replica.survive(turn, Monotonic(0)),
        ];
        for end in ends {
            let mut replica = Replica::new(GroupId::new(0), HashSeed([1, 2]), PartitionRange::ONE);
            replica.give_log();
            replica.join(raft(), 0, Index(0), LogBase::New);
            let gateway = GatewayId {
                boot: Boot(1),
                worker: 0,
            };
            let place = ReadPlace {
                sender: Sender {
                    node: NodeId(1),
                    gateway,
                },
                sequence: 1,
                index: 0,
            };
            let behind = replica.state().keyspace().behind();
            let state = replica.state_mut();
            assert!(
                state
                    .waiting_reads
                    .add(place, Bytes::new(), behind, Awaited::Prepared)
            );
            end(&mut replica, &turn);
            replica.join(raft(), 1, Index(0), LogBase::New);
            assert_eq!(replica.check(), Ok(()));
        }
    }

    #[test]
    fn a_breach_of_an_invariant_is_noticed() {
        let flight = |index, term| Flight {
            index: Index(index),
            term: Term(term),
            gathered: Vec::new(),
            attached: Vec::new(),
            batches_before: 0,
        };
        let leading = |change: fn(&mut Member, &dyn Fn(u64, u64) -> Flight)| {
            broken(|member| {
                member.role = Role::Leader;
                change(member, &flight);
            })
        };
        assert_eq!(broken(|_| {}), None);
        assert_eq!(
            broken(|member| member.flights.push_back(flight(1, 0))).as_deref(),
            Some("invariant 5")
        );
        assert_eq!(
            leading(|member, flight| member.flights.push_back(flight(1, 0))),
            None
        );
        for places in [[(0, 0), (1, 0)], [(2, 0), (1, 0)], [(1, 0), (2, 1)]] {
            let found = broken(|member| {
                member.role = Role::Leader;
                member.flights = places.map(|(index, term)| flight(index, term)).into();
            });
            assert_eq!(found.as_deref(), Some("invariant 6"), "{places:?}");
        }
        let found = leading(|member, _| member.gathering.barriers.push_back(1));
        assert_eq!(found.as_deref(), Some("invariant 7"));
        let found = leading(|member, _| member.gathering.bytes = 1);
        assert_eq!(found.as_deref(), Some("invariant 7"));
        assert_eq!(
            broken(|member| member.members_at = Index(1)).as_deref(),
            Some("invariant 9")
        );
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_left_out_and_told_of() {
        let mut state = GroupState::new(GroupId::new(0), HashSeed([1, 2]), PartitionRange::ONE);
        let mut member = member();
        let turn = turn();
        let data = Bytes::from_static(b"nothing that a leader wrote");
        let mut effects = Effects::default();
        assert!(member.apply(&mut state, &turn, &data, None, &mut effects));
        assert!(effects.is_unread && !member.is_stopped);
    }

    #[test]
    fn a_late_first_chunk_of_an_older_transfer_does_not_replace_a_newer_one() {
        let Member { snapshots, raft, .. } = &mut member();
        let mut keyspace = Keyspace::new(HashSeed([1, 2]), PartitionRange::ONE);
        let mut transfer = Transfer::begin(&mut keyspace).expect("it is the first one");
        let bytes = match transfer.next_chunk(&mut keyspace, 1024) {
            keyspace::TransferStep::More(bytes) | keyspace::TransferStep::Last(bytes) => bytes,
            keyspace::TransferStep::Lost => panic!("nothing changes meanwhile"),
        };
        let former = Keyspace::new(HashSeed([1, 2]), PartitionRange::ONE);
        let on_chunk = |snapshots: &mut Snapshots, from, transfer, number, raft: &mut RaftNode| {
            let mut chunk = Chunk {
                transfer,
                number,
                point: None,
                bytes: bytes.clone(),
            };
            snapshots.on_chunk(from, &mut chunk, &former, raft)
        };
        let (leader, other) = (Incarnation(1), Incarnation(2));
        assert_eq!(on_chunk(snapshots, leader, 5, 0, raft), Ok(true));
        assert_eq!(
            on_chunk(snapshots, leader, 4, 0, raft),
            Ok(false),
            "it comes late"
        );
        let incoming = snapshots.incoming.as_ref().expect("the newer one is under way");
        assert_eq!((incoming.transfer, incoming.next), (5, 1));
        assert_eq!(
            on_chunk(snapshots, leader, 6, 0, raft),
            Ok(true),
            "the leader has begun again"
        );
        assert_eq!(
            on_chunk(snapshots, other, 1, 0, raft),
            Ok(true),
            "another leader counts anew"
        );
    }
}

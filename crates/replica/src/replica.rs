//! One replica of one group: its state, and the role in which this node holds it.
//!
//! ```text
//!   Alone ---- the group is on this node alone: requests are applied as they come (`alone.rs`): [`Replica::handle`]
//!     |  give_log
//!     v
//!   Elsewhere  the group has a log, and this node no part in it: the state is empty, and what it forgets is collected
//!     |  ^
//!     |  | leave, survive, abandon, give_up
//!  join v |
//!   Member --- consensus stands between what is asked and what is applied (`member.rs`): [`Replica::step`]
//! ```
//!
//! A group that has a log keeps one: nothing leads back to `Alone`.
//!
//! Invariants: 1 and 2 are those of `alone.rs`, 3 to 9 those of `member.rs`. [`Replica::check`] looks at what can be seen of
//! them between two calls.

use crate::alone::Alone;
use crate::at_once::{AtOnce, Call, CarriedOut};
use crate::batch::Batch;
use crate::coding_message::CodingMessage;
use crate::disk::{DiskAnswer, LogBase};
use crate::member::{Chunk, CodingCounts, CopyCost, Effects, Member, Sender};
use crate::request::{FullKey, Output, Request};
use crate::state::GroupState;
use crate::turn::Turn;
use command::Command;
use consensus::{Index, Members, RaftMessage, RaftNode, Saved, Scrubbed, SnapshotPoint};
use ids::{
    Db, GroupId, HashSeed, Incarnation, Monotonic, PartitionId, PartitionRange, SemanticsVersion, Slot,
    UnixMillis,
};
use keyspace::{
    BlockCommand, CopyStep, Cursor, Enter, KeyVersion, Keyspace, LeaderLocal, Object, PartitionCopy,
    PartitionCopyStep, SeenObject,
};
use resp::ReplyWriter;
use std::time::Duration;
use txn::{Locks, Mode, Priority, TxnId};

/// Bytes of an object that is copied where a replica answers for its group: a leader need not copy what it sends.
const SMALL_BYTES_MAX: usize = 16 * 1024;

/// What ends within so many milliseconds may have ended by the leader's clock, which may be ahead by seconds, or by the time at which a
/// transaction ends that reads it: it has ten seconds.
const MORTAL_MILLIS: i64 = 15_000;

/// One replica of one group. See the file's header.
pub struct Replica {
    state: GroupState,
    role: Role,
    /// The data of an earlier replica here that has no part in the group any more ([`Replica::set_aside`]).
    aside: Option<Keyspace>,
    /// How often it has come to take part in the log.
    lives: u64,
}

enum Role {
    Alone(Alone),
    Elsewhere,
    Member(Box<Member>),
}

/// What happens to a replica that has a part in its group's log.
pub enum Input<'a> {
    /// A gateway asks.
    Batch {
        /// Which.
        sender: Sender,
        /// What.
        batch: Batch,
    },
    /// The node itself asks, of the leader: it is applied with the next entry, unless leadership is lost.
    Own(&'a keyspace::EntryOperation<'a>),
    /// Another replica says something.
    Message(RaftMessage),
    /// A leader sends a piece of state. [`Effects::is_taken`] says whether it was the next one.
    Chunk {
        /// Who sends it.
        from: Incarnation,
        /// The piece.
        chunk: Chunk,
    },
    /// A learner has taken a piece, or has not, and the transfer is to begin again.
    ChunkAnswer {
        /// Who says so.
        from: Incarnation,
        /// Of which transfer.
        transfer: u64,
        /// Which piece.
        number: u64,
        /// Whether it has.
        is_taken: bool,
    },
    /// Another member has told what its state is like.
    Scrubbed {
        /// Who.
        from: Incarnation,
        /// What.
        scrubbed: Scrubbed,
    },
    /// Another member says something of fragments.
    Coding {
        /// Who.
        from: Incarnation,
        /// What.
        message: CodingMessage,
    },
    /// The link to the node of another replica is another one: whatever was being sent there begins again.
    LinkLost(Incarnation),
    /// Nothing was heard for long from the node of another replica.
    Silence(Incarnation),
    /// The node stood still for so long, and goes on.
    StoodStill(Duration),
    /// Time passes.
    Tick,
    /// The disk has done something of what was requested in this life of the replica ([`Effects::disk`]).
    Disk(DiskAnswer),
    /// A snapshot of the state is to be stored.
    Snapshot,
    /// The group is to have these members. Refused while another change is under way.
    ChangeMembers(Members),
    /// Another replica is to lead.
    Transfer(Incarnation),
    /// A step of the long values that somebody is to be shown is to be written ([`Replica::reads_on`]).
    ReadOn,
    /// What was applied in the open entry ([`Replica::apply_first`]) is to be kept.
    Close,
    /// The turn ends: `now` is read after all that was answered in it.
    Finish,
}

impl Replica {
    /// An empty replica of `group`, which hosts these partitions and is alone on its node.
    pub fn new(group: GroupId, seed: HashSeed, partitions: PartitionRange) -> Replica {
        Replica {
            state: GroupState::new(group, seed, partitions),
            role: Role::Alone(Alone::default()),
            aside: None,
            lives: 0,
        }
    }

    /// This replica as a build would have it that knows no rules newer than `newest`.
    pub fn knows(mut self, newest: SemanticsVersion) -> Replica {
        self.state.knows(newest);
        self
    }

    /// Says which of the invariants that can be seen between two calls does not hold.
    pub fn check(&self) -> Result<(), String> {
        match &self.role {
            Role::Alone(alone) => alone.check(&self.state),
            Role::Elsewhere => Ok(()),
            Role::Member(member) => member.check(&self.state),
        }
    }

    /// The group.
    pub fn group(&self) -> GroupId {
        self.state.group
    }

    /// The state, to look at.
    pub fn state(&self) -> &GroupState {
        &self.state
    }

    /// The state, for what the group's replicas need not agree on.
    pub fn state_mut(&mut self) -> &mut GroupState {
        &mut self.state
    }

    /// The data, to look at.
    pub fn keyspace(&self) -> &Keyspace {
        &self.state.keyspace
    }

    /// What a leader keeps beside it.
    pub fn local(&self) -> &LeaderLocal {
        &self.state.local
    }

    /// See [`Keyspace::begin_copy`].
    pub fn begin_copy(&mut self, id: u64) -> bool {
        if let Role::Member(member) = &mut self.role {
            member.begin_copy();
        }
        self.state.keyspace_mut().begin_copy(id)
    }

    /// See [`Keyspace::next_of_copy`].
    pub fn next_of_copy(&mut self, id: u64, bytes_max: usize) -> CopyStep {
        let is_over = self.state.keyspace.is_copy_over(id);
        if !is_over && !self.are_whole(None) {
            return CopyStep::NotYet;
        }
        self.state.keyspace_mut().next_of_copy(id, bytes_max)
    }

    /// Whether values are here that are to be copied, of a partition or all. If not, they are gathered.
    fn are_whole(&mut self, only: Option<PartitionId>) -> bool {
        match &mut self.role {
            Role::Member(member) => member.make_whole(&mut self.state, only),
            Role::Alone(_) | Role::Elsewhere => true,
        }
    }

    /// What was gathered, demoted and found to be damaged, and how far it is.
    pub fn coding_counts(&self) -> CodingCounts {
        self.member()
            .map_or_else(CodingCounts::default, |member| member.coding_counts(&self.state))
    }

    /// Whether it has messages of fragments for other members.
    pub fn has_messages(&self) -> bool {
        self.member().is_some_and(Member::has_messages)
    }

    /// Whether ticks have anything to do for values that are kept as fragments.
    pub fn needs_ticks(&self) -> bool {
        self.member()
            .is_some_and(|member| member.needs_ticks(&self.state))
    }

    /// Whether a command that reads needs values of which there are fragments here.
    #[inline]
    pub fn lacks(&mut self, db: Db, command: &Command<'_>) -> bool {
        self.state.keyspace.code().is_some() && self.state.lacks(db, command)
    }

    /// See [`Member::take_copied`].
    pub fn take_copied(&mut self) -> Option<CopyCost> {
        match &mut self.role {
            Role::Member(member) => member.take_copied(),
            Role::Alone(_) | Role::Elsewhere => None,
        }
    }

    /// See [`Keyspace::copy_lags`].
    pub fn copy_lags(&self, id: u64) -> bool {
        self.state.keyspace.copy_lags(id)
    }

    /// See [`Keyspace::is_copy_over`].
    pub fn is_copy_over(&self, id: u64) -> bool {
        self.state.keyspace.is_copy_over(id)
    }

    /// See [`Keyspace::end_copy`].
    pub fn end_copy(&mut self) {
        self.state.keyspace_mut().end_copy();
    }

    /// See [`Keyspace::begin_partition_copy`]. `None` too if the state is being sent to somebody, or copied: that would have to begin again when
    /// the partition goes.
    pub fn begin_partition_copy(&mut self, partition: PartitionId) -> Option<PartitionCopy> {
        if let Role::Member(member) = &mut self.role {
            member.begin_copy();
        }
        let keyspace = self.state.keyspace_mut();
        match keyspace.has_transfers() {
            true => None,
            false => keyspace.begin_partition_copy(partition),
        }
    }

    /// See [`PartitionCopy::next`].
    pub fn next_of_partition_copy(
        &mut self,
        copy: &mut PartitionCopy,
        bytes_max: usize,
    ) -> PartitionCopyStep {
        if !self.are_whole(Some(copy.partition())) {
            return PartitionCopyStep::NotYet;
        }
        copy.next(self.state.keyspace_mut(), bytes_max)
    }

    /// See [`PartitionCopy::last`].
    pub fn last_of_partition_copy(&mut self, copy: PartitionCopy, pieces: u64) -> Option<Enter> {
        copy.last(self.state.keyspace_mut(), pieces)
    }

    /// See [`PartitionCopy::end`].
    pub fn end_partition_copy(&mut self, copy: PartitionCopy) {
        copy.end(self.state.keyspace_mut());
    }

    /// Its part in the group's log, if it has one.
    #[inline]
    pub fn member(&self) -> Option<&Member> {
        match &self.role {
            Role::Member(member) => Some(member),
            Role::Alone(_) | Role::Elsewhere => None,
        }
    }

    /// Keys that commands have changed and that no snapshot has: all of them, where none is stored.
    pub fn changes_unsaved(&self) -> u64 {
        let stored = self.member().map_or(0, Member::changes_stored);
        self.local().changes.saturating_sub(stored)
    }

    /// Which life this is, of those in which it took part in the log.
    pub fn life(&self) -> u64 {
        self.lives
    }

    /// The same, if it leads.
    pub fn leader(&self) -> Option<&Member> {
        self.member().filter(|member| member.leads())
    }

    /// Whether long values are being written, to be shown to somebody.
    pub fn reads_on(&self) -> bool {
        match &self.role {
            Role::Alone(alone) => alone.reads_on(),
            Role::Member(_) => self.state.waiting_reads.reads_on(),
            Role::Elsewhere => false,
        }
    }

    /// Whether the group has a log, so that whatever changes it is an entry.
    #[inline]
    pub fn has_log(&self) -> bool {
        !matches!(self.role, Role::Alone(_))
    }

    fn alone(&self) -> Option<&Alone> {
        match &self.role {
            Role::Alone(alone) => Some(alone),
            Role::Elsewhere | Role::Member(_) => None,
        }
    }
}

/// The roles, one after the other.
impl Replica {
    /// The group is going to have other replicas. Only while no transaction is under way here.
    pub fn give_log(&mut self) {
        assert!(self.is_quiet(), "locks are not replicated");
        self.role = Role::Elsewhere;
        self.state.local.is_alone = false;
        self.state.local.answers_bytes_max = usize::MAX;
    }

    /// It takes part in the group's log, which begins where its state is; `base` says what of that is on disk.
    pub fn join(&mut self, raft: RaftNode, generation: u64, applied: Index, base: LogBase) {
        debug_assert!(matches!(self.role, Role::Elsewhere), "it has left before");
        let member = Member::new(self.state.group, generation, raft, applied, base);
        self.lives += 1;
        self.role = Role::Member(Box::new(member));
    }

    /// What it promises waits for the disk from here on, or does not any more.
    pub fn set_durable(&mut self, is_durable: bool, now: Monotonic) {
        if let Role::Member(member) = &mut self.role {
            // The disk is to tell what it was asked by either.
            self.lives += 1;
            member.set_durable(&mut self.state, is_durable, now);
        }
    }

    /// It has no part in the group's log any more, and answers nobody: a leader may have been removed where it could not hear of it.
    pub fn leave(&mut self) {
        self.take_member();
        self.state.step_down();
    }

    fn take_member(&mut self) -> Option<Box<Member>> {
        if let Role::Alone(_) = self.role {
            return None;
        }
        match std::mem::replace(&mut self.role, Role::Elsewhere) {
            Role::Member(member) => Some(member),
            Role::Alone(_) | Role::Elsewhere => None,
        }
    }

    /// The group begins anew with what is here: the majority is gone. All of the log is applied, committed or not: those who are
    /// gone may have acknowledged it.
    pub fn survive(&mut self, turn: &Turn, now: Monotonic) {
        if let Some(member) = self.take_member() {
            member.into_recovery_source(&mut self.state, turn, now);
            self.state.step_down();
        }
    }

    /// The same, of a log that an earlier life of this replica has left.
    pub fn inherit(&mut self, raft: RaftNode, generation: u64, applied: Index, turn: &Turn, now: Monotonic) {
        let member = Member::new(self.state.group, generation, raft, applied, LogBase::Stored);
        member.into_recovery_source(&mut self.state, turn, now);
        // What the log has left under way is inherited as what the state had: who asked for it is not here.
        if let Role::Alone(alone) = &mut self.role {
            alone.restore(&self.state);
        }
    }

    /// A step has panicked: what is here may be in pieces. Nothing of it is used again, not even to free it.
    pub fn abandon(&mut self) {
        if let Some(member) = self.take_member() {
            std::mem::forget(member);
        }
        self.state.abandon();
    }

    /// Its state differs from that of most others ([`Effects::differs`]): it has no part in the log any more, and is dropped.
    pub fn give_up(&mut self) {
        self.take_member();
        self.state.step_down();
        self.state.forget();
    }

    /// Forgets all data: they belong to the group no more.
    pub fn forget(&mut self) {
        self.state.forget();
    }

    /// It has no part in the group's log any more, and its data are set aside, in the place of what was before: what it needs to go
    /// on beside them. `None` if it has no part, no state yet, or none that may go on: then nothing is set aside.
    pub fn set_aside(&mut self, turn: &Turn, now: Monotonic) -> Option<(SnapshotPoint, Saved)> {
        let rest = self.end(turn, now)?;
        self.state.step_down();
        self.drop_aside();
        self.aside = Some(self.state.take_keyspace());
        Some(rest)
    }

    /// Sets data aside that an earlier process has left, in the place of what was before.
    pub fn put_aside(&mut self, keyspace: Keyspace) {
        self.drop_aside();
        self.aside = Some(keyspace);
    }

    /// What was set aside; nothing if nothing was.
    pub fn take_aside(&mut self) -> Keyspace {
        let aside = self.aside.take();
        aside.unwrap_or_else(|| Keyspace::new(self.state.keyspace.seed(), self.state.partitions))
    }

    /// Drops what was set aside, piece by piece.
    pub fn drop_aside(&mut self) {
        if let Some(aside) = self.aside.take() {
            self.free(aside);
        }
    }

    /// Drops data that nobody needs, piece by piece.
    pub fn free(&mut self, keyspace: Keyspace) {
        self.state.adopt_lazyfree(keyspace.into_lazyfree());
    }

    /// Goes on with what an earlier life of this replica held. Only before anything was carried out.
    pub fn restore(&mut self, keyspace: Keyspace) {
        self.state.replace_keyspace(keyspace);
        self.state.entry_is_open = false;
        if let Role::Alone(alone) = &mut self.role {
            alone.restore(&self.state);
        }
    }

    /// Its part in the log ends here for good: what the next life of this replica needs beside the data. `None` if it has no
    /// part, no state yet, or none that may go on.
    pub fn end(&mut self, turn: &Turn, now: Monotonic) -> Option<(SnapshotPoint, Saved)> {
        let member = self.take_member()?;
        member.into_rest(&mut self.state, turn, now)
    }

    /// Ends here, and leaves the data.
    pub fn into_keyspace(self) -> Keyspace {
        self.state.keyspace
    }
}

/// What has become of [`Replica::reload`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reload {
    /// The state is what was decoded.
    Done,
    /// It is locked, lent, or waited for: nothing was done.
    Busy,
    /// The state is what it was before, and this is why.
    Failed(String),
}

impl Replica {
    /// Encodes all of the state as it is sent to a learner, decodes it, and goes on with what came of that, if it is the same. A
    /// replica without state has nothing to do. Statistics of access begin anew.
    pub fn reload(&mut self) -> Reload {
        let is_busy = match &self.role {
            Role::Elsewhere => return Reload::Done,
            Role::Alone(alone) => !alone.is_quiet(&self.state),
            Role::Member(member) => member.has_open_entry() || self.state.has_waiting_reads(),
        };
        match is_busy {
            true => Reload::Busy,
            false => self.state.reload(),
        }
    }
}

/// As a member.
impl Replica {
    /// Takes one step. `false` if it has no part in the group's log: nothing has happened.
    pub fn step(&mut self, turn: &Turn, now: Monotonic, input: Input<'_>, effects: &mut Effects) -> bool {
        let Role::Member(member) = &mut self.role else {
            return false;
        };
        member.step(&mut self.state, turn, now, input, effects);
        true
    }

    /// Whether a command on keys of this group may be applied before it is in the log ([`Replica::apply_first`]), if they are free.
    #[inline]
    pub fn may_apply_first(&self) -> bool {
        self.member()
            .is_some_and(|member| member.may_apply_first(&self.state) && self.state.keyspace.hosts_as_made())
    }

    /// Whether commands are applied before they are in the log as soon as the group is at rest: it has a log, and is alone.
    pub fn may_apply_first_soon(&self) -> bool {
        self.member()
            .is_some_and(|member| member.may_apply_first_soon() && self.state.keyspace.hosts_as_made())
    }

    /// Carries out one of several commands that are to be done together, or none of them ([`Replica::begin_at_once`]). If it is not done,
    /// all are to be taken back. Of a group that has a log, `has_room` is asked whether there is room for so many bytes in the open entry,
    /// and whether it is opened for them.
    ///
    /// # Panics
    /// If the group is led elsewhere ([`Replica::may_run_at_once`]).
    pub fn carry_out(
        &mut self,
        run: &mut AtOnce,
        call: &Call<'_>,
        has_room: impl FnOnce(usize, bool) -> bool,
        out: &mut ReplyWriter<'_>,
    ) -> CarriedOut {
        match &mut self.role {
            Role::Alone(alone) => alone.call(&mut self.state, run, call, out),
            Role::Member(member) => member.call(&mut self.state, run, call, has_room, out),
            Role::Elsewhere => unreachable!("nothing runs where the group has no part"),
        }
    }

    /// They are done.
    pub fn end_at_once(&mut self, run: AtOnce) {
        drop(run);
        if let Role::Alone(alone) = &self.role {
            alone.expire_met(&mut self.state);
        }
    }

    /// None of them is done.
    pub fn take_back_at_once(&mut self, run: AtOnce) {
        if let (Role::Member(member), Some(mark)) = (&mut self.role, run.mark) {
            member.take_back(mark);
        }
        run.undo
            .take_back(&mut self.state.keyspace, &mut self.state.local);
    }

    /// Carries out a command that writes in the open entry of a group that is alone and keeps a log. What follows from it is to be told
    /// to nobody before the entry was closed ([`Input::Close`]) and is kept ([`Replica::is_ahead`]).
    ///
    /// # Panics
    /// If it may not ([`Replica::may_apply_first`]).
    #[inline]
    pub fn apply_first(
        &mut self,
        turn: &Turn,
        operation: &BlockCommand<'_>,
        command: &Command<'_>,
        out: &mut ReplyWriter<'_>,
    ) {
        match &mut self.role {
            Role::Member(member) => member.apply_first(&mut self.state, turn, operation, command, out),
            Role::Alone(_) | Role::Elsewhere => unreachable!("only an entry of a log is open"),
        }
    }

    /// Whether anything was applied here that is not kept.
    pub fn is_ahead(&self) -> bool {
        self.member().is_some_and(Member::is_ahead)
    }

    /// Consensus, for what heartbeats say of many groups at once.
    pub fn raft_mut(&mut self) -> Option<&mut RaftNode> {
        match &mut self.role {
            Role::Member(member) => Some(member.raft_mut()),
            Role::Alone(_) | Role::Elsewhere => None,
        }
    }

    /// Whether the end of a turn ([`Input::Finish`]) has anything to do: a replica that only its node's gateway was busy with
    /// costs nothing.
    pub fn has_work(&self, now: Monotonic) -> bool {
        self.member()
            .is_some_and(|member| member.has_work(&self.state, now))
    }
}

/// Alone on its node. Of a group with a log no key is free here, and nothing is asked, held or lent.
impl Replica {
    /// Carries out a request.
    ///
    /// # Panics
    /// If the group has a log: its leader is asked.
    pub fn handle(&mut self, turn: &Turn, request: Request, out: &mut Vec<Output>) {
        match &mut self.role {
            Role::Alone(alone) => alone.handle(&mut self.state, turn, request, out),
            Role::Elsewhere | Role::Member(_) => unreachable!("a group with a log is asked by batches"),
        }
    }

    /// Writes a step of the long values that somebody is to be shown ([`Replica::reads_on`]).
    pub fn read_on(&mut self, turn: &Turn, out: &mut Vec<Output>) {
        match &mut self.role {
            Role::Alone(alone) => alone.read_on(&mut self.state, turn, out),
            Role::Elsewhere | Role::Member(_) => unreachable!("a group with a log takes a step of it"),
        }
    }

    /// Whether a command on these keys need not wait. One branch where no transaction is under way.
    #[inline]
    pub fn is_free(&self, locks: impl FnOnce() -> Locks) -> bool {
        self.alone()
            .is_some_and(|alone| alone.is_free(&self.state, locks))
    }

    /// [`Replica::is_free`] for one key, of this slot; `file` as for [`Replica::hold`], if the key is to be held.
    #[inline]
    pub fn is_key_free(&self, slot: Slot, key: &[u8], mode: Mode, file: Option<u16>) -> bool {
        self.alone()
            .is_some_and(|alone| alone.is_key_free(&self.state, slot, key, mode, file))
    }

    /// Holds a key for a transaction, though nothing is prepared: the key is free ([`Replica::is_key_free`]), and the locks
    /// will be let go of soon and whatever happens ([`Replica::let_go`]). It may be held already, by the same transaction or
    /// one of the same `file`: these are carried out and let go of in their order.
    #[inline]
    pub fn hold(&mut self, slot: Slot, key: &[u8], mode: Mode, file: u16, txn: TxnId, priority: Priority) {
        if let Role::Alone(alone) = &mut self.role {
            // What is read here is read when the other worker has decided, by a later clock. A key that expires in between was not
            // seen by anybody who has seen what was changed there.
            let mode = self.state.keyspace().mode_of(key, mode);
            alone.hold(slot, key, mode, file, txn, priority);
        }
    }

    /// Lets go of all that [`Replica::hold`] held; who waits for it goes on.
    #[inline]
    pub fn let_go(&mut self, turn: &Turn, txn: TxnId, out: &mut Vec<Output>) {
        if let Role::Alone(alone) = &mut self.role {
            alone.let_go(&mut self.state, turn, txn, out);
        }
    }

    /// What the replica here has applied under keys, whoever leads, which may be behind: [`Request::OptimisticRead`]. `None` if it has no
    /// part in the group, or the values are not small, or will end soon: when, only the leader's clock says.
    pub fn read_here(&self, turn: &Turn, txn: TxnId, keys: &[FullKey]) -> Option<Output> {
        let time = self.time_here(turn);
        let seen = |(db, key): &FullKey| {
            let (object, version) = self.copy_here(time, *db, key)?;
            Some((object.map(SeenObject::Whole), version))
        };
        Some(Output::OptimisticRead {
            txn,
            group: self.state.group,
            objects: keys.iter().map(seen).collect::<Option<_>>()?,
            age: Duration::ZERO,
            time,
        })
    }

    /// The time of what is read here: the entries may be old, and whoever leads goes by his clock in the same way.
    pub fn time_here(&self, turn: &Turn) -> UnixMillis {
        self.state.keyspace.time().max(turn.now)
    }

    /// What the replica here has applied under a key, with its version, which may be behind. `None` if it has no part in the group, or the
    /// value is not small, or will end soon after `time`: when, only the leader's clock says.
    pub fn copy_here(&self, time: UnixMillis, db: Db, key: &[u8]) -> Option<(Option<Object>, KeyVersion)> {
        self.member().filter(|_| self.state.keyspace.hosts_key(key))?;
        let (object, version) = self.state.keyspace.copy_small(db, key, SMALL_BYTES_MAX)?;
        let deadline = object.as_ref().and_then(Object::deadline);
        let is_mortal = deadline.is_some_and(|deadline| deadline.0 < time.0.saturating_add(MORTAL_MILLIS));
        (!is_mortal).then_some((object, version))
    }

    /// Carries out a command whose keys are free ([`Replica::is_free`]).
    #[inline]
    pub fn execute(&mut self, turn: &Turn, db: Db, command: &Command<'_>, out: &mut ReplyWriter<'_>) {
        match &self.role {
            Role::Alone(alone) => alone.execute(&mut self.state, turn, db, command, out),
            Role::Elsewhere | Role::Member(_) => unreachable!("no key of a group with a log is free"),
        }
    }

    /// Searches for expired keys and deletes them, looking at no more than about `objects_max` objects. `true`
    /// if the whole group was searched. Locked keys are left alone until they are free.
    pub fn expire_due(&mut self, turn: &Turn, objects_max: usize) -> bool {
        match &self.role {
            Role::Alone(alone) => alone.expire_due(&mut self.state, turn, objects_max),
            Role::Elsewhere | Role::Member(_) => true,
        }
    }

    /// Deletes `key` to make room, unless it is locked.
    pub fn evict(&mut self, turn: &Turn, db: Db, key: &[u8]) -> bool {
        match &self.role {
            Role::Alone(alone) => alone.evict(&mut self.state, turn, db, key),
            Role::Elsewhere | Role::Member(_) => false,
        }
    }

    /// One share of `SCAN`; see [`Keyspace::scan`].
    pub fn scan(
        &mut self,
        turn: &Turn,
        db: Db,
        from: Cursor,
        budget: u64,
        found: impl FnMut(&Object),
    ) -> Option<Cursor> {
        let next = self.state.scan(turn, db, from, budget, found);
        match &self.role {
            Role::Alone(alone) => alone.expire_met(&mut self.state),
            // The leader looks for them by itself.
            Role::Elsewhere | Role::Member(_) => self.state.local.met_expired.clear(),
        }
        next
    }

    /// Bytes of the data, wherever they are at the moment, and of what was set aside.
    pub fn memory(&self) -> usize {
        // An empty collection stands where one is lent, and a copy is lent of all else: counted twice, but small.
        let aside = self.aside.as_ref().map_or(0, Keyspace::memory);
        self.state.keyspace.memory() + aside + self.alone().map_or(0, Alone::checked_out_bytes)
    }

    /// Whether no transaction is under way here.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.alone().map_or_else(
            || self.state.keyspace.is_unlocked(),
            |alone| alone.is_idle(&self.state),
        )
    }

    /// Whether another request may wait here.
    pub fn has_room_to_wait(&self) -> bool {
        self.alone().is_none_or(Alone::has_room_to_wait)
    }

    /// Whether nothing is locked, lent or waited for, so that the group can get a log.
    pub fn is_quiet(&self) -> bool {
        self.alone().is_some_and(|alone| alone.is_quiet(&self.state))
    }

    /// The group is going to get a log, and lets no transaction in until then; or it is not after all. Answers what was kept out.
    pub fn await_log(&mut self, awaits_log: bool) -> Vec<Request> {
        match &mut self.role {
            Role::Alone(alone) => alone.await_log(awaits_log),
            Role::Elsewhere | Role::Member(_) => Vec::new(),
        }
    }

    /// Whether the group is going to get a log ([`Replica::await_log`]).
    pub fn awaits_log(&self) -> bool {
        self.alone().is_some_and(Alone::awaits_log)
    }

    /// Whether a transaction has, or may have, left something to be done here: what is held then is not all there is.
    pub fn has_transactions(&self) -> bool {
        self.alone()
            .is_some_and(|alone| alone.has_transactions(&self.state))
    }
}

//! The data of one group: a deterministic state machine.
//!
//! ```text
//!   entry { semantics version, now, seed, [(gateway, number, acknowledged, operations)] }
//!      |                                         |
//!      v                                         v
//!   open(header)                              sessions: applied before? --> the recorded replies
//!      |                                         | no
//!      v                                         v
//!   apply_command, apply_block, expire, evict, install, fence ------------> replies (RESP bytes), recorded
//!                         |
//!                    databases[16] --> partitions --> directory --> segments --> objects
//! ```
//!
//! `apply` has two inputs, the state and the entry, and no others: no configuration, no memory figures, no
//! access statistics, no clock. It is total: whatever the entry holds, it answers and never panics. Reads are a
//! path of their own (`read.rs`) that cannot change the state. Inside an entry they draw from its seed and are judged by its
//! time, so that what they answer is recorded alike everywhere; only what tells of this replica alone (access statistics,
//! addresses, bytes of memory) is not (`tells_of_replica`).
//!
//! An entry is applied by the rules of its semantics version. A build knows a range of them, from
//! [`SemanticsVersion::OLDEST`] on; the meta group raises what leaders write only when every member knows it, and an entry
//! of any other version is refused as a whole: the replica must stop, because it can no longer follow.
//!
//! Invariants:
//! 1. `time` never goes back.
//! 2. `applied` grows by one with each command, and with each operation that is none; an object's version is at most `applied`.
//! 3. Two keyspaces made with the same seed and fed the same entries have equal state hashes.

mod ahead;
mod remainder;

pub use self::ahead::{KEYS_AHEAD, look_ahead};
use crate::apply::Apply;
use crate::coded::Coding;
use crate::database::{Database, KeyVersion};
use crate::digest::Digest;
use crate::directories::Location;
use crate::effects::Effect;
use crate::entry::{BlockCommand, ConditionView, Entry, EntryOperation, Header, Operations, Source};
use crate::events::EventClasses;
use crate::hosting::{Hosting, Moved};
use crate::lazyfree::{Lazyfree, LazyfreeCounts};
use crate::limits::EncodingLimits;
use crate::local::LeaderLocal;
use crate::object::{Kind, Object, VERSION_MAX};
use crate::object_copy::ObjectCopy;
use crate::placing::Placing;
use crate::replies::{Answer, Replies};
use crate::requests::{ClientRequest, KeptResult, RequestStanding, Requests};
use crate::scratch::Scratch;
use crate::sessions::{Batched, Fence, Sessions};
use crate::slot_word::ObjectRef;
use crate::staging::Staging;
use crate::stream::has_news_since;
use crate::transactions::{Behind, Origin, Transactions};
use crate::waiters::Waiters;
use bytes::Bytes;
use command::{Command, ObjectAspect, ReplyError};
use ids::{
    Db, GatewayId, GroupId, HashSeed, PartitionId, PartitionRange, Prng, RequestUuid, SemanticsVersion, Slot,
    UnixMillis, Version,
};
use resp::{Args, Protocol, ReplyWriter};
use txn::{Locks, Mode, Participant};

/// By how much the count of operations leaps when a group begins anew: more than can have been applied and lost.
const VERSIONS_OF_A_GENERATION: u64 = 1 << 32;

/// The state of one group. See the file's header.
pub struct Keyspace {
    pub(crate) placing: Placing,
    pub(crate) hosting: Hosting,
    /// Which group it is, and in which generation: it follows from the log that it is applied from.
    pub(crate) place: Participant,
    pub(crate) time: UnixMillis,
    pub(crate) applied: Version,
    pub(crate) databases: Vec<Database>,
    pub(crate) sessions: Sessions,
    pub(crate) staging: Staging,
    /// The newest rules that this build follows: not part of the state.
    known: SemanticsVersion,
    /// The newest rules by which an entry was applied: who does not know them cannot take this state over.
    semantics: SemanticsVersion,
    /// Transfers that were begun.
    transfers: u64,
    /// A copy of the objects that is under way: not part of the state.
    pub(crate) copy: Option<ObjectCopy>,
    /// Randomness of the open entry.
    prng: Prng,
    limits: EncodingLimits,
    pub(crate) lazyfree: Lazyfree,
    pub(crate) transactions: Transactions,
    pub(crate) requests: Requests,
    pub(crate) waiters: Waiters,
    /// Where transactions are tried out, kept for the next one: not part of the state.
    pub(crate) scratch: Option<Box<Scratch>>,
    /// While what came in pieces is carried out, what long strings of it may stay in: not part of the state.
    source: Option<Bytes>,
    /// Of a group that keeps values in fragments.
    pub(crate) coding: Option<Box<Coding>>,
}

/// A read that waits for an entry to be applied up to a position.
#[derive(Clone, Copy, Debug)]
pub struct AttachedRead<'a> {
    /// How many operations of the entry come before it.
    pub position: usize,
    /// The connection's database.
    pub db: Db,
    /// How to write the reply.
    pub protocol: Protocol,
    /// Name and arguments of a command that does not write.
    pub args: Args<'a>,
}

/// What applying an entry answers, piece by piece.
pub enum ApplyOutput<'a> {
    /// What became of the entry's next batch. If it was applied, now or before, its operations' answers follow.
    Batch(Batched),
    /// The next operation of that batch.
    Operation(Answer<'a>),
    /// The attached read of this index, and its reply.
    Read(usize, &'a [u8]),
    /// The attached read of this index names keys that belong to other groups.
    ReadMoved(usize, Vec<Moved>),
    /// The attached read of this index names a key that a transaction holds, or that others wait for: where it stands
    /// ([`Keyspace::admits_behind`]).
    ReadLater(usize, Behind),
    /// These locks were left: reads that wait for them look again, before the next who waits goes on.
    Freed(&'a Keyspace, &'a mut LeaderLocal, &'a [Locks]),
}

/// An entry whose rules this build does not know. Nothing of it was applied, and nothing that follows can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownSemantics {
    /// What the entry needs.
    pub needed: SemanticsVersion,
    /// The newest that is known.
    pub known: SemanticsVersion,
}

impl std::fmt::Display for UnknownSemantics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (oldest, known, needed) = (SemanticsVersion::OLDEST.0, self.known.0, self.needed.0);
        write!(
            f,
            "the entry follows the rules of version {needed}; this build knows those from {oldest} to {known}"
        )
    }
}

impl std::error::Error for UnknownSemantics {}

impl Keyspace {
    /// An empty keyspace of a group that is made with these partitions, whose hash order follows from `seed`. With none it is to take some
    /// over from other groups.
    pub fn new(seed: HashSeed, partitions: PartitionRange) -> Keyspace {
        if partitions.is_empty() {
            let first = PartitionRange::new(partitions.cluster_count(), PartitionId::new(0), 1);
            let mut keyspace = Keyspace::with(seed, first.expect("there is one"), Version(0), true);
            keyspace.hosting = Hosting::nothing();
            return keyspace;
        }
        Keyspace::with(seed, partitions, Version(0), true)
    }

    /// An empty keyspace to try transactions out on: it counts its operations from `applied` on, and nobody can
    /// watch its keys.
    pub fn scratch(seed: HashSeed, applied: Version) -> Keyspace {
        Keyspace::with(seed, PartitionRange::ONE, applied, false)
    }

    fn with(seed: HashSeed, partitions: PartitionRange, applied: Version, is_watchable: bool) -> Keyspace {
        Keyspace {
            placing: Placing::new(seed, partitions),
            hosting: Hosting::default(),
            place: Participant::first(GroupId::new(0)),
            time: UnixMillis(i64::MIN),
            applied,
            databases: (0..Db::KEPT)
                .map(|_| Database::new(Placing::new(seed, partitions), is_watchable))
                .collect(),
            sessions: Sessions::default(),
            staging: Staging::default(),
            known: SemanticsVersion::CURRENT,
            semantics: SemanticsVersion::OLDEST,
            transfers: 0,
            copy: None,
            prng: Prng::new(0),
            limits: EncodingLimits::default(),
            lazyfree: Lazyfree::default(),
            source: None,
            transactions: Transactions::new(),
            waiters: Waiters::default(),
            requests: Requests::default(),
            scratch: None,
            coding: None,
        }
    }

    /// This keyspace as a build would have it that knows no rules newer than `newest`: two builds that differ in it can be
    /// tried out in one cluster.
    pub fn knows(mut self, newest: SemanticsVersion) -> Keyspace {
        self.known = newest;
        self
    }

    /// The entries from here on are of this group, in this generation.
    pub fn set_place(&mut self, place: Participant) {
        self.place = place;
    }

    /// The group begins anew in this generation, with what is held here: some of what was applied before may be lost, and
    /// somebody have seen its versions ([`WATCH`](ConditionView::Unchanged) does). No version is given out a second time. Called
    /// once, by the replica whose state is the group's from here on; the others get it from there.
    pub fn begin_anew(&mut self, generation: u64) {
        let applied = self.applied.0 + VERSIONS_OF_A_GENERATION;
        self.applied = Version(
            applied
                .max(generation * VERSIONS_OF_A_GENERATION)
                .min(VERSION_MAX),
        );
    }

    /// Applies a whole entry: what a replica does with a committed one. `answer` is told what became of each batch, and
    /// what each operation answered.
    pub fn apply(
        &mut self,
        entry: &Entry<'_>,
        local: &mut LeaderLocal,
        answer: impl FnMut(ApplyOutput<'_>),
    ) -> Result<(), UnknownSemantics> {
        self.apply_with_reads(entry, &[], local, answer)
    }

    /// Applies an entry and evaluates the reads that are attached to positions in it, each when apply reaches its
    /// position: not before, when the write that its client sent first is not applied, and not later, when one
    /// that its client sent after it is. `reads` are in the order of their positions. An operation that is not
    /// applied, being a repeat or refused, still counts as a position.
    pub fn apply_with_reads(
        &mut self,
        entry: &Entry<'_>,
        reads: &[AttachedRead<'_>],
        local: &mut LeaderLocal,
        mut answer: impl FnMut(ApplyOutput<'_>),
    ) -> Result<(), UnknownSemantics> {
        self.open(&entry.header())?;
        self.begin_unserved(local);
        let mut out = Vec::new();
        let mut waiting = reads.iter().enumerate().peekable();
        let mut position = 0;
        self.look_at_resolved(entry);
        for batch in entry.batches() {
            let outcome = self
                .sessions
                .admit(batch.gateway, batch.number, batch.acknowledged);
            answer(ApplyOutput::Batch(outcome));
            if outcome == Batched::Repeated {
                // What was recorded is told where it was answered first: reads stand between.
                let mut recorded = self.sessions.answers(batch.gateway, batch.number);
                for _ in batch.operations() {
                    while let Some((index, read)) = waiting.next_if(|(_, read)| read.position <= position) {
                        self.answer_read(index, read, local, &mut out, &mut answer);
                    }
                    if let Some(recorded) = recorded.next() {
                        answer(ApplyOutput::Operation(recorded));
                    }
                    position += 1;
                }
                // All of the record is told, also to a repetition that names fewer operations.
                recorded.for_each(|recorded| answer(ApplyOutput::Operation(recorded)));
                continue;
            }
            let mut replies = Replies::with_room(batch.len());
            for (index, operation) in (0..).zip(batch.operations()) {
                if (index as usize).is_multiple_of(KEYS_AHEAD) && batch.len() > index as usize + 1 {
                    let keys = batch.keys_from(index as usize);
                    look_ahead(keys.map(|(db, key)| (&*self, db, Slot::of_key(key), key)));
                }
                while let Some((index, read)) = waiting.next_if(|(_, read)| read.position <= position) {
                    self.answer_read(index, read, local, &mut out, &mut answer);
                }
                if outcome == Batched::Applied {
                    let origin = Origin {
                        gateway: batch.gateway,
                        number: batch.number,
                        index,
                    };
                    self.apply_operation(operation, origin, local, &mut replies, &mut answer);
                    answer(ApplyOutput::Operation(replies.newest()));
                }
                position += 1;
            }
            if outcome == Batched::Applied {
                self.sessions.record(batch.gateway, batch.number, replies);
            }
        }
        for (index, read) in waiting {
            self.answer_read(index, read, local, &mut out, &mut answer);
        }
        Ok(())
    }

    /// Evaluates an attached read at group time: the entry has moved it to the leader's clock or beyond.
    fn answer_read(
        &self,
        index: usize,
        read: &AttachedRead<'_>,
        local: &mut LeaderLocal,
        out: &mut Vec<u8>,
        answer: &mut impl FnMut(ApplyOutput<'_>),
    ) {
        out.clear();
        if !self.admits_read(read.args) {
            return answer(ApplyOutput::ReadLater(index, self.behind()));
        }
        if !self.hosts_args(read.args) {
            return answer(ApplyOutput::ReadMoved(index, self.elsewhere_of_args(read.args)));
        }
        let mut writer = ReplyWriter::new(out, read.protocol);
        match parse(read.args) {
            Ok(command) if command.writes() => ReplyError::unknown_command(read.args).write(&mut writer),
            Ok(command) => {
                let now = std::mem::replace(&mut local.now, self.time);
                self.read(read.db, &command, local, &mut writer);
                local.now = now;
            }
            Err(error) => error.write(&mut writer),
        }
        answer(ApplyOutput::Read(index, out));
    }

    fn apply_operation(
        &mut self,
        operation: EntryOperation<'_>,
        origin: Origin,
        local: &mut LeaderLocal,
        replies: &mut Replies,
        answer: &mut impl FnMut(ApplyOutput<'_>),
    ) {
        replies.begin();
        match operation {
            EntryOperation::Arrive(piece) => self.arrive(&piece, replies),
            EntryOperation::Coding(step) => {
                local.met_other_value |= !self.apply_coding(step);
                replies.end_reply(false);
            }
            EntryOperation::Stage(piece) => {
                self.applied.0 += 1;
                self.staging.add(origin.gateway, piece, &mut self.lazyfree);
                replies.end_reply(false);
            }
            EntryOperation::Staged { number } => {
                if !self.apply_staged(number, origin, local, replies, answer) {
                    self.applied.0 += 1;
                    replies.crowd_out();
                }
            }
            operation => self.apply_begun(operation, origin, local, replies, answer),
        }
    }

    /// What came in pieces; `false` if not all of it is there.
    fn apply_staged(
        &mut self,
        number: u64,
        origin: Origin,
        local: &mut LeaderLocal,
        replies: &mut Replies,
        answer: &mut impl FnMut(ApplyOutput<'_>),
    ) -> bool {
        let Some((come, built)) = self.staging.take(origin.gateway, number, &mut self.lazyfree) else {
            return false;
        };
        let source = self.source.replace(come.clone());
        let whole = Source {
            bytes: &come,
            built: built.into(),
        };
        let is_applied = Operations::read_kept(&whole, |operation| {
            // Of what comes in pieces nothing is pieces again.
            match operation {
                EntryOperation::Stage(_) | EntryOperation::Staged { .. } | EntryOperation::Coding(_) => {
                    return false;
                }
                EntryOperation::Arrive(piece) => self.arrive(&piece, replies),
                operation => self.apply_begun(operation, origin, local, replies, answer),
            }
            true
        });
        self.source = source;
        let left = whole.built.into_inner().into_values();
        left.for_each(|built| built.discard(&mut self.lazyfree));
        self.lazyfree.add_shared(come);
        is_applied == Some(true)
    }

    fn apply_begun(
        &mut self,
        operation: EntryOperation<'_>,
        origin: Origin,
        local: &mut LeaderLocal,
        replies: &mut Replies,
        answer: &mut impl FnMut(ApplyOutput<'_>),
    ) {
        match operation {
            EntryOperation::Prepare(_)
            | EntryOperation::Lock(_)
            | EntryOperation::Resolve(_)
            | EntryOperation::QueryTxn(_)
            | EntryOperation::Withdraw { .. }
            | EntryOperation::Forget(_)
            | EntryOperation::Received { .. }
            | EntryOperation::Resume(_) => self.apply_transaction(operation, origin, local, replies, answer),
            operation if self.transactions.is_idle() => self.apply_free(operation, origin, local, replies),
            operation => {
                if !self.parks(&operation, origin, local, replies, answer) {
                    self.apply_free(operation, origin, local, replies);
                }
                self.go_on(local, answer);
            }
        }
    }

    /// One operation that nothing holds up.
    pub(crate) fn apply_free(
        &mut self,
        operation: EntryOperation<'_>,
        origin: Origin,
        local: &mut LeaderLocal,
        replies: &mut Replies,
    ) {
        if !self.apply_plain(operation, origin, local, replies) {
            replies.deferred();
        }
        self.serve(local);
    }

    /// One operation that no transaction has a part in. `false` if it is answered later.
    pub(crate) fn apply_plain(
        &mut self,
        operation: EntryOperation<'_>,
        origin: Origin,
        local: &mut LeaderLocal,
        replies: &mut Replies,
    ) -> bool {
        let elsewhere = self.elsewhere_of(&operation);
        if !elsewhere.is_empty() {
            self.applied.0 += 1;
            replies.moved(&elsewhere);
            return true;
        }
        match operation {
            EntryOperation::Command { db, protocol, args } => {
                self.apply_words(&BlockCommand { db, protocol, args }, local, replies);
            }
            EntryOperation::Expire { db, key } => {
                if self.is_free(&exclusive(key)) {
                    self.expire(db, key, local);
                } else {
                    self.applied.0 += 1;
                }
            }
            EntryOperation::Evict { db, key } => {
                if self.is_free(&exclusive(key)) {
                    self.evict(db, key, local);
                } else {
                    self.applied.0 += 1;
                }
            }
            EntryOperation::Prepare(_)
            | EntryOperation::Lock(_)
            | EntryOperation::Resolve(_)
            | EntryOperation::QueryTxn(_)
            | EntryOperation::Withdraw { .. }
            | EntryOperation::Forget(_)
            | EntryOperation::Received { .. }
            | EntryOperation::Resume(_) => unreachable!("transactions have a way of their own"),
            EntryOperation::Stage(_)
            | EntryOperation::Staged { .. }
            | EntryOperation::Arrive(_)
            | EntryOperation::Coding(_) => {
                unreachable!("the caller has looked")
            }
            EntryOperation::Install { effects } => self.install(effects, local),
            EntryOperation::Limits { limits } => self.set_limits(limits),
            EntryOperation::Fence { fence } => self.fence(&fence),
            EntryOperation::Block { conditions, commands } => {
                if conditions.iter().all(|condition| self.holds(condition)) {
                    for command in &commands {
                        self.apply_words(command, local, replies);
                    }
                } else {
                    replies.refuse();
                }
            }
            EntryOperation::Once { request, commands } => {
                self.apply_once(&request, &commands, local, replies)
            }
            EntryOperation::OnePhase { expects, effects } => {
                let holds = expects.iter().all(|condition| self.holds(condition));
                if holds || mutations::is(mutations::Mutation::OnePhaseNotJudged) {
                    self.install(effects, local);
                    replies.end_reply(false);
                } else {
                    self.discard(effects);
                    replies.refuse();
                }
            }
            EntryOperation::Wait { id, command } => return self.wait(id, &command, origin, local, replies),
            EntryOperation::EndWait { id } => {
                self.applied.0 += 1;
                self.end_wait(origin.gateway, id, local);
                replies.end_reply(false);
            }
            EntryOperation::EndWaits { boot } => {
                self.applied.0 += 1;
                self.end_waits(boot, local);
            }
        }
        true
    }

    /// The first reply is a [`RequestStanding`].
    fn apply_once(
        &mut self,
        request: &ClientRequest,
        commands: &[BlockCommand<'_>],
        local: &mut LeaderLocal,
        replies: &mut Replies,
    ) {
        let standing = self.requests.standing(request, self.time);
        self.stand(standing.unwrap_or(RequestStanding::CarriedOut), request, replies);
        if standing.is_none() {
            let mark = replies.mark();
            for command in commands {
                self.apply_words(command, local, replies);
            }
            self.requests.keep(request, replies.kept_since(mark), self.time);
        }
    }

    /// Answers what is known of a request, and what it was answered.
    pub(crate) fn stand(&self, standing: RequestStanding, request: &ClientRequest, replies: &mut Replies) {
        replies.buffer().push(standing.code());
        replies.end_reply(false);
        if standing == RequestStanding::CarriedOut {
            for reply in self.requests.replies(request.id) {
                replies.buffer().extend_from_slice(reply);
                replies.end_reply(false);
            }
        }
    }

    /// What is known of a request by group time; `None` if it is to be carried out.
    pub fn standing(&self, request: &ClientRequest) -> Option<RequestStanding> {
        self.requests.standing(request, self.time)
    }

    /// The replies that are kept of a request.
    pub fn kept_replies(&self, id: RequestUuid) -> impl Iterator<Item = &[u8]> {
        self.requests.replies(id)
    }

    /// Keeps what a request was answered that was not known before.
    pub fn keep(&mut self, result: KeptResult) {
        self.requests.keep(&result.request, result.replies, self.time);
    }

    pub(crate) fn apply_words(
        &mut self,
        command: &BlockCommand<'_>,
        local: &mut LeaderLocal,
        replies: &mut Replies,
    ) {
        let mut writer = ReplyWriter::new(replies.buffer(), command.protocol);
        let is_local = match parse(command.args) {
            Ok(parsed) => {
                self.apply_command(command.db, &parsed, local, &mut writer);
                tells_of_replica(&parsed)
            }
            Err(error) => {
                error.write(&mut writer);
                false
            }
        };
        replies.end_reply(is_local);
    }

    /// Whether a condition holds, by the group's time.
    pub fn holds(&self, condition: &ConditionView<'_>) -> bool {
        match *condition {
            ConditionView::Unchanged { db, key, version } => self.version(db, key) == version,
            ConditionView::Absent { db, key } => matches!(self.version(db, key), KeyVersion::Absent(_)),
        }
    }

    /// What long strings of what came in pieces may stay in, while that is carried out.
    pub(crate) fn source(&self) -> Option<&Bytes> {
        self.source.as_ref()
    }

    /// Begins an entry: group time moves on to its `now` (never back), and random choices follow its seed.
    ///
    /// A replica that is a group of its own commits at once; it opens one entry a turn and applies operations
    /// to it as they come, which is the same as gathering them and applying the entry at the end.
    ///
    /// # Errors
    /// If the entry's rules are none that are known. Nothing has changed then.
    pub fn open(&mut self, header: &Header) -> Result<(), UnknownSemantics> {
        if !(SemanticsVersion::OLDEST..=self.known).contains(&header.semantics) {
            return Err(UnknownSemantics {
                needed: header.semantics,
                known: self.known,
            });
        }
        self.semantics = self.semantics.max(header.semantics);
        self.time = self.time.max(header.now);
        self.prng = Prng::new(header.seed);
        Ok(())
    }

    /// Whatever was noted between entries for clients that wait is no part of the one that is open now.
    pub fn begin_unserved(&self, local: &mut LeaderLocal) {
        local.has_waiters = self.has_waiters();
        local.ready.clear();
        local.is_all_ready = false;
    }

    /// Applies one client's command, writing its reply.
    #[inline]
    pub fn apply_command(
        &mut self,
        db: Db,
        command: &Command<'_>,
        local: &mut LeaderLocal,
        out: &mut ReplyWriter<'_>,
    ) {
        self.applied.0 += 1;
        if self.coding.is_some() && !self.can_apply(db, command) {
            return ReplyError::InFragments.write(out);
        }
        Apply {
            keyspace: self,
            local,
            db,
            out,
        }
        .command(command);
    }

    /// Deletes `key` if it has expired by group time. An operation the leader makes.
    pub fn expire(&mut self, db: Db, key: &[u8], local: &mut LeaderLocal) {
        self.applied.0 += 1;
        let location = self.locate(key);
        self.remove_if_expired(db, location, key, local);
    }

    /// Deletes `key` to make room. An operation the leader makes.
    pub fn evict(&mut self, db: Db, key: &[u8], local: &mut LeaderLocal) {
        self.applied.0 += 1;
        let location = self.locate(key);
        if let Some(object) = self.databases[db.index()].remove(location, key, self.applied) {
            local.went(db, &object);
            self.lazyfree.add(object);
            local.evicted += 1;
            local.event(EventClasses::EVICTED, "evicted", db, key);
        }
    }

    /// Sets how large collections may be and still be kept small. An operation the leader makes.
    pub fn set_limits(&mut self, limits: EncodingLimits) {
        self.applied.0 += 1;
        self.limits = limits;
    }

    /// Takes over which boots are dead: their sessions go, and their batches are refused. An operation the leader makes.
    pub fn fence(&mut self, fence: &Fence) {
        self.applied.0 += 1;
        self.sessions.fence(fence);
        let Keyspace {
            transactions,
            sessions,
            staging,
            waiters,
            lazyfree,
            ..
        } = self;
        staging.fence(|boot| sessions.is_dead(boot), lazyfree);
        transactions.fence(|boot| sessions.is_dead(boot));
        waiters.fence(|boot| sessions.is_dead(boot));
        self.drop_ended_arrival();
    }

    /// The number of the newest batch of `gateway` that was applied; 0 if there was none.
    pub fn last_batch(&self, gateway: GatewayId) -> u64 {
        self.sessions.last(gateway)
    }

    /// How many gateways have a session.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// The newest rules by which an entry was applied.
    pub(crate) fn semantics(&self) -> SemanticsVersion {
        self.semantics
    }

    /// How large collections may be and still be kept small.
    pub fn limits(&self) -> EncodingLimits {
        self.limits
    }

    /// Where collections that are no longer needed go.
    pub(crate) fn lazyfree(&mut self) -> &mut Lazyfree {
        &mut self.lazyfree
    }

    /// The randomness of the open entry, as far as it was used.
    pub(crate) fn prng_now(&self) -> Prng {
        self.prng.clone()
    }

    /// The randomness of the open entry.
    pub(crate) fn prng(&mut self) -> &mut Prng {
        &mut self.prng
    }

    /// Installs what a transaction over several groups decided for this one.
    pub fn install(&mut self, effects: Vec<Effect>, local: &mut LeaderLocal) {
        self.applied.0 += 1;
        for effect in effects {
            let effect = match effect {
                Effect::PutEncoded { db, object } => match object.decode() {
                    Some(object) => Effect::Put { db, object },
                    // Only a damaged transfer holds such bytes: a member twice, which nobody looks for when they come.
                    None => continue,
                },
                effect => effect,
            };
            local.changes += u64::from(!matches!(effect, Effect::Tell(_)));
            match effect {
                Effect::Tell(event) if local.notify.meets(event.class) => local.events.push(event),
                Effect::Tell(_) => {}
                Effect::Put { db, mut object } => {
                    object.set_version(self.applied);
                    let location = self.locate(object.key());
                    let database = &mut self.databases[db.index()];
                    // What the effect was computed on knew no clock.
                    let before = database
                        .find(location, object.key())
                        .map(|before| (before.access(), before.is_expired(self.time)));
                    object.set_access(match before {
                        Some((access, false)) => local.touched(access),
                        Some((_, true)) | None => local.access.fresh(),
                    });
                    if let Some((_, true)) = before {
                        local.expired += 1;
                        local.event(EventClasses::EXPIRED, "expired", db, object.key());
                    }
                    // A read that found nothing changes a stream too: whoever waits would try for ever.
                    let before = database.find(location, object.key());
                    let has_news = before.is_none_or(|before| has_news_since(&object, &before));
                    if has_news {
                        local.came(db, &object);
                    }
                    if let Some(before) = database.put(location, object) {
                        if has_news {
                            local.went(db, &before);
                        }
                        self.lazyfree.add(before);
                    }
                }
                Effect::PutEncoded { .. } => unreachable!("it was decoded above"),
                Effect::Delete { db, key } => {
                    let location = self.locate(&key);
                    if let Some(before) = self.databases[db.index()].remove(location, &key, self.applied) {
                        local.went(db, &before);
                        self.lazyfree.add(before);
                    }
                }
            }
        }
    }

    /// Drops what will not be installed, piece by piece.
    pub(crate) fn discard(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Put { object, .. } => self.lazyfree.add(object),
                Effect::PutEncoded { .. } | Effect::Delete { .. } | Effect::Tell(_) => {}
            }
        }
    }

    pub(crate) fn remove_if_expired(
        &mut self,
        db: Db,
        location: Location,
        key: &[u8],
        local: &mut LeaderLocal,
    ) {
        let database = &mut self.databases[db.index()];
        if database
            .find(location, key)
            .is_some_and(|object| object.is_expired(self.time))
        {
            if let Some(object) = database.remove(location, key, self.applied) {
                local.went(db, &object);
                self.lazyfree.add(object);
            }
            local.expired += 1;
            local.event(EventClasses::EXPIRED, "expired", db, key);
        }
    }

    /// Empties one database or all of clients.
    pub(crate) fn flush(&mut self, db: Option<Db>) {
        let of_clients = self.databases.iter_mut().take(Db::COUNT.into());
        for (index, database) in of_clients.enumerate() {
            // A database that lost its keys one by one still has its segments.
            if db.is_none_or(|db| db.index() == index) && database.memory() > 0 {
                self.lazyfree
                    .add_segments(database.flush(self.applied).into_segments());
            }
        }
    }

    pub(crate) fn swap_databases(&mut self, a: Db, b: Db) {
        if let Ok([a, b]) = self.databases.get_disjoint_mut([a.index(), b.index()]) {
            a.swap(b, self.applied, self.time);
        }
        if let Some(coding) = &mut self.coding {
            coding.swap(a, b);
        }
    }

    /// Drops up to about `budget` objects of what was deleted and is large, and counts them down; `true` if none is left.
    /// The driver calls it between turns, so that no deletion stalls.
    pub fn collect_lazyfree(&mut self, budget: &mut usize) -> bool {
        self.lazyfree.collect(budget)
    }

    /// A long string of those, of at most so many bytes, that is given back in one call: others than the driver may drop it.
    pub fn take_shared_lazyfree(&mut self, bytes_max: usize) -> Option<Bytes> {
        self.lazyfree.take_shared(bytes_max)
    }

    /// How many deleted keys are dropped piece by piece, and were since [`Keyspace::reset_lazyfree_counts`].
    pub fn lazyfree_counts(&self) -> LazyfreeCounts {
        self.lazyfree.counts()
    }

    /// Counts what is dropped from now on.
    pub fn reset_lazyfree_counts(&mut self) {
        self.lazyfree.reset_counts();
    }

    /// Keys that have expired by `time`, from where the last search stopped, looking at no more than about
    /// `objects_max` objects. `true` if everything was searched. The leader makes entries of them.
    pub fn due(&mut self, time: UnixMillis, objects_max: usize, found: &mut Vec<(Db, Box<[u8]>)>) -> bool {
        let mut complete = true;
        // Of a partition that arrives, keys expire where it is hosted.
        let kept = self.databases.iter_mut().take(Db::KEPT.into());
        for (number, database) in (0..).zip(kept) {
            let db = Db::kept(number).expect("as many databases as numbers");
            complete &= database.due(time, objects_max, |object| found.push((db, object.key().into())));
        }
        complete
    }

    /// What `WATCH` remembers of `key`: judged by the group's time.
    pub fn version(&self, db: Db, key: &[u8]) -> KeyVersion {
        self.version_at(db, key, self.time)
    }

    fn version_at(&self, db: Db, key: &[u8], time: UnixMillis) -> KeyVersion {
        let location = self.locate(key);
        match self.databases[db.index()].version(location, key, time) {
            KeyVersion::Absent(version) => {
                KeyVersion::Absent(version.max(self.entered_at(location.partition)))
            }
            present => present,
        }
    }

    /// The same, judged by the clock of the leader, if it is ahead of the group's.
    pub fn version_read(&self, db: Db, key: &[u8], local: &LeaderLocal) -> KeyVersion {
        self.version_at(db, key, self.time.max(local.now))
    }

    /// Notes what a read met that looked at the version of `key`, and not at what is there.
    pub fn note_expired(&self, db: Db, key: &[u8], local: &mut LeaderLocal) {
        if self
            .object_at(db, key)
            .is_some_and(|object| object.is_expired(local.now))
        {
            local.is_ahead = true;
            local.met(db, key);
        }
    }

    /// The version at which what is under `key` came to be so, or a later one, judged by the clock of the leader; `None` if
    /// nobody has written it down.
    pub(crate) fn last_change_of(&self, db: Db, key: &[u8], local: &LeaderLocal) -> Option<Version> {
        let location = self.locate(key);
        let last = self.databases[db.index()].last_change(location, key, self.time.max(local.now));
        // Whoever was here before it came has not seen it.
        Some(last?.max(self.entered_at(location.partition)))
    }

    /// A copy of an object, to evaluate a transaction on elsewhere; `None` if absent or expired by group time.
    ///
    /// # Panics
    /// If this replica has a fragment of it alone: whoever asks sees to it that it does not.
    pub fn copy_object(&self, db: Db, key: &[u8]) -> Option<Object> {
        let object = self.object_at(db, key)?;
        assert!(!object.is_coded(), "a fragment is of no use elsewhere");
        Some(object.copy_as(key, object.deadline(), object.version()))
    }

    /// [`Keyspace::copy_object`], and a long string is shared.
    pub fn share_object(&mut self, db: Db, key: &[u8]) -> Option<Object> {
        self.prepare_to_share(db, key);
        self.copy_object(db, key)
    }

    /// [`Keyspace::copy_object`], with the version; `None` if it takes more than so many bytes.
    pub fn copy_small(&self, db: Db, key: &[u8], bytes_max: usize) -> Option<(Option<Object>, KeyVersion)> {
        let Some(object) = self.object_at(db, key) else {
            return Some((None, self.version(db, key)));
        };
        (object.memory() <= bytes_max && !object.is_coded()).then(|| {
            let copy = object.copy_as(key, object.deadline(), object.version());
            (Some(copy), self.database(db).version_of(&object))
        })
    }

    /// What is under a key; `None` if absent or expired by group time.
    pub(crate) fn object_at(&self, db: Db, key: &[u8]) -> Option<ObjectRef<'_>> {
        self.peek_object(db, key)
            .filter(|object| !object.is_expired(self.time))
    }

    /// What kind of value `key` holds; `None` if it is absent or expired by group time.
    pub fn kind(&self, db: Db, key: &[u8]) -> Option<crate::Kind> {
        let object = self.database(db).find(self.locate(key), key)?;
        (!object.is_expired(self.time)).then(|| object.kind())
    }

    /// Takes an object out for a moment, to evaluate a command on it elsewhere; [`Keyspace::check_in_object`] or
    /// [`Keyspace::install`] ends it. `None` if absent or expired by group time.
    pub fn check_out_object(&mut self, db: Db, key: &[u8]) -> Option<Object> {
        let location = self.locate(key);
        let database = &mut self.databases[db.index()];
        database
            .find(location, key)
            .filter(|object| !object.is_expired(self.time))?;
        database.remove(location, key, self.applied)
    }

    /// Takes back what [`Keyspace::check_out_object`] gave away and was not changed.
    pub fn check_in_object(&mut self, db: Db, object: Object) {
        let location = self.locate(object.key());
        self.databases[db.index()].restore(location, object);
    }

    /// Lends what is under a key to somebody who takes his time, the key being locked: a large collection itself, an empty
    /// one of its kind being left in its place, so that scans go on finding the key; of anything else a copy. `None` if
    /// absent or expired by group time.
    pub fn check_out_value(&mut self, db: Db, key: &[u8]) -> Option<Object> {
        let location = self.locate(key);
        let time = self.time;
        let seed = self.seed();
        self.databases[db.index()].update(location, key, |object| {
            if object.is_expired(time) {
                return None;
            }
            let Some(large) = object.take_large() else {
                return Some(object.copy_as(key, object.deadline(), object.version()));
            };
            object.set_large(large.emptied(seed));
            let lent = Object::large(key, large, object.deadline(), object.version());
            lent.set_access(object.access());
            Some(lent)
        })?
    }

    /// Takes back what [`Keyspace::check_out_value`] lent and was not changed.
    pub fn check_in_value(&mut self, db: Db, mut object: Object) {
        let large = object.take_large();
        let location = self.locate(object.key());
        let returned = self.databases[db.index()].update(location, object.key(), |held| {
            held.set_access(object.access());
            if let Some(large) = large {
                held.set_large(*large);
            }
        });
        returned.expect("the key is locked while its value is lent");
    }

    /// What is waiting to be dropped, to be dropped by another keyspace.
    pub fn take_lazyfree(&mut self) -> Lazyfree {
        std::mem::take(&mut self.lazyfree)
    }

    /// All of it, to be dropped by another keyspace.
    pub fn into_lazyfree(mut self) -> Lazyfree {
        self.flush(None);
        self.lazyfree
    }

    /// The string under a key that has no deadline; `None` if there is none, or a fragment of it alone.
    pub fn text(&self, db: Db, key: &[u8]) -> Option<Vec<u8>> {
        let object = self
            .object_at(db, key)
            .filter(|object| object.kind() == Kind::String && !object.is_coded())?;
        let mut digits = crate::value::Digits::default();
        Some(object.value().text(&mut digits).to_vec())
    }

    /// Bytes of the string under a key.
    pub fn text_len(&self, db: Db, key: &[u8]) -> usize {
        self.object_at(db, key).map_or(0, |object| match object.kind() {
            Kind::String => object.value().len(),
            _ => 0,
        })
    }

    /// The same, if it is shared: whoever changes it in place copies it first.
    pub fn shared_len(&self, db: Db, key: &[u8]) -> usize {
        let object = self.object_at(db, key);
        object.map_or(0, |object| object.kept_string().map_or(0, |kept| kept.len()))
    }

    /// Drops what another keyspace was to drop.
    pub fn adopt_lazyfree(&mut self, lazyfree: Lazyfree) {
        self.lazyfree.append(lazyfree);
    }

    /// Takes an object out, whatever its version: how a scratch keyspace gives up its result.
    pub fn take_object(&mut self, db: Db, key: &[u8]) -> Option<Object> {
        let location = self.locate(key);
        let object = self.databases[db.index()].remove(location, key, self.applied)?;
        (!object.is_expired(self.time)).then_some(object)
    }

    /// What is under a key, whether or not it has expired.
    pub(crate) fn peek_object(&self, db: Db, key: &[u8]) -> Option<ObjectRef<'_>> {
        self.database(db).find(self.locate(key), key)
    }

    /// Puts a copied object into a scratch keyspace, keeping its version.
    pub fn place_object(&mut self, db: Db, object: Object) {
        let location = self.locate(object.key());
        let database = &mut self.databases[db.index()];
        database.remove(location, object.key(), self.applied);
        database.insert(location, object);
    }

    /// Of a scratch, which is no group: what follows is judged by this time, whatever it was before.
    pub(crate) fn set_time(&mut self, time: UnixMillis) {
        self.time = time;
    }

    /// The time of the newest entry.
    pub fn time(&self) -> UnixMillis {
        self.time
    }

    /// The count of applied operations.
    pub fn applied(&self) -> Version {
        self.applied
    }

    /// Bytes of keys, values and tables.
    pub fn memory(&self) -> usize {
        self.databases.iter().map(Database::memory).sum()
    }

    /// Bytes of what may be an object soon: what has come of operations that are under way, what is prepared, and what waits.
    pub fn pending_bytes(&self) -> usize {
        let mut bytes = self.staging.bytes();
        self.transactions.each_pending(&mut |_, part| bytes += part.len());
        bytes
    }

    /// Keys of a database, and how many of them have a deadline. Expired keys count until they are deleted.
    pub fn counts(&self, db: Db) -> (usize, usize) {
        let database = self.database(db);
        (database.len(), database.with_deadline())
    }

    /// The mean deadline of the keys of a database that have one, if there are any.
    pub fn mean_deadline(&self, db: Db) -> Option<UnixMillis> {
        self.database(db).mean_deadline()
    }

    /// Says which invariant of a stream does not hold. Looks at everything in all streams: for tests.
    ///
    /// # Errors
    /// One does not.
    pub fn check_streams(&self) -> Result<(), String> {
        let mut found = Ok(());
        for database in &self.databases {
            database.for_each(|object| {
                if object.kind() == Kind::Stream && found.is_ok() {
                    found = crate::stream::stream_of(object).check();
                }
            });
        }
        found
    }

    /// The state hash: equal on replicas that applied the same entries. Walks everything.
    pub fn state_hash(&self) -> u64 {
        let mut digest = Digest::new();
        // That of a group that has hosted nothing by now is each replica's own.
        if self.has_common_seed() {
            digest.number(self.seed().0[0]).number(self.seed().0[1]);
        }
        let partitions = self.partitions();
        digest.number(partitions.cluster_count().get().into());
        digest
            .number(partitions.first().number().into())
            .number(partitions.len() as u64);
        digest.number(self.time.0 as u64).number(self.applied.0);
        digest.number(self.semantics.0.into());
        for limit in self.limits.numbers() {
            digest.number(limit.into());
        }
        self.sessions.hash(&mut digest);
        self.staging.hash(&mut digest);
        self.transactions.hash(&mut digest);
        self.requests.hash(&mut digest);
        let mut waiters = Vec::new();
        self.waiters.encode(&mut waiters);
        digest.bytes(&waiters);
        for database in &self.databases {
            database.hash(self.settling_rule(Db::default()), &mut digest);
        }
        self.hosting.hash(&mut digest);
        for (_, step) in self.transactions.steps() {
            let mut bytes = Vec::new();
            step.encode(&mut bytes);
            digest.bytes(&bytes);
        }
        self.hash_coding(&mut digest);
        digest.finish()
    }

    /// What the hash order follows from.
    pub fn seed(&self) -> HashSeed {
        self.placing.seed()
    }

    /// A range that has all partitions whose keys it holds, and those between them.
    pub fn partitions(&self) -> PartitionRange {
        self.placing.range()
    }

    /// Where `key` belongs.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> Location {
        self.placing.locate(key)
    }

    pub(crate) fn database(&self, db: Db) -> &Database {
        &self.databases[db.index()]
    }

    pub(crate) fn database_mut(&mut self, db: Db) -> &mut Database {
        &mut self.databases[db.index()]
    }
}

/// The typed command of any words at all: entries are checked before they are proposed, but `apply` does not
/// rely on it.
pub(crate) fn parse(args: Args<'_>) -> Result<Command<'_>, ReplyError> {
    let spec = command::resolve_in_group(args)?;
    command::parse(spec, args).unwrap_or_else(|| Err(ReplyError::unknown_command(args)))
}

fn exclusive(key: &[u8]) -> Locks {
    Locks::Keys(vec![(key.into(), Mode::Exclusive)])
}

/// Whether a command's reply follows from what is not state: access statistics, addresses, bytes of memory.
fn tells_of_replica(command: &Command<'_>) -> bool {
    match command {
        Command::Object { aspect, .. } => matches!(aspect, ObjectAspect::IdleTime | ObjectAspect::Frequency),
        Command::MemoryUsage { .. } | Command::DebugObject { .. } | Command::DebugCoding { .. } => true,
        _ => false,
    }
}

//! What a replica is asked, and what it answers.

use crate::batch::SentArgv;
use crate::operation::{Condition, Operation, Replies, Step, as_conditions, as_state};
use crate::state::LocalCounts;
use command::{CommandId, Spec};
use ids::{Db, GroupId, HashSeed, PartitionId, UnixMillis};
use keyspace::{
    ClientRequest, Effect, Event, KeptResult, KeyVersion, Lazyfree, Lock, Moved, Pairs, PartitionStep,
    Prepare, Returned, SeenObject, Work,
};
use resp::FrozenRope;
use std::time::Duration;
use txn::{Locks, Participants, TxnId, Vote, VoteRecord};

/// Where an answer goes: a reply slot in the pipeline of a connection of a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyTo {
    /// The worker that owns the connection.
    pub worker: u16,
    /// The connection, by its client id: never reused, so that an answer to a closed connection is dropped.
    pub connection: u64,
    /// The place among the connection's replies.
    pub sequence: u64,
}

impl ReplyTo {
    /// The connection and the place: what is one worker's is found by it.
    pub fn place(self) -> (u64, u64) {
        (self.connection, self.sequence)
    }
}

/// A key with its database.
pub type FullKey = (Db, Box<[u8]>);

/// A key with its index in a question, and its database.
pub type IndexedKey = (usize, Db, Box<[u8]>);

/// What can be asked of one group. (A single command that need not wait takes a shorter way:
/// [`crate::Replica::execute`].)
#[derive(Debug)]
pub enum Request {
    /// Carry out one command once its keys are free.
    Execute {
        /// Where the reply goes.
        reply_to: ReplyTo,
        /// The command.
        operation: Operation,
    },
    /// Carry out this group's part of a command that every group carries out for itself.
    Part {
        /// Which one.
        txn: TxnId,
        /// The command.
        operation: Operation,
    },
    /// Carry out several commands as one, if the conditions hold: `EXEC` within one group.
    Block {
        /// Where the replies go.
        reply_to: ReplyTo,
        /// What must hold.
        conditions: Vec<Condition>,
        /// The commands in order.
        operations: Vec<Operation>,
    },
    /// The same, of a request that its client has named: at most once, however often it comes. The first reply is a
    /// [`keyspace::RequestStanding`].
    Once {
        /// Where the replies go.
        reply_to: ReplyTo,
        /// What the client calls it.
        request: ClientRequest,
        /// The commands in order.
        operations: Vec<Operation>,
    },
    /// Install effects that a coordinator has computed, unless what it has seen has changed: by the rules of
    /// [`ids::SemanticsVersion::ONE_PHASE`].
    OnePhase {
        /// Where the answer goes.
        reply_to: ReplyTo,
        /// What the coordinator has seen and relies on.
        expects: Vec<Condition>,
        /// What changes, and what is told of it.
        effects: Vec<Effect>,
    },
    /// Carry out a command that may wait, and if there is nothing, answer when there is. A group that is alone on its node
    /// answers nil: who waits there is the gateway's.
    Wait {
        /// Where the reply goes.
        reply_to: ReplyTo,
        /// The command.
        operation: Operation,
    },
    /// The client of a [`Request::Wait`] does not wait any more: that is answered nil, unless it was served before.
    EndWait {
        /// Where the reply goes.
        reply_to: ReplyTo,
    },
    /// Answer with the versions of keys, once no transaction that may change them is under way: `WATCH`.
    Watch {
        /// Where the answer goes.
        reply_to: ReplyTo,
        /// Each with its index in the question.
        keys: Vec<IndexedKey>,
    },
    /// Lend the values of keys that an [`Assignment::CheckOut`] has locked: move them, do not copy them. They come back with
    /// [`Request::CheckIn`]. Only of a group that is alone on its node, which it stays meanwhile.
    CheckOut {
        /// The transaction.
        txn: TxnId,
        /// Whose values.
        keys: Vec<FullKey>,
    },
    /// Take back what was checked out, and whatever else a transaction made of this group's keys: it is committed.
    CheckIn {
        /// The transaction.
        txn: TxnId,
        /// What became of the keys.
        returned: Vec<Returned>,
        /// What is told to those who listen.
        events: Vec<Event>,
        /// Large values that the transaction deleted, to be dropped piece by piece.
        lazyfree: Lazyfree,
        /// Lookups that it made.
        counts: LocalCounts,
    },
    /// Vote on this part of a transaction.
    Prepare(Box<Part>),
    /// Lock keys and answer with their objects, without a vote.
    Lock(Box<Part>),
    /// The decision.
    Decide {
        /// The transaction.
        txn: TxnId,
        /// Whether it is committed.
        is_committed: bool,
        /// Whether a client waits for what the group answers to it.
        is_awaited: bool,
        /// Which worker wants to know that it is recorded.
        worker: u16,
        /// Whether all groups of the transaction are alone on their node: nobody will ask what has become of it, and the end is
        /// not kept.
        is_final: bool,
    },
    /// What has become of a transaction; it is refused if nothing has.
    QueryTxn {
        /// The transaction.
        txn: TxnId,
        /// All groups that take part.
        participants: Participants,
        /// Which worker wants to know.
        worker: u16,
    },
    /// An older transaction waits elsewhere for this one.
    Wound {
        /// The younger one.
        txn: TxnId,
    },
    /// Every participant has recorded the end of a transaction.
    Forget {
        /// Which one.
        txn: TxnId,
        /// All of its coordinator's sequences below are over.
        low: u64,
    },
    /// Answer commands that only read, if the conditions hold, and for how long it has been so.
    SnapshotRead {
        /// Which transaction.
        txn: TxnId,
        /// What must hold.
        conditions: Vec<Condition>,
        /// The commands in order.
        operations: Vec<Operation>,
        /// By what it reads.
        asker: SnapshotAsker,
    },
    /// Take a piece of a copy of a partition that is to come.
    Arrive {
        /// Who wants to know whether it was taken, and of which transaction it is.
        txn: TxnId,
        /// Which partition.
        partition: PartitionId,
        /// Which piece, from 1 on; 0 if there is to be no copy any more.
        number: u64,
        /// What the hash order of its keys follows from.
        seed: HashSeed,
        /// What it holds: records of a copy.
        records: Vec<u8>,
    },
    /// Answer with the objects of keys and their versions.
    OptimisticRead {
        /// Which transaction.
        txn: TxnId,
        /// Whose.
        keys: Vec<FullKey>,
        /// Whether it will be voted on that nothing of it has changed: the replica here may answer, which may be behind.
        may_be_old: bool,
        /// As for [`Request::SnapshotRead`].
        is_holder: bool,
    },
}

/// One group's part of a transaction.
#[derive(Debug)]
pub struct Part {
    /// The transaction.
    pub txn: TxnId,
    /// When its first attempt began.
    pub began: UnixMillis,
    /// All groups that take part.
    pub participants: Participants,
    /// What must hold, or the client is told that it did not.
    pub conditions: Vec<Condition>,
    /// What the coordinator has seen and relies on.
    pub expects: Vec<Condition>,
    /// What is to be done.
    pub assignment: Assignment,
    /// Whether a group that is alone is to refuse it as too large rather than walk over, or copy, very large values.
    pub is_bounded: bool,
}

impl Part {
    /// Whether the group may put it off until it has a log: it holds nothing there yet, and nothing of its client stands behind it
    /// there, as behind what values are lent to.
    pub(crate) fn can_be_put_off(&self) -> bool {
        match &self.assignment {
            Assignment::Install { after_lock, .. } | Assignment::InPlace { after_lock, .. } => !after_lock,
            Assignment::Evaluate { .. } | Assignment::Lock { .. } | Assignment::Move(_) => true,
            Assignment::CheckOut { .. } => false,
        }
    }

    /// About how many bytes it has, of what may be long.
    pub fn byte_len(&self) -> usize {
        let of_operation = |operation: &Operation| operation.args.as_args().byte_len();
        match &self.assignment {
            Assignment::Evaluate { operations, .. } => operations.iter().map(of_operation).sum(),
            Assignment::Install { effects, .. } => effects.iter().map(Effect::byte_len).sum(),
            Assignment::InPlace { .. }
            | Assignment::Lock { .. }
            | Assignment::CheckOut { .. }
            | Assignment::Move(_) => 0,
        }
    }

    /// As entries hold it; its effects are taken. What is to be checked out has its locks from whoever asks for it.
    pub(crate) fn as_state(&mut self) -> keyspace::EntryOperation<'_> {
        let work = match &mut self.assignment {
            Assignment::Evaluate {
                operations,
                is_strict,
            } => match &operations[..] {
                [operation] if operation.spec.id == CommandId::MSet && operation.parse().is_ok() => {
                    Work::Put {
                        db: operation.db,
                        pairs: Pairs::of(operation.args.as_args().from(1)),
                    }
                }
                operations => Work::Evaluate {
                    commands: operations.iter().map(Operation::as_state).collect(),
                    is_strict: *is_strict,
                },
            },
            Assignment::Install {
                effects,
                after_lock,
                result,
            } => Work::Install {
                effects: std::mem::take(effects),
                after_lock: *after_lock,
                result: result.take(),
            },
            Assignment::InPlace { steps, after_lock } => Work::InPlace {
                steps: steps.iter_mut().map(as_state).collect(),
                after_lock: *after_lock,
            },
            Assignment::Move(step) => Work::Move(step.clone()),
            Assignment::CheckOut { .. } => Work::Install {
                effects: Vec::new(),
                after_lock: false,
                result: None,
            },
            Assignment::Lock { keys, is_whole } => {
                let keys = keys.iter().map(|((db, key), alone)| (*db, &**key, *alone));
                return keyspace::EntryOperation::Lock(Box::new(Lock {
                    txn: self.txn,
                    began: self.began,
                    participants: self.participants.clone(),
                    is_whole: *is_whole,
                    keys: keys.collect(),
                }));
            }
        };
        keyspace::EntryOperation::Prepare(Box::new(Prepare {
            txn: self.txn,
            began: self.began,
            participants: self.participants.clone(),
            conditions: as_conditions(&self.conditions),
            expects: as_conditions(&self.expects),
            work,
        }))
    }
}

/// What a participant has to do.
#[derive(Debug)]
pub enum Assignment {
    /// Commands whose values stay in this group.
    Evaluate {
        /// In order.
        operations: Vec<Operation>,
        /// Whether an error that one of them answers is a refusal.
        is_strict: bool,
    },
    /// The coordinator has computed the effects.
    Install {
        /// What changes, and what is told of it.
        effects: Vec<Effect>,
        /// Whether [`Request::Lock`] has taken the locks.
        after_lock: bool,
        /// What is to be kept here of a request that its client has named.
        result: Option<KeptResult>,
    },
    /// Commands on the whole group, to be carried out when it is decided.
    InPlace {
        /// In order.
        steps: Vec<Step>,
        /// Whether [`Request::Lock`] has locked the group.
        after_lock: bool,
    },
    /// Of [`Request::Lock`]: the keys whose objects are wanted, and whether they may change.
    Lock {
        /// Each with its database.
        keys: Vec<(FullKey, bool)>,
        /// Whether all of the group is locked, alone.
        is_whole: bool,
    },
    /// A partition leaves, or enters. Only of a group with a log.
    Move(PartitionStep),
    /// Keys are locked, alone, to be checked out: [`Request::CheckOut`]. Only of a group that is alone on its node: any other refuses
    /// it as busy.
    CheckOut {
        /// What is locked.
        locks: Locks,
        /// Whether it keeps its place among commands that wait here, as it concerns this group alone.
        keeps_place: bool,
    },
}

/// Who asks by [`Request::SnapshotRead`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotAsker {
    /// A transaction that reads under its own locks: it is answered at once, or told that it has lost them. From
    /// [`ids::SemanticsVersion::HOLDER_READS`] on.
    Holder,
    /// The same, which goes through these groups step by step, all that they have: a `SCAN` of it begins at what a group has from there on.
    Walker(&'static [GroupId]),
    /// One without locks that reads keys.
    OfKeys,
    /// One without locks that reads the whole keyspace. As far as it knows, these groups host all of it, and it asks them: who has given
    /// something to another one says so.
    OfAll(&'static [GroupId]),
}

/// What a group answers to [`Request::SnapshotRead`].
#[derive(Debug)]
pub struct Seen {
    /// One for each command; `None` if a condition did not hold.
    pub replies: Option<Replies>,
    /// For how long at least nothing of it had changed.
    pub age: Duration,
}

/// What a command's way to its group's leader took.
#[derive(Debug)]
pub struct Journey {
    /// Which command.
    pub spec: &'static Spec,
    /// From the turn in which it came to the one in which it was answered.
    pub took: Duration,
    /// Its words, if it was slow, and no other command stands for it.
    pub argv: Option<Box<SentArgv>>,
}

/// What a replica answers.
#[derive(Debug)]
pub enum Output {
    /// To a command that went to its group's leader.
    Replied {
        /// Where the reply goes.
        reply_to: ReplyTo,
        /// Its bytes.
        reply: FrozenRope,
        /// What it took, if that is measured here.
        journey: Option<Journey>,
    },
    /// To [`Request::Execute`], [`Request::Block`], [`Request::Once`] and [`Request::OnePhase`], which has no replies; `None` if a
    /// condition did not hold.
    Answered {
        /// Where the replies go.
        reply_to: ReplyTo,
        /// One for each command.
        replies: Option<Replies>,
    },
    /// To [`Request::Wait`]: its client waits from now on. It is answered once more.
    Waits {
        /// Where the reply will go.
        reply_to: ReplyTo,
    },
    /// To [`Request::Block`]: the commands would hold the group's worker up, and were not carried out.
    TooLarge {
        /// Where the replies go.
        reply_to: ReplyTo,
    },
    /// To [`Request::Execute`], [`Request::Block`], [`Request::Once`] and [`Request::OnePhase`]: there is no answer, and this is why.
    Failed {
        /// Where the error goes.
        reply_to: ReplyTo,
        /// In the client's words.
        error: &'static str,
        /// What it took, if that is measured here.
        journey: Option<Journey>,
    },
    /// To [`Request::Execute`], [`Request::Wait`], [`Request::Watch`], [`Request::Block`], [`Request::Once`] and [`Request::OnePhase`]: keys
    /// belong to other groups, and nothing was done.
    Moved {
        /// Where the reply goes.
        reply_to: ReplyTo,
        /// Which group says so.
        from: GroupId,
        /// Where its keys are, as far as that group knows.
        elsewhere: Vec<Moved>,
        /// The command, if it was sent as one that whoever asked does not keep.
        command: Option<Box<Operation>>,
    },
    /// The same, to [`Request::Watch`]: other groups that were asked for the same command may answer or fail too.
    FailedWatch {
        /// Where the error goes, if it is the first one.
        reply_to: ReplyTo,
        /// In the client's words.
        error: &'static str,
    },
    /// The same, to one group's part of a command that every group carries out for itself.
    FailedPart {
        /// Which command.
        txn: TxnId,
        /// This group.
        group: GroupId,
        /// In the client's words.
        error: &'static str,
    },
    /// To [`Request::Watch`].
    Versions {
        /// Where the answer goes.
        reply_to: ReplyTo,
        /// By index in the question.
        versions: Vec<(usize, KeyVersion)>,
    },
    /// To [`Request::Lock`], when the locks are held, and to [`Request::CheckOut`].
    Locked {
        /// The transaction.
        txn: TxnId,
        /// This group.
        group: GroupId,
        /// Whether it says so in its log.
        is_logged: bool,
        /// The group's time.
        time: UnixMillis,
        /// One for each object that was wanted; `None` if absent.
        objects: Vec<Option<SeenObject>>,
    },
    /// To [`Request::Prepare`], and to [`Request::Lock`] if it is refused.
    Voted {
        /// The transaction.
        txn: TxnId,
        /// This group.
        group: GroupId,
        /// The vote.
        vote: Vote,
        /// Whether it is written in a log.
        is_logged: bool,
        /// The replies of [`Assignment::Evaluate`]; with [`txn::Refusal::Failed`] too, for the sake of the error among them.
        replies: Replies,
    },
    /// To [`Request::Part`].
    Resolved {
        /// The transaction.
        txn: TxnId,
        /// This group.
        group: GroupId,
        /// One for each command.
        replies: Replies,
    },
    /// To [`Request::SnapshotRead`].
    SnapshotRead {
        /// The transaction.
        txn: TxnId,
        /// This group.
        group: GroupId,
        /// What it is.
        seen: Seen,
    },
    /// To [`Request::OptimisticRead`].
    OptimisticRead {
        /// The transaction.
        txn: TxnId,
        /// This group.
        group: GroupId,
        /// One for each key: its object, if there is one, and its version.
        objects: Vec<(Option<SeenObject>, KeyVersion)>,
        /// For how long at least nothing of it had changed.
        age: Duration,
        /// The group's time, by which they are there.
        time: UnixMillis,
    },
    /// To [`Request::Arrive`].
    Arrived {
        /// The transaction.
        txn: TxnId,
        /// This group.
        group: GroupId,
        /// Whether it was taken. If not, the copy is to be begun again.
        is_taken: bool,
    },
    /// To [`Request::QueryTxn`].
    QueriedTxn {
        /// The transaction.
        txn: TxnId,
        /// This group.
        group: GroupId,
        /// What it has written down.
        vote_record: VoteRecord,
        /// Who wanted to know.
        worker: u16,
    },
    /// To [`Request::Decide`]: the end is recorded.
    Decided {
        /// The transaction.
        txn: TxnId,
        /// This group.
        group: GroupId,
        /// Of the commands that were carried out only now.
        replies: Replies,
        /// Who wanted to know.
        worker: u16,
    },
    /// The same, if it is not known whether the group was told.
    Undecided {
        /// The transaction.
        txn: TxnId,
        /// This group.
        group: GroupId,
        /// Who wanted to know.
        worker: u16,
    },
    /// An older request waits for this prepared transaction: tell its coordinator.
    Wound {
        /// The younger one.
        txn: TxnId,
    },
}

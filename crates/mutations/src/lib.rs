//! Deliberate mistakes.
//!
//! A suite that cannot fail proves nothing. Each variant of [`Mutation`] is one mistake that somebody could make, at the one
//! place in the product where it would be made: `if mutations::is(Mutation::ReusedReadId)`. A simulation plants one and must
//! notice. Without the feature `mutable`, which only simulations turn on, every question is the constant `false` and
//! nothing of this is in the binary.
//!
//! What can be done wrong with a disk, in the words of a design, and as what it is planted:
//!
//! | mistake | planted as |
//! | --- | --- |
//! | acknowledged before it is written | [`ToldBeforeWritten`](Mutation::ToldBeforeWritten), [`FullAcknowledged`](Mutation::FullAcknowledged), [`PartIsWhole`](Mutation::PartIsWhole) |
//! | acknowledged before it is synced | [`AnsweredBeforeSynced`](Mutation::AnsweredBeforeSynced), [`NameNotSynced`](Mutation::NameNotSynced), [`ReportNotSynced`](Mutation::ReportNotSynced) |
//! | a vote that is not synced | [`VoteNotKept`](Mutation::VoteNotKept); of the meta group [`MetaLogNotSynced`](Mutation::MetaLogNotSynced), [`MetaVoteNotWritten`](Mutation::MetaVoteNotWritten) |
//! | a sync that is tried again | [`SyncRetried`](Mutation::SyncRetried) |
//! | damage that is cut as a torn end | [`DamageIsEnd`](Mutation::DamageIsEnd), [`CutIsEnd`](Mutation::CutIsEnd) |
//! | a floor that is forgotten | [`FloorForgotten`](Mutation::FloorForgotten), [`FloorNotWritten`](Mutation::FloorNotWritten), [`FloorByPlace`](Mutation::FloorByPlace) |
//! | the boot of the kernel is not looked at | [`UncleanIgnored`](Mutation::UncleanIgnored), [`DoubtForgotten`](Mutation::DoubtForgotten) |
//! | `clean` stays | [`CleanLeft`](Mutation::CleanLeft) |
//! | an old copy is accepted | [`CopyAccepted`](Mutation::CopyAccepted); of what was handed over [`HandoverUsedTwice`](Mutation::HandoverUsedTwice) |
//! | a remnant is read | [`RemnantRead`](Mutation::RemnantRead) |
//! | what changes while it is copied is not copied again | [`EntryLostAtSnapshot`](Mutation::EntryLostAtSnapshot) |
//! | a segment goes that is needed | [`PinnedSegmentDropped`](Mutation::PinnedSegmentDropped); of a snapshot [`SnapshotGoneEarly`](Mutation::SnapshotGoneEarly) |
//! | a mark that holds no group | [`WholeNotLocked`](Mutation::WholeNotLocked) |

#[cfg(feature = "mutable")]
use std::cell::Cell;

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mutation {
    /// A replica that lost its memory votes as if it had not.
    AmnesiacVote,
    /// An entry counts as committed when fewer than a majority hold it.
    MinorityCommit,
    /// A leader goes on answering reads while it hands leadership over.
    LeaseKeptAcrossTransfer,
    /// A voter campaigns although it promised its leader not to.
    CampaignInsidePromise,
    /// A voter grants a vote although it promised its leader not to.
    VoteInsidePromise,
    /// A leader answers reads before it has applied an entry of its own term.
    ReadBeforeOwnEntry,
    /// Two confirmation rounds of reads carry one id.
    ReusedReadId,
    /// A batch that was sent twice is applied twice.
    ForwardAppliedTwice,
    /// The state that a learner is given lacks the last entry before a chunk was made.
    EntryLostAtSnapshot,
    /// A group serves a batch that was routed by an old map.
    StaleMapAccepted,
    /// Frames for an earlier incarnation reach the present one.
    IncarnationNotChecked,
    /// A replica whose state is still being read from disk takes part as one that has nothing.
    AbsentTakenForEmpty,
    /// A hand-over file that was used stays for the next start, and nobody asks whose memory it is.
    HandoverUsedTwice,
    /// A client is answered when its entry is proposed, not when it is committed.
    ReplyBeforeCommit,
    /// The consensus library's own batching is on, which acknowledges what was not received.
    LibraryBatching,
    /// The lease is counted from the acknowledgement's arrival, not from when the round was sent.
    LeaseFromArrival,
    /// The lease is not looked at again after a value was read.
    LeaseNotChecked,
    /// A read passes a key that a prepared transaction holds.
    LockIgnoredByRead,
    /// A command passes a key that a prepared transaction holds.
    LockIgnoredByCommand,
    /// A group does not know that a transaction is over, and answers as if it had never heard of it.
    MarkNotConsulted,
    /// A wound undoes a vote.
    PreparedRevoked,
    /// A transaction of a dead coordinator is prepared.
    FenceIgnored,
    /// The conditions of a transaction are not judged when it is prepared.
    ConditionsNotJudged,
    /// A transaction relies on what it has read, although it has changed.
    VersionsNotChecked,
    /// A transaction prepares although an older one has taken its locks away.
    TakenLockPrepares,
    /// A group answers that a transaction is refused, and does not remember it.
    RefusalNotRecorded,
    /// Locks are released at the vote.
    LocksReleasedEarly,
    /// A key with a deadline is locked together with others.
    MortalLockedShared,
    /// Values of several groups are taken for simultaneous whatever their age.
    AgeNotChecked,
    /// The age of a value is counted from before it was applied.
    AgeFromBefore,
    /// A coordinator commits when one vote is missing.
    CommitWithoutAll,
    /// Whoever recovers a transaction aborts it when a participant does not answer.
    AbortOnTimeout,
    /// Locks without a vote are taken for left behind after a second, though their coordinator can be reached.
    LockedIsQueried,
    /// A coordinator lets participants forget a transaction before all know its end.
    ForgottenEarly,
    /// Votes of an earlier attempt count for the present one.
    AttemptIgnored,
    /// The deadline of a transaction is counted from its last attempt.
    DeadlinePerAttempt,
    /// An operation that waited is sent again, and not asked for.
    LateAnswerTwice,
    /// The result of a request that its client has named is not kept.
    ResultNotKept,
    /// It is not written down when a key was removed: its absence seems as old as its creation.
    RemovalNotStamped,
    /// A transaction that writes to the whole keyspace locks nothing.
    WholeNotLocked,
    /// A leader says of a decision that it is recorded when it keeps it for its next entry.
    KeptIsRecorded,
    /// A read passes a key of which the leader keeps the decision.
    KeptIgnoredByRead,
    /// What was answered when a transaction was committed is not kept for its coordinator.
    HoldRepliesNotKept,
    /// A worker that leaves a decision to a last agent does not hold its own keys meanwhile.
    LastAgentNotHeld,
    /// A worker that decides as last agent does not look whether somebody holds its keys.
    LastAgentNotFree,
    /// While some groups have logs and others are alone, the latter tell only once that an older transaction waits there.
    AloneWoundsOnce,
    /// Applying an entry panics.
    ApplyPanics,
    /// A node takes its own wall clock for the time, however far it is from the others'.
    WallClockTrusted,
    /// A read is answered by who has no lease.
    LeaseIgnored,
    /// A read is told although an earlier one of its connection and slot is not.
    ReadToldEarly,
    /// A read does not wait for a write of its connection to the same slot.
    OwnWriteNotAwaited,
    /// A group is not told that a client does not wait any more.
    WaitNotEnded,
    /// A read that is behind something does not wait for what its leader found expired.
    OwnNotAwaited,
    /// A read is answered although a write that its gateway sent before it was lost.
    WriteBeforeNotMissed,
    /// What has come of an operation that goes in pieces is left out of a transfer of state.
    PiecesNotMoved,
    /// What is long in a state and goes ahead of it is taken for what went before and is not there any more.
    PartTakenForAnother,
    /// A member of the meta group goes on before what it wrote is synced.
    MetaLogNotSynced,
    /// A member of the meta group writes down its term, and not its vote.
    MetaVoteNotWritten,
    /// A relative deadline counts from the clock of whoever applies the command, not from the group's time.
    DeadlineByOwnClock,
    /// On a link messages overtake those that they must stay behind.
    OrderNotKept,
    /// A gateway takes a batch that overtook another one for a sign that the other was lost, and numbers both anew.
    RenumberedWithoutLoss,
    /// The second replica that a cluster has ever had tells another hash of its state than it has.
    ScrubLies,
    /// A replica that the map does not name any more forgets what it holds, although its group has just begun anew.
    MapForgets,
    /// A group begins anew although somebody has not said what he has.
    NotAllAsked,
    /// A replica that its group begins anew with does not wait until its promise to a leader of before has ended.
    RecoveredDoesNotWait,
    /// A read that finds a key to have expired by the leader's clock alone says so before an entry does.
    ExpiredByClockTold,
    /// What a group without a leader has applied as its configuration is not told to the meta group.
    UnreportedPassedOver,
    /// In `strict`, it is answered when it is written.
    AnsweredBeforeSynced,
    /// What was not synced when the machine went down counts as kept.
    UncleanIgnored,
    /// That is forgotten by the start after it, if the one that found it ended before it wrote anything.
    DoubtForgotten,
    /// Workers acknowledge in a weaker mode, and the mark of the run says the stronger one of before.
    WeakerNotMarked,
    /// The mark of the run says a stronger mode before workers acknowledge in it.
    StrongerMarkedFirst,
    /// A worker says that all it has acknowledged is kept as another mode demands, and has not looked.
    ReachedTooSoon,
    /// Term and vote of a replica of keys are not in its log.
    VoteNotKept,
    /// A sync that failed is asked for once more, and what it says then counts.
    SyncRetried,
    /// What waits for room in a log counts as written.
    FullAcknowledged,
    /// A command that nobody answered is said to be refused by a full disk, and not to be open.
    OpenIsRefused,
    /// What is written in parts is answered with the first of them.
    PartIsWhole,
    /// A log begins before a snapshot of the state behind which it begins is kept.
    BaseNotAwaited,
    /// The same of a state that a leader has sent.
    ReceivedNotAwaited,
    /// A log ends where its file does, however long that was once.
    CutIsEnd,
    /// A replica that begins with data under a new name is answered before that is synced.
    NameNotSynced,
    /// A snapshot is removed as soon as a later one is begun.
    SnapshotGoneEarly,
    /// That what was written last may be missing in a log is forgotten with the next start.
    TornForgotten,
    /// A snapshot whose state is still being read is removed when it counts no more.
    UnreadRemoved,
    /// That a change of the members is committed is told before it is kept.
    ChangeNotKept,
    /// What a leader alone has applied is told in the turn before the one in which it is written.
    ToldBeforeWritten,
    /// A leader alone applies commands ahead of the log while entries of it are on their way.
    OpenBehindFlights,
    /// What a script has done that turns out not to be one that can be carried out at once stays, and it begins anew.
    ScriptHalfTakenBack,
    /// A script that has come to name another key begins anew on what it has done already.
    ScriptBegunTwice,
    /// What a script was shown is not voted on.
    ShownNotExpected,
    /// What a transaction within one group has seen is not looked at when its effects are installed.
    OnePhaseNotJudged,
    /// What came of a script that has run ahead is sent before it is known what those before it name.
    AheadOfTurn,
    /// A script that wrote nothing is answered by what a replica had applied that may be behind.
    OldReadTold,
    /// A transaction that has lost its locks reads on as if it held them.
    LostLocksIgnored,
    /// A group that has voted for a partition to leave lets others change it until that is decided.
    LeavingNotLocked,
    /// What has changed in a partition since it was copied does not go with it.
    ChangesLeftBehind,
    /// A group that has given a partition to one that takes no part in what concerns all keys does not say so.
    GivenNotSaid,
    /// Commands of a transaction that are carried out when it is decided are not looked at for partitions that have gone.
    StepsNotPlaced,
    /// What was answered by the names of requests does not go with a partition.
    ResultsLeftBehind,
    /// Clients that wait for keys of a partition go on waiting where it was.
    WaitersLeftBehind,
    /// A client whose element is to go to another key goes on waiting where that key is not any more.
    DestinationLeftBehind,
    /// An absent key that is watched counts as unchanged where its partition has come from elsewhere.
    WatchLostAtMove,
    /// A group whose majority lost its power begins anew before its generation is over.
    NotEndedFirst,
    /// What a replica said of its log before its generation was over counts.
    ReportBindsNobody,
    /// A log that came back is begun with while those who are left of its group may still come to lead.
    AskedForGood,
    /// A member of a report that a meta group does not know is taken for lost, though that group began anew from a log that lagged.
    UnknownCalledLost,
    /// A group has its replicas changed before its leader was heard by a meta group that has begun anew.
    PlacedWhileLearning,
    /// A change of members is taken for done before it is known to be committed.
    ChangeReportedEarly,
    /// What was held of a group before it began anew is let go of as soon as anybody leads it, though nobody else has it yet.
    FormerLetGoEarly,
    /// A learner of the meta group that its map knows no more stays a member.
    UnknownLearnerKept,
    /// What an earlier start of its node said of it counts.
    FormerReportCounts,
    /// Groups are not told who has died since their leader came to lead.
    LaterDeathNotTold,
    /// What has changed in a map is applied to whatever map there is.
    DifferenceOnAnyBase,
    /// What a replica says of its log is said before that is synced.
    ReportNotSynced,
    /// Who has nothing counts as asked.
    EmptyCounts,
    /// The members that were reported last are taken for those in force, whatever stands in logs.
    LaterMembersPassedOver,
    /// A replica whose log is damaged goes on with what is left as if it had never had more.
    FloorForgotten,
    /// A floor counts as reached at its place, whatever the term there.
    FloorByPlace,
    /// The floor is not in the log of the next start.
    FloorNotWritten,
    /// A leader goes on with what a former start of a follower's node has acknowledged.
    ProgressKept,
    /// Answers of a former start of a follower's node count.
    FormerAnswersCount,
    /// Placement knows nothing of zones.
    ZoneIgnored,
    /// What an operator has put in the place of a node is not placed again.
    PutIsPlaced,
    /// A node that comes back with another number of workers is taken to have as many as before.
    FormerWorkersKept,
    /// A voter of a node that is to have nothing goes before another one votes in its place.
    LastVoterDrained,
    /// While all is paused, groups that have lost replicas are not repaired either.
    PauseStopsRepair,
    /// Permission to stop is lent to nodes that share a group at a time.
    TwoPermits,
    /// A replica that is sent a stream takes its groups to have read nothing.
    GroupStartsAnew,
    /// What is pending in a group of a stream, and does not go in one chunk with the group, is left out of a transfer of state.
    PendingLeftOut,
    /// An acknowledgement is not taken for a change of its stream: who tries it out on a copy has nothing to install.
    AcknowledgedUnmarked,
    /// What is given to who may wait for it, of a group of a stream, does not become pending.
    WaitedIsAcknowledged,
    /// Who reads with a group locks its stream as one who changes nothing.
    GroupReadShared,
    /// An entry of a stream gets its id from the clock of whoever applies the command, not from the group's time.
    IdByOwnClock,
    /// What fragments decode to is the value, whatever its checksum.
    FragmentChecksumIgnored,
    /// Fragments of different values of a key are decoded together.
    FragmentsMixed,
    /// A row that two peers send counts as two.
    RowCountedTwice,
    /// What the former holder of a row has acknowledged counts for the present one.
    FormerHolderCounts,
    /// Values may be demoted to fragments as soon as a majority has them.
    DemotedAtMajority,
    /// Damage of a log is taken for its end, whatever stands behind it.
    DamageIsEnd,
    /// A snapshot of a later format is read as one of the present.
    LaterFormatRead,
    /// A directory that is a copy counts as the one that was copied.
    CopyAccepted,
    /// That a run has ended well stays in the directory, and counts for later ones.
    CleanLeft,
    /// What an earlier use of a file has left in it, and what slipped there from another place, is read as if it stood where it belongs.
    RemnantRead,
    /// A segment of a log goes although groups need what stands in it.
    PinnedSegmentDropped,
    /// A node makes a cluster as soon as it counts as many nodes as are expected, without their promises.
    TwoCreators,
    /// The hash of a state depends on whether a replica has a value whole.
    FormIsHashed,
    /// Values are demoted that no entry has settled.
    SettledAboveWatermark,
    /// A value that comes back is not compared with the checksum of the fragment.
    RefillNotChecked,
    /// An earlier value of a key comes back.
    OldRefillTaken,
    /// A settled value is taken for a new one when its key gets another deadline.
    SettledForgotten,
    /// A value is settled although a transaction holds its key.
    LockedIsSettled,
    /// What a member has said of its rows of an earlier code counts for the present one.
    EarlierRowsCount,
    /// What a member has said long ago counts as if it were still there.
    SilentHolderCounts,
    /// Who is asked for a value that has been overwritten gives what it has instead.
    NewerIgnored,
    /// A member says that it has all of its rows as soon as it has gone through its keys.
    RowInEarly,
    /// What an operation needs is gathered where the group is led, and not in its entry.
    RefillLeftOut,
    /// What a long operation needs is looked for though its pieces are on their way.
    PiecesNotAwaited,
    /// A value that may go goes although a read that waits for another one needs it.
    NeededGoes,
    /// A value that may go goes although a batch relies on it.
    CondemnedGoes,
    /// A group cuts its values in another way while there are fragments of the one before.
    CodeChangedEarly,
    /// A replica that is sent another one's state has that one's rows, and its own no more.
    OwnRowsLost,
    /// A holder of a row leaves before somebody else has it.
    HolderLeavesEarly,
    /// A holder that counts as lost leaves while there are not enough others to make up what it had.
    LostHolderLeaves,
    /// What arrives with a partition is settled by the versions of the group that it came from.
    ArrivalsNotHeld,
}

impl Mutation {
    /// All of them.
    pub const ALL: &[Mutation] = &[
        Mutation::AmnesiacVote,
        Mutation::MinorityCommit,
        Mutation::LeaseKeptAcrossTransfer,
        Mutation::CampaignInsidePromise,
        Mutation::VoteInsidePromise,
        Mutation::ReadBeforeOwnEntry,
        Mutation::ReusedReadId,
        Mutation::ForwardAppliedTwice,
        Mutation::EntryLostAtSnapshot,
        Mutation::StaleMapAccepted,
        Mutation::IncarnationNotChecked,
        Mutation::AbsentTakenForEmpty,
        Mutation::HandoverUsedTwice,
        Mutation::ReplyBeforeCommit,
        Mutation::LibraryBatching,
        Mutation::LeaseFromArrival,
        Mutation::LeaseNotChecked,
        Mutation::LockIgnoredByRead,
        Mutation::LockIgnoredByCommand,
        Mutation::MarkNotConsulted,
        Mutation::PreparedRevoked,
        Mutation::FenceIgnored,
        Mutation::ConditionsNotJudged,
        Mutation::VersionsNotChecked,
        Mutation::TakenLockPrepares,
        Mutation::RefusalNotRecorded,
        Mutation::LocksReleasedEarly,
        Mutation::MortalLockedShared,
        Mutation::AgeNotChecked,
        Mutation::AgeFromBefore,
        Mutation::CommitWithoutAll,
        Mutation::AbortOnTimeout,
        Mutation::LockedIsQueried,
        Mutation::ForgottenEarly,
        Mutation::AttemptIgnored,
        Mutation::DeadlinePerAttempt,
        Mutation::LateAnswerTwice,
        Mutation::ResultNotKept,
        Mutation::RemovalNotStamped,
        Mutation::WholeNotLocked,
        Mutation::KeptIsRecorded,
        Mutation::KeptIgnoredByRead,
        Mutation::HoldRepliesNotKept,
        Mutation::LastAgentNotHeld,
        Mutation::LastAgentNotFree,
        Mutation::AloneWoundsOnce,
        Mutation::ApplyPanics,
        Mutation::WallClockTrusted,
        Mutation::LeaseIgnored,
        Mutation::ReadToldEarly,
        Mutation::OwnWriteNotAwaited,
        Mutation::WaitNotEnded,
        Mutation::OwnNotAwaited,
        Mutation::WriteBeforeNotMissed,
        Mutation::PiecesNotMoved,
        Mutation::PartTakenForAnother,
        Mutation::MetaLogNotSynced,
        Mutation::MetaVoteNotWritten,
        Mutation::DeadlineByOwnClock,
        Mutation::OrderNotKept,
        Mutation::RenumberedWithoutLoss,
        Mutation::ScrubLies,
        Mutation::MapForgets,
        Mutation::NotAllAsked,
        Mutation::RecoveredDoesNotWait,
        Mutation::ExpiredByClockTold,
        Mutation::UnreportedPassedOver,
        Mutation::AnsweredBeforeSynced,
        Mutation::UncleanIgnored,
        Mutation::DoubtForgotten,
        Mutation::WeakerNotMarked,
        Mutation::StrongerMarkedFirst,
        Mutation::ReachedTooSoon,
        Mutation::VoteNotKept,
        Mutation::SyncRetried,
        Mutation::FullAcknowledged,
        Mutation::OpenIsRefused,
        Mutation::PartIsWhole,
        Mutation::BaseNotAwaited,
        Mutation::ReceivedNotAwaited,
        Mutation::CutIsEnd,
        Mutation::NameNotSynced,
        Mutation::SnapshotGoneEarly,
        Mutation::TornForgotten,
        Mutation::UnreadRemoved,
        Mutation::ChangeNotKept,
        Mutation::ToldBeforeWritten,
        Mutation::OpenBehindFlights,
        Mutation::ScriptHalfTakenBack,
        Mutation::ScriptBegunTwice,
        Mutation::ShownNotExpected,
        Mutation::OnePhaseNotJudged,
        Mutation::AheadOfTurn,
        Mutation::LeavingNotLocked,
        Mutation::ChangesLeftBehind,
        Mutation::GivenNotSaid,
        Mutation::StepsNotPlaced,
        Mutation::ResultsLeftBehind,
        Mutation::WaitersLeftBehind,
        Mutation::DestinationLeftBehind,
        Mutation::WatchLostAtMove,
        Mutation::OldReadTold,
        Mutation::LostLocksIgnored,
        Mutation::NotEndedFirst,
        Mutation::ReportBindsNobody,
        Mutation::AskedForGood,
        Mutation::UnknownCalledLost,
        Mutation::PlacedWhileLearning,
        Mutation::ChangeReportedEarly,
        Mutation::FormerLetGoEarly,
        Mutation::UnknownLearnerKept,
        Mutation::FormerReportCounts,
        Mutation::DifferenceOnAnyBase,
        Mutation::LaterDeathNotTold,
        Mutation::ReportNotSynced,
        Mutation::EmptyCounts,
        Mutation::LaterMembersPassedOver,
        Mutation::FloorForgotten,
        Mutation::FloorByPlace,
        Mutation::FloorNotWritten,
        Mutation::ProgressKept,
        Mutation::FormerAnswersCount,
        Mutation::ZoneIgnored,
        Mutation::PutIsPlaced,
        Mutation::FormerWorkersKept,
        Mutation::LastVoterDrained,
        Mutation::PauseStopsRepair,
        Mutation::TwoPermits,
        Mutation::GroupStartsAnew,
        Mutation::PendingLeftOut,
        Mutation::AcknowledgedUnmarked,
        Mutation::WaitedIsAcknowledged,
        Mutation::GroupReadShared,
        Mutation::IdByOwnClock,
        Mutation::FragmentChecksumIgnored,
        Mutation::FragmentsMixed,
        Mutation::RowCountedTwice,
        Mutation::FormerHolderCounts,
        Mutation::DemotedAtMajority,
        Mutation::DamageIsEnd,
        Mutation::LaterFormatRead,
        Mutation::CopyAccepted,
        Mutation::CleanLeft,
        Mutation::RemnantRead,
        Mutation::PinnedSegmentDropped,
        Mutation::TwoCreators,
        Mutation::FormIsHashed,
        Mutation::SettledAboveWatermark,
        Mutation::RefillNotChecked,
        Mutation::OldRefillTaken,
        Mutation::SettledForgotten,
        Mutation::LockedIsSettled,
        Mutation::EarlierRowsCount,
        Mutation::SilentHolderCounts,
        Mutation::NewerIgnored,
        Mutation::RowInEarly,
        Mutation::RefillLeftOut,
        Mutation::PiecesNotAwaited,
        Mutation::NeededGoes,
        Mutation::CondemnedGoes,
        Mutation::CodeChangedEarly,
        Mutation::OwnRowsLost,
        Mutation::HolderLeavesEarly,
        Mutation::LostHolderLeaves,
        Mutation::ArrivalsNotHeld,
    ];
}

#[cfg(feature = "mutable")]
thread_local! {
    static PLANTED: Cell<Option<Mutation>> = const { Cell::new(None) };
}

/// Whether this mistake is to be made, on this thread.
#[cfg(feature = "mutable")]
#[inline]
pub fn is(mutation: Mutation) -> bool {
    PLANTED.get() == Some(mutation)
}

/// Whether this mistake is to be made: never.
#[cfg(not(feature = "mutable"))]
#[inline(always)]
pub const fn is(_: Mutation) -> bool {
    false
}

/// Plants a mistake on this thread, or with `None` takes it out.
#[cfg(feature = "mutable")]
pub fn plant(mutation: Option<Mutation>) {
    PLANTED.set(mutation);
}

//! A suite that cannot fail proves nothing: each mistake that a node contains is caught.

use ids::DurabilityMode;
use mutations::Mutation;
use sim::Options;

/// Seeds that a mistake may survive. Most are caught by one of the first ten.
const SEEDS_MAX: u64 = 150;

fn is_caught(mutation: Mutation) {
    let options = Options {
        workers: 2..=2,
        ..Options::default()
    };
    is_caught_with(mutation, options);
}

/// In a node that is alone, whose workers decide for each other.
fn is_caught_between_workers(mutation: Mutation) {
    let options = Options {
        nodes: 1..=1,
        workers: 2..=2,
        ..Options::default()
    };
    is_caught_with(mutation, options);
}

fn is_caught_with(mutation: Mutation, options: Options) {
    let options = Options {
        mutation: Some(mutation),
        ..options
    };
    let caught = (1..=SEEDS_MAX).find_map(|seed| sim::run(seed, &options).err());
    let failure = caught.unwrap_or_else(|| panic!("nobody noticed {mutation:?} in {SEEDS_MAX} seeds"));
    println!("{mutation:?}: seed {}: {}", failure.seed, failure.what);
    assert!(
        failure
            .command()
            .ends_with(&format!("--seed {} --mutation {mutation:?}", failure.seed))
    );
    assert!(
        !failure.trace.is_empty() && !failure.history.is_empty(),
        "it is explained"
    );
}

macro_rules! caught {
    ($($name:ident: $mutation:ident;)*) => {
        $(
            #[test]
            fn $name() {
                is_caught(Mutation::$mutation);
            }
        )*

        const IN_CLUSTERS: &[Mutation] = &[$(Mutation::$mutation),*];
    };
}

caught! {
    a_vote_without_memory_is_noticed: AmnesiacVote;
    a_configuration_that_nobody_reports_is_noticed: UnreportedPassedOver;
    a_commit_by_a_minority_is_noticed: MinorityCommit;
    a_lease_kept_across_a_transfer_is_noticed: LeaseKeptAcrossTransfer;
    a_campaign_inside_a_promise_is_noticed: CampaignInsidePromise;
    a_vote_inside_a_promise_is_noticed: VoteInsidePromise;
    a_read_before_the_own_entry_is_noticed: ReadBeforeOwnEntry;
    a_batch_applied_twice_is_noticed: ForwardAppliedTwice;
    an_entry_lost_in_a_transfer_is_noticed: EntryLostAtSnapshot;
    an_old_map_that_is_taken_for_news_is_noticed: StaleMapAccepted;
    a_hand_over_that_is_used_twice_is_noticed: HandoverUsedTwice;
    a_reply_before_the_commit_is_noticed: ReplyBeforeCommit;
    the_batching_of_the_library_is_noticed: LibraryBatching;
    a_lease_counted_from_the_arrival_is_noticed: LeaseFromArrival;
    a_read_that_passes_a_lock_is_noticed: LockIgnoredByRead;
    a_command_that_passes_a_lock_is_noticed: LockIgnoredByCommand;
    a_group_that_does_not_know_what_is_over_is_noticed: MarkNotConsulted;
    a_wound_that_undoes_a_vote_is_noticed: PreparedRevoked;
    conditions_that_nobody_judges_are_noticed: ConditionsNotJudged;
    versions_that_nobody_compares_are_noticed: VersionsNotChecked;
    a_vote_without_the_locks_is_noticed: TakenLockPrepares;
    a_refusal_that_is_not_remembered_is_noticed: RefusalNotRecorded;
    locks_that_end_with_the_vote_are_noticed: LocksReleasedEarly;
    values_of_different_times_are_noticed: AgeNotChecked;
    an_age_from_before_the_change_is_noticed: AgeFromBefore;
    a_commit_without_a_vote_is_noticed: CommitWithoutAll;
    an_abort_for_want_of_an_answer_is_noticed: AbortOnTimeout;
    a_transaction_forgotten_too_early_is_noticed: ForgottenEarly;
    a_decision_that_is_kept_and_not_recorded_is_noticed: KeptIsRecorded;
    a_read_past_a_decision_that_is_kept_is_noticed: KeptIgnoredByRead;
    votes_of_another_attempt_are_noticed: AttemptIgnored;
    a_deadline_that_each_attempt_sets_anew_is_noticed: DeadlinePerAttempt;
    an_operation_that_is_sent_instead_of_asked_for_is_noticed: LateAnswerTwice;
    a_keyspace_that_is_not_locked_as_a_whole_is_noticed: WholeNotLocked;
    a_result_that_is_not_kept_is_noticed: ResultNotKept;
    a_replica_that_ends_because_a_step_of_it_panicked_is_noticed: ApplyPanics;
    a_read_without_a_lease_is_noticed: LeaseIgnored;
    a_read_that_does_not_see_what_its_connection_wrote_is_noticed: OwnWriteNotAwaited;
    a_client_that_waits_when_it_is_gone_is_noticed: WaitNotEnded;
    pieces_that_a_transfer_leaves_out_are_noticed: PiecesNotMoved;
    a_log_of_the_meta_group_that_is_not_synced_is_noticed: MetaLogNotSynced;
    a_vote_in_the_meta_group_that_is_not_written_is_noticed: MetaVoteNotWritten;
    a_deadline_by_the_clock_of_a_replica_is_noticed: DeadlineByOwnClock;
    a_placement_that_knows_nothing_of_zones_is_noticed: ZoneIgnored;
    a_group_of_a_stream_that_a_replica_takes_for_new_is_noticed: GroupStartsAnew;
    pending_entries_that_a_transfer_leaves_out_are_noticed: PendingLeftOut;
    an_acknowledgement_that_a_transaction_forgets_is_noticed: AcknowledgedUnmarked;
    an_entry_that_was_waited_for_and_is_not_pending_is_noticed: WaitedIsAcknowledged;
    a_read_with_a_group_that_locks_like_a_read_is_noticed: GroupReadShared;
    an_id_by_the_clock_of_a_replica_is_noticed: IdByOwnClock;
    a_script_that_begins_anew_on_what_it_has_done_is_noticed: ScriptBegunTwice;
    what_a_script_was_shown_and_is_not_voted_on_is_noticed: ShownNotExpected;
    effects_that_are_installed_whatever_has_changed_are_noticed: OnePhaseNotJudged;
    a_script_that_wrote_nothing_and_tells_what_is_old_is_noticed: OldReadTold;
    a_script_that_reads_on_without_its_locks_is_noticed: LostLocksIgnored;
    a_partition_that_changes_while_it_leaves_is_noticed: LeavingNotLocked;
    changes_that_do_not_go_with_a_partition_are_noticed: ChangesLeftBehind;
    a_group_that_does_not_say_what_it_has_given_away_is_noticed: GivenNotSaid;
    commands_on_keys_that_have_gone_are_noticed: StepsNotPlaced;
    results_that_do_not_go_with_a_partition_are_noticed: ResultsLeftBehind;
}

const IN_DRAINS: &[Mutation] = &[
    Mutation::LastVoterDrained,
    Mutation::PauseStopsRepair,
    Mutation::TwoPermits,
];

/// In clusters of so many nodes that some can be emptied.
fn is_caught_in_drains(mutation: Mutation) {
    let options = Options {
        nodes: 4..=6,
        workers: 1..=2,
        unlike: false,
        ..Options::default()
    };
    is_caught_with(mutation, options);
}

const UNLIKE: &[Mutation] = &[Mutation::FormerWorkersKept];

#[test]
fn a_node_that_is_taken_to_have_as_many_workers_as_before_is_noticed() {
    let options = Options {
        workers: 1..=4,
        ..Options::default()
    };
    is_caught_with(Mutation::FormerWorkersKept, options);
}

#[test]
fn a_voter_that_goes_before_another_one_votes_is_noticed() {
    is_caught_in_drains(Mutation::LastVoterDrained);
}

#[test]
fn a_pause_that_stops_repairs_is_noticed() {
    is_caught_in_drains(Mutation::PauseStopsRepair);
}

#[test]
fn permission_to_stop_for_two_nodes_that_share_a_group_is_noticed() {
    is_caught_in_drains(Mutation::TwoPermits);
}

#[test]
fn keys_that_are_not_held_while_another_worker_decides_are_noticed() {
    is_caught_between_workers(Mutation::LastAgentNotHeld);
}

#[test]
fn a_worker_that_decides_over_keys_that_are_held_is_noticed() {
    is_caught_between_workers(Mutation::LastAgentNotFree);
}

/// Mistakes between workers of one node, which a cluster covers with its log.
/// In groups that outlive the processes.
fn is_caught_durably(mutation: Mutation) {
    let options = Options {
        workers: 1..=2,
        unlike: false,
        durability: vec![DurabilityMode::Relaxed, DurabilityMode::Strict],
        ..Options::default()
    };
    is_caught_with(mutation, options);
}

macro_rules! caught_durably {
    ($($name:ident: $mutation:ident;)*) => {
        $(
            #[test]
            fn $name() {
                is_caught_durably(Mutation::$mutation);
            }
        )*

        const DURABLY: &[Mutation] = &[$(Mutation::$mutation),*];
    };
}

caught_durably! {
    an_answer_before_the_sync_is_noticed: AnsweredBeforeSynced;
    what_was_not_synced_and_counts_is_noticed: UncleanIgnored;
    a_doubt_that_the_next_start_has_forgotten_is_noticed: DoubtForgotten;
    a_state_that_is_not_read_yet_and_taken_for_empty_is_noticed: AbsentTakenForEmpty;
    damage_that_is_cut_as_a_torn_end_is_noticed: DamageIsEnd;
    a_log_that_was_cut_and_seems_whole_is_noticed: CutIsEnd;
    a_floor_that_is_forgotten_is_noticed: FloorForgotten;
    a_floor_that_is_not_written_is_noticed: FloorNotWritten;
    a_copy_of_a_directory_that_is_accepted_is_noticed: CopyAccepted;
    an_end_in_order_that_counts_for_later_runs_is_noticed: CleanLeft;
    a_remnant_that_is_read_is_noticed: RemnantRead;
    a_segment_that_goes_although_it_is_needed_is_noticed: PinnedSegmentDropped;
}

/// In a node that is alone, whose groups outlive its processes.
fn is_caught_alone(mutation: Mutation, mode: DurabilityMode) {
    let options = Options {
        nodes: 1..=1,
        workers: 1..=2,
        unlike: false,
        durability: vec![mode],
        ..Options::default()
    };
    is_caught_with(mutation, options);
}

#[test]
fn what_is_told_before_it_is_written_is_noticed() {
    is_caught_alone(Mutation::ToldBeforeWritten, DurabilityMode::Relaxed);
}

/// In clusters of two nodes, of which no node leaves and no number of replicas changes.
const IN_PAIRS: &[Mutation] = &[Mutation::RemovalNotStamped];

#[test]
fn an_absence_that_seems_older_than_it_is_is_noticed() {
    let options = Options {
        nodes: 2..=2,
        workers: 1..=3,
        ..Options::default()
    };
    is_caught_with(Mutation::RemovalNotStamped, options);
}

/// Of several nodes one of which has lost its snapshot, others have what it had: that takes some two hundred clusters.
#[test]
fn a_snapshot_that_goes_before_the_next_one_is_there_is_noticed() {
    is_caught_alone(Mutation::SnapshotGoneEarly, DurabilityMode::Relaxed);
}

#[test]
fn what_is_applied_ahead_of_entries_on_their_way_is_noticed() {
    is_caught_alone(Mutation::OpenBehindFlights, DurabilityMode::Relaxed);
}

#[test]
fn a_script_that_is_taken_back_in_part_is_noticed() {
    is_caught_alone(Mutation::ScriptHalfTakenBack, DurabilityMode::Relaxed);
}

/// Others know what one node of several has lost.
#[test]
fn a_weaker_mode_that_the_mark_does_not_say_is_noticed() {
    is_caught_alone(Mutation::WeakerNotMarked, DurabilityMode::Strict);
}

const ALONE: &[Mutation] = &[
    Mutation::ToldBeforeWritten,
    Mutation::SnapshotGoneEarly,
    Mutation::OpenBehindFlights,
    Mutation::ScriptHalfTakenBack,
    Mutation::WeakerNotMarked,
];

const BETWEEN_WORKERS: &[Mutation] = &[Mutation::LastAgentNotHeld, Mutation::LastAgentNotFree];

/// Mistakes that need what clients here do not do, or a coincidence that is rare. Scenes show them, each a test of its own.
const BY_SCENES: &[Mutation] = &[
    // A process that is stopped between two readings of its clock in one turn, for longer than a lease, while a client is
    // patient enough to hear of it: `crates/gateway/tests/it/cluster.rs`, and seeds of `crates/consensus/tests/it/mutations.rs`.
    Mutation::LeaseNotChecked,
    // An answer to one round that arrives in the next, of a leader that has no lease in either and was replaced between them:
    // `crates/consensus/tests/it/scenario.rs`.
    Mutation::ReusedReadId,
    // What a replica says bears its own name, and whoever asked the earlier one turns it away: it is a second lock on one door.
    // `crates/gateway/tests/it/cluster.rs`.
    Mutation::IncarnationNotChecked,
    // A decision that arrives after its coordinator's boot was called dead by the same entry:
    // `crates/keyspace/tests/it/transactions.rs`.
    Mutation::FenceIgnored,
    // A part as long as one that went, of a replica that leads afterwards, about one seed in a hundred: the same file.
    Mutation::PartTakenForAnother,
    // Commands with deadlines of their own beside others on one key: the same file.
    Mutation::MortalLockedShared,
    // A commit whose first answer is lost, and whose client still listens: `crates/gateway/tests/it/whole.rs`.
    Mutation::HoldRepliesNotKept,
    // Scripts that are run before those before them, which takes a group that has no log yet: `crates/gateway/tests/it/workers.rs`.
    Mutation::AheadOfTurn,
    // A script that reads for longer than a second under its locks, and networks that slow are rare: `crates/gateway/tests/it/scripts.rs`.
    Mutation::LockedIsQueried,
    // A client that waits for a key of a partition that moves, and for no other: `crates/keyspace/tests/it/moves.rs`.
    Mutation::WaitersLeftBehind,
    Mutation::DestinationLeftBehind,
    // An absent key that comes and goes between `WATCH` and a move: the same file.
    Mutation::WatchLostAtMove,
    // Clocks that are set by more than clocks are set here: `crates/gateway/tests/it/clocks.rs`.
    Mutation::WallClockTrusted,
    // A leader that dies between an answer and the next entry, and is ahead of the others: the same file.
    Mutation::ExpiredByClockTold,
    // A process that ends before all logs of the start before are needed no more, after the power has gone in `strict`: about one seed in
    // two hundred. `crates/storage/tests/it/run_mark.rs`.
    Mutation::TornForgotten,
    // A replica that is filled by others before the state of its forerunner was read, which is rare:
    // `crates/storage/src/snapshot_files.rs`.
    Mutation::UnreadRemoved,
    // Groups of one node that get their logs each at a moment of its own: `crates/gateway/tests/it/workers.rs`.
    Mutation::AloneWoundsOnce,
    // `DBSIZE` right behind the read that found a key expired: `crates/gateway/tests/it/cluster.rs`.
    Mutation::OwnNotAwaited,
    // A link that is lost between two batches of one pipeline: `crates/gateway/tests/it/cluster.rs`, and `seeds.rs`.
    Mutation::WriteBeforeNotMissed,
    // A lost answer beside one that came, to two reads that were sent together: `crates/replica/src/group_client.rs`.
    Mutation::ReadToldEarly,
    // A group turns away what overtook, and its gateway sends it again: `crates/transport/src/outgoing.rs`.
    Mutation::OrderNotKept,
    // A leader's word that comes when a later one has answered already: `crates/replica/src/group_client.rs`.
    Mutation::RenumberedWithoutLoss,
    // It does no harm, and that is what is looked at: `seeds.rs`.
    Mutation::ScrubLies,
    // A second loss, before anybody else has what a group has begun anew with: `crates/gateway/tests/it/begun_anew.rs`. Here such a
    // loss is allowed to lose what was acknowledged.
    Mutation::MapForgets,
    // A leader of before that lives and is not heard when its group begins anew: the same file.
    Mutation::RecoveredDoesNotWait,
    // A transaction whose coordinator is dead, of a leader that led before: `crates/gateway/tests/it/cluster.rs`.
    Mutation::LaterDeathNotTold,
    // A node that is replaced, and back before anything is placed without it: one seed in thousands. `crates/control/tests/state.rs`.
    Mutation::PutIsPlaced,
    // A map that another one leads on from and that was lost, or is another one: `crates/control/src/map_difference.rs`, and whole
    // clusters in `crates/control/tests/meta.rs`.
    Mutation::DifferenceOnAnyBase,
    // A learner that votes and does not know it, and a leader that dies just then: `crates/control/tests/state.rs`.
    Mutation::NotAllAsked,
    // What a later log says of the members is looked at as well, since groups begin anew by themselves (decision 0045): 1 seed in
    // hundreds. `crates/consensus/tests/it/mutations.rs`.
    Mutation::ChangeNotKept,
    // What is kept, and when that is told: `crates/storage/tests/it/worker_disk.rs`.
    Mutation::VoteNotKept,
    Mutation::SyncRetried,
    Mutation::PartIsWhole,
    Mutation::BaseNotAwaited,
    Mutation::ReceivedNotAwaited,
    Mutation::NameNotSynced,
    // The power of a node that goes within the sync that another mode waits for: the same file, and `crates/storage/src/mode_change.rs`.
    Mutation::ReachedTooSoon,
    Mutation::StrongerMarkedFirst,
    // Followers that wait for room, and are killed with others in that moment: the same file.
    Mutation::FullAcknowledged,
    // A leader that stays until its follower is to be filled, in a group to which nothing is written: `crates/consensus/tests/it/scenario.rs`,
    // and the same transcript.
    Mutation::ProgressKept,
    // A floor that a longer log of an earlier term does not reach: `crates/consensus/testdata/floor_by_term.txt`.
    Mutation::FloorByPlace,
    // Answers that are as late as a start takes: `crates/consensus/tests/it/scenario.rs`.
    Mutation::FormerAnswersCount,
    // A leader that is lost for longer than clients wait: `crates/gateway/tests/it/full_disks.rs`.
    Mutation::OpenIsRefused,
    // A generation that ends while somebody leads it in a configuration that nobody has reported, or with a majority of disks that are
    // lost: `crates/control/tests/state.rs`.
    Mutation::NotEndedFirst,
    Mutation::ReportBindsNobody,
    Mutation::AskedForGood,
    Mutation::EmptyCounts,
    Mutation::LaterMembersPassedOver,
    // A meta group that begins anew from a log that lags: `crates/control/tests/meta.rs`.
    Mutation::UnknownCalledLost,
    // A leader that says what was known of its group before that, and one that dies before a change is committed:
    // `crates/control/src/reconciler.rs`.
    Mutation::PlacedWhileLearning,
    Mutation::ChangeReportedEarly,
    // A group that begins anew, and loses who it has begun with: `crates/control/tests/state.rs`.
    Mutation::FormerLetGoEarly,
    // A snapshot of a build to come: `crates/storage/tests/it/snapshot_file.rs`.
    Mutation::LaterFormatRead,
    // A node that starts again before it was reported, and a leader that never heard of it: `crates/control/tests/meta.rs`.
    Mutation::UnknownLearnerKept,
    // A node that starts again between its word and the look at it: `crates/control/src/meta/leader_state.rs`.
    Mutation::FormerReportCounts,
    // Power that goes between a word and a sync: `crates/gateway/src/cluster/seat.rs`.
    Mutation::ReportNotSynced,
    // Nodes that have no cluster yet, and simulations begin with one: `crates/control/tests/founding.rs`.
    Mutation::TwoCreators,
    // What fragments make up, whoever keeps them: `crates/coding/tests/it/gathering.rs`.
    Mutation::FragmentChecksumIgnored,
    Mutation::FragmentsMixed,
    Mutation::RowCountedTwice,
    // What is said of holders of rows and counts, which takes one that is away or new just then: `crates/replica/src/member/fragments.rs`.
    Mutation::FormerHolderCounts,
    Mutation::DemotedAtMajority,
    Mutation::EarlierRowsCount,
    Mutation::SilentHolderCounts,
    // What members do with it: `crates/replica/tests/it/fragments.rs`.
    Mutation::RowInEarly,
    Mutation::RefillLeftOut,
    Mutation::PiecesNotAwaited,
    Mutation::NeededGoes,
    Mutation::CondemnedGoes,
    Mutation::CodeChangedEarly,
    Mutation::OwnRowsLost,
    Mutation::HolderLeavesEarly,
    Mutation::LostHolderLeaves,
    // And of state in which they are: `crates/keyspace/tests/it/coded.rs`.
    Mutation::FormIsHashed,
    Mutation::SettledAboveWatermark,
    Mutation::RefillNotChecked,
    Mutation::OldRefillTaken,
    Mutation::SettledForgotten,
    Mutation::LockedIsSettled,
    Mutation::NewerIgnored,
    // The same of partitions that move: `crates/keyspace/tests/it/moves.rs`.
    Mutation::ArrivalsNotHeld,
];

#[test]
fn every_mistake_has_its_test() {
    let all = [
        IN_CLUSTERS,
        IN_DRAINS,
        UNLIKE,
        DURABLY,
        IN_PAIRS,
        ALONE,
        BETWEEN_WORKERS,
        BY_SCENES,
    ];
    for mutation in Mutation::ALL {
        let tests = all.iter().flat_map(|mutations| mutations.iter());
        assert_eq!(
            tests.filter(|tested| *tested == mutation).count(),
            1,
            "{mutation:?}"
        );
    }
    assert!(Mutation::ALL.len() >= 45);
}

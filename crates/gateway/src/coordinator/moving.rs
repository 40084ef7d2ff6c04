//! Moves a partition from a group that is led here to another one: what the worker that leads the group does.
//!
//! ```text
//!   begin --> copies: piece, piece, ... at most PIECES_MAX not taken --all taken--> leaves: the source votes, and is locked
//!         --> enters: the target votes, with all that has changed since --> Decide to both
//!   whatever goes wrong before the target has voted: Decide(abort), and begun again later
//! ```
//!
//! The end is a transaction of two groups like any other: if this worker dies, whoever leads one of them ends it (`recovery.rs`). The
//! source is locked for two rounds, the target for one; if they cannot be locked at once, because somebody holds keys there for long, all that
//! comes would wait behind this: so it is given up after [`LOCKED_AFTER`], and tried again. Each attempt that comes to nothing doubles that,
//! up to [`LOCKED_DOUBLINGS`] times: between sites far from each other a round may take longer.
//!
//! Invariant: of one worker one partition moves at a time, and its copy is under way at the replica here until the source has voted.

use super::Coordinator;
use crate::context::Context;
use crate::copy_pace::CopyPace;
use ids::{GroupId, HashSeed, Monotonic, PartitionId, SemanticsVersion, UnixMillis};
use keyspace::{Enter, PartitionCopy, PartitionCopyStep, PartitionStep};
use replica::{Assignment, Part, Replica, Replies, Request};
use std::time::Duration;
use txn::{Decision, Participants, Refusal, TxnId, Vote};

/// Pieces that were not taken yet: at the limit it waits.
const PIECES_MAX: u32 = 2;

/// Bytes of a piece.
const PIECE_BYTES: usize = 64 * 1024;

/// Of a worker's time, one part in so many is for copying.
const PART: u32 = 10;

/// How long each of the groups is waited for to vote, at first.
const LOCKED_AFTER: Duration = Duration::from_millis(200);
const LOCKED_DOUBLINGS: u32 = 4;

/// Bytes that may be left when the source is locked, in the first attempts; and how many these are.
const LAST_BYTES_MAX: usize = 1 << 20;
const PATIENT_ATTEMPTS: u32 = 8;

/// How long after its last attempt a partition is tried again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// How long no piece may be taken before it is given up.
const PATIENCE: Duration = Duration::from_secs(2);

/// The partition that this worker moves, and when it last tried.
pub(crate) struct Moving {
    now: Option<Box<Move>>,
    pace: CopyPace,
    /// Until when none is begun.
    rests_until: Monotonic,
    /// The last partition that was tried.
    last_tried: PartitionId,
    /// Attempts that have come to nothing since one has moved.
    failures: u32,
    /// Partitions that have moved from here, and attempts that came to nothing.
    done: u64,
    given_up: u64,
}

impl Default for Moving {
    fn default() -> Moving {
        Moving {
            now: None,
            pace: CopyPace::new(PART),
            rests_until: Monotonic(0),
            last_tried: PartitionId::new(0),
            failures: 0,
            done: 0,
            given_up: 0,
        }
    }
}

/// One attempt.
struct Move {
    txn: TxnId,
    began: UnixMillis,
    partition: PartitionId,
    source: GroupId,
    target: GroupId,
    participants: Participants,
    /// How often it will have moved then; 0 as long as the source was not asked.
    moves: u32,
    phase: MovePhase,
    /// Since when it is in this phase, or since when a piece was last taken.
    since: Monotonic,
}

enum MovePhase {
    Copies {
        copy: PartitionCopy,
        /// Pieces that were sent, and those of them that were not taken yet.
        sent: u64,
        outstanding: u32,
    },
    /// The source was asked for its vote.
    Leaves { copy: PartitionCopy, pieces: u64 },
    /// The target was.
    Enters,
}

impl Moving {
    /// Whether none is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.now.is_none()
    }

    /// The number of its transaction.
    pub(super) fn seq(&self) -> Option<u64> {
        self.now.as_ref().map(|it| it.txn.seq)
    }

    pub(super) fn is(&self, txn: TxnId) -> bool {
        self.now.as_ref().is_some_and(|it| it.txn == txn)
    }

    /// Partitions that have moved from here, and attempts that came to nothing.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.done, self.given_up)
    }

    /// What is under way, in words for traces.
    pub(super) fn in_words(&self) -> Option<String> {
        let it = self.now.as_ref()?;
        let phase = match it.phase {
            MovePhase::Copies { .. } => "copies",
            MovePhase::Leaves { .. } => "leaves",
            MovePhase::Enters => "enters",
        };
        Some(format!(
            "{:?} {phase}, partition {:?} from {:?} to {:?}",
            it.txn, it.partition, it.source, it.target
        ))
    }
}

impl Coordinator {
    /// The partition that was tried last.
    pub(crate) fn last_tried(&self) -> PartitionId {
        self.moving.last_tried
    }

    /// Whether a partition may be begun with.
    pub(crate) fn may_move(&self, now: Monotonic) -> bool {
        self.moving.now.is_none() && now >= self.moving.rests_until
    }

    /// Begins to move a partition to another group. It is hosted by the group of this index, which is led here.
    pub(crate) fn begin_move(
        &mut self,
        cx: &mut Context,
        index: usize,
        partition: PartitionId,
        target: GroupId,
    ) {
        let replica = &mut cx.local.replicas[index];
        let source = replica.group();
        let may = cx.turn.semantics >= SemanticsVersion::PARTITIONS_MOVE && self.may_move(cx.now);
        self.moving.last_tried = partition;
        // Others may have heard of it before.
        let may = may && target.number() < cx.groups.get();
        if source == target || replica.leader().is_none() || !may {
            return;
        }
        if cx.shared.is_cut_off(target) {
            self.moving.rests_until = cx.now.after(AGAIN_AFTER);
            return;
        }
        let replica = &mut cx.local.replicas[index];
        let Some(copy) = replica.begin_partition_copy(partition) else {
            // It is not here, or somebody is given the state just now.
            self.moving.rests_until = cx.now.after(AGAIN_AFTER);
            return;
        };
        let (txn, priority) = self.new_transaction(cx);
        let participants = [source, target].map(|group| cx.view.participant(group)).into();
        self.moving.now = Some(Box::new(Move {
            txn,
            began: priority.began,
            partition,
            source,
            target,
            participants,
            moves: 0,
            phase: MovePhase::Copies {
                copy,
                sent: 0,
                outstanding: 0,
            },
            since: cx.now,
        }));
        self.go_on_copying(cx);
    }

    /// Sends what is next of the copy, as far as it may.
    fn go_on_copying(&mut self, cx: &mut Context) {
        loop {
            let Some(it) = &mut self.moving.now else { return };
            let MovePhase::Copies {
                copy,
                sent,
                outstanding,
            } = &mut it.phase
            else {
                return;
            };
            let is_first = *sent == 0;
            let budget = &cx.shared.move_budget;
            let may_copy = self.moving.pace.may_copy(cx.now) && budget.free_at() <= cx.now;
            if *outstanding >= PIECES_MAX || !may_copy && !is_first {
                return;
            }
            let clock = cx.timing.clock();
            let Some(replica) = source_replica(cx, it.source) else {
                return self.give_up_move(cx);
            };
            let began = clock();
            let step = replica.next_of_partition_copy(copy, PIECE_BYTES);
            let seed = replica.keyspace().seed_of(it.partition);
            let took = clock().saturating_sub(began);
            let records = match step {
                PartitionCopyStep::More(records) => records,
                // There is one piece at least: the target has to know of it.
                PartitionCopyStep::NotYet => return,
                PartitionCopyStep::Ready if is_first => Vec::new(),
                PartitionCopyStep::Ready if *outstanding > 0 => return,
                PartitionCopyStep::Ready => return self.leave(cx),
                PartitionCopyStep::Lost => return self.give_up_move(cx),
            };
            let Some(seed) = seed else {
                return self.give_up_move(cx);
            };
            self.moving
                .pace
                .copied(cx.now, took, cx.shared.hooks.copy_rest_min);
            let bandwidth = cx.settings.move_bandwidth;
            cx.shared.move_budget.charge(cx.now, records.len(), bandwidth);
            *sent += 1;
            *outstanding += 1;
            let arrive = Request::Arrive {
                txn: it.txn,
                partition: it.partition,
                number: *sent,
                seed,
                records,
            };
            let target = it.target;
            cx.request(target, arrive);
        }
    }

    /// The target has taken a piece, or has not.
    pub(crate) fn on_arrived(&mut self, cx: &mut Context, txn: TxnId, group: GroupId, is_taken: bool) {
        let Some(it) = self
            .moving
            .now
            .as_mut()
            .filter(|it| it.txn == txn && it.target == group)
        else {
            return;
        };
        let MovePhase::Copies { outstanding, .. } = &mut it.phase else {
            return;
        };
        *outstanding = outstanding.saturating_sub(1);
        it.since = cx.now;
        match is_taken {
            true => self.go_on_copying(cx),
            false => self.give_up_move(cx),
        }
    }

    /// All that was there is copied: the source is asked for its vote.
    fn leave(&mut self, cx: &mut Context) {
        if self
            .moving
            .now
            .as_ref()
            .is_some_and(|it| cx.shared.is_cut_off(it.target))
        {
            // It would be locked for a vote that does not come.
            return self.give_up_move(cx);
        }
        let Some(it) = self.moving.now.take() else { return };
        let mut it = *it;
        let MovePhase::Copies { copy, sent, .. } = it.phase else {
            return;
        };
        let source = source_replica(cx, it.source);
        it.moves = source.map_or(0, |replica| replica.keyspace().moves_of(it.partition) + 1);
        it.phase = MovePhase::Leaves { copy, pieces: sent };
        it.since = cx.now;
        let step = PartitionStep::Leave {
            partition: it.partition,
            to: it.target,
            moves: it.moves,
        };
        let source = it.source;
        let part = it.part(step);
        self.moving.now = Some(Box::new(it));
        cx.request(source, Request::Prepare(Box::new(part)));
    }

    /// The source has voted: nothing changes in the partition any more. The target is asked, with all that is left.
    fn enter_target(&mut self, cx: &mut Context) {
        let Some(it) = self.moving.now.take() else { return };
        let mut it = *it;
        let MovePhase::Leaves { copy, pieces } = it.phase else {
            return;
        };
        let enter = source_replica(cx, it.source).and_then(|replica| {
            // Whoever leads by now may have said so: what is here may be behind.
            if replica.keyspace().locks_of(it.txn).is_none() {
                replica.end_partition_copy(copy);
                return None;
            }
            replica.last_of_partition_copy(copy, pieces)
        });
        // Much that is left would hold all up that waits for the source. It may be less the next time.
        let is_much = |enter: &Enter| enter.records.len() + enter.requests.len() > LAST_BYTES_MAX;
        let is_patient = self.moving.failures < PATIENT_ATTEMPTS;
        let enter = enter.filter(|enter| !is_patient || !is_much(enter));
        it.phase = MovePhase::Enters;
        it.since = cx.now;
        let Some(enter) = enter else {
            self.moving.now = Some(Box::new(it));
            return self.give_up_move(cx);
        };
        let target = it.target;
        let part = it.part(PartitionStep::Enter(Box::new(enter)));
        self.moving.now = Some(Box::new(it));
        cx.request(target, Request::Prepare(Box::new(part)));
    }

    /// A group has voted on a move. `false` if it is none.
    pub(super) fn on_move_vote(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        group: GroupId,
        vote: Vote,
        replies: &Replies,
    ) -> bool {
        let Some(it) = self.moving.now.as_ref().filter(|it| it.txn == txn) else {
            return false;
        };
        if vote == Vote::Refused(Refusal::Moved) {
            let elsewhere = replies
                .iter()
                .next()
                .map(keyspace::Moved::read)
                .unwrap_or_default();
            cx.learn_moved(&elsewhere);
        }
        match (&it.phase, vote) {
            (MovePhase::Leaves { .. }, Vote::Prepared) if group == it.source => self.enter_target(cx),
            (MovePhase::Enters, Vote::Prepared) if group == it.target => self.end_move(cx, true),
            (_, Vote::Prepared) => {}
            (_, Vote::Refused(_)) => self.give_up_move(cx),
        }
        true
    }

    /// The participants have said what has become of a move. `false` if it is none of this worker.
    pub(super) fn on_move_recovered(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        decision: Option<Decision>,
    ) -> bool {
        if !self.moving.is(txn) {
            return false;
        }
        match decision {
            Some(decision) => self.end_move(cx, decision == Decision::Commit),
            // Nobody knows. Whoever leads the groups sees to it; what has been copied is of no use.
            None => {
                if let Some(it) = self.take_move(cx) {
                    self.moving.rests_until = cx.now.after(AGAIN_AFTER);
                    let (txn, partition, seed) = (it.txn, it.partition, HashSeed([0; 2]));
                    let nothing = Request::Arrive {
                        txn,
                        partition,
                        number: 0,
                        seed,
                        records: Vec::new(),
                    };
                    cx.request(it.target, nothing);
                }
            }
        }
        true
    }

    /// It comes to nothing: one of them has refused, or the target was never asked for its vote.
    fn give_up_move(&mut self, cx: &mut Context) {
        self.end_move(cx, false);
    }

    /// A part of a move could not be sent, or nobody knows what has become of it. `false` if it is no part of one of this worker.
    pub(super) fn on_failed_move(&mut self, cx: &mut Context, txn: TxnId, is_certain: bool) -> bool {
        let Some(it) = self.moving.now.as_ref().filter(|it| it.txn == txn) else {
            return false;
        };
        let participants = it.participants.clone();
        match it.phase {
            MovePhase::Copies { .. } => {}
            // The source was not asked, or the target was not: nobody has voted for it who can be asked for more.
            MovePhase::Leaves { .. } | MovePhase::Enters if is_certain => self.give_up_move(cx),
            MovePhase::Leaves { .. } | MovePhase::Enters => self.recover(cx, txn, participants),
        }
        true
    }

    /// Takes it out: nothing is copied for it any more.
    fn take_move(&mut self, cx: &mut Context) -> Option<Box<Move>> {
        let mut it = self.moving.now.take()?;
        if let MovePhase::Copies { copy, .. } | MovePhase::Leaves { copy, .. } =
            std::mem::replace(&mut it.phase, MovePhase::Enters)
            && let Some(replica) = source_replica(cx, it.source)
        {
            replica.end_partition_copy(copy);
        }
        Some(it)
    }

    fn end_move(&mut self, cx: &mut Context, is_committed: bool) {
        let Some(it) = self.take_move(cx) else { return };
        let (txn, partition, source, target, moves) = (it.txn, it.partition, it.source, it.target, it.moves);
        if is_committed {
            self.moving.done += 1;
            self.moving.failures = 0;
            self.moving.rests_until = cx.now;
            cx.learn_host(partition, target, moves);
        } else {
            self.moving.given_up += 1;
            self.moving.failures = self.moving.failures.saturating_add(1);
            self.moving.rests_until = cx.now.after(AGAIN_AFTER);
        }
        self.settle(cx, txn, vec![source, target], is_committed, true);
    }

    /// Time passes.
    pub(super) fn tick_move(&mut self, cx: &mut Context) {
        let Some(it) = &self.moving.now else { return };
        let waited = cx.now.since(it.since);
        let locked_after = LOCKED_AFTER * (1 << self.moving.failures.min(LOCKED_DOUBLINGS));
        let leads = source_replica(cx, it.source).is_some_and(|replica| replica.leader().is_some());
        let (txn, participants) = (it.txn, it.participants.clone());
        match it.phase {
            MovePhase::Copies { outstanding, .. } if !leads || outstanding > 0 && waited >= PATIENCE => {
                self.give_up_move(cx);
            }
            MovePhase::Copies { .. } => self.go_on_copying(cx),
            // Whoever is asked what has become of it refuses, if it has not voted.
            MovePhase::Leaves { .. } | MovePhase::Enters if waited >= locked_after => {
                self.recover(cx, txn, participants);
            }
            MovePhase::Leaves { .. } | MovePhase::Enters => {}
        }
    }
}

impl Move {
    fn part(&self, step: PartitionStep) -> Part {
        Part {
            txn: self.txn,
            began: self.began,
            participants: self.participants.clone(),
            conditions: Vec::new(),
            expects: Vec::new(),
            assignment: Assignment::Move(step),
            is_bounded: false,
        }
    }
}

/// The replica here of a group, if it has a log.
fn source_replica(cx: &mut Context, group: GroupId) -> Option<&mut Replica> {
    let index = cx.local.index(group)?;
    Some(&mut cx.local.replicas[index]).filter(|replica| replica.member().is_some())
}

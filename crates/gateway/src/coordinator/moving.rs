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
//! What a group is to know of a partition in place of what it does, because it has begun anew without that, is a transaction of that group alone,
//! and has its turn before the next move: `begin --> mends: the group votes, and is locked --> Decide`.
//!
//! Invariant: of one worker one partition moves at a time, and its copy is under way at the replica here until the source has voted.

use super::Coordinator;
use crate::context::Context;
use crate::copy_pace::CopyPace;
use control::Mend;
use ids::{GroupId, HashSeed, Host, Monotonic, PartitionId, SemanticsVersion, UnixMillis, Whereabouts};
use keyspace::{Enter, PartitionCopy, PartitionCopyStep, PartitionStep};
use mutations::Mutation;
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
    /// What the meta group has ordered last, and was not begun with.
    ordered: Option<Mend>,
    counts: MoveCounts,
}

/// What has come of moves, since the node started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MoveCounts {
    /// Partitions that have moved from here.
    pub(crate) done: u64,
    /// Attempts that came to nothing.
    pub(crate) given_up: u64,
    /// Partitions of which a group here has come to know something else, as it had begun anew without it.
    pub(crate) mended: u64,
}

impl Default for Moving {
    fn default() -> Moving {
        Moving {
            now: None,
            pace: CopyPace::new(PART),
            rests_until: Monotonic(0),
            last_tried: PartitionId::new(0),
            failures: 0,
            ordered: None,
            counts: MoveCounts::default(),
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
    /// The source, which is the only group, was asked for its vote.
    Mends(Mend),
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

    /// Whether what is under way mends something.
    fn is_mending(&self) -> bool {
        let now = self.now.as_ref();
        now.is_some_and(|it| matches!(it.phase, MovePhase::Mends(_)))
    }

    pub(super) fn is(&self, txn: TxnId) -> bool {
        self.now.as_ref().is_some_and(|it| it.txn == txn)
    }

    /// What has come of them.
    pub(crate) fn counts(&self) -> MoveCounts {
        self.counts
    }

    /// What is under way, in words for traces.
    pub(super) fn in_words(&self) -> Option<String> {
        let it = self.now.as_ref()?;
        let phase = match it.phase {
            MovePhase::Copies { .. } => "copies",
            MovePhase::Leaves { .. } => "leaves",
            MovePhase::Enters => "enters",
            MovePhase::Mends(_) => "mends",
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

    /// The meta group has found that a group here is to know something else of a partition. It says so again if nothing comes of it.
    pub(crate) fn order_mend(&mut self, mend: Mend) {
        self.moving.ordered = Some(mend);
    }

    /// Begins with what was ordered last. `false` if nothing was.
    pub(crate) fn begin_ordered_mend(&mut self, cx: &mut Context) -> bool {
        let Some(mend) = self.moving.ordered.take() else {
            return false;
        };
        let Mend {
            group,
            partition,
            found,
            becomes,
        } = mend;
        let index = cx.local.index(group);
        let index = index.filter(|_| cx.turn.semantics >= SemanticsVersion::PARTITIONS_MENDED);
        let replica = index.map(|index| &cx.local.replicas[index]);
        let replica = replica.filter(|replica| replica.leader().is_some());
        // What the group knows when it votes is what counts. Here it is looked at so that it is not locked for nothing.
        let knows = |replica: &&Replica| {
            replica.keyspace().whereabouts(partition) == found || mutations::is(Mutation::MendedOnHearsay)
        };
        let Some((replica, host)) = replica.filter(knows).zip(becomes.host(group)) else {
            return false;
        };
        let step = PartitionStep::Mend(replica.keyspace().plan_mend(partition, found, becomes));
        let (txn, priority) = self.new_transaction(cx);
        let it = Move {
            txn,
            began: priority.began,
            partition,
            source: group,
            target: host.group,
            participants: [cx.view.participant(group)].into(),
            moves: host.moves,
            phase: MovePhase::Mends(mend),
            since: cx.now,
        };
        let part = it.part(step);
        self.moving.now = Some(Box::new(it));
        cx.request(group, Request::Prepare(Box::new(part)));
        true
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
            (MovePhase::Mends(_), Vote::Prepared) if group == it.source => self.end_move(cx, true),
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
                let is_mend = self.moving.is_mending();
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
                    if !is_mend {
                        cx.request(it.target, nothing);
                    }
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
            MovePhase::Leaves { .. } | MovePhase::Enters | MovePhase::Mends(_) if is_certain => {
                self.give_up_move(cx);
            }
            MovePhase::Leaves { .. } | MovePhase::Enters | MovePhase::Mends(_) => {
                self.recover(cx, txn, participants);
            }
        }
        true
    }

    /// Takes it out: nothing is copied for it any more.
    fn take_move(&mut self, cx: &mut Context) -> Option<Box<Move>> {
        let mut it = self.moving.now.take()?;
        if matches!(it.phase, MovePhase::Mends(_)) {
            return Some(it);
        }
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
        let mut groups = vec![source, target];
        if let MovePhase::Mends(mend) = it.phase {
            groups.truncate(1);
            if is_committed {
                self.moving.counts.mended += 1;
                cx.outbox.notices.push(in_words(&mend));
            }
        } else if is_committed {
            self.moving.counts.done += 1;
        }
        if is_committed {
            self.moving.failures = 0;
            self.moving.rests_until = cx.now;
            cx.learn_host(partition, target, moves);
        } else {
            self.moving.counts.given_up += 1;
            self.moving.failures = self.moving.failures.saturating_add(1);
            self.moving.rests_until = cx.now.after(AGAIN_AFTER);
        }
        self.settle(cx, txn, groups, is_committed, true);
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
            MovePhase::Leaves { .. } | MovePhase::Enters | MovePhase::Mends(_) if waited >= locked_after => {
                self.recover(cx, txn, participants);
            }
            MovePhase::Leaves { .. } | MovePhase::Enters | MovePhase::Mends(_) => {}
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

/// What was mended, for operators.
fn in_words(mend: &Mend) -> String {
    let (partition, group) = (mend.partition.number(), mend.group.number());
    let what = match mend.becomes {
        Whereabouts::Here(_) if mend.found.is_here() => {
            "what others knew of its moves was lost, and it is found there again".to_owned()
        }
        Whereabouts::Here(_) => {
            "the group had lost that it came, and all that it held: it is empty".to_owned()
        }
        Whereabouts::Gone(Host { group, .. }) => {
            let group = group.number();
            format!(
                "the group had lost that it went to group {group}; what was written to it here since is gone"
            )
        }
        Whereabouts::Unknown => String::new(),
    };
    format!("partition {partition} of group {group} is mended: {what}")
}

/// The replica here of a group, if it has a log.
fn source_replica(cx: &mut Context, group: GroupId) -> Option<&mut Replica> {
    let index = cx.local.index(group)?;
    Some(&mut cx.local.replicas[index]).filter(|replica| replica.member().is_some())
}

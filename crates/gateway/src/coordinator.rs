//! Transactions over several groups: the coordinator, of groups with logs and of such as are alone on this node.
//!
//! ```text
//!   SnapshotRead    asked of all, which only read --> answered by all: old enough together? --> answer;  else again;  else Vote
//!   OptimisticRead  values that cross groups, of all --> answered by all --> evaluated on a scratch --> vote on the effects, if
//!                                            nothing of what was read has changed;  else again;  else LockFirst
//!   OnePhase        of an OptimisticRead or a script on copies, with effects in one group: one entry --> answered;  else again
//!   LockFirst       the same, with locks first: Locked by all --> evaluated --> vote on the effects
//!   Vote            Prepare to all --> all Prepared: answer, Decide(commit)    one Refused: Decide(abort), answer or again
//!   InPlace         commands on whole groups: as Vote, but the replies come with the end
//!   LockInPlace     both: as LockFirst, of whole groups; then each votes on a list of effects and commands, as for InPlace. A program with
//!                   scripts asks for more under its locks; if it has changed nothing, and all groups have answered under them, there are no votes
//!   Offload         very large values: Prepare to all --> all Prepared: CheckOut --> Locked by all --> carried out on a
//!                                            thread beside --> CheckIn, answer
//!   PerGroup        a scan over several nodes: each group does its part by itself
//!
//!   settling: Decide was recorded by all --> Forget
//! ```
//!
//! Without other nodes nothing is read without locks: these cost no entry then. A group may refuse as too large what it would have
//! to walk over, or to copy: that is offloaded.
//!
//! Nothing is logged here. A transaction is committed when the last vote for it is in the log of its group, and whoever
//! asks all groups finds that out: see `recovery.rs`. If no vote is in a log, nobody but this coordinator can ask, and the decision is
//! final: nothing settles.
//!
//! Invariants:
//! 1. Commit is sent only when every participant has prepared; abort only when one has refused, or was never asked.
//! 2. The client is answered once.
//! 3. A participant is told to forget only what all have recorded the end of.
//! 4. The client is told by the deadline of its transaction, which no attempt moves; what is sent to one group as a whole waits as a
//!    command does.
//!
//! And of what is kept, as [`Coordinator::check`] looks at it:
//! 5. A transaction is found by its number, and names its groups once each, in order, with their generations.
//! 6. Those that a client waits for are those that have one. Whoever has none any more has asked for votes, and is in doubt: what
//!    is committed is kept only as long as somebody waits for its replies.
//! 7. Whoever has not asked for votes waits for an answer or for another thread, and for no more answers than it has groups.
//! 8. What settles waits for some of its groups.
//! 9. Of combined commands, each has its client: `combining.rs`.
//! 10. A script that others may pass is open, or its effects were sent to its group.

mod moving;
mod old_reads;
mod recovery;

use crate::combining::{self, Combined};
use crate::context::Context;
use crate::delivery::{Answered, Answers, Delivery};
use crate::endpoint::Scope;
use crate::evaluation::{Evaluated, Evaluation, Fetched, effects_of, evaluate};
use crate::group_times::GroupTimes;
use crate::heavy_run::{HeavyRun, HeavyState};
use crate::idempotency::error_of;
use crate::offload::{CheckedOut, EVALUATIONS_MAX, OffloadJob};
use crate::outbox::Finished;
use crate::plan::Plan;
use crate::program::{Extent, Program, by_group, group_of_key};
use crate::script_run::{
    EndedRun, ProgramRun, RUNS_MAX, RunStop, RunStopped, RunTotals, SentObject, Surroundings, by_their_groups,
};
use crate::script_runner::ScriptRunner;
use crate::timing::Caller;
use crate::transaction_stats::{OngoingTransaction, TransactionStats};
use command::CommandRoute;
use ids::{Db, GroupId, Groups, Monotonic, SemanticsVersion, Slot, UnixMillis};
use keyspace::{Effect, KeyVersion, Lazyfree, Moved, SeenObject};
use moving::Moving;
use mutations::Mutation;
use old_reads::OldReads;
use recovery::Recoveries;
use replica::{
    Assignment, CROWDED_OUT, Condition, FULL, FullKey, LocalCounts, Operation, Output, Part, Replies,
    ReplyTo, Request, Returned, Scratch, Seen, SnapshotAsker, Step, TOO_LONG, UNREACHABLE, locks_of,
    with_conditions,
};
use resp::Protocol;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use txn::{Decision, Participants, Priority, Refusal, TxnId, Vote, VoteTally};

/// How often values are read again because something changed meanwhile, before locks are taken.
const TRIES_MAX: u32 = 2;

/// How long the votes of an attempt are waited for before the participants are asked what has become of the transaction.
const PATIENCE: Duration = Duration::from_secs(5);

/// When the client of a transaction has been told at the latest, counted from when it came. Reading, waiting for locks, votes and
/// all attempts share it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// So long before the deadline no attempt begins any more, and the participants of the present one are asked what has become of
/// it: the client mostly learns that nothing was done, and not that nobody knows.
const ASKED_BEFORE: Duration = Duration::from_secs(1);

/// Numbers by which a worker's newest transaction is ahead of its oldest one that a client waits for: what participants
/// remember of those between grows with them. Another one is refused then.
const SPAN_MAX: u64 = 1 << 20;

/// Instructions that a program with scripts has when it begins, or has heard of a group: most come to their end.
const FIRST_INSTRUCTIONS: u64 = 10_000;

/// Instructions of one such program in a turn of its worker, when it has had those: half a millisecond, of which others hear as a wait.
const TURN_INSTRUCTIONS: u64 = 40_000;

/// Keys of one transaction that its groups are to look at, from which on they do so one group after the other, in turns of their own; and those of
/// the groups that do so together. Each takes half a microsecond, when they vote and when it is decided.
const WIDE_KEYS_MIN: usize = 4_096;

/// Transactions of a worker that are not over: what is decided, or in doubt, while one of its groups is out of reach stays
/// until that is back. Another one is refused then.
const UNFINISHED_MAX: usize = 65_536;

/// Programs with scripts of a worker that may be on the thread for offload jobs, each for a slice. The others wait: so what else is done there waits
/// for no more slices than these.
const HEAVY_RUNS_MAX: usize = 2;

const BEHIND: &str =
    "TRYAGAIN too many transactions of this node wait for groups that are out of reach; nothing was done";
const BUSY: &str = "TRYAGAIN too many transactions wait for the same keys; nothing was done";
const TAKEN_FOR_DEAD: &str =
    "TRYAGAIN this node was taken for dead by a group of the transaction; nothing was done";
const TIMED_OUT: &str = "TRYAGAIN the keys of this transaction did not become free in time; nothing was done";
const TOO_SLOW: &str = "TRYAGAIN this node has too much to do with large values; nothing was done";
const TOO_MANY_RUNS: &str = "TRYAGAIN too many scripts run on this node; nothing was done";
const TOO_LONG_RUN: &str =
    "TRYAGAIN the script did not come to its end within ten seconds; nothing of it was done";
const UNKNOWN: &str = "UNKNOWN a group of this transaction was lost before it answered: whether the transaction was \
                       carried out is not known";

/// The transactions of one worker's gateway over groups whose logs decide. Bounded by its connections, and by what is
/// unanswered of groups that are out of reach.
#[derive(Default)]
pub(crate) struct Coordinator {
    /// They are large, and move from one map to another.
    open: BTreeMap<u64, Box<Open>>,
    /// Of these, the ones that a client waits for.
    waited_for: BTreeSet<u64>,
    /// Decided; who has not recorded it yet.
    settling: BTreeMap<TxnId, Settling>,
    /// Of groups that were told to forget a transaction before all with smaller numbers were over: the greatest such
    /// number. They are told once more when that is so. Bounded by the groups.
    behind: BTreeMap<GroupId, u64>,
    /// Decisions that did not reach their groups, which are out of reach: they are told when those are back. Bounded by
    /// those that settle.
    untold: BTreeMap<GroupId, BTreeSet<TxnId>>,
    /// Transactions so far.
    begun: u64,
    /// `EXEC` within one group, and what is named, sent there whole. Bounded by the connections: each has a bounded number of these
    /// under way.
    blocks: BTreeMap<(u64, u64), Program>,
    one_phase: OnePhase,
    /// Where commands are evaluated, emptied and kept for the next ones.
    scratch: Option<Scratch>,
    /// Programs with scripts that have given way to others, by their numbers. One that begins again may stand here twice.
    runnable: VecDeque<u64>,
    heavy: HeavyRuns,
    wide: WideTransactions,
    /// Those whose keys are in none of the groups that were asked: they begin again with the next tick.
    unplaced: Vec<TxnId>,
    /// What all that run use.
    running: RunTotals,
    recoveries: Recoveries,
    /// The partition that this worker moves.
    moving: Moving,
}

/// What goes on elsewhere: programs with scripts, and the evaluation of what groups have sent.
#[derive(Default)]
struct HeavyRuns {
    /// Those that are to, in the order of their turns. One that begins again may stand here twice.
    in_line: VecDeque<u64>,
    /// How many are there.
    away: usize,
    /// Evaluations that are there.
    evaluations: usize,
}

/// Transactions with very many keys: what their groups have to do for them is sent a piece at a time, in every other turn.
#[derive(Default)]
struct WideTransactions {
    /// Those whose next groups are to vote, by their numbers.
    voting: VecDeque<u64>,
    /// What groups are to be told of those that are decided.
    decisions: VecDeque<(GroupId, Request)>,
    /// Whether something was sent in the last turn. Who came in it is answered at the end of this one, and waits for one piece at most.
    rests: bool,
}

/// Where a program with scripts goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RunPlace {
    /// Here.
    Worker,
    /// Elsewhere, when it has its turn.
    InLine,
    /// Another thread has it.
    Away,
}

/// Transactions whose effects are in one group, and how it goes with those that read without locks.
#[derive(Default)]
struct OnePhase {
    /// Those that were sent there, by the places of their replies. Bounded by the connections: each has a bounded number of these under
    /// way.
    sent: BTreeMap<(u64, u64), Sent>,
    old_reads: OldReads,
    /// The same of those whose effects are in several groups, which vote on what was read without locks.
    unlocked: OldReads,
    /// The places of scripts under way that what stands behind them may pass: from when all that they name was known, until they are
    /// answered. Some of them may be running again.
    passed: BTreeSet<(u64, u64)>,
    /// Scripts behind those in `passed`, by their places, which have come to name what they had not declared: they go on when those
    /// before them are answered.
    held_back: BTreeMap<(u64, u64), (TxnId, More)>,
}

/// What a script has come to name that it had not declared.
enum More {
    Keys(Vec<FullKey>),
    WholeKeyspace,
}

/// What a transaction was before its effects were sent.
enum Sent {
    /// Its values were read first.
    Read(Box<Open>),
    /// It has run on copies of what a replica here had applied.
    Copied(Box<CopiedScript>),
}

/// A script that has run on copies of what a replica here had applied.
pub(crate) struct CopiedScript {
    client: Client,
    replies: Replies,
    /// When it came, by the clock that commands are timed by.
    came_at: u64,
    opened_at: Monotonic,
}

impl CopiedScript {
    /// `replies` is what it answers if nothing has changed; `program` is what it begins as if something has.
    pub(crate) fn new(
        reply_to: ReplyTo,
        program: Program,
        replies: Replies,
        came_at: u64,
        opened_at: Monotonic,
    ) -> CopiedScript {
        CopiedScript {
            client: Client::alone(reply_to, program),
            replies,
            came_at,
            opened_at,
        }
    }
}

impl OnePhase {
    /// Whether a script that others may pass is under way before this place of a connection.
    fn is_behind(&self, (connection, sequence): (u64, u64)) -> bool {
        let mut before = self.passed.range((connection, 0)..(connection, sequence));
        before.next().is_some()
    }

    /// Takes the first script of a connection that was held back, if none that others may pass is before it any more.
    fn let_go(&mut self, connection: u64) -> Option<(TxnId, More)> {
        let mut held = self.held_back.range((connection, 0)..=(connection, u64::MAX));
        let place = held.next().map(|(place, _)| *place)?;
        match self.is_behind(place) {
            true => None,
            false => self.held_back.remove(&place),
        }
    }
}

/// How a transaction is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TxnMode {
    /// Groups answer commands that only read, without locks: old enough together, or again.
    SnapshotRead,
    /// Values are read without locks, and the votes are on their being unchanged.
    OptimisticRead,
    /// Values are locked before they are read.
    LockFirst,
    /// Groups vote on what their parts would do.
    Vote,
    /// The same, and carry it out when it is decided.
    InPlace,
    /// Whole groups are locked and read, and carry out steps when it is decided.
    LockInPlace,
    /// Very large values are checked out, and the commands carried out on a thread beside: `offload.rs`.
    Offload,
    /// Each group does its part by itself, at a time of its own: a scan over several nodes.
    PerGroup,
}

impl TxnMode {
    /// The groups that take part in a program, of this extent where these host what they do.
    fn groups_of(self, program: &Program, extent: &Extent, groups: Groups) -> Vec<GroupId> {
        let Extent {
            is_whole,
            groups: concerned,
            ..
        } = extent;
        let mut concerned = concerned.clone();
        let is_unlocked = matches!(self, TxnMode::SnapshotRead | TxnMode::PerGroup);
        // Who votes on what concerns whole groups refuses if one takes no part that it has given something to, though of a node's own
        // nothing is asked there.
        if *is_whole && !is_unlocked && matches!(program.scope, Scope::Node(_)) && groups.has_moved() {
            concerned.extend(groups.hosting());
            concerned.sort_unstable();
            concerned.dedup();
        }
        concerned
    }

    /// Whether groups are locked first, and shown.
    fn locks_first(self) -> bool {
        matches!(self, TxnMode::LockFirst | TxnMode::LockInPlace)
    }

    /// Whether groups carry out commands when it is decided, and answer them only then.
    fn is_in_place(self) -> bool {
        matches!(self, TxnMode::InPlace | TxnMode::LockInPlace)
    }
}

/// How far an attempt has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Groups are asked for values or answers, and change nothing: it can be given up as if it had never been.
    Reading,
    /// Locks are asked for, by parts that groups vote on.
    Locking,
    /// Votes are asked for.
    Voting,
    /// All groups have prepared, and let their values be checked out.
    CheckedOut,
    /// All groups have prepared, and carry it out: what they answer is to come.
    Committed,
}

impl Phase {
    /// Whether parts were sent that a group may vote on, and it is not decided.
    fn has_asked(self) -> bool {
        match self {
            Phase::Reading | Phase::Committed => false,
            Phase::Locking | Phase::Voting | Phase::CheckedOut => true,
        }
    }
}

/// What is known of an attempt beside its votes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doubt {
    /// Its votes are waited for.
    None,
    /// The participants were asked what has become of it.
    Queried,
    /// They said that all have prepared: the votes, with the replies, are to come.
    FoundCommitted,
}

/// Who waits for a transaction, and for what.
struct Client {
    reply_to: ReplyTo,
    program: Program,
    /// If it is several clients, each with one of the commands: all of them. `reply_to` is the first one's.
    combined: Vec<Combined>,
}

impl Client {
    fn alone(reply_to: ReplyTo, program: Program) -> Client {
        Client {
            reply_to,
            program,
            combined: Vec::new(),
        }
    }
}

struct Open {
    id: TxnId,
    began: UnixMillis,
    /// When it came, by the clock that commands are timed by, if it is noted how long its client waited.
    came_at: Option<u64>,
    /// If not: nanoseconds that a command took here at once, to be noted when it is over.
    spent: Option<u64>,
    /// A command within one group that was offloaded: its connection does not know of a transaction.
    is_single: bool,
    /// Whether lookups of what is checked out count as use of keys.
    touches: bool,
    /// The groups that have answered this attempt from their logs: the others are alone on this node.
    logged: BTreeSet<GroupId>,
    /// `None` once the client was answered.
    client: Option<Client>,
    groups: Vec<GroupId>,
    /// Who hosts what, as this attempt takes it: its keys and their groups are told apart by it until its end.
    hosts: Groups,
    /// The same as of this attempt, with their generations.
    participants: Participants,
    mode: TxnMode,
    phase: Phase,
    doubt: Doubt,
    /// Whether anything in it may write.
    writes: bool,
    tally: VoteTally,
    /// What the groups answered: for each the index of the item and its reply.
    parts: BTreeMap<GroupId, (Vec<usize>, Replies)>,
    /// Keys that it reads and that only the data name, as far as an attempt has found them.
    wanted: BTreeMap<GroupId, BTreeSet<FullKey>>,
    /// Groups that held what was to be checked out, and refused to hand it over when they were asked for it.
    refusers: Vec<GroupId>,
    /// What was fetched or locked.
    objects: BTreeMap<GroupId, Vec<(Option<SeenObject>, KeyVersion)>>,
    /// Whether another thread works on it.
    is_offloaded: bool,
    /// When that was, by the times of these groups.
    times: GroupTimes,
    /// Groups whose answer to this step is still to come.
    outstanding: usize,
    /// Groups with long parts that have not voted, and what the others are sent when they have.
    ahead: BTreeSet<GroupId>,
    behind: Vec<(GroupId, Request)>,
    /// Whether it has so many keys that these are sent some a turn.
    is_wide: bool,
    /// A program with scripts that is being carried out.
    run: Option<Box<ProgramRun>>,
    /// Where it is.
    run_place: RunPlace,
    /// The replies of a program that was evaluated here, one for each operation.
    evaluated: Option<Replies>,
    /// What is known of the replies of one that groups carry out.
    plan: Plan,
    /// Whether a group has lost what it answered.
    has_lost_replies: bool,
    /// Of this attempt.
    reads: Reads,
    tries: u32,
    /// Since when it is open. Its deadline is counted from here, and no attempt moves it but by long values that none before had.
    opened_at: Monotonic,
    /// What its long values take: by so much was it moved.
    long: Duration,
    /// Since when the attempt's votes are waited for.
    since: Monotonic,
}

/// What is known of the reads of an attempt.
struct Reads {
    /// When they were sent.
    sent_at: Monotonic,
    /// Whether all that was seen so far was there when they were sent.
    is_together: bool,
    /// Whether replicas here may answer, with what they have applied: it may be behind.
    may_be_old: bool,
}

impl Default for Reads {
    fn default() -> Reads {
        Reads {
            sent_at: Monotonic(0),
            is_together: true,
            may_be_old: false,
        }
    }
}

/// A decision on its way.
struct Settling {
    groups: Vec<GroupId>,
    outstanding: BTreeSet<GroupId>,
    is_committed: bool,
    /// Whether everybody who was told that it is committed has a log.
    is_logged: bool,
    /// Whether the participants are to forget it then: not if its coordinator lives elsewhere and sees to it.
    forgets: bool,
}

impl Coordinator {
    /// Whether none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
            && self.settling.is_empty()
            && self.behind.is_empty()
            && self.moving.is_empty()
            && self.unplaced.is_empty()
            && self.wide.decisions.is_empty()
    }

    /// Whether anything of it is to be looked after as time passes.
    pub(crate) fn has_timers(&self) -> bool {
        !self.is_empty() || self.recoveries.len() > 0
    }

    /// What was sent to a group whole, which has answered it.
    pub(crate) fn take_block(&mut self, reply_to: ReplyTo) -> Option<Program> {
        self.blocks.remove(&reply_to.place())
    }

    /// What is known of its transactions, for operators.
    pub(crate) fn write_stats(&self, stats: &mut TransactionStats) {
        stats.in_flight += (self.open.len() + self.one_phase.sent.len()) as u64;
        stats.settling = self.settling.len() as u64;
        let moves = self.moving.counts();
        stats.partitions_moved = moves.done;
        stats.partition_moves_given_up = moves.given_up;
        stats.partitions_mended = moves.mended;
        self.recoveries.write_stats(stats);
    }

    /// Whether none is under way but those that cannot end without such groups. What a group without a log is to hear of a
    /// commit is waited for all the same: nobody else would tell it.
    pub(crate) fn waits_only_for(&self, is_out: impl Fn(GroupId) -> bool) -> bool {
        let mut open = self.open.values();
        let mut settling = self.settling.values();
        open.all(|open| open.groups.iter().any(|group| is_out(*group)))
            && settling
                .all(|settling| settling.is_logged && settling.outstanding.iter().all(|group| is_out(*group)))
            && (self.behind.is_empty() || !self.open.is_empty())
            && self.wide.decisions.is_empty()
    }

    /// Says which of the invariants that can be seen here does not hold.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (seq, open) in &self.open {
            let id = open.id;
            let groups = open.participants.iter().map(|participant| participant.group);
            let is_named = id.seq == *seq
                && open.groups.is_sorted_by(|a, b| a < b)
                && groups.eq(open.groups.iter().copied());
            if !is_named {
                return Err(format!(
                    "invariant 5: {id:?} of {:?}, asked as {:?}",
                    open.groups, open.participants
                ));
            }
            let has_client = open.client.is_some();
            if self.waited_for.contains(seq) != has_client || !has_client && !open.phase.has_asked() {
                return Err(format!(
                    "invariant 6: {id:?}, {:?} by {:?}: client {has_client}, waited for {}",
                    open.phase,
                    open.mode,
                    self.waited_for.contains(seq)
                ));
            }
            let is_shared_out = |client: &Client| {
                client.combined.is_empty() || client.combined.len() == client.program.items.len()
            };
            if !open.client.as_ref().is_none_or(is_shared_out) {
                return Err(format!("invariant 9: {id:?}, {}", open.state()));
            }
            let is_waiting =
                open.phase.has_asked() || open.outstanding > 0 || open.is_offloaded || open.is_running();
            if !is_waiting || open.outstanding > open.groups.len() {
                return Err(format!(
                    "invariant 7: {id:?}, {}: {} outstanding",
                    open.state(),
                    open.outstanding
                ));
            }
        }
        let is_open = |place: &(u64, u64)| {
            let mut clients = self.open.values().filter_map(|open| open.client.as_ref());
            self.one_phase.sent.contains_key(place) || clients.any(|client| client.reply_to.place() == *place)
        };
        if let Some(place) = self.one_phase.passed.iter().find(|place| !is_open(place)) {
            return Err(format!("invariant 10: nothing is under way at {place:?}"));
        }
        if let Some(seq) = self.waited_for.iter().find(|seq| !self.open.contains_key(seq)) {
            return Err(format!("invariant 6: a client waits for {seq}"));
        }
        let waits = |settling: &Settling| {
            let mut outstanding = settling.outstanding.iter();
            !settling.outstanding.is_empty() && outstanding.all(|group| settling.groups.contains(group))
        };
        match self.settling.iter().find(|(_, settling)| !waits(settling)) {
            None => Ok(()),
            Some((txn, settling)) => Err(format!(
                "invariant 8: {txn:?} waits for {:?}",
                settling.outstanding
            )),
        }
    }

    /// How many are open, and how many are decided and not recorded everywhere.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.open.len(), self.settling.len())
    }

    /// What is under way, for traces.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let open = self.open.values().map(|open| {
            let Open {
                mode, phase, doubt, ..
            } = &**open;
            let (id, outstanding, has_client) = (open.id, open.outstanding, open.client.is_some());
            format!("{id:?} {mode:?} {phase:?} {doubt:?}: {outstanding} outstanding, client {has_client}")
        });
        let settling = self
            .settling
            .iter()
            .map(|(id, settling)| format!("{id:?} settles: {:?} outstanding", settling.outstanding));
        let behind = self
            .behind
            .iter()
            .map(|(group, seq)| format!("{group:?} behind {seq}"));
        let recoveries = self.recoveries.in_words();
        let moving = self.moving.in_words();
        let all = open.chain(settling).chain(behind).chain(recoveries);
        all.chain(moving).collect()
    }

    /// The numbers of those whose clients are to be told by a deadline.
    pub(crate) fn with_deadlines(&self) -> impl Iterator<Item = u64> {
        let open = self.open.iter();
        open.filter(|(_, open)| open.client.is_some() && open.has_deadline())
            .map(|(seq, _)| *seq)
    }

    /// The oldest of those that are open, at most `max`.
    pub(crate) fn ongoing(&self, max: usize) -> Vec<OngoingTransaction> {
        // Sequences grow with time.
        let oldest = self.open.values().take(max);
        let ongoing = |open: &Open| {
            let program = open.client.as_ref().map(|client| &client.program);
            OngoingTransaction::coordinated(open.id, open.began, open.state(), &open.groups, program)
        };
        oldest.map(|open| ongoing(open)).collect()
    }

    /// Whether this worker coordinates a transaction that is not decided, or not answered.
    pub(crate) fn is_open(&self, txn: TxnId) -> bool {
        self.open.get(&txn.seq).is_some_and(|open| open.id == txn) || self.moving.is(txn)
    }

    /// Whether a client waits for an open transaction.
    pub(crate) fn is_waited_for(&self, txn: TxnId) -> bool {
        self.waited_for.contains(&txn.seq)
    }

    /// For how long the oldest of those that a client waits for has done so.
    pub(crate) fn oldest_wait(&self, now: Monotonic) -> Duration {
        let oldest = self.waited_for.first().and_then(|seq| self.open.get(seq));
        oldest.map_or(Duration::ZERO, |open| now.since(open.opened_at))
    }

    /// An open transaction, if this is its attempt.
    fn open_of(&mut self, txn: TxnId) -> Option<&mut Open> {
        attempt(&mut self.open, txn)
    }

    /// Whether this worker still sees to a transaction.
    pub(crate) fn has(&self, txn: TxnId) -> bool {
        self.is_open(txn) || self.settling.contains_key(&txn)
    }
}

impl Open {
    /// Whether its client is to be told by a deadline. Who works on values that are checked out answers when they are back, and a
    /// command within one group waits for its keys as any other there.
    fn has_deadline(&self) -> bool {
        self.mode != TxnMode::Offload || self.phase != Phase::CheckedOut && !self.is_single
    }

    /// Whether the deadline is so near that it must come to its end.
    fn is_ending(&self, now: Monotonic) -> bool {
        self.has_deadline() && now.since(self.opened_at) >= DEADLINE - ASKED_BEFORE
    }

    /// Whether the deadline is over.
    fn is_overdue(&self, now: Monotonic) -> bool {
        self.has_deadline() && now.since(self.opened_at) >= DEADLINE
    }

    /// It has long values: it is treated as if it had come later by what they take.
    fn allow_for(&mut self, bytes: usize, now: Monotonic) {
        let long = replica::time_of(bytes);
        self.opened_at = self.opened_at.after(long.saturating_sub(self.long));
        self.long = self.long.max(long);
        self.since = now.after(long);
    }

    /// Another group has answered this step. Whether all have.
    fn has_all(&mut self) -> bool {
        self.outstanding -= 1;
        self.outstanding == 0
    }

    /// Whether it is a program with scripts that may go on here.
    fn is_runnable(&self) -> bool {
        self.run.is_some() && self.run_place == RunPlace::Worker && self.outstanding == 0
    }

    /// Whether all groups that host anything are locked for it.
    fn has_locked_all(&self, groups: Groups) -> bool {
        let has_locked = |group| self.groups.binary_search(group).is_ok();
        self.mode == TxnMode::LockInPlace && groups.hosting().iter().all(has_locked)
    }

    /// Whether it is a program with scripts that has begun to run, here or elsewhere.
    fn is_running(&self) -> bool {
        self.run.is_some() || self.run_place == RunPlace::Away
    }

    /// What it waits for, for operators.
    fn state(&self) -> &'static str {
        match self.phase {
            _ if self.doubt != Doubt::None => "in doubt",
            _ if self.is_offloaded => "offloaded",
            _ if self.is_running() => "running a script",
            Phase::Reading => "reading",
            Phase::Locking => "locking",
            Phase::Voting => "voting",
            Phase::CheckedOut => "offloaded",
            Phase::Committed => "committed",
        }
    }
}

impl Coordinator {
    /// Sends a program on its way whose groups do not all live here, or are not free; returns the transaction's number,
    /// if it is one.
    pub(crate) fn start(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        program: Program,
        extent: Extent,
    ) -> Option<u64> {
        // Where there is one group only, and it decides in the order of its entries, it sees all of the keyspace by itself.
        let is_all = cx.view.is_spread && cx.groups.get() == 1;
        let is_on_keys = !extent.sees_whole() && !extent.wants;
        let reads_only = cx.view.is_spread && !extent.writes;
        let goes_whole = match program.request {
            Some(_) => !extent.wants,
            None => (is_all || is_on_keys) && !reads_only && !extent.is_scripted,
        };
        let is_full = |group| extent.writes && cx.shared.is_full(group);
        if let ([group], true) = (&extent.groups[..], goes_whole)
            && !is_full(*group)
        {
            let operations = program.operations().cloned().collect();
            let request = match program.request {
                // Its client has named it.
                Some(request) => Request::Once {
                    reply_to,
                    request,
                    operations,
                },
                None => Request::Block {
                    reply_to,
                    conditions: program.conditions.clone(),
                    operations,
                },
            };
            self.blocks.insert(reply_to.place(), program);
            cx.request(*group, request);
            return None;
        }
        self.start_transaction(cx, reply_to, program, extent)
    }

    /// The name and age of a new transaction.
    pub(crate) fn new_transaction(&mut self, cx: &mut Context) -> (TxnId, Priority) {
        // Unique over the node's workers: two transactions of one age would each wait for the other.
        self.begun += 1;
        let workers = cx.shared.workers.len() as u64;
        let (boot, seq) = (cx.boot(), self.begun * workers + u64::from(cx.worker));
        let id = TxnId {
            boot,
            worker: cx.worker,
            seq,
            attempt: 1,
        };
        let priority = Priority {
            began: cx.turn.now,
            boot,
            seq,
        };
        (id, priority)
    }

    /// Every group has lent its values.
    pub(crate) fn set_out(&mut self, cx: &mut Context, mut lent: CheckedOut) {
        if !lent.is_vain() && lent.steps() > cx.turn.steps_max {
            return cx.outbox.offload_jobs.push(OffloadJob::checked_out(lent));
        }
        lent.run();
        self.give_back(cx, lent);
    }

    /// What groups have sent is too much to be worked on here.
    pub(crate) fn offload_evaluation(&mut self, cx: &mut Context, evaluation: Evaluation) {
        self.heavy.evaluations += 1;
        cx.outbox.offload_jobs.push(OffloadJob::fetched(evaluation));
    }

    /// Everything goes back to the groups.
    pub(crate) fn give_back(&mut self, cx: &mut Context, lent: CheckedOut) {
        let CheckedOut {
            txn,
            operations,
            mut scratch,
            replies,
            took,
            ..
        } = lent;
        let (concerned, caller) = self.offloaded(txn);
        for (operation, nanos) in operations.iter().zip(took) {
            cx.note_time(operation.spec, nanos, operation.args.as_args(), caller);
        }
        let groups = cx.groups;
        // Each group tells of its own keys: so what is told of one key keeps its order.
        let mut events = by_group(groups, scratch.take_events(), |event| &event.key);
        let mut returned: BTreeMap<GroupId, Vec<Returned>> = BTreeMap::new();
        scratch.check_in(|one| {
            let group = group_of_key(groups, one.key());
            returned.entry(group).or_default().push(one);
        });
        // Any group will do for these.
        let mut lazyfree = scratch.take_lazyfree();
        let (hits, misses) = scratch.take_lookups();
        let mut counts = LocalCounts { hits, misses };
        for group in concerned {
            let request = Request::CheckIn {
                txn,
                returned: returned.remove(&group).unwrap_or_default(),
                events: events.remove(&group).unwrap_or_default(),
                lazyfree: std::mem::take(&mut lazyfree),
                counts: std::mem::take(&mut counts),
            };
            cx.request(group, request);
        }
        self.answer_transaction(cx, txn, Answers::Whole(replies));
    }

    /// Sends a program on its way over several groups, or over one as a whole. Its number, if it was sent.
    pub(crate) fn start_transaction(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        program: Program,
        extent: Extent,
    ) -> Option<u64> {
        let mode = self.mode_of(cx, &program, &extent);
        self.open_transaction(cx, Client::alone(reply_to, program), extent, mode, false, true)
    }

    /// How a program is carried out that is a transaction.
    fn mode_of(&mut self, cx: &Context, program: &Program, extent: &Extent) -> TxnMode {
        let sees_whole = extent.sees_whole();
        // The result of a named one is kept with the votes, and so must be known before them.
        match (extent.flows || program.request.is_some(), extent.writes) {
            _ if extent.scans && cx.view.is_spread && !program.is_exec => TxnMode::PerGroup,
            (true, _) if sees_whole => TxnMode::LockInPlace,
            // Where groups have logs, a lock is an entry, and reading without one mostly does. A script that names keys as it
            // goes on reads them one after the other: with locks it would have to begin again for each.
            (true, _) if program.may_roam(cx) || extent.groups.is_empty() => TxnMode::OptimisticRead,
            // But where few keys are changed by many, most would be in vain, and each is two entries.
            (true, true)
                if cx.view.is_spread && extent.groups.len() > 1 && !self.one_phase.unlocked.may() =>
            {
                TxnMode::LockFirst
            }
            (true, _) if cx.view.is_spread => TxnMode::OptimisticRead,
            (true, _) => TxnMode::LockFirst,
            (false, false) if cx.view.is_spread => TxnMode::SnapshotRead,
            (false, true) if sees_whole => TxnMode::InPlace,
            (false, _) => TxnMode::Vote,
        }
    }

    /// Sends a single command on its way over several groups, that was sent to one before which says that not all of its keys are there: its
    /// connection, perhaps another worker's, does not know of a transaction.
    pub(crate) fn start_moved(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        program: Program,
        extent: Extent,
    ) {
        let mode = self.mode_of(cx, &program, &extent);
        self.open_transaction(cx, Client::alone(reply_to, program), extent, mode, true, true);
    }

    /// Sends a program on its way on values that are checked out for it; its number.
    pub(crate) fn start_offload(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        program: Program,
        extent: Extent,
        is_single: bool,
        touches: bool,
    ) -> Option<u64> {
        let client = Client::alone(reply_to, program);
        self.open_transaction(cx, client, extent, TxnMode::Offload, is_single, touches)
    }

    /// Sends combined commands on their way, as one transaction.
    pub(crate) fn start_combined(
        &mut self,
        cx: &mut Context,
        combined: Vec<Combined>,
        program: Program,
        extent: Extent,
    ) {
        let client = Client {
            reply_to: combined.first().expect("there is something").reply_to,
            program,
            // One by itself needs nobody to share its answer out.
            combined: if combined.len() > 1 { combined } else { Vec::new() },
        };
        self.open_transaction(cx, client, extent, TxnMode::Vote, false, true);
    }

    /// Sends a command on its way by itself that was combined with others, of which nothing was done.
    pub(crate) fn start_alone(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        program: Program,
        opened_at: Monotonic,
    ) {
        let extent = program.extent(cx.groups);
        let begun = self.open_transaction(
            cx,
            Client::alone(reply_to, program),
            extent,
            TxnMode::Vote,
            false,
            true,
        );
        if let Some(next) = begun.and_then(|seq| self.open.get_mut(&seq)) {
            next.opened_at = opened_at;
        }
    }

    fn open_transaction(
        &mut self,
        cx: &mut Context,
        client: Client,
        extent: Extent,
        mode: TxnMode,
        is_single: bool,
        touches: bool,
    ) -> Option<u64> {
        let (id, priority) = self.new_transaction(cx);
        let span = id.seq - self.lowest_open(id.seq).min(id.seq);
        let (open, settling) = self.counts();
        let (came_at, now) = (cx.timing.now(), cx.now);
        if mode != TxnMode::SnapshotRead && (span >= SPAN_MAX || open + settling >= UNFINISHED_MAX) {
            if is_single {
                self.fail_single(cx, client.reply_to, &client.program, BEHIND);
            } else {
                self.answer_client(cx, client, (Answers::Failed(BEHIND), cx.groups), Some(came_at));
            }
            return None;
        }
        cx.stats.transactions.add(client.combined.len().max(1) as u64);
        if cx.view.is_spread {
            // It is measured when it is answered.
            cx.timing.is_ours = false;
        }
        let groups = mode.groups_of(&client.program, &extent, cx.groups);
        let open = Open {
            id,
            began: priority.began,
            came_at: cx.view.is_spread.then_some(came_at),
            spent: None,
            is_single,
            touches,
            logged: BTreeSet::new(),
            client: Some(client),
            tally: VoteTally::new(groups.iter().copied()),
            groups,
            hosts: cx.groups,
            participants: [].into(),
            mode,
            phase: Phase::Reading,
            doubt: Doubt::None,
            writes: extent.writes,
            parts: BTreeMap::new(),
            wanted: BTreeMap::new(),
            refusers: Vec::new(),
            objects: BTreeMap::new(),
            is_offloaded: false,
            times: GroupTimes::default(),
            outstanding: 0,
            ahead: BTreeSet::new(),
            behind: Vec::new(),
            is_wide: false,
            run: None,
            run_place: RunPlace::Worker,
            evaluated: None,
            plan: Plan::default(),
            has_lost_replies: false,
            reads: Reads::default(),
            tries: 0,
            opened_at: now,
            long: Duration::ZERO,
            since: now,
        };
        self.open.insert(id.seq, Box::new(open));
        self.waited_for.insert(id.seq);
        self.attempt_transaction(cx, id.seq);
        Some(id.seq)
    }

    /// A command took so long here at once, and is noted when it is over.
    pub(crate) fn note_spent(&mut self, seq: u64, nanos: u64) {
        if let Some(open) = self.open.get_mut(&seq)
            && open.came_at.is_none()
            && open.mode != TxnMode::Offload
        {
            open.spent = Some(nanos);
        }
    }

    /// Sends the first messages of an attempt.
    fn attempt_transaction(&mut self, cx: &mut Context, seq: u64) {
        let (groups, is_spread) = (cx.groups, cx.view.is_spread);
        self.place_anew(cx, seq);
        let now = if is_spread {
            (cx.shared.hooks.monotonic)()
        } else {
            Monotonic(0)
        };
        let open = self.open.get_mut(&seq).expect("the caller opened it");
        let participants: Participants = open
            .groups
            .iter()
            .map(|group| cx.view.participant(*group))
            .collect();
        open.participants = participants.clone();
        let (txn, began) = (open.id, open.began);
        if is_spread && open.groups.iter().any(|group| cx.shared.is_cut_off(*group)) {
            // Nothing of this attempt was sent: the others' keys are not locked for it.
            return self.answer_transaction(cx, txn, Answers::Failed(UNREACHABLE));
        }
        if is_spread && open.writes && open.groups.iter().any(|group| cx.shared.is_full(*group)) {
            return self.answer_transaction(cx, txn, Answers::Failed(FULL));
        }
        let Some(Client {
            program, combined, ..
        }) = &open.client
        else {
            return;
        };
        open.parts.clear();
        open.objects.clear();
        let former = open.run.take();
        // What is elsewhere is of a former attempt, and dropped when it is back.
        open.run_place = RunPlace::Worker;
        open.is_offloaded = false;
        open.times.clear();
        open.evaluated = None;
        open.logged.clear();
        open.is_wide = false;
        open.ahead.clear();
        open.phase = match open.mode {
            TxnMode::SnapshotRead | TxnMode::OptimisticRead | TxnMode::PerGroup => Phase::Reading,
            TxnMode::LockFirst | TxnMode::LockInPlace | TxnMode::Offload => Phase::Locking,
            TxnMode::Vote | TxnMode::InPlace => Phase::Voting,
        };
        open.outstanding = open.groups.len();
        open.reads = Reads {
            sent_at: now,
            ..Reads::default()
        };
        open.tally = VoteTally::new(open.groups.iter().copied());
        forget_run(cx, former);
        let (mut parts, mut changed) = (None, None);
        let is_strict = program.is_strict();
        // What is checked out comes back without a result.
        let is_bounded = !is_spread && program.request.is_none() && program.can_be_offloaded();
        let part = |assignment| Part {
            txn,
            began,
            participants: participants.clone(),
            conditions: Vec::new(),
            expects: Vec::new(),
            assignment,
            is_bounded,
        };
        let is_first = open.mode == TxnMode::OptimisticRead && open.tries == 0;
        let is_scripted = program.scripted.is_some() && open.writes;
        let asks_leaders = program
            .scripted
            .as_ref()
            .is_some_and(|scripted| scripted.asks_leaders);
        open.reads.may_be_old = is_first
            && is_scripted
            && !asks_leaders
            && may_be_one_phase(cx, program)
            && self.one_phase.old_reads.may();
        let is_whole = program
            .operations()
            .any(|operation| operation.spec.route == CommandRoute::Everywhere);
        let asker = match is_whole {
            true => SnapshotAsker::OfAll(groups.hosting()),
            false => SnapshotAsker::OfKeys,
        };
        let mut requests = Vec::with_capacity(open.groups.len());
        for &group in &open.groups {
            let conditions = program.conditions_in(groups, group);
            let mut operations_there = || -> Vec<Operation> {
                let parts = parts.get_or_insert_with(|| match combined.is_empty() {
                    true => program.partition(groups),
                    false => combining::partition(program, groups, &open.groups),
                });
                let its = parts.remove(&group).unwrap_or_default();
                let (items, operations) = its.into_iter().unzip();
                open.parts.insert(group, (items, Replies::default()));
                operations
            };
            let request = match open.mode {
                TxnMode::SnapshotRead => Request::SnapshotRead {
                    txn,
                    conditions,
                    operations: operations_there(),
                    asker,
                },
                TxnMode::Vote | TxnMode::InPlace => {
                    let operations = operations_there();
                    let assignment = if open.mode == TxnMode::Vote {
                        Assignment::Evaluate {
                            operations,
                            is_strict,
                        }
                    } else {
                        Assignment::InPlace {
                            steps: operations.into_iter().map(Step::Run).collect(),
                            after_lock: false,
                        }
                    };
                    Request::Prepare(Box::new(Part {
                        conditions,
                        ..part(assignment)
                    }))
                }
                TxnMode::PerGroup => {
                    let Some(operation) = operations_there().into_iter().next() else {
                        open.outstanding -= 1;
                        continue;
                    };
                    Request::Part { txn, operation }
                }
                TxnMode::Offload => {
                    let is_there = |key: &[u8]| group_of_key(groups, key) == group;
                    let locks = locks_of(program.operations().map(Operation::argv), is_there);
                    let locks = with_conditions(locks, &conditions);
                    let objects = program.objects_in(groups, group, &open.wanted);
                    // Alone, even to read: a value that is checked out is with nobody else.
                    let locks = locks.and_shared(objects.iter().map(|(_, key)| key)).exclusive();
                    let keeps_place = open.groups.len() == 1;
                    Request::Prepare(Box::new(Part {
                        conditions,
                        is_bounded: false,
                        ..part(Assignment::CheckOut { locks, keeps_place })
                    }))
                }
                TxnMode::OptimisticRead => {
                    let mut keys = program.objects_in(groups, group, &open.wanted);
                    // If it is on its way already, its end is waited for. There is nothing under the name.
                    keys.extend(program.name_lock(groups, group));
                    let may_be_old = open.reads.may_be_old;
                    Request::OptimisticRead {
                        txn,
                        keys,
                        may_be_old,
                        is_holder: false,
                    }
                }
                TxnMode::LockFirst | TxnMode::LockInPlace => {
                    let changed = changed.get_or_insert_with(|| changed_keys(program));
                    let keys = program.objects_in(groups, group, &open.wanted).into_iter();
                    let writes_anywhere = program.may_write_anywhere();
                    let keys = keys.map(|(db, key)| {
                        let alone = match db {
                            // Those who call functions do not wait for each other.
                            Db::LIBRARIES => program.changes_libraries(),
                            _ => writes_anywhere || changed.contains(&key),
                        };
                        ((db, key), alone)
                    });
                    let name = program.name_lock(groups, group).map(|name| (name, true));
                    Request::Lock(Box::new(part(Assignment::Lock {
                        keys: keys.chain(name).collect(),
                        is_whole: open.mode == TxnMode::LockInPlace,
                    })))
                }
            };
            requests.push((group, request));
        }
        if requests.is_empty() && program.scripted.is_some() {
            return self.begin_run(cx, txn);
        }
        if requests.is_empty() {
            // Nothing was named at all: `EXEC` of connection commands never comes here, `DEL` of nothing is an error.
            return self.answer_transaction(cx, txn, Answers::Parts(BTreeMap::new()));
        }
        self.send_parts(cx, txn, requests);
    }

    /// Who hosts what may be known better than when the last attempt began: the groups of this one follow from what is known now.
    fn place_anew(&mut self, cx: &Context, seq: u64) {
        let groups = cx.groups;
        let Some(open) = self.open.get_mut(&seq).filter(|open| open.hosts != groups) else {
            return;
        };
        let Some(client) = open.client.take() else { return };
        let extent = client.program.extent(groups);
        // What values were to flow within one group may flow between two.
        let evaluates = |mode| matches!(mode, TxnMode::SnapshotRead | TxnMode::Vote | TxnMode::InPlace);
        let mode = match extent.flows && evaluates(open.mode) {
            true => self.mode_of(cx, &client.program, &extent),
            false => open.mode,
        };
        let open = self.open.get_mut(&seq).expect("it was found above");
        (open.hosts, open.mode) = (groups, mode);
        let wanted = std::mem::take(&mut open.wanted).into_values().flatten();
        for (group, keys) in by_their_groups(groups, wanted.collect()) {
            open.wanted.entry(group).or_default().extend(keys);
        }
        open.groups = match open.mode {
            TxnMode::LockInPlace => groups.hosting().to_vec(),
            mode => mode.groups_of(&client.program, &extent, groups),
        };
        open.client = Some(client);
        open.groups.extend(open.wanted.keys());
        open.groups.sort_unstable();
        open.groups.dedup();
    }

    /// Keys of a transaction belong to other groups than was thought. If nobody knows where they are, it tries again when that may be known.
    fn put_off(&mut self, cx: &mut Context, txn: TxnId) {
        let Some(open) = self.open_of(txn) else { return };
        cx.stats.transaction_retries.add(1);
        if open.hosts == cx.groups {
            self.unplaced.push(txn);
        } else {
            self.begin_again_transaction(cx, txn);
        }
    }

    /// Tries those again whose keys were nowhere.
    fn place_unplaced(&mut self, cx: &mut Context) {
        for txn in std::mem::take(&mut self.unplaced) {
            if self.open_of(txn).is_some() {
                self.begin_again_transaction(cx, txn);
            }
        }
    }

    /// Sends its groups what they have to do for a transaction. Those with long parts go first, and the others when these have
    /// voted: whoever is prepared and hears nothing for long asks the others, and would be told that the long part has not come.
    fn send_parts(&mut self, cx: &mut Context, txn: TxnId, requests: Vec<(GroupId, Request)>) {
        let long_bytes_min = cx.shared.hooks.piece_sizes.long_bytes_min;
        let is_long = |request: &Request| matches!(request, Request::Prepare(part) if part.byte_len() >= long_bytes_min);
        let (mut first, mut behind): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|(_, request)| is_long(request));
        let keys: usize = behind.iter().map(|(_, request)| keys_of(request)).sum();
        if first.is_empty() && behind.len() > 1 && keys > WIDE_KEYS_MIN {
            if let Some(open) = self.open_of(txn) {
                (open.is_wide, open.behind) = (true, behind);
                self.wide.voting.push_back(txn.seq);
            }
            return;
        }
        if first.is_empty() {
            first = std::mem::take(&mut behind);
        } else if let Some(open) = self.open_of(txn) {
            open.ahead = first.iter().map(|(group, _)| *group).collect();
            open.behind = behind;
        }
        cx.outbox.requests.extend(first);
    }

    /// Whether groups are to be told something of a transaction with very many keys.
    #[inline]
    pub(crate) fn has_wide(&self) -> bool {
        !self.wide.voting.is_empty() || !self.wide.decisions.is_empty()
    }

    /// Tells one of them, or as many as have few keys; every other time it is called.
    pub(crate) fn send_wide(&mut self, cx: &mut Context) {
        self.wide.rests = !self.wide.rests;
        if !self.wide.rests {
            return;
        }
        if let Some((group, decision)) = self.wide.decisions.pop_front() {
            return cx.request(group, decision);
        }
        while let Some(seq) = self.wide.voting.pop_front() {
            let open = self.open.get_mut(&seq);
            let Some(open) = open.filter(|open| open.is_wide && !open.behind.is_empty()) else {
                continue;
            };
            let (mut count, mut keys) = (0, 0);
            for (_, request) in &open.behind {
                keys += keys_of(request);
                if count > 0 && keys > WIDE_KEYS_MIN {
                    break;
                }
                count += 1;
            }
            for (group, request) in open.behind.drain(..count) {
                open.ahead.insert(group);
                cx.request(group, request);
            }
            return;
        }
    }

    /// A group has answered commands that only read.
    pub(crate) fn on_snapshot_read(&mut self, cx: &mut Context, txn: TxnId, group: GroupId, seen: Seen) {
        let now = (cx.shared.hooks.monotonic)();
        let Some(open) = self.open_of(txn) else { return };
        let Some(replies) = seen.replies else {
            return self.answer_transaction(cx, txn, Answers::Refused);
        };
        if open.run.is_some() {
            return self.on_whole_part(cx, txn, group, replies);
        }
        open.reads.is_together &= is_old_enough(seen.age, now.since(open.reads.sent_at));
        if let Some((_, held)) = open.parts.get_mut(&group) {
            *held = replies;
        }
        if !open.has_all() {
            return;
        }
        if open.groups.len() == 1 || open.reads.is_together || mutations::is(Mutation::AgeNotChecked) {
            let parts = std::mem::take(&mut open.parts);
            return self.answer_transaction(cx, txn, Answers::Parts(parts));
        }
        open.tries += 1;
        if open.tries > TRIES_MAX
            && let Some(Client { program, .. }) = &open.client
        {
            open.mode = TxnMode::Vote;
            open.groups = open
                .mode
                .groups_of(program, &program.extent(open.hosts), open.hosts);
        }
        cx.stats.transaction_retries.add(1);
        self.begin_again_transaction(cx, txn);
    }

    /// A group has sent objects.
    pub(crate) fn on_optimistic_read(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        group: GroupId,
        objects: Vec<(Option<SeenObject>, KeyVersion)>,
        age: Duration,
        time: UnixMillis,
    ) {
        let now = (cx.shared.hooks.monotonic)();
        let Some(open) = self.open_of(txn) else { return };
        open.times.note(group, time);
        open.reads.is_together &= is_old_enough(age, now.since(open.reads.sent_at));
        self.on_objects(cx, txn, group, objects);
    }

    /// A group has locked keys, or let their values be checked out, and sent their objects.
    pub(crate) fn on_locked(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        group: GroupId,
        is_logged: bool,
        time: UnixMillis,
        objects: Vec<Option<SeenObject>>,
    ) {
        let Some(open) = self.open_of(txn) else { return };
        open.times.note(group, time);
        if is_logged {
            open.logged.insert(group);
        }
        self.on_held(cx, txn, group, objects);
    }

    /// A group has sent the objects of keys that are locked.
    fn on_held(&mut self, cx: &mut Context, txn: TxnId, group: GroupId, objects: Vec<Option<SeenObject>>) {
        let absent = KeyVersion::Absent(ids::Version(0));
        let objects = objects.into_iter().map(|object| (object, absent)).collect();
        self.on_objects(cx, txn, group, objects);
    }

    fn on_objects(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        group: GroupId,
        objects: Vec<(Option<SeenObject>, KeyVersion)>,
    ) {
        let Some(open) = self.open_of(txn) else { return };
        if open.objects.insert(group, objects).is_some() {
            return;
        }
        if !open.has_all() {
            return;
        }
        if open.mode == TxnMode::Offload {
            return self.set_out_with(cx, txn);
        }
        self.evaluate_transaction(cx, txn);
    }

    /// A group has done its part of what each does for itself.
    pub(crate) fn on_part_done(&mut self, cx: &mut Context, txn: TxnId, group: GroupId, replies: Replies) {
        let Some(open) = self.open_of(txn) else { return };
        if let Some((_, held)) = open.parts.get_mut(&group) {
            *held = replies;
        }
        if open.has_all() {
            let parts = std::mem::take(&mut open.parts);
            self.answer_transaction(cx, txn, Answers::Parts(parts));
        }
    }

    /// All groups hold what is to be checked out: they are asked for it.
    fn check_out(&mut self, cx: &mut Context, txn: TxnId) {
        let Some(open) = self.open_of(txn) else { return };
        let groups = open.hosts;
        let Some(Client { program, .. }) = &open.client else {
            // It was told that it is not known, and nobody is left for whom it would be carried out.
            self.end_attempt(cx, txn, false);
            self.open.remove(&txn.seq);
            return;
        };
        let of = |&group: &GroupId| {
            let keys = program.objects_in(groups, group, &open.wanted);
            (group, Request::CheckOut { txn, keys })
        };
        let requests: Vec<(GroupId, Request)> = open.groups.iter().map(of).collect();
        open.phase = Phase::CheckedOut;
        open.outstanding = open.groups.len();
        cx.outbox.requests.extend(requests);
    }

    /// All values are here: the commands are carried out on them, on another thread.
    fn set_out_with(&mut self, cx: &mut Context, txn: TxnId) {
        let (turn, limits) = (cx.turn, cx.limits);
        let (clock, shared) = (cx.timing.clock(), cx.shared.clone());
        let Some(open) = self.open_of(txn) else { return };
        let groups = open.hosts;
        if !open.refusers.is_empty() {
            return self.put_back(cx, txn);
        }
        let Some(Client {
            program, reply_to, ..
        }) = &open.client
        else {
            return;
        };
        let mut scratch: Scratch = turn.scratch(open.times.earliest());
        scratch.set_limits(limits);
        for (group, objects) in std::mem::take(&mut open.objects) {
            let keys = program.objects_in(groups, group, &open.wanted);
            for ((db, key), (object, _)) in keys.into_iter().zip(objects) {
                scratch.place(db, &key, object.and_then(SeenObject::into_object));
            }
        }
        scratch.touch(open.touches);
        let operations: Vec<Operation> = program.operations().cloned().collect();
        let times = operations
            .iter()
            .map(|operation| open.times.of(operation, groups));
        let times = times.collect();
        let client = shared.clients.at(reply_to.worker, reply_to.connection);
        self.set_out(
            cx,
            CheckedOut::new(txn, client, operations, times, scratch, clock),
        );
    }

    /// Some of the values were not handed over: those that were go back as they are, and it is carried out in another way.
    fn put_back(&mut self, cx: &mut Context, txn: TxnId) {
        let Some(open) = self.open_of(txn) else { return };
        let groups = open.hosts;
        let Some(Client { program, .. }) = &open.client else {
            return;
        };
        let refusers = std::mem::take(&mut open.refusers);
        let mut requests = Vec::new();
        for (group, objects) in std::mem::take(&mut open.objects) {
            if refusers.contains(&group) {
                continue;
            }
            let keys = program.objects_in(groups, group, &open.wanted);
            let values = keys.into_iter().zip(objects);
            let returned = values
                .filter_map(|((db, _), (object, _))| Some(Returned::Unchanged(db, object?.into_object()?)));
            let request = Request::CheckIn {
                txn,
                returned: returned.collect(),
                events: Vec::new(),
                lazyfree: Lazyfree::default(),
                counts: LocalCounts::default(),
            };
            requests.push((group, request));
        }
        cx.outbox.requests.extend(requests);
        // Whatever they still hold for it, they let go.
        self.settle(cx, txn, refusers, false, true);
        self.leave_offload(cx, txn);
    }

    /// The groups of an open transaction, and who asked for it.
    pub(crate) fn offloaded(&self, txn: TxnId) -> (Vec<GroupId>, Caller<'static>) {
        let open = self.open.get(&txn.seq);
        let open = open.expect("nothing ends it before its values are back");
        let client = open.client.as_ref().expect("nobody gives it up");
        (open.groups.clone(), Caller::of(client.reply_to))
    }

    /// All objects are here: the commands are carried out on a scratch, on another thread if it is much.
    fn evaluate_transaction(&mut self, cx: &mut Context, txn: TxnId) {
        let evaluations = self.heavy.evaluations;
        let (turn, limits, now) = (cx.turn, cx.limits, cx.now);
        let Some(open) = attempt(&mut self.open, txn) else {
            return;
        };
        let groups = open.hosts;
        let Some(Client { program, .. }) = &open.client else {
            return;
        };
        if program.scripted.is_some() {
            return self.begin_run(cx, txn);
        }
        let after_lock = open.mode.locks_first();
        let mut fetched = Fetched::default();
        for (group, objects) in std::mem::take(&mut open.objects) {
            let keys = program.objects_in(groups, group, &open.wanted);
            for ((db, key), (object, version)) in keys.into_iter().zip(objects) {
                if !after_lock {
                    let unchanged = Condition::Unchanged {
                        db,
                        key: key.clone(),
                        version,
                    };
                    fetched.expects.entry(group).or_default().push(unchanged);
                }
                fetched.objects.push(((db, key), object));
            }
        }
        let is_whole = open.mode == TxnMode::LockInPlace;
        let time_of = |operation: &Operation| open.times.of(operation, groups);
        let may_leave = cx.view.is_spread && !is_whole && evaluations < EVALUATIONS_MAX;
        if may_leave && fetched.is_much(turn.steps_max) {
            let operations = program.operations().cloned();
            let operations = operations.map(|operation| {
                let time = time_of(&operation);
                (operation, time)
            });
            let mut scratch = turn.scratch(open.times.earliest());
            scratch.set_limits(limits);
            let evaluation = Evaluation {
                txn,
                groups,
                operations: operations.collect(),
                scratch: Some(scratch),
                fetched,
                evaluated: None,
            };
            open.allow_for(evaluation.fetched.byte_len(), now);
            open.is_offloaded = true;
            return self.offload_evaluation(cx, evaluation);
        }
        let mut scratch = turn.scratch_in(self.scratch.take(), open.times.earliest());
        scratch.set_limits(limits);
        let expects = std::mem::take(&mut fetched.expects);
        if fetched.place_on(&mut scratch).is_none() {
            return self.on_failed_transaction(cx, txn, UNREACHABLE);
        }
        let evaluated = if is_whole {
            let (plan, lacks) = match Plan::make(program, groups, &open.times, &mut scratch) {
                Ok(plan) => (plan, Vec::new()),
                Err(lacks) => (Plan::default(), lacks),
            };
            open.plan = plan;
            Evaluated {
                lacks,
                replies: Replies::default(),
                effects: effects_of(&mut scratch, groups),
            }
        } else {
            let operations = program.operations();
            let evaluated = evaluate(
                &mut scratch,
                groups,
                operations.map(|operation| (operation, time_of(operation))),
            );
            if scratch.is_small() {
                // It is empty now.
                self.scratch = Some(scratch);
            }
            evaluated
        };
        self.go_on_with(cx, txn, evaluated, expects);
    }

    /// What groups have sent goes onto the scratch of a program with scripts, which goes on.
    fn begin_run(&mut self, cx: &mut Context, txn: TxnId) {
        let (turn, limits) = (cx.turn, cx.limits);
        let Some(open) = attempt(&mut self.open, txn) else {
            return;
        };
        let groups = open.hosts;
        let Some(Client { program, .. }) = &open.client else {
            return;
        };
        let after_lock = open.mode.locks_first();
        let mut run = match open.run.take() {
            Some(run) => run,
            None if self.running.runs() >= RUNS_MAX => return self.give_up_run(cx, txn, TOO_MANY_RUNS),
            None => {
                let opened_at = ProgramRun::opening(cx, &open.times);
                let mut scratch = turn.scratch_in(self.scratch.take(), opened_at);
                scratch.set_limits(limits);
                Box::new(ProgramRun::new(scratch, opened_at, &self.running))
            }
        };
        run.rounds += 1;
        let mut sent = Vec::new();
        for (group, objects) in std::mem::take(&mut open.objects) {
            let keys = run.asked.remove(&group);
            let keys = keys.unwrap_or_else(|| program.objects_in(groups, group, &open.wanted));
            let its = keys
                .into_iter()
                .zip(objects)
                .map(|(key, (object, version))| SentObject {
                    group,
                    key,
                    object,
                    version: (!after_lock).then_some(version),
                });
            sent.extend(its);
        }
        if let Err(error) = run.place_all(sent) {
            let may_be_old = open.reads.may_be_old;
            forget_run(cx, Some(run));
            return match may_be_old {
                true => self.look_again(cx, txn),
                false => self.give_up_run(cx, txn, error),
            };
        }
        open.run = Some(run);
        self.go_on_answered(cx, txn);
    }

    /// A program with scripts has what it asked for.
    fn go_on_answered(&mut self, cx: &mut Context, txn: TxnId) {
        let Some(open) = attempt(&mut self.open, txn) else {
            return;
        };
        if open.run.as_ref().is_some_and(|run| run.is_to_give_way()) {
            return self.runnable.push_back(txn.seq);
        }
        self.go_on_with_run(cx, txn, FIRST_INSTRUCTIONS);
    }

    /// A program with scripts goes on.
    fn go_on_with_run(&mut self, cx: &mut Context, txn: TxnId, instructions: u64) {
        let Some(open) = attempt(&mut self.open, txn) else {
            return;
        };
        let (Some(client), Some(run)) = (&open.client, open.run.take()) else {
            return;
        };
        let around = Surroundings {
            groups: open.hosts,
            times: &open.times,
            shared: &cx.shared,
            began: open.began,
            scope: &client.program.scope,
            has_locked_all: open.has_locked_all(open.hosts),
            semantics: cx.turn.semantics,
            is_worker: true,
            steps_max: cx.turn.steps_max,
        };
        let stopped = run.go_on(&mut cx.scripts.runner, &client.program, &around, instructions);
        self.on_stopped(cx, txn, stopped, false);
    }

    /// A program with scripts has stopped, here or elsewhere.
    fn on_stopped(&mut self, cx: &mut Context, txn: TxnId, stopped: RunStopped, was_away: bool) {
        let Some(open) = attempt(&mut self.open, txn) else {
            return;
        };
        let Some(client) = &mut open.client else { return };
        let (run, stop) = match stopped {
            RunStopped::Waits(run, stop) => (run, stop),
            RunStopped::Over(ended) => return self.on_ended(cx, txn, *ended),
        };
        match stop {
            RunStop::Heavy => {
                open.run_place = RunPlace::InLine;
                open.run = Some(run);
                self.heavy.in_line.push_back(txn.seq);
                self.send_heavy(cx);
            }
            // It stays there until it waits for others: what has been heavy mostly goes on so.
            RunStop::Spent if was_away => {
                open.run_place = RunPlace::InLine;
                open.run = Some(run);
                self.heavy.in_line.push_back(txn.seq);
            }
            RunStop::Spent => {
                open.run = Some(run);
                self.runnable.push_back(txn.seq);
            }
            RunStop::Lacks(keys) => {
                run.note_roaming(&mut cx.scripts);
                open.run = Some(run);
                let place = client.reply_to.place();
                self.go_on_to_name(cx, txn, place, More::Keys(keys));
            }
            RunStop::Asks(parts) => {
                let asker = match run.walks() {
                    true => SnapshotAsker::Walker(open.hosts.hosting()),
                    false => SnapshotAsker::Holder,
                };
                open.run = Some(run);
                open.parts.clear();
                open.outstanding = parts.len();
                let requests = parts.into_iter().map(|(group, operation)| {
                    let request = Request::SnapshotRead {
                        txn,
                        conditions: Vec::new(),
                        operations: vec![operation],
                        asker,
                    };
                    (group, request)
                });
                cx.outbox.requests.extend(requests);
            }
            RunStop::LocksAll => {
                open.run = Some(run);
                let place = client.reply_to.place();
                self.go_on_to_name(cx, txn, place, More::WholeKeyspace);
            }
            RunStop::Failed(_) if open.reads.may_be_old && !run.is_killed() => {
                forget_run(cx, Some(run));
                self.look_again(cx, txn);
            }
            RunStop::Failed(error) => {
                open.run = Some(run);
                self.give_up_run(cx, txn, error);
            }
            RunStop::Over => unreachable!("its end was looked at above"),
        }
    }

    /// A program with scripts has come to its end.
    fn on_ended(&mut self, cx: &mut Context, txn: TxnId, mut ended: EndedRun) {
        let Some(open) = attempt(&mut self.open, txn) else {
            return;
        };
        let Some(client) = &mut open.client else { return };
        if let Some(scripted) = &mut client.program.scripted {
            scripted.published = ended.published;
        }
        let mut is_known = false;
        if open.mode == TxnMode::LockInPlace {
            let items = client.program.operation_items().collect();
            let replies = std::mem::take(&mut ended.evaluated.replies);
            let effects = std::mem::take(&mut ended.evaluated.effects);
            // It was all so when the last group was locked, if all have said since that they were locked still.
            is_known = ended.whole.has_heard_all() && client.program.conditions.is_empty();
            open.plan = ended.whole.into_plan(effects, (items, replies));
            is_known &= open.plan.steps.is_empty();
        }
        self.keep_scratch(ended.scratch);
        if is_known {
            return self.end_unchanged(cx, txn);
        }
        self.go_on_after_evaluation(cx, txn, ended.evaluated, ended.expects, ended.is_one_round);
    }

    /// Those that are to go on elsewhere do, as many as there is room for.
    fn send_heavy(&mut self, cx: &mut Context) {
        while self.heavy.away < HEAVY_RUNS_MAX {
            let Some(seq) = self.heavy.in_line.pop_front() else {
                return;
            };
            let Some(open) = self.open.get_mut(&seq) else {
                continue;
            };
            if open.run_place != RunPlace::InLine || open.outstanding > 0 {
                continue;
            }
            let Some(client) = &open.client else { continue };
            let has_locked_all = open.has_locked_all(open.hosts);
            let Some(run) = open.run.take() else { continue };
            open.run_place = RunPlace::Away;
            self.heavy.away += 1;
            cx.outbox.offload_jobs.push(OffloadJob::heavy(HeavyRun {
                txn: open.id,
                program: client.program.to_carry_out(),
                groups: open.hosts,
                times: open.times.clone(),
                shared: cx.shared.clone(),
                began: open.began,
                has_locked_all,
                semantics: cx.turn.semantics,
                runner: ScriptRunner::new(cx.scripts.runner.draws.next_u64()),
                is_encoded: cx.view.is_spread,
                state: HeavyState::Begins(run),
            }));
        }
    }

    /// A program with scripts has gone on elsewhere. Of an attempt that was given up meanwhile nothing is wanted.
    pub(crate) fn on_heavy_run(&mut self, cx: &mut Context, heavy: HeavyRun) {
        self.heavy.away -= 1;
        let txn = heavy.txn;
        let HeavyState::Stopped(stopped) = heavy.state else {
            unreachable!("it was carried out")
        };
        match attempt(&mut self.open, txn).filter(|open| open.run_place == RunPlace::Away) {
            Some(open) => {
                open.run_place = RunPlace::Worker;
                // It is its worker's alone again.
                drop(heavy.program);
                self.on_stopped(cx, txn, stopped, true);
            }
            None => match stopped {
                RunStopped::Waits(run, _) => forget_run(cx, Some(run)),
                RunStopped::Over(ended) => {
                    let bytes = ended.evaluated.replies.bytes().len();
                    cx.outbox
                        .offload_jobs
                        .extend(cx.scripts.drop_elsewhere(ended, bytes));
                }
            },
        }
        self.send_heavy(cx);
    }

    /// A program that has locked all groups, and heard of all of them since, has changed nothing: no votes are asked for.
    fn end_unchanged(&mut self, cx: &mut Context, txn: TxnId) {
        let Some(open) = self.open_of(txn) else { return };
        let (_, replies) = std::mem::take(&mut open.plan).evaluated;
        self.end_attempt(cx, txn, false);
        self.answer_transaction(cx, txn, Answers::Whole(replies));
    }

    /// A group has answered a program that has locked it.
    fn on_whole_part(&mut self, cx: &mut Context, txn: TxnId, group: GroupId, replies: Replies) {
        let Some(open) = self.open_of(txn) else { return };
        if open.parts.insert(group, (Vec::new(), replies)).is_some() || !open.has_all() {
            return;
        }
        let parts = std::mem::take(&mut open.parts).into_iter();
        let of_group = |(group, (_, replies)): (GroupId, (_, Replies))| (group, replies.bytes().to_vec());
        let parts = parts.map(of_group).collect();
        if let Some(run) = &mut open.run {
            run.on_answered(parts, open.hosts, cx.turn.answers_bytes_max);
        }
        self.go_on_answered(cx, txn);
    }

    /// A program with scripts is to have all groups for itself: it begins anew, with their locks.
    fn lock_whole(&mut self, cx: &mut Context, txn: TxnId) {
        let groups = cx.groups;
        let Some(open) = self.open_of(txn) else { return };
        if open.phase.has_asked() {
            self.end_attempt(cx, txn, false);
        }
        let Some(open) = self.open_of(txn) else { return };
        open.mode = TxnMode::LockInPlace;
        open.groups = groups.hosting().to_vec();
        cx.stats.transaction_retries.add(1);
        self.begin_again_transaction(cx, txn);
    }

    /// A script of this place names more than it has said: what stands before it is done first.
    fn go_on_to_name(&mut self, cx: &mut Context, txn: TxnId, place: (u64, u64), more: More) {
        match self.one_phase.is_behind(place) {
            true => drop(self.one_phase.held_back.insert(place, (txn, more))),
            false => self.get_more(cx, txn, more),
        }
    }

    fn get_more(&mut self, cx: &mut Context, txn: TxnId, more: More) {
        match more {
            More::Keys(keys) => self.ask_for_more(cx, txn, keys),
            More::WholeKeyspace => self.lock_whole(cx, txn),
        }
    }

    /// A script names keys that are not on its scratch.
    fn ask_for_more(&mut self, cx: &mut Context, txn: TxnId, keys: Vec<FullKey>) {
        let Some(open) = self.open_of(txn) else { return };
        let groups = open.hosts;
        let asked = by_their_groups(groups, keys);
        for (group, keys) in &asked {
            open.wanted
                .entry(*group)
                .or_default()
                .extend(keys.iter().cloned());
        }
        let is_whole = open.mode == TxnMode::LockInPlace;
        if is_whole && !asked.keys().all(|group| open.groups.contains(group)) {
            return self.lock_whole(cx, txn);
        }
        open.groups.extend(asked.keys());
        open.groups.sort_unstable();
        open.groups.dedup();
        open.participants = open
            .groups
            .iter()
            .map(|group| cx.view.participant(*group))
            .collect();
        if open.mode == TxnMode::LockFirst {
            // Which locks it needs is found out without any: then all are taken together.
            open.mode = TxnMode::OptimisticRead;
            self.end_attempt(cx, txn, false);
            cx.stats.transaction_retries.add(1);
            return self.begin_again_transaction(cx, txn);
        }
        if !is_whole {
            open.tally = VoteTally::new(open.groups.iter().copied());
        }
        if cx.view.is_spread {
            let mut concerned = asked.keys();
            if concerned.any(|group| cx.shared.is_cut_off(*group)) {
                return self.give_up_run(cx, txn, UNREACHABLE);
            }
            if open.writes && asked.keys().any(|group| cx.shared.is_full(*group)) {
                return self.give_up_run(cx, txn, FULL);
            }
        }
        open.outstanding = asked.len();
        let may_be_old = open.reads.may_be_old;
        let requests = asked.iter().map(|(group, keys)| {
            let keys = keys.clone();
            (
                *group,
                Request::OptimisticRead {
                    txn,
                    keys,
                    may_be_old,
                    is_holder: is_whole,
                },
            )
        });
        cx.outbox.requests.extend(requests);
        if let Some(run) = &mut open.run {
            run.asked = asked;
        }
    }

    /// Nothing of a program with scripts is done.
    fn give_up_run(&mut self, cx: &mut Context, txn: TxnId, error: &'static str) {
        let Some(open) = self.open_of(txn) else { return };
        forget_run(cx, open.run.take());
        if open.phase.has_asked() {
            self.end_attempt(cx, txn, false);
        }
        self.answer_transaction(cx, txn, Answers::Failed(error));
    }

    /// Whether any program with scripts has given way to others, and may go on.
    #[inline]
    pub(crate) fn has_runnable(&self) -> bool {
        !self.runnable.is_empty()
    }

    /// The next one of those has its turn.
    pub(crate) fn run_scripts(&mut self, cx: &mut Context) {
        while let Some(seq) = self.runnable.pop_front() {
            let open = self.open.get(&seq);
            if let Some(open) = open.filter(|open| open.is_runnable()) {
                let txn = open.id;
                let place = open.client.as_ref().map(|client| client.reply_to.place());
                if place.is_some_and(|place| self.one_phase.held_back.contains_key(&place)) {
                    continue;
                }
                return self.go_on_with_run(cx, txn, TURN_INSTRUCTIONS);
            }
        }
    }

    /// Another thread has carried the commands out. Of an attempt that was given up meanwhile nothing is wanted.
    pub(crate) fn on_evaluated(&mut self, cx: &mut Context, evaluation: Evaluation) {
        self.heavy.evaluations -= 1;
        let txn = evaluation.txn;
        let Some(open) = self.open_of(txn).filter(|open| open.is_offloaded) else {
            return;
        };
        open.is_offloaded = false;
        match evaluation.evaluated {
            Some(evaluated) => self.go_on_with(cx, txn, evaluated, evaluation.fetched.expects),
            None => self.on_failed_transaction(cx, txn, UNREACHABLE),
        }
    }

    /// Asks for votes on what the commands have changed, or begins again if they want more.
    fn go_on_with(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        evaluated: Evaluated,
        expects: BTreeMap<GroupId, Vec<Condition>>,
    ) {
        self.go_on_after_evaluation(cx, txn, evaluated, expects, false);
    }

    /// The same, if `is_one_round`, of values that were all sent together.
    fn go_on_after_evaluation(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        evaluated: Evaluated,
        mut expects: BTreeMap<GroupId, Vec<Condition>>,
        is_one_round: bool,
    ) {
        let now = cx.now;
        let Some(open) = self.open_of(txn) else {
            return;
        };
        let groups = open.hosts;
        let Some(Client { program, .. }) = &open.client else {
            return;
        };
        let after_lock = open.mode.locks_first();
        let Evaluated {
            lacks,
            replies: evaluated,
            mut effects,
        } = evaluated;

        if !lacks.is_empty() {
            for (db, key) in lacks {
                let group = group_of_key(groups, &key);
                open.wanted.entry(group).or_default().insert((db, key));
            }
            open.groups.extend(open.wanted.keys());
            open.groups.sort_unstable();
            open.groups.dedup();
            if open.phase.has_asked() {
                self.end_attempt(cx, txn, false);
            }
            return self.begin_again_transaction(cx, txn);
        }
        let is_scripted = program.scripted.is_some();
        if open.groups.is_empty() {
            return self.answer_transaction(cx, txn, Answers::Whole(evaluated));
        }
        let reads_only = !open.writes || is_scripted && effects.is_empty();
        if reads_only && open.reads.may_be_old && !mutations::is(Mutation::OldReadTold) {
            // Nobody votes on it, and what it was shown may be behind.
            self.one_phase.old_reads.note(false);
            return self.look_again(cx, txn);
        }
        if reads_only && !after_lock && program.conditions.is_empty() {
            let is_one_look = is_scripted && is_one_round && open.groups.len() == 1;
            if open.reads.is_together || is_one_look || mutations::is(Mutation::AgeNotChecked) {
                return self.answer_transaction(cx, txn, Answers::Whole(evaluated));
            }
        }
        // A script is not run again for that: the groups vote on its having been so.
        if !open.writes && !is_scripted && !after_lock && program.conditions.is_empty() {
            open.tries += 1;
            if open.tries <= TRIES_MAX {
                cx.stats.transaction_retries.add(1);
                return self.begin_again_transaction(cx, txn);
            }
        }
        let bytes: usize = effects.values().flatten().map(Effect::byte_len).sum();
        let seen: usize = expects.values().flatten().map(|seen| seen.key().len()).sum();
        let is_short = is_short(cx, bytes + seen);
        if let [group] = open.groups[..]
            && open.mode == TxnMode::OptimisticRead
            && !effects.is_empty()
            && is_short
            && may_be_one_phase(cx, program)
        {
            let expects = expects.remove(&group).unwrap_or_default();
            let effects = effects.remove(&group).unwrap_or_default();
            open.evaluated = Some(evaluated);
            return self.send_one_phase(cx, txn, group, expects, effects);
        }
        open.phase = Phase::Voting;
        open.outstanding = open.groups.len();
        open.allow_for(bytes, now);
        let Some(Client { program, .. }) = &open.client else {
            return;
        };
        let mut requests = Vec::new();
        for &group in &open.groups {
            let assignment = if open.mode == TxnMode::LockInPlace {
                let items = open.plan.items.remove(&group).unwrap_or_default();
                open.parts.insert(group, (items, Replies::default()));
                Assignment::InPlace {
                    steps: open.plan.steps.remove(&group).unwrap_or_default(),
                    after_lock,
                }
            } else {
                Assignment::Install {
                    effects: effects.remove(&group).unwrap_or_default(),
                    after_lock,
                    result: program.result_in(groups, group, &evaluated),
                }
            };
            let part = Part {
                txn,
                began: open.began,
                participants: open.participants.clone(),
                conditions: program.conditions_in(groups, group),
                expects: if after_lock {
                    Vec::new()
                } else {
                    expects.remove(&group).unwrap_or_default()
                },
                assignment,
                is_bounded: false,
            };
            requests.push((group, Request::Prepare(Box::new(part))));
        }
        open.evaluated = (!open.mode.is_in_place()).then_some(evaluated);
        self.send_parts(cx, txn, requests);
    }

    /// All that a transaction has read and changes is in one group: one entry carries it out, if nothing of it has changed. From here on it is
    /// as a command is that is sent there.
    fn send_one_phase(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        group: GroupId,
        expects: Vec<Condition>,
        effects: Vec<Effect>,
    ) {
        let Some(open) = self.open.remove(&txn.seq) else {
            return;
        };
        self.waited_for.remove(&txn.seq);
        let client = open.client.as_ref().expect("the caller has looked");
        let reply_to = client.reply_to;
        let passed = &mut self.one_phase.passed;
        if may_be_passed(&client.program, &expects) && passed.insert(reply_to.place()) {
            let mut slots: Vec<Slot> = client.program.slots().collect();
            slots.sort_unstable();
            slots.dedup();
            cx.deliver(Delivery::Passable { reply_to, slots });
        }
        self.one_phase.sent.insert(reply_to.place(), Sent::Read(open));
        let one_phase = Request::OnePhase {
            reply_to,
            expects,
            effects,
        };
        cx.request(group, one_phase);
    }

    /// Whether scripts may be shown what replicas here have applied, which may be behind.
    pub(crate) fn may_read_old(&mut self) -> bool {
        self.one_phase.old_reads.may()
    }

    /// An empty scratch at `time`, to be given back with [`Coordinator::keep_scratch`].
    pub(crate) fn scratch(&mut self, cx: &Context, time: UnixMillis) -> Scratch {
        let mut scratch = cx.turn.scratch_in(self.scratch.take(), time);
        scratch.set_limits(cx.limits);
        scratch
    }

    /// Keeps an emptied scratch for the next ones, unless its tables have grown large.
    pub(crate) fn keep_scratch(&mut self, scratch: Scratch) {
        if scratch.is_small() {
            self.scratch = Some(scratch);
        }
    }

    /// Sends a group what came of a script. `is_passed`: what stands behind the script does not wait for it.
    pub(crate) fn send_copied(
        &mut self,
        cx: &mut Context,
        group: GroupId,
        script: CopiedScript,
        expects: Vec<Condition>,
        effects: Vec<Effect>,
        is_passed: bool,
    ) {
        let reply_to = script.client.reply_to;
        if is_passed {
            self.one_phase.passed.insert(reply_to.place());
        }
        let sent = Sent::Copied(Box::new(script));
        self.one_phase.sent.insert(reply_to.place(), sent);
        let one_phase = Request::OnePhase {
            reply_to,
            expects,
            effects,
        };
        cx.request(group, one_phase);
    }

    /// A group has answered what may be a transaction in one phase: whether it was carried out. `false` if it is none.
    pub(crate) fn on_one_phase(&mut self, cx: &mut Context, reply_to: ReplyTo, is_carried_out: bool) -> bool {
        let Some(sent) = self.one_phase.sent.remove(&reply_to.place()) else {
            return false;
        };
        let is_old = match &sent {
            Sent::Read(open) => open.reads.may_be_old,
            Sent::Copied(_) => true,
        };
        if is_old {
            self.one_phase.old_reads.note(is_carried_out);
        }
        match (sent, is_carried_out) {
            (Sent::Read(mut open), true) => {
                let evaluated = open.evaluated.take().unwrap_or_default();
                self.end_one_phase(cx, open.client.take(), Answers::Whole(evaluated), open.came_at);
            }
            (Sent::Copied(script), true) => {
                cx.stats.transactions.add(1);
                cx.stats.scripts.on_copies.add(1);
                let CopiedScript {
                    client,
                    replies,
                    came_at,
                    ..
                } = *script;
                self.end_one_phase(cx, Some(client), Answers::Whole(replies), Some(came_at));
            }
            (Sent::Read(mut open), false) => {
                // Groups may have been told that all up to its number are over.
                (open.id, _) = self.new_transaction(cx);
                let txn = open.id;
                self.open.insert(txn.seq, open);
                self.waited_for.insert(txn.seq);
                self.look_again(cx, txn);
            }
            (Sent::Copied(script), false) => self.begin_copied(cx, *script),
        }
        true
    }

    /// Something that a script was shown has changed: it begins anew, as a program.
    fn begin_copied(&mut self, cx: &mut Context, script: CopiedScript) {
        let CopiedScript {
            mut client,
            came_at,
            opened_at,
            ..
        } = script;
        if let Some(scripted) = &mut client.program.scripted {
            scripted.asks_leaders = true;
            scripted.published.clear();
        }
        cx.stats.scripts.as_transactions.add(1);
        cx.stats.transaction_retries.add(1);
        let reply_to = client.reply_to;
        let extent = client.program.extent(cx.groups);
        let mode = TxnMode::OptimisticRead;
        let begun = self.open_transaction(cx, client, extent, mode, false, true);
        match begun.map(|seq| self.open.get_mut(&seq)) {
            // The deadline does not move.
            Some(Some(open)) => (open.opened_at, open.came_at) = (opened_at, Some(came_at)),
            Some(None) => {}
            None => self.end_passed(cx, reply_to),
        }
    }

    /// There is no answer to what may be a transaction in one phase, and this is why. `false` if it is none.
    pub(crate) fn on_failed_one_phase(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        error: &'static str,
    ) -> bool {
        let Some(sent) = self.one_phase.sent.remove(&reply_to.place()) else {
            return false;
        };
        let (client, came_at) = match sent {
            Sent::Read(mut open) => (open.client.take(), open.came_at),
            Sent::Copied(script) => (Some(script.client), Some(script.came_at)),
        };
        self.end_one_phase(cx, client, Answers::Failed(error), came_at);
        true
    }

    fn end_one_phase(
        &mut self,
        cx: &mut Context,
        client: Option<Client>,
        answers: Answers,
        came_at: Option<u64>,
    ) {
        if let Some(client) = client {
            let reply_to = client.reply_to;
            self.answer_client(cx, client, (answers, cx.groups), came_at);
            self.end_passed(cx, reply_to);
        }
    }

    /// A client was answered: the scripts behind it may have waited for that, if others were let pass it.
    fn end_passed(&mut self, cx: &mut Context, reply_to: ReplyTo) {
        if !self.one_phase.passed.remove(&reply_to.place()) {
            return;
        }
        while let Some((txn, more)) = self.one_phase.let_go(reply_to.connection) {
            self.get_more(cx, txn, more);
        }
    }

    /// A group has voted.
    pub(crate) fn on_vote(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        group: GroupId,
        vote: Vote,
        is_logged: bool,
        replies: Replies,
    ) {
        if self.on_move_vote(cx, txn, group, vote, &replies) {
            return;
        }
        let Some(open) = self.open_of(txn) else { return };
        if !open.groups.contains(&group) {
            return;
        }
        if is_logged {
            open.logged.insert(group);
        }
        if open.phase == Phase::CheckedOut {
            // All have voted. This one was asked for values, and has none.
            open.refusers.push(group);
            return self.on_held(cx, txn, group, Vec::new());
        }
        if vote == Vote::Refused(Refusal::Moved) {
            let elsewhere = replies.iter().next().map(Moved::read).unwrap_or_default();
            cx.learn_moved(&elsewhere);
        } else if vote == Vote::Refused(Refusal::Known) {
            open.evaluated = Some(replies);
        } else if vote == Vote::Refused(Refusal::Failed) {
            let error = replies.iter().find(|reply| reply.first() == Some(&b'-'));
            let error = error.map(<[u8]>::to_vec).unwrap_or_default();
            open.evaluated = Some(Replies::of([&*error]));
        } else if let Some((_, held)) = open.parts.get_mut(&group)
            && !open.mode.is_in_place()
        {
            *held = replies;
        }
        let decision = open.tally.on_vote(group, vote);
        let decision = match decision {
            None if mutations::is(Mutation::CommitWithoutAll) && open.tally.on_wound().len() == 1 => {
                Some(Decision::Commit)
            }
            decision => decision,
        };
        match decision {
            None => {
                open.ahead.remove(&group);
                if open.ahead.is_empty() && open.is_wide {
                    self.wide.voting.push_back(txn.seq);
                } else if open.ahead.is_empty() {
                    for (group, request) in std::mem::take(&mut open.behind) {
                        cx.request(group, request);
                    }
                }
            }
            Some(Decision::Commit) => self.commit_transaction(cx, txn),
            Some(Decision::Abort(refusal)) => self.abort_transaction(cx, txn, refusal),
        }
    }

    /// Every group has prepared.
    fn commit_transaction(&mut self, cx: &mut Context, txn: TxnId) {
        let Some(open) = self.open_of(txn) else { return };
        if open.mode == TxnMode::Offload {
            return self.check_out(cx, txn);
        }
        let is_in_place = open.mode.is_in_place();
        if open.mode == TxnMode::OptimisticRead && open.groups.len() > 1 {
            self.one_phase.unlocked.note(true);
        }
        let Some(open) = self.open_of(txn) else { return };
        let answers = match open.evaluated.take() {
            Some(evaluated) => Answers::Whole(evaluated),
            None if is_in_place && open.client.is_none() => {
                // It was told that it is not known, and nobody waits for the replies.
                self.end_attempt(cx, txn, true);
                self.open.remove(&txn.seq);
                return;
            }
            None if is_in_place => {
                open.phase = Phase::Committed;
                open.outstanding = open.groups.len();
                return self.end_attempt(cx, txn, true);
            }
            None => Answers::Parts(std::mem::take(&mut open.parts)),
        };
        self.end_attempt(cx, txn, true);
        self.answer_transaction(cx, txn, answers);
    }

    /// A group has refused.
    fn abort_transaction(&mut self, cx: &mut Context, txn: TxnId, refusal: Refusal) {
        self.end_attempt(cx, txn, false);
        let Some(open) = self.open_of(txn) else { return };
        match refusal {
            Refusal::Condition => return self.answer_transaction(cx, txn, Answers::Refused),
            Refusal::Failed => {
                let error = open.evaluated.take().unwrap_or_default();
                return self.answer_transaction(cx, txn, Answers::Whole(error));
            }
            Refusal::Known => {
                let known = open.evaluated.take().unwrap_or_default().into_once();
                let answers =
                    known.map_or_else(|standing| Answers::Failed(error_of(standing)), Answers::Whole);
                return self.answer_transaction(cx, txn, answers);
            }
            Refusal::Busy if open.mode == TxnMode::Offload => return self.leave_offload(cx, txn),
            Refusal::Busy => return self.answer_transaction(cx, txn, Answers::Failed(BUSY)),
            Refusal::Over => return self.answer_transaction(cx, txn, Answers::Failed(TAKEN_FOR_DEAD)),
            Refusal::Queried if open.doubt != Doubt::None => {
                let error = if open.is_running() {
                    TOO_LONG_RUN
                } else {
                    TIMED_OUT
                };
                return self.answer_transaction(cx, txn, Answers::Failed(error));
            }
            Refusal::Changed => {
                if open.mode == TxnMode::OptimisticRead && open.groups.len() > 1 {
                    self.one_phase.unlocked.note(false);
                }
                return self.look_again(cx, txn);
            }
            Refusal::TooLarge => (open.mode, open.spent) = (TxnMode::Offload, None),
            // Where they are is known by now, or will be before long.
            Refusal::Moved => return self.put_off(cx, txn),
            Refusal::Wounded | Refusal::Queried | Refusal::Renewed => {}
        }
        cx.stats.transaction_retries.add(1);
        self.begin_again_transaction(cx, txn);
    }

    /// What was read without locks has changed.
    fn look_again(&mut self, cx: &mut Context, txn: TxnId) {
        let may_again = self.one_phase.unlocked.may();
        let Some(open) = self.open_of(txn) else { return };
        open.tries += 1;
        open.mode = if open.tries > TRIES_MAX || open.groups.len() > 1 && !may_again {
            TxnMode::LockFirst
        } else {
            TxnMode::OptimisticRead
        };
        cx.stats.transaction_retries.add(1);
        self.begin_again_transaction(cx, txn);
    }

    /// One of the groups of what was to be offloaded has a log by now: it is carried out as any other is.
    fn leave_offload(&mut self, cx: &mut Context, txn: TxnId) {
        cx.stats.transaction_retries.add(1);
        let Some(mut open) = self.open.remove(&txn.seq) else {
            return;
        };
        self.waited_for.remove(&txn.seq);
        let Some(Client {
            reply_to, program, ..
        }) = open.client.take()
        else {
            return;
        };
        if let (true, [group], Some(operation)) =
            (open.is_single, &open.groups[..], program.operations().next())
        {
            let operation = operation.clone();
            return cx.request(*group, Request::Execute { reply_to, operation });
        }
        let extent = program.extent(cx.groups);
        let begun = self.start(cx, reply_to, program, extent);
        if let Some(next) = begun.and_then(|seq| self.open.get_mut(&seq)) {
            (next.opened_at, next.long) = (open.opened_at, open.long);
        }
    }

    /// An older transaction waits for this one at a group that is alone, or the group is to get a log and waits for it to end: it is
    /// withdrawn where it only waits.
    pub(crate) fn on_wound(&mut self, cx: &mut Context, txn: TxnId) {
        let Some(open) = self.open_of(txn).filter(|open| open.phase.has_asked()) else {
            return;
        };
        for group in open.tally.on_wound() {
            cx.request(group, Request::Wound { txn });
        }
    }

    /// Tells all participants of an attempt how it ended.
    fn end_attempt(&mut self, cx: &mut Context, txn: TxnId, is_committed: bool) {
        let (is_spread, worker) = (cx.view.is_spread, cx.worker);
        let Some(open) = self.open_of(txn) else { return };
        let is_awaited = open.phase == Phase::Committed;
        if !is_awaited {
            open.phase = Phase::Reading;
        }
        open.behind.clear();
        let (groups, is_wide) = (open.groups.clone(), open.is_wide);
        // Who has voted without a log has none before it is told. Who has not may have one by now: where that can be, the
        // end of an attempt that nobody has committed is not left to chance. Nor is what was found by asking: those votes are in
        // logs, though none may have come here.
        let is_found = open.doubt != Doubt::None;
        if is_found || !open.logged.is_empty() || is_spread && !is_committed {
            return self.settle(cx, txn, groups, is_committed, true);
        }
        for group in groups {
            let decide = Request::Decide {
                txn,
                is_committed,
                is_awaited,
                worker,
                is_final: true,
            };
            self.tell_decision(cx, group, decide, is_wide);
        }
    }

    /// A group is told of a decision, if it is about very many keys when others have had their turn.
    fn tell_decision(&mut self, cx: &mut Context, group: GroupId, decision: Request, is_wide: bool) {
        match is_wide {
            true => self.wide.decisions.push_back((group, decision)),
            false => cx.request(group, decision),
        }
    }

    /// Tells participants what was decided, until all have recorded it.
    pub(crate) fn settle(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        groups: Vec<GroupId>,
        is_committed: bool,
        forgets: bool,
    ) {
        if self.settling.contains_key(&txn) {
            // It is decided once. Who recovers a dead coordinator's transaction may hear, late, from one that has forgotten it,
            // and of our own it may be found, after a group began anew, that nothing of it was left.
            return;
        }
        let open = self.open_of(txn);
        let is_wide = open.as_ref().is_some_and(|open| open.is_wide);
        let has_log = |open: &mut Open| open.groups.iter().all(|group| open.logged.contains(group));
        let settling = Settling {
            outstanding: groups.iter().copied().collect(),
            groups: groups.clone(),
            is_logged: !is_committed || open.is_none_or(has_log),
            is_committed,
            forgets,
        };
        self.settling.insert(txn, settling);
        for &group in &groups {
            let decision = self.decision(cx, txn, is_committed);
            self.tell_decision(cx, group, decision, is_wide);
        }
        if mutations::is(Mutation::ForgottenEarly) {
            self.forget_everywhere(cx, txn, &groups);
        }
    }

    fn decision(&self, cx: &Context, txn: TxnId, is_committed: bool) -> Request {
        let open = self.open.get(&txn.seq);
        Request::Decide {
            txn,
            is_committed,
            // The replies of what groups carry out when it is decided.
            is_awaited: open.is_some_and(|open| open.id == txn && open.phase == Phase::Committed),
            worker: cx.worker,
            is_final: false,
        }
    }

    /// A group has recorded the end of a transaction.
    pub(crate) fn on_decided(&mut self, cx: &mut Context, txn: TxnId, group: GroupId, replies: Replies) {
        let mut is_awaited = false;
        if let Some(open) = self.open_of(txn).filter(|open| open.phase == Phase::Committed) {
            if let Some((items, held)) = open.parts.get_mut(&group) {
                // Of a coordinator that was taken for dead, nothing is kept.
                open.has_lost_replies |= replies.iter().count() != items.len();
                *held = replies;
            }
            is_awaited = true;
            if open.has_all() {
                let parts = std::mem::take(&mut open.parts);
                let answers = match open.has_lost_replies {
                    true => Answers::Failed(UNKNOWN),
                    false => std::mem::take(&mut open.plan).answers(parts),
                };
                self.answer_transaction(cx, txn, answers);
            }
        }
        let Some(settling) = self.settling.get_mut(&txn) else {
            if !is_awaited && self.is_ours(cx, txn) {
                // It had a log when it was told of the end of an attempt, and its coordinator took it for one that has none.
                self.forget_everywhere(cx, txn, &[group]);
            }
            return;
        };
        settling.outstanding.remove(&group);
        if !settling.outstanding.is_empty() {
            return;
        }
        let settling = self.settling.remove(&txn).expect("looked at a moment ago");
        if settling.forgets {
            self.forget_everywhere(cx, txn, &settling.groups);
        }
    }

    /// It is not known whether a group was told: it is told again, as soon as it can be.
    pub(crate) fn on_undecided(&mut self, cx: &mut Context, txn: TxnId, group: GroupId) {
        let settling = self.settling.get(&txn);
        if let Some(settling) = settling.filter(|settling| settling.outstanding.contains(&group)) {
            if cx.shared.is_cut_off(group) {
                self.untold.entry(group).or_default().insert(txn);
                return;
            }
            let request = self.decision(cx, txn, settling.is_committed);
            cx.request(group, request);
        } else if !self.has(txn) && self.is_ours(cx, txn) {
            // Only the end of what nobody has committed is told to a group with a log without waiting for it to be recorded.
            self.settle(cx, txn, vec![group], false, true);
        }
    }

    fn is_ours(&self, cx: &Context, txn: TxnId) -> bool {
        txn.boot == cx.boot() && txn.worker == cx.worker
    }

    /// Tells groups that are in reach again what was decided meanwhile.
    fn tell_untold(&mut self, cx: &mut Context) {
        let shared = &cx.shared;
        let reached = self.untold.extract_if(.., |group, _| !shared.is_cut_off(*group));
        for (group, decided) in reached.collect::<Vec<_>>() {
            for txn in decided {
                self.on_undecided(cx, txn, group);
            }
        }
    }

    fn forget_everywhere(&mut self, cx: &mut Context, txn: TxnId, groups: &[GroupId]) {
        let is_ours = self.is_ours(cx, txn);
        // Of somebody else's, nothing is known of the others.
        let low = if is_ours { self.lowest_open(txn.seq) } else { 0 };
        for &group in groups {
            if is_ours && low <= txn.seq {
                let behind = self.behind.entry(group).or_default();
                *behind = (*behind).max(txn.seq);
            }
            cx.request(group, Request::Forget { txn, low });
        }
    }

    /// All of this worker's transactions below are over everywhere, or written down by whoever has a part in them, if those up
    /// to `newest` are all that there were. Only what has a client may be begun again.
    fn lowest_open(&self, newest: u64) -> u64 {
        let first = self.waited_for.first().copied();
        first
            .into_iter()
            .chain(self.moving.seq())
            .min()
            .unwrap_or(newest + 1)
    }

    /// Tells groups that know of transactions by their numbers alone that all up to there are over.
    fn raise_marks(&mut self, cx: &mut Context) {
        let Some(&newest) = self.behind.values().max() else {
            return;
        };
        let low = self.lowest_open(newest);
        let (boot, worker) = (cx.boot(), cx.worker);
        let behind = self.behind.extract_if(.., |_, seq| *seq < low);
        for (group, seq) in behind.collect::<Vec<_>>() {
            let txn = TxnId {
                boot,
                worker,
                seq,
                attempt: 0,
            };
            cx.request(group, Request::Forget { txn, low });
        }
    }

    /// The next attempt, of the same age.
    fn begin_again_transaction(&mut self, cx: &mut Context, txn: TxnId) {
        let now = cx.now;
        let Some(open) = self.open_of(txn) else { return };
        if open.client.is_none() {
            self.open.remove(&txn.seq);
            return;
        }
        if mutations::is(Mutation::DeadlinePerAttempt) {
            open.opened_at = now;
        }
        if open.is_ending(now) {
            return self.answer_transaction(cx, txn, Answers::Failed(TIMED_OUT));
        }
        open.id.attempt += 1;
        open.since = now;
        open.doubt = Doubt::None;
        self.attempt_transaction(cx, txn.seq);
    }

    /// Answers the client, and ends here.
    pub(crate) fn answer_transaction(&mut self, cx: &mut Context, txn: TxnId, answers: Answers) {
        let Some(mut open) = self.open.remove(&txn.seq) else {
            return;
        };
        self.waited_for.remove(&txn.seq);
        forget_run(cx, open.run.take());
        if let Answers::Refused = answers {
            cx.stats.transactions_refused.add(1);
        }
        let is_ending = open.is_ending(cx.now);
        let Some(client) = open.client.take() else {
            return;
        };
        let (reply_to, program) = (client.reply_to, &client.program);
        if let (Some(nanos), Some(operation)) = (open.spent, program.operations().next()) {
            let (spec, args) = operation.argv();
            cx.note_time(spec, nanos, args, Caller::of(reply_to));
        }
        match answers {
            Answers::Whole(replies) if open.is_single => self.answer_single(cx, reply_to, program, replies),
            Answers::Failed(error) if open.is_single => self.fail_single(cx, reply_to, program, error),
            Answers::Parts(parts) if open.is_single => {
                let mut replies = Replies::default();
                if let Some(operation) = program.operations().next() {
                    let parts: Vec<(GroupId, &[u8])> = parts
                        .iter()
                        .filter_map(|(group, (_, replies))| Some((*group, replies.iter().next()?)))
                        .collect();
                    replies.push(operation.protocol, |out| {
                        crate::program::merge(operation, open.hosts, &parts, &mut cx.prng, out);
                    });
                }
                self.answer_single(cx, reply_to, program, replies);
            }
            // Nothing was done, perhaps because of a group that only one of them has named.
            Answers::Failed(UNREACHABLE | BUSY | TOO_LONG | FULL)
                if !client.combined.is_empty() && !is_ending =>
            {
                for (client, program) in combining::apart(client.combined, client.program) {
                    self.start_alone(cx, client.reply_to, program, open.opened_at);
                }
            }
            answers => self.answer_client(cx, client, (answers, open.hosts), open.came_at),
        }
        self.end_passed(cx, reply_to);
    }

    /// Answers whoever waits for a transaction, each for his own command.
    fn answer_client(
        &mut self,
        cx: &mut Context,
        client: Client,
        (answers, hosts): (Answers, Groups),
        came_at: Option<u64>,
    ) {
        let Client {
            reply_to,
            program,
            combined,
        } = client;
        let mut finish = |reply_to, program, replies, came_at| {
            let answered = Answered {
                reply_to,
                program,
                replies,
                hosts,
            };
            cx.outbox.finished.push_back(Finished { answered, came_at });
        };
        if combined.is_empty() {
            return finish(reply_to, program, answers, came_at);
        }
        let each = combining::share_out(answers);
        for (client, program) in combining::apart(combined, program) {
            finish(client.reply_to, program, each(), Some(client.came_at));
        }
    }

    /// The same with an error.
    fn fail_single(&mut self, cx: &mut Context, reply_to: ReplyTo, program: &Program, error: &'static str) {
        let mut replies = Replies::default();
        replies.push(Protocol::Resp2, |writer| writer.error(error));
        self.answer_single(cx, reply_to, program, replies);
    }

    /// Answers a single command, perhaps of another worker's connection: as its group would have.
    fn answer_single(&mut self, cx: &mut Context, reply_to: ReplyTo, program: &Program, replies: Replies) {
        if replies.bytes().first() == Some(&b'-')
            && let Some(operation) = program.operations().next()
        {
            cx.stats.by_command[operation.spec.id].failed.add(1);
        }
        let replies = Some(replies);
        cx.outbox
            .outputs
            .push_back(Output::Answered { reply_to, replies });
    }

    /// A group could not be asked, or what came of it is not known.
    pub(crate) fn on_failed_transaction(&mut self, cx: &mut Context, txn: TxnId, error: &'static str) {
        let is_certain = matches!(error, UNREACHABLE | TOO_LONG);
        if self.on_failed_move(cx, txn, is_certain) {
            return;
        }
        let Some(open) = self.open_of(txn) else { return };
        match open.phase {
            // What looks at groups as a whole would wait for a moment in which nobody holds a lock there. It takes its place in
            // the queue instead, where those that are younger do not overtake it.
            Phase::Reading if open.mode == TxnMode::SnapshotRead && error == CROWDED_OUT => {
                open.mode = TxnMode::Vote;
                cx.stats.transaction_retries.add(1);
                self.begin_again_transaction(cx, txn);
            }
            Phase::Reading => self.answer_transaction(cx, txn, Answers::Failed(of_a_read(error))),
            // Its end is told again until it is recorded, whatever became of this request.
            Phase::Committed => {}
            // A read under its locks, which did nothing either.
            Phase::Locking if open.is_running() => self.give_up_run(cx, txn, of_a_read(error)),
            Phase::Locking | Phase::Voting | Phase::CheckedOut if is_certain => {
                // The part was never sent, and will not be.
                self.end_attempt(cx, txn, false);
                self.answer_transaction(cx, txn, Answers::Failed(error));
            }
            Phase::Locking | Phase::Voting | Phase::CheckedOut => self.ask_participants(cx, txn),
        }
    }

    /// Asks the participants what has become of a transaction of this worker.
    fn ask_participants(&mut self, cx: &mut Context, txn: TxnId) {
        let Some(open) = self.open_of(txn) else { return };
        if open.doubt == Doubt::None {
            open.doubt = Doubt::Queried;
        }
        let participants = open.participants.clone();
        self.recover(cx, txn, participants);
    }

    /// What the participants of a transaction of this worker have written down decides it. `true` if it is one.
    pub(crate) fn on_recovered(&mut self, cx: &mut Context, txn: TxnId, decision: Option<Decision>) -> bool {
        if self.on_move_recovered(cx, txn, decision) {
            return true;
        }
        let Some(open) = self.open_of(txn) else {
            return self.settling.contains_key(&txn);
        };
        match decision {
            // It waits for the groups to carry it out, whatever else they have written.
            _ if open.phase == Phase::Committed => {}
            // The votes are on their way, with the replies; if the client was told already, they are not waited for.
            Some(Decision::Commit) if open.client.is_some() => open.doubt = Doubt::FoundCommitted,
            Some(Decision::Commit) => {
                self.end_attempt(cx, txn, true);
                self.open.remove(&txn.seq);
            }
            Some(Decision::Abort(_)) => self.abort_transaction(cx, txn, Refusal::Queried),
            None => self.answer_transaction(cx, txn, Answers::Failed(UNKNOWN)),
        }
        true
    }

    /// Time passes: whoever waits too long for votes, or has no more time, asks what has become of his transaction; whoever does not learn it is
    /// told that it is not known, and it is asked for until somebody knows.
    pub(crate) fn tick_transaction(&mut self, cx: &mut Context) {
        self.raise_marks(cx);
        self.tell_untold(cx);
        self.place_unplaced(cx);
        self.tick_move(cx);
        self.drop_lost_txn_queries(cx);
        let (now, is_spread) = (cx.now, cx.view.is_spread);
        // While all groups are on this node, they answer, if not at once: a key may be held for long.
        // Nor is anybody silent while a script runs: its groups have answered.
        let is_waiting = |open: &Open| open.has_deadline() && !open.is_running();
        let is_silent = |open: &Open| is_spread && is_waiting(open) && now.since(open.since) >= PATIENCE;
        let open = self.open.values();
        let late: Vec<TxnId> = open
            .filter(|open| open.phase.has_asked() && open.doubt != Doubt::FoundCommitted)
            .filter(|open| is_silent(open) || open.is_ending(now))
            .map(|open| open.id)
            .collect();
        for txn in late {
            self.ask_participants(cx, txn);
        }
        let open = self.open.values();
        let lost: Vec<TxnId> = open
            .filter(|open| open.client.is_some() && open.is_overdue(now))
            .map(|open| open.id)
            .collect();
        for txn in lost {
            let open = self.open.get_mut(&txn.seq).expect("looked at a moment ago");
            match open.phase {
                Phase::Reading => {
                    // It has done nothing, and whatever still comes is of no use.
                    let error = match (open.is_offloaded, open.is_running()) {
                        (true, _) => TOO_SLOW,
                        (false, true) => TOO_LONG_RUN,
                        (false, false) => UNREACHABLE,
                    };
                    self.answer_transaction(cx, txn, Answers::Failed(error));
                    continue;
                }
                Phase::Committed => {
                    // It is carried out, and only what it answers is missing.
                    self.answer_transaction(cx, txn, Answers::Failed(UNKNOWN));
                    continue;
                }
                Phase::Locking | Phase::Voting | Phase::CheckedOut => {}
            }
            let is_found_committed = open.doubt == Doubt::FoundCommitted;
            let came_at = open.came_at;
            self.waited_for.remove(&txn.seq);
            if let Some(client) = open.client.take() {
                let reply_to = client.reply_to;
                self.answer_client(cx, client, (Answers::Failed(UNKNOWN), cx.groups), came_at);
                self.end_passed(cx, reply_to);
            }
            if is_found_committed {
                self.end_attempt(cx, txn, true);
                self.open.remove(&txn.seq);
            }
        }
    }
}

/// How many keys a group is to look at to vote on this.
fn keys_of(request: &Request) -> usize {
    let Request::Prepare(part) = request else {
        return 0;
    };
    let effects = match &part.assignment {
        Assignment::Move(_) => 0,
        Assignment::Install { effects, .. } => effects.len(),
        Assignment::InPlace { steps, .. } => {
            let installed = steps.iter().map(|step| match step {
                Step::Run(_) => 0,
                Step::Install(effects) => effects.len(),
            });
            installed.sum()
        }
        Assignment::Evaluate { .. } | Assignment::Lock { .. } | Assignment::CheckOut { .. } => 0,
    };
    effects + part.expects.len()
}

/// Whether one entry may carry out what a program has read and changes, if that is in one group.
fn may_be_one_phase(cx: &Context, program: &Program) -> bool {
    // What a client has named is kept with a vote, and of a watched key it is told that it has changed.
    may_be_one_phase_here(cx) && program.request.is_none() && program.conditions.is_empty()
}

/// Whether so many bytes of values and of keys that were seen go in one piece: what goes in several is voted on.
pub(crate) fn is_short(cx: &Context, bytes: usize) -> bool {
    // Half of it: what stands around keys and values counts too.
    bytes < cx.shared.hooks.piece_sizes.long_bytes_min / 2
}

/// Whether all nodes know entries of one phase, and groups have logs: with several replicas, or on disk.
pub(crate) fn may_be_one_phase_here(cx: &Context) -> bool {
    cx.turn.semantics >= SemanticsVersion::ONE_PHASE && cx.view.is_spread
}

/// Whether what a client has sent behind a script may pass it: it has named no key that it had not declared, and tells nobody anything.
fn may_be_passed(program: &Program, expects: &[Condition]) -> bool {
    let Some(scripted) = program.scripted.as_ref().filter(|_| !program.is_exec) else {
        return false;
    };
    let is_declared = |seen: &Condition| {
        let is_library = matches!(
            seen,
            Condition::Unchanged {
                db: Db::LIBRARIES,
                ..
            }
        );
        let slot = Slot::of_key(seen.key());
        is_library || program.slots().any(|declared| declared == slot)
    };
    scripted.has_more_behind
        && scripted.published.is_empty()
        && !program.changes_libraries()
        && expects.iter().all(is_declared)
}

/// What is said of a read that was not answered: it did nothing, whatever is not known.
fn of_a_read(error: &'static str) -> &'static str {
    match error.starts_with("UNKNOWN") {
        true => UNREACHABLE,
        false => error,
    }
}

/// Drops what is left of a program with scripts, on another thread if it is much.
fn forget_run(cx: &mut Context, run: Option<Box<ProgramRun>>) {
    if let Some(mut run) = run.filter(|run| run.is_large()) {
        // Nobody can kill it any more.
        run.end_long();
        let bytes = run.bytes();
        let dropped = cx.scripts.drop_elsewhere(run, bytes);
        cx.outbox.offload_jobs.extend(dropped);
    }
}

/// An open transaction, if this is its attempt.
fn attempt(open: &mut BTreeMap<u64, Box<Open>>, txn: TxnId) -> Option<&mut Open> {
    let is_its = |open: &&mut Open| open.id == txn || mutations::is(Mutation::AttemptIgnored);
    open.get_mut(&txn.seq).map(|open| &mut **open).filter(is_its)
}

/// Whether what had not changed for so long when it was read was there when the reads were sent, if sending, reading and
/// receiving took no longer than `took`. Clocks may differ by a sixteenth in their rates, and tick at different moments.
fn is_old_enough(age: Duration, took: Duration) -> bool {
    age > took + took / 16
}

/// The keys that the commands of a program may change.
fn changed_keys(program: &Program) -> BTreeSet<Box<[u8]>> {
    let mut changed = BTreeSet::new();
    for operation in program.operations() {
        operation.keys(|key, key_use| {
            if key_use != command::KeyUse::Read {
                changed.insert(Box::from(key));
            }
        });
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Connection;
    use crate::endpoint::Endpoint;
    use crate::gateway::Gateway;
    use crate::shared::Shared;
    use ids::{Boot, GroupCount, Groups, HashSeed};
    use options::Sources;
    use resp::ArgsBuf;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    fn feed(gateway: &mut Gateway, connection: &mut Connection, line: &str) {
        gateway.feed(connection, format!("{line}\r\n").as_bytes());
    }

    fn reply(gateway: &mut Gateway, connection: &mut Connection) -> String {
        while let Some(delivery) = gateway.next_delivery() {
            gateway.deliver(connection, delivery);
        }
        let ready = connection.pipeline.ready().to_vec();
        connection.pipeline.sent(ready.len());
        String::from_utf8_lossy(&ready).replace("\r\n", " ")
    }

    /// A node of one worker that is alone, a client of it, and two keys of different groups.
    fn alone() -> (Gateway, Arc<Shared>, Connection, [String; 2]) {
        let settings = options::load(&Sources::default()).expect("no option is given");
        let groups = Groups::with_default_partitions(GroupCount::new(4).expect("a valid count"));
        let shared = Arc::new(Shared::new(Boot(1), "run".into(), 0, 6379, groups, 1, settings));
        let gateway = Gateway::new(0, shared.clone(), HashSeed([1, 7]), 1);
        let client = Connection::by(Endpoint::AnyNode);
        shared.clients.add(client.session.info.clone());
        let mut keys = (0..).map(|at| format!("k{at}"));
        let one = keys.next().expect("there are more");
        let other =
            keys.find(|key| group_of_key(groups, key.as_bytes()) != group_of_key(groups, one.as_bytes()));
        let keys = [one, other.expect("there are several groups")];
        (gateway, shared, client, keys)
    }

    /// Makes each of the keys a set of fifty members, more than which commands may walk over at once from here on.
    fn make_large(gateway: &mut Gateway, shared: &Shared, client: &mut Connection, keys: &[String]) {
        let members: Vec<String> = (0..50).map(|member| format!("m{member}")).collect();
        for key in keys {
            feed(gateway, client, &format!("SADD {key} {}", members.join(" ")));
            assert_eq!(reply(gateway, client), ":50 ");
        }
        shared.steps_max.store(8, Ordering::Relaxed);
    }

    #[test]
    fn a_relative_deadline_of_what_is_offloaded_counts_from_its_groups_time() {
        let (mut gateway, shared, mut client, keys) = alone();
        let [one, other] = &keys;
        // The wall clock is set back by an hour: the groups' time does not go back.
        let hour = 3_600_000;
        gateway.begin_turn(UnixMillis(hour));
        make_large(&mut gateway, &shared, &mut client, &keys);
        gateway.begin_turn(UnixMillis(1));
        for line in [
            "MULTI",
            &format!("SUNION {one} {other}"),
            &format!("PEXPIRE {other} 500"),
            "EXEC",
        ] {
            feed(&mut gateway, &mut client, line);
        }
        gateway.pump();
        let mut offload_jobs = gateway.take_offload_jobs();
        assert_eq!(offload_jobs.len(), 1, "it is too large to be carried out at once");
        offload_jobs[0].run();
        offload_jobs
            .into_iter()
            .for_each(|offload_job| gateway.on_offload_job(offload_job));
        let answered = reply(&mut gateway, &mut client);
        assert!(answered.ends_with(" :1 "), "the deadline is set: {answered}");
        feed(&mut gateway, &mut client, &format!("PTTL {other}"));
        assert_eq!(reply(&mut gateway, &mut client), ":500 ");
    }

    #[test]
    fn what_was_found_committed_is_told_until_all_have_recorded_it_though_no_vote_came() {
        let (mut gateway, _, client, [one, other]) = alone();
        gateway.begin_turn(UnixMillis(1));
        let words = ArgsBuf::from_slices(["MSET", &one, "1", &other, "1"]);
        let operation = client
            .session
            .operation(command::CommandId::MSet.spec(), words.as_args());
        let program = Program::single(operation);
        let extent = program.extent(gateway.cx.groups);
        let reply_to = ReplyTo {
            worker: 0,
            connection: client.session.info.id,
            sequence: 0,
        };
        let (coordinator, cx) = (&mut gateway.coordinator, &mut gateway.cx);
        let seq = coordinator
            .start(cx, reply_to, program, extent)
            .expect("one of two groups");
        let txn = coordinator.open[&seq].id;
        // Its groups have written down their votes, and these are lost; its client is told that nobody knows.
        cx.outbox.requests.clear();
        cx.now = Monotonic(2 * DEADLINE.as_nanos() as u64);
        coordinator.tick_transaction(cx);
        let asked: Vec<GroupId> = cx.outbox.requests.drain(..).map(|(group, _)| group).collect();
        let [first, second] = asked[..] else {
            panic!("both are asked: {asked:?}")
        };
        for group in [first, second] {
            coordinator.on_queried_txn(cx, txn, group, txn::VoteRecord::Prepared);
        }
        let commits = |cx: &mut Context| -> Vec<GroupId> {
            let told = cx.outbox.requests.drain(..);
            told.map(|(group, request)| match request {
                Request::Decide {
                    is_committed: true,
                    is_final: false,
                    ..
                } => group,
                _ => panic!("{group:?} is told something else"),
            })
            .collect()
        };
        assert_eq!(commits(cx), [first, second]);
        coordinator.on_decided(cx, txn, first, Replies::default());
        assert_eq!(commits(cx), [], "nobody forgets it yet");
        coordinator.on_undecided(cx, txn, second);
        assert_eq!(commits(cx), [second], "it is told again");
        coordinator.on_decided(cx, txn, second, Replies::default());
        let told = cx.outbox.requests.drain(..);
        let forget = told.filter(|(_, request)| matches!(request, Request::Forget { .. }));
        assert_eq!(forget.count(), 2);
    }

    #[test]
    fn values_go_back_if_a_group_does_not_hand_its_own_over() {
        let (mut gateway, shared, mut client, keys) = alone();
        let [one, other] = &keys;
        let groups = gateway.cx.groups;
        make_large(&mut gateway, &shared, &mut client, &keys);
        gateway.begin_turn(UnixMillis(1));
        let words = ArgsBuf::from_slices(["SUNION", one.as_str(), other.as_str()]);
        let operation = client
            .session
            .operation(command::CommandId::SUnion.spec(), words.as_args());
        gateway.begin(&mut client, Program::single(operation));
        let refuser = group_of_key(groups, other.as_bytes());
        let mut refused = 0;
        while let Some(output) = gateway.cx.outbox.outputs.pop_front() {
            match output {
                Output::Locked {
                    txn, group, objects, ..
                } if group == refuser && refused == 0 => {
                    // As if it had never held them: they are where they were, and it answers so.
                    let databases = std::iter::repeat(ids::Db::default());
                    let objects = objects.into_iter().flatten().zip(databases);
                    let check_in = Request::CheckIn {
                        txn,
                        returned: objects
                            .filter_map(|(object, db)| Some(Returned::Unchanged(db, object.into_object()?)))
                            .collect(),
                        events: Vec::new(),
                        lazyfree: Lazyfree::default(),
                        counts: LocalCounts::default(),
                    };
                    gateway.request(group, check_in);
                    refused += 1;
                    gateway.cx.outbox.outputs.push_back(Output::Voted {
                        txn,
                        group,
                        vote: Vote::Refused(Refusal::Busy),
                        is_logged: true,
                        replies: Replies::default(),
                    });
                }
                output => gateway.on_output(output),
            }
        }
        assert_eq!(refused, 1, "the values were asked for");
        let mut offload_jobs = gateway.take_offload_jobs();
        assert_eq!(offload_jobs.len(), 1, "it is tried again");
        offload_jobs[0].run();
        offload_jobs
            .into_iter()
            .for_each(|offload_job| gateway.on_offload_job(offload_job));
        assert!(reply(&mut gateway, &mut client).starts_with("*50 "));
        assert!(gateway.is_at_rest(), "nothing is left of the first attempt");
        for key in [&one, &other] {
            feed(&mut gateway, &mut client, &format!("SCARD {key}"));
            assert_eq!(reply(&mut gateway, &mut client), ":50 ");
        }
    }
}

//! A partition that goes from one group to another, while it is written to.
//!
//! ```text
//!   source                                 destination
//!     |-- copy, as of some moment ----------->|   staged, under the number of the attempt
//!     |   Prepare: locked, and hosted yet     |
//!     |-- what has changed since ------------>|   Prepare: hosted, if the copy is of this attempt
//!     |          both have voted for it: committed
//!     |   Resolve: hosted no more             |
//!     '-- operations are answered Moved, and that answer is kept --> sent to the other one, as new ones
//! ```
//!
//! The end of a move is a transaction of two groups, whose votes are written once, as any other's are: whoever drives it may die at any time,
//! and anybody can end it by refusing in its place what has not voted. The destination is asked when the source has voted, and so its vote is
//! what commits: it serves from that on. Groups are logs that lose nothing here, since consensus sees to that;
//! a step is an entry that one of them applies. Two operations are sent by gateways whose maps may be wrong, and what was sent may come again
//! at any time later. A transaction of another kind has a key of the partition, and the second attempt may begin while the first is under way,
//! or bring the partition back. Invariants: no two groups host it; what was acknowledged is in it; nothing is carried out twice; and in the end
//! it can always be hosted by one group, locked by nobody.

use crate::catalogue::{Caught, Scene};
use crate::explore::{Model, Next};

/// Where the partition can be.
const GROUPS: usize = 2;
/// Operations that are sent.
const OPERATIONS_MAX: usize = 2;
/// How often one may be sent: to the group that hosts the partition at first, to the other one, and so on.
const SENDS: usize = 4;
/// How often somebody begins to move it.
const ATTEMPTS: usize = 2;
/// What the transaction writes, beside a bit of each operation.
const TRANSACTION: u8 = 1 << 7;

/// What must be seen; of these as many as there are attempts and transactions for.
const SHOWN: [&str; 7] = [
    "moved",
    "carried out by the destination",
    "waits at the source, and moves",
    "refused, and stays",
    "moved, and back",
    "refused, and then moved",
    "the transaction is applied, and then it is moved",
];

/// One clause of the rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// The source carries out what comes after its vote.
    SourceServesOn,
    /// The destination is asked before the source has voted.
    DestinationVotesFirst,
    /// What has changed since the copy does not follow.
    ChangesLeftOut,
    /// The destination takes the copy of another attempt for this one's.
    CopyOfAnotherAttempt,
    /// The source votes while a transaction holds a key.
    VotesUnderTransaction,
    /// What has waited at the source is carried out there when the partition has gone.
    WaitersStay,
    /// An operation is sent to the other group before it was answered.
    SentOnUnanswered,
    /// That an operation was answered Moved is not kept.
    MovedNotKept,
    /// Who ends a move in another's place refuses without writing it down.
    RefusalNotWritten,
    /// The source stays locked when a move comes to nothing.
    LockedAfterAbort,
}

/// What can happen within.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    operations: usize,
    attempts: usize,
    has_transaction: bool,
}

/// The model: its bounds, and what is left out of the rule.
#[derive(Clone, Copy, Debug)]
pub struct PartitionMove {
    /// See there.
    pub bounds: Bounds,
    /// What is left out.
    pub mistake: Option<Mistake>,
}

const fn bounds(operations: usize, attempts: usize, has_transaction: bool) -> Bounds {
    Bounds {
        operations,
        attempts,
        has_transaction,
    }
}

const ONE: Scene<Bounds> = ("1 operation, 1 move, a transaction", false, bounds(1, 1, true));
const BACK: Scene<Bounds> = ("1 operation, 2 moves", false, bounds(1, 2, false));
const PAIR: Scene<Bounds> = ("2 operations, 2 moves", false, bounds(2, 2, false));
const ALL: Scene<Bounds> = ("2 operations, 2 moves, a transaction", true, bounds(2, 2, true));

/// Where the rule must hold.
pub(crate) const SCENES: &[Scene<Bounds>] = &[ONE, BACK, PAIR, ALL];

const TWO_HOSTS: &str = "two groups host the partition";
const LOST: &str = "what was acknowledged is not in the partition";
const TWICE: &str = "an operation is carried out twice";
const NOWHERE: &str = "nobody hosts the partition, and nobody is to";

/// Where each mistake must be caught, and by what.
pub(crate) const MISTAKES: &[(Mistake, Scene<Bounds>, Caught)] = &[
    (Mistake::SourceServesOn, ONE, Caught::Broken(LOST)),
    (Mistake::DestinationVotesFirst, ONE, Caught::Broken(TWO_HOSTS)),
    (Mistake::ChangesLeftOut, ONE, Caught::Broken(LOST)),
    (Mistake::CopyOfAnotherAttempt, BACK, Caught::Broken(LOST)),
    (Mistake::VotesUnderTransaction, ONE, Caught::Broken(LOST)),
    (Mistake::WaitersStay, ONE, Caught::Broken(LOST)),
    (Mistake::SentOnUnanswered, BACK, Caught::Broken(TWICE)),
    (Mistake::MovedNotKept, BACK, Caught::Broken(TWICE)),
    (Mistake::RefusalNotWritten, ONE, Caught::Broken(TWO_HOSTS)),
    (Mistake::LockedAfterAbort, ONE, Caught::Stuck),
];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
enum Vote {
    #[default]
    None,
    Prepared,
    Refused,
}

/// One attempt to move it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct Attempt {
    has_begun: bool,
    from: usize,
    /// What the source held when it was copied.
    copied: Option<u8>,
    votes: [Vote; GROUPS],
    is_resolved: [bool; GROUPS],
}

impl Attempt {
    fn is_committed(&self) -> bool {
        self.votes == [Vote::Prepared; GROUPS]
    }

    fn is_aborted(&self) -> bool {
        self.votes.contains(&Vote::Refused)
    }

    /// Whether a group has voted for it, and does not know its end.
    fn holds(&self, group: usize) -> bool {
        self.votes[group] == Vote::Prepared && !self.is_resolved[group]
    }
}

/// What a group knows of one sending of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
enum Record {
    #[default]
    None,
    Waits,
    Done,
    Moved,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct Operation {
    /// Which sending is the last.
    at: usize,
    records: [Record; SENDS],
    is_acknowledged: bool,
    was_carried_out: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct Group {
    hosts: bool,
    content: u8,
    /// A copy, and of which attempt.
    staged: Option<(usize, u8)>,
}

/// The transaction, which has a key in the first group, and others elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
enum Transaction {
    #[default]
    NotBegun,
    Prepared,
    /// Its client was told, and the group does not know it yet.
    Committed,
    Applied,
    /// Aborted, or refused.
    Over,
}

/// All of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    groups: [Group; GROUPS],
    attempts: [Attempt; ATTEMPTS],
    operations: [Operation; OPERATIONS_MAX],
    transaction: Transaction,
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields say who")]
pub enum Step {
    /// A sending of an operation comes to its group, for the first time or again.
    Arrives { operation: usize, sending: usize },
    /// Its gateway hears what became of the last one.
    Answered { operation: usize },
    /// The transaction asks for its key.
    TransactionPrepares,
    /// All others have voted for it, and its client is told.
    TransactionCommits,
    /// Somebody has refused it.
    TransactionAborts,
    /// The group hears that it is committed.
    TransactionApplied,
    /// Somebody begins to move the partition.
    Begins { attempt: usize },
    /// What the source holds is copied.
    Copied { attempt: usize },
    /// The copy comes to the destination, for the first time or again.
    Staged { attempt: usize },
    /// The source votes.
    SourceVotes { attempt: usize },
    /// What has changed since comes to the destination, which votes.
    DestinationVotes { attempt: usize },
    /// Anybody refuses in the place of whoever drives it.
    Refused { attempt: usize, group: usize },
    /// A group hears what was decided.
    Resolved { attempt: usize, group: usize },
}

impl Model for PartitionMove {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let mut state = State {
            groups: [Group::default(); GROUPS],
            attempts: [Attempt::default(); ATTEMPTS],
            operations: [Operation::default(); OPERATIONS_MAX],
            transaction: match self.bounds.has_transaction {
                true => Transaction::NotBegun,
                false => Transaction::Over,
            },
        };
        state.groups[0].hosts = true;
        state
    }

    fn landmarks(&self) -> &'static [&'static str] {
        match (self.bounds.attempts > 1, self.bounds.has_transaction) {
            (false, _) => &SHOWN[..4],
            (true, false) => &SHOWN[..6],
            (true, true) => &SHOWN,
        }
    }

    fn shows(&self, state: &State) -> u32 {
        let [source, destination] = &state.groups;
        let became = |record| {
            let mut operations = state.operations.iter();
            operations.any(|operation| operation.records[1] == record)
        };
        let waits = state
            .operations
            .iter()
            .any(|operation| operation.records[0] == Record::Waits);
        let [first, second] = &state.attempts;
        let bits = [
            destination.hosts,
            became(Record::Done),
            destination.hosts && waits,
            first.is_aborted() && first.is_resolved[0] && source.hosts,
            second.from == 1 && second.is_resolved[0] && source.hosts,
            first.is_aborted() && second.is_resolved[1] && destination.hosts,
            state.transaction == Transaction::Applied && destination.hosts,
        ];
        let bits = bits.into_iter().enumerate();
        bits.map(|(bit, is_shown)| u32::from(is_shown) << bit).sum()
    }

    fn is_settled(&self, state: &State) -> Option<bool> {
        let is_held = (0..GROUPS).any(|group| state.is_locked(group, self.mistake));
        let is_done = |operation: &Operation| {
            operation.is_acknowledged || operation.records[SENDS - 1] == Record::Moved
        };
        let sent = &state.operations[..self.bounds.operations];
        let has_host = state.groups.iter().any(|group| group.hosts);
        Some(has_host && !is_held && sent.iter().all(is_done))
    }

    fn steps(&self, state: &State, go: &mut dyn FnMut(Step, Next<State>)) {
        for operation in 0..self.bounds.operations {
            self.operation_steps(state, operation, go);
        }
        self.transaction_steps(state, go);
        for attempt in 0..self.bounds.attempts {
            self.move_steps(state, attempt, go);
        }
    }
}

impl PartitionMove {
    fn operation_steps(&self, state: &State, operation: usize, go: &mut dyn FnMut(Step, Next<State>)) {
        let its = &state.operations[operation];
        for sending in 0..=its.at {
            if its.records[sending] == Record::None {
                let mut next = *state;
                let arrived = self.arrive(&mut next, operation, sending);
                go(
                    Step::Arrives { operation, sending },
                    arrived.and_then(|()| check(next)),
                );
            }
        }
        let mut next = *state;
        let heard = &mut next.operations[operation];
        match heard.records[heard.at] {
            Record::Done if !heard.is_acknowledged => heard.is_acknowledged = true,
            Record::Moved if heard.at + 1 < SENDS => {
                if self.mistake == Some(Mistake::MovedNotKept) {
                    heard.records[heard.at] = Record::None;
                }
                heard.at += 1;
            }
            Record::None | Record::Waits
                if self.mistake == Some(Mistake::SentOnUnanswered) && heard.at + 1 < SENDS =>
            {
                heard.at += 1;
            }
            _ => return,
        }
        go(Step::Answered { operation }, check(next));
    }

    fn transaction_steps(&self, state: &State, go: &mut dyn FnMut(Step, Next<State>)) {
        let mut next = *state;
        match state.transaction {
            Transaction::NotBegun => {
                let is_free = state.groups[0].hosts && !state.is_locked(0, self.mistake);
                next.transaction = match is_free {
                    true => Transaction::Prepared,
                    false => Transaction::Over,
                };
                go(Step::TransactionPrepares, check(next));
            }
            Transaction::Prepared => {
                next.transaction = Transaction::Committed;
                go(Step::TransactionCommits, check(next));
                next.transaction = Transaction::Over;
                let freed = self.go_on(&mut next, 0);
                go(Step::TransactionAborts, freed.and_then(|()| check(next)));
            }
            Transaction::Committed => {
                next.transaction = Transaction::Applied;
                if next.groups[0].hosts {
                    next.groups[0].content |= TRANSACTION;
                }
                let freed = self.go_on(&mut next, 0);
                go(Step::TransactionApplied, freed.and_then(|()| check(next)));
            }
            Transaction::Applied | Transaction::Over => {}
        }
    }

    fn move_steps(&self, state: &State, attempt: usize, go: &mut dyn FnMut(Step, Next<State>)) {
        let its = &state.attempts[attempt];
        if !its.has_begun {
            if let Some(from) = state.groups.iter().position(|group| group.hosts) {
                let mut next = *state;
                next.attempts[attempt].has_begun = true;
                next.attempts[attempt].from = from;
                go(Step::Begins { attempt }, check(next));
            }
            return;
        }
        let (from, to) = (its.from, 1 - its.from);
        if its.copied.is_none() && state.groups[from].hosts && its.votes[from] == Vote::None {
            let mut next = *state;
            let content = next.groups[from].content;
            next.attempts[attempt].copied = Some(content);
            go(Step::Copied { attempt }, check(next));
        }
        if let Some(content) = its.copied
            && its.votes[to] == Vote::None
            && state.groups[to].staged != Some((attempt, content))
        {
            let mut next = *state;
            next.groups[to].staged = Some((attempt, content));
            go(Step::Staged { attempt }, check(next));
        }
        let is_held_up = state.is_locked(from, self.mistake)
            && !(self.mistake == Some(Mistake::VotesUnderTransaction) && state.is_transaction_there());
        if its.votes[from] == Vote::None && its.copied.is_some() && !is_held_up {
            let mut next = *state;
            next.attempts[attempt].votes[from] = match state.groups[from].hosts {
                true => Vote::Prepared,
                false => Vote::Refused,
            };
            go(Step::SourceVotes { attempt }, check(next));
        }
        // Whoever drives it has seen that vote, and may be late.
        let may_ask = its.votes[from] == Vote::Prepared
            || self.mistake == Some(Mistake::DestinationVotesFirst) && its.votes[from] == Vote::None;
        if may_ask && its.votes[to] == Vote::None {
            go(
                Step::DestinationVotes { attempt },
                self.destination_votes(state, attempt),
            );
        }
        for group in 0..GROUPS {
            if its.votes[group] == Vote::None {
                let mut next = *state;
                next.attempts[attempt].votes[group] = Vote::Refused;
                go(Step::Refused { attempt, group }, check(next));
            }
            let is_guessed =
                self.mistake == Some(Mistake::RefusalNotWritten) && its.votes.contains(&Vote::None);
            if its.holds(group) && (its.is_committed() || its.is_aborted() || is_guessed) {
                go(
                    Step::Resolved { attempt, group },
                    self.resolve(state, attempt, group),
                );
            }
        }
    }

    fn destination_votes(&self, state: &State, attempt: usize) -> Next<State> {
        let its = &state.attempts[attempt];
        let (from, to) = (its.from, 1 - its.from);
        let mut next = *state;
        let changed = match self.mistake {
            Some(Mistake::ChangesLeftOut) => 0,
            _ => state.groups[from].content & !its.copied.unwrap_or_default(),
        };
        let staged = state.groups[to].staged;
        let is_its =
            |(of, _): &(usize, u8)| *of == attempt || self.mistake == Some(Mistake::CopyOfAnotherAttempt);
        match staged.filter(is_its) {
            Some((_, copied)) => {
                next.attempts[attempt].votes[to] = Vote::Prepared;
                next.attempts[attempt].is_resolved[to] = true;
                next.groups[to] = Group {
                    hosts: true,
                    content: copied | changed,
                    staged: None,
                };
            }
            None => next.attempts[attempt].votes[to] = Vote::Refused,
        }
        check(next)
    }

    fn resolve(&self, state: &State, attempt: usize, group: usize) -> Next<State> {
        let its = &state.attempts[attempt];
        let mut next = *state;
        next.attempts[attempt].is_resolved[group] = true;
        if its.is_committed() {
            next.groups[group].hosts = false;
            next.groups[group].content = 0;
        }
        self.go_on(&mut next, group)?;
        check(next)
    }

    /// A sending comes to its group.
    fn arrive(&self, state: &mut State, operation: usize, sending: usize) -> Result<(), &'static str> {
        let group = sending % GROUPS;
        let serves_on = self.mistake == Some(Mistake::SourceServesOn) && !state.is_transaction_there();
        let is_locked = state.is_locked(group, self.mistake) && !serves_on;
        if !state.groups[group].hosts {
            state.operations[operation].records[sending] = Record::Moved;
        } else if is_locked {
            state.operations[operation].records[sending] = Record::Waits;
        } else {
            return carry_out(state, operation, sending);
        }
        Ok(())
    }

    /// What has waited at a group goes on, if nothing holds it up any more.
    fn go_on(&self, state: &mut State, group: usize) -> Result<(), &'static str> {
        if state.is_locked(group, self.mistake) {
            return Ok(());
        }
        for operation in 0..OPERATIONS_MAX {
            for sending in (group..SENDS).step_by(GROUPS) {
                if state.operations[operation].records[sending] != Record::Waits {
                    continue;
                }
                if state.groups[group].hosts || self.mistake == Some(Mistake::WaitersStay) {
                    carry_out(state, operation, sending)?;
                } else {
                    state.operations[operation].records[sending] = Record::Moved;
                }
            }
        }
        Ok(())
    }
}

impl State {
    fn is_transaction_there(&self) -> bool {
        matches!(self.transaction, Transaction::Prepared | Transaction::Committed)
    }

    /// Whether somebody holds the partition, or a key of it, at a group.
    fn is_locked(&self, group: usize, mistake: Option<Mistake>) -> bool {
        let is_left = |attempt: &Attempt| {
            mistake == Some(Mistake::LockedAfterAbort)
                && attempt.from == group
                && attempt.is_aborted()
                && attempt.votes[group] == Vote::Prepared
        };
        let is_moving = |attempt: &Attempt| attempt.from == group && attempt.holds(group) || is_left(attempt);
        self.attempts.iter().any(is_moving) || group == 0 && self.is_transaction_there()
    }
}

fn carry_out(state: &mut State, operation: usize, sending: usize) -> Result<(), &'static str> {
    let its = &mut state.operations[operation];
    if std::mem::replace(&mut its.was_carried_out, true) {
        return Err(TWICE);
    }
    its.records[sending] = Record::Done;
    // Where nobody hosts it, there is nothing to write to.
    let group = &mut state.groups[sending % GROUPS];
    if group.hosts {
        group.content |= 1 << operation;
    }
    Ok(())
}

fn check(state: State) -> Next<State> {
    // A source that does not know yet that it has gone serves nobody: it is locked.
    let is_left = |at: usize| {
        let is = |attempt: &Attempt| attempt.is_committed() && attempt.from == at && attempt.holds(at);
        state.attempts.iter().any(is)
    };
    let groups = state.groups.iter().enumerate();
    let mut hosts = groups.filter(|(at, group)| group.hosts && !is_left(*at));
    let host = hosts.next().map(|(_, group)| group);
    if hosts.next().is_some() {
        return Err(TWO_HOSTS);
    }
    let Some(content) = host.map(|group| group.content) else {
        return Err(NOWHERE);
    };
    let operations = state.operations.iter().enumerate();
    let acknowledged = operations
        .filter(|(_, operation)| operation.is_acknowledged)
        .map(|(number, _)| 1 << number)
        .fold(0, |all, bit: u8| all | bit);
    let applied = match state.transaction {
        Transaction::Applied => TRANSACTION,
        _ => 0,
    };
    match (acknowledged | applied) & !content {
        0 => Ok(state),
        _ => Err(LOST),
    }
}

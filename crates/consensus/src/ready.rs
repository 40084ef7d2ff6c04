//! What a group wants done, as values.

use crate::message::{Index, LogEntry, Members, RaftMessage, SnapshotPoint, Term};
use bytes::Bytes;
use ids::Incarnation;

/// What a replica is in its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It follows a leader, or waits for one.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It leads.
    Leader,
}

/// A replica's view of who leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// What this replica is.
    pub role: Role,
    /// Its term.
    pub term: Term,
    /// Whom it takes for the leader.
    pub leader: Option<Incarnation>,
}

/// What a durable replica must not forget besides its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HardState {
    /// The latest term it knows.
    pub term: Term,
    /// Whom it voted for in that term.
    pub vote: Option<Incarnation>,
    /// As far as it knows the log to be committed.
    pub commit: Index,
}

/// One round that confirms leadership for reads. Never used again: not in another round, and not by another replica or
/// another term, so that a late answer confirms nothing but what was asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReadId {
    /// The replica that asks.
    pub replica: Incarnation,
    /// Its term.
    pub term: Term,
    /// Which of its rounds, from 1 on.
    pub number: u64,
}

/// One committed entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Committed {
    /// Its place.
    pub index: Index,
    /// The term in which it was proposed.
    pub term: Term,
    /// What it does.
    pub effect: EntryEffect,
}

/// What a committed entry does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EntryEffect {
    /// Nothing: the first entry of a term.
    Nothing,
    /// The state machine applies it.
    Apply(Bytes),
    /// From here on these are the members. They are in force already.
    Members(Members),
}

/// What a durable group wants on disk, in this order, before it is told [`persisted`](crate::RaftNode::persisted). All of
/// one request must be there before any of it is acknowledged: a vote, an entry and the commit index that came with it
/// stand for each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Persist {
    /// Which request; later ones have higher numbers.
    pub number: u64,
    /// If set, the log is dropped and begins behind this point, whose state is on disk first.
    pub start: Option<Box<SnapshotPoint>>,
    /// What was on disk from the first one's place on is cut, and these follow.
    pub entries: Vec<LogEntry>,
    /// The whole of it.
    pub hard_state: HardState,
}

/// What has become of all inputs since the last time: to be done in the order of the fields, of which any may be done
/// together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// A change of role, term or leader.
    pub status: Option<Status>,
    /// What the heartbeats between nodes claim about this group is not true any more: gather it again.
    pub claims_changed: bool,
    /// To be written; of a durable group only.
    pub persist: Option<Persist>,
    /// The state that was transferred for this point becomes this replica's, before anything that follows. It counts as
    /// applied.
    pub install: Option<Box<SnapshotPoint>>,
    /// To be applied, in order; [`applied`](crate::RaftNode::applied) is told how far.
    pub committed: Vec<Committed>,
    /// To be sent, each to the node of its replica; may be lost.
    pub messages: Vec<RaftMessage>,
    /// Rounds that were confirmed: reads that joined one may be answered once the index is applied.
    pub reads: Vec<(ReadId, Index)>,
    /// Rounds that never will be, because leadership is gone.
    pub reads_lost: Vec<ReadId>,
    /// Members that the log cannot help any more: they need the state. Said again until it is offered.
    pub transfers_wanted: Vec<Incarnation>,
}

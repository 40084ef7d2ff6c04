//! What replicas of one group say to each other.
//!
//! Plain values: the library's own types are made from them and into them at the edge of this crate, and never meet
//! bytes that a peer sent.

use ids::{Boot, Incarnation};

/// A Raft term.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Term(pub u64);

/// A place in a group's log, from 1 on; 0 is before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Index(pub u64);

/// One message of the Raft protocol.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RaftMessage {
    /// Who sends it.
    pub from: Incarnation,
    /// Who is to get it. One with another incarnation must not.
    pub to: Incarnation,
    /// The sender's term; 0 where the protocol leaves it out.
    pub term: Term,
    /// What it says.
    pub body: MessageBody,
}

/// What a message says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessageBody {
    /// Entries, or the question whether the follower has those before.
    Append {
        /// The term of the entry at `index`.
        log_term: Term,
        /// The place before the first entry.
        index: Index,
        /// As far as the sender knows the log to be committed.
        commit: Index,
        /// In order, the first at `index` + 1.
        entries: Vec<LogEntry>,
    },
    /// The answer to `Append`, and to `Snapshot`.
    AppendAnswer {
        /// The last place that is held now, or the one that was asked for and refused.
        index: Index,
        /// As far as the sender has committed.
        commit: Index,
        /// Set if the follower does not hold the place before: a hint where to try, and the term there.
        reject: Option<(Index, Term)>,
        /// The start of the sender's node: a later one may hold less than an earlier one has acknowledged.
        start: Boot,
    },
    /// The leader lives, or asks whether it still leads.
    Heartbeat {
        /// As far as the follower may commit.
        commit: Index,
        /// A round of reads that wants confirmation; 0 for none.
        read: u64,
    },
    /// The answer to `Heartbeat`.
    HeartbeatAnswer {
        /// As far as the sender has committed.
        commit: Index,
        /// The round, as it was asked.
        read: u64,
        /// As in `AppendAnswer`.
        start: Boot,
    },
    /// Will you vote for me, or would you?
    Vote {
        /// Whether it is only asked what the answer would be.
        is_pre: bool,
        /// The candidate's last entry.
        index: Index,
        /// Its term.
        log_term: Term,
        /// As far as the candidate has committed, and the term there.
        commit: (Index, Term),
        /// The candidate's priority.
        priority: i64,
        /// Whether the leader asked for it, having given up its lease.
        is_transfer: bool,
    },
    /// The answer to `Vote`.
    VoteAnswer {
        /// To which question.
        is_pre: bool,
        /// Whether it is no.
        reject: bool,
        /// As far as the voter has committed, and the term there.
        commit: (Index, Term),
    },
    /// The follower lags behind the log: it is to take the state it was given, as of this place.
    Snapshot(SnapshotPoint),
    /// Campaign now: the leader hands over.
    TimeoutNow,
}

/// One entry of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// The term in which it was proposed.
    pub term: Term,
    /// Its place.
    pub index: Index,
    /// What it holds.
    pub payload: Payload,
}

impl LogEntry {
    /// What the state machine would apply of it, if anything.
    pub fn data(&self) -> Option<&bytes::Bytes> {
        match &self.payload {
            Payload::Data(bytes) if !bytes.is_empty() => Some(bytes),
            Payload::Data(_) | Payload::Members(_) => None,
        }
    }
}

/// What an entry holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payload {
    /// What the state machine applies. Empty for the first entry of a term.
    Data(bytes::Bytes),
    /// A change of the members.
    Members(Vec<u8>),
}

/// A place in the log at which the whole state is known, and the members there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotPoint {
    /// The last entry that the state reflects.
    pub index: Index,
    /// Its term.
    pub term: Term,
    /// The members.
    pub members: Members,
}

/// The members of a group, in Raft's terms.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Members {
    /// Who votes.
    pub voters: Vec<Incarnation>,
    /// Who is given everything and asked nothing.
    pub learners: Vec<Incarnation>,
    /// During a joint change: who voted before it.
    pub outgoing: Vec<Incarnation>,
    /// During a joint change: who becomes a learner at its end.
    pub learners_next: Vec<Incarnation>,
    /// Whether the leader ends the joint change by itself.
    pub ends_itself: bool,
}

//! What bare nodes say to each other.

use bytes::Bytes;
use consensus::{Beat, BeatAnswer, Message, SnapshotPoint};
use ids::{Boot, GatewayId, GroupId, Incarnation};
use std::fmt;

/// A frame.
#[derive(Clone)]
pub struct Frame {
    /// The boot that it is for; `None` if it says itself for whom it is.
    pub(crate) to_boot: Option<Boot>,
    pub(crate) body: Body,
}

/// What it says.
#[derive(Clone)]
pub(crate) enum Body {
    Raft(GroupId, Message),
    Beat(Beat),
    BeatAnswer(BeatAnswer),
    /// To the leader: operations of a gateway.
    Batch(Batch),
    /// To the gateway: what became of a batch.
    Answers {
        group: GroupId,
        number: u64,
        outcome: Outcome,
    },
    /// To the leader: a question.
    Read(Read),
    /// To the gateway: the answer, or where to ask.
    ReadAnswer {
        group: GroupId,
        number: u64,
        answer: Result<Vec<u8>, Elsewhere>,
    },
    /// To a replica: a piece of the state.
    State(State),
    /// To the leader: the replica has this cut.
    Held {
        group: GroupId,
        from: Incarnation,
        to: Incarnation,
        transfer: u64,
        number: u64,
    },
}

/// Operations of a gateway.
#[derive(Clone)]
pub(crate) struct Batch {
    pub(crate) group: GroupId,
    pub(crate) gateway: GatewayId,
    pub(crate) number: u64,
    pub(crate) acknowledged: u64,
    pub(crate) operations: Bytes,
}

/// A question of a gateway.
#[derive(Clone)]
pub(crate) struct Read {
    pub(crate) group: GroupId,
    pub(crate) gateway: GatewayId,
    pub(crate) number: u64,
    /// A request as a client sent it.
    pub(crate) request: Bytes,
}

/// A piece of the state.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) group: GroupId,
    pub(crate) from: Incarnation,
    pub(crate) to: Incarnation,
    /// Which transfer of the sender's it belongs to.
    pub(crate) transfer: u64,
    /// Which cut of it, from 1 on.
    pub(crate) number: u64,
    pub(crate) cut: Bytes,
    /// With the last cut: of what the state is.
    pub(crate) point: Option<SnapshotPoint>,
}

/// The leader may be here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Elsewhere(pub(crate) Option<Incarnation>);

/// What became of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It was applied, now or before: one reply for each operation.
    Replies(Vec<Vec<u8>>),
    /// Not here.
    Elsewhere(Elsewhere),
    /// Batches before it are missing, or too much is not acknowledged.
    Again,
    /// It never will be: no right gateway hears this of a batch that it waits for.
    Never(keyspace::Batched),
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.body {
            Body::Raft(group, message) => {
                write!(
                    f,
                    "group {} raft {}->{} term {} {:?}",
                    group.number(),
                    message.from.0,
                    message.to.0,
                    message.term.0,
                    Short(&message.body)
                )
            }
            Body::Beat(beat) => write!(
                f,
                "beat {} of boot {}, {:?}",
                beat.number, beat.boot.0, beat.claims
            ),
            Body::BeatAnswer(answer) => write!(f, "answer to beat {}: {:?}", answer.number, answer.refused),
            Body::Batch(batch) => write!(
                f,
                "group {} batch {} of boot {}",
                batch.group.number(),
                batch.number,
                batch.gateway.boot.0
            ),
            Body::Answers {
                group,
                number,
                outcome,
            } => write!(f, "group {} batch {number}: {outcome:?}", group.number()),
            Body::Read(read) => write!(
                f,
                "group {} read {} of boot {}",
                read.group.number(),
                read.number,
                read.gateway.boot.0
            ),
            Body::ReadAnswer {
                group,
                number,
                answer,
            } => write!(f, "group {} read {number}: {answer:?}", group.number()),
            Body::State(state) => write!(
                f,
                "group {} cut {} of transfer {} for {}, the last one as of {:?}",
                state.group.number(),
                state.number,
                state.transfer,
                state.to.0,
                state.point.as_ref().map(|point| point.index.0)
            ),
            Body::Held {
                group, from, number, ..
            } => {
                write!(f, "group {} {} has cut {number}", group.number(), from.0)
            }
        }
    }
}

/// A message without the bytes of its entries.
struct Short<'a>(&'a consensus::Body);

impl fmt::Debug for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            consensus::Body::Append {
                log_term,
                index,
                commit,
                entries,
            } => write!(
                f,
                "Append after {} (term {}), commit {}, {} entries",
                index.0,
                log_term.0,
                commit.0,
                entries.len()
            ),
            other => write!(f, "{other:?}"),
        }
    }
}

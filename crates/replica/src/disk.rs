//! What a replica wants on disk whose state outlives its process, and what it hears of that.
//!
//! ```text
//!  join -------> Begin ----> the log begins; if the state behind it is not stored yet, with a snapshot of that
//!  set_durable -> Begin ---> the same of a replica that had no log on disk; End when it is to have none any more
//!  consensus --> Persist --> written and, where that is asked for, synced --> Persisted --> acknowledged
//!  a snapshot -> Chunk ... Chunk with its point --> a file with a name ----> Taken
//!  a leader's -> Received ... Received --> Persist with a start: the file gets its name first
//! ```
//!
//! Requests of one life of a replica are carried out in their order. What a replica has said it holds, it is told to be kept
//! before: nothing here is acknowledged to anybody by being requested.

use consensus::{Persist, Saved, SnapshotPoint};
use ids::Incarnation;

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DiskRequest {
    /// A replica has begun: whatever is there of its group belongs to an earlier life.
    Begin(Box<LogBegin>),
    /// To be kept, and to be answered then.
    Persist(Persist),
    /// The next piece of a snapshot of the state here. The first of another snapshot ends the one before.
    Chunk {
        /// Which snapshot: never used again in this life.
        snapshot: u64,
        /// Which piece, from 0 on.
        number: u64,
        /// With the last piece: what the state reflects.
        point: Option<Box<SnapshotPoint>>,
        /// The piece.
        bytes: Vec<u8>,
    },
    /// The next piece of a state that a leader sends, which a later [`Persist::start`] makes the replica's own. The first of
    /// another transfer ends the one before.
    Received {
        /// Who sends it.
        from: Incarnation,
        /// Which transfer of his.
        transfer: u64,
        /// Which piece, from 0 on.
        number: u64,
        /// The piece.
        bytes: Vec<u8>,
    },
    /// The snapshot under way is given up: the state is another one.
    GiveUp,
    /// The replica has ended.
    End,
}

/// What a log begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogBegin {
    /// Whose log.
    pub incarnation: Incarnation,
    /// How many times its group had begun anew.
    pub generation: u64,
    /// The state behind which it begins, and what it has.
    pub start: SnapshotPoint,
    /// The log, and what must not be forgotten besides.
    pub saved: Saved,
    /// Whether a snapshot of that state is kept.
    pub base: LogBase,
}

/// What is on disk of the state behind which a log begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogBase {
    /// A snapshot of it is kept.
    Stored,
    /// None is kept, and nothing is answered before one is.
    New,
    /// None is kept, and the replica has acknowledged without a log so far: it is answered at once, until one is.
    InUse,
}

/// What has become of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskAnswer {
    /// What was requested under this number, and before it, is kept.
    Persisted(u64),
    /// A piece of a snapshot is written, and the next may come; with the last one, the file is kept.
    Taken {
        /// Of which snapshot.
        snapshot: u64,
        /// Which piece.
        number: u64,
    },
    /// A snapshot could not be written. It may be begun again later.
    Failed {
        /// Which.
        snapshot: u64,
    },
    /// A piece of what a leader sends is written.
    Received {
        /// Who sends it.
        from: Incarnation,
        /// Which transfer of his.
        transfer: u64,
        /// Which piece.
        number: u64,
    },
}

//! The log of a worker: the Raft logs of all its groups, in one sequence of segments.
//!
//! ```text
//!  log-00003-000000000007 | head | frame | frame | .. | frame (goes on)    zero-filled and synced before its first frame
//!  log-00003-000000000008 | head | frame (goes on from there) | frame | ..
//!  log-00003-000000000009 | head | zeros                                   made ahead
//!
//!  live, append, snapshot, end --> open batch --write--> frames --sync--> kept
//! ```
//!
//! A batch is what one turn has gathered: a table of the groups in it and in the batch before, then records. It counts whole
//! or not at all. A long one is written in parts, a frame each, so that whoever writes sees to others between them; what is gathered
//! meanwhile stands in the next batch.
//!
//! Invariants:
//! 1. A block of 4 KiB that a sync covers is never written again: what is written behind it begins on a fresh one.
//! 2. Frames are counted from 1 without a gap, over all segments of one start's log, and segments by their numbers.
//! 3. A segment has its name only when its head and all its bytes are synced, and loses it before its bytes are used again.
//! 4. A segment goes when every group has begun anew behind it, by a record that is synced; the oldest goes first.
//! 5. An error of a write or a sync is final. What is wrong while a segment is made is not: nothing stands in it yet.
//!
//! Absent: any index to places in the log. It is read from its beginning, once, at a start.

mod batch;
mod found;
mod held;
mod prepare;
mod reader;
mod record;
mod replay;
mod segment;
mod shelf;
mod sync;
mod table;
mod writer;

pub use batch::rewrite_batch;
pub(crate) use found::sync_logs;
pub use found::{FoundLogs, ReplicaLog, Unused, drop_segments, has_segments, remove_replicas, sync_segments};
pub use prepare::{PrepareJob, Prepared};
pub use reader::read_logs;
pub use sync::{SyncJob, Synced};
pub use writer::WorkerLog;

use consensus::{Index, Term};
use ids::{ClusterId, Incarnation, NodeId, Token};

/// A place as logs are compared: by term, then by index.
pub(crate) type Place = (Term, Index);

/// Under this name stands a log that does not count yet: no replica is called so.
pub(crate) const NOBODY: Incarnation = Incarnation(0);

/// Bytes of the payload of one frame, as it is read. It is more than this build writes: earlier ones wrote as much.
pub(crate) const FRAME_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// Where the payload of a frame begins with: up to which frame all was synced, and the flags.
pub(crate) const PREFIX_BYTES: usize = 9;
/// The batch goes on in the next frame.
pub(crate) const GOES_ON: u8 = 1;
/// The frame is not its batch's first.
pub(crate) const WENT_ON: u8 = 2;
/// Fewer bytes than this are left unused at the end of a segment.
pub(crate) const ROOM_MIN: u64 = 512;

/// How a log is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// Bytes of one segment: a multiple of 4 KiB, at least 16 KiB.
    pub segment_bytes: u64,
}

/// Whose log it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogIdentity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// The worker.
    pub worker: u16,
    /// Of the start: no other start has it.
    pub token: Token,
    /// Counts the starts: one more than [`FoundLogs::start`].
    pub start: u64,
}

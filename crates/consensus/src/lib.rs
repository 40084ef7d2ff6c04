//! One Raft group, seen from one replica, as a pure machine.
//!
//! The protocol is the library `raft`'s; this crate feeds it, fences it and takes what it says apart
//! (docs/decisions/0020). What is ours: the log it reads, every clock, the leader's lease and the voters' side of that
//! promise, the heartbeats that nodes exchange for all their groups at once, the checks that stand between a peer's
//! message and the library, and the comparison of what replicas say of their states. Time comes in as [`ids::Monotonic`]; the
//! only randomness is a seed.
//!
//! What is absent: sockets, disks, clocks, and the state machine. Who owns a [`RaftNode`] sends its messages, persists what
//! it asks for, applies what it commits, and carries state to replicas that lag too far behind.

mod change;
mod config;
mod convert;
mod heartbeat;
mod lease;
mod log;
mod members;
mod message;
mod promise;
mod raft_node;
mod ready;
mod scrub;
mod standstill;
mod times;
mod wire;

pub use change::{ChangeRefused, last_members};
pub use config::{Config, ConfigInvalid, Durability, Saved};
pub use heartbeat::{BEATS_MAX, Beat, BeatAnswer, Beats, CLAIMS_MAX, Claim, Listener};
pub use lease::{Lease, ReadPermit};
pub use log::{
    LOG_BYTES_KEPT, LOG_BYTES_MAX, LOG_BYTES_TAKEN_IN_MAX, LOG_ENTRIES_KEPT, LOG_SHARE_AWAITED,
    LOG_SHARE_OF_STATE,
};
pub use members::{MEMBERS_MAX, MembersInvalid};
pub use message::{Index, LogEntry, Members, MessageBody, Payload, RaftMessage, SnapshotPoint, Term};
pub use raft_node::{
    COMMITTED_BYTES, ENTRY_BYTES_MAX, ProposeRefused, READ_ROUNDS_MAX, RaftNode, ReadRefused, TransferRefused,
};
pub use ready::{Committed, EntryEffect, HardState, Persist, ReadId, Ready, Role, Status};
pub use scrub::{Scrub, Scrubbed, Verdict};
pub use standstill::{LOOK, Looks};
pub use times::Times;

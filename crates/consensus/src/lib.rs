//! One Raft group, seen from one replica.

mod message;

pub use message::{Body, Entry, Index, Members, Message, Payload, SnapshotPoint, Term};

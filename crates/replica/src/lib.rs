//! One replica of one group: the keyspace, its locks, and what waits for them, behind one set of requests.
//!
//! A group that is alone on its node commits at once: what a turn brings is applied to one open entry as it comes. Of any
//! other, consensus stands between a request and its apply.
//!
//! Reading order: `request.rs` (what comes in and goes out), `replica.rs` (the object), its parts `state.rs`, `alone.rs` and
//! `member.rs`, and `group_client.rs` (what asks a group that has a log).

mod alone;
mod at_once;
mod batch;
mod coding_message;
mod counts;
mod disk;
mod group_client;
mod member;
mod operation;
mod replica;
mod request;
mod response;
mod short_locks;
mod snapshot_sender;
mod state;
mod steps;
mod turn;
mod waiting_reads;

pub use at_once::{AtOnce, Call, CarriedOut};
pub use batch::{Batch, SentArgv};
pub use coding_message::{ASKED_MAX, AskedKey, CodingMessage, Found, Holding};
pub use counts::MemberCounts;
pub use disk::{DiskAnswer, DiskRequest, LogBase, LogBegin};
pub use group_client::{
    Asked, CROWDED_OUT, FULL, GroupClient, NoCheckOut, PieceSizes, TOO_LONG, UNREACHABLE, time_of,
};
pub use keyspace::{OpenTransaction, Returned, Scratch, TransactionCounts, locks_among as locks_of};
pub use member::{Chunk, CodingCounts, CopyCost, Effects, FLIGHTS_MAX, Member, Sender};
pub use operation::{Condition, Operation, Replies, Step, databases, with_conditions};
pub use replica::{Input, Reload, Replica};
pub use request::{
    Assignment, FullKey, IndexedKey, Journey, Output, Part, ReplyTo, Request, Seen, SnapshotAsker,
};
pub use response::{BatchOutcome, BatchResponse};
pub use state::{GroupState, LocalCounts};
pub use steps::{steps, steps_of};
pub use turn::{CodingRule, Copying, Turn};

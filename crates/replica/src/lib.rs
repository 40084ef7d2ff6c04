//! One replica of one group: the keyspace, its locks, and what waits for them, behind one set of requests.
//!
//! Today a group has one replica, which commits at once: what a turn brings is applied to one open entry as it
//! comes. Consensus will stand between a request and its apply; the requests and outputs stay.
//!
//! Reading order: `request.rs` (what comes in and goes out), `replica.rs` (what happens to it), `scratch.rs`
//! (how a transaction's effects are computed before anyone may see them).

mod batch;
mod counts;
mod courier;
mod departure;
mod member;
mod operation;
mod replica;
mod request;
mod scratch;
mod steps;
mod turn;

pub use batch::Batch;
pub use counts::MemberCounts;
pub use courier::{Asked, Courier, UNREACHABLE, Verdict as BatchVerdict};
pub use member::{Cut, Effects, FLIGHTS_MAX, Member, Said, Sender};
pub use operation::{Condition, Operation, Outcome, Replies, locks_of, with_conditions};
pub use replica::{Counters, LocalCounts, Replica};
pub use request::{FullKey, IndexedKey, Journey, Output, Request, Task, Ticket, Verdict};
pub use scratch::{Returned, Scratch, databases};
pub use steps::{steps, steps_of};
pub use turn::Turn;

//! Transactions over several groups, as pure machines.
//!
//! What is here: who holds and who waits for which keys of one group ([`LockTable`]), and the tally of votes of
//! one transaction ([`VoteTally`]). What is not: what the transaction does, and how messages travel. Both
//! machines take values and return values; the drivers above carry them.
//!
//! ```text
//!   gateway (coordinator)                     each participating group
//!   ---------------------                     -----------------------------------------------
//!   Lock     ------------------------------>  locks, then the values    (if values are locked before they are read)
//!   Prepare  ------------------------------>  locks, conditions, effects computed --> vote
//!   all Prepared: answer the client
//!   Resolve  ------------------------------>  effects installed, locks released
//! ```
//!
//! Deadlock cannot last: an older transaction that waits for a younger one sends a *wound* to the younger
//! one's coordinator, which withdraws it wherever it still waits; every cycle holds such a pair (Rosenkrantz,
//! Stearns, Lewis: "System level concurrency control", 1978, wound-wait).

mod id;
mod locks;
mod participant;
mod recovery;
mod tally;
mod vote_record;

pub use id::{Priority, TxnId};
pub use locks::{Grant, LockTable, Locks, Mode, RequestId, Requester};
pub use participant::{Participant, Participants};
pub use recovery::{Finding, Recovery};
pub use tally::{Decision, Refusal, Vote, VoteTally};
pub use vote_record::VoteRecord;

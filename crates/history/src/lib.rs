//! What clients saw, and whether one machine could have shown it to them.
//!
//! ```text
//!   Recorder --> History --(by key and family)--> objects --> search over a model --> Verdict
//!                   ^ |
//!                   | v
//!                  text, one line an operation
//!
//!   Ledger --> Transactions --> exposed: versions that the store shows --------.
//!                   ^ |    '--> list_append: what clients saw, nothing else ----> graph --> Judgement
//!                   | v    '--> bank, ring, queues: one invariant each --------------------'
//!                  text, one line a transaction
//! ```
//!
//! What it is: [histories](History) of operations with the times of their calls and answers, and a check that each
//! object's operations are *linearizable*: that they could have happened one at a time, each at some moment between its
//! call and its answer, on one machine. And [transactions](Transactions) over several keys, with two checks that they are
//! *strictly serializable*: that they could have happened so, each as a whole. The two share the graph and nothing else, so
//! that a mistake in what one of them concludes is none in the other. What it is not: it knows nothing of groups, logs,
//! leaders or replies as bytes, so no mistake of the implementation can be in it twice.
//!
//! An operation whose answer never came is *open*: it happened at some moment after its call, or never. What is
//! linearizable object by object is so as a whole (Herlihy and Wing, 1990), so objects are checked one at a time.
//! Transactions are not: they are checked all at once, in time that is linear in their number but for sorting.
//!
//! Reading order: `operation.rs`, `history.rs`, `model.rs` and one of the models, `search.rs`, `check.rs`. Then
//! `transaction.rs`, `graph.rs`, `exposed.rs`, `list_append.rs`.

mod anomaly;
pub mod bank;
mod check;
pub mod exposed;
mod fifo;
mod fingerprint;
mod graph;
mod history;
mod ledger;
pub mod list_append;
mod model;
mod operation;
mod queue_order;
pub mod queues;
mod recorder;
pub mod ring;
mod search;
mod text;
mod transaction;
mod transaction_text;

pub use anomaly::{Anomaly, Judgement, Phenomenon};
pub use check::{STATES_MAX, Undecided, Verdict, Violation, check, check_bounded};
pub use history::History;
pub use ledger::{Entry, Ledger};
pub use operation::{Answer, Call, Family, Operation, Process};
pub use recorder::{Recorder, Ticket};
pub use text::TextError;
pub use transaction::{Outcome, Transaction, Transactions};
pub use transaction_text::ActionText;

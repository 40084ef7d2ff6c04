//! What clients saw, and whether one machine could have shown it to them.
//!
//! ```text
//!   Recorder --> History --(by key and family)--> objects --> search over a model --> Verdict
//!                   ^ |
//!                   | v
//!                  text, one line an operation
//! ```
//!
//! What it is: [histories](History) of operations with the times of their calls and answers, and a check that each
//! object's operations are *linearizable*: that they could have happened one at a time, each at some moment between its
//! call and its answer, on one machine. What it is not: it knows nothing of groups, logs, leaders or replies as bytes,
//! so no mistake of the implementation can be in it twice.
//!
//! An operation whose answer never came is *open*: it happened at some moment after its call, or never. What is
//! linearizable object by object is so as a whole (Herlihy and Wing, 1990), so objects are checked one at a time.
//!
//! Reading order: `operation.rs`, `history.rs`, `model.rs` and one of the models, `search.rs`, `check.rs`.

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

//! Tests at the crate's boundary: histories in, verdicts out.

mod accepted;
mod anomalies;
mod every_order;
mod executed;
mod invariants;
mod made;
mod mutations;
mod naive;
mod spoiled;
mod strict;
mod text;
mod transaction_text;

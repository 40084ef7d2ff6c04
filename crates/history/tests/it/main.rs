//! Tests at the crate's boundary: histories in, verdicts out.

mod accepted;
mod every_order;
mod executed;
mod made;
mod naive;
mod planted;
mod strict;
mod text;

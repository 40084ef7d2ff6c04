//! Tests at the crate's boundary: histories in, verdicts out.

mod accepted;
mod made;
mod naive;
mod planted;
mod text;

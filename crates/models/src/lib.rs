//! Small exhaustive models of rules whose reasons are too subtle for prose.
//!
//! A rule that says who may vote, or what may be forgotten, is argued on a page in a few sentences. Each sentence leaves out some order
//! of events. So the rule is written down once more, as a program of which every order of events can be looked at, in a world that is
//! small enough: a handful of replicas, terms and entries. What it must keep is checked in every state, and each of its clauses
//! is left out once, to see that the check would notice: a clause whose absence nothing notices is not understood, or not needed.
//!
//! `README.md` beside this says what is shown, within which bounds. What a model is not: the product. Nothing here uses any
//! of its crates, so a mistake of the product is not in the model too, and that the product does what the rule says is for its own
//! tests and the simulation to show.

pub mod begin_anew;
pub mod catalogue;
pub mod explore;
pub mod floor;
pub mod partition_move;
pub mod progress;
pub mod promises;
pub mod replicas;

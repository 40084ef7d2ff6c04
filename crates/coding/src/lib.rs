//! Erasure coding: a value in fragments, as many of which as make a majority of the replicas make up the whole again.
//!
//! Each replica of a group keeps one *row* of the [`Code`] that goes with their number, as a [`Fragment`] (`keyspace/coded.rs`); who wants the value collects those of others in a [`Gather`]. Rows are sums over a small field, which safe code computes at
//! the speed of memory ([decision 0061](../../../docs/decisions/0061-fragments-by-doubling.md)).
//!
//! Everything is a function of bytes. What is absent: which replica has which row, when a value is replaced by its fragment, whom to
//! ask for others, and when that was long enough. No fragment is padded, in memory or on its way.

mod code;
mod field;
mod fragment;
mod gather;
mod weighted_sum;

pub use code::{Code, Row, WHOLE_BYTES_MAX};
pub use fragment::{CodeEpoch, Fragment, FragmentHead};
pub use gather::{Gather, Gathered, OfferRefused, Rows};

//! A cluster of one group in one thread: virtual time, a seeded network and seeded faults, an opaque state machine.
//!
//! `CHORALE_SEEDS=from..to cargo test -p consensus` runs other seeds; the seed of a failure is in its message.

mod checks;
mod mutations;
mod network;
mod node;
mod safety;
mod scenario;
mod transcripts;
mod world;

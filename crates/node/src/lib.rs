//! Where the pure parts meet the world: worker loops, sockets, clocks, signals.
//!
//! Reading order: `start.rs` (birth and death of a node), `worker.rs` (one loop, one core), `link.rs` (one
//! socket), `mesh.rs` (queues between workers), `errands.rs` (the thread beside them), `listener.rs`, `lobby.rs`,
//! `memory.rs`, `metrics.rs`.

mod announcing;
mod birth;
mod clock;
mod errands;
mod handover;
mod leaving;
mod link;
mod listener;
mod lobby;
mod memory;
mod mesh;
mod meta;
mod metrics;
mod peers;
mod random;
mod recovery;
mod start;
mod status;
mod transactions;
mod view;
mod worker;

pub use recovery::{MetaRecovery, recover_meta};
pub use start::{StartError, run};

//! Whole clusters in one thread, from one seed.
//!
//! What it promises: a seed and a commit are a complete report of a failure. Time, network, processes, clocks and clients
//! are simulated; what runs inside a node is what runs in production. What the clients know nothing of: what the nodes do.
//! They judge them by their histories alone.
//!
//! Reading order: `node.rs` (what a node is told, and does), `swarm.rs` (what a seed draws), `world.rs` (what happens), then
//! `clock.rs`, `network.rs`, `clients.rs`, `workloads.rs`; `seed.rs` runs one and explains its failure.

mod clients;
mod clock;
mod full_node;
mod network;
mod node;
mod reply;
mod seed;
mod swarm;
mod trace;
mod workloads;
mod world;

pub use full_node::given_up;
pub use node::Shape;
pub use seed::{Failure, Options, Summary, run};
pub use swarm::{NODES_MAX, Swarm, WORKERS_MAX};
pub use world::faults::zones_lost;

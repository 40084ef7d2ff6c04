//! Whole clusters in one thread, from one seed.
//!
//! What it promises: a seed and a commit are a complete report of a failure. Time, network, processes, clocks and clients
//! are simulated; what runs inside a node is what runs in production. What the clients know nothing of: what the nodes do.
//! They judge them by their histories alone.
//!
//! Of a disk go wrong: all operations at once, because the power goes; one of them alone; its room, its speed, its end (a sync that never ends);
//! what it has kept (a bit, some blocks, a file, a block that stands in the place of another one); all of it; and what is put back when it was
//! copied before. What a single operation may do to a single file is in `storage/sim_disk.rs`, and is tried at each of them by the tests
//! there. What cannot be got back is done to one node at a time, so that others have it: then whatever is lost is a mistake.
//!
//! Reading order: `node.rs` (what a node is told, and does), `swarm.rs` (what a seed draws), `world.rs` (what happens), then
//! `clock.rs`, `network.rs`, `clients.rs`, `workloads.rs`; `seed.rs` runs one and explains its failure.

mod clients;
mod clock;
mod full_node;
mod network;
mod node;
mod padding;
mod reply;
mod scale;
mod seed;
mod swarm;
mod trace;
mod workloads;
mod world;

pub use full_node::{Coded, given_up};
pub use node::Shape;
pub use scale::{SCALE_NODES_MAX, SCALE_NODES_MIN, ScaleReport, SizeReport, StepReport, scale, simulate};
pub use seed::{Failure, Options, Summary, run};
pub use swarm::{NODES_MAX, Swarm, WORKERS_MAX};
pub use world::faults::{Mishaps, mishaps, upgrades, zones_lost};

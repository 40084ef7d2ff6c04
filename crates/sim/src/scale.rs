//! Clusters of up to a thousand nodes with stubbed data: what a change of members costs, and for how long it is not settled.
//!
//! ```text
//!   founding --state, replicas--> fleet: Meta * nodes  <--bytes of messages--> Meta
//!                                   |  ^
//!                            orders |  | group reports
//!                                   v  |
//!                                 stub groups             tally --> report: table, exponents, JSON
//! ```
//!
//! What runs is production's: the meta group with its log, state and reconciler, placement, and on every node the part that learns
//! maps, says that it lives and asks. Every message is encoded, framed and read as between processes. What is a stub is said in
//! `scale/stub_group.rs` and `scale/fleet.rs`: groups of keys have configurations and leaders and no logs; a replica fills at a fixed pace;
//! a partition moves in a fixed time; a disk takes a fixed time for a sync, and a link has a fixed delay and breadth. Counted besides are the
//! fences in logs of groups, and the layouts that one node makes of its maps. What is not counted is what links cost that nobody uses, what
//! workers do with a layout, and what groups of keys say among themselves. Nothing is drawn at random but what nodes draw
//! themselves, from fixed seeds: a run of the same build counts the same, to the byte. CPU time is measured, and is this machine's.

mod fleet;
mod founding;
mod report;
mod scenario;
mod stub_group;
mod tally;

pub use report::{ScaleReport, SizeReport, StepReport};
pub use scenario::simulate;

use crate::scale::report::exponents;

/// Fewest nodes: three zones with two nodes each, so that a zone can be lost, and a node besides.
pub const SCALE_NODES_MIN: usize = 6;

/// Most nodes, one that joins not counted.
pub const SCALE_NODES_MAX: usize = control::NODES_MAX - 1;

/// Simulates clusters of these sizes that were founded with so many groups, one after the other. `progress` is told what was found of each.
pub fn scale(sizes: &[usize], groups: u16, mut progress: impl FnMut(&SizeReport)) -> ScaleReport {
    let sizes: Vec<SizeReport> = sizes
        .iter()
        .map(|&nodes| {
            let found = simulate(nodes, groups);
            progress(&found);
            found
        })
        .collect();
    ScaleReport {
        exponents: exponents(&sizes),
        groups,
        sizes,
    }
}

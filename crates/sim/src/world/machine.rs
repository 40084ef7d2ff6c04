//! A process, and the machine that it runs on.

use crate::clock::NodeClock;
use crate::full_node::{FullNode, Left};
use crate::node::Input;
use ids::Prng;
use std::time::Duration;
use storage::{DiskCopy, SimDisk};

/// See the file's header.
pub(super) struct Machine {
    pub(super) node: Option<FullNode>,
    pub(super) left: Option<Left>,
    pub(super) clock: NodeClock,
    pub(super) prng: Prng,
    /// Its processes are counted.
    pub(super) life: u32,
    /// Until then it is busy, or stopped, and what comes waits: in `inbox`, and its next turn is scheduled.
    pub(super) free_at: u64,
    pub(super) inbox: Vec<Input>,
    pub(super) turns: u64,
    /// The timer that is scheduled, and how many were.
    pub(super) timer: Option<u64>,
    pub(super) timers: u64,
    /// Then all others have heard that its last process has ended.
    pub(super) end_heard: u64,
    /// Out of the game for ever.
    pub(super) is_dead: bool,
    /// Because its node has left the cluster: nobody waits for it.
    pub(super) has_left: bool,
    /// Its disk is to fail at one of its next operations.
    pub(super) is_disk_ill: bool,
    /// Since when no sync of its disk ends.
    pub(super) hangs_since: Option<u64>,
    /// What somebody has copied of its disk, and in which life of it.
    pub(super) copy: Option<(DiskCopy, u32)>,
}

impl Machine {
    pub(super) fn new(clock: NodeClock, prng: Prng) -> Machine {
        Machine {
            node: None,
            left: None,
            clock,
            prng,
            life: 0,
            free_at: 0,
            inbox: Vec::new(),
            turns: 0,
            timer: None,
            timers: 0,
            end_heard: 0,
            is_dead: false,
            has_left: false,
            is_disk_ill: false,
            hangs_since: None,
            copy: None,
        }
    }

    pub(super) fn disk(&self) -> Option<&SimDisk> {
        let left = self.left.as_ref().map(Left::disk);
        self.node.as_ref().map(FullNode::disk).or(left)
    }

    /// Its disk does not fail, or not any more.
    pub(super) fn heal_disk(&mut self) {
        self.is_disk_ill = false;
        if let Some(disk) = self.disk() {
            disk.plan(None);
            disk.make_room();
            disk.slow_down(Duration::ZERO);
            disk.let_go();
        }
    }
}

/// The processes that run, by their machines.
pub(super) fn running(machines: &[Machine]) -> Vec<Option<&FullNode>> {
    machines.iter().map(|machine| machine.node.as_ref()).collect()
}

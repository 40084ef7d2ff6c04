//! What goes wrong while the storm lasts.

use super::machine::running;
use super::{End, Event, RECOVERY, World};
use crate::clock::{MILLIS, SECONDS};
use crate::full_node::{CodingOrder, FullNode, Killed, Left, Order, Whim};
use crate::node::Input;
use crate::swarm::Fault;
use ids::{DurabilityMode, Prng};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static ZONES_LOST: Cell<u64> = const { Cell::new(0) };
}

/// How often a whole zone was killed, in all simulations of this thread so far, and nothing was lost by it.
pub fn zones_lost() -> u64 {
    ZONES_LOST.get()
}

thread_local! {
    static UPGRADES: Cell<u64> = const { Cell::new(0) };
}

/// How many clusters, some nodes of which knew older rules at first, follow the newest at their end, in all simulations of this thread so far.
pub fn upgrades() -> u64 {
    UPGRADES.get()
}

pub(super) fn count_upgrade() {
    UPGRADES.set(UPGRADES.get() + 1);
}

/// What disks did beside failing as a whole, and what operators did to them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Mishaps {
    /// Processes that ended because a sync did not.
    pub hung: u64,
    /// Logs and snapshots that were damaged, or of which a block was written to another place.
    pub damaged: u64,
    /// Older copies of directories that were put back.
    pub put_back: u64,
}

thread_local! {
    static MISHAPS: Cell<Mishaps> = const { Cell::new(Mishaps { hung: 0, damaged: 0, put_back: 0 }) };
}

/// What there was of that in all simulations of this thread so far.
pub fn mishaps() -> Mishaps {
    MISHAPS.get()
}

pub(super) fn count(add: impl FnOnce(&mut Mishaps)) {
    let mut mishaps = MISHAPS.get();
    add(&mut mishaps);
    MISHAPS.set(mishaps);
}

impl World<'_> {
    pub(super) fn on_fault(&mut self, fault: Fault, rate: u64) -> Result<(), String> {
        if self.phase.is_calm() {
            return Ok(());
        }
        self.schedule_fault(fault, rate);
        let node = self.prng.below(self.machines.len() as u64) as usize;
        match fault {
            Fault::Partition => {
                if self.machines.len() > 1 {
                    let name = self.network.partition(self.now);
                    self.note(|| format!("partition: {name}"));
                }
            }
            Fault::Break => {
                let peer = self.prng.below(self.machines.len() as u64) as usize;
                if peer != node {
                    // Both ends hear of it before there is another one.
                    let until = self.now + 2 * MILLIS + self.prng.below(500) * MILLIS;
                    self.break_link(node, peer, until);
                }
            }
            Fault::Kill => {
                if self.survives_without(&[node], false) {
                    self.end(node, false);
                }
            }
            Fault::HandOver => {
                // One that has not begun has nothing to hand over yet.
                let is_serving = self.machines[node]
                    .node
                    .as_ref()
                    .is_some_and(FullNode::is_serving);
                if is_serving || self.survives_without(&[node], false) {
                    if self.disks.below(3) == 0 {
                        let (life, within) = (self.machines[node].life, 1 << self.disks.below(28));
                        let delay = self.disks.below(within);
                        self.after(delay, Event::Kill(node, life));
                    }
                    self.note(|| format!("node {node} is told to stop"));
                    self.input(node, Input::Order(Order::Stop))?;
                }
            }
            Fault::Disk => self.harm_disk(node),
            Fault::Pause => {
                let pause = 10 * MILLIS + self.prng.below(2 * SECONDS);
                let machine = &mut self.machines[node];
                machine.free_at = machine.free_at.max(self.now + pause);
                self.note(|| format!("node {node} is stopped for {} ms", pause / MILLIS));
            }
            Fault::Jump => {
                let by =
                    self.prng.below(2 * self.swarm.wall_millis + 1) as i64 - self.swarm.wall_millis as i64;
                self.machines[node].clock.jump(by);
                self.note(|| format!("node {node}'s wall clock is set by {by} ms"));
            }
            Fault::Transfer => self.whim(Whim::Transfer),
            Fault::Move => self.whim(Whim::Move),
            Fault::Drain => self.whim(Whim::Drain),
            Fault::Replace => self.whim(Whim::Replace),
            Fault::Rebalance => self.whim(Whim::Rebalance),
            Fault::Resize => self.whim(Whim::Resize),
            Fault::Grow => self.whim(Whim::Grow),
            Fault::MayStop => self.whim(Whim::MayStop),
            Fault::PartitionMove => self.whim(Whim::PartitionMove),
            Fault::Forget => self.whim(Whim::Forget),
            Fault::ReplaceZone => self.whim(Whim::ReplaceZone),
            Fault::Cut => self.whim(Whim::Cut),
            Fault::Durability => self.whim(Whim::Durability),
            Fault::Ruin => self.ruin(node),
            Fault::Outage => self.outage(node),
            Fault::Blackout => self.blackout(node),
            Fault::Damage => self.damage(node, Left::damage),
            Fault::Misplace => self.damage(node, Left::misplace),
            Fault::Error => {
                let fault = match self.disks.below(4) {
                    0 => storage::Fault::ReadFails,
                    _ => storage::Fault::Fails,
                };
                self.plan_disk(node, fault);
            }
            Fault::Hang => self.plan_disk(node, storage::Fault::Hangs),
            Fault::OldDisk => self.old_disk(node),
            Fault::Zone => self.zone(node),
            Fault::Coding => self.set_coding(!self.coding.is_on),
        }
        Ok(())
    }

    /// The disk of a machine fails at one of its next operations, is slow, or is lost with everything on it.
    fn harm_disk(&mut self, index: usize) {
        let what = self.disks.below(11);
        if what > 8 {
            return self.slow_disk(index);
        }
        if what == 0 {
            if self.survives_without(&[index], true) {
                self.end(index, false);
                self.machines[index].left = None;
                self.machines[index].is_disk_ill = false;
                self.note(|| format!("node {index}'s disk is lost"));
            }
            return;
        }
        self.plan_disk(
            index,
            match what {
                1..=3 => storage::Fault::PowerCut,
                4..=6 => storage::Fault::SyncFails,
                _ => storage::Fault::Full,
            },
        );
    }

    /// Syncs of a machine take longer, or do not end.
    fn slow_disk(&mut self, index: usize) {
        let millis = [60, 300, 2_000, 40_000][self.disks.below(4) as usize];
        if let Some(disk) = self.machines[index].disk() {
            disk.slow_down(Duration::from_millis(millis));
            self.machines[index].is_disk_ill = true;
            self.note(|| format!("node {index}'s disk takes {millis} ms longer for a sync"));
        }
    }

    pub(super) fn plan_disk(&mut self, index: usize, fault: storage::Fault) {
        let after = self.disks.below(8);
        // What hangs does nothing that could fail.
        let disk = self.machines[index].disk().filter(|disk| !disk.hangs());
        if let Some(disk) = disk {
            disk.plan(Some((disk.operations() + after, fault)));
            self.machines[index].is_disk_ill = true;
            self.note(|| format!("node {index}'s disk is ill: {fault:?}"));
        }
    }

    /// Two nodes or more are killed at once, not all. Groups may have lost what they acknowledged: from here on clients use other
    /// keys, and what they were not told stays unknown. All else holds as ever.
    fn ruin(&mut self, first: usize) {
        let nodes = self.machines.len();
        let count = 2 + self.prng.below(nodes as u64 - 2) as usize;
        for number in 0..count {
            self.end((first + number) % nodes, false);
        }
        if self.lose_clients() == 1 {
            self.after(RECOVERY, Event::Recovery);
        }
    }

    /// Clients use other keys from here on. How often that was.
    fn lose_clients(&mut self) -> u64 {
        for index in 0..self.clients.clients.len() {
            if let Some(connection) = self.clients.clients[index].connection {
                self.clients.lose(index);
                self.hang_up(connection);
                self.after(MILLIS, Event::Wake(index));
            }
        }
        self.clients.begin_anew()
    }

    /// Nodes lose their power at once, not all, and one of those that are left may be out of reach for a while. Groups begin anew by
    /// themselves, and may have lost what was not synced.
    fn blackout(&mut self, first: usize) {
        let nodes = self.machines.len();
        let count = 1 + self.disks.below(nodes as u64 - 1) as usize;
        for number in 0..count {
            self.end_by((first + number) % nodes, End::Killed(Killed::ByPower));
        }
        if self.disks.below(2) == 0 {
            let alone = (first + count) % nodes;
            let until = self.now + SECONDS + self.disks.below(8 * SECONDS);
            for peer in (0..nodes).filter(|peer| *peer != alone) {
                self.break_link(alone, peer, until);
            }
        }
        self.lose_clients();
    }

    /// Some processes end at once, or all of them; in `strict` it may be that the power has gone.
    fn outage(&mut self, first: usize) {
        let nodes = self.machines.len();
        let count = match self.disks.below(2) {
            0 => nodes,
            _ => 1 + self.disks.below(nodes as u64) as usize,
        };
        let all = || self.machines.iter().filter_map(|machine| machine.node.as_ref());
        let is_power = self.swarm.shape.mode() == DurabilityMode::Strict
            && all().all(|node| node.guaranteed() == DurabilityMode::Strict)
            && self.disks.below(2) == 0;
        for number in 0..count {
            let index = (first + number) % nodes;
            self.machines[index].heal_disk();
            let how = if is_power { Killed::ByPower } else { Killed::Alone };
            self.end_by(index, End::Killed(how));
        }
    }

    /// The zone of a node is lost: all its processes are killed at once, unless others are away already, and too many are; or it hears
    /// nothing of others for a while, nor they of it.
    fn zone(&mut self, node: usize) {
        let zone = |node: usize| self.swarm.shape.zone(node);
        let (own, others): (Vec<usize>, Vec<usize>) =
            (0..self.machines.len()).partition(|other| zone(*other) == zone(node));
        if self.disks.below(2) == 0 && self.survives_without(&own, false) {
            self.note(|| format!("the zone of node {node} is lost"));
            ZONES_LOST.set(ZONES_LOST.get() + 1);
            own.iter().for_each(|node| self.end(*node, false));
            return;
        }
        self.note(|| format!("the zone of node {node} is cut off"));
        let until = self.now + SECONDS + self.disks.below(4 * SECONDS);
        for (node, peer) in own
            .iter()
            .flat_map(|node| others.iter().map(move |peer| (*node, *peer)))
        {
            self.break_link(node, peer, until);
        }
    }

    /// A process is killed, and before it starts again the log of one of its workers is damaged below what it knows to be synced. What
    /// others hold is enough: nothing may be lost.
    fn damage(&mut self, index: usize, harm: impl Fn(&mut Left, &mut Prng) -> Option<String>) {
        let is_serving = |node: &FullNode| node.is_serving();
        let may_be = self.machines[index].node.as_ref().is_some_and(is_serving)
            && self.survives_without(&[index], false);
        if !may_be {
            return;
        }
        self.machines[index].heal_disk();
        self.end_by(index, End::Killed(Killed::Alone));
        let Some(left) = &mut self.machines[index].left else {
            return;
        };
        if let Some(what) = harm(left, &mut self.disks) {
            count(|mishaps| mishaps.damaged += 1);
            self.note(|| format!("node {index}: {what}"));
        }
    }

    /// The directory of a machine is copied while its process runs; or that is killed, and the copy that was made last is in its place when
    /// the next one starts. A copy of files has other files. An image of the disk has the same, and is noticed if the cluster has
    /// counted a start since then: before that none is put back. What others hold is enough: nothing may be lost.
    fn old_disk(&mut self, index: usize) {
        let machine = &self.machines[index];
        let Some(node) = machine.node.as_ref().filter(|node| node.is_serving()) else {
            return;
        };
        let Some((_, life)) = &machine.copy else {
            self.machines[index].copy = Some((node.disk().copy(), machine.life));
            self.note(|| format!("node {index}'s directory is copied"));
            return;
        };
        if !self.survives_without(&[index], false) {
            return;
        }
        let is_image = *life != machine.life && self.disks.below(2) == 0;
        self.machines[index].heal_disk();
        self.end_by(index, End::Killed(Killed::Alone));
        let machine = &mut self.machines[index];
        if let (Some(left), Some((copy, _))) = (&mut machine.left, machine.copy.take()) {
            left.put_back(&copy, is_image);
            count(|mishaps| mishaps.put_back += 1);
            let what = if is_image { "image" } else { "copy" };
            self.note(|| format!("an older {what} of node {index}'s directory is put back"));
        }
    }

    fn whim(&mut self, whim: Whim) {
        let running = running(&self.machines);
        let orders = FullNode::orders(&running, whim, &mut self.prng);
        self.note(|| format!("operator: {whim:?}"));
        self.deliver(orders);
    }

    /// An operator has all nodes keep values as fragments from here on, or not any more.
    pub(super) fn set_coding(&mut self, is_on: bool) {
        self.coding = CodingOrder {
            is_on,
            number: self.coding.number + 1,
        };
        self.note(|| format!("operator: coding {}", if is_on { "on" } else { "off" }));
        for node in 0..self.machines.len() {
            let delay = MILLIS + self.prng.below(200 * MILLIS);
            self.after(delay, Event::Order(node, Order::Coding(self.coding)));
        }
    }

    fn break_link(&mut self, node: usize, peer: usize, until: u64) {
        self.network.break_link(node, peer, until);
        self.note(|| format!("the link of {node} and {peer} breaks"));
        for (one, other) in [(node, peer), (peer, node)] {
            let delay = self.prng.below(2 * MILLIS);
            self.after(delay, Event::LinkDown(one, other));
            self.schedule(until + delay, Event::LinkUp(one, other));
        }
    }
}

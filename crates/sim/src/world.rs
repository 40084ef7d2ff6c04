//! A cluster from one seed: nodes, network, clients and faults in one thread and one time.
//!
//! ```text
//!            storm: faults as the seed drew them         calm: a quorum is healed, the others are dead for ever
//!   |--------|-------------------------------------------|---------------------------------| rest
//!    forming  clients ask and give up                     everything is answered in time     histories, states compared
//! ```
//!
//! Everything that happens is an event at a moment of the true time; events of one moment happen in the order in which they
//! were scheduled. Nothing else decides anything, so a seed is the whole story.

pub(crate) mod faults;
mod machine;
mod wires;

use crate::clients::Clients;
use crate::clock::{Clock, MILLIS, NodeClock, SECONDS};
use crate::full_node::{
    Checks, Coded, CodingOrder, Fate, Frame, FullNode, Killed, Left, Order, check_at_rest, check_coded,
    describe_piece,
};
use crate::network::Network;
use crate::node::{Bootstrap, Connection, Input, Output};
use crate::reply;
use crate::swarm::{Fault, Swarm};
use crate::trace::Trace;
use ids::{Boot, Monotonic, NodeId, Prng, SemanticsVersion};
use machine::{Machine, running};
use std::collections::{BTreeMap, BTreeSet};
use storage::SimDisk;
use wires::Wire;

/// How long a cluster may take to form, and between two looks at it.
const FORMING_MAX: u64 = 120 * SECONDS;
const LOOK: u64 = 50 * MILLIS;
/// How long anything may take once the storm is over, elections and transfers of state included.
const ANSWER_MAX: u64 = 15 * SECONDS;
/// How long the calm lasts at most.
const CALM_MAX: u64 = 60 * SECONDS;
/// From the last answer to the comparison of states, and from one to the next.
const REST: u64 = SECONDS;
/// How long after the last answer members and states may still be on their way.
const REST_MAX: u64 = 20 * SECONDS;
/// How much longer partitions may move to groups that were added.
const GROWTH_MAX: u64 = 60 * SECONDS;
/// How much longer a group may take until it has the code for its replicas: it is given another one only after 15 seconds with another
/// number of them, and makes all values whole before.
const CODE_MAX: u64 = 30 * SECONDS;
/// How long it takes others at most to hear that a process has ended.
const END_HEARD_MAX: u64 = 2 * MILLIS;
/// How late frames of the storm come in the calm.
const LATE_MAX: u64 = 100 * MILLIS;
/// Requests of each client in the calm, besides reading everything.
const CALM_REQUESTS: usize = 8;
/// Events of one simulation; beyond it, it is taken for one that never comes to rest.
const EVENTS_MAX: u64 = 4_000_000;

/// How long a disk that hangs takes nothing from anybody. Its process ends after half a minute, by its own clock.
const HANGS_ALONE: u64 = 25 * SECONDS;

/// How often an operator looks for groups that have lost their majority, once anything was ruined.
const RECOVERY: u64 = 300 * MILLIS;

const MINUTE: u64 = 60 * SECONDS;

enum Event {
    /// From whom, to whom, and in which life of the link.
    Frame(usize, usize, Frame, u32),
    LinkDown(usize, usize),
    LinkUp(usize, usize),
    Order(usize, Order),
    Timer(usize, u64),
    Turn(usize, u64),
    ToServer(Connection, Vec<u8>),
    Hangs(Connection),
    ToClient(Connection, Vec<u8>),
    Reset(Connection),
    Wake(usize),
    Patience(usize, Connection),
    Start(usize, u32),
    /// A process in this life is killed, if it can be spared.
    Kill(usize, u32),
    Look,
    /// With how many of it there are a minute.
    Fault(Fault, u64),
    Calm,
    Rest(u64),
    Recovery,
}

/// How a process ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    InOrder,
    Killed(Killed),
    Exit,
}

/// How far a simulation is; see the file's header.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Forming,
    Storm,
    Calm {
        since: u64,
    },
    /// The clients are done.
    Rest,
    Over,
}

impl Phase {
    /// Whether the storm is over.
    fn is_calm(self) -> bool {
        !matches!(self, Phase::Forming | Phase::Storm)
    }
}

/// A simulation. See the file's header.
pub(crate) struct World<'a> {
    swarm: &'a Swarm,
    trace: &'a mut Trace,
    now: u64,
    scheduled: u64,
    events: BTreeMap<(u64, u64), Event>,
    machines: Vec<Machine>,
    network: Network,
    clients: &'a mut Clients,
    wires: BTreeMap<Connection, Wire>,
    connections: u64,
    checks: Checks,
    /// Nodes that operators have told to leave. What they were told is refused at times.
    leaving: BTreeSet<NodeId>,
    /// Starts of nodes that operators have had replaced, or have tried to.
    replaced: BTreeSet<Boot>,
    prng: Prng,
    /// Of disks, and of kills in the middle of a stop.
    disks: Prng,
    phase: Phase,
    count: u64,
    fingerprint: u64,
    /// What is set at nodes, or on its way to them.
    coding: CodingOrder,
    /// What processes kept as fragments that have ended.
    coded: Coded,
}

impl<'a> World<'a> {
    pub(crate) fn new(
        seed: u64,
        swarm: &'a Swarm,
        clients: &'a mut Clients,
        trace: &'a mut Trace,
    ) -> World<'a> {
        let mut prng = Prng::new(seed);
        let network = Network::new(swarm.shape.nodes, Prng::new(prng.next_u64()));
        // Seeds that are written down count on this draw.
        prng.next_u64();
        let machines = (0..swarm.shape.nodes)
            .map(|_| {
                let drift = prng.below(2 * swarm.drift_ppm + 1) as i64 - swarm.drift_ppm as i64;
                let wall = prng.below(2 * swarm.wall_millis.min(1_000) + 1) as i64;
                let clock = NodeClock::new(prng.below(SECONDS), drift, wall);
                Machine::new(clock, Prng::new(prng.next_u64()))
            })
            .collect();
        World {
            swarm,
            trace,
            now: 0,
            scheduled: 0,
            events: BTreeMap::new(),
            machines,
            network,
            clients,
            wires: BTreeMap::new(),
            connections: 0,
            checks: Checks::new(&swarm.shape),
            leaving: BTreeSet::new(),
            replaced: BTreeSet::new(),
            prng,
            disks: Prng::new(seed ^ 0x4449_534b_5300_0006),
            phase: Phase::Forming,
            count: 0,
            fingerprint: seed,
            coding: CodingOrder {
                is_on: swarm.shape.coding.is_some(),
                number: 0,
            },
            coded: Coded::default(),
        }
    }

    /// Runs it to its end: how many events there were, the fingerprint, and what was kept as fragments.
    ///
    /// # Errors
    /// What went wrong.
    pub(crate) fn run(mut self) -> Result<(u64, u64, Coded), String> {
        for node in 0..self.machines.len() - self.swarm.late {
            let delay = self.prng.below(20 * MILLIS);
            self.schedule(delay, Event::Start(node, 0));
        }
        self.schedule(LOOK, Event::Look);
        while self.phase != Phase::Over {
            let Some(((at, _), event)) = self.events.pop_first() else {
                return Err("nothing is left to happen, and the clients are not done".to_owned());
            };
            self.now = at;
            self.count += 1;
            if self.count > EVENTS_MAX {
                return Err(format!("more than {EVENTS_MAX} events: it does not come to rest"));
            }
            if let Phase::Calm { since } = self.phase
                && at > since + CALM_MAX
            {
                let undone = self.clients.undone();
                return Err(format!(
                    "the calm is over, and the clients are not done: {undone}"
                ));
            }
            self.happen(event)?;
        }
        let is_newest = |node: &FullNode| node.semantics() == Some(SemanticsVersion::CURRENT);
        let is_upgraded = running(&self.machines).into_iter().flatten().any(is_newest);
        if is_upgraded && !self.swarm.shape.first_rules.is_empty() {
            faults::count_upgrade();
        }
        self.note(|| "at rest".to_owned());
        for node in running(&self.machines).into_iter().flatten() {
            self.coded.add(node.coded());
        }
        Ok((self.count, self.fingerprint, self.coded))
    }

    /// As soon as the cluster has formed, clients come, and faults.
    fn on_look(&mut self) -> Result<(), String> {
        let running = running(&self.machines);
        if !self.checks.is_formed(&running) {
            if self.now >= FORMING_MAX {
                return Err("the cluster has not formed".to_owned());
            }
            self.after(LOOK, Event::Look);
            return Ok(());
        }
        self.note(|| "the cluster has formed".to_owned());
        for node in self.machines.len() - self.swarm.late..self.machines.len() {
            let delay = self.prng.below(self.swarm.storm);
            self.after(delay, Event::Start(node, 0));
        }
        for client in 0..self.clients.clients.len() {
            let delay = self.prng.below(self.swarm.think + 1);
            self.after(delay, Event::Wake(client));
        }
        for (fault, rate) in self.swarm.faults() {
            self.schedule_fault(fault, rate);
        }
        self.network.storm();
        self.phase = Phase::Storm;
        self.after(self.swarm.storm, Event::Calm);
        Ok(())
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((at.max(self.now), self.scheduled), event);
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.schedule(self.now + delay, event);
    }

    /// A line of the trace, which is made only if somebody reads it.
    fn note(&mut self, line: impl FnOnce() -> String) {
        self.trace.add(self.now, line);
    }

    fn schedule_fault(&mut self, fault: Fault, rate: u64) {
        if let Some(mean) = MINUTE.checked_div(rate) {
            let delay = self.prng.below(2 * mean) + 1;
            self.after(delay, Event::Fault(fault, rate));
        }
    }

    fn mark(&mut self, kind: u64, who: u64) {
        let mixed = self.fingerprint ^ self.now.rotate_left(17) ^ kind << 56 ^ who << 40;
        self.fingerprint = Prng::new(mixed).next_u64();
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Frame(from, to, frame, life) => self.on_frame(from, to, frame, life),
            Event::LinkDown(node, peer) => self.input(node, Input::LinkDown(NodeId(peer as u64))),
            Event::LinkUp(node, peer) => {
                if self.network.down_until(node, peer) > self.now || self.machines[peer].node.is_none() {
                    return Ok(());
                }
                self.input(node, Input::LinkUp(NodeId(peer as u64)))
            }
            Event::Order(node, order) => self.input(node, Input::Order(order)),
            Event::Timer(node, timer) => {
                if self.machines[node].timers != timer {
                    return Ok(());
                }
                self.machines[node].timer = None;
                self.input(node, Input::Timer)
            }
            Event::Turn(node, turn) => {
                if self.machines[node].turns != turn {
                    return Ok(());
                }
                self.turn(node)
            }
            Event::ToServer(connection, bytes) => self.on_bytes(connection, bytes),
            Event::Hangs(connection) => self.on_hang_up(connection),
            Event::ToClient(connection, bytes) => self.on_answer(connection, &bytes),
            Event::Reset(connection) => self.on_reset(connection),
            Event::Wake(client) => self.on_wake(client),
            Event::Patience(client, connection) => self.on_patience(client, connection),
            Event::Start(node, life) => self.on_start(node, life),
            Event::Kill(node, life) => {
                // In the calm others are dead for ever, which nobody could be spared beside.
                let is_storm = self.phase == Phase::Storm;
                if is_storm && self.machines[node].life == life && self.survives_without(&[node], false) {
                    self.end(node, false);
                }
                Ok(())
            }
            Event::Look => self.on_look(),
            Event::Fault(fault, rate) => self.on_fault(fault, rate),
            Event::Calm => self.on_calm(),
            Event::Rest(until) => self.on_rest(until),
            Event::Recovery => {
                let running = running(&self.machines);
                let orders = FullNode::recoveries(&running);
                self.note(|| format!("operator: {} groups begin anew", orders.len()));
                self.deliver(orders);
                if self.phase != Phase::Over {
                    self.after(RECOVERY, Event::Recovery);
                }
                Ok(())
            }
        }
    }

    /// A node is given an input: now, or together with what else comes until it is free.
    fn input(&mut self, index: usize, input: Input) -> Result<(), String> {
        let machine = &mut self.machines[index];
        if machine.node.is_none() {
            return Ok(());
        }
        machine.inbox.push(input);
        if machine.free_at <= self.now {
            return self.turn(index);
        }
        if machine.inbox.len() == 1 {
            self.schedule_turn(index);
        }
        Ok(())
    }

    fn schedule_turn(&mut self, index: usize) {
        let machine = &mut self.machines[index];
        machine.turns += 1;
        let (at, turn) = (machine.free_at, machine.turns);
        self.schedule(at, Event::Turn(index, turn));
    }

    fn turn(&mut self, index: usize) -> Result<(), String> {
        self.spare_disk(index);
        let machine = &mut self.machines[index];
        let inputs = std::mem::take(&mut machine.inbox);
        let Some(node) = machine.node.as_mut().filter(|_| !inputs.is_empty()) else {
            return Ok(());
        };
        machine.turns += 1;
        if self.trace.is_wanted() {
            for input in &inputs {
                let line = match input {
                    Input::Timer => continue,
                    Input::Frame(from, frame) => format!("from {}: {}", from.0, describe_piece(frame)),
                    Input::LinkUp(peer) => format!("link to {} up", peer.0),
                    Input::LinkDown(peer) => format!("link to {} down", peer.0),
                    Input::Bytes(connection, bytes) => {
                        format!("connection {}: {}", connection.0, reply::words(bytes))
                    }
                    Input::Gone(connection) => format!("connection {} is gone", connection.0),
                    Input::Order(_) => "an order".to_owned(),
                };
                self.trace.hear(self.now, || format!("node {index}: {line}"));
            }
        }
        let stalls = match self.phase {
            Phase::Storm => self.swarm.stalls,
            _ => (0, 0),
        };
        let mut clock = Clock::new(&machine.clock, self.now, &mut machine.prng, stalls);
        let mut out = Output::new(self.trace.is_wanted());
        let count = inputs.len() as u64;
        node.handle(inputs, &mut clock, &mut out);
        let done = clock.truth() + self.swarm.turn;
        self.mark(count, index as u64);
        self.after_step(index, done, out)
    }

    /// A disk does not fail if what is on its machine is needed.
    fn spare_disk(&mut self, index: usize) {
        let machine = &mut self.machines[index];
        let hangs = machine.disk().is_some_and(SimDisk::hangs);
        let since = hangs.then(|| machine.hangs_since.unwrap_or(self.now));
        machine.hangs_since = since;
        if since.is_some_and(|since| self.now < since + HANGS_ALONE) {
            return;
        }
        if self.machines[index].is_disk_ill && !self.survives_without(&[index], false) {
            self.machines[index].heal_disk();
        }
    }

    fn on_start(&mut self, index: usize, life: u32) -> Result<(), String> {
        self.spare_disk(index);
        let machine = &mut self.machines[index];
        if machine.is_dead || machine.node.is_some() || machine.life != life {
            return Ok(());
        }
        let left = machine.left.take();
        if let Some(left) = &left {
            // It hung for that process.
            left.disk().let_go();
        }
        if let Some(left) = &left
            && (self.phase.is_calm() || self.disks.below(2) == 0)
        {
            left.disk().make_room();
        }
        let how = if left.is_some() {
            "with its memory"
        } else {
            "empty"
        };
        self.trace.add(self.now, || format!("node {index} starts {how}"));
        let bootstrap = Bootstrap {
            me: NodeId(index as u64),
            left,
            founds: index == 0 && self.phase == Phase::Forming,
            is_first: life == 0,
            seed: machine.prng.next_u64(),
            shape: &self.swarm.shape,
            coding: self.coding,
            piece_bytes: self.swarm.piece_bytes(),
        };
        let mut clock = Clock::new(&machine.clock, self.now, &mut machine.prng, (0, 0));
        let mut out = Output::new(self.trace.is_wanted());
        match FullNode::start(bootstrap, &mut clock, &mut out) {
            Ok(node) => machine.node = Some(node),
            Err(left) => {
                machine.left = Some(left);
                let notes = out.notes.into_iter().flatten().collect::<Vec<_>>().join("; ");
                self.note(|| format!("node {index}: {notes}"));
                let down = self.now + 5 * MILLIS + self.disks.below(SECONDS);
                self.schedule(down, Event::Start(index, life));
                return Ok(());
            }
        }
        machine.timer = None;
        let done = clock.truth();
        self.mark(8, index as u64);
        self.after_step(index, done, out)?;
        for peer in 0..self.machines.len() {
            if peer == index {
                continue;
            }
            self.after(0, Event::LinkUp(peer, index));
            if self.network.down_until(index, peer) > self.now || self.machines[peer].node.is_none() {
                self.after(0, Event::LinkDown(index, peer));
            }
        }
        Ok(())
    }

    /// What a node did leaves it, and the invariants are looked at.
    fn after_step(&mut self, index: usize, done: u64, out: Output) -> Result<(), String> {
        let machine = &mut self.machines[index];
        machine.free_at = machine.free_at.max(done);
        if done > self.now + 10 * MILLIS {
            let millis = (done - self.now) / MILLIS;
            self.note(|| format!("node {index} stalled for {millis} ms"));
        }
        for line in out.heard {
            self.trace.hear(done, || format!("node {index}: {line}"));
        }
        for note in out.notes.into_iter().flatten() {
            self.trace.add(done, || format!("node {index}: {note}"));
        }
        for (to, frame) in out.frames {
            let to = to.0 as usize;
            let orders = frame.orders();
            if let Some(arrival) = self.network.send(index, to, orders, done, self.swarm) {
                self.schedule(arrival.at, Event::Frame(index, to, frame, arrival.life));
            }
        }
        let bytes = out.bytes.into_iter();
        let bytes = bytes.map(|(connection, bytes)| (connection, Event::ToClient(connection, bytes)));
        let closed = out.closed.into_iter();
        let closed = closed.map(|connection| (connection, Event::Reset(connection)));
        for (connection, event) in bytes.chain(closed) {
            if let Some(wire) = self.wires.get(&connection) {
                self.schedule(done + wire.latency, event);
            }
        }
        self.rearm(index);
        let running = running(&self.machines);
        let machines = &self.machines;
        let clocks = |node: NodeId| -> Monotonic { machines[node.0 as usize].clock.monotonic(done) };
        self.checks.check(&running, NodeId(index as u64), &clocks)?;
        let left = running[index].and_then(FullNode::left);
        if let Some(node) = left.filter(|node| !self.leaving.contains(node)) {
            return Err(format!("node {} is to go, and nobody wanted it", node.0));
        }
        let fenced = running[index].and_then(FullNode::fenced);
        if let Some(boot) = fenced.filter(|boot| !self.replaced.contains(boot)) {
            return Err(format!("{boot:?} is dead, and nobody wanted it"));
        }
        let now = clocks(NodeId(index as u64));
        let fate = running[index].map_or(Fate::GoesOn, |node| node.fate(now));
        // Its process does not start again.
        self.machines[index].is_dead |= left.is_some();
        self.machines[index].has_left |= left.is_some();
        match fate {
            Fate::GoesOn => {}
            Fate::Ends => self.end(index, true),
            Fate::EndsLate if self.survives_without(&[index], false) => self.end(index, true),
            Fate::EndsLate => {}
            Fate::Dies => self.end(index, false),
            Fate::Exits => {
                let hangs = self.machines[index].disk().is_some_and(SimDisk::hangs);
                faults::count(|mishaps| mishaps.hung += u64::from(hangs));
                self.end_by(index, End::Exit);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, orders: Vec<(NodeId, Order)>) {
        for (node, order) in orders {
            // Nobody has a node replaced whose memory is all that is left of something: the plan of the command says so.
            let replaced = order.replaced().into_iter();
            let replaced: Vec<usize> = replaced.filter_map(|boot| self.machine_with(boot)).collect();
            if !replaced.is_empty() && !self.survives_without(&replaced, false) {
                continue;
            }
            self.leaving.extend(order.leaving());
            self.replaced.extend(order.replaced());
            let delay = MILLIS + self.prng.below(20 * MILLIS);
            self.after(delay, Event::Order(node.0 as usize, order));
        }
    }

    fn machine_with(&self, boot: Boot) -> Option<usize> {
        let mut machines = self.machines.iter();
        machines.position(|machine| machine.node.as_ref().and_then(FullNode::boot) == Some(boot))
    }

    fn rearm(&mut self, index: usize) {
        let machine = &mut self.machines[index];
        let wanted = machine.node.as_ref().and_then(FullNode::next_timer);
        let Some(wanted) = wanted else {
            machine.timer = None;
            machine.timers += 1;
            return;
        };
        let at = machine.clock.truth(wanted).max(self.now + 1);
        if machine.timer != Some(at) {
            machine.timer = Some(at);
            machine.timers += 1;
            let timer = machine.timers;
            self.schedule(at, Event::Timer(index, timer));
        }
    }

    fn on_frame(&mut self, from: usize, to: usize, frame: Frame, life: u32) -> Result<(), String> {
        if !self.network.carries(from, to, life, self.now) {
            return Ok(());
        }
        self.input(to, Input::Frame(NodeId(from as u64), frame))
    }

    /// Whether nothing is lost if these are gone too. Whose disk has failed is on its way out, hears of no version of the cluster
    /// any more, and may leave nothing: it counts as gone. So does a start that an operator had replaced, whether it has heard of it or not.
    fn survives_without(&self, gone: &[usize], is_for_ever: bool) -> bool {
        let is_going = |node: &FullNode| {
            node.has_failed() || node.boot().is_some_and(|boot| self.replaced.contains(&boot))
        };
        let stays = |index: usize| {
            !gone.contains(&index) && !self.machines[index].node.as_ref().is_some_and(is_going)
        };
        let machines = self.machines.iter().enumerate();
        let machines = machines.map(|(index, machine)| Some(machine).filter(|_| stays(index)));
        let running: Vec<Option<&FullNode>> =
            machines.clone().map(|machine| machine?.node.as_ref()).collect();
        let left: Vec<Option<&Left>> = machines.map(|machine| machine?.left.as_ref()).collect();
        FullNode::survives(&running, &left, is_for_ever, &self.checks)
    }

    /// How many machines are dead for ever, and may be waited for: not those whose nodes have left.
    fn gone(&self) -> usize {
        let is_gone = |machine: &&Machine| machine.is_dead && !machine.has_left;
        self.machines.iter().filter(is_gone).count()
    }

    fn end(&mut self, index: usize, in_order: bool) {
        self.end_by(
            index,
            if in_order {
                End::InOrder
            } else {
                End::Killed(Killed::Somehow)
            },
        );
    }

    /// A process ends; another starts a while later.
    fn end_by(&mut self, index: usize, end: End) {
        let in_order = end == End::InOrder;
        if in_order && !self.phase.is_calm() && self.disks.below(4) == 0 {
            // In the middle of what it writes.
            self.plan_disk(index, storage::Fault::PowerCut);
        }
        self.spare_disk(index);
        let machine = &mut self.machines[index];
        let Some(node) = machine.node.take() else {
            return;
        };
        let line = node.describe();
        self.coded.add(node.coded());
        machine.left = match end {
            End::InOrder => {
                let mut clock = Clock::new(&machine.clock, self.now, &mut machine.prng, (0, 0));
                Some(node.hand_over(&mut clock))
            }
            End::Killed(how) => node.killed(how),
            End::Exit => Some(node.exited()),
        };
        machine.life += 1;
        machine.timers += 1;
        machine.timer = None;
        machine.free_at = self.now;
        machine.inbox.clear();
        machine.turns += 1;
        machine.end_heard = self.now + END_HEARD_MAX;
        let life = machine.life;
        let how = match end {
            End::InOrder => "ends",
            End::Killed(Killed::ByPower) => "loses its power",
            End::Killed(_) => "is killed",
            End::Exit => "exits, because its disk has failed",
        };
        self.note(|| format!("node {index} {how}: {line}"));
        let down = END_HEARD_MAX + 3 * MILLIS + self.prng.below(2 * SECONDS);
        if !self.machines[index].is_dead {
            self.after(down, Event::Start(index, life));
        }
        let gone: Vec<(Connection, u64)> = self
            .wires
            .iter()
            .filter(|(_, wire)| wire.node == index)
            .map(|(connection, wire)| (*connection, wire.latency))
            .collect();
        for (connection, latency) in gone {
            self.after(latency, Event::Reset(connection));
        }
        for peer in 0..self.machines.len() {
            // A stream belongs to a process.
            if peer != index {
                self.network.break_link(index, peer, self.now);
                let delay = self.prng.below(END_HEARD_MAX);
                self.after(delay, Event::LinkDown(peer, index));
            }
        }
    }

    /// Nothing is asked any more: sooner or later all replicas are alike.
    fn on_rest(&mut self, until: u64) -> Result<(), String> {
        let running = running(&self.machines);
        // Where groups have lost their majorities, so have values.
        let may_lack = self.swarm.ruins > 0 || self.swarm.blackouts > 0;
        let coding = self.swarm.shape.coding.map(|_| self.coding.is_on);
        let rests =
            check_at_rest(&running, self.gone()).and_then(|()| check_coded(&running, coding, may_lack));
        match rests {
            Ok(()) => self.phase = Phase::Over,
            Err(what) if self.now >= until => return Err(what),
            Err(_) => self.after(REST, Event::Rest(until)),
        }
        Ok(())
    }

    /// What is very late is lost: else it would come when everything has come to rest. It is lost with its link, and with
    /// all that is under way there: a stream has no gaps, and of introductions the one that was lost could be what the next
    /// ones count on. One end would hear the other then, and not be heard, for ever. The links are set up with all others.
    fn lose_late(&mut self) {
        let soon = self.now + LATE_MAX;
        let is_late =
            |(at, _): &(u64, u64), event: &mut Event| *at > soon && matches!(event, Event::Frame(..));
        let late = self.events.extract_if(.., is_late);
        let broken: BTreeSet<(usize, usize)> = late
            .filter_map(|(_, event)| match event {
                Event::Frame(from, to, ..) => Some((from.min(to), from.max(to))),
                _ => None,
            })
            .collect();
        for (node, peer) in broken {
            self.network.break_link(node, peer, self.now);
            self.after(0, Event::LinkDown(node, peer));
            self.after(0, Event::LinkDown(peer, node));
        }
    }

    /// The nodes of a zone that are dead for ever, if that is drawn and can be borne.
    fn zone_to_bury(&mut self, node: usize) -> Vec<usize> {
        let shape = &self.swarm.shape;
        if shape.zones.is_empty() || self.disks.below(2) == 0 {
            return Vec::new();
        }
        let zone: Vec<usize> = (0..self.machines.len())
            .filter(|other| shape.zone(*other) == shape.zone(node))
            .collect();
        match self.survives_without(&zone, true) {
            true => zone,
            false => Vec::new(),
        }
    }

    /// The storm is over: as many nodes as can be spared are dead for ever, and everything else works.
    fn on_calm(&mut self) -> Result<(), String> {
        self.phase = Phase::Calm { since: self.now };
        self.network.calm();
        self.network.mend_links();
        self.lose_late();
        let mut order: Vec<usize> = (0..self.machines.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.prng.below(last as u64 + 1) as usize);
        }
        // A whole zone may stay away.
        let mut dead = self.zone_to_bury(order[0]);
        for node in order {
            if dead.contains(&node) {
                continue;
            }
            dead.push(node);
            if self.prng.below(4) == 0 || !self.survives_without(&dead, true) {
                dead.pop();
            }
        }
        self.note(|| format!("the storm is over; dead for ever: {dead:?}"));
        // Who is stopped or stalled goes on by itself: what he did last is still under way, and must not be overtaken.
        for index in 0..self.machines.len() {
            if dead.contains(&index) {
                self.machines[index].is_dead = true;
                self.machines[index].left = None;
                self.end(index, false);
            } else if self.machines[index].node.is_none() {
                // At once, and not before all have heard that the process before it ended: one that heard so afterwards would take it for
                // the end of the new stream, which the other end would go on with, for ever.
                let machine = &self.machines[index];
                let (life, heard) = (machine.life, machine.end_heard);
                self.schedule(heard, Event::Start(index, life));
            } else {
                self.rearm(index);
            }
            for peer in 0..index {
                self.after(0, Event::LinkUp(index, peer));
                self.after(0, Event::LinkUp(peer, index));
            }
        }
        self.machines.iter_mut().for_each(Machine::heal_disk);
        if self.swarm.code_changes > 0 {
            let is_on = self.prng.below(4) > 0;
            self.set_coding(is_on);
        }
        self.clients.give_requests(CALM_REQUESTS);
        for index in 0..self.clients.clients.len() {
            if self.clients.waits(index) {
                self.clients.clients[index].waits_since = self.now;
                if let Some(connection) = self.clients.clients[index].connection {
                    self.after(ANSWER_MAX, Event::Patience(index, connection));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::full_node::Body;
    use crate::seed::Options;

    #[test]
    fn a_process_follows_one_at_once_when_all_have_heard_that_it_ended() {
        let options = Options::default();
        let swarm = Swarm::draw(1, &options);
        let (mut clients, mut trace) = (Clients::new(1, &swarm), Trace::new(false));
        let mut world = World::new(1, &swarm, &mut clients, &mut trace);
        world.on_start(0, 0).expect("a first node may start");
        world.end(0, false);
        world.on_calm().expect("one node is enough to go on");
        let events = std::mem::take(&mut world.events).into_iter();
        let about_it = events.filter_map(|((at, _), event)| match event {
            Event::LinkDown(_, 0) => Some((at, "heard")),
            Event::Start(0, 1) => Some((at, "follows")),
            _ => None,
        });
        let about_it: Vec<(u64, &str)> = about_it.collect();
        let heard = about_it.iter().filter(|(_, what)| *what == "heard").count();
        assert_eq!(heard, swarm.shape.nodes - 1);
        assert_eq!(about_it[heard], (END_HEARD_MAX, "follows"));
    }

    #[test]
    fn what_is_very_late_when_the_storm_is_over_is_lost_with_its_link() {
        let options = Options::default();
        let swarm = Swarm::draw(1, &options);
        let (mut clients, mut trace) = (Clients::new(1, &swarm), Trace::new(false));
        let mut world = World::new(1, &swarm, &mut clients, &mut trace);
        let links = [(0, 1, LATE_MAX + 1), (0, 1, 1), (1, 0, 1), (0, 2, LATE_MAX)];
        for (from, to, delay) in links {
            let frame = Frame {
                from: 0,
                to: 0,
                stream: 1,
                body: Body::Bye,
            };
            world.after(delay, Event::Frame(from, to, frame, 0));
        }
        world.lose_late();
        let mut left = Vec::new();
        for ((at, _), event) in std::mem::take(&mut world.events) {
            match event {
                Event::Frame(from, to, _, life) if world.network.carries(from, to, life, at) => {
                    left.push(("a frame", from, to));
                }
                Event::Frame(..) => {}
                Event::LinkDown(node, peer) => left.push(("down", node, peer)),
                _ => panic!("nothing else happens"),
            }
        }
        assert_eq!(left, [("down", 0, 1), ("down", 1, 0), ("a frame", 0, 2)]);
    }
}

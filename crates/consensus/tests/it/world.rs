//! The cluster, and everything that happens to it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use consensus::{
    Claim, Config, Durability, Index, Lease, Listener, Members, ReadPermit, Role, Saved, SnapshotPoint,
};
use ids::{Boot, Incarnation, Prng};

use crate::checks::{Broken, Checks, number_of};
use crate::network::{Packet, Weather, chance, pick};
use crate::node::{Birth, Node, State};

const MS: u64 = 1_000_000;

/// What one run does.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) durability: Durability,
    pub(crate) nodes: usize,
    pub(crate) weather: Weather,
    /// How often, in per mille of chances, each fault comes.
    pub(crate) partition: u64,
    pub(crate) pause: u64,
    pub(crate) crash: u64,
    pub(crate) handover: u64,
    pub(crate) transfer: u64,
    pub(crate) reset: u64,
    pub(crate) moves: u64,
    pub(crate) compact: u64,
    /// How many crashes of a thousand damage what was written.
    pub(crate) damage: u64,
    /// Entries that may be under way at once.
    pub(crate) in_flight: u64,
    /// The longest pause between two clients' requests, in milliseconds.
    pub(crate) clients_ms: u64,
    /// How long a turn gathers inputs at most, in microseconds.
    pub(crate) turn_us: u64,
    /// How long there are faults, in virtual milliseconds.
    pub(crate) faults_ms: u64,
}

impl Plan {
    /// A plan whose faults follow from the seed.
    pub(crate) fn draw(seed: u64) -> Plan {
        let mut prng = Prng::new(seed);
        let prng = &mut prng;
        Plan {
            seed,
            durability: if chance(prng, 700) {
                Durability::Memory
            } else {
                Durability::Durable
            },
            nodes: 3 + prng.below(3) as usize,
            weather: Weather::draw(prng),
            partition: pick(prng, &[0, 20, 80, 300]),
            pause: pick(prng, &[0, 50, 200]),
            crash: pick(prng, &[0, 30, 100]),
            handover: pick(prng, &[0, 20]),
            transfer: pick(prng, &[0, 50, 300]),
            reset: pick(prng, &[0, 50, 200]),
            moves: pick(prng, &[0, 30]),
            compact: pick(prng, &[0, 50, 300]),
            // What is drawn for it changes nothing else.
            damage: pick(&mut Prng::new(seed ^ 0x464c_4f4f_5200_0001), &[0, 300, 1_000]),
            in_flight: pick(prng, &[2, 2, 2, 32]),
            clients_ms: pick(prng, &[4, 60, 600]),
            turn_us: pick(prng, &[0, 1_000, 10_000]),
            faults_ms: 12_000,
        }
    }
}

enum Event {
    Tick(usize, Boot),
    Deliver {
        from: usize,
        to: usize,
        packet: Packet,
    },
    Turn(usize, Boot),
    Written(usize, Boot),
    Bulk {
        from: usize,
        boot: Boot,
        to: Incarnation,
    },
    Resume(usize, Boot, Option<Lease>),
    Restart(usize),
    Client,
    Fault,
    Operator,
}

/// A run that ended well.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) acknowledged: u64,
    pub(crate) leased_reads: u64,
    pub(crate) confirmed_reads: u64,
    pub(crate) terms: u64,
    pub(crate) trace: u64,
}

pub(crate) struct World {
    plan: Plan,
    prng: Prng,
    real: u64,
    counted: u64,
    events: BTreeMap<(u64, u64), Event>,
    pub(crate) nodes: Vec<Option<Node>>,
    homes: BTreeMap<Incarnation, usize>,
    incarnations: u64,
    boots: u64,
    numbers: u64,
    blocked: BTreeMap<(usize, usize), u64>,
    bulks: BTreeSet<(usize, Incarnation)>,
    /// The nodes that are to have a voter.
    placed: BTreeSet<usize>,
    /// What became of a node's replica while it is down.
    down: BTreeMap<usize, Option<Birth>>,
    is_calm: bool,
    checks: Checks,
    trace: u64,
}

/// Runs a plan: faults first, then none, until the group must work again.
pub(crate) fn run(plan: Plan) -> Result<Summary, Broken> {
    let seed = plan.seed;
    let mut world = World::new(plan);
    let outcome = world.run();
    match outcome {
        Ok(()) => Ok(Summary {
            acknowledged: world.checks.acknowledged,
            leased_reads: world.checks.leased_reads,
            confirmed_reads: world.checks.confirmed_reads,
            terms: world
                .live()
                .map(|node| node.group.status().term.0)
                .max()
                .unwrap_or(0),
            trace: world.trace,
        }),
        Err(broken) => Err(format!("seed {seed}, at {} ms: {broken}", world.real / MS)),
    }
}

impl World {
    pub(crate) fn new(plan: Plan) -> World {
        let prng = Prng::new(plan.seed ^ 0x5eed);
        let voters = 3.min(plan.nodes);
        let mut world = World {
            prng,
            real: 1_000 * MS,
            counted: 0,
            events: BTreeMap::new(),
            nodes: Vec::new(),
            homes: BTreeMap::new(),
            incarnations: 0,
            boots: 0,
            numbers: 0,
            blocked: BTreeMap::new(),
            bulks: BTreeSet::new(),
            placed: (0..voters).collect(),
            down: BTreeMap::new(),
            is_calm: false,
            checks: Checks::default(),
            trace: 0,
            plan,
        };
        let first: Vec<Incarnation> = (0..world.plan.nodes).map(|_| world.incarnation()).collect();
        let members = Members::of_voters(first[..voters].iter().copied());
        for (number, me) in first.into_iter().enumerate() {
            let start = if number < voters {
                Config::first(members.clone())
            } else {
                Config::NOWHERE
            };
            let birth = world.birth(number, me, start, State::default(), Saved::default());
            world.nodes.push(None);
            world.bear(birth);
        }
        for event in [Event::Client, Event::Fault, Event::Operator] {
            world.schedule(MS, event);
        }
        world
    }

    fn run(&mut self) -> Result<(), Broken> {
        let end = self.real + self.plan.faults_ms * MS;
        self.until(end)?;
        self.heal()?;
        let end = self.real + 15_000 * MS;
        self.until(end)?;
        self.check_liveness()
    }

    /// No more faults: everything comes back, and has to work.
    fn heal(&mut self) -> Result<(), Broken> {
        self.is_calm = true;
        self.blocked.clear();
        self.plan.weather = Weather::CALM;
        for number in self.down.keys().copied().collect::<Vec<usize>>() {
            self.schedule(MS, Event::Restart(number));
        }
        Ok(())
    }

    fn check_liveness(&mut self) -> Result<(), Broken> {
        let before = self.checks.acknowledged;
        self.plan.clients_ms = 60;
        let end = self.real + 2_000 * MS;
        self.until(end)?;
        if self.checks.acknowledged == before {
            return Err("nothing is written any more".into());
        }
        let Some(leader) = self.leader() else {
            return Err("nobody leads".into());
        };
        let node = self.nodes[leader].as_ref().expect("it leads");
        if !matches!(node.group.read_permit(node.now(self.real)), ReadPermit::Lease(_))
            && !self.gave_up(leader)
        {
            return Err(format!("the leader {:?} has no lease", node.group.me()));
        }
        let members = node.group.members().clone();
        let wanted: BTreeSet<Incarnation> = self.placed_incarnations();
        if members.is_joint() || members.voters.iter().copied().collect::<BTreeSet<_>>() != wanted {
            return Err(format!("the voters are {members:?}, not {wanted:?}"));
        }
        // The clients fall silent: everybody must learn of the last commitment.
        self.events.retain(|_, event| !matches!(event, Event::Client));
        let end = self.real + 1_000 * MS;
        self.until(end)?;
        let applied: BTreeSet<Index> = members
            .all()
            .into_iter()
            .filter_map(|member| self.nodes[self.homes[&member]].as_ref())
            .map(|node| node.applied)
            .collect();
        if applied.len() != 1 {
            return Err(format!("a quiet group's members have applied {applied:?}"));
        }
        Ok(())
    }

    fn gave_up(&self, leader: usize) -> bool {
        // After a hand-over that came to nothing there is no lease for the rest of the term, rightly.
        self.nodes[leader]
            .as_ref()
            .is_some_and(|node| node.handed_over_in == Some(node.group.status().term))
    }

    pub(crate) fn until(&mut self, end: u64) -> Result<(), Broken> {
        while let Some(((at, _), _)) = self.events.first_key_value() {
            if *at > end {
                break;
            }
            let ((at, _), event) = self.events.pop_first().expect("it is not empty");
            self.real = self.real.max(at);
            self.happen(event)?;
            self.check()?;
        }
        self.real = end;
        Ok(())
    }

    fn check(&self) -> Result<(), Broken> {
        let replicas = self
            .live()
            .map(|node| (&node.group, node.state, node.now(self.real)));
        self.checks.on_leases(replicas)?;
        if self.plan.durability == Durability::Memory || self.plan.damage > 0 {
            return Ok(());
        }
        let mut leaders = self.live().filter(|node| node.group.is_leader());
        leaders.try_for_each(|leader| {
            self.checks
                .on_known_change(&leader.group, |voter| self.kept(voter))
        })
    }

    /// Up to where a replica would know, if its process ended now, that everything is committed.
    fn kept(&self, replica: Incarnation) -> Option<Index> {
        let running = self.live().find(|node| node.group.me() == replica);
        let running = running.map(|node| node.disk.hard_state.commit.max(node.disk.start.index));
        running.or_else(|| {
            let mut down = self.down.values().flatten();
            let birth = down.find(|birth| birth.me == replica)?;
            Some(birth.saved.hard_state.commit.max(birth.start.index))
        })
    }

    // ---- events

    fn schedule(&mut self, after: u64, event: Event) {
        self.counted += 1;
        self.events.insert((self.real + after, self.counted), event);
    }

    fn happen(&mut self, event: Event) -> Result<(), Broken> {
        match event {
            Event::Tick(number, boot) => self.on_tick(number, boot),
            Event::Deliver { from, to, packet } => self.on_packet(from, to, packet),
            Event::Turn(number, boot) => {
                let real = self.real;
                match self.node(number, boot) {
                    Some(node) if !node.is_paused(real) => {
                        node.has_turn = false;
                        self.drain(number)
                    }
                    Some(node) => {
                        let after = node.paused_until - real;
                        self.schedule(after, Event::Turn(number, boot));
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
            Event::Written(number, boot) => self.on_written(number, boot),
            Event::Bulk { from, boot, to } => self.on_bulk(from, boot, to),
            Event::Resume(number, boot, lease) => self.on_resume(number, boot, lease),
            Event::Restart(number) => {
                if let Some(birth) = self.down.remove(&number) {
                    let birth = birth.unwrap_or_else(|| {
                        let me = self.incarnation();
                        self.birth(number, me, Config::NOWHERE, State::default(), Saved::default())
                    });
                    self.bear(birth);
                }
                Ok(())
            }
            Event::Client => {
                let pause = 1 + self.prng.below(self.plan.clients_ms);
                self.schedule(pause * MS, Event::Client);
                self.on_client()
            }
            Event::Fault => {
                let pause = 20 + self.prng.below(200);
                self.schedule(pause * MS, Event::Fault);
                if self.is_calm { Ok(()) } else { self.on_fault() }
            }
            Event::Operator => {
                self.schedule(50 * MS, Event::Operator);
                self.on_operator()
            }
        }
    }

    fn on_tick(&mut self, number: usize, boot: Boot) -> Result<(), Broken> {
        let real = self.real;
        let Some(node) = self.node(number, boot) else {
            return Ok(());
        };
        if !node.is_paused(real) {
            let now = node.now(real);
            node.group.tick(now);
            self.drain(number)?;
            self.beat(number);
        }
        let jitter = self.prng.below(2 * MS);
        self.schedule(19 * MS + jitter, Event::Tick(number, boot));
        Ok(())
    }

    fn on_packet(&mut self, from: usize, to: usize, packet: Packet) -> Result<(), Broken> {
        let real = self.real;
        let Some(node) = self.nodes[to].as_mut() else {
            return Ok(());
        };
        if node.is_paused(real) {
            node.inbox.push_back((from, packet));
            return Ok(());
        }
        let now = node.now(real);
        match packet {
            Packet::Raft(message) => {
                // The transport drops what is for an earlier incarnation.
                if message.to == node.group.me() {
                    node.group.step(message, now);
                }
            }
            Packet::Beat(beat) => {
                let group = &mut node.group;
                let boot = node.boot;
                let listener = node.listeners.entry(from).or_insert_with(|| Listener::new(boot));
                let answer = listener.on_beat(beat, |claim| group.confirm(claim, now));
                self.send(to, from, Packet::Answer(answer));
            }
            Packet::Answer(answer) => {
                if let Some(beats) = node.beats.get_mut(&from) {
                    let group = &mut node.group;
                    beats.on_answer(&answer, now, |claim, sent| match sent {
                        Some(sent) => group.acknowledged(claim, answer.start, sent, now),
                        None => group.refused(claim, answer.start, now),
                    });
                }
            }
            Packet::Bulk {
                message_to,
                point,
                state,
            } => {
                if message_to == node.group.me() && node.group.hold_transfer(Some((point.index, point.term)))
                {
                    node.held = Some((point.clone(), state));
                    let by = message_to;
                    self.send(to, from, Packet::BulkHeld { by, point });
                }
            }
            Packet::BulkHeld { by, point } => {
                let _ = node.group.offer_transfer(by, point, now);
            }
        }
        self.gather(to)
    }

    fn on_written(&mut self, number: usize, boot: Boot) -> Result<(), Broken> {
        let real = self.real;
        let Some(node) = self.node(number, boot) else {
            return Ok(());
        };
        let now = node.now(real);
        while let Some((due, persist, installed)) = node.writing.front() {
            if *due > real {
                break;
            }
            node.disk.write(persist, *installed);
            let number = persist.number;
            node.writing.pop_front();
            node.group.persisted(number, now);
        }
        self.drain(number)
    }

    fn on_bulk(&mut self, from: usize, boot: Boot, to: Incarnation) -> Result<(), Broken> {
        self.bulks.remove(&(from, to));
        let real = self.real;
        let Some(node) = self.node(from, boot) else {
            return Ok(());
        };
        if node.is_paused(real) || !node.group.is_leader() {
            return Ok(());
        }
        let (point, state) = (node.group.point(), node.state);
        let home = self.homes[&to];
        self.send(
            from,
            home,
            Packet::Bulk {
                message_to: to,
                point,
                state,
            },
        );
        Ok(())
    }

    fn on_resume(&mut self, number: usize, boot: Boot, lease: Option<Lease>) -> Result<(), Broken> {
        let real = self.real;
        let Some(node) = self.node(number, boot) else {
            return Ok(());
        };
        // It was stopped between asking for a lease and reading: a client that comes now must not be misled.
        let (me, count, now) = (node.group.me(), node.state.count, node.now(real));
        if let Some(lease) = lease
            && node.group.holds(lease, now)
        {
            self.checks.leased_reads += 1;
            let floor = self.checks.floor;
            self.checks.on_read(me, floor, count, "leased")?;
        }
        loop {
            let Some(node) = self.node(number, boot) else {
                return Ok(());
            };
            if node.is_paused(real) {
                return Ok(());
            }
            let Some((from, packet)) = node.inbox.pop_front() else {
                return Ok(());
            };
            self.on_packet(from, number, packet)?;
        }
    }

    fn on_client(&mut self) -> Result<(), Broken> {
        let number = self.prng.below(self.nodes.len() as u64) as usize;
        // Mostly to somebody who believes that he leads: also a leader of yesterday.
        let leaders: Vec<usize> = self
            .live()
            .filter(|node| node.group.is_leader())
            .map(|node| node.number)
            .collect();
        let number = match leaders.len() as u64 {
            0 => number,
            count => leaders[self.prng.below(count) as usize],
        };
        let (kind, stop, length) = (
            self.prng.below(10),
            self.prng.below(1_000),
            self.prng.below(1_500),
        );
        let (real, floor) = (self.real, self.checks.floor);
        let next = self.numbers + 1;
        let stop_rate = self.plan.pause / 4;
        let (is_calm, in_flight) = (self.is_calm, self.plan.in_flight);
        let Some(node) = self.nodes[number].as_mut() else {
            return Ok(());
        };
        if node.is_paused(real) {
            return Ok(());
        }
        let now = node.now(real);
        match kind {
            0..=4 => {
                if node.group.in_flight() < in_flight
                    && let Ok((index, term)) = node.group.propose(Bytes::copy_from_slice(&next.to_le_bytes()))
                {
                    node.clients.writes.insert(index, (term, next));
                    self.numbers = next;
                }
            }
            5..=7 => {
                if let ReadPermit::Lease(lease) = node.group.read_permit(now) {
                    if stop < stop_rate && !is_calm {
                        let boot = node.boot;
                        self.stop(number, boot, length * MS, Some(lease));
                    } else {
                        let (me, count) = (node.group.me(), node.state.count);
                        self.checks.leased_reads += 1;
                        self.checks.on_read(me, floor, count, "leased")?;
                    }
                }
            }
            _ => {
                if let Ok(id) = node.group.read_index(now) {
                    node.clients.rounds.insert(id, floor);
                }
            }
        }
        self.gather(number)
    }

    // ---- what a replica wants done

    /// Inputs of one turn are carried out together, at its end.
    fn gather(&mut self, number: usize) -> Result<(), Broken> {
        if self.plan.turn_us == 0 {
            return self.drain(number);
        }
        let length = self.prng.below(self.plan.turn_us) * 1_000;
        if let Some(node) = self.nodes[number].as_mut()
            && !std::mem::replace(&mut node.has_turn, true)
        {
            let boot = node.boot;
            self.schedule(length, Event::Turn(number, boot));
        }
        Ok(())
    }

    fn drain(&mut self, number: usize) -> Result<(), Broken> {
        loop {
            let real = self.real;
            let Some(node) = self.nodes[number].as_mut() else {
                return Ok(());
            };
            if !node.group.has_ready() {
                return Ok(());
            }
            let now = node.now(real);
            let ready = node.group.take_ready(now);
            let (me, boot) = (node.group.me(), node.boot);
            if let Some(status) = ready.status
                && status.role == Role::Leader
            {
                self.checks.on_leader(status.term, me, &node.group)?;
            }
            if let Some(point) = &ready.install {
                let (held, state) = node.held.take().expect("only what is held is installed");
                assert_eq!(held.index, point.index);
                node.state = state;
                node.applied = point.index;
                self.checks.on_installed(me, point.index, state)?;
            }
            let installed = ready.install.is_some().then_some(node.state);
            if let Some(persist) = ready.persist {
                let earliest = node.writing.back().map_or(real, |(due, ..)| *due);
                let due = (real + self.prng.below(4 * MS)).max(earliest);
                node.writing.push_back((due, persist, installed));
                self.counted += 1;
                self.events
                    .insert((due, self.counted), Event::Written(number, boot));
            }
            for entry in &ready.committed {
                assert_eq!(entry.index.0, node.applied.0 + 1, "in order, without a gap");
                if let Some(number) = number_of(entry) {
                    node.state.append(number);
                }
                node.applied = entry.index;
                self.checks.on_applied(me, entry, node.state)?;
                if let Some((term, _)) = node.clients.writes.remove(&entry.index)
                    && term == entry.term
                {
                    self.checks.on_acknowledged(node.state.count);
                }
            }
            node.group.applied(node.applied);
            for (id, index) in ready.reads {
                if let Some(floor) = node.clients.rounds.remove(&id) {
                    node.clients.confirmed.push((index, floor));
                }
            }
            for id in ready.reads_lost {
                node.clients.rounds.remove(&id);
            }
            let (applied, count) = (node.applied, node.state.count);
            let mut answered = Vec::new();
            node.clients.confirmed.retain(|(index, floor)| {
                let is_due = *index <= applied;
                if is_due {
                    answered.push(*floor);
                }
                !is_due
            });
            for floor in answered {
                self.checks.confirmed_reads += 1;
                self.checks.on_read(me, floor, count, "confirmed")?;
            }
            for to in ready.transfers_wanted {
                let delay = 10 + self.prng.below(200);
                if self.homes.contains_key(&to) && self.bulks.insert((number, to)) {
                    self.schedule(
                        delay * MS,
                        Event::Bulk {
                            from: number,
                            boot,
                            to,
                        },
                    );
                }
            }
            for message in ready.messages {
                self.trace =
                    self.trace.rotate_left(7) ^ message.to.0 ^ message.term.0.wrapping_mul(0x9e37_79b9);
                if let Some(home) = self.homes.get(&message.to) {
                    self.send(number, *home, Packet::Raft(message));
                }
            }
            if ready.claims_changed {
                self.claim(number);
                self.beat(number);
            }
        }
    }

    fn claim(&mut self, number: usize) {
        let real = self.real;
        let all = self.nodes.len();
        let Some(node) = self.nodes[number].as_mut() else {
            return;
        };
        let now = node.now(real);
        let claims = node.group.claims();
        for other in (0..all).filter(|other| *other != number) {
            let own: Vec<Claim> = claims
                .iter()
                .copied()
                .filter(|claim| self.homes[&claim.to] == other)
                .collect();
            let (boot, interval) = (node.boot, consensus::Times::DEFAULT.heartbeat);
            let beats = node
                .beats
                .entry(other)
                .or_insert_with(|| consensus::Beats::new(boot, interval));
            beats.claim(own, now);
        }
    }

    fn beat(&mut self, number: usize) {
        let real = self.real;
        let Some(node) = self.nodes[number].as_mut() else {
            return;
        };
        let now = node.now(real);
        let beats: Vec<(usize, _)> = node
            .beats
            .iter_mut()
            .filter_map(|(other, beats)| Some((*other, beats.beat(now)?)))
            .collect();
        for (other, beat) in beats {
            self.send(number, other, Packet::Beat(beat));
        }
    }

    fn send(&mut self, from: usize, to: usize, packet: Packet) {
        if self
            .blocked
            .get(&(from, to))
            .is_some_and(|until| *until > self.real)
        {
            return;
        }
        for delay in self.plan.weather.copies(&mut self.prng) {
            let packet = packet.clone();
            self.schedule(delay, Event::Deliver { from, to, packet });
        }
    }

    // ---- faults

    fn on_fault(&mut self) -> Result<(), Broken> {
        let count = self.nodes.len() as u64;
        let (mut one, other) = (self.prng.below(count) as usize, self.prng.below(count) as usize);
        // The leader is where it hurts most.
        if let Some(leader) = self.leader()
            && chance(&mut self.prng, 500)
        {
            one = leader;
        }
        if chance(&mut self.prng, self.plan.partition) {
            let until = self.real + (100 + self.prng.below(2_500)) * MS;
            match self.prng.below(4) {
                0 => {
                    self.blocked.insert((one, other), until);
                }
                1 => {
                    self.blocked.insert((one, other), until);
                    self.blocked.insert((other, one), until);
                }
                both => {
                    // One node alone, heard or not.
                    for node in 0..self.nodes.len() {
                        self.blocked.insert((one, node), until);
                        if both == 2 {
                            self.blocked.insert((node, one), until);
                        }
                    }
                }
            }
        }
        if chance(&mut self.prng, self.plan.reset) {
            self.reset_link(one, other)?;
        }
        if chance(&mut self.prng, self.plan.pause) {
            let length = self.prng.below(1_500) * MS;
            if let Some(boot) = self.nodes[one].as_ref().map(|node| node.boot) {
                self.stop(one, boot, length, None);
            }
        }
        if chance(&mut self.prng, self.plan.transfer) {
            self.transfer(other)?;
        }
        if chance(&mut self.prng, self.plan.compact) {
            self.compact(other);
        }
        if chance(&mut self.prng, self.plan.moves) {
            self.move_a_voter();
        }
        if chance(&mut self.prng, self.plan.handover) {
            self.drain(one)?;
            self.hand_over(one);
        } else if chance(&mut self.prng, self.plan.crash) {
            self.crash(one);
        }
        Ok(())
    }

    fn stop(&mut self, number: usize, boot: Boot, length: u64, lease: Option<Lease>) {
        let until = self.real + length;
        if let Some(node) = self.nodes[number].as_mut() {
            node.paused_until = node.paused_until.max(until);
            let after = node.paused_until - self.real;
            self.schedule(after, Event::Resume(number, boot, lease));
        }
    }

    fn reset_link(&mut self, one: usize, other: usize) -> Result<(), Broken> {
        for (number, peer) in [(one, other), (other, one)] {
            let real = self.real;
            let homes = &self.homes;
            let Some(node) = self.nodes[number].as_mut() else {
                continue;
            };
            if node.is_paused(real) {
                continue;
            }
            let now = node.now(real);
            if let Some(beats) = node.beats.get_mut(&peer) {
                beats.reconnected(now);
            }
            let leader = node.group.status().leader;
            if leader.is_some_and(|leader| homes.get(&leader) == Some(&peer)) {
                node.group.leader_link_lost(now);
            }
            self.drain(number)?;
        }
        Ok(())
    }

    fn transfer(&mut self, to: usize) -> Result<(), Broken> {
        let (Some(leader), Some(target)) = (self.leader(), self.nodes[to].as_ref()) else {
            return Ok(());
        };
        let target = target.group.me();
        self.transfer_to(leader, target)
    }

    fn transfer_to(&mut self, leader: usize, target: Incarnation) -> Result<(), Broken> {
        let real = self.real;
        let node = self.nodes[leader].as_mut().expect("it leads");
        let now = node.now(real);
        if node.group.transfer(target, now).is_ok() {
            node.handed_over_in = Some(node.group.status().term);
        }
        self.drain(leader)
    }

    fn compact(&mut self, number: usize) {
        let Some(node) = self.nodes[number].as_mut() else {
            return;
        };
        if !node.writing.is_empty() || node.group.point() == Config::NOWHERE {
            return;
        }
        let point = node.group.point();
        node.group.compact(point.index);
        node.disk.entries.retain(|entry| entry.index > point.index);
        node.disk.start = point;
        node.disk.state = node.state;
    }

    fn move_a_voter(&mut self) {
        let number = self.prng.below(self.nodes.len() as u64) as usize;
        if !self.placed.remove(&number) {
            self.placed.insert(number);
        }
        // Never fewer than three, so that one may be lost.
        let mut next = 0;
        while self.placed.len() < 3 {
            if next != number || self.nodes.len() == 3 {
                self.placed.insert(next);
            }
            next += 1;
        }
    }

    fn crash(&mut self, number: usize) {
        let Some(node) = self.nodes[number].as_ref() else {
            return;
        };
        let me = node.group.me();
        let birth = match self.plan.durability {
            Durability::Durable => {
                let mut disk = node.disk.clone();
                if self.others_are_whole(me) && chance(&mut self.prng, self.plan.damage) {
                    disk.damage(1 + self.prng.below(8) as usize);
                }
                let saved = Saved {
                    hard_state: disk.hard_state,
                    entries: disk.entries,
                    floor: disk.floor,
                };
                Some(self.birth(number, me, disk.start, disk.state, saved))
            }
            Durability::Memory if self.may_lose(me) => None,
            Durability::Memory => return,
        };
        self.take_down(number, birth);
    }

    fn hand_over(&mut self, number: usize) {
        let Some(node) = self.nodes[number].as_ref() else {
            return;
        };
        if self.plan.durability == Durability::Durable {
            return;
        }
        let (me, point, state, saved) = (
            node.group.me(),
            node.group.point(),
            node.state,
            node.group.saved(),
        );
        let birth = self.birth(number, me, point, state, saved);
        self.take_down(number, Some(birth));
    }

    fn take_down(&mut self, number: usize, birth: Option<Birth>) {
        self.nodes[number] = None;
        self.down.insert(number, birth);
        let pause = 1 + self.prng.below(1_500);
        self.schedule(pause * MS, Event::Restart(number));
    }

    /// Whether nobody else lacks what he had: damage spares all copies but one.
    fn others_are_whole(&self, me: Incarnation) -> bool {
        let mut down = self.down.values().flatten();
        self.live()
            .all(|node| node.group.me() == me || !node.group.is_below_floor())
            && down.all(|birth| birth.saved.floor.is_none())
    }

    /// Whether a majority of every group of voters that anybody goes by is left without this replica's memory.
    fn may_lose(&self, lost: Incarnation) -> bool {
        let is_there = |voter: &Incarnation| {
            self.homes
                .get(voter)
                .is_some_and(|home| match &self.nodes[*home] {
                    Some(node) => node.group.me() == *voter,
                    None => matches!(self.down.get(home), Some(Some(birth)) if birth.me == *voter),
                })
        };
        let is_learner = self.live().all(|node| !node.group.members().is_voter(lost));
        let is_settled = self.live().all(|node| {
            let members = node.group.members();
            !members.is_joint() && members.voters.iter().all(is_there)
        });
        is_learner || is_settled
    }

    // ---- the operator

    /// Replaces who lost its memory, and moves voters to where they are wanted: one step at a time.
    fn on_operator(&mut self) -> Result<(), Broken> {
        let Some(leader) = self.leader() else {
            return Ok(());
        };
        let wanted = self.placed_incarnations();
        if wanted.len() < self.placed.len() {
            return Ok(());
        }
        let node = self.nodes[leader].as_mut().expect("it leads");
        let members = node.group.members().clone();
        if members.is_joint() {
            return Ok(());
        }
        let missing: Vec<Incarnation> = wanted
            .iter()
            .copied()
            .filter(|member| !members.all().contains(member))
            .collect();
        let commit = node.group.commit_index();
        let mut target = members.clone();
        if !missing.is_empty() {
            target.learners.retain(|learner| wanted.contains(learner));
            target.learners.extend(missing);
            let _ = node.group.change_members(&target);
            return self.drain(leader);
        }
        let is_ready = wanted.iter().all(|member| {
            *member == node.group.me() || node.group.matched(*member).is_some_and(|at| at >= commit)
        });
        let voters: BTreeSet<Incarnation> = members.voters.iter().copied().collect();
        if !is_ready || (voters == wanted && members.learners.is_empty()) {
            return Ok(());
        }
        if !wanted.contains(&node.group.me()) {
            let successor = members
                .voters
                .iter()
                .copied()
                .find(|voter| wanted.contains(voter));
            return match successor {
                Some(successor) => self.transfer_to(leader, successor),
                None => Ok(()),
            };
        }
        target.voters = wanted.into_iter().collect();
        target.learners.clear();
        let _ = node.group.change_members(&target);
        self.drain(leader)
    }

    fn placed_incarnations(&self) -> BTreeSet<Incarnation> {
        self.placed
            .iter()
            .filter_map(|number| Some(self.nodes[*number].as_ref()?.group.me()))
            .collect()
    }

    // ---- nodes

    fn live(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().flatten()
    }

    fn node(&mut self, number: usize, boot: Boot) -> Option<&mut Node> {
        self.nodes[number].as_mut().filter(|node| node.boot == boot)
    }

    /// The leader of the latest term, if it is awake.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leader = self
            .live()
            .filter(|node| node.group.is_leader())
            .max_by_key(|node| node.group.status().term)?;
        (!leader.is_paused(self.real)).then_some(leader.number)
    }

    fn incarnation(&mut self) -> Incarnation {
        self.incarnations += 1;
        Incarnation(self.incarnations)
    }

    fn birth(
        &mut self,
        number: usize,
        me: Incarnation,
        start: SnapshotPoint,
        state: State,
        saved: Saved,
    ) -> Birth {
        self.boots += 1;
        Birth {
            number,
            boot: Boot(self.boots),
            me,
            start,
            state,
            saved,
            durability: self.plan.durability,
            // Within what the drift margin bears.
            drift: self.prng.below(90_000) as i64 - 45_000,
            seed: self.prng.next_u64(),
        }
    }

    fn bear(&mut self, birth: Birth) {
        let (number, boot) = (birth.number, birth.boot);
        self.homes.insert(birth.me, number);
        let node = Node::born(birth, self.real);
        self.nodes[number] = Some(node);
        let phase = self.prng.below(20 * MS);
        self.schedule(phase, Event::Tick(number, boot));
    }
}

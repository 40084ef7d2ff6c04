//! Whole clusters of `Meta`s: a network that loses, delays and repeats, disks that keep what was synced, processes that die.
//! Groups of keys are modelled: they carry orders out, and report.

#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests are tests, which clippy does not see"
)]

use bytes::Bytes;
use consensus::{HardState, Index, LogEntry, Payload, SnapshotPoint, Term, Times};
use control::{
    Announcement, Beginning, Configuration, Contact, Factor, Failure, GivenUp, GroupMember, GroupRef,
    GroupReport, HeldAlone, Instruction, MemberRole, Meta, MetaCommand, MetaConfig, MetaEffects, MetaMessage,
    MetaOutcome, MetaRefusal, MetaWrite, NodeGoal, NodeMemory, Notice, Order, Pace, Record, RecoveredMeta,
    RecoverySource, Report, Restored, RoutingMap, Standing, State, Target, majority,
};
use ids::{
    Boot, ClusterId, DurabilityMode, Epoch, GroupCount, Groups, Incarnation, Monotonic, NodeId, Prng,
    SemanticsVersion, Token,
};
use mutations::Mutation;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(5);

/// What was synced: the rules of a log of the meta group.
#[derive(Clone, Default)]
struct Disk {
    hard_state: HardState,
    snapshot: Option<(SnapshotPoint, Vec<u8>)>,
    entries: Vec<LogEntry>,
    exists: bool,
}

impl Disk {
    fn base(&self) -> (Index, Term) {
        let point = self.snapshot.as_ref().map(|(point, _)| (point.index, point.term));
        point.unwrap_or_default()
    }

    fn last(&self) -> Index {
        self.entries.last().map_or(self.base().0, |entry| entry.index)
    }

    fn term_at(&self, index: Index) -> Option<Term> {
        if index == self.base().0 {
            return Some(self.base().1);
        }
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.index == index).map(|entry| entry.term)
    }

    fn write(&mut self, record: Record) {
        match record {
            Record::Begin { point, state } => {
                *self = Disk {
                    hard_state: HardState {
                        commit: point.index,
                        ..HardState::default()
                    },
                    snapshot: Some((point, state)),
                    entries: Vec::new(),
                    exists: true,
                };
            }
            Record::Append { entries, hard_state } => {
                assert!(self.exists, "a log begins before it goes on");
                for entry in entries {
                    assert!(entry.index > self.hard_state.commit, "what is committed stays");
                    assert!(entry.index > self.base().0 && entry.index.0 <= self.last().0 + 1);
                    self.entries.retain(|known| known.index < entry.index);
                    self.entries.push(entry);
                }
                let held = self.hard_state;
                assert!(hard_state.term >= held.term && hard_state.commit >= held.commit);
                assert!(hard_state.commit <= self.last(), "what is committed is there");
                let is_other_term = hard_state.term > held.term;
                assert!(is_other_term || held.vote.is_none() || held.vote == hard_state.vote);
                self.hard_state = hard_state;
            }
            Record::Snapshot { point, state } => {
                assert!(self.exists && point.index > self.base().0);
                if self.term_at(point.index) == Some(point.term) {
                    self.entries.retain(|entry| entry.index > point.index);
                } else {
                    assert!(point.index >= self.hard_state.commit, "what is committed stays");
                    self.entries.clear();
                }
                self.hard_state.commit = self.hard_state.commit.max(point.index);
                self.snapshot = Some((point, state));
            }
            Record::End => *self = Disk::default(),
        }
    }

    fn restored(&self) -> Option<Restored> {
        self.exists.then(|| Restored {
            hard_state: self.hard_state,
            snapshot: self.snapshot.clone(),
            entries: self.entries.clone(),
        })
    }
}

struct Machine {
    meta: Option<Meta>,
    disk: Disk,
    writing: VecDeque<(Monotonic, MetaWrite)>,
    node: Option<NodeId>,
    boot: Option<Boot>,
    map: Option<Arc<RoutingMap>>,
    memory: BTreeSet<(GroupRef, Incarnation)>,
    starts: u64,
    introducer: usize,
    /// The newest rules that its build follows.
    newest: SemanticsVersion,
    notices: Vec<Notice>,
    outcomes: BTreeMap<u64, Result<MetaOutcome, Failure>>,
    settings: BTreeMap<String, String>,
}

struct ModelGroup {
    generation: u64,
    term: u64,
    index: u64,
    members: Vec<GroupMember>,
    leader: Option<NodeId>,
    filled: BTreeSet<Incarnation>,
}

struct Packet {
    due: Monotonic,
    from: Contact,
    to: usize,
    bytes: Vec<u8>,
}

struct World {
    now: Monotonic,
    prng: Prng,
    machines: Vec<Machine>,
    packets: Vec<Packet>,
    groups: BTreeMap<GroupRef, ModelGroup>,
    /// Per cent of messages that are lost.
    loss: u64,
    /// Disks are slow, and who dies has lost whatever was not synced.
    is_harsh: bool,
    /// Machines that reach nobody.
    cut_off: BTreeSet<usize>,
    maps: BTreeMap<Epoch, Arc<RoutingMap>>,
    /// By term. Two meta groups of one cluster, which no operator should make, may share some: `is_split`.
    leaders: BTreeMap<u64, usize>,
    is_split: bool,
    /// The newest rules that the builds of nodes follow which start from now on.
    newest: SemanticsVersion,
    /// Whoever leads is of a build that does not say what nodes lack.
    says_no_lack: bool,
    /// Maps that were sent as a whole, and what was sent in their place.
    wholes: u64,
    differences: u64,
    /// The next map to this machine is lost.
    lost_map: Option<usize>,
    /// Of the nodes that start from now on.
    name: String,
    boots: BTreeSet<Boot>,
    sent: u64,
    steps: u64,
}

fn announcement(machine: usize) -> Announcement {
    Announcement {
        client: "10.0.0.1:6379".into(),
        cluster: "10.0.0.1:7379".into(),
        peer: format!("10.0.0.{}:8379", machine + 1),
        zone: String::new(),
        name: String::new(),
        weight_percent: control::WEIGHT_PERCENT,
        semantics_min: SemanticsVersion(1),
        semantics_max: SemanticsVersion::MAP_DIFFERENCES,
    }
}

impl World {
    fn new(seed: u64) -> World {
        println!("seed {seed}");
        World {
            now: Monotonic(1_000_000_000),
            prng: Prng::new(seed),
            machines: Vec::new(),
            packets: Vec::new(),
            groups: BTreeMap::new(),
            loss: 0,
            is_harsh: false,
            cut_off: BTreeSet::new(),
            maps: BTreeMap::new(),
            leaders: BTreeMap::new(),
            is_split: false,
            newest: announcement(0).semantics_max,
            wholes: 0,
            differences: 0,
            lost_map: None,
            says_no_lack: false,
            name: String::new(),
            boots: BTreeSet::new(),
            sent: 0,
            steps: 0,
        }
    }

    fn config(&mut self, node: Option<NodeId>, machine: usize) -> MetaConfig {
        MetaConfig {
            node,
            announcement: Announcement {
                semantics_max: self.newest,
                name: self.name.clone(),
                ..announcement(machine)
            },
            token: Token(u128::from(self.prng.next_u64())),
            times: Times::DEFAULT,
            pace: Pace::default(),
            seed: self.prng.next_u64(),
        }
    }

    fn add(&mut self, meta: Meta, introducer: usize) -> usize {
        self.machines.push(Machine {
            meta: Some(meta),
            disk: Disk::default(),
            writing: VecDeque::new(),
            node: None,
            boot: None,
            map: None,
            memory: BTreeSet::new(),
            starts: 1,
            introducer,
            newest: self.newest,
            notices: Vec::new(),
            outcomes: BTreeMap::new(),
            settings: BTreeMap::new(),
        });
        self.machines.len() - 1
    }

    fn create(&mut self, groups: u16) {
        let config = self.config(None, 0);
        let groups = Groups::with_default_partitions(GroupCount::new(groups).unwrap());
        let (factor, durability) = (Factor::Auto, DurabilityMode::Strict);
        let semantics = SemanticsVersion(1);
        let meta = Meta::create(
            config,
            ClusterId(7),
            groups,
            factor,
            durability,
            semantics,
            self.now,
        );
        self.add(meta, 0);
    }

    fn join(&mut self, introducer: usize) -> usize {
        self.join_at(self.machines.len(), introducer)
    }

    /// A process with nothing on its disk, at the address of some machine.
    fn join_at(&mut self, machine: usize, introducer: usize) -> usize {
        let config = self.config(None, machine);
        let meta = Meta::join(config, self.now);
        self.add(meta, introducer)
    }

    /// Processes die; what was synced stays, and perhaps some more.
    fn crash(&mut self, machine: usize) {
        let written = if self.is_harsh { 0 } else { self.prng.below(3) };
        let machine = &mut self.machines[machine];
        for _ in 0..written {
            if let Some((_, persist)) = machine.writing.pop_front() {
                machine.disk.write(persist.record);
            }
        }
        machine.writing.clear();
        machine.meta = None;
        machine.boot = None;
        machine.memory.clear();
        let node = machine.node;
        self.on_links(node, false);
    }

    /// The links between a node and those that run, as both ends see them.
    fn on_links(&mut self, node: Option<NodeId>, is_up: bool) {
        let Some(node) = node else { return };
        let runs = |machine: &&Machine| machine.meta.is_some() && machine.node != Some(node);
        let others: Vec<NodeId> = self
            .machines
            .iter()
            .filter(runs)
            .filter_map(|one| one.node)
            .collect();
        for machine in &mut self.machines {
            let Some(meta) = machine.meta.as_mut() else {
                continue;
            };
            let is_itself = machine.node == Some(node);
            let peers = if is_itself { others.as_slice() } else { &[node] };
            for &peer in peers {
                meta.on_link(Contact::Node(peer), is_up, self.now);
            }
        }
    }

    fn boot(&mut self, machine: usize) {
        self.boot_unclean(machine, Vec::new(), Vec::new());
    }

    /// It says of these replicas of keys that they may lack what they acknowledged last, and whose they are.
    fn boot_unclean(&mut self, machine: usize, left_by: Vec<Token>, unclean: Vec<(GroupRef, Incarnation)>) {
        let node = self.machines[machine].node;
        let config = self.config(node, machine);
        let known = &mut self.machines[machine];
        let peers = known.map.take().map(|map| map.nodes.keys().copied().collect());
        let restored = known.disk.restored();
        known.starts += 1;
        known.newest = self.newest;
        known.outcomes.clear();
        known.notices.clear();
        let meta = Meta::restore(
            config,
            restored,
            peers.unwrap_or_default(),
            left_by,
            Vec::new(),
            unclean,
            self.now,
        );
        known.meta = Some(meta);
        self.on_links(node, true);
    }

    fn machine_of(&self, node: NodeId) -> Option<usize> {
        self.machines
            .iter()
            .position(|machine| machine.node == Some(node))
    }

    fn newcomer(&self, machine: usize) -> u64 {
        machine as u64 * 1_000 + self.machines[machine].starts
    }

    fn route(&mut self, from: usize, to: Contact, message: &MetaMessage) {
        let to = match to {
            Contact::Node(node) => self.machine_of(node),
            Contact::Introducer => Some(self.machines[from].introducer),
            Contact::Newcomer(number) => {
                (0..self.machines.len()).find(|&machine| self.newcomer(machine) == number)
            }
        };
        let Some(to) = to else { return };
        assert_ne!(from, to, "nobody speaks with itself");
        let is_unknown = self.says_no_lack && matches!(message, MetaMessage::Lack(_));
        if is_unknown || self.cut_off.contains(&from) || self.cut_off.contains(&to) {
            return;
        }
        let from_contact = match self.machines[from].node {
            Some(node) => Contact::Node(node),
            None => Contact::Newcomer(self.newcomer(from)),
        };
        let is_map = matches!(message, MetaMessage::Map(_) | MetaMessage::Difference(_));
        if is_map && self.lost_map == Some(to) {
            self.lost_map = None;
            return;
        }
        self.wholes += u64::from(matches!(message, MetaMessage::Map(_)));
        if let MetaMessage::Difference(_) = message {
            let takes_it = self.machines[to].newest >= SemanticsVersion::MAP_DIFFERENCES;
            assert!(takes_it, "its build knows nothing of differences");
            self.differences += 1;
        }
        let bytes = message.encode();
        assert_eq!(MetaMessage::decode(&bytes).as_ref(), Ok(message));
        self.sent += 1;
        let copies = match self.prng.below(100) {
            roll if roll < self.loss => 0,
            roll if roll < self.loss * 3 / 2 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let delay =
                Duration::from_micros(200 + self.prng.below(if self.loss > 0 { 30_000 } else { 2_000 }));
            self.packets.push(Packet {
                due: self.now.after(delay),
                from: from_contact,
                to,
                bytes: bytes.clone(),
            });
        }
    }

    fn step(&mut self) {
        self.now = self.now.after(STEP);
        self.steps += 1;
        let now = self.now;
        let mut due: Vec<Packet> = self.packets.extract_if(.., |packet| packet.due <= now).collect();
        due.sort_by_key(|packet| packet.due);
        for packet in due {
            if let Some(meta) = &mut self.machines[packet.to].meta {
                meta.on_message(packet.from, MetaMessage::decode(&packet.bytes).unwrap(), now);
            }
        }
        for place in 0..self.machines.len() {
            let machine = &mut self.machines[place];
            let Some(meta) = &mut machine.meta else { continue };
            while let Some((due, _)) = machine.writing.front()
                && *due <= now
            {
                let (_, persist) = machine.writing.pop_front().unwrap();
                machine.disk.write(persist.record);
                meta.on_persisted(persist.number, now);
            }
            if meta.next_timer().is_some_and(|at| at <= now) {
                meta.tick(now);
            }
            let effects = meta.take_effects(now);
            meta.check().expect("the invariants hold after every step");
            assert!(
                meta.next_timer().is_none_or(|at| at > now),
                "a timer that is past was heeded"
            );
            self.take(place, effects);
        }
        if self.steps.is_multiple_of(20) {
            self.live_on();
        }
        self.check();
    }

    fn take(&mut self, place: usize, effects: MetaEffects) {
        let now = self.now;
        for persist in effects.persist {
            let delay = Duration::from_micros(self.prng.below(if self.is_harsh { 80_000 } else { 8_000 }));
            let machine = &mut self.machines[place];
            let earliest = machine.writing.back().map_or(now, |(due, _)| *due);
            machine
                .writing
                .push_back((now.after(delay).max(earliest), persist));
        }
        for (to, message) in effects.messages {
            self.route(place, to, &message);
        }
        let machine = &mut self.machines[place];
        machine.notices.extend(effects.notices);
        machine.outcomes.extend(effects.outcomes);
        if let Some(settings) = effects.settings {
            let settings = settings
                .iter()
                .map(|(name, setting)| (name.clone(), setting.value.clone()));
            machine.settings = settings.collect();
        }
        if let Some(started) = effects.started {
            assert!(machine.boot.is_none(), "a start is told once");
            assert!(self.boots.insert(started.boot), "each start has its own number");
            let is_new = machine.node != Some(started.node);
            (machine.node, machine.boot) = (Some(started.node), Some(started.boot));
            for replica in started.replicas {
                assert_ne!(replica.beginning, Beginning::Kept, "nothing is kept here");
                machine.memory.insert((replica.group, replica.incarnation));
                let begins_group = matches!(
                    replica.beginning,
                    Beginning::BootstrapReplica | Beginning::Recovered { .. }
                );
                if begins_group {
                    let members = vec![GroupMember {
                        incarnation: replica.incarnation,
                        node: started.node,
                        role: MemberRole::Voter,
                    }];
                    let group = ModelGroup {
                        generation: replica.generation,
                        term: 1,
                        index: 1,
                        members,
                        leader: Some(started.node),
                        filled: [replica.incarnation].into(),
                    };
                    self.groups.insert(replica.group, group);
                }
            }
            if is_new {
                self.on_links(Some(started.node), true);
            }
        }
        if let Some(map) = effects.map {
            self.on_map(place, map);
        }
        for instruction in effects.orders {
            self.obey(place, &instruction);
        }
    }

    fn on_map(&mut self, place: usize, map: Arc<RoutingMap>) {
        let known = self.maps.entry(map.epoch).or_insert_with(|| Arc::clone(&map));
        assert_eq!(*known, map, "an epoch has one map");
        let machine = &mut self.machines[place];
        let is_newer = machine.map.as_ref().is_none_or(|known| known.epoch < map.epoch);
        assert!(is_newer, "maps come in order");
        machine.map = Some(map);
    }

    fn obey(&mut self, place: usize, instruction: &Instruction) {
        let node = self.machines[place].node;
        let group = self.groups.get_mut(&instruction.group).unwrap();
        let is_current = (instruction.generation, instruction.index) == (group.generation, group.index);
        if !is_current || group.leader != node {
            return;
        }
        match &instruction.order {
            Order::AddLearner { node, incarnation } => group.members.push(GroupMember {
                incarnation: *incarnation,
                node: *node,
                role: MemberRole::Learner,
            }),
            Order::Change { promote, remove } => {
                for member in &mut group.members {
                    if promote.contains(&member.incarnation) {
                        assert!(group.filled.contains(&member.incarnation), "it is not filled");
                        member.role = MemberRole::Voter;
                    }
                }
                group
                    .members
                    .retain(|member| !remove.contains(&member.incarnation));
            }
            Order::Transfer { to } => {
                let member = group.members.iter().find(|member| member.incarnation == *to);
                group.leader = Some(member.unwrap().node);
                group.term += 1;
                return;
            }
        }
        group.index += 1;
    }

    fn has_memory(&self, name: GroupRef, member: &GroupMember) -> bool {
        let mut machines = self.machines.iter();
        machines.any(|machine| {
            machine.node == Some(member.node) && machine.memory.contains(&(name, member.incarnation))
        })
    }

    /// What groups of keys do by themselves.
    fn live_on(&mut self) {
        for machine in &mut self.machines {
            let (Some(map), Some(node), Some(boot)) = (&machine.map, machine.node, machine.boot) else {
                continue;
            };
            if map.nodes.get(&node).map(|site| site.boot) != Some(boot) {
                continue;
            }
            for (number, route) in map.groups.iter().enumerate() {
                let name = GroupRef::Data(ids::GroupId::new(number as u16));
                let own = route.replicas.iter().filter(|stop| stop.node == node);
                for stop in own.filter(|stop| stop.standing != Standing::Voter) {
                    machine.memory.insert((name, stop.incarnation));
                }
            }
        }
        let names: Vec<GroupRef> = self.groups.keys().copied().collect();
        for name in names {
            let members = self.groups[&name].members.clone();
            let live: Vec<GroupMember> = members
                .iter()
                .copied()
                .filter(|member| self.has_memory(name, member))
                .collect();
            let is_voter = |member: &&GroupMember| member.role == MemberRole::Voter;
            let voters: Vec<NodeId> = live.iter().filter(is_voter).map(|voter| voter.node).collect();
            let can_lead = voters.len() >= majority(members.iter().filter(is_voter).count());
            let group = self.groups.get_mut(&name).unwrap();
            group
                .filled
                .retain(|known| live.iter().any(|member| member.incarnation == *known));
            if !group.leader.is_some_and(|leader| voters.contains(&leader)) || !can_lead {
                group.leader = can_lead.then(|| voters[self.prng.below(voters.len() as u64) as usize]);
                group.term += 1;
            }
            for member in live {
                if can_lead && (member.role == MemberRole::Voter || self.prng.below(3) == 0) {
                    group.filled.insert(member.incarnation);
                }
            }
        }
        for machine in &mut self.machines {
            let (Some(meta), Some(node)) = (&mut machine.meta, machine.node) else {
                continue;
            };
            let led = |group: &ModelGroup| group.leader == Some(node);
            let group_reports = self.groups.iter().filter(|(_, group)| led(group));
            let group_reports = group_reports.map(|(&name, group)| GroupReport {
                report: Report {
                    group: name,
                    generation: group.generation,
                    term: group.term,
                    index: group.index,
                    members: group.members.clone(),
                    leader: node,
                },
                caught_up: group.filled.clone(),
                unfit: BTreeSet::new(),
                is_changing: false,
                is_light: true,
                hosted: Vec::new(),
            });
            meta.on_group_reports(group_reports.collect(), self.now);
            let lost = self.groups.iter().filter(|(_, group)| !led(group));
            meta.on_lead_lost(&lost.map(|(&name, _)| name).collect::<Vec<GroupRef>>());
        }
    }

    fn check(&mut self) {
        for (place, machine) in self.machines.iter().enumerate() {
            let Some(meta) = &machine.meta else { continue };
            if let Some(state) = meta.state().filter(|_| self.steps.is_multiple_of(50)) {
                state.check().unwrap();
            }
            for notice in &machine.notices {
                if let Notice::Leads { term } = notice
                    && !self.is_split
                {
                    let leader = *self.leaders.entry(*term).or_insert(place);
                    assert_eq!(leader, place, "a term has one leader");
                }
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.now < end {
            self.step();
        }
    }

    fn run_until(&mut self, what: &str, limit: Duration, mut is_so: impl FnMut(&World) -> bool) {
        let end = self.now.after(limit);
        while !is_so(self) {
            assert!(self.now < end, "{what}: {}", self.describe());
            self.step();
        }
    }

    fn leader(&self) -> Option<usize> {
        let leads = |machine: &Machine| machine.meta.as_ref().is_some_and(Meta::leads);
        let mut machines = self.machines.iter().enumerate();
        let place = machines.find(|(place, machine)| leads(machine) && !self.cut_off.contains(place));
        place.map(|(place, _)| place)
    }

    fn state(&self) -> Option<&State> {
        self.machines[self.leader()?].meta.as_ref()?.state()
    }

    fn describe(&self) -> String {
        let machines = self.machines.iter().map(|machine| {
            let meta = machine.meta.as_ref();
            format!(
                "\n{:?} {:?} epoch {:?} seat {:?} leads {:?} {:?}",
                machine.node,
                machine.boot,
                machine.map.as_ref().map(|map| map.epoch),
                meta.map(Meta::has_seat),
                meta.map(Meta::leads),
                machine.notices.last()
            )
        });
        let groups = self.state().map(|state| format!("{:#?}", state.groups()));
        machines.collect::<String>() + "\n" + &groups.unwrap_or_default()
    }

    /// Whether everything is as it ought to be.
    fn is_settled(&self, replicas: usize, meta_replicas: usize) -> bool {
        let Some(state) = self.state() else { return false };
        let live = || self.machines.iter().filter(|machine| machine.meta.is_some());
        live().all(|machine| {
            machine.boot.is_some()
                && machine.map.as_ref().is_some_and(|map| map.epoch == state.epoch())
                && machine.settings.len() == state.settings().len()
        }) && state.nodes().len() == self.machines.len()
            && state.groups().iter().all(|(&name, group)| {
                let voters: BTreeSet<NodeId> = group.voters().map(|voter| voter.node).collect();
                let targets: BTreeSet<NodeId> = group.targets.iter().copied().collect();
                let (wanted, is_led_right) = match name {
                    GroupRef::Meta => (meta_replicas, true),
                    GroupRef::Data(_) => (replicas, group.leader == group.leader_target),
                };
                voters == targets
                    && voters.len() == wanted
                    && group.members.len() == wanted
                    && group.lost.is_empty()
                    && group.expected.is_empty()
                    && is_led_right
            })
    }

    /// The first machine counts as started.
    fn start(&mut self) {
        self.run_until("it starts", Duration::from_secs(1), |world| {
            world.machines[0].boot.is_some()
        });
    }

    fn settle(&mut self, replicas: usize, meta_replicas: usize) {
        self.run_until("it settles", Duration::from_secs(120), |world| {
            world.is_settled(replicas, meta_replicas)
        });
    }

    /// A cluster of so many nodes, settled.
    fn cluster(seed: u64, nodes: usize) -> World {
        let mut world = World::new(seed);
        world.create(8);
        world.settle(1, 1);
        for place in 1..nodes {
            let introducer = world.prng.below(place as u64) as usize;
            world.join(introducer);
        }
        let (replicas, meta_replicas) = match nodes {
            1 | 2 => (1, 1),
            3 | 4 => (3, 3),
            _ => (3, 5),
        };
        world.settle(replicas, meta_replicas);
        world
    }
}

#[test]
fn the_first_node_starts_alone() {
    let mut world = World::new(1);
    world.create(4);
    world.start();
    world.settle(1, 1);
    let id = world.machines[0]
        .meta
        .as_mut()
        .unwrap()
        .propose(MetaCommand::Set {
            name: "maxmemory".into(),
            value: "1gb".into(),
        });
    world.run_for(Duration::from_millis(100));
    assert_eq!(
        world.machines[0].outcomes[&id],
        Ok(MetaOutcome::Set { version: 1 })
    );
    assert_eq!(world.machines[0].settings["maxmemory"], "1gb");
    let epoch = world.state().unwrap().epoch();
    world.crash(0);
    world.boot(0);
    world.settle(1, 1);
    assert_eq!(world.machines[0].settings["maxmemory"], "1gb");
    assert!(
        world.state().unwrap().epoch() > epoch,
        "another boot is another map"
    );
}

#[test]
fn what_a_node_alone_holds_is_known_before_its_groups_are_reported() {
    let mut world = World::new(2);
    world.create(4);
    world.start();
    let held = |world: &World, was_ready| {
        let restored = world.machines[0].disk.restored().expect("its log has begun");
        let held = HeldAlone::of(&restored, NodeId(1), was_ready).expect("it is alone");
        held.groups
            .into_iter()
            .map(|(group, _)| group.number())
            .collect::<Vec<_>>()
    };
    // Nothing was reported yet: only one that was ready has begun them all.
    assert_eq!(held(&world, false), [0; 0]);
    assert_eq!(held(&world, true), [0, 1, 2, 3]);
    world.run_until("all are reported", Duration::from_secs(5), |world| {
        held(world, false) == [0, 1, 2, 3]
    });
    // One that begins anew with nothing has nothing that could be gone.
    world.crash(0);
    world.boot(0);
    world.start();
    assert_eq!(held(&world, true), [0; 0]);
}

#[test]
fn a_start_says_which_replicas_are_unclean_and_their_groups_go_on() {
    let mut world = World::new(3);
    world.create(4);
    world.settle(1, 1);
    for is_last in [false, true] {
        let state = world.state().expect("it leads").clone();
        let token = state.nodes()[&NodeId(1)].start;
        let data = || {
            let groups = state.groups().iter();
            groups.filter(|(name, _)| **name != GroupRef::Meta)
        };
        let unclean = data().map(|(name, group)| (*name, group.members[0].incarnation));
        let left_by = if is_last { vec![token] } else { Vec::new() };
        world.crash(0);
        world.boot_unclean(0, left_by, unclean.collect());
        world.start();
        let now = world.machines[0].map.clone().expect("it has started");
        for ((_, before), route) in data().zip(&now.groups) {
            assert_eq!(route.generation, before.generation + 1);
            let source = is_last.then_some(before.members[0].incarnation);
            assert_eq!(route.recovered_from, source, "{is_last}");
        }
        assert_eq!(now.durability, DurabilityMode::Strict);
        world.settle(1, 1);
    }
}

#[test]
fn nodes_join_one_by_one_and_groups_spread_with_even_leaders() {
    let mut world = World::new(2);
    world.create(16);
    world.settle(1, 1);
    for (replicas, meta_replicas) in [(1, 1), (3, 3), (3, 3), (3, 5)] {
        let introducer = world.machines.len() - 1;
        world.join(introducer);
        world.settle(replicas, meta_replicas);
    }
    let state = world.state().unwrap();
    for &node in state.nodes().keys() {
        let data = state.groups().iter().filter(|(name, _)| **name != GroupRef::Meta);
        let leads = data.filter(|(_, group)| group.leader == Some(node)).count();
        assert!((2..=5).contains(&leads), "{node:?} leads {leads}");
    }
}

#[test]
fn the_leader_of_the_meta_group_dies_and_another_goes_on() {
    for seed in 0..4 {
        let mut world = World::cluster(100 + seed, 3);
        let leader = world.leader().unwrap();
        world.crash(leader);
        world.run_until("another leads", Duration::from_secs(3), |world| {
            world.leader().is_some_and(|other| other != leader)
        });
        let other = world.leader().unwrap();
        let id = world.machines[other]
            .meta
            .as_mut()
            .unwrap()
            .propose(MetaCommand::Set {
                name: "a".into(),
                value: "b".into(),
            });
        world.run_for(Duration::from_secs(2));
        let outcome = &world.machines[other].outcomes[&id];
        assert!(matches!(outcome, Ok(MetaOutcome::Set { .. })), "{outcome:?}");
        world.boot(leader);
        world.settle(3, 3);
        let node = world.machines[leader].node.unwrap();
        let boots = world.state().unwrap().nodes()[&node].boot;
        assert_eq!(Some(boots), world.machines[leader].boot);
    }
}

#[test]
fn a_node_that_lost_its_memory_gets_new_identities_and_is_filled() {
    let mut world = World::cluster(7, 3);
    let had = world.machines[1].memory.clone();
    assert!(!had.is_empty());
    world.crash(1);
    world.run_for(Duration::from_millis(500));
    world.boot(1);
    world.settle(3, 3);
    let node = world.machines[1].node.unwrap();
    let state = world.state().unwrap();
    for (name, group) in state.groups() {
        let member = group.member_on(node).unwrap();
        if *name != GroupRef::Meta {
            assert!(!had.contains(&(*name, member.incarnation)), "{name:?}");
        }
    }
}

#[test]
fn a_node_that_gives_a_replica_up_is_given_another_one_which_is_filled() {
    let mut world = World::cluster(11, 3);
    let leader = world.leader().expect("it is settled");
    // One that leads the meta group, and one that does not.
    for place in [leader, (leader + 1) % 3] {
        let node = world.machines[place].node.expect("it has started");
        let state = world.state().expect("it is settled");
        let of_data = |(name, _): &(&GroupRef, _)| **name != GroupRef::Meta;
        let (name, group) = state.groups().iter().find(of_data).expect("there are some");
        let (name, generation) = (*name, group.generation);
        let GroupRef::Data(number) = name else {
            unreachable!("the meta group was left out")
        };
        let before = group
            .member_on(node)
            .expect("three replicas on three nodes")
            .incarnation;
        let given_up = GivenUp {
            group: number,
            generation,
            node,
            incarnation: before,
        };
        world.machines[place].memory.remove(&(name, before));
        let meta = world.machines[place].meta.as_mut().expect("it runs");
        meta.on_given_up(vec![given_up]);
        let has_another = |world: &World| {
            let group = &world.state().expect("there is a leader").groups()[&name];
            let member = group.member_on(node);
            member.is_some_and(|member| member.incarnation != before && member.role == MemberRole::Voter)
        };
        world.run_until("another one votes", Duration::from_secs(60), has_another);
        world.settle(3, 3);
        let meta = world.machines[place].meta.as_mut().expect("it runs");
        meta.on_given_up(Vec::new());
    }
}

#[test]
fn a_member_whose_disk_is_gone_is_another_one() {
    let mut world = World::cluster(8, 3);
    let node = world.machines[2].node.unwrap();
    let member = |world: &World| {
        let group = &world.state().unwrap().groups()[&GroupRef::Meta];
        group.member_on(node).unwrap().incarnation
    };
    let before = member(&world);
    world.crash(2);
    world.machines[2].disk = Disk::default();
    world.boot(2);
    world.settle(3, 3);
    assert_ne!(member(&world), before);
}

/// A member starts again with nothing, and once more so many steps after that start was counted. Whether the meta group has five voters again
/// before long.
fn start_twice_with_nothing(steps: usize) -> bool {
    let mut world = World::cluster(12, 5);
    let place = (world.leader().expect("it has settled") + 1) % 5;
    let node = world.machines[place].node.expect("it has joined");
    let boot = |world: &World| world.state().map(|state| state.nodes()[&node].boot);
    let start_with_nothing = |world: &mut World| {
        world.crash(place);
        world.machines[place].disk = Disk::default();
        world.boot(place);
    };
    let before = boot(&world);
    start_with_nothing(&mut world);
    world.run_until("the start is counted", Duration::from_secs(60), |world| {
        boot(world) != before
    });
    for _ in 0..steps {
        world.step();
    }
    start_with_nothing(&mut world);
    let is_whole = |world: &World| {
        let group = world.state().map(|state| &state.groups()[&GroupRef::Meta]);
        group.is_some_and(|group| {
            let votes = |member: &GroupMember| member.role == MemberRole::Voter;
            group.members.len() == 5 && group.members.iter().all(votes) && group.lost.is_empty()
        })
    };
    let end = world.now.after(Duration::from_secs(30));
    while world.now < end && !is_whole(&world) {
        world.step();
        // A request of the start before was late, and took this one's place: whoever looks after the process starts it again.
        if let Some(Notice::Superseded { .. }) = world.machines[place].notices.last() {
            world.crash(place);
            world.boot(place);
        }
    }
    is_whole(&world)
}

#[test]
fn a_learner_that_nobody_knows_any_more_is_let_go_of() {
    let moments = || 0..200;
    mutations::plant(Some(Mutation::UnknownLearnerKept));
    assert!(
        !moments().all(start_twice_with_nothing),
        "at one of these moments it is a member, and was not reported"
    );
    mutations::plant(None);
    for steps in moments() {
        assert!(start_twice_with_nothing(steps), "{steps} steps later");
    }
}

#[test]
fn everything_is_restarted_from_disk() {
    let mut world = World::cluster(9, 5);
    let cluster = world.state().unwrap().cluster();
    for machine in 0..5 {
        world.crash(machine);
    }
    world.run_for(Duration::from_secs(1));
    assert!(world.leader().is_none());
    for machine in 0..5 {
        world.boot(machine);
    }
    // The groups of keys have lost their majorities, which is for an operator to decide on; the meta group goes on.
    world.run_until("all have started", Duration::from_secs(20), |world| {
        world.machines.iter().all(|machine| machine.boot.is_some())
    });
    assert_eq!(world.state().unwrap().cluster(), cluster);
    let groups: Vec<GroupRef> = world.state().unwrap().groups().keys().copied().collect();
    for &group in groups.iter().filter(|group| **group != GroupRef::Meta) {
        let meta = world.machines[3].meta.as_mut().unwrap();
        let node = meta.map().unwrap().route(group).unwrap().leader.unwrap();
        let id = meta.propose(MetaCommand::Recover {
            group,
            node,
            recovery_source: None,
        });
        world.run_until("it is recovered", Duration::from_secs(5), |world| {
            world.machines[3].outcomes.contains_key(&id)
        });
        let Ok(MetaOutcome::Replica(replica)) = world.machines[3].outcomes[&id] else {
            panic!("{:?}", world.machines[3].outcomes[&id]);
        };
        assert_eq!(replica.generation, 1, "it began anew once");
        let model = ModelGroup {
            generation: replica.generation,
            term: 1,
            index: 1,
            members: vec![GroupMember {
                incarnation: replica.incarnation,
                node,
                role: MemberRole::Voter,
            }],
            leader: Some(node),
            filled: [replica.incarnation].into(),
        };
        world.groups.insert(group, model);
        let place = world.machine_of(node).unwrap();
        world.machines[place].memory.insert((group, replica.incarnation));
    }
    world.settle(3, 5);
}

#[test]
fn a_group_that_is_led_in_a_configuration_that_was_not_reported_does_not_begin_anew() {
    let mut world = World::cluster(10, 3);
    let group = GroupRef::Data(ids::GroupId::new(0));
    let leader = world.machines[0].node.unwrap();
    // Whom it has let go of are the only ones that the meta group knows of, and they lose their memory.
    let only = world.state().unwrap().groups()[&group].member_on(leader).copied();
    world.cut_off.insert(0);
    let model = world.groups.get_mut(&group).unwrap();
    model.members = vec![only.expect("all of three have it")];
    (model.leader, model.term, model.index) = (Some(leader), model.term + 1, model.index + 2);
    for machine in [1, 2] {
        world.crash(machine);
        world.boot(machine);
    }
    world.run_until("they have lost their memory", Duration::from_secs(20), |world| {
        let lost = world.state().map(|state| state.groups()[&group].lost.len());
        lost == Some(2)
    });
    let asked = world.leader().unwrap();
    let meta = world.machines[asked].meta.as_mut().unwrap();
    let id = meta.propose(MetaCommand::Recover {
        group,
        node: leader,
        recovery_source: None,
    });
    world.run_for(Duration::from_millis(500));
    world.cut_off.clear();
    world.run_until("it is refused", Duration::from_secs(20), |world| {
        world.machines[asked].outcomes.contains_key(&id)
    });
    assert_eq!(
        world.machines[asked].outcomes[&id],
        Err(Failure::Refused(MetaRefusal::NotNeeded))
    );
    assert_eq!(world.state().unwrap().groups()[&group].generation, 0);
}

#[test]
fn a_group_that_died_amid_a_joint_change_begins_anew_when_the_voters_of_both_halves_have_spoken() {
    let mut world = World::cluster(11, 4);
    let group = GroupRef::Data(ids::GroupId::new(0));
    let is_in = |world: &World, place: usize| {
        let node = world.machines[place].node.expect("it has joined");
        world.groups[&group]
            .members
            .iter()
            .any(|member| member.node == node)
    };
    let (voters, others): (Vec<usize>, Vec<usize>) = (0..4).partition(|&place| is_in(&world, place));
    let (first, newcomer) = (voters[0], others[0]);
    let nodes = |places: &[usize]| -> Vec<NodeId> {
        let nodes = places.iter().map(|&place| world.machines[place].node);
        nodes.map(|node| node.expect("it has joined")).collect()
    };
    let (all, wanted) = (
        nodes(&[0, 1, 2, 3]),
        nodes(&[first, voters[1], newcomer, voters[2]]),
    );
    let place = MetaCommand::Place {
        members: all,
        factor: 3,
        targets: vec![Target {
            group,
            nodes: wanted[..3].to_vec(),
            leader: None,
        }],
    };
    let meta = world.machines[first].meta.as_mut().expect("it runs");
    meta.propose(place);
    world.run_until("one learns", Duration::from_secs(20), |world| {
        let group = &world.state().expect("there is a leader").groups()[&group];
        group.member_on(wanted[2]).is_some()
    });
    // Its leader is about to let one voter go for the newcomer, and dies with that one.
    world.groups.get_mut(&group).expect("it is there").leader = None;
    for &machine in &voters[1..] {
        world.crash(machine);
        world.boot(machine);
    }
    world.run_until("they have lost their memory", Duration::from_secs(20), |world| {
        let state = world.state();
        state.is_some_and(|state| state.groups()[&group].lost.len() == 2)
    });
    let known = world.state().expect("there is a leader").groups()[&group].clone();
    let swapped = |member: &GroupMember| GroupMember {
        role: match member.node == wanted[3] {
            true => MemberRole::Learner,
            false => MemberRole::Voter,
        },
        ..*member
    };
    let source = |place: usize, last: u64| {
        let member = known.member_on(world.machines[place].node.expect("it has joined"));
        let member = member.expect("it has its memory");
        RecoverySource {
            group: ids::GroupId::new(0),
            generation: 0,
            node: member.node,
            incarnation: member.incarnation,
            term: Term(known.term),
            last: Index(last),
            applied: Index(known.index + 1),
            lost_voter: None,
            unreported: Some(Configuration {
                index: known.index + 1,
                members: known.members.iter().map(swapped).collect(),
            }),
            outgoing: known.voters().map(|voter| voter.incarnation).collect(),
            is_aside: false,
            voters: Vec::new(),
            changed_at: Index(0),
            is_whole: true,
        }
    };
    let (one, other) = (source(first, 70), source(newcomer, 71));
    let recover = MetaCommand::Recover {
        group,
        node: one.node,
        recovery_source: Some(one.incarnation),
    };
    let meta = world.machines[first].meta.as_mut().expect("it runs");
    meta.on_recovery_sources(vec![one]);
    let id = meta.propose(recover);
    world.run_for(Duration::from_secs(8));
    let outcome = world.machines[first].outcomes.get(&id);
    assert_eq!(outcome, None, "the newcomer may have what the other one lacks");
    let meta = world.machines[newcomer].meta.as_mut().expect("it runs");
    meta.on_recovery_sources(vec![other]);
    world.run_until("it is answered", Duration::from_secs(20), |world| {
        world.machines[first].outcomes.contains_key(&id)
    });
    let outcome = &world.machines[first].outcomes[&id];
    assert!(matches!(outcome, Ok(MetaOutcome::Replica(_))), "{outcome:?}");
}

#[test]
fn what_was_acknowledged_is_there_when_every_process_died_at_once() {
    for seed in 0..4 {
        let mut world = World::cluster(300 + seed, 3);
        world.is_harsh = true;
        for number in 0..15 {
            let asked = world.prng.below(3) as usize;
            let meta = world.machines[asked].meta.as_mut().unwrap();
            let value = format!("{number:02}");
            let id = meta.propose(MetaCommand::Set {
                name: "a".into(),
                value: value.clone(),
            });
            world.run_until("it is answered", Duration::from_secs(20), |world| {
                world.machines[asked].outcomes.contains_key(&id)
            });
            for machine in 0..3 {
                world.crash(machine);
            }
            world.packets.clear();
            for machine in 0..3 {
                world.boot(machine);
            }
            world.run_until("all have started", Duration::from_secs(20), |world| {
                world.machines.iter().all(|machine| machine.boot.is_some())
            });
            let settings = world.state().unwrap().settings();
            assert_eq!(settings["a"].value, value);
        }
    }
}

#[test]
fn a_lost_majority_says_so_and_proposals_do_not_wait_for_ever() {
    let mut world = World::cluster(10, 3);
    let rest = world.leader().unwrap();
    for machine in (0..3).filter(|machine| *machine != rest) {
        world.crash(machine);
    }
    world.run_for(Duration::from_secs(8));
    assert!(world.leader().is_none());
    assert_eq!(world.machines[rest].notices.last(), Some(&Notice::Leaderless));
    let id = world.machines[rest]
        .meta
        .as_mut()
        .unwrap()
        .propose(MetaCommand::Set {
            name: "a".into(),
            value: "b".into(),
        });
    world.run_for(Duration::from_secs(31));
    assert_eq!(world.machines[rest].outcomes[&id], Err(Failure::Unknown));
    let other = (rest + 1) % 3;
    world.boot(other);
    world.run_until("there is a majority", Duration::from_secs(10), |world| {
        world.leader().is_some() && world.machines[other].boot.is_some()
    });
    let told = |notice: &&Notice| matches!(notice, Notice::Leads { .. } | Notice::Follows { .. });
    world.run_for(Duration::from_secs(3));
    assert!(world.machines[rest].notices.last().iter().all(told));
}

#[test]
fn who_finds_no_cluster_to_join_does_not_say_that_nobody_leads_it() {
    let mut world = World::cluster(11, 1);
    world.crash(0);
    let joiner = world.join(0);
    world.run_for(Duration::from_secs(20));
    assert_eq!(world.machines[joiner].notices, []);
}

/// A leader whose two learners have become voters, and who has not heard yet that they know.
#[test]
fn a_change_of_the_meta_group_goes_on_until_a_majority_of_its_new_voters_knows_that_it_has_ended() {
    let mut world = World::cluster(24, 2);
    world.join(0);
    let is_ended = |world: &World, machine: usize| {
        let meta = world.machines[machine].meta.as_ref();
        let replica = meta.and_then(Meta::replica);
        replica.is_some_and(|(_, members)| members.voters.len() == 3 && !members.is_joint())
    };
    let is_changing = |world: &mut World| {
        let now = world.now;
        let leader = world.leader().expect("nobody dies");
        let observations = world.machines[leader]
            .meta
            .as_mut()
            .expect("the leader runs")
            .observations(now);
        let own = observations.and_then(|mut observations| observations.groups.remove(&GroupRef::Meta));
        own.map(|own| own.is_changing)
    };
    world.run_until("it has three voters", Duration::from_secs(60), |world| {
        is_ended(world, world.leader().expect("nobody dies"))
    });
    let leader = world.leader().unwrap();
    let others: Vec<usize> = (0..3).filter(|machine| *machine != leader).collect();
    assert!(
        others.iter().all(|other| !is_ended(&world, *other)),
        "they have not heard of it"
    );
    assert_eq!(is_changing(&mut world), Some(true), "nobody else knows");
    // What told them is lost.
    world.packets.clear();
    world.cut_off.extend(&others);
    world.run_for(Duration::from_millis(100));
    assert_eq!(is_changing(&mut world), Some(true), "nobody has said so");
    world.cut_off.clear();
    for _ in 0..10_000 {
        if is_changing(&mut world) == Some(false) {
            break;
        }
        world.step();
    }
    assert_eq!(is_changing(&mut world), Some(false), "it was said again");
    assert!(others.iter().any(|other| is_ended(&world, *other)));
    world.settle(3, 3);
}

#[test]
fn a_node_joins_at_the_address_of_one_that_has_ended_and_not_of_one_that_is_there() {
    let mut world = World::cluster(41, 3);
    let leader = world.leader().unwrap();
    let old = (leader + 1) % 3;
    let node = world.machines[old].node.unwrap();
    world.on_links(Some(node), true);
    let twin = world.join_at(old, leader);
    let refusal = MetaRefusal::Taken;
    world.run_until("it is refused", Duration::from_secs(5), |world| {
        let notices = &world.machines[twin].notices;
        notices.contains(&Notice::StartRefused { refusal })
    });
    assert!(world.state().unwrap().nodes().len() == 3);
    world.crash(old);
    let successor = world.join_at(old, leader);
    world.run_until("it is let in at once", Duration::from_secs(1), |world| {
        world.machines[successor].boot.is_some()
    });
    world.run_until("the old one is no member", Duration::from_secs(60), |world| {
        let state = world.state();
        state.is_some_and(|state| !state.nodes().contains_key(&node))
    });
    let successor = world.machines[successor].node.unwrap();
    world.run_until("the new one votes", Duration::from_secs(60), |world| {
        let meta = world.state().map(|state| &state.groups()[&GroupRef::Meta]);
        meta.is_some_and(|meta| meta.voters().any(|voter| voter.node == successor))
    });
}

#[test]
fn a_node_that_joins_weighs_what_it_learned_by_its_first_link() {
    let mut world = World::cluster(44, 3);
    let leader = world.leader().unwrap();
    let config = world.config(None, 3);
    let mut meta = Meta::join(config, world.now);
    // It has asked before there was anybody, and nobody heard of it.
    meta.take_effects(world.now);
    meta.set_weight(250);
    let heavy = world.add(meta, leader);
    world.run_until("it is let in", Duration::from_secs(5), |world| {
        world.machines[heavy].boot.is_some()
    });
    let node = world.machines[heavy].node.unwrap();
    let announced = &world.state().unwrap().nodes()[&node].announcement;
    assert_eq!(announced.weight_percent, 250);
}

#[test]
fn an_operator_has_a_node_replaced_that_is_away_and_not_one_that_is_there() {
    let mut world = World::cluster(43, 3);
    let leader = world.leader().unwrap();
    let old = (leader + 1) % 3;
    let node = world.machines[old].node.unwrap();
    world.on_links(Some(node), true);
    let boot = world.state().unwrap().nodes()[&node].boot;
    let answer = |world: &mut World| {
        let meta = world.machines[leader].meta.as_mut().expect("it runs");
        let id = meta.propose(MetaCommand::Replace { boot, with: None });
        world.run_until("it is answered", Duration::from_secs(20), |world| {
            world.machines[leader].outcomes.contains_key(&id)
        });
        world.machines[leader].outcomes[&id].clone()
    };
    assert_eq!(
        answer(&mut world),
        Err(Failure::Refused(MetaRefusal::InUse)),
        "whoever asked may lack a link to it"
    );
    world.crash(old);
    world.run_for(Duration::from_secs(10));
    assert_ne!(answer(&mut world), Err(Failure::Refused(MetaRefusal::InUse)));
}

#[test]
fn what_is_kept_of_a_group_that_nobody_leads_is_not_forgotten_nor_are_nodes_replaced_together_of_which_one_is_there()
 {
    let mut world = World::cluster(45, 3);
    let leader = world.leader().unwrap();
    let answer = |world: &mut World, command: MetaCommand| {
        let meta = world.machines[leader].meta.as_mut().expect("it runs");
        let id = meta.propose(command);
        world.run_until("it is answered", Duration::from_secs(20), |world| {
            world.machines[leader].outcomes.contains_key(&id)
        });
        world.machines[leader].outcomes[&id].clone()
    };
    let forget = |generation| MetaCommand::Forget {
        group: GroupRef::Data(ids::GroupId::new(0)),
        node: NodeId(1),
        generation,
    };
    let refused = |refusal| Err(Failure::Refused(refusal));
    // That is how far rules are raised in this world: whoever leads the group has been heard.
    assert_eq!(answer(&mut world, forget(0)), refused(MetaRefusal::Semantics));
    assert_eq!(answer(&mut world, forget(1)), refused(MetaRefusal::AtRisk));
    let (gone, there) = ((leader + 1) % 3, (leader + 2) % 3);
    let boots = [gone, there].map(|machine| {
        let node = world.machines[machine].node.unwrap();
        world.on_links(Some(node), true);
        world.state().unwrap().nodes()[&node].boot
    });
    world.crash(gone);
    world.run_for(Duration::from_secs(10));
    let together = |boots: &[Boot]| MetaCommand::ReplaceTogether {
        boots: boots.to_vec(),
    };
    assert_eq!(answer(&mut world, together(&boots)), refused(MetaRefusal::InUse));
    assert_eq!(
        answer(&mut world, together(&boots[..1])),
        refused(MetaRefusal::Semantics)
    );
}

#[test]
fn of_an_outage_every_node_is_told_by_the_one_that_leads_and_of_its_end() {
    let mut world = World::cluster(44, 6);
    let leader = world.leader().unwrap();
    let down: Vec<usize> = (0..6).filter(|machine| *machine != leader).take(2).collect();
    let told = |world: &World, nodes: Option<&[NodeId]>| {
        let runs = world.machines.iter().filter_map(|machine| machine.meta.as_ref());
        let mut outages = runs.map(|meta| meta.outage(world.now));
        outages.all(|outage| outage.as_ref().map(|outage| outage.nodes.as_slice()) == nodes)
    };
    world.crash(down[0]);
    for _ in 0..5 {
        world.run_for(Duration::from_secs(1));
        assert!(told(&world, None), "one has died");
    }
    world.crash(down[1]);
    let mut nodes: Vec<NodeId> = down
        .iter()
        .filter_map(|&place| world.machines[place].node)
        .collect();
    nodes.sort_unstable();
    world.run_until("all know of it", Duration::from_secs(10), |world| {
        told(world, Some(&nodes))
    });
    world.run_for(Duration::from_secs(10));
    assert!(told(&world, Some(&nodes)), "as long as it lasts");
    world.boot(down[0]);
    world.run_until("it is over", Duration::from_secs(20), |world| told(world, None));
}

#[test]
fn each_node_is_told_what_it_lacks_by_the_one_that_leads() {
    let mut world = World::cluster(45, 4);
    let lack = |world: &World, machine: usize| world.machines[machine].meta.as_ref()?.lack(world.now);
    let lacks_nothing =
        |world: &World, machine: usize| lack(world, machine).is_some_and(|lack| lack.is_nothing());
    let all = |world: &World| (0..4).all(|machine| lacks_nothing(world, machine));
    world.run_until("all are ready", Duration::from_secs(20), all);
    let leader = world.leader().unwrap();
    let down = (leader + 1) % 4;
    world.crash(down);
    world.run_for(Duration::from_secs(5));
    assert!(lacks_nothing(&world, leader), "another one is down");
    world.boot(down);
    world.run_until("it has started", Duration::from_secs(20), |world| {
        let lack = lack(world, down);
        assert!(
            lack.as_ref().is_none_or(|lack| !lack.is_nothing()),
            "it has just started"
        );
        lack.is_some_and(|lack| lack.is_new)
    });
    world.run_until("it has caught up", Duration::from_secs(60), all);
    let joined = world.join(leader);
    world.run_until("it has to be filled", Duration::from_secs(20), |world| {
        let lack = lack(world, joined);
        assert!(
            lack.as_ref().is_none_or(|lack| !lack.is_nothing()),
            "it has nothing"
        );
        lack.is_some_and(|lack| lack.count > 0)
    });
    world.run_until("it is filled", Duration::from_secs(120), |world| {
        lacks_nothing(world, joined)
    });
    let voters = world
        .state()
        .unwrap()
        .groups()
        .values()
        .flat_map(control::Group::voters);
    let node = world.machines[joined].node;
    assert!(voters.filter(|voter| Some(voter.node) == node).count() > 0);

    world.crash(leader);
    world.run_until("another one leads", Duration::from_secs(20), |world| {
        world.leader().is_some_and(|other| other != leader)
    });
    let other = (0..4).find(|machine| *machine != leader).unwrap();
    let known = |world: &World| lack(world, other).is_some();
    assert!(known(&world), "what was told before is believed for a while");
    world.run_for(Duration::from_secs(20));
    assert!(known(&world));
}

#[test]
fn where_an_older_build_leads_a_node_goes_by_the_map() {
    let mut world = World::new(46);
    world.says_no_lack = true;
    world.create(8);
    world.settle(1, 1);
    for _ in 1..3 {
        world.join(0);
    }
    let lack = |world: &World| world.machines[2].meta.as_ref()?.lack(world.now);
    world.run_for(Duration::from_secs(5));
    assert_eq!(lack(&world), None, "it may be said yet");
    world.settle(3, 3);
    world.run_until("the map says it", Duration::from_secs(20), |world| {
        lack(world).is_some_and(|lack| lack.is_nothing())
    });
    world.says_no_lack = false;
    let leader = world.leader().unwrap();
    world.crash((leader + 1) % 3);
    world.boot((leader + 1) % 3);
    world.run_until("it is said", Duration::from_secs(60), |world| {
        let lack = world.machines[(leader + 1) % 3]
            .meta
            .as_ref()
            .and_then(|meta| meta.lack(world.now));
        lack.is_some_and(|lack| lack.is_new)
    });
}

/// Something that changes the map, as an operator wants it.
fn change_map(world: &mut World, seconds: u64) {
    let leader = world.leader().unwrap();
    let pause = MetaCommand::Pause {
        seconds: Some(seconds),
    };
    world.machines[leader].meta.as_mut().unwrap().propose(pause);
}

fn all_know_the_newest_map(world: &World) -> bool {
    let Some(state) = world.state() else { return false };
    let mut maps = world.machines.iter().map(|machine| machine.map.as_ref());
    maps.all(|map| map.is_some_and(|map| map.epoch == state.epoch()))
}

#[test]
fn what_has_changed_is_told_in_place_of_the_whole_map() {
    let mut world = World::cluster(61, 6);
    let wholes = world.wholes;
    world.join(0);
    world.settle(3, 5);
    let state = world.state().unwrap();
    let versions = world.maps.range(..=state.epoch()).count() as u64;
    assert!(
        versions > 20 && world.differences > versions,
        "{} of {versions}",
        world.differences
    );
    assert_eq!(world.wholes, wholes + 1, "the one that joined had none");
    let leader = world.leader().unwrap();
    let wholes = world.wholes;
    world.crash(leader);
    world.run_until(
        "another one leads, and is followed",
        Duration::from_secs(20),
        |world| world.leader().is_some(),
    );
    change_map(&mut world, 60);
    world.run_for(Duration::from_secs(10));
    assert_eq!(
        world.wholes, wholes,
        "whoever comes to lead asks first what others have"
    );
}

#[test]
fn nodes_of_builds_that_know_no_differences_get_the_whole_map() {
    let mut world = World::new(62);
    world.create(8);
    world.start();
    world.newest = SemanticsVersion::HOLDER_READS;
    (1..4).for_each(|_| _ = world.join(0));
    world.newest = SemanticsVersion::MAP_DIFFERENCES;
    (4..6).for_each(|_| _ = world.join(0));
    world.settle(3, 5);
    let (wholes, differences) = (world.wholes, world.differences);
    change_map(&mut world, 60);
    world.run_for(Duration::from_secs(3));
    assert!(all_know_the_newest_map(&world));
    assert!(world.wholes >= wholes + 2 && world.differences > differences);
    // One of them is started again with the build of the others.
    let older = (1..4).find(|machine| world.leader() != Some(*machine)).unwrap();
    world.crash(older);
    world.boot(older);
    world.settle(3, 5);
}

#[test]
fn who_lost_a_difference_is_told_what_has_changed_since_the_map_that_it_has() {
    let mut world = World::cluster(63, 5);
    let leader = world.leader().unwrap();
    let (wholes, missing) = (world.wholes, (leader + 1) % 5);
    world.lost_map = Some(missing);
    change_map(&mut world, 60);
    world.run_until("it is lost", Duration::from_secs(2), |world| {
        world.lost_map.is_none()
    });
    change_map(&mut world, 61);
    world.run_until("all know it", Duration::from_millis(700), all_know_the_newest_map);
    assert_eq!(world.wholes, wholes);
}

#[test]
fn a_node_joins_under_the_name_of_one_that_has_ended_and_not_of_one_that_is_there() {
    let mut world = World::cluster(43, 3);
    let leader = world.leader().unwrap();
    let old = (leader + 1) % 3;
    let node = world.machines[old].node.unwrap();
    world.on_links(Some(node), true);
    // It joined without a name, and starts again with one.
    world.name = "b".to_owned();
    world.crash(old);
    world.boot(old);
    world.run_until("it is back", Duration::from_secs(10), |world| {
        let state = world.state();
        state.is_some_and(|state| state.nodes()[&node].announcement.name == "b")
    });
    let twin = world.join_at(7, leader);
    let refusal = MetaRefusal::Taken;
    world.run_until("it is refused", Duration::from_secs(5), |world| {
        let notices = &world.machines[twin].notices;
        notices.contains(&Notice::StartRefused { refusal })
    });
    world.crash(old);
    let successor = world.join_at(8, leader);
    world.run_until("it is let in at once", Duration::from_secs(1), |world| {
        world.machines[successor].boot.is_some()
    });
    world.run_until("the old one is no member", Duration::from_secs(60), |world| {
        let state = world.state();
        state.is_some_and(|state| !state.nodes().contains_key(&node))
    });
}

#[test]
fn a_node_that_is_emptied_and_removed_learns_it() {
    let mut world = World::cluster(11, 4);
    let leader = world.leader().unwrap();
    let gone = (leader + 1) % 4;
    let node = world.machines[gone].node.unwrap();
    let propose = |world: &mut World, command: MetaCommand| {
        let id = world.machines[leader].meta.as_mut().unwrap().propose(command);
        world.run_until("it is answered", Duration::from_secs(5), |world| {
            world.machines[leader].outcomes.contains_key(&id)
        });
        world.machines[leader].outcomes[&id].clone()
    };
    let leave = MetaCommand::SetGoal {
        nodes: vec![node],
        goal: NodeGoal::Drains,
    };
    assert_eq!(propose(&mut world, leave), Ok(MetaOutcome::Done));
    world.run_until("it is empty", Duration::from_secs(60), |world| {
        let state = world.state();
        state.is_some_and(|state| !state.groups().values().any(|group| group.involves(node)))
    });
    assert_eq!(
        propose(&mut world, MetaCommand::Remove { node }),
        Ok(MetaOutcome::Done)
    );
    world.run_for(Duration::from_secs(3));
    assert!(world.machines[gone].notices.contains(&Notice::Removed));
    assert!(!world.machines[gone].meta.as_ref().unwrap().has_seat());
    assert!(!world.machines[gone].disk.exists, "its log is gone");
    assert_eq!(
        propose(&mut world, MetaCommand::Remove { node }),
        Err(Failure::Refused(MetaRefusal::Unknown))
    );
    world.crash(gone);
    world.boot(gone);
    world.run_for(Duration::from_secs(5));
    assert!(world.machines[gone].notices.contains(&Notice::Removed));
}

#[test]
fn nodes_are_not_emptied_into_others_that_have_no_room() {
    let mut world = World::cluster(13, 4);
    let leader = world.leader().unwrap();
    let full = (leader + 1) % 4;
    let nodes = vec![world.machines[full].node.unwrap()];
    let weigh = |world: &mut World, most: u64| {
        for machine in 0..4 {
            let used = if machine == full { 301 } else { 100 };
            let meta = world.machines[machine].meta.as_mut().unwrap();
            meta.on_memory(NodeMemory { used, most });
        }
        world.run_for(Duration::from_secs(3));
    };
    let propose = |world: &mut World| {
        let goal = NodeGoal::Drains;
        let nodes = nodes.clone();
        let command = MetaCommand::SetGoal { nodes, goal };
        let id = world.machines[full].meta.as_mut().unwrap().propose(command);
        world.run_until("it is answered", Duration::from_secs(5), |world| {
            world.machines[full].outcomes.contains_key(&id)
        });
        world.machines[full].outcomes[&id].clone()
    };
    weigh(&mut world, 200);
    assert_eq!(propose(&mut world), Err(Failure::Refused(MetaRefusal::NoRoom)));
    weigh(&mut world, 201);
    assert_eq!(propose(&mut world), Ok(MetaOutcome::Done));
    weigh(&mut world, 200);
    assert_eq!(propose(&mut world), Ok(MetaOutcome::Done), "it was said already");
}

#[test]
fn more_replicas_are_not_wanted_than_have_room() {
    let mut world = World::cluster(13, 4);
    let leader = world.leader().unwrap();
    world.run_until("each group has three", Duration::from_secs(60), |world| {
        let state = world.state();
        state.is_some_and(|state| state.replicas_wanted() == 3 && state.moves_left() == 0)
    });
    let propose = |world: &mut World, most: u64, factor: Factor| {
        for machine in 0..4 {
            let meta = world.machines[machine].meta.as_mut().unwrap();
            meta.on_memory(NodeMemory { used: 300, most });
        }
        world.run_for(Duration::from_secs(3));
        let command = MetaCommand::SetFactor { factor };
        let id = world.machines[leader].meta.as_mut().unwrap().propose(command);
        world.run_until("it is answered", Duration::from_secs(5), |world| {
            world.machines[leader].outcomes.contains_key(&id)
        });
        world.machines[leader].outcomes[&id].clone()
    };
    // Four take a third more than three.
    assert_eq!(
        propose(&mut world, 399, Factor::Four),
        Err(Failure::Refused(MetaRefusal::NoRoom))
    );
    assert!(
        propose(&mut world, 300, Factor::One).is_ok(),
        "less always has room"
    );
    assert_eq!(
        propose(&mut world, 300, Factor::Three),
        Err(Failure::Refused(MetaRefusal::NoRoom)),
        "and what was there may be gone"
    );
    assert!(propose(&mut world, 0, Factor::Four).is_ok(), "no limit");
}

#[test]
fn a_node_that_leaves_is_told_that_it_may_go_and_is_no_member_once_it_is_silent() {
    let mut world = World::cluster(12, 4);
    let leader = world.leader().unwrap();
    let gone = (leader + 1) % 4;
    let node = world.machines[gone].node.unwrap();
    let goal = |goal| MetaCommand::SetGoal {
        nodes: vec![node],
        goal,
    };
    let propose = |world: &mut World, command: MetaCommand| {
        let id = world.machines[leader].meta.as_mut().unwrap().propose(command);
        world.run_until("it is answered", Duration::from_secs(5), |world| {
            world.machines[leader].outcomes.contains_key(&id)
        });
        world.machines[leader].outcomes[&id].clone()
    };
    assert_eq!(propose(&mut world, goal(NodeGoal::Leaves)), Ok(MetaOutcome::Done));
    world.run_until("it is told", Duration::from_secs(60), |world| {
        world.machines[gone].notices.contains(&Notice::Left)
    });
    world.run_for(Duration::from_secs(5));
    assert!(
        world.state().unwrap().nodes().contains_key(&node),
        "its process has not ended"
    );
    assert_eq!(
        propose(&mut world, goal(NodeGoal::Stays)),
        Err(Failure::Refused(MetaRefusal::HasLeft))
    );
    world.crash(gone);
    world.run_until("it is no member", Duration::from_secs(20), |world| {
        let state = world.state();
        state.is_some_and(|state| !state.nodes().contains_key(&node))
    });
    world.boot(gone);
    world.run_for(Duration::from_secs(5));
    assert!(world.machines[gone].notices.contains(&Notice::Removed));
}

/// Makes the machine's log that of the only member, as `chorale admin recover --meta` does.
fn recover_meta(world: &mut World, machine: usize, chance: u64) {
    let known = &mut world.machines[machine];
    let restored = known.disk.restored().expect("it has a log");
    let node = known.node.expect("it has joined");
    let recovered = RecoveredMeta::of(&restored, node, chance).expect("it is a voter, and there are others");
    assert_eq!(recovered.others.len(), 2);
    known.disk.write(Record::Snapshot {
        point: recovered.point,
        state: recovered.state,
    });
}

#[test]
fn one_recovery_source_makes_the_meta_group_anew_and_others_join_it() {
    let mut world = World::cluster(31, 3);
    let cluster = world.state().expect("it is settled").cluster();
    for machine in 0..3 {
        world.crash(machine);
    }
    for lost in [1, 2] {
        world.machines[lost].disk = Disk::default();
    }
    recover_meta(&mut world, 0, u64::MAX);
    world.boot(0);
    world.run_until(
        "the recovery source leads alone",
        Duration::from_secs(20),
        |world| world.leader() == Some(0) && world.machines[0].boot.is_some(),
    );
    let state = world.state().expect("it leads");
    assert_eq!(state.cluster(), cluster);
    let meta = &state.groups()[&GroupRef::Meta];
    assert_eq!((meta.generation, meta.members.len()), (1, 1));
    // Nodes whose logs are gone come back under their numbers, and a new one comes: all are let in.
    world.boot(1);
    world.boot(2);
    let new = world.join(0);
    world.run_until("all have started", Duration::from_secs(20), |world| {
        let has_started = |machine: usize| world.machines[machine].boot.is_some();
        [1, 2, new].into_iter().all(has_started)
    });
    world.run_until(
        "the meta group has three voters",
        Duration::from_secs(60),
        |world| {
            let state = world.state();
            state.is_some_and(|state| state.groups()[&GroupRef::Meta].voters().count() == 3)
        },
    );
}

#[test]
fn a_meta_group_that_begins_anew_from_a_log_that_lags_learns_what_groups_have_and_takes_nothing_for_lost() {
    begin_anew_from_a_log_that_lags();
    mutations::plant(Some(Mutation::UnknownCalledLost));
    let noticed = std::panic::catch_unwind(begin_anew_from_a_log_that_lags);
    mutations::plant(None);
    assert!(noticed.is_err(), "the mistake is noticed");
}

fn begin_anew_from_a_log_that_lags() {
    let mut world = World::cluster(35, 3);
    let old = world.machines[0].disk.clone();
    let members = |world: &World| -> BTreeMap<GroupRef, Vec<GroupMember>> {
        let data = world.groups.iter().filter(|(name, _)| **name != GroupRef::Meta);
        data.map(|(&name, group)| (name, group.members.clone())).collect()
    };
    let before = members(&world);
    // Every replica of the second node is another one since, and no start of a node tells of it.
    let node = world.machines[1].node.expect("it has started");
    for (&name, group) in &before {
        let GroupRef::Data(number) = name else {
            unreachable!("the meta group was left out")
        };
        let replica = group
            .iter()
            .find(|member| member.node == node)
            .expect("three on three nodes");
        let given_up = GivenUp {
            group: number,
            generation: 0,
            node,
            incarnation: replica.incarnation,
        };
        world.machines[1].memory.remove(&(name, replica.incarnation));
        world.machines[1]
            .meta
            .as_mut()
            .expect("it runs")
            .on_given_up(vec![given_up]);
        world.run_until("another one votes", Duration::from_secs(60), |world| {
            let group = &world.groups[&name];
            let mut members = group.members.iter();
            members.any(|member| {
                member.node == node
                    && member.incarnation != replica.incarnation
                    && member.role == MemberRole::Voter
            })
        });
    }
    world.settle(3, 3);
    let now = members(&world);
    world.is_split = true;
    world.crash(0);
    world.machines[0].disk = old;
    world.cut_off.insert(0);
    recover_meta(&mut world, 0, u64::MAX);
    world.boot(0);
    world.run_until(
        "the recovery source leads alone",
        Duration::from_secs(20),
        |world| {
            let meta = world.machines[0].meta.as_ref();
            meta.is_some_and(Meta::leads) && world.machines[0].boot.is_some()
        },
    );
    let map = world.machines[0].map.clone().expect("it leads");
    assert!(
        map.groups.iter().all(|route| route.is_unheard),
        "nobody gives anything up for this map"
    );
    let expects = |route: &control::Route| {
        let mut stops = route.replicas.iter();
        stops.any(|stop| {
            stop.standing == Standing::Expected
                && before
                    .values()
                    .flatten()
                    .any(|old| old.incarnation == stop.incarnation)
        })
    };
    assert!(
        !map.groups.iter().any(|route| expects(route)),
        "nobody begins as whom another has been"
    );
    // Nor is the last start of another node known to it: what that one handed over counts.
    let kept = now.iter().map(|(&name, members)| {
        let mut members = members.iter();
        let own = members
            .find(|member| member.node == node)
            .expect("three on three nodes");
        (name, own.incarnation)
    });
    let boot = MetaCommand::Boot {
        node,
        token: Token(1),
        announcement: announcement(1),
        left_by: vec![Token(2)],
        kept: kept.collect(),
        unclean: Vec::new(),
    };
    let meta = world.machines[0].meta.as_ref();
    let mut state = meta.and_then(Meta::state).expect("it leads").clone();
    let Ok(MetaOutcome::Started { replicas, .. }) = state.apply(&boot) else {
        panic!("it is a node")
    };
    let kept = replicas
        .iter()
        .filter(|replica| replica.beginning == Beginning::Kept);
    assert_eq!(kept.count(), now.len());
    // Whoever leads is heard.
    let me = world.machines[0].node.expect("it has joined");
    let reports = now.iter().map(|(&group, members)| Report {
        group,
        generation: 0,
        term: 1_000,
        index: 1_000,
        members: members.clone(),
        leader: node,
    });
    let reports = MetaCommand::Report {
        reports: reports.collect(),
    };
    let id = world.machines[0].meta.as_mut().expect("it runs").propose(reports);
    world.run_until("it is told of all groups", Duration::from_secs(20), |world| {
        world.machines[0].outcomes.contains_key(&id)
    });
    assert_eq!(world.machines[0].outcomes[&id], Ok(MetaOutcome::Done));
    let state = world.machines[0]
        .meta
        .as_ref()
        .and_then(Meta::state)
        .expect("it leads");
    for (name, members) in &now {
        let group = &state.groups()[name];
        assert!(!group.is_unheard);
        for member in members {
            // The node that has started again has lost what it had, and says so.
            assert_eq!(group.is_lost(member.incarnation), member.node == me, "{member:?}");
        }
    }
    state.check().expect("it holds");
}

#[test]
fn of_two_recovery_sources_that_both_begin_anew_one_gives_in_when_they_meet() {
    let mut world = World::cluster(32, 3);
    for machine in 0..3 {
        world.crash(machine);
    }
    world.machines[2].disk = Disk::default();
    // What must not be done: both think that the other is gone.
    world.is_split = true;
    recover_meta(&mut world, 0, 1 << 60);
    recover_meta(&mut world, 1, 1 << 63);
    world.boot(0);
    world.boot(1);
    world.run_until("one of them gives in", Duration::from_secs(60), |world| {
        let meta = |machine: usize| {
            world.machines[machine]
                .map
                .as_ref()
                .map(|map| map.meta.replicas.clone())
        };
        let agreed = meta(0).is_some() && meta(0) == meta(1);
        let gave_in = world.machines[0].notices.contains(&Notice::Fenced);
        agreed && gave_in
    });
    let leads = |machine: usize| world.machines[machine].meta.as_ref().is_some_and(Meta::leads);
    assert_eq!((leads(0), leads(1)), (false, true), "the larger epoch wins");
}

#[test]
fn a_node_that_is_silent_for_as_long_as_replacing_takes_is_fenced_and_its_return_is_another_start() {
    let mut world = World::cluster(33, 4);
    let leader = world.leader().expect("it is settled");
    let away = (0..4).find(|&machine| machine != leader).expect("there are four");
    let dead = world.machines[away].boot.expect("it is settled");
    let alive = |world: &World| world.state().is_some_and(|state| state.is_alive(dead));
    world.crash(away);
    world.run_for(Pace::default().replace_after / 2);
    assert!(alive(&world), "it may come back");
    world.run_until("it is fenced", Pace::default().replace_after, |world| {
        !alive(world)
    });
    world.boot(away);
    world.run_until("it has another start", Duration::from_secs(20), |world| {
        world.machines[away].boot.is_some()
    });
    let next = world.machines[away].boot.expect("it was waited for");
    assert!(next > dead);
    world.run_until("the others know", Duration::from_secs(5), |world| {
        world.state().is_some_and(|state| state.is_alive(next))
    });
}

#[test]
fn a_node_that_is_back_after_it_was_replaced_is_not_taken_for_absent_still() {
    for seed in 0..20 {
        let mut world = World::cluster(seed, 4);
        let leader = world.leader().expect("it is settled");
        let away = (0..4).find(|&machine| machine != leader).expect("there are four");
        let dead = world.machines[away].boot.expect("it is settled");
        world.crash(away);
        world.run_until("it is fenced", Pace::default().replace_after * 2, |world| {
            world.state().is_some_and(|state| !state.is_alive(dead))
        });
        world.machines[away].notices.clear();
        world.boot(away);
        world.run_until("it has another start", Duration::from_secs(20), |world| {
            world.machines[away].boot.is_some()
        });
        world.run_for(Duration::from_secs(3));
        let is_fenced = world.machines[away].notices.contains(&Notice::Fenced);
        assert!(!is_fenced, "seed {seed}: its start was declared dead");
        let boot = world.machines[away].boot.expect("it runs");
        assert!(
            world.state().is_some_and(|state| state.is_alive(boot)),
            "seed {seed}"
        );
    }
}

#[test]
fn rules_are_raised_when_the_last_node_can_follow_them_and_no_older_build_comes_in_after_that() {
    let (old, new) = (SemanticsVersion(1), SemanticsVersion(2));
    let mut world = World::new(34);
    world.newest = old;
    world.create(8);
    world.settle(1, 1);
    for _ in 1..3 {
        world.join(0);
    }
    world.settle(3, 3);
    let seen = |world: &World| -> Vec<SemanticsVersion> {
        let maps = world.machines.iter().filter_map(|machine| machine.map.as_ref());
        maps.map(|map| map.semantics).collect()
    };
    world.newest = new;
    for machine in [1, 2, 0] {
        assert_eq!(seen(&world), [old; 3], "a node is older yet");
        world.crash(machine);
        world.boot(machine);
        world.run_until("it has started", Duration::from_secs(20), |world| {
            world.machines[machine].boot.is_some()
        });
        world.settle(3, 3);
    }
    world.run_for(Duration::from_secs(300));
    assert_eq!(seen(&world), [old; 3], "somebody may go back");
    world.newest = old;
    world.crash(2);
    world.boot(2);
    world.settle(3, 3);
    world.run_for(Duration::from_secs(400));
    assert_eq!(seen(&world), [old; 3], "one has gone back");
    world.newest = new;
    world.crash(2);
    world.boot(2);
    world.settle(3, 3);
    world.run_for(Duration::from_secs(500));
    assert_eq!(seen(&world), [old; 3], "it has come again a while ago");
    let leader = world.leader().expect("somebody leads");
    world.crash(leader);
    world.run_for(Duration::from_secs(10));
    world.boot(leader);
    world.run_for(Duration::from_secs(400));
    assert_eq!(seen(&world), [old; 3], "another one leads, and counts from there");
    world.run_until("all follow the newer rules", Duration::from_secs(300), |world| {
        seen(world) == [new; 3]
    });
    world.newest = old;
    let late = world.join(0);
    let refused = Notice::StartRefused {
        refusal: MetaRefusal::Semantics,
    };
    world.run_until("an older build is refused", Duration::from_secs(20), |world| {
        world.machines[late].notices.contains(&refused)
    });
    world.crash(2);
    world.boot(2);
    world.run_until("so is one that goes back", Duration::from_secs(20), |world| {
        world.machines[2].notices.contains(&refused)
    });
    assert_eq!(world.state().expect("two of three lead").semantics(), new);
}

#[test]
fn an_operator_does_not_wait_for_newer_rules() {
    let (old, new) = (SemanticsVersion(1), SemanticsVersion(2));
    let mut world = World::cluster(35, 3);
    let raise = |world: &mut World, to| {
        let meta = world.machines[1].meta.as_mut().expect("it runs");
        let id = meta.propose(MetaCommand::RaiseSemantics { to });
        world.run_until("it is answered", Duration::from_secs(20), |world| {
            world.machines[1].outcomes.contains_key(&id)
        });
        world.machines[1].outcomes[&id].clone()
    };
    let semantics = |world: &World| world.state().expect("somebody leads").semantics();
    assert_eq!(semantics(&world), old);
    for _ in 0..2 {
        assert_eq!(raise(&mut world, new), Ok(MetaOutcome::Done));
        assert_eq!(semantics(&world), new);
    }
    let refused = Err(Failure::Refused(MetaRefusal::Semantics));
    assert_eq!(
        raise(&mut world, SemanticsVersion(SemanticsVersion::CURRENT.0 + 1)),
        refused,
        "nobody knows them"
    );
    assert_eq!(raise(&mut world, old), refused, "never back");
}

#[test]
fn a_leader_that_others_have_replaced_meanwhile_is_not_taken_for_forgotten() {
    let mut unaware = 0;
    for seed in 100..130 {
        let mut world = World::cluster(seed, 3);
        let former = world.leader().expect("it is settled");
        let node = world.machines[former].node;
        let known = world.machines[former].map.as_ref().map(|map| map.epoch);
        // They need not wait for long, since they see that the link is gone.
        world.cut_off.insert(former);
        world.on_links(node, false);
        world.run_until(
            "another one leads, and has changed the map",
            Duration::from_secs(20),
            |world| {
                let mut others = world
                    .machines
                    .iter()
                    .enumerate()
                    .filter(|(machine, _)| *machine != former);
                others.any(|(_, machine)| {
                    let leads = machine.meta.as_ref().is_some_and(Meta::leads);
                    leads && machine.map.as_ref().map(|map| map.epoch) > known
                })
            },
        );
        unaware += u32::from(world.machines[former].meta.as_ref().is_some_and(Meta::leads));
        world.cut_off.clear();
        world.on_links(node, true);
        world.run_for(Duration::from_secs(3));
        for machine in &world.machines {
            assert!(!machine.notices.contains(&Notice::Fenced), "seed {seed}");
        }
    }
    assert!(unaware > 0, "some do not know yet that they are replaced");
}

#[test]
fn a_start_that_is_declared_dead_learns_it() {
    let mut world = World::cluster(12, 3);
    let boot = world.machines[2].boot.unwrap();
    world.machines[0]
        .meta
        .as_mut()
        .unwrap()
        .propose(MetaCommand::Fence { boot });
    world.run_for(Duration::from_secs(3));
    assert!(world.machines[2].notices.contains(&Notice::Fenced));
}

#[test]
fn the_log_is_shortened_and_who_was_away_is_given_the_state() {
    let mut world = World::cluster(13, 3);
    let leader = world.leader().unwrap();
    let away = (leader + 1) % 3;
    world.crash(away);
    let mut last = 0;
    for number in 0..1_500 {
        last = world.machines[leader]
            .meta
            .as_mut()
            .unwrap()
            .propose(MetaCommand::Set {
                name: "a".into(),
                value: format!("{number}"),
            });
        while !world.machines[leader].outcomes.contains_key(&last) {
            world.step();
        }
    }
    let outcome = &world.machines[leader].outcomes[&last];
    assert!(matches!(outcome, Ok(MetaOutcome::Set { .. })), "{outcome:?}");
    assert!(
        world.machines[leader].disk.entries.len() < 1_200,
        "the log is kept short"
    );
    world.boot(away);
    world.settle(3, 3);
    assert_eq!(world.machines[away].settings["a"], "1499");
}

#[test]
fn whatever_is_lost_crashes_and_is_cut_off_the_end_is_the_target() {
    for seed in 0..5 {
        let mut world = World::new(1_000 + seed);
        world.create(6);
        world.settle(1, 1);
        world.loss = 20;
        for place in 1..5 {
            world.join(place - 1);
            world.run_for(Duration::from_millis(500));
        }
        world.run_until("all have joined", Duration::from_secs(120), |world| {
            world.machines.iter().all(|machine| machine.boot.is_some())
        });
        // Three replicas first: what is alone has nobody to lose its memory to.
        world.settle(3, 5);
        for round in 0..12 {
            let victim = world.prng.below(5) as usize;
            match world.prng.below(3) {
                0 => {
                    world.cut_off.insert(victim);
                    world.run_for(Duration::from_millis(500 + world.prng.clone().below(6_000)));
                    world.cut_off.clear();
                }
                _ => {
                    world.crash(victim);
                    world.run_for(Duration::from_millis(world.prng.clone().below(4_000)));
                    world.boot(victim);
                }
            }
            let name = format!("round-{round}");
            let asked = world.prng.below(5) as usize;
            let meta = world.machines[asked].meta.as_mut().unwrap();
            meta.propose(MetaCommand::Set {
                name,
                value: "set".into(),
            });
            world.settle(3, 5);
        }
        world.loss = 0;
        world.settle(3, 5);
        assert!(!world.state().unwrap().settings().is_empty());
    }
}

#[test]
fn a_node_whose_link_is_gone_is_neither_there_nor_gone_until_it_is_heard_or_missed() {
    let away_after = Pace::default().away_after;
    let mut world = World::cluster(77, 3);
    world.settle(3, 3);
    let leader = world.leader().expect("nobody dies");
    let other = (leader + 1) % 3;
    let node = world.machines[other].node.expect("it has joined");
    let silence = |world: &mut World| {
        let now = world.now;
        let observations = world.machines[leader]
            .meta
            .as_mut()
            .expect("the leader runs")
            .observations(now);
        observations.expect("it leads").silence.get(&node).copied()
    };
    assert!(silence(&mut world).is_some_and(|silent| silent < away_after));
    world.crash(other);
    assert_eq!(silence(&mut world), None);
    world.run_for(away_after);
    assert!(silence(&mut world).is_some_and(|silent| silent >= away_after));
    world.boot(other);
    world.settle(3, 3);
    assert!(silence(&mut world).is_some_and(|silent| silent < away_after));
}

#[test]
fn what_is_proposed_is_carried_out_once_however_often_it_is_sent() {
    for seed in 0..2 {
        let mut world = World::cluster(200 + seed, 4);
        world.loss = 30;
        let mut asked: Vec<(usize, u64)> = Vec::new();
        for round in 0..20 {
            for place in 0..4 {
                let meta = world.machines[place].meta.as_mut().unwrap();
                let (name, value) = ("a".into(), format!("{place} {round}"));
                asked.push((place, meta.propose(MetaCommand::Set { name, value })));
            }
            // One after the other: what waits for long is given up.
            world.run_for(Duration::from_secs(2));
            if round % 7 == 3 {
                world.cut_off.extend(world.leader());
                world.run_for(Duration::from_secs(3));
                world.cut_off.clear();
            }
        }
        let is_answered = |world: &World, (place, id): &(usize, u64)| {
            let outcome = world.machines[*place].outcomes.get(id);
            assert!(
                outcome.is_none_or(|outcome| matches!(outcome, Ok(MetaOutcome::Set { .. }))),
                "{outcome:?}"
            );
            outcome.is_some()
        };
        world.run_until("all are answered", Duration::from_secs(60), |world| {
            asked.iter().all(|asked| is_answered(world, asked))
        });
        world.loss = 0;
        world.settle(3, 3);
        assert_eq!(world.state().unwrap().settings_version(), 80);
    }
}

#[test]
fn a_quiet_cluster_says_little() {
    let mut world = World::cluster(14, 5);
    world.run_for(Duration::from_secs(5));
    let before = world.sent;
    world.run_for(Duration::from_secs(10));
    let each_second = (world.sent - before) / 10;
    // Heartbeats to four members, ten times, and their answers; node heartbeats and their answers; rarely more.
    assert!(each_second <= 100, "{each_second} messages a second");
}

#[test]
fn messages_of_any_bytes_are_read_or_refused() {
    let mut prng = Prng::new(5);
    let message = MetaMessage::Raft(consensus::RaftMessage {
        from: Incarnation(1),
        to: Incarnation(2),
        term: Term(3),
        body: consensus::MessageBody::Append {
            log_term: Term(2),
            index: Index(4),
            commit: Index(3),
            entries: vec![LogEntry {
                term: Term(3),
                index: Index(5),
                payload: Payload::Data(Bytes::from_static(b"entry")),
            }],
        },
    });
    let bytes = message.encode();
    assert_eq!(MetaMessage::decode(&bytes), Ok(message));
    for end in 0..bytes.len() {
        assert!(MetaMessage::decode(&bytes[..end]).is_err());
    }
    for _ in 0..20_000 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + prng.below(3) {
            let place = prng.below(damaged.len() as u64) as usize;
            damaged[place] = prng.next_u64() as u8;
        }
        if let Ok(message) = MetaMessage::decode(&damaged) {
            assert_eq!(message.encode(), damaged, "a message has one encoding");
        }
    }
}

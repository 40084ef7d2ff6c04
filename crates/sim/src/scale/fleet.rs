//! Nodes of which only the cluster's own state is there, with what carries their messages, and their stub groups.
//!
//! Stubs, and what they are taken for: a link has a delay of [`DELAY`], and a node sends [`LINE_BYTES_PER_SECOND`] at most, one message after the
//! other; a sync takes [`SYNC`]; a node fills its learners one after the other, each in [`FILL`], and has its groups give away what is to go
//! elsewhere one after the other, each in [`MOVE`]; a group whose leader is gone is led again as soon as its voters' promises are over, a little
//! later where their links did not break at once.

use super::founding::{Founded, announcement, token};
use super::stub_group::StubGroup;
use super::tally::{Purpose, Tally};
use crate::full_node::META_TIMES;
use bytes::Bytes;
use consensus::Times;
use control::{
    Contact, GroupMember, GroupRef, Instruction, MemberRole, Meta, MetaConfig, MetaEffects, MetaMessage,
    NodeMemory, Notice, Order, Pace, Record, Restored, RoutingMap, Standing, State,
};
use gateway::{Boots, Layout};
use ids::{Boot, Epoch, GroupId, Host, Incarnation, Monotonic, NodeId, PartitionId};
use peer_wire::{PeerMessage, Question};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// From one node to another.
const DELAY: Duration = Duration::from_micros(250);

/// A line of a gigabit.
const LINE_BYTES_PER_SECOND: u64 = 125_000_000;

/// Of a disk.
const SYNC: Duration = Duration::from_millis(2);

/// A replica of one mebibyte at 100 MB/s.
const FILL: Duration = Duration::from_millis(10);

/// A partition to another group: four entries after each other, of the copy, of what has changed since, of the vote and of the end, each of which
/// takes a round and a sync.
const MOVE: Duration = Duration::from_millis(12);

/// A partition that cannot move, because nobody leads one of its groups, is tried again.
const MOVE_AGAIN: Duration = Duration::from_millis(100);

/// Bytes of a fence in a log beside those that name who lives: its kind, the newest of all, and how many there are.
const FENCE_BYTES: u64 = 13;

/// And for each of those.
const BOOT_BYTES: u64 = 8;

/// Until the links to a machine that says nothing any more are taken for broken: production's time-out of sockets.
const BROKEN_AFTER: Duration = Duration::from_secs(10);

/// A node that is silent for so long is replaced: sooner than in production, so that a run need not wait.
pub(super) const REPLACE_AFTER: Duration = Duration::from_secs(15);

/// Messages of so many bytes are read once, and not by each that gets the same one.
const LARGE_BYTES: usize = 4_096;

/// Large messages that are remembered; the oldest is forgotten, and read again.
const READ_MAX: usize = 16;

/// Maps of which it is remembered whom they give new replicas; the oldest is forgotten, and looked through again.
const MAPS_MAX: usize = 64;

/// The first of new replicas by node: the group's number, and the replica.
type Beginners = BTreeMap<NodeId, Vec<(usize, Incarnation)>>;

/// What a map says that is looked at on many nodes.
struct Read {
    beginners: Beginners,
    boots: Arc<Boots>,
    alive: u64,
}

/// One node.
struct Member {
    /// None once its process has ended.
    meta: Option<Meta>,
    id: Option<NodeId>,
    epoch: Epoch,
    wake_at: Option<u64>,
    /// Until then its line is taken.
    line_free_at: u64,
    /// Until then it fills others.
    fill_free_at: u64,
    /// Until then partitions go from its groups to others.
    move_free_at: u64,
    map: Option<Arc<RoutingMap>>,
    /// Who lived by the map, as its groups were told.
    boots: Option<Arc<Boots>>,
}

/// What happens to whom.
enum Event {
    Wake(usize),
    Arrive {
        to: usize,
        from: Contact,
        letter: Arc<Letter>,
    },
    Persisted {
        place: usize,
        number: u64,
    },
    Filled {
        group: usize,
        incarnation: Incarnation,
    },
    Moved(PartitionId),
    Elect(usize),
    /// The others find that the links to this one are broken.
    Broken(usize),
}

/// A message as bytes, and read if it is a large one.
struct Letter {
    bytes: Vec<u8>,
    read: Option<MetaMessage>,
}

impl Letter {
    fn read(&self) -> MetaMessage {
        let read = self.read.clone();
        read.unwrap_or_else(|| MetaMessage::decode(&self.bytes).expect("a node has encoded it"))
    }
}

/// An event with its time and its place among those of the same time.
struct Due(u64, u64, Event);

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// See the file's header.
pub(super) struct Fleet {
    now: u64,
    queue: BinaryHeap<Reverse<Due>>,
    events: u64,
    members: Vec<Member>,
    places: BTreeMap<NodeId, usize>,
    groups: Vec<StubGroup>,
    /// Those that were added, and that nobody leads yet.
    unborn: BTreeSet<usize>,
    /// Which group hosts a partition, and those that are on their way.
    hosts: Vec<Host>,
    moving: BTreeMap<PartitionId, GroupId>,
    /// How many groups each node leads.
    led: BTreeMap<NodeId, usize>,
    /// Replicas that their nodes have given room, and those whose turn to be filled has been set.
    begun: BTreeSet<Incarnation>,
    filling: BTreeSet<Incarnation>,
    /// Groups whose leaders have something to say, and those who lead them no more.
    untold: BTreeSet<usize>,
    deposed: BTreeSet<(NodeId, usize)>,
    read: VecDeque<Arc<Letter>>,
    maps: BTreeMap<Epoch, Arc<Read>>,
    /// How many of those that run know which version of the map, and when each version came to be that not all know.
    known: BTreeMap<Epoch, usize>,
    made: BTreeMap<Epoch, u64>,
    /// When a map was last news to anybody.
    pub(super) last_map_at: u64,
    /// When the first version of the map was made in this step.
    pub(super) first_map_at: Option<u64>,
    pub(super) tally: Tally,
}

impl Fleet {
    /// Starts the nodes of a cluster that is there.
    pub(super) fn start(founded: Founded) -> Fleet {
        let Founded { state, groups } = founded;
        let hosts = state.key_groups().expect("there is a cluster");
        let host = |partition| Host {
            group: hosts.host_of(partition),
            moves: hosts.moves_of(partition),
        };
        let partitions = 0..hosts.partitions().get();
        let mut fleet = Fleet {
            now: 1_000_000_000,
            queue: BinaryHeap::new(),
            events: 0,
            members: Vec::new(),
            places: BTreeMap::new(),
            unborn: BTreeSet::new(),
            hosts: partitions
                .map(|partition| host(PartitionId::new(partition)))
                .collect(),
            moving: BTreeMap::new(),
            led: BTreeMap::new(),
            begun: BTreeSet::new(),
            filling: BTreeSet::new(),
            untold: (0..groups.len()).collect(),
            deposed: BTreeSet::new(),
            read: VecDeque::new(),
            maps: BTreeMap::new(),
            known: BTreeMap::new(),
            made: BTreeMap::new(),
            last_map_at: 0,
            first_map_at: None,
            tally: Tally::default(),
            groups,
        };
        for group in &fleet.groups {
            *fleet
                .led
                .entry(group.leader.expect("it was settled"))
                .or_default() += 1;
        }
        let nodes: Vec<NodeId> = state.nodes().keys().copied().collect();
        for (place, &id) in nodes.iter().enumerate() {
            fleet.restore(place, id, &state);
        }
        for place in 0..nodes.len() {
            for &other in nodes.iter().filter(|other| **other != nodes[place]) {
                fleet.touch(place, |meta, now| meta.on_link(Contact::Node(other), true, now));
            }
        }
        fleet
    }

    fn config(&self, place: usize, id: Option<NodeId>) -> MetaConfig {
        MetaConfig {
            node: id,
            announcement: announcement(place),
            token: token(place),
            times: META_TIMES,
            pace: Pace {
                replace_after: REPLACE_AFTER,
                ..Pace::default()
            },
            seed: place as u64,
        }
    }

    fn restore(&mut self, place: usize, id: NodeId, state: &State) {
        let replicas = || {
            state
                .groups()
                .iter()
                .filter_map(|(&name, group)| Some((name, group.member_on(id)?.incarnation)))
        };
        let seat = replicas().find(|(name, _)| *name == GroupRef::Meta);
        let restored = seat.and_then(|(_, me)| Restored::of_state(state, me));
        let kept = replicas().filter(|(name, _)| *name != GroupRef::Meta).collect();
        let meta = Meta::restore(
            self.config(place, Some(id)),
            restored,
            state.groups()[&GroupRef::Meta]
                .members
                .iter()
                .map(|member| member.node)
                .collect(),
            Vec::new(),
            kept,
            Vec::new(),
            Monotonic(self.now),
        );
        self.add(meta, Some(id));
    }

    fn add(&mut self, meta: Meta, id: Option<NodeId>) {
        let place = self.members.len();
        self.members.push(Member {
            meta: Some(meta),
            id,
            epoch: Epoch(0),
            wake_at: None,
            line_free_at: 0,
            fill_free_at: 0,
            move_free_at: 0,
            map: None,
            boots: None,
        });
        *self.known.entry(Epoch(0)).or_default() += 1;
        if let Some(id) = id {
            self.places.insert(id, place);
        }
        let memory = NodeMemory {
            used: 1 << 30,
            most: 64 << 30,
        };
        self.touch(place, |meta, _| meta.on_memory(memory));
    }

    // ---- what an operator does, and what happens to machines

    /// One more node joins, by way of the first that runs.
    pub(super) fn join(&mut self) {
        let place = self.members.len();
        let meta = Meta::join(self.config(place, None), Monotonic(self.now));
        self.add(meta, None);
        self.touch(place, |meta, now| meta.on_link(Contact::Introducer, true, now));
    }

    /// Proposes something at the first node that runs.
    pub(super) fn propose(&mut self, command: control::MetaCommand) {
        let place = self.introducer();
        self.touch(place, |meta, _| {
            meta.propose(command);
        });
    }

    /// The processes on these nodes end. Where they alone do, the systems say so to the others; where machines are lost, nobody does.
    pub(super) fn end(&mut self, nodes: &[NodeId], is_machine: bool) {
        let times = Times::DEFAULT;
        for node in nodes {
            let Some(&place) = self.places.get(node) else {
                continue;
            };
            self.members[place].meta = None;
            self.forget_epoch(self.members[place].epoch);
            let broken = if is_machine { BROKEN_AFTER } else { DELAY };
            self.put(broken, Event::Broken(place));
        }
        let spread = times.election_max - times.election_min;
        for group in 0..self.groups.len() {
            let leader = self.groups[group].leader;
            if leader.is_some_and(|leader| nodes.contains(&leader)) {
                // Evenly, in place of at random.
                let share = spread * (group % 16) as u32 / 16;
                let after = times.election_min + if is_machine { share } else { DELAY * 4 };
                self.put(after, Event::Elect(group));
            }
        }
    }

    // ---- what is known

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn runs(&self, node: NodeId) -> bool {
        let place = self.places.get(&node);
        place.is_some_and(|&place| self.members[place].meta.is_some())
    }

    /// The nodes that run.
    pub(super) fn running(&self) -> impl Iterator<Item = NodeId> {
        let members = self.members.iter();
        members
            .filter(|member| member.meta.is_some())
            .filter_map(|member| member.id)
    }

    /// Who leads the meta group, and its state.
    pub(super) fn leader(&self) -> Option<(NodeId, &State)> {
        let mut members = self.members.iter();
        members.find_map(|member| {
            let meta = member.meta.as_ref().filter(|meta| meta.leads())?;
            Some((member.id?, meta.state()?))
        })
    }

    /// Whether all that run know this version of the map.
    pub(super) fn all_know(&self, epoch: Epoch) -> bool {
        self.known.keys().next() == Some(&epoch) && self.known.len() == 1
    }

    /// How many partitions are still to go to groups that host fewer.
    pub(super) fn partitions_left(&self) -> usize {
        let mut hosted = vec![0_usize; self.groups.len()];
        for host in &self.hosts {
            hosted[host.group.index()] += 1;
        }
        let share = self.hosts.len() / hosted.len();
        let missing = hosted.iter().map(|count| share.saturating_sub(*count));
        missing.sum()
    }

    fn introducer(&self) -> usize {
        let mut members = self.members.iter();
        let place = members.position(|member| member.meta.is_some() && member.id.is_some());
        place.expect("some node runs")
    }

    // ---- time

    fn put(&mut self, after: Duration, event: Event) {
        self.put_at(self.now + after.as_nanos() as u64, event);
    }

    fn put_at(&mut self, at: u64, event: Event) {
        self.events += 1;
        self.queue.push(Reverse(Due(at, self.events, event)));
    }

    /// Lets this much time pass.
    pub(super) fn run(&mut self, time: Duration) {
        let end = self.now + time.as_nanos() as u64;
        while let Some(Reverse(Due(at, ..))) = self.queue.peek()
            && *at <= end
        {
            let Some(Reverse(Due(at, _, event))) = self.queue.pop() else {
                break;
            };
            self.now = at;
            self.happen(event);
            self.tell();
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake(place) => {
                if self.members[place].wake_at == Some(self.now) {
                    self.members[place].wake_at = None;
                    self.touch(place, Meta::tick);
                }
            }
            Event::Arrive { to, from, letter } => {
                self.touch(to, |meta, now| meta.on_message(from, letter.read(), now));
            }
            Event::Persisted { place, number } => {
                self.touch(place, |meta, now| meta.on_persisted(number, now));
            }
            Event::Filled { group, incarnation } => {
                let stub = &mut self.groups[group];
                self.filling.remove(&incarnation);
                let mut members = stub.members.iter();
                if members.any(|member| member.incarnation == incarnation) {
                    stub.filled.insert(incarnation);
                    self.tally.filled += 1;
                    self.untold.insert(group);
                }
            }
            Event::Moved(partition) => self.on_moved(partition),
            Event::Elect(group) => self.elect(group),
            Event::Broken(place) => {
                let Some(id) = self.members[place].id else { return };
                for other in 0..self.members.len() {
                    self.touch(other, |meta, now| meta.on_link(Contact::Node(id), false, now));
                }
            }
        }
    }

    fn elect(&mut self, group: usize) {
        let before = self.groups[group].leader;
        let mut stub = self.groups[group].clone();
        stub.elect(
            |node| self.runs(node),
            |node| self.led.get(&node).copied().unwrap_or(0),
        );
        self.groups[group] = stub;
        self.lead(group, before);
    }

    /// A group is led by another one than before, perhaps.
    fn lead(&mut self, group: usize, before: Option<NodeId>) {
        let now = self.groups[group].leader;
        if before != now {
            for (node, is_new) in [(before, false), (now, true)] {
                let Some(node) = node else { continue };
                let count = self.led.entry(node).or_default();
                *count = if is_new { *count + 1 } else { *count - 1 };
            }
            self.deposed.extend(before.map(|before| (before, group)));
            if let Some(&place) = now.and_then(|now| self.places.get(&now)) {
                self.fence(place, group);
                self.move_wanted(place);
            }
        }
        self.untold.insert(group);
    }

    // ---- nodes

    /// Does something to a node, and carries out what comes of it.
    fn touch(&mut self, place: usize, act: impl FnOnce(&mut Meta, Monotonic)) {
        let now = Monotonic(self.now);
        let Some(meta) = self.members[place].meta.as_mut() else {
            return;
        };
        let (led, looks) = (meta.leads(), meta.looks());
        let began = Instant::now();
        act(meta, now);
        let mut all = Vec::new();
        loop {
            let effects = meta.take_effects(now);
            if effects == MetaEffects::default() {
                break;
            }
            let messages: Vec<(Contact, Vec<u8>)> = effects
                .messages
                .iter()
                .map(|(to, message)| (*to, message.encode()))
                .collect();
            all.push((effects, messages));
        }
        let took = began.elapsed();
        let leads = meta.leads() || led;
        if leads {
            let has_looked = meta.looks().is_some() && meta.looks() != looks;
            let tally = &mut self.tally.led;
            tally.cpu += took;
            tally.messages += 1;
            tally.looks += u64::from(has_looked);
            if has_looked {
                tally.longest_look = tally.longest_look.max(took);
            }
        }
        let timer = meta.next_timer();
        for (effects, messages) in all {
            self.carry_out(place, leads, effects, messages);
        }
        if let Some(timer) = timer {
            let at = timer.0.max(self.now + 1);
            if self.members[place]
                .wake_at
                .is_none_or(|known| at < known || known <= self.now)
            {
                self.members[place].wake_at = Some(at);
                self.put_at(at, Event::Wake(place));
            }
        }
    }

    fn carry_out(
        &mut self,
        place: usize,
        leads: bool,
        effects: MetaEffects,
        messages: Vec<(Contact, Vec<u8>)>,
    ) {
        for ((_, message), (to, bytes)) in effects.messages.into_iter().zip(messages) {
            self.tally.led.messages += u64::from(leads);
            self.send(place, to, message, bytes);
        }
        if leads {
            let entries = effects.persist.iter().map(|write| match &write.record {
                Record::Append { entries, .. } => entries.len() as u64,
                Record::Begin { .. } | Record::Snapshot { .. } | Record::End => 0,
            });
            self.tally.led.entries += entries.sum::<u64>();
        }
        if let Some(write) = effects.persist.last() {
            let number = write.number;
            self.put(SYNC, Event::Persisted { place, number });
        }
        if let Some(started) = effects.started
            && self.members[place].id.is_none()
        {
            self.introduce(place, started.node);
        }
        if let Some(map) = effects.map {
            self.on_map(place, &map);
        }
        for instruction in effects.orders {
            self.obey(place, &instruction);
        }
        for notice in effects.notices {
            let is_usual = matches!(
                notice,
                Notice::Leads { .. }
                    | Notice::Follows { .. }
                    | Notice::Leaderless
                    | Notice::Left
                    | Notice::Removed
            );
            assert!(is_usual, "a node that does nothing wrong is told {notice:?}");
        }
        for (_, outcome) in effects.outcomes {
            assert!(outcome.is_ok(), "what was wanted is {outcome:?}");
        }
    }

    /// A node that joins has its number: it and the others reach each other.
    fn introduce(&mut self, place: usize, id: NodeId) {
        self.members[place].id = Some(id);
        let others: Vec<(NodeId, usize)> = self.places.iter().map(|(&node, &place)| (node, place)).collect();
        self.places.insert(id, place);
        for (node, other) in others {
            if self.members[other].meta.is_some() {
                self.touch(place, |meta, now| meta.on_link(Contact::Node(node), true, now));
                self.touch(other, |meta, now| meta.on_link(Contact::Node(id), true, now));
            }
        }
    }

    fn send(&mut self, place: usize, to: Contact, message: MetaMessage, bytes: Vec<u8>) {
        let to = match to {
            Contact::Node(node) => self.places.get(&node).copied(),
            Contact::Introducer => Some(self.introducer()),
            Contact::Newcomer(place) => Some(place as usize),
        };
        let from = match self.members[place].id {
            Some(node) => Contact::Node(node),
            None => Contact::Newcomer(place as u64),
        };
        let purpose = Purpose::of(&message);
        let letter = self.letter(message, bytes);
        let framed = PeerMessage::MetaRequest(Question {
            id: 0,
            bytes: Bytes::copy_from_slice(&letter.bytes),
        });
        let pieces = framed.pieces().expect("no message is so long");
        let length: usize = pieces.iter().map(Bytes::len).sum();
        self.tally.count(purpose, length);
        let member = &mut self.members[place];
        let time = length as u64 * 1_000_000_000 / LINE_BYTES_PER_SECOND;
        member.line_free_at = member.line_free_at.max(self.now) + time;
        let at = member.line_free_at + DELAY.as_nanos() as u64;
        if let Some(to) = to {
            self.put_at(at, Event::Arrive { to, from, letter });
        }
    }

    fn letter(&mut self, message: MetaMessage, bytes: Vec<u8>) -> Arc<Letter> {
        if bytes.len() < LARGE_BYTES {
            return Arc::new(Letter { bytes, read: None });
        }
        let mut known = self.read.iter();
        if let Some(known) = known.find(|known| known.bytes == bytes) {
            return Arc::clone(known);
        }
        let read = MetaMessage::decode(&bytes).expect("a node has encoded it");
        assert!(read == message, "what is read is what was said");
        let letter = Arc::new(Letter {
            bytes,
            read: Some(read),
        });
        if self.read.len() == READ_MAX {
            self.read.pop_front();
        }
        self.read.push_back(Arc::clone(&letter));
        letter
    }

    fn forget_epoch(&mut self, epoch: Epoch) {
        if let Some(count) = self.known.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                self.known.remove(&epoch);
            }
        }
        self.look_what_all_know();
    }

    fn look_what_all_know(&mut self) {
        let Some(&oldest) = self.known.keys().next() else {
            return;
        };
        while let Some((&epoch, &made)) = self.made.first_key_value()
            && epoch <= oldest
        {
            let after = Duration::from_nanos(self.now - made);
            self.tally.known_after = self.tally.known_after.max(after);
            self.made.remove(&epoch);
        }
    }

    fn on_map(&mut self, place: usize, map: &Arc<RoutingMap>) {
        self.last_map_at = self.now;
        let is_newest = self
            .known
            .keys()
            .next_back()
            .is_none_or(|newest| map.epoch > *newest);
        if is_newest {
            self.tally.epochs += 1;
            self.first_map_at.get_or_insert(self.now);
            self.made.insert(map.epoch, self.now);
        }
        *self.known.entry(map.epoch).or_default() += 1;
        let before = std::mem::replace(&mut self.members[place].epoch, map.epoch);
        self.forget_epoch(before);
        let Some(id) = self.members[place].id else { return };
        if before == Epoch(0) {
            let led = self.groups.iter().enumerate();
            let led = led
                .filter(|(_, group)| group.leader == Some(id))
                .map(|(number, _)| number);
            self.untold.extend(led);
        }
        let read = Arc::clone(self.read_of(map));
        self.members[place].map = Some(Arc::clone(map));
        if place == self.introducer() {
            let boot = map.nodes[&id].boot;
            let began = Instant::now();
            let layout = Layout::of(map, id, boot);
            self.tally.layouts_cpu += began.elapsed();
            self.tally.layouts += 1;
            drop(layout);
        }
        self.be_born(id, map);
        for &(group, incarnation) in read.beginners.get(&id).into_iter().flatten() {
            if self.begun.insert(incarnation) {
                self.fill(group, incarnation);
            }
        }
        let told = self.members[place].boots.replace(Arc::clone(&read.boots));
        let has_died = |told: &Arc<Boots>| !Arc::ptr_eq(told, &read.boots) && read.boots.has_died_since(told);
        if told.as_ref().is_some_and(has_died) {
            let led = (0..self.groups.len()).filter(|group| self.groups[*group].leader == Some(id));
            for group in led.collect::<Vec<usize>>() {
                self.fence(place, group);
            }
        }
        self.move_wanted(place);
    }

    /// Groups that were added begin on this node, which leads them.
    fn be_born(&mut self, id: NodeId, map: &RoutingMap) {
        for (number, route) in map.groups.iter().enumerate().skip(self.groups.len()) {
            let first = route.replicas.first().expect("it begins with a replica");
            let voter = GroupMember {
                incarnation: first.incarnation,
                node: first.node,
                role: MemberRole::Voter,
            };
            let name = GroupRef::Data(GroupId::new(number as u16));
            self.groups.push(StubGroup::unborn(name, voter));
            self.unborn.insert(number);
            self.tally.added += 1;
        }
        let its = |group: &usize| self.groups[*group].members[0].node == id && *group < map.groups.len();
        let born: Vec<usize> = self.unborn.iter().copied().filter(its).collect();
        for group in born {
            self.unborn.remove(&group);
            self.groups[group].leader = Some(id);
            self.lead(group, None);
        }
    }

    fn read_of(&mut self, map: &RoutingMap) -> &Arc<Read> {
        while self.maps.len() >= MAPS_MAX && !self.maps.contains_key(&map.epoch) {
            self.maps.pop_first();
        }
        self.maps.entry(map.epoch).or_insert_with(|| {
            let newest = map.nodes.values().map(|site| site.boot).max();
            let alive = map.nodes.values().filter(|site| !site.is_fenced);
            let alive: Vec<Boot> = alive.map(|site| site.boot).collect();
            let mut all = Beginners::new();
            for (group, route) in map.groups.iter().enumerate() {
                for stop in route
                    .replicas
                    .iter()
                    .filter(|stop| stop.standing != Standing::Voter)
                {
                    all.entry(stop.node).or_default().push((group, stop.incarnation));
                }
            }
            Arc::new(Read {
                beginners: all,
                alive: alive.len() as u64,
                boots: Arc::new(Boots::new(newest.expect("there are nodes"), alive)),
            })
        })
    }

    // ---- groups

    /// Sets a learner's turn, once its group has taken it in and its node has given it room.
    fn fill(&mut self, group: usize, incarnation: Incarnation) {
        let stub = &self.groups[group];
        let mut members = stub.members.iter();
        let Some(learner) = members.find(|member| member.incarnation == incarnation) else {
            return;
        };
        let is_due = learner.role == MemberRole::Learner
            && self.begun.contains(&incarnation)
            && !stub.filled.contains(&incarnation);
        let Some(&place) = self.places.get(&learner.node).filter(|_| is_due) else {
            return;
        };
        if self.filling.insert(incarnation) {
            let member = &mut self.members[place];
            member.fill_free_at = member.fill_free_at.max(self.now) + FILL.as_nanos() as u64;
            let at = member.fill_free_at;
            self.put_at(at, Event::Filled { group, incarnation });
        }
    }

    /// The log of a group that is led from here says who lives, on all its replicas.
    fn fence(&mut self, place: usize, group: usize) {
        let Some(map) = self.members[place].map.clone() else {
            return;
        };
        let bytes = FENCE_BYTES + BOOT_BYTES * self.read_of(&map).alive;
        let replicas = self.groups[group].members.len() as u64;
        self.tally.fences.messages += replicas;
        self.tally.fences.bytes += bytes * replicas;
    }

    /// What is to go from groups that are led by this node sets out, one after the other.
    fn move_wanted(&mut self, place: usize) {
        let (Some(map), Some(id)) = (self.members[place].map.clone(), self.members[place].id) else {
            return;
        };
        for (&partition, &to) in &map.growth.wishes {
            let from = self.hosts[usize::from(partition.number())].group;
            let is_led = self.groups[from.index()].leader == Some(id);
            if from == to || !is_led || self.moving.contains_key(&partition) {
                continue;
            }
            self.moving.insert(partition, to);
            let member = &mut self.members[place];
            member.move_free_at = member.move_free_at.max(self.now) + MOVE.as_nanos() as u64;
            let at = member.move_free_at;
            self.put_at(at, Event::Moved(partition));
        }
    }

    fn on_moved(&mut self, partition: PartitionId) {
        let Host { group: from, moves } = self.hosts[usize::from(partition.number())];
        let to = self.moving[&partition];
        let is_led = |group: GroupId| {
            let leader = self.groups[group.index()].leader;
            leader.is_some_and(|leader| self.runs(leader))
        };
        if !is_led(from) || !is_led(to) {
            self.put(MOVE_AGAIN, Event::Moved(partition));
            return;
        }
        self.moving.remove(&partition);
        let host = Host {
            group: to,
            moves: moves + 1,
        };
        self.hosts[usize::from(partition.number())] = host;
        self.groups[from.index()].hosted.remove(&partition);
        self.groups[to.index()].hosted.insert(partition, host.moves);
        self.tally.partitions += 1;
        self.untold.extend([from.index(), to.index()]);
    }

    fn obey(&mut self, place: usize, instruction: &Instruction) {
        let GroupRef::Data(group) = instruction.group else {
            return;
        };
        let group = group.index();
        let leader = self.groups[group].leader;
        if leader != self.members[place].id {
            return;
        }
        let made_for = (instruction.generation, instruction.index);
        self.groups[group].obey(made_for, &instruction.order);
        self.lead(group, leader);
        if let Order::AddLearner { incarnation, .. } = instruction.order {
            self.fill(group, incarnation);
        }
    }

    /// Leaders say of their groups what is news.
    fn tell(&mut self) {
        while !self.untold.is_empty() || !self.deposed.is_empty() {
            let mut lost: BTreeMap<NodeId, Vec<GroupRef>> = BTreeMap::new();
            for (node, group) in std::mem::take(&mut self.deposed) {
                lost.entry(node).or_default().push(self.groups[group].name);
            }
            for (node, names) in lost {
                let place = self.places[&node];
                self.touch(place, |meta, _| meta.on_lead_lost(&names));
            }
            let mut said: BTreeMap<NodeId, Vec<control::GroupReport>> = BTreeMap::new();
            for group in std::mem::take(&mut self.untold) {
                if let Some(report) = self.groups[group].report() {
                    said.entry(report.report.leader).or_default().push(report);
                }
            }
            for (node, reports) in said {
                let place = self.places[&node];
                self.touch(place, |meta, now| meta.on_group_reports(reports, now));
            }
        }
    }
}

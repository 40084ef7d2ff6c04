//! What the checks of full nodes remember.
//!
//! Invariants of a cluster, checked after every step:
//! 1. A group has one leader in a term.
//! 2. Replicas that applied the same entries have the same state.
//! 3. No two replicas of a group have a lease at the same moment.
//! 4. A replica is on one node for ever, and neither its term nor what it has applied goes back, whatever its node does.
//! 5. A gateway never goes back to an earlier version of the cluster, and of one version there is one map.
//! 6. No process is refused what it may expect: to start, to read its own log, to apply what was committed.
//! 7. The client of a transaction is told of it by its deadline, however often it begins again.
//! 8. A worker keeps of the transactions that it coordinates what fits together.
//! 9. A member of the meta group remembers its term and whom it voted for, whatever becomes of its process, and of the power.
//! 10. A group that begins anew has all that a majority of its last members had synced (`synced.rs`).
//! 11. A node that was told to go, or is no member, votes in no group.
//! 12. A group of three voters or more does not come to have fewer by letting one go that has its memory.
//! 13. A replica that comes back under its name has what it had acknowledged, or knows up to where it had.

use super::coded::are_made_up_of;
use super::synced::SyncedPlaces;
use super::{FullNode, Holding};
use crate::node::Shape;
use consensus::{HardState, Members};
use control::{Factor, GroupRef, NodeGoal, RoutingMap, State};
use gateway::{
    Gateway, GroupPlacement, NodeHealth, NodeIndex, NodeName, ReplicaView, Topology, TopologyNode,
};
use ids::{Boot, Epoch, GroupId, Incarnation, Monotonic, NodeId, UnixMillis};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Of a group, how many transactions that hold locks a message names.
const LOCKS_MAX: usize = 8;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Checks {
    shape: Shape,
    /// By group, generation and term.
    leaders: BTreeMap<(u16, u64, u64), Incarnation>,
    /// By group, generation and place in the log.
    states: BTreeMap<(u16, u64, u64), u64>,
    /// By group: where the replica is, its last term, the last entry that it applied, and in which start of its node.
    replicas: BTreeMap<(u16, Incarnation), (usize, u64, u64, Boot)>,
    /// By group, how far the replica has kept its log, as it told others: term and place of the last entry.
    told: BTreeMap<(u16, Incarnation), (u64, u64)>,
    /// By member of the meta group, what it had promised when it was last seen.
    promises: BTreeMap<Incarnation, HardState>,
    /// By boot and worker.
    epochs: BTreeMap<(Boot, u16), Epoch>,
    maps: BTreeMap<Epoch, Arc<RoutingMap>>,
    /// By boot and worker: when a transaction that has a deadline was first seen, by its number and its worker's clock.
    transactions: BTreeMap<(Boot, u16), BTreeMap<u64, Monotonic>>,
    /// By group: the newest members that a replica has had, with its generation and their place in the log.
    newest: BTreeMap<u16, (u64, u64, Members)>,
    synced: SyncedPlaces,
}

/// How many replicas a group is to have.
pub(crate) fn factor(shape: &Shape) -> Factor {
    match shape.replicas {
        5.. => Factor::Five,
        _ => Factor::Auto,
    }
}

impl Checks {
    pub(crate) fn new(shape: &Shape) -> Checks {
        Checks {
            shape: shape.clone(),
            ..Checks::default()
        }
    }

    /// Whether every process that has begun is a member, and every group has as many voters as so many nodes can bear.
    pub(crate) fn is_formed(&self, running: &[Option<&FullNode>]) -> bool {
        let all: Vec<&FullNode> = running.iter().flatten().copied().collect();
        let nodes = all.len();
        let wanted = match factor(&self.shape) {
            Factor::Five => nodes.min(5),
            _ if nodes >= 3 => 3,
            _ => 1,
        };
        let is_led = |group: u16| {
            all.iter()
                .flat_map(|node| node.replica_views())
                .any(|replica_view| {
                    let is_whole = |members: &Members| {
                        members.voters.len() == wanted && members.learners.is_empty() && !members.is_joint()
                    };
                    let leads = |replica_view: &ReplicaView<'_>| match replica_view.member() {
                        Some(member) => member.leads() && is_whole(member.members()),
                        None => nodes == 1,
                    };
                    replica_view.group.number() == group && leads(&replica_view)
                })
        };
        nodes > 0 && all.iter().all(|node| node.serving().is_some()) && self.known_groups(&all).all(is_led)
    }

    /// The groups that the cluster was founded with, and those that some node knows of.
    fn known_groups(&self, all: &[&FullNode]) -> impl Iterator<Item = u16> + use<> {
        let known = all
            .iter()
            .filter_map(|node| node.map.as_ref().map(|map| map.groups.len()));
        0..known.max().map_or(0, |known| known as u16).max(self.shape.groups)
    }

    /// Whether every group, that of the cluster's own state too, can go on with these replicas alone. Those that are missing
    /// come back with nothing, or never.
    ///
    /// A group that grows promises nothing before it has three voters. From the moment that its leader has them it loses
    /// nothing if one of the members dies, although nobody but the leader may know; but it stands still until the dead one
    /// comes back and says that it has nothing.
    pub(crate) fn survives(&self, holdings: &[Holding], is_for_ever: bool) -> bool {
        let added = self
            .newest
            .keys()
            .copied()
            .filter(|group| *group >= self.shape.groups);
        let groups = (0..self.shape.groups).chain(added);
        let groups = groups.map(|group| GroupRef::Data(ids::GroupId::new(group)));
        groups.chain([GroupRef::Meta]).all(|group| {
            let here = || holdings.iter().filter(|holding| holding.group == group);
            if !are_made_up_of(&here().collect::<Vec<_>>()) {
                return false;
            }
            let held: BTreeSet<Incarnation> = here().map(|holding| holding.incarnation).collect();
            let is_majority = |voters: &[Incarnation]| {
                let there = voters.iter().filter(|voter| held.contains(voter)).count();
                voters.is_empty() || there > voters.len() / 2
            };
            let are_grown = |voters: &[Incarnation]| voters.is_empty() || voters.len() >= 3;
            let is_grown = |members: &Members| are_grown(&members.voters) && are_grown(&members.outgoing);
            let newest = match group {
                GroupRef::Data(group) => self.newest.get(&group.number()),
                GroupRef::Meta => None,
            };
            let newest = newest.map(|(_, _, members)| members);
            let has_grown = newest.is_some_and(is_grown);
            // Of more than three one may be on its way out that is there.
            let going = usize::from(here().any(|holding| holding.has_change_ahead));
            let can_go_on = |members: &Members| {
                let missing = members.all().iter().filter(|one| !held.contains(one)).count();
                let is_overtaken = has_grown && Some(members) != newest;
                // A change may be under way of which nobody has heard: learners vote then, and as many voters do not.
                let going = if members.voters.len() > 3 { going } else { 0 };
                let can_bear = members.voters.is_empty() || 2 * missing + going < members.voters.len();
                (is_grown(members) || missing == 0)
                    && is_majority(&members.voters)
                    && is_majority(&members.outgoing)
                    && can_bear
                    || !is_grown(members) && is_overtaken && missing <= 1 && !is_for_ever
            };
            // A learner that has nothing knows of nobody.
            let known = |members: &&Members| !members.voters.is_empty();
            let members = || here().filter_map(|holding| holding.members.as_ref());
            let views = || members().filter(known);
            // The leader alone may know that a group of three is on its way to fewer, of which none can be spared.
            let is_shrinking = newest.is_some_and(|members| {
                members.voters.len() < 3
                    && (members.outgoing.len() >= 3 || views().any(|view| view.voters.len() >= 3))
            });
            // Who starts again with its log has not applied all of it yet, and shows members of before.
            let newest = newest.filter(|_| has_grown || is_shrinking || self.shape.may_write());
            views().next().is_some() && views().chain(newest).all(can_go_on)
        })
    }

    pub(crate) fn check(
        &mut self,
        running: &[Option<&FullNode>],
        stepped: NodeId,
        clocks: &dyn Fn(NodeId) -> Monotonic,
    ) -> Result<(), String> {
        let machine = stepped.0 as usize;
        let Some(node) = running[machine] else {
            return Ok(());
        };
        if let Some(refused) = &node.refused {
            return Err(format!("node {machine}: {refused}"));
        }
        if let Some(map) = &node.map {
            self.check_map(map)?;
            if self.shape.loses_power {
                let newest = |group: u16| {
                    let newest = self.newest.get(&group)?;
                    Some((newest.0, newest.2.clone()))
                };
                self.synced.check(map, running, newest)?;
            }
        }
        if self.shape.loses_power {
            self.synced.note(node);
        }
        node.meta
            .check()
            .map_err(|what| format!("node {machine}, the meta group: {what}"))?;
        if let Some(state) = node.meta.state() {
            let checked = state.check_permits();
            checked
                .map_err(|what| format!("node {machine}: there should be {what}: {:?}", state.permits()))?;
        }
        // What could not be written was promised to nobody.
        if !node.has_failed {
            self.check_promises(machine, node)?;
        }
        let Some(serving) = node.serving() else {
            return Ok(());
        };
        for worker in &serving.workers {
            let coordinator = worker.gateway.check();
            let checked = coordinator.and_then(|()| worker.gateway.check_replicas());
            checked.map_err(|what| format!("node {machine}, worker {}: {what}", worker.number))?;
            if let Some(disk) = &worker.disk {
                let checked = disk.check();
                checked.map_err(|what| {
                    format!("node {machine}, the disk of worker {}: {what}", worker.number)
                })?;
            }
            self.check_deadlines(machine, (serving.boot, worker.number), &worker.gateway)?;
            let Some(epoch) = worker.gateway.epoch() else {
                continue;
            };
            let known = self.epochs.insert((serving.boot, worker.number), epoch);
            if known.is_some_and(|known| known > epoch) {
                return Err(format!(
                    "node {machine} goes back to version {} of the cluster",
                    epoch.0
                ));
            }
        }
        let is_held = |group, replica: Incarnation| {
            let mut all = running.iter().flatten().flat_map(|node| node.replica_views());
            all.any(|other| other.group == group && other.incarnation == replica)
        };
        for replica_view in node.replica_views() {
            self.check_replica((machine, serving.boot), &replica_view, &is_held)?;
            self.check_left(node, &replica_view)?;
            let group = replica_view.group;
            let is_leased = |node: &&FullNode| {
                let now = clocks(NodeId(node.machine as u64));
                let mut replica_views = node.replica_views();
                // Who hosts nothing has nothing to answer: see `FoundAnew`.
                replica_views.any(|other| other.group == group && other.has_lease(now) && other.hosts_any())
            };
            if replica_view.has_lease(clocks(stepped)) {
                let leased = running.iter().flatten().copied().filter(is_leased);
                let leased: Vec<usize> = leased.map(|node| node.machine).collect();
                if leased.len() > 1 {
                    return Err(format!(
                        "group {}: nodes {leased:?} have a lease at once",
                        group.number()
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_left(&self, node: &FullNode, replica_view: &ReplicaView<'_>) -> Result<(), String> {
        let newest = self.newest.get(&replica_view.group.number());
        let votes = newest.is_some_and(|(_, _, members)| members.is_voter(replica_view.incarnation));
        match node.has_left && votes {
            true => Err(format!(
                "node {} was told to go, and votes in group {}",
                node.machine,
                replica_view.group.number()
            )),
            false => Ok(()),
        }
    }

    fn check_deadlines(
        &mut self,
        machine: usize,
        whose: (Boot, u16),
        gateway: &Gateway,
    ) -> Result<(), String> {
        let known = self.transactions.entry(whose).or_default();
        let (now, ticked) = (gateway.cluster_now(), gateway.ticked());
        let open: BTreeMap<u64, Monotonic> = gateway
            .transactions_with_deadlines()
            .map(|seq| (seq, known.get(&seq).copied().unwrap_or(now)))
            .collect();
        *known = open;
        let is_overdue =
            |(_, since): &(&u64, &Monotonic)| ticked.since(**since) >= Gateway::TRANSACTION_DEADLINE;
        match known.iter().find(is_overdue) {
            None => Ok(()),
            Some((seq, since)) => Err(format!(
                "node {machine}, worker {}: the client of transaction {seq} was not told for {:?}",
                whose.1,
                ticked.since(*since)
            )),
        }
    }

    fn check_map(&mut self, map: &Arc<RoutingMap>) -> Result<(), String> {
        let known = self.maps.entry(map.epoch).or_insert_with(|| map.clone());
        if Arc::ptr_eq(known, map) || known == map {
            return Ok(());
        }
        Err(format!("two maps of version {}", map.epoch.0))
    }

    fn check_promises(&mut self, machine: usize, node: &FullNode) -> Result<(), String> {
        let Some((me, now)) = node.meta.promises() else {
            return Ok(());
        };
        let Some(known) = self.promises.insert(me, now) else {
            return Ok(());
        };
        // How far the log was known to be committed may be forgotten: others know.
        let has_voted_otherwise = known.term == now.term && known.vote.is_some() && known.vote != now.vote;
        if now.term < known.term || has_voted_otherwise {
            return Err(format!(
                "node {machine}: of the meta group, {} was {known:?}, and is {now:?}",
                me.0
            ));
        }
        Ok(())
    }

    fn check_replica(
        &mut self,
        (machine, boot): (usize, Boot),
        replica_view: &ReplicaView<'_>,
        is_held: &dyn Fn(GroupId, Incarnation) -> bool,
    ) -> Result<(), String> {
        let Some(member) = replica_view.member() else {
            return Ok(());
        };
        let (group, me) = (replica_view.group.number(), replica_view.incarnation);
        let (term, applied) = (member.raft().status().term.0, member.applied().0);
        let known = self.replicas.insert((group, me), (machine, term, applied, boot));
        let mut known = known.unwrap_or((machine, 0, 0, boot));
        if known.0 != machine {
            return Err(format!(
                "group {group}: {} is on nodes {} and {machine}",
                me.0, known.0
            ));
        }
        let raft = member.raft();
        let place = (raft.last_term().0, raft.last_index().0);
        let told = self.told.get(&(group, me)).copied().unwrap_or_default();
        let floor = raft.floor().map(|(term, index)| (term.0, index.0));
        if known.3 != boot && told > place.max(floor.unwrap_or_default()) {
            return Err(format!(
                "group {group}: {} had kept its log up to {told:?}, and comes back with one up to {place:?}, and the floor {floor:?}",
                me.0
            ));
        }
        if raft.is_durable() && raft.persisted_index() == raft.last_index() {
            self.told.insert((group, me), told.max(place));
        }
        if known.3 != boot && self.shape.may_write() {
            // What it had applied stands in its log, and is applied once more; a term that was not kept was told to nobody.
            (known.1, known.2) = (0, 0);
        }
        if term < known.1 || applied < known.2 {
            return Err(format!(
                "group {group}: {} was in term {} with {} entries applied, and is in term {term} with {applied}",
                me.0, known.1, known.2
            ));
        }
        let place = (replica_view.generation, member.members_at().0);
        let newest = self.newest.get(&group);
        if newest.map(|(generation, at, _)| (*generation, *at)) < Some(place) {
            let members = member.members().clone();
            if let Some((generation, _, before)) = newest
                && *generation == place.0
                && before.voters.len() >= 3
                && members.voters.len() < 3
                && let Some(gone) = before.voters.iter().find(|one| !members.voters.contains(one))
                && is_held(replica_view.group, *gone)
            {
                return Err(format!(
                    "group {group} goes from {:?} to {:?}, and {} has its memory",
                    before.voters, members.voters, gone.0
                ));
            }
            self.newest.insert(group, (place.0, place.1, members));
        }
        if member.leads() {
            let key = (group, replica_view.generation, member.term().0);
            let leader = *self.leaders.entry(key).or_insert(me);
            if leader != me {
                return Err(format!(
                    "group {group}: {} and {} lead in term {}",
                    leader.0, me.0, key.2
                ));
            }
        }
        if applied > known.2 {
            let hash = replica_view.state_hash();
            let known = self.states.entry((group, replica_view.generation, applied));
            if *known.or_insert(hash) != hash {
                return Err(format!("group {group}: two states after entry {applied}"));
            }
        }
        Ok(())
    }
}

/// Who holds locks in the groups, as their leaders know it.
fn locks_in_words<'a>(replica_views: impl Iterator<Item = ReplicaView<'a>>) -> String {
    let of_leader = |view: ReplicaView<'a>| {
        let member = view.member().filter(|member| member.leads())?;
        let (number, applied) = (view.group.number(), member.applied().0);
        Some(format!(
            "group {number} at {applied}: {}",
            view.locks_in_words(LOCKS_MAX)
        ))
    };
    let leaders: Vec<String> = replica_views.filter_map(of_leader).collect();
    leaders.join("; ")
}

/// What must be so when everything has come to rest; so many nodes are dead for ever, and have not left.
pub(crate) fn check_at_rest(running: &[Option<&FullNode>], gone: usize) -> Result<(), String> {
    let replica_views = || running.iter().flatten().flat_map(|node| node.replica_views());
    for node in running.iter().flatten() {
        let Some(serving) = node.serving() else { continue };
        for worker in &serving.workers {
            let seen_to = worker.gateway.seen_to();
            if !seen_to.is_empty() {
                return Err(format!(
                    "node {}, worker {}, still sees to transactions: {seen_to:?}; {}",
                    node.machine,
                    worker.number,
                    locks_in_words(replica_views())
                ));
            }
        }
    }
    let mut metas = running
        .iter()
        .flatten()
        .map(|node| &node.meta)
        .filter(|meta| meta.leads());
    metas.try_for_each(|meta| meta.state().map_or(Ok(()), |state| check_placed(state, gone)))?;
    for leader in replica_views() {
        let Some(member) = leader.member().filter(|member| member.leads()) else {
            continue;
        };
        let voters = &member.members().voters;
        let is_its = |replica_view: &ReplicaView<'_>| {
            replica_view.group == leader.group && voters.contains(&replica_view.incarnation)
        };
        let number = leader.group.number();
        // Those who are dead for ever are waited for, and whoever else has lost its memory is not.
        let held = replica_views().filter(is_its).count();
        if held + gone < voters.len() {
            return Err(format!(
                "group {number} is at rest, and only {held} of {voters:?} are there"
            ));
        }
        for other in replica_views().filter(is_its) {
            let applied = other.member().map(|member| member.applied().0);
            if applied != Some(member.applied().0) {
                return Err(format!(
                    "group {number} is at rest, and its replicas have applied {} and {applied:?} entries",
                    member.applied().0
                ));
            }
            if other.state_hash() != leader.state_hash() {
                return Err(format!("group {number} is at rest, and its replicas differ"));
            }
        }
        let counts = leader.transaction_counts();
        if counts.prepared + counts.waiting > 0 {
            return Err(format!(
                "group {number} is at rest, and has transactions: {counts:?}"
            ));
        }
        // For those who are dead and not known to be, more is kept.
        let serving = running.iter().flatten().filter_map(|node| node.serving());
        let boots: BTreeSet<Boot> = serving.map(|serving| serving.boot).collect();
        if let Some((boot, what)) = leader.kept_for().find(|(boot, _)| boots.contains(boot)) {
            return Err(format!(
                "group {number} is at rest, and keeps for {boot:?}: {what}"
            ));
        }
    }
    check_hosted(running)
}

/// Each partition is hosted by one group.
fn check_hosted(running: &[Option<&FullNode>]) -> Result<(), String> {
    let leaders = || {
        let all = running.iter().flatten().flat_map(|node| node.replica_views());
        all.filter(|view| view.member().is_none_or(|member| member.leads()))
    };
    let Some(state) = running.iter().flatten().find_map(|node| node.meta.state()) else {
        return Ok(());
    };
    let groups = state.groups().len() - 1;
    let mut led: Vec<u16> = leaders().map(|view| view.group.number()).collect();
    led.sort_unstable();
    led.dedup();
    if led.len() < groups {
        // Some are out of reach for ever.
        return Ok(());
    }
    let mut hosts: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    for view in leaders() {
        for partition in view.hosted() {
            hosts
                .entry(partition.number())
                .or_default()
                .push(view.group.number());
        }
    }
    let count = leaders().next().map_or(0, |view| view.partition_count().get());
    for partition in 0..count {
        let found = hosts.get(&partition).map_or(&[][..], Vec::as_slice);
        if found.len() != 1 {
            return Err(format!("partition {partition} is hosted by {found:?}"));
        }
    }
    Ok(())
}

/// Where there are zones enough, no group is to have a majority in one of them; everything that was to be placed anew is where it is
/// to be, and groups have as many replicas as they are to have, if nothing holds it up.
fn check_placed(state: &State, gone: usize) -> Result<(), String> {
    state.check_zones()?;
    if gone > 0 || state.pause().is_some() {
        return Ok(());
    }
    if let Some(rebalance) = state.rebalance() {
        return Err(format!(
            "everything is to be placed anew since {:?}, and {} replicas are not where they are to be",
            rebalance.since,
            state.moves_left()
        ));
    }
    if let Some(resize) = state.resize() {
        return Err(format!(
            "groups are to have {} replicas since {:?}, and {} are not where they are to be",
            state.replicas_wanted(),
            resize.since,
            state.moves_left()
        ));
    }
    if !state.permits().is_empty() {
        return Err(format!("permission to stop is lent still: {:?}", state.permits()));
    }
    if !state.is_placed_for_wanted() || state.moves_left() > 0 {
        return Ok(());
    }
    let members = state.nodes().values();
    let members = members.filter(|node| node.goal != NodeGoal::Left).count();
    let wanted = usize::from(state.replicas_wanted()).min(members);
    for (name, group) in state.groups().iter().filter(|(name, _)| **name != GroupRef::Meta) {
        let (voters, all) = (group.voters().count(), group.members.len());
        if (voters, all) != (wanted, wanted) {
            return Err(format!(
                "{name:?} is where it is to be, with {voters} voters of {all} members, and {wanted} are wanted"
            ));
        }
    }
    Ok(())
}

/// The cluster as clients of the cluster endpoint are told of it.
pub(crate) fn topology(map: &RoutingMap, me: NodeId) -> Option<Topology> {
    let groups = map.key_groups()?;
    let numbers: Vec<NodeId> = map.nodes.keys().copied().collect();
    let index = |node: NodeId| numbers.binary_search(&node).ok().map(|at| NodeIndex(at as u16));
    let nodes = numbers.iter().map(|node| TopologyNode {
        name: NodeName::default(),
        host: format!("node-{}", node.0),
        port: 7379,
        zone: String::new(),
        peer_port: 8379,
        health: NodeHealth::Online,
        heard_at: UnixMillis(0),
        link: None,
        epoch: map.epoch,
    });
    let placements = map.groups.iter().map(|route| GroupPlacement {
        leader: route.leader.and_then(index),
        followers: Vec::new(),
    });
    Some(Topology::new(
        index(me)?,
        nodes.collect(),
        groups,
        placements.collect(),
        map.epoch,
    ))
}

//! The cluster's own state.
//!
//! It is what the meta group replicates. It changes by [`State::apply`] alone (`apply.rs`), and is written whole as a snapshot.
//!
//! Invariants, looked for in [`State::check`]:
//! 1. Every node, boot and incarnation is below the counter that gives them out; so none is given out twice.
//! 2. An incarnation stands in one place.
//! 3. What is lost is a member. What is expected is not, and is where a target is, once.
//! 4. Targets are nodes of the cluster; the leader that ought to be is one of them.
//! 5. There are all groups, and no other. Before there is a cluster there is nothing.
//! 6. Every node supports the rules that entries follow.
//! 7. Every bound is kept.
//! 8. A node that was told to go is nobody's target.
//! 9. Of two nodes that share a group one at most may stop ([`State::check_permits`], `permit.rs`).
//! 10. What has moved, and what is to, are partitions that there are, in groups that there are; what is to move is not there yet.

use crate::command::Factor;
use crate::goal::{MovePause, NodeGoal, Rebalance, Resize};
use crate::group::{Group, GroupRef, MEMBERS_MAX, majority};
use crate::growth_state::GrowthState;
use crate::node::{NODES_MAX, Node};
use crate::permit::{StopPermit, is_lent_twice};
use crate::settings::{NAME_BYTES_MAX, SETTINGS_MAX, Setting, VALUE_BYTES_MAX};
use crate::wire::{self, wire_struct};
use codec::DecodeError;
use ids::{
    Boot, ClusterId, DurabilityMode, Epoch, GroupCount, GroupId, Groups, Incarnation, NodeId, PartitionCount,
    PartitionId, SemanticsVersion, Token,
};
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

/// The format of snapshots.
const FORMAT: u8 = 6;

/// Tokens of removed nodes that are kept: of many more nodes than are removed while a request to join may be held up.
pub(crate) const REMOVED_MAX: usize = 256;

/// Most replicas that a group is placed on.
pub const TARGETS_MAX: usize = 6;

/// Under which the meta group's first replica begins, before there is anybody to give out another.
pub const BOOTSTRAP_REPLICA: Incarnation = Incarnation(1);

/// Counters end here. Nobody counts that far; a snapshot that says so is refused, so that counting never overflows.
const COUNT_MAX: u64 = 1 << 62;

/// The state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// None before `Create`.
    pub(crate) cluster: Option<ClusterId>,
    pub(crate) group_count: u16,
    pub(crate) partition_count: u16,
    pub(crate) factor: Factor,
    pub(crate) durability: DurabilityMode,
    /// Whether there ever were three nodes.
    pub(crate) has_grown: bool,
    pub(crate) semantics: SemanticsVersion,
    pub(crate) epoch: Epoch,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) groups: BTreeMap<GroupRef, Group>,
    /// The nodes for which targets were computed.
    pub(crate) placed_for: BTreeSet<NodeId>,
    /// The number of replicas for which targets were computed; 0 asks for it to be done again.
    pub(crate) placed_factor: u16,
    pub(crate) settings: BTreeMap<String, Setting>,
    pub(crate) settings_version: u64,
    pub(crate) next_node: u64,
    pub(crate) next_boot: u64,
    pub(crate) next_incarnation: u64,
    /// The first start since the meta group last began anew: what earlier ones have may not be known here.
    pub(crate) recovered: Boot,
    /// The tokens with which the nodes joined that were removed, the newest last. Who asks again with one of them, or is asked for
    /// again by a request that was held up, does not become another node: that would drive out whoever has its address now.
    pub(crate) removed: Vec<Token>,
    pub(crate) pause: Option<MovePause>,
    pub(crate) rebalance: Option<Rebalance>,
    pub(crate) resize: Option<Resize>,
    /// The nodes that may stop.
    pub(crate) permits: BTreeMap<NodeId, StopPermit>,
    /// What has come of its growth.
    pub(crate) growth: GrowthState,
}

wire_struct!(State {
    cluster,
    group_count,
    partition_count,
    factor,
    durability,
    has_grown,
    semantics,
    epoch,
    nodes,
    groups,
    placed_for,
    placed_factor,
    settings,
    settings_version,
    next_node,
    next_boot,
    next_incarnation,
    recovered,
    removed,
} last pause rebalance resize permits growth);

impl Default for State {
    fn default() -> State {
        State {
            cluster: None,
            group_count: 0,
            partition_count: 0,
            factor: Factor::Auto,
            durability: DurabilityMode::Memory,
            has_grown: false,
            semantics: SemanticsVersion(0),
            epoch: Epoch(0),
            nodes: BTreeMap::new(),
            groups: BTreeMap::new(),
            placed_for: BTreeSet::new(),
            placed_factor: 0,
            settings: BTreeMap::new(),
            settings_version: 0,
            next_node: 1,
            next_boot: 1,
            next_incarnation: BOOTSTRAP_REPLICA.0,
            recovered: Boot(0),
            removed: Vec::new(),
            pause: None,
            rebalance: None,
            resize: None,
            permits: BTreeMap::new(),
            growth: GrowthState::default(),
        }
    }
}

impl State {
    /// The cluster's name, if there is a cluster.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// How many groups of keys there are. None before there is a cluster.
    pub fn group_count(&self) -> Option<GroupCount> {
        GroupCount::new(self.group_count)
    }

    /// The groups of keys, and what each hosts, as far as is known here. None before there is a cluster.
    pub fn key_groups(&self) -> Option<Groups> {
        self.growth.groups(self.group_count()?, self.partition_count()?)
    }

    /// The partitions that are to go to other groups than those that host them, and where to.
    pub fn wishes(&self) -> &BTreeMap<PartitionId, GroupId> {
        &self.growth.wishes
    }

    /// How many partitions these host. None before there is a cluster.
    pub fn partition_count(&self) -> Option<PartitionCount> {
        PartitionCount::new(self.partition_count)
    }

    /// When a write counts as done.
    pub fn durability(&self) -> DurabilityMode {
        self.durability
    }

    /// The version of the map.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The rules that entries follow.
    pub fn semantics(&self) -> SemanticsVersion {
        self.semantics
    }

    /// The newest rules that every node can follow.
    pub fn semantics_possible(&self) -> SemanticsVersion {
        let newest = self.nodes.values().map(|node| node.announcement.semantics_max);
        newest.min().unwrap_or(self.semantics)
    }

    /// All nodes.
    pub fn nodes(&self) -> &BTreeMap<NodeId, Node> {
        &self.nodes
    }

    /// All groups, the meta group first.
    pub fn groups(&self) -> &BTreeMap<GroupRef, Group> {
        &self.groups
    }

    /// What is set for the whole cluster.
    pub fn settings(&self) -> &BTreeMap<String, Setting> {
        &self.settings
    }

    /// How often anything was set.
    pub fn settings_version(&self) -> u64 {
        self.settings_version
    }

    /// How many replicas a group of keys is to have; fewer where there are fewer nodes.
    pub fn replicas_wanted(&self) -> u16 {
        self.replicas_by(self.factor)
    }

    /// The same, if this were the factor.
    pub(crate) fn replicas_by(&self, factor: Factor) -> u16 {
        match factor {
            // Who once had three replicas does not fall back to one because a node was removed.
            Factor::Auto if self.has_grown => 3,
            Factor::Auto | Factor::One => 1,
            Factor::Three => 3,
            Factor::Four => 4,
            Factor::Five => 5,
            Factor::Six => 6,
        }
    }

    /// Nodes at whose address another one has joined since their last start, or under whose name another one has joined after them.
    /// One that has only started there again says nothing of them: they may be on their way to other addresses.
    pub(crate) fn replaced(&self) -> impl Iterator<Item = NodeId> {
        let mut joined: BTreeMap<&str, Option<Boot>> = BTreeMap::new();
        let named = self.nodes.iter();
        let named = named.map(|(&id, node)| (&*node.announcement.name, id));
        // The last one of a name stays: numbers are given in the order of joining.
        let named: BTreeMap<&str, NodeId> = named.filter(|(name, _)| !name.is_empty()).collect();
        for node in self.nodes.values() {
            let last = joined.entry(&*node.announcement.peer).or_default();
            *last = (*last).max(node.joined);
        }
        let nodes = self.nodes.iter();
        nodes.filter_map(move |(&id, node)| {
            let is_joined_at = joined[&*node.announcement.peer] > Some(node.boot);
            let is_named = named.get(&*node.announcement.name).is_some_and(|last| *last > id);
            (is_joined_at || is_named).then_some(id)
        })
    }

    /// Whether the boot may still have effects: it is its node's last one, and was not fenced.
    pub fn is_alive(&self, boot: Boot) -> bool {
        self.nodes
            .values()
            .any(|node| node.boot == boot && !node.is_fenced)
    }

    /// Whether the boot was given out and is dead, for ever.
    pub fn is_dead(&self, boot: Boot) -> bool {
        boot.0 < self.next_boot && !self.is_alive(boot)
    }

    /// Looks whether targets bear the loss of a zone, as the nodes for which they were computed allow, for checkers.
    ///
    /// # Errors
    /// Which do not.
    pub fn check_zones(&self) -> Result<(), String> {
        let zone_of = |node: NodeId| match self.nodes.get(&node).map(|node| &*node.placed.zone) {
            None | Some("") => format!("node {}", node.0),
            Some(zone) => format!("zone {zone}"),
        };
        let count = |nodes: &mut dyn Iterator<Item = NodeId>| {
            let mut zones: BTreeMap<String, usize> = BTreeMap::new();
            nodes.for_each(|node| *zones.entry(zone_of(node)).or_default() += 1);
            zones
        };
        let zones = count(&mut self.placed_for.iter().copied());
        for (name, group) in &self.groups {
            let most = group.targets.len() - majority(group.targets.len());
            let room: usize = zones.values().map(|nodes| *nodes.min(&most)).sum();
            let held = count(&mut group.targets.iter().copied());
            if room >= group.targets.len() && held.values().any(|held| *held > most) {
                return Err(format!(
                    "{name:?} is to be where one zone takes its majority: {held:?} of {zones:?}"
                ));
            }
        }
        Ok(())
    }

    /// Whether nothing moves but what repairs.
    pub fn pause(&self) -> Option<MovePause> {
        self.pause
    }

    /// Whether everything is being placed anew.
    pub fn rebalance(&self) -> Option<Rebalance> {
        self.rebalance
    }

    /// Since when groups are to have another number of replicas, if some have not.
    pub fn resize(&self) -> Option<Resize> {
        self.resize
    }

    /// The nodes that may stop.
    pub fn permits(&self) -> &BTreeMap<NodeId, StopPermit> {
        &self.permits
    }

    /// Whether the node may stop, or has, and is not back yet.
    pub(crate) fn has_permit(&self, node: NodeId) -> bool {
        self.permits.contains_key(&node)
    }

    /// Whether it may stop at any moment, or has.
    pub(crate) fn may_stop(&self, node: NodeId) -> bool {
        let permit = self.permits.get(&node);
        let known = self.nodes.get(&node);
        permit.is_some_and(|permit| known.is_some_and(|known| known.boot == permit.boot))
    }

    /// Looks whether two nodes that share a group may stop, for checkers.
    ///
    /// # Errors
    /// What should be.
    pub fn check_permits(&self) -> Result<(), &'static str> {
        match is_lent_twice(self) {
            true => Err("permission to stop for one node of a group"),
            false => Ok(()),
        }
    }

    /// Whether it was placed for as many replicas as are wanted.
    pub fn is_placed_for_wanted(&self) -> bool {
        self.placed_factor == self.replicas_wanted()
    }

    /// How many replicas of all groups are not where they are to be.
    pub fn moves_left(&self) -> u64 {
        self.groups.values().map(|group| group.moves_left() as u64).sum()
    }

    /// The nodes that are to have replicas, and whose last start is not dead.
    pub(crate) fn staying(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.nodes.iter();
        nodes.filter_map(|(&id, node)| (!node.goal.is_draining() && !node.is_fenced).then_some(id))
    }

    /// Whether a group was added, and nobody has heard that it has another voter than the one that it began with, or anything to host; nor is it to have.
    pub(crate) fn is_unfilled(&self, groups: Groups, group: GroupId) -> bool {
        let is_added = (groups.founded().get()..groups.get()).contains(&group.number());
        let found = self.groups.get(&GroupRef::Data(group));
        is_added
            && found.is_some_and(|found| found.voters().count() == 1)
            && groups.partitions_of(group).next().is_none()
            && !self.growth.wishes.values().any(|to| *to == group)
    }

    /// As bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        wire::encode(FORMAT, self)
    }

    /// From bytes. Total.
    ///
    /// # Errors
    /// If they are no snapshot, or one of a state that cannot be.
    pub fn restore(bytes: &[u8]) -> Result<State, DecodeError> {
        let state: State = wire::decode(FORMAT, bytes)?;
        state.check().map_err(|expected| DecodeError {
            offset: bytes.len(),
            expected,
        })?;
        Ok(state)
    }

    /// Equal for equal states, on every machine and in every build that writes this format.
    pub fn state_hash(&self) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(0, 0);
        hasher.write(&self.snapshot());
        hasher.finish()
    }

    /// Looks for each invariant, and answers the first that does not hold.
    ///
    /// # Errors
    /// What should be.
    pub fn check(&self) -> Result<(), &'static str> {
        let hold = |holds: bool, expected: &'static str| if holds { Ok(()) } else { Err(expected) };
        let counters = [
            self.next_node,
            self.next_boot,
            self.next_incarnation,
            self.epoch.0,
            self.settings_version,
        ];
        hold(
            counters.iter().all(|&count| count < COUNT_MAX),
            "counters that can count on",
        )?;
        hold(self.nodes.len() <= NODES_MAX, "no more nodes than can be")?;
        hold(
            self.removed.len() <= REMOVED_MAX,
            "no more tokens of removed nodes than are kept",
        )?;
        for (id, node) in &self.nodes {
            hold(id.0 < self.next_node, "nodes that were given out")?;
            hold(node.boot.0 < self.next_boot, "boots that were given out")?;
            hold(
                node.joined <= Some(node.boot),
                "nodes that start after they joined",
            )?;
            hold(node.announcement.is_valid(), "announcements within bounds")?;
            hold(
                node.announcement.supports(self.semantics),
                "nodes that can follow the rules",
            )?;
        }
        let boots: BTreeSet<Boot> = self.nodes.values().map(|node| node.boot).collect();
        hold(boots.len() == self.nodes.len(), "one node for each boot")?;
        hold(
            self.settings.len() <= SETTINGS_MAX,
            "no more settings than can be",
        )?;
        for (name, setting) in &self.settings {
            hold(
                name.len() <= NAME_BYTES_MAX && setting.value.len() <= VALUE_BYTES_MAX,
                "settings within bounds",
            )?;
            hold(
                setting.version <= self.settings_version,
                "settings that were counted",
            )?;
        }
        hold(self.placed_for.len() <= NODES_MAX, "no more nodes than can be")?;
        hold(
            self.pause.is_none_or(|pause| pause.since <= self.epoch),
            "a pause that has begun",
        )?;
        hold(
            self.rebalance
                .is_none_or(|rebalance| rebalance.since <= self.epoch),
            "an order to place anew that was given",
        )?;
        hold(
            self.resize.is_none_or(|resize| resize.since <= self.epoch),
            "another number of replicas that was wanted",
        )?;
        for (node, permit) in &self.permits {
            hold(
                permit.since <= self.epoch && permit.boot.0 < self.next_boot && self.nodes.contains_key(node),
                "permission to stop that was given to a node",
            )?;
        }
        self.check_permits()?;
        match self.cluster {
            None => hold(*self == State::default(), "nothing before there is a cluster")?,
            Some(_) => {
                let count = GroupCount::new(self.group_count).ok_or("1 to 4,096 groups")?;
                let partitions = self.partition_count().ok_or("1 to 4,096 partitions")?;
                hold(
                    Groups::new(count, partitions).is_some(),
                    "a partition for each group",
                )?;
                let all = std::iter::once(GroupRef::Meta).chain(count.iter().map(GroupRef::Data));
                hold(all.eq(self.groups.keys().copied()), "all groups and no other")?;
                hold(
                    self.growth.founded < self.group_count,
                    "fewer groups at first than now",
                )?;
                let groups = self.key_groups().ok_or("groups that host partitions")?;
                let is_there = |partition: &PartitionId, group: GroupId| {
                    partition.number() < partitions.get() && group.number() < self.group_count
                };
                let mut hosts = self.growth.hosts.iter();
                hold(
                    hosts.all(|(partition, host)| host.moves > 0 && is_there(partition, host.group)),
                    "partitions that have moved to groups",
                )?;
                let mut wishes = self.growth.wishes.iter();
                hold(
                    wishes.all(|(partition, group)| {
                        is_there(partition, *group) && groups.host_of(*partition) != *group
                    }),
                    "partitions that are to go to other groups",
                )?;
                hold(!self.nodes.is_empty(), "a node")?;
            }
        }
        let mut incarnations: BTreeSet<Incarnation> = BTreeSet::new();
        for group in self.groups.values() {
            let members = group.members.iter().map(|member| member.incarnation);
            let expected = group.expected.iter().map(|expected| expected.incarnation);
            for incarnation in members.chain(expected) {
                hold(
                    incarnation.0 < self.next_incarnation,
                    "incarnations that were given out",
                )?;
                hold(incarnations.insert(incarnation), "each incarnation once")?;
            }
            self.check_group(group)?;
        }
        Ok(())
    }

    fn check_group(&self, group: &Group) -> Result<(), &'static str> {
        let hold = |holds: bool, expected: &'static str| if holds { Ok(()) } else { Err(expected) };
        hold(
            group.members.len() <= MEMBERS_MAX && group.targets.len() <= TARGETS_MAX,
            "groups within bounds",
        )?;
        hold(group.generation < COUNT_MAX, "generations that can count on")?;
        hold(
            group.members.is_sorted_by(|one, next| one < next),
            "members in order",
        )?;
        hold(group.voters().next().is_some(), "a voter")?;
        hold(
            group.former.len() <= MEMBERS_MAX && group.former.is_sorted_by(|one, next| one < next),
            "nodes that keep what they held, in order",
        )?;
        hold(
            group.lost.is_sorted_by(|one, next| one < next)
                && group.lost.iter().all(|&lost| {
                    let mut members = group.members.iter();
                    members.any(|member| member.incarnation == lost)
                }),
            "lost ones among the members",
        )?;
        let targets: BTreeSet<NodeId> = group.targets.iter().copied().collect();
        let is_node = |id: &NodeId| {
            let node = self.nodes.get(id);
            node.is_some_and(|node| node.goal != NodeGoal::Left)
        };
        hold(
            targets.len() == group.targets.len() && targets.iter().all(is_node),
            "each target once, and a node that has not left",
        )?;
        let expected: BTreeSet<NodeId> = group.expected.iter().map(|expected| expected.node).collect();
        hold(
            expected.len() == group.expected.len() && expected.is_subset(&targets),
            "one expected for a target",
        )?;
        hold(
            group.leader_target.is_none_or(|node| targets.contains(&node)),
            "a leader among the targets",
        )
    }
}

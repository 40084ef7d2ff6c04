//! What leads from one map to a later one: the routes and sites that are others, and what stands beside them.
//!
//! ```text
//!   map 7 --what has changed since 7, as it is in 9--> map 9
//!   map 8 --the same: some of it is there already----> map 9
//!   map 6 --it lacks what changed up to 7------------> the whole map is asked for
//! ```
//!
//! Whoever sends it says what comes of it, as a digest: two meta groups that both began anew may have made different maps of one version,
//! and nothing but the whole leads from the one to what follows the other.

use crate::goal::MovePause;
use crate::group::GroupRef;
use crate::growth_state::GrowthState;
use crate::map::{Moving, Resizing, Route, RoutingMap, Site};
use crate::permit::StopPermit;
use crate::wire::{Wire, wire_struct};
use ids::{ClusterId, DurabilityMode, Epoch, GroupId, NodeId, PartitionCount, PartitionId, SemanticsVersion};
use mutations::Mutation;
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::sync::Arc;

/// See the file's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapDifference {
    /// It leads from this version on, and from any between it and its own.
    pub base: Epoch,
    /// What comes of it.
    pub epoch: Epoch,
    /// Of which cluster.
    pub cluster: Option<ClusterId>,
    rules: Rules,
    /// None where a node is a member no longer.
    nodes: BTreeMap<NodeId, Option<Arc<Site>>>,
    meta: Option<Route>,
    groups: BTreeMap<GroupId, Arc<Route>>,
    /// Of the map that comes of it.
    digest: u64,
    /// As the map says it, but that of the partitions that have moved those are named that have since: each once, since none is ever forgotten.
    growth: Option<GrowthState>,
}

/// What a map says beside nodes and groups: it is small, and always whole.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Rules {
    semantics: SemanticsVersion,
    durability: DurabilityMode,
    partitions: Option<PartitionCount>,
    pause: Option<MovePause>,
    rebalance: Option<Moving>,
    resize: Option<Resizing>,
    permits: BTreeMap<NodeId, StopPermit>,
}

wire_struct!(Rules {
    semantics,
    durability,
    partitions,
    pause,
    rebalance,
    resize,
    permits,
});
wire_struct!(MapDifference {
    base,
    epoch,
    cluster,
    rules,
    nodes,
    meta,
    groups,
    digest,
} last growth);

/// Which nodes and groups two maps have differently.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChangedNames {
    nodes: BTreeSet<NodeId>,
    groups: BTreeSet<GroupRef>,
    hosts: BTreeSet<PartitionId>,
}

impl ChangedNames {
    /// Which they are. Maps that share what they have alike are compared in no time.
    pub(crate) fn between(before: &RoutingMap, after: &RoutingMap) -> ChangedNames {
        let is_same = |one: Option<&Arc<Site>>, other: Option<&Arc<Site>>| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one == other,
            (one, other) => one.is_none() && other.is_none(),
        };
        let nodes = before.nodes.keys().chain(after.nodes.keys()).copied();
        let nodes = nodes.filter(|node| !is_same(before.nodes.get(node), after.nodes.get(node)));
        let pairs = (0u16..).zip(&after.groups);
        let groups = pairs.filter(|(number, route)| {
            let known = before.groups.get(usize::from(*number));
            known.is_none_or(|known| !(Arc::ptr_eq(known, route) || known == *route))
        });
        let groups = groups.map(|(number, _)| GroupRef::Data(GroupId::new(number)));
        let hosts = after.growth.hosts.iter();
        let hosts = hosts.filter(|(partition, host)| before.growth.hosts.get(partition) != Some(host));
        let meta = (before.meta != after.meta).then_some(GroupRef::Meta);
        ChangedNames {
            nodes: nodes.collect(),
            groups: groups.chain(meta).collect(),
            hosts: hosts.map(|(partition, _)| *partition).collect(),
        }
    }

    /// These, too.
    pub(crate) fn extend(&mut self, other: &ChangedNames) {
        self.nodes.extend(&other.nodes);
        self.groups.extend(&other.groups);
        self.hosts.extend(&other.hosts);
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len() + self.groups.len() + self.hosts.len()
    }
}

/// Of a map, without what is small: the sum over its parts, so that what changes is all that has to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MapDigest(u64);

impl MapDigest {
    pub(crate) fn of(map: &RoutingMap) -> MapDigest {
        let nodes = map.nodes.iter().map(|(node, site)| digest_of(0, node, site));
        let groups = (0u16..).zip(&map.groups);
        let groups = groups.map(|(number, route)| digest_of(1, &GroupId::new(number), route));
        let meta = digest_of(2, &GroupRef::Meta, &map.meta);
        let hosts = map.growth.hosts.iter();
        let hosts = hosts.map(|(partition, host)| digest_of(3, partition, host));
        MapDigest(nodes.chain(groups).chain(hosts).fold(meta, u64::wrapping_add))
    }

    /// That of a map which has these differently.
    pub(crate) fn after(self, before: &RoutingMap, after: &RoutingMap, changed: &ChangedNames) -> MapDigest {
        let of = |map: &RoutingMap| {
            let sites = changed
                .nodes
                .iter()
                .filter_map(|node| Some((node, map.nodes.get(node)?)));
            let sites = sites.map(|(node, site)| digest_of(0, node, site));
            let routes = changed.groups.iter().filter_map(|name| match name {
                GroupRef::Meta => Some(digest_of(2, name, &map.meta)),
                GroupRef::Data(group) => Some(digest_of(1, group, map.groups.get(group.index())?)),
            });
            let hosts = changed.hosts.iter();
            let hosts = hosts.filter_map(|partition| Some((partition, map.growth.hosts.get(partition)?)));
            let hosts = hosts.map(|(partition, host)| digest_of(3, partition, host));
            sites.chain(routes).chain(hosts).fold(0, u64::wrapping_add)
        };
        MapDigest(self.0.wrapping_sub(of(before)).wrapping_add(of(after)))
    }
}

fn digest_of(kind: u8, name: &impl Wire, part: &impl Wire) -> u64 {
    let mut bytes = vec![kind];
    name.put(&mut bytes);
    part.put(&mut bytes);
    let mut hasher = SipHasher13::new();
    hasher.write(&bytes);
    hasher.finish()
}

impl MapDifference {
    /// What leads to this map from those that have these differently at most, from the version `base` on.
    pub(crate) fn to(
        map: &RoutingMap,
        digest: MapDigest,
        base: Epoch,
        changed: &ChangedNames,
    ) -> MapDifference {
        let nodes = changed.nodes.iter();
        let groups = changed.groups.iter().filter_map(|name| match name {
            GroupRef::Meta => None,
            GroupRef::Data(group) => Some((*group, Arc::clone(map.groups.get(group.index())?))),
        });
        let hosts = changed.hosts.iter();
        let hosts = hosts.filter_map(|partition| Some((*partition, *map.growth.hosts.get(partition)?)));
        let growth = GrowthState {
            founded: map.growth.founded,
            hosts: hosts.collect(),
            wishes: map.growth.wishes.clone(),
        };
        MapDifference {
            base,
            epoch: map.epoch,
            cluster: map.cluster,
            rules: Rules {
                semantics: map.semantics,
                durability: map.durability,
                partitions: map.partitions,
                pause: map.pause,
                rebalance: map.rebalance,
                resize: map.resize,
                permits: map.permits.clone(),
            },
            nodes: nodes.map(|node| (*node, map.nodes.get(node).cloned())).collect(),
            meta: changed.groups.contains(&GroupRef::Meta).then(|| map.meta.clone()),
            groups: groups.collect(),
            digest: digest.0,
            growth: (growth != GrowthState::default()).then_some(growth),
        }
    }

    /// What comes of a map by it, which shares with that what is the same, and its digest; none if that is not what was meant.
    pub(crate) fn apply(&self, before: &RoutingMap, digest: MapDigest) -> Option<(RoutingMap, MapDigest)> {
        let fits = before.cluster == self.cluster && (self.base..self.epoch).contains(&before.epoch);
        if !fits && !mutations::is(Mutation::DifferenceOnAnyBase) {
            return None;
        }
        let mut growth = self.growth.clone().unwrap_or_default();
        let newer = std::mem::replace(&mut growth.hosts, before.growth.hosts.clone());
        growth.hosts.extend(newer);
        let mut after = RoutingMap {
            epoch: self.epoch,
            semantics: self.rules.semantics,
            durability: self.rules.durability,
            partitions: self.rules.partitions,
            pause: self.rules.pause,
            rebalance: self.rules.rebalance,
            resize: self.rules.resize,
            permits: self.rules.permits.clone(),
            growth,
            ..before.clone()
        };
        for (&node, site) in &self.nodes {
            match site {
                Some(site) => drop(after.nodes.insert(node, Arc::clone(site))),
                None => drop(after.nodes.remove(&node)),
            }
        }
        for (group, route) in &self.groups {
            // In order: one that was added stands behind the last.
            if group.index() == after.groups.len() {
                after.groups.push(Arc::clone(route));
            } else {
                after.groups.get_mut(group.index())?.clone_from(route);
            }
        }
        if let Some(meta) = &self.meta {
            after.meta.clone_from(meta);
        }
        let digest = digest.after(before, &after, &self.changed());
        let is_meant = digest.0 == self.digest || mutations::is(Mutation::DifferenceOnAnyBase);
        is_meant.then_some((after, digest))
    }

    fn changed(&self) -> ChangedNames {
        let groups = self.groups.keys().copied().map(GroupRef::Data);
        ChangedNames {
            nodes: self.nodes.keys().copied().collect(),
            groups: groups
                .chain(self.meta.is_some().then_some(GroupRef::Meta))
                .collect(),
            hosts: self
                .growth
                .iter()
                .flat_map(|growth| growth.hosts.keys())
                .copied()
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Factor, MetaCommand};
    use crate::node::{Announcement, WEIGHT_PERCENT};
    use crate::state::State;
    use crate::wire;
    use ids::{Boot, GroupCount, Groups, Host, Token};

    fn announcement(number: u64) -> Announcement {
        Announcement {
            client: format!("a:{number}"),
            cluster: format!("b:{number}"),
            peer: format!("c:{number}"),
            zone: String::new(),
            name: String::new(),
            weight_percent: WEIGHT_PERCENT,
            semantics_min: SemanticsVersion::OLDEST,
            semantics_max: SemanticsVersion::CURRENT,
        }
    }

    /// The maps of a cluster that nodes join and leave, in which replicas come and go.
    fn maps() -> Vec<RoutingMap> {
        let mut state = State::default();
        let group = GroupRef::Data(GroupId::new(1));
        let place = |nodes: &[u64]| MetaCommand::Place {
            members: nodes.iter().copied().map(NodeId).collect(),
            factor: 3,
            targets: vec![crate::command::Target {
                group,
                nodes: nodes.iter().copied().map(NodeId).collect(),
                leader: None,
            }],
        };
        let join = |number: u64| MetaCommand::Join {
            token: Token(u128::from(number)),
            announcement: announcement(number),
        };
        let add = |node: u64| MetaCommand::AddReplica {
            group,
            node: NodeId(node),
        };
        let create = MetaCommand::Create {
            cluster: ClusterId(1),
            token: Token(1),
            groups: Groups::with_default_partitions(GroupCount::new(3).expect("few")),
            factor: Factor::Auto,
            durability: DurabilityMode::Memory,
            semantics: SemanticsVersion::OLDEST,
            announcement: announcement(1),
        };
        let moved = |partition, group, moves| MetaCommand::PartitionsMoved {
            hosts: vec![(
                PartitionId::new(partition),
                Host {
                    group: GroupId::new(group),
                    moves,
                },
            )],
        };
        let commands = [
            create,
            join(2),
            join(3),
            place(&[1, 2, 3]),
            add(2),
            add(3),
            MetaCommand::Pause { seconds: None },
            place(&[1, 2]),
            place(&[1, 2, 3]),
            add(3),
            place(&[1]),
            MetaCommand::Fence { boot: Boot(3) },
            MetaCommand::Resume { of: None },
            MetaCommand::Remove { node: NodeId(3) },
            MetaCommand::RaiseSemantics {
                to: SemanticsVersion::CURRENT,
            },
            MetaCommand::AddGroups {
                count: GroupCount::new(5).expect("few"),
            },
            MetaCommand::WantPartitions {
                wishes: vec![(PartitionId::new(9), GroupId::new(4))],
            },
            moved(7, 3, 1),
            moved(9, 4, 1),
            moved(7, 0, 2),
        ];
        let mut maps: Vec<RoutingMap> = Vec::new();
        for command in commands {
            state.apply(&command).expect("it is right");
            let map = RoutingMap::following(maps.last(), &state);
            assert_eq!(map, RoutingMap::of(&state), "what is shared is the same");
            assert!(maps.last().is_none_or(|before| before.epoch < map.epoch));
            maps.push(map);
        }
        maps
    }

    fn between(maps: &[RoutingMap], from: usize, to: usize) -> MapDifference {
        let mut changed = ChangedNames::default();
        for pair in maps[from..=to].windows(2) {
            changed.extend(&ChangedNames::between(&pair[0], &pair[1]));
        }
        let digest = MapDigest::of(&maps[to]);
        MapDifference::to(&maps[to], digest, maps[from].epoch, &changed)
    }

    #[test]
    fn a_difference_leads_to_its_map_from_all_versions_of_its_span_and_from_no_other() {
        let maps = maps();
        for from in 0..maps.len() {
            for to in from + 1..maps.len() {
                let difference = between(&maps, from, to);
                let bytes = wire::encode(1, &difference);
                assert_eq!(wire::decode(1, &bytes).as_ref(), Ok(&difference));
                for (at, map) in maps.iter().enumerate() {
                    let after = difference.apply(map, MapDigest::of(map));
                    assert_eq!(
                        after.is_some(),
                        (from..to).contains(&at),
                        "{from} to {to} at {at}"
                    );
                    if let Some((after, digest)) = after {
                        assert_eq!(after, maps[to], "{from} to {to} at {at}");
                        assert_eq!(digest, MapDigest::of(&after), "what changed is all that differs");
                    }
                }
            }
        }
    }

    #[test]
    fn no_difference_leads_on_from_another_map_of_the_same_version() {
        let maps = maps();
        let last = maps.len() - 1;
        let mut other = maps[last - 1].clone();
        other.groups[2] = Arc::new(Route {
            generation: 7,
            ..(*other.groups[2]).clone()
        });
        let difference = between(&maps, last - 1, last);
        assert_eq!(difference.apply(&other, MapDigest::of(&other)), None);
    }

    #[test]
    fn a_difference_that_is_applied_to_any_map_is_noticed() {
        let maps = maps();
        let difference = between(&maps, 5, 6);
        mutations::plant(Some(Mutation::DifferenceOnAnyBase));
        let after = difference.apply(&maps[3], MapDigest::of(&maps[3]));
        mutations::plant(None);
        let (after, _) = after.expect("nothing is looked at");
        assert!(
            after.epoch == maps[6].epoch && after != maps[6],
            "a version has two maps"
        );
    }

    #[test]
    fn a_difference_is_written_so() {
        let maps = maps();
        let bytes = wire::encode(4, &between(&maps, 12, 13));
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            hex,
            "040d0e01010000000000000000000000000000000100018002000000000103000000b1c9d1aca0b48e84f001"
        );
    }

    #[test]
    fn a_difference_is_as_long_as_what_has_changed() {
        let maps = maps();
        let (whole, change) = (
            maps[4].encode().len(),
            wire::encode(1, &between(&maps, 3, 4)).len(),
        );
        assert!(change < 80 && change < whole, "{change} bytes of {whole}");
    }
}

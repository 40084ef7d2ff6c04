//! The circle on which nodes and groups have positions.
//!
//! A position is a 64-bit number, from a hash that is fixed by its specification: positions decide where data is, so they
//! must be the same in every build, for ever. There is nothing to guess or to attack: node ids are counted by the cluster.

use ids::{GroupId, NodeId};
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;

/// How many positions a node has. Evenness does not come from them (see `place`); they decide over how many others a lost
/// node's replicas are spread, and more of them than a node has replicas bring nothing.
pub const POSITIONS: u64 = 16;

/// Keys of the hash, so that a node and a group of one number have nothing in common.
const NODE_KEY: u64 = 0x6e6f_6465;
const GROUP_KEY: u64 = 0x0067_726f_7570;

/// A node that may hold replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingNode<'a> {
    /// The node.
    pub node: NodeId,
    /// What it shares its fate with: a rack, a site. A node whose zone is empty is a zone of its own.
    pub zone: &'a str,
    /// How much it is to have beside others; at least 1.
    pub weight: u16,
}

/// All nodes' positions.
pub struct Circle {
    /// In ascending order of id, each once. Elsewhere in this crate a node is its place in this list.
    nodes: Vec<NodeId>,
    /// For each node the number of its zone, from 0, with none left out.
    zone_of: Vec<usize>,
    /// The nodes of each zone.
    zones: Vec<Vec<usize>>,
    /// For each node its weight.
    weights: Vec<u64>,
    /// In ascending order.
    positions: Vec<(u64, usize)>,
    /// For each node its positions, in ascending order.
    of_node: Vec<Vec<u64>>,
}

impl Circle {
    /// The circle of these nodes, in any order. One that is named twice counts as it is named first.
    pub fn new(members: &[RingNode<'_>]) -> Circle {
        let mut members = members.to_vec();
        members.sort_by_key(|member| member.node);
        members.dedup_by_key(|member| member.node);
        let (mut zone_of, mut zones) = (Vec::new(), Vec::<Vec<usize>>::new());
        let mut by_name: BTreeMap<&str, usize> = BTreeMap::new();
        for (node, member) in members.iter().enumerate() {
            let zone = match member.zone {
                "" => zones.len(),
                name => *by_name.entry(name).or_insert(zones.len()),
            };
            if zone == zones.len() {
                zones.push(Vec::new());
            }
            zones[zone].push(node);
            zone_of.push(zone);
        }
        let of_node: Vec<Vec<u64>> = members
            .iter()
            .map(|member| {
                let mut positions: Vec<u64> = (0..POSITIONS)
                    .map(|number| hash(NODE_KEY, member.node.0, number))
                    .collect();
                positions.sort_unstable();
                positions
            })
            .collect();
        let mut positions: Vec<(u64, usize)> = of_node
            .iter()
            .enumerate()
            .flat_map(|(node, positions)| positions.iter().map(move |&position| (position, node)))
            .collect();
        positions.sort_unstable();
        Circle {
            nodes: members.iter().map(|member| member.node).collect(),
            zone_of,
            zones,
            weights: members.iter().map(|member| member.weight.max(1).into()).collect(),
            positions,
            of_node,
        }
    }

    /// The nodes that one meets from the group's position clockwise, once around: each at every position it has.
    pub fn clockwise(&self, group: GroupId) -> impl Iterator<Item = NodeId> {
        self.walk(group.index()).map(|node| self.nodes[node])
    }

    /// How many nodes there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, node: usize) -> NodeId {
        self.nodes[node]
    }

    pub(crate) fn find(&self, node: NodeId) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }

    pub(crate) fn zone(&self, node: usize) -> usize {
        self.zone_of[node]
    }

    /// The nodes of each zone.
    pub(crate) fn zones(&self) -> &[Vec<usize>] {
        &self.zones
    }

    pub(crate) fn weight(&self, node: usize) -> u64 {
        self.weights[node]
    }

    /// As `clockwise`, by places in the list.
    pub(crate) fn walk(&self, group: usize) -> impl Iterator<Item = usize> {
        let start = group_position(group);
        let first = self.positions.partition_point(|&(position, _)| position < start);
        let (before, after) = self.positions.split_at(first);
        after.iter().chain(before).map(|&(_, node)| node)
    }

    /// How far clockwise the node's first position lies from the group's.
    pub(crate) fn distance(&self, group: usize, node: usize) -> u64 {
        let start = group_position(group);
        let positions = &self.of_node[node];
        let next = positions.partition_point(|&position| position < start) % positions.len();
        positions[next].wrapping_sub(start)
    }
}

fn group_position(group: usize) -> u64 {
    hash(GROUP_KEY, group as u64, 0)
}

fn hash(key: u64, subject: u64, number: u64) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    hasher.write(&subject.to_le_bytes());
    hasher.write(&number.to_le_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: u64) -> Vec<RingNode<'static>> {
        (1..=count)
            .map(|id| RingNode {
                node: NodeId(id),
                zone: "",
                weight: 1,
            })
            .collect()
    }

    #[test]
    fn positions_are_those_of_every_other_build() {
        // SipHash-1-3 under the keys above. Other numbers would place every replica anew.
        assert_eq!(hash(NODE_KEY, 1, 0), 16_458_684_725_987_750_511);
        assert_eq!(hash(GROUP_KEY, 1, 0), 12_458_792_666_853_535_533);
    }

    #[test]
    fn one_walks_around_in_order_of_distance() {
        let circle = Circle::new(&members(20));
        for group in 0..50 {
            let mut seen = Vec::new();
            for node in circle.walk(group) {
                if !seen.contains(&node) {
                    seen.push(node);
                }
            }
            assert_eq!(seen.len(), 20);
            let distances: Vec<u64> = seen.iter().map(|&node| circle.distance(group, node)).collect();
            assert!(distances.is_sorted(), "{distances:?}");
        }
    }

    #[test]
    fn the_order_in_which_members_are_named_is_nothing_to_the_circle() {
        let mut backwards = members(9);
        backwards.reverse();
        let (one, two) = (Circle::new(&members(9)), Circle::new(&backwards));
        assert!(one.clockwise(GroupId::new(3)).eq(two.clockwise(GroupId::new(3))));
    }

    #[test]
    fn a_node_without_a_zone_is_a_zone_of_its_own() {
        let zones = ["a", "", "b", "a", ""];
        let members: Vec<RingNode<'_>> = (1..)
            .zip(zones)
            .map(|(id, zone)| RingNode {
                node: NodeId(id),
                zone,
                weight: 1,
            })
            .collect();
        let circle = Circle::new(&members);
        assert_eq!(circle.zone(0), circle.zone(3));
        assert_eq!(circle.zones(), [vec![0, 3], vec![1], vec![2], vec![4]]);
    }
}

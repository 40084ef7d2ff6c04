//! A placement under construction: who holds what, both ways round.
//!
//! Invariants:
//! 1. A node holds a group once.
//! 2. `nodes[g]` contains n exactly if `groups[n]` contains g, and `holds` says so.
//! 3. `in_zone` says how many of `nodes[g]` are in each zone.

use crate::circle::Circle;
use std::collections::BTreeSet;

pub(crate) struct Table<'a> {
    pub(crate) circle: &'a Circle,
    /// For each group its nodes, in no particular order.
    nodes: Vec<Vec<usize>>,
    /// For each node its groups.
    groups: Vec<BTreeSet<usize>>,
    /// By group and node.
    holds: Vec<bool>,
    /// By group and zone.
    in_zone: Vec<usize>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(circle: &'a Circle, groups: usize) -> Table<'a> {
        Table {
            circle,
            nodes: vec![Vec::new(); groups],
            groups: vec![BTreeSet::new(); circle.len()],
            holds: vec![false; groups * circle.len()],
            in_zone: vec![0; groups * circle.zones().len()],
        }
    }

    pub(crate) fn group_count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn nodes_of(&self, group: usize) -> &[usize] {
        &self.nodes[group]
    }

    pub(crate) fn groups_on(&self, node: usize) -> &BTreeSet<usize> {
        &self.groups[node]
    }

    /// How many replicas the node holds.
    pub(crate) fn load(&self, node: usize) -> usize {
        self.groups[node].len()
    }

    pub(crate) fn holds(&self, group: usize, node: usize) -> bool {
        self.holds[group * self.circle.len() + node]
    }

    /// How many of the group's replicas are in the zone.
    pub(crate) fn in_zone(&self, group: usize, zone: usize) -> usize {
        self.in_zone[group * self.circle.zones().len() + zone]
    }

    /// Whether the group can move from one node to the other, and is in as many zones as before: the zone it comes to then
    /// has it no more often than the one that it leaves had.
    pub(crate) fn keeps_zones(&self, group: usize, from: usize, to: usize) -> bool {
        let (zone_from, zone_to) = (self.circle.zone(from), self.circle.zone(to));
        !self.holds(group, to)
            && (zone_from == zone_to || self.in_zone(group, zone_to) < self.in_zone(group, zone_from))
    }

    pub(crate) fn add(&mut self, group: usize, node: usize) {
        assert!(self.groups[node].insert(group), "a node holds a group once");
        self.nodes[group].push(node);
        self.holds[group * self.circle.len() + node] = true;
        self.in_zone[group * self.circle.zones().len() + self.circle.zone(node)] += 1;
    }

    pub(crate) fn remove(&mut self, group: usize, node: usize) {
        assert!(
            self.groups[node].remove(&group),
            "only what is held is taken away"
        );
        self.nodes[group].retain(|&other| other != node);
        self.holds[group * self.circle.len() + node] = false;
        self.in_zone[group * self.circle.zones().len() + self.circle.zone(node)] -= 1;
    }

    pub(crate) fn shift(&mut self, group: usize, from: usize, to: usize) {
        self.remove(group, from);
        self.add(group, to);
    }
}

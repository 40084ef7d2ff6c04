//! The rule: which nodes hold which group.
//!
//! ```text
//!  previous --> keep --> fill --> even out --> cap --> placement
//!               what     what      until        only where zones would not have it otherwise:
//!               is still is        nobody has   what is too much is taken away, and filled
//!               right    missing   two more     again without regard to zones
//! ```
//!
//! - *Keep*: a replica stays on its node, if that is a member, unless there are more than `rf`, or another one in its zone.
//! - *Fill*: a missing replica goes to the next node clockwise from its group's position, skipping nodes that have it,
//!   zones that have it, and nodes that have enough. Enough is first the average rounded down, then rounded up, then the cap: so the
//!   ring chooses among nodes that are in need. If there is none, room is made by the shortest chain of moves.
//! - *Even out*: a node that joined has nothing; it takes, from whoever has most, the groups that meet it soonest on the
//!   circle. A group never loses a zone by this.
//!
//! Invariants, asserted at the end:
//! 1. Each group has min(`rf`, number of members) different members.
//! 2. No node has more than `load_max`.
//!
//! What follows from the rule, and tests hold us to: as few replicas as the cap allows share a zone with another one of
//! their group. The same members place nothing anew. Without zones all nodes have the average, rounded down or up, and a
//! joining node moves no replicas but those that it gets; with zones some more move if they get apart by it.

use crate::circle::{Circle, RingNode};
use crate::placement::Placement;
use crate::table::Table;
use ids::GroupCount;
use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

/// The most replicas that one of `nodes` nodes may hold, of `replicas` altogether: the average rounded up, or 1.1 times
/// the average if that is more.
pub fn load_max(replicas: usize, nodes: usize) -> usize {
    let nodes = nodes.max(1);
    replicas.div_ceil(nodes).max(replicas * 11 / (nodes * 10))
}

/// Places `rf` replicas of each group, or as many as there are members.
///
/// `previous` is what was placed before: of any members, with any `rf`, or nothing.
pub fn place(members: &[RingNode<'_>], groups: GroupCount, rf: usize, previous: &Placement) -> Placement {
    let circle = Circle::new(members);
    let groups = usize::from(groups.get());
    let rf = rf.min(circle.len());
    let mut placing = Placing {
        table: Table::new(&circle, groups),
        rf,
        given_up: vec![Vec::new(); groups],
    };
    placing.keep(previous);
    if placing.settle() > 0 {
        // What was above the cap then may have been in the way of zones.
        placing.settle();
    }
    placing.finish()
}

struct Placing<'a> {
    table: Table<'a>,
    rf: usize,
    /// For each group the nodes on which it was kept no longer for the sake of zones: it goes back if that did not help.
    given_up: Vec<Vec<usize>>,
}

/// What room may be made by.
#[derive(Clone, Copy)]
enum Others {
    /// Moves that cost no group a zone.
    KeepZones,
    /// Any move.
    MoveAnywhere,
}

impl Placing<'_> {
    fn keep(&mut self, previous: &Placement) {
        let circle = self.table.circle;
        for (group, nodes) in previous.0.iter().enumerate().take(self.table.group_count()) {
            for node in nodes.iter().filter_map(|&node| circle.find(node)) {
                if !self.table.holds(group, node) {
                    self.table.add(group, node);
                }
            }
        }
        for group in 0..self.table.group_count() {
            while self.table.nodes_of(group).len() > self.rf {
                let worst = self.worst(group);
                self.table.remove(group, worst.expect("there are more than `rf`"));
            }
        }
    }

    /// Places what is missing or does not stand well, and answers how many replicas are not alone in their zone.
    fn settle(&mut self) -> usize {
        self.part();
        self.fill();
        self.even_out();
        if self.cap() {
            self.fill();
            self.even_out();
        }
        (0..self.table.group_count())
            .map(|group| self.rf - self.table.zones_of(group))
            .sum()
    }

    /// Takes away what is not alone in its zone.
    fn part(&mut self) {
        let circle = self.table.circle;
        for group in 0..self.table.group_count() {
            self.given_up[group].clear();
            while let Some(node) = self
                .worst(group)
                .filter(|&node| self.table.in_zone(group, circle.zone(node)) > 1)
            {
                self.table.remove(group, node);
                self.given_up[group].push(node);
            }
        }
    }

    /// Which of a group's nodes it had best leave: one that is not alone in its zone, then one that has much, then the
    /// last one clockwise.
    fn worst(&self, group: usize) -> Option<usize> {
        let table = &self.table;
        let nodes = table.nodes_of(group).iter().copied();
        nodes.max_by_key(|&node| {
            let zone = table.in_zone(group, table.circle.zone(node));
            (zone, table.load(node), table.circle.distance(group, node))
        })
    }

    /// Gives each group as many replicas as it is to have.
    fn fill(&mut self) {
        let replicas = self.table.group_count() * self.rf;
        let nodes = self.table.circle.len().max(1);
        let most = load_max(replicas, nodes);
        // A zone has the group once if that can be, twice if that can be, and so on.
        for per_zone in 1..=self.rf {
            if per_zone > 1 {
                self.give_back(per_zone, most);
            }
            for load in [replicas / nodes, replicas.div_ceil(nodes), most] {
                self.fill_up_to(load, per_zone, Others::KeepZones);
            }
        }
        self.fill_up_to(most, self.rf, Others::MoveAnywhere);
    }

    fn fill_up_to(&mut self, load: usize, per_zone: usize, others: Others) {
        let mut is_stuck = vec![false; self.table.circle.len()];
        for group in 0..self.table.group_count() {
            while self.table.nodes_of(group).len() < self.rf
                && self.fill_one(group, load, per_zone, others, &mut is_stuck)
            {}
        }
    }

    fn give_back(&mut self, per_zone: usize, most: usize) {
        for group in 0..self.table.group_count() {
            for node in std::mem::take(&mut self.given_up[group]) {
                let zone = self.table.circle.zone(node);
                let is_right = self.table.nodes_of(group).len() < self.rf
                    && !self.table.holds(group, node)
                    && self.table.in_zone(group, zone) < per_zone
                    && self.table.load(node) < most;
                if is_right {
                    self.table.add(group, node);
                } else {
                    self.given_up[group].push(node);
                }
            }
        }
    }

    /// Places one more replica of the group if that can be, without any node getting more than `load`.
    fn fill_one(
        &mut self,
        group: usize,
        load: usize,
        per_zone: usize,
        others: Others,
        is_stuck: &mut [bool],
    ) -> bool {
        let table = &self.table;
        let may_get = |&node: &usize| {
            !table.holds(group, node) && table.in_zone(group, table.circle.zone(node)) < per_zone
        };
        let mut clockwise = table.circle.walk(group);
        if let Some(node) = clockwise.find(|node| table.load(*node) < load && may_get(node)) {
            self.table.add(group, node);
            return true;
        }
        // Every node that may get it is full. One of them takes it if it can pass on another group, and so on: an
        // augmenting path, found breadth first. What a search without success has met is stuck for all later ones, since
        // these could only go on from there in the same way.
        let mut reached_by: Vec<Option<(usize, usize)>> = vec![None; table.circle.len()];
        let (mut queue, mut rest) = (VecDeque::new(), Vec::new());
        for node in (0..table.circle.len()).filter(|&node| !is_stuck[node]) {
            if may_get(&node) {
                queue.push_back(node);
            } else {
                rest.push(node);
            }
        }
        let mut reached: Vec<usize> = queue.iter().copied().collect();
        while let Some(from) = queue.pop_front() {
            for &other in table.groups_on(from) {
                let found = rest.iter().copied().filter(|&to| match others {
                    Others::KeepZones => table.keeps_zones(other, from, to),
                    Others::MoveAnywhere => !table.holds(other, to),
                });
                let found: Vec<usize> = found.collect();
                for &to in &found {
                    reached_by[to] = Some((from, other));
                    if table.load(to) < load {
                        let mut at = to;
                        while let Some((from, other)) = reached_by[at] {
                            self.table.shift(other, from, at);
                            at = from;
                        }
                        self.table.add(group, at);
                        return true;
                    }
                }
                if !found.is_empty() {
                    rest.retain(|node| !found.contains(node));
                    queue.extend(&found);
                    reached.extend(&found);
                }
            }
        }
        reached.iter().for_each(|&node| is_stuck[node] = true);
        false
    }

    /// Lets whoever has least take from whoever has most, until nobody has two more than one that could take of it.
    ///
    /// Without zones a node always has something that one with less does not, so that this is as even as can be. With zones
    /// it may not. A chain of moves would help there, but it would buy evenness that is not owed.
    fn even_out(&mut self) {
        let nodes = 0..self.table.circle.len();
        let mut is_any = true;
        while is_any {
            is_any = false;
            let mut takers: BTreeSet<usize> = nodes.clone().collect();
            while let Some(taker) = takers.iter().copied().min_by_key(|&node| self.table.load(node)) {
                if self.take(taker) {
                    is_any = true;
                } else {
                    takers.remove(&taker);
                }
            }
        }
    }

    /// Moves one replica from the fullest node that has two more, and one that may move, to this one: the one that meets it
    /// soonest on the circle. True if there is such a node.
    fn take(&mut self, to: usize) -> bool {
        let table = &self.table;
        let enough = table.load(to) + 2;
        let mut givers: Vec<usize> = (0..table.circle.len())
            .filter(|&node| table.load(node) >= enough)
            .collect();
        givers.sort_by_key(|&node| Reverse(table.load(node)));
        let found = givers.iter().find_map(|&from| {
            let groups = table.groups_on(from).iter().copied();
            groups
                .filter(|&group| table.keeps_zones(group, from, to))
                .min_by_key(|&group| table.circle.distance(group, to))
                .map(|group| (group, from))
        });
        if let Some((group, from)) = found {
            self.table.shift(group, from, to);
        }
        found.is_some()
    }

    /// Takes away what is above the cap. True if anything was.
    fn cap(&mut self) -> bool {
        let nodes = self.table.circle.len();
        let most = load_max(self.table.group_count() * self.rf, nodes);
        let mut is_any = false;
        for node in 0..nodes {
            while self.table.load(node) > most {
                let table = &self.table;
                let groups = table.groups_on(node).iter().copied();
                let last = groups.max_by_key(|&group| table.circle.distance(group, node));
                self.table
                    .remove(last.expect("more than none are above the cap"), node);
                is_any = true;
            }
        }
        is_any
    }

    fn finish(self) -> Placement {
        let table = &self.table;
        let most = load_max(table.group_count() * self.rf, table.circle.len());
        for node in 0..table.circle.len() {
            assert!(table.load(node) <= most, "no node has more than the cap");
        }
        let groups = (0..table.group_count()).map(|group| {
            let mut nodes = table.nodes_of(group).to_vec();
            assert_eq!(nodes.len(), self.rf, "each group has its replicas");
            nodes.sort_by_key(|&node| (table.circle.distance(group, node), node));
            nodes.iter().map(|&node| table.circle.node(node)).collect()
        });
        Placement(groups.collect())
    }
}

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
//!   zones that have it, and nodes that have enough. Enough is first the node's share (`share.rs`) rounded down, then rounded up, then
//!   the cap: so the ring chooses among nodes that are in need. If there is none, room is made by the shortest chain of moves.
//! - *Even out*: a node that joined has nothing; it takes, from whoever is fullest, the groups that meet it soonest on the
//!   circle. A group never loses a zone by this.
//!
//! Invariants, asserted at the end:
//! 1. Each group has min(`rf`, number of members) different members.
//! 2. No node has more than its cap.
//! 3. No zone has so many replicas of a group that the others are no majority, where there are zones enough (`zone_max`).
//!
//! What follows from the rule, and tests hold us to: as few replicas as the cap allows share a zone with another one of
//! their group. The same members place nothing anew. Without zones and weights all nodes have the average, rounded down or up, and a
//! joining node moves no replicas but those that it gets; with zones some more move if they get apart by it.

use crate::circle::{Circle, RingNode};
use crate::placement::Placement;
use crate::share::{Share, shares, zone_max};
use crate::table::Table;
use ids::{GroupCount, NodeId};
use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

/// The most replicas that each of these nodes may hold, of `rf` of each group: its share rounded up, or 1.1 times the share if that is
/// more. Shares are in proportion to weights, as far as zones allow.
pub fn load_max(members: &[RingNode<'_>], groups: GroupCount, rf: usize) -> Vec<(NodeId, usize)> {
    let circle = Circle::new(members);
    let shares = shares(&circle, groups.get().into(), rf.min(circle.len()));
    let caps = shares.iter().enumerate();
    caps.map(|(node, share)| (circle.node(node), share.most))
        .collect()
}

/// How often the same members are placed, at most. With five replicas and zones of unlike sizes two rounds may not be enough.
const ROUNDS_MAX: usize = 16;

/// Whether groups of `rf` replicas that are placed on these nodes go on without any one of their zones. A group of one never does.
pub fn bears_loss_of_zone(members: &[RingNode<'_>], rf: usize) -> bool {
    zone_max(&Circle::new(members), rf).is_some()
}

/// Places `rf` replicas of each group, or as many as there are members.
///
/// `previous` is what was placed before: of any members, with any `rf`, or nothing.
///
/// It is placed again until that moves nothing: whoever places the same members once more is to find everything where it ought to be.
pub fn place(members: &[RingNode<'_>], groups: GroupCount, rf: usize, previous: &Placement) -> Placement {
    let mut placement = place_once(members, groups, rf, previous);
    for _ in 1..ROUNDS_MAX {
        let next = place_once(members, groups, rf, &placement);
        if next == placement {
            break;
        }
        placement = next;
    }
    placement
}

fn place_once(members: &[RingNode<'_>], groups: GroupCount, rf: usize, previous: &Placement) -> Placement {
    let circle = Circle::new(members);
    let groups = usize::from(groups.get());
    let rf = rf.min(circle.len());
    let mut placing = Placing {
        table: Table::new(&circle, groups),
        rf,
        shares: shares(&circle, groups, rf),
        zone_max: zone_max(&circle, rf),
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
    /// For each node.
    shares: Vec<Share>,
    zone_max: Option<usize>,
    /// For each group the nodes on which it was kept no longer for the sake of zones: it goes back if that did not help.
    given_up: Vec<Vec<usize>>,
}

/// What room may be made by.
#[derive(Clone, Copy)]
enum Others {
    /// Moves that cost no group a zone.
    KeepZones,
    /// Moves after which no zone has more than this of a group.
    KeepBelow(usize),
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
            (zone, self.fullness(node), table.circle.distance(group, node))
        })
    }

    /// How full the node is beside its share.
    fn fullness(&self, node: usize) -> u64 {
        self.table.load(node) as u64 * self.shares[node].step
    }

    /// Gives each group as many replicas as it is to have.
    fn fill(&mut self) {
        let of_all = |level: fn(&Share) -> usize| -> Vec<usize> { self.shares.iter().map(level).collect() };
        let levels = [
            of_all(|share| share.least),
            of_all(|share| share.enough),
            of_all(|share| share.most),
        ];
        // A zone has the group once if that can be, twice if that can be, and so on.
        for per_zone in 1..=self.rf {
            if per_zone > 1 {
                self.give_back(per_zone);
            }
            for level in &levels {
                self.fill_up_to(level, per_zone, Others::KeepZones);
            }
            if self.zone_max == Some(per_zone) {
                // Here all find room, if nobody has more than the cap.
                self.fill_up_to(&levels[2], per_zone, Others::KeepBelow(per_zone));
            }
        }
        self.fill_up_to(&levels[2], self.rf, Others::MoveAnywhere);
    }

    fn fill_up_to(&mut self, loads: &[usize], per_zone: usize, others: Others) {
        let mut is_stuck = vec![false; self.table.circle.len()];
        for group in 0..self.table.group_count() {
            while self.table.nodes_of(group).len() < self.rf
                && self.fill_one(group, loads, per_zone, others, &mut is_stuck)
            {}
        }
    }

    fn give_back(&mut self, per_zone: usize) {
        for group in 0..self.table.group_count() {
            for node in std::mem::take(&mut self.given_up[group]) {
                let zone = self.table.circle.zone(node);
                let is_right = self.table.nodes_of(group).len() < self.rf
                    && !self.table.holds(group, node)
                    && self.table.in_zone(group, zone) < per_zone
                    && self.table.load(node) < self.shares[node].most;
                if is_right {
                    self.table.add(group, node);
                } else {
                    self.given_up[group].push(node);
                }
            }
        }
    }

    /// Places one more replica of the group if that can be, without any node getting more than `loads` says.
    fn fill_one(
        &mut self,
        group: usize,
        loads: &[usize],
        per_zone: usize,
        others: Others,
        is_stuck: &mut [bool],
    ) -> bool {
        let table = &self.table;
        let may_get = |&node: &usize| {
            !table.holds(group, node) && table.in_zone(group, table.circle.zone(node)) < per_zone
        };
        let mut clockwise = table.circle.walk(group);
        if let Some(node) = clockwise.find(|node| table.load(*node) < loads[*node] && may_get(node)) {
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
                    Others::KeepBelow(most) => table.keeps_below(other, from, to, most),
                    Others::MoveAnywhere => !table.holds(other, to),
                });
                let found: Vec<usize> = found.collect();
                for &to in &found {
                    reached_by[to] = Some((from, other));
                    if table.load(to) < loads[to] {
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

    /// Lets whoever is least full take from whoever is fullest, until all have their shares, rounded down or up, or nobody would be fuller
    /// without one than one that could take it would be with it. Where all shares are alike: until nobody has two more.
    ///
    /// Without zones a node always has something that one with less does not, so that this is as even as can be. With zones
    /// it may not. A chain of moves would help there, but it would buy evenness that is not owed.
    fn even_out(&mut self) {
        let nodes = 0..self.table.circle.len();
        let mut is_any = true;
        while is_any {
            is_any = false;
            let mut takers: BTreeSet<usize> = nodes.clone().collect();
            while let Some(taker) = takers
                .iter()
                .copied()
                .min_by_key(|&node| (self.fullness_with(node), node))
            {
                if self.take(taker) {
                    is_any = true;
                } else {
                    takers.remove(&taker);
                }
            }
        }
    }

    /// How full the node would be with one more.
    fn fullness_with(&self, node: usize) -> u64 {
        self.fullness(node) + self.shares[node].step
    }

    /// Moves one replica from the fullest node that would stay fuller, and one that may move, to this one: the one that meets it
    /// soonest on the circle. True if there is such a node.
    fn take(&mut self, to: usize) -> bool {
        let table = &self.table;
        if table.load(to) >= self.shares[to].most {
            return false;
        }
        let (enough, is_short) = (self.fullness_with(to), table.load(to) < self.shares[to].least);
        // Who has its share, rounded up, gives to nobody who has his, rounded down.
        let gives = |node: &usize| {
            let is_over = table.load(*node) > self.shares[*node].enough;
            (is_short || is_over) && self.fullness(*node) > enough
        };
        let mut givers: Vec<usize> = (0..table.circle.len()).filter(gives).collect();
        givers.sort_by_key(|&node| Reverse(self.fullness(node)));
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
        let mut is_any = false;
        for node in 0..self.table.circle.len() {
            while self.table.load(node) > self.shares[node].most {
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
        for (node, share) in self.shares.iter().enumerate() {
            assert!(table.load(node) <= share.most, "no node has more than its cap");
        }
        let groups = (0..table.group_count()).map(|group| {
            let mut nodes = table.nodes_of(group).to_vec();
            assert_eq!(nodes.len(), self.rf, "each group has its replicas");
            let in_zone = |&node: &usize| table.in_zone(group, table.circle.zone(node));
            let fullest = nodes.iter().map(in_zone).max().unwrap_or(0);
            assert!(
                self.zone_max.is_none_or(|most| fullest <= most),
                "no zone has what is needed for a majority"
            );
            nodes.sort_by_key(|&node| (table.circle.distance(group, node), node));
            nodes.iter().map(|&node| table.circle.node(node)).collect()
        });
        Placement(groups.collect())
    }
}

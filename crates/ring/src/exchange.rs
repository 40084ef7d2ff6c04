//! Exchanges: closed chains of moves after which a placement is better.
//!
//! ```text
//!   node a ---> group 7 in zone x ---> group 7 ---> group 7 in zone y ---> node b ---> group 3 in zone y ---> ...
//!      ^        gives up 7                                                 takes 7     gives up 3
//!      |                                                                     |
//!      +--------------- room <-----------------------------------------------+  or keeps both, and a has one less
//! ```
//!
//! A placement is a flow from groups through zones to nodes, and an exchange is a cycle of what the flow leaves open. Of what an exchange
//! costs the first that is not zero decides:
//!
//! 1. replicas by which a zone has so many of a group that the others are no majority, where that need not be;
//! 2. replicas beyond the first of their group in a zone;
//! 3. replicas that a node has beyond its share, rounded up, or lacks of it, rounded down;
//! 4. replicas that move from where they were before.
//!
//! Where no exchange costs less than nothing, no placement costs less: cycle-canceling (Klein 1967). Such cycles are found by `labels.rs`,
//! which looks only where something is amiss.
//!
//! Invariant: an exchange keeps the number of replicas of each group, and each node within its cap.

use crate::labels::Labels;
use crate::share::Share;
use crate::table::Table;
use ids::GroupCount;

/// A replica that moves. In one exchange no more do than there are nodes: it passes each of them once.
const MOVE: i64 = 1;

/// A replica too much on a node, or too few. One exchange changes the loads of two nodes.
const UNEVEN: i64 = 1 << 20;

/// A replica beyond the first in a zone. One exchange changes one replica of each group.
const DOUBLED: i64 = 1 << 24;

/// A replica by which the others are no majority.
const MAJORITY: i64 = 1 << 44;

/// More members than any cluster has.
const NODES_MAX: i64 = UNEVEN / 4;

// However much there is of the lesser ones, the first that is not zero decides.
const _: () = {
    let groups = GroupCount::MAX as i64;
    let least = NODES_MAX * MOVE;
    assert!(least < UNEVEN && 2 * UNEVEN + least < DOUBLED);
    assert!(groups * DOUBLED + 2 * UNEVEN + least < MAJORITY && groups < i64::MAX / MAJORITY / 4);
};

/// What exchanges are looked for by.
pub(crate) struct Exchanges<'a, 't> {
    table: &'a mut Table<'t>,
    shares: &'a [Share],
    zone_max: Option<usize>,
    /// For each group the nodes that had it before.
    had: &'a [Vec<usize>],
    shape: Shape,
    labels: Labels,
}

/// How many there are of what has a vertex.
#[derive(Clone, Copy)]
struct Shape {
    nodes: usize,
    groups: usize,
    zones: usize,
}

/// What a vertex stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vertex {
    Node(usize),
    /// Whoever has less than its cap: a replica more on one node, and one less on another.
    Room,
    Group(usize),
    /// A group in a zone.
    Part(usize, usize),
}

impl<'a, 't> Exchanges<'a, 't> {
    pub(crate) fn new(
        table: &'a mut Table<'t>,
        shares: &'a [Share],
        zone_max: Option<usize>,
        had: &'a [Vec<usize>],
    ) -> Exchanges<'a, 't> {
        let shape = Shape {
            nodes: table.circle.len(),
            groups: table.group_count(),
            zones: table.circle.zones().len(),
        };
        assert!(
            (shape.nodes as i64) < NODES_MAX,
            "there are fewer members than that"
        );
        Exchanges {
            labels: Labels::new(shape.vertices()),
            table,
            shares,
            zone_max,
            had,
            shape,
        }
    }

    /// Makes the placement better until no exchange does.
    pub(crate) fn make(&mut self) {
        self.look_where_something_is_amiss();
        loop {
            let turn = self.labels.turn();
            if turn.is_empty() {
                return;
            }
            for vertex in turn {
                self.relax(vertex);
            }
            // They have no vertex in common, so that each is worth what it would be alone.
            let cycles = self.labels.cycles();
            for cycle in &cycles {
                self.apply(cycle);
            }
            if !cycles.is_empty() {
                self.look_again(&cycles.concat());
            }
        }
    }

    /// A cycle of negative cost has an edge of negative cost.
    fn look_where_something_is_amiss(&mut self) {
        self.labels.look_at(self.shape.index(Vertex::Room));
        for node in 0..self.shape.nodes {
            if self.cost_of_more(node) < 0 {
                self.labels.look_at(self.shape.index(Vertex::Node(node)));
            }
        }
        for group in 0..self.shape.groups {
            let zone = |&node: &usize| self.table.circle.zone(node);
            let is_doubled = |zone: &usize| self.table.in_zone(group, *zone) > 1;
            let doubled = self.table.nodes_of(group).iter().map(zone).filter(is_doubled);
            let lost = self.had[group].iter().filter(|node| self.has_lost(group, **node));
            let mut amiss: Vec<usize> = doubled.chain(lost.map(zone)).collect();
            amiss.sort_unstable();
            amiss.dedup();
            for zone in amiss {
                self.labels.look_at(self.shape.index(Vertex::Part(group, zone)));
            }
        }
    }

    /// The edges of these vertices are others than before, and those of room to them.
    fn look_again(&mut self, changed: &[usize]) {
        let mut labels = std::mem::take(&mut self.labels);
        labels.drop_false(|from, to| self.edge(from, to));
        labels.look_at(self.shape.index(Vertex::Room));
        changed.iter().for_each(|&vertex| labels.look_at(vertex));
        self.labels = labels;
    }

    /// Offers all edges of a vertex.
    fn relax(&mut self, at: usize) {
        let shape = self.shape;
        let mut labels = std::mem::take(&mut self.labels);
        let mut offer = |to: Vertex| {
            let to = shape.index(to);
            if let Some(cost) = self.edge(at, to) {
                labels.offer(at, to, cost);
            }
        };
        match shape.vertex(at) {
            Vertex::Node(node) => {
                let zone = self.table.circle.zone(node);
                let groups = self.table.groups_on(node).iter();
                groups.for_each(|&group| offer(Vertex::Part(group, zone)));
                offer(Vertex::Room);
            }
            Vertex::Room => (0..shape.nodes).for_each(|node| offer(Vertex::Node(node))),
            Vertex::Group(group) => (0..shape.zones).for_each(|zone| offer(Vertex::Part(group, zone))),
            Vertex::Part(group, zone) => {
                offer(Vertex::Group(group));
                let nodes = self.table.circle.zones()[zone].iter();
                nodes.for_each(|&node| offer(Vertex::Node(node)));
            }
        }
        self.labels = labels;
    }

    /// What an edge costs, if there is one.
    fn edge(&self, from: usize, to: usize) -> Option<i64> {
        let is_of = |node: usize, zone: usize| self.table.circle.zone(node) == zone;
        let (is, cost) = match (self.shape.vertex(from), self.shape.vertex(to)) {
            (Vertex::Node(node), Vertex::Part(group, zone)) => {
                let moves = self.had[group].contains(&node);
                let is = is_of(node, zone) && self.table.holds(group, node);
                (is, if moves { MOVE } else { 0 })
            }
            (Vertex::Part(group, zone), Vertex::Node(node)) => {
                let is = is_of(node, zone) && !self.table.holds(group, node);
                (is, if self.has_lost(group, node) { -MOVE } else { 0 })
            }
            (Vertex::Group(group), Vertex::Part(of, zone)) => {
                let count = self.table.in_zone(group, zone);
                let is = group == of && count < self.table.circle.zones()[zone].len();
                (is, self.cost_of(count + 1))
            }
            (Vertex::Part(of, zone), Vertex::Group(group)) => {
                let count = self.table.in_zone(group, zone);
                (group == of && count > 0, -self.cost_of(count))
            }
            (Vertex::Node(node), Vertex::Room) => {
                let is = self.table.load(node) < self.shares[node].most;
                (is, self.cost_of_more(node))
            }
            (Vertex::Room, Vertex::Node(node)) => (self.table.load(node) > 0, self.cost_of_less(node)),
            _ => (false, 0),
        };
        is.then_some(cost)
    }

    /// Whether the node had the group before, and does not hold it now. To have moves cost where a replica leaves, and not where it comes, is
    /// the same for each exchange, and there is less to look at: what is placed for the first time has moved from nowhere.
    fn has_lost(&self, group: usize, node: usize) -> bool {
        !self.table.holds(group, node) && self.had[group].contains(&node)
    }

    /// What the replica of a group costs that is the `count`th one in its zone: more for each further one.
    fn cost_of(&self, count: usize) -> i64 {
        match count {
            ..=1 => 0,
            _ if self.zone_max.is_some_and(|most| count > most) => MAJORITY,
            _ => DOUBLED,
        }
    }

    /// What it costs that the node gets a replica more.
    fn cost_of_more(&self, node: usize) -> i64 {
        let (load, share) = (self.table.load(node), &self.shares[node]);
        UNEVEN * (i64::from(load >= share.enough) - i64::from(load < share.least))
    }

    /// What it costs that the node has a replica less.
    fn cost_of_less(&self, node: usize) -> i64 {
        let (load, share) = (self.table.load(node), &self.shares[node]);
        UNEVEN * (i64::from(load <= share.least) - i64::from(load > share.enough))
    }

    fn apply(&mut self, cycle: &[usize]) {
        let steps = cycle.iter().zip(cycle.iter().cycle().skip(1));
        let steps: Vec<(Vertex, Vertex)> = steps
            .map(|(&from, &to)| (self.shape.vertex(from), self.shape.vertex(to)))
            .collect();
        for &step in &steps {
            if let (Vertex::Node(node), Vertex::Part(group, _)) = step {
                self.table.remove(group, node);
            }
        }
        for step in steps {
            if let (Vertex::Part(group, _), Vertex::Node(node)) = step {
                self.table.add(group, node);
            }
        }
    }
}

impl Shape {
    fn vertices(self) -> usize {
        self.index(Vertex::Part(self.groups, 0))
    }

    fn index(self, vertex: Vertex) -> usize {
        match vertex {
            Vertex::Node(node) => node,
            Vertex::Room => self.nodes,
            Vertex::Group(group) => self.nodes + 1 + group,
            Vertex::Part(group, zone) => self.nodes + 1 + self.groups + group * self.zones + zone,
        }
    }

    fn vertex(self, index: usize) -> Vertex {
        if index < self.nodes {
            return Vertex::Node(index);
        }
        let Some(index) = index.checked_sub(self.nodes + 1) else {
            return Vertex::Room;
        };
        match index.checked_sub(self.groups) {
            None => Vertex::Group(index),
            Some(part) => Vertex::Part(part / self.zones, part % self.zones),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circle::{Circle, RingNode};
    use crate::place::place;
    use crate::placement::Placement;
    use crate::share::{shares, zone_max};
    use ids::NodeId;
    use proptest::prelude::*;

    /// Members, groups, replication factor, and what was placed before.
    type Task = (Vec<RingNode<'static>>, u16, usize, Placement);

    /// What a placement costs: replicas by which zones have majorities, replicas beyond the first in a zone, replicas beyond shares, moves.
    type Costs = [i64; 4];

    fn costs((members, group_count, rf, before): &Task, placement: &Placement) -> Costs {
        let circle = Circle::new(members);
        let rf = (*rf).min(circle.len());
        let zone_max = zone_max(&circle, rf).unwrap_or(rf);
        let mut costs = [0; 4];
        for nodes in &placement.0 {
            for zone in circle.zones() {
                let of_zone = |node: &&NodeId| circle.find(**node).is_some_and(|node| zone.contains(&node));
                let count = nodes.iter().filter(of_zone).count();
                costs[0] += count.saturating_sub(zone_max) as i64;
                costs[1] += count.clamp(1, zone_max) as i64 - 1;
            }
        }
        for (node, share) in shares(&circle, (*group_count).into(), rf).iter().enumerate() {
            let load = placement.load(circle.node(node));
            let beyond = load.saturating_sub(share.enough) + share.least.saturating_sub(load);
            costs[2] += beyond as i64;
        }
        costs[3] = placement.moves_from(before) as i64;
        costs
    }

    /// From, to, room, cost; each is followed by its way back.
    type Edges = Vec<(usize, usize, i64, i64)>;

    /// The slow and plain way: the least that a placement can cost, as a flow that grows replica by replica along the cheapest way.
    fn costs_min((members, group_count, rf, before): &Task) -> Costs {
        // Beside what one of them weighs, all that can be of the later ones is less.
        const WEIGHTS: [i64; 4] = [1 << 36, 1 << 24, 1 << 12, 1];
        let circle = Circle::new(members);
        let (groups, rf) = (usize::from(*group_count), (*rf).min(circle.len()));
        let (zones, zone_max) = (circle.zones().len(), zone_max(&circle, rf).unwrap_or(rf));
        let part = |group: usize, zone: usize| 2 + groups + group * zones + zone;
        let node_at = |node: usize| 2 + groups + groups * zones + node;
        let mut edges: Edges = Vec::new();
        let mut connect =
            |from, to, room, cost: i64| edges.extend([(from, to, room, cost), (to, from, 0, -cost)]);
        for group in 0..groups {
            connect(0, 2 + group, rf as i64, 0);
            for (zone, nodes) in circle.zones().iter().enumerate() {
                for count in 1..=nodes.len().min(rf) {
                    let is_above = usize::from(count > zone_max);
                    let cost = if count == 1 { 0 } else { WEIGHTS[1 - is_above] };
                    connect(2 + group, part(group, zone), 1, cost);
                }
                for &node in nodes {
                    let had = before.0.get(group).map_or(&[][..], Vec::as_slice);
                    let stays = had.contains(&circle.node(node));
                    connect(part(group, zone), node_at(node), 1, i64::from(!stays));
                }
            }
        }
        let mut cost = 0;
        for (node, share) in shares(&circle, groups, rf).iter().enumerate() {
            cost += share.least as i64 * WEIGHTS[2];
            for load in 0..share.most {
                let is_beyond = i64::from(load >= share.enough) - i64::from(load < share.least);
                connect(node_at(node), 1, 1, is_beyond * WEIGHTS[2]);
            }
        }
        for _ in 0..groups * rf {
            cost += push(&mut edges, node_at(circle.len()));
        }
        let mut costs = [0; 4];
        for (costs, weight) in costs.iter_mut().zip(WEIGHTS) {
            (*costs, cost) = (cost / weight, cost % weight);
        }
        costs
    }

    /// Lets one more unit flow from 0 to 1, and answers what it costs.
    fn push(edges: &mut Edges, vertices: usize) -> i64 {
        let mut best: Vec<Option<(i64, usize)>> = vec![None; vertices];
        best[0] = Some((0, usize::MAX));
        let mut is_better = true;
        while is_better {
            is_better = false;
            for (at, &(from, to, room, cost)) in edges.iter().enumerate() {
                let Some((so_far, _)) = best[from].filter(|_| room > 0) else {
                    continue;
                };
                if best[to].is_none_or(|(known, _)| so_far + cost < known) {
                    best[to] = Some((so_far + cost, at));
                    is_better = true;
                }
            }
        }
        let mut at = 1;
        while at != 0 {
            let (_, edge) = best[at].expect("there is room for all");
            edges[edge].2 -= 1;
            edges[edge ^ 1].2 += 1;
            at = edges[edge].0;
        }
        best[1].expect("it was reached").0
    }

    fn task() -> impl Strategy<Value = Task> {
        let zone = prop::sample::select(vec!["", "a", "b", "c", "d"]);
        let weight = prop::sample::select(vec![1u16, 1, 1, 2, 5, u16::MAX]);
        let members = prop::collection::vec((zone, weight), 1..10);
        let members = members.prop_map(|members| {
            let numbered = (1..).zip(members);
            let member = |(id, (zone, weight))| RingNode {
                node: NodeId(id),
                zone,
                weight,
            };
            numbered.map(member).collect()
        });
        let nodes = prop::collection::vec((1u64..13).prop_map(NodeId), 0..7);
        let before = prop::collection::vec(nodes, 0..9).prop_map(Placement);
        (members, 1u16..9, 1usize..7, before)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_placement_costs_less(task in task()) {
            let (members, group_count, rf, before) = &task;
            let groups = GroupCount::new(*group_count).expect("it is between 1 and 4,096");
            let placement = place(members, groups, *rf, before);
            prop_assert_eq!(costs(&task, &placement), costs_min(&task));
            prop_assert_eq!(&place(members, groups, *rf, &placement), &placement, "the same members move nothing");
        }
    }
}

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
//! 2. replicas that are not alone in their zone;
//! 3. replicas that a node has beyond its share, rounded up, or lacks of it, rounded down;
//! 4. replicas that move from where they were before.
//!
//! Where no exchange costs less than nothing, no placement costs less: cycle-canceling (Klein 1967). Such cycles are found by label
//! correcting (Bellman and Ford), which spreads only from where something is amiss.
//!
//! Invariant: an exchange keeps the number of replicas of each group, and each node below its cap.

use crate::share::Share;
use crate::table::Table;

/// A replica that moves. In one exchange fewer move than there are nodes: it passes each of them once.
const MOVE: i64 = 1;

/// A replica too much on a node, or too few. One exchange changes two nodes' loads.
const UNEVEN: i64 = 1 << 20;

/// A replica that is not alone in its zone. One exchange changes the zones of each group once.
const DOUBLED: i64 = 1 << 24;

/// A replica by which the others are no majority.
const MAJORITY: i64 = 1 << 44;

/// What exchanges are looked for by.
pub(crate) struct Exchanges<'a, 't> {
    table: &'a mut Table<'t>,
    shares: &'a [Share],
    zone_max: Option<usize>,
    /// Whether a node had a group before, by group and node.
    had: &'a [bool],
    /// Whether a node holds a group, by group and node.
    holds: Vec<bool>,
    /// How many replicas of a group are in a zone, by group and zone.
    in_zone: Vec<usize>,
    /// The nodes of each zone.
    zones: Vec<Vec<usize>>,
    shape: Shape,
    labels: Labels,
}

/// The least that it costs to get to each vertex from anywhere, as far as it is known.
struct Labels {
    cost: Vec<i64>,
    from: Vec<Option<usize>>,
    /// Those of which `cost` or `from` is set.
    touched: Vec<usize>,
    /// Those whose edges are to be looked at.
    next: Vec<usize>,
    is_next: Vec<bool>,
    /// By which walk along `from` a vertex was met last.
    met: Vec<usize>,
    walks: usize,
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
        had: &'a [bool],
    ) -> Exchanges<'a, 't> {
        let (nodes, groups) = (table.circle.len(), table.group_count());
        let mut zones: Vec<Vec<usize>> = Vec::new();
        for node in 0..nodes {
            let zone = table.circle.zone(node);
            zones.resize_with(zones.len().max(zone + 1), Vec::new);
            zones[zone].push(node);
        }
        let shape = Shape {
            nodes,
            groups,
            zones: zones.len(),
        };
        let mut exchanges = Exchanges {
            labels: Labels::new(shape.vertices()),
            holds: vec![false; groups * nodes],
            in_zone: vec![0; groups * zones.len()],
            table,
            shares,
            zone_max,
            had,
            zones,
            shape,
        };
        for group in 0..groups {
            for at in 0..exchanges.table.nodes_of(group).len() {
                let node = exchanges.table.nodes_of(group)[at];
                exchanges.count(group, node, true);
            }
        }
        exchanges
    }

    /// Makes the placement better until no exchange does.
    pub(crate) fn make(&mut self) {
        loop {
            let cycles = self.find();
            if cycles.is_empty() {
                return;
            }
            // They have no vertex in common, so that each is worth what it would be alone.
            for cycle in cycles {
                self.apply(&cycle);
            }
        }
    }

    /// Cycles that cost less than nothing: one at least, if there is any.
    fn find(&mut self) -> Vec<Vec<usize>> {
        self.labels.clear();
        // A cycle of negative cost has an edge of negative cost.
        for node in 0..self.shape.nodes {
            let mut groups = self.table.groups_on(node).iter();
            if groups.any(|&group| !self.had[self.shape.place(group, node)]) || self.cost_of_more(node) < 0 {
                self.labels.look_at(self.shape.index(Vertex::Node(node)));
            }
        }
        self.labels.look_at(self.shape.index(Vertex::Room));
        for group in 0..self.shape.groups {
            for zone in 0..self.shape.zones {
                if self.in_zone[self.shape.part(group, zone)] > 1 {
                    self.labels.look_at(self.shape.index(Vertex::Part(group, zone)));
                }
            }
        }
        loop {
            let turn = self.labels.turn();
            if turn.is_empty() {
                return Vec::new();
            }
            for vertex in turn {
                self.relax(vertex);
            }
            let cycles = self.labels.cycles();
            if !cycles.is_empty() {
                return cycles;
            }
        }
    }

    fn relax(&mut self, at: usize) {
        let shape = self.shape;
        match shape.vertex(at) {
            Vertex::Node(node) => {
                let zone = self.table.circle.zone(node);
                for &group in self.table.groups_on(node) {
                    let moved = !self.had[shape.place(group, node)];
                    let to = shape.index(Vertex::Part(group, zone));
                    self.labels.offer(at, to, if moved { -MOVE } else { 0 });
                }
                if self.table.load(node) < self.shares[node].most {
                    let cost = self.cost_of_more(node);
                    self.labels.offer(at, shape.index(Vertex::Room), cost);
                }
            }
            Vertex::Room => {
                for node in (0..shape.nodes).filter(|&node| self.table.load(node) > 0) {
                    let cost = self.cost_of_less(node);
                    self.labels.offer(at, shape.index(Vertex::Node(node)), cost);
                }
            }
            Vertex::Group(group) => {
                for zone in 0..shape.zones {
                    let count = self.in_zone[shape.part(group, zone)];
                    if count < self.zones[zone].len() {
                        let cost = self.cost_of(count + 1);
                        self.labels
                            .offer(at, shape.index(Vertex::Part(group, zone)), cost);
                    }
                }
            }
            Vertex::Part(group, zone) => {
                let count = self.in_zone[shape.part(group, zone)];
                if count > 0 {
                    let cost = -self.cost_of(count);
                    self.labels.offer(at, shape.index(Vertex::Group(group)), cost);
                }
                for &node in &self.zones[zone] {
                    let place = shape.place(group, node);
                    if !self.holds[place] {
                        let cost = if self.had[place] { 0 } else { MOVE };
                        self.labels.offer(at, shape.index(Vertex::Node(node)), cost);
                    }
                }
            }
        }
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
                self.count(group, node, false);
            }
        }
        for step in steps {
            if let (Vertex::Part(group, _), Vertex::Node(node)) = step {
                self.table.add(group, node);
                self.count(group, node, true);
            }
        }
    }

    fn count(&mut self, group: usize, node: usize, holds: bool) {
        self.holds[self.shape.place(group, node)] = holds;
        let count = &mut self.in_zone[self.shape.part(group, self.table.circle.zone(node))];
        *count = if holds { *count + 1 } else { *count - 1 };
    }
}

impl Shape {
    fn place(self, group: usize, node: usize) -> usize {
        group * self.nodes + node
    }

    fn part(self, group: usize, zone: usize) -> usize {
        group * self.zones + zone
    }

    fn vertices(self) -> usize {
        self.index(Vertex::Part(self.groups, 0))
    }

    fn index(self, vertex: Vertex) -> usize {
        match vertex {
            Vertex::Node(node) => node,
            Vertex::Room => self.nodes,
            Vertex::Group(group) => self.nodes + 1 + group,
            Vertex::Part(group, zone) => self.nodes + 1 + self.groups + self.part(group, zone),
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

impl Labels {
    fn new(count: usize) -> Labels {
        Labels {
            cost: vec![0; count],
            from: vec![None; count],
            touched: Vec::new(),
            next: Vec::new(),
            is_next: vec![false; count],
            met: vec![0; count],
            walks: 0,
        }
    }

    fn clear(&mut self) {
        for at in self.touched.drain(..) {
            (self.cost[at], self.from[at]) = (0, None);
        }
        for at in self.next.drain(..) {
            self.is_next[at] = false;
        }
    }

    fn look_at(&mut self, at: usize) {
        if !self.is_next[at] {
            self.is_next[at] = true;
            self.next.push(at);
        }
    }

    /// What is to be looked at, once.
    fn turn(&mut self) -> Vec<usize> {
        let turn = std::mem::take(&mut self.next);
        turn.iter().for_each(|&at| self.is_next[at] = false);
        turn
    }

    /// There is an edge of this cost.
    fn offer(&mut self, from: usize, to: usize, cost: i64) {
        let cost = self.cost[from] + cost;
        if cost < self.cost[to] {
            if self.from[to].is_none() {
                self.touched.push(to);
            }
            (self.cost[to], self.from[to]) = (cost, Some(from));
            self.look_at(to);
        }
    }

    /// The cycles of `from`, each in the direction of its edges. Each vertex has one edge there, so that they have nothing in common, and
    /// each of them costs less than nothing: around it every label is at least that of the one before and the edge's cost, and one is more.
    fn cycles(&mut self) -> Vec<Vec<usize>> {
        let mut cycles = Vec::new();
        let first = self.walks + 1;
        for &start in &self.touched {
            self.walks += 1;
            let mut at = start;
            while self.met[at] < first {
                self.met[at] = self.walks;
                let Some(from) = self.from[at] else {
                    break;
                };
                at = from;
            }
            if self.met[at] == self.walks && self.from[at].is_some() {
                let mut cycle = vec![at];
                let mut before = self.from[at];
                while let Some(vertex) = before.filter(|&vertex| vertex != at) {
                    cycle.push(vertex);
                    before = self.from[vertex];
                }
                cycle.reverse();
                cycles.push(cycle);
            }
        }
        cycles
    }
}

//! What must come before what, and whether that goes round in a circle.
//!
//! Nodes are transactions, edges say that one comes before the other (Adya, "Weak Consistency", 1999): it wrote the version
//! before (`ww`), or the version that the other read (`wr`), or it read the version that the other replaced (`rw`), or it
//! was answered before the other was called (time). Transactions have an order that respects all of that exactly if there
//! is no circle.
//!
//! ```text
//!   real time, with one barrier for each moment at which something was answered and then something was called:
//!
//!      T0 ---.          .--> T2        not n^2 edges: what is answered points at the next barrier, what is called is
//!      T1 --> barrier ------> barrier  pointed at by the last one, and barriers point at each other
//!                                 '--> T3
//! ```
//!
//! Finding out that there is no circle is one pass (Tarjan, 1972). If there is one, the kinds of edges are tried from the
//! fewest to all, and among the circles of the first kind that has some, a short one is looked for.

use crate::anomaly::Phenomenon;
use crate::transaction::Transactions;
use std::collections::VecDeque;

/// Most edges that are looked at to find a shorter circle, for each kind of circle, when one is known to be there: about a
/// second. Beyond it the shortest found so far is shown, and a circle with one `rw` edge among many may go by the name of a
/// worse one.
const EDGES_LOOKED_AT_MAX: usize = 20_000_000;

/// Why one comes before the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The other overwrote what it wrote.
    Ww,
    /// The other read what it wrote.
    Wr,
    /// The other overwrote what it read.
    Rw,
    /// It was answered before the other was called.
    Time,
    /// Out of a waypoint: the edge into it says why.
    Through,
}

impl Kind {
    fn bit(self) -> u8 {
        1 << self as u8
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Ww => "ww",
            Kind::Wr => "wr",
            Kind::Rw => "rw",
            Kind::Time | Kind::Through => "time",
        }
    }
}

const WW: u8 = 1 << Kind::Ww as u8;
const WR: u8 = 1 << Kind::Wr as u8;
const RW: u8 = 1 << Kind::Rw as u8;
const TIME: u8 = 1 << Kind::Time as u8;
const THROUGH: u8 = 1 << Kind::Through as u8;

/// What kinds of circles are looked for one after the other, the worst first: without edges of time before with.
const LEVELS: [(u8, bool); 8] = [
    (WW, false),
    (WW | WR, false),
    (WW | WR, true),
    (WW | WR | RW, false),
    (WW | TIME, false),
    (WW | WR | TIME, false),
    (WW | WR | TIME, true),
    (WW | WR | RW | TIME, false),
];

/// What an edge is about: a key's number, and what the form that made it wants to remember.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct About {
    pub(crate) key: usize,
    /// A version or a place in a list; `None` for what has none.
    pub(crate) version: Option<u64>,
}

#[derive(Clone, Copy)]
struct Edge {
    from: usize,
    to: usize,
    kind: Kind,
    about: About,
}

/// One step of a circle, from node to node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) kind: Kind,
    pub(crate) about: About,
}

/// The graph while it is built.
pub(crate) struct Graph {
    is_waypoint: Vec<bool>,
    edges: Vec<Edge>,
}

impl Graph {
    /// Of the nodes 0 to `count`, without edges.
    pub(crate) fn new(count: usize) -> Graph {
        Graph {
            is_waypoint: vec![false; count],
            edges: Vec::new(),
        }
    }

    /// A node more.
    pub(crate) fn node(&mut self) -> usize {
        self.is_waypoint.push(false);
        self.is_waypoint.len() - 1
    }

    /// A node that stands for nothing: what points at it comes before all that it points at. It counts for no length, and
    /// explanations leave it out.
    pub(crate) fn waypoint(&mut self) -> usize {
        self.is_waypoint.push(true);
        self.is_waypoint.len() - 1
    }

    /// `from` comes before `to`. Of one node nothing is said.
    pub(crate) fn edge(&mut self, from: usize, to: usize, kind: Kind, about: About) {
        if from != to {
            let kind = if self.is_waypoint[from] {
                Kind::Through
            } else {
                kind
            };
            self.edges.push(Edge {
                from,
                to,
                kind,
                about,
            });
        }
    }

    /// Real time among the transactions of a history that have happened.
    pub(crate) fn edges_of_history<A>(&mut self, history: &Transactions<A>, happened: &[bool]) {
        let all = history.as_slice().iter().enumerate();
        let spans = all
            .filter(|&(index, _)| happened[index])
            .map(|(index, transaction)| (index, transaction.invoked, transaction.ended()));
        self.edges_of_time(&spans.collect::<Vec<_>>());
    }

    /// Real time among nodes with the times of their calls and answers; `u64::MAX` for one without an answer. What is
    /// answered at the moment at which another is called is not before it.
    fn edges_of_time(&mut self, spans: &[(usize, u64, u64)]) {
        let mut calls: Vec<(u64, usize)> = spans.iter().map(|&(node, call, _)| (call, node)).collect();
        let mut answers: Vec<(u64, usize)> = spans
            .iter()
            .filter(|&&(_, _, answer)| answer != u64::MAX)
            .map(|&(node, _, answer)| (answer, node))
            .collect();
        calls.sort_unstable();
        answers.sort_unstable();
        let mut answers = answers.into_iter().peekable();
        let mut barrier = None;
        for (called, node) in calls {
            let mut fresh = None;
            while let Some((_, earlier)) = answers.next_if(|&(answered, _)| answered < called) {
                let to = *fresh.get_or_insert_with(|| self.waypoint());
                self.edge(earlier, to, Kind::Time, About::default());
            }
            if let (Some(last), Some(fresh)) = (barrier, fresh) {
                self.edge(last, fresh, Kind::Through, About::default());
            }
            barrier = fresh.or(barrier);
            if let Some(barrier) = barrier {
                self.edge(barrier, node, Kind::Through, About::default());
            }
        }
    }

    /// A circle of the worst kind that there is, as short as was found.
    pub(crate) fn circle(self) -> Option<Vec<Link>> {
        let search = Search::new(self);
        let everything = search.knots(WW | WR | RW | TIME | THROUGH);
        if everything.iter().all(|&knot| knot == 0) {
            return None;
        }
        let circle = LEVELS
            .into_iter()
            .find_map(|(kinds, is_with_one_rw)| search.shortest(kinds, is_with_one_rw));
        assert!(
            circle.as_ref().is_none_or(|circle| circle.len() > 1),
            "what is said of one transaction alone is no edge"
        );
        circle
    }
}

/// The name of a circle, and whether it needs time.
pub(crate) fn name(circle: &[Link]) -> (Phenomenon, bool) {
    let count = |kind| circle.iter().filter(|link| link.kind == kind).count();
    let needs_time = count(Kind::Time) > 0;
    let is_of_one_key = circle.iter().all(|link| link.about.key == circle[0].about.key);
    let phenomenon = match (count(Kind::Rw), count(Kind::Wr)) {
        (0, 0) => Phenomenon::DirtyWrite,
        (0, _) => Phenomenon::CircularFlow,
        (1, 0) if is_of_one_key && !needs_time => Phenomenon::LostUpdate,
        (1, _) => Phenomenon::SingleAntiDependency,
        _ => Phenomenon::AntiDependencies,
    };
    (phenomenon, needs_time)
}

/// Why time puts one transaction before another.
pub(crate) fn reason_of_time<A>(history: &Transactions<A>, link: &Link) -> String {
    let (from, to) = (link.from, link.to);
    match (history.as_slice().get(from), history.as_slice().get(to)) {
        (Some(earlier), Some(later)) => format!(
            "T{from} was answered at {}, before T{to} was called at {}",
            earlier.ended(),
            later.invoked
        ),
        _ => format!("T{from} was answered before T{to} was called"),
    }
}

/// The graph as it is searched: the edges of each node side by side.
struct Search {
    is_waypoint: Vec<bool>,
    edges: Vec<Edge>,
    /// Where the edges of each node begin, and one more.
    starts: Vec<usize>,
}

/// What a walk from one node remembers of the others. Kept from walk to walk: only what was touched is forgotten.
struct Walk {
    distance: Vec<usize>,
    by: Vec<usize>,
    touched: Vec<usize>,
    looked_at: usize,
}

impl Search {
    fn new(graph: Graph) -> Search {
        let Graph {
            is_waypoint,
            mut edges,
        } = graph;
        // Stable, so that the explanation is the same whenever the history is.
        edges.sort_by_key(|edge| edge.from);
        let mut starts = vec![0; is_waypoint.len() + 1];
        for edge in &edges {
            starts[edge.from + 1] += 1;
        }
        for node in 0..is_waypoint.len() {
            starts[node + 1] += starts[node];
        }
        Search {
            is_waypoint,
            edges,
            starts,
        }
    }

    /// Tarjan's algorithm without recursion over the edges of some kinds: for each node the number of its knot, from 1, or 0
    /// for a node that is in no circle.
    fn knots(&self, kinds: u8) -> Vec<usize> {
        let count = self.is_waypoint.len();
        let mut knots = vec![0; count];
        let mut knot = 0;
        // When each node was met, from 1; the earliest node that it reaches; where its next edge is.
        let mut met = vec![0; count];
        let mut low = vec![0; count];
        let mut next = self.starts[..count].to_vec();
        let mut is_waiting = vec![false; count];
        let mut waiting = Vec::new();
        let mut path = Vec::new();
        let mut time = 0;
        for root in 0..count {
            if met[root] > 0 {
                continue;
            }
            path.push(root);
            while let Some(&node) = path.last() {
                if met[node] == 0 {
                    time += 1;
                    met[node] = time;
                    low[node] = time;
                    is_waiting[node] = true;
                    waiting.push(node);
                }
                let end = self.starts[node + 1];
                let mut deeper = None;
                while next[node] < end && deeper.is_none() {
                    let edge = &self.edges[next[node]];
                    next[node] += 1;
                    if kinds & edge.kind.bit() == 0 {
                        continue;
                    }
                    if met[edge.to] == 0 {
                        deeper = Some(edge.to);
                    } else if is_waiting[edge.to] {
                        low[node] = low[node].min(met[edge.to]);
                    }
                }
                if let Some(deeper) = deeper {
                    path.push(deeper);
                    continue;
                }
                path.pop();
                if let Some(&parent) = path.last() {
                    low[parent] = low[parent].min(low[node]);
                }
                if low[node] == met[node] {
                    let from = waiting
                        .iter()
                        .rposition(|&other| other == node)
                        .expect("a node waits until its knot is known");
                    knot += usize::from(waiting.len() - from > 1);
                    let number = if waiting.len() - from > 1 { knot } else { 0 };
                    for member in waiting.drain(from..) {
                        is_waiting[member] = false;
                        knots[member] = number;
                    }
                }
            }
        }
        knots
    }

    /// A short circle of these kinds of edges; with exactly one `rw` edge beside them if that is asked.
    fn shortest(&self, kinds: u8, is_with_one_rw: bool) -> Option<Vec<Link>> {
        let kinds = kinds | THROUGH;
        let knots = self.knots(if is_with_one_rw { kinds | RW } else { kinds });
        let mut walk = Walk::new(self.is_waypoint.len());
        let mut best: Option<(usize, Vec<usize>)> = None;
        // Where to walk from, where to, and the edge that closes the circle.
        let closing: Vec<(usize, usize, Option<usize>)> = if is_with_one_rw {
            (0..self.edges.len())
                .filter(|&index| {
                    let Edge { from, to, kind, .. } = self.edges[index];
                    kind == Kind::Rw && knots[from] > 0 && knots[from] == knots[to]
                })
                .map(|index| (self.edges[index].to, self.edges[index].from, Some(index)))
                .collect()
        } else {
            (0..knots.len())
                .filter(|&node| knots[node] > 0 && !self.is_waypoint[node])
                .map(|node| (node, node, None))
                .collect()
        };
        for (from, to, closed_by) in closing {
            let bound = best.as_ref().map_or(usize::MAX, |(length, _)| *length);
            if bound <= 2 || walk.looked_at > EDGES_LOOKED_AT_MAX {
                break;
            }
            if let Some(way) = self.walk(&mut walk, from, to, kinds, &knots) {
                let circle: Vec<usize> = closed_by.into_iter().chain(way).collect();
                let length = self.length(&circle);
                if length < bound {
                    best = Some((length, circle));
                }
            }
        }
        best.map(|(_, circle)| self.links(&circle))
    }

    /// How many nodes that are no waypoints a circle has.
    fn length(&self, circle: &[usize]) -> usize {
        let is_node = |&&index: &&usize| !self.is_waypoint[self.edges[index].to];
        circle.iter().filter(is_node).count()
    }

    /// The way from one node to another with the fewest nodes that are no waypoints, inside of their knot, as edges.
    fn walk(
        &self,
        walk: &mut Walk,
        from: usize,
        to: usize,
        kinds: u8,
        knots: &[usize],
    ) -> Option<Vec<usize>> {
        walk.forget();
        let mut queue = VecDeque::from([(0, from)]);
        while let Some((distance, node)) = queue.pop_front() {
            let is_start = distance == 0 && node == from && walk.distance[node] == usize::MAX;
            if !is_start && distance > walk.distance[node] {
                continue;
            }
            if node == to && !is_start {
                return Some(walk.way(&self.edges, from, to));
            }
            for index in self.starts[node]..self.starts[node + 1] {
                walk.looked_at += 1;
                let edge = &self.edges[index];
                if kinds & edge.kind.bit() == 0 || knots[edge.to] != knots[from] {
                    continue;
                }
                let is_free = self.is_waypoint[edge.to];
                let reached = distance + usize::from(!is_free);
                if reached < walk.distance[edge.to] {
                    walk.reach(edge.to, reached, index);
                    if is_free {
                        queue.push_front((reached, edge.to));
                    } else {
                        queue.push_back((reached, edge.to));
                    }
                }
            }
        }
        None
    }

    /// The steps of a circle of edges without its waypoints, beginning at the transaction that was called first.
    fn links(&self, circle: &[usize]) -> Vec<Link> {
        let first = circle
            .iter()
            .position(|&index| !self.is_waypoint[self.edges[index].from])
            .expect("waypoints alone are in no circle");
        let mut links: Vec<Link> = Vec::new();
        for step in 0..circle.len() {
            let Edge {
                from,
                to,
                kind,
                about,
            } = self.edges[circle[(first + step) % circle.len()]];
            match links.last_mut() {
                Some(link) if self.is_waypoint[from] => link.to = to,
                _ => links.push(Link {
                    from,
                    to,
                    kind,
                    about,
                }),
            }
        }
        let earliest = links
            .iter()
            .enumerate()
            .min_by_key(|(_, link)| link.from)
            .map_or(0, |(index, _)| index);
        links.rotate_left(earliest);
        links
    }
}

impl Walk {
    fn new(count: usize) -> Walk {
        Walk {
            distance: vec![usize::MAX; count],
            by: vec![0; count],
            touched: Vec::new(),
            looked_at: 0,
        }
    }

    fn forget(&mut self) {
        for node in self.touched.drain(..) {
            self.distance[node] = usize::MAX;
        }
    }

    fn reach(&mut self, node: usize, distance: usize, by: usize) {
        if self.distance[node] == usize::MAX {
            self.touched.push(node);
        }
        self.distance[node] = distance;
        self.by[node] = by;
    }

    /// The edges that led from one node to the other.
    fn way(&self, edges: &[Edge], from: usize, to: usize) -> Vec<usize> {
        let mut way = vec![self.by[to]];
        let mut node = edges[self.by[to]].from;
        while node != from {
            way.push(self.by[node]);
            node = edges[self.by[node]].from;
        }
        way.reverse();
        way
    }
}

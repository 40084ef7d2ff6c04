//! Labels: the least cost at which each vertex of a graph is reached from anywhere, as far as it is known.
//!
//! All labels begin at zero, as if each vertex was reached for nothing. Whoever looks at a vertex offers its edges; a label that gets less is
//! looked at in the next turn (Bellman and Ford). If there is a cycle of negative cost, one shows among the edges by which labels were got.
//!
//! When edges change, labels stay: whatever they are, there is no such cycle once no edge has anything to offer.
//!
//! Invariant: the label of a vertex is no less than that of the one it is from and the cost of the edge between them.

#[derive(Default)]
pub(crate) struct Labels {
    cost: Vec<i64>,
    /// By an edge from where a vertex got its label.
    from: Vec<Option<usize>>,
    /// Those that have one.
    touched: Vec<usize>,
    /// Those whose edges are to be looked at.
    next: Vec<usize>,
    is_next: Vec<bool>,
    /// By which walk along `from` a vertex was met last.
    met: Vec<usize>,
    walks: usize,
}

impl Labels {
    pub(crate) fn new(count: usize) -> Labels {
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

    pub(crate) fn look_at(&mut self, at: usize) {
        if !self.is_next[at] {
            self.is_next[at] = true;
            self.next.push(at);
        }
    }

    /// What is to be looked at, once.
    pub(crate) fn turn(&mut self) -> Vec<usize> {
        let turn = std::mem::take(&mut self.next);
        turn.iter().for_each(|&at| self.is_next[at] = false);
        turn
    }

    /// There is an edge of this cost.
    pub(crate) fn offer(&mut self, from: usize, to: usize, cost: i64) {
        let cost = self.cost[from] + cost;
        if cost < self.cost[to] {
            if self.from[to].is_none() {
                self.touched.push(to);
            }
            (self.cost[to], self.from[to]) = (cost, Some(from));
            self.look_at(to);
        }
    }

    /// Edges have changed: forgets by which labels were got that could not be got by them now. Whose edges they are is to be looked at.
    pub(crate) fn drop_false(&mut self, edge: impl Fn(usize, usize) -> Option<i64>) {
        let (cost, from) = (&self.cost, &mut self.from);
        self.touched.retain(|&to| {
            let is_true =
                |&before: &usize| edge(before, to).is_some_and(|edge| cost[to] >= cost[before] + edge);
            from[to] = from[to].filter(is_true);
            from[to].is_some()
        });
    }

    /// The cycles of `from`, each in the direction of its edges. A vertex has one edge there, so that no two cycles have a vertex in common.
    /// Each costs less than nothing: around it no label is less than the one before and the edge's cost, and the one that closed it was more.
    pub(crate) fn cycles(&mut self) -> Vec<Vec<usize>> {
        let mut cycles = Vec::new();
        let first = self.walks + 1;
        for &start in &self.touched {
            self.walks += 1;
            let mut at = start;
            while self.met[at] < first {
                self.met[at] = self.walks;
                let Some(before) = self.from[at] else {
                    break;
                };
                at = before;
            }
            if self.met[at] == self.walks && self.from[at].is_some() {
                cycles.push(self.cycle(at));
            }
        }
        cycles
    }

    fn cycle(&self, last: usize) -> Vec<usize> {
        let mut cycle = vec![last];
        let mut before = self.from[last];
        while let Some(vertex) = before.filter(|&vertex| vertex != last) {
            cycle.push(vertex);
            before = self.from[vertex];
        }
        cycle.reverse();
        cycle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Edges = Vec<(usize, usize, i64)>;

    fn cost(edges: &Edges, from: usize, to: usize) -> Option<i64> {
        let costs = edges.iter().filter(|edge| (edge.0, edge.1) == (from, to));
        costs.map(|edge| edge.2).min()
    }

    /// Cycles of negative cost, as they are found first.
    fn found(count: usize, edges: &Edges) -> Vec<Vec<usize>> {
        let mut labels = Labels::new(count);
        edges
            .iter()
            .filter(|edge| edge.2 < 0)
            .for_each(|edge| labels.look_at(edge.0));
        loop {
            let turn = labels.turn();
            if turn.is_empty() {
                return Vec::new();
            }
            for vertex in turn {
                let its = edges.iter().filter(|edge| edge.0 == vertex);
                its.for_each(|&(from, to, cost)| labels.offer(from, to, cost));
            }
            let cycles = labels.cycles();
            if !cycles.is_empty() {
                return cycles;
            }
        }
    }

    /// The slow and plain way: whether a walk of some length from a vertex to itself costs less than nothing (Floyd and Warshall).
    fn has_any(count: usize, edges: &Edges) -> bool {
        let mut least = vec![vec![None; count]; count];
        for (from, row) in least.iter_mut().enumerate() {
            for (to, least) in row.iter_mut().enumerate() {
                *least = cost(edges, from, to);
            }
        }
        for by in 0..count {
            for from in 0..count {
                for to in 0..count {
                    if let (Some(one), Some(other)) = (least[from][by], least[by][to]) {
                        let known: Option<i64> = least[from][to];
                        least[from][to] = Some(known.unwrap_or(i64::MAX).min(one + other));
                    }
                }
            }
        }
        (0..count).any(|at| least[at][at].is_some_and(|cost| cost < 0))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_cycle_of_negative_cost_is_found_if_there_is_one(
            edges in prop::collection::vec((0usize..9, 0usize..9, -3i64..9), 0..40),
        ) {
            let cycles = found(9, &edges);
            prop_assert_eq!(!cycles.is_empty(), has_any(9, &edges));
            let mut all = cycles.concat();
            for cycle in &cycles {
                let steps = cycle.iter().zip(cycle.iter().cycle().skip(1));
                let costs = steps.map(|(&from, &to)| cost(&edges, from, to).expect("there is an edge"));
                prop_assert!(costs.sum::<i64>() < 0);
            }
            all.sort_unstable();
            prop_assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "no vertex is in two cycles, or twice in one");
        }
    }
}

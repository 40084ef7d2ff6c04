//! Who is to lead which group.
//!
//! ```text
//!  leads 5        leads 4        leads 3
//!  node a --g1--> node b --g2--> node c       a gives g1 to b, b gives g2 to c: now 4, 4, 4
//! ```
//!
//! Leaderships move along paths from where there is much to where there is little, until no path leads from a node to one
//! that leads two groups less. That is the most even state there is, not only one that no single move improves (Harvey,
//! Ladner, Lovász, Tamir: "Semi-matchings for bipartite graphs and load balancing", 2006). The shortest path is taken, so
//! that little moves.

use crate::placement::Placement;
use ids::NodeId;

/// For each group one of the nodes that may lead it (`None` if there is none), so that no node leads more than needs be:
/// no other choice is more even. Where every node holds the average of replicas, rounded down or up, every node leads the
/// average, rounded down or up. Whoever leads now goes on unless evenness asks for it.
///
/// Of `current`, what is missing or may not lead counts as no leader.
pub fn leaders(may_lead: &Placement, current: &[Option<NodeId>]) -> Vec<Option<NodeId>> {
    let mut nodes: Vec<NodeId> = may_lead.0.iter().flatten().copied().collect();
    nodes.sort_unstable();
    nodes.dedup();
    let find = |node: NodeId| {
        nodes
            .binary_search(&node)
            .expect("all of them were gathered above")
    };
    let mut leading = Leading {
        may_lead: may_lead
            .0
            .iter()
            .map(|of_group| of_group.iter().map(|&node| find(node)).collect())
            .collect(),
        leader: vec![None; may_lead.0.len()],
        groups_of: vec![Vec::new(); nodes.len()],
        loads: vec![0; nodes.len()],
    };
    for (group, of_group) in leading.may_lead.iter().enumerate() {
        of_group
            .iter()
            .for_each(|&node| leading.groups_of[node].push(group));
        let now = current.get(group).copied().flatten();
        leading.leader[group] = now.filter(|node| may_lead.0[group].contains(node)).map(find);
        if let Some(node) = leading.leader[group] {
            leading.loads[node] += 1;
        }
    }
    for group in 0..leading.leader.len() {
        if leading.leader[group].is_none() {
            // Of those that lead least the next one clockwise.
            let fit = leading.may_lead[group].iter().copied();
            if let Some(node) = fit.min_by_key(|&node| leading.loads[node]) {
                leading.leader[group] = Some(node);
                leading.loads[node] += 1;
            }
        }
    }
    leading.even_out();
    let leaders = leading.leader.iter();
    leaders.map(|leader| leader.map(|node| nodes[node])).collect()
}

struct Leading {
    /// For each group the nodes that may lead it. Elsewhere here a node is its place among all nodes.
    may_lead: Vec<Vec<usize>>,
    leader: Vec<Option<usize>>,
    /// For each node the groups that it may lead.
    groups_of: Vec<Vec<usize>>,
    /// For each node how many it leads.
    loads: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Step {
    group: usize,
    from: usize,
    to: usize,
}

enum Path {
    /// From the giver to the taker.
    Found(Vec<Step>),
    /// These nodes are all from which paths lead to the taker, itself among them.
    None { reach: Vec<usize> },
}

impl Leading {
    fn even_out(&mut self) {
        // Nodes to which no path leads from one that leads two more, now or ever: what moves later moves between others.
        let mut is_settled = vec![false; self.loads.len()];
        while let Some(taker) = (0..self.loads.len())
            .filter(|&node| !is_settled[node])
            .min_by_key(|&node| self.loads[node])
        {
            match self.path_to(taker, &is_settled) {
                Path::Found(steps) => steps.iter().for_each(|step| {
                    self.leader[step.group] = Some(step.to);
                    self.loads[step.from] -= 1;
                    self.loads[step.to] += 1;
                }),
                Path::None { reach } => reach.iter().for_each(|&node| is_settled[node] = true),
            }
        }
    }

    /// The shortest path to the taker, of these one from a node that leads most; it leads two more at least.
    fn path_to(&self, taker: usize, is_settled: &[bool]) -> Path {
        let enough = self.loads[taker] + 2;
        let mut step_from: Vec<Option<Step>> = vec![None; self.loads.len()];
        let mut reach = vec![taker];
        let mut layer = 0..1;
        while !layer.is_empty() {
            let mut found = Vec::new();
            for &to in &reach[layer.clone()] {
                for &group in &self.groups_of[to] {
                    let Some(from) = self.leader[group].filter(|&from| from != taker) else {
                        continue;
                    };
                    if !is_settled[from] && from != to && step_from[from].is_none() {
                        step_from[from] = Some(Step { group, from, to });
                        found.push(from);
                    }
                }
            }
            let givers = found.iter().copied().filter(|&node| self.loads[node] >= enough);
            if let Some(giver) = givers.max_by_key(|&node| self.loads[node]) {
                let mut steps = Vec::new();
                let mut at = giver;
                while let Some(step) = step_from[at] {
                    steps.push(step);
                    at = step.to;
                }
                return Path::Found(steps);
            }
            layer = reach.len()..reach.len() + found.len();
            reach.extend(found);
        }
        Path::None { reach }
    }
}

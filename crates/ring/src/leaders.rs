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
//! that little moves. Of nodes of different weights each leads in proportion to its own.
//!
//! What evenness leaves open is for zones: of two nodes one leads a group more, and that may be in either zone. So a leadership goes to
//! a node that leads one less, in a zone that leads less beside its weight, until that changes nothing.

use crate::circle::RingNode;
use crate::placement::Placement;
use ids::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// For each group one of the nodes that may lead it (`None` if there is none), so that no node leads more than needs be:
/// no other choice is more even. Where every node holds the average of replicas, rounded down or up, every node leads the
/// average, rounded down or up. Whoever leads now goes on unless evenness asks for it.
///
/// Of `current`, what is missing or may not lead counts as no leader. A node that is not among `members` is by itself, and of weight 1.
pub fn leaders(
    members: &[RingNode<'_>],
    may_lead: &Placement,
    current: &[Option<NodeId>],
) -> Vec<Option<NodeId>> {
    let mut nodes: Vec<NodeId> = may_lead.0.iter().flatten().copied().collect();
    nodes.sort_unstable();
    nodes.dedup();
    let find = |node: NodeId| {
        nodes
            .binary_search(&node)
            .expect("all of them were gathered above")
    };
    let known: BTreeMap<NodeId, &RingNode<'_>> = members.iter().map(|member| (member.node, member)).collect();
    let weights = nodes
        .iter()
        .map(|node| known.get(node).map_or(1, |member| member.weight.max(1)));
    let mut leading = Leading {
        weights: weights.map(u64::from).collect(),
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
            if let Some(node) = fit.min_by_key(|&node| leading.fullness_with(node)) {
                leading.leader[group] = Some(node);
                leading.loads[node] += 1;
            }
        }
    }
    leading.even_out();
    let named = |node: &NodeId| known.get(node).map_or("", |member| member.zone);
    let names: BTreeSet<&str> = nodes.iter().map(named).filter(|name| !name.is_empty()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let zones = nodes.iter().map(|node| names.binary_search(&named(node)).ok());
    leading.even_out_zones(&zones.collect::<Vec<_>>(), names.len());
    let leaders = leading.leader.iter();
    leaders.map(|leader| leader.map(|node| nodes[node])).collect()
}

/// A unit of evenness: much more than groups and weights multiply to, so that rounding decides nothing.
const FULL: u64 = 1 << 40;

struct Leading {
    /// For each node.
    weights: Vec<u64>,
    /// For each group the nodes that may lead it. Elsewhere here a node is its place among all nodes.
    may_lead: Vec<Vec<usize>>,
    leader: Vec<Option<usize>>,
    /// For each node the groups that it may lead.
    groups_of: Vec<Vec<usize>>,
    /// For each node how many it leads.
    loads: Vec<u64>,
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
    /// How much the node leads beside its weight.
    fn fullness(&self, node: usize) -> u64 {
        FULL * self.loads[node] / self.weights[node]
    }

    /// The same, if it led one more.
    fn fullness_with(&self, node: usize) -> u64 {
        FULL * (self.loads[node] + 1) / self.weights[node]
    }

    fn even_out(&mut self) {
        // Nodes to which no path leads from one that leads two more, now or ever: what moves later moves between others.
        let mut is_settled = vec![false; self.loads.len()];
        while let Some(taker) = (0..self.loads.len())
            .filter(|&node| !is_settled[node])
            .min_by_key(|&node| self.fullness_with(node))
        {
            let enough = self.fullness_with(taker);
            let gives = |node: usize| (self.fullness(node) > enough).then(|| self.fullness(node));
            // All others take from nobody who does not give to this one.
            if !(0..self.loads.len()).any(|node| gives(node).is_some()) {
                return;
            }
            match self.path_to(taker, &is_settled, gives) {
                Path::Found(steps) => self.go(&steps),
                Path::None { reach } => reach.iter().for_each(|&node| is_settled[node] = true),
            }
        }
    }

    /// Lets zones lead as evenly as may be while of nodes of one weight as many lead so much as before. `zones` says in which of so many each
    /// node is, if in any.
    fn even_out_zones(&mut self, zones: &[Option<usize>], count: usize) {
        // How many groups each zone leads, and its weight.
        let mut led = vec![(0, 0); count];
        let all = (0..zones.len()).filter_map(|node| Some((node, zones[node]?)));
        let all: Vec<(usize, usize)> = all.collect();
        for &(node, zone) in &all {
            led[zone].0 += self.loads[node];
            led[zone].1 += self.weights[node];
        }
        let fullness = |(groups, weight): (u64, u64), more: u64| FULL * (groups + more) / weight;
        let is_settled = vec![false; zones.len()];
        let mut takers = all.clone();
        while let Some(at) = (0..takers.len()).min_by_key(|&at| fullness(led[takers[at].1], 0)) {
            let (taker, zone_of_taker) = takers[at];
            let enough = fullness(led[zone_of_taker], 1);
            let fullest = led.iter().map(|&zone| fullness(zone, 0)).max();
            let least = led.iter().map(|&zone| fullness(zone, 1)).min();
            if fullest <= least {
                // No zone leads more than any other would with one more.
                return;
            }
            let gives = |node: usize| {
                let is_like =
                    self.weights[node] == self.weights[taker] && self.loads[node] == self.loads[taker] + 1;
                let zone = zones[node].filter(|_| is_like)?;
                Some(fullness(led[zone], 0)).filter(|fullness| *fullness > enough)
            };
            let found = match all.iter().any(|&(node, _)| gives(node).is_some()) {
                true => self.path_to(taker, &is_settled, gives),
                false => Path::None { reach: Vec::new() },
            };
            let Path::Found(steps) = found else {
                takers.remove(at);
                continue;
            };
            let giver = steps.first().expect("a path has a beginning").from;
            self.go(&steps);
            led[zones[giver].expect("who gives is in a zone")].0 -= 1;
            led[zone_of_taker].0 += 1;
            takers.clone_from(&all);
        }
    }

    fn go(&mut self, steps: &[Step]) {
        for step in steps {
            self.leader[step.group] = Some(step.to);
            self.loads[step.from] -= 1;
            self.loads[step.to] += 1;
        }
    }

    /// The shortest path to the taker from a node that gives, of these one that gives most gladly.
    fn path_to(&self, taker: usize, is_settled: &[bool], gives: impl Fn(usize) -> Option<u64>) -> Path {
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
            let givers = found
                .iter()
                .copied()
                .filter_map(|node| Some((gives(node)?, node)));
            if let Some((_, giver)) = givers.max_by_key(|&(gladness, _)| gladness) {
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

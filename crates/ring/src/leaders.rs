//! Who is to lead which group.

use crate::evening::{Loads, even_out};
use crate::placement::Placement;
use ids::NodeId;

/// For each group one of the nodes that may lead it (`None` if there is none), so that no node leads more than needs be:
/// no other choice is more even. Where every node holds the average of replicas or one more or less than that, every
/// node leads the average, rounded up or down. Whoever leads now goes on unless evenness asks for it.
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
    let mut led = Led {
        may_lead: may_lead
            .0
            .iter()
            .map(|of_group| of_group.iter().map(|&node| find(node)).collect())
            .collect(),
        leader: vec![None; may_lead.0.len()],
        groups_of: vec![Vec::new(); nodes.len()],
        loads: vec![0; nodes.len()],
    };
    for (group, of_group) in led.may_lead.iter().enumerate() {
        of_group.iter().for_each(|&node| led.groups_of[node].push(group));
        let now = current.get(group).copied().flatten();
        led.leader[group] = now.filter(|node| may_lead.0[group].contains(node)).map(find);
        if let Some(node) = led.leader[group] {
            led.loads[node] += 1;
        }
    }
    for group in 0..led.leader.len() {
        if led.leader[group].is_none() {
            // Of those that lead least the next one clockwise.
            let least = led.may_lead[group].iter().copied();
            if let Some(node) = least.min_by_key(|&node| led.loads[node]) {
                led.leader[group] = Some(node);
                led.loads[node] += 1;
            }
        }
    }
    even_out(&mut led);
    led.leader
        .iter()
        .map(|leader| leader.map(|node| nodes[node]))
        .collect()
}

struct Led {
    may_lead: Vec<Vec<usize>>,
    leader: Vec<Option<usize>>,
    /// For each node the groups that it may lead.
    groups_of: Vec<Vec<usize>>,
    loads: Vec<usize>,
}

impl Loads for Led {
    const STEPS_MAX: usize = usize::MAX;

    fn len(&self) -> usize {
        self.loads.len()
    }

    fn load(&self, node: usize) -> usize {
        self.loads[node]
    }

    fn each_into(&self, to: usize, f: &mut dyn FnMut(usize, usize)) {
        for &group in &self.groups_of[to] {
            match self.leader[group] {
                Some(from) if from != to => f(from, group),
                _ => {}
            }
        }
    }

    fn reluctance(&self, group: usize, to: usize) -> u64 {
        let place = self.may_lead[group].iter().position(|&node| node == to);
        place.expect("only those that may lead are asked about") as u64
    }

    fn shift(&mut self, group: usize, from: usize, to: usize) {
        self.leader[group] = Some(to);
        self.loads[from] -= 1;
        self.loads[to] += 1;
    }
}

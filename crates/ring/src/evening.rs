//! Evening out: units of load that move along paths from where there is much to where there is little.
//!
//! ```text
//!  load 5         load 4         load 3
//!  node a --g1--> node b --g2--> node c       a gives g1 to b, b gives g2 to c: now 4, 4, 4
//! ```
//!
//! Replicas and leaderships are evened out alike; what may move where is the caller's ([`Loads`]). The end is reached
//! when no path leads from a node to one with two units less. With paths of any length that is the most even state there
//! is, not only one that no single move improves (Harvey, Ladner, Lovász, Tamir: "Semi-matchings for bipartite graphs and
//! load balancing", 2006). The shortest path is taken, so that little moves.

/// What is spread over nodes.
pub(crate) trait Loads {
    /// How many steps a path may have.
    const STEPS_MAX: usize;

    /// How many nodes there are.
    fn len(&self) -> usize;
    /// How many units the node has.
    fn load(&self, node: usize) -> usize;
    /// Calls `f(from, unit)` for every unit that may move from another node to this one.
    fn each_into(&self, to: usize, f: &mut dyn FnMut(usize, usize));
    /// Among several units: the one with the least number moves.
    fn reluctance(&self, unit: usize, to: usize) -> u64;
    /// Moves it.
    fn shift(&mut self, unit: usize, from: usize, to: usize);
}

/// Moves units until no path leads from a node to one that has two less.
pub(crate) fn even_out(loads: &mut impl Loads) {
    // Nodes to which no path leads from one with two units more, now or ever: units only move between the others.
    let mut is_settled = vec![false; loads.len()];
    while let Some(receiver) = (0..loads.len())
        .filter(|&node| !is_settled[node])
        .min_by_key(|&node| loads.load(node))
    {
        let highest = (0..loads.len()).map(|node| loads.load(node)).max();
        if highest.is_none_or(|highest| highest < loads.load(receiver) + 2) {
            return;
        }
        match path_into(loads, receiver, &is_settled) {
            // The end of the path first, so that no node ever has more than it had at the start.
            Path::Found(steps) => steps
                .iter()
                .rev()
                .for_each(|step| loads.shift(step.unit, step.from, step.to)),
            Path::None { reach } => reach.iter().for_each(|&node| is_settled[node] = true),
        }
    }
}

#[derive(Clone, Copy)]
struct Step {
    unit: usize,
    from: usize,
    to: usize,
}

enum Path {
    /// From the giver to the receiver.
    Found(Vec<Step>),
    /// These nodes are all from which paths lead to the receiver, itself among them.
    None { reach: Vec<usize> },
}

/// The shortest path from the fullest node that has two units more than the receiver.
fn path_into<L: Loads>(loads: &L, receiver: usize, is_settled: &[bool]) -> Path {
    let enough = loads.load(receiver) + 2;
    let mut step_from: Vec<Option<Step>> = vec![None; loads.len()];
    let mut reach = vec![receiver];
    let mut layer = 0..1;
    let mut depth = 0;
    while !layer.is_empty() && depth < L::STEPS_MAX {
        depth += 1;
        // Of one layer the fullest giver, then the most willing unit.
        let mut best: Option<(usize, u64, Step)> = None;
        let mut found = Vec::new();
        for &to in &reach[layer.clone()] {
            loads.each_into(to, &mut |from, unit| {
                if from == receiver || is_settled[from] {
                    return;
                }
                let load = loads.load(from);
                let step = Step { unit, from, to };
                if load >= enough {
                    let is_fuller = best.is_none_or(|(most, ..)| load > most);
                    if is_fuller || best.is_some_and(|(most, ..)| load == most) {
                        let reluctance = loads.reluctance(unit, to);
                        if is_fuller || best.is_some_and(|(_, least, _)| reluctance < least) {
                            best = Some((load, reluctance, step));
                        }
                    }
                }
                if step_from[from].is_none() {
                    step_from[from] = Some(step);
                    found.push(from);
                }
            });
        }
        if let Some((_, _, first)) = best {
            let mut steps = vec![first];
            let mut at = first.to;
            while at != receiver {
                let step = step_from[at].expect("every node of a layer was found from the one before");
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

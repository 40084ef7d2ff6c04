//! Whether so many nodes are silent at once that none of them is replaced.
//!
//! A node that is away for long has died, most likely, and others are to have what it had. If a whole zone is away, or many nodes are, then
//! it is more likely the network, or the power of a room: they will be back with what they have, and what is left of the cluster has
//! no room for copies of everything, nor time. Somebody is at work there, who can say that they are gone.

use crate::observations::Observations;
use crate::reconciler::Pace;
use crate::state::State;
use crate::wire::wire_struct;
use ids::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// One of so many nodes, if it is silent, is silent for itself.
const QUARTER: usize = 4;

/// Fewer nodes are never an outage.
const NODES_MIN: usize = 2;

/// What is lost together falls silent within this part of the time after which a node is replaced.
const TOGETHER: u32 = 4;

/// So many nodes are silent at once. Whoever leads the meta group finds that, and tells the others, for operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outage {
    /// The zones that fell silent as a whole; none if it is a quarter of all nodes, from anywhere.
    pub zones: Vec<String>,
    /// The silent nodes that are waited for.
    pub nodes: Vec<NodeId>,
}

wire_struct!(Outage { zones, nodes });

/// A zone of several nodes has fallen silent together, or a quarter of all nodes. Those that have nothing are nobody's loss, and are
/// not counted: nor are those that were replaced, or given up. Nodes that die one after the other are deaths.
pub(crate) fn outage(state: &State, observations: &Observations, pace: &Pace) -> Option<Outage> {
    let counted = state
        .placed_for
        .iter()
        .filter(|id| state.nodes.get(id).is_some_and(|node| !node.is_fenced));
    let silence = |id: &NodeId| {
        let silence = observations.silence.get(id).copied();
        silence.filter(|silent| *silent >= pace.away_after)
    };
    let nodes: Vec<NodeId> = counted
        .clone()
        .filter(|id| silence(id).is_some())
        .copied()
        .collect();
    // By zone, how many nodes there are, and for how long those of them are silent that are.
    let mut zones: BTreeMap<&str, (usize, Vec<Duration>)> = BTreeMap::new();
    for id in counted {
        let (all, silent) = zones.entry(&state.nodes[id].announcement.zone).or_default();
        *all += 1;
        silent.extend(silence(id));
    }
    let together = pace.replace_after / TOGETHER;
    // Nodes that name none are zones of their own.
    let named = zones.iter().filter(|(zone, _)| !zone.is_empty());
    let lost = named
        .filter(|(_, (all, silent))| *all >= NODES_MIN && most_together(silent.clone(), together) == *all);
    let lost: Vec<String> = lost.map(|(zone, _)| (*zone).to_owned()).collect();
    let all: usize = zones.values().map(|(all, _)| all).sum();
    let silent: Vec<Duration> = zones.into_values().flat_map(|(_, silent)| silent).collect();
    let is_quarter = most_together(silent, together) >= NODES_MIN.max(usize::div_ceil(all, QUARTER));
    (is_quarter || !lost.is_empty()).then_some(Outage { zones: lost, nodes })
}

/// Whether there is one.
pub(crate) fn is_outage(state: &State, observations: &Observations, pace: &Pace) -> bool {
    outage(state, observations, pace).is_some()
}

/// How many of these lie within `together` of each other, at most.
fn most_together(mut silent: Vec<Duration>, together: Duration) -> usize {
    silent.sort_unstable();
    let from = |first: usize| silent[first..].partition_point(|other| *other - silent[first] <= together);
    (0..silent.len()).map(from).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_silent_together_is_counted_together() {
        let silent = |seconds: &[u64]| seconds.iter().copied().map(Duration::from_secs).collect();
        let most = |seconds: &[u64]| most_together(silent(seconds), Duration::from_secs(150));
        assert_eq!(most(&[]), 0);
        assert_eq!(most(&[700]), 1);
        assert_eq!(most(&[700, 160]), 1, "one died nine minutes after the other");
        assert_eq!(most(&[700, 550]), 2);
        assert_eq!(most(&[10, 700, 400, 300, 550]), 2);
        assert_eq!(most(&[10, 700, 400, 500, 550]), 3);
    }
}

//! Whether so many nodes are silent at once that none of them is replaced.
//!
//! A node that is away for long has died, most likely, and others are to have what it had. If a whole zone is away, or many nodes are, then
//! it is more likely the network, or the power of a room: they will be back with what they have, and what is left of the cluster has
//! no room for copies of everything, nor time. Somebody is at work there, who can say that they are gone.

use crate::observations::Observations;
use crate::reconciler::Pace;
use crate::state::State;
use ids::NodeId;
use std::collections::BTreeMap;

/// One of so many nodes, if it is silent, is silent for itself.
const QUARTER: usize = 4;

/// Fewer nodes are never an outage.
const NODES_MIN: usize = 2;

/// Whether a zone of several nodes is silent, or a quarter of all nodes. Those that have nothing are nobody's loss, and are not counted:
/// nor are those that were replaced, or given up.
pub(crate) fn is_outage(state: &State, observations: &Observations, pace: &Pace) -> bool {
    let counted = state
        .placed_for
        .iter()
        .filter(|id| state.nodes.get(id).is_some_and(|node| !node.is_fenced));
    let is_silent = |id: &NodeId| {
        let silence = observations.silence.get(id);
        silence.is_some_and(|&silent| silent >= pace.away_after)
    };
    // By zone, how many nodes there are, and how many of them are silent.
    let mut zones: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let (mut all, mut silent) = (0, 0);
    for id in counted {
        let is_silent = usize::from(is_silent(id));
        let zone = zones.entry(&state.nodes[id].announcement.zone).or_default();
        *zone = (zone.0 + 1, zone.1 + is_silent);
        (all, silent) = (all + 1, silent + is_silent);
    }
    // Nodes that name none are zones of their own.
    let is_zone = zones
        .iter()
        .any(|(zone, (all, silent))| !zone.is_empty() && *silent >= NODES_MIN && silent == all);
    is_zone || silent >= NODES_MIN.max(usize::div_ceil(all, QUARTER))
}

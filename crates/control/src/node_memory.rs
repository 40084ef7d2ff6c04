//! How much a node holds, and how much it may: said with its heartbeats, so that nodes are not emptied into others that have no room.
//!
//! Nothing of it is replicated. Whoever leads the meta group judges by what was heard last, before the goal is proposed; what is
//! written meanwhile may fill the others all the same, as it may without anybody leaving.

use crate::state::State;
use crate::wire::wire_struct;
use ids::NodeId;
use std::collections::BTreeMap;

/// Of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeMemory {
    /// Bytes of its data, and of what is lastingly allocated beside them.
    pub used: u64,
    /// How many there may be before writes are refused; 0 if there is no limit, or if keys are evicted at it.
    pub most: u64,
}

wire_struct!(NodeMemory { used, most });

/// Whether what these nodes hold, as far as they are to be emptied by this and were not before, has no room on those that stay. Where
/// nothing is known of one of these, or it has no limit, there is room.
pub(crate) fn is_lacking(state: &State, known: &BTreeMap<NodeId, NodeMemory>, nodes: &[NodeId]) -> bool {
    let stays = |id: &NodeId| state.staying().any(|staying| staying == *id);
    let moved = nodes.iter().filter(|id| stays(id)).filter_map(|id| known.get(id));
    let moved = moved.fold(0, |sum: u64, memory| sum.saturating_add(memory.used));
    let mut room: u64 = 0;
    for id in state.staying().filter(|id| !nodes.contains(id)) {
        match known.get(&id) {
            Some(memory) if memory.most > 0 => {
                room = room.saturating_add(memory.most.saturating_sub(memory.used));
            }
            _ => return false,
        }
    }
    moved > room
}

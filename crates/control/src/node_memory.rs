//! How much a node holds, and how much it may: said with its heartbeats, so that nodes are not emptied into others that have no room, and
//! no more replicas are wanted than have room.
//!
//! Nothing of it is replicated. Whoever leads the meta group judges by what was heard last, before the goal is proposed; what is
//! written meanwhile may fill the others all the same, as it may without anybody leaving.

use crate::group::GroupRef;
use crate::state::State;
use crate::wire::wire_struct;
use ids::NodeId;
use std::collections::BTreeMap;

/// Of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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
    room(state.staying().filter(|id| !nodes.contains(id)), known).is_some_and(|room| moved > room)
}

/// Whether there is no room on the nodes that stay for so many replicas of each group of keys, if that is more than are wanted: each replica
/// takes what one does on the average.
pub(crate) fn is_lacking_for(state: &State, known: &BTreeMap<NodeId, NodeMemory>, replicas: u16) -> bool {
    if replicas <= state.replicas_wanted() {
        return false;
    }
    let groups = || state.groups.iter().filter(|(name, _)| **name != GroupRef::Meta);
    let there = groups().map(|(_, group)| group.members.len() - group.lost.len());
    let (there, wanted) = (
        there.sum::<usize>() as u128,
        groups().count() * usize::from(replicas),
    );
    let used = state.staying().filter_map(|id| known.get(&id));
    let used: u128 = used.map(|memory| u128::from(memory.used)).sum();
    let more = used * (wanted as u128).saturating_sub(there) / there.max(1);
    room(state.staying(), known).is_some_and(|room| more > u128::from(room))
}

/// How much more these nodes may hold, if each of them has a limit.
fn room(nodes: impl Iterator<Item = NodeId>, known: &BTreeMap<NodeId, NodeMemory>) -> Option<u64> {
    let mut room: u64 = 0;
    for id in nodes {
        let memory = known.get(&id).filter(|memory| memory.most > 0)?;
        room = room.saturating_add(memory.most.saturating_sub(memory.used));
    }
    Some(room)
}

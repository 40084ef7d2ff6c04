//! Which nodes hold which group.

use ids::{GroupId, NodeId};

/// For each group its nodes, the next one clockwise from the group's position first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement(pub Vec<Vec<NodeId>>);

impl Placement {
    /// The nodes of a group; none for one beyond the last.
    pub fn of(&self, group: GroupId) -> &[NodeId] {
        self.0.get(group.index()).map_or(&[], Vec::as_slice)
    }

    /// How many replicas there are on how many nodes differently from `before`: those that a node must be given.
    pub fn moves_from(&self, before: &Placement) -> usize {
        let groups = self.0.iter().enumerate();
        groups
            .map(|(group, nodes)| {
                let had = before.0.get(group).map_or(&[][..], Vec::as_slice);
                nodes.iter().filter(|node| !had.contains(node)).count()
            })
            .sum()
    }

    /// How many replicas the node holds.
    pub fn load(&self, node: NodeId) -> usize {
        self.0.iter().filter(|nodes| nodes.contains(&node)).count()
    }
}

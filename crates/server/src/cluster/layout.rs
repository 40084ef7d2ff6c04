//! The cluster as the groups of a node need it: who holds what, and what is to become of it.

use consensus::Members;
use ids::{Boot, Epoch, GroupId, Incarnation, NodeId, SemanticsVersion};
use std::collections::BTreeMap;

/// One version of it, made from what the meta group has committed. Nobody changes it: a later one replaces it.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The version.
    pub epoch: Epoch,
    /// This node.
    pub me: NodeId,
    /// Its present boot.
    pub boot: Boot,
    /// For each group, in order: its replicas, by what the meta group has been told or wants to come.
    pub groups: Vec<GroupLayout>,
    /// The other nodes that are members.
    pub peers: Vec<NodeId>,
    /// The rules that entries may follow.
    pub semantics: SemanticsVersion,
    /// The boots that live, and the newest there has been.
    pub boots: (Boot, Vec<Boot>),
}

/// One group in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupLayout {
    /// Where each replica is, those that are to be added too.
    pub seats: BTreeMap<Incarnation, NodeId>,
    /// What the members are to be, if that is other than they were last known to be.
    pub wanted: Option<Members>,
    /// Who is to lead, if somebody else does.
    pub leader: Option<Incarnation>,
    /// The replica with which the group began, or began again: its state needs nobody's word.
    pub founder: Option<Incarnation>,
}

impl GroupLayout {
    /// The replica on a node.
    pub fn seat_on(&self, node: NodeId) -> Option<Incarnation> {
        let found = self.seats.iter().filter(|(_, seat)| **seat == node);
        // After a node came back empty both are there for a while: the newer one lives.
        found.map(|(incarnation, _)| *incarnation).max()
    }

    /// The nodes with a replica, each once.
    pub fn nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.seats.values().copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

impl Layout {
    /// A node that is alone with all groups.
    pub fn alone(me: NodeId, boot: Boot, groups: u16) -> Layout {
        let group = |number: u16| GroupLayout {
            seats: [(Incarnation(u64::from(number) + 1), me)].into(),
            wanted: None,
            leader: None,
            founder: Some(Incarnation(u64::from(number) + 1)),
        };
        Layout {
            epoch: Epoch(0),
            me,
            boot,
            groups: (0..groups).map(group).collect(),
            peers: Vec::new(),
            semantics: SemanticsVersion::CURRENT,
            boots: (boot, vec![boot]),
        }
    }

    /// A group in it.
    pub fn group(&self, group: GroupId) -> &GroupLayout {
        &self.groups[group.index()]
    }
}

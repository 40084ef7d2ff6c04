//! The cluster as the groups of a node need it: who holds what.

use super::boots::Boots;
use consensus::Durability;
use control::{RoutingMap, Standing};
use ids::{Boot, DurabilityMode, Epoch, GroupId, Groups, Incarnation, NodeId, PartitionId, SemanticsVersion};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One version of it, made from the map that the meta group has committed. Nobody changes it: a later one replaces it.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The version.
    pub epoch: Epoch,
    /// This node.
    pub me: NodeId,
    /// Its present boot.
    pub boot: Boot,
    /// The groups, in order.
    pub groups: Vec<GroupLayout>,
    /// What these host, as the map has it; none where that is as they were founded.
    pub hosted: Option<Groups>,
    /// Partitions that are to go to another group.
    pub wishes: BTreeMap<PartitionId, GroupId>,
    /// The other nodes that are members.
    pub peers: Vec<NodeId>,
    /// The rules that entries may follow.
    pub semantics: SemanticsVersion,
    /// When a write counts as done here.
    pub durability: DurabilityMode,
    /// Counts the changes of that while the node runs.
    pub change: u64,
    /// When it is to, as the map says: the node may not have followed yet.
    pub ordered: DurabilityMode,
    /// The boots that there are, and those that live.
    pub boots: Arc<Boots>,
    /// Where the boots are that are present.
    pub nodes: BTreeMap<Boot, NodeId>,
}

/// One group in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupLayout {
    /// How many times it began anew.
    pub generation: u64,
    /// Where each replica is, those that are to come too.
    pub seats: BTreeMap<Incarnation, NodeId>,
    /// Where members were that have no memory any more: for reports alone.
    pub lost: BTreeMap<Incarnation, NodeId>,
    /// The voter among them, if there is one and no other.
    pub lost_voter: Option<Incarnation>,
    /// Who votes, with memory or without. In ascending order.
    pub voting: Vec<Incarnation>,
    /// How many replicas vote.
    pub voters: u16,
    /// The only voter, if there is one: it needs nobody's word to lead.
    pub bootstrap_replica: Option<Incarnation>,
    /// Whose memory the bootstrap replica begins with, if it has not begun.
    pub recovered_from: Option<Incarnation>,
    /// Who led it when it was last heard of.
    pub leader: Option<NodeId>,
    /// Whether all of this may be old: the meta group has begun anew, and has not heard who leads.
    pub is_unheard: bool,
    /// The nodes that are to keep what they held before it began anew.
    pub former: Vec<NodeId>,
}

impl GroupLayout {
    /// Whether its last generation has ended, and the next has not begun: whoever had a replica is asked what it holds.
    pub(crate) fn is_over(&self) -> bool {
        self.leader.is_none() && self.seats.is_empty() && !self.lost.is_empty()
    }

    /// The replica on a node.
    pub fn seat_on(&self, node: NodeId) -> Option<Incarnation> {
        let found = self.seats.iter().filter(|(_, seat)| **seat == node);
        // After a node came back empty both are there for a while: the newer one lives.
        found.map(|(incarnation, _)| *incarnation).max()
    }

    /// Whether most of those who vote are at such nodes: with fewer it has no leader.
    pub(crate) fn has_majority(&self, is_there: impl Fn(NodeId) -> bool) -> bool {
        let node_of = |voter| self.seats.get(voter);
        let there = self
            .voting
            .iter()
            .filter_map(node_of)
            .filter(|node| is_there(**node));
        there.count() >= control::majority(self.voting.len())
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
    /// What a map says, as node `me` sees it in its boot.
    pub fn of(map: &RoutingMap, me: NodeId, boot: Boot) -> Layout {
        let groups = map.groups.iter().map(|route| {
            let voters = || {
                route
                    .replicas
                    .iter()
                    .filter(|stop| stop.standing == Standing::Voter)
            };
            let votes = |stop: &&control::Stop| stop.standing == Standing::Voter;
            let lost_voters = || route.lost.iter().filter(votes).map(|stop| stop.incarnation);
            let mut voting: Vec<Incarnation> = voters()
                .map(|stop| stop.incarnation)
                .chain(lost_voters())
                .collect();
            voting.sort_unstable();
            GroupLayout {
                generation: route.generation,
                seats: route
                    .replicas
                    .iter()
                    .map(|stop| (stop.incarnation, stop.node))
                    .collect(),
                lost: route
                    .lost
                    .iter()
                    .map(|stop| (stop.incarnation, stop.node))
                    .collect(),
                lost_voter: lost_voters().next().filter(|_| lost_voters().count() == 1),
                voting,
                voters: voters().count() as u16,
                // One whose fellow has lost its memory is not the only one.
                bootstrap_replica: voters()
                    .next()
                    .filter(|_| voters().count() + lost_voters().count() == 1)
                    .map(|stop| stop.incarnation),
                recovered_from: route.recovered_from,
                leader: route.leader,
                is_unheard: route.is_unheard,
                former: route.former.clone(),
            }
        });
        let boots = map.nodes.values().map(|site| site.boot);
        let alive = map
            .nodes
            .values()
            .filter(|site| !site.is_fenced)
            .map(|site| site.boot);
        Layout {
            epoch: map.epoch,
            me,
            boot,
            groups: groups.collect(),
            hosted: map.key_groups(),
            wishes: map.growth.wishes.clone(),
            peers: map.nodes.keys().copied().filter(|node| *node != me).collect(),
            semantics: map.semantics,
            durability: map.durability,
            change: 0,
            ordered: map.durability,
            boots: Arc::new(Boots::new(boots.max().unwrap_or(boot), alive)),
            nodes: map.nodes.iter().map(|(node, site)| (site.boot, *node)).collect(),
        }
    }

    /// Whether groups outlive the processes that hold them.
    pub fn is_durable(&self) -> bool {
        self.durability.writes()
    }

    /// What consensus is told of that.
    pub(crate) fn persistence(&self) -> Durability {
        match self.is_durable() {
            true => Durability::Durable,
            false => Durability::Memory,
        }
    }

    /// The node of a boot, if that is its present one.
    pub fn node_of(&self, boot: Boot) -> Option<NodeId> {
        self.nodes.get(&boot).copied()
    }

    /// A node that is alone with all groups.
    pub fn alone(me: NodeId, boot: Boot, groups: u16) -> Layout {
        let group = |number: u16| GroupLayout {
            seats: [(Incarnation(u64::from(number) + 1), me)].into(),
            bootstrap_replica: Some(Incarnation(u64::from(number) + 1)),
            voting: vec![Incarnation(u64::from(number) + 1)],
            voters: 1,
            ..GroupLayout::default()
        };
        Layout {
            epoch: Epoch(0),
            me,
            boot,
            groups: (0..groups).map(group).collect(),
            hosted: None,
            wishes: BTreeMap::new(),
            peers: Vec::new(),
            semantics: SemanticsVersion::CURRENT,
            durability: DurabilityMode::Memory,
            change: 0,
            ordered: DurabilityMode::Memory,
            boots: Arc::new(Boots::new(boot, [boot])),
            nodes: [(boot, me)].into(),
        }
    }

    /// Of groups that the meta group has not heard of since it began anew, what this node knew before is newer, unless they have
    /// begun anew since.
    pub(crate) fn keep_unheard(&mut self, known: &Layout) {
        for (group, known) in self.groups.iter_mut().zip(&known.groups) {
            if group.is_unheard && group.generation <= known.generation {
                group.clone_from(known);
            }
        }
        self.keep_added(known);
    }

    /// Groups never become fewer. A meta group that has begun anew may not know of the last that were added.
    pub(crate) fn keep_added(&mut self, known: &Layout) {
        let more = known.groups.iter().skip(self.groups.len());
        self.groups.extend(more.cloned());
    }

    /// A group in it: one that is used here.
    ///
    /// # Panics
    /// If it was added by a later layout.
    #[track_caller]
    pub fn group(&self, group: GroupId) -> &GroupLayout {
        &self.groups[group.index()]
    }

    /// A group that others have named, unless it was added by a later layout.
    pub(crate) fn find(&self, group: GroupId) -> Option<&GroupLayout> {
        self.groups.get(group.index())
    }
}

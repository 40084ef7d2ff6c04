//! The routing table that every node holds: who has what, and where to reach them.
//!
//! A node knows from it, too, which replicas it is to have. One that the map does not name any more, at an epoch above the
//! one at which it began, has no part in its group: the group has removed it, and then it is dropped, or has begun anew
//! without it, and then what it holds is kept for as long as `former` names the node. One that it names and
//! that is not there is to begin: as a learner with nothing; or, if it is the only voter, with the memory of `recovered_from`, or
//! with nothing where that is not set. What it says of a group that is unheard, a node that knows more passes over.
//!
//! The leader is a guess that was true once. Whoever is wrong is told so by the group itself.

use crate::goal::{MovePause, NodeGoal};
use crate::group::{Group, GroupMember, GroupRef, MemberRole};
use crate::growth_state::GrowthState;
use crate::node::Node;
use crate::permit::StopPermit;
use crate::state::State;
use crate::wire::{self, Wire, wire_enum, wire_struct};
use codec::{DecodeError, Reader};
use ids::{
    Boot, ClusterId, DurabilityMode, Epoch, GroupCount, Groups, Incarnation, NodeId, PartitionCount,
    SemanticsVersion,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The format in which maps are written.
const FORMAT: u8 = 4;

/// The table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutingMap {
    /// Of two maps the one with the larger epoch is the newer.
    pub epoch: Epoch,
    /// Which cluster. None before there is one.
    pub cluster: Option<ClusterId>,
    /// The rules that entries follow.
    pub semantics: SemanticsVersion,
    /// When a write counts as done.
    pub durability: DurabilityMode,
    /// All nodes. Maps that follow each other share what has not changed.
    pub nodes: BTreeMap<NodeId, Arc<Site>>,
    /// The meta group.
    pub meta: Route,
    /// How many partitions the groups of keys host. None before there is a cluster.
    pub partitions: Option<PartitionCount>,
    /// The groups of keys, in order; shared likewise.
    pub groups: Vec<Arc<Route>>,
    /// Whether nothing moves but what repairs.
    pub pause: Option<MovePause>,
    /// Whether everything is being placed anew.
    pub rebalance: Option<Moving>,
    /// Whether groups of keys are to have another number of replicas than some have.
    pub resize: Option<Resizing>,
    /// The nodes that may stop.
    pub permits: BTreeMap<NodeId, StopPermit>,
    /// What has come of the cluster's growth.
    pub growth: GrowthState,
}

/// Everything is being placed anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moving {
    /// See [`Rebalance::since`](crate::Rebalance::since).
    pub since: Epoch,
    /// How many replicas are not where they are to be; none before they are placed.
    pub left: Option<u64>,
}

wire_struct!(Moving { since, left });

/// Groups of keys are to have another number of replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resizing {
    /// See [`Resize::since`](crate::Resize::since).
    pub since: Epoch,
    /// How many.
    pub wanted: u16,
    /// How many replicas are not where they are to be; none before they are placed.
    pub left: Option<u64>,
}

wire_struct!(Resizing { since, wanted, left });

/// Where a node is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// Its last start.
    pub boot: Boot,
    /// Whether that start is dead.
    pub is_fenced: bool,
    /// What is to become of it.
    pub goal: NodeGoal,
    /// Where clients reach the any-node endpoint.
    pub client: String,
    /// What it shares its fate with; may be empty.
    pub zone: String,
    /// What it is called; may be empty.
    pub name: String,
    /// Where clients reach the cluster endpoint.
    pub cluster: String,
    /// Where other nodes reach it.
    pub peer: String,
}

/// Where a group is. At most 64 bytes, as long as it is not being moved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Route {
    /// How many times it began anew.
    pub generation: u64,
    /// Who led it when it was last heard of.
    pub leader: Option<NodeId>,
    /// Whose memory the only voter begins with, if it has not begun yet.
    pub recovered_from: Option<Incarnation>,
    /// Its replicas, without those that have no memory any more.
    pub replicas: Vec<Stop>,
    /// Members that have no memory any more, and that the group has not removed yet: whoever leads it names them in its reports,
    /// even if it began after they ended. None of them is to begin, or to be talked to.
    pub lost: Vec<Stop>,
    /// Whether all of this may be old: see [`Group::is_unheard`].
    pub is_unheard: bool,
    /// The nodes that are to keep what they held of it before it began anew, or before their machines went down uncleanly.
    pub former: Vec<NodeId>,
}

/// One replica of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// Where.
    pub node: NodeId,
    /// Whose memory.
    pub incarnation: Incarnation,
    /// What it is in its group.
    pub standing: Standing,
}

/// What a replica is in its group, as far as the map knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It votes.
    Voter,
    /// It is being filled, or follows.
    Learner,
    /// Its group has not taken it in yet.
    Expected,
}

wire_enum!(Standing { 1 Voter {}, 2 Learner {}, 3 Expected {} });
wire_struct!(Stop {
    node,
    incarnation,
    standing
});
wire_struct!(Route {
    generation,
    leader,
    recovered_from,
    replicas,
    lost,
    is_unheard,
    former
});
wire_struct!(RoutingMap {
    epoch,
    cluster,
    semantics,
    durability,
    nodes,
    meta,
    partitions,
    groups
} last pause rebalance resize permits growth);

/// Divides what a node says of itself beside its addresses.
const DIVIDER: char = '\0';

/// What a node that stays, and names neither itself nor a zone, does not have is not written: the goal stands in the flag, zone and name
/// behind the address for clients, in its text. Nobody dials that address by the map.
impl Wire for Site {
    fn put(&self, out: &mut Vec<u8>) {
        self.boot.put(out);
        let goal: u8 = match self.goal {
            NodeGoal::Stays => 0,
            NodeGoal::Drains => 1,
            NodeGoal::Leaves => 2,
            NodeGoal::Left => 3,
        };
        out.push(goal << 1 | u8::from(self.is_fenced));
        let mut client = self.client.clone();
        for part in [&self.zone, &self.name] {
            client.push(DIVIDER);
            client.push_str(part);
        }
        client.trim_end_matches(DIVIDER).to_owned().put(out);
        self.cluster.put(out);
        self.peer.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Site, DecodeError> {
        let boot = Wire::take(input)?;
        let flag = input.u8()?;
        let goal = match flag >> 1 {
            0 => NodeGoal::Stays,
            1 => NodeGoal::Drains,
            2 => NodeGoal::Leaves,
            3 => NodeGoal::Left,
            _ => return Err(input.error("a goal of a node")),
        };
        let text = String::take(input)?;
        let mut parts = text.splitn(3, DIVIDER);
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let (client, zone, name) = (part(), part(), part());
        if text.ends_with(DIVIDER) || name.contains(DIVIDER) {
            return Err(input.error("a zone and a name"));
        }
        Ok(Site {
            boot,
            is_fenced: flag & 1 == 1,
            goal,
            client,
            zone,
            name,
            cluster: Wire::take(input)?,
            peer: Wire::take(input)?,
        })
    }
}

impl RoutingMap {
    /// The map of this state.
    pub fn of(state: &State) -> RoutingMap {
        RoutingMap::following(None, state)
    }

    /// The same, which shares what has not changed with one of before.
    pub(crate) fn following(before: Option<&RoutingMap>, state: &State) -> RoutingMap {
        let nodes = state.nodes().iter().map(|(&id, node)| {
            let known = before.and_then(|before| before.nodes.get(&id));
            let known = known.filter(|site| site.is_of(node)).cloned();
            (id, known.unwrap_or_else(|| Arc::new(Site::of(node))))
        });
        let groups = state.groups();
        let data = groups.iter().filter(|(name, _)| **name != GroupRef::Meta);
        let route = |(place, (_, group)): (usize, (&GroupRef, &Group))| {
            let known = before.and_then(|before| before.groups.get(place));
            let known = known.filter(|route| route.is_of(group)).cloned();
            known.unwrap_or_else(|| Arc::new(Route::of(group)))
        };
        RoutingMap {
            epoch: state.epoch(),
            cluster: state.cluster(),
            semantics: state.semantics(),
            durability: state.durability(),
            nodes: nodes.collect(),
            meta: groups.get(&GroupRef::Meta).map(Route::of).unwrap_or_default(),
            partitions: state.partition_count(),
            groups: data.enumerate().map(route).collect(),
            pause: state.pause(),
            rebalance: state.rebalance().map(|rebalance| Moving {
                since: rebalance.since,
                left: rebalance.is_placed.then(|| state.moves_left()),
            }),
            resize: state.resize().map(|resize| Resizing {
                since: resize.since,
                wanted: state.replicas_wanted(),
                left: state.is_placed_for_wanted().then(|| state.moves_left()),
            }),
            permits: state.permits().clone(),
            growth: state.growth.clone(),
        }
    }

    /// The groups of keys, and what they host. None before there is a cluster.
    pub fn key_groups(&self) -> Option<Groups> {
        let count = GroupCount::new(u16::try_from(self.groups.len()).ok()?)?;
        self.growth.groups(count, self.partitions?)
    }

    /// How many partitions are to move to other groups before each hosts its share.
    pub fn partitions_left(&self) -> usize {
        self.key_groups().map_or(0, crate::growth::partitions_left)
    }

    /// Where a group is. None before there is a cluster.
    pub fn route(&self, group: GroupRef) -> Option<&Route> {
        match group {
            GroupRef::Meta => Some(&self.meta),
            GroupRef::Data(group) => self.groups.get(group.index()).map(|route| &**route),
        }
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(FORMAT, self)
    }

    /// From bytes. Total.
    ///
    /// # Errors
    /// If they are not what `encode` writes.
    pub fn decode(bytes: &[u8]) -> Result<RoutingMap, DecodeError> {
        wire::decode(FORMAT, bytes)
    }
}

impl Site {
    fn of(node: &Node) -> Site {
        Site {
            boot: node.boot,
            is_fenced: node.is_fenced,
            goal: node.goal,
            client: node.announcement.client.clone(),
            zone: node.announcement.zone.clone(),
            name: node.announcement.name.clone(),
            cluster: node.announcement.cluster.clone(),
            peer: node.announcement.peer.clone(),
        }
    }

    /// Whether it says of the node what [`Site::of`] would.
    fn is_of(&self, node: &Node) -> bool {
        let said = &node.announcement;
        (self.boot, self.is_fenced, self.goal) == (node.boot, node.is_fenced, node.goal)
            && (&self.client, &self.zone, &self.name) == (&said.client, &said.zone, &said.name)
            && (&self.cluster, &self.peer) == (&said.cluster, &said.peer)
    }
}

impl Stop {
    fn of(member: &GroupMember) -> Stop {
        Stop {
            node: member.node,
            incarnation: member.incarnation,
            standing: match member.role {
                MemberRole::Voter => Standing::Voter,
                MemberRole::Learner => Standing::Learner,
            },
        }
    }
}

impl Route {
    fn of(group: &Group) -> Route {
        Route {
            generation: group.generation,
            leader: group.leader,
            recovered_from: group.recovered_from,
            replicas: Route::replicas_of(group).collect(),
            lost: Route::lost_of(group).collect(),
            is_unheard: group.is_unheard,
            former: group.former.clone(),
        }
    }

    /// Whether it says of the group what [`Route::of`] would.
    fn is_of(&self, group: &Group) -> bool {
        self.generation == group.generation
            && self.leader == group.leader
            && self.recovered_from == group.recovered_from
            && self.is_unheard == group.is_unheard
            && self.former == group.former
            && self.replicas.iter().copied().eq(Route::replicas_of(group))
            && self.lost.iter().copied().eq(Route::lost_of(group))
    }

    fn replicas_of(group: &Group) -> impl Iterator<Item = Stop> {
        let members = group
            .members
            .iter()
            .filter(|member| !is_without_part(group, member));
        let expected = group.expected.iter().map(|expected| Stop {
            node: expected.node,
            incarnation: expected.incarnation,
            standing: Standing::Expected,
        });
        members.map(Stop::of).chain(expected)
    }

    fn lost_of(group: &Group) -> impl Iterator<Item = Stop> {
        let members = group
            .members
            .iter()
            .filter(|member| is_without_part(group, member));
        members.map(Stop::of)
    }
}

/// Whether a member has lost its memory. Nobody has a part in a generation that is over.
fn is_without_part(group: &Group, member: &GroupMember) -> bool {
    group.is_over() || group.is_lost(member.incarnation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_without_zone_and_name_is_written_as_ever() {
        let site = |zone: &str, name: &str| Site {
            boot: Boot(1),
            is_fenced: false,
            goal: NodeGoal::Stays,
            client: "a:1".to_owned(),
            zone: zone.to_owned(),
            name: name.to_owned(),
            cluster: "a:2".to_owned(),
            peer: "a:3".to_owned(),
        };
        for (zone, name) in [("", ""), ("z", ""), ("", "n"), ("z", "n")] {
            let bytes = wire::encode(1, &site(zone, name));
            assert_eq!(wire::decode(1, &bytes), Ok(site(zone, name)));
        }
        assert_eq!(wire::encode(1, &site("", "")), b"\x01\x01\0\x03a:1\x03a:2\x03a:3");
        for text in [
            &b"\x01\x01\0\x04a:1\0\x03a:2\x03a:3"[..],
            b"\x01\x01\0\x08a:1\0z\0n\0\x03a:2\x03a:3",
        ] {
            assert!(wire::decode::<Site>(1, text).is_err(), "a value has one encoding");
        }
    }

    #[test]
    fn a_group_takes_64_bytes_at_most() {
        let stop = |number: u64| Stop {
            node: NodeId(16_000 + number),
            incarnation: Incarnation((1 << 34) + number),
            standing: Standing::Voter,
        };
        let route = Route {
            generation: 100,
            leader: Some(NodeId(16_000)),
            recovered_from: None,
            replicas: (0..6u64).map(stop).collect(),
            ..Route::default()
        };
        let bytes = wire::encode(FORMAT, &route).len() - 1;
        assert!(bytes <= 64, "{bytes}");
    }
}

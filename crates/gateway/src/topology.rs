//! Who leads which slots, and how clients of Redis Cluster are told.
//!
//! Groups are ranges of slots; several in a row may be led by one node, and are shown as one range. Redis Cluster knows
//! masters, which have slots, and replicas, which have one master each. Here a node leads some groups and follows others:
//!
//! - A node that leads any group is shown as a master, and never as a replica of another. Clients remember one role for
//!   each node, some of them the first they meet, and would leave it out when they ask all masters.
//! - A node that leads none is shown as a replica: with the slots of each group that it follows, and, where one master
//!   must be named, of the leader of the first such group.
//! - A node that does neither is a master without slots, as a new one is in Redis Cluster.
//!
//! Everything here is a value: what it is made of changes with the map, and another one is made.

use command::ReplyError;
use ids::{Epoch, GroupId, Groups, Slot, UnixMillis};
use resp::ReplyWriter;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

/// What nodes are called in front of clients: forty hexadecimal digits, the same for as long as the node is a member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct NodeName(pub [u8; 20]);

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A node's place in the list of nodes that a [`Topology`] was made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeIndex(pub u16);

/// One node as clients are told of it.
#[derive(Clone, Debug)]
pub struct TopologyNode {
    /// Its name.
    pub name: NodeName,
    /// The name or address where clients reach it. Empty for a node that was not told: then clients are told the address
    /// at which they reached it.
    pub host: String,
    /// The port of its cluster endpoint.
    pub port: u16,
    /// What it shares its fate with; empty if it has not said.
    pub zone: String,
    /// The port where other nodes reach it; 0 if it has none.
    pub peer_port: u16,
    /// Whether it is well, as far as this node knows.
    pub health: NodeHealth,
    /// When this node last heard of it; 0 of itself.
    pub heard_at: UnixMillis,
    /// The connection from this node to it, while there is one.
    pub link: Option<PeerLink>,
    /// The epoch in which its part of the map last changed.
    pub epoch: Epoch,
}

/// Whether a node is well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeHealth {
    /// It is.
    Online,
    /// It has been silent for some time.
    Suspected,
    /// It is taken for lost.
    Failed,
}

/// A connection between nodes, as `CLUSTER LINKS` shows it.
#[derive(Clone, Copy, Debug)]
pub struct PeerLink {
    /// When it was made.
    pub connected_at: UnixMillis,
    /// Bytes that its buffer has room for.
    pub buffer_bytes: u64,
    /// Bytes that wait to be sent.
    pub waiting_bytes: u64,
}

/// What a node knows of its connections to another, while there are any.
#[derive(Clone, Copy, Debug)]
pub struct LinkStatus {
    /// When it last heard of it.
    pub heard_at: UnixMillis,
    /// The connections, as if they were one.
    pub link: PeerLink,
}

/// The connections of a node, by the names of those at their other ends.
pub type Links = BTreeMap<NodeName, LinkStatus>;

/// Who has a group.
#[derive(Clone, Debug)]
pub struct GroupPlacement {
    /// Who leads it, as last heard; nobody if that was never heard.
    pub leader: Option<NodeIndex>,
    /// Who has a copy beside the leader.
    pub followers: Vec<NodeIndex>,
}

/// The cluster as this node knows it.
#[derive(Clone, Debug)]
pub struct Topology {
    own: NodeIndex,
    nodes: Vec<TopologyNode>,
    groups: Groups,
    /// One for each group.
    placements: Vec<GroupPlacement>,
    epoch: Epoch,
    /// Whether this node leads every group.
    leads_all: bool,
    roles: Vec<Role>,
    /// All slots that are led, in order; neighbours that the same nodes have are one range.
    ranges: Vec<Range>,
}

/// What a node is in the words of Redis Cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Master,
    ReplicaOf(NodeIndex),
}

/// Slots in a row that the same nodes have: the first, the last, who leads them and who else is shown with them.
#[derive(Clone, Debug)]
struct Range {
    first: Slot,
    last: Slot,
    leader: NodeIndex,
    replicas: Vec<NodeIndex>,
}

impl Topology {
    /// The same, with what is known of connections now.
    pub(crate) fn linked(&self, links: &Links) -> Topology {
        let mut linked = self.clone();
        for node in &mut linked.nodes {
            let status = links.get(&node.name);
            node.link = status.map(|status| status.link);
            node.heard_at = status.map_or(node.heard_at, |status| status.heard_at);
        }
        linked
    }

    /// The cluster of these nodes. `placements` has one entry for each group.
    ///
    /// # Panics
    /// If it has not, or names a node that is not there.
    pub fn new(
        own: NodeIndex,
        nodes: Vec<TopologyNode>,
        groups: Groups,
        placements: Vec<GroupPlacement>,
        epoch: Epoch,
    ) -> Topology {
        assert_eq!(
            placements.len(),
            usize::from(groups.get()),
            "one entry for each group"
        );
        let named = placements
            .iter()
            .flat_map(|placement| placement.leader.iter().chain(&placement.followers))
            .chain([&own]);
        for node in named {
            assert!(usize::from(node.0) < nodes.len(), "{node:?} of {}", nodes.len());
        }
        let roles: Vec<Role> = (0..nodes.len())
            .map(|node| role_of(NodeIndex(node as u16), &placements))
            .collect();
        let ranges = ranges_of(groups, &placements, &roles);
        Topology {
            leads_all: placements.iter().all(|placement| placement.leader == Some(own)),
            own,
            nodes,
            groups,
            placements,
            epoch,
            roles,
            ranges,
        }
    }

    /// A node by itself, which leads every group.
    pub fn alone(name: NodeName, host: String, port: u16, groups: Groups) -> Topology {
        let own = NodeIndex(0);
        let node = TopologyNode {
            name,
            host,
            port,
            zone: String::new(),
            peer_port: 0,
            health: NodeHealth::Online,
            heard_at: UnixMillis(0),
            link: None,
            epoch: Epoch(0),
        };
        let placement = GroupPlacement {
            leader: Some(own),
            followers: Vec::new(),
        };
        let placements = vec![placement; usize::from(groups.get())];
        Topology::new(own, vec![node], groups, placements, Epoch(0))
    }

    /// Whether this node leads every group: then nothing is ever to be found elsewhere.
    #[inline]
    pub fn leads_all(&self) -> bool {
        self.leads_all
    }

    /// Whether this node leads `group`.
    #[inline]
    pub fn leads(&self, group: GroupId) -> bool {
        // Of a group that was added since it was made nothing is known.
        let placement = self.placements.get(group.index());
        placement.is_some_and(|placement| placement.leader == Some(self.own))
    }

    /// Whether this node has a copy of `group` without leading it.
    pub fn follows(&self, group: GroupId) -> bool {
        let placement = self.placements.get(group.index());
        placement.is_some_and(|placement| placement.followers.contains(&self.own))
    }

    /// The other node that leads the group of `slot`, if one does.
    pub fn led_elsewhere(&self, slot: Slot) -> Option<NodeIndex> {
        let group = self.groups.group_of(slot);
        self.placements[group.index()]
            .leader
            .filter(|leader| *leader != self.own)
    }

    /// As a client is told that reached this node at the address `here`.
    pub fn seen_at<'a>(&'a self, here: &'a str) -> View<'a> {
        View { topology: self, here }
    }

    fn node(&self, index: NodeIndex) -> &TopologyNode {
        &self.nodes[usize::from(index.0)]
    }

    fn role(&self, index: NodeIndex) -> Role {
        self.roles[usize::from(index.0)]
    }

    fn indices(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        (0..self.nodes.len()).map(|node| NodeIndex(node as u16))
    }

    fn find(&self, name: &[u8]) -> Option<NodeIndex> {
        self.indices()
            .find(|index| self.node(*index).name.to_string().as_bytes() == name)
    }

    /// The shard that a node belongs to is called as its master.
    fn shard_of(&self, index: NodeIndex) -> NodeIndex {
        match self.role(index) {
            Role::Master => index,
            Role::ReplicaOf(master) => master,
        }
    }

    /// The groups, as this was made of them.
    pub fn groups(&self) -> Groups {
        self.groups
    }

    /// The slots that a node leads, as first and last of each range.
    fn slots_of(&self, index: NodeIndex) -> Vec<(u16, u16)> {
        let mut found: Vec<(u16, u16)> = Vec::new();
        for range in self.ranges.iter().filter(|range| range.leader == index) {
            let (first, last) = (range.first.number(), range.last.number());
            match found.last_mut() {
                // Others follow here, but that is not shown.
                Some((_, before)) if *before + 1 == first => *before = last,
                _ => found.push((first, last)),
            }
        }
        found
    }

    /// How many slots have a leader that `wanted` holds for.
    fn count_slots(&self, wanted: impl Fn(&TopologyNode) -> bool) -> u32 {
        let led = self.ranges.iter().filter(|range| wanted(self.node(range.leader)));
        led.map(|range| u32::from(range.last.number() - range.first.number()) + 1)
            .sum()
    }
}

fn ranges_of(groups: Groups, placements: &[GroupPlacement], roles: &[Role]) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    for (group, first, last) in groups.runs() {
        // Of a group that was added since they were made nothing is known.
        let Some(placement) = placements.get(group.index()) else {
            continue;
        };
        let Some(leader) = placement.leader else { continue };
        let shown = |follower: &&NodeIndex| roles[usize::from(follower.0)] != Role::Master;
        let mut replicas: Vec<NodeIndex> = placement.followers.iter().filter(shown).copied().collect();
        replicas.sort_unstable();
        match ranges.last_mut() {
            Some(before)
                if before.last.number() + 1 == first.number()
                    && before.leader == leader
                    && before.replicas == replicas =>
            {
                before.last = last;
            }
            _ => ranges.push(Range {
                first,
                last,
                leader,
                replicas,
            }),
        }
    }
    ranges
}

fn role_of(index: NodeIndex, placements: &[GroupPlacement]) -> Role {
    let leads = placements.iter().any(|placement| placement.leader == Some(index));
    let mut followed = placements
        .iter()
        .filter(|placement| placement.followers.contains(&index))
        .filter_map(|placement| placement.leader);
    match followed.next() {
        Some(master) if !leads => Role::ReplicaOf(master),
        Some(_) | None => Role::Master,
    }
}

/// A field of a map about a node.
struct ZoneField<'a>(&'a str);

impl ZoneField<'_> {
    fn write(&self, w: &mut ReplyWriter<'_>) {
        w.bulk(b"availability-zone");
        w.bulk(self.0.as_bytes());
    }
}

/// The answers of `CLUSTER`, for one client.
#[derive(Clone, Copy)]
pub struct View<'a> {
    topology: &'a Topology,
    here: &'a str,
}

impl View<'_> {
    fn host(&self, index: NodeIndex) -> &str {
        let host = &self.topology.node(index).host;
        if host.is_empty() && index == self.topology.own {
            self.here
        } else {
            host
        }
    }

    /// Where a client is sent that asked here for a slot which `leader` leads.
    pub fn moved(&self, slot: Slot, leader: NodeIndex) -> ReplyError {
        let port = self.topology.node(leader).port;
        ReplyError::moved(slot, &format!("{}:{port}", self.host(leader)))
    }

    /// `CLUSTER MYID`.
    pub fn my_id(&self, w: &mut ReplyWriter<'_>) {
        self.name(self.topology.own, w);
    }

    /// `CLUSTER MYSHARDID`.
    pub fn my_shard_id(&self, w: &mut ReplyWriter<'_>) {
        self.name(self.topology.shard_of(self.topology.own), w);
    }

    fn name(&self, index: NodeIndex, w: &mut ReplyWriter<'_>) {
        w.bulk(self.topology.node(index).name.to_string().as_bytes());
    }

    /// `CLUSTER INFO`; the numbers are messages between nodes.
    pub fn info(&self, sent: u64, received: u64, w: &mut ReplyWriter<'_>) {
        let topology = self.topology;
        let assigned = topology.count_slots(|_| true);
        let with = |health: NodeHealth| topology.count_slots(move |node| node.health == health);
        let failed = with(NodeHealth::Failed);
        let is_ok = assigned == u32::from(ids::SLOT_COUNT) && failed == 0;
        let is_leader = |index: &NodeIndex| !topology.slots_of(*index).is_empty();
        let leaders = topology.indices().filter(is_leader).count();
        let own_epoch = topology.node(topology.own).epoch;
        let mut text = String::new();
        let mut field = |name: &str, value: &dyn fmt::Display| {
            let _ = write!(text, "{name}:{value}\r\n");
        };
        field("cluster_state", if is_ok { &"ok" } else { &"fail" });
        field("cluster_slots_assigned", &assigned);
        field("cluster_slots_ok", &with(NodeHealth::Online));
        field("cluster_slots_pfail", &with(NodeHealth::Suspected));
        field("cluster_slots_fail", &failed);
        field("cluster_known_nodes", &topology.nodes.len());
        field("cluster_size", &leaders);
        field("cluster_current_epoch", &topology.epoch.0);
        field("cluster_my_epoch", &own_epoch.0);
        field("cluster_stats_messages_sent", &sent);
        field("cluster_stats_messages_received", &received);
        field("total_cluster_links_buffer_limit_exceeded", &0);
        w.verbatim("txt", text.as_bytes());
    }

    /// `CLUSTER NODES`.
    pub fn nodes(&self, w: &mut ReplyWriter<'_>) {
        let mut text = String::new();
        for index in self.topology.indices() {
            self.line(index, &mut text);
            text.push('\n');
        }
        w.verbatim("txt", text.as_bytes());
    }

    /// `CLUSTER REPLICAS`, `CLUSTER SLAVES`.
    pub fn replicas(&self, name: &[u8], w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
        let topology = self.topology;
        let master = topology
            .find(name)
            .ok_or_else(|| ReplyError::unknown_node(name))?;
        if topology.role(master) != Role::Master {
            return Err(ReplyError::Fixed("ERR The specified node is not a master"));
        }
        let is_its = |index: &NodeIndex| topology.role(*index) == Role::ReplicaOf(master);
        let replicas: Vec<NodeIndex> = topology.indices().filter(is_its).collect();
        w.array(replicas.len());
        for replica in replicas {
            let mut text = String::new();
            self.line(replica, &mut text);
            w.bulk(text.as_bytes());
        }
        Ok(())
    }

    /// A node's line: `id host:port@peer-port flags master ping pong epoch link slot ...`. No host has a name beside its
    /// address, so none follows the peer port.
    fn line(&self, index: NodeIndex, text: &mut String) {
        let topology = self.topology;
        let node = topology.node(index);
        let is_own = index == topology.own;
        let (role, master) = match topology.role(index) {
            Role::Master => ("master", "-".to_owned()),
            Role::ReplicaOf(master) => ("slave", topology.node(master).name.to_string()),
        };
        let myself = if is_own { "myself," } else { "" };
        let health = match node.health {
            NodeHealth::Online => "",
            NodeHealth::Suspected => ",fail?",
            NodeHealth::Failed => ",fail",
        };
        let heard_at = if is_own { 0 } else { node.heard_at.0 };
        let is_linked = is_own || node.link.is_some();
        let link = if is_linked { "connected" } else { "disconnected" };
        let _ = write!(
            text,
            "{} {}:{}@{} {myself}{role}{health} {master} 0 {heard_at} {} {link}",
            node.name,
            self.host(index),
            node.port,
            node.peer_port,
            node.epoch.0,
        );
        for (first, last) in topology.slots_of(index) {
            let _ = match first == last {
                true => write!(text, " {first}"),
                false => write!(text, " {first}-{last}"),
            };
        }
    }

    /// `CLUSTER SLOTS`.
    pub fn slots(&self, w: &mut ReplyWriter<'_>) {
        let ranges = &self.topology.ranges;
        w.array(ranges.len());
        for range in ranges {
            w.array(3 + range.replicas.len());
            w.integer(range.first.number().into());
            w.integer(range.last.number().into());
            for index in [range.leader].iter().chain(&range.replicas).copied() {
                w.array(4);
                w.bulk(self.host(index).as_bytes());
                w.integer(self.topology.node(index).port.into());
                self.name(index, w);
                let zone = self.zone(index);
                w.map(usize::from(zone.is_some()));
                if let Some(zone) = zone {
                    zone.write(w);
                }
            }
        }
    }

    /// `CLUSTER SHARDS`.
    pub fn shards(&self, w: &mut ReplyWriter<'_>) {
        let topology = self.topology;
        let is_master = |index: &NodeIndex| topology.role(*index) == Role::Master;
        let masters: Vec<NodeIndex> = topology.indices().filter(is_master).collect();
        w.array(masters.len());
        for master in masters {
            w.map(2);
            w.bulk(b"slots");
            let slots = topology.slots_of(master);
            w.array(slots.len() * 2);
            for (first, last) in slots {
                w.integer(first.into());
                w.integer(last.into());
            }
            w.bulk(b"nodes");
            let is_its = |index: &NodeIndex| topology.shard_of(*index) == master;
            let replicas = topology.indices().filter(|index| *index != master);
            let replicas: Vec<NodeIndex> = replicas.filter(is_its).collect();
            w.array(1 + replicas.len());
            self.shard_node(master, "master", w);
            for replica in replicas {
                self.shard_node(replica, "replica", w);
            }
        }
    }

    fn shard_node(&self, index: NodeIndex, role: &str, w: &mut ReplyWriter<'_>) {
        let node = self.topology.node(index);
        let zone = self.zone(index);
        w.map(7 + usize::from(zone.is_some()));
        w.bulk(b"id");
        self.name(index, w);
        w.bulk(b"port");
        w.integer(node.port.into());
        w.bulk(b"ip");
        w.bulk(self.host(index).as_bytes());
        w.bulk(b"endpoint");
        w.bulk(self.host(index).as_bytes());
        w.bulk(b"role");
        w.bulk(role.as_bytes());
        // Groups count each for itself what they replicate.
        w.bulk(b"replication-offset");
        w.integer(0);
        w.bulk(b"health");
        w.bulk(match node.health {
            NodeHealth::Online | NodeHealth::Suspected => b"online",
            NodeHealth::Failed => b"fail",
        });
        if let Some(zone) = zone {
            zone.write(w);
        }
    }

    /// As Valkey tells of it since 9.1: only of nodes that have said.
    fn zone(&self, index: NodeIndex) -> Option<ZoneField<'_>> {
        let zone = &*self.topology.node(index).zone;
        (!zone.is_empty()).then_some(ZoneField(zone))
    }

    /// `CLUSTER LINKS`. Both directions are one connection here.
    pub fn links(&self, w: &mut ReplyWriter<'_>) {
        let nodes = self.topology.nodes.iter();
        let links: Vec<_> = nodes
            .filter_map(|node| node.link.map(|link| (node.name, link)))
            .collect();
        w.array(links.len());
        for (name, link) in links {
            w.map(6);
            w.bulk(b"direction");
            w.bulk(b"to");
            w.bulk(b"node");
            w.bulk(name.to_string().as_bytes());
            w.bulk(b"create-time");
            w.integer(link.connected_at.0);
            w.bulk(b"events");
            w.bulk(if link.waiting_bytes > 0 { b"rw" } else { b"r" });
            w.bulk(b"send-buffer-allocated");
            w.integer(i64::try_from(link.buffer_bytes).unwrap_or(i64::MAX));
            w.bulk(b"send-buffer-used");
            w.integer(i64::try_from(link.waiting_bytes).unwrap_or(i64::MAX));
        }
    }

    /// `CLUSTER COUNT-FAILURE-REPORTS`: nodes do not vote on each other's failure.
    pub fn failure_reports(&self, name: &[u8], w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
        let node = self.topology.find(name);
        node.ok_or_else(|| ReplyError::unknown_node(name))?;
        w.integer(0);
        Ok(())
    }
}

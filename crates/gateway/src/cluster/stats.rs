//! What a worker tells operators of its groups and peers: written down twice a second, read whenever somebody asks.

use super::group_clients::{GroupClients, known_leader};
use super::peers::Peers;
use super::seat::Seat;
use super::seats::Seats;
use crate::context::Context;
use ids::{GroupId, Incarnation, NodeId};
use replica::{CodingCounts, MemberCounts, Replica};
use std::time::Duration;

/// How often they are written down.
const EVERY: Duration = Duration::from_millis(500);

/// One worker's groups and peers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClusterStats {
    /// Its groups, in order. Empty before the worker knows of a cluster.
    pub groups: Vec<GroupStats>,
    /// Other nodes that the worker has a link to.
    pub up: Vec<NodeId>,
    /// What its replicas have done.
    pub counts: MemberCounts,
    /// What they keep as fragments.
    pub coding: CodingCounts,
    /// Batches that its gateway handed to leaders, here or elsewhere.
    pub batches: u64,
    /// Of these, the ones that had been handed to one before.
    pub resent: u64,
    /// Batches that went to other nodes.
    pub forwarded: u64,
    /// Commands that it answered from its own state under a lease.
    pub reads_here: u64,
    /// Whether the node's wall clock is so far from the others' that theirs is used.
    pub is_wall_clock_off: bool,
}

/// One group, as a worker that may have a replica of it knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStats {
    /// Which.
    pub group: GroupId,
    /// Whether the worker carries its commands out, alone or as the leader of others.
    pub leads: bool,
    /// Where the leader is, if it is known.
    pub leader: Option<NodeId>,
    /// The term; `None` if there is no replica here, or no other.
    pub term: Option<u64>,
    /// Entries, or turns of a group without others, that the state here reflects.
    pub applied: Option<u64>,
    /// Bytes of its data, if there is a replica here.
    pub bytes: Option<u64>,
    /// The replicas, where this one leads others.
    pub replicas: Vec<ReplicaStats>,
    /// Why the replica here has stopped, if it has.
    pub stopped: Option<String>,
}

/// One replica, as its leader knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplicaStats {
    /// Which.
    pub incarnation: Incarnation,
    /// Whether it votes.
    pub is_voter: bool,
    /// Entries that the leader has applied and that this one is not known to have.
    pub lag: u64,
}

impl ClusterStats {
    /// Writes down what there is to know, if it is time.
    pub(crate) fn refresh(cx: &Context, seats: &mut Seats, group_clients: &GroupClients, peers: &Peers) {
        let Some(layout) = cx.view.layout() else {
            return;
        };
        if cx.now < seats.stats_at.after(EVERY) && seats.stats_at.0 > 0 {
            return;
        }
        seats.stats_at = cx.now;
        let (batches, resent, forwarded) = group_clients.counts();
        let mut stats = ClusterStats {
            up: cx.view.nodes_up().collect(),
            batches,
            resent,
            forwarded,
            reads_here: seats.reads_here,
            is_wall_clock_off: peers.is_wall_clock_off(),
            ..ClusterStats::default()
        };
        for (seat, replica) in seats.seats.iter().zip(&cx.local.replicas) {
            stats.counts += seat.counts(replica);
            stats.coding += replica.coding_counts();
            let leader = known_leader(replica, layout.group(replica.group()));
            stats.groups.push(stats_of(seat, replica, layout.me, leader));
        }
        *cx.stats.cluster() = stats;
    }
}

fn stats_of(seat: &Seat, replica: &Replica, me: NodeId, leader: Option<NodeId>) -> GroupStats {
    let group = replica.group();
    let Some(member) = replica.member() else {
        let is_alone = !replica.has_log();
        return GroupStats {
            group,
            leads: is_alone,
            leader: is_alone.then_some(me),
            term: None,
            applied: is_alone.then(|| replica.keyspace().applied().0),
            bytes: is_alone.then(|| replica.memory() as u64),
            replicas: Vec::new(),
            stopped: seat.stopped.clone(),
        };
    };
    let applied = member.applied().0;
    let of = |incarnation: Incarnation| ReplicaStats {
        incarnation,
        is_voter: member.members().is_voter(incarnation),
        lag: match member.raft().matched(incarnation) {
            _ if Some(incarnation) == seat.incarnation => 0,
            Some(matched) => applied.saturating_sub(matched.0),
            None => applied,
        },
    };
    let replicas = member
        .leads()
        .then(|| member.members().all().into_iter().map(of).collect());
    GroupStats {
        group,
        leads: member.leads(),
        leader: if member.leads() { Some(me) } else { leader },
        term: Some(member.term().0),
        applied: Some(applied),
        bytes: Some(replica.memory() as u64),
        replicas: replicas.unwrap_or_default(),
        stopped: seat.stopped.clone(),
    }
}

//! The cluster as one node sees it: the page `/cluster`, which is JSON.
//!
//! The same types write the page and read it (`chorale admin status`). Fields are only ever added; who reads passes over
//! those that it does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterView {
    /// Its name, 32 hexadecimal digits. Empty: the node is in no cluster.
    pub cluster: String,
    /// The version of the map that the rest is read from.
    pub epoch: u64,
    /// The node that answers.
    pub answered_by: u64,
    /// The semantics version that entries follow; none where it is not said.
    #[serde(default)]
    pub semantics: Option<u16>,
    /// How many replicas each group is to have, as things are.
    pub replication_factor: u8,
    /// The node that leads the meta group, if it is known.
    pub meta_leader: Option<u64>,
    /// Whether the node that answers has heard nothing of a leader of the meta group for some time: then nobody joins,
    /// nothing moves, and no group can be recovered.
    #[serde(default)]
    pub is_meta_leaderless: bool,
    /// The nodes on which the meta group has replicas.
    pub meta_nodes: Vec<u64>,
    /// All nodes, in ascending order of their ids.
    pub nodes: Vec<NodeView>,
    /// All groups of keys, in order.
    pub groups: Vec<GroupView>,
    /// Backups that the cluster takes by itself.
    #[serde(default)]
    pub backups: BackupsView,
    /// Strings that are kept as fragments on the node that answers; empty where no group there has any, or had.
    #[serde(default)]
    pub coding: Option<CodingView>,
    /// Whether nothing moves but what repairs.
    #[serde(default)]
    pub pause: Option<PauseView>,
    /// Whether everything is being placed anew.
    #[serde(default)]
    pub rebalance: Option<RebalanceView>,
    /// Whether each group is to have another number of replicas than some have.
    #[serde(default)]
    pub resize: Option<ResizeView>,
    /// How many partitions are to move before each group hosts its share: groups were added as the cluster grew.
    #[serde(default)]
    pub partitions_left: usize,
    /// The nodes that may stop, or have, and are not back yet.
    #[serde(default)]
    pub permits: Vec<PermitView>,
    /// Why nodes that are silent are not replaced by themselves, as whoever leads the meta group finds.
    #[serde(default)]
    pub outage: Option<OutageView>,
    /// What `CONFIG SET` has set, but for secrets: by name.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Names of the secrets that it has set.
    #[serde(default)]
    pub secrets: Vec<String>,
}

/// What the node that answers knows of backups that it has taken, or is to take by itself. Times are Unix milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupsView {
    /// Where they go; empty, as what follows, if there are none.
    pub target: String,
    /// When, in the notation of cron.
    pub schedule: String,
    /// Whether this node takes one now.
    pub is_running: bool,
    /// When this node takes the next one; empty if another one does.
    pub next_at: Option<u64>,
    /// When the newest was made of which this node knows that it is whole.
    pub good_at: Option<u64>,
    /// When this node has failed last, and why; the reason is empty again once a backup was good.
    pub failed_at: Option<u64>,
    /// See there.
    pub reason: String,
}

/// Strings that are kept as fragments, on the node that answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodingView {
    /// Whether they are to be. If not, they are being made whole.
    pub is_on: bool,
    /// How many, as its replicas have last counted them.
    pub values: u64,
    /// Bytes that they have as wholes.
    pub value_bytes: u64,
    /// Bytes of the fragments.
    pub fragment_bytes: u64,
    /// Replicas that lack some of their fragments, and make them of those of others.
    pub groups_filling: u64,
    /// Groups that the node leads and in which nothing becomes fragments: a replica is away, or lacks some of its own.
    pub groups_stalled: u64,
}

/// Nothing moves but what repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseView {
    /// For how many seconds, from when it began; until somebody ends it where that is not said.
    pub seconds: Option<u64>,
}

/// Everything is being placed anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebalanceView {
    /// How many replicas, those of the meta group included, are not where they are to be; empty before that is decided.
    pub left: Option<u64>,
}

/// Each group is to have another number of replicas than some have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeView {
    /// How many.
    pub wanted: u16,
    /// How many replicas, those of the meta group included, are not where they are to be; empty before that is decided.
    pub left: Option<u64>,
}

/// A node may stop, or has, and is not back yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermitView {
    /// Which.
    pub node: u64,
    /// The start that may end.
    pub boot: u64,
    /// For how many seconds, from when it was lent.
    pub seconds: u64,
}

/// So many nodes fell silent together that they are waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutageView {
    /// Zones of which nobody is heard; empty if it is a quarter of all nodes.
    pub zones: Vec<String>,
    /// The nodes that are waited for.
    pub nodes: Vec<u64>,
}

/// What is to become of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GoalView {
    /// It has replicas, as others have.
    #[default]
    Stays,
    /// It gives them up.
    Drains,
    /// It gives them up, and then leaves.
    Leaves,
    /// It was told that it may go.
    Left,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its id.
    pub id: u64,
    /// Where clients reach the any-node endpoint, `host:port`; empty where it is not known, here and below.
    pub client: String,
    /// Where clients reach the cluster endpoint.
    pub cluster: String,
    /// Where other nodes reach it.
    pub peer: String,
    /// What it is called; may be empty.
    #[serde(default)]
    pub name: String,
    /// What it shares its fate with; may be empty.
    pub zone: String,
    /// The zone for which its replicas were placed, if it says another one since; only nodes with a replica of the meta group know it.
    #[serde(default)]
    pub placed_zone: Option<String>,
    /// The newest semantics version that its build knows; only nodes with a replica of the meta group know it.
    #[serde(default)]
    pub semantics: Option<u16>,
    /// Its last start.
    pub boot: u64,
    /// Whether the node that answers hears of it.
    pub is_up: bool,
    /// Whether it has begun to serve a moment ago, so that whom it has not heard of may be there all the same: of the node that answers.
    #[serde(default)]
    pub is_new: bool,
    /// Whether it is giving up its replicas, or has: of builds that knew no goals.
    pub is_leaving: bool,
    /// What is to become of it.
    #[serde(default)]
    pub goal: GoalView,
    /// Whether nobody waits for its last start any more: others get what it had.
    #[serde(default)]
    pub is_replaced: bool,
    /// Groups that it leads. [`ClusterView::count`] fills this and what follows.
    pub groups_led: u64,
    /// Replicas that it has, those included that are being filled.
    pub replicas: u64,
    /// Of these, the ones whose memory is gone: what they had acknowledged they do not have any more.
    pub incarnations_lost: u64,
    /// What it keeps on disk. A node knows it of itself alone.
    #[serde(default)]
    pub disk: Option<DiskView>,
}

/// What a node keeps on disk of its groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskView {
    /// What an acknowledged write survives: `memory`, `relaxed` or `strict`. What follows is 0 in `memory`.
    pub durability: String,
    /// Bytes of the files of its logs.
    pub log_bytes: u64,
    /// Microseconds that 99 in 100 of the last syncs did not exceed, of the worker with the slowest.
    pub log_sync_p99_us: u64,
    /// For how many milliseconds something is unsynced and no sync has ended.
    pub log_unsynced_ms: u64,
    /// Seconds since the oldest of the newest snapshots of its replicas was written, or since the start if one has none.
    pub snapshot_age_secs: u64,
    /// Bytes of the files of these snapshots.
    pub snapshot_bytes: u64,
    /// Whether the last snapshot could not be written.
    pub has_snapshot_failed: bool,
    /// Whether its disk is full: other nodes lead, or writes are refused, until there is room.
    pub is_full: bool,
}

/// One group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    /// Its number.
    pub number: u16,
    /// The node that leads it, if there is one.
    pub leader: Option<u64>,
    /// The leader's term. Only nodes with a replica of the group know it, here and below.
    pub term: Option<u64>,
    /// Entries that the leader has applied.
    pub applied: Option<u64>,
    /// How many times it began anew because its majority was gone.
    #[serde(default)]
    pub generation: u64,
    /// How many of its members vote, those included whose memory is gone.
    #[serde(default)]
    pub voters: u64,
    /// Whether the memory of so many voters is gone that only `chorale admin recover` helps.
    #[serde(default)]
    pub has_lost_majority: bool,
    /// Whether the meta group has begun anew, and has not heard who leads this one: what is said of its replicas may be old.
    #[serde(default)]
    pub is_unheard: bool,
    /// Bytes of its data. Only nodes with a replica of the group know it.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Its replicas.
    pub replicas: Vec<ReplicaStatus>,
    /// What replicas have that know no leader, and what nodes keep from before the group began anew.
    #[serde(default)]
    pub recovery_sources: Vec<RecoverySourceView>,
    /// Nodes that are to keep what they held of it before it began anew, or before their machines went down uncleanly: it may be
    /// all that is left.
    #[serde(default)]
    pub former: Vec<u64>,
    /// Why the replica on the node that answers has stopped; empty if it has not.
    #[serde(default)]
    pub stopped: String,
}

/// What is left of a group that nobody leads: one replica, as its own node knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverySourceView {
    /// Where it is.
    pub node: u64,
    /// Whose memory.
    pub incarnation: u64,
    /// Whether it is kept from before the group began anew: what the group has had since is not in it.
    #[serde(default)]
    pub is_former: bool,
    /// The generation of the group that it is of; 0 from a node that does not say it.
    #[serde(default)]
    pub generation: u64,
    /// Whether its log was damaged, and may lack what was in it once.
    #[serde(default)]
    pub is_damaged: bool,
    /// Whether it was read from a disk that may lack what was written last: its replica takes part under another name.
    #[serde(default)]
    pub is_unclean: bool,
    /// The term of the last entry of its log.
    pub term: u64,
    /// The place of that entry.
    pub last: u64,
    /// Entries that it has applied.
    pub applied: u64,
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaStatus {
    /// Where it is.
    pub node: u64,
    /// Whose memory it is.
    pub incarnation: u64,
    /// What it is in its group.
    pub role: ReplicaRole,
    /// Entries that the leader has applied and that it is not known to have. Only the leader's node knows it.
    pub lag: Option<u64>,
}

/// What a replica is in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplicaRole {
    /// It votes.
    Voter,
    /// It is being filled, or follows.
    Learner,
    /// Its group has not taken it in yet.
    Expected,
    /// Its memory is gone; its group will remove it.
    Lost,
}

impl GroupView {
    /// Whether most of its voters have no memory, or are on nodes that are gone.
    pub fn lacks_majority(&self, gone: &[u64]) -> bool {
        let left = self
            .replicas
            .iter()
            .filter(|replica| replica.role == ReplicaRole::Voter && !gone.contains(&replica.node));
        self.voters > 0 && left.count() as u64 * 2 <= self.voters
    }
}

impl ClusterView {
    /// Bytes of a group, on the average of those of which the node that answers knows them.
    pub fn average_bytes(&self) -> u64 {
        let known: Vec<u64> = self.groups.iter().filter_map(|group| group.bytes).collect();
        known.iter().sum::<u64>() / (known.len() as u64).max(1)
    }

    /// A node that knows no other.
    pub fn alone() -> ClusterView {
        let node = NodeView {
            id: 1,
            is_up: true,
            ..NodeView::default()
        };
        ClusterView {
            answered_by: node.id,
            replication_factor: 1,
            nodes: vec![node],
            ..ClusterView::default()
        }
    }

    /// Fills the figures of the nodes from the groups, so that they cannot disagree.
    pub fn count(&mut self) {
        let mut led: BTreeMap<u64, u64> = BTreeMap::new();
        let mut held: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for group in &self.groups {
            if let Some(leader) = group.leader {
                *led.entry(leader).or_default() += 1;
            }
            for replica in &group.replicas {
                let (replicas, lost) = held.entry(replica.node).or_default();
                *replicas += 1;
                *lost += u64::from(replica.role == ReplicaRole::Lost);
            }
        }
        for node in &mut self.nodes {
            node.groups_led = led.get(&node.id).copied().unwrap_or_default();
            (node.replicas, node.incarnations_lost) = held.get(&node.id).copied().unwrap_or_default();
        }
    }

    /// Takes over what another node has said of its own disk.
    pub fn add_disk(&mut self, other: &ClusterView) {
        for node in &mut self.nodes {
            let found = other.nodes.iter().find(|found| found.id == node.id);
            if let Some(disk) = found.and_then(|found| found.disk.clone()) {
                node.disk = Some(disk);
            }
        }
    }

    /// The page, with the figures filled.
    pub fn to_json(mut self) -> String {
        self.count();
        let mut page = serde_json::to_string_pretty(&self).expect("texts and numbers have a form in JSON");
        page.push('\n');
        page
    }

    /// Reads the page.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn from_json(page: &str) -> Result<ClusterView, String> {
        serde_json::from_str(page).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster() -> ClusterView {
        let node = |id| NodeView {
            id,
            is_up: id != 3,
            ..NodeView::default()
        };
        let replica = |node, role| ReplicaStatus {
            node,
            incarnation: node * 10,
            role,
            lag: None,
        };
        let group = |number, leader| GroupView {
            number,
            leader,
            replicas: vec![
                replica(1, ReplicaRole::Voter),
                replica(2, ReplicaRole::Learner),
                replica(3, ReplicaRole::Lost),
            ],
            ..GroupView::default()
        };
        ClusterView {
            nodes: vec![node(1), node(2), node(3)],
            groups: vec![group(0, Some(1)), group(1, Some(2)), group(2, None)],
            ..ClusterView::alone()
        }
    }

    #[test]
    fn the_stats_of_nodes_are_those_of_the_groups() {
        let page = cluster().to_json();
        let read = ClusterView::from_json(&page).unwrap();
        let stats: Vec<_> = read
            .nodes
            .iter()
            .map(|node| (node.groups_led, node.replicas, node.incarnations_lost))
            .collect();
        assert_eq!(stats, [(1, 3, 0), (1, 3, 0), (0, 3, 3)]);
        assert_eq!(read.groups, cluster().groups);
        assert!(page.contains("\"role\": \"voter\""), "{page}");
    }

    #[test]
    fn what_a_newer_node_adds_is_passed_over() {
        let page = cluster()
            .to_json()
            .replacen("{", "{ \"of_tomorrow\": [1, {}],", 1);
        assert!(ClusterView::from_json(&page).is_ok(), "{page}");
        assert!(ClusterView::from_json("{}").is_err());
    }
}

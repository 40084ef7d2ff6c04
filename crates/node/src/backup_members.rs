//! The cluster as a backup wants it, from what a node shows of it.

use admin::{ClusterView, ReplicaRole, ReplicaStatus};
use backup::{ClusterMembers, MemberGroup, MemberNode};

/// Whom a backup asks, from the page of a node that is reached at `host`.
pub fn backup_members(view: &ClusterView, host: &str) -> ClusterMembers {
    let voters = |replicas: &[ReplicaStatus]| {
        let voters = replicas
            .iter()
            .filter(|replica| replica.role == ReplicaRole::Voter);
        voters.map(|replica| replica.node).collect()
    };
    ClusterMembers {
        cluster: view.cluster.clone(),
        nodes: view
            .nodes
            .iter()
            .map(|node| MemberNode {
                id: node.id,
                client: reachable(&node.client, host),
                is_up: node.is_up,
            })
            .collect(),
        groups: view
            .groups
            .iter()
            .map(|group| MemberGroup {
                number: group.number,
                leader: group.leader,
                voters: voters(&group.replicas),
            })
            .collect(),
        settings: view.settings.clone(),
        secrets: view.secrets.clone(),
    }
}

/// A node that listens at every address of its machine names none: the host that answers us is one.
fn reachable(client: &str, host: &str) -> String {
    match client.rsplit_once(':') {
        Some(("0.0.0.0" | "[::]" | "", port)) => format!("{host}:{port}"),
        _ => client.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_names_no_host_is_where_we_asked() {
        assert_eq!(reachable("0.0.0.0:6379", "10.0.0.7"), "10.0.0.7:6379");
        assert_eq!(reachable("10.0.0.8:6379", "10.0.0.7"), "10.0.0.8:6379");
        assert_eq!(reachable("", "10.0.0.7"), "");
    }
}

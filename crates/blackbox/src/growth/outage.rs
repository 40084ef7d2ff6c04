//! A node that was killed, from that moment until it serves clients again or has left, and whether one may be killed at all.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value as Json;

use crate::workload::route::Failed;

/// See the file's header. Times are since the clients began.
#[derive(Clone, Debug)]
pub(super) struct Outage {
    pub(super) node: usize,
    pub(super) address: SocketAddr,
    pub(super) killed: Duration,
    pub(super) back: Duration,
}

impl Outage {
    /// Whether a client had to expect what failed: it was connected to the node that was down, or wanted to be.
    pub(super) fn explains(&self, failed: &Failed) -> bool {
        failed.node == self.address && failed.ended >= self.killed && failed.began <= self.back
    }
}

/// Whether each group, and the meta group, keeps a majority of its voters without the node of this address, as the page `/cluster` of
/// another node has it. Nothing is said of what the page does not know.
pub(super) fn leaves_majorities(page: &Json, address: SocketAddr) -> bool {
    let address = address.to_string();
    let nodes = page["nodes"].as_array().into_iter().flatten();
    let mut same = nodes.filter(|node| node["client"] == address.as_str());
    let Some(victim) = same.next().map(|node| &node["id"]) else {
        return false;
    };
    let keeps = |voters: Vec<&Json>| {
        let left = voters.iter().filter(|voter| **voter != victim).count();
        left == voters.len() || left * 2 > voters.len()
    };
    let voters = |group: &Json| -> bool {
        let replicas = group["replicas"].as_array().into_iter().flatten();
        let voters = replicas.filter(|replica| replica["role"] == "voter");
        keeps(voters.map(|replica| &replica["node"]).collect())
    };
    let meta = page["meta_nodes"].as_array().into_iter().flatten();
    let Some(groups) = page["groups"].as_array() else {
        return false;
    };
    keeps(meta.collect()) && groups.iter().all(voters)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn address(node: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], node))
    }

    fn page(meta: &[u16], voters: &[u16], learners: &[u16]) -> Json {
        let voters = voters.iter().map(|node| json!({"node": node, "role": "voter"}));
        let learners = learners
            .iter()
            .map(|node| json!({"node": node, "role": "learner"}));
        json!({
            "nodes": (1..=4).map(|node| json!({"id": node, "client": address(node)})).collect::<Vec<_>>(),
            "meta_nodes": meta,
            "groups": [{"replicas": voters.chain(learners).collect::<Vec<_>>()}],
        })
    }

    #[test]
    fn a_node_may_die_if_most_voters_of_each_group_remain() {
        let three = page(&[1, 2, 3], &[1, 2, 3], &[4]);
        assert!((1..=4).all(|node| leaves_majorities(&three, address(node))));
        assert!(!leaves_majorities(&three, address(5)));
        let one = page(&[1, 2, 3], &[1], &[2, 3]);
        assert!(!leaves_majorities(&one, address(1)));
        assert!(leaves_majorities(&one, address(2)));
        assert!(!leaves_majorities(&page(&[1], &[1, 2, 3], &[]), address(1)));
        assert!(!leaves_majorities(&page(&[1, 2, 3], &[1, 2], &[3]), address(2)));
        assert!(!leaves_majorities(&json!({}), address(1)));
    }

    #[test]
    fn an_outage_explains_what_fails_at_its_node_while_it_is_down_and_nothing_else() {
        let second = Duration::from_secs;
        let outage = Outage {
            node: 0,
            address: address(1),
            killed: second(10),
            back: second(12),
        };
        let failed = |node, began, ended| Failed {
            node: address(node),
            began: second(began),
            ended: second(ended),
            what: String::new(),
        };
        assert!(outage.explains(&failed(1, 9, 10)));
        assert!(outage.explains(&failed(1, 12, 13)));
        assert!(!outage.explains(&failed(2, 9, 10)));
        assert!(!outage.explains(&failed(1, 8, 9)));
        assert!(!outage.explains(&failed(1, 13, 13)));
    }
}

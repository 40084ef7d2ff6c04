//! What the admin ports of a cluster's nodes show of it. Tested whatever server the other tests run on.

use std::process::Command;

use blackbox::{LocalCluster, chorale_binary, eventually, http_get};

/// What a node's `chorale admin status` says.
fn status(cluster: &LocalCluster, node: u16) -> String {
    let address = cluster.admin_address(node).to_string();
    let output = Command::new(chorale_binary())
        .args(["admin", "status", &address, "--groups"])
        .output()
        .expect("the binary runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A sample of a node's metrics page.
fn sample(cluster: &LocalCluster, node: u16, name: &str) -> f64 {
    let page = http_get(cluster.admin_address(node), "/metrics").expect("the admin port answers");
    let line = page
        .body
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{}", page.body));
    line.parse().expect("it is a number")
}

#[test]
fn every_node_shows_the_whole_cluster_and_what_it_leads() {
    let cluster = LocalCluster::start(3, &[]);
    for node in 1..=3 {
        eventually("all nodes are up and all groups replicated", || {
            let text = status(&cluster, node);
            let groups = text.contains("8 with a leader, 8 fully replicated.");
            groups && text.contains("3 nodes, all up.") && text.contains("leads the meta group")
        });
    }
    for key in 0..100 {
        cluster.client(2).run_ok(&format!("SET key:{key} value"));
    }
    eventually("the nodes count their work", || {
        let sum = |name: &str| (1..=3).map(|node| sample(&cluster, node, name)).sum::<f64>();
        sum("chorale_groups_led") == 8.0
            && sum("chorale_replicas") == 24.0
            && sum("chorale_entry_batches_applied_total") >= 300.0
            && sum("chorale_follower_lag_entries_max") == 0.0
    });
    for node in 1..=3 {
        assert!(sample(&cluster, node, "chorale_meta_epoch") > 0.0);
        assert!(sample(&cluster, node, "chorale_peer_input_bytes_total") > 0.0);
        let other = if node == 1 { 2 } else { 1 };
        let name = format!("chorale_peer_up{{peer=\"{other}\"}}");
        assert_eq!(sample(&cluster, node, &name), 1.0);
    }
}

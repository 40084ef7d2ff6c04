//! `READONLY` at the cluster endpoint of a node that follows. Tested whatever server the other tests run on.

use blackbox::{Client, LocalCluster, Value, eventually};

/// A client of a node's cluster endpoint.
fn endpoint(cluster: &LocalCluster, node: u16) -> Client {
    Client::connect(cluster.cluster_address(node)).expect("the node has a cluster endpoint")
}

#[test]
fn a_follower_answers_who_asks_for_old_values_and_sends_others_on() {
    let mut cluster = LocalCluster::start(3, &[]);
    let mut writer = cluster.client(1);
    for key in 0..20 {
        writer.run_ok(&format!("SET key:{key} {key}"));
    }
    assert_eq!(writer.run("WAIT 1 0"), Value::Integer(1));
    let mut reader = endpoint(&cluster, 3);
    let is_moved = |reply: Value| reply.error().is_some_and(|error| error.starts_with("MOVED"));
    let mut followed = Vec::new();
    eventually("the node knows leaders", || {
        followed = (0..20)
            .filter(|key| is_moved(reader.run(&format!("GET key:{key}"))))
            .collect();
        !followed.is_empty()
    });
    reader.run_ok("READONLY");
    for key in &followed {
        eventually("the follower has the value", || {
            reader.run(&format!("GET key:{key}")) == Value::bulk(key.to_string())
        });
    }
    reader.run_ok("READWRITE");
    eventually("it sends clients to the leader again", || {
        followed
            .iter()
            .any(|key| is_moved(reader.run(&format!("GET key:{key}"))))
    });
    reader.run_ok("READONLY");
    // Whoever leads stands still, and it answers all the same.
    cluster.type_line("pause 1");
    cluster.type_line("pause 2");
    for key in &followed {
        let reply = reader.run(&format!("GET key:{key}"));
        assert_eq!(reply, Value::bulk(key.to_string()));
    }
    cluster.type_line("resume 1");
    cluster.type_line("resume 2");
}

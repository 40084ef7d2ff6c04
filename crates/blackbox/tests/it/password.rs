//! Whose password clients give, where there are several nodes: the cluster's.

use blackbox::{Client, Cluster, Value, eventually};

/// What a node answers to `PING` by whoever has given this password, or none; nothing if it does not answer yet.
fn ping(cluster: &Cluster, node: usize, password: Option<&str>) -> Option<String> {
    let mut client = Client::connect(cluster.address(node)).ok()?;
    if let Some(password) = password {
        client.try_command(&["AUTH", password]).ok()?;
    }
    let answer = format!("{:?}", client.try_command(&["PING"]).ok()?);
    (!answer.contains("LOADING")).then_some(answer)
}

/// Waits until a node serves whoever gives this password. Nobody else is served at any time meanwhile.
fn wait_until_it_asks_for(cluster: &mut Cluster, node: usize, password: &str) {
    eventually("the node asks for the password", || {
        assert!(cluster.is_running(node), "{}", cluster.log(node));
        for other in [None, Some("another")] {
            let answer = ping(cluster, node, other);
            assert!(answer.is_none_or(|answer| answer.contains("NOAUTH")));
        }
        ping(cluster, node, Some(password)).is_some_and(|answer| answer.contains("PONG"))
    });
}

#[test]
fn a_member_asks_for_the_clusters_password_whatever_its_start_brings() {
    let mut cluster = Cluster::new(4);
    cluster.flag("cluster-secret", "of this test");
    let first = cluster.begin(&["--requirepass", "word"]);
    wait_until_it_asks_for(&mut cluster, first, "word");
    let none = cluster.begin(&[]);
    wait_until_it_asks_for(&mut cluster, none, "word");
    let other = cluster.begin(&["--requirepass", "another"]);
    wait_until_it_asks_for(&mut cluster, other, "word");
    assert!(
        cluster
            .log(other)
            .contains("clients give the password of the cluster")
    );
    for node in [none, other, first] {
        assert!(cluster.terminate(node).success());
        cluster.restart(node);
        wait_until_it_asks_for(&mut cluster, node, "word");
    }
    // All of them at once, and the first one in mind of something else.
    let mut client = cluster.client(none);
    client.run_ok("AUTH word");
    client.run_ok("CONFIG SET requirepass third");
    for node in 0..3 {
        assert!(cluster.terminate(node).success());
    }
    (0..3).for_each(|node| cluster.restart(node));
    for node in 0..3 {
        wait_until_it_asks_for(&mut cluster, node, "third");
    }
}

#[test]
fn a_node_alone_takes_the_password_of_its_start_and_keeps_it_for_one_that_brings_none() {
    let mut cluster = Cluster::new(4);
    cluster.flag("requirepass", "word");
    let node = cluster.begin(&[]);
    wait_until_it_asks_for(&mut cluster, node, "word");
    let mut client = cluster.client(node);
    client.run_ok("AUTH word");
    client.run_ok("CONFIG SET requirepass later");
    cluster.kill(node);
    cluster.drop_flag("requirepass");
    cluster.restart(node);
    wait_until_it_asks_for(&mut cluster, node, "later");
    cluster.kill(node);
    cluster.flag("requirepass", "word");
    cluster.restart(node);
    wait_until_it_asks_for(&mut cluster, node, "word");
    let mut client = cluster.client(node);
    client.run_ok("AUTH word");
    assert_eq!(client.command(&["CONFIG", "SET", "requirepass", ""]), Value::ok());
    cluster.kill(node);
    cluster.drop_flag("requirepass");
    cluster.restart(node);
    cluster.wait_until_ready(node);
}

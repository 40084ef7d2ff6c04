//! Nodes with empty directories and the same options: they make one cluster, whoever is there first, and are one ever after.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use blackbox::{Client, Cluster, Prng, Value, eventually, http_get};

/// What the node that makes the cluster says.
const MAKES: &str = "this one makes it";

/// So many nodes that are not started yet, all with the options of the first start and every other one.
fn alike(nodes: usize, expected: usize) -> Cluster {
    let mut cluster = Cluster::new(8);
    cluster.workers(2);
    for _ in 0..nodes {
        cluster.reserve();
    }
    let addresses = (0..nodes).map(|node| cluster.peer_address(node).to_string());
    let join = addresses.collect::<Vec<_>>().join(" ");
    cluster.flag("join", &join);
    cluster.flag("join-expect", &expected.to_string());
    cluster
}

/// The cluster that a node is of, how many members it knows, and how many of them are up.
fn seen(cluster: &Cluster, node: usize) -> Option<(String, usize, usize)> {
    let page = http_get(cluster.admin_address(node), "/cluster").ok()?;
    let page: serde_json::Value = serde_json::from_str(&page.body).ok()?;
    let nodes = page["nodes"].as_array()?;
    let up = nodes.iter().filter(|node| node["is_up"] == true).count();
    Some((page["cluster"].as_str()?.to_owned(), nodes.len(), up))
}

/// Waits until all nodes are one cluster, whose name it gives.
fn one(cluster: &mut Cluster) -> String {
    for node in 0..cluster.len() {
        cluster.wait_until_ready(node);
    }
    cluster.wait_until_replicated();
    let nodes = cluster.len();
    let mut names = Vec::new();
    for node in 0..nodes {
        eventually("all members are up", || {
            let found = seen(cluster, node).filter(|(_, members, up)| (*members, *up) == (nodes, nodes));
            names.extend(found.map(|(name, ..)| name));
            names.len() > node
        });
    }
    assert!(!names[0].is_empty());
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    names.swap_remove(0)
}

/// How often a node has made a cluster.
fn makers(cluster: &Cluster) -> usize {
    let logs = (0..cluster.len()).map(|node| fs::read_to_string(cluster.data(node).with_file_name("log")));
    logs.map(|log| log.map_or(0, |log| log.matches(MAKES).count()))
        .sum()
}

fn is_loading(cluster: &Cluster, node: usize) -> bool {
    let answer =
        Client::connect(cluster.address(node)).and_then(|mut client| client.try_command(&["GET", "key"]));
    answer.is_ok_and(|reply| reply.error().is_some_and(|error| error.starts_with("LOADING")))
}

#[test]
fn three_nodes_with_the_same_options_are_one_cluster_at_every_start() {
    for order in [[0, 1, 2], [2, 0, 1]] {
        let mut cluster = alike(3, 3);
        order.into_iter().for_each(|node| cluster.restart(node));
        let name = one(&mut cluster);
        assert_eq!(makers(&cluster), 1);
        cluster.client(1).run_ok("SET key value");
        for node in order {
            assert!(cluster.terminate(node).success());
        }
        order.into_iter().for_each(|node| cluster.restart(node));
        assert_eq!(one(&mut cluster), name);
        assert_eq!(cluster.client(2).run("GET key"), Value::bulk("value"));
        // One of them comes back without anything: it joins, whether it is the one that made the cluster or not.
        cluster.kill(order[0]);
        fs::remove_dir_all(cluster.data(order[0])).expect("it is ours");
        cluster.restart(order[0]);
        assert_eq!(one(&mut cluster), name);
        assert_eq!(makers(&cluster), 1);
        assert_eq!(cluster.client(order[0]).run("GET key"), Value::bulk("value"));
    }
}

#[test]
fn two_nodes_wait_for_the_third_and_say_whom_they_miss() {
    let mut cluster = alike(3, 3);
    cluster.restart(0);
    eventually("one is there by itself", || {
        let health = http_get(cluster.admin_address(0), "/healthz");
        health.is_ok_and(|health| health.body.contains("1 of 3 nodes are there"))
    });
    cluster.restart(1);
    let missing = format!(
        "2 of 3 nodes are there that are to make one: no answer from {}",
        cluster.peer_address(2)
    );
    eventually("it is said who is missing", || cluster.log(0).contains(&missing));
    for node in [0, 1] {
        assert!(is_loading(&cluster, node), "{}", cluster.log(node));
        let health = http_get(cluster.admin_address(node), "/healthz").expect("the port is open");
        assert_eq!(health.status, 503);
        assert!(health.body.contains("2 of 3 nodes are there"), "{}", health.body);
    }
    cluster.restart(2);
    one(&mut cluster);
    assert_eq!(makers(&cluster), 1);
}

#[test]
fn nobody_makes_a_cluster_beside_a_node_that_expects_another_number() {
    let mut cluster = alike(3, 3);
    cluster.restart(0);
    cluster.restart(1);
    cluster.drop_flag("join-expect");
    cluster.flag("join-expect", "2");
    cluster.restart(2);
    eventually("all say what is wrong", || {
        let says = |node: usize, what: &str| cluster.log(node).contains(what);
        says(0, "expects 2 nodes and this one 3") && says(2, "expects 3 nodes and this one 2")
    });
    assert_eq!(makers(&cluster), 0);
    assert!((0..3).all(|node| is_loading(&cluster, node)));
    assert!(cluster.terminate(2).success());
    cluster.drop_flag("join-expect");
    cluster.flag("join-expect", "3");
    cluster.restart(2);
    one(&mut cluster);
    assert_eq!(makers(&cluster), 1);
}

#[test]
fn more_nodes_than_addresses_are_waited_for_and_another_secret_is_named() {
    let mut cluster = alike(2, 3);
    cluster.flag("cluster-secret", "one");
    cluster.restart(0);
    cluster.drop_flag("cluster-secret");
    cluster.flag("cluster-secret", "two");
    cluster.restart(1);
    eventually("it is said that the secrets differ", || {
        cluster.log(0).contains("1 of 3 nodes are there")
            && cluster.log(0).contains("does not know the cluster's secret")
    });
    assert!(cluster.terminate(1).success());
    cluster.drop_flag("cluster-secret");
    cluster.flag("cluster-secret", "one");
    cluster.restart(1);
    eventually("it is said that there are too few", || {
        cluster
            .log(1)
            .contains("2 of 3 nodes are there that are to make one: all addresses of --join answer, and no more nodes are behind them")
    });
    assert_eq!(makers(&cluster), 0);
    // A third one is not among the addresses, and dials.
    let third = cluster.reserve();
    cluster.restart(third);
    one(&mut cluster);
    assert_eq!(makers(&cluster), 1);
}

#[test]
fn nodes_that_are_killed_while_they_make_a_cluster_make_one() {
    for round in 0..4 {
        println!("round {round}");
        let mut prng = Prng::new(round);
        let mut cluster = alike(3, 3);
        (0..3).for_each(|node| cluster.restart(node));
        let began = Instant::now();
        // At moments that nothing of what the nodes do decides: there is no condition to wait for.
        while began.elapsed() < Duration::from_secs(3) {
            thread::sleep(Duration::from_millis(prng.below(400) as u64));
            let node = prng.below(3);
            cluster.kill(node);
            thread::sleep(Duration::from_millis(prng.below(200) as u64));
            cluster.restart(node);
        }
        one(&mut cluster);
    }
}

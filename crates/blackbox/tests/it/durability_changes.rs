//! `CONFIG SET durability` while clients write: nothing is refused meanwhile, and what is answered is what counts when processes are killed.
//! Redis has no such thing.

use std::fs;
use std::time::Duration;

use blackbox::{Client, Cluster, Implementation, Receipts, Value, eventually};

/// Few enough for processes that were built for tests, and some for each worker.
const GROUPS: usize = 16;

/// Longer than all snapshots of such a cluster take.
const PATIENCE: Duration = Duration::from_secs(60);

fn is_redis() -> bool {
    matches!(Implementation::subject(), Implementation::Redis(_))
}

fn seed() -> u64 {
    let seed = std::env::var("CHORALE_BLACKBOX_SEED");
    let seed = seed.map_or(1, |seed| seed.parse().expect("a seed is a number"));
    eprintln!("CHORALE_BLACKBOX_SEED={seed}");
    seed
}

/// A cluster that its first node made with this durability; nobody is told it again.
fn cluster(nodes: usize, durability: &str, flags: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::new(GROUPS);
    cluster.workers(2);
    flags.iter().for_each(|(name, value)| cluster.flag(name, value));
    cluster.flag("durability", durability);
    cluster.add();
    cluster.drop_flag("durability");
    cluster.grow(nodes - 1);
    cluster.wait_until_replicated();
    cluster
}

fn client(cluster: &Cluster, node: usize) -> Client {
    let mut client = cluster.client(node);
    client.set_patience(PATIENCE);
    client
}

fn shown(cluster: &Cluster, node: usize) -> String {
    match client(cluster, node).run("CONFIG GET durability") {
        Value::Array(pair) => format!("{:?}", pair[1]),
        other => panic!("{other:?} is no setting"),
    }
}

/// Every node says so, and `INFO` does.
#[track_caller]
fn all_show(cluster: &Cluster, durability: &str) {
    for node in 0..cluster.len() {
        assert_eq!(shown(cluster, node), format!("{:?}", Value::bulk(durability)));
        let info = client(cluster, node).info("persistence", "durability");
        assert_eq!(info.as_deref(), Some(durability));
    }
}

#[track_caller]
fn order(cluster: &Cluster, node: usize, durability: &str) {
    let reply = client(cluster, node).run(&format!("CONFIG SET durability {durability}"));
    assert_eq!(reply, Value::ok(), "{durability} through node {node}");
    all_show(cluster, durability);
}

#[track_caller]
fn nothing_is_missing(cluster: &Cluster, receipts: &Receipts) {
    for node in cluster.addresses() {
        let missing = receipts.missing(node);
        let first: Vec<_> = missing.iter().take(12).collect();
        assert!(missing.is_empty(), "{} are missing: {first:#?}", missing.len());
    }
    for node in 0..cluster.len() {
        let log = cluster.log(node);
        for word in ["DATA LOST", "panicked"] {
            let line = log.lines().find(|line| line.contains(word));
            assert!(line.is_none(), "node {node}: {line:?}");
        }
    }
}

/// Files of logs and snapshots in a node's directory.
fn kept_files(cluster: &Cluster, node: usize) -> Vec<String> {
    let names = fs::read_dir(cluster.data(node)).expect("the node has made it");
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_kept = |name: &String| name.starts_with("log-") || name.starts_with("snapshot-");
    names.filter(is_kept).collect()
}

fn changes_under_load(nodes: usize) {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(nodes, "memory", &[]);
    let mut receipts = Receipts::new(seed());
    receipts.begin(&cluster.addresses(), 4);
    for (number, durability) in [
        "relaxed", "strict", "memory", "strict", "relaxed", "memory", "relaxed",
    ]
    .into_iter()
    .enumerate()
    {
        receipts.wait_for_more(300);
        order(&cluster, number % nodes, durability);
        for node in 0..nodes {
            assert_eq!(kept_files(&cluster, node).is_empty(), durability == "memory");
        }
    }
    assert_eq!(receipts.errors().len(), 0, "{:?}", receipts.errors());
    receipts.wait_for_more(300);
    cluster.kill_all();
    receipts.end();
    cluster.restart_all();
    nothing_is_missing(&cluster, &receipts);
    all_show(&cluster, "relaxed");
}

#[test]
fn one_node_follows_every_order_while_clients_write() {
    changes_under_load(1);
}

#[test]
fn three_nodes_follow_every_order_while_clients_write() {
    changes_under_load(3);
}

/// With `hold`, to be killed is to lose power.
fn strict_counts_from_its_answer_on(before: &str, nodes: usize) {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(nodes, before, &[("test-disk", "hold")]);
    let mut receipts = Receipts::new(seed());
    receipts.begin(&cluster.addresses(), 2);
    receipts.wait_for_more(300);
    order(&cluster, nodes - 1, "strict");
    cluster.kill_all();
    receipts.end();
    cluster.restart_all();
    nothing_is_missing(&cluster, &receipts);
    all_show(&cluster, "strict");
}

#[test]
fn what_a_relaxed_node_has_acknowledged_outlives_a_loss_of_power_once_strict_is_answered() {
    strict_counts_from_its_answer_on("relaxed", 1);
}

#[test]
fn what_a_node_without_logs_has_acknowledged_outlives_a_loss_of_power_once_strict_is_answered() {
    strict_counts_from_its_answer_on("memory", 1);
}

#[test]
fn what_three_nodes_have_acknowledged_outlives_a_loss_of_power_once_strict_is_answered() {
    strict_counts_from_its_answer_on("relaxed", 3);
    strict_counts_from_its_answer_on("memory", 3);
}

#[test]
fn a_node_that_was_away_follows_with_its_next_start_and_goes_by_nothing_older() {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(3, "relaxed", &[]);
    assert_eq!(client(&cluster, 0).run("SET k old"), Value::ok());
    cluster.kill(2);
    for durability in ["strict", "memory"] {
        let reply = client(&cluster, 0).run(&format!("CONFIG SET durability {durability}"));
        let error = reply.error().expect("nobody knows of the node that is away");
        assert!(error.contains("UNKNOWN") && error.contains("node 3"), "{error}");
    }
    assert_eq!(client(&cluster, 1).run("SET k new"), Value::ok());
    for _ in 0..2 {
        // Its log of before is not what it comes back with, the second time neither.
        cluster.restart(2);
        cluster.wait_until_replicated();
        all_show(&cluster, "memory");
        assert_eq!(kept_files(&cluster, 2), [""; 0]);
        assert_eq!(client(&cluster, 2).run("GET k"), Value::bulk("new"));
        assert_eq!(client(&cluster, 2).run("SET k newer"), Value::ok());
        assert_eq!(client(&cluster, 2).run("SET k new"), Value::ok());
        cluster.kill(2);
    }
    cluster.restart(2);
    cluster.wait_until_replicated();
    order(&cluster, 2, "relaxed");
    cluster.kill_all();
    cluster.restart_all();
    assert_eq!(client(&cluster, 2).run("GET k"), Value::bulk("new"));
}

#[test]
fn a_graceful_stop_leaves_the_data_whatever_the_durability_became() {
    if is_redis() {
        return;
    }
    for orders in [&["memory"][..], &["memory", "relaxed"], &["strict"]] {
        let mut cluster = cluster(1, "relaxed", &[]);
        assert_eq!(client(&cluster, 0).run("SET k v"), Value::ok());
        for durability in orders {
            order(&cluster, 0, durability);
        }
        cluster.terminate(0);
        cluster.restart(0);
        cluster.wait_until_ready(0);
        assert_eq!(client(&cluster, 0).run("GET k"), Value::bulk("v"));
        // Without logs a node is ready as soon as it serves, whatever of its logs had begun.
        let was_unready = cluster.log(0).contains("ever ready");
        assert!(orders[0] != "memory" || !was_unready, "{}", cluster.log(0));
        all_show(&cluster, orders[orders.len() - 1]);
    }
}

#[test]
fn stops_in_the_middle_of_an_order_lose_nothing() {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(1, "memory", &[]);
    let value = "v".repeat(64 << 10);
    // Some groups have their logs when it stops, and others have not.
    for number in 0..1_000 {
        assert_eq!(
            client(&cluster, 0).run(&format!("SET k{number} {value}")),
            Value::ok()
        );
    }
    for durability in ["relaxed", "memory", "strict"] {
        let mut asking = client(&cluster, 0);
        asking
            .send(&["CONFIG", "SET", "durability", durability])
            .expect("the node is there");
        eventually("the node hears of it", || {
            let told = format!("to=\"{durability}\"");
            cluster.log(0).contains(&told)
        });
        for _ in 0..3 {
            assert!(cluster.terminate(0).success());
            cluster.restart(0);
            cluster.wait_until_ready(0);
            assert_eq!(client(&cluster, 0).run("DBSIZE"), Value::Integer(1_000));
        }
        eventually("the order is followed", || {
            shown(&cluster, 0) == format!("{:?}", Value::bulk(durability))
        });
    }
    cluster.kill_all();
    cluster.restart_all();
    assert_eq!(client(&cluster, 0).run("DBSIZE"), Value::Integer(1_000));
}

#[test]
fn redis_names_order_durability_too() {
    if is_redis() {
        return;
    }
    let cluster = cluster(1, "memory", &[]);
    let mut client = client(&cluster, 0);
    for (set, durability) in [
        ("appendonly yes", "relaxed"),
        ("appendfsync always", "strict"),
        ("appendfsync everysec", "relaxed"),
        ("appendonly yes appendfsync always", "strict"),
        ("appendfsync no", "relaxed"),
    ] {
        assert_eq!(client.run(&format!("CONFIG SET {set}")), Value::ok(), "{set}");
        all_show(&cluster, durability);
    }
    let reply = client.run("CONFIG SET maxmemory 1gb durability strict");
    let error = reply.error().expect("it is set by itself");
    assert!(error.contains("set it by itself"), "{error}");
    assert_eq!(client.run("CONFIG GET maxmemory"), {
        Value::Array(vec![Value::bulk("maxmemory"), Value::bulk("0")])
    });
}

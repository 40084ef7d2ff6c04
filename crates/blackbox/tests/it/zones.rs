//! Nodes that share their fate by zones.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use blackbox::{Client, Cluster, Replicas, Value, chorale_binary, eventually, http_get};

use crate::drain::{Over, admin, go_on, says as said};

/// Of each node.
const ZONES: [&str; 5] = ["a", "a", "b", "b", "c"];

/// What a node that is away for longer is replaced after, unless that is an outage.
const REPLACE_AFTER: Duration = Duration::from_secs(5);

fn status(cluster: &Cluster, node: usize) -> String {
    let output = Command::new(chorale_binary())
        .args(["admin", "status", &cluster.admin_address(node).to_string()])
        .output()
        .expect("the binary runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn is_in_each_zone_once(replicas: &Replicas) -> bool {
    replicas.replicas.iter().all(|stops| {
        let mut zones: Vec<&str> = stops.iter().map(|&(node, ..)| ZONES[node]).collect();
        zones.sort_unstable();
        zones == ["a", "b", "c"]
    })
}

/// Whether a reply has this text anywhere.
fn says(reply: &Value, text: &str) -> bool {
    match reply.elements() {
        Some(elements) => elements.iter().any(|element| says(element, text)),
        None => reply.text().as_deref() == Some(text),
    }
}

/// Nodes on which somebody has replicas, as a node sees it.
fn holders(cluster: &Cluster, node: usize) -> Vec<usize> {
    let seen = cluster.look(node).unwrap_or_default();
    let mut holders: Vec<usize> = seen.replicas.iter().flatten().map(|&(node, ..)| node).collect();
    holders.sort_unstable();
    holders.dedup();
    holders
}

#[test]
fn the_loss_of_a_zone_loses_nothing_and_its_nodes_are_waited_for() {
    let mut cluster = Cluster::new(8);
    cluster.flag("durability", "memory");
    cluster.flag("replace-after", &REPLACE_AFTER.as_secs().to_string());
    for (node, zone) in ZONES.iter().enumerate() {
        let name = format!("name-{node}");
        cluster.begin(&["--zone", zone, "--node-name", &name]);
        cluster.wait_until_ready(node);
    }
    eventually("every group is in each zone once", || {
        is_in_each_zone_once(&cluster.wait_until_replicated())
    });
    let mut client = cluster.client(4);
    (0..200).for_each(|key| client.run_ok(&format!("SET key:{key} {key}")));
    let table = status(&cluster, 4);
    assert!(table.contains("node  name    state  zone  clients"), "{table}");
    let shards = Client::connect(cluster.cluster_address(2))
        .expect("it listens")
        .run("CLUSTER SHARDS");
    for word in ["availability-zone", "a", "b", "c"] {
        assert!(says(&shards, word), "{word}: {shards:?}");
    }
    assert_eq!(client.info("server", "availability_zone").as_deref(), Some("c"));
    let page = http_get(cluster.admin_address(3), "/metrics").expect("the port answers");
    assert!(page.body.contains("name=\"name-3\",zone=\"b\""), "{}", page.body);

    // Its nodes had nothing on disk.
    [0, 1].iter().for_each(|&node| cluster.signal(node, "KILL"));
    [0, 1].iter().for_each(|&node| cluster.kill(node));
    let lost = Instant::now();
    for key in 0..200 {
        let expected = Value::bulk(key.to_string());
        eventually("what was acknowledged is there", || {
            client.run(&format!("GET key:{key}")) == expected
        });
    }
    (0..200).for_each(|key| client.run_ok(&format!("SET key:{key} again")));
    eventually("it is said why nobody is replaced", || {
        status(&cluster, 2).contains(
            "Nothing is heard of zone a: as long as that is so, no node is replaced by itself (1 2).",
        )
    });
    // Longer than a node that died for itself would be waited for.
    while lost.elapsed() < REPLACE_AFTER * 2 {
        assert_eq!(holders(&cluster, 2), [0, 1, 2, 3, 4]);
        std::thread::sleep(Duration::from_millis(200));
    }
    [0, 1].iter().for_each(|&node| cluster.restart(node));
    let replicas = cluster.wait_until_replicated();
    assert!(is_in_each_zone_once(&replicas), "{replicas:?}");
    (0..200).for_each(|key| assert_eq!(client.run(&format!("GET key:{key}")), Value::bulk("again")));

    // One of the zone alone has died: the other has what it had.
    cluster.kill(0);
    eventually("it is replaced", || holders(&cluster, 2) == [1, 2, 3, 4]);
    eventually("every group is in each zone once", || {
        cluster.look(2).is_some_and(|seen| is_in_each_zone_once(&seen))
    });
}

#[test]
fn a_zone_that_will_not_come_back_is_replaced_as_a_whole_or_not_at_all() {
    let mut cluster = Cluster::new(8);
    cluster.flag("durability", "memory");
    cluster.flag("replace-after", "0");
    for (node, zone) in ZONES.iter().enumerate() {
        cluster.begin(&["--zone", zone]);
        cluster.wait_until_ready(node);
    }
    eventually("every group is in each zone once", || {
        is_in_each_zone_once(&cluster.wait_until_grown())
    });
    let mut client = cluster.client(4);
    (0..200).for_each(|key| client.run_ok(&format!("SET key:{key} {key}")));
    cluster.kill(0);
    eventually("it is known to be down", || {
        status(&cluster, 2).contains("not heard of: 1")
    });
    let refused = said(&admin(&cluster, 2, "replace --zone a --confirm --wait"), 2);
    assert!(refused.contains("node 2 of zone a is up"), "{refused}");
    let refused = said(&admin(&cluster, 2, "replace --zone d --confirm"), 2);
    assert!(refused.contains("there are a b c"), "{refused}");
    let are_replaced = || {
        let page = http_get(cluster.admin_address(2), "/cluster").expect("it answers");
        page.body.matches("\"is_replaced\": true").count()
    };
    assert_eq!(are_replaced(), 0, "not one of them alone");
    cluster.kill(1);
    eventually("others lead what these led", || {
        let seen = cluster.look(2).unwrap_or_default();
        let is_led = |leader: &Option<usize>| leader.is_some_and(|leader| leader > 1);
        status(&cluster, 2).contains("not heard of: 1, 2") && seen.leaders.iter().all(is_led)
    });
    let plan = said(&admin(&cluster, 2, "replace --zone a"), 0);
    assert!(
        plan.contains("Node 1 2 are down") && plan.contains("Nothing was done."),
        "{plan}"
    );
    assert_eq!(holders(&cluster, 2), [0, 1, 2, 3, 4]);
    let done = said(&admin(&cluster, 2, "replace --zone a --confirm --wait"), 0);
    assert!(done.contains("Others have what node 1 2 had."), "{done}");
    assert_eq!(holders(&cluster, 2), [2, 3, 4]);
    let page = http_get(cluster.admin_address(2), "/cluster").expect("it answers");
    assert_eq!(
        page.body.matches("\"is_replaced\": true").count(),
        2,
        "{}",
        page.body
    );
    assert!(said(&admin(&cluster, 2, "jobs"), 0).starts_with("Nobody wants anything"));
    (0..200).for_each(|key| {
        assert_eq!(
            client.run(&format!("GET key:{key}")),
            Value::bulk(key.to_string())
        )
    });
    // Should it come back all the same, it begins anew.
    cluster.restart(0);
    eventually("it gets its share", || holders(&cluster, 2) == [0, 2, 3, 4]);
}

#[test]
fn a_node_that_starts_in_another_zone_keeps_what_it_has() {
    let mut cluster = Cluster::start(5, 8);
    let before = cluster.wait_until_grown();
    let table = status(&cluster, 0);
    assert!(table.contains("node  state  zone  clients"), "{table}");
    for (node, zone) in ZONES.iter().enumerate() {
        cluster.flag("zone", zone);
        cluster.terminate(node);
        cluster.restart(node);
        cluster.wait_until_ready(node);
        cluster.wait_until_replicated();
    }
    let after = cluster.wait_until_replicated();
    assert_eq!(after.moved_since(&before), 0, "{after:?}");
    // Those say so that have a part in the meta group.
    let says_so = |node: usize| {
        let table = status(&cluster, node);
        let words = [
            "a, placed for -",
            "b, placed for -",
            "Node 1 2 3 4 5 started with another zone",
        ];
        words.iter().all(|words| table.contains(words))
    };
    eventually("it is said", || (0..5).filter(|&node| says_so(node)).count() >= 3);

    // One order, and it is as if they had joined so; clients go on.
    let nodes = cluster.addresses();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let over = Over(is_over);
        let clients: Vec<_> = (0..5)
            .map(|at| (at, nodes.clone()))
            .map(|(at, nodes)| scope.spawn(move || go_on(&nodes, at, false, is_over)))
            .collect();
        let shown = |words: &str| said(&admin(&cluster, 0, words), 0);
        let looked = || cluster.look(0).expect("it answers");
        let plan = shown("rebalance");
        assert!(
            plan.contains("of 39 replicas of groups move") && plan.contains("Nothing was done."),
            "{plan}"
        );
        assert_eq!(looked().moved_since(&before), 0);
        // While all is paused it is wanted, and does not happen.
        shown("pause");
        shown("rebalance --confirm");
        eventually("node 4 knows of it", || {
            let jobs = said(&admin(&cluster, 3, "jobs"), 0);
            jobs.contains("rebalance  place anew") && jobs.contains("all is paused")
        });
        assert_eq!(looked().moved_since(&before), 0);
        shown("resume");
        let done = shown("rebalance --confirm --wait");
        assert!(done.contains("Every replica is where it is to be."), "{done}");
        let after = looked();
        assert!(is_in_each_zone_once(&after), "{after:?}");
        assert!(after.moved_since(&before) > 0);
        let plan = shown("rebalance");
        assert!(plan.contains("nothing would move"), "{plan}");
        drop(over);
        for client in clients {
            let seen = client.join().expect("it does not panic");
            assert!(seen.complaints.is_empty(), "{:?}", seen.complaints);
            assert!(seen.rounds > 50, "{} rounds", seen.rounds);
        }
    });
    eventually("nobody is placed for another zone", || {
        (0..5).all(|node| !status(&cluster, node).contains("placed for"))
    });
    assert!(said(&admin(&cluster, 2, "jobs"), 0).starts_with("Nobody wants anything"));
}

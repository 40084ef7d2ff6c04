//! Nodes are emptied and leave, as an operator wants, while clients of every node go on.

use std::net::SocketAddr;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use blackbox::{Client, Cluster, Value, eventually, http_get};

/// Some in each worker, few enough for processes that were built for tests.
const GROUPS: usize = 16;

/// No reply may take longer.
const PAUSE_MAX: Duration = Duration::from_secs(3);

/// Each client writes to so many keys, again and again.
const KEYS: u64 = 50;

pub(crate) fn admin(cluster: &Cluster, node: usize, words: &str) -> Output {
    cluster.admin(node, words).expect("the binary runs")
}

/// What it says, if it ends with this status.
pub(crate) fn says(output: &Output, status: i32) -> String {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert_eq!(output.status.code(), Some(status), "{said}");
    said
}

/// What a client has seen: the last value that it knows to be written to each of its keys, and what it did not expect.
pub(crate) struct Seen {
    written: Vec<u64>,
    pub(crate) rounds: u64,
    pub(crate) complaints: Vec<String>,
}

/// Tells the clients to stop, also when the test fails: nobody waits for them for ever.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writes and reads until it is told to stop, through `nodes[at]`; where that may leave, through the next one once the connection ends.
pub(crate) fn go_on(nodes: &[SocketAddr], at: usize, may_leave: bool, is_over: &AtomicBool) -> Seen {
    let mut client = Client::connect(nodes[at]).expect("the node takes clients");
    let mut seen = Seen {
        written: vec![0; KEYS as usize],
        rounds: 0,
        complaints: Vec::new(),
    };
    let mut has_moved = false;
    while !is_over.load(Ordering::Relaxed) && seen.complaints.len() < 8 {
        let round = seen.rounds + 1;
        let key = format!("client:{at}:{}", round % KEYS);
        let value = round.to_string();
        for (words, expected) in [
            (vec!["SET", &key, &value], Value::ok()),
            (vec!["GET", &key], Value::bulk(&value)),
        ] {
            let began = Instant::now();
            let reply = loop {
                match client.try_command(&words) {
                    Ok(reply) => break reply,
                    // It was not answered: it may be said again.
                    Err(_) if may_leave && !has_moved => {
                        has_moved = true;
                        let next = nodes[(at + 1) % nodes.len()];
                        client = Client::connect(next).expect("the node takes clients");
                    }
                    Err(error) => break Value::Error(error.to_string().into_bytes()),
                }
            };
            if reply != expected {
                seen.complaints.push(format!("{words:?}: {reply:?}"));
            }
            if began.elapsed() > PAUSE_MAX {
                seen.complaints
                    .push(format!("{words:?} took {:?}", began.elapsed()));
            }
        }
        seen.written[(round % KEYS) as usize] = round;
        seen.rounds = round;
    }
    seen
}

#[test]
fn a_node_that_is_drained_leaves_while_clients_of_every_node_go_on() {
    let mut cluster = Cluster::start(3, GROUPS);
    let nodes = cluster.addresses();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let over = Over(is_over);
        let clients: Vec<_> = (0..3)
            .map(|at| (at, nodes.clone()))
            .map(|(at, nodes)| scope.spawn(move || go_on(&nodes, at, at == 0, is_over)))
            .collect();

        // Of three nodes none can be spared.
        let refused = says(&admin(&cluster, 1, "drain 1 --leave --confirm --wait"), 2);
        assert!(refused.contains("Have another node join first"), "{refused}");
        assert!(says(&admin(&cluster, 1, "replace 1 --confirm"), 2).contains("is up"));
        let fourth = cluster.add();
        cluster.wait_until_replicated();

        let plan = says(&admin(&cluster, fourth, "drain 1 --leave"), 0);
        assert!(plan.contains("Nothing was done."), "{plan}");
        assert!(says(&admin(&cluster, fourth, "jobs"), 0).contains("Nobody wants anything"));

        // What is paused is wanted, and does not happen.
        says(&admin(&cluster, 2, "pause --for 1h"), 0);
        says(&admin(&cluster, 2, "drain 1 --confirm"), 0);
        eventually("node 4 knows of both", || {
            let jobs = says(&admin(&cluster, fourth, "jobs"), 0);
            jobs.contains("drain-1") && jobs.contains("all is paused")
        });
        says(&admin(&cluster, 1, "cancel drain-1"), 0);
        says(&admin(&cluster, 1, "resume"), 0);
        eventually("nobody wants anything of node 1", || {
            let jobs = says(&admin(&cluster, 1, "jobs"), 0);
            jobs.starts_with("Nobody wants anything")
        });

        let done = says(&admin(&cluster, 1, "drain 1 --leave --confirm --wait"), 0);
        assert!(done.contains("Node 1 has left."), "{done}");
        let ended = cluster.wait(0);
        assert_eq!(ended.code(), Some(0), "{}", cluster.log(0));
        drop(over);

        let mut reader = cluster.client(fourth);
        for (at, client) in clients.into_iter().enumerate() {
            let seen = client.join().expect("it does not panic");
            assert!(seen.complaints.is_empty(), "client {at}: {:?}", seen.complaints);
            assert!(seen.rounds > 100, "client {at} did {} rounds", seen.rounds);
            for (key, value) in seen.written.iter().enumerate().filter(|(_, value)| **value > 0) {
                let read = reader.run(&format!("GET client:{at}:{key}"));
                assert_eq!(read, Value::bulk(value.to_string()), "client {at}, key {key}");
            }
        }
    });
    for node in 1..4 {
        eventually("everybody knows it", || {
            let status = says(&admin(&cluster, node, "status"), 0);
            status.contains("3 nodes, all up.") && status.contains(&format!("{GROUPS} fully replicated"))
        });
    }
    let before = cluster.log(0).len();
    cluster.restart(0);
    assert_eq!(cluster.wait(0).code(), Some(1));
    let said = cluster.log(0).split_off(before);
    assert!(said.contains("has left its cluster"), "{said}");
}

#[test]
fn a_drain_that_cannot_go_on_says_why_and_goes_on_when_that_is_mended() {
    let mut cluster = Cluster::start(4, GROUPS);
    let killed = 3;
    cluster.kill(killed);
    eventually("it is known to be down", || {
        says(&admin(&cluster, 1, "status"), 0).contains("not heard of: 4")
    });
    let blocked = says(&admin(&cluster, 1, "drain 1 --confirm --wait"), 3);
    assert!(blocked.contains("node 4 is down"), "{blocked}");
    cluster.restart(killed);
    cluster.wait_until_ready(killed);
    let done = says(&admin(&cluster, 1, "drain 1 --confirm --wait"), 0);
    assert!(done.contains("Node 1 has no replicas any more."), "{done}");
    let placed = cluster.look(1).expect("it answers");
    assert!(
        placed.replicas.iter().flatten().all(|stop| stop.0 != 0),
        "{placed:?}"
    );
    // It has none, and serves clients all the same.
    cluster.client(0).run_ok("SET key value");

    // A node that is down is replaced at once, if somebody says so: there is nobody else, so the one that was emptied has to stay.
    cluster.kill(killed);
    eventually("it is known to be down, and others lead", || {
        let status = says(&admin(&cluster, 1, "status"), 0);
        status.contains("not heard of: 4") && status.contains(&format!("{GROUPS} with a leader"))
    });
    let refused = says(&admin(&cluster, 1, "replace 4 --confirm"), 2);
    assert!(refused.contains("2 nodes would be left"), "{refused}");
    says(&admin(&cluster, 1, "drain 1 --cancel"), 0);
    eventually("node 1 may have replicas", || {
        says(&admin(&cluster, 1, "jobs"), 0).starts_with("Nobody wants anything")
    });
    let plan = says(&admin(&cluster, 1, "replace 4"), 0);
    assert!(plan.contains("Nothing was done."), "{plan}");
    let done = says(&admin(&cluster, 1, "replace 4 --with 1 --confirm --wait"), 0);
    assert!(done.contains("Others have what node 4 had."), "{done}");
    eventually("node 1 has what node 4 had", || {
        let placed = cluster.look(1).expect("it answers");
        placed.replicas.iter().all(|group| {
            group.iter().filter(|stop| stop.2).count() == 3 && group.iter().all(|stop| stop.0 != killed)
        })
    });
}

/// By group, who leads it and which nodes keep what they held before it began anew; and which say that they have something of it aside.
fn kept_of_groups(cluster: &Cluster, node: usize) -> Vec<(Option<u64>, Vec<u64>, Vec<u64>)> {
    let page = http_get(cluster.admin_address(node), "/cluster").expect("it answers");
    let page: serde_json::Value = serde_json::from_str(&page.body).expect("it is JSON");
    let groups = page["groups"].as_array().expect("there are groups").iter();
    let numbers = |all: &serde_json::Value, name: &str| -> Vec<u64> {
        let all = all.as_array().into_iter().flatten();
        all.filter_map(|one| {
            if name.is_empty() {
                one.as_u64()
            } else {
                one[name].as_u64()
            }
        })
        .collect()
    };
    let of_group = |group: &serde_json::Value| {
        (
            group["leader"].as_u64(),
            numbers(&group["former"], ""),
            numbers(&group["recovery_sources"], "node"),
        )
    };
    groups.map(of_group).collect()
}

#[test]
fn what_a_node_keeps_of_a_group_that_began_anew_is_forgotten_at_an_operators_word() {
    let mut cluster = Cluster::new(4);
    cluster.flag("durability", "memory");
    cluster.flag("replace-after", "0");
    cluster.grow(4);
    cluster.wait_until_grown();
    says(&admin(&cluster, 1, "set-rf 4 --confirm --wait"), 0);
    let mut client = cluster.client(1);
    (0..KEYS).for_each(|key| client.run_ok(&format!("SET key:{key} {key}")));
    // Two of four have lost all that they had: there is no majority, and two have everything.
    for node in [2, 3] {
        cluster.kill(node);
    }
    for node in [2, 3] {
        cluster.restart(node);
        cluster.wait_until_ready(node);
    }
    says(&admin(&cluster, 1, "set-rf 3 --confirm"), 0);
    says(&admin(&cluster, 1, "drain 1 --confirm"), 0);
    let count = kept_of_groups(&cluster, 1).len();
    eventually("each group can begin anew", || {
        let plan = says(&admin(&cluster, 1, "recover"), 0);
        plan.matches("would begin anew with what node").count() == count
    });
    eventually("the meta group has another voter in its place", || {
        let page = http_get(cluster.admin_address(1), "/cluster").expect("it answers");
        let page: serde_json::Value = serde_json::from_str(&page.body).expect("it is JSON");
        let mut voters = page["meta_nodes"].as_array().into_iter().flatten();
        voters.all(|node| node.as_u64() != Some(1))
    });
    // One that is to have replicas is away, so that no group has all its voters again.
    cluster.kill(3);
    let begun = says(&admin(&cluster, 1, "recover --confirm"), 0);
    assert!(begun.contains(&format!("Begun anew: {count} groups.")), "{begun}");
    let keeps = |node: usize| -> Vec<usize> {
        let groups = kept_of_groups(&cluster, node);
        let its = groups.iter().enumerate().filter(|(_, (leader, former, said))| {
            leader.is_some() && former.contains(&1) && said.contains(&1)
        });
        its.map(|(number, _)| number).collect()
    };
    let mut kept = Vec::new();
    eventually("it keeps what the groups have not begun with", || {
        kept = keeps(1);
        let groups = kept_of_groups(&cluster, 1);
        let is_led = |(leader, former, said): &(Option<u64>, Vec<u64>, Vec<u64>)| {
            leader.is_some() && former.contains(&1) == said.contains(&1)
        };
        groups.iter().all(is_led) && !kept.is_empty()
    });
    let jobs = says(&admin(&cluster, 1, "jobs"), 0);
    assert!(
        jobs.contains("drain-1") && jobs.contains("may need what node 1 keeps of them"),
        "{jobs}"
    );

    let first = kept[0];
    let refused = says(&admin(&cluster, 1, &format!("forget 2 {first} --confirm")), 2);
    assert!(refused.contains("votes in group"), "{refused}");
    let refused = says(&admin(&cluster, 1, &format!("forget 4 {first} --confirm")), 2);
    assert!(refused.contains("There is nothing to forget"), "{refused}");
    let plan = says(&admin(&cluster, 1, &format!("forget 1 {first}")), 0);
    assert!(
        plan.contains("Node 1 keeps what it held") && plan.contains("Nothing was done."),
        "{plan}"
    );
    assert_eq!(keeps(1), kept, "a plan changes nothing");
    for group in &kept {
        let done = says(&admin(&cluster, 1, &format!("forget 1 {group} --confirm")), 0);
        assert!(
            done.contains(&format!("Node 1 keeps nothing of group {group}")),
            "{done}"
        );
    }
    // The node itself says so, and others believe it.
    for node in [0, 1] {
        eventually("it has nothing of them aside any more", || {
            let groups = kept_of_groups(&cluster, node);
            let is_kept = |group: &&usize| {
                let (_, former, said) = &groups[**group];
                former.contains(&1) || said.contains(&1)
            };
            !kept.iter().any(|group| is_kept(&group))
        });
    }
    let refused = says(&admin(&cluster, 1, &format!("forget 1 {first} --confirm")), 2);
    assert!(refused.contains("There is nothing to forget"), "{refused}");
    for key in 0..KEYS {
        let expected = Value::bulk(key.to_string());
        eventually("nothing is lost", || {
            cluster.client(1).run(&format!("GET key:{key}")) == expected
        });
    }
    // Nothing of it is in the way of the node's end; nor is anything else, unless a group has begun anew on that node.
    if kept.len() < count {
        cluster.restart(3);
        cluster.wait_until_ready(3);
    }
    let done = says(&admin(&cluster, 1, "drain 1 --leave --confirm --wait"), 0);
    assert!(done.contains("Node 1 has left."), "{done}");
}

//! Nodes are started again one after the other, as `docs/operating/upgrading.md` says, while clients of the others go on.

use std::sync::atomic::AtomicBool;
use std::thread;

use blackbox::{Cluster, eventually, http_get};

use crate::drain::{Over, admin, go_on, says};

const GROUPS: usize = 16;

/// What the last start of a node says of its replicas.
fn went_on(cluster: &Cluster, node: usize) -> Option<String> {
    let log = cluster.log(node);
    let mut lines = log.lines().rev();
    lines
        .find(|line| line.contains("replicas that go on"))
        .map(str::to_owned)
}

/// How many groups were sent to a node as a whole since it started.
fn filled(cluster: &Cluster, node: usize) -> u64 {
    let page = http_get(cluster.admin_address(node), "/metrics").expect("the admin port answers");
    let mut lines = page.body.lines();
    let value = lines.find_map(|line| line.strip_prefix("chorale_transfers_installed_total "));
    value.and_then(|value| value.parse().ok()).expect("it is counted")
}

/// In the order of the page: the one that leads the meta group comes last.
fn in_order(cluster: &Cluster) -> Vec<usize> {
    let status = says(&admin(cluster, 0, "status"), 0);
    let leads = |node: &usize| status.contains(&format!("; node {} leads the meta group", node + 1));
    let mut nodes: Vec<usize> = (0..3).collect();
    nodes.sort_by_key(leads);
    nodes
}

#[test]
fn three_nodes_are_started_again_one_after_the_other_and_clients_of_the_others_notice_nothing() {
    let mut cluster = Cluster::new(GROUPS);
    cluster.workers(2);
    cluster.grow(3);
    let nodes = cluster.addresses();
    let sets = (0..20_000).map(|at| vec!["SET".to_owned(), format!("key:{at}"), "x".repeat(1_000)]);
    cluster.client(0).pipeline(&sets.collect::<Vec<_>>());
    let order = in_order(&cluster);
    for (stopped, node) in order.iter().copied().enumerate() {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let is_over = &is_over;
            let over = Over(is_over);
            let clients: Vec<_> = (0..3)
                .filter(|&at| at != node)
                .map(|at| (at, nodes.clone()))
                .map(|(at, nodes)| scope.spawn(move || go_on(&nodes, at, false, is_over)))
                .collect();
            // As soon as the one before has caught up, which the cluster finds by itself.
            let lent = says(&admin(&cluster, node, "may-stop self --wait"), 0);
            assert!(lent.contains(&format!("Node {} may stop", node + 1)), "{lent}");
            assert!(lent.contains("It leads nothing."), "{lent}");
            for earlier in &order[..stopped] {
                assert_eq!(filled(&cluster, *earlier), 0, "it was sent what it lacked");
            }
            let other = (node + 1) % 3;
            eventually("the others know of it", || {
                says(&admin(&cluster, other, "jobs"), 0).contains(&format!("may-stop-{}", node + 1))
            });
            let refused = says(&admin(&cluster, other, "may-stop self"), 2);
            assert!(
                refused.contains(&format!("node {} may stop, or has", node + 1)),
                "{refused}"
            );
            let late = says(&admin(&cluster, other, "may-stop self --wait=1s"), 3);
            assert!(late.contains("again and again for 1 s"), "{late}");

            let ended = cluster.terminate(node);
            assert_eq!(ended.code(), Some(0), "{}", cluster.log(node));
            assert_eq!(admin(&cluster, other, "may-stop self").status.code(), Some(2));
            cluster.restart(node);
            cluster.wait_until_ready(node);
            drop(over);
            for client in clients {
                let seen = client.join().expect("it does not panic");
                assert!(
                    seen.complaints.is_empty(),
                    "stop {stopped}: {:?}",
                    seen.complaints
                );
                assert!(seen.rounds > 50, "{} rounds", seen.rounds);
            }
        });
        let said = went_on(&cluster, node).expect("it says what its replicas go on with");
        assert!(
            said.contains("refilled=0 dropped=0"),
            "nothing is filled by others: {said}"
        );
    }
    eventually("permission has ended by itself", || {
        (0..3).all(|node| says(&admin(&cluster, node, "jobs"), 0).starts_with("Nobody wants anything"))
    });
    assert!(says(&admin(&cluster, 0, "status"), 0).contains(&format!("{GROUPS} fully replicated")));
    let sent: u64 = (0..3).map(|node| filled(&cluster, node)).sum();
    assert_eq!(sent, 0, "all were sent what they lacked");
}

#[test]
fn a_node_may_not_stop_beside_one_that_is_down_and_permission_is_taken_back() {
    let mut cluster = Cluster::start(3, GROUPS);
    eventually("node 1 may stop", || {
        admin(&cluster, 1, "may-stop 1").status.success()
    });
    says(&admin(&cluster, 1, "cancel may-stop-1"), 0);
    cluster.kill(2);
    eventually("it is known to be down", || {
        says(&admin(&cluster, 0, "status"), 0).contains("not heard of: 3")
    });
    let refused = says(&admin(&cluster, 0, "may-stop 1"), 2);
    assert!(refused.contains("node 3 is down"), "{refused}");
    cluster.restart(2);
    cluster.wait_until_ready(2);
    // What it had is filled by then.
    says(&admin(&cluster, 0, "may-stop 1 --wait=60s"), 0);
    let alone = Cluster::start(1, GROUPS);
    let refused = says(&admin(&alone, 0, "may-stop 1"), 2);
    assert!(refused.contains("none can be spared"), "{refused}");
}

/// What a node says of whether it is ready, if it answers at all.
fn readiness(cluster: &Cluster, node: usize) -> Option<(u16, String)> {
    let page = http_get(cluster.admin_address(node), "/readyz").ok()?;
    Some((page.status, page.body))
}

fn is_ready(cluster: &Cluster, node: usize) -> bool {
    readiness(cluster, node).is_some_and(|(status, body)| status == 200 && body == "ready\n")
}

/// Asks a node that is starting until it is ready: what it said first, and what it said last before it was.
fn said_before_ready(cluster: &Cluster, node: usize) -> (String, String) {
    let mut said: Vec<String> = Vec::new();
    eventually("it is ready", || match readiness(cluster, node) {
        Some((200, _)) => true,
        Some((status, body)) => {
            assert_eq!(status, 503, "{body}");
            said.push(body);
            false
        }
        None => false,
    });
    let last = said.last().cloned();
    let first = said.into_iter().next();
    first.zip(last).expect("it is not ready at once")
}

/// Whether a node votes in every group, as the one says that leads the meta group.
fn votes_everywhere(cluster: &Cluster, node: usize) -> bool {
    let status = says(&admin(cluster, 0, "status"), 0);
    let leads = |other: &usize| status.contains(&format!("; node {} leads the meta group", other + 1));
    let leader = (0..cluster.len()).find(leads).expect("somebody leads it");
    let seen = cluster.look(leader).expect("it shows the cluster");
    let votes = |replicas: &Vec<(usize, u64, bool)>| {
        let mut replicas = replicas.iter();
        replicas.any(|&(where_, _, votes)| where_ == node && votes)
    };
    seen.replicas.iter().all(votes)
}

#[test]
fn a_node_is_ready_when_it_has_all_that_it_is_to_have_and_again_after_it_was_killed() {
    let mut cluster = Cluster::new(GROUPS);
    cluster.workers(2);
    cluster.grow(1);
    eventually("a node alone is ready", || is_ready(&cluster, 0));
    let sets = (0..20_000).map(|at| vec!["SET".to_owned(), format!("key:{at}"), "x".repeat(1_000)]);
    cluster.client(0).pipeline(&sets.collect::<Vec<_>>());
    cluster.grow(1);
    let joined = cluster.begin(&[]);
    let (first, _) = said_before_ready(&cluster, joined);
    assert!(first.starts_with("not ready: "), "{first}");
    assert!(votes_everywhere(&cluster, joined), "{}", cluster.views());
    eventually("so are the others", || {
        (0..2).all(|node| is_ready(&cluster, node))
    });

    cluster.kill(joined);
    let mut client = cluster.client(0);
    for at in 0..2_000 {
        // One after the other: each is an entry, and a follower that has nearly all of them has caught up.
        eventually("the others go on", || {
            client.run(&format!("SET late:{at} x")).error().is_none()
        });
    }
    eventually("the others are ready", || {
        (0..2).all(|node| is_ready(&cluster, node))
    });
    cluster.restart(joined);
    let (first, last) = said_before_ready(&cluster, joined);
    assert!(first.starts_with("not ready: "), "{first}");
    assert!(votes_everywhere(&cluster, joined), "{last}");

    says(&admin(&cluster, joined, "may-stop self --wait"), 0);
    eventually("who may stop is not ready", || {
        readiness(&cluster, joined).is_some_and(|(status, body)| status == 503 && body.contains("may stop"))
    });
    says(&admin(&cluster, joined, "cancel may-stop-3"), 0);
    eventually("it may not any more", || is_ready(&cluster, joined));
}

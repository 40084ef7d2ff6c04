//! Groups of a running cluster get another number of replicas, as an operator wants, while clients of every node go on.

use std::sync::atomic::AtomicBool;
use std::thread;

use blackbox::{Cluster, eventually};

use crate::drain::{Over, admin, go_on, says};

const GROUPS: usize = 8;

/// How many replicas each group has; none if they have unlike numbers, or if some do not vote.
fn replicas(cluster: &Cluster, node: usize) -> Option<usize> {
    let placed = cluster.look(node)?.replicas;
    let count = placed.first()?.len();
    let is_alike = |group: &Vec<_>| group.len() == count;
    let votes = placed.iter().flatten().all(|stop| stop.2);
    (placed.iter().all(is_alike) && votes).then_some(count)
}

/// What leaders say of their groups is shown a moment later than the map.
fn has(cluster: &Cluster, node: usize, wanted: usize) {
    eventually("each group has as many replicas as are wanted", || {
        replicas(cluster, node) == Some(wanted)
    });
}

#[test]
fn groups_get_five_replicas_and_one_and_three_again_while_clients_of_every_node_go_on() {
    let mut cluster = Cluster::start(5, GROUPS);
    cluster.wait_until_grown();
    let nodes = cluster.addresses();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let is_over = &is_over;
        let over = Over(is_over);
        let clients: Vec<_> = (0..5)
            .map(|at| (at, nodes.clone()))
            .map(|(at, nodes)| scope.spawn(move || go_on(&nodes, at, false, is_over)))
            .collect();
        let shown = |words: &str| says(&admin(&cluster, 0, words), 0);
        let refused = says(&admin(&cluster, 0, "set-rf 6 --confirm"), 2);
        assert!(refused.contains("Have other nodes join first"), "{refused}");
        assert_eq!(
            admin(&cluster, 0, "set-rf 2").status.code(),
            Some(2),
            "two bear nothing"
        );
        let plan = shown("set-rf 5");
        assert!(
            plan.contains("39 replicas now, 65 then, 5 of each group.") && plan.contains("Nothing was done."),
            "{plan}"
        );
        assert_eq!(replicas(&cluster, 0), Some(3));
        // While all is paused it is wanted, and does not happen.
        shown("pause");
        shown("set-rf 5 --confirm");
        eventually("node 4 knows of it", || {
            let jobs = says(&admin(&cluster, 3, "jobs"), 0);
            jobs.contains("set-rf  5 replicas") && jobs.contains("all is paused")
        });
        assert!(says(&admin(&cluster, 3, "status"), 0).contains("Each group is to have 5 replicas"));
        assert_eq!(replicas(&cluster, 0), Some(3));
        shown("resume");
        for (words, wanted) in [("5", 5), ("1", 1), ("auto", 3), ("3", 3)] {
            let done = shown(&format!("set-rf {words} --confirm --wait"));
            assert!(
                done.contains("Each group has as many replicas as are wanted."),
                "{done}"
            );
            has(&cluster, 0, wanted);
        }
        drop(over);
        for client in clients {
            let seen = client.join().expect("it does not panic");
            assert!(seen.complaints.is_empty(), "{:?}", seen.complaints);
            assert!(seen.rounds > 50, "{} rounds", seen.rounds);
        }
    });
    assert!(says(&admin(&cluster, 2, "jobs"), 0).starts_with("Nobody wants anything"));

    // What is wanted outlives the one that leads the meta group.
    let status = says(&admin(&cluster, 0, "status"), 0);
    let leader = (0..5).find(|node| status.contains(&format!("; node {} leads the meta group", node + 1)));
    let leader = leader.expect("somebody leads it");
    let asked = (leader + 1) % 5;
    says(&admin(&cluster, asked, "pause"), 0);
    says(&admin(&cluster, asked, "set-rf 5 --confirm"), 0);
    cluster.terminate(leader);
    cluster.restart(leader);
    cluster.wait_until_ready(leader);
    eventually("another one leads it", || {
        says(&admin(&cluster, asked, "status"), 0).contains("leads the meta group")
    });
    assert!(says(&admin(&cluster, asked, "jobs"), 0).contains("set-rf  5 replicas"));
    says(&admin(&cluster, asked, "resume"), 0);
    says(&admin(&cluster, asked, "set-rf 5 --confirm --wait"), 0);
    has(&cluster, asked, 5);
}

#[test]
fn what_groups_are_to_have_outlives_all_processes() {
    let mut cluster = Cluster::new(GROUPS);
    cluster.flag("durability", "strict");
    cluster.grow(4);
    let groups = cluster.wait_until_grown().replicas.len();
    says(&admin(&cluster, 1, "pause"), 0);
    says(&admin(&cluster, 1, "set-rf 4 --confirm"), 0);
    eventually("everybody knows it", || {
        (0..4).all(|node| says(&admin(&cluster, node, "jobs"), 0).contains("set-rf  4 replicas"))
    });
    cluster.kill_all();
    cluster.restart_all();
    eventually("somebody leads", || {
        says(&admin(&cluster, 0, "jobs"), 0).contains("set-rf  4 replicas")
            && says(&admin(&cluster, 0, "status"), 0).contains(&format!("{groups} with a leader"))
    });
    says(&admin(&cluster, 0, "resume"), 0);
    says(&admin(&cluster, 0, "set-rf 4 --confirm --wait"), 0);
    has(&cluster, 0, 4);
}

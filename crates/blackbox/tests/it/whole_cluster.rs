//! All nodes of a cluster stop, and start again by the very commands that first started them.
//!
//! ```text
//!   found: three nodes of 1, 2 and 4 workers, with the same list of names
//!   round: clients write --> all nodes stop, while they write: killed or told to, together or one after the other
//!                        --> none, some or all are at other addresses --> they start in any order
//!                        --> all groups are replicated, each node has all that was ever acknowledged
//! ```
//!
//! `CHORALE_BLACKBOX_ROUNDS` says how many rounds; 3 otherwise. With `--nocapture` each of them is a row of a table.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use blackbox::{Cluster, Prng, Receipts, eventually, http_get};

/// Workers of each node.
const WORKERS: [&str; 3] = ["1", "2", "4"];

/// Some in each worker.
const GROUPS: usize = 8;

/// Clients at each node.
const WRITERS: usize = 2;

/// Percent of nodes that are killed, where killing loses nothing.
const KILLS_PERCENT: usize = 50;

/// Percent of rounds in which addresses change, and of nodes whose address does then.
const MOVES_PERCENT: usize = 60;

fn rounds() -> usize {
    let rounds = std::env::var("CHORALE_BLACKBOX_ROUNDS");
    rounds.map_or(3, |rounds| rounds.parse().expect("a number of rounds"))
}

fn seed() -> u64 {
    let seed = std::env::var("CHORALE_BLACKBOX_SEED");
    let seed = seed.map_or(1, |seed| seed.parse().expect("a seed is a number"));
    eprintln!("CHORALE_BLACKBOX_SEED={seed}");
    seed
}

/// The nodes in an order that is drawn.
fn order(prng: &mut Prng) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..WORKERS.len()).collect();
    (1..nodes.len()).for_each(|last| nodes.swap(last, prng.below(last + 1)));
    nodes
}

/// Three nodes that make a cluster, as soon as they can look each other up. `None` where there can be no namespaces.
fn founded(durability: &str) -> Option<Cluster> {
    let mut cluster = match Cluster::in_namespaces(GROUPS) {
        Ok(cluster) => cluster,
        Err(reason) => {
            eprintln!("SKIPPED, nothing was tested: there are no network namespaces here: {reason}");
            return None;
        }
    };
    // Each machine has all ports for itself, so the list is known before anybody has started.
    let port = 7389;
    let names: Vec<String> = (0..WORKERS.len())
        .map(|node| format!("node-{node}:{port}"))
        .collect();
    cluster.flag("bind", "*");
    cluster.flag("peer-port", &port.to_string());
    cluster.flag("join", &names.join(" "));
    cluster.flag("join-expect", &WORKERS.len().to_string());
    cluster.flag("durability", durability);
    for (node, workers) in WORKERS.iter().enumerate() {
        let name = format!("node-{node}");
        cluster.begin(&[
            "--workers",
            workers,
            "--node-name",
            &name,
            "--join",
            &names.join(" "),
        ]);
    }
    name_all(&mut cluster);
    Some(cluster)
}

fn host(cluster: &Cluster, node: usize) -> Ipv4Addr {
    match cluster.peer_address(node).ip() {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => unreachable!("namespaces have addresses of version 4"),
    }
}

fn name_all(cluster: &mut Cluster) {
    let nodes = 0..cluster.len();
    let names: Vec<_> = nodes
        .map(|node| (format!("node-{node}"), host(cluster, node)))
        .collect();
    cluster.set_names(&names);
}

/// The command that a node was started with: the program and its arguments.
fn command(cluster: &Cluster, node: usize) -> String {
    let path = format!("/proc/{}/cmdline", cluster.process_id(node));
    let mut words = String::new();
    eventually("the node's program runs in its namespace", || {
        words = String::from_utf8_lossy(&fs::read(&path).expect("the process runs")).replace('\0', " ");
        words.contains(" server ") && !words.contains("netns")
    });
    words
}

fn joined(nodes: &[usize]) -> String {
    let numbers: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    if numbers.is_empty() {
        "-".to_owned()
    } else {
        numbers.join(" ")
    }
}

/// Ends all nodes as is drawn, and says how.
fn stop(cluster: &mut Cluster, may_kill: bool, prng: &mut Prng) -> String {
    let nodes = order(prng);
    let is_together = prng.chance(50);
    let killed: Vec<bool> = nodes
        .iter()
        .map(|_| may_kill && prng.chance(KILLS_PERCENT))
        .collect();
    if is_together {
        for (&node, &is_killed) in nodes.iter().zip(&killed) {
            cluster.signal(node, if is_killed { "KILL" } else { "TERM" });
        }
    }
    let mut how = Vec::new();
    for (&node, &is_killed) in nodes.iter().zip(&killed) {
        if is_killed {
            cluster.kill(node);
        } else {
            let ended = if is_together {
                cluster.wait(node)
            } else {
                cluster.terminate(node)
            };
            assert_eq!(ended.code(), Some(0), "{}", cluster.log(node));
        }
        how.push(format!("{node} {}", if is_killed { "KILL" } else { "TERM" }));
    }
    let when = if is_together {
        "together"
    } else {
        "one after the other"
    };
    format!("{}, {when}", how.join(", "))
}

/// Starts all nodes in an order that is drawn, at once or each when the one before it waits for the others; says how.
fn start(cluster: &mut Cluster, prng: &mut Prng) -> String {
    let nodes = order(prng);
    let is_slow = prng.chance(50);
    for &node in &nodes {
        cluster.restart(node);
        if is_slow {
            eventually("its admin port answers", || {
                http_get(cluster.admin_address(node), "/healthz").is_ok()
            });
        }
    }
    format!(
        "{}, {}",
        joined(&nodes),
        if is_slow { "slowly" } else { "at once" }
    )
}

fn stops_and_starts(durability: &str, may_kill: bool) {
    let mut prng = Prng::new(seed());
    let Some(mut cluster) = founded(durability) else {
        return;
    };
    let mut receipts = Receipts::new(prng.bits());
    cluster.wait_until_replicated();
    let commands: Vec<String> = (0..cluster.len()).map(|node| command(&cluster, node)).collect();
    println!(
        "| round | stopped | started | at other addresses | seconds until all was replicated | operations acknowledged so far | missing |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for round in 1..=rounds() {
        receipts.begin(&cluster.addresses(), WRITERS);
        receipts.wait_for_a_round(&mut prng);
        let stopped = stop(&mut cluster, may_kill, &mut prng);
        receipts.end();
        let do_move = prng.chance(MOVES_PERCENT);
        let moved: Vec<usize> = (0..cluster.len())
            .filter(|_| do_move && prng.chance(MOVES_PERCENT))
            .collect();
        moved.iter().for_each(|&node| cluster.readdress(node));
        name_all(&mut cluster);
        let began = Instant::now();
        let started = start(&mut cluster, &mut prng);
        for (node, first) in commands.iter().enumerate() {
            assert_eq!(command(&cluster, node), *first);
            cluster.wait_until_ready(node);
        }
        cluster.wait_until_replicated();
        let took = began.elapsed().as_secs_f64();
        let missing: Vec<String> = cluster
            .addresses()
            .into_iter()
            .flat_map(|node| receipts.missing(node))
            .collect();
        println!(
            "| {round} | {stopped} | {started} | {} | {took:.1} | {} | {} |",
            joined(&moved),
            receipts.acknowledged(),
            missing.len()
        );
        assert!(missing.is_empty(), "round {round}: {missing:#?}");
    }
    for node in 0..cluster.len() {
        let log = fs::read_to_string(cluster.data(node).with_file_name("log")).expect("it has one");
        assert!(!log.contains("DATA LOST"), "{log}");
    }
}

#[test]
fn nodes_that_are_killed_or_stopped_come_back_by_the_same_commands_with_all_that_was_acknowledged() {
    stops_and_starts("relaxed", true);
}

#[test]
fn nodes_that_sync_each_write_come_back_by_the_same_commands_with_all_that_was_acknowledged() {
    stops_and_starts("strict", true);
}

#[test]
fn nodes_that_keep_all_in_memory_and_are_stopped_come_back_with_all_that_was_acknowledged() {
    stops_and_starts("memory", false);
}

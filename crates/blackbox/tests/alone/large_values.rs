//! Values of many megabytes on three nodes of two workers, beside clients with small commands.

use crate::machine;
use blackbox::{Client, Cluster, Value, eventually, http_get};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Large enough that what holds a worker up as long as its bytes are many would end a lease, small enough for a build
/// without optimisation on a busy machine.
const VALUE_BYTES: usize = 128 << 20;

/// Longer than a busy machine takes for a value.
const PATIENCE: Duration = Duration::from_secs(60);

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(64);
    cluster.workers(2);
    cluster.grow(3);
    cluster.wait_until_replicated();
    cluster
}

/// The sum of a metric over all nodes.
fn total(cluster: &Cluster, metric: &str) -> u64 {
    let of_node = |node| {
        let page = http_get(cluster.admin_address(node), "/metrics").expect("the admin port answers");
        let lines = page.body.lines().filter(|line| !line.starts_with('#'));
        let of_metric = lines.filter(|line| line.split(['{', ' ']).next() == Some(metric));
        let numbers = of_metric.map(|line| {
            line.rsplit(' ')
                .next()
                .and_then(|number| number.parse::<f64>().ok())
        });
        numbers
            .map(|number| number.expect("a metric is a number") as u64)
            .sum::<u64>()
    };
    (0..cluster.len()).map(of_node).sum()
}

/// How many terms were seen when leadership had been spread over the nodes, which it is for a while after they have grown.
fn settled_terms(cluster: &Cluster) -> u64 {
    let (mut terms, mut since) = (0, Instant::now());
    eventually("leaders stay", || {
        let now = total(cluster, "chorale_term_changes_total");
        if now != terms {
            (terms, since) = (now, Instant::now());
        }
        since.elapsed() >= Duration::from_secs(3)
    });
    terms
}

fn client(cluster: &Cluster, node: usize) -> Client {
    let mut client = cluster.client(node);
    client.set_patience(PATIENCE);
    client
}

/// Sets small keys of all groups through a node until it is told to stop, and answers how long each took.
fn beside(mut client: Client, is_over: &AtomicBool) -> Vec<Duration> {
    let mut took = Vec::new();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let began = Instant::now();
        let reply = client.run(&format!("SET small:{} {number}", number % 500));
        assert_eq!(reply, Value::ok());
        took.push(began.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    took
}

/// Tells those beside to stop, also where a test fails: they would run for ever.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs commands through nodes one after another while clients of all nodes set small keys.
fn run_beside_others(cluster: &Cluster, commands: &[(usize, &[&[u8]], Value)]) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let others: Vec<_> = (0..cluster.len())
            .map(|node| {
                let client = client(cluster, node);
                scope.spawn(|| beside(client, &is_over))
            })
            .collect();
        let stop = Stop(&is_over);
        for (node, words, reply) in commands {
            let found = client(cluster, *node).command(words);
            let name = String::from_utf8_lossy(words[0]);
            // A reply of megabytes is nothing to print.
            assert!(
                found == *reply,
                "{name} through node {node}: {:.80}",
                format!("{found:?}")
            );
        }
        drop(stop);
        for other in others {
            let took = other.join().expect("small commands are answered");
            assert!(!took.is_empty());
        }
    });
}

#[test]
fn a_large_value_is_sent_once_to_each_follower_and_nobody_loses_a_leader() {
    let _machine = machine();
    let cluster = cluster();
    let terms = settled_terms(&cluster);
    let sent = total(&cluster, "chorale_peer_output_bytes_total");
    let value = vec![b'v'; VALUE_BYTES];
    run_beside_others(&cluster, &[(0, &[b"SET", b"large", &value], Value::ok())]);
    eventually("all replicas have the value", || {
        let behind = total(&cluster, "chorale_peer_output_bytes_total") - sent;
        behind >= 2 * VALUE_BYTES as u64
    });
    // That nothing is sent again shows only in what does not come: longer than a batch waits before it is sent again.
    thread::sleep(Duration::from_secs(2));
    let sent = total(&cluster, "chorale_peer_output_bytes_total") - sent;
    // To both followers, and from the node that the client asked to the leader if that is another one.
    let most = 3 * VALUE_BYTES as u64 * 11 / 10;
    assert!(
        sent <= most,
        "{sent} bytes were sent for a value of {VALUE_BYTES}"
    );
    let length = Value::Integer(VALUE_BYTES as i64);
    run_beside_others(
        &cluster,
        &[
            (1, &[b"GET", b"large"], Value::Bulk(value)),
            (2, &[b"RENAME", b"large", b"of another group"], Value::ok()),
            (0, &[b"STRLEN", b"of another group"], length.clone()),
            (1, &[b"STRLEN", b"of another group"], length),
            (2, &[b"DEL", b"of another group"], Value::Integer(1)),
        ],
    );
    assert_eq!(
        total(&cluster, "chorale_term_changes_total"),
        terms,
        "leaders changed"
    );
}

#[test]
fn a_burst_of_large_values_is_stored_and_small_commands_are_answered_meanwhile_and_after() {
    const CLIENTS: usize = 8;
    const BURST_BYTES: usize = 64 << 20;
    let _machine = machine();
    let cluster = cluster();
    let value = vec![b'v'; BURST_BYTES];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let others: Vec<_> = (0..cluster.len())
            .map(|node| {
                let client = client(&cluster, node);
                scope.spawn(|| beside(client, &is_over))
            })
            .collect();
        let stop = Stop(&is_over);
        let large: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (cluster, value) = (&cluster, &value);
                scope.spawn(move || {
                    let mut client = client(cluster, number % cluster.len());
                    for round in 0..2 {
                        let key = format!("large:{number}:{round}");
                        assert_eq!(client.command(&[b"SET", key.as_bytes(), value]), Value::ok());
                    }
                })
            })
            .collect();
        for one in large {
            one.join().expect("it is stored");
        }
        // The cluster was down for half a minute after such a burst.
        thread::sleep(Duration::from_secs(1));
        drop(stop);
        for other in others {
            assert!(!other.join().expect("small commands are answered").is_empty());
        }
    });
    for number in 0..CLIENTS {
        let length = client(&cluster, 0).run(&format!("STRLEN large:{number}:1"));
        assert_eq!(length, Value::Integer(BURST_BYTES as i64));
    }
}

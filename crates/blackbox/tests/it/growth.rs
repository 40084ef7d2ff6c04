//! One node of two workers becomes three and then five, while clients do everything that touches several groups.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use blackbox::{Client, Cluster, Value};

/// Some in each worker, few enough for processes that were built for tests.
const GROUPS: usize = 16;

/// No reply may take longer.
const PAUSE_MAX: Duration = Duration::from_millis(1_500);

/// Keys that a scan must always find.
const OLD_KEYS: usize = 200;

/// Of the clients, who waits for elements and who pushes them.
const WAITING: usize = 7;
const PUSHING: usize = 8;
const KINDS: usize = 10;

/// What one client has seen.
#[derive(Default)]
struct Seen {
    done: u64,
    slowest: Duration,
    /// What it was given by `BLPOP`.
    popped: Vec<u64>,
    complaints: Vec<String>,
}

struct Worker {
    client: Client,
    seen: Seen,
}

impl Worker {
    fn new(address: SocketAddr) -> Worker {
        Worker {
            client: Client::connect(address).expect("the node takes clients"),
            seen: Seen::default(),
        }
    }

    fn run(&mut self, words: &str) -> Value {
        let began = Instant::now();
        let words: Vec<&str> = words.split(' ').collect();
        let reply = self.client.try_command(&words);
        let took = began.elapsed();
        let reply = reply.unwrap_or_else(|error| Value::Error(error.to_string().into_bytes()));
        self.seen.slowest = self.seen.slowest.max(took);
        if let Some(error) = reply.error() {
            self.complain(format!("{}: {error}", words.join(" ")));
        }
        if took > PAUSE_MAX {
            self.complain(format!("{} took {took:?}", words.join(" ")));
        }
        reply
    }

    fn complain(&mut self, complaint: String) {
        if self.seen.complaints.len() < 8 {
            self.seen.complaints.push(complaint);
        }
    }

    fn expect(&mut self, words: &str, expected: &Value) {
        let reply = self.run(words);
        if reply.error().is_none() && reply != *expected {
            self.complain(format!("{words}: {reply:?}, not {expected:?}"));
        }
    }

    /// One round of a client of this kind, the `round`th.
    fn round(&mut self, kind: usize, round: u64) {
        match kind {
            0 => {
                self.expect(
                    &format!("MSET p {round} q {round} r {round} t {round}"),
                    &Value::ok(),
                );
                let value = Value::bulk(round.to_string());
                self.expect("MGET t p r q", &Value::Array(vec![value; 4]));
            }
            1 => {
                let absent = format!("MSETNX n:{round} 1 m:{round} 1 o:{round} 1");
                self.expect(&absent, &Value::Integer(1));
            }
            2 => {
                self.expect(&format!("SADD s1 {round}"), &Value::Integer(1));
                let both = Value::Integer(round as i64 + 1 + i64::from(round > 0));
                let expected = if round == 0 { Value::Integer(1) } else { both };
                self.expect("SUNIONSTORE s3 s1 s2", &expected);
                self.expect("RENAME s3 s2", &Value::ok());
                self.expect("SADD s2 more", &Value::Integer(i64::from(round == 0)));
                self.expect("SINTERSTORE s4 s1 s2", &Value::Integer(round as i64 + 1));
            }
            3 => {
                let from = ["l1", "l2", "l3"][(round % 3) as usize];
                let to = ["l1", "l2", "l3"][((round + 1) % 3) as usize];
                self.expect(&format!("BLMOVE {from} {to} LEFT RIGHT 5"), &Value::bulk("ball"));
            }
            4 => {
                self.expect("WATCH c", &Value::ok());
                self.run("GET c");
                self.run("MULTI");
                self.run(&format!("SET c {}", round + 1));
                self.run("INCR d");
                self.run("LPUSH e x");
                self.run("DBSIZE");
                let reply = self.run("EXEC");
                if reply.is_null() {
                    self.complain("nobody else changes what is watched".into());
                }
            }
            5 => {
                let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
                loop {
                    let reply = self.run(&format!("SCAN {cursor} MATCH old:* COUNT 200"));
                    let Some([next, keys]) = reply.elements() else {
                        return;
                    };
                    found.extend(keys.elements().unwrap_or_default().iter().filter_map(Value::text));
                    cursor = next.text().unwrap_or_default();
                    if cursor == "0" {
                        break;
                    }
                }
                found.sort_unstable();
                found.dedup();
                if found.len() != OLD_KEYS {
                    self.complain(format!("a scan finds {} of {OLD_KEYS} keys", found.len()));
                }
            }
            6 => {
                self.expect(
                    "XFER x y 1",
                    &Value::Array(vec![
                        Value::Integer(1_000_000 - round as i64 - 1),
                        Value::Integer(round as i64 + 1),
                    ]),
                );
                self.run("DBSIZE");
                self.expect("COPY x z REPLACE", &Value::Integer(1));
            }
            // Mostly nothing is under either key: who pushes has two commands to send for each.
            WAITING => {
                let reply = self.run("BLPOP w1 w2 0.5");
                let popped = reply.elements().and_then(|reply| reply.get(1)?.text());
                self.seen
                    .popped
                    .extend(popped.and_then(|element| element.parse::<u64>().ok()));
            }
            PUSHING => {
                let list = ["w1", "w2"][(round % 2) as usize];
                self.run(&format!("RPUSH w0 {round}"));
                self.expect(
                    &format!("LMOVE w0 {list} LEFT RIGHT"),
                    &Value::bulk(round.to_string()),
                );
            }
            _ => {
                self.run("SELECT 1");
                self.expect(&format!("MSET f 1 g 1 h:{round} 1"), &Value::ok());
                self.run("FLUSHDB");
                self.expect("DBSIZE", &Value::Integer(0));
            }
        }
    }
}

#[test]
fn one_node_of_two_workers_grows_to_five_under_commands_over_many_groups_and_nobody_notices() {
    grow_to_five([2; 5]);
}

#[test]
fn one_node_of_two_workers_grows_to_five_of_other_numbers_and_nobody_notices() {
    grow_to_five([2, 1, 4, 3, 2]);
}

/// From one node to three and to five, with so many workers each.
fn grow_to_five(workers: [usize; 5]) {
    let mut cluster = Cluster::new(GROUPS);
    cluster.workers(workers[0]);
    cluster.add();
    let mut first = cluster.client(0);
    for key in 0..OLD_KEYS {
        first.run_ok(&format!("SET old:{key} {key}"));
    }
    first.run("RPUSH l1 ball");
    first.run_ok("SET x 1000000");
    first.run_ok("SET y 0");
    let ends = AtomicBool::new(false);
    let rounds: Vec<AtomicU64> = (0..KINDS).map(|_| AtomicU64::new(0)).collect();
    let address = cluster.address(0);
    let seen: Vec<Seen> = thread::scope(|scope| {
        let (ends, rounds) = (&ends, &rounds);
        let clients: Vec<_> = (0..KINDS)
            .map(|kind| {
                scope.spawn(move || {
                    let mut worker = Worker::new(address);
                    while !ends.load(Ordering::Relaxed) && worker.seen.complaints.is_empty() {
                        worker.round(kind, worker.seen.done);
                        worker.seen.done += 1;
                        rounds[kind].store(worker.seen.done, Ordering::Relaxed);
                    }
                    worker.seen
                })
            })
            .collect();
        let go_on = |more: u64| {
            let before: Vec<u64> = rounds.iter().map(|round| round.load(Ordering::Relaxed)).collect();
            let began = Instant::now();
            let is_behind =
                || (0..KINDS).any(|kind| rounds[kind].load(Ordering::Relaxed) < before[kind] + more);
            while is_behind() && began.elapsed() < Duration::from_secs(20) {
                thread::sleep(Duration::from_millis(10));
            }
        };
        go_on(20);
        for more in workers[1..].chunks(2) {
            for &workers in more {
                cluster.workers(workers);
                cluster.add();
            }
            cluster.wait_until_replicated();
            go_on(20);
        }
        ends.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .map(|client| client.join().expect("it only talks"))
            .collect()
    });
    let complaints: Vec<&String> = seen.iter().flat_map(|seen| &seen.complaints).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    for (kind, seen) in seen.iter().enumerate() {
        println!("kind {kind}: {} rounds, slowest {:?}", seen.done, seen.slowest);
        assert!(seen.done > 60, "kind {kind}: {} rounds", seen.done);
    }
    let mut last = cluster.client(4);
    for key in 0..OLD_KEYS {
        assert_eq!(last.run(&format!("GET old:{key}")), Value::bulk(key.to_string()));
    }
    for round in 0..seen[1].done {
        let keys = format!("EXISTS n:{round} m:{round} o:{round}");
        assert_eq!(last.run(&keys), Value::Integer(3), "{keys}");
    }
    assert_eq!(last.run("GET d"), Value::bulk(seen[4].done.to_string()));
    assert_eq!(last.run("LLEN e"), Value::Integer(seen[4].done as i64));
    assert_eq!(last.run("GET y"), Value::bulk(seen[6].done.to_string()));
    let mut elements = seen[WAITING].popped.clone();
    for list in ["w0", "w1", "w2"] {
        let left = last.run(&format!("LRANGE {list} 0 -1"));
        let left = left.elements().unwrap_or_default().iter().filter_map(Value::text);
        elements.extend(left.filter_map(|element| element.parse::<u64>().ok()));
    }
    elements.sort_unstable();
    assert_eq!(elements, (0..seen[PUSHING].done).collect::<Vec<u64>>());
    let balls = ["l1", "l2", "l3"].map(|list| last.run(&format!("LLEN {list}")).integer());
    assert_eq!(balls.into_iter().flatten().sum::<i64>(), 1);
}

/// Nodes on machines of their own, as the page "three machines" says, or nothing where there can be no namespaces.
fn on_machines() -> Option<Cluster> {
    match Cluster::in_namespaces(8) {
        Ok(mut cluster) => {
            cluster.flag("bind", "*");
            Some(cluster)
        }
        Err(reason) => {
            eprintln!("SKIPPED, nothing was tested: there are no network namespaces here: {reason}");
            None
        }
    }
}

#[test]
fn nodes_that_listen_on_every_address_announce_one_that_others_reach() {
    let Some(mut cluster) = on_machines() else { return };
    // It is shown with the addresses that clients of this test use: no other would be found.
    cluster.grow(3);
    cluster.client(0).run_ok("SET key value");
    assert_eq!(cluster.client(2).run("GET key"), Value::bulk("value"));
    for node in 0..3 {
        let says = format!("peer=\"{}\"", cluster.peer_address(node));
        assert!(cluster.log(node).contains(&says), "{}", cluster.log(node));
    }
    // One that is back knows the others from before.
    assert!(cluster.terminate(2).success());
    cluster.restart(2);
    cluster.wait_until_ready(2);
    cluster.wait_until_replicated();
}

#[test]
fn a_node_that_others_could_not_reach_does_not_join_and_says_why() {
    let Some(mut cluster) = on_machines() else { return };
    cluster.add();
    for (flags, says) in [
        (["--advertise", "127.0.0.1"], "--advertise"),
        (["--cluster-secret", ""], "--cluster-secret-file"),
    ] {
        let node = cluster.begin(&flags);
        assert_eq!(cluster.wait(node).code(), Some(1));
        let log = cluster.log(node);
        assert!(
            log.contains("is on another machine") && log.contains(says),
            "{log}"
        );
    }
    // The first one is no better: who comes is told of it.
    let mut cluster = Cluster::in_namespaces(8).expect("there were some");
    cluster.flag("bind", "*");
    let first = cluster.begin(&["--advertise", "127.0.0.1"]);
    cluster.wait_until_ready(first);
    let second = cluster.begin(&[]);
    assert_eq!(cluster.wait(second).code(), Some(1));
    let log = cluster.log(second);
    assert!(log.contains("could not all reach each other"), "{log}");
}

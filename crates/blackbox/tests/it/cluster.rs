//! Several nodes: they form a cluster, serve everything anywhere, and lose nothing when one of them fails. The long form of
//! what is short here is the program `chaos` of this crate.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use blackbox::{Client, Cluster, Mixture, Seen, Value, Workload, eventually};
use history::{History, Verdict};

/// Few, so that tests are quick on processes that were built for tests.
const GROUPS: usize = 8;

fn words(words: &str) -> Vec<&str> {
    words.split(' ').collect()
}

fn queued() -> Value {
    Value::Simple(b"QUEUED".to_vec())
}

#[track_caller]
fn assert_linearizable(history: &History) {
    match history::check(history) {
        Verdict::Linearizable => {}
        Verdict::Violated(violation) => panic!("{violation}"),
        Verdict::Undecided(undecided) => panic!("{undecided}"),
    }
}

#[track_caller]
fn assert_nothing_failed(seen: &Seen) {
    assert_eq!((seen.failed(), seen.unread), (0, 0), "{seen:?}");
}

/// The node that is said to lead most groups.
fn leader_of_most(cluster: &Cluster) -> usize {
    let seen = cluster.look(0).expect("the node shows the cluster");
    let led = seen.led(cluster.len());
    (0..led.len())
        .max_by_key(|&node| led[node])
        .expect("there are nodes")
}

#[test]
fn what_was_written_before_nodes_joined_is_served_by_all_of_them() {
    let mut cluster = Cluster::start(1, GROUPS);
    let mut first = cluster.client(0);
    for key in 0..300 {
        first.run_ok(&format!("SET key:{key} {key}"));
    }
    cluster.grow(2);
    for node in 0..3 {
        let mut client = cluster.client(node);
        for key in 0..300 {
            let reply = client.run(&format!("GET key:{key}"));
            assert_eq!(reply, Value::bulk(key.to_string()), "key:{key} at node {node}");
        }
        assert_eq!(
            client.run("DBSIZE"),
            Value::Integer(300 + node as i64),
            "at node {node}"
        );
        client.run_ok(&format!("SET by:{node} {node}"));
    }
    for node in 0..3 {
        assert_eq!(
            first.run(&format!("GET by:{node}")),
            Value::bulk(node.to_string())
        );
    }
    let (mut all, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let reply = cluster.client(1).run(&format!("SCAN {cursor} COUNT 100"));
        let [next, keys] = reply.elements().expect("SCAN answers an array") else {
            panic!("{reply:?}");
        };
        all.extend(keys.elements().expect("of keys").iter().filter_map(Value::text));
        cursor = next.text().expect("and the cursor");
        if cursor == "0" {
            break;
        }
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 303);
    let keys = cluster.client(2).run("KEYS by:*");
    assert_eq!(keys.elements().map(<[Value]>::len), Some(3), "{keys:?}");
    cluster.client(2).run_ok("FLUSHALL");
    for node in 0..3 {
        assert_eq!(
            cluster.client(node).run("DBSIZE"),
            Value::Integer(0),
            "at node {node}"
        );
    }
}

#[test]
fn transactions_of_one_group_waiting_pops_and_channels_work_from_every_node() {
    let cluster = Cluster::start(3, GROUPS);
    for node in 0..3 {
        let (mut client, mut other) = (cluster.client(node), cluster.client((node + 1) % 3));
        let name = |what: &str| format!("{{{node}}}:{what}");
        client.run_ok(&format!("SET {} 10", name("a")));
        client.run_ok(&format!("WATCH {}", name("a")));
        client.run_ok("MULTI");
        assert_eq!(client.run(&format!("INCRBY {} 5", name("a"))), queued());
        assert_eq!(client.run(&format!("RPUSH {} x", name("b"))), queued());
        let done = Value::Array(vec![Value::Integer(15), Value::Integer(1)]);
        assert_eq!(client.run("EXEC"), done, "at node {node}");
        assert_eq!(other.run(&format!("GET {}", name("a"))), Value::bulk("15"));

        client.run_ok(&format!("WATCH {}", name("a")));
        other.run_ok(&format!("SET {} 1", name("a")));
        client.run_ok("MULTI");
        assert_eq!(client.run(&format!("SET {} 2", name("a"))), queued());
        assert!(
            client.run("EXEC").is_null(),
            "somebody else has written, at node {node}"
        );
        assert_eq!(client.run(&format!("GET {}", name("a"))), Value::bulk("1"));

        client.run_ok(&format!("SET {} 5", name("c")));
        assert_eq!(client.run(&format!("CAS {} 5 7", name("c"))), Value::Integer(1));
        assert_eq!(client.run(&format!("ADD {} 1", name("c"))), Value::Integer(8));
        let moved = Value::Array(vec![Value::Integer(5), Value::Integer(4)]);
        assert_eq!(client.run(&format!("XFER {} {} 3", name("c"), name("a"))), moved);
        let error = other.run(&format!("XFER {} {} 6", name("c"), name("a"))).error();
        assert_eq!(error.as_deref(), Some("ERR insufficient balance"));

        let queue = name("queue");
        client
            .send(&words(&format!("BLPOP {queue} 10")))
            .expect("the node reads");
        eventually("the client waits", || {
            cluster.client(node).info_number("clients", "blocked_clients") > 0
        });
        assert_eq!(other.run(&format!("RPUSH {queue} element")), Value::Integer(1));
        let popped = Value::Array(vec![Value::bulk(&queue), Value::bulk("element")]);
        assert_eq!(client.receive().expect("it is served"), popped, "at node {node}");

        client.send(&["SUBSCRIBE", "news"]).expect("the node reads");
        client.receive().expect("it is confirmed");
        other.run("PUBLISH news hello");
        let heard = Value::Array(["message", "news", "hello"].map(Value::bulk).to_vec());
        assert_eq!(client.receive().expect("it is heard"), heard, "at node {node}");
    }
}

#[test]
fn the_end_of_the_node_that_leads_most_loses_and_repeats_nothing_and_it_comes_back() {
    let mut cluster = Cluster::start(3, GROUPS);
    let victim = leader_of_most(&cluster);
    let mut addresses = cluster.addresses();
    addresses.remove(victim);
    let workload = Workload::start(addresses, Mixture::default());
    workload.wait_for(300);
    cluster.kill(victim);
    workload.wait_for(600);
    cluster.restart(victim);
    cluster.wait_until_ready(victim);
    cluster.wait_until_replicated();
    // What it was refilled with is all that is left of some groups' majorities when another one ends.
    let second = (victim + 1) % 3;
    let seen = workload.seen();
    assert_eq!(seen.failed(), 0, "{seen:?}");
    let (history, seen) = workload.finish();
    assert_nothing_failed(&seen);
    assert_linearizable(&history);
    let mut client = cluster.client(victim);
    client.run_ok("SET after refill");
    cluster.kill(second);
    assert_eq!(client.run("GET after"), Value::bulk("refill"));
}

#[test]
fn a_node_that_stood_still_for_longer_than_its_leases_answers_nothing_stale() {
    let mut cluster = Cluster::start(3, GROUPS);
    let workload = Workload::start(cluster.addresses(), Mixture::default());
    workload.wait_for(200);
    for _ in 0..2 {
        let victim = leader_of_most(&cluster);
        cluster.pause(victim);
        workload.wait_for(400);
        cluster.resume(victim);
        cluster.wait_until_replicated();
        workload.wait_for(100);
    }
    let (history, seen) = workload.finish();
    assert_nothing_failed(&seen);
    assert_linearizable(&history);
}

#[test]
fn nodes_join_one_to_five_under_load_without_a_failed_request_and_move_only_what_they_must() {
    const GROUPS: usize = 16;
    let mut cluster = Cluster::start(1, GROUPS);
    let mixture = Mixture {
        clients: 4,
        ..Mixture::default()
    };
    let mut workload = Workload::start(cluster.addresses(), mixture);
    for nodes in 2..=5 {
        let before = cluster.wait_until_replicated();
        let node = cluster.add();
        workload.extend(cluster.address(node));
        workload.wait_for(100);
        let start = Instant::now();
        let after = cluster.wait_until_replicated();
        let replicas: usize = after.replicas.iter().map(Vec::len).sum();
        let moved = after.moved_since(&before);
        println!(
            "node {nodes}: {moved} of {replicas} replicas moved, in {:.1} s",
            start.elapsed().as_secs_f64()
        );
        // With the third node every group gets two replicas more: nothing moves, much is added.
        if nodes != 3 {
            let most = replicas as f64 * (1.0 / nodes as f64 + 0.05);
            assert!(
                moved as f64 <= most,
                "{moved} of {replicas} replicas moved to node {nodes}"
            );
        }
    }
    let (history, seen) = workload.finish();
    assert_nothing_failed(&seen);
    assert_linearizable(&history);
}

#[test]
fn who_talks_nonsense_to_a_peer_port_is_hung_up_on_and_nobody_else_is() {
    let cluster = Cluster::start(3, GROUPS);
    let workload = Workload::start(cluster.addresses(), Mixture::default());
    workload.wait_for(50);
    for node in 0..3 {
        for nonsense in [
            &b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"[..],
            &b"*1\r\n$4\r\nPING\r\n"[..],
            &[0xff; 4096],
            &[0; 64],
        ] {
            let mut stream = TcpStream::connect(cluster.peer_address(node)).expect("the port is open");
            stream
                .set_read_timeout(Some(Duration::from_secs(15)))
                .expect("a time-out above zero is accepted");
            // It may be closed before everything is sent.
            let _ = stream.write_all(nonsense);
            let end = stream.read_to_end(&mut Vec::new());
            let is_open = end.is_err_and(|error| {
                matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                )
            });
            assert!(
                !is_open,
                "node {node} leaves a link open on which it got {nonsense:?}"
            );
        }
    }
    workload.wait_for(50);
    let (history, seen) = workload.finish();
    assert_nothing_failed(&seen);
    assert_linearizable(&history);
}

#[test]
fn who_does_not_know_the_secret_does_not_become_a_node() {
    let mut cluster = Cluster::new(GROUPS);
    cluster.flag("cluster-secret", "the right one");
    cluster.grow(1);
    let stranger = cluster.begin(&["--cluster-secret", "a wrong one"]);
    eventually("the refusal is in the log", || {
        cluster.log(stranger).contains("secret")
    });
    let answer = Client::connect(cluster.address(stranger)).and_then(|mut client| {
        client.set_patience(Duration::from_millis(300));
        client.try_command(&["PING"])
    });
    let error = answer.as_ref().ok().and_then(|reply| reply.error());
    assert!(
        answer.is_err() || error.is_some_and(|error| error.starts_with("LOADING")),
        "it serves clients: {answer:?}"
    );
    let known = cluster.look(0).map(|seen| seen.replicas.len());
    assert_eq!(known, Some(GROUPS), "the node knows no other");
    let mut client = cluster.client(0);
    client.run_ok("SET key value");
    cluster.kill(stranger);
}

/// What clients at every node find, whichever workers their connections and keys are with.
fn all_nodes_serve_all_keys(cluster: &Cluster, round: usize) {
    let mut clients: Vec<_> = cluster.addresses().into_iter().map(connect_often).collect();
    let mut listener = Client::connect(cluster.address(0)).expect("it serves");
    listener.run(&format!("SUBSCRIBE news:{round}"));
    let count = clients.len();
    for (node, connections) in clients.iter_mut().enumerate() {
        for (number, client) in connections.iter_mut().enumerate() {
            let mine = format!("{round}:{node}:{number}");
            client.run_ok(&format!("MSET a:{mine} 1 b:{mine} 2 c:{mine} 3"));
            let sum = "return redis.call('GET', KEYS[1]) + redis.call('GET', KEYS[2])";
            let keys = [format!("a:{mine}"), format!("c:{mine}")];
            assert_eq!(
                client.command(&["EVAL", sum, "2", &keys[0], &keys[1]]),
                Value::Integer(4)
            );
            assert_eq!(client.run("CONFIG SET slowlog-max-len 77"), Value::ok());
            // Whoever listens at another node is reached, whichever worker he is with.
            assert_eq!(client.run(&format!("PUBLISH news:{round} x")), Value::Integer(1));
            listener.receive().expect("he is told");
        }
    }
    let lists: Vec<String> = (0..GROUPS).map(|list| format!("list:{round}:{list}")).collect();
    for list in &lists {
        let (waiting, pushing) = (round % count, (round + 1) % count);
        let mut words = vec!["BLPOP".to_owned(), list.clone(), "20".to_owned()];
        clients[waiting][0].send(&words).expect("it is taken");
        words[0] = "RPUSH".to_owned();
        clients[pushing][1].command(&words);
        let reply = clients[waiting][0].receive().expect("it is woken");
        let expected = [list.as_str(), "20"].map(Value::bulk).to_vec();
        assert_eq!(reply, Value::Array(expected), "{list}");
    }
    for connections in &mut clients {
        for client in connections {
            let found = client.run(&format!("KEYS a:{round}:*"));
            let found = found.elements().map(<[Value]>::len);
            assert_eq!(found, Some(count * CONNECTIONS));
        }
    }
}

/// Enough of them that every worker of a node has one.
const CONNECTIONS: usize = 8;

fn connect_often(address: SocketAddr) -> Vec<Client> {
    let connect = |_| Client::connect(address).expect("it serves");
    (0..CONNECTIONS).map(connect).collect()
}

#[test]
fn nodes_with_one_two_and_four_workers_are_one_cluster_and_come_back_with_other_numbers() {
    let mut cluster = Cluster::new(GROUPS);
    // The last one has more workers than there are groups.
    for workers in [2, 1, 4, GROUPS + 2] {
        cluster.workers(workers);
        cluster.add();
    }
    cluster.wait_until_replicated();
    all_nodes_serve_all_keys(&cluster, 0);
    // By themselves, killed or stopped.
    for (node, workers) in [(0, 3), (2, 1), (3, 2)] {
        if node == 2 {
            cluster.kill(node);
        } else {
            assert!(cluster.terminate(node).success());
        }
        cluster.workers(workers);
        cluster.restart(node);
        cluster.wait_until_ready(node);
        cluster.wait_until_replicated();
        all_nodes_serve_all_keys(&cluster, node + 1);
    }
    // And all at once.
    for node in 0..cluster.len() {
        cluster.signal(node, "TERM");
    }
    for node in 0..cluster.len() {
        assert!(cluster.wait(node).success());
    }
    for (node, workers) in [4, 2, 3, 1].into_iter().enumerate() {
        cluster.workers(workers);
        cluster.restart(node);
    }
    for node in 0..cluster.len() {
        cluster.wait_until_ready(node);
        assert!(!cluster.log(node).contains("DATA LOST"), "{}", cluster.log(node));
    }
    cluster.wait_until_replicated();
    all_nodes_serve_all_keys(&cluster, 9);
    let mut client = cluster.client(1);
    for round in [0, 1, 3, 4, 9] {
        let found = client.run(&format!("KEYS b:{round}:*"));
        let found = found.elements().map(<[Value]>::len);
        assert_eq!(found, Some(4 * CONNECTIONS), "of round {round}");
    }
}

/// While its start is not counted, workers dial it that are not to speak of that: a node of one worker answers them all.
#[test]
fn a_node_of_one_worker_comes_back_though_all_workers_of_others_dial_it_before_it_is_counted() {
    for paused in 0..2 {
        let mut cluster = Cluster::new(GROUPS);
        for workers in [4, 4, 1] {
            cluster.workers(workers);
            cluster.add();
        }
        cluster.wait_until_replicated();
        let others = [0, 1].map(|node| cluster.peer_address(node).to_string());
        cluster.flag("join", &others.join(" "));
        cluster.kill(2);
        // If it led the meta group, nobody counts starts until the other two have elected one of them.
        cluster.pause(paused);
        cluster.restart(2);
        cluster.wait_until_ready(2);
        cluster.resume(paused);
        cluster.wait_until_replicated();
        all_nodes_serve_all_keys(&cluster, 0);
    }
}

#[test]
fn a_node_that_comes_back_and_is_told_whom_to_join_has_one_link_with_each_and_keeps_it() {
    let mut cluster = Cluster::start(3, GROUPS);
    assert!(cluster.terminate(0).success());
    let log =
        |cluster: &Cluster| fs::read_to_string(cluster.data(0).with_file_name("log")).expect("it has one");
    let before = log(&cluster).len();
    let others = [1, 2].map(|node| cluster.peer_address(node).to_string());
    cluster.flag("join", &others.join(" "));
    cluster.restart(0);
    cluster.wait_until_ready(0);
    cluster.wait_until_replicated();
    let log = log(&cluster).split_off(before);
    assert!(log.contains("a link is up"), "{log}");
    assert!(!log.contains("a link is down"), "{log}");
}

#[test]
fn a_node_whose_peers_belong_to_another_cluster_now_is_told_so() {
    let mut theirs = Cluster::start(3, GROUPS);
    (0..3).for_each(|node| theirs.kill(node));
    let mut ours = Cluster::new(GROUPS);
    let port = theirs.peer_address(0).port().to_string();
    let node = ours.begin(&["--peer-port", &port]);
    ours.wait_until_ready(node);
    theirs.restart(1);
    eventually("the refusal is in the log", || {
        theirs.log(1).contains("another cluster") || theirs.log(1).contains("other cluster")
    });
    ours.client(node).run_ok("SET key value");
    // It is told of now and then.
    eventually("it leads all groups", || {
        ours.look(node).map(|seen| seen.led(1)) == Some(vec![GROUPS])
    });
}

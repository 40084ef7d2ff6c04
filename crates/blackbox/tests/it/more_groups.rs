//! Groups are added to a cluster whose nodes run.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::scripts::Ends;
use blackbox::{Client, Cluster, Value, eventually};

const GROUPS: usize = 6;
const MORE: usize = 11;
const OLD_KEYS: usize = 100;

/// Asks a node for so many groups, as no command of `chorale` does. What it answers.
fn ask_for_groups(admin: SocketAddr, count: usize) -> String {
    let body = format!("{{\"groups\":{{\"count\":{count}}}}}");
    let mut stream = TcpStream::connect(admin).expect("the node has an admin port");
    let request = format!(
        "POST /goals HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\nx-chorale-confirm: goals\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

fn groups_of(client: &mut Client) -> usize {
    client.info_number("chorale", "groups") as usize
}

/// Everything that is over all groups, from one client.
fn look(client: &mut Client, node: usize, round: u64) {
    let value = Value::bulk(round.to_string());
    client.run_ok(&format!(
        "MSET p:{node} {round} q:{node} {round} r:{node} {round}"
    ));
    assert_eq!(
        client.run(&format!("MGET r:{node} p:{node} q:{node}")),
        Value::Array(vec![value; 3])
    );
    let size = client.run("DBSIZE").integer();
    assert!(size >= Some(OLD_KEYS as i64), "{size:?}");
    let named = client.run("KEYS old:*");
    assert_eq!(named.elements().map(<[Value]>::len), Some(OLD_KEYS));
    let counted = client.run("EVAL return(#redis.call('KEYS','old:*')) 0");
    assert_eq!(counted.integer(), Some(OLD_KEYS as i64));
    assert!(!client.run("RANDOMKEY").is_null());
    let (mut found, mut cursor) = (0, "0".to_owned());
    loop {
        let reply = client.run(&format!("SCAN {cursor} MATCH old:* COUNT 50"));
        let Some([next, keys]) = reply.elements() else {
            panic!("{reply:?}")
        };
        found += keys.elements().map_or(0, <[Value]>::len);
        cursor = next.text().unwrap_or_default();
        if cursor == "0" {
            break;
        }
    }
    assert!(found >= OLD_KEYS, "{found}");
}

#[test]
fn clients_notice_nothing_while_groups_are_added_and_a_node_that_starts_again_knows_them() {
    let mut cluster = Cluster::new(GROUPS);
    cluster.flag("durability", "relaxed");
    cluster.workers(2);
    cluster.grow(3);
    let mut first = cluster.client(0);
    for key in 0..OLD_KEYS {
        first.run_ok(&format!("SET old:{key} {key}"));
    }
    let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
    first.command(&["FUNCTION", "LOAD", library]);
    let is_over = AtomicBool::new(false);
    let looks = [const { AtomicU64::new(0) }; 3];
    let clients: Vec<Client> = (0..3).map(|node| cluster.client(node)).collect();
    thread::scope(|scope| {
        let _guard = Ends(&is_over);
        for (node, mut client) in clients.into_iter().enumerate() {
            let (is_over, looks) = (&is_over, &looks[node]);
            scope.spawn(move || {
                for round in 0.. {
                    look(&mut client, node, round);
                    looks.fetch_add(1, Ordering::Relaxed);
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let answer = ask_for_groups(cluster.admin_address(1), MORE);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        for node in 0..3 {
            let mut client = cluster.client(node);
            eventually("the node knows of all groups", || groups_of(&mut client) == MORE);
        }
        cluster.expect_groups(MORE);
        let replicas = cluster.wait_until_replicated();
        assert_eq!(
            replicas.led(3).iter().sum::<usize>(),
            MORE,
            "each is led, by voters on three nodes"
        );
        // The one that is under way began before that.
        for looks in &looks {
            let before = looks.load(Ordering::Relaxed);
            eventually("the client looks at all groups as they are now", || {
                looks.load(Ordering::Relaxed) >= before + 2
            });
        }
    });
    cluster.kill(2);
    cluster.restart(2);
    cluster.wait_until_ready(2);
    cluster.wait_until_replicated();
    let mut back = cluster.client(2);
    assert_eq!(groups_of(&mut back), MORE);
    look(&mut back, 2, 0);
    assert_eq!(back.run("FCALL f 0"), Value::Integer(1));
    // All at once: nobody is left to be asked.
    cluster.kill_all();
    cluster.restart_all();
    let mut back = cluster.client(1);
    assert_eq!(groups_of(&mut back), MORE);
    look(&mut back, 1, 1);
    let mut by_cluster = Client::connect(cluster.cluster_address(1)).expect("the node takes clients");
    let slots = by_cluster.run("CLUSTER SLOTS");
    let ends = slots
        .elements()
        .unwrap_or_default()
        .iter()
        .filter_map(Value::elements);
    let covered: i64 = ends
        .filter_map(|range| Some(range.get(1)?.integer()? - range.first()?.integer()? + 1))
        .sum();
    assert_eq!(covered, 16_384);
    back.run_ok("FLUSHALL");
    assert_eq!(cluster.client(0).run("DBSIZE"), Value::Integer(0));
}

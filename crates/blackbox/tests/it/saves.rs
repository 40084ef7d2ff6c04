//! `SAVE` and its relatives, `DEBUG RELOAD`, and what an operator sees of the disk. Of Chorale alone: Redis has a file for it all.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use blackbox::{
    Client, Cluster, Implementation, SETTLING, Server, Value, chorale_binary, eventually, http_get,
};

const GROUPS: usize = 8;

fn is_redis() -> bool {
    matches!(Implementation::subject(), Implementation::Redis(_))
}

/// A cluster that keeps what it has, each group on each node.
fn cluster(nodes: usize, durability: &str) -> Cluster {
    let mut cluster = Cluster::new(GROUPS);
    cluster.workers(2);
    cluster.flag("enable-debug-command", "yes");
    cluster.flag("durability", durability);
    cluster.add();
    cluster.drop_flag("durability");
    cluster.grow(nodes - 1);
    cluster
}

/// The snapshots that a node has: each is named by its group, its replica, and the last entry that it reflects.
fn snapshots(cluster: &Cluster, node: usize) -> BTreeSet<String> {
    let names = fs::read_dir(cluster.data(node)).expect("the node has made it");
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter(|name| name.starts_with("snapshot-") && !name.ends_with(".new"))
        .collect()
}

/// Keys of every type, some of them with a deadline, and in more than one database.
fn fill(client: &mut Client) {
    for key in 0..200 {
        client.run_ok(&format!("SET string:{key} value:{key}"));
        client.run(&format!("RPUSH list:{} {key}", key % 7));
        client.run(&format!("SADD set:{} {key} member:{key}", key % 5));
        client.run(&format!("HSET hash:{} field:{key} {key}", key % 3));
        client.run(&format!("ZADD zset:{} {key} member:{key}", key % 4));
        client.run(&format!("PFADD log:{} {key}", key % 2));
    }
    client.command(&["SET", "long", &"x".repeat(300_000)]);
    client.run("EXPIRE string:7 1000");
    client.run_ok("SELECT 3");
    client.run_ok("SET elsewhere 1");
    client.run_ok("SELECT 0");
}

/// What clients see of all keys: type, encoding, deadline and value.
fn seen(client: &mut Client) -> Vec<(String, Vec<Value>)> {
    let mut all = Vec::new();
    for db in [0, 3] {
        client.run_ok(&format!("SELECT {db}"));
        let keys = client.run("KEYS *");
        let keys = keys.elements().expect("a list of keys").iter();
        let mut keys: Vec<String> = keys.filter_map(Value::text).collect();
        keys.sort();
        for key in keys {
            let kind = client.run(&format!("TYPE {key}"));
            let read = match kind.text().expect("a word").as_str() {
                "string" => format!("GET {key}"),
                "list" => format!("LRANGE {key} 0 -1"),
                "set" => format!("SORT {key} ALPHA"),
                "hash" => format!("HGETALL {key}"),
                _ => format!("ZRANGE {key} 0 -1 WITHSCORES"),
            };
            let encoding = client.run(&format!("OBJECT ENCODING {key}"));
            let deadline = client.run(&format!("PEXPIRETIME {key}"));
            let value = client.run(&read);
            all.push((format!("{db}:{key}"), vec![kind, encoding, deadline, value]));
        }
    }
    client.run_ok("SELECT 0");
    all
}

#[test]
fn a_save_is_answered_when_every_node_has_snapshots_of_what_was_acknowledged() {
    if is_redis() {
        return;
    }
    for (nodes, durability) in [(1, "relaxed"), (3, "strict")] {
        let mut cluster = cluster(nodes, durability);
        let mut client = cluster.client(nodes - 1);
        client.set_patience(SETTLING);
        fill(&mut client);
        let before: Vec<_> = (0..nodes).map(|node| snapshots(&cluster, node)).collect();
        let changes = |client: &mut Client| client.info_number("persistence", "rdb_changes_since_last_save");
        // Figures are written down now and then.
        eventually("changes are counted", || {
            (0..nodes).all(|node| changes(&mut cluster.client(node)) > 0)
        });
        assert_eq!(client.run("SAVE"), Value::ok());
        for (node, before) in before.iter().enumerate() {
            let after = snapshots(&cluster, node);
            let is_new = after.iter().filter(|name| !before.contains(*name));
            assert_eq!(is_new.count(), GROUPS, "node {node}: {before:?}, then {after:?}");
            let status = cluster.client(node).info("persistence", "rdb_last_bgsave_status");
            assert_eq!(status.as_deref(), Some("ok"));
        }
        assert_eq!(client.info_number("persistence", "rdb_saves"), 1);
        eventually("nothing has changed since", || {
            (0..nodes).all(|node| changes(&mut cluster.client(node)) == 0)
        });
        let all = seen(&mut client);
        cluster.kill_all();
        cluster.restart_all();
        assert_eq!(seen(&mut cluster.client(0)), all, "{durability}");
    }
}

#[test]
fn snapshots_are_written_no_faster_than_they_may_be() {
    if is_redis() {
        return;
    }
    let mut cluster = Cluster::new(GROUPS);
    cluster.workers(2);
    cluster.flag("durability", "relaxed");
    cluster.flag("snapshot-rate", "1mb");
    cluster.add();
    let mut client = cluster.client(0);
    client.set_patience(SETTLING);
    for key in 0..40 {
        client.command(&["SET", &format!("key:{key}"), &"x".repeat(100_000)]);
    }
    let mut save = || {
        let began = Instant::now();
        assert_eq!(client.run("SAVE"), Value::ok());
        began.elapsed()
    };
    let slow = save();
    assert!(slow > Duration::from_secs(3), "four megabytes in {slow:?}");
    cluster.client(0).run_ok("CONFIG SET snapshot-rate 0");
    eventually("the new rate is heard of", || save() < slow / 4);
}

#[test]
fn a_save_that_nobody_waits_for_is_seen_to_end() {
    if is_redis() {
        return;
    }
    let cluster = cluster(1, "relaxed");
    let mut client = cluster.client(0);
    let started = client.run("LASTSAVE").integer().expect("a time");
    for (command, answer) in [
        ("BGSAVE", "Background saving started"),
        ("BGSAVE SCHEDULE", "Background saving started"),
        ("BGREWRITEAOF", "Background append only file rewriting started"),
    ] {
        let saves = client.info_number("persistence", "rdb_saves");
        client.run_ok("SET key value");
        let changes = client.info_number("persistence", "rdb_changes_since_last_save");
        assert!(changes > 0, "{command}");
        assert_eq!(client.run(command), Value::Simple(answer.into()));
        eventually("it ends", || {
            client.info_number("persistence", "rdb_bgsave_in_progress") == 0
                && client.info_number("persistence", "aof_rewrite_in_progress") == 0
        });
        assert_eq!(client.info_number("persistence", "rdb_saves"), saves + 1);
        // Figures are written down now and then.
        eventually("nothing has changed since", || {
            client.info_number("persistence", "rdb_changes_since_last_save") == 0
        });
        assert!(client.info_number("persistence", "rdb_last_bgsave_time_sec") >= 0);
    }
    eventually("a second has passed", || {
        let saved = client.info_number("persistence", "rdb_saves");
        assert_eq!(client.run("SAVE"), Value::ok());
        assert_eq!(client.info_number("persistence", "rdb_saves"), saved + 1);
        client.run("LASTSAVE").integer() > Some(started)
    });
    let saved = client.info_number("persistence", "rdb_last_save_time");
    assert_eq!(client.run("LASTSAVE"), Value::Integer(saved));
}

#[test]
fn a_save_that_lacks_a_node_says_so_and_one_inside_a_block_is_refused() {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(3, "relaxed");
    cluster.kill(2);
    let mut client = cluster.client(0);
    client.set_patience(SETTLING);
    eventually("the node is missed", || {
        let refused = client.run("SAVE").error();
        refused.is_some_and(|why| why.starts_with("UNKNOWN") && why.contains("node 3"))
    });
    client.run_ok("MULTI");
    let refused = client.run("SAVE").error();
    assert_eq!(
        refused.as_deref(),
        Some("ERR Command not allowed inside a transaction")
    );
    client.run("DISCARD");
    client.run_ok("MULTI");
    client.run("SET key value");
    client.run("BGSAVE");
    let replies = client.run("EXEC");
    let started = Value::Simple("Background saving started".into());
    assert_eq!(replies.elements(), Some(&[Value::ok(), started][..]));
}

#[test]
fn in_memory_there_is_nothing_to_save_to() {
    if is_redis() {
        return;
    }
    let server = Server::subject().start();
    let mut client = server.client();
    let cluster = cluster(1, "memory");
    let mut member = cluster.client(0);
    for command in [
        "SAVE",
        "BGSAVE",
        "BGSAVE SCHEDULE",
        "BGREWRITEAOF",
        "SHUTDOWN SAVE",
        "WAITAOF 1 0 0",
    ] {
        let refused = client.run(command).error().unwrap_or_default();
        assert!(
            refused.contains("start it with --peer-port"),
            "{command}: {refused}"
        );
        let refused = member.run(command).error().unwrap_or_default();
        assert!(
            refused.contains("CONFIG SET durability relaxed"),
            "{command}: {refused}"
        );
    }
    // What is advised helps.
    let refused = client.run("CONFIG SET durability relaxed").error();
    assert!(refused.is_some_and(|refused| refused.contains("start it with --peer-port")));
    member.run_ok("CONFIG SET durability relaxed");
    member.run_ok("SAVE");
    assert_eq!(
        client.run("BGSAVE NOW").error().as_deref(),
        Some("ERR syntax error")
    );
    client.run_ok("SET key value");
    let saved = client.run("LASTSAVE");
    let fields = [
        ("loading", "0".to_owned()),
        ("rdb_changes_since_last_save", "1".to_owned()),
        ("rdb_last_save_time", saved.integer().expect("a time").to_string()),
        ("aof_enabled", "0".to_owned()),
        ("durability", "memory".to_owned()),
    ];
    for (field, value) in fields {
        assert_eq!(client.info("persistence", field), Some(value), "{field}");
    }
    for absent in ["aof_current_size", "log_bytes", "log_sync_p99_us"] {
        assert_eq!(client.info("persistence", absent), None);
    }
}

#[test]
fn a_shutdown_that_is_to_save_leaves_everything() {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(1, "strict");
    let mut client = cluster.client(0);
    fill(&mut client);
    let all = seen(&mut client);
    client.send(&["SHUTDOWN", "SAVE"]).expect("the node reads");
    assert!(cluster.wait(0).success());
    cluster.restart_all();
    assert_eq!(seen(&mut cluster.client(0)), all);
}

/// Of what is watched, waited for and stored, `DEBUG RELOAD` changes nothing.
fn reloads(client: &mut Client, waiting: &mut Client, other: &mut Client) {
    fill(client);
    let all = seen(client);
    client.run_ok("WATCH string:1 list:1");
    waiting
        .send(&["BLPOP", "filled:later", "0"])
        .expect("the node reads");
    let mut scan = client.run("SCAN 0 COUNT 10");
    for command in ["DEBUG RELOAD", "DEBUG RELOAD NOSAVE NOFLUSH", "DEBUG LOADAOF"] {
        assert_eq!(other.run(command), Value::ok(), "{command}");
    }
    client.run_ok("MULTI");
    client.run("INCR counter");
    assert_eq!(
        client.run("EXEC"),
        Value::Array(vec![Value::Integer(1)]),
        "what is watched has not changed"
    );
    client.run("DEL counter");
    assert_eq!(other.run("RPUSH filled:later element"), Value::Integer(1));
    let popped = waiting.receive().expect("the node answers");
    assert_eq!(
        popped,
        Value::Array(vec![Value::bulk("filled:later"), Value::bulk("element")])
    );
    let mut found = BTreeSet::new();
    loop {
        let parts = scan.elements().expect("a cursor and keys");
        found.extend(parts[1].elements().expect("keys").iter().filter_map(Value::text));
        let cursor = parts[0].text().expect("a cursor");
        if cursor == "0" {
            break;
        }
        scan = client.run(&format!("SCAN {cursor} COUNT 10"));
    }
    let keys = all.iter().filter(|(key, _)| key.starts_with("0:")).count();
    assert_eq!(found.len(), keys, "a scan goes on where it was");
    assert_eq!(seen(client), all);
}

#[test]
fn what_is_encoded_and_decoded_is_what_was_there() {
    if is_redis() {
        return;
    }
    let server = Server::subject()
        .workers(3)
        .flag("enable-debug-command", "yes")
        .start();
    reloads(&mut server.client(), &mut server.client(), &mut server.client());
    let mut client = server.client();
    let refused = client.run("DEBUG RELOAD LATER").error();
    assert!(refused.is_some_and(|why| why.contains("MERGE, NOFLUSH and NOSAVE")));
    for (nodes, durability) in [(1, "relaxed"), (3, "memory")] {
        let cluster = cluster(nodes, durability);
        let node = nodes - 1;
        reloads(
            &mut cluster.client(0),
            &mut cluster.client(node),
            &mut cluster.client(node),
        );
        assert_eq!(cluster.client(0).run("DEBUG RELOAD"), Value::ok());
    }
}

#[test]
fn a_node_that_is_written_to_reloads_and_loses_nothing() {
    if is_redis() {
        return;
    }
    let cluster = cluster(3, "relaxed");
    let mut receipts = blackbox::Receipts::new(5);
    receipts.begin(&cluster.addresses(), 3);
    for _ in 0..3 {
        receipts.wait_for_more(200);
        for node in 0..3 {
            let mut client = cluster.client(node);
            client.set_patience(SETTLING);
            eventually("no transaction is in the way", || {
                client.run("DEBUG RELOAD") == Value::ok()
            });
        }
    }
    receipts.end();
    for node in cluster.addresses() {
        let missing = receipts.missing(node);
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn a_client_can_wait_until_what_it_wrote_is_on_disk() {
    if is_redis() {
        return;
    }
    let counts = |here, elsewhere| Value::Array(vec![Value::Integer(here), Value::Integer(elsewhere)]);
    for durability in ["relaxed", "strict"] {
        let alone = cluster(1, durability);
        let mut client = alone.client(0);
        for key in 0..100 {
            client.run_ok(&format!("SET key:{key} value"));
        }
        assert_eq!(client.run("WAITAOF 1 0 0"), counts(1, 0), "{durability}");
        assert_eq!(client.run("WAITAOF 1 1 2000"), counts(1, 0), "{durability}");

        let mut cluster = cluster(3, durability);
        let mut client = cluster.client(1);
        client.set_patience(SETTLING);
        for key in 0..100 {
            client.run_ok(&format!("SET key:{key} value"));
        }
        assert_eq!(client.run("WAITAOF 1 2 0"), counts(1, 2), "{durability}");
        // In one pipeline it waits for what stands before it.
        let all = client.pipeline(&[vec!["SET", "key", "value"], vec!["WAITAOF", "1", "2", "0"]]);
        assert_eq!(all, [Value::ok(), counts(1, 2)]);
        cluster.kill(2);
        eventually("the others have all of it", || {
            client.run("SET key other");
            client.run("WAITAOF 1 2 200") == counts(1, 1)
        });
    }
}

#[test]
fn an_operator_sees_logs_syncs_and_snapshots() {
    if is_redis() {
        return;
    }
    let cluster = cluster(3, "strict");
    let mut client = cluster.client(0);
    client.set_patience(Duration::from_secs(30));
    fill(&mut client);
    assert_eq!(client.run("SAVE"), Value::ok());
    let page = || {
        http_get(cluster.admin_address(0), "/metrics")
            .expect("it answers")
            .body
    };
    let sample = |name: &str| {
        let page = page();
        let line = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let line = line.unwrap_or_else(|| panic!("no {name} in\n{page}"));
        line.parse::<f64>().expect("a number")
    };
    assert_eq!(sample("chorale_durability_info{mode=\"strict\"}"), 1.0);
    assert_eq!(sample("chorale_disk_full"), 0.0);
    assert_eq!(sample("chorale_snapshots_failed_total"), 0.0);
    assert!(sample("chorale_snapshots_total") >= GROUPS as f64);
    assert!(sample("chorale_snapshot_bytes") > 0.0);
    assert!(sample("chorale_snapshot_oldest_seconds") < 60.0);
    assert!(sample("chorale_log_bytes") >= (8 << 20) as f64);
    assert!(sample("chorale_log_segments") >= 2.0);
    eventually("the figures come to be those of now", || {
        sample("chorale_log_written_bytes_total") > 300_000.0
            && sample("chorale_log_batches_total") > 1_000.0
            && sample("chorale_log_sync_seconds_count") > 100.0
            && sample("chorale_log_sync_p99_seconds") > 0.0
            && sample("chorale_log_unsynced_bytes") == 0.0
    });
    assert!(client.info_number("persistence", "log_sync_p99_us") > 0);
    assert!(client.info_number("persistence", "log_bytes") >= 8 << 20);
    assert!(client.info_number("persistence", "aof_current_size") >= 8 << 20);
    assert!(client.info_number("persistence", "log_unsynced_ms") < 10_000);

    let status = |arguments: &[&str]| {
        let output = Command::new(chorale_binary())
            .args(["admin", "status"])
            .args(arguments)
            .output()
            .expect("the binary runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let admins: Vec<String> = (0..3)
        .map(|node| cluster.admin_address(node).to_string())
        .collect();
    let all: Vec<&str> = admins.iter().map(String::as_str).collect();
    assert_eq!(
        status(&all[..1]).matches("strict").count(),
        1,
        "a node knows its own"
    );
    let text = status(&all);
    assert_eq!(text.matches("strict").count(), 3, "{text}");
    assert_eq!(text.matches(" ms  ").count(), 3, "{text}");
    assert_eq!(text.matches(" ago").count(), 3, "{text}");
    let page = status(&[all[0], all[1], "--json"]);
    assert_eq!(page.matches("\"durability\": \"strict\"").count(), 2, "{page}");
    assert_eq!(page.matches("\"disk\": null").count(), 1, "{page}");
}

//! What is there after `kill -9`, with a durability that keeps what was acknowledged. Redis is started without a file to save to:
//! these tests are about Chorale.
//!
//! `CHORALE_BLACKBOX_ROUNDS` says how many rounds of writing and killing the first ones go; 2 or 3 otherwise.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use blackbox::{
    Client, Cluster, Implementation, Prng, Receipts, SETTLING, Value, chorale_binary, eventually, frame,
};

/// Few enough for processes that were built for tests, and some for each worker.
const GROUPS: usize = 16;

/// Bytes of a segment of a worker's log.
const SEGMENT_BYTES: u64 = 64 << 20;

/// Segments of a worker: those that its groups need, the one that is prepared, those that wait to be used again, and those of the start before.
const SEGMENTS_MAX: usize = 9;

fn is_redis() -> bool {
    matches!(Implementation::subject(), Implementation::Redis(_))
}

fn rounds(otherwise: usize) -> usize {
    let rounds = std::env::var("CHORALE_BLACKBOX_ROUNDS");
    rounds.map_or(otherwise, |rounds| rounds.parse().expect("a number of rounds"))
}

fn seed() -> u64 {
    let seed = std::env::var("CHORALE_BLACKBOX_SEED");
    let seed = seed.map_or(1, |seed| seed.parse().expect("a seed is a number"));
    eprintln!("CHORALE_BLACKBOX_SEED={seed}");
    seed
}

/// A cluster that its first node made with this durability; nobody is told it again, neither those that join nor who is restarted.
fn cluster(nodes: usize, durability: &str) -> Cluster {
    let mut cluster = Cluster::new(GROUPS);
    cluster.workers(2);
    cluster.flag("durability", durability);
    cluster.add();
    cluster.drop_flag("durability");
    if durability != "memory" {
        let data = cluster.data(0);
        eventually("what each group begins with is kept", || {
            snapshots(&data) >= GROUPS
        });
    }
    cluster.grow(nodes - 1);
    cluster
}

/// Names of the files in a data directory.
fn names(data: &Path) -> Vec<String> {
    let names = fs::read_dir(data).expect("the node has made it");
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.collect()
}

/// The snapshots in a data directory that are kept.
fn snapshots(data: &Path) -> usize {
    let names = names(data).into_iter();
    let is_kept = |name: &String| name.starts_with("snapshot-") && !name.ends_with(".new");
    names.filter(is_kept).count()
}

#[track_caller]
fn nothing_is_missing(receipts: &Receipts, nodes: &[SocketAddr], when: &str) {
    for &node in nodes {
        let missing = receipts.missing(node);
        let first: Vec<_> = missing.iter().take(12).collect();
        assert!(
            missing.is_empty(),
            "{when}, to a client of {node} {} objects are not what was acknowledged: {first:#?}",
            missing.len()
        );
    }
}

/// All that a node has printed since its first start.
fn log(cluster: &Cluster, node: usize) -> String {
    let bytes = fs::read(cluster.data(node).with_file_name("log")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[track_caller]
fn never_says(cluster: &Cluster, word: &str) {
    for node in 0..cluster.len() {
        let log = log(cluster, node);
        let line = log.lines().find(|line| line.contains(word));
        assert!(line.is_none(), "node {node}: {line:?}");
    }
}

/// Writing, and `kill -9` of all nodes in the middle.
fn kill_all_while_writing(cluster: &mut Cluster, receipts: &mut Receipts, rounds: usize) {
    let mut prng = Prng::new(seed() + 1_000);
    for round in 0..rounds {
        receipts.begin(&cluster.addresses(), 4);
        receipts.wait_for_a_round(&mut prng);
        cluster.kill_all();
        receipts.end();
        let start = Instant::now();
        cluster.restart_all();
        eprintln!(
            "round {round}: all is replicated {:?} after the start",
            start.elapsed()
        );
        nothing_is_missing(receipts, &cluster.addresses(), &format!("after round {round}"));
        for node in 0..cluster.len() {
            let data = cluster.data(node);
            eventually("logs of earlier starts go", || {
                segments(&data) <= 2 * SEGMENTS_MAX
            });
        }
        never_says(cluster, "DATA LOST");
        never_says(cluster, "panicked");
    }
}

fn one_node_is_killed(durability: &str) {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(1, durability);
    let mut receipts = Receipts::new(seed());
    kill_all_while_writing(&mut cluster, &mut receipts, rounds(3));
    assert_eq!(
        cluster.client(0).run("CONFIG GET durability"),
        Value::Array(vec![Value::bulk("durability"), Value::bulk(durability)])
    );
}

#[test]
fn a_relaxed_node_that_is_killed_has_all_that_it_acknowledged() {
    one_node_is_killed("relaxed");
}

#[test]
fn a_strict_node_that_is_killed_has_all_that_it_acknowledged() {
    one_node_is_killed("strict");
}

#[test]
fn one_relaxed_node_is_killed_after_the_other_and_nothing_that_was_acknowledged_is_missing() {
    one_of_three_nodes_is_killed("relaxed");
}

#[test]
fn one_strict_node_is_killed_after_the_other_and_nothing_that_was_acknowledged_is_missing() {
    one_of_three_nodes_is_killed("strict");
}

/// The fault is real: what these tests rely on must notice it.
#[test]
fn a_node_that_keeps_nothing_on_disk_and_is_killed_lacks_what_it_acknowledged() {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(1, "memory");
    let mut receipts = Receipts::new(seed());
    receipts.begin(&cluster.addresses(), 2);
    receipts.wait_for_more(1_000);
    cluster.kill_all();
    receipts.end();
    cluster.restart_all();
    assert!(!receipts.missing(cluster.address(0)).is_empty());
    assert!(cluster.log(0).contains("DATA LOST"), "{}", cluster.log(0));
}

fn three_nodes_are_killed(durability: &str) {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(3, durability);
    let mut receipts = Receipts::new(seed());
    kill_all_while_writing(&mut cluster, &mut receipts, rounds(2));
}

/// While clients go on at the others, it comes back and another one goes; then all at once.
fn one_of_three_nodes_is_killed(durability: &str) {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(3, durability);
    let mut receipts = Receipts::new(seed());
    let all = cluster.addresses();
    receipts.begin(&all, 2);
    for node in [2, 0] {
        receipts.wait_for_more(2_000);
        cluster.kill(node);
        receipts.wait_for_more(2_000);
        cluster.restart(node);
        cluster.wait_until_ready(node);
        cluster.wait_until_replicated();
    }
    receipts.end();
    nothing_is_missing(
        &receipts,
        &all,
        "after two nodes were killed, one after the other",
    );
    cluster.kill_all();
    cluster.restart_all();
    nothing_is_missing(&receipts, &all, "after all were killed again");
    never_says(&cluster, "DATA LOST");
}

#[test]
fn three_relaxed_nodes_that_are_killed_have_all_that_they_acknowledged() {
    three_nodes_are_killed("relaxed");
}

#[test]
fn three_strict_nodes_that_are_killed_have_all_that_they_acknowledged() {
    three_nodes_are_killed("strict");
}

/// How long a start goes on is drawn in lines of the log, from none at all to a node that serves clients.
fn starts_are_killed(nodes: usize, durability: &str) {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(nodes, durability);
    let mut prng = Prng::new(seed());
    let mut receipts = Receipts::new(prng.bits());
    receipts.begin(&cluster.addresses(), 3);
    receipts.wait_for_more(3_000);
    cluster.kill_all();
    for attempt in 0..8 {
        let lines = |cluster: &Cluster| -> usize {
            let lines = (0..nodes).map(|node| log(cluster, node).lines().count());
            lines.sum()
        };
        let before = lines(&cluster);
        (0..nodes).for_each(|node| cluster.restart(node));
        let wanted = prng.below(8 * nodes);
        let done = receipts.acknowledged();
        eventually("the start goes on", || {
            let more = lines(&cluster) - before;
            more >= wanted || receipts.acknowledged() >= done + 100
        });
        cluster.kill_all();
        eprintln!("{nodes} {durability}, attempt {attempt}: killed after {wanted} lines");
    }
    receipts.end();
    cluster.restart_all();
    nothing_is_missing(&receipts, &cluster.addresses(), "after many starts");
    never_says(&cluster, "DATA LOST");
}

#[test]
fn a_node_that_is_killed_again_and_again_while_it_comes_back_lacks_nothing() {
    starts_are_killed(1, "strict");
}

#[test]
fn three_nodes_that_are_killed_again_and_again_while_they_come_back_lack_nothing() {
    starts_are_killed(3, "relaxed");
}

#[test]
fn a_killed_node_that_comes_back_with_other_workers_has_all_that_it_acknowledged() {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(1, "relaxed");
    let mut receipts = Receipts::new(seed());
    for workers in [1, 4, 3, 2] {
        receipts.begin(&cluster.addresses(), 4);
        receipts.wait_for_more(3_000);
        cluster.kill_all();
        receipts.end();
        cluster.workers(workers);
        cluster.restart_all();
        nothing_is_missing(
            &receipts,
            &cluster.addresses(),
            &format!("with {workers} workers"),
        );
        let data = cluster.data(0);
        eventually("logs of earlier starts go", || {
            segments(&data) <= workers * SEGMENTS_MAX
        });
    }
    never_says(&cluster, "DATA LOST");
}

/// A node that has just made its cluster: what its groups begin with is on its way to the disk while clients write already.
#[test]
fn a_node_that_is_killed_soon_after_its_first_start_has_all_that_it_acknowledged() {
    if is_redis() {
        return;
    }
    let mut prng = Prng::new(seed());
    for round in 0..rounds(8) {
        let durability = ["relaxed", "strict"][round % 2];
        let mut cluster = Cluster::new(GROUPS);
        cluster.workers(2);
        cluster.flag("durability", durability);
        cluster.add();
        cluster.drop_flag("durability");
        let mut receipts = Receipts::new(prng.bits());
        receipts.begin(&cluster.addresses(), 4);
        let operations = prng.below(600) as u64;
        receipts.wait_for_more(operations);
        cluster.kill_all();
        receipts.end();
        cluster.workers(1 + prng.below(3));
        cluster.restart_all();
        eprintln!(
            "round {round}, {durability}: {operations}, errors {:?}",
            receipts.errors()
        );
        nothing_is_missing(&receipts, &cluster.addresses(), &format!("after {operations}"));
        never_says(&cluster, "DATA LOST");
    }
}

/// The segments of all logs in a data directory.
fn segments(data: &Path) -> usize {
    let names = names(data).into_iter();
    names.filter(|name| name.starts_with("log-")).count()
}

/// Bytes of all files in a data directory. Some may go meanwhile.
fn bytes(data: &Path) -> u64 {
    let entries = fs::read_dir(data).expect("the node has made it");
    let sizes = entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()));
    sizes.sum()
}

/// So many bytes that no two seeds share.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut prng = Prng::new(seed);
    let mut noise = Vec::with_capacity(bytes + 8);
    while noise.len() < bytes {
        noise.extend(prng.bits().to_le_bytes());
    }
    noise.truncate(bytes);
    noise
}

#[test]
fn logs_stay_bounded_however_much_is_written_and_what_is_left_of_them_is_enough() {
    if is_redis() {
        return;
    }
    const VALUE_BYTES: usize = 100 << 10;
    const KEYS: u64 = 20;
    // Several segments of each worker, then with logs of an earlier start behind them.
    const WRITTEN: [u64; 3] = [230 << 20, 70 << 20, 40 << 20];
    const PIPELINE: u64 = 10;
    let mut cluster = cluster(1, "relaxed");
    let data = cluster.data(0);
    let mut next = 0;
    let is_bounded = || {
        let (segments, bytes) = (segments(&data), bytes(&data));
        let bytes_max = 2 * SEGMENTS_MAX as u64 * SEGMENT_BYTES + (64 << 20);
        assert!(
            segments <= 2 * SEGMENTS_MAX && bytes <= bytes_max,
            "{segments} segments, {bytes} bytes"
        );
        segments
    };
    for (end, written) in ["KILL", "TERM", "KILL"].into_iter().zip(WRITTEN) {
        let mut client = cluster.client(0);
        let last = next + written / VALUE_BYTES as u64;
        while next < last {
            for number in next..next + PIPELINE {
                let key = format!("large:{}", number % KEYS);
                let value = noise(number, VALUE_BYTES);
                client
                    .send(&[b"SET", key.as_bytes(), &value])
                    .expect("the node reads");
            }
            for _ in 0..PIPELINE {
                assert_eq!(client.receive().expect("the node answers"), Value::ok());
            }
            next += PIPELINE;
            is_bounded();
        }
        if end == "TERM" {
            assert_eq!(cluster.terminate(0).code(), Some(0));
            assert!(data.join("clean").exists(), "a stop that ends well says so");
        } else {
            cluster.kill(0);
            assert!(
                !data.join("clean").exists(),
                "nothing says that a killed node ended well"
            );
        }
        cluster.restart_all();
        let mut client = cluster.client(0);
        for number in next - KEYS..next {
            let found = client.run(&format!("GET large:{}", number % KEYS));
            let is_right = found == Value::Bulk(noise(number, VALUE_BYTES));
            assert!(is_right, "{number} after {end}: {found:?}");
        }
        is_bounded();
    }
    never_says(&cluster, "DATA LOST");
}

fn a_large_value_survives(durability: &str) {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(1, durability);
    let mut value = noise(1, 1 << 20).repeat(128);
    let end = value.len() - 9;
    value[end..].copy_from_slice(b"its end..");
    let mut client = cluster.client(0);
    client.run_ok("SET small 1");
    assert_eq!(
        client.command(&[b"SET", b"large".as_slice(), &value]),
        Value::ok()
    );
    cluster.kill(0);
    cluster.restart_all();
    let found = cluster.client(0).run("GET large");
    assert!(found == Value::Bulk(value), "{found:?}");
    assert_eq!(cluster.client(0).run("GET small"), Value::bulk("1"));
    never_says(&cluster, "DATA LOST");
}

#[test]
fn a_value_of_128_mebibytes_survives_a_kill_of_a_relaxed_node() {
    a_large_value_survives("relaxed");
}

#[test]
fn a_value_of_128_mebibytes_survives_a_kill_of_a_strict_node() {
    a_large_value_survives("strict");
}

#[test]
fn a_client_sees_the_durability_of_the_cluster() {
    if is_redis() {
        return;
    }
    let expected = [
        ("memory", "no", "everysec", "0"),
        ("relaxed", "yes", "everysec", "1"),
        ("strict", "yes", "always", "1"),
    ];
    for (durability, appendonly, appendfsync, aof_enabled) in expected {
        let mut cluster = cluster(1, durability);
        for is_restarted in [false, true] {
            let mut client = cluster.client(0);
            for (name, value) in [
                ("durability", durability),
                ("appendonly", appendonly),
                ("appendfsync", appendfsync),
            ] {
                let found = client.run(&format!("CONFIG GET {name}"));
                let wanted = Value::Array(vec![Value::bulk(name), Value::bulk(value)]);
                assert_eq!(found, wanted, "restarted: {is_restarted}");
            }
            assert_eq!(
                client.info("persistence", "aof_enabled").as_deref(),
                Some(aof_enabled)
            );
            let as_it_is = format!("CONFIG SET durability {durability} appendonly {appendonly} maxmemory 0");
            assert_eq!(client.run(&as_it_is), Value::ok());
            let refused = client.run("CONFIG SET durability always").error();
            let why = refused.expect("there is no such durability");
            assert!(why.contains("memory, relaxed, strict"), "{why}");
            if durability != "memory" {
                let refused = client.run("CONFIG SET appendonly no").error();
                let why = refused.expect("files do not go by that name");
                assert!(why.contains("set durability memory"), "{why}");
            }
            if !is_restarted {
                cluster.terminate(0);
                // Asked for too late: what the cluster has counts.
                cluster.flag("durability", expected[2].0);
                cluster.restart_all();
            }
        }
    }
}

#[test]
fn a_node_that_is_no_clusters_has_no_durability() {
    if is_redis() {
        return;
    }
    for durability in ["relaxed", "strict"] {
        let mut command = Command::new(chorale_binary());
        command.args([
            "server",
            "--port",
            "0",
            "--cluster-port",
            "0",
            "--admin-port",
            "0",
        ]);
        command.args(["--peer-port", "0", "--durability", durability]);
        // Variables that steer these tests are no options of the server.
        for name in std::env::vars_os().map(|(name, _)| name) {
            if name.to_string_lossy().starts_with("CHORALE_") {
                command.env_remove(name);
            }
        }
        let output = command.current_dir(std::env::temp_dir()).output();
        let output = output.expect("the binary is there");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(
            text.contains("without a peer port") && text.contains(durability),
            "{text}"
        );
        assert!(text.contains("--peer-port"), "it says what to do: {text}");
    }
}

/// As `cp -a` makes it.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()), "cp -a");
}

/// The node ends by this signal before it is copied, and before the copy takes the place.
fn a_copy_takes_the_place(durability: &str, end: &str) {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(3, durability);
    let all = cluster.addresses();
    let mut receipts = Receipts::new(seed());
    let stop = |cluster: &mut Cluster| match end {
        "TERM" => {
            cluster.terminate(2);
        }
        _ => cluster.kill(2),
    };
    let work = |receipts: &mut Receipts, nodes: &[SocketAddr]| {
        receipts.begin(nodes, 2);
        receipts.wait_for_more(2_000);
        receipts.end();
    };
    work(&mut receipts, &all);
    stop(&mut cluster);
    let data = cluster.data(2);
    let (kept, away) = (data.with_extension("copy"), data.with_extension("away"));
    copy(&data, &kept);
    cluster.restart(2);
    cluster.wait_until_ready(2);
    let before = cluster.wait_until_replicated();
    work(&mut receipts, &all);
    stop(&mut cluster);
    // Only two of three have these.
    work(&mut receipts, &all[..2]);
    fs::rename(&data, &away).expect("both are in the test's directory");
    fs::rename(&kept, &data).expect("both are in the test's directory");
    cluster.restart(2);
    cluster.wait_until_ready(2);
    let after = cluster.wait_until_replicated();
    let log = cluster.log(2);
    assert!(log.contains("the data directory is a copy"), "{log}");
    let of_node = |replicas: &[(usize, u64, bool)]| {
        let own = replicas.iter().find(|replica| replica.0 == 2);
        own.expect("every group has three replicas").1
    };
    for (before, after) in before.replicas.iter().zip(&after.replicas) {
        assert_ne!(
            of_node(before),
            of_node(after),
            "the replica is another one: {log}"
        );
    }
    nothing_is_missing(&receipts, &all, "with the copy in place");
    // What the node was filled with again is whole, and counts.
    cluster.kill(0);
    nothing_is_missing(&receipts, &all[1..], "without one that filled it");
    cluster.kill_all();
    cluster.restart_all();
    nothing_is_missing(&receipts, &all, "after all were killed");
    never_says(&cluster, "DATA LOST");
}

#[test]
fn a_copy_of_a_directory_is_not_taken_for_what_its_relaxed_node_acknowledged() {
    a_copy_takes_the_place("relaxed", "TERM");
}

#[test]
fn a_copy_of_a_directory_is_not_taken_for_what_its_strict_node_acknowledged() {
    a_copy_takes_the_place("strict", "KILL");
}

/// Changes one byte of a frame in the middle of each log: there were synced ones behind it.
fn flip(data: &Path) {
    for name in names(data).into_iter().filter(|name| name.starts_with("log-")) {
        let path = data.join(name);
        let mut bytes = fs::read(&path).expect("the node has ended");
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        // A frame that was synced by itself begins on a block, with 24 bytes in front of its payload.
        let block = used / 2 / 4096 * 4096;
        if block > 4096 {
            bytes[block + 26] ^= 1;
            fs::write(&path, bytes).expect("there is room");
        }
    }
}

#[test]
fn a_node_alone_whose_log_is_damaged_does_not_start_and_names_the_place() {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(1, "strict");
    let mut client = cluster.client(0);
    for number in 0..100 {
        client.run_ok(&format!("SET key:{number} {number}"));
    }
    cluster.kill(0);
    flip(&cluster.data(0));
    cluster.restart(0);
    assert!(!cluster.wait(0).success());
    let said = log(&cluster, 0);
    assert!(said.contains("is damaged at offset"), "{said}");
    assert!(!said.contains("DATA LOST"), "{said}");
    // Nothing was cut: with the bytes as they were, everything is there.
    flip(&cluster.data(0));
    cluster.restart(0);
    cluster.wait_until_ready(0);
    assert_eq!(cluster.client(0).run("DBSIZE"), Value::Integer(100));
}

/// What `chorale admin recover --cut` says of a data directory.
fn cut(data: &Path, more: &[&str]) -> String {
    let output = Command::new(chorale_binary())
        .args(["admin", "recover", "--cut", "--dir"])
        .arg(data)
        .args(more)
        .output()
        .expect("it is a program");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it is text")
}

#[test]
fn a_node_alone_goes_on_with_what_stands_before_damage_once_its_logs_are_cut() {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(1, "strict");
    let mut client = cluster.client(0);
    for number in 0..100 {
        client.run_ok(&format!("SET key:{number} {number}"));
    }
    cluster.kill(0);
    let data = cluster.data(0);
    assert!(cut(&data, &[]).contains("No log of node"), "nothing is damaged");
    flip(&data);
    let said = cut(&data, &[]);
    for word in ["is damaged at offset", "entries would go", "--confirm does it"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    cluster.restart(0);
    assert!(!cluster.wait(0).success(), "nothing was cut");
    assert!(log(&cluster, 0).contains("chorale admin recover --cut --dir"));
    let said = cut(&data, &["--confirm"]);
    assert!(
        said.contains("The logs were cut") && said.contains("entries went"),
        "{said}"
    );
    assert!(cut(&data, &[]).contains("No log of node"), "it is done");
    cluster.restart(0);
    cluster.wait_until_ready(0);
    let mut client = cluster.client(0);
    let values: Vec<Value> = (0..100)
        .map(|number| client.run(&format!("GET key:{number}")))
        .collect();
    let mut lost = 0;
    for (number, value) in values.iter().enumerate() {
        lost += usize::from(*value == Value::NullBulk);
        let is_its = *value == Value::NullBulk || *value == Value::bulk(number.to_string());
        assert!(is_its, "key {number}: {value:?}");
    }
    assert!((1..100).contains(&lost), "{lost} of 100 are lost");
    // What is written from here on stands behind what was left.
    for number in 0..100 {
        client.run_ok(&format!("SET key:{number} again"));
    }
    cluster.kill(0);
    cluster.restart(0);
    cluster.wait_until_ready(0);
    let mut client = cluster.client(0);
    for number in 0..100 {
        assert_eq!(client.run(&format!("GET key:{number}")), Value::bulk("again"));
    }
    never_says(&cluster, "DATA LOST");
}

/// The log of one of three nodes is damaged in its middle while the node is down and the others go on.
fn one_log_of_three_is_damaged(durability: &str) {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(3, durability);
    let all = cluster.addresses();
    let mut receipts = Receipts::new(seed());
    let work = |receipts: &mut Receipts, nodes: &[SocketAddr]| {
        receipts.begin(nodes, 2);
        receipts.wait_for_more(2_000);
        receipts.end();
    };
    work(&mut receipts, &all);
    let before = cluster.wait_until_replicated();
    // Damage of what is not known to be synced is taken for a torn end. What follows says that it is.
    let mut client = cluster.client(2);
    eventually("what was written is synced", || {
        let said = client.run("INFO persistence");
        said.text()
            .is_some_and(|said| said.contains("log_unsynced_ms:0\r\n"))
    });
    receipts.begin(&all, 2);
    receipts.wait_for_more(200);
    receipts.end();
    cluster.kill(2);
    flip(&cluster.data(2));
    work(&mut receipts, &all[..2]);
    cluster.restart(2);
    cluster.wait_until_ready(2);
    let after = cluster.wait_until_replicated();
    let log = cluster.log(2);
    assert!(
        log.contains("its replica goes on with what stands before that"),
        "{log}"
    );
    assert!(log.contains("refilled=0 dropped=0 aside=0"), "{log}");
    let of_node = |replicas: &[(usize, u64, bool)]| {
        let own = replicas.iter().find(|replica| replica.0 == 2);
        own.expect("every group has three replicas").1
    };
    for (before, after) in before.replicas.iter().zip(&after.replicas) {
        assert_eq!(
            of_node(before),
            of_node(after),
            "the replica is the same one: {log}"
        );
    }
    nothing_is_missing(&receipts, &all, "with what the others have filled");
    cluster.kill(0);
    nothing_is_missing(&receipts, &all[1..], "without one that filled it");
    cluster.kill_all();
    cluster.restart_all();
    nothing_is_missing(&receipts, &all, "after all were killed");
    never_says(&cluster, "DATA LOST");
}

#[test]
fn a_strict_node_whose_log_is_damaged_goes_on_with_its_replicas_and_the_others_fill_them() {
    one_log_of_three_is_damaged("strict");
}

#[test]
fn a_relaxed_node_whose_log_is_damaged_goes_on_with_its_replicas_and_the_others_fill_them() {
    one_log_of_three_is_damaged("relaxed");
}

fn databases_stay_as_they_were(nodes: usize, durability: &str) {
    if is_redis() {
        return;
    }
    let mut cluster = cluster(nodes, durability);
    let mut client = cluster.client(nodes - 1);
    for database in [0, 1, 5] {
        client.run_ok(&format!("SELECT {database}"));
        for key in 0..100 {
            client.run_ok(&format!("SET key:{key} {database}"));
        }
    }
    let again = |cluster: &mut Cluster| {
        cluster.kill_all();
        cluster.restart_all();
        cluster.client(nodes - 1)
    };
    let holds = |client: &mut Client, database: usize, value: Option<&str>| {
        client.run_ok(&format!("SELECT {database}"));
        let wanted = value.map_or(Value::NullBulk, Value::bulk);
        for key in 0..100 {
            let found = client.run(&format!("GET key:{key}"));
            assert_eq!(
                found, wanted,
                "key {key} of database {database}, {nodes} {durability}"
            );
        }
        let count = if value.is_some() { 100 } else { 0 };
        assert_eq!(client.run("DBSIZE"), Value::Integer(count), "database {database}");
    };
    client.run_ok("SWAPDB 1 5");
    let mut client = again(&mut cluster);
    holds(&mut client, 0, Some("0"));
    holds(&mut client, 1, Some("5"));
    holds(&mut client, 5, Some("1"));
    client.run_ok("SELECT 5");
    client.run_ok("FLUSHDB");
    let mut client = again(&mut cluster);
    holds(&mut client, 0, Some("0"));
    holds(&mut client, 1, Some("5"));
    holds(&mut client, 5, None);
    client.run_ok("FLUSHALL");
    let mut client = again(&mut cluster);
    for database in [0, 1, 5] {
        holds(&mut client, database, None);
    }
    client.run_ok("SELECT 1");
    for key in 0..100 {
        client.run_ok(&format!("SET key:{key} after"));
    }
    let mut client = again(&mut cluster);
    holds(&mut client, 1, Some("after"));
    holds(&mut client, 0, None);
    never_says(&cluster, "DATA LOST");
}

#[test]
fn databases_that_were_flushed_or_swapped_are_so_after_a_kill_of_a_relaxed_node() {
    databases_stay_as_they_were(1, "relaxed");
}

#[test]
fn databases_that_were_flushed_or_swapped_are_so_after_a_kill_of_a_strict_node() {
    databases_stay_as_they_were(1, "strict");
}

#[test]
fn databases_that_were_flushed_or_swapped_are_so_after_a_kill_of_three_nodes() {
    databases_stay_as_they_were(3, "relaxed");
}

/// Transactions alone, so that many of them are under way whenever the nodes are killed.
fn transactions_are_whole(nodes: usize, durability: &str) {
    if is_redis() {
        return;
    }
    const ACCOUNTS: usize = 24;
    const CLIENTS: usize = 6;
    let mut cluster = cluster(nodes, durability);
    let mut prng = Prng::new(seed());
    let mut acknowledged = [0; CLIENTS];
    for round in 0..3 {
        let addresses = cluster.addresses();
        let limit = 100 + prng.below(1_500);
        let seeds = [(); CLIENTS].map(|()| prng.bits());
        let done = AtomicUsize::new(0);
        let done = &done;
        thread::scope(|scope| {
            let clients: Vec<_> = seeds
                .into_iter()
                .enumerate()
                .map(|(number, seed)| {
                    let node = addresses[number % nodes];
                    scope.spawn(move || transfer(node, number, seed, ACCOUNTS, done))
                })
                .collect();
            let start = Instant::now();
            while done.load(Ordering::Relaxed) < limit {
                assert!(start.elapsed() < SETTLING, "too few transactions are done");
                thread::sleep(Duration::from_millis(1));
            }
            cluster.kill_all();
            for (number, client) in clients.into_iter().enumerate() {
                acknowledged[number] += client.join().expect("a client does not panic");
            }
        });
        cluster.restart_all();
        let mut client = cluster.client(0);
        let accounts: Vec<String> = (0..ACCOUNTS)
            .map(|account| format!("account:{account}"))
            .collect();
        let found = client.run(&format!("MGET {}", accounts.join(" ")));
        let balances = found.elements().unwrap_or_default().iter();
        let sum: i64 = balances.filter_map(Value::integer).sum();
        assert_eq!(sum, 0, "round {round} of {nodes} {durability}: {found:?}");
        for (number, acknowledged) in acknowledged.iter_mut().enumerate() {
            let pair = client.run(&format!("MGET count:{number} {{other}}count:{number}"));
            let pair = pair.elements().expect("MGET answers with both").to_vec();
            assert_eq!(pair[0], pair[1], "round {round} of {nodes} {durability}");
            let counted = pair[0].integer().unwrap_or_default();
            // At most the one that was under way when the connection broke is there without an answer.
            assert!(
                (*acknowledged..=*acknowledged + 1).contains(&counted),
                "round {round} of {nodes} {durability}: {counted}, and {acknowledged} were acknowledged"
            );
            *acknowledged = counted;
        }
    }
    never_says(&cluster, "DATA LOST");
}

#[test]
fn a_transaction_over_several_groups_is_whole_or_absent_after_a_kill_of_one_node() {
    transactions_are_whole(1, "relaxed");
}

#[test]
fn a_transaction_over_several_groups_is_whole_or_absent_after_a_kill_of_three_relaxed_nodes() {
    transactions_are_whole(3, "relaxed");
}

#[test]
fn a_transaction_over_several_groups_is_whole_or_absent_after_a_kill_of_three_strict_nodes() {
    transactions_are_whole(3, "strict");
}

/// Moves random amounts until the connection breaks, and says how often it was told that one is moved.
fn transfer(node: SocketAddr, number: usize, seed: u64, accounts: usize, done: &AtomicUsize) -> i64 {
    let mut prng = Prng::new(seed);
    let mut client = Client::connect(node).expect("the node takes clients");
    let mut acknowledged = 0;
    loop {
        let (from, to, amount) = (prng.below(accounts), prng.below(accounts), prng.below(100));
        let commands = [
            "MULTI".to_owned(),
            format!("DECRBY account:{from} {amount}"),
            format!("INCRBY account:{to} {amount}"),
            format!("INCR count:{number}"),
            format!("INCR {{other}}count:{number}"),
            "EXEC".to_owned(),
        ];
        let bytes = commands
            .iter()
            .flat_map(|words| frame(&words.split(' ').collect::<Vec<_>>()));
        if client.send_raw(&bytes.collect::<Vec<_>>()).is_err() {
            return acknowledged;
        }
        for index in 0..commands.len() {
            match client.receive() {
                Ok(Value::Array(_)) if index == commands.len() - 1 => {
                    acknowledged += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                // What is done is open, and so is what comes behind it.
                Ok(Value::Error(error)) if !error.starts_with(b"TRYAGAIN") => return acknowledged,
                Ok(_) => {}
                Err(_) => return acknowledged,
            }
        }
    }
}

fn growth_is_killed(durability: &str) {
    if is_redis() {
        return;
    }
    let mut prng = Prng::new(seed());
    let mut cluster = cluster(1, durability);
    let mut receipts = Receipts::new(prng.bits());
    receipts.begin(&cluster.addresses(), 4);
    receipts.wait_for_more(5_000);
    for _ in 0..2 {
        cluster.begin(&[]);
    }
    // Somewhere between the first replica elsewhere and the last.
    let wanted = GROUPS + 1 + prng.below(2 * GROUPS - 1);
    let start = Instant::now();
    loop {
        let seen = cluster.look(0).unwrap_or_default();
        let replicas: usize = seen.replicas.iter().map(Vec::len).sum();
        if replicas >= wanted {
            break;
        }
        assert!(start.elapsed() < SETTLING, "{replicas} of {wanted} replicas");
        thread::sleep(Duration::from_millis(1));
    }
    cluster.kill_all();
    receipts.end();
    cluster.restart_all();
    let all = cluster.addresses();
    nothing_is_missing(&receipts, &all, &format!("killed at {wanted} replicas"));
    receipts.begin(&all, 2);
    receipts.wait_for_more(2_000);
    cluster.kill_all();
    receipts.end();
    cluster.restart_all();
    nothing_is_missing(&receipts, &all, "killed when it has grown");
    never_says(&cluster, "DATA LOST");
}

#[test]
fn a_relaxed_cluster_that_is_killed_while_it_grows_has_all_that_it_acknowledged() {
    growth_is_killed("relaxed");
}

#[test]
fn a_strict_cluster_that_is_killed_while_it_grows_has_all_that_it_acknowledged() {
    growth_is_killed("strict");
}

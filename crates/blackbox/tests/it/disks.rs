//! Disks that lose what was not synced, are full, fail or are slow: what clients see, who leads, and what is there afterwards. Redis is
//! started without a file to save to: these tests are about Chorale.
//!
//! `CHORALE_BLACKBOX_ROUNDS` says how often all nodes lose power; 2 otherwise.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use blackbox::{Client, Cluster, Implementation, Prng, Receipts, SmallDisk, Value, eventually};

/// Few enough for processes that were built for tests.
const GROUPS: usize = 8;

/// Of a disk that a node has for itself: the segment that it writes, one ahead, and as much as it leaves free.
const DISK_BYTES: u64 = 448 << 20;

/// Bytes of a value that fills logs, and of a log that is sure to need another segment.
const VALUE_BYTES: usize = 100 << 10;
const SEGMENT_BYTES: usize = 64 << 20;

/// Within this a refusal is prompt.
const PROMPT: Duration = Duration::from_secs(1);

fn is_redis() -> bool {
    matches!(Implementation::subject(), Implementation::Redis(_))
}

fn rounds() -> usize {
    let rounds = std::env::var("CHORALE_BLACKBOX_ROUNDS");
    rounds.map_or(2, |rounds| rounds.parse().expect("a number of rounds"))
}

fn seed() -> u64 {
    let seed = std::env::var("CHORALE_BLACKBOX_SEED");
    let seed = seed.map_or(1, |seed| seed.parse().expect("a seed is a number"));
    eprintln!("CHORALE_BLACKBOX_SEED={seed}");
    seed
}

fn begin(durability: &str, flags: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::new(GROUPS);
    cluster.workers(1);
    for (name, value) in flags {
        cluster.flag(name, value);
    }
    cluster.flag("durability", durability);
    cluster
}

/// All that a node has printed since its first start.
fn log(cluster: &Cluster, node: usize) -> String {
    let bytes = fs::read(cluster.data(node).with_file_name("log")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
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

/// All lose power at once, while clients write.
fn power_is_lost(nodes: usize) {
    if is_redis() {
        return;
    }
    let mut cluster = begin("strict", &[("test-disk", "hold")]);
    cluster.grow(nodes);
    let mut receipts = Receipts::new(seed());
    let mut prng = Prng::new(seed() + 2_000);
    for round in 0..rounds() {
        receipts.begin(&cluster.addresses(), 8 / nodes);
        receipts.wait_for_a_round(&mut prng);
        cluster.kill_all();
        receipts.end();
        cluster.restart_all();
        nothing_is_missing(&receipts, &cluster.addresses(), &format!("after round {round}"));
        for node in 0..nodes {
            let said = log(&cluster, node);
            assert!(
                !said.contains("DATA LOST") && !said.contains("panicked"),
                "{said}"
            );
        }
    }
    eprintln!("{nodes} nodes: {} were acknowledged", receipts.acknowledged());
}

#[test]
fn a_strict_node_that_loses_power_has_all_that_it_acknowledged() {
    power_is_lost(1);
}

#[test]
fn strict_nodes_that_lose_power_together_have_all_that_they_acknowledged() {
    power_is_lost(3);
}

/// Writes numbered keys until the node is gone; how many were acknowledged.
fn count(node: SocketAddr, name: usize, is_over: &AtomicBool) -> u64 {
    let mut client = Client::connect(node).expect("the node takes clients");
    for number in 0.. {
        let key = format!("late:{name}:{number}");
        let done = client.try_command(&["SET", &key, &number.to_string()]);
        if done.is_err() || is_over.load(Ordering::Relaxed) {
            return number;
        }
    }
    unreachable!("numbers do not end")
}

/// So many of these nodes lose power at once. What was acknowledged two windows ago was synced. What came later may be lost, and only
/// that.
fn power_is_lost_in_relaxed(nodes: usize, dark: usize) {
    if is_redis() {
        return;
    }
    let mut cluster = begin("relaxed", &[("test-disk", "hold")]);
    cluster.grow(nodes);
    let addresses = cluster.addresses();
    let mut receipts = Receipts::new(seed());
    let mut lost = 0;
    for round in 0..rounds() {
        receipts.begin(&addresses, 2);
        receipts.wait_for_more(3_000);
        receipts.end();
        // Its windows pass.
        thread::sleep(Duration::from_secs(3));
        let is_over = AtomicBool::new(false);
        let acknowledged: Vec<u64> = thread::scope(|scope| {
            let (is_over, addresses) = (&is_over, &addresses);
            let writers: Vec<_> = (0..2 * nodes)
                .map(|writer| {
                    let name = round * 100 + writer;
                    scope.spawn(move || count(addresses[writer % nodes], name, is_over))
                })
                .collect();
            thread::sleep(Duration::from_millis(1_300));
            match dark == nodes {
                true => cluster.kill_all(),
                false => (0..dark).for_each(|node| cluster.kill(node)),
            }
            is_over.store(true, Ordering::Relaxed);
            let ended = writers.into_iter().map(|writer| writer.join().expect("no panic"));
            ended.collect()
        });
        // Groups begin anew by themselves, when all are back.
        cluster.restart_all();
        nothing_is_missing(&receipts, &addresses, &format!("after round {round}"));
        let mut client = cluster.client(0);
        for (writer, count) in acknowledged.into_iter().enumerate() {
            let name = round * 100 + writer;
            for number in 0..count {
                let found = client.run(&format!("GET late:{name}:{number}"));
                assert!(
                    found == Value::NullBulk || found == Value::bulk(number.to_string()),
                    "{found:?}"
                );
                lost += u64::from(found == Value::NullBulk);
            }
        }
        for node in 0..nodes {
            let said = log(&cluster, node);
            let has_lost =
                said.contains("the machine went down while the last run had not synced everything");
            assert_eq!(has_lost, node < dark, "node {node}: {said}");
            assert!(!said.contains("panicked"), "{said}");
        }
        if dark > nodes / 2 && nodes > 1 {
            let said = log(&cluster, nodes - 1);
            let begun = said.matches("a group begins anew with the best of the logs that were left");
            assert!(begun.count() > round, "{said}");
        }
    }
    // The fault is real. Who keeps its power may have all that the others have lost.
    assert!(lost > 0 || dark < nodes, "nothing that was not synced is lost");
}

#[test]
fn a_relaxed_node_that_loses_power_lacks_at_most_what_it_had_not_synced() {
    power_is_lost_in_relaxed(1, 1);
}

#[test]
fn relaxed_nodes_that_lose_power_together_begin_anew_and_lack_at_most_what_none_had_synced() {
    power_is_lost_in_relaxed(3, 3);
}

#[test]
fn two_of_three_relaxed_nodes_that_lose_power_begin_anew_with_the_third() {
    power_is_lost_in_relaxed(3, 2);
}

/// Whether there can be small disks here. If not, that is said.
fn has_small_disks() -> bool {
    let why_not = SmallDisk::why_not();
    if let Some(why_not) = &why_not {
        eprintln!("SKIPPED: no disk can be made for a node by itself: {why_not}");
    }
    why_not.is_none()
}

/// Writes large values until this holds, and more than a segment holds at most; what errors there were.
#[track_caller]
fn write_until(client: &mut Client, is_done: impl Fn(Option<&str>) -> bool) {
    let value = vec![b'x'; VALUE_BYTES];
    for number in 0..4 * SEGMENT_BYTES / VALUE_BYTES {
        let key = format!("large:{}", number % 40);
        let start = Instant::now();
        let reply = client.command(&[b"SET".as_slice(), key.as_bytes(), &value]);
        let error = reply.error();
        if let Some(error) = &error {
            assert!(error.starts_with("MISCONF Errors writing to disk: "), "{error}");
            assert!(start.elapsed() < PROMPT, "{:?}", start.elapsed());
        }
        if is_done(error.as_deref()) {
            return;
        }
    }
    panic!("the disk is not full after all that was written");
}

fn is_refused(client: &mut Client, command: &str) -> bool {
    let start = Instant::now();
    let error = client.run(command).error();
    assert!(start.elapsed() < PROMPT, "{command}: {:?}", start.elapsed());
    error.is_some_and(|error| error.starts_with("MISCONF"))
}

fn a_disk_is_full(durability: &str) {
    if is_redis() || !has_small_disks() {
        return;
    }
    let mut cluster = begin(durability, &[]);
    cluster.small_disks(Some(DISK_BYTES));
    cluster.grow(1);
    let addresses = cluster.addresses();
    let mut client = cluster.client(0);
    client.run_ok("SET before 1");
    cluster.disk(0).fill(0);
    let mut receipts = Receipts::new(seed());
    receipts.begin(&addresses, 2);
    receipts.wait_for_more(500);
    write_until(&mut client, |error| error.is_some());
    // Nothing is written, whatever kind of command it is, and nobody waits to be told.
    for command in [
        "SET a 1",
        "MSET a 1 b 2 c 3",
        "DEL before",
        "BLPOP list 0",
        "INCR count",
        "FLUSHALL",
    ] {
        assert!(is_refused(&mut client, command), "{command}");
    }
    client.run_ok("MULTI");
    client.run("INCR {a}1");
    client.run("INCR {b}1");
    assert!(is_refused(&mut client, "EXEC"));
    assert_eq!(client.run("GET before"), Value::bulk("1"));
    assert_eq!(client.run("EXISTS a b c count {a}1 {b}1"), Value::Integer(0));
    // Writers were told so, too, and go on when there is room, by themselves.
    cluster.disk(0).make_room();
    let start = Instant::now();
    eventually("writes go on", || client.run("SET after 1") == Value::ok());
    eprintln!(
        "{durability}: writes went on {:?} after there was room",
        start.elapsed()
    );
    receipts.wait_for_more(500);
    receipts.end();
    nothing_is_missing(&receipts, &addresses, "with room");
    cluster.kill_all();
    cluster.restart_all();
    nothing_is_missing(&receipts, &addresses, "after it was killed");
    let said = log(&cluster, 0);
    assert!(said.contains("the disk is full: there is no room"), "{said}");
    assert!(said.contains("there is room on the disk again"), "{said}");
    assert_eq!(cluster.client(0).run("GET before"), Value::bulk("1"));
}

#[test]
fn a_strict_node_alone_whose_disk_is_full_refuses_writes_until_there_is_room() {
    a_disk_is_full("strict");
}

#[test]
fn a_relaxed_node_alone_whose_disk_is_full_refuses_writes_until_there_is_room() {
    a_disk_is_full("relaxed");
}

#[test]
fn others_lead_what_a_node_led_whose_disk_is_full_and_writes_are_refused_when_most_disks_are() {
    if is_redis() || !has_small_disks() {
        return;
    }
    let mut cluster = begin("relaxed", &[]);
    cluster.small_disks(Some(DISK_BYTES));
    cluster.grow(3);
    let addresses = cluster.addresses();
    let led = |cluster: &mut Cluster, node: usize| {
        let seen = cluster.look(1).unwrap_or_default();
        seen.leaders
            .iter()
            .filter(|leader| **leader == Some(node))
            .count()
    };
    eventually("leaders are even", || led(&mut cluster, 0) > 0);
    let mut receipts = Receipts::new(seed());
    receipts.begin(&addresses, 2);
    receipts.wait_for_more(500);
    cluster.disk(0).fill(0);
    let mut client = cluster.client(1);
    write_until(&mut client, |error| {
        assert_eq!(error, None, "two have room");
        log(&cluster, 0).contains("the disk is full: there is no room")
    });
    eventually("others lead", || led(&mut cluster, 0) == 0);
    receipts.wait_for_more(500);
    // It comes back when it has room, and not before.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(led(&mut cluster, 0), 0);
    cluster.disk(1).fill(0);
    write_until(&mut client, |error| error.is_some());
    for node in 0..3 {
        let mut client = cluster.client(node);
        eventually("all know of it", || is_refused(&mut client, "SET a 1"));
        assert!(is_refused(&mut client, "MSET a 1 b 2 c 3"), "at node {node}");
        assert_eq!(client.run("GET a").error(), None, "at node {node}");
    }
    cluster.disk(1).make_room();
    eventually("writes go on", || client.run("SET after 1") == Value::ok());
    cluster.disk(0).make_room();
    eventually("it leads again", || led(&mut cluster, 0) > 0);
    receipts.wait_for_more(500);
    receipts.end();
    nothing_is_missing(&receipts, &addresses, "with room");
    cluster.kill_all();
    cluster.restart_all();
    nothing_is_missing(&receipts, &addresses, "after all were killed");
}

/// Whether programs can be traced here. If not, that is said.
fn has_strace() -> bool {
    let traced = Command::new("strace")
        .args(["-D", "-f", "-qq", "-o", "/dev/null", "true"])
        .output();
    let why_not = match traced {
        Ok(output) if output.status.success() && output.stderr.is_empty() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("SKIPPED: strace cannot inject faults here: {why_not}");
    false
}

/// The syncs of each thread of a node have this fault.
fn inject(cluster: &mut Cluster, node: usize, fault: &str) {
    let inject = format!("inject=fdatasync:{fault}");
    let wrapper = [
        "strace",
        "-D",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=fdatasync",
        "-e",
        &inject,
    ];
    cluster.wrap(node, &wrapper);
    cluster.terminate(node);
    cluster.restart(node);
    cluster.wait_until_ready(node);
    cluster.wrap(node, &[]);
    cluster.wait_until_replicated();
}

#[test]
fn a_node_whose_sync_fails_ends_and_comes_back_as_a_new_one() {
    if is_redis() || !has_strace() {
        return;
    }
    let mut cluster = begin("strict", &[]);
    cluster.grow(3);
    let addresses = cluster.addresses();
    inject(&mut cluster, 0, "error=EIO:when=200");
    let mut receipts = Receipts::new(seed());
    receipts.begin(&addresses, 2);
    let status = cluster.wait(0);
    assert_eq!(status.code(), Some(1));
    receipts.wait_for_more(500);
    let said = log(&cluster, 0);
    assert!(
        said.contains("the log cannot be written: the node ends"),
        "{said}"
    );
    assert!(cluster.data(0).join("run-failed").exists());
    cluster.restart(0);
    cluster.wait_until_ready(0);
    cluster.wait_until_replicated();
    receipts.end();
    let said = log(&cluster, 0);
    assert!(said.contains("the last run met an error of the disk"), "{said}");
    nothing_is_missing(&receipts, &addresses, "after it was filled again");
}

/// Of a node alone in `strict` the loop syncs, where nobody reads: so nobody is served who could notice.
#[test]
fn a_node_alone_whose_sync_does_not_end_ends_itself() {
    if is_redis() || !has_strace() {
        return;
    }
    let mut cluster = begin("strict", &[]);
    cluster.grow(1);
    let node = cluster.address(0);
    // The system lets a process that has ended go only when strace does: so the delay is not much longer than the node waits.
    inject(&mut cluster, 0, "delay_enter=35000000:when=200");
    let written = count(node, 0, &AtomicBool::new(false));
    assert!(written > 100, "it has served: {written}");
    let status = cluster.wait(0);
    assert_eq!(status.code(), Some(1));
    let said = log(&cluster, 0);
    let told = "a sync of the log has not ended for 30 seconds: the node ends";
    assert!(said.contains(told), "{said}");
    cluster.restart(0);
    cluster.wait_until_ready(0);
    let mut client = Client::connect(node).expect("the node takes clients");
    for number in 0..written {
        let value = client.run(&format!("GET late:0:{number}"));
        assert_eq!(value.text(), Some(number.to_string()), "{number} of {written}");
    }
}

#[test]
fn others_lead_what_a_node_led_whose_disk_is_slow() {
    if is_redis() || !has_strace() {
        return;
    }
    let mut cluster = begin("strict", &[]);
    cluster.grow(3);
    let addresses = cluster.addresses();
    inject(&mut cluster, 0, "delay_enter=300000:when=300+");
    let led = |cluster: &mut Cluster| {
        let seen = cluster.look(1).unwrap_or_default();
        seen.leaders.iter().filter(|leader| **leader == Some(0)).count()
    };
    eventually("leaders are even", || led(&mut cluster) > 0);
    let mut receipts = Receipts::new(seed());
    receipts.begin(&addresses, 2);
    eventually("others lead", || led(&mut cluster) == 0);
    receipts.wait_for_more(2_000);
    let said = log(&cluster, 0);
    assert!(said.contains("syncs of the disk take too long"), "{said}");
    receipts.end();
    nothing_is_missing(&receipts, &addresses, "with a slow disk");
}

//! What operators see of transactions over groups with replicas on several nodes. Tested whatever server the other tests run
//! on.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use blackbox::{Client, LocalCluster, Value, chorale_binary, eventually};

/// What `chorale admin txns` says of these nodes.
fn ask(cluster: &LocalCluster, nodes: &[u16], flags: &[&str]) -> Output {
    let addresses = nodes.iter().map(|node| cluster.admin_address(*node).to_string());
    let mut command = Command::new(chorale_binary());
    command.args(["admin", "txns"]).args(addresses).args(flags);
    command.output().expect("the binary runs")
}

fn said(cluster: &LocalCluster, nodes: &[u16], flags: &[&str]) -> String {
    let output = ask(cluster, nodes, flags);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Two keys that are in two of the eight groups.
const KEYS: [&str; 2] = ["{a}hot", "{b}hot"];

/// Lets the others end even if the test fails.
struct OverWhenDropped<'a>(&'a AtomicBool);

impl Drop for OverWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Moves something between the keys until the others have seen enough.
fn keep_busy(client: &mut Client, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        for words in [
            "MULTI".to_owned(),
            format!("INCR {}", KEYS[0]),
            format!("DECR {}", KEYS[1]),
        ] {
            client.run(&words);
        }
        let reply = client.run("EXEC");
        assert!(reply.elements().is_some(), "{reply:?}");
    }
}

#[test]
fn what_is_waited_for_and_what_is_under_way_is_shown_for_each_node() {
    let cluster = LocalCluster::start(3, &[]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = OverWhenDropped(&is_over);
        for number in 0..12 {
            let (cluster, is_over) = (&cluster, &is_over);
            scope.spawn(move || keep_busy(&mut cluster.client(1 + number % 3), is_over));
        }
        eventually("the keys that are fought for are named", || {
            let text = said(&cluster, &[1, 2, 3], &[]);
            KEYS.iter().any(|key| text.contains(key))
        });
        eventually(
            "a transaction is shown with its coordinator and its command",
            || {
                let text = said(&cluster, &[1, 2, 3], &[]);
                text.lines().any(|line| {
                    line.contains(" node ") && line.contains(" voting ") && line.contains(" exec ")
                })
            },
        );
    });
    eventually("nothing is left when nobody asks for anything", || {
        let text = said(&cluster, &[1, 2, 3], &[]);
        let now: Vec<&str> = text.lines().skip(3).take(3).collect();
        let figures = |line: &&str| line.split_whitespace().skip(1).all(|figure| figure == "0");
        now.iter().all(figures) && text.contains("No transaction is under way.")
    });
    let pages = said(&cluster, &[1, 2], &["--json"]);
    for field in [
        "\"node\": 1",
        "\"node\": 2",
        "\"in_flight\": 0",
        "\"hottest\": []",
    ] {
        assert!(pages.contains(field), "{field} is missing:\n{pages}");
    }
    assert_eq!(
        said(&cluster, &[1, 2, 3], &["--torn"]),
        "No transaction is torn.\n"
    );
    let begun: i64 = (1..=3)
        .map(|node| cluster.client(node).info_number("chorale", "transactions"))
        .sum();
    assert!(begun > 0, "each EXEC was a transaction over two groups");
    for field in [
        "transactions_in_flight",
        "transactions_settling",
        "transactions_in_doubt",
        "transactions_ended",
        "transaction_late_answers",
    ] {
        assert_eq!(cluster.client(2).info_number("chorale", field), 0, "{field}");
    }
}

#[test]
fn a_node_that_does_not_answer_does_not_hide_the_others() {
    let cluster = LocalCluster::start(1, &[]);
    let address = cluster.admin_address(1).to_string();
    // A port that nobody listens on.
    let other = "127.0.0.1:1".to_owned();
    let output = Command::new(chorale_binary())
        .args(["admin", "txns", &other, &address])
        .output()
        .expect("the binary runs");
    assert!(!output.status.success(), "it is not the whole");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains(&other),
        "who did not is said"
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("Nobody waits for a key."));
    let output = Command::new(chorale_binary())
        .args(["admin", "txns", &other])
        .output()
        .expect("the binary runs");
    assert!(!output.status.success(), "nobody has answered");
}

fn words_of(entry: &Value) -> Vec<String> {
    let words = entry.elements().expect("an entry is an array")[3].clone();
    let words = words.elements().expect("its words are one").iter();
    words.map(|word| word.text().expect("a word is a text")).collect()
}

#[test]
fn a_transaction_over_several_groups_is_in_the_slow_log_and_its_time_is_counted() {
    let cluster = LocalCluster::start(3, &[]);
    let mut client = cluster.client(2);
    client.run_ok("CLIENT SETNAME teller");
    client.run_ok("CONFIG SET slowlog-log-slower-than 0");
    client.run("SLOWLOG RESET");
    client.run_ok("MSET {a}x 1 {b}y 2");
    client.run_ok("MULTI");
    client.run("INCR {a}x");
    client.run("DECR {b}y");
    assert_eq!(client.run("EXEC").elements().map(<[Value]>::len), Some(2));
    client.run_ok("CONFIG SET slowlog-log-slower-than -1");
    let reply = client.run("SLOWLOG GET -1");
    let entries = reply.elements().expect("an array");
    let of = |first: &str| -> Vec<Vec<String>> {
        let all = entries.iter().map(words_of);
        all.filter(|words| words[0].eq_ignore_ascii_case(first)).collect()
    };
    assert_eq!(of("mset"), [["MSET", "{a}x", "1", "{b}y", "2"]], "{reply:?}");
    assert_eq!(
        of("exec"),
        [["exec", "INCR", "{a}x", ";", "DECR", "{b}y"]],
        "{reply:?}"
    );
    let exec = entries
        .iter()
        .find(|entry| words_of(entry)[0] == "exec")
        .expect("it was found above");
    let exec = exec.elements().expect("an entry is an array");
    assert!(exec[2].integer().expect("microseconds") > 0, "{exec:?}");
    assert_eq!(exec[5], Value::bulk("teller"));
    for command in ["mset", "exec"] {
        let line = client
            .info("commandstats", &format!("cmdstat_{command}"))
            .expect("it was called");
        let figure = |name: &str| {
            let all = line.split(',').filter_map(|part| part.split_once('='));
            let found = all.into_iter().find(|(other, _)| *other == name);
            found
                .expect("it has this figure")
                .1
                .parse::<f64>()
                .expect("a number")
        };
        assert_eq!(figure("calls"), 1.0, "{line}");
        assert!(figure("usec") > 0.0, "{line}");
    }
}

#[test]
fn a_transaction_that_a_condition_stopped_is_counted() {
    let cluster = LocalCluster::start(3, &[]);
    let mut client = cluster.client(3);
    client.run_ok("SET {b}y there");
    let before = client.info_number("chorale", "transactions_refused");
    assert_eq!(client.run("MSETNX {a}x 1 {b}y 2"), Value::Integer(0));
    assert_eq!(client.info_number("chorale", "transactions_refused"), before + 1);
}

//! `chorale bench` against real servers: what it says it asked is what it asked.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use blackbox::{LocalCluster, Server, Value, chorale_binary, eventually};

/// Every workload that any server of the protocol can do.
const WORKLOADS: [&str; 12] = [
    "get_set", "ping", "trans", "a", "b", "c", "c-unique", "d", "e", "f", "mset", "mget",
];

/// Runs the tool for a few hundred requests.
fn bench(endpoints: &str, flags: &[&str]) -> Output {
    Command::new(chorale_binary())
        .args(["bench", endpoints, "--clients", "4", "--keys", "200"])
        .args(flags)
        .output()
        .expect("the binary is there")
}

/// The same with a report as JSON.
fn report(endpoints: &str, flags: &[&str]) -> serde_json::Value {
    let output = bench(endpoints, &[flags, &["--json", "-"]].concat());
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{flags:?}: {problem}");
    serde_json::from_slice(&output.stdout).expect("the report is JSON")
}

fn number(report: &serde_json::Value, field: &str) -> u64 {
    report[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} is a number in {report}"))
}

/// What was asked for was done, or is counted as an error.
fn assert_counts(report: &serde_json::Value, workload: &str, requests: u64) {
    let (done, errors) = (number(report, "requests"), number(report, "errors"));
    assert_eq!(done + errors, requests, "{workload}: {report}");
    let aborted = report["errors_by_kind"]["EXEC aborted"].as_u64().unwrap_or(0);
    assert_eq!(errors, aborted, "{workload}: {report}");
    if workload != "trans" {
        assert_eq!(aborted, 0);
    }
    // What was never made cannot be read; what is being inserted can be asked for a moment too early.
    if !["d", "e"].contains(&workload) {
        assert_eq!(number(report, "misses"), 0, "{workload}: {report}");
    }
    let rows = report["timeline"].as_array().expect("a list");
    let told: u64 = rows.iter().map(|row| number(row, "requests")).sum();
    assert_eq!(told, done, "{workload}: {report}");
}

fn free_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("chorale-bench-{}-{name}", std::process::id()))
}

#[test]
fn every_workload_is_measured_and_counted() {
    let server = Server::subject().start();
    let endpoint = server.address().to_string();
    for workload in WORKLOADS {
        server.client().run_ok("FLUSHALL");
        let report = report(&endpoint, &["--workload", workload, "--requests", "300"]);
        assert_counts(&report, workload, 300);
        let keys = server.client().run("DBSIZE");
        let expected = match workload {
            "ping" => 0,
            "c-unique" => 300,
            "d" | "e" => continue,
            _ => 200,
        };
        assert_eq!(keys, Value::Integer(expected), "{workload}");
    }
}

#[test]
fn commands_of_ours_are_measured_and_money_is_not_made() {
    let server = Server::subject().start();
    if server.is_redis() {
        return;
    }
    for flags in [&["--workload", "xfer"][..], &["--workload", "xfer", "--tagged"]] {
        server.client().run_ok("FLUSHALL");
        let report = report(
            &server.address().to_string(),
            &[flags, &["--requests", "300"]].concat(),
        );
        assert_counts(&report, "xfer", 300);
        let mut client = server.client();
        let Value::Array(keys) = client.run("KEYS bench:*") else {
            panic!("KEYS answers an array");
        };
        assert_eq!(keys.len(), 200);
        let sum: i64 = keys
            .iter()
            .map(|key| {
                let balance = client.run(&format!("GET {}", key.text().expect("a name"))).text();
                balance
                    .and_then(|text| text.parse::<i64>().ok())
                    .expect("a balance")
            })
            .sum();
        assert_eq!(sum, 200 * 100_000_000_000_000);
    }
}

#[test]
fn pipelines_rates_and_threads_ask_as_much_as_they_say() {
    let server = Server::subject().start();
    let endpoint = server.address().to_string();
    for flags in [
        &["--pipeline", "16"][..],
        &["--rate", "1000"],
        &["--threads", "3", "--distribution", "zipf:1.1", "--size", "etc"],
        &["--workload", "mset", "--batch", "4", "--tagged"],
    ] {
        let report = report(&endpoint, &[flags, &["--requests", "300"]].concat());
        assert_counts(&report, "get_set", 300);
    }
}

#[test]
fn clients_of_a_cluster_measure_every_workload() {
    let cluster = LocalCluster::start(3, &[]);
    let endpoint = cluster.cluster_address(2).to_string();
    for workload in WORKLOADS.into_iter().chain(["xfer"]) {
        let report = report(
            &endpoint,
            &["--cluster", "--workload", workload, "--requests", "200"],
        );
        assert_counts(&report, workload, 200);
        // Three processes share the work, wherever the system tells.
        let servers = report["servers"].as_array().expect("a list").len();
        assert_eq!(servers, if cfg!(target_os = "linux") { 3 } else { 0 });
    }
}

#[test]
fn a_table_has_a_line_for_each_number_of_keys() {
    let server = Server::subject().start();
    let output = Command::new(chorale_binary())
        .args([
            "bench",
            &server.address().to_string(),
            "--workload",
            "nkeys",
            "--requests",
            "100",
        ])
        .output()
        .expect("the binary is there");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let first: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(first[2..], ["10", "100", "1,000", "10,000"], "{text}");
}

/// Faults need to find processes.
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_is_paused_killed_and_started_is_a_gap_in_the_time_line() {
    let mut server = Server::subject().start();
    let picture = free_file("faults.svg");
    let by = if server.is_redis() {
        format!(" by redis-server --port {}", server.address().port())
    } else {
        String::new()
    };
    let report = report(
        &server.address().to_string(),
        &[
            "--seconds",
            "6",
            "--rate",
            "500",
            "--timeout",
            "10",
            "--fault",
            "at=1s pause 1 for=500ms",
            "--fault",
            "at=2s kill 1",
            "--fault",
            &format!("at=3s start 1{by}"),
            "--plot",
            picture.to_str().expect("a name in letters"),
        ],
    );
    // The one that the tool has started is not ours.
    server.wait();
    end_whoever_listens(&report);
    let (done, errors) = (number(&report, "requests"), number(&report, "errors"));
    assert_eq!(done + errors, 3_000, "{report}");
    // What was on its way when it died, if anything was: of each client one, and one more if it was lost while it came back.
    assert!(errors <= 8, "{report}");
    let lost = report["errors_by_kind"]["connection lost"].as_u64();
    assert_eq!(lost.unwrap_or(0), errors, "{report}");
    assert!(number(&report, "connections_lost") >= 4, "{report}");
    let marks: Vec<&str> = report["faults"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|mark| mark["what"].as_str().expect("a text"))
        .collect();
    assert_eq!(marks, ["pause 1 for=0.5s", "resume 1", "kill 1", "start 1"]);
    assert!(
        report["faults"]
            .as_array()
            .expect("a list")
            .iter()
            .all(|mark| mark["problem"].is_null())
    );
    // A second without a server, seen from when the requests were due.
    assert!(
        report["latency"]["max_ms"].as_f64().expect("a number") >= 1_000.0,
        "{report}"
    );
    let drawn = fs::read_to_string(&picture).expect("the picture was drawn");
    let _ = fs::remove_file(&picture);
    assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"));
    assert!(drawn.contains("kill 1"));
}

/// Ends the process that the report names last.
fn end_whoever_listens(report: &serde_json::Value) {
    let process = number(&report["servers"][0], "process");
    let sent = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -KILL {process}"))
        .status();
    assert!(sent.is_ok_and(|status| status.success()), "{report}");
    eventually("the process that the tool started has ended", || {
        // Whoever has adopted it may not have waited for it yet.
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
}

#[test]
fn a_mistake_ends_with_what_to_do_and_without_a_report() {
    let nobody = {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        socket.local_addr().expect("it is bound")
    };
    let protected = Server::subject().requirepass("secret").start();
    let told = |address: SocketAddr, flags: &[&str]| {
        let output = bench(&address.to_string(), flags);
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        assert!(output.stdout.is_empty());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(told(nobody, &[]).contains("nobody listens"));
    assert!(told(protected.address(), &[]).contains("CHORALE_BENCH_PASSWORD"));
    assert!(told(protected.address(), &["--password", "guess"]).contains("refuses the password"));
    assert!(told(protected.address(), &["--workload", "y"]).contains("there are get_set"));
    let report = report(
        &protected.address().to_string(),
        &["--password", "secret", "--requests", "100"],
    );
    assert_counts(&report, "get_set", 100);
}

#[test]
fn an_interrupted_run_ends_with_a_report_of_what_there_was() {
    let server = Server::subject().start();
    let child = Command::new(chorale_binary())
        .args([
            "bench",
            &server.address().to_string(),
            "--seconds",
            "600",
            "--keys",
            "200",
            "--json",
            "-",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary is there");
    eventually("keys are made, and then changed", || {
        let stats = server
            .client()
            .run("INFO commandstats")
            .text()
            .unwrap_or_default();
        let sets = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_set:calls="));
        let sets = sets.and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
        sets.is_some_and(|sets| sets > 500)
    });
    let sent = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -INT {}", child.id()))
        .status();
    assert!(sent.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("the child is ours");
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the report is JSON");
    assert_eq!(report["is_cut_short"], true);
    assert!(number(&report, "requests") > 0, "{report}");
    assert_eq!(number(&report, "errors"), 0, "what was on its way has not failed");
}

#[test]
fn the_tool_measures_itself() {
    let output = Command::new(chorale_binary())
        .args(["bench", "--self-test", "--requests", "2000", "--keys", "100"])
        .output()
        .expect("the binary is there");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("requests   2,000") && text.contains("of one core"),
        "{text}"
    );
}

#[test]
fn the_responder_answers_any_client_until_it_is_told_to_end() {
    let mut child = Command::new(chorale_binary())
        .args(["bench", "--respond", "0", "--delay", "0.001"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary is there");
    let mut line = String::new();
    let mut told = BufReader::new(child.stdout.as_mut().expect("it is piped"));
    told.read_line(&mut line).expect("it says where it listens");
    let address = line.trim_end().rsplit(' ').next().expect("the last word");
    let report = report(address, &["--requests", "500", "--pipeline", "4"]);
    assert_eq!((number(&report, "requests"), number(&report, "errors")), (500, 0));
    let sent = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -TERM {}", child.id()))
        .status();
    assert!(sent.is_ok_and(|status| status.success()));
    assert_eq!(child.wait().expect("the child is ours").code(), Some(0));
}

#[test]
fn delays_without_the_responder_are_a_mistake() {
    let output = bench("6379", &["--delay", "0.001"]);
    assert_eq!(output.status.code(), Some(1));
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(problem.contains("--self-test or --respond"), "{problem}");
}

#[test]
fn resp3_is_measured_as_resp2_is() {
    let server = Server::subject().start();
    let endpoint = server.address().to_string();
    for workload in ["get_set", "e", "mget", "trans"] {
        let report = report(
            &endpoint,
            &["--resp3", "--workload", workload, "--requests", "400"],
        );
        assert_counts(&report, workload, 400);
        assert_eq!(report["setup"]["is_resp3"], true);
    }
}

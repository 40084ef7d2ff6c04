//! Transactions in five round trips.

use bench::Workload;

use crate::scripted::{Do, Scripted};
use crate::{errors, plan, run};

/// Answers as a server does, but what `other` says instead.
fn server(other: impl Fn(&str, u64) -> Option<&'static str> + Send + 'static) -> Scripted {
    let mut executed = 0;
    Scripted::start(move |words| {
        let name = words[0].as_str();
        if name == "WATCH" {
            executed += 1;
        }
        Do::Say(other(name, executed).unwrap_or(match name {
            "GET" => "$1\r\nx\r\n",
            "SET" => "+QUEUED\r\n",
            "EXEC" => "*1\r\n+OK\r\n",
            _ => "+OK\r\n",
        }))
    })
}

#[test]
fn a_transaction_is_one_request_of_five_round_trips() {
    let server = server(|_, _| None);
    let mut plan = plan(&[&server], 10);
    plan.workload = Workload::Trans;
    let report = run(&plan);
    assert_eq!((report.requests, report.errors), (10, 0));
    let five = ["WATCH", "GET", "MULTI", "SET", "EXEC"];
    assert_eq!(server.names(), five.repeat(10));
    let trips: Vec<(&str, u64)> = report
        .round_trips
        .iter()
        .map(|trip| (trip.name.as_str(), trip.count))
        .collect();
    assert_eq!(trips, five.map(|name| (name, 10)));
    let sum: f64 = report.round_trips.iter().map(|trip| trip.average_ms).sum();
    assert!(
        (sum - report.latency.average_ms).abs() < 0.01,
        "five round trips are the whole"
    );
}

#[test]
fn an_exec_that_was_not_carried_out_is_an_error_of_its_own_kind() {
    let server = server(|name, count| (name == "EXEC" && count % 2 == 0).then_some("*-1\r\n"));
    let mut plan = plan(&[&server], 10);
    plan.workload = Workload::Trans;
    let report = run(&plan);
    assert_eq!(errors(&report), ["EXEC aborted 5"]);
    assert_eq!(report.requests, 5);
}

#[test]
fn a_failed_transaction_leaves_no_traces_on_its_connection() {
    for (fails, then) in [
        ("WATCH", &["WATCH"][..]),
        ("GET", &["WATCH", "GET", "UNWATCH"]),
        ("MULTI", &["WATCH", "GET", "MULTI", "UNWATCH"]),
        ("SET", &["WATCH", "GET", "MULTI", "SET", "DISCARD"]),
        ("EXEC", &["WATCH", "GET", "MULTI", "SET", "EXEC"]),
    ] {
        let server = server(move |name, count| (name == fails && count == 1).then_some("-ERR no\r\n"));
        let mut plan = plan(&[&server], 2);
        plan.workload = Workload::Trans;
        let report = run(&plan);
        assert_eq!(errors(&report), ["ERR 1"], "{fails}");
        assert_eq!(report.requests, 1, "{fails}");
        let expected = [then, &["WATCH", "GET", "MULTI", "SET", "EXEC"]].concat();
        assert_eq!(server.names(), expected, "{fails}");
    }
}

//! `WAIT` behind every write.

use std::time::Duration;

use bench::{Ratio, Workload};

use crate::scripted::{Do, Scripted};
use crate::{errors, plan, run};

/// Answers as a server with one replica does, but what `other` says instead.
fn server(other: impl Fn(&str, u64) -> Option<Do> + Send + 'static) -> Scripted {
    let mut writes = 0;
    Scripted::start(move |words| {
        let name = words[0].as_str();
        if name == "SET" {
            writes += 1;
        }
        other(name, writes).unwrap_or(Do::Say(match name {
            "WAIT" => ":1\r\n",
            "GET" => "$1\r\nx\r\n",
            "EXEC" => "*1\r\n+OK\r\n",
            _ => "+OK\r\n",
        }))
    })
}

#[test]
fn wait_follows_every_write_and_nothing_else() {
    let server = server(|_, _| None);
    let mut plan = plan(&[&server], 500);
    plan.wait = Some(1);
    plan.pipeline = 4;
    let report = run(&plan);
    assert_eq!((report.requests, report.errors), (500, 0));
    assert_eq!(report.setup.wait, Some(1));
    let log = server.log();
    assert!(log.iter().any(|words| words[0] == "SET"));
    for pair in log.windows(2) {
        assert_eq!(pair[0][0] == "SET", pair[1] == ["WAIT", "1", "0"], "{pair:?}");
    }
}

#[test]
fn keys_are_made_without_it() {
    let server = server(|_, _| None);
    let mut plan = plan(&[&server], 10);
    plan.wait = Some(1);
    plan.workload = Workload::C;
    plan.is_loaded = true;
    run(&plan);
    assert!(server.names().iter().all(|name| name != "WAIT"));
}

#[test]
fn a_transaction_waits_at_its_end() {
    let server = server(|name, count| (name == "EXEC" && count % 2 == 0).then_some(Do::Say("*-1\r\n")));
    let mut plan = plan(&[&server], 10);
    plan.wait = Some(1);
    plan.workload = Workload::Trans;
    let report = run(&plan);
    assert_eq!(
        (report.requests, errors(&report)),
        (5, vec!["EXEC aborted 5".to_owned()])
    );
    assert_eq!(
        server.names(),
        ["WATCH", "GET", "MULTI", "SET", "EXEC", "WAIT"].repeat(10)
    );
}

#[test]
fn a_write_that_too_few_replicas_have_has_failed() {
    let server = server(|name, count| (name == "WAIT" && count % 4 == 0).then_some(Do::Say(":0\r\n")));
    let mut plan = plan(&[&server], 40);
    plan.wait = Some(1);
    plan.ratio = "0:1".parse::<Ratio>().expect("only writes");
    let report = run(&plan);
    assert_eq!(
        (report.requests, errors(&report)),
        (30, vec!["too few replicas 10".to_owned()])
    );
}

#[test]
fn a_write_that_fails_fails_once_whatever_wait_answers() {
    for answer in [":1\r\n", "-ERR WAIT cannot be used with replica instances\r\n"] {
        let server = server(move |name, count| match name {
            "SET" if count % 2 == 0 => Some(Do::Say("-OOM no\r\n")),
            "WAIT" if count % 2 == 0 => Some(Do::Say(answer)),
            _ => None,
        });
        let mut plan = plan(&[&server], 40);
        plan.wait = Some(1);
        plan.workload = Workload::CUnique;
        let report = run(&plan);
        assert_eq!(
            (report.requests, errors(&report)),
            (20, vec!["OOM 20".to_owned()])
        );
    }
}

#[test]
fn a_wait_that_is_not_answered_is_a_write_that_took_too_long() {
    let server = server(|name, count| (name == "WAIT" && count == 3).then_some(Do::Ignore));
    let mut plan = plan(&[&server], 10);
    plan.wait = Some(1);
    plan.workload = Workload::CUnique;
    plan.timeout = Duration::from_millis(300);
    let report = run(&plan);
    assert_eq!(
        (report.requests, errors(&report)),
        (9, vec!["timeout 1".to_owned()])
    );
    assert_eq!(report.connections_lost, 1);
}

#[test]
fn the_time_of_wait_is_part_of_the_request() {
    let server = server(|name, count| {
        (name == "WAIT" && count == 3).then_some(Do::Stall(Duration::from_millis(300), ":1\r\n"))
    });
    let mut plan = plan(&[&server], 10);
    plan.wait = Some(1);
    plan.workload = Workload::CUnique;
    let report = run(&plan);
    assert_eq!((report.requests, report.errors), (10, 0));
    assert!(report.latency.max_ms >= 300.0, "{report}");
}

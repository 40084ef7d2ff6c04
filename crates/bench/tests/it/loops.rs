//! What is counted, and from when.

use std::collections::BTreeSet;
use std::time::Duration;

use bench::{Arrivals, Length, Plan, Workload};

use crate::scripted::{Do, Scripted};
use crate::{errors, plan, run, run_or_not};

const OK: &str = "+OK\r\n";
const STALL: Duration = Duration::from_millis(500);

/// Answers at once, but stands still for half a second with command 300.
fn stalling() -> Scripted {
    let mut count = 0;
    Scripted::start(move |_| {
        count += 1;
        if count == 300 {
            Do::Stall(STALL, "+OK\r\n")
        } else {
            Do::Say(OK)
        }
    })
}

fn two_seconds(plan: &mut Plan) {
    plan.clients = 4;
    plan.length = Length::Time(Duration::from_secs(2));
}

#[test]
fn an_open_loop_counts_a_stall_from_when_requests_ought_to_have_begun() {
    let server = stalling();
    let mut open = plan(&[&server], 0);
    two_seconds(&mut open);
    open.rate = Some(1_000.0);
    let report = run(&open);
    // All that was due was asked, those of the stall afterwards.
    assert_eq!(
        (report.requests, report.errors, report.not_started),
        (2_000, 0, 0)
    );
    assert!(report.latency.max_ms >= 500.0);
    // A quarter of all requests fell into the stall, and waited for what was left of it: one of ten for 300 ms or more.
    assert!(report.latency.p90_ms >= 295.0, "{report}");
}

#[test]
fn poisson_arrivals_are_drawn_from_the_seed_and_all_are_asked() {
    let server = Scripted::start(|_| Do::Say(OK));
    let asked = |arrivals, seed, threads| {
        let mut plan = plan(&[&server], 0);
        two_seconds(&mut plan);
        plan.length = Length::Time(Duration::from_millis(500));
        plan.rate = Some(2_000.0);
        plan.arrivals = arrivals;
        plan.seed = seed;
        plan.threads = threads;
        let report = run(&plan);
        assert_eq!((report.errors, report.not_started), (0, 0), "{report}");
        report.requests
    };
    assert_eq!(asked(Arrivals::Even, 1, 2), 1_000);
    let counts = [1, 2, 3].map(|seed| asked(Arrivals::Poisson, seed, 2));
    assert_eq!(
        asked(Arrivals::Poisson, 1, 2),
        counts[0],
        "the same seed, the same times"
    );
    // A thousand on average, with a standard deviation of 32.
    assert!(
        counts.iter().all(|count| (840..1_160).contains(count)),
        "{counts:?}"
    );
    assert!(counts[0] != counts[1] || counts[1] != counts[2], "{counts:?}");
}

#[test]
fn a_closed_loop_hides_the_same_stall_in_its_percentiles() {
    let server = stalling();
    let mut closed = plan(&[&server], 0);
    two_seconds(&mut closed);
    let report = run(&closed);
    assert!(report.latency.max_ms >= 500.0);
    // Each of four clients asked one slow request, of thousands.
    assert!(report.latency.p90_ms < 295.0, "{report}");
}

#[test]
fn each_command_has_percentiles_of_its_own() {
    // GET, or GET and then SET: every tenth GET takes 40 ms or more, and every SET 5 ms or more.
    let mut gets = 0;
    let server = Scripted::start(move |words| {
        let is_get = words[0] == "GET";
        gets += u32::from(is_get);
        match is_get {
            true if gets % 10 == 0 => Do::Stall(Duration::from_millis(40), "+OK\r\n"),
            true => Do::Say("$-1\r\n"),
            false => Do::Stall(Duration::from_millis(5), "+OK\r\n"),
        }
    });
    let mut plan = plan(&[&server], 100);
    plan.workload = Workload::F;
    let report = run(&plan);
    let trip = |name: &str| {
        let found = report.round_trips.iter().find(|trip| trip.name == name);
        found.expect("the workload has it").clone()
    };
    let (get, set) = (trip("update: GET"), trip("update: SET"));
    assert!(get.count >= 20 && get.count == set.count, "{report}");
    assert!(get.p99_ms >= 39.8 && get.max_ms >= get.p99_ms, "{report}");
    assert!(set.p50_ms >= 4.98 && set.p50_ms <= set.p99_ms, "{report}");
    assert_eq!(trip("GET").count + get.count, 100, "{report}");
}

#[test]
fn what_a_server_cannot_keep_up_with_is_told() {
    // One command in 20 ms.
    let server = Scripted::start(|_| Do::Stall(Duration::from_millis(20), "+OK\r\n"));
    let mut plan = plan(&[&server], 0);
    plan.length = Length::Time(Duration::from_secs(1));
    plan.timeout = Duration::from_millis(500);
    plan.rate = Some(1_000.0);
    let report = run(&plan);
    assert!(report.not_started > 500, "{report}");
    assert_eq!(
        report.requests + report.errors + report.not_started,
        1_000,
        "{report}"
    );
}

#[test]
fn as_many_requests_are_made_as_were_asked_for_by_however_many_threads() {
    let server = Scripted::start(|_| Do::Say(OK));
    for (clients, threads, pipeline) in [(1, 1, 1), (7, 3, 1), (5, 2, 16), (2, 8, 4)] {
        let before = server.log().len();
        let mut plan = plan(&[&server], 501);
        plan.clients = clients;
        plan.threads = threads;
        plan.pipeline = pipeline;
        let report = run(&plan);
        assert_eq!(report.requests, 501);
        assert_eq!(server.log().len() - before, 501);
        assert_eq!(report.setup.threads, threads.min(clients));
        let rows: u64 = report.timeline.iter().map(|row| row.requests).sum();
        assert_eq!(rows, 501);
    }
}

#[test]
fn the_same_seed_asks_the_same() {
    let asked = |seed| {
        let server = Scripted::start(|_| Do::Say(OK));
        let mut plan = plan(&[&server], 200);
        plan.seed = seed;
        run(&plan);
        server.log()
    };
    assert_eq!(asked(5), asked(5));
    assert_ne!(asked(5), asked(6));
}

#[test]
fn warm_up_does_not_count() {
    let server = Scripted::start(|_| Do::Say(OK));
    let mut plan = plan(&[&server], 100);
    plan.warmup = Duration::from_millis(200);
    let report = run(&plan);
    assert_eq!(report.requests, 100);
    assert!(server.log().len() > 100);
}

#[test]
fn keys_are_made_before_and_unique_ones_are_set_once() {
    let server = Scripted::start(|_| Do::Say(OK));
    let mut plan = plan(&[&server], 10);
    plan.is_loaded = true;
    plan.clients = 3;
    plan.threads = 2;
    plan.workload = Workload::C;
    run(&plan);
    let log = server.log();
    let set: BTreeSet<&String> = log
        .iter()
        .filter(|words| words[0] == "SET")
        .map(|words| &words[1])
        .collect();
    assert_eq!(set.len(), 100);
    assert_eq!(log.len(), 110);

    let server = Scripted::start(|_| Do::Say(OK));
    plan.endpoints = crate::plan(&[&server], 1).endpoints;
    plan.workload = Workload::CUnique;
    plan.length = Length::Requests(400);
    run(&plan);
    let set: BTreeSet<String> = server.log().into_iter().map(|words| words[1].clone()).collect();
    assert_eq!(set.len(), 400);
}

#[test]
fn a_load_that_fails_is_told_and_nothing_is_measured() {
    let server = Scripted::start(|_| Do::Say("-OOM command not allowed\r\n"));
    let mut plan = plan(&[&server], 10);
    plan.is_loaded = true;
    let problem = run_or_not(&plan).expect_err("there are no keys");
    assert!(problem.contains("keys cannot be loaded: OOM 100"), "{problem}");
}

#[test]
fn errors_are_counted_by_their_first_word_and_nil_as_a_miss() {
    let mut count = 0;
    let server = Scripted::start(move |_| {
        count += 1;
        Do::Say(match count % 4 {
            0 => "-OOM command not allowed\r\n",
            1 => "-LOADING it is\r\n",
            2 => "$-1\r\n",
            _ => "$1\r\nx\r\n",
        })
    });
    let mut plan = plan(&[&server], 80);
    plan.workload = Workload::C;
    let report = run(&plan);
    assert_eq!(errors(&report), ["LOADING 20", "OOM 20"]);
    assert_eq!((report.requests, report.errors, report.misses), (40, 40, 20));
}

#[test]
fn replies_that_come_byte_by_byte_are_the_same() {
    let mut count = 0;
    let server = Scripted::start(move |_| {
        count += 1;
        Do::Spell(match count % 4 {
            0 => "$11\r\nhello\r\nyou!\r\n",
            1 => "*2\r\n$-1\r\n$3\r\nabc\r\n",
            2 => "-ERR of a kind\r\n",
            _ => ":12345\r\n",
        })
    });
    let mut plan = plan(&[&server], 80);
    plan.pipeline = 5;
    plan.workload = Workload::Mget;
    plan.batch = 2;
    let report = run(&plan);
    assert_eq!((report.requests, report.misses), (60, 20));
    assert_eq!(errors(&report), ["ERR 20"]);
}

#[test]
fn nobody_there_or_a_password_is_told_in_words() {
    let server = Scripted::start(|_| Do::Say(OK));
    let mut to_nobody = plan(&[&server], 1);
    drop(server);
    let problem = run_or_not(&to_nobody).expect_err("nobody listens");
    assert!(
        problem.contains("nobody listens") && problem.contains("chorale server"),
        "{problem}"
    );

    let server = Scripted::start(|words| {
        assert_eq!(words[0], "AUTH");
        Do::Say("-WRONGPASS invalid\r\n")
    });
    to_nobody.endpoints = plan(&[&server], 1).endpoints;
    to_nobody.password = Some("guess".to_owned());
    let problem = run_or_not(&to_nobody).expect_err("the password is wrong");
    assert!(problem.contains("refuses the password"), "{problem}");
}

#[test]
fn a_password_is_said_first_on_every_connection() {
    let server = Scripted::start(|_| Do::Say(OK));
    let mut plan = plan(&[&server], 30);
    plan.clients = 3;
    plan.password = Some("secret".to_owned());
    let report = run(&plan);
    assert_eq!(report.requests, 30);
    let names = server.names();
    // One connection asks who is there.
    assert_eq!(names.iter().filter(|name| *name == "AUTH").count(), 4);
    assert_eq!(names.len(), 34);
}

#[test]
fn with_resp3_every_connection_says_hello_and_replies_are_read_as_such() {
    let mut count = 0;
    let server = Scripted::start(move |words| {
        if words[0] == "HELLO" {
            return Do::Say("%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n");
        }
        count += 1;
        Do::Spell(match count % 4 {
            0 => "_\r\n",
            1 => ">2\r\n+invalidate\r\n*1\r\n+a\r\n$1\r\nx\r\n",
            2 => "!12\r\nOOM too much\r\n",
            _ => "=5\r\ntxt:x\r\n",
        })
    });
    let mut plan = plan(&[&server], 80);
    plan.workload = Workload::C;
    plan.clients = 2;
    plan.is_resp3 = true;
    let report = run(&plan);
    assert_eq!((report.requests, report.misses), (60, 20), "{report}");
    assert_eq!(errors(&report), ["OOM 20"]);
    let hellos = server.log().into_iter().filter(|words| words[0] == "HELLO");
    assert_eq!(hellos.collect::<Vec<_>>(), [["HELLO", "3"], ["HELLO", "3"]]);
}

#[test]
fn with_resp3_the_password_goes_with_hello() {
    let server = Scripted::start(|_| Do::Say(OK));
    let mut plan = plan(&[&server], 1);
    plan.is_resp3 = true;
    plan.password = Some("secret".to_owned());
    run(&plan);
    let log = server.log();
    let hello = log.iter().find(|words| words[0] == "HELLO").expect("it is said");
    assert_eq!(hello[..], ["HELLO", "3", "AUTH", "default", "secret"]);
}

#[test]
fn a_server_that_does_not_speak_resp3_is_told_in_words() {
    let server = Scripted::start(|_| Do::Say("-NOPROTO unsupported protocol version\r\n"));
    let mut plan = plan(&[&server], 1);
    plan.is_resp3 = true;
    let problem = run_or_not(&plan).expect_err("it refuses");
    assert!(problem.contains("NOPROTO"), "{problem}");
}

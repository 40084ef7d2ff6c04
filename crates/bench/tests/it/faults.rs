//! Servers that do not answer, close, or are gone.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use bench::Length;

use crate::scripted::{Do, Scripted};
use crate::{errors, plan, run};

const OK: &str = "+OK\r\n";

/// Does something else with its fifth command.
fn fifth(what: fn() -> Do) -> Scripted {
    let mut count = 0;
    Scripted::start(move |_| {
        count += 1;
        if count == 5 { what() } else { Do::Say(OK) }
    })
}

#[test]
fn a_reply_that_does_not_come_is_a_timeout_and_the_client_goes_on() {
    let server = fifth(|| Do::Ignore);
    let mut plan = plan(&[&server], 20);
    plan.timeout = Duration::from_millis(200);
    let report = run(&plan);
    assert_eq!(errors(&report), ["timeout 1"]);
    assert_eq!((report.requests, report.connections_lost), (19, 1));
}

#[test]
fn a_connection_that_ends_fails_what_was_on_its_way_alone() {
    let server = fifth(|| Do::Close);
    let mut plan = plan(&[&server], 20);
    plan.pipeline = 4;
    let report = run(&plan);
    // Up to four were on their way; commands behind the fifth may have been answered by nobody.
    let lost = report.errors_by_kind["connection lost"];
    assert!((1..=4).contains(&lost), "{report}");
    assert_eq!((report.requests + lost, report.connections_lost), (20, 1));
    assert_eq!(report.errors, lost);
}

/// On Linux, where the answer and the end can be made to come in one packet.
#[cfg(target_os = "linux")]
#[test]
fn an_end_right_behind_an_answer_is_noticed_before_the_next_request() {
    for _ in 0..5 {
        let server = fifth(|| Do::SayAndClose(OK));
        let mut plan = plan(&[&server], 20);
        plan.rate = Some(100.0);
        let report = run(&plan);
        assert_eq!(
            (report.errors, report.requests, report.connections_lost),
            (0, 20, 1),
            "{report}"
        );
    }
}

#[test]
fn a_client_whose_server_is_gone_goes_to_the_next_one() {
    let (tell, told) = sync_channel(1);
    let mut count = 0;
    let gone = Scripted::start(move |_| {
        count += 1;
        if count < 5 {
            return Do::Say(OK);
        }
        tell.send(()).expect("the other one waits");
        Do::CloseForGood
    });
    // Until then the other one lets its own client wait, who would else be done with everything.
    let mut is_gone = false;
    let other = Scripted::start(move |_| {
        if !is_gone {
            told.recv_timeout(Duration::from_secs(20))
                .expect("the first one is asked five times");
            is_gone = true;
        }
        Do::Say(OK)
    });
    let mut plan = plan(&[&gone, &other], 60);
    plan.length = Length::Requests(60);
    let report = run(&plan);
    assert_eq!(errors(&report), ["connection lost 1"]);
    assert_eq!(report.requests, 59);
    assert_eq!(gone.log().len(), 5);
    assert_eq!(other.log().len(), 55);
}

#[test]
fn what_is_no_reply_ends_the_connection() {
    let server = fifth(|| Do::Say("HTTP/1.1 400 Bad Request\r\n\r\n"));
    let report = run(&plan(&[&server], 20));
    assert_eq!(errors(&report), ["malformed reply 1"]);
    assert_eq!((report.requests, report.connections_lost), (19, 1));
}

#[test]
fn time_without_a_server_shows_in_the_open_loop() {
    let mut count = 0;
    let server = Scripted::start(move |_| {
        count += 1;
        if count == 100 { Do::Ignore } else { Do::Say(OK) }
    });
    let mut plan = plan(&[&server], 0);
    plan.length = Length::Time(Duration::from_secs(1));
    plan.timeout = Duration::from_millis(300);
    plan.rate = Some(500.0);
    let report = run(&plan);
    assert_eq!(errors(&report), ["timeout 1"]);
    assert_eq!((report.requests, report.not_started), (499, 0));
    // The one client could ask nothing else for 300 ms.
    assert!(report.latency.max_ms > 250.0, "{report}");
}

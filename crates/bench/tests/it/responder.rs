//! The responder, by which tools are measured.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use bench::{Delays, Endpoint, Length, Plan, Responder};

use crate::run;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

fn delaying(millis: u64) -> Responder {
    let delays = Delays::new(Duration::from_millis(millis)).expect("it is short");
    Responder::start(0, Some(delays)).expect("a free port")
}

fn plan(responder: &Responder, requests: u64) -> Plan {
    let endpoints = Endpoint::parse_list(&responder.address().to_string()).expect("an address");
    let mut plan = Plan::new(endpoints);
    plan.length = Length::Requests(requests);
    plan.is_loaded = false;
    plan
}

#[test]
fn every_request_is_answered_at_once_or_later_whatever_the_pipeline() {
    for delay in [None, Some(3)] {
        let responder = match delay {
            None => Responder::start(0, None).expect("a free port"),
            Some(millis) => delaying(millis),
        };
        for pipeline in [1, 16] {
            let mut plan = plan(&responder, 3_000);
            plan.pipeline = pipeline;
            let report = run(&plan);
            assert_eq!((report.requests, report.errors), (3_000, 0), "{report}");
        }
    }
}

#[test]
fn no_percentile_is_told_shorter_than_the_known_delays_make_it() {
    let responder = delaying(20);
    let mut plan = plan(&responder, 2_000);
    plan.clients = 100;
    let latency = run(&plan).latency;
    // Of an exponential distribution with a mean of 20 ms. What the machine does in between can only make them longer, but the
    // two thousand are not the whole distribution, and the histogram has its own 0.4 %.
    for (share, told) in [
        (0.5, latency.p50_ms),
        (0.9, latency.p90_ms),
        (0.99, latency.p99_ms),
    ] {
        let known = -20.0 * (1.0_f64 - share).ln();
        assert!(told > known * 0.98, "{share}: {told} ms for {known} ms");
    }
    assert!(latency.average_ms > 20.0 * 0.98, "{} ms", latency.average_ms);
}

#[test]
fn who_takes_the_place_of_another_does_not_get_its_answers() {
    let responder = delaying(30);
    let mut first = TcpStream::connect(responder.address()).expect("it listens");
    first.write_all(&PING.repeat(200)).expect("it reads");
    // One answer shows that it has read them all, as they came in one piece.
    first.read_exact(&mut [0; 5]).expect("it answers");
    drop(first);
    let mut second = TcpStream::connect(responder.address()).expect("it listens");
    let mut answers = Vec::new();
    for _ in 0..10 {
        second.write_all(PING).expect("it reads");
        let mut answer = [0; 5];
        second.read_exact(&mut answer).expect("it answers");
        answers.extend_from_slice(&answer);
    }
    second.shutdown(Shutdown::Write).expect("it is open");
    second.read_to_end(&mut answers).expect("it closes");
    assert_eq!(answers, b"+OK\r\n".repeat(10));
}

#[test]
fn a_client_that_takes_no_answers_is_closed() {
    let responder = Responder::start(0, None).expect("a free port");
    let mut client = TcpStream::connect(responder.address()).expect("it listens");
    let commands = b"*0\r\n".repeat(16_384);
    let end = loop {
        if let Err(error) = client.write_all(&commands) {
            break error.kind();
        }
    };
    assert!(
        [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&end),
        "{end}"
    );
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let responder = Responder::start(0, None).expect("a free port");
    let again = Responder::start(responder.address().port(), None).expect_err("it is taken");
    assert_eq!(again.kind(), ErrorKind::AddrInUse);
}

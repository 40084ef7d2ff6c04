//! Clients that know slots.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use bench::Workload;
use ids::Slot;

use crate::scripted::{Do, Scripted};
use crate::{errors, plan, run, run_or_not};

/// Where both nodes are, once both are there.
type Addresses = Arc<OnceLock<[SocketAddr; 2]>>;

/// The answer to `CLUSTER SLOTS`: the first node has the slots below the border.
fn slots(nodes: &[SocketAddr; 2], border: u16) -> String {
    let range = |first: u16, last: u16, node: SocketAddr| {
        format!(
            "*3\r\n:{first}\r\n:{last}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{}\r\n",
            node.port()
        )
    };
    format!(
        "*2\r\n{}{}",
        range(0, border - 1, nodes[0]),
        range(border, 16_383, nodes[1])
    )
}

fn slot(words: &[String]) -> u16 {
    Slot::of_key(words[1].as_bytes()).number()
}

/// Two nodes that tell of one border and really have another.
fn nodes(told: u16, real: u16) -> (Addresses, [Scripted; 2]) {
    let addresses = Addresses::default();
    let node = |number: usize| {
        let addresses = addresses.clone();
        Scripted::start(move |words| {
            let nodes = addresses.get().expect("nobody asks before");
            if words[0] == "CLUSTER" {
                return Do::Tell(slots(nodes, told));
            }
            if words[0] == "WAIT" {
                return Do::Say(":1\r\n");
            }
            let slot = slot(words);
            let owner = usize::from(slot >= real);
            if owner == number {
                Do::Say("+OK\r\n")
            } else {
                Do::Tell(format!("-MOVED {slot} {}\r\n", nodes[owner]))
            }
        })
    };
    let nodes = [node(0), node(1)];
    addresses
        .set([nodes[0].address(), nodes[1].address()])
        .expect("once");
    (addresses, nodes)
}

#[test]
fn every_request_goes_to_the_node_that_has_its_slot() {
    let (_, nodes) = nodes(5_000, 5_000);
    let mut plan = plan(&[&nodes[0]], 500);
    plan.is_cluster = true;
    plan.clients = 3;
    plan.pipeline = 4;
    let report = run(&plan);
    assert_eq!((report.requests, report.errors, report.redirects), (500, 0, 0));
    for (number, node) in nodes.iter().enumerate() {
        let keys: Vec<Vec<String>> = node
            .log()
            .into_iter()
            .filter(|words| words[0] != "CLUSTER")
            .collect();
        assert!(keys.len() > 50);
        assert!(
            keys.iter()
                .all(|words| usize::from(slot(words) >= 5_000) == number)
        );
    }
}

#[test]
fn a_slot_that_has_moved_is_found_and_remembered() {
    let (_, nodes) = nodes(5_000, 12_000);
    let mut plan = plan(&[&nodes[0]], 2_000);
    plan.is_cluster = true;
    let report = run(&plan);
    assert_eq!((report.requests, report.errors), (2_000, 0));
    // There are a hundred keys, and each is redirected once, or once more after the map was asked for, which is wrong again.
    assert!(report.redirects > 20, "{report}");
    assert!(report.redirects < 1_000, "{report}");
}

#[test]
fn wait_goes_where_the_write_goes() {
    let (_, nodes) = nodes(5_000, 12_000);
    let mut plan = plan(&[&nodes[0]], 500);
    plan.is_cluster = true;
    plan.pipeline = 4;
    plan.wait = Some(1);
    plan.workload = Workload::CUnique;
    let report = run(&plan);
    assert_eq!((report.requests, report.errors), (500, 0));
    assert!(report.redirects > 0, "{report}");
    for node in &nodes {
        let log: Vec<Vec<String>> = node
            .log()
            .into_iter()
            .filter(|words| words[0] != "CLUSTER")
            .collect();
        assert!(log.len() > 50);
        assert!(
            log.chunks(2)
                .all(|pair| pair[0][0] == "SET" && pair[1] == ["WAIT", "1", "0"]),
            "{log:?}"
        );
    }
}

#[test]
fn ask_is_followed_for_one_request_with_asking_before_it() {
    let other = Scripted::start(|_| Do::Say("+OK\r\n"));
    let to = other.address();
    let addresses = Addresses::default();
    let known = addresses.clone();
    let node = Scripted::start(move |words| {
        let nodes = known.get().expect("nobody asks before");
        if words[0] == "CLUSTER" {
            Do::Tell(slots(nodes, 16_383))
        } else {
            Do::Tell(format!("-ASK {} {to}\r\n", slot(words)))
        }
    });
    addresses.set([node.address(), node.address()]).expect("once");
    let mut plan = plan(&[&node], 20);
    plan.is_cluster = true;
    let report = run(&plan);
    assert_eq!((report.requests, report.errors, report.redirects), (20, 0, 20));
    let names = other.names();
    assert_eq!(names.len(), 40);
    assert!(
        names
            .chunks(2)
            .all(|pair| pair[0] == "ASKING" && pair[1] != "ASKING"),
        "{names:?}"
    );
}

#[test]
fn who_is_sent_in_circles_gives_up() {
    let here = Arc::new(Mutex::new(None));
    let known = here.clone();
    let node = Scripted::start(move |words| {
        let address: SocketAddr = known.lock().expect("nobody panics").expect("nobody asks before");
        if words[0] == "CLUSTER" {
            Do::Tell(slots(&[address, address], 16_383))
        } else {
            Do::Tell(format!("-MOVED {} {address}\r\n", slot(words)))
        }
    });
    *here.lock().expect("nobody panics") = Some(node.address());
    let mut plan = plan(&[&node], 3);
    plan.is_cluster = true;
    let report = run(&plan);
    assert_eq!(errors(&report), ["MOVED 3"]);
    assert_eq!(report.redirects, 3 * 16);
}

#[test]
fn a_server_without_slots_is_told_in_words() {
    let node = Scripted::start(|_| Do::Say("-ERR This instance has cluster support disabled\r\n"));
    let mut plan = plan(&[&node], 3);
    plan.is_cluster = true;
    let problem = run_or_not(&plan).expect_err("it is no cluster");
    assert!(
        problem.contains("disabled") && problem.contains("leave it out"),
        "{problem}"
    );
}

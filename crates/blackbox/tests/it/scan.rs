//! What `SCAN` promises: every key that is there from beginning to end is returned, and the scan ends.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use blackbox::{Client, Prng, Server, Value};

/// Numbers up to this one survive clients that keep numbers as doubles.
const CURSOR_END: u64 = 1 << 53;

/// Scans to the end; `between` runs after each page.
fn scan_with(client: &mut Client, options: &str, mut between: impl FnMut(usize)) -> Vec<String> {
    let mut cursor = "0".to_owned();
    let mut keys = Vec::new();
    for page in 0..100_000 {
        let reply = client.run(&format!("SCAN {cursor} {options}"));
        let Some([Value::Bulk(next), Value::Array(found)]) = reply.elements() else {
            panic!("SCAN answered {reply:?}")
        };
        keys.extend(found.iter().map(|key| key.text().expect("keys are strings")));
        cursor = String::from_utf8(next.clone()).expect("a cursor is a number");
        let position: u64 = cursor.parse().expect("a cursor is a number");
        assert!(position < CURSOR_END, "cursor {position} does not fit a double");
        if position == 0 {
            return keys;
        }
        between(page);
    }
    panic!("SCAN {options} does not end");
}

fn scan(client: &mut Client, options: &str) -> HashSet<String> {
    scan_with(client, options, |_| {}).into_iter().collect()
}

fn fill(client: &mut Client, prefix: &str, count: usize) -> HashSet<String> {
    let keys: Vec<String> = (0..count).map(|index| format!("{prefix}:{index}")).collect();
    let commands: Vec<Vec<&str>> = keys.iter().map(|key| vec!["SET", key, "v"]).collect();
    client.pipeline(&commands);
    keys.into_iter().collect()
}

#[test]
fn an_empty_database_scans_to_nothing() {
    let server = Server::subject().start();
    assert!(scan(&mut server.client(), "").is_empty());
}

#[test]
fn few_keys_are_scanned_in_one_call_whatever_the_workers_groups_and_partitions() {
    for (workers, flags) in [
        (1, &[][..]),
        (2, &[]),
        (2, &["groups", "64"]),
        (2, &["partitions", "4096"]),
        (1, &["partitions", "1", "groups", "1"]),
    ] {
        let mut server = Server::subject().workers(workers);
        for pair in flags.chunks_exact(2) {
            server = server.flag(pair[0], pair[1]);
        }
        let server = server.start();
        // Connections are given to the workers in turn.
        for mut client in [server.client(), server.client()] {
            let keys = fill(&mut client, "few", 5);
            let found = scan_with(&mut client, "", |page| panic!("there is a page behind {page}"));
            assert_eq!(found.len(), 5, "no key is found twice");
            assert_eq!(found.into_iter().collect::<HashSet<_>>(), keys);
        }
    }
}

#[test]
fn every_key_is_found_with_any_count_and_any_number_of_groups() {
    for (workers, groups) in [(1, 1), (2, 1), (2, 64)] {
        let server = Server::subject().workers(workers).groups(groups).start();
        let mut client = server.client();
        let keys = fill(&mut client, "key", 3_000);
        for options in [
            "",
            "COUNT 1",
            "COUNT 7",
            "COUNT 100",
            "COUNT 1000000",
            "COUNT 9223372036854775807",
        ] {
            assert_eq!(scan(&mut client, options), keys, "{groups} groups, {options}");
        }
    }
}

#[test]
fn patterns_and_types_filter_without_losing_anything() {
    let server = Server::subject().start();
    let mut client = server.client();
    let left = fill(&mut client, "left", 400);
    let right = fill(&mut client, "right", 400);
    assert_eq!(scan(&mut client, "MATCH left:*"), left);
    assert_eq!(scan(&mut client, "MATCH r* COUNT 3 TYPE string"), right);
    assert_eq!(scan(&mut client, "TYPE string COUNT 50").len(), 800);
    assert_eq!(
        scan(&mut client, "MATCH right:7 COUNT 50"),
        HashSet::from(["right:7".to_owned()])
    );
    assert!(scan(&mut client, "TYPE hash COUNT 100").is_empty());
    assert!(scan(&mut client, "MATCH none* COUNT 100").is_empty());
}

#[test]
fn databases_are_scanned_apart() {
    let server = Server::subject().start();
    let mut client = server.client();
    let zero = fill(&mut client, "zero", 200);
    client.run_ok("SELECT 3");
    let three = fill(&mut client, "three", 200);
    assert_eq!(scan(&mut client, "COUNT 20"), three);
    client.run_ok("SELECT 0");
    assert_eq!(scan(&mut client, "COUNT 20"), zero);
}

#[test]
fn keys_that_stay_are_found_while_the_database_grows() {
    let server = Server::subject().start();
    let (mut client, mut other) = (server.client(), server.client());
    let keys = fill(&mut client, "stays", 1_000);
    let found = scan_with(&mut client, "COUNT 10", |page| {
        // Tables double several times under the scan, then it may end.
        if page < 40 {
            fill(&mut other, &format!("new{page}"), 500);
        }
    });
    let found: HashSet<String> = found.into_iter().collect();
    assert!(
        keys.is_subset(&found),
        "{} keys were lost",
        keys.difference(&found).count()
    );
}

#[test]
fn keys_that_stay_are_found_while_the_database_shrinks() {
    let server = Server::subject().start();
    let (mut client, mut other) = (server.client(), server.client());
    let keys = fill(&mut client, "stays", 200);
    fill(&mut client, "goes", 20_000);
    let mut gone = 0;
    let found = scan_with(&mut client, "COUNT 30", |_| {
        let end = (gone + 2_000).min(20_000);
        let commands: Vec<Vec<String>> = (gone..end)
            .map(|index| vec!["DEL".to_owned(), format!("goes:{index}")])
            .collect();
        other.pipeline(&commands);
        gone = end;
    });
    let found: HashSet<String> = found.into_iter().collect();
    assert!(
        keys.is_subset(&found),
        "{} keys were lost",
        keys.difference(&found).count()
    );
}

#[test]
fn keys_that_stay_are_found_while_others_come_and_go_at_full_speed() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    let keys = fill(&mut client, "stays", 500);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut churner = server.client();
            let mut prng = Prng::new(5);
            while !done.load(Ordering::Relaxed) {
                let commands: Vec<Vec<String>> = (0..100)
                    .map(|_| {
                        let name = if prng.chance(50) { "SET" } else { "GETSET" };
                        let key = format!("comes:{}", prng.below(20_000));
                        if prng.chance(50) {
                            vec!["DEL".to_owned(), key]
                        } else {
                            vec![name.to_owned(), key, "v".to_owned()]
                        }
                    })
                    .collect();
                churner.pipeline(&commands);
            }
        });
        for _ in 0..10 {
            let found = scan(&mut client, "COUNT 20");
            if !keys.is_subset(&found) {
                done.store(true, Ordering::Relaxed);
                panic!("{} keys were lost", keys.difference(&found).count());
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn bad_cursors_and_options_are_refused() {
    let server = Server::subject().start();
    let mut client = server.client();
    for (words, expected) in [
        ("SCAN abc", "ERR invalid cursor"),
        ("SCAN 0 COUNT 0", "ERR syntax error"),
        ("SCAN 0 COUNT abc", "ERR value is not an integer or out of range"),
        ("SCAN 0 BOGUS 1", "ERR syntax error"),
        ("SCAN 0 MATCH", "ERR syntax error"),
    ] {
        assert_eq!(client.run(words).error().as_deref(), Some(expected), "{words}");
    }
}

#[test]
fn a_cursor_that_nobody_gave_ends_too() {
    let server = Server::subject().start();
    let mut client = server.client();
    fill(&mut client, "key", 2_000);
    for cursor in [1, 12_345, CURSOR_END - 1] {
        let mut cursor = cursor.to_string();
        let mut pages = 0;
        while cursor != "0" {
            let reply = client.run(&format!("SCAN {cursor} COUNT 100"));
            let Some([next, _]) = reply.elements() else {
                panic!("SCAN {cursor} answered {reply:?}")
            };
            cursor = next.text().expect("a cursor is a string");
            pages += 1;
            assert!(pages < 10_000, "SCAN from a made-up cursor does not end");
        }
    }
}

#[test]
fn a_scan_inside_transactions_finds_every_key_whatever_else_is_in_them() {
    for (workers, groups) in [(1, 64), (2, 64), (2, 1)] {
        let server = Server::subject().workers(workers).groups(groups).start();
        // Connections go to the workers in turn: each scans from another one.
        for _ in 0..workers {
            let mut client = server.client();
            let keys = fill(&mut client, "key", 200);
            for write in [None, Some("SET key:1 v"), Some("MSET key:1 v key:2 v")] {
                let (mut cursor, mut found) = ("0".to_owned(), HashSet::new());
                for page in 0.. {
                    assert!(page < 1_000, "the scan does not end");
                    client.run_ok("MULTI");
                    write.map(|write| client.run(write));
                    client.run(&format!("SCAN {cursor} COUNT 50"));
                    let replies = client.run("EXEC");
                    let reply = replies.elements().and_then(<[Value]>::last);
                    let Some([Value::Bulk(next), Value::Array(part)]) = reply.and_then(Value::elements)
                    else {
                        panic!("SCAN answered {replies:?}")
                    };
                    found.extend(part.iter().map(|key| key.text().expect("keys are strings")));
                    cursor = String::from_utf8(next.clone()).expect("a cursor is a number");
                    if cursor == "0" {
                        break;
                    }
                }
                assert_eq!(found, keys, "{workers} workers, {groups} groups, with {write:?}");
            }
        }
    }
}

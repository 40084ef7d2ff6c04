//! The commands that Redis has not, over keys of one group, of one worker and of several.

use crate::transactions::race;
use blackbox::{Client, Prng, Server, Value};

/// One group, several of one worker, several of two workers: a transfer is a plain command, one step, a transaction.
const SHAPES: [(usize, usize); 3] = [(1, 1), (1, 64), (2, 64)];

/// Servers of all shapes; none if there is nothing of our own to test.
fn servers() -> Vec<Server> {
    let start = |(workers, groups)| Server::subject().workers(workers).groups(groups).start();
    let servers = SHAPES.into_iter().map(start);
    servers.filter(|server| !server.is_redis()).collect()
}

/// A client at each worker, whatever the number of workers.
fn clients(server: &Server) -> [Client; 2] {
    [server.client(), server.client()]
}

#[test]
fn set_ifeq_sets_what_is_as_expected() {
    for server in servers() {
        for mut client in clients(&server) {
            client.run_ok("FLUSHALL");
            for (line, expected) in [
                ("SET k new IFEQ old", Value::NullBulk),
                ("EXISTS k", Value::Integer(0)),
                ("SET k old PX 100000", Value::ok()),
                ("SET k new IFEQ other", Value::NullBulk),
                ("SET k new IFEQ other GET", Value::bulk("old")),
                ("GET k", Value::bulk("old")),
                ("SET k new IFEQ old KEEPTTL GET", Value::bulk("old")),
                ("PERSIST k", Value::Integer(1)),
                ("SET k newer IFEQ new EX 100", Value::ok()),
                ("PERSIST k", Value::Integer(1)),
                ("SET k newest IFEQ newer", Value::ok()),
                ("PERSIST k", Value::Integer(0)),
                ("GET k", Value::bulk("newest")),
                ("RPUSH l x", Value::Integer(1)),
            ] {
                assert_eq!(client.run(line), expected, "{line}");
            }
            for line in [
                "SET k v NX IFEQ newest",
                "SET k v IFEQ newest XX",
                "SET k v IFEQ newest IFEQ newest",
                "SET k v IFEQ",
            ] {
                assert_eq!(
                    client.run(line).error().as_deref(),
                    Some("ERR syntax error"),
                    "{line}"
                );
            }
            let error = client.run("SET l v IFEQ x").error().expect("an error");
            assert!(error.starts_with("WRONGTYPE "), "{error}");
        }
    }
}

#[test]
fn parts_of_a_transfer_are_unknown_to_clients() {
    for server in servers() {
        let mut client = server.client();
        client.run_ok("SET k 1");
        let table = client.run("COMMAND");
        let listed = client.run("COMMAND LIST");
        let count = table.elements().map(<[Value]>::len);
        assert_eq!(
            client.run("COMMAND COUNT").integer(),
            count.map(|count| count as i64)
        );
        let names: Vec<String> = listed
            .elements()
            .expect("a list")
            .iter()
            .filter_map(Value::text)
            .collect();
        for own in ["cas", "add", "sub", "xfer"] {
            assert!(names.iter().any(|name| name == own), "{own}");
            let docs = client.run(&format!("COMMAND DOCS {own}"));
            assert!(format!("{docs:?}").contains("summary"), "{docs:?}");
        }
        assert!(!names.iter().any(|name| name.starts_with("xfer.")), "{names:?}");
        assert_eq!(
            client.run("COMMAND GETKEYS XFER a b 1"),
            Value::Array(vec![Value::bulk("a"), Value::bulk("b")])
        );
        for part in ["xfer.from", "XFER.TO"] {
            let error = client.run(&format!("{part} k 1")).error().expect("an error");
            assert!(
                error.starts_with(&format!("ERR unknown command '{part}'")),
                "{error}"
            );
            assert_eq!(
                client.run(&format!("COMMAND DOCS {part}")),
                Value::Array(Vec::new())
            );
            assert_eq!(
                client.run(&format!("COMMAND INFO {part}")),
                client.run("COMMAND INFO nosuch")
            );
            let keys = client.run(&format!("COMMAND GETKEYS {part} k 1"));
            assert_eq!(keys.error().as_deref(), Some("ERR Invalid command specified"));
            client.run_ok("MULTI");
            assert!(client.run(&format!("{part} k 1")).error().is_some());
            let error = client.run("EXEC").error().expect("an error");
            assert!(error.starts_with("EXECABORT "), "{error}");
        }
        client.run("XFER k other 1");
        let calls = client.run("INFO commandstats").text().expect("a text");
        assert!(calls.contains("cmdstat_xfer:calls=1,"), "{calls}");
        assert!(!calls.contains("cmdstat_xfer."), "{calls}");
        assert_eq!(client.run("GET k"), Value::bulk("1"));
    }
}

#[test]
fn a_transfer_is_refused_in_the_same_words_over_any_groups() {
    const BALANCES: &str = "MGET a b c d max";
    for server in servers() {
        for mut client in clients(&server) {
            client.run_ok("FLUSHALL");
            client.run_ok("MSET a 10 b 20 c 30 d 40 max 9223372036854775807 text x");
            client.run("RPUSH list x");
            let before = client.run(BALANCES);
            // Of four keys, some lie in other groups than the rest, and with other workers.
            for key in ["a", "b", "c", "d"] {
                for (words, expected) in [
                    ("K none 1", "ERR no such key"),
                    ("none K 1", "ERR no such key"),
                    ("none none 1", "ERR no such key"),
                    ("K max 41", "ERR insufficient balance"),
                    ("K K 41", "ERR insufficient balance"),
                    ("K max 10", "ERR increment or decrement would overflow"),
                    ("K text 1", "ERR value is not an integer or out of range"),
                    ("text K 1", "ERR value is not an integer or out of range"),
                    ("K max x", "ERR value is not an integer or out of range"),
                    ("K max -1", "ERR value is out of range, must be positive"),
                    (
                        "K list 1",
                        "WRONGTYPE Operation against a key holding the wrong kind of value",
                    ),
                    (
                        "list K 1",
                        "WRONGTYPE Operation against a key holding the wrong kind of value",
                    ),
                ] {
                    let words = format!("XFER {}", words.replace('K', key));
                    let error = client.run(&words).error();
                    // Both keys are at fault.
                    let is_either = words.ends_with(" max 41")
                        && error.as_deref() == Some("ERR increment or decrement would overflow");
                    assert!(
                        error.as_deref() == Some(expected) || is_either,
                        "{words}: {error:?}"
                    );
                    assert_eq!(client.run(BALANCES), before, "{words}");
                }
            }
            let moved = |left, grown| Value::Array(vec![Value::Integer(left), Value::Integer(grown)]);
            assert_eq!(client.run("XFER a b 1"), moved(9, 21));
            assert_eq!(client.run("XFER d c 40"), moved(0, 70));
            assert_eq!(client.run("XFER c a 0"), moved(70, 9));
            assert_eq!(client.run("XFER b b 21"), moved(21, 21));
        }
    }
}

#[test]
fn in_a_block_the_error_of_a_transfer_is_a_result() {
    for server in servers() {
        for mut client in clients(&server) {
            client.run_ok("FLUSHALL");
            client.run_ok("MSET a 10 b 20 c 30 d 40");
            for line in [
                "MULTI",
                "XFER a b 11",
                "XFER b c 5",
                "XFER c d 35",
                "XFER d nobody 1",
                "INCR a",
                "XFER d d x",
            ] {
                client.run(line);
            }
            let reply = client.run("EXEC");
            let results = reply.elements().unwrap_or_else(|| panic!("{reply:?}"));
            let moved = |left, grown| Value::Array(vec![Value::Integer(left), Value::Integer(grown)]);
            assert_eq!(results[0].error().as_deref(), Some("ERR insufficient balance"));
            assert_eq!(results[1..3], [moved(15, 35), moved(0, 75)]);
            assert_eq!(results[3].error().as_deref(), Some("ERR no such key"));
            assert_eq!(results[4], Value::Integer(11));
            assert_eq!(
                results[5].error().as_deref(),
                Some("ERR value is not an integer or out of range")
            );
            let balances = ["11", "15", "0", "75"].map(Value::bulk);
            assert_eq!(client.run("MGET a b c d"), Value::Array(balances.into()));
        }
    }
}

/// A block or a command: what stands between its lines is nobody else's.
fn random_lines(prng: &mut Prng) -> Vec<String> {
    let keys = ["a", "b", "c", "d", "e", "f"];
    let transfer = |prng: &mut Prng| {
        let amount = match prng.below(12) {
            0 => "9223372036854775807".to_owned(),
            1 => "x".to_owned(),
            _ => (prng.below(25) as i64 - 2).to_string(),
        };
        format!("XFER {} {} {amount}", prng.pick(&keys), prng.pick(&keys))
    };
    let key = *prng.pick(&keys);
    match prng.below(20) {
        0 => vec![format!("DEL {key}")],
        1 => vec![format!("DEL {key}"), format!("RPUSH {key} 1 2")],
        2 => vec![format!("SET {key} text")],
        3 => vec![format!("SET {key} 9223372036854775800")],
        4..8 => vec![format!("SET {key} {}", prng.below(60))],
        8 => vec![format!("ADD {key} {}", prng.below(9))],
        9 => vec![format!("CAS {key} {} 5", prng.below(60))],
        10 => {
            let inner = (0..prng.below(4) + 1).map(|_| transfer(prng));
            let mut lines = vec!["MULTI".to_owned()];
            lines.extend(inner);
            lines.extend([format!("SUB {key} 1"), "EXEC".to_owned()]);
            lines
        }
        _ => vec![transfer(prng)],
    }
}

/// Whether two replies are the same; of two errors that are both deserved, either may be told.
fn agree(line: &str, one: &Value, other: &Value) -> bool {
    one == other || line.starts_with("XFER") && one.error().is_some() && other.error().is_some()
}

#[test]
fn transfers_over_several_groups_do_what_they_do_in_one() {
    let servers = servers();
    let mut clients: Vec<[Client; 2]> = servers.iter().map(clients).collect();
    for seed in 0..4 {
        let mut prng = Prng::new(seed);
        for step in 0..400 {
            let lines = random_lines(&mut prng);
            let by = prng.below(2);
            for line in lines.iter().map(String::as_str).chain(["MGET a b c d e f"]) {
                let replies: Vec<Value> = clients.iter_mut().map(|both| both[by].run(line)).collect();
                for reply in replies.iter().skip(1) {
                    assert!(
                        agree(line, &replies[0], reply),
                        "seed {seed} step {step}: {line}: {replies:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn transfers_of_many_clients_keep_the_sum_at_every_moment() {
    const ACCOUNTS: usize = 12;
    const START: i64 = 100;
    for server in servers() {
        let mut all = vec!["MGET".to_owned()];
        let mut opening = vec!["MSET".to_owned()];
        for account in 0..ACCOUNTS {
            all.push(format!("account:{account}"));
            opening.extend([format!("account:{account}"), START.to_string()]);
        }
        assert_eq!(server.client().command(&opening), Value::ok());
        race(
            &server,
            4,
            |client, number| {
                let mut prng = Prng::new(number as u64);
                for _ in 0..300 {
                    let (from, to) = (prng.below(ACCOUNTS), prng.below(ACCOUNTS));
                    let transfer = format!("XFER account:{from} account:{to} {}", prng.below(90));
                    if prng.chance(15) {
                        client.run_ok("MULTI");
                        client.run(&transfer);
                        client.run(&format!("XFER account:{to} account:{from} 1"));
                        let reply = client.run("EXEC");
                        assert_eq!(reply.elements().map(<[Value]>::len), Some(2), "{reply:?}");
                        continue;
                    }
                    let reply = client.run(&transfer);
                    match reply.error() {
                        None => {
                            let balances = reply.elements().expect("two balances");
                            assert!(balances.iter().all(|left| left.integer() >= Some(0)), "{reply:?}");
                        }
                        Some(error) => assert_eq!(error, "ERR insufficient balance"),
                    }
                }
            },
            |client| {
                let balances = client.command(&all);
                let balances = balances.elements().expect("MGET lists");
                let sum: i64 = balances.iter().filter_map(Value::integer).sum();
                assert_eq!(sum, START * ACCOUNTS as i64, "{balances:?}");
            },
        );
    }
}

#[test]
fn a_counter_by_compare_and_set_loses_nothing() {
    const EACH: i64 = 100;
    for server in servers() {
        server.client().run_ok("SET counter 0");
        race(
            &server,
            3,
            |client, _| {
                for _ in 0..EACH {
                    loop {
                        let before = client.run("GET counter").integer().expect("a number");
                        let set = client.run(&format!("CAS counter {before} {}", before + 1));
                        if set == Value::Integer(1) {
                            break;
                        }
                        assert_eq!(set, Value::Integer(0), "it is always there");
                    }
                }
            },
            |client| {
                client.run("CAS nobody 0 1");
            },
        );
        let mut client = server.client();
        assert_eq!(client.run("GET counter").integer(), Some(3 * EACH));
        assert_eq!(client.run("EXISTS nobody"), Value::Integer(0));
    }
}

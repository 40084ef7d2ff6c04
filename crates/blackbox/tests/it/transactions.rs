//! Atomicity and isolation over keys of many groups, seen by clients that race.
//!
//! Bounded by iterations: a server of any speed does the same work, and a deadlock shows as a reply that never comes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use blackbox::{Client, Prng, Server, Value};

fn server() -> Server {
    Server::subject().workers(2).groups(64).start()
}

/// Counts writers that still work; readers go on until there are none.
struct Writers(AtomicUsize);

impl Writers {
    fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    /// To be held by a writer while it works; a failing one counts as finished, so that readers end too.
    fn at_work(&self) -> impl Drop {
        struct Guard<'a>(&'a AtomicUsize);
        impl Drop for Guard<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Release);
            }
        }
        Guard(&self.0)
    }

    fn are_at_work(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// Runs `write` in `count` threads, each with a client and its number, and `read` in two more again and again until
/// all writers have finished (and at least once).
pub(crate) fn race(
    server: &Server,
    count: usize,
    write: impl Fn(&mut Client, usize) + Sync,
    read: impl Fn(&mut Client) + Sync,
) {
    let writers = Writers::new(count);
    thread::scope(|scope| {
        for number in 0..count {
            let (writers, write) = (&writers, &write);
            scope.spawn(move || {
                let _at_work = writers.at_work();
                write(&mut server.client(), number);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut client = server.client();
                loop {
                    let last = !writers.are_at_work();
                    read(&mut client);
                    if last {
                        return;
                    }
                }
            });
        }
    });
}

fn texts(reply: &Value) -> Vec<Option<String>> {
    reply
        .elements()
        .unwrap_or_else(|| panic!("not an array: {reply:?}"))
        .iter()
        .map(Value::text)
        .collect()
}

#[track_caller]
fn all_equal(reply: &Value) {
    let values = texts(reply);
    assert!(
        values.windows(2).all(|pair| pair[0] == pair[1]),
        "torn: {values:?}"
    );
}

#[test]
fn mget_never_sees_half_of_an_mset() {
    let server = server();
    race(
        &server,
        3,
        |client, writer| {
            for round in 0..400 {
                let pair = round % 7;
                client.run_ok(&format!(
                    "MSET a:{pair} {writer}-{round} b:{pair} {writer}-{round} c:{pair} {writer}-{round}"
                ));
            }
        },
        |client| {
            for pair in 0..7 {
                all_equal(&client.run(&format!("MGET a:{pair} b:{pair} c:{pair}")));
                all_equal(&client.run(&format!("MGET c:{pair} a:{pair} b:{pair}")));
            }
        },
    );
}

#[test]
fn exec_never_sees_half_of_another_exec() {
    let server = server();
    let pipeline = |client: &mut Client, lines: &[String]| -> Value {
        let commands: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
        client.pipeline(&commands).pop().expect("EXEC was the last")
    };
    race(
        &server,
        3,
        |client, writer| {
            for round in 0..250 {
                let mut lines = vec!["MULTI".to_owned()];
                // Opposite orders in different writers: whoever locks as it goes gets stuck here.
                let mut keys: Vec<usize> = (0..6).collect();
                if writer % 2 == 1 {
                    keys.reverse();
                }
                lines.extend(keys.iter().map(|key| format!("SET x:{key} {writer}-{round}")));
                lines.push("EXEC".to_owned());
                assert_eq!(pipeline(client, &lines), Value::Array(vec![Value::ok(); 6]));
            }
        },
        |client| {
            let mut lines = vec!["MULTI".to_owned()];
            lines.extend((0..6).map(|key| format!("GET x:{key}")));
            lines.push("EXEC".to_owned());
            all_equal(&pipeline(client, &lines));
            all_equal(&client.run("MGET x:5 x:4 x:3 x:2 x:1 x:0"));
        },
    );
}

#[test]
fn optimistic_increments_lose_nothing() {
    const CLIENTS: usize = 4;
    const EACH: usize = 100;
    let server = server();
    race(
        &server,
        CLIENTS,
        |client, number| {
            for _ in 0..EACH {
                loop {
                    // Two keys of different groups, so that the check spans groups as well.
                    client.run_ok("WATCH counter other");
                    let values = texts(&client.run("MGET counter other"));
                    let next = values[0]
                        .as_deref()
                        .unwrap_or("0")
                        .parse::<u64>()
                        .expect("a count")
                        + 1;
                    client.run_ok("MULTI");
                    client.run(&format!("SET counter {next}"));
                    client.run(&format!("SET other {next}"));
                    client.run(&format!("INCR done:{number}"));
                    if !client.run("EXEC").is_null() {
                        break;
                    }
                }
            }
        },
        |client| all_equal(&client.run("MGET counter other")),
    );
    let mut client = server.client();
    assert_eq!(client.run("GET counter").integer(), Some((CLIENTS * EACH) as i64));
    for number in 0..CLIENTS {
        assert_eq!(
            client.run(&format!("GET done:{number}")).integer(),
            Some(EACH as i64)
        );
    }
}

#[test]
fn transfers_between_accounts_keep_the_sum() {
    const ACCOUNTS: usize = 12;
    const START: i64 = 100;
    let server = server();
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
            for _ in 0..150 {
                let from = prng.below(ACCOUNTS);
                let to = (from + 1 + prng.below(ACCOUNTS - 1)) % ACCOUNTS;
                let amount = 1 + prng.below(30) as i64;
                client.run_ok(&format!("WATCH account:{from} account:{to}"));
                let balance = client
                    .run(&format!("GET account:{from}"))
                    .integer()
                    .expect("a balance");
                if balance < amount {
                    client.run_ok("UNWATCH");
                    continue;
                }
                client.run_ok("MULTI");
                client.run(&format!("DECRBY account:{from} {amount}"));
                client.run(&format!("INCRBY account:{to} {amount}"));
                let reply = client.run("EXEC");
                if let Some(balances) = reply.elements() {
                    assert!(
                        balances[0].integer().is_some_and(|left| left >= 0),
                        "overdrawn: {reply:?}"
                    );
                }
            }
        },
        |client| {
            let balances = client.command(&all);
            let sum: i64 = balances
                .elements()
                .expect("MGET lists")
                .iter()
                .filter_map(Value::integer)
                .sum();
            assert_eq!(sum, START * ACCOUNTS as i64, "{balances:?}");
        },
    );
}

#[test]
fn a_renamed_key_is_always_in_exactly_one_place() {
    let server = server();
    server.client().run_ok("SET place:0 it");
    race(
        &server,
        1,
        |client, _| {
            for step in 0..600 {
                client.run_ok(&format!("RENAME place:{} place:{}", step % 5, (step + 1) % 5));
            }
        },
        |client| {
            assert_eq!(
                client.run("EXISTS place:0 place:1 place:2 place:3 place:4"),
                Value::Integer(1)
            );
            let reply = client.run("MGET place:4 place:2 place:0 place:3 place:1");
            assert_eq!(texts(&reply).iter().flatten().count(), 1, "{reply:?}");
        },
    );
}

#[test]
fn msetnx_happens_as_a_whole_or_not_at_all() {
    let server = server();
    race(
        &server,
        3,
        |client, writer| {
            for round in 0..200 {
                let set = client.run(&format!(
                    "MSETNX n:a {writer}-{round} n:b {writer}-{round} n:c {writer}-{round}"
                ));
                if set == Value::Integer(1) {
                    assert_eq!(
                        client.run("DEL n:c n:a n:b"),
                        Value::Integer(3),
                        "somebody else deleted ours"
                    );
                }
            }
        },
        |client| all_equal(&client.run("MGET n:a n:b n:c")),
    );
}

#[test]
fn bitop_and_copy_see_their_sources_at_one_moment() {
    let server = server();
    server.client().run_ok("MSET left x right x");
    race(
        &server,
        2,
        |client, writer| {
            for round in 0..300 {
                let value = char::from(b'a' + (round % 26) as u8);
                client.run_ok(&format!("MSET left {value} right {value}"));
                if round % 10 == 0 {
                    let reply = client.run(&format!("COPY left copy:{writer} REPLACE"));
                    assert_eq!(reply, Value::Integer(1));
                }
            }
        },
        |client| {
            // Both sources are equal at every moment, so nothing is left of them.
            client.run("BITOP XOR difference left right");
            let difference = client.run("GET difference");
            assert_eq!(difference, Value::bulk([0]), "sources of different moments");
        },
    );
}

#[test]
fn sort_reads_the_keys_that_only_its_patterns_name_at_one_moment() {
    let server = server();
    let mut client = server.client();
    client.run("RPUSH ids 0 1 2 3 4 5");
    client.run_ok("MSET weight:0 0 weight:1 0 weight:2 0 weight:3 0 weight:4 0 weight:5 0");
    race(
        &server,
        2,
        |client, writer| {
            for round in 0..200 {
                let weights = (0..6).map(|id| format!(" weight:{id} {writer}{round}"));
                client.run_ok(&format!("MSET{}", weights.collect::<String>()));
            }
        },
        |client| {
            all_equal(&client.run("SORT ids BY weight:* GET weight:*"));
            assert_eq!(
                client.run("SORT ids BY weight:* GET weight:* STORE sorted"),
                Value::Integer(6)
            );
            all_equal(&client.run("LRANGE sorted 0 -1"));
            // Its patterns name more once the list, which the block changes, is longer.
            client.run_ok("MULTI");
            client.run("RPUSH more 5 0 3");
            client.run("SORT more BY nosort GET weight:*");
            client.run("DEL more");
            let reply = client.run("EXEC");
            all_equal(&reply.elements().expect("EXEC answers with an array")[1]);
        },
    );
}

#[test]
fn a_transaction_does_not_pass_what_its_connection_sent_before() {
    let server = server();
    race(
        &server,
        1,
        |client, _| {
            // Keys of several groups and of both workers, whichever the connection is on.
            for round in 0..400 {
                let (one, two) = (
                    format!("order:{}", round % 5),
                    format!("order:{}", (round + 1) % 5),
                );
                let replies = client.pipeline(&[
                    vec!["SET", &one, "first"],
                    vec!["APPEND", &two, "first"],
                    vec!["MSET", &one, "second", &two, "second"],
                    vec!["GET", &one],
                    vec!["GET", &two],
                    vec!["SET", &two, "third"],
                    vec!["MULTI"],
                    vec!["SET", &one, "fourth"],
                    vec!["GET", &two],
                    vec!["EXEC"],
                    vec!["SET", &one, "fifth"],
                    vec!["DEL", &one, &two],
                    vec!["EXISTS", &one, &two],
                ]);
                assert_eq!(replies[3..5], [Value::bulk("second"), Value::bulk("second")]);
                assert_eq!(replies[9], Value::Array(vec![Value::ok(), Value::bulk("third")]));
                assert_eq!(replies[11..], [Value::Integer(2), Value::Integer(0)]);
            }
        },
        // Readers of all of them: their locks make plain commands wait.
        |client| {
            client.run("MGET order:0 order:1 order:2 order:3 order:4");
        },
    );
}

#[test]
fn what_moves_between_collections_is_always_in_exactly_one() {
    let server = server();
    let mut client = server.client();
    client.run("SADD set:0 it");
    client.run("RPUSH list:0 it");
    race(
        &server,
        1,
        |client, _| {
            for step in 0..300 {
                let (from, to) = (step % 3, (step + 1) % 3);
                assert_eq!(
                    client.run(&format!("SMOVE set:{from} set:{to} it")),
                    Value::Integer(1)
                );
                let moved = client.run(&format!("LMOVE list:{from} list:{to} LEFT RIGHT"));
                assert_eq!(moved, Value::bulk("it"));
            }
        },
        |client| {
            assert_eq!(client.run("EXISTS set:0 set:1 set:2"), Value::Integer(1));
            assert_eq!(client.run("EXISTS list:2 list:0 list:1"), Value::Integer(1));
            let union = client.run("SUNION set:2 set:1 set:0");
            assert_eq!(union.elements().map(<[Value]>::len), Some(1), "{union:?}");
        },
    );
}

#[test]
fn stores_see_their_sources_at_one_moment() {
    let server = server();
    race(
        &server,
        2,
        |client, writer| {
            for round in 0..200 {
                // Both sets hold the same one member at every moment.
                client.run_ok("MULTI");
                for set in ["left", "right", "scored"] {
                    client.run(&format!("DEL {set}"));
                }
                client.run(&format!("SADD left {writer}-{round}"));
                client.run(&format!("SADD right {writer}-{round}"));
                client.run(&format!("ZADD scored {round} {writer}-{round}"));
                assert!(client.run("EXEC").elements().is_some());
            }
        },
        |client| {
            assert_eq!(client.run("SDIFFSTORE difference left right"), Value::Integer(0));
            let union = client.run("SUNIONSTORE union left right");
            assert!(matches!(union, Value::Integer(0 | 1)), "{union:?}");
            let union = client.run("ZUNIONSTORE union 3 scored left right");
            assert!(matches!(union, Value::Integer(0 | 1)), "{union:?}");
        },
    );
}

#[test]
fn commands_on_the_whole_keyspace_take_part_in_blocks() {
    let server = server();
    let mut client = server.client();
    client.run_ok("MSET old:1 x old:2 x old:3 x");
    let lines = [
        "MULTI",
        "DBSIZE",
        "FLUSHALL",
        "DBSIZE",
        "MSET a 1 b 2 c 3",
        "DBSIZE",
        "KEYS *",
        "DEL a",
        "DBSIZE",
        "EXEC",
    ];
    let commands: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
    for before in [3, 2, 2] {
        let replies = client.pipeline(&commands);
        let results = replies.last().and_then(Value::elements).expect("EXEC lists");
        assert_eq!(results[0], Value::Integer(before));
        assert_eq!(
            results[1..5],
            [Value::ok(), Value::Integer(0), Value::ok(), Value::Integer(3)]
        );
        let mut keys = texts(&results[5]);
        keys.sort();
        assert_eq!(keys, ["a", "b", "c"].map(|key| Some(key.to_owned())));
        assert_eq!(results[6..], [Value::Integer(1), Value::Integer(2)]);
    }
}

#[test]
fn flushall_and_dbsize_in_blocks_are_isolated_from_each_other() {
    let server = server();
    let lines = [
        "MULTI",
        "FLUSHALL",
        "MSET f:1 x f:2 x f:3 x f:4 x",
        "DBSIZE",
        "EXEC",
    ];
    let commands: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
    server.client().pipeline(&commands);
    race(
        &server,
        2,
        |client, _| {
            for _ in 0..100 {
                let replies = client.pipeline(&commands);
                let results = replies.last().and_then(Value::elements).expect("EXEC lists");
                assert_eq!(results[2], Value::Integer(4), "somebody came between");
            }
        },
        |client| {
            assert_eq!(client.run("DBSIZE"), Value::Integer(4));
            assert_eq!(client.run("EXISTS f:1 f:2 f:3 f:4"), Value::Integer(4));
            assert_eq!(client.run("KEYS *").elements().map(<[Value]>::len), Some(4));
        },
    );
}

#[test]
fn what_moves_and_what_empties_the_keyspace_are_one_transaction() {
    const KEYS: usize = 8;
    let server = server();
    let fill = || {
        let mut lines = vec!["MULTI".to_owned(), "FLUSHALL".to_owned()];
        lines.extend((0..KEYS).map(|key| format!("RPUSH place:{key} {key}")));
        lines
    };
    let run = |client: &mut Client, mut lines: Vec<String>| -> Vec<Value> {
        lines.push("EXEC".to_owned());
        let commands: Vec<Vec<&str>> = lines.iter().map(|line| line.split(' ').collect()).collect();
        let reply = client.pipeline(&commands).pop().expect("EXEC was the last");
        reply.elements().expect("nothing was watched").to_vec()
    };
    run(&mut server.client(), fill());
    race(
        &server,
        3,
        |client, writer| {
            for round in 0..150 {
                let (from, to) = ((round + writer) % KEYS, (round * 3 + 1) % KEYS);
                let mut lines = fill();
                lines.extend([
                    "DBSIZE".to_owned(),
                    format!("RENAME place:{from} free"),
                    "KEYS free".to_owned(),
                    format!("LMOVE free place:{to} LEFT LEFT"),
                    "DBSIZE".to_owned(),
                    format!("RPUSH place:{from} again"),
                    format!("LPOP place:{to}"),
                    "DBSIZE".to_owned(),
                ]);
                let replies = run(client, lines);
                let count = |at: usize| replies[at].integer().expect("DBSIZE counts");
                assert_eq!(count(KEYS + 1), KEYS as i64);
                assert_eq!(texts(&replies[KEYS + 3]), [Some("free".to_owned())]);
                // What was alone in its list and moved left no key behind.
                let is_same = from == to;
                assert_eq!(count(KEYS + 5), KEYS as i64 - i64::from(!is_same));
                assert_eq!(count(KEYS + 8), KEYS as i64);
            }
        },
        |client| {
            let lines = ["MULTI", "DBSIZE", "KEYS place:*", "EXISTS free"].map(str::to_owned);
            let replies = run(client, lines.to_vec());
            assert_eq!(replies[0], Value::Integer(KEYS as i64));
            assert_eq!(texts(&replies[1]).len(), KEYS);
            assert_eq!(replies[2], Value::Integer(0));
        },
    );
}

#[test]
fn opposite_key_orders_never_block_each_other_for_good() {
    let server = server();
    server.client().run_ok("MSET d:0 v d:1 v d:2 v d:3 v");
    race(
        &server,
        4,
        |client, number| {
            let mut prng = Prng::new(100 + number as u64);
            for round in 0..250 {
                let (one, two) = (prng.below(4), prng.below(4));
                let words = match round % 6 {
                    0 => format!("MSET d:{one} v d:{two} v"),
                    1 => format!("RENAME d:{one} d:{two}"),
                    2 => format!("COPY d:{one} d:{two} REPLACE"),
                    3 => format!("BITOP OR d:{one} d:{two} d:{one}"),
                    4 => format!("MSETNX d:{one} w d:{two} w"),
                    _ => format!("DEL d:{one} d:{two}"),
                };
                // Any answer will do; that there is one is what counts.
                client.run(&words);
            }
        },
        |client| {
            assert_eq!(
                client.run("MGET d:3 d:2 d:1 d:0").elements().map(<[Value]>::len),
                Some(4)
            );
        },
    );
    assert_eq!(server.client().run("PING"), Value::Simple(b"PONG".to_vec()));
}

#[test]
fn watches_over_databases_and_whole_keyspace_writes_are_noticed() {
    let server = server();
    let (mut watcher, mut other) = (server.client(), server.client());
    for (disturbance, disturbed) in [
        ("SET w:1 2", true),
        ("SET unrelated 2", false),
        ("DEL w:2", true),
        ("EXPIRE w:1 1000", true),
        ("RENAME w:1 elsewhere", true),
        ("COPY unrelated w:2 REPLACE", true),
        ("MSET w:2 1 x 1", true),
        ("GET w:1", false),
        ("TOUCH w:1 w:2", false),
        ("FLUSHDB", true),
        ("FLUSHALL", true),
        ("SWAPDB 0 1", true),
    ] {
        other.run_ok("FLUSHALL");
        other.run_ok("MSET w:1 1 w:2 1 unrelated 1");
        watcher.run_ok("WATCH w:1 w:2");
        let reply = other.run(disturbance);
        assert!(reply.error().is_none(), "{disturbance}: {reply:?}");
        watcher.run_ok("MULTI");
        watcher.run("PING");
        let reply = watcher.run("EXEC");
        assert_eq!(reply.is_null(), disturbed, "{disturbance}: {reply:?}");
    }
}

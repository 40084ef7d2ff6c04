//! Commands over collections so large that they run aside, on values that are lent.

use blackbox::{Client, Server, Value, eventually, frame};
use std::io::ErrorKind;
use std::time::Duration;

/// More than a worker walks over itself.
const ELEMENTS: usize = 30_000;

fn servers() -> impl Iterator<Item = Server> {
    [(1, 1), (1, 64), (2, 64)].into_iter().map(|(workers, groups)| {
        let server = Server::subject().workers(workers).groups(groups);
        server.flag("enable-debug-command", "yes").start()
    })
}

/// Adds the members from `first` to `last` to a collection.
fn fill(client: &mut Client, command: &str, key: &str, first: usize, last: usize) {
    for start in (first..last).step_by(1_000) {
        let mut words = vec![command.to_owned(), key.to_owned()];
        for number in start..(start + 1_000).min(last) {
            match command {
                "HSET" => words.extend([format!("f{number}"), format!("v{number}")]),
                "ZADD" => words.extend([number.to_string(), format!("m{number}")]),
                _ => words.push(format!("m{number}")),
            }
        }
        let reply = client.command(&words);
        assert!(reply.integer().is_some(), "{reply:?}");
    }
}

fn len(reply: &Value) -> usize {
    reply.elements().map_or(0, <[Value]>::len)
}

#[test]
fn commands_over_large_collections_of_any_groups_answer_as_on_small_ones() {
    for server in servers() {
        let mut client = server.client();
        fill(&mut client, "SADD", "left", 0, ELEMENTS);
        fill(&mut client, "SADD", "right", ELEMENTS - 5, 2 * ELEMENTS);
        fill(&mut client, "SADD", "third", ELEMENTS - 3, ELEMENTS + 10_000);
        assert_eq!(len(&client.run("SMEMBERS left")), ELEMENTS);
        assert_eq!(len(&client.run("SINTER left right")), 5);
        assert_eq!(client.run("SINTERSTORE both left right third"), Value::Integer(3));
        assert_eq!(
            client.run("SUNIONSTORE all right left"),
            Value::Integer(2 * ELEMENTS as i64)
        );
        assert_eq!(client.run("SCARD all"), Value::Integer(2 * ELEMENTS as i64));
        assert_eq!(
            client.run("SDIFFSTORE left left right"),
            Value::Integer(ELEMENTS as i64 - 5)
        );
        assert_eq!(client.run("SCARD left"), Value::Integer(ELEMENTS as i64 - 5));
        assert_eq!(client.run("SCARD right"), Value::Integer(ELEMENTS as i64 + 5));
        fill(&mut client, "ZADD", "scores", 0, ELEMENTS);
        assert_eq!(
            client.run("ZUNIONSTORE sum 2 scores scores WEIGHTS 1 2"),
            Value::Integer(ELEMENTS as i64)
        );
        assert_eq!(client.run("ZSCORE sum m7"), Value::bulk("21"));
        fill(&mut client, "HSET", "hash", 0, ELEMENTS);
        assert_eq!(len(&client.run("HKEYS hash")), ELEMENTS);
        fill(&mut client, "RPUSH", "list", 0, ELEMENTS);
        let sorted = client.run("SORT list ALPHA LIMIT 0 2 DESC");
        assert_eq!(
            sorted,
            Value::Array(vec![Value::bulk("m9999"), Value::bulk("m9998")])
        );
        assert_eq!(
            client.run("SORT list ALPHA STORE list"),
            Value::Integer(ELEMENTS as i64)
        );
        assert_eq!(client.run("LINDEX list 1"), Value::bulk("m1"));
        assert_eq!(client.run("COPY list copied"), Value::Integer(1));
        assert_eq!(client.run("LLEN copied"), Value::Integer(ELEMENTS as i64));
        assert_eq!(
            client.run("DEL all left right list hash scores sum"),
            Value::Integer(7)
        );
        assert_eq!(client.run("DBSIZE"), Value::Integer(3));
    }
}

#[test]
fn what_a_connection_sends_behind_a_large_command_comes_behind_it() {
    for server in servers() {
        let mut client = server.client();
        for round in 0..3 {
            // Keys of several groups: some at the connection's own worker, some at the other.
            for key in ["a", "b", "c", "d"] {
                fill(&mut client, "SADD", key, 0, ELEMENTS);
                let replies = client.pipeline(&[
                    vec!["SMEMBERS", key],
                    vec!["SADD", key, "one more"],
                    vec!["SMEMBERS", key],
                    vec!["SINTERCARD", "2", key, key],
                    vec!["DEL", key],
                    vec!["SMEMBERS", key],
                    vec!["EXISTS", key],
                ]);
                let counts: Vec<usize> = [0, 2, 5].map(|at| len(&replies[at])).to_vec();
                assert_eq!(counts, [ELEMENTS, ELEMENTS + 1, 0], "{key} in round {round}");
                assert_eq!(replies[3], Value::Integer(ELEMENTS as i64 + 1));
                assert_eq!(replies[6], Value::Integer(0));
            }
        }
    }
}

#[test]
fn blocks_hold_large_commands() {
    for server in servers() {
        let mut client = server.client();
        let mut other = server.client();
        for key in ["a", "b", "c", "d"] {
            fill(&mut client, "RPUSH", key, 0, ELEMENTS);
        }
        for key in ["a", "b", "c", "d"] {
            client.run_ok("MULTI");
            for command in [
                "LRANGE %% 0 -1",
                "RPUSH %% x",
                "LLEN %%",
                "SET note:1 y",
                "PING",
                "LREM %% 0 x",
            ] {
                client.run(&command.replace("%%", key));
            }
            let reply = client.run("EXEC");
            let replies = reply.elements().expect("EXEC answers with an array");
            assert_eq!(len(&replies[0]), ELEMENTS);
            assert_eq!(replies[1], Value::Integer(ELEMENTS as i64 + 1));
            assert_eq!(replies[2], Value::Integer(ELEMENTS as i64 + 1));
            assert_eq!(replies[4], Value::Simple(b"PONG".to_vec()));
            assert_eq!(replies[5], Value::Integer(1));
        }
        // A push into large lists of several groups: nothing is walked over, and nothing copied.
        client.run_ok("MULTI");
        for key in ["a", "b", "c", "d"] {
            client.run(&format!("RPUSH {key} y"));
            client.run(&format!("LPOP {key}"));
        }
        let reply = client.run("EXEC");
        assert_eq!(reply.elements().expect("an array")[7], Value::bulk("m0"));
        // A key that is watched and lent.
        client.run_ok("WATCH a");
        assert_eq!(len(&other.run("LRANGE a 0 -1")), ELEMENTS);
        client.run_ok("MULTI");
        client.run("LRANGE a 0 -1");
        client.run("SET note:2 y");
        assert_eq!(len(&client.run("EXEC")), 2, "reading is no change");
        client.run_ok("WATCH a");
        other.run("LREM a 0 m5");
        client.run_ok("MULTI");
        client.run("LRANGE a 0 -1");
        client.run("LRANGE b 0 -1");
        assert!(client.run("EXEC").is_null(), "removing an element is one");
    }
}

#[test]
fn a_block_that_looks_at_the_whole_keyspace_beside_a_large_value_sees_all_of_it() {
    for server in servers() {
        let mut client = server.client();
        fill(&mut client, "SADD", "big", 0, ELEMENTS);
        for number in 0..50 {
            client.run_ok(&format!("SET key:{number} 1"));
        }
        for (command, expected) in [
            ("DBSIZE", None),
            ("KEYS key:*", Some(50)),
            ("SCAN 0 COUNT 1000", Some(2)),
        ] {
            client.run_ok("MULTI");
            for queued in [command, "SMEMBERS big", "GET key:1", "RANDOMKEY"] {
                assert_eq!(client.run(queued), Value::Simple(b"QUEUED".to_vec()));
            }
            let reply = client.run("EXEC");
            let [first, members, value, random] = reply.elements().expect("EXEC answers each command") else {
                panic!("{command}: {reply:?}")
            };
            match expected {
                None => assert_eq!(*first, Value::Integer(51)),
                Some(count) => assert_eq!(len(first), count, "{command}"),
            }
            assert_eq!(len(members), ELEMENTS);
            assert_eq!(value.text().as_deref(), Some("1"));
            assert!(random.text().is_some(), "{random:?}");
        }
    }
}

#[test]
fn sorting_a_large_list_by_keys_of_all_groups() {
    for server in servers() {
        let mut client = server.client();
        for start in (0..ELEMENTS).step_by(1_000) {
            let mut push = vec!["RPUSH".to_owned(), "ids".to_owned()];
            let mut set = vec!["MSET".to_owned()];
            for id in start..start + 1_000 {
                push.push(id.to_string());
                set.extend([format!("weight:{id}"), (ELEMENTS - id).to_string()]);
            }
            client.command(&push);
            assert_eq!(client.command(&set), Value::ok());
        }
        let sorted = client.run("SORT ids BY weight:* LIMIT 0 3 GET # GET weight:*");
        let expected = [ELEMENTS - 1, 1, ELEMENTS - 2, 2, ELEMENTS - 3, 3];
        let expected = expected.map(|number| Value::bulk(number.to_string())).to_vec();
        assert_eq!(sorted, Value::Array(expected));
    }
}

#[test]
fn many_clients_use_one_large_value() {
    let server = Server::subject().workers(2).groups(64).start();
    let mut client = server.client();
    fill(&mut client, "SADD", "left", 0, ELEMENTS);
    fill(&mut client, "SADD", "right", 0, ELEMENTS);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                for round in 0..10 {
                    let member = format!("{number}:{round}");
                    // The same member comes into both sets, and goes from both, in one step.
                    for command in ["SADD", "SREM"] {
                        client.run_ok("MULTI");
                        client.run(&format!("{command} left {member}"));
                        client.run(&format!("{command} right {member}"));
                        let expected = Value::Array(vec![Value::Integer(1); 2]);
                        assert_eq!(client.run("EXEC"), expected);
                        assert_eq!(len(&client.run("SDIFF left right")), 0);
                    }
                }
            });
        }
    });
    assert_eq!(client.run("SCARD left"), Value::Integer(ELEMENTS as i64));
}

#[test]
fn what_runs_aside_is_measured_once() {
    for server in servers() {
        let mut client = server.client();
        fill(&mut client, "SADD", "left", 0, ELEMENTS);
        fill(&mut client, "SADD", "right", 0, ELEMENTS);
        client.run_ok("CONFIG RESETSTAT");
        client.run_ok("CONFIG SET slowlog-log-slower-than 0");
        client.run_ok("SLOWLOG RESET");
        client.run("SMEMBERS left");
        client.run("SINTERCARD 2 left right");
        client.run_ok("CONFIG SET slowlog-log-slower-than -1");
        let reply = client.run("SLOWLOG GET -1");
        let entries = reply.elements().expect("an array").iter();
        let mut told: Vec<(String, i64)> = entries
            .map(|entry| {
                let fields = entry.elements().expect("an entry");
                let name = fields[3].elements().expect("words")[0].text().expect("a name");
                (name, fields[2].integer().expect("microseconds"))
            })
            .collect();
        // These two may take less than a microsecond.
        told.retain(|(name, _)| name != "CONFIG" && name != "SLOWLOG");
        assert!(told.iter().all(|(_, micros)| *micros > 0), "{told:?}");
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["SINTERCARD", "SMEMBERS"]);
        let stats = client.run("INFO commandstats").text().expect("text");
        assert!(stats.contains("cmdstat_smembers:calls=1,usec="), "{stats}");
    }
}

#[test]
fn others_are_served_while_a_large_command_is_carried_out() {
    let server = Server::subject().workers(1).groups(64).start();
    let mut client = server.client();
    let mut other = server.client();
    other.run_ok("SET note x");
    let mut elements = 4 * ELEMENTS;
    for attempt in 1.. {
        fill(&mut client, "RPUSH", "list", 0, elements);
        client
            .send(&["SORT", "list", "ALPHA", "LIMIT", "0", "1"])
            .expect("sent");
        client.set_patience(Duration::from_millis(1));
        let mut served = 0;
        let sorted = loop {
            assert_eq!(other.run("GET note"), Value::bulk("x"));
            match client.receive() {
                Ok(sorted) => break sorted,
                Err(error) => assert!(is_patience(&error), "{error}"),
            }
            served += 1;
        };
        client.set_patience(blackbox::PATIENCE);
        assert_eq!(sorted, Value::Array(vec![Value::bulk("m0")]));
        // Carried out on the worker, its answer would be sent with one to the other client, and be there before the next.
        if served > 2 {
            return;
        }
        assert!(attempt < 10, "nobody is served meanwhile");
        client.run("DEL list");
        elements += 4 * ELEMENTS;
    }
}

fn is_patience(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[test]
fn who_does_not_read_large_answers_is_dropped_at_the_output_limit() {
    let server = Server::subject().workers(2).groups(64).start();
    let mut client = server.client();
    fill(&mut client, "SADD", "set", 0, ELEMENTS);
    client.command(&["CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0"]);
    let connected = client.info_number("clients", "connected_clients");
    let mut reader = server.client();
    // Each answer is below the limit; those few that are asked for at a time are above it, and all of them together far above what
    // the system's buffers take.
    let asked = 200;
    let _ = reader.send_raw(&frame(&["SMEMBERS", "set"]).repeat(asked));
    eventually("the reader is dropped", || {
        client.info_number("clients", "connected_clients") == connected
    });
    let received = reader.drain().expect("the connection is closed");
    assert!(
        received < asked * ELEMENTS * 12 / 2,
        "{received} bytes were kept for it"
    );
    assert_eq!(client.run("SCARD set"), Value::Integer(ELEMENTS as i64));
}

#[test]
fn a_long_answer_is_whole_however_slowly_it_is_read() {
    for server in servers() {
        let mut client = server.client();
        fill(&mut client, "RPUSH", "list", 0, 4 * ELEMENTS);
        let mut reader = server.client();
        for _ in 0..20 {
            reader.send(&["LRANGE", "list", "0", "-1"]).expect("sent");
            reader.send(&["LINDEX", "list", "0"]).expect("sent");
        }
        // The worker has more to send than the socket takes, and goes on with others.
        assert_eq!(client.run("LLEN list"), Value::Integer(4 * ELEMENTS as i64));
        for _ in 0..20 {
            let answer = reader.receive().expect("whole");
            let elements = answer.elements().expect("an array");
            assert_eq!(elements.len(), 4 * ELEMENTS);
            assert!(
                (0..)
                    .zip(elements)
                    .all(|(at, element)| *element == Value::bulk(format!("m{at}")))
            );
            assert_eq!(reader.receive().expect("in order"), Value::bulk("m0"));
        }
    }
}

#[test]
fn what_waits_for_a_lent_key_keeps_its_order() {
    for server in servers() {
        let mut client = server.client();
        client.run_ok("DEBUG SET-STEPS-MAX 0");
        for round in 0..30 {
            client.run("DEL list other d");
            let replies = client.pipeline(&[
                vec!["RPUSH", "list", "a"],
                vec!["LRANGE", "list", "0", "-1"],
                vec!["RPUSH", "list", "b"],
                vec!["LRANGE", "list", "0", "-1"],
                vec!["RPUSH", "other", "x"],
                vec!["SORT", "list", "ALPHA", "DESC", "STORE", "d"],
                vec!["LRANGE", "d", "0", "-1"],
                vec!["RPUSH", "d", "c"],
                vec!["LMOVE", "d", "other", "LEFT", "RIGHT"],
                vec!["LRANGE", "other", "0", "-1"],
                vec!["LRANGE", "d", "0", "-1"],
            ]);
            let bulks = |texts: &[&str]| Value::Array(texts.iter().map(Value::bulk).collect());
            for (at, expected) in [
                (1, bulks(&["a"])),
                (3, bulks(&["a", "b"])),
                (6, bulks(&["b", "a"])),
                (9, bulks(&["x", "b"])),
                (10, bulks(&["a", "c"])),
            ] {
                assert_eq!(replies[at], expected, "reply {at} in round {round}");
            }
        }
    }
}

#[test]
fn clients_that_wait_and_listen_hear_of_what_was_carried_out_aside() {
    for server in servers() {
        let mut client = server.client();
        client.run_ok("DEBUG SET-STEPS-MAX 0");
        client.run_ok("CONFIG SET notify-keyspace-events KEA");
        let mut listener = server.client();
        listener.run("PSUBSCRIBE __keyevent@0__:*");
        let mut waiter = server.client();
        client.run("RPUSH list b a");
        waiter.send(&["BLPOP", "sorted", "0"]).expect("sent");
        eventually("it waits", || {
            client.info_number("clients", "blocked_clients") == 1
        });
        assert_eq!(client.run("SORT list ALPHA STORE sorted"), Value::Integer(2));
        let popped = Value::Array(vec![Value::bulk("sorted"), Value::bulk("a")]);
        assert_eq!(waiter.receive().expect("served"), popped);
        let mut heard = Vec::new();
        while heard.len() < 3 {
            let message = listener.receive().expect("a message");
            let parts = message.elements().expect("an array");
            let channel = parts[2].text().expect("a channel");
            heard.push(channel.trim_start_matches("__keyevent@0__:").to_owned());
        }
        assert_eq!(heard, ["rpush", "sortstore", "lpop"]);
        client.run("LREM list 0 none");
        client.run("LREM list 0 a");
        let message = listener.receive().expect("a message");
        assert_eq!(
            message.elements().expect("an array")[2],
            Value::bulk("__keyevent@0__:lrem")
        );
    }
}

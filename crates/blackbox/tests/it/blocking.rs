//! Clients that wait for a list or sorted set to be filled.

use blackbox::{Client, Cluster, Server, Value, eventually};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Keys of different groups, on both workers.
const KEYS: [&str; 6] = ["queue:1", "queue:2", "queue:3", "queue:4", "queue:5", "queue:6"];

fn words(words: &str) -> Vec<&str> {
    words.split(' ').collect()
}

/// A client that has sent a command, and waits for its answer.
fn waiting(server: &Server, observer: &mut Client, command: &str) -> Client {
    let before = observer.info_number("clients", "blocked_clients");
    let mut client = server.client();
    client.send(&words(command)).expect("the server reads");
    eventually("the client is blocked", || {
        observer.info_number("clients", "blocked_clients") == before + 1
    });
    client
}

fn bulks(texts: &[&str]) -> Value {
    Value::Array(texts.iter().map(Value::bulk).collect())
}

#[test]
fn whoever_came_first_is_served_first_on_every_worker() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for key in KEYS {
        let mut waiters: Vec<Client> = (0..4)
            .map(|_| waiting(&server, &mut client, &format!("BLPOP {key} 0")))
            .collect();
        assert_eq!(client.run(&format!("RPUSH {key} a b c")), Value::Integer(3));
        for (waiter, element) in waiters.iter_mut().zip(["a", "b", "c"]) {
            assert_eq!(waiter.receive().expect("it is served"), bulks(&[key, element]));
        }
        assert_eq!(client.run(&format!("EXISTS {key}")), Value::Integer(0));
        assert_eq!(client.run(&format!("RPUSH {key} d e")), Value::Integer(2));
        assert_eq!(waiters[3].receive().expect("it is served"), bulks(&[key, "d"]));
        assert_eq!(client.run(&format!("LPOP {key}")), Value::bulk("e"));
    }
}

#[test]
fn a_wait_over_keys_of_several_workers_takes_exactly_one_element() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for round in 0..60 {
        let key = KEYS[round % KEYS.len()];
        let mut waiter = waiting(&server, &mut client, &format!("BLPOP {} 0", KEYS.join(" ")));
        client.run(&format!("RPUSH {key} x{round} y{round}"));
        let element = format!("x{round}");
        assert_eq!(waiter.receive().expect("it is served"), bulks(&[key, &element]));
        assert_eq!(
            client.run(&format!("LPOP {key}")),
            Value::bulk(format!("y{round}"))
        );
        for key in KEYS {
            assert_eq!(client.run(&format!("LLEN {key}")), Value::Integer(0));
        }
    }
}

#[test]
fn elements_move_between_groups_when_they_come() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for from in KEYS {
        for to in KEYS {
            if from == to {
                continue;
            }
            let mut waiter = waiting(&server, &mut client, &format!("BLMOVE {from} {to} LEFT RIGHT 0"));
            client.run(&format!("RPUSH {from} element"));
            assert_eq!(waiter.receive().expect("it is served"), Value::bulk("element"));
            assert_eq!(client.run(&format!("LPOP {to}")), Value::bulk("element"));
            assert_eq!(client.run(&format!("LLEN {from}")), Value::Integer(0));
        }
    }
}

#[test]
fn one_wait_feeds_the_next() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    let mut second = waiting(&server, &mut client, "BLPOP queue:2 0");
    let mut first = waiting(&server, &mut client, "BLMOVE queue:1 queue:2 LEFT LEFT 0");
    client.run("LPUSH queue:1 x");
    assert_eq!(first.receive().expect("it is served"), Value::bulk("x"));
    assert_eq!(second.receive().expect("it is served"), bulks(&["queue:2", "x"]));
}

#[test]
fn sorted_sets_are_waited_for_too_and_other_types_are_not_taken() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for key in KEYS {
        let mut lists = waiting(&server, &mut client, &format!("BLPOP {key} 0"));
        let mut waiter = waiting(&server, &mut client, &format!("BZPOPMIN {key} 0"));
        client.run(&format!("ZADD {key} 2 b 1 a"));
        assert_eq!(waiter.receive().expect("it is served"), bulks(&[key, "a", "1"]));
        client.run(&format!("DEL {key}"));
        client.run(&format!("RPUSH {key} element"));
        assert_eq!(lists.receive().expect("it is served"), bulks(&[key, "element"]));
    }
}

#[test]
fn what_a_transaction_leaves_behind_is_what_is_served() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for key in KEYS {
        let mut waiter = waiting(&server, &mut client, &format!("BLPOP {key} 0"));
        for command in [
            "MULTI".to_owned(),
            format!("RPUSH {key} gone"),
            format!("DEL {key}"),
            "EXEC".to_owned(),
        ] {
            client.run(&command);
        }
        assert_eq!(client.info_number("clients", "blocked_clients"), 1);
        for command in [
            "MULTI".to_owned(),
            format!("RPUSH {key} b"),
            format!("LPUSH {key} a"),
            "EXEC".to_owned(),
        ] {
            client.run(&command);
        }
        assert_eq!(waiter.receive().expect("it is served"), bulks(&[key, "a"]));
        client.run(&format!("DEL {key}"));
    }
}

#[test]
fn renamed_copied_moved_and_exchanged_lists_are_noticed() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for (setup, command) in [
        ("RPUSH other x", "RENAME other queue:1"),
        ("RPUSH other x", "COPY other queue:1"),
        ("RPUSH other b a x c", "SORT other LIMIT 3 1 ALPHA STORE queue:1"),
    ] {
        client.run("FLUSHALL");
        client.run(setup);
        let mut waiter = waiting(&server, &mut client, "BLPOP queue:1 0");
        client.run(command);
        assert_eq!(
            waiter.receive().expect("it is served"),
            bulks(&["queue:1", "x"]),
            "{command}"
        );
    }
    client.run("FLUSHALL");
    let mut other = server.client();
    other.run_ok("SELECT 5");
    other.run("RPUSH queue:1 x");
    let mut waiter = waiting(&server, &mut client, "BLPOP queue:1 0");
    client.run_ok("SWAPDB 0 5");
    assert_eq!(waiter.receive().expect("it is served"), bulks(&["queue:1", "x"]));
    client.run("RPUSH queue:1 y");
    client.run_ok("SWAPDB 0 5");
    let mut waiter = waiting(&server, &mut client, "BLPOP queue:1 0");
    assert_eq!(other.run("MOVE queue:1 0"), Value::Integer(1));
    assert_eq!(waiter.receive().expect("it is served"), bulks(&["queue:1", "y"]));
}

#[test]
fn a_wait_ends_by_time_by_unblock_and_with_the_connection() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for key in KEYS {
        let mut timed = server.client();
        assert_eq!(timed.run(&format!("BLPOP {key} 0.02")), Value::NullArray);
        assert_eq!(
            timed.run(&format!("BLMOVE {key} other LEFT LEFT 0.02")),
            Value::NullArray
        );
        assert_eq!(
            timed.run(&format!("BLPOP {} 0.02", KEYS.join(" "))),
            Value::NullArray
        );

        let mut waiter = server.client();
        let id = waiter.run("CLIENT ID").integer().expect("a number");
        waiter
            .send(&words(&format!("BLPOP {key} 0")))
            .expect("the server reads");
        eventually("it can be unblocked", || {
            client.run(&format!("CLIENT UNBLOCK {id}")) == Value::Integer(1)
        });
        assert_eq!(waiter.receive().expect("it is answered"), Value::NullArray);
        waiter
            .send(&words(&format!("BLPOP {key} 0")))
            .expect("the server reads");
        eventually("it can be unblocked", || {
            client.run(&format!("CLIENT UNBLOCK {id} ERROR")) == Value::Integer(1)
        });
        let answer = waiter.receive().expect("it is answered");
        assert_eq!(
            answer.error().as_deref(),
            Some("UNBLOCKED client unblocked via CLIENT UNBLOCK")
        );
        assert_eq!(client.run(&format!("CLIENT UNBLOCK {id}")), Value::Integer(0));

        let gone = waiting(&server, &mut client, &format!("BLPOP {key} 0"));
        drop(gone);
        eventually("nobody is blocked any more", || {
            client.info_number("clients", "blocked_clients") == 0
        });
        assert_eq!(client.run(&format!("RPUSH {key} kept")), Value::Integer(1));
        assert_eq!(
            client.run(&format!("LPOP {key}")),
            Value::bulk("kept"),
            "it is still there"
        );
    }
}

#[test]
fn who_hung_up_during_a_pause_waits_for_nothing_afterwards() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    client.run_ok("CLIENT PAUSE 100000 WRITE");
    let met = client.info_number("stats", "total_connections_received");
    for key in KEYS {
        let mut gone = server.client();
        gone.send_raw(&blackbox::frame(&["BLPOP", key, "0"]))
            .expect("the server reads");
        gone.half_close().expect("it is open");
    }
    eventually("the server has met them all", || {
        client.info_number("stats", "total_connections_received") == met + KEYS.len() as i64
    });
    client.run_ok("CLIENT UNPAUSE");
    eventually("nobody is left", || {
        client
            .run("CLIENT LIST")
            .text()
            .is_some_and(|list| list.lines().count() == 1)
    });
    for key in KEYS {
        assert_eq!(client.run(&format!("RPUSH {key} element")), Value::Integer(1));
        assert_eq!(client.run(&format!("LLEN {key}")), Value::Integer(1));
    }
}

#[test]
fn waits_that_end_just_when_their_key_is_filled_and_lent_are_answered_once() {
    const WAITERS: usize = 6;
    const ROUNDS: usize = 150;
    let server = Server::subject()
        .workers(2)
        .flag("enable-debug-command", "yes")
        .start();
    if server.is_redis() {
        return;
    }
    server.client().run_ok("DEBUG SET-STEPS-MAX 0");
    let keys = ["a", "b", "c", "d"];
    let is_over = AtomicBool::new(false);
    let popped = AtomicUsize::new(0);
    let mut pushed = 0;
    std::thread::scope(|scope| {
        for number in 0..WAITERS {
            let (server, is_over, popped) = (&server, &is_over, &popped);
            scope.spawn(move || {
                let mut client = server.client();
                for round in 0.. {
                    let key = keys[(number + round) % keys.len()];
                    let reply = client.run(&format!("BLPOP {key} 0.00{}", 1 + (number + round) % 3));
                    match reply.elements() {
                        Some(_) => popped.fetch_add(1, Ordering::Relaxed),
                        None if is_over.load(Ordering::Relaxed) => return,
                        None => continue,
                    };
                }
            });
        }
        // Whoever looks at a whole list has it lent: the waiters of its key cannot be served where it lies.
        for number in 0..2 {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut client = server.client();
                while !is_over.load(Ordering::Relaxed) {
                    for key in keys {
                        client.run(&format!("SORT {key} ALPHA STORE sorted:{number}"));
                        client.run(&format!("LRANGE {key} 0 -1"));
                    }
                }
            });
        }
        let mut client = server.client();
        for _ in 0..ROUNDS {
            for key in keys {
                pushed += 2;
                client.command(&["RPUSH", key, "x", "y"]);
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let mut client = server.client();
    let left: i64 = keys
        .iter()
        .map(|key| {
            client
                .run(&format!("LLEN {key}"))
                .integer()
                .expect("a list, or nothing")
        })
        .sum();
    assert_eq!(popped.into_inner() as i64 + left, pushed);
}

#[test]
fn what_a_client_sends_behind_its_wait_is_carried_out_after_it() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    let mut waiter = waiting(&server, &mut client, "BLPOP queue:1 0");
    waiter
        .send(&["RPUSH", "queue:2", "later"])
        .expect("the server reads");
    waiter.send(&["PING"]).expect("the server reads");
    assert_eq!(client.run("EXISTS queue:2"), Value::Integer(0));
    client.run("RPUSH queue:1 x");
    assert_eq!(waiter.receive().expect("it is served"), bulks(&["queue:1", "x"]));
    assert_eq!(waiter.receive().expect("it is answered"), Value::Integer(1));
    assert_eq!(
        waiter.receive().expect("it is answered"),
        Value::Simple("PONG".into())
    );
}

#[test]
fn nothing_is_lost_or_given_twice_when_many_wait_and_many_push() {
    const ELEMENTS: usize = 2_000;
    let server = Server::subject().workers(2).start();
    let address = server.address();
    let take = |name: usize| {
        let mut client = Client::connect(address).expect("the server listens");
        let mut keys: Vec<&str> = KEYS.to_vec();
        keys.rotate_left(name % KEYS.len());
        let mut taken = Vec::new();
        loop {
            // Half of them wait for one key, half for all, and some give up now and then.
            let keys = if name.is_multiple_of(2) {
                &keys[..]
            } else {
                &keys[..1]
            };
            let seconds = if name.is_multiple_of(3) { "0.002" } else { "0.5" };
            let reply = client.run(&format!("BLPOP {} {seconds}", keys.join(" ")));
            match reply.elements() {
                Some([_, element]) => taken.push(element.text().expect("a string")),
                _ if seconds == "0.5" => return taken,
                _ if client.run("EXISTS done") == Value::Integer(1) => return taken,
                _ => {}
            }
        }
    };
    let mut taken: Vec<String> = std::thread::scope(|scope| {
        let takers: Vec<_> = (0..12).map(|name| scope.spawn(move || take(name))).collect();
        let pushers: Vec<_> = (0..4)
            .map(|pusher| {
                scope.spawn(move || {
                    let mut client = Client::connect(address).expect("the server listens");
                    for element in (pusher..ELEMENTS).step_by(4) {
                        let key = KEYS[element % KEYS.len()];
                        client.run(&format!("RPUSH {key} {element}"));
                    }
                })
            })
            .collect();
        pushers
            .into_iter()
            .for_each(|pusher| pusher.join().expect("it pushes"));
        let mut client = Client::connect(address).expect("the server listens");
        client.set_patience(Duration::from_secs(30));
        eventually("everything is taken", || {
            client.run(&format!("EXISTS {}", KEYS.join(" "))) == Value::Integer(0)
        });
        client.run_ok("SET done 1");
        takers
            .into_iter()
            .flat_map(|taker| taker.join().expect("it takes"))
            .collect()
    });
    taken.sort_by_key(|element| element.parse::<usize>().expect("a number"));
    let all: Vec<String> = (0..ELEMENTS).map(|element| element.to_string()).collect();
    assert_eq!(taken, all);
}

#[test]
fn no_wait_ends_before_its_time() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    // Waits begin at any part of a millisecond: one that was counted in whole ones ended up to one early.
    for _ in 0..100 {
        let began = Instant::now();
        assert_eq!(client.run("BLPOP nothing 0.01"), Value::NullArray);
        let waited = began.elapsed();
        assert!(waited >= Duration::from_millis(10), "{waited:?}");
    }
}

/// One client waits; another one fills the key and looks for what it put there, all at once.
fn never_overtaken(waiter: &mut Client, other: &mut Client, observer: &mut Client) {
    let looks: [(&[&str], Value); 4] = [
        (&["LPOP", "k"], Value::NullBulk),
        (&["LLEN", "k"], Value::Integer(0)),
        (&["EXISTS", "k"], Value::Integer(0)),
        (&["BLPOP", "k", "0.01"], Value::NullArray),
    ];
    for round in 0..40 {
        let (look, nothing) = &looks[round % looks.len()];
        waiter.send(&["BLPOP", "k", "0"]).expect("the server reads");
        eventually("the client is blocked", || {
            observer.info_number("clients", "blocked_clients") == 1
        });
        let push: Vec<&str> = vec!["LPUSH", "k", "element"];
        let replies = other.pipeline(&[push, look.to_vec()]);
        assert_eq!(
            replies,
            [Value::Integer(1), nothing.clone()],
            "round {round}, {look:?}"
        );
        assert_eq!(
            waiter.receive().expect("it is served"),
            bulks(&["k", "element"]),
            "round {round}"
        );
    }
}

#[test]
fn whoever_waits_goes_before_what_follows_the_push_on_another_worker() {
    let server = Server::subject().workers(2).start();
    // Connections are dealt out among the workers.
    for _ in 0..4 {
        let (mut waiter, mut other) = (server.client(), server.client());
        never_overtaken(&mut waiter, &mut other, &mut server.client());
    }
}

#[test]
fn whoever_waits_goes_before_what_follows_the_push_on_every_node() {
    let mut cluster = Cluster::new(4);
    cluster.workers(2);
    cluster.grow(3);
    cluster.wait_until_replicated();
    for (waiting, pushing) in [(0, 0), (0, 1), (1, 2), (2, 2)] {
        let (mut waiter, mut other) = (cluster.client(waiting), cluster.client(pushing));
        never_overtaken(&mut waiter, &mut other, &mut cluster.client(waiting));
    }
}

#[test]
fn clients_of_several_nodes_are_served_in_the_order_in_which_they_came() {
    let cluster = Cluster::start(3, 4);
    let blocked = |cluster: &Cluster| {
        let of = |node| cluster.client(node).info_number("clients", "blocked_clients");
        (0..3).map(of).sum::<i64>()
    };
    for round in 0..5 {
        let mut waiters: Vec<Client> = Vec::new();
        for at in 0..6 {
            let mut waiter = cluster.client((at + round) % 3);
            waiter
                .send(&["BLMOVE", "{k}from", "{k}to", "LEFT", "RIGHT", "0"])
                .expect("the server reads");
            eventually("the client is blocked", || blocked(&cluster) == at as i64 + 1);
            waiters.push(waiter);
        }
        let mut client = cluster.client(round % 3);
        let mut last = cluster.client((round + 1) % 3);
        last.send(&["BLPOP", "{k}to", "0"]).expect("the server reads");
        eventually("the client is blocked", || blocked(&cluster) == 7);
        client.run("RPUSH {k}from 0 1 2 3 4 5");
        for (at, waiter) in waiters.iter_mut().enumerate() {
            assert_eq!(
                waiter.receive().expect("it is served"),
                Value::bulk(at.to_string())
            );
        }
        assert_eq!(last.receive().expect("it is served"), bulks(&["{k}to", "0"]));
        assert_eq!(client.run("LLEN {k}to"), Value::Integer(5));
        client.run("DEL {k}to");
    }
}

#[test]
fn a_wait_that_is_over_is_told_so_on_every_node_and_takes_nothing() {
    let cluster = Cluster::start(3, 4);
    let mut observer = cluster.client(0);
    for node in 0..3 {
        let mut client = cluster.client(node);
        for key in KEYS {
            assert_eq!(client.run(&format!("BLPOP {key} 0.02")), Value::NullArray);
            assert_eq!(
                client.run(&format!("BLMOVE {key} {key} LEFT LEFT 0.02")),
                Value::NullArray
            );
        }
        let id = client.run("CLIENT ID").integer().expect("a number");
        client.send(&["BZPOPMIN", "z", "0"]).expect("the server reads");
        eventually("it can be unblocked", || {
            cluster.client(node).run(&format!("CLIENT UNBLOCK {id} ERROR")) == Value::Integer(1)
        });
        let told = client.receive().expect("it is answered").error();
        assert!(told.is_some_and(|error| error.starts_with("UNBLOCKED")));
        // Who has hung up takes nothing either.
        let mut gone = cluster.client(node);
        gone.send(&["BLPOP", "queue:1", "0"]).expect("the server reads");
        let blocked = |client: &mut Client| client.info_number("clients", "blocked_clients");
        let mut there = cluster.client(node);
        eventually("the client is blocked", || blocked(&mut there) == 1);
        drop(gone);
        eventually("the client is gone", || blocked(&mut there) == 0);
        for key in KEYS {
            observer.run(&format!("RPUSH {key} element"));
            assert_eq!(observer.run(&format!("LPOP {key}")), Value::bulk("element"));
        }
    }
}

#[test]
fn clients_that_wait_while_a_leader_is_killed_are_served_in_their_order() {
    let mut cluster = Cluster::start(3, 4);
    let blocked = |cluster: &Cluster, nodes: &[usize]| {
        let of = |node: &usize| cluster.client(*node).info_number("clients", "blocked_clients");
        nodes.iter().map(of).sum::<i64>()
    };
    let mut waiters: Vec<(&str, Vec<Client>)> = Vec::new();
    let mut count = 0;
    for key in KEYS {
        let mut of_key = Vec::new();
        for node in [1, 2, 1] {
            let mut waiter = cluster.client(node);
            waiter.set_patience(Duration::from_secs(30));
            waiter.send(&["BLPOP", key, "0"]).expect("the server reads");
            count += 1;
            eventually("the client is blocked", || blocked(&cluster, &[1, 2]) == count);
            of_key.push(waiter);
        }
        waiters.push((key, of_key));
    }
    // It leads some of the groups, or all.
    cluster.kill(0);
    let mut client = cluster.client(2);
    client.set_patience(Duration::from_secs(30));
    for (key, of_key) in waiters {
        eventually("somebody leads", || {
            client.run(&format!("TYPE {key}")) == Value::Simple("none".into())
        });
        assert_eq!(client.run(&format!("RPUSH {key} 0 1 2")), Value::Integer(3));
        for (at, mut waiter) in of_key.into_iter().enumerate() {
            let reply = waiter.receive().expect("it is served");
            assert_eq!(reply, bulks(&[key, &at.to_string()]));
        }
        assert_eq!(client.run(&format!("EXISTS {key}")), Value::Integer(0));
    }
}

#[test]
fn a_wait_for_replicas_that_do_not_come_ends_with_its_time() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    let began = Instant::now();
    assert_eq!(client.run("WAIT 1 30"), Value::Integer(0));
    assert!(began.elapsed() >= Duration::from_millis(30));
    assert_eq!(client.run("WAIT 0 0"), Value::Integer(0));
    client.run_ok("MULTI");
    client.run("WAIT 1 0");
    assert_eq!(client.run("EXEC"), Value::Array(vec![Value::Integer(0)]));
    for (how, answer) in [
        ("TIMEOUT", Value::Integer(0)),
        (
            "ERROR",
            Value::Error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK".to_vec()),
        ),
    ] {
        let mut waiter = server.client();
        let id = waiter.run("CLIENT ID").integer().expect("a number");
        waiter.send(&words("WAIT 1 0")).expect("the server reads");
        eventually("the client is blocked", || {
            client.run(&format!("CLIENT UNBLOCK {id} {how}")) == Value::Integer(1)
        });
        assert_eq!(waiter.receive().expect("it is let go"), answer);
    }
    // A client that is gone waits no more.
    drop(waiting(&server, &mut client, "WAIT 1 0"));
    eventually("nobody is blocked", || {
        client.info_number("clients", "blocked_clients") == 0
    });
}

//! What operators ask a running server: slow commands, latencies, pauses, its configuration file.

use std::time::{Duration, Instant};

use blackbox::{Client, Server, Value, eventually};

/// Clients enough that each of two workers has some, and keys of all groups.
fn clients(server: &Server) -> Vec<Client> {
    (0..4).map(|_| server.client()).collect()
}

fn len(client: &mut Client) -> i64 {
    client
        .run("SLOWLOG LEN")
        .integer()
        .expect("SLOWLOG LEN answers a number")
}

#[test]
fn a_new_cluster_has_six_groups_for_each_worker_of_its_first_node_or_as_many_as_it_is_told() {
    for workers in [1, 2] {
        let server = Server::subject().workers(workers).start();
        assert_eq!(
            server.client().info_number("chorale", "groups"),
            6 * workers as i64
        );
    }
    let server = Server::subject().workers(2).groups(64).start();
    assert_eq!(server.client().info_number("chorale", "groups"), 64);
}

#[test]
fn the_slow_log_holds_the_commands_of_all_workers_newest_first() {
    let server = Server::subject().workers(2).start();
    let mut clients = clients(&server);
    clients[0].run_ok("CONFIG SET slowlog-max-len 20 slowlog-log-slower-than 0");
    clients[0].run_ok("SLOWLOG RESET");
    for (index, client) in clients.iter_mut().enumerate() {
        client.run_ok(&format!("CLIENT SETNAME c{index}"));
        for key in 0..4 {
            client.run_ok(&format!("SET key:{key} {index}"));
        }
    }
    clients[0].run_ok("CONFIG SET slowlog-log-slower-than -1");
    let reply = clients[1].run("SLOWLOG GET -1");
    let entries = reply.elements().expect("an array");
    assert_eq!(entries.len(), 20);
    let field = |entry: &Value, at: usize| entry.elements().expect("an entry")[at].clone();
    let ids: Vec<i64> = entries
        .iter()
        .map(|entry| field(entry, 0).integer().expect("an id"))
        .collect();
    assert!(ids.is_sorted_by(|a, b| a > b), "{ids:?}");
    // Also a command that was carried out by another worker knows whose it was.
    let last_sets = entries.iter().take(4);
    for entry in last_sets {
        let words = field(entry, 3);
        assert_eq!(words.elements().expect("words")[2], Value::bulk("3"), "{entry:?}");
        assert_eq!(field(entry, 5), Value::bulk("c3"), "{entry:?}");
    }
    assert_eq!(len(&mut clients[2]), 20);
    clients[3].run_ok("SLOWLOG RESET");
    assert_eq!(len(&mut clients[2]), 0);
}

#[test]
fn a_command_that_waited_is_in_the_slow_log_once_when_it_has_its_answer() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    client.run_ok("CONFIG SET slowlog-log-slower-than 0");
    for key in ["queue:1", "queue:2", "queue:3", "queue:4"] {
        let mut waiter = server.client();
        waiter.run_ok("CLIENT SETNAME waiter");
        let sent = Instant::now();
        waiter.send(&["BLPOP", key, "0"]).expect("the server reads");
        eventually("the client is blocked", || {
            client.info_number("clients", "blocked_clients") == 1
        });
        let blocking = sent.elapsed();
        let blocked = Instant::now();
        let mut waits = || {
            let reply = client.run("SLOWLOG GET -1");
            let entries = reply.elements().expect("an array").to_vec();
            entries
                .into_iter()
                .filter_map(|entry| {
                    let fields = entry.elements().expect("an entry").to_vec();
                    let words = fields[3].elements().expect("words").to_vec();
                    (words == ["BLPOP", key, "0"].map(Value::bulk)).then_some(fields)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(waits(), Vec::<Vec<Value>>::new(), "it has no answer yet");
        let mut pusher = server.client();
        // A wait that is longer than all that can be work.
        while blocked.elapsed() < 8 * blocking {
            pusher.run_ok("SET other x");
        }
        let pushed = Instant::now();
        assert_eq!(pusher.run(&format!("LPUSH {key} x")), Value::Integer(1));
        waiter.receive().expect("it is served");
        let serving = pushed.elapsed();
        let found = waits();
        assert_eq!(found.len(), 1, "{found:?}");
        // However slow the machine is: the work was done while it blocked, and while it was served.
        let work = found[0][2].integer().expect("microseconds");
        assert!(
            u128::try_from(work).is_ok_and(|work| work <= (blocking + serving).as_micros()),
            "the wait is no work: {found:?}"
        );
        assert_eq!(found[0][5], Value::bulk("waiter"));
    }
}

#[test]
fn every_call_has_a_time_whichever_worker_it_was_carried_out_by() {
    let server = Server::subject().workers(2).start();
    let mut clients = clients(&server);
    clients[0].run_ok("CONFIG RESETSTAT");
    for client in &mut clients {
        let gets: Vec<Vec<String>> = (0..50)
            .map(|key| vec!["GET".into(), format!("key:{key}")])
            .collect();
        client.pipeline(&gets);
    }
    let reply = clients[0].run("LATENCY HISTOGRAM get nonesuch");
    let pairs = reply.elements().expect("a flat map");
    assert_eq!(pairs.len(), 2, "{reply:?}");
    let get = pairs[1].elements().expect("a flat map");
    assert_eq!(get[1], Value::Integer(200), "{reply:?}");
    clients[2].run("INCR key:1 x");
    clients[2].run_ok("SET key:1 x");
    assert!(clients[2].run("INCR key:1").error().is_some());
    assert!(clients[2].run("NONESUCH").error().is_some());
    assert_eq!(
        clients[1].info("errorstats", "errorstat_ERR").as_deref(),
        Some("count=3")
    );
    clients[3].run_ok("CONFIG RESETSTAT");
    assert_eq!(clients[1].info("errorstats", "errorstat_ERR"), None);
    assert_eq!(clients[0].run("LATENCY HISTOGRAM get"), Value::Array(Vec::new()));
}

#[test]
fn a_pause_holds_back_what_may_write_and_nothing_else() {
    let server = Server::subject().workers(2).start();
    let mut clients = clients(&server);
    clients[0].run_ok("SET k v");
    clients[0].run_ok("CLIENT PAUSE 60000 WRITE");
    for client in &mut clients[1..] {
        client.send_raw(b"GET k\r\nINCR n\r\nGET k\r\n").expect("sent");
        assert_eq!(client.receive().expect("read at once"), Value::bulk("v"));
    }
    eventually("all of them wait", || {
        clients[0].info_number("clients", "blocked_clients") == 3
    });
    // What would be refused is refused at once.
    assert!(clients[0].run("SET k").error().is_some());
    assert_eq!(clients[0].run("GET n"), Value::NullBulk);
    clients[0].run_ok("CLIENT UNPAUSE");
    let mut counts = Vec::new();
    for client in &mut clients[1..] {
        counts.push(client.receive().expect("carried out").integer().expect("a count"));
        assert_eq!(client.receive().expect("carried out"), Value::bulk("v"));
    }
    counts.sort_unstable();
    assert_eq!(counts, [1, 2, 3]);
    assert_eq!(clients[0].info_number("clients", "blocked_clients"), 0);
}

#[test]
fn a_pause_ends_by_itself() {
    let server = Server::subject().workers(2).start();
    let mut clients = clients(&server);
    let start = Instant::now();
    clients[0].run_ok("CLIENT PAUSE 300 ALL");
    for client in &mut clients {
        client.run("PING");
    }
    assert!(start.elapsed() >= Duration::from_millis(250));
}

#[test]
fn a_server_without_a_file_cannot_rewrite_it() {
    let server = Server::subject().start();
    assert_eq!(
        server.client().run("CONFIG REWRITE").error().as_deref(),
        Some("ERR The server is running without a config file")
    );
}

#[test]
fn the_configuration_file_is_rewritten_where_it_stands() {
    // Redis has another kind of file.
    if Server::subject().start().is_redis() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("chorale-rewrite-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the file");
    let path = folder.join("chorale.toml");
    std::fs::write(&path, "# ours\ntimeout = 5 # seconds\n").expect("a file");
    let path_text = path.to_str().expect("a path of text");
    let server = Server::subject().flag("config", path_text).start();
    let mut client = server.client();
    client.run_ok("CONFIG SET timeout 60 slowlog-max-len 7");
    client.run_ok("CONFIG REWRITE");
    let text = std::fs::read_to_string(&path).expect("the file");
    assert!(text.starts_with("# ours\ntimeout = 60 # seconds\n"), "{text}");
    assert!(text.contains("\nslowlog-max-len = 7\n"), "{text}");
    let files = std::fs::read_dir(&folder).expect("the folder").count();
    assert_eq!(files, 1, "the temporary file is gone");
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn info_answers_what_exporters_read_with_figures_that_move() {
    let server = Server::subject().start();
    let mut client = server.client();
    client.run_ok("SET k v");
    let before =
        ["total_reads_processed", "total_writes_processed"].map(|field| client.info_number("stats", field));
    for _ in 0..20 {
        client.run("GET k");
    }
    let after =
        ["total_reads_processed", "total_writes_processed"].map(|field| client.info_number("stats", field));
    for (before, after) in before.into_iter().zip(after) {
        assert!((before + 20..before + 60).contains(&after), "{before} {after}");
    }
    let [allocated, active, resident] = ["allocated", "active", "resident"]
        .map(|what| client.info_number("memory", &format!("allocator_{what}")));
    assert!(0 < allocated && allocated <= active && active <= resident);
    let startup = client.info_number("memory", "used_memory_startup");
    assert!(0 < startup && startup <= allocated * 2, "{startup} {allocated}");
    for field in ["allocator_frag_ratio", "allocator_rss_ratio"] {
        let ratio: f64 = client
            .info("memory", field)
            .expect(field)
            .parse()
            .expect("a number");
        assert!(ratio >= 1.0, "{field} {ratio}");
    }
    let mut slow = server.client();
    slow.send_raw(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$200000\r\n")
        .expect("the server reads");
    slow.send_raw(&[b'x'; 100_000]).expect("the server reads");
    eventually("what a client has sent ahead is shown", || {
        client.info_number("memory", "mem_clients_normal") >= 100_000
            && client.info_number("clients", "client_recent_max_input_buffer") >= 100_000
    });
}

#[test]
fn what_clients_and_exporters_ask_first_is_answered_truly() {
    let server = Server::subject().start();
    let mut client = server.client();
    let role = client.run("ROLE");
    assert_eq!(
        role,
        Value::Array(vec![
            Value::bulk("master"),
            Value::Integer(0),
            Value::Array(Vec::new())
        ])
    );
    assert_eq!(client.run("MODULE LIST"), Value::Array(Vec::new()));
    let saved = client.info_number("persistence", "rdb_last_save_time");
    assert_eq!(client.run("LASTSAVE"), Value::Integer(saved));
    for container in ["FUNCTION", "MODULE"] {
        let help = client.run(&format!("{container} HELP"));
        let lines = help.elements().expect("lines of help");
        assert!(
            lines[0].text().is_some_and(|line| line.starts_with(container)),
            "{help:?}"
        );
    }
}

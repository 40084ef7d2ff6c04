//! Streams: clients that wait for them, over keys of any groups and through any node, and what tells times.

use blackbox::{Client, Cluster, Server, Value, eventually};

/// Keys of different groups, on both workers.
const KEYS: [&str; 6] = ["log:1", "log:2", "log:3", "log:4", "log:5", "log:6"];

fn send(client: &mut Client, command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    client.send(&words).expect("the server reads");
}

/// A client that has sent a command, and waits for its answer.
fn waiting(observer: &mut Client, mut client: Client, command: &str) -> Client {
    let before = observer.info_number("clients", "blocked_clients");
    send(&mut client, command);
    eventually("the client is blocked", || {
        observer.info_number("clients", "blocked_clients") == before + 1
    });
    client
}

fn bulks(texts: &[&str]) -> Value {
    Value::Array(texts.iter().map(Value::bulk).collect())
}

/// What a read answers of one stream that has these entries, each with the field `f` and the value `v`.
fn told(key: &str, ids: &[&str]) -> Value {
    let entries = ids
        .iter()
        .map(|id| Value::Array(vec![Value::bulk(id), bulks(&["f", "v"])]))
        .collect();
    Value::Array(vec![Value::Array(vec![Value::bulk(key), Value::Array(entries)])])
}

#[track_caller]
fn hears(client: &mut Client, expected: &Value) {
    assert_eq!(&client.receive().expect("it is served"), expected);
}

#[track_caller]
fn is_refused(client: &mut Client, code: &str) {
    let error = client.receive().expect("it is answered").error();
    assert!(
        error.as_ref().is_some_and(|error| error.starts_with(code)),
        "{error:?}"
    );
}

#[test]
fn every_client_that_reads_gets_the_entry_and_one_of_those_that_share_a_group() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for key in KEYS {
        client.run(&format!("XADD {key} 1-0 f v"));
        client.run_ok(&format!("XGROUP CREATE {key} g $"));
        let mut of_group: Vec<Client> = ["a", "b"]
            .map(|name| {
                let command = format!("XREADGROUP GROUP g {name} BLOCK 0 STREAMS {key} >");
                waiting(&mut client, server.client(), &command)
            })
            .into();
        let read = |client: &mut Client, from: &str| {
            waiting(
                client,
                server.client(),
                &format!("XREAD BLOCK 0 STREAMS {key} {from}"),
            )
        };
        let mut readers = [read(&mut client, "$"), read(&mut client, "1-0")];
        let mut later = read(&mut client, "2-0");
        client.run(&format!("XADD {key} 2-0 f v"));
        readers
            .iter_mut()
            .for_each(|reader| hears(reader, &told(key, &["2-0"])));
        hears(&mut of_group[0], &told(key, &["2-0"]));
        client.run(&format!("XADD {key} 3-0 f v"));
        hears(&mut of_group[1], &told(key, &["3-0"]));
        hears(&mut later, &told(key, &["3-0"]));
        assert_eq!(client.info_number("clients", "blocked_clients"), 0);
    }
}

/// Clients of so many nodes that wait for streams of several groups.
fn over_several_groups(nodes: usize, connect: &dyn Fn(usize) -> Client) {
    let mut client = connect(0);
    for key in KEYS {
        client.run(&format!("XADD {key} 1-0 f v"));
        client.run_ok(&format!("XGROUP CREATE {key} g $"));
    }
    let keys = KEYS.join(" ");
    let each = |from: &str| [from; KEYS.len()].join(" ");
    let blocked = || -> i64 {
        let of = |node| connect(node).info_number("clients", "blocked_clients");
        (0..nodes).map(of).sum()
    };
    for (round, key) in KEYS.iter().enumerate() {
        let next = |by: usize| connect((round + by) % nodes);
        let mut reader = next(0);
        send(
            &mut reader,
            &format!("XREAD BLOCK 0 STREAMS {keys} {}", each("$")),
        );
        eventually("the client is blocked", || blocked() == 1);
        let mut consumer = next(1);
        send(
            &mut consumer,
            &format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {keys} {}", each(">")),
        );
        eventually("the client is blocked", || blocked() == 2);
        // Somebody in the same lines for whom it is nothing.
        let mut other = next(2);
        send(&mut other, &format!("XREAD BLOCK 0 STREAMS {keys} {}", each("9")));
        eventually("the client is blocked", || blocked() == 3);
        client.run(&format!("XADD {key} 2-0 f v"));
        hears(&mut reader, &told(key, &["2-0"]));
        hears(&mut consumer, &told(key, &["2-0"]));
        client.run(&format!("XADD {key} 9-1 f v"));
        hears(&mut other, &told(key, &["9-1"]));
        let pending = client.run(&format!("XPENDING {key} g"));
        assert_eq!(pending.elements().expect("a summary")[0], Value::Integer(1));
        eventually("nobody is blocked", || blocked() == 0);
        client.run(&format!("DEL {key}"));
        client.run(&format!("XADD {key} 1-0 f v"));
        client.run_ok(&format!("XGROUP CREATE {key} g $"));
    }
    // Nothing is delivered if one of the groups is missing.
    client.run("XADD log:1 2-0 f v");
    client.run("XGROUP DESTROY log:4 g");
    let error = client
        .run(&format!("XREADGROUP GROUP g c STREAMS {keys} {}", each(">")))
        .error();
    assert!(error.is_some_and(|error| error.starts_with("NOGROUP")));
    let pending = client.run("XPENDING log:1 g");
    assert_eq!(pending.elements().expect("a summary")[0], Value::Integer(0));
    // Who waits with a group hears of its end.
    client.run_ok("XGROUP CREATE log:4 g $");
    client.run("XGROUP SETID log:1 g $");
    let mut consumer = connect(nodes - 1);
    send(
        &mut consumer,
        &format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {keys} {}", each(">")),
    );
    eventually("the client is blocked", || blocked() == 1);
    client.run("XGROUP DESTROY log:4 g");
    is_refused(&mut consumer, "NOGROUP");
    client.run_ok("XGROUP CREATE log:4 g $");
    send(
        &mut consumer,
        &format!("XREADGROUP GROUP g c BLOCK 0 STREAMS {keys} {}", each(">")),
    );
    eventually("the client is blocked", || blocked() == 1);
    client.run("DEL log:4");
    let error = consumer.receive().expect("it is answered").error();
    assert!(error.is_some_and(|error| error.contains("no longer exists")));
    // What there is, in the order of the keys.
    let reply = client.run("XREAD COUNT 1 STREAMS log:3 nowhere log:1 log:2 0 0 1 1");
    let streams = reply.elements().expect("two have entries").iter();
    let names: Vec<_> = streams
        .map(|stream| stream.elements().expect("a pair")[0].text())
        .collect();
    assert_eq!(names, [Some("log:3".to_owned()), Some("log:1".to_owned())]);
}

#[test]
fn streams_of_several_workers_are_read_and_waited_for_together() {
    let server = Server::subject().workers(2).start();
    over_several_groups(1, &|_| server.client());
}

#[test]
fn streams_of_several_nodes_are_read_and_waited_for_together() {
    let cluster = Cluster::start(3, 4);
    over_several_groups(3, &|node| cluster.client(node));
}

#[test]
fn who_waits_with_a_group_is_told_when_the_stream_goes_however_it_goes() {
    let server = Server::subject().start();
    let mut client = server.client();
    for (ends, code) in [
        ("DEL s", "UNBLOCKED"),
        ("SET s value", "UNBLOCKED"),
        ("MSET s value", "UNBLOCKED"),
        ("RENAME s other", "UNBLOCKED"),
        ("PEXPIRE s 1", "UNBLOCKED"),
        ("FLUSHALL", "UNBLOCKED"),
        ("SWAPDB 0 1", "UNBLOCKED"),
        ("XGROUP DESTROY s g", "NOGROUP"),
        ("COPY empty s REPLACE", "NOGROUP"),
    ] {
        client.run("FLUSHALL");
        client.run_ok("XGROUP CREATE s g $ MKSTREAM");
        client.run_ok("XGROUP CREATE empty h $ MKSTREAM");
        let read = "XREADGROUP GROUP g c BLOCK 0 STREAMS s >";
        let mut consumer = waiting(&mut client, server.client(), read);
        client.run(ends);
        is_refused(&mut consumer, code);
    }
}

#[test]
fn consumers_tell_when_they_asked_and_when_they_were_given_something() {
    let server = Server::subject().start();
    if server.is_redis() {
        // `inactive` and `active-time` came with Redis 7.2.
        return;
    }
    let mut client = server.client();
    client.run("XADD s * f v");
    client.run_ok("XGROUP CREATE s g 0");
    client.run("XGROUP CREATECONSUMER s g idle");
    client.run("XREADGROUP GROUP g busy STREAMS s >");
    let told = client.run("XINFO CONSUMERS s g");
    let consumers = told.elements().expect("two consumers");
    let fields = |at: usize| -> Vec<String> {
        let pairs = consumers[at].pairs().expect("fields");
        pairs
            .into_iter()
            .map(|(name, _)| name.text().expect("a name"))
            .collect()
    };
    assert_eq!(fields(0), ["name", "pending", "idle", "inactive"]);
    let inactive = |at: usize| {
        consumers[at].pairs().expect("fields")[3]
            .1
            .integer()
            .expect("a number")
    };
    assert!((0..10_000).contains(&inactive(0)) && inactive(1) == -1);
    client.run("HELLO 3");
    let full = client.run("XINFO STREAM s FULL");
    let fields = full.pairs().expect("a map");
    let names: Vec<_> = fields.iter().filter_map(|(name, _)| name.text()).collect();
    assert_eq!(names[7..], ["entries", "groups"]);
}

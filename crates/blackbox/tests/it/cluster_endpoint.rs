//! The cluster endpoint of a node by itself, as clients of Redis Cluster meet it, and what the any-node endpoint says to
//! them.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use blackbox::{Client, Server, Value, eventually};

const DISABLED: &str = "ERR This instance has cluster support disabled";

fn start() -> Server {
    Server::subject().workers(2).start()
}

/// A connection to the cluster endpoint; `None` where the server under test has none.
#[track_caller]
fn cluster_client(server: &Server) -> Option<Client> {
    let address = server.cluster_address()?;
    Some(Client::connect(address).expect("the cluster endpoint is open"))
}

#[track_caller]
fn text(client: &mut Client, words: &str) -> String {
    let reply = client.run(words);
    reply
        .text()
        .unwrap_or_else(|| panic!("{words} answered {reply:?}"))
}

#[track_caller]
fn error(client: &mut Client, words: &str) -> String {
    let reply = client.run(words);
    reply
        .error()
        .unwrap_or_else(|| panic!("{words} answered {reply:?}"))
}

/// A Redis Cluster of one node, which has all slots.
fn reference() -> Server {
    let server = Server::reference()
        .flag("cluster-enabled", "yes")
        .flag("cluster-announce-ip", "127.0.0.1")
        .flag("cluster-announce-port", "7379")
        .flag("cluster-announce-bus-port", "17379")
        .start();
    let mut client = server.client();
    client.run_ok("CLUSTER ADDSLOTSRANGE 0 16383");
    eventually("the reference serves its slots", || {
        text(&mut client, "CLUSTER INFO").contains("cluster_state:ok")
    });
    server
}

#[test]
fn what_the_cluster_is_told_in_is_redis_clusters_own_form() {
    let server = Server::subject();
    if Server::subject().start().is_redis() {
        return;
    }
    let server = server.flag("advertise", "127.0.0.1:7379").start();
    let mut client = cluster_client(&server).expect("it has one");
    let redis = reference();
    let mut redis_client = redis.client();
    let id = text(&mut client, "CLUSTER MYID");
    let redis_id = text(&mut redis_client, "CLUSTER MYID");
    assert!(
        id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id}"
    );
    for protocol in [2, 3] {
        client.run(&format!("HELLO {protocol}"));
        redis_client.run(&format!("HELLO {protocol}"));
        for words in [
            "CLUSTER INFO",
            "CLUSTER NODES",
            "CLUSTER SLOTS",
            "CLUSTER SHARDS",
            "CLUSTER LINKS",
            "CLUSTER KEYSLOT foo",
            "CLUSTER KEYSLOT {foo}bar",
            "CLUSTER COUNTKEYSINSLOT 16384",
            "CLUSTER COUNTKEYSINSLOT x",
            "CLUSTER GETKEYSINSLOT 1 -1",
            "CLUSTER GETKEYSINSLOT 16384 1",
            "CLUSTER GETKEYSINSLOT 1",
            "CLUSTER REPLICAS foo",
            "CLUSTER SLAVES foo",
            "CLUSTER COUNT-FAILURE-REPORTS foo",
            "CLUSTER NOPE",
            "CLUSTER",
            "INFO cluster",
            "READONLY",
            "READWRITE",
            "ASKING",
            "SELECT 0",
            "SELECT 1",
            "SWAPDB 0 1",
            "MOVE k 1",
            "COPY k {k}l DB 1",
        ] {
            let (mine, theirs) = (client.run(words), redis_client.run(words));
            // The id is each node's own, and this one has no other port for nodes.
            let theirs = format!("{theirs:?}")
                .replace(&redis_id, &id)
                .replace("@17379", "@0");
            assert_eq!(format!("{mine:?}"), theirs, "RESP{protocol} {words}");
        }
    }
    let id = text(&mut client, "CLUSTER MYID");
    assert_eq!(
        client.run(&format!("CLUSTER REPLICAS {id}")),
        Value::Array(Vec::new())
    );
    assert_eq!(
        client.run(&format!("CLUSTER COUNT-FAILURE-REPORTS {id}")),
        Value::Integer(0)
    );
    assert_eq!(text(&mut client, "CLUSTER MYSHARDID"), id);
}

#[test]
fn each_endpoint_says_what_it_is() {
    let server = start();
    let mut any_node = server.client();
    let Some(mut cluster) = cluster_client(&server) else {
        return;
    };
    for (client, mode, enabled, address) in [
        (&mut any_node, "standalone", 0, server.address()),
        (
            &mut cluster,
            "cluster",
            1,
            server.cluster_address().expect("it has one"),
        ),
    ] {
        assert_eq!(client.info("server", "redis_mode").as_deref(), Some(mode));
        assert_eq!(client.info_number("cluster", "cluster_enabled"), enabled);
        assert_eq!(
            client.info_number("server", "tcp_port"),
            i64::from(address.port())
        );
        let hello = client.run("HELLO 3").pairs().expect("HELLO 3 answers a map");
        assert!(
            hello.contains(&(Value::bulk("mode"), Value::bulk(mode))),
            "{hello:?}"
        );
    }
    for words in [
        "CLUSTER INFO",
        "CLUSTER SLOTS",
        "CLUSTER KEYSLOT k",
        "CLUSTER COUNTKEYSINSLOT 1",
        "CLUSTER HELP",
        "READONLY",
        "READWRITE",
        "ASKING",
    ] {
        assert_eq!(error(&mut any_node, words), DISABLED, "{words}");
    }
    any_node.run_ok("SELECT 1");
}

#[test]
fn both_endpoints_reach_the_same_data() {
    let server = start();
    let mut any_node = server.client();
    let Some(mut cluster) = cluster_client(&server) else {
        return;
    };
    for number in 0..200 {
        cluster.run_ok(&format!("SET k{number} {number}"));
    }
    for number in 0..200 {
        assert_eq!(
            any_node.run(&format!("GET k{number}")),
            Value::bulk(number.to_string())
        );
    }
    assert_eq!(cluster.run("DBSIZE"), Value::Integer(200));
    // Of other databases the cluster endpoint knows nothing.
    any_node.run_ok("SELECT 3");
    any_node.run_ok("SET elsewhere 1");
    assert_eq!(cluster.run("DBSIZE"), Value::Integer(200));
    assert_eq!(cluster.run("EXISTS elsewhere"), Value::Integer(0));
}

#[test]
fn keys_of_several_slots_are_never_refused_as_cross_slot() {
    let server = start();
    let Some(mut client) = cluster_client(&server) else {
        return;
    };
    client.run_ok("MSET a 1 b 2 c 3 d 4");
    let values = ["1", "2", "3", "4"].map(Value::bulk).to_vec();
    assert_eq!(client.run("MGET a b c d"), Value::Array(values));
    client.run_ok("WATCH a b");
    client.run_ok("MULTI");
    for words in ["INCR a", "INCR b", "RENAME c e", "DEL d"] {
        assert_eq!(client.run(words), Value::Simple(b"QUEUED".to_vec()), "{words}");
    }
    assert_eq!(
        client.run("EXEC"),
        Value::Array(vec![
            Value::Integer(2),
            Value::Integer(3),
            Value::ok(),
            Value::Integer(1)
        ])
    );
    assert_eq!(client.run("SUNIONSTORE x y z"), Value::Integer(0));
}

#[test]
fn the_keys_of_a_slot_are_found_whichever_worker_has_them() {
    let server = start();
    let Some(address) = server.cluster_address() else {
        return;
    };
    // Of two connections, each of two workers has one.
    let mut clients = [(); 2].map(|()| Client::connect(address).expect("the cluster endpoint is open"));
    for tag in ["a", "b", "c", "d", "e", "f"] {
        let slot = clients[0]
            .run(&format!("CLUSTER KEYSLOT {tag}"))
            .integer()
            .expect("a slot is a number");
        let mut names: Vec<String> = (0..5).map(|number| format!("{{{tag}}}{number}")).collect();
        for name in &names {
            clients[0].run_ok(&format!("SET {name} 1"));
        }
        clients[0].run_ok(&format!("SET {{{tag}}}gone 1 PX 1"));
        eventually("a key expires", || {
            clients[0].run(&format!("EXISTS {{{tag}}}gone")) == Value::Integer(0)
        });
        names.sort();
        for client in &mut clients {
            let count = client.run(&format!("CLUSTER COUNTKEYSINSLOT {slot}"));
            assert_eq!(count, Value::Integer(5), "slot {slot}");
            let found = client.run(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
            let found = found.elements().expect("keys are a list");
            let mut found: Vec<String> = found.iter().filter_map(Value::text).collect();
            found.sort();
            assert_eq!(found, names);
            let two = client.run(&format!("CLUSTER GETKEYSINSLOT {slot} 2"));
            assert_eq!(two.elements().map(<[Value]>::len), Some(2));
        }
    }
}

#[test]
fn a_scan_through_the_cluster_endpoint_finds_every_key_once() {
    let server = start();
    let Some(mut client) = cluster_client(&server) else {
        return;
    };
    for number in 0..500 {
        client.run_ok(&format!("SET k{number} 1"));
    }
    let mut found = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = client.run(&format!("SCAN {cursor} COUNT 50"));
        let parts = reply.elements().expect("SCAN answers two elements");
        let keys = parts[1].elements().expect("keys are a list");
        found.extend(keys.iter().filter_map(Value::text));
        cursor = parts[0].text().expect("a cursor is text");
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 500);
    client.run_ok("FLUSHALL");
    assert_eq!(client.run("DBSIZE"), Value::Integer(0));
    assert!(client.run("RANDOMKEY").is_null());
}

#[test]
fn what_administrates_redis_cluster_is_refused_with_what_does_it_here() {
    let server = start();
    let Some(mut client) = cluster_client(&server) else {
        return;
    };
    for words in [
        "ADDSLOTS 1",
        "ADDSLOTSRANGE 1 2",
        "BUMPEPOCH",
        "DELSLOTS 1",
        "DELSLOTSRANGE 1 2",
        "FAILOVER",
        "FLUSHSLOTS",
        "FORGET x",
        "MEET 127.0.0.1 1",
        "REPLICATE x",
        "RESET",
        "SAVECONFIG",
        "SET-CONFIG-EPOCH 1",
        "SETSLOT 1 STABLE",
    ] {
        let name = words.split(' ').next().expect("it has one");
        let error = error(&mut client, &format!("CLUSTER {words}"));
        let start = format!("ERR CLUSTER {name} is not needed here: ");
        assert!(
            error.starts_with(&start) && error.contains("chorale server --join"),
            "{error}"
        );
    }
}

#[test]
fn messages_reach_clients_of_both_endpoints() {
    let server = start();
    let mut any_node = server.client();
    let Some(mut cluster) = cluster_client(&server) else {
        return;
    };
    cluster.run("SSUBSCRIBE shard");
    cluster.run("SUBSCRIBE news");
    for (words, message) in [
        ("SPUBLISH shard x", ["smessage", "shard", "x"]),
        ("PUBLISH news y", ["message", "news", "y"]),
    ] {
        assert_eq!(any_node.run(words), Value::Integer(1), "{words}");
        let heard = cluster.receive().expect("a message comes");
        assert_eq!(heard, Value::Array(message.map(Value::bulk).to_vec()));
    }
}

#[test]
fn clients_are_told_the_advertised_address() {
    let server = Server::subject().flag("advertise", "node-1.example.org:17379");
    if Server::subject().start().is_redis() {
        return;
    }
    let server = server.start();
    let mut client = cluster_client(&server).expect("it has one");
    assert!(text(&mut client, "CLUSTER NODES").contains(" node-1.example.org:17379@"));
    let slots = client.run("CLUSTER SLOTS");
    let range = slots
        .elements()
        .and_then(|ranges| ranges[0].elements())
        .expect("one range");
    let node = range[2].elements().expect("a node");
    assert_eq!(
        node[..2],
        [Value::bulk("node-1.example.org"), Value::Integer(17_379)]
    );
}

#[test]
fn the_cluster_endpoint_can_be_left_out() {
    let mut server = Server::subject().flag("cluster-port", "0");
    if Server::subject().start().is_redis() {
        return;
    }
    server = server.workers(1);
    let server = server.start();
    let address = server.cluster_address().expect("one was reserved");
    assert!(Client::connect(address).is_err(), "somebody listens on {address}");
}

#[test]
fn a_port_that_is_taken_is_named_with_its_option() {
    let server = start();
    let Some(taken) = server.cluster_address() else {
        return;
    };
    let blackbox::Implementation::Chorale(binary) = blackbox::Implementation::subject() else {
        return;
    };
    for option in ["port", "cluster-port", "admin-port"] {
        let flags = ["port", "cluster-port", "admin-port"].map(|other| {
            // Of `port`, 0 is any free one; of the others, none.
            let number = if other == option { taken.port() } else { 0 };
            format!("--{other}={number}")
        });
        let mut command = Command::new(&binary);
        // Variables that steer these tests are no options of the server.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CHORALE_") {
                command.env_remove(name);
            }
        }
        let output = command
            .args(["server", "--bind", "127.0.0.1"])
            .args(flags)
            .output()
            .expect("the program can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, taken.port()));
        assert!(
            said.contains(&address.to_string()) && said.contains(&format!("--{option})")),
            "{said}"
        );
    }
}

#[test]
fn redis_cli_finds_the_cluster_well() {
    let server = start();
    let Some(address) = server.cluster_address() else {
        return;
    };
    let mut client = cluster_client(&server).expect("it has one");
    client.run_ok("SET k 1");
    let run = |arguments: &[&str]| {
        let output = Command::new("redis-cli")
            .args(arguments)
            .output()
            .expect("redis-cli comes with the redis-server of the reference");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    };
    let said = run(&["--cluster", "check", &address.to_string()]);
    assert!(said.contains("[OK] All 16384 slots covered."), "{said}");
    assert!(said.contains("[OK] 1 keys in 1 masters."), "{said}");
    let port = address.port().to_string();
    let said = run(&["-c", "-p", &port, "MSET", "a", "1", "b", "2"]);
    assert_eq!(said, "OK\n");
}

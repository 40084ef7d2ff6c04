//! `chorale dev` and `chorale admin`, as people at a terminal meet them. They are tested whatever server
//! the other tests run on.

use std::net::TcpListener;
use std::process::Command;

use blackbox::{Client, LocalCluster, Value, chorale_binary, eventually, http_get};

/// Whether nobody serves clients of this node any more.
fn is_gone(cluster: &LocalCluster, node: u16) -> bool {
    Client::connect(cluster.address(node)).is_err()
}

#[test]
fn a_password_for_clients_keeps_no_node_of_the_cluster_out() {
    let cluster = LocalCluster::start(3, &["--", "--requirepass", "word"]);
    let mut client = cluster.client(3);
    client.run_ok("AUTH word");
    client.run_ok("SET key value");
}

#[test]
fn a_local_node_serves_clients_and_leaves_nothing_when_it_is_interrupted() {
    let mut cluster = LocalCluster::start(1, &[]);
    cluster.client(1).run_ok("SET key value");
    assert_eq!(cluster.client(1).run("GET key"), Value::bulk("value"));
    assert!(cluster.has_directory());
    cluster.signal("INT");
    assert_eq!(cluster.wait().code(), Some(0), "{}", cluster.output());
    assert!(is_gone(&cluster, 1));
    assert!(!cluster.has_directory());
}

#[test]
fn any_node_of_a_local_cluster_carries_out_any_command() {
    let mut cluster = LocalCluster::start(3, &[]);
    for node in 1..=3 {
        let mut client = cluster.client(node);
        for key in 0..20 {
            client.run_ok(&format!("SET of:{node}:{key} {key}"));
        }
    }
    for node in 1..=3 {
        let mut client = cluster.client(node);
        assert_eq!(client.run("DBSIZE"), Value::Integer(60), "at node {node}");
        for (writer, key) in (1..=3).flat_map(|writer| (0..20).map(move |key| (writer, key))) {
            let reply = client.run(&format!("GET of:{writer}:{key}"));
            assert_eq!(
                reply,
                Value::bulk(key.to_string()),
                "of:{writer}:{key} at node {node}"
            );
        }
        let mut endpoint =
            Client::connect(cluster.cluster_address(node)).expect("the node has a cluster endpoint");
        let info = endpoint.run("CLUSTER INFO").text().expect("it is a text");
        assert!(info.contains("cluster_known_nodes:3"), "at node {node}: {info}");
    }
    cluster.type_line("quit");
    assert_eq!(cluster.wait().code(), Some(0), "{}", cluster.output());
    assert!((1..=3).all(|node| is_gone(&cluster, node)));
}

#[test]
fn a_node_that_was_killed_is_named_and_can_be_started_again() {
    let mut cluster = LocalCluster::start(1, &[]);
    cluster.type_line("kill 1");
    eventually("the end of the node is told", || {
        cluster
            .output()
            .contains("node 1 has ended (signal: 9 (SIGKILL))")
    });
    cluster.type_line("kill 1");
    eventually("a second end is refused", || {
        cluster
            .output()
            .contains("node 1 has ended; start 1 starts it again")
    });
    cluster.type_line("start 1");
    eventually("the node answers again", || {
        Client::connect(cluster.address(1)).is_ok_and(|mut client| client.try_command(&["PING"]).is_ok())
    });
}

#[test]
fn a_paused_node_answers_when_it_goes_on() {
    let mut cluster = LocalCluster::start(1, &[]);
    let mut client = cluster.client(1);
    client.run("PING");
    cluster.type_line("pause 1");
    eventually("the node stands still", || {
        cluster.output().contains("node 1 stands still")
    });
    client.send(&["PING"]).expect("the kernel takes it");
    cluster.type_line("resume 1");
    assert_eq!(
        client.receive().expect("the node goes on").text().as_deref(),
        Some("PONG")
    );
    // A node that stands still is ended too.
    cluster.type_line("pause 1");
    cluster.type_line("quit");
    assert_eq!(cluster.wait().code(), Some(0), "{}", cluster.output());
    assert!(is_gone(&cluster, 1));
}

#[test]
fn a_node_can_be_added() {
    let mut cluster = LocalCluster::start(1, &[]);
    cluster.type_line("add");
    eventually("the new node answers", || {
        Client::connect(cluster.address(2)).is_ok_and(|mut client| client.try_command(&["PING"]).is_ok())
    });
    cluster.type_line("status");
    eventually("both processes are listed", || {
        let output = cluster.output();
        output.contains("\n  2     ") && output.contains("replicas")
    });
}

/// On other systems they are left behind by a signal that cannot be handled.
#[cfg(target_os = "linux")]
#[test]
fn nodes_do_not_outlive_a_killed_parent() {
    let mut cluster = LocalCluster::start(2, &[]);
    cluster.signal("KILL");
    cluster.wait();
    eventually("the nodes have ended", || {
        (1..=2).all(|node| is_gone(&cluster, node))
    });
}

#[test]
fn a_taken_port_is_named_with_others_that_are_free() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut cluster = LocalCluster::begin(2, port - 1, &[]);
    assert_eq!(cluster.wait().code(), Some(1));
    let output = cluster.output();
    // Others may have the ports beside it.
    assert!(
        output.contains("cannot be had: it is taken. Choose others: --port "),
        "{output}"
    );
}

#[test]
fn what_a_node_complains_about_is_shown() {
    let mut cluster = LocalCluster::begin(1, 29_000, &["--", "--maxmemory", "much"]);
    assert_ne!(cluster.wait().code(), Some(0));
    let output = cluster.output();
    let is_taken = output.contains("it is taken");
    assert!(
        is_taken || output.contains("--maxmemory: found \"much\": allowed: "),
        "{output}"
    );
    assert!(!cluster.has_directory());
}

#[test]
fn the_status_of_a_cluster_is_a_table_or_json() {
    let cluster = LocalCluster::start(1, &[]);
    let address = cluster.admin_address(1);
    let status = |flags: &[&str]| {
        let mut command = Command::new(chorale_binary());
        let output = command
            .args(["admin", "status", &address.to_string()])
            .args(flags)
            .output();
        String::from_utf8(output.expect("the binary is there").stdout).expect("it is a text")
    };
    let table = status(&["--groups"]);
    assert!(table.contains("node  state  zone"), "{table}");
    let page = http_get(address, "/cluster").expect("the port answers");
    assert_eq!(page.status, 200);
    // Figures may change between the two answers, the nodes do not.
    let is_json = |text: &str| text.starts_with("{\n") && text.contains("\"nodes\": [");
    assert!(
        is_json(&page.body) && is_json(&status(&["--json"])),
        "{}",
        page.body
    );
    let nobody = Command::new(chorale_binary())
        .args(["admin", "status", "127.0.0.1:1"])
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(complaint.contains("cannot ask 127.0.0.1:1: "), "{complaint}");
}

//! Nodes that find each other as real machines do: by names with several addresses, at addresses that change, and under a name of their own.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use blackbox::{Cluster, Value, chorale_binary, eventually, http_get};

/// Nodes on machines of their own, or nothing where there can be no namespaces.
fn on_machines() -> Option<Cluster> {
    match Cluster::in_namespaces(4) {
        Ok(mut cluster) => {
            cluster.flag("bind", "*");
            Some(cluster)
        }
        Err(reason) => {
            eprintln!("SKIPPED, nothing was tested: there are no network namespaces here: {reason}");
            None
        }
    }
}

fn host(cluster: &Cluster, node: usize) -> Ipv4Addr {
    match cluster.peer_address(node).ip() {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => unreachable!("namespaces have addresses of version 4"),
    }
}

/// Names all nodes that were begun: `node-0` and so on.
fn name_all(cluster: &mut Cluster) {
    let all = 0..cluster.len();
    let names: Vec<_> = all
        .map(|node| (format!("node-{node}"), host(cluster, node)))
        .collect();
    cluster.set_names(&names);
}

/// The members that a node knows, those of them that are up, and how many nodes have the meta group.
fn members(cluster: &Cluster, node: usize) -> Option<(usize, usize, usize)> {
    let page = http_get(cluster.admin_address(node), "/cluster").ok()?;
    let page: serde_json::Value = serde_json::from_str(&page.body).ok()?;
    let nodes = page["nodes"].as_array()?;
    let up = nodes.iter().filter(|node| node["is_up"] == true).count();
    Some((nodes.len(), up, page["meta_nodes"].as_array()?.len()))
}

#[test]
fn a_node_joins_by_the_one_address_of_a_name_where_somebody_is() {
    let Some(mut cluster) = on_machines() else { return };
    let first = cluster.add();
    let port = cluster.peer_address(first).port();
    // It knows neither of the names, and nobody has their addresses; then one of them leads to the first node, too.
    let second = cluster.begin(&["--join", &format!("nobody:{port} cluster:{port}")]);
    let there = host(&cluster, first);
    let [a, b, c, _] = there.octets();
    let nowhere = |last: u8| ("cluster".to_owned(), Ipv4Addr::new(a, b, c, last));
    cluster.set_names(&[nowhere(98), nowhere(99)]);
    eventually("a name that leads nowhere is looked up", || {
        cluster.log(second).contains("the name of a node leads nowhere")
    });
    assert!(cluster.is_running(second), "{}", cluster.log(second));
    cluster.set_names(&[nowhere(98), ("cluster".to_owned(), there), nowhere(99)]);
    cluster.wait_until_ready(second);
    cluster.wait_until_replicated();
}

#[test]
fn nodes_whose_addresses_change_find_each_other_by_their_names() {
    let Some(mut cluster) = on_machines() else { return };
    for node in 0..3 {
        let name = format!("node-{node}");
        let mut flags = vec!["--advertise", &name];
        let join = (node > 0).then(|| format!("node-0:{}", cluster.peer_address(0).port()));
        flags.extend(join.iter().flat_map(|join| ["--join", join]));
        cluster.begin(&flags);
        name_all(&mut cluster);
        cluster.wait_until_ready(node);
    }
    eventually("three members are up", || members(&cluster, 0) == Some((3, 3, 3)));
    cluster.client(0).run_ok("SET key value");
    // One after the other, while the others go on: they dial it where its name leads now. Then all at once.
    for moved in [vec![2], vec![0], vec![0, 1, 2]] {
        for &node in &moved {
            assert!(cluster.terminate(node).success());
        }
        for &node in &moved {
            cluster.readdress(node);
        }
        name_all(&mut cluster);
        moved.iter().for_each(|&node| cluster.restart(node));
        moved.iter().for_each(|&node| cluster.wait_until_ready(node));
        for node in 0..3 {
            eventually("three members are up", || {
                members(&cluster, node) == Some((3, 3, 3))
            });
            assert_eq!(cluster.client(node).run("GET key"), Value::bulk("value"));
        }
    }
}

#[test]
fn a_node_that_comes_back_elsewhere_finds_a_leader_that_it_is_not_to_join() {
    let Some(mut cluster) = on_machines() else { return };
    let first = cluster.begin(&[]);
    cluster.wait_until_ready(first);
    let at = |cluster: &Cluster, node: usize| cluster.peer_address(node).to_string();
    let second = cluster.begin(&["--join", &at(&cluster, first)]);
    cluster.wait_until_ready(second);
    let third = cluster.begin(&["--join", &at(&cluster, second)]);
    cluster.wait_until_ready(third);
    eventually("three members are up", || {
        members(&cluster, first) == Some((3, 3, 3))
    });
    cluster.wait_until_replicated();
    cluster.client(first).run_ok("SET key value");
    // The first one leads the meta group, and dials the third one where it was.
    let page = http_get(cluster.admin_address(first), "/cluster").expect("it is up");
    let page: serde_json::Value = serde_json::from_str(&page.body).expect("it is JSON");
    assert_eq!(page["meta_leader"], 1, "{page}");
    assert!(cluster.terminate(third).success());
    cluster.readdress(third);
    cluster.restart(third);
    cluster.wait_until_ready(third);
    eventually("three members are up", || {
        members(&cluster, third) == Some((3, 3, 3))
    });
    assert_eq!(cluster.client(third).run("GET key"), Value::bulk("value"));
}

#[test]
fn what_is_wanted_of_nodes_is_taken_from_another_machine_with_the_secret_alone() {
    let Some(mut cluster) = on_machines() else { return };
    let node = cluster.begin(&[]);
    cluster.wait_until_ready(node);
    // This process is at the bridge, and so on no machine of a node.
    let address = cluster.admin_address(node).to_string();
    let file = cluster.data(node).with_file_name("secret");
    let ask = |words: &str, secret: Option<&str>| {
        let mut command = Command::new(chorale_binary());
        for name in ["CHORALE_CLUSTER_SECRET", "CHORALE_CLUSTER_SECRET_FILE"] {
            command.env_remove(name);
        }
        command
            .arg("admin")
            .args(words.split(' '))
            .args(["--admin", &address]);
        if let Some(secret) = secret {
            fs::write(&file, secret).expect("the temporary directory is writable");
            command.arg("--cluster-secret-file").arg(&file);
        }
        let output = command.output().expect("the binary runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    for (secret, why) in [
        (None, "--cluster-secret-file"),
        (Some("of somebody else"), "not proved with the cluster's secret"),
    ] {
        let (status, said) = ask("pause --for 60s", secret);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
    let (status, said) = ask("pause --for 60s", Some("of blackbox tests\n"));
    assert_eq!(status, Some(0), "{said}");
    // It is one goal of the cluster, whoever set it.
    let jobs = cluster.admin(node, "jobs").expect("the binary runs");
    assert!(
        String::from_utf8_lossy(&jobs.stdout).contains("Nothing moves but what repairs"),
        "{jobs:?}"
    );
    let (status, said) = ask("pause --for 60s", Some("\n"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("is empty"), "{said}");
}

#[test]
fn a_node_takes_the_place_of_the_one_of_its_name_and_nobody_elses() {
    let mut cluster = Cluster::new(4);
    for name in ["a", "b", "c"] {
        let node = cluster.begin(&["--node-name", name]);
        cluster.wait_until_ready(node);
    }
    cluster.wait_until_replicated();
    let twin = cluster.begin(&["--node-name", "a"]);
    assert_eq!(cluster.wait(twin).code(), Some(1));
    let log = cluster.log(twin);
    assert!(log.contains("or has the same --node-name"), "{log}");
    // With another directory and at other ports: by its name alone it is known.
    cluster.kill(2);
    let successor = cluster.begin(&["--node-name", "c"]);
    cluster.wait_until_ready(successor);
    eventually("the old one is no member", || {
        members(&cluster, 0) == Some((3, 3, 3))
    });
    cluster.wait_until_replicated();
}

#[test]
fn a_service_manager_is_told_when_a_node_is_ready_and_when_it_stops() {
    let mut cluster = Cluster::start(1, 1);
    assert!(cluster.terminate(0).success());
    let socket = cluster.data(0).with_file_name("notify");
    let manager = UnixDatagram::bind(&socket).expect("the directory is ours");
    let patience = Some(Duration::from_secs(30));
    manager.set_read_timeout(patience).expect("there is a time-out");
    let wait_for = |wanted: &str| {
        let mut bytes = [0; 1024];
        loop {
            let count = manager
                .recv(&mut bytes)
                .unwrap_or_else(|error| panic!("{wanted}: {error}"));
            let told = String::from_utf8_lossy(&bytes[..count]).into_owned();
            if told.lines().any(|line| line.starts_with(wanted)) {
                return;
            }
            assert!(told.starts_with("STATUS="), "before {wanted}: {told}");
        }
    };
    cluster.wrap(0, &["env", &format!("NOTIFY_SOCKET={}", socket.display())]);
    cluster.restart(0);
    wait_for("STATUS=starting: ");
    wait_for("READY=1");
    cluster.client(0).run_ok("SET key value");
    assert!(cluster.terminate(0).success());
    wait_for("STOPPING=1");
}

//! What an operator can do when more is lost than a cluster bears: `chorale admin recover`.

use std::path::Path;
use std::process::Command;

use blackbox::{Client, Cluster, Value, chorale_binary, eventually, http_get};

/// Few, so that tests are quick on processes that were built for tests.
const GROUPS: usize = 8;
const KEYS: usize = 200;

/// What `chorale admin` says: its page, or its error.
fn admin(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(chorale_binary())
        .arg("admin")
        .args(arguments)
        .output()
        .expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

/// So many nodes that keep nothing of the data on disk.
fn in_memory(nodes: usize) -> Cluster {
    let mut cluster = Cluster::new(GROUPS);
    cluster.flag("durability", "memory");
    cluster.grow(nodes);
    cluster
}

fn fill(client: &mut Client) {
    for key in 0..KEYS {
        client.run_ok(&format!("SET key:{key} {key}"));
    }
}

/// Everything that was acknowledged is there, and more can be written.
#[track_caller]
fn assert_alive(client: &mut Client) {
    for key in 0..KEYS {
        let reply = client.run(&format!("GET key:{key}"));
        assert_eq!(reply, Value::bulk(key.to_string()), "key:{key}");
    }
    for key in 0..KEYS {
        client.run_ok(&format!("SET key:{key} new"));
    }
    assert_eq!(client.run("GET key:7"), Value::bulk("new"));
}

/// Waits until a plan names this for every group.
fn wait_for_plan(address: &str, gone: &[&str], says: &str) {
    let arguments = [&["recover", address], gone].concat();
    eventually("every group has a recovery source", || {
        admin(&arguments).is_ok_and(|plan| plan.matches(says).count() == GROUPS)
    });
}

#[test]
fn groups_begin_anew_from_the_recovery_source_when_two_of_three_lost_their_memory() {
    let mut cluster = in_memory(3);
    fill(&mut cluster.client(0));
    cluster.kill(1);
    cluster.kill(2);
    let mut client = cluster.client(0);
    let reply = client.run("SET key:0 lost");
    let text = format!("{reply:?}");
    assert!(text.contains("CLUSTERDOWN") || text.contains("UNKNOWN"), "{text}");
    // Their logs of the meta group are on disk: with them that group goes on.
    cluster.restart(1);
    cluster.restart(2);
    cluster.wait_until_ready(1);
    cluster.wait_until_ready(2);
    let address = cluster.admin_address(1).to_string();
    wait_for_plan(&address, &[], "would begin anew with what node 1 has");
    let status = admin(&["status", &address]).expect("the node answers");
    assert!(
        status.contains(&format!("{GROUPS} groups lost the memory of most voters")),
        "{status}"
    );
    let page = admin(&["status", &address, "--json"]).expect("the node answers");
    assert_eq!(
        page.matches("\"has_lost_majority\": true").count(),
        GROUPS,
        "{page}"
    );
    let before = cluster.look(0).expect("the node shows the cluster");
    let plan = admin(&["recover", &address]).expect("the node answers");
    assert!(plan.contains("Nothing was done"), "{plan}");
    assert_eq!(cluster.look(0), Some(before), "a plan changes nothing");
    let said = admin(&["recover", &address, "--confirm"]).expect("the node answers");
    assert!(said.contains(&format!("Begun anew: {GROUPS} groups.")), "{said}");
    eventually("writes are acknowledged", || {
        let reply = cluster.client(0).run("SET key:0 0");
        reply == Value::ok()
    });
    assert_alive(&mut cluster.client(2));
    cluster.wait_until_replicated();
    let said = admin(&["recover", &address, "--confirm"]).expect("the node answers");
    assert!(said.contains("Every group has the majority"), "{said}");
}

#[test]
fn a_recovery_source_goes_on_when_the_directories_of_two_of_three_are_gone_for_good() {
    let mut cluster = Cluster::start(3, GROUPS);
    fill(&mut cluster.client(0));
    for node in [1, 2] {
        cluster.kill(node);
        std::fs::remove_dir_all(cluster.data(node)).expect("it is ours");
    }
    let address = cluster.admin_address(0).to_string();
    eventually("the status says that nobody leads the meta group", || {
        admin(&["status", &address]).is_ok_and(|status| status.contains("Nobody leads the meta group"))
    });
    let refused = admin(&["recover", &address, "--gone", "2", "--gone", "3"]);
    assert!(refused.is_err_and(|why| why.contains("--meta")));
    let data = cluster.data(0).display().to_string();
    let refused = admin(&["recover", "--meta", "--dir", &data, "--confirm"]);
    assert!(refused.is_err_and(|why| why.contains("SIGTERM")), "the node runs");
    assert!(cluster.terminate(0).success());
    let said = admin(&["recover", "--meta", "--dir", &data]).expect("it is stopped");
    assert!(said.contains("Nothing was done"), "{said}");
    let said = admin(&["recover", "--meta", "--dir", &data, "--confirm"]).expect("it is stopped");
    assert!(said.contains("only voter of the meta group now"), "{said}");
    cluster.restart(0);
    cluster.wait_until_ready(0);
    let gone = ["--gone", "2", "--gone", "3"];
    wait_for_plan(&address, &gone, "would begin anew with what node 1 has");
    let refused = admin(&["recover", &address, "--gone", "1"]);
    assert!(refused.is_err_and(|why| why.contains("node 1 is up")));
    let confirmed = [&["recover", &address, "--confirm"], &gone[..]].concat();
    let said = admin(&confirmed).expect("the node answers");
    assert!(said.contains(&format!("Begun anew: {GROUPS} groups.")), "{said}");
    eventually("writes are acknowledged", || {
        let reply = cluster.client(0).run("SET key:0 0");
        reply == Value::ok()
    });
    assert_alive(&mut cluster.client(0));
    // New nodes join it as they would any cluster.
    cluster.add();
    cluster.add();
    eventually("the groups are replicated again", || {
        let seen = cluster.look(0);
        let is_whole = |replicas: &Vec<(usize, u64, bool)>| {
            replicas
                .iter()
                .filter(|&&(node, _, votes)| votes && node != 1 && node != 2)
                .count()
                == 3
        };
        seen.is_some_and(|seen| seen.replicas.iter().all(is_whole))
    });
    assert_eq!(cluster.client(3).run("GET key:7"), Value::bulk("new"));
}

#[test]
fn a_node_that_is_told_to_join_another_cluster_than_its_own_says_what_to_do() {
    let first = Cluster::start(1, GROUPS);
    let mut second = Cluster::start(1, GROUPS);
    second.client(0).run_ok("SET key:0 0");
    assert!(second.terminate(0).success());
    second.flag("join", &first.peer_address(0).to_string());
    second.restart(0);
    assert_eq!(second.wait(0).code(), Some(1));
    let log = second.log(0);
    assert!(log.contains("is that of node 1 of cluster"), "{log}");
    assert!(log.contains("give it another --dir"), "{log}");
    // Whom nobody answers goes on where it belongs, with what it had: the start that failed has left it as it was.
    second.flag("join", "127.0.0.1:1");
    second.restart(0);
    second.wait_until_ready(0);
    assert_eq!(second.client(0).run("GET key:0"), Value::bulk("0"));
}

#[test]
fn a_start_that_is_stopped_before_it_is_counted_leaves_what_the_last_one_left() {
    let mut cluster = Cluster::start(3, GROUPS);
    fill(&mut cluster.client(0));
    for node in 0..3 {
        assert!(cluster.terminate(node).success());
    }
    // Alone it has no majority of the meta group, and waits for the others.
    cluster.restart(0);
    eventually("it waits", || {
        cluster.log(0).contains("waiting for the other nodes")
    });
    assert!(cluster.terminate(0).success());
    for node in 0..3 {
        cluster.restart(node);
    }
    for node in 0..3 {
        cluster.wait_until_ready(node);
    }
    assert_alive(&mut cluster.client(1));
    let page = admin(&["status", &cluster.admin_address(0).to_string(), "--json"]).expect("it answers");
    assert!(
        !page.contains("\"role\": \"lost\""),
        "the node has what it had: {page}"
    );
}

#[test]
fn a_node_that_waits_for_the_others_says_so_to_whoever_asks() {
    let mut cluster = Cluster::start(3, GROUPS);
    fill(&mut cluster.client(0));
    for node in 0..3 {
        assert!(cluster.terminate(node).success());
    }
    cluster.restart(0);
    eventually("it listens", || {
        Client::connect(cluster.address(0)).is_ok() && http_get(cluster.admin_address(0), "/").is_ok()
    });
    let mut client = cluster.client(0);
    let is_loading = |reply: Value| reply.error().is_some_and(|text| text.starts_with("LOADING "));
    for command in [
        "PING",
        "HELLO 3",
        "AUTH x",
        "GET key:7",
        "SET key:7 lost",
        "CLUSTER INFO",
        "PING",
    ] {
        assert!(is_loading(client.run(command)), "{command}");
    }
    // Many at once are answered one by one, and what comes in pieces is awaited.
    client
        .send_raw(b"PING\r\n\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$5\r\nke")
        .expect("it is open");
    assert!(
        is_loading(client.receive().expect("it answers"))
            && is_loading(client.receive().expect("it answers"))
    );
    client.send_raw(b"y:7\r\n").expect("it is open");
    assert!(is_loading(client.receive().expect("it answers")));
    // One that sends what nobody waits for is told, and closed.
    let mut endless = cluster.client(0);
    endless
        .send_raw(b"*2\r\n$3\r\nGET\r\n$1000000\r\n")
        .expect("it is open");
    endless.send_raw(&[b'x'; 70_000]).expect("it is open");
    assert!(is_loading(endless.receive().expect("it answers")));
    let health = http_get(cluster.admin_address(0), "/healthz").expect("it answers");
    assert_eq!(health.status, 503);
    assert!(health.body.contains("starting"), "{}", health.body);
    for page in ["/metrics", "/cluster", "/transactions"] {
        let page = http_get(cluster.admin_address(0), page).expect("it answers");
        assert_eq!(page.status, 503);
    }
    let status = admin(&["status", &cluster.admin_address(0).to_string()]);
    assert!(status.is_err_and(|why| why.contains("starting")));
    for node in [1, 2] {
        cluster.restart(node);
    }
    cluster.wait_until_ready(0);
    // Who has waited is served now, on the connection that it has.
    assert_eq!(client.run("PING"), Value::Simple(b"PONG".to_vec()));
    assert_eq!(client.run("GET key:7"), Value::bulk("7"));
    eventually("it is healthy", || {
        http_get(cluster.admin_address(0), "/healthz").is_ok_and(|health| health.status == 200)
    });
}

#[test]
fn a_node_whose_meta_log_cannot_be_written_says_why_hands_over_and_ends_with_status_1() {
    let mut cluster = Cluster::new(GROUPS);
    cluster.flag("durability", "memory");
    // It keeps room behind its end.
    cluster.limit_files(Some(1_024));
    cluster.grow(3);
    let mut clients: Vec<Client> = (0..3).map(|node| cluster.client(node)).collect();
    fill(&mut clients[0]);
    // Each of these is an entry of the log on all nodes.
    let password = "x".repeat(500);
    let mut ended = None;
    for round in 0..2_000 {
        drop(clients[round % 3].try_command(&["CONFIG", "SET", "requirepass", &password]));
        ended = (0..3).find(|&node| !cluster.is_running(node));
        if ended.is_some() {
            break;
        }
    }
    let ended = ended.expect("the log has outgrown the limit");
    assert_eq!(cluster.wait(ended).code(), Some(1), "{}", cluster.log(ended));
    let log = cluster.log(ended);
    let directory = cluster.data(ended).display().to_string();
    let says = format!("cannot write the meta group's log in {directory}: cannot write meta-log: ");
    assert!(log.contains(&says), "{log}");
    assert!(
        log.contains("the data were handed over to the next start"),
        "{log}"
    );
    for node in 0..3 {
        if cluster.is_running(node) {
            cluster.signal(node, "TERM");
        }
    }
    for node in 0..3 {
        cluster.wait(node);
    }
    // There is space again: everybody comes back, with what there was.
    cluster.limit_files(None);
    (0..3).for_each(|node| cluster.restart(node));
    eventually("every key is there", || {
        let Ok(mut client) = Client::connect(cluster.address(ended)) else {
            return false;
        };
        let is_in = client
            .try_command(&["AUTH", &password])
            .is_ok_and(|reply| reply == Value::ok());
        is_in && (0..KEYS).all(|key| client.run(&format!("GET key:{key}")) == Value::bulk(key.to_string()))
    });
    cluster.wait_until_replicated();
}

#[test]
fn a_directory_without_its_identity_is_not_written_over() {
    let mut cluster = Cluster::start(1, GROUPS);
    cluster.client(0).run_ok("SET key 1");
    assert!(cluster.terminate(0).success());
    let identity = cluster.data(0).join("identity");
    let copy = std::fs::read(&identity).expect("it is there");
    std::fs::remove_file(&identity).expect("it is ours");
    let meta_log = cluster.data(0).join("meta-log");
    // So it is, too, if not all groups had begun their logs.
    for unready in [false, true] {
        if unready {
            std::fs::write(cluster.data(0).join("unready"), "").expect("it is ours");
        }
        cluster.restart(0);
        assert_eq!(cluster.wait(0).code(), Some(1));
        let log = cluster.log(0);
        for names in [&identity, &meta_log] {
            assert!(log.contains(&names.display().to_string()), "{log}");
        }
    }
    // As it says: with the identity of before everything is as before.
    std::fs::write(&identity, copy).expect("it is ours");
    cluster.restart(0);
    cluster.wait_until_ready(0);
    assert_eq!(cluster.client(0).run("GET key"), Value::bulk("1"));
    // An identity that cannot be read is named with its directory.
    assert!(cluster.terminate(0).success());
    std::fs::write(&identity, "chorale identity 7\n").expect("it is ours");
    cluster.restart(0);
    assert_eq!(cluster.wait(0).code(), Some(1));
    let log = cluster.log(0);
    let names = format!(
        "in the data directory {}: identity is damaged",
        cluster.data(0).display()
    );
    assert!(log.contains(&names), "{log}");
}

#[test]
fn a_node_that_was_never_ready_is_not_said_to_have_lost_data() {
    let mut cluster = Cluster::new(GROUPS);
    let node = cluster.begin(&["--join", "127.0.0.1:1"]);
    let mark = cluster.data(node).join("unready");
    eventually("it waits", || mark.exists());
    eventually("it is nobody yet, and says so", || {
        let log = cluster.log(node);
        log.contains("still trying to join") && !log.contains("clients are served")
    });
    assert!(!cluster.data(node).join("identity").exists());
    assert!(cluster.terminate(node).success());

    let mut cluster = in_memory(1);
    let mark = cluster.data(0).join("unready");
    assert!(!mark.exists(), "it is ready");
    cluster.kill(0);
    // As a start leaves it that fails after the cluster has counted it.
    std::fs::write(&mark, "").expect("it is ours");
    cluster.restart(0);
    cluster.wait_until_ready(0);
    assert!(!cluster.log(0).contains("DATA LOST"), "{}", cluster.log(0));
    assert!(!mark.exists(), "it was ready");
    cluster.client(0).run_ok("SET key 1");
    cluster.kill(0);
    cluster.restart(0);
    cluster.wait_until_ready(0);
    assert!(cluster.log(0).contains("DATA LOST"), "{}", cluster.log(0));
}

/// Puts a copy of one directory in the place of another.
fn copy(from: &Path, to: &Path) {
    drop(std::fs::remove_dir_all(to));
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.is_ok_and(|status| status.success()));
}

#[test]
fn an_older_copy_of_a_directory_is_not_taken_for_what_its_node_acknowledged() {
    let mut cluster = in_memory(3);
    let (data, copied) = (cluster.data(1), cluster.data(1).with_extension("copy"));
    let goes_on_with = |cluster: &Cluster, counts: &str| {
        let log = cluster.log(1);
        let mut starts = log.lines().rev();
        let last = starts.find(|line| line.contains("replicas that go on"));
        assert!(last.is_some_and(|line| line.contains(counts)), "{log}");
    };
    assert!(cluster.terminate(1).success());
    copy(&data, &copied);
    cluster.restart(1);
    cluster.wait_until_ready(1);
    goes_on_with(&cluster, &format!("kept={GROUPS} refilled=0 dropped=0"));
    cluster.wait_until_replicated();
    assert!(cluster.terminate(2).success());
    // Two of three acknowledge it.
    fill(&mut cluster.client(0));
    assert!(cluster.terminate(1).success());
    copy(&copied, &data);
    cluster.restart(1);
    cluster.wait_until_ready(1);
    goes_on_with(&cluster, &format!("kept=0 refilled={GROUPS} dropped=0"));
    assert!(cluster.log(1).contains("older copy"), "{}", cluster.log(1));
    cluster.kill(0);
    for node in [2, 0] {
        cluster.restart(node);
        cluster.wait_until_ready(node);
    }
    let address = cluster.admin_address(2).to_string();
    eventually("the cluster knows what is lost", || {
        let lost = format!("{GROUPS} groups lost the memory of most voters");
        admin(&["status", &address]).is_ok_and(|status| status.contains(&lost))
    });
    let reply = format!("{:?}", cluster.client(2).run("GET key:7"));
    assert!(
        reply.contains("CLUSTERDOWN"),
        "nobody says that it is not there: {reply}"
    );
}

#[test]
fn another_port_is_told_from_an_admin_port_at_once() {
    let cluster = Cluster::start(1, GROUPS);
    for address in [
        cluster.address(0),
        cluster.cluster_address(0),
        cluster.peer_address(0),
    ] {
        let began = std::time::Instant::now();
        let why = admin(&["status", &address.to_string()]).expect_err("it is for others");
        assert!(why.contains("Name the node's admin-port"), "{why}");
        assert!(began.elapsed() < std::time::Duration::from_secs(4), "{why}");
    }
}

#[test]
fn a_node_that_comes_back_again_and_again_with_an_empty_directory_takes_the_place_of_the_one_before() {
    let mut cluster = Cluster::start(3, GROUPS);
    fill(&mut cluster.client(0));
    for _ in 0..3 {
        cluster.kill(2);
        std::fs::remove_dir_all(cluster.data(2)).expect("it is ours");
        cluster.restart(2);
        cluster.wait_until_ready(2);
        eventually("three nodes are members, and have the meta group", || {
            let page = http_get(cluster.admin_address(0), "/cluster").ok();
            let page = page.and_then(|page| serde_json::from_str::<serde_json::Value>(&page.body).ok());
            page.is_some_and(|page| {
                let count = |list: &serde_json::Value| list.as_array().map_or(0, Vec::len);
                let is_up = |node: &serde_json::Value| node["is_up"] == true;
                let nodes = page["nodes"].as_array().cloned().unwrap_or_default();
                (nodes.len(), count(&page["meta_nodes"])) == (3, 3) && nodes.iter().all(is_up)
            })
        });
        cluster.wait_until_replicated();
    }
    assert_alive(&mut cluster.client(2));
}

#[test]
fn with_a_password_nobody_joins_without_a_secret() {
    let mut cluster = Cluster::start(1, GROUPS);
    let mut client = cluster.client(0);
    client.run_ok("CONFIG SET requirepass word");
    let second = cluster.begin(&[]);
    assert_eq!(cluster.wait(second).code(), Some(1));
    let log = cluster.log(second);
    assert!(
        log.contains("Give all nodes the same --cluster-secret-file"),
        "{log}"
    );
    assert_eq!(client.command(&["CONFIG", "SET", "requirepass", ""]), Value::ok());
    cluster.restart(second);
    cluster.wait_until_ready(second);
}

#[test]
fn all_ports_that_are_taken_are_named_at_once() {
    let mut cluster = Cluster::start(1, GROUPS);
    let ports = [
        ("port", cluster.address(0)),
        ("cluster-port", cluster.cluster_address(0)),
        ("admin-port", cluster.admin_address(0)),
        ("peer-port", cluster.peer_address(0)),
    ];
    let flags: Vec<(String, String)> = ports
        .iter()
        .map(|(name, address)| (format!("--{name}"), address.port().to_string()))
        .collect();
    let flags: Vec<&str> = flags.iter().flat_map(|(name, port)| [&**name, &**port]).collect();
    let second = cluster.begin(&flags);
    assert_eq!(cluster.wait(second).code(), Some(1));
    let log = cluster.log(second);
    for (name, _) in ports {
        assert!(log.contains(&format!("another port with --{name})")), "{log}");
    }
}

#[test]
fn a_node_that_stood_still_for_longer_than_replacing_takes_ends_and_is_another_start_when_it_is_back() {
    let mut cluster = Cluster::new(GROUPS);
    cluster.flag("replace-after", "6");
    cluster.grow(4);
    fill(&mut cluster.client(0));
    cluster.pause(3);
    let is_dropped = |cluster: &Cluster| {
        let seen = cluster.look(0);
        seen.is_some_and(|seen| seen.replicas.iter().flatten().all(|&(node, ..)| node != 3))
    };
    eventually("its replicas are replaced", || is_dropped(&cluster));
    cluster.resume(3);
    assert_eq!(cluster.wait(3).code(), Some(1));
    let log = cluster.log(3);
    assert!(log.contains("declared this start of the node dead"), "{log}");
    cluster.restart(3);
    cluster.wait_until_ready(3);
    cluster.wait_until_replicated();
    assert_alive(&mut cluster.client(3));
}

#[test]
fn a_password_that_is_set_for_the_cluster_is_on_disk_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let mut cluster = Cluster::start(3, GROUPS);
    let mut client = cluster.client(0);
    client.run_ok("CONFIG SET requirepass secret:7");
    client.run_ok("AUTH secret:7");
    for node in 1..3 {
        eventually("every node asks for the password", || {
            let mut other = cluster.client(node);
            let refused = format!("{:?}", other.run("CONFIG GET requirepass"));
            other.run("AUTH secret:7");
            let known = format!("{:?}", other.run("CONFIG GET requirepass"));
            refused.contains("NOAUTH") && known.contains("requirepass") && known != refused
        });
    }
    for node in 0..3 {
        assert!(
            cluster.terminate(node).success(),
            "what it hands over is there too"
        );
        let data = cluster.data(node);
        let mode = |path: &std::path::Path| {
            let metadata = std::fs::metadata(path).expect("it is there");
            metadata.permissions().mode() & 0o777
        };
        assert_eq!(mode(&data), 0o700);
        let entries = std::fs::read_dir(&data).expect("it is ours");
        let files: Vec<_> = entries.map(|entry| entry.expect("it is ours").path()).collect();
        assert!(files.len() >= 3, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{file:?}");
        }
    }
}

#[test]
fn nodes_that_all_stop_come_back_with_the_flags_they_joined_with() {
    // As a service file has them: each is told to join the others at every start, the first one too.
    let mut cluster = Cluster::start(3, 6);
    let second = cluster.peer_address(1).to_string();
    cluster.flag("join", &second);
    let mut client = cluster.client(0);
    client.run_ok("SET key value");
    for round in 0..3 {
        for node in 0..cluster.len() {
            let status = cluster.terminate(node);
            assert_eq!(status.code(), Some(0), "{}", cluster.log(node));
        }
        // In another order each time: it must not matter who is there first.
        let nodes: Vec<usize> = (0..cluster.len()).map(|at| (at + round) % 3).collect();
        nodes.iter().for_each(|&node| cluster.restart(node));
        nodes.iter().for_each(|&node| cluster.wait_until_ready(node));
        cluster.wait_until_replicated();
        assert_eq!(cluster.client(round).run("GET key"), Value::bulk("value"));
    }
}

#[test]
fn groups_that_lose_two_of_three_shortly_after_each_other_go_on_with_all_they_had_when_these_are_back() {
    let mut cluster = Cluster::start(5, GROUPS);
    fill(&mut cluster.client(0));
    let both = |replicas: &[(usize, u64, bool)]| {
        let mut on_both = replicas.iter().filter(|(node, ..)| [1, 2].contains(node));
        on_both.next().is_some() && on_both.next().is_some()
    };
    let seen = cluster.wait_until_replicated();
    assert!(seen.replicas.iter().any(|replicas| both(replicas)), "{seen:?}");
    for node in [1, 2] {
        cluster.kill(node);
        eventually("it is missed", || {
            let status = admin(&["status", &cluster.admin_address(0).to_string()]);
            status.is_ok_and(|status| {
                status.contains("not heard of:") && status.contains(&format!("{}", node + 1))
            })
        });
    }
    for node in [1, 2] {
        cluster.restart(node);
    }
    for node in [1, 2] {
        cluster.wait_until_ready(node);
    }
    // On their own pages, too.
    for node in 0..5 {
        eventually("it knows who leads each group", || {
            let seen = cluster.look(node);
            seen.is_some_and(|seen| seen.leaders.iter().all(Option::is_some))
        });
        let page = http_get(cluster.admin_address(node), "/cluster").expect("it answers");
        let page: serde_json::Value = serde_json::from_str(&page.body).expect("it is JSON");
        for group in page["groups"].as_array().expect("it shows its groups") {
            assert_eq!(group["generation"], 0, "nothing had to begin anew: {group}");
            let replicas = group["replicas"].as_array().expect("it shows its replicas");
            assert!(
                replicas.iter().all(|replica| replica["role"] == "voter"),
                "nothing is lost: {group}"
            );
        }
    }
    assert_alive(&mut cluster.client(1));
}

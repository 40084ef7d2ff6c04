//! What is there when a node comes back. Redis, without a file to save to, comes back with nothing: these tests are
//! about Chorale.

use blackbox::{Client, Server, Value, eventually};

fn stop(server: &mut Server) {
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

fn dbsize(server: &Server) -> Option<i64> {
    let reply = Client::connect(server.address()).ok()?.try_command(&["DBSIZE"]);
    match reply.ok()? {
        Value::Integer(count) => Some(count),
        _ => None,
    }
}

/// Whether the node's last start had all its replicas as they were.
fn goes_on_whole(server: &Server) -> bool {
    let log = server.log();
    let mut starts = log
        .lines()
        .rev()
        .filter(|line| line.contains("replicas that go on"));
    starts
        .next()
        .is_some_and(|line| line.contains("kept=8 refilled=0 dropped=0"))
}

#[test]
fn a_node_that_was_stopped_has_its_data_again_and_one_that_was_killed_says_what_it_lost() {
    let mut server = Server::subject()
        .with_peers()
        .flag("durability", "memory")
        .workers(2)
        .groups(8)
        .start();
    if server.is_redis() {
        return;
    }
    let mut client = server.client();
    for key in 0..500 {
        client.run_ok(&format!("SET key:{key} {key}"));
    }
    for key in 0..2_000 {
        client.run(&format!("RPUSH list element:{key}"));
        client.run(&format!("ZADD scores {key} member:{key}"));
    }
    client.run("HSET hash a 1 b 2");
    client.run("SET brief x PX 1");
    client.run_ok("SET later x EX 10000");
    // Larger than any one piece of the file.
    client.run("SETRANGE large 40000000 end");
    stop(&mut server);
    for restarts in 0..2 {
        server.restart();
        let mut client = server.client();
        assert_eq!(
            client.run("DBSIZE"),
            Value::Integer(505),
            "after {restarts} restarts"
        );
        assert_eq!(client.run("GET key:77"), Value::bulk("77"));
        assert_eq!(client.run("LINDEX list 1999"), Value::bulk("element:1999"));
        assert_eq!(client.run("ZRANK scores member:1234"), Value::Integer(1_234));
        assert_eq!(client.run("HGET hash b"), Value::bulk("2"));
        assert_eq!(client.run("GETRANGE large -3 -1"), Value::bulk("end"));
        assert!(matches!(client.run("TTL later"), Value::Integer(9_000..=10_000)));
        stop(&mut server);
    }
    server.restart();
    server.signal("KILL");
    server.wait();
    server.restart();
    assert_eq!(dbsize(&server), Some(0));
    assert!(server.log().contains("DATA LOST"), "{}", server.log());
    server.client().run_ok("SET a 1");
    server
        .client()
        .send(&["SHUTDOWN", "NOSAVE"])
        .expect("the server reads");
    server.wait();
    server.restart();
    assert_eq!(dbsize(&server), Some(0), "nothing was wanted of it");
}

#[test]
fn three_nodes_that_are_restarted_one_by_one_and_together_lose_nothing_and_fill_nobody_again() {
    let first = Server::subject().with_peers().workers(2).groups(8).start();
    if first.is_redis() {
        return;
    }
    let others = [0, 1].map(|_| Server::subject().join(&first).workers(2).groups(8).start());
    let [second, third] = others;
    let mut nodes = [first, second, third];
    let is_replicated = |node: &Server| {
        let info = Client::connect(node.cluster_address().expect("it has one"))
            .ok()
            .and_then(|mut client| client.try_command(&["CLUSTER", "NODES"]).ok())
            .and_then(|reply| reply.text());
        info.is_some_and(|info| info.lines().count() == 3)
    };
    eventually("all nodes are members", || nodes.iter().all(is_replicated));
    let mut client = nodes[1].client();
    for key in 0..300 {
        client.run_ok(&format!("SET key:{key} {key}"));
    }
    // Replicas are still on their way to the second and the third node. Being restarted meanwhile must do no harm, and
    // shows when they are there.
    for index in [1, 2] {
        let mut rounds = 0;
        loop {
            stop(&mut nodes[index]);
            nodes[index].restart();
            eventually("everything is there", || dbsize(&nodes[index]) == Some(300));
            if goes_on_whole(&nodes[index]) {
                break;
            }
            rounds += 1;
            assert!(rounds < 60, "node {index} never got its replicas");
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
    }
    for index in 0..3 {
        stop(&mut nodes[index]);
        nodes[index].restart();
        for node in &nodes {
            eventually("everything is there", || dbsize(node) == Some(300));
        }
        nodes[(index + 1) % 3]
            .client()
            .run_ok(&format!("SET key:{index} again"));
    }
    nodes.iter().for_each(|node| node.signal("TERM"));
    nodes
        .iter_mut()
        .for_each(|node| assert_eq!(node.wait().code(), Some(0)));
    nodes.iter_mut().for_each(Server::begin_again);
    for node in &nodes {
        eventually("everything is there", || dbsize(node) == Some(300));
    }
    for index in 0..3 {
        assert_eq!(
            nodes[0].client().run(&format!("GET key:{index}")),
            Value::bulk("again")
        );
    }
    for node in &nodes {
        assert!(!node.log().contains("DATA LOST"), "{}", node.log());
        assert!(goes_on_whole(node), "{}", node.log());
    }
}

//! Commands that concern every node of a cluster. Tested whatever server the other tests run on.

use std::time::{SystemTime, UNIX_EPOCH};

use blackbox::{Client, Cluster, LocalCluster, Value, eventually};

fn maxmemory(client: &mut Client) -> Option<String> {
    let reply = client.try_command(&["CONFIG", "GET", "maxmemory"]).ok()?;
    match reply {
        Value::Array(words) => words.get(1)?.text(),
        _ => None,
    }
}

#[test]
fn an_option_is_set_on_all_nodes_and_on_those_that_join_later() {
    let mut cluster = LocalCluster::start(2, &[]);
    cluster.client(1).run_ok("CONFIG SET maxmemory 200mb");
    for node in 1..=2 {
        assert_eq!(maxmemory(&mut cluster.client(node)).as_deref(), Some("209715200"));
    }
    cluster.type_line("add");
    eventually("the new node has the option", || {
        Client::connect(cluster.address(3))
            .is_ok_and(|mut client| maxmemory(&mut client).as_deref() == Some("209715200"))
    });
    cluster.client(3).run_ok("CONFIG SET maxmemory 0");
    assert_eq!(maxmemory(&mut cluster.client(1)).as_deref(), Some("0"));
    let text = cluster.client(2).run("CLIENT LIST").text().expect("it is a text");
    assert!(text.lines().count() >= 1, "{text}");
}

#[test]
fn an_option_is_in_force_everywhere_when_it_is_answered() {
    let mut cluster = Cluster::new(8);
    cluster.workers(2);
    cluster.grow(3);
    // One connection on each worker of each node.
    let mut clients: Vec<Client> = (0..6).map(|number| cluster.client(number % 3)).collect();
    for round in 0..40 {
        let (limit, encoding) = if round % 2 == 0 {
            ("1", "hashtable")
        } else {
            ("8", "listpack")
        };
        let setter = round % clients.len();
        clients[setter].run_ok(&format!("CONFIG SET hash-max-listpack-entries {limit}"));
        for (number, client) in clients.iter_mut().enumerate() {
            let known = client.run("CONFIG GET hash-max-listpack-entries");
            let Value::Array(words) = known else {
                panic!("{known:?}");
            };
            assert_eq!(
                words[1].text().as_deref(),
                Some(limit),
                "round {round}, client {number}"
            );
            let key = format!("{round}:{number}");
            assert_eq!(client.run(&format!("HSET {key} a 1 b 2")), Value::Integer(2));
            let shown = client.run(&format!("OBJECT ENCODING {key}")).text();
            assert_eq!(shown.as_deref(), Some(encoding), "round {round}, client {number}");
        }
    }
}

#[test]
fn info_knows_the_keys_of_all_groups_as_they_are() {
    let mut cluster = Cluster::new(8);
    cluster.workers(2);
    cluster.grow(3);
    let mut clients: Vec<Client> = (0..6).map(|number| cluster.client(number % 3)).collect();
    for round in 0..30 {
        let (writer, reader) = (round % 6, (round + 1 + round / 6) % 6);
        for key in 0..8 {
            clients[writer].run_ok(&format!("SET {key} x"));
        }
        let shown = clients[reader].run("INFO keyspace").text();
        assert_eq!(
            shown.as_deref(),
            Some("# Keyspace\r\ndb0:keys=8,expires=0,avg_ttl=0\r\n"),
            "round {round}"
        );
        clients[writer].run_ok("FLUSHDB");
        let shown = clients[reader].run("INFO keyspace").text();
        assert_eq!(shown.as_deref(), Some("# Keyspace\r\n"), "round {round}");
    }
}

#[test]
fn messages_and_clients_are_counted_on_all_nodes() {
    let cluster = LocalCluster::start(3, &[]);
    let mut listeners: Vec<Client> = (1..=3).map(|node| cluster.client(node)).collect();
    for listener in &mut listeners {
        listener.run("SUBSCRIBE news");
    }
    let mut asker = cluster.client(2);
    eventually("all of them are reached", || {
        asker.run("PUBLISH news hello") == Value::Integer(3)
    });
    let text = asker.run("CLIENT LIST TYPE pubsub").text().expect("it is a text");
    assert_eq!(text.lines().count(), 3, "{text}");
    let id = |line: &str| line.split(' ').next().map(str::to_owned);
    let ids: std::collections::BTreeSet<_> = text.lines().map(id).collect();
    assert_eq!(ids.len(), 3, "{text}");
    for listener in &mut listeners {
        let message = listener.receive().expect("the message comes");
        assert!(format!("{message:?}").contains("message"), "{message:?}");
    }
    // Whoever is killed from another node is gone.
    assert_eq!(asker.run("CLIENT KILL TYPE pubsub"), Value::Integer(3));
    for listener in &mut listeners {
        eventually("the connection is closed", || listener.receive().is_err());
    }
}

/// Clients of the cluster endpoints of three nodes.
fn cluster_clients(cluster: &Cluster) -> Vec<Client> {
    (0..3)
        .map(|node| Client::connect(cluster.cluster_address(node)).expect("the cluster endpoint is open"))
        .collect()
}

#[test]
fn nodes_that_are_linked_are_shown_as_connected_and_lately_heard_of() {
    let mut cluster = Cluster::start(3, 8);
    let mut clients = cluster_clients(&cluster);
    let others = |client: &mut Client| -> Vec<Vec<String>> {
        let text = client.run("CLUSTER NODES").text().expect("a list of nodes");
        let lines = text.lines().filter(|line| !line.contains("myself"));
        lines
            .map(|line| line.split(' ').map(str::to_owned).collect())
            .collect()
    };
    for client in &mut clients {
        eventually("both others are connected and lately heard of", || {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("it is after 1970");
            let others = others(client);
            let is_heard = |fields: &Vec<String>| {
                let pong: u128 = fields[5].parse().expect("a time");
                fields[4] == "0" && fields[7] == "connected" && now.as_millis().abs_diff(pong) < 10_000
            };
            others.len() == 2 && others.iter().all(is_heard)
        });
        let links = client.run("CLUSTER LINKS");
        let links = links.elements().expect("a list of links");
        let mut named: Vec<String> = links
            .iter()
            .map(|link| link.elements().expect("pairs")[3].text().expect("a name"))
            .collect();
        let mut names: Vec<String> = others(client)
            .into_iter()
            .map(|mut fields| fields.remove(0))
            .collect();
        named.sort();
        names.sort();
        assert_eq!(named, names);
    }
    let third = clients[2].run("CLUSTER MYID").text().expect("a name");
    cluster.kill(2);
    eventually("the node that is gone is shown as disconnected", || {
        let lines = others(&mut clients[0]);
        let gone = lines.iter().find(|fields| fields[0] == third);
        gone.is_some_and(|fields| fields[7] == "disconnected")
    });
    assert_eq!(
        clients[0].run("CLUSTER LINKS").elements().map(<[Value]>::len),
        Some(1)
    );
}

#[test]
fn cluster_clients_that_add_up_the_answers_of_all_nodes_count_each_thing_once() {
    let cluster = Cluster::start(3, 8);
    let mut listeners: Vec<Client> = (0..3).map(|node| cluster.client(node)).collect();
    for listener in &mut listeners {
        listener.run("SUBSCRIBE news");
    }
    listeners[0].run("PSUBSCRIBE n*");
    listeners[1].run("SSUBSCRIBE shard");
    let mut clients = cluster_clients(&cluster);
    let mut sum = |words: &str, at: usize| -> i64 {
        let replies = clients.iter_mut().map(|client| client.run(words));
        replies
            .map(|reply| match &reply {
                Value::Integer(number) => *number,
                Value::Array(items) if at == 0 => items.len() as i64,
                Value::Array(items) => items[at].integer().expect("a count"),
                text => text.text().expect("a list").lines().count() as i64,
            })
            .sum()
    };
    assert_eq!(sum("PUBSUB NUMSUB news", 1), 3);
    assert_eq!(sum("PUBSUB SHARDNUMSUB shard", 1), 1);
    assert_eq!(sum("PUBSUB SHARDCHANNELS", 0), 1);
    assert_eq!(sum("PUBSUB NUMPAT", 0), 1);
    assert_eq!(sum("CLIENT LIST TYPE pubsub", 0), 3);
    // By any node's other port everything is counted at once.
    for node in 0..3 {
        let mut client = cluster.client(node);
        let counts = client.run("PUBSUB NUMSUB news");
        assert_eq!(
            counts.elements().map(|items| items[1].clone()),
            Some(Value::Integer(3))
        );
        let list = client.run("CLIENT LIST TYPE pubsub").text().expect("a list");
        assert_eq!(list.lines().count(), 3);
    }
}

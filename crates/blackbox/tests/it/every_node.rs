//! Commands that concern every node of a cluster. Tested whatever server the other tests run on.

use blackbox::{Client, LocalCluster, Value, eventually};

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
        eventually("the node has the option", || {
            maxmemory(&mut cluster.client(node)).as_deref() == Some("209715200")
        });
    }
    cluster.type_line("add");
    eventually("the new node has the option", || {
        Client::connect(cluster.address(3))
            .is_ok_and(|mut client| maxmemory(&mut client).as_deref() == Some("209715200"))
    });
    cluster.client(3).run_ok("CONFIG SET maxmemory 0");
    eventually("the first node has it too", || {
        maxmemory(&mut cluster.client(1)).as_deref() == Some("0")
    });
    let text = cluster.client(2).run("CLIENT LIST").text().expect("it is a text");
    assert!(text.lines().count() >= 1, "{text}");
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

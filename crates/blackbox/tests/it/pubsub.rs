//! Channels: what publishers and subscribers on any worker may rely on.

use blackbox::{Client, Server, Value, eventually};

/// Enough clients that each of two workers has some.
const CLIENTS: usize = 4;

fn start() -> Server {
    Server::subject().workers(2).start()
}

fn clients(server: &Server) -> Vec<Client> {
    (0..CLIENTS).map(|_| server.client()).collect()
}

fn words(words: &[&str]) -> Vec<Value> {
    words.iter().map(Value::bulk).collect()
}

fn array(text: &[&str]) -> Value {
    Value::Array(words(text))
}

fn push(text: &[&str]) -> Value {
    Value::Push(words(text))
}

fn counted(what: &str, name: &str, count: i64) -> Vec<Value> {
    let mut reply = words(&[what, name]);
    reply.push(Value::Integer(count));
    reply
}

#[track_caller]
fn next(client: &mut Client) -> Value {
    client.receive().expect("something is sent")
}

#[test]
fn a_message_reaches_every_listener_on_every_worker_and_is_counted() {
    let server = start();
    let mut listeners = clients(&server);
    for listener in &mut listeners {
        assert_eq!(
            listener.run("SUBSCRIBE news"),
            Value::Array(counted("subscribe", "news", 1))
        );
    }
    for mut publisher in clients(&server) {
        assert_eq!(
            publisher.run("PUBLISH news hello"),
            Value::Integer(CLIENTS as i64)
        );
        assert_eq!(publisher.run("PUBLISH other hello"), Value::Integer(0));
        for listener in &mut listeners {
            assert_eq!(next(listener), array(&["message", "news", "hello"]));
        }
    }
}

#[test]
fn patterns_and_channels_each_bring_the_message() {
    let server = start();
    let mut publisher = server.client();
    for mut listener in clients(&server) {
        listener.run("SUBSCRIBE news.sport");
        assert_eq!(
            listener.run("PSUBSCRIBE news.*"),
            Value::Array(counted("psubscribe", "news.*", 2))
        );
        assert_eq!(publisher.run("PUBLISH news.sport goal"), Value::Integer(2));
        assert_eq!(next(&mut listener), array(&["message", "news.sport", "goal"]));
        assert_eq!(
            next(&mut listener),
            array(&["pmessage", "news.*", "news.sport", "goal"])
        );
        listener.run("RESET");
    }
    assert_eq!(publisher.run("PUBLISH news.sport goal"), Value::Integer(0));
}

#[test]
fn shard_channels_are_another_space_of_names() {
    let server = start();
    let mut publisher = server.client();
    for mut listener in clients(&server) {
        listener.run("PSUBSCRIBE *");
        assert_eq!(
            listener.run("SSUBSCRIBE c"),
            Value::Array(counted("ssubscribe", "c", 1))
        );
        assert_eq!(publisher.run("SPUBLISH c x"), Value::Integer(1));
        assert_eq!(next(&mut listener), array(&["smessage", "c", "x"]));
        assert_eq!(publisher.run("PUBLISH c y"), Value::Integer(1));
        assert_eq!(next(&mut listener), array(&["pmessage", "*", "c", "y"]));
        assert_eq!(publisher.run("PUBSUB SHARDCHANNELS"), array(&["c"]));
        assert_eq!(
            publisher.run("PUBSUB SHARDNUMSUB c d"),
            Value::Array(vec![
                Value::bulk("c"),
                Value::Integer(1),
                Value::bulk("d"),
                Value::Integer(0)
            ])
        );
        assert_eq!(publisher.run("PUBSUB CHANNELS"), Value::Array(vec![]));
        listener.run("SUNSUBSCRIBE");
        listener.run("PUNSUBSCRIBE");
    }
}

#[test]
fn messages_of_one_publisher_keep_their_order_and_their_frames() {
    const COUNT: usize = 5_000;
    let server = start();
    let mut listeners = clients(&server);
    for listener in &mut listeners {
        listener.run("SUBSCRIBE numbers");
    }
    let mut publisher = server.client();
    let commands: Vec<Vec<String>> = (0..COUNT)
        .map(|number| vec!["PUBLISH".to_owned(), "numbers".to_owned(), number.to_string()])
        .collect();
    let replies = publisher.pipeline(&commands);
    assert!(
        replies
            .iter()
            .all(|reply| *reply == Value::Integer(CLIENTS as i64))
    );
    for listener in &mut listeners {
        for number in 0..COUNT {
            assert_eq!(
                next(listener),
                array(&["message", "numbers", &number.to_string()])
            );
        }
    }
}

#[test]
fn replies_and_messages_of_one_client_never_mix() {
    let server = start();
    for (number, mut client) in clients(&server).into_iter().enumerate() {
        // A channel of its own: the client before it is gone, but the server may not have noticed yet, and count it.
        let me = &format!("me:{number}");
        client.run("HELLO 3");
        assert_eq!(
            client.run(&format!("SUBSCRIBE {me}")),
            Value::Push(counted("subscribe", me, 1))
        );
        let mut replies = 0;
        let mut messages = 0;
        for round in 0..200 {
            client.send(&["SET", &format!("key:{round}"), "x"]).unwrap();
            client.send(&["PUBLISH", me, &round.to_string()]).unwrap();
            client.send(&["MGET", "key:0", "key:1", "key:2"]).unwrap();
        }
        while replies < 600 || messages < 200 {
            match next(&mut client) {
                Value::Push(message) => {
                    assert_eq!(message, words(&["message", me, &messages.to_string()]));
                    messages += 1;
                }
                Value::Array(values) => {
                    assert_eq!(values.len(), 3);
                    replies += 1;
                }
                other => {
                    assert!(
                        other == Value::ok() || other == Value::Integer(1),
                        "unexpected {other:?}"
                    );
                    replies += 1;
                }
            }
        }
    }
}

#[test]
fn a_subscribed_client_of_resp2_may_only_do_what_concerns_subscriptions() {
    let server = start();
    for mut client in clients(&server) {
        client.run("SUBSCRIBE a");
        assert_eq!(
            client.run("GET k").error().unwrap(),
            "ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        );
        assert_eq!(client.run("PING"), array(&["pong", ""]));
        assert_eq!(client.run("PING hey"), array(&["pong", "hey"]));
        assert_eq!(
            client.run("UNSUBSCRIBE a"),
            Value::Array(counted("unsubscribe", "a", 0))
        );
        assert_eq!(client.run("PING"), Value::Simple(b"PONG".to_vec()));
        assert_eq!(
            client.run("UNSUBSCRIBE"),
            Value::Array(vec![
                Value::bulk("unsubscribe"),
                Value::NullBulk,
                Value::Integer(0)
            ])
        );
    }
}

#[test]
fn who_leaves_hears_nothing_more() {
    let server = start();
    let mut publisher = server.client();
    for mut client in clients(&server) {
        client.run("SUBSCRIBE a b");
        assert_eq!(next(&mut client), Value::Array(counted("subscribe", "b", 2)));
        client.run("UNSUBSCRIBE a");
        assert_eq!(publisher.run("PUBLISH a x"), Value::Integer(0));
        assert_eq!(publisher.run("PUBLISH b y"), Value::Integer(1));
        assert_eq!(next(&mut client), array(&["message", "b", "y"]));
        drop(client);
        eventually("a closed connection listens no more", || {
            publisher.run("PUBLISH b z") == Value::Integer(0)
        });
        assert_eq!(publisher.run("PUBSUB CHANNELS"), Value::Array(vec![]));
    }
    assert_eq!(publisher.info_number("stats", "pubsub_channels"), 0);
}

#[test]
fn subscribing_and_publishing_inside_exec_happens_when_it_is_carried_out() {
    let server = start();
    let mut listeners = clients(&server);
    for listener in &mut listeners {
        listener.run("SUBSCRIBE news");
    }
    for mut client in clients(&server) {
        client.run("HELLO 3");
        client.run_ok("MULTI");
        // Keys of several workers, so that the transaction takes more than one step.
        for index in 0..8 {
            client.run(&format!("SET key:{index} x"));
        }
        client.run("SUBSCRIBE mine");
        client.run("PUBLISH news hello");
        client.run("PUBLISH mine hello");
        let mut expected = vec![Value::ok(); 8];
        expected.push(Value::Push(counted("subscribe", "mine", 1)));
        expected.push(Value::Integer(CLIENTS as i64));
        if server.is_redis() {
            return;
        }
        expected.push(Value::Integer(1));
        assert_eq!(client.run("EXEC"), Value::Array(expected));
        assert_eq!(next(&mut client), push(&["message", "mine", "hello"]));
        for listener in &mut listeners {
            assert_eq!(next(listener), array(&["message", "news", "hello"]));
        }
        client.run("RESET");
    }
}

#[test]
fn others_see_who_listens() {
    let server = start();
    let mut asker = server.client();
    let mut listener = server.client();
    listener.run("HELLO 3");
    listener.run("SUBSCRIBE a");
    listener.run("PSUBSCRIBE b*");
    listener.run("SSUBSCRIBE c");
    let list = asker.run("CLIENT LIST TYPE pubsub").text().unwrap();
    assert_eq!(list.lines().count(), 1, "{list}");
    assert!(
        list.contains("flags=P ") && list.contains(" sub=1 psub=1 ssub=1 "),
        "{list}"
    );
    for field in ["pubsub_channels", "pubsub_patterns"] {
        assert_eq!(asker.info_number("stats", field), 1, "{field}");
    }
    assert_eq!(asker.run("PUBSUB NUMPAT"), Value::Integer(1));
    assert_eq!(asker.run("CLIENT KILL TYPE pubsub"), Value::Integer(1));
    assert!(listener.receive().is_err(), "it was closed");
    eventually("nobody listens", || {
        asker.run("PUBSUB NUMPAT") == Value::Integer(0)
    });
}

#[test]
fn a_listener_that_does_not_read_is_closed_at_the_limit_of_its_class() {
    let server = start();
    let mut publisher = server.client();
    publisher.command(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0"]);
    let mut listeners = clients(&server);
    for listener in &mut listeners {
        listener.run("SUBSCRIBE much");
    }
    let message = "x".repeat(100_000);
    // It reads none of them; the sockets' own buffers hold some megabytes.
    eventually("all are closed", || {
        publisher.command(&["PUBLISH", "much", &message]) == Value::Integer(0)
    });
    assert!(server.resident_bytes() < 400 << 20);
}

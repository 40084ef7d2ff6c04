//! `DUMP` and `RESTORE`: what Redis gives is taken here, and what is given here is taken by Redis.

use blackbox::{Client, Cluster, Server, Value};

/// Keys of every type, small and large, and how to read them.
fn fill(client: &mut Client) -> Vec<(String, String)> {
    let mut keys = Vec::new();
    let mut key = |name: &str, read: &str| keys.push((name.to_owned(), read.replace("KEY", name)));
    let long = "again and again ".repeat(500);
    for (name, value) in [
        ("short", "v"),
        ("number", "-12345678901"),
        ("small", "7"),
        ("long", &long),
        ("empty", ""),
    ] {
        assert_eq!(client.command(&["SET", name, value]), Value::ok());
        key(name, "GET KEY");
    }
    for (kind, count) in [("few", 5), ("many", 3_000)] {
        let name = |of: &str| format!("{of}:{kind}");
        for at in 0..count {
            let [text, value] = [format!("m{at}"), format!("{}{at}", "v".repeat(at % 90))];
            let number = (at * 70_001).to_string();
            let score = ["-inf", "1.5", "17", "-0.25", "inf", "3e100"][at % 6];
            client.command(&["RPUSH", &name("list"), &value, &number]);
            client.command(&["SADD", &name("set"), &text, &value]);
            client.command(&["SADD", &name("numbers"), &number]);
            client.command(&["HSET", &name("hash"), &text, &value, &number, &number]);
            client.command(&["ZADD", &name("sorted"), score, &text]);
            let id = format!("{}-{}", 1_000 + at / 3, at % 3 + 1);
            client.command(&["XADD", &name("stream"), &id, "field", &value, "n", &number]);
            if at % 7 == 0 {
                client.command(&[
                    "XADD",
                    &name("stream"),
                    &format!("{}-9", 1_000 + at / 3),
                    "other",
                    &text,
                ]);
                client.command(&["XDEL", &name("stream"), &id]);
            }
        }
        for group in ["one", "two"] {
            client.command(&["XGROUP", "CREATE", &name("stream"), group, "0"]);
            client.command(&["XGROUP", "CREATECONSUMER", &name("stream"), group, "idle"]);
            for consumer in ["a", "b"] {
                let words = [
                    "XREADGROUP",
                    "GROUP",
                    group,
                    consumer,
                    "COUNT",
                    "40",
                    "STREAMS",
                    &name("stream"),
                    ">",
                ];
                client.command(&words);
            }
        }
        client.command(&["XACK", &name("stream"), "one", "1000-1", "1000-2"]);
        key(&name("list"), "LRANGE KEY 0 -1");
        key(&name("set"), "SORT KEY ALPHA");
        key(&name("numbers"), "SORT KEY");
        key(&name("hash"), "HGETALL KEY");
        key(&name("sorted"), "ZRANGE KEY 0 -1 WITHSCORES");
        key(&name("stream"), "XRANGE KEY - +");
        for asked in [
            "XPENDING KEY one",
            "XPENDING KEY one - + 100",
            "XPENDING KEY two - + 100 b",
            "XLEN KEY",
        ] {
            key(&name("stream"), asked);
        }
    }
    keys
}

/// What is read, in an order that is the same everywhere; how long something is pending goes on while one looks.
fn read(client: &mut Client, words: &str) -> String {
    let reply = client.run(words);
    let of_pairs = |reply: &[Value]| {
        let mut pairs: Vec<String> = reply.chunks(2).map(|pair| format!("{pair:?}")).collect();
        pairs.sort();
        pairs.join("\n")
    };
    match &reply {
        Value::Array(all) if words.starts_with("HGETALL") => of_pairs(all),
        Value::Array(all) if words.contains("- + 100") => {
            let shown = all.iter().map(|pending| match pending {
                Value::Array(fields) => format!("{:?} {:?} {:?}", fields[0], fields[1], fields[3]),
                other => panic!("{other:?}"),
            });
            shown.collect::<Vec<_>>().join("\n")
        }
        reply => format!("{reply:?}"),
    }
}

fn dump(client: &mut Client, key: &str) -> Vec<u8> {
    match client.command(&["DUMP", key]) {
        Value::Bulk(payload) => payload.to_vec(),
        other => panic!("no payload of {key}: {other:?}"),
    }
}

fn restore(client: &mut Client, key: &str, ttl: &str, payload: &[u8], more: &[&str]) -> Value {
    let mut words: Vec<&[u8]> = vec![b"RESTORE", key.as_bytes(), ttl.as_bytes(), payload];
    words.extend(more.iter().map(|word| word.as_bytes()));
    client.command(&words)
}

/// All keys of one are made anew by the other, and are what they were.
fn carry_over(from: &mut Client, to: &mut Client, keys: &[(String, String)]) {
    to.run_ok("FLUSHALL");
    for (key, words) in keys {
        let payload = dump(from, key);
        assert_eq!(
            restore(to, key, "0", &payload, &["REPLACE"]),
            Value::ok(),
            "{key}"
        );
        assert_eq!(read(to, words), read(from, words), "{words}");
    }
}

#[test]
fn values_go_from_redis_to_here_and_back() {
    there_and_back(false);
}

#[test]
fn values_go_from_redis_to_here_and_back_with_everything_carried_out_aside() {
    there_and_back(true);
}

fn there_and_back(all_aside: bool) {
    let subject = Server::subject().workers(2).groups(16);
    let subject = subject.flag("enable-debug-command", "yes").start();
    let reference = Server::reference().start();
    let (mut ours, mut theirs) = (subject.client(), reference.client());
    if all_aside {
        ours.run_ok("DEBUG SET-STEPS-MAX 0");
    }
    for limits in [
        "",
        "CONFIG SET hash-max-listpack-entries 4 set-max-intset-entries 4 zset-max-listpack-entries 4 list-max-listpack-size 3",
    ] {
        if !limits.is_empty() {
            for client in [&mut ours, &mut theirs] {
                client.run_ok(limits);
            }
        }
        theirs.run_ok("FLUSHALL");
        let keys = fill(&mut theirs);
        carry_over(&mut theirs, &mut ours, &keys);
        let encoding = |client: &mut Client, key: &str| client.run(&format!("OBJECT ENCODING {key}"));
        let restored: Vec<Value> = keys.iter().map(|(key, _)| encoding(&mut ours, key)).collect();
        // What Redis has is gone, so that what it has then came from here.
        carry_over(&mut ours, &mut theirs, &keys);
        ours.run_ok("FLUSHALL");
        let again = fill(&mut ours);
        assert_eq!(again, keys);
        for ((key, _), restored) in keys.iter().zip(restored) {
            assert_eq!(
                encoding(&mut ours, key),
                restored,
                "{key} is kept as if it had been written here"
            );
        }
        carry_over(&mut ours, &mut theirs, &keys);
    }
}

#[test]
fn what_restore_says_is_what_redis_says() {
    let subject = Server::subject().start();
    let reference = Server::reference().start();
    let (mut ours, mut theirs) = (subject.client(), reference.client());
    theirs.run_ok("SET key value");
    let payload = dump(&mut theirs, "key");
    let mut wrong = payload.clone();
    *wrong.last_mut().expect("it has a sum") ^= 1;
    let asked: &[(&str, &[u8], &[&str])] = &[
        ("0", &payload, &[]),
        ("0", &payload, &[]),
        ("0", &payload, &["REPLACE"]),
        ("-1", &payload, &["REPLACE"]),
        ("x", &payload, &["REPLACE"]),
        ("0", &payload, &["replace", "absttl", "freq", "7"]),
        ("0", &payload, &["REPLACE", "FREQ", "256"]),
        ("0", &payload, &["REPLACE", "IDLETIME", "-1"]),
        ("0", &payload, &["REPLACE", "IDLETIME"]),
        ("0", &payload, &["REPLACE", "IDLETIME", "3", "FREQ", "3"]),
        ("0", &wrong, &["REPLACE", "FREQ", "3", "IDLETIME", "3"]),
        ("9223372036854775807", &payload, &[]),
        ("9223372036854775807", &wrong, &["REPLACE"]),
        ("0", &payload, &["REPLACE", "NOSUCH"]),
        ("1", &payload, &["ABSTTL"]),
        ("1", &payload, &["ABSTTL", "REPLACE"]),
        ("0", &wrong, &[]),
        ("0", &wrong, &["REPLACE"]),
        ("0", &payload[1..], &["REPLACE"]),
        ("0", b"", &["REPLACE"]),
    ];
    for (ttl, payload, more) in asked {
        let said = [&mut ours, &mut theirs].map(|client| restore(client, "copy", ttl, payload, more));
        assert_eq!(said[0], said[1], "{ttl} {more:?}");
        let is_there = [&mut ours, &mut theirs].map(|client| client.run("GET copy"));
        assert_eq!(is_there[0], is_there[1], "{ttl} {more:?}");
    }
    let forty = 40_000.to_string();
    for client in [&mut ours, &mut theirs] {
        assert_eq!(
            restore(client, "copy", &forty, &payload, &["REPLACE", "IDLETIME", "500"]),
            Value::ok()
        );
        let left = client.run("PTTL copy");
        assert!(matches!(left, Value::Integer(30_000..=40_000)), "{left:?}");
        let idle = client.run("OBJECT IDLETIME copy");
        assert!(matches!(idle, Value::Integer(500..=520)), "{idle:?}");
        assert_eq!(client.run("DUMP none"), Value::NullBulk);
        // It is a command like others.
        client.run_ok("MULTI");
        restore(client, "block", "0", &payload, &[]);
        client.run("GET block");
    }
    assert_eq!(ours.run("EXEC"), theirs.run("EXEC"));
    let script =
        "return {redis.call('RESTORE', KEYS[1], 0, redis.call('DUMP', KEYS[2])), redis.call('GET', KEYS[1])}";
    for client in [&mut ours, &mut theirs] {
        let reply = client.command(&["EVAL", script, "2", "scripted", "copy"]);
        assert_eq!(reply, Value::Array(vec![Value::ok(), Value::bulk("value")]));
    }
}

#[test]
fn any_node_gives_and_takes_payloads_of_any_key() {
    let cluster = Cluster::start(3, 12);
    let mut clients: Vec<Client> = (0..3).map(|node| cluster.client(node)).collect();
    let keys = fill(&mut clients[0]);
    for (at, (key, words)) in keys.iter().enumerate() {
        let payload = dump(&mut clients[at % 3], key);
        let before = read(&mut clients[0], words);
        let copy = format!("copy:{key}");
        assert_eq!(
            restore(&mut clients[(at + 1) % 3], &copy, "0", &payload, &["REPLACE"]),
            Value::ok()
        );
        let words = words.replacen(key.as_str(), &copy, 1);
        assert_eq!(read(&mut clients[(at + 2) % 3], &words), before, "{words}");
    }
}

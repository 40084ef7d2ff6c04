//! Keys with a deadline go when it comes, whether somebody looks or not.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use blackbox::{Client, Server, Value, eventually};

/// Long enough that the reply to the command itself arrives before, short enough to wait for.
const SHORT: Duration = Duration::from_millis(300);

fn now_millis() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970")
        .as_millis()
}

/// Runs `give_deadline` on an existing key `k`, then checks that the key is there before [`SHORT`] is over and gone after.
fn dies_by(client: &mut Client, give_deadline: &str, read: &str) {
    client.run_ok("SET k v");
    let start = Instant::now();
    let reply = client.run(give_deadline);
    assert!(reply.error().is_none(), "{give_deadline}: {reply:?}");
    let mut seen = false;
    eventually(&format!("the key of {give_deadline} is gone for {read}"), || {
        let gone = matches!(client.run(read), Value::NullBulk | Value::Integer(0 | -2));
        let early = start.elapsed() < SHORT - Duration::from_millis(100);
        assert!(
            !(gone && early),
            "{give_deadline}: gone after {:?}",
            start.elapsed()
        );
        seen |= !gone;
        gone
    });
    assert!(seen || start.elapsed() > SHORT, "{give_deadline}: never there");
    assert_eq!(client.run("EXISTS k"), Value::Integer(0));
    assert_eq!(client.run("TTL k"), Value::Integer(-2));
}

#[test]
fn every_way_to_give_a_deadline_ends_the_key_when_it_comes() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    let short = SHORT.as_millis();
    for (command, read) in [
        (format!("SET k v PX {short}"), "GET k"),
        (format!("PSETEX k {short} v"), "STRLEN k"),
        (format!("PEXPIRE k {short}"), "EXISTS k"),
        (format!("GETEX k PX {short}"), "GET k"),
    ] {
        dies_by(&mut client, &command, read);
    }
    for (command, read) in [
        ("SET k v PXAT", "GET k"),
        ("PEXPIREAT k", "PTTL k"),
        ("GETEX k PXAT", "EXISTS k"),
    ] {
        let instant = now_millis() + short;
        dies_by(&mut client, &format!("{command} {instant}"), read);
    }
}

#[test]
fn whole_seconds_are_kept_whole() {
    let server = Server::subject().start();
    let mut client = server.client();
    let start = Instant::now();
    for (key, command) in [
        ("a", "SET a v EX 1"),
        ("b", "SETEX b 1 v"),
        ("c", "SET c v"),
        ("d", "SET d v"),
    ] {
        client.run_ok(command);
        assert_eq!(client.run(&format!("EXISTS {key}")), Value::Integer(1));
    }
    assert_eq!(client.run("EXPIRE c 1"), Value::Integer(1));
    assert_eq!(client.run("GETEX d EX 1"), Value::bulk("v"));
    eventually("four keys are gone after a second", || {
        client.run("EXISTS a b c d") == Value::Integer(0)
    });
    assert!(
        start.elapsed() >= Duration::from_millis(990),
        "gone after {:?}",
        start.elapsed()
    );
}

#[test]
fn keys_nobody_touches_leave_the_database_by_themselves() {
    let server = Server::subject().workers(2).groups(64).start();
    let mut client = server.client();
    let mut commands: Vec<Vec<String>> = (0..5_000)
        .map(|index| {
            ["SET", &format!("dies:{index}"), "v", "PX", "200"]
                .map(str::to_owned)
                .to_vec()
        })
        .collect();
    commands.extend((0..100).map(|index| {
        ["SET", &format!("lives:{index}"), "v"]
            .map(str::to_owned)
            .to_vec()
    }));
    client.pipeline(&commands);
    eventually("DBSIZE falls to the keys that stay", || {
        client.run("DBSIZE") == Value::Integer(100)
    });
    eventually("expired keys are counted", || {
        client.info_number("stats", "expired_keys") >= 5_000
    });
}

#[test]
fn expired_keys_are_invisible_before_they_are_collected() {
    let server = Server::subject().workers(2).start();
    let (mut client, mut other) = (server.client(), server.client());
    for index in 0..50 {
        client.run_ok(&format!("SET dies:{index} v PX 100"));
    }
    eventually("KEYS shows none", || {
        client.run("KEYS dies:*") == Value::Array(Vec::new())
    });
    assert_eq!(other.run("RANDOMKEY"), Value::NullBulk);
    assert_eq!(other.run("SETNX dies:1 new"), Value::Integer(1));
    assert_eq!(other.run("TTL dies:1"), Value::Integer(-1));
    assert_eq!(
        other.run("RENAME dies:2 x").error().as_deref(),
        Some("ERR no such key")
    );
    assert_eq!(other.run("INCR dies:3"), Value::Integer(1));
    assert_eq!(other.run("APPEND dies:4 x"), Value::Integer(1));
    assert_eq!(
        other.run("MGET dies:5 dies:6"),
        Value::Array(vec![Value::NullBulk, Value::NullBulk])
    );
    assert_eq!(other.run("COPY dies:7 y"), Value::Integer(0));
}

#[test]
fn deadlines_travel_with_the_value() {
    let server = Server::subject().workers(2).groups(64).start();
    let mut client = server.client();
    client.run_ok("SET a v PX 400");
    client.run_ok("RENAME a b");
    assert_eq!(client.run("COPY b c"), Value::Integer(1));
    assert_eq!(client.run("COPY b d DB 1"), Value::Integer(1));
    assert_eq!(client.run("MOVE c 2"), Value::Integer(1));
    client.run_ok("SET e v PX 400");
    client.run_ok("SET e w KEEPTTL");
    client.run_ok("SET stays v PX 400");
    assert_eq!(client.run("PERSIST stays"), Value::Integer(1));
    client.run_ok("SET overwritten v PX 400");
    client.run_ok("SET overwritten v");
    eventually("all copies are gone", || {
        let mut left = 0;
        for db in [1, 2, 0] {
            client.run_ok(&format!("SELECT {db}"));
            left += client.run("EXISTS a b c d e").integer().expect("EXISTS counts");
        }
        left == 0
    });
    assert_eq!(client.run("EXISTS stays overwritten"), Value::Integer(2));
}

#[test]
fn a_deadline_in_the_past_deletes_at_once() {
    let server = Server::subject().start();
    let mut client = server.client();
    for command in ["EXPIRE k -1", "PEXPIRE k 0", "EXPIREAT k 1", "PEXPIREAT k 1"] {
        client.run_ok("SET k v");
        assert_eq!(client.run(command), Value::Integer(1), "{command}");
        assert_eq!(client.run("EXISTS k"), Value::Integer(0), "{command}");
        assert_eq!(client.run("DBSIZE"), Value::Integer(0), "{command}");
    }
}

#[test]
fn a_watched_key_that_expires_disturbs_as_redis_says() {
    let server = Server::subject().workers(2).start();
    let (mut client, mut other) = (server.client(), server.client());
    client.run_ok("SET k v PX 100");
    client.run_ok("WATCH k");
    eventually("the key is gone", || other.run("EXISTS k") == Value::Integer(0));
    client.run_ok("MULTI");
    client.run("PING");
    assert_eq!(
        client.run("EXEC"),
        Value::NullArray,
        "the key that was watched is not there any more"
    );
}

//! Keyspace notifications: every change is told once, whichever worker holds the key and however it came about.

use blackbox::{Client, Server, Value};

fn start(events: &str) -> Server {
    let server = Server::subject().workers(2).start();
    server
        .client()
        .command(&["CONFIG", "SET", "notify-keyspace-events", events]);
    server
}

/// Clients that listen to all events of all keys, on both workers.
fn listeners(server: &Server) -> Vec<Client> {
    (0..2)
        .map(|_| {
            let mut client = server.client();
            client.run("PSUBSCRIBE __keyevent@*__:*");
            client
        })
        .collect()
}

/// The next event, as `database:event key`.
#[track_caller]
fn event(listener: &mut Client) -> String {
    let message = listener.receive().expect("an event is told");
    let words: Vec<String> = message
        .elements()
        .expect("an array")
        .iter()
        .map(|word| word.text().expect("a string"))
        .collect();
    assert_eq!(words.len(), 4, "{words:?}");
    let channel = words[2].strip_prefix("__keyevent@").expect("of an event");
    format!("{} {}", channel.replace("__", ""), words[3])
}

#[track_caller]
fn expect(listeners: &mut [Client], words: &str, events: &[&str]) {
    for listener in listeners {
        for expected in events {
            assert_eq!(event(listener), *expected, "after {words}");
        }
    }
}

/// Commands with what they tell. Their keys lie in several groups, of both workers.
const STORY: &[(&str, &[&str])] = &[
    ("SET a 1", &["0:set a"]),
    ("SET a 1 EX 100", &["0:set a", "0:expire a"]),
    ("SET a 2 NX", &[]),
    ("SETNX b 1", &["0:set b"]),
    ("SETEX b 100 1", &["0:set b", "0:expire b"]),
    ("GETSET b 2", &["0:set b"]),
    ("APPEND b x", &["0:append b"]),
    ("SETRANGE b 1 yz", &["0:setrange b"]),
    ("SETRANGE absent 1 {}", &["0:setrange absent"]),
    ("INCR n", &["0:incrby n"]),
    ("DECRBY n 3", &["0:incrby n"]),
    ("INCRBYFLOAT n 1.5", &["0:incrbyfloat n"]),
    ("INCR b", &[]),
    ("GETEX a PERSIST", &["0:persist a"]),
    ("GETEX a PERSIST", &[]),
    ("GETEX a EX 50", &["0:expire a"]),
    ("PERSIST a", &["0:persist a"]),
    ("EXPIRE a 100", &["0:expire a"]),
    ("EXPIRE a 100 NX", &[]),
    ("PEXPIRE a -1", &["0:del a"]),
    ("GETDEL n", &["0:del n"]),
    ("GETDEL n", &[]),
    ("SETBIT bits 7 1", &["0:setbit bits"]),
    ("SETBIT bits 7 1", &[]),
    ("BITFIELD bits SET u8 0 255", &["0:setbit bits"]),
    ("BITFIELD bits GET u8 0", &[]),
    ("BITOP NOT {bits}2 bits", &["0:set {bits}2"]),
    ("BITOP AND {bits}2 {bits}none", &["0:del {bits}2"]),
    ("BITOP NOT far bits", &["0:set far"]),
    ("RENAME b c", &["0:rename_from b", "0:rename_to c"]),
    ("RENAMENX c bits", &[]),
    ("RENAME c c", &[]),
    ("COPY c {c}", &["0:copy_to {c}"]),
    ("COPY c d", &["0:copy_to d"]),
    ("COPY c d", &[]),
    ("COPY c d DB 3 REPLACE", &["3:copy_to d"]),
    ("MOVE c 2", &["0:move_from c", "2:move_to c"]),
    ("DEL absent d nothing", &["0:del absent", "0:del d"]),
    ("UNLINK bits", &["0:del bits"]),
];

/// The same of the commands that Redis has not.
const OWN: &[(&str, &[&str])] = &[
    ("MSET x 10 y 5", &["0:set x", "0:set y"]),
    ("XFER x y 3", &["0:incrby x", "0:incrby y"]),
    ("XFER x y 0", &["0:incrby x", "0:incrby y"]),
    ("XFER x y 100", &[]),
    ("XFER x nobody 1", &[]),
    ("XFER x x 1", &[]),
    ("MSET {x}1 10 {x}2 5", &["0:set {x}1", "0:set {x}2"]),
    ("XFER {x}1 {x}2 1", &["0:incrby {x}1", "0:incrby {x}2"]),
    ("ADD x 1", &["0:incrby x"]),
    ("ADD nobody 1", &[]),
    ("SUB x 1", &["0:incrby x"]),
    ("SUB x none", &[]),
    ("CAS x 7 8", &["0:set x"]),
    ("CAS x 7 9", &[]),
    ("CAS nobody 7 8", &[]),
    ("SET x 9 IFEQ 8 EX 100", &["0:set x", "0:expire x"]),
    ("SET x 9 IFEQ 8", &[]),
];

#[test]
fn every_change_is_told_under_its_name() {
    let server = start("KEA");
    let mut listeners = listeners(&server);
    // Of both workers.
    let mut clients = [server.client(), server.client()];
    for client in &mut clients {
        client.run("FLUSHALL");
        let own = if server.is_redis() { &[][..] } else { OWN };
        for (words, events) in STORY.iter().chain(own) {
            client.run(words);
            // Groups tell of their own keys: what one command tells of several is in no order.
            for listener in &mut listeners {
                let mut told: Vec<String> = events.iter().map(|_| event(listener)).collect();
                let mut expected: Vec<String> = events.iter().map(|&event| event.to_owned()).collect();
                told.sort();
                expected.sort();
                assert_eq!(told, expected, "after {words}");
            }
        }
    }
}

#[test]
fn a_transaction_tells_of_its_changes_once_it_is_committed() {
    let server = start("KEA");
    let mut listeners = listeners(&server);
    let mut clients = [server.client(), server.client()];
    for client in &mut clients {
        client.run("FLUSHALL");
        client.run_ok("MSET a 1 b 2 c 3");
        let mut expected: Vec<String> = ["a", "b", "c"].iter().map(|key| format!("0:set {key}")).collect();
        for listener in &mut listeners {
            let mut told: Vec<String> = (0..3).map(|_| event(listener)).collect();
            told.sort();
            assert_eq!(told, expected);
        }
        assert_eq!(client.run("MSETNX c 1 d 2"), Value::Integer(0));
        assert_eq!(client.run("MSETNX d 1 e 2"), Value::Integer(1));
        for listener in &mut listeners {
            let mut told: Vec<String> = (0..2).map(|_| event(listener)).collect();
            told.sort();
            assert_eq!(told, ["0:set d", "0:set e"]);
        }
        client.run_ok("WATCH a");
        client.run_ok("MULTI");
        client.run("RENAME a z");
        client.run("INCR z");
        client.run("DEL b c d e");
        assert_eq!(client.run("EXEC").elements().unwrap().len(), 3);
        expected = ["0:rename_from a", "0:rename_to z", "0:incrby z"]
            .map(str::to_owned)
            .into();
        expected.extend(["b", "c", "d", "e"].map(|key| format!("0:del {key}")));
        expected.sort();
        for listener in &mut listeners {
            let told: Vec<String> = expected.iter().map(|_| event(listener)).collect();
            let of_z: Vec<&String> = told.iter().filter(|event| event.ends_with(" z")).collect();
            assert_eq!(
                of_z,
                ["0:rename_to z", "0:incrby z"],
                "one key's events keep their order"
            );
            let mut sorted = told.clone();
            sorted.sort();
            assert_eq!(sorted, expected);
        }
        // One that is refused tells nothing: what comes next is what comes next.
        client.run_ok("WATCH z");
        client.run("SET z 1");
        client.run_ok("MULTI");
        client.run("SET y 1");
        client.run("SET x 1");
        assert!(client.run("EXEC").is_null());
        client.run("DEL z");
        expect(&mut listeners, "a refused EXEC", &["0:set z", "0:del z"]);
    }
}

#[test]
fn expired_keys_are_told_of_whoever_finds_them() {
    let server = start("Ex");
    let mut listeners = listeners(&server);
    let mut client = server.client();
    for key in ["a", "b", "c", "d"] {
        client.run(&format!("SET {key} 1 PX 5"));
        expect(&mut listeners, key, &[&format!("0:expired {key}")]);
    }
}

#[test]
fn evicted_keys_are_told_of() {
    let server = start("Ee");
    let mut listeners = listeners(&server);
    let mut client = server.client();
    let value = "x".repeat(1_000);
    for index in 0..200 {
        client.command(&["SET", &format!("key:{index}"), &value]);
    }
    client.run_ok("CONFIG SET maxmemory-policy allkeys-random");
    client.run_ok("CONFIG SET maxmemory 1000000");
    for listener in &mut listeners {
        assert!(event(listener).starts_with("0:evicted key:"));
    }
}

#[test]
fn misses_and_new_keys_are_told_to_those_who_ask() {
    let server = start("Enm");
    let mut listeners = listeners(&server);
    let mut client = server.client();
    for (words, events) in [
        ("GET a", &["0:keymiss a"][..]),
        ("SET a 1", &["0:new a"]),
        ("SET a 2", &[]),
        ("EXISTS a b", &["0:keymiss b"]),
        ("INCR c", &["0:new c"]),
        ("MSET a 1 d 2", &["0:new d"]),
        ("OBJECT ENCODING e", &[]),
        ("GETDEL e", &["0:keymiss e"]),
        ("SET e 1 GET", &["0:keymiss e", "0:new e"]),
    ] {
        client.run(words);
        expect(&mut listeners, words, events);
    }
}

#[test]
fn the_channel_of_a_key_tells_the_event() {
    let server = start("K$");
    let mut listener = server.client();
    listener.run("SUBSCRIBE __keyspace@0__:city:1");
    let mut client = server.client();
    client.run("EXPIRE city:1 5");
    client.run("SET city:1 Berlin EX 100");
    client.run("DEL city:1");
    client.run("APPEND city:1 x");
    for expected in ["set", "append"] {
        let message = listener.receive().expect("an event is told");
        assert_eq!(message.elements().unwrap()[2], Value::bulk(expected));
    }
}

#[test]
fn the_letters_are_shown_in_their_normal_order() {
    let server = Server::subject().start();
    let mut client = server.client();
    for (letters, shown) in [("KEA", "AKE"), ("Kxg", "gxK"), ("mEl", "lEm"), ("", "")] {
        client.command(&["CONFIG", "SET", "notify-keyspace-events", letters]);
        let pairs = client.run("CONFIG GET notify-keyspace-events").pairs().unwrap();
        assert_eq!(pairs[0].1, Value::bulk(shown));
    }
}

//! Every command of the table is answered, whatever the answer: none was forgotten in a dispatch.

use blackbox::{Client, Server, Value};

/// Words with which a command does what it is for, where a row of ones is refused by its parser, would take long, or
/// would end the server.
const WORDS: &[(&str, &str)] = &[
    ("bitfield", "k GET u8 0"),
    ("bitop", "AND k l m"),
    ("blmove", "l k LEFT RIGHT 0.001"),
    ("blmpop", "0.001 1 l LEFT"),
    ("blpop", "l 0.001"),
    ("brpop", "l 0.001"),
    ("brpoplpush", "l k 0.001"),
    ("bzmpop", "0.001 1 z MIN"),
    ("bzpopmax", "z 0.001"),
    ("bzpopmin", "z 0.001"),
    ("client|no-evict", "OFF"),
    ("client|no-touch", "OFF"),
    ("client|request", "019aab00-0000-7000-8000-000000000001"),
    ("client|reply", "ON"),
    ("client|setinfo", "lib-name x"),
    ("command|getkeys", "GET k"),
    ("command|getkeysandflags", "GET k"),
    ("config|set", "timeout 0"),
    ("debug", "SLEEP 0"),
    ("eval", "return{redis.call('INCR',KEYS[1])} 1 k"),
    ("eval_ro", "return{redis.call('GET',KEYS[1])} 1 k"),
    ("geodist", "g a b"),
    ("georadius", "g 1 1 1 km"),
    ("georadius_ro", "g 1 1 1 km"),
    ("georadiusbymember", "g a 1 km"),
    ("georadiusbymember_ro", "g a 1 km"),
    ("geosearch", "g FROMLONLAT 1 1 BYRADIUS 1 km"),
    ("geosearchstore", "h g FROMLONLAT 1 1 BYRADIUS 1 km"),
    ("linsert", "l BEFORE a b"),
    ("lmove", "l k LEFT RIGHT"),
    ("lmpop", "1 l LEFT"),
    ("pfdebug", "ENCODING p"),
    ("shutdown", "ABORT"),
    ("waitaof", "0 0 1"),
    ("zlexcount", "z - +"),
    ("zmpop", "1 z MIN"),
    ("zrangebylex", "z - +"),
    ("zrangestore", "y z 0 1"),
    ("zremrangebylex", "z - +"),
    ("zrevrangebylex", "z + -"),
];

/// A full name as the table has it, and the words of a call.
struct Call {
    name: String,
    words: Vec<String>,
}

/// One call of every command and subcommand.
fn calls(client: &mut Client) -> Vec<Call> {
    fn add(calls: &mut Vec<Call>, entries: &[Value]) {
        for entry in entries {
            let facts = entry.elements().expect("an entry is an array");
            let name = facts[0].text().expect("the first element is the name");
            let arity = facts[1]
                .integer()
                .expect("the second element is the arity")
                .unsigned_abs() as usize;
            let mut words: Vec<String> = name.split('|').map(str::to_owned).collect();
            match WORDS.iter().find(|(other, _)| *other == name) {
                Some((_, tail)) => words.extend(tail.split(' ').map(str::to_owned)),
                None => words.resize(arity.max(words.len()), "1".to_owned()),
            }
            calls.push(Call { name, words });
            let subcommands = facts.last().expect("the last element lists subcommands");
            add(calls, subcommands.elements().expect("subcommands are a list"));
        }
    }
    let mut calls = Vec::new();
    let table = client.run("COMMAND");
    add(&mut calls, table.elements().expect("COMMAND lists entries"));
    calls
}

/// Makes every call on a connection of its own. A server that panics ends, and answers nobody after that.
fn call_every_command(workers: usize) {
    let server = Server::subject().workers(workers).start();
    let mut observer = server.client();
    let calls = calls(&mut observer);
    for (name, _) in WORDS {
        let is_there = calls.iter().any(|call| call.name == *name) || server.is_redis();
        assert!(is_there, "{name} is no command of the table");
    }
    for protocol in [2, 3] {
        for Call { name, words } in &calls {
            // Of two connections, each of two workers has one.
            for _ in 0..workers {
                let mut client = server.client();
                client.run(&format!("HELLO {protocol}"));
                let reply = client.try_command(words);
                assert!(reply.is_ok(), "{name} outside of MULTI: {reply:?}");

                let mut client = server.client();
                client.run(&format!("HELLO {protocol}"));
                client.run_ok("MULTI");
                let reply = client.try_command(words);
                assert!(reply.is_ok(), "{name} inside MULTI: {reply:?}");
                if name != "quit" {
                    let reply = client.try_command(&["EXEC"]);
                    assert!(reply.is_ok(), "EXEC with {name}: {reply:?}");
                }
            }
            assert_eq!(
                observer.run("PING"),
                Value::Simple(b"PONG".to_vec()),
                "after {name}"
            );
        }
    }
}

#[test]
fn every_command_of_the_table_is_answered_by_one_worker() {
    call_every_command(1);
}

#[test]
fn every_command_of_the_table_is_answered_by_two_workers() {
    call_every_command(2);
}

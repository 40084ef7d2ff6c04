//! Functions: libraries are the cluster's, as keys are; what functions answer is what Redis answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::backup::{Cellar, grown, restore, take};
use blackbox::{Client, Cluster, Server, Value, eventually};

fn server() -> Server {
    Server::subject().workers(2).groups(16).start()
}

/// A library whose function `name` returns this.
fn library(library: &str, name: &str, value: &str) -> String {
    format!(
        "#!lua name={library}\nredis.register_function('{name}', function(keys, args) return {value} end)"
    )
}

fn load(client: &mut Client, source: &str) {
    let reply = client.command(&["FUNCTION", "LOAD", "REPLACE", source]);
    assert!(reply.error().is_none(), "{reply:?}");
}

fn error_of(reply: &Value) -> String {
    reply.error().unwrap_or_else(|| panic!("no error: {reply:?}"))
}

#[test]
fn what_is_loaded_at_one_node_is_called_at_another_and_survives_the_death_of_all() {
    let mut cluster = Cluster::new(12);
    cluster.workers(2);
    cluster.flag("durability", "strict");
    cluster.grow(3);
    let write = library("mylib", "put", "redis.call('SET', keys[1], args[1])");
    load(&mut cluster.client(0), &write);
    for node in [1, 2, 0] {
        let mut client = cluster.client(node);
        assert_eq!(client.run(&format!("FCALL put 1 key:{node} {node}")), Value::ok());
        assert_eq!(
            client.run(&format!("GET key:{node}")),
            Value::bulk(node.to_string())
        );
    }
    cluster.kill_all();
    cluster.restart_all();
    for node in 0..3 {
        let mut client = cluster.client(node);
        assert_eq!(client.run(&format!("FCALL put 1 again:{node} x")), Value::ok());
        assert_eq!(client.info_number("memory", "number_of_functions"), 1);
    }
    // Others see no key of it, and nothing that empties databases meets it.
    let mut client = cluster.client(0);
    assert_eq!(client.run("DBSIZE"), Value::Integer(6));
    client.run_ok("FLUSHALL");
    assert_eq!(client.run("DBSIZE"), Value::Integer(0));
    assert_eq!(client.run("FCALL put 1 a b"), Value::ok());
    assert!(error_of(&client.run("SELECT 16")).contains("out of range"));
    // One that is new has it too.
    cluster.flag("durability", "strict");
    cluster.grow(1);
    let mut newcomer = cluster.client(3);
    assert_eq!(newcomer.run("FCALL put 1 c d"), Value::ok());
    newcomer.run_ok("FUNCTION DELETE mylib");
    for node in 0..4 {
        let reply = cluster.client(node).run("FCALL put 1 a b");
        assert!(error_of(&reply).contains("Function not found"), "{reply:?}");
    }
}

#[test]
fn whoever_calls_after_an_answer_runs_what_was_loaded_before_it() {
    let mut cluster = Cluster::new(12);
    cluster.workers(2);
    cluster.grow(3);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Workers everywhere have met the libraries, and are used to the one before.
        for node in 0..3 {
            let (mut client, is_over) = (cluster.client(node), &is_over);
            scope.spawn(move || {
                let mut newest = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let reply = client.run("FCALL version 1 {other}key");
                    let seen = reply.integer().unwrap_or(newest);
                    assert!(seen >= newest, "{seen} after {newest}");
                    newest = seen;
                }
            });
        }
        let mut clients: Vec<Client> = (0..3).map(|node| cluster.client(node)).collect();
        for version in 1..=20 {
            load(
                &mut clients[version % 3],
                &library("lib", "version", &version.to_string()),
            );
            for (node, client) in clients.iter_mut().enumerate() {
                for key in 0..3 {
                    let reply = client.run(&format!("FCALL version 1 key:{key}"));
                    assert_eq!(reply, Value::Integer(version as i64), "at {node}");
                }
                assert_eq!(client.run("FCALL version 0"), Value::Integer(version as i64));
            }
            if version % 5 == 0 {
                clients[(version / 5) % 3].run_ok("FUNCTION DELETE lib");
                for client in &mut clients {
                    assert!(error_of(&client.run("FCALL version 1 key")).contains("not found"));
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_block_sees_the_library_that_it_loads_and_one_that_fails_leaves_none() {
    let server = server();
    let mut client = server.client();
    let source = library("lib", "f", "redis.call('INCR', keys[1])");
    client.run_ok("MULTI");
    client.command(&["FUNCTION", "LOAD", &source]);
    client.run("FCALL f 1 counter");
    client.run("FUNCTION DELETE lib");
    client.run("FCALL f 1 counter");
    let Value::Array(replies) = client.run("EXEC") else {
        panic!("no replies");
    };
    assert_eq!(replies[..3], [Value::bulk("lib"), Value::Integer(1), Value::ok()]);
    assert!(error_of(&replies[3]).contains("Function not found"));
    assert_eq!(client.run("GET counter"), Value::bulk("1"));
    // Nobody sees what an EXEC loads that is not carried out.
    client.run_ok("WATCH counter");
    client.run_ok("MULTI");
    client.command(&["FUNCTION", "LOAD", &source]);
    server.client().run_ok("SET counter 7");
    assert!(!matches!(client.run("EXEC"), Value::Array(_)));
    assert!(error_of(&client.run("FCALL f 1 counter")).contains("Function not found"));
}

#[test]
fn a_function_that_does_not_end_is_told_of_and_killed() {
    let server = server();
    let mut other = server.client();
    assert!(error_of(&other.run("FUNCTION KILL")).starts_with("NOTBUSY"));
    load(
        &mut other,
        "#!lua name=lib\nredis.register_function('endless', function(keys) redis.call('SET', keys[1], 'x') while true do end end)",
    );
    let reply = thread::scope(|scope| {
        let mut client = server.client();
        let endless = scope.spawn(move || client.run("FCALL endless 1 victim"));
        eventually("it is told of", || {
            let stats = format!("{:?}", other.run("FUNCTION STATS"));
            ["endless", "FCALL", "victim", "duration_ms"]
                .iter()
                .all(|word| stats.contains(word))
        });
        assert!(
            error_of(&other.run("SCRIPT KILL")).starts_with("NOTBUSY"),
            "it is no script"
        );
        eventually("it is killed", || other.run("FUNCTION KILL") == Value::ok());
        endless.join().expect("the client does not panic")
    });
    assert!(
        error_of(&reply).contains("killed by user with FUNCTION KILL"),
        "{reply:?}"
    );
    assert_eq!(other.run("EXISTS victim"), Value::Integer(0));
}

#[test]
fn a_backup_has_the_libraries() {
    let cluster = grown(3);
    load(
        &mut cluster.client(0),
        &library("lib", "f", "redis.call('GET', keys[1])"),
    );
    cluster.client(1).run_ok("SET key value");
    let cellar = Cellar::new("functions");
    take(&cluster, 1, &cellar, "kept");
    drop(cluster);
    let into = grown(1);
    restore(&into, &cellar, "kept");
    let mut client = into.client(0);
    assert_eq!(client.run("FCALL f 1 key"), Value::bulk("value"));
    assert_eq!(client.run("DBSIZE"), Value::Integer(1));
}

/// Libraries that are loaded one after the other, and commands, whose replies are Redis's.
const LOADED: &[&str] = &[
    "#!lua name=one\nredis.register_function('f', function(keys, args) return {keys[1], args[1], #keys, #args} end)",
    "#!lua name=one\nredis.register_function('f', function() return 1 end)",
    "#!LUA name=two\nredis.register_function('F', function() return 1 end)",
    "#!lua name=two\nlocal n = redis.REDIS_VERSION_NUM > 0\nredis.register_function{function_name='g', callback=function(keys) return redis.call('GET', keys[1]) end, description='reads', flags={'no-writes'}}",
    "#!lua name=write\nredis.register_function('w', function(keys, args) return redis.call('SET', keys[1], args[1]) end)",
    "#!lua name=three\nredis.register_function('boom', function() error('no') end) redis.register_function('nocall', function() return redis.call('NOSUCH') end) redis.register_function('global', function() x = 1 end) redis.register_function('keys', function() return KEYS end) redis.register_function('late', function() redis.register_function('y', function() end) end)",
    "#!lua name=four\nredis.register_function{function_name='wrongly', callback=function() return redis.call('SET', 'x', '1') end, flags={'no-writes'}}",
    "#!lua name=five\n",
    "#!lua name=five\nx = 1",
    "#!lua name=five\nlocal m = math",
    "#!lua name=five\nredis.call('PING')",
    "#!lua name=five\nredis.setresp(3)",
    "#!lua name=five\nlocal x = nil\nx()",
    "#!lua name=five\nredis.register_function()",
    "#!lua name=five\nredis.register_function('a')",
    "#!lua name=five\nredis.register_function('a', 1)",
    "#!lua name=five\nredis.register_function('a', function() end, 3)",
    "#!lua name=five\nredis.register_function{function_name='a', callback=function() end, flags={'fast'}}",
    "#!lua name=five\nredis.register_function{function_name='a', callback=function() end, flags='no-writes'}",
    "#!lua name=five\nredis.register_function{function_name='a', callback=function() end, other=1}",
    "#!lua name=five\nredis.register_function{callback=function() end}",
    "#!lua name=five\nredis.register_function{function_name='a'}",
    "#!lua name=five\nredis.register_function('a', function() end) redis.register_function('a', function() end)",
    "#!lua name=five\nredis.register_function('a-b', function() end)",
    "#!lua name=five\nbad(",
    "#!lua name=\"six\"\nredis.register_function('six', function() return 6 end)",
    "#!lua",
    "#!lua\n",
    "#!lua name=a-b\n",
    "#!lua name=a name=b\n",
    "#!lua name=a more=b\n",
    "#!js name=a\n",
    "#! name=a\n",
    "return 1",
];

const ASKED: &[&str] = &[
    "FCALL f 1 k a",
    "FCALL F 2 k a",
    "FCALL f 0",
    "FCALL f x",
    "FCALL f -1",
    "FCALL f 2 k",
    "FCALL nosuch x",
    "FCALL f",
    "FCALL w 1 k v",
    "FCALL g 1 k",
    "FCALL_RO g 1 k",
    "FCALL_RO w 1 k v",
    "FCALL_RO wrongly 0",
    "FCALL wrongly 0",
    "FCALL boom 0",
    "FCALL nocall 0",
    "FCALL global 0",
    "FCALL keys 0",
    "FCALL late 0",
    "FCALL six 0",
    "FUNCTION LIST LIBRARYNAME tw*",
    "FUNCTION LIST LIBRARYNAME one WITHCODE",
    "FUNCTION LIST WITHCODE LIBRARYNAME two",
    "FUNCTION LIST LIBRARYNAME",
    "FUNCTION LIST WITHCODE WITHCODE",
    "FUNCTION LIST other",
    "FUNCTION STATS",
    "FUNCTION STATS x",
    "FUNCTION KILL",
    "FUNCTION LOAD",
    "FUNCTION LOAD other x",
    "FUNCTION DELETE nosuch",
    "FUNCTION DELETE One",
    "FUNCTION DELETE one",
    "FUNCTION DELETE one x",
    "FUNCTION RESTORE x",
    "FUNCTION RESTORE x y",
    "FUNCTION RESTORE x FLUSH y",
    "FUNCTION FLUSH NOW",
    "FUNCTION FLUSH SYNC x",
    "FUNCTION NOSUCH",
    "COMMAND GETKEYS FCALL f 2 a b c",
    "EVAL return(redis.call('FUNCTION','LIST')) 0",
    "EVAL return(redis.call('FCALL','six','0')) 0",
    "FUNCTION FLUSH ASYNC",
    "FUNCTION LIST",
    "FUNCTION STATS",
];

#[test]
fn functions_answer_what_redis_answers() {
    let subject = server();
    let reference = Server::reference().start();
    let (mut ours, mut theirs) = (subject.client(), reference.client());
    for protocol in ["2", "3"] {
        for client in [&mut ours, &mut theirs] {
            client.command(&["HELLO", protocol]);
        }
        for source in LOADED {
            let words = ["FUNCTION", "LOAD", source];
            assert_eq!(ours.command(&words), theirs.command(&words), "{source}");
        }
        for words in ASKED {
            assert_eq!(ours.run(words), theirs.run(words), "{words}");
        }
    }
}

#[test]
fn libraries_go_from_redis_to_here_and_back() {
    let subject = server();
    let reference = Server::reference().start();
    let (mut ours, mut theirs) = (subject.client(), reference.client());
    // Long and of one kind, so that Redis compresses it.
    let long = format!(
        "{}\n{}",
        library("long", "l", "7"),
        "-- again and again\n".repeat(400)
    );
    for client in [&mut ours, &mut theirs] {
        load(client, &long);
        load(client, &library("short", "s", "8"));
    }
    let dumps = [&mut ours, &mut theirs].map(|client| match client.run("FUNCTION DUMP") {
        Value::Bulk(payload) => payload,
        other => panic!("no payload: {other:?}"),
    });
    assert!(
        dumps[1].len() < dumps[0].len() / 2,
        "Redis has compressed nothing"
    );
    for dump in &dumps {
        for client in [&mut ours, &mut theirs] {
            let restore: [&[u8]; 3] = [b"FUNCTION", b"RESTORE", dump];
            for (policy, error) in [("APPEND", "ERR Library "), ("", "ERR Library ")] {
                let mut words = restore.to_vec();
                words.extend((!policy.is_empty()).then_some(policy.as_bytes()));
                let reply = client.command(&words);
                assert!(error_of(&reply).starts_with(error), "{reply:?}");
            }
            for policy in ["REPLACE", "FLUSH"] {
                let words = [&restore[..], &[policy.as_bytes()]].concat();
                assert_eq!(client.command(&words), Value::ok());
            }
            client.run_ok("FUNCTION FLUSH");
            assert_eq!(client.command(&restore), Value::ok());
            assert_eq!(client.run("FCALL l 0"), Value::Integer(7));
            assert_eq!(client.run("FCALL s 0"), Value::Integer(8));
        }
    }
    // What is no payload changes nothing, and is called what Redis calls it.
    let mut other = dumps[1].to_vec();
    other[3] ^= 1;
    let words: [&[u8]; 4] = [b"FUNCTION", b"RESTORE", &other, b"FLUSH"];
    assert_eq!(ours.command(&words), theirs.command(&words));
    assert_eq!(ours.run("FCALL s 0"), Value::Integer(8));
}

#[test]
fn libraries_are_told_of_by_no_event_and_are_not_given_up_for_room() {
    let server = server();
    let mut client = server.client();
    let mut listener = server.client();
    client.run_ok("CONFIG SET notify-keyspace-events KEA");
    listener.run("PSUBSCRIBE __key*");
    load(&mut client, &library("lib", "f", "1"));
    client.run_ok("FUNCTION FLUSH");
    load(&mut client, &library("lib", "f", "1"));
    client.run_ok("SET a 1");
    let told = listener.receive().expect("something is told");
    assert!(format!("{told:?}").contains("__keyspace@0__:a"), "{told:?}");
    client.run_ok("CONFIG SET maxmemory-policy allkeys-random");
    client.run_ok("CONFIG SET maxmemory 1");
    client.run("SET b 1");
    assert_eq!(
        client.run("FCALL f 0").integer(),
        None,
        "it may write, and there is no room"
    );
    client.run_ok("CONFIG SET maxmemory 0");
    assert_eq!(client.run("FCALL f 0"), Value::Integer(1));
}

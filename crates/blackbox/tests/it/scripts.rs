//! Scripts: atomic over keys of any groups, on one node and on several; what they answer is what Redis answers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use blackbox::{Client, Cluster, Keys, ListAppend, Mixture, Prng, Server, Value, eventually};

/// Takes from one account what it gives to another, of which only the first is declared.
const TRANSFER: &str = "local from, to, amount = KEYS[1], ARGV[1], tonumber(ARGV[2])
if tonumber(redis.call('GET', from) or '0') < amount then return redis.error_reply('NOFUNDS') end
redis.call('DECRBY', from, amount)
return redis.call('INCRBY', to, amount)";

const ACCOUNTS: usize = 8;

fn server() -> Server {
    Server::subject().workers(2).groups(16).start()
}

fn eval(client: &mut Client, script: &str, keys: &[&str], argv: &[&str]) -> Value {
    let count = keys.len().to_string();
    let mut words = vec!["EVAL", script, &count];
    words.extend(keys);
    words.extend(argv);
    client.command(&words)
}

fn error_of(reply: &Value) -> String {
    reply.error().unwrap_or_else(|| panic!("no error: {reply:?}"))
}

fn sum(client: &mut Client) -> i64 {
    let accounts: Vec<String> = (0..ACCOUNTS)
        .map(|account| format!("account:{account}"))
        .collect();
    let total = "local sum = 0
        for i = 1, #ARGV do sum = sum + tonumber(redis.call('GET', ARGV[i])) end
        return sum";
    let accounts: Vec<&str> = accounts.iter().map(String::as_str).collect();
    let reply = eval(client, total, &[], &accounts);
    reply.integer().unwrap_or_else(|| panic!("no sum: {reply:?}"))
}

/// Clients at these nodes move money between accounts while others add it up.
fn transfers_keep_the_sum(clients: &dyn Fn(usize) -> Client, rounds: usize) {
    let mut first = clients(0);
    for account in 0..ACCOUNTS {
        first.run_ok(&format!("SET account:{account} 1000"));
    }
    thread::scope(|scope| {
        for number in 0..4 {
            let mut client = clients(number);
            scope.spawn(move || {
                let mut prng = Prng::new(number as u64 + 1);
                for _ in 0..rounds {
                    let (from, to) = (prng.below(ACCOUNTS), prng.below(ACCOUNTS));
                    let (from, to) = (format!("account:{from}"), format!("account:{to}"));
                    let amount = prng.below(300).to_string();
                    let reply = eval(&mut client, TRANSFER, &[&from], &[&to, &amount]);
                    let is_refused = reply.error().is_some_and(|text| text.contains("NOFUNDS"));
                    assert!(reply.integer().is_some() || is_refused, "{reply:?}");
                }
            });
        }
        let mut reader = clients(1);
        for _ in 0..rounds / 4 {
            assert_eq!(sum(&mut reader), 1000 * ACCOUNTS as i64);
        }
    });
    assert_eq!(sum(&mut first), 1000 * ACCOUNTS as i64);
}

#[test]
fn scripts_are_atomic_over_keys_of_two_workers() {
    let server = server();
    transfers_keep_the_sum(&|_| server.client(), 200);
}

#[test]
fn scripts_are_atomic_over_keys_of_three_nodes() {
    let mut cluster = Cluster::new(12);
    cluster.workers(2);
    cluster.grow(3);
    transfers_keep_the_sum(&|number| cluster.client(number % 3), 60);
}

#[test]
fn scripts_at_all_nodes_are_strictly_serializable() {
    let mut cluster = Cluster::new(12);
    cluster.workers(2);
    cluster.grow(3);
    let mixture = Mixture {
        clients: 6,
        ..Mixture::default()
    };
    let workload = ListAppend::start(cluster.addresses(), Keys::InScripts, mixture);
    eventually("scripts are carried out", || workload.seen().answered > 400);
    let (findings, seen) = workload.finish();
    assert!(findings.is_good(), "{findings:?}");
    assert!(findings.wide > 50, "{seen:?}");
    assert_eq!(seen.unread, 0, "{seen:?}");
}

#[test]
fn scripts_on_a_node_alone_are_strictly_serializable() {
    let server = server();
    let mixture = Mixture {
        clients: 6,
        ..Mixture::default()
    };
    let workload = ListAppend::start(vec![server.address()], Keys::InScripts, mixture);
    eventually("scripts are carried out", || workload.seen().answered > 1_000);
    let (findings, seen) = workload.finish();
    assert!(findings.is_good(), "{findings:?}");
    assert!(findings.wide > 100, "{seen:?}");
}

#[test]
fn a_script_that_fails_keeps_what_it_did_before() {
    let server = server();
    let mut client = server.client();
    let reply = eval(
        &mut client,
        "redis.call('SET', KEYS[1], 'kept') redis.call('SET', KEYS[2], 'kept') redis.call('INCR', KEYS[1])",
        &["a", "b"],
        &[],
    );
    assert!(
        error_of(&reply).starts_with("ERR value is not an integer"),
        "{reply:?}"
    );
    assert_eq!(client.run("MGET a b").elements().map(<[Value]>::len), Some(2));
    assert_eq!(client.run("GET a"), Value::bulk("kept"));
    assert_eq!(client.run("GET b"), Value::bulk("kept"));
    let reply = eval(&mut client, "return redis.pcall('INCR', KEYS[1])", &["a"], &[]);
    assert!(
        error_of(&reply).starts_with("ERR value is not an integer"),
        "{reply:?}"
    );
}

#[test]
fn what_one_node_knows_all_know() {
    let mut cluster = Cluster::new(6);
    cluster.workers(2);
    cluster.grow(3);
    let [mut a, mut b, mut c] = [0, 1, 2].map(|node| cluster.client(node));
    let unknown = "ffffffffffffffffffffffffffffffffffffffff";
    let reply = a.run(&format!("EVALSHA {unknown} 0"));
    assert!(error_of(&reply).starts_with("NOSCRIPT"), "{reply:?}");
    let loaded = a.command(&["SCRIPT", "LOAD", "return 'loaded'"]).text().unwrap();
    for client in [&mut a, &mut b, &mut c] {
        assert_eq!(client.run(&format!("EVALSHA {loaded} 0")), Value::bulk("loaded"));
    }
    // What came with `EVAL` is found at the node that knows it.
    assert_eq!(eval(&mut b, "return 'run'", &[], &[]), Value::bulk("run"));
    let run = c.command(&["EVAL", "return redis.sha1hex(ARGV[1])", "0", "return 'run'"]);
    let run = run.text().unwrap();
    let known = c.run(&format!("SCRIPT EXISTS {loaded} {run} {unknown}"));
    assert_eq!(
        known,
        Value::Array([1, 1, 0].map(Value::Integer).to_vec()),
        "{loaded} {run}"
    );
    assert_eq!(
        c.run(&format!("EVALSHA {} 0", run.to_uppercase())),
        Value::bulk("run")
    );
    a.run_ok("MULTI");
    a.run(&format!("EVALSHA {run} 0"));
    a.run(&format!("EVALSHA {unknown} 0"));
    let replies = a.run("EXEC");
    let replies = replies.elements().expect("it was carried out");
    assert_eq!(replies[0], Value::bulk("run"));
    assert!(error_of(&replies[1]).starts_with("NOSCRIPT"), "{replies:?}");
    c.run_ok("SCRIPT FLUSH");
    for client in [&mut a, &mut b, &mut c] {
        let reply = client.run(&format!("EVALSHA {loaded} 0"));
        assert!(error_of(&reply).starts_with("NOSCRIPT"), "{reply:?}");
    }
}

#[test]
fn others_go_on_while_a_script_does_not_end_and_it_can_be_killed() {
    let server = server();
    let mut other = server.client();
    assert!(error_of(&other.run("SCRIPT KILL")).starts_with("NOTBUSY"));
    let endless = thread::scope(|scope| {
        let mut client = server.client();
        let endless = scope.spawn(move || {
            let script = "redis.call('SET', KEYS[1], 'x') while true do redis.call('GET', KEYS[1]) end";
            eval(&mut client, script, &["victim"], &[])
        });
        eventually("the script runs", || {
            let clients = other.run("CLIENT LIST");
            clients.text().is_some_and(|clients| clients.contains("cmd=eval"))
        });
        for round in 0..500 {
            other.run_ok(&format!("SET other:{round} 1"));
        }
        assert!(!endless.is_finished(), "others waited for its end");
        eventually("it is killed", || other.run("SCRIPT KILL") == Value::ok());
        endless.join().expect("the client does not panic")
    });
    let text = error_of(&endless);
    assert!(text.contains("Script killed by user"), "{text}");
    assert_eq!(
        other.run("EXISTS victim"),
        Value::Integer(0),
        "nothing of it was done"
    );
    other.run_ok("SET victim free");
}

#[test]
fn a_script_of_another_node_can_be_killed() {
    let mut cluster = Cluster::new(6);
    cluster.grow(2);
    let mut other = cluster.client(1);
    thread::scope(|scope| {
        let mut client = cluster.client(0);
        let endless = scope.spawn(move || eval(&mut client, "while true do end", &[], &[]));
        eventually("it is killed", || other.run("SCRIPT KILL") == Value::ok());
        let reply = endless.join().expect("the client does not panic");
        assert!(error_of(&reply).contains("Script killed by user"), "{reply:?}");
    });
}

#[test]
fn a_script_in_a_block_sees_what_stands_before_it() {
    let server = server();
    let mut client = server.client();
    client.run_ok("SET a 1");
    client.run_ok("MULTI");
    client.run("INCR a");
    client.command(&[
        "EVAL",
        "return redis.call('INCR', KEYS[1]) + redis.call('INCR', 'b')",
        "1",
        "a",
    ]);
    client.run("GET a");
    let replies = client.run("EXEC");
    assert_eq!(
        replies,
        Value::Array(vec![Value::Integer(2), Value::Integer(4), Value::bulk("3")])
    );
}

#[test]
fn a_watched_key_is_noticed_that_a_script_changes() {
    let server = server();
    let (mut watcher, mut writer) = (server.client(), server.client());
    watcher.run_ok("WATCH w");
    eval(&mut writer, "return redis.call('SET', 'w', '1')", &[], &[]);
    watcher.run_ok("MULTI");
    watcher.run("PING");
    assert!(watcher.run("EXEC").is_null());
}

#[test]
fn what_a_script_publishes_is_heard_when_it_is_done_and_not_if_it_is_not() {
    let server = server();
    let mut listener = server.client();
    listener.run("SUBSCRIBE news");
    let mut client = server.client();
    let script = "redis.call('SET', KEYS[1], 'x') return redis.call('PUBLISH', 'news', ARGV[1])";
    assert_eq!(eval(&mut client, script, &["k"], &["first"]), Value::Integer(1));
    let heard = listener.receive().expect("a message");
    assert!(
        format!("{heard:?}").contains("first") || heard.elements().is_some(),
        "{heard:?}"
    );
}

#[test]
fn keys_are_blocked_for_by_who_waits_and_filled_by_a_script() {
    let server = server();
    let mut waiter = server.client();
    waiter.send(&["BLPOP", "jobs", "0"]).expect("it is sent");
    let mut client = server.client();
    eventually("the client waits", || {
        client.info_number("clients", "blocked_clients") == 1
    });
    let script = "return redis.call('RPUSH', KEYS[1], ARGV[1])";
    assert_eq!(eval(&mut client, script, &["jobs"], &["one"]), Value::Integer(1));
    let popped = waiter.receive().expect("it is served");
    assert_eq!(
        popped,
        Value::Array(vec![Value::bulk("jobs"), Value::bulk("one")])
    );
}

/// Scripts on the whole keyspace, one after the other: each finds what those before it left.
const COMPARED_WHOLE: &[(&str, &[&str], &[&str])] = &[
    ("return redis.call('FLUSHALL')", &[], &[]),
    (
        "return {redis.call('DBSIZE'), redis.call('KEYS', '*'), redis.call('RANDOMKEY')}",
        &[],
        &[],
    ),
    (
        "for at = 1, 40 do redis.call('SET', 'key:' .. at, at) redis.call('SADD', 'set:' .. at, at) end return redis.call('DBSIZE')",
        &[],
        &[],
    ),
    // The way in which caches are emptied by a pattern.
    (
        "local found = redis.call('KEYS', ARGV[1]) for _, key in ipairs(found) do redis.call('DEL', key) end \
         return {#found, redis.call('DBSIZE'), #redis.call('KEYS', ARGV[1])}",
        &[],
        &["key:1*"],
    ),
    (
        "redis.call('DEL', 'key:2') redis.call('SET', 'key:1', 'x') redis.call('INCR', 'key:3') \
         local found = redis.call('KEYS', 'key:?') table.sort(found) return {found, redis.call('DBSIZE')}",
        &[],
        &[],
    ),
    (
        "redis.call('SET', 'new:1', 1) redis.call('DEL', 'set:1') redis.call('SET', 'set:2', 'a string') \
         local found, cursor = {}, '0' \
         repeat local page = redis.call('SCAN', cursor, 'COUNT', 7, 'TYPE', 'string', 'MATCH', '*:?') cursor = page[1] \
         for _, key in ipairs(page[2]) do found[#found + 1] = key end until cursor == '0' \
         table.sort(found) return found",
        &[],
        &[],
    ),
    (
        "redis.call('DEL', 'new:1') local key = redis.call('RANDOMKEY') return redis.call('EXISTS', key)",
        &[],
        &[],
    ),
    (
        "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('DEL', key) end \
         return {redis.call('RANDOMKEY'), redis.call('DBSIZE'), redis.call('SCAN', 0, 'COUNT', 1000)[2]}",
        &[],
        &[],
    ),
    (
        "redis.call('MSET', 'a', 1, 'b', 2) redis.call('SELECT', 1) redis.call('SET', 'c', 3) redis.call('FLUSHDB') \
         redis.call('SET', 'd', 4) local there = redis.call('DBSIZE') redis.call('SELECT', 0) \
         return {there, redis.call('DBSIZE'), redis.call('GET', 'a'), redis.call('FLUSHDB'), redis.call('GET', 'a'), redis.call('DBSIZE'), \
         redis.call('INCR', 'a'), redis.call('KEYS', '*')}",
        &[],
        &[],
    ),
    (
        "return {redis.call('GET', 'a'), redis.call('GET', 'b'), redis.call('DBSIZE')}",
        &[],
        &[],
    ),
    (
        "redis.call('SELECT', 1) local found = redis.call('KEYS', '*') redis.call('FLUSHALL', 'ASYNC') return found",
        &[],
        &[],
    ),
    (
        "redis.call('MSET', '{t}a', 1, '{t}b', 2) redis.call('FLUSHDB') redis.call('MSET', '{t}a', 1, '{t}b', 2) return redis.call('DBSIZE')",
        &[],
        &[],
    ),
    (
        "redis.call('DEL', '{t}a') return {redis.call('RANDOMKEY'), redis.call('DBSIZE'), redis.call('RANDOMKEY')}",
        &[],
        &[],
    ),
    (
        "redis.call('SELECT', 1) redis.call('KEYS', '*') redis.call('FLUSHDB') redis.call('SELECT', 0) \
         redis.call('DEL', '{t}b') return {redis.call('RANDOMKEY'), redis.call('KEYS', '*')}",
        &[],
        &[],
    ),
    ("return redis.call('DBSIZE')", &[], &[]),
    ("return redis.pcall('FLUSHALL', 'NOSUCH')", &[], &[]),
    ("return redis.pcall('SCAN', 'x')", &[], &[]),
    ("return redis.pcall('SCAN', '0', 'COUNT', '0')", &[], &[]),
    (
        "redis.call('LPUSH', 'l', 3, 1, 2) redis.call('FLUSHDB') return {redis.call('SORT', 'l'), redis.call('LPUSH', 'l', 1)}",
        &[],
        &[],
    ),
    ("#!lua flags=no-writes\nreturn redis.call('FLUSHALL')", &[], &[]),
    ("#!lua flags=no-writes\nreturn redis.call('KEYS', '*')", &[], &[]),
];

/// Scripts with their keys and arguments, whose replies are Redis's.
const COMPARED: &[(&str, &[&str], &[&str])] = &[
    ("return 1", &[], &[]),
    ("return {1, 2, {3, 'x'}, false, 'y'}", &[], &[]),
    ("return {ok = 'fine'}", &[], &[]),
    ("return {err = 'MY mistake'}", &[], &[]),
    ("return redis.error_reply('MY mistake')", &[], &[]),
    ("return redis.status_reply('fine')", &[], &[]),
    ("return nil", &[], &[]),
    ("return 3.99", &[], &[]),
    ("return {KEYS[1], KEYS[2], ARGV[1]}", &["{t}a", "{t}b"], &["c"]),
    ("return redis.call('SET', KEYS[1], ARGV[1])", &["s"], &["v"]),
    ("return redis.call('GET', KEYS[1])", &["s"], &[]),
    ("return redis.call('GET', KEYS[1]) == false", &["none"], &[]),
    (
        "return redis.call('RPUSH', KEYS[1], unpack(ARGV))",
        &["l"],
        &["1", "2", "3"],
    ),
    ("return redis.call('LRANGE', KEYS[1], 0, -1)", &["l"], &[]),
    ("return redis.call('INCR', KEYS[1])", &["l"], &[]),
    ("return redis.pcall('INCR', KEYS[1])", &["l"], &[]),
    ("return redis.call('NOSUCH')", &[], &[]),
    ("return redis.call('GET')", &[], &[]),
    ("return redis.call('SUBSCRIBE', 'x')", &[], &[]),
    ("return redis.call('MULTI')", &[], &[]),
    ("return redis.call('EVAL', 'return 1', 0)", &[], &[]),
    ("return redis.call('PING')", &[], &[]),
    ("return redis.call('ECHO', 'x')", &[], &[]),
    ("return redis.call('SELECT', 3)", &[], &[]),
    (
        "redis.call('HSET', KEYS[1], 'f', '1.5') return redis.call('HGETALL', KEYS[1])",
        &["h"],
        &[],
    ),
    (
        "redis.setresp(3) return redis.call('HGETALL', KEYS[1])",
        &["h"],
        &[],
    ),
    ("return redis.call('ZADD', KEYS[1], '1.25', 'm')", &["z"], &[]),
    (
        "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')",
        &["z"],
        &[],
    ),
    ("return redis.call('SORT', KEYS[1], 'DESC')", &["l"], &[]),
    ("return cjson.encode({1, 2, a})", &[], &[]),
    ("return redis.sha1hex('')", &[], &[]),
    ("error('no')", &[], &[]),
    ("return nosuch", &[], &[]),
    ("return (", &[], &[]),
    (
        "#!lua flags=no-writes\nreturn redis.call('SET', KEYS[1], 'x')",
        &["s"],
        &[],
    ),
    ("#!lua flags=nosuch\nreturn 1", &[], &[]),
    ("return math.random()", &[], &[]),
    ("return redis.call('EXPIRE', KEYS[1], 100)", &["s"], &[]),
    (
        "return redis.call('DEL', KEYS[1], KEYS[2])",
        &["{t}a", "{t}b"],
        &[],
    ),
];

#[test]
fn scripts_answer_what_redis_answers() {
    let subject = server();
    let reference = Server::reference().start();
    let (mut ours, mut theirs) = (subject.client(), reference.client());
    for name in ["EVAL", "EVAL_RO"] {
        for (script, keys, argv) in COMPARED {
            let count = keys.len().to_string();
            let mut words = vec![name, script, &count];
            words.extend(*keys);
            words.extend(*argv);
            assert_eq!(ours.command(&words), theirs.command(&words), "{words:?}");
        }
    }
    for words in [
        "EVAL x",
        "EVAL return 1 x",
        "EVAL x 1",
        "EVAL x -1",
        "EVAL x 2 k",
        "EVALSHA short 0",
        "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0",
        "EVALSHA ffffffffffffffffffffffffffffffffffffffff x",
        "SCRIPT EXISTS a b",
        "SCRIPT FLUSH NOW",
        "SCRIPT FLUSH ASYNC",
        "SCRIPT FLUSH",
        "SCRIPT KILL",
        "COMMAND GETKEYS EVAL x 2 a b c",
    ] {
        assert_eq!(ours.run(words), theirs.run(words), "{words}");
    }
}

#[test]
fn scripts_can_be_switched_off() {
    let server = Server::subject().flag("scripting", "no").start();
    let mut client = server.client();
    let reply = eval(&mut client, "return 1", &[], &[]);
    assert!(error_of(&reply).contains("switched off"), "{reply:?}");
}

/// Counts calls, and adds each to a list: one of its two keys tells what the other one must be.
const NOTE: &str = "local n = redis.call('INCR', KEYS[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
if n % 50 == 0 then redis.call('DEL', KEYS[2]) end
return n";

/// Lets clients end that go on until they are told, whatever becomes of who waits for them.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Clients that call scripts without a pause, until the node is killed: what each knows was done, and what may have been.
fn count_until_killed(cluster: &mut Cluster) -> Vec<i64> {
    let ends = AtomicBool::new(false);
    let counted = thread::scope(|scope| {
        let guard = Ends(&ends);
        let ends = &ends;
        let address = cluster.address(0);
        let clients: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn(move || {
                    let mut client = Client::connect(address).expect("the node is up");
                    let (count, list) = (format!("{{{number}}}count"), format!("{{{number}}}list"));
                    let mut last = 0;
                    while !ends.load(Ordering::Relaxed) {
                        let call = ["EVAL", NOTE, "2", &count, &list, "x"];
                        match client.try_command(&call) {
                            Ok(Value::Integer(n)) => last = n,
                            Ok(other) => panic!("{other:?}"),
                            Err(_) => break,
                        }
                    }
                    last
                })
            })
            .collect();
        eventually("there is something to lose", || {
            cluster.client(0).info_number("chorale", "scripts_at_once") > 200
        });
        cluster.kill_all();
        drop(guard);
        clients
            .into_iter()
            .map(|client| client.join().expect("it ends with the node"))
            .collect::<Vec<i64>>()
    });
    cluster.restart_all();
    counted
}

#[test]
fn a_relaxed_node_that_is_killed_has_what_scripts_have_done() {
    if server().is_redis() {
        return;
    }
    for workers in [1, 2] {
        let mut cluster = Cluster::new(8);
        cluster.workers(workers);
        cluster.flag("durability", "relaxed");
        cluster.add();
        for _ in 0..2 {
            let told = count_until_killed(&mut cluster);
            let mut client = cluster.client(0);
            for (number, told) in told.into_iter().enumerate() {
                let count = client.run(&format!("GET {{{number}}}count"));
                let count: i64 = count.text().and_then(|text| text.parse().ok()).unwrap_or(0);
                let length = client.run(&format!("LLEN {{{number}}}list")).integer();
                assert!(
                    (told..=told + 1).contains(&count),
                    "{workers} workers: {count}, and the client knows of {told}"
                );
                assert_eq!(
                    length,
                    Some(count % 50),
                    "{workers} workers: a script is half there"
                );
            }
        }
    }
}

#[test]
fn scripts_of_both_workers_are_carried_out_at_once() {
    let server = Server::subject().workers(2).groups(16).start();
    if server.is_redis() {
        return;
    }
    let mut client = server.client();
    for round in 0..50 {
        let key = format!("key:{round}");
        let reply = eval(&mut client, "return redis.call('INCR', KEYS[1])", &[&key], &[]);
        assert_eq!(reply, Value::Integer(1));
    }
    assert_eq!(client.info_number("chorale", "scripts_at_once"), 50);
    // What is of the other worker, and names what is of this one, or lingers, is a transaction, and done once.
    let both = "redis.call('INCR', KEYS[1]) return redis.call('INCR', ARGV[1])";
    let linger = "local n = redis.call('INCR', KEYS[1]) for i = 1, 100000 do end return n";
    for round in 0..50 {
        let (key, next) = (format!("key:{round}"), format!("key:{}", (round + 1) % 50));
        assert!(eval(&mut client, both, &[&key], &[&next]).integer().is_some());
        assert!(eval(&mut client, linger, &[&key], &[]).integer().is_some());
    }
    for round in 0..50 {
        assert_eq!(client.run(&format!("GET key:{round}")), Value::bulk("4"));
    }
    assert!(client.info_number("chorale", "scripts_as_transactions") >= 50);
}

#[test]
fn a_pipeline_of_scripts_is_carried_out_in_order() {
    let server = server();
    let mut client = server.client();
    let mut prng = Prng::new(7);
    let mut commands = Vec::new();
    let mut expected = Vec::new();
    let mut counts = [0; 8];
    for _ in 0..400 {
        let (key, other) = (prng.below(8), prng.below(8));
        match prng.below(3) {
            0 => {
                let words = ["INCR".to_owned(), format!("k{key}")];
                counts[key] += 1;
                expected.push(Value::Integer(counts[key]));
                commands.push(words.to_vec());
            }
            // A key that it does not declare, of any worker.
            1 => {
                let script = "redis.call('INCR', KEYS[1]) return redis.call('INCR', ARGV[1])";
                let words = ["EVAL", script, "1"].map(str::to_owned);
                let keys = [format!("k{key}"), format!("k{other}")];
                counts[key] += 1;
                counts[other] += 1;
                expected.push(Value::Integer(counts[other]));
                commands.push(words.into_iter().chain(keys).collect());
            }
            _ => {
                let words = ["EVAL", "return redis.call('INCR', KEYS[1])", "1"].map(str::to_owned);
                counts[key] += 1;
                expected.push(Value::Integer(counts[key]));
                commands.push(words.into_iter().chain([format!("k{key}")]).collect());
            }
        }
    }
    assert_eq!(client.pipeline(&commands), expected);
}

#[test]
fn a_pipeline_of_scripts_of_both_workers_is_carried_out_at_once_where_logs_are_kept() {
    if server().is_redis() {
        return;
    }
    let mut cluster = Cluster::new(8);
    cluster.workers(2);
    cluster.flag("durability", "relaxed");
    cluster.add();
    let mut client = cluster.client(0);
    let mut rounds = 0;
    // Where the disk does not keep up, some run on copies.
    eventually("all of them are carried out at once", || {
        let before = client.info_number("chorale", "scripts_at_once");
        rounds += 1;
        let calls = (0..400).map(|at| {
            let words = ["EVAL", "return redis.call('INCR', KEYS[1])", "1"].map(str::to_owned);
            words.into_iter().chain([format!("key:{}", at % 40)]).collect()
        });
        let calls: Vec<Vec<String>> = calls.collect();
        let replies = client.pipeline(&calls);
        let counts = (0..400).map(|at| Value::Integer((rounds - 1) * 10 + at / 40 + 1));
        assert_eq!(replies, counts.collect::<Vec<_>>());
        client.info_number("chorale", "scripts_at_once") == before + 400
    });
}

/// Calls of scripts while a node alone becomes one of three: what was told is what is there, and no script is half there.
fn scripts_while_a_node_gets_company(durability: &str) {
    const CLIENTS: usize = 4;
    let mut cluster = Cluster::new(8);
    cluster.workers(2);
    cluster.flag("durability", durability);
    cluster.add();
    let address = cluster.address(0);
    let ends = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let told: Vec<i64> = thread::scope(|scope| {
        let guard = Ends(&ends);
        let (ends, done) = (&ends, &done);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || {
                    let mut client = Client::connect(address).expect("the node is up");
                    let (count, list) = (format!("{{{number}}}count"), format!("{{{number}}}list"));
                    let mut last = 0;
                    while !ends.load(Ordering::Relaxed) {
                        let n = eval(&mut client, NOTE, &[&count, &list], &["x"]).integer();
                        assert_eq!(n, Some(last + 1), "client {number}");
                        last += 1;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    last
                })
            })
            .collect();
        let go_on = |cluster: &Cluster, field: &str| {
            let mut client = cluster.client(0);
            let (before, of) = (done.load(Ordering::Relaxed), client.info_number("chorale", field));
            eventually("clients go on", || {
                done.load(Ordering::Relaxed) > before + 200 && client.info_number("chorale", field) > of + 100
            });
        };
        go_on(&cluster, "scripts_at_once");
        cluster.grow(2);
        go_on(&cluster, "scripts_as_transactions");
        drop(guard);
        clients
            .into_iter()
            .map(|client| client.join().expect("it only talks"))
            .collect()
    });
    let mut last = cluster.client(2);
    for (number, told) in told.into_iter().enumerate() {
        let count = last.run(&format!("GET {{{number}}}count"));
        assert_eq!(count, Value::bulk(told.to_string()), "{durability}");
        let length = last.run(&format!("LLEN {{{number}}}list"));
        assert_eq!(length, Value::Integer(told % 50), "{durability}");
    }
}

#[test]
fn a_node_alone_gets_company_while_scripts_run() {
    if server().is_redis() {
        return;
    }
    for durability in ["memory", "relaxed"] {
        scripts_while_a_node_gets_company(durability);
    }
}

/// What scripts on the whole keyspace answer at these clients in turn, and what Redis does.
fn whole_scripts_answer_what_redis_answers(clients: &mut [Client], mut publisher: Client) {
    let reference = Server::reference().start();
    let mut theirs = reference.client();
    for (at, (script, keys, argv)) in COMPARED_WHOLE.iter().enumerate() {
        let node = at % clients.len();
        let ours = eval(&mut clients[node], script, keys, argv);
        assert_eq!(ours, eval(&mut theirs, script, keys, argv), "{script}");
    }
    for client in clients.iter_mut().chain([&mut theirs]) {
        client.run_ok("FLUSHALL");
        client.run_ok("MULTI");
        for words in [
            &["SET", "a", "1"][..],
            &[
                "EVAL",
                "redis.call('SET', 'b', 2) return redis.call('DBSIZE')",
                "0",
            ],
            &["DBSIZE"],
            &["FLUSHDB"],
            &[
                "EVAL",
                "return {redis.call('GET', 'a'), redis.call('DBSIZE')}",
                "0",
            ],
            &["SET", "c", "3"],
            &["KEYS", "*"],
        ] {
            assert_eq!(client.command(words), Value::Simple("QUEUED".into()));
        }
        let replies = format!("{:?}", client.run("EXEC"));
        let expected = Value::Array(vec![
            Value::ok(),
            Value::Integer(2),
            Value::Integer(2),
            Value::ok(),
            Value::Array(vec![Value::NullBulk, Value::Integer(0)]),
            Value::ok(),
            Value::Array(vec![Value::bulk("c")]),
        ]);
        assert_eq!(replies, format!("{expected:?}"));
        assert_eq!(client.run("DBSIZE"), Value::Integer(1));
    }
    // What they publish is heard, as of any other script.
    let listener = &mut clients[0];
    listener.run("SUBSCRIBE news");
    let script = "redis.call('FLUSHDB') return redis.call('PUBLISH', 'news', 'all gone')";
    theirs.command(&["EVAL", script, "0"]);
    publisher.command(&["EVAL", script, "0"]);
    let heard = clients[0].receive().expect("a message");
    assert!(format!("{heard:?}").contains("all gone"), "{heard:?}");
}

#[test]
fn scripts_on_the_whole_keyspace_answer_what_redis_answers() {
    let server = server();
    whole_scripts_answer_what_redis_answers(&mut [server.client()], server.client());
}

#[test]
fn scripts_on_the_whole_keyspace_answer_what_redis_answers_at_any_node() {
    let mut cluster = Cluster::new(12);
    cluster.grow(3);
    let mut clients: Vec<Client> = (0..3).map(|node| cluster.client(node)).collect();
    whole_scripts_answer_what_redis_answers(&mut clients, cluster.client(2));
}

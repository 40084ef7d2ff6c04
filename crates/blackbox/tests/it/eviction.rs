//! What happens at `maxmemory`.

use std::collections::HashSet;

use blackbox::{Client, Cluster, Server, Value, eventually};

const VALUE_BYTES: usize = 1_000;

/// Room above what the empty server uses.
const ROOM_BYTES: i64 = 8 << 20;

/// Keys that take about twice the room.
const TOO_MANY_KEYS: usize = 16_000;

/// How much more than allowed a server holds of which a test wants to be sure that it is full. What is allocated beside
/// the data changes by much less.
const SURPLUS_BYTES: i64 = 2 << 20;

/// Keys that take twice [`SURPLUS_BYTES`].
const DELETED_KEYS: usize = 4_200;

/// How far the use may be above the limit: what was written since the allocator was last asked.
const OVERSHOOT_PERCENT: i64 = 15;

/// A server, a client, and the limit that was set with [`ROOM_BYTES`] above the present use.
fn limited(policy: &str) -> (Server, Client, i64) {
    let server = Server::subject().workers(2).groups(64).start();
    let mut client = server.client();
    client.run_ok(&format!("CONFIG SET maxmemory-policy {policy}"));
    let limit = client.info_number("memory", "used_memory") + ROOM_BYTES;
    client.run_ok(&format!("CONFIG SET maxmemory {limit}"));
    (server, client, limit)
}

/// Sets keys `prefix:range` and answers how many were refused; any error but OOM is a failure.
fn fill(client: &mut Client, prefix: &str, range: std::ops::Range<usize>, option: &str) -> usize {
    let value = "v".repeat(VALUE_BYTES);
    let numbers: Vec<usize> = range.collect();
    let mut refused = 0;
    for batch in numbers.chunks(500) {
        let commands: Vec<Vec<String>> = batch
            .iter()
            .map(|index| {
                let mut command = vec!["SET".to_owned(), format!("{prefix}:{index}"), value.clone()];
                command.extend(option.split_ascii_whitespace().map(str::to_owned));
                command
            })
            .collect();
        for reply in client.pipeline(&commands) {
            if reply != Value::ok() {
                assert!(is_out_of_memory(&reply), "{reply:?}");
                refused += 1;
            }
        }
    }
    refused
}

fn is_out_of_memory(reply: &Value) -> bool {
    reply.error().as_deref() == Some("OOM command not allowed when used memory > 'maxmemory'.")
}

/// Which of the keys `prefix:range` are still there, without touching them.
fn remaining(client: &mut Client, prefix: &str) -> HashSet<String> {
    let keys = client.run(&format!("KEYS {prefix}:*"));
    keys.elements()
        .expect("KEYS lists")
        .iter()
        .map(|key| key.text().expect("keys are strings"))
        .collect()
}

/// Bytes that a node uses, and those of them that do not count for eviction, of one moment.
fn use_of(client: &mut Client) -> (i64, i64) {
    let page = client.run("INFO memory").text().expect("INFO is text");
    let field = |name: &str| {
        let mut lines = page.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value
            .and_then(|value| value.trim().parse().ok())
            .expect("INFO has it")
    };
    (field("used_memory"), field("mem_not_counted_for_evict"))
}

/// What counts is near the limit at once; all that is used is, when the requests that filled it have passed.
fn stays_near(client: &mut Client, limit: i64) {
    let most = limit + limit * OVERSHOOT_PERCENT / 100;
    let (used, beside) = use_of(client);
    let counted = used - beside;
    assert!(
        counted < most,
        "{counted} bytes are used by data, {limit} allowed"
    );
    eventually("the memory of requests comes back", || {
        client.info_number("memory", "used_memory") < most
    });
}

#[test]
fn without_eviction_writes_are_refused_and_everything_else_goes_on() {
    let (_server, mut client, limit) = limited("noeviction");
    let refused = fill(&mut client, "key", 0..TOO_MANY_KEYS, "");
    assert!(refused > 0);
    stays_near(&mut client, limit);
    // At the limit itself, a buffer that comes or goes decides. From here on the data alone are too much.
    client.run_ok(&format!("CONFIG SET maxmemory {}", limit - SURPLUS_BYTES));
    for write in [
        "SET new value",
        "APPEND key:1 x",
        "INCR counter",
        "SETBIT bits 7 1",
        "MSET a 1 b 2",
        "COPY key:1 new",
        "GETSET key:1 x",
    ] {
        assert!(is_out_of_memory(&client.run(write)), "{write}");
    }
    assert_eq!(client.run("STRLEN key:1"), Value::Integer(VALUE_BYTES as i64));
    assert_eq!(
        client.run("GET key:1").text().map(|text| text.len()),
        Some(VALUE_BYTES)
    );
    assert_eq!(client.run("EXPIRE key:1 1000"), Value::Integer(1));
    assert_eq!(client.run("PERSIST key:1"), Value::Integer(1));
    assert_eq!(client.run("RENAME key:1 key:renamed"), Value::ok());
    assert_eq!(
        client.run("MGET key:renamed").elements().map(<[Value]>::len),
        Some(1)
    );
    client.run_ok("MULTI");
    assert!(is_out_of_memory(&client.run("SET new value")));
    assert!(
        client
            .run("EXEC")
            .error()
            .is_some_and(|text| text.starts_with("EXECABORT"))
    );
    assert_eq!(client.info_number("stats", "evicted_keys"), 0);
    let deletions: Vec<Vec<String>> = (2..2 + DELETED_KEYS)
        .map(|index| vec!["DEL".to_owned(), format!("key:{index}")])
        .collect();
    for reply in client.pipeline(&deletions) {
        assert_eq!(reply, Value::Integer(1));
    }
    eventually("after deletions there is room again", || {
        client.run("SET new value") == Value::ok()
    });
    client.run_ok("FLUSHALL");
    eventually("an empty server takes writes", || {
        client.run("SET new value") == Value::ok()
    });
}

#[test]
fn every_policy_for_all_keys_makes_room_for_every_write() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let (_server, mut client, limit) = limited(policy);
        assert_eq!(fill(&mut client, "key", 0..TOO_MANY_KEYS, ""), 0, "{policy}");
        stays_near(&mut client, limit);
        // Asking must not evict, or the two numbers are of different moments.
        client.run_ok("CONFIG SET maxmemory 0");
        let left = client.run("DBSIZE").integer().expect("DBSIZE counts");
        assert!(left > 1_000, "{policy} left {left} keys");
        let evicted = client.info_number("stats", "evicted_keys");
        assert_eq!(
            evicted + left,
            TOO_MANY_KEYS as i64,
            "{policy}: every key is there or counted"
        );
    }
}

#[test]
fn volatile_policies_evict_only_keys_with_a_deadline() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let (_server, mut client, limit) = limited(policy);
        assert_eq!(fill(&mut client, "stays", 0..2_000, ""), 0, "{policy}");
        assert_eq!(
            fill(&mut client, "goes", 0..TOO_MANY_KEYS, "EX 100000"),
            0,
            "{policy}"
        );
        stays_near(&mut client, limit);
        assert_eq!(remaining(&mut client, "stays").len(), 2_000, "{policy}");
        assert!(client.info_number("stats", "evicted_keys") > 0, "{policy}");
        // When nothing with a deadline is left, there is nothing to evict.
        assert!(fill(&mut client, "more", 0..TOO_MANY_KEYS, "") > 0, "{policy}");
        assert_eq!(remaining(&mut client, "stays").len(), 2_000, "{policy}");
        assert_eq!(remaining(&mut client, "goes").len(), 0, "{policy}");
    }
}

#[test]
fn the_nearest_deadline_goes_first_under_volatile_ttl() {
    let (_server, mut client, _) = limited("volatile-ttl");
    fill(&mut client, "late", 0..2_500, "EX 1000000");
    fill(&mut client, "soon", 0..2_500, "EX 1000");
    fill(&mut client, "new", 0..4_000, "EX 500000");
    let (late, soon) = (
        remaining(&mut client, "late").len(),
        remaining(&mut client, "soon").len(),
    );
    assert!(
        late > 2_000 && late > 2 * soon,
        "{late} late and {soon} near deadlines are left"
    );
}

/// Idle time has a resolution of seconds, in Redis too.
fn wait_until_idle(client: &mut Client, key: &str) {
    eventually("idle time passes", || {
        client
            .run(&format!("OBJECT IDLETIME {key}"))
            .integer()
            .is_some_and(|idle| idle >= 2)
    });
}

/// Keys written beside 2,000 hot and 3,000 cold ones: a good third of all must go, most of the cold ones among them, so that it
/// does not take luck to see which ones stay.
const NEW_KEYS: usize = 7_000;

/// Reads the 2,000 hot keys.
fn read_hot(client: &mut Client) {
    let reads: Vec<Vec<String>> = (0..2_000)
        .map(|index| vec!["GET".to_owned(), format!("hot:{index}")])
        .collect();
    client.pipeline(&reads);
}

/// How many of 2,000 hot and of 3,000 cold keys are left, in percent.
fn hot_and_cold_percent(client: &mut Client) -> (usize, usize) {
    let (hot, cold) = (remaining(client, "hot").len(), remaining(client, "cold").len());
    (hot * 100 / 2_000, cold * 100 / 3_000)
}

#[test]
fn idle_keys_go_first_under_allkeys_lru() {
    let (_server, mut client, _) = limited("allkeys-lru");
    fill(&mut client, "hot", 0..2_000, "");
    fill(&mut client, "cold", 0..3_000, "");
    wait_until_idle(&mut client, "cold:2999");
    read_hot(&mut client);
    fill(&mut client, "new", 0..NEW_KEYS, "");
    let (hot_percent, cold_percent) = hot_and_cold_percent(&mut client);
    assert!(
        cold_percent < 90,
        "nothing had to go: {cold_percent} % of the cold keys are left"
    );
    assert!(
        hot_percent > cold_percent + 25,
        "{hot_percent} % of the hot and {cold_percent} % of the cold keys are left"
    );
}

#[test]
fn often_used_keys_stay_under_allkeys_lfu() {
    let (_server, mut client, _) = limited("allkeys-lfu");
    fill(&mut client, "hot", 0..2_000, "");
    fill(&mut client, "cold", 0..3_000, "");
    for _ in 0..10 {
        read_hot(&mut client);
    }
    fill(&mut client, "new", 0..NEW_KEYS, "");
    let (hot_percent, cold_percent) = hot_and_cold_percent(&mut client);
    assert!(
        hot_percent > cold_percent + 25,
        "{hot_percent} % of the hot and {cold_percent} % of the cold keys are left"
    );
}

/// Replies that wait to be read are memory too; the keys they were read from must not pay for them.
#[test]
fn a_burst_of_replies_drives_out_no_keys() {
    let (_server, mut client, _) = limited("allkeys-lru");
    fill(&mut client, "key", 0..5_000, "");
    let reads: Vec<Vec<String>> = (0..40_000)
        .map(|index| vec!["GET".to_owned(), format!("key:{}", index % 5_000)])
        .collect();
    for reply in client.pipeline(&reads) {
        assert!(!reply.is_null(), "a key was evicted");
    }
    assert_eq!(client.info_number("stats", "evicted_keys"), 0);
}

#[test]
fn a_lower_limit_takes_effect_on_what_is_there() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    let empty = client.info_number("memory", "used_memory");
    client.run_ok("CONFIG SET maxmemory-policy allkeys-random");
    fill(&mut client, "key", 0..TOO_MANY_KEYS, "");
    let limit = empty + ROOM_BYTES;
    client.run_ok(&format!("CONFIG SET maxmemory {limit}"));
    // A write gives up a bounded number of keys, and only of the worker that it reaches: many writes, all over.
    let triggers: Vec<Vec<String>> = (0..100)
        .map(|index| vec!["SET".to_owned(), format!("trigger:{index}"), "x".to_owned()])
        .collect();
    eventually("keys are evicted", || {
        client.pipeline(&triggers);
        client.info_number("memory", "used_memory") < limit + limit * OVERSHOOT_PERCENT / 100
    });
    assert!(client.info_number("stats", "evicted_keys") > 0);
    client.run_ok("CONFIG SET maxmemory 0");
    assert_eq!(fill(&mut client, "again", 0..TOO_MANY_KEYS, ""), 0);
    assert_eq!(remaining(&mut client, "again").len(), TOO_MANY_KEYS);
}

#[test]
fn eviction_keeps_up_with_pipelining_clients_of_several_nodes() {
    const CLIENTS: usize = 5;
    const KEYS_OF_EACH: usize = 24_000;
    let mut cluster = Cluster::new(6);
    cluster.workers(2);
    cluster.grow(3);
    let mut observers: Vec<Client> = (0..3).map(|node| cluster.client(node)).collect();
    let used = |client: &mut Client| client.info_number("memory", "used_memory");
    let limit = observers.iter_mut().map(used).max().expect("three nodes") + 3 * ROOM_BYTES;
    observers[0].run_ok("CONFIG SET maxmemory-policy allkeys-lru");
    observers[0].run_ok(&format!("CONFIG SET maxmemory {limit}"));
    for observer in &mut observers {
        eventually("the node knows the limit", || {
            observer.info_number("memory", "maxmemory") == limit
        });
    }
    let most = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let mut client = cluster.client(number % 3);
                scope.spawn(move || fill(&mut client, &format!("k{number}"), 0..KEYS_OF_EACH, ""))
            })
            .collect();
        let mut most = 0;
        while writers.iter().any(|writer| !writer.is_finished()) {
            most = observers.iter_mut().map(used).fold(most, i64::max);
        }
        let refused = writers
            .into_iter()
            .map(|writer| writer.join().expect("it writes"));
        assert_eq!(refused.sum::<usize>(), 0);
        most
    });
    // Beside the data there are logs: a quarter of these, and as much as they are for followers that are behind (`consensus/log.rs`).
    assert!(most < 2 * limit, "{most} of {limit}");
    let near = limit + limit * OVERSHOOT_PERCENT / 100;
    for observer in &mut observers {
        // Leaders give up keys with what they write, and a few between turns: how far they are behind when the last write comes depends
        // on how fast it all was.
        eventually("what counts is near the limit", || {
            let (used, beside) = use_of(observer);
            used - beside < near
        });
        stays_near(observer, limit);
    }
    // With everything gone there is room, whoever asks.
    for observer in &mut observers {
        observer.run_ok("CONFIG SET maxmemory-policy noeviction");
        observer.run_ok("FLUSHALL");
        observer.run_ok("SET k v");
    }
}

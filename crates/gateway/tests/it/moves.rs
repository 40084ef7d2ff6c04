//! Partitions that move between groups while clients at all nodes go on.

use crate::cluster::replicated;
use crate::out_of_reach::figure;
use crate::world::World;
use ids::{GroupId, PartitionId, Prng, Slot};
use std::time::Duration;

/// Partitions of a cluster that was made by default.
const PARTITIONS: u32 = 256;

fn partition_of(key: &str) -> PartitionId {
    let slot = Slot::of_key(key.as_bytes());
    PartitionId::new((u32::from(slot.number()) * PARTITIONS / 16_384) as u16)
}

/// Moves the partition of a key to a group, whoever leads its group now.
fn begin_move(world: &mut World, key: &str, to: u16) {
    for node in 0..3 {
        world.nodes[node]
            .gateway
            .begin_move(partition_of(key), GroupId::new(to));
    }
}

/// The group that hosts the partition of a key, as the replicas of a node have it.
fn host_of(world: &World, node: usize, key: &str) -> Vec<u16> {
    let views = world.nodes[node].gateway.replica_views();
    let hosts = views.filter(|view| view.hosts(partition_of(key)));
    hosts.map(|view| view.group.number()).collect()
}

pub(crate) fn move_it(world: &mut World, key: &str, to: u16) {
    for _ in 0..100 {
        begin_move(world, key, to);
        world.turns(50);
        let mut hosts = (0..3).flat_map(|node| host_of(world, node, key)).peekable();
        if hosts.peek().is_some() && hosts.all(|host| host == to) {
            return;
        }
        world.turns(500);
    }
    panic!(
        "{key} does not move to {to}: {:?}",
        [0, 1, 2].map(|node| host_of(world, node, key))
    );
}

#[test]
fn what_a_partition_holds_is_where_it_has_moved_for_clients_at_every_node() {
    let mut world = replicated(2);
    let [home] = host_of(&world, 0, "key")[..] else {
        panic!("one hosts it")
    };
    let other = 1 - home;
    assert_eq!(world.run(0, 7, "SET key 1"), "+OK");
    assert_eq!(world.run(1, 7, "RPUSH {key}list a b"), ":2");
    move_it(&mut world, "key", other);
    for node in 0..3 {
        assert_eq!(
            world.run(node, 7, "GET key"),
            format!("$1 {}", 1 + node),
            "node {node}"
        );
        assert_eq!(world.run(node, 7, "INCR key"), format!(":{}", 2 + node));
    }
    assert_eq!(world.run(2, 7, "LRANGE {key}list 0 -1"), "*2 $1 a $1 b");
    assert_eq!(world.run(1, 7, "DBSIZE"), ":2");
    assert_eq!(world.run(1, 7, "KEYS {key}*"), "*1 $9 {key}list");
    move_it(&mut world, "key", home);
    assert_eq!(world.run(1, 7, "GET key"), "$1 4");
    assert_eq!(world.run(1, 7, "FLUSHALL"), "+OK");
    assert_eq!(world.run(2, 7, "DBSIZE"), ":0");
    world.turns(3_000);
    for node in 0..3 {
        assert_eq!(world.transactions_left(node), 0, "node {node}");
    }
}

#[test]
fn clients_that_wait_watch_and_run_scripts_notice_nothing() {
    let mut world = replicated(2);
    let [home] = host_of(&world, 0, "{a}list")[..] else {
        panic!("one hosts it")
    };
    let other = 1 - home;
    world.send(1, 8, "BLPOP {a}list 0");
    world.send(2, 8, "XREAD BLOCK 0 STREAMS {a}stream $");
    world.turns(50);
    assert_eq!(world.run(2, 9, "SET {a}watched 1"), "+OK");
    assert_eq!(world.run(2, 9, "WATCH {a}watched"), "+OK");
    move_it(&mut world, "{a}list", other);
    assert_eq!(world.exec(2, 9, &["INCR {a}watched"]), "*1 :2");
    assert_eq!(world.run(0, 7, "RPUSH {a}list x"), ":1");
    assert_eq!(world.reply(1, 8), "*2 $7 {a}list $1 x");
    assert_eq!(world.run(0, 7, "XADD {a}stream 1-1 f v"), "$3 1-1");
    assert!(world.reply(2, 8).contains("1-1"));
    for node in 0..3 {
        let script = "EVAL return\tredis.call('INCR',KEYS[1])+redis.call('INCR',KEYS[2]) 2 {a}watched b";
        assert_eq!(
            world.run(node, 7, script),
            format!(":{}", 4 + 2 * node),
            "node {node}"
        );
    }
    move_it(&mut world, "{a}list", home);
    assert_eq!(world.run(2, 9, "WATCH {a}watched"), "+OK");
    assert_eq!(world.run(1, 9, "INCR {a}watched"), ":6");
    move_it(&mut world, "{a}list", other);
    assert_eq!(world.exec(2, 9, &["INCR {a}watched"]), "*-1");
    assert_eq!(world.run(0, 7, "MSET {a}watched 1 b 2 c 3"), "+OK");
    assert_eq!(world.run(1, 7, "MGET {a}watched b c"), "*3 $1 1 $1 2 $1 3");
    assert_eq!(world.run(2, 7, "RENAME {a}watched b"), "+OK");
    assert_eq!(world.run(2, 7, "GET b"), "$1 1");
}

/// What one client has sent, and how many of its numbers were acknowledged.
struct Pusher {
    node: usize,
    client: u64,
    key: String,
    sent: u64,
}

#[test]
fn what_a_connection_sends_behind_each_other_is_carried_out_in_order_and_once_wherever_it_is() {
    for seed in 0..12 {
        let mut prng = Prng::new(seed);
        let mut world = replicated(3);
        world.delays = (seed % 2 == 1).then(|| Prng::new(seed));
        let mut pushers: Vec<Pusher> = (0..6)
            .map(|number| Pusher {
                node: number % 3,
                client: 20 + number as u64,
                key: format!("{{k{}}}{number}", number % 2),
                sent: 0,
            })
            .collect();
        for step in 0..1_500 {
            let pusher = &mut pushers[prng.below(6) as usize];
            for _ in 0..prng.below(4) {
                pusher.sent += 1;
                let line = match prng.below(3) {
                    0 => format!("RPUSH {} {}", pusher.key, pusher.sent),
                    1 => format!("LINSERT {} AFTER {} {}", pusher.key, pusher.sent - 1, pusher.sent),
                    _ => format!(
                        "EVAL return\tredis.call('RPUSH',KEYS[1],ARGV[1]) 1 {} {}",
                        pusher.key, pusher.sent
                    ),
                };
                let line = if pusher.sent == 1 {
                    format!("RPUSH {} 1", pusher.key)
                } else {
                    line
                };
                world.send(pusher.node, pusher.client, &line);
            }
            if step % 40 == 0 {
                let key = format!("{{k{}}}", prng.below(2));
                begin_move(&mut world, &key, prng.below(3) as u16);
            }
            if step % 300 == 299 {
                // What is sent again must not be carried out again.
                world.lose();
            }
            world.turn();
        }
        world.pace = Duration::from_millis(1).as_nanos() as u64;
        world.turns(6_000);
        let moved: u64 = (0..3)
            .map(|node| figure(&mut world, node, "partitions_moved"))
            .sum();
        assert!(moved > 5, "seed {seed}: {moved}");
        for pusher in &pushers {
            let (mut answers, mut errors) = (0, Vec::new());
            if world.nodes[pusher.node].is_unsettled(pusher.client) {
                let ready = world.nodes[pusher.node].take_ready(pusher.client).len();
                panic!(
                    "seed {seed}: {} waits, {ready} bytes of {}: {:?}",
                    pusher.key,
                    pusher.sent,
                    world.nodes[pusher.node].gateway.seen_to()
                );
            }
            loop {
                let reply = world.nodes[pusher.node].take_reply(pusher.client);
                if reply.is_empty() {
                    break;
                }
                for reply in reply.split(' ').filter(|word| word.starts_with([':', '-'])) {
                    answers += 1;
                    errors.extend((!reply.starts_with(':')).then(|| reply.to_owned()));
                }
            }
            assert_eq!(
                (answers, errors),
                (pusher.sent, Vec::new()),
                "seed {seed}: {}",
                pusher.key
            );
            let reply = world.run(0, 7, &format!("LRANGE {} 0 -1", pusher.key));
            let numbers: Vec<u64> = reply
                .split(' ')
                .skip(1)
                .filter(|word| !word.starts_with('$'))
                .map(|word| word.parse().expect("a number"))
                .collect();
            let expected: Vec<u64> = (1..=pusher.sent).collect();
            assert_eq!(numbers, expected, "seed {seed}: {}", pusher.key);
        }
    }
}

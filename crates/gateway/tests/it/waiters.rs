//! Clients that wait for keys, where groups have replicas on several nodes.

use crate::cluster::{grow, replicated};
use crate::world::World;
use ids::{Boot, Incarnation, NodeId, Slot};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

fn kill(world: &mut World, node: usize) {
    world.dead[node] = true;
    for other in (0..world.nodes.len()).filter(|other| *other != node) {
        let gateway = &mut world.nodes[other].gateway;
        gateway.on_link(NodeId(node as u64), false);
    }
}

/// A client waits with this command.
fn wait(world: &mut World, node: usize, client: u64, words: &str) {
    world.send(node, client, words);
    world.turns(30);
    assert_eq!(world.nodes[node].take_reply(client), "");
}

#[test]
fn whoever_waits_is_served_before_what_follows_the_push_on_its_connection() {
    let mut world = replicated(4);
    for (waiting, pushing) in [(0, 0), (0, 1), (1, 0), (2, 1), (1, 1)] {
        for key in KEYS {
            wait(&mut world, waiting, 10, &format!("BLPOP {key} 0"));
            world.send(pushing, 11, &format!("LPUSH {key} x"));
            world.send(pushing, 11, &format!("LPOP {key}"));
            world.send(pushing, 11, &format!("LLEN {key}"));
            world.turns(100);
            assert_eq!(world.nodes[waiting].take_reply(10), format!("*2 $1 {key} $1 x"));
            assert_eq!(world.nodes[pushing].take_reply(11), ":1 $-1 :0");
        }
    }
}

#[test]
fn what_a_client_has_sent_behind_a_wait_is_carried_out_when_that_is_over_and_not_before() {
    let mut world = replicated(4);
    // Waits of one group, which its state knows of, and of several, which the gateway tries.
    for (client, keys) in [(20, "a"), (30, "a b c d")] {
        for node in 0..3 {
            let behind = format!("behind:{client}:{node}");
            for line in [
                format!("BLPOP {keys} 0"),
                format!("SET {behind} 1"),
                format!("BLPOP then {keys} 0"),
            ] {
                world.send(node, client, &line);
            }
            world.turns(100);
            assert_eq!(world.nodes[node].take_reply(client), "", "{keys} at {node}");
            assert_eq!(world.run(0, 1, &format!("EXISTS {behind}")), ":0");
            assert_eq!(world.run(1, 1, "RPUSH then y"), ":1");
            world.turns(100);
            assert_eq!(world.run(2, 1, "LLEN then"), ":1", "nobody waits for it yet");
            assert_eq!(world.run(1, 1, "RPUSH a x"), ":1");
            assert_eq!(world.reply(node, client), "*2 $1 a $1 x +OK *2 $4 then $1 y");
            assert_eq!(world.run(0, 1, "EXISTS a then"), ":0");
        }
    }
}

#[test]
fn a_wait_finds_what_its_client_has_pushed_a_moment_before() {
    let mut world = replicated(4);
    for (client, keys) in [(20, "a"), (30, "b a c d")] {
        for node in 0..3 {
            for line in [
                "RPUSH a x".to_owned(),
                format!("BLPOP {keys} 0"),
                "LLEN a".to_owned(),
            ] {
                world.send(node, client, &line);
            }
            assert_eq!(
                world.reply(node, client),
                ":1 *2 $1 a $1 x :0",
                "{keys} at {node}"
            );
        }
    }
}

#[test]
fn a_change_of_leader_loses_no_wait_and_keeps_their_order() {
    let mut world = replicated(4);
    for key in KEYS {
        for (node, client) in [(1, 10), (2, 11), (1, 12)] {
            let client = client + 100 * u64::from(key.as_bytes()[0]);
            wait(&mut world, node, client, &format!("BLPOP {key} 0"));
        }
    }
    kill(&mut world, 0);
    world.turns(1_000);
    for key in KEYS {
        assert_eq!(world.run(2, 1, &format!("RPUSH {key} 1 2 3")), ":3");
        world.turns(30);
        for (node, client) in [(1, 10), (2, 11), (1, 12)] {
            let reply = format!("*2 $1 {key} $1 {}", client - 9);
            let client = client + 100 * u64::from(key.as_bytes()[0]);
            assert_eq!(world.nodes[node].take_reply(client), reply);
        }
        assert_eq!(world.run(2, 1, &format!("EXISTS {key}")), ":0");
    }
}

#[test]
fn nothing_is_popped_for_clients_whose_node_is_gone() {
    // The leader stays, or goes with them.
    for gone in [2, 0] {
        let mut world = replicated(4);
        world.lay_out(|layout| {
            let boots = [1, 2, 3].map(Boot);
            layout.boots = gateway::Boots::new(Boot(3), boots.iter().copied()).into();
            layout.nodes = boots.into_iter().zip([0, 1, 2].map(NodeId)).collect();
        });
        world.turns(30);
        for (client, key) in (10..).zip(KEYS) {
            wait(&mut world, gone, client, &format!("BLPOP {key} 0"));
        }
        kill(&mut world, gone);
        for key in KEYS {
            assert_eq!(world.run(1, 1, &format!("RPUSH {key} x")), ":1");
            assert_eq!(
                world.run(1, 1, &format!("LPOP {key}")),
                "$1 x",
                "{key}, without {gone}"
            );
        }
    }
}

#[test]
fn who_seemed_to_be_gone_waits_on() {
    let mut world = replicated(4);
    wait(&mut world, 2, 10, "BLPOP a 0");
    world.nodes[0].gateway.on_link(NodeId(2), false);
    world.turns(5);
    world.nodes[0].gateway.on_link(NodeId(2), true);
    world.turns(3_000);
    assert_eq!(world.run(1, 1, "RPUSH a x"), ":1");
    world.turns(30);
    assert_eq!(world.nodes[2].take_reply(10), "*2 $1 a $1 x");
}

#[test]
fn who_waits_while_a_group_gets_replicas_waits_on_and_is_served_first() {
    let mut world = World::new(3, 4);
    for (client, key) in (10..).zip(KEYS) {
        world.send(0, client, &format!("BLPOP {key} 0"));
        world.send(0, client + 10, &format!("BLPOP {key} 0"));
    }
    world.lay_out(|_| {});
    world.turns(100);
    grow(&mut world);
    for (client, key) in (10..).zip(KEYS) {
        world.send(1, 1, &format!("RPUSH {key} 1 2"));
        world.send(1, 1, &format!("LPOP {key}"));
        world.turns(50);
        assert_eq!(world.nodes[1].take_reply(1), ":2 $-1");
        assert_eq!(world.nodes[0].take_reply(client), format!("*2 $1 {key} $1 1"));
        assert_eq!(
            world.nodes[0].take_reply(client + 10),
            format!("*2 $1 {key} $1 2")
        );
    }
}

#[test]
fn a_wait_over_several_groups_whose_try_fails_is_over_and_holds_nobody_up() {
    let mut world = World::new(3, 2);
    // The first group is on the first node, the second on the second.
    world.lay_out(|layout| {
        let other = Incarnation(500);
        layout.groups[1].seats = [(other, NodeId(1))].into();
        layout.groups[1].bootstrap_replica = Some(other);
    });
    world.turns(1_000);
    let key_of = |group: u16| {
        let mut keys = (0..).map(|number| format!("key:{number}"));
        let is_there = |key: &String| Slot::of_key(key.as_bytes()).number() / 8_192 == group;
        keys.find(is_there).expect("slots are dealt out evenly")
    };
    let (here, there) = (key_of(0), key_of(1));
    assert_eq!(world.run(2, 1, &format!("SET {there} 1")), "+OK");
    assert_eq!(world.run(2, 1, &format!("DEL {there}")), ":1");
    for client in [10, 11] {
        wait(&mut world, 2, client, &format!("BLPOP {here} {there} 0"));
    }
    world.turns(300);
    assert_eq!(world.transactions_held(0), 0, "nobody tries while nothing comes");
    kill(&mut world, 1);
    assert_eq!(world.run(2, 1, &format!("RPUSH {here} x")), ":1");
    world.turns(12_000);
    let error = world.nodes[2].take_reply(10);
    assert!(error.starts_with('-'), "{error}");
    // Who stands behind is looked at, and who was told may wait again, and does not wait behind himself.
    world.turns(12_000);
    let error = world.nodes[2].take_reply(11);
    assert!(error.starts_with('-'), "{error}");
    assert_eq!(world.run(2, 1, &format!("DEL {here}")), ":1");
    world.send(2, 10, &format!("BLPOP {here} 0"));
    world.turns(30);
    assert_eq!(world.run(2, 1, &format!("RPUSH {here} y")), ":1");
    world.turns(30);
    let reply = world.nodes[2].take_reply(10);
    assert!(reply.ends_with("$1 y"), "{reply}");
    assert!(world.run(2, 1, "INFO clients").contains("blocked_clients:0"));
}

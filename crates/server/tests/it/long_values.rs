//! Values that are so long that they are not copied on their way.

use crate::cluster::replicated;
use crate::world::World;
use std::collections::BTreeSet;

/// Longer than what is copied, and than one piece.
fn long(letter: &str) -> String {
    letter.repeat(3 << 20)
}

/// All replicas hold the same.
fn agree(world: &mut World) {
    world.turns(500);
    let hashes = |world: &World, node: usize| -> Vec<u64> {
        let glimpses = world.nodes[node].gateway.glimpses();
        glimpses.map(|glimpse| glimpse.state_hash()).collect()
    };
    let alive = (0..3).filter(|node| !world.dead[*node]);
    let seen: BTreeSet<Vec<u64>> = alive.map(|node| hashes(world, node)).collect();
    assert_eq!(seen.len(), 1);
}

#[test]
fn a_long_value_comes_from_any_node_and_is_read_at_any() {
    let mut world = replicated(2);
    for node in 0..3 {
        let name = format!("from:{node}");
        let value = long(&node.to_string());
        assert_eq!(world.run(node, 1, &format!("SET {name} {value}")), "+OK");
        for reader in 0..3 {
            assert_eq!(world.run(reader, 2, &format!("STRLEN {name}")), ":3145728");
            assert_eq!(
                world.run(reader, 2, &format!("GETRANGE {name} -3 -1")),
                format!("$3 {}", node.to_string().repeat(3))
            );
        }
    }
    assert_eq!(world.run(1, 1, "APPEND from:2 x"), ":3145729");
    assert_eq!(world.run(1, 1, &format!("SET from:0 {} NX", long("z"))), "$-1");
    assert_eq!(
        world
            .run(1, 1, &format!("SET from:0 {} GET XX EX 100", long("z")))
            .len(),
        3145728 + 9
    );
    assert_eq!(world.run(2, 1, &format!("MSET a {} b 2", long("y"))), "+OK");
    assert_eq!(world.run(0, 1, "STRLEN a"), ":3145728");
    agree(&mut world);
}

#[test]
fn a_long_value_is_read_at_any_node_between_other_replies() {
    let mut world = replicated(2);
    assert_eq!(world.run(1, 1, &format!("SET long {}", long("l"))), "+OK");
    assert_eq!(world.run(1, 1, "SET short s"), "+OK");
    let value = format!("$3145728 {}", long("l"));
    let part = format!("$2097152 {}", "l".repeat(2 << 20));
    // No more is carried out at once than what a long reply ends.
    let cases = [
        (["GET short", "GET long"], format!("$1 s {value}")),
        (["SET short s", "GET long"], format!("+OK {value}")),
        (
            ["SET long:2 l", "MGET short long"],
            format!("+OK *2 $1 s {value}"),
        ),
        (["GET short", "GETRANGE long 1 2097152"], format!("$1 s {part}")),
    ];
    for node in 0..3 {
        for (lines, expected) in &cases {
            lines.iter().for_each(|line| world.send(node, 1, line));
            let replies = world.reply(node, 1);
            let brief = |text: &str| text.replace(&"l".repeat(1 << 20), "L");
            assert_eq!(brief(&replies), brief(expected), "{lines:?} at {node}");
        }
    }
    assert!(world.run(2, 1, "GETDEL long") == value);
    agree(&mut world);
}

#[test]
fn a_long_value_in_the_middle_of_short_ones_keeps_its_place() {
    let mut world = replicated(1);
    let value = long("v");
    for node in 0..3 {
        world.send(node, 1, "SET a 1");
        world.send(node, 1, &format!("SET a {value}"));
        world.send(node, 1, "APPEND a x");
        world.send(node, 1, "STRLEN a");
        assert_eq!(world.reply(node, 1), "+OK +OK :3145729 :3145729");
    }
    agree(&mut world);
}

#[test]
fn a_long_value_survives_its_leader() {
    for turns in 0..12 {
        let mut world = replicated(1);
        world.send(1, 1, &format!("SET a {}", long("v")));
        world.turns(turns);
        world.dead[0] = true;
        assert_eq!(world.reply(1, 1), "+OK", "after {turns} turns");
        assert_eq!(world.run(2, 1, "STRLEN a"), ":3145728");
        agree(&mut world);
    }
}

#[test]
fn a_long_command_of_many_short_words_is_carried_out_once() {
    let mut world = replicated(2);
    // What was sent is longer than the words, and an entry is something between: each is the first to be long.
    for (name, count) in [("sent", 100_000), ("written", 130_000), ("words", 190_000)] {
        let members: Vec<String> = (0..count).map(|number| format!("{number:06}")).collect();
        let reply = world.run(0, 1, &format!("SADD {name} {}", members.join(" ")));
        assert_eq!(reply, format!(":{count}"));
        assert_eq!(world.run(1, 1, &format!("SCARD {name}")), format!(":{count}"));
    }
    assert!(
        world
            .nodes
            .iter_mut()
            .all(|node| node.gateway.take_notices().is_empty())
    );
    agree(&mut world);
}

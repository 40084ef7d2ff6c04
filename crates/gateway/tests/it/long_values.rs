//! Values that are so long that they are not copied on their way.

use crate::cluster::replicated;
use crate::out_of_reach::key;
use crate::world::{SIZES, World};
use gateway::PieceSizes;
use std::collections::BTreeSet;

/// Longer than what is copied, and than one piece.
fn long(letter: &str) -> String {
    letter.repeat(3 << 20)
}

/// All replicas hold the same.
fn agree(world: &mut World) {
    world.turns(500);
    let hashes = |world: &World, node: usize| -> Vec<u64> {
        let replica_views = world.nodes[node].gateway.replica_views();
        replica_views
            .map(|replica_view| replica_view.state_hash())
            .collect()
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
            let short = |text: &str| text.replace(&"l".repeat(1 << 20), "L");
            assert_eq!(short(&replies), short(expected), "{lines:?} at {node}");
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

/// Three nodes for which so much is long, and too long.
fn with_sizes(sizes: PieceSizes) -> World {
    SIZES.set(sizes);
    let world = replicated(2);
    SIZES.set(PieceSizes::default());
    world
}

#[test]
fn a_request_that_is_longer_than_an_entry_may_be_is_refused_whether_or_not_it_would_go_in_pieces() {
    for long_bytes_min in [1_024, 1 << 20] {
        let mut world = with_sizes(PieceSizes {
            long_bytes_min,
            piece_bytes: 512,
            request_bytes_max: 4_096,
            ..PieceSizes::default()
        });
        let [one, other] = [0, 1].map(|group| key(2, group, "k"));
        let error = "-ERR the command, or the part of it for one group, is longer than";
        for node in 0..2 {
            let value = "v".repeat(5_000);
            for words in [
                format!("SET {one} {value}"),
                format!("MSET {one} {value} {other} 1"),
            ] {
                let reply = world.run(node, 1, &words);
                assert!(reply.starts_with(error), "through node {node}: {reply}");
            }
            assert_eq!(world.run(node, 1, &format!("MGET {one} {other}")), "*2 $-1 $-1");
            assert_eq!(
                world.run(node, 1, &format!("SET {one} {}", "v".repeat(3_000))),
                "+OK"
            );
            assert_eq!(world.run(node, 1, &format!("DEL {one}")), ":1");
        }
        agree(&mut world);
    }
}

#[test]
fn a_read_that_is_longer_than_what_can_travel_is_told_so_once_and_for_all() {
    let mut world = with_sizes(PieceSizes {
        answers_bytes_max: 4_096,
        ..PieceSizes::default()
    });
    let [one, other] = [0, 1].map(|group| key(2, group, "k"));
    assert_eq!(
        world.run(1, 1, &format!("SET {one} {}", "v".repeat(5_000))),
        "+OK"
    );
    assert_eq!(world.run(1, 1, &format!("SET {other} 1")), "+OK");
    for node in 0..3 {
        let reply = world.run(node, 1, &format!("GET {one}"));
        assert!(
            reply.starts_with("-ERR the replies to what was read at once are longer than"),
            "through node {node}"
        );
    }
    for words in [format!("RENAME {one} {other}"), format!("MGET {one} {other}")] {
        let reply = world.run(1, 1, &words);
        assert!(
            reply.starts_with("-ERR what this command reads of one group at once is longer than"),
            "{words}: {reply}"
        );
    }
    assert_eq!(world.run(1, 1, &format!("STRLEN {one}")), ":5000");
    assert_eq!(world.run(1, 1, &format!("GET {other}")), "$1 1");
}

/// The reply to lines of a client of the only worker, whatever runs on another thread.
fn ask_alone(world: &mut World, lines: &[&str]) -> String {
    let (last, first) = lines.split_last().expect("something is asked");
    for line in first {
        world.run(0, 1, line);
    }
    world.send(0, 1, last);
    for mut offload_job in world.nodes[0].gateway.take_offload_jobs() {
        offload_job.run();
        world.nodes[0].gateway.on_offload_job(offload_job);
    }
    world.reply(0, 1)
}

#[test]
fn a_read_on_a_node_alone_that_is_too_long_is_told_so_and_what_takes_something_out_is_answered() {
    SIZES.set(PieceSizes {
        answers_bytes_max: 4_096,
        ..PieceSizes::default()
    });
    let mut world = World::new(1, 4);
    SIZES.set(PieceSizes::default());
    world.lay_out(|_| {});
    let [one, other, longer] = [0, 2, 3].map(|group| key(4, group, "k"));
    let [list, hash, set] = ["list", "hash", "set"].map(|name| key(4, 0, name));
    let value = "v".repeat(1_500);
    let words: Vec<String> = (0..1_000).map(|number| format!("{number:05}")).collect();
    for (line, reply) in [
        (format!("MSET {one} {value} {other} {value}"), "+OK"),
        (format!("SET {longer} {}", value.repeat(3)), "+OK"),
        (format!("RPUSH {list} {}", words.join(" ")), ":1000"),
        (format!("HSET {hash} {}", words.join(" ")), ":500"),
        (format!("SADD {set} {}", words.join(" ")), ":1000"),
    ] {
        assert_eq!(world.run(0, 1, &line), reply);
    }
    const ERROR: &str = "-ERR the replies to what was read at once are longer than the 768 MiB that can travel \
                         together; read less at a time";
    for steps_max in [20_000, 8] {
        assert_eq!(
            world.run(0, 1, &format!("DEBUG SET-STEPS-MAX {steps_max}")),
            "+OK"
        );
        world.turn();
        for line in [
            format!("GET {longer}"),
            format!("MGET {one} {longer} {one}"),
            format!("MGET {one} {one} {one}"),
            format!("MGET {one} {other} {one}"),
            format!("LRANGE {list} 0 -1"),
            format!("HGETALL {hash}"),
            format!("SMEMBERS {set}"),
            format!("SUNION {set} {}", key(4, 2, "none")),
            format!("SORT {list}"),
            format!("SORT {list} GET none_*"),
        ] {
            assert_eq!(
                ask_alone(&mut world, &[&line]),
                ERROR,
                "{line}, {steps_max} steps"
            );
        }
        assert_eq!(
            world.run(0, 1, &format!("LRANGE {list} 1 2")),
            "*2 $5 00001 $5 00002"
        );
        let two = format!("$1500 {value} $1500 {value}");
        assert_eq!(
            ask_alone(&mut world, &[&format!("MGET {one} {other}")]),
            format!("*2 {two}")
        );
        for key in [&one, &other] {
            let get = format!("GET {key}");
            let lines = ["MULTI", &get, &get, &get, "SET note 1", "DBSIZE", "EXEC"];
            let whole = ask_alone(&mut world, &lines);
            assert_eq!(whole, format!("*5 {two} {ERROR} +OK :7"));
            let range = format!("LRANGE {list} 0 -1");
            let lines = ["MULTI", &get, &get, &get, &range, "SET note 1", "EXEC"];
            let whole = ask_alone(&mut world, &lines);
            assert_eq!(whole, format!("*5 {two} {ERROR} {ERROR} +OK"));
        }
        let sort = format!("SORT {list} LIMIT 0 300");
        let sorted = ask_alone(&mut world, &[&sort]);
        assert!(sorted.starts_with("*300 $5 00000 "));
        let whole = ask_alone(&mut world, &["MULTI", &sort, &sort, "SET note 1", "EXEC"]);
        assert_eq!(whole, format!("*3 {sorted} {ERROR} +OK"));
    }
    let popped = ask_alone(&mut world, &[&format!("LPOP {list} 1000")]);
    assert_eq!(popped.len(), "*1000".len() + 1_000 * " $5 00000".len());
    let long_names: Vec<String> = (0..5)
        .map(|number| format!("{number}{}", "n".repeat(1_000)))
        .collect();
    for name in &long_names {
        assert_eq!(world.run(0, 1, &format!("SET {name} 1")), "+OK");
    }
    for steps_max in [20_000, 8] {
        world.run(0, 1, &format!("DEBUG SET-STEPS-MAX {steps_max}"));
        assert_eq!(ask_alone(&mut world, &["KEYS *"]), ERROR);
        let some = ask_alone(&mut world, &["KEYS [0-2]*"]);
        assert!(some.starts_with("*3 $1001 "));
        let lines = ["MULTI", "KEYS [0-2]*", "KEYS [0-2]*", "SET note 1", "EXEC"];
        let whole = ask_alone(&mut world, &lines);
        assert_eq!(whole, format!("*3 {some} {ERROR} +OK"), "{steps_max} steps");
    }
}

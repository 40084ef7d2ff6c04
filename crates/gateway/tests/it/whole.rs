//! Transactions with commands on the whole keyspace, over groups whose logs decide.

use crate::cluster::replicated;
use crate::world::World;
use ids::Prng;
use mutations::Mutation;

/// As [`World::exec`], with the replies to `KEYS` in order.
fn exec(world: &mut World, node: usize, lines: &[String]) -> String {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let reply = world.exec(node, 7, &lines);
    let mut words: Vec<&str> = reply.split(' ').collect();
    // A list of keys is as long as its header says, and nothing else in these replies has texts of this form.
    let mut at = 0;
    while at < words.len() {
        let first = at;
        while words.get(at + 1).is_some_and(|word| word.starts_with("key:")) {
            at += 2;
        }
        let mut keys: Vec<&str> = words[first..at].iter().skip(1).step_by(2).copied().collect();
        keys.sort_unstable();
        for (place, key) in words[first..at].iter_mut().skip(1).step_by(2).zip(keys) {
            *place = key;
        }
        at += 1;
    }
    words.join(" ")
}

/// A command on a few keys of many groups, or on all.
fn command(prng: &mut Prng) -> String {
    let mut key = |kind: &str| format!("key:{kind}{}", prng.below(4));
    let (string, string2) = (key("s"), key("s"));
    let (list, list2) = (key("l"), key("l"));
    let (set, set2) = (key("m"), key("m"));
    let any = [string.clone(), list.clone(), set.clone()][prng.below(3) as usize].clone();
    let number = prng.below(5);
    match prng.below(30) {
        0 | 1 => format!("SET {string} {number}"),
        2 => format!("APPEND {string} {number}"),
        3 | 4 => format!("RPUSH {list} {number}"),
        5 | 6 => format!("SADD {set} {number}"),
        7 | 8 => format!("LMOVE {list} {list2} LEFT RIGHT"),
        9 => format!("SMOVE {set} {set2} {number}"),
        10 | 11 => format!("RENAME {string} {string2}"),
        12 => format!("RENAMENX {list} {list2}"),
        13 => format!("COPY {string} {string2} DB 1 REPLACE"),
        14 => format!("COPY {set} {set2}"),
        15 => format!("SUNIONSTORE {set} {set} {set2}"),
        16 => format!("BITOP OR {string} {string} {string2}"),
        17 => format!("SORT {list} STORE {list2}"),
        18 => format!("MSETNX {string} a {string2} b"),
        19 => format!("DEL {string} {list2}"),
        20 => format!("MOVE {any} 1"),
        21 => format!("GETSET {string} new"),
        22 => "KEYS *".into(),
        23 => "KEYS key:s*".into(),
        24 | 25 => "DBSIZE".into(),
        26 => ["FLUSHDB", "FLUSHALL"][prng.below(2) as usize].into(),
        27 => "SWAPDB 0 1".into(),
        28 => format!("SELECT {}", prng.below(2)),
        _ => format!("EXISTS {any} {string}"),
    }
}

/// The same transactions on one group and on many of three nodes: the replies that differ.
fn differences(world: &mut World, seed: u64, count: usize) -> Vec<String> {
    let mut prng = Prng::new(seed);
    let mut one = World::new(1, 1);
    let mut found = Vec::new();
    for _ in 0..count {
        let lines: Vec<String> = (0..2 + prng.below(7)).map(|_| command(&mut prng)).collect();
        let node = prng.below(3) as usize;
        let (ours, theirs) = (exec(world, node, &lines), exec(&mut one, 0, &lines));
        if ours != theirs {
            found.push(format!("seed {seed}, {lines:?}:\n{ours}\n{theirs}"));
        }
        // Connections of different nodes remember their databases.
        for node in 0..3 {
            assert_eq!(world.run(node, 7, "SELECT 0"), "+OK");
        }
        assert_eq!(one.run(0, 7, "SELECT 0"), "+OK");
    }
    found
}

#[test]
fn a_transaction_of_any_commands_over_any_groups_answers_as_one_group_does() {
    let mut world = replicated(4);
    for seed in 0..4 {
        let found = differences(&mut world, seed, 100);
        assert!(found.is_empty(), "{}", found[0]);
        assert_eq!(world.run(1, 7, "FLUSHALL"), "+OK");
    }
    world.turns(200);
    for node in 0..3 {
        assert_eq!(world.transactions_left(node), 0, "all is over and forgotten");
    }
}

#[test]
fn each_command_sees_what_those_before_it_have_done_to_the_whole_keyspace() {
    let mut world = replicated(4);
    assert_eq!(world.run(1, 1, "RPUSH source 1 2"), ":2");
    let reply = world.exec(
        2,
        1,
        &[
            "DBSIZE",
            "LMOVE source target LEFT RIGHT",
            "DBSIZE",
            "RENAME target other",
            "KEYS o*",
            "FLUSHALL",
            "DBSIZE",
            "LLEN other",
            "SET a 1",
            "RENAME a z",
            "RANDOMKEY",
            "SCAN 0 COUNT 1000",
            "DBSIZE",
        ],
    );
    let (before, scanned) = reply.split_once("$1 z").expect("the only key is found");
    assert_eq!(before, "*13 :1 $1 1 :2 +OK *1 $5 other +OK :0 :0 +OK +OK ");
    assert!(scanned.ends_with(" :1"), "{reply}");
    assert_eq!(world.run(0, 1, "KEYS *"), "*1 $1 z");
}

#[test]
fn what_was_watched_holds_for_a_transaction_in_steps_too() {
    let mut world = replicated(4);
    for changes in [false, true] {
        assert_eq!(world.run(1, 1, "MSET a 1 b 2"), "+OK");
        assert_eq!(world.run(1, 1, "WATCH a"), "+OK");
        if changes {
            assert_eq!(world.run(2, 2, "SET a 3"), "+OK");
        }
        let reply = world.exec(1, 1, &["RENAME b c", "FLUSHALL", "DBSIZE"]);
        assert_eq!(reply, if changes { "*-1" } else { "*3 +OK +OK :0" });
        assert_eq!(world.run(0, 3, "DBSIZE"), if changes { ":2" } else { ":0" });
    }
}

/// A coordinator stands still when all groups have voted; it goes on when others have committed. What its client is told.
fn answer_of_a_recovered_transaction(lines: &[&str]) -> String {
    let mut world = replicated(4);
    assert_eq!(world.run(1, 1, "MSET a 1 b 2 c 3 d 4 e 5"), "+OK");
    world.turns(200);
    for line in ["MULTI"].iter().chain(lines) {
        world.run(1, 1, line);
    }
    world.send(1, 1, "EXEC");
    let has_voted = |world: &World| {
        let mut groups = world.nodes[0].gateway.replica_views();
        groups.all(|group| group.has_prepared())
    };
    let mut turns = 0;
    while !has_voted(&world) {
        world.turn();
        turns += 1;
        assert!(turns < 1_000, "all groups vote");
    }
    world.dead[1] = true;
    turns = 0;
    while world.transactions_held(0) > 0 {
        world.turn();
        turns += 1;
        assert!(turns < 8_000, "somebody else finds out that it is committed");
    }
    assert_eq!(world.run(2, 2, "DBSIZE"), ":1", "it is");
    world.dead[1] = false;
    let reply = world.reply(1, 1);
    world.turns(1_000);
    for node in 0..3 {
        assert_eq!(world.transactions_left(node), 0, "all is over and forgotten");
    }
    reply
}

const HOLD: &[&str] = &["DBSIZE", "FLUSHALL", "SET z 1", "DBSIZE"];

#[test]
fn what_others_have_committed_is_answered_all_the_same() {
    assert_eq!(answer_of_a_recovered_transaction(HOLD), "*4 :5 +OK +OK :1");
    let steps = [
        "DBSIZE",
        "RENAME a f",
        "FLUSHALL",
        "SET y 1",
        "RENAME y z",
        "KEYS *",
    ];
    assert_eq!(
        answer_of_a_recovered_transaction(&steps),
        "*6 :5 +OK +OK +OK +OK *1 $1 z"
    );
}

#[test]
fn answers_that_are_not_kept_are_never_made_up() {
    mutations::plant(Some(Mutation::HoldRepliesNotKept));
    let reply = answer_of_a_recovered_transaction(HOLD);
    mutations::plant(None);
    assert!(reply.starts_with("-UNKNOWN "), "{reply}");
}

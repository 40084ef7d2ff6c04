//! Groups that cannot be reached, and the transactions that name them: others go on, and nothing is left behind.

use crate::world::World;
use ids::{Boot, GroupCount, GroupId, Groups, Incarnation, NodeId, Slot};

/// A group for each node, with its only replica there.
pub(crate) fn one_each(nodes: u16) -> World {
    let mut world = World::new(u64::from(nodes), nodes);
    world.lay_out(|layout| {
        layout.nodes = (0..u64::from(nodes))
            .map(|number| (Boot(number + 1), NodeId(number)))
            .collect();
        for (number, group) in (0..).zip(&mut layout.groups).skip(1) {
            let replica = Incarnation(100 + number);
            group.seats = [(replica, NodeId(number))].into();
            group.bootstrap_replica = Some(replica);
            group.voting = vec![replica];
        }
    });
    world.turns(500);
    world
}

/// A key of the group of this number, different for each `name`.
pub(crate) fn key(groups: u16, number: u16, name: &str) -> String {
    let count = Groups::with_default_partitions(GroupCount::new(groups).expect("a valid count"));
    let mut keys = (0..).map(|at| format!("{name}:{at}"));
    let found = keys.find(|key| count.group_of(Slot::of_key(key.as_bytes())) == GroupId::new(number));
    found.expect("every group has keys")
}

/// A figure of `INFO` at a node.
pub(crate) fn figure(world: &mut World, node: usize, name: &str) -> u64 {
    world.cron();
    let info = world.run(node, 999, "INFO chorale");
    let fields = info
        .split(' ')
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let [value] = fields.collect::<Vec<_>>()[..] else {
        panic!("{name} is in {info}");
    };
    value.parse().expect("a number")
}

/// Seconds of turns.
pub(crate) fn seconds(world: &mut World, count: usize) {
    world.turns(count * 1_000);
}

#[test]
fn nobody_is_told_that_nothing_was_done_when_it_is_only_the_replies_that_are_missing() {
    let (mut answered, mut unknown) = (0, 0);
    for turns in 1..10 {
        let mut world = one_each(3);
        let keys = [0, 1, 2].map(|group| key(3, group, "k"));
        let [a, b, c] = &keys;
        assert_eq!(world.run(0, 1, &format!("MSET {a} 1 {b} 1 {c} 1")), "+OK");
        for line in ["MULTI", "FLUSHALL", "DBSIZE", "EXEC"] {
            world.send(0, 2, line);
        }
        world.turns(turns);
        world.dead[2] = true;
        seconds(&mut world, 12);
        let told = world.nodes[0].take_reply(2);
        world.dead[2] = false;
        seconds(&mut world, 10);
        let left = world.run(0, 3, "DBSIZE");
        let told = told.trim_start_matches("+OK +QUEUED +QUEUED ");
        if told.ends_with("nothing was done") {
            assert_eq!(left, ":3", "{told}, after {turns} turns");
        } else if told.starts_with("-UNKNOWN ") {
            unknown += 1;
        } else {
            answered += 1;
            assert_eq!((told, &*left), ("*2 +OK :0", ":0"), "after {turns} turns");
        }
        for node in 0..3 {
            assert_eq!(world.transactions_left(node), 0, "of node {node}");
        }
    }
    assert!(
        answered > 0 && unknown > 0,
        "{answered} answered, {unknown} unknown"
    );
}

#[test]
fn who_reads_for_a_transaction_that_its_client_gave_up_leaves_nothing_open() {
    let mut world = one_each(3);
    let (a, b, c) = (key(3, 0, "a"), key(3, 1, "b"), key(3, 2, "c"));
    assert_eq!(world.run(0, 1, &format!("MSET {a} 1 {b} 1 {c} 1")), "+OK");
    // Prepared in the first group, and not to be decided before the third one is back.
    world.send(0, 2, &format!("MSET {a} 2 {c} 2"));
    world.turn();
    world.dead[2] = true;
    world.turns(20);
    assert!(world.transactions_held(0) > 0, "it holds its locks");
    world.send(0, 3, &format!("RENAME {a} {b}"));
    seconds(&mut world, 15);
    let told = world.nodes[0].take_reply(3);
    assert!(
        told.starts_with('-') && told.contains("nothing was done"),
        "{told}"
    );
    world.dead[2] = false;
    seconds(&mut world, 5);
    assert_eq!(
        figure(&mut world, 0, "transactions_in_flight"),
        0,
        "each has one end"
    );
    assert_eq!(world.run(0, 4, &format!("GET {b}")), "$1 1", "it did nothing");
    for node in 0..3 {
        assert_eq!(world.transactions_left(node), 0, "of node {node}");
    }
}

#[test]
fn what_healthy_groups_keep_of_transactions_does_not_grow_while_another_group_is_gone() {
    let mut world = one_each(3);
    let (a, b, c) = (key(3, 0, "a"), key(3, 1, "b"), key(3, 2, "c"));
    world.send(0, 2, &format!("MSET {a} 2 {c} 2"));
    world.turn();
    world.dead[2] = true;
    seconds(&mut world, 12);
    let other = key(3, 0, "other");
    for round in 0..200 {
        assert_eq!(
            world.run(0, 3, &format!("MSET {other} {round} {b} {round}")),
            "+OK"
        );
    }
    seconds(&mut world, 1);
    for node in [0, 1] {
        let left = world.transactions_left(node);
        assert!(left < 10, "{left} at node {node}");
    }
    // What hung is decided as soon as it can be, and everybody learns it.
    world.dead[2] = false;
    seconds(&mut world, 12);
    let [first, third] = [&a, &c].map(|key| world.run(1, 4, &format!("GET {key}")));
    assert_eq!(first, third, "all of it, or nothing");
    for node in 0..3 {
        assert_eq!(world.transactions_left(node), 0, "of node {node}");
    }
}

#[test]
fn a_transaction_that_names_a_group_that_is_cut_off_is_refused_at_once_and_locks_nothing() {
    let mut world = one_each(3);
    let (a, b, c) = (key(3, 0, "a"), key(3, 1, "b"), key(3, 2, "c"));
    assert_eq!(world.run(0, 1, &format!("MSET {a} 1 {b} 1")), "+OK");
    world.dead[2] = true;
    world.send(0, 2, &format!("SET {c} 2"));
    seconds(&mut world, 7);
    assert!(world.nodes[0].take_reply(2).starts_with('-'));
    for words in [
        format!("MSET {a} 2 {c} 2"),
        format!("RENAME {a} {c}"),
        format!("MGET {a} {c}"),
        "FLUSHALL".to_owned(),
        "DBSIZE".to_owned(),
    ] {
        world.send(0, 3, &words);
        world.turns(5);
        let told = world.nodes[0].take_reply(3);
        assert!(told.starts_with("-CLUSTERDOWN"), "{words}: {told}");
        assert_eq!(world.transactions_held(0), 0, "{words}");
        world.send(0, 4, &format!("MSET {a} 1 {b} 1"));
        world.turns(10);
        assert_eq!(world.nodes[0].take_reply(4), "+OK", "others go on behind {words}");
    }
    world.dead[2] = false;
    seconds(&mut world, 3);
    assert_eq!(world.run(0, 3, &format!("MSET {a} 2 {c} 2")), "+OK");
}

#[test]
fn transactions_that_cannot_be_decided_do_not_take_the_place_of_those_that_can() {
    let mut world = one_each(4);
    let (lost, healthy) = (key(4, 3, "lost"), key(4, 1, "healthy"));
    // More of them than are asked after at a time, prepared in a group whose leader looks after them.
    for number in 0..1_100 {
        let own = key(4, 0, &format!("own{number}"));
        // `MSET`s of one turn would share a transaction.
        world.send(2, 10 + number, &format!("DEL {own} {lost}"));
    }
    world.turn();
    world.turn();
    world.dead[3] = true;
    seconds(&mut world, 8);
    let stuck = world.transactions_held(0);
    assert!(stuck > 1_024, "{stuck} hang");
    assert_eq!(figure(&mut world, 0, "transactions_in_doubt"), 0);
    // One whose coordinator is lost, and whose groups are all there.
    let own = key(4, 0, "another");
    world.send(2, 5_000, &format!("MSET {own} 2 {healthy} 2"));
    world.turn();
    world.turn();
    world.dead[2] = true;
    for node in [0, 1] {
        world.nodes[node].gateway.on_link(NodeId(2), false);
    }
    seconds(&mut world, 4);
    let [first, second] = [&own, &healthy].map(|key| world.run(1, 9, &format!("GET {key}")));
    assert_eq!(first, second, "it has come to its end");
}

#[test]
fn what_finds_no_room_to_wait_is_refused_as_a_whole_and_alone() {
    let mut world = one_each(3);
    let (a, b, c) = (key(3, 0, "a"), key(3, 1, "b"), key(3, 2, "c"));
    let free = key(3, 0, "free");
    assert_eq!(world.run(1, 1, &format!("SET {free} 1")), "+OK");
    world.send(0, 2, &format!("MSET {a} 2 {c} 2"));
    world.turn();
    world.dead[2] = true;
    world.turns(10);
    assert_eq!(world.transactions_held(0), 1);
    // As many as a group lets wait, of what writes and of what reads. One client has few under way while none is answered.
    let each = gateway::Pipeline::REPLY_SLOTS_MIN as u64;
    for (first, words) in [(1_000, format!("APPEND {a} x")), (10_000, format!("GET {a}"))] {
        for number in 0..65_536 {
            world.send(0, first + number / each, &words);
        }
        world.turns(20);
    }
    // One batch of another node holds all of these.
    let reads = [
        (20, format!("GET {a}"), "-TRYAGAIN"),
        (21, format!("GET {free}"), "$1 1"),
        (22, format!("WATCH {a}"), "-TRYAGAIN"),
        (23, format!("MGET {a} {b}"), "-TRYAGAIN"),
        (24, format!("SET {a} 1"), "-TRYAGAIN"),
        (25, format!("SET {free} 2"), "+OK"),
        (26, format!("RENAME {a} {b}"), "-TRYAGAIN"),
    ];
    for line in ["MULTI".to_owned(), format!("GET {a}"), format!("SET {a} 3")] {
        world.run(1, 27, &line);
    }
    for (client, words, _) in &reads {
        world.send(1, *client, words);
    }
    world.send(1, 27, "EXEC");
    world.turns(50);
    for (client, words, expected) in &reads {
        let told = world.nodes[1].take_reply(*client);
        assert!(told.starts_with(expected), "{words}: {told}");
    }
    let told = world.nodes[1].take_reply(27);
    let whole = "-TRYAGAIN too many commands wait for transactions on keys of this group; nothing was done";
    assert_eq!(told, whole, "one answer to all of it");
    let id = format!(
        "{:08x}-{:04x}-7000-8000-000000000001",
        (world.now / 1_000_000) >> 16,
        (world.now / 1_000_000) & 0xffff
    );
    assert_eq!(world.run(1, 28, &format!("CLIENT REQUEST {id}")), "+OK");
    world.send(1, 28, &format!("ADD {a} 1"));
    world.turns(50);
    assert_eq!(world.nodes[1].take_reply(28), whole, "nothing is kept of it");
}

#[test]
fn what_looks_at_the_whole_keyspace_has_its_turn_among_transactions_that_never_cease() {
    let mut world = one_each(2);
    let key = |number: u64, at: u16| key(2, at, &format!("k{number}"));
    let keys: Vec<(String, String)> = (0..16).map(|number| (key(number, 0), key(number, 1))).collect();
    let mut held_throughout = true;
    for words in ["SCAN 0 COUNT 100", "DBSIZE", "KEYS *", "RANDOMKEY"] {
        world.send(1, 500, words);
        let mut told = String::new();
        let mut turns = 0;
        while told.is_empty() {
            // At any moment one of them is prepared somewhere.
            for (number, (a, b)) in (0..).zip(&keys) {
                let node = number as usize % 2;
                world.nodes[node].take_reply(100 + number);
                if turns % 16 == number {
                    world.send(node, 100 + number, &format!("MSET {a} {turns} {b} {turns}"));
                }
            }
            world.turn();
            turns += 1;
            held_throughout &= turns < 16 || world.transactions_held(0) + world.transactions_held(1) > 0;
            assert!(turns < 2_000, "{words} is never answered");
            told = world.nodes[1].take_reply(500);
        }
        assert!(!told.starts_with('-'), "{words}: {told}");
    }
    assert!(held_throughout, "there was a moment in which nothing was held");
}

#[test]
fn a_leader_is_asked_as_soon_as_there_is_a_link_to_it() {
    let mut world = crate::cluster::replicated(1);
    let leader = (0..3)
        .find(|&node| world.has_lease(node))
        .expect("somebody leads");
    assert_eq!(world.run(leader, 1, "SET key value"), "+OK");
    let other = (leader + 1) % 3;
    let leader_id = NodeId(leader as u64);
    world.nodes[other].gateway.on_link(leader_id, false);
    world.send(other, 2, "GET key");
    // Its own replica, and the third node, say who leads. To send it there is in vain.
    for _ in 0..60 {
        world.turn();
        world.lose_between(other, leader);
        assert_eq!(world.nodes[other].take_reply(2), "");
    }
    world.nodes[other].gateway.on_link(leader_id, true);
    world.turns(30);
    assert_eq!(world.nodes[other].take_reply(2), "$5 value");
}

//! Groups that begin anew without what they knew, and the transactions that they had a part in.

use crate::out_of_reach::{figure, key, one_each, seconds};
use crate::world::World;
use ids::{Incarnation, NodeId};

/// The group of this number, on the node of the same number, has lost everything.
fn begin_anew(world: &mut World, number: u16) {
    world.lay_out(|layout| {
        let group = &mut layout.groups[usize::from(number)];
        let replica = Incarnation(1_000 + u64::from(number) + 100 * group.generation);
        group.generation += 1;
        group.seats = [(replica, NodeId(u64::from(number)))].into();
        group.founder = Some(replica);
    });
    // A new layout finds the links that there are.
    for node in (0..world.nodes.len())
        .filter(|node| world.dead[*node])
        .collect::<Vec<_>>()
    {
        is_lost(world, node);
    }
}

fn is_lost(world: &mut World, node: usize) {
    world.dead[node] = true;
    for other in (0..world.nodes.len()).filter(|other| *other != node) {
        world.nodes[other].gateway.on_link(NodeId(node as u64), false);
    }
}

/// A transaction over three groups whose coordinator, the fourth node, has sent its decision, which only those of these groups
/// have heard of.
fn decided(heard_by: &[usize]) -> (World, Vec<String>) {
    let mut world = one_each(4);
    let keys: Vec<String> = (0..3).map(|number| key(4, number, "k")).collect();
    let [a, b, c] = &keys[..] else {
        unreachable!("three")
    };
    world.send(3, 1, &format!("MSET {a} 1 {b} 1 {c} 1"));
    while world.nodes[3].take_reply(1).is_empty() {
        world.turn();
    }
    // The decisions are on the wire.
    for number in (0..3).filter(|number| !heard_by.contains(number)) {
        world.dead[number] = true;
    }
    world.turn();
    is_lost(&mut world, 3);
    world.dead[..3].fill(false);
    (world, keys)
}

#[test]
fn what_one_group_has_committed_is_committed_although_another_one_has_lost_that_it_voted() {
    let (mut world, keys) = decided(&[0]);
    begin_anew(&mut world, 1);
    seconds(&mut world, 10);
    assert_eq!(world.run(0, 2, &format!("GET {}", keys[0])), "$1 1");
    assert_eq!(
        world.run(0, 2, &format!("GET {}", keys[1])),
        "$-1",
        "that is lost"
    );
    assert_eq!(world.run(0, 2, &format!("GET {}", keys[2])), "$1 1");
    for node in 0..3 {
        assert_eq!(world.transactions_held(node), 0);
        assert_eq!(world.nodes[node].gateway.take_notices(), Vec::<String>::new());
    }
}

#[test]
fn where_all_that_is_left_is_prepared_and_the_coordinator_is_gone_it_is_dropped_everywhere() {
    let (mut world, keys) = decided(&[]);
    begin_anew(&mut world, 1);
    seconds(&mut world, 10);
    for key in &keys {
        assert_eq!(world.run(0, 2, &format!("GET {key}")), "$-1");
        assert_eq!(world.run(0, 2, &format!("SET {key} 2")), "+OK", "it is free");
    }
    for node in 0..3 {
        assert_eq!(world.transactions_held(node), 0);
        assert_eq!(world.nodes[node].gateway.take_notices(), Vec::<String>::new());
    }
}

#[test]
fn whoever_has_led_in_a_later_term_is_heard_when_the_group_begins_anew_there() {
    let mut world = one_each(3);
    let key = key(3, 1, "k");
    for round in 0..4 {
        world.restart(1);
        seconds(&mut world, 3);
        assert_eq!(world.run(0, 1, &format!("SET {key} {round}")), "+OK");
    }
    begin_anew(&mut world, 1);
    seconds(&mut world, 3);
    assert_eq!(world.run(0, 1, &format!("GET {key}")), "$-1", "that is lost");
    assert_eq!(world.run(0, 1, &format!("SET {key} 4")), "+OK");
}

#[test]
fn a_coordinator_that_comes_back_with_another_word_tears_its_transaction_and_stops_nobody() {
    let (mut world, keys) = decided(&[]);
    begin_anew(&mut world, 1);
    seconds(&mut world, 10);
    // It was not dead: its decision comes when the others have decided without it.
    world.dead[3] = false;
    for node in 0..3 {
        world.nodes[node].gateway.on_link(NodeId(3), true);
        world.nodes[3].gateway.on_link(NodeId(node as u64), false);
        world.nodes[3].gateway.on_link(NodeId(node as u64), true);
    }
    seconds(&mut world, 10);
    let mut torn = 0;
    for node in 0..4 {
        torn += figure(&mut world, node, "transactions_torn");
    }
    assert!(torn > 0, "operators are told");
    for key in &keys {
        assert_eq!(world.run(0, 2, &format!("GET {key}")), "$-1", "what stands stays");
        assert_eq!(world.run(3, 2, &format!("SET {key} 2")), "+OK");
    }
    let notices: Vec<String> = (0..3)
        .flat_map(|node| world.nodes[node].gateway.take_notices())
        .collect();
    assert!(
        !notices.is_empty() && notices.iter().all(|notice| notice.contains("is torn")),
        "{notices:?}"
    );
    seconds(&mut world, 10);
    for node in 0..4 {
        assert_eq!(world.transactions_left(node), 0, "of node {node}");
    }
}

#[test]
fn transactions_go_on_over_a_group_that_has_begun_anew() {
    let mut world = one_each(3);
    let keys: Vec<String> = (0..3).map(|number| key(3, number, "k")).collect();
    let [a, b, c] = &keys[..] else {
        unreachable!("three")
    };
    let words = format!("MSET {a} 1 {b} 1 {c} 1");
    assert_eq!(world.run(0, 1, &words), "+OK");
    for _ in 0..3 {
        // Some of it is under way.
        world.send(0, 2, &words);
        world.turn();
        begin_anew(&mut world, 1);
        assert_eq!(world.reply(0, 2), "+OK", "it was tried again");
        assert_eq!(world.run(2, 3, &format!("MGET {a} {b} {c}")), "*3 $1 1 $1 1 $1 1");
    }
    seconds(&mut world, 3);
    for node in 0..3 {
        assert_eq!(world.transactions_left(node), 0, "of node {node}");
    }
}

#[test]
fn what_was_watched_before_has_changed_even_if_it_was_written_as_often_since() {
    let mut world = one_each(3);
    let watched = key(3, 1, "k");
    for client in 10..30 {
        assert_eq!(world.run(0, client, &format!("SET {watched} {client}")), "+OK");
        assert_eq!(world.run(0, client, &format!("WATCH {watched}")), "+OK");
    }
    begin_anew(&mut world, 1);
    for round in 0..5 {
        assert_eq!(world.run(2, 1, &format!("SET {watched} {round}")), "+OK");
    }
    for client in 10..30 {
        assert_eq!(world.run(0, client, "MULTI"), "+OK");
        assert_eq!(world.run(0, client, &format!("GET {watched}")), "+QUEUED");
        assert_eq!(world.run(0, client, "EXEC"), "*-1", "client {client}");
    }
}

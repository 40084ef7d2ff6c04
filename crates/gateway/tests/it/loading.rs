//! Nodes whose replicas go on with states that are still being read.

use crate::cluster::replicated;
use crate::out_of_reach::key;
use crate::world::World;
use ids::{GroupId, NodeId};
use keyspace::Keyspace;

const LOADING: &str = "-LOADING Chorale is loading the dataset in memory";

/// Two groups on three nodes, with one key in each.
fn two_groups() -> (World, [String; 2]) {
    let mut world = replicated(2);
    let keys = [key(2, 0, "k"), key(2, 1, "k")];
    for key in &keys {
        assert_eq!(world.run(0, 1, &format!("SET {key} before")), "+OK");
    }
    world.turns(500);
    (world, keys)
}

fn hand(world: &mut World, node: usize, (group, keyspace): (GroupId, Keyspace)) {
    world.nodes[node].gateway.on_kept_state(group, keyspace);
    world.turns(1_000);
}

#[test]
fn a_node_serves_what_others_lead_while_it_reads() {
    let (mut world, keys) = two_groups();
    let states = world.restart_unread(2);
    assert_eq!(states.len(), 2);
    world.turns(1_000);
    assert!(world.nodes[2].gateway.awaits_kept_states());
    assert_eq!(world.run(2, 1, "PING"), "+PONG");
    for key in &keys {
        assert_eq!(world.run(2, 1, &format!("APPEND {key} -meanwhile")), ":16");
    }
    assert_eq!(world.run(2, 1, "DBSIZE"), ":2");
    // One of three is not enough for a majority, and who reads is none.
    for node in [0, 1] {
        world.dead[node] = true;
        world.nodes[2].gateway.on_link(NodeId(node as u64), false);
    }
    world.turns(3_000);
    let [first, _] = &keys;
    assert_eq!(world.run(2, 2, &format!("GET {first}")), LOADING);
    assert_eq!(world.run(2, 2, "PING"), LOADING);
    assert!(!world.run(2, 2, "INFO server").starts_with('-'), "it is answered");
    for node in [0, 1] {
        world.dead[node] = false;
        world.nodes[2].gateway.on_link(NodeId(node as u64), true);
    }
    world.turns(3_000);
    for state in states {
        hand(&mut world, 2, state);
    }
    assert!(!world.nodes[2].gateway.awaits_kept_states());
    // It goes on with what it held, so that one of the others may be lost.
    world.dead[0] = true;
    for node in [1, 2] {
        world.nodes[node].gateway.on_link(NodeId(0), false);
    }
    world.turns(3_000);
    for key in &keys {
        assert!(
            world
                .run(2, 3, &format!("GET {key}"))
                .ends_with(" before-meanwhile")
        );
    }
}

#[test]
fn of_nodes_that_all_read_each_group_serves_as_soon_as_a_majority_has_it() {
    let (mut world, [first, second]) = two_groups();
    let mut states: Vec<_> = (0..3).map(|node| world.restart_unread(node)).collect();
    world.turns(1_000);
    for node in 0..3 {
        assert!(
            world.nodes[node].gateway.group_reports().0.is_empty(),
            "nobody leads"
        );
    }
    for node in [0, 1] {
        let of_first = states[node].remove(0);
        assert_eq!(of_first.0, GroupId::new(0));
        hand(&mut world, node, of_first);
    }
    world.turns(2_000);
    for node in 0..3 {
        let got = world.run(node, 1, &format!("GET {first}"));
        assert!(got.ends_with(" before"), "node {node}: {got}");
    }
    // Of the second nobody has a state: whoever answers at once says so, and nobody says that it is empty.
    let got = world.run(0, 2, &format!("GET {second}"));
    assert!(
        got.starts_with("-LOADING ") || got.starts_with("-CLUSTERDOWN "),
        "{got}"
    );
    for (node, left) in states.into_iter().enumerate() {
        for state in left {
            hand(&mut world, node, state);
        }
    }
    world.turns(2_000);
    assert!(world.run(2, 3, &format!("GET {second}")).ends_with(" before"));
    assert_eq!(world.run(0, 3, "DBSIZE"), ":2");
}

#[test]
fn a_state_that_the_map_has_let_go_of_meanwhile_is_dropped() {
    let (mut world, [first, _]) = two_groups();
    let states = world.restart_unread(2);
    world.lay_out(|layout| {
        for group in &mut layout.groups {
            group.seats.retain(|_, node| *node != NodeId(2));
            group.voting = group.seats.keys().copied().collect();
            group.voters = 2;
        }
    });
    world.turns(500);
    assert!(
        !world.nodes[2].gateway.awaits_kept_states(),
        "nobody waits for it"
    );
    for state in states {
        hand(&mut world, 2, state);
    }
    assert!(world.run(2, 1, &format!("GET {first}")).ends_with(" before"));
}

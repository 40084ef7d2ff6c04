//! A machine that stands still with all its processes, and goes on.

use crate::cluster::replicated;
use crate::world::World;

/// The largest term that a node knows of.
fn term(world: &World, node: usize) -> u64 {
    let members = world.nodes[node].gateway.replica_views();
    let members = members.filter_map(|replica_view| replica_view.member());
    let terms = members.map(|member| member.raft().status().term.0);
    terms.max().expect("there is a group")
}

/// Three nodes on a machine that stood still for two seconds. The leader's process is the last one that goes on.
fn after_two_seconds() -> World {
    let mut world = replicated(1);
    assert_eq!(world.run(1, 1, "SET a 1"), "+OK");
    world.now += 2_000_000_000;
    world.dead[0] = true;
    world.turns(100);
    world
}

#[test]
fn nobody_is_taken_for_dead_because_a_machine_stood_still() {
    let mut world = after_two_seconds();
    let before = term(&world, 0);
    world.dead[0] = false;
    world.turns(3_000);
    assert_eq!((0..3).map(|node| term(&world, node)).max(), Some(before));
    assert_eq!(world.run(2, 2, "APPEND a 2"), ":2");
}

#[test]
fn a_leader_that_does_not_go_on_is_replaced() {
    let mut world = after_two_seconds();
    let before = term(&world, 1);
    world.turns(1_500);
    assert!(term(&world, 1) > before);
    assert_eq!(world.run(1, 1, "GET a"), "$1 1");
}

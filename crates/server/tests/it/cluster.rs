//! Groups with replicas on several nodes.

use crate::world::World;
use consensus::Members;
use ids::{Incarnation, NodeId};
use server::GroupLayout;

/// Every group has its one replica on the first node.
fn spread(nodes: u64, groups: u16) -> World {
    let mut world = World::new(nodes, groups);
    world.lay_out(|_| {});
    for _ in 0..100 {
        world.turn();
    }
    world
}

#[test]
fn any_node_serves_any_key() {
    let mut world = spread(3, 4);
    for node in 0..3 {
        let client = node as u64 + 1;
        for key in 0..20 {
            assert_eq!(world.run(node, client, &format!("SET k{node}:{key} v{key}")), "+OK");
            assert_eq!(world.run(node, client, &format!("GET k{node}:{key}")), format!("$2 v{key}").replace("$2", &format!("${}", format!("v{key}").len())));
        }
    }
    assert_eq!(world.run(2, 9, "DBSIZE"), ":60");
    assert_eq!(world.run(1, 8, "EXISTS k0:1"), ":1");
    assert_eq!(world.run(1, 8, "LPUSH k0:1 x"), "-WRONGTYPE Operation against a key holding the wrong kind of value");
    assert_eq!(world.run(1, 8, "FLUSHALL"), "+OK");
    assert_eq!(world.run(2, 9, "DBSIZE"), ":0");
}

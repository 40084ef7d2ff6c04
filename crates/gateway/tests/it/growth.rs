//! Groups that are added while nodes run.

use crate::cluster::replicated;
use crate::moves::move_it;
use crate::world::World;
use gateway::{GroupLayout, Layout};
use ids::{GroupCount, GroupId, Groups, Incarnation, NodeId, PartitionId, Slot};

/// Two groups as founded, and so many all together.
fn groups(count: u16) -> Groups {
    let founded = GroupCount::new(2).expect("a valid count");
    Groups::with_default_partitions(founded).with_more(GroupCount::new(count).expect("a valid count"))
}

/// Adds a group, which begins on this node.
fn add(layout: &mut Layout, node: u64) {
    let number = layout.groups.len() as u64;
    let incarnation = Incarnation(5_000 + number);
    layout.groups.push(GroupLayout {
        seats: [(incarnation, NodeId(node))].into(),
        bootstrap_replica: Some(incarnation),
        voting: vec![incarnation],
        voters: 1,
        leader: Some(NodeId(node)),
        ..GroupLayout::default()
    });
    layout.hosted = Some(groups(number as u16 + 1));
}

fn leads(world: &World, node: usize, group: u16) -> bool {
    let mut replica_views = world.nodes[node].gateway.replica_views();
    replica_views.any(|replica_view| {
        replica_view.group == GroupId::new(group)
            && replica_view.member().is_some_and(|member| member.leads())
    })
}

#[test]
fn a_group_that_is_added_takes_part_in_all_that_is_over_all_groups() {
    let mut world = replicated(2);
    for key in 0..20 {
        assert_eq!(world.run(0, 1, &format!("SET key:{key} {key}")), "+OK");
    }
    world.lay_out(|layout| add(layout, 1));
    world.turns(500);
    assert!(leads(&world, 1, 2), "it begins where the layout says");
    for node in 0..3 {
        assert_eq!(world.run(node, 1, "DBSIZE"), ":20", "node {node}");
        assert_eq!(world.run(node, 1, "GET key:7"), "$1 7");
        assert_eq!(
            world.run(node, 1, &format!("MSET a:{node} 1 b:{node} 2 c:{node} 3")),
            "+OK"
        );
        assert_eq!(
            world.run(node, 1, "DEL a:0 b:0 c:0 a:1 b:1 c:1 a:2 b:2 c:2"),
            ":3"
        );
        let all = world.run(node, 1, "KEYS key:*");
        assert_eq!(all.matches("key:").count(), 20, "node {node}: {all}");
        let all = world.run(node, 1, "EVAL return\t#redis.call('KEYS','*') 0");
        assert_eq!(all, ":20", "node {node}");
        assert_ne!(world.run(node, 1, "RANDOMKEY"), "$-1");
    }
    assert_eq!(world.run(2, 1, "FLUSHALL"), "+OK");
    assert_eq!(world.run(0, 1, "DBSIZE"), ":0");
    assert_eq!(world.run(1, 1, "RANDOMKEY"), "$-1");
}

#[test]
fn a_node_that_hears_of_a_group_later_than_others_serves_what_it_knows() {
    let mut world = replicated(2);
    assert_eq!(world.run(0, 1, "SET key 1"), "+OK");
    world.lay_out_for(1, |layout| add(layout, 1));
    world.turns(500);
    assert!(leads(&world, 1, 2));
    for node in [0, 1] {
        assert_eq!(world.run(node, 1, "DBSIZE"), ":1", "node {node}");
    }
    world.lay_out(|_| {});
    world.turns(500);
    assert_eq!(world.run(2, 1, "DBSIZE"), ":1");
}

#[test]
fn keys_are_asked_for_where_their_partition_is_and_what_is_known_is_never_forgotten() {
    let mut world = replicated(2);
    assert_eq!(world.run(0, 1, "SET key 1"), "+OK");
    world.lay_out(|layout| add(layout, 0));
    world.turns(500);
    move_it(&mut world, "key", 2);
    let partition = groups(3).partitions().partition_of(Slot::of_key(b"key"));
    let moved = groups(3).with_host(partition, GroupId::new(2), 1);
    // A map that says so, one of before, and one of a meta group that knows less.
    for hosted in [moved, groups(3), groups(2)] {
        world.lay_out(|layout| layout.hosted = Some(hosted));
        world.turns(10);
        for node in 0..3 {
            assert_eq!(world.run(node, 1, "GET key"), "$1 1", "node {node}");
        }
    }
    let home = groups(3).host_of(partition);
    move_it(&mut world, "key", home.number());
    world.lay_out(|layout| layout.hosted = Some(moved));
    world.turns(10);
    assert_eq!(world.run(1, 1, "INCR key"), ":2", "it is back");
    assert_ne!(partition, PartitionId::new(0));
}

#[test]
fn groups_do_not_go_with_a_map_that_knows_of_fewer() {
    let mut world = replicated(2);
    world.lay_out(|layout| add(layout, 1));
    world.turns(500);
    world.lay_out(|layout| drop(layout.groups.pop()));
    world.turns(500);
    assert!(leads(&world, 1, 2));
    assert_eq!(world.run(0, 1, "DBSIZE"), ":0");
}

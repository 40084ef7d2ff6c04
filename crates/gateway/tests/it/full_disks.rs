//! Disks that are full or slow: who leads, and what writes are told.

use crate::cluster::replicated;
use crate::out_of_reach::{key, seconds};
use crate::world::World;
use mutations::Mutation;
use peer_wire::DiskHealth;
use std::time::Duration;

const SHORT: DiskHealth = DiskHealth {
    is_short: true,
    is_slow: false,
    sync_p99: None,
};

const SLOW: DiskHealth = DiskHealth {
    is_short: false,
    is_slow: true,
    sync_p99: Some(Duration::from_millis(60)),
};

/// How many groups each node leads.
fn led(world: &World) -> [usize; 3] {
    [0, 1, 2].map(|node| world.nodes[node].gateway.group_reports().0.len())
}

#[test]
fn who_has_a_disk_that_is_not_fit_hands_over_to_who_has_one_and_keeps_its_groups_where_nobody_has() {
    for health in [SHORT, SLOW] {
        let mut world = replicated(4);
        assert_eq!(led(&world), [4, 0, 0]);
        world.nodes[2].gateway.set_disk_health(health);
        world.turns(100);
        world.nodes[0].gateway.set_disk_health(health);
        seconds(&mut world, 1);
        assert_eq!(led(&world), [0, 4, 0], "{health:?}");
        let (reports, _) = world.nodes[1].gateway.group_reports();
        assert!(
            reports.iter().all(|report| report.unfit.len() == 2),
            "they are not chosen again"
        );
        world.nodes[1].gateway.set_disk_health(health);
        seconds(&mut world, 3);
        assert_eq!(led(&world), [0, 4, 0], "{health:?}: nobody is better");
        world.nodes[0].gateway.set_disk_health(DiskHealth::default());
        seconds(&mut world, 3);
        assert_eq!(led(&world), [4, 0, 0], "{health:?}");
    }
}

#[test]
fn writes_are_refused_where_no_majority_has_room_and_nothing_of_them_is_done() {
    let mut world = replicated(4);
    let [a, b] = [0, 2].map(|group| key(4, group, "k"));
    assert_eq!(world.run(1, 1, &format!("MSET {a} 1 {b} 1")), "+OK");
    world.nodes[0].gateway.set_disk_health(SHORT);
    seconds(&mut world, 1);
    assert_eq!(
        world.run(1, 1, &format!("MSET {a} 2 {b} 2")),
        "+OK",
        "two have room"
    );
    world.nodes[1].gateway.set_disk_health(SHORT);
    seconds(&mut world, 1);
    for node in 0..3 {
        for line in [
            format!("SET {a} 3"),
            format!("MSET {a} 3 {b} 3"),
            format!("DEL {b}"),
        ] {
            let told = world.run(node, 2, &line);
            assert!(
                told.starts_with("-MISCONF Errors writing to disk: "),
                "{line}: {told}"
            );
        }
        for block in [vec![&a], vec![&a, &b]] {
            assert_eq!(world.run(node, 2, "MULTI"), "+OK");
            for key in block {
                assert_eq!(world.run(node, 2, &format!("SET {key} 3")), "+QUEUED");
            }
            let told = world.run(node, 2, "EXEC");
            assert!(told.starts_with("-MISCONF"), "{told}");
        }
        assert_eq!(world.run(node, 2, &format!("MGET {a} {b}")), "*2 $1 2 $1 2");
    }
    // Slow is not full.
    world.nodes[1].gateway.set_disk_health(SLOW);
    seconds(&mut world, 1);
    assert_eq!(world.run(0, 1, &format!("MSET {a} 4 {b} 4")), "+OK");
    // One that is out of reach has no room for anything.
    world.nodes[1].gateway.set_disk_health(DiskHealth::default());
    world.turns(100);
    world.dead[2] = true;
    for other in 0..2 {
        world.nodes[other].gateway.on_link(ids::NodeId(2), false);
    }
    seconds(&mut world, 3);
    let told = world.run(1, 1, &format!("SET {a} 5"));
    assert!(told.starts_with("-MISCONF"), "{told}");
    world.nodes[0].gateway.set_disk_health(DiskHealth::default());
    seconds(&mut world, 1);
    assert_eq!(world.run(1, 1, &format!("SET {a} 6")), "+OK");
}

#[test]
fn what_was_sent_and_not_answered_is_not_said_to_be_refused() {
    for (mutation, code) in [(None, "-UNKNOWN"), (Some(Mutation::OpenIsRefused), "-MISCONF")] {
        mutations::plant(mutation);
        let mut world = replicated(4);
        world.send(1, 1, "SET a 1");
        world.turns(2);
        (world.dead[0], world.dead[2]) = (true, true);
        for other in [0, 2] {
            world.nodes[1].gateway.on_link(ids::NodeId(other), false);
        }
        seconds(&mut world, 7);
        let told = world.reply(1, 1);
        assert!(told.starts_with(code), "{mutation:?}: {told}");
        mutations::plant(None);
    }
}

//! Replicas whose states differ: they are found, given up, and filled anew.

use crate::cluster::replicated;
use crate::out_of_reach::{figure, key};
use crate::world::{World, first_of};
use consensus::Scrubbed;
use control::{GroupRef, Order};
use ids::{GroupId, Incarnation, NodeId};
use mutations::Mutation;
use peer_wire::{PeerMessage, ScrubHash};

fn group() -> GroupId {
    GroupId::new(0)
}

/// The replica of the first group on a node, if it has a part in the group's log, and the hash of its state.
fn replica_on(world: &World, node: usize) -> Option<(Incarnation, u64)> {
    let mut replica_views = world.nodes[node].gateway.replica_views();
    let found =
        replica_views.find(|replica_view| replica_view.group == group() && replica_view.member().is_some());
    found.map(|replica_view| (replica_view.incarnation, replica_view.state_hash()))
}

/// Whether all replicas of the first group have applied as many entries.
fn applied_by_all(world: &World) -> bool {
    let applied = |node: &crate::world::Node| {
        let mut replica_views = node.gateway.replica_views();
        let found = replica_views.find(|replica_view| replica_view.group == group());
        found.and_then(|replica_view| Some(replica_view.member()?.applied()))
    };
    let first = applied(&world.nodes[0]);
    first.is_some() && world.nodes.iter().all(|node| applied(node) == first)
}

/// Writes into the first group until it is so: some of the entries begin rounds.
fn write_until(world: &mut World, what: &str, is_so: impl Fn(&World) -> bool) {
    let count = key(2, 0, "count");
    for _ in 0..100 {
        if is_so(world) {
            return;
        }
        let reply = world.run(1, 1, &format!("INCR {count}"));
        assert!(reply.starts_with(':'), "{reply}");
        world.turns(100);
    }
    panic!("never: {what}");
}

fn notices(world: &mut World) -> Vec<String> {
    let nodes = world.nodes.iter_mut();
    nodes.flat_map(|node| node.gateway.take_notices()).collect()
}

/// The leader of the first group carries an order out.
fn order(world: &mut World, order: &Order) {
    let led = |world: &World, node: usize| {
        let (group_reports, _) = world.nodes[node].gateway.group_reports();
        let group_report = group_reports
            .into_iter()
            .find(|group_report| group_report.report.group == GroupRef::Data(group()));
        group_report.map(|group_report| group_report.report.index)
    };
    let found = (0..3).find_map(|node| Some((node, led(world, node)?)));
    let (leader, index) = found.expect("the group is led");
    world.nodes[leader].gateway.on_order(group(), index, order);
    world.turns(200);
}

/// Three replicas, of which the one on this node has applied a command otherwise than the others, until it is given up; which
/// it was.
fn given_up(wrong: usize) -> (World, Incarnation) {
    let mut world = replicated(2);
    world.nodes[2].wall_ahead = 300;
    let (before, _) = replica_on(&world, wrong).expect("it has one");
    world.mistake = Some((wrong, Mutation::DeadlineByOwnClock));
    let mortal = key(2, 0, "mortal");
    assert_eq!(world.run(1, 1, &format!("SET {mortal} 1 PX 100000000")), "+OK");
    let differs =
        |world: &World| replica_on(world, wrong) != replica_on(world, 1).map(|(_, hash)| (before, hash));
    for _ in 0..1_000 {
        if applied_by_all(&world) && differs(&world) {
            break;
        }
        world.turn();
    }
    assert!(
        applied_by_all(&world) && differs(&world),
        "it has applied the command otherwise"
    );
    world.mistake = None;
    assert_eq!(notices(&mut world), Vec::<String>::new(), "nobody has looked yet");
    write_until(&mut world, "it is given up", |world| {
        replica_on(world, wrong).is_none()
    });
    let notices = world.nodes[wrong].gateway.take_notices();
    assert!(
        notices.len() == 1 && notices[0].contains("differs from that of most others"),
        "{notices:?}"
    );
    (world, before)
}

#[test]
fn a_replica_that_has_applied_a_command_otherwise_is_given_up_and_filled_anew() {
    // The leader, which has proposed the command, and a follower.
    for wrong in [0, 2] {
        let (mut world, before) = given_up(wrong);
        let node = NodeId(wrong as u64);
        let mut asked: Vec<control::GivenUp> = Vec::new();
        write_until(&mut world, "the others lead", |world| {
            (0..3).any(|node| world.has_lease_of(node, group()))
        });
        for node in &world.nodes {
            asked.extend(node.gateway.given_up());
        }
        let is_it = |asked: &control::GivenUp| {
            (asked.group, asked.node, asked.incarnation) == (group(), node, before)
        };
        assert!(!asked.is_empty() && asked.iter().all(is_it), "{asked:?}");
        assert_eq!(figure(&mut world, wrong, "replicas_differing"), 1);

        // As the meta group has it then.
        let new = Incarnation(2_000);
        world.lay_out(|layout| {
            let group = &mut layout.groups[0];
            group.seats.remove(&before);
            group.seats.insert(new, node);
            group.lost.insert(before, node);
            (group.lost_voter, group.bootstrap_replica) = (Some(before), None);
        });
        let change = |promote: Vec<Incarnation>, remove: Vec<Incarnation>| Order::Change { promote, remove };
        order(&mut world, &change(Vec::new(), vec![before]));
        let incarnation = new;
        order(&mut world, &Order::AddLearner { node, incarnation });
        order(&mut world, &change(vec![new], Vec::new()));
        world.lay_out(|layout| {
            layout.groups[0].lost.clear();
            layout.groups[0].lost_voter = None;
        });
        notices(&mut world);
        let count = key(2, 0, "count");
        for _ in 0..60 {
            world.run(1, 1, &format!("INCR {count}"));
            world.turns(100);
        }
        let replicas: Vec<_> = (0..3).filter_map(|node| replica_on(&world, node)).collect();
        assert_eq!(replicas.len(), 3);
        assert_eq!(replica_on(&world, wrong).map(|(replica, _)| replica), Some(new));
        assert!(
            replicas.iter().all(|(_, hash)| *hash == replicas[0].1),
            "{replicas:?}"
        );
        assert_eq!(notices(&mut world), Vec::<String>::new());
        assert!(world.nodes.iter().all(|node| node.gateway.given_up().is_empty()));
    }
}

#[test]
fn a_node_speaks_for_its_own_replicas_and_for_no_others() {
    let mut world = replicated(2);
    let count = key(2, 0, "count");
    for _ in 0..5 {
        world.run(1, 1, &format!("INCR {count}"));
    }
    world.turns(1_000);
    let replicas: Vec<_> = (0..3).filter_map(|node| replica_on(&world, node)).collect();
    let seats = world.nodes[0]
        .gateway
        .replica_views()
        .find(|replica_view| replica_view.group == group());
    let at = seats
        .and_then(|replica_view| Some(replica_view.member()?.applied()))
        .expect("it is a member");
    let scrub = |from: usize| {
        PeerMessage::Scrub(ScrubHash {
            group: group(),
            generation: 0,
            from: replicas[from].0,
            to: replicas[0].0,
            format: keyspace::SCRUB_FORMAT,
            scrubbed: Scrubbed { at, hash: 1 },
        })
    };
    let mut tell = |by: u64, of: usize| {
        world.nodes[0].gateway.on_peer(first_of(by), scrub(of));
        world.turns(100);
        replica_on(&world, 0).is_some()
    };
    assert!(
        tell(2, 1) && tell(2, 2),
        "one node is no majority, whoever it speaks for"
    );
    assert!(!tell(1, 1), "two are");
}

#[test]
fn a_replica_that_was_given_up_neither_leads_nor_votes() {
    let (mut world, _) = given_up(2);
    world.dead[0] = true;
    for node in [1, 2] {
        world.nodes[node].gateway.on_link(NodeId(0), false);
    }
    world.turns(5_000);
    for node in [1, 2] {
        assert!(!world.has_lease_of(node, group()), "node {node}");
    }
    // The other group has nothing to do with it.
    let reply = world.run(1, 3, &format!("SET {} 1", key(2, 1, "other")));
    assert_eq!(reply, "+OK");
}

#[test]
fn replicas_that_are_equal_find_that_they_are() {
    let mut world = replicated(2);
    for second in 0..5 {
        for number in 0..50 {
            let name = format!("k:{second}:{number}");
            assert_eq!(
                world.run(number % 3, 1, &format!("SADD {name} a b {number}")),
                ":3"
            );
            assert_eq!(
                world.run(number % 3, 1, &format!("PEXPIRE {name} {}", 500 + number * 100)),
                ":1"
            );
        }
        world.turns(1_000);
        world.cron();
    }
    assert_eq!(notices(&mut world), Vec::<String>::new());
    for node in 0..3 {
        let rounds = figure(&mut world, node, "scrub_rounds");
        assert!(rounds >= 4, "node {node} has compared itself {rounds} times");
        for name in ["replicas_differing", "scrub_rounds_undecided"] {
            assert_eq!(figure(&mut world, node, name), 0, "{name}");
        }
    }
}

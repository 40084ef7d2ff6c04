//! Groups that begin anew without what they knew, and the transactions that they had a part in.

use crate::cluster::replicated;
use crate::out_of_reach::{figure, key, one_each, seconds};
use crate::world::World;
use ids::{GroupId, Incarnation, NodeId};
use mutations::Mutation;

/// The group of this number, on the node of the same number, has lost everything.
fn begin_anew(world: &mut World, number: u16) {
    world.lay_out(|layout| {
        let group = &mut layout.groups[usize::from(number)];
        let replica = Incarnation(1_000 + u64::from(number) + 100 * group.generation);
        group.generation += 1;
        group.seats = [(replica, NodeId(u64::from(number)))].into();
        group.bootstrap_replica = Some(replica);
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

/// The first group begins anew with what a replica has, on its node, as this one. The other nodes are to keep what they have.
fn inherit(world: &mut World, of: Incarnation, node: u64, recovered: u64) {
    world.lay_out(|layout| {
        let group = &mut layout.groups[0];
        group.generation += 1;
        group.recovered_from = Some(of);
        group.seats = [(Incarnation(recovered), NodeId(node))].into();
        group.bootstrap_replica = Some(Incarnation(recovered));
        group.former = (0..3)
            .map(NodeId)
            .filter(|other| *other != NodeId(node))
            .collect();
    });
}

/// Where something is kept of the first group from before it began anew.
fn kept(world: &World) -> Vec<(NodeId, u64)> {
    let all = world
        .nodes
        .iter()
        .zip(&world.dead)
        .filter(|(_, is_dead)| !**is_dead);
    let recovery_sources = all.flat_map(|(node, _)| node.gateway.recovery_sources());
    let generation = world.layout.groups[0].generation;
    recovery_sources
        .filter(|recovery_source| {
            recovery_source.group == GroupId::new(0) && recovery_source.generation < generation
        })
        .map(|recovery_source| (recovery_source.node, recovery_source.generation))
        .collect()
}

/// A group has begun anew with what the second node has, which dies before anybody else has anything of it. What the third one
/// answers that the group begins anew with then.
fn chosen_twice(mistake: Option<Mutation>) -> String {
    let mut world = replicated(1);
    for key in 0..50 {
        assert_eq!(world.run(0, 1, &format!("SET k{key} {key}")), "+OK");
    }
    seconds(&mut world, 1);
    is_lost(&mut world, 0);
    seconds(&mut world, 2);
    mutations::plant(mistake);
    inherit(&mut world, Incarnation(1_000), 1, 5_000);
    mutations::plant(None);
    world.turns(20);
    is_lost(&mut world, 1);
    world.turns(20);
    inherit(&mut world, Incarnation(1_001), 2, 5_001);
    seconds(&mut world, 5);
    world.run(2, 2, "DBSIZE")
}

#[test]
fn what_was_not_chosen_is_kept_and_can_be_chosen_when_the_chosen_one_is_lost() {
    assert_eq!(chosen_twice(None), ":50");
    assert_eq!(
        chosen_twice(Some(Mutation::MapForgets)),
        ":0",
        "the mistake is noticed"
    );
}

#[test]
fn what_is_kept_is_let_go_of_when_the_map_asks_for_it_no_more() {
    let mut world = replicated(1);
    for key in 0..50 {
        assert_eq!(world.run(0, 1, &format!("SET k{key} {key}")), "+OK");
    }
    seconds(&mut world, 1);
    inherit(&mut world, Incarnation(1_000), 1, 5_000);
    seconds(&mut world, 3);
    assert_eq!(kept(&world), [(NodeId(0), 0), (NodeId(2), 0)]);
    assert_eq!(world.run(0, 2, "DBSIZE"), ":50", "the group goes on meanwhile");
    // As many vote as are to.
    world.lay_out(|layout| layout.groups[0].former.clear());
    seconds(&mut world, 1);
    assert_eq!(kept(&world), []);
    assert_eq!(world.run(0, 2, "DBSIZE"), ":50");
}

/// The generation of the first group is over.
fn end(layout: &mut gateway::Layout) {
    let group = &mut layout.groups[0];
    group.generation += 1;
    group.lost = std::mem::take(&mut group.seats);
    group.bootstrap_replica = None;
    group.leader = None;
    group.voters = 0;
    group.former = (0..3).map(NodeId).collect();
}

#[test]
fn who_hears_that_its_generation_is_over_has_no_part_in_it_and_says_what_it_has() {
    let mut world = replicated(1);
    for key in 0..50 {
        assert_eq!(world.run(0, 1, &format!("SET k{key} {key}")), "+OK");
    }
    seconds(&mut world, 1);
    // One of them alone hears of it at first: the others go on without it, and know more.
    world.lay_out_for(2, end);
    assert_eq!(kept(&world), [(NodeId(2), 0)]);
    assert_eq!(world.run(0, 1, "SET more 1"), "+OK");
    seconds(&mut world, 1);
    world.lay_out(|_| {});
    assert_eq!(kept(&world), [(NodeId(0), 0), (NodeId(1), 0), (NodeId(2), 0)]);
    let said = |node: usize| {
        let said = world.nodes[node].gateway.recovery_sources();
        assert!(said.len() == 1 && said[0].is_aside, "{said:?}");
        let voters: Vec<u64> = said[0].voters.iter().map(|voter| voter.0).collect();
        assert_eq!(voters, [1, 1_000, 1_001]);
        said[0].last
    };
    assert!(said(0) > said(2) && said(1) > said(2));
    world.send(1, 3, "SET more 2");
    seconds(&mut world, 1);
    assert_ne!(world.nodes[1].take_reply(3), "+OK", "nobody acknowledges it");
    inherit(&mut world, Incarnation(1_000), 1, 5_000);
    seconds(&mut world, 5);
    assert_eq!(world.run(2, 2, "DBSIZE"), ":51");
}

#[test]
fn a_map_of_a_meta_group_that_has_not_heard_of_a_group_changes_nothing_of_it() {
    let mut world = replicated(1);
    assert_eq!(world.run(0, 1, "SET a 1"), "+OK");
    seconds(&mut world, 1);
    let known = world.layout.groups[0].clone();
    // As it was once: another replica on each node.
    world.lay_out(|layout| {
        let group = &mut layout.groups[0];
        group.seats = (0..3)
            .map(|number| (Incarnation(500 + number), NodeId(number)))
            .collect();
        group.bootstrap_replica = None;
        group.is_unheard = true;
    });
    seconds(&mut world, 3);
    assert_eq!(world.run(2, 2, "GET a"), "$1 1");
    assert_eq!(world.run(2, 2, "SET a 2"), "+OK");
    let (group_reports, _) = world.nodes[0].gateway.group_reports();
    let members: Vec<Incarnation> = group_reports[0]
        .report
        .members
        .iter()
        .map(|member| member.incarnation)
        .collect();
    assert_eq!(
        members,
        known.seats.keys().copied().collect::<Vec<_>>(),
        "they are reported as they are"
    );
    // Then it is heard of.
    world.lay_out(|layout| layout.groups[0] = known);
    assert_eq!(world.run(1, 2, "GET a"), "$1 2");
}

/// Whether two replicas have a lease at once, where a group begins anew while the leader of before lives and has not heard of it.
fn leads_twice(mistake: Option<Mutation>) -> bool {
    let mut world = replicated(1);
    world.mistake = mistake.map(|mutation| (1, mutation));
    assert_eq!(world.run(0, 1, "SET a 1"), "+OK");
    world.turns(100);
    world.dead[0] = true;
    mutations::plant(mistake);
    world.lay_out_for(1, |layout| {
        let group = &mut layout.groups[0];
        group.generation += 1;
        group.recovered_from = Some(Incarnation(1_000));
        group.seats = [(Incarnation(5_000), NodeId(1))].into();
        group.bootstrap_replica = Some(Incarnation(5_000));
    });
    mutations::plant(None);
    (0..5_000).any(|_| {
        world.turn();
        world.has_lease(0) && world.has_lease(1)
    })
}

#[test]
fn whom_a_group_begins_anew_with_waits_until_its_promise_has_ended() {
    assert!(!leads_twice(None));
    assert!(
        leads_twice(Some(Mutation::RecoveredDoesNotWait)),
        "the mistake is noticed"
    );
}

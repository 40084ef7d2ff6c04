//! Groups with replicas on several nodes.

use crate::out_of_reach::key;
use crate::world::{World, first_of};
use consensus::{Index, MessageBody, RaftMessage, Term};
use control::Order;
use gateway::{Boots, Layout};
use ids::{Boot, DurabilityMode, GroupId, Incarnation, NodeId, SemanticsVersion};
use mutations::Mutation;
use options::DurabilityChoice;
use peer_wire::{PeerMessage, Raft};

/// Every group has its one replica on the first node.
pub(crate) fn spread(nodes: u64, groups: u16) -> World {
    let mut world = World::new(nodes, groups);
    world.lay_out(|_| {});
    world.turns(100);
    world
}

/// Every group has a replica on each of three nodes.
pub(crate) fn replicated(groups: u16) -> World {
    let mut world = spread(3, groups);
    grow(&mut world);
    world
}

/// Adds a learner on each node that has none, and makes voters of them.
pub(crate) fn grow(world: &mut World) {
    let others = |group: u16| [1_000, 1_001].map(|first| Incarnation(first + 2 * u64::from(group)));
    world.lay_out(|layout| {
        for (number, group) in (0..).zip(&mut layout.groups) {
            let [second, third] = others(number);
            group.seats.extend([(second, NodeId(1)), (third, NodeId(2))]);
        }
    });
    let groups = world.layout.groups.len() as u16;
    let mut order = |number: u16, order: Order| {
        let group = GroupId::new(number);
        let (group_reports, _) = world.nodes[0].gateway.group_reports();
        let group_report = group_reports
            .iter()
            .find(|group_report| group_report.report.group == control::GroupRef::Data(group));
        let index = group_report.expect("the first node leads it").report.index;
        world.nodes[0].gateway.on_order(group, index, &order);
        world.turns(200);
    };
    for number in 0..groups {
        for (incarnation, node) in others(number).into_iter().zip([NodeId(1), NodeId(2)]) {
            order(number, Order::AddLearner { node, incarnation });
        }
    }
    for number in 0..groups {
        let change = Order::Change {
            promote: others(number).to_vec(),
            remove: Vec::new(),
        };
        order(number, change);
    }
    world.lay_out(|layout| {
        for group in &mut layout.groups {
            group.voters = 3;
            group.voting = group.seats.keys().copied().collect();
        }
    });
    world.turns(500);
}

#[test]
fn builds_of_different_rules_work_in_one_cluster_and_use_what_all_of_them_know() {
    for old in SemanticsVersion::OLDEST.0..=SemanticsVersion::CURRENT.0 {
        builds_of(SemanticsVersion(old), SemanticsVersion(old + 1));
    }
}

fn builds_of(old: SemanticsVersion, new: SemanticsVersion) {
    let mut world = World::new(3, 2);
    for node in 0..3 {
        world.install(node, old);
    }
    world.lay_out(|layout| layout.semantics = old);
    world.turns(100);
    grow(&mut world);
    // A script of one group is one entry where all know such entries, and leaves nothing behind; elsewhere it is voted on.
    let count = "EVAL return\tredis.call('INCR',KEYS[1]) 1 count";
    assert_eq!(world.run(2, 7, count), ":1");
    let left: usize = (0..3).map(|node| world.transactions_left(node)).sum();
    assert_eq!(left == 0, old >= SemanticsVersion::ONE_PHASE, "{old:?}");
    // Node by node the newer build is installed; the cluster's rules stay, whoever leads.
    for node in [0, 1] {
        world.install(node, new);
        world.restart(node);
        world.turns(3_000);
        for key in 0..20 {
            assert_eq!(world.run(2, 7, &format!("SET key:{key} {node}")), "+OK");
        }
    }
    assert!(
        world.nodes[2].gateway.take_notices().is_empty(),
        "it follows all of it"
    );
    // The last one, too: now the meta group raises the rules.
    world.install(2, new);
    world.restart(2);
    world.turns(3_000);
    world.lay_out(|layout| layout.semantics = new);
    world.turns(100);
    for key in 0..20 {
        assert_eq!(world.run(2, 7, &format!("SET key:{key} new")), "+OK");
    }
    for node in 0..3 {
        assert!(world.run(node, 8, "GET key:7").ends_with(" new"));
        let notices = world.nodes[node].gateway.take_notices();
        assert!(notices.is_empty(), "node {node}: {notices:?}");
    }
}

/// The rules of a build that is newer than this one.
fn newer() -> SemanticsVersion {
    SemanticsVersion(SemanticsVersion::CURRENT.0 + 1)
}

#[test]
fn a_build_that_is_too_old_for_an_entry_stops_its_replica_and_says_which_rules_it_lacks() {
    let new = newer();
    let mut world = replicated(2);
    for node in [0, 1] {
        world.install(node, new);
        world.restart(node);
        world.turns(3_000);
    }
    // What the meta group never does while a member is older.
    world.lay_out(|layout| layout.semantics = new);
    world.turns(3_000);
    for key in 0..20 {
        assert_eq!(world.run(0, 7, &format!("SET key:{key} new")), "+OK");
    }
    world.turns(100);
    let notices = world.nodes[2].gateway.take_notices();
    assert!(!notices.is_empty(), "it must not guess what the entries do");
    assert!(
        notices
            .iter()
            .all(|notice| notice.contains(&format!("rules of version {}", new.0))),
        "{notices:?}"
    );
    assert!(world.run(0, 8, "GET key:7").ends_with(" new"), "the others go on");
}

#[test]
fn an_order_of_another_durability_says_whose_replica_has_stopped() {
    let new = newer();
    let mut world = replicated(2);
    for node in [0, 1] {
        world.install(node, new);
        world.restart(node);
        world.turns(3_000);
    }
    world.lay_out(|layout| layout.semantics = new);
    world.turns(3_000);
    for key in 0..20 {
        assert_eq!(world.run(0, 7, &format!("SET key:{key} new")), "+OK");
    }
    let told = "its replica of group 0 has stopped at an entry that its build cannot read. Start a newer build there, and it follows";
    for (asked, named) in [(0, "node 2"), (2, "this node")] {
        world.send(asked, 1, "CONFIG SET durability relaxed");
        world.turns(5);
        let wishes = world.nodes[asked].gateway.take_wishes();
        let epoch = world.next_epoch();
        world.nodes[asked]
            .gateway
            .on_wish(wishes[0].id, Some(vec![epoch]));
        world.lay_out(|layout| {
            (layout.durability, layout.ordered) = (DurabilityMode::Relaxed, DurabilityMode::Relaxed);
        });
        for node in [0, 1] {
            world.nodes[node].has_followed(DurabilityChoice::Relaxed);
        }
        world.turns(9_000);
        assert_eq!(world.nodes[asked].take_reply(1), "", "it may go on yet");
        world.turns(2_000);
        let reply = world.nodes[asked].take_reply(1);
        assert_eq!(reply, format!("-ERR {named} has not followed: {told}"));
        world.lay_out(|layout| {
            (layout.durability, layout.ordered) = (DurabilityMode::Memory, DurabilityMode::Memory);
        });
        for node in [0, 1] {
            world.nodes[node].has_followed(DurabilityChoice::Memory);
        }
        world.turns(100);
    }
}

#[test]
fn any_node_serves_any_key() {
    for mut world in [spread(3, 4), replicated(4)] {
        for node in 0..3 {
            let client = node as u64 + 1;
            for key in 0..20 {
                assert_eq!(
                    world.run(node, client, &format!("SET k{node}:{key} v{key}")),
                    "+OK"
                );
                let value = format!("v{key}");
                let reply = format!("${} {value}", value.len());
                assert_eq!(world.run(node, client, &format!("GET k{node}:{key}")), reply);
            }
        }
        assert_eq!(world.run(2, 9, "DBSIZE"), ":60");
        assert_eq!(world.run(1, 8, "EXISTS k0:1"), ":1");
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(world.run(1, 8, "LPUSH k0:1 x"), wrong);
        assert_eq!(world.run(1, 8, "FLUSHALL"), "+OK");
        assert_eq!(world.run(2, 9, "DBSIZE"), ":0");
    }
}

#[test]
fn data_written_before_there_were_others_is_on_all_of_them() {
    let mut world = spread(3, 4);
    for key in 0..200 {
        assert_eq!(world.run(1, 1, &format!("SET k{key} {key}")), "+OK");
    }
    grow(&mut world);
    world.dead[0] = true;
    for key in 0..200 {
        let reply = world.run(2, 2, &format!("GET k{key}"));
        assert!(reply.ends_with(&format!(" {key}")), "{reply}");
    }
}

#[test]
fn nothing_that_was_acknowledged_is_lost_with_a_leader_and_nothing_is_done_twice() {
    let mut world = replicated(4);
    for key in 0..20 {
        assert_eq!(world.run(1, 1, &format!("INCR n{key}")), ":1");
    }
    for key in 0..20 {
        world.send(1, 100 + key, &format!("INCR n{key}"));
    }
    // Some of it is on its way when the node that leads everything is gone.
    world.turns(2);
    world.dead[0] = true;
    for key in 0..20 {
        let mut reply = String::new();
        for _ in 0..4_000 {
            reply = world.nodes[1].take_reply(100 + key);
            if !reply.is_empty() {
                break;
            }
            world.turn();
        }
        assert_eq!(reply, ":2", "n{key}");
        assert!(world.run(2, 2, &format!("GET n{key}")).ends_with(" 2"));
    }
}

#[test]
fn a_read_does_not_wait_for_writes_of_others_that_are_in_flight() {
    let mut world = with_a_stranger(1);
    assert_eq!(world.run(3, 1, "SET a 1"), "+OK");
    assert_eq!(world.run(3, 2, "GET a"), "$1 1");
    // Nothing is committed any more, and the lease lasts a while.
    (world.dead[1], world.dead[2]) = (true, true);
    world.send(3, 1, "SET a 2");
    world.turns(10);
    world.send(3, 2, "GET a");
    // Behind a write of its own connection a read waits.
    world.send(3, 1, "GET a");
    world.turns(10);
    assert_eq!(world.nodes[3].take_reply(2), "$1 1");
    assert_eq!(world.nodes[3].take_reply(1), "");
    (world.dead[1], world.dead[2]) = (false, false);
    assert_eq!(world.reply(3, 1), "+OK $1 2");
}

#[test]
fn a_read_that_has_to_be_asked_again_does_not_see_the_write_behind_it() {
    for turns in 0..6 {
        let mut world = replicated(1);
        assert_eq!(world.run(1, 1, "SET a 1"), "+OK");
        world.send(1, 1, "GET a");
        world.send(1, 1, "APPEND a 2");
        world.send(1, 1, "GET a");
        world.turns(turns);
        world.dead[0] = true;
        assert_eq!(world.reply(1, 1), "$1 1 :2 $2 12", "after {turns} turns");
    }
}

/// Whether a connection is told nothing any more for which a value was read before the process stood still.
fn is_void_behind_a_standstill() -> bool {
    let mut world = replicated(1);
    assert_eq!(world.run(0, 1, "SET a 1"), "+OK");
    assert_eq!(world.run(0, 1, "GET a"), "$1 1");
    assert!(!world.nodes[0].is_void(1));
    // Somebody else may have come to lead meanwhile. That the client says goodbye changes nothing.
    world.stand_still(5_000);
    world.send(0, 1, "GET a");
    world.send(0, 1, "QUIT");
    world.nodes[0].is_void(1)
}

#[test]
fn what_was_read_before_the_process_stood_still_is_not_told() {
    assert!(is_void_behind_a_standstill());
    mutations::plant(Some(mutations::Mutation::LeaseNotChecked));
    let is_void = is_void_behind_a_standstill();
    mutations::plant(None);
    assert!(!is_void, "the lease is looked at again");
}

/// The term of a follower that was told of a much later one, in a frame for another replica that its node had before.
fn term_told_to_an_earlier_incarnation() -> Term {
    let mut world = replicated(1);
    let message = RaftMessage {
        from: Incarnation(1_001),
        to: Incarnation(7),
        term: Term(99),
        body: MessageBody::Heartbeat {
            commit: Index(0),
            read: 0,
        },
    };
    let group = GroupId::new(0);
    let node = &mut world.nodes[1].gateway;
    node.on_peer(first_of(2), PeerMessage::Raft(Raft { group, message }));
    let mut replica_views = node.replica_views();
    let member = replica_views
        .next()
        .and_then(|replica_view| replica_view.member());
    member.expect("it is a follower").raft().status().term
}

#[test]
fn a_frame_for_an_earlier_incarnation_of_a_replica_is_not_for_the_present_one() {
    assert!(term_told_to_an_earlier_incarnation() < Term(99));
    mutations::plant(Some(mutations::Mutation::IncarnationNotChecked));
    let term = term_told_to_an_earlier_incarnation();
    mutations::plant(None);
    assert_eq!(term, Term(99), "the check is what keeps it out");
}

#[test]
fn a_replica_that_panics_ends_and_its_node_goes_on() {
    for broken in [0, 1] {
        let mut world = replicated(4);
        assert_eq!(world.run(2, 1, "SET a 1"), "+OK");
        world.turns(50);
        let of = |world: &World, node: usize| {
            let replica_views = world.nodes[node].gateway.replica_views();
            let replicas = replica_views.map(|replica_view| (replica_view.group, replica_view.incarnation));
            replicas.collect::<Vec<_>>()
        };
        let before = of(&world, broken);
        world.mistake = Some((broken, Mutation::ApplyPanics));
        world.send(2, 1, "SET a 2");
        for _ in 0..100 {
            world.turn();
            if of(&world, broken).len() < before.len() {
                break;
            }
        }
        world.mistake = None;
        let left = of(&world, broken);
        assert_eq!(left.len() + 1, before.len(), "one replica has ended");
        let notices = world.nodes[broken].gateway.take_notices();
        assert!(
            notices.len() == 1 && notices[0].contains("has panicked"),
            "{notices:?}"
        );
        assert_eq!(world.reply(2, 1), "+OK");
        // Any node serves its keys, its own too, and those of the other groups.
        for node in 0..3 {
            assert_eq!(world.run(node, 2, "GET a"), "$1 2");
            for key in 0..20 {
                assert_eq!(world.run(node, 2, &format!("SET k{key} {node}")), "+OK");
            }
        }
        world.turns(3_000);
        assert_eq!(of(&world, broken), left, "it does not come back under its name");
        assert!(world.nodes[broken].gateway.take_notices().is_empty());
        // It does not vote either: of the two others neither can be spared.
        let other = 1 - broken;
        world.dead[other] = true;
        let group = before
            .iter()
            .find(|replica| !left.contains(replica))
            .expect("one has ended")
            .0;
        world.turns(3_000);
        let leads = |node: usize| {
            let (group_reports, _) = world.nodes[node].gateway.group_reports();
            let named = control::GroupRef::Data(group);
            group_reports
                .iter()
                .any(|group_report| group_report.report.group == named)
        };
        assert!(!world.has_lease_of(2, group), "nobody has granted it anything");
        assert!(!leads(broken));
    }
}

#[test]
fn a_node_that_stands_still_is_waited_for_no_longer_than_one_that_is_gone() {
    for is_link_broken in [true, false] {
        let mut world = replicated(16);
        world.turns(1_000);
        world.dead[0] = true;
        if is_link_broken {
            for node in [1, 2] {
                world.nodes[node].gateway.on_link(NodeId(0), false);
            }
        }
        // The promise to the leader, the rest of a heartbeat's interval, and the turns of an election.
        world.turns(600);
        let led: usize = [1, 2]
            .map(|node| world.nodes[node].gateway.group_reports().0.len())
            .iter()
            .sum();
        assert_eq!(led, 16);
    }
}

#[test]
fn a_transaction_within_one_group_is_one_on_all_replicas() {
    let mut world = replicated(4);
    assert_eq!(world.run(1, 1, "SET {a}1 x"), "+OK");
    assert_eq!(world.run(1, 1, "WATCH {a}1"), "+OK");
    assert_eq!(world.run(1, 1, "MULTI"), "+OK");
    assert_eq!(world.run(1, 1, "INCR {a}2"), "+QUEUED");
    assert_eq!(world.run(1, 1, "GET {a}1"), "+QUEUED");
    assert_eq!(world.run(1, 1, "EXEC"), "*2 :1 $1 x");
    assert_eq!(world.run(2, 2, "WATCH {a}1"), "+OK");
    assert_eq!(world.run(2, 2, "MULTI"), "+OK");
    assert_eq!(world.run(2, 2, "INCR {a}2"), "+QUEUED");
    assert_eq!(world.run(1, 1, "SET {a}1 y"), "+OK");
    assert_eq!(world.run(2, 2, "EXEC"), "*-1");
    assert_eq!(world.run(0, 3, "GET {a}2"), "$1 1");
}

#[test]
fn a_learner_that_the_map_has_let_go_of_is_reported_all_the_same() {
    let mut world = spread(3, 1);
    let learner = Incarnation(1_000);
    world.lay_out(|layout| {
        layout.groups[0].seats.insert(learner, NodeId(1));
    });
    let members = |world: &World| {
        let (group_reports, _) = world.nodes[0].gateway.group_reports();
        let group_report = group_reports
            .first()
            .expect("the first node leads it, and says so");
        (group_report.report.index, group_report.report.members.len())
    };
    let (index, _) = members(&world);
    let order = Order::AddLearner {
        node: NodeId(1),
        incarnation: learner,
    };
    world.nodes[0].gateway.on_order(GroupId::new(0), index, &order);
    world.turns(200);
    assert_eq!(members(&world).1, 2);
    // Its node is no target any more, and nobody had reported it.
    world.lay_out(|layout| {
        layout.groups[0].seats.remove(&learner);
    });
    world.turns(200);
    assert_eq!(members(&world).1, 2, "or nobody would ever have it removed");
}

#[test]
fn a_new_leader_lets_go_of_a_learner_of_which_nobody_knows_where_it_is() {
    let mut world = replicated(1);
    let learner = Incarnation(1_500);
    let index = world.nodes[0].gateway.group_reports().0[0].report.index;
    let order = Order::AddLearner {
        node: NodeId(1),
        incarnation: learner,
    };
    world.nodes[0].gateway.on_order(GroupId::new(0), index, &order);
    world.turns(200);
    assert_eq!(
        world.nodes[0].gateway.group_reports().0[0].report.members.len(),
        4
    );
    world.dead[0] = true;
    assert_eq!(world.run(1, 1, "SET a 1"), "+OK");
    let group_reports = |world: &World| {
        let group_reports = [1, 2].map(|node| world.nodes[node].gateway.group_reports().0);
        group_reports.concat()
    };
    assert_eq!(group_reports(&world), [], "it cannot say where the learner is");
    for _ in 0..10_000 {
        world.turn();
        if let [group_report] = group_reports(&world).as_slice() {
            assert_eq!(group_report.report.members.len(), 3);
            return;
        }
    }
    panic!("a group that is never reported is never mended");
}

#[test]
fn a_voter_does_not_leave_when_too_many_of_those_who_stay_are_gone() {
    let mut world = replicated(1);
    let leaves = Incarnation(1_001);
    let order = Order::Change {
        promote: Vec::new(),
        remove: vec![leaves],
    };
    let members = |world: &World| {
        let group_reports = world.nodes[0].gateway.group_reports().0;
        let report = &group_reports.first().expect("the first node leads").report;
        (report.index, report.members.len())
    };
    // The meta group has not noticed that another one is gone, and of two voters none can be spared.
    world.dead[1] = true;
    world.turns(1_000);
    let (index, _) = members(&world);
    world.nodes[0].gateway.on_order(GroupId::new(0), index, &order);
    assert_eq!(world.run(0, 1, "SET a 1"), "+OK");
    assert_eq!(members(&world), (index, 3));
    world.dead[1] = false;
    world.turns(1_000);
    world.nodes[0].gateway.on_order(GroupId::new(0), index, &order);
    world.turns(1_000);
    assert_eq!(members(&world).1, 2);
}

#[test]
fn a_learner_whose_leader_has_lost_its_memory_says_what_it_holds() {
    let mut world = spread(3, 1);
    let learner = Incarnation(1_000);
    world.lay_out(|layout| {
        layout.groups[0].seats.insert(learner, NodeId(1));
    });
    let index = world.nodes[0].gateway.group_reports().0[0].report.index;
    let order = Order::AddLearner {
        node: NodeId(1),
        incarnation: learner,
    };
    world.nodes[0].gateway.on_order(GroupId::new(0), index, &order);
    world.turns(200);
    assert_eq!(world.run(0, 1, "SET a 1"), "+OK");
    world.turns(100);
    assert_eq!(world.nodes[1].gateway.recovery_sources(), [], "it is led");
    world.dead[0] = true;
    world.turns(3_000);
    let recovery_sources = world.nodes[1].gateway.recovery_sources();
    let lost: Vec<Option<Incarnation>> = recovery_sources
        .iter()
        .map(|recovery_source| recovery_source.lost_voter)
        .collect();
    assert_eq!(lost, [None], "it knows of no leader, and of no loss");
    let lost = *world.layout.groups[0]
        .seats
        .keys()
        .next()
        .expect("the bootstrap replica");
    world.lay_out(|layout| {
        let group = &mut layout.groups[0];
        group.seats.remove(&lost);
        group.lost.insert(lost, NodeId(0));
        (group.lost_voter, group.bootstrap_replica, group.voters) = (Some(lost), None, 0);
    });
    let recovery_sources = world.nodes[1].gateway.recovery_sources();
    let [recovery_source] = recovery_sources.as_slice() else {
        panic!("{recovery_sources:?}")
    };
    assert_eq!(
        (recovery_source.incarnation, recovery_source.lost_voter),
        (learner, Some(lost))
    );
    assert!(recovery_source.last.0 > 0);
    // The meta group lets it begin the group anew.
    world.lay_out(|layout| {
        let (group, recovered) = (&mut layout.groups[0], Incarnation(2_000));
        group.generation += 1;
        group.recovered_from = Some(learner);
        group.seats = [(recovered, NodeId(1))].into();
        (group.lost_voter, group.bootstrap_replica) = (None, Some(recovered));
    });
    assert_eq!(world.run(1, 2, "GET a"), "$1 1");
}

#[test]
fn a_recovered_replica_does_not_lead_while_it_owes_another_leader_that_nobody_else_does() {
    for is_restarted in [false, true] {
        let mut world = replicated(1);
        assert_eq!(world.run(0, 1, "SET a 1"), "+OK");
        world.turns(100);
        assert!(world.has_lease(0));
        // The first node stands still for a moment. It is not dead, and has not heard that its group begins anew.
        world.dead[0] = true;
        if is_restarted {
            world.restart(1);
        }
        world.lay_out_for(1, |layout| {
            let (group, recovered) = (&mut layout.groups[0], Incarnation(5_000));
            group.generation += 1;
            group.recovered_from = Some(Incarnation(1_000));
            group.seats = [(recovered, NodeId(1))].into();
            group.bootstrap_replica = Some(recovered);
        });
        let mut waited = 0;
        while !world.has_lease(1) {
            if is_restarted && waited == 10 {
                // What waits is handed over, too.
                world.restart(1);
            }
            world.turn();
            waited += 1;
            assert!(waited < 5_000, "at last it leads");
            assert!(!(world.has_lease(0) && world.has_lease(1)), "two leaders at once");
        }
        assert!(waited > 20, "it has waited");
        assert_eq!(world.run(1, 2, "GET a"), "$1 1");
    }
}

#[test]
fn keys_of_several_groups_are_one_transaction_from_any_node() {
    let mut world = replicated(4);
    assert_eq!(world.run(1, 1, "MSET a 1 b 2 c 3 d 4 e 5"), "+OK");
    assert_eq!(
        world.run(2, 1, "MGET a b c d e f"),
        "*6 $1 1 $1 2 $1 3 $1 4 $1 5 $-1"
    );
    assert_eq!(world.run(0, 1, "MSETNX e 6 f 6"), ":0", "e is there");
    assert_eq!(world.run(0, 1, "DBSIZE"), ":5", "and nothing was done");
    assert_eq!(world.run(1, 1, "RENAME a z"), "+OK");
    assert_eq!(world.run(2, 1, "DEL b c d e"), ":4");
    assert_eq!(world.run(0, 1, "KEYS *"), "*1 $1 z");
    assert_eq!(world.run(2, 1, "RPUSH source 1 2 3"), ":3");
    assert_eq!(world.run(1, 1, "LMOVE source target LEFT RIGHT"), "$1 1");
    assert_eq!(world.run(0, 1, "LRANGE target 0 -1"), "*1 $1 1");
    for line in ["MULTI", "INCR z", "SET y 7", "MGET z y", "DBSIZE"] {
        world.run(1, 2, line);
    }
    let reply = world.run(1, 2, "EXEC");
    assert!(reply.starts_with("*4 :2 +OK *2 $1 2 $1 7 :"), "{reply}");
    assert_eq!(world.run(2, 1, "FLUSHALL"), "+OK");
    assert_eq!(world.run(1, 1, "DBSIZE"), ":0");
    world.turns(200);
    for node in 0..3 {
        assert_eq!(world.transactions_left(node), 0, "all is over and forgotten");
    }
}

/// Two groups that the first node leads, turns that are short beside the time for which a decision may be kept, and a key of each.
fn with_short_turns() -> (World, [String; 2]) {
    let mut world = replicated(2);
    // A tick's work is over.
    world.turns(30);
    world.pace = 10_000;
    let groups = ids::Groups::with_default_partitions(ids::GroupCount::new(2).expect("a valid count"));
    let of = |group: u16| {
        let mut keys = (0..100).map(|number| format!("key:{number}"));
        let is_there =
            |key: &String| groups.group_of(ids::Slot::of_key(key.as_bytes())) == GroupId::new(group);
        keys.find(is_there).expect("there are enough")
    };
    (world, [of(0), of(1)])
}

#[test]
fn a_transaction_costs_its_groups_one_entry_each_and_its_end_shares_the_next() {
    let (mut world, [a, b]) = with_short_turns();
    let before = world.proposed(0);
    for value in 0..20 {
        assert_eq!(world.run(1, 1, &format!("MSET {a} {value} {b} {value}")), "+OK");
    }
    assert_eq!(world.proposed(0) - before, 40);
    assert_eq!(world.transactions_held(0), 2, "the last one's end is kept");
    world.turns(120);
    assert_eq!(world.proposed(0) - before, 42, "and not for ever");
    assert_eq!(world.transactions_held(0), 0);
    // What is to be forgotten goes along, too.
    for value in 0..20 {
        world.turns(150);
        assert_eq!(world.run(1, 1, &format!("MSET {a} {value} {b} {value}")), "+OK");
    }
    assert_eq!(world.proposed(0) - before, 42 + 80 - 2);
}

#[test]
fn nobody_waits_for_a_decision_that_is_kept() {
    for words in ["GET", "STRLEN", "INCR", "WATCH"] {
        for turns in 0..6 {
            for node in [0, 2] {
                let (mut world, [a, b]) = with_short_turns();
                assert_eq!(world.run(1, 1, &format!("MSET {a} 7 {b} 7")), "+OK");
                world.turns(turns);
                assert_eq!(
                    world.transactions_held(0),
                    2,
                    "the decision is kept, or on its way"
                );
                let now = world.now;
                let reply = world.run(node, 2, &format!("{words} {a}"));
                let expected = match words {
                    "GET" => "$1 7",
                    "STRLEN" => ":1",
                    "INCR" => ":8",
                    _ => "+OK",
                };
                assert_eq!(reply, expected);
                let took = (world.now - now) / world.pace;
                assert!(took < 12, "{words}: {took} turns");
            }
        }
    }
}

#[test]
fn a_decision_that_is_kept_outlives_the_leader() {
    for turns in 0..8 {
        let (mut world, [a, b]) = with_short_turns();
        assert_eq!(world.run(1, 1, &format!("MSET {a} 7 {b} 7")), "+OK");
        world.turns(turns);
        world.dead[0] = true;
        world.pace = 1_000_000;
        world.nodes[1].gateway.on_link(NodeId(0), false);
        world.nodes[2].gateway.on_link(NodeId(0), false);
        for key in [&a, &b] {
            assert_eq!(
                world.run(2, 2, &format!("GET {key}")),
                "$1 7",
                "after {turns} turns"
            );
        }
        world.turns(2_000);
        assert_eq!(world.transactions_held(1) + world.transactions_held(2), 0);
    }
}

#[test]
fn who_waits_for_a_key_is_served_wherever_the_element_comes_from() {
    let mut world = replicated(4);
    for node in 0..3 {
        world.send(node, 10, &format!("BLPOP queue{node} 0"));
        world.turns(200);
        assert_eq!(world.nodes[node].take_reply(10), "");
        let from = (node + 1) % 3;
        assert_eq!(world.run(from, 11, &format!("RPUSH queue{node} a b")), ":2");
        world.turns(200);
        let reply = world.nodes[node].take_reply(10);
        assert_eq!(reply, format!("*2 $6 queue{node} $1 a"));
        assert_eq!(world.run(from, 11, &format!("LPOP queue{node}")), "$1 b");
    }
}

#[test]
fn expired_keys_go_on_all_replicas() {
    let mut world = replicated(2);
    assert_eq!(world.run(1, 1, "SET a 1 PX 50"), "+OK");
    assert_eq!(world.run(2, 1, "SET b 1 PX 50"), "+OK");
    world.turns(60);
    assert_eq!(world.run(1, 1, "GET a"), "$-1");
    world.cron();
    world.turns(20);
    assert_eq!(world.run(2, 1, "DBSIZE"), ":0");
}

/// What `DBSIZE` answers behind reads that found every key expired, asked through each node.
fn counts_behind_reads_of_expired_keys() -> Vec<String> {
    let mut world = replicated(4);
    let keys = ["{t}a", "{t}b", "{t}c"];
    let count = |node: usize| {
        for key in keys {
            assert_eq!(world.run(node, 1, &format!("SET {key} 1 PX 50")), "+OK");
        }
        world.turns(60);
        // By group time they have expired then, and reads of them wait for nothing.
        assert_eq!(world.run(node, 1, "SET {t}d 1"), "+OK");
        assert_eq!(world.run(node, 1, "DBSIZE"), ":4");
        // The count is asked for when the answer before is there, and before another turn.
        world.send(node, 1, "MGET {t}a {t}b {t}c");
        assert_eq!(world.reply(node, 1), "*3 $-1 $-1 $-1");
        world.run(node, 1, "DBSIZE")
    };
    (0..3).cycle().take(9).map(count).collect()
}

#[test]
fn what_a_read_found_to_be_expired_is_counted_no_longer() {
    assert_eq!(counts_behind_reads_of_expired_keys(), [":1"; 9]);
    mutations::plant(Some(mutations::Mutation::OwnNotAwaited));
    let counts = counts_behind_reads_of_expired_keys();
    mutations::plant(None);
    assert!(counts.contains(&":4".to_owned()), "{counts:?}");
}

/// What a client is told that reads behind a write which is lost on its way to the leader.
fn read_behind_what_is_lost() -> String {
    let mut world = replicated(1);
    assert_eq!(world.run(1, 1, "SET k 1"), "+OK");
    world.send(1, 1, "INCR k");
    world.turn();
    world.lose();
    world.send(1, 1, "GET k");
    world.reply(1, 1)
}

#[test]
fn a_read_sees_the_write_before_it_though_that_was_lost_and_sent_again() {
    assert_eq!(read_behind_what_is_lost(), ":2 $1 2");
    mutations::plant(Some(mutations::Mutation::WriteBeforeNotMissed));
    let seen = read_behind_what_is_lost();
    mutations::plant(None);
    assert_eq!(seen, ":2 $1 1");
}

#[test]
fn a_scan_goes_through_all_groups_wherever_they_are_led() {
    let mut world = replicated(4);
    for key in 0..100 {
        world.run(1, 1, &format!("SET k{key} 1"));
    }
    let mut cursor = "0".to_owned();
    let mut found = 0;
    loop {
        let reply = world.run(2, 2, &format!("SCAN {cursor} COUNT 7"));
        let words: Vec<&str> = reply.split(' ').collect();
        cursor = words[2].to_owned();
        found += words.iter().filter(|word| word.starts_with('k')).count();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found, 100);
}

#[test]
fn a_scan_of_few_keys_takes_one_call_however_many_groups_there_are_and_wherever_they_are_led() {
    for groups in [1, 3, 12, 64] {
        let mut world = replicated(groups);
        assert_eq!(world.run(1, 1, "SCAN 0"), "*2 $1 0 *0");
        let mut keys = ["one", "two", "three", "four", "five"];
        keys.sort_unstable();
        for key in keys {
            assert_eq!(world.run(1, 1, &format!("SET {key} 1")), "+OK");
        }
        for node in 0..3 {
            for command in ["SCAN 0", "SCAN 0 COUNT 100 TYPE string", "SCAN 0 count 6"] {
                let reply = world.run(node, node as u64, command);
                let words: Vec<&str> = reply.split(' ').collect();
                assert_eq!(
                    words[..4],
                    ["*2", "$1", "0", "*5"],
                    "{groups} groups, {command}: {reply}"
                );
                let mut found: Vec<&str> = words[4..].iter().copied().skip(1).step_by(2).collect();
                found.sort_unstable();
                assert_eq!(found, keys);
            }
            // No more than it was to look at, and the rest later.
            let reply = world.run(node, node as u64, "SCAN 0 COUNT 2");
            assert!(
                reply.contains(" *2 ") && !reply.starts_with("*2 $1 0 "),
                "{reply}"
            );
        }
    }
}

/// Some groups have a replica on each of three nodes; a fourth node has none of any.
fn with_a_stranger(groups: u16) -> World {
    let mut world = World::new(4, groups);
    world.lay_out(|_| {});
    world.turns(100);
    grow(&mut world);
    world
}

#[test]
fn who_waits_at_a_node_without_a_replica_is_told_of_the_element() {
    let mut world = with_a_stranger(4);
    for round in 0..6 {
        world.send(3, 10, &format!("BLPOP queue{round} 0"));
        world.turns(100);
        assert_eq!(world.nodes[3].take_reply(10), "");
        assert_eq!(world.run(round % 3, 11, &format!("RPUSH queue{round} a b")), ":2");
        world.turns(20);
        let reply = format!("*2 $6 queue{round} $1 a");
        assert_eq!(world.nodes[3].take_reply(10), reply, "in round {round}");
        assert_eq!(world.run(3, 11, &format!("LPOP queue{round}")), "$1 b");
    }
}

#[test]
fn who_waits_elsewhere_is_told_by_the_next_leader_too() {
    let mut world = with_a_stranger(2);
    for (client, key) in [(10, "a"), (11, "b"), (12, "c"), (13, "d")] {
        // In several groups: what they wait for is told to their node.
        world.send(3, client, &format!("BLPOP {key} no:1 no:2 no:3 0"));
    }
    world.turns(50);
    world.dead[0] = true;
    for node in 1..4 {
        world.nodes[node].gateway.on_link(NodeId(0), false);
    }
    world.turns(1_000);
    for (client, key) in [(10, "a"), (11, "b"), (12, "c"), (13, "d")] {
        assert_eq!(world.nodes[3].take_reply(client), "");
        assert_eq!(world.run(1, 1, &format!("RPUSH {key} x")), ":1");
        world.turns(50);
        assert_eq!(world.nodes[3].take_reply(client), format!("*2 $1 {key} $1 x"));
    }
    // Nobody is told of what nobody waits for.
    assert_eq!(world.run(1, 1, "RPUSH a x"), ":1");
    world.turns(50);
    assert_eq!(world.run(3, 10, "LLEN a"), ":1");
}

#[test]
fn a_key_that_is_too_long_to_be_kept_is_asked_for_again_and_again() {
    let mut world = with_a_stranger(4);
    let key = "k".repeat(5_000);
    world.send(3, 10, &format!("BLPOP {key} a b c d 0"));
    world.turns(100);
    assert_eq!(world.run(1, 1, &format!("RPUSH {key} x")), ":1");
    world.turns(300);
    assert_eq!(world.nodes[3].take_reply(10), format!("*2 $5000 {key} $1 x"));
}

#[test]
fn a_node_alone_goes_on_with_what_it_held() {
    let mut world = spread(1, 4);
    for key in 0..200 {
        assert_eq!(world.run(0, 1, &format!("SET k{key} {key}")), "+OK");
    }
    world.restart(0);
    assert_eq!(world.run(0, 1, "DBSIZE"), ":200");
    assert_eq!(world.run(0, 1, "INCR k7"), ":8");
}

#[test]
fn nodes_that_are_restarted_one_by_one_or_together_are_the_same_replicas() {
    let mut world = replicated(4);
    for key in 0..100 {
        assert_eq!(world.run(1, 1, &format!("SET k{key} {key}")), "+OK");
    }
    for node in 0..3 {
        world.restart(node);
        world.turns(2_000);
        assert_eq!(world.run(node, 2, "INCR n"), format!(":{}", node + 1));
    }
    (0..3).for_each(|node| world.restart(node));
    assert_eq!(world.run(1, 3, "INCR n"), ":4");
    assert_eq!(world.run(2, 3, "DBSIZE"), ":101");
    // Nobody was filled again: what each of them holds is enough without any other.
    for key in 0..100 {
        assert!(
            world
                .run(2, 4, &format!("GET k{key}"))
                .ends_with(&format!(" {key}"))
        );
    }
}

#[test]
fn leadership_goes_elsewhere_before_a_node_stops() {
    let mut world = replicated(4);
    assert_eq!(world.nodes[0].gateway.group_reports().0.len(), 4);
    let mut rounds = 0;
    while world.nodes[0].gateway.resign() > 0 {
        world.turn();
        rounds += 1;
        assert!(rounds < 200, "a few rounds are enough");
    }
    assert_eq!(world.nodes[0].gateway.group_reports().0.len(), 0);
    world.dead[0] = true;
    assert_eq!(world.run(1, 1, "SET a 1"), "+OK");
}

/// A node dies, and the others learn it.
fn die(world: &mut World, node: usize) {
    world.dead[node] = true;
    for other in (0..3).filter(|other| *other != node) {
        world.nodes[other].gateway.on_link(NodeId(node as u64), false);
    }
}

#[test]
fn leadership_goes_to_the_next_node_if_the_one_that_it_was_offered_to_dies() {
    let mut world = replicated(4);
    assert!(world.nodes[0].gateway.resign() > 0);
    // Whoever has as much as any other is asked: the last one.
    die(&mut world, 2);
    let mut rounds = 0;
    while world.nodes[0].gateway.resign() > 0 {
        world.turn();
        rounds += 1;
        assert!(rounds < 1_000, "it is not offered to a dead node for ever");
    }
    assert_eq!(world.nodes[0].gateway.group_reports().0.len(), 0);
    world.turns(50);
    assert_eq!(world.nodes[1].gateway.group_reports().0.len(), 4);
}

#[test]
fn nobody_is_offered_leadership_when_all_other_nodes_are_dead() {
    let mut world = replicated(4);
    assert!(world.nodes[0].gateway.resign() > 0);
    (1..3).for_each(|node| die(&mut world, node));
    assert_eq!(world.nodes[0].gateway.resign(), 0);
}

#[test]
fn what_waits_for_groups_that_can_have_no_leader_does_not_hold_up_a_node_that_stops() {
    let mut world = replicated(4);
    let [a, b] = [0, 2].map(|group| key(4, group, "k"));
    assert_eq!(world.run(0, 1, &format!("MSET {a} 0 {b} 0")), "+OK");
    for moment in 0..8 {
        world.send(0, 2, &format!("MSET {a} {moment} {b} {moment}"));
        world.turns(moment);
        (1..3).for_each(|node| die(&mut world, node));
        world.turns(50);
        let told = world.nodes[0].take_reply(2);
        assert!(world.nodes[0].gateway.is_at_rest(), "after {moment} turns");
        // All three come back with what they had, and see to the end of it.
        for node in 0..3 {
            world.dead[node] = false;
            world.restart(node);
        }
        let boots = |number: u64| Boot(100 * (moment as u64 + 1) + number);
        world.lay_out(|layout| layout.boots = Boots::new(boots(3), (1..=3).map(boots)).into());
        let reply = world.run(1, 3, &format!("MGET {a} {b}"));
        let values: Vec<&str> = reply.split(' ').collect();
        assert_eq!(values[2], values[4], "all of it, or nothing: {reply}");
        assert!(
            told.is_empty() || values[2] == moment.to_string(),
            "{told}, and {reply}"
        );
        world.turns(2_000);
        (0..3).for_each(|node| assert_eq!(world.transactions_left(node), 0, "of node {node}"));
    }
}

/// How many entries the leader of all groups puts into their logs because of another version of the map.
fn told_of(world: &mut World, change: impl FnOnce(&mut Layout)) -> u64 {
    let before = world.proposed(0);
    world.lay_out(change);
    world.turns(200);
    world.proposed(0) - before
}

/// How many groups of four are told that a node has died.
fn told_of_a_death() -> u64 {
    let mut world = replicated(4);
    world.turns(200);
    assert_eq!(
        told_of(&mut world, |_| {}),
        0,
        "nothing but the version is another"
    );
    let all = |newest: u64| Boots::new(Boot(newest), (1..=newest).map(Boot)).into();
    assert_eq!(
        told_of(&mut world, |layout| layout.boots = all(4)),
        0,
        "a node joins"
    );
    told_of(&mut world, |layout| {
        layout.boots = Boots::new(Boot(4), [1, 2, 3].map(Boot)).into()
    })
}

#[test]
fn groups_are_told_of_the_dead_when_somebody_has_died_and_of_no_other_version_of_the_map() {
    assert_eq!(told_of_a_death(), 4, "each group once");
    mutations::plant(Some(Mutation::LaterDeathNotTold));
    let told = told_of_a_death();
    mutations::plant(None);
    assert_eq!(told, 0, "the mistake is noticed");
}

#[test]
fn a_group_whose_majority_is_gone_begins_anew_with_what_a_recovery_source_holds() {
    for is_restarted in [false, true] {
        let mut world = replicated(4);
        for key in 0..50 {
            assert_eq!(world.run(1, 1, &format!("SET k{key} {key}")), "+OK");
        }
        // The recovery source has not heard that all of it is committed.
        (world.dead[0], world.dead[1]) = (true, true);
        world.turns(100);
        if is_restarted {
            world.restart(2);
        }
        world.lay_out(|layout| {
            for (number, group) in (0..).zip(&mut layout.groups) {
                let recovered = Incarnation(5_000 + number);
                group.generation += 1;
                group.recovered_from = Some(Incarnation(1_001 + 2 * number));
                group.seats = [(recovered, NodeId(2))].into();
                group.bootstrap_replica = Some(recovered);
            }
        });
        for key in 0..50 {
            let reply = world.run(2, 2, &format!("GET k{key}"));
            assert!(reply.ends_with(&format!(" {key}")), "{is_restarted} {reply}");
        }
        assert_eq!(world.run(2, 2, "INCR n"), ":1");
    }
}

#[test]
fn what_another_replica_held_is_not_used() {
    let mut world = spread(1, 1);
    assert_eq!(world.run(0, 1, "SET a 1"), "+OK");
    // The cluster counts on it no more: its group began anew.
    world.layout.groups[0].seats = [(Incarnation(77), NodeId(0))].into();
    world.layout.groups[0].bootstrap_replica = Some(Incarnation(77));
    world.restart(0);
    assert_eq!(world.run(0, 1, "DBSIZE"), ":0");
    assert_eq!(world.run(0, 1, "SET b 1"), "+OK");
    // A replica that is recovered begins with the memory of another.
    world.layout.groups[0].seats = [(Incarnation(78), NodeId(0))].into();
    world.layout.groups[0].bootstrap_replica = Some(Incarnation(78));
    world.layout.groups[0].recovered_from = Some(Incarnation(77));
    world.restart(0);
    assert_eq!(world.run(0, 1, "DBSIZE"), ":1");
}

#[test]
fn a_connection_is_told_how_many_replicas_hold_its_writes() {
    let mut world = spread(3, 2);
    assert_eq!(world.run(1, 1, "WAIT 0 0"), ":0");
    // It waits until there are as many as it asks for.
    world.send(1, 1, "WAIT 1 0");
    world.send(1, 3, "WAIT 2 0");
    world.turns(20);
    assert_eq!(world.nodes[1].take_reply(1), "");
    grow(&mut world);
    assert_eq!(world.nodes[1].take_reply(1), ":1");
    assert_eq!(world.run(1, 1, "WAIT 1 0"), ":1");
    assert_eq!(world.nodes[1].take_reply(3), "");
    world.nodes[1].hang_up(3);
    // It comes behind the writes before it, and they were acknowledged.
    world.send(2, 2, "SET a 1");
    world.send(2, 2, "WAIT 1 0");
    world.turns(1);
    assert_eq!(world.nodes[2].take_reply(2), "");
    world.turns(50);
    assert_eq!(world.nodes[2].take_reply(2), "+OK :1");
}

#[test]
fn a_follower_answers_old_values_to_who_asks_for_them() {
    let mut world = replicated(2);
    assert_eq!(world.run(0, 1, "SET a 1"), "+OK");
    assert_eq!(world.run(0, 1, "SET b 1"), "+OK");
    world.turns(200);
    world.by_cluster(1, 5);
    assert_eq!(world.run(1, 5, "READONLY"), "+OK");
    world.dead[0] = true;
    world.dead[2] = true;
    for key in ["a", "b"] {
        world.send(1, 5, &format!("GET {key}"));
        assert_eq!(world.nodes[1].take_reply(5), "$1 1", "at once, from here");
    }
    // Without the wish the leader is asked, who does not answer.
    assert_eq!(world.run(1, 5, "READWRITE"), "+OK");
    world.send(1, 5, "GET a");
    world.turns(20);
    assert_eq!(world.nodes[1].take_reply(5), "");
}

/// A request id of that moment.
fn request_id(world: &World, number: u64) -> String {
    let millis = world.now / 1_000_000;
    format!(
        "{:08x}-{:04x}-7000-8000-{number:012x}",
        millis >> 16,
        millis & 0xffff
    )
}

/// Sends words to a node under a name, as a client of it.
fn run_named(world: &mut World, node: usize, client: u64, id: &str, words: &str) -> String {
    assert_eq!(world.run(node, client, &format!("CLIENT REQUEST {id}")), "+OK");
    world.run(node, client, words)
}

#[test]
fn a_request_with_a_name_is_carried_out_once_through_whichever_nodes_it_comes() {
    for mut world in [spread(3, 8), replicated(8), World::new(1, 8)] {
        let others = [0, world.nodes.len() - 1, world.nodes.len() / 2];
        world.run(0, 1, "MSET a 100 b 100 c 100 d 100");
        for (number, words, answer) in [
            (1, "ADD a 5", ":105"),
            (2, "XFER a b 5", "*2 :100 :105"),
            (3, "MSETNX e 1 f 1", ":1"),
            (4, "MSETNX a 1 g 1", ":0"),
            (5, "RENAME e h", "+OK"),
            (6, "ADD nothing 5", "-ERR no such key"),
        ] {
            let id = request_id(&world, number);
            for node in others {
                assert_eq!(run_named(&mut world, node, 2, &id, words), answer, "{words}");
            }
        }
        let id = request_id(&world, 7);
        for node in others {
            run_named(&mut world, node, 2, &id, "MULTI");
            world.run(node, 2, "INCR c");
            world.run(node, 2, "PING");
            world.run(node, 2, "INCR d");
            assert_eq!(world.run(node, 2, "EXEC"), "*3 :101 +PONG :101");
        }
        assert_eq!(world.run(0, 1, "MGET a b c d"), "*4 $3 100 $3 105 $3 101 $3 101");
    }
}

#[test]
fn the_result_of_a_named_request_outlives_the_node_that_was_asked_and_the_leaders_of_its_groups() {
    for words in ["ADD a 1", "XFER a b 1"] {
        let mut world = replicated(8);
        world.run(1, 1, "MSET a 10 b 10");
        let id = request_id(&world, 1);
        let answer = run_named(&mut world, 0, 2, &id, words);
        world.turns(50);
        // The first node leads groups, and has told its client.
        world.dead[0] = true;
        for node in 1..world.nodes.len() {
            let gateway = &mut world.nodes[node].gateway;
            gateway.on_link(ids::NodeId(0), false);
        }
        for node in [1, 2] {
            assert_eq!(run_named(&mut world, node, 3, &id, words), answer);
        }
    }
}

#[test]
fn two_connections_that_send_the_same_request_at_once_get_one_result() {
    let mut world = replicated(8);
    world.run(1, 1, "MSET a 100 b 100");
    for number in 0..20 {
        let id = request_id(&world, number);
        for node in 0..3 {
            world.run(node, 2, &format!("CLIENT REQUEST {id}"));
        }
        (0..3).for_each(|node| world.send(node, 2, "XFER a b 1"));
        let mut answers = vec![String::new(); 3];
        for _ in 0..8_000 {
            for (node, answer) in answers
                .iter_mut()
                .enumerate()
                .filter(|(_, answer)| answer.is_empty())
            {
                *answer = world.nodes[node].take_reply(2);
            }
            if answers.iter().all(|answer| !answer.is_empty()) {
                break;
            }
            world.turn();
        }
        let expected = format!("*2 :{} :{}", 99 - number, 101 + number);
        assert_eq!(answers, [&*expected; 3]);
    }
}

#[test]
fn what_cannot_have_a_name_is_refused_and_what_needs_none_is_carried_out() {
    let mut world = replicated(8);
    let id = request_id(&world, 1);
    for words in ["BLPOP q 1", "FLUSHALL"] {
        let answer = run_named(&mut world, 1, 1, &id, words);
        assert!(
            answer.starts_with("-ERR a request id is for commands"),
            "{answer}"
        );
    }
    world.run(1, 1, "WATCH k");
    run_named(&mut world, 1, 1, &id, "MULTI");
    world.run(1, 1, "INCR k");
    assert!(world.run(1, 1, "EXEC").starts_with("-EXECABORT"));
    // A read needs none, and a name is for one command only.
    assert_eq!(run_named(&mut world, 1, 1, &id, "GET k"), "$-1");
    assert_eq!(world.run(1, 1, "INCR k"), ":1");
    assert_eq!(run_named(&mut world, 1, 1, &id, "INCR k"), ":2");
    assert_eq!(run_named(&mut world, 2, 1, &id, "INCR k"), ":2");
    let answer = run_named(&mut world, 2, 1, &id, "DECR k");
    assert!(answer.contains("was used for another request"), "{answer}");
    // The cluster endpoint sends nobody elsewhere who has named his request.
    for node in 0..3 {
        world.by_cluster(node, 9);
        assert_eq!(run_named(&mut world, node, 9, &id, "INCR k"), ":2");
    }
}

#[test]
fn a_node_hears_of_each_event_once_while_its_replica_is_filled() {
    let mut world = spread(3, 1);
    for node in 0..3 {
        world.nodes[node].hears_of_setting("notify-keyspace-events", "E$", 1);
        assert!(
            world
                .run(node, 1, "SUBSCRIBE __keyevent@0__:set")
                .starts_with("*3")
        );
    }
    let value = "x".repeat(4_096);
    for key in 0..600 {
        assert_eq!(world.run(0, 2, &format!("SET before:{key} {value}")), "+OK");
    }
    world.turns(50);
    world.nodes.iter_mut().for_each(|node| node.messages.clear());
    let mut written = 0;
    let mut write = |world: &mut World, count: u64| {
        for _ in 0..count {
            world.send(1, 3, &format!("SET k:{written:04} x"));
            written += 1;
            world.turn();
        }
    };
    let (learner, node) = (Incarnation(1_001), NodeId(2));
    world.lay_out(|layout| {
        layout.groups[0].seats.insert(learner, node);
    });
    write(&mut world, 20);
    let (group_reports, _) = world.nodes[0].gateway.group_reports();
    let index = group_reports[0].report.index;
    let order = Order::AddLearner {
        node,
        incarnation: learner,
    };
    world.nodes[0].gateway.on_order(GroupId::new(0), index, &order);
    write(&mut world, 300);
    let (group_reports, _) = world.nodes[0].gateway.group_reports();
    assert!(!group_reports[0].caught_up.is_empty(), "it has been filled");
    world.turns(100);
    for (number, node) in world.nodes.iter().enumerate() {
        let key = |message: &String| message.trim().rsplit(' ').next().map(str::to_owned);
        let told: Vec<String> = node.messages.iter().filter_map(key).collect();
        let wanted: Vec<String> = (0..320).map(|key| format!("k:{key:04}")).collect();
        let first = told.iter().zip(&wanted).position(|(told, wanted)| told != wanted);
        assert_eq!((told.len(), first), (320, None), "node {number}");
    }
}

#[test]
fn every_node_hears_once_of_each_event_of_values_that_cross_groups() {
    let mut world = replicated(2);
    for node in 0..3 {
        world.nodes[node].hears_of_setting("notify-keyspace-events", "EA", 1);
        assert!(
            world
                .run(node, 1, "PSUBSCRIBE __keyevent@0__:*")
                .starts_with("*3")
        );
    }
    let (a, b, c) = (key(2, 0, "a"), key(2, 1, "b"), key(2, 1, "c"));
    for words in [format!("SADD {a} 1 2"), format!("SADD {b} 2 3")] {
        world.run(0, 2, &words);
    }
    world.turns(1_000);
    world.nodes.iter_mut().for_each(|node| node.messages.clear());
    assert_eq!(world.run(1, 2, &format!("SINTERSTORE {a} {a} {b}")), ":1");
    assert_eq!(world.run(2, 2, &format!("RENAME {a} {c}")), "+OK");
    assert_eq!(world.run(0, 2, &format!("SMOVE {c} {a} 2")), ":1");
    world.turns(1_000);
    let mut wanted = [
        format!("sinterstore {a}"),
        format!("rename_from {a}"),
        format!("rename_to {c}"),
        format!("srem {c}"),
        format!("del {c}"),
        format!("sadd {a}"),
    ];
    wanted.sort_unstable();
    for (number, node) in world.nodes.iter().enumerate() {
        let event = |message: &String| {
            let words: Vec<&str> = message.trim().split(' ').collect();
            let [.., channel, _, key] = words[..] else {
                panic!("{message}")
            };
            let name = channel.strip_prefix("__keyevent@0__:").expect("of an event");
            format!("{name} {key}")
        };
        let mut told: Vec<String> = node.messages.iter().map(event).collect();
        told.sort_unstable();
        assert_eq!(told, wanted, "node {number}");
    }
}

/// A leader whose two learners have become voters, and who has not heard yet that they know.
#[test]
fn a_change_of_members_goes_on_until_a_majority_of_the_new_voters_knows_that_it_has_ended() {
    let mut world = spread(3, 1);
    let learners = [(Incarnation(1_000), NodeId(1)), (Incarnation(1_001), NodeId(2))];
    world.lay_out(|layout| layout.groups[0].seats.extend(learners));
    let order = |world: &mut World, order: &Order| {
        let index = world.nodes[0].gateway.group_reports().0[0].report.index;
        world.nodes[0].gateway.on_order(GroupId::new(0), index, order);
    };
    for (incarnation, node) in learners {
        order(&mut world, &Order::AddLearner { node, incarnation });
        world.turns(200);
    }
    let promote = learners.map(|(incarnation, _)| incarnation).to_vec();
    order(
        &mut world,
        &Order::Change {
            promote,
            remove: Vec::new(),
        },
    );
    let is_ended = |world: &World, node: usize| {
        let replica_view = world.nodes[node]
            .gateway
            .replica_views()
            .next()
            .expect("one group");
        let members = replica_view.member().expect("it has a replica").members();
        members.voters.len() == 3 && !members.is_joint()
    };
    let is_changing = |world: &World| world.nodes[0].gateway.group_reports().0[0].is_changing;
    while !is_ended(&world, 0) {
        world.turn();
    }
    assert!(
        !is_ended(&world, 1) && !is_ended(&world, 2),
        "they have not heard of it"
    );
    assert!(
        is_changing(&world),
        "nobody else would know, were the leader to die now"
    );
    let pause = |world: &World| world.nodes[0].gateway.group_reports_pause();
    let while_changing = pause(&world);
    // What told them is lost, and nothing else happens in the group.
    (world.dead[1], world.dead[2]) = (true, true);
    world.turn();
    (world.dead[1], world.dead[2]) = (false, false);
    for _ in 0..2_000 {
        if !is_changing(&world) {
            break;
        }
        world.turn();
    }
    assert!(!is_changing(&world), "it was said again");
    assert!(
        10 * while_changing < pause(&world),
        "the map is told soon of what is no news by itself"
    );
    assert!(is_ended(&world, 1) || is_ended(&world, 2));
    world.dead[0] = true;
    world.turns(5_000);
    assert_eq!(world.run(2, 1, "SET a 1"), "+OK", "it bears the leader's death");
}

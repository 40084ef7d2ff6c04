//! Commands over several groups whose values are so large that they are carried out beside the worker.

use crate::cluster::replicated;
use crate::out_of_reach::{key, seconds};
use crate::world::World;
use gateway::OffloadJob;

/// The node that is asked, which leads nothing.
const NODE: usize = 1;
/// The client of the command, and another one.
const FIRST: u64 = 1;
const OTHER: u64 = 2;

/// Members of each of the two sets, a half of which is in both.
const MEMBERS: usize = 400;

/// Evaluations of a worker that may be away.
const AWAY_MAX: usize = 64;

/// Two groups, and in each a large set.
fn two_sets() -> (World, String, String) {
    let mut world = replicated(2);
    let (a, b) = (key(2, 0, "a"), key(2, 1, "b"));
    for (key, first) in [(&a, 0), (&b, MEMBERS / 2)] {
        let members: Vec<String> = (first..first + MEMBERS)
            .map(|number| format!("m{number}"))
            .collect();
        let added = world.run(NODE, OTHER, &format!("SADD {key} {}", members.join(" ")));
        assert_eq!(added, format!(":{MEMBERS}"));
    }
    assert_eq!(world.run(NODE, OTHER, "DEBUG SET-STEPS-MAX 8"), "+OK");
    (world, a, b)
}

/// What is left for another thread, as soon as there is something.
fn taken(world: &mut World) -> OffloadJob {
    for _ in 0..1_000 {
        let mut offload_jobs = world.nodes[NODE].gateway.take_offload_jobs();
        if let Some(offload_job) = offload_jobs.pop() {
            assert!(offload_jobs.is_empty(), "one was asked for");
            return offload_job;
        }
        world.turn();
    }
    panic!("the worker does it itself");
}

fn bring_back(world: &mut World, mut offload_job: OffloadJob) {
    offload_job.run();
    world.nodes[NODE].gateway.on_offload_job(offload_job);
}

/// Nothing is left of any transaction.
fn rest(world: &mut World) {
    seconds(world, 5);
    for node in (0..3).filter(|node| !world.dead[*node]).collect::<Vec<_>>() {
        assert_eq!(world.transactions_left(node), 0, "node {node}");
        assert!(world.nodes[node].gateway.is_at_rest(), "node {node}");
    }
}

#[test]
fn others_go_on_while_another_thread_works_on_what_groups_have_sent() {
    let (mut world, a, b) = two_sets();
    let out = key(2, 1, "out");
    for (words, answer, size) in [
        (format!("SUNIONSTORE {out} {a} {b}"), ":600", ":600"),
        (format!("SINTERSTORE {out} {a} {b}"), ":200", ":200"),
        (format!("ZUNIONSTORE {out} 2 {a} {b}"), ":600", "-WRONGTYPE"),
        (format!("COPY {a} {out} REPLACE"), ":1", ":400"),
        (format!("RENAME {a} {out}"), "+OK", ":400"),
    ] {
        world.send(NODE, FIRST, &words);
        let offload_job = taken(&mut world);
        assert_eq!(world.run(NODE, OTHER, &format!("SET {b}:other 1")), "+OK");
        assert_eq!(world.run(NODE, OTHER, &format!("SCARD {b}")), ":400", "{words}");
        assert_eq!(world.nodes[NODE].take_reply(FIRST), "", "{words}");
        bring_back(&mut world, offload_job);
        assert_eq!(world.reply(NODE, FIRST), answer, "{words}");
        for node in 0..3 {
            let found = world.run(node, OTHER, &format!("SCARD {out}"));
            assert!(found.starts_with(size), "{words}: {found} at {node}");
        }
    }
    rest(&mut world);
}

#[test]
fn what_changed_while_it_was_worked_on_is_read_again() {
    let (mut world, a, b) = two_sets();
    world.send(NODE, FIRST, &format!("SUNIONSTORE {b} {a} {b}"));
    let offload_job = taken(&mut world);
    assert_eq!(world.run(0, OTHER, &format!("SADD {a} new")), ":1");
    bring_back(&mut world, offload_job);
    let again = taken(&mut world);
    assert_eq!(world.nodes[NODE].take_reply(FIRST), "");
    bring_back(&mut world, again);
    assert_eq!(world.reply(NODE, FIRST), ":601");
    rest(&mut world);
}

#[test]
fn a_leader_that_is_lost_meanwhile_does_not_undo_it() {
    let (mut world, a, b) = two_sets();
    world.send(NODE, FIRST, &format!("SUNIONSTORE {b} {a} {b}"));
    let offload_job = taken(&mut world);
    world.dead[0] = true;
    for node in [1, 2] {
        world.nodes[node].gateway.on_link(ids::NodeId(0), false);
    }
    seconds(&mut world, 5);
    bring_back(&mut world, offload_job);
    assert_eq!(world.reply(NODE, FIRST), ":600");
    assert_eq!(world.run(2, OTHER, &format!("SCARD {b}")), ":600");
    rest(&mut world);
}

#[test]
fn what_stays_away_for_too_long_is_given_up_without_its_locks() {
    let (mut world, a, b) = two_sets();
    world.send(NODE, FIRST, &format!("SUNIONSTORE {b} {a} {b}"));
    // When it has been read in vain three times, its keys are locked first.
    for number in 0..3 {
        let offload_job = taken(&mut world);
        assert_eq!(world.run(0, OTHER, &format!("SADD {a} new:{number}")), ":1");
        bring_back(&mut world, offload_job);
    }
    let offload_job = taken(&mut world);
    world.send(0, OTHER, &format!("SREM {a} new:0"));
    world.turns(1_000);
    assert_eq!(world.nodes[0].take_reply(OTHER), "", "its key is locked");
    seconds(&mut world, 10);
    let answer = world.nodes[NODE].take_reply(FIRST);
    assert!(answer.starts_with("-TRYAGAIN"), "{answer}");
    assert_eq!(world.nodes[0].take_reply(OTHER), ":1");
    bring_back(&mut world, offload_job);
    rest(&mut world);
    assert_eq!(
        world.run(2, OTHER, &format!("SCARD {b}")),
        ":400",
        "nothing was done"
    );
}

#[test]
fn what_only_reads_and_stays_away_for_too_long_is_given_up() {
    let (mut world, a, b) = two_sets();
    world.send(NODE, FIRST, &format!("SUNION {a} {b}"));
    let offload_job = taken(&mut world);
    seconds(&mut world, 11);
    let answer = world.nodes[NODE].take_reply(FIRST);
    assert!(answer.starts_with("-TRYAGAIN"), "{answer}");
    bring_back(&mut world, offload_job);
    rest(&mut world);
}

#[test]
fn no_more_are_away_than_may_be() {
    let (mut world, a, b) = two_sets();
    let clients = 10..10 + AWAY_MAX as u64 + 6;
    for client in clients.clone() {
        world.send(NODE, client, &format!("SINTERCARD 2 {a} {b}"));
    }
    world.turns(200);
    let offload_jobs = world.nodes[NODE].gateway.take_offload_jobs();
    assert_eq!(offload_jobs.len(), AWAY_MAX);
    let answered = |world: &mut World| {
        let answers = clients.clone().map(|client| world.nodes[NODE].take_reply(client));
        answers.filter(|answer| answer == ":200").count()
    };
    assert_eq!(answered(&mut world), 6, "the worker did these itself");
    for offload_job in offload_jobs {
        bring_back(&mut world, offload_job);
    }
    world.turns(200);
    assert_eq!(answered(&mut world), AWAY_MAX);
    world.send(NODE, FIRST, &format!("SINTERCARD 2 {a} {b}"));
    let offload_job = taken(&mut world);
    bring_back(&mut world, offload_job);
    assert_eq!(world.reply(NODE, FIRST), ":200", "there is room again");
    rest(&mut world);
}

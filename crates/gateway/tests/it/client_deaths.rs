//! Clients that end in the middle of a transaction: it comes to its end without them, and nothing is left behind.

use crate::out_of_reach::{key, one_each};
use crate::world::World;

/// The client whose connection ends, and one that goes on.
const DYING: u64 = 7;
const OTHER: u64 = 8;

/// Turns until nothing of transactions is left anywhere; many more than it takes.
const REST_MAX: usize = 8_000;

fn rest(world: &mut World, what: &str) {
    let nodes = world.nodes.len();
    for _ in 0..REST_MAX {
        let is_over =
            |node: usize| world.transactions_left(node) == 0 && world.nodes[node].gateway.is_at_rest();
        if (0..nodes).all(is_over) {
            return;
        }
        world.turn();
    }
    let left = (0..nodes).map(|node| (world.transactions_left(node), world.nodes[node].gateway.seen_to()));
    panic!("{what} leaves something: {:?}", left.collect::<Vec<_>>());
}

/// A client sends lines, of which all but the last one are answered at once, and takes no answer to that.
fn ask(world: &mut World, client: u64, lines: &[String]) {
    let (last, first) = lines.split_last().expect("something is asked");
    for line in first {
        world.run(0, client, line);
    }
    world.send(0, client, last);
}

/// Programs over two keys of two groups, the first of which is a list.
fn programs(list: &str, other: &str) -> Vec<Vec<String>> {
    let exec = [
        "MULTI".into(),
        format!("RPUSH {list} e"),
        format!("SET {other} 1"),
        "EXEC".into(),
    ];
    vec![
        vec![format!("MSET {list} 1 {other} 1")],
        vec![format!("MSETNX {other} 1 {list} 1")],
        vec![format!("RENAME {list} {other}")],
        vec![format!("COPY {list} {other} REPLACE")],
        vec![format!("SORT {list} BY {other}*")],
        vec![format!("DEL {list} {other}")],
        exec.into(),
        vec![
            "MULTI".into(),
            format!("DEL {list}"),
            "DBSIZE".into(),
            "EXEC".into(),
        ],
    ]
}

/// One worker, whose list is away to be read while another client's transaction waits for it. Who asked for the list may end too.
fn dies_while_it_waits(program: usize, reader_dies: bool) {
    let mut world = World::new(1, 4);
    world.lay_out(|_| {});
    let (list, other) = (key(4, 0, "list"), key(4, 2, "other"));
    let program = &programs(&list, &other)[program];
    let elements = vec!["1"; 50].join(" ");
    assert_eq!(world.run(0, OTHER, &format!("RPUSH {list} {elements}")), ":50");
    assert_eq!(world.run(0, OTHER, "DEBUG SET-STEPS-MAX 8"), "+OK");
    world.turn();
    let reader = OTHER + 1;
    world.send(0, reader, &format!("LRANGE {list} 0 -1"));
    let offload_jobs = world.nodes[0].gateway.take_offload_jobs();
    assert_eq!(offload_jobs.len(), 1, "it is read on another thread");
    ask(&mut world, DYING, program);
    world.turns(10);
    assert_eq!(
        world.nodes[0].take_reply(DYING),
        "",
        "{program:?} waits for the list"
    );
    assert!(!world.nodes[0].gateway.is_at_rest(), "it is under way");
    world.nodes[0].hang_up(DYING);
    if reader_dies {
        world.nodes[0].hang_up(reader);
    }
    world.turns(10);
    for mut offload_job in offload_jobs {
        offload_job.run();
        world.nodes[0].gateway.on_offload_job(offload_job);
    }
    for _ in 0..10 {
        world.turn();
        for mut offload_job in world.nodes[0].gateway.take_offload_jobs() {
            offload_job.run();
            world.nodes[0].gateway.on_offload_job(offload_job);
        }
    }
    rest(&mut world, &format!("{program:?}"));
    world.send(0, OTHER, &format!("MSET {list} free {other} free"));
    assert_eq!(world.nodes[0].take_reply(OTHER), "+OK", "behind {program:?}");
}

#[test]
fn a_client_that_ends_while_its_transaction_waits_on_one_worker_leaves_nothing() {
    let count = programs("", "").len();
    for program in 0..count {
        for reader_dies in [false, true] {
            dies_while_it_waits(program, reader_dies);
        }
    }
}

/// A client asks for what takes another thread, and ends at some moment. Answers how many elements of fifty are left of the list.
fn ends_beside_an_offload_job(command: &str, ends_before: &str) -> String {
    let mut world = World::new(1, 4);
    world.lay_out(|_| {});
    let list = key(4, 0, "list");
    let elements = vec!["1"; 50].join(" ");
    assert_eq!(world.run(0, OTHER, &format!("RPUSH {list} {elements}")), ":50");
    assert_eq!(world.run(0, OTHER, "DEBUG SET-STEPS-MAX 8"), "+OK");
    world.turn();
    let is_waiting = ends_before == "its values are lent";
    if is_waiting {
        world.send(0, OTHER + 1, &format!("LRANGE {list} 0 -1"));
    }
    let mut offload_jobs = world.nodes[0].gateway.take_offload_jobs();
    world.send(0, DYING, &command.replace("LIST", &list));
    offload_jobs.extend(world.nodes[0].gateway.take_offload_jobs());
    assert_eq!(offload_jobs.len(), 1, "before {ends_before}");
    if ends_before != "never" {
        world.nodes[0].hang_up(DYING);
    }
    for mut offload_job in offload_jobs {
        offload_job.run();
        world.nodes[0].gateway.on_offload_job(offload_job);
    }
    let further = world.nodes[0].gateway.take_offload_jobs();
    let sets_out = is_waiting && command.starts_with("LREM");
    assert_eq!(
        further.len(),
        usize::from(sets_out),
        "{command} before {ends_before}"
    );
    for mut offload_job in further {
        offload_job.run();
        world.nodes[0].gateway.on_offload_job(offload_job);
    }
    rest(&mut world, "a command for nobody");
    world.send(0, OTHER, &format!("LLEN {list}"));
    world.nodes[0].take_reply(OTHER)
}

#[test]
fn what_only_reads_and_waits_for_another_thread_is_not_carried_out_for_a_client_that_has_ended() {
    for ends_before in ["never", "it runs", "its values are lent"] {
        // What else was sent on the connection is carried out behind it.
        assert_eq!(ends_beside_an_offload_job("LREM LIST 0 1", ends_before), ":0");
        assert_eq!(ends_beside_an_offload_job("LRANGE LIST 0 -1", ends_before), ":50");
    }
}

#[test]
fn a_client_that_ends_at_any_moment_of_a_transaction_over_nodes_leaves_all_of_it_or_nothing() {
    let mut world = one_each(3);
    let keys = [0, 1, 2].map(|group| key(3, group, "k"));
    let [a, b, c] = &keys;
    for after in 0..12 {
        let programs = [
            vec![format!("MSET {a} {after} {b} {after} {c} {after}")],
            vec![
                "MULTI".into(),
                format!("SET {a} x{after}"),
                format!("COPY {a} {b} REPLACE"),
                format!("COPY {b} {c} REPLACE"),
                "EXEC".into(),
            ],
        ];
        for program in &programs {
            ask(&mut world, DYING, program);
            world.turns(after);
            world.nodes[0].hang_up(DYING);
            rest(&mut world, &format!("{program:?} after {after} turns"));
            let told = world.run(1, OTHER, &format!("MGET {a} {b} {c}"));
            let values: Vec<&str> = told.split(' ').skip(1).collect();
            let third = values.len() / 3;
            assert_eq!(values[..third], values[third..2 * third], "{program:?}: {told}");
            assert_eq!(values[..third], values[2 * third..], "{program:?}: {told}");
        }
    }
}

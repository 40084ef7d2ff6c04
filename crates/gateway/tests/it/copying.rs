//! A worker that copies states rests in between, and goes on when it has rested.

use crate::cluster::{grow, spread};
use crate::world::{COPY_REST, SIZES, World};
use gateway::{PieceContent, PieceSizes};
use ids::{GroupId, Monotonic};
use std::time::Duration;

/// In turns of a millisecond.
const REST: u64 = 5;
const CHUNK_BYTES: usize = 2_000;

/// Nodes that rest behind each piece. The first has much in each of two groups.
fn resting(nodes: u64, keys: usize, value_bytes: usize) -> World {
    COPY_REST.set(Duration::from_millis(REST));
    SIZES.set(PieceSizes {
        chunk_bytes: CHUNK_BYTES,
        ..PieceSizes::default()
    });
    let mut world = spread(nodes, 2);
    COPY_REST.set(Duration::ZERO);
    SIZES.set(PieceSizes::default());
    let value = "x".repeat(value_bytes);
    for number in 0..keys {
        assert_eq!(world.run(0, 1, &format!("SET key:{number} {value}")), "+OK");
    }
    world
}

#[test]
fn a_backup_is_copied_by_a_worker_that_rests_between_pieces() {
    let mut world = resting(1, 1_000, 2_000);
    world.turn();
    let groups = [0, 1].map(GroupId::new);
    world.nodes[0].gateway.begin_backup(7, &groups);
    let (mut made, mut ready, began) = (Vec::new(), 0, world.now);
    while ready < groups.len() {
        let now = world.now;
        let gateway = &mut world.nodes[0].gateway;
        let pieces = gateway.take_backup_pieces();
        for piece in &pieces {
            match &piece.content {
                PieceContent::Chunk(_) => {
                    made.push(now);
                    gateway.on_backup_taken(7, piece.group);
                }
                PieceContent::Ready => ready += 1,
                other => panic!("{other:?}"),
            }
        }
        // Nothing else happens: it is the timer that has the driver come back.
        if ready < groups.len() {
            let timer = gateway.next_cluster_timer().expect("there is more to copy");
            assert!(timer <= Monotonic(now).after(Duration::from_millis(REST)));
        }
        world.turn();
        assert!(world.now < began + 1_000_000_000, "{ready} are ready: {made:?}");
    }
    // One group is copied for longer than changes of another one are gathered that is ready.
    assert!(made.len() > 20, "{made:?}");
    let rest = Duration::from_millis(REST).as_nanos() as u64;
    assert!(made.windows(2).all(|two| two[1] - two[0] >= rest), "{made:?}");
}

#[test]
fn learners_are_given_states_by_a_worker_that_rests_between_pieces() {
    let mut world = resting(3, 200, 300);
    grow(&mut world);
    let all = 2 * 200 * 300 / CHUNK_BYTES;
    let mut sent = std::mem::take(&mut world.chunks_sent);
    assert!(sent.len() > all / 2, "{} of some {all} pieces", sent.len());
    // Both learners of a group are given a piece at once.
    sent.dedup();
    let rest = Duration::from_millis(REST).as_nanos() as u64;
    assert!(sent.windows(2).all(|two| two[1] - two[0] >= rest), "{sent:?}");
    assert_eq!(world.run(1, 2, "STRLEN key:7"), ":300");
}

/// How long pieces are sent for until all learners have theirs, in nanoseconds, at a `move-bandwidth`.
fn sent_for(bandwidth: &str) -> u64 {
    SIZES.set(PieceSizes {
        chunk_bytes: CHUNK_BYTES,
        ..PieceSizes::default()
    });
    let mut world = spread(3, 2);
    SIZES.set(PieceSizes::default());
    let value = "x".repeat(300);
    for number in 0..200 {
        assert_eq!(world.run(0, 1, &format!("SET key:{number} {value}")), "+OK");
    }
    for node in 0..3 {
        let told = world.run(node, 1, &format!("CONFIG SET move-bandwidth {bandwidth}"));
        assert!(
            told.contains("it is done here"),
            "there is no meta group to tell others: {told}"
        );
    }
    grow(&mut world);
    let sent = std::mem::take(&mut world.chunks_sent);
    sent.last().expect("there were pieces") - sent[0]
}

#[test]
fn no_more_of_states_is_sent_a_second_than_may_be() {
    let (bandwidth, learners) = (100_000, 2);
    let (bounded, free) = (sent_for(&bandwidth.to_string()), sent_for("0"));
    // The end of each transfer is not counted, which is less than half of it here.
    let least = 200 * 300 * learners * 1_000_000_000 / bandwidth / 2;
    assert!(
        bounded >= free + least,
        "{bounded} and {free}, of which {least} is to be waited"
    );
}

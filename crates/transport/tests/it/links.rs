//! What links do among nodes that mean well.

use crate::world::{Node, Seen, hello, link, pair, stranger, until};
use peer_wire::frame;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use transport::Lane;

#[test]
fn messages_arrive_in_the_order_of_their_lane() {
    let (mut one, mut two) = pair();
    for number in 0..2_000u32 {
        let body = number.to_le_bytes();
        assert!(one.send(link(2, 0), &body));
        assert!(two.send(link(1, 0), &body));
        if number % 500 == 0 {
            assert!(one.send(link(2, 0), &vec![number as u8; 200_000]));
        }
    }
    until(&mut [&mut one, &mut two], "all messages", |nodes| {
        nodes[0].messages.len() == 2_000 && nodes[1].messages.len() == 2_004
    });
    let is_small = |body: &&[u8]| body.len() == 4;
    for node in [&one, &two] {
        let numbers: Vec<u8> = node.bodies().filter(is_small).flatten().copied().collect();
        assert_eq!(
            numbers,
            (0..2_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
        );
    }
    let bulk: Vec<&[u8]> = two.bodies().filter(|body| !is_small(body)).collect();
    let expected = [0, 500u32, 1_000, 1_500].map(|number| vec![number as u8; 200_000]);
    assert_eq!(bulk, expected);
}

#[test]
fn a_small_message_passes_bulk_ones() {
    let (mut one, mut two) = pair();
    let chunk = vec![7; 128 * 1024];
    let mut count = 0;
    // The first ones are on their way, as many as the kernel takes while nobody reads.
    loop {
        let before = count;
        while one.transport.waiting(link(2, 0), Lane::Bulk) < 8 * chunk.len() {
            assert!(one.send(link(2, 0), &chunk));
            count += 1;
        }
        if count == before {
            break;
        }
        one.turn();
    }
    let waiting = one.transport.waiting(link(2, 0), Lane::Bulk) / chunk.len();
    assert!(waiting >= 2);
    assert!(one.send(link(2, 0), b"beat"));
    until(&mut [&mut one, &mut two], "all messages", |nodes| {
        nodes[1].messages.len() == count + 1
    });
    let place = two.bodies().position(|body| body == b"beat").unwrap();
    assert!(
        place <= count - waiting,
        "it came behind {place} of {count} bulk messages, of which {waiting} waited"
    );
}

#[test]
fn what_the_bulk_lane_has_no_room_for_waits_and_arrives() {
    let (mut one, mut two) = pair();
    let bodies: Vec<Vec<u8>> = (0..40).map(|number| vec![number; 300_000]).collect();
    for body in &bodies {
        assert!(one.send(link(2, 0), body));
    }
    let waiting = one.transport.waiting(link(2, 0), Lane::Bulk);
    assert!(waiting < 2 << 20, "the lane is bounded");
    until(&mut [&mut one, &mut two], "all of it", |nodes| {
        nodes[1].messages.len() == bodies.len()
    });
    assert!(two.bodies().eq(&bodies));
}

#[test]
fn nothing_of_an_earlier_link_is_heard_once_the_next_one_is_up() {
    let mut two = Node::new(2);
    let mut early = stranger(&mut two);
    // The beginning of a message, and the rest of it when the next link is up already.
    let mut frame = Vec::new();
    frame::append(&mut frame, 20, false, |out| out.extend_from_slice(b"from before"));
    let (begun, rest) = frame.split_at(15);
    early.write_all(begun).unwrap();
    (0..10).for_each(|_| two.turn());
    let mut late = TcpStream::connect(two.address).unwrap();
    late.write_all(&hello(9, 0)).unwrap();
    until(&mut [&mut two], "the next link", |nodes| nodes[0].seen.len() == 3);
    let id = link(9, 0);
    assert_eq!(two.seen, [Seen::Up(id), Seen::Down(id), Seen::Up(id)]);
    // It may be closed already.
    drop(early.write_all(rest).and_then(|()| early.write_all(&frame)));
    frame.clear();
    frame::append(&mut frame, 20, false, |out| out.extend_from_slice(b"from now on"));
    late.write_all(&frame).unwrap();
    until(&mut [&mut two], "a message", |nodes| {
        !nodes[0].messages.is_empty()
    });
    (0..10).for_each(|_| two.turn());
    assert_eq!(two.messages, [(id, b"from now on".to_vec())]);
    assert_eq!(two.seen.len(), 3, "the next link stays");
}

#[test]
fn a_peer_that_comes_back_is_linked_again() {
    let (mut one, two) = pair();
    let address = two.address;
    drop(two);
    until(&mut [&mut one], "the end of the link", |nodes| {
        !nodes[0].is_up(link(2, 0))
    });
    assert!(!one.send(link(2, 0), b"lost"));
    let mut two = Node::at(2, 0, 1, address);
    until(&mut [&mut one, &mut two], "the link", |nodes| {
        nodes[0].is_up(link(2, 0))
    });
    let id = link(2, 0);
    assert_eq!(one.seen, [Seen::Up(id), Seen::Down(id), Seen::Up(id)]);
    assert!(one.send(id, b"here"));
    until(&mut [&mut one, &mut two], "the message", |nodes| {
        !nodes[1].messages.is_empty()
    });
    assert_eq!(two.messages, [(link(1, 0), b"here".to_vec())]);
}

#[test]
fn nobody_is_dialled_more_often_than_every_second_in_the_long_run() {
    let mut one = Node::new(1);
    // A port where nobody listens: it was free just now.
    let address = Node::new(2).address;
    one.dial(link(2, 0), address);
    let mut dialled_at = Vec::new();
    for _ in 0..1_200 {
        one.skipped += Duration::from_millis(50);
        let due = one.transport.next_due();
        if due <= one.now() && dialled_at.last() != Some(&due) {
            dialled_at.push(due);
        }
        one.turn();
    }
    assert!(
        (30..80).contains(&dialled_at.len()),
        "{} times in a minute",
        dialled_at.len()
    );
}

#[test]
fn a_peer_is_looked_for_at_all_of_its_addresses_in_each_attempt() {
    let mut one = Node::new(1);
    let closed = [Node::new(3).address, Node::new(4).address];
    let mut two = Node::new(2);
    let everywhere = [closed[0], two.address, closed[1]];
    let now = one.now();
    one.transport.dial_any(link(2, 0), &everywhere, now);
    let is_up = |nodes: &[&mut Node]| nodes[0].is_up(link(2, 0));
    until(&mut [&mut one, &mut two], "the link", is_up);
    // It comes back at another of them, after so long that an attempt is far from the next.
    drop(two);
    for _ in 0..100 {
        one.skipped += Duration::from_millis(100);
        one.turn();
    }
    let mut two = Node::at(2, 0, 1, closed[1]);
    one.skipped += Duration::from_secs(2);
    until(&mut [&mut one, &mut two], "the link", is_up);
}

#[test]
fn when_both_dial_one_link_stays() {
    for _ in 0..10 {
        let (mut one, mut two) = (Node::new(1), Node::new(2));
        two.dial(link(1, 0), one.address);
        one.dial(link(2, 0), two.address);
        until(&mut [&mut one, &mut two], "the link", |nodes| {
            nodes[0].is_up(link(2, 0)) && nodes[1].is_up(link(1, 0))
        });
        let (ones, twos) = (one.seen.len(), two.seen.len());
        for _ in 0..200 {
            one.skipped += Duration::from_millis(50);
            two.skipped += Duration::from_millis(50);
            one.turn();
            two.turn();
        }
        assert_eq!((one.seen.len(), two.seen.len()), (ones, twos), "it stays");
        assert!(one.send(link(2, 0), b"a"));
        assert!(two.send(link(1, 0), b"b"));
        until(&mut [&mut one, &mut two], "messages", |nodes| {
            nodes.iter().all(|node| node.messages.len() == 1)
        });
    }
}

#[test]
fn who_dials_in_vain_takes_the_link_that_its_peer_dialled() {
    let (mut one, mut two) = (Node::new(1), Node::new(2));
    // The second node has another address by now.
    let former = Node::new(3).address;
    one.dial(link(2, 0), former);
    two.dial(link(1, 0), one.address);
    let is_up = |nodes: &[&mut Node]| nodes[0].is_up(link(2, 0)) && nodes[1].is_up(link(1, 0));
    until(&mut [&mut one, &mut two], "the link", is_up);
    let seen = (one.seen.len(), two.seen.len());
    for _ in 0..200 {
        one.skipped += Duration::from_millis(50);
        two.skipped += Duration::from_millis(50);
        one.turn();
        two.turn();
    }
    assert_eq!((one.seen.len(), two.seen.len()), seen, "it stays");
}

#[test]
fn a_link_is_handed_to_the_worker_that_it_is_for() {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut one = Node::new(1);
    let (mut first, mut second) = (Node::at(2, 0, 2, any), Node::at(2, 1, 2, any));
    one.dial(link(2, 3), first.address);
    // Worker 0 alone takes part, so the peer's first message may come before its worker has the link.
    until(&mut [&mut one, &mut first], "an arrival", |nodes| {
        !nodes[1].arrivals.is_empty()
    });
    let (worker, arrival) = first.arrivals.pop().unwrap();
    assert_eq!((worker, first.transport.links().count()), (1, 0));
    second.with(|transport, now, mut sink| transport.adopt(*arrival, now, &mut sink));
    until(&mut [&mut one, &mut second], "the link", |nodes| {
        nodes[0].is_up(link(2, 3)) && nodes[1].is_up(link(1, 3))
    });
    assert!(one.send(link(2, 3), b"there"));
    assert!(second.send(link(1, 3), &[5; 600_000]));
    until(&mut [&mut one, &mut second], "messages", |nodes| {
        nodes.iter().all(|node| node.messages.len() == 1)
    });
    assert_eq!(one.messages[0].1, [5; 600_000]);
    assert_eq!(second.messages, [(link(1, 3), b"there".to_vec())]);
}

#[test]
fn a_forgotten_peer_is_dialled_no_more() {
    let (mut one, mut two) = pair();
    one.with(|transport, now, mut sink| transport.forget(link(2, 0), now, &mut sink));
    assert_eq!(one.seen.last(), Some(&Seen::Down(link(2, 0))));
    until(&mut [&mut two], "its end there", |nodes| {
        !nodes[0].is_up(link(1, 0))
    });
    for _ in 0..100 {
        one.skipped += Duration::from_millis(100);
        one.turn();
        two.turn();
    }
    assert_eq!(one.transport.links().count() + two.transport.links().count(), 0);
}

#[test]
fn who_leaves_dialling_to_its_peer_keeps_the_link_and_waits_for_the_next() {
    let (mut one, mut two) = (Node::new(1), Node::new(2));
    two.dial(link(1, 0), one.address);
    until(&mut [&mut one, &mut two], "the link", |nodes| {
        nodes[0].is_up(link(2, 0)) && nodes[1].is_up(link(1, 0))
    });
    two.transport.leave_dialling(link(1, 0));
    for _ in 0..10 {
        one.turn();
        two.turn();
    }
    assert!(two.is_up(link(1, 0)), "it stays");
    one.with(|transport, now, mut sink| transport.forget(link(2, 0), now, &mut sink));
    until(&mut [&mut two], "its end", |nodes| !nodes[0].is_up(link(1, 0)));
    for _ in 0..100 {
        two.skipped += Duration::from_millis(100);
        one.turn();
        two.turn();
    }
    assert_eq!(one.transport.links().count() + two.transport.links().count(), 0);
    one.dial(link(2, 0), two.address);
    until(&mut [&mut one, &mut two], "the next link", |nodes| {
        nodes[0].is_up(link(2, 0)) && nodes[1].is_up(link(1, 0))
    });
}

#[test]
fn a_refused_node_is_linked_once_it_is_welcome() {
    let (mut one, mut two) = (Node::new(1), Node::new(2));
    two.refuses.set(true);
    one.dial(link(2, 0), two.address);
    for _ in 0..200 {
        one.skipped += Duration::from_millis(10);
        one.turn();
        two.turn();
    }
    assert!(one.seen.is_empty() && two.seen.is_empty());
    two.refuses.set(false);
    until(&mut [&mut one, &mut two], "the link", |nodes| {
        nodes[0].is_up(link(2, 0))
    });
}

#[test]
fn another_node_at_the_address_is_not_taken_for_the_one_that_was_dialled() {
    let (mut one, mut two) = (Node::new(1), Node::new(2));
    one.dial(link(3, 0), two.address);
    for _ in 0..100 {
        one.skipped += Duration::from_millis(10);
        one.turn();
        two.turn();
    }
    assert!(one.seen.is_empty());
}

//! What links do among others.

use crate::world::{HELLO, Node, Seen, hello, link, pair, stranger, until};
use ids::Prng;
use peer_wire::frame;
use peer_wire::hello::BODY_BYTES_MAX;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use transport::Lane;

/// Whether the other side has closed it; what it sent before is read.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; 4_096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::append(&mut out, kind, false, |out| out.extend_from_slice(body));
    out
}

#[test]
fn hostile_bytes_break_their_link_and_nothing_else() {
    let (mut one, mut two) = pair();
    let long = message(HELLO, &vec![0; BODY_BYTES_MAX + 1]);
    let mut flipped = hello(9, 0);
    flipped[5] ^= 1;
    let mut inputs = vec![
        vec![0; 64],
        vec![0xff; 64],
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        b"*1\r\n$4\r\nPING\r\n".to_vec(),
        message(HELLO, b""),
        message(200, b"out of step"),
        [hello(9, 0), vec![0x55; 100]].concat(),
        [hello(9, 0), message(20, b"fine"), vec![0; 12]].concat(),
        long,
        flipped,
    ];
    let mut prng = Prng::new(5);
    for _ in 0..50 {
        let length = 12 + prng.below(500) as usize;
        inputs.push((0..length).map(|_| prng.next_u64() as u8).collect());
    }
    for input in inputs {
        let mut stream = TcpStream::connect(two.address).unwrap();
        stream.write_all(&input).unwrap();
        until(&mut [&mut one, &mut two], "a closed connection", |_| {
            is_closed(&stream)
        });
        assert!(one.is_up(link(2, 0)) && two.is_up(link(1, 0)));
    }
    assert!(one.send(link(2, 0), b"still here"));
    until(&mut [&mut one, &mut two], "a message", |nodes| {
        nodes[1]
            .messages
            .last()
            .is_some_and(|(_, body)| body == b"still here")
    });
    assert_eq!(one.seen, [Seen::Up(link(2, 0))]);
}

#[test]
fn a_peer_that_floods_gets_its_share_of_a_turn() {
    let (mut one, mut two) = pair();
    let mut flood = stranger(&mut two);
    let writer = std::thread::spawn(move || {
        let message = message(20, &[1; 1_000]);
        let piece: Vec<u8> = std::iter::repeat_n(message, 1_000).flatten().collect();
        for _ in 0..48 {
            flood.write_all(&piece).unwrap();
        }
        flood
    });
    assert!(one.send(link(2, 0), b"me too"));
    let (mut most, mut is_there) = (0, false);
    let mut total = 0;
    until(&mut [&mut one], "the sending", |nodes| {
        nodes[0].transport.waiting(link(2, 0), Lane::Small) == 0
    });
    while total < 48_000 {
        two.turn();
        let (own, others): (Vec<_>, Vec<_>) = two.messages.drain(..).partition(|(id, ..)| *id == link(1, 0));
        is_there |= !own.is_empty();
        total += others.len();
        most = most.max(others.len());
    }
    drop(writer.join().unwrap());
    assert!(is_there, "the flood left room for others");
    // One turn reads on what the turn before left, and once more if the system reports more.
    assert!(most <= 2 * 1_100, "{most} messages of a KiB in one turn");
}

#[test]
fn a_peer_that_does_not_read_is_closed_before_it_costs_much() {
    let mut two = Node::new(2);
    let silent = stranger(&mut two);
    let mut sent = 0;
    while two.is_up(link(9, 0)) {
        for _ in 0..64 {
            if two.send(link(9, 0), &[1; 16_000]) {
                sent += 16_012;
            }
        }
        assert!(sent < 64 << 20, "the lane is bounded");
        two.turn();
    }
    assert_eq!(two.seen, [Seen::Up(link(9, 0)), Seen::Down(link(9, 0))]);
    drop(silent);
}

#[test]
fn a_peer_that_takes_nothing_for_long_is_closed() {
    let mut two = Node::new(2);
    let silent = stranger(&mut two);
    for _ in 0..64 {
        assert!(two.send(link(9, 0), &[1; 200_000]));
    }
    for _ in 0..20 {
        two.turn();
    }
    assert!(two.is_up(link(9, 0)));
    two.skipped += Duration::from_secs(9);
    two.turn();
    assert!(two.is_up(link(9, 0)), "not yet");
    two.skipped += Duration::from_secs(2);
    assert!(two.transport.next_due() <= two.now());
    two.turn();
    assert!(!two.is_up(link(9, 0)));
    drop(silent);
}

#[test]
fn an_idle_link_stays() {
    let (mut one, mut two) = pair();
    one.skipped += Duration::from_secs(3_600);
    one.turn();
    assert!(one.send(link(2, 0), b"still here"));
    until(&mut [&mut one, &mut two], "a message", |nodes| {
        !nodes[1].messages.is_empty()
    });
    assert_eq!(one.seen, [Seen::Up(link(2, 0))]);
}

#[test]
fn many_strangers_who_say_nothing_keep_nobody_out() {
    let (mut one, mut two) = (Node::new(1), Node::new(2));
    let mut strangers = Vec::new();
    for _ in 0..200 {
        strangers.push(TcpStream::connect(two.address).unwrap());
        two.turn();
    }
    let open = |strangers: &[TcpStream]| strangers.iter().filter(|stream| !is_closed(stream)).count();
    until(&mut [&mut two], "the oldest to be closed", |_| {
        open(&strangers) <= 128
    });
    one.dial(link(2, 0), two.address);
    until(&mut [&mut one, &mut two], "a link", |nodes| {
        nodes[0].is_up(link(2, 0))
    });
    assert!(open(&strangers) >= 127);
    two.skipped += Duration::from_secs(6);
    until(&mut [&mut two], "the others to be closed", |_| {
        open(&strangers) == 0
    });
    assert!(two.is_up(link(1, 0)));
}

#[test]
fn a_peer_on_a_new_connection_takes_the_old_ones_place() {
    let mut two = Node::new(2);
    let old = stranger(&mut two);
    let mut new = TcpStream::connect(two.address).unwrap();
    new.write_all(&[hello(9, 0), message(20, b"again")].concat())
        .unwrap();
    until(&mut [&mut two], "the message", |nodes| {
        !nodes[0].messages.is_empty()
    });
    let id = link(9, 0);
    assert_eq!(two.seen, [Seen::Up(id), Seen::Down(id), Seen::Up(id)]);
    assert!(is_closed(&old));
}

#[test]
fn bytes_that_come_one_at_a_time_are_messages_too() {
    let mut two = Node::new(2);
    let mut slow = TcpStream::connect(two.address).unwrap();
    slow.set_nodelay(true).unwrap();
    for byte in [hello(9, 0), message(20, b"slow"), message(20, b"and steady")].concat() {
        slow.write_all(&[byte]).unwrap();
        two.turn();
    }
    until(&mut [&mut two], "both messages", |nodes| {
        nodes[0].messages.len() == 2
    });
    assert_eq!(two.messages[1].1, b"and steady");
}

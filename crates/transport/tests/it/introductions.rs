//! Links between nodes that introduce themselves by the peer protocol.

use ids::{Boot, ClusterId, Monotonic, NodeId};
use mio::{Events, Poll};
use peer_wire::hello::{Nonce, Peer, Secret, Who};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::{Greeter, LinkId, Remote, Transport, TransportEvent, TransportSettings};

struct Node {
    poll: Poll,
    transport: Transport<Greeter>,
    address: SocketAddr,
    peers: BTreeMap<LinkId, Peer>,
    began: Instant,
}

impl Node {
    fn new(who: Who, secret: u8) -> Node {
        let mut count = 0;
        let greeter = Greeter {
            who,
            secret: Secret(Some([secret; 32])),
            worker: 0,
            workers: 1,
            groups: None,
            judge: Arc::new(|_| None),
            nonces: Box::new(move || {
                count += 1;
                Nonce([count; 32])
            }),
            refusals: None,
            answered: 0,
        };
        let settings = TransportSettings {
            own: who.node(),
            worker: 0,
            first_token: 0,
            seed: 1,
        };
        let poll = Poll::new().expect("a poll");
        let registry = poll.registry().try_clone().expect("a registry");
        let mut transport = Transport::new(settings, greeter, registry);
        let any = "127.0.0.1:0".parse().expect("an address");
        let address = transport.listen(any).expect("a free port");
        Node {
            poll,
            transport,
            address,
            peers: BTreeMap::new(),
            began: Instant::now(),
        }
    }

    fn dial(&mut self, remote: Remote, address: SocketAddr) {
        let number = 0;
        self.transport
            .dial(LinkId { remote, number }, address, Monotonic(0));
    }

    fn turn(&mut self) {
        let mut events = Events::with_capacity(64);
        let millisecond = Some(Duration::from_millis(1));
        self.poll.poll(&mut events, millisecond).expect("events");
        let now = Monotonic(1).after(self.began.elapsed());
        let peers = &mut self.peers;
        let mut sink = |event: TransportEvent<'_, Peer>| match event {
            TransportEvent::Up(link, peer) => drop(peers.insert(link, peer)),
            TransportEvent::Down(link) => drop(peers.remove(&link)),
            TransportEvent::Message(..) | TransportEvent::Arrival(..) => {}
        };
        for event in &events {
            self.transport.on_ready(event, now, &mut sink);
        }
        self.transport.tick(now, &mut sink);
        self.transport.flush(now, &mut sink);
        self.transport.check();
    }

    fn peer(&self, remote: Remote) -> Option<Who> {
        let number = 0;
        self.peers.get(&LinkId { remote, number }).map(|peer| peer.who)
    }
}

fn member(node: u64) -> Who {
    Who::Member {
        cluster: ClusterId(5),
        node: NodeId(node),
        boot: Boot(node),
    }
}

fn node(number: u64) -> Remote {
    Remote::Node(NodeId(number))
}

fn run(nodes: &mut [&mut Node], is_true: impl Fn(&[&mut Node]) -> bool) {
    let began = Instant::now();
    while !is_true(nodes) {
        assert!(began.elapsed() < Duration::from_secs(30), "waited in vain");
        nodes.iter_mut().for_each(|node| node.turn());
    }
}

#[test]
fn members_are_linked_and_a_joining_node_is_told_apart() {
    let (mut one, mut two) = (Node::new(member(1), 7), Node::new(member(2), 7));
    let mut joining = Node::new(Who::Joining, 7);
    one.dial(node(2), two.address);
    joining.dial(Remote::Contact(0), two.address);
    run(&mut [&mut one, &mut two, &mut joining], |nodes| {
        nodes[0].peer(node(2)) == Some(member(2))
            && nodes[1].peer(node(1)) == Some(member(1))
            && nodes[1].peers.len() == 2
            && nodes[2].peer(Remote::Contact(0)) == Some(member(2))
    });
    let mut joiners = two
        .peers
        .iter()
        .filter(|(link, _)| matches!(link.remote, Remote::Joiner(_)));
    assert_eq!(joiners.next().map(|(_, peer)| peer.who), Some(Who::Joining));
}

#[test]
fn a_node_with_another_secret_is_never_up() {
    let (mut one, mut two) = (Node::new(member(1), 7), Node::new(member(2), 8));
    one.dial(node(2), two.address);
    for _ in 0..200 {
        one.turn();
        two.turn();
        assert!(one.peers.is_empty() && two.peers.is_empty());
    }
}

#[test]
fn a_transport_can_move_to_its_workers_thread() {
    fn moves<T: Send>() {}
    moves::<Transport<Greeter>>();
    moves::<transport::Arrival<Peer>>();
}

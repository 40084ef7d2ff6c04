//! Nodes that run turn by turn, until something becomes true.

use ids::{Monotonic, NodeId};
use mio::{Events, Poll};
use peer_wire::frame::{self, Frame};
use peer_wire::{Join, PeerMessage};
use std::cell::Cell;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::{Duration, Instant};
use transport::{
    Arrival, Handshake, Introduced, Introducer, LinkId, Refused, Remote, Transport, TransportEvent,
    TransportSettings,
};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_TOKEN: usize = 7;

pub(crate) const HELLO: u8 = 1;
pub(crate) const WELCOME: u8 = 2;

pub(crate) fn link(node: u64, number: u16) -> LinkId {
    LinkId {
        remote: Remote::Node(NodeId(node)),
        number,
    }
}

/// One worker of a node.
pub(crate) struct Node {
    poll: Poll,
    events: Events,
    pub(crate) transport: Transport<Greeter>,
    pub(crate) address: SocketAddr,
    /// Ups and downs, in their order.
    pub(crate) seen: Vec<Seen>,
    pub(crate) messages: Vec<(LinkId, Vec<u8>)>,
    pub(crate) arrivals: Vec<(u16, Box<Arrival<()>>)>,
    /// Whether whoever calls is refused.
    pub(crate) refuses: Rc<Cell<bool>>,
    began: Instant,
    /// Time that has passed and nobody waited for.
    pub(crate) skipped: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Up(LinkId),
    Down(LinkId),
}

/// Says its name and believes the other's.
pub(crate) struct Greeter {
    own: NodeId,
    worker: u16,
    workers: u16,
    refuses: Rc<Cell<bool>>,
}

enum Greeting {
    Called(LinkId, u16),
    Answers {
        own: NodeId,
        workers: u16,
        refuses: bool,
    },
}

pub(crate) fn hello(node: u64, number: u16) -> Vec<u8> {
    let mut out = Vec::new();
    frame::append(&mut out, HELLO, false, |out| {
        out.extend_from_slice(&node.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
    });
    out
}

impl Introducer for Greeter {
    type Peer = ();

    fn call(&mut self, link: LinkId, out: &mut Vec<u8>) -> Box<dyn Handshake<()> + Send> {
        out.extend(hello(self.own.0, link.number));
        Box::new(Greeting::Called(link, self.worker))
    }

    fn answer(&mut self) -> Box<dyn Handshake<()> + Send> {
        Box::new(Greeting::Answers {
            own: self.own,
            workers: self.workers,
            refuses: self.refuses.get(),
        })
    }
}

impl Handshake<()> for Greeting {
    fn on_frame(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<Option<Introduced<()>>, Refused> {
        let node = frame
            .body
            .first_chunk()
            .map(|bytes| NodeId(u64::from_le_bytes(*bytes)));
        let node = node.ok_or(Refused("no name".to_owned()))?;
        let (link, worker) = match *self {
            Greeting::Called(link, worker) if frame.kind == WELCOME => (
                LinkId {
                    remote: Remote::Node(node),
                    ..link
                },
                worker,
            ),
            Greeting::Answers { refuses: true, .. } => return Err(Refused("not now".to_owned())),
            Greeting::Answers { own, workers, .. } if frame.kind == HELLO && frame.body.len() == 10 => {
                let number = u16::from_le_bytes([frame.body[8], frame.body[9]]);
                frame::append(out, WELCOME, false, |out| {
                    out.extend_from_slice(&own.0.to_le_bytes())
                });
                (
                    LinkId {
                        remote: Remote::Node(node),
                        number,
                    },
                    number % workers,
                )
            }
            Greeting::Called(..) | Greeting::Answers { .. } => return Err(Refused("out of step".to_owned())),
        };
        let peer = ();
        Ok(Some(Introduced { link, worker, peer }))
    }
}

impl Node {
    pub(crate) fn new(number: u64) -> Node {
        Node::at(number, 0, 1, "127.0.0.1:0".parse().expect("an address"))
    }

    /// Worker `worker` of `workers`, which listens at `address`.
    pub(crate) fn at(number: u64, worker: u16, workers: u16, address: SocketAddr) -> Node {
        let poll = Poll::new().expect("a poll");
        let refuses = Rc::new(Cell::new(false));
        let own = NodeId(number);
        let greeter = Greeter {
            own,
            worker,
            workers,
            refuses: refuses.clone(),
        };
        let settings = TransportSettings {
            own: Some(own),
            worker,
            first_token: FIRST_TOKEN,
            seed: number,
        };
        let registry = poll.registry().try_clone().expect("a registry");
        let mut transport = Transport::new(settings, greeter, registry);
        let address = transport.listen(address).expect("a free port");
        Node {
            poll,
            events: Events::with_capacity(64),
            transport,
            address,
            seen: Vec::new(),
            messages: Vec::new(),
            arrivals: Vec::new(),
            refuses,
            began: Instant::now(),
            skipped: Duration::ZERO,
        }
    }

    pub(crate) fn now(&self) -> Monotonic {
        // Never zero, so that a time before it can be told.
        Monotonic(1).after(self.began.elapsed() + self.skipped)
    }

    pub(crate) fn dial(&mut self, link: LinkId, address: SocketAddr) {
        let now = self.now();
        self.transport.dial(link, address, now);
    }

    /// Sends a message with this body, if there is a link.
    pub(crate) fn send(&mut self, link: LinkId, body: &[u8]) -> bool {
        let bytes = body.to_vec().into();
        self.transport.send(link, PeerMessage::Join(Join { bytes }))
    }

    /// The bodies that were heard, in order.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &[u8]> {
        self.messages.iter().map(|(_, body)| body.as_slice())
    }

    /// Lets the transport do something, and notes what it says.
    pub(crate) fn with<T>(
        &mut self,
        act: impl FnOnce(&mut Transport<Greeter>, Monotonic, &mut dyn FnMut(TransportEvent<'_, ()>)) -> T,
    ) -> T {
        let now = self.now();
        let (seen, messages, arrivals) = (&mut self.seen, &mut self.messages, &mut self.arrivals);
        act(&mut self.transport, now, &mut |event| match event {
            TransportEvent::Up(link, ()) => seen.push(Seen::Up(link)),
            TransportEvent::Down(link) => seen.push(Seen::Down(link)),
            TransportEvent::Message(link, packet) => messages.push((link, packet.body.bytes().to_vec())),
            TransportEvent::Arrival(worker, arrival) => arrivals.push((worker, arrival)),
        })
    }

    pub(crate) fn turn(&mut self) {
        let is_busy = self.transport.next_due() <= self.now();
        let timeout = if is_busy {
            Duration::ZERO
        } else {
            Duration::from_millis(1)
        };
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(1));
        self.poll.poll(&mut events, Some(timeout)).expect("events");
        self.with(|transport, now, mut sink| {
            for event in &events {
                assert!(transport.owns(event.token()));
                transport.on_ready(event, now, &mut sink);
                transport.check();
            }
            transport.tick(now, &mut sink);
            transport.flush(now, &mut sink);
            transport.check();
        });
        self.events = events;
    }

    pub(crate) fn is_up(&self, link: LinkId) -> bool {
        self.transport.links().any(|up| up == link)
    }
}

/// Runs nodes until something is true of them.
pub(crate) fn until(nodes: &mut [&mut Node], what: &str, is_true: impl Fn(&[&mut Node]) -> bool) {
    let began = Instant::now();
    while !is_true(nodes) {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        nodes.iter_mut().for_each(|node| node.turn());
    }
}

/// Nodes 1 and 2, linked.
pub(crate) fn pair() -> (Node, Node) {
    let (mut one, mut two) = (Node::new(1), Node::new(2));
    one.dial(link(2, 0), two.address);
    until(&mut [&mut one, &mut two], "a link", |nodes| {
        nodes[0].is_up(link(2, 0)) && nodes[1].is_up(link(1, 0))
    });
    (one, two)
}

/// Node 9 as a socket without a transport, introduced to `node`.
pub(crate) fn stranger(node: &mut Node) -> TcpStream {
    let mut stream = TcpStream::connect(node.address).expect("a connection");
    stream.write_all(&hello(9, 0)).expect("room for a hello");
    until(&mut [node], "a link with the stranger", |nodes| {
        nodes[0].is_up(link(9, 0))
    });
    stream
}

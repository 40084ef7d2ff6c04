//! A worker's links to the workers of the same number on other machines, as streams, each with an introduction.
//!
//! What a stream carries comes from production's [`Outgoing`]: its lanes, its queues and its frames. Some sockets take little
//! at once, and in some processes little is much: then messages wait, go by another lane, and at a limit are dropped. A stream
//! that is cut ends between any two bytes; what was under way in it, and what waited, is lost. Bytes of an old stream may come
//! when the new one has been introduced; they are dropped here, as in production each stream is a socket of its own
//! (`crates/transport/tests/it/links.rs`).
//!
//! Who dials whom is as in production: who joins dials everybody, of two members the one with the smaller id dials, once it
//! knows the other; if it does not for long, the other one does. A process that has no workers yet has the links of number 0
//! alone.

use super::frame::{Body, Frame, Who};
use crate::node;
use bytes::Bytes;
use control::Contact;
use ids::{Monotonic, NodeId, Prng};
use peer_wire::frame::{self, FrameDecoder};
use peer_wire::{Assembler, Join, PeerMessage, Question};
use std::collections::BTreeMap;
use std::time::Duration;
use transport::{LaneLimits, Outgoing};

/// Which node is on a machine, as far as is known. Of a machine that joined twice the newer one.
pub(crate) type Known = BTreeMap<usize, NodeId>;

/// How long a member waits for one whose part it is to dial, as in production.
const DIALLED_AFTER: Duration = Duration::from_secs(3);

/// See the file's header.
pub(crate) struct Links {
    number: u8,
    who: Who,
    /// Where the process runs.
    machine: usize,
    /// By machine.
    peers: Vec<Peer>,
    pace: Pace,
    prng: Prng,
    /// What they have brought.
    events: Vec<Event>,
}

/// What the sockets take, in most processes everything at once, and how much is much.
struct Pace {
    limits: LaneLimits,
    /// Bytes that a socket takes at once.
    burst: usize,
    /// How long it takes nothing then, in nanoseconds, at most.
    rest: u64,
}

impl Pace {
    fn draw(prng: &mut Prng) -> Pace {
        let is_narrow = prng.below(3) == 0;
        let usual = LaneLimits::default();
        let mut limits = LaneLimits {
            small_message: [64, 1_024, usual.small_message][prng.below(3) as usize],
            bulk_waiting: [1_024, usual.bulk_waiting][prng.below(2) as usize],
            queue: [4, usual.queue][prng.below(2) as usize],
            ..usual
        };
        // What is drawn for it changes nothing else.
        let mut own = Prng::new(prng.clone().next_u64());
        limits.bulk_message =
            [256, 2_048, usual.bulk_message][own.below(3) as usize].max(limits.small_message);
        limits.small_waiting = [16_384, usual.small_waiting][own.below(2) as usize];
        Pace {
            limits,
            burst: if is_narrow {
                2_048 << prng.below(6)
            } else {
                usize::MAX
            },
            rest: if is_narrow { prng.below(500_000) + 1 } else { 1 },
        }
    }
}

/// The other end.
struct Peer {
    /// Who speaks there, and in which stream.
    heard: Option<(Who, u64)>,
    /// Since when nobody is heard whose part it is to dial.
    silent_since: Option<Monotonic>,
    /// The stream to there, and the number behind which those of this process begin.
    stream: u64,
    begun_at: u64,
    output: Outgoing,
    /// Until then the socket takes no more.
    full_until: Monotonic,
    decoder: FrameDecoder,
    assembler: Assembler,
    /// The beginning of a frame.
    input: Vec<u8>,
}

impl Peer {
    fn new(stream: u64) -> Peer {
        Peer {
            heard: None,
            silent_since: None,
            stream,
            begun_at: stream,
            output: Outgoing::default(),
            full_until: Monotonic(0),
            decoder: FrameDecoder::new(frame::BODY_BYTES_MAX),
            assembler: Assembler::new(),
            input: Vec::new(),
        }
    }

    fn has_begun(&self, stream: u64) -> bool {
        self.begun_at < stream && stream <= self.stream
    }

    /// What was received of the stream before is not gone on with.
    fn hear(&mut self, who: Who, stream: u64) {
        self.heard = Some((who, stream));
        self.decoder = FrameDecoder::new(frame::BODY_BYTES_MAX);
        self.assembler = Assembler::new();
        self.input.clear();
    }

    /// The messages that bytes complete.
    fn receive(&mut self, bytes: &[u8]) -> Vec<PeerMessage> {
        let mut input = std::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let (mut rest, mut messages) = (&input[..], Vec::new());
        while let Some(frame) = self.decoder.next(&mut rest).expect("a node wrote it") {
            if let Some(packet) = self.assembler.push(frame).expect("a node wrote it") {
                messages.push(PeerMessage::decode(&packet).expect("a node wrote it"));
            }
        }
        let taken = input.len() - rest.len();
        input.drain(..taken);
        self.input = input;
        messages
    }
}

/// What a link brought.
pub(crate) enum Event {
    Link(Contact, bool),
    /// About the cluster's own state.
    Meta(Contact, Vec<u8>),
    /// For the gateway.
    Peer(NodeId, PeerMessage),
}

impl Links {
    pub(crate) fn new(number: u8, who: Who, machine: usize, machines: usize, prng: &mut Prng) -> Links {
        let peers = (0..machines).map(|_| Peer::new(prng.next_u64() >> 8));
        Links {
            number,
            who,
            machine,
            peers: peers.collect(),
            pace: Pace::draw(prng),
            prng: Prng::new(prng.next_u64()),
            events: Vec::new(),
        }
    }

    /// What the links have brought since this was last called.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn dials(&self, machine: usize, known: &Known) -> bool {
        match self.who {
            Who::Joining => true,
            Who::Starting(me) | Who::Member(me, _) => known.get(&machine).is_some_and(|node| me < *node),
        }
    }

    fn say_there(&self, machine: usize, body: Body, out: &mut node::Output) {
        let frame = Frame {
            link: self.number,
            stream: self.peers[machine].stream,
            body,
        };
        out.frames.push((NodeId(machine as u64), frame));
    }

    /// Begins a stream.
    fn greet(&mut self, machine: usize, answers: Option<u64>, out: &mut node::Output) {
        let peer = &mut self.peers[machine];
        peer.stream += 1;
        // What waited is lost with the stream.
        peer.output = Outgoing::new(self.pace.limits);
        peer.full_until = Monotonic(0);
        let who = self.who;
        self.say_there(machine, Body::Hello { who, answers }, out);
    }

    /// Dials all that are to be dialled and were not heard. Who joined may have been heard last before it was a member, and
    /// nobody dials again what is not dialled once.
    pub(crate) fn dial(&mut self, known: &Known, out: &mut node::Output) {
        for machine in 0..self.peers.len() {
            let heard = self.peers[machine].heard.and_then(|(who, _)| who.node());
            if machine != self.machine && heard.is_none() && self.dials(machine, known) {
                self.greet(machine, None, out);
            }
        }
    }

    /// Closes links on which more waits than may, and dials members whose part it is to dial, and who have not for long: they may
    /// not know of this one.
    pub(crate) fn look_after(&mut self, known: &Known, now: Monotonic, out: &mut node::Output) {
        let machines = 0..self.peers.len();
        for machine in machines
            .filter(|machine| self.peers[*machine].output.is_overrun())
            .collect::<Vec<_>>()
        {
            self.cut(machine, known, out);
        }
        if !matches!(self.who, Who::Member(..)) {
            return;
        }
        let me = self.machine;
        for &machine in known.keys().filter(|machine| **machine != me) {
            let is_silent = self.peers[machine].heard.is_none() && !self.dials(machine, known);
            let since = &mut self.peers[machine].silent_since;
            let is_long = is_silent && now.since(*since.get_or_insert(now)) >= DIALLED_AFTER;
            if !is_silent || is_long {
                *since = None;
            }
            if is_long {
                self.greet(machine, None, out);
            }
        }
    }

    fn contact(&self, machine: usize) -> Option<Contact> {
        let (who, _) = self.peers[machine].heard?;
        Some(match (self.who, who.node()) {
            (_, None) => Contact::Newcomer(machine as u64),
            (Who::Joining, Some(_)) => Contact::Introducer,
            (_, Some(node)) => Contact::Node(node),
        })
    }

    /// A stream ends.
    pub(crate) fn on_down(&mut self, machine: usize) {
        if let Some(contact) = self.contact(machine) {
            self.events.push(Event::Link(contact, false));
            self.peers[machine].heard = None;
        }
    }

    /// The way to a machine is open again.
    pub(crate) fn on_up(&mut self, machine: usize, known: &Known, out: &mut node::Output) {
        if self.dials(machine, known) {
            self.on_down(machine);
            self.greet(machine, None, out);
        }
    }

    pub(crate) fn on_frame(&mut self, from: usize, frame: Frame, known: &Known, out: &mut node::Output) {
        let peer = &self.peers[from];
        let is_of_stream = peer.heard.map(|(_, stream)| stream) == Some(frame.stream);
        match frame.body {
            // Who joins lets nobody in.
            Body::Hello {
                who: Who::Joining, ..
            } if self.who == Who::Joining => {}
            // Another process has dialled, which was here before: its connection has gone with it.
            Body::Hello {
                answers: Some(stream),
                ..
            } if !peer.has_begun(stream) => {}
            Body::Hello { who, answers } => {
                self.on_down(from);
                self.peers[from].hear(who, frame.stream);
                if answers.is_none() {
                    self.greet(from, Some(frame.stream), out);
                }
                let contact = self.contact(from);
                self.events
                    .extend(contact.map(|contact| Event::Link(contact, true)));
            }
            Body::Bye if is_of_stream || self.peers[from].heard.is_none() => {
                self.on_down(from);
                if self.dials(from, known) {
                    self.greet(from, None, out);
                }
            }
            Body::Bytes(bytes) if is_of_stream => {
                for message in self.peers[from].receive(&bytes) {
                    out.hear(|| super::frame::describe(from, &message));
                    let event = self.event(from, message);
                    self.events.extend(event);
                }
            }
            Body::Bytes(_) | Body::Bye => {}
        }
    }

    fn event(&self, from: usize, message: PeerMessage) -> Option<Event> {
        let contact = self.contact(from)?;
        Some(match message {
            PeerMessage::MetaRequest(Question { bytes, .. }) | PeerMessage::Join(Join { bytes }) => {
                Event::Meta(contact, bytes.to_vec())
            }
            message => Event::Peer(self.peers[from].heard?.0.node()?, message),
        })
    }

    /// The machine on which somebody is that can be reached.
    fn machine_of(&self, contact: Contact) -> Option<usize> {
        let is_there = |is_it: &dyn Fn(Who) -> bool| {
            let mut peers = self.peers.iter();
            peers.position(|peer| peer.heard.is_some_and(|(who, _)| is_it(who)))
        };
        match contact {
            Contact::Node(node) => is_there(&|who| who.node() == Some(node)),
            Contact::Newcomer(machine) => Some(machine as usize),
            Contact::Introducer => is_there(&|who| who.node().is_some()),
        }
    }

    /// Says something to somebody, if he can be reached: it leaves with the next [`Links::flush`].
    pub(crate) fn say(&mut self, contact: Contact, message: PeerMessage) {
        if let Some(machine) = self.machine_of(contact) {
            self.peers[machine].output.send(message);
        }
    }

    /// Something about the cluster's own state.
    pub(crate) fn say_meta(&mut self, contact: Contact, bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let message = match self.who {
            Who::Joining => PeerMessage::Join(Join { bytes }),
            Who::Starting(_) | Who::Member(..) => PeerMessage::MetaRequest(Question { id: 0, bytes }),
        };
        self.say(contact, message);
    }

    /// Sends what sockets take.
    pub(crate) fn flush(&mut self, now: Monotonic, out: &mut node::Output) {
        for machine in 0..self.peers.len() {
            let peer = &mut self.peers[machine];
            if peer.output.is_empty() || now < peer.full_until {
                continue;
            }
            let mut bytes = Vec::new();
            while bytes.len() < self.pace.burst && !peer.output.is_empty() {
                let part = peer.output.next_part();
                let count = part.len().min(self.pace.burst - bytes.len());
                bytes.extend_from_slice(&part[..count]);
                peer.output.sent(count);
            }
            if !peer.output.is_empty() {
                let rest = Duration::from_nanos(self.prng.below(self.pace.rest));
                peer.full_until = now.after(rest);
            }
            self.say_there(machine, Body::Bytes(bytes), out);
        }
    }

    /// The nodes that can be reached, and whether a long message is on its way to or from them.
    pub(crate) fn moving(&self) -> impl Iterator<Item = (NodeId, bool)> {
        self.peers.iter().filter_map(|peer| {
            let is_busy = peer.output.is_busy() || peer.assembler.held_bytes() > 0;
            Some((peer.heard?.0.node()?, is_busy))
        })
    }

    /// When a socket takes more.
    pub(crate) fn next_due(&self) -> Option<Monotonic> {
        let waiting = self.peers.iter().filter(|peer| !peer.output.is_empty());
        waiting.map(|peer| peer.full_until).min()
    }

    /// A connection is lost, for no reason that the machines hear of.
    pub(crate) fn cut(&mut self, machine: usize, known: &Known, out: &mut node::Output) {
        if machine == self.machine {
            return;
        }
        self.on_down(machine);
        if self.dials(machine, known) {
            self.greet(machine, None, out);
        } else {
            self.say_there(machine, Body::Bye, out);
        }
    }

    /// Takes leave of everybody: who then wants to speak to this process dials again.
    pub(crate) fn end(&mut self, out: &mut node::Output) {
        let me = self.machine;
        for machine in (0..self.peers.len()).filter(|machine| *machine != me) {
            self.on_down(machine);
            self.say_there(machine, Body::Bye, out);
        }
    }
}

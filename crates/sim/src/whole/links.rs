//! A worker's links to the workers of the same number on other machines, as streams, each with an introduction.
//!
//! Who dials whom is as in production: who joins dials everybody, of two members the one with the smaller id dials, once it
//! knows the other. A process that has no workers yet has the links of number 0 alone.

use super::frame::{Body, Frame, Who};
use crate::node::Output;
use control::Contact;
use ids::{NodeId, Prng};
use peer_wire::PeerMessage;
use std::collections::BTreeMap;

/// Which node is on a machine, as far as is known. Of a machine that joined twice the newer one.
pub(crate) type Known = BTreeMap<usize, NodeId>;

/// See the file's header.
pub(crate) struct Links {
    number: u8,
    who: Who,
    /// Where the process runs.
    machine: usize,
    /// By machine.
    peers: Vec<Peer>,
}

/// The other end.
struct Peer {
    /// Who speaks there, and in which stream.
    heard: Option<(Who, u64)>,
    /// The stream to there.
    stream: u64,
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
        let peers = (0..machines).map(|_| Peer {
            heard: None,
            stream: prng.next_u64() >> 8,
        });
        Links {
            number,
            who,
            machine,
            peers: peers.collect(),
        }
    }

    fn dials(&self, machine: usize, known: &Known) -> bool {
        match self.who {
            Who::Joining => true,
            Who::Starting(me) | Who::Member(me, _) => known.get(&machine).is_some_and(|node| me < *node),
        }
    }

    fn say_there(&self, machine: usize, body: Body, out: &mut Output<Frame>) {
        let frame = Frame {
            link: self.number,
            stream: self.peers[machine].stream,
            body,
        };
        out.frames.push((NodeId(machine as u64), frame));
    }

    /// Begins a stream.
    fn greet(&mut self, machine: usize, dials: bool, out: &mut Output<Frame>) {
        self.peers[machine].stream += 1;
        let who = self.who;
        self.say_there(machine, Body::Hello { who, dials }, out);
    }

    /// Dials all that are to be dialled and were not heard. Who joined may have been heard last before it was a member, and
    /// nobody dials again what is not dialled once.
    pub(crate) fn dial(&mut self, known: &Known, out: &mut Output<Frame>) {
        for machine in 0..self.peers.len() {
            let heard = self.peers[machine].heard.and_then(|(who, _)| who.node());
            if machine != self.machine && heard.is_none() && self.dials(machine, known) {
                self.greet(machine, true, out);
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
    pub(crate) fn on_down(&mut self, machine: usize, events: &mut Vec<Event>) {
        if let Some(contact) = self.contact(machine) {
            events.push(Event::Link(contact, false));
            self.peers[machine].heard = None;
        }
    }

    /// The way to a machine is open again.
    pub(crate) fn on_up(
        &mut self,
        machine: usize,
        known: &Known,
        events: &mut Vec<Event>,
        out: &mut Output<Frame>,
    ) {
        if self.dials(machine, known) {
            self.on_down(machine, events);
            self.greet(machine, true, out);
        }
    }

    pub(crate) fn on_frame(
        &mut self,
        from: usize,
        frame: Frame,
        known: &Known,
        events: &mut Vec<Event>,
        out: &mut Output<Frame>,
    ) {
        let peer = &self.peers[from];
        let is_of_stream = peer.heard.map(|(_, stream)| stream) == Some(frame.stream);
        match frame.body {
            // Who joins lets nobody in.
            Body::Hello {
                who: Who::Joining, ..
            } if self.who == Who::Joining => {}
            Body::Hello { who, dials } => {
                self.on_down(from, events);
                self.peers[from].heard = Some((who, frame.stream));
                if dials {
                    self.greet(from, false, out);
                }
                events.extend(self.contact(from).map(|contact| Event::Link(contact, true)));
            }
            Body::Bye => {
                self.on_down(from, events);
                if self.dials(from, known) {
                    self.greet(from, true, out);
                }
            }
            Body::Meta(bytes) if is_of_stream => {
                let contact = self.contact(from);
                events.extend(contact.map(|contact| Event::Meta(contact, bytes)));
            }
            Body::Peer(message) if is_of_stream => {
                let node = self.peers[from].heard.and_then(|(who, _)| who.node());
                events.extend(node.map(|node| Event::Peer(node, message)));
            }
            Body::Meta(_) | Body::Peer(_) => {}
        }
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

    /// Says something to somebody, if he can be reached.
    pub(crate) fn say(&self, contact: Contact, body: Body, out: &mut Output<Frame>) {
        if let Some(machine) = self.machine_of(contact) {
            self.say_there(machine, body, out);
        }
    }

    /// Takes leave of everybody: who then wants to speak to this process dials again.
    pub(crate) fn end(&mut self, events: &mut Vec<Event>, out: &mut Output<Frame>) {
        let me = self.machine;
        for machine in (0..self.peers.len()).filter(|machine| *machine != me) {
            self.on_down(machine, events);
            self.say_there(machine, Body::Bye, out);
        }
    }
}

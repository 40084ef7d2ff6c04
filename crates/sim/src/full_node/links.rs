//! A worker's links to workers on other machines, as streams, each with an introduction.
//!
//! What a stream carries comes from production's [`Outgoing`]: its lanes, its queues and its frames. Some sockets take little
//! at once, and in some processes little is much: then messages wait, go by another lane, and at a limit are dropped. A stream
//! that is cut ends between any two bytes; what was under way in it, and what waited, is lost. Bytes of an old stream may come
//! when the new one has been introduced; they are dropped here, as in production each stream is a socket of its own
//! (`crates/transport/tests/it/links.rs`).
//!
//! Who dials whom is as in production, but for members that start, which dial everybody there, and of whose links two may cross: here who joins
//! dials everybody, of two members the one with the smaller id dials, once it knows the other; if it does not for long, the other one does. A process that has no workers yet has the links of number 0
//! alone. How many workers another process has is known from its introductions, and which links there are follows from that.

use super::frame::{Body, Frame, Who};
use crate::node;
use bytes::Bytes;
use control::Contact;
use ids::{Groups, Monotonic, NodeId, PeerWorker, Prng};
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
    /// How many workers the process has, or will have.
    workers: u8,
    /// How many any process has; 0 if all have as many.
    most: u8,
    groups: Groups,
    who: Who,
    /// Where the process runs.
    machine: usize,
    machines: usize,
    peers: BTreeMap<Place, Peer>,
    /// How many workers the processes have on machines where it is another number.
    unlike: BTreeMap<usize, u8>,
    /// The nodes that the gateway was told of as reached.
    reached: BTreeMap<usize, NodeId>,
    pace: Pace,
    prng: Prng,
    /// What they have brought.
    events: Vec<Event>,
}

/// A machine, and a worker of the process there.
type Place = (usize, u8);

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
    /// One of them, for the meta group.
    Link(Contact, bool),
    /// All links to a node, which has so many workers, or not all any more.
    Node(NodeId, u16, bool),
    /// About the cluster's own state.
    Meta(Contact, Vec<u8>),
    /// For the gateway.
    Peer(PeerWorker, PeerMessage),
}

impl Links {
    /// Of worker `number`, one of so many. No process has more than `most`, if they have different numbers.
    pub(crate) fn new(
        (number, workers, most): (u8, u8, u8),
        groups: Groups,
        who: Who,
        machine: usize,
        machines: usize,
        prng: &mut Prng,
    ) -> Links {
        let peers = (0..machines).map(|machine| ((machine, number), Peer::new(prng.next_u64() >> 8)));
        Links {
            number,
            workers,
            most,
            groups,
            who,
            machine,
            machines,
            peers: peers.collect(),
            unlike: BTreeMap::new(),
            reached: BTreeMap::new(),
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

    fn workers_on(&self, machine: usize) -> u8 {
        self.unlike.get(&machine).copied().unwrap_or(self.workers)
    }

    /// The workers on a machine that there are links to. A process that has no workers yet has one.
    fn places_on(&self, machine: usize) -> Vec<Place> {
        if !matches!(self.who, Who::Member(..)) {
            return vec![(machine, 0)];
        }
        let (own, others) = (self.workers.into(), self.workers_on(machine).into());
        let numbers = self.groups.counterparts(self.number.into(), own, others);
        numbers.map(|number| (machine, number as u8)).collect()
    }

    /// All that there are, on other machines.
    fn places(&self) -> Vec<Place> {
        let machines = (0..self.machines).filter(|machine| *machine != self.machine);
        machines.flat_map(|machine| self.places_on(machine)).collect()
    }

    fn peer(&self, place: Place) -> Option<&Peer> {
        self.peers.get(&place)
    }

    fn peer_mut(&mut self, place: Place) -> &mut Peer {
        let prng = &mut self.prng;
        let peer = self.peers.entry(place);
        peer.or_insert_with(|| Peer::new(prng.next_u64() >> 8))
    }

    fn is_heard(&self, place: Place) -> bool {
        self.peer(place).is_some_and(|peer| peer.heard.is_some())
    }

    fn say_there(&mut self, place: Place, body: Body, out: &mut node::Output) {
        let frame = Frame {
            from: self.number,
            to: place.1,
            stream: self.peer_mut(place).stream,
            body,
        };
        out.frames.push((NodeId(place.0 as u64), frame));
    }

    /// Begins a stream.
    fn greet(&mut self, place: Place, answers: Option<u64>, out: &mut node::Output) {
        let limits = self.pace.limits;
        let peer = self.peer_mut(place);
        peer.stream += 1;
        // What waited is lost with the stream.
        peer.output = Outgoing::new(limits);
        peer.full_until = Monotonic(0);
        let (who, workers) = (self.who, self.workers);
        let hello = Body::Hello {
            who,
            workers,
            answers,
        };
        self.say_there(place, hello, out);
    }

    /// Dials all that are to be dialled and were not heard. Who joined may have been heard last before it was a member, and
    /// nobody dials again what is not dialled once.
    pub(crate) fn dial(&mut self, known: &Known, out: &mut node::Output) {
        for place in self.places() {
            let heard = self
                .peer(place)
                .and_then(|peer| peer.heard)
                .and_then(|(who, _)| who.node());
            if heard.is_none() && self.dials(place.0, known) {
                self.greet(place, None, out);
            }
        }
    }

    /// Closes links on which more waits than may, and dials members whose part it is to dial, and who have not for long: they may
    /// not know of this one.
    pub(crate) fn look_after(&mut self, known: &Known, now: Monotonic, out: &mut node::Output) {
        let overrun = self.peers.iter().filter(|(_, peer)| peer.output.is_overrun());
        for (machine, _) in overrun.map(|(place, _)| *place).collect::<Vec<_>>() {
            self.cut(machine, known, out);
        }
        if !matches!(self.who, Who::Member(..)) {
            return;
        }
        let machines: Vec<usize> = known.keys().copied().collect();
        let me = self.machine;
        for machine in machines.into_iter().filter(|machine| *machine != me) {
            for place in self.places_on(machine) {
                let is_silent = !self.is_heard(place) && !self.dials(machine, known);
                let since = &mut self.peer_mut(place).silent_since;
                let is_long = is_silent && now.since(*since.get_or_insert(now)) >= DIALLED_AFTER;
                if !is_silent || is_long {
                    *since = None;
                }
                if is_long {
                    self.greet(place, None, out);
                }
            }
        }
    }

    fn contact(&self, place: Place) -> Option<Contact> {
        let (who, _) = self.peer(place)?.heard?;
        Some(match (self.who, who.node()) {
            (_, None) => Contact::Newcomer(place.0 as u64),
            (Who::Joining, Some(_)) => Contact::Introducer,
            (_, Some(node)) => Contact::Node(node),
        })
    }

    /// A stream ends.
    fn end_stream(&mut self, place: Place) {
        if let Some(contact) = self.contact(place) {
            if place.1 == 0 {
                self.events.push(Event::Link(contact, false));
            }
            self.peer_mut(place).heard = None;
            self.look_whether_reached(place.0);
        }
    }

    /// Tells the gateway of a node once all links to it are there, and when they are not any more.
    fn look_whether_reached(&mut self, machine: usize) {
        let places = self.places_on(machine);
        let node_of = |place: &Place| {
            let (who, _) = self.peer(*place)?.heard?;
            who.node()
        };
        let node =
            node_of(&places[0]).filter(|node| places.iter().all(|place| node_of(place) == Some(*node)));
        let was = self.reached.get(&machine).copied();
        if was == node {
            return;
        }
        let workers = self.workers_on(machine).into();
        if let Some(was) = was {
            self.reached.remove(&machine);
            self.events.push(Event::Node(was, workers, false));
        }
        if let Some(node) = node {
            self.reached.insert(machine, node);
            self.events.push(Event::Node(node, workers, true));
        }
    }

    /// All streams to a machine end.
    pub(crate) fn on_down(&mut self, machine: usize) {
        for place in self.heard_on(machine) {
            self.end_stream(place);
        }
    }

    fn heard_on(&self, machine: usize) -> Vec<Place> {
        let peers = self.peers.range((machine, 0)..=(machine, u8::MAX));
        let heard = peers.filter(|(_, peer)| peer.heard.is_some());
        heard.map(|(place, _)| *place).collect()
    }

    /// The way to a machine is open again.
    pub(crate) fn on_up(&mut self, machine: usize, known: &Known, out: &mut node::Output) {
        if self.dials(machine, known) {
            self.on_down(machine);
            for place in self.places_on(machine) {
                self.greet(place, None, out);
            }
        }
    }

    /// A process says how many workers it has. Other links may be needed.
    fn learn_workers(&mut self, machine: usize, workers: u8, known: &Known, out: &mut node::Output) {
        if workers == self.workers_on(machine) {
            return;
        }
        self.on_down(machine);
        match workers == self.workers {
            true => self.unlike.remove(&machine),
            false => self.unlike.insert(machine, workers),
        };
        if self.dials(machine, known) {
            for place in self.places_on(machine) {
                self.greet(place, None, out);
            }
        }
    }

    pub(crate) fn on_frame(&mut self, from: usize, frame: Frame, known: &Known, out: &mut node::Output) {
        let place = (from, frame.from);
        let was_reached = self.reached.contains_key(&from);
        if let Body::Hello { workers, .. } = frame.body {
            self.learn_workers(from, workers, known, out);
        }
        let (own, number, workers) = (self.who, self.number, self.workers);
        let peer = self.peer_mut(place);
        let is_of_stream = peer.heard.map(|(_, stream)| stream) == Some(frame.stream);
        match frame.body {
            // Who joins lets nobody in.
            Body::Hello {
                who: Who::Joining, ..
            } if own == Who::Joining => {}
            // Whoever calls a worker that there is none of learns how many there are, and calls the right one. A stream to there that has just
            // begun goes on: the other end would not know what one in answer to this call is for, and hear the former.
            Body::Hello { answers: None, .. } if frame.to != number => {
                let hello = Body::Hello {
                    who: own,
                    workers,
                    answers: Some(frame.stream),
                };
                self.say_there(place, hello, out);
            }
            // Another process has dialled, which was here before: its connection has gone with it. Or another worker has, of a process
            // that has fewer than was thought.
            Body::Hello {
                answers: Some(stream),
                ..
            } if !peer.has_begun(stream) => {}
            Body::Hello { who, answers, .. } => {
                self.end_stream(place);
                self.peer_mut(place).hear(who, frame.stream);
                if answers.is_none() {
                    self.greet(place, Some(frame.stream), out);
                }
                if place.1 == 0 {
                    let contact = self.contact(place);
                    self.events
                        .extend(contact.map(|contact| Event::Link(contact, true)));
                }
                self.look_whether_reached(from);
            }
            Body::Bye if is_of_stream || peer.heard.is_none() => {
                self.end_stream(place);
                for place in self.places_on(from) {
                    if !self.is_heard(place) && self.dials(from, known) {
                        self.greet(place, None, out);
                    }
                }
            }
            Body::Bytes(bytes) if is_of_stream => {
                for message in peer.receive(&bytes) {
                    out.hear(|| super::frame::describe(from, &message));
                    let event = self.event(place, message);
                    self.events.extend(event);
                }
            }
            Body::Bytes(_) | Body::Bye => {}
        }
        if was_reached && !self.reached.contains_key(&from) {
            self.break_others(place, known, out);
        }
    }

    /// One link to a machine broke, and so all do, at both ends: what either of them forgets of a node the other has to forget, too.
    fn break_others(&mut self, broken: Place, known: &Known, out: &mut node::Output) {
        for place in self.heard_on(broken.0) {
            if place == broken {
                continue;
            }
            self.end_stream(place);
            if self.dials(place.0, known) {
                self.greet(place, None, out);
            } else {
                self.say_there(place, Body::Bye, out);
            }
        }
    }

    fn event(&self, from: Place, message: PeerMessage) -> Option<Event> {
        let contact = self.contact(from)?;
        Some(match message {
            PeerMessage::MetaRequest(Question { bytes, .. }) | PeerMessage::Join(Join { bytes }) => {
                Event::Meta(contact, bytes.to_vec())
            }
            message => {
                let peer = PeerWorker {
                    node: self.peer(from)?.heard?.0.node()?,
                    worker: from.1.into(),
                };
                Event::Peer(peer, message)
            }
        })
    }

    /// The machine on which somebody is that can be reached, by this worker of it.
    fn machine_of(&self, contact: Contact, worker: u8) -> Option<usize> {
        let is_there = |is_it: &dyn Fn(Who) -> bool| {
            let mut peers = self.peers.iter().filter(|(place, _)| place.1 == worker);
            let found = peers.find(|(_, peer)| peer.heard.is_some_and(|(who, _)| is_it(who)));
            found.map(|(place, _)| place.0)
        };
        match contact {
            Contact::Node(node) => is_there(&|who| who.node() == Some(node)),
            Contact::Newcomer(machine) => Some(machine as usize),
            Contact::Introducer => is_there(&|who| who.node().is_some()),
        }
    }

    /// Says something to a worker of a node, if it can be reached: it leaves with the next [`Links::flush`].
    pub(crate) fn say(&mut self, to: PeerWorker, message: PeerMessage) {
        self.say_to(Contact::Node(to.node), to.worker as u8, message);
    }

    fn say_to(&mut self, contact: Contact, worker: u8, message: PeerMessage) {
        if let Some(machine) = self.machine_of(contact, worker) {
            self.peer_mut((machine, worker)).output.send(message);
        }
    }

    /// Something about the cluster's own state.
    pub(crate) fn say_meta(&mut self, contact: Contact, bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let message = match self.who {
            Who::Joining => PeerMessage::Join(Join { bytes }),
            Who::Starting(_) | Who::Member(..) => PeerMessage::MetaRequest(Question { id: 0, bytes }),
        };
        self.say_to(contact, 0, message);
    }

    /// Sends what sockets take.
    pub(crate) fn flush(&mut self, now: Monotonic, out: &mut node::Output) {
        for place in self.peers.keys().copied().collect::<Vec<_>>() {
            let peer = self.peers.get_mut(&place).expect("it was listed");
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
            self.say_there(place, Body::Bytes(bytes), out);
        }
    }

    /// The workers of nodes that can be reached, and whether a long message is on its way to or from them.
    pub(crate) fn moving(&self) -> impl Iterator<Item = (PeerWorker, bool)> {
        self.peers.iter().filter_map(|(place, peer)| {
            let is_busy = peer.output.is_busy() || peer.assembler.held_bytes() > 0;
            let peer = PeerWorker {
                node: peer.heard?.0.node()?,
                worker: place.1.into(),
            };
            Some((peer, is_busy))
        })
    }

    /// When a socket takes more.
    pub(crate) fn next_due(&self) -> Option<Monotonic> {
        let waiting = self.peers.values().filter(|peer| !peer.output.is_empty());
        waiting.map(|peer| peer.full_until).min()
    }

    /// The connections to a machine are lost, for no reason that the machines hear of.
    pub(crate) fn cut(&mut self, machine: usize, known: &Known, out: &mut node::Output) {
        if machine == self.machine {
            return;
        }
        self.on_down(machine);
        for place in self.places_on(machine) {
            if self.dials(machine, known) {
                self.greet(place, None, out);
            } else {
                self.say_there(place, Body::Bye, out);
            }
        }
    }

    /// Takes leave of everybody: who then wants to speak to this process dials again.
    pub(crate) fn end(&mut self, out: &mut node::Output) {
        let mut places = self.places();
        let machines = (0..self.machines).filter(|machine| *machine != self.machine);
        places.extend(machines.flat_map(|machine| (0..self.most).map(move |number| (machine, number))));
        places.sort_unstable();
        places.dedup();
        for place in places {
            self.end_stream(place);
            self.say_there(place, Body::Bye, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{Boot, GroupCount, UnixMillis};

    const MACHINES: usize = 2;

    /// Of a worker of the node on this machine, which takes all others to have as many.
    fn links(machine: usize, number: u8, workers: u8) -> Links {
        let groups = Groups::with_default_partitions(GroupCount::new(6).unwrap());
        let who = Who::Member(NodeId(machine as u64 + 1), Boot(1));
        let mut prng = Prng::new(machine as u64);
        Links::new((number, workers, 3), groups, who, machine, MACHINES, &mut prng)
    }

    /// What was said, to whom.
    fn take(out: &mut node::Output) -> Vec<Frame> {
        let frames = std::mem::take(&mut out.frames);
        frames.into_iter().map(|(_, frame)| frame).collect()
    }

    /// Two that talk: the only worker of the first node, and one of the other's.
    struct Pair {
        known: Known,
        one: Links,
        other: Links,
    }

    impl Pair {
        /// What the other one says comes to the only worker there is, if it begins a stream or is for it; what the first one says is heard
        /// if it is for this worker.
        fn talk(&mut self, mut said: Vec<Frame>) {
            while !said.is_empty() {
                let mut out = node::Output::new(false);
                for frame in said {
                    if frame.to == 0 || matches!(frame.body, Body::Hello { .. }) {
                        self.one.on_frame(1, frame, &self.known, &mut out);
                    }
                }
                self.one.flush(Monotonic(0), &mut out);
                let mut heard = take(&mut out);
                heard.retain(|frame| frame.to == self.other.number);
                for frame in heard {
                    self.other.on_frame(0, frame, &self.known, &mut out);
                }
                self.other.flush(Monotonic(0), &mut out);
                said = take(&mut out);
            }
        }
    }

    #[test]
    fn who_called_a_worker_that_is_not_there_is_heard_and_hears() {
        let mut pair = Pair {
            known: [(0, NodeId(1)), (1, NodeId(2))].into(),
            one: links(0, 0, 1),
            other: links(1, 1, 3),
        };
        // It is the first node's part to dial, which it has not for long; and the other one takes it to have three workers.
        let mut out = node::Output::new(false);
        for secs in [0, DIALLED_AFTER.as_secs()] {
            let now = Monotonic(0).after(Duration::from_secs(secs));
            pair.other.look_after(&pair.known, now, &mut out);
        }
        let said = take(&mut out);
        assert_eq!(said.iter().map(|frame| frame.to).collect::<Vec<_>>(), [1]);
        pair.talk(said);
        let message = || PeerMessage::WallClock(UnixMillis(1));
        let to = |node: u64, worker: u16| PeerWorker {
            node: NodeId(node),
            worker,
        };
        pair.one.say(to(2, 1), message());
        pair.other.say(to(1, 0), message());
        pair.other.flush(Monotonic(0), &mut out);
        let said = take(&mut out);
        assert_eq!(said.len(), 1);
        pair.talk(said);
        let is_heard = |event: &Event| matches!(event, Event::Peer(_, PeerMessage::WallClock(_)));
        for links in [&mut pair.one, &mut pair.other] {
            assert_eq!(
                links.take_events().iter().filter(|event| is_heard(event)).count(),
                1
            );
        }
    }
}

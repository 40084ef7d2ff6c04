//! All links of one worker.
//!
//! One turn of the owner's loop: [`Transport::on_ready`] for each event of the system, [`Transport::tick`], then after
//! all [`Transport::send`]s one [`Transport::flush`], and no sleep beyond [`Transport::next_due`].
//!
//! Invariants, checked by [`Transport::check`]:
//! 1. At most one link is up for each [`LinkId`], and the table of peers names it.
//! 2. For each peer that is dialled, exactly one of these holds: a link is up, one is on its way, or a time is set for the
//!    next attempt.
//! 3. No attempt is under way while a link is up.

use crate::backoff;
use crate::introduction::{Introduced, Introducer, LinkId, Refused};
use crate::lanes::Lane;
use crate::link::{Broken, Io, Link, Phase};
use crate::notices::Notices;
use crate::outgoing::Outgoing;
use crate::socket;
use ids::{Monotonic, NodeId, Prng};
use mio::event::Event as Readiness;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use peer_wire::frame::{Frame, FrameDecoder};
use peer_wire::{Packet, PeerMessage};
use slab::Slab;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

/// Links of one worker, whatever their phase. More are refused: a thousand nodes with 32 workers each have fewer, even where a worker of a
/// small node has links with all workers of all others.
const LINKS_MAX: usize = 32 * 1024;
/// Accepted connections that have not introduced themselves. One more, and the oldest is closed: an honest peer is done in
/// a few round trips.
const INTRODUCING_MAX: usize = 128;
/// How long it may take until a link is up, from dialling or accepting it. Then it is closed.
const INTRODUCTION_MAX: Duration = Duration::from_secs(5);
/// How long a peer may take nothing while something waits to be sent. Then the link is closed.
const STALL_MAX: Duration = Duration::from_secs(10);
/// Bytes read with one call.
const READ_BYTES: usize = 64 * 1024;
/// Reads from one link in one turn: others get their turn too.
const READS_MAX: usize = 4;
/// How long a link must have been up to count as a success: a peer that lets this node in and closes at once is dialled
/// less and less often.
const STEADY: Duration = backoff::DELAY_MAX;

/// What a transport must know.
#[derive(Clone, Debug)]
pub struct TransportSettings {
    /// This node, once it is one.
    pub own: Option<NodeId>,
    /// This worker.
    pub worker: u16,
    /// The first of [`Transport::TOKENS`] tokens that are the transport's alone.
    pub first_token: usize,
    /// Of its generator, for waits.
    pub seed: u64,
}

/// What happened.
#[derive(Debug)]
pub enum TransportEvent<'a, P> {
    /// A link is up: messages can be sent.
    Up(LinkId, P),
    /// A link that was up is gone, and with it all that was sent and not received.
    Down(LinkId),
    /// A message arrived.
    Message(LinkId, Packet<'a>),
    /// A peer came to this worker that is for another one: hand it over to that one's [`Transport::adopt`].
    Arrival(u16, Box<Arrival<P>>),
}

/// A link that is up, on its way from the worker that accepted it to the worker that it is for.
#[derive(Debug)]
pub struct Arrival<P> {
    socket: TcpStream,
    address: SocketAddr,
    decoder: FrameDecoder,
    input: Vec<u8>,
    output: Vec<u8>,
    link: LinkId,
    peer: P,
}

/// A peer that this node dials or is linked with.
#[derive(Default)]
struct Peer {
    /// Where it is dialled, one after the other; none if it dials this node.
    addresses: Vec<SocketAddr>,
    /// Which of them is the next.
    next: usize,
    up: Option<usize>,
    attempt: Option<usize>,
    retry_at: Option<Monotonic>,
    failures: u32,
}

/// All links of one worker. See the file's header.
pub struct Transport<I: Introducer> {
    introducer: I,
    settings: TransportSettings,
    registry: Registry,
    listener: Option<TcpListener>,
    accepts_again: bool,
    links: Slab<Link<I::Peer>>,
    peers: BTreeMap<LinkId, Peer>,
    /// Links to write to when the turn ends.
    listed: Vec<usize>,
    /// Links with more to read than one turn allowed.
    unread: Vec<usize>,
    /// Accepted links that are not introduced.
    strangers: usize,
    buffer: Box<[u8]>,
    /// When to look at all deadlines again; never later than the first of them.
    due: Monotonic,
    prng: Prng,
    notices: Notices,
    traffic: Traffic,
}

/// What went over all links since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Bytes read.
    pub received: u64,
    /// Bytes written.
    pub sent: u64,
}

const NEVER: Monotonic = Monotonic(u64::MAX);

/// Whether a link is still there, and this transport's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Stays,
    Left,
}

impl<I: Introducer> Transport<I> {
    /// Tokens that a transport uses.
    pub const TOKENS: usize = 1 + LINKS_MAX;

    /// Without links. `registry` is that of the poll whose events it will be shown.
    pub fn new(settings: TransportSettings, introducer: I, registry: Registry) -> Transport<I> {
        Transport {
            introducer,
            registry,
            listener: None,
            accepts_again: false,
            links: Slab::new(),
            peers: BTreeMap::new(),
            listed: Vec::new(),
            unread: Vec::new(),
            strangers: 0,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            due: NEVER,
            prng: Prng::new(settings.seed),
            notices: Notices::default(),
            traffic: Traffic::default(),
            settings,
        }
    }

    /// This node is a member now, or was counted: from here on it introduces itself in another way.
    pub fn rename(&mut self, own: NodeId, introducer: I) {
        self.settings.own = Some(own);
        self.introducer = introducer;
    }

    /// Accepts peers at `address` from now on, and says where that is: with port 0 the system chooses.
    ///
    /// # Errors
    /// What the system answers.
    pub fn listen(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let mut listener = socket::listen(address)?;
        let token = Token(self.settings.first_token);
        self.registry.register(&mut listener, token, Interest::READABLE)?;
        let address = listener.local_addr()?;
        self.listener = Some(listener);
        Ok(address)
    }

    /// Keeps a link with a peer up from now on, by dialling it at `address` at the next [`Transport::tick`] and whenever it
    /// breaks. A link that is up stays as it is.
    pub fn dial(&mut self, link: LinkId, address: SocketAddr, now: Monotonic) {
        self.dial_any(link, &[address], now);
    }

    /// [`Transport::dial`] where a peer may be at any of several addresses, as a name can have more than one: each attempt tries
    /// all of them, one right after the other. Without any nothing is changed.
    pub fn dial_any(&mut self, link: LinkId, addresses: &[SocketAddr], now: Monotonic) {
        if addresses.is_empty() {
            return;
        }
        let peer = self.peers.entry(link).or_default();
        let is_new = peer.addresses != addresses;
        if is_new {
            peer.addresses = addresses.to_vec();
            (peer.next, peer.failures) = (0, 0);
        }
        if peer.up.is_none() && peer.attempt.is_none() && (is_new || peer.retry_at.is_none()) {
            peer.retry_at = Some(now);
            self.due = self.due.min(now);
        }
    }

    /// Leaves it to a peer to dial from now on. A link that is up stays.
    pub fn leave_dialling(&mut self, link: LinkId) {
        if let Some(peer) = self.peers.get_mut(&link) {
            peer.addresses.clear();
            peer.retry_at = None;
        }
    }

    /// Wants no link with a peer any more: closes it, and does not dial it again.
    pub fn forget(
        &mut self,
        link: LinkId,
        now: Monotonic,
        sink: &mut impl FnMut(TransportEvent<'_, I::Peer>),
    ) {
        let Some(peer) = self.peers.get_mut(&link) else {
            return;
        };
        peer.addresses.clear();
        peer.retry_at = None;
        let keys = [peer.attempt, peer.up];
        for key in keys.into_iter().flatten() {
            self.close(key, &Broken::Forgotten, now, sink);
        }
        self.peers.remove(&link);
    }

    /// Takes in a link that another worker of this node accepted.
    pub fn adopt(
        &mut self,
        arrival: Arrival<I::Peer>,
        now: Monotonic,
        sink: &mut impl FnMut(TransportEvent<'_, I::Peer>),
    ) {
        let Arrival {
            socket,
            address,
            decoder,
            input,
            output,
            link,
            peer,
        } = arrival;
        if let Some(refused) = self.refusal(link) {
            return self.notice(address, &refused, now);
        }
        let phase = Phase::Up(link);
        let mut adopted = Link::new(socket, address, phase, now);
        adopted.decoder = decoder;
        adopted.output = Outgoing::of_small(output);
        let key = match self.insert(adopted) {
            Ok(key) => key,
            Err(error) => return self.notice(address, &Broken::System(error), now),
        };
        self.list(key);
        let introduced = Introduced {
            link,
            worker: self.settings.worker,
            peer,
        };
        let taken = self
            .rise(key, introduced, false, now, sink)
            .and_then(|()| self.take_held(key, input, now, sink));
        if let Err(broken) = taken {
            self.close(key, &broken, now, sink);
        }
    }

    /// Takes a message for a link. It is sent by the next [`Transport::flush`], or when there is room. Whether the link is up:
    /// else nobody will hear it.
    pub fn send(&mut self, link: LinkId, message: PeerMessage) -> bool {
        let up = self.peers.get(&link).and_then(|peer| peer.up);
        if let Some(key) = up {
            self.links[key].output.send(message);
            self.list(key);
        }
        up.is_some()
    }

    /// Whether a long message is on its way on a link, in either direction.
    pub fn is_busy(&self, link: LinkId) -> bool {
        let up = self.peers.get(&link).and_then(|peer| peer.up);
        up.is_some_and(|key| {
            let link = &self.links[key];
            link.output.is_busy() || link.assembler.held_bytes() > 0
        })
    }

    /// Bytes that wait in a lane of a link.
    pub fn waiting(&self, link: LinkId, lane: Lane) -> usize {
        let up = self.peers.get(&link).and_then(|peer| peer.up);
        up.map_or(0, |key| self.links[key].output.waiting(lane))
    }

    /// Bytes that the lanes of a link have room for; 0 if it is not up.
    pub fn allocated(&self, link: LinkId) -> usize {
        let up = self.peers.get(&link).and_then(|peer| peer.up);
        up.map_or(0, |key| self.links[key].output.allocated())
    }

    /// The links that are up.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        let up = self.peers.iter().filter(|(_, peer)| peer.up.is_some());
        up.map(|(link, _)| *link)
    }

    /// Whether a token is one of this transport's.
    pub fn owns(&self, token: Token) -> bool {
        let first = self.settings.first_token;
        (first..first + Self::TOKENS).contains(&token.0)
    }

    /// What the system reports for one of this transport's tokens.
    pub fn on_ready(
        &mut self,
        readiness: &Readiness,
        now: Monotonic,
        sink: &mut impl FnMut(TransportEvent<'_, I::Peer>),
    ) {
        let Some(key) = readiness.token().0.checked_sub(self.settings.first_token + 1) else {
            return self.accept(now, sink);
        };
        // What it was about may have been closed by an earlier event of the same turn.
        let Some(link) = self.links.get_mut(key) else {
            return;
        };
        link.is_read_closed |= readiness.is_read_closed();
        if let Phase::Dialling(id) = link.phase {
            match socket::is_connected(&link.socket) {
                Ok(false) => return,
                Ok(true) => self.begin_call(key, id),
                Err(error) => return self.close(key, &Broken::System(error), now, sink),
            }
        }
        let link = &mut self.links[key];
        if readiness.is_writable() && link.is_full {
            link.is_full = false;
            self.list(key);
        }
        if readiness.is_readable() || readiness.is_read_closed() || readiness.is_error() {
            self.read(key, now, sink);
        }
    }

    /// Does what is due: dials, closes what takes too long, reads on.
    pub fn tick(&mut self, now: Monotonic, sink: &mut impl FnMut(TransportEvent<'_, I::Peer>)) {
        if std::mem::take(&mut self.accepts_again) {
            self.accept(now, sink);
        }
        for key in std::mem::take(&mut self.unread) {
            if let Some(link) = self.links.get_mut(key)
                && std::mem::take(&mut link.is_unread)
            {
                self.read(key, now, sink);
            }
        }
        if now < self.due {
            return;
        }
        let is_late = |link: &Link<_>| deadline(link).is_some_and(|deadline| deadline <= now);
        let late: Vec<usize> = self.keys(is_late);
        for key in late {
            self.close(key, &Broken::Stalled, now, sink);
        }
        let is_due = |peer: &Peer| peer.retry_at.is_some_and(|at| at <= now);
        let due = self.peers.iter().filter(|(_, peer)| is_due(peer));
        for link in due.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.attempt(link, now);
        }
        let retries = self.peers.values().filter_map(|peer| peer.retry_at);
        let deadlines = self.links.iter().filter_map(|(_, link)| deadline(link));
        let accepts = self.accepts_again.then(|| now.after(backoff::DELAY_MAX));
        self.due = retries.chain(deadlines).chain(accepts).min().unwrap_or(NEVER);
    }

    /// Sends what waits, as far as sockets take it.
    pub fn flush(&mut self, now: Monotonic, sink: &mut impl FnMut(TransportEvent<'_, I::Peer>)) {
        for key in std::mem::take(&mut self.listed) {
            let Some(link) = self.links.get_mut(key).filter(|link| link.is_listed) else {
                continue;
            };
            link.is_listed = false;
            if matches!(link.phase, Phase::Dialling(_)) {
                continue;
            }
            match link.flush(now, &mut self.traffic.sent) {
                Ok(Io::More) => self.list(key),
                Ok(Io::Drained) => {}
                Err(broken) => {
                    self.close(key, &broken, now, sink);
                    continue;
                }
            }
            let link = &mut self.links[key];
            if link.output.is_overrun() {
                self.close(key, &Broken::Overrun, now, sink);
                continue;
            }
            if link.is_full {
                self.due = self.due.min(link.moved_at.after(STALL_MAX));
            }
        }
    }

    /// What went over all links since the start.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// When the next turn must be at the latest. `Monotonic(0)`: at once.
    pub fn next_due(&self) -> Monotonic {
        if self.unread.is_empty() && self.listed.is_empty() {
            self.due
        } else {
            Monotonic(0)
        }
    }

    /// Asserts the invariants of the file's header.
    pub fn check(&self) {
        for (id, peer) in &self.peers {
            if let Some(up) = peer.up {
                let is_it = matches!(self.links[up].phase, Phase::Up(link) if link == *id);
                assert!(is_it, "1: the table names the link that is up");
            }
            let ways = [peer.up.is_some(), peer.attempt.is_some(), peer.retry_at.is_some()];
            let count = ways.into_iter().filter(|way| *way).count();
            if !peer.addresses.is_empty() {
                assert_eq!(count, 1, "2: a dialled peer is linked, dialled or waited for");
            }
            assert!(
                peer.up.is_none() || peer.attempt.is_none(),
                "3: nobody dials a peer whose link is up"
            );
        }
        let up = self
            .links
            .iter()
            .filter(|(_, link)| matches!(link.phase, Phase::Up(_)));
        assert_eq!(
            up.count(),
            self.links().count(),
            "1: each link that is up is in the table"
        );
    }

    fn keys(&self, is_meant: impl Fn(&Link<I::Peer>) -> bool) -> Vec<usize> {
        let meant = self.links.iter().filter(|(_, link)| is_meant(link));
        meant.map(|(key, _)| key).collect()
    }

    fn list(&mut self, key: usize) {
        if !std::mem::replace(&mut self.links[key].is_listed, true) {
            self.listed.push(key);
        }
    }

    fn insert(&mut self, mut link: Link<I::Peer>) -> io::Result<usize> {
        if self.links.len() >= LINKS_MAX {
            return Err(io::Error::other("too many links"));
        }
        let entry = self.links.vacant_entry();
        let key = entry.key();
        let token = Token(self.settings.first_token + 1 + key);
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.registry.register(&mut link.socket, token, interest)?;
        if let Some(deadline) = deadline(&link) {
            self.due = self.due.min(deadline);
        }
        entry.insert(link);
        Ok(key)
    }

    fn accept(&mut self, now: Monotonic, sink: &mut impl FnMut(TransportEvent<'_, I::Peer>)) {
        while let Some(listener) = &self.listener {
            let (stream, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // Out of file descriptors, most likely: readiness is told once, so look again later.
                    if let Some(left_out) = self.notices.may(now) {
                        tracing::warn!(%error, left_out, "cannot accept a peer");
                    }
                    self.accepts_again = true;
                    self.due = self.due.min(now.after(backoff::DELAY_MAX));
                    return;
                }
            };
            if self.strangers >= INTRODUCING_MAX {
                let strangers = self.links.iter().filter(|(_, link)| is_stranger(&link.phase));
                let oldest = strangers.min_by_key(|(_, link)| link.since).map(|(key, _)| key);
                if let Some(oldest) = oldest {
                    self.close(oldest, &Broken::Crowded, now, sink);
                }
            }
            let phase = Phase::Introducing(None, self.introducer.answer());
            let link = Link::new(stream, address, phase, now);
            let taken = socket::configure(&link.socket).and_then(|()| self.insert(link));
            match taken {
                Ok(_) => self.strangers += 1,
                Err(error) => self.notice(address, &Broken::System(error), now),
            }
        }
    }

    /// Dials a peer.
    fn attempt(&mut self, id: LinkId, now: Monotonic) {
        let peer = self.peers.get_mut(&id).expect("only peers of the table are due");
        peer.retry_at = None;
        let Some(&address) = peer.addresses.get(peer.next) else {
            return;
        };
        let dialled = TcpStream::connect(address).and_then(|stream| {
            let phase = Phase::Dialling(id);
            self.insert(Link::new(stream, address, phase, now))
        });
        match dialled {
            Ok(key) => self.peer(id).attempt = Some(key),
            Err(error) => self.retry(id, &Broken::System(error), now),
        }
    }

    fn peer(&mut self, id: LinkId) -> &mut Peer {
        self.peers
            .get_mut(&id)
            .expect("links of the table stay in it until they are forgotten")
    }

    /// Sets the time of the next attempt after one that failed: at once while there are addresses that it has not tried.
    fn retry(&mut self, id: LinkId, broken: &Broken, now: Monotonic) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let Some(&address) = peer.addresses.get(peer.next) else {
            return;
        };
        peer.next = (peer.next + 1) % peer.addresses.len();
        if peer.next != 0 {
            peer.retry_at = Some(now);
            self.due = self.due.min(now);
            return;
        }
        let wait = backoff::delay(peer.failures, &mut self.prng);
        peer.failures = peer.failures.saturating_add(1);
        let at = now.after(wait);
        peer.retry_at = Some(at);
        self.due = self.due.min(at);
        // A peer that is away for days is not told of at each attempt.
        if peer.failures.is_power_of_two() {
            tracing::info!(
                link = %id,
                %address,
                failures = peer.failures,
                reason = %broken,
                "no link with a node"
            );
        }
    }

    /// A socket that was dialled is connected.
    fn begin_call(&mut self, key: usize, id: LinkId) {
        let link = &mut self.links[key];
        if let Err(error) = socket::configure(&link.socket) {
            // The link works without options; if the socket is broken, the next write says so.
            tracing::debug!(%error, address = %link.address, "cannot set the options of a socket");
        }
        let introduction = self.introducer.call(id, link.output.small_buffer());
        link.phase = Phase::Introducing(Some(id), introduction);
        self.list(key);
    }

    fn read(&mut self, key: usize, now: Monotonic, sink: &mut impl FnMut(TransportEvent<'_, I::Peer>)) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.read_some(key, &mut buffer, now, sink);
        self.buffer = buffer;
        if let Err(broken) = read {
            self.close(key, &broken, now, sink);
        }
    }

    fn read_some(
        &mut self,
        key: usize,
        buffer: &mut [u8],
        now: Monotonic,
        sink: &mut impl FnMut(TransportEvent<'_, I::Peer>),
    ) -> Result<(), Broken> {
        for _ in 0..READS_MAX {
            let link = &mut self.links[key];
            let mut count = 0;
            let io = link.read(buffer, &mut count)?;
            self.traffic.received += count as u64;
            let fate = if link.input.is_empty() {
                let mut rest = &buffer[..count];
                let fate = self.take_frames(key, &mut rest, now, sink)?;
                if fate == Fate::Stays {
                    self.links[key].input.extend_from_slice(rest);
                }
                fate
            } else {
                let mut input = std::mem::take(&mut link.input);
                input.extend_from_slice(&buffer[..count]);
                self.take_held(key, input, now, sink)?
            };
            if fate == Fate::Left || io == Io::Drained {
                return Ok(());
            }
        }
        if !std::mem::replace(&mut self.links[key].is_unread, true) {
            self.unread.push(key);
        }
        Ok(())
    }

    /// Takes the frames of a link's bytes, and leaves it the beginning of one.
    fn take_held(
        &mut self,
        key: usize,
        mut input: Vec<u8>,
        now: Monotonic,
        sink: &mut impl FnMut(TransportEvent<'_, I::Peer>),
    ) -> Result<Fate, Broken> {
        let mut rest = &input[..];
        let fate = self.take_frames(key, &mut rest, now, sink)?;
        let taken = input.len() - rest.len();
        if fate == Fate::Stays && taken < input.len() {
            input.drain(..taken);
            self.links[key].input = input;
        }
        Ok(fate)
    }

    /// Takes whole frames off `rest`.
    fn take_frames(
        &mut self,
        key: usize,
        rest: &mut &[u8],
        now: Monotonic,
        sink: &mut impl FnMut(TransportEvent<'_, I::Peer>),
    ) -> Result<Fate, Broken> {
        loop {
            let link = &mut self.links[key];
            let next = link.decoder.next(rest);
            let Some(frame) = next.map_err(|error| Broken::Garbled(error.to_string()))? else {
                return Ok(Fate::Stays);
            };
            if let Phase::Up(id) = link.phase {
                let packet = link.assembler.push(frame);
                if let Some(packet) = packet.map_err(|error| Broken::Garbled(error.to_string()))? {
                    sink(TransportEvent::Message(id, packet));
                }
            } else if let Some(introduced) = self.introduce(key, &frame)? {
                let is_called = self.links[key].id().is_some();
                if introduced.worker != self.settings.worker {
                    self.send_on(key, introduced, rest, now, sink);
                    return Ok(Fate::Left);
                }
                self.rise(key, introduced, is_called, now, sink)?;
            }
        }
    }

    /// Shows a frame to a link's introduction.
    fn introduce(&mut self, key: usize, frame: &Frame<'_>) -> Result<Option<Introduced<I::Peer>>, Broken> {
        let link = &mut self.links[key];
        let Phase::Introducing(called, introduction) = &mut link.phase else {
            return Err(Broken::Garbled(
                "bytes on a socket that is not connected".to_owned(),
            ));
        };
        let result = introduction.on_frame(frame, link.output.small_buffer());
        let called = *called;
        self.list(key);
        let Some(introduced) = result.map_err(|Refused(reason)| Broken::Refused(reason))? else {
            return Ok(None);
        };
        self.links[key].decoder.widen();
        match called {
            Some(called) if called != introduced.link || introduced.worker != self.settings.worker => Err(
                Broken::Refused(format!("{} answers where {called} was dialled", introduced.link)),
            ),
            _ => Ok(Some(introduced)),
        }
    }

    /// Hands an accepted link over to the worker that it is for.
    fn send_on(
        &mut self,
        key: usize,
        introduced: Introduced<I::Peer>,
        rest: &[u8],
        now: Monotonic,
        sink: &mut impl FnMut(TransportEvent<'_, I::Peer>),
    ) {
        self.strangers -= 1;
        let mut link = self.links.remove(key);
        if let Err(error) = self.registry.deregister(&mut link.socket) {
            return self.notice(link.address, &Broken::System(error), now);
        }
        let Introduced {
            link: id,
            worker,
            peer,
        } = introduced;
        let arrival = Arrival {
            socket: link.socket,
            address: link.address,
            decoder: link.decoder,
            input: rest.to_vec(),
            output: link.output.take_small(),
            link: id,
            peer,
        };
        sink(TransportEvent::Arrival(worker, Box::new(arrival)));
    }

    /// Why a link that somebody else dialled is not taken: if both dial, the one that the smaller node dialled stays. So they
    /// cannot take turns at closing each other's. Where that one dials in vain, as at an address that the other has no more, it takes
    /// what comes.
    fn refusal(&self, link: LinkId) -> Option<Broken> {
        let own = self.settings.own?;
        let peer = self.peers.get(&link)?;
        let is_introduced = |key: usize| !matches!(self.links[key].phase, Phase::Dialling(_));
        let is_vain = peer.up.is_none() && peer.failures > 0 && !peer.attempt.is_some_and(is_introduced);
        let is_refused = !peer.addresses.is_empty() && link.is_dialled_by(own) && !is_vain;
        is_refused.then_some(Broken::Crossed)
    }

    /// Logs what a stranger caused. That nodes which start at the same time dial each other is nothing to look after: one end says so, and the
    /// other one hears that it is closed.
    fn notice(&mut self, address: SocketAddr, reason: &Broken, now: Monotonic) {
        if matches!(reason, Broken::Crossed | Broken::Ended) {
            return tracing::debug!(%address, %reason, "a connection from a node is not accepted");
        }
        if let Some(left_out) = self.notices.may(now) {
            tracing::warn!(%address, %reason, left_out, "a connection from a node is not accepted");
        }
    }

    /// A link is up, in place of an older one with the same peer.
    fn rise(
        &mut self,
        key: usize,
        introduced: Introduced<I::Peer>,
        is_called: bool,
        now: Monotonic,
        sink: &mut impl FnMut(TransportEvent<'_, I::Peer>),
    ) -> Result<(), Broken> {
        let id = introduced.link;
        if !is_called && let Some(refused) = self.refusal(id) {
            return Err(refused);
        }
        let peer = self.peers.entry(id).or_default();
        peer.retry_at = None;
        let attempt = peer.attempt.take().filter(|attempt| *attempt != key);
        let older = peer.up.replace(key);
        let link = &mut self.links[key];
        let is_stranger = is_stranger(&link.phase);
        link.phase = Phase::Up(id);
        link.since = now;
        self.strangers -= usize::from(is_stranger);
        // Both are taken out of the table already, so neither is dialled again.
        for key in attempt.into_iter().chain(older.filter(|older| *older != key)) {
            self.close(key, &Broken::Replaced, now, sink);
        }
        tracing::info!(link = %id, address = %self.links[key].address, "a link is up");
        sink(TransportEvent::Up(id, introduced.peer));
        Ok(())
    }

    /// Closes a link, and sees to the next attempt if it was dialled.
    fn close(
        &mut self,
        key: usize,
        broken: &Broken,
        now: Monotonic,
        sink: &mut impl FnMut(TransportEvent<'_, I::Peer>),
    ) {
        let mut link = self.links.remove(key);
        self.strangers -= usize::from(is_stranger(&link.phase));
        if matches!(broken, Broken::Refused(_)) {
            // The peer is to learn why; as far as one write goes, since nobody waits for it.
            drop(link.flush(now, &mut self.traffic.sent));
            drop(link.socket.shutdown(Shutdown::Write));
        }
        // The system forgets a closed socket by itself; this keeps the poll's books.
        drop(self.registry.deregister(&mut link.socket));
        let address = link.address;
        match link.phase {
            Phase::Up(id) => {
                tracing::warn!(link = %id, %address, reason = %broken, "a link is down");
                sink(TransportEvent::Down(id));
                let Some(peer) = self.peers.get_mut(&id).filter(|peer| peer.up == Some(key)) else {
                    return;
                };
                peer.up = None;
                if now.since(link.since) >= STEADY {
                    peer.failures = 0;
                }
                if !peer.addresses.is_empty() {
                    self.retry(id, broken, now);
                } else {
                    self.peers.remove(&id);
                }
            }
            Phase::Dialling(id) | Phase::Introducing(Some(id), _) => {
                if let Some(peer) = self.peers.get_mut(&id).filter(|peer| peer.attempt == Some(key)) {
                    peer.attempt = None;
                    self.retry(id, broken, now);
                }
            }
            Phase::Introducing(None, _) => self.notice(address, broken, now),
        }
    }
}

fn is_stranger<P>(phase: &Phase<P>) -> bool {
    matches!(phase, Phase::Introducing(None, _))
}

/// When a link is to be closed if nothing happens on it.
fn deadline<P>(link: &Link<P>) -> Option<Monotonic> {
    match link.phase {
        Phase::Up(_) => link.is_full.then(|| link.moved_at.after(STALL_MAX)),
        Phase::Dialling(_) | Phase::Introducing(..) => Some(link.since.after(INTRODUCTION_MAX)),
    }
}

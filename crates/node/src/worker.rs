//! One worker: a single-threaded loop that owns connections and groups.
//!
//! ```text
//!  wait --> begin turn --> read sockets, carry out commands --> take mailbox batches, carry them out
//!   ^                                                                           |
//!   +----    cron     <---- hand mailbox batches over <---- send replies <---- write the log
//! ```
//!
//! One turn reads every socket that is ready, and at its end writes each connection's replies with one call and
//! hands each other worker one mailbox batch. Nothing waits to batch: batches grow by themselves under load.

use crate::acceptor::Acceptor;
use crate::backup_desk::BackupDesk;
use crate::clock;
use crate::disk::Disk;
use crate::keeper::Keeper;
use crate::link::{Io, Link};
use crate::listener::{self, Listener};
use crate::mailboxes::Mailboxes;
use crate::memory;
use crate::offload_jobs::OffloadJobs;
use crate::peers::Peers;
use crate::rates::Rates;
use crate::shutdown::{self, Shutdown};
use gateway::{
    ClientInfo, Connection, Delivery, Endpoint, Gateway, Incoming, Message, Pipeline, Session, Shared,
};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The token of the waker; listeners follow, then connections.
pub(crate) const WAKER: Token = Token(0);
const LISTENERS: usize = 1;
const CONNECTIONS: usize = 1 << 16;

/// Bytes read from a socket with one call.
const READ_BYTES: usize = 64 * 1024;
/// Reads from one socket in one turn: others get their turn too.
const READS_MAX: usize = 4;
/// Events taken from the system at once.
const EVENTS_MAX: usize = 1_024;
/// Ready replies that are kept back for one that comes from another worker. More are sent at once.
const HELD_BYTES_MAX: usize = 16 * 1024;
/// Bytes of messages that a connection gathers before they are sent, in the middle of a turn: one that publishes much
/// to many must not fill the memory with what their sockets would take.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Mailbox batches kept back for one worker above which no more is read from clients.
const BACKLOG_MAX: usize = 8;
/// How often figures are refreshed and connections are looked over.
const CRON: Duration = Duration::from_millis(100);
/// How often figures are refreshed of a worker in whose groups nothing happens.
const STATS: Duration = Duration::from_secs(1);
/// How soon groups are tended again when they have more to do.
const TEND_AGAIN: Duration = Duration::from_millis(1);
/// How long a connection that was said goodbye to may take to end.
const LINGER: Duration = Duration::from_secs(2);

/// One worker. See the file's header.
pub(crate) struct Worker {
    number: u16,
    poll: Poll,
    mailboxes: Arc<Mailboxes>,
    shared: Arc<Shared>,
    gateway: Gateway,
    acceptor: Acceptor,
    links: Slab<Link>,
    generation: u32,
    /// Links to look at when the turn ends.
    listed: Vec<usize>,
    /// Links with more to read than one turn allowed.
    unread: Vec<usize>,
    buffer: Box<[u8]>,
    cron_at: Instant,
    stats_at: Instant,
    tend_at: Instant,
    rates: Rates,
    memory: memory::Sampler,
    offload_jobs: OffloadJobs,
    backup_desk: BackupDesk,
    /// Links to other nodes; none if this node is never to have any.
    peers: Option<Peers>,
    /// What it keeps.
    keeper: Keeper,
    phase: Phase,
}

/// How far a worker is on its way out; see `shutdown.rs`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serves,
    /// Clients are not read any more.
    Rests,
    /// Nor are other nodes heard.
    Deaf,
}

impl Worker {
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a worker")]
    pub(crate) fn new(
        number: u16,
        poll: Poll,
        listeners: Vec<Listener>,
        mailboxes: Arc<Mailboxes>,
        shared: Arc<Shared>,
        offload_jobs: OffloadJobs,
        backup_desk: BackupDesk,
        gateway: Gateway,
        peers: Option<Peers>,
        keeper: Keeper,
    ) -> std::io::Result<Worker> {
        let acceptor = Acceptor::new(listeners, poll.registry(), LISTENERS)?;
        let now = Instant::now();
        Ok(Worker {
            number,
            poll,
            mailboxes,
            gateway,
            shared,
            acceptor,
            links: Slab::new(),
            generation: 0,
            listed: Vec::new(),
            unread: Vec::new(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            cron_at: now,
            stats_at: now,
            tend_at: now,
            memory: memory::Sampler::new(),
            offload_jobs,
            backup_desk,
            peers,
            keeper,
            phase: Phase::Serves,
            rates: Rates::new(now),
        })
    }

    /// Runs until the node stops, and gives back what holds the data.
    pub(crate) fn run(mut self, shutdown: &Shutdown) -> Gateway {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.shared.is_stopping.load(Ordering::Relaxed) {
            let timeout = self.timeout();
            if let Err(error) = self.poll.poll(&mut events, Some(timeout))
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::error!(worker = self.number, %error, "cannot wait for events");
                self.shared.is_stopping.store(true, Ordering::Relaxed);
            }
            self.mailboxes.is_awake(self.number);
            self.turn(&events);
        }
        // Without a data directory there is nobody to leave anything to.
        if self.peers.is_some() && !self.shared.leaves_nothing.load(Ordering::Relaxed) {
            self.leave(shutdown, &mut events);
        }
        self.stop();
        self.keeper.end();
        self.gateway
    }

    /// See `shutdown.rs`.
    fn leave(&mut self, shutdown: &Shutdown, events: &mut Events) {
        let until = Instant::now() + shutdown::RESIGN_MAX;
        while self.gateway.resign() > 0 && Instant::now() < until && !shutdown.is_abandoned() {
            self.step(events);
        }
        let until = Instant::now() + shutdown::REST_MAX;
        let mut has_rested = false;
        loop {
            let is_complete = shutdown.is_complete();
            // What the others said before they rested is heard after all of them have, and nothing else: a group that this
            // worker came to lead now might need links of workers that have ended.
            self.phase = match is_complete {
                true => Phase::Deaf,
                false => Phase::Rests,
            };
            self.step(events);
            let is_at_rest = self.gateway.is_at_rest();
            if is_at_rest && is_complete || shutdown.is_abandoned() {
                return;
            }
            match (std::mem::replace(&mut has_rested, is_at_rest), is_at_rest) {
                (false, true) => shutdown.rest(),
                (true, false) => shutdown.wake(),
                (true, true) | (false, false) => {}
            }
            if Instant::now() >= until {
                tracing::warn!(
                    worker = self.number,
                    "not everything that was under way has ended; the node stops all the same"
                );
                return;
            }
        }
    }

    fn step(&mut self, events: &mut Events) {
        if let Err(error) = self.poll.poll(events, Some(shutdown::STEP))
            && error.kind() != ErrorKind::Interrupted
        {
            tracing::error!(worker = self.number, %error, "cannot wait for events");
        }
        self.mailboxes.is_awake(self.number);
        self.turn(events);
    }

    /// How long to wait for events: not at all if there is something to do.
    fn timeout(&self) -> Duration {
        if !self.unread.is_empty() && self.gateway.backlog() <= BACKLOG_MAX {
            return Duration::ZERO;
        }
        if !self
            .mailboxes
            .may_sleep(self.number, self.gateway.has_lock_waiters())
        {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let due = self.cron_at.min(self.tend_at).saturating_duration_since(now);
        let mut due = self
            .gateway
            .next_wait_ends()
            .map_or(due, |nanos| due.min(Duration::from_nanos(nanos)));
        if let Some(peers) = &self.peers {
            due = due.min(peers.timeout());
        }
        if let Some(sync) = self.keeper.disk_seen().and_then(Disk::timeout) {
            due = due.min(sync);
        }
        if let Some(timer) = self.gateway.next_cluster_timer() {
            due = due.min(timer.since(clock::raw()));
        }
        if let Some(until) = self.gateway.paused_until() {
            let left = until.0.saturating_sub(clock::now().0);
            due = due.min(Duration::from_millis(u64::try_from(left).unwrap_or(0)));
        }
        // Mailbox batches that found a full queue are tried again soon.
        if self.gateway.backlog() > 0 {
            due.min(TEND_AGAIN)
        } else {
            due
        }
    }

    fn turn(&mut self, events: &Events) {
        self.gateway.begin_turn(clock::now());
        let hears = self.phase != Phase::Deaf;
        if hears {
            self.gateway.begin_cluster(clock::raw());
        }
        if let Some(disk) = self.keeper.disk() {
            disk.hear(&mut self.gateway);
        }
        if let Some(peers) = self.peers.as_mut().filter(|_| hears) {
            let (workers, number) = (self.mailboxes.workers(), self.number);
            let groups = self.shared.groups;
            peers.begin(&mut self.gateway, |group| {
                groups.worker_of(group, workers) == number
            });
        }
        while let Some(state) = self.mailboxes.handed_state(self.number) {
            self.gateway.on_kept_state(state.group, *state.keyspace);
            if let Some(disk) = self.keeper.disk() {
                disk.on_state_read(state.group);
            }
            (state.when_taken)();
        }
        self.keeper.follow(&mut self.gateway);
        self.gateway.promise(self.keeper.disk().map_or(0, Disk::promise));
        self.let_go();
        // Decisions first: a client that was answered by another worker finds here what it was told.
        self.receive();
        for key in std::mem::take(&mut self.unread) {
            self.go_on(key);
            self.read(key);
        }
        for event in events {
            match event.token() {
                WAKER => {}
                token if self.peers.as_ref().is_some_and(|peers| peers.owns(token)) => {
                    if let Some(peers) = self.peers.as_mut().filter(|_| hears) {
                        peers.on_ready(event, &mut self.gateway);
                    }
                }
                Token(token) if token < CONNECTIONS => self.accept(token - LISTENERS),
                Token(token) => {
                    let key = token - CONNECTIONS;
                    let Some(link) = self.links.get_mut(key) else {
                        continue;
                    };
                    if event.is_writable() && link.is_full {
                        link.is_full = false;
                        self.list(key);
                    }
                    if event.is_readable() || event.is_read_closed() || event.is_error() {
                        let link = &mut self.links[key];
                        link.is_readable = true;
                        link.is_read_closed |= event.is_read_closed();
                        self.read(key);
                    }
                }
            }
        }
        self.receive();
        self.gateway.end_waits();
        // From here on the turn hands out what was made of states.
        self.keep_first();
        while let Some(offload_job) = self.offload_jobs.fetch(self.number) {
            self.gateway.on_offload_job(offload_job);
        }
        self.backup_desk.turn(self.number, &mut self.gateway);
        self.deliver();
        // And before answers: a decision is on its way before its client hears of it.
        self.finish_cluster();
        self.post();
        // Connections that went on may have asked for more. Most turns end without: what was answered was all there was.
        if self.finish_links() || self.gateway.has_cluster_work() {
            self.finish_cluster();
        }
        self.post();
        self.leave_offload_jobs();
        let now = Instant::now();
        if now >= self.tend_at && hears {
            self.gateway.begin_turn(clock::now());
            self.gateway.begin_cluster(clock::raw());
            let more = self.gateway.cron();
            // Keys that expired or were evicted may have been told of.
            self.deliver();
            self.finish_links();
            self.post();
            self.leave_offload_jobs();
            self.tend_at = now + if more { TEND_AGAIN } else { CRON };
        }
        if now >= self.cron_at {
            self.cron_at = now + CRON;
            self.cron(now);
        }
    }

    /// Has what groups that are alone here have applied first written, before anything leaves that knows of it. Nothing more is applied
    /// first in this turn.
    fn keep_first(&mut self) {
        let Some(disk) = self.keeper.disk() else { return };
        if self.gateway.close_entries(clock::raw()) {
            disk.keep(&mut self.gateway);
            assert!(
                !self.gateway.is_ahead(),
                "the disk has promised to acknowledge it"
            );
        }
    }

    /// Sends what this turn has for replicated groups and other nodes on its way.
    fn finish_cluster(&mut self) {
        let Some(peers) = &mut self.peers else { return };
        if self.gateway.has_cluster_work() {
            self.gateway.finish_cluster(clock::raw());
        }
        self.keeper
            .finish(&mut self.gateway, |gateway| gateway.finish_cluster(clock::raw()));
        peers.finish(&mut self.gateway);
        self.deliver();
    }

    /// Hands commands over that run on another thread.
    fn leave_offload_jobs(&mut self) {
        for offload_job in self.gateway.take_offload_jobs() {
            self.offload_jobs.leave(self.number, offload_job);
        }
    }

    /// Lets connections go on that `CLIENT PAUSE` held back, if it is over.
    fn let_go(&mut self) {
        if !self.gateway.lets_go() {
            return;
        }
        let is_paused = |link: &Link| link.connection.session.is_paused();
        let paused = self.links.iter().filter(|(_, link)| is_paused(link));
        for key in paused.map(|(key, _)| key).collect::<Vec<_>>() {
            self.gateway.go_on(&mut self.links[key].connection.session);
            self.list(key);
        }
    }

    fn accept(&mut self, index: usize) {
        while let Some((stream, address, endpoint)) = self.acceptor.accept(index, &self.shared) {
            let connected = self.shared.clients.count();
            if let Err(refusal) = listener::admit(self.gateway.settings(), connected, address.ip()) {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
                refusal.send(&stream);
                continue;
            }
            self.shared.accepted.fetch_add(1, Ordering::Relaxed);
            self.shared.clients.enter();
            let worker = self.acceptor.next_worker(self.mailboxes.workers());
            if worker == self.number {
                self.adopt(stream, endpoint);
            } else {
                self.mailboxes.hand_over(worker, stream, endpoint);
                self.gateway.send(worker, Message::Adopt);
            }
        }
    }

    /// Takes a connection in.
    fn adopt(&mut self, stream: std::net::TcpStream, endpoint: Endpoint) {
        if let Err(error) = self.try_adopt(stream, endpoint) {
            // The client was gone before it was looked at.
            tracing::debug!(%error, "a connection ended at once");
            self.shared.clients.leave();
        }
    }

    fn try_adopt(&mut self, stream: std::net::TcpStream, endpoint: Endpoint) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        if let Some(seconds) = self.gateway.settings().tcp_keepalive_secs {
            let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(seconds.into()));
            socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        }
        let (address, local_address) = (stream.peer_addr()?, stream.local_addr()?);
        let mut socket = TcpStream::from_std(stream);
        let entry = self.links.vacant_entry();
        let key = entry.key();
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut socket, Token(CONNECTIONS + key), both)?;
        let info = Arc::new(ClientInfo::new(
            self.shared.clients.next_id(),
            address,
            local_address,
            self.number,
            socket.as_raw_fd(),
            clock::now().0,
        ));
        self.shared.clients.add(info.clone());
        self.generation = self.generation.wrapping_add(1);
        let token = u64::from(self.generation) << 32 | key as u64;
        let is_authenticated = self.gateway.settings().requirepass.is_none();
        let session = Session::new(info, token, endpoint, is_authenticated);
        entry.insert(Link::new(socket, Connection::new(session)));
        self.read(key);
        Ok(())
    }

    /// Remembers to look at a link when the turn ends.
    #[inline]
    fn list(&mut self, key: usize) {
        let link = &mut self.links[key];
        if !link.is_listed {
            link.is_listed = true;
            self.listed.push(key);
        }
    }

    /// Carries out what a connection has sent and was not read yet, while commands are applied first.
    fn go_on(&mut self, key: usize) {
        let Some(link) = self.links.get_mut(key).filter(|_| self.phase == Phase::Serves) else {
            return;
        };
        let connection = &mut link.connection;
        let is_held = connection.session.is_waiting() || connection.session.is_paused();
        if connection.has_commands() && !is_held && !connection.pipeline.is_full() {
            self.gateway.resume(connection);
            link.count_unfilled(self.gateway.stats());
            self.list(key);
            self.deliver();
        }
    }

    /// Reads what the socket holds, within bounds, and carries it out.
    fn read(&mut self, key: usize) {
        if !self.links.contains(key) || self.phase != Phase::Serves {
            return;
        }
        let has_backlog = self.gateway.backlog() > BACKLOG_MAX;
        for reads in 0.. {
            let link = &mut self.links[key];
            if !link.is_readable {
                break;
            }
            if link.lingers_until.is_some() {
                return self.discard(key);
            }
            let connection = &mut link.connection;
            let session = &connection.session;
            let is_held = session.is_waiting() || session.is_paused();
            if is_held || session.is_closing || connection.pipeline.is_full() {
                // It goes on when it is answered; the socket's buffer holds the client back.
                break;
            }
            let is_loaded = connection.pipeline.ready_bytes() >= self.gateway.turn_output_bytes();
            if is_loaded && link.is_full {
                // It goes on when the client has read: the writable event says so.
                break;
            }
            if reads == READS_MAX || has_backlog || is_loaded {
                self.unread.push(key);
                break;
            }
            let mut count = 0;
            let result = link.read(&mut self.buffer, &mut count);
            if count > 0 {
                self.gateway.stats().input_bytes.add(count as u64);
                self.gateway.stats().reads.add(1);
                self.gateway.feed(&mut link.connection, &self.buffer[..count]);
                link.count_unfilled(self.gateway.stats());
                if self.gateway.has_deliveries() {
                    // Before other clients are read: who then leaves a channel hears of it no more.
                    self.list(key);
                    self.deliver();
                }
            }
            let Some(link) = self.links.get_mut(key) else {
                return;
            };
            match result {
                Io::More => {}
                Io::Drained => link.is_readable = false,
                Io::Ended => {
                    // What it asked for is still answered.
                    link.is_readable = false;
                    link.is_ended = true;
                }
                Io::Closed => return self.close(key),
            }
            if link.connection.input_len() as u64 > self.gateway.settings().client_query_buffer_limit {
                return self.close_for_input(key);
            }
        }
        self.list(key);
    }

    /// Closes a client whose unfinished request outgrows its limit.
    fn close_for_input(&mut self, key: usize) {
        let id = self.links[key].connection.session.info.id;
        let limit = self.gateway.settings().client_query_buffer_limit;
        tracing::warn!(
            client = id,
            limit,
            "closing a client: its unfinished request is too long"
        );
        self.gateway.stats().input_limit_closes.add(1);
        self.close(key);
    }

    /// Reads and forgets: the client was said goodbye to.
    fn discard(&mut self, key: usize) {
        let link = &mut self.links[key];
        for _ in 0..READS_MAX {
            let mut count = 0;
            match link.read(&mut self.buffer, &mut count) {
                Io::More => {}
                Io::Drained => {
                    link.is_readable = false;
                    return;
                }
                Io::Ended | Io::Closed => return self.close(key),
            }
        }
        self.unread.push(key);
    }

    /// Takes the mailbox batches of the other workers.
    fn receive(&mut self) {
        for from in 0..self.mailboxes.workers() {
            while let Some(mut mailbox_batch) = self.mailboxes.take(self.number, from) {
                let (links, listed) = (&mut self.links, &mut self.listed);
                let (mut adopts, mut reaps) = (false, false);
                self.gateway
                    .receive(from, &mut mailbox_batch, &mut |incoming| match incoming {
                        Incoming::Answer {
                            connection,
                            sequence,
                            reply,
                        } => {
                            if let Some((key, link)) = link_of(links, connection) {
                                link.connection.pipeline.complete(sequence, reply);
                                if !link.is_listed {
                                    link.is_listed = true;
                                    listed.push(key);
                                }
                            }
                        }
                        Incoming::Adopt => adopts = true,
                        Incoming::Reap => reaps = true,
                    });
                self.gateway.recycle(mailbox_batch);
                self.deliver();
                while adopts && let Some((stream, endpoint)) = self.mailboxes.handed_over(self.number) {
                    self.adopt(stream, endpoint);
                }
                if reaps {
                    self.reap();
                }
            }
        }
    }

    /// Gives connections the answers they waited for, and lets them go on.
    fn deliver(&mut self) {
        while let Some(delivery) = self.gateway.next_delivery() {
            if let Delivery::Reap = delivery {
                self.reap();
                continue;
            }
            if let Delivery::Message { listeners, message } = delivery {
                listeners.iter().for_each(|token| self.hear(*token, &message));
                continue;
            }
            let Some(token) = delivery.connection() else {
                continue;
            };
            if let Some((key, link)) = link_of(&mut self.links, token) {
                self.gateway.deliver(&mut link.connection, delivery);
                self.list(key);
            }
        }
    }

    /// Gives a connection a message that it listens for.
    fn hear(&mut self, token: u64, message: &[u8]) {
        let Some((key, link)) = link_of(&mut self.links, token) else {
            return;
        };
        if link.connection.session.is_void {
            return;
        }
        link.connection.hear(message);
        if link.connection.pipeline.ready_bytes() >= MESSAGE_BYTES_MAX {
            // Replies may be among it, and what it says may be new.
            self.keep_first();
            let link = &mut self.links[key];
            let mut sent = 0;
            if !link.is_full && link.flush(&mut sent) == Io::Closed {
                link.connection.session.is_overrun = true;
            }
            self.gateway.stats().output_bytes.add(sent as u64);
            let limit = link.connection.session.output_limit(self.gateway.settings());
            // What it does not read is not gathered beyond its limit; the turn's end closes it.
            if limit.passes_hard(link.connection.pipeline.held_bytes() as u64) {
                link.connection.session.is_overrun = true;
            }
        }
        self.list(key);
    }

    /// At the turn's end: lets connections go on that can, sends replies, and closes what is over.
    /// Whether any connection went on.
    fn finish_links(&mut self) -> bool {
        let mut has_gone_on = false;
        while let Some(key) = self.listed.pop() {
            let Some(link) = self.links.get_mut(key) else {
                continue;
            };
            link.is_listed = false;
            let connection = &mut link.connection;
            let is_held = connection.session.is_waiting() || connection.session.is_paused();
            let may_go_on = !is_held && self.phase == Phase::Serves;
            if connection.has_commands() && may_go_on && !connection.pipeline.is_full() {
                self.gateway.resume(connection);
                link.count_unfilled(self.gateway.stats());
                has_gone_on = true;
            }
            self.finish_link(key);
            // What was just carried out may have been answered already, here.
            self.deliver();
        }
        has_gone_on
    }

    fn finish_link(&mut self, key: usize) {
        let link = &mut self.links[key];
        if link.connection.session.is_void {
            return self.close(key);
        }
        // Replies that stand before one on its way from another worker leave together with it: half the writes,
        // half the packets.
        let connection = &link.connection;
        let is_held = !connection.pipeline.is_settled()
            && !connection.session.is_waiting()
            && connection.pipeline.ready_bytes() < HELD_BYTES_MAX;
        if !link.is_full && !is_held {
            let mut sent = 0;
            let result = link.flush(&mut sent);
            if sent > 0 {
                self.gateway.stats().output_bytes.add(sent as u64);
                self.gateway.stats().writes.add(1);
            }
            if result == Io::Closed {
                return self.close(key);
            }
            if result == Io::More && !self.unread.contains(&key) {
                // Others get their turn; the rest is sent in the next.
                self.unread.push(key);
            }
        }
        let connection = &link.connection;
        let session = &connection.session;
        let has_hung_up = link.is_read_closed || link.is_ended;
        if has_hung_up && session.is_waiting() && self.gateway.hangs_up(session.token) {
            return self.close(key);
        }
        let is_answered = connection.pipeline.is_settled() && !session.is_waiting();
        let is_sent = is_answered && connection.pipeline.ready().is_empty();
        if session.is_closing {
            if is_sent && link.linger(Instant::now() + LINGER) == Io::Closed {
                return self.close(key);
            }
        } else if session.is_paused() {
            // Its next command is carried out when the pause is over.
        } else if is_answered && connection.has_commands() || link.is_readable && !session.is_waiting() {
            // It waited for an answer, or for its replies to be sent, while it had more. One whose socket is full
            // waits for the client.
            let is_stalled =
                link.is_full && connection.pipeline.ready_bytes() >= self.gateway.turn_output_bytes();
            if !is_stalled && !connection.pipeline.is_full() && !self.unread.contains(&key) {
                self.unread.push(key);
            }
        } else if link.is_ended && is_sent {
            return self.close(key);
        }
        let link = &mut self.links[key];
        let is_stuck = link.connection.pipeline.stuck_bytes() >= Pipeline::UNSENT_BYTES_MAX;
        if link.is_full || is_stuck || link.connection.session.is_overrun {
            self.check_output(key);
        }
    }

    /// Closes a client that does not read what it asked for.
    fn check_output(&mut self, key: usize) {
        let link = &mut self.links[key];
        let limit = link.connection.session.output_limit(self.gateway.settings());
        let held = link.connection.pipeline.held_bytes() as u64;
        let now = Instant::now();
        let since = match link.soft_since {
            _ if !limit.passes_soft(held) => {
                link.soft_since = None;
                now
            }
            Some(since) => since,
            None => *link.soft_since.insert(now),
        };
        let too_long = limit.passes_soft(held) && now - since >= Duration::from_secs(limit.soft_secs);
        // Messages were dropped already: what it would read from here on has a gap.
        let has_gap = link.connection.session.is_overrun && link.connection.session.is_listening();
        if limit.passes_hard(held) || too_long || has_gap {
            let id = link.connection.session.info.id;
            tracing::warn!(
                client = id,
                held,
                "closing a client: it does not read its replies"
            );
            self.gateway.stats().output_limit_closes.add(1);
            self.close(key);
        }
    }

    /// Closes the connections that `CLIENT KILL` marked.
    fn reap(&mut self) {
        let is_killed = |link: &Link| link.connection.session.info.is_killed.load(Ordering::Relaxed);
        let killed: Vec<usize> = self
            .links
            .iter()
            .filter(|(_, link)| is_killed(link))
            .map(|(key, _)| key)
            .collect();
        for key in killed {
            let link = &mut self.links[key];
            // A client that kills itself is still told so.
            if link.connection.session.is_closing && !link.connection.session.is_void {
                self.list(key);
            } else {
                self.close(key);
            }
        }
    }

    fn close(&mut self, key: usize) {
        let mut link = self.links.remove(key);
        link.forget_unfilled(self.gateway.stats());
        self.gateway.forget_connection(link.connection.session.token);
        self.gateway.go_on(&mut link.connection.session);
        self.gateway.stop_listening(&mut link.connection.session);
        // The system forgets a closed socket by itself; this keeps the poll's books.
        drop(self.poll.registry().deregister(&mut link.socket));
        self.shared.clients.remove(link.connection.session.info.id);
        self.shared.clients.leave();
    }

    /// Hands over this turn's mailbox batches.
    fn post(&mut self) {
        for to in 0..self.mailboxes.workers() {
            if to != self.number {
                self.mailboxes.post(self.number, to, self.gateway.post(to));
            }
        }
    }

    /// Ten times a second.
    fn cron(&mut self, now: Instant) {
        if let Some(disk) = self.keeper.disk() {
            disk.tend(&mut self.gateway, self.shared.settings().snapshot_rate);
        }
        let is_overdue = now >= self.stats_at;
        if is_overdue {
            self.stats_at = now + STATS;
        }
        self.gateway.keep_stats(is_overdue);
        for index in self.acceptor.again() {
            self.accept(index);
        }
        let idle_max = self
            .gateway
            .settings()
            .timeout_secs
            .map(|seconds| i64::from(seconds) * 1_000);
        let unix_now = clock::now().0;
        let mut over = Vec::new();
        let mut full = Vec::new();
        for (key, link) in &self.links {
            let info = &link.connection.session.info;
            info.input_bytes
                .store(link.connection.input_len() as u64, Ordering::Relaxed);
            info.output_bytes
                .store(link.connection.pipeline.held_bytes() as u64, Ordering::Relaxed);
            let idle = unix_now - info.active_at.load(Ordering::Relaxed);
            let session = &link.connection.session;
            let is_idle = idle_max.is_some_and(|most| idle > most)
                && !session.is_waiting()
                && !session.is_paused()
                && !session.is_listening();
            if link.lingers_until.is_some_and(|until| now >= until) || is_idle {
                over.push(key);
            } else if link.is_full {
                full.push(key);
            }
        }
        over.into_iter().for_each(|key| self.close(key));
        full.into_iter().for_each(|key| self.check_output(key));
        if self.number == 0 {
            self.memory.keep_sampling(&self.shared, is_overdue);
            self.rates.sample(&self.shared, now);
        }
    }

    /// Sends what is ready, and lets go of everything.
    fn stop(&mut self) {
        for (_, link) in &mut self.links {
            while link.flush(&mut 0) == Io::More {}
        }
        for to in 0..self.mailboxes.workers() {
            self.mailboxes.wake(to);
        }
    }
}

/// The link of a connection, if it is still the same.
fn link_of(links: &mut Slab<Link>, token: u64) -> Option<(usize, &mut Link)> {
    let key = (token & 0xffff_ffff) as usize;
    links
        .get_mut(key)
        .filter(|link| link.connection.session.token == token)
        .map(|link| (key, link))
}

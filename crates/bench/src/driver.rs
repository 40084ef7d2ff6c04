//! One thread of the tool: a loop over the sockets of its clients.
//!
//! An *in-flight slot* is a place for one request on its way; a client has as many as `--pipeline` says. At any time it is
//! one of these: in flight on a connection, waiting until a connection is open, resting after an error that says *come back*,
//! or idle.
//!
//! ```text
//!            due, or at once (closed loop)             reply, last round trip
//!   idle ---------------------------------> in flight ------------------------> counted, then idle
//!    ^                                       ^   |  \--- reply, not the last: the next round trip
//!    |                                       |   |  \--- MOVED, ASK: the same one elsewhere
//!    +--- the pause is over --- resting <----|---+  error, lost, too late: counted by kind
//!                          waiting (for a connection) --^
//! ```
//!
//! Invariants, which [`Driver::check`] asserts:
//!
//! 1. Every in-flight slot is one of these, once.
//! 2. As many are active as are in flight or wait.
//! 3. Only a connection that is open has something in flight, and only one that is not lets something wait.
//!
//! Nothing is allocated for a request: in-flight slots are there from the beginning, bytes go into the buffer of the connection.
//! Times are nanoseconds from the start of the run.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use ids::Prng;
use mio::event::Event;
use mio::{Events, Poll, Token};

use crate::connection::{Answer, Connection, Ended, Sent, State, next_answer};
use crate::errors::{ABORTED, CONNECTION_LOST, MALFORMED, TIMEOUT, TOO_FEW_REPLICAS, first_word};
use crate::keys::{Distribution, Keys};
use crate::request::{Draw, Op, Request, Shape};
use crate::schedule::{Arrivals, Schedule};
use crate::slice::Slice;
use crate::slots::{NOBODY, Topology, redirection};
use crate::system::{self, Timer};

/// Events taken from the system at once. The rest come next turn.
const EVENTS_MAX: usize = 1_024;

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// How often it is looked for what takes too long, and for connections to be tried again.
const TICK: u64 = 10 * MILLISECOND;

/// The longest pause before a connection is tried again; the first is [`PAUSE_MIN`].
const PAUSE_MAX: u64 = 200 * MILLISECOND;
const PAUSE_MIN: u64 = 5 * MILLISECOND;

/// How long one attempt to connect may take.
const CONNECT_TIME_MAX: u64 = 2_000 * MILLISECOND;

/// How long all connections together may take at the beginning.
const READY_TIME_MAX: u64 = 15_000 * MILLISECOND;

/// How long an in-flight slot rests after an error that says that it is of no use to ask at once.
const REST: u64 = 10 * MILLISECOND;

/// First words of such errors.
const COME_BACK: &[&[u8]] = &[
    b"CLUSTERDOWN",
    b"LOADING",
    b"TRYAGAIN",
    b"MASTERDOWN",
    b"BUSY",
    b"UNKNOWN",
];

/// How often one request is sent elsewhere. Then it has failed.
const REDIRECTS_MAX: u8 = 16;

/// What ends this soon after the end of a run belongs to its last second.
const LAST_SECOND_GRACE: u64 = 100 * MILLISECOND;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;

const TIMER: Token = Token(usize::MAX);

/// A node to which a client of a cluster has no connection.
const NO_CONNECTION: u32 = u32::MAX;

/// What all threads of a run have in common.
pub(crate) struct Setup {
    pub(crate) shape: Shape,
    pub(crate) distribution: Distribution,
    /// What loads the keys, if that is what this run does.
    pub(crate) load: Option<Op>,
    pub(crate) ops: Vec<Op>,
    /// How many numbers of keys are there; what is inserted takes the next.
    pub(crate) made: AtomicU64,
    pub(crate) addresses: Vec<SocketAddr>,
    /// Of a cluster.
    pub(crate) topology: Option<Arc<Topology>>,
    pub(crate) greeting: Option<Vec<u8>>,
    pub(crate) pipeline: usize,
    /// What is sent behind every write.
    pub(crate) wait: Option<Wait>,
    pub(crate) timeout: u64,
    pub(crate) warmup: u64,
    /// How long it is measured; `u64::MAX` where requests are counted.
    pub(crate) length: u64,
    pub(crate) rate: Option<f64>,
    pub(crate) arrivals: Arrivals,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    pub(crate) base: Instant,
    /// Somebody wants it to end.
    pub(crate) stop: Arc<AtomicBool>,
}

/// What a thread tells.
pub(crate) enum News {
    /// A second is over.
    Second(Box<Slice>),
    /// The thread is.
    Done(Done),
}

/// What a thread tells at its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Requests that were due and were never begun.
    pub(crate) not_started: u64,
    /// Time on a processor while it was measured, and that time.
    pub(crate) cpu_nanos: Option<u64>,
    pub(crate) nanos: u64,
}

/// `WAIT`, behind every write.
pub(crate) struct Wait {
    /// So many replicas must have it.
    pub(crate) replicas: u64,
    /// The command.
    pub(crate) bytes: Vec<u8>,
}

/// A place for one request.
#[derive(Clone, Copy, Debug)]
struct InFlightSlot {
    client: u32,
    request: Request,
    trip: u8,
    redirects: u8,
    /// The next time, `ASKING` goes before it.
    is_asking: bool,
    /// The request has failed, and the connection is being freed of the transaction it began.
    cleanup: Option<&'static [u8]>,
    /// When it ought to have begun.
    begun: u64,
    /// When this round trip began.
    trip_begun: u64,
    /// When it was last sent, or put among those that wait.
    sent: u64,
}

/// One thread's part of a run.
pub(crate) struct Driver<'a> {
    setup: &'a Setup,
    news: Sender<News>,
    poll: Poll,
    timer: Timer,
    connections: Vec<Connection>,
    /// Of each client: of a cluster, its connection to each node; otherwise its one connection.
    clients: Vec<Vec<u32>>,
    in_flight_slots: Vec<InFlightSlot>,
    /// The one that rested longest is taken first, so that all connections are used in turn.
    idle: VecDeque<u32>,
    resting: VecDeque<(u64, u32)>,
    active: usize,
    dirty: Vec<u32>,
    draw: Draw,
    addresses: Vec<SocketAddr>,
    owners: Vec<u16>,
    version: u64,
    buffer: Box<[u8]>,
    text: Vec<u8>,
    slice: Box<Slice>,
    schedule: Option<Schedule>,
    /// Requests that count and may still begin.
    remaining: u64,
    is_running: bool,
    now: u64,
    next_tick: u64,
    /// From here on it is measured, and until here requests begin.
    from: u64,
    end: u64,
    /// Until here what was due before the end begins, if there was no place for it before.
    patience: u64,
    /// What went wrong last with a connection.
    problem: Option<String>,
    thread: usize,
    cpu_from: Option<u64>,
}

impl<'a> Driver<'a> {
    /// A thread with a client for each of `homes`, which are places of addresses.
    pub(crate) fn new(
        setup: &'a Setup,
        thread: usize,
        homes: &[usize],
        quota: Option<u64>,
        news: Sender<News>,
    ) -> io::Result<Driver<'a>> {
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let keys = Keys::new(setup.distribution, setup.shape.numbers());
        let mut seeds = Prng::new(setup.seed ^ (thread as u64) << 32);
        let idle_request = Request {
            op: Op::Ping,
            number: 0,
            seed: 0,
        };
        let in_flight_slot = |client: u32| InFlightSlot {
            client,
            request: idle_request,
            trip: 0,
            redirects: 0,
            is_asking: false,
            cleanup: None,
            begun: 0,
            trip_begun: 0,
            sent: 0,
        };
        let clients = 0..homes.len() as u32;
        let in_flight_slots: Vec<InFlightSlot> = clients
            .clone()
            .flat_map(|client| (0..setup.pipeline).map(move |_| in_flight_slot(client)))
            .collect();
        let mut driver = Driver {
            setup,
            news,
            poll,
            timer,
            connections: Vec::new(),
            clients: vec![Vec::new(); homes.len()],
            idle: (0..in_flight_slots.len() as u32).collect(),
            in_flight_slots,
            resting: VecDeque::new(),
            active: 0,
            dirty: Vec::new(),
            draw: Draw::new(keys, seeds.next_u64()),
            addresses: setup.addresses.clone(),
            owners: Vec::new(),
            version: 0,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            text: Vec::new(),
            slice: Box::default(),
            schedule: None,
            remaining: quota.unwrap_or(u64::MAX),
            is_running: false,
            now: 0,
            next_tick: 0,
            from: u64::MAX,
            end: u64::MAX,
            patience: u64::MAX,
            problem: None,
            thread,
            cpu_from: None,
        };
        driver.look_at_topology();
        let nodes: Vec<u16> = {
            let mut nodes = driver.owners.clone();
            nodes.sort_unstable();
            nodes.dedup();
            nodes.into_iter().filter(|node| *node != NOBODY).collect()
        };
        for (client, home) in clients.zip(homes) {
            if setup.topology.is_none() {
                let connection = driver.add_connection(*home);
                driver.clients[client as usize].push(connection);
            } else {
                for node in &nodes {
                    driver.connection_to(client, usize::from(*node));
                }
            }
        }
        Ok(driver)
    }

    /// Opens all connections.
    ///
    /// # Errors
    /// In words, if some cannot be opened.
    pub(crate) fn connect(&mut self) -> Result<(), String> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let begin = self.clock();
        self.now = begin;
        // Some at a time: a listening socket has room for a few hundred that nobody has accepted.
        const AT_A_TIME: usize = 64;
        let mut begun = 0;
        loop {
            let is_ready = |connection: &Connection| {
                matches!(connection.state, State::Open(_)) && connection.in_flight.is_empty()
            };
            let ready = self.connections[..begun]
                .iter()
                .filter(|connection| is_ready(connection))
                .count();
            if ready == self.connections.len() {
                return Ok(());
            }
            while begun < self.connections.len() && begun - ready < AT_A_TIME {
                self.open(begun);
                begun += 1;
            }
            if let Some(problem) = &self.problem {
                return Err(format!(
                    "connection {} of {} fails: {problem}",
                    ready + 1,
                    self.connections.len()
                ));
            }
            if self.now - begin > READY_TIME_MAX {
                return Err(format!(
                    "after {} s only {ready} of {} connections are open",
                    READY_TIME_MAX / SECOND,
                    self.connections.len()
                ));
            }
            self.turn(&mut events)
                .map_err(|error| format!("cannot wait for sockets: {error}"))?;
        }
    }

    /// Runs from `start` to the end, and tells what it sees.
    ///
    /// # Errors
    /// Of the system's waiting alone.
    pub(crate) fn run(&mut self, start: u64) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        self.is_running = true;
        self.from = start + self.setup.warmup;
        self.end = self.from.saturating_add(self.setup.length);
        self.patience = self.end.saturating_add(self.setup.timeout);
        self.problem = None;
        let setup = self.setup;
        let thread = self.thread as u64;
        self.schedule = setup.rate.map(|rate| {
            // When requests begin is drawn by itself, so that the same seed asks the same at any rate.
            let seed = !setup.seed ^ thread << 32;
            Schedule::new(start, rate, setup.arrivals, seed, thread, setup.threads as u64)
        });
        self.now = self.clock();
        if self.schedule.is_none() {
            for _ in 0..self.idle.len() {
                let in_flight_slot = self.idle.pop_front().expect("as many as were counted");
                self.next(in_flight_slot);
            }
            self.flush();
        }
        loop {
            self.turn(&mut events)?;
            if self.cpu_from.is_none() && self.now >= self.from {
                self.cpu_from = system::thread_cpu_nanos();
            }
            let is_all_begun = match &self.schedule {
                Some(schedule) => {
                    schedule.due() >= self.end || self.remaining == 0 || self.now > self.patience
                }
                None => self.now >= self.end || self.remaining == 0,
            };
            // What is on its way ends: answered, lost or too late.
            if is_all_begun && self.active == 0 {
                break;
            }
            if self.setup.stop.load(Ordering::Relaxed) {
                // What is on its way has not failed; it is left out.
                break;
            }
        }
        self.tell_done();
        Ok(())
    }

    /// Asserts the invariants: at the end of each run, and where the tool is built for tests, a hundred times a second.
    fn check(&self) {
        let mut places = vec![0; self.in_flight_slots.len()];
        let mut active = 0;
        for connection in &self.connections {
            let is_open = matches!(connection.state, State::Open(_));
            assert!(
                is_open || connection.in_flight.is_empty(),
                "invariant 3: in flight"
            );
            assert!(!is_open || connection.waiting.is_empty(), "invariant 3: waiting");
            let in_flight = connection.in_flight.iter().filter_map(|sent| match sent {
                Sent::InFlightSlot(number) => Some(number),
                Sent::Greeting | Sent::Write(_) | Sent::Ignored(_) => None,
            });
            for number in in_flight.chain(&connection.waiting) {
                places[*number as usize] += 1;
                active += 1;
            }
        }
        let resting = self.resting.iter().map(|(_, number)| number);
        for number in resting.chain(&self.idle) {
            places[*number as usize] += 1;
        }
        assert!(places.iter().all(|count| *count == 1), "invariant 1");
        assert_eq!(active, self.active, "invariant 2");
    }

    fn tell_done(&mut self) {
        self.check();
        let is_stopped = self.setup.stop.load(Ordering::Relaxed);
        let not_started = match &self.schedule {
            Some(schedule) if !is_stopped => schedule.left_before(self.end).min(self.remaining),
            _ => 0,
        };
        let cpu = system::thread_cpu_nanos()
            .zip(self.cpu_from)
            .map(|(now, from)| now.saturating_sub(from));
        let last = std::mem::take(&mut self.slice);
        // The main thread has left only if it is ending anyway.
        let _ = self.news.send(News::Second(last));
        let _ = self.news.send(News::Done(Done {
            not_started,
            cpu_nanos: cpu,
            nanos: self.now.saturating_sub(self.from),
        }));
    }

    fn clock(&self) -> u64 {
        self.setup.base.elapsed().as_nanos() as u64
    }

    /// Waits, reads, begins what is due, writes.
    fn turn(&mut self, events: &mut Events) -> io::Result<()> {
        let wait = self.wait()?;
        match self.poll.poll(events, Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        // Each event that tells of time reads the clock.
        for event in events.iter() {
            if event.token() != TIMER {
                self.on_event(event);
            }
        }
        self.now = self.clock();
        if self.is_running {
            self.roll();
        }
        if self.now >= self.next_tick {
            self.next_tick = self.now + TICK;
            self.tick();
        }
        while let Some((until, in_flight_slot)) = self.resting.front().copied()
            && until <= self.now
        {
            self.resting.pop_front();
            self.next(in_flight_slot);
        }
        self.begin_due();
        self.flush();
        Ok(())
    }

    /// How long there is nothing to do but to wait for sockets.
    fn wait(&mut self) -> io::Result<Duration> {
        let mut until = self.next_tick;
        if let Some((rested, _)) = self.resting.front() {
            until = until.min(*rested);
        }
        let now = self.clock();
        if let Some(schedule) = &self.schedule
            && !self.idle.is_empty()
            && schedule.due() < self.end
            && self.remaining > 0
        {
            let due = schedule.due();
            if due <= now {
                return Ok(Duration::ZERO);
            }
            if due < until {
                self.timer.set(Duration::from_nanos(due - now))?;
            }
        }
        Ok(Duration::from_nanos(until.saturating_sub(now)))
    }

    // --- requests

    /// An in-flight slot is free: it begins the next request, or rests until one is due.
    fn next(&mut self, in_flight_slot: u32) {
        let may_begin =
            self.schedule.is_none() && self.is_running && self.now < self.end && self.remaining > 0;
        if may_begin {
            self.begin(in_flight_slot, self.now);
        } else {
            self.idle.push_back(in_flight_slot);
        }
    }

    /// Begins what is due in an open loop, as far as there are in-flight slots.
    fn begin_due(&mut self) {
        while let Some(schedule) = &mut self.schedule {
            let due = schedule.due();
            let is_over = due >= self.end || self.remaining == 0 || self.now > self.patience;
            if due > self.now || is_over {
                return;
            }
            let Some(in_flight_slot) = self.idle.pop_front() else {
                return;
            };
            schedule.advance();
            self.begin(in_flight_slot, due);
        }
    }

    fn begin(&mut self, number: u32, begun: u64) {
        let setup = self.setup;
        if begun >= self.from {
            self.remaining -= 1;
        }
        let made = setup.made.load(Ordering::Relaxed);
        let make = || setup.made.fetch_add(1, Ordering::Relaxed);
        let request = self.draw.request(&setup.shape, setup.load, made, make);
        let in_flight_slot = &mut self.in_flight_slots[number as usize];
        in_flight_slot.request = request;
        in_flight_slot.trip = 0;
        in_flight_slot.redirects = 0;
        in_flight_slot.is_asking = false;
        in_flight_slot.cleanup = None;
        in_flight_slot.begun = begun;
        in_flight_slot.trip_begun = begun;
        self.active += 1;
        let connection = self.route(number);
        self.send(connection, number);
    }

    /// The connection for the next round trip.
    fn route(&mut self, number: u32) -> usize {
        let in_flight_slot = self.in_flight_slots[number as usize];
        if self.setup.topology.is_none() {
            return self.clients[in_flight_slot.client as usize][0] as usize;
        }
        let slot = self.setup.shape.slot(&in_flight_slot.request, self.draw.keys());
        let owner = slot.map_or(NOBODY, |slot| self.owners[usize::from(slot.number())]);
        let node = if owner == NOBODY {
            // Any of the nodes that have slots.
            let slot = in_flight_slot.request.seed as usize % self.owners.len();
            match self.owners[slot] {
                NOBODY => in_flight_slot.request.seed as usize % self.addresses.len(),
                owner => usize::from(owner),
            }
        } else {
            usize::from(owner)
        };
        self.connection_to(in_flight_slot.client, node)
    }

    /// Sends the next round trip of an in-flight slot, or lets it wait until the connection is open.
    fn send(&mut self, index: usize, number: u32) {
        let in_flight_slot = &mut self.in_flight_slots[number as usize];
        in_flight_slot.sent = self.now;
        let connection = &mut self.connections[index];
        match connection.state {
            State::Open(_) => self.write(index, number),
            State::Connecting(_) | State::Pausing(_) => connection.waiting.push_back(number),
            State::Closed => {
                connection.waiting.push_back(number);
                self.open(index);
            }
        }
    }

    fn write(&mut self, index: usize, number: u32) {
        let in_flight_slot = &mut self.in_flight_slots[number as usize];
        let connection = &mut self.connections[index];
        if std::mem::take(&mut in_flight_slot.is_asking) {
            connection.out.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
            connection.in_flight.push_back(Sent::Ignored(in_flight_slot.sent));
        }
        match in_flight_slot.cleanup {
            Some(command) => connection.out.extend_from_slice(command),
            None => {
                let made = self.setup.made.load(Ordering::Relaxed);
                self.setup.shape.write(
                    &in_flight_slot.request,
                    in_flight_slot.trip,
                    self.draw.keys(),
                    made,
                    &mut connection.out,
                );
                if let Some(wait) = &self.setup.wait
                    && in_flight_slot.request.op.writes(in_flight_slot.trip)
                {
                    // Sent together, the kindest that a client can be; and on one connection, since WAIT is about its writes.
                    connection.out.extend_from_slice(&wait.bytes);
                    connection.in_flight.push_back(Sent::Write(number));
                }
            }
        }
        connection.in_flight.push_back(Sent::InFlightSlot(number));
        self.mark(index);
    }

    fn mark(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.is_dirty {
            connection.is_dirty = true;
            self.dirty.push(index as u32);
        }
    }

    fn flush(&mut self) {
        while let Some(index) = self.dirty.pop() {
            let index = index as usize;
            self.connections[index].is_dirty = false;
            if self.connections[index].flush().is_err() {
                self.lose(index, CONNECTION_LOST);
            }
        }
    }

    fn on_answer(&mut self, index: usize, answer: Answer<'_>) {
        match self.connections[index].in_flight.pop_front() {
            Some(Sent::InFlightSlot(number)) => self.on_in_flight_slot(index, number, answer),
            Some(Sent::Write(number)) => self.on_write(index, number, answer),
            Some(Sent::Ignored(_)) => {}
            Some(Sent::Greeting) => {
                if let Some(error) = answer.error {
                    self.problem = Some(String::from_utf8_lossy(error).into_owned());
                    self.lose(index, CONNECTION_LOST);
                }
            }
            // A server says so that it takes no more clients, and closes.
            None => {
                self.problem = answer
                    .error
                    .map(|error| String::from_utf8_lossy(error).into_owned());
                self.lose(index, CONNECTION_LOST);
            }
        }
    }

    /// The answer to a write with `WAIT` behind it. If nothing was written, that is the end, whatever `WAIT` answers.
    fn on_write(&mut self, index: usize, number: u32, answer: Answer<'_>) {
        if answer.error.is_none() && !answer.is_nil {
            return;
        }
        let next = self.connections[index].in_flight.front_mut();
        let next = next.expect("WAIT was sent behind the write");
        *next = Sent::Ignored(self.in_flight_slots[number as usize].sent);
        self.on_in_flight_slot(index, number, answer);
    }

    fn on_in_flight_slot(&mut self, index: usize, number: u32, answer: Answer<'_>) {
        self.connections[index].failures = 0;
        let in_flight_slot = self.in_flight_slots[number as usize];
        if in_flight_slot.cleanup.is_some() {
            self.end(number);
            return;
        }
        if let Some(error) = answer.error {
            self.on_error(index, number, error);
            return;
        }
        let op = in_flight_slot.request.op;
        if let (Some(wait), Some(held)) = (&self.setup.wait, answer.integer)
            && op.writes(in_flight_slot.trip)
            && u64::try_from(held).unwrap_or(0) < wait.replicas
        {
            self.fail(number, TOO_FEW_REPLICAS);
            return;
        }
        if self.counts(number) {
            let place = Slice::place(&self.setup.ops, op);
            self.slice.trips[place][usize::from(in_flight_slot.trip)]
                .record(self.now.saturating_sub(in_flight_slot.trip_begun));
            if answer.nils > 0 && op.reads(in_flight_slot.trip) {
                self.slice.misses += u64::from(answer.nils);
            }
        }
        if op == Op::Trans && in_flight_slot.trip == 4 && answer.is_nil {
            self.fail(number, ABORTED);
            return;
        }
        if in_flight_slot.trip + 1 < op.trip_count() {
            let in_flight_slot = &mut self.in_flight_slots[number as usize];
            in_flight_slot.trip += 1;
            in_flight_slot.trip_begun = self.now;
            // A transaction belongs to its connection.
            let next = if op == Op::Trans {
                index
            } else {
                self.route(number)
            };
            self.send(next, number);
            return;
        }
        if self.counts(number) {
            self.slice
                .latencies
                .record(self.now.saturating_sub(in_flight_slot.begun));
            self.slice.last_end = self.now - self.from;
        }
        self.end(number);
    }

    fn on_error(&mut self, index: usize, number: u32, error: &[u8]) {
        if self.redirect(index, number, error) {
            return;
        }
        let word = first_word(error);
        if let Some(topology) = &self.setup.topology
            && (COME_BACK.contains(&word) || word == b"READONLY")
        {
            topology.want();
        }
        if self.counts(number) {
            self.slice.errors.count_reply(error);
            self.slice.last_end = self.now - self.from;
        }
        let in_flight_slot = &mut self.in_flight_slots[number as usize];
        in_flight_slot.cleanup = match (in_flight_slot.request.op, in_flight_slot.trip) {
            (Op::Trans, 1 | 2) => Some(b"*1\r\n$7\r\nUNWATCH\r\n"),
            (Op::Trans, 3) => Some(b"*1\r\n$7\r\nDISCARD\r\n"),
            _ => None,
        };
        if in_flight_slot.cleanup.is_some() {
            self.send(index, number);
        } else if COME_BACK.contains(&word) {
            self.active -= 1;
            self.resting.push_back((self.now + REST, number));
        } else {
            self.end(number);
        }
    }

    /// Follows `MOVED` and `ASK`; true if the round trip is on its way elsewhere.
    fn redirect(&mut self, index: usize, number: u32, error: &[u8]) -> bool {
        let Some(topology) = self.setup.topology.as_deref() else {
            return false;
        };
        let (is_moved, is_ask) = (error.starts_with(b"MOVED "), error.starts_with(b"ASK "));
        if !is_moved && !is_ask {
            return false;
        }
        topology.want();
        let in_flight_slot = &mut self.in_flight_slots[number as usize];
        // Within a transaction there is nowhere to go but back to its beginning.
        if in_flight_slot.redirects == REDIRECTS_MAX
            || (in_flight_slot.request.op == Op::Trans && in_flight_slot.trip > 0)
        {
            return false;
        }
        in_flight_slot.redirects += 1;
        let asked = self.addresses[self.connections[index].node].ip();
        let Some((slot, node)) = redirection(error, asked) else {
            return false;
        };
        let Some(place) = topology.place(node) else {
            return false;
        };
        if self.counts(number) {
            self.slice.redirects += 1;
        }
        self.look_at_topology();
        if is_moved {
            self.owners[usize::from(slot)] = place as u16;
        }
        self.in_flight_slots[number as usize].is_asking = is_ask;
        let client = self.in_flight_slots[number as usize].client;
        let elsewhere = self.connection_to(client, place);
        self.send(elsewhere, number);
        true
    }

    /// Whether this request is measured.
    fn counts(&self, number: u32) -> bool {
        self.in_flight_slots[number as usize].begun >= self.from
    }

    /// The request has failed in a way that no reply says.
    fn fail(&mut self, number: u32, kind: &str) {
        let is_counted = self.in_flight_slots[number as usize].cleanup.is_some();
        if self.counts(number) && !is_counted {
            self.slice.errors.count(kind);
            self.slice.last_end = self.now - self.from;
        }
        self.end(number);
    }

    fn end(&mut self, number: u32) {
        self.active -= 1;
        self.next(number);
    }

    // --- connections

    fn add_connection(&mut self, node: usize) -> u32 {
        self.connections.push(Connection::new(node, self.setup.pipeline));
        self.connections.len() as u32 - 1
    }

    /// A client's connection to a node of a cluster, which may not be open yet.
    fn connection_to(&mut self, client: u32, node: usize) -> usize {
        let known = &mut self.clients[client as usize];
        if known.len() <= node {
            known.resize(node + 1, NO_CONNECTION);
        }
        if known[node] == NO_CONNECTION {
            let connection = self.add_connection(node);
            self.clients[client as usize][node] = connection;
            return connection as usize;
        }
        known[node] as usize
    }

    fn open(&mut self, index: usize) {
        let address = self.addresses[self.connections[index].node];
        let opened = self.connections[index].open(self.poll.registry(), Token(index), address, self.now);
        if let Err(error) = opened {
            self.on_connect_failed(index, &error);
        }
    }

    fn on_event(&mut self, event: &Event) {
        let index = event.token().0;
        if let State::Connecting(_) = self.connections[index].state {
            self.now = self.clock();
            match self.connections[index].connected(self.now) {
                None => return,
                Some(Err(error)) => {
                    self.on_connect_failed(index, &error);
                    return;
                }
                Some(Ok(())) => self.on_connected(index),
            }
        }
        if event.is_writable() {
            self.mark(index);
        }
        if event.is_readable() || event.is_error() {
            // That the other side has closed is not told once more behind its last bytes.
            self.read(index, event.is_read_closed() || event.is_error());
        }
        self.flush();
    }

    fn on_connected(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if let Some(greeting) = &self.setup.greeting {
            connection.out.extend_from_slice(greeting);
            connection.in_flight.push_back(Sent::Greeting);
        }
        while let Some(number) = self.connections[index].waiting.pop_front() {
            self.write(index, number);
        }
        self.mark(index);
    }

    fn on_connect_failed(&mut self, index: usize, error: &io::Error) {
        if self.is_measuring() {
            self.slice.connects_failed += 1;
        }
        self.problem = Some(error.to_string());
        self.connections[index].close(self.poll.registry());
        self.pause(index);
    }

    fn is_measuring(&self) -> bool {
        self.is_running && self.now >= self.from
    }

    /// Reads until there is nothing more; `is_ending`: until the connection has ended.
    fn read(&mut self, index: usize, is_ending: bool) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut text = std::mem::take(&mut self.text);
        loop {
            let (read, ended) = self.connections[index].read(&mut buffer);
            self.now = self.clock();
            let mut rest = &buffer[..read];
            let is_left = loop {
                match next_answer(&mut self.connections[index], &mut rest, &mut text) {
                    Ok(Some(answer)) => self.on_answer(index, answer),
                    Ok(None) => break false,
                    Err(_) => {
                        self.lose(index, MALFORMED);
                        break true;
                    }
                }
                if !matches!(self.connections[index].state, State::Open(_)) {
                    break true;
                }
            };
            let is_dry = ended == Ended::Dry && (read == 0 || !is_ending);
            if is_left || is_dry {
                break;
            }
            if ended == Ended::Lost {
                self.lose(index, CONNECTION_LOST);
                break;
            }
        }
        self.buffer = buffer;
        self.text = text;
    }

    /// The connection is of no more use: what was on its way has failed, what waits goes on waiting.
    fn lose(&mut self, index: usize, kind: &str) {
        if !matches!(self.connections[index].state, State::Open(_)) {
            return;
        }
        if self.is_measuring() {
            self.slice.connections_lost += 1;
        }
        if self.problem.is_none() {
            self.problem = Some(kind.to_owned());
        }
        self.connections[index].close(self.poll.registry());
        // Before anything is begun anew, which would else open it at once.
        self.pause(index);
        for _ in 0..self.connections[index].in_flight.len() {
            let sent = self.connections[index].in_flight.pop_front();
            if let Some(Sent::InFlightSlot(number)) = sent {
                self.fail(number, kind);
            }
        }
    }

    /// Lets a while pass before it is tried again, elsewhere if there is an elsewhere.
    fn pause(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let pause = (PAUSE_MIN << connection.failures.min(6)).min(PAUSE_MAX);
        connection.failures += 1;
        connection.state = State::Pausing(self.now + pause);
        match &self.setup.topology {
            Some(topology) => topology.want(),
            None => connection.node = (connection.node + 1) % self.addresses.len(),
        }
    }

    /// The pause is over.
    fn resume(&mut self, index: usize) {
        self.connections[index].state = State::Closed;
        if self.setup.topology.is_none() {
            self.open(index);
            return;
        }
        // The slots may have gone to another node meanwhile.
        for _ in 0..self.connections[index].waiting.len() {
            if let Some(number) = self.connections[index].waiting.pop_front() {
                let sent = self.in_flight_slots[number as usize].sent;
                let next = self.route(number);
                self.send(next, number);
                // It has waited since then.
                self.in_flight_slots[number as usize].sent = sent;
            }
        }
    }

    fn tick(&mut self) {
        if cfg!(debug_assertions) {
            self.check();
        }
        self.look_at_topology();
        let timeout = self.setup.timeout;
        for index in 0..self.connections.len() {
            match self.connections[index].state {
                State::Closed => {}
                State::Pausing(until) if until <= self.now => self.resume(index),
                State::Connecting(since) if self.now - since > CONNECT_TIME_MAX => {
                    self.on_connect_failed(index, &io::Error::from(io::ErrorKind::TimedOut));
                }
                State::Open(since) => {
                    let sent = match self.connections[index].in_flight.front() {
                        None => continue,
                        Some(Sent::InFlightSlot(number) | Sent::Write(number)) => {
                            self.in_flight_slots[*number as usize].sent
                        }
                        Some(Sent::Greeting) => since,
                        Some(Sent::Ignored(sent)) => *sent,
                    };
                    if self.now.saturating_sub(sent) > timeout {
                        self.lose(index, TIMEOUT);
                    }
                }
                State::Pausing(_) | State::Connecting(_) => {}
            }
            while let Some(number) = self.connections[index].waiting.front().copied()
                && self
                    .now
                    .saturating_sub(self.in_flight_slots[number as usize].sent)
                    > timeout
            {
                self.connections[index].waiting.pop_front();
                self.fail(number, TIMEOUT);
            }
        }
    }

    /// Takes over what the other threads know of the cluster.
    fn look_at_topology(&mut self) {
        let Some(topology) = &self.setup.topology else {
            return;
        };
        let version = topology.version();
        if version != self.version {
            self.version = version;
            let known = topology.known();
            self.addresses = known.nodes;
            self.owners = known.owners;
        }
    }

    // --- what is told

    /// Tells what the seconds were that are over.
    fn roll(&mut self) {
        if self.now < self.from {
            return;
        }
        let mut now = self.now;
        if now >= self.end && now < self.end + LAST_SECOND_GRACE {
            now = self.end - 1;
        }
        let second = (now - self.from) / SECOND;
        while self.slice.second < second {
            let next = Box::new(Slice {
                second: self.slice.second + 1,
                ..Slice::default()
            });
            let over = std::mem::replace(&mut self.slice, next);
            // The main thread has left only if it is ending anyway.
            let _ = self.news.send(News::Second(over));
        }
    }
}

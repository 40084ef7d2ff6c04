//! The workers of a node that serves, and what lies between them: queues of mailbox batches, and the thread for offload jobs.
//!
//! ```text
//!   worker 0 --batches--> mailbox --> worker 1        each mailbox has a limit, and each batch takes its own time
//!      |  ^-- mailbox <--batches--------'
//!      '---- offload jobs ---> thread ---> back, each in its time
//! ```
//!
//! A worker has its turn when it has something to do and is not at something else. The order among those that have it at one
//! moment is random. A mailbox batch that is not urgent wakes nobody who sleeps, unless requests wait for locks there.

use super::disk::Disk;
use super::frame::{Frame, Who};
use super::links::{Known, Links};
use super::slow_reader::TURN_OUTPUT_BYTES;
use super::worker::{Way, Worker};
use super::{book, checks};
use crate::clock::{MICROS, MILLIS, glance, lent};
use crate::node::{Connection, Output};
use control::{Contact, GivenUp, GroupRef, GroupReport, Order, RecoverySource, RoutingMap};
use gateway::{Gateway, HandoverImage, Hooks, Layout, MailboxBatch, OffloadJob, PieceSizes, Shared};
use ids::{
    Boot, DurabilityMode, Epoch, GroupId, Groups, HashSeed, Monotonic, NodeId, PartitionId, Prng, UnixMillis,
};
use options::Settings;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use storage::{PeerBook, StorageError};

/// How long a worker rests at least behind a piece of state, on nodes where a state goes in many.
const COPY_REST: Duration = Duration::from_millis(2);

/// What the delays of fragments are drawn with, beside all else.
const DELAYS: u64 = 0x434f_4449_4e47_0016;

/// Mailbox batches that may wait between two workers, as in production.
const MAILBOX_BATCHES_MAX: usize = 256;
/// Mailbox batches kept back for one worker above which no more is read from clients, as in production.
const BACKLOG_MAX: usize = 8;
/// How long leadership may take to go elsewhere when the node stops, as in production.
const RESIGN_MAX: Duration = Duration::from_secs(2);
/// How long what is under way may take to end then, as in production.
const REST_MAX: Duration = Duration::from_secs(10);

/// What comes to a worker.
pub(crate) enum Work {
    Frame(usize, Frame),
    Up(usize),
    Down(usize),
    /// The connection to a machine is lost.
    Cut(usize),
    Bytes(Connection, Vec<u8>),
    Gone(Connection),
    Order(GroupId, u64, Order),
    MovePartition(PartitionId, GroupId),
}

/// What a worker has for the meta group's part.
pub(crate) enum Report {
    Link(Contact, bool),
    Message(Contact, Vec<u8>),
    GroupReports(Vec<GroupReport>, Vec<GroupRef>),
    RecoverySources(u16, Vec<RecoverySource>),
    GivenUp(u16, Vec<GivenUp>),
    /// A replica has stopped.
    Notice(String),
}

/// What a worker's turn is given, and where it leaves what it says.
pub(crate) struct Talk<'a> {
    pub(crate) wall: UnixMillis,
    pub(crate) known: &'a Known,
    /// The newest version of the cluster that the process knows.
    pub(crate) newest: Option<Epoch>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) me: (NodeId, Boot),
    pub(crate) reports: Vec<Report>,
    pub(crate) out: &'a mut Output,
}

impl Talk<'_> {
    pub(crate) fn layout(&self, map: &RoutingMap, shown: (DurabilityMode, u64)) -> Layout {
        let mut layout = Layout::of(map, self.me.0, self.me.1);
        (layout.durability, layout.change) = shown;
        layout
    }
}

/// What a process is made of.
pub(crate) struct Making<'a> {
    pub(crate) node: NodeId,
    pub(crate) boot: Boot,
    pub(crate) machine: usize,
    pub(crate) machines: usize,
    pub(crate) groups: Groups,
    pub(crate) workers: usize,
    pub(crate) most: u8,
    /// Bytes of one piece of a long operation, on nodes where little is long.
    pub(crate) piece_bytes: usize,
    /// Where values may be kept as fragments, whether they are to be, and how much whoever leads may keep whole, in percent.
    pub(crate) coding: Option<(bool, u32)>,
    pub(crate) prng: &'a mut Prng,
}

/// See the file's header.
pub(crate) struct Serving {
    pub(crate) node: NodeId,
    pub(crate) boot: Boot,
    shared: Arc<Shared>,
    groups: Groups,
    pub(crate) workers: Vec<Worker>,
    /// `mail[to][from]`, each mailbox batch with the time at which it is there.
    mail: Vec<Vec<VecDeque<(Monotonic, MailboxBatch)>>>,
    /// Groups of which the state is still being read, and when that ends.
    pub(crate) reading: Vec<(Monotonic, GroupId)>,
    /// Offload jobs on their way back, each with its worker.
    offload_jobs: VecDeque<(Monotonic, u16, OffloadJob)>,
    /// How long mailbox batches and offload jobs take at most, in nanoseconds.
    slowness: u64,
    /// One turn in so many is followed by a time in which the worker is at something else; 0 if none is.
    stalls: u64,
    mailbox_batches_max: usize,
    backlog_max: usize,
    prng: Prng,
}

impl Serving {
    pub(crate) fn new(making: Making<'_>) -> Serving {
        let Making {
            node,
            boot,
            machine,
            machines,
            groups,
            workers,
            most,
            piece_bytes,
            coding,
            prng,
        } = making;
        // How states are paced is drawn below: what a link has room for is the network's to say.
        let mut settings = Settings::default();
        let unbounded = settings.set_all(&[(b"move-bandwidth", b"0")]);
        unbounded.expect("0 is allowed");
        if let Some((is_on, percent)) = coding {
            let threshold = keyspace::THRESHOLD_MIN.to_string();
            // What is drawn for it changes nothing else.
            let delay = [0, 200, 2_000][Prng::new(prng.clone().next_u64() ^ DELAYS).below(3) as usize];
            let set = settings.set_all(&[
                (b"coding", on_or_off(is_on)),
                (b"coding-threshold", threshold.as_bytes()),
                (b"coding-hot-memory", percent.to_string().as_bytes()),
                (b"coding-delay", format!("{delay}").as_bytes()),
            ]);
            set.expect("all of it is allowed");
        }
        let mut shared = Shared::new(boot, "run".into(), 0, 6379, groups, workers, settings);
        shared.cluster_port = Some(7379);
        shared.hooks = Hooks {
            clock: glance,
            monotonic: lent,
            ..Hooks::default()
        };
        shared.clients.set_node(node);
        // On some nodes little is long enough to go in pieces, a state in several chunks, and replies in several turns. What is
        // drawn for it changes nothing else.
        if Prng::new(prng.clone().next_u64()).below(3) == 0 {
            shared.hooks.turn_output_bytes = TURN_OUTPUT_BYTES;
            shared.hooks.copy_rest_min = COPY_REST;
            shared.hooks.piece_sizes = PieceSizes {
                long_bytes_min: 16,
                piece_bytes,
                chunk_bytes: 400,
                ..PieceSizes::default()
            };
        }
        // On some nodes much is large enough to be taken aside.
        if prng.below(4) == 0 {
            shared.steps_max.store(prng.below(8) as usize, Ordering::Relaxed);
        }
        let shared = Arc::new(shared);
        let secret = HashSeed([prng.next_u64(), prng.next_u64()]);
        let who = Who::Member(node, boot);
        let all = (0..workers as u16).map(|number| {
            let gateway = Gateway::new(number, shared.clone(), secret, prng.next_u64());
            let place = (number as u8, workers as u8, most);
            let links = Links::new(place, groups, who, machine, machines, prng);
            Worker::new(number, gateway, links)
        });
        let workers: Vec<Worker> = all.collect();
        let mail = || (0..workers.len()).map(|_| VecDeque::new()).collect();
        Serving {
            node,
            boot,
            shared,
            groups,
            mail: (0..workers.len()).map(|_| mail()).collect(),
            workers,
            reading: Vec::new(),
            offload_jobs: VecDeque::new(),
            slowness: [20 * MICROS, 500 * MICROS, 5 * MILLIS][prng.below(3) as usize],
            stalls: [0, 0, 1_000, 50][prng.below(4) as usize],
            mailbox_batches_max: [1, 2, MAILBOX_BATCHES_MAX][prng.below(3) as usize],
            backlog_max: [0, BACKLOG_MAX][prng.below(2) as usize],
            prng: Prng::new(prng.next_u64()),
        }
    }

    /// Has values be kept as fragments, or not any more.
    pub(crate) fn set_coding(&self, is_on: bool) {
        let set = self.shared.set_settings(&[(b"coding", on_or_off(is_on))]);
        set.expect("it is allowed");
    }

    /// Tells clients of a version of the cluster; where the others are then.
    pub(crate) fn learn(&self, map: &RoutingMap) -> PeerBook {
        if let Some(topology) = checks::topology(map, self.node) {
            self.shared.set_topology(topology);
        }
        book(map, self.node)
    }

    /// What the next process is left of the last one.
    pub(crate) fn keep(&mut self, mut kept: Vec<HandoverImage>) {
        for worker in &mut self.workers {
            worker.gateway.keep(&mut kept);
        }
        assert!(kept.is_empty(), "each group has its worker");
    }

    fn talk<'a>(&self, wall: UnixMillis, known: &'a Known, out: &'a mut Output) -> Talk<'a> {
        Talk {
            wall,
            known,
            newest: None,
            shared: self.shared.clone(),
            me: (self.node, self.boot),
            reports: Vec::new(),
            out,
        }
    }

    /// Shows the workers the first version of the cluster.
    pub(crate) fn begin(
        &mut self,
        (map, shown): (&RoutingMap, (DurabilityMode, u64)),
        wall: UnixMillis,
        known: &Known,
        out: &mut Output,
    ) {
        let mut talk = self.talk(wall, known, out);
        for worker in &mut self.workers {
            // Nobody was there when others called: now they may call again.
            worker.links.end(talk.out);
            // As in a turn of production: what its replicas promise from here on is counted from now.
            worker.gateway.begin_turn(wall);
            worker.gateway.begin_cluster(lent());
            worker.see(map, shown, &mut talk);
        }
    }

    /// The worker that a client is with.
    pub(crate) fn worker_of(&mut self, connection: Connection) -> &mut Worker {
        let count = self.workers.len() as u64;
        &mut self.workers[(connection.0 % count) as usize]
    }

    /// The worker that a group is with.
    pub(crate) fn worker_with(&mut self, group: GroupId) -> &mut Worker {
        let at = usize::from(self.groups.worker_of(group, self.workers.len() as u16));
        &mut self.workers[at]
    }

    /// When a worker has something to do.
    fn next_due(&self, number: usize, now: Monotonic) -> Monotonic {
        let worker = &self.workers[number];
        let mut due = worker.next_due(now);
        let has_waiters = worker.gateway.has_lock_waiters();
        for queue in &self.mail[number] {
            let wakes =
                |(_, mailbox_batch): &&(Monotonic, MailboxBatch)| has_waiters || mailbox_batch.is_urgent();
            if let Some((at, _)) = queue.iter().find(wakes) {
                due = due.min(*at);
            }
        }
        let own = |(_, whose, _): &&(Monotonic, u16, OffloadJob)| usize::from(*whose) == number;
        if let Some((at, ..)) = self.offload_jobs.iter().find(own) {
            due = due.min(*at);
        }
        due.max(worker.stalled_until)
    }

    /// When any of them has.
    pub(crate) fn next_wake(&self, now: Monotonic) -> Monotonic {
        let all = (0..self.workers.len()).map(|number| self.next_due(number, now));
        let read = self.reading.iter().map(|(at, _)| *at);
        all.chain(read).min().expect("a node has workers")
    }

    /// Gives a turn to each worker that has something to do.
    pub(crate) fn run(
        &mut self,
        wall: UnixMillis,
        known: &Known,
        newest: Option<Epoch>,
        out: &mut Output,
    ) -> Vec<Report> {
        let talk = self.talk(wall, known, out);
        let mut talk = Talk { newest, ..talk };
        let count = self.workers.len();
        let first = self.prng.below(count as u64) as usize;
        for number in (0..count).map(|number| (first + number) % count) {
            if self.next_due(number, lent()) <= lent() {
                self.turn(number, &mut talk);
            }
        }
        talk.reports
    }

    fn turn(&mut self, number: usize, talk: &mut Talk<'_>) {
        self.resign(number);
        self.workers[number].begin_turn(talk);
        self.receive(number, talk);
        self.workers[number].go_on(talk);
        self.workers[number].work(self.backlog_max, talk);
        self.receive(number, talk);
        let worker = &mut self.workers[number];
        worker.list_unread();
        worker.gateway.end_waits();
        worker.keep_first();
        self.fetch_offload_jobs(number);
        let worker = &mut self.workers[number];
        worker.deliver(talk);
        worker.finish_cluster(talk);
        self.post(number);
        self.workers[number].finish_clients(talk);
        // Connections that went on may have asked for more.
        self.workers[number].finish_cluster(talk);
        self.post(number);
        self.workers[number].finish_clients(talk);
        self.workers[number].tend(talk);
        self.post(number);
        self.leave_offload_jobs(number);
        let worker = &mut self.workers[number];
        if let Way::Rests(since, _) = worker.way {
            worker.way = Way::Rests(since, worker.gateway.is_at_rest());
            return;
        }
        if self.prng.below(2) == 0 {
            worker.begin_next_turn(talk);
        }
        if self.stalls > 0 && self.prng.below(self.stalls) == 0 {
            let millis = self.prng.below(50);
            worker.stalled_until = lent().after(Duration::from_millis(millis));
        }
    }

    /// The node is told to stop.
    pub(crate) fn stop(&mut self) {
        let until = lent().after(RESIGN_MAX);
        for worker in &mut self.workers {
            if worker.way == Way::Serves {
                worker.way = Way::Resigns(until);
            }
        }
    }

    /// Offers leadership to others, until nobody takes it up any more.
    fn resign(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        if let Way::Resigns(until) = worker.way
            && (worker.gateway.resign() == 0 || lent() >= until)
        {
            worker.way = Way::Rests(lent(), false);
        }
    }

    /// Whether no worker answers for anything any more, and nothing is on its way between them.
    pub(crate) fn has_ended(&self) -> bool {
        let is_at_rest = |worker: &Worker| matches!(worker.way, Way::Rests(_, true));
        self.offload_jobs.is_empty()
            && self.mail.iter().flatten().all(VecDeque::is_empty)
            && self.workers.iter().all(is_at_rest)
    }

    /// Whether so much time has passed that it ends although something is under way.
    pub(crate) fn is_overdue(&self, now: Monotonic) -> bool {
        let is_overdue = |worker: &Worker| match worker.way {
            Way::Rests(since, _) => now.since(since) >= REST_MAX,
            Way::Serves | Way::Resigns(_) => false,
        };
        self.workers.iter().any(is_overdue)
    }

    /// Gives a worker the mailbox batches that are there.
    fn receive(&mut self, number: usize, talk: &mut Talk<'_>) {
        let now = lent();
        for from in 0..self.workers.len() {
            loop {
                let queue = &mut self.mail[number][from];
                let Some((_, mailbox_batch)) = queue.pop_front_if(|(at, _)| *at <= now) else {
                    break;
                };
                self.workers[number].take(from as u16, mailbox_batch, talk);
            }
        }
    }

    /// Hands over this turn's mailbox batches, as many as the queues have room for.
    fn post(&mut self, number: usize) {
        let now = lent();
        for to in (0..self.workers.len()).filter(|to| *to != number) {
            let post = self.workers[number].gateway.post(to as u16);
            let queue = &mut self.mail[to][number];
            while queue.len() < self.mailbox_batches_max
                && let Some(mailbox_batch) = post.pop_front()
            {
                let takes = Duration::from_nanos(self.prng.below(self.slowness));
                let after = queue.back().map_or(now, |(at, _)| (*at).max(now));
                queue.push_back((after.after(takes), mailbox_batch));
            }
        }
    }

    fn leave_offload_jobs(&mut self, number: usize) {
        for mut offload_job in self.workers[number].gateway.take_offload_jobs() {
            offload_job.run();
            let takes = Duration::from_nanos(self.prng.below(4 * self.slowness));
            let last = self.offload_jobs.back().map(|(at, ..)| *at);
            let after = last.map_or(lent(), |last| last.max(lent()));
            self.offload_jobs
                .push_back((after.after(takes), number as u16, offload_job));
        }
    }

    fn fetch_offload_jobs(&mut self, number: usize) {
        let now = lent();
        let is_back =
            |(at, whose, _): &mut (Monotonic, u16, OffloadJob)| usize::from(*whose) == number && *at <= now;
        while let Some(at) = self.offload_jobs.iter_mut().position(is_back) {
            let (_, _, offload_job) = self.offload_jobs.remove(at).expect("it was found there");
            self.workers[number].gateway.on_offload_job(offload_job);
        }
    }

    /// Whether what a worker has to keep could not be written.
    pub(crate) fn has_failed_disk(&self) -> bool {
        let mut disks = self.workers.iter().filter_map(|worker| worker.disk.as_ref());
        disks.any(|disk| disk.failed().is_some())
    }

    /// Whether a worker is about to hear that its disk has failed.
    pub(crate) fn is_failing(&self) -> bool {
        let mut disks = self.workers.iter().filter_map(|worker| worker.disk.as_ref());
        disks.any(Disk::is_failing)
    }

    /// Whether all workers keep what they have acknowledged as this change says.
    pub(crate) fn have_followed(&self, change: u64) -> bool {
        self.workers.iter().all(|worker| worker.followed == Some(change))
    }

    /// Everything is written and synced: the process ends.
    pub(crate) fn finish_disks(&mut self) -> Result<(), StorageError> {
        let mut disks = self.workers.iter_mut().filter_map(|worker| worker.disk.as_mut());
        disks.try_for_each(Disk::finish)
    }

    /// What its workers leave behind. Of groups in which something has not ended it is nothing.
    pub(crate) fn leave(self) -> Vec<HandoverImage> {
        let gateways = self.workers.into_iter().map(|worker| worker.gateway);
        gateways
            .flat_map(|gateway| gateway.into_handover_images(lent()).0)
            .collect()
    }
}

fn on_or_off(is_on: bool) -> &'static [u8] {
    match is_on {
        true => b"on",
        false => b"off",
    }
}

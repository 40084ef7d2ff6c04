//! One worker of a node that serves: what the worker's loop does in production, turn by turn, with its clients and its
//! links.

use super::disk::Disk;
use super::links::{Event, Links};
use super::serving::{Report, Talk, Work};
use super::slow_reader::SlowReader;
use crate::clock::lent;
use crate::node::{Connection, Output};
use control::{Contact, Instruction, Mend, RoutingMap};
use gateway::{ClientInfo, Delivery, Endpoint, Gateway, Incoming, MailboxBatch, Session, Shared};
use ids::{DurabilityMode, Monotonic};
use mutations::Mutation;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One connection in so many comes by the cluster endpoint.
const BY_CLUSTER: u64 = 5;
/// Between two rounds of background work.
const TEND: Duration = Duration::from_millis(100);
/// How long a worker waits for events on its way out, as in production.
const LEAVING_STEP: Duration = Duration::from_millis(2);
/// How soon mailbox batches are tried again that found a full queue.
const TRY_AGAIN: Duration = Duration::from_millis(1);

/// How far a worker is on its way out, as in production (`node/shutdown.rs`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Serves,
    /// Leadership goes to other nodes, at most until then; clients are served as ever.
    Resigns(Monotonic),
    /// What is under way ends. Since when, and whether everything has.
    Rests(Monotonic, bool),
}

/// See the file's header.
pub(crate) struct Worker {
    pub(crate) number: u16,
    pub(crate) way: Way,
    pub(crate) gateway: Gateway,
    pub(crate) links: Links,
    clients: BTreeMap<Connection, gateway::Connection>,
    /// Connections that have ended: what is on its way to them is not heard.
    ended: BTreeSet<Connection>,
    /// To be looked at when the turn ends.
    listed: BTreeSet<Connection>,
    /// To be looked at in the next one.
    unread: BTreeSet<Connection>,
    /// Clients that do not read what there is.
    slow: BTreeMap<Connection, SlowReader>,
    /// What came since the last turn.
    pub(crate) inbox: VecDeque<Work>,
    /// What clients sent while other workers did not keep up.
    unheard: VecDeque<Work>,
    /// Versions of the cluster on their way, each with the time at which it comes.
    pub(crate) views: VecDeque<(Monotonic, Arc<RoutingMap>, (DurabilityMode, u64))>,
    /// For one that had none, and with which change.
    pub(crate) next_disk: Option<(u64, Disk)>,
    /// The change as which all is kept that was acknowledged here.
    pub(crate) followed: Option<u64>,
    pub(crate) orders: Vec<Instruction>,
    pub(crate) mends: Vec<Mend>,
    /// What the meta group says to others by this worker's links.
    pub(crate) meta_outbox: Vec<(Contact, Vec<u8>)>,
    /// Until then it is at something else.
    pub(crate) stalled_until: Monotonic,
    group_reports_at: Monotonic,
    tend_at: Monotonic,
    /// When it has a turn on its way out, whatever comes.
    step_at: Monotonic,
    /// The next turn has begun: what comes is handled at the time that it was then.
    is_begun: bool,
    /// What it keeps, in modes that keep anything.
    pub(crate) disk: Option<Disk>,
}

impl Worker {
    pub(crate) fn new(number: u16, gateway: Gateway, links: Links) -> Worker {
        Worker {
            number,
            way: Way::Serves,
            gateway,
            links,
            clients: BTreeMap::new(),
            ended: BTreeSet::new(),
            listed: BTreeSet::new(),
            unread: BTreeSet::new(),
            slow: BTreeMap::new(),
            inbox: VecDeque::new(),
            unheard: VecDeque::new(),
            views: VecDeque::new(),
            next_disk: None,
            followed: None,
            orders: Vec::new(),
            mends: Vec::new(),
            meta_outbox: Vec::new(),
            stalled_until: Monotonic(0),
            group_reports_at: Monotonic(0),
            tend_at: Monotonic(0),
            step_at: Monotonic(0),
            is_begun: false,
            disk: None,
        }
    }

    /// Whether clients are not read any more.
    fn is_resting(&self) -> bool {
        matches!(self.way, Way::Rests(..))
    }

    /// When it has something to do, apart from what other workers and offload jobs bring.
    pub(crate) fn next_due(&self, now: Monotonic) -> Monotonic {
        let has_work = !self.inbox.is_empty()
            || !self.unread.is_empty()
            || !self.orders.is_empty()
            || !self.mends.is_empty()
            || !self.meta_outbox.is_empty();
        let wait = self.gateway.next_wait_ends();
        let is_blocked = self.gateway.backlog() > 0 || !self.unheard.is_empty();
        let all = [
            has_work.then_some(now),
            is_blocked.then_some(now.after(TRY_AGAIN)),
            self.gateway.next_cluster_timer(),
            wait.map(|nanos| now.after(Duration::from_nanos(nanos))),
            self.views.front().map(|(at, ..)| *at),
            self.links.next_due(),
            Some(self.group_reports_at),
            self.slow.values().filter_map(SlowReader::reads_on).min(),
            (self.way != Way::Serves).then_some(self.step_at),
            self.disk.as_ref().and_then(Disk::next_due),
        ];
        let due = all.into_iter().flatten().min();
        due.map_or(self.tend_at, |due| due.min(self.tend_at))
    }

    // ---- turns

    pub(crate) fn begin_turn(&mut self, talk: &mut Talk<'_>) {
        if std::mem::take(&mut self.is_begun) {
            return;
        }
        let now = lent();
        self.step_at = now.after(LEAVING_STEP);
        self.gateway.begin_turn(talk.wall);
        self.gateway.begin_cluster(now);
        if let Some(disk) = &mut self.disk {
            disk.hear(&mut self.gateway);
        }
        while let Some((_, map, shown)) = self.views.pop_front_if(|(at, ..)| *at <= now) {
            self.see(&map, shown, talk);
        }
        self.follow_durability();
        self.gateway.promise(self.disk.as_mut().map_or(0, Disk::promise));
        for instruction in std::mem::take(&mut self.orders) {
            if let control::GroupRef::Data(group) = instruction.group {
                self.gateway
                    .on_order(group, instruction.index, &instruction.order);
            }
        }
        for mend in std::mem::take(&mut self.mends) {
            self.gateway.on_mend(&mend);
        }
    }

    /// A process may be stopped when it has looked at the clock and not yet at its sockets.
    pub(crate) fn begin_next_turn(&mut self, talk: &mut Talk<'_>) {
        self.begin_turn(talk);
        self.is_begun = true;
    }

    /// It is told of a version of the cluster, and dials whom it has not known.
    pub(crate) fn see(&mut self, map: &RoutingMap, shown: (DurabilityMode, u64), talk: &mut Talk<'_>) {
        self.gateway.set_layout(Arc::new(talk.layout(map, shown)));
        if talk.newest.is_none_or(|newest| newest <= map.epoch) {
            self.links.dial(talk.known, talk.out);
        }
        // An old one, shown once more, says nothing of where the others are.
    }

    /// Keeps what is acknowledged as the layout says, as `node/keeper.rs` does.
    fn follow_durability(&mut self) {
        let shown = self.gateway.durability();
        let Some((mode, change)) = shown.filter(|(_, change)| self.followed != Some(*change)) else {
            return;
        };
        match (&mut self.disk, mode.writes()) {
            (Some(disk), true) => disk.set_mode(mode),
            (None, false) => {}
            (None, true) => {
                let disk = self.next_disk.take_if(|(number, _)| *number == change);
                self.disk = disk.map(|(_, disk)| disk);
            }
            (disk, false) => {
                if let Some(disk) = disk.take() {
                    disk.give_up(&mut self.gateway);
                }
            }
        }
        let is_reached = match &self.disk {
            Some(disk) => {
                let awaits = self.gateway.awaits_kept_states();
                disk.is_reached() && !self.gateway.is_changing_durability() && !awaits
            }
            None => !mode.writes(),
        };
        if is_reached {
            self.followed = Some(change);
        }
    }

    /// Handles what came.
    pub(crate) fn work(&mut self, backlog_max: usize, talk: &mut Talk<'_>) {
        let mut all = std::mem::take(&mut self.unheard);
        all.append(&mut self.inbox);
        for work in all {
            let is_overrun = self.gateway.backlog() > backlog_max || !self.unheard.is_empty();
            match work {
                Work::Bytes(..) if self.is_resting() => {}
                Work::Bytes(..) | Work::Gone(_) if is_overrun => self.unheard.push_back(work),
                Work::Bytes(connection, bytes) => self.receive(connection, &bytes, talk),
                Work::Gone(connection) => self.close(connection, &talk.shared),
                Work::Frame(from, frame) => self.links.on_frame(from, frame, talk.known, talk.out),
                Work::Up(peer) => self.links.on_up(peer, talk.known, talk.out),
                Work::Down(peer) => self.links.on_down(peer),
                Work::Cut(peer) => self.links.cut(peer, talk.known, talk.out),
                Work::Order(group, index, order) => self.gateway.on_order(group, index, &order),
                Work::MovePartition(partition, to) => self.gateway.begin_move(partition, to),
            }
            self.on_events(talk);
        }
    }

    fn on_events(&mut self, talk: &mut Talk<'_>) {
        for event in self.links.take_events() {
            self.gateway.received(lent());
            match event {
                Event::Node(node, workers, is_up) => {
                    self.gateway.set_workers_of(node, workers, true);
                    self.gateway.on_link(node, is_up);
                }
                Event::Link(contact, is_up) => {
                    if self.number == 0 {
                        talk.reports.push(Report::Link(contact, is_up));
                    }
                }
                Event::Meta(contact, bytes) => talk.reports.push(Report::Message(contact, bytes)),
                Event::Peer(peer, message) => self.gateway.on_peer(peer, message),
            }
        }
    }

    /// A mailbox batch of another worker.
    pub(crate) fn take(&mut self, from: u16, mut mailbox_batch: MailboxBatch, talk: &mut Talk<'_>) {
        let (clients, listed) = (&mut self.clients, &mut self.listed);
        let mut reaps = false;
        self.gateway
            .receive(from, &mut mailbox_batch, &mut |incoming| match incoming {
                Incoming::Answer {
                    connection,
                    sequence,
                    reply,
                } => {
                    let token = Connection(connection);
                    if let Some(client) = clients.get_mut(&token) {
                        client.pipeline.complete(sequence, reply);
                        listed.insert(token);
                    }
                }
                Incoming::Reap => reaps = true,
                Incoming::Adopt => {
                    unreachable!("connections here are with the worker that is to have them")
                }
            });
        self.gateway.recycle(mailbox_batch);
        self.deliver(talk);
        if reaps {
            self.reap(talk);
        }
    }

    /// What groups that are alone here have applied first is written.
    pub(crate) fn keep_first(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        if self.gateway.close_entries(lent()) {
            disk.keep(&mut self.gateway);
            let may_be_ahead = disk.failed().is_some() || mutations::is(Mutation::ToldBeforeWritten);
            assert!(
                may_be_ahead || !self.gateway.is_ahead(),
                "the disk has promised to acknowledge it"
            );
        }
    }

    /// What follows for replicated groups and other nodes, with what they are to be told.
    pub(crate) fn finish_cluster(&mut self, talk: &mut Talk<'_>) {
        if self.gateway.has_cluster_work() {
            self.gateway.finish_cluster(lent());
        }
        if let Some(disk) = &mut self.disk {
            while (self.gateway.has_disk_tasks() || self.gateway.has_syncs()) && disk.keep(&mut self.gateway)
            {
                self.gateway.finish_cluster(lent());
            }
            if disk.failed().is_some() {
                // Nothing more is said: the process has ended.
                self.gateway.take_peer_messages();
                return;
            }
        }
        for (to, message) in self.gateway.take_peer_messages() {
            self.links.say(to, message);
        }
        self.send_meta(talk.out);
        for (peer, is_moving) in self.links.moving() {
            self.gateway.on_moving(peer, is_moving);
        }
        self.deliver(talk);
    }

    /// What the meta group has for others.
    pub(crate) fn send_meta(&mut self, out: &mut Output) {
        for (contact, bytes) in self.meta_outbox.drain(..) {
            self.links.say_meta(contact, bytes);
        }
        self.links.flush(lent(), out);
    }

    /// Background work, and reports for the meta group.
    pub(crate) fn tend(&mut self, talk: &mut Talk<'_>) {
        let now = lent();
        if now >= self.tend_at {
            self.links.look_after(talk.known, now, talk.out);
            self.tend_at = now.after(TEND);
            self.gateway.cron();
            self.deliver(talk);
            self.finish_clients(talk);
        }
        if let Some(disk) = &mut self.disk {
            disk.tend(&mut self.gateway);
        }
        let news = self.gateway.take_news();
        if news || now >= self.group_reports_at {
            self.group_reports_at = now.after(self.gateway.group_reports_pause());
            let (group_reports, not_led) = self.gateway.group_reports();
            talk.reports.push(Report::GroupReports(group_reports, not_led));
            let notes = self.gateway.partition_notes();
            talk.reports.push(Report::PartitionNotes(self.number, notes));
            let recovery_sources = self.gateway.recovery_sources();
            talk.reports
                .push(Report::RecoverySources(self.number, recovery_sources));
            let given_up = self.gateway.given_up();
            talk.reports.push(Report::GivenUp(self.number, given_up));
        }
        let notices = self.gateway.take_notices().into_iter();
        talk.reports.extend(notices.map(Report::Notice));
    }

    // ---- clients

    /// A client sends bytes.
    fn receive(&mut self, from: Connection, bytes: &[u8], talk: &mut Talk<'_>) {
        if self.ended.contains(&from) {
            return;
        }
        let (number, shared) = (self.number, &talk.shared);
        let slow = &mut self.slow;
        let connection = self.clients.entry(from).or_insert_with(|| {
            slow.extend(SlowReader::of(from).map(|reader| (from, reader)));
            let address = ([127, 0, 0, 1], 1).into();
            let info = ClientInfo::new(shared.clients.next_id(), address, address, number, 0, 0);
            let info = Arc::new(info);
            shared.clients.add(info.clone());
            let endpoint = match from.0 % BY_CLUSTER {
                0 => Endpoint::Cluster,
                _ => Endpoint::AnyNode,
            };
            gateway::Connection::new(Session::new(info, from.0, endpoint, true))
        });
        self.gateway.feed(connection, bytes);
        self.listed.insert(from);
        // Who is not to be told what was read is closed before anything is sent.
        self.deliver(talk);
    }

    /// A client is gone.
    fn close(&mut self, connection: Connection, shared: &Shared) {
        if let Some(mut gone) = self.clients.remove(&connection) {
            self.gateway.forget_connection(connection.0);
            self.gateway.go_on(&mut gone.session);
            self.gateway.stop_listening(&mut gone.session);
            shared.clients.remove(gone.session.info.id);
            self.ended.insert(connection);
        }
        self.listed.remove(&connection);
        self.unread.remove(&connection);
        self.slow.remove(&connection);
    }

    /// Gives connections the answers they waited for.
    pub(crate) fn deliver(&mut self, talk: &mut Talk<'_>) {
        while let Some(delivery) = self.gateway.next_delivery() {
            if let Delivery::Reap = delivery {
                self.reap(talk);
                continue;
            }
            if let Delivery::Message { .. } = delivery {
                continue;
            }
            let Some(token) = delivery.connection().map(Connection) else {
                continue;
            };
            if let Some(connection) = self.clients.get_mut(&token) {
                self.gateway.deliver(connection, delivery);
                self.listed.insert(token);
            }
        }
    }

    /// Closes the connections that the gateway marked.
    fn reap(&mut self, talk: &mut Talk<'_>) {
        let is_killed = |client: &gateway::Connection| client.session.info.is_killed.load(Ordering::Relaxed);
        let clients = self.clients.iter();
        let killed: Vec<Connection> = clients
            .filter(|(_, client)| is_killed(client))
            .map(|(connection, _)| *connection)
            .collect();
        for connection in killed {
            self.close(connection, &talk.shared);
            talk.out.closed.push(connection);
        }
    }

    /// Those that were to be looked at in this turn.
    pub(crate) fn list_unread(&mut self) {
        self.listed.append(&mut self.unread);
        let now = lent();
        let due = self
            .slow
            .iter_mut()
            .filter_map(|(connection, slow)| slow.wakes(now).then_some(*connection));
        self.listed.extend(due);
    }

    /// Lets connections go on that have sent what was not read yet, while commands are applied first.
    pub(crate) fn go_on(&mut self, talk: &mut Talk<'_>) {
        for token in self.unread.iter().copied().collect::<Vec<_>>() {
            let is_resting = self.is_resting();
            let Some(connection) = self.clients.get_mut(&token) else {
                continue;
            };
            let is_held = connection.session.is_waiting() || connection.session.is_paused();
            if connection.has_commands() && !is_held && !is_resting && !connection.pipeline.is_full() {
                self.gateway.resume(connection);
                self.deliver(talk);
            }
        }
    }

    pub(crate) fn finish_clients(&mut self, talk: &mut Talk<'_>) {
        while let Some(token) = self.listed.pop_first() {
            let is_resting = self.is_resting();
            let Some(connection) = self.clients.get_mut(&token) else {
                continue;
            };
            let is_held = connection.session.is_waiting() || connection.session.is_paused();
            let most = talk.shared.hooks.turn_output_bytes;
            let waits = self.slow.get(&token).is_some_and(SlowReader::waits);
            let is_stalled = waits && connection.pipeline.ready_bytes() >= most;
            let may_go_on = !is_held && !is_resting && !is_stalled;
            if connection.has_commands() && may_go_on && !connection.pipeline.is_full() {
                self.gateway.resume(connection);
            }
            // Before anything is sent: what was read may not be to be told.
            self.deliver(talk);
            let Some(connection) = self.clients.get_mut(&token) else {
                continue;
            };
            let mut slow = self.slow.get_mut(&token);
            while connection.pipeline.ready_bytes() > 0 {
                let room = slow.as_ref().map_or(usize::MAX, |slow| slow.room());
                let ready = connection.pipeline.ready();
                let read = ready[..ready.len().min(room)].to_vec();
                if read.is_empty() {
                    break;
                }
                connection.pipeline.sent(read.len());
                if let Some(slow) = &mut slow {
                    slow.read(read.len(), lent());
                }
                talk.out.bytes.push((token, read));
            }
            let ready_bytes = connection.pipeline.ready_bytes();
            let is_stalled = ready_bytes >= most;
            let is_answered = connection.pipeline.is_settled() && !connection.session.is_waiting();
            if connection.session.is_closing && is_answered {
                if ready_bytes == 0 {
                    self.close(token, &talk.shared);
                    talk.out.closed.push(token);
                }
            } else if is_answered && connection.has_commands() && !is_resting && !is_stalled {
                self.unread.insert(token);
            }
        }
    }
}

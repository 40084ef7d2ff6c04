//! A node as production has it: gateway, replicas and the meta group's part, with everything between a client's bytes and
//! the state. What is simulated is what `node` does: loops, links, files, clocks.
//!
//! ```text
//!   starting:  Meta --Create, Join, Boot--> started, and on the map          clients are not let in
//!   serving:   client bytes --> workers <--PeerMessage--> workers of other nodes
//!                                 ^  |
//!                   layouts, orders  group reports
//!                                 |  v
//!                               Meta <--MetaMessage--> meta groups' parts of other nodes
//!                                 |
//!                                 +--> log, identity, hand-over: files of production on a simulated disk
//! ```
//!
//! A process that is told to stop, or whose disk fails, goes through the phases of production: leadership goes elsewhere, what
//! is under way ends, and what is left is written. It may be killed between any two of them, and in the last one.
//!
//! What is absent: secrets, settings of the whole cluster.

mod checks;
mod coded;
mod disk;
mod frame;
mod links;
mod operator;
mod serving;
mod slow_reader;
mod store;
mod synced;
mod worker;

use crate::clock::{Clock, lent};
use crate::node::{Bootstrap, Input, Output};
pub(crate) use checks::{Checks, check_at_rest};
pub use coded::Coded;
pub(crate) use coded::check_coded;
use consensus::{Members, Times};
use control::{
    Announcement, Beginning, Contact, GivenUp, GroupRef, Meta, MetaConfig, MetaMessage, Notice, Pace,
    RecoverySource, RoutingMap, Started,
};
use frame::Who;
pub(crate) use frame::{Body, Frame, describe_piece};
use gateway::{HandoverImage, ReplicaView};
use ids::{
    Boot, ClusterId, DurabilityMode, GroupCount, GroupId, Groups, Incarnation, Monotonic, NodeId,
    PartitionCount, Prng, SemanticsVersion, Token, UnixMillis,
};
use keyspace::GroupCode;
use links::{Event, Known, Links};
use mutations::Mutation;
pub(crate) use operator::{CodingOrder, Order, Whim};
use peer_wire::hello::Secret;
use serving::{Making, Report, Serving, Work};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use storage::{DiskCopy, Identity, ModeChange, ModeStep, PeerBook, SimDisk, StorageError};
use store::{NewLogs, Store};

/// The times of the meta group, as in production.
pub(crate) const META_TIMES: Times = Times {
    tick: Duration::from_millis(20),
    heartbeat: Duration::from_millis(200),
    election_min: Duration::from_millis(1_000),
    election_max: Duration::from_millis(2_000),
    drift_margin: Duration::from_millis(100),
};
/// What a node says of a replica that is given up.
const DIFFERS: &str = "differs from that of most others";

thread_local! {
    static GIVEN_UP: Cell<u64> = const { Cell::new(0) };
}

/// How often nodes said, in all simulations of this thread so far, that a replica differs from the others which does not
/// ([`Mutation::ScrubLies`]). Said without that mistake, it is a failure.
pub fn given_up() -> u64 {
    GIVEN_UP.get()
}

/// Versions of the cluster that are remembered, to come again; at the limit the oldest is forgotten.
const VIEWS_MAX: usize = 8;

/// Partitions of clusters in which groups are added.
const FEW_PARTITIONS: u16 = 32;

/// See the file's header.
pub(crate) struct FullNode {
    machine: usize,
    machines: usize,
    groups: Groups,
    workers: usize,
    /// How many any process has, if they have different numbers.
    most: u8,
    piece_bytes: usize,
    /// How much whoever leads may keep whole, where values may be kept as fragments; and whether they are to be.
    hot_percent: Option<u32>,
    coding: CodingOrder,
    change: ModeChange,
    /// The modes that operators may order.
    modes: &'static [DurabilityMode],
    prng: Prng,
    store: Store,
    meta: Meta,
    stage: Stage,
    map: Option<Arc<RoutingMap>>,
    started: Option<Started>,
    known: Known,
    old_views: VecDeque<Arc<RoutingMap>>,
    /// By worker, what it has of groups that nobody leads.
    recovery_sources: BTreeMap<u16, Vec<RecoverySource>>,
    given_up: BTreeMap<u16, Vec<GivenUp>>,
    wake_at: Option<Monotonic>,
    /// What was last noted of it.
    described: String,
    /// Why the process cannot go on, which must not be.
    refused: Option<String>,
    /// The disk has failed: the meta group's part has ended, and the process is on its way out.
    has_failed: bool,
    /// It was told to stop.
    is_stopping: bool,
    /// It was told that it may go, or is no member any more.
    has_left: bool,
    /// Its start, if that was declared dead.
    fenced: Option<Boot>,
    /// By which its start is counted.
    token: Token,
    /// Who left the replicas that it has from the last stop, and may leave them again.
    left_by: Option<(NodeId, Vec<Token>)>,
    /// The replicas that may lack what they acknowledged.
    unclean: Vec<(GroupId, Incarnation)>,
}

/// What becomes of a process after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    GoesOn,
    /// It has nothing more to do but to leave what it has.
    Ends,
    /// The same, but not everything that was under way has ended.
    EndsLate,
    /// The power went.
    Dies,
    /// What it has to keep could not be written: it says nothing more.
    Exits,
}

/// How a process is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Killed {
    /// With or without its machine, as is drawn.
    Somehow,
    /// The machine runs on.
    Alone,
    /// The power goes.
    ByPower,
}

enum Stage {
    Starting(Vec<HandoverImage>, Box<Links>),
    Serving(Box<Serving>),
}

/// What a process leaves: its disk, and what the checks know of that.
pub(crate) struct Left {
    disk: SimDisk,
    holdings: Vec<Holding>,
}

impl Left {
    /// A disk of which nothing more is known.
    fn of(disk: SimDisk) -> Left {
        Left {
            disk,
            holdings: Vec::new(),
        }
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// A block of what the log of some worker has synced stands in the place of another one, if there is such a place: what was damaged.
    pub(crate) fn misplace(&mut self, prng: &mut Prng) -> Option<String> {
        let damage = store::misplace(&self.disk, prng)?;
        self.holdings.retain(|holding| holding.group == GroupRef::Meta);
        Some(damage)
    }

    /// An older copy of the directory is put in its place. The meta group's part in it would be believed, as operators are told: that stays
    /// as it is.
    pub(crate) fn put_back(&mut self, copy: &DiskCopy, is_image: bool) {
        self.disk.put_back(copy, is_image, &["meta-log"]);
        self.holdings.retain(|holding| holding.group == GroupRef::Meta);
    }

    /// Damages what the log of some worker has synced, if there is such a place: what was damaged. What damage costs that nothing behind it
    /// tells of is no business of floors.
    pub(crate) fn damage(&mut self, prng: &mut Prng) -> Option<String> {
        let damage = store::damage(&self.disk, prng)?;
        // Nothing of the replicas is counted on before they are filled again.
        self.holdings.retain(|holding| holding.group == GroupRef::Meta);
        Some(damage)
    }
}

/// A replica whose memory is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Holding {
    pub(crate) group: GroupRef,
    pub(crate) incarnation: Incarnation,
    /// The members as it knows them; none if nobody else has a part in the group.
    pub(crate) members: Option<Members>,
    /// Whether its log holds a change of these that may be carried out, or may not.
    pub(crate) has_change_ahead: bool,
    /// Of a group that has values which are kept as fragments, by which code, and whether this replica has its rows.
    pub(crate) coded: Option<(GroupCode, bool)>,
}

impl FullNode {
    /// Learns where nodes are.
    fn learn(&mut self, book: &PeerBook) {
        let machines = book
            .peers
            .iter()
            .filter_map(|(node, peer)| Some((machine_of(peer)?, *node)));
        self.known = machines.collect();
    }

    // ---- turns

    fn on_input(&mut self, input: Input, out: &mut Output) {
        if let Input::Order(Order::Stop) = input {
            return self.stop();
        }
        if let Input::Order(Order::Propose(command)) = input {
            self.meta.propose(*command);
            return;
        }
        if let Input::Order(Order::Coding(coding)) = input {
            return self.set_coding(coding);
        }
        match &mut self.stage {
            Stage::Serving(serving) => serve(serving, input),
            Stage::Starting(..) => self.start_on(input, out),
        }
    }

    fn set_coding(&mut self, coding: CodingOrder) {
        if coding.number > self.coding.number {
            self.coding = coding;
            if let Stage::Serving(serving) = &self.stage {
                serving.set_coding(coding.is_on);
            }
        }
    }

    fn stop(&mut self) {
        self.is_stopping = true;
        if let Stage::Serving(serving) = &mut self.stage {
            serving.stop();
        }
    }

    /// What is on disk is not known any more: a node that went on could forget its votes.
    fn fail(&mut self, error: &StorageError, out: &mut Output) {
        out.note(|| format!("the disk fails: {error}"));
        self.has_failed = true;
        self.stop();
    }

    /// What comes to a process that has no workers yet.
    fn start_on(&mut self, input: Input, out: &mut Output) {
        let Stage::Starting(_, links) = &mut self.stage else {
            return;
        };
        match input {
            // There is nobody yet for the others.
            Input::Frame(from, frame) if frame.to == 0 => {
                links.on_frame(from.0 as usize, frame, &self.known, out);
            }
            Input::LinkUp(peer) => links.on_up(peer.0 as usize, &self.known, out),
            Input::LinkDown(peer) => links.on_down(peer.0 as usize),
            Input::Bytes(connection, _) => out.closed.push(connection),
            Input::Frame(..) | Input::Timer | Input::Gone(_) | Input::Order(_) => {}
        }
        let events = links.take_events();
        self.on_events(events);
    }

    fn on_events(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Link(contact, is_up) => self.meta.on_link(contact, is_up, lent()),
                Event::Meta(contact, bytes) => self.on_meta(contact, &bytes),
                Event::Node(..) | Event::Peer(..) => {}
            }
        }
    }

    fn on_meta(&mut self, contact: Contact, bytes: &[u8]) {
        let message = MetaMessage::decode(bytes).expect("a node wrote it");
        self.meta.on_message(contact, message, lent());
    }

    /// What the workers have for the meta group's part.
    fn on_report(&mut self, report: Report) {
        match report {
            Report::Link(contact, is_up) => self.meta.on_link(contact, is_up, lent()),
            Report::Message(contact, bytes) => self.on_meta(contact, &bytes),
            Report::GroupReports(group_reports, not_led) => {
                self.meta.on_lead_lost(&not_led);
                self.meta.on_group_reports(group_reports, lent());
            }
            Report::RecoverySources(worker, recovery_sources) => {
                self.recovery_sources.insert(worker, recovery_sources);
                let all = self.recovery_sources.values().flatten().cloned();
                self.meta.on_recovery_sources(all.collect());
            }
            Report::GivenUp(worker, given_up) => {
                self.given_up.insert(worker, given_up);
                let all = self.given_up.values().flatten().copied();
                self.meta.on_given_up(all.collect());
            }
            Report::Notice(notice) if mutations::is(Mutation::ScrubLies) && notice.contains(DIFFERS) => {
                GIVEN_UP.set(GIVEN_UP.get() + 1);
            }
            Report::Notice(notice) => {
                // Only what was lost with a group may tear a transaction.
                let map = self.map.as_ref();
                let is_any_anew = map.is_some_and(|map| map.groups.iter().any(|group| group.generation > 0));
                if !(is_any_anew && notice.contains("is torn")) {
                    self.refused.get_or_insert(notice);
                }
            }
        }
    }

    /// States that were kept are read one after the other, while the node serves already.
    fn read_states(&mut self, out: &mut Output) {
        let Stage::Serving(serving) = &mut self.stage else {
            return;
        };
        let now = lent();
        let over: Vec<_> = serving.reading.extract_if(.., |(at, _)| *at <= now).collect();
        for (_, group) in over {
            let Some(keyspace) = self.store.read_state(group) else {
                return self.fail_to_read(group, out);
            };
            let worker = serving.worker_with(group);
            worker.gateway.on_kept_state(group, keyspace);
            if let Some(disk) = &mut worker.disk {
                disk.on_state_read(group);
            }
        }
    }

    /// As in production: the next start does without.
    fn fail_to_read(&mut self, group: GroupId, out: &mut Output) {
        let error = StorageError::Failed {
            file: format!("the snapshot of group {}", group.number()),
        };
        drop(storage::set_failed(self.store.disk()));
        self.fail(&error, out);
    }

    fn run(&mut self, wall: UnixMillis, out: &mut Output) {
        self.read_states(out);
        if let Stage::Serving(serving) = &mut self.stage {
            let newest = self.map.as_ref().map(|map| map.epoch);
            for report in serving.run(wall, &self.known, newest, out) {
                self.on_report(report);
            }
        }
        self.run_meta(out);
        self.follow_durability(out);
        self.begin_serving(wall, out);
        self.wake_at = self.next_wake(lent());
        if out.notes.is_some() {
            let line = self.describe();
            if line != self.described {
                out.note(|| line.clone());
                self.described = line;
            }
        }
    }

    /// What production does on the meta group's thread.
    fn run_meta(&mut self, out: &mut Output) {
        let now = lent();
        if !self.has_failed {
            self.meta.tick(now);
        }
        while !self.has_failed {
            let effects = self.meta.take_effects(now);
            let is_over = effects == control::MetaEffects::default();
            let mut written = None;
            for persist in effects.persist {
                if let Err(error) = self.store.write(persist.record) {
                    return self.fail(&error, out);
                }
                written = Some(persist.number);
            }
            if let Some(number) = written {
                self.meta.on_persisted(number, now);
            }
            for (contact, message) in effects.messages {
                match &mut self.stage {
                    Stage::Serving(serving) => {
                        serving.workers[0].meta_outbox.push((contact, message.encode()));
                    }
                    Stage::Starting(_, links) => links.say_meta(contact, message.encode()),
                }
            }
            if let Some(map) = effects.map {
                self.show(map, now);
            }
            self.started = effects.started.or(self.started.take());
            if let Stage::Serving(serving) = &mut self.stage {
                for instruction in effects.orders {
                    if let GroupRef::Data(group) = instruction.group {
                        serving.worker_with(group).orders.push(instruction);
                    }
                }
            }
            for notice in effects.notices {
                out.note(|| format!("{notice:?}"));
                if matches!(notice, Notice::Left | Notice::Removed) {
                    // Whether an operator wanted it the world knows.
                    self.has_left = true;
                    self.stop();
                    continue;
                }
                // No node is out of reach for so long that another takes its place by itself.
                if notice == Notice::Fenced
                    && let Some(started) = &self.started
                {
                    self.fenced = Some(started.boot);
                    self.stop();
                    continue;
                }
                let is_over = matches!(notice, Notice::Fenced | Notice::Superseded { .. });
                if is_over || matches!(notice, Notice::StartRefused { .. } | Notice::LogRefused) {
                    self.refused.get_or_insert(format!("{notice:?}"));
                }
            }
            if is_over {
                break;
            }
        }
        match &mut self.stage {
            Stage::Starting(_, links) => links.flush(now, out),
            Stage::Serving(serving) => {
                let first = &mut serving.workers[0];
                if first.stalled_until <= now {
                    first.send_meta(out);
                }
            }
        }
    }

    /// What production does of another durability, on the meta group's thread.
    fn follow_durability(&mut self, out: &mut Output) {
        let (Stage::Serving(serving), Some(map)) = (&mut self.stage, &self.map) else {
            return;
        };
        let shown = self.change.shown();
        if self.change.is_under_way() && serving.have_followed(self.change.number()) {
            match self.store.carry_out(self.change.after()) {
                Ok(()) => self.change.end(),
                Err(StorageError::Full { .. }) => {}
                Err(error) => return self.fail(&error, out),
            }
            out.note(|| format!("keeps all as {}", shown.name()));
        }
        let (map, wanted) = (map.clone(), map.durability);
        // As in production: one after the other, but for what is taken back.
        let is_taken_back = self.change.is_under_way();
        if !is_taken_back && !serving.have_followed(self.change.number()) {
            return;
        }
        let Some(step) = self.change.before(wanted) else {
            return;
        };
        let done = match step {
            ModeStep::Open(mode) => self.open_logs(mode, &map),
            ModeStep::Nothing | ModeStep::Mark(_) | ModeStep::Remove => self.store.carry_out(step),
        };
        match done {
            Ok(()) => {
                self.change.show(wanted, step);
                out.note(|| format!("durability becomes {}", wanted.name()));
                self.show(map, lent());
            }
            // It is tried again.
            Err(StorageError::Full { .. }) => {}
            Err(error) => self.fail(&error, out),
        }
    }

    /// Opens the log of each worker, which takes it when it follows.
    fn open_logs(&mut self, mode: DurabilityMode, map: &RoutingMap) -> Result<(), StorageError> {
        let Stage::Serving(serving) = &mut self.stage else {
            unreachable!("it serves");
        };
        let disks = self.store.begin_logs(NewLogs {
            mode,
            cluster: map.cluster.expect("a cluster has a name"),
            node: serving.node,
            token: self.token,
            workers: self.workers,
            groups: self.groups,
            kept: Vec::new(),
            keeps_earlier: false,
            unread: Vec::new(),
            prng: &mut self.prng,
        })?;
        for (worker, disk) in serving.workers.iter_mut().zip(disks) {
            worker.next_disk = Some((self.change.number() + 1, disk));
        }
        Ok(())
    }

    /// Shows a map to the workers, a little later, and now and then an old one once more: it must not be taken for news.
    fn show(&mut self, map: Arc<RoutingMap>, now: Monotonic) {
        self.map = Some(map.clone());
        let shown = (self.change.shown(), self.change.number());
        let Stage::Serving(serving) = &mut self.stage else {
            return;
        };
        let book = serving.learn(&map);
        for worker in &mut serving.workers {
            let last = worker.views.back().map_or(now, |(at, ..)| (*at).max(now));
            let late = match self.prng.below(8) {
                0 => last.after(Duration::from_millis(self.prng.below(50))),
                _ => last,
            };
            worker.views.push_back((late, map.clone(), shown));
            if self.prng.below(8) == 0 && !self.old_views.is_empty() {
                let which = self.prng.below(self.old_views.len() as u64) as usize;
                let at = late.after(Duration::from_millis(self.prng.below(100)));
                // One of this version that says another mode would be news.
                if self.old_views[which].epoch < map.epoch {
                    worker.views.push_back((at, self.old_views[which].clone(), shown));
                }
            }
        }
        self.store.write_book(book.clone());
        self.learn(&book);
        if self.old_views.len() == VIEWS_MAX {
            self.old_views.pop_front();
        }
        self.old_views.push_back(map);
    }

    /// Lets clients in, once the cluster has counted this start.
    fn begin_serving(&mut self, wall: UnixMillis, out: &mut Output) {
        let (Stage::Starting(kept, links), Some(started), Some(map)) =
            (&mut self.stage, &self.started, &self.map)
        else {
            return;
        };
        let site = map.nodes.get(&started.node);
        if site.is_none_or(|site| site.boot != started.boot) {
            // A map from before says what this node had then, not what it has now.
            return;
        }
        if self.is_stopping {
            return;
        }
        // Others may have been added while this one was away.
        self.groups = map.key_groups().expect("a cluster has groups");
        let mut kept = std::mem::take(kept);
        // What may lack the end is set aside, if the map asks for it.
        let unclean = &self.unclean;
        let is_unclean = |kept: &HandoverImage| unclean.contains(&(kept.group, kept.incarnation));
        let is_former = |kept: &HandoverImage| {
            let route = map.groups.get(kept.group.index());
            route.is_some_and(|route| route.former.contains(&started.node))
        };
        kept.retain(|kept| is_confirmed(started, kept) || is_unclean(kept) || is_former(kept));
        let identity = Identity {
            cluster: map.cluster.expect("a cluster has a name"),
            node: started.node,
            groups: self.groups.founded(),
            secret: Secret(None),
        };
        if let Err(error) = self.store.write_identity(&identity) {
            return self.fail(&error, out);
        }
        // Links of a start are not those of a member.
        links.end(out);
        let events = links.take_events();
        let is_handed_over = kept.iter().any(|kept| kept.generation.is_none());
        let found = (!kept.is_empty()).then_some(self.change.shown());
        let mode = ModeChange::of_start(map.durability, is_handed_over, found);
        self.change = ModeChange::new(mode);
        // States are read before the workers begin if what is on disk goes then; else some of them are, and some meanwhile.
        let mut reading = Vec::new();
        for kept in kept.iter_mut().filter(|kept| kept.keyspace.is_none()) {
            if mode.writes() && self.prng.below(3) > 0 {
                let longest = [20, 500, 8_000][self.prng.below(3) as usize];
                let takes = Duration::from_millis(self.prng.below(longest));
                reading.push((lent().after(takes), kept.group));
                continue;
            }
            let Some(keyspace) = self.store.read_state(kept.group) else {
                return self.fail_to_read(kept.group, out);
            };
            kept.keyspace = Some(keyspace);
        }
        let disks = match mode.writes() {
            false => match self.store.keep_nothing() {
                Ok(()) => Vec::new(),
                Err(error) => return self.fail(&error, out),
            },
            true => {
                let confirmed = kept.iter().filter(|kept| is_confirmed(started, kept));
                let goes_on: Vec<GroupId> = confirmed.map(|kept| kept.group).collect();
                let lost = kept.len() > goes_on.len();
                let begun = self.store.begin_logs(NewLogs {
                    mode,
                    cluster: identity.cluster,
                    node: started.node,
                    token: self.token,
                    workers: self.workers,
                    groups: self.groups,
                    kept: goes_on,
                    keeps_earlier: lost,
                    unread: reading.iter().map(|(_, group)| *group).collect(),
                    prng: &mut self.prng,
                });
                match begun {
                    Ok(disks) => disks,
                    Err(error) => return self.fail(&error, out),
                }
            }
        };
        let mut serving = Serving::new(Making {
            node: started.node,
            boot: started.boot,
            machine: self.machine,
            machines: self.machines,
            groups: self.groups,
            workers: self.workers,
            most: self.most,
            piece_bytes: self.piece_bytes,
            coding: self.hot_percent.map(|percent| (self.coding.is_on, percent)),
            prng: &mut self.prng,
        });
        for (worker, disk) in serving.workers.iter_mut().zip(disks) {
            worker.disk = Some(disk);
        }
        serving.keep(kept);
        serving.reading = reading;
        out.note(|| format!("serves as node {}, boot {}", started.node.0, started.boot.0));
        let map = map.clone();
        let book = serving.learn(&map);
        self.on_events(events);
        self.store.write_book(book.clone());
        self.learn(&book);
        serving.begin((&map, (mode, 0)), wall, &self.known, out);
        self.stage = Stage::Serving(Box::new(serving));
        self.old_views.push_back(map);
    }

    fn next_wake(&self, now: Monotonic) -> Option<Monotonic> {
        let due = match &self.stage {
            Stage::Serving(serving) => Some(serving.next_wake(now)),
            Stage::Starting(_, links) => links.next_due(),
        };
        self.meta.next_timer().into_iter().chain(due).min()
    }

    // ---- what the checks look at

    fn serving(&self) -> Option<&Serving> {
        match &self.stage {
            Stage::Serving(serving) => Some(serving),
            Stage::Starting(..) => None,
        }
    }

    /// The replicas of all workers.
    fn replica_views(&self) -> impl Iterator<Item = ReplicaView<'_>> {
        let workers = self.serving().into_iter().flat_map(|serving| &serving.workers);
        workers.flat_map(|worker| worker.gateway.replica_views())
    }

    /// The replicas whose memory this process has, and will leave if it ends in good order.
    fn holdings(&self) -> Vec<Holding> {
        let mut all: Vec<Holding> = match &self.stage {
            _ if self.store.disk().is_full() && !self.change.keeps_all() => Vec::new(),
            // Those that may lack what they acknowledged are to come back as others.
            Stage::Starting(kept, _) => {
                let is_unclean =
                    |kept: &&HandoverImage| self.unclean.contains(&(kept.group, kept.incarnation));
                let is_whole = |kept: &&HandoverImage| {
                    let rest = kept.rest.as_ref();
                    rest.is_none_or(|(_, saved)| saved.floor.is_none())
                };
                kept.iter()
                    .filter(|kept| !is_unclean(kept))
                    .filter(is_whole)
                    .map(holding)
                    .collect()
            }
            Stage::Serving(_) => {
                // Who lacks what it acknowledged is not counted on before others have filled it.
                let is_whole = |replica_view: &ReplicaView<'_>| {
                    let member = replica_view.member();
                    member.is_none_or(|member| !member.raft().is_below_floor())
                };
                let views = self.replica_views().filter(is_whole);
                let holdings = views.map(|replica_view| Holding {
                    group: GroupRef::Data(replica_view.group),
                    incarnation: replica_view.incarnation,
                    members: replica_view.members().cloned(),
                    has_change_ahead: replica_view
                        .member()
                        .is_some_and(|member| member.raft().has_change_ahead()),
                    coded: coded::code_in_use(replica_view.keyspace())
                        .map(|code| (code, replica_view.coding_counts().groups_filling == 0)),
                });
                holdings.collect()
            }
        };
        all.extend(self.meta_holding());
        all
    }

    fn meta_holding(&self) -> Option<Holding> {
        if self.has_failed {
            return None;
        }
        // Not as the state has them: while they change, those who go are needed too.
        let (incarnation, members) = self.meta.replica()?;
        let is_member = members.all().contains(&incarnation);
        is_member.then(|| Holding {
            group: GroupRef::Meta,
            incarnation,
            members: Some(members.clone()),
            has_change_ahead: self.meta.has_change_ahead() || self.has_voter_to_let_go(),
            coded: None,
        })
    }

    /// Whether a voter of the meta group is to leave it, as far as is known here. It leaves although others have died of whom the
    /// leader has not heard yet.
    fn has_voter_to_let_go(&self) -> bool {
        let meta = self.meta.state().map(|state| &state.groups()[&GroupRef::Meta]);
        meta.is_some_and(|meta| meta.voters().any(|voter| !meta.targets.contains(&voter.node)))
    }
}

fn holding(kept: &HandoverImage) -> Holding {
    Holding {
        group: GroupRef::Data(kept.group),
        incarnation: kept.incarnation,
        members: kept.rest.as_ref().map(|(point, _)| point.members.clone()),
        has_change_ahead: false,
        coded: kept
            .keyspace
            .as_ref()
            .and_then(coded::code_in_use)
            .map(|code| (code, true)),
    }
}

/// What comes to a process that has workers.
fn serve(serving: &mut Serving, input: Input) {
    let mut to_all = |work: fn(usize) -> Work, peer: NodeId| {
        for worker in &mut serving.workers {
            worker.inbox.push_back(work(peer.0 as usize));
        }
    };
    match input {
        Input::Timer | Input::Order(Order::Stop | Order::Propose(_) | Order::Coding(_)) => {}
        Input::LinkUp(peer) => to_all(Work::Up, peer),
        Input::LinkDown(peer) => to_all(Work::Down, peer),
        Input::Frame(from, frame) => {
            // Whoever begins a stream may not know yet how many there are.
            let is_first = matches!(frame.body, Body::Hello { .. });
            let to = match usize::from(frame.to) {
                to if is_first => to % serving.workers.len(),
                to => to,
            };
            if let Some(worker) = serving.workers.get_mut(to) {
                worker.inbox.push_back(Work::Frame(from.0 as usize, frame));
            }
        }
        Input::Bytes(connection, bytes) => {
            let work = Work::Bytes(connection, bytes);
            serving.worker_of(connection).inbox.push_back(work);
        }
        Input::Gone(connection) => {
            let work = Work::Gone(connection);
            serving.worker_of(connection).inbox.push_back(work);
        }
        Input::Order(Order::Cut(number, machine)) => {
            if let Some(worker) = serving.workers.get_mut(number) {
                worker.inbox.push_back(Work::Cut(machine));
            }
        }
        Input::Order(Order::MovePartition(group, partition, to)) => {
            let work = Work::MovePartition(partition, to);
            serving.worker_with(group).inbox.push_back(work);
        }
        Input::Order(Order::Transfer(group, index, to)) => {
            let work = Work::Order(group, index, control::Order::Transfer { to });
            serving.worker_with(group).inbox.push_back(work);
        }
    }
}

/// Whether the cluster counts on what was kept.
fn is_confirmed(started: &Started, kept: &HandoverImage) -> bool {
    started.replicas.iter().any(|replica| {
        let is_same = match replica.beginning {
            Beginning::Kept => replica.incarnation == kept.incarnation,
            Beginning::Recovered { of } => of == kept.incarnation,
            Beginning::Learner | Beginning::BootstrapReplica => false,
        };
        is_same && replica.group == GroupRef::Data(kept.group)
    })
}

fn announcement(machine: usize, zone: &str, semantics_max: SemanticsVersion) -> Announcement {
    let at = |port: u16| format!("10.0.0.{}:{port}", machine + 1);
    Announcement {
        client: at(6379),
        cluster: at(7379),
        peer: at(8379),
        zone: zone.to_owned(),
        name: String::new(),
        weight_percent: control::WEIGHT_PERCENT,
        semantics_min: SemanticsVersion::OLDEST,
        semantics_max,
    }
}

/// A replica, for the trace of a failure.
fn describe(replica_view: &ReplicaView<'_>) -> String {
    let (group, me) = (replica_view.group.number(), replica_view.incarnation.0);
    let Some(member) = replica_view.member() else {
        return format!("{me} is all of group {group}");
    };
    let list = |all: &[Incarnation]| {
        let all: Vec<String> = all.iter().map(|one| one.0.to_string()).collect();
        all.join(",")
    };
    let members = member.members();
    let learners = match members.learners.as_slice() {
        [] => String::new(),
        learners => format!("+{}", list(learners)),
    };
    let outgoing = match members.outgoing.as_slice() {
        [] => String::new(),
        outgoing => format!(" from {}", list(outgoing)),
    };
    let part = if member.leads() { "leads" } else { "in" };
    let code = match replica_view.keyspace().code() {
        Some(code) => format!(" {}", coded::describe(code, replica_view)),
        None => String::new(),
    };
    format!(
        "{me} {part} group {group} of {}{learners}{outgoing}{code}",
        list(&members.voters)
    )
}

/// The machine of an address.
fn machine_of(peer: &str) -> Option<usize> {
    let (host, _) = peer.rsplit_once(':')?;
    let number: usize = host.rsplit_once('.')?.1.parse().ok()?;
    number.checked_sub(1)
}

/// What a map says of where the others are.
fn book(map: &RoutingMap, me: NodeId) -> PeerBook {
    let others = map.nodes.iter().filter(|(node, _)| **node != me);
    PeerBook {
        peers: others.map(|(&node, site)| (node, site.peer.clone())).collect(),
    }
}

impl FullNode {
    /// A process starts, or does not because of its disk.
    pub(crate) fn start(
        bootstrap: Bootstrap<'_>,
        clock: &mut Clock<'_>,
        out: &mut Output,
    ) -> Result<FullNode, Left> {
        let machine = bootstrap.me.0 as usize;
        let mut prng = Prng::new(bootstrap.seed);
        let disk = bootstrap
            .left
            .map_or_else(|| SimDisk::new(prng.next_u64()), |left| left.disk);
        let token = Token(u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64()));
        let (store, found) = match Store::open(disk.clone(), token) {
            Ok(opened) => opened,
            Err(error) => {
                out.note(|| format!("does not start: {error}"));
                if !disk.has_power() {
                    disk.restart();
                }
                return Err(Left::of(disk));
            }
        };
        for note in &found.notes {
            out.note(|| note.clone());
        }
        let count = GroupCount::new(bootstrap.shape.groups).expect("a cluster has groups");
        // That a partition moves is the same however many there are, and with fewer there is an end to it before long.
        let few = PartitionCount::new(FEW_PARTITIONS).filter(|_| bootstrap.shape.splits);
        let groups = few.and_then(|few| Groups::new(count, few));
        let groups = groups.unwrap_or_else(|| Groups::with_default_partitions(count));
        let now = clock.read();
        let zone = match bootstrap.shape.has_late_zones && found.identity.is_none() {
            true => "",
            false => bootstrap.shape.zone(machine),
        };
        let rules = bootstrap.shape.rules_on(machine, bootstrap.is_first);
        let config = MetaConfig {
            node: found.identity.as_ref().map(|identity| identity.node),
            announcement: announcement(machine, zone, rules),
            token,
            times: META_TIMES,
            // A storm is shorter than the time for which nodes are waited for otherwise.
            pace: Pace {
                miss_after: Duration::from_secs(3),
                raise_after: Duration::from_secs(1),
                splits: bootstrap.shape.splits,
                ..Pace::default()
            },
            seed: prng.next_u64(),
        };
        let is_unclean = |kept: &&HandoverImage| found.unclean.contains(&(kept.group, kept.incarnation));
        let memories = found.kept.iter().filter(|kept| !is_unclean(kept));
        let memories = memories.map(|kept| (GroupRef::Data(kept.group), kept.incarnation));
        let unclean = found.unclean.iter();
        let unclean = unclean.map(|(group, incarnation)| (GroupRef::Data(*group), *incarnation));
        let meta = match &found.identity {
            Some(_) => {
                let (restored, left_by) = (found.restored, found.left_by.clone());
                Meta::restore(
                    config,
                    restored,
                    found.peers,
                    left_by,
                    memories.collect(),
                    unclean.collect(),
                    now,
                )
            }
            None if bootstrap.founds => Meta::create(
                config,
                ClusterId(u128::from(prng.next_u64())),
                groups,
                checks::factor(bootstrap.shape),
                bootstrap.shape.mode(),
                rules,
                now,
            ),
            None => Meta::join(config, now),
        };
        let book = store.book().clone();
        let who = match &found.identity {
            Some(identity) => Who::Starting(identity.node),
            None => Who::Joining,
        };
        let mut left_by = found.left_by;
        left_by.push(token);
        let left_by = found.identity.as_ref().map(|identity| (identity.node, left_by));
        let machines = bootstrap.shape.nodes;
        let workers = bootstrap.shape.workers_on(machine, &mut prng);
        let most = bootstrap.shape.unlike.iter().max().copied().unwrap_or(0) as u8;
        let links = Links::new(
            (0, workers as u8, most),
            groups,
            who,
            machine,
            machines,
            &mut prng,
        );
        let mut node = FullNode {
            machine,
            machines,
            groups,
            workers,
            most,
            piece_bytes: bootstrap.piece_bytes,
            hot_percent: bootstrap.shape.coding,
            coding: bootstrap.coding,
            change: ModeChange::new(found.mode),
            modes: bootstrap.shape.modes(),
            prng,
            store,
            meta,
            stage: Stage::Starting(found.kept, Box::new(links)),
            map: None,
            started: None,
            known: Known::new(),
            old_views: VecDeque::new(),
            recovery_sources: BTreeMap::new(),
            given_up: BTreeMap::new(),
            wake_at: None,
            described: String::new(),
            refused: None,
            has_failed: false,
            is_stopping: false,
            has_left: false,
            fenced: None,
            token,
            left_by,
            unclean: found.unclean,
        };
        node.learn(&book);
        let wall = clock.wall();
        clock.lend(|| {
            if let Stage::Starting(_, links) = &mut node.stage {
                links.dial(&node.known, out);
            }
            node.run(wall, out);
        });
        Ok(node)
    }

    /// One turn: everything that came since the last one, in order. Never nothing.
    pub(crate) fn handle(&mut self, inputs: Vec<Input>, clock: &mut Clock<'_>, out: &mut Output) {
        let wall = clock.wall();
        clock.lend(|| {
            for input in inputs {
                self.on_input(input, out);
            }
            self.run(wall, out);
        });
    }

    /// Whether its disk has failed, so that its part of the meta group is gone before the process is.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed || self.serving().is_some_and(Serving::is_failing)
    }

    /// Which node it is, if it was told that it may go, or is no member any more.
    pub(crate) fn left(&self) -> Option<NodeId> {
        self.meta.node().filter(|_| self.has_left)
    }

    /// Its start, once it has heard that it is a member.
    pub(crate) fn boot(&self) -> Option<Boot> {
        self.started.as_ref().map(|started| started.boot)
    }

    /// Its start, if that was declared dead.
    pub(crate) fn fenced(&self) -> Option<Boot> {
        self.fenced
    }

    /// Whether clients can connect to it.
    pub(crate) fn is_serving(&self) -> bool {
        self.serving().is_some()
    }

    /// When it wants to be told the time, by its own clock.
    pub(crate) fn next_timer(&self) -> Option<Monotonic> {
        self.wake_at
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        self.store.disk()
    }

    /// What becomes of it after a step.
    pub(crate) fn fate(&self, now: Monotonic) -> Fate {
        match &self.stage {
            _ if !self.store.disk().has_power() => Fate::Dies,
            Stage::Serving(serving) if serving.has_failed_disk() => Fate::Exits,
            Stage::Starting(..) if self.is_stopping => Fate::Ends,
            Stage::Serving(serving) if serving.has_ended() => Fate::Ends,
            Stage::Serving(serving) if serving.is_overdue(now) => Fate::EndsLate,
            Stage::Starting(..) | Stage::Serving(_) => Fate::GoesOn,
        }
    }

    /// It ends in good order, so that its next process has its memory, as far as the disk takes it.
    pub(crate) fn hand_over(mut self, clock: &mut Clock<'_>) -> Left {
        let meta = self.meta_holding();
        let is_serving = matches!(self.stage, Stage::Serving(_));
        if self.change.keeps_all() {
            return self.end_durably(clock);
        }
        let is_marked = !is_serving || self.store.keep_nothing().is_ok();
        let (by, kept) = match self.stage {
            Stage::Serving(serving) => {
                let by = (serving.node, vec![self.token]);
                (Some(by), clock.lend(|| serving.leave()))
            }
            // Nothing was said in the name of these replicas: the next start may have them as this one did.
            Stage::Starting(kept, _) => (self.left_by.filter(|_| !kept.is_empty()), kept),
        };
        let mut holdings: Vec<Holding> = kept.iter().map(holding).collect();
        let is_left =
            is_marked && by.is_some_and(|(node, left_by)| self.store.leave(node, &left_by, kept).is_ok());
        holdings.retain(|_| is_left);
        holdings.extend(meta);
        let disk = self.store.into_disk();
        if !disk.has_power() {
            disk.restart();
        }
        Left { disk, holdings }
    }

    /// The same, where what it has is on its disk already.
    fn end_durably(self, clock: &mut Clock<'_>) -> Left {
        let (all, meta) = (self.holdings(), self.meta_holding());
        // One that has not begun has written nothing: the next start finds what this one did.
        if let Stage::Serving(mut serving) = self.stage
            && clock.lend(|| serving.finish_disks()).is_ok()
        {
            // Without it the next start takes this one for killed.
            drop(self.store.set_clean());
        }
        let guaranteed = self.change.guaranteed();
        let disk = self.store.into_disk();
        let keeps_all = disk.has_power() || guaranteed == DurabilityMode::Strict;
        if !disk.has_power() {
            disk.restart();
        }
        let holdings = match keeps_all {
            true => all,
            false => meta.into_iter().collect(),
        };
        Left { disk, holdings }
    }

    /// What it has to keep could not be written: the next start takes part as one that may have lost something.
    pub(crate) fn exited(self) -> Left {
        let holdings = self.meta_holding().into_iter().collect();
        drop(storage::set_failed(self.store.disk()));
        let disk = self.store.into_disk();
        if !disk.has_power() {
            disk.restart();
        }
        Left { disk, holdings }
    }

    /// In which mode all is kept that this process has acknowledged.
    pub(crate) fn guaranteed(&self) -> DurabilityMode {
        self.change.guaranteed()
    }

    /// It is killed: what is on its disk.
    pub(crate) fn killed(mut self, how: Killed) -> Option<Left> {
        let keeps_power = match how {
            Killed::Somehow => self.prng.below(2) == 0,
            Killed::Alone => true,
            Killed::ByPower => false,
        };
        let keeps_power = keeps_power && self.store.disk().has_power();
        let keeps_all = match self.guaranteed() {
            DurabilityMode::Memory => false,
            DurabilityMode::Relaxed => keeps_power,
            DurabilityMode::Strict => true,
        };
        let holdings = match keeps_all {
            true => self.holdings(),
            false => self.meta_holding().into_iter().collect(),
        };
        let disk = self.store.into_disk();
        if !keeps_power {
            disk.restart();
        }
        Some(Left { disk, holdings })
    }

    /// Whether nothing that was acknowledged is lost, and every group can go on, if only these are left: running ones,
    /// and what ended ones have left. Those that are gone come back with nothing, or never if `is_for_ever` says so.
    pub(crate) fn survives(
        running: &[Option<&FullNode>],
        left: &[Option<&Left>],
        is_for_ever: bool,
        checks: &Checks,
    ) -> bool {
        let running = running.iter().flatten().flat_map(|node| node.holdings());
        let left = left.iter().flatten().flat_map(|left| left.holdings.clone());
        checks.survives(&running.chain(left).collect::<Vec<_>>(), is_for_ever)
    }

    /// One line about it, for the trace of a failure.
    pub(crate) fn describe(&self) -> String {
        match &self.stage {
            Stage::Starting(kept, _) => format!("starting, with {} replicas", kept.len()),
            Stage::Serving(serving) => {
                let groups: Vec<String> = self
                    .replica_views()
                    .map(|replica_view| describe(&replica_view))
                    .collect();
                let (node, boot) = (serving.node.0, serving.boot.0);
                format!("node {node}, boot {boot}: {}", groups.join("; "))
            }
        }
    }
}

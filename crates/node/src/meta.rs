//! This node's part in the meta group, on a thread of its own: what it writes is synced before it goes on, and nobody else
//! waits for that.
//!
//! ```text
//!   first worker's links --Input--> this thread --Outbox--> first worker's links
//!                                      |
//!                                      +--> meta log on disk
//!                                      +--> View: layout, orders --> all workers
//! ```

use crate::brought_setting::BroughtSetting;
use crate::clock;
use crate::keeping::Keeping;
use crate::mailboxes::Mailboxes;
use crate::status::Ledger;
use crate::view::{self, Seen, View};
use bytes::Bytes;
use consensus::Times;
use control::{
    Contact, Failure, GivenUp, GroupRef, GroupReport, Lack, Meta, MetaCommand, MetaMessage, MetaOutcome,
    MetaRefusal, NodeMemory, Notice, Outage, Record, RecoverySource, Restored, RoutingMap, Setting, Started,
    State,
};
use gateway::{Layout, Shared, Wish};
use ids::{Monotonic, SemanticsVersion};
use options::MaxmemoryPolicy;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storage::{DirectoryDisk, MetaLog, MetaState, PeerBook, Snapshot, StorageError};
use transport::Remote;

/// The times of the meta group: longer than those of keys, because its log waits for disks, and nothing that clients do
/// waits for it.
pub(crate) const TIMES: Times = Times {
    tick: Duration::from_millis(20),
    heartbeat: Duration::from_millis(200),
    election_min: Duration::from_millis(1_000),
    election_max: Duration::from_millis(2_000),
    drift_margin: Duration::from_millis(100),
};

/// What the thread is told.
pub(crate) enum Input {
    /// A message about the cluster's own state.
    Message(Remote, Bytes),
    /// A link of the first worker came up, or broke.
    Link(Remote, bool),
    /// What leaders here know of their groups, and which other groups this one's workers do not lead.
    GroupReports(Vec<GroupReport>, Vec<GroupRef>),
    /// What a worker has of groups that nobody leads.
    RecoverySources(u16, Vec<RecoverySource>),
    /// Replicas that a worker has given up, or of which its leaders say that they are to be.
    GivenUp(u16, Vec<GivenUp>),
    /// An operator wants these to be carried out, one after the other.
    Orders(Vec<MetaCommand>, Sender<Results>),
    /// An operator wants to see the state of the meta group; none if this node has no replica of it.
    Look(Sender<Option<Box<State>>>),
    /// A worker wants something to be set for the whole cluster.
    Wish(u16, Wish),
    /// The node stops.
    Stop,
}

/// What became of an operator's orders, in order.
pub(crate) type Results = Vec<Result<MetaOutcome, Failure>>;

/// Orders of operators that are not carried out yet. At the limit the next are refused as a whole.
const ORDERS_MAX: usize = 4;

/// Orders of one operator, one of which is under way.
struct Orders {
    left: VecDeque<MetaCommand>,
    under_way: Option<u64>,
    results: Results,
    reply: Sender<Results>,
}

impl Orders {
    /// Adds those of one more operator. Of what is too much nothing is done, and that is said.
    fn add(all: &mut VecDeque<Orders>, commands: Vec<MetaCommand>, reply: Sender<Results>) {
        if all.len() >= ORDERS_MAX {
            let refused = commands.iter().map(|_| Err(Failure::NotDone)).collect();
            // Whoever asked may have given up waiting.
            drop(reply.send(refused));
            return;
        }
        all.push_back(Orders {
            left: commands.into(),
            under_way: None,
            results: Vec::new(),
            reply,
        });
    }
}

/// Messages on their way to the first worker, whose links carry them.
#[derive(Default)]
pub(crate) struct Outbox {
    messages: Mutex<Vec<(Remote, Bytes)>>,
}

impl Outbox {
    /// Messages that wait for the first worker's next turn. At the limit the newest are dropped: all of them may be lost.
    const MESSAGES_MAX: usize = 4_096;

    fn put(&self, messages: impl IntoIterator<Item = (Remote, Bytes)>) {
        let mut held = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let room = Outbox::MESSAGES_MAX.saturating_sub(held.len());
        held.extend(messages.into_iter().take(room));
    }

    pub(crate) fn take(&self) -> Vec<(Remote, Bytes)> {
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The meta group's part with its log.
pub(crate) struct Driver {
    meta: Meta,
    disk: DirectoryDisk,
    log: Option<MetaLog<DirectoryDisk>>,
    /// What is set for the whole cluster, as last heard.
    settings: Option<Arc<BTreeMap<String, Setting>>>,
    wishes: Wishes,
    /// The proposals of what this start brings, by their numbers.
    bringing: BTreeMap<u64, &'static str>,
    orders: VecDeque<Orders>,
    /// By worker, what it has of groups that nobody leads.
    recovery_sources: BTreeMap<u16, Vec<RecoverySource>>,
    given_up: BTreeMap<u16, Vec<GivenUp>>,
}

/// What became of a worker's wish: the worker, the wish's number, and the versions that its settings have got, in their order;
/// `None` if it is not known whether they will be set.
pub(crate) type Granted = (u16, u64, Option<Vec<u64>>);

/// The number of a proposal, and the version that its setting has got.
type Proposed = (u64, Option<u64>);

/// What was proposed for workers of this node. Bounded by their questions under way.
#[derive(Default)]
struct Wishes {
    /// By proposal, whose it is.
    proposed: BTreeMap<u64, (u16, u64)>,
    /// By worker and wish, its proposals in their order, with the version that each setting has got.
    versions: BTreeMap<(u16, u64), Vec<Proposed>>,
}

impl Wishes {
    /// A proposal was carried out, or was not: what its wish has come to, if that is known now.
    fn on_outcome(&mut self, proposal: u64, outcome: &Result<MetaOutcome, Failure>) -> Option<Granted> {
        let whose = self.proposed.remove(&proposal)?;
        let asked = self.versions.get_mut(&whose)?;
        let Ok(MetaOutcome::Set { version }) = outcome else {
            self.versions.remove(&whose);
            return Some((whose.0, whose.1, None));
        };
        let place = asked.iter_mut().find(|(number, _)| *number == proposal)?;
        place.1 = Some(*version);
        let versions: Vec<u64> = asked.iter().map_while(|(_, version)| *version).collect();
        if versions.len() < asked.len() {
            return None;
        }
        self.versions.remove(&whose);
        Some((whose.0, whose.1, Some(versions)))
    }
}

/// What came of a step.
#[derive(Default)]
pub(crate) struct Happened {
    pub(crate) messages: Vec<(Remote, Bytes)>,
    pub(crate) map: Option<Arc<RoutingMap>>,
    pub(crate) started: Option<Started>,
    pub(crate) orders: Vec<control::Instruction>,
    /// What is set for the whole cluster, if that has changed.
    pub(crate) settings: Option<Arc<BTreeMap<String, Setting>>>,
    /// What became of workers' wishes.
    pub(crate) outcomes: Vec<Granted>,
    /// Names of what this start has brought: it is the cluster's now, or cannot be.
    pub(crate) brought: Vec<&'static str>,
    /// Why the node cannot be a member.
    pub(crate) refused: Option<String>,
    /// Why this start of the node is dead: nothing that it does has an effect any more.
    pub(crate) dead: Option<&'static str>,
    /// The node was told that it may go.
    pub(crate) has_left: bool,
}

/// What the meta log on this disk holds.
pub(crate) fn restored(
    disk: &DirectoryDisk,
) -> Result<(Option<MetaLog<DirectoryDisk>>, Option<Restored>), StorageError> {
    let Some((log, state)) = MetaLog::open(disk.clone())? else {
        return Ok((None, None));
    };
    Ok((Some(log), Some(restored_from(state))))
}

/// What a log holds, as the meta group takes it.
pub(crate) fn restored_from(state: MetaState) -> Restored {
    Restored {
        hard_state: state.hard,
        snapshot: state.snapshot.map(|snapshot| (snapshot.point, snapshot.state)),
        entries: state.entries,
    }
}

impl Driver {
    pub(crate) fn new(meta: Meta, disk: DirectoryDisk, log: Option<MetaLog<DirectoryDisk>>) -> Driver {
        Driver {
            meta,
            disk,
            log,
            settings: None,
            wishes: Wishes::default(),
            bringing: BTreeMap::new(),
            orders: VecDeque::new(),
            recovery_sources: BTreeMap::new(),
            given_up: BTreeMap::new(),
        }
    }

    /// Where its log is.
    pub(crate) fn directory(&self) -> &Path {
        self.disk.path()
    }

    /// Nodes join without a secret only where clients come in without a password.
    fn heed(&mut self, settings: &options::Settings) {
        let is_closed = settings.requirepass.is_some() && settings.cluster_secret.is_none();
        self.meta.close_to_newcomers(is_closed);
    }

    /// How much the node holds. Where keys are evicted there is always room.
    fn weigh(&mut self, shared: &Shared) {
        let settings = shared.settings();
        self.meta.on_memory(NodeMemory {
            used: shared.counted_memory(),
            most: match settings.maxmemory_policy == MaxmemoryPolicy::Noeviction {
                true => settings.maxmemory,
                false => 0,
            },
        });
    }

    /// Proposes what a worker wants to be set.
    pub(crate) fn on_wish(&mut self, worker: u16, wish: Wish) {
        let whose = (worker, wish.id);
        let mut proposals = Vec::with_capacity(wish.settings.len());
        for (name, value) in wish.settings {
            let proposal = self.meta.propose(control::MetaCommand::Set { name, value });
            self.wishes.proposed.insert(proposal, whose);
            proposals.push((proposal, None));
        }
        self.wishes.versions.insert(whose, proposals);
    }

    /// Proposes what this start brings, unless that is under way.
    fn bring(&mut self, setting: &BroughtSetting) {
        if !self.bringing.values().any(|name| *name == setting.name) {
            let proposal = self.meta.propose(control::MetaCommand::Set {
                name: setting.name.to_owned(),
                value: setting.words.clone(),
            });
            self.bringing.insert(proposal, setting.name);
        }
    }

    /// What is set for the whole cluster, if anything was heard of it.
    pub(crate) fn settings(&self) -> Option<Arc<BTreeMap<String, Setting>>> {
        self.settings.clone()
    }

    pub(crate) fn tick(&mut self, now: Monotonic) {
        self.meta.tick(now);
    }

    pub(crate) fn timer(&self) -> Option<Monotonic> {
        self.meta.next_timer()
    }

    pub(crate) fn on_message(&mut self, from: Remote, bytes: &[u8], now: Monotonic) {
        match MetaMessage::decode(bytes) {
            Ok(message) => self.meta.on_message(contact(from), message, now),
            Err(error) => tracing::warn!(%error, "a message about the cluster that is none"),
        }
    }

    /// See [`Meta::set_weight`].
    pub(crate) fn set_weight(&mut self, percent: u16) {
        self.meta.set_weight(percent);
    }

    pub(crate) fn on_link(&mut self, remote: Remote, is_up: bool, now: Monotonic) {
        self.meta.on_link(contact(remote), is_up, now);
    }

    pub(crate) fn on_group_reports(
        &mut self,
        group_reports: Vec<GroupReport>,
        not_led: &[GroupRef],
        now: Monotonic,
    ) {
        self.meta.on_lead_lost(not_led);
        self.meta.on_group_reports(group_reports, now);
    }

    pub(crate) fn on_recovery_sources(&mut self, worker: u16, recovery_sources: Vec<RecoverySource>) {
        self.recovery_sources.insert(worker, recovery_sources);
        let all = self.recovery_sources.values().flatten().cloned();
        self.meta.on_recovery_sources(all.collect());
    }

    pub(crate) fn on_given_up(&mut self, worker: u16, given_up: Vec<GivenUp>) {
        self.given_up.insert(worker, given_up);
        let all = self.given_up.values().flatten().copied();
        self.meta.on_given_up(all.collect());
    }

    /// What is left where nodes are missing, as whoever leads the meta group finds.
    pub(crate) fn remains(&self, now: Monotonic) -> Remains {
        Remains {
            recovery_sources: self.meta.recovery_sources(now),
            outage: self.meta.outage(now),
            is_leaderless: self.meta.is_leaderless(),
            lack: self.meta.lack(now),
        }
    }

    /// Carries out what an operator wants.
    pub(crate) fn on_orders(&mut self, commands: Vec<MetaCommand>, reply: Sender<Results>) {
        Orders::add(&mut self.orders, commands, reply);
        self.order_next();
    }

    /// Proposes the next of the operators' orders, if none is under way.
    fn order_next(&mut self) {
        while let Some(orders) = self.orders.front_mut() {
            if orders.under_way.is_some() {
                return;
            }
            if let Some(command) = orders.left.pop_front() {
                orders.under_way = Some(self.meta.propose(command));
                return;
            }
            let over = self.orders.pop_front().expect("there is a first one");
            // Whoever asked may have given up waiting.
            drop(over.reply.send(over.results));
        }
    }

    /// Whether it was an operator's.
    fn on_ordered(&mut self, proposal: u64, outcome: &Result<MetaOutcome, Failure>) -> bool {
        let Some(orders) = self.orders.front_mut() else {
            return false;
        };
        if orders.under_way != Some(proposal) {
            return false;
        }
        orders.under_way = None;
        orders.results.push(outcome.clone());
        self.order_next();
        true
    }

    /// What is known beside the map, if this node has a replica of the meta group.
    pub(crate) fn ledger(&self) -> Option<Ledger> {
        self.meta.state().map(Ledger::of)
    }

    /// The state of the meta group, if this node has a replica of it.
    fn state(&self) -> Option<State> {
        self.meta.state().cloned()
    }

    /// The newest map that is known.
    pub(crate) fn known_map(&self) -> Option<Arc<RoutingMap>> {
        self.meta.map().cloned()
    }

    /// Carries out what is to be done now, writes included.
    pub(crate) fn carry_out(&mut self, now: Monotonic) -> Result<Happened, StorageError> {
        let mut happened = Happened::default();
        loop {
            let effects = self.meta.take_effects(now);
            let is_over = effects == control::MetaEffects::default();
            let mut written = None;
            for persist in effects.persist {
                self.write(persist.record)?;
                written = Some(persist.number);
            }
            if let Some(number) = written {
                self.meta.on_persisted(number, now);
            }
            let messages = effects.messages.into_iter();
            happened
                .messages
                .extend(messages.map(|(to, message)| (remote(to), Bytes::from(message.encode()))));
            happened.map = effects.map.or(happened.map);
            if let Some(settings) = effects.settings {
                self.settings = Some(settings.clone());
                happened.settings = Some(settings);
            }
            for (proposal, outcome) in effects.outcomes {
                if let Some(name) = self.bringing.remove(&proposal) {
                    // What was not done is tried again.
                    if !matches!(outcome, Err(Failure::NotDone | Failure::Unknown)) {
                        happened.brought.push(name);
                    }
                    continue;
                }
                if self.on_ordered(proposal, &outcome) {
                    continue;
                }
                let outcome = self.wishes.on_outcome(proposal, &outcome);
                happened.outcomes.extend(outcome);
            }
            happened.started = effects.started.or(happened.started);
            happened.orders.extend(effects.orders);
            for notice in effects.notices {
                tell(notice, &mut happened);
            }
            if is_over {
                return Ok(happened);
            }
        }
    }

    fn write(&mut self, record: Record) -> Result<(), StorageError> {
        match record {
            Record::Begin { point, state } => {
                self.log = None;
                MetaLog::remove(&self.disk)?;
                self.log = Some(MetaLog::create(self.disk.clone(), Snapshot { point, state })?);
            }
            Record::Append { entries, hard_state } => {
                self.open_log().write(&entries, Some(hard_state))?;
            }
            Record::Snapshot { point, state } => {
                match self.open_log().write_snapshot(Snapshot { point, state }) {
                    // The log goes on at its length, and asks for another one.
                    Ok(()) | Err(StorageError::Full { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Record::End => {
                self.log = None;
                MetaLog::remove(&self.disk)?;
            }
        }
        Ok(())
    }

    fn open_log(&mut self) -> &mut MetaLog<DirectoryDisk> {
        self.log.as_mut().expect("a log begins before it goes on")
    }
}

/// What is said of a start that is fenced.
const DEAD: &str = "the cluster has declared this start of the node dead, because it was out of reach for long, or because an operator said so: start it again";

const SUPERSEDED: &str = "the node was started again elsewhere, from this data directory or a copy of it: one of the two is enough";

const REMOVED: &str = "the node is a member of the cluster no longer: it has left, as an operator wanted, or another node has taken its place. To have it join again, as a new node, start it with --join and an empty data directory";

/// What is left of groups that nobody leads, and whether anybody does something about it.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Remains {
    pub(crate) recovery_sources: Vec<RecoverySource>,
    /// Why silent nodes are not replaced by themselves.
    pub(crate) outage: Option<Outage>,
    /// Whether nobody leads the meta group.
    pub(crate) is_leaderless: bool,
    /// What this node lacks of what it is to have, if that is known.
    pub(crate) lack: Option<Lack>,
}

/// Tells the operator.
fn tell(notice: Notice, happened: &mut Happened) {
    match notice {
        Notice::Leads { term } => tracing::info!(term, "this node leads the meta group"),
        Notice::Follows { leader } => tracing::info!(leader = leader.0, "following the meta group's leader"),
        Notice::Leaderless => tracing::warn!(
            "nobody leads the meta group: members and placement stay as they are until a majority of it is back; groups of keys that have leaders go on"
        ),
        Notice::LogRefused => tracing::error!(
            "the meta group's log in the data directory cannot be gone on with: the node is a new member of that group, if it is to be one"
        ),
        Notice::Fenced => happened.dead = Some(DEAD),
        Notice::Superseded { .. } => happened.dead = Some(SUPERSEDED),
        Notice::Left => happened.has_left = true,
        Notice::Removed => happened.dead = Some(REMOVED),
        Notice::StartRefused { refusal } => happened.refused = Some(refused(refusal)),
    }
}

/// Why a node may not start, for an operator.
fn refused(refusal: MetaRefusal) -> String {
    match refusal {
        MetaRefusal::Semantics => format!(
            "its entries follow rules that this build does not know; it knows semantics versions {} to {}. Start a newer build: \
             once every node of a cluster has run one, none can go back",
            SemanticsVersion::OLDEST.0,
            SemanticsVersion::CURRENT.0
        ),
        MetaRefusal::Full => "it has as many nodes as there can be".to_owned(),
        MetaRefusal::Taken => "a node that is there announces the same peer address, or has the same --node-name. Give this one \
             another --peer-port, --advertise or --node-name; if that node has just ended, start this one again in some seconds"
            .to_owned(),
        MetaRefusal::Loopback => "some nodes would announce an address of the loopback and others one that other machines reach, and \
             could not all reach each other. Name an address of its machine for each node, with --advertise or --bind"
            .to_owned(),
        MetaRefusal::NoSecret => "it has a password for clients and no secret for nodes: whoever joined could read everything without \
             the password. Give all nodes the same --cluster-secret-file"
            .to_owned(),
        MetaRefusal::Exists => "it was given up for another node before it had heard that it is a member. Start it again: it joins as a \
             new one"
            .to_owned(),
        other => format!("{other:?}"),
    }
}

fn contact(remote: Remote) -> Contact {
    match remote {
        Remote::Node(node) => Contact::Node(node),
        Remote::Joiner(number) => Contact::Newcomer(number),
        Remote::Contact(_) => Contact::Introducer,
    }
}

fn remote(contact: Contact) -> Remote {
    match contact {
        Contact::Node(node) => Remote::Node(node),
        Contact::Newcomer(number) => Remote::Joiner(number),
        Contact::Introducer => Remote::Contact(0),
    }
}

/// What the thread hands its results to.
pub(crate) struct Desk {
    pub(crate) view: Arc<View>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) started: Started,
    pub(crate) keeping: Arc<Keeping>,
    pub(crate) disk: DirectoryDisk,
    /// Where the others are, as the disk has it.
    pub(crate) book: Mutex<PeerBook>,
    pub(crate) brought: Vec<BroughtSetting>,
}

impl Desk {
    /// Shows a map to everybody, and writes down where the others are: the next start finds them by it.
    pub(crate) fn show(&self, map: Arc<RoutingMap>) {
        let me = self.started.node;
        let mut known = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let book = view::book(&map, me);
        if *known != book {
            match book.write(&self.disk) {
                Ok(()) => *known = book,
                Err(error) => tracing::warn!(%error, "cannot write down where the other nodes are"),
            }
        }
        drop(known);
        self.say_what_began_anew(&map);
        if let Some(topology) = view::topology(&map, me) {
            self.shared.set_topology(topology);
        }
        let mut layout = Layout::of(&map, me, self.started.boot);
        (layout.durability, layout.change) = self.keeping.follow(layout.ordered);
        self.view.set(Seen {
            layout: Arc::new(layout),
            map,
        });
        (0..self.mailboxes.workers()).for_each(|worker| self.mailboxes.wake(worker));
    }

    /// Says which groups have lost their majority, and what may be lost where they have begun anew.
    fn say_what_began_anew(&self, map: &RoutingMap) {
        let Some(seen) = self.view.seen() else { return };
        let remains = self.view.remains();
        for (group, (route, before)) in (0u16..).zip(map.groups.iter().zip(&seen.map.groups)) {
            let generation = route.generation;
            if generation <= before.generation {
                continue;
            }
            let Some(of) = route.recovered_from else {
                if route.replicas.is_empty() {
                    tracing::error!(
                        group,
                        generation,
                        "a majority of the voters of a group has lost its power, or what it had: the group's generation is over. It begins \
                         anew with the best log that is left, when all nodes that may have one have said so, or have been silent for 30 \
                         seconds"
                    );
                }
                continue;
            };
            let mut said = remains.recovery_sources.iter();
            let source = said.find(|said| said.group.number() == group && said.incarnation == of);
            tracing::error!(
                group,
                generation,
                node = route.leader.map(|node| node.0),
                place = source.map(|source| source.last.0),
                term = source.map(|source| source.term.0),
                "DATA MAY BE LOST: a group begins anew with the best of the logs that were left, which ends at this place of this \
                 term. Writes that were acknowledged behind that, and stand in no log that was left, are lost"
            );
        }
    }

    /// Follows the durability that the map says, where that is still to be done. Whether it is.
    fn keep_up(&self) -> bool {
        if let Some(seen) = self.view.seen()
            && self.keeping.follow(seen.map.durability).1 != seen.layout.change
        {
            self.show(seen.map.clone());
        }
        let is_under_way = self.keeping.look();
        let seen = self.view.seen();
        is_under_way || seen.is_some_and(|seen| seen.map.durability != seen.layout.durability)
    }

    /// Sets what is set for the whole cluster.
    pub(crate) fn set(&self, settings: &BTreeMap<String, Setting>) {
        let is_over = |name: &str, version| self.brought.iter().any(|brought| brought.is_over(name, version));
        let all = settings.iter();
        let all = all.filter(|(name, setting)| !is_over(name, setting.version));
        self.shared
            .set_for_cluster(all.map(|(name, Setting { value, version })| (&**name, &**value, *version)));
        (0..self.mailboxes.workers()).for_each(|worker| self.mailboxes.wake(worker));
    }

    /// The node has nothing any more and goes, as if it had been told to stop: what it answers for as a gateway ends first.
    fn leave(&self) {
        if let Err(error) = storage::set_left(&self.disk) {
            tracing::warn!(%error, "cannot write down that the node has left: a start from its directory will be refused by the cluster alone");
        }
        self.view.leave();
        tracing::info!(
            "the node holds nothing any more and leaves the cluster, as an operator wanted; it stops, for good"
        );
        self.stop();
    }

    /// The node ends, as if it had been told to.
    fn end(&self, why: String) {
        self.view.end(why);
        self.stop();
    }

    fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        (0..self.mailboxes.workers()).for_each(|worker| self.mailboxes.wake(worker));
    }

    fn hand_over(&self, happened: Happened) {
        if let Some(map) = happened.map {
            self.show(map);
        }
        if let Some(settings) = happened.settings {
            self.set(&settings);
        }
        for granted in happened.outcomes {
            let worker = granted.0;
            self.view.outcome(granted);
            self.mailboxes.wake(worker);
        }
        let mut has_orders = false;
        for instruction in happened.orders {
            if let GroupRef::Data(group) = instruction.group {
                self.view.order(group, instruction.index, instruction.order);
                has_orders = true;
            }
        }
        if has_orders {
            (0..self.mailboxes.workers()).for_each(|worker| self.mailboxes.wake(worker));
        }
        if !happened.messages.is_empty() {
            self.outbox.put(happened.messages);
            self.mailboxes.wake(0);
        }
    }
}

/// How long the thread waits at most, where nothing is due.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// How often it looks whether workers have followed another durability.
const FOLLOWING: Duration = Duration::from_millis(10);

/// The thread.
pub(crate) fn run(mut driver: Driver, inputs: &Receiver<Input>, desk: &Desk) {
    desk.view.set_ledger(driver.ledger());
    let mut to_bring: Vec<&BroughtSetting> = desk.brought.iter().collect();
    let mut shown = Remains::default();
    let mut is_following = false;
    loop {
        let now = clock::raw();
        let wait = driver.timer().map_or(WAIT_MAX, |timer| timer.since(now));
        let wait = if is_following { wait.min(FOLLOWING) } else { wait };
        let mut input = match inputs.recv_timeout(wait) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        driver.heed(&desk.shared.settings());
        driver.weigh(&desk.shared);
        to_bring.iter().for_each(|setting| driver.bring(setting));
        while let Some(one) = input {
            // After it was received: promises are counted from it.
            let now = clock::raw();
            match one {
                Input::Message(from, bytes) => driver.on_message(from, &bytes, now),
                Input::Link(remote, is_up) => driver.on_link(remote, is_up, now),
                Input::GroupReports(group_reports, not_led) => {
                    driver.on_group_reports(group_reports, &not_led, now)
                }
                Input::RecoverySources(worker, recovery_sources) => {
                    driver.on_recovery_sources(worker, recovery_sources)
                }
                Input::GivenUp(worker, given_up) => driver.on_given_up(worker, given_up),
                Input::Orders(commands, reply) => driver.on_orders(commands, reply),
                // Whoever asked may have given up waiting.
                Input::Look(reply) => drop(reply.send(driver.state().map(Box::new))),
                Input::Wish(worker, wish) => driver.on_wish(worker, wish),
                Input::Stop => return,
            }
            input = inputs.try_recv().ok();
        }
        let now = clock::raw();
        driver.tick(now);
        is_following = desk.keep_up();
        match driver.carry_out(now) {
            Ok(happened) => {
                if happened.map.is_some() {
                    desk.view.set_ledger(driver.ledger());
                }
                let (dead, has_left) = (happened.dead, happened.has_left);
                to_bring.retain(|setting| !happened.brought.contains(&setting.name));
                desk.hand_over(happened);
                let remains = driver.remains(now);
                if remains != shown {
                    shown.clone_from(&remains);
                    desk.view.set_remains(remains);
                }
                if has_left {
                    desk.leave();
                }
                if let Some(why) = dead {
                    tracing::error!("{why}; the node stops");
                    desk.end(why.to_owned());
                }
            }
            Err(error) => {
                // What is on disk is not known any more: a node that went on could forget its votes.
                let directory = desk.disk.path().display();
                let why = format!("cannot write the meta group's log in {directory}: {error}");
                tracing::error!("{why}; the node stops");
                desk.end(why);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn an_operator_who_is_one_too_many_is_told_that_nothing_was_done() {
        let mut all = VecDeque::new();
        let resume = MetaCommand::Resume { of: None };
        let mut ask = |count: usize| {
            let (reply, results) = mpsc::channel();
            Orders::add(&mut all, vec![resume.clone(); count], reply);
            results
        };
        let waiting: Vec<_> = (0..ORDERS_MAX).map(|_| ask(1)).collect();
        let told = ask(2).try_recv();
        assert_eq!(told, Ok(vec![Err(Failure::NotDone), Err(Failure::NotDone)]));
        for results in waiting {
            assert_eq!(results.try_recv(), Err(mpsc::TryRecvError::Empty));
        }
    }
}

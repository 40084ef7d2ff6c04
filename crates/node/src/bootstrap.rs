//! How a node comes to know who it is, before it serves anybody: it makes a cluster, joins one, or comes back.
//!
//! ```text
//!   data directory --- empty, no --join ----> Create: this node is a cluster of one
//!                  \-- empty, --join -------> Join, by whichever address answers
//!                  |-- empty, --join-expect -> Create or Join, as the others say (`founding.rs`)
//!                   \- has an identity -----> Boot: the cluster counts this start, and is told whose memory was kept
//! ```
//!
//! A node that comes back finds the others by what it knows of the meta group's log, by the addresses that it wrote down
//! with each map, and by `--join`: it dials all of them, and whoever dials it at the same time.
//!
//! Links are needed for the last two, and there are no workers yet: this has a loop of its own, with one transport.

use crate::announcing::{self, ClientPorts};
use crate::clock;
use crate::founding;
use crate::handover;
use crate::kept::{self, Company, Confirmed, EarlierLogs, Kept};
use crate::lost_alone::{self, Refusal};
use crate::meta::{self, Driver};
use crate::peers::Own;
use crate::random;
use crate::resolver::{self, Resolver};
use crate::start_links::StartLinks;
use crate::start_progress::StartProgress;
use crate::state_reads::{StateReads, StoredState};
use crate::view;
use control::{
    Announcement, Beginning, Factor, FoundingEnd, FoundingNode, GroupRef, HeldAlone, Meta, MetaConfig, Pace,
    Restored, RoutingMap, Started,
};
use gateway::HandoverImage;
use ids::{
    ClusterId, DurabilityMode, FoundingId, GroupCount, GroupId, Groups, Incarnation, Monotonic, NodeId,
    SemanticsVersion, Token,
};
use options::{DurabilityChoice, PeerAddress, Settings, TestDisk};
use peer_wire::hello::{HelloRefusal, NotIntroduced, Peer, Secret, Who};
use peer_wire::{Join, PeerMessage, Question};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use storage::{DataDirectory, DirectoryDisk, Identity, MetaLog, ModeChange, PeerBook};
use transport::{Greeter, LinkId, Refusals, Remote, Transport, TransportEvent};

/// A node that knows who it is.
pub(crate) struct Bootstrapped {
    pub(crate) directory: DataDirectory,
    pub(crate) own: Own,
    /// By which this start was counted.
    pub(crate) token: Token,
    pub(crate) groups: Groups,
    /// In which this start begins: the cluster's, or less, as long as what it goes on with is kept as less.
    pub(crate) durability: DurabilityMode,
    pub(crate) started: Started,
    pub(crate) driver: Driver,
    pub(crate) resolver: Resolver,
    pub(crate) map: Arc<RoutingMap>,
    /// What the last stop left, or the last process kept, of the replicas that this node still has.
    pub(crate) kept: Confirmed,
    /// Where the others were at the last stop.
    pub(crate) book: PeerBook,
    /// What it says of itself.
    pub(crate) announcement: Announcement,
}

impl Bootstrapped {
    /// The states that are still to be read.
    pub(crate) fn state_reads(&self) -> StateReads {
        StateReads {
            disk: self.directory.disk(),
            cluster: self.own.cluster,
            node: self.own.node,
            states: self.kept.states.clone(),
        }
    }
}

/// How long a node that comes back waits for a word of those that `--join` names, to see that they are of its cluster.
const CHECK: Duration = Duration::from_secs(1);

/// Between two words to an operator about a cluster that does not answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks at who is to be dialled, and where names lead.
pub(crate) const DIALLING: Duration = Duration::from_secs(1);

/// Addresses of all that `--join` names. At the limit what is found later is left out.
const CONTACTS_MAX: usize = 256;

pub(crate) type Failure = String;

/// Why there is no node.
pub(crate) enum BootstrapError {
    /// It was told to stop before the cluster had counted its start.
    Stopped,
    /// In words for an operator.
    Failed(Failure),
}

impl From<Failure> for BootstrapError {
    fn from(failure: Failure) -> BootstrapError {
        BootstrapError::Failed(failure)
    }
}

impl From<&str> for BootstrapError {
    fn from(failure: &str) -> BootstrapError {
        BootstrapError::Failed(failure.to_owned())
    }
}

/// See the file's header. It comes back when the cluster has counted this start, however long that takes.
///
/// A cluster that it makes has `new_groups`.
///
/// # Errors
/// If the node does not start. What the last stop handed over is left to the next start again.
pub(crate) fn begin(
    settings: &Settings,
    ports: ClientPorts,
    new_groups: Groups,
    workers: u16,
    told_to_stop: &AtomicBool,
    progress: &StartProgress,
) -> Result<Bootstrapped, BootstrapError> {
    let found = Found::read(settings)?;
    let resolver = Resolver::start();
    let resolver =
        resolver.map_err(|error| format!("cannot start the thread that looks up names: {error}"))?;
    let words = settings.cluster_secret.as_deref();
    let secret = words.map_or(Secret(None), |words| Secret::of_words(words.as_bytes()));
    let is_creator = match (&found.identity, settings.join_expect) {
        (Some(_), _) => false,
        (None, None) => settings.join.is_empty(),
        (None, Some(expects)) => {
            // What is wrong with it is to be known before others wait for this node; where it is, may turn out with them.
            found.announcement(settings, (workers, None), ports)?;
            let own = FoundingNode {
                id: FoundingId(random("a name among those who make a cluster")?),
                expects,
            };
            let end = founding::wait(settings, own, &secret, workers, &resolver, told_to_stop, progress)?;
            end == FoundingEnd::Create
        }
    };
    let now = clock::raw();
    let known_groups = match &found.identity {
        Some(identity) => Some(identity.groups),
        None => is_creator.then(|| new_groups.count()),
    };
    let announcement = found.announcement(settings, (workers, known_groups), ports)?;
    let token = Token(random("a token")?);
    let config = MetaConfig {
        node: found.identity.as_ref().map(|identity| identity.node),
        announcement: announcement.clone(),
        token,
        times: meta::TIMES,
        pace: pace(settings),
        seed: random("a seed")? as u64,
    };
    let memory = Memory::take(&found, settings, token, progress).map_err(in_directory(settings))?;
    let Found {
        directory,
        identity,
        is_unready,
        book,
    } = found;
    let disk = directory.disk();
    let Memory {
        log,
        restored,
        left_by,
        mut kept,
        mut states,
        unclean,
        earlier,
        mode,
    } = memory;
    let (meta, who) = match &identity {
        Some(identity) => {
            let who = Who::Starting {
                cluster: identity.cluster,
                node: identity.node,
            };
            let is_unclean = |kept: &&HandoverImage| unclean.contains(&(kept.group, kept.incarnation));
            let memories = kept.iter().filter(|kept| !is_unclean(kept));
            let memories = memories.map(|kept| (GroupRef::Data(kept.group), kept.incarnation));
            let unclean = unclean.iter();
            let unclean = unclean.map(|(group, incarnation)| (GroupRef::Data(*group), *incarnation));
            let peers = book.peers.keys().copied().collect();
            let meta = Meta::restore(
                config,
                restored,
                peers,
                left_by.clone(),
                memories.collect(),
                unclean.collect(),
                now,
            );
            (meta, who)
        }
        None if is_creator => (create(config, settings, new_groups, now)?, Who::Joining),
        None => (Meta::join(config, now), Who::Joining),
    };
    let mut bootstrap = Bootstrap {
        driver: Driver::new(meta, disk.clone(), log),
        map: None,
        started: None,
        book,
        resolver,
        contacts: Vec::new(),
        behind: BTreeMap::new(),
    };
    if let Err(error) = bootstrap.run(settings, who, &secret, (workers, known_groups), told_to_stop) {
        let is_handed_over = earlier.is_none() && !kept.is_empty();
        if let Some(identity) = identity.as_ref().filter(|_| is_handed_over) {
            leave_again(disk, identity.node, left_by, token, kept);
        }
        return Err(error);
    }
    let (Some(started), Some(map)) = (bootstrap.started, bootstrap.map) else {
        unreachable!("it runs until both are there");
    };
    let mut aside = Vec::new();
    if identity.is_some() {
        let writes = map.durability.writes();
        let is_former = |group: GroupId| {
            let route = map.groups.get(group.index());
            route.is_some_and(|route| route.former.contains(&started.node))
        };
        let is_aside =
            |kept: &HandoverImage| unclean.contains(&(kept.group, kept.incarnation)) || is_former(kept.group);
        aside = look_at(&started, &mut kept, is_aside, is_unready, writes);
    }
    let is_handed_over = kept.iter().any(|kept| kept.generation.is_none());
    let found = mode.filter(|_| !kept.is_empty());
    let durability = ModeChange::of_start(map.durability, is_handed_over, found);
    let groups_kept = kept.iter().map(|kept| kept.group).collect();
    let keeps_earlier = !aside.is_empty();
    let mut images: Vec<HandoverImage> = kept.into_iter().chain(aside).collect();
    states.retain(|state| images.iter().any(|image| image.group == state.group));
    let cluster = map.cluster.ok_or("the cluster's map has no name")?;
    if !durability.writes() {
        // What is on disk goes.
        let reads = StateReads {
            disk: disk.clone(),
            cluster,
            node: started.node,
            states: std::mem::take(&mut states),
        };
        let mut read = reads.read_all();
        for image in images.iter_mut().filter(|image| image.keyspace.is_none()) {
            image.keyspace = read.remove(&image.group);
        }
    }
    let kept = Confirmed {
        groups: groups_kept,
        keeps_earlier,
        images,
        states,
        earlier: earlier.unwrap_or_default(),
    };
    let groups = map.key_groups().ok_or("the cluster's map has no groups")?;
    let own = Own {
        cluster,
        node: started.node,
        boot: started.boot,
        secret: secret.clone(),
        workers,
        groups,
    };
    if identity.is_none() {
        let identity = Identity {
            cluster: own.cluster,
            node: own.node,
            groups: groups.founded(),
            secret,
        };
        identity.write(&disk).map_err(in_directory(settings))?;
    }
    Ok(Bootstrapped {
        directory,
        own,
        token,
        groups,
        durability,
        started,
        driver: bootstrap.driver,
        resolver: bootstrap.resolver,
        map,
        kept,
        book: bootstrap.book,
        announcement,
    })
}

fn in_directory<E: std::fmt::Display>(settings: &Settings) -> impl Fn(E) -> Failure {
    |error| format!("in the data directory {}: {error}", settings.dir)
}

fn random(what: &str) -> Result<u128, Failure> {
    let [a, b] = random::secret::<2>()
        .map_err(|error| format!("cannot read the system's randomness for {what}: {error}"))?;
    Ok(u128::from(a) << 64 | u128::from(b))
}

/// What a data directory says of its node.
struct Found {
    directory: DataDirectory,
    /// None if it is no node yet.
    identity: Option<Identity>,
    /// No start of it was ever ready for clients.
    is_unready: bool,
    /// Where the others were.
    book: PeerBook,
}

impl Found {
    fn read(settings: &Settings) -> Result<Found, Failure> {
        let in_directory = in_directory(settings);
        let mut directory =
            DataDirectory::open(Path::new(&settings.dir)).map_err(|error| error.to_string())?;
        if settings.test_disk == TestDisk::Hold {
            tracing::warn!("for a test, what is not synced is lost with this process");
            directory.hold().map_err(|error| error.to_string())?;
        }
        let disk = directory.disk();
        let identity = Identity::read(&disk).map_err(&in_directory)?;
        if storage::has_left(&disk).map_err(&in_directory)? {
            return Err(left(settings, identity.as_ref()));
        }
        let is_unready = storage::is_unready(&disk).map_err(&in_directory)?;
        if identity.is_none() {
            // One whose logs are beginning has an identity, and may have acknowledged something already.
            let had_one = !is_unready || storage::has_segments(&disk).map_err(&in_directory)?;
            if had_one && MetaLog::is_there(&disk).map_err(&in_directory)? {
                return Err(anonymous(settings));
            }
            storage::set_unready(&disk).map_err(&in_directory)?;
        }
        let book = PeerBook::read(&disk).unwrap_or_else(|error| {
            tracing::warn!(%error, "going without what was written down of where the other nodes are");
            PeerBook::default()
        });
        Ok(Found {
            directory,
            identity,
            is_unready,
            book,
        })
    }

    /// What the node says of itself, as those see it that it knows.
    fn announcement(
        &self,
        settings: &Settings,
        workers: (u16, Option<GroupCount>),
        ports: ClientPorts,
    ) -> Result<Announcement, Failure> {
        // A name that leads nowhere now is left out: dialling says so.
        let known = || {
            let named = settings.join.iter().map(ToString::to_string);
            let all = named.chain(self.book.peers.values().cloned());
            all.flat_map(|name| resolver::look_up(&name).unwrap_or_default())
                .collect()
        };
        announcing::announcement(settings, workers, ports, known)
    }
}

/// What a node that comes back remembers.
#[derive(Default)]
struct Memory {
    log: Option<MetaLog<DirectoryDisk>>,
    restored: Option<Restored>,
    /// By which starts the replicas were left.
    left_by: Vec<Token>,
    kept: Vec<HandoverImage>,
    /// Where the states are that were not handed over.
    states: Vec<StoredState>,
    /// Those of them that may lack what they acknowledged.
    unclean: Vec<(GroupId, Incarnation)>,
    /// The logs that they stand in, if they were kept and not handed over.
    earlier: Option<EarlierLogs>,
    /// How these were kept.
    mode: Option<DurabilityMode>,
}

impl Memory {
    /// The log first: what was handed over is found once, and a start that fails here is to leave it.
    fn take(
        found: &Found,
        settings: &Settings,
        token: Token,
        progress: &StartProgress,
    ) -> Result<Memory, Refusal> {
        let Some(identity) = &found.identity else {
            return Ok(Memory::default());
        };
        let disk = found.directory.disk();
        let (log, restored) = meta::restored(&disk)?;
        let is_alone = found.book.peers.is_empty();
        let was_used = !found.is_unready || storage::has_segments(&disk)?;
        if log.is_none() && is_alone && was_used && settings.join.is_empty() {
            return Err(lost_alone::no_meta_log());
        }
        let company = Company {
            is_alone,
            // Some groups may have begun before the node was ready.
            held: restored
                .as_ref()
                .and_then(|restored| HeldAlone::of(restored, identity.node, !found.is_unready)),
            accepts_loss: settings.accept_data_loss,
        };
        if let Some(kept) = kept::take(&disk, identity, token, &company, progress)? {
            let Kept {
                images,
                states,
                unclean,
                left_by,
                earlier,
                mode,
            } = kept;
            return Ok(Memory {
                log,
                restored,
                left_by,
                kept: images,
                states,
                unclean,
                earlier: Some(earlier),
                mode,
            });
        }
        let (left_by, kept) = handover::take(&disk, identity.node)?;
        Ok(Memory {
            log,
            restored,
            left_by,
            kept,
            ..Memory::default()
        })
    }
}

/// Makes a cluster of one.
fn create(config: MetaConfig, settings: &Settings, groups: Groups, now: Monotonic) -> Result<Meta, Failure> {
    let cluster = ClusterId(random("the cluster's name")?);
    let (factor, semantics) = (factor(settings), SemanticsVersion::CURRENT);
    let durability = durability(settings);
    Ok(Meta::create(
        config, cluster, groups, factor, durability, semantics, now,
    ))
}

/// Nothing was said in the name of these replicas: the next start may have them as this one did. Whether the cluster has counted
/// this one is not known here.
fn leave_again(
    disk: DirectoryDisk,
    node: NodeId,
    mut left_by: Vec<Token>,
    token: Token,
    kept: Vec<HandoverImage>,
) {
    left_by.push(token);
    if let Err(error) = handover::leave(disk, node, &left_by, kept) {
        tracing::error!(%error, "what the last stop handed over is lost: it could not be left to the next start");
    }
}

/// Drops what the cluster does not count on any more, and tells what is there and what is not. Hands out what is set aside:
/// it may lack the end, or its group is over or has begun anew.
fn look_at(
    started: &Started,
    kept: &mut Vec<HandoverImage>,
    is_aside: impl Fn(&HandoverImage) -> bool,
    is_unready: bool,
    writes: bool,
) -> Vec<HandoverImage> {
    let is_confirmed = |kept: &HandoverImage| {
        started.replicas.iter().any(|replica| {
            let is_same = match replica.beginning {
                Beginning::Kept => replica.incarnation == kept.incarnation,
                Beginning::Recovered { of } => of == kept.incarnation,
                Beginning::Learner | Beginning::BootstrapReplica => false,
            };
            is_same && replica.group == GroupRef::Data(kept.group)
        })
    };
    let is_still_here = |kept: &HandoverImage| {
        let mut replicas = started.replicas.iter();
        replicas.any(|replica| replica.group == GroupRef::Data(kept.group))
    };
    let unconfirmed = kept.extract_if(.., |kept| !is_confirmed(kept));
    let (aside, unconfirmed): (Vec<HandoverImage>, Vec<HandoverImage>) = unconfirmed.partition(is_aside);
    let outdated = unconfirmed.iter().filter(|kept| is_still_here(kept)).count();
    let dropped = unconfirmed.len() - outdated;
    let begin = |beginning: Beginning| {
        let is_data = |replica: &&control::AssignedReplica| replica.group != GroupRef::Meta;
        let replicas = started.replicas.iter().filter(is_data);
        replicas.filter(|replica| replica.beginning == beginning).count()
    };
    let (lost, refilled) = (begin(Beginning::BootstrapReplica), begin(Beginning::Learner));
    tracing::info!(
        kept = kept.len(),
        refilled,
        dropped,
        aside = aside.len(),
        "replicas that go on with what they held, that other nodes fill again, that belong to this node no more, and whose former data \
         are set aside"
    );
    if outdated > 0 {
        tracing::warn!(
            groups = outdated,
            "what the data directory has of these groups is not what this node held last, and is not used: the node has started \
             since, so that this is an older copy of the directory; or what it held was given up meanwhile"
        );
    }
    if is_unready {
        tracing::info!("no earlier start of this node was ever ready for clients: it held nothing");
    } else if lost > 0 {
        let advice = match writes {
            true => {
                "Look for what became of its files: they are there after every stop, unless a disk or somebody took them"
            }
            false => {
                "With durability memory only a stop by SIGTERM or SHUTDOWN leaves data to the next start: give the node company, or \
                 CONFIG SET durability relaxed, or strict, has it on disk"
            }
        };
        tracing::error!(
            groups = lost,
            "DATA LOST: the data directory has nothing of these groups that counts, and no other node has a replica of them; they \
             begin empty. {advice}"
        );
    }
    aside
}

/// Its cluster has no place for it any more, and what it has is old.
fn left(settings: &Settings, identity: Option<&Identity>) -> Failure {
    let node = identity.map_or_else(String::new, |identity| format!(" {}", identity.node.0));
    format!(
        "the node{node} of the data directory {} has left its cluster, as an operator wanted (chorale admin drain --leave), and \
         has nothing any more. To have it join again, as a new node, start it with --join and an empty data directory",
        settings.dir
    )
}

/// What to do about a log that does not say whose it is. A new cluster over it would be a second one, by the same addresses,
/// while the old one may still wait for this node.
fn anonymous(settings: &Settings) -> Failure {
    let dir = &settings.dir;
    let what = if settings.join.is_empty() {
        "makes a cluster of its own"
    } else {
        "joins as a new node"
    };
    format!(
        "the data directory {dir} has a part of a cluster's own state, {dir}/meta-log, and nothing that says which node it is: \
         {dir}/identity is missing. Bring identity back, from a copy of the directory; or, if what the node had may be lost, \
         move meta-log away too: then it {what}"
    )
}

fn pace(settings: &Settings) -> Pace {
    let replace_after = settings
        .replace_after_secs
        .map(|secs| Duration::from_secs(secs.into()));
    Pace {
        replace_after: replace_after.unwrap_or(Duration::MAX),
        learners_of_node_max: settings.move_concurrency as usize,
        ..Pace::default()
    }
}

fn factor(settings: &Settings) -> Factor {
    match settings.replication_factor {
        options::ReplicationFactor::Auto => Factor::Auto,
        options::ReplicationFactor::One => Factor::One,
        options::ReplicationFactor::Three => Factor::Three,
        options::ReplicationFactor::Four => Factor::Four,
        options::ReplicationFactor::Five => Factor::Five,
        options::ReplicationFactor::Six => Factor::Six,
    }
}

fn durability(settings: &Settings) -> DurabilityMode {
    match settings.durability {
        DurabilityChoice::Memory => DurabilityMode::Memory,
        DurabilityChoice::Relaxed => DurabilityMode::Relaxed,
        DurabilityChoice::Strict => DurabilityMode::Strict,
    }
}

/// A start on its way: it runs until the cluster has counted it.
struct Bootstrap {
    driver: Driver,
    map: Option<Arc<RoutingMap>>,
    started: Option<Started>,
    book: PeerBook,
    resolver: Resolver,
    /// The addresses that `--join` names, each by its number, and which of its words did: a name may have several. They stay when a
    /// name leads elsewhere: numbers are not given again.
    contacts: Vec<(SocketAddr, usize)>,
    /// Who stands behind the addresses that `--join` names, by their number, as far as a node that comes back has had a link there.
    /// It speaks with them as with any other node: each end knows who the other is.
    behind: BTreeMap<u16, NodeId>,
}

impl Bootstrap {
    /// The other end of a link, as the meta group's part knows it.
    fn known(&self, remote: Remote) -> Remote {
        match remote {
            Remote::Contact(number) => self
                .behind
                .get(&number)
                .map_or(remote, |node| Remote::Node(*node)),
            Remote::Node(_) | Remote::Joiner(_) => remote,
        }
    }

    /// Runs until the start is counted.
    fn run(
        &mut self,
        settings: &Settings,
        who: Who,
        secret: &Secret,
        (workers, groups): (u16, Option<GroupCount>),
        told_to_stop: &AtomicBool,
    ) -> Result<(), BootstrapError> {
        // Alone, everything is known at once; but whoever is told to join somebody may be somewhere else than he thinks.
        self.step(None)?;
        let is_checked = matches!(who, Who::Joining) || settings.join.is_empty();
        if self.is_over() && is_checked {
            return Ok(());
        }
        let mut check = Check::new(is_checked);
        let mut links = StartLinks::open(settings, who, secret, (workers, groups), check.refusals())?;
        let mut told_at = clock::raw();
        let mut dialled_at = told_at;
        self.dial(settings, who, &mut links.transport);
        let mut names = self.resolver.version();
        loop {
            links.wait(self.driver.timer())?;
            if told_to_stop.load(Ordering::Relaxed) {
                return Err(BootstrapError::Stopped);
            }
            let happened = links.read(note);
            // Promises are counted from it: the process may have stood still before the sockets were read.
            let now = clock::raw();
            for one in happened {
                if let (Heard::Up(_, peer), Who::Joining) = (&one, who)
                    && let Some(groups) = peer.groups
                {
                    let weight = announcing::weight_percent(settings.weight, workers, groups);
                    self.driver.set_weight(weight);
                }
                self.on_heard(one, (who, workers), &mut check, &mut links.transport, now)?;
            }
            self.step(Some((&mut links.transport, who)))?;
            let mut ignored = |_: TransportEvent<'_, Peer>| {};
            links.transport.flush(now, &mut ignored);
            if let (Some(number), Who::Starting { cluster, node }) = (check.other_cluster(), who) {
                let (_, named) = self.contacts[usize::from(number)];
                return Err(elsewhere(settings, named, cluster, node).into());
            }
            if self.is_over() && check.is_over(&settings.join, now) {
                return Ok(());
            }
            if now.since(told_at) >= PATIENCE {
                told_at = now;
                say_what_is_awaited(settings, who, &self.out_of_reach(who, &links.transport));
            }
            if now.since(dialled_at) >= DIALLING || names != self.resolver.version() {
                (dialled_at, names) = (now, self.resolver.version());
                self.dial(settings, who, &mut links.transport);
            }
        }
    }

    fn on_heard(
        &mut self,
        heard: Heard,
        (who, workers): (Who, u16),
        check: &mut Check,
        transport: &mut Transport<Greeter>,
        now: Monotonic,
    ) -> Result<(), Failure> {
        match heard {
            Heard::Up(LinkId { remote, number }, _) if number != 0 => {
                // Another worker, and a node of one worker answers all: it says nothing of the meta group, and the node behind it has not
                // been reached by that.
                let link = LinkId { remote, number };
                let mut ignored = |_: TransportEvent<'_, Peer>| {};
                transport.forget(link, now, &mut ignored);
            }
            Heard::Up(LinkId { remote, .. }, peer) => {
                if matches!(peer.who, Who::Member { .. }) && peer.workers != workers && peer.groups.is_none()
                {
                    return Err(unlike(peer.workers, workers));
                }
                check.on_link(remote);
                if let (Some(_), Some(node)) = (who.node(), peer.who.node()) {
                    if let Remote::Contact(number) = remote {
                        self.behind.insert(number, node);
                    }
                    self.leave_other_ways(remote, node, transport);
                }
                self.driver.on_link(self.known(remote), true, now);
            }
            Heard::Down(remote) => {
                check.on_link(remote);
                let known = self.known(remote);
                // There may be another link to the same node.
                if !self.is_linked(known, transport) {
                    self.driver.on_link(known, false, now);
                }
            }
            Heard::Message(remote, bytes) => {
                self.driver.on_message(self.known(remote), &bytes, now);
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        // One from before says what this node had then, not what it has now.
        let is_counted = |started: &Started| {
            let site = self.map.as_ref().and_then(|map| map.nodes.get(&started.node));
            site.is_some_and(|site| site.boot == started.boot)
        };
        self.started.as_ref().is_some_and(is_counted)
    }

    /// Whether there is a link to a node, whichever way.
    fn is_linked(&self, known: Remote, transport: &Transport<Greeter>) -> bool {
        let mut links = transport.links();
        links.any(|link| link.number == 0 && self.known(link.remote) == known)
    }

    /// The members that there is no link with, as far as they are known, with their addresses.
    fn out_of_reach(&self, who: Who, transport: &Transport<Greeter>) -> String {
        /// Members that are named.
        const NAMED_MAX: usize = 8;
        let members = who.node().map(|me| self.members(me)).unwrap_or_default();
        let silent = members
            .into_iter()
            .filter(|(node, _)| !self.is_linked(Remote::Node(*node), transport));
        let silent: Vec<String> = silent
            .map(|(node, peer)| format!("node {} at {peer}", node.0))
            .collect();
        let named = silent[..silent.len().min(NAMED_MAX)].join(", ");
        match silent.len().saturating_sub(NAMED_MAX) {
            _ if silent.is_empty() => "all that are known are there".to_owned(),
            0 => format!("no link with {named}"),
            more => format!("no link with {named}, and {more} more"),
        }
    }

    /// The other members and where they were last, as far as is known.
    fn members(&self, me: NodeId) -> BTreeMap<NodeId, String> {
        let mut book = self.book.clone();
        if let Some(map) = self.driver.known_map() {
            book.peers.extend(view::book(&map, me).peers);
        }
        book.peers
    }

    /// A node is there: it is dialled in no other way than this one. It cannot tell two ways apart, and would close one link for the
    /// other for ever.
    fn leave_other_ways(&self, way: Remote, node: NodeId, transport: &mut Transport<Greeter>) {
        let contacts = self.behind.iter().filter(|(_, behind)| **behind == node);
        let ways = contacts.map(|(number, _)| Remote::Contact(*number));
        for remote in ways.chain([Remote::Node(node)]).filter(|other| *other != way) {
            transport.leave_dialling(LinkId { remote, number: 0 });
        }
    }

    /// Dials whoever may know the cluster, each in one way: whom `--join` names as that, at all addresses at once. Members too whose part it
    /// is to dial this one: they do so where it was before, and their links stay if it is still there.
    fn dial(&mut self, settings: &Settings, who: Who, transport: &mut Transport<Greeter>) {
        let now = clock::raw();
        let mut named = Vec::new();
        for (word, peer) in settings.join.iter().map(ToString::to_string).enumerate() {
            self.resolver.want(&peer);
            let found = self.resolver.addresses(&peer).into_iter();
            named.extend(found.map(|address| (address, word)));
        }
        for (address, word) in &named {
            let is_known = self.contacts.iter().any(|(known, _)| known == address);
            if !is_known && self.contacts.len() < CONTACTS_MAX {
                self.contacts.push((*address, *word));
            }
        }
        let is_named = |address: &SocketAddr| named.iter().any(|(named, _)| named == address);
        if let Some(me) = who.node() {
            for (node, peer) in self.members(me) {
                let remote = Remote::Node(node);
                let link = LinkId { remote, number: 0 };
                if !self.is_linked(remote, transport) {
                    self.resolver.want(&peer);
                    let mut addresses = self.resolver.addresses(&peer);
                    addresses.retain(|address| !is_named(address));
                    transport.dial_any(link, &addresses, now);
                }
            }
        }
        for (number, (address, _)) in (0..).zip(&self.contacts) {
            let remote = Remote::Contact(number);
            let link = LinkId { remote, number: 0 };
            if !is_named(address) {
                transport.leave_dialling(link);
            } else if !self.is_linked(self.known(remote), transport) {
                transport.dial(link, *address, now);
            }
        }
    }

    /// Carries out what is to be done, and sends what there is to send.
    fn step(&mut self, links: Option<(&mut Transport<Greeter>, Who)>) -> Result<(), Failure> {
        let now = clock::raw();
        self.driver.tick(now);
        let happened = self.driver.carry_out(now);
        let happened = happened.map_err(|error| {
            let directory = self.driver.directory().display();
            format!("in the data directory {directory}: {error}")
        })?;
        if let Some(refused) = happened.refused {
            return Err(format!("the cluster does not let this node start: {refused}"));
        }
        if let Some(why) = happened.dead {
            return Err(why.to_owned());
        }
        self.map = happened.map.or(self.map.take());
        self.started = happened.started.or(self.started.take());
        let Some((transport, who)) = links else {
            return Ok(());
        };
        for (remote, bytes) in happened.messages {
            let message = match who {
                Who::Joining | Who::Founding { .. } => PeerMessage::Join(Join { bytes }),
                Who::Starting { .. } | Who::Member { .. } => {
                    PeerMessage::MetaRequest(Question { id: 0, bytes })
                }
            };
            let found = transport
                .links()
                .find(|link| link.number == 0 && self.known(link.remote) == remote);
            // Whoever joins speaks with any one that answers.
            let any = || {
                transport
                    .links()
                    .find(|link| matches!(link.remote, Remote::Contact(_)))
            };
            let link = match remote {
                Remote::Contact(_) => any(),
                Remote::Node(_) | Remote::Joiner(_) => found,
            };
            if let Some(link) = link {
                transport.send(link, message);
            }
        }
        Ok(())
    }
}

fn say_what_is_awaited(settings: &Settings, who: Who, silent: &str) {
    match who {
        Who::Joining | Who::Founding { .. } => tracing::warn!(
            join = %list(&settings.join),
            "still trying to join: is one of these the peer address of a running node, and is the secret the same?"
        ),
        Who::Starting { .. } | Who::Member { .. } => tracing::warn!(
            "waiting for the other nodes of the cluster ({silent}): this start counts when the one that leads the meta group hears of it, which takes a \
             majority of that group, and the same secret"
        ),
    }
}

/// What those that were called did not like, or this node of them; none for what was not to be understood.
type Refused = Vec<(Remote, Option<HelloRefusal>)>;

/// Whether those that `--join` names are of the cluster that the directory belongs to.
struct Check {
    is_over: bool,
    since: Monotonic,
    refused: Arc<Mutex<Refused>>,
}

impl Check {
    fn new(is_over: bool) -> Check {
        Check {
            is_over,
            since: clock::raw(),
            refused: Arc::default(),
        }
    }

    fn refusals(&self) -> Refusals {
        /// What is remembered; what comes later is as the first was.
        const REFUSED_MAX: usize = 64;
        let refused = Arc::clone(&self.refused);
        Arc::new(move |link, error| {
            let refusal = match error {
                NotIntroduced::Refused(refusal) => Some(*refusal),
                NotIntroduced::RefusedByPeer { refusal, .. } => Some(*refusal),
                NotIntroduced::Garbled(_) => None,
            };
            let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
            if refused.len() < REFUSED_MAX {
                refused.push((link.remote, refusal));
            }
        })
    }

    fn on_link(&mut self, remote: Remote) {
        self.is_over |= matches!(remote, Remote::Contact(_));
    }

    /// The one of them that is of another cluster.
    fn other_cluster(&self) -> Option<u16> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.iter().find_map(|said| match said {
            (Remote::Contact(number), Some(HelloRefusal::OtherCluster)) => Some(*number),
            _ => None,
        })
    }

    /// Whether one of them has said something, or was waited for long enough.
    fn is_over(&mut self, join: &[PeerAddress], now: Monotonic) -> bool {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let has_said = refused
            .iter()
            .any(|(remote, _)| matches!(remote, Remote::Contact(_)));
        drop(refused);
        if !self.is_over && !has_said && now.since(self.since) >= CHECK {
            tracing::warn!(
                join = %list(join),
                "nobody answers there; the node goes on in the cluster that its data directory belongs to"
            );
            self.is_over = true;
        }
        self.is_over || has_said
    }
}

fn elsewhere(settings: &Settings, named: usize, cluster: ClusterId, node: ids::NodeId) -> Failure {
    let named = settings.join.get(named);
    let named = named.map_or_else(String::new, ToString::to_string);
    format!(
        "the data directory {} is that of node {} of cluster {:032x}, and --join names {named}, which is of another cluster. \
         Without --join the node goes on in its own cluster; to join the other one, give it another --dir, or, if what it had \
         may be lost, an empty one",
        settings.dir, node.0, cluster.0
    )
}

/// A build that does not say how many groups there are has a link from each worker to the one of the same number alone.
fn unlike(theirs: u16, ours: u16) -> Failure {
    format!(
        "the cluster's nodes have {theirs} workers each, and this one has {ours}, and their build cannot do with that: start it with \
         --workers {theirs}, or upgrade them first"
    )
}

fn list(peers: &[PeerAddress]) -> String {
    peers
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}

/// What a link brought; of links with the first workers of others, but for their coming.
enum Heard {
    Up(LinkId, Peer),
    Down(Remote),
    Message(Remote, bytes::Bytes),
}

fn note(event: TransportEvent<'_, Peer>) -> Option<Heard> {
    match event {
        TransportEvent::Up(link, peer) => Some(Heard::Up(link, peer)),
        TransportEvent::Down(link) | TransportEvent::Message(link, _) if link.number != 0 => None,
        TransportEvent::Down(link) => Some(Heard::Down(link.remote)),
        TransportEvent::Message(link, packet) => match PeerMessage::decode(&packet) {
            Ok(PeerMessage::MetaRequest(Question { bytes, .. })) => Some(Heard::Message(link.remote, bytes)),
            Ok(_) | Err(_) => None,
        },
        TransportEvent::Arrival(..) => None,
    }
}

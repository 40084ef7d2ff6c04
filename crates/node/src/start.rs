//! Start and end of a node, each as a list of steps.
//!
//! ```text
//!   Ports::open --> Loops::prepare --> admin port --> bootstrap --> shared --> cluster parts --> workers --> ready
//!   '---- may fail, and leaves nothing behind ---'    '-- what the last stop left is taken over, and left again if it fails
//!                                                                                                             |
//!        stopped <-- admin port ends <-- cluster parts end, the data are left <-- workers end <-- a signal ---'
//! ```

use crate::admin_source::{Shown, Source};
use crate::backup_desk::BackupDesk;
use crate::backup_jobs::{BackupJobs, Look};
use crate::backup_schedule::BackupSchedule;
use crate::bootstrap::{self, BootstrapError, Bootstrapped};
use crate::clock;
use crate::cluster_parts::ClusterParts;
use crate::keeper::Keeper;
use crate::listener::{self, Listener};
use crate::lobby::Lobby;
use crate::mailboxes::Mailboxes;
use crate::offload_jobs::OffloadJobs;
use crate::ports::Ports;
use crate::random;
use crate::service_manager;
use crate::shutdown::Shutdown;
use crate::start_error::{StartError, opening, trying};
use crate::start_progress::StartProgress;
use crate::status;
use crate::view::View;
use crate::worker::{WAKER, Worker};
use crate::{config_file, memory, process};
use gateway::{Gateway, HandoverImage, Hooks, NodeName, Shared, Topology};
use ids::{Boot, DurabilityMode, GroupCount, Groups, HashSeed, PartitionCount, Prng};
use mio::{Poll, Waker};
use options::{DurabilityChoice, LogLevel, Settings};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Ends the node with whichever worker ends first, by a panic too: one without the groups of a worker is no node, and
/// clients of the others would wait for these for ever.
struct EndOfWorker {
    shared: Arc<Shared>,
    shutdown: Arc<Shutdown>,
    mailboxes: Arc<Mailboxes>,
}

impl Drop for EndOfWorker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shutdown.abandon();
        }
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        (0..self.mailboxes.workers()).for_each(|worker| self.mailboxes.wake(worker));
    }
}

/// Lowers `maxclients` to what the limit of open files leaves room for, as Redis does: one that is refused is told so,
/// one for whom there is no descriptor waits for ever.
fn fit_clients(settings: &mut Settings, workers: usize) -> Result<(), StartError> {
    let asked = settings.maxclients;
    let room = memory::room_for_clients(asked.into(), workers);
    if room >= asked.into() {
        return Ok(());
    }
    let limit = memory::raise_descriptors(0);
    if room == 0 {
        let why = format!(
            "it is {limit}, and a node with so many workers needs more than {}: raise it with ulimit -n",
            memory::descriptors_needed(workers)
        );
        return Err(StartError::new("the limit of open files is too low", why));
    }
    tracing::warn!(
        asked,
        maxclients = room,
        limit,
        "maxclients is lowered to what the limit of open files leaves room for; raise it with ulimit -n"
    );
    let lowered = settings.set_all(&[(b"maxclients", room.to_string().as_bytes())]);
    lowered.expect("it is at least one and less than what was asked for");
    Ok(())
}

/// What clients of the cluster endpoint know the node by: another one at each start, as its data are.
fn node_name(prng: &mut Prng) -> NodeName {
    let mut name = NodeName::default();
    for bytes in name.0.chunks_mut(8) {
        bytes.copy_from_slice(&prng.next_u64().to_le_bytes()[..bytes.len()]);
    }
    name
}

/// The groups of a cluster that this node makes, and the partitions that they host.
fn new_groups(settings: &Settings, workers: u16) -> Result<Groups, StartError> {
    let partitions = PartitionCount::new(settings.partitions);
    let partitions = partitions.expect("the option's bounds are those of a partition count");
    let count = settings
        .groups
        .unwrap_or_else(|| GroupCount::for_workers(workers).get().min(partitions.get()));
    let count = GroupCount::new(count).expect("the option's bounds are those of a group count");
    Groups::new(count, partitions).ok_or_else(|| {
        let what = format!(
            "{} groups cannot share {} partitions: lower groups, or raise partitions",
            count.get(),
            partitions.get()
        );
        StartError::new(what, "each group hosts one partition at least")
    })
}

/// The mode belongs to a cluster, and a node without a peer port has none.
fn check_durability(settings: &Settings) -> Result<(), StartError> {
    if settings.peer_port.is_some() || settings.durability == DurabilityChoice::Memory {
        return Ok(());
    }
    let word = settings.durability.word();
    let what = format!("a node without a peer port has no durability but memory, and {word} is asked for");
    Err(StartError::new(
        what,
        "give it a --peer-port, or leave --durability out",
    ))
}

/// The settings say what the cluster has, whatever was asked for.
fn take_durability(settings: &mut Settings, of_cluster: DurabilityMode, begun: DurabilityMode) {
    let choice_of = |mode| match mode {
        DurabilityMode::Memory => DurabilityChoice::Memory,
        DurabilityMode::Relaxed => DurabilityChoice::Relaxed,
        DurabilityMode::Strict => DurabilityChoice::Strict,
    };
    let of_cluster = choice_of(of_cluster);
    let asked = settings.durability;
    // That of the default was not asked for.
    if asked != of_cluster && asked != Settings::default().durability {
        tracing::warn!(
            asked = asked.word(),
            durability = of_cluster.word(),
            "durability is the cluster's: CONFIG SET durability changes it, for all nodes"
        );
    }
    settings.take_durability(choice_of(begun));
}

/// How many workers there are: not more than groups, they would own nothing.
fn workers_of(settings: &Settings) -> usize {
    let workers = match settings.workers {
        Some(workers) => usize::from(workers),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    workers.clamp(1, usize::from(settings.groups.unwrap_or(GroupCount::CREATED_MAX)))
}

/// What the workers' loops wait with, and what lies between them.
struct Loops {
    /// One for each worker.
    polls: Vec<Poll>,
    mailboxes: Arc<Mailboxes>,
    offload_jobs: OffloadJobs,
}

impl Loops {
    fn prepare(workers: usize) -> Result<Loops, StartError> {
        let mut polls = Vec::new();
        let mut wakers = Vec::new();
        for _ in 0..workers {
            let poll = trying("cannot watch sockets", Poll::new())?;
            wakers.push(trying("cannot make a waker", Waker::new(poll.registry(), WAKER))?);
            polls.push(poll);
        }
        let mailboxes = Mailboxes::new(wakers);
        let offload_jobs = trying(
            "cannot start the thread for offload jobs",
            OffloadJobs::start(mailboxes.clone()),
        )?;
        Ok(Loops {
            polls,
            mailboxes,
            offload_jobs,
        })
    }
}

/// The port for operators, if there is one, and what it shows.
struct AdminPort {
    source: Arc<Source>,
    server: Option<(admin::Handle, u16)>,
}

impl AdminPort {
    fn open(
        settings: &Settings,
        ports: &mut Ports,
        progress: Arc<StartProgress>,
    ) -> Result<AdminPort, StartError> {
        let source = Arc::new(Source::new(settings, progress));
        let Some(listener) = ports.admin.take() else {
            let server = None;
            return Ok(AdminPort { source, server });
        };
        let port = trying("cannot read the admin port's address", listener.local_addr())?.port();
        let key = trying("cannot read the system's randomness", random::bytes())?;
        let spawned = admin::spawn(listener, source.clone(), memory::admin_connections(), key);
        let server = Some((trying("cannot start the admin port", spawned)?, port));
        Ok(AdminPort { source, server })
    }
}

/// From here on a signal ends the node in order: it may have taken over what the last stop left.
fn watch_signals() -> Result<Arc<AtomicBool>, StartError> {
    let told_to_stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        let registered = signal_hook::flag::register(signal, told_to_stop.clone());
        trying("cannot watch signals", registered)?;
    }
    Ok(told_to_stop)
}

/// What a node has to do with a cluster when it begins.
enum Membership {
    /// There is no cluster.
    Alone,
    Member(Box<Bootstrapped>),
    /// It was told to stop before the cluster had counted its start.
    Stopped,
}

impl Membership {
    /// Waits until the cluster has counted this start; clients are told meanwhile that the node is not ready.
    fn begin(
        settings: &Settings,
        ports: &mut Ports,
        new_groups: Groups,
        workers: u16,
        told_to_stop: &AtomicBool,
        progress: &Arc<StartProgress>,
    ) -> Result<Membership, StartError> {
        if ports.peer_address.is_none() {
            return Ok(Membership::Alone);
        }
        let lobby = trying(
            "cannot answer clients before the node is ready",
            Lobby::open(std::mem::take(&mut ports.listeners), settings, progress.clone()),
        )?;
        let client_ports = (ports.port, ports.cluster_port);
        let begun = bootstrap::begin(
            settings,
            client_ports,
            new_groups,
            workers,
            told_to_stop,
            progress,
        );
        ports.listeners = trying("cannot go on with the clients that have waited", lobby.close())?;
        match begun {
            Ok(bootstrapped) => Ok(Membership::Member(Box::new(bootstrapped))),
            Err(BootstrapError::Stopped) => Ok(Membership::Stopped),
            Err(BootstrapError::Failed(what)) => Err(StartError::new(what, "the node does not start")),
        }
    }
}

/// What the workers of a node share, and the randomness that their gateways are given.
struct Common {
    shared: Arc<Shared>,
    secret: HashSeed,
    prng: Prng,
}

impl Common {
    fn new(
        settings: Settings,
        ports: &Ports,
        workers: usize,
        new_groups: Groups,
        bootstrapped: Option<&Bootstrapped>,
    ) -> Result<Common, StartError> {
        let groups = bootstrapped.map_or(new_groups, |bootstrapped| bootstrapped.groups);
        // The name that clients see and the secret that orders keys share no randomness: whoever could foresee the
        // order could choose keys that collide.
        let secret = HashSeed(trying("cannot read the system's randomness", random::secret())?);
        let [seed, id @ ..]: [u64; 4] = trying("cannot read the system's randomness", random::secret())?;
        let mut prng = Prng::new(seed);
        let advertised = settings.advertise.clone();
        let advertised_port = advertised.as_ref().and_then(|advertised| advertised.port);
        let topology = Topology::alone(
            node_name(&mut prng),
            advertised.map_or_else(String::new, |advertised| advertised.host),
            advertised_port.or(ports.cluster_port).unwrap_or(ports.port),
            groups,
        );
        let run_id: String =
            id.iter().map(|word| format!("{word:016x}")).collect::<String>()[..40].to_owned();
        // Transactions are named by it, and groups judge by it whether their coordinator is dead: it must be the boot that the
        // cluster knows.
        let alone = || Boot(clock::now().0 as u64);
        let boot = bootstrapped.map_or_else(alone, |bootstrapped| bootstrapped.own.boot);
        let mut shared = Shared::new(
            boot,
            run_id,
            clock::now().0,
            ports.port,
            groups,
            workers,
            settings,
        );
        shared.hooks = Hooks {
            clock: clock::nanos,
            monotonic: clock::raw,
            purge: memory::purge,
            allocator: memory::describe,
            sample_memory: memory::sample,
            room_for_clients: memory::room_for_clients,
            sleep: std::thread::sleep,
            rewrite_config: config_file::rewrite,
            process: process::stats,
            ..Hooks::default()
        };
        shared.cluster_port = ports.cluster_port;
        shared.set_topology(topology);
        if let Some(bootstrapped) = bootstrapped {
            shared.clients.set_node(bootstrapped.own.node);
        }
        Ok(Common {
            shared: Arc::new(shared),
            secret,
            prng,
        })
    }
}

/// Starts what speaks with other nodes, and marks the directory as that of a node that was ready.
fn start_cluster_parts(
    bootstrapped: Bootstrapped,
    ports: &Ports,
    view: &Arc<View>,
    loops: &Loops,
    shared: &Arc<Shared>,
) -> Result<ClusterParts, StartError> {
    let opened = ClusterParts::begin(
        bootstrapped,
        ports.peer_address,
        view.clone(),
        &loops.mailboxes,
        shared,
        &loops.polls,
    );
    let cluster = opening("cannot open the peer port", "peer-port", opened)?;
    // Where groups are kept, that is when those that begin here have begun.
    let marked = match cluster.disks.is_empty() {
        true => storage::set_ready(&cluster.directory.disk()).map_err(io::Error::other),
        false => Ok(()),
    };
    let what = format!("cannot use {}", cluster.directory.path().display());
    trying(what, marked)?;
    Ok(cluster)
}

/// A thread, which gives back what holds the data.
type WorkerThread = JoinHandle<Gateway>;

fn start_workers(
    loops: Loops,
    mut listeners: Vec<Listener>,
    mut common: Common,
    mut cluster: Option<&mut ClusterParts>,
    mut kept: Vec<HandoverImage>,
) -> Result<Vec<WorkerThread>, StartError> {
    let Loops {
        polls,
        mailboxes,
        offload_jobs,
    } = loops;
    let shutdown = Arc::new(Shutdown::new(polls.len() as u16));
    let backup_desk = trying(
        "cannot start the threads for backups",
        BackupDesk::start(common.shared.clone(), mailboxes.clone()),
    )?;
    let mut threads = Vec::new();
    for (number, poll) in (0..).zip(polls) {
        let mut gateway = Gateway::new(
            number,
            common.shared.clone(),
            common.secret,
            common.prng.next_u64(),
        );
        gateway.keep(&mut kept);
        let keeper = Keeper::new(
            number,
            cluster.as_mut().and_then(|cluster| cluster.disks.pop_front()),
            cluster.as_ref().map(|cluster| cluster.keeping.modes.clone()),
        );
        let worker = Worker::new(
            number,
            poll,
            // The first worker accepts for all of them, in turn: each gets the same share of connections.
            std::mem::take(&mut listeners),
            mailboxes.clone(),
            common.shared.clone(),
            offload_jobs.clone(),
            backup_desk.clone(),
            gateway,
            cluster.as_mut().and_then(|cluster| cluster.peers.pop_front()),
            keeper,
        );
        let worker = trying("cannot watch sockets", worker)?;
        let end = EndOfWorker {
            shared: common.shared.clone(),
            shutdown: shutdown.clone(),
            mailboxes: mailboxes.clone(),
        };
        let shutdown = shutdown.clone();
        let thread = std::thread::Builder::new().name(format!("worker-{number}"));
        threads.push(trying(
            "cannot start a worker",
            thread.spawn(move || {
                let _end = end;
                worker.run(&shutdown)
            }),
        )?);
    }
    Ok(threads)
}

/// How backups see the cluster.
fn look(shared: &Arc<Shared>, view: &Arc<View>, cluster: Option<&ClusterParts>) -> Look {
    let (shared, view, me) = (shared.clone(), view.clone(), cluster.map(|cluster| cluster.node));
    Arc::new(move || match me {
        Some(me) => status::cluster_view(&shared, &view, me),
        None => status::alone_view(&shared),
    })
}

/// For how long a node that has left still says so on its admin port: whoever waits for it there looks several times a second.
const LEFT_SHOWN: Duration = Duration::from_secs(1);

/// A node that serves clients.
struct Running {
    threads: Vec<WorkerThread>,
    cluster: Option<ClusterParts>,
    shared: Arc<Shared>,
    mailboxes: Arc<Mailboxes>,
    view: Arc<View>,
    admin: AdminPort,
}

impl Running {
    /// Waits until the node stops, and ends it part by part.
    fn wait(self, told_to_stop: Arc<AtomicBool>) -> Result<(), StartError> {
        let mut signals = trying("cannot watch signals", Signals::new([SIGTERM, SIGINT]))?;
        let handle = signals.handle();
        let watcher = {
            let (shared, mailboxes) = (self.shared.clone(), self.mailboxes);
            std::thread::spawn(move || {
                let stop = || {
                    shared.is_stopping.store(true, Ordering::Relaxed);
                    (0..mailboxes.workers()).for_each(|worker| mailboxes.wake(worker));
                };
                if told_to_stop.load(Ordering::Relaxed) {
                    stop();
                }
                for signal in signals.forever() {
                    tracing::info!(signal, "stopping");
                    service_manager::tell_stopping();
                    stop();
                }
            })
        };
        let mut panicked = false;
        let mut gateways = Vec::new();
        for thread in self.threads {
            match thread.join() {
                Ok(gateway) => gateways.push(gateway),
                Err(_) => panicked = true,
            }
        }
        // It may have been told by a client, or have failed.
        service_manager::tell_stopping();
        if let Some(cluster) = self.cluster {
            let is_wanted = !panicked && !self.shared.leaves_nothing.load(Ordering::Relaxed);
            cluster.end(is_wanted.then_some(gateways), !panicked);
        }
        handle.close();
        drop(watcher.join());
        if let Some((server, _)) = self.admin.server {
            if self.view.has_left() {
                std::thread::sleep(LEFT_SHOWN);
            }
            server.shutdown();
        }
        if panicked {
            return Err(StartError::new("a worker failed", "see the log"));
        }
        tracing::info!("stopped");
        match self.view.why_ended() {
            None => Ok(()),
            Some(why) => Err(StartError::new("the node has stopped", why)),
        }
    }
}

/// Runs a node until SIGTERM, SIGINT or `SHUTDOWN`. `set_log_level` makes the log follow the settings.
pub fn run(
    mut settings: Settings,
    set_log_level: impl Fn(LogLevel) + Send + Sync + 'static,
) -> Result<(), StartError> {
    check_durability(&settings)?;
    let workers = workers_of(&settings);
    let new_groups = new_groups(&settings, workers as u16)?;
    set_log_level(settings.log_level);
    fit_clients(&mut settings, workers)?;

    // Whatever may fail comes before the node takes over what the last stop left.
    let mut ports = Ports::open(&settings)?;
    let loops = Loops::prepare(workers)?;
    let progress = Arc::<StartProgress>::default();
    let admin = AdminPort::open(&settings, &mut ports, progress.clone())?;

    let told_to_stop = watch_signals()?;
    progress.waits();
    let membership = Membership::begin(
        &settings,
        &mut ports,
        new_groups,
        workers as u16,
        &told_to_stop,
        &progress,
    )?;
    let mut bootstrapped = match membership {
        Membership::Alone => None,
        Membership::Member(bootstrapped) => Some(*bootstrapped),
        Membership::Stopped => {
            tracing::info!("stopped before the cluster has counted this start");
            return Ok(());
        }
    };
    let kept = bootstrapped.as_mut();
    let kept = kept.map(|bootstrapped| std::mem::take(&mut bootstrapped.kept.images));
    let reads = bootstrapped.as_ref().map(Bootstrapped::state_reads);
    if let Some(bootstrapped) = &bootstrapped {
        take_durability(
            &mut settings,
            bootstrapped.map.durability,
            bootstrapped.durability,
        );
    }
    let addresses = listener::describe(&settings.bind);
    let common = Common::new(settings, &ports, workers, new_groups, bootstrapped.as_ref())?;
    let shared = common.shared.clone();
    let view = Arc::new(View::default());
    let start = |bootstrapped| start_cluster_parts(bootstrapped, &ports, &view, &loops, &shared);
    let mut cluster = bootstrapped.map(start).transpose()?;
    let mailboxes = loops.mailboxes.clone();
    let Ports {
        listeners,
        port,
        cluster_port,
        ..
    } = ports;
    if let Some(reads) = &reads {
        reads.announce(&shared);
    }
    let threads = start_workers(
        loops,
        listeners,
        common,
        cluster.as_mut(),
        kept.unwrap_or_default(),
    )?;
    memory::Sampler::new().keep_sampling(&shared, true);
    let shown = |cluster: &ClusterParts| (view.clone(), cluster.node, cluster.inputs.clone());
    let backup_jobs = BackupJobs::new(shared.clone(), look(&shared, &view, cluster.as_ref()));
    if let Some(cluster) = &cluster {
        let started = BackupSchedule::start(shared.clone(), view.clone(), cluster.node, backup_jobs.clone());
        if let Err(error) = started {
            // The node serves clients already: it is not worth its end.
            tracing::error!(%error, "no thread for the schedule of backups: this node takes none by itself");
        }
    }
    admin.source.show(Shown {
        shared: shared.clone(),
        cluster: cluster.as_ref().map(shown),
        backup_jobs,
    });
    let groups = shared.groups;
    let admin_port = admin.server.as_ref().map(|(_, port)| *port);
    let tell_ready = move || {
        tracing::info!(
            port,
            cluster_port,
            bind = addresses,
            workers,
            groups = groups.get(),
            partitions = groups.partitions().get(),
            admin_port,
            "ready for clients"
        );
        service_manager::tell_ready();
    };
    match reads.filter(|reads| !reads.states.is_empty()) {
        Some(reads) => {
            tracing::info!(port, "serves clients, and reads what it kept");
            let begun = reads.begin(&mailboxes, &shared, tell_ready);
            trying("cannot start the threads that read what was kept", begun)?;
        }
        None => tell_ready(),
    }
    Running {
        threads,
        cluster,
        shared,
        mailboxes,
        view,
        admin,
    }
    .wait(told_to_stop)
}

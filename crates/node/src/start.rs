//! Start and end of a node, each as a list of steps.

use crate::announcing;
use crate::bootstrap::{self, Born, Unborn};
use crate::clock;
use crate::handover;
use crate::listener::{self, Listener};
use crate::lobby::Lobby;
use crate::mailboxes::Mailboxes;
use crate::meta::{self, Desk, Input, Outbox};
use crate::metrics::metrics;
use crate::offload_jobs::OffloadJobs;
use crate::peers::{Handed, Peers};
use crate::random;
use crate::recovery;
use crate::shutdown::Shutdown;
use crate::status;
use crate::transactions;
use crate::view::View;
use crate::worker::{WAKER, Worker};
use crate::{config_file, memory, process};
use admin::{Access, AdminSource, ClusterView, Health, Recovered, Recovery, TransactionsView};
use gateway::{Endpoint, Gateway, Hooks, NodeName, Shared, Topology, is_same_secret};
use ids::{Boot, GroupCount, Groups, HashSeed, NodeId, PartitionCount, Prng, Token};
use mio::{Poll, Waker};
use options::{LogLevel, Settings};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread::JoinHandle;
use storage::DataDirectory;

/// Why a node did not start, in words for an operator.
#[derive(Debug)]
pub struct StartError {
    what: String,
    source: io::Error,
    /// The option that names another port, where a port was to be opened.
    port_option: Option<&'static str>,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)?;
        if self.source.kind() == io::ErrorKind::AddrInUse
            && let Some(option) = self.port_option
        {
            write!(
                f,
                " (is another server running there? choose another port with --{option})"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Names what was tried when it failed.
fn trying<T>(what: impl Into<String>, result: io::Result<T>) -> Result<T, StartError> {
    result.map_err(|source| StartError {
        what: what.into(),
        source,
        port_option: None,
    })
}

/// [`trying`] to open a port that an option names.
fn opening<T>(
    what: impl Into<String>,
    port_option: &'static str,
    result: io::Result<T>,
) -> Result<T, StartError> {
    trying(what, result).map_err(|error| StartError {
        port_option: Some(port_option),
        ..error
    })
}

/// Remembers a failure, so that others can be found too.
fn noting<T>(failures: &mut Vec<StartError>, result: Result<T, StartError>) -> Option<T> {
    result.map_err(|failure| failures.push(failure)).ok()
}

impl StartError {
    /// All of them as one.
    fn of_all(mut failures: Vec<StartError>) -> Option<StartError> {
        let first = failures.pop()?;
        if failures.is_empty() {
            return Some(first);
        }
        failures.push(first);
        let said: Vec<String> = failures.iter().map(ToString::to_string).collect();
        Some(StartError {
            what: format!("{} ports cannot be opened", said.len()),
            source: io::Error::other(said.join("; ")),
            port_option: None,
        })
    }
}

/// The port that the sockets of one endpoint listen on.
fn port_of(listeners: &[Listener]) -> Result<Option<u16>, StartError> {
    let address = listeners.first().map(|listener| listener.socket.local_addr());
    let address = trying(
        "cannot read the address of a listening socket",
        address.transpose(),
    )?;
    Ok(address.map(|address| address.port()))
}

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
        return Err(StartError {
            what: "the limit of open files is too low".to_owned(),
            source: io::Error::other(format!(
                "it is {limit}, and a node with so many workers needs more than {}: raise it with ulimit -n",
                memory::descriptors_needed(workers)
            )),
            port_option: None,
        });
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

/// What the admin port shows.
struct Source {
    /// As the operator wrote them: who may read before the cluster's own settings are known.
    settings: Settings,
    /// Empty until the node is ready for clients.
    node: OnceLock<Shown>,
}

/// What there is to be shown of a node that serves clients.
struct Shown {
    shared: Arc<Shared>,
    /// What is seen of the cluster, who the node is in it, and the thread that can change it.
    cluster: Option<(Arc<View>, NodeId, mpsc::Sender<Input>)>,
}

/// What is said of a node that is not ready.
const STARTING: &str = "starting: the cluster has not counted this start yet, which takes a majority of the nodes that \
                        have the meta group; the log says whom it waits for";

impl Source {
    fn settings(&self) -> Arc<Settings> {
        match self.node.get() {
            Some(node) => node.shared.settings(),
            None => Arc::new(self.settings.clone()),
        }
    }
}

impl AdminSource for Source {
    fn access(&self) -> Access {
        let settings = self.settings();
        match settings.requirepass {
            Some(_) => Access::Password,
            None if settings.protected_mode => Access::Loopback,
            None => Access::Open,
        }
    }

    fn is_password(&self, given: &[u8]) -> bool {
        let settings = self.settings();
        let expected = settings.requirepass.as_ref();
        expected.is_some_and(|expected| is_same_secret(given, expected.as_bytes()))
    }

    fn names(&self) -> Vec<String> {
        let settings = self.settings();
        let advertised = settings.advertise.iter();
        advertised.map(|advertised| advertised.host.clone()).collect()
    }

    fn starting(&self) -> Option<String> {
        self.node.get().is_none().then(|| STARTING.to_owned())
    }

    fn metrics(&self) -> String {
        let shown = self.node.get().map(|Shown { shared, cluster }| {
            let cluster = cluster.as_ref();
            metrics(shared, cluster.map(|(view, me, _)| (&**view, *me)))
        });
        shown.unwrap_or_default()
    }

    fn cluster(&self) -> ClusterView {
        match self.node.get() {
            Some(Shown {
                shared,
                cluster: Some((view, me, _)),
            }) => status::cluster_view(shared, view, *me),
            _ => ClusterView::alone(),
        }
    }

    fn transactions(&self) -> TransactionsView {
        let shown = self.node.get().map(|Shown { shared, cluster }| {
            let me = cluster.as_ref().map_or(1, |(_, me, _)| me.0);
            transactions::view(shared, me)
        });
        shown.unwrap_or_default()
    }

    fn recover(&self, recovery: &Recovery) -> Result<Recovered, String> {
        match self.node.get() {
            Some(Shown {
                shared,
                cluster: Some((view, me, inputs)),
            }) => recovery::recover(shared, view, *me, inputs, recovery),
            _ => Err("this node is in no cluster".to_owned()),
        }
    }

    fn health(&self) -> Health {
        match self.node.get() {
            None => Health::Unhealthy(STARTING.to_owned()),
            Some(node) if node.shared.is_stopping.load(Ordering::Relaxed) => {
                Health::Unhealthy("stopping".to_owned())
            }
            Some(_) => Health::Ok,
        }
    }
}

/// What clients of the cluster endpoint know the node by: another one at each start, as its data are.
fn node_name(prng: &mut Prng) -> NodeName {
    let mut name = NodeName::default();
    for bytes in name.0.chunks_mut(8) {
        bytes.copy_from_slice(&prng.next_u64().to_le_bytes()[..bytes.len()]);
    }
    name
}

/// The parts of a node that know of other nodes.
struct ClusterParts {
    /// One for each worker.
    peers: VecDeque<Peers>,
    inputs: mpsc::Sender<Input>,
    thread: JoinHandle<()>,
    /// Locked as long as the node runs.
    directory: DataDirectory,
    node: NodeId,
    token: Token,
}

impl ClusterParts {
    fn begin(
        born: Born,
        peer_address: Option<SocketAddr>,
        view: Arc<View>,
        mailboxes: &Arc<Mailboxes>,
        shared: &Arc<Shared>,
        polls: &[Poll],
        (inputs, received): (mpsc::Sender<Input>, mpsc::Receiver<Input>),
    ) -> io::Result<ClusterParts> {
        let Born {
            directory,
            own,
            token,
            started,
            driver,
            map,
            book,
            announcement,
            ..
        } = born;
        let node = own.node;
        let outbox = Arc::new(Outbox::default());
        let handed: Handed = Arc::new(polls.iter().map(|_| Mutex::default()).collect());
        let mut peers = VecDeque::new();
        for (worker, poll) in (0..).zip(polls) {
            let registry = poll.registry().try_clone()?;
            let seed = random::secret::<1>()?[0];
            let mut links = Peers::new(
                &own,
                worker,
                registry,
                view.clone(),
                handed.clone(),
                inputs.clone(),
                outbox.clone(),
                seed,
            );
            if let (0, Some(address)) = (worker, peer_address) {
                links.listen(address)?;
            }
            peers.push_back(links);
        }
        let desk = Desk {
            view,
            outbox,
            mailboxes: mailboxes.clone(),
            shared: shared.clone(),
            started,
            disk: directory.disk(),
            book: Mutex::new(book),
        };
        tracing::info!(
            cluster = format!("{:032x}", own.cluster.0),
            node = own.node.0,
            boot = own.boot.0,
            client = announcement.client,
            cluster_endpoint = announcement.cluster,
            peer = announcement.peer,
            "this node is a member, and announces these addresses"
        );
        desk.show(map);
        let thread = std::thread::Builder::new()
            .name("meta".to_owned())
            .spawn(move || meta::run(driver, &received, &desk))?;
        Ok(ClusterParts {
            peers,
            inputs,
            thread,
            directory,
            node,
            token,
        })
    }

    /// Ends, and leaves the data to the next start, if they are given.
    fn end(self, gateways: Option<Vec<Gateway>>) {
        // It may have ended by itself, because its log could not be written.
        drop(self.inputs.send(Input::Stop));
        drop(self.thread.join());
        let Some(gateways) = gateways else { return };
        let (mut kept, mut lost) = (Vec::new(), Vec::new());
        let now = clock::raw();
        for gateway in gateways {
            let (some, others) = gateway.into_handover_images(now);
            kept.extend(some);
            lost.extend(others.iter().map(|group| group.number()));
        }
        if !lost.is_empty() {
            tracing::error!(groups = ?lost, "not handed over, because a transaction in these groups has not ended");
        }
        if let Err(error) = handover::leave(self.directory.disk(), self.node, &[self.token], kept) {
            tracing::error!(
                %error,
                "the data could not be handed over to the next start: what no other node holds is lost"
            );
        }
    }
}

/// The groups of a cluster that this node makes, and the partitions that they host.
fn new_groups(settings: &Settings, workers: u16) -> Result<Groups, StartError> {
    let partitions = PartitionCount::new(settings.partitions);
    let partitions = partitions.expect("the option's bounds are those of a partition count");
    let count = settings
        .groups
        .unwrap_or_else(|| GroupCount::for_workers(workers).get().min(partitions.get()));
    let count = GroupCount::new(count).expect("the option's bounds are those of a group count");
    Groups::new(count, partitions).ok_or_else(|| StartError {
        what: format!(
            "{} groups cannot share {} partitions: lower groups, or raise partitions",
            count.get(),
            partitions.get()
        ),
        source: io::Error::other("each group hosts one partition at least"),
        port_option: None,
    })
}

/// Runs a node until SIGTERM, SIGINT or `SHUTDOWN`. `set_log_level` makes the log follow the settings.
pub fn run(
    mut settings: Settings,
    set_log_level: impl Fn(LogLevel) + Send + Sync + 'static,
) -> Result<(), StartError> {
    let workers = match settings.workers {
        Some(workers) => usize::from(workers),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    // More workers than groups would own nothing.
    let workers = workers.clamp(1, usize::from(settings.groups.unwrap_or(GroupCount::MAX)));
    let new_groups = new_groups(&settings, workers as u16)?;
    set_log_level(settings.log_level);

    fit_clients(&mut settings, workers)?;
    let addresses = listener::describe(&settings.bind);
    // All of them before the first is complained of: whoever has to choose ports chooses once.
    let mut failures = Vec::new();
    let opened = listener::open(&settings, Endpoint::AnyNode, settings.port);
    let any_node = noting(
        &mut failures,
        opening("cannot listen for clients", "port", opened),
    );
    let opened = match settings.cluster_port {
        None => Ok(Vec::new()),
        Some(port) => listener::open(&settings, Endpoint::Cluster, port),
    };
    let opened = opening("cannot open the cluster endpoint", "cluster-port", opened);
    let cluster = noting(&mut failures, opened);
    let admin_listener = settings.admin_port.and_then(|port| {
        let address = SocketAddr::new(settings.bind[0].ip, port);
        let what = format!("cannot listen on the admin port {address}");
        noting(
            &mut failures,
            opening(what, "admin-port", TcpListener::bind(address)),
        )
    });
    let peer_address = announcing::peer_address(&settings);
    // Opened by the links themselves, later: what was taken over by a start that fails would have to be left again.
    let free = peer_address.map(TcpListener::bind).transpose().map(drop);
    noting(
        &mut failures,
        opening("cannot open the peer port", "peer-port", free),
    );
    if let Some(failure) = StartError::of_all(failures) {
        return Err(failure);
    }
    let mut listeners = any_node.expect("it did not fail");
    let cluster = cluster.expect("it did not fail");
    let port = port_of(&listeners)?.expect("it was opened on one address at least");
    let cluster_port = port_of(&cluster)?;
    listeners.extend(cluster);

    // Whatever may fail comes before the node takes over what the last stop left.
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
    let source = Arc::new(Source {
        settings: settings.clone(),
        node: OnceLock::new(),
    });
    let admin = match admin_listener {
        None => None,
        Some(listener) => {
            let port = trying("cannot read the admin port's address", listener.local_addr())?.port();
            let spawned = admin::spawn(listener, source.clone(), memory::admin_connections());
            Some((trying("cannot start the admin port", spawned)?, port))
        }
    };

    // From here on a signal ends the node in order: it may have taken over what the last stop left.
    let told_to_stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        let registered = signal_hook::flag::register(signal, told_to_stop.clone());
        trying("cannot watch signals", registered)?;
    }
    let born = match peer_address {
        None => None,
        Some(_) => {
            let lobby = trying(
                "cannot answer clients before the node is ready",
                Lobby::open(listeners, &settings),
            )?;
            let begun = bootstrap::begin(
                &settings,
                (port, cluster_port),
                new_groups,
                workers as u16,
                &told_to_stop,
            );
            listeners = trying("cannot go on with the clients that have waited", lobby.close())?;
            match begun {
                Ok(born) => Some(born),
                Err(Unborn::Stopped) => {
                    tracing::info!("stopped before the cluster has counted this start");
                    return Ok(());
                }
                Err(Unborn::Failed(what)) => {
                    return Err(StartError {
                        what,
                        source: io::Error::other("the node does not start"),
                        port_option: None,
                    });
                }
            }
        }
    };
    let groups = born.as_ref().map_or(new_groups, |born| born.groups);
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
        advertised_port.or(cluster_port).unwrap_or(port),
        groups,
    );
    let run_id: String = id.iter().map(|word| format!("{word:016x}")).collect::<String>()[..40].to_owned();
    // Transactions are named by it, and groups judge by it whether their coordinator is dead: it must be the boot that the
    // cluster knows.
    let alone = || Boot(clock::now().0 as u64);
    let boot = born.as_ref().map_or_else(alone, |born| born.own.boot);
    let mut shared = Shared::new(boot, run_id, clock::now().0, port, groups, workers, settings);
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
    shared.cluster_port = cluster_port;
    shared.set_topology(topology);
    if let Some(born) = &born {
        shared.clients.set_node(born.own.node);
    }
    let shared = Arc::new(shared);
    let view = Arc::new(View::default());
    let (inputs, received) = mpsc::channel();

    let mut kept = Vec::new();
    let mut cluster = match born {
        None => None,
        Some(mut born) => {
            kept = std::mem::take(&mut born.kept);
            let opened = ClusterParts::begin(
                born,
                peer_address,
                view.clone(),
                &mailboxes,
                &shared,
                &polls,
                (inputs, received),
            );
            Some(opening("cannot open the peer port", "peer-port", opened)?)
        }
    };
    if let Some(cluster) = &cluster {
        let marked = storage::set_ready(&cluster.directory.disk()).map_err(io::Error::other);
        trying(
            format!("cannot use {}", cluster.directory.path().display()),
            marked,
        )?;
    }
    let shutdown = Arc::new(Shutdown::new(workers as u16));
    let mut listeners = Some(listeners);
    let mut threads = Vec::new();
    for (number, poll) in (0..).zip(polls) {
        // The first worker accepts for all of them, in turn: each gets the same share of connections.
        let listeners = listeners.take().unwrap_or_default();
        let mut gateway = Gateway::new(number, shared.clone(), secret, prng.next_u64());
        gateway.keep(&mut kept);
        let worker = Worker::new(
            number,
            poll,
            listeners,
            mailboxes.clone(),
            shared.clone(),
            offload_jobs.clone(),
            gateway,
            cluster.as_mut().and_then(|cluster| cluster.peers.pop_front()),
        );
        let worker = trying("cannot watch sockets", worker)?;
        let end = EndOfWorker {
            shared: shared.clone(),
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
    memory::Sampler::new().keep_sampling(&shared, true);
    let shown = Shown {
        shared: shared.clone(),
        cluster: cluster
            .as_ref()
            .map(|cluster| (view.clone(), cluster.node, cluster.inputs.clone())),
    };
    if source.node.set(shown).is_err() {
        unreachable!("it is set here alone");
    }
    let admin_port = admin.as_ref().map(|(_, port)| *port);
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

    let mut signals = trying("cannot watch signals", Signals::new([SIGTERM, SIGINT]))?;
    let handle = signals.handle();
    let watcher = {
        let (shared, mailboxes) = (shared.clone(), mailboxes.clone());
        std::thread::spawn(move || {
            if told_to_stop.load(Ordering::Relaxed) {
                shared.is_stopping.store(true, Ordering::Relaxed);
                (0..mailboxes.workers()).for_each(|worker| mailboxes.wake(worker));
            }
            for signal in signals.forever() {
                tracing::info!(signal, "stopping");
                shared.is_stopping.store(true, Ordering::Relaxed);
                (0..mailboxes.workers()).for_each(|worker| mailboxes.wake(worker));
            }
        })
    };
    let mut panicked = false;
    let mut gateways = Vec::new();
    for thread in threads {
        match thread.join() {
            Ok(gateway) => gateways.push(gateway),
            Err(_) => panicked = true,
        }
    }
    if let Some(cluster) = cluster {
        let is_wanted = !panicked && !shared.leaves_nothing.load(Ordering::Relaxed);
        cluster.end(is_wanted.then_some(gateways));
    }
    handle.close();
    drop(watcher.join());
    if let Some((handle, _)) = admin {
        handle.shutdown();
    }
    if panicked {
        return Err(StartError {
            what: "a worker failed".to_owned(),
            source: io::Error::other("see the log"),
            port_option: None,
        });
    }
    tracing::info!("stopped");
    match view.why_ended() {
        None => Ok(()),
        Some(why) => Err(StartError {
            what: "the node has stopped".to_owned(),
            source: io::Error::other(why),
            port_option: None,
        }),
    }
}

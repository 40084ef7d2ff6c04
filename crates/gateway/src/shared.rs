//! What the workers of a node share. Nothing here is touched per command.

use crate::backup_stats::BackupStats;
use crate::client::Clients;
use crate::latency::LatencyMonitor;
use crate::loading::Loading;
use crate::move_budget::MoveBudget;
use crate::notices::Notices;
use crate::pause::SharedPause;
use crate::pubsub::Subscriptions;
use crate::saves::Saves;
use crate::script_cache::SharedScripts;
use crate::stats::WorkerStats;
use crate::topology::{Links, NodeName, Topology};
use crate::transaction_stats::TransactionStats;
use ids::{Boot, GroupId, Groups, SemanticsVersion};
use options::{Change, DurabilityChoice, Parameter, SetError, Settings};
use replica::PieceSizes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One per node, behind an `Arc`.
pub struct Shared {
    /// This start of the process.
    pub boot: Boot,
    /// Forty hexadecimal digits that name this start, as `INFO` shows them.
    pub run_id: String,
    /// When the node started, Unix milliseconds.
    pub started_at: i64,
    /// The groups as they were when the process started. What they were founded with, and which worker has which, is the same ever after;
    /// [`Shared::key_groups`] says what there is now.
    pub groups: Groups,
    /// The port of the any-node endpoint.
    pub port: u16,
    /// The port of the cluster endpoint, if there is one: told by the node before its workers start.
    pub cluster_port: Option<u16>,
    /// The newest rules of entries that this build follows; others only where a test has builds that differ.
    pub semantics: SemanticsVersion,
    /// Connections.
    pub clients: Clients,
    /// How many listen to each channel.
    pub subscriptions: Subscriptions,
    /// Connections that watch all commands. Looked at for every command, and hardly ever changed.
    pub monitors: AtomicUsize,
    /// Connections accepted since the start.
    pub accepted: AtomicU64,
    /// Connections refused because there were too many.
    pub refused: AtomicU64,
    /// Log lines about connections that could not be accepted.
    pub accept_notices: Notices,
    /// Log lines about clients that sent HTTP.
    pub http_notices: Notices,
    /// One for each worker.
    pub workers: Vec<Arc<WorkerStats>>,
    /// `DEBUG SET-ACTIVE-EXPIRE`.
    pub active_expiry: AtomicBool,
    /// Steps that a command may take on a worker itself: more are offloaded. `DEBUG SET-STEPS-MAX`.
    pub steps_max: AtomicUsize,
    /// The node is to stop.
    pub is_stopping: AtomicBool,
    /// And its data are not wanted any more: `SHUTDOWN NOSAVE`.
    pub leaves_nothing: AtomicBool,
    /// Bytes the allocator has given out, as last sampled; the most so far; and the process's resident bytes.
    pub memory: MemoryStats,
    /// Operations per second and bytes per second, as last sampled.
    pub rates: Rates,
    pub(crate) move_budget: MoveBudget,
    settings: Mutex<Held>,
    settings_version: AtomicU64,
    /// What workers tell each other of groups.
    group_board: GroupBoard,
    /// What it still reads of what it kept.
    pub loading: Loading,
    topology: Mutex<Arc<Topology>>,
    topology_version: AtomicU64,
    /// `CONFIG RESETSTAT`: what the counters were then.
    pub baseline: Mutex<Baseline>,
    /// `CLIENT PAUSE`.
    pub pause: SharedPause,
    /// Entries that slow logs were given: the id of the next one.
    pub slow_entries: AtomicU64,
    /// The scripts that this node knows.
    pub(crate) scripts: SharedScripts,
    /// Saves that clients of this node have asked for.
    pub saves: Saves,
    /// Backups that this node has taken.
    pub backups: BackupStats,
    /// What the world offers, told by the node before its workers start.
    pub hooks: Hooks,
    latency: Mutex<LatencyMonitor>,
}

/// What the workers tell each other of groups.
struct GroupBoard {
    /// How many groups each worker has made, and how many all of them have.
    made: Mutex<Vec<u16>>,
    common: AtomicU16,
    /// Of each group that there can be, whether anything can be done there: written by the worker that it is asked through, read by those
    /// whose transactions name it.
    reach: Box<[GroupReach]>,
}

impl GroupBoard {
    fn new(groups: Groups, workers: usize) -> GroupBoard {
        GroupBoard {
            made: Mutex::new(vec![groups.get(); workers]),
            common: AtomicU16::new(groups.get()),
            reach: groups.most().iter().map(|_| GroupReach::default()).collect(),
        }
    }
}

/// What can be done in a group.
#[derive(Default)]
struct GroupReach {
    /// Its leader has been out of reach for so long that nothing more is sent.
    is_cut_off: AtomicBool,
    /// Writes are refused because disks are full.
    is_full: AtomicBool,
}

/// Locks, whoever panicked while holding it: what is held so is whole after every statement.
pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The settings in force, and of those that are set for the whole cluster the versions.
struct Held {
    settings: Arc<Settings>,
    /// By name. Bounded by the names that the meta group keeps.
    versions: BTreeMap<String, u64>,
    /// Names of options that were set without a version. Bounded by the options that there are.
    set_here: BTreeSet<String>,
}

/// What only the node can do. Without a node there is no time and nothing to purge.
#[derive(Clone, Copy)]
pub struct Hooks {
    /// Nanoseconds since any fixed moment, never going back.
    pub clock: fn() -> u64,
    /// The raw monotonic clock, by which leases are counted.
    pub monotonic: fn() -> ids::Monotonic,
    /// Lets the allocator return the memory that it keeps unused.
    pub purge: fn(),
    /// The allocator's figures, for people.
    pub allocator: fn() -> String,
    /// Writes down what the process takes now, in [`Shared::memory`].
    pub sample_memory: fn(&Shared),
    /// Makes room for so many clients on a node with so many workers, and returns for how many there is.
    pub room_for_clients: fn(u64, usize) -> u64,
    /// Holds the calling worker up for so long: `DEBUG SLEEP`.
    pub sleep: fn(Duration),
    /// Writes settings into the configuration file at a path; an error says why not.
    pub rewrite_config: fn(&str, &Settings) -> Result<(), String>,
    /// What the system tells about itself and the process.
    pub process: fn() -> ProcessStats,
    /// What goes to its group in pieces.
    pub piece_sizes: PieceSizes,
    /// See [`Gateway::TURN_OUTPUT_BYTES`](crate::Gateway::TURN_OUTPUT_BYTES).
    pub turn_output_bytes: usize,
    /// How long a worker rests at least behind every piece of state that it has copied; it rests longer the longer that took.
    pub copy_rest_min: Duration,
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks {
            clock: || 0,
            monotonic: || ids::Monotonic(0),
            purge: || {},
            allocator: String::new,
            sample_memory: |_| {},
            room_for_clients: |clients, _| clients,
            sleep: |_| {},
            rewrite_config: |_, _| Err("there is no file system".to_owned()),
            process: ProcessStats::default,
            piece_sizes: PieceSizes::default(),
            turn_output_bytes: crate::Gateway::TURN_OUTPUT_BYTES,
            copy_rest_min: Duration::ZERO,
        }
    }
}

/// The process, and the system that it runs on.
#[derive(Default)]
pub struct ProcessStats {
    /// Its number.
    pub id: u32,
    /// Where its program lies.
    pub executable: String,
    /// The system's name, version and machine.
    pub system: String,
    /// The machine's memory in bytes.
    pub system_memory: u64,
    /// Processor time that the process has used itself.
    pub cpu_user_secs: f64,
    /// Processor time that the system has used for it.
    pub cpu_system_secs: f64,
}

/// Memory figures in bytes, refreshed by the node.
#[derive(Default)]
pub struct MemoryStats {
    /// Allocated by the program.
    pub allocated: AtomicU64,
    /// The largest sample of `allocated`.
    pub peak: AtomicU64,
    /// The first sample of `allocated`.
    pub at_start: AtomicU64,
    /// In pages that hold something allocated.
    pub active: AtomicU64,
    /// Resident.
    pub resident: AtomicU64,
    /// Bytes of data when `allocated` was sampled.
    pub data_at_sample: AtomicU64,
    /// The least of what was allocated beside data in the samples of the last seconds.
    pub lasting_overhead: AtomicU64,
    /// When a client of this node last emptied databases, in nanoseconds of the monotonic clock; 0 if never.
    pub flushed_at: AtomicU64,
}

/// Rates over the last samples.
#[derive(Default)]
pub struct Rates {
    /// Commands per second.
    pub commands: AtomicU64,
    /// Bytes per second from clients.
    pub input: AtomicU64,
    /// Bytes per second to clients.
    pub output: AtomicU64,
}

/// Totals that `CONFIG RESETSTAT` subtracts.
#[derive(Default, Clone)]
pub struct Baseline {
    /// By name of the field of `INFO`.
    pub totals: BTreeMap<String, u64>,
}

impl Shared {
    /// The shared part of a node that is starting.
    pub fn new(
        boot: Boot,
        run_id: String,
        started_at: i64,
        port: u16,
        groups: Groups,
        workers: usize,
        settings: Settings,
    ) -> Shared {
        let topology = Topology::alone(NodeName::default(), String::new(), port, groups);
        Shared {
            boot,
            run_id,
            started_at,
            groups,
            port,
            cluster_port: None,
            semantics: SemanticsVersion::CURRENT,
            clients: Clients::default(),
            subscriptions: Subscriptions::default(),
            monitors: AtomicUsize::new(0),
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            accept_notices: Notices::default(),
            http_notices: Notices::default(),
            workers: (0..workers).map(|_| Arc::default()).collect(),
            active_expiry: AtomicBool::new(true),
            steps_max: AtomicUsize::new(crate::offload::STEPS_MAX),
            is_stopping: AtomicBool::new(false),
            leaves_nothing: AtomicBool::new(false),
            memory: MemoryStats::default(),
            rates: Rates::default(),
            move_budget: MoveBudget::default(),
            settings: Mutex::new(Held {
                settings: Arc::new(settings),
                versions: BTreeMap::new(),
                set_here: BTreeSet::new(),
            }),
            settings_version: AtomicU64::new(1),
            group_board: GroupBoard::new(groups, workers),
            loading: Loading::new(groups),
            topology: Mutex::new(Arc::new(topology)),
            topology_version: AtomicU64::new(1),
            baseline: Mutex::default(),
            pause: SharedPause::default(),
            slow_entries: AtomicU64::new(0),
            scripts: SharedScripts::default(),
            saves: Saves::default(),
            backups: BackupStats::default(),
            hooks: Hooks::default(),
            latency: Mutex::default(),
        }
    }

    /// The groups that there are, as the map has them.
    pub fn key_groups(&self) -> Groups {
        self.topology().groups()
    }

    /// How many groups every worker has made: only these are used. Workers compare it once a turn.
    #[inline]
    pub(crate) fn common_groups(&self) -> u16 {
        self.group_board.common.load(Ordering::Acquire)
    }

    /// A worker has made so many.
    pub(crate) fn note_made(&self, worker: u16, count: u16) {
        let mut made = held(&self.group_board.made);
        made[usize::from(worker)] = count;
        let common = made.iter().copied().min().unwrap_or(count);
        self.group_board.common.fetch_max(common, Ordering::Release);
    }

    /// Changes with every `CONFIG SET`: workers compare it once a turn.
    #[inline]
    pub fn settings_version(&self) -> u64 {
        self.settings_version.load(Ordering::Acquire)
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        held(&self.settings).settings.clone()
    }

    /// `CONFIG SET` on this node alone: all of the pairs or none.
    pub fn set_settings(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), SetError> {
        let mut held = held(&self.settings);
        held.settings = Arc::new(self.changed(&held.settings, pairs)?);
        let names = pairs
            .iter()
            .filter_map(|(name, _)| std::str::from_utf8(name).ok());
        let live = names
            .filter_map(Parameter::find)
            .filter(|row| row.change == Change::Live);
        held.set_here.extend(live.map(|row| row.name.to_owned()));
        self.settings_version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The node keeps what it acknowledges, and has acknowledged, as this mode demands.
    pub fn take_durability(&self, durability: DurabilityChoice) {
        let mut held = held(&self.settings);
        let mut changed = Settings::clone(&held.settings);
        changed.take_durability(durability);
        held.settings = Arc::new(changed);
        self.settings_version.fetch_add(1, Ordering::Release);
    }

    /// What `CONFIG SET` has set, for the whole cluster or here, with the values of now; and the names of those that are secret.
    pub fn settings_that_were_set(&self) -> (BTreeMap<String, String>, Vec<String>) {
        let held = held(&self.settings);
        let names = held.versions.keys().chain(&held.set_here);
        let rows = names.filter_map(|name| Parameter::find(name));
        let (mut settings, mut secrets) = (BTreeMap::new(), BTreeSet::new());
        for row in rows.filter(|row| row.is_in_config()) {
            if row.secret {
                secrets.insert(row.name.to_owned());
            } else if let Some(value) = held.settings.get(row.name) {
                settings.insert(row.name.to_owned(), value);
            }
        }
        (settings, secrets.into_iter().collect())
    }

    /// Whether [`Shared::set_settings`] would do it.
    pub(crate) fn check_settings(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), SetError> {
        self.changed(&self.settings(), pairs).map(drop)
    }

    /// What is set for the whole cluster: names, values, and the version that the meta group has given to each, which rises.
    /// A node hears of it from the meta group and from whoever set it, in any order, and goes by the newest. What cannot be
    /// set here is told once, and left as it is.
    pub fn set_for_cluster<'a>(&self, all: impl IntoIterator<Item = (&'a str, &'a str, u64)>) {
        let mut held = held(&self.settings);
        let mut is_changed = false;
        for (name, value, version) in all {
            if held.versions.get(name).is_some_and(|known| *known >= version) {
                continue;
            }
            held.versions.insert(name.to_owned(), version);
            match self.changed(&held.settings, &[(name.as_bytes(), value.as_bytes())]) {
                Ok(changed) => {
                    held.settings = Arc::new(changed);
                    is_changed = true;
                }
                Err(error) => {
                    tracing::warn!(name, %error, "what is set for the whole cluster cannot be set here");
                }
            }
        }
        if is_changed {
            self.settings_version.fetch_add(1, Ordering::Release);
        }
    }

    /// The settings with these options set, all of them or none.
    fn changed(&self, held: &Settings, pairs: &[(&[u8], &[u8])]) -> Result<Settings, SetError> {
        let mut changed = held.clone();
        changed.set_all(pairs)?;
        if changed.maxclients > held.maxclients {
            let room = (self.hooks.room_for_clients)(changed.maxclients.into(), self.workers.len());
            if room < changed.maxclients.into() {
                return Err(SetError::Failed {
                    name: "maxclients".to_owned(),
                    reason: format!(
                        "The operating system is not able to handle the specified number of clients, try with {room}"
                    ),
                });
            }
        }
        Ok(changed)
    }

    /// Whether nothing that names this group can be done at present.
    pub(crate) fn is_cut_off(&self, group: GroupId) -> bool {
        self.group_board.reach[group.index()]
            .is_cut_off
            .load(Ordering::Relaxed)
    }

    /// Whether the leader of a group is out of reach for longer than anybody waits.
    pub(crate) fn set_cut_off(&self, group: GroupId, is_cut_off: bool) {
        self.group_board.reach[group.index()]
            .is_cut_off
            .store(is_cut_off, Ordering::Relaxed);
    }

    /// Whether nothing is written to this group at present, because disks are full.
    pub(crate) fn is_full(&self, group: GroupId) -> bool {
        self.group_board.reach[group.index()]
            .is_full
            .load(Ordering::Relaxed)
    }

    /// Sets it, by whoever has the group.
    pub(crate) fn set_full(&self, group: GroupId, is_full: bool) {
        self.group_board.reach[group.index()]
            .is_full
            .store(is_full, Ordering::Relaxed);
    }

    /// Changes with every [`Shared::set_topology`]: workers compare it once a turn.
    #[inline]
    pub fn topology_version(&self) -> u64 {
        self.topology_version.load(Ordering::Acquire)
    }

    /// The cluster as this node knows it.
    pub fn topology(&self) -> Arc<Topology> {
        held(&self.topology).clone()
    }

    /// Tells the workers of another one.
    pub fn set_topology(&self, topology: Topology) {
        let mut held = held(&self.topology);
        *held = Arc::new(topology);
        self.topology_version.fetch_add(1, Ordering::Release);
    }

    /// The latency monitor.
    pub fn latency(&self) -> MutexGuard<'_, LatencyMonitor> {
        held(&self.latency)
    }

    /// The sum of a counter over all workers.
    pub fn total(&self, counter: impl Fn(&WorkerStats) -> u64) -> u64 {
        self.workers.iter().map(|worker| counter(worker)).sum()
    }

    /// This node's connections to others: those of all workers to one node as if they were one.
    pub fn links(&self) -> Links {
        let mut all = Links::new();
        for worker in &self.workers {
            for (&name, &status) in worker.links().iter() {
                all.entry(name)
                    .and_modify(|known| {
                        known.heard_at = known.heard_at.max(status.heard_at);
                        // All of them are there since the last one came.
                        known.link.connected_at = known.link.connected_at.max(status.link.connected_at);
                        known.link.buffer_bytes += status.link.buffer_bytes;
                        known.link.waiting_bytes += status.link.waiting_bytes;
                    })
                    .or_insert(status);
            }
        }
        all
    }

    /// What all workers have written down of transactions: counts summed up, lists one behind the other.
    pub fn transactions(&self) -> TransactionStats {
        let mut sum = TransactionStats::default();
        for worker in &self.workers {
            sum.add(&worker.transaction_stats());
        }
        sum
    }

    /// What all replicas of the node have done, as of half a second ago at most.
    pub fn replica_counts(&self) -> replica::MemberCounts {
        let mut sum = replica::MemberCounts::default();
        for worker in &self.workers {
            sum += worker.cluster().counts;
        }
        sum
    }

    /// What all replicas of the node keep as fragments, as of half a second ago at most.
    pub fn coding_counts(&self) -> replica::CodingCounts {
        let mut sum = replica::CodingCounts::default();
        for worker in &self.workers {
            sum += worker.cluster().coding;
        }
        sum
    }

    /// Bytes in use: the allocator's figure, carried forward by what the data grew since it was sampled.
    pub fn used_memory(&self) -> u64 {
        let data = self.total(|worker| worker.data_bytes.get());
        let sampled = self.memory.data_at_sample.load(Ordering::Relaxed);
        (self.memory.allocated.load(Ordering::Relaxed) + data).saturating_sub(sampled)
    }

    /// Bytes that count against `maxmemory`: the data, and what is lastingly allocated beside it. A burst of
    /// requests and replies passes; if it counted, a large read would drive out the keys that were read.
    pub fn counted_memory(&self) -> u64 {
        let data = self.total(|worker| worker.data_bytes.get());
        data + self.memory.lasting_overhead.load(Ordering::Relaxed)
    }
}

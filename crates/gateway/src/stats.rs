//! What workers count.

use crate::cluster::ClusterStats;
use crate::context::Context;
use crate::disk_stats::DiskStats;
use crate::error_counts::ErrorCounts;
use crate::key_counts::Count;
use crate::library_keys::{self, Stamp};
use crate::program::group_of_key;
use crate::shared::held;
use crate::slow_log::SlowLog;
use crate::timing::Distribution;
use crate::topology::Links;
use crate::transaction_stats::TransactionStats;
use command::{CommandId, Spec};
use ids::Db;
use replica::Replica;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A number that one worker writes and anyone reads: a plain load and store, no locked instruction.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the owning worker may.
    #[inline]
    pub fn add(&self, amount: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(amount),
            Ordering::Relaxed,
        );
    }

    /// Sets. Only the owning worker may.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Reads.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one worker. Those of the second half the worker refreshes now and then, and when
/// somebody asks.
#[derive(Default)]
pub struct WorkerStats {
    /// Commands processed.
    pub commands: Counter,
    /// Bytes read from clients.
    pub input_bytes: Counter,
    /// Bytes sent to clients.
    pub output_bytes: Counter,
    /// Error replies.
    pub errors: Counter,
    /// Commands and answers that came from other workers.
    pub hops: Counter,
    /// Turns of the loop that did something.
    pub turns: Counter,
    /// Connections closed for holding too much unread output.
    pub output_limit_closes: Counter,
    /// Bytes of room for long requests that have not come.
    pub input_unfilled: Counter,
    /// Connections closed for an unfinished request that is too long.
    pub input_limit_closes: Counter,
    /// Transactions over groups that took more than one step, and scripts that ran on copies.
    pub transactions: Counter,
    /// Of those, attempts begun anew after a conflict.
    pub transaction_retries: Counter,
    /// Of those, the ones that did nothing because a condition did not hold.
    pub transactions_refused: Counter,
    /// Scripts, by the ways that they took.
    pub scripts: ScriptStats,
    /// Reads from clients' sockets that brought bytes.
    pub reads: Counter,
    /// Times that bytes were sent to clients' sockets.
    pub writes: Counter,
    /// Channels, patterns and shard channels of this worker's connections: others send their messages here while
    /// there are any.
    pub subscriptions: Counter,
    /// Connections that watch all commands.
    pub monitors: Counter,
    /// Calls, refusals before the call, and failures, by command.
    pub by_command: CommandCounters,

    /// Error replies by their first word. Locked when one is answered.
    error_counts: Mutex<ErrorCounts>,
    /// Commands that took long. Locked when there is one.
    slow_log: Mutex<SlowLog>,
    /// The groups and peers of the worker. Locked twice a second, and when somebody looks.
    cluster: Mutex<ClusterStats>,
    /// The worker's connections to other nodes. Locked twice a second, and when somebody looks.
    links: Mutex<Links>,
    /// The worker's part in transactions over several groups. Locked ten times a second, and when somebody looks.
    transaction_stats: Mutex<TransactionStats>,
    /// Connections that `CLIENT PAUSE` holds back.
    pub paused: Counter,
    /// What the worker keeps on disk.
    pub disk: DiskStats,

    /// Lookups that found a key.
    pub hits: Counter,
    /// Lookups that found none.
    pub misses: Counter,
    /// Keys that expired.
    pub expired: Counter,
    /// Keys given up for room.
    pub evicted: Counter,
    /// Deleted keys that are still to be dropped, piece by piece.
    pub lazyfree_pending: Counter,
    /// Those that were.
    pub lazyfreed: Counter,
    /// Keys that commands changed.
    pub changes: Counter,
    /// Operations applied by this worker's groups.
    pub applied: Counter,
    /// Bytes of keys, values and tables.
    pub data_bytes: Counter,
    /// Keys by database.
    pub keys: [Counter; Db::COUNT as usize],
    /// Keys with a deadline by database.
    pub keys_with_deadline: [Counter; Db::COUNT as usize],
    /// The mean of these deadlines, for each database.
    pub mean_deadline: [Counter; Db::COUNT as usize],
    /// Transactions that hold locks in the groups that this worker leads, and requests waiting there.
    pub locked: Counter,
    /// See `locked`.
    pub lock_waiters: Counter,
    /// Clients that wait for keys to be filled.
    pub blocked: Counter,
    /// Links to other nodes that broke.
    pub peer_breaks: Counter,
    /// Bytes read from other nodes.
    pub peer_input_bytes: Counter,
    /// Bytes sent to other nodes.
    pub peer_output_bytes: Counter,
}

impl WorkerStats {
    /// Error replies by their first word.
    pub fn error_counts(&self) -> MutexGuard<'_, ErrorCounts> {
        held(&self.error_counts)
    }

    /// Commands that took long.
    pub fn slow_log(&self) -> MutexGuard<'_, SlowLog> {
        held(&self.slow_log)
    }

    /// The groups and peers of the worker, as it last wrote them down.
    pub fn cluster(&self) -> MutexGuard<'_, ClusterStats> {
        held(&self.cluster)
    }

    /// The worker's connections to other nodes, as it last wrote them down.
    pub fn links(&self) -> MutexGuard<'_, Links> {
        held(&self.links)
    }

    /// The worker's part in transactions over several groups, as it last wrote it down.
    pub fn transaction_stats(&self) -> MutexGuard<'_, TransactionStats> {
        held(&self.transaction_stats)
    }

    /// Forgets what `CONFIG RESETSTAT` forgets and no baseline is kept of. See [`Distribution::clear`].
    pub fn clear(&self) {
        self.error_counts().clear();
        for id in CommandId::ALL {
            self.by_command[*id].latency.clear();
        }
    }
}

/// How scripts were carried out, calls of functions included.
#[derive(Default)]
pub struct ScriptStats {
    /// At once.
    pub at_once: Counter,
    /// On copies of what a replica here had applied, with one entry for what came of it.
    pub on_copies: Counter,
    /// As transactions, not counting those of an `EXEC`.
    pub as_transactions: Counter,
}

/// Counters indexed by [`CommandId`].
pub struct CommandCounters(Box<[CommandCounter]>);

/// What is counted of one command.
#[derive(Default)]
pub struct CommandCounter {
    /// Times it was carried out.
    pub calls: Counter,
    /// Times it was refused before that: wrong arity, no authentication, no memory.
    pub rejected: Counter,
    /// Times it answered an error.
    pub failed: Counter,
    /// Nanoseconds that it took, all together.
    pub nanos: Counter,
    /// How often it took how long, if `latency-tracking` is on.
    pub latency: Distribution,
}

impl CommandCounter {
    /// Counts the time of one call. Only the owning worker may.
    #[inline]
    pub(crate) fn took(&self, nanos: u64, tracks: bool) {
        self.nanos.add(nanos);
        if tracks {
            self.latency.count(nanos);
        }
    }
}

impl Default for CommandCounters {
    fn default() -> CommandCounters {
        CommandCounters((0..CommandId::COUNT).map(|_| CommandCounter::default()).collect())
    }
}

impl std::ops::Index<CommandId> for CommandCounters {
    type Output = CommandCounter;

    #[inline]
    fn index(&self, id: CommandId) -> &CommandCounter {
        &self.0[id.index()]
    }
}

impl Context {
    /// Whether anything has happened in the worker's groups since this was last asked.
    pub(crate) fn is_active(&mut self) -> bool {
        let happened = |replica: &Replica| {
            let local = replica.local();
            replica.keyspace().applied().0 + local.hits + local.misses + local.changes + local.waited
        };
        let activity = self.local.replicas.iter().map(happened).sum();
        std::mem::replace(&mut self.local.activity, activity) != activity
    }

    /// Writes down what the worker's groups hold and count, and how many clients are blocked.
    pub(crate) fn refresh_stats(&self, blocked: usize) {
        let (stats, replicas) = (&self.stats, &self.local.replicas);
        let sum = |figure: fn(&Replica) -> u64| replicas.iter().map(figure).sum::<u64>();
        stats.hits.set(sum(|replica| replica.local().hits));
        stats.misses.set(sum(|replica| replica.local().misses));
        stats.expired.set(sum(|replica| replica.local().expired));
        stats.evicted.set(sum(|replica| replica.local().evicted));
        let pending = sum(|replica| replica.keyspace().lazyfree_counts().pending);
        stats.lazyfree_pending.set(pending);
        let dropped = sum(|replica| replica.keyspace().lazyfree_counts().dropped);
        stats.lazyfreed.set(dropped);
        stats.changes.set(sum(|replica| replica.local().changes));
        let unsaved = sum(Replica::changes_unsaved);
        stats.disk.snapshots.changes_unsaved.set(unsaved);
        // The rest of the number is by how often the group began anew.
        let applied = sum(|replica| replica.keyspace().applied().0 & u64::from(u32::MAX));
        stats.applied.set(applied);
        stats.blocked.set(blocked as u64);
        let stamp = replicas.iter().find_map(|replica| {
            let group = replica.group();
            let mut stamps = library_keys::stamps();
            let stamp = stamps.find(|key| group_of_key(self.groups, key) == group)?;
            Some(replica.keyspace().text(Db::LIBRARIES, stamp))
        });
        if let Some(stamp) = stamp {
            let stamp = stamp.and_then(|stamp| Stamp::decode(&stamp));
            self.shared.scripts.libraries_seen.set(stamp.as_ref());
        }
        for number in 0..Db::COUNT {
            let db = Db::new(number).expect("below the count");
            let index = db.index();
            let mut count = Count::default();
            let all = replicas.iter().map(Replica::keyspace);
            all.for_each(|keyspace| count.add(Count::of(keyspace, db)));
            stats.keys[index].set(count.keys);
            stats.keys_with_deadline[index].set(count.expires);
            stats.mean_deadline[index].set(count.mean_deadline as u64);
        }
    }

    /// Looks whether a reply is an error, and counts it: as a failure of `spec`, if that was carried out.
    #[inline]
    pub(crate) fn look_at_reply(&mut self, spec: Option<&'static Spec>, reply: &[u8]) {
        if reply.first() == Some(&b'-') {
            self.count_error(&reply[1..]);
            if let Some(spec) = spec {
                self.stats.by_command[spec.id].failed.add(1);
            }
        }
    }

    pub(crate) fn count_error(&mut self, text: &[u8]) {
        self.stats.errors.add(1);
        self.stats.error_counts().count(text);
    }

    /// Counts the commands of a block as they are carried out.
    pub(crate) fn count(&mut self, spec: &'static Spec) {
        self.stats.commands.add(1);
        self.stats.by_command[spec.id].calls.add(1);
    }
}

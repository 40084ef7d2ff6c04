//! What workers tell of what they keep on disk.
//!
//! A worker's driver writes it down ten times a second, and whenever a sync or a snapshot has ended: nothing here is touched per
//! command, nor per turn. All of it is 0 where nothing is kept.

use crate::shared::Shared;
use crate::stats::Counter;
use crate::timing::{Counts, Distribution};
use ids::UnixMillis;

/// Of one worker. See the file's header.
#[derive(Default)]
pub struct DiskStats {
    /// Its log.
    pub log: LogStats,
    /// Snapshots of its replicas.
    pub snapshots: SnapshotStats,
}

/// The log of one worker.
#[derive(Default)]
pub struct LogStats {
    /// Bytes of its files.
    pub bytes: Counter,
    /// How many these are.
    pub segments: Counter,
    /// Bytes that were written since the start.
    pub written_bytes: Counter,
    /// Batches that these were written in.
    pub batches: Counter,
    /// How long syncs took.
    pub syncs: Distribution,
    /// Nanoseconds of all of them.
    pub sync_nanos: Counter,
    /// Microseconds that 99 in 100 of the last ones did not exceed.
    pub sync_p99_micros: Counter,
    /// Bytes that were written and are not synced.
    pub unsynced_bytes: Counter,
    /// For how many milliseconds something has been unsynced, and no sync has ended.
    pub unsynced_millis: Counter,
    /// 1 if a file cannot be made: nothing is acknowledged until there is room.
    pub is_full: Counter,
}

/// Snapshots of the replicas of one worker.
#[derive(Default)]
pub struct SnapshotStats {
    /// How many were written since the start.
    pub written: Counter,
    /// How many could not be.
    pub failed: Counter,
    /// 1 if the last one could not be.
    pub has_failed: Counter,
    /// Bytes of the files of the newest ones.
    pub bytes: Counter,
    /// When the oldest of these was written, Unix milliseconds; for a replica without one that is the start. 0 without replicas.
    pub oldest: Counter,
    /// Since when one is under way, Unix milliseconds; 0 if none is.
    pub storing_since: Counter,
    /// When the last one ended, Unix milliseconds, and how many milliseconds it took; 0 if none has.
    pub ended_at: Counter,
    /// See `ended_at`.
    pub took_millis: Counter,
    /// Keys that commands have changed and that none has yet: refreshed with the other figures of keys.
    pub changes_unsaved: Counter,
}

/// Of a node.
#[derive(Default)]
pub struct DiskSummary {
    /// Its logs.
    pub log: LogSummary,
    /// Snapshots of its replicas.
    pub snapshots: SnapshotSummary,
}

/// The logs of a node: [`LogStats`] of all workers.
#[derive(Default)]
pub struct LogSummary {
    /// A sum.
    pub bytes: u64,
    /// A sum.
    pub segments: u64,
    /// A sum.
    pub written_bytes: u64,
    /// A sum.
    pub batches: u64,
    /// Of all workers.
    pub syncs: Counts,
    /// A sum.
    pub sync_nanos: u64,
    /// Of the worker with the highest.
    pub sync_p99_micros: u64,
    /// A sum.
    pub unsynced_bytes: u64,
    /// Of the worker with the highest.
    pub unsynced_millis: u64,
    /// Whether it is so for any worker.
    pub is_full: bool,
}

/// Snapshots of the replicas of a node: [`SnapshotStats`] of all workers.
#[derive(Default)]
pub struct SnapshotSummary {
    /// A sum.
    pub written: u64,
    /// A sum.
    pub failed: u64,
    /// Whether it is so for any worker.
    pub has_failed: bool,
    /// A sum.
    pub bytes: u64,
    /// The oldest of all; the start where there are no replicas.
    pub oldest: UnixMillis,
    /// Since when any is under way.
    pub storing_since: Option<UnixMillis>,
    /// How many milliseconds the last one took.
    pub took_millis: Option<u64>,
    /// A sum.
    pub changes_unsaved: u64,
}

impl DiskSummary {
    /// What all workers have written down.
    pub fn of(shared: &Shared) -> DiskSummary {
        DiskSummary {
            log: LogSummary::of(shared),
            snapshots: SnapshotSummary::of(shared),
        }
    }
}

impl LogSummary {
    fn of(shared: &Shared) -> LogSummary {
        let mut sum = LogSummary::default();
        for log in shared.workers.iter().map(|worker| &worker.disk.log) {
            sum.bytes += log.bytes.get();
            sum.segments += log.segments.get();
            sum.written_bytes += log.written_bytes.get();
            sum.batches += log.batches.get();
            log.syncs.add_to(&mut sum.syncs);
            sum.sync_nanos += log.sync_nanos.get();
            sum.sync_p99_micros = sum.sync_p99_micros.max(log.sync_p99_micros.get());
            sum.unsynced_bytes += log.unsynced_bytes.get();
            sum.unsynced_millis = sum.unsynced_millis.max(log.unsynced_millis.get());
            sum.is_full |= log.is_full.get() > 0;
        }
        sum
    }
}

impl SnapshotSummary {
    fn of(shared: &Shared) -> SnapshotSummary {
        let mut sum = SnapshotSummary::default();
        let (mut oldest, mut storing_since, mut ended_at) = (u64::MAX, u64::MAX, 0);
        for snapshots in shared.workers.iter().map(|worker| &worker.disk.snapshots) {
            sum.written += snapshots.written.get();
            sum.failed += snapshots.failed.get();
            sum.has_failed |= snapshots.has_failed.get() > 0;
            sum.bytes += snapshots.bytes.get();
            sum.changes_unsaved += snapshots.changes_unsaved.get();
            let known = |at: &Counter| Some(at.get()).filter(|at| *at > 0).unwrap_or(u64::MAX);
            oldest = oldest.min(known(&snapshots.oldest));
            storing_since = storing_since.min(known(&snapshots.storing_since));
            if snapshots.ended_at.get() > ended_at {
                ended_at = snapshots.ended_at.get();
                sum.took_millis = Some(snapshots.took_millis.get());
            }
        }
        let moment = |millis: u64| i64::try_from(millis).ok().map(UnixMillis);
        sum.oldest = moment(oldest).unwrap_or(UnixMillis(shared.started_at));
        sum.storing_since = moment(storing_since);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{Boot, GroupCount, Groups};
    use options::Settings;

    #[test]
    fn a_node_is_as_old_as_its_oldest_snapshot_and_as_slow_as_its_slowest_log() {
        let groups = Groups::with_default_partitions(GroupCount::new(4).expect("in range"));
        let shared = Shared::new(Boot(1), "a".repeat(40), 500, 0, groups, 3, Settings::default());
        let snapshots = DiskSummary::of(&shared).snapshots;
        assert_eq!(snapshots.oldest, UnixMillis(500));
        assert_eq!((snapshots.storing_since, snapshots.took_millis), (None, None));
        for (worker, [oldest, p99, ended_at, took]) in
            (0..).zip([[2_000, 7, 1_500, 30], [900, 9, 2_500, 40], [0, 0, 0, 0]])
        {
            let disk: &DiskStats = &shared.workers[worker].disk;
            disk.snapshots.oldest.set(oldest);
            disk.log.sync_p99_micros.set(p99);
            disk.snapshots.ended_at.set(ended_at);
            disk.snapshots.took_millis.set(took);
        }
        shared.workers[1].disk.snapshots.storing_since.set(2_600);
        let disk = DiskSummary::of(&shared);
        assert_eq!(disk.snapshots.oldest, UnixMillis(900));
        assert_eq!(disk.log.sync_p99_micros, 9);
        assert_eq!(disk.snapshots.took_millis, Some(40));
        assert_eq!(disk.snapshots.storing_since, Some(UnixMillis(2_600)));
    }
}

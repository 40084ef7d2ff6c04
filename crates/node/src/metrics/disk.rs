//! Metrics of what is kept on disk: Redis's names in every mode, and those of logs and snapshots where there are any.

use crate::clock;
use admin::metrics::{Exposition, MetricKind};
use gateway::{DiskSummary, LogSummary, Shared, SnapshotSummary};
use options::DurabilityChoice;

/// Bounds of the buckets of syncs, in nanoseconds: from a disk that keeps its promises by a battery to one that nobody should use.
const SYNC_BOUNDS: [u64; 12] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    50_000_000,
    250_000_000,
    1_000_000_000,
    10_000_000_000,
];

pub(super) fn disk(shared: &Shared, page: &mut Exposition) {
    let disk = DiskSummary::of(shared);
    let mode = shared.settings().durability;
    let writes = mode != DurabilityChoice::Memory;
    page.family(
        "chorale_durability_info",
        MetricKind::Gauge,
        "What an acknowledged write survives: memory, relaxed or strict.",
    )
    .sample(&[("mode", mode.word())], 1u64);
    as_redis(shared, &disk, writes, page);
    if writes {
        log(&disk.log, page);
        snapshots(&disk.snapshots, page);
    }
}

fn as_redis(shared: &Shared, disk: &DiskSummary, writes: bool, page: &mut Exposition) {
    for (name, help, figure) in [
        (
            "redis_loading_dump_file",
            "Whether the node reads what it kept.",
            u64::from(shared.loading.progress().is_some()),
        ),
        (
            "redis_rdb_changes_since_last_save",
            "Keys that commands have changed and that no snapshot here has.",
            disk.snapshots.changes_unsaved,
        ),
        (
            "redis_rdb_last_save_timestamp_seconds",
            "When the oldest of the newest snapshots here was written; the start, if there is none.",
            (disk.snapshots.oldest.0 / 1_000) as u64,
        ),
        (
            "redis_rdb_bgsave_in_progress",
            "Whether a save is under way that a client of this node has asked for.",
            shared.saves.since().is_some().into(),
        ),
        (
            "redis_rdb_last_bgsave_status",
            "Whether the last save and the last snapshots went well.",
            (!shared.saves.has_failed() && !disk.snapshots.has_failed).into(),
        ),
        ("redis_aof_enabled", "Whether there are logs.", writes.into()),
        (
            "redis_aof_rewrite_in_progress",
            "Whether a snapshot is under way, whoever asked for it.",
            disk.snapshots.storing_since.is_some().into(),
        ),
        (
            "redis_aof_last_write_status",
            "Whether logs can be written.",
            (!disk.log.is_full).into(),
        ),
    ] {
        page.single(name, MetricKind::Gauge, help, figure);
    }
}

fn log(log: &LogSummary, page: &mut Exposition) {
    for (name, help, figure) in [
        (
            "redis_aof_current_size_bytes",
            "Bytes of the files of logs.",
            log.bytes,
        ),
        ("chorale_log_bytes", "Bytes of the files of logs.", log.bytes),
        ("chorale_log_segments", "Files of logs.", log.segments),
        (
            "chorale_log_unsynced_bytes",
            "Bytes of logs that are written and not synced.",
            log.unsynced_bytes,
        ),
        (
            "chorale_disk_full",
            "Whether a file of a log cannot be made: nothing is acknowledged until there is room.",
            log.is_full.into(),
        ),
    ] {
        page.single(name, MetricKind::Gauge, help, figure);
    }
    for (name, help, seconds) in [
        (
            "chorale_log_unsynced_seconds",
            "For how long something has been unsynced and no sync has ended; of the worst worker.",
            log.unsynced_millis as f64 / 1e3,
        ),
        (
            "chorale_log_sync_p99_seconds",
            "What 99 in 100 of the last 256 syncs of a worker's log did not exceed; of the worst worker.",
            log.sync_p99_micros as f64 / 1e6,
        ),
    ] {
        page.single(name, MetricKind::Gauge, help, seconds);
    }
    for (name, help, figure) in [
        (
            "chorale_log_written_bytes_total",
            "Bytes written to logs.",
            log.written_bytes,
        ),
        (
            "chorale_log_batches_total",
            "Batches written to logs: one for each turn that had anything to keep.",
            log.batches,
        ),
    ] {
        page.single(name, MetricKind::Counter, help, figure);
    }
    let bounds = SYNC_BOUNDS.map(|nanos| nanos as f64 / 1e9);
    page.family(
        "chorale_log_sync_seconds",
        MetricKind::Histogram,
        "How long syncs of logs take.",
    )
    .histogram(
        &[],
        &bounds,
        &log.syncs.within(&SYNC_BOUNDS),
        log.sync_nanos as f64 / 1e9,
    );
}

fn snapshots(snapshots: &SnapshotSummary, page: &mut Exposition) {
    for (name, help, figure) in [
        (
            "chorale_snapshots_total",
            "Snapshots of replicas that were written.",
            snapshots.written,
        ),
        (
            "chorale_snapshots_failed_total",
            "Snapshots of replicas that could not be written.",
            snapshots.failed,
        ),
    ] {
        page.single(name, MetricKind::Counter, help, figure);
    }
    page.single(
        "chorale_snapshot_bytes",
        MetricKind::Gauge,
        "Bytes of the files of the newest snapshots.",
        snapshots.bytes,
    );
    let age = clock::now().0.saturating_sub(snapshots.oldest.0).max(0);
    page.single(
        "chorale_snapshot_oldest_seconds",
        MetricKind::Gauge,
        "How old the oldest of the newest snapshots is; since the start, if there is none.",
        age as f64 / 1e3,
    );
}

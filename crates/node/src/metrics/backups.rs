//! Metrics of the backups that this node has taken.

use admin::metrics::{Exposition, MetricKind};
use gateway::Shared;
use ids::UnixMillis;

pub(super) fn backups(shared: &Shared, page: &mut Exposition) {
    let summary = shared.backups.summary();
    let seconds = |at: Option<UnixMillis>| at.map_or(0, |at| at.0 / 1_000);
    for (name, help, figure) in [
        (
            "chorale_backup_in_progress",
            "Whether this node takes a backup of the cluster.",
            i64::from(summary.is_running),
        ),
        (
            "chorale_backup_last_good_timestamp_seconds",
            "When the newest backup was made that this node knows of, Unix time; 0: it knows of none. Take the greatest of all nodes.",
            seconds(summary.good_at),
        ),
        (
            "chorale_backup_last_failed_timestamp_seconds",
            "When a backup that this node took has failed last, Unix time; 0: none has.",
            seconds(summary.failed_at),
        ),
        (
            "chorale_backup_next_timestamp_seconds",
            "When this node takes the next backup by itself, Unix time; 0: another one does, or none.",
            seconds(summary.next_at),
        ),
    ] {
        page.single(name, MetricKind::Gauge, help, figure);
    }
    let mut failure = page.family(
        "chorale_backup_failure_info",
        MetricKind::Gauge,
        "Why the last backup that this node took has failed; absent once one was good.",
    );
    if !summary.reason.is_empty() {
        failure.sample(&[("reason", &summary.reason)], 1u64);
    }
}

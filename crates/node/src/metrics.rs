//! The metrics page: the names of redis_exporter, so that dashboards made for Redis fit, and Chorale's own.
//!
//! Counters run from the start of the process, whatever `CONFIG RESETSTAT` makes `INFO` show; only what groups count
//! (hits, misses, expired and evicted keys) begins anew with it. What only workers know (keys, hits, memory of data) is
//! as they last refreshed it.

mod backups;
mod cluster;
mod coding;
mod disk;

use crate::clock;
use crate::view::View;
use admin::metrics::{Exposition, MetricKind};
use command::CommandId;
use gateway::{CommandCounter, Counter, Gateway, Shared, SubscriptionKind, WorkerStats};
use ids::{Db, NodeId};
use std::sync::atomic::Ordering;

/// The page as of now. `cluster` is what the node sees of its cluster, and who it is in it.
pub(crate) fn metrics(shared: &Shared, cluster: Option<(&View, NodeId)>) -> String {
    let mut page = Exposition::new();
    instance(shared, &mut page);
    memory(shared, &mut page);
    traffic(shared, &mut page);
    commands(shared, &mut page);
    observers(shared, &mut page);
    keyspace(shared, &mut page);
    chorale(shared, &mut page);
    disk::disk(shared, &mut page);
    backups::backups(shared, &mut page);
    coding::coding(shared, &mut page);
    if let Some((view, me)) = cluster {
        cluster::cluster(shared, view, me, &mut page);
    }
    page.finish()
}

/// A counter of workers: its name on the page, what it counts, and where it stands.
type WorkerCounter = (&'static str, &'static str, fn(&WorkerStats) -> &Counter);

fn counters(shared: &Shared, page: &mut Exposition, all: &[WorkerCounter]) {
    for (name, help, counter) in all {
        page.single(
            name,
            MetricKind::Counter,
            help,
            shared.total(|worker| counter(worker).get()),
        );
    }
}

fn instance(shared: &Shared, page: &mut Exposition) {
    let uptime = clock::now().0.saturating_sub(shared.started_at).max(0) / 1_000;
    let port = shared.port.to_string();
    page.single("redis_up", MetricKind::Gauge, "Whether the node answers.", 1u64);
    page.family("redis_instance_info", MetricKind::Gauge, "What this node is.")
        .sample(
            &[
                ("redis_version", Gateway::REDIS_VERSION),
                ("chorale_version", env!("CARGO_PKG_VERSION")),
                ("redis_mode", "standalone"),
                ("role", "master"),
                ("os", std::env::consts::OS),
                ("tcp_port", &port),
                ("run_id", &shared.run_id),
                ("maxmemory_policy", shared.settings().maxmemory_policy.word()),
            ],
            1u64,
        );
    page.single(
        "redis_uptime_in_seconds",
        MetricKind::Gauge,
        "Seconds since the start.",
        uptime,
    );
    let started = shared.started_at / 1_000;
    page.single(
        "redis_start_time_seconds",
        MetricKind::Gauge,
        "When the node started, Unix time.",
        started,
    );
    page.single(
        "redis_connected_slaves",
        MetricKind::Gauge,
        "Replicas that follow this node.",
        0u64,
    );
    page.single(
        "redis_master_repl_offset",
        MetricKind::Gauge,
        "Bytes of the replication stream.",
        0u64,
    );
}

fn memory(shared: &Shared, page: &mut Exposition) {
    let memory = &shared.memory;
    let used = shared.used_memory();
    let peak = memory.peak.load(Ordering::Relaxed).max(used);
    for (name, help, bytes) in [
        ("redis_memory_used_bytes", "Memory in use.", used),
        (
            "redis_memory_used_peak_bytes",
            "The most memory that was in use.",
            peak,
        ),
        (
            "redis_memory_used_rss_bytes",
            "Resident memory.",
            memory.resident.load(Ordering::Relaxed),
        ),
        (
            "redis_memory_max_bytes",
            "The limit of memory for data; 0: none.",
            shared.settings().maxmemory,
        ),
    ] {
        page.single(name, MetricKind::Gauge, help, bytes);
    }
}

fn traffic(shared: &Shared, page: &mut Exposition) {
    let clients = shared.clients.count();
    page.single(
        "redis_connected_clients",
        MetricKind::Gauge,
        "Connections of clients.",
        clients,
    );
    page.single(
        "redis_blocked_clients",
        MetricKind::Gauge,
        "Clients that wait for keys, or for the end of a pause.",
        shared.total(|worker| worker.blocked.get() + worker.paused.get()),
    );
    let limit = shared.settings().maxclients;
    page.single(
        "redis_config_maxclients",
        MetricKind::Gauge,
        "The limit of connections.",
        limit,
    );
    let accepted = shared.accepted.load(Ordering::Relaxed);
    page.single(
        "redis_connections_received_total",
        MetricKind::Counter,
        "Connections accepted.",
        accepted,
    );
    let refused = shared.refused.load(Ordering::Relaxed);
    page.single(
        "redis_rejected_connections_total",
        MetricKind::Counter,
        "Connections refused.",
        refused,
    );
    counters(
        shared,
        page,
        &[
            (
                "redis_net_input_bytes_total",
                "Bytes read from clients.",
                |worker| &worker.input_bytes,
            ),
            (
                "redis_net_output_bytes_total",
                "Bytes sent to clients.",
                |worker| &worker.output_bytes,
            ),
        ],
    );
}

/// One counter for each command and subcommand; those that were never used are left out.
type PerCommand = (&'static str, &'static str, fn(&CommandCounter) -> &Counter);

fn commands(shared: &Shared, page: &mut Exposition) {
    counters(
        shared,
        page,
        &[
            (
                "redis_commands_processed_total",
                "Commands carried out.",
                |worker| &worker.commands,
            ),
            ("redis_error_replies_total", "Error replies.", |worker| {
                &worker.errors
            }),
        ],
    );
    let per_command: [PerCommand; 3] = [
        (
            "redis_commands_total",
            "Commands carried out, by command.",
            |counter| &counter.calls,
        ),
        (
            "redis_commands_rejected_calls_total",
            "Commands refused before they ran.",
            |counter| &counter.rejected,
        ),
        (
            "redis_commands_failed_calls_total",
            "Commands that answered an error.",
            |counter| &counter.failed,
        ),
    ];
    for (name, help, figure) in per_command {
        let mut family = page.family(name, MetricKind::Counter, help);
        for &id in CommandId::ALL {
            let total = shared.total(|worker| figure(&worker.by_command[id]).get());
            if total > 0 {
                family.sample(&[("cmd", id.spec().name)], total);
            }
        }
    }
}

/// What commands took, and what is remembered of slow ones; who listens to channels.
fn observers(shared: &Shared, page: &mut Exposition) {
    let mut family = page.family(
        "redis_commands_duration_seconds_total",
        MetricKind::Counter,
        "Time that commands took, by command.",
    );
    for &id in CommandId::ALL {
        let nanos = shared.total(|worker| worker.by_command[id].nanos.get());
        if nanos > 0 {
            family.sample(&[("cmd", id.spec().name)], nanos as f64 / 1e9);
        }
    }
    let slow = shared.total(|worker| worker.slow_log().len() as u64);
    let names = |kind| shared.subscriptions.names(kind) as u64;
    for (name, help, figure) in [
        (
            "redis_slowlog_length",
            "Entries of the slow log.",
            slow.min(shared.settings().slowlog_max_len),
        ),
        (
            "redis_pubsub_channels",
            "Channels that somebody listens to.",
            names(SubscriptionKind::Channel),
        ),
        (
            "redis_pubsub_patterns",
            "Patterns that somebody listens to.",
            names(SubscriptionKind::Pattern),
        ),
    ] {
        page.single(name, MetricKind::Gauge, help, figure);
    }
}

fn keyspace(shared: &Shared, page: &mut Exposition) {
    counters(
        shared,
        page,
        &[
            (
                "redis_keyspace_hits_total",
                "Lookups that found a key.",
                |worker| &worker.hits,
            ),
            (
                "redis_keyspace_misses_total",
                "Lookups that found none.",
                |worker| &worker.misses,
            ),
            ("redis_expired_keys_total", "Keys that expired.", |worker| {
                &worker.expired
            }),
            ("redis_evicted_keys_total", "Keys given up for room.", |worker| {
                &worker.evicted
            }),
        ],
    );
    type PerDatabase = fn(&WorkerStats) -> &[Counter; Db::COUNT as usize];
    let families: [(&str, &str, PerDatabase); 2] = [
        ("redis_db_keys", "Keys, by database.", |worker| &worker.keys),
        (
            "redis_db_keys_expiring",
            "Keys with a deadline, by database.",
            |worker| &worker.keys_with_deadline,
        ),
    ];
    for (name, help, counters) in families {
        let mut family = page.family(name, MetricKind::Gauge, help);
        for db in 0..usize::from(Db::COUNT) {
            let total = shared.total(|worker| counters(worker)[db].get());
            family.sample(&[("db", &format!("db{db}"))], total);
        }
    }
}

fn chorale(shared: &Shared, page: &mut Exposition) {
    page.single(
        "chorale_workers",
        MetricKind::Gauge,
        "Worker threads.",
        shared.workers.len(),
    );
    let groups = u64::from(shared.key_groups().get());
    page.single(
        "chorale_groups",
        MetricKind::Gauge,
        "Groups that keys are spread over.",
        groups,
    );
    let sum = |counter: fn(&WorkerStats) -> &Counter| shared.total(|worker| counter(worker).get());
    let seen = shared.transactions();
    for (name, help, figure) in [
        (
            "chorale_data_bytes",
            "Bytes of keys, values and tables.",
            sum(|worker| &worker.data_bytes),
        ),
        (
            "chorale_transactions_prepared",
            "Transactions that hold locks in groups led here.",
            sum(|worker| &worker.locked),
        ),
        (
            "chorale_lock_waiters",
            "Commands and transactions that wait for locks in groups led here.",
            sum(|worker| &worker.lock_waiters),
        ),
        (
            "chorale_transactions_in_flight",
            "Transactions that this node coordinates and has not answered.",
            seen.in_flight,
        ),
        (
            "chorale_transactions_settling",
            "Transactions that this node has decided and that some group has not recorded the end of.",
            seen.settling,
        ),
        (
            "chorale_transactions_in_doubt",
            "Transactions whose groups this node asks what has become of them.",
            seen.in_doubt,
        ),
        (
            "chorale_transactions_ended",
            "Ends of transactions that groups led here keep until they are known everywhere.",
            seen.groups.ended as u64,
        ),
        (
            "chorale_transaction_late_answers",
            "Answers of groups led here to what waited for transactions, not acknowledged yet.",
            seen.groups.deferred as u64,
        ),
        (
            "chorale_request_results",
            "Results that groups led here keep of requests that clients have named.",
            seen.groups.results as u64,
        ),
        (
            "chorale_request_results_bytes",
            "Bytes that these results count for.",
            seen.groups.result_bytes as u64,
        ),
    ] {
        page.single(name, MetricKind::Gauge, help, figure);
    }
    counters(
        shared,
        page,
        &[
            (
                "chorale_turns_total",
                "Turns of worker loops that did something.",
                |worker| &worker.turns,
            ),
            ("chorale_hops_total", "Messages between workers.", |worker| {
                &worker.hops
            }),
            (
                "chorale_operations_applied_total",
                "Operations applied to data.",
                |worker| &worker.applied,
            ),
            (
                "chorale_transactions_total",
                "Transactions over several groups.",
                |worker| &worker.transactions,
            ),
            (
                "chorale_transaction_retries_total",
                "Attempts begun anew after a conflict.",
                |worker| &worker.transaction_retries,
            ),
            (
                "chorale_scripts_at_once_total",
                "Scripts that were carried out at once.",
                |worker| &worker.scripts.at_once,
            ),
            (
                "chorale_scripts_on_copies_total",
                "Scripts that ran on copies, and that one entry carried out.",
                |worker| &worker.scripts.on_copies,
            ),
            (
                "chorale_scripts_as_transactions_total",
                "Scripts that became transactions.",
                |worker| &worker.scripts.as_transactions,
            ),
            (
                "chorale_transactions_refused_total",
                "Transactions that did nothing because a condition did not hold.",
                |worker| &worker.transactions_refused,
            ),
            (
                "chorale_output_limit_closes_total",
                "Connections closed for unread replies.",
                |worker| &worker.output_limit_closes,
            ),
            (
                "chorale_input_limit_closes_total",
                "Connections closed for requests too long.",
                |worker| &worker.input_limit_closes,
            ),
        ],
    );
    for (name, help, figure) in [
        (
            "chorale_transactions_wounded_total",
            "Transactions that replicas here saw refused because an older one waited for them.",
            seen.wounded,
        ),
        (
            "chorale_transactions_recovered_total",
            "Transactions that this node found the end of by asking all their groups.",
            seen.recovered,
        ),
        (
            "chorale_transactions_torn_total",
            "Transactions that were found carried out in some of their groups and not in others: one had lost what it knew.",
            seen.torn_count,
        ),
        (
            "chorale_partitions_moved_total",
            "Partitions that have moved from groups led here to others.",
            seen.partitions_moved,
        ),
        (
            "chorale_partition_moves_given_up_total",
            "Attempts to move a partition from a group led here that came to nothing. They are made again.",
            seen.partition_moves_given_up,
        ),
    ] {
        page.single(name, MetricKind::Counter, help, figure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{Boot, GroupCount, Groups};
    use options::{DurabilityChoice, Settings};

    fn shared_with(settings: Settings) -> Shared {
        let groups = Groups::with_default_partitions(GroupCount::new(16).expect("in range"));
        Shared::new(Boot(1), "a".repeat(40), 7_000, 6379, groups, 2, settings)
    }

    #[test]
    fn what_is_kept_on_disk_is_told_where_anything_is() {
        let mut settings = Settings::default();
        settings.take_durability(DurabilityChoice::Memory);
        assert!(!metrics(&shared_with(settings.clone()), None).contains("chorale_log_"));
        settings.take_durability(DurabilityChoice::Strict);
        let shared = shared_with(settings);
        for (worker, nanos) in [(0, 40_000), (1, 3_000_000)] {
            let log = &shared.workers[worker].disk.log;
            log.syncs.count(nanos);
            log.sync_nanos.add(nanos);
            log.written_bytes.set(100);
            log.sync_p99_micros.set(nanos / 1_000);
        }
        shared.workers[1].disk.log.is_full.set(1);
        let page = metrics(&shared, None);
        for line in [
            "redis_aof_enabled 1",
            "redis_aof_last_write_status 0",
            "redis_rdb_last_save_timestamp_seconds 7",
            "chorale_durability_info{mode=\"strict\"} 1",
            "chorale_log_written_bytes_total 200",
            "chorale_log_sync_seconds_bucket{le=\"0.0001\"} 1",
            "chorale_log_sync_seconds_bucket{le=\"0.005\"} 2",
            "chorale_log_sync_seconds_count 2",
            "chorale_log_sync_seconds_sum 0.00304",
            "chorale_log_sync_p99_seconds 0.003",
            "chorale_disk_full 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
    }

    #[test]
    fn the_page_has_the_names_that_dashboards_expect() {
        let shared = shared_with(Settings::default());
        shared.workers[0].by_command[CommandId::Get].calls.add(3);
        shared.workers[1].by_command[CommandId::Get].calls.add(4);
        shared.workers[1].keys[2].set(5);
        shared.workers[0].by_command[CommandId::Get]
            .nanos
            .add(500_000_000);
        shared.workers[1].by_command[CommandId::Get]
            .nanos
            .add(1_000_000_000);
        shared.workers[0].blocked.set(1);
        shared.workers[1].paused.set(2);
        let page = metrics(&shared, None);
        for line in [
            "redis_up 1",
            "redis_commands_total{cmd=\"get\"} 7",
            "redis_commands_duration_seconds_total{cmd=\"get\"} 1.5",
            "redis_blocked_clients 3",
            "redis_slowlog_length 0",
            "redis_pubsub_channels 0",
            "redis_pubsub_patterns 0",
            "redis_db_keys{db=\"db2\"} 5",
            "redis_db_keys{db=\"db0\"} 0",
            "chorale_workers 2",
            "chorale_groups 16",
            "redis_rdb_changes_since_last_save 0",
            "redis_aof_enabled 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
        }
        for name in [
            "redis_uptime_in_seconds",
            "redis_connected_clients",
            "redis_memory_used_bytes",
            "redis_memory_max_bytes",
            "redis_memory_used_rss_bytes",
            "redis_commands_processed_total",
            "redis_keyspace_hits_total",
            "redis_keyspace_misses_total",
            "redis_expired_keys_total",
            "redis_evicted_keys_total",
            "redis_net_input_bytes_total",
            "redis_net_output_bytes_total",
            "redis_connections_received_total",
            "redis_rejected_connections_total",
            "redis_instance_info",
            "chorale_hops_total",
            "chorale_transactions_total",
            "chorale_transactions_in_flight",
            "chorale_transactions_settling",
            "chorale_transactions_in_doubt",
            "chorale_transactions_ended",
            "chorale_transaction_late_answers",
            "chorale_request_results",
            "chorale_request_results_bytes",
            "chorale_transactions_refused_total",
            "chorale_transactions_wounded_total",
            "chorale_transactions_recovered_total",
            "chorale_transactions_torn_total",
            "chorale_partitions_moved_total",
            "chorale_partition_moves_given_up_total",
            "chorale_scripts_at_once_total",
            "chorale_scripts_on_copies_total",
            "chorale_scripts_as_transactions_total",
            "chorale_coding_fragment_bytes",
            "chorale_coding_damaged_total",
        ] {
            assert!(page.contains(&format!("# TYPE {name} ")), "{name}");
        }
    }
}

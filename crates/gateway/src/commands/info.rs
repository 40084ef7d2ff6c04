//! `INFO`: fields for people and for the tools that read Redis's.
//!
//! A field stands here if a tool reads it or an operator wants it. What has no meaning here is left out, or shows
//! the value that says so where tools expect the field.

use crate::context::Context;
use crate::disk_stats::DiskSummary;
use crate::endpoint::Endpoint;
use crate::error_counts::ErrorCounts;
use crate::gateway::Gateway;
use crate::key_counts::KeyCounts;
use crate::pubsub::SubscriptionKind;
use crate::shared::{Shared, held};
use crate::stats::{CommandCounter, Counter, WorkerStats};
use command::CommandId;
use ids::UnixMillis;
use options::{DurabilityChoice, Settings};
use resp::{Args, ReplyWriter};
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::atomic::Ordering;

/// Whether an `INFO` is to say how many keys there are.
pub(crate) fn counts_keys(args: Args<'_>) -> bool {
    let sections = wanted(args.from(1));
    sections.iter().any(|section| section.title == Section::KEYSPACE)
}

/// Without counts where there is nobody else to ask, and inside `EXEC`, which waits for nobody: there what others hold is a
/// little old.
pub(crate) fn info(
    cx: &Context,
    endpoint: Endpoint,
    args: Args<'_>,
    counts: Option<&KeyCounts>,
    w: &mut ReplyWriter<'_>,
) {
    let sections = wanted(args.from(1));
    let report = Report::new(&cx.shared, &cx.settings, endpoint, cx.turn.now, counts);
    w.verbatim("txt", report.text(&sections).as_bytes());
}

/// A part of the report.
struct Section {
    title: &'static str,
    /// Shown only if asked for: it has a line for each command.
    is_long: bool,
    write: fn(&mut Report<'_>),
}

impl Section {
    const KEYSPACE: &'static str = "Keyspace";

    /// All of them, in the order in which they are shown.
    const ALL: [Section; 15] = [
        Section::new("Server", |report| report.server()),
        Section::new("Clients", |report| report.clients()),
        Section::new("Memory", |report| report.memory()),
        Section::new("Persistence", |report| report.persistence()),
        Section::new("Stats", |report| report.stats()),
        Section::new("Replication", |report| report.replication()),
        Section::new("CPU", |report| report.cpu()),
        // There are no modules.
        Section::new("Modules", |_| {}),
        Section::long("Commandstats", |report| report.command_stats()),
        Section::new("Errorstats", |report| report.error_stats()),
        Section::long("Latencystats", |report| report.latency_stats()),
        Section::new("Cluster", |report| report.cluster()),
        Section::new("Chorale", |report| report.chorale()),
        Section::new("Coding", |report| report.coding()),
        Section::new(Section::KEYSPACE, |report| report.keyspace()),
    ];

    const fn new(title: &'static str, write: fn(&mut Report<'_>)) -> Section {
        Section {
            title,
            is_long: false,
            write,
        }
    }

    const fn long(title: &'static str, write: fn(&mut Report<'_>)) -> Section {
        Section {
            is_long: true,
            ..Section::new(title, write)
        }
    }
}

/// The sections that the words after `INFO` name; words that name none are passed over.
fn wanted(names: Args<'_>) -> Vec<Section> {
    let is_wanted = |section: &Section| {
        let is_default = names.is_empty() && !section.is_long;
        is_default
            || names.iter().any(|name| {
                let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
                is(section.title) || is("all") || is("everything") || (is("default") && !section.is_long)
            })
    };
    Section::ALL.into_iter().filter(is_wanted).collect()
}

/// Counters that `CONFIG RESETSTAT` sets back and that workers only add to, by their field of `INFO`.
pub(super) struct Totals(BTreeMap<String, u64>);

impl Totals {
    /// Since the start.
    pub(super) fn of(shared: &Shared) -> Totals {
        let mut totals = BTreeMap::new();
        let of = |counter: fn(&WorkerStats) -> &Counter| shared.total(|worker| counter(worker).get());
        for (name, total) in [
            (
                "total_connections_received",
                shared.accepted.load(Ordering::Relaxed),
            ),
            ("rejected_connections", shared.refused.load(Ordering::Relaxed)),
            ("total_commands_processed", of(|worker| &worker.commands)),
            ("total_net_input_bytes", of(|worker| &worker.input_bytes)),
            ("total_net_output_bytes", of(|worker| &worker.output_bytes)),
            ("total_reads_processed", of(|worker| &worker.reads)),
            ("total_writes_processed", of(|worker| &worker.writes)),
            ("total_error_replies", of(|worker| &worker.errors)),
            ("hops", of(|worker| &worker.hops)),
            ("turns", of(|worker| &worker.turns)),
            ("transactions", of(|worker| &worker.transactions)),
            ("transaction_retries", of(|worker| &worker.transaction_retries)),
            ("transactions_refused", of(|worker| &worker.transactions_refused)),
            ("scripts_at_once", of(|worker| &worker.scripts.at_once)),
            ("scripts_on_copies", of(|worker| &worker.scripts.on_copies)),
            (
                "scripts_as_transactions",
                of(|worker| &worker.scripts.as_transactions),
            ),
            ("output_limit_closes", of(|worker| &worker.output_limit_closes)),
            ("input_limit_closes", of(|worker| &worker.input_limit_closes)),
        ] {
            totals.insert(name.to_owned(), total);
        }
        for &id in CommandId::ALL {
            let name = id.spec().name;
            let of = |counter: fn(&CommandCounter) -> &Counter| {
                shared.total(|worker| counter(&worker.by_command[id]).get())
            };
            for (what, total) in [
                ("calls", of(|command| &command.calls)),
                ("rejected", of(|command| &command.rejected)),
                ("failed", of(|command| &command.failed)),
                ("nanos", of(|command| &command.nanos)),
            ] {
                if total > 0 {
                    totals.insert(format!("{name}:{what}"), total);
                }
            }
        }
        Totals(totals)
    }

    /// To be subtracted from later totals.
    pub(super) fn into_baseline(self) -> BTreeMap<String, u64> {
        self.0
    }

    fn since(mut self, baseline: &BTreeMap<String, u64>) -> Totals {
        for (name, total) in &mut self.0 {
            *total = total.saturating_sub(baseline.get(name).copied().unwrap_or(0));
        }
        self
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }
}

/// Bytes of requests that are not carried out and of replies that are not read, of all connections and of the one that has
/// most.
#[derive(Default)]
struct Buffers {
    input: u64,
    output: u64,
    largest_input: u64,
    largest_output: u64,
}

/// Everything that the sections are written from.
struct Report<'a> {
    shared: &'a Shared,
    settings: &'a Settings,
    endpoint: Endpoint,
    now: UnixMillis,
    counts: Option<&'a KeyCounts>,
    totals: Totals,
    text: String,
}

impl<'a> Report<'a> {
    fn new(
        shared: &'a Shared,
        settings: &'a Settings,
        endpoint: Endpoint,
        now: UnixMillis,
        counts: Option<&'a KeyCounts>,
    ) -> Report<'a> {
        let baseline = held(&shared.baseline);
        let totals = Totals::of(shared).since(&baseline.totals);
        drop(baseline);
        Report {
            shared,
            settings,
            endpoint,
            now,
            counts,
            totals,
            text: String::new(),
        }
    }

    fn text(mut self, sections: &[Section]) -> String {
        for section in sections {
            if !self.text.is_empty() {
                self.text.push_str("\r\n");
            }
            let _ = write!(self.text, "# {}\r\n", section.title);
            (section.write)(&mut self);
        }
        self.text
    }

    fn field(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    /// What has no meaning here, and tools expect.
    fn zeros(&mut self, names: &str) {
        names.split(' ').for_each(|name| self.field(name, 0));
    }

    /// A number of bytes, and the same for people.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.field(name, bytes);
        self.field(&format!("{name}_human"), human(bytes));
    }

    /// What is counted by each worker, as a sum.
    fn sum(&mut self, name: &str, counter: fn(&WorkerStats) -> &Counter) {
        self.field(name, self.shared.total(|worker| counter(worker).get()));
    }

    /// Two decimals.
    fn ratio(&mut self, name: &str, part: u64, whole: u64) {
        self.field(name, format_args!("{:.2}", ratio(part, whole)));
    }

    /// A counter under its own name.
    fn total(&mut self, name: &str) {
        self.field(name, self.totals.get(name));
    }

    fn server(&mut self) {
        let uptime = self.now.0.saturating_sub(self.shared.started_at).max(0) / 1_000;
        let hz = self.settings.get("hz").unwrap_or_default();
        let process = (self.shared.hooks.process)();
        self.field("redis_version", Gateway::REDIS_VERSION);
        self.field("chorale_version", env!("CARGO_PKG_VERSION"));
        self.field("redis_mode", self.endpoint.mode());
        self.field("os", process.system);
        self.field("arch_bits", usize::BITS);
        self.field("process_id", process.id);
        self.field("process_supervised", "no");
        self.field("run_id", &self.shared.run_id);
        let port = match self.endpoint {
            Endpoint::AnyNode => self.shared.port,
            Endpoint::Cluster => self.shared.cluster_port.unwrap_or(self.shared.port),
        };
        self.field("tcp_port", port);
        if !self.settings.zone.is_empty() {
            self.field("availability_zone", &self.settings.zone);
        }
        self.field("server_time_usec", self.now.0 * 1_000);
        self.field("uptime_in_seconds", uptime);
        self.field("uptime_in_days", uptime / 86_400);
        self.field("hz", &hz);
        self.field("configured_hz", &hz);
        // Seconds, in the 24 bits that Redis keeps with a key.
        self.field("lru_clock", (self.now.0 / 1_000) & 0xff_ffff);
        self.field("executable", process.executable);
        self.field("config_file", self.settings.config.as_deref().unwrap_or_default());
        self.field("io_threads_active", u8::from(self.shared.workers.len() > 1));
    }

    fn clients(&mut self) {
        self.field("connected_clients", self.shared.clients.count());
        self.field("cluster_connections", 0);
        self.field("maxclients", self.settings.maxclients);
        // As ten times a second each worker writes it down.
        let buffers = self.buffers();
        self.field("client_recent_max_input_buffer", buffers.largest_input);
        self.field("client_recent_max_output_buffer", buffers.largest_output);
        let blocked = |worker: &WorkerStats| worker.blocked.get() + worker.paused.get();
        self.field("blocked_clients", self.shared.total(blocked));
        self.zeros("tracking_clients clients_in_timeout_table");
    }

    fn memory(&mut self) {
        // The last sample may have been taken in the middle of a large command, whose arguments are gone by now.
        (self.shared.hooks.sample_memory)(self.shared);
        let used = self.shared.used_memory();
        let data = self.shared.total(|worker| worker.data_bytes.get());
        let resident = self.shared.memory.resident.load(Ordering::Relaxed);
        // The peak is sampled; what was just used may be more.
        let peak = self.shared.memory.peak.load(Ordering::Relaxed).max(used);
        let overhead = used.saturating_sub(data);
        let percent = |part: u64, whole: u64| format!("{:.2}%", ratio(part, whole) * 100.0);
        self.bytes("used_memory", used);
        self.bytes("used_memory_rss", resident);
        self.bytes("used_memory_peak", peak);
        self.field("used_memory_peak_perc", percent(used, peak));
        self.field("used_memory_overhead", overhead);
        let at_start = self.shared.memory.at_start.load(Ordering::Relaxed);
        self.field("used_memory_startup", at_start);
        self.field("used_memory_dataset", data);
        self.field("used_memory_dataset_perc", percent(data, used));
        let allocated = self.shared.memory.allocated.load(Ordering::Relaxed);
        let active = self.shared.memory.active.load(Ordering::Relaxed);
        self.field("allocator_allocated", allocated);
        self.field("allocator_active", active);
        self.field("allocator_resident", resident);
        self.bytes("total_system_memory", (self.shared.hooks.process)().system_memory);
        self.bytes("used_memory_lua", 0);
        let (scripts, source_bytes) = self.shared.scripts.counts();
        self.bytes("used_memory_scripts", source_bytes as u64);
        self.field("number_of_cached_scripts", scripts);
        let [libraries, functions, bytes] = self.shared.scripts.libraries_seen.get();
        self.field("number_of_functions", functions);
        self.field("number_of_libraries", libraries);
        self.bytes("used_memory_functions", bytes);
        self.bytes("maxmemory", self.settings.maxmemory);
        self.field("maxmemory_policy", self.settings.maxmemory_policy.word());
        self.ratio("mem_fragmentation_ratio", resident, used);
        self.field("mem_fragmentation_bytes", resident as i64 - used as i64);
        self.ratio("allocator_frag_ratio", active, allocated);
        self.field("allocator_frag_bytes", active as i64 - allocated as i64);
        self.ratio("allocator_rss_ratio", resident, active);
        self.field("allocator_rss_bytes", resident as i64 - active as i64);
        let not_counted = used.saturating_sub(self.shared.counted_memory());
        self.field("mem_not_counted_for_evict", not_counted);
        self.zeros("mem_replication_backlog mem_total_replication_buffers mem_clients_slaves");
        let buffers = self.buffers().input + self.buffers().output;
        self.field("mem_clients_normal", buffers);
        let links = self.shared.links();
        let allocated = links.values().map(|status| status.link.buffer_bytes);
        self.field("mem_cluster_links", allocated.sum::<u64>());
        self.field("mem_aof_buffer", 0);
        self.field("mem_allocator", "jemalloc-5.3.0");
        self.field("active_defrag_running", 0);
        self.sum("lazyfree_pending_objects", |worker| &worker.lazyfree_pending);
        self.sum("lazyfreed_objects", |worker| &worker.lazyfreed);
    }

    /// A save is Redis's RDB file: snapshots of all replicas here that a client has asked for. Its append-only file is the log, and what
    /// shortens that are snapshots, whoever asked.
    fn persistence(&mut self) {
        let DiskSummary { log, snapshots } = DiskSummary::of(self.shared);
        let saves = &self.shared.saves;
        let now = self.now;
        let seconds = |millis: Option<u64>| millis.map_or(-1, |millis| (millis / 1_000) as i64);
        let since = |at: Option<UnixMillis>| at.map(|at| now.0.saturating_sub(at.0).max(0) as u64);
        let is_ok = |is_ok: bool| if is_ok { "ok" } else { "err" };
        let loading = self.shared.loading.progress();
        self.field("loading", u8::from(loading.is_some()));
        self.field("async_loading", 0);
        if let Some(progress) = loading {
            progress.write(self.now, &mut self.text);
        }
        self.field("rdb_changes_since_last_save", snapshots.changes_unsaved);
        self.field("rdb_bgsave_in_progress", u8::from(saves.since().is_some()));
        self.field("rdb_last_save_time", snapshots.oldest.0 / 1_000);
        self.field(
            "rdb_last_bgsave_status",
            is_ok(!saves.has_failed() && !snapshots.has_failed),
        );
        self.field("rdb_last_bgsave_time_sec", seconds(saves.took_millis()));
        self.field("rdb_current_bgsave_time_sec", seconds(since(saves.since())));
        self.field("rdb_saves", saves.count());
        self.zeros("rdb_last_cow_size");
        let writes = self.settings.durability != DurabilityChoice::Memory;
        self.field("aof_enabled", u8::from(writes));
        self.field(
            "aof_rewrite_in_progress",
            u8::from(snapshots.storing_since.is_some()),
        );
        self.zeros("aof_rewrite_scheduled");
        self.field("aof_last_rewrite_time_sec", seconds(snapshots.took_millis));
        self.field(
            "aof_current_rewrite_time_sec",
            seconds(since(snapshots.storing_since)),
        );
        self.field("aof_last_bgrewrite_status", is_ok(!snapshots.has_failed));
        self.field("aof_last_write_status", is_ok(!log.is_full));
        self.zeros("aof_last_cow_size module_fork_in_progress module_fork_last_cow_size");
        self.field("durability", self.settings.durability.word());
        if writes {
            self.field("aof_current_size", log.bytes);
            self.field("log_bytes", log.bytes);
            self.field("log_sync_p99_us", log.sync_p99_micros);
            self.field("log_unsynced_ms", log.unsynced_millis);
        }
        self.backups();
    }

    /// Backups of the cluster that this node has taken, by itself or because it was asked to.
    fn backups(&mut self) {
        let backups = self.shared.backups.summary();
        let seconds = |at: Option<UnixMillis>| at.map_or(0, |at| at.0 / 1_000);
        self.field("backup_in_progress", u8::from(backups.is_running));
        self.field("backup_last_good_time", seconds(backups.good_at));
        self.field("backup_last_failed_time", seconds(backups.failed_at));
        let status = if backups.reason.is_empty() { "ok" } else { "err" };
        self.field("backup_last_status", status);
        self.field("backup_last_error", backups.reason);
        self.field("backup_next_time", seconds(backups.next_at));
    }

    fn stats(&mut self) {
        let rates = &self.shared.rates;
        let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1_024.0);
        let [commands, input, output] =
            [&rates.commands, &rates.input, &rates.output].map(|rate| rate.load(Ordering::Relaxed));
        self.total("total_connections_received");
        self.total("total_commands_processed");
        self.field("instantaneous_ops_per_sec", commands);
        self.total("total_net_input_bytes");
        self.total("total_net_output_bytes");
        self.field("instantaneous_input_kbps", kilobytes(input));
        self.field("instantaneous_output_kbps", kilobytes(output));
        self.total("rejected_connections");
        self.zeros("sync_full sync_partial_ok sync_partial_err");
        self.sum("expired_keys", |worker| &worker.expired);
        self.sum("evicted_keys", |worker| &worker.evicted);
        self.field("evicted_clients", 0);
        self.sum("keyspace_hits", |worker| &worker.hits);
        self.sum("keyspace_misses", |worker| &worker.misses);
        let subscriptions = &self.shared.subscriptions;
        self.field("pubsub_channels", subscriptions.names(SubscriptionKind::Channel));
        self.field("pubsub_patterns", subscriptions.names(SubscriptionKind::Pattern));
        self.field(
            "pubsubshard_channels",
            subscriptions.names(SubscriptionKind::ShardChannel),
        );
        self.zeros("latest_fork_usec total_forks migrate_cached_sockets tracking_total_keys");
        self.zeros("slave_expires_tracked_keys active_defrag_hits active_defrag_misses");
        self.zeros("active_defrag_key_hits active_defrag_key_misses");
        self.total("total_error_replies");
        self.total("total_reads_processed");
        self.total("total_writes_processed");
    }

    /// What connections hold of requests and replies.
    fn buffers(&self) -> Buffers {
        let mut buffers = Buffers::default();
        for info in self.shared.clients.all() {
            let input = info.input_bytes.load(Ordering::Relaxed);
            let output = info.output_bytes.load(Ordering::Relaxed);
            buffers.input += input;
            buffers.output += output;
            buffers.largest_input = buffers.largest_input.max(input);
            buffers.largest_output = buffers.largest_output.max(output);
        }
        buffers
    }

    fn replication(&mut self) {
        self.field("role", "master");
        self.field("connected_slaves", 0);
        self.field("master_failover_state", "no-failover");
        // There is no history to name, so the name of this start stands for it.
        self.field("master_replid", &self.shared.run_id);
        self.field("master_replid2", "0".repeat(40));
        self.field("master_repl_offset", 0);
        self.field("second_repl_offset", -1);
        self.zeros("repl_backlog_active repl_backlog_first_byte_offset repl_backlog_histlen");
    }

    fn cpu(&mut self) {
        let process = (self.shared.hooks.process)();
        self.field("used_cpu_sys", format_args!("{:.6}", process.cpu_system_secs));
        self.field("used_cpu_user", format_args!("{:.6}", process.cpu_user_secs));
        self.field("used_cpu_sys_children", "0.000000");
        self.field("used_cpu_user_children", "0.000000");
    }

    fn command_stats(&mut self) {
        for id in CommandId::ALL {
            let name = id.spec().name;
            let [calls, rejected, failed, nanos] = ["calls", "rejected", "failed", "nanos"]
                .map(|what| self.totals.get(&format!("{name}:{what}")));
            if calls + rejected + failed > 0 {
                self.field(
                    &format!("cmdstat_{name}"),
                    format_args!(
                        "calls={calls},usec={},usec_per_call={:.2},rejected_calls={rejected},failed_calls={failed}",
                        nanos / 1_000,
                        ratio(nanos, calls) / 1_000.0
                    ),
                );
            }
        }
    }

    fn error_stats(&mut self) {
        let mut sum = BTreeMap::new();
        let mut is_complete = true;
        for worker in &self.shared.workers {
            is_complete &= worker.error_counts().add_to(&mut sum);
        }
        if !is_complete || sum.len() > ErrorCounts::WORDS_MAX {
            sum = BTreeMap::from([(ErrorCounts::OFF.into(), 1)]);
        }
        for (word, count) in sum {
            let word = String::from_utf8_lossy(&word);
            self.field(&format!("errorstat_{word}"), format_args!("count={count}"));
        }
    }

    fn latency_stats(&mut self) {
        for id in CommandId::ALL {
            let counts = super::latency::counts_of(self.shared, *id);
            if counts.total() == 0 || self.settings.latency_percentiles.is_empty() {
                continue;
            }
            let stats = self.settings.latency_percentiles.iter().map(|percent| {
                let micros = counts.percentile(*percent) as f64 / 1_000.0;
                format!("p{percent}={micros:.3}")
            });
            let stats: Vec<String> = stats.collect();
            let name = id.spec().name;
            self.field(&format!("latency_percentiles_usec_{name}"), stats.join(","));
        }
    }

    fn cluster(&mut self) {
        self.field("cluster_enabled", u8::from(self.endpoint == Endpoint::Cluster));
    }

    fn chorale(&mut self) {
        self.field("workers", self.shared.workers.len());
        self.field("groups", self.shared.key_groups().get());
        self.total("turns");
        self.total("hops");
        self.total("transactions");
        self.total("transaction_retries");
        self.sum("transactions_prepared", |worker| &worker.locked);
        self.sum("lock_waiters", |worker| &worker.lock_waiters);
        self.total("transactions_refused");
        self.total("scripts_at_once");
        self.total("scripts_on_copies");
        self.total("scripts_as_transactions");
        let stats = self.shared.transactions();
        self.field("transactions_in_flight", stats.in_flight);
        self.field("transactions_settling", stats.settling);
        self.field("transactions_in_doubt", stats.in_doubt);
        self.field("transactions_recovered", stats.recovered);
        self.field("transactions_wounded", stats.wounded);
        self.field("transactions_torn", stats.torn_count);
        self.field("partitions_moved", stats.partitions_moved);
        self.field("partition_moves_given_up", stats.partition_moves_given_up);
        self.field("transactions_ended", stats.groups.ended);
        self.field("transaction_late_answers", stats.groups.deferred);
        self.field("request_results", stats.groups.results);
        self.field("request_results_bytes", stats.groups.result_bytes);
        let counts = self.shared.replica_counts();
        self.field("scrub_rounds", counts.scrubs);
        self.field("scrub_rounds_undecided", counts.undecided);
        self.field("replicas_differing", counts.differing);
        self.sum("data_bytes", |worker| &worker.data_bytes);
        self.total("output_limit_closes");
        self.total("input_limit_closes");
    }

    fn coding(&mut self) {
        let counts = self.shared.coding_counts();
        self.field("coding_groups", counts.groups);
        self.field("coding_groups_filling", counts.groups_filling);
        self.field("coding_groups_cutting", counts.groups_cutting);
        self.field("coding_groups_stalled", counts.groups_stalled);
        self.field("coding_lag", counts.lag_max);
        self.field("coded_values", counts.tally.coded_values);
        self.field("coded_value_bytes", counts.tally.coded_bytes);
        self.field("coded_fragment_bytes", counts.tally.fragment_bytes);
        self.field("coded_whole_values", counts.tally.whole_values);
        self.field("coded_whole_bytes", counts.tally.whole_bytes);
        self.field("coding_gathering", counts.gathering);
        self.field("coding_gathered", counts.gathered);
        self.field("coding_to_refill", counts.to_recode);
        self.field("coding_refilled", counts.recoded);
        self.field("coding_demoted", counts.demoted);
        self.field("coding_damaged", counts.damaged);
        self.field("coding_lacking", counts.lacking);
    }

    fn keyspace(&mut self) {
        let counts = match self.counts {
            Some(counts) => counts.total(self.endpoint == Endpoint::Cluster),
            None => self.shared.key_counts(),
        };
        for (db, count) in counts {
            if count.keys > 0 {
                let (keys, expires, ttl) = (count.keys, count.expires, count.mean_ttl(self.now));
                self.field(
                    &format!("db{}", db.number()),
                    format_args!("keys={keys},expires={expires},avg_ttl={ttl}"),
                );
            }
        }
    }
}

/// `part` divided by `whole`, 0 if there is nothing to divide by.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Bytes as Redis writes them for people.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "K", "M", "G", "T", "P"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1_024.0 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes}B")
    } else {
        format!("{value:.2}{}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{Boot, GroupCount};
    use resp::ArgsBuf;

    fn shared() -> Shared {
        let groups = ids::Groups::with_default_partitions(GroupCount::new(16).unwrap());
        Shared::new(
            Boot(1),
            "a".repeat(40),
            1_000,
            6379,
            groups,
            2,
            Settings::default(),
        )
    }

    fn report(shared: &Shared, names: &str) -> String {
        let names = ArgsBuf::from_slices(names.split_whitespace());
        let settings = shared.settings();
        Report::new(shared, &settings, Endpoint::AnyNode, UnixMillis(91_000), None)
            .text(&wanted(names.as_args()))
    }

    #[test]
    fn memory_is_sampled_when_it_is_asked_for() {
        let mut shared = shared();
        shared.memory.allocated = 5_000_000.into();
        shared.hooks.sample_memory = |shared| shared.memory.allocated.store(1_000_000, Ordering::Relaxed);
        let text = report(&shared, "memory");
        assert!(text.contains("used_memory:1000000\r\n"), "{text}");
    }

    fn titles(text: &str) -> Vec<&str> {
        text.lines().filter_map(|line| line.strip_prefix("# ")).collect()
    }

    #[test]
    fn sections_are_chosen_by_name_in_any_case_and_shown_once() {
        let shared = shared();
        assert_eq!(report(&shared, "foo"), "");
        assert_eq!(
            titles(&report(&shared, "CLIENTS server foo server")),
            ["Server", "Clients"]
        );
        let default = report(&shared, "");
        assert_eq!(titles(&default), titles(&report(&shared, "default")));
        assert!(!default.contains("# Commandstats") && !default.contains("# Latencystats"));
        assert_eq!(
            titles(&report(&shared, "default commandstats")).len(),
            titles(&default).len() + 1
        );
        for all in ["all", "everything", "all default cpu"] {
            assert_eq!(titles(&report(&shared, all)).len(), Section::ALL.len());
        }
    }

    #[test]
    fn every_line_is_a_title_or_a_field_or_parts_sections() {
        let text = report(&shared(), "all");
        assert!(text.starts_with("# Server\r\nredis_version:"));
        for line in text.split("\r\n") {
            assert!(
                line.is_empty() || line.starts_with("# ") || line.contains(':'),
                "{line:?}"
            );
        }
        for field in [
            "uptime_in_seconds:90",
            "tcp_port:6379",
            "loading:0",
            "role:master",
            "cluster_enabled:0",
        ] {
            assert!(text.split("\r\n").any(|line| line == field), "{field}");
        }
    }

    #[test]
    fn stats_are_summed_over_workers_and_empty_databases_left_out() {
        let shared = shared();
        shared.workers[0].keys[3].set(2);
        shared.workers[1].keys[3].set(5);
        shared.workers[1].keys_with_deadline[3].set(1);
        assert_eq!(
            report(&shared, "keyspace"),
            "# Keyspace\r\ndb3:keys=7,expires=1,avg_ttl=0\r\n"
        );
    }

    #[test]
    fn totals_count_from_the_last_reset() {
        let shared = shared();
        let call = |worker: usize| {
            shared.workers[worker].commands.add(1);
            shared.workers[worker].by_command[CommandId::ClientList]
                .calls
                .add(1);
        };
        call(0);
        call(1);
        assert!(report(&shared, "stats").contains("total_commands_processed:2\r\n"));
        assert_eq!(
            report(&shared, "commandstats"),
            "# Commandstats\r\ncmdstat_client|list:calls=2,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0\r\n"
        );
        shared.baseline.lock().unwrap().totals = Totals::of(&shared).into_baseline();
        assert_eq!(report(&shared, "commandstats"), "# Commandstats\r\n");
        call(1);
        assert!(report(&shared, "stats").contains("total_commands_processed:1\r\n"));
        assert!(report(&shared, "commandstats").contains("cmdstat_client|list:calls=1,"));
    }

    #[test]
    fn sizes_for_people_have_two_decimals() {
        assert_eq!(human(0), "0B");
        assert_eq!(human(1_023), "1023B");
        assert_eq!(human(1_024), "1.00K");
        assert_eq!(human(1_746_160), "1.67M");
        assert_eq!(human(25_276_510_208), "23.54G");
    }
}

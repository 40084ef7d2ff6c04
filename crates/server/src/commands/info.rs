//! `INFO`: fields for people and for the tools that read Redis's.
//!
//! A field stands here if a tool reads it or an operator wants it. What has no meaning here is left out, or shows
//! the value that says so where tools expect the field.

mod process;

use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::error_counts::ErrorCounts;
use crate::gateway::Gateway;
use crate::key_counts::KeyCounts;
use crate::pubsub::Kind;
use crate::shared::Shared;
use command::CommandId;
use ids::UnixMillis;
use options::Settings;
use resp::{Args, Writer};
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl Gateway {
    /// `INFO` outside of `MULTI`: other workers refresh their figures first, and other nodes count what they lead.
    pub(super) fn on_info(&mut self, connection: &mut Connection, args: Args<'_>) {
        let ticket = self.reserve(connection);
        connection.session.is_waiting = true;
        let counts_keys = wanted(args.from(1)).contains(&Section::Keyspace);
        // Clients of the cluster endpoint ask every node themselves.
        let is_for_all = counts_keys && connection.session.endpoint == Endpoint::AnyNode;
        self.count_keys(ticket, args, is_for_all);
    }

    /// Without counts where there is nobody else to ask, and inside `EXEC`, which waits for nobody: there what others hold is a
    /// little old.
    pub(crate) fn info(
        &mut self,
        endpoint: Endpoint,
        args: Args<'_>,
        counts: Option<&KeyCounts>,
        w: &mut Writer<'_>,
    ) {
        self.refresh_figures();
        let sections = wanted(args.from(1));
        let report = Report::new(&self.shared, &self.settings, endpoint, self.turn.now, counts);
        w.verbatim("txt", report.text(&sections).as_bytes());
    }
}

/// The sections, in the order in which they are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Section {
    Server,
    Clients,
    Memory,
    Persistence,
    Stats,
    Replication,
    Cpu,
    Modules,
    CommandStats,
    ErrorStats,
    LatencyStats,
    Cluster,
    Chorale,
    Keyspace,
}

impl Section {
    const ALL: &'static [Section] = &[
        Section::Server,
        Section::Clients,
        Section::Memory,
        Section::Persistence,
        Section::Stats,
        Section::Replication,
        Section::Cpu,
        Section::Modules,
        Section::CommandStats,
        Section::ErrorStats,
        Section::LatencyStats,
        Section::Cluster,
        Section::Chorale,
        Section::Keyspace,
    ];

    fn title(self) -> &'static str {
        match self {
            Section::Server => "Server",
            Section::Clients => "Clients",
            Section::Memory => "Memory",
            Section::Persistence => "Persistence",
            Section::Stats => "Stats",
            Section::Replication => "Replication",
            Section::Cpu => "CPU",
            Section::Modules => "Modules",
            Section::CommandStats => "Commandstats",
            Section::ErrorStats => "Errorstats",
            Section::LatencyStats => "Latencystats",
            Section::Cluster => "Cluster",
            Section::Chorale => "Chorale",
            Section::Keyspace => "Keyspace",
        }
    }

    /// Shown only if asked for: they have a line for each command.
    fn is_long(self) -> bool {
        matches!(self, Section::CommandStats | Section::LatencyStats)
    }
}

/// The sections that the words after `INFO` name; words that name none are passed over.
fn wanted(names: Args<'_>) -> Vec<Section> {
    let is_wanted = |section: &Section| {
        names.iter().any(|name| {
            let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
            is(section.title()) || is("all") || is("everything") || (is("default") && !section.is_long())
        })
    };
    let all = Section::ALL.iter().copied();
    if names.is_empty() {
        all.filter(|section| !section.is_long()).collect()
    } else {
        all.filter(is_wanted).collect()
    }
}

/// Counters that `CONFIG RESETSTAT` sets back and that workers only add to, by their field of `INFO`.
pub(super) struct Totals(BTreeMap<String, u64>);

impl Totals {
    /// Since the start.
    pub(super) fn of(shared: &Shared) -> Totals {
        let mut totals = BTreeMap::new();
        for (name, total) in [
            (
                "total_connections_received",
                shared.accepted.load(Ordering::Relaxed),
            ),
            ("rejected_connections", shared.refused.load(Ordering::Relaxed)),
            (
                "total_commands_processed",
                shared.total(|worker| worker.commands.get()),
            ),
            (
                "total_net_input_bytes",
                shared.total(|worker| worker.input_bytes.get()),
            ),
            (
                "total_net_output_bytes",
                shared.total(|worker| worker.output_bytes.get()),
            ),
            ("total_reads_processed", shared.total(|worker| worker.reads.get())),
            (
                "total_writes_processed",
                shared.total(|worker| worker.writes.get()),
            ),
            ("total_error_replies", shared.total(|worker| worker.errors.get())),
            ("hops", shared.total(|worker| worker.hops.get())),
            ("turns", shared.total(|worker| worker.turns.get())),
            ("transactions", shared.total(|worker| worker.transactions.get())),
            (
                "transaction_retries",
                shared.total(|worker| worker.transaction_retries.get()),
            ),
            (
                "transactions_refused",
                shared.total(|worker| worker.transactions_refused.get()),
            ),
            (
                "output_limit_closes",
                shared.total(|worker| worker.output_limit_closes.get()),
            ),
            (
                "input_limit_closes",
                shared.total(|worker| worker.input_limit_closes.get()),
            ),
        ] {
            totals.insert(name.to_owned(), total);
        }
        for &id in CommandId::ALL {
            let name = id.spec().name;
            for (what, total) in [
                ("calls", shared.total(|worker| worker.by_command[id].calls.get())),
                (
                    "rejected",
                    shared.total(|worker| worker.by_command[id].rejected.get()),
                ),
                (
                    "failed",
                    shared.total(|worker| worker.by_command[id].failed.get()),
                ),
                ("nanos", shared.total(|worker| worker.by_command[id].nanos.get())),
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
        let baseline = shared.baseline.lock().unwrap_or_else(PoisonError::into_inner);
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
        for &section in sections {
            if !self.text.is_empty() {
                self.text.push_str("\r\n");
            }
            let _ = write!(self.text, "# {}\r\n", section.title());
            match section {
                Section::Server => self.server(),
                Section::Clients => self.clients(),
                Section::Memory => self.memory(),
                Section::Persistence => self.persistence(),
                Section::Stats => self.stats(),
                Section::Replication => self.replication(),
                Section::Cpu => self.cpu(),
                Section::CommandStats => self.command_stats(),
                Section::Cluster => {
                    self.field("cluster_enabled", u8::from(self.endpoint == Endpoint::Cluster));
                }
                Section::Chorale => self.chorale(),
                Section::Keyspace => self.keyspace(),
                Section::ErrorStats => self.error_stats(),
                Section::LatencyStats => self.latency_stats(),
                // There are no modules.
                Section::Modules => {}
            }
        }
        self.text
    }

    fn field(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    /// A number of bytes, and the same for people.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.field(name, bytes);
        self.field(&format!("{name}_human"), human(bytes));
    }

    /// A counter under its own name.
    fn total(&mut self, name: &str) {
        self.field(name, self.totals.get(name));
    }

    fn server(&mut self) {
        let uptime = self.now.0.saturating_sub(self.shared.started_at).max(0) / 1_000;
        let hz = self.settings.get("hz").unwrap_or_default();
        let executable = std::env::current_exe().unwrap_or_default();
        self.field("redis_version", Gateway::REDIS_VERSION);
        self.field("chorale_version", env!("CARGO_PKG_VERSION"));
        self.field("redis_mode", self.endpoint.mode());
        self.field("os", process::system());
        self.field("arch_bits", usize::BITS);
        self.field("process_id", std::process::id());
        self.field("process_supervised", "no");
        self.field("run_id", &self.shared.run_id);
        let port = match self.endpoint {
            Endpoint::AnyNode => self.shared.port,
            Endpoint::Cluster => self.shared.cluster_port.unwrap_or(self.shared.port),
        };
        self.field("tcp_port", port);
        self.field("server_time_usec", self.now.0 * 1_000);
        self.field("uptime_in_seconds", uptime);
        self.field("uptime_in_days", uptime / 86_400);
        self.field("hz", &hz);
        self.field("configured_hz", &hz);
        // Seconds, in the 24 bits that Redis keeps with a key.
        self.field("lru_clock", (self.now.0 / 1_000) & 0xff_ffff);
        self.field("executable", executable.display());
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
        self.field(
            "blocked_clients",
            self.shared
                .total(|worker| worker.blocked.get() + worker.paused.get()),
        );
        self.field("tracking_clients", 0);
        self.field("clients_in_timeout_table", 0);
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
        self.bytes("total_system_memory", process::system_memory());
        self.bytes("used_memory_lua", 0);
        self.field("used_memory_scripts", 0);
        self.field("number_of_cached_scripts", 0);
        self.field("number_of_functions", 0);
        self.field("number_of_libraries", 0);
        self.bytes("maxmemory", self.settings.maxmemory);
        self.field("maxmemory_policy", self.settings.maxmemory_policy.word());
        self.field(
            "mem_fragmentation_ratio",
            format_args!("{:.2}", ratio(resident, used)),
        );
        self.field("mem_fragmentation_bytes", resident as i64 - used as i64);
        self.field(
            "allocator_frag_ratio",
            format_args!("{:.2}", ratio(active, allocated)),
        );
        self.field("allocator_frag_bytes", active as i64 - allocated as i64);
        self.field(
            "allocator_rss_ratio",
            format_args!("{:.2}", ratio(resident, active)),
        );
        self.field("allocator_rss_bytes", resident as i64 - active as i64);
        self.field(
            "mem_not_counted_for_evict",
            used.saturating_sub(self.shared.counted_memory()),
        );
        self.field("mem_replication_backlog", 0);
        self.field("mem_total_replication_buffers", 0);
        self.field("mem_clients_slaves", 0);
        let buffers = self.buffers().input + self.buffers().output;
        self.field("mem_clients_normal", buffers);
        let links = self.shared.links();
        let allocated = links.values().map(|sight| sight.link.buffer_bytes);
        self.field("mem_cluster_links", allocated.sum::<u64>());
        self.field("mem_aof_buffer", 0);
        self.field("mem_allocator", "jemalloc-5.3.0");
        self.field("active_defrag_running", 0);
        let pending = self.shared.total(|worker| worker.lazyfree_pending.get());
        self.field("lazyfree_pending_objects", pending);
        let dropped = self.shared.total(|worker| worker.lazyfreed.get());
        self.field("lazyfreed_objects", dropped);
    }

    fn persistence(&mut self) {
        self.field("loading", 0);
        self.field("async_loading", 0);
        // Nothing is ever saved: all changes since the start.
        self.field(
            "rdb_changes_since_last_save",
            self.shared.total(|worker| worker.changes.get()),
        );
        self.field("rdb_bgsave_in_progress", 0);
        self.field("rdb_last_save_time", self.shared.started_at / 1_000);
        self.field("rdb_last_bgsave_status", "ok");
        self.field("rdb_last_bgsave_time_sec", -1);
        self.field("rdb_current_bgsave_time_sec", -1);
        self.field("rdb_saves", 0);
        self.field("rdb_last_cow_size", 0);
        self.field("aof_enabled", 0);
        self.field("aof_rewrite_in_progress", 0);
        self.field("aof_rewrite_scheduled", 0);
        self.field("aof_last_rewrite_time_sec", -1);
        self.field("aof_current_rewrite_time_sec", -1);
        self.field("aof_last_bgrewrite_status", "ok");
        self.field("aof_last_write_status", "ok");
        self.field("aof_last_cow_size", 0);
        self.field("module_fork_in_progress", 0);
        self.field("module_fork_last_cow_size", 0);
    }

    fn stats(&mut self) {
        let rates = &self.shared.rates;
        let kilobytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1_024.0);
        let (input, output) = (
            rates.input.load(Ordering::Relaxed),
            rates.output.load(Ordering::Relaxed),
        );
        self.total("total_connections_received");
        self.total("total_commands_processed");
        self.field(
            "instantaneous_ops_per_sec",
            rates.commands.load(Ordering::Relaxed),
        );
        self.total("total_net_input_bytes");
        self.total("total_net_output_bytes");
        self.field("instantaneous_input_kbps", kilobytes(input));
        self.field("instantaneous_output_kbps", kilobytes(output));
        self.total("rejected_connections");
        self.field("sync_full", 0);
        self.field("sync_partial_ok", 0);
        self.field("sync_partial_err", 0);
        self.field("expired_keys", self.shared.total(|worker| worker.expired.get()));
        self.field("evicted_keys", self.shared.total(|worker| worker.evicted.get()));
        self.field("evicted_clients", 0);
        self.field("keyspace_hits", self.shared.total(|worker| worker.hits.get()));
        self.field("keyspace_misses", self.shared.total(|worker| worker.misses.get()));
        let subscriptions = &self.shared.subscriptions;
        self.field("pubsub_channels", subscriptions.names(Kind::Channel));
        self.field("pubsub_patterns", subscriptions.names(Kind::Pattern));
        self.field("pubsubshard_channels", subscriptions.names(Kind::ShardChannel));
        self.field("latest_fork_usec", 0);
        self.field("total_forks", 0);
        self.field("migrate_cached_sockets", 0);
        self.field("tracking_total_keys", 0);
        self.field("slave_expires_tracked_keys", 0);
        self.field("active_defrag_hits", 0);
        self.field("active_defrag_misses", 0);
        self.field("active_defrag_key_hits", 0);
        self.field("active_defrag_key_misses", 0);
        self.total("total_error_replies");
        self.total("total_reads_processed");
        self.total("total_writes_processed");
    }

    /// What connections hold of requests and replies.
    fn buffers(&self) -> Buffers {
        let mut buffers = Buffers::default();
        for card in self.shared.clients.all() {
            let input = card.input_bytes.load(Ordering::Relaxed);
            let output = card.output_bytes.load(Ordering::Relaxed);
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
        self.field("repl_backlog_active", 0);
        self.field("repl_backlog_first_byte_offset", 0);
        self.field("repl_backlog_histlen", 0);
    }

    fn cpu(&mut self) {
        let times = process::cpu_seconds();
        self.field("used_cpu_sys", format_args!("{:.6}", times.system));
        self.field("used_cpu_user", format_args!("{:.6}", times.user));
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
            let figures = self.settings.latency_percentiles.iter().map(|percent| {
                let micros = counts.percentile(*percent) as f64 / 1_000.0;
                format!("p{percent}={micros:.3}")
            });
            let figures: Vec<String> = figures.collect();
            let name = id.spec().name;
            self.field(&format!("latency_percentiles_usec_{name}"), figures.join(","));
        }
    }

    fn chorale(&mut self) {
        self.field("workers", self.shared.workers.len());
        self.field("groups", self.shared.groups.get());
        self.total("turns");
        self.total("hops");
        self.total("transactions");
        self.total("transaction_retries");
        self.field(
            "transactions_prepared",
            self.shared.total(|worker| worker.locked.get()),
        );
        self.field(
            "lock_waiters",
            self.shared.total(|worker| worker.lock_waiters.get()),
        );
        self.total("transactions_refused");
        let figures = self.shared.transactions();
        self.field("transactions_in_flight", figures.in_flight);
        self.field("transactions_settling", figures.settling);
        self.field("transactions_in_doubt", figures.in_doubt);
        self.field("transactions_recovered", figures.recovered);
        self.field("transactions_wounded", figures.wounded);
        self.field("transactions_torn", figures.torn_count);
        self.field("transactions_ended", figures.groups.ended);
        self.field("transaction_late_answers", figures.groups.late);
        self.field("request_results", figures.groups.results);
        self.field("request_results_bytes", figures.groups.result_bytes);
        let counts = self.shared.replica_counts();
        self.field("scrub_rounds", counts.scrubs);
        self.field("scrub_rounds_undecided", counts.undecided);
        self.field("replicas_differing", counts.differing);
        self.field("data_bytes", self.shared.total(|worker| worker.data_bytes.get()));
        self.total("output_limit_closes");
        self.total("input_limit_closes");
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
    fn figures_are_summed_over_workers_and_empty_databases_left_out() {
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

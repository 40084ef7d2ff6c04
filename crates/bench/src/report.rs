//! What was measured: as values for `--json`, and as text.
//!
//! Times are milliseconds, unless the name of a field ends in another unit. docs/benchmarking.md says what each field means.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use serde::Serialize;

use crate::faults::Mark;

/// From this share of a core on, the threads of the tool are the limit, and not the server.
const BUSY_LIMIT: f64 = 0.9;

/// What to do about some kinds of errors.
const HINTS: &[(&str, &str)] = &[
    (
        "CROSSSLOT",
        "this server takes commands of several keys only if they share a slot: take --tagged",
    ),
    ("MOVED", "this is a node of a cluster: take --cluster"),
    (
        "WRONGTYPE",
        "keys that begin with bench: hold something else: use an empty server",
    ),
];

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name and version of the tool.
    pub tool: String,
    /// When the run began, in seconds since 1970.
    pub began_unix_secs: u64,
    /// What was asked for.
    pub setup: Setup,
    /// How long it was measured.
    pub seconds: f64,
    /// Requests that succeeded.
    pub requests: u64,
    /// The same by second.
    pub requests_per_second: f64,
    /// Of the requests that succeeded.
    pub latency: Latency,
    /// More percentiles, for pictures.
    pub percentiles: Vec<Percentile>,
    /// Requests that failed.
    pub errors: u64,
    /// Those by kind.
    pub errors_by_kind: BTreeMap<String, u64>,
    /// Keys that were read and were not there.
    pub misses: u64,
    /// `MOVED` and `ASK` that were followed.
    pub redirects: u64,
    /// Connections that ended.
    pub connections_lost: u64,
    /// Attempts to connect that failed.
    pub connects_failed: u64,
    /// Requests of an open loop that were due and never began.
    pub not_started: u64,
    /// By round trip.
    pub round_trips: Vec<RoundTrip>,
    /// Processes of this machine that served.
    pub servers: Vec<Server>,
    /// The tool itself.
    pub client: Client,
    /// Second by second.
    pub timeline: Vec<Row>,
    /// What happened to servers.
    pub faults: Vec<Mark>,
    /// It was ended before its time.
    pub is_cut_short: bool,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    /// Name of the workload.
    pub workload: String,
    /// Where the servers are.
    pub endpoints: Vec<String>,
    /// What they say that they are.
    pub versions: Vec<String>,
    /// Clients know slots.
    pub is_cluster: bool,
    /// Of each endpoint.
    pub clients: usize,
    /// Requests of one client on their way at a time.
    pub pipeline: usize,
    /// How many there are.
    pub keys: u64,
    /// How they are drawn.
    pub distribution: String,
    /// Bytes of values.
    pub size: String,
    /// Keys of one `MSET` or `MGET`.
    pub batch: u64,
    /// Those share a hash tag.
    pub is_tagged: bool,
    /// Replicas that `WAIT` asked for behind every write.
    pub wait: Option<u64>,
    /// `GET` and `SET` of `get_set`.
    pub ratio: String,
    /// Requests per second of an open loop.
    pub rate: Option<f64>,
    /// How these beginnings lie in time: `even` or `poisson`.
    pub arrivals: String,
    /// RESP3 was spoken.
    pub is_resp3: bool,
    /// What was left out before.
    pub warmup_seconds: f64,
    /// How long replies were waited for.
    pub timeout_seconds: f64,
    /// Everything drawn follows from it.
    pub seed: u64,
    /// Of the tool.
    pub threads: usize,
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// Exactly.
    pub average_ms: f64,
    /// To 0.4 %, like the following.
    pub p50_ms: f64,
    /// Nine of ten took no longer.
    pub p90_ms: f64,
    /// 99 of a hundred.
    pub p99_ms: f64,
    /// 999 of a thousand.
    pub p999_ms: f64,
    /// Exactly.
    pub max_ms: f64,
}

/// This share of the requests took no longer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Percentile {
    /// 0 to 1.
    pub share: f64,
    /// The latency.
    pub ms: f64,
}

/// One round trip of a workload's requests.
#[derive(Clone, Debug, Serialize)]
pub struct RoundTrip {
    /// The command, and of which kind of request if that is not clear.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Exactly.
    pub average_ms: f64,
    /// To 0.4 %.
    pub p50_ms: f64,
    /// To 0.4 %.
    pub p99_ms: f64,
    /// Exactly.
    pub max_ms: f64,
}

/// A process that served.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    /// Where it listens.
    pub endpoint: String,
    /// Its number; the last one, if it was started again.
    pub process: u32,
    /// Time on a processor while it was measured.
    pub cpu_seconds: f64,
    /// The same by all requests that succeeded, whichever server answered them.
    pub cpu_us_per_request: Option<f64>,
    /// Its memory at the end.
    pub resident_bytes: Option<u64>,
}

/// The tool itself.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Client {
    /// By request that succeeded.
    pub cpu_us_per_request: Option<f64>,
    /// Share of a core that its busiest thread used.
    pub busiest_thread: Option<f64>,
    /// That is so much that the figures are rather the tool's than the server's.
    pub is_limit: bool,
}

impl Client {
    pub(crate) fn judge(&mut self) {
        self.is_limit = self.busiest_thread.is_some_and(|share| share > BUSY_LIMIT);
    }
}

/// One second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// Its number, from 0.
    pub second: u64,
    /// Requests that succeeded in it.
    pub requests: u64,
    /// Requests that failed in it.
    pub errors: u64,
    /// Of those that ended in it.
    pub p50_ms: f64,
    /// Likewise.
    pub p99_ms: f64,
    /// Likewise.
    pub max_ms: f64,
}

impl Row {
    /// One line.
    pub(crate) fn line(&self) -> String {
        format!(
            "{:>5} s  {:>11}/s  p50 {:>8}  p99 {:>8}  max {:>8}  errors {}",
            self.second + 1,
            thousands(self.requests),
            time(self.p50_ms),
            time(self.p99_ms),
            time(self.max_ms),
            thousands(self.errors)
        )
    }
}

/// The report for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setup = &self.setup;
        writeln!(f, "{} against {}", setup.workload, setup.endpoints.join(", "))?;
        for version in &setup.versions {
            writeln!(f, "  {version}")?;
        }
        let loop_kind = match setup.rate {
            None => "closed loop".to_owned(),
            Some(rate) => format!(
                "open loop at {} requests/s, {} arrivals",
                thousands(rate.round() as u64),
                setup.arrivals
            ),
        };
        let cluster = if setup.is_cluster { ", by slots" } else { "" };
        let protocol = if setup.is_resp3 { ", RESP3" } else { "" };
        let wait = setup.wait.map_or_else(String::new, |replicas| {
            format!(", WAIT {replicas} behind every write")
        });
        writeln!(
            f,
            "  {} clients at each{cluster}{protocol}{wait}, {loop_kind}, pipeline {}, {} keys drawn {}, values of {} bytes, seed {}",
            setup.clients,
            setup.pipeline,
            thousands(setup.keys),
            setup.distribution,
            setup.size,
            setup.seed
        )?;
        let cut = if self.is_cut_short { ", cut short" } else { "" };
        writeln!(
            f,
            "  {:.1} s measured after {:.1} s of warm-up{cut}\n",
            self.seconds, setup.warmup_seconds
        )?;
        writeln!(
            f,
            "  requests   {}   {}/s",
            thousands(self.requests),
            thousands(self.requests_per_second.round() as u64)
        )?;
        if self.requests > 0 {
            let latency = &self.latency;
            writeln!(
                f,
                "  latency    average {}   p50 {}   p90 {}   p99 {}   p99.9 {}   max {}",
                time(latency.average_ms),
                time(latency.p50_ms),
                time(latency.p90_ms),
                time(latency.p99_ms),
                time(latency.p999_ms),
                time(latency.max_ms)
            )?;
        }
        writeln!(f, "  errors     {}", self.errors_in_words())?;
        for (kind, hint) in HINTS {
            if self.errors_by_kind.contains_key(*kind) {
                writeln!(f, "             {kind}: {hint}")?;
            }
        }
        for (count, what) in [
            (self.misses, "keys that were read were not there"),
            (self.redirects, "redirections of a cluster were followed"),
            (self.connections_lost, "connections were lost"),
            (self.connects_failed, "attempts to connect failed"),
            (
                self.not_started,
                "requests were due and never began: the server does not keep up with this rate",
            ),
        ] {
            if count > 0 {
                writeln!(f, "             {} {what}", thousands(count))?;
            }
        }
        if self.round_trips.len() > 1 {
            writeln!(f)?;
            for trip in &self.round_trips {
                writeln!(
                    f,
                    "  {:<18} {:>12}   average {:>8}   p50 {:>8}   p99 {:>8}   max {:>8}",
                    trip.name,
                    thousands(trip.count),
                    time(trip.average_ms),
                    time(trip.p50_ms),
                    time(trip.p99_ms),
                    time(trip.max_ms)
                )?;
            }
        }
        writeln!(f)?;
        for server in &self.servers {
            writeln!(
                f,
                "  server     {} (process {}): {} CPU per request{}",
                server.endpoint,
                server.process,
                micros(server.cpu_us_per_request),
                server.resident_bytes.map_or_else(String::new, |bytes| {
                    format!(", {:.1} MB resident", bytes as f64 / 1e6)
                })
            )?;
        }
        let busy = self.client.busiest_thread.map_or_else(String::new, |share| {
            format!(", its busiest thread {:.0} % busy", share * 100.0)
        });
        writeln!(
            f,
            "  this tool  {} CPU per request{busy}",
            micros(self.client.cpu_us_per_request)
        )?;
        if self.client.is_limit {
            writeln!(
                f,
                "             The tool is the limit, not the server: raise --threads, on a machine with cores to spare."
            )?;
        }
        for mark in &self.faults {
            let problem = mark
                .problem
                .as_ref()
                .map_or_else(String::new, |problem| format!(": {problem}"));
            writeln!(
                f,
                "  fault      at {:.1} s {}{problem}",
                mark.at_seconds, mark.what
            )?;
        }
        Ok(())
    }
}

impl Report {
    fn errors_in_words(&self) -> String {
        if self.errors == 0 {
            return "none".to_owned();
        }
        let mut kinds: Vec<(&String, &u64)> = self.errors_by_kind.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let kinds: Vec<String> = kinds
            .iter()
            .map(|(kind, count)| format!("{kind} {}", thousands(**count)))
            .collect();
        format!("{}: {}", thousands(self.errors), kinds.join(", "))
    }
}

/// Several runs that differ in the number of keys, as a table.
pub fn table(reports: &[Report]) -> String {
    let mut text = String::new();
    if let Some(first) = reports.first() {
        let setup = &first.setup;
        let _ = writeln!(
            text,
            "{} against {}, {} clients at each, keys drawn {}\n",
            setup.workload,
            setup.endpoints.join(", "),
            setup.clients,
            setup.distribution
        );
    }
    let _ = writeln!(
        text,
        "{:>13}  {:>12}  {:>9}  {:>9}  {:>9}  {:>9}  errors",
        "keys", "requests/s", "average", "p50", "p99", "max"
    );
    for report in reports {
        let _ = writeln!(
            text,
            "{:>13}  {:>12}  {:>9}  {:>9}  {:>9}  {:>9}  {}",
            thousands(report.setup.keys),
            thousands(report.requests_per_second.round() as u64),
            time(report.latency.average_ms),
            time(report.latency.p50_ms),
            time(report.latency.p99_ms),
            time(report.latency.max_ms),
            report.errors_in_words()
        );
    }
    text
}

/// A time in the unit in which it is short.
pub(crate) fn time(ms: f64) -> String {
    if ms >= 10_000.0 {
        format!("{:.1} s", ms / 1e3)
    } else if ms >= 1_000.0 {
        format!("{:.2} s", ms / 1e3)
    } else if ms >= 100.0 {
        format!("{ms:.0} ms")
    } else if ms >= 10.0 {
        format!("{ms:.1} ms")
    } else if ms >= 1.0 {
        format!("{ms:.2} ms")
    } else {
        format!("{ms:.3} ms")
    }
}

fn micros(us: Option<f64>) -> String {
    us.map_or_else(|| "unknown".to_owned(), |us| format!("{us:.2} µs"))
}

/// Digits in groups of three.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with a bit of everything.
    pub(crate) fn example() -> Report {
        let row = |second: u64| Row {
            second,
            requests: if second == 3 { 0 } else { 40_000 + second * 100 },
            errors: if second == 3 { 12 } else { 0 },
            p50_ms: 0.2,
            p99_ms: 1.5,
            max_ms: if second == 4 { 900.0 } else { 8.0 },
        };
        Report {
            tool: "chorale bench 0.1.0".to_owned(),
            began_unix_secs: 1_790_000_000,
            setup: Setup {
                workload: "trans".to_owned(),
                endpoints: vec!["127.0.0.1:6379".to_owned(), "<other> & \"more\":1".to_owned()],
                versions: vec!["chorale 0.1.0".to_owned()],
                is_cluster: false,
                clients: 50,
                pipeline: 1,
                keys: 100_000,
                distribution: "uniform".to_owned(),
                size: "100".to_owned(),
                batch: 10,
                is_tagged: false,
                wait: Some(1),
                ratio: "1:1".to_owned(),
                rate: Some(20_000.0),
                arrivals: "even".to_owned(),
                is_resp3: false,
                warmup_seconds: 1.0,
                timeout_seconds: 5.0,
                seed: 1,
                threads: 1,
            },
            seconds: 10.0,
            requests: 1_234_567,
            requests_per_second: 123_456.7,
            latency: Latency {
                average_ms: 0.4,
                p50_ms: 0.2,
                p90_ms: 0.8,
                p99_ms: 1.5,
                p999_ms: 12.0,
                max_ms: 1_234.0,
            },
            percentiles: [(0.5, 0.2), (0.9, 0.8), (0.99, 1.5), (0.999, 12.0), (1.0, 1_234.0)]
                .map(|(share, ms)| Percentile { share, ms })
                .to_vec(),
            errors: 12,
            errors_by_kind: [("CLUSTERDOWN".to_owned(), 10), ("timeout".to_owned(), 2)].into(),
            misses: 3,
            redirects: 4,
            connections_lost: 5,
            connects_failed: 6,
            not_started: 7,
            round_trips: ["WATCH", "EXEC"]
                .map(|name| RoundTrip {
                    name: name.to_owned(),
                    count: 10,
                    average_ms: 0.1,
                    p50_ms: 0.08,
                    p99_ms: 0.7,
                    max_ms: 1.0,
                })
                .to_vec(),
            servers: vec![Server {
                endpoint: "127.0.0.1:6379".to_owned(),
                process: 4_321,
                cpu_seconds: 7.5,
                cpu_us_per_request: Some(6.07),
                resident_bytes: Some(45_100_000),
            }],
            client: Client {
                cpu_us_per_request: Some(2.1),
                busiest_thread: Some(0.95),
                is_limit: true,
            },
            timeline: (0..10).map(row).collect(),
            faults: vec![
                Mark {
                    at_seconds: 3.0,
                    what: "kill 1".to_owned(),
                    problem: None,
                },
                Mark {
                    at_seconds: 6.0,
                    what: "start <1>".to_owned(),
                    problem: Some("cannot be started".to_owned()),
                },
            ],
            is_cut_short: false,
        }
    }

    #[test]
    fn the_text_says_what_was_measured_and_what_was_in_the_way() {
        let text = example().to_string();
        for part in [
            "trans against 127.0.0.1:6379",
            "open loop at 20,000 requests/s",
            "requests   1,234,567   123,457/s",
            "p99.9 12.0 ms   max 1.23 s",
            "12: CLUSTERDOWN 10, timeout 2",
            "7 requests were due and never began",
            "process 4321): 6.07 µs CPU per request, 45.1 MB resident",
            "95 % busy",
            "The tool is the limit",
            "at 3.0 s kill 1",
            "cannot be started",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn a_run_of_errors_alone_says_what_to_do_and_no_latency() {
        let mut report = example();
        report.requests = 0;
        report.errors_by_kind = [("CROSSSLOT".to_owned(), 12)].into();
        let text = report.to_string();
        assert!(text.contains("take --tagged"), "{text}");
        assert!(!text.contains("p99.9"), "{text}");
    }

    #[test]
    fn a_thread_that_is_busy_for_nine_tenths_is_the_limit() {
        for (share, is_limit) in [(0.5, false), (0.9, false), (0.91, true)] {
            let mut client = Client {
                busiest_thread: Some(share),
                ..Client::default()
            };
            client.judge();
            assert_eq!(client.is_limit, is_limit);
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_run() {
        let table = table(&[example(), example()]);
        assert_eq!(table.lines().count(), 2 + 1 + 2);
        assert!(table.lines().last().expect("a line").contains("100,000"));
    }

    #[test]
    fn numbers_are_short() {
        let times = [0.0123, 1.5, 12.34, 123.4, 1_234.0, 12_345.0].map(time);
        assert_eq!(
            times,
            ["0.012 ms", "1.50 ms", "12.3 ms", "123 ms", "1.23 s", "12.3 s"]
        );
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(thousands),
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}

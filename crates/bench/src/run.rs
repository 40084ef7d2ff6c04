//! One run from the plan to the report: looks at the servers, loads keys, drives the threads, gathers what they tell.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::asker::{Asker, Value, command};
use crate::driver::{Done, Driver, News, Setup, Wait};
use crate::faults::{Faults, Mark};
use crate::histogram::Histogram;
use crate::plan::{Length, Plan, SECONDS_MAX};
use crate::progress::Progress;
use crate::report::{self, Client, Latency, Percentile, Report, RoundTrip, Row};
use crate::request::Shape;
use crate::slice::Slice;
use crate::slots::{Refresher, Topology};
use crate::watch::Watch;

/// Requests of one client on their way while keys are loaded. Nothing is measured then.
const LOAD_PIPELINE: usize = 16;

/// Connections that load keys.
const LOAD_CLIENTS_MAX: usize = 64;

/// How often it is looked what servers take.
const LOOK: Duration = Duration::from_millis(250);

/// Of which percentiles pictures are made.
const SHARES: [f64; 14] = [
    0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999, 0.99999, 0.999_999, 1.0,
];

/// Carries out a plan. If `stop` becomes true, it ends early with what was measured.
///
/// # Errors
/// In words for whoever started it: what is wrong, and what to do.
pub fn run(plan: &Plan, stop: &Arc<AtomicBool>) -> Result<Report, String> {
    plan.check()?;
    let progress = Progress::new(plan.shows_progress);
    let versions = plan
        .endpoints
        .iter()
        .map(|endpoint| {
            greet(
                &endpoint.to_string(),
                endpoint.address(),
                plan.password.as_deref(),
            )
        })
        .collect::<Result<Vec<String>, String>>()?;
    let faults = Faults::plan(&plan.faults, &plan.endpoints)?;
    let addresses: Vec<SocketAddr> = plan.endpoints.iter().map(|endpoint| endpoint.address()).collect();
    let topology = if plan.is_cluster {
        let topology = Arc::new(Topology::new(addresses.clone(), plan.password.clone()));
        topology.refresh().map_err(|problem| {
            format!(
                "{problem}\n--cluster is for servers that answer CLUSTER SLOTS: of Chorale that is its cluster port, 7379; \
                 leave it out for others"
            )
        })?;
        Some(topology)
    } else {
        None
    };
    let _refresher = topology.clone().map(Refresher::start);
    let made = load(plan, &addresses, topology.as_ref(), stop, &progress)?;
    let setup = setup(plan, &addresses, topology.as_ref(), stop, made);
    let mut watched: Vec<(String, SocketAddr)> = plan
        .endpoints
        .iter()
        .map(|endpoint| (endpoint.to_string(), endpoint.address()))
        .collect();
    if let Some(topology) = &topology {
        let known = topology.known();
        watched.extend(
            known
                .nodes
                .iter()
                .chain(&known.replicas)
                .map(|node| (node.to_string(), *node)),
        );
    }
    let mut gathered = drive(
        plan,
        &setup,
        plan.client_count(),
        faults,
        Watch::find(watched),
        &progress,
    )?;
    gathered.versions = versions;
    Ok(report(plan, &setup, gathered))
}

/// Says hello before anything is measured, so that what is wrong is told in words. Answers what the server is.
fn greet(name: &str, address: SocketAddr, password: Option<&str>) -> Result<String, String> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            format!(
                "nobody listens at {name}: start a server there, for example `chorale server`, or name another endpoint"
            )
        }
        io::ErrorKind::PermissionDenied => format!("{name} refuses the password: {error}"),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            format!(
                "{name} does not answer: is it the right port, and does nothing lie between that swallows packets?"
            )
        }
        _ => format!("{name}: {error}"),
    };
    let mut asker = Asker::connect(address, password).map_err(failed)?;
    match asker.ask(&["PING"]).map_err(failed)? {
        Value::Error(error) if error.starts_with("NOAUTH") => Err(format!(
            "{name} wants a password: give it by --password, or in CHORALE_BENCH_PASSWORD"
        )),
        Value::Error(error) => Err(format!("{name} answers PING with {error}")),
        _ => {
            let info = asker.ask(&["INFO", "server"]).map_err(failed)?;
            let info = info.text().unwrap_or_default();
            let field = |wanted: &str| {
                let mut lines = info.lines().filter_map(|line| line.split_once(':'));
                lines.find(|(name, _)| *name == wanted).map(|(_, value)| value)
            };
            let names = [
                ("chorale_version", "Chorale"),
                ("valkey_version", "Valkey"),
                ("redis_version", "Redis"),
            ];
            let known = names
                .iter()
                .find_map(|(wanted, what)| field(wanted).map(|version| (what, version)));
            Ok(known.map_or_else(
                || format!("{name} does not say what it is"),
                |(what, version)| format!("{name} is {what} {version}"),
            ))
        }
    }
}

fn setup(
    plan: &Plan,
    addresses: &[SocketAddr],
    topology: Option<&Arc<Topology>>,
    stop: &Arc<AtomicBool>,
    made: u64,
) -> Setup {
    let shape = Shape::new(
        plan.workload,
        plan.ratio,
        plan.sizes,
        plan.keys,
        plan.batch,
        plan.is_tagged,
    );
    let nanos = |time: Duration| time.as_nanos() as u64;
    Setup {
        ops: shape.ops(false),
        shape,
        distribution: plan.distribution(),
        load: None,
        made: AtomicU64::new(made),
        addresses: addresses.to_vec(),
        topology: topology.cloned(),
        greeting: match (plan.is_resp3, plan.password.as_deref()) {
            (false, None) => None,
            (false, Some(password)) => Some(command(&["AUTH", password])),
            (true, None) => Some(command(&["HELLO", "3"])),
            (true, Some(password)) => Some(command(&["HELLO", "3", "AUTH", "default", password])),
        },
        pipeline: plan.pipeline,
        // Without a time-out of its own: ours is about the whole request.
        wait: plan.wait.map(|replicas| Wait {
            replicas,
            bytes: command(&["WAIT", &replicas.to_string(), "0"]),
        }),
        timeout: nanos(plan.timeout),
        warmup: nanos(plan.warmup),
        length: match plan.length {
            Length::Time(time) => nanos(time),
            Length::Requests(_) => u64::MAX,
        },
        rate: plan.rate,
        arrivals: plan.arrivals,
        seed: plan.seed,
        threads: plan.threads.min(plan.client_count()),
        base: Instant::now(),
        stop: stop.clone(),
    }
}

/// Makes the keys that the workload needs; answers how many numbers are there.
fn load(
    plan: &Plan,
    addresses: &[SocketAddr],
    topology: Option<&Arc<Topology>>,
    stop: &Arc<AtomicBool>,
    progress: &Progress,
) -> Result<u64, String> {
    let mut setup = setup(plan, addresses, topology, stop, 0);
    let numbers = setup.shape.numbers();
    let Some(op) = setup.shape.load() else {
        // Nothing needs to be there: `c-unique` begins with the first number.
        return Ok(if plan.workload.inserts_from_nothing() {
            0
        } else {
            numbers
        });
    };
    if !plan.is_loaded {
        return Ok(numbers);
    }
    let clients = plan.client_count().min(LOAD_CLIENTS_MAX).min(numbers as usize);
    setup.load = Some(op);
    setup.ops = setup.shape.ops(true);
    setup.pipeline = LOAD_PIPELINE;
    setup.wait = None;
    setup.warmup = 0;
    setup.length = u64::MAX;
    setup.rate = None;
    setup.threads = plan.threads.min(clients);
    progress.show(&format!("loading {} keys", report::thousands(plan.keys)));
    let loading = Plan {
        length: Length::Requests(numbers),
        ..plan.clone()
    };
    let gathered = drive(
        &loading,
        &setup,
        clients,
        Faults::plan(&[], &[])?,
        Watch::default(),
        &Progress::new(false),
    )?;
    let failed = gathered.total.errors.by_kind();
    if !failed.is_empty() {
        let kinds: Vec<String> = failed
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        let hint = if failed.contains_key("CROSSSLOT") || failed.contains_key("MOVED") {
            "; this is a cluster of Redis: take --cluster, and --tagged for commands of several keys"
        } else if plan.workload.is_own() && failed.contains_key("ERR") {
            "; only Chorale has this command"
        } else {
            ""
        };
        return Err(format!("keys cannot be loaded: {}{hint}", kinds.join(", ")));
    }
    Ok(numbers)
}

/// What the threads have told.
struct Gathered {
    versions: Vec<String>,
    began: SystemTime,
    total: Slice,
    rows: Vec<Row>,
    done: Vec<Done>,
    marks: Vec<Mark>,
    watch: Watch,
    is_cut_short: bool,
}

/// Runs the threads, and the faults beside them.
fn drive(
    plan: &Plan,
    setup: &Setup,
    client_count: usize,
    faults: Faults,
    mut watch: Watch,
    progress: &Progress,
) -> Result<Gathered, String> {
    let threads = setup.threads;
    let homes: Vec<usize> = (0..client_count)
        .map(|client| client % setup.addresses.len())
        .collect();
    let (sender, news) = channel();
    let is_over = AtomicBool::new(false);
    // All connections are open before the first request begins: first the threads wait for each other, then for the start.
    let ready = Barrier::new(threads + 1);
    let started = Barrier::new(threads + 1);
    let problems = Mutex::new(Vec::new());
    let start: OnceLock<u64> = OnceLock::new();
    thread::scope(|scope| {
        for thread in 0..threads {
            let part = |whole: usize, place: usize| whole * place / threads;
            let mine = &homes[part(homes.len(), thread)..part(homes.len(), thread + 1)];
            let quota = match plan.length {
                Length::Time(_) => None,
                Length::Requests(count) => {
                    let part = |place: usize| (u128::from(count) * place as u128 / threads as u128) as u64;
                    Some(part(thread + 1) - part(thread))
                }
            };
            let sender = sender.clone();
            let (ready, started, problems, start) = (&ready, &started, &problems, &start);
            scope.spawn(move || {
                let driver = Driver::new(setup, thread, mine, quota, sender)
                    .map_err(|error| format!("cannot make a loop: {error}"))
                    .and_then(|mut driver| driver.connect().map(|()| driver));
                let driver = match driver {
                    Ok(driver) => Some(driver),
                    Err(problem) => {
                        problems.lock().expect("nobody panics with it").push(problem);
                        None
                    }
                };
                ready.wait();
                started.wait();
                if let (Some(mut driver), Some(start)) = (driver, start.get()) {
                    // Nobody is left to be told but by the end of the news.
                    let _ = driver.run(*start);
                }
            });
        }
        drop(sender);
        ready.wait();
        let failed = problems.lock().expect("nobody panics with it").pop();
        if let Some(problem) = failed {
            started.wait();
            return Err(problem);
        }
        let now = setup.base.elapsed().as_nanos() as u64;
        start.set(now).expect("it is set once");
        let from = setup.base + Duration::from_nanos(now + setup.warmup);
        let began = SystemTime::now() + Duration::from_nanos(setup.warmup);
        let over = &is_over;
        let faults = scope.spawn(move || faults.carry_out(from, over));
        started.wait();
        let mut gathering = Gathering::new(threads);
        gathering.take_all(&news, from, &mut watch, progress);
        is_over.store(true, Ordering::Relaxed);
        let marks = faults.join().expect("the thread of the faults does not panic");
        watch.look();
        if gathering.done.len() < threads {
            return Err("the system does not let the tool wait for its sockets".to_owned());
        }
        let (total, rows, done) = gathering.end();
        Ok(Gathered {
            versions: Vec::new(),
            began,
            total,
            rows,
            done,
            marks,
            watch,
            is_cut_short: setup.stop.load(Ordering::Relaxed),
        })
    })
}

/// Puts together what the threads tell of each second.
struct Gathering {
    threads: usize,
    total: Slice,
    /// Seconds of which some threads have told.
    open: BTreeMap<u64, (Slice, usize)>,
    rows: Vec<Row>,
    done: Vec<Done>,
}

impl Gathering {
    fn new(threads: usize) -> Gathering {
        Gathering {
            threads,
            total: Slice::default(),
            open: BTreeMap::new(),
            rows: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Takes all news until the threads have ended, and looks at the servers meanwhile.
    fn take_all(&mut self, news: &Receiver<News>, from: Instant, watch: &mut Watch, progress: &Progress) {
        let mut is_watching = false;
        let mut next_look = from;
        while self.done.len() < self.threads {
            let wait = next_look.saturating_duration_since(Instant::now());
            match news.recv_timeout(wait) {
                Ok(News::Second(slice)) => self.take(*slice, progress),
                Ok(News::Done(done)) => self.done.push(done),
                Err(RecvTimeoutError::Timeout) => {
                    if is_watching {
                        watch.look();
                    } else {
                        is_watching = true;
                        watch.begin();
                    }
                    next_look = Instant::now() + LOOK;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }

    fn take(&mut self, slice: Slice, progress: &Progress) {
        let (sum, count) = self.open.entry(slice.second).or_default();
        sum.add(&slice);
        *count += 1;
        // Threads tell of their seconds in order, so all before it are whole too.
        while let Some(entry) = self.open.first_entry() {
            if entry.get().1 < self.threads {
                break;
            }
            let (second, (slice, _)) = entry.remove_entry();
            let row = self.close(second, &slice);
            progress.second(&row);
        }
    }

    fn close(&mut self, second: u64, slice: &Slice) -> Row {
        self.total.add(slice);
        let row = row(second, slice);
        // More than one plan can ask for by time; counted requests can take longer, and the rest has no lines.
        if self.rows.len() < SECONDS_MAX as usize {
            self.rows.push(row);
        }
        row
    }

    fn end(mut self) -> (Slice, Vec<Row>, Vec<Done>) {
        for (second, (slice, _)) in std::mem::take(&mut self.open) {
            self.close(second, &slice);
        }
        // The last one was begun only because the one before was over.
        if self.rows.len() > 1
            && self
                .rows
                .last()
                .is_some_and(|row| row.requests == 0 && row.errors == 0)
        {
            self.rows.pop();
        }
        (self.total, self.rows, self.done)
    }
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

fn row(second: u64, slice: &Slice) -> Row {
    Row {
        second,
        requests: slice.latencies.count(),
        errors: slice.errors.total(),
        p50_ms: ms(slice.latencies.percentile(0.5)),
        p99_ms: ms(slice.latencies.percentile(0.99)),
        max_ms: ms(slice.latencies.max()),
    }
}

fn report(plan: &Plan, setup: &Setup, gathered: Gathered) -> Report {
    let total = &gathered.total;
    let latencies = &total.latencies;
    let requests = latencies.count();
    let ran = gathered.done.iter().map(|done| done.nanos).max().unwrap_or(0);
    let seconds = match plan.length {
        _ if gathered.is_cut_short => ran,
        // Requests that were on their way at the end are waited for, and their time belongs to it.
        Length::Time(_) => setup.length.max(total.last_end),
        Length::Requests(_) => total.last_end,
    } as f64
        / 1e9;
    let cpu: Option<u64> = gathered.done.iter().map(|done| done.cpu_nanos).sum();
    let share = |done: &Done| Some(done.cpu_nanos? as f64 / done.nanos.max(1) as f64);
    let mut client = Client {
        cpu_us_per_request: cpu
            .filter(|_| requests > 0)
            .map(|cpu| cpu as f64 / 1e3 / requests as f64),
        busiest_thread: gathered.done.iter().filter_map(share).reduce(f64::max),
        is_limit: false,
    };
    client.judge();
    Report {
        tool: concat!("chorale bench ", env!("CARGO_PKG_VERSION")).to_owned(),
        began_unix_secs: gathered
            .began
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs(),
        setup: report::Setup {
            workload: plan.workload.to_string(),
            endpoints: plan.endpoints.iter().map(ToString::to_string).collect(),
            versions: gathered.versions,
            is_cluster: plan.is_cluster,
            clients: plan.clients,
            pipeline: plan.pipeline,
            keys: plan.keys,
            distribution: plan.distribution().to_string(),
            size: plan.sizes.to_string(),
            batch: plan.batch,
            is_tagged: plan.is_tagged,
            wait: plan.wait,
            ratio: plan.ratio.to_string(),
            rate: plan.rate,
            arrivals: plan.arrivals.to_string(),
            is_resp3: plan.is_resp3,
            warmup_seconds: plan.warmup.as_secs_f64(),
            timeout_seconds: plan.timeout.as_secs_f64(),
            seed: plan.seed,
            threads: setup.threads,
        },
        seconds,
        requests,
        requests_per_second: if seconds > 0.0 {
            requests as f64 / seconds
        } else {
            0.0
        },
        latency: latency(latencies),
        percentiles: percentiles(latencies),
        errors: total.errors.total(),
        errors_by_kind: total.errors.by_kind(),
        misses: total.misses,
        redirects: total.redirects,
        connections_lost: total.connections_lost,
        connects_failed: total.connects_failed,
        not_started: gathered.done.iter().map(|done| done.not_started).sum(),
        round_trips: round_trips(setup, total),
        servers: gathered.watch.servers(requests),
        client,
        timeline: gathered.rows,
        faults: gathered.marks,
        is_cut_short: gathered.is_cut_short,
    }
}

fn latency(latencies: &Histogram) -> Latency {
    Latency {
        average_ms: latencies.mean() / 1e6,
        p50_ms: ms(latencies.percentile(0.5)),
        p90_ms: ms(latencies.percentile(0.9)),
        p99_ms: ms(latencies.percentile(0.99)),
        p999_ms: ms(latencies.percentile(0.999)),
        max_ms: ms(latencies.max()),
    }
}

/// As far as there are requests enough to tell them from the maximum.
fn percentiles(latencies: &Histogram) -> Vec<Percentile> {
    let count = latencies.count() as f64;
    let is_told = |share: &f64| *share == 1.0 || (1.0 - share) * count >= 1.0;
    let shares = SHARES.into_iter().filter(is_told);
    shares
        .map(|share| Percentile {
            share,
            ms: ms(latencies.percentile(share)),
        })
        .collect()
}

fn round_trips(setup: &Setup, total: &Slice) -> Vec<RoundTrip> {
    let ops = setup.ops.iter().zip(&total.trips);
    ops.flat_map(|(op, trips)| op.trips().iter().zip(trips))
        .map(|(name, trip)| RoundTrip {
            name: (*name).to_owned(),
            count: trip.count(),
            average_ms: trip.mean() / 1e6,
            p50_ms: ms(trip.percentile(0.5)),
            p99_ms: ms(trip.percentile(0.99)),
            max_ms: ms(trip.max()),
        })
        .collect()
}

//! A cluster that grows and shrinks, node by node, while clients of every node go on.
//!
//! ```text
//!   1 node --join--> 3 --join--> 5 --join--> 12 --drain --leave--> 3
//!            |  at each node two clients; three clients of the first one with transactions over lists of any groups
//!            |  where it is asked for, in each step another node is killed, and started again two seconds later
//!            v
//!   samples of who leads what, and of the bytes between nodes; each command's time; and in the end both histories are judged
//! ```
//!
//! A node that is to leave gets no more commands before it is drained, as whoever runs a cluster has its clients do.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use history::Verdict;
use serde_json::{Value as Json, json};

use crate::{Cluster, Findings, Keys, ListAppend, Mixture, Prng, Replicas, Seen, Timed, Workload, http_get};

/// How long a step may take: until all groups are replicated again, or the node has left.
const STEP_MAX: Duration = Duration::from_secs(180);

/// How long a node that was killed stays down.
const DOWN: Duration = Duration::from_secs(2);

/// Between two samples of the nodes.
const SAMPLING: Duration = Duration::from_millis(500);

/// Clients of each node.
const CLIENTS: usize = 2;

/// What is to happen.
#[derive(Clone, Debug)]
pub struct Growth {
    /// Numbers of nodes, one after the other, from the first on.
    pub sizes: Vec<usize>,
    /// Groups that the cluster is founded with: more are added as it grows beyond three nodes.
    pub groups: usize,
    /// Workers of each node.
    pub workers: usize,
    /// How data are kept: `memory`, `relaxed` or `strict`.
    pub durability: String,
    /// How long nothing happens at each of the sizes.
    pub calm: Duration,
    /// Whether another node is killed during each step.
    pub kills: bool,
    /// What decides the commands, and who is killed.
    pub seed: u64,
    /// Whether the nodes share the loopback address, as they do where there are no network namespaces.
    pub is_loopback: bool,
}

impl Default for Growth {
    fn default() -> Self {
        Growth {
            sizes: vec![1, 3, 5, 12, 3],
            groups: 12,
            workers: 2,
            durability: "relaxed".to_owned(),
            calm: Duration::from_secs(10),
            kills: false,
            seed: 1,
            is_loopback: false,
        }
    }
}

/// A part of the time.
#[derive(Clone, Debug)]
pub struct Step {
    /// What happened: `3 nodes`, `node 4 joins`, `node 4 leaves`.
    pub name: String,
    /// Nodes when it was over.
    pub nodes: usize,
    /// Milliseconds since the clients began.
    pub began_ms: u64,
    /// The same of its end.
    pub ended_ms: u64,
    /// Replicas that were filled anew, and how many may be; none where nothing was to move.
    pub moved: Option<(usize, usize)>,
    /// Who was killed during it.
    pub killed: Option<usize>,
    /// How long commands took that were answered in it, in microseconds, sorted.
    pub times_us: Vec<u32>,
}

impl Step {
    /// The time that such a part of the commands took no longer than, in milliseconds.
    #[must_use]
    pub fn quantile_ms(&self, part: f64) -> f64 {
        let last = self.times_us.len().saturating_sub(1);
        let at = (last as f64 * part).round() as usize;
        self.times_us
            .get(at)
            .map_or(0.0, |took| f64::from(*took) / 1_000.0)
    }

    /// Whether nothing was to happen in it.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.moved.is_none()
    }
}

/// What the nodes said of themselves at a moment.
#[derive(Clone, Debug)]
struct Sample {
    at_ms: u64,
    nodes: usize,
    leading: usize,
    led_most: u64,
    led_least: u64,
    sent_bytes: u64,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct GrowthOutcome {
    /// The parts of the time.
    pub steps: Vec<Step>,
    /// What the clients of single commands saw.
    pub seen: Seen,
    /// What is to be said of it.
    pub verdict: Verdict,
    /// What is to be said of the transactions.
    pub findings: Findings,
    /// What the clients of transactions saw.
    pub wide: Seen,
    /// What went wrong with the nodes, if anything did.
    pub trouble: Option<String>,
    samples: Vec<Sample>,
    times: Vec<Timed>,
    kills: bool,
}

impl GrowthOutcome {
    /// True if nothing is wrong: nothing failed, but for clients of nodes that were killed, and both histories have an order.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let failed = self.seen.failed() + self.seen.unread + self.wide.failed();
        let is_served = self.kills || failed == 0;
        let moved = self
            .steps
            .iter()
            .all(|step| self.kills || step.moved.is_none_or(|(moved, most)| moved <= most));
        self.trouble.is_none()
            && is_served
            && moved
            && self.verdict == Verdict::Linearizable
            && self.findings.is_good()
    }

    /// In words.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let moved = step.moved.map_or(String::new(), |(moved, most)| {
                format!(", {moved} replicas moved of {most} that may")
            });
            let killed = step
                .killed
                .map_or(String::new(), |node| format!(", node {} killed", node + 1));
            text += &format!(
                "{:>16}: {:6.1} s, {:7} commands, p50 {:6.2} ms, p99 {:7.2} ms, longest {:7.1} ms{moved}{killed}\n",
                step.name,
                (step.ended_ms - step.began_ms) as f64 / 1_000.0,
                step.times_us.len(),
                step.quantile_ms(0.5),
                step.quantile_ms(0.99),
                step.quantile_ms(1.0),
            );
        }
        text += &format!(
            "{} single commands, {} failed; {} transactions, {} of them over several lists, {} commands of them failed\n",
            self.seen.answered,
            self.seen.failed() + self.seen.unread,
            self.findings.transactions,
            self.findings.wide,
            self.wide.failed(),
        );
        for complaint in self.seen.complaints.iter().chain(&self.wide.complaints) {
            text += &format!("a server said: {complaint}\n");
        }
        text += match &self.verdict {
            Verdict::Linearizable => "every answer has its place: LINEARIZABLE\n".to_owned(),
            Verdict::Violated(violation) => format!("NOT LINEARIZABLE: {violation}\n"),
            Verdict::Undecided(undecided) => format!("UNDECIDED: {undecided}\n"),
        }
        .as_str();
        text += match self.findings.is_good() {
            true => "the transactions are STRICTLY SERIALIZABLE\n",
            false => "the transactions are NOT strictly serializable, or something is missing\n",
        };
        if let Some(trouble) = &self.trouble {
            text += &format!("{trouble}\n");
        }
        text
    }

    /// All of it, for `bench/growth.py`.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let steps = self.steps.iter().map(|step| {
            json!({
                "name": step.name,
                "nodes": step.nodes,
                "began_ms": step.began_ms,
                "ended_ms": step.ended_ms,
                "moved": step.moved.map(|(moved, _)| moved),
                "may_move": step.moved.map(|(_, most)| most),
                "killed": step.killed.map(|node| node + 1),
                "commands": step.times_us.len(),
                "p50_ms": step.quantile_ms(0.5),
                "p99_ms": step.quantile_ms(0.99),
                "longest_ms": step.quantile_ms(1.0),
            })
        });
        let samples = self.samples.iter().map(|sample| {
            json!({
                "at_ms": sample.at_ms,
                "nodes": sample.nodes,
                "leading": sample.leading,
                "led_most": sample.led_most,
                "led_least": sample.led_least,
                "sent_bytes": sample.sent_bytes,
            })
        });
        let mut seconds: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for timed in &self.times {
            seconds
                .entry(timed.at_ms / 1_000)
                .or_default()
                .push(timed.took_us);
        }
        let seconds = seconds.into_iter().map(|(second, mut times)| {
            times.sort_unstable();
            let last = times.len() - 1;
            json!({
                "second": second,
                "commands": times.len(),
                "p50_ms": f64::from(times[last / 2]) / 1_000.0,
                "p99_ms": f64::from(times[last * 99 / 100]) / 1_000.0,
                "longest_ms": f64::from(times[last]) / 1_000.0,
            })
        });
        json!({
            "steps": steps.collect::<Vec<_>>(),
            "samples": samples.collect::<Vec<_>>(),
            "seconds": seconds.collect::<Vec<_>>(),
            "commands": self.seen.answered,
            "failed": self.seen.failed() + self.seen.unread,
            "transactions": self.findings.transactions,
            "wide_transactions": self.findings.wide,
            "failed_in_transactions": self.wide.failed(),
            "is_linearizable": self.verdict == Verdict::Linearizable,
            "is_strictly_serializable": self.findings.is_good(),
            "is_good": self.is_good(),
        })
    }
}

impl Growth {
    /// Carries it out.
    ///
    /// # Panics
    /// With the ends of the logs, if a node does not start.
    #[must_use]
    pub fn run(&self) -> GrowthOutcome {
        let mut cluster = self.cluster();
        cluster.workers(self.workers);
        cluster.flag("durability", &self.durability);
        for _ in 0..self.sizes.first().copied().unwrap_or(1) {
            cluster.add();
        }
        cluster.wait_until_replicated();
        let mixture = Mixture {
            clients: 0,
            rest: Duration::from_millis(16),
            seed: self.seed,
            keeps_times: true,
            ..Mixture::default()
        };
        let first = cluster.address(0);
        let mut workload = Workload::start(vec![first], mixture.clone());
        for node in 0..cluster.len() {
            (0..CLIENTS).for_each(|_| workload.extend(cluster.address(node)));
        }
        let wide = ListAppend::start(
            vec![first],
            Keys::Any,
            Mixture {
                clients: 3,
                keeps_times: false,
                ..mixture
            },
        );
        let sampler = Sampler::start();
        let nodes = (0..cluster.len()).collect();
        let mut run = Run {
            growth: self,
            prng: Prng::new(self.seed),
            nodes,
            cluster,
            workload,
            wide,
            sampler,
            killed: None,
            steps: Vec::new(),
            times: Vec::new(),
        };
        let trouble = run.go().err();
        run.finish(trouble)
    }

    /// How many groups it has once it has had so many nodes: as many for each as with three.
    fn groups_of(&self, nodes: usize) -> usize {
        self.groups.max(self.groups * nodes / 3)
    }

    fn cluster(&self) -> Cluster {
        if !self.is_loopback {
            match Cluster::in_namespaces(self.groups) {
                Ok(cluster) => return cluster,
                Err(error) => eprintln!("no network namespaces ({error}): the nodes share an address"),
            }
        }
        Cluster::new(self.groups)
    }
}

struct Run<'a> {
    growth: &'a Growth,
    prng: Prng,
    cluster: Cluster,
    workload: Workload,
    wide: ListAppend,
    sampler: Sampler,
    /// Members, in the order of their starts.
    nodes: Vec<usize>,
    /// Who was killed in the step that is under way.
    killed: Option<usize>,
    steps: Vec<Step>,
    times: Vec<Timed>,
}

impl Run<'_> {
    fn go(&mut self) -> Result<(), String> {
        self.sample();
        self.calm();
        for &size in &self.growth.sizes[1..] {
            // Groups have three replicas from three nodes on: two nodes are on their way there, and come together.
            if self.nodes.len() < 3 && size >= 3 {
                self.step(|run| run.join(3 - run.nodes.len()))?;
            }
            while self.nodes.len() < size {
                self.step(|run| run.join(1))?;
            }
            while self.nodes.len() > size {
                self.step(Self::leave)?;
            }
            self.calm();
        }
        Ok(())
    }

    fn now_ms(&self) -> u64 {
        self.workload.elapsed().as_millis() as u64
    }

    fn sample(&self) {
        let pages = self.nodes.iter().map(|&node| self.cluster.admin_address(node));
        self.sampler.watch(pages.collect(), self.workload.elapsed());
    }

    fn calm(&mut self) {
        let began_ms = self.now_ms();
        thread::sleep(self.growth.calm);
        let name = format!("{} nodes", self.nodes.len());
        self.end_step(name, began_ms, None, None);
    }

    /// Something happens, and perhaps a node is killed in the middle of it.
    fn step(
        &mut self,
        what: impl FnOnce(&mut Self) -> Result<(String, (usize, usize)), String>,
    ) -> Result<(), String> {
        let began_ms = self.now_ms();
        let (name, moved) = what(self)?;
        let killed = self.killed.take();
        self.end_step(name, began_ms, Some(moved), killed);
        Ok(())
    }

    fn end_step(
        &mut self,
        name: String,
        began_ms: u64,
        moved: Option<(usize, usize)>,
        killed: Option<usize>,
    ) {
        let times = self.workload.take_times();
        let mut times_us: Vec<u32> = times
            .iter()
            .filter(|timed| u64::from(timed.at_ms) >= began_ms)
            .map(|timed| timed.took_us)
            .collect();
        times_us.sort_unstable();
        self.times.extend(times);
        let step = Step {
            name,
            nodes: self.nodes.len(),
            began_ms,
            ended_ms: self.now_ms(),
            moved,
            killed,
            times_us,
        };
        eprintln!(
            "{:6.1} s  {}: p99 {:.2} ms, longest {:.1} ms",
            step.ended_ms as f64 / 1_000.0,
            step.name,
            step.quantile_ms(0.99),
            step.quantile_ms(1.0)
        );
        self.steps.push(step);
    }

    /// Kills one of the members that were there when the step began, of at least three, and not the first: it has the clients of transactions.
    /// The step has begun, and goes on without it, or when it is back.
    fn kill(&mut self, members: usize) {
        if !self.growth.kills || members < 3 {
            return;
        }
        let at = 1 + self.prng.below(members - 1);
        let node = self.nodes[at];
        self.cluster.kill(node);
        thread::sleep(DOWN);
        self.cluster.restart(node);
        self.killed = Some(node);
    }

    /// So many nodes join.
    fn join(&mut self, count: usize) -> Result<(String, (usize, usize)), String> {
        let (before, members) = (self.look()?, self.nodes.len());
        let mut names = Vec::new();
        for _ in 0..count {
            let node = self.cluster.add();
            self.nodes.push(node);
            (0..CLIENTS).for_each(|_| self.workload.extend(self.cluster.address(node)));
            names.push((node + 1).to_string());
        }
        self.sample();
        self.kill(members);
        self.cluster
            .expect_groups(self.growth.groups_of(self.nodes.len()));
        let after = self.whole()?;
        let replicas: usize = after.replicas.iter().map(Vec::len).sum();
        let most = match count {
            // What was not there had to be made.
            2.. => replicas,
            _ => replicas.div_ceil(self.nodes.len()) + replicas / 20,
        };
        let joins = if count == 1 { "joins" } else { "join" };
        let nodes = if count == 1 { "node" } else { "nodes" };
        Ok((
            format!("{nodes} {} {joins}", names.join(" and ")),
            (after.moved_since(&before), most),
        ))
    }

    /// The last one leaves.
    fn leave(&mut self) -> Result<(String, (usize, usize)), String> {
        let before = self.whole()?;
        let node = self.nodes.pop().expect("there are more than are to stay");
        self.workload.leave(self.cluster.address(node));
        let wait = if self.growth.kills { "" } else { " --wait" };
        let words = format!("drain {} --leave --confirm{wait}", node + 1);
        let output = self.cluster.admin(self.nodes[0], &words);
        let output = output.map_err(|error| format!("cannot run {words}: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            return Err(format!(
                "{words}: {said}{}",
                String::from_utf8_lossy(&output.stderr)
            ));
        }
        self.kill(self.nodes.len());
        let began = Instant::now();
        while self.cluster.is_running(node) {
            if began.elapsed() > STEP_MAX {
                return Err(format!("node {} does not leave within {STEP_MAX:?}", node + 1));
            }
            thread::sleep(Duration::from_millis(10));
        }
        let ended = self.cluster.wait(node);
        if !ended.success() {
            return Err(format!(
                "node {} ended with {ended}: {}",
                node + 1,
                self.cluster.log(node)
            ));
        }
        self.sample();
        let after = self.whole()?;
        let had = before
            .replicas
            .iter()
            .flatten()
            .filter(|&&(at, ..)| at == node)
            .count();
        Ok((
            format!("node {} leaves", node + 1),
            (after.moved_since(&before), had),
        ))
    }

    fn look(&self) -> Result<Replicas, String> {
        let seen = self.cluster.look(self.nodes[0]);
        seen.ok_or_else(|| "node 1 shows no groups".to_owned())
    }

    /// What the nodes agree on once all is replicated.
    fn whole(&mut self) -> Result<Replicas, String> {
        let began = Instant::now();
        loop {
            match self.cluster.replicated() {
                Ok(replicas) => return Ok(replicas),
                Err(lacking) if began.elapsed() > STEP_MAX => {
                    return Err(format!("not within {STEP_MAX:?}: {lacking}"));
                }
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn finish(self, trouble: Option<String>) -> GrowthOutcome {
        let samples = self.sampler.stop();
        let (findings, wide) = self.wide.finish();
        let (history, seen) = self.workload.finish();
        GrowthOutcome {
            steps: self.steps,
            seen,
            verdict: history::check(&history),
            findings,
            wide,
            trouble,
            samples,
            times: self.times,
            kills: self.growth.kills,
        }
    }
}

/// Asks the nodes now and then what they lead, and what they have sent.
struct Sampler {
    shared: Arc<Sampling>,
    thread: thread::JoinHandle<()>,
}

#[derive(Default)]
struct Sampling {
    is_over: AtomicBool,
    /// Whom to ask, and what the time of the clients was at that moment.
    watched: Mutex<Option<(Vec<SocketAddr>, Instant)>>,
    samples: Mutex<Vec<Sample>>,
}

impl Sampler {
    fn start() -> Sampler {
        let shared = Arc::new(Sampling::default());
        let thread = {
            let shared = shared.clone();
            thread::spawn(move || {
                let mut sent: BTreeMap<SocketAddr, u64> = BTreeMap::new();
                while !shared.is_over.load(Ordering::Relaxed) {
                    let watched = held(&shared.watched).clone();
                    if let Some((pages, zero)) = watched {
                        let sample = look(&pages, zero, &mut sent);
                        held(&shared.samples).push(sample);
                    }
                    thread::sleep(SAMPLING);
                }
            })
        };
        Sampler { shared, thread }
    }

    fn watch(&self, pages: Vec<SocketAddr>, elapsed: Duration) {
        let now = Instant::now();
        *held(&self.shared.watched) = Some((pages, now.checked_sub(elapsed).unwrap_or(now)));
    }

    fn stop(self) -> Vec<Sample> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only asks");
        std::mem::take(&mut *held(&self.shared.samples))
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the nodes say. `sent` has what each had sent when it was last heard of, so that the sum falls with nobody.
fn look(pages: &[SocketAddr], zero: Instant, sent: &mut BTreeMap<SocketAddr, u64>) -> Sample {
    let mut led = Vec::new();
    for &page in pages {
        let Ok(metrics) = http_get(page, "/metrics") else {
            continue;
        };
        let value = |name: &str| {
            let lines = metrics.body.lines();
            let values = lines.filter(|line| line.split([' ', '{']).next() == Some(name));
            values
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .sum::<f64>() as u64
        };
        led.push(value("chorale_groups_led"));
        sent.insert(page, value("chorale_peer_output_bytes_total"));
    }
    Sample {
        at_ms: zero.elapsed().as_millis() as u64,
        nodes: led.len(),
        leading: led.iter().filter(|&&led| led > 0).count(),
        led_most: led.iter().copied().max().unwrap_or(0),
        led_least: led.iter().copied().min().unwrap_or(0),
        sent_bytes: sent.values().sum(),
    }
}

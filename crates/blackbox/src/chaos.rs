//! Minutes of reads and writes while nodes are killed, paused, cut off and restarted; then the verdict.
//!
//! One fault at a time, sometimes two, then the cluster must heal: only then comes the next. In memory mode a group
//! survives the loss of a minority, so nobody is killed before what the last one had is on others again; pauses and cuts
//! lose nothing and may come on top.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use history::Verdict;

use crate::{Cluster, Mixture, Prng, SETTLING, Seen, Workload};

/// Width of the progress bar, in letters.
const BAR_WIDTH: usize = 30;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// How long.
    pub time: Duration,
    /// How many nodes.
    pub nodes: usize,
    /// How many groups.
    pub groups: usize,
    /// The workers of each node.
    pub workers: usize,
    /// How many clients.
    pub clients: usize,
    /// What decides all choices. What threads and processes make of them is not repeatable.
    pub seed: u64,
    /// Whether the nodes share this machine's loopback address although they could have namespaces.
    pub is_loopback: bool,
}

impl Default for Chaos {
    fn default() -> Self {
        Chaos {
            time: Duration::from_secs(180),
            nodes: 5,
            groups: 16,
            workers: 1,
            clients: 8,
            seed: 1,
            is_loopback: false,
        }
    }
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the clients saw.
    pub seen: Seen,
    /// The faults, in order.
    pub faults: Vec<String>,
    /// What the checkers say.
    pub verdict: Verdict,
    /// What did not heal.
    pub trouble: Option<String>,
    /// The history as text, if it is not linearizable.
    pub history: Option<String>,
    /// The ends of the nodes' logs, if something is wrong.
    pub logs: String,
}

impl Outcome {
    /// True if nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict == Verdict::Linearizable && self.trouble.is_none() && self.seen.unread == 0
    }

    /// The outcome in a few lines.
    #[must_use]
    pub fn report(&self) -> String {
        let seen = &self.seen;
        let mut text = format!(
            "{} commands carried out; {} refused, {} of unknown outcome, {} without an answer, {} connections refused; \
             longest wait {:.2} s\n",
            seen.answered,
            seen.refused,
            seen.unknown,
            seen.lost,
            seen.unreachable,
            seen.longest.as_secs_f64(),
        );
        for complaint in &seen.complaints {
            let _ = writeln!(text, "  a server said: {complaint}");
        }
        if seen.unread > 0 {
            let _ = writeln!(text, "{} KEYS COULD NOT BE READ at the end", seen.unread);
        }
        let _ = writeln!(text, "{} faults", self.faults.len());
        match &self.verdict {
            Verdict::Linearizable => text.push_str("every answer has its place: LINEARIZABLE\n"),
            Verdict::Violated(violation) => {
                let _ = writeln!(text, "NOT LINEARIZABLE: {violation}");
            }
            Verdict::Undecided(undecided) => {
                let _ = writeln!(text, "UNDECIDED: {undecided}");
            }
        }
        if let Some(trouble) = &self.trouble {
            let _ = writeln!(text, "DID NOT HEAL: {trouble}");
        }
        text
    }
}

impl Chaos {
    /// Runs it. `is_over` ends it early.
    ///
    /// # Panics
    /// If the cluster does not even start.
    #[must_use]
    pub fn run(&self, is_over: &Arc<AtomicBool>) -> Outcome {
        let mut cluster = self.cluster();
        cluster.workers(self.workers);
        cluster.grow(self.nodes);
        let mixture = Mixture {
            clients: self.clients,
            seed: self.seed,
            ..Mixture::default()
        };
        let workload = Workload::start(cluster.addresses(), mixture);
        let mut run = Run {
            cluster,
            workload,
            prng: Prng::new(self.seed),
            faults: Vec::new(),
            start: Instant::now(),
            time: self.time,
        };
        let mut trouble = None;
        while run.start.elapsed() < self.time && !is_over.load(Ordering::Relaxed) && trouble.is_none() {
            run.rest(500, 2_500);
            run.fault();
            trouble = run.heal().err();
        }
        eprintln!();
        run.finish(trouble)
    }

    fn cluster(&self) -> Cluster {
        if !self.is_loopback {
            match Cluster::in_namespaces(self.groups) {
                Ok(cluster) => return cluster,
                Err(error) => {
                    eprintln!("no network namespaces ({error}): nodes are not cut off from each other")
                }
            }
        }
        Cluster::new(self.groups)
    }
}

struct Run {
    cluster: Cluster,
    workload: Workload,
    prng: Prng,
    faults: Vec<String>,
    start: Instant,
    time: Duration,
}

impl Run {
    /// Between so many milliseconds.
    fn rest(&mut self, shortest: usize, longest: usize) {
        let rest = shortest + self.prng.below(longest - shortest);
        thread::sleep(Duration::from_millis(rest as u64));
        self.show("");
    }

    fn note(&mut self, fault: String) {
        self.show(&fault);
        self.faults
            .push(format!("{:7.2} s  {fault}", self.start.elapsed().as_secs_f64()));
    }

    fn show(&self, what: &str) {
        if !io::stderr().is_terminal() {
            if !what.is_empty() {
                let answered = self.workload.seen().answered;
                eprintln!(
                    "{:7.2} s  {answered:7} commands  {what}",
                    self.start.elapsed().as_secs_f64()
                );
            }
            return;
        }
        let share = (self.start.elapsed().as_secs_f64() / self.time.as_secs_f64()).min(1.0);
        let full = (share * BAR_WIDTH as f64) as usize;
        let seen = self.workload.seen();
        eprint!(
            "\r\x1b[2K[{}{}] {} faults, {} commands, {} failed  {what}",
            "#".repeat(full),
            ".".repeat(BAR_WIDTH - full),
            self.faults.len(),
            seen.answered,
            seen.failed(),
        );
        let _ = io::stderr().flush();
    }

    /// One fault, or two that overlap, from its beginning to its end.
    fn fault(&mut self) {
        let nodes = self.cluster.len();
        let first = self.prng.below(nodes);
        let second = (first + 1 + self.prng.below(nodes - 1)) % nodes;
        match self.prng.below(if self.cluster.has_namespaces() { 8 } else { 4 }) {
            0 | 1 => {
                self.note(format!("kill node {first}"));
                self.cluster.kill(first);
                if self.prng.chance(30) {
                    self.pause(second);
                } else {
                    self.rest(100, 3_000);
                }
                self.note(format!("start node {first}"));
                self.cluster.restart(first);
            }
            2 => self.pause(first),
            3 => {
                // Shorter than anybody's time-out, again and again.
                for _ in 0..4 {
                    self.note(format!("pause node {first} for a moment"));
                    self.cluster.pause(first);
                    self.rest(100, 450);
                    self.cluster.resume(first);
                    self.rest(10, 200);
                }
            }
            4 | 5 => {
                let is_one_way = self.prng.chance(50);
                let how = if is_one_way {
                    "nothing that it sends arrives"
                } else {
                    "both ways"
                };
                self.note(format!("cut node {first} off from all others: {how}"));
                let others: Vec<usize> = (0..nodes).filter(|&node| node != first).collect();
                self.part(&[first], &others, is_one_way);
            }
            6 => {
                let is_one_way = self.prng.chance(50);
                let how = if is_one_way { "one way" } else { "both ways" };
                self.note(format!("cut node {first} off from node {second}: {how}"));
                self.part(&[first], &[second], is_one_way);
            }
            _ => {
                let (few, many): (Vec<usize>, Vec<usize>) =
                    (0..nodes).partition(|&node| node == first || node == second);
                self.note(format!("cut nodes {few:?} off from {many:?}"));
                self.part(&few, &many, false);
            }
        }
    }

    fn pause(&mut self, node: usize) {
        self.note(format!("pause node {node}"));
        self.cluster.pause(node);
        self.rest(700, 5_000);
        self.note(format!("let node {node} go on"));
        self.cluster.resume(node);
    }

    fn part(&mut self, here: &[usize], there: &[usize], is_one_way: bool) {
        let mut ways: Vec<(usize, usize)> = Vec::new();
        for &from in here {
            for &to in there {
                ways.push((from, to));
                if !is_one_way {
                    ways.push((to, from));
                }
            }
        }
        ways.iter().for_each(|&(from, to)| self.cluster.cut(from, to));
        self.rest(700, 6_000);
        self.note("mend the network".to_owned());
        ways.iter().for_each(|&(from, to)| self.cluster.mend(from, to));
    }

    /// Waits until everything is replicated again, and clients are served.
    fn heal(&mut self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            match self.cluster.replicated() {
                Ok(_) => break,
                Err(lacking) if start.elapsed() > SETTLING => {
                    return Err(format!("{lacking}\n{}", self.cluster.views()));
                }
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
        let served = self.workload.seen().answered;
        while self.workload.seen().answered < served + 20 {
            if start.elapsed() > SETTLING {
                return Err("everything is replicated, and no command is carried out".to_owned());
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.note(format!("healed after {:.1} s", start.elapsed().as_secs_f64()));
        Ok(())
    }

    fn finish(self, trouble: Option<String>) -> Outcome {
        let Run {
            cluster,
            workload,
            faults,
            ..
        } = self;
        let (history, seen) = workload.finish();
        let verdict = history::check(&history);
        let is_good = verdict == Verdict::Linearizable && trouble.is_none() && seen.unread == 0;
        let logs = (0..cluster.len()).map(|node| format!("--- node {node}\n{}\n", cluster.log(node)));
        Outcome {
            seen,
            faults,
            history: (verdict != Verdict::Linearizable).then(|| history.to_string()),
            verdict,
            trouble,
            logs: if is_good { String::new() } else { logs.collect() },
        }
    }
}

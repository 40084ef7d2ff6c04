//! Minutes of reads and writes while nodes are killed, paused, cut off and restarted; then the verdict.
//!
//! One fault at a time, sometimes two, then the cluster must heal: only then comes the next. In `memory` a group
//! survives the loss of a minority, so nobody is killed before what the last one had is on others again; pauses and cuts
//! lose nothing and may come on top. In modes that write, all nodes are killed at once now and then, and nothing may be lost either.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use history::{Judgement, Verdict};

use crate::{
    Client, Cluster, Findings, Keys, ListAppend, Mixture, Prng, QueueFindings, Queues, RegisterFindings,
    Registers, SETTLING, Seen, Workload,
};

/// Width of the progress bar, in letters.
const BAR_WIDTH: usize = 30;

/// Bytes of strings that are to be kept as fragments.
const CODED_PADDING: usize = 600;

/// What the clients do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Commands on one key each, checked for linearizability.
    Commands,
    /// Transactions over lists of any nodes, checked for strict serializability.
    Transactions,
    /// Transactions over registers that are watched, checked for strict serializability.
    Registers,
    /// Elements that are pushed, moved and waited for, each to be taken once.
    Queues,
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// How long.
    pub time: Duration,
    /// How many nodes.
    pub nodes: usize,
    /// How many groups.
    pub groups: usize,
    /// How many replicas of each; as many as a cluster has by itself without it. Where a group outlives two losses, two nodes are killed at once.
    pub replicas: Option<usize>,
    /// The workers of each node.
    pub workers: usize,
    /// When a write counts as done: `memory`, `relaxed` or `strict`.
    pub durability: String,
    /// Whether strings are kept as fragments; they are long then.
    pub is_coded: bool,
    /// What the clients do.
    pub load: Load,
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
            groups: 12,
            replicas: None,
            workers: 2,
            durability: "relaxed".to_owned(),
            is_coded: false,
            load: Load::Commands,
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
    pub told: Told,
    /// What did not heal.
    pub trouble: Option<String>,
    /// The history as text, if the checkers do not accept it.
    pub history: Option<String>,
    /// The ends of the nodes' logs, if something is wrong.
    pub logs: String,
}

/// What the checkers say of what the clients saw.
#[derive(Clone, Debug)]
pub enum Told {
    /// Of single commands.
    Commands(Verdict),
    /// Of transactions over lists.
    Transactions(Box<Findings>),
    /// Of transactions over registers.
    Registers(Box<RegisterFindings>),
    /// Of queues.
    Queues(Box<QueueFindings>),
}

impl Told {
    /// True if they found nothing.
    #[must_use]
    pub fn is_good(&self) -> bool {
        match self {
            Told::Commands(verdict) => *verdict == Verdict::Linearizable,
            Told::Transactions(findings) => findings.is_good(),
            Told::Registers(findings) => findings.is_good(),
            Told::Queues(findings) => findings.is_good(),
        }
    }

    fn report(&self) -> String {
        match self {
            Told::Commands(Verdict::Linearizable) => "every answer has its place: LINEARIZABLE\n".to_owned(),
            Told::Commands(Verdict::Violated(violation)) => format!("NOT LINEARIZABLE: {violation}\n"),
            Told::Commands(Verdict::Undecided(undecided)) => format!("UNDECIDED: {undecided}\n"),
            Told::Transactions(findings) => report_findings(findings),
            Told::Registers(findings) => report_registers(findings),
            Told::Queues(findings) => report_queues(findings),
        }
    }
}

fn report_registers(findings: &RegisterFindings) -> String {
    let RegisterFindings {
        transactions,
        wide,
        changed,
        ..
    } = findings;
    let mut text = format!(
        "{transactions} transactions, {wide} of them wrote several registers; {changed} found that what they watched had \
         changed\n"
    );
    report_stuck(&mut text, &findings.stuck);
    report_judgement(&mut text, &findings.judgement);
    text
}

fn report_queues(findings: &QueueFindings) -> String {
    let QueueFindings {
        pushed,
        taken,
        awaited,
        moved,
        ..
    } = findings;
    let mut text = format!(
        "{pushed} elements pushed, {moved} moves, {taken} taken, {awaited} of them by clients that could wait\n"
    );
    report_stuck(&mut text, &findings.stuck);
    match &findings.judgement {
        Judgement::Clean => text.push_str("every element was taken once, or is still there: NOTHING LOST\n"),
        Judgement::Violated(anomaly) => {
            let _ = writeln!(text, "LOST OR TAKEN TWICE: {anomaly}");
        }
    }
    text
}

fn report_stuck(text: &mut String, stuck: &BTreeSet<String>) {
    for key in stuck {
        let _ = writeln!(text, "STUCK: {key} is not answered at the end");
    }
}

fn report_judgement(text: &mut String, judgement: &Judgement) {
    match judgement {
        Judgement::Clean => text.push_str("one order explains every answer: STRICTLY SERIALIZABLE\n"),
        Judgement::Violated(anomaly) => {
            let _ = writeln!(text, "NOT STRICTLY SERIALIZABLE: {anomaly}");
        }
    }
}

fn report_findings(findings: &Findings) -> String {
    let Findings {
        transactions,
        wide,
        appends,
        lost,
        ..
    } = findings;
    let mut text = format!(
        "{transactions} transactions, {wide} of them over several keys; {appends} appends acknowledged, {lost} of them \
         missing at the end\n"
    );
    for torn in &findings.torn {
        let _ = writeln!(text, "NOT CARRIED OUT AS ONE: {torn}");
    }
    report_stuck(&mut text, &findings.stuck);
    report_judgement(&mut text, &findings.judgement);
    text
}

/// What clients do that ask every node in turn: those that stand at a node that does not answer go on sooner, or soon all
/// of them would stand there.
pub(crate) fn elsewhere_soon() -> Mixture {
    Mixture {
        patience: Duration::from_secs(3),
        ..Mixture::default()
    }
}

/// Clients at work.
pub(crate) enum Clients {
    Commands(Workload),
    Transactions(ListAppend),
    Registers(Registers),
    Queues(Queues),
}

impl Clients {
    pub(crate) fn seen(&self) -> Seen {
        match self {
            Clients::Commands(workload) => workload.seen(),
            Clients::Transactions(workload) => workload.seen(),
            Clients::Registers(workload) => workload.seen(),
            Clients::Queues(workload) => workload.seen(),
        }
    }

    /// Ends them: what the checkers say, what was seen, and the history if it is of use.
    fn finish(self) -> (Told, Seen, Option<String>) {
        match self {
            Clients::Commands(workload) => {
                let (history, seen) = workload.finish();
                let told = Told::Commands(history::check(&history));
                let history = (!told.is_good()).then(|| history.to_string());
                (told, seen, history)
            }
            Clients::Transactions(workload) => {
                let (findings, seen) = workload.finish();
                let history = (!findings.is_good()).then(|| findings.history.to_string());
                (Told::Transactions(Box::new(findings)), seen, history)
            }
            Clients::Registers(workload) => {
                let (findings, seen) = workload.finish();
                let history = (!findings.is_good()).then(|| findings.history.to_string());
                (Told::Registers(Box::new(findings)), seen, history)
            }
            Clients::Queues(workload) => {
                let (findings, seen) = workload.finish();
                let history = (!findings.is_good()).then(|| findings.history.to_string());
                (Told::Queues(Box::new(findings)), seen, history)
            }
        }
    }
}

impl Outcome {
    /// Ends the clients of a run.
    pub(crate) fn of(clients: Clients, faults: Vec<String>, trouble: Option<String>) -> Outcome {
        let (told, seen, history) = clients.finish();
        Outcome {
            seen,
            faults,
            told,
            trouble,
            history,
            logs: String::new(),
        }
    }

    /// True if nothing is wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.told.is_good() && self.trouble.is_none() && self.seen.unread == 0
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
        text.push_str(&self.told.report());
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
        cluster.flag("durability", &self.durability);
        if self.durability == "strict" {
            // What is not synced goes with the process: a kill is a loss of power.
            cluster.flag("test-disk", "hold");
        }
        if self.is_coded {
            cluster.flag("coding", "on");
            // Few keys are written again and again.
            cluster.flag("coding-delay", "0");
        }
        if let Some(replicas) = self.replicas {
            cluster.rf(replicas);
        }
        cluster.grow(self.nodes);
        let addresses = cluster.addresses();
        let mixture = |mixture| Mixture {
            clients: self.clients,
            padding: if self.is_coded { CODED_PADDING } else { 0 },
            seed: self.seed,
            ..mixture
        };
        let workload = match self.load {
            Load::Commands => Clients::Commands(Workload::start(addresses, mixture(Mixture::default()))),
            Load::Transactions => {
                Clients::Transactions(ListAppend::start(addresses, Keys::Any, mixture(elsewhere_soon())))
            }
            Load::Registers => Clients::Registers(Registers::start(addresses, mixture(elsewhere_soon()))),
            Load::Queues => Clients::Queues(Queues::start(addresses, mixture(elsewhere_soon()))),
        };
        let mut run = Run {
            cluster,
            workload,
            survives: self.durability != "memory",
            outlives_two: self.replicas.is_some_and(|replicas| replicas >= 5),
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
        if self.is_coded {
            run.tell_coded();
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
    workload: Clients,
    /// Whether what was acknowledged outlives all processes.
    survives: bool,
    /// Whether every group has a majority when two nodes are gone.
    outlives_two: bool,
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
        if self.survives && self.prng.chance(20) {
            return self.kill_all();
        }
        match self.prng.below(if self.cluster.has_namespaces() { 8 } else { 4 }) {
            0 if self.outlives_two => {
                self.note(format!("kill nodes {first} and {second}"));
                [first, second]
                    .into_iter()
                    .for_each(|node| self.cluster.kill(node));
                self.rest(100, 3_000);
                self.note(format!("start nodes {first} and {second}"));
                [first, second]
                    .into_iter()
                    .for_each(|node| self.cluster.restart(node));
            }
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

    fn kill_all(&mut self) {
        self.note("kill all nodes".to_owned());
        self.cluster.kill_all();
        self.rest(100, 1_000);
        self.note("start all nodes".to_owned());
        for node in 0..self.cluster.len() {
            self.cluster.restart(node);
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

    /// What became of strings as fragments, in the processes that are here now.
    fn tell_coded(&mut self) {
        let mut sums = std::collections::BTreeMap::new();
        for address in self.cluster.addresses() {
            let Ok(mut client) = Client::connect(address) else {
                continue;
            };
            let info = client.run("INFO coding").text().unwrap_or_default();
            for (name, number) in info.lines().filter_map(|line| line.trim().split_once(':')) {
                *sums.entry(name.to_owned()).or_insert(0) += number.parse::<u64>().unwrap_or_default();
            }
        }
        let told: Vec<String> = sums.iter().map(|(name, sum)| format!("{name} {sum}")).collect();
        self.note(told.join(", "));
    }

    fn finish(self, trouble: Option<String>) -> Outcome {
        let Run {
            cluster,
            workload,
            faults,
            ..
        } = self;
        let mut outcome = Outcome::of(workload, faults, trouble);
        if !outcome.is_good() {
            for node in 0..cluster.len() {
                let _ = writeln!(outcome.logs, "--- node {node}\n{}\n", cluster.log(node));
            }
        }
        outcome
    }
}

//! A cluster that grows and shrinks, node by node, while clients of every node go on.
//!
//! ```text
//!   1 node --join--> 3 --join--> 5 --join--> 12 --drain --leave--> 3
//!            |  at each node two clients, and one with transactions over lists of any groups; after each step it is calm for a while
//!            |  where it is asked for, in each step one of all nodes is killed, and started again two seconds later
//!            v
//!   samples of who leads what, and of the bytes between nodes; each command's time; and in the end both histories are judged
//! ```
//!
//! A node that is to leave gets no more commands before it is drained, as whoever runs a cluster has its clients do. A client of a node
//! that was killed goes to another one: that something fails at the node itself until it is back is not to be helped, and anywhere else
//! it is wrong.

use std::thread;
use std::time::{Duration, Instant};

use crate::{Client, Cluster, Mixture, Prng, Replicas, Timed, Workload, http_get};

mod outage;
mod outcome;
mod sampler;
mod transactions;

use outage::Outage;
pub use outcome::{GrowthOutcome, Step};
use sampler::Sampler;
use transactions::TransactionLoad;

/// How long a step may take: until all groups are replicated again, or the node has left.
const STEP_MAX: Duration = Duration::from_secs(180);

/// How long a node that was killed stays down.
const DOWN: Duration = Duration::from_secs(2);

/// How long after it began a step may have a node killed at the latest, if that may be killed then.
const KILLED_MS_MAX: usize = 1_000;

/// Clients of each node with single commands. One more has transactions.
const CLIENTS: usize = 2;

/// The longest rest between two commands of one client.
const REST: Duration = Duration::from_millis(16);

/// The same between two transactions: each of them takes several groups, and the machine is to have room for what happens besides.
const TRANSACTIONS_REST: Duration = Duration::from_millis(64);

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
    /// How long nothing happens before the first step and after each.
    pub calm: Duration,
    /// Whether a node is killed during each step.
    pub kills: bool,
    /// What decides the commands, and who is killed when.
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
            calm: Duration::from_secs(3),
            kills: false,
            seed: 1,
            is_loopback: false,
        }
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
        let mixture = |rest| Mixture {
            clients: 0,
            rest,
            seed: self.seed,
            keeps_times: true,
            ..Mixture::default()
        };
        let workload = Workload::start(vec![cluster.address(0)], mixture(REST));
        let transactions = TransactionLoad::start(workload.nodes(), mixture(TRANSACTIONS_REST));
        let mut run = Run {
            growth: self,
            prng: Prng::new(self.seed),
            nodes: (0..cluster.len()).collect(),
            cluster,
            workload,
            transactions,
            sampler: Sampler::start(),
            load: load(),
            outages: Vec::new(),
            killed: None,
            steps: Vec::new(),
            times: Vec::new(),
        };
        run.nodes.clone().into_iter().for_each(|node| run.ask(node));
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
                Err(error) => {
                    eprintln!("NO network namespaces ({error}): the nodes share the loopback address")
                }
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
    transactions: TransactionLoad,
    sampler: Sampler,
    /// How busy the machine was when the clients began.
    load: String,
    /// Members, in the order of their starts, but for one that leaves.
    nodes: Vec<usize>,
    outages: Vec<Outage>,
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
        }
        Ok(())
    }

    /// Clients of a node.
    fn ask(&mut self, node: usize) {
        let address = self.cluster.address(node);
        (0..CLIENTS).for_each(|_| self.workload.extend(address));
        self.transactions.extend(address);
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
        let count = self.nodes.len();
        let name = format!("{count} node{}", if count == 1 { "" } else { "s" });
        self.end_step(name, began_ms, None, None);
    }

    /// Something happens, and perhaps a node is killed in the middle of it. Then it is calm.
    fn step(
        &mut self,
        what: impl FnOnce(&mut Self) -> Result<(String, (usize, usize)), String>,
    ) -> Result<(), String> {
        let began_ms = self.now_ms();
        let (name, moved) = what(self)?;
        let killed = self.killed.take();
        self.end_step(name, began_ms, Some(moved), killed);
        self.calm();
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

    /// Kills one of the members, or the one that leaves, and starts it again: who it is has been drawn, and it is killed as soon as each
    /// group has a majority without it. The step has begun, and goes on without it, or when it is back.
    fn kill(&mut self, leaver: Option<usize>) -> Result<(), String> {
        let mut choices: Vec<usize> = self.nodes.iter().copied().chain(leaver).collect();
        if !self.growth.kills || choices.len() < 3 {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(self.prng.below(KILLED_MS_MAX) as u64));
        let began = Instant::now();
        let node = loop {
            // One that has left meanwhile is out of it.
            choices.retain(|&node| self.cluster.is_running(node));
            let node = *self.prng.pick(&choices);
            while self.cluster.is_running(node) && !self.may_be_killed(node) {
                if began.elapsed() > STEP_MAX {
                    return Err(format!(
                        "without node {} not each group has a majority within {STEP_MAX:?}",
                        node + 1
                    ));
                }
                thread::sleep(Duration::from_millis(20));
            }
            if self.cluster.is_running(node) {
                break node;
            }
        };
        let killed = self.workload.elapsed();
        eprintln!("{:6.1} s  node {} is killed", killed.as_secs_f64(), node + 1);
        self.cluster.kill(node);
        self.killed = Some(node);
        thread::sleep(DOWN);
        self.cluster.restart(node);
        let is_back = self.wait_until_back(node);
        self.outages.push(Outage {
            node,
            address: self.cluster.address(node),
            killed,
            back: self.workload.elapsed(),
        });
        match is_back? || leaver == Some(node) {
            true => Ok(()),
            false => Err(format!("node {} has ended: {}", node + 1, self.cluster.log(node))),
        }
    }

    /// Whether each group has a majority without it, to another node.
    fn may_be_killed(&mut self, node: usize) -> bool {
        let others = self.nodes.clone().into_iter().filter(|&other| other != node);
        let running = { others }.find(|&other| self.cluster.is_running(other));
        let page = running.and_then(|other| http_get(self.cluster.admin_address(other), "/cluster").ok());
        let page = page.and_then(|page| serde_json::from_str(&page.body).ok());
        page.is_some_and(|page| outage::leaves_majorities(&page, self.cluster.address(node)))
    }

    /// Waits until a node that was started again serves clients. `false`: it has ended instead.
    fn wait_until_back(&mut self, node: usize) -> Result<bool, String> {
        let began = Instant::now();
        while began.elapsed() < STEP_MAX {
            if !self.cluster.is_running(node) {
                return Ok(false);
            }
            let answer = Client::connect(self.cluster.address(node)).and_then(|mut client| {
                client.set_patience(DOWN);
                client.try_command(&["INFO", "persistence"])
            });
            let text = answer.ok().and_then(|answer| answer.text());
            if text.is_some_and(|text| text.contains("\r\nloading:0\r\n")) {
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(format!(
            "node {} does not serve within {STEP_MAX:?}: {}",
            node + 1,
            self.cluster.log(node)
        ))
    }

    /// So many nodes join.
    fn join(&mut self, count: usize) -> Result<(String, (usize, usize)), String> {
        let before = self.look()?;
        let mut names = Vec::new();
        for _ in 0..count {
            let node = self.cluster.add();
            self.nodes.push(node);
            self.ask(node);
            names.push((node + 1).to_string());
        }
        self.sample();
        self.kill(None)?;
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
        self.kill(Some(node))?;
        let began = Instant::now();
        while self.cluster.is_running(node) {
            if began.elapsed() > STEP_MAX {
                return Err(format!("node {} does not leave within {STEP_MAX:?}", node + 1));
            }
            thread::sleep(Duration::from_millis(10));
        }
        let ended = self.cluster.wait(node);
        // One that was killed after it had been told to go is refused when it is started again.
        let was_refused =
            self.killed == Some(node) && self.cluster.log(node).contains("as an operator wanted");
        if !ended.success() && !was_refused {
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
        let ended_load = load();
        let samples = self.sampler.stop();
        let nodes = self.workload.nodes();
        let findings = self.transactions.finish();
        let (history, seen) = self.workload.finish();
        GrowthOutcome {
            steps: self.steps,
            seen,
            verdict: history::check(&history),
            findings,
            trouble,
            has_namespaces: self.cluster.has_namespaces(),
            growth: self.growth.clone(),
            load: [self.load, ended_load],
            addresses: self.cluster.addresses(),
            failures: nodes.failures(),
            outages: self.outages,
            samples,
            times: self.times,
        }
    }
}

/// Processes that ran or wanted to, on average of the last 1, 5 and 15 minutes; nothing where the system does not say.
fn load() -> String {
    let line = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    line.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

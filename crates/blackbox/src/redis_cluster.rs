//! The same clients, faults and checker pointed at a Redis Cluster: three primaries with a replica each, on this machine.
//!
//! What is asked of it is what it can do: the keys of a transaction share a hash tag, clients follow `MOVED`, and whoever was
//! killed comes back only after a replica has taken over. Replication is asynchronous there by design, and the documents of
//! Redis say so; this shows what that means in numbers.

use std::fs::{self, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::chaos::{Clients, Outcome, elsewhere_soon};
use crate::poll::within;
use crate::server::{free_port, fresh_directory};
use crate::{Client, Keys, ListAppend, Mixture, Prng, SETTLING};

/// How many servers: half of them are replicas.
const SERVERS: usize = 6;

/// The bus of a server listens so far above its port.
const BUS: u16 = 10_000;

/// How long a server may be silent until it is taken for dead.
const NODE_TIMEOUT_MS: u32 = 1_000;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct RedisChaos {
    /// How long.
    pub time: Duration,
    /// How many clients.
    pub clients: usize,
    /// What decides all choices.
    pub seed: u64,
}

struct RedisServer {
    port: u16,
    directory: PathBuf,
    child: Child,
}

/// Servers of Debian's package, ended with this value.
struct RedisCluster {
    directory: PathBuf,
    servers: Vec<RedisServer>,
}

impl RedisChaos {
    /// Runs it. `is_over` ends it early.
    ///
    /// # Errors
    /// If there is no Redis Cluster to be had.
    pub fn run(&self, is_over: &Arc<AtomicBool>) -> Result<Outcome, String> {
        let mut cluster = RedisCluster::start()?;
        let mixture = Mixture {
            clients: self.clients,
            seed: self.seed,
            ..elsewhere_soon()
        };
        let workload = ListAppend::start(cluster.addresses(), Keys::OneTag, mixture);
        let clients = Clients::Transactions(workload);
        let mut prng = Prng::new(self.seed);
        let mut faults = Vec::new();
        let mut trouble = None;
        let start = Instant::now();
        let rest = |prng: &mut Prng, shortest: u64, span: usize| {
            thread::sleep(Duration::from_millis(shortest + prng.below(span) as u64));
        };
        while start.elapsed() < self.time && !is_over.load(Ordering::Relaxed) && trouble.is_none() {
            rest(&mut prng, 500, 2_000);
            let primaries = cluster.primaries();
            let victim = *prng.pick(&primaries);
            let is_kill = prng.chance(50);
            let port = cluster.servers[victim].port;
            let fault = if is_kill { "kill" } else { "pause" };
            let note = format!(
                "{:7.2} s  {fault} the primary {port}",
                start.elapsed().as_secs_f64()
            );
            eprintln!("{note}  {} commands", clients.seen().answered);
            faults.push(note);
            if is_kill {
                cluster.kill(victim);
                cluster.wait_for_failover(victim);
                rest(&mut prng, 100, 1_000);
                cluster.restart(victim)?;
            } else {
                cluster.signal(victim, "STOP");
                rest(&mut prng, 500, 3_500);
                cluster.signal(victim, "CONT");
            }
            trouble = cluster.settle().err();
        }
        let mut outcome = Outcome::of(clients, faults, trouble);
        if outcome.trouble.is_some() {
            outcome.logs = cluster.logs();
        }
        Ok(outcome)
    }
}

impl RedisCluster {
    fn start() -> Result<RedisCluster, String> {
        let mut cluster = RedisCluster {
            directory: fresh_directory(),
            servers: Vec::new(),
        };
        for number in 0..SERVERS {
            let directory = cluster.directory.join(format!("redis-{number}"));
            fs::create_dir_all(&directory).expect("the temporary directory is writable");
            let port = port_with_bus();
            let child = spawn(&directory, port)?;
            cluster.servers.push(RedisServer {
                port,
                directory,
                child,
            });
        }
        if !within(SETTLING, || {
            (0..SERVERS).all(|server| cluster.ask(server, "PING").is_some())
        }) {
            return Err(format!("redis-server does not start:\n{}", cluster.logs()));
        }
        let mut tool = Command::new("redis-cli");
        tool.args(["--cluster", "create"])
            .args(cluster.addresses().iter().map(SocketAddr::to_string))
            .args(["--cluster-replicas", "1", "--cluster-yes"]);
        let done = tool
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("redis-cli: {error}"))?;
        if !done.status.success() {
            return Err(format!(
                "redis-cli --cluster create: {}",
                String::from_utf8_lossy(&done.stdout)
            ));
        }
        cluster.settle()?;
        Ok(cluster)
    }

    fn address(&self, server: usize) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.servers[server].port).into()
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        (0..self.servers.len())
            .map(|server| self.address(server))
            .collect()
    }

    fn ask(&self, server: usize, words: &str) -> Option<String> {
        let mut client = Client::connect(self.address(server)).ok()?;
        client.set_patience(Duration::from_secs(2));
        let words: Vec<&str> = words.split(' ').collect();
        client.try_command(&words).ok()?.text()
    }

    fn is_primary(&self, server: usize) -> bool {
        self.ask(server, "INFO replication")
            .is_some_and(|text| text.contains("role:master"))
    }

    fn primaries(&self) -> Vec<usize> {
        (0..SERVERS).filter(|&server| self.is_primary(server)).collect()
    }

    fn kill(&mut self, server: usize) {
        let child = &mut self.servers[server].child;
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
    }

    fn restart(&mut self, server: usize) -> Result<(), String> {
        let RedisServer { directory, port, .. } = &self.servers[server];
        self.servers[server].child = spawn(directory, *port)?;
        Ok(())
    }

    /// Waits until a replica has taken the place of a primary that is gone. Were it back sooner, it would be the primary of
    /// its slots still, with nothing in them.
    fn wait_for_failover(&self, gone: usize) {
        let others = || (0..SERVERS).filter(|&server| server != gone);
        let primaries = || others().filter(|&server| self.is_primary(server)).count();
        // If none has, what is settled next says so.
        within(SETTLING, || primaries() >= SERVERS / 2);
    }

    fn signal(&self, server: usize, name: &str) {
        let sent = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {}", self.servers[server].child.id()))
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send SIG{name}");
    }

    /// Waits until all slots are served, and every primary has a replica that has its data.
    fn settle(&self) -> Result<(), String> {
        let mut lacking = None;
        within(SETTLING, || {
            lacking = self.lacking();
            lacking.is_none()
        });
        lacking.map_or(Ok(()), Err)
    }

    fn lacking(&self) -> Option<String> {
        let mut primaries = 0;
        for server in 0..SERVERS {
            let port = self.servers[server].port;
            let Some(info) = self.ask(server, "CLUSTER INFO") else {
                return Some(format!("{port} does not answer"));
            };
            let nodes = self.ask(server, "CLUSTER NODES").unwrap_or_default();
            if !info.contains("cluster_state:ok") || nodes.contains("fail") {
                return Some(format!("{port} says {info}\n{nodes}"));
            }
            let replication = self.ask(server, "INFO replication").unwrap_or_default();
            let is_primary = replication.contains("role:master");
            primaries += usize::from(is_primary);
            let wanted = if is_primary {
                "connected_slaves:1"
            } else {
                "master_link_status:up"
            };
            if !replication.contains(wanted) {
                return Some(format!("{port} lacks {wanted}"));
            }
        }
        (primaries != SERVERS / 2).then(|| format!("there are {primaries} primaries"))
    }

    fn logs(&self) -> String {
        let log = |server: &RedisServer| fs::read_to_string(server.directory.join("log")).unwrap_or_default();
        self.servers.iter().map(log).collect::<Vec<_>>().join("\n---\n")
    }
}

fn port_with_bus() -> u16 {
    loop {
        let port = free_port();
        let bus = port.checked_add(BUS);
        if bus.is_some_and(|bus| TcpListener::bind((Ipv4Addr::LOCALHOST, bus)).is_ok()) {
            return port;
        }
    }
}

fn spawn(directory: &PathBuf, port: u16) -> Result<Child, String> {
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join("log"));
    let log = log.expect("the directory was just made");
    let words = format!(
        "--port {port} --bind 127.0.0.1 --appendonly no --cluster-enabled yes --cluster-node-timeout {NODE_TIMEOUT_MS} \
         --repl-diskless-sync-delay 0 --save"
    );
    Command::new("redis-server")
        .args(words.split(' '))
        .arg("")
        .current_dir(directory)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file can be duplicated"))
        .stderr(log)
        .spawn()
        .map_err(|error| format!("redis-server: {error}"))
}

impl Drop for RedisCluster {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

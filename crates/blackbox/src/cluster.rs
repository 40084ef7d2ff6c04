//! A cluster of server processes, one directory and one set of ports each, ended with the test.
//!
//! ```text
//!              begin            kill, terminate
//!   (absent) --------> running ----------------> down --restart--> running, the directory as it was
//!                       |   ^
//!                 pause |   | resume
//!                       v   |
//!                      paused                    in namespaces also: cut off from some nodes, each way by itself
//! ```
//!
//! Nodes are counted from 0 in the order of their first starts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::network::Network;
use crate::server::{chorale_binary, free_port, fresh_directory, remove_unless_kept};
use crate::small_disk::SmallDisk;
use crate::{Client, PATIENCE, http_get};

/// A port can be taken by somebody else between its choice and its use; this often others are tried.
const START_ATTEMPTS: u32 = 4;

/// How long a cluster may take until every group has all its replicas: on a machine that builds at the same time, and
/// with processes that were built for tests.
pub const SETTLING: Duration = Duration::from_secs(40);

/// How much of the log of each node is shown when a test fails.
const LOG_TAIL_BYTES: usize = 6000;

/// How long one look at a node may take.
const GLANCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Node {
    directory: PathBuf,
    host: Ipv4Addr,
    ports: [u16; 4],
    child: Option<Child>,
    is_paused: bool,
    /// Flags of this node alone.
    flags: Vec<String>,
    /// What its data directory lies on, if that is not the machine's own.
    disk: Option<SmallDisk>,
    /// What is in front of its program, as `strace` is.
    wrapper: Vec<String>,
}

/// Where the ports of a node stand in its list.
const CLIENT: usize = 0;
const CLUSTER: usize = 1;
const ADMIN: usize = 2;
const PEER: usize = 3;

/// What the nodes say of their groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// For each group the node that is said to lead it.
    pub leaders: Vec<Option<usize>>,
    /// For each group its replicas: the node, whose memory it is, and whether it votes.
    pub replicas: Vec<Vec<(usize, u64, bool)>>,
    /// Partitions that are to move before each group hosts its share.
    pub partitions_left: u64,
}

impl Replicas {
    /// How many groups each of so many nodes is said to lead.
    #[must_use]
    pub fn led(&self, nodes: usize) -> Vec<usize> {
        let led = |node| {
            self.leaders
                .iter()
                .filter(|leader| **leader == Some(node))
                .count()
        };
        (0..nodes).map(led).collect()
    }

    /// Replicas that are there and were not in an earlier look: they had to be filled.
    #[must_use]
    pub fn moved_since(&self, before: &Replicas) -> usize {
        let pairs = self.replicas.iter().zip(&before.replicas);
        let moved = pairs.map(|(now, before)| {
            let is_new = |stop: &&(usize, u64, bool)| !before.iter().any(|old| old.0 == stop.0);
            now.iter().filter(is_new).count()
        });
        moved.sum()
    }
}

/// See the file's header. Dropping it kills all nodes, removes their directories, and prints the ends of their logs if the
/// test is failing.
#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    nodes: Vec<Node>,
    groups: usize,
    /// Of each group, if not as many as a cluster has by itself.
    replicas: Option<usize>,
    workers: usize,
    flags: Vec<String>,
    /// `ulimit -f` of nodes that are started, in the shell's own blocks.
    file_limit: Option<u32>,
    /// Of the disk of each node that is begun from now on.
    disk_bytes: Option<u64>,
    network: Option<Network>,
}

impl Cluster {
    /// One without nodes, whose nodes will share this machine's loopback address.
    #[must_use]
    pub fn new(groups: usize) -> Self {
        Cluster {
            directory: fresh_directory(),
            nodes: Vec::new(),
            groups,
            replicas: None,
            workers: 1,
            flags: Vec::new(),
            file_limit: None,
            disk_bytes: None,
            network: None,
        }
    }

    /// One without nodes, whose nodes will be in network namespaces of their own.
    ///
    /// # Errors
    /// Why there can be none: they take a privileged user and the program `ip`.
    pub fn in_namespaces(groups: usize) -> Result<Self, String> {
        let network = Network::new()?;
        // Outside the loopback address there are no peers without a secret, and no clients without a password.
        let flags = ["--cluster-secret", "of blackbox tests", "--protected-mode", "no"];
        let mut cluster = Cluster::new(groups);
        cluster.flags = flags.map(str::to_owned).to_vec();
        cluster.network = Some(network);
        Ok(cluster)
    }

    /// What `chorale admin` answers, asked of a node on its own machine.
    ///
    /// # Errors
    /// Of the system, if it cannot be run.
    pub fn admin(&self, node: usize, words: &str) -> io::Result<Output> {
        let mut command = match &self.network {
            Some(network) => network.command(node, chorale_binary()),
            None => Command::new(chorale_binary()),
        };
        let address = self.admin_address(node);
        command
            .arg("admin")
            .args(words.split(' '))
            .args(["--admin", &address.to_string()]);
        command.output()
    }

    /// So many nodes that all groups are replicated on.
    ///
    /// # Panics
    /// With the ends of the logs, if that does not happen.
    #[must_use]
    pub fn start(nodes: usize, groups: usize) -> Self {
        let mut cluster = Cluster::new(groups);
        cluster.grow(nodes);
        cluster
    }

    /// So many more nodes, and waits until all groups are replicated.
    ///
    /// # Panics
    /// If that does not happen.
    pub fn grow(&mut self, more: usize) {
        for _ in 0..more {
            self.add();
        }
        self.wait_until_replicated();
    }

    /// Another flag of all nodes that begin from now on.
    pub fn flag(&mut self, name: &str, value: &str) {
        self.flags.extend([format!("--{name}"), value.to_owned()]);
    }

    /// Nodes that are started from now on have this flag no more.
    pub fn drop_flag(&mut self, name: &str) {
        let flag = format!("--{name}");
        let kept = self.flags.chunks_exact(2).filter(|pair| pair[0] != flag);
        self.flags = kept.flatten().cloned().collect();
    }

    /// The largest file that nodes which are started from now on can write, as `ulimit -f` counts: half kibibytes, or whole
    /// ones. A write beyond it fails, as one to a full disk does.
    pub fn limit_files(&mut self, blocks: Option<u32>) {
        self.file_limit = blocks;
    }

    /// Nodes that begin from now on have disks of their own, of so many bytes, in memory; `None`: the machine's.
    pub fn small_disks(&mut self, bytes: Option<u64>) {
        self.disk_bytes = bytes;
    }

    /// The disk of a node.
    ///
    /// # Panics
    /// If it is the machine's.
    #[must_use]
    pub fn disk(&self, node: usize) -> &SmallDisk {
        self.nodes[node].disk.as_ref().expect("it has one of its own")
    }

    /// The program of a node is started by this one from the next start on, which becomes it, or passes signals on.
    pub fn wrap(&mut self, node: usize, wrapper: &[&str]) {
        self.nodes[node].wrapper = wrapper.iter().map(|&word| word.to_owned()).collect();
    }

    /// The workers of each node that begins from now on.
    pub fn workers(&mut self, workers: usize) {
        self.workers = workers;
    }

    /// Each group has so many replicas, as soon as there are as many nodes.
    pub fn rf(&mut self, replicas: usize) {
        self.flag("rf", &replicas.to_string());
        self.replicas = Some(replicas);
    }

    /// Of each group, with the nodes that there are.
    fn replicas(&self) -> usize {
        match self.replicas {
            Some(replicas) => replicas.min(self.len()),
            None if self.len() < 3 => 1,
            None => 3,
        }
    }

    /// Begins another node, which joins those that are there, and waits until it serves clients.
    ///
    /// # Panics
    /// If it does not.
    pub fn add(&mut self) -> usize {
        let node = self.begin(&[]);
        self.wait_until_ready(node);
        node
    }

    /// Begins another node, which joins those that are there, and waits for nothing.
    ///
    /// # Panics
    /// If it cannot be begun at all.
    pub fn begin(&mut self, flags: &[&str]) -> usize {
        let number = self.nodes.len();
        let host = match &mut self.network {
            None => Ipv4Addr::LOCALHOST,
            Some(network) => network
                .add()
                .unwrap_or_else(|error| panic!("no namespace: {error}")),
        };
        let mut flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let is_told = flags.iter().any(|flag| flag == "--join");
        let running = (0..number)
            .filter(|_| !is_told)
            .find(|&node| self.is_running(node) && !self.is_paused(node));
        if let Some(running) = running {
            flags.extend(["--join".to_owned(), self.peer_address(running).to_string()]);
        }
        self.push_node(host, flags);
        self.nodes[number].disk = self.disk_bytes.map(|bytes| {
            let data = self.nodes[number].directory.join("data");
            SmallDisk::new(&data, bytes).unwrap_or_else(|error| panic!("no small disk: {error}"))
        });
        for attempt in 1.. {
            self.nodes[number].ports = std::array::from_fn(|_| free_port());
            self.spawn(number);
            // What ends at once did not get a port.
            thread::sleep(Duration::from_millis(50));
            if self.is_running(number)
                || attempt == START_ATTEMPTS
                || !self.log(number).contains("another server")
            {
                break;
            }
        }
        number
    }

    /// Another node that is down, with ports and an empty directory: [`Cluster::restart`] starts it, with the flags that all nodes have
    /// then and none of its own.
    pub fn reserve(&mut self) -> usize {
        let number = self.push_node(Ipv4Addr::LOCALHOST, Vec::new());
        self.nodes[number].ports = std::array::from_fn(|_| free_port());
        number
    }

    /// Another node that is down, with an empty directory and no ports yet.
    fn push_node(&mut self, host: Ipv4Addr, flags: Vec<String>) -> usize {
        let number = self.nodes.len();
        let directory = self.directory.join(format!("node-{number}"));
        fs::create_dir_all(&directory).expect("the temporary directory is writable");
        self.nodes.push(Node {
            directory,
            host,
            ports: [0; 4],
            child: None,
            is_paused: false,
            flags,
            disk: None,
            wrapper: Vec::new(),
        });
        number
    }

    fn spawn(&mut self, number: usize) {
        let node = &self.nodes[number];
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(node.directory.join("log"));
        let log: File = log.expect("the directory was just made");
        let mut command = match (&self.network, self.file_limit) {
            (None, None) if node.disk.is_some() => {
                let disk = node.disk.as_ref().expect("it was looked at");
                disk.command(chorale_binary())
            }
            (None, None) if !node.wrapper.is_empty() => {
                let mut command = Command::new(&node.wrapper[0]);
                command.args(&node.wrapper[1..]).arg(chorale_binary());
                command
            }
            (None, None) => Command::new(chorale_binary()),
            (None, Some(blocks)) => {
                let mut shell = Command::new("sh");
                // Ignored, or the signal that comes with the error would end the process.
                let script = format!("trap '' XFSZ && ulimit -f {blocks} && exec \"$0\" \"$@\"");
                shell.args(["-c", &script]).arg(chorale_binary());
                shell
            }
            (Some(network), _) => network.command(number, chorale_binary()),
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CHORALE_") {
                command.env_remove(name);
            }
        }
        let mut flags: BTreeMap<&str, String> = BTreeMap::new();
        flags.insert("--bind", node.host.to_string());
        flags.insert("--workers", self.workers.to_string());
        flags.insert("--groups", self.groups.to_string());
        flags.insert("--dir", node.directory.join("data").display().to_string());
        let names = ["--port", "--cluster-port", "--admin-port", "--peer-port"];
        flags.extend(names.into_iter().zip(node.ports.map(|port| port.to_string())));
        // The server takes each flag once: a node's own come last, and win.
        for pair in self.flags.chunks_exact(2).chain(node.flags.chunks_exact(2)) {
            flags.insert(&pair[0], pair[1].clone());
        }
        command.arg("server");
        for (name, value) in flags {
            command.arg(name).arg(value);
        }
        let child = command
            .current_dir(&node.directory)
            // An interrupt from the terminal is for whoever tests: nodes end as the test wants it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be duplicated"))
            .stderr(log)
            .spawn()
            .expect("the binary is there: it was just built, or named");
        self.nodes[number].child = Some(child);
        self.nodes[number].is_paused = false;
    }

    /// How many nodes were begun.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True if none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn at(&self, node: usize, port: usize) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(self.nodes[node].host), self.nodes[node].ports[port])
    }

    /// Where clients of a node connect.
    #[must_use]
    pub fn address(&self, node: usize) -> SocketAddr {
        self.at(node, CLIENT)
    }

    /// Where clients of all nodes connect.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        (0..self.len()).map(|node| self.address(node)).collect()
    }

    /// The cluster endpoint of a node.
    #[must_use]
    pub fn cluster_address(&self, node: usize) -> SocketAddr {
        self.at(node, CLUSTER)
    }

    /// The admin port of a node.
    #[must_use]
    pub fn admin_address(&self, node: usize) -> SocketAddr {
        self.at(node, ADMIN)
    }

    /// Where other nodes reach a node.
    #[must_use]
    pub fn peer_address(&self, node: usize) -> SocketAddr {
        self.at(node, PEER)
    }

    /// A new connection to a node.
    ///
    /// # Panics
    /// If there is none to be had.
    #[must_use]
    #[track_caller]
    pub fn client(&self, node: usize) -> Client {
        Client::connect(self.address(node))
            .unwrap_or_else(|error| panic!("no connection to node {node}: {error}"))
    }

    /// True while the process runs, paused or not.
    pub fn is_running(&mut self, node: usize) -> bool {
        let child = self.nodes[node].child.as_mut();
        child.is_some_and(|child| child.try_wait().expect("the child is ours").is_none())
    }

    /// True between [`Cluster::pause`] and [`Cluster::resume`].
    #[must_use]
    pub fn is_paused(&self, node: usize) -> bool {
        self.nodes[node].is_paused
    }

    /// The process of a node.
    ///
    /// # Panics
    /// If it is down.
    #[must_use]
    pub fn process_id(&self, node: usize) -> u32 {
        self.nodes[node].child.as_ref().expect("the node runs").id()
    }

    /// `kill -9`, and waits until the process is gone.
    pub fn kill(&mut self, node: usize) {
        if let Some(mut child) = self.nodes[node].child.take() {
            child.kill().expect("the child is ours");
            child.wait().expect("the child is ours");
        }
        self.nodes[node].is_paused = false;
    }

    /// `kill -9` of all nodes at once, and waits until the processes are gone.
    pub fn kill_all(&mut self) {
        let running: Vec<usize> = (0..self.len()).filter(|&node| self.is_running(node)).collect();
        for &node in &running {
            self.signal(node, "KILL");
        }
        for node in running {
            self.kill(node);
        }
    }

    /// Starts all nodes that are down, as [`Cluster::restart`] does, and waits until all groups are replicated.
    ///
    /// # Panics
    /// If that does not happen.
    #[track_caller]
    pub fn restart_all(&mut self) -> Replicas {
        for node in 0..self.len() {
            if !self.is_running(node) {
                self.restart(node);
            }
        }
        self.wait_until_replicated()
    }

    /// Asks the process to end, and waits until it has.
    ///
    /// # Panics
    /// If it does not.
    pub fn terminate(&mut self, node: usize) -> ExitStatus {
        self.signal(node, "TERM");
        let status = self.wait(node);
        self.nodes[node].child = None;
        status
    }

    /// Waits for the process to end by itself.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait(&mut self, node: usize) -> ExitStatus {
        let child = self.nodes[node].child.as_mut().expect("the node was begun");
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("the child is ours") {
                return status;
            }
            assert!(
                start.elapsed() < PATIENCE,
                "node {node} does not end within {PATIENCE:?}"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops the process where it stands: its sockets stay, its clocks go on.
    pub fn pause(&mut self, node: usize) {
        self.signal(node, "STOP");
        self.nodes[node].is_paused = true;
    }

    /// Lets a paused process go on.
    pub fn resume(&mut self, node: usize) {
        self.signal(node, "CONT");
        self.nodes[node].is_paused = false;
    }

    /// Starts a node that is down in the same directory, on the same ports, and waits for nothing.
    ///
    /// # Panics
    /// If it runs.
    pub fn restart(&mut self, node: usize) {
        assert!(!self.is_running(node), "node {node} runs");
        self.spawn(node);
    }

    /// Sends a signal by name, such as `TERM`, to a node.
    ///
    /// # Panics
    /// If it is down.
    pub fn signal(&self, node: usize, name: &str) {
        // The shell's own `kill`: it needs neither unsafe code nor a package.
        let sent = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {}", self.process_id(node)))
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send SIG{name}");
    }

    /// True if nodes can be cut off from each other.
    #[must_use]
    pub fn has_namespaces(&self) -> bool {
        self.network.is_some()
    }

    /// Nothing that one node sends reaches the other any more.
    ///
    /// # Panics
    /// Without namespaces.
    pub fn cut(&mut self, from: usize, to: usize) {
        let network = self
            .network
            .as_ref()
            .expect("nodes are cut off in namespaces only");
        network
            .cut(from, to)
            .unwrap_or_else(|error| panic!("cannot cut: {error}"));
    }

    /// Gives a node that is down another address for its next start.
    ///
    /// # Panics
    /// Without namespaces.
    pub fn readdress(&mut self, node: usize) {
        let network = self.network.as_mut().expect("addresses are of namespaces only");
        let moved = network.readdress(node);
        self.nodes[node].host = moved.unwrap_or_else(|error| panic!("no other address: {error}"));
    }

    /// What names mean to all nodes that were begun, from now on.
    ///
    /// # Panics
    /// Without namespaces.
    pub fn set_names(&mut self, names: &[(String, Ipv4Addr)]) {
        let network = self.network.as_mut().expect("names are of namespaces only");
        network
            .set_names(names)
            .unwrap_or_else(|error| panic!("no names: {error}"));
    }

    /// Ends [`Cluster::cut`].
    ///
    /// # Panics
    /// Without namespaces.
    pub fn mend(&mut self, from: usize, to: usize) {
        let network = self
            .network
            .as_ref()
            .expect("nodes are cut off in namespaces only");
        network
            .mend(from, to)
            .unwrap_or_else(|error| panic!("cannot mend: {error}"));
    }

    /// The end of what a node has printed since its first start.
    #[must_use]
    pub fn log(&self, node: usize) -> String {
        let log = fs::read(self.nodes[node].directory.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }

    /// The data directory of a node.
    #[must_use]
    pub fn data(&self, node: usize) -> PathBuf {
        self.nodes[node].directory.join("data")
    }

    /// Waits until a node answers clients.
    ///
    /// # Panics
    /// If it does not within [`SETTLING`].
    #[track_caller]
    pub fn wait_until_ready(&mut self, node: usize) {
        let own = format!("process_id:{}\r\n", self.process_id(node));
        let start = Instant::now();
        loop {
            assert!(
                self.is_running(node),
                "node {node} has ended:\n{}",
                self.log(node)
            );
            let answer = Client::connect(self.address(node)).and_then(|mut client| {
                client.set_patience(GLANCE);
                client.try_command(&["INFO", "server", "persistence"])
            });
            // Somebody else may have been quicker on this port: the answer must come from our own child.
            let is_ready = |text: String| text.contains(&own) && text.contains("\r\nloading:0\r\n");
            if answer.is_ok_and(|reply| reply.text().is_some_and(is_ready)) {
                return;
            }
            assert!(
                start.elapsed() < SETTLING,
                "node {node} is not ready within {SETTLING:?}:\n{}",
                self.log(node)
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// There are to be so many groups from here on, as somebody has told a node.
    pub fn expect_groups(&mut self, groups: usize) {
        self.groups = groups;
    }

    /// Waits until there are as many groups for each node as with three, as a cluster gets them that grows beyond that, and partitions are
    /// where they are to be.
    ///
    /// # Panics
    /// As of [`Cluster::wait_until_replicated`].
    #[track_caller]
    pub fn wait_until_grown(&mut self) -> Replicas {
        let founded = self.groups;
        self.groups = founded.max(founded * self.len() / 3);
        let grown = self.wait_until_replicated();
        // Nodes that start later are told what it was founded with, and asking twice is the same as once.
        self.groups = founded;
        grown
    }

    /// What a node says of the groups; `None` if it does not answer, or knows a node that is not of this cluster.
    #[must_use]
    pub fn look(&self, node: usize) -> Option<Replicas> {
        // Who still reads what it kept names replicas that are not there yet.
        let metrics = http_get(self.admin_address(node), "/metrics").ok()?;
        if !metrics.body.contains("\nredis_loading_dump_file 0\n") {
            return None;
        }
        let page = http_get(self.admin_address(node), "/cluster").ok()?;
        let page: serde_json::Value = serde_json::from_str(&page.body).ok()?;
        let clients: BTreeMap<String, usize> = (0..self.len())
            .map(|node| (self.address(node).to_string(), node))
            .collect();
        let mut numbers = BTreeMap::new();
        for node in page["nodes"].as_array()? {
            numbers.insert(node["id"].as_u64()?, *clients.get(node["client"].as_str()?)?);
        }
        let mut found = Replicas {
            partitions_left: page["partitions_left"].as_u64().unwrap_or(0),
            ..Replicas::default()
        };
        for group in page["groups"].as_array()? {
            let leader = group["leader"].as_u64();
            found
                .leaders
                .push(leader.and_then(|leader| numbers.get(&leader).copied()));
            let mut replicas = Vec::new();
            for replica in group["replicas"].as_array()? {
                let node = *numbers.get(&replica["node"].as_u64()?)?;
                replicas.push((node, replica["incarnation"].as_u64()?, replica["role"] == "voter"));
            }
            found.replicas.push(replicas);
        }
        Some(found)
    }

    /// Waits until every node that runs says that each group has a leader and as many voters as it should: as [`Cluster::rf`] says, or three, or one
    /// as long as there are fewer nodes; and nothing else, on nodes that run, of which each has some.
    ///
    /// # Panics
    /// If that is not so within [`SETTLING`].
    #[track_caller]
    pub fn wait_until_replicated(&mut self) -> Replicas {
        let start = Instant::now();
        loop {
            match self.replicated() {
                Ok(replicas) => return replicas,
                Err(lacking) => assert!(start.elapsed() < SETTLING, "not within {SETTLING:?}: {lacking}"),
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// What each node says of the groups that are not replicated as they should be, for people.
    #[must_use]
    pub fn views(&self) -> String {
        let mut text = String::new();
        for node in 0..self.len() {
            let Some(seen) = self.look(node) else {
                let _ = writeln!(text, "node {node} does not show the cluster");
                continue;
            };
            for (group, replicas) in seen.replicas.iter().enumerate() {
                if replicas.len() != self.replicas() || replicas.iter().any(|&(_, _, votes)| !votes) {
                    let leader = seen.leaders[group];
                    let _ = writeln!(text, "node {node}: group {group} {replicas:?}, leader {leader:?}");
                }
            }
        }
        text
    }

    /// What the nodes agree on if everything is replicated.
    ///
    /// # Errors
    /// What is not.
    pub fn replicated(&mut self) -> Result<Replicas, String> {
        let wanted = self.replicas();
        let mut agreed: Option<Replicas> = None;
        let running: Vec<bool> = (0..self.len()).map(|node| self.is_running(node)).collect();
        for node in (0..self.len()).filter(|&node| running[node] && !self.is_paused(node)) {
            let seen = self
                .look(node)
                .ok_or_else(|| format!("node {node} shows no groups"))?;
            // More are added as it grows.
            if seen.replicas.len() < self.groups {
                return Err(format!("node {node} shows {} groups", seen.replicas.len()));
            }
            if seen.partitions_left > 0 {
                return Err(format!(
                    "to node {node} {} partitions are to move",
                    seen.partitions_left
                ));
            }
            for (group, replicas) in seen.replicas.iter().enumerate() {
                let is_whole =
                    replicas.len() == wanted && replicas.iter().all(|&(at, _, votes)| votes && running[at]);
                if seen.leaders[group].is_none_or(|leader| !running[leader]) || !is_whole {
                    let leader = seen.leaders[group];
                    return Err(format!(
                        "to node {node} group {group} has {replicas:?} and the leader {leader:?}"
                    ));
                }
            }
            let has_any = |node: usize| seen.replicas.iter().flatten().any(|&(at, ..)| at == node);
            if let Some(idle) = (0..self.len()).find(|&node| running[node] && !has_any(node)) {
                return Err(format!("node {idle} has no replica, to node {node}"));
            }
            if agreed
                .as_ref()
                .is_some_and(|agreed| agreed.replicas != seen.replicas)
            {
                return Err(format!("node {node} sees other replicas than a node before it"));
            }
            agreed = Some(seen);
        }
        agreed.ok_or_else(|| "no node runs".to_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if thread::panicking() {
            for node in 0..self.len() {
                eprintln!("--- end of the log of node {node}\n{}\n---", self.log(node));
            }
        }
        for node in &mut self.nodes {
            if let Some(mut child) = node.child.take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        remove_unless_kept(&self.directory);
    }
}

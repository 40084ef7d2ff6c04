//! A cluster of `chorale dev`: several processes under one, ended with the test.

use std::fs::{self, File};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use crate::server::{chorale_binary, fresh_directory, serial};
use crate::{Client, Prng, eventually};

/// A port can be taken by somebody else between its choice and its use; this often others are tried.
const START_ATTEMPTS: u32 = 4;

/// What it says when it has started everything.
const STARTED: &str = "Type kill 1";

/// `chorale dev`. Dropping it ends it and its nodes, and prints what it has said if the test is failing.
#[derive(Debug)]
pub struct LocalCluster {
    child: Child,
    directory: PathBuf,
    first_port: u16,
}

impl LocalCluster {
    /// Starts this many nodes and waits until they are said to be ready.
    ///
    /// # Panics
    /// With all that was said, if that does not happen.
    #[must_use]
    pub fn start(nodes: u16, flags: &[&str]) -> Self {
        for _ in 1..START_ATTEMPTS {
            let mut cluster = Self::begin(nodes, free_first_port(nodes), flags);
            if cluster.is_started() {
                return cluster;
            }
            assert!(cluster.output().contains("it is taken"), "{}", cluster.output());
        }
        panic!("others take every port")
    }

    /// Starts this many nodes, the first one's clients on this port, and waits for nothing.
    ///
    /// # Panics
    /// If there is no binary.
    #[must_use]
    pub fn begin(nodes: u16, first_port: u16, flags: &[&str]) -> Self {
        let directory = fresh_directory();
        let output = File::create(directory.join("output")).expect("the directory was just made");
        let mut command = Command::new(chorale_binary());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CHORALE_") {
                command.env_remove(name);
            }
        }
        command.args([
            "dev",
            "--nodes",
            &nodes.to_string(),
            "--port",
            &first_port.to_string(),
        ]);
        command.args(["--workers", "1", "--groups", "8", "--dir"]);
        command.arg(directory.join("cluster"));
        command.args(flags);
        let child = command
            .stdin(Stdio::piped())
            .stdout(output.try_clone().expect("a file can be duplicated"))
            .stderr(output)
            .spawn()
            .expect("the binary is there: it was just built, or named");
        LocalCluster {
            child,
            directory,
            first_port,
        }
    }

    /// Waits until it has started everything, or ended.
    fn is_started(&mut self) -> bool {
        let mut is_started = false;
        eventually("the nodes of chorale dev are ready, or it ends", || {
            is_started = self.output().contains(STARTED);
            is_started || !self.is_alive()
        });
        is_started
    }

    /// Where clients of a node connect; nodes are counted from 1.
    #[must_use]
    pub fn address(&self, node: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.first_port + node - 1))
    }

    /// The cluster endpoint of a node.
    #[must_use]
    pub fn cluster_address(&self, node: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.first_port + 1000 + node - 1))
    }

    /// The admin port of a node.
    #[must_use]
    pub fn admin_address(&self, node: u16) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.first_port + 3000 + node - 1))
    }

    /// A new connection to a node.
    ///
    /// # Panics
    /// If there is none to be had.
    #[must_use]
    #[track_caller]
    pub fn client(&self, node: u16) -> Client {
        Client::connect(self.address(node))
            .unwrap_or_else(|error| panic!("no connection to node {node}: {error}"))
    }

    /// Types a line.
    ///
    /// # Panics
    /// If it has ended.
    pub fn type_line(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("it was asked for");
        writeln!(input, "{line}").expect("it reads what is typed");
    }

    /// All that it has said.
    #[must_use]
    pub fn output(&self) -> String {
        let output = fs::read(self.directory.join("output")).unwrap_or_default();
        String::from_utf8_lossy(&output).into_owned()
    }

    /// True while its own process runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("the child is ours").is_none()
    }

    /// Sends a signal by name, such as `INT`, to its own process.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {}", self.child.id()))
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send SIG{name}");
    }

    /// Waits for it to end by itself.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("chorale dev ends", || {
            status = self.child.try_wait().expect("the child is ours");
            status.is_some()
        });
        status.expect("the wait above ends with a status")
    }

    /// True while the directory of its nodes is there.
    #[must_use]
    pub fn has_directory(&self) -> bool {
        self.directory.join("cluster").exists()
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("--- chorale dev\n{}\n---", self.output());
        }
        // Its nodes end with it: the tests say so.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A first port from which on all ports of this many nodes are free, below those that the system gives to connections.
fn free_first_port(nodes: u16) -> u16 {
    let mut prng = Prng::new((u64::from(std::process::id()) << 32) | serial());
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    loop {
        let first = 10_000 + u16::try_from(prng.below(18_000)).expect("below 18,000");
        let mut ports = (0..4).flat_map(|kind| (0..nodes).map(move |node| first + kind * 1000 + node));
        if ports.all(is_free) {
            return first;
        }
    }
}

//! A server process: started on free ports in a directory of its own, ended with the test.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Client, PATIENCE, Prng, eventually};

/// A port can be taken by somebody else between its choice and its use; this often another one is tried.
const START_ATTEMPTS: u32 = 4;

/// How much of the log of a failed server is shown.
const LOG_TAIL_BYTES: usize = 8192;

/// What runs in the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// The binary of this workspace.
    Chorale(PathBuf),
    /// A `redis-server`, by path.
    Redis(PathBuf),
}

impl Implementation {
    /// What is to be tested: see `CHORALE_BLACKBOX_SERVER` in the crate's documentation.
    #[must_use]
    pub fn subject() -> Self {
        match std::env::var_os("CHORALE_BLACKBOX_SERVER") {
            Some(server) if server != "chorale" && !server.is_empty() => Self::Redis(server.into()),
            _ => Self::Chorale(chorale_binary().to_owned()),
        }
    }

    /// The server whose replies are the truth.
    #[must_use]
    pub fn reference() -> Self {
        Self::Redis("redis-server".into())
    }
}

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    implementation: Implementation,
    workers: usize,
    groups: Option<usize>,
    password: Option<String>,
    peer_port: u16,
    open_files: Option<u64>,
    flags: Vec<(String, String)>,
}

impl ServerBuilder {
    /// `--workers`; without meaning for Redis.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// `--groups`, if it is to be another number than the server itself would have; without meaning for Redis.
    #[must_use]
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = Some(groups);
        self
    }

    /// `--requirepass`.
    #[must_use]
    pub fn requirepass(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// `--maxclients`.
    #[must_use]
    pub fn maxclients(self, count: usize) -> Self {
        self.flag("maxclients", &count.to_string())
    }

    /// `--peer-port`, on a free one: the node keeps a data directory, and others can join it. Without meaning for Redis.
    #[must_use]
    pub fn with_peers(mut self) -> Self {
        self.peer_port = free_port();
        self
    }

    /// `--join`, of a node that was started [`with peers`](ServerBuilder::with_peers).
    #[must_use]
    pub fn join(self, other: &Server) -> Self {
        let address = format!("127.0.0.1:{}", other.peer_port);
        self.with_peers().flag("join", &address)
    }

    /// The process may have no more files open than this.
    #[must_use]
    pub fn open_files(mut self, limit: u64) -> Self {
        self.open_files = Some(limit);
        self
    }

    /// Any other `--name value` that both servers know.
    #[must_use]
    pub fn flag(mut self, name: &str, value: &str) -> Self {
        self.flags.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the process and waits until it answers `PING`.
    ///
    /// # Panics
    /// With the end of its log, if it does not come up.
    #[must_use]
    pub fn start(self) -> Server {
        for attempt in 1.. {
            match self.attempt() {
                Ok(server) => return server,
                Err(reason) if attempt == START_ATTEMPTS => panic!("{:?}: {reason}", self.implementation),
                Err(_) => {}
            }
        }
        unreachable!("the loop ends by return or panic")
    }

    /// The program without arguments, under the limits that it is to have.
    fn program(&self, binary: &Path) -> Command {
        match self.open_files {
            None => Command::new(binary),
            Some(limit) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")]);
                shell.arg(binary);
                shell
            }
        }
    }

    fn attempt(&self) -> Result<Server, String> {
        let directory = fresh_directory();
        let log = File::create(directory.join("log")).expect("the directory was just made");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let cluster = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let mut command = match &self.implementation {
            Implementation::Chorale(binary) => {
                let mut command = self.program(binary);
                // Variables that steer these tests are no options of the server.
                for (name, _) in std::env::vars_os() {
                    if name.to_string_lossy().starts_with("CHORALE_") {
                        command.env_remove(name);
                    }
                }
                command.arg("server");
                command.args(["--cluster-port", &cluster.port().to_string()]);
                command.args(["--peer-port", &self.peer_port.to_string()]);
                command.args(["--admin-port", &admin.port().to_string()]);
                command.args(["--workers", &self.workers.to_string()]);
                if let Some(groups) = self.groups {
                    command.args(["--groups", &groups.to_string()]);
                }
                command
            }
            Implementation::Redis(binary) => {
                let mut command = self.program(binary);
                command.args(["--save", "", "--appendonly", "no"]);
                command
            }
        };
        command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"]);
        if let Some(password) = &self.password {
            command.args(["--requirepass", password]);
        }
        for (name, value) in &self.flags {
            command.arg(format!("--{name}")).arg(value);
        }
        let child = command
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file can be duplicated"))
            .stderr(log)
            .spawn();
        let child = match child {
            Ok(child) => child,
            Err(error) => {
                let _ = fs::remove_dir_all(&directory);
                return Err(format!(
                    "cannot be started: {error}. The reference is redis-server from PATH: install it \
                     (Debian: apt-get install redis-server)"
                ));
            }
        };
        let mut server = Server {
            child,
            directory,
            address,
            cluster,
            admin,
            password: self.password.clone(),
            peer_port: self.peer_port,
            command,
            implementation: self.implementation.clone(),
        };
        server.wait_until_ready()?;
        Ok(server)
    }
}

/// A running server. Dropping it kills the process, removes its directory, and prints the end of its log if
/// the test is failing.
#[derive(Debug)]
pub struct Server {
    child: Child,
    directory: PathBuf,
    address: SocketAddr,
    cluster: SocketAddr,
    admin: SocketAddr,
    password: Option<String>,
    peer_port: u16,
    /// How it was started.
    command: Command,
    implementation: Implementation,
}

impl Server {
    /// A server of the implementation under test.
    #[must_use]
    pub fn subject() -> ServerBuilder {
        Self::of(Implementation::subject())
    }

    /// A server of the implementation whose replies are the truth.
    #[must_use]
    pub fn reference() -> ServerBuilder {
        Self::of(Implementation::reference())
    }

    fn of(implementation: Implementation) -> ServerBuilder {
        ServerBuilder {
            implementation,
            workers: 2,
            groups: None,
            password: None,
            peer_port: 0,
            open_files: None,
            flags: Vec::new(),
        }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// True if this is a Redis: what only Chorale promises cannot be asked of it.
    #[must_use]
    pub fn is_redis(&self) -> bool {
        matches!(self.implementation, Implementation::Redis(_))
    }

    /// Where clients of Redis Cluster connect, or `None` if this is a Redis, which is started without.
    #[must_use]
    pub fn cluster_address(&self) -> Option<SocketAddr> {
        (!self.is_redis()).then_some(self.cluster)
    }

    /// The admin port, or `None` if this is a Redis, which has none.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        (!self.is_redis()).then_some(self.admin)
    }

    /// A new connection, not authenticated.
    ///
    /// # Panics
    /// If there is none to be had.
    #[must_use]
    #[track_caller]
    pub fn client(&self) -> Client {
        match Client::connect(self.address) {
            Ok(client) => client,
            Err(error) => panic!("no connection to {}: {error}", self.address),
        }
    }

    /// The process.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Memory of the process that is in RAM, in bytes.
    ///
    /// # Panics
    /// Where there is no `/proc`.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        resident_bytes(self.child.id())
    }

    /// How many files and sockets the process has open.
    ///
    /// # Panics
    /// Where there is no `/proc`.
    #[must_use]
    pub fn open_files(&self) -> usize {
        let path = format!("/proc/{}/fd", self.child.id());
        let open = fs::read_dir(path).expect("the process runs, on a system with /proc");
        // Of its own figures it has a file open for a moment, now and then; what has been closed since it was listed leads nowhere.
        let leads_to = open.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        leads_to.filter(|path| !path.starts_with("/proc")).count()
    }

    /// Sends a signal by name, such as `TERM`.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn signal(&self, name: &str) {
        // The shell's own `kill`: it needs neither unsafe code nor a package.
        let sent = Command::new("sh")
            .arg("-c")
            .arg(format!("kill -{name} {}", self.child.id()))
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send SIG{name}");
    }

    /// Starts the process again, which has ended: the same ports, the same directories.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn restart(&mut self) {
        self.begin_again();
        if let Err(reason) = self.wait_until_ready() {
            panic!("{reason}");
        }
    }

    /// [`Server::restart`], without waiting until it answers.
    ///
    /// # Panics
    /// If there can be no process.
    pub fn begin_again(&mut self) {
        self.child = self.command.spawn().expect("it could be started before");
    }

    /// Waits for the process to end by itself.
    ///
    /// # Panics
    /// If it does not.
    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the server process ends", || {
            status = self.child.try_wait().expect("the child is ours");
            status.is_some()
        });
        status.expect("the wait above ends with a status")
    }

    /// True while the process runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("the child is ours").is_none()
    }

    /// What the process has printed.
    #[must_use]
    pub fn log(&self) -> String {
        let log = fs::read(self.directory.join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log[log.len().saturating_sub(LOG_TAIL_BYTES)..]).into_owned()
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the child is ours") {
                return Err(format!(
                    "ended with {status} before it answered PING; its log:\n{}",
                    self.log()
                ));
            }
            if self.answers() {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!(
                    "no answer to PING within {PATIENCE:?}; its log:\n{}",
                    self.log()
                ));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn answers(&self) -> bool {
        let Ok(mut client) = Client::connect(self.address) else {
            return false;
        };
        client.set_patience(Duration::from_secs(2));
        if let Some(password) = &self.password
            && client.try_command(&["AUTH", password]).is_err()
        {
            return false;
        }
        if !client
            .try_command(&["PING"])
            .is_ok_and(|reply| reply.text().as_deref() == Some("PONG"))
        {
            return false;
        }
        // Somebody else may have been quicker on this port: the answer must come from our own child.
        let own = format!("process_id:{}\r\n", self.child.id());
        client
            .try_command(&["INFO", "server"])
            .is_ok_and(|reply| reply.text().is_some_and(|text| text.contains(&own)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!(
                "--- end of the log of {:?}\n{}\n---",
                self.implementation,
                self.log()
            );
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove_unless_kept(&self.directory);
    }
}

/// Removes what processes have left, but of a test that fails and is to be looked into.
pub(crate) fn remove_unless_kept(directory: &Path) {
    if thread::panicking() && std::env::var_os("CHORALE_BLACKBOX_KEEP").is_some() {
        eprintln!("logs and data stay in {}", directory.display());
        return;
    }
    let _ = fs::remove_dir_all(directory);
}

/// A number that no other call in this process got.
pub(crate) fn serial() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(crate) fn fresh_directory() -> PathBuf {
    let path = std::env::temp_dir().join(format!("chorale-blackbox-{}-{}", std::process::id(), serial()));
    fs::create_dir_all(&path).expect("the temporary directory is writable");
    path
}

/// A port nobody listens on. It is taken below the range from which the system gives ports to outgoing connections:
/// tests open thousands of those, and one of them would sooner or later sit on a number asked for as "port 0". Each is given once: who was
/// given one may not listen there yet.
pub(crate) fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut prng = Prng::new((u64::from(std::process::id()) << 32) | serial());
    loop {
        let port = 10_000 + u16::try_from(prng.below(22_000)).expect("below 22,000");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
            && GIVEN
                .lock()
                .expect("nobody panics while he holds it")
                .insert(port)
        {
            return port;
        }
    }
}

/// The binary to test, built if `CHORALE_BIN` does not name one.
///
/// # Panics
/// If there is none.
pub fn chorale_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("CHORALE_BIN") {
        Some(binary) => fs::canonicalize(&binary)
            .unwrap_or_else(|error| panic!("CHORALE_BIN is {}: {error}", binary.display())),
        None => build_chorale(),
    })
}

/// Builds with the profile of the running test, into the same target directory, so that what is tested is never
/// older than the sources.
fn build_chorale() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let directory = test.parent().expect("cargo puts nothing at the root");
    let profile_directory = match directory.file_name() {
        Some(name) if name == "deps" => directory.parent(),
        _ => Some(directory),
    };
    let profile_directory = profile_directory
        .expect("cargo puts tests at TARGET/PROFILE/deps/NAME, and programs at TARGET/PROFILE/NAME");
    let target = profile_directory
        .parent()
        .expect("cargo puts tests at TARGET/PROFILE/deps/NAME");
    let profile = match profile_directory.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "-p",
            "chorale",
            "--profile",
            profile,
            "--target-dir",
        ])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo is there: it started this test");
    assert!(
        output.status.success(),
        "cargo build -p chorale:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    profile_directory
        .join("chorale")
        .with_extension(std::env::consts::EXE_EXTENSION)
}

/// Bytes of memory that a process holds.
///
/// # Panics
/// Where there is no `/proc`, or no such process.
#[must_use]
pub fn resident_bytes(process: u32) -> u64 {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(path).expect("the process runs, on a system with /proc");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("every process has it");
    let kilobytes: u64 = line
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("proc(5) fixes the format");
    kilobytes * 1024
}

//! One node of a local cluster: a process of the same binary.
//!
//! ```text
//!            start           ready for clients, /healthz is 200
//!  (ended) ---------> starting ---------------------------------> running <----> paused
//!     ^                   |                                          |              |
//!     `-------------------+------------------------------------------+--------------'
//!          it ended by itself, or was told to
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread;

use super::Event;
use super::log_line::LogLine;
use super::ports::Ports;
use super::process::{self, Signal};
use crate::{cli, http};

/// Bytes of one line of a log. What is longer comes as several.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Bytes of a node's log file. Nothing is written after them; lines are still shown.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// What a node logs when it serves clients.
pub(super) const READY: &str = "ready for clients";

/// What all nodes have in common.
pub(super) struct Common {
    /// Flags of `chorale server` that whoever started this gave for all nodes.
    pub(super) flags: Vec<String>,
    /// The cluster's directory.
    pub(super) directory: PathBuf,
    /// Where log lines go.
    pub(super) events: SyncSender<Event>,
}

/// A node. Dropping it ends its process.
pub(super) struct Node {
    pub(super) number: u16,
    pub(super) ports: Ports,
    child: Option<Child>,
    pub(super) state: State,
}

/// How its process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has begun, and does not serve clients yet.
    Starting,
    /// It serves clients.
    Running,
    /// It stands still.
    Paused,
    /// There is none.
    Ended,
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Running => "running",
            State::Paused => "paused",
            State::Ended => "ended",
        }
    }
}

impl Node {
    pub(super) fn new(number: u16, ports: Ports) -> Node {
        Node {
            number,
            ports,
            child: None,
            state: State::Ended,
        }
    }

    /// Starts the process. `peers` are the peer ports of the nodes that it may join.
    pub(super) fn start(&mut self, common: &Common, peers: &[u16]) -> io::Result<()> {
        let Ports {
            client,
            cluster,
            peer,
            admin,
        } = self.ports;
        let directory = common.directory.join(format!("node-{}", self.number));
        let join: Vec<String> = peers.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(cli::SERVER);
        // Said even where it is the default: the environment may say otherwise.
        command.args(["--bind", "127.0.0.1", "--advertise", "127.0.0.1"]);
        command.args(["--log-format", "json", "--log-level", "notice"]);
        for (name, port) in [
            ("--port", client),
            ("--cluster-port", cluster),
            ("--peer-port", peer),
            ("--admin-port", admin),
        ] {
            command.arg(name).arg(port.to_string());
        }
        command.arg("--dir").arg(&directory);
        command.arg("--join").arg(join.join(" "));
        command.args(&common.flags);
        command.current_dir(&common.directory);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log_path(&common.directory, self.number))?;
        let mut child = process::spawn(command)?;
        let stderr = child.stderr.take().expect("it was asked for");
        self.child = Some(child);
        self.state = State::Starting;
        let (number, events) = (self.number, common.events.clone());
        thread::Builder::new()
            .name(format!("log-{number}"))
            .spawn(move || pass_on(number, stderr, log, &events))?;
        Ok(())
    }

    /// Whether it serves clients now; `READY` must have been in its log.
    pub(super) fn is_healthy(&self) -> bool {
        http::get(&self.admin_address(), "/healthz").is_ok_and(|page| page.status == 200)
    }

    /// Where operators ask it, `HOST:PORT`.
    pub(super) fn admin_address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.admin)
    }

    /// How the process ended, once, if it has since this was last asked.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        self.state = State::Ended;
        Some(status)
    }

    /// Sends a signal to the process, if there is one.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        match &self.child {
            Some(child) => process::signal(child, signal),
            None => Ok(()),
        }
    }

    pub(super) fn process_id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The file with the whole log of a node.
pub(super) fn log_path(directory: &Path, number: u16) -> PathBuf {
    directory.join(format!("node-{number}.log"))
}

/// Writes a log to its file and shows it. It never waits for the screen: a node that waits for its log stands still.
fn pass_on(number: u16, stderr: ChildStderr, mut file: File, events: &SyncSender<Event>) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    let mut written = 0;
    loop {
        line.clear();
        match lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if written < LOG_BYTES_MAX {
                    // A full disk must not end the node.
                    let _ = file.write_all(&line);
                    written += count as u64;
                }
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end();
                if !text.is_empty() {
                    // What does not fit stands in the file.
                    let _ = events.try_send(Event::Log(number, LogLine::parse(text)));
                }
            }
        }
    }
}

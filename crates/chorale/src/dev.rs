//! `chorale dev`: a cluster on this machine, of real processes, for as long as this one runs.
//!
//! ```text
//!  make directory --> node 1 ready --> node 2 ready --> .. --> table --> events until told to end --> all ended, removed
//!                         \--------------\--- ended or told to end -------------------------------^
//! ```
//!
//! Everything that happens (lines of logs, typed lines, signals) comes to one loop by one queue. Nodes are ended in order;
//! if this process is killed, the kernel kills them (`process.rs`).

mod directory;
mod log_line;
mod node;
mod ports;
mod process;
mod screen;
mod typed;

use std::io::{self, BufRead, IsTerminal, Read};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use self::directory::Directory;
use self::log_line::{Level, LogLine};
use self::node::{Common, Node, READY, State};
use self::process::Signal;
use self::screen::Screen;
use self::typed::Typed;
use crate::http::PASSWORD_VARIABLE;
use crate::{admin_client, status};

/// Name of the subcommand, and of its arguments.
pub(crate) const DEV: &str = "dev";
const NODES: &str = "nodes";
const PORT: &str = "port";
const GROUPS: &str = "groups";
const WORKERS: &str = "workers";
const DIR: &str = "dir";
const KEEP: &str = "keep";
const SERVER_FLAGS: &str = "flags";

/// Nodes of a local cluster. One more is refused: each is a process with threads of its own.
const NODES_MAX: u16 = 32;

/// How long one node may take to be ready. Then everything ends, with the end of its log.
const READY_TIME_MAX: Duration = Duration::from_secs(60);

/// How long the groups may take to have all their replicas before the table is shown without.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(20);

/// How often a node is asked whether they have.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// How long nodes may take to end. Then they are killed.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// Events that wait for the loop. Further lines of logs are not shown; they stand in the files.
const EVENTS_MAX: usize = 1024;

/// Bytes of a typed line. What is longer comes as several.
const TYPED_BYTES_MAX: u64 = 4096;

/// How often it is looked whether a process has ended.
const TICK: Duration = Duration::from_millis(25);

const EXAMPLES: &str = "\
Examples:
  chorale dev
      Three nodes; clients on ports 6379, 6380 and 6381 of this machine only.
  chorale dev --nodes 5 --port 16379
      Five nodes, clients on 16379 to 16383.
  chorale dev -- --rf 1 --maxmemory 100mb
      With options of `chorale server` for every node.
  chorale dev -- --durability relaxed
      Data on disk too, as chorale server has them; without it they are in memory alone.

Node 1 has its port for clients at --port, its cluster endpoint 1000 above, its port for the other nodes 2000 above and the
one for operators 3000 above; those of node 2 are one more each, and so on.

While it runs, these can be typed:
";

/// The command line of `chorale dev`.
pub(crate) fn command() -> Command {
    Command::new(DEV)
        .about("Run a cluster on this machine, to try things out")
        .arg(
            Arg::new(NODES)
                .long(NODES)
                .value_name("N")
                .default_value("3")
                .value_parser(value_parser!(u16).range(1..=i64::from(NODES_MAX)))
                .help("How many nodes"),
        )
        .arg(
            Arg::new(PORT)
                .long(PORT)
                .value_name("N")
                .default_value("6379")
                .value_parser(value_parser!(u16).range(1..))
                .help("Port of node 1 for clients; the next node has the next"),
        )
        .arg(
            Arg::new(GROUPS)
                .long(GROUPS)
                .value_name("N")
                .help("Groups that the keys are divided into [default: that of chorale server]"),
        )
        .arg(
            Arg::new(WORKERS)
                .long(WORKERS)
                .value_name("N")
                .help("Worker threads of each node [default: the cores, divided among the nodes]"),
        )
        .arg(
            Arg::new(DIR)
                .long(DIR)
                .value_name("DIRECTORY")
                .help("Where nodes keep their files: a new or empty directory [default: a temporary one]"),
        )
        .arg(
            Arg::new(KEEP)
                .long(KEEP)
                .action(ArgAction::SetTrue)
                .help("Leave the files, logs among them, when it ends"),
        )
        .arg(
            Arg::new(SERVER_FLAGS)
                .value_name("FLAGS")
                .num_args(1..)
                .last(true)
                .allow_hyphen_values(true)
                .help("Flags of chorale server, for every node"),
        )
        .after_help(format!("{EXAMPLES}{}", typed::HELP))
}

/// Something that happened.
enum Event {
    /// A node logged a line.
    Log(u16, LogLine),
    /// Somebody typed a line.
    Typed(String),
    /// Nobody will type any more.
    InputEnded,
    /// The system asks to end.
    Asked,
}

/// Why the loop ends before its time.
enum End {
    /// It was asked to.
    Asked,
    /// It cannot go on: what is wrong, in words for whoever started it.
    Failed(String),
}

/// Runs the cluster until it is to end.
pub(crate) fn main(matches: &ArgMatches) -> ExitCode {
    let (sender, events) = sync_channel(EVENTS_MAX);
    let mut cluster = match Cluster::plan(matches, sender.clone(), events) {
        Ok(cluster) => cluster,
        Err(problem) => return failed(&problem),
    };
    if let Err(error) = watch(sender) {
        return failed(&format!("cannot watch signals: {error}"));
    }
    let end = cluster.start_all().and_then(|()| {
        let groups = cluster.wait_until_settled()?;
        cluster.introduce(&groups);
        cluster.go_on()
    });
    cluster.end_all();
    match end {
        Ok(()) | Err(End::Asked) => ExitCode::SUCCESS,
        Err(End::Failed(problem)) => failed(&problem),
    }
}

fn failed(problem: &str) -> ExitCode {
    eprintln!("chorale: {problem}");
    ExitCode::FAILURE
}

/// Starts the threads that wait for signals and for what is typed.
fn watch(events: SyncSender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let asked = events.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if asked.send(Event::Asked).is_err() {
                return;
            }
        }
    })?;
    thread::Builder::new().name("input".into()).spawn(move || {
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            let event = match input.by_ref().take(TYPED_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => Event::InputEnded,
                Ok(_) => Event::Typed(String::from_utf8_lossy(&line).into_owned()),
            };
            let is_last = matches!(event, Event::InputEnded);
            if events.send(event).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(())
}

/// The cluster.
struct Cluster {
    screen: Screen,
    /// Ended before the directory goes: fields are dropped in this order.
    nodes: Vec<Node>,
    common: Common,
    first_port: u16,
    directory: Directory,
    is_kept: bool,
    events: Receiver<Event>,
}

impl Cluster {
    /// Chooses ports and makes the directory. Nothing runs yet.
    fn plan(
        matches: &ArgMatches,
        sender: SyncSender<Event>,
        events: Receiver<Event>,
    ) -> Result<Cluster, String> {
        let number = |name: &str| *matches.get_one::<u16>(name).expect("it has a default");
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let (count, first_port) = (number(NODES), number(PORT));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers =
            text(WORKERS).map_or_else(|| (cores / usize::from(count)).max(1).to_string(), str::to_owned);
        let mut flags = vec!["--workers".to_owned(), workers];
        if let Some(groups) = text(GROUPS) {
            flags.extend(["--groups".to_owned(), groups.to_owned()]);
        }
        flags.extend(
            matches
                .get_many::<String>(SERVER_FLAGS)
                .into_iter()
                .flatten()
                .cloned(),
        );
        let ports = ports::choose(first_port, 1..=count)?;
        let is_kept = matches.get_flag(KEEP);
        let directory = Directory::make(text(DIR), is_kept)?;
        let is_set = |option: &str| flags.iter().any(|flag| flag.starts_with(option));
        if !is_set("--durability") {
            // What it writes is removed when it ends, and may lie in memory.
            flags.splice(..0, ["--durability".to_owned(), "memory".to_owned()]);
        }
        let is_set = |option: &str| flags.iter().any(|flag| flag.starts_with(option));
        let has_password = is_set("--requirepass") || std::env::var_os(PASSWORD_VARIABLE).is_some();
        if has_password && !is_set("--cluster-secret") {
            // Where clients need a password, nodes need a secret.
            let path = directory
                .secret()
                .map_err(|error| format!("cannot make a secret: {error}"))?;
            flags.extend(["--cluster-secret-file".to_owned(), path.display().to_string()]);
        }
        Ok(Cluster {
            screen: Screen::new(),
            nodes: (1..)
                .zip(ports)
                .map(|(number, ports)| Node::new(number, ports))
                .collect(),
            common: Common {
                flags,
                directory: directory.path().to_owned(),
                events: sender,
            },
            first_port,
            directory,
            is_kept,
            events,
        })
    }

    /// One after the other, so that the cluster counts them as they are counted here.
    fn start_all(&mut self) -> Result<(), End> {
        let count = self.nodes.len();
        let what = if count == 1 {
            "a node".to_owned()
        } else {
            format!("{count} nodes")
        };
        self.screen
            .say(&format!("Starting {what} in {}", self.directory.path().display()));
        for index in 0..count {
            self.start(index).map_err(End::Failed)?;
            self.wait_until_ready(index)?;
        }
        Ok(())
    }

    /// Starts the process of a node, which joins those that are there.
    fn start(&mut self, index: usize) -> Result<(), String> {
        let others = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(other, node)| *other != index && node.state != State::Ended);
        let peers: Vec<u16> = others.map(|(_, node)| node.ports.peer).collect();
        let node = &mut self.nodes[index];
        node.start(&self.common, &peers)
            .map_err(|error| format!("cannot start node {}: {error}", node.number))
    }

    fn wait_until_ready(&mut self, index: usize) -> Result<(), End> {
        let started = Instant::now();
        let mut has_said_so = false;
        let mut tail = Vec::new();
        loop {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Log(number, line)) if number == self.nodes[index].number => {
                    has_said_so |= line.message == READY;
                    if line.level != Level::Info {
                        tail.push(line);
                    }
                }
                // Until the table stands there, only what needs attention.
                Ok(Event::Log(number, line)) if line.level != Level::Info => self.show(number, &line),
                Ok(Event::Log(..)) => {}
                // Nothing can be done to nodes yet, but to end them.
                Ok(Event::Typed(line)) if typed::parse(&line) == Ok(Some(Typed::Quit)) => {
                    return Err(End::Asked);
                }
                Ok(Event::Typed(_) | Event::InputEnded) => {}
                Ok(Event::Asked) => return Err(End::Asked),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            let node = &mut self.nodes[index];
            if has_said_so && node.is_healthy() {
                node.state = State::Running;
                tail.iter()
                    .for_each(|line| self.screen.log(index as u16 + 1, line));
                return Ok(());
            }
            let problem = match node.ended() {
                Some(status) => format!("node {} ended before it was ready ({status})", node.number),
                None if started.elapsed() > READY_TIME_MAX => {
                    format!("node {} is not ready after {READY_TIME_MAX:?}", node.number)
                }
                None => continue,
            };
            return Err(self.not_ready(index, problem, tail));
        }
    }

    /// With what the node complained about, and how to see more.
    fn not_ready(&mut self, index: usize, problem: String, mut complaints: Vec<LogLine>) -> End {
        let number = self.nodes[index].number;
        // Its last words may still be on their way.
        while let Ok(event) = self.events.recv_timeout(TICK * 4) {
            match event {
                Event::Log(from, line) if from == number && line.level != Level::Info => {
                    complaints.push(line)
                }
                Event::Log(..) | Event::Typed(_) | Event::InputEnded | Event::Asked => {}
            }
        }
        let mut text = problem;
        for line in &complaints {
            text.push_str(format!("\n  {}  {}", line.message, line.details).trim_end());
        }
        if !self.is_kept {
            text.push_str("\nWith --keep its whole log stays");
        } else {
            let log = node::log_path(self.directory.path(), number);
            text.push_str(&format!("\nIts whole log: {}", log.display()));
        }
        End::Failed(text)
    }

    /// Waits until the groups have their replicas on the nodes that came later, so that none of these nodes is missed when it
    /// is killed. Says how the groups are.
    fn wait_until_settled(&mut self) -> Result<String, End> {
        let address = self.nodes[0].admin_address();
        let started = Instant::now();
        loop {
            if let Ok(view) = admin_client::cluster(&address) {
                let is_settled = view.nodes.len() >= self.nodes.len() && status::is_settled(&view);
                if view.groups.is_empty() {
                    return Ok(String::new());
                }
                if is_settled || started.elapsed() > SETTLE_TIME_MAX {
                    return Ok(status::groups_in_words(&view));
                }
            } else if started.elapsed() > SETTLE_TIME_MAX {
                return Ok(String::new());
            }
            match self.events.recv_timeout(ASK_PAUSE) {
                Ok(Event::Asked) => return Err(End::Asked),
                Ok(Event::Typed(line)) if typed::parse(&line) == Ok(Some(Typed::Quit)) => {
                    return Err(End::Asked);
                }
                Ok(Event::Log(number, line)) if line.level != Level::Info => self.show(number, &line),
                Ok(Event::Log(..) | Event::Typed(_) | Event::InputEnded) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }

    /// Says where everything is and what can be done.
    fn introduce(&mut self, groups: &str) {
        let mut rows = vec![
            ["node", "clients", "cluster endpoint", "operators"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for node in &self.nodes {
            rows.push(vec![
                node.number.to_string(),
                format!("127.0.0.1:{}", node.ports.client),
                format!("127.0.0.1:{}", node.ports.cluster),
                format!("http://127.0.0.1:{}", node.ports.admin),
            ]);
        }
        let (first, last) = (self.nodes[0].ports, self.nodes[self.nodes.len() - 1].ports);
        let what = if self.nodes.len() == 1 {
            "It is ready."
        } else {
            "They are ready, and any of them carries out any command."
        };
        self.screen.say(&format!(
            "{}\n\n{table}\n  \
             redis-cli -p {} SET greeting hello\n  \
             redis-cli -p {} GET greeting\n  \
             chorale admin status 127.0.0.1:{}\n\n\
             Type kill 1, start 1, pause 1, resume 1, add, status, help; quit or Ctrl-C ends it.\n",
            format!("{what} {groups}").trim_end(),
            first.client,
            last.client,
            first.admin,
            table = status::columns(&rows),
        ));
    }

    /// Shows what happens and does what is asked, until that is to end.
    fn go_on(&mut self) -> Result<(), End> {
        loop {
            match self.events.recv_timeout(TICK) {
                Ok(Event::Log(number, line)) => self.show(number, &line),
                Ok(Event::Typed(line)) => match typed::parse(&line) {
                    Ok(None) => {}
                    Ok(Some(Typed::Quit)) => return Ok(()),
                    Ok(Some(typed)) => {
                        if let Err(problem) = self.carry_out(typed) {
                            self.screen.say(&problem);
                        }
                    }
                    Err(problem) => self.screen.say(&problem),
                },
                // A pipe that ends has said what to do; a terminal that does is Ctrl-D.
                Ok(Event::InputEnded) if io::stdin().is_terminal() => return Ok(()),
                Ok(Event::InputEnded) => {}
                Ok(Event::Asked) => return Err(End::Asked),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => self.screen.settle(),
            }
            for index in 0..self.nodes.len() {
                if let Some(status) = self.nodes[index].ended() {
                    let number = self.nodes[index].number;
                    self.screen.say(&format!(
                        "node {number} has ended ({status}); start {number} starts it again"
                    ));
                }
            }
        }
    }

    fn show(&mut self, number: u16, line: &LogLine) {
        if line.message == READY
            && let Some(node) = self.nodes.iter_mut().find(|node| node.number == number)
            && node.state == State::Starting
        {
            node.state = State::Running;
        }
        self.screen.log(number, line);
    }

    fn carry_out(&mut self, typed: Typed) -> Result<(), String> {
        match typed {
            Typed::Kill(number) => {
                let index = self.index_of_process(number)?;
                self.tell(index, Signal::Kill)
            }
            Typed::Pause(number) => {
                let index = self.index_of_process(number)?;
                self.tell(index, Signal::Stop)?;
                self.nodes[index].state = State::Paused;
                self.screen.say(&format!(
                    "node {number} stands still; resume {number} lets it go on"
                ));
                Ok(())
            }
            Typed::Resume(number) => {
                let index = self.index_of_process(number)?;
                self.tell(index, Signal::Continue)?;
                self.nodes[index].state = State::Running;
                self.screen.say(&format!("node {number} goes on"));
                Ok(())
            }
            Typed::Start(number) => {
                let index = self.index_of(number)?;
                match self.nodes[index].state {
                    State::Ended => self.start(index),
                    State::Starting | State::Running | State::Paused => Err(format!(
                        "node {number} is there already: it is {}",
                        self.nodes[index].state.word()
                    )),
                }
            }
            Typed::Add => self.add(),
            Typed::Status => {
                self.report();
                Ok(())
            }
            Typed::Help => {
                self.screen.say(typed::HELP);
                Ok(())
            }
            Typed::Quit => unreachable!("the loop ends before"),
        }
    }

    fn index_of(&self, number: u16) -> Result<usize, String> {
        let found = self.nodes.iter().position(|node| node.number == number);
        found.ok_or_else(|| format!("there is no node {number}; the last one is {}", self.nodes.len()))
    }

    fn index_of_process(&self, number: u16) -> Result<usize, String> {
        let index = self.index_of(number)?;
        match self.nodes[index].state {
            State::Ended => Err(format!("node {number} has ended; start {number} starts it again")),
            State::Starting | State::Running | State::Paused => Ok(index),
        }
    }

    fn tell(&self, index: usize, signal: Signal) -> Result<(), String> {
        let node = &self.nodes[index];
        node.signal(signal)
            .map_err(|error| format!("node {}: {error}", node.number))
    }

    fn add(&mut self) -> Result<(), String> {
        let number = self.nodes.len() as u16 + 1;
        if number > NODES_MAX {
            return Err(format!("{NODES_MAX} nodes are the most"));
        }
        let ports = ports::choose(self.first_port, number..=number)?[0];
        self.nodes.push(Node::new(number, ports));
        let index = self.nodes.len() - 1;
        if let Err(problem) = self.start(index) {
            self.nodes.pop();
            return Err(problem);
        }
        self.screen.say(&format!(
            "node {number} is added: clients on 127.0.0.1:{}, cluster endpoint on 127.0.0.1:{}",
            ports.client, ports.cluster
        ));
        Ok(())
    }

    /// The processes, and the cluster as the first node sees it that runs.
    fn report(&mut self) {
        let mut rows = vec![["node", "process", "is"].map(str::to_owned).to_vec()];
        for node in &self.nodes {
            let id = node
                .process_id()
                .map_or_else(|| "-".to_owned(), |id| id.to_string());
            rows.push(vec![node.number.to_string(), id, node.state.word().to_owned()]);
        }
        let mut text = status::columns(&rows);
        match self.nodes.iter().find(|node| node.state == State::Running) {
            None => text.push_str("\nNo node runs that could be asked about the cluster."),
            Some(node) => {
                let cluster = admin_client::cluster(&node.admin_address());
                let report = cluster.map_or_else(|problem| problem, |view| status::report(&view, false));
                text.push_str(&format!("\n{report}"));
            }
        }
        self.screen.say(&text);
    }

    /// Ends all nodes in order; at once if that takes too long, or if it is asked for again.
    fn end_all(&mut self) {
        let is_any_left = |nodes: &mut [Node]| {
            let is_left = |node: &mut Node| node.ended().is_none() && node.state != State::Ended;
            nodes.iter_mut().any(is_left)
        };
        if is_any_left(&mut self.nodes) {
            self.screen.say("Ending the nodes");
        }
        for node in &self.nodes {
            // One that stands still hears nothing until it goes on.
            let _ = node.signal(Signal::Terminate);
            let _ = node.signal(Signal::Continue);
        }
        let started = Instant::now();
        while is_any_left(&mut self.nodes) && started.elapsed() < END_TIME_MAX {
            if let Ok(Event::Asked) = self.events.recv_timeout(TICK) {
                break;
            }
        }
        // Whatever is left is killed.
        self.nodes.clear();
        if self.is_kept {
            self.screen.say(&format!(
                "Logs and files stay in {}",
                self.directory.path().display()
            ));
        }
    }
}

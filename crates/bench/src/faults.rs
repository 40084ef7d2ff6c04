//! What happens to servers while they are measured: processes of this machine that are killed, paused and started again.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::process::Child;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::endpoint::Endpoint;
use crate::process::{self, Start};
use crate::system::{self, Signal};

/// Faults of one run.
pub const FAULTS_MAX: usize = 100;

/// The thread that waits for the next fault looks this often whether the run has ended.
const LOOK: Duration = Duration::from_millis(5);

/// What is done to a server.
#[derive(Clone, Debug, PartialEq)]
enum Action {
    Kill,
    Pause(Duration),
    /// By this command, or as it was started before.
    Start(Option<String>),
}

/// Something that happens to a server: `at=10s kill 2`, `at=5s pause 127.0.0.1:6380 for=2s`, `at=20s start 2`,
/// `at=20s start 2 by redis-server --port 6380`.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    at: Duration,
    action: Action,
    node: Node,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    /// Of the endpoints, counted from 1.
    Number(usize),
    At(SocketAddr),
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let wrong = |what: String| {
            format!(
                "`{text}`: {what}; write `at=10s kill 1`, `at=5s pause 127.0.0.1:6379 for=2s` or `at=20s start 1`"
            )
        };
        let [at, action, node, rest @ ..] = words.as_slice() else {
            return Err(wrong("a time, what is done, and to whom".to_owned()));
        };
        let at = at
            .strip_prefix("at=")
            .and_then(seconds)
            .ok_or_else(|| wrong(format!("`{at}` is no time")))?;
        let action = match (*action, rest) {
            ("kill", []) => Action::Kill,
            ("start", []) => Action::Start(None),
            ("start", ["by", command @ ..]) if !command.is_empty() => Action::Start(Some(command.join(" "))),
            ("pause", [time]) => {
                let time = time.strip_prefix("for=").and_then(seconds);
                Action::Pause(time.ok_or_else(|| wrong("`pause` needs for=SECONDSs".to_owned()))?)
            }
            ("pause", _) => return Err(wrong("`pause` needs for=SECONDSs".to_owned())),
            _ => return Err(wrong(format!("`{action}` is none of kill, pause, start"))),
        };
        let node = match (node.parse(), node.parse::<Endpoint>()) {
            // A port is above all numbers of endpoints.
            (Ok(number), _) if number <= crate::endpoint::ENDPOINTS_MAX => Node::Number(number),
            (_, Ok(endpoint)) => Node::At(endpoint.address()),
            (_, Err(problem)) => return Err(wrong(problem)),
        };
        Ok(Fault { at, action, node })
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::Number(number) => write!(f, "{number}"),
            Node::At(address) => write!(f, "{address}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = &self.node;
        match &self.action {
            Action::Kill => write!(f, "kill {node}"),
            Action::Start(_) => write!(f, "start {node}"),
            Action::Pause(time) => write!(f, "pause {node} for={}s", time.as_secs_f64()),
        }
    }
}

/// `10s`, `0.5s`, `200ms`.
fn seconds(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s')?, 1.0),
    };
    let number = number.parse::<f64>().ok().filter(|number| *number >= 0.0)?;
    Duration::try_from_secs_f64(number * unit).ok()
}

/// Something that has happened, for the time line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// When, from the beginning of what is measured.
    pub at_seconds: f64,
    /// What, as it was asked for.
    pub what: String,
    /// Why it could not be done.
    pub problem: Option<String>,
}

/// The faults of a run, with the processes that they concern.
#[derive(Debug)]
pub(crate) struct Faults {
    steps: Vec<Step>,
    /// By address. What was killed has none until it is started.
    processes: BTreeMap<SocketAddr, Known>,
}

#[derive(Debug)]
struct Known {
    process: Option<u32>,
    start: Start,
    is_paused: bool,
    /// What was started here, to be waited for when it is killed, and the mark that says so.
    child: Option<(Child, usize)>,
}

#[derive(Clone, Debug)]
struct Step {
    at: Duration,
    address: SocketAddr,
    /// `None`: a pause is over.
    action: Option<Action>,
    what: String,
}

impl Faults {
    /// Finds the processes.
    ///
    /// # Errors
    /// In words, if one is not found, or if the faults do not follow from each other.
    pub(crate) fn plan(faults: &[Fault], endpoints: &[Endpoint]) -> Result<Faults, String> {
        if faults.len() > FAULTS_MAX {
            return Err(format!("{FAULTS_MAX} faults are the most"));
        }
        let mut steps = Vec::new();
        let mut processes = BTreeMap::new();
        for fault in faults {
            let address = match &fault.node {
                Node::At(address) => *address,
                Node::Number(number) => {
                    let endpoint = number.checked_sub(1).and_then(|place| endpoints.get(place));
                    let endpoint = endpoint.ok_or_else(|| {
                        format!(
                            "--fault: there is no endpoint {number}; they are counted from 1 to {}",
                            endpoints.len()
                        )
                    })?;
                    endpoint.address()
                }
            };
            if let std::collections::btree_map::Entry::Vacant(entry) = processes.entry(address) {
                let found = process::listener(address).ok_or_else(|| {
                    format!(
                        "--fault: no process of this machine and of this user listens at {address}: faults are for servers \
                         that you have started here"
                    )
                })?;
                let start = Start::of(found)
                    .map_err(|error| format!("--fault: process {found} cannot be looked at: {error}"))?;
                entry.insert(Known {
                    process: Some(found),
                    start,
                    is_paused: false,
                    child: None,
                });
            }
            if fault.action == Action::Start(None) && processes[&address].start.is_overwritten() {
                return Err(format!(
                    "--fault: the server at {address} has written over the words by which it was started: say how to start \
                     it, as in `at=20s start 1 by redis-server --port {}`",
                    address.port()
                ));
            }
            steps.push(Step {
                at: fault.at,
                address,
                action: Some(fault.action.clone()),
                what: fault.to_string(),
            });
            if let Action::Pause(time) = fault.action {
                steps.push(Step {
                    at: fault.at + time,
                    address,
                    action: None,
                    what: format!("resume {}", fault.node),
                });
            }
        }
        steps.sort_by_key(|step| step.at);
        Ok(Faults { steps, processes })
    }

    /// Does everything in its time, and at the end lets go on what is paused.
    pub(crate) fn carry_out(mut self, from: Instant, is_over: &AtomicBool) -> Vec<Mark> {
        let mut marks: Vec<Mark> = Vec::new();
        'steps: for step in std::mem::take(&mut self.steps) {
            while from.elapsed() < step.at || Instant::now() < from {
                if is_over.load(Ordering::Relaxed) {
                    break 'steps;
                }
                // The last bit is waited for exactly.
                let left = (from + step.at).saturating_duration_since(Instant::now());
                thread::sleep(left.min(LOOK));
            }
            let at = from.elapsed();
            let problem = self.act(&step, marks.len()).err();
            marks.push(Mark {
                at_seconds: at.as_secs_f64(),
                what: step.what,
                problem,
            });
        }
        for known in self.processes.values_mut() {
            if let Some((child, mark)) = &mut known.child
                && let Ok(Some(status)) = child.try_wait()
            {
                marks[*mark].problem = Some(format!("what was started has ended ({status})"));
            }
        }
        marks
    }

    /// Does one thing; `mark` is the place that it will have among what has happened.
    fn act(&mut self, step: &Step, mark: usize) -> Result<(), String> {
        let known = self
            .processes
            .get_mut(&step.address)
            .expect("each step's process was found");
        let running = || known.process.ok_or_else(|| "it does not run".to_owned());
        match &step.action {
            Some(Action::Kill) => {
                let process = running()?;
                known.tell(process, Signal::Kill)?;
                known.process = None;
                known.is_paused = false;
                if let Some((mut child, _)) = known.child.take() {
                    // It ends at once.
                    let _ = child.wait();
                }
                Ok(())
            }
            Some(Action::Pause(_)) => {
                let process = running()?;
                known.tell(process, Signal::Stop)?;
                known.is_paused = true;
                Ok(())
            }
            None if known.is_paused => {
                let process = running()?;
                known.is_paused = false;
                known.tell(process, Signal::Continue)
            }
            // It was killed meanwhile.
            None => Ok(()),
            Some(Action::Start(command)) => {
                if known.process.is_some() {
                    return Err("it runs already: kill it first".to_owned());
                }
                let start = command
                    .as_ref()
                    .map_or_else(|| Ok(known.start.clone()), |command| Start::by(command));
                let child = start
                    .and_then(|start| start.again())
                    .map_err(|error| format!("cannot be started: {error}"))?;
                known.process = Some(child.id());
                known.child = Some((child, mark));
                Ok(())
            }
        }
    }
}

impl Known {
    fn tell(&self, process: u32, signal: Signal) -> Result<(), String> {
        system::signal(process, signal).map_err(|error| format!("process {process}: {error}"))
    }
}

impl Drop for Faults {
    /// Nobody is left standing still.
    fn drop(&mut self) {
        for known in self.processes.values() {
            if let (true, Some(process)) = (known.is_paused, known.process) {
                let _ = system::signal(process, Signal::Continue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_read_as_it_is_told() {
        for (text, at, told) in [
            ("at=10s kill 1", 10.0, "kill 1"),
            ("at=20s start 1 by redis-server --port 1", 20.0, "start 1"),
            (
                "at=0.5s pause 127.0.0.1:6379 for=1500ms",
                0.5,
                "pause 127.0.0.1:6379 for=1.5s",
            ),
            (" at=200ms  start 6380 ", 0.2, "start 127.0.0.1:6380"),
        ] {
            let fault: Fault = text.parse().expect(text);
            assert_eq!((fault.at.as_secs_f64(), fault.to_string().as_str()), (at, told));
        }
    }

    #[test]
    fn a_wrong_fault_says_what_to_write() {
        for (wrong, hint) in [
            ("", "a time"),
            ("kill 1", "a time"),
            ("at=1 kill 1", "no time"),
            ("at=-1s kill 1", "no time"),
            ("at=1s stop 1", "none of kill"),
            ("at=1s pause 1", "for="),
            ("at=1s pause 1 2s", "for="),
            ("at=1s kill nobody", "HOST:PORT"),
            ("at=1s kill 1 now", "none of kill"),
            ("at=1s start 1 by", "none of kill"),
        ] {
            let problem = wrong.parse::<Fault>().expect_err(wrong);
            assert!(
                problem.contains(hint) && problem.contains("at=10s kill 1"),
                "{problem}"
            );
        }
    }

    #[test]
    fn faults_of_nobody_are_refused_before_the_run() {
        let endpoints = Endpoint::parse_list("192.0.2.1:6379").expect("an endpoint");
        let plan = |text: &str| {
            let faults = [text.parse().expect("a fault")];
            Faults::plan(&faults, &endpoints).expect_err("there is nobody")
        };
        assert!(plan("at=1s kill 2").contains("counted from 1 to 1"));
        assert!(plan("at=1s kill 0").contains("there is no endpoint 0"));
        assert!(plan("at=1s kill 1").contains("no process of this machine"));
    }
}

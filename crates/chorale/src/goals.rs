//! `chorale admin drain`, `pause`, `resume`, `jobs` and `cancel`: what is wanted of nodes, shown as a plan, done when it is
//! confirmed, and followed to its end. `replace`, `forget`, `rebalance`, `set-rf`, `may-stop` and
//! `raise-semantics` have files of their own.
//!
//! The status says what came of it: 0 done, or shown; 2 refused; 3 blocked; 1 that it is not known.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use admin::{
    CONFIRMATION, ClusterView, DrainPlan, GoalRequest, GoalView, GoalsSet, Load, NodeView, ReplicaRole,
    blocked, known, list, rebalance_blocked, replace_blocked,
};
use backup::{RunProgress, bytes_in_words};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::admin_client::{self, ADMIN_PORT, DEFAULT_ADDRESS, full};
use crate::forget::FORGET;
use crate::may_stop::{FOR, MAY_STOP};
use crate::progress_bar::ProgressBar;
use crate::raise_semantics::RAISE_SEMANTICS;
use crate::rate::{a_second, time_in_words};
use crate::rebalance::REBALANCE;
use crate::replace::REPLACE;
use crate::resize::SET_RF;
use crate::status::columns;
use crate::{forget, http, may_stop, print, raise_semantics, rebalance, replace, resize};

pub(crate) const DRAIN: &str = "drain";
pub(crate) const PAUSE: &str = "pause";
pub(crate) const RESUME: &str = "resume";
pub(crate) const JOBS: &str = "jobs";
pub(crate) const CANCEL: &str = "cancel";

pub(crate) const NODE: &str = "node";
/// The node that is asked.
const SELF: &str = "self";
const JOB: &str = "job";
const LEAVE: &str = "leave";
pub(crate) const CONFIRM: &str = "confirm";
pub(crate) const WAIT: &str = "wait";

/// The page that is posted to.
const GOALS_PAGE: &str = "/goals";
/// A goal was refused.
const EXIT_REFUSED: u8 = 2;
/// Nothing has moved for [`BLOCKED_AFTER`], for a reason that does not mend itself.
const EXIT_BLOCKED: u8 = 3;
/// Between two looks at how far it is.
pub(crate) const LOOK: Duration = Duration::from_millis(500);
/// The same, where the node that is asked is to leave: between its last replica and its end there is little time.
const LOOK_AT_LEAVER: Duration = Duration::from_millis(100);
/// Between the two looks by which a job's end is told: whoever asks waits for the table as long.
const LOOKS_APART: Duration = Duration::from_secs(1);
/// Without a step, after which a drain that has a reason not to go on is called blocked.
pub(crate) const BLOCKED_AFTER: Duration = Duration::from_secs(15);
/// Without an answer, after which a node is not asked any more.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Without an answer, after which a node that was to leave and held nothing has ended: it hears that it may go, and ends, between two
/// looks.
const ENDED_AFTER: Duration = Duration::from_secs(3);
/// After which the node that is asked knows what the meta group has said, or does not come to know it.
pub(crate) const KNOWN_AFTER: Duration = Duration::from_secs(10);
/// Without a step, after which a node that holds nothing, and has not been told to go, is not waited for.
const TOLD_AFTER: Duration = Duration::from_secs(30);

const DRAIN_EXAMPLES: &str = "\
Examples:
  chorale admin drain 4
      What would move if node 4 were to have no replicas. Changes nothing.
  chorale admin drain 4 --confirm --wait
      Does it, and waits until nothing is left there. The node stays a member, and serves clients.
  chorale admin drain 4 5 --leave --confirm --wait
      Empties two nodes together; then they are no members any more, and their processes end, with status 0.
  chorale admin drain 4 --cancel
      Node 4 may have replicas after all. What has moved stays where it is until it is evened out.

It can be ended at any time, and given again: what is wanted is kept by the cluster. The status is 0 if it is done or shown, 2 if it
is refused, 3 if nothing moves and somebody has to do something about it. It is taken from the machine of the node that is asked, and from
others with --cluster-secret-file.";

/// Which node is asked.
pub(crate) fn admin_port() -> Arg {
    Arg::new(ADMIN_PORT)
        .long(ADMIN_PORT)
        .value_name("HOST:PORT")
        .default_value(DEFAULT_ADDRESS)
        .help("Admin port of the node that is asked; a port alone is one of this machine")
}

pub(crate) fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// The command lines.
pub(crate) fn commands() -> [Command; 11] {
    let nodes = Arg::new(NODE).value_name("NODE").required(true);
    [
        Command::new(DRAIN)
            .about("Empty nodes: say what would move, and do it if confirmed")
            .arg(
                nodes
                    .num_args(1..)
                    .help("Numbers or names of nodes, as chorale admin status shows them; self is the node that is asked"),
            )
            .arg(flag(
                LEAVE,
                "They are no members any more when they hold nothing, and their processes end",
            ))
            .arg(
                flag(
                    CANCEL,
                    "They may have replicas after all; no confirmation is needed",
                )
                .conflicts_with_all([LEAVE, WAIT]),
            )
            .arg(flag(CONFIRM, "Do it"))
            .arg(flag(WAIT, "Wait until it is done, and show how far it is"))
            .arg(admin_port())
            .after_help(DRAIN_EXAMPLES),
        replace::command(),
        forget::command(),
        rebalance::command(),
        resize::command(),
        may_stop::command(),
        raise_semantics::command(),
        Command::new(PAUSE)
            .about("Have nothing move but what repairs")
            .arg(
                Arg::new(FOR)
                    .long(FOR)
                    .value_name("TIME")
                    .value_parser(time)
                    .help("For so long, as 90s, 30m or 1h; without it, until chorale admin resume"),
            )
            .arg(admin_port()),
        Command::new(RESUME).about("End a pause").arg(admin_port()),
        Command::new(JOBS)
            .about("Show what moves because somebody wanted it, how far it is, and what blocks it")
            .arg(admin_port()),
        Command::new(CANCEL)
            .about("Take back what somebody wanted")
            .arg(
                Arg::new(JOB)
                    .value_name("JOB")
                    .required(true)
                    .value_parser(job)
                    .help("Its name, as chorale admin jobs shows it: drain-4, may-stop-2"),
            )
            .arg(admin_port()),
    ]
}

/// Seconds, from a number with a unit.
pub(crate) fn time(text: &str) -> Result<u64, String> {
    let split = text
        .trim_end_matches(|letter: char| letter.is_ascii_alphabetic())
        .len();
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return Err("a time is a number with s, m or h behind it".to_owned()),
    };
    let seconds = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor));
    seconds
        .filter(|seconds| *seconds > 0)
        .ok_or_else(|| "a time is a number above 0, with s, m or h behind it".to_owned())
}

/// What was wanted of a node, and can be taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Job {
    Drain(u64),
    MayStop(u64),
}

/// From its name.
fn job(text: &str) -> Result<Job, String> {
    if text == REBALANCE {
        return Err("what is placed anew is not taken back: chorale admin pause holds it up".to_owned());
    }
    if text == SET_RF {
        return Err(
            "what groups are to have is not taken back: set the number from before, or chorale admin pause holds it up"
                .to_owned(),
        );
    }
    if text.starts_with(REPLACE) {
        return Err("a node that is replaced is not waited for any more, and that is not taken back: should it come back, it begins anew"
            .to_owned());
    }
    let (what, node) = text.rsplit_once('-').unwrap_or_default();
    match (what, node.parse()) {
        (DRAIN, Ok(node)) => Ok(Job::Drain(node)),
        (MAY_STOP, Ok(node)) => Ok(Job::MayStop(node)),
        _ => Err("no job is called so; chorale admin jobs lists them".to_owned()),
    }
}

/// Why a command ends before it has done what it was to do.
pub(crate) enum Failure {
    Unknown(String),
    Refused(String),
    Blocked(String),
}

impl Failure {
    /// Nothing moves, for these reasons; none if there are none.
    pub(crate) fn blocked(reasons: &[String]) -> Option<Failure> {
        let reason = || {
            let reasons = reasons.join("; ");
            format!("{reasons}. What is wanted stays wanted, and goes on when that is mended")
        };
        (!reasons.is_empty()).then(|| Failure::Blocked(reason()))
    }
}

impl From<String> for Failure {
    fn from(reason: String) -> Failure {
        Failure::Unknown(reason)
    }
}

/// Does what the command line says, if it is one of these.
pub(crate) fn main(name: &str, matches: &ArgMatches) -> ExitCode {
    let address = full(matches.get_one::<String>(ADMIN_PORT).expect("it has a default"));
    let done = match name {
        DRAIN => drain(&address, matches),
        REPLACE => replace::replace(&address, matches),
        FORGET => forget::forget(&address, matches),
        REBALANCE => rebalance::rebalance(&address, matches),
        SET_RF => resize::resize(&address, matches),
        MAY_STOP => may_stop::may_stop(&address, matches),
        RAISE_SEMANTICS => raise_semantics::raise_semantics(&address, matches),
        PAUSE => pause(&address, matches.get_one(FOR).copied()),
        RESUME => set(&address, &GoalRequest::Resume {}).map(|_| "What is to move moves again.\n".to_owned()),
        JOBS => jobs_now(&address),
        CANCEL => match *matches.get_one(JOB).expect("it is required") {
            Job::Drain(node) => cancel(&address, &[node]),
            Job::MayStop(node) => set(&address, &GoalRequest::EndPermit { node })
                .map(|_| format!("Node {node} may not stop any more.\n")),
        },
        _ => unreachable!("there are no others"),
    };
    let (reason, status) = match done {
        Ok(text) => return print(&text),
        Err(Failure::Unknown(reason)) => (reason, 1),
        Err(Failure::Refused(reason)) => (format!("refused: {reason}. Nothing was done"), EXIT_REFUSED),
        Err(Failure::Blocked(reason)) => (format!("blocked: {reason}"), EXIT_BLOCKED),
    };
    eprintln!("chorale: {reason}");
    ExitCode::from(status)
}

/// The number of a node that is called by it, by its name, or as the one that is asked.
pub(crate) fn node_of(view: &ClusterView, called: &str) -> Result<u64, Failure> {
    if called == SELF {
        return Ok(view.answered_by);
    }
    let mut all = view.nodes.iter();
    let named = all.find(|node| !node.name.is_empty() && node.name == called);
    match (named.map(|node| node.id), called.parse().ok()) {
        // What is called by both may be what must not be emptied.
        (Some(named), Some(number)) if named != number && view.nodes.iter().any(|node| node.id == number) => {
            Err(Failure::Refused(format!(
                "{called} is the number of one node, and the name of node {named}: call the latter by its number"
            )))
        }
        (Some(node), _) | (None, Some(node)) => Ok(node),
        (None, None) => Err(Failure::Refused(format!(
            "no node is called {called}: chorale admin status shows their numbers and names"
        ))),
    }
}

fn drain(address: &str, matches: &ArgMatches) -> Result<String, Failure> {
    let view = admin_client::cluster(address)?;
    let called = matches.get_many::<String>(NODE).into_iter().flatten();
    let nodes: Vec<u64> = called
        .map(|called| node_of(&view, called))
        .collect::<Result<_, _>>()?;
    if matches.get_flag(CANCEL) {
        return cancel(address, &nodes);
    }
    let plan = DrainPlan::of(&view, &nodes, matches.get_flag(LEAVE)).map_err(Failure::Refused)?;
    let mut text = in_words(&plan);
    if !matches.get_flag(CONFIRM) {
        text.push_str("Nothing was done. --confirm does it.\n");
        return Ok(text);
    }
    let request = GoalRequest::Drain {
        nodes: plan.nodes.iter().copied().collect(),
        leave: plan.leave,
    };
    set(address, &request)?;
    if !matches.get_flag(WAIT) {
        text.push_str("It is under way: chorale admin jobs shows how far it is.\n");
        return Ok(text);
    }
    print(&text);
    let bar = ProgressBar::new();
    let done = follow(address, &plan, &bar);
    bar.finish();
    done
}

fn in_words(plan: &DrainPlan) -> String {
    let names = list(plan.nodes.iter());
    let Load {
        replicas,
        bytes,
        is_guess,
        led,
        meta,
        kept: _,
        unheard: _,
    } = plan.load;
    let mut text = String::new();
    let about = if is_guess { "about " } else { "" };
    let _ = writeln!(
        text,
        "Node {names}: {replicas} replicas of groups with {about}{} move to node {}. Of {led} groups others lead first.",
        bytes_in_words(bytes),
        list(plan.to.iter())
    );
    if meta > 0 {
        let _ = writeln!(text, "{meta} of the voters of the meta group move too.");
    }
    if let Some(bearable) = plan.bearable {
        let _ = writeln!(
            text,
            "Meanwhile each group that moves bears the loss of {bearable} {} more, as it does now.",
            if bearable == 1 { "node" } else { "nodes" }
        );
    }
    if !plan.retained.is_empty() {
        let _ = writeln!(
            text,
            "Node {} was to leave: that is taken back, and it stays a member. With --leave it leaves as was said.",
            list(plan.retained.iter())
        );
    }
    if plan.leave {
        let _ = writeln!(
            text,
            "Then node {names} is no member of the cluster any more; its process ends, and does not start again from its directory."
        );
    }
    for reason in &plan.blocked {
        let _ = writeln!(text, "It will not go on as things are: {reason}.");
    }
    text
}

/// Waits for the end, and shows how far it is.
fn follow(address: &str, plan: &DrainPlan, bar: &ProgressBar) -> Result<String, Failure> {
    let what = format!("node {}: given up", list(plan.nodes.iter()));
    let all = plan.load.bytes.max(1);
    let mut watch = Watch::new(plan, Instant::now());
    loop {
        let end = match admin_client::cluster(address) {
            Ok(view) => {
                let load = Load::of(&view, &plan.nodes);
                bar.at(&what, all.saturating_sub(load.bytes), all);
                watch.on_view(&view, &load, Instant::now())
            }
            Err(reason) => watch.on_silence(reason, Instant::now()),
        };
        if let Some(end) = end {
            return end;
        }
        thread::sleep(match watch.is_asked_leaving {
            true => LOOK_AT_LEAVER,
            false => LOOK,
        });
    }
}

/// A drain that is waited for, as one node shows it again and again.
struct Watch<'a> {
    plan: &'a DrainPlan,
    begun: Instant,
    /// When the node answered last, and when something had moved.
    heard: Instant,
    moved: Instant,
    /// The node that is asked may hear of it a moment later than the meta group has said so.
    was_wanted: bool,
    progress: Option<Progress>,
    is_asked_leaving: bool,
    /// If the last answer came from a node that itself is to leave and holds nothing.
    ending: Option<Ending>,
}

/// The node that is asked leaves itself: that it does not answer any more is its end.
struct Ending {
    node: u64,
    /// How long it does not answer then.
    silence: Duration,
    /// Those that were to leave with it, and were not told yet that they may go.
    others: Vec<u64>,
}

impl Watch<'_> {
    fn new(plan: &DrainPlan, now: Instant) -> Watch<'_> {
        Watch {
            plan,
            begun: now,
            heard: now,
            moved: now,
            was_wanted: false,
            progress: None,
            is_asked_leaving: false,
            ending: None,
        }
    }

    /// What came of it, if this says so.
    fn on_view(&mut self, view: &ClusterView, load: &Load, now: Instant) -> Option<Result<String, Failure>> {
        self.heard = now;
        let names = list(self.plan.nodes.iter());
        let is_planned = |node: &&NodeView| self.plan.nodes.contains(&node.id);
        let there: Vec<&NodeView> = view.nodes.iter().filter(is_planned).collect();
        let is_meant = |node: &&NodeView| match node.goal {
            GoalView::Stays => false,
            GoalView::Drains => !self.plan.leave,
            GoalView::Leaves | GoalView::Left => true,
        };
        if !there.iter().all(is_meant) {
            let reason = match self.was_wanted {
                true => format!("the drain of node {names} was taken back or changed by somebody"),
                false => format!(
                    "the drain of node {names} was cancelled, or is not known yet to node {}: look at chorale admin jobs",
                    view.answered_by
                ),
            };
            let is_over = self.was_wanted || now.duration_since(self.begun) > KNOWN_AFTER;
            return is_over.then_some(Err(Failure::Unknown(reason)));
        }
        self.was_wanted = true;
        if there.is_empty() {
            return Some(Ok(format!("Node {names} has left.\n")));
        }
        if load.is_nothing() && !self.plan.leave {
            return Some(Ok(format!("Node {names} has no replicas any more.\n")));
        }
        let leaves = |node: &&NodeView| node.id == view.answered_by && node.goal != GoalView::Drains;
        self.is_asked_leaving = there.iter().any(leaves);
        self.ending = ending(view, &there);
        let next = Progress::of(view, load, &there);
        if Progress::follow(&mut self.progress, next) {
            self.moved = now;
        }
        let quiet = now.duration_since(self.moved);
        let reasons = match quiet > BLOCKED_AFTER {
            true => blocked(view, &self.plan.nodes),
            false => Vec::new(),
        };
        if let Some(blocked) = Failure::blocked(&reasons) {
            return Some(Err(blocked));
        }
        let is_untold = there.iter().any(|node| node.goal == GoalView::Leaves);
        (quiet > TOLD_AFTER && load.is_nothing() && is_untold).then(|| {
            Err(Failure::Unknown(format!(
                "node {names} holds nothing that node {} knows of, and is not told that it may go: look at chorale admin jobs of node {}",
                view.answered_by,
                list(view.meta_nodes.iter())
            )))
        })
    }

    /// The same, if it does not answer.
    fn on_silence(&self, reason: String, now: Instant) -> Option<Result<String, Failure>> {
        let silence = now.duration_since(self.heard);
        match &self.ending {
            Some(ending) if silence >= ending.silence => Some(match ending.others.is_empty() {
                true => Ok(format!("Node {} has left.\n", list(self.plan.nodes.iter()))),
                false => Err(Failure::Unknown(format!(
                    "node {} has left; ask another node about node {}",
                    ending.node,
                    list(ending.others.iter())
                ))),
            }),
            Some(_) | None if silence <= SILENCE_MAX => None,
            Some(_) | None if self.is_asked_leaving => Some(Err(Failure::Unknown(format!(
                "{reason}; ask another node whether node {} has left (chorale admin status)",
                list(self.plan.nodes.iter())
            )))),
            Some(_) | None => Some(Err(Failure::Unknown(reason))),
        }
    }
}

/// If the node that answers is one of these and only waits to be told that it may go, or was told.
fn ending(view: &ClusterView, there: &[&NodeView]) -> Option<Ending> {
    let asked = there.iter().find(|node| node.id == view.answered_by)?;
    let silence = match asked.goal {
        GoalView::Left => Duration::ZERO,
        GoalView::Leaves if Load::of(view, &[asked.id].into()).is_nothing() => ENDED_AFTER,
        GoalView::Leaves | GoalView::Stays | GoalView::Drains => return None,
    };
    let others = there
        .iter()
        .filter(|node| node.id != asked.id && node.goal != GoalView::Left);
    Some(Ending {
        node: asked.id,
        silence,
        others: others.map(|node| node.id).collect(),
    })
}

/// How far it is. What clients write moves bytes and lags up and down, so that only less than ever counts.
pub(crate) struct Progress {
    /// The replicas of the groups that have one on these nodes: group, incarnation and role.
    roles: Vec<(u16, u64, ReplicaRole)>,
    /// What is there, and who: replicas of all kinds, groups led, nodes, and nodes that were not told to go.
    left: u64,
    bytes: u64,
    /// Entries that learners lack.
    lag: u64,
}

impl Progress {
    pub(crate) fn of(view: &ClusterView, load: &Load, there: &[&NodeView]) -> Progress {
        let is_there = |node: u64| there.iter().any(|known| known.id == node);
        let involved = view
            .groups
            .iter()
            .filter(|group| group.replicas.iter().any(|replica| is_there(replica.node)));
        let replicas: Vec<_> = involved
            .flat_map(|group| group.replicas.iter().map(|replica| (group.number, replica)))
            .collect();
        let learners = replicas
            .iter()
            .filter(|(_, replica)| replica.role == ReplicaRole::Learner);
        let untold = there.iter().filter(|node| node.goal != GoalView::Left).count();
        let held = load.replicas + load.meta + load.led + load.kept + load.unheard;
        Progress {
            left: held + (there.len() + untold) as u64,
            bytes: load.bytes,
            lag: learners.filter_map(|(_, replica)| replica.lag).sum(),
            roles: replicas
                .iter()
                .map(|&(number, replica)| (number, replica.incarnation, replica.role))
                .collect(),
        }
    }

    /// Whether that is the first that was seen, or a step from what was.
    pub(crate) fn follow(known: &mut Option<Progress>, next: Progress) -> bool {
        match known {
            Some(progress) => progress.advance(next),
            None => {
                *known = Some(next);
                true
            }
        }
    }

    /// Whether that is a step from here. What is less than ever is kept.
    fn advance(&mut self, next: Progress) -> bool {
        if self.roles != next.roles {
            *self = next;
            return true;
        }
        let is_step = next.left < self.left || next.bytes < self.bytes || next.lag < self.lag;
        self.left = self.left.min(next.left);
        self.bytes = self.bytes.min(next.bytes);
        self.lag = self.lag.min(next.lag);
        is_step
    }
}

fn cancel(address: &str, nodes: &[u64]) -> Result<String, Failure> {
    let view = admin_client::cluster(address)?;
    let nodes = known(&view, nodes).map_err(Failure::Refused)?;
    let names = list(nodes.iter());
    set(
        address,
        &GoalRequest::Stay {
            nodes: nodes.into_iter().collect(),
        },
    )?;
    Ok(format!(
        "Node {names} may have replicas. Voters stay where they are until they are evened out; learners that were being filled go.\n"
    ))
}

fn pause(address: &str, seconds: Option<u64>) -> Result<String, Failure> {
    set(address, &GoalRequest::Pause { seconds })?;
    let how_long = match seconds {
        Some(seconds) => format!("for {seconds} s"),
        None => "until chorale admin resume".to_owned(),
    };
    Ok(format!("Nothing moves but what repairs, {how_long}.\n"))
}

/// What somebody wanted, how far it is, and when it ends, by two looks.
fn jobs_now(address: &str) -> Result<String, Failure> {
    let (before, looked) = (admin_client::cluster(address)?, Instant::now());
    if job_rows(&before).iter().all(|job| job.is_over()) {
        return Ok(jobs(&before, None));
    }
    thread::sleep(LOOKS_APART);
    // The one that is asked may leave meanwhile.
    Ok(match admin_client::cluster(address) {
        Ok(view) => jobs(&view, Some((&before, looked.elapsed()))),
        Err(_) => jobs(&before, None),
    })
}

/// What somebody wanted, as a line of the table.
struct JobRow {
    name: String,
    goal: String,
    /// Where that is decided, here and below.
    replicas: Option<u64>,
    bytes: Option<u64>,
    leads: Option<u64>,
    /// What moves, and is left: bytes, or partitions where they move alone.
    left: Option<u64>,
    blocked: Vec<String>,
}

impl JobRow {
    /// Whether nothing is to move any more, or that is not what it is about. Replicas of which no bytes are known are to move, too.
    fn is_over(&self) -> bool {
        let has_replicas = self.replicas.is_some_and(|replicas| replicas > 0);
        self.left.is_none_or(|left| left == 0 && !has_replicas)
    }

    /// When it is done if it goes on as it went since that look, so long ago.
    fn ends_in(&self, before: &[JobRow], time: Duration) -> Option<String> {
        let before = before.iter().find(|job| job.name == self.name)?.left?;
        let left = self.left?;
        let rate = a_second(before.saturating_sub(left), time)?;
        Some(time_in_words(left as f64 / rate))
    }
}

/// What somebody wanted, how far it is, and when it ends if it goes on as since an earlier look.
fn jobs(view: &ClusterView, before: Option<(&ClusterView, Duration)>) -> String {
    let mut text = String::new();
    if let Some(pause) = view.pause {
        let how_long = match pause.seconds {
            Some(seconds) => format!("for {seconds} s from when that was said"),
            None => "until chorale admin resume".to_owned(),
        };
        let _ = writeln!(text, "Nothing moves but what repairs, {how_long}.");
    }
    let found = job_rows(view);
    if found.is_empty() {
        text.push_str("Nobody wants anything of a node.\n");
        return text;
    }
    let before = before.map(|(before, time)| (job_rows(before), time));
    let head = ["job", "goal", "replicas", "data", "leads", "ends in", "blocked"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let shown = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    for job in found {
        let ends_in = match (job.is_over(), &before) {
            (true, _) => Some("-".to_owned()),
            (false, Some((before, time))) => job.ends_in(before, *time),
            (false, None) => None,
        };
        rows.push(vec![
            job.name,
            job.goal,
            shown(job.replicas),
            job.bytes.map_or_else(|| "-".to_owned(), bytes_in_words),
            shown(job.leads),
            ends_in.unwrap_or_else(|| "not known yet".to_owned()),
            joined(&job.blocked),
        ]);
    }
    text.push_str(&columns(&rows));
    text
}

fn job_rows(view: &ClusterView) -> Vec<JobRow> {
    let mut rows = Vec::new();
    let mut moves = |name: &str, goal: String, left: Option<u64>| {
        let bytes = left.map(|_| rebalance::bytes_left(view, left));
        rows.push(JobRow {
            name: name.to_owned(),
            goal,
            replicas: left,
            bytes,
            leads: None,
            left: bytes,
            blocked: rebalance_blocked(view),
        });
    };
    if let Some(moving) = view.rebalance {
        moves(REBALANCE, "place anew".to_owned(), moving.left);
    }
    if let Some(resize) = view.resize {
        moves(SET_RF, format!("{} replicas", resize.wanted), resize.left);
    }
    if view.partitions_left > 0 {
        rows.push(JobRow {
            name: "growth".to_owned(),
            goal: format!("move {} partitions", view.partitions_left),
            replicas: None,
            bytes: None,
            leads: None,
            left: Some(view.partitions_left as u64),
            blocked: rebalance_blocked(view),
        });
    }
    for permit in &view.permits {
        let node = view.nodes.iter().find(|node| node.id == permit.node);
        let goal = match node {
            Some(node) if node.boot != permit.boot => "comes back".to_owned(),
            Some(node) if !node.is_up => "is down".to_owned(),
            _ => format!("within {} s", permit.seconds),
        };
        rows.push(JobRow {
            name: format!("{MAY_STOP}-{}", permit.node),
            goal,
            replicas: None,
            bytes: None,
            leads: Some(Load::of(view, &[permit.node].into()).led),
            left: None,
            blocked: Vec::new(),
        });
    }
    rows.extend(view.nodes.iter().filter_map(|node| of_node(view, node)));
    rows
}

/// What is wanted of a node, if anything is.
fn of_node(view: &ClusterView, node: &NodeView) -> Option<JobRow> {
    let its: BTreeSet<u64> = [node.id].into();
    let load = Load::of(view, &its);
    let (what, goal) = match node.goal {
        // When others have what it had it is a node that is down, and nothing else.
        GoalView::Stays if node.is_replaced && !replace::is_done(&load) => (REPLACE, "replace"),
        GoalView::Stays => return None,
        GoalView::Drains if load.is_nothing() => (DRAIN, "drained"),
        GoalView::Drains => (DRAIN, "drain"),
        GoalView::Leaves => (DRAIN, "leave"),
        GoalView::Left => (DRAIN, "has left"),
    };
    let blocked = match what {
        REPLACE => replace_blocked(view, &its),
        _ if node.goal == GoalView::Drains && load.is_nothing() => Vec::new(),
        _ => blocked(view, &its),
    };
    Some(JobRow {
        name: format!("{what}-{}", node.id),
        goal: goal.to_owned(),
        replicas: Some(load.replicas + load.meta + load.kept),
        bytes: Some(load.bytes),
        leads: Some(load.led),
        left: Some(load.bytes),
        blocked,
    })
}

fn joined(reasons: &[String]) -> String {
    match reasons.is_empty() {
        true => "-".to_owned(),
        false => reasons.join("; "),
    }
}

/// Has a node do it.
pub(crate) fn set(address: &str, request: &GoalRequest) -> Result<GoalsSet, Failure> {
    let answer = http::post(address, GOALS_PAGE, (CONFIRMATION, "goals"), &request.to_json());
    let answer = answer.map_err(|error| {
        Failure::Unknown(format!(
            "no answer from {address} ({error}): look at chorale admin jobs before you try again"
        ))
    })?;
    match answer.status {
        200 => Ok(GoalsSet::from_json(&answer.body)),
        404 | 405 => Err(Failure::Unknown(format!(
            "{address} knows nothing of this: it is of an older version of Chorale"
        ))),
        403 | 409 => Err(Failure::Refused(answer.body.trim_end().to_owned())),
        504 => Err(Failure::Unknown(answer.body.trim_end().to_owned())),
        _ => Err(Failure::Unknown(format!(
            "{address} answers: {}",
            answer.body.trim_end()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::{PauseView, PermitView, RebalanceView, ReplicaRole, ReplicaStatus, ResizeView};

    #[test]
    fn times_and_names_of_jobs_are_understood() {
        assert_eq!(
            (time("90s"), time("30m"), time("1h"), time("5")),
            (Ok(90), Ok(1_800), Ok(3_600), Ok(5))
        );
        for text in ["", "s", "0s", "1d", "-1s", "99999999999999999999h"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert_eq!(job("drain-4"), Ok(Job::Drain(4)));
        assert_eq!(job("may-stop-4"), Ok(Job::MayStop(4)));
        assert!(job("drain-").is_err() && job("4").is_err());
    }

    #[test]
    fn a_node_is_called_by_its_number_or_its_name() {
        let node = |id, name: &str| NodeView {
            id,
            name: name.to_owned(),
            ..NodeView::default()
        };
        let view = ClusterView {
            answered_by: 7,
            nodes: vec![node(4, "cache-4"), node(5, ""), node(6, "4"), node(7, "")],
            ..ClusterView::default()
        };
        let found = |called| node_of(&view, called).ok();
        assert_eq!(
            (found("cache-4"), found("5"), found("self")),
            (Some(4), Some(5), Some(7))
        );
        assert_eq!(found("4"), None, "it may be one or the other");
        assert_eq!(found("6"), Some(6));
        assert_eq!((found("cache"), found("")), (None, None));
    }

    #[test]
    fn jobs_are_listed_with_what_is_left_and_what_blocks() {
        let node = |id, goal| NodeView {
            id,
            is_up: true,
            goal,
            ..NodeView::default()
        };
        let replica = |node| ReplicaStatus {
            node,
            incarnation: node,
            role: ReplicaRole::Voter,
            lag: None,
        };
        let mut view = ClusterView {
            replication_factor: 1,
            nodes: vec![node(1, GoalView::Stays), node(2, GoalView::Drains)],
            groups: vec![admin::GroupView {
                leader: Some(2),
                bytes: Some(2_000),
                replicas: vec![replica(2)],
                ..admin::GroupView::default()
            }],
            ..ClusterView::default()
        };
        assert_eq!(
            jobs(&view, None),
            "  job      goal   replicas  data    leads  ends in        blocked\n  drain-2  drain  1         2.0 kB  1      not known yet  -\n"
        );
        view.pause = Some(PauseView { seconds: Some(60) });
        let said = jobs(&view, None);
        assert!(
            said.starts_with("Nothing moves but what repairs, for 60 s"),
            "{said}"
        );
        assert!(said.contains("all is paused"), "{said}");
        view.nodes.pop();
        assert!(jobs(&view, None).ends_with("Nobody wants anything of a node.\n"));

        view.pause = None;
        view.rebalance = Some(RebalanceView { left: Some(3) });
        view.groups[0].replicas[0].node = 1;
        view.groups[0].leader = Some(1);
        let said = jobs(&view, None);
        assert!(
            said.ends_with("  rebalance  place anew  3         6.0 kB  -      not known yet  -\n"),
            "{said}"
        );
        view.rebalance = Some(RebalanceView { left: None });
        let said = jobs(&view, None);
        assert!(
            said.ends_with("place anew  -         -     -      -        -\n"),
            "{said}"
        );
        assert!(job(REBALANCE).is_err_and(|why| why.contains("pause holds it up")));
        view.rebalance = None;
        view.resize = Some(ResizeView {
            wanted: 5,
            left: Some(2),
        });
        let said = jobs(&view, None);
        assert!(
            said.ends_with("  set-rf  5 replicas  2         4.0 kB  -      not known yet  -\n"),
            "{said}"
        );
        view.resize = None;
        view.permits = vec![PermitView {
            node: 1,
            boot: 0,
            seconds: 300,
        }];
        let said = jobs(&view, None);
        assert!(
            said.contains("  may-stop-1  within 300 s  -         -     1      -        -\n"),
            "{said}"
        );
        view.nodes[0].boot = 7;
        assert!(jobs(&view, None).contains("may-stop-1  comes back"));
        assert!(job(SET_RF).is_err_and(|why| why.contains("the number from before")));
    }

    #[test]
    fn jobs_end_when_what_is_left_is_done_as_fast_as_since_the_look_before() {
        let mut view = leaving();
        view.groups[0].replicas.push(ReplicaStatus {
            node: 3,
            incarnation: 3,
            role: ReplicaRole::Voter,
            lag: None,
        });
        view.nodes[2].is_replaced = true;
        let mut before = view.clone();
        before.groups[0].bytes = Some(5_000);
        before.partitions_left = 9;
        view.partitions_left = 3;
        let said = jobs(&view, Some((&before, 2 * SECOND)));
        // 3,000 bytes in two seconds, and 2,000 are left; six partitions, and three.
        assert_eq!(
            said,
            "  job        goal               replicas  data    leads  ends in  blocked\n  \
               growth     move 3 partitions  -         -       -      1 s      -\n  \
               drain-2    leave              1         2.0 kB  1      1 s      -\n  \
               replace-3  replace            1         2.0 kB  0      1 s      -\n"
        );
        let said = jobs(&view, Some((&view, SECOND)));
        assert!(said.matches("not known yet").count() == 3, "{said}");
        assert!(job("replace-3").is_err_and(|why| why.contains("not taken back")));
        view.groups[0].bytes = Some(0);
        let said = jobs(&view, Some((&view, SECOND)));
        assert!(
            said.contains("replace-3  replace            1         0 bytes  0      not known yet"),
            "{said}"
        );
        // Others have what it had.
        view.groups[0].replicas.pop();
        assert!(!jobs(&view, None).contains("replace-3"));
    }

    /// Three nodes, and one group on the second, which is to leave. The first answers.
    fn leaving() -> ClusterView {
        let node = |id, goal| NodeView {
            id,
            is_up: true,
            goal,
            ..NodeView::default()
        };
        ClusterView {
            cluster: "c".to_owned(),
            answered_by: 1,
            replication_factor: 1,
            nodes: vec![
                node(1, GoalView::Stays),
                node(2, GoalView::Leaves),
                node(3, GoalView::Stays),
            ],
            groups: vec![admin::GroupView {
                leader: Some(2),
                voters: 1,
                bytes: Some(2_000),
                replicas: vec![ReplicaStatus {
                    node: 2,
                    incarnation: 2,
                    role: ReplicaRole::Voter,
                    lag: None,
                }],
                ..admin::GroupView::default()
            }],
            ..ClusterView::default()
        }
    }

    /// What a look says, in words that begin with the status.
    fn words(end: Option<Result<String, Failure>>) -> String {
        match end {
            None => "waits".to_owned(),
            Some(Ok(text)) => format!("0 {text}"),
            Some(Err(Failure::Unknown(reason))) => format!("1 {reason}"),
            Some(Err(Failure::Refused(reason))) => format!("2 {reason}"),
            Some(Err(Failure::Blocked(reason))) => format!("3 {reason}"),
        }
    }

    fn look(watch: &mut Watch<'_>, view: &ClusterView, now: Instant) -> String {
        let load = Load::of(view, &watch.plan.nodes);
        words(watch.on_view(view, &load, now))
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_silence_of_a_node_that_only_waits_to_go_is_its_end_but_not_that_of_the_others() {
        let begun = Instant::now();
        let silent = |view: &ClusterView, nodes: &[u64], after: Duration| {
            let plan = DrainPlan::of(view, nodes, true).expect("it is wanted already");
            let mut watch = Watch::new(&plan, begun);
            assert_eq!(look(&mut watch, view, begun), "waits");
            words(watch.on_silence("refused".to_owned(), begun + after))
        };
        let mut view = leaving();
        view.answered_by = 2;
        // It has something: that it is silent says nothing.
        assert_eq!(silent(&view, &[2], 29 * SECOND), "waits");
        assert!(silent(&view, &[2], 31 * SECOND).starts_with("1 refused; ask another node"));
        view.groups[0].replicas[0].node = 3;
        view.groups[0].leader = Some(3);
        assert_eq!(silent(&view, &[2], SECOND), "waits");
        assert_eq!(silent(&view, &[2], 4 * SECOND), "0 Node 2 has left.\n");
        view.nodes[1].goal = GoalView::Left;
        assert_eq!(silent(&view, &[2], SECOND), "0 Node 2 has left.\n");

        // Another one leaves with it, and still has the group.
        view.nodes[2].goal = GoalView::Leaves;
        assert_eq!(
            silent(&view, &[2, 3], SECOND),
            "1 node 2 has left; ask another node about node 3"
        );
        view.nodes[2].goal = GoalView::Left;
        assert_eq!(silent(&view, &[2, 3], SECOND), "0 Node 2 3 has left.\n");
        view.nodes.pop();
        assert_eq!(silent(&view, &[2], SECOND), "0 Node 2 has left.\n");
    }

    #[test]
    fn a_drain_that_waits_in_vain_ends_and_says_why() {
        let (view, begun) = (leaving(), Instant::now());
        let plan = DrainPlan::of(&view, &[2], true).expect("it is wanted already");
        let after = |change: fn(&mut ClusterView), after: Duration| {
            let mut watch = Watch::new(&plan, begun);
            let mut view = view.clone();
            change(&mut view);
            assert_eq!(look(&mut watch, &view, begun), "waits");
            look(&mut watch, &view, begun + after)
        };
        fn emptied(view: &mut ClusterView) {
            view.groups[0].replicas[0].node = 3;
            view.groups[0].leader = Some(3);
        }
        assert_eq!(after(emptied, 29 * SECOND), "waits");
        assert!(after(emptied, 31 * SECOND).contains("is not told that it may go"));
        let paused = |view: &mut ClusterView| {
            emptied(view);
            view.pause = Some(PauseView::default());
        };
        assert_eq!(after(paused, 14 * SECOND), "waits");
        assert!(after(paused, 16 * SECOND).starts_with("3 all is paused"));
        let former = |view: &mut ClusterView| {
            emptied(view);
            view.groups[0].former = vec![2];
        };
        assert!(after(former, 16 * SECOND).contains("groups 0 are not whole"));
        // It was cancelled before it was seen, or after.
        let cancelled = |view: &mut ClusterView| view.nodes[1].goal = GoalView::Stays;
        assert_eq!(after(cancelled, 9 * SECOND), "waits");
        assert!(after(cancelled, 11 * SECOND).starts_with("1 the drain of node 2 was cancelled, or"));
        let mut watch = Watch::new(&plan, begun);
        assert_eq!(look(&mut watch, &view, begun), "waits");
        let mut view = view.clone();
        view.nodes[1].goal = GoalView::Drains;
        assert!(look(&mut watch, &view, begun).contains("was taken back or changed"));
    }

    #[test]
    fn a_drain_is_not_blocked_while_bytes_or_roles_change() {
        let (mut view, begun) = (leaving(), Instant::now());
        view.pause = Some(PauseView::default());
        let plan = DrainPlan::of(&view, &[2], true).expect("it is wanted already");
        let mut watch = Watch::new(&plan, begun);
        assert_eq!(look(&mut watch, &view, begun), "waits");
        view.groups[0].replicas.push(ReplicaStatus {
            node: 3,
            incarnation: 3,
            role: ReplicaRole::Learner,
            lag: Some(9),
        });
        assert_eq!(look(&mut watch, &view, begun + 14 * SECOND), "waits");
        view.groups[0].replicas[1].lag = Some(5);
        assert_eq!(look(&mut watch, &view, begun + 28 * SECOND), "waits");
        view.groups[0].bytes = Some(1_000);
        assert_eq!(look(&mut watch, &view, begun + 42 * SECOND), "waits");
        // What clients write is no step, nor what they take away of that.
        view.groups[0].bytes = Some(3_000);
        assert_eq!(look(&mut watch, &view, begun + 50 * SECOND), "waits");
        view.groups[0].bytes = Some(2_000);
        assert!(look(&mut watch, &view, begun + 58 * SECOND).starts_with("3 all is paused"));
    }

    #[test]
    fn a_plan_says_nothing_of_losses_where_nothing_moves_and_that_a_node_is_retained() {
        let mut view = leaving();
        let said = in_words(&DrainPlan::of(&view, &[2], true).expect("it is wanted already"));
        assert!(
            said.contains("bears the loss of 0 nodes") && !said.contains("was to leave"),
            "{said}"
        );
        view.groups.clear();
        let said = in_words(&DrainPlan::of(&view, &[2], false).expect("it is wanted already"));
        assert!(
            !said.contains("bears") && said.contains("Node 2 was to leave"),
            "{said}"
        );
    }

    #[test]
    fn jobs_say_why_an_emptied_node_does_not_leave() {
        let mut view = leaving();
        view.groups[0].replicas[0].node = 3;
        view.pause = Some(PauseView::default());
        let said = jobs(&view, None);
        assert!(
            said.contains("leave") && said.contains("all is paused:"),
            "{said}"
        );
        view.nodes[1].goal = GoalView::Drains;
        let said = jobs(&view, None);
        assert!(
            said.contains("drained") && !said.contains("all is paused:"),
            "{said}"
        );
    }
}

//! `chorale admin rebalance`: everything is placed anew, by what nodes say of themselves now. Shown as a plan, done when it is confirmed,
//! and followed to its end, as what is wanted of nodes (`goals.rs`).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::thread;
use std::time::Instant;

use admin::{ClusterView, GoalRequest, Load, MovePlan, NodeView, list, rebalance_blocked};
use backup::{RunProgress, bytes_in_words};
use clap::{ArgMatches, Command};

use crate::admin_client::{cluster, is_other_version};
use crate::goals::{
    BLOCKED_AFTER, CONFIRM, Failure, KNOWN_AFTER, LOOK, Progress, SILENCE_MAX, WAIT, admin_port, flag, set,
};
use crate::progress_bar::ProgressBar;
use crate::status::columns;
use crate::{http, print};

pub(crate) const REBALANCE: &str = "rebalance";

/// The page that says what would move.
const PLAN_PAGE: &str = "/rebalance";

const EXAMPLES: &str = "\
Examples:
  chorale admin rebalance
      What would move if everything was placed anew. Changes nothing.
  chorale admin rebalance --confirm --wait
      Does it, and waits until every replica is where it is to be.

Nodes keep the replicas that they have when they are started with another --zone or --weight. This places all of them by what they say
now, and moves as little as that takes; where nothing is to move, nothing does. It can be ended at any time, and given again: what is
wanted is kept by the cluster, chorale admin jobs shows how far it is, and chorale admin pause holds it up. The status is 0 if it is
done or shown, 2 if it is refused, 3 if nothing moves and somebody has to do something about it. It is taken from the machine of the
node that is asked; what would move is known to nodes with a replica of the meta group.";

/// The command line.
pub(crate) fn command() -> Command {
    Command::new(REBALANCE)
        .about("Place everything anew by zones and weights as they are: say what would move, and do it if confirmed")
        .arg(flag(CONFIRM, "Do it"))
        .arg(flag(WAIT, "Wait until it is done, and show how far it is"))
        .arg(admin_port())
        .after_help(EXAMPLES)
}

pub(crate) fn rebalance(address: &str, matches: &ArgMatches) -> Result<String, Failure> {
    let view = cluster(address)?;
    let is_confirmed = matches.get_flag(CONFIRM);
    let mut text = match plan(address, PLAN_PAGE)? {
        Ok(plan) => in_words(&plan, &view),
        // It may be wanted all the same.
        Err(reason) if is_confirmed => format!("What moves is not known here: {reason}.\n"),
        Err(reason) => return Err(Failure::Unknown(reason)),
    };
    if !is_confirmed {
        text.push_str("Nothing was done. --confirm does it.\n");
        return Ok(text);
    }
    let epoch = set(address, &GoalRequest::Rebalance {})?.epoch;
    if !matches.get_flag(WAIT) {
        text.push_str("It is under way: chorale admin jobs shows how far it is.\n");
        return Ok(text);
    }
    print(&text);
    let watch = Watch::new(epoch.unwrap_or(view.epoch + 1), &PLACED_ANEW, Instant::now());
    follow(address, watch)
}

/// What would move, as a page says, or why the node does not know it.
pub(crate) fn plan(address: &str, page: &str) -> Result<Result<MovePlan, String>, Failure> {
    let page = http::get(address, page);
    let page = page.map_err(|error| Failure::Unknown(format!("no answer from {address} ({error})")))?;
    match page.status {
        200 => MovePlan::from_json(&page.body)
            .map(Ok)
            .map_err(|error| Failure::Unknown(is_other_version(address, &error))),
        409 => Ok(Err(page.body.trim_end().to_owned())),
        404 => Err(Failure::Unknown(format!(
            "{address} knows nothing of this: it is of an older version of Chorale"
        ))),
        _ => Err(Failure::Unknown(format!(
            "{address} answers: {}",
            page.body.trim_end()
        ))),
    }
}

pub(crate) fn in_words(plan: &MovePlan, view: &ClusterView) -> String {
    if plan.moves.is_empty() && plan.meta.is_empty() {
        return "Every replica is where it is to be: nothing would move.\n".to_owned();
    }
    let (bytes, is_guess) = plan.bytes(view);
    let all: u64 = plan.loads.iter().map(|load| load.then).sum();
    let mut text = format!(
        "{} of {all} replicas of groups move, with {}{}.\n",
        plan.moves.len(),
        if is_guess { "about " } else { "" },
        bytes_in_words(bytes)
    );
    if !plan.meta.is_empty() {
        let _ = writeln!(
            text,
            "The meta group gets a replica on node {} too.",
            list(plan.meta.iter())
        );
    }
    let head = ["node", "zone", "replicas", "then"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for load in &plan.loads {
        let zone = view.nodes.iter().find(|node| node.id == load.node);
        let zone = zone.map_or("", |node| &node.zone);
        rows.push(vec![
            load.node.to_string(),
            if zone.is_empty() { "-" } else { zone }.to_owned(),
            load.now.to_string(),
            load.then.to_string(),
        ]);
    }
    text.push_str(&columns(&rows));
    text.push_str("Meanwhile each group bears as many losses as it does now.\n");
    text.push_str(&blocked_in_words(view));
    text
}

/// Why it will not go on as things are, a line each.
pub(crate) fn blocked_in_words(view: &ClusterView) -> String {
    let reasons = rebalance_blocked(view).into_iter();
    let lines = reasons.map(|reason| format!("It will not go on as things are: {reason}.\n"));
    lines.collect()
}

/// Waits for the end, and shows how far it is.
pub(crate) fn follow(address: &str, mut watch: Watch) -> Result<String, Failure> {
    let bar = ProgressBar::new();
    let mut most = 1;
    let end = loop {
        let end = match cluster(address) {
            Ok(view) => {
                let left = (watch.wanted.left)(&view).flatten();
                let left = bytes_left(&view, left);
                most = left.max(most);
                bar.at(watch.wanted.verb, most - left, most);
                watch.on_view(&view, Instant::now())
            }
            Err(reason) => watch.on_silence(reason, Instant::now()),
        };
        if let Some(end) = end {
            break end;
        }
        thread::sleep(LOOK);
    };
    bar.finish();
    end
}

/// About how many bytes so many replicas have that are not where they are to be.
pub(crate) fn bytes_left(view: &ClusterView, left: Option<u64>) -> u64 {
    left.unwrap_or_default() * view.average_bytes()
}

/// What is wanted of all groups, and waited for.
pub(crate) struct Wanted {
    /// Whether it is wanted yet, and how many replicas are not where they are to be, where that is decided.
    pub(crate) left: fn(&ClusterView) -> Option<Option<u64>>,
    /// What replicas are by it.
    pub(crate) verb: &'static str,
    /// What is said when it is done.
    pub(crate) done: &'static str,
}

const PLACED_ANEW: Wanted = Wanted {
    left: |view| view.rebalance.map(|rebalance| rebalance.left),
    verb: "placed anew",
    done: "Every replica is where it is to be.\n",
};

/// What is waited for, as one node shows it again and again.
pub(crate) struct Watch {
    /// What.
    wanted: &'static Wanted,
    /// The node that is asked knows of it from this version of the map on.
    epoch: u64,
    begun: Instant,
    /// When the node answered last, and when something had moved.
    heard: Instant,
    moved: Instant,
    progress: Option<Progress>,
}

impl Watch {
    pub(crate) fn new(epoch: u64, wanted: &'static Wanted, now: Instant) -> Watch {
        Watch {
            wanted,
            epoch,
            begun: now,
            heard: now,
            moved: now,
            progress: None,
        }
    }

    /// What came of it, if this says so.
    fn on_view(&mut self, view: &ClusterView, now: Instant) -> Option<Result<String, Failure>> {
        self.heard = now;
        if view.epoch < self.epoch {
            let is_late = now.duration_since(self.begun) > KNOWN_AFTER;
            return is_late.then(|| {
                Err(Failure::Unknown(format!(
                    "it is wanted, and node {} has not heard of it: look at chorale admin jobs",
                    view.answered_by
                )))
            });
        }
        if (self.wanted.left)(view).is_none() {
            return Some(Ok(self.wanted.done.to_owned()));
        }
        let there: Vec<&NodeView> = view.nodes.iter().collect();
        let ids: BTreeSet<u64> = there.iter().map(|node| node.id).collect();
        let next = Progress::of(view, &Load::of(view, &ids), &there);
        if Progress::follow(&mut self.progress, next) {
            self.moved = now;
        }
        if now.duration_since(self.moved) <= BLOCKED_AFTER {
            return None;
        }
        let reasons = rebalance_blocked(view);
        Failure::blocked(&reasons).map(Err)
    }

    /// The same, if it does not answer.
    fn on_silence(&self, reason: String, now: Instant) -> Option<Result<String, Failure>> {
        let is_over = now.duration_since(self.heard) > SILENCE_MAX;
        is_over.then_some(Err(Failure::Unknown(reason)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::{GroupView, NodeLoad, PauseView, RebalanceView, ReplicaRole, ReplicaStatus};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    fn view() -> ClusterView {
        let node = |id| NodeView {
            id,
            is_up: true,
            zone: if id == 1 { "a" } else { "" }.to_owned(),
            ..NodeView::default()
        };
        ClusterView {
            cluster: "c".to_owned(),
            answered_by: 1,
            epoch: 7,
            nodes: vec![node(1), node(2)],
            groups: vec![GroupView {
                leader: Some(1),
                bytes: Some(2_000),
                replicas: vec![ReplicaStatus {
                    node: 1,
                    incarnation: 1,
                    role: ReplicaRole::Voter,
                    lag: None,
                }],
                ..GroupView::default()
            }],
            rebalance: Some(RebalanceView { left: Some(1) }),
            ..ClusterView::default()
        }
    }

    fn words(end: Option<Result<String, Failure>>) -> String {
        match end {
            None => "waits".to_owned(),
            Some(Ok(text)) => format!("0 {text}"),
            Some(Err(Failure::Unknown(reason))) => format!("1 {reason}"),
            Some(Err(Failure::Refused(reason))) => format!("2 {reason}"),
            Some(Err(Failure::Blocked(reason))) => format!("3 {reason}"),
        }
    }

    #[test]
    fn a_plan_says_what_moves_and_how_many_replicas_each_node_is_to_have() {
        let mut view = view();
        let load = |node, now, then| NodeLoad { node, now, then };
        let plan = MovePlan {
            moves: vec![(0, 2)],
            meta: vec![2],
            loads: vec![load(1, 1, 0), load(2, 0, 1)],
            refused: None,
        };
        view.pause = Some(PauseView::default());
        let said = in_words(&plan, &view);
        for part in [
            "1 of 1 replicas of groups move, with 2.0 kB.",
            "on node 2 too",
            "  1     a     1         0\n  2     -     0         1\n",
            "as things are: all is paused",
        ] {
            assert!(said.contains(part), "{part}:\n{said}");
        }
        let nothing = in_words(&MovePlan::default(), &view);
        assert!(nothing.contains("nothing would move"), "{nothing}");
    }

    #[test]
    fn it_is_waited_for_until_nothing_is_left_or_somebody_has_to_do_something() {
        let (mut view, begun) = (view(), Instant::now());
        let mut watch = Watch::new(8, &PLACED_ANEW, begun);
        assert_eq!(words(watch.on_view(&view, begun)), "waits");
        let late = words(watch.on_view(&view, begun + 11 * SECOND));
        assert!(
            late.starts_with("1 it is wanted, and node 1 has not heard"),
            "{late}"
        );
        view.epoch = 8;
        assert_eq!(words(watch.on_view(&view, begun + 11 * SECOND)), "waits");
        assert_eq!(
            words(watch.on_view(&view, begun + 60 * SECOND)),
            "waits",
            "it may be slow"
        );
        view.pause = Some(PauseView::default());
        let blocked = words(watch.on_view(&view, begun + 60 * SECOND));
        assert!(blocked.starts_with("3 all is paused"), "{blocked}");
        // A learner is one step, and that it lacks less is another.
        view.groups[0].replicas.push(ReplicaStatus {
            node: 2,
            incarnation: 2,
            role: ReplicaRole::Learner,
            lag: Some(9),
        });
        assert_eq!(words(watch.on_view(&view, begun + 60 * SECOND)), "waits");
        view.groups[0].replicas[1].lag = Some(5);
        assert_eq!(words(watch.on_view(&view, begun + 74 * SECOND)), "waits");
        assert_eq!(words(watch.on_view(&view, begun + 88 * SECOND)), "waits");
        assert!(words(watch.on_silence("gone".to_owned(), begun + 118 * SECOND)) == "waits");
        assert!(words(watch.on_silence("gone".to_owned(), begun + 119 * SECOND)) == "1 gone");
        view.rebalance = None;
        assert_eq!(
            words(watch.on_view(&view, begun + 90 * SECOND)),
            "0 Every replica is where it is to be.\n"
        );
    }
}

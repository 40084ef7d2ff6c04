//! `chorale admin replace`: nodes that are down are not waited for any longer. Shown, done when it is confirmed, and followed until others
//! have what they had.

use std::collections::BTreeSet;
use std::thread;
use std::time::Instant;

use admin::{ClusterView, GoalRequest, Load, NodeView, list, replace_blocked, replaceable, replaceable_zone};
use backup::{RunProgress, bytes_in_words};
use clap::{Arg, ArgMatches, Command};

use crate::admin_client::cluster;
use crate::goals::{
    BLOCKED_AFTER, CONFIRM, Failure, KNOWN_AFTER, LOOK, NODE, Progress, SILENCE_MAX, WAIT, admin_port, flag,
    node_of, set,
};
use crate::print;
use crate::progress_bar::ProgressBar;

pub(crate) const REPLACE: &str = "replace";

const WITH: &str = "with";
const ZONE: &str = "zone";

const EXAMPLES: &str = "\
Examples:
  chorale admin replace 3
      What it would mean not to wait any longer for node 3, which is down.
  chorale admin replace 3 --with 5 --confirm --wait
      Node 5 gets what node 3 has. Without --with it is whoever has room. Waits until others have all of it.
  chorale admin replace --zone room-1 --confirm
      All nodes of a zone, which are down, together: all of them or none.

It is what replace-after does later by itself, and does not do for a zone. Should a node come back, it begins anew, and gets its share. It can
be ended at any time: chorale admin jobs shows how far it is. The status is 0 if it is done or shown, 2 if it is refused, 3 if nothing moves
and somebody has to do something about it. It is taken from the machine of the node that is asked, and from others with
--cluster-secret-file.";

/// The command line.
pub(crate) fn command() -> Command {
    Command::new(REPLACE)
        .about("Have others take over at once what nodes have that are down, if confirmed")
        .arg(
            Arg::new(NODE)
                .value_name("NODE")
                .required_unless_present(ZONE)
                .help("The node's number or name"),
        )
        .arg(
            Arg::new(ZONE)
                .long(ZONE)
                .value_name("ZONE")
                .conflicts_with_all([NODE, WITH])
                .help("All nodes of this zone, none of which is up"),
        )
        .arg(
            Arg::new(WITH)
                .long(WITH)
                .value_name("NODE")
                .help("The node that gets it"),
        )
        .arg(flag(CONFIRM, "Do it"))
        .arg(flag(WAIT, "Wait until it is done, and show how far it is"))
        .arg(admin_port())
        .after_help(EXAMPLES)
}

pub(crate) fn replace(address: &str, matches: &ArgMatches) -> Result<String, Failure> {
    let view = cluster(address)?;
    let with = matches.get_one::<String>(WITH);
    let with = with.map(|called| node_of(&view, called)).transpose()?;
    let (nodes, request) = match matches.get_one::<String>(ZONE) {
        Some(zone) => {
            let nodes = replaceable_zone(&view, zone).map_err(Failure::Refused)?;
            (nodes, GoalRequest::ReplaceZone { zone: zone.clone() })
        }
        None => {
            let called = matches.get_one::<String>(NODE).expect("it is required then");
            let node = node_of(&view, called)?;
            replaceable(&view, node, with).map_err(Failure::Refused)?;
            ([node].into(), GoalRequest::Replace { node, with })
        }
    };
    let load = Load::of(&view, &nodes);
    let mut text = in_words(&nodes, &load, with);
    if !matches.get_flag(CONFIRM) {
        text.push_str("Nothing was done. --confirm does it.\n");
        return Ok(text);
    }
    set(address, &request)?;
    if !matches.get_flag(WAIT) {
        text.push_str("It is under way: chorale admin jobs shows how far it is.\n");
        return Ok(text);
    }
    print(&text);
    let bar = ProgressBar::new();
    let done = follow(
        address,
        ReplaceWatch::new(&view, nodes, Instant::now()),
        load.bytes,
        &bar,
    );
    bar.finish();
    done
}

fn in_words(nodes: &BTreeSet<u64>, load: &Load, with: Option<u64>) -> String {
    let (is, it) = match nodes.len() {
        1 => ("is down, and is", "it come back, it begins"),
        _ => ("are down, and are", "they come back, they begin"),
    };
    format!(
        "Node {} {is} not waited for any longer: {} replicas with {}{} are filled again {}. Should {it} anew.\n",
        list(nodes.iter()),
        load.replicas,
        if load.is_guess { "about " } else { "" },
        bytes_in_words(load.bytes),
        with.map_or_else(
            || "where there is room".to_owned(),
            |with| format!("on node {with}")
        ),
    )
}

/// Whether all that nodes had has its replicas elsewhere: a group lets go of a voter that is replaced once another one votes.
pub(crate) fn is_done(load: &Load) -> bool {
    load.replicas == 0 && load.meta == 0
}

/// Waits for the end, and shows how far it is.
fn follow(address: &str, mut watch: ReplaceWatch, bytes: u64, bar: &ProgressBar) -> Result<String, Failure> {
    let what = format!("node {}: replaced", list(watch.nodes.iter()));
    let all = bytes.max(1);
    loop {
        let end = match cluster(address) {
            Ok(view) => {
                let load = Load::of(&view, &watch.nodes);
                bar.at(&what, all.saturating_sub(load.bytes), all);
                watch.on_view(&view, &load, Instant::now())
            }
            Err(reason) => watch.on_silence(reason, Instant::now()),
        };
        if let Some(end) = end {
            return end;
        }
        thread::sleep(LOOK);
    }
}

/// A replacement that is waited for, as one node shows it again and again.
struct ReplaceWatch {
    nodes: BTreeSet<u64>,
    /// The last starts of these nodes, as they were when that was wanted.
    boots: BTreeSet<u64>,
    begun: Instant,
    /// When the node answered last, and when something had moved.
    heard: Instant,
    moved: Instant,
    progress: Option<Progress>,
}

impl ReplaceWatch {
    fn new(view: &ClusterView, nodes: BTreeSet<u64>, now: Instant) -> ReplaceWatch {
        let its = view.nodes.iter().filter(|node| nodes.contains(&node.id));
        ReplaceWatch {
            boots: its.map(|node| node.boot).collect(),
            nodes,
            begun: now,
            heard: now,
            moved: now,
            progress: None,
        }
    }

    /// What came of it, if this says so.
    fn on_view(&mut self, view: &ClusterView, load: &Load, now: Instant) -> Option<Result<String, Failure>> {
        self.heard = now;
        let is_meant = |node: &&NodeView| self.nodes.contains(&node.id);
        let there: Vec<&NodeView> = view.nodes.iter().filter(is_meant).collect();
        let back = there.iter().filter(|node| !self.boots.contains(&node.boot));
        let back: Vec<u64> = back.map(|node| node.id).collect();
        if !back.is_empty() {
            return Some(Err(Failure::Unknown(format!(
                "node {} has come back, begins anew, and gets its share: look at chorale admin status",
                list(back.iter())
            ))));
        }
        if !there.iter().all(|node| node.is_replaced) {
            let is_late = now.duration_since(self.begun) > KNOWN_AFTER;
            return is_late.then(|| {
                Err(Failure::Unknown(format!(
                    "it is wanted, and node {} has not heard of it: look at chorale admin jobs",
                    view.answered_by
                )))
            });
        }
        if is_done(load) {
            return Some(Ok(format!(
                "Others have what node {} had.\n",
                list(self.nodes.iter())
            )));
        }
        let next = Progress::of(view, load, &there);
        if Progress::follow(&mut self.progress, next) {
            self.moved = now;
        }
        if now.duration_since(self.moved) <= BLOCKED_AFTER {
            return None;
        }
        let reasons = replace_blocked(view, &self.nodes);
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
    use admin::{GroupView, ReplicaRole, ReplicaStatus};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    /// Three nodes, the last of which is down and has a voter of the only group. The first answers.
    fn view() -> ClusterView {
        let node = |id| NodeView {
            id,
            is_up: id != 3,
            boot: id,
            ..NodeView::default()
        };
        let voter = |node| ReplicaStatus {
            node,
            incarnation: node,
            role: ReplicaRole::Voter,
            lag: None,
        };
        ClusterView {
            cluster: "c".to_owned(),
            answered_by: 1,
            replication_factor: 2,
            nodes: (1..=3).map(node).collect(),
            groups: vec![GroupView {
                leader: Some(1),
                bytes: Some(2_000),
                replicas: vec![voter(1), voter(3)],
                ..GroupView::default()
            }],
            ..ClusterView::default()
        }
    }

    fn look(watch: &mut ReplaceWatch, view: &ClusterView, now: Instant) -> String {
        match watch.on_view(view, &Load::of(view, &watch.nodes.clone()), now) {
            None => "waits".to_owned(),
            Some(Ok(text)) => format!("0 {text}"),
            Some(Err(Failure::Unknown(reason))) => format!("1 {reason}"),
            Some(Err(Failure::Refused(reason))) => format!("2 {reason}"),
            Some(Err(Failure::Blocked(reason))) => format!("3 {reason}"),
        }
    }

    #[test]
    fn it_is_waited_for_until_others_have_all_or_somebody_has_to_do_something() {
        let (mut view, begun) = (view(), Instant::now());
        let watch = || ReplaceWatch::new(&view, [3].into(), begun);
        let (mut late, mut returned, mut watch) = (watch(), watch(), watch());
        assert_eq!(look(&mut watch, &view, begun), "waits");
        let said = look(&mut late, &view, begun + 11 * SECOND);
        assert!(
            said.starts_with("1 it is wanted, and node 1 has not heard"),
            "{said}"
        );
        view.nodes[2].is_replaced = true;
        assert_eq!(look(&mut watch, &view, begun + SECOND), "waits");
        assert_eq!(
            look(&mut watch, &view, begun + 60 * SECOND),
            "waits",
            "it may be slow"
        );
        view.groups[0].leader = None;
        let said = look(&mut watch, &view, begun + 60 * SECOND);
        assert!(said.starts_with("3 groups 0 have no leader"), "{said}");
        view.groups[0].leader = Some(1);
        // Its place is taken.
        view.groups[0].replicas[1].node = 2;
        view.meta_nodes = vec![3];
        assert_eq!(look(&mut watch, &view, begun + 61 * SECOND), "waits");
        view.meta_nodes = vec![2];
        let said = look(&mut watch, &view, begun + 62 * SECOND);
        assert_eq!(said, "0 Others have what node 3 had.\n");
        (view.nodes[2].boot, view.nodes[2].is_replaced) = (4, false);
        let said = look(&mut returned, &view, begun + SECOND);
        assert!(said.starts_with("1 node 3 has come back"), "{said}");
    }

    #[test]
    fn who_does_not_answer_is_asked_for_some_time() {
        let (view, begun) = (view(), Instant::now());
        let watch = ReplaceWatch::new(&view, [3].into(), begun);
        let silent = |after| watch.on_silence("gone".to_owned(), begun + after);
        assert!(silent(30 * SECOND).is_none() && silent(31 * SECOND).is_some());
    }

    #[test]
    fn a_plan_says_who_is_replaced_and_by_whom() {
        let load = Load {
            replicas: 2,
            bytes: 2_000,
            ..Load::default()
        };
        let said = in_words(&[3].into(), &load, Some(5));
        assert!(
            said.contains("Node 3 is down") && said.contains("on node 5. Should it come"),
            "{said}"
        );
        let said = in_words(&[3, 4].into(), &load, None);
        assert!(
            said.contains("Node 3 4 are down") && said.contains("where there is room. Should they come"),
            "{said}"
        );
    }
}

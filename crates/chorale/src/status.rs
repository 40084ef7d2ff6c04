//! The cluster as a table for people.

use std::fmt::Write;

use admin::{ClusterView, DiskView, GoalView, GroupView, NodeView, ReplicaRole, list};
use backup::{bytes_in_words, counted, time_in_words};

use crate::raise_semantics::semantics_in_words;

/// Letters of a full bar.
const BAR_WIDTH: u64 = 10;

/// The whole report; with `is_listing`, each group too.
pub(crate) fn report(view: &ClusterView, is_listing: bool) -> String {
    let mut text = String::new();
    let name = match view.cluster.as_str() {
        "" => "One node by itself".to_owned(),
        name => format!("Cluster {name}"),
    };
    let _ = write!(
        text,
        "{name}, as node {} sees it at epoch {}",
        view.answered_by, view.epoch
    );
    if let Some(leader) = view.meta_leader {
        let _ = write!(text, "; node {leader} leads the meta group");
    }
    let _ = write!(text, ".\n{} {}\n\n", nodes_in_words(view), groups_in_words(view));
    if let Some(trouble) = trouble(view) {
        let _ = write!(text, "{trouble}\n\n");
    }
    if let Some(semantics) = semantics_in_words(view) {
        let _ = write!(text, "{semantics}\n\n");
    }
    if let Some(wanted) = wanted_in_words(view) {
        let _ = write!(text, "{wanted}\n\n");
    }
    if let Some(backups) = backups_in_words(view) {
        let _ = write!(text, "{backups}\n\n");
    }
    if let Some(coding) = coding_in_words(view) {
        let _ = write!(text, "{coding}\n\n");
    }
    text.push_str(&columns(&node_rows(view)));
    if is_listing && !view.groups.is_empty() {
        text.push('\n');
        text.push_str(&columns(&group_rows(view)));
    }
    text
}

/// What stands still until somebody does something, and what to do.
fn trouble(view: &ClusterView) -> Option<String> {
    let mut said = Vec::new();
    let down: Vec<u64> = view
        .nodes
        .iter()
        .filter(|node| !node.is_up)
        .map(|node| node.id)
        .collect();
    let asked = view.nodes.iter().find(|node| node.id == view.answered_by);
    let is_early = asked.is_some_and(|node| node.is_new) && !down.is_empty();
    if is_early {
        said.push(format!(
            "Node {} has started a moment ago, and has not heard of node {} yet: ask again in a few seconds.",
            view.answered_by,
            list(down.iter())
        ));
    }
    if view.is_meta_leaderless && !is_early {
        said.push(format!(
            "Nobody leads the meta group: members and placement stay as they are. Bring back a majority of its nodes ({}), \
             with their directories; if the directories of a majority are gone for good: chorale admin recover --help.",
            list(view.meta_nodes.iter())
        ));
    }
    let disk_is = |is: fn(&DiskView) -> bool| {
        let found = view
            .nodes
            .iter()
            .filter(|node| node.disk.as_ref().is_some_and(is));
        list(found.map(|node| node.id))
    };
    let full = disk_is(|disk| disk.is_full);
    if !full.is_empty() {
        said.push(format!(
            "The disk is full of node {full}: other nodes lead, or writes are refused, until there is room. Its log says which file could not be made."
        ));
    }
    let failed = disk_is(|disk| disk.has_snapshot_failed);
    if !failed.is_empty() {
        said.push(format!(
            "A snapshot could not be written on node {failed}: its logs grow until one is. Its log says why."
        ));
    }
    let numbers = |groups: Vec<&GroupView>| list(groups.iter().map(|group| group.number));
    let lost: Vec<&GroupView> = view
        .groups
        .iter()
        .filter(|group| group.has_lost_majority)
        .collect();
    if !lost.is_empty() {
        said.push(format!(
            "{} lost the memory of most voters and {}: {}. chorale admin recover says what can be saved.",
            counted(lost.len() as u64, "group"),
            if lost.len() == 1 {
                "stands still"
            } else {
                "stand still"
            },
            numbers(lost)
        ));
    }
    said.extend(outage(view));
    let moved = view.nodes.iter().filter(|node| node.placed_zone.is_some());
    let moved = list(moved.map(|node| node.id));
    if !moved.is_empty() {
        said.push(format!(
            "Node {moved} started with another zone than the one for which its replicas were placed: they stay where they are, and \
             groups may have several in one zone, until chorale admin rebalance."
        ));
    }
    let waits = |group: &&GroupView| !group.has_lost_majority && group.lacks_majority(&down);
    let waiting: Vec<&GroupView> = view.groups.iter().filter(waits).collect();
    if !waiting.is_empty() && !is_early {
        let gone = list(down.iter().map(|node| format!("--gone {node}")));
        said.push(format!(
            "{} {} for nodes that are not heard of: {}. Bring these nodes back ({}); if they will never come back with what \
             they had, chorale admin recover {gone} says what can be saved.",
            counted(waiting.len() as u64, "group"),
            if waiting.len() == 1 { "waits" } else { "wait" },
            numbers(waiting),
            list(down.iter())
        ));
    }
    (!said.is_empty()).then(|| said.join("\n"))
}

/// Why nodes that are away are not replaced, as whoever leads the meta group finds.
fn outage(view: &ClusterView) -> Option<String> {
    let outage = view.outage.as_ref()?;
    let whom = match outage.zones.is_empty() {
        false => format!("zone {}", list(outage.zones.iter())),
        true => "a quarter of all nodes".to_owned(),
    };
    Some(format!(
        "Nothing is heard of {whom}: as long as that is so, no node is replaced by itself ({}).",
        list(outage.nodes.iter())
    ))
}

/// What is wanted of all groups and is not so yet.
fn wanted_in_words(view: &ClusterView) -> Option<String> {
    let mut said = Vec::new();
    if let Some(resize) = view.resize {
        said.push(format!("Each group is to have {} replicas", resize.wanted));
    }
    if view.rebalance.is_some() {
        said.push("Everything is being placed anew".to_owned());
    }
    if view.partitions_left > 0 {
        let partitions = counted(view.partitions_left as u64, "partition");
        said.push(format!(
            "{partitions} of keys are moving to groups that were added"
        ));
    }
    let lent = view.permits.iter().map(|permit| permit.node);
    said.extend(lent.map(|node| format!("Node {node} may stop, or has")));
    let lines = said
        .iter()
        .map(|what| format!("{what}: chorale admin jobs shows how far it is."));
    (!said.is_empty()).then(|| lines.collect::<Vec<String>>().join("\n"))
}

/// What is known of backups, if there is anything to say.
fn backups_in_words(view: &ClusterView) -> Option<String> {
    let backups = &view.backups;
    let mut said = Vec::new();
    if !backups.target.is_empty() && !backups.schedule.is_empty() {
        said.push(format!("Backups: {} into {}.", backups.schedule, backups.target));
        said.push(match (backups.next_at, view.meta_leader) {
            _ if backups.is_running => "One is being taken.".to_owned(),
            (Some(next), _) => format!("The next at {} UTC.", time_in_words(next)),
            (None, None) => "Nobody leads the meta group, and so nobody takes them.".to_owned(),
            // It looks every half second, and first at the target.
            (None, Some(leader)) if leader == view.answered_by => {
                "When the next is due is not known yet: this node has just come to lead, or the schedule was just set.".to_owned()
            }
            (None, Some(leader)) => {
                format!("Node {leader} takes them, as it leads the meta group: ask it.")
            }
        });
    } else if backups.is_running {
        said.push("A backup is being taken.".to_owned());
    }
    if let Some(good) = backups.good_at {
        said.push(format!("The last good one is of {} UTC.", time_in_words(good)));
    }
    if let Some(failed) = backups.failed_at.filter(|_| !backups.reason.is_empty()) {
        let when = time_in_words(failed);
        said.push(format!("The last try failed, at {when} UTC: {}", backups.reason));
    }
    (!said.is_empty()).then(|| said.join(" "))
}

/// What is kept as fragments on the node that was asked, and what is in the way of more.
fn coding_in_words(view: &ClusterView) -> Option<String> {
    let coding = view.coding.filter(|coding| coding.is_on || coding.values > 0)?;
    let mut said = vec![match coding.is_on {
        true => "Erasure coding is on.".to_owned(),
        false => "Erasure coding is off, and what is in fragments becomes whole.".to_owned(),
    }];
    if coding.values > 0 {
        said.push(format!(
            "Node {} has {} of {} as fragments of {}.",
            view.answered_by,
            counted(coding.values, "string"),
            bytes_in_words(coding.value_bytes),
            bytes_in_words(coding.fragment_bytes)
        ));
    }
    if coding.groups_filling > 0 {
        let groups = counted(coding.groups_filling, "group");
        said.push(format!(
            "Of {groups} its replica lacks some, and makes them of those of others."
        ));
    }
    if coding.groups_stalled > 0 {
        let groups = counted(coding.groups_stalled, "group");
        said.push(format!(
            "In {groups} that it leads what is written stays whole: a replica is away, or lacks some."
        ));
    }
    Some(said.join(" "))
}

fn nodes_in_words(view: &ClusterView) -> String {
    let down = view.nodes.iter().filter(|node| !node.is_up);
    let down: Vec<String> = down.map(|node| node.id.to_string()).collect();
    let nodes = counted(view.nodes.len() as u64, "node");
    match (down.len(), view.nodes.len()) {
        (0, 1) => format!("{nodes}."),
        (0, _) => format!("{nodes}, all up."),
        (count, _) => format!("{nodes}, {count} not heard of: {}.", down.join(", ")),
    }
}

/// How the groups are, in a sentence.
pub(crate) fn groups_in_words(view: &ClusterView) -> String {
    if view.groups.is_empty() {
        return "It shows no groups.".to_owned();
    }
    let led = view.groups.iter().filter(|group| group.leader.is_some()).count();
    let full = view.groups.iter().filter(|group| is_full(view, group)).count();
    let groups = counted(view.groups.len() as u64, "group");
    format!("{groups}, {led} with a leader, {full} fully replicated.")
}

/// Whether every group has a leader and all its replicas.
pub(crate) fn is_settled(view: &ClusterView) -> bool {
    view.groups
        .iter()
        .all(|group| group.leader.is_some() && is_full(view, group))
}

/// Whether a group has all the voters that it is to have, on nodes that are there.
fn is_full(view: &ClusterView, group: &GroupView) -> bool {
    let is_up = |id: u64| view.nodes.iter().any(|node| node.id == id && node.is_up);
    let voters = group
        .replicas
        .iter()
        .filter(|replica| replica.role == ReplicaRole::Voter && is_up(replica.node));
    voters.count() >= usize::from(view.replication_factor)
}

fn node_rows(view: &ClusterView) -> Vec<Vec<String>> {
    let head = [
        "node",
        "name",
        "state",
        "zone",
        "clients",
        "cluster endpoint",
        "leads",
        "",
        "replicas",
        "",
        "durability",
        "log",
        "sync p99",
        "last snapshot",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let most = view
        .nodes
        .iter()
        .map(|node| node.replicas.max(node.groups_led))
        .max();
    let most = most.unwrap_or_default();
    for node in &view.nodes {
        let mut row = vec![
            node.id.to_string(),
            or_dash(&node.name),
            state(node),
            zone(node),
            or_dash(&node.client),
            or_dash(&node.cluster),
            node.groups_led.to_string(),
            bar(node.groups_led, most),
            node.replicas.to_string(),
            bar(node.replicas, most),
        ];
        row.extend(disk_cells(node.disk.as_ref()));
        rows.push(row);
    }
    if view.nodes.iter().all(|node| node.name.is_empty()) {
        rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    rows
}

/// What a node says, and for which it is placed if that is another one.
fn zone(node: &NodeView) -> String {
    match &node.placed_zone {
        None => or_dash(&node.zone),
        Some(placed) => format!("{}, placed for {}", or_dash(&node.zone), or_dash(placed)),
    }
}

/// What a node keeps on disk, as far as it was asked, and keeps anything.
fn disk_cells(disk: Option<&DiskView>) -> [String; 4] {
    let none = || "-".to_owned();
    let Some(disk) = disk else {
        return [none(), none(), none(), none()];
    };
    if disk.durability == "memory" {
        return [disk.durability.clone(), none(), none(), none()];
    }
    let full = if disk.is_full { ", full" } else { "" };
    let failed = if disk.has_snapshot_failed { ", failed" } else { "" };
    [
        disk.durability.clone(),
        format!("{} MiB{full}", disk.log_bytes >> 20),
        format!("{:.2} ms", disk.log_sync_p99_us as f64 / 1e3),
        format!("{}{failed}", ago(disk.snapshot_age_secs)),
    ]
}

/// A time that has passed, in its largest unit.
fn ago(secs: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let unit = units.into_iter().find(|(unit, _)| secs >= *unit);
    let (unit, name) = unit.unwrap_or((1, "s"));
    format!("{} {name} ago", secs / unit)
}

fn state(node: &NodeView) -> String {
    let mut state = if node.is_up { "up" } else { "down" }.to_owned();
    state.push_str(match node.goal {
        GoalView::Stays => "",
        GoalView::Drains => ", drains",
        GoalView::Leaves => ", leaves",
        GoalView::Left => ", has left",
    });
    if node.incarnations_lost > 0 {
        let _ = write!(state, ", {} lost", node.incarnations_lost);
    }
    state
}

fn group_rows(view: &ClusterView) -> Vec<Vec<String>> {
    let head = [
        "group",
        "leader",
        "term",
        "applied",
        "replicas: node/incarnation, lag",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let known = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    for group in &view.groups {
        let replicas = group.replicas.iter().map(|replica| {
            let mut text = format!("{}/{}", replica.node, replica.incarnation);
            match replica.role {
                ReplicaRole::Voter => {}
                ReplicaRole::Learner => text.push_str(" learns"),
                ReplicaRole::Expected => text.push_str(" expected"),
                ReplicaRole::Lost => text.push_str(" lost"),
            }
            if let Some(lag) = replica.lag.filter(|lag| *lag > 0) {
                let _ = write!(text, " -{lag}");
            }
            text
        });
        rows.push(vec![
            group.number.to_string(),
            known(group.leader),
            known(group.term),
            known(group.applied),
            replicas.collect::<Vec<_>>().join("  "),
        ]);
    }
    rows
}

fn or_dash(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.to_owned()
    }
}

/// As much of a full bar as `part` is of `whole`; something is never shown as nothing.
fn bar(part: u64, whole: u64) -> String {
    let filled = match (part, whole) {
        (0, _) | (_, 0) => 0,
        _ => (part.saturating_mul(BAR_WIDTH) / whole).clamp(1, BAR_WIDTH),
    };
    (0..BAR_WIDTH)
        .map(|at| if at < filled { '█' } else { '░' })
        .collect()
}

/// Rows with their columns one below the other; the first row is the head.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or_default();
    let wide = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..count)
        .map(|column| wide(column).unwrap_or_default())
        .collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from("  ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::{BackupsView, CodingView, OutageView, ReplicaStatus};

    fn three_nodes() -> ClusterView {
        let node = |id: u64| NodeView {
            id,
            client: format!("127.0.0.1:{}", 6378 + id),
            cluster: format!("127.0.0.1:{}", 7378 + id),
            is_up: id != 3,
            disk: (id != 3).then(|| DiskView {
                durability: if id == 1 { "strict" } else { "memory" }.to_owned(),
                log_bytes: 192 << 20,
                log_sync_p99_us: 1_250,
                snapshot_age_secs: 7_300,
                ..DiskView::default()
            }),
            ..NodeView::default()
        };
        let group = |number: u16, leader, nodes: &[u64]| GroupView {
            number,
            leader,
            term: leader.map(|_| 2),
            applied: leader.map(|_| 40),
            replicas: nodes
                .iter()
                .map(|&node| ReplicaStatus {
                    node,
                    incarnation: node * 100 + u64::from(number),
                    role: if node == 3 {
                        ReplicaRole::Learner
                    } else {
                        ReplicaRole::Voter
                    },
                    lag: Some(u64::from(node == 3) * 7),
                })
                .collect(),
            ..GroupView::default()
        };
        let mut view = ClusterView {
            cluster: "0f".repeat(16),
            epoch: 17,
            answered_by: 1,
            replication_factor: 2,
            meta_leader: Some(2),
            is_meta_leaderless: false,
            meta_nodes: vec![1, 2, 3],
            nodes: vec![node(1), node(2), node(3)],
            groups: vec![
                group(0, Some(1), &[1, 2]),
                group(1, Some(2), &[2, 3]),
                group(2, None, &[3, 1]),
            ],
            ..ClusterView::default()
        };
        view.count();
        view
    }

    #[test]
    fn the_report_says_in_words_and_in_a_table_how_the_cluster_is() {
        let expected = "\
Cluster 0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f, as node 1 sees it at epoch 17; node 2 leads the meta group.
3 nodes, 1 not heard of: 3. 3 groups, 2 with a leader, 1 fully replicated.

  node  state  zone  clients         cluster endpoint  leads              replicas              durability  log      sync p99  last snapshot
  1     up     -     127.0.0.1:6379  127.0.0.1:7379    1      █████░░░░░  2         ██████████  strict      192 MiB  1.25 ms   2 h ago
  2     up     -     127.0.0.1:6380  127.0.0.1:7380    1      █████░░░░░  2         ██████████  memory      -        -         -
  3     down   -     127.0.0.1:6381  127.0.0.1:7381    0      ░░░░░░░░░░  2         ██████████  -           -        -         -

  group  leader  term  applied  replicas: node/incarnation, lag
  0      1       2     40       1/100  2/200
  1      2       2     40       2/201  3/301 learns -7
  2      -       -     -        3/302 learns -7  1/102
";
        let report = report(&three_nodes(), true);
        assert_eq!(report, expected, "\n{report}");
    }

    #[test]
    fn names_and_zones_are_told_and_that_replicas_wait_for_another_zone() {
        let mut view = three_nodes();
        for (node, (name, zone)) in view
            .nodes
            .iter_mut()
            .zip([("ada", "a"), ("", "b"), ("cleo", "b")])
        {
            (node.name, node.zone) = (name.to_owned(), zone.to_owned());
        }
        view.nodes[0].placed_zone = Some(String::new());
        let text = report(&view, false);
        for part in [
            "  node  name  state  zone             clients",
            "  1     ada   up     a, placed for -  127.0.0.1:6379",
            "  2     -     up     b                127.0.0.1:6380",
            "Node 1 started with another zone",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        // Whether nodes that are silent are waited for is for others to find.
        assert!(!text.contains("Nothing is heard of"), "{text}");
        let mut outage = OutageView {
            zones: vec!["b".to_owned()],
            nodes: vec![2, 3],
        };
        view.outage = Some(outage.clone());
        let text = report(&view, false);
        assert!(
            text.contains(
                "Nothing is heard of zone b: as long as that is so, no node is replaced by itself (2 3)."
            ),
            "{text}"
        );
        outage.zones.clear();
        view.outage = Some(outage);
        let text = report(&view, false);
        assert!(text.contains("of a quarter of all nodes: as long"), "{text}");
    }

    #[test]
    fn what_stands_still_is_said_with_what_to_do_about_it() {
        let mut view = three_nodes();
        assert_eq!(trouble(&view), None, "voters are not counted there");
        for group in &mut view.groups {
            group.voters = 2;
        }
        view.groups[2].voters = 3;
        view.groups[2].has_lost_majority = true;
        view.is_meta_leaderless = true;
        for node in &mut view.nodes {
            let disk = node.disk.get_or_insert_default();
            disk.is_full = node.id != 2;
            disk.has_snapshot_failed = node.id == 2;
        }
        let said = trouble(&view).expect("there is trouble");
        let parts = [
            "(1 2 3)",
            "1 group lost",
            "stands still: 2.",
            "1 group waits",
            "full of node 1 3:",
            "written on node 2:",
            "--gone 3",
        ];
        for part in parts {
            assert!(said.contains(part), "{part} is missing:\n{said}");
        }
        // Who has just started has heard of nobody yet, and nothing is to be given up for that.
        let asked = view.answered_by;
        view.nodes
            .iter_mut()
            .for_each(|node| node.is_new = node.id == asked);
        let said = trouble(&view).expect("it has not heard of all");
        assert!(said.contains("has not heard of node 3 yet"), "{said}");
        assert!(
            !said.contains("--gone") && !said.contains("Nobody leads"),
            "{said}"
        );
    }

    #[test]
    fn backups_are_told_of_where_there_are_any() {
        let mut view = three_nodes();
        assert_eq!(backups_in_words(&view), None);
        view.backups = BackupsView {
            target: "/mnt/b".to_owned(),
            schedule: "15 3 * * *".to_owned(),
            good_at: Some(1_795_735_860_000),
            ..BackupsView::default()
        };
        let said = backups_in_words(&view).expect("there is a schedule");
        assert_eq!(
            said,
            "Backups: 15 3 * * * into /mnt/b. Node 2 takes them, as it leads the meta group: ask it. The last good one is of \
             2026-11-26 23:31:00 UTC."
        );
        let of_whom = |view: &mut ClusterView, leader| {
            view.meta_leader = leader;
            backups_in_words(view).expect("there is a schedule")
        };
        assert!(of_whom(&mut view, None).contains("Nobody leads the meta group"));
        let said = of_whom(&mut view, Some(1));
        assert!(
            said.contains("is not known yet") && !said.contains("Nobody"),
            "{said}"
        );
        view.backups.next_at = Some(1_795_749_300_000);
        (view.backups.failed_at, view.backups.reason) = (Some(1_795_740_000_000), "full".to_owned());
        let said = backups_in_words(&view).expect("there is a schedule");
        for part in [
            "The next at 2026-11-27 03:15:00 UTC.",
            "The last try failed, at 2026-11-27 00:40:00 UTC: full",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn fragments_are_told_of_where_there_are_any() {
        let mut view = three_nodes();
        assert_eq!(coding_in_words(&view), None);
        let mut coding = CodingView {
            is_on: true,
            ..CodingView::default()
        };
        let said = |view: &mut ClusterView, coding| {
            view.coding = Some(coding);
            coding_in_words(view)
        };
        assert_eq!(said(&mut view, coding).as_deref(), Some("Erasure coding is on."));
        (coding.values, coding.value_bytes, coding.fragment_bytes) = (2_000, 2 << 20, 1 << 20);
        assert_eq!(
            said(&mut view, coding).as_deref(),
            Some("Erasure coding is on. Node 1 has 2000 strings of 2.1 MB as fragments of 1.0 MB.")
        );
        (coding.groups_filling, coding.groups_stalled) = (1, 4);
        let all = said(&mut view, coding).expect("there are some");
        assert!(all.contains("Of 1 group its replica lacks some"), "{all}");
        assert!(
            all.contains("In 4 groups that it leads what is written stays whole"),
            "{all}"
        );
        coding.is_on = false;
        assert!(said(&mut view, coding).is_some_and(|said| said.contains("becomes whole")));
        coding.values = 0;
        assert_eq!(said(&mut view, coding), None);
    }

    #[test]
    fn a_node_by_itself_is_no_empty_table() {
        let report = report(&ClusterView::alone(), true);
        assert!(
            report.starts_with("One node by itself, as node 1 sees it at epoch 0.\n1 node."),
            "{report}"
        );
    }
}

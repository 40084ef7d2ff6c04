//! `chorale admin recover`: what would be done, for people, and the doing.

use std::fmt::Write;
use std::path::Path;

use admin::{CONFIRMATION, Fate, Plan, Recovered, list};
use backup::counted;

use crate::{admin_client, http};
use node::{GroupCut, GroupLeft};

/// Groups of keys: the plan, or what came of it.
pub(crate) fn groups(address: &str, gone: &[u64], is_confirmed: bool) -> Result<String, String> {
    let view = admin_client::cluster(address)?;
    let plan = Plan::of(&view, gone)?;
    let mut text = in_words(&plan);
    let Some(recovery) = plan.recovery() else {
        text.push_str("Nothing is to be done.\n");
        return Ok(text);
    };
    if !is_confirmed {
        text.push_str("Nothing was done. --confirm does it.\n");
        return Ok(text);
    }
    let body = serde_json::to_string(&recovery).expect("numbers have a form in JSON");
    let answer = http::post(address, "/recover", (CONFIRMATION, "recover"), &body).map_err(|error| {
        format!("no answer from {address} ({error}): look at the status before you try again")
    })?;
    if answer.status != 200 {
        return Err(format!("{address} refuses: {}", answer.body.trim_end()));
    }
    let recovered: Recovered = serde_json::from_str(&answer.body)
        .map_err(|error| format!("{address} answers with a page of another version ({error})"))?;
    let _ = writeln!(
        text,
        "Begun anew: {}.",
        counted(recovered.groups.len() as u64, "group")
    );
    for refused in &recovered.refused {
        let _ = writeln!(text, "Not done: {refused}.");
    }
    Ok(text)
}

fn in_words(plan: &Plan) -> String {
    let mut text = String::new();
    for node in plan.gone.keys() {
        let _ = writeln!(
            text,
            "Node {node} is taken for gone: the memory of all its replicas is given up, and it has to start again."
        );
    }
    if plan.fates.is_empty() {
        text.push_str("Every group has the majority of its voters.\n");
    }
    for (group, fate) in &plan.fates {
        let _ = match fate {
            Fate::Inherits {
                node,
                incarnation,
                applied,
                uncommitted,
                is_damaged,
            } => writeln!(
                text,
                "Group {group} would begin anew with what node {node} has (replica {incarnation}, {applied} entries applied, \
                 {uncommitted} more in its log{}). Acknowledged writes that never reached it are lost.",
                if *is_damaged {
                    "; its log was damaged: what followed is missing"
                } else {
                    ""
                }
            ),
            Fate::Empties { node } => writeln!(
                text,
                "Group {group} would begin EMPTY, on node {node}: no replica of it has its memory. All its data are lost."
            ),
            Fate::Waits { nodes } => writeln!(
                text,
                "Group {group} is left as it is: node {} may have what is missing. Bring it back, or name it with --gone.",
                list(nodes.iter())
            ),
            Fate::Untold { node } => writeln!(
                text,
                "Group {group} is left as it is: node {node} has not said yet what it has. Ask again in a moment."
            ),
        };
    }
    text
}

/// The meta group, on the directory of a node that is stopped.
pub(crate) fn meta(directory: &str, is_confirmed: bool) -> Result<String, String> {
    let recovery = node::recover_meta(Path::new(directory), is_confirmed)?;
    let others = list(recovery.others.iter());
    let mut text = format!(
        "Node {} knows the cluster as of epoch {}; of its log {} not known to be committed. ",
        recovery.node,
        recovery.epoch,
        match recovery.uncommitted {
            1 => "1 entry is".to_owned(),
            count => format!("{count} entries are"),
        }
    );
    if recovery.is_done {
        let _ = writeln!(
            text,
            "It is the only voter of the meta group now.\nStart it; start the others when it is ready, never before; then \
             `chorale admin recover` says what can be saved of the groups of keys."
        );
    } else {
        let _ = writeln!(
            text,
            "It would become the only voter of the meta group: what nodes {others} decided without it (members that joined, \
             settings, placements) is lost.\nIf it could be that a majority of the voters comes back with their \
             directories, wait for them instead.\nNothing was done. --confirm does it: on one node only, while the others \
             are stopped."
        );
    }
    Ok(text)
}

/// Damaged logs, in the directory of a node that is stopped.
pub(crate) fn cut(directory: &str, is_confirmed: bool) -> Result<String, String> {
    let cut = node::cut_logs(Path::new(directory), is_confirmed)?;
    if cut.groups.is_empty() {
        return Ok(format!(
            "No log of node {} is damaged: nothing is to be cut.\n",
            cut.node
        ));
    }
    let mut text = String::new();
    for group in &cut.groups {
        text.push_str(&cut_in_words(group, cut.is_done));
    }
    let is_left = |group: &GroupCut| matches!(group.left, GroupLeft::Others);
    text.push_str(match (cut.is_done, cut.groups.iter().all(is_left)) {
        (true, _) => "The logs were cut. Start the node.\n",
        (false, true) => "Nothing is to be cut.\n",
        (false, false) if cut.has_company => {
            "Other nodes are in the cluster: if one of them holds such a group too, start this node instead, and the group is filled \
             from there. Nothing was done. --confirm does it.\n"
        }
        (false, false) => {
            "If the disk may give the bytes back, or there is a backup, try that first.\nNothing was done. --confirm does it.\n"
        }
    });
    Ok(text)
}

fn cut_in_words(group: &GroupCut, is_done: bool) -> String {
    let GroupCut {
        group,
        damage,
        left,
        unused,
    } = group;
    let goes = if is_done { "went" } else { "would go" };
    let mut text = format!("Group {group}: {damage}.\n");
    let _ = match left {
        GroupLeft::Log { last, proven } if proven.0 > last.0 => writeln!(
            text,
            "  Its log is intact up to entry {} of term {}, and its tables prove that it went on to entry {} of term {}. {} entries {goes}.",
            last.0,
            last.1,
            proven.0,
            proven.1,
            proven.0 - last.0
        ),
        GroupLeft::Log { last, proven } if proven != last => writeln!(
            text,
            "  Its log is intact up to entry {} of term {}, and its tables prove that later entries were replaced, up to entry {} of term \
             {}. These {goes}.",
            last.0, last.1, proven.0, proven.1
        ),
        GroupLeft::Log { last, .. } => writeln!(
            text,
            "  Its log is intact up to entry {} of term {}. No table proves that it went on.",
            last.0, last.1
        ),
        GroupLeft::Snapshot { index } => writeln!(
            text,
            "  Of its log too little is left. Its last snapshot reflects what was written up to entry {index}: all behind that {goes}."
        ),
        GroupLeft::Nothing => writeln!(
            text,
            "  Nothing of it is left: it {} EMPTY, and all its data are lost.",
            if is_done { "begins" } else { "would begin" }
        ),
        GroupLeft::Others => writeln!(
            text,
            "  Others may have it: it is left as it is, and they fill it when the node starts."
        ),
    };
    if unused.0 > 0 && !matches!(left, GroupLeft::Others) {
        let _ = writeln!(
            text,
            "  Of what {goes}, {} entries with {} bytes can be read, and cannot be used without what stood before them.",
            unused.0, unused.1
        );
    }
    text
}

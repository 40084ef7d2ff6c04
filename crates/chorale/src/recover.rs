//! `chorale admin recover`: what would be done, for people, and the doing.

use std::fmt::Write;
use std::path::Path;

use admin::{CONFIRMATION, Fate, Plan, Recovered, list};

use crate::{admin_client, http};

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
    let _ = writeln!(text, "Begun anew: {} groups.", recovered.groups.len());
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
            } => writeln!(
                text,
                "Group {group} would begin anew with what node {node} has (replica {incarnation}, {applied} entries applied, \
                 {uncommitted} more in its log). Acknowledged writes that never reached it are lost."
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
        "Node {} knows the cluster as of epoch {}, with {} entries in its log that were not known to be committed. ",
        recovery.node, recovery.epoch, recovery.uncommitted
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

//! `chorale admin forget`: what a node keeps of a group that began anew without it is shown, and forgotten if that is confirmed.

use std::fmt::Write;

use admin::{ForgetPlan, GoalRequest, list};
use clap::{Arg, ArgMatches, Command};

use crate::admin_client::cluster;
use crate::goals::{CONFIRM, Failure, NODE, admin_port, flag, node_of, set};

pub(crate) const FORGET: &str = "forget";

const GROUP: &str = "group";

const EXAMPLES: &str = "\
Examples:
  chorale admin forget 3 7
      What node 3 keeps of group 7 from before that began anew, and who has the group now. Changes nothing.
  chorale admin forget 3 7 --confirm
      Node 3 deletes it, or passes over it when it comes back.

When a group begins anew, the nodes of its other members keep what they held until as many vote as are to: should the replica that it began
anew with be lost before, it begins anew with theirs. What is kept goes by itself then. It is kept for good where too few nodes are left for
as many replicas, and a node that keeps something does not leave (chorale admin drain --leave): this gives it up. It is refused while nobody
leads the group, or if the node votes in it. The status is 0 if it is done or shown, 2 if it is refused. It is taken from the machine of the
node that is asked, and from others with --cluster-secret-file.";

/// The command line.
pub(crate) fn command() -> Command {
    Command::new(FORGET)
        .about("Give up what a node keeps of a group that began anew without it: say what that is, and do it if confirmed")
        .arg(
            Arg::new(NODE)
                .value_name("NODE")
                .required(true)
                .help("The node's number or name; self is the node that is asked"),
        )
        .arg(
            Arg::new(GROUP)
                .value_name("GROUP")
                .required(true)
                .value_parser(clap::value_parser!(u16))
                .help("The group's number, as chorale admin status --groups shows it"),
        )
        .arg(flag(CONFIRM, "Do it"))
        .arg(admin_port())
        .after_help(EXAMPLES)
}

pub(crate) fn forget(address: &str, matches: &ArgMatches) -> Result<String, Failure> {
    let view = cluster(address)?;
    let node = node_of(&view, matches.get_one::<String>(NODE).expect("it is required"))?;
    let group = *matches.get_one::<u16>(GROUP).expect("it is required");
    let plan = ForgetPlan::of(&view, node, group).map_err(Failure::Refused)?;
    let mut text = in_words(&plan);
    if !matches.get_flag(CONFIRM) {
        text.push_str("Nothing was done. --confirm does it.\n");
        return Ok(text);
    }
    let request = GoalRequest::Forget {
        node,
        group,
        generation: plan.generation,
    };
    set(address, &request)?;
    let _ = writeln!(text, "Node {node} keeps nothing of group {group} any more.");
    Ok(text)
}

fn in_words(plan: &ForgetPlan) -> String {
    let ForgetPlan {
        node,
        group,
        generation,
        kept,
        voters,
        down,
    } = plan;
    let mut text = match kept {
        Some(kept) => format!(
            "Node {node} keeps what it held of group {group} in generation {}: {} entries applied, and entry {} of term {} is the last of its log.\n",
            kept.generation, kept.applied, kept.last, kept.term
        ),
        None => format!(
            "Node {node} is to keep what it held of group {group} before it began anew, and has not said what that is.\n"
        ),
    };
    let _ = writeln!(
        text,
        "The group is in generation {generation}, and goes on with what node {} has. Were that lost, what node {node} keeps could not be used \
         any more.",
        list(voters.iter())
    );
    if !down.is_empty() {
        let _ = writeln!(text, "Of these, node {} is down.", list(down.iter()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::RecoverySourceView;

    #[test]
    fn a_plan_says_what_goes_and_what_is_left() {
        let mut plan = ForgetPlan {
            node: 3,
            group: 7,
            generation: 2,
            kept: Some(RecoverySourceView {
                generation: 1,
                applied: 69,
                last: 70,
                term: 4,
                ..RecoverySourceView::default()
            }),
            voters: vec![1, 2],
            down: Vec::new(),
        };
        let said = in_words(&plan);
        for part in [
            "Node 3 keeps what it held of group 7 in generation 1: 69 entries applied, and entry 70 of term 4 is the last of its log.",
            "in generation 2, and goes on with what node 1 2 has",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("down"), "{said}");
        plan.down = vec![2];
        plan.kept = None;
        let said = in_words(&plan);
        assert!(
            said.contains("has not said what that is") && said.contains("node 2 is down"),
            "{said}"
        );
    }
}

//! `chorale admin raise-semantics`: entries follow the newest rules that all nodes know, at once and not some time later.

use admin::{ClusterView, GoalRequest, NoRaise, RaisePlan};
use clap::{ArgMatches, Command};

use crate::admin_client::cluster;
use crate::goals::{CONFIRM, Failure, admin_port, flag, set};

pub(crate) const RAISE_SEMANTICS: &str = "raise-semantics";

const EXAMPLES: &str = "\
Examples:
  chorale admin raise-semantics
      Which semantics version entries follow, and which all nodes know. Changes nothing.
  chorale admin raise-semantics --confirm
      Entries follow the newest that all nodes know. No node can go back to a build that does not know it.

What commands do is numbered. Newer rules are followed by themselves ten minutes after the last node has started with a build that knows
them; until then every node can go back to the build that it had. It is refused as long as some node knows nothing newer, and others do. Given
again it does nothing. The status is 0 if it is done or shown, 2 if it is refused. It is taken from the machine of the node that is asked,
and from others with --cluster-secret-file;
what nodes know is known to those with a replica of the meta group.";

/// The command line.
pub(crate) fn command() -> Command {
    Command::new(RAISE_SEMANTICS)
        .about("Follow the newest rules that all nodes know at once, so that none can go back to an older build, if confirmed")
        .arg(flag(CONFIRM, "Do it"))
        .arg(admin_port())
        .after_help(EXAMPLES)
}

pub(crate) fn raise_semantics(address: &str, matches: &ArgMatches) -> Result<String, Failure> {
    let RaisePlan { from, to } = RaisePlan::of(&cluster(address)?).map_err(|why| match why {
        NoRaise::Refused(reason) => Failure::Refused(reason),
        NoRaise::NotKnown(reason) => Failure::Unknown(reason),
    })?;
    if to <= from {
        return Ok(format!(
            "Entries follow semantics version {from}, the newest that the nodes know.\n"
        ));
    }
    if !matches.get_flag(CONFIRM) {
        return Ok(format!(
            "Entries follow semantics version {from}, and all nodes know {to}. They follow it ten minutes after the last node has come to \
             know it, and until then every node can go back to the build that it had.\nNothing was done. --confirm has them follow it at once.\n"
        ));
    }
    set(address, &GoalRequest::Raise { to })?;
    Ok(format!(
        "Entries follow semantics version {to}: no node can go back to a build that does not know it.\n"
    ))
}

/// The rules that entries follow, and who knows newer ones.
pub(crate) fn semantics_in_words(view: &ClusterView) -> Option<String> {
    let from = view.semantics?;
    Some(match RaisePlan::of(view) {
        Ok(plan) if plan.to > from => format!(
            "Semantics version {from}. All nodes know {}, and follow it ten minutes after the last of them has come to know it, or by \
             chorale admin raise-semantics.",
            plan.to
        ),
        Err(NoRaise::Refused(reason)) if !view.is_meta_leaderless => {
            format!("Semantics version {from}: {reason}.")
        }
        Ok(_) | Err(_) => format!("Semantics version {from}."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::NodeView;

    #[test]
    fn the_rules_in_force_are_said_and_who_keeps_newer_ones_from_being_followed() {
        let node = |id, semantics| NodeView {
            id,
            semantics: Some(semantics),
            ..NodeView::default()
        };
        let mut view = ClusterView {
            nodes: vec![node(1, 4), node(2, 4)],
            ..ClusterView::default()
        };
        assert_eq!(semantics_in_words(&view), None, "an older node does not say it");
        view.semantics = Some(4);
        assert_eq!(semantics_in_words(&view).as_deref(), Some("Semantics version 4."));
        view.semantics = Some(3);
        assert!(semantics_in_words(&view).is_some_and(|said| said.contains("All nodes know 4")));
        (view.nodes[0].semantics, view.nodes[1].semantics) = (Some(5), Some(3));
        assert!(
            semantics_in_words(&view).is_some_and(|said| said.contains("version 3: node 2 knows no newer"))
        );
        view.nodes[1].semantics = None;
        assert_eq!(semantics_in_words(&view).as_deref(), Some("Semantics version 3."));
    }
}

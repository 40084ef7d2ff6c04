//! `chorale admin may-stop`: permission for a node to stop is asked for, and waited for.

use std::thread;
use std::time::{Duration, Instant};

use admin::{ClusterView, GoalRequest, known, stoppable};
use clap::{Arg, ArgMatches, Command};

use crate::admin_client::cluster;
use crate::goals::{Failure, NODE, WAIT, admin_port, node_of, set, time};

pub(crate) const MAY_STOP: &str = "may-stop";

pub(crate) const FOR: &str = "for";

/// For how long it is lent if nobody says so, and waited for.
const DEFAULT_TIME: &str = "300s";

/// Between two times that it is asked for.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Between two looks whether others lead.
const LOOK: Duration = Duration::from_millis(200);

/// After which it is not waited for any longer that others lead: they do when it stops.
const LED_AFTER: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  chorale admin may-stop 2
      Lends node 2 permission to stop for five minutes, or says why not. It goes on serving until it is stopped.
  chorale admin may-stop self --wait && systemctl restart chorale
      The node of this machine is started again as soon as no majority is at risk by that.
  chorale admin may-stop 2 --for 20m --wait=1h
      For a machine that takes long to come back, after whoever has it now.
  chorale admin cancel may-stop-2
      It may not any more.

It is lent to one node at a time among those that share a group, and only if every other replica of the node's groups votes, is there and
has caught up. While it is lent others lead what the node led, nothing moves in its groups, and nobody takes its place for its silence. It
ends by itself when the node has started again and has caught up, or when its time is over. The status is 0 if it is lent, 2 if it is
refused, 3 if it was still refused when --wait ended. It is taken from the machine of the node that is asked, and from
others with --cluster-secret-file.";

/// The command line.
pub(crate) fn command() -> Command {
    Command::new(MAY_STOP)
        .about("Lend a node permission to stop, to one at a time among those that share a group")
        .arg(
            Arg::new(NODE)
                .value_name("NODE")
                .required(true)
                .help("The node's number or name; self is the node that is asked"),
        )
        .arg(
            Arg::new(FOR)
                .long(FOR)
                .value_name("TIME")
                .value_parser(time)
                .default_value(DEFAULT_TIME)
                .help("For so long, as 90s, 30m or 1h; an hour at most"),
        )
        .arg(
            Arg::new(WAIT)
                .long(WAIT)
                .value_name("TIME")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value(DEFAULT_TIME)
                .value_parser(time)
                .help("Ask again and again for so long, 300s if that is not said, and then wait until others lead what it led"),
        )
        .arg(admin_port())
        .after_help(EXAMPLES)
}

pub(crate) fn may_stop(address: &str, matches: &ArgMatches) -> Result<String, Failure> {
    let called = matches.get_one::<String>(NODE).expect("it is required");
    let seconds = *matches.get_one::<u64>(FOR).expect("it has a default");
    let within = matches.get_one::<u64>(WAIT).copied().map(Duration::from_secs);
    let begun = Instant::now();
    let (node, epoch) = loop {
        let view = cluster(address)?;
        let node = node_of(&view, called)?;
        known(&view, &[node]).map_err(Failure::Refused)?;
        match asked(address, &view, node, seconds) {
            Ok(epoch) => break (node, epoch),
            Err(failure) => again(failure, within, begun.elapsed())?,
        }
        thread::sleep(ASK_AGAIN);
    };
    if within.is_none() {
        return Ok(format!(
            "Node {node} may stop within {seconds} s. Others come to lead what it leads; chorale admin jobs shows how much that is yet.\n"
        ));
    }
    let lent = Instant::now();
    loop {
        let view = cluster(address)?;
        if view.epoch >= epoch && leads(&view, node) == 0 {
            return Ok(format!(
                "Node {node} may stop within {seconds} s. It leads nothing.\n"
            ));
        }
        if lent.elapsed() >= LED_AFTER {
            return Ok(format!(
                "Node {node} may stop within {seconds} s. It leads {} groups yet, and hands them over when it stops.\n",
                leads(&view, node)
            ));
        }
        thread::sleep(LOOK);
    }
}

/// Asks once. Answers a version of the map that knows of it.
fn asked(address: &str, view: &ClusterView, node: u64, seconds: u64) -> Result<u64, Failure> {
    stoppable(view, node).map_err(Failure::Refused)?;
    let set = set(address, &GoalRequest::MayStop { node, seconds })?;
    Ok(set.epoch.unwrap_or(view.epoch + 1))
}

/// Whether it is asked again, or how it ends. It may be asked again when it is not known what came of it: it is lent once.
fn again(failure: Failure, within: Option<Duration>, waited: Duration) -> Result<(), Failure> {
    let Some(within) = within else {
        return Err(failure);
    };
    match failure {
        _ if waited < within => Ok(()),
        Failure::Refused(reason) => Err(Failure::Blocked(format!(
            "{reason}. It was asked for again and again for {} s, and is not lent",
            within.as_secs()
        ))),
        Failure::Unknown(_) | Failure::Blocked(_) => Err(failure),
    }
}

/// How many groups a node leads, the meta group included.
fn leads(view: &ClusterView, node: u64) -> u64 {
    let groups = view.groups.iter().filter(|group| group.leader == Some(node));
    groups.count() as u64 + u64::from(view.meta_leader == Some(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_asked_for_again_until_the_time_is_over() {
        let ends = |failure: Failure, within: Option<u64>, waited: u64| {
            let within = within.map(Duration::from_secs);
            match again(failure, within, Duration::from_secs(waited)) {
                Ok(()) => "again".to_owned(),
                Err(Failure::Unknown(why)) => format!("1 {why}"),
                Err(Failure::Refused(why)) => format!("2 {why}"),
                Err(Failure::Blocked(why)) => format!("3 {why}"),
            }
        };
        let refused = || Failure::Refused("no".to_owned());
        assert_eq!(ends(refused(), None, 0), "2 no");
        assert_eq!(ends(refused(), Some(5), 4), "again");
        assert!(ends(refused(), Some(5), 5).starts_with("3 no. It was asked for"));
        let unknown = || Failure::Unknown("no word".to_owned());
        assert_eq!(ends(unknown(), Some(5), 4), "again");
        assert_eq!(ends(unknown(), Some(5), 5), "1 no word");
    }
}

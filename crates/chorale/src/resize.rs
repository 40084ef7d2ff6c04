//! `chorale admin set-rf`: each group is to have another number of replicas. Shown as a plan, done when it is confirmed, and followed to
//! its end, as `rebalance` is.

use std::fmt::Write;
use std::time::Instant;

use admin::{ClusterView, GoalRequest, MovePlan};
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command};

use crate::admin_client::cluster;
use crate::goals::{CONFIRM, Failure, WAIT, admin_port, flag, set};
use crate::print;
use crate::rebalance::{Wanted, Watch, blocked_in_words, follow, in_words, plan};

pub(crate) const SET_RF: &str = "set-rf";

const REPLICAS: &str = "replicas";

/// The page that says what would move, but for how many replicas.
const PLAN_PAGE: &str = "/set-rf/";

const EXAMPLES: &str = "\
Examples:
  chorale admin set-rf 5
      What would move if each group was to have five replicas. Changes nothing.
  chorale admin set-rf 5 --confirm --wait
      Does it, and waits until each group has them. Each bears the loss of two nodes then.
  chorale admin set-rf auto --confirm
      As many as a cluster has of which nothing is said: one, and three once it has had three nodes.

With more replicas a group first fills the new ones, and they vote when they have all. With fewer, others lead first where a leader is to
go, and voters go one at a time, while all the others of the group are there. It is refused if there are fewer nodes than replicas, if
the nodes have no memory for them, or if the loss of a zone is borne now and could not be then. It can be ended at any time, and given
again, or with another number: what is wanted is kept by the cluster, chorale admin jobs shows how far it is, and chorale admin pause
holds it up. The status is 0 if it is done or shown, 2 if it is refused, 3 if nothing moves and somebody has to do something about it. It
is taken from the machine of the node that is asked, and from others with --cluster-secret-file; what would move is known to nodes with a replica of the meta group.";

/// The command line.
pub(crate) fn command() -> Command {
    Command::new(SET_RF)
        .about("Give each group another number of replicas: say what would move, and do it if confirmed")
        .arg(
            Arg::new(REPLICAS)
                .value_name("REPLICAS")
                .required(true)
                .value_parser(PossibleValuesParser::new(["auto", "1", "3", "4", "5", "6"]))
                .help("How many; four bear no more losses than three, nor six than five, but read from one more"),
        )
        .arg(flag(CONFIRM, "Do it"))
        .arg(flag(WAIT, "Wait until it is done, and show how far it is"))
        .arg(admin_port())
        .after_help(EXAMPLES)
}

const RESIZED: Wanted = Wanted {
    left: |view| view.resize.map(|resize| resize.left),
    verb: "replicated",
    done: "Each group has as many replicas as are wanted.\n",
};

pub(crate) fn resize(address: &str, matches: &ArgMatches) -> Result<String, Failure> {
    let factor = matches.get_one::<String>(REPLICAS).expect("it is required");
    let view = cluster(address)?;
    let is_confirmed = matches.get_flag(CONFIRM);
    let mut text = match plan(address, &format!("{PLAN_PAGE}{factor}"))? {
        Ok(MovePlan {
            refused: Some(reason),
            ..
        }) => return Err(Failure::Refused(reason)),
        Ok(plan) => replicas_in_words(&plan, &view),
        // It may be wanted all the same.
        Err(reason) if is_confirmed => format!("What moves is not known here: {reason}.\n"),
        Err(reason) => return Err(Failure::Unknown(reason)),
    };
    if !is_confirmed {
        text.push_str("Nothing was done. --confirm does it.\n");
        return Ok(text);
    }
    let request = GoalRequest::Resize {
        factor: factor.clone(),
    };
    let epoch = set(address, &request)?.epoch;
    if !matches.get_flag(WAIT) {
        text.push_str("It is under way: chorale admin jobs shows how far it is.\n");
        return Ok(text);
    }
    print(&text);
    let watch = Watch::new(epoch.unwrap_or(view.epoch + 1), &RESIZED, Instant::now());
    follow(address, watch)
}

/// What a plan comes to.
fn replicas_in_words(plan: &MovePlan, view: &ClusterView) -> String {
    let now: u64 = plan.loads.iter().map(|load| load.now).sum();
    let then: u64 = plan.loads.iter().map(|load| load.then).sum();
    let groups = view.groups.len().max(1) as u64;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} groups: {now} replicas now, {then} then, {} of each group.",
        view.groups.len(),
        then / groups
    );
    if then < now {
        let _ = writeln!(
            text,
            "{} replicas go: others lead first where a leader is to go, and what the rest bears is less: the loss of {} of a group's nodes.",
            now - then,
            then.div_ceil(groups).saturating_sub(1) / 2
        );
    }
    match plan.moves.is_empty() && plan.meta.is_empty() && then < now {
        true => text.push_str(&blocked_in_words(view)),
        false => text.push_str(&in_words(plan, view)),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::{GroupView, NodeLoad, PauseView, ResizeView};

    fn view() -> ClusterView {
        ClusterView {
            groups: vec![GroupView::default(), GroupView::default()],
            ..ClusterView::default()
        }
    }

    fn loads(of: [(u64, u64); 3]) -> Vec<NodeLoad> {
        let load = |(node, (now, then))| NodeLoad { node, now, then };
        (1..).zip(of).map(load).collect()
    }

    #[test]
    fn a_plan_says_how_many_replicas_there_are_then_and_what_they_bear() {
        let mut view = view();
        view.groups.iter_mut().for_each(|group| group.leader = Some(1));
        let mut plan = MovePlan {
            loads: loads([(2, 2), (2, 0), (2, 0)]),
            ..MovePlan::default()
        };
        let said = replicas_in_words(&plan, &view);
        assert!(
            said.starts_with("2 groups: 6 replicas now, 2 then, 1 of each group.\n4 replicas go"),
            "{said}"
        );
        assert!(
            said.contains("the loss of 0 of a group's nodes") && !said.contains("nothing would move"),
            "{said}"
        );
        view.pause = Some(PauseView::default());
        assert!(replicas_in_words(&plan, &view).contains("as things are: all is paused"));
        plan.loads = loads([(2, 2), (0, 2), (0, 2)]);
        plan.moves = vec![(0, 2), (0, 3), (1, 2), (1, 3)];
        let said = replicas_in_words(&plan, &view);
        assert!(
            said.contains("2 replicas now, 6 then, 3 of each group.\n4 of 6 replicas of groups move"),
            "{said}"
        );
    }

    #[test]
    fn it_is_over_when_nobody_wants_it_any_more() {
        let mut view = view();
        let left = RESIZED.left;
        view.resize = Some(ResizeView {
            wanted: 5,
            left: None,
        });
        assert_eq!(left(&view), Some(None));
        view.resize = Some(ResizeView {
            wanted: 5,
            left: Some(2),
        });
        assert_eq!(left(&view), Some(Some(2)));
        view.resize = None;
        assert_eq!(left(&view), None);
    }
}

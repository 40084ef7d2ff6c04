//! What an operator wants of nodes: a plan, made from the page `/cluster` and shown; what a node is asked for, if that is confirmed; and
//! how far it is, read from the same page again and again.

use crate::cluster::{ClusterView, GoalView, GroupView, NodeView, ReplicaRole};
use crate::recovery::list;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Why a node does not say that something was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalError {
    /// Nothing was done, and why, in a sentence for an operator.
    Refused(String),
    /// It may have been done, or may be yet, and why that is not known.
    NotKnown(String),
}

impl fmt::Display for GoalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GoalError::Refused(reason) => f.write_str(reason),
            GoalError::NotKnown(why) => write!(
                f,
                "it is not known whether it was done ({why}): look at chorale admin jobs before you try again"
            ),
        }
    }
}

impl From<String> for GoalError {
    fn from(reason: String) -> GoalError {
        GoalError::Refused(reason)
    }
}

/// What a node answers when it is done, as JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoalsSet {
    /// A version of the map that knows of it, where that is said.
    #[serde(default)]
    pub epoch: Option<u64>,
}

impl GoalsSet {
    /// As JSON.
    pub fn to_json(self) -> String {
        serde_json::to_string(&self).expect("numbers have a form in JSON")
    }

    /// From what a node answered; one of an older version says nothing.
    pub fn from_json(answer: &str) -> GoalsSet {
        serde_json::from_str(answer).unwrap_or_default()
    }
}

/// Why nothing moves if nobody decides.
pub(crate) const LEADERLESS: &str =
    "nobody leads the meta group: bring back a majority of its nodes, see chorale admin status";

/// Why nothing moves that nobody needs at once.
pub(crate) const PAUSED: &str = "all is paused: chorale admin resume";

/// Whether the node that was asked does not hear of this one.
pub(crate) fn is_down(view: &ClusterView, id: u64) -> bool {
    !view.nodes.iter().any(|node| node.id == id && node.is_up)
}

/// As many voters the meta group keeps, once it has them.
const META_THREE: usize = 3;

/// Groups that are named in a sentence; of others it says how many there are.
const NAMED_MAX: usize = 8;

/// What a node is asked for, the body of a `POST` to `/goals`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GoalRequest {
    /// Nodes are to have no replicas.
    Drain {
        /// Which.
        nodes: Vec<u64>,
        /// Whether they are no members any more then.
        leave: bool,
    },
    /// They may have replicas after all.
    Stay {
        /// Which.
        nodes: Vec<u64>,
    },
    /// Nothing is to move but what repairs.
    Pause {
        /// For how many seconds; until it is ended where that is not said.
        seconds: Option<u64>,
    },
    /// What is to move moves.
    Resume {},
    /// Everything is to be placed anew, by what nodes say of themselves now.
    Rebalance {},
    /// Each group is to have another number of replicas.
    Resize {
        /// How many, as `auto` or a number.
        factor: String,
    },
    /// Entries are to follow newer rules.
    Raise {
        /// The semantics version.
        to: u16,
    },
    /// There are to be so many groups. Tests ask for it: operators need not, and have no command for it.
    Groups {
        /// How many, all together.
        count: u16,
    },
    /// A node may stop for a while.
    MayStop {
        /// Which.
        node: u64,
        /// For how many seconds.
        seconds: u64,
    },
    /// It may not any more.
    EndPermit {
        /// Which.
        node: u64,
    },
    /// Others are to have at once what a node has that is down.
    Replace {
        /// Which.
        node: u64,
        /// Who gets it; whoever has room where that is not said.
        with: Option<u64>,
    },
    /// The same of all nodes of a zone, which are down, together.
    ReplaceZone {
        /// Which.
        zone: String,
    },
    /// A node need not keep any longer what it held of a group before that began anew.
    Forget {
        /// Which node.
        node: u64,
        /// Which group.
        group: u16,
        /// The generation of the group that was looked at.
        generation: u64,
    },
}

impl GoalRequest {
    /// As JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers have a form in JSON")
    }
}

/// How far nodes are that are to be emptied, and what that is worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Replicas of groups of keys on them, those included that are being filled.
    pub replicas: u64,
    /// Bytes of these, as far as the node that was asked knows; of the others as many as of one that it knows.
    pub bytes: u64,
    /// Whether some of these bytes are a guess.
    pub is_guess: bool,
    /// Groups that they lead.
    pub led: u64,
    /// How many of them have a replica of the meta group.
    pub meta: u64,
    /// Of how many groups they keep something without a replica: what the group may need yet, or what it still counts as its own.
    pub kept: u64,
    /// Groups of which it is not known who has a replica.
    pub unheard: u64,
}

impl Load {
    /// Of these nodes.
    pub fn of(view: &ClusterView, nodes: &BTreeSet<u64>) -> Load {
        let average = view.average_bytes();
        let mut load = Load::default();
        for group in &view.groups {
            let is_there = |replica: &&crate::cluster::ReplicaStatus| {
                nodes.contains(&replica.node) && replica.role != ReplicaRole::Lost
            };
            let here = group.replicas.iter().filter(is_there).count() as u64;
            load.replicas += here;
            load.bytes += here * group.bytes.unwrap_or(average);
            load.is_guess |= here > 0 && group.bytes.is_none();
            load.led += u64::from(group.leader.is_some_and(|leader| nodes.contains(&leader)));
            load.kept += nodes.iter().filter(|node| keeps(group, **node)).count() as u64;
            load.unheard += u64::from(group.is_unheard);
        }
        load.meta = view.meta_nodes.iter().filter(|node| nodes.contains(node)).count() as u64;
        load
    }

    /// Whether there is nothing, so that nothing is lost with these nodes.
    pub fn is_nothing(&self) -> bool {
        self.replicas == 0 && self.meta == 0 && self.kept == 0 && self.unheard == 0
    }
}

/// What would come of it if nodes were to be emptied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainPlan {
    /// Which nodes.
    pub nodes: BTreeSet<u64>,
    /// Whether they leave.
    pub leave: bool,
    /// What they have.
    pub load: Load,
    /// The nodes that get it.
    pub to: Vec<u64>,
    /// Of these nodes, those that were to leave, and are not to any more.
    pub retained: Vec<u64>,
    /// How many more nodes the weakest of the groups that move can lose meanwhile, as things are; none if none moves.
    pub bearable: Option<u64>,
    /// Why nothing would move now, a sentence each.
    pub blocked: Vec<String>,
}

impl DrainPlan {
    /// From what a node sees.
    ///
    /// # Errors
    /// Why it cannot be, for an operator, and what to do about it.
    pub fn of(view: &ClusterView, nodes: &[u64], leave: bool) -> Result<DrainPlan, String> {
        let nodes = known(view, nodes)?;
        for node in view.nodes.iter().filter(|node| nodes.contains(&node.id)) {
            if node.goal == GoalView::Left && !leave {
                return Err(format!("node {} has left already", node.id));
            }
        }
        let stays = |node: &&NodeView| node.goal == GoalView::Stays && !nodes.contains(&node.id);
        let to: Vec<u64> = view.nodes.iter().filter(stays).map(|node| node.id).collect();
        let is_new = |node: &NodeView| nodes.contains(&node.id) && node.goal == GoalView::Stays;
        let wanted = usize::from(view.replication_factor);
        if to.len() < wanted && view.nodes.iter().any(is_new) {
            return Err(too_few(to.len(), wanted));
        }
        let involved = view.groups.iter().filter(|group| involves(group, &nodes));
        let bearable = involved.map(|group| bearable(view, group)).min();
        let is_retained =
            |node: &&NodeView| !leave && node.goal == GoalView::Leaves && nodes.contains(&node.id);
        let retained = view.nodes.iter().filter(is_retained);
        Ok(DrainPlan {
            leave,
            load: Load::of(view, &nodes),
            retained: retained.map(|node| node.id).collect(),
            bearable,
            blocked: blocked(view, &nodes),
            to,
            nodes,
        })
    }
}

/// Why so few nodes are not enough, and what to do.
pub fn too_few(left: usize, wanted: usize) -> String {
    format!(
        "{left} {} would be left, for {wanted} replicas of each group. Have another node join first (chorale server --join ...), or name \
         fewer nodes",
        if left == 1 { "node" } else { "nodes" }
    )
}

/// These nodes, each once.
///
/// # Errors
/// If there is one that is none.
pub fn known(view: &ClusterView, nodes: &[u64]) -> Result<BTreeSet<u64>, String> {
    if view.cluster.is_empty() {
        return Err("the node that was asked is in no cluster".to_owned());
    }
    for id in nodes {
        if !view.nodes.iter().any(|node| node.id == *id) {
            let there = list(view.nodes.iter().map(|node| node.id));
            return Err(format!("there is no node {id}; there are {there}"));
        }
    }
    Ok(nodes.iter().copied().collect())
}

/// Why nothing of what is on these nodes moves now, or why they are not told that they may go, a sentence each. Those that have been
/// told wait for nothing but the meta group.
pub fn blocked(view: &ClusterView, nodes: &BTreeSet<u64>) -> Vec<String> {
    let mut reasons = Vec::new();
    if view.is_meta_leaderless {
        reasons.push(LEADERLESS.to_owned());
    }
    let waits = |node: &&NodeView| nodes.contains(&node.id) && node.goal != GoalView::Left;
    let waiting: BTreeSet<u64> = view.nodes.iter().filter(waits).map(|node| node.id).collect();
    if waiting.is_empty() {
        return reasons;
    }
    if view.pause.is_some() {
        reasons.push(PAUSED.to_owned());
    }
    // What is on a node that is drained and down itself is filled again elsewhere, and not waited for.
    let is_missed = |id: &u64| !nodes.contains(id) && is_down(view, *id);
    let is_kept = |group: &GroupView| waiting.iter().any(|node| keeps(group, *node));
    let mut down = BTreeSet::new();
    let (mut kept, mut unheard) = (Vec::new(), Vec::new());
    for group in &view.groups {
        if involves(group, &waiting) || is_kept(group) {
            let voters = group
                .replicas
                .iter()
                .filter(|replica| replica.role == ReplicaRole::Voter);
            down.extend(voters.map(|voter| voter.node).filter(is_missed));
        }
        if is_kept(group) {
            kept.push(group.number);
        }
        if group.is_unheard {
            unheard.push(group.number);
        }
    }
    if !down.is_empty() {
        reasons.push(format!(
            "node {} is down, and has replicas of the same groups: bring it back, or chorale admin replace",
            list(down.iter())
        ));
    }
    if !kept.is_empty() {
        reasons.push(format!(
            "groups {} are not whole, and may need what node {} keeps of them: chorale admin status says what they lack, chorale admin \
             recover what can be done, and chorale admin forget gives up what is kept",
            some(&kept),
            list(waiting.iter())
        ));
    }
    if !unheard.is_empty() {
        reasons.push(format!(
            "nobody has said who leads groups {} since the meta group began anew: bring back their nodes, or chorale admin recover",
            some(&unheard)
        ));
    }
    let stays = |node: &&NodeView| node.goal == GoalView::Stays && node.is_up && !nodes.contains(&node.id);
    let stay = view.nodes.iter().filter(stays).count();
    let wanted = usize::from(view.replication_factor);
    if stay < wanted && !Load::of(view, &waiting).is_nothing() {
        reasons.push(too_few(stay, wanted));
    }
    reasons
}

/// The first of these, and how many more there are.
pub(crate) fn some(groups: &[u16]) -> String {
    let named = list(groups.iter().take(NAMED_MAX));
    match groups.len().saturating_sub(NAMED_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Whether the node has no replica of the group, and yet something that the group may need, or counts as its own.
fn keeps(group: &GroupView, node: u64) -> bool {
    let its = || group.replicas.iter().filter(|replica| replica.node == node);
    let has_replica = its().any(|replica| replica.role != ReplicaRole::Lost);
    let has_source = || group.recovery_sources.iter().any(|source| source.node == node);
    !has_replica && (group.former.contains(&node) || its().next().is_some() || has_source())
}

fn involves(group: &GroupView, nodes: &BTreeSet<u64>) -> bool {
    group.replicas.iter().any(|replica| nodes.contains(&replica.node))
}

/// How many more nodes a group can lose.
fn bearable(view: &ClusterView, group: &GroupView) -> u64 {
    let is_up = |id: u64| view.nodes.iter().any(|node| node.id == id && node.is_up);
    let voters = group
        .replicas
        .iter()
        .filter(|replica| replica.role == ReplicaRole::Voter);
    let live = voters.filter(|voter| is_up(voter.node)).count() as u64;
    live.saturating_sub(group.voters / 2 + 1)
}

/// Why a node cannot be replaced by another one now, for an operator.
///
/// # Errors
/// That.
pub fn replaceable(view: &ClusterView, node: u64, with: Option<u64>) -> Result<(), String> {
    let named: Vec<u64> = std::iter::once(node).chain(with).collect();
    let nodes = known(view, &named)?;
    if nodes.len() < named.len() {
        return Err(format!("node {node} cannot take its own place"));
    }
    if !is_down(view, node) {
        return Err(format!(
            "node {node} is up, as node {} sees it: drain it instead (chorale admin drain {node} --leave)",
            view.answered_by
        ));
    }
    let stays = |id: u64| {
        let mut nodes = view.nodes.iter();
        nodes.any(|known| known.id == id && known.goal == GoalView::Stays)
    };
    if let Some(with) = with
        && (is_down(view, with) || !stays(with))
    {
        return Err(format!("node {with} is down, or is to have no replicas"));
    }
    check_left_without(view, &[node].into())
}

/// The nodes of a zone, if all of them can be replaced now.
///
/// # Errors
/// Why they cannot, for an operator.
pub fn replaceable_zone(view: &ClusterView, zone: &str) -> Result<BTreeSet<u64>, String> {
    let stays_member = |node: &&NodeView| node.goal != GoalView::Left && !zone.is_empty();
    let its = view.nodes.iter().filter(stays_member);
    let nodes: BTreeSet<u64> = its.filter(|node| node.zone == zone).map(|node| node.id).collect();
    if nodes.is_empty() {
        let zones: BTreeSet<&str> = view.nodes.iter().map(|node| &*node.zone).collect();
        let zones: Vec<&str> = zones.into_iter().filter(|zone| !zone.is_empty()).collect();
        return Err(match zones.is_empty() {
            true => format!("no node is in zone {zone:?}: none says that it is in any"),
            false => format!("no node is in zone {zone:?}; there are {}", list(zones.iter())),
        });
    }
    let up: Vec<u64> = nodes.iter().copied().filter(|id| !is_down(view, *id)).collect();
    if !up.is_empty() {
        return Err(format!(
            "node {} of zone {zone} is up, as node {} sees it, and a zone is replaced as a whole: name those that are down one by one (chorale \
             admin replace NODE), or drain the zone",
            list(up.iter()),
            view.answered_by
        ));
    }
    check_left_without(view, &nodes)?;
    Ok(nodes)
}

/// Whether the groups can do without these nodes, and enough others are left.
fn check_left_without(view: &ClusterView, nodes: &BTreeSet<u64>) -> Result<(), String> {
    let helpless = helpless(view, nodes);
    if !helpless.is_empty() {
        return Err(format!(
            "groups {} have no leader: chorale admin recover says what can be done for them, and {} replaced then",
            some(&helpless),
            if nodes.len() == 1 {
                "the node is"
            } else {
                "the nodes are"
            }
        ));
    }
    let stay = view
        .nodes
        .iter()
        .filter(|known| known.goal == GoalView::Stays && !nodes.contains(&known.id));
    let (left, wanted) = (stay.count(), usize::from(view.replication_factor));
    if left < wanted {
        return Err(too_few(left, wanted));
    }
    // It is not made smaller because nodes are away.
    let meta_wanted = view.meta_nodes.len().min(META_THREE);
    let is_meta = view.meta_nodes.iter().any(|node| nodes.contains(node));
    match is_meta && left < meta_wanted {
        true => Err(format!(
            "{left} nodes would be left, for {meta_wanted} voters of the meta group. Have another node join first (chorale server --join \
             ...)"
        )),
        false => Ok(()),
    }
}

/// Groups with replicas on these nodes that nobody leads.
fn helpless(view: &ClusterView, nodes: &BTreeSet<u64>) -> Vec<u16> {
    let involved = view.groups.iter().filter(|group| involves(group, nodes));
    involved
        .filter(|group| group.leader.is_none() || group.has_lost_majority)
        .map(|group| group.number)
        .collect()
}

/// Why what nodes had that are replaced does not come to be elsewhere, a sentence each. A pause holds none of it up: it repairs.
pub fn replace_blocked(view: &ClusterView, nodes: &BTreeSet<u64>) -> Vec<String> {
    let mut reasons = Vec::new();
    if view.is_meta_leaderless {
        reasons.push(LEADERLESS.to_owned());
    }
    let helpless = helpless(view, nodes);
    if !helpless.is_empty() {
        reasons.push(format!(
            "groups {} have no leader: bring back their nodes, or see what chorale admin recover can do for them",
            some(&helpless)
        ));
    }
    let stays = |node: &&NodeView| node.goal == GoalView::Stays && node.is_up && !nodes.contains(&node.id);
    let stay = view.nodes.iter().filter(stays).count();
    let wanted = usize::from(view.replication_factor);
    if stay < wanted {
        reasons.push(too_few(stay, wanted));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{PauseView, RecoverySourceView, ReplicaStatus};

    /// Four nodes and two groups, on the first three and on the last three. The node that answers knows the bytes of the first.
    fn view() -> ClusterView {
        let node = |id| NodeView {
            id,
            is_up: true,
            ..NodeView::default()
        };
        let group = |number: u16, nodes: [u64; 3]| GroupView {
            number,
            leader: Some(nodes[0]),
            voters: 3,
            bytes: (number == 0).then_some(1_000),
            replicas: nodes
                .iter()
                .map(|&node| ReplicaStatus {
                    node,
                    incarnation: node * 10 + u64::from(number),
                    role: ReplicaRole::Voter,
                    lag: None,
                })
                .collect(),
            ..GroupView::default()
        };
        ClusterView {
            cluster: "c".to_owned(),
            replication_factor: 3,
            meta_nodes: vec![1, 2, 3],
            nodes: (1..=4).map(node).collect(),
            groups: vec![group(0, [1, 2, 3]), group(1, [2, 3, 4])],
            ..ClusterView::default()
        }
    }

    #[test]
    fn a_plan_says_what_moves_where_to_and_what_can_be_lost_meanwhile() {
        let plan = DrainPlan::of(&view(), &[2], true).expect("three nodes are left");
        let load = Load {
            replicas: 2,
            bytes: 2_000,
            is_guess: true,
            led: 1,
            meta: 1,
            kept: 0,
            unheard: 0,
        };
        assert_eq!(
            (plan.load, plan.to, plan.bearable),
            (load, vec![1, 3, 4], Some(1))
        );
        assert!(plan.blocked.is_empty(), "{:?}", plan.blocked);
    }

    #[test]
    fn a_plan_that_leaves_too_few_nodes_is_none_and_says_what_to_do() {
        for nodes in [&[1, 2][..], &[7]] {
            let refused = DrainPlan::of(&view(), nodes, false).expect_err("it is none");
            assert!(
                refused.contains("join first") || refused.contains("no node 7"),
                "{refused}"
            );
        }
        // What was said already can be said again.
        let mut view = view();
        view.nodes[0].goal = GoalView::Drains;
        view.nodes.pop();
        assert!(DrainPlan::of(&view, &[1], false).is_ok());
        let blocked = DrainPlan::of(&view, &[1], false).expect("it was said").blocked;
        assert!(
            blocked.iter().any(|why| why.contains("2 nodes would be left")),
            "{blocked:?}"
        );
    }

    #[test]
    fn what_blocks_is_said_with_what_to_do_about_it() {
        let mut view = view();
        view.nodes[2].is_up = false;
        view.pause = Some(PauseView::default());
        view.is_meta_leaderless = true;
        let said = blocked(&view, &[1].into()).join(" ");
        for part in ["meta group", "resume", "node 3 is down"] {
            assert!(said.contains(part), "{said}");
        }
        let plan = DrainPlan::of(&view, &[1], false).expect("it may be wanted all the same");
        assert_eq!(plan.bearable, Some(0));
    }

    #[test]
    fn a_node_that_keeps_what_a_group_may_need_is_not_empty_and_that_is_said() {
        let empty = || {
            let mut view = view();
            view.groups.remove(1);
            view.nodes[3].goal = GoalView::Drains;
            view
        };
        let its: BTreeSet<u64> = [4].into();
        assert!(Load::of(&empty(), &its).is_nothing() && blocked(&empty(), &its).is_empty());

        // The group is over: it has no replicas, and may begin anew with what node 4 has.
        let mut over = empty();
        over.groups[0].replicas.clear();
        over.groups[0].former = vec![2, 4];
        let mut source = empty();
        source.groups[0].recovery_sources = vec![RecoverySourceView {
            node: 4,
            ..RecoverySourceView::default()
        }];
        let mut lost = empty();
        lost.groups[0].replicas.push(ReplicaStatus {
            node: 4,
            incarnation: 40,
            role: ReplicaRole::Lost,
            lag: None,
        });
        let mut unheard = empty();
        unheard.groups[0].is_unheard = true;
        for (view, part) in [
            (over, "groups 0 are not whole"),
            (source, "groups 0 are not whole"),
            (lost, "groups 0 are not whole"),
            (unheard, "leads groups 0"),
        ] {
            assert!(!Load::of(&view, &its).is_nothing(), "{part}");
            let said = blocked(&view, &its).join(" ");
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(
            some(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
            "1 2 3 4 5 6 7 8 and 2 more"
        );
    }

    #[test]
    fn a_node_that_is_down_does_not_block_its_own_drain() {
        let mut view = view();
        view.nodes[3].is_up = false;
        assert_eq!(blocked(&view, &[4].into()), Vec::<String>::new());
        assert!(blocked(&view, &[2].into()).join(" ").contains("node 4 is down"));
    }

    #[test]
    fn who_was_told_to_go_waits_for_the_meta_group_alone() {
        let mut view = view();
        view.groups.remove(1);
        view.pause = Some(PauseView::default());
        view.nodes[3].goal = GoalView::Leaves;
        // It holds nothing, so few nodes are enough; but while all is paused it is not told.
        view.nodes[2].goal = GoalView::Drains;
        let said = blocked(&view, &[4].into());
        assert!(said.len() == 1 && said[0].contains("resume"), "{said:?}");
        view.nodes[3].goal = GoalView::Left;
        assert!(blocked(&view, &[4].into()).is_empty());
        view.is_meta_leaderless = true;
        assert_eq!(blocked(&view, &[4].into()).len(), 1);
    }

    #[test]
    fn a_plan_says_who_is_not_to_leave_any_more_and_nothing_of_groups_if_none_moves() {
        let mut view = view();
        view.groups.remove(1);
        view.nodes[3].goal = GoalView::Leaves;
        let plan = DrainPlan::of(&view, &[4], false).expect("three nodes are left");
        assert_eq!((plan.retained, plan.bearable), (vec![4], None));
        let plan = DrainPlan::of(&view, &[4], true).expect("three nodes are left");
        assert!(plan.retained.is_empty());
    }

    #[test]
    fn a_node_that_is_up_is_not_replaced_nor_one_whose_groups_stand_still() {
        let mut view = view();
        assert!(replaceable(&view, 1, None).is_err_and(|why| why.contains("drain")));
        view.nodes[0].is_up = false;
        assert_eq!(replaceable(&view, 1, Some(4)), Ok(()));
        assert!(replaceable(&view, 1, Some(1)).is_err());
        // One replica of each group is wanted, and three of the meta group are on three nodes.
        let mut few = view.clone();
        few.replication_factor = 1;
        few.nodes.pop();
        assert!(replaceable(&few, 1, None).is_err_and(|why| why.contains("3 voters of the meta group")));
        few.meta_nodes = vec![2];
        assert_eq!(replaceable(&few, 1, None), Ok(()));
        view.groups[0].leader = None;
        assert!(replaceable(&view, 1, None).is_err_and(|why| why.contains("recover")));
    }

    #[test]
    fn a_zone_is_replaced_if_all_of_it_is_down_and_the_others_can_do_without_it() {
        let mut view = view();
        for (node, zone) in view.nodes.iter_mut().zip(["a", "b", "b", "c"]) {
            node.zone = zone.to_owned();
        }
        view.replication_factor = 2;
        // Of each group two of three voters are left.
        view.groups[1].replicas[1].node = 1;
        view.groups[0].replicas[1].node = 4;
        (view.groups[0].leader, view.groups[1].leader) = (Some(1), Some(4));
        let refused =
            |view: &ClusterView, zone: &str| replaceable_zone(view, zone).expect_err("it is refused");
        assert!(refused(&view, "b").contains("node 2 3 of zone b is up"));
        view.nodes[1].is_up = false;
        let said = refused(&view, "b");
        assert!(said.contains("node 3 of zone b is up"), "{said}");
        view.nodes[2].is_up = false;
        view.meta_nodes = vec![1, 2];
        assert_eq!(replaceable_zone(&view, "b"), Ok([2, 3].into()));
        assert!(replace_blocked(&view, &[2, 3].into()).is_empty());
        for zone in ["", "d"] {
            let said = refused(&view, zone);
            assert!(said.contains("there are a b c"), "{said}");
        }
        // Three voters of the meta group, or three replicas of each group, need three nodes.
        let mut wide = view.clone();
        wide.meta_nodes = vec![1, 2, 3];
        assert!(refused(&wide, "b").contains("3 voters of the meta group"));
        view.replication_factor = 3;
        assert!(refused(&view, "b").contains("2 nodes would be left"));
        let said = replace_blocked(&view, &[2, 3].into()).join(" ");
        assert!(said.contains("2 nodes would be left"), "{said}");
        view.replication_factor = 2;
        view.groups[1].leader = None;
        assert!(refused(&view, "b").contains("groups 1 have no leader"));
        view.is_meta_leaderless = true;
        assert_eq!(replace_blocked(&view, &[2, 3].into()).len(), 2);
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        for request in [
            GoalRequest::Drain {
                nodes: vec![1, 2],
                leave: true,
            },
            GoalRequest::Stay { nodes: vec![1] },
            GoalRequest::Pause { seconds: Some(3) },
            GoalRequest::Resume {},
            GoalRequest::Rebalance {},
            GoalRequest::Resize {
                factor: "5".to_owned(),
            },
            GoalRequest::MayStop {
                node: 2,
                seconds: 300,
            },
            GoalRequest::EndPermit { node: 2 },
            GoalRequest::Groups { count: 7 },
            GoalRequest::Replace { node: 1, with: None },
            GoalRequest::ReplaceZone { zone: "a".to_owned() },
            GoalRequest::Forget {
                node: 1,
                group: 2,
                generation: 3,
            },
        ] {
            assert_eq!(
                serde_json::from_str::<GoalRequest>(&request.to_json()).unwrap(),
                request
            );
        }
        let set = GoalsSet { epoch: Some(3) };
        assert_eq!(GoalsSet::from_json(&set.to_json()), set);
        assert_eq!(GoalsSet::from_json("done\n"), GoalsSet::default());
    }
}

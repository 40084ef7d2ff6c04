//! What can be done for groups that have lost the memory of most of their voters: a plan, made from the page `/cluster`, shown
//! to an operator, and carried out as it was shown, or not at all.

use crate::cluster::{ClusterView, GroupView, ReplicaRole, ReplicaStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a node is asked for, the body of a `POST` to `/recover`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverRequest {
    /// Starts of nodes that will never come back with what they had.
    pub gone: Vec<u64>,
    /// The groups that begin anew.
    pub groups: Vec<Renewal>,
}

/// One group that begins anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// Its number.
    pub group: u16,
    /// On which node.
    pub node: u64,
    /// With the memory of this replica there; empty without.
    pub recovery_source: Option<u64>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovered {
    /// The groups that have begun anew.
    pub groups: Vec<u16>,
    /// What was not done, and why, a sentence each.
    pub refused: Vec<String>,
}

/// What would happen to one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It begins anew with what a replica has.
    Inherits {
        /// Where that is.
        node: u64,
        /// Whose memory.
        incarnation: u64,
        /// The entries that it has applied.
        applied: u64,
        /// Entries behind these in its log, which count from then on.
        uncommitted: u64,
        /// Whether its log was damaged, and may lack what was in it once.
        is_damaged: bool,
    },
    /// Nobody has anything: it begins empty on this node.
    Empties {
        /// Which.
        node: u64,
    },
    /// Nothing happens to it: these nodes may have what is missing.
    Waits {
        /// They are not heard of.
        nodes: Vec<u64>,
    },
    /// Nothing happens to it yet: this node has not said what it has.
    Untold {
        /// Which.
        node: u64,
    },
}

/// What would happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Nodes that will never come back with what they had, with the starts that are meant.
    pub gone: BTreeMap<u64, u64>,
    /// The groups that have no majority.
    pub fates: BTreeMap<u16, Fate>,
}

impl Plan {
    /// From what a node sees, if these nodes are gone for good.
    ///
    /// # Errors
    /// Why nothing can be done now, for an operator.
    pub fn of(view: &ClusterView, gone: &[u64]) -> Result<Plan, String> {
        if view.is_meta_leaderless {
            return Err(format!(
                "nobody leads the meta group, which must decide this. Bring back a majority of its nodes ({}), each with its \
                 directory: killed processes may simply be started again. If the directories of a majority are gone for good, \
                 see `chorale admin recover --help` about --meta",
                list(view.meta_nodes.iter())
            ));
        }
        let mut plan = Plan::default();
        for &id in gone {
            let node = view.nodes.iter().find(|node| node.id == id);
            let node = node.ok_or_else(|| format!("there is no node {id}"))?;
            if node.is_up {
                return Err(format!(
                    "node {id} is up, as node {} sees it: only a node that will never come back with what it had can be called gone",
                    view.answered_by
                ));
            }
            plan.gone.insert(id, node.boot);
        }
        let is_there = |id: u64| view.nodes.iter().any(|node| node.id == id && node.is_up);
        let mut emptied: BTreeMap<u64, usize> = view
            .nodes
            .iter()
            .filter(|node| node.is_up)
            .map(|node| (node.id, 0))
            .collect();
        for group in view.groups.iter().filter(|group| group.lacks_majority(gone)) {
            let fate = fate(group, gone, is_there, &mut emptied);
            plan.fates.insert(group.number, fate);
        }
        Ok(plan)
    }

    /// What a node is to be asked for; none if there is nothing to be done.
    pub fn recovery(&self) -> Option<RecoverRequest> {
        let groups = self.fates.iter().filter_map(|(&group, fate)| match *fate {
            Fate::Inherits {
                node, incarnation, ..
            } => Some(Renewal {
                group,
                node,
                recovery_source: Some(incarnation),
            }),
            Fate::Empties { node } => Some(Renewal {
                group,
                node,
                recovery_source: None,
            }),
            Fate::Waits { .. } | Fate::Untold { .. } => None,
        });
        let recovery = RecoverRequest {
            gone: self.gone.values().copied().collect(),
            groups: groups.collect(),
        };
        (recovery != RecoverRequest::default()).then_some(recovery)
    }
}

fn fate(
    group: &GroupView,
    gone: &[u64],
    is_there: impl Fn(u64) -> bool,
    emptied: &mut BTreeMap<u64, usize>,
) -> Fate {
    let voters = group
        .replicas
        .iter()
        .filter(|replica| replica.role == ReplicaRole::Voter && !gone.contains(&replica.node));
    let (there, away): (Vec<_>, Vec<_>) = voters.partition(|voter| is_there(voter.node));
    if !away.is_empty() {
        return Fate::Waits {
            nodes: away.iter().map(|voter| voter.node).collect(),
        };
    }
    let has_told = |incarnation: u64| {
        let mut recovery_sources = group.recovery_sources.iter();
        recovery_sources.any(|recovery_source| recovery_source.incarnation == incarnation)
    };
    // Of a group that is unheard, the nodes know the names of what they have, and the map may not.
    let has_said = |node: u64| {
        group
            .recovery_sources
            .iter()
            .any(|recovery_source| recovery_source.node == node)
    };
    let has_told =
        |voter: &ReplicaStatus| has_told(voter.incarnation) || (group.is_unheard && has_said(voter.node));
    if let Some(voter) = there.iter().find(|voter| !has_told(voter)) {
        return Fate::Untold { node: voter.node };
    }
    let held = group.recovery_sources.iter().filter(|recovery_source| {
        let is_member = group.replicas.iter().any(|replica| {
            replica.incarnation == recovery_source.incarnation
                && matches!(replica.role, ReplicaRole::Voter | ReplicaRole::Learner)
        });
        let is_kept = recovery_source.is_former || recovery_source.is_unclean;
        let is_known = is_member || is_kept || group.is_unheard;
        is_known
            && recovery_source.last > 0
            && is_there(recovery_source.node)
            && !gone.contains(&recovery_source.node)
    });
    // As consensus compares logs: of one generation, where terms begin anew.
    let best = held.max_by_key(|recovery_source| {
        (
            !recovery_source.is_former,
            recovery_source.generation,
            recovery_source.term,
            recovery_source.last,
            recovery_source.applied,
        )
    });
    if let Some(best) = best {
        return Fate::Inherits {
            node: best.node,
            incarnation: best.incarnation,
            applied: best.applied,
            uncommitted: best.last.saturating_sub(best.applied),
            is_damaged: best.is_damaged,
        };
    }
    let fewest = emptied.iter_mut().min_by_key(|(_, count)| **count);
    match fewest {
        Some((&node, count)) => {
            *count += 1;
            Fate::Empties { node }
        }
        None => Fate::Waits { nodes: Vec::new() },
    }
}

/// Numbers for people.
pub fn list<T: ToString>(numbers: impl Iterator<Item = T>) -> String {
    numbers
        .map(|number| number.to_string())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{NodeView, RecoverySourceView, ReplicaStatus};

    fn voter(node: u64, role: ReplicaRole) -> ReplicaStatus {
        ReplicaStatus {
            node,
            incarnation: 10 + node,
            role,
            lag: None,
        }
    }

    fn recovery_source(node: u64, term: u64, last: u64) -> RecoverySourceView {
        RecoverySourceView {
            node,
            incarnation: 10 + node,
            term,
            last,
            applied: last - 1,
            ..RecoverySourceView::default()
        }
    }

    /// Nodes 1 and 2 are up, node 3 is not.
    fn view(groups: Vec<(Vec<ReplicaStatus>, Vec<RecoverySourceView>)>) -> ClusterView {
        let nodes = (1..=3).map(|id| NodeView {
            id,
            boot: 100 + id,
            is_up: id != 3,
            ..NodeView::default()
        });
        let groups = (0..)
            .zip(groups)
            .map(|(number, (replicas, recovery_sources))| GroupView {
                number,
                voters: 3,
                replicas,
                recovery_sources,
                ..GroupView::default()
            });
        ClusterView {
            nodes: nodes.collect(),
            groups: groups.collect(),
            ..ClusterView::default()
        }
    }

    use ReplicaRole::{Lost, Voter};

    #[test]
    fn the_log_with_the_latest_term_and_then_the_longest_one_is_inherited() {
        let voters = || vec![voter(1, Voter), voter(2, Voter), voter(3, Voter)];
        let view = view(vec![
            (voters(), Vec::new()),
            (
                vec![voter(1, Lost), voter(2, Voter), voter(3, Lost)],
                vec![recovery_source(2, 4, 9)],
            ),
            (vec![voter(1, Lost), voter(2, Lost), voter(3, Lost)], Vec::new()),
        ]);
        let plan = Plan::of(&view, &[]).expect("there is a leader of the meta group");
        let inherited = Fate::Inherits {
            node: 2,
            incarnation: 12,
            applied: 8,
            uncommitted: 1,
            is_damaged: false,
        };
        let expected = [(1, inherited), (2, Fate::Empties { node: 1 })];
        assert_eq!(plan.fates, expected.into(), "the first group has its majority");
    }

    #[test]
    fn what_a_disk_has_is_compared_with_what_a_voter_has() {
        let unclean = |last| RecoverySourceView {
            is_unclean: true,
            ..recovery_source(1, 4, last)
        };
        let replicas = || vec![voter(1, Lost), voter(2, Voter), voter(3, Lost)];
        let lost = || vec![voter(1, Lost), voter(2, Lost), voter(3, Lost)];
        let view = view(vec![
            (replicas(), vec![unclean(12), recovery_source(2, 4, 9)]),
            (replicas(), vec![unclean(8), recovery_source(2, 4, 9)]),
            (lost(), vec![unclean(8)]),
        ]);
        let plan = Plan::of(&view, &[]).expect("there is a leader of the meta group");
        let nodes = plan.fates.values().map(|fate| match fate {
            Fate::Inherits { node, .. } => *node,
            other => panic!("{other:?}"),
        });
        assert_eq!(
            nodes.collect::<Vec<u64>>(),
            [1, 2, 1],
            "the best log of all, and never none"
        );
    }

    #[test]
    fn of_what_is_left_from_before_the_last_generation_is_inherited_whatever_terms_it_had() {
        let former = |node, generation, term| RecoverySourceView {
            generation,
            is_former: true,
            is_damaged: true,
            ..recovery_source(node, term, 9)
        };
        let lost = vec![voter(1, Lost), voter(2, Lost), voter(3, Lost)];
        let view = view(vec![(lost, vec![former(1, 0, 12), former(2, 1, 3)])]);
        let plan = Plan::of(&view, &[]).expect("there is a leader of the meta group");
        let is_last = |fate: &Fate| {
            matches!(
                fate,
                Fate::Inherits {
                    node: 2,
                    is_damaged: true,
                    ..
                }
            )
        };
        assert!(is_last(&plan.fates[&0]), "{plan:?}");
    }

    #[test]
    fn a_group_waits_for_a_voter_that_is_away_until_it_is_called_gone() {
        let mut replicas = vec![voter(1, Voter), voter(2, Lost), voter(3, Voter)];
        replicas[1].role = Lost;
        let mut four = replicas.clone();
        four.push(ReplicaStatus {
            incarnation: 99,
            ..voter(2, Lost)
        });
        let mut view = view(vec![(replicas, vec![recovery_source(1, 4, 9)])]);
        assert_eq!(
            Plan::of(&view, &[]).map(|plan| plan.fates.len()),
            Ok(0),
            "two of three have their memory"
        );
        let plan = Plan::of(&view, &[3]).expect("node 3 is down");
        assert_eq!(plan.gone, [(3, 103)].into());
        assert!(
            matches!(plan.fates[&0], Fate::Inherits { node: 1, .. }),
            "{plan:?}"
        );
        view.groups[0].voters = 4;
        view.groups[0].replicas = four;
        let plan = Plan::of(&view, &[]).expect("there is a leader of the meta group");
        assert_eq!(plan.fates[&0], Fate::Waits { nodes: vec![3] });
        assert_eq!(plan.recovery(), None);
    }

    #[test]
    fn nothing_is_planned_with_a_replica_that_has_not_said_what_it_has() {
        let replicas = vec![voter(1, Voter), voter(2, Lost), voter(3, Lost)];
        let view = view(vec![(replicas, Vec::new())]);
        let plan = Plan::of(&view, &[]).expect("there is a leader of the meta group");
        assert_eq!(plan.fates[&0], Fate::Untold { node: 1 });
        assert_eq!(plan.recovery(), None);
    }

    #[test]
    fn a_node_that_is_up_cannot_be_called_gone_and_without_a_meta_group_nothing_is_planned() {
        let mut view = view(Vec::new());
        assert!(Plan::of(&view, &[2]).is_err_and(|why| why.contains("node 2 is up")));
        assert!(Plan::of(&view, &[7]).is_err_and(|why| why.contains("no node 7")));
        view.is_meta_leaderless = true;
        assert!(Plan::of(&view, &[]).is_err_and(|why| why.contains("--meta")));
    }
}

//! The cluster as this node's admin port shows it: the map, and what the node's own workers have written down.

use crate::clock;
use crate::view::View;
use admin::{
    BackupsView, ClusterView, CodingView, DiskView, GoalView, GroupView, NodeView, OutageView, PauseView,
    PermitView, RebalanceView, RecoverySourceView, ReplicaRole, ReplicaStatus, ResizeView,
};
use control::{NodeGoal, Placed, RecoverySource, RoutingMap, Standing, State, Stop, StopPermit};
use gateway::{ClusterStats, DiskSummary, GroupStats, Shared};
use ids::{Incarnation, NodeId, SemanticsVersion, UnixMillis};
use options::{CodingChoice, DurabilityChoice};
use std::collections::BTreeMap;

/// What only nodes with a replica of the meta group know.
#[derive(Clone, Default)]
pub(crate) struct Ledger {
    /// How many replicas a group of keys is to have.
    pub(crate) replicas_wanted: u16,
    /// As what each node is placed, and the newest rules that it can follow.
    nodes: BTreeMap<NodeId, (Placed, SemanticsVersion)>,
    /// For each group of keys, the replicas whose memory is gone.
    lost: Vec<Vec<(NodeId, Incarnation)>>,
}

impl Ledger {
    pub(crate) fn of(state: &State) -> Ledger {
        let nodes = state.nodes().iter();
        let groups = state
            .groups()
            .iter()
            .filter(|(name, _)| **name != control::GroupRef::Meta);
        let lost = groups.map(|(_, group)| {
            let members = group
                .members
                .iter()
                .filter(|member| group.is_lost(member.incarnation));
            members.map(|member| (member.node, member.incarnation)).collect()
        });
        Ledger {
            replicas_wanted: state.replicas_wanted(),
            nodes: nodes
                .map(|(&id, node)| (id, (node.placed.clone(), node.announcement.semantics_max)))
                .collect(),
            lost: lost.collect(),
        }
    }
}

/// What all workers have written down, in the order of the groups.
pub(crate) fn stats(shared: &Shared) -> Vec<ClusterStats> {
    shared
        .workers
        .iter()
        .map(|worker| worker.cluster().clone())
        .collect()
}

/// The nodes that this one hears of: those that every worker has a link to.
pub(crate) fn nodes_up(stats: &[ClusterStats], map: &RoutingMap, me: NodeId) -> Vec<NodeId> {
    let is_up = |node: &NodeId| *node == me || stats.iter().all(|stats| stats.up.contains(node));
    map.nodes.keys().copied().filter(is_up).collect()
}

/// For how long a node is new ([`NodeView::is_new`]): until it has links with whoever is there, and has heard who leads.
const NEW_MILLIS: i64 = 5_000;

/// What the workers here keep on disk.
fn disk_view(shared: &Shared) -> DiskView {
    let durability = shared.settings().durability;
    let mut view = DiskView {
        durability: durability.word().to_owned(),
        ..DiskView::default()
    };
    if durability != DurabilityChoice::Memory {
        let DiskSummary { log, snapshots } = DiskSummary::of(shared);
        let age = clock::now().0.saturating_sub(snapshots.oldest.0).max(0);
        view.log_bytes = log.bytes;
        view.log_sync_p99_us = log.sync_p99_micros;
        view.log_unsynced_ms = log.unsynced_millis;
        view.snapshot_age_secs = (age / 1_000) as u64;
        view.snapshot_bytes = snapshots.bytes;
        view.has_snapshot_failed = snapshots.has_failed;
        view.is_full = log.is_full;
    }
    view
}

/// Backups, as this node knows of them.
fn backups_view(shared: &Shared) -> BackupsView {
    let settings = shared.settings();
    let summary = shared.backups.summary();
    let millis = |at: Option<UnixMillis>| at.and_then(|at| u64::try_from(at.0).ok());
    BackupsView {
        target: settings.backup_target.clone().unwrap_or_default(),
        schedule: settings
            .backup_schedule
            .as_ref()
            .map_or_else(String::new, ToString::to_string),
        is_running: summary.is_running,
        next_at: millis(summary.next_at),
        good_at: millis(summary.good_at),
        failed_at: millis(summary.failed_at),
        reason: summary.reason,
    }
}

/// Fragments, as this node's workers have last counted them.
fn coding_view(shared: &Shared) -> Option<CodingView> {
    let counts = shared.coding_counts();
    (counts.groups > 0).then(|| CodingView {
        is_on: shared.settings().coding == CodingChoice::On,
        values: counts.tally.coded_values,
        value_bytes: counts.tally.coded_bytes,
        fragment_bytes: counts.tally.fragment_bytes,
        groups_filling: counts.groups_filling,
        groups_stalled: counts.groups_stalled,
    })
}

/// The page of a node in no cluster.
pub(crate) fn alone_view(shared: &Shared) -> ClusterView {
    let mut view = ClusterView::alone();
    for node in &mut view.nodes {
        node.disk = Some(disk_view(shared));
    }
    view
}

/// The page, from what is known now.
pub(crate) fn cluster_view(shared: &Shared, view: &View, me: NodeId) -> ClusterView {
    let Some(seen) = view.seen() else {
        return alone_view(shared);
    };
    let map = &*seen.map;
    let stats = stats(shared);
    let ledger = view.ledger();
    let remains = view.remains();
    let up = nodes_up(&stats, map, me);
    let is_up = |node: &NodeId| up.contains(node);
    let nodes = map.nodes.iter().map(|(&id, site)| {
        let placed = ledger.as_ref().and_then(|ledger| ledger.nodes.get(&id));
        let placed_zone = placed.map(|(placed, _)| placed.zone.clone());
        NodeView {
            id: id.0,
            client: site.client.clone(),
            cluster: site.cluster.clone(),
            peer: site.peer.clone(),
            name: site.name.clone(),
            zone: site.zone.clone(),
            placed_zone: placed_zone.filter(|placed| *placed != site.zone),
            semantics: placed.map(|(_, newest)| newest.0),
            boot: site.boot.0,
            is_up: is_up(&id),
            // A clock that was set back says nothing of it.
            is_new: id == me && (0..NEW_MILLIS).contains(&clock::now().0.saturating_sub(shared.started_at)),
            is_leaving: site.goal.is_draining(),
            is_replaced: site.is_fenced,
            goal: match id == me && view.has_left() {
                true => GoalView::Left,
                false => goal_view(site.goal),
            },
            disk: (id == me).then(|| disk_view(shared)),
            ..NodeView::default()
        }
    });
    let of_group: BTreeMap<u16, &GroupStats> = stats
        .iter()
        .flat_map(|stats| &stats.groups)
        .map(|group| (group.group.number(), group))
        .collect();
    let groups = (0..).zip(&map.groups).map(|(number, route)| {
        let own = of_group.get(&number).copied();
        let lost = ledger
            .as_ref()
            .and_then(|ledger| ledger.lost.get(usize::from(number)));
        let recovery_sources = remains
            .recovery_sources
            .iter()
            .filter(|recovery_source| recovery_source.group.number() == number);
        let leader = leader(route, own, me, recovery_sources.clone()).filter(is_up);
        let mut group = group_view(number, route, own, leader, lost.map_or(&[][..], |lost| lost));
        group.recovery_sources = recovery_sources
            .map(|recovery_source| RecoverySourceView {
                is_former: recovery_source.generation < route.generation,
                is_unclean: recovery_source.generation == route.generation
                    && route.former.contains(&recovery_source.node)
                    && route
                        .lost
                        .iter()
                        .any(|lost| lost.incarnation == recovery_source.incarnation),
                ..recovery_source_view(recovery_source)
            })
            .collect();
        group
    });
    let voters = |route: &control::Route| {
        let voters = route
            .replicas
            .iter()
            .filter(|stop| stop.standing == Standing::Voter);
        voters.count()
    };
    let wanted = ledger.as_ref().map(|ledger| usize::from(ledger.replicas_wanted));
    // Without a word from the meta group: as many as most groups have.
    let most = map.groups.iter().map(|route| voters(route)).max().unwrap_or(1);
    let wanted = wanted.or(map.resize.map(|resizing| usize::from(resizing.wanted)));
    let factor = wanted.unwrap_or(most).min(map.nodes.len());
    let (settings, secrets) = shared.settings_that_were_set();
    ClusterView {
        cluster: map
            .cluster
            .map_or_else(String::new, |cluster| format!("{:032x}", cluster.0)),
        epoch: map.epoch.0,
        answered_by: me.0,
        semantics: Some(map.semantics.0),
        replication_factor: u8::try_from(factor).unwrap_or(u8::MAX),
        // The map says who led when it was made.
        meta_leader: map
            .meta
            .leader
            .filter(|leader| is_up(leader) && !remains.is_leaderless)
            .map(|node| node.0),
        is_meta_leaderless: remains.is_leaderless,
        meta_nodes: map.meta.replicas.iter().map(|stop| stop.node.0).collect(),
        nodes: nodes.collect(),
        groups: groups.collect(),
        backups: backups_view(shared),
        coding: coding_view(shared),
        pause: map.pause.map(|pause| PauseView {
            seconds: pause.seconds,
        }),
        rebalance: map.rebalance.map(|moving| RebalanceView { left: moving.left }),
        resize: map.resize.map(|resizing| ResizeView {
            wanted: resizing.wanted,
            left: resizing.left,
        }),
        partitions_left: map.partitions_left(),
        permits: map.permits.iter().map(permit_view).collect(),
        outage: remains.outage.map(|outage| OutageView {
            zones: outage.zones,
            nodes: outage.nodes.iter().map(|node| node.0).collect(),
        }),
        settings,
        secrets,
    }
}

/// Who leads a group, as far as this node knows. Whoever has a replica knows better than the map, which says who led when it
/// was last told; but a learner may not have heard of a leader yet. Whom the map names does not lead if its memory is gone, or if it
/// says itself that it knows no leader.
fn leader<'a>(
    route: &control::Route,
    own: Option<&GroupStats>,
    me: NodeId,
    mut recovery_sources: impl Iterator<Item = &'a RecoverySource>,
) -> Option<NodeId> {
    let own = own.filter(|own| own.applied.is_some());
    let votes = |node: NodeId| {
        let mut stops = route.replicas.iter();
        stops.any(|stop| stop.node == node && stop.standing == Standing::Voter)
    };
    match own {
        Some(own) if votes(me) || own.leader.is_some() => own.leader,
        _ => route.leader.filter(|leader| {
            let is_its = |recovery_source: &RecoverySource| {
                recovery_source.node == *leader && recovery_source.generation == route.generation
            };
            votes(*leader) && !recovery_sources.any(is_its)
        }),
    }
}

fn group_view(
    number: u16,
    route: &control::Route,
    own: Option<&GroupStats>,
    leader: Option<NodeId>,
    lost: &[(NodeId, Incarnation)],
) -> GroupView {
    let led = own.filter(|own| own.leads);
    let mut replicas: Vec<ReplicaStatus> = route
        .replicas
        .iter()
        .map(|stop| replica_view(stop, led))
        .collect();
    replicas.extend(lost.iter().map(|&(node, incarnation)| ReplicaStatus {
        node: node.0,
        incarnation: incarnation.0,
        role: ReplicaRole::Lost,
        lag: None,
    }));
    let is_voter = |stop: &&Stop| stop.standing == Standing::Voter;
    let voters = route.replicas.iter().chain(&route.lost).filter(is_voter).count() as u64;
    let mut group = GroupView {
        number,
        generation: route.generation,
        voters,
        leader: leader.map(|node| node.0),
        term: own.and_then(|own| own.term),
        applied: own.and_then(|own| own.applied),
        stopped: own.and_then(|own| own.stopped.clone()).unwrap_or_default(),
        bytes: own.and_then(|own| own.bytes),
        replicas,
        is_unheard: route.is_unheard,
        former: route.former.iter().map(|node| node.0).collect(),
        ..GroupView::default()
    };
    group.has_lost_majority = group.lacks_majority(&[]);
    group
}

fn permit_view((&node, permit): (&NodeId, &StopPermit)) -> PermitView {
    PermitView {
        node: node.0,
        boot: permit.boot.0,
        seconds: permit.seconds,
    }
}

fn goal_view(goal: NodeGoal) -> GoalView {
    match goal {
        NodeGoal::Stays => GoalView::Stays,
        NodeGoal::Drains => GoalView::Drains,
        NodeGoal::Leaves => GoalView::Leaves,
        NodeGoal::Left => GoalView::Left,
    }
}

fn recovery_source_view(recovery_source: &RecoverySource) -> RecoverySourceView {
    RecoverySourceView {
        node: recovery_source.node.0,
        incarnation: recovery_source.incarnation.0,
        generation: recovery_source.generation,
        is_damaged: !recovery_source.is_whole,
        term: recovery_source.term.0,
        last: recovery_source.last.0,
        applied: recovery_source.applied.0,
        ..RecoverySourceView::default()
    }
}

fn replica_view(stop: &Stop, led: Option<&GroupStats>) -> ReplicaStatus {
    let known = led.and_then(|led| {
        let mut replicas = led.replicas.iter();
        replicas.find(|replica| replica.incarnation == stop.incarnation)
    });
    ReplicaStatus {
        node: stop.node.0,
        incarnation: stop.incarnation.0,
        role: role(stop.standing, known.map(|known| known.is_voter)),
        lag: known.map(|known| known.lag),
    }
}

/// By the map, and by whether the group's leader had it vote when it was last asked. Both may be behind, and who votes never becomes a
/// learner again.
fn role(standing: Standing, votes: Option<bool>) -> ReplicaRole {
    match (standing, votes) {
        (Standing::Voter, _) | (_, Some(true)) => ReplicaRole::Voter,
        (Standing::Learner, _) | (_, Some(false)) => ReplicaRole::Learner,
        (Standing::Expected, None) => ReplicaRole::Expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::{Index, Term};
    use control::Route;
    use ids::GroupId;

    #[test]
    fn whom_the_map_names_does_not_lead_without_memory_or_if_it_knows_no_leader() {
        let stop = |node| Stop {
            node: NodeId(node),
            incarnation: Incarnation(node),
            standing: Standing::Voter,
        };
        let mut route = Route {
            leader: Some(NodeId(1)),
            replicas: vec![stop(1), stop(2)],
            ..Route::default()
        };
        let mut recovery_source = RecoverySource {
            group: GroupId::new(0),
            generation: 0,
            node: NodeId(2),
            incarnation: Incarnation(2),
            term: Term(1),
            last: Index(1),
            applied: Index(1),
            lost_voter: None,
            unreported: None,
            outgoing: Vec::new(),
            is_aside: false,
            voters: Vec::new(),
            changed_at: Index(0),
            is_whole: true,
        };
        let me = NodeId(9);
        assert_eq!(
            leader(&route, None, me, [&recovery_source].into_iter()),
            Some(NodeId(1))
        );
        recovery_source.node = NodeId(1);
        assert_eq!(leader(&route, None, me, [&recovery_source].into_iter()), None);
        (route.replicas, route.lost) = (vec![stop(2)], vec![stop(1)]);
        assert_eq!(leader(&route, None, me, [].into_iter()), None);
    }

    #[test]
    fn a_replica_votes_as_soon_as_the_map_or_its_leader_says_so() {
        // What a worker wrote down is up to a refresh behind the map.
        assert_eq!(role(Standing::Voter, Some(false)), ReplicaRole::Voter);
        assert_eq!(role(Standing::Learner, Some(true)), ReplicaRole::Voter);
        assert_eq!(role(Standing::Learner, Some(false)), ReplicaRole::Learner);
        assert_eq!(role(Standing::Expected, None), ReplicaRole::Expected);
    }

    #[test]
    fn a_group_that_is_over_is_shown_with_who_keeps_something_of_it() {
        let route = Route {
            former: vec![NodeId(2), NodeId(4)],
            is_unheard: true,
            ..Route::default()
        };
        let shown = group_view(0, &route, None, None, &[]);
        assert_eq!(
            (shown.former, shown.is_unheard, shown.replicas.len()),
            (vec![2, 4], true, 0)
        );
    }
}

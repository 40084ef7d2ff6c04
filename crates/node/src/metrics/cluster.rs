//! The metrics of the cluster, as this node has a part in it. A node that is in none has none of them.

use crate::status;
use crate::view::View;
use admin::metrics::{Exposition, MetricKind};
use control::Site;
use gateway::{ClusterStats, Counter, MemberCounts, Shared, WorkerStats};
use ids::NodeId;

/// Writes them.
pub(crate) fn cluster(shared: &Shared, view: &View, me: NodeId, page: &mut Exposition) {
    let Some(seen) = view.seen() else {
        return;
    };
    let stats = status::stats(shared);
    let groups = || stats.iter().flat_map(|stats| &stats.groups);
    let own = me.0.to_string();
    let site = seen.map.nodes.get(&me);
    let text = |of: fn(&Site) -> &str| site.map_or("", |site| of(site));
    page.family(
        "chorale_node_info",
        MetricKind::Gauge,
        "Who this node is in its cluster.",
    )
    .sample(
        &[
            ("node", &own),
            (
                "cluster",
                &seen
                    .map
                    .cluster
                    .map_or_else(String::new, |cluster| format!("{:032x}", cluster.0)),
            ),
            ("name", text(|site| &site.name)),
            ("zone", text(|site| &site.zone)),
        ],
        1u64,
    );
    let lags = || {
        groups()
            .flat_map(|group| &group.replicas)
            .map(|replica| replica.lag)
    };
    let is_meta_leader = seen.map.meta.leader == Some(me);
    for (name, help, figure) in [
        (
            "chorale_meta_epoch",
            "The version of the cluster's map that this node holds.",
            seen.map.epoch.0,
        ),
        (
            "chorale_meta_is_leader",
            "Whether this node leads the meta group, as the map says.",
            u64::from(is_meta_leader),
        ),
        (
            "chorale_meta_leader_known",
            "Whether the map names a leader of the meta group.",
            u64::from(seen.map.meta.leader.is_some()),
        ),
        (
            "chorale_groups_led",
            "Groups that this node leads.",
            groups().filter(|group| group.leads).count() as u64,
        ),
        (
            "chorale_replicas",
            "Replicas that this node has.",
            groups().filter(|group| group.applied.is_some()).count() as u64,
        ),
        (
            "chorale_groups_leaderless",
            "Groups with a replica here whose leader is not known.",
            groups()
                .filter(|group| group.applied.is_some() && group.leader.is_none())
                .count() as u64,
        ),
        (
            "chorale_wall_clock_off",
            "Whether this node's wall clock is more than a second from most nodes' clocks, so that theirs is used.",
            u64::from(stats.iter().any(|stats| stats.is_wall_clock_off)),
        ),
        (
            "chorale_follower_lag_entries_max",
            "The most entries by which a follower of a group led here lags.",
            lags().max().unwrap_or(0),
        ),
        (
            "chorale_follower_lag_entries",
            "Entries by which the followers of groups led here lag, all together.",
            lags().sum(),
        ),
    ] {
        page.single(name, MetricKind::Gauge, help, figure);
    }
    counts(&stats, page);
    peers(shared, &stats, &seen.map, me, page);
}

/// What replicas and gateways have done.
fn counts(stats: &[ClusterStats], page: &mut Exposition) {
    let mut counts = MemberCounts::default();
    stats.iter().for_each(|stats| counts += stats.counts);
    let sum = |of: fn(&ClusterStats) -> u64| stats.iter().map(of).sum::<u64>();
    for (name, help, figure) in [
        (
            "chorale_term_changes_total",
            "Terms that replicas here saw begin.",
            counts.terms,
        ),
        (
            "chorale_campaigns_total",
            "Times that replicas here asked for votes.",
            counts.campaigns,
        ),
        (
            "chorale_elections_won_total",
            "Times that replicas here came to lead.",
            counts.elections_won,
        ),
        (
            "chorale_entries_proposed_total",
            "Entries that leaders here proposed.",
            counts.entries_proposed,
        ),
        (
            "chorale_entry_batches_proposed_total",
            "Batches of gateways in them.",
            counts.batches_proposed,
        ),
        (
            "chorale_entry_bytes_proposed_total",
            "Bytes of them.",
            counts.bytes_proposed,
        ),
        (
            "chorale_entries_applied_total",
            "Entries that replicas here applied.",
            counts.entries_applied,
        ),
        (
            "chorale_entry_batches_applied_total",
            "Batches of gateways in them.",
            counts.batches_applied,
        ),
        (
            "chorale_transfers_begun_total",
            "Transfers of a group's state to a learner that leaders here began.",
            counts.transfers,
        ),
        (
            "chorale_transfers_installed_total",
            "States of groups that replicas here were filled with.",
            counts.installs,
        ),
        (
            "chorale_scrub_rounds_total",
            "Rounds in which replicas here found the state to be that of most voters of their group.",
            counts.scrubs,
        ),
        (
            "chorale_scrub_rounds_undecided_total",
            "Rounds in which replicas differed, and no state had a majority.",
            counts.undecided,
        ),
        (
            "chorale_replicas_differing_total",
            "Times that replicas here found a replica, their own included, to differ from most voters of its group.",
            counts.differing,
        ),
        (
            "chorale_gateway_batches_total",
            "Batches that this node's gateways handed to leaders, here or elsewhere.",
            sum(|stats| stats.batches),
        ),
        (
            "chorale_gateway_batches_forwarded_total",
            "Of these, the ones that went to other nodes.",
            sum(|stats| stats.forwarded),
        ),
        (
            "chorale_gateway_batches_resent_total",
            "Of these, the ones that had been handed to a leader before.",
            sum(|stats| stats.resent),
        ),
    ] {
        page.single(name, MetricKind::Counter, help, figure);
    }
    let mut reads = page.family(
        "chorale_reads_total",
        MetricKind::Counter,
        "Reads of replicated groups that leaders here answered: commands at once, batches of them of other gateways, by what made sure that nobody else led.",
    );
    reads.sample(&[("way", "lease_here")], sum(|stats| stats.reads_here));
    reads.sample(&[("way", "lease_batch")], counts.reads_leased);
    reads.sample(&[("way", "read_index_batch")], counts.reads_confirmed);
}

/// Links to other nodes.
fn peers(
    shared: &Shared,
    stats: &[ClusterStats],
    map: &control::RoutingMap,
    me: NodeId,
    page: &mut Exposition,
) {
    let up = status::nodes_up(stats, map, me);
    let mut family = page.family(
        "chorale_peer_up",
        MetricKind::Gauge,
        "Whether every worker has a link to the node.",
    );
    for node in map.nodes.keys().filter(|node| **node != me) {
        family.sample(&[("peer", &node.0.to_string())], u64::from(up.contains(node)));
    }
    let total = |counter: fn(&WorkerStats) -> &Counter| shared.total(|worker| counter(worker).get());
    for (name, help, figure) in [
        (
            "chorale_peer_link_breaks_total",
            "Links to other nodes that broke.",
            total(|worker| &worker.peer_breaks),
        ),
        (
            "chorale_peer_input_bytes_total",
            "Bytes read from other nodes.",
            total(|worker| &worker.peer_input_bytes),
        ),
        (
            "chorale_peer_output_bytes_total",
            "Bytes sent to other nodes.",
            total(|worker| &worker.peer_output_bytes),
        ),
    ] {
        page.single(name, MetricKind::Counter, help, figure);
    }
}

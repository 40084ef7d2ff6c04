//! Whether this node is ready: it has all that it is to have, and goes on. Orchestrators ask, before they go on with the next node.
//!
//! What whoever leads the meta group says that the node lacks, and what its own workers have not begun with. Unlike its health it says
//! nothing of clients: they are served long before.

use crate::status;
use crate::view::View;
use control::{GroupRef, Lack, Missing, RoutingMap};
use gateway::{ClusterStats, GroupStats, Shared};
use ids::{GroupId, NodeId};
use std::collections::BTreeMap;

/// Groups that are named. Of more there is only the number.
const NAMED_MAX: usize = 8;

const LEADERLESS: &str =
    "nobody leads the meta group, as this node hears, and it is not known what the node lacks";

const UNTOLD: &str = "whoever leads the meta group has not said yet what the node lacks";

const NEW: &str = "the node has started or was not heard for a moment, or nothing is placed on it yet";

const MAY_STOP: &str = "the node may stop at any moment: chorale admin may-stop";

/// Why it is not, for operators; none if it is.
pub(crate) fn unready(shared: &Shared, view: &View, me: NodeId) -> Vec<String> {
    let Some(seen) = view.seen() else {
        return vec![UNTOLD.to_owned()];
    };
    let map = &*seen.map;
    let mut reasons = Vec::new();
    if may_stop(map, me) {
        reasons.push(MAY_STOP.to_owned());
    }
    let remains = view.remains();
    let lack = remains.lack.filter(|_| !remains.is_leaderless);
    if lack.is_none() {
        let reason = if remains.is_leaderless { LEADERLESS } else { UNTOLD };
        reasons.push(reason.to_owned());
    }
    if lack.as_ref().is_some_and(|lack| lack.is_new) {
        reasons.push(NEW.to_owned());
    }
    let here = not_served(map, &status::stats(shared), me);
    reasons.extend(of_groups(here, lack.as_ref()));
    reasons
}

/// Whether permission to stop is lent to this start.
fn may_stop(map: &RoutingMap, me: NodeId) -> bool {
    let boot = map.nodes.get(&me).map(|site| site.boot);
    let permit = map.permits.get(&me);
    permit.is_some_and(|permit| Some(permit.boot) == boot)
}

/// The groups of which the map names a replica here that no worker has begun with, or that has stopped.
fn not_served(map: &RoutingMap, stats: &[ClusterStats], me: NodeId) -> BTreeMap<GroupRef, &'static str> {
    let known: BTreeMap<GroupId, &GroupStats> = stats
        .iter()
        .flat_map(|stats| &stats.groups)
        .map(|group| (group.group, group))
        .collect();
    let here = (0..).zip(&map.groups).filter(|(_, route)| {
        let mut stops = route.replicas.iter();
        stops.any(|stop| stop.node == me)
    });
    let not_served = here.filter_map(|(number, _)| {
        let group = GroupId::new(number);
        let reason = match known.get(&group) {
            Some(stats) if stats.stopped.is_some() => "has stopped here: see the log",
            Some(stats) if stats.leads || stats.applied.is_some() => return None,
            Some(_) | None => "is not served here yet",
        };
        Some((GroupRef::Data(group), reason))
    });
    not_served.collect()
}

/// What the groups lack, those that the node itself knows of and those that it was told of.
fn of_groups(here: BTreeMap<GroupRef, &'static str>, lack: Option<&Lack>) -> Vec<String> {
    let told = lack.iter().flat_map(|lack| &lack.groups);
    let told = told.map(|&(group, missing)| (group, words(missing)));
    let unnamed = lack.map_or(0, |lack| lack.count.saturating_sub(lack.groups.len() as u64));
    let mut all: BTreeMap<GroupRef, &'static str> = told.collect();
    all.extend(here);
    let left = all.len().saturating_sub(NAMED_MAX) as u64 + unnamed;
    let name = |group: GroupRef| match group {
        GroupRef::Meta => "the meta group".to_owned(),
        GroupRef::Data(group) => format!("group {}", group.number()),
    };
    let named = all.into_iter().take(NAMED_MAX);
    let mut reasons: Vec<String> = named
        .map(|(group, reason)| format!("{}: {reason}", name(group)))
        .collect();
    if left > 0 {
        reasons.push(format!("and {left} groups more"));
    }
    reasons
}

fn words(missing: Missing) -> &'static str {
    match missing {
        Missing::Replica => "is to have a replica here",
        Missing::Vote => "is being filled",
        Missing::End => "has not caught up",
        Missing::Leader => "has no leader, as far as the one that leads the meta group has heard",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Boot;

    #[test]
    fn groups_are_named_once_and_only_so_many() {
        let data = |number| GroupRef::Data(GroupId::new(number));
        let lack = Lack {
            boot: Boot(1),
            is_new: false,
            count: 12,
            groups: vec![(GroupRef::Meta, Missing::End), (data(3), Missing::Vote)],
        };
        assert_eq!(
            of_groups([(data(3), "is not served here yet")].into(), Some(&lack)),
            [
                "the meta group: has not caught up",
                "group 3: is not served here yet",
                "and 10 groups more"
            ]
        );
        let many = (0..20).map(|number| (data(number), "is not served here yet"));
        let reasons = of_groups(many.collect(), None);
        assert_eq!(reasons.len(), NAMED_MAX + 1);
        assert_eq!(reasons[NAMED_MAX], "and 12 groups more");
        assert_eq!(of_groups(BTreeMap::new(), None), Vec::<String>::new());
    }
}

//! The coding rule: whether the groups of this worker are to keep values as fragments, and how much of them whoever leads may keep whole.

use crate::context::Context;
use ids::SemanticsVersion;
use keyspace::THRESHOLD_MIN;
use options::CodingChoice;
use replica::{CodingRule, Replica};
use std::time::Duration;

/// What follows from the settings, the rules of the cluster, and how much the groups of this worker take.
///
/// Before all nodes know of fragments there are none: a node that does not would stop at an entry that speaks of them, and would drop the
/// link to whoever sends it one.
pub(crate) fn coding_rule(cx: &Context) -> Option<CodingRule> {
    let settings = &cx.settings;
    let is_on = settings.coding == CodingChoice::On && cx.turn.semantics >= SemanticsVersion::CODING;
    is_on.then(|| CodingRule {
        threshold: settings.coding_threshold.max(THRESHOLD_MIN),
        hot_bytes: mean_bytes(&cx.local.replicas) / 100 * settings.coding_hot_percent as usize,
        delay: Duration::from_millis(settings.coding_delay_millis.into()),
    })
}

/// Bytes that a replica of this worker takes, on average. The groups of others take as much: hashing spreads keys evenly over all.
fn mean_bytes(replicas: &[Replica]) -> usize {
    let members = replicas.iter().filter(|replica| replica.member().is_some());
    let (count, bytes) = members.fold((0, 0), |(count, bytes), member| {
        (count + 1, bytes + member.memory())
    });
    bytes / count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use ids::{Boot, GroupCount, Groups, HashSeed};
    use options::Settings;
    use std::sync::Arc;

    fn rule(semantics: SemanticsVersion, pairs: &[(&str, &str)]) -> Option<CodingRule> {
        let groups = Groups::with_default_partitions(GroupCount::new(2).expect("a valid count"));
        let mut settings = Settings::default();
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        settings
            .set_all(&pairs)
            .expect("these are options and values of theirs");
        let shared = Shared::new(Boot(1), "run".into(), 0, 6379, groups, 1, settings);
        let mut cx = Context::new(0, Arc::new(shared), HashSeed([0; 2]), 1);
        cx.turn.semantics = semantics;
        coding_rule(&cx)
    }

    #[test]
    fn there_is_a_rule_once_it_is_set_and_all_nodes_know_of_fragments() {
        let before = SemanticsVersion(SemanticsVersion::CODING.0 - 1);
        assert_eq!(rule(SemanticsVersion::CODING, &[]), None);
        assert_eq!(rule(before, &[("coding", "on")]), None);
        let found = rule(SemanticsVersion::CODING, &[("coding", "on")]);
        assert_eq!(found.map(|rule| rule.threshold), Some(256));
    }

    #[test]
    fn a_threshold_below_the_lowest_counts_as_that() {
        for (set, counts) in [("1", 64), ("63", 64), ("64", 64), ("1kb", 1024)] {
            let settings = [("coding", "on"), ("coding-threshold", set)];
            let found = rule(SemanticsVersion::CODING, &settings);
            assert_eq!(found.map(|rule| rule.threshold), Some(counts), "{set}");
        }
    }
}

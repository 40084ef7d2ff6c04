//! Metrics of values that are kept as fragments.

use admin::metrics::{Exposition, MetricKind};
use gateway::Shared;

pub(super) fn coding(shared: &Shared, page: &mut Exposition) {
    let counts = shared.coding_counts();
    for (name, help, figure) in [
        (
            "chorale_coding_groups",
            "Groups with replicas here that keep values as fragments.",
            counts.groups,
        ),
        (
            "chorale_coding_groups_filling",
            "Of these, groups of which the replica here has not all of its fragments yet.",
            counts.groups_filling,
        ),
        (
            "chorale_coding_groups_cutting",
            "Of these, groups of which values here may have to be replaced by fragments yet.",
            counts.groups_cutting,
        ),
        (
            "chorale_coding_groups_stalled",
            "Groups led here in which nothing settles: a replica is away, or lacks fragments.",
            counts.groups_stalled,
        ),
        (
            "chorale_coding_lag_operations",
            "Operations that are applied and not settled, of the group led here that lags most.",
            counts.lag_max,
        ),
        (
            "chorale_coding_values",
            "Values that are here as fragments.",
            counts.tally.coded_values,
        ),
        (
            "chorale_coding_value_bytes",
            "Bytes of these values as wholes.",
            counts.tally.coded_bytes,
        ),
        (
            "chorale_coding_fragment_bytes",
            "Bytes of their fragments here.",
            counts.tally.fragment_bytes,
        ),
        (
            "chorale_coding_whole_bytes",
            "Bytes of values that are settled and whole here.",
            counts.tally.whole_bytes,
        ),
        (
            "chorale_coding_gathering",
            "Values that are being made up of fragments.",
            counts.gathering,
        ),
        (
            "chorale_coding_to_refill",
            "Fragments that are to be made anew here.",
            counts.to_recode,
        ),
    ] {
        page.single(name, MetricKind::Gauge, help, figure);
    }
    for (name, help, figure) in [
        (
            "chorale_coding_gathered_total",
            "Values that were made up of fragments, for reads and writes.",
            counts.gathered,
        ),
        (
            "chorale_coding_refilled_total",
            "Fragments that were made anew here.",
            counts.recoded,
        ),
        (
            "chorale_coding_demoted_total",
            "Values that were replaced by fragments.",
            counts.demoted,
        ),
        (
            "chorale_coding_damaged_total",
            "Fragments that were found to be damaged.",
            counts.damaged,
        ),
        (
            "chorale_coding_lacking_total",
            "Times that too few fragments of a value could be reached.",
            counts.lacking,
        ),
    ] {
        page.single(name, MetricKind::Counter, help, figure);
    }
}

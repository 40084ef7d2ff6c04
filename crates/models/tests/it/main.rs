//! Whether the rules hold within their bounds, and each mistake is caught by what it breaks.

use models::catalogue::{Case, cases};
use models::explore::Report;

fn explore(model: &str, is_mistaken: bool) {
    let chosen = |case: &Case| case.model == model && case.mistake.is_some() == is_mistaken && !case.is_wide;
    let mut count = 0;
    for case in cases().into_iter().filter(chosen) {
        count += 1;
        let Report { states, end } = case.explore();
        let name = format!("{model}, {}, {:?}", case.scene, case.mistake);
        let report = Report { states, end };
        assert!(
            case.is_as_expected(&report),
            "{name}: expected {:?}, found {report:#?}",
            case.expected
        );
    }
    assert!(count > 0, "there is such a model");
}

#[test]
fn a_group_that_begins_anew_keeps_what_it_may_not_lose() {
    explore("begin_anew", false);
}

#[test]
fn each_mistake_in_beginning_anew_is_caught() {
    explore("begin_anew", true);
}

#[test]
fn a_generation_begins_when_nobody_reads_in_the_one_before() {
    explore("promises", false);
}

#[test]
fn each_mistake_about_promises_is_caught() {
    explore("promises", true);
}

#[test]
fn a_damaged_replica_with_a_floor_lets_nothing_committed_be_lost() {
    explore("floor", false);
}

#[test]
fn each_mistake_about_the_floor_is_caught() {
    explore("floor", true);
}

#[test]
fn a_follower_that_started_with_less_is_always_filled() {
    explore("progress", false);
}

#[test]
fn each_mistake_about_progress_is_caught() {
    explore("progress", true);
}

#[test]
fn a_partition_that_moves_is_served_by_one_group_with_all_that_was_acknowledged() {
    explore("partition_move", false);
}

#[test]
fn each_mistake_about_a_partition_that_moves_is_caught() {
    explore("partition_move", true);
}

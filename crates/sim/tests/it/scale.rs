//! Clusters with stubbed data, small ones: by the thousand nodes they run from the command line.

use ids::PartitionCount;
use sim::{SizeReport, StepReport, simulate};
use std::time::Duration;

/// What does not depend on the machine.
fn counted(size: &SizeReport) -> Vec<StepReport> {
    let steps = size.steps.iter().cloned();
    let timeless = |step: StepReport| StepReport {
        cpu: Duration::ZERO,
        longest_look: Duration::ZERO,
        layouts_cpu: Duration::ZERO,
        ..step
    };
    steps.map(timeless).collect()
}

#[test]
fn the_same_cluster_costs_the_same_each_time() {
    assert_eq!(counted(&simulate(9, 32)), counted(&simulate(9, 32)));
}

#[test]
fn a_node_that_joins_moves_its_share_and_all_know_each_map_within_a_second() {
    let size = simulate(15, 128);
    for step in &size.steps {
        assert!(step.known_after < Duration::from_secs(1), "{step:?}");
        assert!(step.looks > 0 && step.sent.messages > 0, "{step:?}");
    }
    let joined = &size.steps[1];
    let most = size.replicas as f64 * (1.0 / 16.0 + 0.05);
    assert!(joined.moved > 0 && (joined.moved as f64) <= most, "{joined:?}");
    let steady = &size.steps[0];
    assert_eq!((steady.epochs, steady.moved), (0, 0), "nothing changes");
}

#[test]
fn a_cluster_grows_with_its_nodes_and_each_group_gets_its_share_of_partitions() {
    let size = simulate(9, 8);
    assert_eq!(size.groups, 24, "as many for each node as there are with three");
    let joined = &size.steps[1];
    assert_eq!(joined.added, 2, "{joined:?}");
    let partitions = u64::from(PartitionCount::MAX);
    assert_eq!(joined.partitions, 2 * (partitions / 26), "{joined:?}");
    let others = size.steps.iter().filter(|step| step.name != joined.name);
    assert!(
        others.map(|step| step.partitions).all(|moved| moved == 0),
        "{size:?}"
    );
    let died = &size.steps[3];
    assert!(died.fences.messages > 0 && died.layouts > 0, "{died:?}");
}

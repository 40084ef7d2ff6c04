//! Whole runs: whatever happens, what was promised holds, and afterwards the group works again.

use crate::world::{Plan, run};

/// The seeds of this run: some, or those of the environment.
fn seeds(default: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("CHORALE_SEEDS") else {
        return default;
    };
    let (from, to) = text.split_once("..").expect("CHORALE_SEEDS=from..to");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn whatever_happens_nothing_committed_is_lost_and_no_read_is_stale() {
    let (mut writes, mut leased, mut confirmed) = (0, 0, 0);
    for seed in seeds(0..30) {
        match run(Plan::draw(seed)) {
            Ok(summary) => {
                writes += summary.acknowledged;
                leased += summary.leased_reads;
                confirmed += summary.confirmed_reads;
            }
            Err(broken) => panic!("{broken}"),
        }
    }
    assert!(
        writes > 0 && leased > 0 && confirmed > 0,
        "{writes} {leased} {confirmed}"
    );
}

#[test]
fn damage_that_spares_all_copies_but_one_loses_nothing() {
    for seed in seeds(0..30) {
        let mut plan = Plan::draw(seed);
        plan.durability = consensus::Durability::Durable;
        (plan.damage, plan.crash) = (1_000, plan.crash.max(100));
        if let Err(broken) = run(plan) {
            panic!("{broken}");
        }
    }
}

#[test]
fn a_seed_decides_everything() {
    for seed in [3, 4] {
        let first = run(Plan::draw(seed)).expect("nothing breaks");
        assert_eq!(run(Plan::draw(seed)), Ok(first));
    }
}

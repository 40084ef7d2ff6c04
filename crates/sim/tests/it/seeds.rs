//! Seeds that find nothing.

use sim::{Bare, Options};

#[test]
fn dozens_of_seeds_find_nothing() {
    for seed in 1..=24 {
        if let Err(failure) = sim::run::<Bare>(seed, &Options::default()) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_seed_does_the_same_thing_twice() {
    for seed in 100..104 {
        let run = || sim::run::<Bare>(seed, &Options::default()).unwrap();
        assert_eq!(run(), run());
    }
}

#[test]
fn clusters_of_any_size_can_be_simulated() {
    for nodes in [1, 2, 7] {
        let options = Options {
            nodes: nodes..=nodes,
            bug: None,
        };
        if let Err(failure) = sim::run::<Bare>(5, &options) {
            panic!("{failure}");
        }
    }
}

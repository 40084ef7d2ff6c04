//! Seeds that find nothing.

use sim::{Bare, Node, Options, Whole};

fn find_nothing<N: Node>(seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        if let Err(failure) = sim::run::<N>(seed, &Options::default()) {
            panic!("{failure}");
        }
    }
}

#[test]
fn dozens_of_seeds_with_bare_nodes_find_nothing() {
    find_nothing::<Bare>(1..=24);
}

#[test]
fn a_handful_of_seeds_with_whole_nodes_finds_nothing() {
    find_nothing::<Whole>(1..=6);
}

#[test]
fn seeds_that_found_mistakes_in_transactions_find_nothing_any_more() {
    // A register that was forgotten above the mark was written again.
    find_nothing::<Whole>([12, 14]);
    // Votes and inquiries that got lost kept a transaction open for ever.
    find_nothing::<Whole>([56, 65]);
    // `WATCH` of several groups that are out of reach was answered twice.
    find_nothing::<Whole>([474]);
}

fn do_the_same_twice<N: Node>(seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        let run = || sim::run::<N>(seed, &Options::default()).expect("a seed that finds nothing");
        assert_eq!(run(), run());
    }
}

#[test]
fn a_seed_does_the_same_thing_twice() {
    do_the_same_twice::<Bare>(100..104);
    do_the_same_twice::<Whole>(100..102);
}

#[test]
fn clusters_of_any_size_can_be_simulated() {
    for nodes in [1, 2, 7] {
        let options = Options {
            nodes: nodes..=nodes,
            ..Options::default()
        };
        if let Err(failure) = sim::run::<Bare>(5, &options) {
            panic!("{failure}");
        }
    }
}

//! Both checks of transactions against every order of a few, and over long executions.

use crate::every_order;
use crate::executed::{self, Shape};
use crate::made::Draw;
use crate::spoiled;
use history::{Judgement, Outcome, exposed, list_append};

/// A shape of so few transactions that every order can be tried.
fn tiny(draw: &mut Draw, blind: u64) -> Shape {
    Shape {
        transactions: 3 + draw.below(4),
        clients: 1 + draw.below(5) as u32,
        keys: 1 + draw.below(3),
        appends_max: 8,
        spread: draw.below(40),
        unknown: draw.below(3) * 10,
        aborted: draw.below(3) * 10,
        blind,
    }
}

fn long(seed: u64) -> Shape {
    Shape {
        transactions: 300,
        clients: 12,
        keys: 1 + seed % 7,
        appends_max: 5 + (seed % 40) as usize,
        spread: seed % 90,
        unknown: seed % 8,
        aborted: seed % 11,
        blind: seed % 3 * 50,
    }
}

fn is_clean(judgement: &Judgement) -> bool {
    *judgement == Judgement::Clean
}

#[test]
fn the_verdict_on_lists_is_that_of_trying_every_order() {
    let (mut clean, mut violated) = (0, 0);
    for seed in 0..30_000 {
        let mut draw = Draw::new(seed);
        let shape = tiny(&mut draw, 0);
        let (_, mut told) = executed::both(seed, &shape);
        for _ in 0..draw.below(4) {
            told = executed::lie_about_lists(&told, &mut draw);
        }
        let judgement = list_append::check(&told);
        let expected = every_order::explains_lists(&told);
        assert_eq!(is_clean(&judgement), expected, "seed {seed}: {judgement}\n{told}");
        *(if expected { &mut clean } else { &mut violated }) += 1;
    }
    assert!(
        clean > 5_000 && violated > 5_000,
        "{clean} clean, {violated} violated"
    );
}

#[test]
fn the_verdict_on_versions_is_that_of_trying_every_order() {
    let (mut clean, mut violated) = (0, 0);
    for seed in 0..30_000 {
        let mut draw = Draw::new(seed);
        let shape = tiny(&mut draw, 0);
        let (mut told, _) = executed::both(seed, &shape);
        for _ in 0..draw.below(4) {
            told = executed::lie_about_versions(&told, &mut draw);
        }
        let judgement = exposed::check(&told);
        let expected = every_order::explains_versions(&told);
        assert_eq!(is_clean(&judgement), expected, "seed {seed}: {judgement}\n{told}");
        *(if expected { &mut clean } else { &mut violated }) += 1;
    }
    assert!(
        clean > 5_000 && violated > 5_000,
        "{clean} clean, {violated} violated"
    );
}

#[test]
fn a_write_whose_version_nobody_knows_never_makes_an_order_a_violation() {
    let mut explained = 0;
    for seed in 0..20_000 {
        let mut draw = Draw::new(seed);
        let shape = Shape {
            unknown: 40,
            ..tiny(&mut draw, 60)
        };
        let (mut told, _) = executed::both(seed, &shape);
        if draw.percent(50) {
            told = executed::lie_about_versions(&told, &mut draw);
        }
        let judgement = exposed::check(&told);
        if every_order::explains_versions(&told) {
            explained += 1;
            assert!(is_clean(&judgement), "seed {seed}: {judgement}\n{told}");
        }
    }
    assert!(explained > 5_000, "{explained}");
}

#[test]
fn long_executions_with_any_overlaps_pass() {
    for seed in 0..200 {
        let (seen, told) = executed::both(seed, &long(seed));
        assert_eq!(exposed::check(&seen), Judgement::Clean, "seed {seed}\n{seen}");
        assert_eq!(list_append::check(&told), Judgement::Clean, "seed {seed}\n{told}");
    }
}

#[test]
fn one_thing_told_otherwise_in_a_long_execution_is_found() {
    let mut spoiled = [0; 4];
    for seed in 0..200 {
        let shape = Shape {
            blind: 0,
            ..long(seed)
        };
        let (seen, told) = executed::both(seed, &shape);
        for (way, ((lists_how, of_lists), (versions_how, of_versions))) in
            spoiled::LISTS.into_iter().zip(spoiled::VERSIONS).enumerate()
        {
            let mut draw = Draw::new(seed);
            if let Some(lie) = of_lists(&told, &mut draw) {
                assert!(
                    !is_clean(&list_append::check(&lie)),
                    "seed {seed}, {lists_how}:\n{lie}"
                );
                spoiled[way] += 1;
            }
            if let Some(lie) = of_versions(&seen, &mut draw) {
                assert!(
                    !is_clean(&exposed::check(&lie)),
                    "seed {seed}, {versions_how}:\n{lie}"
                );
                spoiled[way] += 1;
            }
        }
    }
    assert!(
        spoiled.iter().all(|&count| count > 350),
        "{spoiled:?} of 400 each could be spoiled"
    );
}

#[test]
fn twenty_thousand_transactions_are_checked() {
    let shape = Shape {
        transactions: 20_000,
        clients: 40,
        keys: 50,
        appends_max: 60,
        spread: 150,
        unknown: 1,
        aborted: 3,
        blind: 0,
    };
    let (seen, told) = executed::both(7, &shape);
    assert!(seen.len() > 19_000, "{}", seen.len());
    assert_eq!(exposed::check(&seen), Judgement::Clean);
    assert_eq!(list_append::check(&told), Judgement::Clean);
    for (how, lie) in spoiled::LISTS {
        let lie = lie(&told, &mut Draw::new(7)).expect("there is a place for it");
        assert!(!is_clean(&list_append::check(&lie)), "{how}");
    }
    for (how, lie) in spoiled::VERSIONS {
        let lie = lie(&seen, &mut Draw::new(7)).expect("there is a place for it");
        assert!(!is_clean(&exposed::check(&lie)), "{how}");
    }
    assert!(told.as_slice().iter().any(|one| one.outcome == Outcome::Unknown));
}

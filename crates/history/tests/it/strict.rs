//! Both checks of transactions against every order of a few, and over long executions.

use crate::every_order;
use crate::executed::{self, Exposed, Lists, Shape};
use crate::made::Draw;
use history::{Judgement, Outcome, Transactions, exposed, list_append};
use std::collections::BTreeMap;

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
        assert_eq!(
            is_clean(&judgement),
            expected,
            "seed {seed}: {judgement:?}\n{told}"
        );
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
        assert_eq!(
            is_clean(&judgement),
            expected,
            "seed {seed}: {judgement:?}\n{told}"
        );
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
            assert!(is_clean(&judgement), "seed {seed}: {judgement:?}\n{told}");
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

/// A read that was called after the last append that it shows was answered no longer shows it.
fn stale_list(told: &Lists, draw: &mut Draw) -> Option<Lists> {
    let all = told.as_slice();
    let mut writers = BTreeMap::new();
    for (at, transaction) in all.iter().enumerate() {
        for action in &transaction.actions {
            if let list_append::Action::Append { element, .. } = action {
                writers.insert(*element, (at, transaction.ended()));
            }
        }
    }
    let is_settled = |reader: usize, last: &i64| {
        let (writer, ended) = writers[last];
        writer != reader && ended < all[reader].invoked
    };
    let settled: Vec<(usize, usize)> = executed::reads_of(told)
        .into_iter()
        .filter(|&(at, nth)| {
            let (_, elements) = executed::list_of(&all[at].actions[nth]).expect("only reads are listed");
            elements.last().is_some_and(|last| is_settled(at, last))
        })
        .collect();
    let &(at, nth) = settled.get(draw.below(settled.len().max(1) as u64) as usize)?;
    let mut spoiled = all.to_vec();
    if let list_append::Action::Read {
        elements: Some(elements),
        ..
    } = &mut spoiled[at].actions[nth]
    {
        elements.pop();
    }
    Some(Transactions::new(spoiled))
}

/// The same of versions: the version that was read is exchanged for the one before.
fn stale_version(seen: &Exposed, draw: &mut Draw) -> Option<Exposed> {
    let all = seen.as_slice();
    let mut writers = BTreeMap::new();
    for transaction in all.iter().filter(|transaction| transaction.is_committed()) {
        for action in &transaction.actions {
            if let exposed::Action::Update { key, read, left } = action {
                writers.insert((key.as_str(), *left), (*read, transaction.ended()));
            }
        }
    }
    let mut settled = Vec::new();
    for (at, transaction) in all.iter().enumerate() {
        for (nth, action) in transaction.actions.iter().enumerate() {
            if let exposed::Action::Read { key, version } = action
                && transaction.is_committed()
                && let Some(&(before, ended)) = writers.get(&(key.as_str(), *version))
                && ended < transaction.invoked
            {
                settled.push((at, nth, before));
            }
        }
    }
    let &(at, nth, before) = settled.get(draw.below(settled.len().max(1) as u64) as usize)?;
    let mut spoiled = all.to_vec();
    if let exposed::Action::Read { version, .. } = &mut spoiled[at].actions[nth] {
        *version = before;
    }
    Some(Transactions::new(spoiled))
}

#[test]
fn one_stale_read_in_a_long_execution_is_found() {
    let mut spoiled = 0;
    for seed in 0..200 {
        let (seen, told) = executed::both(seed, &long(seed));
        let mut draw = Draw::new(seed);
        if let Some(stale) = stale_list(&told, &mut draw) {
            assert!(!is_clean(&list_append::check(&stale)), "seed {seed}\n{stale}");
            spoiled += 1;
        }
        if let Some(stale) = stale_version(&seen, &mut draw) {
            assert!(!is_clean(&exposed::check(&stale)), "seed {seed}\n{stale}");
            spoiled += 1;
        }
    }
    assert!(spoiled > 350, "{spoiled} of 400 could be spoiled");
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
        blind: 50,
    };
    let (seen, told) = executed::both(7, &shape);
    assert!(seen.len() > 19_000, "{}", seen.len());
    assert_eq!(exposed::check(&seen), Judgement::Clean);
    assert_eq!(list_append::check(&told), Judgement::Clean);
    let mut draw = Draw::new(7);
    let stale = stale_list(&told, &mut draw).expect("there is one that can be spoiled");
    assert!(!is_clean(&list_append::check(&stale)));
    let stale = stale_version(&seen, &mut draw).expect("there is one that can be spoiled");
    assert!(!is_clean(&exposed::check(&stale)));
    assert!(told.as_slice().iter().any(|one| one.outcome == Outcome::Unknown));
}

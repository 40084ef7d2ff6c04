//! Transactions of a real serial execution, each with a call before and an answer after its moment, told in both forms at
//! once; and lies about them.

use crate::made::Draw;
use history::{Outcome, Process, Transaction, Transactions, exposed, list_append};
use std::collections::BTreeMap;

pub(crate) type Exposed = Transactions<exposed::Action>;
pub(crate) type Lists = Transactions<list_append::Action>;

/// How a history is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) transactions: u64,
    pub(crate) clients: u32,
    pub(crate) keys: u64,
    /// After how many appends a key is no longer used.
    pub(crate) appends_max: usize,
    /// How long a transaction takes at most on each side of its moment; one happens every 10.
    pub(crate) spread: u64,
    /// How many of a hundred have an unknown outcome.
    pub(crate) unknown: u64,
    /// How many of a hundred are aborted.
    pub(crate) aborted: u64,
    /// How many of a hundred of the unknown ones do not know which versions they left.
    pub(crate) blind: u64,
}

/// One key of the machine that carries the transactions out.
#[derive(Clone, Default)]
struct Kept {
    elements: Vec<i64>,
    version: u64,
}

/// Makes one from a seed.
pub(crate) fn both(seed: u64, shape: &Shape) -> (Exposed, Lists) {
    let mut draw = Draw::new(seed);
    let mut store: BTreeMap<String, Kept> = BTreeMap::new();
    let mut generations = vec![0; shape.keys as usize];
    let mut clients: Vec<(u64, u32)> = (0..shape.clients).map(|name| (0, name)).collect();
    let mut names = shape.clients;
    let (mut fresh, mut version) = (0, 0);
    let (mut exposed, mut lists) = (Vec::new(), Vec::new());
    for turn in 1..=shape.transactions {
        let moment = turn * 10 + shape.spread;
        let free: Vec<usize> = (0..clients.len())
            .filter(|&client| clients[client].0 < moment)
            .collect();
        if free.is_empty() {
            continue;
        }
        let client = free[draw.below(free.len() as u64) as usize];
        let invoked = moment
            .saturating_sub(draw.below(shape.spread + 1))
            .max(clients[client].0);
        let returned = moment + 1 + draw.below(shape.spread + 1);
        let outcome = match draw.below(100) {
            chance if chance < shape.unknown => Outcome::Unknown,
            chance if chance < shape.unknown + shape.aborted => Outcome::Aborted,
            _ => Outcome::Committed,
        };
        let happens = outcome == Outcome::Committed || outcome == Outcome::Unknown && draw.percent(50);
        let is_blind = outcome == Outcome::Unknown && draw.percent(shape.blind);
        let (mut seen, mut told) = (Vec::new(), Vec::new());
        let mut changed: BTreeMap<String, Kept> = BTreeMap::new();
        for _ in 0..=draw.below(4) {
            let slot = draw.below(shape.keys) as usize;
            let key = format!("k{slot}.{}", generations[slot]);
            let mut kept = changed.get(&key).or(store.get(&key)).cloned().unwrap_or_default();
            if draw.percent(50) {
                seen.push(exposed::Action::Read {
                    key: key.clone(),
                    version: kept.version,
                });
                told.push(list_append::Action::Read {
                    key,
                    elements: (outcome == Outcome::Committed).then_some(kept.elements),
                });
                continue;
            }
            fresh += 1;
            version += 1;
            seen.push(if is_blind || draw.percent(20) {
                exposed::Action::Write {
                    key: key.clone(),
                    left: (!is_blind).then_some(version),
                }
            } else {
                exposed::Action::Update {
                    key: key.clone(),
                    read: kept.version,
                    left: version,
                }
            });
            told.push(list_append::Action::Append {
                key: key.clone(),
                element: fresh,
            });
            kept.elements.push(fresh);
            kept.version = version;
            if kept.elements.len() >= shape.appends_max {
                generations[slot] += 1;
            }
            changed.insert(key, kept);
        }
        if happens {
            store.extend(changed);
        }
        clients[client].0 = returned + 1;
        let process = Process(clients[client].1);
        if outcome == Outcome::Unknown {
            clients[client].1 = names;
            names += 1;
        }
        let returned = (outcome != Outcome::Unknown).then_some(returned);
        exposed.push(Transaction {
            process,
            invoked,
            returned,
            outcome,
            actions: seen,
        });
        lists.push(Transaction {
            process,
            invoked,
            returned,
            outcome,
            actions: told,
        });
    }
    (Transactions::new(exposed), Transactions::new(lists))
}

/// Tells something else about one transaction or about one key.
pub(crate) fn lie_about_lists(made: &Lists, draw: &mut Draw) -> Lists {
    let mut told = made.as_slice().to_vec();
    let reads = reads_of(made);
    let Some(&(at, nth)) = pick(&reads, draw) else {
        return shift(told, draw);
    };
    let (key, elements) = list_of(&made.as_slice()[at].actions[nth]).expect("only reads are picked");
    let others: Vec<(usize, usize)> = reads
        .iter()
        .copied()
        .filter(|&(at, nth)| {
            list_of(&made.as_slice()[at].actions[nth]).is_some_and(|(other, _)| other == key)
        })
        .collect();
    let longest = others
        .iter()
        .filter_map(|&(at, nth)| list_of(&made.as_slice()[at].actions[nth]))
        .map(|(_, elements)| elements)
        .max_by_key(|elements| elements.len())
        .unwrap_or_default();
    let mut changed = elements.to_vec();
    match draw.below(9) {
        0 => {
            changed.pop();
        }
        1 => changed.extend(longest.get(elements.len())),
        2 if changed.len() > 1 => {
            let place = draw.below(changed.len() as u64 - 1) as usize;
            changed.swap(place, place + 1);
        }
        3 => changed.extend(elements.last()),
        4 => {
            let (other, its) = *pick(&others, draw).expect("it is one of them itself");
            let (_, its_elements) =
                list_of(&made.as_slice()[other].actions[its]).expect("only reads are picked");
            changed = its_elements.to_vec();
            told[other].actions[its] = read(key, elements.to_vec());
        }
        5 => {
            let lost = elements.last().copied();
            for &(at, nth) in &others {
                let (_, elements) =
                    list_of(&made.as_slice()[at].actions[nth]).expect("only reads are picked");
                let without = elements.iter().copied().filter(|&element| Some(element) != lost);
                told[at].actions[nth] = read(key, without.collect());
            }
            changed.pop();
        }
        6 => {
            let which = draw.below(told.len() as u64) as usize;
            told[which].outcome = match told[which].outcome {
                Outcome::Committed => Outcome::Aborted,
                Outcome::Aborted | Outcome::Unknown => Outcome::Committed,
            };
        }
        _ => return shift(told, draw),
    }
    told[at].actions[nth] = read(key, changed);
    Transactions::new(told)
}

/// The same of a history that shows versions.
pub(crate) fn lie_about_versions(made: &Exposed, draw: &mut Draw) -> Exposed {
    let mut told = made.as_slice().to_vec();
    let mut of_key: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let mut reads = Vec::new();
    for (at, transaction) in made.as_slice().iter().enumerate() {
        for (nth, action) in transaction.actions.iter().enumerate() {
            let versions = of_key.entry(action.key()).or_insert_with(|| vec![0]);
            match *action {
                exposed::Action::Read { version, .. } => {
                    versions.push(version);
                    reads.push((at, nth));
                }
                exposed::Action::Update { read, left, .. } => {
                    versions.extend([read, left]);
                    reads.push((at, nth));
                }
                exposed::Action::Write { left, .. } => versions.extend(left),
            }
        }
    }
    let Some(&(at, nth)) = pick(&reads, draw) else {
        return shift(told, draw);
    };
    let mut versions = of_key[made.as_slice()[at].actions[nth].key()].clone();
    versions.sort_unstable();
    versions.dedup();
    let found = match made.as_slice()[at].actions[nth] {
        exposed::Action::Read { version, .. } | exposed::Action::Update { read: version, .. } => version,
        exposed::Action::Write { .. } => unreachable!("only what reads was picked"),
    };
    let place = versions.partition_point(|&version| version < found);
    let found = match draw.below(6) {
        0 | 1 => versions[place.saturating_sub(1)],
        2 => *versions.get(place + 1).unwrap_or(&found),
        3 => versions[draw.below(versions.len() as u64) as usize],
        4 => {
            let which = draw.below(told.len() as u64) as usize;
            told[which].outcome = match told[which].outcome {
                Outcome::Committed => Outcome::Aborted,
                Outcome::Aborted | Outcome::Unknown => Outcome::Committed,
            };
            found
        }
        _ => return shift(told, draw),
    };
    match &mut told[at].actions[nth] {
        exposed::Action::Read { version, .. } | exposed::Action::Update { read: version, .. } => {
            *version = found
        }
        exposed::Action::Write { .. } => unreachable!("only what reads was picked"),
    }
    Transactions::new(told)
}

/// Lets one transaction happen earlier or later than it did, so that what it saw is of another time.
fn shift<A>(mut told: Vec<Transaction<A>>, draw: &mut Draw) -> Transactions<A> {
    if told.is_empty() {
        return Transactions::new(told);
    }
    let which = draw.below(told.len() as u64) as usize;
    let by = draw.below(60);
    let moved = |time: u64, is_later: bool| {
        if is_later {
            time + by
        } else {
            time.saturating_sub(by)
        }
    };
    let is_later = draw.percent(50);
    let transaction = &mut told[which];
    transaction.invoked = moved(transaction.invoked, is_later);
    transaction.returned = transaction.returned.map(|returned| moved(returned, is_later));
    Transactions::new(told)
}

/// Where the reads of committed transactions are.
pub(crate) fn reads_of(made: &Lists) -> Vec<(usize, usize)> {
    let mut reads = Vec::new();
    for (at, transaction) in made.as_slice().iter().enumerate() {
        if transaction.outcome == Outcome::Committed {
            let is_read = |&nth: &usize| list_of(&transaction.actions[nth]).is_some();
            reads.extend(
                (0..transaction.actions.len())
                    .filter(is_read)
                    .map(|nth| (at, nth)),
            );
        }
    }
    reads
}

pub(crate) fn list_of(action: &list_append::Action) -> Option<(&str, &[i64])> {
    match action {
        list_append::Action::Read {
            key,
            elements: Some(elements),
        } => Some((key, elements)),
        _ => None,
    }
}

fn read(key: &str, elements: Vec<i64>) -> list_append::Action {
    list_append::Action::Read {
        key: key.to_owned(),
        elements: Some(elements),
    }
}

fn pick<'a, T>(from: &'a [T], draw: &mut Draw) -> Option<&'a T> {
    if from.is_empty() {
        return None;
    }
    from.get(draw.below(from.len() as u64) as usize)
}

//! Money that moves between groups is neither lost nor found.

use crate::cluster::{Answer, Cluster, Fault, Way, group_of, operation};
use ids::Db;
use replica::{Condition, Operation};
use std::collections::BTreeMap;

const ACCOUNTS: u64 = 9;
const OPENING: i64 = 100;

/// Vaults: one field each of a hash so large that it is lent, not copied.
const VAULTS: u64 = 4;
const FIELDS: usize = 200;

#[derive(Debug, Default)]
struct Outcome {
    answered: u64,
    refused: u64,
    overdrawn: u64,
    read_all: u64,
    wounds: u64,
}

/// What a request was for, to judge its answer by.
enum Purpose {
    ReadAll,
    /// Adds so much to the counters.
    Count(i64),
    /// Moves money if there is enough.
    Transfer,
    Other,
}

fn account(number: u64) -> String {
    format!("account{number}")
}

fn vault(number: u64) -> String {
    format!("vault{number}")
}

/// The account reads, one `MGET` a group, and those of the vaults.
fn read_all() -> Vec<Operation> {
    let mut keys: BTreeMap<ids::GroupId, Vec<String>> = BTreeMap::new();
    for number in 0..ACCOUNTS {
        keys.entry(group_of(account(number).as_bytes()))
            .or_default()
            .push(account(number));
    }
    let accounts = keys
        .values()
        .map(|keys| operation(0, &format!("MGET {}", keys.join(" "))));
    let vaults = (0..VAULTS).map(|number| operation(0, &format!("HGET {} gold", vault(number))));
    accounts.chain(vaults).collect()
}

/// All that there is.
const TOTAL: i64 = OPENING * (ACCOUNTS + VAULTS) as i64;

/// The sum of all integers among the replies.
fn sum(replies: &[u8]) -> i64 {
    let text = std::str::from_utf8(replies).expect("replies here are text");
    text.split("\r\n")
        .filter_map(|line| line.parse::<i64>().ok())
        .sum()
}

/// Runs random requests to their end. An error says what the clients, or the operator, would have seen.
fn run(seed: u64, fault: Fault) -> Result<Outcome, String> {
    let mut cluster = Cluster::new(seed, fault);
    for number in 0..ACCOUNTS {
        cluster
            .execute(operation(0, &format!("SET {} {OPENING}", account(number))))
            .expect("nothing is locked");
    }
    for number in 0..VAULTS {
        let rest: String = (0..FIELDS).map(|field| format!(" field{field} x")).collect();
        cluster
            .execute(operation(
                0,
                &format!("HSET {} gold {OPENING}{rest}", vault(number)),
            ))
            .expect("nothing is locked");
    }
    let mut purposes: BTreeMap<u64, Purpose> = BTreeMap::new();
    let mut outcome = Outcome::default();
    let mut counted = 0;
    let mut left = 250;
    let mut steps = 0;
    loop {
        if left > 0 && cluster.asked() < outcome.answered + 14 && cluster.prng.below(3) > 0 {
            left -= 1;
            ask(&mut cluster, &mut purposes, &mut counted);
        } else if !cluster.step() && (left == 0 || cluster.asked() >= outcome.answered + 14) {
            break;
        }
        for (number, answer) in cluster.take_answers() {
            outcome.answered += 1;
            match (purposes.remove(&number).ok_or("answered twice")?, answer) {
                (Purpose::ReadAll, Answer::Done(replies)) => {
                    outcome.read_all += 1;
                    let total: i64 = replies.values().map(|replies| sum(replies)).sum();
                    if total != TOTAL {
                        return Err(format!("request {number} saw {total}"));
                    }
                }
                (Purpose::Count(by), Answer::Done(_)) => counted += by,
                (Purpose::Other | Purpose::Transfer, Answer::Done(_)) => {}
                (Purpose::Transfer, Answer::Refused) => outcome.overdrawn += 1,
                (_, Answer::Refused) => outcome.refused += 1,
            }
        }
        steps += 1;
        if steps > 200_000 {
            return Err("it does not end".into());
        }
    }
    if outcome.answered != cluster.asked() {
        return Err(format!(
            "stuck: {} of {} answered",
            outcome.answered,
            cluster.asked()
        ));
    }
    if cluster.lock_counts().iter().any(|counts| *counts != (0, 0)) {
        return Err(format!("locks are left: {:?}", cluster.lock_counts()));
    }
    let total: i64 = read_all()
        .iter()
        .map(|operation| sum(&cluster.peek(operation)))
        .sum();
    if total != TOTAL {
        return Err(format!("{total} at the end"));
    }
    let counters: i64 = (0..4)
        .map(|n| sum(&cluster.peek(&operation(0, &format!("MGET counter{n}")))))
        .sum();
    if counters != counted {
        return Err(format!("counted {counters}, told clients {counted}"));
    }
    outcome.wounds = cluster.wounds;
    Ok(outcome)
}

fn ask(cluster: &mut Cluster, purposes: &mut BTreeMap<u64, Purpose>, counted: &mut i64) {
    let below = |cluster: &mut Cluster, bound| cluster.prng.below(bound);
    let way = [Way::Evaluate, Way::Flow, Way::Lend][below(cluster, 3) as usize];
    let (number, purpose) = match below(cluster, 14) {
        0..5 => {
            let amount = below(cluster, 20);
            let mut operations = Vec::new();
            let parties = 1 + below(cluster, 3);
            for _ in 0..parties {
                let (from, to) = (
                    account(below(cluster, ACCOUNTS)),
                    account(below(cluster, ACCOUNTS)),
                );
                operations.push(operation(0, &format!("DECRBY {from} {amount}")));
                operations.push(operation(0, &format!("INCRBY {to} {amount}")));
            }
            if below(cluster, 2) == 0 {
                let (from, to) = (vault(below(cluster, VAULTS)), account(below(cluster, ACCOUNTS)));
                operations.push(operation(0, &format!("HINCRBY {from} gold -{amount}")));
                operations.push(operation(0, &format!("INCRBY {to} {amount}")));
            }
            let conditions = conditions(cluster);
            (cluster.transaction(way, conditions, operations), Purpose::Other)
        }
        5 | 6 => (cluster.transaction(way, Vec::new(), read_all()), Purpose::ReadAll),
        7 => {
            let line = ["FLUSHDB", "DBSIZE", "KEYS a*", "SWAPDB 5 6"][below(cluster, 4) as usize];
            (
                cluster.transaction(Way::Hold, Vec::new(), vec![operation(5, line)]),
                Purpose::Other,
            )
        }
        8 => {
            // Across databases of the name, and with a deadline.
            let line = format!(
                "SET {} v PX {}",
                account(below(cluster, ACCOUNTS)),
                1 + below(cluster, 20)
            );
            (
                cluster.transaction(way, Vec::new(), vec![operation(5, &line)]),
                Purpose::Other,
            )
        }
        9 => {
            let operations = (0..3)
                .map(|_| operation(0, &format!("INCR counter{}", below(cluster, 4))))
                .collect();
            let conditions = conditions(cluster);
            (
                cluster.transaction(way, conditions, operations),
                Purpose::Count(3),
            )
        }
        10 => {
            let key = format!("counter{}", below(cluster, 4));
            let conditions = conditions(cluster)
                .into_iter()
                .filter(|condition| {
                    group_of(crate::cluster::condition_key(condition)) == group_of(key.as_bytes())
                })
                .collect();
            let operations = vec![
                operation(0, &format!("INCRBY {key} 2")),
                operation(0, &format!("GET {key}")),
            ];
            (cluster.block(conditions, operations), Purpose::Count(2))
        }
        11 => {
            let key = format!("counter{}", below(cluster, 4));
            if cluster.execute(operation(0, &format!("INCR {key}"))).is_some() {
                *counted += 1;
                return;
            }
            (
                cluster.block(Vec::new(), vec![operation(0, &format!("INCR {key}"))]),
                Purpose::Count(1),
            )
        }
        12 => {
            let amount = below(cluster, 150);
            let (from, to) = (
                account(below(cluster, ACCOUNTS)),
                account(below(cluster, ACCOUNTS)),
            );
            let parts = vec![
                operation(0, &format!("XFER.FROM {from} {amount}")),
                operation(0, &format!("XFER.TO {to} {amount}")),
            ];
            (
                cluster.transaction(Way::Strict, Vec::new(), parts),
                Purpose::Transfer,
            )
        }
        _ => {
            cluster.idle();
            let key = account(below(cluster, ACCOUNTS));
            (
                cluster.block(Vec::new(), vec![operation(5, &format!("GET {key}"))]),
                Purpose::Other,
            )
        }
    };
    purposes.insert(number, purpose);
}

fn conditions(cluster: &mut Cluster) -> Vec<Condition> {
    let key = account(cluster.prng.below(ACCOUNTS));
    let db = Db::default();
    match cluster.prng.below(6) {
        0 => {
            let version = cluster.version(key.as_bytes());
            vec![Condition::Unchanged {
                db,
                key: key.into_bytes().into(),
                version,
            }]
        }
        1 => vec![Condition::Absent {
            db,
            key: key.into_bytes().into(),
        }],
        2 => vec![Condition::Absent {
            db,
            key: Box::from(&b"nobody"[..]),
        }],
        _ => Vec::new(),
    }
}

#[test]
fn every_read_of_everything_sees_the_same_sum_and_every_request_is_answered() {
    let mut all = Outcome::default();
    for seed in 0..60 {
        let outcome = run(seed, Fault::None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        all.read_all += outcome.read_all;
        all.refused += outcome.refused;
        all.overdrawn += outcome.overdrawn;
        all.wounds += outcome.wounds;
    }
    // The run was worth something.
    assert!(
        all.read_all > 500 && all.refused > 100 && all.overdrawn > 100 && all.wounds > 100,
        "{all:?}"
    );
}

/// How many of some runs with a fault are told from runs without.
fn noticed(fault: Fault, error: &str) -> usize {
    (0..40)
        .filter(|seed| run(*seed, fault).is_err_and(|found| found.contains(error)))
        .count()
}

#[test]
fn wounds_that_get_lost_are_noticed() {
    assert!(noticed(Fault::WoundsGetLost, "stuck") > 10);
}

#[test]
fn a_participant_that_is_told_the_wrong_decision_is_noticed() {
    assert!(noticed(Fault::OneParticipantAborts, "saw") > 30);
}

#[test]
fn an_error_that_refuses_for_nobody_is_noticed() {
    assert!(noticed(Fault::ErrorsAreResults, "saw") > 30);
}

#[test]
fn readers_without_locks_are_noticed() {
    assert!(noticed(Fault::ReadersTakeNoLocks, "saw") > 10);
}

#[test]
fn lending_one_value_to_several_is_noticed() {
    // Seldom: whoever reads a key with a deadline locks it alone all the same.
    assert!(noticed(Fault::LendsWithSharedLocks, "saw") > 5);
}

#[test]
fn a_lent_value_that_does_not_come_back_is_noticed() {
    assert!(noticed(Fault::KeepsWhatIsLent, "saw") > 30);
}

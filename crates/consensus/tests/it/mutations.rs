//! Each mistake that can be planted in this crate is noticed within so many seeds. Some need so rare a coincidence that
//! `scenario.rs` stages it, or a transcript.

use mutations::Mutation;

use crate::world::{Plan, run};

/// Seeds that a mistake is given.
const SEEDS: u64 = 150;

fn is_noticed(mutation: Mutation) {
    is_noticed_in(mutation, |_| ());
}

/// The same, in runs that `shape` makes likelier to meet it.
fn is_noticed_in(mutation: Mutation, shape: impl Fn(&mut Plan)) {
    mutations::plant(Some(mutation));
    let noticed = (0..SEEDS).find_map(|seed| {
        // A mistake may also trip an assertion of the library, or ours: that is noticing too.
        let mut plan = Plan::draw(seed);
        shape(&mut plan);
        let outcome = std::panic::catch_unwind(|| run(plan));
        match outcome {
            Ok(Ok(_)) => None,
            Ok(Err(broken)) => Some(broken),
            Err(_) => Some(format!("seed {seed}: a panic")),
        }
    });
    mutations::plant(None);
    let noticed = noticed.unwrap_or_else(|| panic!("{mutation:?} went unnoticed in {SEEDS} seeds"));
    println!("{mutation:?}: {noticed}");
}

#[test]
fn commitment_by_a_minority_is_noticed() {
    is_noticed(Mutation::MinorityCommit);
}

#[test]
fn a_lease_kept_across_a_transfer_is_noticed() {
    is_noticed(Mutation::LeaseKeptAcrossTransfer);
}

#[test]
fn a_campaign_inside_a_promise_is_noticed() {
    is_noticed(Mutation::CampaignInsidePromise);
}

#[test]
fn a_vote_inside_a_promise_is_noticed() {
    // Little is written, or who does not hear the leader is not up to date.
    is_noticed_in(Mutation::VoteInsidePromise, |plan| {
        plan.partition = 80;
        plan.clients_ms = 600;
        plan.crash = 0;
    });
}

#[test]
fn a_read_before_the_first_own_entry_is_noticed() {
    is_noticed(Mutation::ReadBeforeOwnEntry);
}

#[test]
fn a_lease_counted_from_the_arrival_is_noticed() {
    is_noticed(Mutation::LeaseFromArrival);
}

#[test]
fn a_lease_that_is_not_looked_at_again_is_noticed() {
    is_noticed(Mutation::LeaseNotChecked);
}

/// Replicas of which one lacks what was damaged, nearly always.
fn with_damage(plan: &mut Plan) {
    plan.durability = consensus::Durability::Durable;
    (plan.damage, plan.crash, plan.partition) = (1_000, 300, 80);
    plan.clients_ms = 60;
}

#[test]
fn a_floor_that_is_forgotten_is_noticed() {
    is_noticed_in(Mutation::FloorForgotten, with_damage);
}

#[test]
fn a_change_of_the_members_that_nobody_remembers_is_noticed() {
    is_noticed_in(Mutation::ChangeNotKept, |plan| {
        plan.durability = consensus::Durability::Durable;
        plan.damage = 0;
    });
}

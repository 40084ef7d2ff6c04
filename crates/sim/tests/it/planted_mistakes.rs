//! A suite that cannot fail proves nothing: each mistake that a node contains is caught.

use planted::Bug;
use sim::{Bare, Node, Options, Whole};

/// Seeds that a mistake may survive. Most are caught by one of the first ten.
const SEEDS_MAX: u64 = 150;

fn is_caught<N: Node>(bug: Bug) {
    let options = Options {
        bug: Some(bug),
        ..Options::default()
    };
    let caught = (1..=SEEDS_MAX).find_map(|seed| sim::run::<N>(seed, &options).err());
    let failure = caught.unwrap_or_else(|| panic!("nobody noticed {bug:?} in {SEEDS_MAX} seeds"));
    assert!(failure.command().contains(N::KIND));
    assert!(
        failure
            .command()
            .ends_with(&format!("--seed {} --bug {bug:?}", failure.seed))
    );
    assert!(
        !failure.trace.is_empty() && !failure.history.is_empty(),
        "it is explained"
    );
}

macro_rules! caught {
    ($($name:ident: $bug:ident;)*) => {
        $(
            #[test]
            fn $name() {
                is_caught::<Bare>(Bug::$bug);
            }
        )*

        /// Mistakes at places that the bare node does not have: whole nodes are tested for them below.
        const ELSEWHERE: &[Bug] = &[Bug::StaleMapAccepted, Bug::HandoverUsedTwice];

        #[test]
        fn every_mistake_has_its_test() {
            let tested = [$(Bug::$bug),*];
            for bug in Bug::ALL {
                assert!(tested.contains(bug) || ELSEWHERE.contains(bug), "{bug:?}");
            }
        }
    };
}

caught! {
    a_vote_without_memory_is_noticed: AmnesiacVote;
    a_commit_by_a_minority_is_noticed: MinorityCommit;
    a_lease_kept_across_a_transfer_is_noticed: LeaseKeptAcrossTransfer;
    a_campaign_inside_a_promise_is_noticed: CampaignInsidePromise;
    a_vote_inside_a_promise_is_noticed: VoteInsidePromise;
    a_read_before_the_own_entry_is_noticed: ReadBeforeOwnEntry;
    a_reused_round_of_reads_is_noticed: ReusedReadId;
    a_batch_applied_twice_is_noticed: ForwardAppliedTwice;
    an_entry_lost_in_a_transfer_is_noticed: EntryLostAtSnapshot;
    a_frame_for_an_earlier_incarnation_is_noticed: IncarnationNotChecked;
    a_reply_before_the_commit_is_noticed: ReplyBeforeCommit;
    the_batching_of_the_library_is_noticed: LibraryBatching;
    a_lease_counted_from_the_arrival_is_noticed: LeaseFromArrival;
    a_lease_that_is_not_looked_at_again_is_noticed: LeaseNotChecked;
}

#[test]
fn an_old_map_that_is_taken_for_news_is_noticed() {
    is_caught::<Whole>(Bug::StaleMapAccepted);
}

#[test]
fn a_hand_over_that_is_used_twice_is_noticed() {
    is_caught::<Whole>(Bug::HandoverUsedTwice);
}

#[test]
fn a_whole_node_that_votes_without_memory_is_noticed() {
    is_caught::<Whole>(Bug::AmnesiacVote);
}

#[test]
fn a_batch_that_a_whole_node_applies_twice_is_noticed() {
    is_caught::<Whole>(Bug::ForwardAppliedTwice);
}

#[test]
fn a_whole_node_that_replies_before_the_commit_is_noticed() {
    is_caught::<Whole>(Bug::ReplyBeforeCommit);
}

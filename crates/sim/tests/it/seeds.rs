//! Seeds that find nothing.

use ids::DurabilityMode;
use mutations::Mutation;
use sim::{Options, Swarm};

/// As these seeds were drawn when they found something: without losses of majorities, without damage, without zones, without scripts,
/// without nodes that leave, and without values that are kept as fragments.
fn of_any() -> Options {
    Options {
        ruins: false,
        damage: false,
        mishaps: false,
        zones: false,
        scripts: false,
        drains: false,
        ..without_coding()
    }
}

fn without_coding() -> Options {
    Options {
        coding: false,
        ..Options::default()
    }
}

fn of_workers(workers: usize) -> Options {
    Options {
        workers: workers..=workers,
        ..of_any()
    }
}

fn with_ruins(workers: usize) -> Options {
    Options {
        ruins: true,
        ..of_workers(workers)
    }
}

fn find_nothing(seeds: impl IntoIterator<Item = u64>, options: &Options) {
    for seed in seeds {
        if let Err(failure) = sim::run(seed, options) {
            panic!("{failure}");
        }
    }
}

/// Seeds that found something once, as they were drawn then.
#[test]
fn what_was_found_is_not_found_again() {
    // A client was served by one worker while another one tried for it, as its key might have moved: it was answered twice.
    find_nothing([4_926], &without_coding());
    // A process followed on another one at once, and others heard only then that this had ended: its links went one way, for ever.
    find_nothing([1_000_092], &without_coding());
    // A worker was called that there is none of, by one that its node was just calling: the link went one way, for ever.
    find_nothing([1_007_864, 1_016_703], &without_coding());
    // A node that an operator had put another one in the place of was back before anything was placed without it.
    find_nothing([1_003_153, 1_010_172], &without_coding());
    // What was left of a partition was sent in pieces so small that it was never through while that was locked.
    find_nothing([1_014_652], &without_coding());
    // A script that read for longer than a second under its locks was refused, and began again, always.
    find_nothing([1_018_011], &without_coding());
    // A long command needed a value that was kept as fragments, and its pieces were on their way when that was looked for.
    let few_workers = Options {
        workers: 1..=2,
        ..Options::default()
    };
    find_nothing([858], &few_workers);
    // A read needed several values, and each was demoted again while another one was gathered, for ever.
    let on_disk = Options {
        workers: 2..=2,
        durability: vec![DurabilityMode::Relaxed, DurabilityMode::Strict],
        ..Options::default()
    };
    find_nothing([230], &on_disk);
}

#[test]
fn a_handful_of_clusters_that_nodes_leave_finds_nothing() {
    let options = Options {
        nodes: 4..=6,
        ..Options::default()
    };
    find_nothing(1..=12, &options);
}

#[test]
fn who_is_replaced_and_what_is_placed_anew_is_drawn_apart() {
    let before = Options {
        replaces: false,
        ..Options::default()
    };
    let mut drawn = [0; 3];
    for seed in 1..=200 {
        let mut swarm = Swarm::draw(seed, &Options::default());
        drawn[0] += u64::from(swarm.replaces > 0);
        drawn[1] += u64::from(swarm.rebalances > 0);
        drawn[2] += u64::from(swarm.shape.has_late_zones && !swarm.shape.zones.is_empty());
        (swarm.replaces, swarm.rebalances, swarm.shape.has_late_zones) = (0, 0, false);
        swarm.zone_replaces = 0;
        assert_eq!(swarm, Swarm::draw(seed, &before));
    }
    assert!(drawn.iter().all(|seeds| *seeds > 5), "{drawn:?}");
}

#[test]
fn another_number_of_replicas_and_permission_to_stop_are_drawn_apart() {
    let before = Options {
        resizes: false,
        permits: false,
        ..Options::default()
    };
    let mut drawn = [0; 2];
    for seed in 1..=200 {
        let mut swarm = Swarm::draw(seed, &Options::default());
        drawn[0] += u64::from(swarm.resizes > 0);
        drawn[1] += u64::from(swarm.permits > 0);
        (swarm.resizes, swarm.permits) = (0, 0);
        assert_eq!(swarm, Swarm::draw(seed, &before));
    }
    assert!(drawn.iter().all(|seeds| *seeds > 5), "{drawn:?}");
}

#[test]
fn what_disks_do_beside_failing_as_a_whole_is_drawn_apart() {
    let durability = vec![
        DurabilityMode::Memory,
        DurabilityMode::Relaxed,
        DurabilityMode::Strict,
    ];
    let options = Options {
        durability,
        // They are kept from seeds in which a sync does not end.
        element_moves: false,
        ..Options::default()
    };
    let before = Options {
        mishaps: false,
        ..options.clone()
    };
    let mut drawn = [0; 4];
    for seed in 1..=400 {
        let mut swarm = Swarm::draw(seed, &options);
        let hangs = swarm.hangs > 0;
        let rates = [
            &mut swarm.errors,
            &mut swarm.hangs,
            &mut swarm.misplaced,
            &mut swarm.old_disks,
        ];
        for (drawn, rate) in drawn.iter_mut().zip(rates) {
            *drawn += u64::from(std::mem::take(rate) > 0);
        }
        let mut expected = Swarm::draw(seed, &before);
        if hangs {
            // Half a minute is to pass, and nothing else to end processes.
            (expected.storm, expected.kills, expected.hand_overs) = (swarm.storm, 0, 0);
            (expected.outages, expected.zone_losses) = (0, 0);
            (expected.disks, expected.damages) = (0, 0);
        }
        assert_eq!(swarm, expected);
    }
    assert!(drawn.iter().all(|seeds| *seeds > 5), "{drawn:?}");
}

#[test]
fn what_moves_elements_while_partitions_move_and_what_has_nodes_forget_is_drawn_apart() {
    let before = Options {
        element_moves: false,
        forgets: false,
        ..Options::default()
    };
    let mut drawn = [0; 3];
    for seed in 1..=400 {
        let mut swarm = Swarm::draw(seed, &Options::default());
        let mut expected = Swarm::draw(seed, &before);
        drawn[0] += u64::from(std::mem::take(&mut swarm.forgets) > 0);
        drawn[1] += u64::from(swarm.zone_replaces > 0);
        if swarm.partition_moves >= 2_000 {
            drawn[2] += 1;
            assert!(swarm.clients == 10 && swarm.shape.splits, "{swarm}");
            expected.partition_moves = swarm.partition_moves;
            expected.growths = expected.growths.max(12);
            (expected.clients, expected.think, expected.storm) = (10, swarm.think, swarm.storm);
            expected.shape.splits = true;
            // Clients ask for elements alone.
            assert_ne!(swarm, expected);
            continue;
        }
        assert_eq!(swarm, expected);
    }
    assert!(drawn.iter().all(|seeds| *seeds > 5), "{drawn:?}");
    assert!((12..=40).contains(&drawn[2]), "{drawn:?}");
}

#[test]
fn clusters_of_older_builds_are_upgraded_and_follow_the_newest_rules() {
    let before = sim::upgrades();
    let is_drawn = |seed: &u64| {
        !Swarm::draw(*seed, &Options::default())
            .shape
            .first_rules
            .is_empty()
    };
    find_nothing((1..=120).filter(is_drawn), &Options::default());
    let upgraded = sim::upgrades() - before;
    assert!(upgraded >= 3, "{upgraded} clusters were upgraded");
}

#[test]
fn older_rules_are_drawn_apart() {
    let before = Options {
        upgrades: false,
        ..Options::default()
    };
    let mut drawn = 0;
    for seed in 1..=200 {
        let mut swarm = Swarm::draw(seed, &Options::default());
        let rules = std::mem::take(&mut swarm.shape.first_rules);
        drawn += u64::from(!rules.is_empty());
        assert!(rules.iter().all(|known| *known >= rules[0]), "{rules:?}");
        let mut expected = Swarm::draw(seed, &before);
        if !rules.is_empty() {
            expected.hand_overs = expected.hand_overs.max(120);
        }
        assert_eq!(swarm, expected);
    }
    assert!((25..=75).contains(&drawn), "{drawn}");
}

#[test]
fn scripts_are_drawn_apart() {
    let before = Options {
        scripts: false,
        ..Options::default()
    };
    let differs = |seed: &u64| Swarm::draw(*seed, &Options::default()) != Swarm::draw(*seed, &before);
    let drawn = (1..=200).filter(differs).count();
    assert!((50..=150).contains(&drawn), "{drawn}");
}

#[test]
fn a_handful_of_seeds_finds_nothing() {
    find_nothing(1..=6, &Options::default());
    find_nothing(1..=6, &of_workers(2));
}

#[test]
fn seeds_that_found_mistakes_in_transactions_find_nothing_any_more() {
    // A vote record that was forgotten above the mark was written again.
    find_nothing([12, 14], &of_any());
    // Votes and queries that got lost kept a transaction open for ever.
    find_nothing([56, 65], &of_any());
    // `WATCH` of several groups that are out of reach was answered twice.
    find_nothing([474], &of_any());
    // An answer that was lost was asked for again, behind later ones of its connection.
    find_nothing([704], &of_workers(2));
    // Whoever asked late what had become of a transaction wrote a refusal that nobody forgot.
    find_nothing([376, 930], &of_workers(2));
}

#[test]
fn reads_of_a_pipeline_find_nothing_any_more_when_what_stands_before_them_is_lost() {
    // A write was lost with its link, and the read behind it was answered as if it had never been sent.
    find_nothing([22370, 27297, 27566, 54674, 73986], &of_workers(2));
    // Of reads that had waited together the last was answered, and the answers to those before it were lost.
    find_nothing([37479], &of_workers(2));
    // A batch that was not taken, because one before it was lost, left its reads behind, where they waited for a transaction.
    find_nothing([205115], &of_workers(2));
}

#[test]
fn a_queue_of_which_many_pushes_were_not_answered_is_judged() {
    find_nothing([90], &of_workers(2));
}

#[test]
fn queues_whose_clients_did_not_wait_and_often_found_nothing_are_judged() {
    find_nothing([757, 9816, 9966], &of_workers(2));
}

#[test]
fn a_register_of_which_many_writes_were_neither_answered_nor_seen_is_judged() {
    find_nothing([894], &of_workers(2));
}

#[test]
fn a_cluster_is_not_left_with_fewer_nodes_than_a_change_of_members_under_way_can_bear() {
    find_nothing([254], &of_workers(2));
    // The leader alone knew that three became two.
    find_nothing([63], &of_workers(2));
    // The change was the meta group's own.
    find_nothing([2431], &of_workers(2));
    // The change was ordered and had not begun: three were to become two, because two of four nodes were to leave.
    find_nothing([1213], &of_workers(2));
}

#[test]
fn clusters_that_grow_from_one_node_under_load_find_nothing() {
    // What was under way between two workers when a group got a log was taken for what it was not.
    find_nothing([3, 20, 34, 40], &of_workers(2));
}

#[test]
fn a_read_is_not_kept_by_a_transaction_that_waits_while_writes_behind_it_pass() {
    // The whole group was waited for: a write of the same connection was older than the transaction, and went before it.
    find_nothing([2817], &of_workers(2));
}

#[test]
fn a_leader_of_an_earlier_term_is_heard_when_its_group_has_begun_anew() {
    find_nothing([67224], &of_workers(2));
}

#[test]
fn who_begins_anew_is_not_taken_for_who_was_there_before() {
    // What was said to a process that dialled came to the one after it: the link went one way only, for ever.
    find_nothing([1678], &of_workers(2));
}

#[test]
fn a_link_that_has_lost_something_is_broken() {
    // An introduction was lost when the storm was over, and those around it were not: the link went one way only, for ever.
    find_nothing([54843], &with_ruins(2));
}

#[test]
fn a_group_that_began_anew_twice_keeps_nothing_that_has_arrived() {
    // What had been asked of a number before was taken for news of the write that had it since, which was answered to nobody.
    find_nothing([85386], &with_ruins(2));
}

#[test]
fn what_was_found_committed_has_one_end_though_no_vote_came_in_time() {
    // Its coordinator told each group once, and the first one that had recorded the commit to forget it.
    find_nothing([93966], &with_ruins(2));
}

#[test]
fn what_is_sent_again_to_a_group_that_began_anew_is_answered_in_its_order() {
    // What told of the generation before was taken out of a batch, and the reads behind it were not moved up: one of them was
    // answered what the write behind it had popped.
    find_nothing([97782], &with_ruins(2));
    // Here that read left what it had popped with the group.
    find_nothing([88130], &with_ruins(2));
}

#[test]
fn who_was_away_when_another_joined_is_dialled_by_it() {
    // It was to dial a member that it did not know, and which led the meta group.
    find_nothing([8846], &of_workers(2));
}

#[test]
fn who_waits_and_needs_a_key_alone_at_last_finds_no_short_lock_on_it() {
    // Another worker's command shared the key meanwhile; the group's locks could not be made ordinary ones, and the node ended.
    find_nothing([10407], &of_workers(2));
}

#[test]
fn a_log_of_the_meta_group_is_whole_when_it_is_there() {
    // It was made empty and then given its snapshot: a disk that failed in between left one that nothing could go on from.
    find_nothing([682], &of_workers(2));
}

#[test]
fn a_group_whose_next_configuration_nobody_lived_to_report_begins_anew() {
    // One voter had taken in a second, which died before the meta group heard of it: that one saw a majority, and nobody had it.
    find_nothing([486, 667], &with_ruins(2));
}

#[test]
fn a_group_that_died_amid_a_change_of_members_begins_anew_if_one_half_of_its_voters_has_no_majority() {
    // Two of four voters had died, and one of them was just being let go of: three were to vote, of whom two were there.
    find_nothing([86738], &with_ruins(2));
}

#[test]
fn nobody_leaves_a_group_that_needs_it_because_others_died_unmissed() {
    // Two of five voters of the meta group had died, and the leader let a third go, which was there: two of four were left.
    find_nothing([8795, 23558, 51498, 55231, 91167], &with_ruins(2));
}

#[test]
fn a_group_that_is_alone_gets_its_log_whatever_is_asked_of_it() {
    // There was always a transaction that held its keys, and waited for others that could not ask this group yet.
    find_nothing([52483], &with_ruins(2));
}

#[test]
fn who_joins_again_after_a_crash_is_not_followed_by_its_forerunner() {
    // What a process had asked for before it died was carried out after the next one had joined: that one was taken for replaced.
    find_nothing([81044, 82378, 82743], &with_ruins(2));
}

#[test]
fn a_group_that_is_led_does_not_begin_anew_because_nobody_has_heard_so() {
    // Whoever led the meta group since a moment knew of a lost voter, and not of the two that the group had taken in since.
    find_nothing([14555, 33140, 36702, 46835, 51434, 62015, 88798], &with_ruins(2));
}

#[test]
fn a_replica_that_is_given_up_is_filled_anew_and_clients_do_not_notice() {
    let options = Options {
        mutation: Some(Mutation::ScrubLies),
        ..Options::default()
    };
    let before = sim::given_up();
    find_nothing(1..=10, &options);
    let given_up = sim::given_up() - before;
    assert!(given_up >= 5, "{given_up} replicas were given up");
}

/// Groups that outlive the processes.
fn durably(mode: DurabilityMode) -> Options {
    Options {
        durability: vec![mode],
        scripts: false,
        drains: false,
        ..Options::default()
    }
}

/// As seeds of these were drawn before there was damage.
fn undamaged(mode: DurabilityMode) -> Options {
    Options {
        damage: false,
        mishaps: false,
        zones: false,
        ..durably(mode)
    }
}

/// The same before majorities lost their power, too.
fn spared(mode: DurabilityMode) -> Options {
    Options {
        ruins: false,
        ..undamaged(mode)
    }
}

#[test]
fn a_handful_of_seeds_whose_groups_are_kept_finds_nothing() {
    for mode in [DurabilityMode::Relaxed, DurabilityMode::Strict] {
        find_nothing(1..=8, &durably(mode));
    }
}

/// Two seeds of each mode in which a sync does not end, and some in which blocks are in the place of others, or directories are put back.
#[test]
fn disks_that_hang_or_lie_and_directories_that_are_put_back_lose_nothing() {
    let before = sim::mishaps();
    for mode in [DurabilityMode::Relaxed, DurabilityMode::Strict] {
        let options = durably(mode);
        let draw = |seed: &u64| Swarm::draw(*seed, &options);
        find_nothing((1..).filter(|seed| draw(seed).hangs > 0).take(2), &options);
        let is_harmed = |swarm: Swarm| swarm.misplaced > 0 && swarm.old_disks > 0 && swarm.hangs == 0;
        find_nothing((1..).filter(|seed| is_harmed(draw(seed))).take(40), &options);
    }
    let after = sim::mishaps();
    let hung = after.hung - before.hung;
    let (damaged, put_back) = (after.damaged - before.damaged, after.put_back - before.put_back);
    assert!(
        hung > 0 && damaged > 2 && put_back > 0,
        "{hung}, {damaged}, {put_back}"
    );
}

#[test]
fn members_that_start_again_know_that_a_joint_change_has_ended() {
    find_nothing([2], &spared(DurabilityMode::Relaxed));
}

#[test]
fn who_lost_its_power_as_the_only_reported_voter_is_asked_with_those_that_were_learners() {
    find_nothing([604, 800], &spared(DurabilityMode::Relaxed));
}

#[test]
fn groups_of_which_a_majority_lost_its_power_begin_anew_by_themselves() {
    // A lone voter, and its learner after it: nobody was left, and each waited for the other one.
    find_nothing([22], &undamaged(DurabilityMode::Relaxed));
}

/// Of one or two workers, and of any durability, as these seeds were drawn before nodes left.
fn of_any_durability() -> Options {
    Options {
        workers: 1..=2,
        unlike: false,
        durability: vec![
            DurabilityMode::Memory,
            DurabilityMode::Relaxed,
            DurabilityMode::Strict,
        ],
        mishaps: false,
        zones: false,
        scripts: false,
        drains: false,
        ..Options::default()
    }
}

#[test]
fn groups_that_stand_still_without_a_lost_majority_begin_anew_by_themselves() {
    // One of two voters had lost its power, and a learner too, which might have voted.
    find_nothing([400844, 401091], &of_any_durability());
    // Two of four voters.
    find_nothing([402072], &of_any_durability());
}

#[test]
fn who_voted_in_a_former_generation_is_not_waited_for() {
    // What was kept from before the group had begun anew named voters at a later place than the report of the next generation.
    find_nothing([400362, 401536], &of_any_durability());
}

/// Of six to nine nodes in three zones, in half of the seeds. What else goes wrong is as drawn; a zone is lost in some of these seeds,
/// cut off in others, and in half of them one never comes back.
#[test]
fn the_loss_of_one_of_three_zones_loses_nothing_and_the_others_serve_on() {
    let before = sim::zones_lost();
    for durability in [
        Vec::new(),
        vec![DurabilityMode::Relaxed],
        vec![DurabilityMode::Strict],
    ] {
        let options = Options {
            nodes: 6..=9,
            workers: 1..=2,
            unlike: false,
            growths: false,
            upgrades: false,
            durability,
            ..Options::default()
        };
        find_nothing(1..=16, &options);
    }
    // Nine, when this was written: where others are away already, a zone is cut off instead. Where groups are added, so it mostly is: one
    // that has a single replica as yet would have none. Where nodes are upgraded, one is away nearly always.
    let lost = sim::zones_lost() - before;
    assert!(lost >= 5, "{lost} zones were lost");
}

#[test]
fn locks_of_what_its_coordinator_has_given_up_are_let_go() {
    // They were granted when a node that was dead for ever had long said that the transaction was over.
    let options = Options {
        damage: false,
        ..of_any_durability()
    };
    find_nothing([302412], &options);
}

/// Nodes that leave are drawn too. Logs were damaged above what was synced, and before the next start.
#[test]
fn what_a_campaign_over_all_modes_has_found_is_not_found_again() {
    let options = Options {
        zones: true,
        drains: true,
        ..of_any_durability()
    };
    find_nothing([1_000_563, 1_001_392], &options);
    // A node that keeps a log of an earlier generation was waited for in vain: it had lost the one it was asked for.
    find_nothing([1_003_454], &options);
    // A log that came back was begun with, while those who were left voted by what nobody had reported.
    find_nothing([1_029_196], &options);
    // The meta group had a learner that its map knew no more, and nothing could be said of it ever after.
    find_nothing([1_018_734], &options);
    // One of three voters had come back as another, one was below its floor, and the third did not reach that.
    find_nothing([1_040_864], &options);
    // Power went after a replica had begun under a new name and was reported, and before that name was on its disk.
    find_nothing([1_051_550], &options);
}

#[test]
fn a_seed_does_the_same_thing_twice() {
    for seed in 100..102 {
        let run = || sim::run(seed, &Options::default()).expect("a seed that finds nothing");
        assert_eq!(run(), run());
    }
}

#[test]
fn clusters_of_any_size_can_be_simulated() {
    for nodes in [1, 2, 7] {
        let options = Options {
            nodes: nodes..=nodes,
            ..Options::default()
        };
        find_nothing([5], &options);
    }
}

//! What placements promise, for many members, groups and replication factors.

use ids::{GroupCount, NodeId};
use proptest::prelude::*;
use ring::{Placement, RingNode, bears_loss_of_zone, leaders, load_max, place};
use std::collections::BTreeMap;

const FACTORS: [usize; 5] = [1, 2, 3, 5, 6];

fn groups(count: u16) -> GroupCount {
    GroupCount::new(count).expect("between 1 and 1,024")
}

fn nodes(ids: impl IntoIterator<Item = u64>) -> Vec<RingNode<'static>> {
    let member = |id| RingNode {
        node: NodeId(id),
        zone: "",
        weight: 1,
    };
    ids.into_iter().map(member).collect()
}

/// Fewest and most of `what` that one of the members has.
fn extremes(members: &[RingNode<'_>], what: impl Iterator<Item = NodeId>) -> (usize, usize) {
    let mut loads: BTreeMap<NodeId, usize> = members.iter().map(|member| (member.node, 0)).collect();
    for node in what {
        *loads.get_mut(&node).expect("only members hold anything") += 1;
    }
    let least = loads.values().min().expect("there are members");
    let most = loads.values().max().expect("there are members");
    (*least, *most)
}

/// The invariants of every placement. Answers how many replicas are not alone in their zone, above the first there.
fn check(members: &[RingNode<'_>], groups: GroupCount, rf: usize, placement: &Placement) -> usize {
    let (group_count, rf) = (usize::from(groups.get()), rf.min(members.len()));
    assert_eq!(placement.0.len(), group_count);
    for (node, most) in load_max(members, groups, rf) {
        let load = placement.load(node);
        assert!(
            load <= most,
            "{load} replicas on {node:?} of {members:?}, and it may have {most}"
        );
    }
    let zone = |node: NodeId| {
        let member = members.iter().find(|member| member.node == node);
        match member.expect("only members hold anything").zone {
            "" => format!("node {}", node.0),
            name => name.to_owned(),
        }
    };
    let mut doubled = 0;
    for nodes in &placement.0 {
        let mut distinct = nodes.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!((distinct.len(), nodes.len()), (rf, rf));
        if members.iter().any(|member| !member.zone.is_empty()) {
            let mut zones: Vec<String> = nodes.iter().map(|&node| zone(node)).collect();
            zones.sort_unstable();
            zones.dedup();
            doubled += rf - zones.len();
            let all = nodes.iter().map(|&node| zone(node));
            let mut in_zone: BTreeMap<String, usize> = BTreeMap::new();
            all.for_each(|zone| *in_zone.entry(zone).or_default() += 1);
            let left = rf - in_zone.values().max().expect("a group has replicas");
            assert!(
                left > rf / 2 || !can_bear(members, rf),
                "{nodes:?} are no majority without a zone of {members:?}"
            );
        }
    }
    doubled
}

/// Whether there are zones enough: each may have so many replicas of a group that a majority is left.
fn can_bear(members: &[RingNode<'_>], rf: usize) -> bool {
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    let alone = members.iter().filter(|member| member.zone.is_empty()).count();
    for member in members.iter().filter(|member| !member.zone.is_empty()) {
        *zones.entry(member.zone).or_default() += 1;
    }
    let most = rf.saturating_sub(1) / 2;
    let in_zones: usize = zones.values().map(|&nodes| nodes.min(most)).sum();
    let can_bear = in_zones + alone * most.min(1) >= rf;
    assert_eq!(can_bear, bears_loss_of_zone(members, rf), "{members:?}, {rf}");
    can_bear
}

/// What each member is to have where no zones are: in proportion to its weight, but each group once.
fn shares(members: &[RingNode<'_>], groups: GroupCount, rf: usize) -> Vec<f64> {
    let most = f64::from(groups.get());
    let share = |level: f64| {
        members
            .iter()
            .map(move |member| (f64::from(member.weight) * level).min(most))
    };
    // By halves: the more each unit of weight has, the more all have.
    let (mut low, mut high) = (0.0, most);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        match share(middle).sum::<f64>() < most * rf as f64 {
            true => low = middle,
            false => high = middle,
        }
    }
    // What is nearly whole is whole.
    share(high).map(|share| (share * 1e6).round() / 1e6).collect()
}

/// How many replicas have to move whatever one does, because their nodes have more than they may.
fn above_caps(members: &[RingNode<'_>], groups: GroupCount, rf: usize, before: &Placement) -> usize {
    let caps = load_max(members, groups, rf).into_iter();
    caps.map(|(node, most)| before.load(node).saturating_sub(most))
        .sum()
}

/// The same, and that everything is as even as numbers can be: so it is where there are no zones.
fn check_even(members: &[RingNode<'_>], groups: GroupCount, rf: usize, placement: &Placement) {
    check(members, groups, rf, placement);
    let even = |what: Vec<NodeId>| {
        let (least, most) = extremes(members, what.iter().copied());
        let average = (what.len() / members.len(), what.len().div_ceil(members.len()));
        assert_eq!((least, most), average, "{} nodes, rf {rf}", members.len());
    };
    even(placement.0.iter().flatten().copied().collect());
    even(leaders(members, placement, &[]).into_iter().flatten().collect());
}

/// How many replicas cannot be alone in their zone whatever one does. A zone gives a group one place, and all of
/// them together as many as its nodes may hold; where that is enough, it can be done (Gale and Ryser).
fn doubled_min(members: &[RingNode<'_>], groups: GroupCount, rf: usize) -> usize {
    let group_count = usize::from(groups.get());
    let replicas = group_count * rf.min(members.len());
    let caps = load_max(members, groups, rf.min(members.len()));
    let cap = |node: NodeId| {
        caps.iter()
            .find(|(member, _)| *member == node)
            .expect("it has one")
            .1
    };
    let mut zones: BTreeMap<String, usize> = BTreeMap::new();
    for member in members {
        let zone = match member.zone {
            "" => format!("node {}", member.node.0),
            zone => format!("zone {zone}"),
        };
        *zones.entry(zone).or_default() += cap(member.node);
    }
    let places: usize = zones.values().map(|places| group_count.min(*places)).sum();
    replicas.saturating_sub(places)
}

#[test]
fn replicas_and_leaders_are_spread_evenly_over_three_to_a_thousand_nodes() {
    for count in [3, 4, 5, 7, 10, 31, 100, 317, 1_000] {
        let members = nodes(1..=count);
        for group_count in [1, 5, 64, 1_024] {
            for rf in FACTORS {
                let placement = place(&members, groups(group_count), rf, &Placement::default());
                check_even(&members, groups(group_count), rf, &placement);
            }
        }
    }
}

#[test]
fn a_node_that_joins_gets_its_share_and_nothing_else_moves() {
    for (range, group_count) in [
        (1..=40, 64),
        (1..=12, 1_024),
        (98..=101, 1_024),
        (999..=1_000, 1_024),
        (1..=9, 3),
    ] {
        for rf in FACTORS {
            let first = *range.start();
            let mut placement = place(&nodes(1..=first), groups(group_count), rf, &Placement::default());
            for k in first + 1..=*range.end() {
                let before = placement;
                placement = place(&nodes(1..=k), groups(group_count), rf, &before);
                check_even(&nodes(1..=k), groups(group_count), rf, &placement);
                if (k as usize) <= rf {
                    continue;
                }
                let replicas = usize::from(group_count) * rf;
                let moves = placement.moves_from(&before);
                assert_eq!(moves, placement.load(NodeId(k)), "node {k}, rf {rf}");
                assert!(moves <= replicas / k as usize, "{moves} moves, node {k}, rf {rf}");
            }
        }
    }
}

#[test]
fn when_a_node_leaves_nothing_moves_but_what_it_held() {
    for (count, group_count) in [(9, 64), (40, 64), (13, 1_024), (100, 1_024), (1_000, 1_024)] {
        for rf in FACTORS {
            let mut members = nodes(1..=count);
            let mut placement = place(&members, groups(group_count), rf, &Placement::default());
            for leaving in [3, 1, count, count / 2] {
                members.retain(|member| member.node != NodeId(leaving));
                let before = placement;
                placement = place(&members, groups(group_count), rf, &before);
                check_even(&members, groups(group_count), rf, &placement);
                if members.len() < rf {
                    continue;
                }
                let replicas = usize::from(group_count) * rf;
                let (held, moves) = (before.load(NodeId(leaving)), placement.moves_from(&before));
                assert_eq!(moves, held, "of {replicas} replicas, {count} nodes, rf {rf}");
            }
        }
    }
}

#[test]
fn another_replication_factor_moves_nothing_that_can_stay() {
    let members = nodes(1..=20);
    let one = place(&members, groups(64), 1, &Placement::default());
    let three = place(&members, groups(64), 3, &one);
    check_even(&members, groups(64), 3, &three);
    assert_eq!(three.moves_from(&one), 128);
    let five = place(&members, groups(64), 5, &three);
    assert_eq!(five.moves_from(&three), 128);
    let again = place(&members, groups(64), 3, &five);
    check_even(&members, groups(64), 3, &again);
    assert_eq!(again.moves_from(&five), 0);
}

#[test]
fn three_zones_of_many_nodes_each_hold_every_group() {
    for (count, group_count) in [(3, 64), (12, 64), (30, 1_024), (300, 1_024)] {
        let members: Vec<RingNode<'_>> = (0..count)
            .map(|id| RingNode {
                node: NodeId(id + 1),
                zone: ["a", "b", "c"][id as usize % 3],
                weight: 1,
            })
            .collect();
        let placement = place(&members, groups(group_count), 3, &Placement::default());
        assert_eq!(check(&members, groups(group_count), 3, &placement), 0);
        // Two zones at a time cannot be enough, so most groups have two replicas in one.
        let two: Vec<RingNode<'_>> = members
            .iter()
            .copied()
            .filter(|member| member.zone != "c")
            .collect();
        let placement = place(&two, groups(group_count), 3, &placement);
        assert_eq!(
            check(&two, groups(group_count), 3, &placement),
            if count == 3 { 0 } else { usize::from(group_count) }
        );
    }
}

#[test]
fn the_loss_of_one_of_three_zones_takes_no_majority_however_unlike_they_are() {
    for sizes in [[4, 1, 1], [4, 3, 3], [9, 2, 1], [7, 7, 1], [20, 5, 5]] {
        let zones = sizes.iter().zip(["a", "b", "c"]);
        let zones = zones.flat_map(|(&count, zone)| std::iter::repeat_n(zone, count));
        let members: Vec<RingNode<'_>> = (1..)
            .zip(zones)
            .map(|(id, zone)| RingNode {
                node: NodeId(id),
                zone,
                weight: 1,
            })
            .collect();
        for group_count in [1, 16, 200] {
            let groups = groups(group_count);
            // As it grew from one node, and from none.
            let mut grown = Placement::default();
            for count in 1..=members.len() {
                grown = place(&members[..count], groups, 3, &grown);
            }
            for placement in [grown, place(&members, groups, 3, &Placement::default())] {
                assert_eq!(check(&members, groups, 3, &placement), 0);
            }
            // With five replicas two may be in one zone, if there are two.
            if sizes.iter().filter(|&&size| size >= 2).count() >= 2 {
                let five = place(&members, groups, 5, &Placement::default());
                let doubled = usize::from(group_count) * 2;
                assert!(can_bear(&members, 5) && check(&members, groups, 5, &five) == doubled);
            }
        }
    }
}

#[test]
fn what_evenness_of_nodes_leaves_open_is_for_zones() {
    let members: Vec<RingNode<'_>> = (0..12)
        .map(|id| RingNode {
            node: NodeId(id + 1),
            zone: ["a", "b", "c"][id as usize / 4],
            weight: 1,
        })
        .collect();
    let of_zone = |leading: &[Option<NodeId>], zone: u64| {
        let leaders = leading.iter().flatten();
        leaders.filter(|node| (node.0 - 1) / 4 == zone).count()
    };
    for group_count in [3, 7, 18, 64, 200] {
        let placement = place(&members, groups(group_count), 3, &Placement::default());
        // Whoever leads now is whoever clockwise is next: by chance, and as nodes of the first zone would have it.
        for first in [false, true] {
            let current = placement.0.iter().map(|nodes| match first {
                true => nodes.iter().min().copied(),
                false => None,
            });
            let leading = leaders(&members, &placement, &current.collect::<Vec<_>>());
            let of_zones = [0, 1, 2].map(|zone| of_zone(&leading, zone));
            let (least, most) = (of_zones.iter().min(), of_zones.iter().max());
            assert!(
                most <= least.map(|least| least + 1).as_ref(),
                "{group_count}: {of_zones:?}"
            );
            let (least, most) = extremes(&members, leading.iter().flatten().copied());
            assert!(most <= least + 1, "and nodes are even still");
        }
    }
}

#[test]
fn a_placement_of_no_members_and_one_of_nonsense_are_placements() {
    let nothing = place(&[], groups(5), 3, &Placement::default());
    assert_eq!(nothing, Placement(vec![Vec::new(); 5]));
    assert_eq!(leaders(&[], &nothing, &[]), vec![None; 5]);
    let nonsense = Placement(vec![vec![NodeId(7), NodeId(1), NodeId(1), NodeId(9)]; 2_000]);
    let members = nodes(1..=4);
    let placement = place(&members, groups(64), 3, &nonsense);
    check_even(&members, groups(64), 3, &placement);
}

/// The slow and plain way: whether a chain of leaders, each handing a group to the next, makes anything more even.
fn is_improvable(may_lead: &Placement, leaders: &[Option<NodeId>]) -> bool {
    let mut led: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for (group, leader) in leaders.iter().enumerate() {
        led.entry(leader.expect("every group has a leader"))
            .or_default()
            .push(group);
    }
    let count = |node: &NodeId| led.get(node).map_or(0, Vec::len);
    led.keys().any(|start| {
        let mut reached = vec![*start];
        let mut at = 0;
        while at < reached.len() {
            for &group in led.get(&reached[at]).map_or(&[][..], Vec::as_slice) {
                for node in &may_lead.0[group] {
                    if !reached.contains(node) {
                        reached.push(*node);
                    }
                }
            }
            at += 1;
        }
        reached.iter().any(|node| count(node) + 2 <= count(start))
    })
}

#[derive(Clone, Debug)]
enum Change {
    Join { zone: usize },
    Leave { which: usize },
    Factor { rf: usize },
}

fn change(zones: usize) -> impl Strategy<Value = Change> {
    prop_oneof![
        5 => (0..zones).prop_map(|zone| Change::Join { zone }),
        3 => any::<usize>().prop_map(|which| Change::Leave { which }),
        1 => prop::sample::select(FACTORS.to_vec()).prop_map(|rf| Change::Factor { rf }),
    ]
}

fn history() -> impl Strategy<Value = (u16, Vec<usize>, Vec<Change>)> {
    (1usize..6).prop_flat_map(|zones| {
        (
            prop::sample::select(vec![1u16, 2, 5, 16, 64, 200]),
            prop::collection::vec(0..zones, 1..20),
            prop::collection::vec(change(zones), 1..20),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn through_any_history_caps_and_zones_hold_and_joins_move_little((group_count, first, changes) in history()) {
        const ZONES: [&str; 6] = ["a", "b", "c", "d", "", ""];
        let groups = groups(group_count);
        let member = |id: u64, zone: usize| RingNode { node: NodeId(id), zone: ZONES[zone], weight: 1 };
        let mut members: Vec<RingNode<'_>> = (1..).zip(first).map(|(id, zone)| member(id, zone)).collect();
        let (mut next, mut rf) = (members.len() as u64 + 1, 3);
        let mut placement = place(&members, groups, rf, &Placement::default());
        let mut leading = leaders(&members, &placement, &[]);
        for change in changes {
            let before = placement.clone();
            let replicas = usize::from(group_count) * rf;
            match change {
                Change::Join { zone } => {
                    members.push(member(next, zone));
                    next += 1;
                }
                Change::Leave { which } if members.len() > 1 => drop(members.remove(which % members.len())),
                Change::Leave { .. } => {}
                Change::Factor { rf: new } => rf = new,
            }
            placement = place(&members, groups, rf, &before);
            let doubled = check(&members, groups, rf, &placement);
            let doubled_min = doubled_min(&members, groups, rf);
            prop_assert_eq!(doubled, doubled_min, "as few share a zone as can be");
            prop_assert_eq!(&place(&members, groups, rf, &placement), &placement, "the same members move nothing");
            let k = members.len();
            // Where it is the first with which the loss of a zone can be borne, shares are others than before.
            let bears = |members: &[RingNode<'_>]| bears_loss_of_zone(members, rf.min(members.len()));
            if matches!(change, Change::Join { .. }) && k > rf && bears(&members[..k - 1]) == bears(&members) {
                let moves = placement.moves_from(&before);
                // What zones ask for comes on top: replicas that the new node lets stand apart.
                let apart = self::doubled_min(&members[..k - 1], groups, rf).saturating_sub(doubled);
                // One that joins in a zone that may have no more gets from there alone, which may be more than one of k; and caps of
                // others may have fallen.
                let gets = placement.load(NodeId(next - 1)).max(above_caps(&members, groups, rf, &before));
                let share = (gets as f64).max(replicas as f64 / k as f64);
                let moves_max = share + replicas as f64 * 0.05 + apart as f64 + 1.0;
                prop_assert!(
                    moves as f64 <= moves_max,
                    "{moves} of {replicas} moved for node {k}, {apart} to get apart: {members:?}, {before:?}, {placement:?}"
                );
            }
            let new = leaders(&members, &placement, &leading);
            prop_assert!(!is_improvable(&placement, &new));
            prop_assert_eq!(&leaders(&members, &placement, &new), &new, "what is even stays");
            leading = new;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nodes_hold_and_lead_by_their_weights_and_a_node_that_joins_takes_no_more_than_its_share(
        group_count in prop::sample::select(vec![1u16, 5, 64, 200]),
        weights in prop::collection::vec(1u16..9, 4..14),
        rf in prop::sample::select(FACTORS.to_vec()),
        has_zones in any::<bool>(),
    ) {
        let groups = groups(group_count);
        let members: Vec<RingNode<'_>> = (1..)
            .zip(&weights)
            .map(|(id, &weight)| RingNode {
                node: NodeId(id),
                zone: if has_zones { ["a", "b", "c"][id as usize % 3] } else { "" },
                weight,
            })
            .collect();
        let (mut placement, mut leading) = (Placement::default(), Vec::new());
        for count in rf.max(3)..=members.len() {
            let (members, before) = (&members[..count], placement);
            placement = place(members, groups, rf, &before);
            prop_assert_eq!(check(members, groups, rf, &placement), if has_zones { doubled_min(members, groups, rf) } else { 0 });
            prop_assert_eq!(&place(members, groups, rf, &placement), &placement, "the same members move nothing");
            leading = leaders(members, &placement, &leading);
            prop_assert_eq!(&leaders(members, &placement, &leading), &leading, "what is even stays");
            if has_zones {
                continue;
            }
            for (member, share) in members.iter().zip(shares(members, groups, rf)) {
                let has = placement.load(member.node) as f64;
                prop_assert!(share.floor() <= has && has <= share.ceil(), "{has} for {share}: {members:?}");
            }
            if count > rf.max(3) {
                let new = members[count - 1].node;
                let moves = placement.moves_from(&before);
                // Caps of others may have fallen by it.
                let gets = placement.load(new).max(above_caps(members, groups, rf, &before));
                let moves_max = gets as f64 + 0.05 * placement.0.iter().flatten().count() as f64 + 1.0;
                prop_assert!(moves as f64 <= moves_max, "{moves} moved, and {new:?} got {}", placement.load(new));
            }
        }
    }
}

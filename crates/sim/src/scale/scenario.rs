//! What happens to a cluster of one size, step by step, and until when it is not settled.

use super::fleet::{Fleet, REPLACE_AFTER};
use super::founding::{ZONES, found};
use super::report::{SizeReport, StepReport};
use super::tally::{Purpose, Tally};
use control::{Group, GroupRef, MetaCommand, NodeGoal, RoutingMap, State};
use ids::NodeId;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a cluster that nothing happens to is watched.
const STEADY: Duration = Duration::from_secs(10);

/// How often it is looked whether a step is over.
const LOOK: Duration = Duration::from_millis(100);

/// And for how long it is to stay so.
const QUIET: Duration = Duration::from_secs(2);

/// A node that dies was heard so long ago, at most.
const HEARD_BEFORE: Duration = Duration::from_secs(2);

/// A step that takes longer is stuck.
const STEP_MAX: Duration = Duration::from_secs(1_200);

/// A cluster of so many nodes, which was founded with so many groups: nothing happens for some time; a node joins; another one is emptied; one dies, and is replaced;
/// the zone of the meta group's leader is lost.
///
/// # Panics
/// If the numbers are beyond their bounds, or a step does not end.
pub fn simulate(nodes: usize, groups: u16) -> SizeReport {
    let mut fleet = Fleet::start(found(nodes, groups));
    until(&mut fleet, &is_whole);
    fleet.run(Duration::from_secs(5));
    let state = fleet.leader().expect("it is settled").1;
    let replicas: usize = state.groups().values().map(|group| group.members.len()).sum();
    let pairs: BTreeSet<(NodeId, NodeId)> = state.groups().values().flat_map(pairs_of).collect();
    let map_bytes = RoutingMap::of(state).encode().len() as u64;
    let mut report = SizeReport {
        nodes,
        groups: state.groups().len() as u64 - 1,
        replicas: replicas as u64,
        pairs: pairs.len() as u64,
        map_bytes,
        steps: Vec::new(),
    };
    fleet.tally = Tally::default();
    fleet.run(STEADY);
    let tally = std::mem::take(&mut fleet.tally);
    report.steps.push(step("nothing happens", STEADY, &tally));

    report
        .steps
        .push(watch("a node joins", &mut fleet, false, Fleet::join, &is_whole));

    let (drained, _) = idle(&fleet);
    let drain = MetaCommand::SetGoal {
        nodes: vec![drained],
        goal: NodeGoal::Drains,
    };
    let is_drained = move |fleet: &Fleet, state: &State| {
        let mut groups = state.groups().values();
        is_whole(fleet, state) && !groups.any(|group| group.involves(drained))
    };
    report.steps.push(watch(
        "a node is drained",
        &mut fleet,
        false,
        |fleet| fleet.propose(drain),
        &is_drained,
    ));

    let (_, dying) = idle(&fleet);
    let died_at = fleet.now();
    report.steps.push(watch(
        "a node dies",
        &mut fleet,
        false,
        |fleet| fleet.end(&[dying], false),
        &is_led,
    ));
    let is_replaced = move |fleet: &Fleet, state: &State| {
        let mut groups = state.groups().values();
        is_whole(fleet, state) && !groups.any(|group| group.involves(dying))
    };
    // It is waited for; what is counted begins shortly before that is over.
    let waited = Duration::from_nanos(fleet.now() - died_at);
    fleet.run(REPLACE_AFTER.saturating_sub(waited + HEARD_BEFORE));
    report
        .steps
        .push(watch("it is replaced", &mut fleet, true, |_| {}, &is_replaced));

    let zone = zone_of_leader(&fleet);
    report.steps.push(watch(
        "a zone is lost",
        &mut fleet,
        false,
        |fleet| fleet.end(&zone, true),
        &is_led,
    ));
    report
}

/// Lets something happen, and counts until it is settled. If that `waits` for something, the time begins with the first version of the map.
fn watch(
    name: &'static str,
    fleet: &mut Fleet,
    waits: bool,
    act: impl FnOnce(&mut Fleet),
    is_over: &dyn Fn(&Fleet, &State) -> bool,
) -> StepReport {
    let began = fleet.now();
    fleet.tally = Tally::default();
    fleet.first_map_at = None;
    act(fleet);
    let tally = until(fleet, is_over);
    let began = fleet.first_map_at.filter(|_| waits).unwrap_or(began);
    let time = Duration::from_nanos(fleet.last_map_at.saturating_sub(began));
    step(name, time, &tally)
}

/// Goes on until it is so, and has stayed so. What was counted until it was so.
fn until(fleet: &mut Fleet, is_over: &dyn Fn(&Fleet, &State) -> bool) -> Tally {
    let end = fleet.now() + STEP_MAX.as_nanos() as u64;
    loop {
        fleet.run(LOOK);
        let is_so = |fleet: &Fleet| {
            let leader = fleet.leader();
            leader.is_some_and(|(_, state)| fleet.all_know(state.epoch()) && is_over(fleet, state))
        };
        if is_so(fleet) {
            let (tally, epoch) = (fleet.tally.clone(), fleet.last_map_at);
            fleet.run(QUIET);
            if is_so(fleet) && fleet.last_map_at == epoch {
                return tally;
            }
        }
        assert!(fleet.now() < end, "a step does not end: {}", describe(fleet));
    }
}

fn step(name: &'static str, time: Duration, tally: &Tally) -> StepReport {
    StepReport {
        name,
        sent: tally.all(),
        by_purpose: Purpose::ALL.map(|purpose| (purpose.name(), tally.of(purpose))),
        led_messages: tally.led.messages,
        entries: tally.led.entries,
        looks: tally.led.looks,
        cpu: tally.led.cpu,
        longest_look: tally.led.longest_look,
        epochs: tally.epochs,
        known_after: tally.known_after,
        moved: tally.filled,
        added: tally.added,
        partitions: tally.partitions,
        fences: tally.fences,
        layouts: tally.layouts,
        layouts_cpu: tally.layouts_cpu,
        time,
    }
}

/// Whether every group is where it is to be, is led by whoever is to, and hosts its share.
fn is_whole(fleet: &Fleet, state: &State) -> bool {
    let is_even = state.wishes().is_empty() && fleet.partitions_left() == 0;
    is_even
        && state.groups().iter().all(|(&name, group)| {
            let voters: BTreeSet<NodeId> = group.voters().map(|voter| voter.node).collect();
            let targets: BTreeSet<NodeId> = group.targets.iter().copied().collect();
            let is_led_right = name == GroupRef::Meta || group.leader == group.leader_target;
            let is_led = group.leader.is_some_and(|leader| fleet.runs(leader));
            let is_in_place = voters == targets && group.members.len() == targets.len();
            is_in_place && is_led && is_led_right && group.lost.is_empty() && group.expected.is_empty()
        })
}

/// Whether every group is led, as far as it has a majority.
fn is_led(fleet: &Fleet, state: &State) -> bool {
    state.groups().values().all(|group| {
        let live = group.voters().filter(|voter| fleet.runs(voter.node)).count();
        let can_be_led = live >= control::majority(group.voters().count());
        !can_be_led || group.leader.is_some_and(|leader| fleet.runs(leader))
    })
}

/// Two nodes, the last ones that run and have no seat in the meta group, the very last first.
fn idle(fleet: &Fleet) -> (NodeId, NodeId) {
    let (_, state) = fleet.leader().expect("it is settled");
    let meta = &state.groups()[&GroupRef::Meta];
    let mut running: Vec<NodeId> = fleet.running().filter(|node| !meta.involves(*node)).collect();
    running.sort_unstable();
    let last = running.pop().expect("there are more nodes than seats");
    (last, running.pop().unwrap_or(last))
}

/// The nodes in the zone of whoever leads the meta group.
fn zone_of_leader(fleet: &Fleet) -> Vec<NodeId> {
    let (leader, state) = fleet.leader().expect("it is settled");
    let zone_of = |node: NodeId| &state.nodes()[&node].announcement.zone;
    let zone: Vec<NodeId> = fleet
        .running()
        .filter(|node| zone_of(*node) == zone_of(leader))
        .collect();
    assert!(
        zone.len() * ZONES >= fleet.running().count() - ZONES,
        "zones are even"
    );
    zone
}

/// The nodes of a group, two and two.
fn pairs_of(group: &Group) -> Vec<(NodeId, NodeId)> {
    let mut nodes: Vec<NodeId> = group.members.iter().map(|member| member.node).collect();
    nodes.sort_unstable();
    let before = |(place, one): (usize, &NodeId)| {
        nodes[..place]
            .iter()
            .map(|other| (*other, *one))
            .collect::<Vec<_>>()
    };
    nodes.iter().enumerate().flat_map(before).collect()
}

fn describe(fleet: &Fleet) -> String {
    let Some((leader, state)) = fleet.leader() else {
        return "nobody leads the meta group".to_owned();
    };
    let wrong = state.groups().iter().find(|(_, group)| {
        let voters: BTreeSet<NodeId> = group.voters().map(|voter| voter.node).collect();
        voters != group.targets.iter().copied().collect() || group.leader != group.leader_target
    });
    format!(
        "led by {leader:?}, {} moves are left, for one {wrong:?}",
        state.moves_left()
    )
}

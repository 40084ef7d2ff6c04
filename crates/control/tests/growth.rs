//! Groups that are added, and partitions that are to move to them.

use control::{
    Announcement, Factor, GroupMember, GroupRef, GroupReport, MemberRole, MetaCommand, MetaMessage,
    MetaOutcome, MetaRefusal, NodeHeartbeat, NodeMemory, Observations, Pace, PartitionNotes, ReconcileStep,
    Report, RoutingMap, State, steps,
};
use ids::{
    ClusterId, DurabilityMode, Epoch, GroupCount, GroupId, Groups, Host, NodeId, PartitionCount, PartitionId,
    SemanticsVersion, Token,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PACE: Pace = Pace {
    splits: true,
    learners_of_node_max: 2,
    light_learners_of_node_max: 4,
    transfers_max: 4,
    away_after: Duration::from_secs(1),
    miss_after: Duration::from_secs(30),
    replace_after: Duration::from_secs(20),
    raise_after: Duration::from_secs(20),
};

fn announcement(number: u64, weight_percent: u16) -> Announcement {
    Announcement {
        client: format!("a:{number}"),
        cluster: format!("b:{number}"),
        peer: format!("c:{number}"),
        zone: String::new(),
        name: String::new(),
        weight_percent,
        semantics_min: SemanticsVersion(1),
        semantics_max: SemanticsVersion::CURRENT,
    }
}

fn count(count: u16) -> GroupCount {
    GroupCount::new(count).expect("a valid count")
}

/// One node of this weight, with so many groups of 16 partitions.
fn created(groups: u16, weight_percent: u16, semantics: SemanticsVersion) -> State {
    let mut state = State::default();
    let partitions = PartitionCount::new(16).expect("a valid count");
    let create = MetaCommand::Create {
        cluster: ClusterId(9),
        token: Token(1),
        groups: Groups::new(count(groups), partitions).expect("no more groups than partitions"),
        factor: Factor::Auto,
        durability: DurabilityMode::Memory,
        semantics,
        announcement: announcement(1, weight_percent),
    };
    state.apply(&create).expect("there is no cluster yet");
    state
}

fn join(state: &mut State, number: u64) {
    let join = MetaCommand::Join {
        token: Token(number.into()),
        announcement: announcement(number, 100),
    };
    state.apply(&join).expect("it may join");
}

fn host(group: u16, moves: u32) -> Host {
    Host {
        group: GroupId::new(group),
        moves,
    }
}

fn moved(partition: u16, group: u16, moves: u32) -> MetaCommand {
    MetaCommand::PartitionsMoved {
        hosts: vec![(PartitionId::new(partition), host(group, moves))],
    }
}

fn want(partition: u16, group: u16) -> MetaCommand {
    MetaCommand::WantPartitions {
        wishes: vec![(PartitionId::new(partition), GroupId::new(group))],
    }
}

fn check(state: &State) {
    state.check().expect("its invariants hold");
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(state));
    let map = RoutingMap::of(state);
    assert_eq!(RoutingMap::decode(&map.encode()).as_ref(), Ok(&map));
    assert_eq!(map.key_groups(), state.key_groups());
}

#[test]
fn groups_are_not_added_before_every_build_knows_that_there_can_be_more() {
    let before = SemanticsVersion(SemanticsVersion::PARTITIONS_MOVE.0 - 1);
    let mut state = created(3, 100, before);
    let untouched = state.clone();
    for command in [
        MetaCommand::AddGroups { count: count(4) },
        want(0, 1),
        moved(0, 1, 1),
    ] {
        assert_eq!(state.apply(&command), Err(MetaRefusal::Semantics));
    }
    assert_eq!(state, untouched);
    assert!(
        steps(&state, &Observations::default(), &PACE)
            .iter()
            .all(|step| { !matches!(step, ReconcileStep::Propose(MetaCommand::AddGroups { .. })) })
    );
}

#[test]
fn groups_that_are_added_host_nothing_and_begin_where_the_fewest_are_led() {
    let mut state = created(3, 100, SemanticsVersion::CURRENT);
    join(&mut state, 2);
    let epoch = state.epoch();
    let add = MetaCommand::AddGroups { count: count(5) };
    assert_eq!(state.apply(&add), Ok(MetaOutcome::Done));
    check(&state);
    assert_eq!(state.epoch(), Epoch(epoch.0 + 1));
    let groups = state.key_groups().expect("there is a cluster");
    assert_eq!((groups.get(), groups.founded().get()), (5, 3));
    for number in [3, 4] {
        let group = &state.groups()[&GroupRef::Data(GroupId::new(number))];
        assert_eq!(group.members.len(), 1);
        assert_eq!(group.leader_target, Some(NodeId(2)), "the other node leads four");
        assert_eq!(groups.partitions_of(GroupId::new(number)).count(), 0);
    }
    assert!(!state.is_placed_for_wanted(), "they are to be placed");
    let known = state.clone();
    assert_eq!(state.apply(&add), Ok(MetaOutcome::Done), "again");
    let fewer = MetaCommand::AddGroups { count: count(2) };
    assert_eq!(state.apply(&fewer), Ok(MetaOutcome::Done), "never fewer");
    assert_eq!(state, known);
    state
        .apply(&MetaCommand::AddGroups { count: count(4_000) })
        .expect("it is possible");
    check(&state);
    assert_eq!(
        state.key_groups().map(Groups::get),
        Some(16),
        "as many as partitions"
    );
}

#[test]
fn a_group_that_has_nothing_but_a_replica_without_memory_begins_anew() {
    let mut state = created(3, 100, SemanticsVersion::CURRENT);
    join(&mut state, 2);
    state
        .apply(&MetaCommand::AddGroups { count: count(4) })
        .expect("it is possible");
    let name = GroupRef::Data(GroupId::new(3));
    let first = state.groups()[&name].members.clone();
    assert_eq!(first[0].node, NodeId(2));
    let anew = |state: &State, heard: &Observations| {
        let all = steps(state, heard, &PACE);
        let mut commands = all.into_iter().filter_map(|step| match step {
            ReconcileStep::Propose(command @ MetaCommand::FoundAnew { .. }) => Some(command),
            _ => None,
        });
        commands.next()
    };
    let command = MetaCommand::FoundAnew {
        group: GroupId::new(3),
        node: NodeId(1),
    };
    assert_eq!(anew(&state, &heard(&[1])), None, "its node may be there");
    assert_eq!(state.apply(&command), Err(MetaRefusal::NotNeeded));
    let boot = state.nodes()[&NodeId(2)].boot;
    assert_eq!(state.apply(&MetaCommand::Gone { boot }), Ok(MetaOutcome::Done));
    let before = state.clone();
    assert_eq!(anew(&state, &heard(&[1])), Some(command.clone()));
    assert_eq!(state.apply(&command), Ok(MetaOutcome::Done));
    check(&state);
    let group = &state.groups()[&name];
    assert_eq!(group.members.len(), 1);
    assert_eq!(
        (group.members[0].node, group.leader_target),
        (NodeId(1), Some(NodeId(1)))
    );
    assert_ne!(
        group.members[0].incarnation, first[0].incarnation,
        "it is another replica"
    );
    assert_eq!(state.apply(&command), Err(MetaRefusal::NotNeeded));
    // One to which something is on its way, or has come, keeps what it may have.
    for command_before in [want(7, 3), moved(7, 3, 1)] {
        let mut state = before.clone();
        state.apply(&command_before).expect("it is possible");
        assert_eq!(state.apply(&command), Err(MetaRefusal::NotNeeded));
        assert_eq!(anew(&state, &heard(&[1])), None);
    }
}

#[test]
fn what_has_moved_oftener_counts_and_fulfils_what_was_wanted() {
    let mut state = created(2, 100, SemanticsVersion::CURRENT);
    state
        .apply(&MetaCommand::AddGroups { count: count(3) })
        .expect("it is possible");
    let at = |state: &State, partition| {
        let groups = state.key_groups().expect("there is a cluster");
        let partition = PartitionId::new(partition);
        (groups.host_of(partition).number(), groups.moves_of(partition))
    };
    state.apply(&want(7, 2)).expect("it is possible");
    assert_eq!(state.wishes(), &[(PartitionId::new(7), GroupId::new(2))].into());
    check(&state);
    state.apply(&moved(7, 2, 1)).expect("it is possible");
    assert!(state.wishes().is_empty(), "it is there");
    assert_eq!(at(&state, 7), (2, 1));
    check(&state);
    state.apply(&moved(7, 0, 2)).expect("it is possible");
    let known = state.clone();
    state.apply(&moved(7, 2, 1)).expect("old news is none");
    state.apply(&moved(7, 2, 2)).expect("nor is what is no newer");
    assert_eq!(state, known);
    assert_eq!(at(&state, 7), (0, 2), "back where it was, which is newer");
    state.apply(&want(7, 1)).expect("it is possible");
    state.apply(&want(7, 0)).expect("it is possible");
    assert!(state.wishes().is_empty(), "it is to stay");
    for command in [want(16, 0), want(0, 3), moved(16, 0, 1), moved(0, 3, 1)] {
        assert_eq!(state.apply(&command), Err(MetaRefusal::Unknown));
    }
    check(&state);
}

/// Observations of a leader that has just heard from these nodes.
fn heard(nodes: &[u64]) -> Observations {
    Observations {
        silence: nodes.iter().map(|node| (NodeId(*node), Duration::ZERO)).collect(),
        ..Observations::default()
    }
}

fn adds(step: &ReconcileStep) -> bool {
    matches!(step, ReconcileStep::Propose(MetaCommand::AddGroups { .. }))
}

/// What a node leads, as it says it: groups and what they host beside what they were founded with.
fn report(group: u16, hosted: Vec<(PartitionId, u32)>) -> GroupReport {
    GroupReport {
        report: Report {
            group: GroupRef::Data(GroupId::new(group)),
            generation: 0,
            term: 1,
            index: 1,
            members: Vec::new(),
            leader: NodeId(1),
        },
        caught_up: BTreeSet::new(),
        unfit: BTreeSet::new(),
        is_changing: true,
        is_light: true,
        hosted,
    }
}

#[test]
fn a_cluster_grows_to_as_many_groups_for_each_node_as_with_three_and_they_host_as_many_partitions() {
    let mut state = created(6, 100, SemanticsVersion::CURRENT);
    (2..=5).for_each(|number| join(&mut state, number));
    let idle = Pace {
        splits: false,
        ..PACE
    };
    assert!(
        !steps(&state, &heard(&[1, 2, 3, 4, 5]), &idle).iter().any(adds),
        "it is switched off"
    );
    assert!(
        !steps(&state, &Observations::default(), &PACE).iter().any(adds),
        "a group would begin on a node that is not heard"
    );
    let mut moves = 0;
    for round in 0.. {
        assert!(round < 200, "it ends");
        let mut observations = heard(&[1, 2, 3, 4, 5]);
        // Whatever is wanted happens.
        let groups = state.key_groups().expect("there is a cluster");
        let mut hosted: BTreeMap<GroupId, Vec<(PartitionId, u32)>> = BTreeMap::new();
        for (&partition, &to) in state.wishes() {
            hosted
                .entry(to)
                .or_default()
                .push((partition, groups.moves_of(partition) + 1));
            moves += 1;
        }
        for name in state.groups().keys().copied().collect::<Vec<_>>() {
            let moved_here = match name {
                GroupRef::Meta => None,
                GroupRef::Data(group) => hosted.remove(&group),
            };
            let mut seen = report(0, moved_here.unwrap_or_default());
            seen.report.group = name;
            let known = &state.groups()[&name];
            // Each has its replicas where they are to be.
            let members = known.targets.iter().map(|node| {
                let there = known.members.iter().find(|member| member.node == *node);
                let expected = known.expected.iter().find(|expected| expected.node == *node);
                let incarnation = there
                    .map(|member| member.incarnation)
                    .or(expected.map(|expected| expected.incarnation))?;
                Some(GroupMember {
                    incarnation,
                    node: *node,
                    role: MemberRole::Voter,
                })
            });
            seen.report.members = members.flatten().collect();
            if seen.report.members.is_empty() {
                seen.report.members.clone_from(&known.members);
            }
            seen.report
                .members
                .sort_unstable_by_key(|member| member.incarnation);
            seen.report.index = known.index + 1;
            seen.report.leader = seen.report.members[0].node;
            let learned = state.apply(&MetaCommand::Report {
                reports: vec![seen.report.clone()],
            });
            learned.expect("a leader says so");
            seen.is_changing = false;
            observations.groups.insert(name, seen.into());
        }
        let all = steps(&state, &observations, &PACE);
        let mut commands = all.into_iter().filter_map(|step| match step {
            ReconcileStep::Propose(command) => Some(command),
            ReconcileStep::Order { .. } => None,
        });
        let Some(command) = commands.next() else { break };
        state.apply(&command).expect("what is proposed can be done");
        for command in commands {
            state.apply(&command).expect("what is proposed can be done");
        }
        check(&state);
    }
    let groups = state.key_groups().expect("there is a cluster");
    assert_eq!(groups.get(), 10);
    let sizes: Vec<usize> = groups
        .iter()
        .map(|group| groups.partitions_of(group).count())
        .collect();
    assert!(sizes.iter().all(|size| (1..=2).contains(size)), "{sizes:?}");
    assert_eq!(moves, sizes[6..].iter().sum::<usize>(), "no more than must");
}

#[test]
fn heartbeats_say_what_groups_host_and_are_as_ever_where_that_is_nothing() {
    let heartbeat = |hosted: Vec<(PartitionId, u32)>, memory| {
        MetaMessage::NodeHeartbeat(NodeHeartbeat {
            boot: None,
            epoch: Epoch(3),
            settings_version: 0,
            group_reports: vec![report(0, Vec::new()), report(4, hosted)],
            recovery_sources: Vec::new(),
            given_up: Vec::new(),
            memory,
            partition_notes: PartitionNotes::default(),
        })
    };
    let memory = NodeMemory { used: 5, most: 6 };
    let plain = heartbeat(Vec::new(), None).encode();
    assert!(heartbeat(Vec::new(), Some(memory)).encode().starts_with(&plain));
    for memory in [None, Some(memory)] {
        for hosted in [
            Vec::new(),
            vec![(PartitionId::new(2), 1), (PartitionId::new(15), 300)],
        ] {
            let heartbeat = heartbeat(hosted, memory);
            assert_eq!(MetaMessage::decode(&heartbeat.encode()), Ok(heartbeat));
        }
    }
}

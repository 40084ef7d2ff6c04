//! The cluster's own state, from anywhere.

use crate::source::Source;
use control::{
    Announcement, AssignedReplica, Configuration, Factor, GivenUp, GroupMember, GroupRef, GroupReport,
    MemberRole, MetaCommand, MetaOutcome, NodeGoal, Observations, Pace, Placed, RecoverySource, Report,
    RoutingMap, State, Target, steps,
};
use ids::{
    Boot, ClusterId, DurabilityMode, Epoch, GroupCount, GroupId, Groups, Host, Incarnation, NodeId,
    PartitionId, SemanticsVersion, Token,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Any bytes are a command, a snapshot, a map, or an error, and have one encoding. Any commands leave a state whose invariants hold;
/// epochs never go back, no incarnation is given out twice, and whatever the reconciler proposes can be applied.
pub fn meta_commands(data: &[u8]) {
    if let Ok(command) = MetaCommand::decode(data) {
        assert_eq!(command.encode(), data);
    }
    if let Ok(map) = RoutingMap::decode(data) {
        assert_eq!(map.encode(), data);
    }
    let mut source = Source(data);
    let mut run = Run {
        state: State::default(),
        given_out: BTreeSet::new(),
    };
    if let Ok(state) = State::restore(data) {
        assert_eq!(state.snapshot(), data);
        run.state = state;
    }
    for _ in 0..COMMANDS_MAX {
        if source.is_empty() {
            break;
        }
        let command = command(&mut source);
        run.apply(&command);
        if source.below(4) == 0 {
            for step in steps(
                &run.state,
                &observations(&run.state, &mut source),
                &Pace {
                    splits: true,
                    ..Pace::default()
                },
            ) {
                if let control::ReconcileStep::Propose(command) = step {
                    run.apply(&command);
                }
            }
        }
    }
    let again = State::restore(&run.state.snapshot()).expect("what was written can be read");
    assert_eq!(again.state_hash(), run.state.state_hash());
}

/// So that one input ends soon.
const COMMANDS_MAX: usize = 64;

struct Run {
    state: State,
    given_out: BTreeSet<Incarnation>,
}

impl Run {
    fn apply(&mut self, command: &MetaCommand) {
        let again = MetaCommand::decode(&command.encode());
        assert_eq!(again.as_ref(), Ok(command));
        let map = |state: &State| RoutingMap {
            epoch: Epoch(0),
            ..RoutingMap::of(state)
        };
        let (epoch, before) = (self.state.epoch(), map(&self.state));
        let outcome = self.state.apply(command);
        self.state
            .check()
            .expect("every command leaves a state that can be");
        assert!(self.state.epoch() >= epoch);
        assert!(self.state.epoch() > epoch || map(&self.state) == before);
        let asks_again = matches!(command, MetaCommand::AddReplica { .. });
        match outcome {
            Ok(MetaOutcome::Replica(AssignedReplica { incarnation, .. })) => {
                assert!(self.given_out.insert(incarnation) || asks_again);
            }
            Ok(MetaOutcome::Started { .. } | MetaOutcome::Set { .. } | MetaOutcome::Done) | Err(_) => {}
        }
    }
}

fn node(source: &mut Source<'_>) -> NodeId {
    NodeId(source.below(6) as u64)
}

fn nodes(source: &mut Source<'_>) -> Vec<NodeId> {
    (0..source.below(5)).map(|_| node(source)).collect()
}

fn group(source: &mut Source<'_>) -> GroupRef {
    match source.below(4) {
        0 => GroupRef::Meta,
        number => GroupRef::Data(GroupId::new(number as u16 - 1)),
    }
}

fn incarnation(source: &mut Source<'_>) -> Incarnation {
    Incarnation(source.below(24) as u64)
}

fn token(source: &mut Source<'_>) -> Token {
    Token(source.below(32) as u128)
}

fn announcement(source: &mut Source<'_>) -> Announcement {
    Announcement {
        client: "a:1".into(),
        cluster: "a:2".into(),
        peer: "a:3".into(),
        zone: source.pick(&["", "a", "b"]).into(),
        name: source.pick(&["", "n", "m"]).into(),
        weight_percent: source.pick(&[control::WEIGHT_PERCENT, 50, 0]),
        semantics_min: SemanticsVersion(source.below(3) as u16),
        semantics_max: SemanticsVersion(source.below(6) as u16),
    }
}

fn member(source: &mut Source<'_>) -> GroupMember {
    GroupMember {
        incarnation: incarnation(source),
        node: node(source),
        role: source.pick(&[MemberRole::Voter, MemberRole::Learner]),
    }
}

fn report(source: &mut Source<'_>) -> Report {
    Report {
        group: group(source),
        generation: source.below(3) as u64,
        term: source.below(8) as u64,
        index: source.byte().into(),
        members: (0..source.below(5)).map(|_| member(source)).collect(),
        leader: node(source),
    }
}

fn targets(source: &mut Source<'_>) -> Vec<Target> {
    let count = source.below(4);
    let target = |_| Target {
        group: group(source),
        nodes: nodes(source),
        leader: (source.below(2) == 0).then(|| node(source)),
    };
    (0..count).map(target).collect()
}

fn placed(source: &mut Source<'_>) -> Placed {
    Placed {
        zone: source.pick(&["", "a", "b"]).into(),
        weight_percent: source.pick(&[control::WEIGHT_PERCENT, 50]),
    }
}

fn command(source: &mut Source<'_>) -> MetaCommand {
    let factors = [
        Factor::Auto,
        Factor::One,
        Factor::Three,
        Factor::Four,
        Factor::Five,
        Factor::Six,
    ];
    match source.below(16) {
        0 => MetaCommand::Create {
            cluster: ClusterId(source.below(2) as u128),
            token: token(source),
            groups: Groups::with_default_partitions(GroupCount::new(3).expect("three groups are allowed")),
            factor: source.pick(&factors),
            durability: source.pick(&DurabilityMode::ALL),
            semantics: SemanticsVersion(source.below(3) as u16),
            announcement: announcement(source),
        },
        1 | 2 => MetaCommand::Join {
            token: token(source),
            announcement: announcement(source),
        },
        3 => MetaCommand::Boot {
            node: node(source),
            token: token(source),
            announcement: announcement(source),
            left_by: (0..source.below(3)).map(|_| token(source)).collect(),
            kept: (0..source.below(6))
                .map(|_| (group(source), incarnation(source)))
                .collect(),
            unclean: (0..source.below(6))
                .map(|_| (group(source), incarnation(source)))
                .collect(),
        },
        4 => MetaCommand::Fence {
            boot: Boot(source.below(12) as u64),
        },
        5 => MetaCommand::Report {
            reports: (0..source.below(4)).map(|_| report(source)).collect(),
        },
        6 => MetaCommand::Place {
            members: nodes(source),
            factor: source.below(7) as u16,
            targets: targets(source),
        },
        7 => MetaCommand::AddReplica {
            group: group(source),
            node: node(source),
        },
        8 => MetaCommand::Set {
            name: source.pick(&["a", "b", "durability"]).into(),
            value: source.pick(&["1", "memory", "strict"]).into(),
        },
        9 => MetaCommand::SetFactor {
            factor: source.pick(&factors),
        },
        10 => MetaCommand::RaiseSemantics {
            to: SemanticsVersion(source.below(6) as u16),
        },
        11 => goal(source),
        12 => MetaCommand::Remove { node: node(source) },
        13 => MetaCommand::Unreported {
            group: group(source),
            generation: source.below(2) as u64,
            configuration: Configuration {
                index: source.byte().into(),
                members: (0..source.below(5)).map(|_| member(source)).collect(),
            },
        },
        14 => MetaCommand::GiveUp {
            group: group(source),
            node: node(source),
            incarnation: incarnation(source),
        },
        _ => MetaCommand::Recover {
            group: group(source),
            node: node(source),
            recovery_source: (source.below(2) == 0).then(|| incarnation(source)),
        },
    }
}

/// What an operator wants of nodes.
fn goal(source: &mut Source<'_>) -> MetaCommand {
    let goals = [
        NodeGoal::Stays,
        NodeGoal::Drains,
        NodeGoal::Leaves,
        NodeGoal::Left,
    ];
    match source.below(13) {
        0 => MetaCommand::Dismiss { node: node(source) },
        1 => MetaCommand::Pause {
            seconds: (source.below(2) == 0).then_some(5),
        },
        2 => MetaCommand::Resume {
            of: (source.below(2) == 0).then(|| Epoch(source.below(20) as u64)),
        },
        3 => MetaCommand::Replace {
            boot: Boot(source.below(12) as u64),
            with: (source.below(2) == 0).then(|| node(source)),
        },
        4 => MetaCommand::Rebalance,
        5 => MetaCommand::PlaceAnew {
            since: Epoch(source.below(20) as u64),
            members: nodes(source)
                .into_iter()
                .map(|node| (node, placed(source)))
                .collect(),
            factor: source.below(7) as u16,
            targets: targets(source),
        },
        6 => MetaCommand::Settle {
            since: Epoch(source.below(20) as u64),
        },
        7 => MetaCommand::PermitStop {
            boot: Boot(source.below(12) as u64),
            seconds: source.below(3) as u64,
        },
        8 => MetaCommand::EndPermit {
            node: node(source),
            since: (source.below(2) == 0).then(|| Epoch(source.below(20) as u64)),
        },
        9 => growth(source),
        10 => MetaCommand::Forget {
            group: group(source),
            node: node(source),
            generation: source.below(3) as u64,
        },
        11 => MetaCommand::ReplaceTogether {
            boots: (0..source.below(4))
                .map(|_| Boot(source.below(12) as u64))
                .collect(),
        },
        _ => MetaCommand::SetGoal {
            nodes: nodes(source),
            goal: source.pick(&goals),
        },
    }
}

/// Groups that are added, and partitions that move to them.
fn growth(source: &mut Source<'_>) -> MetaCommand {
    let partition = |source: &mut Source<'_>| PartitionId::new(source.below(300) as u16);
    let group = |source: &mut Source<'_>| GroupId::new(source.below(8) as u16);
    match source.below(4) {
        0 => MetaCommand::AddGroups {
            count: GroupCount::new(1 + source.below(8) as u16).expect("a valid count"),
        },
        1 => MetaCommand::FoundAnew {
            group: group(source),
            node: node(source),
        },
        2 => MetaCommand::WantPartitions {
            wishes: vec![(partition(source), group(source))],
        },
        _ => {
            let host = Host {
                group: group(source),
                moves: source.below(4) as u32,
            };
            MetaCommand::PartitionsMoved {
                hosts: vec![(partition(source), host)],
            }
        }
    }
}

/// How long something has been so, of some nodes.
fn spans(state: &State, source: &mut Source<'_>) -> BTreeMap<NodeId, Duration> {
    let nodes = state.nodes().keys().filter(|_| source.below(3) > 0);
    let nodes: Vec<NodeId> = nodes.copied().collect();
    let span = |node| (node, Duration::from_secs(source.below(4) as u64));
    nodes.into_iter().map(span).collect()
}

/// What could be seen of the state, and now and then what could not.
fn observations(state: &State, source: &mut Source<'_>) -> Observations {
    let silence = state
        .nodes()
        .keys()
        .map(|&node| (node, Duration::from_secs(source.pick(&[0, 0, 5, 900]))));
    let silence = silence.collect();
    let mut groups = BTreeMap::new();
    for (&name, group) in state.groups() {
        let mut report = Report {
            group: name,
            generation: group.generation,
            term: group.term.saturating_add(source.below(2) as u64),
            index: group.index,
            members: group.members.clone(),
            leader: node(source),
        };
        if source.below(4) == 0 {
            report.index = report.index.saturating_add(1);
            report.members.push(member(source));
        }
        let caught_up = group.members.iter().map(|member| member.incarnation).collect();
        let unfit = group.members.iter().filter(|_| source.below(4) == 0);
        let unfit = unfit.map(|member| member.incarnation).collect();
        let report = GroupReport {
            report,
            caught_up,
            is_changing: source.below(4) == 0,
            is_light: source.below(2) == 0,
            unfit,
            hosted: (0..source.below(3))
                .map(|_| (PartitionId::new(source.below(300) as u16), source.below(4) as u32))
                .collect(),
        };
        groups.insert(name, Arc::new(report));
    }
    let (mut recovery_sources, mut given_up) = (Vec::new(), Vec::new());
    for (&name, group) in state.groups() {
        let GroupRef::Data(data) = name else { continue };
        for member in &group.members {
            if source.below(16) == 0 {
                given_up.push(GivenUp {
                    group: data,
                    generation: group.generation,
                    node: member.node,
                    incarnation: member.incarnation,
                });
            }
            if source.below(8) > 0 {
                continue;
            }
            recovery_sources.push(RecoverySource {
                group: data,
                generation: group.generation,
                node: member.node,
                incarnation: member.incarnation,
                term: consensus::Term(group.term),
                last: consensus::Index(group.index),
                applied: consensus::Index(group.index),
                lost_voter: (source.below(2) == 0).then(|| incarnation(source)),
                unreported: (source.below(2) == 0).then(|| Configuration {
                    index: group.index + source.below(3) as u64,
                    members: group.members.clone(),
                }),
                outgoing: match source.below(2) == 0 {
                    true => group.voters().map(|voter| voter.incarnation).collect(),
                    false => Vec::new(),
                },
                is_whole: source.below(4) > 0,
                is_aside: source.below(2) == 0,
                voters: match source.below(2) == 0 {
                    true => group.voters().map(|voter| voter.incarnation).collect(),
                    false => Vec::new(),
                },
                changed_at: consensus::Index(group.index + source.below(3) as u64),
            });
        }
    }
    Observations {
        silence,
        groups,
        recovery_sources,
        given_up,
        paused_for: (source.below(2) == 0).then(|| Duration::from_secs(source.below(10) as u64)),
        permitted_for: spans(state, source),
        up_for: spans(state, source),
        raisable_for: (source.below(2) == 0).then(|| Duration::from_secs(source.pick(&[0, 900]))),
        unled_for: state
            .groups()
            .keys()
            .map(|&name| (name, Duration::from_secs(source.pick(&[0, 900]))))
            .collect(),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let announcement = Announcement {
        client: "a:1".into(),
        cluster: "a:2".into(),
        peer: "a:3".into(),
        zone: "z".into(),
        name: "n".into(),
        weight_percent: control::WEIGHT_PERCENT,
        semantics_min: SemanticsVersion(1),
        semantics_max: SemanticsVersion(2),
    };
    let mut state = State::default();
    let mut seeds = vec![state.snapshot()];
    let commands = [
        MetaCommand::Create {
            cluster: ClusterId(1),
            token: Token(1),
            groups: Groups::with_default_partitions(GroupCount::new(3).expect("three groups are allowed")),
            factor: Factor::Auto,
            durability: DurabilityMode::Relaxed,
            semantics: SemanticsVersion(1),
            announcement: announcement.clone(),
        },
        MetaCommand::Join {
            token: Token(2),
            announcement: announcement.clone(),
        },
        MetaCommand::Join {
            token: Token(3),
            announcement: announcement.clone(),
        },
        MetaCommand::Boot {
            node: NodeId(1),
            token: Token(4),
            announcement,
            left_by: vec![Token(1)],
            kept: vec![
                (GroupRef::Meta, Incarnation(1)),
                (GroupRef::Data(GroupId::new(1)), Incarnation(3)),
            ],
            unclean: vec![(GroupRef::Data(GroupId::new(2)), Incarnation(4))],
        },
        MetaCommand::Set {
            name: "a".into(),
            value: "1".into(),
        },
    ];
    for command in commands {
        seeds.push(command.encode());
        state.apply(&command).expect("seeds are right");
        seeds.push(state.snapshot());
        seeds.push(RoutingMap::of(&state).encode());
    }
    // Read as decisions: a cluster, nodes, and then anything.
    let mut decisions = vec![0, 1, 1, 0, 1, 0, 1, 4, 1];
    for number in 0..40u8 {
        decisions.extend([number % 14, number, 1, 2, 5, number.wrapping_mul(37), 3, 1]);
    }
    seeds.push(decisions);
    seeds
}

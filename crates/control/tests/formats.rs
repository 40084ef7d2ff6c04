//! The cluster's own state as it is, byte for byte: it stands in the meta group's log, and nodes send it to each other.

use consensus::{Index, Term};
use control::{
    Announcement, Factor, GroupMember, GroupRef, Lack, MemberRole, MetaCommand, MetaMessage, Missing,
    NodeGoal, Outage, Placed, Report, RoutingMap, State, Target,
};
use ids::{
    Boot, ClusterId, DurabilityMode, Epoch, GroupCount, GroupId, Groups, Incarnation, NodeId,
    SemanticsVersion, Token,
};
use std::fmt::Write;

/// Each value by its name.
const PINNED: &str = include_str!("formats.txt");

fn announcement() -> Announcement {
    Announcement {
        client: "a:6379".into(),
        cluster: "a:7379".into(),
        peer: "a:8379".into(),
        zone: String::new(),
        name: String::new(),
        weight_percent: control::WEIGHT_PERCENT,
        semantics_min: SemanticsVersion(1),
        semantics_max: SemanticsVersion(3),
    }
}

fn commands() -> Vec<(&'static str, MetaCommand)> {
    let group = GroupRef::Data(GroupId::new(1));
    let report = Report {
        group,
        generation: 0,
        term: 6,
        index: 300,
        members: vec![GroupMember {
            incarnation: Incarnation(4),
            node: NodeId(1),
            role: MemberRole::Voter,
        }],
        leader: NodeId(1),
    };
    vec![
        (
            "create",
            MetaCommand::Create {
                cluster: ClusterId(9),
                token: Token(1),
                groups: Groups::with_default_partitions(GroupCount::new(2).expect("few groups")),
                factor: Factor::Auto,
                durability: DurabilityMode::Strict,
                semantics: SemanticsVersion(2),
                announcement: announcement(),
            },
        ),
        (
            "join",
            MetaCommand::Join {
                token: Token(2),
                announcement: announcement(),
            },
        ),
        ("fence", MetaCommand::Fence { boot: Boot(1_000) }),
        (
            "report",
            MetaCommand::Report {
                reports: vec![report],
            },
        ),
        (
            "place",
            MetaCommand::Place {
                members: vec![NodeId(1)],
                factor: 1,
                targets: vec![Target {
                    group,
                    nodes: vec![NodeId(1)],
                    leader: Some(NodeId(1)),
                }],
            },
        ),
        (
            "set",
            MetaCommand::Set {
                name: "maxmemory".into(),
                value: "1gb".into(),
            },
        ),
    ]
}

/// What is wanted of nodes, and nodes that say where they are.
fn goals() -> Vec<(&'static str, MetaCommand)> {
    let named = |token, name: &str, zone: &str| MetaCommand::Join {
        token: Token(token),
        announcement: Announcement {
            peer: format!("{name}:8379"),
            zone: zone.into(),
            name: name.into(),
            weight_percent: 50,
            ..announcement()
        },
    };
    let goal = |nodes: &[u64], goal| MetaCommand::SetGoal {
        nodes: nodes.iter().copied().map(NodeId).collect(),
        goal,
    };
    vec![
        ("join with a name and a zone", named(20, "ada", "room-1")),
        ("join with a name", named(21, "ben", "")),
        ("join once more", named(22, "cleo", "room-2")),
        ("leaves", goal(&[3, 4], NodeGoal::Leaves)),
        ("drains", goal(&[4], NodeGoal::Drains)),
        ("dismiss", MetaCommand::Dismiss { node: NodeId(3) }),
        ("resume", MetaCommand::Resume { of: None }),
        ("pause", MetaCommand::Pause { seconds: Some(60) }),
    ]
}

/// An order to place everything anew.
fn rebalance() -> Vec<(&'static str, MetaCommand)> {
    let placed = Placed {
        zone: "room-1".into(),
        weight_percent: 50,
    };
    vec![
        ("rebalance", MetaCommand::Rebalance),
        (
            "place anew",
            MetaCommand::PlaceAnew {
                since: Epoch(11),
                members: vec![(NodeId(3), placed)],
                factor: 3,
                targets: Vec::new(),
            },
        ),
        ("settle", MetaCommand::Settle { since: Epoch(11) }),
    ]
}

/// Another number of replicas, and a node that is to stop.
fn stops() -> Vec<(&'static str, MetaCommand)> {
    vec![
        (
            "set factor",
            MetaCommand::SetFactor {
                factor: Factor::Three,
            },
        ),
        (
            "permit stop, refused",
            MetaCommand::PermitStop {
                boot: Boot(1),
                seconds: 300,
            },
        ),
        (
            "end permit",
            MetaCommand::EndPermit {
                node: NodeId(1),
                since: Some(Epoch(11)),
            },
        ),
    ]
}

fn line(text: &mut String, name: &str, bytes: &[u8]) {
    write!(text, "{name}: ").expect("a string takes everything");
    bytes
        .iter()
        .for_each(|byte| write!(text, "{byte:02x}").expect("a string takes everything"));
    text.push('\n');
}

#[test]
fn the_state_has_the_bytes_that_it_always_had() {
    let (mut found, mut state) = (String::new(), State::default());
    for (name, command) in commands() {
        line(&mut found, name, &command.encode());
        drop(state.apply(&command));
    }
    let boot = MetaCommand::Boot {
        node: NodeId(2),
        token: Token(3),
        announcement: announcement(),
        left_by: vec![Token(2)],
        kept: vec![(GroupRef::Data(GroupId::new(1)), Incarnation(4))],
        unclean: vec![(GroupRef::Data(GroupId::new(0)), Incarnation(3))],
    };
    line(&mut found, "boot", &boot.encode());
    line(&mut found, "state", &state.snapshot());
    let map = RoutingMap::of(&state);
    line(&mut found, "map", &map.encode());
    let request = MetaMessage::Request {
        id: 300,
        proposal: b"proposal".to_vec(),
    };
    let held = MetaMessage::StateHeld {
        from: Incarnation(4),
        to: Incarnation(5),
        index: Index(300),
        term: Term(6),
    };
    for (name, command) in goals() {
        line(&mut found, name, &command.encode());
        state.apply(&command).expect(name);
    }
    line(&mut found, "state with goals", &state.snapshot());
    line(&mut found, "map with goals", &RoutingMap::of(&state).encode());
    for (name, command) in rebalance() {
        line(&mut found, name, &command.encode());
    }
    state
        .apply(&MetaCommand::Rebalance)
        .expect("it can always be wanted");
    line(&mut found, "state to be placed anew, paused", &state.snapshot());
    state
        .apply(&MetaCommand::Resume { of: None })
        .expect("that can always be");
    line(&mut found, "state to be placed anew", &state.snapshot());
    line(&mut found, "map of that", &RoutingMap::of(&state).encode());
    for (name, command) in stops() {
        line(&mut found, name, &command.encode());
        let done = state.apply(&command);
        assert_eq!(done.is_err(), name.contains("refused"), "{name}: {done:?}");
    }
    line(&mut found, "state that is resized", &state.snapshot());
    line(&mut found, "map of that", &RoutingMap::of(&state).encode());
    let outage = MetaMessage::Outage(Outage {
        zones: vec!["room-1".into()],
        nodes: vec![NodeId(3), NodeId(300)],
    });
    line(&mut found, "outage", &outage.encode());
    let lack = MetaMessage::Lack(Lack {
        boot: Boot(300),
        is_new: false,
        count: 17,
        groups: vec![
            (GroupRef::Meta, Missing::End),
            (GroupRef::Data(GroupId::new(200)), Missing::Vote),
        ],
    });
    line(&mut found, "lack", &lack.encode());
    line(&mut found, "request", &request.encode());
    line(&mut found, "state held", &held.encode());
    let forget = MetaCommand::Forget {
        group: GroupRef::Data(GroupId::new(200)),
        node: NodeId(300),
        generation: 4,
    };
    line(&mut found, "forget", &forget.encode());
    let together = MetaCommand::ReplaceTogether {
        boots: vec![Boot(7), Boot(300)],
    };
    line(&mut found, "replace together", &together.encode());
    assert!(found == PINNED, "found:\n{found}");
}

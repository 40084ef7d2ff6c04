//! What commands do.

use consensus::{Index, Term};
use control::{
    Announcement, AssignedReplica, Beginning, Configuration, DURABILITY, Factor, GivenUp, GroupMember,
    GroupRef, GroupReport, MemberRole, MetaCommand, MetaOutcome, MetaRefusal, NODES_MAX, NodeGoal,
    Observations, Order, Pace, Rebalance, ReconcileStep, RecoverySource, Report, RoutingMap, SETTINGS_MAX,
    Standing, State, Target, VALUE_BYTES_MAX, steps,
};
use ids::{
    Boot, ClusterId, DurabilityMode, Epoch, GroupCount, GroupId, Groups, Incarnation, NodeId,
    SemanticsVersion, Token,
};
use mutations::Mutation;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

const META: GroupRef = GroupRef::Meta;

fn data(number: u16) -> GroupRef {
    GroupRef::Data(GroupId::new(number))
}

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

fn create(groups: u16) -> MetaCommand {
    MetaCommand::Create {
        cluster: ClusterId(9),
        token: Token(1),
        groups: Groups::with_default_partitions(GroupCount::new(groups).expect("few groups")),
        factor: Factor::Auto,
        durability: DurabilityMode::Memory,
        semantics: SemanticsVersion(2),
        announcement: announcement(),
    }
}

fn created() -> State {
    let mut state = State::default();
    state.apply(&create(2)).expect("there is no cluster yet");
    state
}

fn join(state: &mut State, token: u128) -> NodeId {
    let command = MetaCommand::Join {
        token: Token(token),
        announcement: announcement(),
    };
    match state.apply(&command) {
        Ok(MetaOutcome::Started { node, .. }) => node,
        other => panic!("{other:?}"),
    }
}

fn boot(
    state: &mut State,
    node: u64,
    token: u128,
    kept: Vec<(GroupRef, Incarnation)>,
) -> (Boot, Vec<AssignedReplica>) {
    let command = MetaCommand::Boot {
        node: NodeId(node),
        token: Token(token),
        announcement: announcement(),
        left_by: vec![state.nodes()[&NodeId(node)].start],
        kept,
        unclean: Vec::new(),
    };
    match state.apply(&command) {
        Ok(MetaOutcome::Started { boot, replicas, .. }) => (boot, replicas),
        other => panic!("{other:?}"),
    }
}

fn member(incarnation: u64, node: u64, role: MemberRole) -> GroupMember {
    GroupMember {
        incarnation: Incarnation(incarnation),
        node: NodeId(node),
        role,
    }
}

fn report(group: GroupRef, index: u64, members: Vec<GroupMember>) -> MetaCommand {
    let leader = members[0].node;
    let report = Report {
        group,
        generation: 0,
        term: 1,
        index,
        members,
        leader,
    };
    MetaCommand::Report {
        reports: vec![report],
    }
}

fn place(group: GroupRef, nodes: &[u64]) -> MetaCommand {
    let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
    let target = Target {
        group,
        leader: Some(nodes[0]),
        nodes,
    };
    MetaCommand::Place {
        members: Vec::new(),
        factor: 3,
        targets: vec![target],
    }
}

#[test]
fn a_node_that_says_another_zone_keeps_what_it_has_until_all_is_placed_anew() {
    let says = |zone: &str, weight_percent, peer: &str| Announcement {
        zone: zone.into(),
        weight_percent,
        peer: peer.into(),
        ..announcement()
    };
    let mut state = created();
    let start = |state: &mut State, node: u64, token: u128, announcement: Announcement| {
        let command = MetaCommand::Boot {
            node: NodeId(node),
            token: Token(token),
            announcement,
            left_by: vec![state.nodes()[&NodeId(node)].start],
            kept: vec![(META, Incarnation(1))],
            unclean: Vec::new(),
        };
        state.apply(&command).expect("it may start");
        let node = &state.nodes()[&NodeId(node)];
        assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&*state));
        (
            node.announcement.zone.clone(),
            node.placed.zone.clone(),
            node.placed.weight_percent,
        )
    };
    // Where there is nobody else nothing is placed by it.
    assert_eq!(
        start(&mut state, 1, 2, says("a", 100, "a:1")),
        ("a".into(), "a".into(), 100)
    );
    let command = MetaCommand::Join {
        token: Token(3),
        announcement: says("b", 100, "b:1"),
    };
    state.apply(&command).expect("there is room");
    assert_eq!(state.nodes()[&NodeId(2)].placed.zone, "b");
    state.apply(&place(data(0), &[1, 2])).expect("both are there");
    let placed_for = |state: &State| {
        let observations = Observations::default();
        let steps = steps(state, &observations, &Pace::default());
        let places = |step: &ReconcileStep| matches!(step, ReconcileStep::Propose(MetaCommand::Place { .. }));
        steps.iter().any(places)
    };
    assert!(placed_for(&state), "for both");
    let place = MetaCommand::Place {
        members: vec![NodeId(1), NodeId(2)],
        factor: state.replicas_wanted(),
        targets: Vec::new(),
    };
    state.apply(&place).expect("both are there");
    assert!(!placed_for(&state));
    assert_eq!(
        start(&mut state, 2, 4, says("c", 250, "b:1")),
        ("c".into(), "b".into(), 100)
    );
    assert!(!placed_for(&state), "nothing moves by a start");
    // The map says what it says.
    let map = RoutingMap::of(&state);
    assert_eq!(map.nodes[&NodeId(2)].zone, "c");
    assert_eq!(RoutingMap::decode(&map.encode()), Ok(map));
    assert_eq!(
        start(&mut state, 2, 5, says("b", 100, "b:1")),
        ("b".into(), "b".into(), 100)
    );
    assert_eq!(start(&mut state, 2, 6, says("c", 100, "b:1")).1, "b");
    // Once it has nothing, it is placed as what it says when it next starts.
    let emptied = MetaCommand::Place {
        members: vec![NodeId(1)],
        factor: state.replicas_wanted(),
        targets: vec![Target {
            group: data(0),
            nodes: vec![NodeId(1)],
            leader: None,
        }],
    };
    state.apply(&emptied).expect("one is there");
    assert_eq!(start(&mut state, 2, 7, says("c", 100, "b:1")).1, "c");
    // If it has nothing though it may have some, others may lie elsewhere now.
    let MetaCommand::Place { factor, targets, .. } = emptied else {
        unreachable!("it is one")
    };
    let members = vec![NodeId(1), NodeId(2)];
    let spared = MetaCommand::Place {
        members,
        factor,
        targets,
    };
    state.apply(&spared).expect("both are there");
    assert!(!placed_for(&state));
    assert_eq!(start(&mut state, 2, 8, says("c", 100, "b:1")).1, "c");
    assert!(!placed_for(&state), "it says what it said");
    assert_eq!(start(&mut state, 2, 9, says("d", 100, "b:1")).1, "d");
    assert!(placed_for(&state));
}

/// Four nodes, of which the last two are in one zone; everything is with the first three.
fn in_three_zones() -> State {
    let mut state = State::default();
    let says = |zone: &str, peer: &str| Announcement {
        zone: zone.into(),
        peer: peer.into(),
        ..announcement()
    };
    let mut create = create(1);
    if let MetaCommand::Create { announcement, .. } = &mut create {
        *announcement = says("a", "a:1");
    }
    state.apply(&create).expect("there is no cluster yet");
    for (token, (zone, peer)) in (2..).zip([("b", "b:1"), ("c", "c:1"), ("c", "d:1")]) {
        let command = MetaCommand::Join {
            token: Token(token),
            announcement: says(zone, peer),
        };
        state.apply(&command).expect("there is room");
    }
    let three = |group| Target {
        group,
        nodes: vec![NodeId(1), NodeId(2), NodeId(3)],
        leader: None,
    };
    let place = MetaCommand::Place {
        members: (1..=4).map(NodeId).collect(),
        factor: 3,
        targets: vec![three(data(0)), three(META)],
    };
    state.apply(&place).expect("all are there");
    state
}

/// What is placed next, if anything is.
fn placed_next(state: &State) -> Option<MetaCommand> {
    let steps = steps(state, &Observations::default(), &Pace::default());
    let mut commands = steps.into_iter().filter_map(|step| match step {
        ReconcileStep::Propose(command @ MetaCommand::Place { .. }) => Some(command),
        _ => None,
    });
    commands.next()
}

/// The last node is to be in the place of the first one.
fn put_in_place(state: &mut State) {
    let replace = MetaCommand::Replace {
        boot: state.nodes()[&NodeId(1)].boot,
        with: Some(NodeId(4)),
    };
    state.apply(&replace).expect("three are left");
}

#[test]
fn what_was_put_in_the_place_of_a_node_that_is_back_is_placed_again() {
    let put_and_start = || {
        let mut state = in_three_zones();
        assert_eq!(placed_next(&state), None);
        put_in_place(&mut state);
        // It starts before anything is placed without it.
        let first = &state.nodes()[&NodeId(1)];
        let command = MetaCommand::Boot {
            node: NodeId(1),
            token: Token(9),
            announcement: first.announcement.clone(),
            left_by: vec![first.start],
            kept: vec![(META, Incarnation(1)), (data(0), Incarnation(2))],
            unclean: Vec::new(),
        };
        state.apply(&command).expect("it may start");
        assert!(state.check_zones().is_err(), "two of three are in one zone");
        state
    };
    let mut state = put_and_start();
    let place = placed_next(&state).expect("it need not be");
    state.apply(&place).expect("all are there");
    assert_eq!(state.check_zones(), Ok(()));
    assert_eq!(placed_next(&state), None);
    mutations::plant(Some(Mutation::PutIsPlaced));
    let state = put_and_start();
    let next = placed_next(&state);
    mutations::plant(None);
    assert_eq!(next, None, "it stays so");
}

#[test]
fn what_is_put_in_the_place_of_a_node_while_all_is_paused_is_placed_for_as_many_replicas_as_before() {
    let mut state = in_three_zones();
    let pause = MetaCommand::Pause { seconds: None };
    state.apply(&pause).expect("it can always be paused");
    let factor = Factor::One;
    state
        .apply(&MetaCommand::SetFactor { factor })
        .expect("fewer can always be wanted");
    assert_eq!(placed_next(&state), None);
    put_in_place(&mut state);
    let Some(MetaCommand::Place { factor, .. }) = placed_next(&state) else {
        panic!("it is placed again");
    };
    assert_eq!(factor, 3);
}

#[test]
fn a_placement_that_was_computed_before_does_not_end_an_order_to_place_anew() {
    let mut state = created();
    let moved = Announcement {
        zone: "a".into(),
        ..announcement()
    };
    join(&mut state, 2);
    state.apply(&place(data(0), &[1, 2])).expect("both are there");
    let restart = |state: &mut State, token, announcement: &Announcement| {
        let command = MetaCommand::Boot {
            node: NodeId(2),
            token: Token(token),
            announcement: announcement.clone(),
            left_by: Vec::new(),
            kept: Vec::new(),
            unclean: Vec::new(),
        };
        state.apply(&command).expect("it may start");
    };
    restart(&mut state, 3, &moved);
    let Ok(MetaOutcome::Set { version }) = state.apply(&MetaCommand::Rebalance) else {
        panic!("it can always be wanted")
    };
    let wanted = Rebalance {
        since: Epoch(version),
        is_placed: false,
    };
    // One that was on its way.
    let late = MetaCommand::Place {
        members: vec![NodeId(1), NodeId(2)],
        factor: state.replicas_wanted(),
        targets: Vec::new(),
    };
    state.apply(&late).expect("both are there");
    assert_eq!(state.rebalance(), Some(wanted));
    let placed_anew = |state: &State| {
        let steps = steps(state, &Observations::default(), &Pace::default());
        let mut commands = steps.into_iter().filter_map(|step| match step {
            ReconcileStep::Propose(command @ MetaCommand::PlaceAnew { .. }) => Some(command),
            _ => None,
        });
        commands.next()
    };
    let anew = placed_anew(&state).expect("it is wanted");
    // The node says something else by now, and then the same again.
    restart(&mut state, 4, &announcement());
    assert_eq!(state.apply(&anew), Err(MetaRefusal::NotNeeded));
    restart(&mut state, 5, &moved);
    state
        .apply(&MetaCommand::Pause { seconds: None })
        .expect("always");
    assert_eq!(placed_anew(&state), None);
    assert_eq!(state.apply(&anew), Err(MetaRefusal::NotNeeded), "all is paused");
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&state));
    state.apply(&MetaCommand::Resume { of: None }).expect("always");
    assert_eq!(State::restore(&state.snapshot()).as_ref(), Ok(&state));
    assert_eq!(state.nodes()[&NodeId(2)].placed.zone, "");
    assert_eq!(
        RoutingMap::of(&state).rebalance.map(|moving| moving.left),
        Some(None)
    );
    assert_eq!(state.apply(&anew), Ok(MetaOutcome::Done));
    assert_eq!(state.nodes()[&NodeId(2)].placed.zone, "a");
    assert_eq!(placed_anew(&state), None);
    assert_eq!(state.apply(&anew), Err(MetaRefusal::NotNeeded), "once");
    // What is not there is not settled.
    let settle = MetaCommand::Settle {
        since: Epoch(version),
    };
    state.apply(&place(data(1), &[2])).expect("it is there");
    let left = RoutingMap::of(&state).rebalance.and_then(|moving| moving.left);
    assert!(left.is_some_and(|left| left > 0), "{left:?}");
    assert_eq!(state.apply(&settle), Err(MetaRefusal::NotNeeded));
    for group in [META, data(0), data(1)] {
        state.apply(&place(group, &[1])).expect("it is there");
    }
    let another = MetaCommand::Settle { since: Epoch(1) };
    assert_eq!(state.apply(&another), Err(MetaRefusal::NotNeeded));
    assert_eq!(state.apply(&settle), Ok(MetaOutcome::Done));
    assert_eq!(state.rebalance(), None);
}

#[test]
fn before_there_is_a_cluster_everything_else_is_refused() {
    let mut state = State::default();
    let join = MetaCommand::Join {
        token: Token(1),
        announcement: announcement(),
    };
    assert_eq!(state.apply(&join), Err(MetaRefusal::NoCluster));
    assert_eq!(state, State::default());
    assert_eq!(State::restore(&state.snapshot()), Ok(state));
}

#[test]
fn the_first_node_founds_all_groups_and_a_cluster_is_created_once() {
    let mut state = State::default();
    let Ok(MetaOutcome::Started { node, boot, replicas }) = state.apply(&create(2)) else {
        panic!()
    };
    assert_eq!((node, boot), (NodeId(1), Boot(1)));
    let found = |group, incarnation| AssignedReplica {
        group,
        generation: 0,
        incarnation: Incarnation(incarnation),
        beginning: Beginning::BootstrapReplica,
    };
    assert_eq!(replicas, [found(META, 1), found(data(0), 2), found(data(1), 3)]);
    assert_eq!(
        state.apply(&create(2)),
        Ok(MetaOutcome::Started { node, boot, replicas }),
        "asked again"
    );
    let MetaCommand::Create {
        groups,
        factor,
        durability,
        semantics,
        announcement,
        ..
    } = create(2)
    else {
        panic!()
    };
    let other = MetaCommand::Create {
        cluster: ClusterId(8),
        token: Token(2),
        groups,
        factor,
        durability,
        semantics,
        announcement,
    };
    assert_eq!(state.apply(&other), Err(MetaRefusal::Exists));
}

#[test]
fn a_join_that_is_asked_again_adds_no_second_node() {
    let mut state = created();
    assert_eq!(join(&mut state, 5), NodeId(2));
    assert_eq!(join(&mut state, 5), NodeId(2));
    assert_eq!(join(&mut state, 6), NodeId(3));
    boot(&mut state, 2, 7, Vec::new());
    let late = MetaCommand::Join {
        token: Token(5),
        announcement: announcement(),
    };
    assert_eq!(
        state.apply(&late),
        Err(MetaRefusal::Exists),
        "the node has started anew since"
    );
}

#[test]
fn a_join_that_was_held_up_until_its_node_was_removed_adds_no_other_node() {
    let mut state = created();
    join(&mut state, 5);
    // The process started anew at the same address, and what it was before went.
    join(&mut state, 6);
    state.apply(&MetaCommand::Remove { node: NodeId(2) }).unwrap();
    let late = MetaCommand::Join {
        token: Token(5),
        announcement: announcement(),
    };
    assert_eq!(state.apply(&late), Err(MetaRefusal::Exists));
    for token in 0..300 {
        let node = join(&mut state, 1_000 + token);
        state.apply(&MetaCommand::Remove { node }).unwrap();
        state.check().unwrap();
    }
    assert_eq!(
        join(&mut state, 1_000),
        NodeId(304),
        "so long ago that it is forgotten"
    );
}

#[test]
fn the_factor_grows_with_the_third_node_and_stays() {
    let mut state = created();
    join(&mut state, 2);
    assert_eq!(state.replicas_wanted(), 1);
    join(&mut state, 3);
    assert_eq!(state.replicas_wanted(), 3);
    state.apply(&MetaCommand::Remove { node: NodeId(3) }).unwrap();
    assert_eq!(state.replicas_wanted(), 3);
    let six = MetaCommand::SetFactor { factor: Factor::Six };
    assert_eq!(state.apply(&six), Err(MetaRefusal::TooFew));
    for token in 4..8 {
        join(&mut state, token);
    }
    state.apply(&six).unwrap();
    assert_eq!(state.replicas_wanted(), 6);
    for factor in Factor::ALL {
        assert_eq!(Factor::of_name(factor.name()), Some(factor));
    }
}

#[test]
fn memory_that_is_handed_over_keeps_its_identity_and_lost_memory_gets_another() {
    let mut state = created();
    let kept = vec![(META, Incarnation(1)), (data(0), Incarnation(2))];
    let (number, replicas) = boot(&mut state, 1, 2, kept.clone());
    assert_eq!(number, Boot(2));
    let begun: Vec<_> = replicas
        .iter()
        .map(|replica| (replica.incarnation.0, replica.generation, replica.beginning))
        .collect();
    assert_eq!(
        begun,
        [
            (1, 0, Beginning::Kept),
            (2, 0, Beginning::Kept),
            (4, 1, Beginning::BootstrapReplica)
        ],
        "a group of one begins anew"
    );
    assert_eq!(
        boot(&mut state, 1, 2, kept.clone()),
        (number, replicas),
        "asked again"
    );
    let (number, replicas) = boot(&mut state, 1, 3, kept);
    assert_eq!(
        (number, replicas[2].incarnation, replicas[2].generation),
        (Boot(3), Incarnation(5), 2)
    );
    assert!(state.is_dead(Boot(2)) && state.is_alive(Boot(3)) && !state.is_dead(Boot(4)));
}

#[test]
fn a_voter_among_others_that_lost_its_memory_is_lost_and_another_replica_is_expected() {
    let mut state = created();
    join(&mut state, 2);
    join(&mut state, 3);
    state.apply(&place(data(0), &[1, 2, 3])).unwrap();
    let add = |state: &mut State, node| match state.apply(&MetaCommand::AddReplica {
        group: data(0),
        node: NodeId(node),
    }) {
        Ok(MetaOutcome::Replica(replica)) => replica.incarnation.0,
        other => panic!("{other:?}"),
    };
    let (two, three) = (add(&mut state, 2), add(&mut state, 3));
    assert_eq!(add(&mut state, 2), two, "asked again");
    let members = vec![
        member(2, 1, MemberRole::Voter),
        member(two, 2, MemberRole::Voter),
        member(three, 3, MemberRole::Voter),
    ];
    state.apply(&report(data(0), 5, members.clone())).unwrap();
    let (_, replicas) = boot(&mut state, 2, 20, Vec::new());
    let [replica] = replicas.as_slice() else {
        panic!("{replicas:?}")
    };
    assert_eq!(replica.beginning, Beginning::Learner);
    let group = &state.groups()[&data(0)];
    assert!(group.is_lost(Incarnation(two)) && group.has_majority());
    assert_eq!(
        group.expected_on(NodeId(2)).map(|expected| expected.incarnation),
        Some(replica.incarnation)
    );
    let map = RoutingMap::of(&state);
    let route = map.route(data(0)).unwrap();
    let stops: Vec<_> = route
        .replicas
        .iter()
        .map(|stop| (stop.node.0, stop.standing))
        .collect();
    assert_eq!(
        stops,
        [
            (1, Standing::Voter),
            (3, Standing::Voter),
            (2, Standing::Expected)
        ]
    );
    assert_eq!(RoutingMap::decode(&map.encode()), Ok(map));

    // Again, before the group has taken it in; and the group takes in the one that is gone.
    let gone = replica.incarnation;
    let (_, replicas) = boot(&mut state, 2, 21, Vec::new());
    assert_ne!(replicas[0].incarnation, gone);
    let mut members = members;
    members.push(GroupMember {
        incarnation: gone,
        node: NodeId(2),
        role: MemberRole::Learner,
    });
    state.apply(&report(data(0), 6, members)).unwrap();
    assert!(state.groups()[&data(0)].is_lost(gone), "nobody has what it had");
    state.check().unwrap();
}

#[test]
fn old_news_changes_nothing() {
    let mut state = created();
    let now = report(data(0), 4, vec![member(2, 1, MemberRole::Voter)]);
    state.apply(&now).unwrap();
    let (epoch, before) = (state.epoch(), state.clone());
    state.apply(&now).unwrap();
    state
        .apply(&report(data(0), 3, vec![member(9, 8, MemberRole::Voter)]))
        .unwrap();
    let MetaCommand::Report { mut reports } = report(data(0), 9, vec![member(2, 1, MemberRole::Voter)])
    else {
        panic!()
    };
    reports[0].generation = 7;
    state.apply(&MetaCommand::Report { reports }).unwrap();
    assert_eq!((state.epoch(), &state), (epoch, &before));
}

#[test]
fn the_leader_of_a_later_term_is_believed_at_whatever_index() {
    let mut state = created();
    join(&mut state, 2);
    state
        .apply(&place(data(0), &[1, 2]))
        .expect("it is a command that this state takes");
    let node = NodeId(2);
    state
        .apply(&MetaCommand::AddReplica { group: data(0), node })
        .expect("it is a command that this state takes");
    let given_out = state.groups()[&data(0)].expected[0].incarnation.0;
    let both = vec![
        member(2, 1, MemberRole::Voter),
        member(given_out, 2, MemberRole::Voter),
    ];
    let said = |term, index, members: &[GroupMember]| {
        let MetaCommand::Report { mut reports } = report(data(0), index, members.to_vec()) else {
            panic!()
        };
        reports[0].term = term;
        MetaCommand::Report { reports }
    };
    // Its leader was given the state behind entry 100, and says so; then it is gone.
    state
        .apply(&said(3, 100, &both))
        .expect("it is a command that this state takes");
    state
        .apply(&said(4, 7, &both))
        .expect("it is a command that this state takes");
    let group = &state.groups()[&data(0)];
    assert_eq!((group.term, group.index), (4, 7));
    state
        .apply(&said(4, 8, &both[..1]))
        .expect("it is a command that this state takes");
    assert_eq!(state.groups()[&data(0)].members, both[..1]);
    // What the one before says now comes too late.
    state
        .apply(&said(3, 101, &both))
        .expect("it is a command that this state takes");
    assert_eq!(state.groups()[&data(0)].members, both[..1]);
}

#[test]
fn a_report_of_what_was_never_given_out_or_belongs_elsewhere_is_refused() {
    let mut state = created();
    let before = state.clone();
    for members in [
        vec![member(4, 1, MemberRole::Voter)],
        vec![member(3, 1, MemberRole::Voter)],
        vec![member(2, 1, MemberRole::Voter), member(2, 1, MemberRole::Learner)],
        vec![member(2, 1, MemberRole::Learner)],
    ] {
        assert_eq!(
            state.apply(&report(data(0), 5, members)),
            Err(MetaRefusal::Malformed)
        );
    }
    assert_eq!(
        state.apply(&report(data(2), 5, vec![member(2, 1, MemberRole::Voter)])),
        Err(MetaRefusal::Unknown)
    );
    assert_eq!(state, before);
}

#[test]
fn a_group_without_a_majority_goes_on_from_a_recovery_source_under_a_new_identity() {
    let mut state = created();
    for token in [2, 3] {
        join(&mut state, token);
    }
    state.apply(&place(data(0), &[1, 2, 3])).unwrap();
    for node in [2, 3] {
        state
            .apply(&MetaCommand::AddReplica {
                group: data(0),
                node: NodeId(node),
            })
            .unwrap();
    }
    let members = vec![
        member(2, 1, MemberRole::Voter),
        member(4, 2, MemberRole::Voter),
        member(5, 3, MemberRole::Voter),
    ];
    state.apply(&report(data(0), 5, members)).unwrap();
    let recover = |node, recovery_source: Option<u64>| MetaCommand::Recover {
        group: data(0),
        node: NodeId(node),
        recovery_source: recovery_source.map(Incarnation),
    };
    boot(&mut state, 2, 20, Vec::new());
    assert!(state.groups()[&data(0)].has_majority());
    assert_eq!(state.apply(&recover(1, Some(2))), Err(MetaRefusal::NotNeeded));
    boot(&mut state, 3, 30, Vec::new());
    assert!(!state.groups()[&data(0)].has_majority());
    assert_eq!(
        state.apply(&recover(3, Some(5))),
        Err(MetaRefusal::Unknown),
        "it has no memory"
    );
    let Ok(MetaOutcome::Replica(replica)) = state.apply(&recover(1, Some(2))) else {
        panic!()
    };
    assert_eq!(
        (replica.generation, replica.beginning),
        (1, Beginning::Recovered { of: Incarnation(2) })
    );
    assert!(replica.incarnation > Incarnation(5));
    // The node restarts before it has begun: what it kept of the recovery source is still what it begins with.
    let (_, replicas) = boot(
        &mut state,
        1,
        10,
        vec![
            (META, Incarnation(1)),
            (data(0), Incarnation(2)),
            (data(1), Incarnation(3)),
        ],
    );
    assert_eq!(replicas[1].beginning, Beginning::Recovered { of: Incarnation(2) });
    assert_eq!(
        state.apply(&recover(2, None)),
        Err(MetaRefusal::NotNeeded),
        "it has begun anew: asked again, nothing happens"
    );
    let meta = MetaCommand::Recover {
        group: META,
        node: NodeId(1),
        recovery_source: None,
    };
    assert_eq!(state.apply(&meta), Err(MetaRefusal::Unknown));
}

/// A group of three voters: 2, 4 and 5 on the nodes 1, 2 and 3.
fn three_voters() -> State {
    let mut state = created();
    for token in [2, 3] {
        join(&mut state, token);
    }
    state.apply(&place(data(0), &[1, 2, 3])).expect("they are nodes");
    for node in [2, 3] {
        let add = MetaCommand::AddReplica {
            group: data(0),
            node: NodeId(node),
        };
        state.apply(&add).expect("it is a target");
    }
    let members = vec![
        member(2, 1, MemberRole::Voter),
        member(4, 2, MemberRole::Voter),
        member(5, 3, MemberRole::Voter),
    ];
    state
        .apply(&report(data(0), 5, members))
        .expect("all were expected");
    state
}

/// A group that five nodes vote in, and in which the first and the last two are to stay.
fn two_voters_too_many() -> (State, Vec<GroupMember>) {
    let mut state = created();
    for token in 2..=5 {
        join(&mut state, token);
    }
    let place = |state: &mut State, nodes: &[u64]| {
        let target = Target {
            group: data(0),
            leader: Some(NodeId(1)),
            nodes: nodes.iter().copied().map(NodeId).collect(),
        };
        let place = MetaCommand::Place {
            members: (1..=5).map(NodeId).collect(),
            factor: 3,
            targets: vec![target],
        };
        state.apply(&place).expect("they are nodes");
    };
    place(&mut state, &[1, 2, 3, 4, 5]);
    let mut members = vec![member(2, 1, MemberRole::Voter)];
    for node in 2..=5 {
        let add = MetaCommand::AddReplica {
            group: data(0),
            node: NodeId(node),
        };
        match state.apply(&add) {
            Ok(MetaOutcome::Replica(replica)) => {
                members.push(member(replica.incarnation.0, node, MemberRole::Voter))
            }
            other => panic!("{other:?}"),
        }
    }
    state
        .apply(&report(data(0), 5, members.clone()))
        .expect("all were expected");
    place(&mut state, &[1, 4, 5]);
    (state, members)
}

#[test]
fn who_is_there_does_not_leave_a_group_that_could_bear_no_loss_without_it() {
    let (state, members) = two_voters_too_many();
    let removed = |silence: &[(u64, u64)]| -> Vec<Incarnation> {
        let MetaCommand::Report { reports } = report(data(0), 5, members.clone()) else {
            panic!("it is a report");
        };
        let seen = GroupReport {
            report: reports[0].clone(),
            caught_up: members.iter().map(|member| member.incarnation).collect(),
            unfit: std::collections::BTreeSet::new(),
            is_changing: false,
            is_light: true,
            hosted: Vec::new(),
        };
        let silence = silence.iter();
        let observations = Observations {
            silence: silence
                .map(|&(node, seconds)| (NodeId(node), Duration::from_secs(seconds)))
                .collect(),
            groups: [(data(0), seen.into())].into(),
            ..Observations::default()
        };
        let orders = steps(&state, &observations, &Pace::default()).into_iter();
        let removed = orders.filter_map(|step| match step {
            ReconcileStep::Order {
                order: Order::Change { remove, .. },
                ..
            } => Some(remove),
            ReconcileStep::Propose(_) | ReconcileStep::Order { .. } => None,
        });
        removed.flatten().collect()
    };
    let on = |node: usize| members[node - 1].incarnation;
    assert_eq!(removed(&[(1, 0), (2, 0), (3, 0), (4, 0), (5, 0)]), [on(2)]);
    assert_eq!(
        removed(&[(1, 0), (2, 0), (3, 9), (4, 0), (5, 0)]),
        [on(3)],
        "who is away goes first"
    );
    assert_eq!(
        removed(&[(1, 0), (2, 0), (3, 0), (4, 9), (5, 0)]),
        [],
        "three of four would be there, and the next loss ends the group"
    );
    assert_eq!(
        removed(&[(1, 0), (2, 0), (3, 0), (5, 0)]),
        [],
        "the link to the fourth is gone, and it may be dead"
    );
}

#[test]
fn a_replica_that_was_given_up_has_no_memory_and_its_node_gets_another_one() {
    let mut state = three_voters();
    let give_up = |group, node, incarnation| MetaCommand::GiveUp {
        group,
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
    };
    for (group, node, incarnation, refusal) in [
        (data(0), 2, 5, MetaRefusal::NotNeeded),
        (data(0), 9, 4, MetaRefusal::NotNeeded),
        (data(1), 1, 3, MetaRefusal::Last),
        (META, 1, 1, MetaRefusal::Unknown),
        (data(99), 1, 1, MetaRefusal::Unknown),
    ] {
        let before = state.clone();
        assert_eq!(state.apply(&give_up(group, node, incarnation)), Err(refusal));
        assert_eq!(state, before, "a refusal changes nothing");
    }
    assert_eq!(state.apply(&give_up(data(0), 2, 4)), Ok(MetaOutcome::Done));
    let group = &state.groups()[&data(0)];
    assert!(group.is_lost(Incarnation(4)) && group.has_majority());
    let expected = group.expected_on(NodeId(2)).expect("it is a target");
    assert!(expected.incarnation > Incarnation(5));
    assert_eq!(
        state.apply(&give_up(data(0), 2, 4)),
        Err(MetaRefusal::NotNeeded),
        "once"
    );
    let second = state.apply(&give_up(data(0), 3, 5));
    assert_eq!(second, Err(MetaRefusal::Last), "nobody could say what is right");
    assert_eq!(state.check(), Ok(()));
}

#[test]
fn what_nodes_say_of_replicas_that_were_given_up_is_proposed_once_and_as_long_as_it_is_news() {
    let mut state = three_voters();
    let said = |generation, node, incarnation| GivenUp {
        group: GroupId::new(0),
        generation,
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
    };
    let proposed = |state: &State, given_up: &[GivenUp]| -> Vec<MetaCommand> {
        let observations = Observations {
            given_up: given_up.to_vec(),
            ..Observations::default()
        };
        let proposed = steps(state, &observations, &Pace::default()).into_iter();
        let proposed = proposed.filter_map(|step| match step {
            ReconcileStep::Propose(command @ MetaCommand::GiveUp { .. }) => Some(command),
            ReconcileStep::Propose(_) | ReconcileStep::Order { .. } => None,
        });
        proposed.collect()
    };
    assert_eq!(proposed(&state, &[]), []);
    // The node says it, and so does the leader's.
    let news = proposed(&state, &[said(0, 2, 4), said(0, 2, 4)]);
    let expected = MetaCommand::GiveUp {
        group: data(0),
        node: NodeId(2),
        incarnation: Incarnation(4),
    };
    assert_eq!(news, std::slice::from_ref(&expected));
    let old = [said(1, 2, 4), said(0, 2, 3), said(0, 1, 4)];
    assert_eq!(proposed(&state, &old), []);
    state.apply(&expected).expect("two of three are left");
    assert_eq!(proposed(&state, &[said(0, 2, 4)]), []);
    assert_eq!(
        proposed(&state, &[said(0, 3, 5)]),
        [],
        "it would be refused, again and again"
    );
}

#[test]
fn a_node_that_is_gone_is_taken_at_an_operators_word_and_its_groups_begin_anew() {
    let mut state = created();
    for token in [2, 3] {
        join(&mut state, token);
    }
    state.apply(&place(data(0), &[1, 2, 3])).expect("they are nodes");
    let members = vec![
        member(2, 1, MemberRole::Voter),
        member(4, 2, MemberRole::Voter),
        member(5, 3, MemberRole::Voter),
    ];
    for node in [2, 3] {
        let add = MetaCommand::AddReplica {
            group: data(0),
            node: NodeId(node),
        };
        state.apply(&add).expect("it is a target");
    }
    state
        .apply(&report(data(0), 5, members))
        .expect("all were expected");
    let recover = MetaCommand::Recover {
        group: data(0),
        node: NodeId(1),
        recovery_source: Some(Incarnation(2)),
    };
    let gone = |boot| MetaCommand::Gone { boot };
    let boots = [2, 3].map(|node| state.nodes()[&NodeId(node)].boot);
    assert_eq!(state.apply(&gone(boots[0])), Ok(MetaOutcome::Done));
    assert!(state.is_dead(boots[0]));
    assert_eq!(
        state.apply(&recover),
        Err(MetaRefusal::NotNeeded),
        "two of three are left"
    );
    assert_eq!(state.apply(&gone(boots[1])), Ok(MetaOutcome::Done));
    assert!(!state.groups()[&data(0)].has_majority());
    let Ok(MetaOutcome::Replica(replica)) = state.apply(&recover) else {
        panic!("its majority is gone")
    };
    assert_eq!(
        (replica.generation, replica.beginning),
        (1, Beginning::Recovered { of: Incarnation(2) })
    );
    // What the dead leader said last comes late.
    let late = state.groups()[&data(0)].clone();
    let members = vec![member(5, 3, MemberRole::Voter)];
    state
        .apply(&report(data(0), 9, members))
        .expect("it is no contradiction");
    assert_eq!(state.groups()[&data(0)], late, "it is of another generation");
    // One comes back after all, with all that it had.
    let kept = vec![(data(0), Incarnation(4))];
    let (boot_number, replicas) = boot(&mut state, 2, 20, kept);
    assert!(state.is_alive(boot_number));
    assert!(replicas.is_empty(), "nothing that it has counts: {replicas:?}");
    assert_eq!(state.check(), Ok(()));
}

#[test]
fn a_node_that_the_meta_group_needs_is_not_taken_for_gone() {
    let mut state = created();
    join(&mut state, 2);
    let boots = [1, 2].map(|node| state.nodes()[&NodeId(node)].boot);
    let before = state.clone();
    let gone = |boot| MetaCommand::Gone { boot };
    assert_eq!(state.apply(&gone(boots[0])), Err(MetaRefusal::Last));
    assert_eq!(state.apply(&gone(Boot(99))), Err(MetaRefusal::Unknown));
    assert_eq!(state, before);
    // It has started again since: what it has now it has said itself.
    boot(&mut state, 2, 20, Vec::new());
    let before = state.clone();
    assert_eq!(state.apply(&gone(boots[1])), Ok(MetaOutcome::Done));
    assert_eq!(state, before);
}

#[test]
fn a_group_with_one_replica_waits_for_recovery_if_its_node_is_gone() {
    let mut state = created();
    let node = join(&mut state, 2);
    state.apply(&place(data(0), &[2])).expect("it is a node");
    let add = MetaCommand::AddReplica { group: data(0), node };
    state.apply(&add).expect("it is a target");
    let members = vec![member(4, 2, MemberRole::Voter)];
    state
        .apply(&report(data(0), 5, members))
        .expect("it was expected");
    let boot_number = state.nodes()[&node].boot;
    state
        .apply(&MetaCommand::Gone { boot: boot_number })
        .expect("the meta group is on another node");
    assert!(!state.groups()[&data(0)].has_majority());
    let (_, replicas) = boot(&mut state, 2, 20, Vec::new());
    assert!(replicas.is_empty(), "only an operator lets it begin empty");
    let recover = MetaCommand::Recover {
        group: data(0),
        node: NodeId(1),
        recovery_source: None,
    };
    let Ok(MetaOutcome::Replica(replica)) = state.apply(&recover) else {
        panic!("nobody has anything")
    };
    assert_eq!(replica.beginning, Beginning::BootstrapReplica);
}

/// A group whose first node has promised to grow by two learners, with their identities.
fn about_to_grow() -> (State, u64, u64) {
    let mut state = created();
    join(&mut state, 2);
    join(&mut state, 3);
    state.apply(&place(data(0), &[1, 2, 3])).expect("they are nodes");
    let add = |state: &mut State, node| match state.apply(&MetaCommand::AddReplica {
        group: data(0),
        node: NodeId(node),
    }) {
        Ok(MetaOutcome::Replica(replica)) => replica.incarnation.0,
        other => panic!("{other:?}"),
    };
    let (two, three) = (add(&mut state, 2), add(&mut state, 3));
    let members = vec![
        member(2, 1, MemberRole::Voter),
        member(two, 2, MemberRole::Learner),
        member(three, 3, MemberRole::Learner),
    ];
    state
        .apply(&report(data(0), 5, members))
        .expect("they were expected");
    (state, two, three)
}

/// What a learner's node says of it that knows of the loss of the first voter.
fn recovery_source(incarnation: u64, node: u64, last: u64) -> RecoverySource {
    RecoverySource {
        group: GroupId::new(0),
        generation: 0,
        node: NodeId(node),
        incarnation: Incarnation(incarnation),
        term: Term(2),
        last: Index(last),
        applied: Index(last.min(3)),
        lost_voter: Some(Incarnation(2)),
        unreported: None,
        outgoing: Vec::new(),
        is_aside: false,
        voters: Vec::new(),
        changed_at: Index(0),
        is_whole: true,
    }
}

/// How the first group is to begin anew, if these are all that is left and everybody is there.
fn beginning_anew(state: &State, recovery_sources: &[RecoverySource]) -> Option<MetaCommand> {
    let observations = Observations {
        silence: state.nodes().keys().map(|&node| (node, Duration::ZERO)).collect(),
        groups: BTreeMap::new(),
        recovery_sources: recovery_sources.to_vec(),
        ..Observations::default()
    };
    let mut begun = steps(state, &observations, &Pace::default())
        .into_iter()
        .filter_map(|step| match step {
            ReconcileStep::Propose(command @ MetaCommand::Recover { .. }) => Some(command),
            ReconcileStep::Propose(_) | ReconcileStep::Order { .. } => None,
        });
    let command = begun.next();
    assert_eq!(begun.next(), None, "it begins anew once");
    command
}

#[test]
fn a_group_that_may_have_grown_before_its_only_reported_voter_died_is_not_founded_again() {
    let (mut state, two, three) = about_to_grow();
    let (_, replicas) = boot(&mut state, 1, 20, vec![(META, Incarnation(1))]);
    let begun = replicas.iter().find(|replica| replica.group == data(0));
    assert_eq!(
        begun.map(|replica| replica.beginning),
        Some(Beginning::Learner),
        "the others may hold what was acknowledged"
    );
    let group = &state.groups()[&data(0)];
    assert_eq!(
        (group.generation, group.lost.as_slice()),
        (0, [Incarnation(2)].as_slice())
    );
    // They vote, and one of them leads: it can say so.
    let members = vec![
        member(2, 1, MemberRole::Voter),
        member(two, 2, MemberRole::Voter),
        member(three, 3, MemberRole::Voter),
    ];
    state
        .apply(&report(data(0), 9, members))
        .expect("nothing of it is unknown");
    let group = &state.groups()[&data(0)];
    assert!(group.has_majority() && group.is_lost(Incarnation(2)));
    state.check().expect("a state that can be");
}

#[test]
fn a_group_whose_only_reported_voter_died_begins_anew_with_the_best_log_when_all_others_were_asked() {
    let (mut state, two, three) = about_to_grow();
    let all = [recovery_source(two, 2, 70), recovery_source(three, 3, 71)];
    assert_eq!(beginning_anew(&state, &all), None, "nothing is lost");
    boot(&mut state, 1, 20, vec![(META, Incarnation(1))]);
    assert_eq!(
        beginning_anew(&state, &all[..1]),
        None,
        "the other one may have more"
    );
    let mut unaware = all.clone();
    unaware[1].lost_voter = None;
    assert_eq!(
        beginning_anew(&state, &unaware),
        None,
        "what it said may be older than the last words of the voter"
    );
    let mut of_before = all.clone();
    of_before[1].generation = 7;
    assert_eq!(beginning_anew(&state, &of_before), None);
    let mut damaged = all.clone();
    damaged[0].is_whole = false;
    assert_eq!(
        beginning_anew(&state, &damaged),
        None,
        "what its log had once may be what was acknowledged"
    );
    mutations::plant(Some(Mutation::NotAllAsked));
    let hasty = beginning_anew(&state, &all[..1]);
    mutations::plant(None);
    assert!(hasty.is_some(), "the mistake is noticed");
    let begun = beginning_anew(&state, &all).expect("all of them have spoken");
    let expected = MetaCommand::Recover {
        group: data(0),
        node: NodeId(3),
        recovery_source: Some(Incarnation(three)),
    };
    assert_eq!(begun, expected);
    let Ok(MetaOutcome::Replica(replica)) = state.apply(&begun) else {
        panic!("its majority is gone")
    };
    let of = Incarnation(three);
    assert_eq!(replica.beginning, Beginning::Recovered { of });
    assert_eq!(beginning_anew(&state, &all), None);
}

#[test]
fn a_group_that_grew_unreported_and_lost_its_new_voter_begins_anew() {
    let (mut state, two, three) = about_to_grow();
    // The first voter has taken in the second, and nobody has heard of it when that one loses its memory.
    boot(&mut state, 2, 20, Vec::new());
    let recover = MetaCommand::Recover {
        group: data(0),
        node: NodeId(1),
        recovery_source: Some(Incarnation(2)),
    };
    assert_eq!(
        state.apply(&recover),
        Err(MetaRefusal::NotNeeded),
        "as far as was reported"
    );
    let applied = |index, roles: [MemberRole; 3]| {
        let [one, second, third] = roles;
        Configuration {
            index,
            members: vec![member(2, 1, one), member(two, 2, second), member(three, 3, third)],
        }
    };
    let says = |configuration: Configuration| RecoverySource {
        lost_voter: None,
        unreported: Some(configuration),
        ..recovery_source(2, 1, 70)
    };
    let proposed = |state: &State, recovery_sources: Vec<RecoverySource>| {
        let observations = Observations {
            silence: state.nodes().keys().map(|&node| (node, Duration::ZERO)).collect(),
            recovery_sources,
            ..Observations::default()
        };
        let steps = steps(state, &observations, &Pace::default());
        steps.into_iter().find_map(|step| match step {
            ReconcileStep::Propose(command @ MetaCommand::Unreported { .. }) => Some(command),
            ReconcileStep::Propose(_) | ReconcileStep::Order { .. } => None,
        })
    };
    use MemberRole::{Learner, Voter};
    for (configuration, why) in [
        (
            applied(5, [Voter, Voter, Learner]),
            "it is the one that was reported",
        ),
        (applied(9, [Voter, Learner, Voter]), "it has its majority"),
    ] {
        assert_eq!(proposed(&state, vec![says(configuration.clone())]), None, "{why}");
        let command = MetaCommand::Unreported {
            group: data(0),
            generation: 0,
            configuration,
        };
        assert_eq!(state.apply(&command), Err(MetaRefusal::NotNeeded), "{why}");
    }
    let of_before = RecoverySource {
        generation: 7,
        ..says(applied(9, [Voter, Voter, Learner]))
    };
    assert_eq!(proposed(&state, vec![of_before]), None, "of another generation");
    let command = proposed(&state, vec![says(applied(9, [Voter, Voter, Learner]))]);
    let command = command.expect("it stands still");
    assert_eq!(state.apply(&command), Ok(MetaOutcome::Done));
    let group = &state.groups()[&data(0)];
    assert!(!group.has_majority() && group.leader == Some(NodeId(1)));
    state.check().expect("a state that can be");
    assert_eq!(state.apply(&command), Err(MetaRefusal::NotNeeded), "it is known");
    // Those who are left know of the loss now.
    let of = |incarnation, node, last| RecoverySource {
        lost_voter: Some(Incarnation(two)),
        ..recovery_source(incarnation, node, last)
    };
    let begun = beginning_anew(&state, &[of(2, 1, 70), of(three, 3, 60)]);
    assert_eq!(begun, Some(recover.clone()));
    assert!(matches!(state.apply(&recover), Ok(MetaOutcome::Replica(_))));
}

#[test]
fn a_group_amid_a_joint_change_stands_still_if_either_half_of_its_voters_has_no_majority() {
    use MemberRole::{Learner, Voter};
    let (mut state, two, three) = about_to_grow();
    join(&mut state, 4);
    state
        .apply(&place(data(0), &[1, 2, 3, 4]))
        .expect("they are nodes");
    let add = MetaCommand::AddReplica {
        group: data(0),
        node: NodeId(4),
    };
    let Ok(MetaOutcome::Replica(replica)) = state.apply(&add) else {
        panic!("it is a target")
    };
    let four = replica.incarnation.0;
    let members = |roles: [MemberRole; 4]| {
        let names = [2, two, three, four].into_iter().zip(1..).zip(roles);
        let members = names.map(|((incarnation, node), role)| member(incarnation, node, role));
        members.collect::<Vec<GroupMember>>()
    };
    let reported = members([Voter, Voter, Voter, Learner]);
    state
        .apply(&report(data(0), 9, reported.clone()))
        .expect("it is news");
    let swapped = members([Voter, Voter, Learner, Voter]);
    let says = |outgoing: &[u64]| RecoverySource {
        lost_voter: None,
        unreported: Some(Configuration {
            index: 12,
            members: swapped.clone(),
        }),
        outgoing: outgoing.iter().copied().map(Incarnation).collect(),
        ..recovery_source(2, 1, 70)
    };
    let proposed = |state: &State, source: RecoverySource| {
        let observations = Observations {
            silence: state.nodes().keys().map(|&node| (node, Duration::ZERO)).collect(),
            recovery_sources: vec![source],
            ..Observations::default()
        };
        let steps = steps(state, &observations, &Pace::default());
        steps.into_iter().find_map(|step| match step {
            ReconcileStep::Propose(MetaCommand::Unreported { configuration, .. }) => Some(configuration),
            ReconcileStep::Propose(_) | ReconcileStep::Order { .. } => None,
        })
    };
    let voted = [2, two, three];
    boot(&mut state, 2, 20, Vec::new());
    assert_eq!(proposed(&state, says(&voted)), None, "both halves have theirs");
    let mut other = state.clone();
    boot(&mut state, 3, 21, Vec::new());
    assert_eq!(
        proposed(&state, says(&[])),
        None,
        "it has ended, and two of three are left"
    );
    let half = proposed(&state, says(&voted)).expect("one is left of those who voted");
    assert_eq!(half.members, reported);
    let command = MetaCommand::Unreported {
        group: data(0),
        generation: 0,
        configuration: half,
    };
    assert_eq!(state.apply(&command), Ok(MetaOutcome::Done));
    let recover = MetaCommand::Recover {
        group: data(0),
        node: NodeId(1),
        recovery_source: Some(Incarnation(2)),
    };
    assert!(matches!(state.apply(&recover), Ok(MetaOutcome::Replica(_))));
    boot(&mut other, 4, 21, Vec::new());
    let half = proposed(&other, says(&voted)).expect("one is left of those who will vote");
    assert_eq!(half.members, swapped);
}

#[test]
fn a_group_begins_anew_with_nothing_if_those_who_are_left_hold_nothing() {
    let (mut state, two, three) = about_to_grow();
    boot(&mut state, 1, 20, vec![(META, Incarnation(1))]);
    let all = [recovery_source(two, 2, 0), recovery_source(three, 3, 0)];
    assert!(matches!(
        beginning_anew(&state, &all),
        Some(MetaCommand::Recover {
            recovery_source: None,
            ..
        })
    ));
    // Those who hold nothing die, one by one: nobody is left to be asked.
    boot(&mut state, 2, 21, Vec::new());
    assert_eq!(state.groups()[&data(0)].generation, 0);
    let (_, replicas) = boot(&mut state, 3, 22, Vec::new());
    assert_eq!(replicas[0].beginning, Beginning::BootstrapReplica);
    assert_eq!(state.groups()[&data(0)].generation, 1);
}

#[test]
fn a_group_that_may_have_lost_two_of_three_voters_waits_for_an_operator() {
    let (mut state, two, three) = about_to_grow();
    boot(&mut state, 2, 20, Vec::new());
    boot(&mut state, 1, 21, vec![(META, Incarnation(1))]);
    assert!(state.groups()[&data(0)].is_lost(Incarnation(two)));
    assert_eq!(beginning_anew(&state, &[recovery_source(three, 3, 71)]), None);
    let recover = MetaCommand::Recover {
        group: data(0),
        node: NodeId(3),
        recovery_source: Some(Incarnation(three)),
    };
    state.apply(&recover).expect("an operator may decide");
}

#[test]
fn a_group_of_two_that_lost_one_begins_anew_with_the_other() {
    let (mut state, two, three) = about_to_grow();
    let members = vec![
        member(2, 1, MemberRole::Voter),
        member(two, 2, MemberRole::Voter),
        member(three, 3, MemberRole::Learner),
    ];
    state.apply(&report(data(0), 9, members)).expect("it is news");
    boot(&mut state, 1, 20, vec![(META, Incarnation(1))]);
    let all = [recovery_source(two, 2, 71), recovery_source(three, 3, 70)];
    let expected = MetaCommand::Recover {
        group: data(0),
        node: NodeId(2),
        recovery_source: Some(Incarnation(two)),
    };
    assert_eq!(beginning_anew(&state, &all), Some(expected));
}

#[test]
fn what_others_hold_is_kept_until_as_many_vote_as_are_to_and_is_asked_for_if_the_chosen_one_is_lost() {
    others_hold_on();
    mutations::plant(Some(Mutation::FormerLetGoEarly));
    let noticed = std::panic::catch_unwind(others_hold_on);
    mutations::plant(None);
    assert!(noticed.is_err(), "the mistake is noticed");
}

fn others_hold_on() {
    let (mut state, two, three) = about_to_grow();
    boot(&mut state, 1, 20, vec![(META, Incarnation(1))]);
    let recover = |node: u64, recovery_source: u64| MetaCommand::Recover {
        group: data(0),
        node: NodeId(node),
        recovery_source: Some(Incarnation(recovery_source)),
    };
    let Ok(MetaOutcome::Replica(recovered)) = state.apply(&recover(2, two)) else {
        panic!("its majority is gone")
    };
    assert_eq!(state.groups()[&data(0)].former, [NodeId(3)]);
    // The chosen one dies before anybody else has anything.
    let mut whole = state.clone();
    let (_, replicas) = boot(&mut state, 2, 21, Vec::new());
    assert!(
        replicas
            .iter()
            .all(|replica| replica.beginning != Beginning::BootstrapReplica),
        "somebody has something"
    );
    assert_eq!(beginning_anew(&state, &[]), None, "who has it has not said so");
    let mut kept = recovery_source(three, 3, 70);
    kept.lost_voter = Some(recovered.incarnation);
    assert_eq!(beginning_anew(&state, &[kept.clone()]), None, "it may still vote");
    kept.is_aside = true;
    let begun = beginning_anew(&state, &[kept]).expect("everybody was asked");
    assert_eq!(begun, recover(3, three));
    state.apply(&begun).expect("nobody else is left");
    let group = &state.groups()[&data(0)];
    assert_eq!((group.generation, group.former.len()), (2, 0));
    // Or else it lives, and others come to vote.
    let mut members = vec![member(recovered.incarnation.0, 2, MemberRole::Voter)];
    for node in [1, 3] {
        let add = MetaCommand::AddReplica {
            group: data(0),
            node: NodeId(node),
        };
        let Ok(MetaOutcome::Replica(replica)) = whole.apply(&add) else {
            panic!("it is a target")
        };
        members.push(member(replica.incarnation.0, node, MemberRole::Learner));
    }
    let heard = |index: u64, members: &[GroupMember]| {
        let report = Report {
            group: data(0),
            generation: 1,
            term: 1,
            index,
            members: members.to_vec(),
            leader: NodeId(2),
        };
        MetaCommand::Report {
            reports: vec![report],
        }
    };
    whole.apply(&heard(2, &members)).expect("it is news");
    assert_eq!(
        whole.groups()[&data(0)].former,
        [NodeId(3)],
        "they are being filled"
    );
    members[1].role = MemberRole::Voter;
    whole.apply(&heard(3, &members)).expect("it is news");
    assert_eq!(whole.groups()[&data(0)].former, [NodeId(3)], "one is missing");
    members[2].role = MemberRole::Voter;
    whole.apply(&heard(4, &members)).expect("it is news");
    assert_eq!(whole.groups()[&data(0)].former, []);
    whole.check().expect("it holds");
}

#[test]
fn nobody_waits_for_what_a_removed_node_has_kept() {
    let (mut state, two, _) = about_to_grow();
    boot(&mut state, 1, 20, vec![(META, Incarnation(1))]);
    let recover = MetaCommand::Recover {
        group: data(0),
        node: NodeId(2),
        recovery_source: Some(Incarnation(two)),
    };
    state.apply(&recover).expect("its majority is gone");
    assert_eq!(state.groups()[&data(0)].former, [NodeId(3)]);
    let fence = MetaCommand::Fence {
        boot: state.nodes()[&NodeId(3)].boot,
    };
    state.apply(&fence).expect("it was silent for long");
    state.apply(&place(data(0), &[2, 1])).expect("they are nodes");
    state
        .apply(&MetaCommand::Remove { node: NodeId(3) })
        .expect("no group involves it");
    let (_, replicas) = boot(&mut state, 2, 21, Vec::new());
    let begun = replicas.iter().find(|replica| replica.group == data(0));
    assert_eq!(
        begun.map(|replica| replica.beginning),
        Some(Beginning::BootstrapReplica)
    );
    state.check().expect("a state that can be");
}

/// Those that are taken for gone when none of these has been heard of for long enough.
fn taken_for_gone(state: &State, silent: &[u64]) -> Vec<NodeId> {
    let silence = |node: NodeId| Duration::from_secs(if silent.contains(&node.0) { 5 } else { 0 });
    let nodes = state.nodes().keys();
    let observations = Observations {
        silence: nodes.map(|&node| (node, silence(node))).collect(),
        ..Observations::default()
    };
    let steps = steps(state, &observations, &Pace::default()).into_iter();
    let boots = steps.filter_map(|step| match step {
        ReconcileStep::Propose(MetaCommand::Gone { boot }) => Some(boot),
        ReconcileStep::Propose(_) | ReconcileStep::Order { .. } => None,
    });
    let node = |boot| state.nodes().iter().find(|(_, node)| node.boot == boot);
    boots.filter_map(node).map(|(&id, _)| id).collect()
}

#[test]
fn a_node_takes_the_place_of_one_at_whose_address_it_joins_and_not_where_it_starts_again() {
    let mut state = created();
    let at = |peer: &str| Announcement {
        peer: peer.into(),
        ..announcement()
    };
    let start = |state: &mut State, node: u64, token: u128, peer: &str| {
        let command = MetaCommand::Boot {
            node: NodeId(node),
            token: Token(token),
            announcement: at(peer),
            left_by: Vec::new(),
            kept: vec![(META, Incarnation(1))],
            unclean: Vec::new(),
        };
        state.apply(&command).expect("it is a node");
    };
    let join = |state: &mut State, token: u128, peer: &str| {
        let command = MetaCommand::Join {
            token: Token(token),
            announcement: at(peer),
        };
        state.apply(&command).expect("there is room");
    };
    join(&mut state, 2, "b:8379");
    join(&mut state, 3, "c:8379");
    join(&mut state, 4, "d:8379");
    // All have ended, addresses are dealt anew, and the second and the fourth come back first.
    start(&mut state, 2, 12, "a:8379");
    start(&mut state, 4, 14, "c:8379");
    assert_eq!(taken_for_gone(&state, &[1, 3]), []);
    join(&mut state, 5, "c:8379");
    assert_eq!(taken_for_gone(&state, &[1]), []);
    assert_eq!(taken_for_gone(&state, &[1, 3, 4]), [NodeId(3), NodeId(4)]);
    // It starts again there: it is still the one that came in their place.
    start(&mut state, 5, 15, "c:8379");
    assert_eq!(taken_for_gone(&state, &[1, 3, 4]), [NodeId(3), NodeId(4)]);
    // Whoever starts there after it joined was not replaced.
    start(&mut state, 4, 24, "c:8379");
    assert_eq!(taken_for_gone(&state, &[1, 3, 4]), [NodeId(3)]);
    // That it joined says nothing at another address.
    start(&mut state, 5, 25, "b:8379");
    start(&mut state, 2, 22, "e:8379");
    start(&mut state, 5, 35, "a:8379");
    assert_eq!(taken_for_gone(&state, &[1, 3, 4]), []);
    state.check().expect("a state that can be");
}

#[test]
fn a_node_takes_the_place_of_one_under_whose_name_it_joins_wherever_it_is() {
    let mut state = created();
    let join = |state: &mut State, token: u128, name: &str| {
        let announcement = Announcement {
            peer: format!("10.0.0.{token}:8379"),
            name: name.into(),
            ..announcement()
        };
        let token = Token(token);
        let command = MetaCommand::Join { token, announcement };
        state.apply(&command).expect("there is room");
    };
    join(&mut state, 2, "");
    join(&mut state, 3, "b");
    join(&mut state, 4, "");
    join(&mut state, 5, "b");
    assert_eq!(taken_for_gone(&state, &[2]), [], "no name is nobody's");
    assert_eq!(taken_for_gone(&state, &[3]), [NodeId(3)]);
    assert_eq!(taken_for_gone(&state, &[3, 5]), [], "nobody knows");
    assert_eq!(taken_for_gone(&state, &[5]), [NodeId(5)], "the third is heard");
    // It starts again, at another address: it is still the one that came in the other's place.
    let command = MetaCommand::Boot {
        node: NodeId(5),
        token: Token(15),
        announcement: Announcement {
            peer: "10.0.1.5:8379".into(),
            name: "b".into(),
            ..announcement()
        },
        left_by: Vec::new(),
        kept: Vec::new(),
        unclean: Vec::new(),
    };
    state.apply(&command).expect("it is a node");
    assert_eq!(taken_for_gone(&state, &[3]), [NodeId(3)]);
    let restored = State::restore(&state.snapshot());
    assert_eq!(restored.as_ref(), Ok(&state), "names are kept");
    state.check().expect("a state that can be");
}

#[test]
fn whoever_joined_at_the_address_of_a_node_that_is_heard_was_never_there() {
    let mut state = created();
    let join = |state: &mut State, token: u128| {
        let peer = "b:8379".into();
        let announcement = Announcement {
            peer,
            ..announcement()
        };
        let token = Token(token);
        let command = MetaCommand::Join { token, announcement };
        state.apply(&command).expect("there is room");
    };
    join(&mut state, 2);
    // What an earlier process at that address had asked for was held up.
    join(&mut state, 3);
    assert_eq!(taken_for_gone(&state, &[3]), [NodeId(3)], "the second is heard");
    assert_eq!(taken_for_gone(&state, &[2]), [NodeId(2)], "the third is");
    assert_eq!(taken_for_gone(&state, &[2, 3]), [], "nobody knows");
}

#[test]
fn memory_counts_if_the_last_start_left_it_or_one_that_ended_before_it_used_it() {
    let (mut state, two, three) = about_to_grow();
    let members = vec![
        member(2, 1, MemberRole::Voter),
        member(two, 2, MemberRole::Voter),
        member(three, 3, MemberRole::Voter),
    ];
    state.apply(&report(data(0), 9, members)).expect("it is news");
    let has_kept = |state: &mut State, token: u128, left_by: &[u128]| {
        let kept = vec![(data(0), Incarnation(three)), (META, Incarnation(99))];
        let command = MetaCommand::Boot {
            node: NodeId(3),
            token: Token(token),
            announcement: announcement(),
            left_by: left_by.iter().copied().map(Token).collect(),
            kept,
            unclean: Vec::new(),
        };
        let Ok(MetaOutcome::Started { replicas, .. }) = state.apply(&command) else {
            panic!("it is a node")
        };
        let mut replicas = replicas.iter().filter(|replica| replica.group == data(0));
        replicas.any(|replica| replica.beginning == Beginning::Kept)
    };
    assert!(has_kept(&mut state, 30, &[3]));
    assert!(has_kept(&mut state, 30, &[3]), "the same start asks again");
    assert!(
        has_kept(&mut state, 31, &[3, 30]),
        "it was told to stop before it heard the answer"
    );
    assert!(
        has_kept(&mut state, 33, &[3, 30, 31, 32]),
        "one of them was not counted"
    );
    let fence = MetaCommand::Fence {
        boot: state.nodes()[&NodeId(3)].boot,
    };
    state.apply(&fence).expect("it was silent for long");
    assert!(
        has_kept(&mut state, 33, &[3, 30, 31, 32]),
        "it is counted once more"
    );
    let mut alone = state.clone();
    assert!(
        !has_kept(&mut state, 34, &[3, 30]),
        "the last start acknowledged more"
    );
    assert!(state.groups()[&data(0)].is_lost(Incarnation(three)));
    assert!(!has_kept(&mut state, 34, &[3, 30]), "the same start asks again");
    state.check().expect("a state that can be");
    assert!(!has_kept(&mut alone, 35, &[]), "nobody says whose memory it is");
}

/// A start of the node whose last one this memory is of; unclean all of it, but for that of the meta group on the first node.
fn boot_unclean(
    state: &mut State,
    node: u64,
    token: u128,
    left_by: &[u128],
    unclean: &[(GroupRef, u64)],
) -> Vec<AssignedReplica> {
    let unclean = unclean.iter().map(|&(group, of)| (group, Incarnation(of)));
    let command = MetaCommand::Boot {
        node: NodeId(node),
        token: Token(token),
        announcement: announcement(),
        left_by: left_by.iter().copied().map(Token).collect(),
        kept: vec![(META, Incarnation(1))],
        unclean: unclean.collect(),
    };
    let again = MetaCommand::decode(&command.encode());
    assert_eq!(again.as_ref(), Ok(&command));
    let outcome = state.apply(&command);
    state.check().expect("a state that can be");
    let Ok(MetaOutcome::Started { replicas, .. }) = outcome else {
        panic!("{outcome:?}")
    };
    replicas
}

/// What a node is told of the first group.
fn of_first(replicas: &[AssignedReplica]) -> Vec<(u64, u64, Beginning)> {
    let first = replicas.iter().filter(|replica| replica.group == data(0));
    first
        .map(|replica| (replica.generation, replica.incarnation.0, replica.beginning))
        .collect()
}

fn recovered(of: u64) -> Beginning {
    Beginning::Recovered { of: Incarnation(of) }
}

#[test]
fn a_group_whose_only_voter_is_unclean_goes_on_with_it_under_another_name() {
    let mut state = created();
    let all = [(data(0), 2), (data(1), 3)];
    let replicas = boot_unclean(&mut state, 1, 10, &[1], &all);
    let found: Vec<_> = replicas.iter().map(|replica| replica.beginning).collect();
    assert_eq!(found, [Beginning::Kept, recovered(2), recovered(3)]);
    let group = &state.groups()[&data(0)];
    assert_eq!(
        (group.generation, group.recovered_from),
        (1, Some(Incarnation(2)))
    );
    assert_eq!(group.members, [member(4, 1, MemberRole::Voter)]);
    assert_eq!((&group.lost, &group.former), (&vec![], &vec![]));

    let before = state.clone();
    assert_eq!(
        boot_unclean(&mut state, 1, 10, &[1], &all),
        replicas,
        "asked again"
    );
    assert_eq!(state, before);
}

#[test]
fn an_unclean_replica_that_did_not_begin_under_its_new_name_begins_under_a_newer_one() {
    let mut state = created();
    let first = |state: &mut State, token, left_by, of| {
        of_first(&boot_unclean(state, 1, token, &[left_by], &[(data(0), of)]))
    };
    assert_eq!(first(&mut state, 10, 1, 2), [(1, 4, recovered(2))]);
    // What it began as may have been acknowledged, and is not on its disk any more.
    assert_eq!(first(&mut state, 11, 10, 2), [(2, 6, recovered(2))]);
    assert_eq!(state.groups()[&data(0)].former, [], "nothing else is kept here");
    // That beginning is on its disk, and was not reported.
    assert_eq!(first(&mut state, 12, 11, 6), [(3, 8, recovered(6))]);
    // A clean end: it goes on as itself.
    let kept = vec![(META, Incarnation(1)), (data(0), Incarnation(8))];
    let (_, replicas) = boot(&mut state, 1, 13, kept);
    assert_eq!(of_first(&replicas), [(3, 8, Beginning::Kept)]);
}

#[test]
fn an_unclean_replica_that_is_not_of_the_last_start_is_lost() {
    let mut state = created();
    let kept = vec![(META, Incarnation(1)), (data(0), Incarnation(2))];
    boot(&mut state, 1, 10, kept);
    let group = |state: &State| state.groups()[&data(0)].clone();
    // A copy of the directory as it was after the first start.
    let mut copy = state.clone();
    let replicas = boot_unclean(&mut copy, 1, 11, &[1], &[(data(0), 2)]);
    assert_eq!(of_first(&replicas), [(1, 5, Beginning::BootstrapReplica)]);
    assert_eq!(group(&copy).recovered_from, None);
    let again = boot_unclean(&mut copy, 1, 11, &[1], &[(data(0), 2)]);
    assert_eq!(again, replicas, "asked again");

    let replicas = boot_unclean(&mut state, 1, 11, &[1, 10], &[(data(0), 2)]);
    assert_eq!(of_first(&replicas), [(1, 5, recovered(2))], "of the last start");
}

#[test]
fn an_unclean_replica_of_another_name_is_no_source() {
    let mut state = created();
    let replicas = boot_unclean(&mut state, 1, 10, &[1], &[(data(0), 3), (data(1), 2)]);
    assert_eq!(of_first(&replicas), [(1, 4, Beginning::BootstrapReplica)]);
}

#[test]
fn an_unclean_replica_of_the_meta_group_counts_for_nothing() {
    let mut state = created();
    let boot = MetaCommand::Boot {
        node: NodeId(1),
        token: Token(10),
        announcement: announcement(),
        left_by: vec![Token(1)],
        kept: Vec::new(),
        unclean: vec![(META, Incarnation(1))],
    };
    let before = state.clone();
    assert_eq!(state.apply(&boot), Err(MetaRefusal::Malformed));
    assert_eq!(state, before);
}

#[test]
fn an_unclean_voter_beside_learners_is_asked_as_they_are() {
    let (mut state, two, three) = about_to_grow();
    let replicas = boot_unclean(&mut state, 1, 10, &[1], &[(data(0), 2)]);
    let [(0, _, beginning)] = of_first(&replicas)[..] else {
        panic!("{replicas:?}")
    };
    assert_eq!(beginning, Beginning::Learner, "the others may vote by now");
    let group = &state.groups()[&data(0)];
    assert_eq!(
        (&group.lost, &group.former),
        (&vec![Incarnation(2)], &vec![NodeId(1)])
    );
    let learners = [recovery_source(two, 2, 70), recovery_source(three, 3, 71)];
    assert_eq!(
        beginning_anew(&state, &learners),
        None,
        "the voter's disk may have more"
    );
    // They may vote by now, and one of them may come to lead after it has said this.
    let mut all = learners.to_vec();
    all.push(recovery_source(2, 1, 72));
    assert_eq!(next_of_first(&state, &all, &[]), Some(end()));
    mutations::plant(Some(Mutation::AskedForGood));
    assert_eq!(next_of_first(&state, &all, &[]), begun_with((2, 1)));
    mutations::plant(None);
    for (last, best) in [(72, (2, 1)), (60, (three, 3))] {
        let mut state = state.clone();
        state.apply(&end()).expect("its only voter came back as another");
        let said = [aside((two, 2), 70), aside((three, 3), 71), aside((2, 1), last)];
        assert_eq!(next_of_first(&state, &said[..2], &[]), None, "it may have more");
        let begun = next_of_first(&state, &said, &[]).expect("all of them have spoken");
        assert_eq!(Some(&begun), begun_with(best).as_ref());
        let Ok(MetaOutcome::Replica(replica)) = state.apply(&begun) else {
            panic!("its majority is gone")
        };
        assert_eq!(replica.beginning, recovered(best.0));
    }
    // It starts once more before anything has come of it.
    boot_unclean(&mut state, 1, 11, &[10], &[(data(0), 2)]);
    assert_eq!(state.groups()[&data(0)].former, [NodeId(1)]);
    let kept = vec![(META, Incarnation(1)), (data(0), Incarnation(2))];
    let (_, replicas) = boot(&mut state, 1, 12, kept);
    assert_eq!(
        of_first(&replicas)[0].2,
        Beginning::Learner,
        "what was lost once is not found again"
    );
}

/// Its node is to keep what it had of an earlier generation, and its disk has nothing of the replica that it had last.
#[test]
fn a_lost_voter_whose_node_keeps_another_log_is_not_waited_for() {
    let (mut state, two, three) = about_to_grow();
    boot_unclean(&mut state, 1, 10, &[1], &[(data(0), 2)]);
    let mut said = vec![recovery_source(two, 2, 70), recovery_source(three, 3, 71)];
    let former = |is_aside| RecoverySource {
        is_aside,
        ..recovery_source(77, 1, 90)
    };
    said.push(former(false));
    assert_eq!(
        beginning_anew(&state, &said),
        None,
        "what is there of it may not be synced yet"
    );
    said.push(former(true));
    let expected = MetaCommand::Recover {
        group: data(0),
        node: NodeId(3),
        recovery_source: Some(Incarnation(three)),
    };
    assert_eq!(beginning_anew(&state, &said), Some(expected));
}

/// The voters of the first group of [`three_voters`], and their nodes.
const THREE: [(u64, u64); 3] = [(2, 1), (4, 2), (5, 3)];

/// What a node says of a voter of the first group that is set aside.
fn aside((incarnation, node): (u64, u64), last: u64) -> RecoverySource {
    RecoverySource {
        lost_voter: None,
        is_aside: true,
        voters: [2, 4, 5].map(Incarnation).to_vec(),
        changed_at: Index(5),
        ..recovery_source(incarnation, node, last)
    }
}

/// What is to become of the first group, if this was said of it, and these nodes are silent for so many seconds.
fn next_of_first(state: &State, said: &[RecoverySource], silent: &[(u64, u64)]) -> Option<MetaCommand> {
    next_of_unled(state, said, silent, Duration::ZERO, Duration::ZERO)
}

/// The same if nobody has led it for so long, and all nodes have been up for so long.
fn next_of_unled(
    state: &State,
    said: &[RecoverySource],
    silent: &[(u64, u64)],
    unled: Duration,
    up: Duration,
) -> Option<MetaCommand> {
    let silence = |node: NodeId| {
        let silent = silent.iter().find(|(silent, _)| *silent == node.0);
        Duration::from_secs(silent.map_or(0, |(_, secs)| *secs))
    };
    let observations = Observations {
        silence: state.nodes().keys().map(|&node| (node, silence(node))).collect(),
        recovery_sources: said.to_vec(),
        unled_for: [(data(0), unled)].into(),
        up_for: state.nodes().keys().map(|&node| (node, up)).collect(),
        ..Observations::default()
    };
    let mut next = steps(state, &observations, &Pace::default())
        .into_iter()
        .filter_map(|step| match step {
            ReconcileStep::Propose(command @ (MetaCommand::Recover { .. } | MetaCommand::End { .. })) => {
                Some(command)
            }
            ReconcileStep::Propose(_) | ReconcileStep::Order { .. } => None,
        });
    let command = next.next();
    assert_eq!(next.next(), None, "one step after the other");
    command
}

/// A node of the first group starts, and has what its machine left when it lost its power.
fn lose_power(state: &mut State, (incarnation, node): (u64, u64)) {
    let (token, last) = (100 + u128::from(node), u128::from(node));
    boot_unclean(state, node, token, &[last], &[(data(0), incarnation)]);
}

/// A group of three voters of which two have lost their power, and whose generation is over.
fn ended() -> State {
    let mut state = three_voters();
    lose_power(&mut state, THREE[0]);
    lose_power(&mut state, THREE[1]);
    state.apply(&end()).expect("a majority came back as others");
    state.check().expect("a state that can be");
    state
}

fn end() -> MetaCommand {
    MetaCommand::End {
        group: data(0),
        generation: 0,
    }
}

fn begun_with((incarnation, node): (u64, u64)) -> Option<MetaCommand> {
    Some(MetaCommand::Recover {
        group: data(0),
        node: NodeId(node),
        recovery_source: Some(Incarnation(incarnation)),
    })
}

#[test]
fn a_generation_is_over_when_a_majority_came_back_as_others_and_nobody_who_is_left_knows_a_leader() {
    let mut state = three_voters();
    let unled = [recovery_source(5, 3, 7)];
    lose_power(&mut state, THREE[0]);
    assert_eq!(next_of_first(&state, &unled, &[]), None, "two of three are left");
    assert_eq!(state.apply(&end()), Err(MetaRefusal::NotNeeded));
    lose_power(&mut state, THREE[1]);
    assert_eq!(next_of_first(&state, &[], &[]), None, "one may be led");
    assert_eq!(next_of_first(&state, &[], &[(3, 29)]), None, "or lead");
    assert_eq!(next_of_first(&state, &[], &[(3, 30)]), Some(end()));
    let mut before = unled[0].clone();
    before.incarnation = Incarnation(9);
    assert_eq!(next_of_first(&state, &[before], &[]), None, "that is another one");
    let all = [aside(THREE[0], 9), aside(THREE[1], 8), unled[0].clone()];
    assert_eq!(
        next_of_first(&state, &all, &[]),
        Some(end()),
        "it ends before the next begins"
    );
    mutations::plant(Some(Mutation::NotEndedFirst));
    assert_eq!(next_of_first(&state, &all, &[]), begun_with(THREE[0]));
    mutations::plant(None);
    state.apply(&end()).expect("a majority came back as others");
    state.check().expect("a state that can be");
    assert_eq!(state.apply(&end()), Err(MetaRefusal::NotNeeded), "it is over");
    let group = &state.groups()[&data(0)];
    assert!(group.is_over());
    assert_eq!(
        (group.generation, &group.former),
        (1, &[1, 2, 3].map(NodeId).to_vec())
    );
    let route = &RoutingMap::of(&state).groups[0];
    assert_eq!(
        (route.replicas.len(), route.lost.len()),
        (0, 3),
        "nobody has a part in it"
    );
    let again = MetaCommand::decode(&end().encode());
    assert_eq!(again, Ok(end()));
}

/// One voter lost its power, one is below its floor, and what is whole does not reach that.
#[test]
fn a_generation_is_over_when_floors_leave_nobody_who_can_be_elected_and_enough_whole_logs() {
    let mut state = three_voters();
    lose_power(&mut state, THREE[0]);
    let below = RecoverySource {
        is_whole: false,
        ..recovery_source(4, 2, 9)
    };
    let whole = recovery_source(5, 3, 7);
    let all = [below.clone(), whole.clone()];
    let (short, long) = (Duration::from_secs(29), Duration::from_secs(30));
    let next = |state: &State, said: &[RecoverySource], unled, up| next_of_unled(state, said, &[], unled, up);
    assert_eq!(next(&state, &all, long, long), None, "not by the rules of before");
    assert_eq!(state.apply(&end()), Err(MetaRefusal::NotNeeded));
    state
        .apply(&MetaCommand::RaiseSemantics {
            to: SemanticsVersion(3),
        })
        .expect("all nodes know them");
    assert_eq!(
        next(&state, &all, short, long),
        None,
        "somebody may be elected yet"
    );
    assert_eq!(
        next(&state, &all, long, short),
        None,
        "it may have just come back"
    );
    assert_eq!(
        next(&state, std::slice::from_ref(&below), long, long),
        None,
        "one may be led"
    );
    let silent = next_of_unled(&state, &all, &[(3, 30)], long, long);
    assert_eq!(silent, None, "who is missed may have what the floor stands for");
    let both_whole = [recovery_source(4, 2, 9), whole.clone()];
    assert_eq!(next(&state, &both_whole, long, long), None, "they can elect one");
    let both_below = [
        below,
        RecoverySource {
            is_whole: false,
            ..whole
        },
    ];
    assert_eq!(
        next(&state, &both_below, long, long),
        None,
        "nothing could begin then"
    );
    assert_eq!(next(&state, &all, long, long), Some(end()));
    state.apply(&end()).expect("whoever leads has seen it");
    state.check().expect("a state that can be");
    // What was synced where power was lost is the best that is left.
    let below = RecoverySource {
        is_whole: false,
        ..aside(THREE[1], 8)
    };
    let said = [aside(THREE[0], 9), below, aside(THREE[2], 7)];
    let begun = next_of_first(&state, &said, &[]).expect("all of them have spoken");
    assert_eq!(Some(&begun), begun_with(THREE[0]).as_ref());
    let Ok(MetaOutcome::Replica(replica)) = state.apply(&begun) else {
        panic!("nobody goes on with the generation of before")
    };
    assert_eq!((replica.generation, replica.beginning), (2, recovered(2)));
}

/// Who came back with nothing counts with those below their floors: what is whole then is too little.
#[test]
fn a_generation_goes_on_when_floors_and_lost_disks_leave_too_few_whole_logs() {
    let mut state = three_voters();
    state
        .apply(&MetaCommand::RaiseSemantics {
            to: SemanticsVersion(3),
        })
        .expect("all nodes know them");
    boot(&mut state, 1, 50, vec![(META, Incarnation(1))]);
    let below = RecoverySource {
        is_whole: false,
        ..recovery_source(4, 2, 9)
    };
    let all = [below, recovery_source(5, 3, 7)];
    let long = Duration::from_secs(30);
    assert_eq!(next_of_unled(&state, &all, &[], long, long), None);
}

#[test]
fn the_next_generation_begins_with_the_best_log_of_those_who_are_bound() {
    let state = ended();
    let (one, two, three) = (aside(THREE[0], 9), aside(THREE[1], 8), aside(THREE[2], 7));
    let all = [one.clone(), two.clone(), three.clone()];
    assert_eq!(next_of_first(&state, &all, &[]), begun_with(THREE[0]));
    assert_eq!(next_of_first(&state, &all[..2], &[]), None, "one has not spoken");
    // What it said before it heard of the end binds it to nothing.
    let unbound = [one.clone(), two.clone(), recovery_source(5, 3, 10)];
    assert_eq!(next_of_first(&state, &unbound, &[]), None);
    mutations::plant(Some(Mutation::ReportBindsNobody));
    assert_eq!(next_of_first(&state, &unbound, &[]), begun_with(THREE[2]));
    mutations::plant(None);
    // One that lost nothing may have the best, and one that is out of reach for long is not waited for.
    let later = RecoverySource {
        term: Term(3),
        ..three
    };
    let best = [one.clone(), two.clone(), later];
    assert_eq!(next_of_first(&state, &best, &[]), begun_with(THREE[2]));
    assert_eq!(next_of_first(&state, &all[..2], &[(3, 29)]), None);
    assert_eq!(next_of_first(&state, &all[..2], &[(3, 30)]), begun_with(THREE[0]));
    assert_eq!(
        next_of_first(&state, &all[..1], &[(2, 30), (3, 30)]),
        None,
        "two may have what one has not"
    );
    let mut state = state;
    let begun = begun_with(THREE[0]).expect("a command");
    let Ok(MetaOutcome::Replica(replica)) = state.apply(&begun) else {
        panic!("its majority is gone")
    };
    assert_eq!((replica.generation, replica.beginning), (2, recovered(2)));
    let group = &state.groups()[&data(0)];
    assert!(!group.is_over());
    assert_eq!(
        group.former,
        [2, 3].map(NodeId),
        "the others keep theirs until it is whole"
    );
}

#[test]
fn who_starts_again_when_its_generation_is_over_has_no_part_in_it_and_is_asked_again() {
    let mut state = ended();
    let kept = vec![(META, Incarnation(1)), (data(0), Incarnation(5))];
    let (_, replicas) = boot(&mut state, 3, 103, kept);
    assert_eq!(of_first(&replicas), [], "it has said that it is over");
    let group = &state.groups()[&data(0)];
    assert_eq!(
        (&group.lost, &group.former),
        (&[2, 4].map(Incarnation).to_vec(), &[1, 2, 3].map(NodeId).to_vec())
    );
    let add = MetaCommand::AddReplica {
        group: data(0),
        node: NodeId(3),
    };
    assert_eq!(state.apply(&add), Err(MetaRefusal::NotNeeded));
    // The power is lost once more, and one disk with it.
    boot_unclean(&mut state, 3, 203, &[103], &[(data(0), 5)]);
    boot_unclean(&mut state, 1, 201, &[101], &[]);
    let group = &state.groups()[&data(0)];
    assert_eq!(group.former, [2, 3].map(NodeId));
    assert_eq!(group.lost, [2, 4, 5].map(Incarnation));
    let left = [aside(THREE[1], 8), aside(THREE[2], 7)];
    assert_eq!(next_of_first(&state, &left, &[]), begun_with(THREE[1]));
    // What comes back with nothing counts as nobody, also if it says so.
    let empty = RecoverySource {
        term: Term(0),
        ..aside(THREE[1], 0)
    };
    let left = [empty, aside(THREE[2], 7)];
    assert_eq!(next_of_first(&state, &left, &[]), None, "they may have had more");
    mutations::plant(Some(Mutation::EmptyCounts));
    assert_eq!(next_of_first(&state, &left, &[]), begun_with(THREE[2]));
    mutations::plant(None);
    let mut started = state.clone();
    let begun = begun_with(THREE[1]).expect("a command");
    started.apply(&begun).expect("its majority is gone");
    // A copy that is kept until the group is whole is kept by the next start too.
    let claimed = vec![(data(0), 5)];
    boot_unclean(&mut started, 3, 303, &[203], &claimed);
    assert_eq!(started.groups()[&data(0)].former, [NodeId(3)]);
}

#[test]
fn a_majority_is_wanted_of_the_members_that_stand_in_a_log_too() {
    let state = ended();
    let (one, three) = (aside(THREE[0], 9), aside(THREE[2], 7));
    assert_eq!(
        next_of_first(&state, &[one.clone(), three.clone()], &[(2, 30)]),
        begun_with(THREE[0])
    );
    // The third voter was to be replaced, and both of those of whom nothing is heard may have had that done.
    let changed = RecoverySource {
        voters: [2, 4, 9].map(Incarnation).to_vec(),
        outgoing: [2, 4, 5].map(Incarnation).to_vec(),
        changed_at: Index(6),
        ..one
    };
    let said = [changed.clone(), three.clone()];
    assert_eq!(next_of_first(&state, &said, &[(2, 30)]), None);
    mutations::plant(Some(Mutation::LaterMembersPassedOver));
    assert_eq!(next_of_first(&state, &said, &[(2, 30)]), begun_with(THREE[0]));
    mutations::plant(None);
    let all = [changed.clone(), aside(THREE[1], 8), three.clone()];
    assert_eq!(
        next_of_first(&state, &all, &[]),
        begun_with(THREE[0]),
        "two of three in either half"
    );
    // What was reported is later than that.
    let mut before = changed;
    before.changed_at = Index(4);
    assert_eq!(
        next_of_first(&state, &[before, three], &[(2, 30)]),
        begun_with(THREE[0])
    );
}

#[test]
fn a_group_of_which_all_have_lost_their_power_begins_anew_in_the_same_way() {
    let mut state = three_voters();
    for voter in THREE {
        lose_power(&mut state, voter);
    }
    assert_eq!(state.groups()[&data(0)].former, [1, 2, 3].map(NodeId));
    assert_eq!(
        next_of_first(&state, &[], &[]),
        Some(end()),
        "nobody is left who could lead"
    );
    state.apply(&end()).expect("all came back as others");
    let said = [(THREE[0], 7), (THREE[1], 9), (THREE[2], 8)].map(|(voter, last)| aside(voter, last));
    assert_eq!(next_of_first(&state, &said[..2], &[]), None, "one has not spoken");
    assert_eq!(next_of_first(&state, &said, &[]), begun_with(THREE[1]));
}

#[test]
fn a_group_of_one_voter_that_lost_its_power_and_its_learners_after_it_begins_anew_in_the_same_way() {
    let (mut state, two, three) = about_to_grow();
    boot_unclean(&mut state, 1, 10, &[1], &[(data(0), 2)]);
    boot_unclean(&mut state, 2, 20, &[2], &[(data(0), two)]);
    boot_unclean(&mut state, 3, 30, &[3], &[(data(0), three)]);
    assert_eq!(next_of_first(&state, &[], &[]), Some(end()));
    state.apply(&end()).expect("its voter came back as another");
    let voters = |said| RecoverySource {
        voters: vec![Incarnation(2)],
        changed_at: Index(1),
        ..said
    };
    let said = [aside((2, 1), 7), aside((two, 2), 9), aside((three, 3), 8)].map(voters);
    assert_eq!(next_of_first(&state, &said, &[]), begun_with((two, 2)));
    assert_eq!(
        next_of_first(&state, &said[1..], &[(1, 30)]),
        None,
        "it may have more"
    );
}

/// The first group with these voters, and the other ones of [`THREE`] as learners.
fn with_voters(voters: &[u64]) -> State {
    let (mut state, ..) = about_to_grow();
    let members = THREE.map(|(incarnation, node)| {
        let role = match voters.contains(&incarnation) {
            true => MemberRole::Voter,
            false => MemberRole::Learner,
        };
        member(incarnation, node, role)
    });
    state
        .apply(&report(data(0), 6, members.to_vec()))
        .expect("they were learners");
    state
}

#[test]
fn a_generation_of_two_voters_ends_if_one_is_lost_and_a_learner_that_may_have_voted() {
    let mut state = with_voters(&[2, 4]);
    lose_power(&mut state, THREE[0]);
    // What is kept of the lost voter is asked for under its own name, as that of a learner is.
    let kept = |voters: &[u64]| RecoverySource {
        voters: voters.iter().copied().map(Incarnation).collect(),
        lost_voter: Some(Incarnation(2)),
        ..aside(THREE[0], 9)
    };
    let left = [recovery_source(4, 2, 10), recovery_source(5, 3, 7)];
    let said = [kept(&[2, 4]), left[0].clone(), left[1].clone()];
    assert_eq!(
        next_of_first(&state, &said, &[]),
        Some(end()),
        "one who is left may vote by what nobody has reported"
    );
    lose_power(&mut state, THREE[2]);
    assert_eq!(next_of_first(&state, &said[..1], &[]), None, "one has not spoken");
    assert_eq!(
        next_of_first(&state, &said[..1], &[(2, 30)]),
        None,
        "one that is out of reach may have what the other one lost"
    );
    assert_eq!(next_of_first(&state, &said[..2], &[]), Some(end()));
    state.apply(&end()).expect("it stands still");
    state.check().expect("a state that can be");
    let bound = |voters: &[u64]| {
        let voters: Vec<Incarnation> = voters.iter().copied().map(Incarnation).collect();
        let of = |who, last| RecoverySource {
            voters: voters.clone(),
            changed_at: Index(7),
            ..aside(who, last)
        };
        [of(THREE[0], 9), of(THREE[1], 10), of(THREE[2], 7)]
    };
    assert_eq!(next_of_first(&state, &bound(&[2, 4]), &[]), begun_with(THREE[1]));
    // Had the learner voted, and were its log and another one gone, what the two had may be nowhere.
    let mut voted = bound(&[2, 4, 5]);
    assert_eq!(next_of_first(&state, &voted, &[]), begun_with(THREE[1]));
    for source in [0, 2] {
        voted[source].is_whole = false;
    }
    assert_eq!(next_of_first(&state, &voted, &[]), None);
}

#[test]
fn a_generation_of_two_voters_does_not_end_if_one_came_back_with_nothing() {
    let mut state = with_voters(&[2, 4]);
    boot_unclean(&mut state, 1, 101, &[1], &[]);
    lose_power(&mut state, THREE[2]);
    let said = [recovery_source(4, 2, 10)];
    assert_eq!(next_of_first(&state, &said, &[]), None);
    assert_eq!(state.apply(&end()), Err(MetaRefusal::NotNeeded));
}

#[test]
fn who_voted_in_a_generation_before_the_one_that_is_over_is_not_in_question() {
    let mut state = ended();
    let begun = begun_with(THREE[0]).expect("a command");
    let Ok(MetaOutcome::Replica(replica)) = state.apply(&begun) else {
        panic!("its majority is gone")
    };
    let only = (replica.incarnation.0, 1);
    let add = MetaCommand::AddReplica {
        group: data(0),
        node: NodeId(2),
    };
    let Ok(MetaOutcome::Replica(added)) = state.apply(&add) else {
        panic!("it is a target")
    };
    let learner = (added.incarnation.0, 2);
    let reported = Report {
        group: data(0),
        generation: 2,
        term: 2,
        index: 4,
        members: vec![
            member(only.0, 1, MemberRole::Voter),
            member(learner.0, 2, MemberRole::Learner),
        ],
        leader: NodeId(1),
    };
    let reports = vec![reported];
    state.apply(&MetaCommand::Report { reports }).expect("it leads");
    boot_unclean(&mut state, 1, 201, &[101], &[(data(0), only.0)]);
    let end = MetaCommand::End {
        group: data(0),
        generation: 2,
    };
    state.apply(&end).expect("its only voter came back as another");
    let of_last = |who, last| RecoverySource {
        generation: 2,
        voters: vec![replica.incarnation],
        changed_at: Index(4),
        ..aside(who, last)
    };
    // All that is left of the three that voted before is damaged, and they voted from a later place on.
    let mut before = aside(THREE[2], 7);
    before.is_whole = false;
    let said = [of_last(only, 6), of_last(learner, 5), before];
    assert_eq!(next_of_first(&state, &said, &[]), begun_with(only));
}

#[test]
fn a_generation_is_not_over_if_a_majority_of_its_disks_is_empty() {
    for (unclean, ends) in [(2, true), (1, false)] {
        let mut state = three_voters();
        for (at, (incarnation, node)) in THREE.into_iter().enumerate() {
            let kept: &[(GroupRef, u64)] = match at < unclean {
                true => &[(data(0), incarnation)],
                false => &[],
            };
            let token = 100 + u128::from(node);
            boot_unclean(&mut state, node, token, &[u128::from(node)], kept);
        }
        let next = next_of_first(&state, &[], &[]);
        assert_eq!(next.is_some(), ends, "{unclean} of three");
        assert_eq!(state.apply(&end()).is_ok(), ends);
    }
}

#[test]
fn an_unclean_learner_is_lost() {
    let (mut state, two, _) = about_to_grow();
    let replicas = boot_unclean(&mut state, 2, 10, &[2], &[(data(0), two)]);
    let group = &state.groups()[&data(0)];
    assert_eq!((group.generation, &group.lost), (0, &vec![Incarnation(two)]));
    let expected = group.expected_on(NodeId(2)).expect("it is a target").incarnation;
    assert_eq!(of_first(&replicas), [(0, expected.0, Beginning::Learner)]);
}

#[test]
fn an_unclean_voter_among_others_is_lost() {
    let mut state = three_voters();
    let members = state.groups()[&data(0)].members.clone();
    let own = members.iter().find(|member| member.node == NodeId(2));
    let own = own.expect("three vote").incarnation;
    boot_unclean(&mut state, 2, 10, &[2], &[(data(0), own.0)]);
    let group = &state.groups()[&data(0)];
    assert_eq!((group.generation, &group.lost), (0, &vec![own]));
    assert_eq!(group.members, members);
}

#[test]
fn an_unclean_voter_goes_on_beside_lost_learners_only_if_nobody_else_has_anything() {
    let (mut state, two, three) = about_to_grow();
    boot(&mut state, 2, 20, Vec::new());
    // The one that is lost may have voted, and the other one may know more than the voter.
    let mut asked = state.clone();
    boot_unclean(&mut asked, 1, 10, &[1], &[(data(0), 2)]);
    let group = &asked.groups()[&data(0)];
    assert_eq!(group.generation, 0);
    assert_eq!(group.lost, [2, two].map(Incarnation));

    boot_unclean(&mut state, 3, 30, &[3], &[(data(0), three)]);
    let replicas = boot_unclean(&mut state, 1, 10, &[1], &[(data(0), 2)]);
    let [(generation, _, beginning)] = of_first(&replicas)[..] else {
        panic!("{replicas:?}")
    };
    assert_eq!((generation, beginning), (1, recovered(2)));
}

#[test]
fn how_durable_writes_are_is_decided_when_the_cluster_is_made() {
    for durability in DurabilityMode::ALL {
        let mut command = create(2);
        let MetaCommand::Create { durability: mode, .. } = &mut command else {
            panic!()
        };
        *mode = durability;
        let mut state = State::default();
        assert_eq!(
            state.durability(),
            DurabilityMode::Memory,
            "before there is a cluster"
        );
        state.apply(&command).expect("there is no cluster yet");
        join(&mut state, 2);
        assert_eq!(state.durability(), durability);
        assert_eq!(State::restore(&state.snapshot()), Ok(state.clone()));
        let map = RoutingMap::of(&state);
        assert_eq!(map.durability, durability);
        assert_eq!(RoutingMap::decode(&map.encode()), Ok(map));
    }
}

#[test]
fn newer_rules_come_when_every_node_can_follow_them() {
    let mut state = created();
    assert_eq!(state.semantics_possible(), SemanticsVersion(3));
    let raise = |to| MetaCommand::RaiseSemantics {
        to: SemanticsVersion(to),
    };
    assert_eq!(state.apply(&raise(4)), Err(MetaRefusal::Semantics));
    let mut old = announcement();
    old.semantics_max = SemanticsVersion(2);
    state
        .apply(&MetaCommand::Join {
            token: Token(2),
            announcement: old.clone(),
        })
        .unwrap();
    assert_eq!(state.apply(&raise(3)), Err(MetaRefusal::Semantics));
    state.apply(&MetaCommand::Remove { node: NodeId(2) }).unwrap();
    state.apply(&raise(3)).unwrap();
    assert_eq!(state.apply(&raise(2)), Err(MetaRefusal::Semantics), "never back");
    let late = MetaCommand::Join {
        token: Token(3),
        announcement: old,
    };
    assert_eq!(state.apply(&late), Err(MetaRefusal::Semantics));
}

#[test]
fn newer_rules_come_by_themselves_when_nobody_has_gone_back_for_some_time() {
    let mut state = created();
    let pace = Pace::default();
    let is_raised = |state: &State, raisable_for| {
        let observations = Observations {
            raisable_for,
            ..Observations::default()
        };
        let to = SemanticsVersion(3);
        steps(state, &observations, &pace)
            .contains(&ReconcileStep::Propose(MetaCommand::RaiseSemantics { to }))
    };
    assert!(!is_raised(&state, None), "it was not seen yet");
    assert!(!is_raised(
        &state,
        Some(pace.raise_after - Duration::from_secs(1))
    ));
    assert!(is_raised(&state, Some(pace.raise_after)));
    let to = SemanticsVersion(3);
    state.apply(&MetaCommand::RaiseSemantics { to }).unwrap();
    assert!(!is_raised(&state, Some(pace.raise_after)), "they are in force");
}

#[test]
fn a_fenced_boot_is_dead_and_its_node_needs_another() {
    let mut state = created();
    let node = join(&mut state, 2);
    let boot_number = state.nodes()[&node].boot;
    state.apply(&MetaCommand::Fence { boot: boot_number }).unwrap();
    assert!(state.is_dead(boot_number));
    let again = MetaCommand::Join {
        token: Token(2),
        announcement: announcement(),
    };
    assert_eq!(state.apply(&again), Err(MetaRefusal::Exists));
    let (next, _) = boot(&mut state, node.0, 3, Vec::new());
    assert!(state.is_alive(next) && state.is_dead(boot_number));
    assert_eq!(
        state.apply(&MetaCommand::Fence { boot: Boot(99) }),
        Err(MetaRefusal::Unknown)
    );
}

#[test]
fn settings_have_versions_and_bounds() {
    let mut state = created();
    let set = |name: &str, value: &str| MetaCommand::Set {
        name: name.into(),
        value: value.into(),
    };
    state.apply(&set("maxmemory", "1gb")).unwrap();
    state.apply(&set("timeout", "5")).unwrap();
    state.apply(&set("maxmemory", "2gb")).unwrap();
    assert_eq!(
        (
            state.settings()["maxmemory"].version,
            state.settings()["timeout"].version
        ),
        (3, 2)
    );
    let long = "x".repeat(VALUE_BYTES_MAX + 1);
    assert_eq!(state.apply(&set("timeout", &long)), Err(MetaRefusal::Malformed));
    for number in 2..SETTINGS_MAX {
        state.apply(&set(&format!("option-{number}"), "")).unwrap();
    }
    assert_eq!(state.apply(&set("one-more", "")), Err(MetaRefusal::Full));
    state.apply(&set("timeout", "6")).unwrap();
    state.check().unwrap();
}

#[test]
fn durability_is_set_in_the_map_and_is_no_setting() {
    let mut state = created();
    let set = |value: &str| MetaCommand::Set {
        name: DURABILITY.into(),
        value: value.into(),
    };
    let epoch = state.epoch();
    let is_set = |outcome| matches!(outcome, Ok(MetaOutcome::Set { .. }));
    assert!(is_set(state.apply(&set("strict"))));
    assert_eq!(state.durability(), DurabilityMode::Strict);
    assert_eq!(RoutingMap::of(&state).durability, DurabilityMode::Strict);
    let after = state.epoch();
    assert!(after > epoch && state.settings().is_empty());
    assert!(is_set(state.apply(&set("strict"))));
    assert_eq!(state.epoch(), after, "nothing is another one");
    assert_eq!(state.apply(&set("always")), Err(MetaRefusal::Malformed));
    state.check().unwrap();
}

#[test]
fn there_are_no_more_nodes_than_can_be() {
    let mut state = created();
    for token in 2..=NODES_MAX as u128 {
        join(&mut state, token);
    }
    let command = MetaCommand::Join {
        token: Token(0),
        announcement: announcement(),
    };
    assert_eq!(state.apply(&command), Err(MetaRefusal::Full));
    assert_eq!(State::restore(&state.snapshot()), Ok(state));
}

#[test]
fn the_last_node_neither_leaves_nor_is_removed() {
    let mut state = created();
    let leave = |node| MetaCommand::SetGoal {
        nodes: vec![NodeId(node)],
        goal: NodeGoal::Leaves,
    };
    assert_eq!(state.apply(&leave(1)), Err(MetaRefusal::TooFew));
    assert_eq!(
        state.apply(&MetaCommand::Remove { node: NodeId(1) }),
        Err(MetaRefusal::Last)
    );
    join(&mut state, 2);
    state.apply(&leave(1)).unwrap();
    assert_eq!(state.apply(&leave(2)), Err(MetaRefusal::TooFew));
    assert_eq!(
        state.apply(&MetaCommand::Remove { node: NodeId(1) }),
        Err(MetaRefusal::InUse)
    );
}

#[test]
fn a_snapshot_of_a_state_that_cannot_be_is_refused() {
    let mut state = created();
    join(&mut state, 2);
    let bytes = state.snapshot();
    assert_eq!(
        State::restore(&bytes).map(|other| other.state_hash()),
        Ok(state.state_hash())
    );
    let mut refused = 0;
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            match State::restore(&damaged) {
                Ok(other) => assert_eq!(other.snapshot(), damaged, "a state has one encoding"),
                Err(_) => refused += 1,
            }
        }
        assert!(State::restore(&bytes[..at]).is_err());
    }
    assert!(refused > bytes.len());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_command_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200), tag in 1u8..15) {
        let bytes = [&[1, tag], bytes.as_slice()].concat();
        if let Ok(command) = MetaCommand::decode(&bytes) {
            prop_assert_eq!(command.encode(), bytes);
        }
    }
}

//! What an operator alone can say: that a group needs no longer what a node keeps of it, and that nodes are replaced together.

use control::{
    Announcement, Factor, GroupMember, GroupRef, MemberRole, MetaCommand, MetaOutcome, MetaRefusal, NodeGoal,
    Observations, Pace, ReconcileStep, Report, RoutingMap, State, Target, steps,
};
use ids::{
    Boot, ClusterId, DurabilityMode, GroupCount, GroupId, Groups, Incarnation, NodeId, SemanticsVersion,
    Token,
};
use std::time::Duration;

fn name() -> GroupRef {
    GroupRef::Data(GroupId::new(0))
}

fn announcement(number: u64) -> Announcement {
    Announcement {
        client: format!("a:{number}"),
        cluster: format!("b:{number}"),
        peer: format!("c:{number}"),
        zone: if number < 4 { "room-1" } else { "room-2" }.to_owned(),
        name: String::new(),
        weight_percent: control::WEIGHT_PERCENT,
        semantics_min: SemanticsVersion(1),
        semantics_max: SemanticsVersion::CURRENT,
    }
}

/// A cluster of so many nodes, and of one group.
fn cluster(nodes: u64, factor: Factor, semantics: SemanticsVersion) -> State {
    let mut state = State::default();
    let create = MetaCommand::Create {
        cluster: ClusterId(9),
        token: Token(1),
        groups: Groups::with_default_partitions(GroupCount::new(1).expect("a valid count")),
        factor,
        durability: DurabilityMode::Memory,
        semantics,
        announcement: announcement(1),
    };
    state.apply(&create).expect("there is no cluster yet");
    for number in 2..=nodes {
        let join = MetaCommand::Join {
            token: Token(number.into()),
            announcement: announcement(number),
        };
        state.apply(&join).expect("it may join");
    }
    state
}

fn boot_of(state: &State, node: u64) -> Boot {
    state.nodes()[&NodeId(node)].boot
}

fn place(state: &mut State, nodes: &[u64]) {
    let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
    let target = Target {
        group: name(),
        leader: Some(nodes[0]),
        nodes,
    };
    let place = MetaCommand::Place {
        members: Vec::new(),
        factor: 1,
        targets: vec![target],
    };
    state.apply(&place).expect("these are nodes");
}

fn add(state: &mut State, node: u64) -> GroupMember {
    let add = MetaCommand::AddReplica {
        group: name(),
        node: NodeId(node),
    };
    let Ok(MetaOutcome::Replica(replica)) = state.apply(&add) else {
        panic!("it is a target")
    };
    GroupMember {
        incarnation: replica.incarnation,
        node: NodeId(node),
        role: MemberRole::Learner,
    }
}

fn report(state: &mut State, generation: u64, index: u64, members: &[GroupMember]) {
    let report = Report {
        group: name(),
        generation,
        term: 1,
        index,
        members: members.to_vec(),
        leader: members[0].node,
    };
    let reports = vec![report];
    state
        .apply(&MetaCommand::Report { reports })
        .expect("these were given out");
}

fn forget(node: u64, generation: u64) -> MetaCommand {
    MetaCommand::Forget {
        group: name(),
        node: NodeId(node),
        generation,
    }
}

/// The node of the only voter came back with nothing, and the group has begun anew with what node 2 has of it, and under whose name; node 3
/// keeps what it has. It is to be on the first two.
fn begun_anew() -> (State, GroupMember) {
    let mut state = cluster(3, Factor::One, SemanticsVersion::CURRENT);
    place(&mut state, &[1, 2, 3]);
    let first = state.groups()[&name()].members[0];
    let (two, three) = (add(&mut state, 2), add(&mut state, 3));
    report(&mut state, 0, 2, &[first, two, three]);
    let boot = MetaCommand::Boot {
        node: NodeId(1),
        token: Token(20),
        announcement: announcement(1),
        left_by: vec![Token(1)],
        kept: vec![(GroupRef::Meta, Incarnation(1))],
        unclean: Vec::new(),
    };
    state.apply(&boot).expect("it has what it had of the meta group");
    let recover = MetaCommand::Recover {
        group: name(),
        node: NodeId(2),
        recovery_source: Some(two.incarnation),
    };
    state.apply(&recover).expect("its majority is gone");
    place(&mut state, &[2, 1]);
    let group = &state.groups()[&name()];
    assert_eq!((group.generation, &group.former[..]), (1, &[NodeId(3)][..]));
    let leading = group.members[0];
    (state, leading)
}

#[test]
fn what_a_node_keeps_is_forgotten_once_the_group_goes_on_without_it_and_only_then() {
    let (mut state, leading) = begun_anew();
    let refused = |state: &State, command: &MetaCommand| {
        let mut after = state.clone();
        let refusal = after.apply(command).expect_err("it is refused");
        assert_eq!(&after, state, "what is refused changes nothing");
        refusal
    };
    assert_eq!(
        refused(&state, &forget(3, 1)),
        MetaRefusal::AtRisk,
        "no leader has reported: the chosen one may not have begun"
    );
    report(&mut state, 1, 2, &[leading]);
    assert_eq!(refused(&state, &forget(2, 1)), MetaRefusal::InUse, "it votes");
    assert_eq!(
        refused(&state, &forget(1, 1)),
        MetaRefusal::NotNeeded,
        "it keeps nothing"
    );
    assert_eq!(
        refused(&state, &forget(3, 0)),
        MetaRefusal::Unknown,
        "the generation that was seen is over"
    );
    let of_meta = MetaCommand::Forget {
        group: GroupRef::Meta,
        node: NodeId(3),
        generation: 0,
    };
    assert_eq!(refused(&state, &of_meta), MetaRefusal::Unknown);

    // The only voter is gone: what node 3 keeps is all there is.
    let mut gone = state.clone();
    let boot = boot_of(&gone, 2);
    gone.apply(&MetaCommand::Gone { boot })
        .expect("the meta group can do without it");
    assert_eq!(refused(&gone, &forget(3, 1)), MetaRefusal::AtRisk);

    // So it does not leave before, and does afterwards.
    let leave = MetaCommand::SetGoal {
        nodes: vec![NodeId(3)],
        goal: NodeGoal::Leaves,
    };
    state.apply(&leave).expect("two nodes are left");
    let dismiss = MetaCommand::Dismiss { node: NodeId(3) };
    assert_eq!(refused(&state, &dismiss), MetaRefusal::InUse);
    let epoch = state.epoch();
    assert_eq!(state.apply(&forget(3, 1)), Ok(MetaOutcome::Done));
    assert!(state.epoch() > epoch, "its node has to hear of it");
    state.check().expect("its invariants hold");
    let map = RoutingMap::of(&state);
    assert!(map.groups[0].former.is_empty());
    assert_eq!(refused(&state, &forget(3, 1)), MetaRefusal::NotNeeded, "again");
    assert_eq!(state.apply(&dismiss), Ok(MetaOutcome::Done));
}

#[test]
fn a_replica_that_is_filled_where_something_is_kept_goes_on_without_that() {
    let (mut state, leading) = begun_anew();
    place(&mut state, &[2, 1, 3]);
    let learner = add(&mut state, 3);
    report(&mut state, 1, 2, &[leading, learner]);
    assert_eq!(state.groups()[&name()].former, [NodeId(3)]);
    assert_eq!(state.apply(&forget(3, 1)), Ok(MetaOutcome::Done));
    assert_eq!(state.groups()[&name()].members, [leading, learner]);
    state.check().expect("its invariants hold");
}

#[test]
fn nodes_are_replaced_together_or_none_of_them_is() {
    let mut state = cluster(7, Factor::Three, SemanticsVersion::CURRENT);
    let together = |boots: &[Boot]| MetaCommand::ReplaceTogether {
        boots: boots.to_vec(),
    };
    let boots = |nodes: &[u64]| -> Vec<Boot> { nodes.iter().map(|node| boot_of(&state, *node)).collect() };
    let two = boots(&[4, 5]);
    for (wrong, refusal) in [
        (Vec::new(), MetaRefusal::Malformed),
        (vec![two[0], two[0]], MetaRefusal::Malformed),
        (vec![two[0], Boot(99)], MetaRefusal::Unknown),
        (boots(&[2, 3, 4, 5, 6]), MetaRefusal::TooFew),
    ] {
        let mut after = state.clone();
        assert_eq!(after.apply(&together(&wrong)), Err(refusal), "{wrong:?}");
        assert_eq!(after, state, "what is refused changes nothing");
    }
    let nodes = [1, 2, 3, 6, 7].map(NodeId);
    let before = state.epoch();
    assert_eq!(state.apply(&together(&two)), Ok(MetaOutcome::Done));
    assert!(state.epoch() > before, "nodes have to hear of it");
    state.check().expect("its invariants hold");
    assert!(two.iter().all(|boot| state.is_dead(*boot)));
    // A zone with a single node left is silent, which is no outage any more: the others are placed.
    let heard = Observations {
        silence: nodes.map(|node| (node, Duration::ZERO)).into(),
        ..Observations::default()
    };
    let placed = steps(&state, &heard, &Pace::default());
    let placed = placed.into_iter().find_map(|step| match step {
        ReconcileStep::Propose(MetaCommand::Place { members, .. }) => Some(members),
        _ => None,
    });
    assert_eq!(placed, Some(nodes.to_vec()));
}

#[test]
fn operators_have_neither_before_every_build_knows_it() {
    let before = SemanticsVersion(SemanticsVersion::FORGET.0 - 1);
    let mut state = cluster(5, Factor::Three, before);
    let boots = vec![boot_of(&state, 4)];
    for command in [forget(3, 0), MetaCommand::ReplaceTogether { boots }] {
        assert_eq!(MetaCommand::decode(&command.encode()).as_ref(), Ok(&command));
        assert_eq!(state.apply(&command), Err(MetaRefusal::Semantics));
    }
}

//! A cluster that is there from the beginning: members, placement and configurations as the meta group would have made them had the nodes
//! joined one by one, made without a message by the same state and the same reconciler. It has grown as production would have it: groups were
//! added for nodes beyond the third, and partitions have moved to them.

use super::stub_group::StubGroup;
use control::{
    Announcement, Factor, GroupRef, MetaCommand, Observations, Pace, ReconcileStep, State, WEIGHT_PERCENT,
    steps,
};
use ids::{
    ClusterId, DurabilityMode, GroupCount, GroupId, Groups, NodeId, PartitionCount, PartitionId,
    SemanticsVersion, Token,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// Zones, which nodes join by turns.
pub(super) const ZONES: usize = 3;

/// Looks of the reconciler by which everything is in its place. Needed are a dozen, and as many as the partitions that each of the first
/// groups gives away one by one.
const LOOKS_MAX: usize = 2 * PartitionCount::MAX as usize;

/// See the file's header.
pub(super) struct Founded {
    pub(super) state: State,
    /// The groups of keys, in order.
    pub(super) groups: Vec<StubGroup>,
}

/// What the node of this number says of itself.
pub(super) fn announcement(number: usize) -> Announcement {
    let address = |port: u16| format!("node-{number}.chorale.svc:{port}");
    Announcement {
        client: address(6379),
        cluster: address(7379),
        peer: address(8379),
        zone: format!("zone-{}", number % ZONES),
        name: String::new(),
        weight_percent: WEIGHT_PERCENT,
        semantics_min: SemanticsVersion::OLDEST,
        semantics_max: SemanticsVersion::CURRENT,
    }
}

/// By which the node of this number joined, and by which it is started: it is the same start.
pub(super) fn token(number: usize) -> Token {
    Token(number as u128 + 1)
}

/// So many nodes; groups with three replicas each, of which there were so many at first.
pub(super) fn found(nodes: usize, groups: u16) -> Founded {
    let partitions = PartitionCount::new(PartitionCount::MAX).expect("it is the most");
    let count = GroupCount::new(groups).expect("the command line allows no more");
    let layout = Groups::new(count, partitions).expect("there is a partition for each group");
    let mut state = State::default();
    let create = MetaCommand::Create {
        cluster: ClusterId(1),
        token: token(0),
        groups: layout,
        factor: Factor::Auto,
        durability: DurabilityMode::Relaxed,
        semantics: SemanticsVersion::CURRENT,
        announcement: announcement(0),
    };
    state.apply(&create).expect("there is no cluster yet");
    for number in 1..nodes {
        let join = MetaCommand::Join {
            token: token(number),
            announcement: announcement(number),
        };
        state.apply(&join).expect("there is room");
    }
    let first = state.groups().iter();
    let mut stubs: BTreeMap<GroupRef, StubGroup> = first
        .map(|(&name, group)| (name, StubGroup::new(name, group.members[0])))
        .collect();
    for _ in 0..LOOKS_MAX {
        let next = steps(&state, &observe(&state, &stubs), &PACE);
        if next.is_empty() {
            break;
        }
        take(&mut state, &mut stubs, next);
    }
    assert_eq!(state.moves_left(), 0, "everything is in its place");
    stubs.remove(&GroupRef::Meta);
    Founded {
        state,
        groups: stubs.into_values().collect(),
    }
}

/// Nobody waits for anything.
const PACE: Pace = Pace {
    splits: true,
    learners_of_node_max: usize::MAX,
    light_learners_of_node_max: usize::MAX,
    transfers_max: usize::MAX,
    away_after: Duration::from_secs(2),
    miss_after: Duration::from_secs(30),
    replace_after: Duration::from_secs(600),
    raise_after: Duration::from_secs(600),
};

fn observe(state: &State, stubs: &BTreeMap<GroupRef, StubGroup>) -> Observations {
    let all = |time: Duration| {
        state
            .nodes()
            .keys()
            .map(move |&node| (node, time))
            .collect::<BTreeMap<NodeId, Duration>>()
    };
    Observations {
        silence: all(Duration::ZERO),
        up_for: all(Duration::from_secs(60)),
        groups: stubs
            .iter()
            .filter_map(|(&name, stub)| Some((name, stub.report()?.into())))
            .collect(),
        ..Observations::default()
    }
}

fn take(state: &mut State, stubs: &mut BTreeMap<GroupRef, StubGroup>, steps: Vec<ReconcileStep>) {
    for step in steps {
        match step {
            ReconcileStep::Propose(command) => {
                drop(state.apply(&command));
                match command {
                    MetaCommand::AddGroups { .. } => {
                        let added = state.groups().iter().skip(stubs.len());
                        stubs.extend(
                            added.map(|(&name, group)| (name, StubGroup::new(name, group.members[0]))),
                        );
                    }
                    MetaCommand::WantPartitions { wishes } => move_at_once(state, stubs, &wishes),
                    _ => {}
                }
            }
            ReconcileStep::Order {
                group,
                generation,
                index,
                order,
            } => {
                let stub = stubs.get_mut(&group).expect("there are all groups");
                stub.obey((generation, index), &order);
                // Whoever was taken in is filled at once.
                stub.filled
                    .extend(stub.members.iter().map(|member| member.incarnation));
            }
        }
    }
}

fn move_at_once(state: &State, stubs: &mut BTreeMap<GroupRef, StubGroup>, wishes: &[(PartitionId, GroupId)]) {
    let hosts = state.key_groups().expect("there is a cluster");
    for &(partition, to) in wishes {
        for (&name, stub) in &mut *stubs {
            stub.hosted.remove(&partition);
            if name == GroupRef::Data(to) {
                stub.hosted.insert(partition, hosts.moves_of(partition) + 1);
            }
        }
    }
}

//! What an operator orders: as he feels like it, and for groups that have lost their majority.

use super::{FullNode, machine_of};
use control::{DURABILITY, Factor, GroupRef, MetaCommand, NodeGoal, RecoverySource};
use ids::{Boot, GroupCount, GroupId, Incarnation, NodeId, PartitionId, Prng, SemanticsVersion};

/// What an operator tells a node.
#[derive(Clone)]
pub(crate) enum Order {
    /// A partition is to go to another group, if the node leads the first one, which hosts it.
    MovePartition(GroupId, PartitionId, GroupId),
    /// Leadership of a group is to go to this replica, if its members are still those of this place.
    Transfer(GroupId, u64, Incarnation),
    /// The connection of a worker to that of another machine is lost.
    Cut(usize, usize),
    /// The process is to stop.
    Stop,
    /// The meta group is to carry this out.
    Propose(Box<MetaCommand>),
    /// Values are to be kept as fragments, or not.
    Coding(CodingOrder),
}

/// Whether values are to be kept as fragments. It is set at each node, and comes to each at another time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CodingOrder {
    pub(crate) is_on: bool,
    /// Of two the higher one is later, whichever comes first.
    pub(crate) number: u64,
}

impl Order {
    /// The nodes that are to leave by it.
    pub(crate) fn leaving(&self) -> Vec<NodeId> {
        match self {
            Order::Propose(command) => match &**command {
                MetaCommand::SetGoal {
                    nodes,
                    goal: NodeGoal::Leaves,
                } => nodes.clone(),
                _ => Vec::new(),
            },
            Order::Transfer(..)
            | Order::MovePartition(..)
            | Order::Cut(..)
            | Order::Stop
            | Order::Coding(_) => Vec::new(),
        }
    }

    /// The starts of nodes that are to be replaced by it.
    pub(crate) fn replaced(&self) -> Vec<Boot> {
        match self {
            Order::Propose(command) => match &**command {
                MetaCommand::Replace { boot, .. } => vec![*boot],
                MetaCommand::ReplaceTogether { boots } => boots.clone(),
                _ => Vec::new(),
            },
            Order::Transfer(..)
            | Order::MovePartition(..)
            | Order::Cut(..)
            | Order::Stop
            | Order::Coding(_) => Vec::new(),
        }
    }
}

/// What an operator feels like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whim {
    /// Leadership of some group is to change hands.
    Transfer,
    /// Some replica is to move to another node.
    Move,
    /// Some nodes are to be emptied, may leave, or may stay after all; or nothing is to move but what repairs, or all may again.
    Drain,
    /// Some node that is away, or seems to be, is not to be waited for.
    Replace,
    /// Everything is to be placed anew.
    Rebalance,
    /// Groups are to have another number of replicas.
    Resize,
    /// There are to be more groups.
    Grow,
    /// Some node is to be lent permission to stop.
    MayStop,
    /// Some partition is to go to another group.
    PartitionMove,
    /// Some node need not keep what it held of a group.
    Forget,
    /// The nodes that are away, of a zone or of all, are not to be waited for.
    ReplaceZone,
    /// Some connection between two nodes is to be lost.
    Cut,
    /// What is acknowledged is to be kept in another way.
    Durability,
}

impl FullNode {
    /// What an operator who feels like it orders, and which node.
    pub(crate) fn orders(running: &[Option<&FullNode>], whim: Whim, prng: &mut Prng) -> Vec<(NodeId, Order)> {
        let all: Vec<&FullNode> = running.iter().flatten().copied().collect();
        match whim {
            Whim::Transfer => transfer(&all, prng).into_iter().collect(),
            Whim::Cut => {
                let machines = running.len() as u64;
                let [one, other] = [(); 2].map(|()| prng.below(machines));
                let number =
                    prng.below(all.iter().map(|node| node.workers as u64).max().unwrap_or(1)) as usize;
                vec![(NodeId(one), Order::Cut(number, other as usize))]
            }
            Whim::Move => give_up(&all, prng).into_iter().collect(),
            Whim::Drain => drain(&all, prng).into_iter().collect(),
            Whim::Replace => replace(&all, prng).into_iter().collect(),
            Whim::Rebalance => {
                let asked = all.get(prng.below(all.len().max(1) as u64) as usize);
                let order = |node: &&FullNode| (NodeId(node.machine as u64), propose(MetaCommand::Rebalance));
                asked.map(order).into_iter().collect()
            }
            Whim::Resize => resize(&all, prng).into_iter().collect(),
            Whim::Grow => grow(&all, prng).into_iter().collect(),
            Whim::MayStop => may_stop(&all, prng).into_iter().collect(),
            Whim::PartitionMove => move_partition(&all, prng).into_iter().collect(),
            Whim::Forget => forget(&all, prng).into_iter().collect(),
            Whim::ReplaceZone => replace_together(&all, prng).into_iter().collect(),
            Whim::Durability => durability(&all, prng).into_iter().collect(),
        }
    }

    /// What an operator orders for groups that have lost the memory of most of their voters, as `chorale admin recover` plans it.
    pub(crate) fn recoveries(running: &[Option<&FullNode>]) -> Vec<(NodeId, Order)> {
        let all = || running.iter().flatten();
        let Some(leader) = all().find(|node| node.meta.leads() && node.is_serving()) else {
            return Vec::new();
        };
        let recovery_sources: Vec<RecoverySource> = all()
            .filter(|node| node.is_serving())
            .flat_map(|node| node.recovery_sources.values().flatten().cloned())
            .collect();
        let groups = leader.meta.state().into_iter().flat_map(|state| state.groups());
        let recover = |(name, group): (&GroupRef, &control::Group)| {
            let GroupRef::Data(number) = *name else {
                return None;
            };
            if group.has_majority() {
                return None;
            }
            let told = || {
                recovery_sources
                    .iter()
                    .filter(|recovery_source| recovery_source.group == number)
            };
            let has_told = |voter: &control::GroupMember| {
                told().any(|recovery_source| recovery_source.incarnation == voter.incarnation)
                    || group.is_lost(voter.incarnation)
            };
            if !group.voters().all(has_told) {
                return None;
            }
            let best = told()
                .filter(|recovery_source| {
                    let member = group
                        .member_on(recovery_source.node)
                        .map(|member| member.incarnation);
                    let is_unclean = recovery_source.generation == group.generation
                        && group.is_lost(recovery_source.incarnation);
                    let is_former = (recovery_source.generation < group.generation || is_unclean)
                        && group.former.contains(&recovery_source.node);
                    recovery_source.last > consensus::Index(0)
                        && (member == Some(recovery_source.incarnation) || is_former)
                })
                .max_by_key(|recovery_source| {
                    (
                        recovery_source.generation,
                        recovery_source.term,
                        recovery_source.last,
                    )
                });
            let command = MetaCommand::Recover {
                group: *name,
                node: best.map_or(leader.serving()?.node, |best| best.node),
                recovery_source: best.map(|best| best.incarnation),
            };
            Some((NodeId(leader.machine as u64), propose(command)))
        };
        groups.filter_map(recover).collect()
    }
}

/// Leadership of some group is to change hands.
fn transfer(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let mut found = Vec::new();
    for node in all {
        for replica_view in node.replica_views() {
            if let Some(member) = replica_view.member().filter(|member| member.leads()) {
                found.push((node.machine, replica_view.group, member));
            }
        }
    }
    let &(machine, group, member) = found.get(prng.below(found.len().max(1) as u64) as usize)?;
    let voters = &member.members().voters;
    let to = voters[prng.below(voters.len() as u64) as usize];
    let order = Order::Transfer(group, member.members_at().0, to);
    Some((NodeId(machine as u64), order))
}

/// Some partition that has keys is to go to another group.
fn move_partition(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let mut found = Vec::new();
    for node in all {
        for view in node.replica_views() {
            if view.member().is_some_and(|member| member.leads()) {
                let used = view.partitions_in_use().into_iter();
                found.extend(used.map(|partition| (node.machine, view.group, partition)));
            }
        }
    }
    let &(machine, group, partition) = found.get(prng.below(found.len().max(1) as u64) as usize)?;
    let state = all.iter().find_map(|node| node.meta.state())?;
    if state.semantics() < SemanticsVersion::PARTITIONS_MOVE {
        return None;
    }
    let groups = state.groups().len() as u64 - 1;
    let to = GroupId::new(prng.below(groups) as u16);
    // As the meta group wishes it: one that was added and lacks replicas may never have a leader again.
    let is_alone = state.groups().get(&GroupRef::Data(to))?.voters().count() < 2;
    let founded = state.key_groups()?.founded();
    let may_go = to != group && (!is_alone || to.number() < founded.get());
    let order = Order::MovePartition(group, partition, to);
    may_go.then_some((NodeId(machine as u64), order))
}

/// Some node is to give up its replicas, or one that is to may keep them after all.
fn give_up(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let asked = all.get(prng.below(all.len().max(1) as u64) as usize)?;
    let nodes = all.iter().find_map(|node| node.meta.state())?.nodes();
    let leaving = nodes.iter().find(|(_, node)| node.goal.is_draining());
    let (node, goal) = match leaving {
        Some((&node, _)) => (node, NodeGoal::Stays),
        // Of three nodes two would be left with everything, and could not bear a death.
        None if nodes.len() <= 3 => return None,
        None => {
            let which = prng.below(nodes.len() as u64) as usize;
            (*nodes.keys().nth(which)?, NodeGoal::Drains)
        }
    };
    let nodes = vec![node];
    Some((
        NodeId(asked.machine as u64),
        propose(MetaCommand::SetGoal { nodes, goal }),
    ))
}

fn propose(command: MetaCommand) -> Order {
    Order::Propose(Box::new(command))
}

/// Goals that are set, set otherwise and taken back, of one node or two, and pauses. What cannot be is refused.
fn drain(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let asked = all.get(prng.below(all.len().max(1) as u64) as usize)?;
    let known = all.iter().find_map(|node| node.meta.state())?.nodes();
    let count = 1 + prng.below(2);
    let mut which = || {
        *known
            .keys()
            .nth(prng.below(known.len() as u64) as usize)
            .expect("there is one")
    };
    let mut nodes: Vec<NodeId> = (0..count).map(|_| which()).collect();
    nodes.dedup();
    let command = match prng.below(10) {
        0..4 => MetaCommand::SetGoal {
            nodes,
            goal: NodeGoal::Drains,
        },
        4 | 5 => MetaCommand::SetGoal {
            nodes,
            goal: NodeGoal::Leaves,
        },
        6 | 7 => MetaCommand::SetGoal {
            nodes,
            goal: NodeGoal::Stays,
        },
        8 => MetaCommand::Pause {
            seconds: (prng.below(2) == 0).then(|| 1 + prng.below(8)),
        },
        _ => MetaCommand::Resume { of: None },
    };
    Some((NodeId(asked.machine as u64), propose(command)))
}

/// A node is replaced, by one that is named or by any. One that is down, if there is one: who is there is refused.
fn replace(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let asked = all.get(prng.below(all.len().max(1) as u64) as usize)?;
    let known = all.iter().find_map(|node| node.meta.state())?.nodes();
    let is_down = |id: &&NodeId| {
        let machine = machine_of(&known[*id].announcement.peer);
        !all.iter().any(|node| Some(node.machine) == machine)
    };
    let down: Vec<NodeId> = known.keys().filter(is_down).copied().collect();
    let mut any = |of: &[NodeId]| of[prng.below(of.len() as u64) as usize];
    let every: Vec<NodeId> = known.keys().copied().collect();
    // One that was given up before it hears that it is a member is refused, and is to be started again: no operator is there to do it.
    let starts = |id: &&NodeId| all.iter().any(|node| node.is_starting_as(**id, known));
    let others: Vec<NodeId> = every.iter().filter(|id| !starts(id)).copied().collect();
    if others.is_empty() {
        return None;
    }
    let node = any(if down.is_empty() { &others } else { &down });
    let with = any(&every);
    let with = (prng.below(2) == 0).then_some(with);
    let boot = known[&node].boot;
    Some((
        NodeId(asked.machine as u64),
        propose(MetaCommand::Replace { boot, with }),
    ))
}

/// The nodes of a zone are replaced together, those that are away, as the command plans it; or any two, which is refused if one of them is there.
fn replace_together(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let asked = all.get(prng.below(all.len().max(1) as u64) as usize)?;
    let known = all.iter().find_map(|node| node.meta.state())?.nodes();
    let starts = |id: NodeId| all.iter().any(|node| node.is_starting_as(id, known));
    let is_there = |id: NodeId| {
        let machine = machine_of(&known[&id].announcement.peer);
        all.iter().any(|node| Some(node.machine) == machine)
    };
    let others: Vec<NodeId> = known.keys().copied().filter(|id| !starts(*id)).collect();
    let first = *others.get(prng.below(others.len().max(1) as u64) as usize)?;
    let zone = |id: NodeId| &known[&id].announcement.zone;
    let away = others
        .iter()
        .copied()
        .filter(|id| !is_there(*id) && zone(*id) == zone(first));
    let mut named: Vec<NodeId> = away.collect();
    if named.is_empty() {
        let second = others[prng.below(others.len() as u64) as usize];
        named = [first, second].into();
        named.dedup();
    }
    let boots = named.iter().map(|id| known[id].boot).collect();
    Some((
        NodeId(asked.machine as u64),
        propose(MetaCommand::ReplaceTogether { boots }),
    ))
}

/// Some node is told to forget what it keeps of a group that began anew, by the state that another one knows. What may be needed is refused.
fn forget(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let asked = all.get(prng.below(all.len().max(1) as u64) as usize)?;
    let state = all.iter().find_map(|node| node.meta.state())?;
    let kept = state.groups().iter().flat_map(|(&group, known)| {
        let nodes = known.former.iter();
        nodes.map(move |&node| (group, node, known.generation))
    });
    let kept: Vec<(GroupRef, NodeId, u64)> = kept.collect();
    let &(group, node, generation) = kept.get(prng.below(kept.len().max(1) as u64) as usize)?;
    let command = MetaCommand::Forget {
        group,
        node,
        generation,
    };
    Some((NodeId(asked.machine as u64), propose(command)))
}

impl FullNode {
    /// The rules that the cluster follows, as far as it knows its state.
    pub(crate) fn semantics(&self) -> Option<SemanticsVersion> {
        Some(self.meta.state()?.semantics())
    }

    /// Whether it is about to be a member, under this name, and has not heard of it.
    fn is_starting_as(&self, id: NodeId, known: &std::collections::BTreeMap<NodeId, control::Node>) -> bool {
        self.started.is_none() && machine_of(&known[&id].announcement.peer) == Some(self.machine)
    }
}

/// Some node is told how many replicas groups are to have: three at least, since of fewer no death is borne, and clients are promised
/// that one is.
fn resize(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let asked = all.get(prng.below(all.len().max(1) as u64) as usize)?;
    let factors = [
        Factor::Auto,
        Factor::Three,
        Factor::Four,
        Factor::Five,
        Factor::Six,
    ];
    let factor = factors[prng.below(factors.len() as u64) as usize];
    Some((
        NodeId(asked.machine as u64),
        propose(MetaCommand::SetFactor { factor }),
    ))
}

/// Some node is told that there are to be more groups, up to three times as many as at first: each costs what the others do.
fn grow(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let asked = all.get(prng.below(all.len().max(1) as u64) as usize)?;
    let groups = all.iter().find_map(|node| node.meta.state())?.key_groups()?;
    let wanted = groups.get() + 1 + prng.below(3) as u16;
    let count = GroupCount::new(wanted.min(3 * groups.founded().get()))?;
    Some((
        NodeId(asked.machine as u64),
        propose(MetaCommand::AddGroups { count }),
    ))
}

/// A node is asked whether one may stop, itself or another. One that may is told to stop, now and then.
fn may_stop(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let asked = all.get(prng.below(all.len().max(1) as u64) as usize)?;
    let state = all.iter().find_map(|node| node.meta.state())?;
    let lent = state.permits().values().map(|permit| permit.boot);
    let is_its = |node: &FullNode, boot: Boot| node.boot() == Some(boot) && node.is_serving();
    let mut lent = lent.filter_map(|boot| all.iter().find(|node| is_its(node, boot)));
    if let Some(node) = lent.next_back().filter(|_| prng.below(3) == 0) {
        return Some((NodeId(node.machine as u64), Order::Stop));
    }
    let named = state
        .nodes()
        .values()
        .nth(prng.below(state.nodes().len() as u64) as usize)?;
    let (boot, seconds) = (named.boot, 1 + prng.below(8));
    Some((
        NodeId(asked.machine as u64),
        propose(MetaCommand::PermitStop { boot, seconds }),
    ))
}

/// Some node is told which durability the cluster is to have.
fn durability(all: &[&FullNode], prng: &mut Prng) -> Option<(NodeId, Order)> {
    let node = all.get(prng.below(all.len().max(1) as u64) as usize)?;
    let mode = node.modes[prng.below(node.modes.len() as u64) as usize];
    let command = MetaCommand::Set {
        name: DURABILITY.to_owned(),
        value: mode.name().to_owned(),
    };
    Some((NodeId(node.machine as u64), propose(command)))
}

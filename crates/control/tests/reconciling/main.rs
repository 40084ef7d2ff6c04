//! The reconciler against a model of groups that carries out its steps, while nodes join, leave, crash and return.

#![allow(
    clippy::unwrap_used,
    reason = "the helpers of tests are tests, which clippy does not see"
)]

mod transcripts;

use control::{
    Announcement, AssignedReplica, Beginning, Factor, GroupMember, GroupRef, GroupReport, MemberRole,
    MetaCommand, MetaOutcome, MetaRefusal, NodeGoal, Observations, Order, PERMIT_SECONDS_MAX, Pace,
    RebalancePlan, ReconcileStep, Report, RoutingMap, State, is_at_risk, majority, steps,
};
use ids::{
    ClusterId, DurabilityMode, Epoch, GroupCount, Groups, Incarnation, NodeId, Prng, SemanticsVersion, Token,
};
use mutations::Mutation;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const PACE: Pace = Pace {
    splits: false,
    learners_of_node_max: 2,
    light_learners_of_node_max: 4,
    transfers_max: 4,
    away_after: Duration::from_secs(1),
    miss_after: Duration::from_secs(30),
    replace_after: Duration::from_secs(20),
    raise_after: Duration::ZERO,
};

/// Half of the groups hold little.
fn is_light(group: GroupRef) -> bool {
    match group {
        GroupRef::Meta => true,
        GroupRef::Data(group) => group.number().is_multiple_of(2),
    }
}

struct ModelNode {
    /// Turns since it went down.
    down: Option<u64>,
    /// Turns since it started last.
    up: u64,
    /// What it has in memory, and of the meta group on its disk.
    memory: BTreeSet<(GroupRef, Incarnation)>,
    /// Whether it hands its memory over to its next start.
    is_graceful: bool,
}

struct ModelGroup {
    generation: u64,
    term: u64,
    /// The last place in its log.
    last: u64,
    /// The place in its log of the last change of members.
    index: u64,
    /// The places behind which members were given the state: they count from there, until there is another change.
    filled_at: BTreeMap<Incarnation, u64>,
    members: Vec<GroupMember>,
    leader: Option<NodeId>,
    caught_up: BTreeSet<Incarnation>,
    /// Whether the last change is joint still: its end makes the members no others, and has a place of its own.
    is_joint: bool,
}

impl ModelGroup {
    /// Where the leader says that the members were changed.
    fn reported_index(&self) -> u64 {
        let leading = self
            .members
            .iter()
            .find(|member| Some(member.node) == self.leader);
        let filled_at = leading.and_then(|member| self.filled_at.get(&member.incarnation));
        filled_at.map_or(self.index, |filled_at| self.index.max(*filled_at))
    }

    fn change(&mut self) {
        self.last += 1;
        self.index = self.last;
    }
}

struct World {
    state: State,
    nodes: BTreeMap<NodeId, ModelNode>,
    groups: BTreeMap<GroupRef, ModelGroup>,
    prng: Prng,
    given_out: BTreeSet<Incarnation>,
    tokens: u128,
    /// Whether orders get lost, and groups are busy.
    is_troubled: bool,
    /// Turns since all is paused.
    paused: u64,
    /// By node that may stop, since which version of the map, and for how many turns.
    permitted: BTreeMap<NodeId, (Epoch, u64)>,
}

fn announcement(zone: &str, number: u128) -> Announcement {
    Announcement {
        client: "10.0.0.1:6379".into(),
        cluster: "10.0.0.1:7379".into(),
        peer: format!("10.0.0.{number}:8379"),
        zone: zone.into(),
        name: String::new(),
        weight_percent: control::WEIGHT_PERCENT,
        semantics_min: SemanticsVersion(1),
        semantics_max: SemanticsVersion(2),
    }
}

impl World {
    fn new(seed: u64, groups: u16, factor: Factor) -> World {
        let mut world = World {
            state: State::default(),
            nodes: BTreeMap::new(),
            groups: BTreeMap::new(),
            prng: Prng::new(seed),
            given_out: BTreeSet::new(),
            tokens: 0,
            is_troubled: true,
            paused: 0,
            permitted: BTreeMap::new(),
        };
        let command = MetaCommand::Create {
            cluster: ClusterId(7),
            token: world.token(),
            groups: Groups::with_default_partitions(GroupCount::new(groups).expect("few groups")),
            factor,
            durability: DurabilityMode::Memory,
            semantics: SemanticsVersion(1),
            announcement: announcement("", 1),
        };
        world.start(&command, false);
        world
    }

    fn token(&mut self) -> Token {
        self.tokens += 1;
        Token(self.tokens)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.prng.below(100) < percent
    }

    fn pick(&mut self, nodes: &[NodeId]) -> Option<NodeId> {
        match nodes.len() as u64 {
            0 => None,
            count => Some(nodes[self.prng.below(count) as usize]),
        }
    }

    /// What holds for every command.
    fn apply(&mut self, command: &MetaCommand) -> Result<MetaOutcome, MetaRefusal> {
        assert_eq!(MetaCommand::decode(&command.encode()).as_ref(), Ok(command));
        let map = |state: &State| {
            let mut map = RoutingMap::of(state);
            map.epoch = Epoch(0);
            map
        };
        let before = (map(&self.state), self.state.epoch(), self.state.state_hash());
        let result = self.state.apply(command);
        self.state
            .check()
            .expect("every command leaves a state that can be");
        let now = RoutingMap::of(&self.state);
        for (&name, group) in self.state.groups() {
            let route = now.route(name).expect("every group has one");
            let named = |member: &GroupMember| {
                let mut stops = route.replicas.iter().chain(&route.lost);
                stops.any(|stop| (stop.incarnation, stop.node) == (member.incarnation, member.node))
            };
            // Whoever leads has to name them in its reports.
            assert!(
                group.members.iter().all(named),
                "the map tells where every member is"
            );
        }
        let epoch = self.state.epoch();
        assert!(epoch >= before.1, "epochs grow");
        assert!(
            epoch > before.1 || map(&self.state) == before.0,
            "another map has another epoch"
        );
        if result.is_err() {
            assert_eq!(
                self.state.state_hash(),
                before.2,
                "what is refused changes nothing"
            );
        }
        if let Ok(MetaOutcome::Replica(replica)) = &result {
            let new = self.given_out.insert(replica.incarnation);
            let is_again = matches!(command, MetaCommand::AddReplica { .. }) && !new;
            assert!(new || is_again);
        }
        result
    }

    fn start(&mut self, command: &MetaCommand, is_boot: bool) -> NodeId {
        let Ok(MetaOutcome::Started { node, boot, replicas }) = self.apply(command) else {
            panic!("{command:?} starts a node")
        };
        assert!(self.state.is_alive(boot));
        let again = self.apply(command);
        assert_eq!(
            again,
            Ok(MetaOutcome::Started {
                node,
                boot,
                replicas: replicas.clone()
            }),
            "asked again"
        );
        let had = self.nodes.remove(&node).map(|node| node.memory);
        let had = had.unwrap_or_default();
        let mut memory = BTreeSet::new();
        for replica in replicas {
            memory.insert((replica.group, replica.incarnation));
            match replica.beginning {
                Beginning::Kept => assert!(had.contains(&(replica.group, replica.incarnation))),
                Beginning::Learner => self.is_new(replica),
                Beginning::BootstrapReplica => {
                    self.is_new(replica);
                    assert!(!is_boot, "no majority was lost");
                    self.found(node, replica);
                }
                Beginning::Recovered { .. } => panic!("nobody recovered anything"),
            }
        }
        let model = ModelNode {
            down: None,
            up: 0,
            memory,
            is_graceful: false,
        };
        self.nodes.insert(node, model);
        node
    }

    fn is_new(&mut self, replica: AssignedReplica) {
        assert!(
            self.given_out.insert(replica.incarnation),
            "{replica:?} is given out twice"
        );
    }

    fn found(&mut self, node: NodeId, replica: AssignedReplica) {
        let group = ModelGroup {
            generation: replica.generation,
            term: 1,
            last: 1,
            index: 1,
            filled_at: BTreeMap::new(),
            is_joint: false,
            members: vec![GroupMember {
                incarnation: replica.incarnation,
                node,
                role: MemberRole::Voter,
            }],
            leader: Some(node),
            caught_up: [replica.incarnation].into(),
        };
        self.groups.insert(replica.group, group);
    }

    fn join(&mut self) {
        let zone = ["", "a", "b", "c"][self.prng.below(4) as usize];
        self.join_in(zone);
    }

    fn join_in(&mut self, zone: &str) {
        let token = self.token();
        let announcement = announcement(zone, token.0);
        self.start(&MetaCommand::Join { token, announcement }, false);
    }

    /// One whose machine comes back without its directory.
    fn join_in_place_of(&mut self, node: NodeId) -> NodeId {
        let announcement = self.state.nodes()[&node].announcement.clone();
        self.nodes.get_mut(&node).expect("it is down").memory.clear();
        let token = self.token();
        self.start(&MetaCommand::Join { token, announcement }, false)
    }

    fn boot(&mut self, node: NodeId) {
        let announcement = self.state.nodes()[&node].announcement.clone();
        self.boot_as(node, announcement);
    }

    /// With its memory, if it ended in good order, and in another zone.
    fn restart_in(&mut self, node: NodeId, zone: &str) {
        self.go_down(node, true);
        let announcement = Announcement {
            zone: zone.into(),
            ..self.state.nodes()[&node].announcement.clone()
        };
        self.boot_as(node, announcement);
    }

    fn boot_as(&mut self, node: NodeId, announcement: Announcement) {
        let model = self.nodes.get_mut(&node).expect("it was down");
        let is_graceful = model.is_graceful;
        model
            .memory
            .retain(|(group, _)| is_graceful || *group == GroupRef::Meta);
        let kept = model.memory.iter().copied().collect();
        let command = MetaCommand::Boot {
            node,
            token: self.token(),
            announcement,
            left_by: vec![self.state.nodes()[&node].start],
            kept,
            unclean: Vec::new(),
        };
        self.start(&command, true);
    }

    fn is_live(&self, group: GroupRef, member: &GroupMember) -> bool {
        let node = self.nodes.get(&member.node);
        node.is_some_and(|node| node.down.is_none() && node.memory.contains(&(group, member.incarnation)))
    }

    fn has_majority(&self, name: GroupRef, members: &[GroupMember], without: Option<NodeId>) -> bool {
        let voters = || members.iter().filter(|member| member.role == MemberRole::Voter);
        let live = voters().filter(|voter| Some(voter.node) != without && self.is_live(name, voter));
        live.count() >= majority(voters().count())
    }

    /// A node goes down, unless some group would lose its majority.
    fn crash(&mut self, node: NodeId) {
        let is_graceful = self.chance(30);
        self.go_down(node, is_graceful);
    }

    /// The same, with or without handing its memory over.
    fn go_down(&mut self, node: NodeId, is_graceful: bool) {
        let is_borne = self
            .groups
            .iter()
            .all(|(&name, group)| self.has_majority(name, &group.members, Some(node)));
        let model = self.nodes.get_mut(&node).expect("it is one of them");
        if is_borne && model.down.is_none() {
            model.down = Some(0);
            model.is_graceful = is_graceful;
            if !is_graceful {
                model.memory.retain(|(group, _)| *group == GroupRef::Meta);
            }
        }
    }

    fn trouble(&mut self) {
        let all: Vec<NodeId> = self.nodes.keys().copied().collect();
        let has_left = |world: &World, id: &NodeId| world.state.nodes()[id].goal == NodeGoal::Left;
        let is_down = |world: &World, id: &NodeId| world.nodes[id].down.is_some();
        let all: Vec<NodeId> = all.into_iter().filter(|id| !has_left(self, id)).collect();
        let (down, up): (Vec<NodeId>, Vec<NodeId>) = all.iter().partition(|id| is_down(self, id));
        match self.prng.below(40) {
            0 | 1 if all.len() < 9 => self.join(),
            2..6 => {
                if let Some(node) = self.pick(&up) {
                    self.crash(node);
                }
            }
            6..9 => {
                if let Some(node) = self.pick(&down) {
                    self.boot(node);
                }
            }
            9 => {
                let goals = [NodeGoal::Stays, NodeGoal::Drains, NodeGoal::Leaves];
                let goal = goals[self.prng.below(3) as usize];
                let count = 1 + self.prng.below(2);
                let nodes: BTreeSet<NodeId> = (0..count).filter_map(|_| self.pick(&all)).collect();
                let nodes = nodes.into_iter().collect();
                let _ = self.apply(&MetaCommand::SetGoal { nodes, goal });
            }
            10 if self.chance(20) => {
                let factor = Factor::ALL[self.prng.below(6) as usize];
                // More than there are nodes is refused, and what no zone could be lost with.
                let _ = self.apply(&MetaCommand::SetFactor { factor });
            }
            11 | 12 => {
                if let Some(node) = self.pick(&all)
                    && self.state.nodes()[&node].goal.is_draining()
                    && self.apply(&MetaCommand::Remove { node }).is_ok()
                {
                    self.nodes.remove(&node);
                }
            }
            13 => {
                let command = match self.prng.below(3) {
                    0 => MetaCommand::Pause { seconds: Some(10) },
                    1 => MetaCommand::Pause { seconds: None },
                    _ => MetaCommand::Resume { of: None },
                };
                self.apply(&command).expect("that can always be");
            }
            14 => {
                if let (Some(node), Some(with)) = (self.pick(&down), self.pick(&up)) {
                    let boot = self.state.nodes()[&node].boot;
                    let with = self.chance(50).then_some(with);
                    let _ = self.apply(&MetaCommand::Replace { boot, with });
                }
            }
            15 => {
                if let Some(node) = self.pick(&down) {
                    let zone = ["", "a", "b", "c"][self.prng.below(4) as usize];
                    let announcement = Announcement {
                        zone: zone.into(),
                        ..self.state.nodes()[&node].announcement.clone()
                    };
                    self.boot_as(node, announcement);
                }
            }
            16 => self.rebalance(),
            17..20 => {
                if let Some(node) = self.pick(&up) {
                    let _ = self.may_stop(node, 10);
                }
            }
            _ => {}
        }
    }

    fn rebalance(&mut self) {
        let ordered = self.apply(&MetaCommand::Rebalance);
        assert!(
            self.state
                .rebalance()
                .is_some_and(|rebalance| !rebalance.is_placed)
        );
        let version = self.state.epoch().0;
        assert_eq!(ordered, Ok(MetaOutcome::Set { version }));
    }

    /// As whoever leads the meta group has it.
    fn may_stop(&mut self, node: NodeId, seconds: u64) -> Result<(), MetaRefusal> {
        let observations = self.observations();
        if is_at_risk(&self.state, &observations, &PACE, node) {
            return Err(MetaRefusal::AtRisk);
        }
        let boot = self.state.nodes()[&node].boot;
        let lent = self.apply(&MetaCommand::PermitStop { boot, seconds })?;
        let version = self.state.epoch().0;
        assert_eq!(lent, MetaOutcome::Set { version });
        for (&name, group) in &self.groups {
            let is_its = group.members.iter().any(|member| member.node == node);
            assert!(
                !is_its || self.has_majority(name, &group.members, Some(node)),
                "{name:?} needs {node:?}: {:?}",
                group.members
            );
        }
        Ok(())
    }

    fn resize(&mut self, factor: Factor) -> Result<(), MetaRefusal> {
        let set = self.apply(&MetaCommand::SetFactor { factor })?;
        let version = self.state.epoch().0;
        assert_eq!(set, MetaOutcome::Set { version });
        Ok(())
    }

    /// What groups do by themselves.
    fn live_on(&mut self) {
        self.paused = match self.state.pause() {
            Some(_) => self.paused + 1,
            None => 0,
        };
        for node in self.nodes.values_mut() {
            node.down = node.down.map(|turns| turns + 1);
            node.up += 1;
        }
        let before = std::mem::take(&mut self.permitted);
        for (&node, permit) in self.state.permits() {
            let turns = before.get(&node).filter(|(since, _)| *since == permit.since);
            let turns = turns.map_or(0, |(_, turns)| turns + 1);
            self.permitted.insert(node, (permit.since, turns));
        }
        let names: Vec<GroupRef> = self.groups.keys().copied().collect();
        for name in names {
            let group = &self.groups[&name];
            assert!(
                self.has_majority(name, &group.members, None),
                "{name:?} is without a majority: {:?}",
                group.members
            );
            let members = group.members.clone();
            let live: Vec<GroupMember> = members
                .iter()
                .copied()
                .filter(|member| self.is_live(name, member))
                .collect();
            let voters: Vec<NodeId> = live
                .iter()
                .filter(|member| member.role == MemberRole::Voter)
                .map(|member| member.node)
                .collect();
            let leads = group.leader.is_some_and(|leader| voters.contains(&leader));
            let next = if leads { None } else { self.pick(&voters) };
            let filled: Vec<Incarnation> = live
                .iter()
                .filter(|member| member.role == MemberRole::Voter || self.prng.below(2) == 0)
                .map(|member| member.incarnation)
                .collect();
            let entries = self.prng.below(20);
            let group = self.groups.get_mut(&name).expect("it is one of them");
            group.last += entries;
            if let Some(next) = next {
                group.term += 1;
                group.leader = Some(next);
            }
            group
                .caught_up
                .retain(|incarnation| live.iter().any(|member| member.incarnation == *incarnation));
            for member in filled {
                if group.caught_up.insert(member) {
                    group.filled_at.insert(member, group.last);
                }
            }
        }
    }

    fn observations(&mut self) -> Observations {
        let silence = self
            .nodes
            .iter()
            .map(|(&id, node)| (id, Duration::from_secs(node.down.unwrap_or(0))));
        let mut observations = Observations {
            silence: silence.collect(),
            groups: BTreeMap::new(),
            given: BTreeMap::new(),
            ahead: BTreeMap::new(),
            recovery_sources: Vec::new(),
            given_up: Vec::new(),
            raisable_for: Some(Duration::ZERO),
            paused_for: self.state.pause().map(|_| Duration::from_secs(self.paused)),
            permitted_for: self
                .permitted
                .iter()
                .map(|(&node, (_, turns))| (node, Duration::from_secs(*turns)))
                .collect(),
            up_for: self
                .nodes
                .iter()
                .map(|(&id, node)| (id, Duration::from_secs(node.up)))
                .collect(),
            // Nobody is below a floor here.
            unled_for: BTreeMap::new(),
        };
        let names: Vec<GroupRef> = self.groups.keys().copied().collect();
        for name in names {
            let (is_changing, is_unheard) = (self.chance(10), self.chance(10));
            let group = self.groups.get_mut(&name).expect("it is one of them");
            let is_joint = std::mem::take(&mut group.is_joint);
            let report = Report {
                group: name,
                generation: group.generation,
                term: group.term,
                index: group.reported_index(),
                members: group.members.clone(),
                leader: group.leader.expect("there is a majority"),
            };
            let seen = GroupReport {
                report,
                caught_up: group.caught_up.clone(),
                unfit: BTreeSet::new(),
                is_changing: is_joint || (is_changing && self.is_troubled),
                is_light: is_light(name),
                hosted: Vec::new(),
            };
            if is_joint {
                group.change();
            }
            if !(is_unheard && self.is_troubled) {
                observations.groups.insert(name, seen.into());
            }
        }
        observations
    }

    /// One look, and what comes of it. Answers how many steps there were.
    fn reconcile(&mut self) -> usize {
        self.look().len()
    }

    /// The same. Answers the steps.
    fn look(&mut self) -> Vec<ReconcileStep> {
        let observations = self.observations();
        let steps = steps(&self.state, &observations, &PACE);
        let mut groups_with_orders = BTreeSet::new();
        for step in &steps {
            if self.is_troubled && self.chance(20) {
                continue;
            }
            match step {
                ReconcileStep::Propose(command) => match self.apply(command) {
                    Ok(MetaOutcome::Replica(replica)) => {
                        let MetaCommand::AddReplica { node, .. } = command else {
                            panic!("{command:?}")
                        };
                        let node = self.nodes.get_mut(node).expect("only nodes get replicas");
                        if node.down.is_none() {
                            node.memory.insert((replica.group, replica.incarnation));
                        }
                    }
                    result => {
                        assert_eq!(result, Ok(MetaOutcome::Done), "{command:?}");
                        self.on_proposed(command);
                    }
                },
                ReconcileStep::Order {
                    group,
                    generation,
                    index,
                    order,
                } => {
                    assert!(groups_with_orders.insert(*group), "one step for each group");
                    let model = &self.groups[group];
                    assert_eq!((*generation, *index), (model.generation, model.reported_index()));
                    self.obey(*group, order);
                }
            }
        }
        steps
    }

    /// A node that was told to go does, and one that is no member is gone.
    fn on_proposed(&mut self, command: &MetaCommand) {
        match command {
            MetaCommand::Dismiss { node } => {
                for (name, group) in &self.groups {
                    // It may have taken a learner in that nobody has reported yet, and that is nobody's.
                    let votes =
                        |member: &GroupMember| member.node == *node && member.role == MemberRole::Voter;
                    assert!(!group.members.iter().any(votes), "{name:?} has a voter there");
                }
                let model = self.nodes.get_mut(node).expect("it is one of them");
                model.memory.clear();
                model.down.get_or_insert(0);
            }
            MetaCommand::Remove { node } => {
                self.nodes.remove(node);
            }
            _ => {}
        }
    }

    /// Whether it seems to whoever looks that a member is there with its memory.
    fn is_seen(&self, name: GroupRef, member: &GroupMember) -> bool {
        let node = self.nodes.get(&member.node);
        let is_there = node.is_some_and(|node| node.down.is_none_or(|turns| turns == 0));
        is_there && !self.state.groups()[&name].is_lost(member.incarnation)
    }

    /// Leaders go before anything is filled, if there is anybody to lead.
    fn check_leader_goes_first(&self, name: GroupRef) {
        let (group, targets) = (&self.groups[&name], &self.state.groups()[&name].targets);
        let leader = group.leader.expect("there is a majority");
        let could_lead = |member: &&GroupMember| {
            member.role == MemberRole::Voter
                && targets.contains(&member.node)
                && group.caught_up.contains(&member.incarnation)
                && self.is_seen(name, member)
        };
        assert!(
            targets.contains(&leader) || !group.members.iter().any(|member| could_lead(&member)),
            "{name:?} is led by {leader:?}, and is to be on {targets:?}"
        );
    }

    fn obey(&mut self, name: GroupRef, order: &Order) {
        let group = &self.groups[&name];
        let mut members = group.members.clone();
        let leader = group.leader.expect("there is a majority");
        match order {
            Order::Change { promote, .. } if promote.is_empty() => {}
            Order::AddLearner { .. } | Order::Change { .. } => self.check_leader_goes_first(name),
            Order::Transfer { .. } => {}
        }
        match order {
            Order::AddLearner { node, incarnation } => {
                let is_new = members.iter().all(|member| member.incarnation != *incarnation);
                assert!(is_new, "taken in twice");
                members.push(GroupMember {
                    incarnation: *incarnation,
                    node: *node,
                    role: MemberRole::Learner,
                });
            }
            Order::Change { promote, remove } => {
                let targets = &self.state.groups()[&name].targets;
                let removed: Vec<GroupMember> = members
                    .iter()
                    .copied()
                    .filter(|member| remove.contains(&member.incarnation))
                    .collect();
                let voters: Vec<&GroupMember> = removed
                    .iter()
                    .filter(|member| member.role == MemberRole::Voter)
                    .collect();
                assert!(voters.len() <= 1, "one voter leaves at a time");
                for voter in voters {
                    assert_ne!(voter.node, leader, "a leader does not remove itself");
                    let votes_there = |member: &&GroupMember| member.role == MemberRole::Voter;
                    let mut all = members.iter().filter(votes_there);
                    assert!(
                        !self.is_seen(name, voter) || all.all(|member| self.is_seen(name, member)),
                        "one that is there goes, and another one is missing"
                    );
                    let votes = |node: &NodeId| {
                        group
                            .members
                            .iter()
                            .any(|member| member.node == *node && member.role == MemberRole::Voter)
                    };
                    let has_memory = self
                        .nodes
                        .get(&voter.node)
                        .is_some_and(|node| node.memory.contains(&(name, voter.incarnation)));
                    assert!(
                        !has_memory || !promote.is_empty() || targets.iter().all(votes),
                        "nobody took its place"
                    );
                }
                for member in &mut members {
                    if promote.contains(&member.incarnation) {
                        assert!(group.caught_up.contains(&member.incarnation), "it is not filled");
                        member.role = MemberRole::Voter;
                    }
                }
                members.retain(|member| !remove.contains(&member.incarnation));
                assert!(self.has_majority(name, &members, None), "it would stand still");
            }
            Order::Transfer { to } => {
                let member = members.iter().find(|member| member.incarnation == *to);
                let member = *member.expect("it is a member");
                assert!(member.role == MemberRole::Voter && self.is_live(name, &member));
                let group = self.groups.get_mut(&name).expect("it is one of them");
                group.leader = Some(member.node);
                group.term += 1;
                return;
            }
        }
        let group = self.groups.get_mut(&name).expect("it is one of them");
        group.members = members;
        group.change();
        group.is_joint = matches!(order, Order::Change { .. });
    }

    /// Everything is mended, and then everything is as it ought to be.
    fn converge(&mut self) {
        self.is_troubled = false;
        self.apply(&MetaCommand::Resume { of: None })
            .expect("that can always be");
        let has_left = |id: &NodeId| self.state.nodes()[id].goal == NodeGoal::Left;
        let down = self.nodes.iter().filter(|(_, node)| node.down.is_some());
        let down: Vec<NodeId> = down.map(|(&id, _)| id).filter(|id| !has_left(id)).collect();
        for node in down {
            self.boot(node);
        }
        // What nodes say of themselves by now is what they are placed as.
        let is_moved = |node: &control::Node| node.placed.zone != node.announcement.zone;
        if self.state.nodes().values().any(is_moved) {
            self.rebalance();
        }
        let mut quiet = 0;
        for _ in 0..2_000 {
            self.live_on();
            quiet = if self.reconcile() == 0 { quiet + 1 } else { 0 };
            // A learner may take some turns to be filled.
            if quiet > 30 {
                break;
            }
        }
        assert!(quiet > 30, "it never ends");
        assert_eq!(self.state.rebalance(), None, "all is where it is to be");
        assert!(self.state.permits().is_empty(), "they have ended by themselves");
        assert_eq!(
            self.state.resize(),
            None,
            "all have as many replicas as are wanted"
        );
        let nodes = self.state.nodes();
        let staying = nodes.values().filter(|node| !node.goal.is_draining()).count();
        // Those who leave are held back for as long as there would be too few without them.
        let replicas = usize::from(self.state.replicas_wanted()).min(nodes.len());
        let members = staying.max(replicas);
        for (name, group) in self.state.groups() {
            let mut voters: Vec<NodeId> = group.voters().map(|voter| voter.node).collect();
            let mut targets = group.targets.clone();
            voters.sort_unstable();
            targets.sort_unstable();
            assert_eq!(voters, targets, "{name:?}");
            assert_eq!(group.members.len(), voters.len());
            assert!(group.lost.is_empty() && group.expected.is_empty());
            match name {
                // Five where three zones hold them so that one may be lost, and where nothing can be borne.
                GroupRef::Meta if members >= 5 => assert!([3, 5].contains(&voters.len())),
                GroupRef::Meta => assert_eq!(voters.len(), [0, 1, 1, 3, 3][members]),
                GroupRef::Data(_) => assert_eq!(voters.len(), replicas, "{name:?}"),
            }
            self.check_zones(&voters);
            if *name != GroupRef::Meta {
                assert_eq!(group.leader, group.leader_target, "{name:?}");
            }
            let is_leaving = |node: &&NodeId| nodes[*node].goal.is_draining();
            assert!(targets.iter().filter(is_leaving).count() <= members - staying);
        }
        assert_eq!(State::restore(&self.state.snapshot()), Ok(self.state.clone()));
    }
}

impl World {
    /// No zone has so many voters that the others are no majority, where there are zones enough for that.
    fn check_zones(&self, voters: &[NodeId]) {
        let nodes = self.state.nodes();
        let zone_of = |id: &NodeId| match &*nodes[id].announcement.zone {
            "" => format!("node {}", id.0),
            zone => format!("zone {zone}"),
        };
        let most = voters.len() - majority(voters.len());
        let (mut held, mut room): (BTreeMap<String, usize>, BTreeMap<String, usize>) = Default::default();
        voters
            .iter()
            .for_each(|id| *held.entry(zone_of(id)).or_default() += 1);
        let staying = nodes.iter().filter(|(_, node)| !node.goal.is_draining());
        staying.for_each(|(id, _)| *room.entry(zone_of(id)).or_default() += 1);
        let room: usize = room.values().map(|count| *count.min(&most)).sum();
        if room >= voters.len() {
            assert!(held.values().all(|count| *count <= most), "{voters:?}: {held:?}");
        }
    }

    /// Nodes that are silent for longer than a node is waited for, by what the reconciler would do about them.
    fn replaced_after(&mut self, silent: &[u64]) -> Vec<NodeId> {
        let silent: Vec<(u64, u64)> = silent.iter().map(|id| (*id, 1_000)).collect();
        self.replaced_of(&silent)
    }

    /// The same of some that have been silent for so many seconds each.
    fn replaced_of(&mut self, silent: &[(u64, u64)]) -> Vec<NodeId> {
        for node in self.nodes.values_mut() {
            node.down = None;
        }
        for (id, seconds) in silent {
            self.nodes.get_mut(&NodeId(*id)).expect("it is one of them").down = Some(*seconds);
        }
        let observations = self.observations();
        let steps = steps(&self.state, &observations, &PACE);
        let fenced = steps.iter().filter_map(|step| match step {
            ReconcileStep::Propose(MetaCommand::Fence { boot }) => {
                let mut nodes = self.state.nodes().iter();
                nodes.find(|(_, node)| node.boot == *boot).map(|(id, _)| *id)
            }
            _ => None,
        });
        let fenced: Vec<NodeId> = fenced.collect();
        let placed = steps.iter().find_map(|step| match step {
            ReconcileStep::Propose(MetaCommand::Place { members, .. }) => Some(members),
            _ => None,
        });
        let is_member = |id: &NodeId| placed.is_none_or(|members| members.contains(id));
        let nodes = self.state.nodes().iter().filter(|(_, node)| !node.is_fenced);
        let replaced: Vec<NodeId> = nodes.map(|(id, _)| *id).filter(|id| !is_member(id)).collect();
        assert_eq!(fenced, replaced, "who is replaced is fenced, and nobody else");
        replaced
    }
}

#[test]
fn while_a_zone_or_a_quarter_of_all_nodes_is_silent_nobody_is_replaced() {
    // Nodes 1 to 9 in three zones, of which one has a node alone; without zones, nodes 10 to 12.
    let mut world = World::new(11, 8, Factor::Three);
    for zone in ["a", "a", "b", "b", "b", "b", "a", "c", "", "", ""] {
        world.join_in(zone);
    }
    world.converge();
    let of_zone = |world: &World, zone: &str| -> Vec<u64> {
        let nodes = world.state.nodes().iter();
        let nodes = nodes.filter(|(_, node)| node.announcement.zone == zone);
        nodes.map(|(id, _)| id.0).collect()
    };
    assert_eq!(of_zone(&world, "a"), [2, 3, 8]);
    assert_eq!(of_zone(&world, "c"), [9]);
    for alone in 2..=12 {
        assert_eq!(world.replaced_after(&[alone]), [NodeId(alone)]);
    }
    // Two of twelve in different zones are two deaths.
    assert_eq!(world.replaced_after(&[4, 9]), [NodeId(4), NodeId(9)]);
    assert_eq!(
        world.replaced_after(&[2, 3]),
        [NodeId(2), NodeId(3)],
        "one of the zone is there"
    );
    assert_eq!(
        world.replaced_after(&[10, 11]),
        [NodeId(10), NodeId(11)],
        "these name no zone"
    );
    // Three are a quarter.
    assert!(world.replaced_after(&[4, 9, 12]).is_empty());
    // But not if they fell silent one after the other.
    let one_by_one = [(4, 1_000), (9, 1_400), (12, 1_800)];
    assert_eq!(world.replaced_of(&one_by_one), [NodeId(4), NodeId(9), NodeId(12)]);
    assert!(world.replaced_after(&[2, 3, 8]).is_empty());
    assert!(world.replaced_after(&[4, 5, 6, 7]).is_empty());
    // A zone of two is fewer than a quarter, and a zone.
    world.join_in("c");
    world.converge();
    assert!(world.replaced_after(&[9, 13]).is_empty());
    // One that has been replaced is nobody's loss any more.
    world.replaced_after(&[]);
    world.go_down(NodeId(13), false);
    for _ in 0..200 {
        world.live_on();
        world.reconcile();
    }
    assert!(
        !world
            .state
            .groups()
            .values()
            .any(|group| group.involves(NodeId(13)))
    );
    assert_eq!(world.replaced_after(&[9, 13]), [NodeId(9)]);
}

/// Six nodes that came without zones, and say since their restarts that they are in three.
fn with_late_zones() -> World {
    let mut world = World::new(21, 16, Factor::Three);
    for _ in 0..5 {
        world.join_in("");
    }
    world.converge();
    world.is_troubled = false;
    for (node, zone) in (1..=6).zip(["a", "a", "b", "b", "c", "c"]) {
        world.restart_in(NodeId(node), zone);
        for _ in 0..4 {
            world.live_on();
            assert!(!world.look().iter().any(fills), "nothing moves by a restart");
        }
    }
    world
}

fn fills(step: &ReconcileStep) -> bool {
    matches!(step, ReconcileStep::Propose(MetaCommand::AddReplica { .. }))
}

/// Replicas that are filled until all is where it is to be.
fn filled_until_settled(world: &mut World) -> usize {
    let mut filled = 0;
    for _ in 0..2_000 {
        world.live_on();
        filled += world.look().into_iter().filter(fills).count();
        if world.state.rebalance().is_none() {
            return filled;
        }
    }
    panic!("it never ends: {} are left", world.state.moves_left());
}

#[test]
fn zones_come_to_a_running_cluster_by_restarts_and_one_order_which_says_what_it_moves() {
    let mut world = with_late_zones();
    let voters = |world: &World| -> Vec<Vec<NodeId>> {
        let groups = world.state.groups().values();
        groups
            .map(|group| group.voters().map(|voter| voter.node).collect())
            .collect()
    };
    let is_borne = |world: &World| {
        let all = voters(world);
        let check = std::panic::AssertUnwindSafe(|| all.iter().for_each(|voters| world.check_zones(voters)));
        std::panic::catch_unwind(check).is_ok()
    };
    assert!(!is_borne(&world), "as they were placed, a zone takes majorities");
    let plan = RebalancePlan::of(&world.state).expect("there is a cluster");
    let now: usize = plan.loads.values().map(|(now, _)| now).sum();
    let then: usize = plan.loads.values().map(|(_, then)| then).sum();
    assert_eq!((now, then), (48, 48));
    world.rebalance();
    let epoch = world.state.epoch();
    world.rebalance();
    assert_eq!(
        world.state.epoch(),
        epoch,
        "asked again before anything came of it"
    );
    let filled = filled_until_settled(&mut world);
    assert_eq!(filled, plan.moves.len(), "as the plan said");
    assert!(filled > 0 && filled < 24, "{filled}: most stays where it is");
    for node in world.state.nodes().values() {
        assert_eq!(node.placed.zone, node.announcement.zone);
    }
    assert!(is_borne(&world));
    assert_eq!(world.state.check_zones(), Ok(()));

    // Once more: there is nothing to be done.
    assert!(RebalancePlan::of(&world.state).is_some_and(|plan| plan.moves.is_empty()));
    let before = voters(&world);
    world.rebalance();
    assert_eq!(filled_until_settled(&mut world), 0);
    assert_eq!(voters(&world), before);
    world.converge();
}

#[test]
fn a_rebalance_is_held_up_by_a_pause_and_what_repairs_is_placed_as_before() {
    let mut world = with_late_zones();
    let placed = |world: &World| -> Vec<String> {
        let nodes = world.state.nodes().values();
        nodes.map(|node| node.placed.zone.clone()).collect()
    };
    let pause = MetaCommand::Pause { seconds: None };
    assert_eq!(world.apply(&pause), Ok(MetaOutcome::Done));
    world.rebalance();
    let targets = |world: &World| -> Vec<Vec<NodeId>> {
        let groups = world.state.groups().values();
        groups.map(|group| group.targets.clone()).collect()
    };
    let before = targets(&world);
    for _ in 0..20 {
        world.live_on();
        assert_eq!(world.reconcile(), 0);
    }
    // One is replaced: what it had is placed, and nothing else.
    world.go_down(NodeId(2), false);
    for _ in 0..60 {
        world.live_on();
        world.reconcile();
    }
    assert!(placed(&world).iter().all(String::is_empty));
    for (before, now) in before.iter().zip(targets(&world)) {
        assert!(!now.contains(&NodeId(2)));
        let mut stay = before.iter().filter(|node| **node != NodeId(2));
        assert!(stay.all(|node| now.contains(node)), "{before:?} {now:?}");
    }
    assert_eq!(
        world.apply(&MetaCommand::Resume { of: None }),
        Ok(MetaOutcome::Done)
    );
    filled_until_settled(&mut world);
    assert_eq!(placed(&world)[0], "a");
    world.converge();
}

/// One replica, then five, then three, on five nodes that stay all the time.
#[test]
fn a_running_cluster_is_resized_up_and_down_and_bears_all_the_while_what_it_is_to_bear() {
    let mut world = World::new(13, 16, Factor::One);
    for _ in 0..4 {
        world.join();
    }
    world.converge();
    world.is_troubled = false;
    let mut before = 1;
    for (factor, wanted) in [
        (Factor::Five, 5),
        (Factor::Three, 3),
        (Factor::Four, 4),
        (Factor::One, 1),
        (Factor::Auto, 3),
    ] {
        let plan = RebalancePlan::of_factor(&world.state, factor).expect("five nodes are enough");
        let plan = plan.expect("there is a cluster");
        let then: usize = plan.loads.values().map(|(_, then)| then).sum();
        assert_eq!(then, 16 * wanted);
        world.resize(factor).expect("five nodes are enough");
        let resizing = RoutingMap::of(&world.state).resize.expect("it is wanted");
        assert_eq!((resizing.wanted, resizing.left), (wanted as u16, None));
        let epoch = world.state.epoch();
        world.resize(factor).expect("it is wanted already");
        assert_eq!(world.state.epoch(), epoch, "again, it is one");
        let least = before.min(wanted);
        let mut filled = 0;
        for _ in 0..2_000 {
            world.live_on();
            filled += world.look().into_iter().filter(fills).count();
            for (name, group) in world.groups.iter().filter(|(name, _)| **name != GroupRef::Meta) {
                let voters = group.members.iter();
                let voters = voters.filter(|member| member.role == MemberRole::Voter);
                assert!(voters.count() >= least, "{name:?}: {:?}", group.members);
            }
            if world.state.resize().is_none() {
                break;
            }
        }
        assert_eq!(world.state.resize(), None, "it ends");
        assert_eq!(filled, plan.moves.len(), "as the plan said");
        for (_, group) in world
            .state
            .groups()
            .iter()
            .filter(|(name, _)| **name != GroupRef::Meta)
        {
            assert_eq!((group.members.len(), group.voters().count()), (wanted, wanted));
        }
        assert_eq!(State::restore(&world.state.snapshot()), Ok(world.state.clone()));
        before = wanted;
    }
    world.converge();
}

#[test]
fn another_number_of_replicas_waits_for_a_pause_and_may_be_changed_on_the_way() {
    let mut world = World::new(14, 16, Factor::Three);
    for _ in 0..4 {
        world.join();
    }
    world.converge();
    world.is_troubled = false;
    assert_eq!(
        world.apply(&MetaCommand::Pause { seconds: None }),
        Ok(MetaOutcome::Done)
    );
    world.resize(Factor::Five).expect("five nodes are enough");
    for _ in 0..20 {
        world.live_on();
        assert_eq!(world.reconcile(), 0);
    }
    assert!(world.state.resize().is_some());
    assert_eq!(
        world.apply(&MetaCommand::Resume { of: None }),
        Ok(MetaOutcome::Done)
    );
    for _ in 0..4 {
        world.live_on();
        world.reconcile();
    }
    let first = world.state.resize().expect("some are filled yet");
    let settle = MetaCommand::Settle { since: first.since };
    assert_eq!(
        world.apply(&settle),
        Err(MetaRefusal::NotNeeded),
        "some are missing"
    );
    world.resize(Factor::One).expect("that can always be");
    assert_ne!(world.state.resize(), Some(first));
    world.converge();
    let mut groups = world.state.groups().iter();
    assert!(groups.all(|(name, group)| *name == GroupRef::Meta || group.voters().count() == 1));
}

#[test]
fn more_replicas_than_there_are_nodes_or_than_zones_bear_are_refused() {
    let mut world = World::new(15, 8, Factor::Auto);
    for zone in ["b", "c", "b"] {
        world.join_in(zone);
    }
    world.converge();
    // The first one names no zone, and is one for itself: 1, 2 and 1.
    assert_eq!(world.resize(Factor::Five), Err(MetaRefusal::TooFew));
    assert_eq!(world.resize(Factor::Four), Err(MetaRefusal::Zones));
    assert_eq!(world.resize(Factor::Three), Ok(()), "it is so already");
    assert_eq!(world.state.resize(), None);
    world.join_in("b");
    world.converge();
    assert_eq!(
        world.resize(Factor::Five),
        Err(MetaRefusal::Zones),
        "three in one zone"
    );
    let before = world.state.clone();
    assert_eq!(
        RebalancePlan::of_factor(&world.state, Factor::Five),
        Err(MetaRefusal::Zones)
    );
    assert_eq!(world.state, before);
    world.join_in("c");
    world.converge();
    assert_eq!(world.resize(Factor::Five), Ok(()), "two in each of two");
    world.converge();
    assert_eq!(world.resize(Factor::Three), Ok(()));
    world.converge();
}

/// Three nodes, at rest for some turns.
fn three_at_rest(seed: u64) -> World {
    let mut world = World::new(seed, 8, Factor::Auto);
    world.join();
    world.join();
    world.converge();
    world
}

fn turns(world: &mut World, count: usize) {
    for _ in 0..count {
        world.live_on();
        world.reconcile();
    }
}

#[test]
fn of_nodes_that_share_a_group_one_may_stop_until_it_is_back_and_others_lead_what_it_led() {
    let mut world = three_at_rest(16);
    for (node, is_graceful) in [(1, true), (2, true), (3, false)] {
        let (node, others) = (NodeId(node), (1..=3).map(NodeId));
        assert_eq!(world.may_stop(node, 60), Ok(()));
        for other in others.filter(|other| *other != node) {
            assert_eq!(world.may_stop(other, 60), Err(MetaRefusal::Lent));
        }
        assert_eq!(State::restore(&world.state.snapshot()), Ok(world.state.clone()));
        let map = RoutingMap::of(&world.state);
        assert_eq!(RoutingMap::decode(&map.encode()), Ok(map));
        turns(&mut world, 10);
        assert!(world.groups.values().all(|group| group.leader != Some(node)));
        // It is silent for longer than a node is waited for.
        let (placed, boot) = (world.state.moves_left(), world.state.nodes()[&node].boot);
        world.go_down(node, is_graceful);
        assert!(world.nodes[&node].down.is_some(), "it is borne");
        turns(&mut world, 30);
        assert!(world.state.is_alive(boot), "it is not replaced");
        assert_eq!(world.state.moves_left(), placed);
        world.boot(node);
        world.reconcile();
        assert!(
            world.state.permits().contains_key(&node),
            "who knows whether it has caught up"
        );
        turns(&mut world, if is_graceful { 3 } else { 25 });
        assert!(world.state.permits().is_empty(), "{:?}", world.state.permits());
        world.converge();
    }
}

#[test]
fn permission_to_stop_is_over_when_its_time_is_and_begins_anew_when_it_is_asked_for_again() {
    let mut world = three_at_rest(17);
    let node = NodeId(2);
    assert_eq!(world.may_stop(node, 10), Ok(()));
    turns(&mut world, 8);
    assert_eq!(world.may_stop(node, 10), Ok(()));
    turns(&mut world, 8);
    let permit = world.state.permits()[&node];
    // One that was on its way from before ends nothing.
    let late = MetaCommand::EndPermit {
        node,
        since: Some(Epoch(permit.since.0 - 1)),
    };
    assert_eq!(world.apply(&late), Ok(MetaOutcome::Done));
    assert!(world.state.permits().contains_key(&node));
    turns(&mut world, 4);
    assert!(world.state.permits().is_empty());
    turns(&mut world, 10);
    for seconds in [0, PERMIT_SECONDS_MAX + 1] {
        assert_eq!(world.may_stop(node, seconds), Err(MetaRefusal::Malformed));
    }
    assert_eq!(world.may_stop(node, 10), Ok(()));
    let taken_back = MetaCommand::EndPermit { node, since: None };
    assert_eq!(world.apply(&taken_back), Ok(MetaOutcome::Done));
    assert_eq!(world.may_stop(NodeId(1), 10), Ok(()));
    world.converge();
}

#[test]
fn nobody_may_stop_where_a_majority_would_be_at_risk() {
    let mut alone = World::new(18, 4, Factor::Auto);
    alone.converge();
    assert_eq!(
        alone.may_stop(NodeId(1), 60),
        Err(MetaRefusal::AtRisk),
        "one replica is all there is"
    );
    let mut world = three_at_rest(18);
    world.go_down(NodeId(3), true);
    turns(&mut world, 3);
    assert_eq!(
        world.may_stop(NodeId(1), 60),
        Err(MetaRefusal::AtRisk),
        "another one is away"
    );
    assert_eq!(
        world.may_stop(NodeId(3), 60),
        Err(MetaRefusal::AtRisk),
        "it has stopped"
    );
    world.boot(NodeId(3));
    assert_eq!(
        world.may_stop(NodeId(1), 60),
        Err(MetaRefusal::AtRisk),
        "it is back since a moment"
    );
    turns(&mut world, 3);
    assert_eq!(world.may_stop(NodeId(1), 60), Ok(()));
    // It dies instead, and another one is not let go before all is filled again.
    world.go_down(NodeId(1), false);
    world.boot(NodeId(1));
    world
        .apply(&MetaCommand::EndPermit {
            node: NodeId(1),
            since: None,
        })
        .expect("that can always be");
    turns(&mut world, 2);
    assert_eq!(
        world.may_stop(NodeId(2), 60),
        Err(MetaRefusal::AtRisk),
        "replicas are being filled"
    );
    world.converge();
    assert_eq!(world.may_stop(NodeId(2), 60), Ok(()));
}

#[test]
fn nothing_moves_in_groups_of_a_node_that_may_stop_but_what_repairs() {
    let mut world = three_at_rest(19);
    assert_eq!(world.may_stop(NodeId(1), 60), Ok(()));
    world.join();
    let members = |world: &World| -> Vec<Vec<GroupMember>> {
        let groups = world.groups.values();
        groups.map(|group| group.members.clone()).collect()
    };
    let before = members(&world);
    turns(&mut world, 20);
    assert_eq!(members(&world), before);
    let over = MetaCommand::EndPermit {
        node: NodeId(1),
        since: None,
    };
    assert_eq!(world.apply(&over), Ok(MetaOutcome::Done));
    world.converge();
    assert_ne!(members(&world), before);
}

#[test]
fn permission_for_two_nodes_that_share_a_group_breaks_an_invariant() {
    let mut world = three_at_rest(20);
    mutations::plant(Some(Mutation::TwoPermits));
    let lent = [1, 2].map(|node| {
        let (boot, seconds) = (world.state.nodes()[&NodeId(node)].boot, 60);
        world.state.apply(&MetaCommand::PermitStop { boot, seconds })
    });
    mutations::plant(None);
    assert!(lent.iter().all(Result::is_ok), "{lent:?}");
    assert!(world.state.check().is_err());
}

#[test]
fn a_node_has_replicas_and_leads_groups_by_its_weight() {
    let mut world = World::new(12, 16, Factor::Three);
    for number in 2..=5 {
        let announcement = Announcement {
            weight_percent: if number == 5 { 200 } else { 100 },
            ..announcement("", number)
        };
        let token = world.token();
        world.start(&MetaCommand::Join { token, announcement }, false);
    }
    world.converge();
    let count = |has: &dyn Fn(&control::Group, NodeId) -> bool| {
        let groups = world.state.groups().iter();
        let groups: Vec<_> = groups.filter(|(name, _)| **name != GroupRef::Meta).collect();
        let nodes = world.state.nodes().keys();
        let count = nodes.map(|node| groups.iter().filter(|(_, group)| has(group, *node)).count());
        count.collect::<Vec<usize>>()
    };
    let replicas = count(&|group, node| group.member_on(node).is_some());
    assert_eq!(replicas, [8, 8, 8, 8, 16]);
    let led = count(&|group, node| group.leader == Some(node));
    assert!(
        led[4] >= 5 && led[..4].iter().all(|led| (2..=3).contains(led)),
        "{led:?}"
    );
}

#[test]
fn the_loss_of_any_of_three_zones_is_borne_by_every_group_of_a_drawn_cluster() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut world = World::new(seed, 1 + (seed % 12) as u16, Factor::Auto);
        let mut draw = Prng::new(seed);
        for _ in 0..draw.below(9) {
            let zone = ["a", "b", "c"][draw.below(3) as usize];
            world.join_in(zone);
        }
        // Whatever was drawn, there are three.
        ["a", "b", "c"].iter().for_each(|zone| world.join_in(zone));
        world.converge();
        let zones = |world: &World, nodes: &mut dyn Iterator<Item = NodeId>| {
            let mut zones: BTreeMap<String, usize> = BTreeMap::new();
            nodes.for_each(|id| {
                *zones
                    .entry(world.state.nodes()[&id].announcement.zone.clone())
                    .or_default() += 1
            });
            zones
        };
        let mut nodes = world.state.nodes().keys().copied();
        let sizes = zones(&world, &mut nodes);
        for (name, group) in world.state.groups() {
            let held = zones(&world, &mut group.voters().map(|voter| voter.node));
            let without = |zone: &String| group.voters().count() - held.get(zone).copied().unwrap_or(0);
            for zone in sizes.keys().filter(|zone| !zone.is_empty()) {
                assert!(
                    without(zone) >= majority(group.voters().count()),
                    "{name:?}: {held:?} of {sizes:?}"
                );
            }
        }
    }
}

#[test]
fn a_growing_cluster_replicates_itself_and_spreads() {
    let mut world = World::new(1, 16, Factor::Auto);
    world.converge();
    for _ in 0..6 {
        world.join();
        world.converge();
    }
    assert_eq!(world.state.replicas_wanted(), 3);
    for group in world.state.groups().values() {
        assert!(group.voters().count() >= 3);
    }
    let leads = |node: NodeId| {
        world
            .state
            .groups()
            .values()
            .filter(|group| group.leader == Some(node))
            .count()
    };
    assert!(world.nodes.keys().all(|&node| leads(node) >= 2));
}

#[test]
fn whatever_joins_leaves_crashes_and_returns_the_end_is_the_target_and_no_group_ever_stands_still() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut world = World::new(seed, 1 + (seed % 9) as u16, Factor::Auto);
        for _ in 0..2 + seed % 5 {
            world.join();
        }
        if seed % 3 == 0 {
            world.converge();
            world.is_troubled = true;
        }
        for _ in 0..300 {
            world.trouble();
            world.live_on();
            world.reconcile();
        }
        world.converge();
    }
}

#[test]
fn a_node_that_is_away_for_long_is_replaced_and_one_that_is_away_shortly_is_not() {
    let mut world = World::new(5, 8, Factor::Three);
    for _ in 0..4 {
        world.join();
    }
    world.converge();
    let node = NodeId(2);
    assert!(world.state.groups().values().any(|group| group.involves(node)));
    let targets = |world: &World| -> Vec<Vec<NodeId>> {
        world
            .state
            .groups()
            .values()
            .map(|group| group.targets.clone())
            .collect()
    };
    let before = targets(&world);
    world.crash(node);
    assert!(world.nodes[&node].down.is_some());
    for _ in 0..15 {
        world.live_on();
        world.reconcile();
    }
    assert_eq!(targets(&world), before);
    for _ in 0..300 {
        world.live_on();
        world.reconcile();
    }
    assert!(!world.state.groups().values().any(|group| group.involves(node)));
    world.converge();
    assert!(
        world.state.groups().values().any(|group| group.involves(node)),
        "it is one of them again"
    );
}

#[test]
fn a_machine_that_comes_back_again_and_again_without_its_directory_leaves_no_dead_nodes_behind() {
    let mut world = World::new(9, 8, Factor::Three);
    for _ in 0..2 {
        world.join();
    }
    world.converge();
    let mut node = NodeId(3);
    for _ in 0..4 {
        world.crash(node);
        assert!(world.nodes[&node].down.is_some(), "the others are a majority");
        let next = world.join_in_place_of(node);
        // As long as it is not silent for some time it may be there.
        world.reconcile();
        assert!(world.state.is_alive(world.state.nodes()[&node].boot));
        for _ in 0..100 {
            world.live_on();
            world.reconcile();
        }
        assert!(
            !world.state.nodes().contains_key(&node),
            "node {node:?} is no member"
        );
        world.nodes.remove(&node);
        let meta = &world.state.groups()[&GroupRef::Meta];
        let voters: BTreeSet<NodeId> = meta.voters().map(|voter| voter.node).collect();
        assert_eq!(voters, [NodeId(1), NodeId(2), next].into());
        node = next;
    }
    world.converge();
}

#[test]
fn a_node_that_leaves_is_emptied_and_can_be_removed() {
    let mut world = World::new(6, 8, Factor::Three);
    for _ in 0..3 {
        world.join();
    }
    world.converge();
    let node = NodeId(1);
    assert_eq!(
        world.apply(&MetaCommand::Remove { node }),
        Err(MetaRefusal::InUse)
    );
    world
        .apply(&MetaCommand::SetGoal {
            nodes: vec![node],
            goal: NodeGoal::Drains,
        })
        .unwrap();
    world.converge();
    world.apply(&MetaCommand::Remove { node }).unwrap();
    world.nodes.remove(&node);
    world.converge();
}

#[test]
fn nodes_that_leave_together_are_emptied_told_so_and_are_no_members_when_they_are_silent() {
    let mut world = World::new(11, 16, Factor::Auto);
    for _ in 0..5 {
        world.join();
    }
    world.converge();
    let leave = MetaCommand::SetGoal {
        nodes: vec![NodeId(1), NodeId(2), NodeId(3)],
        goal: NodeGoal::Leaves,
    };
    assert_eq!(world.apply(&leave), Ok(MetaOutcome::Done));
    let before = world.state.epoch();
    assert_eq!(world.apply(&leave), Ok(MetaOutcome::Done), "asked again");
    assert_eq!(world.state.epoch(), before);
    let one_more = MetaCommand::SetGoal {
        nodes: vec![NodeId(4)],
        goal: NodeGoal::Drains,
    };
    assert_eq!(world.apply(&one_more), Err(MetaRefusal::TooFew));
    world.converge();
    let nodes: Vec<NodeId> = world.state.nodes().keys().copied().collect();
    assert_eq!(nodes, [NodeId(4), NodeId(5), NodeId(6)]);
    assert!(world.groups.values().all(|group| group.members.len() == 3));
}

#[test]
fn a_drain_that_is_taken_back_leaves_voters_where_they_are_and_no_learners() {
    for looks in 1..12 {
        let mut world = World::new(12, 16, Factor::Three);
        for _ in 0..3 {
            world.join();
        }
        world.converge();
        let goal = |world: &mut World, goal| {
            let nodes = vec![NodeId(1)];
            assert_eq!(
                world.apply(&MetaCommand::SetGoal { nodes, goal }),
                Ok(MetaOutcome::Done)
            );
        };
        goal(&mut world, NodeGoal::Drains);
        for _ in 0..looks {
            world.live_on();
            world.reconcile();
        }
        let voting = |world: &World| -> BTreeSet<GroupRef> {
            let votes = |member: &GroupMember| member.node == NodeId(1) && member.role == MemberRole::Voter;
            let groups = world.state.groups().iter();
            let its = groups.filter(|(_, group)| group.members.iter().any(votes));
            its.map(|(&name, _)| name).collect()
        };
        let left = voting(&world);
        goal(&mut world, NodeGoal::Stays);
        for name in &left {
            assert!(
                world.state.groups()[name].targets.contains(&NodeId(1)),
                "{name:?}"
            );
        }
        world.converge();
        assert!(voting(&world).is_superset(&left), "after {looks} looks");
    }
}

#[test]
fn a_drain_that_is_taken_back_leaves_no_zone_with_a_majority() {
    for looks in 0..12 {
        let mut world = World::new(15, 16, Factor::Three);
        ["a", "a"].iter().for_each(|zone| world.join_in(zone));
        world.converge();
        // Each group is to give one of the two up for this one, and still has both.
        world.join_in("b");
        for _ in 0..looks {
            world.live_on();
            world.reconcile();
        }
        for goal in [NodeGoal::Drains, NodeGoal::Stays] {
            let nodes = vec![NodeId(3)];
            let goal = MetaCommand::SetGoal { nodes, goal };
            assert_eq!(world.apply(&goal), Ok(MetaOutcome::Done));
        }
        world.converge();
        assert_eq!(world.state.check_zones(), Ok(()), "after {looks} looks");
    }
}

/// A cluster of five nodes that lost the memory of one while all is paused, and another one was to be emptied: what is on that one, what
/// is on one that has joined since, and the fewest voters with memory that a group has.
fn paused() -> (usize, usize, usize) {
    let mut world = World::new(13, 16, Factor::Three);
    for _ in 0..4 {
        world.join();
    }
    world.converge();
    let pause = |seconds| MetaCommand::Pause { seconds };
    assert_eq!(world.apply(&pause(None)), Ok(MetaOutcome::Done));
    let drain = MetaCommand::SetGoal {
        nodes: vec![NodeId(1)],
        goal: NodeGoal::Drains,
    };
    assert_eq!(world.apply(&drain), Ok(MetaOutcome::Done));
    world.join();
    world.go_down(NodeId(2), false);
    for turn in 0..120 {
        world.live_on();
        world.reconcile();
        if turn == 10 {
            world.boot(NodeId(2));
        }
    }
    let on = |node: u64| {
        let groups = world.state.groups().values();
        groups.filter(|group| group.involves(NodeId(node))).count()
    };
    let whole = world.state.groups().values().map(|group| {
        let kept = group.voters().filter(|voter| !group.is_lost(voter.incarnation));
        kept.count()
    });
    let whole = whole.min().unwrap();
    let counts = (on(1), on(6), whole);
    if whole >= 3 {
        assert_eq!(world.apply(&pause(Some(5))), Ok(MetaOutcome::Done));
        for _ in 0..300 {
            world.live_on();
            world.reconcile();
        }
        assert_eq!(world.state.pause(), None, "it was for some time");
        let groups = world.state.groups().values();
        assert_eq!(groups.filter(|group| group.involves(NodeId(1))).count(), 0);
    }
    counts
}

#[test]
fn while_all_is_paused_what_is_lost_is_filled_and_nothing_else_moves() {
    let (on_draining, on_new, whole) = paused();
    assert!(on_draining > 0 && on_new == 0, "{on_draining} {on_new}");
    assert_eq!(whole, 3);
    mutations::plant(Some(Mutation::PauseStopsRepair));
    let (_, _, whole) = paused();
    mutations::plant(None);
    assert!(whole < 3, "the mistake is noticed");
}

#[test]
fn a_voter_that_goes_before_another_one_votes_is_noticed() {
    let drain = || {
        let mut world = World::new(14, 16, Factor::Three);
        for _ in 0..3 {
            world.join();
        }
        world.converge();
        let drain = MetaCommand::SetGoal {
            nodes: vec![NodeId(1)],
            goal: NodeGoal::Drains,
        };
        assert_eq!(world.apply(&drain), Ok(MetaOutcome::Done));
        world.converge();
    };
    drain();
    mutations::plant(Some(Mutation::LastVoterDrained));
    let noticed = std::panic::catch_unwind(drain);
    mutations::plant(None);
    assert!(noticed.is_err(), "the mistake is noticed");
}

#[test]
fn a_node_that_is_away_is_replaced_at_once_if_somebody_wants_it_by_whom_he_says() {
    let mut world = World::new(15, 16, Factor::Three);
    for _ in 0..3 {
        world.join();
    }
    world.converge();
    world.go_down(NodeId(2), false);
    world.join();
    let boot = world.state.nodes()[&NodeId(2)].boot;
    let had: BTreeSet<GroupRef> = world
        .state
        .groups()
        .iter()
        .filter(|(_, group)| group.targets.contains(&NodeId(2)))
        .map(|(&name, _)| name)
        .collect();
    let replace = |with| MetaCommand::Replace { boot, with };
    assert_eq!(
        world.apply(&replace(Some(NodeId(2)))),
        Err(MetaRefusal::Malformed)
    );
    assert_eq!(world.apply(&replace(Some(NodeId(5)))), Ok(MetaOutcome::Done));
    for _ in 0..300 {
        world.live_on();
        world.reconcile();
    }
    let groups = world.state.groups();
    assert!(!groups.values().any(|group| group.involves(NodeId(2))));
    let took = had.iter().filter(|name| groups[*name].involves(NodeId(5)));
    assert!(took.count() * 4 >= had.len() * 3, "most is where it was wanted");
    world.converge();
}

#[test]
fn a_node_that_is_named_takes_the_place_of_another_one_while_all_is_paused_too() {
    let mut world = World::new(16, 16, Factor::Three);
    for _ in 0..3 {
        world.join_in("");
    }
    world.converge();
    assert_eq!(
        world.apply(&MetaCommand::Pause { seconds: None }),
        Ok(MetaOutcome::Done)
    );
    world.join_in("");
    world.join_in("");
    world.go_down(NodeId(2), false);
    let on = |world: &World, node: u64| {
        let groups = world.state.groups().values();
        groups.filter(|group| group.involves(NodeId(node))).count()
    };
    let had = on(&world, 2);
    let boot = world.state.nodes()[&NodeId(2)].boot;
    let with = Some(NodeId(5));
    assert_eq!(
        world.apply(&MetaCommand::Replace { boot, with }),
        Ok(MetaOutcome::Done)
    );
    for _ in 0..200 {
        world.live_on();
        world.reconcile();
    }
    assert_eq!((on(&world, 2), on(&world, 5), on(&world, 6)), (0, had, 0));
    world.converge();
}

#[test]
fn of_three_nodes_with_one_replica_of_each_group_none_is_replaced_that_has_a_voter_of_the_meta_group() {
    let mut world = World::new(17, 4, Factor::One);
    for _ in 0..2 {
        world.join_in("");
    }
    world.converge();
    let replace = |world: &mut World| {
        let boot = world.state.nodes()[&NodeId(2)].boot;
        world.apply(&MetaCommand::Replace { boot, with: None })
    };
    assert_eq!(replace(&mut world), Err(MetaRefusal::TooFew));
    world.join_in("");
    assert_eq!(replace(&mut world), Ok(MetaOutcome::Done));
}

/// Two of four nodes are told to leave while one replica is wanted, and then three are.
#[test]
fn groups_are_not_made_smaller_because_too_many_nodes_leave() {
    let mut world = World::new(8, 8, Factor::Auto);
    for _ in 0..3 {
        world.join();
    }
    world.converge();
    let leaving = [NodeId(3), NodeId(4)];
    let leave = |nodes: &[NodeId]| MetaCommand::SetGoal {
        nodes: nodes.to_vec(),
        goal: NodeGoal::Drains,
    };
    assert_eq!(world.apply(&leave(&leaving)), Err(MetaRefusal::TooFew));
    world.resize(Factor::One).expect("that can always be");
    assert_eq!(world.apply(&leave(&leaving)), Ok(MetaOutcome::Done));
    assert_eq!(world.resize(Factor::Three), Err(MetaRefusal::TooFew));
    // With a fifth there are enough, and then it is gone.
    world.join();
    world.resize(Factor::Three).expect("three nodes stay");
    let node = NodeId(5);
    world.nodes.remove(&node);
    assert_eq!(world.apply(&MetaCommand::Remove { node }), Ok(MetaOutcome::Done));
    for _ in 0..300 {
        world.live_on();
        world.reconcile();
        for (name, group) in &world.groups {
            let voters = group
                .members
                .iter()
                .filter(|member| member.role == MemberRole::Voter);
            assert!(
                voters.count() >= 3,
                "{name:?} bears no death: {:?}",
                group.members
            );
        }
    }
    let has_replicas =
        |world: &World, node: NodeId| world.state.groups().values().any(|group| group.involves(node));
    let kept = leaving.iter().filter(|&&node| has_replicas(&world, node));
    assert_eq!(kept.count(), 1, "one of them can go");
    // As soon as there is another one, both can.
    world.join();
    world.converge();
    assert!(leaving.iter().all(|&node| !has_replicas(&world, node)));
    // And so can more, if fewer replicas are wanted.
    world.resize(Factor::One).expect("that can always be");
    assert_eq!(world.apply(&leave(&[NodeId(2)])), Ok(MetaOutcome::Done));
    world.converge();
    assert!(!has_replicas(&world, NodeId(2)));
}

#[test]
fn what_is_under_way_keeps_the_pace() {
    let mut world = World::new(7, 64, Factor::Three);
    for _ in 0..5 {
        world.join();
    }
    world.is_troubled = false;
    let (mut most_heavy, mut most_light) = (0, 0);
    for _ in 0..500 {
        world.live_on();
        let (state, groups) = (&world.state, &world.groups);
        let (mut heavy, mut light): (Vec<NodeId>, Vec<NodeId>) = Default::default();
        for (&name, group) in state.groups() {
            let filling = if is_light(name) { &mut light } else { &mut heavy };
            filling.extend(group.expected.iter().map(|expected| expected.node));
            let learners = group
                .members
                .iter()
                .filter(|member| member.role == MemberRole::Learner);
            let learners = learners.filter(|member| !groups[&name].caught_up.contains(&member.incarnation));
            filling.extend(learners.map(|member| member.node));
        }
        most_heavy = most_heavy.max(heavy.len());
        most_light = most_light.max(light.len());
        for node in world.nodes.keys() {
            let on_node = |filling: &[NodeId]| filling.iter().filter(|other| *other == node).count();
            assert!(on_node(&heavy) <= PACE.learners_of_node_max);
            assert!(on_node(&light) <= PACE.light_learners_of_node_max);
        }
        world.reconcile();
    }
    let joined = world.nodes.len() - 1;
    assert!(
        most_heavy > PACE.learners_of_node_max * (joined - 2),
        "nodes do not wait for each other: {most_heavy}"
    );
    assert!(
        most_light > PACE.learners_of_node_max * joined,
        "light groups do not wait for heavy ones: {most_light}"
    );
    world.converge();
}

//! What commands do to the state: a function, and total. A command that is refused changes nothing.

use crate::command::Factor;
use crate::command::{AssignedReplica, Beginning, MetaCommand, MetaOutcome, MetaRefusal, Report, Target};
use crate::goal::{MovePause, NodeGoal, Rebalance, Resize};
use crate::group::{Expected, Group, GroupMember, GroupRef, MEMBERS_MAX, MemberRole};
use crate::node::{Announcement, NODES_MAX, Node, Placed};
use crate::permit::{PERMIT_SECONDS_MAX, StopPermit, is_stop_risky, may_add, share_group};
use crate::placing::{META_THREE, bears_loss_of_zone};
use crate::recovery_source::Configuration;
use crate::settings::{DURABILITY, NAME_BYTES_MAX, SETTINGS_MAX, Setting, VALUE_BYTES_MAX};
use crate::state::{REMOVED_MAX, State, TARGETS_MAX};
use ids::{
    Boot, ClusterId, DurabilityMode, Epoch, GroupCount, GroupId, Groups, Host, Incarnation, NodeId,
    PartitionId, SemanticsVersion, Token,
};
use mutations::Mutation;
use std::collections::{BTreeMap, BTreeSet};

impl State {
    /// Carries a committed command out.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn apply(&mut self, command: &MetaCommand) -> Result<MetaOutcome, MetaRefusal> {
        if let MetaCommand::Create {
            cluster,
            token,
            groups,
            factor,
            durability,
            semantics,
            announcement,
        } = command
        {
            let layout = (*groups, *durability);
            return self.on_create(*cluster, *token, layout, *factor, *semantics, announcement);
        }
        if self.cluster.is_none() {
            return Err(MetaRefusal::NoCluster);
        }
        match command {
            MetaCommand::Create { .. } => Err(MetaRefusal::Exists),
            MetaCommand::Join { token, announcement } => self.on_join(*token, announcement),
            MetaCommand::Boot {
                node,
                token,
                announcement,
                left_by,
                kept,
                unclean,
            } => {
                let memories = Memories::of(kept, unclean);
                self.on_boot(*node, *token, announcement, left_by, memories)
            }
            MetaCommand::Fence { boot } => self.on_fence(*boot),
            MetaCommand::Gone { boot } => self.on_gone(*boot),
            MetaCommand::Report { reports } => self.on_report(reports),
            MetaCommand::Place {
                members,
                factor,
                targets,
            } => self.on_place(members, *factor, targets),
            MetaCommand::AddReplica { group, node } => self.on_add_replica(*group, *node),
            MetaCommand::Set { name, value } => self.on_set(name, value),
            MetaCommand::SetFactor { factor } => self.on_set_factor(*factor),
            MetaCommand::RaiseSemantics { to } => self.on_raise_semantics(*to),
            MetaCommand::SetGoal { nodes, goal } => self.on_set_goal(nodes, *goal),
            MetaCommand::Dismiss { node } => self.on_dismiss(*node),
            MetaCommand::Pause { seconds } => self.on_pause(*seconds),
            MetaCommand::Resume { of } => self.on_resume(*of),
            MetaCommand::Replace { boot, with } => self.on_replace(*boot, *with),
            MetaCommand::Rebalance => self.on_rebalance(),
            MetaCommand::PlaceAnew {
                since,
                members,
                factor,
                targets,
            } => self.on_place_anew(*since, members, *factor, targets),
            MetaCommand::Settle { since } => self.on_settle(*since),
            MetaCommand::PermitStop { boot, seconds } => self.on_permit_stop(*boot, *seconds),
            MetaCommand::EndPermit { node, since } => self.on_end_permit(*node, *since),
            MetaCommand::Remove { node } => self.on_remove(*node),
            MetaCommand::GiveUp {
                group,
                node,
                incarnation,
            } => self.on_give_up(*group, *node, *incarnation),
            MetaCommand::Recover {
                group,
                node,
                recovery_source,
            } => self.on_recover(*group, *node, *recovery_source),
            MetaCommand::End { group, generation } => self.on_end(*group, *generation),
            MetaCommand::Unreported {
                group,
                generation,
                configuration,
            } => self.on_unreported(*group, *generation, configuration),
            MetaCommand::AddGroups { count } => self.on_add_groups(*count),
            MetaCommand::WantPartitions { wishes } => self.on_want_partitions(wishes),
            MetaCommand::PartitionsMoved { hosts } => self.on_partitions_moved(hosts),
            MetaCommand::FoundAnew { group, node } => self.on_found_anew(*group, *node),
            MetaCommand::Forget {
                group,
                node,
                generation,
            } => self.on_forget(*group, *node, *generation),
            MetaCommand::ReplaceTogether { boots } => self.on_replace_together(boots),
        }
    }

    /// The map has changed.
    fn touch(&mut self) {
        self.epoch.0 += 1;
    }

    fn new_boot(&mut self) -> Boot {
        let boot = Boot(self.next_boot);
        self.next_boot += 1;
        boot
    }

    fn on_create(
        &mut self,
        cluster: ClusterId,
        token: Token,
        (groups, durability): (Groups, DurabilityMode),
        factor: Factor,
        semantics: SemanticsVersion,
        announcement: &Announcement,
    ) -> Result<MetaOutcome, MetaRefusal> {
        if self.cluster == Some(cluster) {
            // Asked again.
            let first = self.nodes.iter().find(|(_, node)| node.start == token);
            let first = first.map(|(&id, node)| (id, node.boot));
            return first.map_or(Err(MetaRefusal::Exists), |(id, boot)| {
                Ok(self.started(id, boot, &Memories::default()))
            });
        }
        if self.cluster.is_some() {
            return Err(MetaRefusal::Exists);
        }
        self.check_announcement(announcement, semantics)?;
        self.cluster = Some(cluster);
        self.group_count = groups.get();
        self.partition_count = groups.partitions().get();
        self.factor = factor;
        self.durability = durability;
        self.semantics = semantics;
        let (node, boot) = self.add_node(token, announcement);
        for group in std::iter::once(GroupRef::Meta).chain(groups.iter().map(GroupRef::Data)) {
            self.found_group(group, node);
        }
        self.touch();
        Ok(self.started(node, boot, &Memories::default()))
    }

    /// A group begins on a node, with its only voter.
    fn found_group(&mut self, name: GroupRef, node: NodeId) {
        let group = Group {
            members: vec![GroupMember {
                incarnation: new_incarnation(&mut self.next_incarnation),
                node,
                role: MemberRole::Voter,
            }],
            leader: Some(node),
            targets: vec![node],
            leader_target: Some(node),
            ..Group::default()
        };
        self.groups.insert(name, group);
    }

    /// The groups of keys, if all nodes know that there can be more than a cluster was founded with.
    fn growing_groups(&self) -> Result<Groups, MetaRefusal> {
        if self.semantics < SemanticsVersion::PARTITIONS_MOVE {
            return Err(MetaRefusal::Semantics);
        }
        self.key_groups().ok_or(MetaRefusal::NoCluster)
    }

    /// Each begins on the node that is to lead the fewest, and gets the others with the placement that follows. While it is alone there it
    /// hosts nothing.
    fn on_add_groups(&mut self, count: GroupCount) -> Result<MetaOutcome, MetaRefusal> {
        let (before, after) = {
            let groups = self.growing_groups()?;
            (groups, groups.with_more(count))
        };
        if before == after {
            return Ok(MetaOutcome::Done);
        }
        let mut led: BTreeMap<NodeId, usize> = self.staying().map(|node| (node, 0)).collect();
        for leader in self.groups.values().filter_map(|group| group.leader_target) {
            if let Some(led) = led.get_mut(&leader) {
                *led += 1;
            }
        }
        for number in before.get()..after.get() {
            let least = led.iter_mut().min_by_key(|(node, led)| (**led, **node));
            let (&node, led) = least.ok_or(MetaRefusal::TooFew)?;
            *led += 1;
            self.found_group(GroupRef::Data(GroupId::new(number)), node);
        }
        self.growth.founded = before.founded().get();
        self.group_count = after.get();
        // They are placed, and so are those that were there as far as that makes nodes even.
        self.placed_factor = 0;
        self.touch();
        Ok(MetaOutcome::Done)
    }

    fn on_found_anew(&mut self, group: GroupId, node: NodeId) -> Result<MetaOutcome, MetaRefusal> {
        let groups = self.growing_groups()?;
        if !self.is_unfilled(groups, group) {
            return Err(MetaRefusal::NotNeeded);
        }
        if !self.staying().any(|staying| staying == node) {
            return Err(MetaRefusal::Unknown);
        }
        let name = GroupRef::Data(group);
        let found = self.groups.get_mut(&name).ok_or(MetaRefusal::Unknown)?;
        // Whoever has its memory may lead it, though nobody hears of it.
        if found.has_majority() {
            return Err(MetaRefusal::NotNeeded);
        }
        begin_anew(found, node, None, &mut self.next_incarnation);
        // It held nothing.
        found.former.clear();
        (found.targets, found.leader_target) = (vec![node], Some(node));
        self.placed_factor = 0;
        self.touch();
        Ok(MetaOutcome::Done)
    }

    fn on_want_partitions(&mut self, wishes: &[(PartitionId, GroupId)]) -> Result<MetaOutcome, MetaRefusal> {
        let groups = self.growing_groups()?;
        let mut are_there = wishes
            .iter()
            .map(|(partition, group)| is_place(groups, *partition, *group));
        if !are_there.all(|is_there| is_there) {
            return Err(MetaRefusal::Unknown);
        }
        let before = self.growth.wishes.clone();
        for &(partition, group) in wishes {
            match groups.host_of(partition) == group {
                true => drop(self.growth.wishes.remove(&partition)),
                false => drop(self.growth.wishes.insert(partition, group)),
            }
        }
        if self.growth.wishes != before {
            self.touch();
        }
        Ok(MetaOutcome::Done)
    }

    fn on_partitions_moved(&mut self, hosts: &[(PartitionId, Host)]) -> Result<MetaOutcome, MetaRefusal> {
        let groups = self.growing_groups()?;
        let mut are_there = hosts
            .iter()
            .map(|(partition, host)| is_place(groups, *partition, host.group));
        if !are_there.all(|is_there| is_there) {
            return Err(MetaRefusal::Unknown);
        }
        let mut is_news = false;
        for &(partition, host) in hosts {
            let known = self.growth.hosts.get(&partition).map_or(0, |known| known.moves);
            if host.moves > known {
                self.growth.hosts.insert(partition, host);
                self.growth
                    .wishes
                    .retain(|wanted, to| *wanted != partition || *to != host.group);
                is_news = true;
            }
        }
        if is_news {
            self.touch();
        }
        Ok(MetaOutcome::Done)
    }

    fn check_announcement(
        &self,
        announcement: &Announcement,
        semantics: SemanticsVersion,
    ) -> Result<(), MetaRefusal> {
        if !announcement.is_valid() {
            return Err(MetaRefusal::Malformed);
        }
        if !announcement.supports(semantics) {
            return Err(MetaRefusal::Semantics);
        }
        Ok(())
    }

    fn add_node(&mut self, token: Token, announcement: &Announcement) -> (NodeId, Boot) {
        let id = NodeId(self.next_node);
        self.next_node += 1;
        let boot = self.new_boot();
        let node = Node {
            announcement: announcement.clone(),
            placed: announcement.placed(),
            boot,
            is_fenced: false,
            goal: NodeGoal::Stays,
            join: token,
            joined: Some(boot),
            start: token,
        };
        self.nodes.insert(id, node);
        let members = self.nodes.values().filter(|node| node.goal != NodeGoal::Left);
        self.has_grown |= members.count() >= 3;
        (id, boot)
    }

    fn on_join(&mut self, token: Token, announcement: &Announcement) -> Result<MetaOutcome, MetaRefusal> {
        if let Some((&id, node)) = self.nodes.iter().find(|(_, node)| node.join == token) {
            // Asked again. But if the node has started anew since, then whoever asks is not that node any more.
            let is_same = node.start == token && !node.is_fenced;
            let boot = node.boot;
            return if is_same {
                Ok(self.started(id, boot, &Memories::default()))
            } else {
                Err(MetaRefusal::Exists)
            };
        }
        if self.removed.contains(&token) {
            return Err(MetaRefusal::Exists);
        }
        self.check_announcement(announcement, self.semantics)?;
        if self.nodes.len() >= NODES_MAX {
            return Err(MetaRefusal::Full);
        }
        let (node, boot) = self.add_node(token, announcement);
        self.touch();
        Ok(self.started(node, boot, &Memories::default()))
    }

    fn on_boot(
        &mut self,
        id: NodeId,
        token: Token,
        announcement: &Announcement,
        left_by: &[Token],
        mut memories: Memories,
    ) -> Result<MetaOutcome, MetaRefusal> {
        let node = self.nodes.get(&id).ok_or(MetaRefusal::Unknown)?;
        if node.goal == NodeGoal::Left {
            // As if it were no member any more, which it soon is.
            return Err(MetaRefusal::Unknown);
        }
        memories.forget_lost(&self.groups);
        if node.start == token && !node.is_fenced {
            let boot = node.boot;
            return Ok(self.started(id, boot, &memories));
        }
        self.check_announcement(announcement, self.semantics)?;
        // An older hand-over lacks what the node acknowledged after it. Which start was the last one is not known here where the meta
        // group has begun anew since.
        let is_last = node.start == token || left_by.contains(&node.start) || node.boot < self.recovered;
        if !is_last && !mutations::is(Mutation::HandoverUsedTwice) {
            memories.drop_keys();
        }
        // The meta group itself is never without memory: who applies this has some.
        let meta = &self.groups[&GroupRef::Meta];
        let voters: Vec<&GroupMember> = meta.voters().collect();
        if let [only] = voters.as_slice()
            && only.node == id
            && !memories.kept.contains(&(GroupRef::Meta, only.incarnation))
        {
            return Err(MetaRefusal::Malformed);
        }
        let boot = self.new_boot();
        // Where nothing is placed by what it said before, there is nothing to keep.
        let is_free = self.nodes.len() == 1 || !self.groups.values().any(|group| group.involves(id));
        let node = self.nodes.get_mut(&id).expect("it was found above");
        if is_free && node.placed != announcement.placed() {
            node.placed = announcement.placed();
            // It may be one of those for whom was placed, all the same.
            self.placed_factor = 0;
        }
        if node.announcement.peer != announcement.peer {
            node.joined = None;
        }
        node.announcement = announcement.clone();
        node.boot = boot;
        node.start = token;
        node.is_fenced = false;
        self.learn_kept(id, &memories.kept);
        for (&name, group) in &mut self.groups {
            let kept_before = group.former.len();
            // It speaks for itself again, of what it has by now.
            group.former.retain(|&former| former != id);
            let was_former = group.former.len() < kept_before;
            if let Some(source) = memories.last_resort(name, group, id) {
                go_on_unclean(group, id, source, &mut self.next_incarnation);
                continue;
            }
            // What it has may lack the end, and may be the best there is: it is kept until others are known to have all.
            let has_unclean = group
                .members
                .iter()
                .any(|member| member.node == id && memories.unclean.contains(&(name, member.incarnation)));
            let keeps_former = (was_former || group.is_over()) && memories.has_aside(name, group);
            if (has_unclean || keeps_former) && group.former.len() < MEMBERS_MAX {
                group.former.push(id);
                group.former.sort_unstable();
            }
            lose_memory(group, id, &mut self.next_incarnation, |incarnation| {
                memories.kept.contains(&(name, incarnation)) || mutations::is(Mutation::AmnesiacVote)
            });
            // Who was to keep what there was before has not.
            if group.former.len() < kept_before && group.has_nobody_left() {
                begin_anew(group, id, None, &mut self.next_incarnation);
            }
        }
        self.touch();
        Ok(self.started(id, boot, &memories))
    }

    /// What a node has kept of groups that are unheard, and that is not known here, takes the place of what is: the node knows
    /// better what it had.
    fn learn_kept(&mut self, id: NodeId, kept: &BTreeSet<(GroupRef, Incarnation)>) {
        if !self.groups.values().any(|group| group.is_unheard) {
            return;
        }
        for &(name, incarnation) in kept {
            let is_its = |group: &Group| group.is_unheard && incarnation.0 < self.next_incarnation;
            if !self.groups.get(&name).is_some_and(is_its)
                || self
                    .groups
                    .values()
                    .any(|group| names_any(group, &[incarnation].into()))
            {
                continue;
            }
            let group = self.groups.get_mut(&name).expect("it was found above");
            let role = group.members.iter().find(|member| member.node == id);
            let role = role.map_or(MemberRole::Learner, |member| member.role);
            group.members.retain(|member| member.node != id);
            group.members.push(GroupMember {
                incarnation,
                node: id,
                role,
            });
            group.members.sort_unstable();
            let members = &group.members;
            group
                .lost
                .retain(|lost| members.iter().any(|member| member.incarnation == *lost));
        }
    }

    fn started(&self, node: NodeId, boot: Boot, memories: &Memories) -> MetaOutcome {
        let kept = &memories.kept;
        let mut replicas = Vec::new();
        // Of one that is over nobody has a replica. So whoever starts again does not go on in a generation that it has said to be over
        // for it, whatever its disk remembers.
        let going = self.groups.iter();
        for (&name, group) in going.filter(|(_, group)| !group.is_over()) {
            let mut begin = |incarnation, beginning| {
                replicas.push(AssignedReplica {
                    group: name,
                    generation: group.generation,
                    incarnation,
                    beginning,
                });
            };
            if let Some(member) = group.member_on(node) {
                let source = group.recovered_from.filter(|&of| memories.has(name, of));
                let beginning = match (member.role, source) {
                    _ if kept.contains(&(name, member.incarnation)) => Beginning::Kept,
                    (MemberRole::Voter, Some(of)) => Beginning::Recovered { of },
                    (MemberRole::Voter, None) => Beginning::BootstrapReplica,
                    (MemberRole::Learner, _) => Beginning::Learner,
                };
                begin(member.incarnation, beginning);
            }
            if let Some(expected) = group.expected_on(node) {
                let is_kept = kept.contains(&(name, expected.incarnation));
                let beginning = if is_kept {
                    Beginning::Kept
                } else {
                    Beginning::Learner
                };
                begin(expected.incarnation, beginning);
            }
        }
        MetaOutcome::Started { node, boot, replicas }
    }

    fn on_fence(&mut self, boot: Boot) -> Result<MetaOutcome, MetaRefusal> {
        if boot.0 >= self.next_boot {
            return Err(MetaRefusal::Unknown);
        }
        let node = self.nodes.values_mut().find(|node| node.boot == boot);
        // That of a node which has gone, or has another one, is dead as it is.
        if let Some(node) = node.filter(|node| !node.is_fenced) {
            node.is_fenced = true;
            self.permits.retain(|_, permit| permit.boot != boot);
            self.touch();
        }
        Ok(MetaOutcome::Done)
    }

    fn on_gone(&mut self, boot: Boot) -> Result<MetaOutcome, MetaRefusal> {
        if boot.0 >= self.next_boot {
            return Err(MetaRefusal::Unknown);
        }
        let Some((&id, _)) = self.nodes.iter().find(|(_, node)| node.boot == boot) else {
            return Ok(MetaOutcome::Done);
        };
        if !self.can_spare(id) {
            return Err(MetaRefusal::Last);
        }
        for group in self.groups.values_mut() {
            give_up_memory(group, id);
        }
        let node = self.nodes.get_mut(&id).expect("it was found above");
        node.is_fenced = true;
        self.permits.remove(&id);
        self.touch();
        Ok(MetaOutcome::Done)
    }

    /// Whether the meta group has a majority without what a node has of it: who decides that the node is gone must be able to
    /// decide the next thing too.
    pub(crate) fn can_spare(&self, node: NodeId) -> bool {
        let mut meta = self.groups[&GroupRef::Meta].clone();
        give_up_memory(&mut meta, node);
        meta.has_majority()
    }

    fn on_report(&mut self, reports: &[Report]) -> Result<MetaOutcome, MetaRefusal> {
        let mut named = BTreeSet::new();
        let mut new_here = BTreeSet::new();
        for report in reports {
            let group = self.groups.get(&report.group).ok_or(MetaRefusal::Unknown)?;
            if !named.insert(report.group) {
                return Err(MetaRefusal::Malformed);
            }
            if !is_news(group, report) {
                continue;
            }
            let incarnations: BTreeSet<Incarnation> =
                report.members.iter().map(|member| member.incarnation).collect();
            let is_whole = incarnations.len() == report.members.len()
                && report.members.len() <= MEMBERS_MAX
                && report
                    .members
                    .iter()
                    .any(|member| member.role == MemberRole::Voter);
            let were_given_out = incarnations
                .iter()
                .all(|incarnation| incarnation.0 < self.next_incarnation);
            if !is_whole || !were_given_out {
                return Err(MetaRefusal::Malformed);
            }
            let new = incarnations.into_iter().filter(|&incarnation| {
                let is_member = group
                    .members
                    .iter()
                    .any(|member| member.incarnation == incarnation);
                let is_expected = group
                    .expected
                    .iter()
                    .any(|expected| expected.incarnation == incarnation);
                !is_member && !is_expected
            });
            for incarnation in new {
                if !new_here.insert(incarnation) {
                    return Err(MetaRefusal::Malformed);
                }
            }
        }
        // Rare: only here is it worth looking through all groups.
        if !new_here.is_empty() && self.groups.values().any(|group| names_any(group, &new_here)) {
            return Err(MetaRefusal::Malformed);
        }
        let mut is_changed = false;
        for report in reports {
            let group = self.groups.get_mut(&report.group).expect("it was found above");
            let (nodes, recovered) = (&self.nodes, self.recovered);
            is_changed |= take_report(group, report, |member| {
                let node = nodes.get(&member.node);
                node.is_some_and(|node| node.boot < recovered && !node.is_fenced)
            });
        }
        if is_changed {
            self.touch();
        }
        Ok(MetaOutcome::Done)
    }

    /// Whoever led, and whether it is unheard, stays as it is: this is no leader's word.
    fn on_unreported(
        &mut self,
        name: GroupRef,
        generation: u64,
        configuration: &Configuration,
    ) -> Result<MetaOutcome, MetaRefusal> {
        let group = self.groups.get(&name).ok_or(MetaRefusal::Unknown)?;
        if name == GroupRef::Meta {
            return Err(MetaRefusal::Unknown);
        }
        let is_later = generation == group.generation && configuration.index > group.index;
        if !is_later || group.has_majority_in(configuration) {
            return Err(MetaRefusal::NotNeeded);
        }
        let (term, leader, is_unheard) = (group.term, group.leader, group.is_unheard);
        let mut members = configuration.members.iter();
        let report = Report {
            group: name,
            generation,
            term,
            index: configuration.index,
            members: configuration.members.clone(),
            leader: leader
                .or_else(|| members.next().map(|member| member.node))
                .ok_or(MetaRefusal::Malformed)?,
        };
        self.on_report(&[report])?;
        let group = self.groups.get_mut(&name).expect("it was found above");
        (group.term, group.leader, group.is_unheard) = (term, leader, is_unheard);
        Ok(MetaOutcome::Done)
    }

    fn on_place(
        &mut self,
        members: &[NodeId],
        factor: u16,
        targets: &[Target],
    ) -> Result<MetaOutcome, MetaRefusal> {
        let is_node = |id: &NodeId| {
            let node = self.nodes.get(id);
            node.is_some_and(|node| node.goal != NodeGoal::Left)
        };
        let mut named = BTreeSet::new();
        for target in targets {
            let nodes: BTreeSet<NodeId> = target.nodes.iter().copied().collect();
            let is_right = named.insert(target.group)
                && nodes.len() == target.nodes.len()
                && (1..=TARGETS_MAX).contains(&nodes.len())
                && target.leader.is_none_or(|leader| nodes.contains(&leader));
            if !is_right {
                return Err(MetaRefusal::Malformed);
            }
            if !self.groups.contains_key(&target.group) || !target.nodes.iter().all(is_node) {
                return Err(MetaRefusal::Unknown);
            }
        }
        if !members.iter().all(is_node) {
            return Err(MetaRefusal::Unknown);
        }
        self.placed_for = members.iter().copied().collect();
        for target in targets {
            let group = self.groups.get_mut(&target.group).expect("it was found above");
            group.targets.clone_from(&target.nodes);
            group.leader_target = target.leader;
            // If the group has taken one in meanwhile, it will be reported, and is nobody's then.
            group
                .expected
                .retain(|expected| target.nodes.contains(&expected.node));
            group.let_go_of_former();
        }
        // A group that was added, or has begun anew, since that was thought out has its first replica alone: it is placed next.
        let replicas = usize::from(factor).min(self.placed_for.len());
        let founded = self.growth.founded;
        let is_added = |name: &GroupRef| matches!(name, GroupRef::Data(group) if founded > 0 && group.number() >= founded);
        let mut added = self.groups.iter().filter(|(name, _)| is_added(name));
        let is_whole = added.all(|(_, group)| group.targets.len() >= replicas);
        self.placed_factor = if is_whole { factor } else { 0 };
        self.touch();
        Ok(MetaOutcome::Done)
    }

    /// Fewer can always be wanted, as far as zones go. So can what is wanted already: nodes may have died since.
    fn on_set_factor(&mut self, factor: Factor) -> Result<MetaOutcome, MetaRefusal> {
        let (before, wanted) = (self.replicas_wanted(), self.replicas_by(factor));
        if wanted > before && self.staying().count() < usize::from(wanted) {
            return Err(MetaRefusal::TooFew);
        }
        // Who wants a single replica knows that it bears nothing.
        let is_any_borne = wanted > 1 && wanted != before && bears_loss_of_zone(self, before);
        if is_any_borne && !bears_loss_of_zone(self, wanted) {
            return Err(MetaRefusal::Zones);
        }
        self.factor = factor;
        if wanted != before {
            self.touch();
            self.resize = Some(Resize { since: self.epoch });
        }
        Ok(MetaOutcome::Set {
            version: self.epoch.0,
        })
    }

    fn on_rebalance(&mut self) -> Result<MetaOutcome, MetaRefusal> {
        if self.rebalance.is_none_or(|rebalance| rebalance.is_placed) {
            self.touch();
            self.rebalance = Some(Rebalance {
                since: self.epoch,
                is_placed: false,
            });
        }
        Ok(MetaOutcome::Set {
            version: self.epoch.0,
        })
    }

    /// A node may have started with another zone since the placement was computed, and all may be paused since: then it is computed
    /// again.
    fn on_place_anew(
        &mut self,
        since: Epoch,
        members: &[(NodeId, Placed)],
        factor: u16,
        targets: &[Target],
    ) -> Result<MetaOutcome, MetaRefusal> {
        let is_meant = |rebalance: &Rebalance| rebalance.since == since && !rebalance.is_placed;
        let says = |(id, placed): &(NodeId, Placed)| {
            let node = self.nodes.get(id);
            node.is_some_and(|node| node.announcement.placed() == *placed)
        };
        if !self.rebalance.as_ref().is_some_and(is_meant) || self.pause.is_some() || !members.iter().all(says)
        {
            return Err(MetaRefusal::NotNeeded);
        }
        let ids: Vec<NodeId> = members.iter().map(|(id, _)| *id).collect();
        self.on_place(&ids, factor, targets)?;
        for node in self.nodes.values_mut() {
            node.placed = node.announcement.placed();
        }
        self.rebalance = Some(Rebalance {
            since,
            is_placed: true,
        });
        Ok(MetaOutcome::Done)
    }

    fn on_settle(&mut self, since: Epoch) -> Result<MetaOutcome, MetaRefusal> {
        let is_meant = |rebalance: &Rebalance| rebalance.since == since && rebalance.is_placed;
        let is_rebalanced = self.rebalance.as_ref().is_some_and(is_meant);
        let is_resized =
            self.resize.is_some_and(|resize| resize.since == since) && self.is_placed_for_wanted();
        if !(is_rebalanced || is_resized) || self.moves_left() > 0 {
            return Err(MetaRefusal::NotNeeded);
        }
        if is_rebalanced {
            self.rebalance = None;
        }
        if is_resized {
            self.resize = None;
        }
        self.touch();
        Ok(MetaOutcome::Done)
    }

    /// What only leaders know is looked at before it is proposed (`meta/leading.rs`). What is committed meanwhile, another permission
    /// first of all, is known here.
    fn on_permit_stop(&mut self, boot: Boot, seconds: u64) -> Result<MetaOutcome, MetaRefusal> {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(_, node)| node.boot == boot && !node.is_fenced);
        let (&id, node) = found.ok_or(MetaRefusal::Unknown)?;
        if !(1..=PERMIT_SECONDS_MAX).contains(&seconds) {
            return Err(MetaRefusal::Malformed);
        }
        if node.goal == NodeGoal::Left {
            return Err(MetaRefusal::HasLeft);
        }
        let mut lent = self.permits.keys();
        if lent.any(|&other| other != id && share_group(self, id, other))
            && !mutations::is(Mutation::TwoPermits)
        {
            return Err(MetaRefusal::Lent);
        }
        if is_stop_risky(self, id) {
            return Err(MetaRefusal::AtRisk);
        }
        self.touch();
        let permit = StopPermit {
            boot,
            since: self.epoch,
            seconds,
        };
        self.permits.insert(id, permit);
        Ok(MetaOutcome::Set {
            version: self.epoch.0,
        })
    }

    fn on_end_permit(&mut self, node: NodeId, since: Option<Epoch>) -> Result<MetaOutcome, MetaRefusal> {
        let is_meant = |permit: &StopPermit| since.is_none_or(|since| since == permit.since);
        if self.permits.get(&node).is_some_and(is_meant) {
            self.permits.remove(&node);
            self.touch();
        }
        Ok(MetaOutcome::Done)
    }

    fn on_add_replica(&mut self, name: GroupRef, node: NodeId) -> Result<MetaOutcome, MetaRefusal> {
        let is_safe = |group: &Group| may_add(self, group, node);
        if !self.groups.get(&name).is_none_or(is_safe) {
            return Err(MetaRefusal::NotNeeded);
        }
        let group = self.groups.get_mut(&name).ok_or(MetaRefusal::Unknown)?;
        if !group.targets.contains(&node) || group.member_on(node).is_some() || group.is_over() {
            return Err(MetaRefusal::NotNeeded);
        }
        let incarnation = match group.expected_on(node) {
            Some(expected) => expected.incarnation,
            None => {
                let incarnation = new_incarnation(&mut self.next_incarnation);
                group.expected.push(Expected { incarnation, node });
                incarnation
            }
        };
        let replica = AssignedReplica {
            group: name,
            generation: group.generation,
            incarnation,
            beginning: Beginning::Learner,
        };
        self.touch();
        Ok(MetaOutcome::Replica(replica))
    }

    fn on_set(&mut self, name: &str, value: &str) -> Result<MetaOutcome, MetaRefusal> {
        if name.len() > NAME_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(MetaRefusal::Malformed);
        }
        if name == DURABILITY {
            return self.on_set_durability(value);
        }
        if self.settings.len() >= SETTINGS_MAX && !self.settings.contains_key(name) {
            return Err(MetaRefusal::Full);
        }
        self.settings_version += 1;
        let setting = Setting {
            value: value.to_owned(),
            version: self.settings_version,
        };
        self.settings.insert(name.to_owned(), setting);
        Ok(MetaOutcome::Set {
            version: self.settings_version,
        })
    }

    /// The map says it, and not the settings: a node follows both, and there is one of it.
    fn on_set_durability(&mut self, value: &str) -> Result<MetaOutcome, MetaRefusal> {
        let durability = DurabilityMode::of_name(value).ok_or(MetaRefusal::Malformed)?;
        if self.durability != durability {
            self.durability = durability;
            self.touch();
        }
        Ok(MetaOutcome::Set {
            version: self.epoch.0,
        })
    }

    fn on_raise_semantics(&mut self, to: SemanticsVersion) -> Result<MetaOutcome, MetaRefusal> {
        let is_supported = self.nodes.values().all(|node| node.announcement.supports(to));
        if to < self.semantics || !is_supported {
            return Err(MetaRefusal::Semantics);
        }
        if to > self.semantics {
            self.semantics = to;
            self.touch();
        }
        Ok(MetaOutcome::Done)
    }

    fn on_set_goal(&mut self, ids: &[NodeId], goal: NodeGoal) -> Result<MetaOutcome, MetaRefusal> {
        let named: BTreeSet<NodeId> = ids.iter().copied().collect();
        if named.is_empty() || named.len() != ids.len() || goal == NodeGoal::Left {
            return Err(MetaRefusal::Malformed);
        }
        if !named.iter().all(|id| self.nodes.contains_key(id)) {
            return Err(MetaRefusal::Unknown);
        }
        // It may have ended already.
        let has_left = |id: &NodeId| self.nodes[id].goal == NodeGoal::Left;
        if goal != NodeGoal::Leaves && named.iter().any(has_left) {
            return Err(MetaRefusal::HasLeft);
        }
        let is_new = |id: &&NodeId| !self.nodes[*id].goal.is_draining();
        if goal.is_draining() && named.iter().any(|id| is_new(&id)) {
            let left = self.staying().filter(|id| !named.contains(id)).count();
            if left < usize::from(self.replicas_wanted()) {
                return Err(MetaRefusal::TooFew);
            }
        }
        let mut changed = BTreeSet::new();
        for &id in &named {
            let node = self.nodes.get_mut(&id).expect("it was found above");
            if node.goal != goal && node.goal != NodeGoal::Left {
                node.goal = goal;
                changed.insert(id);
            }
        }
        if goal == NodeGoal::Stays {
            self.keep_voters_on(&changed);
        }
        if !changed.is_empty() {
            self.touch();
        }
        Ok(MetaOutcome::Done)
    }

    /// Where these nodes still vote, they go on: nobody else is to take their places. Learners that were to are not wanted any more. It may
    /// be too much for a zone: what was placed so is placed again, which leaves everybody where that is right.
    fn keep_voters_on(&mut self, nodes: &BTreeSet<NodeId>) {
        let all = &self.nodes;
        let mut is_any = false;
        for group in self.groups.values_mut() {
            let is_voter = |id: NodeId| {
                let member = group.member_on(id);
                member.is_some_and(|member| member.role == MemberRole::Voter)
            };
            let mut targets = group.targets.clone();
            for &id in nodes
                .iter()
                .filter(|&&id| is_voter(id) && !group.targets.contains(&id))
            {
                let is_needless = |target: &NodeId| !is_voter(*target) && !all[target].goal.is_draining();
                if let Some(place) = targets.iter().position(is_needless) {
                    targets[place] = id;
                }
            }
            if targets != group.targets {
                is_any = true;
                group.leader_target = group.leader_target.filter(|leader| targets.contains(leader));
                group.expected.retain(|expected| targets.contains(&expected.node));
                group.targets = targets;
            }
        }
        if is_any {
            self.placed_factor = 0;
        }
    }

    fn on_dismiss(&mut self, id: NodeId) -> Result<MetaOutcome, MetaRefusal> {
        let node = self.nodes.get(&id).ok_or(MetaRefusal::Unknown)?;
        match node.goal {
            NodeGoal::Left => return Ok(MetaOutcome::Done),
            NodeGoal::Leaves => {}
            NodeGoal::Stays | NodeGoal::Drains => return Err(MetaRefusal::NotNeeded),
        }
        if self.holds_anything(id) {
            return Err(MetaRefusal::InUse);
        }
        let node = self.nodes.get_mut(&id).expect("it was found above");
        node.goal = NodeGoal::Left;
        self.touch();
        Ok(MetaOutcome::Done)
    }

    fn on_pause(&mut self, seconds: Option<u64>) -> Result<MetaOutcome, MetaRefusal> {
        self.touch();
        let since = self.epoch;
        self.pause = Some(MovePause { since, seconds });
        Ok(MetaOutcome::Done)
    }

    fn on_resume(&mut self, of: Option<Epoch>) -> Result<MetaOutcome, MetaRefusal> {
        let is_meant = |pause: &MovePause| of.is_none_or(|of| of == pause.since);
        if self.pause.as_ref().is_some_and(is_meant) {
            self.pause = None;
            self.touch();
        }
        Ok(MetaOutcome::Done)
    }

    fn on_replace(&mut self, boot: Boot, with: Option<NodeId>) -> Result<MetaOutcome, MetaRefusal> {
        let found = self.nodes.iter().find(|(_, node)| node.boot == boot);
        let (&id, node) = found.ok_or(MetaRefusal::Unknown)?;
        let has_left = node.goal == NodeGoal::Left;
        if with == Some(id) || has_left {
            return Err(MetaRefusal::Malformed);
        }
        if let Some(with) = with
            && !self.staying().any(|staying| staying == with)
        {
            return Err(MetaRefusal::Unknown);
        }
        let replaced = BTreeSet::from([id]);
        self.check_left_without(&replaced)?;
        if let Some(with) = with {
            self.put_in_place_of(id, with);
        }
        self.fence_all(&replaced);
        Ok(MetaOutcome::Done)
    }

    fn on_replace_together(&mut self, boots: &[Boot]) -> Result<MetaOutcome, MetaRefusal> {
        if self.semantics < SemanticsVersion::FORGET {
            return Err(MetaRefusal::Semantics);
        }
        let mut replaced = BTreeSet::new();
        for boot in boots {
            let found = self.nodes.iter().find(|(_, node)| node.boot == *boot);
            let (&id, node) = found.ok_or(MetaRefusal::Unknown)?;
            if node.goal == NodeGoal::Left || !replaced.insert(id) {
                return Err(MetaRefusal::Malformed);
            }
        }
        if replaced.is_empty() {
            return Err(MetaRefusal::Malformed);
        }
        self.check_left_without(&replaced)?;
        self.fence_all(&replaced);
        Ok(MetaOutcome::Done)
    }

    /// Whether enough nodes are left for all replicas if these are replaced.
    fn check_left_without(&self, replaced: &BTreeSet<NodeId>) -> Result<(), MetaRefusal> {
        let left = self
            .staying()
            .filter(|staying| !replaced.contains(staying))
            .count();
        let meta = &self.groups[&GroupRef::Meta].targets;
        // The meta group is not made smaller because nodes are away: their places would stay where they are.
        let meta_wanted = match meta.iter().any(|target| replaced.contains(target)) {
            true => meta.len().min(META_THREE),
            false => 1,
        };
        match left < meta_wanted.max(usize::from(self.replicas_wanted())) {
            true => Err(MetaRefusal::TooFew),
            false => Ok(()),
        }
    }

    /// The last starts of these nodes are dead.
    fn fence_all(&mut self, nodes: &BTreeSet<NodeId>) {
        for id in nodes {
            let node = self.nodes.get_mut(id).expect("whoever asks has found it");
            node.is_fenced = true;
            self.permits.remove(id);
        }
        self.touch();
    }

    /// That somebody leads the group is looked at before it is proposed (`meta/leading.rs`). What is committed meanwhile is known here.
    fn on_forget(
        &mut self,
        name: GroupRef,
        node: NodeId,
        generation: u64,
    ) -> Result<MetaOutcome, MetaRefusal> {
        if self.semantics < SemanticsVersion::FORGET {
            return Err(MetaRefusal::Semantics);
        }
        let group = self.groups.get_mut(&name).ok_or(MetaRefusal::Unknown)?;
        if name == GroupRef::Meta || group.generation != generation {
            return Err(MetaRefusal::Unknown);
        }
        let member = group.member_on(node);
        if member.is_some_and(|member| member.role == MemberRole::Voter) {
            return Err(MetaRefusal::InUse);
        }
        if !group.former.contains(&node) {
            return Err(MetaRefusal::NotNeeded);
        }
        // Before a leader has reported, the one that the group began anew with may not have begun.
        if group.is_unheard || group.index == 0 || !group.has_majority() {
            return Err(MetaRefusal::AtRisk);
        }
        group.former.retain(|former| *former != node);
        self.touch();
        Ok(MetaOutcome::Done)
    }

    /// What was to be on a node is to be on another one, as far as that one has no replica of the group. It is one of those for whom was
    /// placed then, also while all is paused. It may be too much for it, or for its zone: placing again says so, also if the other node
    /// is back before anybody is placed without it.
    fn put_in_place_of(&mut self, id: NodeId, with: NodeId) {
        // There are no more of these than nodes, with this one too.
        let nodes = &self.nodes;
        self.placed_for.retain(|known| nodes.contains_key(known));
        let mut is_any = false;
        for group in self.groups.values_mut() {
            let place = group.targets.iter().position(|target| *target == id);
            let Some(place) = place.filter(|_| !group.targets.contains(&with)) else {
                continue;
            };
            group.targets[place] = with;
            is_any = true;
            self.placed_for.insert(with);
            if group.leader_target == Some(id) {
                group.leader_target = Some(with);
            }
            group.expected.retain(|expected| expected.node != id);
        }
        if is_any && !mutations::is(Mutation::PutIsPlaced) {
            self.placed_factor = 0;
        }
    }

    /// Whether the node has, or is to have, a replica, or keeps what a group may need yet; or whether that is not known.
    pub(crate) fn holds_anything(&self, id: NodeId) -> bool {
        let mut groups = self.groups.values();
        groups.any(|group| group.involves(id) || group.former.contains(&id) || group.is_unheard)
    }

    fn on_remove(&mut self, id: NodeId) -> Result<MetaOutcome, MetaRefusal> {
        if !self.nodes.contains_key(&id) {
            return Err(MetaRefusal::Unknown);
        }
        if self.nodes.len() == 1 {
            return Err(MetaRefusal::Last);
        }
        if self.groups.values().any(|group| group.involves(id)) {
            return Err(MetaRefusal::InUse);
        }
        // A group would wait for the word of a node that can never give it.
        for group in self.groups.values_mut() {
            group.former.retain(|&former| former != id);
        }
        self.permits.remove(&id);
        if let Some(node) = self.nodes.remove(&id) {
            self.removed.push(node.join);
            let too_many = self.removed.len().saturating_sub(REMOVED_MAX);
            self.removed.drain(..too_many);
        }
        self.touch();
        Ok(MetaOutcome::Done)
    }

    fn on_give_up(
        &mut self,
        name: GroupRef,
        node: NodeId,
        incarnation: Incarnation,
    ) -> Result<MetaOutcome, MetaRefusal> {
        let group = self.groups.get_mut(&name).ok_or(MetaRefusal::Unknown)?;
        if name == GroupRef::Meta {
            return Err(MetaRefusal::Unknown);
        }
        if group.member_on(node).map(|member| member.incarnation) != Some(incarnation) {
            return Err(MetaRefusal::NotNeeded);
        }
        // Who says what the right state is must be able to go on with it.
        if !group.has_majority_without(incarnation) {
            return Err(MetaRefusal::Last);
        }
        lose_memory(group, node, &mut self.next_incarnation, |other| {
            other != incarnation
        });
        self.touch();
        Ok(MetaOutcome::Done)
    }

    fn on_end(&mut self, name: GroupRef, generation: u64) -> Result<MetaOutcome, MetaRefusal> {
        let group = self.groups.get_mut(&name).ok_or(MetaRefusal::Unknown)?;
        if name == GroupRef::Meta {
            return Err(MetaRefusal::Unknown);
        }
        let goes_on = generation == group.generation && !group.is_over() && !group.is_unheard;
        // Whoever leads has seen which voters are below their floors.
        let may_be_stranded = self.semantics >= SemanticsVersion::ENDED_BELOW_FLOORS && group.has_logs_left();
        if !goes_on || !(group.is_stranded() || may_be_stranded) {
            return Err(MetaRefusal::NotNeeded);
        }
        group.end();
        self.touch();
        Ok(MetaOutcome::Done)
    }

    fn on_recover(
        &mut self,
        name: GroupRef,
        node: NodeId,
        recovery_source: Option<Incarnation>,
    ) -> Result<MetaOutcome, MetaRefusal> {
        let group = self.groups.get_mut(&name).ok_or(MetaRefusal::Unknown)?;
        let has_left = self
            .nodes
            .get(&node)
            .is_none_or(|node| node.goal == NodeGoal::Left);
        if name == GroupRef::Meta || has_left {
            return Err(MetaRefusal::Unknown);
        }
        if let Some(recovery_source) = recovery_source {
            let is_member = !group.is_over()
                && group.member_on(node).map(|member| member.incarnation) == Some(recovery_source);
            // Of what is held from before, and of what is there while the group is unheard, the nodes alone know the names.
            let is_told = group.is_unheard || group.former.contains(&node);
            if !is_member && (!is_told || recovery_source.0 >= self.next_incarnation) {
                return Err(MetaRefusal::Unknown);
            }
        }
        if group.has_majority() {
            return Err(MetaRefusal::NotNeeded);
        }
        begin_anew(group, node, recovery_source, &mut self.next_incarnation);
        let replica = AssignedReplica {
            group: name,
            generation: group.generation,
            incarnation: group.members[0].incarnation,
            beginning: recovery_source.map_or(Beginning::BootstrapReplica, |of| Beginning::Recovered { of }),
        };
        self.touch();
        Ok(MetaOutcome::Replica(replica))
    }
}

impl State {
    /// The meta group begins anew with one voter, on a node of the cluster, and whatever is counted goes on after a leap. Answers
    /// the voter's identity, and the generation.
    pub(crate) fn recover_meta(&mut self, node: NodeId, leap: u64) -> (Incarnation, u64) {
        // There are no more nodes at a time than this; their numbers are read by people.
        self.next_node += NODES_MAX as u64;
        self.next_boot += leap;
        self.next_incarnation += leap;
        self.settings_version += leap;
        self.epoch.0 += leap;
        self.recovered = Boot(self.next_boot);
        // Who shares a group with whom is not known any more.
        self.permits.clear();
        for (&name, group) in &mut self.groups {
            if name != GroupRef::Meta {
                group.is_unheard = true;
                // Whoever was expected may have begun, and may be gone since.
                group.expected.clear();
            }
        }
        let meta = self.groups.get_mut(&GroupRef::Meta).expect("a cluster has one");
        begin_anew(meta, node, None, &mut self.next_incarnation);
        // The others' logs end when they hear of this.
        meta.former.clear();
        // Where it ought to be is computed again, from the nodes that are there then.
        meta.targets = vec![node];
        meta.leader_target = None;
        self.placed_factor = 0;
        (meta.members[0].incarnation, meta.generation)
    }
}

/// What a node still has when its process starts again.
#[derive(Default)]
struct Memories {
    /// All of what the replica had.
    kept: BTreeSet<(GroupRef, Incarnation)>,
    /// What may lack the end. Replicas of keys alone.
    unclean: BTreeSet<(GroupRef, Incarnation)>,
}

impl Memories {
    fn of(kept: &[(GroupRef, Incarnation)], unclean: &[(GroupRef, Incarnation)]) -> Memories {
        let unclean = unclean.iter().filter(|(name, _)| *name != GroupRef::Meta);
        Memories {
            kept: kept.iter().copied().collect(),
            unclean: unclean.copied().collect(),
        }
    }

    /// A replica that has lost its memory does not find it again: it may have been told others since, and what an earlier start left in
    /// the directory is not all it had.
    fn forget_lost(&mut self, groups: &BTreeMap<GroupRef, Group>) {
        let is_lost = |&(name, incarnation): &(GroupRef, Incarnation)| {
            let lost = groups.get(&name).map(|group| &group.lost);
            name != GroupRef::Meta && lost.is_some_and(|lost| lost.contains(&incarnation))
        };
        self.kept.retain(|one| !is_lost(one));
    }

    /// Only what it has of the meta group is left.
    fn drop_keys(&mut self) {
        self.kept.retain(|&(name, _)| name == GroupRef::Meta);
        self.unclean.clear();
    }

    fn has(&self, name: GroupRef, incarnation: Incarnation) -> bool {
        self.kept.contains(&(name, incarnation)) || self.unclean.contains(&(name, incarnation))
    }

    /// Whether it has something of a group besides a replica that has a part in it, or is to: that is set aside.
    fn has_aside(&self, name: GroupRef, group: &Group) -> bool {
        let has_part = |incarnation| {
            let its = &[incarnation].into();
            !group.is_over() && (names_any(group, its) || group.recovered_from == Some(incarnation))
        };
        let mut all = self.kept.iter().chain(&self.unclean);
        all.any(|&(its, incarnation)| its == name && !has_part(incarnation))
    }

    /// The unclean memory that a group goes on with because no voter has a better one: its only voter is on this node, and has
    /// this. It may not have begun with its own yet, or lost that beginning: then it is what it was to begin with.
    ///
    /// A lost member beside it may have voted, and another one that has its memory may know of that: these are asked first, as
    /// ever. Where nobody else has anything, there is nobody to ask. What is known of a group that is unheard may be old.
    fn last_resort(&self, name: GroupRef, group: &Group, node: NodeId) -> Option<Incarnation> {
        let mut voters = group.voters();
        let (Some(&only), None) = (voters.next(), voters.next()) else {
            return None;
        };
        if only.node != node || group.is_lost(only.incarnation) || group.is_unheard || group.is_over() {
            return None;
        }
        // One that was a learner may vote by now: as long as it has something, it is asked too (`reconciler.rs`).
        let mut others = group.members.iter().filter(|member| **member != only);
        let may_go_on = others.all(|other| group.is_lost(other.incarnation));
        let mut sources = [Some(only.incarnation), group.recovered_from]
            .into_iter()
            .flatten();
        if sources.clone().any(|source| self.kept.contains(&(name, source))) || !may_go_on {
            return None;
        }
        sources.find(|&source| self.unclean.contains(&(name, source)))
    }
}

/// By how much the generation of a group goes on that begins anew while it is unheard: the log of the meta group may lag behind as
/// many new beginnings of it, and each has a number of its own. More than anybody makes while one node is away.
const GENERATIONS_LEAP: u64 = 256;

/// Whether there are such a partition and such a group.
fn is_place(groups: Groups, partition: PartitionId, group: GroupId) -> bool {
    partition.number() < groups.partitions().get() && group.number() < groups.get()
}

fn new_incarnation(next: &mut u64) -> Incarnation {
    let incarnation = Incarnation(*next);
    *next += 1;
    incarnation
}

/// A node has no more of this group than what it kept: it has started again, or gave something up.
fn lose_memory(group: &mut Group, node: NodeId, next: &mut u64, is_kept: impl Fn(Incarnation) -> bool) {
    if let Some(expected) = group.expected.iter_mut().find(|expected| expected.node == node)
        && !is_kept(expected.incarnation)
    {
        expected.incarnation = new_incarnation(next);
    }
    let Some(&member) = group.member_on(node) else {
        return;
    };
    if is_kept(member.incarnation) || group.recovered_from.is_some_and(&is_kept) {
        return;
    }
    group.lost.push(member.incarnation);
    group.lost.sort_unstable();
    // A learner may be a voter by now, and its leader dead before it could say so: as long as one is left, it is asked
    // (`reconciler.rs`).
    if group.has_nobody_left() {
        // Nobody has what it had, so there is nothing to wait for.
        begin_anew(group, node, None, next);
        return;
    }
    if group.targets.contains(&node) && group.expected_on(node).is_none() && !group.is_over() {
        let incarnation = new_incarnation(next);
        group.expected.push(Expected { incarnation, node });
    }
}

/// A group begins anew with what its only voter, on this node, still has. Others may have heard what that lacks, and the voter
/// itself may have promised it: under its old name its log would contradict theirs.
fn go_on_unclean(group: &mut Group, node: NodeId, source: Incarnation, next: &mut u64) {
    let voters = group.voters().map(|voter| voter.incarnation);
    // Nothing is kept of it on this node but the source.
    let ended: Vec<Incarnation> = voters.filter(|&voter| voter != source).collect();
    group.lost.extend(ended);
    begin_anew(group, node, Some(source), next);
}

/// A node will not come back: nothing is to be there, and whatever was is lost. A group that had nobody else waits for
/// `Recover`, since there is no node yet to begin it anew on.
fn give_up_memory(group: &mut Group, node: NodeId) {
    group.expected.retain(|expected| expected.node != node);
    group.former.retain(|&former| former != node);
    if let Some(&member) = group.member_on(node) {
        group.lost.push(member.incarnation);
        group.lost.sort_unstable();
    }
}

/// One voter, another generation. A recovery source goes on under a new identity, so that nothing from before reaches it. Whoever else
/// has something keeps it until there are as many voters as there are to be: the one that was chosen may be lost before.
fn begin_anew(group: &mut Group, node: NodeId, recovery_source: Option<Incarnation>, next: &mut u64) {
    // A group that is unheard may have begun anew meanwhile, though not so often.
    group.generation += if group.is_unheard { GENERATIONS_LEAP } else { 1 };
    group.is_unheard = false;
    let others = group
        .members
        .iter()
        .filter(|member| !group.is_lost(member.incarnation) && Some(member.incarnation) != recovery_source);
    let before = group.former.iter().copied().filter(|&former| former != node);
    let mut former: Vec<NodeId> = others.map(|member| member.node).chain(before).collect();
    former.sort_unstable();
    former.dedup();
    former.truncate(MEMBERS_MAX);
    group.former = former;
    (group.term, group.index) = (0, 0);
    group.members = vec![GroupMember {
        incarnation: new_incarnation(next),
        node,
        role: MemberRole::Voter,
    }];
    group.lost.clear();
    group.expected.clear();
    group.recovered_from = recovery_source;
    group.leader = Some(node);
}

/// Whether a report names members that are not known yet. What the leader of a later term reports is the later one, at whatever
/// index: a replica that was given the state counts from there and not from the change of members that the state is behind, so
/// the leader before may have reported a greater index.
fn is_news(group: &Group, report: &Report) -> bool {
    if group.is_unheard {
        return report.generation >= group.generation;
    }
    let is_later = report.age() > group.age() && report.index != group.index;
    report.generation == group.generation && is_later
}

fn names_any(group: &Group, incarnations: &BTreeSet<Incarnation>) -> bool {
    let members = group.members.iter().map(|member| member.incarnation);
    let expected = group.expected.iter().map(|expected| expected.incarnation);
    members.chain(expected).any(|named| incarnations.contains(&named))
}

/// Whether anything changed. `has_gone_on` says whether a member's node has been there since before the meta group last began anew.
fn take_report(group: &mut Group, report: &Report, has_gone_on: impl Fn(&GroupMember) -> bool) -> bool {
    let mut is_changed = false;
    if is_news(group, report) {
        // Whatever is not known here is nobody's: it was expected once, and its node has started without it, or it is not a
        // target any more. Of a group that was unheard, it may as well be what its node has had all along.
        let is_unheard = std::mem::take(&mut group.is_unheard);
        let lost = report.members.iter();
        let is_learned = is_unheard && !mutations::is(Mutation::UnknownCalledLost);
        let lost = lost.filter(|member| !(is_learned && has_gone_on(member)));
        let mut lost: Vec<Incarnation> = lost
            .map(|member| member.incarnation)
            .filter(|&incarnation| {
                let is_member = group
                    .members
                    .iter()
                    .any(|member| member.incarnation == incarnation);
                let is_expected = group
                    .expected
                    .iter()
                    .any(|expected| expected.incarnation == incarnation);
                group.is_lost(incarnation) || (!is_member && !is_expected)
            })
            .collect();
        lost.sort_unstable();
        if report.generation > group.generation {
            // Those of before may have kept what they held.
            group.former = group.members.iter().map(|member| member.node).collect();
            group.former.sort_unstable();
            group.former.dedup();
            group.generation = report.generation;
        }
        if is_unheard {
            group.term = 0;
        }
        group.lost = lost;
        group.members.clone_from(&report.members);
        group.members.sort_unstable();
        let members = &group.members;
        group.expected.retain(|expected| {
            let mut members = members.iter();
            !members.any(|member| member.incarnation == expected.incarnation)
        });
        group.index = report.index;
        group.recovered_from = None;
        group.let_go_of_former();
        is_changed = true;
    }
    if report.generation == group.generation && report.age() >= group.age() {
        is_changed |= group.leader != Some(report.leader);
        group.term = report.term;
        group.leader = Some(report.leader);
    }
    is_changed
}

//! A group of keys without keys: who its members are, who leads it, whose memory is whole, and which partitions have come to it.
//!
//! Its leader carries out what the meta group orders, at once: a round of its log is short beside everything else. A learner is filled when
//! its node has given it room, and its turn has come there (`fleet.rs`).

use control::{GroupMember, GroupRef, GroupReport, MemberRole, Order, Report, majority};
use ids::{Incarnation, NodeId, PartitionId};
use std::collections::{BTreeMap, BTreeSet};

/// See the file's header.
#[derive(Clone)]
pub(super) struct StubGroup {
    pub(super) name: GroupRef,
    pub(super) generation: u64,
    pub(super) term: u64,
    pub(super) index: u64,
    pub(super) members: Vec<GroupMember>,
    pub(super) leader: Option<NodeId>,
    pub(super) filled: BTreeSet<Incarnation>,
    /// The partitions that have come here, and after how many moves.
    pub(super) hosted: BTreeMap<PartitionId, u32>,
}

impl StubGroup {
    /// One with a single voter, which leads it.
    pub(super) fn new(name: GroupRef, voter: GroupMember) -> StubGroup {
        StubGroup {
            name,
            generation: 0,
            term: 1,
            index: 1,
            members: vec![voter],
            leader: Some(voter.node),
            filled: [voter.incarnation].into(),
            hosted: BTreeMap::new(),
        }
    }

    /// One that was added, and that its node has not heard of yet.
    pub(super) fn unborn(name: GroupRef, voter: GroupMember) -> StubGroup {
        StubGroup {
            leader: None,
            ..StubGroup::new(name, voter)
        }
    }

    /// What its leader says of it; none if it has none.
    pub(super) fn report(&self) -> Option<GroupReport> {
        Some(GroupReport {
            report: Report {
                group: self.name,
                generation: self.generation,
                term: self.term,
                index: self.index,
                members: self.members.clone(),
                leader: self.leader?,
            },
            caught_up: self.filled.clone(),
            unfit: BTreeSet::new(),
            is_changing: false,
            is_light: true,
            hosted: self
                .hosted
                .iter()
                .map(|(partition, moves)| (*partition, *moves))
                .collect(),
        })
    }

    /// Carries out an order that was made for this configuration.
    pub(super) fn obey(&mut self, (generation, index): (u64, u64), order: &Order) {
        if (generation, index) != (self.generation, self.index) {
            return;
        }
        match order {
            Order::AddLearner { node, incarnation } => self.members.push(GroupMember {
                incarnation: *incarnation,
                node: *node,
                role: MemberRole::Learner,
            }),
            Order::Change { promote, remove } => {
                for member in &mut self.members {
                    if promote.contains(&member.incarnation) {
                        assert!(self.filled.contains(&member.incarnation), "who votes is filled");
                        member.role = MemberRole::Voter;
                    }
                }
                self.members
                    .retain(|member| !remove.contains(&member.incarnation));
                self.filled
                    .retain(|known| self.members.iter().any(|member| member.incarnation == *known));
            }
            Order::Transfer { to } => {
                let mut members = self.members.iter();
                if let Some(member) = members.find(|member| member.incarnation == *to) {
                    self.leader = Some(member.node);
                    self.term += 1;
                }
                return;
            }
        }
        self.index += 1;
    }

    /// Its leader is gone: of the voters on nodes that run one leads, if they are a majority. `led` says how many groups a node leads.
    pub(super) fn elect(&mut self, runs: impl Fn(NodeId) -> bool, led: impl Fn(NodeId) -> usize) {
        let voters = || {
            self.members
                .iter()
                .filter(|member| member.role == MemberRole::Voter)
        };
        let live: Vec<NodeId> = voters()
            .map(|voter| voter.node)
            .filter(|node| runs(*node))
            .collect();
        let next = live.iter().copied().min_by_key(|node| (led(*node), *node));
        self.leader = next.filter(|_| live.len() >= majority(voters().count()));
        self.term += 1;
    }
}

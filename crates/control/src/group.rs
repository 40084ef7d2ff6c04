//! Groups, as the meta group knows them.
//!
//! ```text
//!             AddReplica              AddLearner, reported        Change, reported
//!  (nothing) ------------> expected -----------------> learner ------------------> voter
//!                             |                           |                          |
//!                             | Place: not a target       | memory lost at a boot, or given up; or nobody knows it
//!                             v                           v                          v
//!                          (nothing)                    lost ----------------------- lost ---> removed, reported
//! ```
//!
//! What a group's members are is the group's own decision, in its log. Here stands what its leaders last reported of it, what
//! it ought to be, and the one thing that groups cannot know: whose memory is gone.
//!
//! ```text
//!           End: too few voters have not come back as others            Recover: with the best of what was set aside
//!  it goes on -------------------------------------------> it is over ---------------------------> the next generation
//! ```
//!
//! Of a group that is over the members stay as they were reported last. None of them has a part in it any more: what they hold is set
//! aside, and their nodes say where it ends.

use crate::recovery_source::Configuration;
use crate::wire::{Wire, wire_enum, wire_struct};
use codec::{DecodeError, Reader};
use ids::{GroupId, Incarnation, NodeId};
use mutations::Mutation;

/// Most members a group may report: more than two placements of six replicas. A longer report is refused.
pub const MEMBERS_MAX: usize = 16;

/// A Raft group: one of the data, or the meta group itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GroupRef {
    /// The group that holds the cluster's own state.
    Meta,
    /// A group of keys.
    Data(GroupId),
}

impl Wire for GroupRef {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            GroupRef::Meta => 0u64.put(out),
            GroupRef::Data(group) => (u64::from(group.number()) + 1).put(out),
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<GroupRef, DecodeError> {
        let number = u64::take(input)?;
        match number.checked_sub(1) {
            None => Ok(GroupRef::Meta),
            Some(number) => match u16::try_from(number) {
                Ok(number) => Ok(GroupRef::Data(GroupId::new(number))),
                Err(_) => Err(input.error("a group")),
            },
        }
    }
}

/// What a member is in its group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemberRole {
    /// It votes.
    Voter,
    /// It is given everything and asked nothing.
    Learner,
}

wire_enum!(MemberRole { 1 Voter {}, 2 Learner {} });

/// One replica that a group has in its configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupMember {
    /// Whose memory, and its name in Raft.
    pub incarnation: Incarnation,
    /// Where it is.
    pub node: NodeId,
    /// What it is.
    pub role: MemberRole,
}

wire_struct!(GroupMember {
    incarnation,
    node,
    role
});

/// A replica that a node is to have, and that its group has not taken in yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Expected {
    /// Given out for it.
    pub incarnation: Incarnation,
    /// Where it is to be.
    pub node: NodeId,
}

wire_struct!(Expected { incarnation, node });

/// One group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// How many times it began anew because its majority was gone. Reports of an earlier one are passed over.
    pub generation: u64,
    /// The term of the report that named the leader.
    pub term: u64,
    /// The place in the group's log of the report's configuration.
    pub index: u64,
    /// In ascending order.
    pub members: Vec<GroupMember>,
    /// Of the members those that have no memory any more. In ascending order.
    pub lost: Vec<Incarnation>,
    /// At most one for each target.
    pub expected: Vec<Expected>,
    /// Whose memory the only voter begins with, until the group reports that it goes on.
    pub recovered_from: Option<Incarnation>,
    /// Who led it when it last reported. None of a group of keys that is over ([`Group::is_over`]).
    pub leader: Option<NodeId>,
    /// Where it ought to be, the next node clockwise first.
    pub targets: Vec<NodeId>,
    /// Who ought to lead it.
    pub leader_target: Option<NodeId>,
    /// Whether nobody who leads it was heard since the meta group last began anew (`meta/recovered.rs`): what stands here may be
    /// old, and nobody gives anything up because of it.
    pub is_unheard: bool,
    /// The nodes that are to keep what they held of it before it began anew, or before their machines went down uncleanly: too few
    /// others have it since. In ascending order.
    pub former: Vec<NodeId>,
}

wire_struct!(Group {
    generation,
    term,
    index,
    members,
    lost,
    expected,
    recovered_from,
    leader,
    targets,
    leader_target,
    is_unheard,
    former,
});

impl Group {
    /// How old the report is that it knows: see [`Report::age`](crate::Report).
    pub(crate) fn age(&self) -> (u64, u64) {
        (self.term, self.index)
    }

    /// The replica with memory that the node has, as far as the group has reported.
    pub fn member_on(&self, node: NodeId) -> Option<&GroupMember> {
        let mut members = self.members.iter();
        members.find(|member| member.node == node && !self.is_lost(member.incarnation))
    }

    /// The replica that the node is to have.
    pub fn expected_on(&self, node: NodeId) -> Option<&Expected> {
        self.expected.iter().find(|expected| expected.node == node)
    }

    /// The members that vote, with memory or without.
    pub fn voters(&self) -> impl Iterator<Item = &GroupMember> {
        self.members
            .iter()
            .filter(|member| member.role == MemberRole::Voter)
    }

    /// Whether the member has no memory any more.
    pub fn is_lost(&self, incarnation: Incarnation) -> bool {
        self.lost.contains(&incarnation)
    }

    /// Whether its generation goes on, and more voters have their memory than have not. Without it the group stands still until `Recover`.
    pub fn has_majority(&self) -> bool {
        !self.is_over() && self.has_majority_left()
    }

    /// Whether more voters have their memory than have not.
    fn has_majority_left(&self) -> bool {
        let lost = self.voters().filter(|member| self.is_lost(member.incarnation));
        let count = self.voters().count();
        count - lost.count() >= majority(count)
    }

    /// Whether more voters still have theirs if this is what it has applied.
    pub(crate) fn has_majority_in(&self, configuration: &Configuration) -> bool {
        let mut later = self.clone();
        later.members.clone_from(&configuration.members);
        later.has_majority_left()
    }

    /// Whether its last generation has ended, and the next has not begun: it has no replicas, and `former` says who has what is left
    /// of them.
    pub fn is_over(&self) -> bool {
        self.leader.is_none() && !self.members.is_empty()
    }

    /// Whether so many of its voters came back as others, or not at all, that it stands still, and what they had synced is left, and
    /// may be asked for: no majority came back with nothing, and not all of them did. Of an even number, half are enough to stand still.
    pub(crate) fn is_stranded(&self) -> bool {
        let lost = self.voters().filter(|voter| self.is_lost(voter.incarnation));
        !self.has_majority_left() && self.has_logs_left() && self.emptied().count() < lost.count()
    }

    /// The voters that came back with nothing, or not at all.
    pub(crate) fn emptied(&self) -> impl Iterator<Item = &GroupMember> {
        self.voters()
            .filter(|voter| self.is_lost(voter.incarnation) && !self.former.contains(&voter.node))
    }

    /// Whether no majority of its voters came back with nothing.
    pub(crate) fn has_logs_left(&self) -> bool {
        self.emptied().count() < majority(self.voters().count())
    }

    /// Its generation is over, for good: whoever has something of it keeps that, and has no part in it any more.
    pub(crate) fn end(&mut self) {
        let lost = &self.lost;
        let left = self
            .members
            .iter()
            .filter(|member| !lost.contains(&member.incarnation));
        // The group may have taken in who was expected, and have had no leader since who could say so.
        let expected = self.expected.iter().map(|expected| expected.node);
        self.former.extend(left.map(|member| member.node).chain(expected));
        self.former.sort_unstable();
        self.former.dedup();
        self.former.truncate(MEMBERS_MAX);
        self.generation += 1;
        self.expected.clear();
        self.leader = None;
    }

    /// Whether its only voter has no memory any more, and nobody else has anything either: there is nothing to wait for.
    pub(crate) fn has_nobody_left(&self) -> bool {
        let is_anybody_left = self
            .members
            .iter()
            .any(|member| !self.is_lost(member.incarnation));
        let may_have = is_anybody_left || !self.former.is_empty() || self.is_unheard || self.is_over();
        self.voters().count() == 1 && !may_have
    }

    /// Whether that is still so if this replica has lost its memory, too.
    pub(crate) fn has_majority_without(&self, incarnation: Incarnation) -> bool {
        let mut without = self.clone();
        without.lost.push(incarnation);
        without.has_majority_left()
    }

    /// Lets go of what was held before it began anew, where it is not needed any more: on nodes that vote; and everywhere, once a
    /// leader has reported as many voters as there are to be.
    pub(crate) fn let_go_of_former(&mut self) {
        if self.is_over() {
            return;
        }
        let voters: Vec<NodeId> = self
            .voters()
            .filter(|voter| !self.is_lost(voter.incarnation))
            .map(|voter| voter.node)
            .collect();
        let votes = |node| voters.contains(node) || mutations::is(Mutation::FormerLetGoEarly);
        let is_whole = self.index > 0 && self.targets.iter().all(votes);
        self.former.retain(|node| !is_whole && !voters.contains(node));
    }

    /// How many of its replicas are not where they are to be: targets that do not vote, and members that are on none.
    pub(crate) fn moves_left(&self) -> usize {
        let votes = |node: &NodeId| {
            let member = self.member_on(*node);
            member.is_some_and(|member| member.role == MemberRole::Voter)
        };
        let missing = self.targets.iter().filter(|node| !votes(node)).count();
        let members = self.members.iter();
        missing.max(
            members
                .filter(|member| !self.targets.contains(&member.node))
                .count(),
        )
    }

    /// Whether the node has, or is to have, a replica of it.
    pub fn involves(&self, node: NodeId) -> bool {
        self.targets.contains(&node)
            || self.members.iter().any(|member| member.node == node)
            || self.expected.iter().any(|expected| expected.node == node)
    }
}

/// How many of so many voters are a majority.
pub fn majority(voters: usize) -> usize {
    voters / 2 + 1
}

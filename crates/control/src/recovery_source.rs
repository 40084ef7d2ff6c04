//! What is left of groups that nobody leads: one replica, as its own node knows it.
//!
//! Nothing of it is replicated. Nodes say it with their node heartbeats, and whoever leads the meta group tells all of them,
//! so that an operator can be shown, at any node, with what a group could begin anew; and so that it begins anew by itself
//! where nothing can be lost by that (`reconciler.rs`). Of a group that is led only that is spoken of which nodes keep from
//! before it began anew.

use crate::group::{Group, GroupMember, MemberRole};
use crate::wire::wire_struct;
use consensus::{Index, Term};
use ids::{GroupId, Incarnation, NodeId};

/// Most of one message, which is the longest list there is (`wire.rs`). What is above is left out.
pub(crate) const RECOVERY_SOURCES_MAX: usize = 4_096;

/// Who a group's members are from a place of its log on, as a replica has applied it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// The place, as in [`Report::index`](crate::Report).
    pub index: u64,
    /// The members. During a joint change those who vote in one of its halves are voters, and all others learners.
    pub members: Vec<GroupMember>,
}

wire_struct!(Configuration { index, members });

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoverySource {
    /// The group.
    pub group: GroupId,
    /// The generation that it belongs to: an earlier one than the group's if it is kept from before the group began anew.
    pub generation: u64,
    /// Where it is.
    pub node: NodeId,
    /// Whose memory.
    pub incarnation: Incarnation,
    /// The term of the last entry of its log. Of two logs the one with the later term, and then the longer one, has
    /// everything that was acknowledged and that the other has.
    pub term: Term,
    /// The place of that entry.
    pub last: Index,
    /// Up to where it is known to be committed, and applied.
    pub applied: Index,
    /// The voter that has no memory any more, as its node knows, if it is one: whatever that voter told anybody is in this log, or will never be.
    pub lost_voter: Option<Incarnation>,
    /// The configuration that it has applied, if others vote in it than its node's map says. During a joint change it is the half
    /// that those are in who will vote.
    pub unreported: Option<Configuration>,
    /// Who voted before the joint change of that configuration, or of the one in `voters`, as long as it has not ended: nobody leads
    /// without a majority of these too.
    pub outgoing: Vec<Incarnation>,
    /// Whether it is set aside: it has no part in its group any more, neither votes nor acknowledges, and what is said here of it is
    /// synced. That is a promise, which stands as long as this start of its node does; a later one speaks for itself.
    pub is_aside: bool,
    /// Of one that is set aside, who votes by the last change of members in its log, committed or not, and the place of that, as in
    /// [`Report::index`](crate::Report).
    pub voters: Vec<Incarnation>,
    /// See `voters`.
    pub changed_at: Index,
    /// Whether its log lacks nothing that was in it once, as far as is known: it was not damaged, or reaches its floor again
    /// (docs/decisions/0046).
    pub is_whole: bool,
}

wire_struct!(RecoverySource {
    group,
    generation,
    node,
    incarnation,
    term,
    last,
    applied,
    lost_voter,
    unreported,
    outgoing,
    is_aside,
    voters,
    changed_at,
    is_whole
});

impl RecoverySource {
    /// The configuration that the group stands still in, if what this replica has applied is one, and a later one than was reported.
    /// During a joint change it takes a majority of either half to lead, so that one half without it is enough to stand still.
    pub(crate) fn standstill(&self, group: &Group) -> Option<Configuration> {
        let will_vote = self.later_than(group)?;
        let voted = (!self.outgoing.is_empty()).then(|| {
            let mut voted = will_vote.clone();
            for member in &mut voted.members {
                member.role = match self.outgoing.contains(&member.incarnation) {
                    true => MemberRole::Voter,
                    false => MemberRole::Learner,
                };
            }
            voted
        });
        [Some(will_vote.clone()), voted]
            .into_iter()
            .flatten()
            .find(|half| !group.has_majority_in(half))
    }

    /// Those who vote in either half of a joint change that has not ended, as far as this replica knows and was reported.
    pub(crate) fn joint_voters(&self, group: &Group) -> impl Iterator<Item = &GroupMember> {
        let applied = self.unreported.iter();
        let joint = applied.filter(|applied| !self.outgoing.is_empty() && applied.index >= group.index);
        joint
            .flat_map(|joint| &joint.members)
            .filter(|member| member.role == MemberRole::Voter || self.outgoing.contains(&member.incarnation))
    }

    /// The configurations that may be in force by its log, and are later than what was reported: of a joint change both halves. Only a log
    /// of the generation that is over has such: who votes by an earlier one decides nothing any more, at whatever place that stands.
    pub(crate) fn in_question(&self, group: &Group) -> impl Iterator<Item = &[Incarnation]> {
        let is_reported = |voters: &[Incarnation]| {
            let is_one = |voter: &GroupMember| voters.contains(&voter.incarnation);
            voters.len() == group.voters().count() && group.voters().all(is_one)
        };
        let halves = [self.voters.as_slice(), self.outgoing.as_slice()];
        let of_last = group.generation - u64::from(group.is_over());
        let is_later = self.is_aside && self.generation >= of_last && self.changed_at.0 > group.index;
        halves
            .into_iter()
            .filter(move |half| is_later && !half.is_empty() && !is_reported(half))
    }

    /// The configuration that it has applied, if it is a later one than was reported.
    pub(crate) fn later_than(&self, group: &Group) -> Option<&Configuration> {
        let unreported = self.unreported.as_ref();
        unreported.filter(|configuration| configuration.index > group.index)
    }
}

//! What whoever reconciles has seen of the cluster. Nothing of it is replicated, and any part of it may be missing.

use crate::command::Report;
use crate::given_up::GivenUp;
use crate::group::{GroupRef, MemberRole};
use crate::recovery_source::RecoverySource;
use ids::{Host, Incarnation, NodeId, PartitionId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What was seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observations {
    /// For how long nothing was heard of a node; of the observer's own, no time. One that is missing here was not heard of
    /// since the observer began, or a moment ago and has no link any more: it is neither there nor gone.
    pub silence: BTreeMap<NodeId, Duration>,
    /// What groups' leaders say; shared with whoever keeps it, since there are thousands of them at each look.
    pub groups: BTreeMap<GroupRef, Arc<GroupReport>>,
    /// What they say that their groups have given away: which partitions, where to, and how often each had moved then.
    pub given: BTreeMap<GroupRef, Vec<(PartitionId, Host)>>,
    /// The partitions that some node knows to have moved more often than its map says, and how often.
    pub ahead: BTreeMap<PartitionId, u32>,
    /// What is left of groups that nobody leads.
    pub recovery_sources: Vec<RecoverySource>,
    /// Replicas that were given up although their nodes go on.
    pub given_up: Vec<GivenUp>,
    /// For how long the observer knows of the pause that there is.
    pub paused_for: Option<Duration>,
    /// By node that may stop, for how long the observer knows of that.
    pub permitted_for: BTreeMap<NodeId, Duration>,
    /// By node, for how long the observer knows of its last start.
    pub up_for: BTreeMap<NodeId, Duration>,
    /// For how long the observer knows that all nodes can follow the rules that they can follow now, if these are newer than those in force.
    pub raisable_for: Option<Duration>,
    /// By group, for how long the observer has heard of nobody who leads it. One that is led, or was a moment ago, is missing.
    pub unled_for: BTreeMap<GroupRef, Duration>,
}

/// What one group's leader says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupReport {
    /// Members and leader.
    pub report: Report,
    /// The members that have all, or nearly all, of the log. The leader is one of them.
    pub caught_up: BTreeSet<Incarnation>,
    /// The members whose nodes say that their disks are full, or too slow to lead with.
    pub unfit: BTreeSet<Incarnation>,
    /// Whether a change of members, or of the leader, is under way. Nothing more is asked of the group then.
    pub is_changing: bool,
    /// Whether its state is so small that a learner is filled in no time: nobody notices many of these at once.
    pub is_light: bool,
    /// The partitions that it hosts and was not founded with, or got back, each with how often it has moved.
    pub hosted: Vec<(PartitionId, u32)>,
}

impl GroupReport {
    /// Whether something about its members is soon to be otherwise: one is on its way to a vote, or a change is not known to
    /// have ended.
    pub fn is_settling(&self) -> bool {
        let mut members = self.report.members.iter();
        self.is_changing || members.any(|member| member.role == MemberRole::Learner)
    }
}

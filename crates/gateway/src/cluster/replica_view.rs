//! Replicas as whoever checks the invariants of a whole cluster sees them: by what they hold, not by what they say.

use super::Seats;
use crate::context::Context;
use consensus::Members;
use ids::{Boot, GroupId, Incarnation, Monotonic, PartitionCount, PartitionId};
use keyspace::{Keyspace, TransactionCounts};
use replica::{CodingCounts, Member, Replica};

/// One replica, between two turns.
#[derive(Clone, Copy)]
pub struct ReplicaView<'a> {
    /// Its group.
    pub group: GroupId,
    /// The generation of the group that it belongs to.
    pub generation: u64,
    /// Which replica.
    pub incarnation: Incarnation,
    replica: &'a Replica,
}

impl<'a> ReplicaView<'a> {
    /// This worker's replicas. Of a node that is to have none of a group, nothing is seen.
    pub(crate) fn all(seats: &'a Seats, cx: &'a Context) -> impl Iterator<Item = ReplicaView<'a>> {
        let layout = cx.view.layout.as_deref();
        let all = seats.seats.iter().zip(&cx.local.replicas);
        all.filter_map(move |(seat, replica)| {
            let group = layout?.group(replica.group());
            let alone = || {
                group
                    .seat_on(layout?.me)
                    .filter(|me| group.bootstrap_replica == Some(*me))
            };
            let incarnation = match replica.member() {
                Some(_) => seat.incarnation?,
                None if replica.has_log() => return None,
                None => alone()?,
            };
            Some(ReplicaView {
                group: replica.group(),
                generation: group.generation,
                incarnation,
                replica,
            })
        })
    }

    /// Its part in consensus; none in a group that nobody else has a part in.
    pub fn member(&self) -> Option<&'a Member> {
        self.replica.member()
    }

    /// The members as it knows them, if it is not the only one.
    pub fn members(&self) -> Option<&'a Members> {
        self.member().map(Member::members)
    }

    /// Whether it would answer a read from its own state at this moment.
    pub fn has_lease(&self, now: Monotonic) -> bool {
        self.member().is_some_and(|member| member.may_read(now))
    }

    /// Its data.
    pub fn keyspace(&self) -> &'a Keyspace {
        self.replica.keyspace()
    }

    /// What it keeps as fragments.
    pub fn coding_counts(&self) -> CodingCounts {
        self.replica.coding_counts()
    }

    /// Whether it hosts a partition.
    pub fn hosts(&self, partition: PartitionId) -> bool {
        self.replica.keyspace().hosts(partition)
    }

    /// The partitions that it hosts.
    pub fn hosted(&self) -> Vec<PartitionId> {
        self.replica.keyspace().hosted()
    }

    /// Whether it hosts any.
    pub fn hosts_any(&self) -> bool {
        !self.replica.keyspace().hosted().is_empty()
    }

    /// Those of them that have keys.
    pub fn partitions_in_use(&self) -> Vec<PartitionId> {
        self.replica.keyspace().partitions_in_use()
    }

    /// How many the cluster has.
    pub fn partition_count(&self) -> PartitionCount {
        self.replica.keyspace().partitions().cluster_count()
    }

    /// Of its data.
    pub fn state_hash(&self) -> u64 {
        self.replica.keyspace().state_hash()
    }

    /// What is kept of transactions in it for a boot, in words.
    pub fn kept_for(&self) -> impl Iterator<Item = (Boot, String)> {
        let keyspace = self.replica.keyspace();
        let waiting = keyspace.waiting_boots();
        let waiting = waiting.map(|boot| (boot, "a client that waits".to_owned()));
        keyspace.kept_for().chain(waiting)
    }

    /// How much of transactions is in it.
    pub fn transaction_counts(&self) -> TransactionCounts {
        self.replica.keyspace().transaction_counts()
    }

    /// How many hold locks in it and how many wait for them, and the oldest of those that hold some, at most `max`: for messages.
    pub fn locks_in_words(&self, max: usize) -> String {
        let keyspace = self.replica.keyspace();
        let TransactionCounts {
            prepared, waiting, ..
        } = keyspace.transaction_counts();
        let oldest = keyspace.oldest_transactions(max).into_iter();
        let oldest: Vec<String> = oldest
            .map(|open| {
                let state = if open.is_prepared { "prepared" } else { "has locks" };
                format!("{:?} {state}", open.txn)
            })
            .collect();
        format!("{prepared} hold locks, {waiting} wait, {oldest:?}")
    }

    /// Whether a transaction has voted here, and its end is not known.
    pub fn has_prepared(&self) -> bool {
        let keyspace = self.replica.keyspace();
        let oldest = keyspace.oldest_transactions(usize::MAX);
        oldest.iter().any(|open| open.is_prepared)
    }
}

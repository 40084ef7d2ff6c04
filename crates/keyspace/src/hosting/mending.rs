//! Partitions that no group hosts any more, or several, because a group has begun anew without what it had acknowledged.
//!
//! ```text
//!   what others know                      here                             mended
//!   given to this group, after c moves    unknown, or fewer than c         here, empty, after more than anybody knows of
//!   nobody hosts it after as many         here, after c                    here, after more than anybody knows of
//!   another group hosts it, after c       here, after fewer than c         gone there, after c
//! ```
//!
//! The meta group compares what leaders say (`control/mending.rs`). Here it is judged again, when the group is locked as a whole: nothing is
//! changed unless the group knows exactly what was said of it. A group that has lost nothing never does: whoever gave a partition to it had its vote,
//! which stands in its log before any order that followed from that; and so does its own vote to give one away.

use crate::Keyspace;
use crate::local::LeaderLocal;
use crate::partition_step::{Enter, PartitionMend};
use ids::{Boot, Host, PartitionId, SemanticsVersion, Whereabouts};
use mutations::Mutation;
use txn::TxnId;

/// That of a copy which nobody sends.
const NOBODY: TxnId = TxnId {
    boot: Boot(0),
    worker: 0,
    seq: 0,
    attempt: 0,
};

impl Keyspace {
    /// Where a partition is, as this group knows it.
    pub fn whereabouts(&self, partition: PartitionId) -> Whereabouts {
        if self.hosts(partition) {
            return Whereabouts::Here(self.moves_of(partition));
        }
        self.given_to(partition)
            .map_or(Whereabouts::Unknown, |(group, moves)| {
                Whereabouts::Gone(Host { group, moves })
            })
    }

    /// Those that have gone from here, and where to.
    pub fn given_away(&self) -> impl Iterator<Item = (PartitionId, Host)> {
        let given = self.hosting.changed.iter().flat_map(|changed| &changed.given);
        given.map(|(partition, given)| {
            let (group, moves) = (given.to, given.moves);
            (*partition, Host { group, moves })
        })
    }

    /// Whether the group knows of fewer moves of a partition than these. If not, whoever gives it has lost some.
    pub(super) fn knows_fewer_moves(&self, partition: PartitionId, moves: u32) -> bool {
        let is_looked_at = self.semantics() >= SemanticsVersion::PARTITIONS_MENDED;
        !is_looked_at || self.whereabouts(partition).moves() < Some(moves)
    }

    /// What this group is to vote for to know something else of a partition.
    pub fn plan_mend(
        &self,
        partition: PartitionId,
        found: Whereabouts,
        becomes: Whereabouts,
    ) -> PartitionMend {
        PartitionMend {
            partition,
            found,
            becomes,
            seed: self.seed_of(partition).unwrap_or(self.placing.seed()),
        }
    }

    /// Whether that is what is known here, and no copy of it arrives: its transaction may still be voted for.
    pub(super) fn may_mend(&self, mend: &PartitionMend) -> bool {
        let is_partition = mend.partition.number() < self.placing.range().cluster_count().get();
        let is_known =
            self.whereabouts(mend.partition) == mend.found || mutations::is(Mutation::MendedOnHearsay);
        let arrives = self
            .arrival()
            .is_some_and(|(_, partition)| partition == mend.partition);
        is_partition && is_known && !arrives && mend.is_newer()
    }

    /// What was voted for is decided. Since the vote the group was locked.
    pub(super) fn mend(&mut self, mend: PartitionMend, local: &mut LeaderLocal) {
        let PartitionMend {
            partition,
            becomes,
            seed,
            ..
        } = mend;
        let range = self.placing.range();
        match becomes {
            Whereabouts::Unknown => {}
            Whereabouts::Here(moves) if self.hosts(partition) => {
                self.lose_transfers();
                let hosted = self.hosting.change(range).hosted.get_mut(&partition);
                hosted.expect("it is hosted").moves = moves;
            }
            Whereabouts::Here(moves) => {
                self.end_arrival();
                self.begin_arrival(NOBODY, partition, seed);
                let empty = Enter {
                    partition,
                    moves,
                    pieces: 0,
                    time: self.time,
                    applied: self.applied,
                    swapped: Vec::new(),
                    records: Vec::new(),
                    requests: Vec::new(),
                };
                self.enter(empty, local);
            }
            Whereabouts::Gone(Host { group, moves }) => self.leave(partition, group, moves, local),
        }
    }
}

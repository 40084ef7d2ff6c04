//! A copy of one partition for the group that is to take it over: what the group that hosts it sends.
//!
//! ```text
//!   begin --next: More--> under way --next: Ready--> ready --the group is locked--> last: all that is left, and the copy is over
//!                             ^                        |  something changes
//!                             +------------------------+
//! ```
//!
//! It is a transfer of one partition, and no state.

use crate::Keyspace;
use crate::partition_step::Enter;
use crate::transfer::{ObjectsStep, Transfer};
use ids::{HashSeed, PartitionId};

/// One copy of a partition. See the file's header.
#[derive(Debug)]
pub struct PartitionCopy {
    partition: PartitionId,
    transfer: Transfer,
}

/// What comes next of a copy.
#[derive(PartialEq, Eq, Debug)]
pub enum PartitionCopyStep {
    /// These records.
    More(Vec<u8>),
    /// Nothing, until something changes.
    Ready,
    /// Nothing: values that are to be copied are gathered first, where they are kept as fragments.
    NotYet,
    /// Nothing: too much has changed, or the state was replaced. The copy is over, and may be begun again.
    Lost,
}

impl Keyspace {
    /// Begins to copy a partition that is hosted here; `None` if it is not, or there are as many transfers as may be.
    pub fn begin_partition_copy(&mut self, partition: PartitionId) -> Option<PartitionCopy> {
        let index = self.placing.range().index(partition);
        let index = index.filter(|_| self.hosts(partition))?;
        let transfer = Transfer::begin_partition(self, index)?;
        Some(PartitionCopy { partition, transfer })
    }

    /// By which seed the keys of a partition are ordered that is hosted here.
    pub fn seed_of(&self, partition: PartitionId) -> Option<HashSeed> {
        let index = self.placing.range().index(partition)?;
        Some(self.placing.seed_at(index))
    }
}

impl PartitionCopy {
    /// Which partition it is of.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// What comes next, of about so many bytes and one object more.
    pub fn next(&mut self, keyspace: &mut Keyspace, bytes_max: usize) -> PartitionCopyStep {
        match self.transfer.next_of_partition(keyspace, bytes_max) {
            ObjectsStep::More(records) => PartitionCopyStep::More(records),
            ObjectsStep::Ready => PartitionCopyStep::Ready,
            ObjectsStep::Lost => PartitionCopyStep::Lost,
        }
    }

    /// All that is left, and what goes with it, if the partition is locked from now on until it has moved; `None` if the copy is lost.
    /// It has been sent in so many pieces.
    pub fn last(self, keyspace: &mut Keyspace, pieces: u64) -> Option<Enter> {
        let records = self.transfer.last_of_partition(keyspace)?;
        let mut requests = Vec::new();
        keyspace.requests.encode(&mut requests);
        Some(Enter {
            partition: self.partition,
            moves: keyspace.moves_of(self.partition).saturating_add(1),
            pieces,
            time: keyspace.time(),
            applied: keyspace.applied(),
            swapped: keyspace
                .databases
                .iter()
                .take(ids::Db::KEPT.into())
                .map(|database| database.swapped())
                .collect(),
            records,
            requests,
        })
    }

    /// Gives it up.
    pub fn end(self, keyspace: &mut Keyspace) {
        self.transfer.end(keyspace);
    }
}

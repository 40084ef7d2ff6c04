//! Snapshots on their way to the disk, of any number of groups: what runs beside a worker.
//!
//! ```text
//!   SnapshotJob::Store ... Store with its point ------------> a file with a name --> SnapshotDone::Stored
//!   SnapshotJob::Receive ... Receive --> FinishReceived ----> a file with a name --> SnapshotDone::Finished
//! ```
//!
//! Jobs are carried out one after the other, in their order. Of one group one snapshot is written at a time: one that a leader
//! sends takes the place of one of the state here, which is about to be replaced.

use crate::disk::Disk;
use crate::error::StorageError;
use crate::snapshot_file::{SnapshotHead, SnapshotWriter};
use crate::snapshot_name::{SnapshotName, remove_snapshot};
use consensus::SnapshotPoint;
use ids::{ClusterId, GroupId, Incarnation, NodeId};
use std::collections::BTreeMap;

/// The most failures in a row of one group that nothing is said of: at one a second a quarter of an hour.
const FAILURES_UNTOLD_MAX: u64 = 1_024;

/// Which replica wants something, in which of its lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SnapshotOwner {
    /// Its group.
    pub group: GroupId,
    /// The replica.
    pub incarnation: Incarnation,
    /// The generation of the group that it belongs to.
    pub generation: u64,
    /// Which of its lives in this process.
    pub life: u64,
}

/// Something to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SnapshotJob {
    /// The next piece of the state here.
    Store {
        /// Whose.
        owner: SnapshotOwner,
        /// Which snapshot.
        snapshot: u64,
        /// Which piece.
        number: u64,
        /// With the last piece: what the state reflects.
        point: Option<SnapshotPoint>,
        /// The piece.
        bytes: Vec<u8>,
    },
    /// The next piece of what a leader sends.
    Receive {
        /// To whom.
        owner: SnapshotOwner,
        /// Who sends it.
        from: Incarnation,
        /// Which transfer of his.
        transfer: u64,
        /// Which piece.
        number: u64,
        /// The piece.
        bytes: Vec<u8>,
    },
    /// What a leader has sent is the replica's state, as of this point.
    FinishReceived {
        /// Whose.
        owner: SnapshotOwner,
        /// The point.
        point: SnapshotPoint,
    },
    /// What is being written of a group is not wanted any more.
    GiveUp {
        /// The group.
        group: GroupId,
    },
    /// These are not needed any more.
    Remove {
        /// Which.
        names: Vec<SnapshotName>,
    },
}

impl SnapshotJob {
    /// Bytes of data that are to be written.
    pub fn bytes(&self) -> usize {
        match self {
            SnapshotJob::Store { bytes, .. } | SnapshotJob::Receive { bytes, .. } => bytes.len(),
            SnapshotJob::FinishReceived { .. } | SnapshotJob::GiveUp { .. } | SnapshotJob::Remove { .. } => 0,
        }
    }
}

/// A snapshot that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredSnapshot {
    /// Its file.
    pub name: SnapshotName,
    /// What the state reflects.
    pub point: SnapshotPoint,
    /// Bytes of the state.
    pub bytes: u64,
}

/// What has become of a job that somebody waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SnapshotDone {
    /// A piece is written; with the last one, the file is kept.
    Stored {
        /// Whose.
        owner: SnapshotOwner,
        /// Of which snapshot.
        snapshot: u64,
        /// Which piece.
        number: u64,
        /// With the last one: what is kept.
        kept: Option<StoredSnapshot>,
    },
    /// A snapshot could not be written.
    NotStored {
        /// Whose.
        owner: SnapshotOwner,
        /// Which.
        snapshot: u64,
    },
    /// A piece of what a leader sends is written.
    Received {
        /// To whom.
        owner: SnapshotOwner,
        /// Who sends it.
        from: Incarnation,
        /// Which transfer of his.
        transfer: u64,
        /// Which piece.
        number: u64,
    },
    /// What a leader has sent is kept, or is not.
    Finished {
        /// Whose.
        owner: SnapshotOwner,
        /// What.
        kept: Option<StoredSnapshot>,
    },
}

impl SnapshotDone {
    /// The snapshot that counts since then, if one does.
    pub fn kept(&self) -> Option<&StoredSnapshot> {
        match self {
            SnapshotDone::Stored { kept, .. } | SnapshotDone::Finished { kept, .. } => kept.as_ref(),
            SnapshotDone::NotStored { .. } | SnapshotDone::Received { .. } => None,
        }
    }

    /// Whether a snapshot could not be written.
    pub fn has_failed(&self) -> bool {
        match self {
            SnapshotDone::NotStored { .. } | SnapshotDone::Finished { kept: None, .. } => true,
            SnapshotDone::Stored { .. } | SnapshotDone::Finished { .. } | SnapshotDone::Received { .. } => {
                false
            }
        }
    }
}

/// Which snapshot a file is going to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Here(u64),
    From(Incarnation, u64),
}

/// A file that is being written.
struct Writing<D: Disk> {
    life: u64,
    source: Source,
    /// The next piece.
    next: u64,
    writer: SnapshotWriter<D>,
}

/// See the file's header.
pub struct SnapshotStore<D: Disk> {
    disk: D,
    cluster: ClusterId,
    node: NodeId,
    writing: BTreeMap<GroupId, Writing<D>>,
    /// How many snapshots of a group could not be written since the last one that could.
    failures: BTreeMap<GroupId, u64>,
}

impl<D: Disk + Clone> SnapshotStore<D> {
    /// One that writes for `node` of `cluster`.
    pub fn new(disk: D, cluster: ClusterId, node: NodeId) -> SnapshotStore<D> {
        SnapshotStore {
            disk,
            cluster,
            node,
            writing: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Carries out a job. What fails is said, and told to whoever waits for it: he may ask again.
    pub fn run(&mut self, job: SnapshotJob) -> Option<SnapshotDone> {
        match job {
            SnapshotJob::Store {
                owner,
                snapshot,
                number,
                point,
                bytes,
            } => Some(match self.store(owner, snapshot, number, point, &bytes) {
                Ok(kept) => SnapshotDone::Stored {
                    owner,
                    snapshot,
                    number,
                    kept,
                },
                Err(()) => SnapshotDone::NotStored { owner, snapshot },
            }),
            SnapshotJob::Receive {
                owner,
                from,
                transfer,
                number,
                bytes,
            } => {
                let taken = self.piece(owner, Source::From(from, transfer), number, &bytes);
                // Who sends it begins again after a while.
                taken.is_ok().then_some(SnapshotDone::Received {
                    owner,
                    from,
                    transfer,
                    number,
                })
            }
            SnapshotJob::FinishReceived { owner, point } => {
                let is_received = |writing: &Writing<D>| {
                    writing.life == owner.life && matches!(writing.source, Source::From(..))
                };
                let is_there = self.writing.get(&owner.group).is_some_and(is_received);
                let kept = is_there.then(|| self.finish(owner, point)).flatten();
                Some(SnapshotDone::Finished { owner, kept })
            }
            SnapshotJob::GiveUp { group } => {
                self.give_up(group);
                None
            }
            SnapshotJob::Remove { names } => {
                for name in names {
                    if let Err(error) = remove_snapshot(&self.disk, &name) {
                        tracing::warn!(%error, "a snapshot that is not needed stays");
                    }
                }
                None
            }
        }
    }

    fn store(
        &mut self,
        owner: SnapshotOwner,
        snapshot: u64,
        number: u64,
        point: Option<SnapshotPoint>,
        bytes: &[u8],
    ) -> Result<Option<StoredSnapshot>, ()> {
        self.piece(owner, Source::Here(snapshot), number, bytes)?;
        match point {
            None => Ok(None),
            Some(point) => self.finish(owner, point).map(Some).ok_or(()),
        }
    }

    /// Writes a piece, if it is the next one.
    fn piece(&mut self, owner: SnapshotOwner, source: Source, number: u64, bytes: &[u8]) -> Result<(), ()> {
        let is_received = |writing: &Writing<D>| matches!(writing.source, Source::From(..));
        if number == 0 {
            let is_late = matches!(source, Source::Here(_))
                && self
                    .writing
                    .get(&owner.group)
                    .is_some_and(|writing| writing.life == owner.life && is_received(writing));
            if is_late {
                return Err(());
            }
            self.give_up(owner.group);
            let head = SnapshotHead {
                cluster: self.cluster,
                node: self.node,
                group: owner.group,
                incarnation: owner.incarnation,
            };
            let writer = SnapshotWriter::begin(self.disk.clone(), head);
            let writer = writer.map_err(|error| self.note_failure(owner.group, &error))?;
            let writing = Writing {
                life: owner.life,
                source,
                next: 0,
                writer,
            };
            self.writing.insert(owner.group, writing);
        }
        let its = self.writing.get_mut(&owner.group);
        let is_next = |writing: &&mut Writing<D>| {
            (writing.life, writing.source, writing.next) == (owner.life, source, number)
        };
        let Some(writing) = its.filter(is_next) else {
            return Err(());
        };
        writing.next += 1;
        if let Err(error) = writing.writer.chunk(bytes) {
            self.note_failure(owner.group, &error);
            self.give_up(owner.group);
            return Err(());
        }
        Ok(())
    }

    fn finish(&mut self, owner: SnapshotOwner, point: SnapshotPoint) -> Option<StoredSnapshot> {
        let writing = self.writing.remove(&owner.group)?;
        let bytes = writing.writer.raw_bytes();
        match writing.writer.finish(&point, owner.generation) {
            Ok(name) => {
                self.note_success(owner.group);
                Some(StoredSnapshot { name, point, bytes })
            }
            Err(error) => {
                self.note_failure(owner.group, &error);
                None
            }
        }
    }

    /// A full disk is told of once, and not every second.
    fn note_failure(&mut self, group: GroupId, error: &StorageError) {
        let failures = self.failures.entry(group).or_default();
        *failures += 1;
        if is_told(*failures) {
            tracing::error!(
                group = group.number(),
                failures = *failures,
                %error,
                "a snapshot cannot be written; it is tried again"
            );
        }
    }

    fn note_success(&mut self, group: GroupId) {
        if let Some(failures) = self.failures.remove(&group) {
            tracing::info!(
                group = group.number(),
                failures,
                "a snapshot was written again, of a group whose last ones could not be"
            );
        }
    }

    fn give_up(&mut self, group: GroupId) {
        if let Some(writing) = self.writing.remove(&group)
            && let Err(error) = writing.writer.abandon()
        {
            tracing::warn!(%error, "what was begun of a snapshot stays until the next start");
        }
    }
}

/// Whether it is told of a failure, the `count`th of a group in a row: of the first, and then after twice as many each time.
fn is_told(count: u64) -> bool {
    count.is_power_of_two() && count <= FAILURES_UNTOLD_MAX || count.is_multiple_of(FAILURES_UNTOLD_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_failures_the_first_is_told_and_then_fewer_and_fewer_but_never_none() {
        let told: Vec<u64> = (1..=4 * FAILURES_UNTOLD_MAX)
            .filter(|count| is_told(*count))
            .collect();
        assert_eq!(told[..6], [1, 2, 4, 8, 16, 32]);
        let gaps = told.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.clone().is_sorted(), "{told:?}");
        assert_eq!(gaps.max(), Some(FAILURES_UNTOLD_MAX));
    }
}

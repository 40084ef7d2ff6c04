//! What was found of the logs of earlier starts.

use super::segment;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::snapshot_name::SnapshotName;
use codec::Damage;
use consensus::{HardState, Index, LogEntry, SnapshotPoint, Term};
use ids::{GroupId, Incarnation};
use std::collections::BTreeMap;

/// What a log has of one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaLog {
    /// The group.
    pub group: GroupId,
    /// The replica.
    pub incarnation: Incarnation,
    /// The group's generation.
    pub generation: u64,
    /// What the entries come behind.
    pub start: SnapshotPoint,
    /// Term, vote and commit index.
    pub hard: HardState,
    /// In order, the first one right behind the start.
    pub entries: Vec<LogEntry>,
    /// What was in the log once, by term and place: until it reaches that, the replica does not campaign.
    pub floor: Option<(Term, Index)>,
}

/// What stands behind damage, can be read, and cannot be used: what came before it is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unused {
    /// Entries.
    pub entries: u64,
    /// Bytes of their data.
    pub bytes: u64,
}

/// What all logs on a disk hold together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FoundLogs {
    /// By group. What damage has cost is told by the floor.
    pub replicas: BTreeMap<GroupId, ReplicaLog>,
    /// The number of the start whose log each of them stands in.
    pub starts: BTreeMap<GroupId, u64>,
    /// Groups that damage concerns. One that is not among the replicas may have lost anything: its replica returns as a new one.
    pub damaged: BTreeMap<GroupId, Damage>,
    /// Of groups that damage concerns, what stands behind it.
    pub unused: BTreeMap<GroupId, Unused>,
    /// Damage that may have been of any group: one that stands nowhere here may have had a log.
    pub unclear: Option<Damage>,
    /// All damage, in the order in which it was met.
    pub damage: Vec<Damage>,
    /// The files of all logs, in the order in which they may go once new logs stand.
    pub segments: Vec<String>,
    /// Whether the logs of the last start say of everything in them that it was synced: nothing behind can have been lost.
    pub synced_to_end: bool,
    /// The number of the last start that has a log; 0 if none has.
    pub start: u64,
}

impl FoundLogs {
    /// Removes the files that were found, durably: all workers have logs of this start.
    ///
    /// # Errors
    /// What the disk answers. What is left is in order.
    pub fn drop_former<D: Disk>(&self, disk: &D) -> Result<(), StorageError> {
        drop_segments(disk, &self.segments)
    }
}

/// Removes files of earlier starts' logs, durably, in the order in which they were found.
///
/// # Errors
/// What the disk answers. What is left is in order.
pub fn drop_segments<D: Disk>(disk: &D, segments: &[String]) -> Result<(), StorageError> {
    for name in segments {
        disk.remove(name).map_err(StorageError::io("remove", name))?;
        // One that went out of turn would look lost, or let count what did not.
        if segment::parse_name(name).is_some_and(|name| name.is_segment) {
            disk.sync_names()
                .map_err(StorageError::io("sync the names beside", name))?;
        }
    }
    Ok(())
}

/// Whether there is a segment of any log. Only a node that has its identity begins one.
///
/// # Errors
/// What the disk answers.
pub fn has_segments<D: Disk>(disk: &D) -> Result<bool, StorageError> {
    let names = disk
        .names()
        .map_err(StorageError::io("list", "the data directory"))?;
    let mut names = names.iter().filter_map(|name| segment::parse_name(name));
    Ok(names.any(|name| name.is_segment))
}

/// Syncs files of earlier starts' logs: what a start reads there may be in the system's memory alone, and is lost with its power.
///
/// # Errors
/// What the disk answers.
pub fn sync_segments<D: Disk>(disk: &D, segments: &[String]) -> Result<(), StorageError> {
    for name in segments {
        let file = disk.open_to_write(name).map_err(StorageError::io("open", name))?;
        if let Some(mut file) = file {
            file.sync().map_err(StorageError::io("sync", name))?;
        }
    }
    Ok(())
}

/// Syncs all logs that are there, of whichever start.
///
/// # Errors
/// What the disk answers.
pub(crate) fn sync_logs<D: Disk>(disk: &D) -> Result<(), StorageError> {
    let names = disk.names().map_err(StorageError::io("list", "the directory"))?;
    let is_segment = |name: &String| segment::parse_name(name).is_some_and(|name| name.is_segment);
    let segments: Vec<String> = names.into_iter().filter(is_segment).collect();
    sync_segments(disk, &segments)
}

/// Removes the logs and the snapshots of all replicas, which nobody goes on with: what is left of them when another log begins would count.
///
/// # Errors
/// What the disk answers. Some may be gone.
pub fn remove_replicas<D: Disk>(disk: &D) -> Result<(), StorageError> {
    let names = disk.names().map_err(StorageError::io("list", "the directory"))?;
    let is_one = |name: &String| segment::parse_name(name).is_some() || SnapshotName::parse(name).is_some();
    let ours = names.iter().filter(|name| is_one(name));
    let mut last = None;
    for name in ours {
        disk.remove(name).map_err(StorageError::io("remove", name))?;
        last = Some(name);
    }
    if let Some(last) = last {
        disk.sync_names()
            .map_err(StorageError::io("sync the names beside", last))?;
    }
    Ok(())
}

//! Names of snapshots: which state of which replica a file of the directory holds.
//!
//! ```text
//!  snapshot-GROUP-INCARNATION-INDEX    whole and durable
//!  snapshot-GROUP-INCARNATION.new      being written, or left by whoever ended while writing it
//! ```
//!
//! All three are decimal with leading zeros, so that the order of names is that of groups, then incarnations, then places of
//! the log. A name has one spelling: what is spelled otherwise is somebody else's file and is left alone.

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use consensus::Index;
use ids::{GroupId, Incarnation};
use std::fmt;

const PREFIX: &str = "snapshot-";
const GROUP_DIGITS: usize = 5;
const DIGITS: usize = 20;

/// The name of a snapshot that counts. In the order of names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SnapshotName {
    /// Of this group.
    pub group: GroupId,
    /// The replica whose state it is.
    pub incarnation: Incarnation,
    /// The last entry of the log that the state reflects.
    pub index: Index,
}

impl SnapshotName {
    /// What a file's name says; `None` if it is no snapshot that counts.
    pub fn parse(name: &str) -> Option<SnapshotName> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let group = u16::try_from(number(parts.next()?, GROUP_DIGITS)?).ok()?;
        let incarnation = number(parts.next()?, DIGITS)?;
        let index = number(parts.next()?, DIGITS)?;
        parts.next().is_none().then_some(SnapshotName {
            group: GroupId::new(group),
            incarnation: Incarnation(incarnation),
            index: Index(index),
        })
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (group, incarnation, index) = (self.group.number(), self.incarnation.0, self.index.0);
        write!(
            f,
            "{PREFIX}{group:0GROUP_DIGITS$}-{incarnation:0DIGITS$}-{index:0DIGITS$}"
        )
    }
}

/// A number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// The name under which the next snapshot of a replica is written: one at a time.
pub(crate) fn unfinished(group: GroupId, incarnation: Incarnation) -> String {
    let (group, incarnation) = (group.number(), incarnation.0);
    format!("{PREFIX}{group:0GROUP_DIGITS$}-{incarnation:0DIGITS$}.new")
}

fn is_unfinished(name: &str) -> bool {
    let replica = name
        .strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(".new"));
    let parts = replica.and_then(|replica| replica.split_once('-'));
    parts.is_some_and(|(group, incarnation)| {
        number(group, GROUP_DIGITS).is_some() && number(incarnation, DIGITS).is_some()
    })
}

fn names(disk: &impl Disk) -> Result<Vec<String>, StorageError> {
    disk.names()
        .map_err(StorageError::io("list", "the names of snapshots"))
}

/// The snapshots that count, in order.
///
/// # Errors
/// What the disk answers.
pub fn snapshots(disk: &impl Disk) -> Result<Vec<SnapshotName>, StorageError> {
    let names = names(disk)?;
    let mut found: Vec<_> = names
        .iter()
        .filter_map(|name| SnapshotName::parse(name))
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// How many bytes a snapshot has; none if it is not there.
///
/// # Errors
/// What the disk answers.
pub fn snapshot_bytes(disk: &impl Disk, name: &SnapshotName) -> Result<u64, StorageError> {
    let name = name.to_string();
    let bytes = disk
        .open(&name)
        .and_then(|file| file.map_or(Ok(0), |file| file.size()));
    bytes.map_err(StorageError::io("look at", &name))
}

/// Removes a snapshot, durably, if it is there. Who reads it reads on.
///
/// # Errors
/// What the disk answers. It may be gone all the same.
pub fn remove_snapshot(disk: &impl Disk, name: &SnapshotName) -> Result<(), StorageError> {
    let name = name.to_string();
    disk.remove(&name).map_err(StorageError::io("remove", &name))?;
    disk.sync_names()
        .map_err(StorageError::io("sync the names beside", &name))
}

/// Removes what was left by those who ended while they wrote a snapshot: for a start, before anybody writes one. What the power
/// brings back is removed by the next start.
///
/// # Errors
/// What the disk answers.
pub fn remove_unfinished_snapshots(disk: &impl Disk) -> Result<(), StorageError> {
    for name in names(disk)?.iter().filter(|name| is_unfinished(name)) {
        disk.remove(name).map_err(StorageError::io("remove", name))?;
    }
    Ok(())
}

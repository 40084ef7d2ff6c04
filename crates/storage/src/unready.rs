//! Whether the node of a directory was ever ready.
//!
//! An empty file, there from before anything else is written until just before the node serves clients for the first time, or, where it keeps
//! logs, until all groups have begun theirs. As long as it is there, and no log either, what lies beside it was never used: a meta log
//! without an identity is that of a bootstrap that did not end, and a node that held nothing has lost nothing. Groups that have begun theirs
//! before all had are the exception: they may have acknowledged something, and the meta log says so
//! once they were reported, some 100 ms later.

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

const NAME: &str = "unready";

/// Whether the node was never ready.
///
/// # Errors
/// What the disk answers.
pub fn is_unready(disk: &impl Disk) -> Result<bool, StorageError> {
    let file = disk.open(NAME).map_err(StorageError::io("open", NAME))?;
    Ok(file.is_some())
}

/// A node is about to be born here.
///
/// # Errors
/// What the disk answers.
pub fn set_unready(disk: &impl Disk) -> Result<(), StorageError> {
    let mut file = disk.create(NAME).map_err(StorageError::io("create", NAME))?;
    file.sync().map_err(StorageError::io("sync", NAME))?;
    sync_names(disk)
}

/// The node is about to serve clients.
///
/// # Errors
/// What the disk answers. The node must not serve: what it is given could be taken for nothing by the next start.
pub fn set_ready(disk: &impl Disk) -> Result<(), StorageError> {
    if !is_unready(disk)? {
        return Ok(());
    }
    disk.remove(NAME).map_err(StorageError::io("remove", NAME))?;
    sync_names(disk)
}

fn sync_names(disk: &impl Disk) -> Result<(), StorageError> {
    disk.sync_names()
        .map_err(StorageError::io("sync the names beside", NAME))
}

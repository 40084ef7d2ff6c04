//! Whether the node of a directory has left its cluster.
//!
//! An empty file, written when the cluster has told the node that it may go. The node is no member any more, or soon is none: nobody
//! would let it in again, and what lies beside the file is of no use to anybody.

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

const NAME: &str = "left";

/// Whether the node has left.
///
/// # Errors
/// What the disk answers.
pub fn has_left(disk: &impl Disk) -> Result<bool, StorageError> {
    let file = disk.open(NAME).map_err(StorageError::io("open", NAME))?;
    Ok(file.is_some())
}

/// The node was told that it may go.
///
/// # Errors
/// What the disk answers.
pub fn set_left(disk: &impl Disk) -> Result<(), StorageError> {
    let mut file = disk.create(NAME).map_err(StorageError::io("create", NAME))?;
    file.sync().map_err(StorageError::io("sync", NAME))?;
    disk.sync_names()
        .map_err(StorageError::io("sync the names beside", NAME))
}

//! Files that are replaced as a whole.
//!
//! ```text
//!  create NAME.new --> append --> sync --> rename to NAME --> sync the names
//! ```
//!
//! Whenever it is interrupted, the name leads to all of the old content or to all of the new.

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// A file that is being written and has not got its name yet.
pub(crate) struct Replacement<'a, D: Disk> {
    disk: &'a D,
    name: &'a str,
    pub(crate) file: D::File,
}

/// The name under which a replacement is written.
pub(crate) fn new_name(name: &str) -> String {
    format!("{name}.new")
}

impl<'a, D: Disk> Replacement<'a, D> {
    pub(crate) fn begin(disk: &'a D, name: &'a str) -> Result<Self, StorageError> {
        let file = disk
            .create(&new_name(name))
            .map_err(StorageError::io("create", &new_name(name)))?;
        Ok(Replacement { disk, name, file })
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.file
            .append(bytes)
            .map_err(StorageError::io("write", &new_name(self.name)))
    }

    /// Gives the file its name; durably, and with all that was appended.
    pub(crate) fn finish(mut self) -> Result<D::File, StorageError> {
        finish(self.disk, self.name, &mut self.file)?;
        Ok(self.file)
    }
}

/// The last three steps.
pub(crate) fn finish<D: Disk>(disk: &D, name: &str, file: &mut D::File) -> Result<(), StorageError> {
    let new = new_name(name);
    file.sync().map_err(StorageError::io("sync", &new))?;
    disk.rename(&new, name)
        .map_err(StorageError::io("rename", &new))?;
    disk.sync_names()
        .map_err(StorageError::io("sync the directory of", name))
}

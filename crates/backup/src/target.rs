//! Where backups are kept.
//!
//! ```text
//!  parts/PPPPP-SHA256              the parts of all backups: one that is there is not written again
//!  backups/NAME/manifest.json      one for each backup, written last
//! ```

use std::io::Read;
use std::time::SystemTime;

use crate::{BackupError, PartName};

/// The folders of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetFolder {
    /// Parts.
    Parts,
    /// Manifests.
    Backups,
}

impl TargetFolder {
    /// As it stands in front of paths.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            TargetFolder::Parts => "parts/",
            TargetFolder::Backups => "backups/",
        }
    }
}

/// A file of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetFile {
    /// Its path in the target.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written last, if that is known.
    pub modified: Option<SystemTime>,
}

/// A place that keeps files. All paths are those above; files are written whole, and never changed.
pub trait BackupTarget: Sync {
    /// What people call it.
    fn name(&self) -> String;

    /// Looks whether files can be written, before anybody has work with what is to be in them.
    ///
    /// # Errors
    /// They cannot; as far as that is known without writing one.
    fn prepare(&self) -> Result<(), BackupError>;

    /// All whole files of a folder, in the order of their paths; none if there is no folder.
    ///
    /// # Errors
    /// In words that say what to do; as of all others.
    fn list(&self, folder: TargetFolder) -> Result<Vec<TargetFile>, BackupError>;

    /// A file, from its beginning.
    ///
    /// # Errors
    /// [`BackupError::Missing`] if it is not there.
    fn read(&self, path: &str) -> Result<Box<dyn Read + Send>, BackupError>;

    /// Writes a file of so many bytes, which `from` gives; durable when this returns. If `from` fails, or has other than so many
    /// bytes, there is no such file.
    ///
    /// # Errors
    /// What `from` said, if it failed.
    fn write(&self, path: &str, bytes: u64, from: &mut dyn Read) -> Result<(), BackupError>;

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// It is still there.
    fn remove(&self, path: &str) -> Result<(), BackupError>;

    /// Makes a file as young as one that was just written, where that can be done: `prune` spares what is young.
    ///
    /// # Errors
    /// [`BackupError::Missing`] if it is not there any more.
    fn refresh(&self, path: &str) -> Result<(), BackupError>;

    /// Bytes of a file; `None` if it is not there.
    ///
    /// # Errors
    /// It is not known.
    fn exists(&self, path: &str) -> Result<Option<u64>, BackupError>;
}

/// The path of a part.
pub(crate) fn part_path(name: &PartName) -> String {
    format!("{}{name}", TargetFolder::Parts.prefix())
}

/// The path of a manifest.
pub(crate) fn manifest_path(backup: &str) -> String {
    format!("{}{backup}/{MANIFEST}", TargetFolder::Backups.prefix())
}

/// The backup whose manifest has this path; `None` of any other file.
pub(crate) fn backup_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(TargetFolder::Backups.prefix())?;
    let name = rest.strip_suffix(MANIFEST)?.strip_suffix('/')?;
    crate::check_name(name).is_ok().then_some(name)
}

/// The part that has this path; `None` of any other file.
pub(crate) fn part_of(path: &str) -> Option<PartName> {
    path.strip_prefix(TargetFolder::Parts.prefix())?.parse().ok()
}

const MANIFEST: &str = "manifest.json";

//! What an operator is told when storage fails.

use codec::Damage;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why something could not be stored or read.
#[derive(Debug)]
pub enum StorageError {
    /// Another process uses the directory.
    Locked {
        /// The directory.
        directory: PathBuf,
        /// What the other process says of itself; empty if nothing.
        holder: String,
    },
    /// The system refused.
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        file: String,
        /// Its answer.
        error: io::Error,
    },
    /// A file does not hold what was once written.
    Damaged(Damage),
    /// It would be larger than its limit.
    TooLarge {
        /// Which file.
        file: String,
        /// Bytes it would have.
        bytes: u64,
        /// Bytes it may have.
        limit: u64,
    },
    /// A file that is needed to go on could not be made. Nothing was written; what there is can be used on.
    Full {
        /// Which file.
        file: String,
        /// The system's answer.
        error: io::Error,
    },
    /// A later version of Chorale wrote this file.
    Newer {
        /// Which file.
        file: String,
        /// The version of its format.
        version: u32,
    },
    /// An earlier write to this file failed. What is on disk is unknown, so nothing more is written.
    Failed {
        /// Which file.
        file: String,
    },
}

impl StorageError {
    /// For `map_err`: what was tried, and with which file.
    pub(crate) fn io(what: &'static str, file: &str) -> impl FnOnce(io::Error) -> StorageError {
        let file = file.to_owned();
        move |error| StorageError::Io { what, file, error }
    }
}

impl From<Damage> for StorageError {
    fn from(damage: Damage) -> StorageError {
        StorageError::Damaged(damage)
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorageError::Locked { directory, holder } if holder.is_empty() => write!(
                f,
                "the data directory {} is in use by another process",
                directory.display()
            ),
            StorageError::Locked { directory, holder } => write!(
                f,
                "the data directory {} is in use by {holder}",
                directory.display()
            ),
            StorageError::Io { what, file, error } => write!(f, "cannot {what} {file}: {error}"),
            StorageError::Damaged(damage) => damage.fmt(f),
            StorageError::TooLarge { file, bytes, limit } => {
                write!(f, "{file} would have {bytes} bytes; it may have {limit}")
            }
            StorageError::Full { file, error } => write!(f, "cannot make room for {file}: {error}"),
            StorageError::Newer { file, version } => write!(
                f,
                "{file} has version {version} of its format, which this version of Chorale cannot read"
            ),
            StorageError::Failed { file } => write!(
                f,
                "an earlier write to {file} failed: what is on disk is unknown, so nothing more is written"
            ),
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StorageError::Io { error, .. } | StorageError::Full { error, .. } => Some(error),
            _ => None,
        }
    }
}

//! What an operator is told when a backup cannot be made, read or restored.

use codec::Damage;
use std::fmt;
use std::io;

/// Why something of a backup did not succeed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackupError {
    /// A file does not hold what was once written: the others may.
    Damaged(Damage),
    /// It is not there.
    Missing(String),
    /// Somebody wanted it to stop.
    Interrupted,
    /// What will pass, such as a network that is out of order: it may be tried again.
    Passing(String),
    /// Anything else, in words that say what to do next.
    Failed(String),
}

impl BackupError {
    /// For `map_err`: what was tried, and with which file.
    pub(crate) fn io(what: &'static str, file: &str) -> impl FnOnce(io::Error) -> BackupError {
        let file = file.to_owned();
        move |error| match error.kind() {
            io::ErrorKind::NotFound => BackupError::Missing(file),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BackupError::Failed(format!(
                "cannot {what} {file}: {error}. Make room, for instance with --prune, and run it again: parts that are there \
                 already are not copied again"
            )),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => BackupError::Failed(
                format!("cannot {what} {file}: {error}. The user that does this must be allowed to"),
            ),
            // What a reader of our own had to say goes through as it is.
            _ => match error
                .get_ref()
                .and_then(|inner| inner.downcast_ref::<BackupError>())
            {
                Some(own) => own.clone(),
                None => BackupError::Failed(format!("cannot {what} {file}: {error}")),
            },
        }
    }

    /// The error of ours that is in this one.
    pub(crate) fn own(error: &io::Error) -> Option<BackupError> {
        let inner = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<BackupError>());
        inner.cloned()
    }

    pub(crate) fn damaged(
        file: &str,
        offset: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> BackupError {
        BackupError::Damaged(Damage::new(file, offset, expected, found))
    }
}

impl fmt::Display for BackupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupError::Damaged(damage) => damage.fmt(f),
            BackupError::Missing(file) => write!(f, "{file} is not there"),
            BackupError::Interrupted => write!(f, "interrupted"),
            BackupError::Passing(why) | BackupError::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for BackupError {}

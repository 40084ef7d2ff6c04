//! What an operator is told when a backup cannot be made, read or restored.

use std::fmt;
use std::io;

/// Why something of a backup did not succeed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BackupError {
    /// A file does not hold what was once written: the others may.
    Damaged(FileDamage),
    /// It is not there.
    Missing(String),
    /// Somebody wanted it to stop.
    Interrupted,
    /// What will pass, such as a network that is out of order: it may be tried again.
    Passing(String),
    /// Anything else, in words that say what to do next.
    Failed(String),
}

/// Where a file of a backup differs from what was written, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileDamage {
    /// The file.
    pub file: String,
    /// The first byte of the part that is wrong.
    pub offset: u64,
    /// What should stand there.
    pub expected: String,
    /// What does.
    pub found: String,
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
        BackupError::Damaged(FileDamage {
            file: file.to_owned(),
            offset,
            expected: expected.into(),
            found: found.into(),
        })
    }
}

impl fmt::Display for FileDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FileDamage {
            file,
            offset,
            expected,
            found,
        } = self;
        write!(
            f,
            "{file} is damaged at offset {offset}: expected {expected}, found {found}"
        )
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

//! What becomes of a start whose disk lacks what nobody else has.
//!
//! Other nodes fill a replica whose files are damaged, or gone, or a copy. A node alone would begin its groups empty, and what is left of
//! their files would go. So it does not start, as long as nobody says that it may: whatever is there stays as it is.

use crate::kept::Kept;
use control::HeldAlone;
use std::fmt;
use std::path::Path;
use storage::StorageError;

/// Why a start is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Of the disk.
    Storage(StorageError),
    /// Something is not there that was acknowledged.
    Lost(String),
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Refusal {
        Refusal::Storage(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Storage(error) => error.fmt(f),
            Refusal::Lost(what) => f.write_str(what),
        }
    }
}

/// What helps where it is to be gone on without.
const ADVICE: &str =
    "Nothing was changed. Bring the files back as they were, or restore a backup into a new cluster";

/// The mark of the last run is not there, and its logs are.
pub(crate) fn no_mark() -> Refusal {
    Refusal::Lost(format!(
        "run is missing, which says in what way the logs beside it were kept. {ADVICE}; or start once with --accept-data-loss yes: then \
         the groups of this node begin empty, and other nodes fill them, if there are any"
    ))
}

/// The cluster's own state is not there, and nobody else is known who could have it.
pub(crate) fn no_meta_log() -> Refusal {
    Refusal::Lost(format!(
        "meta-log is missing, which has the state of the cluster, and no other node is known. {ADVICE}; or name other nodes of the cluster with \
         --join"
    ))
}

/// All of it is a copy.
pub(crate) fn copied() -> Refusal {
    Refusal::Lost(format!(
        "it is a copy of a directory that a node has used: what the node acknowledged after it was copied is not there, and no other node \
         has it. {ADVICE}; or, if the original is gone or was not used since, start once with --accept-data-loss yes: then the node goes on with \
         the copy"
    ))
}

/// Looks whether all is there that the node alone has.
///
/// # Errors
/// It is not.
pub(crate) fn look(held: &HeldAlone, kept: &Kept, directory: &Path) -> Result<(), Refusal> {
    if held.groups.is_empty() {
        return Ok(());
    }
    if !kept.left_by.contains(&held.start) {
        return Err(Refusal::Lost(format!(
            "the logs of its groups and meta-log are of different starts: one of them is older than the other. {ADVICE}; or start once with \
             --accept-data-loss yes: then the groups begin empty"
        )));
    }
    let is_found = |(group, names): &(ids::GroupId, Vec<ids::Incarnation>)| {
        let mut images = kept.images.iter();
        images.any(|image| image.group == *group && names.contains(&image.incarnation))
    };
    let lost = held.groups.iter().filter(|held| !is_found(held));
    let lost: Vec<String> = lost.map(|(group, _)| group.number().to_string()).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let (count, of) = (lost.len(), held.groups.len());
    Err(Refusal::Lost(format!(
        "of {of} groups that no other node has, {count} cannot be gone on with, since files of theirs are damaged or gone: {}. \
         `chorale verify {}` says more. {ADVICE}; or start once with --accept-data-loss yes: then these groups begin empty, and what is left of their \
         files goes",
        lost.join(", "),
        directory.display()
    )))
}

//! A replica as an earlier start of the node kept it: a snapshot of its state, and its log behind that.
//!
//! ```text
//!   snapshot as of S  +  log: start <= S, ... S, S+1, ... last   -->   the state as of S, and the log from S+1 on
//! ```
//!
//! Of several snapshots the newest counts whose file is whole: each of them stands in a log that goes on behind it. All of a file is looked at before
//! anybody is told of the replica; its state is read later, where others serve clients meanwhile.

use crate::disk::Disk;
use crate::error::StorageError;
use crate::log::ReplicaLog;
use crate::snapshot_file::{SnapshotFooter, SnapshotReader};
use crate::snapshot_name::SnapshotName;
use consensus::{Saved, SnapshotPoint};
use ids::{ClusterId, GroupId, Incarnation, NodeId};
use keyspace::{Keyspace, SnapshotReceiver};

/// See the file's header.
pub struct StoredReplica {
    /// Its group.
    pub group: GroupId,
    /// Its name in the group.
    pub incarnation: Incarnation,
    /// How many times the group had begun anew when it began.
    pub generation: u64,
    /// What the state reflects.
    pub point: SnapshotPoint,
    /// Its log behind that, and what it must not forget besides.
    pub saved: Saved,
    /// Where the data are.
    pub snapshot: SnapshotName,
}

impl StoredReplica {
    /// Those of these snapshots that go with a log.
    pub fn snapshots_for<'a>(log: &ReplicaLog, names: &'a [SnapshotName]) -> Vec<&'a SnapshotName> {
        let is_its = |name: &&SnapshotName| {
            name.group == log.group && name.incarnation == log.incarnation && name.index >= log.start.index
        };
        names.iter().filter(is_its).collect()
    }

    /// Why a replica cannot go on if there are none.
    pub fn without_snapshot(log: &ReplicaLog) -> String {
        format!(
            "there is no snapshot of its state at place {} of its log",
            log.start.index.0
        )
    }

    /// Looks for the snapshot that goes with a log. `names` are those that are there.
    ///
    /// # Errors
    /// Why the replica cannot go on, in words.
    pub fn look<D: Disk>(
        disk: &D,
        cluster: ClusterId,
        node: NodeId,
        log: ReplicaLog,
        names: &[SnapshotName],
    ) -> Result<StoredReplica, String> {
        let mut names = StoredReplica::snapshots_for(&log, names);
        names.sort_unstable_by_key(|name| std::cmp::Reverse(name.index));
        let mut why = StoredReplica::without_snapshot(&log);
        for name in names {
            match look_at(disk, cluster, node, name) {
                Ok(footer) if footer.generation != log.generation => {
                    why = format!(
                        "{name} is of generation {} of the group, and its log of {}",
                        footer.generation, log.generation
                    );
                }
                Ok(footer) => return behind(log, footer.point, *name),
                Err(error) => {
                    tracing::error!(%error, "a snapshot cannot be read");
                    why = error.to_string();
                }
            }
        }
        Err(why)
    }

    /// Reads a state that was looked at.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    pub fn read_state<D: Disk>(
        disk: &D,
        cluster: ClusterId,
        node: NodeId,
        name: &SnapshotName,
    ) -> Result<Keyspace, String> {
        let in_words = |error: StorageError| error.to_string();
        let mut reader = SnapshotReader::open(disk, name, cluster, node).map_err(in_words)?;
        let mut receiver = SnapshotReceiver::new();
        while let Some(chunk) = reader.next_chunk().map_err(in_words)? {
            let taken = receiver.take(&chunk);
            taken.map_err(|error| format!("{name} holds a state that this build cannot read: {error}"))?;
        }
        receiver
            .finish()
            .ok_or_else(|| format!("{name} holds a part of a state"))
    }
}

/// Looks at all of a file.
fn look_at<D: Disk>(
    disk: &D,
    cluster: ClusterId,
    node: NodeId,
    name: &SnapshotName,
) -> Result<SnapshotFooter, StorageError> {
    let mut reader = SnapshotReader::open(disk, name, cluster, node)?;
    while reader.next_chunk()?.is_some() {}
    Ok(reader.footer().clone())
}

/// The log behind a state.
fn behind(log: ReplicaLog, point: SnapshotPoint, snapshot: SnapshotName) -> Result<StoredReplica, String> {
    let ReplicaLog {
        group,
        incarnation,
        generation,
        mut hard,
        mut entries,
        floor,
        start: _,
    } = log;
    // What the state reflects is committed, and so is all before it: another history there was never its own.
    let same = entries
        .iter()
        .find(|entry| entry.index == point.index)
        .is_none_or(|entry| entry.term == point.term);
    match same {
        true => entries.retain(|entry| entry.index > point.index),
        false => entries.clear(),
    }
    if let Some(first) = entries.first()
        && first.index.0 != point.index.0 + 1
    {
        return Err(format!(
            "its log goes on at place {}, and its state is that of {}",
            first.index.0, point.index.0
        ));
    }
    hard.commit = hard.commit.max(point.index);
    let last = entries
        .last()
        .map_or((point.term, point.index), |entry| (entry.term, entry.index));
    if hard.term < last.0 {
        (hard.term, hard.vote) = (last.0, None);
    }
    Ok(StoredReplica {
        group,
        incarnation,
        generation,
        point,
        saved: Saved {
            hard_state: hard,
            entries,
            // The state may reach what the log does not.
            floor: floor.filter(|floor| *floor > last),
        },
        snapshot,
    })
}

//! A replica as an earlier start of the node kept it: a snapshot of its state, and its log behind that.
//!
//! ```text
//!   snapshot as of S  +  log: start <= S, ... S, S+1, ... last   -->   the state as of S, and the log from S+1 on
//! ```
//!
//! Of several snapshots the newest that can be read counts: each of them stands in a log that goes on behind it.

use crate::disk::Disk;
use crate::error::StorageError;
use crate::log::ReplicaLog;
use crate::snapshot_file::SnapshotReader;
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
    /// The data.
    pub keyspace: Keyspace,
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

    /// Reads the state that goes with a log. `names` are the snapshots that are there.
    ///
    /// # Errors
    /// Why the replica cannot go on, in words.
    pub fn read<D: Disk>(
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
            match read_state(disk, cluster, node, name) {
                Ok((generation, ..)) if generation != log.generation => {
                    why = format!(
                        "{name} is of generation {generation} of the group, and its log of {}",
                        log.generation
                    );
                }
                Ok((_, point, keyspace)) => return behind(log, point, keyspace),
                Err(error) => {
                    tracing::error!(%error, "a snapshot cannot be read");
                    why = error;
                }
            }
        }
        Err(why)
    }
}

/// A state, with what it reflects and the generation of its group.
fn read_state<D: Disk>(
    disk: &D,
    cluster: ClusterId,
    node: NodeId,
    name: &SnapshotName,
) -> Result<(u64, SnapshotPoint, Keyspace), String> {
    let in_words = |error: StorageError| error.to_string();
    let mut reader = SnapshotReader::open(disk, name, cluster, node).map_err(in_words)?;
    let mut receiver = SnapshotReceiver::new();
    while let Some(chunk) = reader.next_chunk().map_err(in_words)? {
        let taken = receiver.take(&chunk);
        taken.map_err(|error| format!("{name} holds a state that this build cannot read: {error}"))?;
    }
    let footer = reader.footer();
    let (generation, point) = (footer.generation, footer.point.clone());
    let keyspace = receiver.finish();
    let keyspace = keyspace.ok_or_else(|| format!("{name} holds a part of a state"))?;
    Ok((generation, point, keyspace))
}

/// The log behind a state.
fn behind(log: ReplicaLog, point: SnapshotPoint, keyspace: Keyspace) -> Result<StoredReplica, String> {
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
        keyspace,
    })
}

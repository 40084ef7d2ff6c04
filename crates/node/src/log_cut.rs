//! Cutting the logs of a stopped node behind damage: what stands before it goes on as if there had never been more.
//!
//! ```text
//!   log of a group:   | intact | damaged | intact, as its tables say |
//!                     '- stays'- goes ------------------------------'
//! ```
//!
//! That is for groups of which nobody else has anything. A group with other voters is left as it is: its replica goes on with a floor, and
//! others fill it (docs/decisions/0046). Of one of whose log nothing is left the last snapshot stays, if there is one.

use crate::kept::{self, SEGMENT_BYTES};
use consensus::{HardState, Index, Payload, Term};
use ids::{ClusterId, DurabilityMode, GroupId, NodeId};
use std::path::Path;
use storage::{
    Damage, DataDirectory, DirectoryDisk, FoundLogs, Identity, LogIdentity, LogSettings, PeerBook,
    ReplicaLog, RunMark, SnapshotName, SnapshotReader, StorageError, Unused, WorkerLog,
};

/// What a cut takes, or has taken.
pub struct LogCut {
    /// This node.
    pub node: u64,
    /// The groups whose logs are damaged.
    pub groups: Vec<GroupCut>,
    /// Whether other nodes are in the cluster, as far as this one knows.
    pub has_company: bool,
    /// Whether it was done.
    pub is_done: bool,
}

/// What becomes of one group.
pub struct GroupCut {
    /// The group.
    pub group: u16,
    /// Where its log is damaged, in words.
    pub damage: String,
    /// What is left.
    pub left: GroupLeft,
    /// Entries behind the damage that can be read and not used, and the bytes of their data.
    pub unused: (u64, u64),
}

/// What is left of a group, by entries and their terms.
pub enum GroupLeft {
    /// Its log up to an entry. Its tables prove that it went on to another one, unless that is the same.
    Log {
        /// Index and term of the last intact entry.
        last: (u64, u64),
        /// What the tables prove was there.
        proven: (u64, u64),
    },
    /// Its state as of an entry.
    Snapshot {
        /// The entry.
        index: u64,
    },
    /// Nothing.
    Nothing,
    /// Others vote in it: nothing of it is cut.
    Others,
}

/// A group, with what is left of it.
struct Cut {
    group: GroupId,
    damage: Damage,
    unused: Unused,
    left: Left,
}

enum Left {
    /// With the floor that is to be forgotten.
    Log(Box<ReplicaLog>),
    Snapshot(Box<ReplicaLog>),
    Nothing,
    Others,
}

/// Cuts the damaged logs in the data directory of a stopped node; without `is_confirmed` only says what that would take.
///
/// # Errors
/// Why that cannot be, for an operator.
pub fn cut_logs(path: &Path, is_confirmed: bool) -> Result<LogCut, String> {
    let shown = path.display();
    if !path.is_dir() {
        return Err(format!("there is no directory {shown}"));
    }
    let directory = DataDirectory::open(path).map_err(|error| format!("{error}; stop the node first"))?;
    let disk = directory.disk();
    let in_words = |error: StorageError| error.to_string();
    let identity = Identity::read(&disk).map_err(in_words)?;
    let identity = identity.ok_or_else(|| format!("{shown} is not the data directory of a node"))?;
    let run = RunMark::read(&disk).map_err(in_words)?;
    let writes = |code| DurabilityMode::of_code(code).is_some_and(DurabilityMode::writes);
    let run = run.filter(|run| writes(run.mark.durability)).ok_or_else(|| {
        format!(
            "node {} keeps no logs on disk: there is nothing to cut",
            identity.node.0
        )
    })?;
    if run.is_copy {
        return Err(format!(
            "{shown} is a copy of a directory that a node has used: what it holds is not used, cut or not"
        ));
    }
    // The owner's token stands for a kernel only where what is not synced is lost with its process.
    let written_from = run.written_from(kept::kernel(&disk, run.mark.owner));
    let has_company = !PeerBook::read(&disk).map_err(in_words)?.peers.is_empty();
    let (cluster, node) = (identity.cluster, identity.node);
    let found = storage::read_logs(&disk, cluster, node, written_from).map_err(in_words)?;
    let cuts = cuts(&disk, (cluster, node), &found, has_company)?;
    let groups = cuts.iter().map(|cut| in_view(path, cut)).collect();
    let is_done = is_confirmed && cuts.iter().any(|cut| !matches!(cut.left, Left::Others));
    if is_done {
        let identity = LogIdentity {
            cluster,
            node,
            worker: 0,
            token: run.mark.owner,
            start: found.start + 1,
        };
        RunMark::doubt_upto(&disk, &run, identity.start).map_err(in_words)?;
        write(&disk, identity, &found, cuts).map_err(in_words)?;
    }
    Ok(LogCut {
        node: node.0,
        groups,
        has_company,
        is_done,
    })
}

fn cuts(
    disk: &DirectoryDisk,
    whose: (ClusterId, NodeId),
    found: &FoundLogs,
    has_company: bool,
) -> Result<Vec<Cut>, String> {
    let names = storage::snapshots(disk).map_err(|error| error.to_string())?;
    let cut = |(group, damage): (&GroupId, &Damage)| {
        let left = match found.replicas.get(group) {
            Some(log) if has_company && !is_alone(log) => Left::Others,
            Some(log) => Left::Log(Box::new(log.clone())),
            None => match last_snapshot(disk, whose, *group, &names) {
                Some(log) if has_company && !is_alone(&log) => Left::Others,
                Some(log) => Left::Snapshot(Box::new(log)),
                // Who voted in it is not known.
                None if has_company => Left::Others,
                None => Left::Nothing,
            },
        };
        Cut {
            group: *group,
            damage: damage.clone(),
            unused: found.unused.get(group).copied().unwrap_or_default(),
            left,
        }
    };
    Ok(found.damaged.iter().map(cut).collect())
}

/// Whether nobody else votes in the group, as far as what is left of its log says.
fn is_alone(log: &ReplicaLog) -> bool {
    let changes = |payload: &Payload| matches!(payload, Payload::Members(_));
    log.start.members.is_alone(log.incarnation) && !log.entries.iter().any(|entry| changes(&entry.payload))
}

/// The newest state of a group that can be read, as a log without entries.
fn last_snapshot(
    disk: &DirectoryDisk,
    (cluster, node): (ClusterId, NodeId),
    group: GroupId,
    names: &[SnapshotName],
) -> Option<ReplicaLog> {
    let mut names: Vec<&SnapshotName> = names.iter().filter(|name| name.group == group).collect();
    names.sort_unstable_by_key(|name| std::cmp::Reverse((name.incarnation, name.index)));
    names.into_iter().find_map(|name| {
        let mut reader = SnapshotReader::open(disk, name, cluster, node).ok()?;
        while reader.next_chunk().ok()?.is_some() {}
        let footer = reader.footer();
        Some(ReplicaLog {
            group,
            incarnation: name.incarnation,
            generation: footer.generation,
            hard: HardState {
                term: footer.point.term,
                vote: None,
                commit: footer.point.index,
            },
            start: footer.point.clone(),
            entries: Vec::new(),
            floor: None,
        })
    })
}

fn last(log: &ReplicaLog) -> (Term, Index) {
    let last = log.entries.last();
    last.map_or((log.start.term, log.start.index), |last| (last.term, last.index))
}

fn in_view(path: &Path, cut: &Cut) -> GroupCut {
    let place = |(term, index): (Term, Index)| (index.0, term.0);
    GroupCut {
        group: cut.group.number(),
        damage: format!("{}/{}", path.display(), cut.damage),
        left: match &cut.left {
            Left::Log(log) => GroupLeft::Log {
                last: place(last(log)),
                proven: place(log.floor.unwrap_or(last(log))),
            },
            Left::Snapshot(log) => GroupLeft::Snapshot {
                index: log.start.index.0,
            },
            Left::Nothing => GroupLeft::Nothing,
            Left::Others => GroupLeft::Others,
        },
        unused: (cut.unused.entries, cut.unused.bytes),
    }
}

/// Begins a log with what is left, and with all that is not cut. The logs of before go then.
fn write(
    disk: &DirectoryDisk,
    identity: LogIdentity,
    found: &FoundLogs,
    cuts: Vec<Cut>,
) -> Result<(), StorageError> {
    let mut live = found.replicas.clone();
    let mut ended = Vec::new();
    for Cut { group, left, .. } in cuts {
        match left {
            Left::Log(log) | Left::Snapshot(log) => {
                live.insert(group, ReplicaLog { floor: None, ..*log });
            }
            Left::Nothing => ended.push(group),
            Left::Others => {}
        }
    }
    let live: Vec<ReplicaLog> = live.into_values().collect();
    let settings = LogSettings {
        segment_bytes: SEGMENT_BYTES,
    };
    let mut log = WorkerLog::begin(disk.clone(), settings, identity, &live)?;
    if !ended.is_empty() {
        ended.into_iter().for_each(|group| log.end(group));
        log.write()?;
        if let Some(job) = log.sync_job() {
            job.run()?;
        }
    }
    found.drop_former(disk)
}

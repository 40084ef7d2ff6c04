//! Looking for damage in a node's data directory, while no process uses it. Nothing in it is changed, but the file `lock`, which says
//! who had it last.
//!
//! *Deep*: the objects of snapshots are decoded, and logs are replayed onto them, as a start would. Absent: a hash to compare the outcome
//! with, as neither a snapshot nor a log has one; and what is in the folder `backup`, which each start removes.

use crate::kept::{self, image};
use backup::RunProgress;
use ids::{ClusterId, GroupId, NodeId};
use keyspace::SnapshotReceiver;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::{
    Damage, DataDirectory, DirectoryDisk, Disk, DiskFile, FoundLogs, Handover, Identity, MetaLog, PeerBook,
    RunMark, SnapshotName, SnapshotReader, StorageError, StoredReplica,
};

/// What was found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DirectoryFindings {
    /// What there is, for people: a line for each kind of file.
    pub text: String,
    /// What is wrong, each with its file and, if it has one, its place.
    pub damages: Vec<String>,
}

/// Whether this is the data directory of a node.
pub fn is_data_directory(path: &Path) -> bool {
    path.join("identity").is_file()
}

/// Looks at everything. Snapshots count as bytes that are read.
///
/// # Errors
/// A process uses the directory; it cannot be read, or was written by a later version; it was interrupted. In words. Damage is no
/// error: it is in what was found.
pub fn check_directory(
    path: &Path,
    is_deep: bool,
    progress: &dyn RunProgress,
    stop: &AtomicBool,
) -> Result<DirectoryFindings, String> {
    let directory = DataDirectory::open(path)
        .map_err(|error| format!("{error}: stop that first, as files change while they are read"))?;
    let mut check = DirectoryCheck {
        path,
        disk: directory.disk(),
        progress,
        stop,
        found: DirectoryFindings::default(),
    };
    check.run(is_deep)?;
    Ok(check.found)
}

struct DirectoryCheck<'a> {
    path: &'a Path,
    disk: DirectoryDisk,
    progress: &'a dyn RunProgress,
    stop: &'a AtomicBool,
    found: DirectoryFindings,
}

impl DirectoryCheck<'_> {
    fn run(&mut self, is_deep: bool) -> Result<(), String> {
        let identity = self.part("identity", Identity::read)?.flatten();
        let run = self.part("run mark", RunMark::read)?.flatten();
        self.part("book of peers", PeerBook::read)?;
        let meta = self.part("meta log", MetaLog::look)?.flatten();
        let written_from = run
            .as_ref()
            .and_then(|run| run.written_from(kept::kernel(&self.disk, run.mark.owner)));
        if let Some(run) = run {
            let copy = if run.is_copy {
                ", of a directory that was copied"
            } else {
                ""
            };
            let failed = if run.has_failed {
                ", after an error of the disk"
            } else {
                ""
            };
            self.say(format_args!(
                "run mark: of {} starts{copy}{failed}",
                run.mark.starts.len()
            ));
        }
        if let Some(meta) = meta {
            self.say(format_args!(
                "meta log: {} entries behind its snapshot",
                meta.entries.len()
            ));
        }
        let Some(identity) = identity else {
            self.say(format_args!(
                "without its identity nothing says whose logs and snapshots these are: they were not read"
            ));
            return Ok(());
        };
        let (cluster, node) = (identity.cluster, identity.node);
        self.say(format_args!(
            "identity: node {} of cluster {:032x}",
            node.0, cluster.0
        ));
        if let Some(groups) = self
            .part("hand-over", |disk| Handover::look(disk, node))?
            .flatten()
        {
            self.say(format_args!("hand-over: {groups} groups"));
        }
        self.progress.say("reading logs");
        let logs = self.part("logs", |disk| {
            storage::read_logs(disk, cluster, node, written_from)
        })?;
        if let Some(logs) = &logs {
            logs.damage.iter().for_each(|damage| self.note(damage));
            self.say(format_args!(
                "logs: {} files with {} groups",
                logs.segments.len(),
                logs.replicas.len()
            ));
        }
        let names = storage::snapshots(&self.disk).map_err(|error| error.to_string())?;
        self.snapshots(&names, (cluster, node), is_deep)?;
        match logs {
            Some(logs) if is_deep => self.replay(logs, &names, (cluster, node)),
            _ => Ok(()),
        }
    }

    /// Reads a part; `None` if it is damaged.
    fn part<T>(
        &mut self,
        what: &str,
        read: impl FnOnce(&DirectoryDisk) -> Result<T, StorageError>,
    ) -> Result<Option<T>, String> {
        if self.stop.load(Ordering::Relaxed) {
            return Err("interrupted".to_owned());
        }
        match read(&self.disk) {
            Ok(read) => Ok(Some(read)),
            Err(StorageError::Damaged(damage)) => {
                self.note(&damage);
                Ok(None)
            }
            Err(error) => Err(format!(
                "the {what} of {} cannot be read: {error}",
                self.path.display()
            )),
        }
    }

    fn note(&mut self, damage: &Damage) {
        let said = format!("{}/{damage}", self.path.display());
        // A head that two chains of logs share is met twice.
        if !self.found.damages.contains(&said) {
            self.found.damages.push(said);
        }
    }

    fn say(&mut self, what: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.found.text, "{what}.");
    }

    /// Bytes of a snapshot; 0 where it cannot be looked at, which reading it says.
    fn size(&self, name: &SnapshotName) -> u64 {
        let file = self.disk.open(&name.to_string()).ok().flatten();
        file.and_then(|file| file.size().ok()).unwrap_or(0)
    }

    /// Reads each snapshot to its end.
    fn snapshots(
        &mut self,
        names: &[SnapshotName],
        (cluster, node): (ClusterId, NodeId),
        is_deep: bool,
    ) -> Result<(), String> {
        let sizes: Vec<u64> = names.iter().map(|name| self.size(name)).collect();
        let (mut done, all) = (0, sizes.iter().sum());
        for (name, size) in names.iter().zip(sizes) {
            let stop = self.stop;
            let read = self.part("snapshots", |disk| {
                let mut reader = SnapshotReader::open(disk, name, cluster, node)?;
                let mut receiver = is_deep.then(SnapshotReceiver::new);
                let mut refusal = None;
                while let Some(chunk) = reader.next_chunk()? {
                    let taken = receiver
                        .as_mut()
                        .map_or(Ok(()), |receiver| receiver.take(&chunk).map(drop));
                    if let Err(error) = taken {
                        refusal = Some(format!("holds a state that this build cannot read: {error}"));
                        break;
                    }
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                let is_part = receiver.is_some_and(|receiver| receiver.finish().is_none());
                Ok(refusal.or_else(|| is_part.then(|| "holds a part of a state".to_owned())))
            })?;
            if stop.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            if let Some(why) = read.flatten() {
                let said = format!("{}/{name} {why}", self.path.display());
                self.found.damages.push(said);
            }
            done += size;
            self.progress.at("reading snapshots", done, all);
        }
        self.say(format_args!("snapshots: {}", names.len()));
        Ok(())
    }

    /// Replays each log onto its snapshot.
    fn replay(
        &mut self,
        logs: FoundLogs,
        names: &[SnapshotName],
        (cluster, node): (ClusterId, NodeId),
    ) -> Result<(), String> {
        let (groups, mut whole) = (logs.replicas.len(), 0);
        let bytes = |group: GroupId| -> u64 {
            let its = names.iter().filter(|name| name.group == group);
            its.map(|name| self.size(name)).sum()
        };
        let sizes: BTreeMap<GroupId, u64> = logs
            .replicas
            .keys()
            .map(|group| (*group, bytes(*group)))
            .collect();
        let (mut done, all) = (0, sizes.values().sum());
        for (group, log) in logs.replicas {
            if self.stop.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            let stored = StoredReplica::read(&self.disk, cluster, node, log, names);
            let sound = stored.map(image).and_then(|image| match image.is_sound() {
                true => Ok(()),
                false => Err("its log contradicts itself".to_owned()),
            });
            match sound {
                Ok(()) => whole += 1,
                Err(why) => {
                    let said = format!(
                        "{}: group {} cannot go on with what is here: {why}",
                        self.path.display(),
                        group.number()
                    );
                    self.found.damages.push(said);
                }
            }
            done += sizes[&group];
            self.progress.at("replaying", done, all);
        }
        self.say(format_args!("replayed: {whole} of {groups} groups"));
        Ok(())
    }
}

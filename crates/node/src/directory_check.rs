//! Looking for damage in a node's data directory, while no process uses it. Nothing in it is changed, but the file `lock`, which says
//! who had it last.
//!
//! *Deep*: the objects of snapshots are decoded, and logs are replayed onto them, as a start would. Files that are missing are noticed where
//! another one names them: the snapshot of each log; and what the meta log says that a node alone has, without which it does not start.
//! Absent: a hash to compare the outcome with, as neither a snapshot nor a log has one; and what is in the folder `backup`, which each start
//! removes.

use crate::kept::{self, image};
use crate::meta;
use backup::{BackupError, RunProgress, counted};
use control::HeldAlone;
use ids::{ClusterId, DurabilityMode, GroupId, NodeId};
use keyspace::SnapshotReceiver;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::{
    Damage, DataDirectory, DirectoryDisk, Disk, DiskFile, FoundLogs, FoundRun, Handover, Identity, MetaLog,
    MetaState, PeerBook, RunMark, SnapshotName, SnapshotReader, StorageError, StoredReplica,
};

/// How the file begins that says who a node is.
const IDENTITY: &[u8] = b"chorale identity";

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

/// Refuses a directory for backups that is the data directory of a node, or in one: backups are for when that is lost, and a start
/// removes what it does not know there.
///
/// # Errors
/// It is, in words that say what to do.
pub fn refuse_data_directory(target: &Path) -> Result<(), BackupError> {
    // What is not there yet is made in one that is.
    let mut above = target.ancestors();
    let there = above.find_map(|path| match path.as_os_str().is_empty() {
        true => Path::new(".").canonicalize().ok(),
        false => path.canonicalize().ok(),
    });
    let there = there.unwrap_or_default();
    match there.ancestors().find(|path| says_who_it_is(path)) {
        None => Ok(()),
        Some(data) => Err(BackupError::Failed(format!(
            "{} is the data directory of a node, and no place for backups: they are for when it is lost. Name a directory beside it, best \
             on another disk",
            data.display()
        ))),
    }
}

/// Whether a node has written here who it is. Others have files of that name, too.
fn says_who_it_is(path: &Path) -> bool {
    let mut first = Vec::new();
    let file = File::open(path.join("identity"));
    let read = file.and_then(|file| file.take(IDENTITY.len() as u64).read_to_end(&mut first));
    read.is_ok() && first == IDENTITY
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
        let book = self.part("book of peers", PeerBook::read)?;
        let meta = self.part("meta log", MetaLog::look)?;
        let written_from = run
            .as_ref()
            .and_then(|run| run.written_from(kept::kernel(&self.disk, run.mark.owner)));
        if let Some(run) = &run {
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
                "run mark: of {}{copy}{failed}",
                counted(run.mark.starts.len() as u64, "start")
            ));
        }
        if let Some(Some(meta)) = &meta {
            self.say(format_args!(
                "meta log: {} behind its snapshot",
                match meta.entries.len() {
                    1 => "1 entry".to_owned(),
                    count => format!("{count} entries"),
                }
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
            self.say(format_args!("hand-over: {}", counted(groups as u64, "group")));
        }
        self.progress.say("reading logs");
        let logs = self.part("logs", |disk| {
            storage::read_logs(disk, cluster, node, written_from)
        })?;
        if let Some(logs) = &logs {
            logs.damage.iter().for_each(|damage| self.note(damage));
            self.say(format_args!(
                "logs: {} with {}",
                counted(logs.segments.len() as u64, "file"),
                counted(logs.replicas.len() as u64, "group")
            ));
        }
        let names = storage::snapshots(&self.disk).map_err(|error| error.to_string())?;
        if let Some(logs) = &logs {
            let is_alone = book.is_some_and(|book| book.peers.is_empty());
            self.look_for_what_is_missing(node, run.as_ref(), meta, is_alone, logs)?;
        }
        self.snapshots(&names, (cluster, node), is_deep)?;
        match logs {
            Some(logs) if is_deep => self.replay(logs, &names, (cluster, node)),
            Some(logs) => {
                for log in logs.replicas.values() {
                    if StoredReplica::snapshots_for(log, &names).is_empty() {
                        self.cannot_go_on(log.group, &StoredReplica::without_snapshot(log));
                    }
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// What keeps a start from going on with what is here, though all that is here is whole: `meta` is none if its log is damaged, and
    /// none inside if there is none.
    fn look_for_what_is_missing(
        &mut self,
        node: NodeId,
        run: Option<&FoundRun>,
        meta: Option<Option<MetaState>>,
        is_alone: bool,
        logs: &FoundLogs,
    ) -> Result<(), String> {
        let is_unready = storage::is_unready(&self.disk).map_err(|error| error.to_string())?;
        let was_used = !is_unready || !logs.segments.is_empty();
        let no_meta_log = matches!(meta, Some(None));
        if no_meta_log && is_alone && was_used {
            self.is_missing(
                "meta-log",
                "which has the state of the cluster, and no other node is known",
            );
        }
        let Some(run) = run else {
            if !logs.segments.is_empty() && !self.is_damaged("run") {
                self.is_missing("run", "which says in what way the logs beside it were kept");
            }
            return Ok(());
        };
        if !DurabilityMode::of_code(run.mark.durability).is_some_and(DurabilityMode::writes) {
            return Ok(());
        }
        if run.is_copy {
            let said = format!(
                "{} is a copy of a directory that a node has used: a start does not go on with what it holds, unless the node is alone and is \
                 started with --accept-data-loss yes",
                self.path.display()
            );
            self.found.damages.push(said);
        }
        let held = meta.flatten().map(meta::restored_from);
        let Some(held) = held.and_then(|restored| HeldAlone::of(&restored, node, !is_unready)) else {
            return Ok(());
        };
        if !held.groups.is_empty() && !run.mark.starts.contains(&held.start) {
            let said = format!(
                "{}: the logs and meta-log are of different starts: one of them is older than the other",
                self.path.display()
            );
            self.found.damages.push(said);
        }
        for (group, incarnations) in held.groups {
            let log = logs.replicas.get(&group);
            if !log.is_some_and(|log| incarnations.contains(&log.incarnation)) {
                self.cannot_go_on(group, "no log has it, and no other node does");
            }
        }
        Ok(())
    }

    /// Whether this file was found to be damaged.
    fn is_damaged(&self, name: &str) -> bool {
        let file = format!("{}/{name} ", self.path.display());
        self.found.damages.iter().any(|said| said.starts_with(&file))
    }

    fn is_missing(&mut self, name: &str, what: &str) {
        let said = format!("{}/{name} is not there, {what}", self.path.display());
        self.found.damages.push(said);
    }

    fn cannot_go_on(&mut self, group: GroupId, why: &str) {
        let said = format!(
            "{}: group {} cannot go on with what is here: {why}",
            self.path.display(),
            group.number()
        );
        self.found.damages.push(said);
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
            let stored = StoredReplica::look(&self.disk, cluster, node, log, names);
            let sound = stored
                .map(image)
                .and_then(|(image, snapshot)| match image.is_sound() {
                    true => StoredReplica::read_state(&self.disk, cluster, node, &snapshot).map(drop),
                    false => Err("its log contradicts itself".to_owned()),
                });
            match sound {
                Ok(()) => whole += 1,
                Err(why) => self.cannot_go_on(group, &why),
            }
            done += sizes[&group];
            self.progress.at("replaying", done, all);
        }
        self.say(format_args!("replayed: {whole} of {groups} groups"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn no_place_for_backups_is_a_data_directory_and_what_is_in_it() {
        let folder = std::env::temp_dir().join(format!("chorale-no-place-{}", std::process::id()));
        let data = folder.join("data");
        fs::create_dir_all(data.join("deep")).expect("the temporary directory is writable");
        // A file of that name which is another thing.
        fs::write(folder.join("identity"), "-----BEGIN KEY-----").expect("there is room");
        fs::write(data.join("identity"), "chorale identity 1\nnode 3\n").expect("there is room");
        let why = |path: &Path| refuse_data_directory(path).err().map(|error| error.to_string());
        for path in ["", "deep", "deep/to/be/made", "deep/../backups"] {
            let why = why(&data.join(path)).unwrap_or_default();
            assert!(why.contains("data directory of a node"), "{path}: {why}");
        }
        for path in ["", "backups", "data/../backups"] {
            assert_eq!(why(&folder.join(path)), None, "{path}");
        }
        fs::remove_dir_all(&folder).expect("it is ours");
    }
}

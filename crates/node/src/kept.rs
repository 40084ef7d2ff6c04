//! What a node keeps of its groups on disk, from one process to the next, in modes that keep anything.
//!
//! ```text
//!   start     run mark --> logs and snapshots of earlier starts --> replicas, each with its state and its log
//!             --> the meta group is told whose memory is there --> logs of this start begin with what it confirms
//!   stop      logs are synced --> the run ends clean
//! ```
//!
//! This start is added to the mark of the last run before the cluster hears of it: one that was counted can be found again. A directory
//! that was copied is recognised by the mark, and so is a machine that went down while something was not synced.

use crate::disk::{Disk, FormerLogs, Seen, SnapshotFile};
use crate::lost_alone::{self, Refusal};
use crate::mailboxes::Mailboxes;
use crate::start_progress::{Load, StartProgress};
use crate::state_reads::StoredState;
use consensus::{Index, Term};
use control::HeldAlone;
use gateway::HandoverImage;
use ids::{ClusterId, DurabilityMode, GroupId, Groups, Incarnation, NodeId, Token};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use storage::{
    DirectoryDisk, FoundRun, Identity, KernelBoot, LogIdentity, LogSettings, ReplicaLog, RunMark,
    SnapshotName, StorageError, StoredReplica, WorkerDisk, WorkerLog,
};

/// Bytes of a segment of a worker's log.
pub(crate) const SEGMENT_BYTES: u64 = 64 << 20;

/// Between two words to an operator who waits.
const PROGRESS: Duration = Duration::from_secs(3);

/// Who else has what is kept here.
pub(crate) struct Company {
    /// Whether the node knows of no other one.
    pub(crate) is_alone: bool,
    /// What it alone is to have; none if there are others, or it was never ready.
    pub(crate) held: Option<HeldAlone>,
    /// Whether an operator has said that it may begin without.
    pub(crate) accepts_loss: bool,
}

/// What was found of earlier starts.
#[derive(Default)]
pub(crate) struct Kept {
    /// The replicas, without their states.
    pub(crate) images: Vec<HandoverImage>,
    /// Where these are.
    pub(crate) states: Vec<StoredState>,
    /// Those of them that may lack what they acknowledged.
    pub(crate) unclean: Vec<(GroupId, Incarnation)>,
    /// Whose memory it is.
    pub(crate) left_by: Vec<Token>,
    /// The logs that it stands in.
    pub(crate) earlier: EarlierLogs,
    /// How they were kept.
    pub(crate) mode: Option<DurabilityMode>,
}

/// What the cluster has confirmed of it.
#[derive(Default)]
pub(crate) struct Confirmed {
    /// The replicas that go on, and those that may lack the end, and whose data are set aside.
    pub(crate) images: Vec<HandoverImage>,
    /// Where the states of those are that have none yet.
    pub(crate) states: Vec<StoredState>,
    /// Groups that go on, or begin anew, with what earlier logs have: these go when all of them stand in the new ones.
    pub(crate) groups: Vec<GroupId>,
    /// The logs that they stand in.
    pub(crate) earlier: EarlierLogs,
    /// These stay in any case: they hold what nobody goes on with, and may be asked for.
    pub(crate) keeps_earlier: bool,
}

/// The logs of earlier starts.
#[derive(Default)]
pub(crate) struct EarlierLogs {
    segments: Vec<String>,
    /// The number of the last start that has a log; 0 if none has.
    start: u64,
    /// That of the last one whose log may lack something.
    doubted: u64,
    /// That of the last one whose log may lack what was written last.
    torn: u64,
    /// In which start's log each group stands.
    starts: BTreeMap<GroupId, u64>,
}

/// The kernel that runs. Where what is not synced is lost with the process, each has one of its own.
pub(crate) fn kernel(disk: &DirectoryDisk, token: Token) -> KernelBoot {
    if disk.is_held() {
        return KernelBoot(token.0.to_be_bytes());
    }
    let text = std::fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).map_or(KernelBoot::UNKNOWN, |id| KernelBoot(id.to_be_bytes()))
}

/// Reads what earlier starts kept, and marks the directory as that of this one. `None` if nothing is kept in it.
///
/// # Errors
/// The node must not start. A node that is alone does not if anything is damaged or gone: nobody else has what it would begin without.
pub(crate) fn take(
    disk: &DirectoryDisk,
    identity: &Identity,
    token: Token,
    company: &Company,
    progress: &StartProgress,
) -> Result<Option<Kept>, Refusal> {
    let Some(run) = RunMark::read(disk)? else {
        // Logs begin when their mark is there.
        return match storage::has_segments(disk)? && !company.accepts_loss {
            true => Err(lost_alone::no_mark()),
            false => Ok(None),
        };
    };
    let Some(mode) = DurabilityMode::of_code(run.mark.durability).filter(|mode| mode.writes()) else {
        return Ok(None);
    };
    let kernel = kernel(disk, token);
    storage::remove_unfinished_snapshots(disk)?;
    progress.reads(None);
    let is_whole_needed = company.is_alone && !company.accepts_loss;
    let mut kept = read(
        disk,
        identity,
        run.written_from(kernel),
        is_whole_needed,
        progress,
    )?;
    progress.waits();
    if run.is_copy && company.held.is_some() && !company.accepts_loss {
        return Err(lost_alone::copied());
    }
    if run.is_copy && !company.accepts_loss {
        tracing::warn!(
            directory = %disk.path().display(),
            "the data directory is a copy of one that a node has used: what it holds is not used, and other nodes fill this one again"
        );
        kept.images.clear();
    }
    let may_lack = is_unclean(&run, mode, kernel) || run.is_copy;
    kept.earlier.doubted = match may_lack {
        true => kept.earlier.start,
        false => run.mark.doubted,
    };
    kept.earlier.torn = run.torn_upto(kept.earlier.start, kernel);
    let is_doubted = |image: &&HandoverImage| kept.earlier.starts[&image.group] <= kept.earlier.doubted;
    let doubted = kept.images.iter().filter(is_doubted);
    kept.unclean = doubted.map(|image| (image.group, image.incarnation)).collect();
    kept.left_by.clone_from(&run.mark.starts);
    kept.mode = Some(mode);
    if let Some(held) = company.held.as_ref().filter(|_| !company.accepts_loss) {
        lost_alone::look(held, &kept, disk.path())?;
    }
    RunMark::add_start(disk, &run, token)?;
    Ok(Some(kept))
}

/// Whether something may be gone that was acknowledged.
fn is_unclean(run: &FoundRun, mode: DurabilityMode, kernel: KernelBoot) -> bool {
    let is_unclean = match mode {
        // What was acknowledged was synced.
        DurabilityMode::Strict => run.has_failed,
        DurabilityMode::Memory | DurabilityMode::Relaxed => run.is_unclean(kernel),
    };
    if run.has_failed {
        tracing::warn!(
            "the last run met an error of the disk: what it wrote last may be gone, so its replicas take part as new ones"
        );
    } else if is_unclean {
        tracing::warn!(
            "the machine went down while the last run had not synced everything: what it wrote last may be gone, so its replicas \
             take part as new ones"
        );
    }
    is_unclean
}

/// Replicas that are being looked at.
struct Reading<'a> {
    disk: &'a DirectoryDisk,
    identity: &'a Identity,
    names: &'a [SnapshotName],
    /// With the bytes of their snapshots, the largest last.
    left: Mutex<Vec<(u64, ReplicaLog)>>,
    read: Mutex<Read>,
    progress: &'a StartProgress,
}

/// Those that were looked at.
struct Read {
    images: Vec<HandoverImage>,
    states: Vec<StoredState>,
    of: usize,
    done: usize,
    told: Instant,
}

impl Reading<'_> {
    /// Looks at one after the other, until none is left.
    fn run(&self) {
        loop {
            let next = self.left.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((bytes, log)) = next else { return };
            let group = log.group.number();
            let (cluster, node) = (self.identity.cluster, self.identity.node);
            let stored = StoredReplica::look(self.disk, cluster, node, log, self.names);
            let image = stored
                .map(image)
                .and_then(|(image, snapshot)| match image.is_sound() {
                    true => Ok((image, snapshot)),
                    false => Err("its log contradicts itself".to_owned()),
                });
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            read.done += 1;
            self.progress.has_read_one(bytes);
            match image {
                Ok((image, snapshot)) => {
                    let group = image.group;
                    read.images.push(image);
                    read.states.push(StoredState {
                        bytes,
                        group,
                        snapshot,
                    });
                }
                Err(why) => {
                    tracing::warn!(group, why, "what was kept of a group is not enough to go on with")
                }
            }
            if read.told.elapsed() >= PROGRESS {
                read.told = Instant::now();
                let groups = format!("{} of {}", read.done, read.of);
                tracing::info!(groups, "looking at what was kept");
            }
        }
    }
}

/// A replica without its state, and where that is.
pub(crate) fn image(stored: StoredReplica) -> (HandoverImage, SnapshotName) {
    let image = HandoverImage {
        group: stored.group,
        incarnation: stored.incarnation,
        rest: Some((stored.point, stored.saved)),
        generation: Some(stored.generation),
        keyspace: None,
    };
    (image, stored.snapshot)
}

fn read(
    disk: &DirectoryDisk,
    identity: &Identity,
    written_from: Option<u64>,
    is_whole_needed: bool,
    progress: &StartProgress,
) -> Result<Kept, StorageError> {
    let began = Instant::now();
    let found = storage::read_logs(disk, identity.cluster, identity.node, written_from)?;
    for damage in &found.damage {
        tracing::error!(%damage, "a log is damaged in front of what is known to have been there");
    }
    if is_whole_needed && let Some(damage) = found.damaged.values().next().cloned() {
        tracing::error!(
            "nobody else has what stood there, so nothing is begun without it: `chorale admin recover --cut --dir {}` says what would go",
            disk.path().display()
        );
        return Err(damage.into());
    }
    let names = storage::snapshots(disk)?;
    for group in found.damaged.keys() {
        tell_damaged(*group, found.replicas.get(group));
    }
    // The largest are read first, so that the last thread is not left with one of them.
    let mut logs = Vec::new();
    for (group, log) in found.replicas {
        let its = names
            .iter()
            .filter(|name| name.group == group)
            .max_by_key(|name| name.index);
        let bytes = its.map_or(Ok(0), |name| storage::snapshot_bytes(disk, name))?;
        logs.push((bytes, log));
    }
    logs.sort_unstable_by_key(|(bytes, log)| (*bytes, log.group));
    progress.reads(Some(Load {
        groups: logs.len(),
        bytes: logs.iter().map(|(bytes, _)| bytes).sum(),
    }));
    let reading = Reading {
        progress,
        disk,
        identity,
        names: &names,
        read: Mutex::new(Read {
            images: Vec::new(),
            states: Vec::new(),
            of: logs.len(),
            done: 0,
            told: began,
        }),
        left: Mutex::new(logs),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| reading.run());
        }
    });
    let read = reading.read.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut images, states) = (read.images, read.states);
    images.sort_unstable_by_key(|image| image.group);
    tracing::info!(
        groups = images.len(),
        millis = began.elapsed().as_millis() as u64,
        "looked at what was kept on disk"
    );
    Ok(Kept {
        images,
        states,
        earlier: EarlierLogs {
            segments: found.segments,
            start: found.start,
            starts: found.starts,
            ..EarlierLogs::default()
        },
        ..Kept::default()
    })
}

/// Tells what becomes of a group whose log is damaged, of which this is left.
fn tell_damaged(group: GroupId, left: Option<&ReplicaLog>) {
    let group = group.number();
    let Some(log) = left else {
        tracing::error!(
            group,
            "what was kept of a group is not used, because of its log too little is left: its replica here begins as a new one"
        );
        return;
    };
    let place = |(term, index): (Term, Index)| format!("entry {} of term {}", index.0, term.0);
    let last = log.entries.last();
    let last = last.map_or((log.start.term, log.start.index), |last| (last.term, last.index));
    tracing::error!(
        group,
        last = place(last),
        floor = log.floor.map(place),
        "the log of a group is damaged: its replica goes on with what stands before that, and neither leads nor votes for whoever lacks \
         what it had, until others have filled it"
    );
}

/// A start that keeps nothing is about to serve: what is on disk is not to count for one after it.
///
/// # Errors
/// What the disk answers. The start must not go on.
pub(crate) fn keep_nothing(disk: &DirectoryDisk) -> Result<(), StorageError> {
    let Some(found) = RunMark::read(disk)? else {
        return Ok(());
    };
    if found.mark.durability != DurabilityMode::Memory.code() {
        RunMark::set_durability(disk, DurabilityMode::Memory.code())?;
    }
    storage::remove_replicas(disk)
}

/// What the logs of a start begin with.
pub(crate) struct NewLogs {
    pub(crate) disk: DirectoryDisk,
    pub(crate) mode: DurabilityMode,
    pub(crate) cluster: ClusterId,
    pub(crate) node: NodeId,
    pub(crate) token: Token,
    pub(crate) groups: Groups,
    pub(crate) kept: Confirmed,
    /// Groups that begin on this node.
    pub(crate) founded: Vec<GroupId>,
}

impl NewLogs {
    /// Begins the log of each worker.
    pub(crate) fn begin(self, workers: u16, mailboxes: &Arc<Mailboxes>) -> io::Result<Vec<Disk>> {
        let Confirmed {
            groups: kept,
            earlier,
            keeps_earlier,
            states,
            ..
        } = self.kept;
        if earlier.segments.is_empty() {
            // What may be there was not read, and is not to count beside what begins here.
            storage::remove_replicas(&self.disk).map_err(io::Error::other)?;
        }
        let (mode, gaps) = (self.mode.code(), (earlier.doubted, earlier.torn));
        let kernel = kernel(&self.disk, self.token);
        RunMark::write(&self.disk, kernel, self.token, mode, gaps).map_err(io::Error::other)?;
        storage::take_clean(&self.disk).map_err(io::Error::other)?;
        let segments = match keeps_earlier {
            true => {
                // What is set aside is told, and is not to be lost then.
                storage::sync_segments(&self.disk, &earlier.segments).map_err(io::Error::other)?;
                Vec::new()
            }
            false => earlier.segments,
        };
        let former = Arc::new(FormerLogs {
            disk: self.disk.clone(),
            left: Mutex::new((segments, kept.into_iter().chain(self.founded).collect())),
        });
        former.begun(&[]);
        let files = storage::snapshots(&self.disk).map_err(io::Error::other)?;
        let worker_of = |group| self.groups.worker_of(group, workers);
        let seen = Arc::new(Seen::new(workers));
        let mut all = Vec::new();
        for worker in 0..workers {
            let identity = LogIdentity {
                cluster: self.cluster,
                node: self.node,
                worker,
                token: self.token,
                start: earlier.start + 1,
            };
            let settings = LogSettings {
                segment_bytes: SEGMENT_BYTES,
            };
            let log =
                WorkerLog::begin(self.disk.clone(), settings, identity, &[]).map_err(io::Error::other)?;
            let its = files.iter().filter(|file| worker_of(file.group) == worker);
            let its: Vec<SnapshotName> = its.copied().collect();
            let looked = its.iter().map(|name| SnapshotFile::look(&self.disk, *name));
            let looked: Vec<SnapshotFile> = looked.collect();
            let unread = states.iter().map(|state| state.snapshot);
            let unread = unread.filter(|file| worker_of(file.group) == worker);
            let worker_disk = WorkerDisk::new(self.mode, log, its, unread.collect());
            all.push(Disk::begin(
                worker,
                self.mode,
                worker_disk,
                self.disk.clone(),
                (self.cluster, self.node),
                former.clone(),
                seen.clone(),
                mailboxes.clone(),
                &looked,
            )?);
        }
        Ok(all)
    }
}

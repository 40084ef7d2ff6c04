//! The disk of a worker, and the two threads beside its loop that wait for it: one syncs the log, the other writes snapshots.
//!
//! ```text
//!   loop      requests --> records --write--> segment --answers--> replicas         once a turn, or more often
//!               |  ^                    |
//!   log         |  '---- synced <-------'  fdatasync
//!   snapshots   '--> pieces of state --> files, of which the loop hears
//! ```
//!
//! An error of the log is final: what is on disk is not known, so the process ends, and the next start takes the directory for
//! one that was not left in order. A full disk is none: nothing is answered until there is room.

use crate::clock;
use crate::mailboxes::Mailboxes;
use gateway::Gateway;
use ids::{ClusterId, NodeId};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use storage::{
    DirectoryDisk, DirectoryFile, PrepareJob, Prepared, SnapshotDone, SnapshotJob, SnapshotStore,
    StorageError, SyncJob, Synced, WorkerDisk,
};

/// How often a log that found the disk full is tried again, and an operator is told.
const FULL_AGAIN: Duration = Duration::from_millis(100);
const FULL_TOLD: Duration = Duration::from_secs(5);

/// What has come of something that ran beside the loop.
enum Done {
    Synced(Result<Synced<DirectoryFile>, StorageError>),
    Prepared(Prepared<DirectoryFile>),
    Snapshot(SnapshotDone),
}

/// What the thread beside the one of the log is given.
enum Job {
    Snapshot(SnapshotJob),
    Prepare(PrepareJob<DirectoryDisk>),
}

/// What the threads have for the loop.
struct Results {
    done: Mutex<Vec<Done>>,
    mailboxes: Arc<Mailboxes>,
    worker: u16,
}

impl Results {
    fn push(&self, done: Done) {
        let mut all = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(done);
        drop(all);
        self.mailboxes.wake(self.worker);
    }

    fn take(&self) -> Vec<Done> {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What an earlier start left in the log's directory, until this one has it too. A node is one that was ready from then on: before,
/// groups that begin on it have acknowledged nothing.
pub(crate) struct FormerLogs {
    pub(crate) disk: DirectoryDisk,
    /// Segments, and the groups whose logs have not begun here.
    pub(crate) left: Mutex<(Vec<String>, Vec<ids::GroupId>)>,
}

impl FormerLogs {
    /// The logs of these have begun.
    pub(crate) fn begun(&self, groups: &[ids::GroupId]) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.1.retain(|group| !groups.contains(group));
        if left.1.is_empty() {
            if let Err(error) = storage::set_ready(&self.disk) {
                tracing::warn!(%error, "the next start will not know that this one was ready");
            }
            let segments = std::mem::take(&mut left.0);
            if let Err(error) = storage::drop_segments(&self.disk, &segments) {
                tracing::warn!(%error, "segments of an earlier log stay");
            }
        }
    }
}

/// See the file's header.
pub(crate) struct Disk {
    disk: WorkerDisk<DirectoryDisk>,
    directory: DirectoryDisk,
    former: Arc<FormerLogs>,
    results: Arc<Results>,
    to_sync: Option<mpsc::Sender<SyncJob<DirectoryFile>>>,
    to_snapshots: Option<mpsc::Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    /// When the disk was full, and when that was told.
    full: Option<(Instant, Instant)>,
}

impl Disk {
    pub(crate) fn begin(
        worker: u16,
        disk: WorkerDisk<DirectoryDisk>,
        directory: DirectoryDisk,
        (cluster, node): (ClusterId, NodeId),
        former: Arc<FormerLogs>,
        mailboxes: Arc<Mailboxes>,
    ) -> io::Result<Disk> {
        let results = Arc::new(Results {
            done: Mutex::default(),
            mailboxes,
            worker,
        });
        let (to_sync, syncs) = mpsc::channel::<SyncJob<DirectoryFile>>();
        let (to_snapshots, snapshots) = mpsc::channel::<Job>();
        let log_thread = {
            let results = results.clone();
            let thread = std::thread::Builder::new().name(format!("log-{worker}"));
            thread.spawn(move || {
                for job in syncs {
                    results.push(Done::Synced(job.run()));
                }
            })?
        };
        let snapshot_thread = {
            let (results, directory) = (results.clone(), directory.clone());
            let thread = std::thread::Builder::new().name(format!("snapshots-{worker}"));
            thread.spawn(move || {
                let mut store = SnapshotStore::new(directory, cluster, node);
                for job in snapshots {
                    match job {
                        Job::Prepare(job) => results.push(Done::Prepared(job.run())),
                        Job::Snapshot(job) => {
                            if let Some(done) = store.run(job) {
                                results.push(Done::Snapshot(done));
                            }
                        }
                    }
                }
            })?
        };
        Ok(Disk {
            disk,
            directory,
            former,
            results,
            to_sync: Some(to_sync),
            to_snapshots: Some(to_snapshots),
            threads: vec![log_thread, snapshot_thread],
            full: None,
        })
    }

    /// Hears of what has ended beside the loop.
    pub(crate) fn hear(&mut self, gateway: &mut Gateway) {
        for done in self.results.take() {
            match done {
                Done::Synced(Ok(synced)) => self.disk.on_synced(synced, clock::raw()),
                Done::Synced(Err(error)) => self.fail(&error),
                Done::Prepared(prepared) => match self.disk.on_prepared(prepared) {
                    Ok(()) | Err(StorageError::Full { .. }) => {}
                    Err(error) => self.fail(&error),
                },
                Done::Snapshot(done) => self.disk.on_snapshot(done),
            }
        }
        self.write();
        self.tell(gateway);
        self.leave_jobs();
    }

    /// Writes what the replicas of `gateway` want kept, and tells them what is. Whether anybody was told anything.
    pub(crate) fn keep(&mut self, gateway: &mut Gateway) -> bool {
        for task in gateway.take_disk_tasks() {
            self.disk.request(task.group, task.life, task.request);
        }
        self.write();
        let has_told = self.tell(gateway);
        self.leave_jobs();
        has_told
    }

    fn write(&mut self) {
        let now = Instant::now();
        if self.full.is_some_and(|(tried, _)| now < tried + FULL_AGAIN) {
            return;
        }
        match self.disk.write(clock::raw()) {
            Ok(()) => {
                if self.full.take().is_some() {
                    tracing::info!("there is room on the disk again: writes go on");
                }
            }
            // The next segment is on its way, and the loop is woken when it is there.
            Err(StorageError::Full { error, .. }) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error @ StorageError::Full { .. }) => {
                let told = self.full.map(|(_, told)| told);
                let tells = told.is_none_or(|told| now >= told + FULL_TOLD);
                if tells {
                    tracing::error!(
                        %error,
                        directory = %self.directory.path().display(),
                        "the disk is full: nothing is acknowledged until there is room"
                    );
                }
                self.full = Some((now, told.filter(|_| !tells).unwrap_or(now)));
            }
            Err(error) => self.fail(&error),
        }
    }

    fn tell(&mut self, gateway: &mut Gateway) -> bool {
        let answers = self.disk.take_answers();
        let has_any = !answers.is_empty();
        for (group, life, answer) in answers {
            gateway.on_disk(group, life, answer);
        }
        has_any
    }

    fn leave_jobs(&mut self) {
        let prepare = self.disk.prepare_job().map(Job::Prepare);
        let jobs = self.disk.take_jobs().into_iter().map(Job::Snapshot);
        for job in prepare.into_iter().chain(jobs) {
            // The threads end after this.
            if let Some(to_snapshots) = &self.to_snapshots {
                drop(to_snapshots.send(job));
            }
        }
        if let (Some(to_sync), Some(job)) = (&self.to_sync, self.disk.sync_job(clock::raw())) {
            drop(to_sync.send(job));
        }
        let begun = self.disk.take_begun();
        if !begun.is_empty() {
            self.former.begun(&begun);
        }
    }

    /// Ten times a second: a snapshot is asked for, if one is due.
    pub(crate) fn tend(&mut self, gateway: &mut Gateway) {
        match self.disk.rest(clock::raw()) {
            Ok(()) | Err(StorageError::Full { .. }) => {}
            Err(error) => self.fail(&error),
        }
        self.leave_jobs();
        if let Some(group) = self.disk.next_snapshot(clock::raw()) {
            gateway.store(group);
        }
    }

    /// How long until a sync is due.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let at = self.disk.sync_at()?;
        let due = at.since(clock::raw());
        // One that is due is under way, or goes as soon as that has ended.
        (due > Duration::ZERO).then_some(due)
    }

    /// The loop has ended: all that was written is synced.
    pub(crate) fn end(mut self) {
        (self.to_sync, self.to_snapshots) = (None, None);
        for thread in std::mem::take(&mut self.threads) {
            drop(thread.join());
        }
        for done in self.results.take() {
            match done {
                Done::Synced(Ok(synced)) => self.disk.on_synced(synced, clock::raw()),
                Done::Synced(Err(error)) => self.fail(&error),
                Done::Prepared(_) | Done::Snapshot(_) => {}
            }
        }
        match self.disk.finish(clock::raw()) {
            Ok(()) => {}
            // What is not written was told to nobody.
            Err(error @ StorageError::Full { .. }) => {
                tracing::error!(%error, "the node stops while its disk is full");
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Nobody knows what is on disk. Whatever this process would say from here on could be about what is not there.
    fn fail(&self, error: &StorageError) -> ! {
        tracing::error!(
            %error,
            directory = %self.directory.path().display(),
            "the log cannot be written: the node ends, and its next start takes part as one that may have lost what it wrote last"
        );
        if let Err(error) = storage::set_failed(&self.directory) {
            tracing::error!(%error, "and the mark of this run cannot be removed");
        }
        std::process::exit(1)
    }
}

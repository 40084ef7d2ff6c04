//! The disk of a worker, and the two threads beside its loop that wait for it: one syncs the log, the other writes snapshots.
//!
//! ```text
//!   loop      requests --> records --write--> segment --answers--> replicas         once a turn, or more often
//!               |  ^                    |
//!   log         |  '---- synced <-------'  fdatasync, or the loop itself (`sync_place.rs`)
//!   snapshots   '--> pieces of state --> files, of which the loop hears
//! ```
//!
//! An error of the log is final: what is on disk is not known, so the process ends, and the next start takes the directory for
//! one that was not left in order. A full disk is none: others lead, or writes are refused, until there is room. Nor is a slow one
//! (`storage/sync_judge.rs`), unless a sync does not end.
//!
//! One worker that finds no room, or whose syncs are slow, speaks for all: it is one disk.

use crate::clock;
use crate::free_space;
use crate::mailboxes::Mailboxes;
use crate::priority::{BesideWork, step_back};
use crate::snapshot_pace::SnapshotPace;
use crate::sync_place::SyncPlace;
use gateway::{DiskStats, Gateway, LogStats, SaveTask, SnapshotStats};
use ids::{ClusterId, DurabilityMode, GroupId, Incarnation, Monotonic, NodeId};
use peer_wire::DiskHealth;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use storage::{
    DirectoryDisk, DirectoryFile, DiskPace, PrepareJob, Prepared, Room, SnapshotDone, SnapshotJob,
    SnapshotName, SnapshotStore, StorageError, SyncJob, SyncJudge, Synced, WorkerDisk,
};

/// How often a log that found the disk full is tried again, and an operator is told.
const FULL_AGAIN: Duration = Duration::from_secs(1);
const FULL_TOLD: Duration = Duration::from_secs(5);

/// Syncs of which it is remembered what they took.
const SYNCS_REMEMBERED: usize = 256;
/// Bytes that a new segment leaves on the disk: snapshots are written there, which let segments go.
const ROOM_BYTES: u64 = 64 << 20;

/// How long a snapshot waits for its time, before it is seen that another rate was set.
const PACE_LOOK: Duration = Duration::from_millis(100);

/// How often it is looked whether a sync of the loop has ended.
const WATCH: Duration = Duration::from_secs(2);

/// How long a mark may take to be written when the process ends because the disk does not answer.
const MARK_MAX: Duration = Duration::from_secs(1);

/// What all workers have of the one disk.
pub(crate) struct Seen {
    /// How it is, as each has seen it.
    workers: Vec<SeenByOne>,
    /// How fast they write snapshots to it.
    pace: SnapshotPace,
}

/// What one worker has seen of it.
#[derive(Default)]
struct SeenByOne {
    is_short: AtomicBool,
    is_slow: AtomicBool,
    /// Microseconds; 0 if it knows nothing.
    sync_p99_micros: AtomicU64,
}

impl Seen {
    pub(crate) fn new(workers: u16) -> Seen {
        Seen {
            workers: (0..workers).map(|_| SeenByOne::default()).collect(),
            pace: SnapshotPace::new(Instant::now()),
        }
    }

    fn health(&self) -> DiskHealth {
        let any = |flag: fn(&SeenByOne) -> &AtomicBool| {
            let mut all = self.workers.iter().map(flag);
            all.any(|flag| flag.load(Ordering::Relaxed))
        };
        let micros = self
            .workers
            .iter()
            .map(|one| one.sync_p99_micros.load(Ordering::Relaxed));
        DiskHealth {
            is_short: any(|one| &one.is_short),
            is_slow: any(|one| &one.is_slow),
            sync_p99: micros
                .max()
                .filter(|micros| *micros > 0)
                .map(Duration::from_micros),
        }
    }
}

/// What has come of a sync, and how long it took.
type SyncResult = (Result<Synced<DirectoryFile>, StorageError>, Duration);

/// What has come of something that ran beside the loop.
enum Done {
    Synced(SyncResult),
    Prepared(Prepared<DirectoryFile>),
    /// And the file, if one counts now.
    Snapshot(SnapshotDone, Option<SnapshotFile>),
}

/// A snapshot that counts.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotFile {
    name: SnapshotName,
    bytes: u64,
    /// When it was written, Unix milliseconds.
    at: i64,
}

impl SnapshotFile {
    /// As the file system has it.
    pub(crate) fn look(directory: &DirectoryDisk, name: SnapshotName) -> SnapshotFile {
        let found = std::fs::metadata(directory.path().join(name.to_string())).ok();
        let written = found.as_ref().and_then(|found| found.modified().ok());
        let since = written.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        SnapshotFile {
            name,
            bytes: found.map_or(0, |found| found.len()),
            at: since.map_or_else(|| clock::now().0, |since| since.as_millis() as i64),
        }
    }

    fn replica(&self) -> (GroupId, Incarnation) {
        (self.name.group, self.name.incarnation)
    }
}

/// What is told of the disk, beside what the disk knows itself.
#[derive(Default)]
struct Told {
    /// When this log began, Unix milliseconds.
    began_at: i64,
    /// The newest snapshot of each replica that has one.
    newest: BTreeMap<(GroupId, Incarnation), SnapshotFile>,
    /// What the last syncs took, in nanoseconds.
    syncs: VecDeque<u64>,
    /// When the snapshot was asked for that is under way.
    storing: Option<(Instant, i64)>,
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

impl Told {
    fn note_sync(&mut self, stats: &LogStats, took: Duration) {
        let nanos = took.as_nanos() as u64;
        stats.syncs.count(nanos);
        stats.sync_nanos.add(nanos);
        self.syncs.push_back(nanos);
        if self.syncs.len() > SYNCS_REMEMBERED {
            self.syncs.pop_front();
        }
        let mut sorted: Vec<u64> = self.syncs.iter().copied().collect();
        let at = sorted.len() - 1 - sorted.len() / 100;
        let (_, p99, _) = sorted.select_nth_unstable(at);
        stats.sync_p99_micros.set(*p99 / 1_000);
    }

    fn note_snapshot(&mut self, stats: &SnapshotStats, done: &SnapshotDone, file: Option<SnapshotFile>) {
        if let Some(file) = file {
            stats.written.add(1);
            stats.has_failed.set(0);
            self.newest.insert(file.replica(), file);
            // What others sent, and what a replica begins with, was not asked for here.
            if let (SnapshotDone::Stored { .. }, Some((began, _))) = (done, self.storing) {
                stats.ended_at.set(clock::now().0 as u64);
                stats.took_millis.set(began.elapsed().as_millis() as u64);
            }
        } else if done.has_failed() {
            stats.failed.add(1);
            stats.has_failed.set(1);
        }
    }

    fn note_ages(&mut self, stats: &SnapshotStats, replicas: &[(GroupId, Incarnation)]) {
        // Those of a replica that is to begin yet are kept.
        let has_another = |group, incarnation| {
            let mut others = replicas.iter();
            others.any(|(its, other)| *its == group && *other != incarnation)
        };
        self.newest
            .retain(|(group, incarnation), _| !has_another(*group, *incarnation));
        let newest = |replica: &(GroupId, Incarnation)| self.newest.get(replica);
        let bytes = replicas.iter().filter_map(newest).map(|file| file.bytes);
        stats.bytes.set(bytes.sum());
        let at = |replica| newest(replica).map_or(self.began_at, |file| file.at);
        let oldest = replicas.iter().map(at).min().unwrap_or(0);
        stats.oldest.set(oldest as u64);
    }
}

fn sync(job: SyncJob<DirectoryFile>) -> SyncResult {
    let began = Instant::now();
    let result = job.run();
    (result, began.elapsed())
}

/// What the thread of snapshots has.
struct Beside {
    store: SnapshotStore<DirectoryDisk>,
    directory: DirectoryDisk,
    results: Arc<Results>,
    seen: Arc<Seen>,
}

impl Beside {
    /// Snapshots at their pace, and segments, for which the log waits, at once.
    fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        let mut paced: VecDeque<SnapshotJob> = VecDeque::new();
        loop {
            let wait = paced.front().map(|job| match job.bytes() {
                0 => Ok(()),
                bytes => self.seen.pace.take(bytes, Instant::now()),
            });
            let next = match wait {
                None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(Ok(())) => Err(RecvTimeoutError::Timeout),
                Some(Err(wait)) => jobs.recv_timeout(wait.min(PACE_LOOK)),
            };
            match next {
                Ok(Job::Prepare(job)) => self.prepare(job),
                Ok(Job::Snapshot(job)) => paced.push_back(job),
                Err(RecvTimeoutError::Timeout) if wait == Some(Ok(())) => {
                    paced.pop_front().into_iter().for_each(|job| self.store(job));
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The loop has ended.
                Err(RecvTimeoutError::Disconnected) => {
                    return paced.into_iter().for_each(|job| self.store(job));
                }
            }
        }
    }

    fn prepare(&self, job: PrepareJob<DirectoryDisk>) {
        let wanted = match job.new_bytes() {
            0 => 0,
            bytes => bytes + ROOM_BYTES,
        };
        // Where the system does not say what is free, it is tried.
        let has_room = free_space::bytes(self.directory.path()).is_none_or(|free| free >= wanted);
        let prepared = if has_room { job.run() } else { job.refuse() };
        self.results.push(Done::Prepared(prepared));
    }

    fn store(&mut self, job: SnapshotJob) {
        if let Some(done) = self.store.run(job) {
            let kept = done.kept();
            let file = kept.map(|kept| SnapshotFile::look(&self.directory, kept.name));
            self.results.push(Done::Snapshot(done, file));
        }
    }
}

/// A sync does not end. In `strict` nothing was acknowledged that it is to keep. In `relaxed` it was, and if the sync fails after
/// all nobody will hear of it: so the next start is to take this for an error, if the disk takes the mark.
fn end_hopeless(directory: &DirectoryDisk, mode: DurabilityMode) -> ! {
    tracing::error!(
        directory = %directory.path().display(),
        "a sync of the log has not ended for 30 seconds: the node ends"
    );
    if mode != DurabilityMode::Strict {
        let (marked, is_marked) = mpsc::channel();
        let directory = directory.clone();
        let mark = move || drop(marked.send(storage::set_failed(&directory)));
        drop(std::thread::Builder::new().spawn(mark));
        if !matches!(is_marked.recv_timeout(MARK_MAX), Ok(Ok(()))) {
            tracing::error!("and the mark of this run cannot be removed");
        }
    }
    std::process::exit(1)
}

/// See the file's header.
pub(crate) struct Disk {
    disk: WorkerDisk<DirectoryDisk>,
    directory: DirectoryDisk,
    former: Arc<FormerLogs>,
    worker: u16,
    mode: DurabilityMode,
    judge: SyncJudge,
    seen: Arc<Seen>,
    results: Arc<Results>,
    to_sync: Option<mpsc::Sender<SyncJob<DirectoryFile>>>,
    to_snapshots: Option<mpsc::Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    sync_place: SyncPlace,
    /// When the disk was full when something was to be written.
    full: Option<Instant>,
    /// What the system said of it.
    why: Option<StorageError>,
    /// When it was last told that nothing can be written.
    full_told: Option<Instant>,
    told: Told,
}

impl Disk {
    #[expect(clippy::too_many_arguments, reason = "they are the parts of a worker's disk")]
    pub(crate) fn begin(
        worker: u16,
        mode: DurabilityMode,
        disk: WorkerDisk<DirectoryDisk>,
        directory: DirectoryDisk,
        (cluster, node): (ClusterId, NodeId),
        former: Arc<FormerLogs>,
        seen: Arc<Seen>,
        mailboxes: Arc<Mailboxes>,
        files: &[SnapshotFile],
    ) -> io::Result<Disk> {
        let results = Arc::new(Results {
            done: Mutex::default(),
            mailboxes,
            worker,
        });
        let (to_sync, syncs) = mpsc::channel::<SyncJob<DirectoryFile>>();
        let (to_snapshots, snapshots) = mpsc::channel::<Job>();
        let sync_place = SyncPlace::default();
        let log_thread = {
            let (results, watch) = (results.clone(), sync_place.watch.clone());
            let directory = directory.clone();
            let thread = std::thread::Builder::new().name(format!("log-{worker}"));
            thread.spawn(move || {
                loop {
                    match syncs.recv_timeout(WATCH) {
                        Ok(job) => results.push(Done::Synced(sync(job))),
                        // Only what is synced is acknowledged where the loop syncs.
                        Err(RecvTimeoutError::Timeout) if watch.hangs(clock::raw()) => {
                            end_hopeless(&directory, DurabilityMode::Strict)
                        }
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            })?
        };
        let snapshot_thread = {
            let beside = Beside {
                store: SnapshotStore::new(directory.clone(), cluster, node),
                directory: directory.clone(),
                results: results.clone(),
                seen: seen.clone(),
            };
            let thread = std::thread::Builder::new().name(format!("snapshots-{worker}"));
            thread.spawn(move || {
                step_back(BesideWork::Snapshots);
                beside.run(&snapshots);
            })?
        };
        Ok(Disk {
            disk,
            directory,
            former,
            worker,
            mode,
            judge: SyncJudge::new(mode),
            seen,
            results,
            to_sync: Some(to_sync),
            to_snapshots: Some(to_snapshots),
            threads: vec![log_thread, snapshot_thread],
            sync_place,
            full: None,
            why: None,
            full_told: None,
            told: Told {
                began_at: clock::now().0,
                newest: files.iter().map(|file| (file.replica(), *file)).collect(),
                ..Told::default()
            },
        })
    }

    /// The mode in which it acknowledges.
    pub(crate) fn mode(&self) -> DurabilityMode {
        self.mode
    }

    /// It acknowledges in another mode from here on, which writes too.
    pub(crate) fn set_mode(&mut self, mode: DurabilityMode) {
        self.mode = mode;
        self.disk.set_mode(mode);
        self.judge.set_mode(mode);
    }

    /// Whether whatever was acknowledged here is kept as the mode demands.
    pub(crate) fn is_reached(&self) -> bool {
        // What groups of an earlier start have that are not in this log yet may not be synced there.
        let has_former = || {
            let left = self.former.left.lock().unwrap_or_else(PoisonError::into_inner);
            !left.1.is_empty()
        };
        self.disk.is_reached() && (self.mode != DurabilityMode::Strict || !has_former())
    }

    /// Nothing is to be kept here any more. The threads that end what they are at: until then they write to the directory.
    pub(crate) fn give_up(mut self, gateway: &mut Gateway) -> Vec<JoinHandle<()>> {
        (self.to_sync, self.to_snapshots) = (None, None);
        // Without logs a node is one that was ready as soon as it serves.
        let left = self.former.left.lock().map(|left| left.1.clone());
        self.former.begun(&left.unwrap_or_default());
        let seen = &self.seen.workers[usize::from(self.worker)];
        seen.is_short.store(false, Ordering::Relaxed);
        seen.is_slow.store(false, Ordering::Relaxed);
        gateway.set_disk_health(DiskHealth::default());
        let stats = &gateway.stats().disk.log;
        stats.is_full.set(0);
        stats.unsynced_bytes.set(0);
        stats.unsynced_millis.set(0);
        let (saves, syncs) = self.disk.give_up_all();
        saves
            .into_iter()
            .for_each(|number| gateway.on_saved(number, false));
        syncs
            .into_iter()
            .for_each(|number| gateway.on_synced(number, &[]));
        self.threads
    }

    /// Hears of what has ended beside the loop.
    pub(crate) fn hear(&mut self, gateway: &mut Gateway) {
        let all = self.results.take();
        let is_news = !all.is_empty();
        for done in all {
            match done {
                Done::Synced(result) => self.on_synced(result, &gateway.stats().disk.log),
                Done::Prepared(prepared) => match self.disk.on_prepared(prepared) {
                    Ok(()) => {}
                    Err(error @ StorageError::Full { .. }) => self.why = Some(error),
                    Err(error) => self.fail(&error),
                },
                Done::Snapshot(done, file) => {
                    self.told
                        .note_snapshot(&gateway.stats().disk.snapshots, &done, file);
                    self.disk.on_snapshot(done);
                }
            }
        }
        let now = clock::raw();
        self.write(now);
        if is_news || self.full.is_some() || self.disk.room() > Room::Enough {
            self.look_at_room(gateway);
        }
        self.tell(gateway);
        if self.disk.has_saves() {
            self.begin_snapshot(gateway);
        }
        if is_news || gateway.is_changing_durability() {
            self.look_at_in_use(gateway, now);
        }
        self.leave_jobs(now);
        if is_news {
            self.note(&gateway.stats().disk);
        }
    }

    /// Whether logs of replicas in use begin. They do one after the other: what is written meanwhile keeps segments of the log.
    fn look_at_in_use(&mut self, gateway: &mut Gateway, now: Monotonic) {
        if let Some(group) = self.disk.stalled_in_use(now) {
            tracing::warn!(
                group = group.number(),
                "a log that is to begin begins anew: its snapshot cannot be stored, or the disk is full"
            );
            gateway.keep_anew(group);
        } else if gateway.is_changing_durability() && !self.disk.has_in_use() {
            gateway.keep_next();
        }
    }

    /// The state of a group was read from the snapshot that a former start left.
    pub(crate) fn on_state_read(&mut self, group: GroupId) {
        self.disk.on_state_read(group);
    }

    /// Bytes that are acknowledged at once when [`Disk::keep`] writes them next.
    pub(crate) fn promise(&mut self) -> usize {
        match self.full {
            Some(_) => 0,
            None => self.disk.promise(clock::raw()) as usize,
        }
    }

    /// Writes what the replicas of `gateway` want kept, and tells them what is. Whether anybody was told anything.
    pub(crate) fn keep(&mut self, gateway: &mut Gateway) -> bool {
        for task in gateway.take_disk_tasks() {
            self.disk.request(task.group, task.life, task.request);
        }
        let now = clock::raw();
        self.write(now);
        if self.sync_place.is_here()
            && let Some(job) = self.disk.sync_job(now)
        {
            let now = clock::raw();
            self.judge.begins(now);
            self.sync_place.watch.begins(now);
            let result = sync(job);
            self.sync_place.watch.ended();
            self.on_synced(result, &gateway.stats().disk.log);
        }
        let has_told = self.tell(gateway);
        self.leave_jobs(now);
        has_told
    }

    fn on_synced(&mut self, (result, took): SyncResult, stats: &LogStats) {
        self.sync_place.took(took);
        match result {
            Ok(synced) => {
                let now = clock::raw();
                self.judge.ended(now);
                self.disk.on_synced(synced, now);
                self.told.note_sync(stats, took);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn write(&mut self, now: Monotonic) {
        if let Some(tried) = self.full {
            let now = Instant::now();
            if now < tried + FULL_AGAIN {
                return;
            }
        }
        match self.disk.write(now) {
            Ok(()) => self.full = None,
            // The next segment is on its way, and the loop is woken when it is there.
            Err(StorageError::Full { error, .. }) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error @ StorageError::Full { .. }) => {
                self.full = Some(Instant::now());
                self.why = Some(error);
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Whether there is room for what comes: all workers, other nodes and the operator hear of it.
    fn look_at_room(&mut self, gateway: &mut Gateway) {
        let room = match self.full {
            Some(_) => Room::None,
            None => self.disk.room(),
        };
        // As long as nobody relies on the log, one that cannot grow is no reason to refuse what is kept in memory.
        let is_enough = match gateway.is_changing_durability() {
            true => Room::Short,
            false => Room::Enough,
        };
        let is_short = room > is_enough;
        let own = &self.seen.workers[usize::from(self.worker)].is_short;
        if own.load(Ordering::Relaxed) != is_short {
            let was_short = self.seen.health().is_short;
            own.store(is_short, Ordering::Relaxed);
            let directory = self.directory.path().display();
            let why = self.why.as_ref().map(tracing::field::display);
            match (was_short, self.seen.health().is_short) {
                (false, true) => tracing::error!(
                    error = why,
                    %directory,
                    "the disk is full: there is no room for another segment of the log. Other nodes lead, if theirs have room; else \
                     writes are refused with MISCONF until there is room"
                ),
                (true, false) => {
                    tracing::info!(%directory, "there is room on the disk again: writes go on");
                }
                (false, false) | (true, true) => {}
            }
        }
        if room < Room::None {
            self.full_told = None;
        } else if self.full_told.is_none_or(|told| told.elapsed() >= FULL_TOLD) {
            self.full_told = Some(Instant::now());
            tracing::error!(
                error = self.why.as_ref().map(tracing::field::display),
                directory = %self.directory.path().display(),
                worker = self.worker,
                "the disk is full: nothing is acknowledged until there is room"
            );
        }
        gateway.set_disk_health(self.seen.health());
    }

    /// Whether the disk is fast enough to lead with.
    fn look_at_syncs(&mut self, gateway: &Gateway) {
        let now = clock::raw();
        let own = &self.seen.workers[usize::from(self.worker)];
        let p99 = self.judge.p99(now);
        let micros = p99.map_or(0, |p99| p99.as_micros() as u64);
        own.sync_p99_micros.store(micros, Ordering::Relaxed);
        let pace = self.judge.judge(now, &gateway.other_sync_p99s());
        if pace == DiskPace::Hopeless {
            end_hopeless(&self.directory, self.mode);
        }
        let is_slow = pace > DiskPace::Fit;
        if own.is_slow.load(Ordering::Relaxed) != is_slow {
            let was_slow = self.seen.health().is_slow;
            own.is_slow.store(is_slow, Ordering::Relaxed);
            let directory = self.directory.path().display();
            match (was_slow, self.seen.health().is_slow) {
                (false, true) => tracing::warn!(
                    %directory,
                    sync_p99_micros = micros,
                    "syncs of the disk take too long: other nodes lead, where theirs are faster"
                ),
                (true, false) => {
                    tracing::info!(%directory, "syncs of the disk are fast enough again to lead");
                }
                (false, false) | (true, true) => {}
            }
        }
    }

    fn tell(&mut self, gateway: &mut Gateway) -> bool {
        let answers = self.disk.take_answers();
        let has_any = !answers.is_empty();
        for (group, life, answer) in answers {
            gateway.on_disk(group, life, answer);
        }
        for (number, groups) in self.disk.take_forced() {
            gateway.on_synced(number, &groups);
        }
        for (number, is_kept) in self.disk.take_saved() {
            gateway.on_saved(number, is_kept);
        }
        has_any
    }

    fn leave_jobs(&mut self, now: Monotonic) {
        if let Some(job) = self.disk.prepare_job(now) {
            self.leave_job(Job::Prepare(job));
        }
        for job in self.disk.take_jobs() {
            self.leave_job(Job::Snapshot(job));
        }
        if let (Some(to_sync), Some(job)) = (&self.to_sync, self.disk.sync_job(now)) {
            self.judge.begins(now);
            drop(to_sync.send(job));
        }
        let begun = self.disk.take_begun();
        if !begun.is_empty() {
            self.former.begun(&begun);
        }
    }

    fn leave_job(&self, job: Job) {
        // The threads end after this.
        if let Some(to_snapshots) = &self.to_snapshots {
            drop(to_snapshots.send(job));
        }
    }

    /// Ten times a second: a snapshot is asked for, if one is due, and written at this rate.
    pub(crate) fn tend(&mut self, gateway: &mut Gateway, snapshot_rate: u64) {
        self.seen.pace.set_rate(snapshot_rate);
        let now = clock::raw();
        match self.disk.rest(now) {
            Ok(()) | Err(StorageError::Full { .. }) => {}
            Err(error) => self.fail(&error),
        }
        self.look_at_syncs(gateway);
        if !matches!(self.disk.room(), Room::Enough) {
            // What was held back may fit now.
            self.write(now);
        }
        self.look_at_room(gateway);
        self.look_at_in_use(gateway, now);
        self.tell(gateway);
        self.leave_jobs(now);
        self.look_at_place(gateway);
        self.begin_snapshot(gateway);
        self.note(&gateway.stats().disk);
    }

    /// Whether syncs are for the loop from here on.
    fn look_at_place(&mut self, gateway: &Gateway) {
        let may_be_here = self.disk.answers_what_is_synced() && gateway.is_alone();
        let stats = gateway.stats();
        let served = stats.hits.get() + stats.misses.get() + stats.hops.get();
        self.sync_place.look(may_be_here, served);
    }

    /// Snapshots are to be stored, and [`Gateway::on_saved`] is told when they are.
    pub(crate) fn save(&mut self, save: SaveTask, gateway: &mut Gateway) {
        self.disk.save(save.number, save.wanted);
        self.begin_snapshot(gateway);
        self.note(&gateway.stats().disk);
        self.tell(gateway);
    }

    /// What is written is to be synced, and [`Gateway::on_synced`] is told when it is.
    pub(crate) fn sync(&mut self, number: u64, gateway: &mut Gateway) {
        self.disk.force_sync(number);
        self.tell(gateway);
        self.leave_jobs(clock::raw());
    }

    /// Asks for the snapshot that is due next, if one is.
    fn begin_snapshot(&mut self, gateway: &mut Gateway) {
        if let Some(group) = self.disk.next_snapshot(clock::raw()) {
            self.told.storing = Some((Instant::now(), clock::now().0));
            gateway.store(group);
        }
    }

    /// Writes down what there is to be told.
    fn note(&mut self, stats: &DiskStats) {
        let (log, stats_of_log) = (self.disk.log(), &stats.log);
        stats_of_log.bytes.set(log.bytes());
        stats_of_log.segments.set(log.segments());
        stats_of_log.written_bytes.set(log.written_bytes());
        stats_of_log.batches.set(log.batches());
        stats_of_log.unsynced_bytes.set(log.unsynced_bytes());
        let unsynced = self.disk.unsynced_since();
        let age = unsynced.map_or(Duration::ZERO, |since| clock::raw().since(since));
        stats_of_log.unsynced_millis.set(age.as_millis() as u64);
        let is_full = self.full.is_some() || self.disk.room() > Room::Enough;
        stats_of_log.is_full.set(is_full.into());
        let replicas = self.disk.logged().map(|owner| (owner.group, owner.incarnation));
        let replicas: Vec<(GroupId, Incarnation)> = replicas.collect();
        self.told.note_ages(&stats.snapshots, &replicas);
        if !self.disk.is_storing() {
            self.told.storing = None;
        }
        let since = self.told.storing.map_or(0, |(_, at)| at as u64);
        stats.snapshots.storing_since.set(since);
    }

    /// How long until a sync is due, or what is written in part can be gone on with.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        if self.full.is_none() && self.disk.goes_on() {
            return Some(Duration::ZERO);
        }
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
                Done::Synced((Ok(synced), _)) => self.disk.on_synced(synced, clock::raw()),
                Done::Synced((Err(error), _)) => self.fail(&error),
                Done::Prepared(_) | Done::Snapshot(..) => {}
            }
        }
        match self.disk.finish(clock::raw()) {
            // All is synced: logs that have begun have, and whoever stops in its first second was ready all the same.
            Ok(()) => {
                let begun = self.disk.take_begun();
                self.former.begun(&begun);
            }
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

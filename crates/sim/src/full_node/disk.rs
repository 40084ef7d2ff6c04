//! The disk of a worker: what production does on threads beside the loop, each job in its time.
//!
//! ```text
//!   requests --> WorkerDisk --write--> log          at once, as the loop does it
//!                    |  ^
//!                    |  '-- what has ended <-- syncs, snapshots     later; what the job saw of the log is drawn
//!                    '--------------------------------^
//! ```

use crate::clock::{MICROS, MILLIS, lent};
use gateway::{DiskTask, Gateway};
use ids::{DurabilityMode, GroupId, Monotonic, Prng};
use peer_wire::DiskHealth;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use storage::{
    DiskPace, Room, SimDisk, SimFile, SnapshotDone, SnapshotJob, SnapshotStore, StorageError, SyncJob,
    SyncJudge, Synced, WorkerDisk,
};

/// How often a snapshot may be asked for, as in production.
const TEND: Duration = Duration::from_millis(100);

/// What was left by an earlier start, and the groups whose logs have not begun in this one.
pub(crate) type Former = Rc<RefCell<(Vec<String>, Vec<GroupId>)>>;

/// A sync on its way: one that is carried out when it ends keeps what was written meanwhile, too.
enum Syncing {
    AtItsEnd(SyncJob<SimFile>),
    AtOnce(Result<Synced<SimFile>, StorageError>),
}

/// See the file's header.
pub(crate) struct Disk {
    disk: WorkerDisk<SimDisk>,
    files: SimDisk,
    store: SnapshotStore<SimDisk>,
    former: Former,
    /// When the one under way ends, if the disk is not slowed down.
    syncing: Option<(Monotonic, Syncing)>,
    mode: DurabilityMode,
    judge: SyncJudge,
    pace: DiskPace,
    sync_p99: Option<Duration>,
    jobs: VecDeque<(Monotonic, SnapshotJob)>,
    /// How long a job takes at most, in nanoseconds.
    slowness: u64,
    prng: Prng,
    tend_at: Monotonic,
    /// Why nothing more is written: the process is to end.
    failed: Option<StorageError>,
    /// The disk was full when something was to be written.
    is_full: bool,
}

impl Disk {
    pub(crate) fn new(
        disk: WorkerDisk<SimDisk>,
        files: SimDisk,
        store: SnapshotStore<SimDisk>,
        former: Former,
        mode: DurabilityMode,
        mut prng: Prng,
    ) -> Disk {
        Disk {
            disk,
            files,
            store,
            former,
            syncing: None,
            mode,
            judge: SyncJudge::new(mode),
            pace: DiskPace::Fit,
            sync_p99: None,
            jobs: VecDeque::new(),
            slowness: [50 * MICROS, 2 * MILLIS, 10 * MILLIS, 40 * MILLIS][prng.below(4) as usize],
            prng,
            tend_at: Monotonic(0),
            failed: None,
            is_full: false,
        }
    }

    /// It acknowledges in this mode from here on.
    pub(crate) fn set_mode(&mut self, mode: DurabilityMode) {
        if self.mode != mode {
            self.mode = mode;
            self.disk.set_mode(mode);
            self.judge.set_mode(mode);
        }
    }

    /// Whether whatever was acknowledged here is kept as the mode demands.
    pub(crate) fn is_reached(&self) -> bool {
        let has_former = !self.former.borrow().1.is_empty();
        self.failed.is_none()
            && self.disk.is_reached()
            && (self.mode != DurabilityMode::Strict || !has_former)
    }

    /// Nothing is to be kept here any more.
    pub(crate) fn give_up(self, gateway: &mut Gateway) {
        gateway.set_disk_health(DiskHealth::default());
        let (saves, syncs) = self.disk.give_up_all();
        saves
            .into_iter()
            .for_each(|number| gateway.on_saved(number, false));
        syncs
            .into_iter()
            .for_each(|number| gateway.on_synced(number, &[]));
    }

    /// The frames of the log that are written, and that are synced.
    pub(crate) fn frames(&self) -> (u64, u64) {
        let log = self.disk.log();
        (log.written(), log.synced())
    }

    /// Why the process is to end.
    pub(crate) fn failed(&self) -> Option<&StorageError> {
        self.failed.as_ref()
    }

    /// Whether it has failed, known or not known yet.
    pub(crate) fn is_failing(&self) -> bool {
        let syncing = self.syncing.as_ref();
        self.failed.is_some()
            || syncing.is_some_and(|(_, syncing)| matches!(syncing, Syncing::AtOnce(Err(_))))
    }

    /// When something ends, or is due.
    pub(crate) fn next_due(&self) -> Option<Monotonic> {
        let delay = self.files.delay();
        let syncing = self.syncing.as_ref().filter(|_| !self.files.hangs());
        let syncing = syncing.map(|(at, _)| at.after(delay));
        let sync_at = self.disk.sync_at().filter(|_| self.syncing.is_none());
        let job = self.jobs.front().map(|(at, _)| *at);
        let again = match self.is_full {
            true => Some(lent().after(TEND)),
            false => self.disk.goes_on().then(lent),
        };
        [syncing, sync_at, job, again].into_iter().flatten().min()
    }

    /// Hears of what has ended beside the loop.
    pub(crate) fn hear(&mut self, gateway: &mut Gateway) {
        if self.failed.is_some() {
            return;
        }
        let now = lent();
        let delay = self.files.delay();
        let hangs = self.files.hangs();
        let ended = self.syncing.take_if(|(at, _)| at.after(delay) <= now && !hangs);
        if let Some((_, syncing)) = ended {
            self.judge.ended(now);
            let synced = match syncing {
                Syncing::AtItsEnd(job) => job.run(),
                Syncing::AtOnce(synced) => synced,
            };
            match synced {
                Ok(synced) => self.disk.on_synced(synced, now),
                Err(error) => return self.fail(error),
            }
        }
        while let Some((_, job)) = self.jobs.pop_front_if(|(at, _)| *at <= now) {
            let done: Option<SnapshotDone> = self.store.run(job);
            done.into_iter().for_each(|done| self.disk.on_snapshot(done));
        }
        self.write();
        self.tell_health(gateway);
        self.tell(gateway);
        if let Some(group) = self.disk.stalled_in_use(now) {
            gateway.keep_anew(group);
        } else if gateway.is_changing_durability() && !self.disk.has_in_use() {
            gateway.keep_next();
        }
        self.leave_jobs();
    }

    /// Whether there is room, and whether the disk is fast enough, as the process and others hear of it.
    fn tell_health(&mut self, gateway: &mut Gateway) {
        let is_enough = match gateway.is_changing_durability() {
            true => Room::Short,
            false => Room::Enough,
        };
        gateway.set_disk_health(DiskHealth {
            is_short: self.is_full || self.disk.room() > is_enough,
            is_slow: self.pace > DiskPace::Fit,
            sync_p99: self.sync_p99,
        });
    }

    /// The state of a group was read from the snapshot that a former start left.
    pub(crate) fn on_state_read(&mut self, group: GroupId) {
        self.disk.on_state_read(group);
    }

    /// Bytes that are acknowledged at once when they are written next.
    pub(crate) fn promise(&mut self) -> usize {
        match self.is_full || self.failed.is_some() {
            true => 0,
            false => self.disk.promise(lent()) as usize,
        }
    }

    /// Writes what the replicas want kept, and tells them what is. Whether anybody was told anything.
    pub(crate) fn keep(&mut self, gateway: &mut Gateway) -> bool {
        let tasks: Vec<DiskTask> = gateway.take_disk_tasks().collect();
        if self.failed.is_some() {
            return false;
        }
        for task in tasks {
            self.disk.request(task.group, task.life, task.request);
        }
        for number in gateway.take_syncs() {
            self.disk.force_sync(number);
        }
        for save in gateway.take_saves() {
            self.disk.save(save.number, save.wanted);
        }
        self.write();
        let has_told = self.tell(gateway);
        self.leave_jobs();
        has_told
    }

    fn write(&mut self) {
        match self.disk.write(lent()) {
            Ok(()) => self.is_full = false,
            Err(StorageError::Full { .. }) => self.is_full = true,
            Err(error) => self.fail(error),
        }
    }

    fn tell(&mut self, gateway: &mut Gateway) -> bool {
        if self.failed.is_some() {
            return false;
        }
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

    fn leave_jobs(&mut self) {
        if self.failed.is_some() {
            return;
        }
        let now = lent();
        if self.prng.below(2) == 0
            && let Some(job) = self.disk.prepare_job(now)
        {
            match self.disk.on_prepared(job.run()) {
                Ok(()) | Err(StorageError::Full { .. }) => {}
                Err(error) => return self.fail(error),
            }
        }
        for job in self.disk.take_jobs() {
            let after = self.jobs.back().map_or(now, |(at, _)| (*at).max(now));
            let takes = Duration::from_nanos(self.prng.below(self.slowness));
            self.jobs.push_back((after.after(takes), job));
        }
        if self.syncing.is_none()
            && let Some(job) = self.disk.sync_job(now)
        {
            let takes = Duration::from_nanos(self.prng.below(self.slowness));
            self.judge.begins(now);
            let syncing = match self.prng.below(2) {
                0 => Syncing::AtItsEnd(job),
                _ => Syncing::AtOnce(job.run()),
            };
            self.syncing = Some((now.after(takes), syncing));
        }
        let begun = self.disk.take_begun();
        let former = &mut *self.former.borrow_mut();
        former.1.retain(|group| !begun.contains(group));
        if former.1.is_empty() && !former.0.is_empty() {
            let segments = std::mem::take(&mut former.0);
            // What is left is in order: the next start finds it once more.
            drop(storage::drop_segments(&self.files, &segments));
        }
    }

    /// Asks for a snapshot, if one is due.
    pub(crate) fn tend(&mut self, gateway: &mut Gateway) {
        let now = lent();
        if now < self.tend_at || self.failed.is_some() {
            return;
        }
        self.tend_at = now.after(TEND);
        self.sync_p99 = self.judge.p99(now);
        self.pace = self.judge.judge(now, &gateway.other_sync_p99s());
        if self.pace == DiskPace::Hopeless {
            return self.fail(hanging());
        }
        self.write();
        self.tell_health(gateway);
        self.tell(gateway);
        match self.disk.rest(now) {
            Ok(()) | Err(StorageError::Full { .. }) => {}
            Err(error) => return self.fail(error),
        }
        self.leave_jobs();
        if let Some(group) = self.disk.next_snapshot(now) {
            gateway.store(group);
        }
    }

    /// The process ends in order.
    pub(crate) fn finish(&mut self) -> Result<(), StorageError> {
        if self.files.hangs() {
            // Nobody waits for it for ever.
            return Err(hanging());
        }
        if let Some((_, syncing)) = self.syncing.take() {
            let synced = match syncing {
                Syncing::AtItsEnd(job) => job.run()?,
                Syncing::AtOnce(synced) => synced?,
            };
            self.disk.on_synced(synced, lent());
        }
        self.disk.finish(lent())
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.disk.check()
    }

    fn fail(&mut self, error: StorageError) {
        self.failed.get_or_insert(error);
    }
}

/// A sync that has not ended, and is not waited for any longer.
fn hanging() -> StorageError {
    StorageError::Io {
        what: "sync",
        file: "the log".to_owned(),
        error: io::ErrorKind::TimedOut.into(),
    }
}
